/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream_message.h"

#include <grpc/byte_buffer.h>

#define SEND WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE)
#define RECEIVE WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)

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

static const struct weir__completion_ops message_ops = {
    .on_event = message_on_event, .deliver = NULL, /* it is never put on the ready list */
};

/* Takes slot and operation, which only batches of the same kind take apart. */
static bool claim_message(weir_call *call, unsigned wanted) {
  unsigned taken = atomic_fetch_or(&call->claims, wanted) & wanted;
  if (taken != 0 && taken != wanted) {
    (void)atomic_fetch_and(&call->claims, ~(wanted & ~taken));
  }
  return taken == 0;
}

static inline grpc_call_error message_start(weir_call *call, const grpc_op *op, void *tag,
                                            uint8_t slot, uint8_t op_types) {
  unsigned claims = WEIR__CLAIM_SLOT(slot) | WEIR__CLAIM_AGAIN(op_types);
  struct weir__completion *completion = &call->completions[slot];
  if (!claim_message(call, claims)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  completion->ops = &message_ops;
  completion->op_types = op_types;
  if (op_types == RECEIVE) {
    call->outputs.message = op->data.recv_message.recv_message;
  }
  grpc_call_error error = weir__call_begin_batch(call, completion, tag);
  if (error == GRPC_CALL_OK) {
    const struct weir__transport *transport = weir__queue_transport(call->queue);
    error = transport->call_start_batch(transport->context, call->attempt.core, op, 1, completion);
    if (error == GRPC_CALL_OK) {
      return GRPC_CALL_OK;
    }
    weir__call_abandon_batch(call, completion);
  }
  (void)atomic_fetch_and(&call->claims, ~claims);
  return error;
}

grpc_call_error weir__stream_message_start(weir_call *call, const grpc_op *op, void *tag) {
  return op->op == GRPC_OP_RECV_MESSAGE ? message_start(call, op, tag, WEIR__RECEIVE_SLOT, RECEIVE)
                                        : message_start(call, op, tag, WEIR__SEND_SLOT, SEND);
}
