/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/batch.h"

#include <string.h>

#include <grpc/compression.h>

static const uint32_t initial_metadata_flags = GRPC_INITIAL_METADATA_USED_MASK;
/* With the two bits that the core keeps for itself (GRPC_WRITE_INTERNAL_USED_MASK), and takes from an application too. */
static const uint32_t message_flags = GRPC_WRITE_USED_MASK | 0xc0000000u;

/* What the core calls INT_MAX: more entries than it counts. */
#define MAX_METADATA_COUNT ((size_t)INT32_MAX)

static grpc_call_error check_metadata(const grpc_metadata *metadata, size_t count) {
  if (count > MAX_METADATA_COUNT || (count > 0 && metadata == NULL)) {
    return GRPC_CALL_ERROR_INVALID_METADATA;
  }
  for (size_t i = 0; i < count; i++) {
    if (grpc_header_key_is_legal(metadata[i].key) == 0) {
      return GRPC_CALL_ERROR_INVALID_METADATA;
    }
    if (grpc_is_binary_header(metadata[i].key) == 0 &&
        grpc_header_nonbin_value_is_legal(metadata[i].value) == 0) {
      return GRPC_CALL_ERROR_INVALID_METADATA;
    }
    if (GRPC_SLICE_LENGTH(metadata[i].value) >= UINT32_MAX) {
      return GRPC_CALL_ERROR_INVALID_METADATA; /* HPACK's counter */
    }
  }
  return GRPC_CALL_OK;
}

static grpc_call_error read_send_initial_metadata(const grpc_op *op, struct weir__batch *batch) {
  if ((op->flags & ~initial_metadata_flags) != 0) {
    return GRPC_CALL_ERROR_INVALID_FLAGS;
  }
  batch->send_initial_metadata = op;
  return check_metadata(op->data.send_initial_metadata.metadata,
                        op->data.send_initial_metadata.count);
}

static grpc_call_error read_send_message(const grpc_op *op, struct weir__batch *batch) {
  if ((op->flags & ~message_flags) != 0) {
    return GRPC_CALL_ERROR_INVALID_FLAGS;
  }
  if (op->data.send_message.send_message == NULL) {
    return GRPC_CALL_ERROR_INVALID_MESSAGE;
  }
  batch->send_message = op;
  return GRPC_CALL_OK;
}

static grpc_call_error read_op(const grpc_op *op, struct weir__batch *batch) {
  if (op->reserved != NULL) {
    return GRPC_CALL_ERROR;
  }
  if (op->op != GRPC_OP_SEND_INITIAL_METADATA && op->op != GRPC_OP_SEND_MESSAGE && op->flags != 0) {
    return GRPC_CALL_ERROR_INVALID_FLAGS;
  }
  switch (op->op) {
  case GRPC_OP_SEND_INITIAL_METADATA:
    return read_send_initial_metadata(op, batch);
  case GRPC_OP_SEND_MESSAGE:
    return read_send_message(op, batch);
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
    return GRPC_CALL_OK;
  case GRPC_OP_RECV_INITIAL_METADATA:
    batch->recv_initial_metadata = op;
    return GRPC_CALL_OK;
  case GRPC_OP_RECV_MESSAGE:
    batch->recv_message = op;
    return GRPC_CALL_OK;
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
    batch->recv_status = op;
    return GRPC_CALL_OK;
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    return GRPC_CALL_ERROR_NOT_ON_CLIENT;
  }
  return GRPC_CALL_ERROR; /* the application's memory: it may hold anything */
}

/* The order of the core's own slots does not matter, only that each type has one. */
static uint8_t slot_of(grpc_op_type type) {
  static const uint8_t slots[] = {
      [GRPC_OP_SEND_INITIAL_METADATA] = 0,  [GRPC_OP_SEND_MESSAGE] = 1,
      [GRPC_OP_SEND_CLOSE_FROM_CLIENT] = 2, [GRPC_OP_RECV_INITIAL_METADATA] = 3,
      [GRPC_OP_RECV_MESSAGE] = 4,           [GRPC_OP_RECV_STATUS_ON_CLIENT] = 5,
      [GRPC_OP_RECV_CLOSE_ON_SERVER] = 0, /* refused before */
  };
  return slots[type];
}

/* The types in the batch. False: one is there twice, which the core says before anything else. */
static bool read_types(const grpc_op *ops, size_t n_ops, uint8_t *op_types_out) {
  unsigned op_types = 0;
  for (size_t i = 0; i < n_ops; i++) {
    unsigned type = (unsigned)ops[i].op;
    if (type < 8 * sizeof *op_types_out) {
      if ((op_types & (1u << type)) != 0) {
        return false;
      }
      op_types |= 1u << type;
    }
  }
  *op_types_out = (uint8_t)op_types;
  return true;
}

grpc_call_error weir__batch_read(const grpc_op *ops, size_t n_ops, struct weir__batch *batch_out) {
  memset(batch_out, 0, sizeof *batch_out);
  if (!read_types(ops, n_ops, &batch_out->op_types)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  for (size_t i = 0; i < n_ops; i++) {
    grpc_call_error error = read_op(&ops[i], batch_out);
    if (error != GRPC_CALL_OK) {
      return error;
    }
  }
  batch_out->ops = ops;
  batch_out->n_ops = n_ops;
  batch_out->slot = slot_of(ops[0].op);
  return GRPC_CALL_OK;
}
