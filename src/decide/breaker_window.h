/* breaker_window – the results of the calls of the last minute or so, counted in stripes.
 *
 * A stripe is a ring of buckets. A bucket is two words, successes and failures, each with the
 * bucket's epoch above its count, so that a stale one is recognised by whoever comes to it next,
 * and a window that is empty or has been idle for months has nothing to clear. A thread writes to
 * one stripe: all threads to the breaker's first, or, when there are more, to their own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_WINDOW_H
#define WEIR_SRC_DECIDE_BREAKER_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/decide/breaker.h"
#include "src/decide/breaker_annex.h"
#include "src/decide/breaker_numbers.h"

struct weir__breaker_bucket {
  _Atomic uint64_t successes;
  _Atomic uint64_t failures;
};

struct weir__breaker_stripe {
  _Atomic uint64_t n_refused;
  _Atomic uint64_t n_shadowed;
  struct weir__breaker_bucket buckets[];
};

struct weir__breaker_sum {
  uint64_t n_requests;
  uint64_t n_failures;
};

/* Where a result goes. */
struct weir__breaker_moment {
  uint64_t epoch;
  uint32_t slot;
};

/* How `options` cut the window: the `nth` of its breakers' grids. */
struct weir__breaker_grid weir__breaker_grid_make(const struct weir_breaker_options *options,
                                                  uint32_t nth);

/* What is in the window of `generation`, all stripes together. */
struct weir__breaker_sum weir__breaker_window_sum(const weir_breaker *breaker,
                                                  const struct weir__breaker_grid *grid,
                                                  uint64_t generation, int64_t now_ns);

/* Empties all buckets, for a window that is to be cut otherwise. What a call counts meanwhile may
 * stay, and is not of the next window. */
void weir__breaker_window_clear(weir_breaker *breaker);

/* Counts a result of a call that was let through in `generation`, unless it is out of the window,
 * the generation is over, or the window is cut otherwise by now. seq_cst, with
 * weir__breaker_window_sum: of two threads that count a failure at once and then add up, at least
 * one sees both. */
void weir__breaker_count(weir_breaker *breaker, const struct weir__breaker_grid *grid,
                         _Atomic uint64_t *word, uint64_t epoch, uint64_t generation,
                         int64_t now_ns);

/* Adds one to a counter of refusals that another thread was at just now. */
void weir__breaker_count_again(weir_breaker *breaker, _Atomic uint64_t *counter, int64_t now_ns);

/* All refusals and all of SHADOW's. */
void weir__breaker_refusals_read(const weir_breaker *breaker, uint64_t *n_refused_out,
                                 uint64_t *n_shadowed_out);
void weir__breaker_refusals_clear(weir_breaker *breaker);

/* Another thread was at the same word. */
void weir__breaker_contention_note(weir_breaker *breaker, int64_t now_ns);

/* Threads take stripes in turn, in the order in which they first need one, and move on from one
 * where they meet another thread; 0 = not yet. Initial-exec: four bytes may be had without a call
 * even in a shared library. */
extern _Thread_local uint32_t weir__breaker_thread __attribute__((tls_model("initial-exec")));
uint32_t weir__breaker_thread_enter(void);

static inline size_t weir__breaker_stripe_size(uint32_t n_buckets) {
  return sizeof(struct weir__breaker_stripe) + n_buckets * sizeof(struct weir__breaker_bucket);
}

static inline struct weir__breaker_stripe *weir__breaker_first_stripe(const weir_breaker *breaker) {
  return (struct weir__breaker_stripe *)(uintptr_t)(breaker + 1);
}

static inline struct weir__breaker_stripe *
weir__breaker_stripe_at(const struct weir__breaker_annex *annex, uint32_t index) {
  return (struct weir__breaker_stripe *)(void *)(annex->stripes + index * annex->stripe_bytes);
}

static inline struct weir__breaker_stripe *weir__breaker_own_stripe(const weir_breaker *breaker) {
  const struct weir__breaker_annex *annex = weir__breaker_annex_of(breaker);
  if (annex == NULL || annex->stripes == NULL) {
    return weir__breaker_first_stripe(breaker);
  }
  uint32_t thread = weir__breaker_thread;
  if (thread == 0) {
    thread = weir__breaker_thread_enter();
  }
  return weir__breaker_stripe_at(annex, thread & annex->stripe_mask);
}

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 weir__uint128;

