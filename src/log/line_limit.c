/* SPDX-License-Identifier: Apache-2.0 */
#include "src/log/line_limit.h"

#define NS_PER_MS INT64_C(1000000)
#define WINDOW_MS 1000

/* A window in one word: its beginning, in milliseconds from the earliest instant there is (45 bits
 * are enough for all of them), above the count of its lines. */
#define COUNT_BITS 16
#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

static uint64_t ms_of(int64_t at_ns) {
  return ((uint64_t)at_ns - (uint64_t)INT64_MIN) / NS_PER_MS;
}

static bool is_new_window(uint64_t window, uint64_t at_ms) {
  uint64_t began_ms = window >> COUNT_BITS;
  uint64_t apart_ms = at_ms > began_ms ? at_ms - began_ms : began_ms - at_ms;
  return apart_ms >= WINDOW_MS;
}

bool weir__line_limit_admit(struct weir__line_limit *limit, uint32_t max_lines, int64_t at_ns) {
  uint64_t at_ms = ms_of(at_ns);
  /* relaxed, all of it: the word stands for itself */
  uint64_t window = atomic_load_explicit(&limit->window, memory_order_relaxed);
  for (;;) {
    uint64_t next = window + 1;
    if (window == 0 || is_new_window(window, at_ms)) {
      next = (at_ms << COUNT_BITS) + 1;
    } else if ((window & COUNT_MASK) >= max_lines) {
      weir__line_limit_leave_out(limit, 1);
      return false;
    }
    if (atomic_compare_exchange_weak_explicit(&limit->window, &window, next, memory_order_relaxed,
                                              memory_order_relaxed)) {
      return true;
    }
  }
}

void weir__line_limit_leave_out(struct weir__line_limit *limit, uint64_t n_lines) {
  /* relaxed: a count */
  atomic_fetch_add_explicit(&limit->n_left_out, n_lines, memory_order_relaxed);
}

uint64_t weir__line_limit_take_left_out(struct weir__line_limit *limit) {
  /* relaxed: a count, most often 0 */
  if (atomic_load_explicit(&limit->n_left_out, memory_order_relaxed) == 0) {
    return 0;
  }
  return atomic_exchange_explicit(&limit->n_left_out, 0, memory_order_relaxed);
}
