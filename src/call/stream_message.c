/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream_message.h"

#include <grpc/byte_buffer.h>

#define SEND WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE)
#define RECEIVE WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)

#define SEND_CLAIMS (WEIR__CLAIM_SLOT(WEIR__SEND_SLOT) | WEIR__CLAIM_AGAIN(SEND))
#define RECEIVE_CLAIMS (WEIR__CLAIM_SLOT(WEIR__RECEIVE_SLOT) | WEIR__CLAIM_AGAIN(RECEIVE))

/* --- events --- */

static inline bool hand_over(weir_call *call, const struct weir__completion *completion,
                             unsigned claims, bool ok, grpc_event *event_out) {
  *event_out =
      (grpc_event){.type = GRPC_OP_COMPLETE, .success = ok ? 1 : 0, .tag = completion->app_tag};
  (void)atomic_fetch_and(&call->claims, ~claims);
  weir__call_release(call);
  return true;
}

static bool sent_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  weir_call *call = WEIR__CONTAINER_OF(completion, weir_call, completions[WEIR__SEND_SLOT]);
  return hand_over(call, completion, SEND_CLAIMS, ok, event_out);
}

/* Apart, being rare: the call has ended meanwhile. What came with a failure that a boundary scrubs is
 * dropped. */
__attribute__((noinline)) static void drop_received(weir_call *call) {
  grpc_byte_buffer **message = call->outputs.message;
  if (*message != NULL && call->plan.scrubbed && !weir__outcome_is_ok(&call->outcome)) {
    grpc_byte_buffer_destroy(*message);
    *message = NULL;
  }
}

static bool received_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  weir_call *call = WEIR__CONTAINER_OF(completion, weir_call, completions[WEIR__RECEIVE_SLOT]);
  /* acquire: pairs with the end of the call in another thread */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) != 0) {
    drop_received(call);
  }
  return hand_over(call, completion, RECEIVE_CLAIMS, ok, event_out);
}

/* Neither is ever put on the ready list. */
static const struct weir__completion_ops sent_ops = {.on_event = sent_on_event, .deliver = NULL};
static const struct weir__completion_ops received_ops = {.on_event = received_on_event,
                                                         .deliver = NULL};

/* --- starting --- */

/* Takes slot and operation. In two steps: batches that send are serialised by the caller, and so are
 * those that receive. */
static inline bool claim_message(weir_call *call, unsigned wanted) {
  if ((atomic_load_explicit(&call->claims, memory_order_relaxed) & wanted) != 0) {
    return false;
  }
  (void)atomic_fetch_or(&call->claims, wanted);
  return true;
}

/* It is claimed, and the completion filled in. */
static inline grpc_call_error message_start(weir_call *call, const grpc_op *op, void *tag,
                                            struct weir__completion *completion, unsigned claims) {
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

static grpc_call_error receive_start(weir_call *call, const grpc_op *op, void *tag) {
  struct weir__completion *completion = &call->completions[WEIR__RECEIVE_SLOT];
  if (!claim_message(call, RECEIVE_CLAIMS)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  completion->ops = &received_ops;
  completion->op_types = RECEIVE;
  call->outputs.message = op->data.recv_message.recv_message;
  return message_start(call, op, tag, completion, RECEIVE_CLAIMS);
}

static grpc_call_error send_start(weir_call *call, const grpc_op *op, void *tag) {
  struct weir__completion *completion = &call->completions[WEIR__SEND_SLOT];
  if (!claim_message(call, SEND_CLAIMS)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  completion->ops = &sent_ops;
  completion->op_types = SEND;
  return message_start(call, op, tag, completion, SEND_CLAIMS);
}

grpc_call_error weir__stream_message_start(weir_call *call, const grpc_op *op, void *tag) {
  return op->op == GRPC_OP_RECV_MESSAGE ? receive_start(call, op, tag) : send_start(call, op, tag);
}
