/* environment – what all calls of a channel share, and what outlives the channel while they do.
 *
 * It is the same whatever the channel's policy is; what comes of a policy is in the rules
 * (src/call/rules.h), each of which has a share of the environment.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_ENVIRONMENT_H
#define WEIR_SRC_CALL_ENVIRONMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>
#include <weir/breaker_change.h>
#include <weir/channel.h>
#include <weir/clock.h>
#include <weir/completion_queue.h>
#include <weir/fallback.h>
#include <weir/log.h>

#include "src/call/replay_budget.h"
#include "src/transport/transport.h"

struct weir__fallbacks;         /* src/fallback/fallbacks.h */
struct weir__registered_method; /* src/channel/registered_method.h */

#define WEIR__N_FALLBACK_RESULTS (WEIR_FALLBACK_SHUTDOWN + 1)

/* Calls that were made in a way that somebody may want to know of; see weir_channel_counters. */
struct weir__call_counters {
  _Atomic uint64_t n_clamped_deadlines;
  _Atomic uint64_t n_detached_calls;
  _Atomic uint64_t n_fallback_results[WEIR__N_FALLBACK_RESULTS]; /* by the result */
  _Atomic uint64_t n_policy_swaps;
  _Atomic uint64_t n_policy_refusals;
};

/* Relaxed: a count that nothing else is ordered by. */
static inline void weir__call_counter_bump(_Atomic uint64_t *counter) {
  (void)atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* See reconnect.h. */
struct weir__reconnect {
  _Atomic int64_t not_before_ns; /* the next one */
};

/* Queues kept for the next blocking calls: as many threads can call at once without making one. */
#define WEIR__IDLE_QUEUES 32

struct weir__environment {
  atomic_size_t n_refs;
  const struct weir_allocator *allocator;
  const struct weir__transport *transport;
  const struct weir_random *random;
  const struct weir_log_sink *log;
  const struct weir_breaker_listener *breaker_listener; /* NULL = none */
  grpc_channel *channel;
  char *target;
  size_t target_size;
  char *core_service_config; /* what the channel's first policy had for the core; NULL = nothing */
  enum weir_core_retries core_retries;
  bool signals_trusted; /* see wire_signals.h */
  bool keeps_time; /* calls in one batch are cut off by weir and not by the core; see expiry.h */
  struct weir__replay_budget replay_budget;
  struct weir__call_counters counters;
  struct weir__reconnect reconnect;
  _Atomic(struct weir__registered_method *) registered; /* a list that only grows */
  struct weir__fallbacks *fallbacks;                    /* NULL = there is no fallback */
  struct weir__environment *previous_claim; /* this and `next_claim`: src/channel/core_claims.c's */
  struct weir__environment *next_claim;
  /* Every blocking call writes there, and every call reads what is above: not on one line of the
   * cache. */
  char padding[64];
  _Atomic(weir_completion_queue *) idle_queues[WEIR__IDLE_QUEUES];
};

static inline void weir__environment_ref(struct weir__environment *environment) {
  atomic_fetch_add_explicit(&environment->n_refs, 1,
                            memory_order_relaxed); /* the caller has a share already */
}

void weir__environment_unref(struct weir__environment *environment);

/* A queue that the caller, who has a share, has for itself until it gives it back, empty. NULL when
 * there is no memory. */
weir_completion_queue *weir__environment_take_queue(struct weir__environment *environment);
void weir__environment_give_queue(struct weir__environment *environment,
                                  weir_completion_queue *queue);

#endif /* WEIR_SRC_CALL_ENVIRONMENT_H */
