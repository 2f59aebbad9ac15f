/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_streak.h"

#define LENGTH_MASK ((UINT64_C(1) << WEIR__BREAKER_STREAK_BITS) - 1)

bool weir__breaker_streak_grow(weir_breaker *breaker, uint64_t generation, uint32_t limit) {
  uint64_t tag = generation << WEIR__BREAKER_STREAK_BITS;
  uint64_t old = atomic_load_explicit(&breaker->streak, memory_order_relaxed);
  uint64_t next = 0;
  if (limit == 0) {
    return false;
  }
  do {
    if (weir__breaker_streak_is_later(old, generation)) {
      return false;
    }
    uint64_t length = old >> WEIR__BREAKER_STREAK_BITS == tag >> WEIR__BREAKER_STREAK_BITS
                          ? old & LENGTH_MASK
                          : 0;
    next = tag | (length < LENGTH_MASK ? length + 1 : length);
  } while (!atomic_compare_exchange_weak_explicit(&breaker->streak, &old, next,
                                                  memory_order_relaxed, memory_order_relaxed));
  return (next & LENGTH_MASK) >= limit;
}

bool weir__breaker_streak_is_of(const weir_breaker *breaker, uint64_t generation) {
  uint64_t streak = atomic_load_explicit(&breaker->streak, memory_order_relaxed);
  return streak != 0 && (uint32_t)(streak >> WEIR__BREAKER_STREAK_BITS) == (uint32_t)generation;
}
