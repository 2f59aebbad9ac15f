/* SPDX-License-Identifier: Apache-2.0 */
#include "src/time/clock.h"

#include <time.h>

#define NS_PER_SECOND INT64_C(1000000000)

static int64_t monotonic_now_ns(void *context) {
  (void)context;
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail for this clock */
  return (int64_t)now.tv_sec * NS_PER_SECOND + (int64_t)now.tv_nsec;
}

int64_t weir__wall_clock_now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now); /* nor for this one */
  return (int64_t)now.tv_sec * NS_PER_SECOND + (int64_t)now.tv_nsec;
}

static const struct weir_clock monotonic_clock = {
    .size = sizeof(struct weir_clock),
    .now_ns = monotonic_now_ns,
    .context = NULL,
};

const struct weir_clock *weir__clock_or_default(const struct weir_clock *clock) {
  return clock != NULL ? clock : &monotonic_clock;
}
