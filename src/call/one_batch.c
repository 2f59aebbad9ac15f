/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/one_batch.h"

#include <string.h>

#include <grpc/byte_buffer.h>

#include "src/base/container_of.h"

/* Each operation's own part of the union is written by the caller; the rest of it is never read. */
static void op_init(grpc_op *op, grpc_op_type type, uint32_t flags) {
  op->op = type;
  op->flags = flags;
  op->reserved = NULL;
}

grpc_call_error weir__one_batch_send(weir_call *call, grpc_byte_buffer *message, int64_t now_ns,
                                     struct weir__completion *completion) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  const struct weir_allocator *allocator = call->environment->allocator;
  const struct weir__request *request = &call->request;
  struct weir__attempt *attempt = &call->attempt;
  struct weir__request_headers headers = weir__call_headers(call, now_ns);
  struct weir__merged_metadata merged;
  if (weir__merged_metadata_init(&merged, request->metadata, request->n_metadata, &headers,
                                 allocator) != WEIR_OK) {
    return GRPC_CALL_ERROR;
  }
  grpc_op ops[WEIR__N_CLIENT_OPS];
  op_init(&ops[0], GRPC_OP_SEND_INITIAL_METADATA,
          weir__request_metadata_flags(request->metadata_flags, call->plan.method->wait_for_ready));
  ops[0].data.send_initial_metadata.count = merged.count;
  ops[0].data.send_initial_metadata.metadata = merged.entries;
  ops[0].data.send_initial_metadata.maybe_compression_level.is_set = 0;
  op_init(&ops[1], GRPC_OP_SEND_MESSAGE, request->message_flags);
  ops[1].data.send_message.send_message = message;
  op_init(&ops[2], GRPC_OP_SEND_CLOSE_FROM_CLIENT, 0);
  op_init(&ops[3], GRPC_OP_RECV_INITIAL_METADATA, 0);
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &attempt->initial_metadata;
  op_init(&ops[4], GRPC_OP_RECV_MESSAGE, 0);
  ops[4].data.recv_message.recv_message = &attempt->message;
  op_init(&ops[5], GRPC_OP_RECV_STATUS_ON_CLIENT, 0);
  ops[5].data.recv_status_on_client.trailing_metadata = &attempt->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &attempt->status;
  ops[5].data.recv_status_on_client.status_details = &attempt->details;
  ops[5].data.recv_status_on_client.error_string = &attempt->error_string;
  grpc_call_error error = transport->call_start_batch(transport->context, attempt->core, ops,
                                                      WEIR__N_CLIENT_OPS, completion);
  weir__merged_metadata_fini(&merged, allocator); /* the call may be over, and gone */
  return error;
}

struct weir__completion *weir__one_batch_completion(weir_call *call) {
  for (uint8_t slot = 0; slot < WEIR__N_CLIENT_OPS; slot++) {
    if (call->completions[slot].ops == &weir__one_batch_ops) {
      return &call->completions[slot];
    }
  }
  return NULL;
}

/* Whether the call may go on: it was not cancelled, and its queue is not shut down. If not, says
 * what it ends with. */
static bool may_go_on_locked(weir_call *call, int64_t now_ns) {
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  if ((state & (WEIR__CALL_CANCELLED | WEIR__CALL_PARENT_CANCELLED)) != 0) {
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_CANCEL, now_ns);
    call->plan.reason = WEIR_REASON_CANCELLED;
    return false;
  }
  if (weir__queue_is_shut_down_locked(call->queue)) {
    call->plan.reason = WEIR_REASON_SHUTDOWN; /* with the last real status */
    return false;
  }
  return true;
}

/* Sends the request once more. False: the call has to end with call->outcome. After true the call
 * may be over. */
