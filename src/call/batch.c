/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/batch.h"

#include <stdbool.h>

/* How many values of grpc_op_type there are, the server's included. */
#define N_OP_TYPES 8

/* The flags that each type takes. A message also takes the two bits that the core keeps for itself
 * (GRPC_WRITE_INTERNAL_USED_MASK), from an application too. */
static const uint32_t allowed_flags[N_OP_TYPES] = {
    [GRPC_OP_SEND_INITIAL_METADATA] = GRPC_INITIAL_METADATA_USED_MASK,
    [GRPC_OP_SEND_MESSAGE] = GRPC_WRITE_USED_MASK | 0xc0000000u,
};

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

/* Whether the call has had such an operation, or has it under way, and may not have another. */
static bool is_taken(const grpc_op *op, unsigned claims) {
  unsigned bit = WEIR__OP_BIT(op->op);
  return (claims & ((bit & WEIR__ONCE_OPS) | WEIR__CLAIM_AGAIN(bit))) != 0;
}

/* Checks an operation whose type is one, in the core's order: the first fault is the answer. */
static grpc_call_error check_op(const grpc_op *op, unsigned claims) {
  if (op->reserved != NULL) {
    return GRPC_CALL_ERROR;
  }
  if ((op->flags & ~allowed_flags[op->op]) != 0) {
    return GRPC_CALL_ERROR_INVALID_FLAGS;
  }
  if (op->op == GRPC_OP_SEND_MESSAGE && op->data.send_message.send_message == NULL) {
    return GRPC_CALL_ERROR_INVALID_MESSAGE;
  }
  if (op->op == GRPC_OP_SEND_STATUS_FROM_SERVER || op->op == GRPC_OP_RECV_CLOSE_ON_SERVER) {
    return GRPC_CALL_ERROR_NOT_ON_CLIENT;
  }
  if (claims != 0 && is_taken(op, claims)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  return op->op == GRPC_OP_SEND_INITIAL_METADATA
             ? check_metadata(op->data.send_initial_metadata.metadata,
                              op->data.send_initial_metadata.count)
             : GRPC_CALL_OK;
}

/* The order of the core's own slots does not matter, only which types share one. */
static const uint8_t slots[N_OP_TYPES] = {
    [GRPC_OP_SEND_INITIAL_METADATA] = WEIR__HEADERS_SLOT,
    [GRPC_OP_SEND_MESSAGE] = WEIR__SEND_SLOT,
    [GRPC_OP_SEND_CLOSE_FROM_CLIENT] = WEIR__CLOSE_SLOT,
    [GRPC_OP_SEND_STATUS_FROM_SERVER] = WEIR__CLOSE_SLOT,
    [GRPC_OP_RECV_INITIAL_METADATA] = WEIR__METADATA_SLOT,
    [GRPC_OP_RECV_MESSAGE] = WEIR__RECEIVE_SLOT,
    [GRPC_OP_RECV_STATUS_ON_CLIENT] = WEIR__STATUS_SLOT,
    [GRPC_OP_RECV_CLOSE_ON_SERVER] = WEIR__STATUS_SLOT,
};

/* A batch's operations by type; NULL = there is none of that type. */
struct sorted_ops {
  const grpc_op *by_type[N_OP_TYPES];
  unsigned op_types;
};

#define SERVER_OPS \
  (WEIR__OP_BIT(GRPC_OP_SEND_STATUS_FROM_SERVER) | WEIR__OP_BIT(GRPC_OP_RECV_CLOSE_ON_SERVER))

/* Sorts a batch. True: nothing is wrong with it, but perhaps with its metadata. It is so of nearly
 * all, and then no order of faults has to be kept. */
static bool sort_plain(const grpc_op *ops, size_t n_ops, struct sorted_ops *sorted) {
  uint32_t flags = 0;
  for (const grpc_op *op = ops; op != ops + n_ops; op++) {
    unsigned type = (unsigned)op->op; /* the application's memory: it may hold anything */
    if (type >= N_OP_TYPES || (sorted->op_types & (1u << type)) != 0 || op->reserved != NULL) {
      return false;
    }
    sorted->op_types |= 1u << type;
    sorted->by_type[type] = op;
    flags |= op->flags;
  }
  const grpc_op *message = sorted->by_type[GRPC_OP_SEND_MESSAGE];
  return flags == 0 && (sorted->op_types & SERVER_OPS) == 0 &&
         (message == NULL || message->data.send_message.send_message != NULL);
}

/* The same with the core's answer to what is wrong. */
static grpc_call_error sort_checked(const grpc_op *ops, size_t n_ops, unsigned claims,
                                    struct sorted_ops *sorted) {
  grpc_call_error error = GRPC_CALL_OK;
  *sorted = (struct sorted_ops){.op_types = 0};
  for (const grpc_op *op = ops; op != ops + n_ops; op++) {
    unsigned type = (unsigned)op->op;
    if (type >= N_OP_TYPES) {
      error = error != GRPC_CALL_OK ? error : GRPC_CALL_ERROR;
      continue;
    }
    if ((sorted->op_types & (1u << type)) != 0) {
      return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS; /* which the core says before anything else */
    }
    sorted->op_types |= 1u << type;
    sorted->by_type[type] = op;
    if (error == GRPC_CALL_OK) {
      error = check_op(op, claims);
    }
  }
  if (claims != 0 && (unsigned)ops->op < N_OP_TYPES &&
      (claims & WEIR__CLAIM_SLOT(slots[ops->op])) != 0) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS; /* and this before what is wrong with one */
  }
  return error;
}

