/* one_batch – calls that are started as one batch: attempts, backoffs, and the one event.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_ONE_BATCH_H
#define WEIR_SRC_CALL_ONE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "src/call/call.h"

extern const struct weir__completion_ops weir__one_batch_ops;

/* Sends the call's request on attempt.core, with `message`. The event may come before it
 * returns. */
grpc_call_error weir__one_batch_send(weir_call *call, grpc_byte_buffer *message, int64_t now_ns);

/* Sends the request once more, on a fresh attempt. False: it could not be; sets the
 * reason. After true the call may be
 * over. */
bool weir__one_batch_resend(weir_call *call, int64_t now_ns);

#endif /* WEIR_SRC_CALL_ONE_BATCH_H */
