/* replay – what a call in several batches has started to send, kept to be sent again until the call
 * commits.
 *
 * The application's memory is its own again once a tag has come back, so metadata is copied;
 * messages are kept by references to their slices (no bytes), but for slices that hold nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_REPLAY_H
#define WEIR_SRC_CALL_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>
#include <weir/error.h>

#include "src/call/batch.h"
#include "src/call/replay_budget.h"

/* Messages that are kept without allocating the list. */
#define WEIR__REPLAY_INLINE_MESSAGES 4

struct weir__replay_message {
  grpc_byte_buffer *buffer;
  uint32_t flags;
};

/* Zeroed = nothing kept. */
struct weir__replay {
  bool has_metadata;
  bool half_closed;
  uint32_t metadata_flags;
  grpc_metadata *metadata;
  size_t n_metadata;
  struct weir__replay_message *messages; /* `inline_messages`, or allocated */
  size_t n_messages;
  size_t capacity;
  size_t n_bytes; /* of metadata and messages */
  struct weir__replay_message inline_messages[WEIR__REPLAY_INLINE_MESSAGES];
};

/* Keeps what the batch sends, behind what is kept. WEIR_ERROR_NO_MEMORY: nothing of it is. */
WEIR_MUST_CHECK enum weir_error weir__replay_keep(struct weir__replay *replay,
                                                  const struct weir__batch *batch,
                                                  struct weir__replay_budget *budget,
                                                  const struct weir_allocator *allocator);

/* Takes out what weir__replay_keep put in last, with the same batch. */
void weir__replay_unkeep(struct weir__replay *replay, const struct weir__batch *batch,
                         struct weir__replay_budget *budget,
                         const struct weir_allocator *allocator);

/* A copy of the nth message; the core empties what it sends. */
grpc_byte_buffer *weir__replay_message_copy(const struct weir__replay *replay, size_t nth);

/* Frees everything, and gives the bytes back. */
void weir__replay_drop(struct weir__replay *replay, struct weir__replay_budget *budget,
                       const struct weir_allocator *allocator);

#endif /* WEIR_SRC_CALL_REPLAY_H */
