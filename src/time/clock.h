/* clock – the only place that reads one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_TIME_CLOCK_H
#define WEIR_SRC_TIME_CLOCK_H

#include <stdint.h>

#include <weir/clock.h>

/* `clock`, or CLOCK_MONOTONIC when it is NULL. */
const struct weir_clock *weir__clock_or_default(const struct weir_clock *clock);

static inline int64_t weir__clock_now_ns(const struct weir_clock *clock) {
  return clock->now_ns(clock->context);
}

/* Nanoseconds since 1970 in UTC, for a log's readers. It may be set, so nothing is decided by it. */
int64_t weir__wall_clock_now_ns(void);

/* What it says, or would have said, at `at_ns` of CLOCK_MONOTONIC, which is about now; a step of the
 * wall clock is seen within WEIR__WALL_STEP_SEEN_NS. For most callers that takes no look at it. */
#define WEIR__WALL_STEP_SEEN_NS INT64_C(1000000)
int64_t weir__wall_clock_at_ns(int64_t at_ns);

#endif /* WEIR_SRC_TIME_CLOCK_H */
