/* stream_message – a batch of one message of a stream that goes straight to the core.
 *
 * It is what a long stream consists of, so it takes the shortest way: the core is given the
 * application's own operation, and nothing is written down but that its tag is owed. Batches that
 * need more (a first message, a size limit, other operations) take the common way.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_STREAM_MESSAGE_H
#define WEIR_SRC_CALL_STREAM_MESSAGE_H

#include <stdbool.h>

#include <grpc/grpc.h>

#include "src/call/call.h"

typedef grpc_call_error weir__stream_message_fn(weir_call *call, const grpc_op *op, void *tag);

/* Start a batch of one message. Anything but GRPC_CALL_OK: it was not. */
weir__stream_message_fn weir__stream_receive;
weir__stream_message_fn weir__stream_send;

/* Which of the two starts a batch of `op` alone; NULL = it may not go this way. Inline: it is asked
 * of each batch. */
static inline weir__stream_message_fn *weir__stream_message_way(const weir_call *call,
                                                                const grpc_op *op) {
  const unsigned bits = WEIR__CALL_DIRECT | WEIR__CALL_ENDED;
  /* acquire: pairs with who made the call direct */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & bits) != WEIR__CALL_DIRECT ||
      op->flags != 0 || op->reserved != NULL) {
    return NULL;
  }
  const struct weir_method_policy *method = call->plan.method;
  if (op->op == GRPC_OP_RECV_MESSAGE && method->max_response_bytes == WEIR_NO_LIMIT_BYTES &&
      atomic_load_explicit(&call->progress, memory_order_relaxed) == WEIR__PROGRESS_DONE) {
    return weir__stream_receive;
  }
  if (op->op == GRPC_OP_SEND_MESSAGE && method->max_request_bytes == WEIR_NO_LIMIT_BYTES &&
      op->data.send_message.send_message != NULL) {
    return weir__stream_send;
  }
  return NULL;
}

#endif /* WEIR_SRC_CALL_STREAM_MESSAGE_H */
