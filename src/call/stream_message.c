/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream_message.h"

#include <grpc/byte_buffer.h>

#include "src/call/stream.h"

#define SEND WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE)
#define RECEIVE WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)

#define SEND_CLAIMS (WEIR__CLAIM_SLOT(WEIR__SEND_SLOT) | WEIR__CLAIM_AGAIN(SEND))
#define RECEIVE_CLAIMS (WEIR__CLAIM_SLOT(WEIR__RECEIVE_SLOT) | WEIR__CLAIM_AGAIN(RECEIVE))

/* --- events --- */

/* The event of a batch, and what it had taken of its call. */
static inline bool hand_over(weir_call *call, const struct weir__completion *completion,
                             unsigned claims, bool ok, grpc_event *event_out) {
  event_out->type = GRPC_OP_COMPLETE;
  event_out->success = ok ? 1 : 0;
  event_out->tag = completion->app_tag;
  (void)atomic_fetch_and(&call->claims, ~claims);
  weir__call_release(call);
  return true;
}

static bool sent_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  const struct weir__stream *stream =
      WEIR__CONTAINER_OF(completion, struct weir__stream, batches[WEIR__SEND_SLOT]);
  return hand_over(stream->call, completion, SEND_CLAIMS, ok, event_out);
}

/* Apart, being rare, and to the end, so that the other way needs nothing of its stack: the call has
 * ended meanwhile. What came with a failure that a boundary scrubs is dropped. */
__attribute__((noinline)) static bool received_at_end(struct weir__completion *completion, bool ok,
                                                      grpc_event *event_out) {
  const struct weir__stream *stream =
      WEIR__CONTAINER_OF(completion, struct weir__stream, batches[WEIR__RECEIVE_SLOT]);
  weir_call *call = stream->call;
  grpc_byte_buffer **message = call->outputs.message;
  if (*message != NULL && call->plan.scrubbed && !weir__outcome_is_ok(&call->outcome)) {
    grpc_byte_buffer_destroy(*message);
    *message = NULL;
  }
  return hand_over(call, completion, RECEIVE_CLAIMS, ok, event_out);
}

static bool received_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  const struct weir__stream *stream =
      WEIR__CONTAINER_OF(completion, struct weir__stream, batches[WEIR__RECEIVE_SLOT]);
  weir_call *call = stream->call;
  /* acquire: pairs with the end of the call in another thread */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) != 0) {
    return received_at_end(completion, ok, event_out);
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

/* Both are apart, so that what starts needs nothing of their stack: nothing came of the batch. */
__attribute__((noinline)) static grpc_call_error message_refused(weir_call *call, unsigned claims,
                                                                 enum weir_error error) {
  (void)atomic_fetch_and(&call->claims, ~claims);
  return weir__call_error_of(error);
}

__attribute__((noinline)) static grpc_call_error
message_failed(struct weir__stream *stream, unsigned claims, grpc_call_error error) {
  weir_call *call = stream->call;
  (void)atomic_fetch_and(&call->claims, ~claims);
  weir__call_abandon_batch(call);
  return error;
}

/* It is claimed, and the completion filled in. */
static inline grpc_call_error message_start(struct weir__stream *stream, const grpc_op *op,
                                            void *tag, struct weir__completion *completion,
                                            unsigned claims) {
  weir_call *call = stream->call;
  enum weir_error refusal = weir__call_begin_batch(call, completion, tag);
  if (refusal != WEIR_OK) {
    return message_refused(call, claims, refusal);
  }
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call_error error =
      transport->call_start_batch(call->attempt.core, op, 1, completion, transport->context);
  return error == GRPC_CALL_OK ? GRPC_CALL_OK : message_failed(stream, claims, error);
}

grpc_call_error weir__stream_receive(weir_call *call, const grpc_op *op, void *tag) {
  struct weir__stream *stream = call->stream;
  struct weir__completion *completion = &stream->batches[WEIR__RECEIVE_SLOT];
  if (!claim_message(call, RECEIVE_CLAIMS)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  completion->ops = &received_ops;
  completion->op_types = RECEIVE;
  call->outputs.message = op->data.recv_message.recv_message;
  return message_start(stream, op, tag, completion, RECEIVE_CLAIMS);
}

grpc_call_error weir__stream_send(weir_call *call, const grpc_op *op, void *tag) {
  struct weir__stream *stream = call->stream;
  struct weir__completion *completion = &stream->batches[WEIR__SEND_SLOT];
  if (!claim_message(call, SEND_CLAIMS)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  completion->ops = &sent_ops;
  completion->op_types = SEND;
  return message_start(stream, op, tag, completion, SEND_CLAIMS);
}
