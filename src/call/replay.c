/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/replay.h"

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "src/base/allocator.h"

static size_t metadata_bytes(const grpc_metadata *metadata, size_t n_metadata) {
  size_t n_bytes = 0;
  for (size_t i = 0; i < n_metadata; i++) {
    n_bytes += GRPC_SLICE_LENGTH(metadata[i].key) + GRPC_SLICE_LENGTH(metadata[i].value);
  }
  return n_bytes;
}

static void drop_metadata(struct weir__replay *replay, const struct weir_allocator *allocator) {
  for (size_t i = 0; i < replay->n_metadata; i++) {
    grpc_slice_unref(replay->metadata[i].key);
    grpc_slice_unref(replay->metadata[i].value);
  }
  weir__free(allocator, replay->metadata);
  replay->metadata = NULL;
  replay->n_metadata = 0;
  replay->has_metadata = false;
}

/* A slice may stand for memory of the application's without holding it, so it is copied. */
static bool keep_metadata(struct weir__replay *replay, const grpc_op *op,
                          const struct weir_allocator *allocator) {
  const grpc_metadata *metadata = op->data.send_initial_metadata.metadata;
  size_t count = op->data.send_initial_metadata.count;
  if (count > 0) {
    replay->metadata = weir__zalloc_array(allocator, count, sizeof replay->metadata[0]);
    if (replay->metadata == NULL) {
      return false;
    }
  }
  for (size_t i = 0; i < count; i++) {
    replay->metadata[i].key = grpc_slice_copy(metadata[i].key);
    replay->metadata[i].value = grpc_slice_copy(metadata[i].value);
  }
  replay->n_metadata = count;
  replay->metadata_flags = op->flags;
  replay->has_metadata = true;
  replay->n_bytes += metadata_bytes(metadata, count);
  return true;
}

static bool make_room(struct weir__replay *replay, const struct weir_allocator *allocator) {
  if (replay->messages == NULL) {
    replay->messages = replay->inline_messages;
    replay->capacity = WEIR__REPLAY_INLINE_MESSAGES;
  }
  if (replay->n_messages < replay->capacity) {
    return true;
  }
  size_t capacity = replay->capacity * 2;
  struct weir__replay_message *messages =
      weir__zalloc_array(allocator, capacity, sizeof messages[0]);
  if (messages == NULL) {
    return false;
  }
  memcpy(messages, replay->messages, replay->n_messages * sizeof messages[0]);
  if (replay->messages != replay->inline_messages) {
    weir__free(allocator, replay->messages);
  }
  replay->messages = messages;
  replay->capacity = capacity;
  return true;
}

/* A reference, or a copy where there is nothing to refer to: the slice stands for memory that the
 * application may use again once the message's tag has come back. */
static grpc_slice keep_slice(grpc_slice slice) {
  const struct grpc_slice_refcount *unowned = grpc_slice_from_static_buffer("", 0).refcount;
  return slice.refcount == unowned ? grpc_slice_copy(slice) : grpc_slice_ref(slice);
}

static grpc_byte_buffer *keep_buffer(const grpc_byte_buffer *message) {
  const grpc_slice_buffer *slices = &message->data.raw.slice_buffer;
  grpc_byte_buffer *kept =
      grpc_raw_compressed_byte_buffer_create(NULL, 0, message->data.raw.compression);
  for (size_t i = 0; i < slices->count; i++) {
    grpc_slice_buffer_add(&kept->data.raw.slice_buffer, keep_slice(slices->slices[i]));
  }
  return kept;
}

static bool keep_message(struct weir__replay *replay, const grpc_op *op,
                         const struct weir_allocator *allocator) {
  if (!make_room(replay, allocator)) {
    return false;
  }
  grpc_byte_buffer *message = op->data.send_message.send_message;
  replay->messages[replay->n_messages++] = (struct weir__replay_message){
      .buffer = keep_buffer(message),
      .flags = op->flags,
  };
  replay->n_bytes += grpc_byte_buffer_length(message);
  return true;
}

static void unkeep_message(struct weir__replay *replay) {
  grpc_byte_buffer *message = replay->messages[--replay->n_messages].buffer;
  replay->n_bytes -= grpc_byte_buffer_length(message);
  grpc_byte_buffer_destroy(message);
}

static void unkeep_metadata(struct weir__replay *replay, const struct weir_allocator *allocator) {
  replay->n_bytes -= metadata_bytes(replay->metadata, replay->n_metadata);
  drop_metadata(replay, allocator);
}

enum weir_error weir__replay_keep(struct weir__replay *replay, const struct weir__batch *batch,
                                  struct weir__replay_budget *budget,
                                  const struct weir_allocator *allocator) {
  size_t before = replay->n_bytes;
  if (batch->send_initial_metadata != NULL &&
      !keep_metadata(replay, batch->send_initial_metadata, allocator)) {
    return WEIR_ERROR_NO_MEMORY;
  }
  if (batch->send_message != NULL && !keep_message(replay, batch->send_message, allocator)) {
    if (batch->send_initial_metadata != NULL) {
      unkeep_metadata(replay, allocator);
    }
    return WEIR_ERROR_NO_MEMORY;
  }
  if ((batch->op_types & WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT)) != 0) {
    replay->half_closed = true;
  }
  weir__replay_budget_take(budget, replay->n_bytes - before);
  return WEIR_OK;
}

void weir__replay_unkeep(struct weir__replay *replay, const struct weir__batch *batch,
                         struct weir__replay_budget *budget,
                         const struct weir_allocator *allocator) {
  size_t before = replay->n_bytes;
  if ((batch->op_types & WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT)) != 0) {
    replay->half_closed = false;
  }
  if (batch->send_message != NULL) {
    unkeep_message(replay);
  }
  if (batch->send_initial_metadata != NULL) {
    unkeep_metadata(replay, allocator);
  }
  weir__replay_budget_give(budget, before - replay->n_bytes);
}

grpc_byte_buffer *weir__replay_message_copy(const struct weir__replay *replay, size_t nth) {
  return grpc_byte_buffer_copy(replay->messages[nth].buffer);
}

void weir__replay_drop(struct weir__replay *replay, struct weir__replay_budget *budget,
                       const struct weir_allocator *allocator) {
  weir__replay_budget_give(budget, replay->n_bytes);
  for (size_t i = 0; i < replay->n_messages; i++) {
    grpc_byte_buffer_destroy(replay->messages[i].buffer);
  }
  if (replay->messages != replay->inline_messages) {
    weir__free(allocator, replay->messages);
  }
  drop_metadata(replay, allocator);
  memset(replay, 0, sizeof *replay);
}
