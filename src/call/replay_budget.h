/* replay_budget – how many bytes all calls of a channel keep together to send them again.
 *
 * The limit comes with each call, from the policy that it goes by.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_REPLAY_BUDGET_H
#define WEIR_SRC_CALL_REPLAY_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__replay_budget {
  atomic_size_t n_bytes;
  /* calls that could not be kept, for this limit or for the call's own */
  _Atomic uint64_t n_overflows;
};

/* Relaxed: a count that nothing else is ordered by. */
static inline void weir__replay_budget_take(struct weir__replay_budget *budget, size_t n_bytes) {
  (void)atomic_fetch_add_explicit(&budget->n_bytes, n_bytes, memory_order_relaxed);
}

static inline void weir__replay_budget_give(struct weir__replay_budget *budget, size_t n_bytes) {
  (void)atomic_fetch_sub_explicit(&budget->n_bytes, n_bytes, memory_order_relaxed);
}

/* Whether what was taken is within a limit, which itself still fits. */
static inline bool weir__replay_budget_fits(const struct weir__replay_budget *budget,
                                            size_t max_bytes) {
  return atomic_load_explicit(&budget->n_bytes, memory_order_relaxed) <= max_bytes;
}

static inline void weir__replay_budget_note_overflow(struct weir__replay_budget *budget) {
  (void)atomic_fetch_add_explicit(&budget->n_overflows, 1, memory_order_relaxed);
}

#endif /* WEIR_SRC_CALL_REPLAY_BUDGET_H */
