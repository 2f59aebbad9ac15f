/* queue – a core's completion queue, with the events that need no core, and the timers, beside it.
 *
 * It knows batches (completions) and timers, and nothing of calls. Each batch that is under way
 * holds the queue open: the core's queue is shut down when the application has asked for it and the
 * last tag has been handed out, so an empty batch may be posted to wake a sleeper as long as
 * anything is under way.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_QUEUE_H
#define WEIR_SRC_QUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/completion_queue.h>
#include <weir/error.h>

#include "src/queue/completion.h"
#include "src/queue/timer_heap.h"
#include "src/transport/transport.h"

/* Bytes of a block for one call. */
#define WEIR__QUEUE_BLOCK_BYTES 1024

struct weir__queue_options {
  const struct weir_allocator *allocator; /* NULL = malloc */
  const struct weir_clock *clock;         /* NULL = the monotonic one */
  const struct weir__transport *transport;
  grpc_cq_completion_type type;
  size_t slab_bytes; /* 0 = for many calls at once */
};

/* NULL when there is no memory. Ended by weir_completion_queue_destroy. */
weir_completion_queue *weir__queue_new(const struct weir__queue_options *options);

void weir__queue_ref(weir_completion_queue *queue);
void weir__queue_unref(weir_completion_queue *queue);

const struct weir__transport *weir__queue_transport(const weir_completion_queue *queue);
int64_t weir__queue_now_ns(const weir_completion_queue *queue);

/* Not a pluck queue: any drainer takes any event. */
bool weir__queue_is_for_next(const weir_completion_queue *queue);

/* A zeroed block of WEIR__QUEUE_BLOCK_BYTES, or NULL. */
void *weir__queue_block_take(weir_completion_queue *queue);
void weir__queue_block_give(weir_completion_queue *queue, void *block);

/* A batch begins: its tag is owed from here on. WEIR_ERROR_UNAVAILABLE: the queue was shut down and
 * has nothing under way any more. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error
weir__queue_begin(weir_completion_queue *queue, struct weir__completion *completion, void *app_tag);

/* A batch that was begun is not to be, its tag never comes. */
void weir__queue_abandon(weir_completion_queue *queue, struct weir__completion *completion);

/* A batch has ended without the core: hand out its tag. Any thread; no lock is held. */
void weir__queue_push_ready(weir_completion_queue *queue, struct weir__completion *completion);

/* The guard of timers, and of the states of the calls that have one. Held for a few
 * instructions. */
void weir__queue_lock(weir_completion_queue *queue);
void weir__queue_unlock(weir_completion_queue *queue);

/* Whether shutdown was asked for; stable under the lock. */
bool weir__queue_is_shut_down_locked(const weir_completion_queue *queue);

/* Arms `timer` (due_at_ns and on_due are set). A batch of its owner is under way. After the unlock
 * the caller says weir__queue_wake_for_timer. */
void weir__queue_arm_locked(weir_completion_queue *queue, struct weir__timer *timer);
bool weir__queue_disarm_locked(weir_completion_queue *queue, struct weir__timer *timer);

/* Wakes a sleeper that may sleep past a timer that was just armed. */
void weir__queue_wake_for_timer(weir_completion_queue *queue);

#endif /* WEIR_SRC_QUEUE_QUEUE_H */
