/* server ops – the operations of a call that is served, with nothing but what they are about.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SUPPORT_SERVER_OPS_H
#define WEIR_TEST_E2E_SUPPORT_SERVER_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

/* Tells of the call's end. To be started at once: without it, the caller's going away reaches
 * neither this process nor the calls that are made for the request. */
grpc_op weir__close_op(int *cancelled_out);

/* NULL is written where the caller has closed his side, or is gone. */
grpc_op weir__receive_op(grpc_byte_buffer **message_out);

#define WEIR__SEND_OPS 3

/* Headers, unless they were sent before; a message and a GRPC_OP_SEND_STATUS_FROM_SERVER, unless
 * they are NULL. Returns how many that are. */
size_t weir__send_ops(grpc_op ops_out[WEIR__SEND_OPS], bool *headers_sent,
                      grpc_byte_buffer *message, const grpc_op *status);

#endif /* WEIR_TEST_E2E_SUPPORT_SERVER_OPS_H */
