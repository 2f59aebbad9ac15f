/* instant – nanoseconds of the monotonic clock, and what may be done with them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_TIME_INSTANT_H
#define WEIR_SRC_TIME_INSTANT_H

#include <stdint.h>

#include <weir/clock.h>

/* Saturates at WEIR_NO_DEADLINE and at INT64_MIN; an instant that never comes stays so, whatever is
 * added. */
static inline int64_t weir__instant_add(int64_t at_ns, int64_t span_ns) {
  int64_t sum = 0;
  if (at_ns == WEIR_NO_DEADLINE) {
    return WEIR_NO_DEADLINE;
  }
  if (__builtin_add_overflow(at_ns, span_ns, &sum)) {
    return span_ns > 0 ? WEIR_NO_DEADLINE : INT64_MIN;
  }
  return sum;
}

/* What is left until `deadline_at_ns`: never negative, WEIR_NO_LIMIT_NS without a deadline. */
static inline int64_t weir__instant_remaining(int64_t deadline_at_ns, int64_t now_ns) {
  int64_t left = 0;
  if (deadline_at_ns == WEIR_NO_DEADLINE) {
    return WEIR_NO_LIMIT_NS;
  }
  if (deadline_at_ns <= now_ns) {
    return 0;
  }
  return __builtin_sub_overflow(deadline_at_ns, now_ns, &left) ? WEIR_NO_LIMIT_NS : left;
}

static inline int64_t weir__instant_min(int64_t a_ns, int64_t b_ns) {
  return a_ns < b_ns ? a_ns : b_ns;
}

#endif /* WEIR_SRC_TIME_INSTANT_H */
