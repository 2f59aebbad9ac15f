/* drain – the part that the three kinds of queue share: a thread takes what the core has, or sleeps
 * there until there is something to do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_DRAIN_H
#define WEIR_SRC_QUEUE_DRAIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "src/queue/queue_state.h"

/* `deadline`, not a GPR_TIMESPAN, as an instant of a clock: the waits for it are several, and a
 * span would start anew with each. */
gpr_timespec weir__queue_fix_span(const weir_completion_queue *queue, gpr_timespec span);

static inline gpr_timespec weir__queue_fix_deadline(const weir_completion_queue *queue,
                                                    gpr_timespec deadline) {
  return deadline.clock_type == GPR_TIMESPAN ? weir__queue_fix_span(queue, deadline) : deadline;
}

/* The other half of weir__queue_drain: there may be something that needs no core, or a timer, as
 * `stir` said when the calling thread was counted as a sleeper. */
bool weir__queue_drain_stirred(weir_completion_queue *queue, uint32_t stir, gpr_timespec deadline,
                               grpc_event *event_out);

/* The same for what is no batch's, or is no event. */
bool weir__queue_on_other_event(weir_completion_queue *queue, grpc_event *event);

/* What the core's queue has returned, when the thread is counted as a sleeper no more. The result
 * as that of weir__queue_drain. */
static inline bool weir__queue_on_core_event(weir_completion_queue *queue, grpc_event *event) {
  if (event->type != GRPC_OP_COMPLETE || !weir__slab_owns(&queue->blocks, event->tag)) {
    return weir__queue_on_other_event(queue, event);
  }
  struct weir__completion *completion = event->tag;
  if (!completion->ops->on_event(completion, event->success != 0, event)) {
    return false;
  }
  weir__queue_settle(queue);
  return true;
}

/* One step: takes what is there, or sleeps until `deadline`. True: `event_out` is an event for the
 * application (its own, or a foreign one, untouched), or says that the deadline is past or the
 * queue at its end. False: go on; there may be something to do. */
static inline bool weir__queue_drain(weir_completion_queue *queue, gpr_timespec deadline,
                                     grpc_event *event_out) {
  uint32_t stir = atomic_fetch_add(&queue->head.stir, 1);
  if (__builtin_expect((stir & WEIR__QUEUE_STIRRED) != 0, 0)) {
    return weir__queue_drain_stirred(queue, stir, deadline, event_out);
  }
  *event_out =
      queue->head.transport->queue_next(queue->head.core, deadline, queue->head.transport->context);
  atomic_fetch_sub(&queue->head.stir, 1);
  return weir__queue_on_core_event(queue, event_out);
}

/* The calling thread leaves, and may be gone for long. */
static inline void weir__queue_leave(weir_completion_queue *queue) {
  if (__builtin_expect((atomic_load(&queue->head.stir) & WEIR__QUEUE_TIMER) != 0, 0)) {
    weir__queue_wake_for_timer(queue);
  }
}

#endif /* WEIR_SRC_QUEUE_DRAIN_H */