static bool attempt_again(weir_call *call, int64_t now_ns) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  /* Its status is the call's, if no other attempt can be made. */
  struct weir__attempt last = call->attempt;
  grpc_byte_buffer *message = weir__request_replay_message(&call->request);
  if (message == NULL) {
    call->plan.reason = WEIR_REASON_NO_MEMORY;
    return false;
  }
  grpc_call *core = weir__call_create_core(call);
  weir__queue_lock(call->queue);
  bool goes_on = may_go_on_locked(call, now_ns);
  if (goes_on) {
    memset(&call->attempt, 0, sizeof call->attempt);
    call->attempt.core = core;
    call->attempt.details = grpc_empty_slice();
  }
  weir__queue_unlock(call->queue);
  if (goes_on) {
    uint32_t n_attempts = call->plan.n_attempts;
    size_t n_unsettled = call->n_unsettled;
    weir__call_begin_attempt(call, now_ns);
    if (weir__one_batch_send(call, message, now_ns, weir__one_batch_completion(call)) ==
        GRPC_CALL_OK) {
      grpc_byte_buffer_destroy(message);
      weir__attempt_fini(&last, transport);
      return true;
    }
    call->plan.n_attempts = n_attempts;
    /* The layers that have heard of the last outcome hear of it once. */
    call->n_unsettled = n_unsettled;
    call->n_sent--;
    call->plan.reason = WEIR_REASON_NO_MEMORY;
    weir__queue_lock(call->queue);
    call->attempt = last;
    weir__queue_unlock(call->queue);
  }
  grpc_byte_buffer_destroy(message);
  transport->call_unref(transport->context, core);
  return false;
}

/* A layer wants another attempt at plan.resume_at_ns. False: the call has to end with
 * call->outcome. */
static bool retry_schedule(weir_call *call, const struct weir_event *event) {
  if (weir__stack_resume(&call->environment->stack, call->layer_states, event, &call->plan) ==
      WEIR_ADMISSION_REFUSE) {
    return false;
  }
  if (call->plan.resume_at_ns <= event->now_ns) {
    return attempt_again(call, event->now_ns);
  }
  weir__parent_watch_start(call);
  weir__queue_lock(call->queue);
  bool goes_on = may_go_on_locked(call, event->now_ns);
  if (goes_on) {
    call->backoff.due_at_ns = call->plan.resume_at_ns;
    weir__queue_arm_locked(call->queue, &call->backoff);
  }
  weir_completion_queue *queue = call->queue; /* once unlocked, the call may be over */
  weir__queue_ref(queue);
  weir__queue_unlock(queue);
  if (goes_on) {
    weir__queue_wake_for_timer(queue);
  }
  weir__queue_unref(queue);
  return goes_on;
}

void weir__one_batch_on_due(struct weir__timer *timer, int64_t now_ns) {
  weir_call *call = WEIR__CONTAINER_OF(timer, weir_call, backoff);
  struct weir_event event = weir__call_event_at(call, now_ns);
  struct weir__completion *completion = weir__one_batch_completion(call);
  call->plan.resume_at_ns = now_ns;

  weir__queue_lock(call->queue);
  bool goes_on = may_go_on_locked(call, now_ns);
  weir__queue_unlock(call->queue);
  if (goes_on &&
      weir__stack_resume(&call->environment->stack, call->layer_states, &event, &call->plan) ==
          WEIR_ADMISSION_PROCEED &&
      attempt_again(call, now_ns)) {
    return;
  }
  weir__call_end(call, &event);
  weir__queue_push_ready(call->queue, completion);
}

static bool unary_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  (void)ok; /* always true in a batch with the status */
  weir_call *call = weir__call_of(completion);
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  const grpc_byte_buffer *message = call->attempt.message;
  bool too_large =
      message != NULL && call->plan.method->max_response_bytes != WEIR_NO_LIMIT_BYTES &&
      grpc_byte_buffer_length(call->attempt.message) > call->plan.method->max_response_bytes;
  const struct weir__arrivals arrivals = {
      .initial_capacity = call->attempt.initial_metadata.capacity,
      .message = message != NULL,
      .limit_exceeded = too_large,
  };
  weir__call_classify(call, &arrivals, event.now_ns);
  if (weir__stack_settle(&call->environment->stack, call->layer_states, &event, &call->outcome,
                         &call->plan, &call->n_unsettled) == WEIR_DISPOSITION_RETRY &&
      retry_schedule(call, &event)) {
    return false;
  }
  weir__call_end(call, &event);
  weir__call_hand_over(call, completion, true, event_out);
  return true;
}

const struct weir__completion_ops weir__one_batch_ops = {
    .on_event = unary_on_event,
    .deliver = weir__call_deliver_ready,
};
