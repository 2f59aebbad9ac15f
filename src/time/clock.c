/* SPDX-License-Identifier: Apache-2.0 */
#include "src/time/clock.h"

#include <stdatomic.h>
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

/* By how much the wall clock is ahead of the monotonic one, and until when that is kept. Of two
 * threads that look at once either may write each: both have just looked. */
static _Atomic int64_t wall_ahead_ns;
static _Atomic int64_t ahead_until_ns;

/* So far apart two looks are when the thread was interrupted between them. */
#define MAX_APART_NS INT64_C(10000)

int64_t weir__wall_clock_at_ns(int64_t at_ns) {
  /* acquire: pairs with the release below */
  if (at_ns < atomic_load_explicit(&ahead_until_ns, memory_order_acquire)) {
    return at_ns + atomic_load_explicit(&wall_ahead_ns, memory_order_relaxed);
  }
  int64_t before_ns = monotonic_now_ns(NULL);
  int64_t wall_ns = weir__wall_clock_now_ns();
  int64_t after_ns = monotonic_now_ns(NULL);
  if (after_ns - before_ns <= MAX_APART_NS) {
    atomic_store_explicit(&wall_ahead_ns, wall_ns - after_ns, memory_order_relaxed);
    atomic_store_explicit(&ahead_until_ns, after_ns + WEIR__WALL_STEP_SEEN_NS,
                          memory_order_release);
  }
  return wall_ns - (after_ns - at_ns);
}

static const struct weir_clock monotonic_clock = {
    .size = sizeof(struct weir_clock),
    .now_ns = monotonic_now_ns,
    .context = NULL,
};

const struct weir_clock *weir__clock_or_default(const struct weir_clock *clock) {
  return clock != NULL ? clock : &monotonic_clock;
}
