/* attempt – one try on the wire, and what came back of it.
 *
 * The core writes to an attempt's own zeroed memory, never to the application's: an attempt that is
 * thrown away leaves no trace, and the capacities of fresh arrays are signals
 * (src/outcome/wire_signals.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_ATTEMPT_H
#define WEIR_SRC_CALL_ATTEMPT_H

#include <stdbool.h>

#include <grpc/grpc.h>

#include "src/outcome/outcome.h"
#include "src/transport/transport.h"

/* Zeroed = none. */
struct weir__attempt {
  grpc_call *core; /* the elements of the metadata live as long as it does */
  int64_t deadline_at_ns;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *message;
  grpc_slice details;
  const char *error_string;
  grpc_status_code status;
};

/* Copies `op`, with its outputs, if it has any, going to the attempt. */
grpc_op weir__attempt_op(struct weir__attempt *attempt, const grpc_op *op);

/* Frees what came back, and keeps the core's call: the application is to see none of it. */
void weir__attempt_drop_response(struct weir__attempt *attempt);

/* Ends the attempt; NULL members are allowed. */
void weir__attempt_fini(struct weir__attempt *attempt, const struct weir__transport *transport);

#endif /* WEIR_SRC_CALL_ATTEMPT_H */
