/* batch – the operations that an application starts together, checked and sorted by type.
 *
 * The core's own refusals are not free of side effects in 1.51 (a refused batch keeps its slot, and
 * a message before the bad operation has lost its bytes), so what the core would refuse is refused
 * here, first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_BATCH_H
#define WEIR_SRC_CALL_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

/* The operations of a client, and so the slots for batches under way: the core keeps one for each
 * type that may be first in a batch. */
#define WEIR__N_CLIENT_OPS 6

#define WEIR__OP_BIT(type) ((uint8_t)(1u << (type)))

/* The slots, by the operation that a batch begins with. */
#define WEIR__HEADERS_SLOT 0 /* GRPC_OP_SEND_INITIAL_METADATA */
#define WEIR__SEND_SLOT 1
#define WEIR__CLOSE_SLOT 2
#define WEIR__METADATA_SLOT 3 /* GRPC_OP_RECV_INITIAL_METADATA */
#define WEIR__RECEIVE_SLOT 4
#define WEIR__STATUS_SLOT 5

/* A unary call's operations. The initial metadata may be left to weir. */
#define WEIR__UNARY_OPS                                                                \
  (WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA) | WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE) |  \
   WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT) | WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE) | \
   WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT))

/* Operations that a call has at most once. */
#define WEIR__ONCE_OPS                                                                          \
  (WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA) | WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT) | \
   WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA) | WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT))

/* What batches have taken of a call, as bits: 0..7 the operations that it has once, 8..13 the slots
 * under way, 16..23 the operations under way that may come again. */
#define WEIR__CLAIM_SLOT(slot) (1u << (8 + (slot)))
#define WEIR__CLAIM_AGAIN(op_types) (((unsigned)(op_types) & ~(unsigned)WEIR__ONCE_OPS) << 16)

struct weir__batch {
  /* the application's, in its order; borrowed while the batch is being started */
  const grpc_op *ops;
  size_t n_ops;
  uint8_t op_types;                     /* WEIR__OP_BIT of each */
  uint8_t slot;                         /* of the first operation, as the core chooses it */
  const grpc_op *send_initial_metadata; /* NULL = not in the batch; so below */
  const grpc_op *send_message;
  const grpc_op *recv_initial_metadata;
  const grpc_op *recv_message;
  const grpc_op *recv_status;
};

/* `n_ops` is not 0, `claims` is what is taken of the call. Anything but GRPC_CALL_OK: the core
 * would refuse the batch, with this. An operation that is none of the core's is refused with
 * GRPC_CALL_ERROR, wherever it stands: 1.51 aborts if it comes first and ignores it elsewhere. */
grpc_call_error weir__batch_read(const grpc_op *ops, size_t n_ops, unsigned claims,
                                 struct weir__batch *batch_out);

/* The same for the operations of a unary call that weir itself makes, one of each type and in the
 * order of their slots: only the application's metadata can be wrong. */
grpc_call_error weir__batch_of_unary(const grpc_op ops[WEIR__N_CLIENT_OPS],
                                     struct weir__batch *batch_out);

#endif /* WEIR_SRC_CALL_BATCH_H */
