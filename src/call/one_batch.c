/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/one_batch.h"

#include <grpc/byte_buffer.h>

#include "src/call/backoff.h"
#include "src/call/fallback.h"

/* Each operation's own part of the union is written by the caller; the rest of it is never read. */
static void op_init(grpc_op *op, grpc_op_type type, uint32_t flags) {
  op->op = type;
  op->flags = flags;
  op->reserved = NULL;
}

grpc_call_error weir__one_batch_send(weir_call *call, grpc_byte_buffer *message, int64_t now_ns) {
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
  grpc_call_error error = transport->call_start_batch(attempt->core, ops, WEIR__N_CLIENT_OPS,
                                                      &call->batch, transport->context);
  weir__merged_metadata_fini(&merged, allocator); /* the call may be over, and gone */
  return error;
}

bool weir__one_batch_resend(weir_call *call, int64_t now_ns) {
  grpc_byte_buffer *message = weir__request_replay_message(&call->request);
  if (message != NULL) {
    grpc_call_error error = weir__one_batch_send(call, message, now_ns);
    grpc_byte_buffer_destroy(message);
    if (error == GRPC_CALL_OK) {
      return true;
    }
  }
  call->plan.reason = WEIR_REASON_NO_MEMORY;
  return false;
}

static weir_call *call_of(struct weir__completion *completion) {
  return WEIR__CONTAINER_OF(completion, weir_call, batch);
}

static bool unary_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  (void)ok; /* always true in a batch with the status */
  weir_call *call = call_of(completion);
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  const grpc_byte_buffer *message = call->attempt.message;
  bool too_large =
      message != NULL && call->plan.method->max_response_bytes != WEIR_NO_LIMIT_BYTES &&
      grpc_byte_buffer_length(call->attempt.message) > call->plan.method->max_response_bytes;
  const struct weir__arrivals arrivals = {
      .initial_capacity = call->attempt.initial_metadata.capacity,
      .message = message != NULL,
      .message_asked = true,
      .limit_exceeded = too_large,
  };
  weir__call_classify(call, &arrivals, event.now_ns);
  if (weir__stack_settle(&call->rules->stack, call->layer_states, &event, &call->outcome,
                         &call->plan, &call->n_unsettled) == WEIR_DISPOSITION_RETRY &&
      weir__backoff_begin(call, &event)) {
    return false;
  }
  if (!weir__call_end_or_ask(call, &event)) {
    return false;
  }
  weir__call_hand_over(call, completion, true, event_out);
  return true;
}

/* A call that is on the ready list and has not ended is there because a fallback has answered. */
static void unary_deliver(struct weir__completion *completion, grpc_event *event_out) {
  weir_call *call = call_of(completion);
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) == 0) {
    weir__fallback_conclude(call);
  }
  weir__call_hand_over_ready(call, completion, event_out);
}

const struct weir__completion_ops weir__one_batch_ops = {
    .on_event = unary_on_event,
    .deliver = unary_deliver,
};
