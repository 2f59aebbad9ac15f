/* stream_attempt – one attempt of a call in several batches: what the core is given, and what has
 * come of it.
 *
 * Everything here is done under the stream's lock.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_STREAM_ATTEMPT_H
#define WEIR_SRC_CALL_STREAM_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "src/call/stream.h"

#define WEIR__SENDS                                                                   \
  (WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA) | WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE) | \
   WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT))
#define WEIR__RECEIVES                                                                \
  (WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA) | WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE) | \
   WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT))

/* Passes those operations of a batch to the core that are of `op_types`, in the application's order
 * and with weir's metadata. */
grpc_call_error weir__stream_pass(weir_call *call, const struct weir__batch *batch,
                                  uint8_t op_types, int64_t now_ns);

/* Asks for one of the three things that can be received, for the engine's sake. */
void weir__stream_ask_locked(struct weir__stream *stream, grpc_op_type type);

/* Asks anew for what the pending batch in `slot` is to receive. False: the core refused it. */
bool weir__stream_ask_again_locked(struct weir__stream *stream, uint8_t slot);

/* The current attempt forgets what was done on the one before. */
void weir__stream_renew_locked(struct weir__stream *stream);

/* Sends the next of what is kept, unless something is being sent. False: the core refused it. */
bool weir__stream_pump_locked(struct weir__stream *stream, int64_t now_ns);

/* The pump's batch is over. */
void weir__stream_pumped_locked(struct weir__stream *stream, bool ok);

/* What the pump has not sent is not sent any more. */
void weir__stream_stop_pump_locked(struct weir__stream *stream);

/* The attempt is not to send these: what the application waits for of them has failed, but for the
 * half-close, which the core takes as done once the peer has ended the call. */
void weir__stream_lose_locked(struct weir__stream *stream, uint8_t sends);

/* Asks the core what a half-close comes to that was lost so, once nothing else is being sent. */
void weir__stream_close_locked(struct weir__stream *stream);

/* The attempt can't go on as it should: cancels it. */
void weir__stream_break_locked(struct weir__stream *stream);

#endif /* WEIR_SRC_CALL_STREAM_ATTEMPT_H */
