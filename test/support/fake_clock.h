/* fake_clock – a monotonic clock that stands still until a test moves it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_FAKE_CLOCK_H
#define WEIR_TEST_SUPPORT_FAKE_CLOCK_H

#include <stdint.h>

#include <weir/clock.h>

struct fake_clock {
  struct weir_clock base; /* what is handed to the code under test */
  int64_t now_ns;
};

void fake_clock_init(struct fake_clock *clock, int64_t now_ns);

/* Does nothing when the clock is there already: it never goes back. */
void fake_clock_advance_to(struct fake_clock *clock, int64_t at_ns);

#endif /* WEIR_TEST_SUPPORT_FAKE_CLOCK_H */
