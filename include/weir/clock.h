/* weir/clock.h – time and chance, as objects, so that a test can be both.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CLOCK_H
#define WEIR_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A millisecond, in nanoseconds. */
#define WEIR_MS_NS INT64_C(1000000)

/* A second, in nanoseconds. */
#define WEIR_SECOND_NS INT64_C(1000000000)

/* An instant that never comes: no deadline. Instants are nanoseconds of one monotonic clock. */
#define WEIR_NO_DEADLINE INT64_MAX

/* A length of time that never ends: no limit. */
#define WEIR_NO_LIMIT_NS INT64_MAX

/* A monotonic clock. Borrowed until the last object made with it is gone. Any thread may read
 * it. */
struct weir_clock {
  size_t size;                      /* sizeof(struct weir_clock) */
  int64_t (*now_ns)(void *context); /* never goes back; the default is CLOCK_MONOTONIC */
  void *context;
};

/* A source of uniformly distributed 64-bit values. Borrowed as a clock is. Any thread may ask it,
 * so one that is not per thread synchronises itself. */
struct weir_random {
  size_t size;                     /* sizeof(struct weir_random) */
  uint64_t (*next)(void *context); /* draws the next value */
  void *context;
};

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CLOCK_H */
