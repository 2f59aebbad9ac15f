/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/fake_clock.h"

static int64_t fake_now_ns(void *context) {
  const struct fake_clock *clock = context;
  return clock->now_ns;
}

void fake_clock_init(struct fake_clock *clock, int64_t now_ns) {
  clock->base = (struct weir_clock){
      .size = sizeof(struct weir_clock), .now_ns = fake_now_ns, .context = clock};
  clock->now_ns = now_ns;
}

void fake_clock_advance_to(struct fake_clock *clock, int64_t at_ns) {
  if (at_ns > clock->now_ns) {
    clock->now_ns = at_ns;
  }
}
