/* breaker – what a circuit breaker is made of; weir/breaker.h says what it does.
 *
 * The state is one atomic word that holds the generation too (breaker_phase.h), so a transition is
 * one compare-and-swap and what was admitted before it can't move the state after it. Results are
 * counted in stripes (breaker_window.h), probes take places (breaker_probes.h). `now_ns` comes from
 * the caller; nothing is derived from ticks, so idle hours and jumps of the clock cost nothing.
 * What is kept of a time is since when; how long comes from the numbers that hold when it is asked.
 *
 * A breaker is one block: this struct, its first stripe, its first places. What all breakers of one
 * policy have in common stands once, in their rules. There may be thousands of breakers, most of
 * them idle: further stripes are only made for one that several threads are seen to be busy with,
 * further places when other options ask for more. They are in annexes, which stay until the breaker
 * ends: whoever has found something in one may use it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_H
#define WEIR_SRC_DECIDE_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/admission.h>
#include <weir/allocator.h>
#include <weir/breaker.h>
#include <weir/clock.h>
#include <weir/error.h>

/* A thread may be stopped between reading its clock and asking, so clocks seem to differ. A time
 * that is further ahead than this was written before the clock was set back. */
#define WEIR__BREAKER_CLOCK_STEP_NS (60 * WEIR_SECOND_NS)

/* How a window is cut. */
struct weir__breaker_grid {
  /* A bucket's number is the time divided by its length, its slot what is left of that divided by
   * how many there are: by multiplication, since each result needs both. */
  uint64_t bucket_reciprocal;
  uint64_t slot_reciprocal;
  uint64_t epoch_step;  /* from one generation's epochs to the next one's */
  uint64_t first_epoch; /* what they are counted from; another one for each grid */
  uint32_t n_buckets;
  uint32_t bucket_shift;
  uint32_t count_bits;  /* of a bucket's word; the rest is its epoch */
  uint32_t epoch_ahead; /* how far a thread's clock may be ahead of another's */
  uint32_t nth;         /* of its breakers' grids; goes round */
};

/* How long a breaker stays open. */
struct weir__breaker_opening {
  double open_for_ns;
  double max_open_for_ns;
  double jitter;
  double backoff;
};

/* All numbers that breakers go by. */
struct weir__breaker_numbers {
  struct weir__breaker_grid grid;
  struct weir__breaker_opening opening;
  enum weir_breaker_mode mode;
  int64_t probe_lease_ns;
  int64_t ramp_for_ns;
  double failure_ratio;
  uint32_t min_requests;
  uint32_t consecutive_failures;
  uint32_t n_probes;
};

/* What they stand as where they may change (breaker_numbers.h). */
enum weir__breaker_word {
  WEIR__BREAKER_WORD_BUCKET_RECIPROCAL,
  WEIR__BREAKER_WORD_SLOT_RECIPROCAL,
  WEIR__BREAKER_WORD_EPOCH_STEP,
  WEIR__BREAKER_WORD_FIRST_EPOCH,
  WEIR__BREAKER_WORD_GRID, /* the rest of it */
  WEIR__BREAKER_WORD_OPEN_FOR,
  WEIR__BREAKER_WORD_MAX_OPEN_FOR,
  WEIR__BREAKER_WORD_JITTER,
  WEIR__BREAKER_WORD_BACKOFF,
  WEIR__BREAKER_WORD_MODE,
  WEIR__BREAKER_WORD_LEASE,
  WEIR__BREAKER_WORD_RAMP,
  WEIR__BREAKER_WORD_RATIO,
  WEIR__BREAKER_WORD_FAILURES, /* minRequests, consecutiveFailures: 32 bits each */
  WEIR__BREAKER_WORD_PROBES,
  WEIR__BREAKER_N_WORDS
};

/* The numbers of any number of breakers. They may change at any time, so they stand twice: in the
 * page that holds and in the one that is written next (breaker_numbers.h). */
struct weir__breaker_rules {
  _Atomic uint64_t turn; /* one more with each change; its last bit says which page holds */
  _Atomic uint64_t pages[2][WEIR__BREAKER_N_WORDS];

  /* These never change: what a breaker is made with. More of it is in its annexes. */
  const struct weir_allocator *allocator;
  enum weir_breaker_scope scope;
  uint32_t n_buckets;
  uint32_t n_places;
  uint32_t stripe_mask;

  /* For whoever changes them. */
  struct weir_breaker_options options;
  uint32_t n_grids;
};

struct weir__breaker_annex;

/* Fields are breaker*.c's. The first stripe and the first places follow it in memory. */
struct weir_breaker {
  /* Written by state changes only, read by every call. */
  _Atomic uint64_t phase;
  _Atomic int64_t since_ns; /* OPEN, or in a ramp: since when */
  const struct weir__breaker_rules *rules;
  struct weir__breaker_annex *_Atomic annex; /* the last one; NULL = none yet */

  /* Written when a call fails, or ends in a state other than CLOSED. */
  _Atomic uint64_t streak; /* failures in a row, and of which generation; 0 = none */
  _Atomic uint64_t n_trips;
  _Atomic uint64_t n_probes;
  _Atomic uint32_t chance;     /* OPEN: what its jitter was drawn as, of 2^32 */
  _Atomic uint32_t contention; /* lost exchanges, and in which second */
};

/* `options` are checked ones and copied; `allocator` is borrowed until the last breaker is gone. */
void weir__breaker_rules_init(struct weir__breaker_rules *rules,
                              const struct weir_breaker_options *options,
                              const struct weir_allocator *allocator);

/* Has the breakers go by other options, checked ones; scope and max_breakers are not theirs. Each
 * of them has room for these (weir__breaker_reserve), and an empty window if that is to be cut
 * otherwise (weir__breaker_rules_recut, weir__breaker_window_clear). One thread at a time. */
void weir__breaker_rules_set(struct weir__breaker_rules *rules,
                             const struct weir_breaker_options *options);

/* Whether `options` cut the window otherwise than the rules do. */
bool weir__breaker_rules_recut(const struct weir__breaker_rules *rules,
                               const struct weir_breaker_options *options);

/* How large a breaker is, with all that belongs to it but its annexes. */
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

/* Gives a breaker room for what `options` ask for. False as above. Any thread. */
bool weir__breaker_reserve(weir_breaker *breaker, const struct weir_breaker_options *options);

/* weir_breaker_admit and weir_breaker_still_admits, in the mode of the call's own policy. */
enum weir_admission weir__breaker_admit(weir_breaker *breaker, enum weir_breaker_mode mode,
                                        int64_t now_ns, const struct weir_random *random,
                                        struct weir_breaker_ticket *ticket_out,
                                        struct weir_breaker_view *view_out);
bool weir__breaker_still_admits(const weir_breaker *breaker, enum weir_breaker_mode mode,
                                const struct weir_breaker_ticket *ticket);

/* Makes the breaker as good as new, if nothing would be lost: it is CLOSED, in no ramp and under no
 * override, no result is in its window and no failure in its streak. True: it has started a
 * generation, so the results of calls let through before are dropped. False: nothing has changed.
 * Any thread. */
bool weir__breaker_recycle(weir_breaker *breaker, int64_t now_ns);

#endif /* WEIR_SRC_DECIDE_BREAKER_H */
