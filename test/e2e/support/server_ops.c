/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/support/server_ops.h"

#include <string.h>

static grpc_op op_of(grpc_op_type type) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = type;
  return op;
}

grpc_op weir__close_op(int *cancelled_out) {
  grpc_op op = op_of(GRPC_OP_RECV_CLOSE_ON_SERVER);
  op.data.recv_close_on_server.cancelled = cancelled_out;
  return op;
}

grpc_op weir__receive_op(grpc_byte_buffer **message_out) {
  grpc_op op = op_of(GRPC_OP_RECV_MESSAGE);
  *message_out = NULL;
  op.data.recv_message.recv_message = message_out;
  return op;
}

size_t weir__send_ops(grpc_op ops_out[WEIR__SEND_OPS], bool *headers_sent,
                      grpc_byte_buffer *message, const grpc_op *status) {
  size_t n_ops = 0;
  if (!*headers_sent) {
    ops_out[n_ops++] = op_of(GRPC_OP_SEND_INITIAL_METADATA);
    *headers_sent = true;
  }
  if (message != NULL) {
    ops_out[n_ops] = op_of(GRPC_OP_SEND_MESSAGE);
    ops_out[n_ops++].data.send_message.send_message = message;
  }
  if (status != NULL) {
    ops_out[n_ops++] = *status;
  }
  return n_ops;
}
