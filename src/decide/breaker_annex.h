/* breaker_annex – further stripes and places of a breaker that its own block has no room for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_ANNEX_H
#define WEIR_SRC_DECIDE_BREAKER_ANNEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/decide/breaker.h"

/* Two cache lines: processors fetch them in pairs. */
#define WEIR__BREAKER_STRIPE_ALIGNMENT 128

struct weir__breaker_place;
struct weir__breaker_stripe;

/* Does not change. Where no annex has any stripes, those in use are the block's one. */
struct weir__breaker_annex {
  struct weir__breaker_annex *older;
  /* stripes in use since this annex: its own, or an older one's; NULL = the block's */
  unsigned char *stripes;
  size_t stripe_bytes;
  uint32_t stripe_mask;
  uint32_t n_buckets; /* of each stripe in use */
  bool owns_stripes;
  /* all places, those of older annexes and of the block included; this one's own are the last */
  uint32_t n_places;
  uint32_t first_place;
  struct weir__breaker_place *places;
};

/* Acquire: stripes and places that are found are zeroed ones. Numbers are read before: there is
 * room for them then. */
static inline struct weir__breaker_annex *weir__breaker_annex_of(const weir_breaker *breaker) {
  return atomic_load_explicit(&breaker->annex, memory_order_acquire);
}

static inline uint32_t weir__breaker_n_places(const weir_breaker *breaker) {
  const struct weir__breaker_annex *annex = weir__breaker_annex_of(breaker);
  return annex != NULL ? annex->n_places : breaker->rules->n_places;
}

/* Place `index`, which is there. */
struct weir__breaker_place *weir__breaker_place_at(const weir_breaker *breaker, uint32_t index);

/* All stripes of a breaker, one after the other; those that are not in use any more as well. */
struct weir__breaker_stripes {
  const weir_breaker *breaker;
  const struct weir__breaker_annex *annex; /* whose turn it is; NULL = the block's */
  uint32_t nth;
  bool at_end;
};

/* seq_cst, for whoever adds up: see annex_add. */
struct weir__breaker_stripes weir__breaker_stripes_begin(const weir_breaker *breaker);

/* The next stripe, and how many buckets it has; NULL = that was the last. */
struct weir__breaker_stripe *weir__breaker_stripes_next(struct weir__breaker_stripes *stripes,
                                                        uint32_t *n_buckets_out);

/* Frees all annexes. */
void weir__breaker_annexes_end(weir_breaker *breaker);

#endif /* WEIR_SRC_DECIDE_BREAKER_ANNEX_H */
