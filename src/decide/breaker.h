/* breaker – what a circuit breaker is made of; weir/breaker.h says what it does.
 *
 * The state is one atomic word that holds the generation too, so a transition is one
 * compare-and-swap and what was admitted before it can't move the state after it. Results are
 * counted in stripes: a thread has one, on cache lines of its own. `now_ns` comes from the caller
 * and is monotonic; nothing is derived from ticks, so idle hours and jumps of the clock cost
 * nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_H
#define WEIR_SRC_DECIDE_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/breaker.h>
#include <weir/clock.h>
#include <weir/error.h>

/* One of the places for probes while HALF_OPEN. */
struct weir__breaker_place {
  _Atomic uint64_t claim;         /* generation, claim number and status, see breaker.c */
  _Atomic int64_t lease_until_ns; /* only ever raised, and before the claim that it is for */
};

/* Fields are breaker.c's. */
struct weir_breaker {
  /* Written by state changes only, read by every call. */
  _Atomic uint64_t phase;
  _Atomic int64_t probe_at_ns; /* when OPEN ends; written before the phase that it belongs to */
  _Atomic uint64_t n_trips;
  _Atomic uint64_t n_probes;

  /* Never change. */
  struct weir_breaker_options options;
  uint64_t bucket_ns;
  uint64_t ring_mask;  /* buckets of a stripe, rounded up to a power of two, less one */
  uint64_t epoch_mask; /* of the bucket's number, as wide as its word has room for */
  unsigned count_bits; /* the rest of the word */
  uint32_t stripe_mask;
  size_t stripe_bytes;
  unsigned char *stripes;
  struct weir__breaker_place *places;
  void *memory;
  const struct weir_allocator *allocator;
};

/* Makes a breaker in the caller's memory, CLOSED. `options` are checked ones, `n_stripes` is a
 * power of two. WEIR_ERROR_NO_MEMORY leaves nothing to undo. */
WEIR_MUST_CHECK enum weir_error weir__breaker_init(weir_breaker *breaker,
                                                   const struct weir_breaker_options *options,
                                                   uint32_t n_stripes,
                                                   const struct weir_allocator *allocator);

void weir__breaker_fini(weir_breaker *breaker);

#endif /* WEIR_SRC_DECIDE_BREAKER_H */
