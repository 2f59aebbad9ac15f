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
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "src/decide/breaker.h"

/* In the grid's word; what is before fits as it is (breaker_window.c, breaker_options.h). */
#define WEIR__BREAKER_NTH_SHIFT 40

/* seq_cst, with the change: who has taken a place under older numbers has done so before it. */
static inline uint64_t weir__breaker_rules_turn(const struct weir__breaker_rules *rules) {
  return atomic_load_explicit(&rules->turn, memory_order_seq_cst);
}

/* Acquire, each word: one that is newer comes with a newer turn (see weir__breaker_rules_set). */
static inline uint64_t weir__breaker_word(const struct weir__breaker_rules *rules, uint64_t turn,
                                          enum weir__breaker_word word) {
  return atomic_load_explicit(&rules->pages[turn & 1][word], memory_order_acquire);
}

static inline double weir__breaker_word_double(const struct weir__breaker_rules *rules,
                                               uint64_t turn, enum weir__breaker_word word) {
  uint64_t bits = weir__breaker_word(rules, turn, word);
  double value = 0.0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t weir__breaker_turn_begin(const struct weir__breaker_rules *rules) {
  return atomic_load_explicit(&rules->turn, memory_order_acquire);
}

/* Whether all words that were read since weir__breaker_turn_begin are of one page; if not, `*turn`
 * is what to read them again with. */
static inline bool weir__breaker_turn_ends(const struct weir__breaker_rules *rules,
                                           uint64_t *turn) {
  uint64_t before = *turn;
  *turn = atomic_load_explicit(&rules->turn, memory_order_acquire);
  return *turn == before;
}

static inline struct weir__breaker_grid
weir__breaker_grid_of(const struct weir__breaker_rules *rules) {
  struct weir__breaker_grid grid;
  uint64_t turn = weir__breaker_turn_begin(rules);
  do {
    uint64_t small = weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_GRID);
    grid.bucket_reciprocal = weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_BUCKET_RECIPROCAL);
    grid.slot_reciprocal = weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_SLOT_RECIPROCAL);
    grid.epoch_step = weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_EPOCH_STEP);
    grid.first_epoch = weir__breaker_word(rules, turn, WEIR__BREAKER_WORD_FIRST_EPOCH);
    grid.n_buckets = small & UINT8_MAX;
    grid.bucket_shift = (small >> 8) & UINT8_MAX;
    grid.count_bits = (small >> 16) & UINT8_MAX;
    grid.epoch_ahead = (small >> 24) & UINT16_MAX;
    grid.nth = (uint32_t)(small >> WEIR__BREAKER_NTH_SHIFT);
  } while (!weir__breaker_turn_ends(rules, &turn));
  return grid;
}

static inline struct weir__breaker_opening
weir__breaker_opening_of(const struct weir__breaker_rules *rules) {
  struct weir__breaker_opening opening;
  uint64_t turn = weir__breaker_turn_begin(rules);
  do {
    opening.open_for_ns = weir__breaker_word_double(rules, turn, WEIR__BREAKER_WORD_OPEN_FOR);
    opening.max_open_for_ns =
        weir__breaker_word_double(rules, turn, WEIR__BREAKER_WORD_MAX_OPEN_FOR);
    opening.jitter = weir__breaker_word_double(rules, turn, WEIR__BREAKER_WORD_JITTER);
    opening.backoff = weir__breaker_word_double(rules, turn, WEIR__BREAKER_WORD_BACKOFF);
  } while (!weir__breaker_turn_ends(rules, &turn));
  return opening;
}

/* One word is of one page, and so are these. */
static inline enum weir_breaker_mode
weir__breaker_mode_of(const struct weir__breaker_rules *rules) {
  return (enum weir_breaker_mode)weir__breaker_word(rules, weir__breaker_turn_begin(rules),
                                                    WEIR__BREAKER_WORD_MODE);
}

static inline int64_t weir__breaker_ramp_for_ns(const struct weir__breaker_rules *rules) {
  return (int64_t)weir__breaker_word(rules, weir__breaker_turn_begin(rules),
                                     WEIR__BREAKER_WORD_RAMP);
}

static inline uint32_t weir__breaker_nth_grid(const struct weir__breaker_rules *rules) {
  return (uint32_t)(weir__breaker_word(rules, weir__breaker_turn_begin(rules),
                                       WEIR__BREAKER_WORD_GRID) >>
                    WEIR__BREAKER_NTH_SHIFT);
}

/* All of them. `*turn_out`, if not NULL, is for weir__breaker_rules_turn. */
struct weir__breaker_numbers weir__breaker_numbers_of(const struct weir__breaker_rules *rules,
                                                      uint64_t *turn_out);

#endif /* WEIR_SRC_DECIDE_BREAKER_NUMBERS_H */
