/* queue_state – what a completion queue is made of, for the files that are one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_QUEUE_STATE_H
#define WEIR_SRC_QUEUE_QUEUE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/queue/expiry.h"
#include "src/queue/queue.h"
#include "src/queue/slab.h"

struct weir__callbacks;
struct weir__pluckers;

/* stir: threads that sleep in the core, below the two bits. */
#define WEIR__QUEUE_READY (UINT32_C(1) << 31) /* something is there that needs no core */
#define WEIR__QUEUE_TIMER (UINT32_C(1) << 30) /* a timer is armed */
#define WEIR__QUEUE_STIRRED (WEIR__QUEUE_READY | WEIR__QUEUE_TIMER)

/* One epoch of the watch; the sleepers are counted below it. */
#define WEIR__QUEUE_EPOCH (UINT64_C(1) << 32)

struct weir_completion_queue {
  struct weir__queue_head head;
  struct weir__slab_pool blocks;
  const struct weir_clock *clock;

  atomic_bool bell_rung; /* an event with &bell_tag is on its way */
  char bell_tag;
  char sync_tag; /* see pluck.c */
  atomic_size_t n_refs;
  const struct weir_allocator *allocator;
  _Atomic int64_t next_due_at_ns; /* of the timers; WEIR_NO_DEADLINE = none */
  _Atomic uint32_t n_ready_taken; /* since the core was heard although something was ready */

  /* The watch: how many sleepers wake by next_due_at_ns, and above WEIR__QUEUE_EPOCH the count of
   * times it has come nearer. A thread that leaves while nobody keeps the watch wakes another
   * sleeper to keep it. */
  _Atomic uint64_t watch;

  struct weir__expiry expiry;

  struct weir__pluckers *pluckers;   /* pluck queues only */
  struct weir__callbacks *callbacks; /* callback queues only */

  struct {
    pthread_mutex_t lock;
    bool shut_down;
    bool closed;
    grpc_call *bell;                    /* made when it is first needed */
    struct weir__completion_list ready; /* but for pluck queues */
    struct weir__timer_heap timers;
    struct weir__timer_heap lasting_timers;
    struct weir__held *held; /* those with an on_close */
  } guarded;
};

/* The last tag that was owed is no more: has what is held end. */
void weir__queue_close(weir_completion_queue *queue);

/* A tag that was owed has been handed out, or the batch is not to be. Afterwards the queue may be
 * gone. */
static inline void weir__queue_settle(weir_completion_queue *queue) {
  /* acq_rel: everything that was under way comes before the core's shutdown */
  uint64_t before = atomic_fetch_sub_explicit(&queue->head.n_open, 1, memory_order_acq_rel);
  if ((uint32_t)before == 1) {
    weir__queue_close(queue);
  }
}

/* Fires every timer that is armed, due or not: those that don't outlast shutdown, and those that
 * do. */
void weir__queue_fire_all(weir_completion_queue *queue);
void weir__queue_fire_lasting(weir_completion_queue *queue);

/* Keeps the core's queue open for a moment. False: it is shut down, or about to be. */
bool weir__queue_try_hold(weir_completion_queue *queue);

/* Afterwards the queue may be gone. */
void weir__queue_unhold(weir_completion_queue *queue);

/* Posts an event with `tag`. Something is under way, so the core's queue is open. */
void weir__queue_ring(weir_completion_queue *queue, void *tag);

/* Wakes one sleeper, if there is one and none is being woken. Something is under way. */
void weir__queue_wake_one(weir_completion_queue *queue);

/* Wakes a sleeper for what is there now. Something is under way. */
void weir__queue_pass_on(weir_completion_queue *queue);

static inline grpc_event weir__queue_no_event(grpc_completion_type type) {
  return (grpc_event){.type = type, .success = 0, .tag = NULL};
}

#endif /* WEIR_SRC_QUEUE_QUEUE_STATE_H */
