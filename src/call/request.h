/* request – what an attempt sends, and what is kept to send it again.
 *
 * The application's memory stays valid until its tag has come back, so metadata is not copied. A
 * message is emptied by the core when it is sent, so references to its slices (no bytes) are taken
 * before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_REQUEST_H
#define WEIR_SRC_CALL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/policy.h>

#include "src/call/batch.h"
#include "src/call/replay_budget.h"
#include "src/call/trace.h"

/* A message of more slices than these is kept in memory of its own. */
#define WEIR__REQUEST_INLINE_SLICES 2

/* A one-batch call's request. Zeroed = nothing kept. */
struct weir__request {
  const grpc_metadata *metadata; /* the application's */
  size_t n_metadata;
  uint32_t metadata_flags;
  uint32_t message_flags;
  grpc_byte_buffer *message; /* the application's: for the first attempt */
  bool kept;                 /* `slices` hold it too: it can be sent again */
  grpc_compression_algorithm compression;
  uint32_t n_bytes; /* of the slices */
  uint32_t n_slices;
  grpc_slice *slices; /* `inline_slices`, or allocated */
  grpc_slice inline_slices[WEIR__REQUEST_INLINE_SLICES];
};

/* Reads the request of a unary batch. Nothing is kept yet. */
void weir__request_init(struct weir__request *request, const struct weir__batch *batch);

/* Takes references for a replay, if the message is within both limits of `options`, its own and,
 * with what is in the budget, the channel's, and there is memory; sets `kept`. */
void weir__request_keep(struct weir__request *request, const struct weir_retry_options *options,
                        struct weir__replay_budget *budget, const struct weir_allocator *allocator);

/* A message for a replay; to be destroyed once it was started. NULL when there is no memory or
 * nothing was kept. */
grpc_byte_buffer *weir__request_replay_message(const struct weir__request *request);

void weir__request_fini(struct weir__request *request, struct weir__replay_budget *budget,
                        const struct weir_allocator *allocator);

/* What weir says to the next hop, beside the application's metadata. */
struct weir__request_headers {
  int64_t budget_ns; /* WEIR_NO_LIMIT_NS = the call has no deadline: not sent */
  /* The marker of who owns the retries: this layer's name, unless the application's metadata hold
   * one and this layer yields to it; then that one; then the request's that is being served. */
  const char *retry_owner;       /* NULL = this layer does not */
  const char *outer_retry_owner; /* NULL = it has none */
  bool yields;
  const struct weir__trace
      *trace;          /* the request's that is being served; NULL = none is passed on */
  uint32_t n_previous; /* grpc-previous-rpc-attempts; 0 = not sent (A6) */
  bool tells_timeout;  /* grpc-timeout, which the core does not know of */
};

/* Entries that are merged without allocating. */
#define WEIR__INLINE_METADATA 24

/* The application's metadata and weir's, in one array for the core, which takes references while a
 * batch is started. */
struct weir__merged_metadata {
  grpc_metadata *entries; /* `inline_entries`, or allocated */
  size_t count;
  bool has_owned; /* `owned` is to be let go */
  grpc_slice owned;
  grpc_metadata inline_entries[WEIR__INLINE_METADATA];
};

/* No entries; for who may have none to merge. */
static inline void weir__merged_metadata_init_empty(struct weir__merged_metadata *merged) {
  merged->entries = merged->inline_entries; /* which need not be zeroed: it is two kilobytes */
  merged->count = 0;
  merged->has_owned = false;
}

/* WEIR_ERROR_NO_MEMORY. The application's slices and a trace's are borrowed, weir's own inlined or
 * owned: what the core writes it may hold longer than any call, and so than any name of weir's. */
WEIR_MUST_CHECK enum weir_error
weir__merged_metadata_init(struct weir__merged_metadata *merged, const grpc_metadata *metadata,
                           size_t n_metadata, const struct weir__request_headers *headers,
                           const struct weir_allocator *allocator);
void weir__merged_metadata_fini(struct weir__merged_metadata *merged,
                                const struct weir_allocator *allocator);

/* The flags of initial metadata with the policy's waitForReady, unless the application set its
 * own. */
uint32_t weir__request_metadata_flags(uint32_t flags, enum weir_wait_for_ready policy);

#endif /* WEIR_SRC_CALL_REQUEST_H */
