/* queue – a core's completion queue, with the events that need no core, and the timers, beside it.
 *
 * It knows batches (completions) and timers, and nothing of calls. Whatever its kind, the core's
 * queue below is one for next: any thread that drains takes any event, so a batch of the engine's
 * own, whose tag nobody waits for, is heard of too.
 *
 * Each batch that is under way holds the queue open: the core's queue is shut down when the
 * application has asked for it and nothing is under way, so an empty batch may be posted to wake a
 * sleeper as long as anything is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_QUEUE_H
#define WEIR_SRC_QUEUE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/completion_queue.h>
#include <weir/error.h>

#include "src/queue/completion.h"
#include "src/queue/slab.h"
#include "src/queue/timer_heap.h"
#include "src/transport/transport.h"

/* Bytes of a block for one call: with what the pool has of it, cache lines. */
#define WEIR__QUEUE_BLOCK_BYTES (14 * WEIR__SLAB_LINE_BYTES - WEIR__SLAB_OWN_BYTES)

struct weir__queue_options {
  const struct weir_allocator *allocator; /* NULL = malloc */
  const struct weir_clock *clock;         /* NULL = the monotonic one */
  const struct weir__transport *transport;
  grpc_cq_completion_type type;
  grpc_cq_polling_type polling;
  size_t slab_blocks; /* the least that is asked of the allocator at once; 0 = for many calls */

  /* Callback queues only. */
  grpc_completion_queue_functor *shutdown_callback; /* NULL = none */
  uint32_t n_callback_threads;                      /* 0 = no thread of its own */
};

/* NULL when there is no memory, or no thread. Ended by weir_completion_queue_destroy. */
weir_completion_queue *weir__queue_new(const struct weir__queue_options *options);

void weir__queue_ref(weir_completion_queue *queue);
void weir__queue_unref(weir_completion_queue *queue);

/* n_open: the tags that are owed, below WEIR__QUEUE_HOLD; what is held beside them, above. */
#define WEIR__QUEUE_HOLD (UINT64_C(1) << 32)

/* What each batch needs of its queue: its first member. In sight, since a call of a function would
 * cost as much as what it does. */
struct weir__queue_head {
  const struct weir__transport *transport;
  grpc_completion_queue *core;
  grpc_cq_completion_type type;

  /* Who is about to sleep adds itself, and sees in the same step whether there is a reason not to;
   * who has a reason sets its bit, and sees whether anybody sleeps. */
  _Atomic uint32_t stir;

  /* The tags that are owed, with one until shutdown is asked for: at zero the queue closes, for
   * good. And what is held, with one until it has closed: once all is zero the core's queue is shut
   * down. */
  _Atomic uint64_t n_open;
};

static inline const struct weir__transport *
weir__queue_transport(const weir_completion_queue *queue) {
  return ((const struct weir__queue_head *)(const void *)queue)->transport;
}

/* Adds to n_open, unless what `unless_zero` selects of it is zero. */
static inline bool weir__queue_open_add(struct weir__queue_head *head, uint64_t more,
                                        uint64_t unless_zero) {
  uint64_t n_open = atomic_load_explicit(&head->n_open, memory_order_relaxed);
  while ((n_open & unless_zero) != 0) {
    if (atomic_compare_exchange_weak_explicit(&head->n_open, &n_open, n_open + more,
                                              memory_order_relaxed, memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

int64_t weir__queue_now_ns(const weir_completion_queue *queue);

/* What the wall clock said at `at_ns` of the queue's clock, just now; by another clock than the
 * system's, what it says. */
int64_t weir__queue_wall_clock_ns(const weir_completion_queue *queue, int64_t at_ns);

/* A zeroed block of WEIR__QUEUE_BLOCK_BYTES, or NULL. */
void *weir__queue_block_take(weir_completion_queue *queue);
void weir__queue_block_give(weir_completion_queue *queue, void *block);

/* A batch begins: its tag is owed from here on. WEIR_ERROR_UNAVAILABLE: the queue was shut down, and
 * owes no tag any more. */
WEIR_MUST_CHECK static inline enum weir_error weir__queue_begin(weir_completion_queue *queue,
                                                                struct weir__completion *completion,
                                                                void *app_tag) {
  if (!weir__queue_open_add((struct weir__queue_head *)(void *)queue, 1, UINT32_MAX)) {
    return WEIR_ERROR_UNAVAILABLE;
  }
  completion->app_tag = app_tag;
  return WEIR_OK;
}

/* A batch that was begun is not to be, its tag never comes. */
void weir__queue_abandon(weir_completion_queue *queue);

/* A batch has ended without the core: hand out its tag. Any thread, also from within on_event,
 * deliver and on_due; no lock is held. */
void weir__queue_push_ready(weir_completion_queue *queue, struct weir__completion *completion);

/* A batch of the engine's own, that no tag of the application's belongs to. The core is given the
 * address of its completion, whose on_event answers false.
 *
 * It is no reason to owe the application anything: a queue that was shut down and has handed out
 * its last tag ends as soon as what is held has ended, and to that end says on_close. */
struct weir__held {
  struct weir__completion completion; /* ops is set; deliver is not used */

  /* Has the batch end soon: cancels its call. With the queue's lock, so it does no more than that.
   * At most once, and not once it was let go. NULL: it ends soon by itself. */
  void (*on_close)(struct weir__held *held);

  struct weir__held *next;
  struct weir__held *previous;
  bool linked;
};

/* Before the batch is started. WEIR_ERROR_UNAVAILABLE: as weir__queue_begin. */
WEIR_MUST_CHECK enum weir_error weir__queue_hold(weir_completion_queue *queue,
                                                 struct weir__held *held);

/* Its event has come, or it was not started. The memory is the caller's again. */
void weir__queue_let_go(weir_completion_queue *queue, struct weir__held *held);

/* The guard of timers, and of the states of the calls that have one. Held for a few
 * instructions. */
void weir__queue_lock(weir_completion_queue *queue);
void weir__queue_unlock(weir_completion_queue *queue);

/* Whether shutdown was asked for; stable under the lock. */
bool weir__queue_is_shut_down_locked(const weir_completion_queue *queue);

/* Arms `timer` (due_at_ns and on_due are set). A batch of its owner is under way. After the unlock
 * the caller says weir__queue_wake_for_timer. */
void weir__queue_arm_locked(weir_completion_queue *queue, struct weir__timer *timer);

/* The same for a timer that outlasts the queue's shutdown, and says its on_due, due or not, when the
 * last tag that was owed has been handed out. Nothing of its owner need be under way. False: that
 * was so already. */
WEIR_MUST_CHECK bool weir__queue_arm_lasting_locked(weir_completion_queue *queue,
                                                    struct weir__timer *timer);

/* Either kind. False: it is not armed; on_due may be running. */
bool weir__queue_disarm_locked(weir_completion_queue *queue, struct weir__timer *timer);

/* Wakes a sleeper that may sleep past a timer that was just armed. */
void weir__queue_wake_for_timer(weir_completion_queue *queue);

#endif /* WEIR_SRC_QUEUE_QUEUE_H */
