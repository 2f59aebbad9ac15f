/* breaker_streak – failures with no success in between, however far apart in time.
 *
 * One word: the lower bits of the generation that it is of, and its length. Relaxed, everywhere:
 * the word is all there is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_STREAK_H
#define WEIR_SRC_DECIDE_BREAKER_STREAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/decide/breaker.h"

#define WEIR__BREAKER_STREAK_BITS 32 /* of the length */

/* One failure more of `generation`. Whether there are now `limit` in a row; of a later generation's
 * nothing is said. Without a limit (0) they are not counted. */
bool weir__breaker_streak_grow(weir_breaker *breaker, uint64_t generation, uint32_t limit);

/* Whether there is a failure of `generation` in a row. */
bool weir__breaker_streak_is_of(const weir_breaker *breaker, uint64_t generation);

/* Whether a streak's word is of a generation after `generation`. */
static inline bool weir__breaker_streak_is_later(uint64_t streak, uint64_t generation) {
  uint32_t later = (uint32_t)(streak >> WEIR__BREAKER_STREAK_BITS) - (uint32_t)generation;
  return later != 0 && later <= UINT32_MAX / 2;
}

/* A success of `generation` ends it: a mere read, unless there is one. */
static inline void weir__breaker_streak_end(weir_breaker *breaker, uint64_t generation) {
  uint64_t old = atomic_load_explicit(&breaker->streak, memory_order_relaxed);
  while (old != 0 && !weir__breaker_streak_is_later(old, generation) &&
         !atomic_compare_exchange_weak_explicit(&breaker->streak, &old, 0, memory_order_relaxed,
                                                memory_order_relaxed)) {
  }
}

#endif /* WEIR_SRC_DECIDE_BREAKER_STREAK_H */