static inline uint64_t weir__breaker_multiply_high(uint64_t a, uint64_t b) {
  return (uint64_t)(((weir__uint128)a * b) >> 64);
}
#else
static inline uint64_t weir__breaker_multiply_high(uint64_t a, uint64_t b) {
  uint64_t a_low = a & UINT32_MAX;
  uint64_t a_high = a >> 32;
  uint64_t b_low = b & UINT32_MAX;
  uint64_t b_high = b >> 32;
  uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
  uint64_t other = a_low * b_high + (middle & UINT32_MAX);
  return a_high * b_high + (middle >> 32) + (other >> 32);
}
#endif

static inline uint64_t weir__breaker_epoch_mask(const struct weir__breaker_grid *grid) {
  return UINT64_MAX >> grid->count_bits;
}

/* Each generation's epochs are out of the window of any other, and of any other grid's, whatever
 * the clock did meanwhile. */
static inline struct weir__breaker_moment
weir__breaker_moment_at(const struct weir__breaker_grid *grid, uint64_t generation,
                        int64_t now_ns) {
  uint64_t time_ns = now_ns > 0 ? (uint64_t)now_ns : 0;
  uint64_t number =
      weir__breaker_multiply_high(time_ns, grid->bucket_reciprocal) >> grid->bucket_shift;
  uint64_t turn = weir__breaker_multiply_high(number, grid->slot_reciprocal);
  /* The reciprocal is rounded down, so a quotient without remainder may come out one short. */
  uint32_t slot = (uint32_t)(number - turn * grid->n_buckets);
  uint64_t offset = grid->first_epoch + generation * grid->epoch_step;
  return (struct weir__breaker_moment){
      .epoch = (number + offset) & weir__breaker_epoch_mask(grid),
      .slot = slot == grid->n_buckets ? 0 : slot,
  };
}

static inline void weir__breaker_count_failure(weir_breaker *breaker,
                                               const struct weir__breaker_grid *grid,
                                               uint64_t generation, int64_t now_ns) {
  struct weir__breaker_moment moment = weir__breaker_moment_at(grid, generation, now_ns);
  weir__breaker_count(breaker, grid,
                      &weir__breaker_own_stripe(breaker)->buckets[moment.slot].failures,
                      moment.epoch, generation, now_ns);
}

/* Relaxed: a success never trips, so nothing is concluded from it by whoever counts it; a thread
 * that adds up just then may have come a moment earlier as well. */
static inline void weir__breaker_count_success(weir_breaker *breaker, uint64_t generation,
                                               int64_t now_ns) {
  struct weir__breaker_grid grid = weir__breaker_grid_of(breaker->rules);
  struct weir__breaker_moment moment = weir__breaker_moment_at(&grid, generation, now_ns);
  _Atomic uint64_t *word = &weir__breaker_own_stripe(breaker)->buckets[moment.slot].successes;
  uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
  bool plain =
      old >> grid.count_bits == moment.epoch && (old + 1) >> grid.count_bits == moment.epoch;
  if (plain && atomic_compare_exchange_strong_explicit(word, &old, old + 1, memory_order_relaxed,
                                                       memory_order_relaxed)) {
    return;
  }
  if (plain) {
    weir__breaker_contention_note(breaker, now_ns);
  }
  weir__breaker_count(breaker, &grid, word, moment.epoch, generation, now_ns);
}

/* Relaxed: a statistic stands on its own. By exchange, since that tells of contention. */
static inline void weir__breaker_count_refusal(weir_breaker *breaker, bool shadow, int64_t now_ns) {
  struct weir__breaker_stripe *stripe = weir__breaker_own_stripe(breaker);
  _Atomic uint64_t *counter = shadow ? &stripe->n_shadowed : &stripe->n_refused;
  uint64_t old = atomic_load_explicit(counter, memory_order_relaxed);
  if (!atomic_compare_exchange_strong_explicit(counter, &old, old + 1, memory_order_relaxed,
                                               memory_order_relaxed)) {
    weir__breaker_count_again(breaker, counter, now_ns);
  }
}

#endif /* WEIR_SRC_DECIDE_BREAKER_WINDOW_H */
