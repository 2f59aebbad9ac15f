/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream_message.h"

#include <grpc/byte_buffer.h>

#define SEND WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE)
#define RECEIVE WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)

bool weir__stream_message_fits(const weir_call *call, const grpc_op *op) {
  /* acquire: pairs with who made the call direct */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) &
       (WEIR__CALL_DIRECT | WEIR__CALL_ENDED)) != WEIR__CALL_DIRECT ||
      op->reserved != NULL || op->flags != 0) {
    return false;
  }
  const struct weir_method_policy *method = call->plan.method;
  if (op->op == GRPC_OP_RECV_MESSAGE) {
    return method->max_response_bytes == WEIR_NO_LIMIT_BYTES &&
           atomic_load_explicit(&call->progress, memory_order_relaxed) == WEIR__PROGRESS_DONE;
  }
  return op->op == GRPC_OP_SEND_MESSAGE && op->data.send_message.send_message != NULL &&
         method->max_request_bytes == WEIR_NO_LIMIT_BYTES;
}

/* It came with a failure that a boundary scrubs. */
static void drop_received(weir_call *call) {
  grpc_byte_buffer **message = call->outputs.message;
  if (*message != NULL && call->plan.scrubbed && !weir__outcome_is_ok(&call->outcome)) {
    grpc_byte_buffer_destroy(*message);
    *message = NULL;
  }
}

static bool message_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  weir_call *call = weir__call_of(completion);
  /* acquire: pairs with the end of the call in another thread */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) != 0 &&
      completion->op_types == RECEIVE) {
    drop_received(call);
  }
  event_out->success = ok;
  weir__call_let_go(call, completion, event_out);
  return true;
}

static void message_deliver(struct weir__completion *completion, grpc_event *event_out) {
  (void)completion; /* never put on the ready list */
  (void)event_out;
}

static const struct weir__completion_ops message_ops = {
    .on_event = message_on_event,
    .deliver = message_deliver,
};

grpc_call_error weir__stream_message_start(weir_call *call, const grpc_op *op, void *tag) {
  bool receives = op->op == GRPC_OP_RECV_MESSAGE;
  struct weir__completion *completion =
      &call->completions[receives ? WEIR__RECEIVE_SLOT : WEIR__SEND_SLOT];
  completion->ops = &message_ops;
  completion->op_types = receives ? RECEIVE : SEND;
  grpc_call_error error = weir__call_begin_batch(call, completion, tag);
  if (error != GRPC_CALL_OK) {
    return error;
  }
  if (receives) {
    call->outputs.message = op->data.recv_message.recv_message;
  }
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  error = transport->call_start_batch(transport->context, call->attempt.core, op, 1, completion);
  if (error != GRPC_CALL_OK) {
    weir__call_abandon_batch(call, completion);
  }
  return error;
}
