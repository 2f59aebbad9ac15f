/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "src/queue/drain.h"

/* Apart, so that one step, which is enough most often, needs none of its registers. */
__attribute__((noinline)) static grpc_event next_of_steps(weir_completion_queue *queue,
                                                          gpr_timespec until) {
  grpc_event event;
  while (!weir__queue_drain(queue, until, &event)) {
    /* a step that was nothing to the application */
  }
  weir__queue_leave(queue);
  return event;
}

grpc_event weir_completion_queue_next(weir_completion_queue *queue, gpr_timespec deadline,
                                      void *reserved) {
  assert(reserved == NULL);
  (void)reserved;
  if (queue->head.type != GRPC_CQ_NEXT) {
    return weir__queue_no_event(GRPC_QUEUE_SHUTDOWN);
  }
  if (deadline.clock_type == GPR_TIMESPAN) {
    return next_of_steps(queue, weir__queue_fix_span(queue, deadline));
  }
  grpc_event event;
  if (!weir__queue_drain(queue, deadline, &event)) {
    return next_of_steps(queue, deadline);
  }
  weir__queue_leave(queue);
  return event;
}

/* --- caches of a thread's own --- */

void weir_completion_queue_thread_local_cache_init(weir_completion_queue *queue) {
  if (queue->head.type == GRPC_CQ_NEXT) {
    queue->head.transport->queue_cache_init(queue->head.transport->context, queue->head.core);
  }
}

int weir_completion_queue_thread_local_cache_flush(weir_completion_queue *queue, void **tag,
                                                   int *ok) {
  grpc_event event = weir__queue_no_event(GRPC_OP_COMPLETE);
  if (queue->head.type != GRPC_CQ_NEXT ||
      !queue->head.transport->queue_cache_flush(queue->head.transport->context, queue->head.core,
                                                &event)) {
    return 0;
  }
  bool is_bell = event.tag == &queue->bell_tag;
  if (!weir__queue_on_core_event(queue, &event)) {
    if (is_bell && weir__queue_try_hold(queue)) {
      weir__queue_pass_on(queue); /* whom it was rung for has not heard it */
      weir__queue_unhold(queue);
    }
    return 0;
  }
  *tag = event.tag;
  *ok = event.success;
  return 1;
}
