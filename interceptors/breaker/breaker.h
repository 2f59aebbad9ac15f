/* breaker – the decisions of one circuit breaker, without a call, a clock, a lock or an allocation.
 *
 *   CLOSED ── ratio reached ──▶ OPEN ── time is over ──▶ HALF_OPEN ── all probes succeed ──▶ CLOSED
 *                               ▲                         │
 *                               └──── one probe fails ────┘
 *
 * The state is one atomic word that holds the generation too, so a transition is one
 * compare-and-swap and what was admitted before it can't move the state after it. Results are
 * counted in stripes: a thread has one, on cache lines of its own. `now_ns` comes from the caller
 * and is monotonic; nothing is derived from ticks, so idle hours and jumps of the clock cost
 * nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_BREAKER_BREAKER_H
#define WEIR_INTERCEPTORS_BREAKER_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/channel.h>
#include <weir/clock.h>
#include <weir/error.h>
#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/policy.h>

#define WEIR__BREAKER_NO_PLACE UINT32_MAX

/* One of the places for probes while HALF_OPEN. */
struct weir__breaker_place {
  _Atomic uint64_t claim;         /* generation, claim number and status, see breaker.c */
  _Atomic int64_t lease_until_ns; /* only ever raised, and before the claim that it is for */
};

/* Fields are breaker.c's. */
struct weir__breaker {
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

enum weir__breaker_ticket_stage {
  WEIR__BREAKER_TICKET_SPENT = 0, /* nothing more will be said, or nothing was taken */
  WEIR__BREAKER_TICKET_PENDING,   /* admitted, no result yet */
  WEIR__BREAKER_TICKET_SUCCEEDED  /* a stream had its first message; only a failure can follow */
};

/* What an admitted call took. Zeroed = nothing. */
struct weir__breaker_ticket {
  uint64_t generation;
  uint32_t place; /* a probe's; WEIR__BREAKER_NO_PLACE = admitted while CLOSED */
  uint32_t claim;
  enum weir__breaker_ticket_stage stage;
};

/* How a breaker looks to one call. */
struct weir__breaker_view {
  enum weir_breaker_state state;
  int64_t next_probe_in_ns; /* until a call may get through; never negative; 0 while CLOSED */
};

/* Makes a breaker in the caller's memory, CLOSED. `options` are checked ones, `n_stripes` is a
 * power of two. WEIR_ERROR_NO_MEMORY leaves nothing to undo. */
WEIR_MUST_CHECK enum weir_error weir__breaker_init(struct weir__breaker *breaker,
                                                   const struct weir_breaker_options *options,
                                                   uint32_t n_stripes,
                                                   const struct weir_allocator *allocator);

void weir__breaker_fini(struct weir__breaker *breaker);

/* Lets a call through, or not. Both outputs are always written; a refusal's ticket is spent. Any
 * thread. */
enum weir_admission weir__breaker_admit(struct weir__breaker *breaker, int64_t now_ns,
                                        struct weir__breaker_ticket *ticket_out,
                                        struct weir__breaker_view *view_out);

/* A stream's first message: its success counts now, and a probe's place is no longer the call's. */
void weir__breaker_progress(struct weir__breaker *breaker, struct weir__breaker_ticket *ticket,
                            int64_t now_ns);

/* How the call ended. Spends the ticket. `random` is asked for jitter when this opens the
 * breaker. */
void weir__breaker_settle(struct weir__breaker *breaker, struct weir__breaker_ticket *ticket,
                          enum weir_breaker_verdict verdict, int64_t now_ns,
                          const struct weir_random *random);

/* Gives back the place of a probe that was never settled. Spends the ticket; a spent one is left
 * alone. */
void weir__breaker_release(struct weir__breaker *breaker, struct weir__breaker_ticket *ticket);

/* Whether the breaker is CLOSED and has been since it let the call through. */
bool weir__breaker_still_closed(const struct weir__breaker *breaker,
                                const struct weir__breaker_ticket *ticket);

struct weir__breaker_view weir__breaker_look(const struct weir__breaker *breaker, int64_t now_ns);

/* Fills all fields, `size` too. While calls are under way the numbers are each right, but not of
 * one instant. */
void weir__breaker_snapshot(const struct weir__breaker *breaker, int64_t now_ns,
                            struct weir_breaker_snapshot *snapshot_out);

#endif /* WEIR_INTERCEPTORS_BREAKER_BREAKER_H */
