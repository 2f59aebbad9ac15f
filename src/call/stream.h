/* stream – calls in several batches: each is passed to the core, and the one with the status ends
 * the call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_STREAM_H
#define WEIR_SRC_CALL_STREAM_H

#include <stdint.h>

#include <grpc/grpc.h>

#include "src/call/call.h"

extern const struct weir__completion_ops weir__stream_ops;

/* Passes a batch to the core, in the application's order and with weir's metadata. `now_ns` is
 * needed only where the batch sends initial metadata. */
grpc_call_error weir__stream_start(weir_call *call, const struct weir__batch *batch,
                                   int64_t now_ns);

#endif /* WEIR_SRC_CALL_STREAM_H */
