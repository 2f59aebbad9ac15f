/* breaker_numbers – what breakers go by, read at once although it may change at any time.
 *
 * A reader takes what it needs from the page that holds, and looks whether that page still holds
 * afterwards. A writer writes the other page first, so a reader is never kept waiting: that it has
 * to read again means that somebody has changed the numbers in between.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_NUMBERS_H
#define WEIR_SRC_DECIDE_BREAKER_NUMBERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/decide/breaker.h"

/* seq_cst, with the change: who has taken a place under older numbers has done so before it. */
static inline uint64_t weir__breaker_rules_turn(const struct weir__breaker_rules *rules) {
  return atomic_load_explicit(&rules->turn, memory_order_seq_cst);
}

/* Copies `size` bytes at `offset` of the numbers, whole words of one change, and says of which.
 * Acquire: a word that is newer comes with a newer turn (see weir__breaker_rules_set). */
static inline uint64_t weir__breaker_numbers_read(const struct weir__breaker_rules *rules,
                                                  size_t offset, size_t size, void *out) {
  uint64_t turn = atomic_load_explicit(&rules->turn, memory_order_acquire);
  for (;;) {
    const _Atomic uint64_t *page = rules->pages[turn & 1] + offset / sizeof(uint64_t);
    for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
      uint64_t word = atomic_load_explicit(&page[i], memory_order_acquire);
      memcpy((char *)out + i * sizeof word, &word, sizeof word);
    }
    uint64_t again = atomic_load_explicit(&rules->turn, memory_order_acquire);
    if (again == turn) {
      return turn;
    }
    turn = again;
  }
}

static inline struct weir__breaker_grid
weir__breaker_grid_of(const struct weir__breaker_rules *rules) {
  struct weir__breaker_grid grid;
  (void)weir__breaker_numbers_read(rules, offsetof(struct weir__breaker_numbers, grid), sizeof grid,
                                   &grid);
  return grid;
}

static inline struct weir__breaker_opening
weir__breaker_opening_of(const struct weir__breaker_rules *rules) {
  struct weir__breaker_opening opening;
  (void)weir__breaker_numbers_read(rules, offsetof(struct weir__breaker_numbers, opening),
                                   sizeof opening, &opening);
  return opening;
}

/* `*turn_out`, if not NULL, is for weir__breaker_rules_turn. */
static inline struct weir__breaker_numbers
weir__breaker_numbers_of(const struct weir__breaker_rules *rules, uint64_t *turn_out) {
  struct weir__breaker_numbers numbers;
  uint64_t turn = weir__breaker_numbers_read(rules, 0, sizeof numbers, &numbers);
  if (turn_out != NULL) {
    *turn_out = turn;
  }
  return numbers;
}

#endif /* WEIR_SRC_DECIDE_BREAKER_NUMBERS_H */
