/* breaker – what a circuit breaker is made of; weir/breaker.h says what it does.
 *
 * The state is one atomic word that holds the generation too (breaker_phase.h), so a transition is
 * one compare-and-swap and what was admitted before it can't move the state after it. Results are
 * counted in stripes (breaker_window.h), probes take places (breaker_probes.h). `now_ns` comes from
 * the caller; nothing is derived from ticks, so idle hours and jumps of the clock cost nothing.
 *
 * A breaker is one block: this struct, its first stripe, its places. What all breakers of one
 * policy have in common stands once, in their rules. There may be thousands of breakers, most of
 * them idle: further stripes are only made for one that several threads are seen to be busy with.
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

/* A thread may be stopped between reading its clock and asking, so clocks seem to differ. A time
 * that is further ahead than this was written before the clock was set back. */
#define WEIR__BREAKER_CLOCK_STEP_NS (60 * WEIR_SECOND_NS)

/* The options of any number of breakers, and what follows from them. Does not change. */
struct weir__breaker_rules {
  /* A bucket's number is the time divided by its length, its slot what is left of that divided by
   * how many there are: by multiplication, since each result needs both. */
  uint64_t bucket_reciprocal;
  uint64_t slot_reciprocal;
  uint64_t epoch_mask;  /* of a bucket's epoch, as wide as its word has room for */
  uint64_t epoch_step;  /* from one generation's epochs to the next one's */
  uint64_t epoch_ahead; /* how far a thread's clock may be ahead of another's */
  uint32_t n_buckets;
  unsigned bucket_shift;
  unsigned count_bits; /* the rest of the word */
  uint32_t stripe_mask;
  size_t stripe_bytes;     /* of one that is made later */
  int64_t longest_open_ns; /* no open time is longer */
  int64_t longest_wait_ns; /* with the step that a clock may be set back unnoticed */
  struct weir_breaker_options options;
  const struct weir_allocator *allocator;
};

/* Fields are breaker*.c's. The first stripe and the places follow it in memory. */
struct weir_breaker {
  /* Written by state changes only, read by every call. */
  _Atomic uint64_t phase;
  _Atomic int64_t at_ns; /* OPEN: until when; in a ramp: since when */
  const struct weir__breaker_rules *rules;
  void *_Atomic spread; /* further stripes, used instead of the first; NULL = none yet */

  /* Written when a call fails, or ends in a state other than CLOSED. */
  _Atomic uint64_t streak; /* failures in a row, and of which generation; 0 = none */
  _Atomic uint64_t n_trips;
  _Atomic uint64_t n_probes;
  _Atomic uint64_t contention; /* lost exchanges, and in which second */
};

/* `options` are checked ones and copied; `allocator` is borrowed until the last breaker is gone. */
void weir__breaker_rules_init(struct weir__breaker_rules *rules,
                              const struct weir_breaker_options *options,
                              const struct weir_allocator *allocator);

/* How large a breaker is, with all that belongs to it but further stripes. */
size_t weir__breaker_bytes(const struct weir__breaker_rules *rules);

/* Makes a breaker, CLOSED, in weir__breaker_bytes of the caller's memory, aligned as malloc's.
 * `rules` are borrowed until weir__breaker_fini. */
void weir__breaker_init(weir_breaker *breaker, const struct weir__breaker_rules *rules);

/* No thread may be using it. */
void weir__breaker_fini(weir_breaker *breaker);

/* Gives a breaker a stripe for each processor now, and not when threads are seen to get in each
 * other's way: for one that all calls go through. False when there is no memory for it; the breaker
 * is as good as before. Any thread. */
bool weir__breaker_spread(weir_breaker *breaker);

/* Makes the breaker as good as new, if nothing would be lost: it is CLOSED, in no ramp and under no
 * override, no result is in its window and no failure in its streak. True: it has started a
 * generation, so the results of calls let through before are dropped. False: nothing has changed.
 * Any thread. */
bool weir__breaker_recycle(weir_breaker *breaker, int64_t now_ns);

#endif /* WEIR_SRC_DECIDE_BREAKER_H */
