/* batched_call – a call of weir's that is started in batches of any shape, and what came of each.
 *
 *   struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
 *   struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_STATUS));
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_BATCHED_CALL_H
#define WEIR_TEST_SUPPORT_BATCHED_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/call.h>

#include "test/support/awaited_tag.h"

/* The operations of a client, short. */
enum batched_op {
  OPS_END = 0,
  SEND_METADATA,
  SEND_MESSAGE,
  SEND_CLOSE,
  RECV_METADATA,
  RECV_MESSAGE,
  RECV_STATUS
};

#define N_BATCHED_OPS 6

#define SEND_ALL SEND_METADATA, SEND_MESSAGE, SEND_CLOSE
#define RECV_ALL RECV_METADATA, RECV_MESSAGE, RECV_STATUS

/* A batch, in this order. */
#define OPS(...)              \
  (const enum batched_op[]) { \
    __VA_ARGS__, OPS_END      \
  }

struct call_batch {
  struct awaited_tag tag;
  grpc_byte_buffer *sent;
  grpc_byte_buffer *received; /* NULL = none, or the end of the stream */
};

#define BATCHES_MAX 16

struct batched_call {
  weir_call *call; /* NULL = let go */
  struct call_batch batches[BATCHES_MAX];
  size_t n_batches;

  /* What the next batches send. */
  grpc_byte_buffer *next_message; /* NULL = "foo" */
  grpc_metadata *metadata;        /* borrowed */
  size_t n_metadata;
  uint32_t metadata_flags;

  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code status; /* (grpc_status_code)-1 until it is known */
  grpc_slice details;
  const char *error_string;
};

/* Takes a call over. Ended by batched_call_release; on the heap, so that the outputs of a call that
 * a failed test leaves behind are still there. */
struct batched_call *batched_call_new(weir_call *made);

/* All tags have come back. */
void batched_call_release(struct batched_call *call);

/* The message of the next batch that sends one: a text, or that many bytes, or a buffer that is
 * taken over. */
void batched_call_say(struct batched_call *call, const char *text);
void batched_call_say_bytes(struct batched_call *call, size_t size);
void batched_call_say_buffer(struct batched_call *call, grpc_byte_buffer *message);

/* Starts a batch, which must not be refused. The result lives as long as the call. */
struct call_batch *batched_call_start(struct batched_call *call, const enum batched_op *ops);

/* Tries to start one that is refused. Its message, not an empty one, is as it was. */
grpc_call_error batched_call_refused(struct batched_call *call, const enum batched_op *ops);

/* Gives the application's share back, in whatever state the call is. */
void batched_call_let_go(struct batched_call *call);

/* Whether all tags have come back. */
bool batched_call_is_idle(const struct batched_call *call);

/* What came back, once it has: each of them once, and with success. */
bool batch_is_success(const struct call_batch *batch);
bool batch_is_failure(const struct call_batch *batch);

/* Whether a text was received; NULL = nothing was. */
bool batch_received(const struct call_batch *batch, const char *text);

/* Fails unless the call has ended so. */
void assert_status(const struct batched_call *call, grpc_status_code code, const char *details);

/* Fails unless the call's report says so. */
void assert_report(const struct batched_call *call, uint32_t n_attempts, enum weir_reason reason);

/* Whether the call's trailing metadata hold the entry. */
bool batched_call_has_trailer(const struct batched_call *call, const char *key, const char *value);

struct weir_call_report batched_call_report(const struct batched_call *call);

#endif /* WEIR_TEST_SUPPORT_BATCHED_CALL_H */