grpc_call_error weir__batch_read(const grpc_op *ops, size_t n_ops, unsigned claims,
                                 struct weir__batch *batch_out) {
  struct sorted_ops sorted = {.op_types = 0};
  grpc_call_error error = GRPC_CALL_OK;
  if (claims != 0 || !sort_plain(ops, n_ops, &sorted)) {
    error = sort_checked(ops, n_ops, claims, &sorted);
  } else if (sorted.by_type[GRPC_OP_SEND_INITIAL_METADATA] != NULL) {
    const grpc_op *op = sorted.by_type[GRPC_OP_SEND_INITIAL_METADATA];
    error = check_metadata(op->data.send_initial_metadata.metadata,
                           op->data.send_initial_metadata.count);
  }
  if (error != GRPC_CALL_OK) {
    return error;
  }
  *batch_out = (struct weir__batch){
      .ops = ops,
      .n_ops = n_ops,
      .op_types = (uint8_t)sorted.op_types,
      .slot = slots[ops->op],
      .send_initial_metadata = sorted.by_type[GRPC_OP_SEND_INITIAL_METADATA],
      .send_message = sorted.by_type[GRPC_OP_SEND_MESSAGE],
      .recv_initial_metadata = sorted.by_type[GRPC_OP_RECV_INITIAL_METADATA],
      .recv_message = sorted.by_type[GRPC_OP_RECV_MESSAGE],
      .recv_status = sorted.by_type[GRPC_OP_RECV_STATUS_ON_CLIENT],
  };
  return GRPC_CALL_OK;
}

grpc_call_error weir__batch_of_unary(const grpc_op ops[WEIR__N_CLIENT_OPS],
                                     struct weir__batch *batch_out) {
  const grpc_op *headers = &ops[WEIR__HEADERS_SLOT];
  *batch_out = (struct weir__batch){
      .ops = ops,
      .n_ops = WEIR__N_CLIENT_OPS,
      .op_types = WEIR__UNARY_OPS | WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA),
      .slot = WEIR__HEADERS_SLOT,
      .send_initial_metadata = headers,
      .send_message = &ops[WEIR__SEND_SLOT],
      .recv_initial_metadata = &ops[WEIR__METADATA_SLOT],
      .recv_message = &ops[WEIR__RECEIVE_SLOT],
      .recv_status = &ops[WEIR__STATUS_SLOT],
  };
  return check_metadata(headers->data.send_initial_metadata.metadata,
                        headers->data.send_initial_metadata.count);
}
