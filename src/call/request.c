/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/request.h"

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "src/base/allocator.h"
#include "src/base/decimal.h"
#include "src/call/headers.h"

_Static_assert(GRPC_SLICE_INLINED_SIZE >= WEIR__DECIMAL_BYTES, "a number fits into a slice itself");

void weir__request_init(struct weir__request *request, const struct weir__batch *batch) {
  request->metadata = batch->send_initial_metadata->data.send_initial_metadata.metadata;
  request->n_metadata = batch->send_initial_metadata->data.send_initial_metadata.count;
  request->metadata_flags = batch->send_initial_metadata->flags;
  request->message_flags = batch->send_message->flags;
  request->message = batch->send_message->data.send_message.send_message;
}

static bool budget_take(struct weir__replay_budget *budget, size_t n_bytes) {
  weir__replay_budget_take(budget, n_bytes);
  if (!weir__replay_budget_fits(budget)) {
    weir__replay_budget_give(budget, n_bytes);
    return false;
  }
  return true;
}

void weir__request_keep(struct weir__request *request, uint32_t max_bytes,
                        struct weir__replay_budget *budget,
                        const struct weir_allocator *allocator) {
  const grpc_slice_buffer *message = &request->message->data.raw.slice_buffer;
  if (message->length > max_bytes || message->count > UINT32_MAX ||
      !budget_take(budget, message->length)) {
    weir__replay_budget_note_overflow(budget);
    return;
  }
  request->slices = request->inline_slices;
  if (message->count > WEIR__REQUEST_INLINE_SLICES) {
    request->slices = weir__zalloc_array(allocator, message->count, sizeof request->slices[0]);
    if (request->slices == NULL) {
      weir__replay_budget_give(budget, message->length);
      return;
    }
  }
  for (size_t i = 0; i < message->count; i++) {
    request->slices[i] = grpc_slice_ref(message->slices[i]);
  }
  request->n_slices = (uint32_t)message->count;
  request->n_bytes = (uint32_t)message->length;
  request->compression = request->message->data.raw.compression;
  request->kept = true;
}

grpc_byte_buffer *weir__request_replay_message(const struct weir__request *request) {
  if (!request->kept) {
    return NULL;
  }
  return grpc_raw_compressed_byte_buffer_create(request->slices, request->n_slices,
                                                request->compression);
}

void weir__request_fini(struct weir__request *request, struct weir__replay_budget *budget,
                        const struct weir_allocator *allocator) {
  if (!request->kept) {
    return;
  }
  weir__replay_budget_give(budget, request->n_bytes);
  for (size_t i = 0; i < request->n_slices; i++) {
    grpc_slice_unref(request->slices[i]);
  }
  if (request->slices != request->inline_slices) {
    weir__free(allocator, request->slices);
  }
  request->n_slices = 0;
  request->slices = NULL;
  request->kept = false;
}

/* Whether weir says this itself, so that what the application wrote must not stand beside it. The
 * application's mark of a retry owner stays when weir has none to send: it passes one on by
 * hand. */
static bool is_replaced(const grpc_slice *key, const struct weir__request_headers *headers) {
  size_t size = GRPC_SLICE_LENGTH(*key);
  const char *name = (const char *)GRPC_SLICE_START_PTR(*key);
  if (size == sizeof WEIR__HEADER_PREVIOUS_ATTEMPTS - 1) {
    return memcmp(name, WEIR__HEADER_PREVIOUS_ATTEMPTS, size) == 0;
  }
  if (size == sizeof WEIR__HEADER_BUDGET - 1) {
    return memcmp(name, WEIR__HEADER_BUDGET, size) == 0;
  }
  return headers->retry_owner != NULL && size == sizeof WEIR__HEADER_RETRY_OWNER - 1 &&
         memcmp(name, WEIR__HEADER_RETRY_OWNER, size) == 0;
}

static void add_number(struct weir__merged_metadata *merged, grpc_slice key, uint64_t number) {
  grpc_metadata *entry = &merged->entries[merged->count++];
  entry->key = key;
  entry->value.refcount = NULL; /* inlined: a slice holds 23 bytes itself */
  entry->value.data.inlined.length =
      (uint8_t)weir__decimal_write(number, (char *)entry->value.data.inlined.bytes);
}

static void add_headers(struct weir__merged_metadata *merged,
                        const struct weir__request_headers *headers) {
  if (headers->budget_ns != WEIR_NO_LIMIT_NS) {
    add_number(merged,
               grpc_slice_from_static_buffer(WEIR__HEADER_BUDGET, sizeof WEIR__HEADER_BUDGET - 1),
               (uint64_t)headers->budget_ns / 1000);
  }
  if (headers->retry_owner != NULL) {
    grpc_metadata *entry = &merged->entries[merged->count++];
    entry->key = grpc_slice_from_static_buffer(WEIR__HEADER_RETRY_OWNER,
                                               sizeof WEIR__HEADER_RETRY_OWNER - 1);
    entry->value = grpc_slice_from_static_string(headers->retry_owner);
  }
  if (headers->n_previous > 0) {
    add_number(merged,
               grpc_slice_from_static_buffer(WEIR__HEADER_PREVIOUS_ATTEMPTS,
                                             sizeof WEIR__HEADER_PREVIOUS_ATTEMPTS - 1),
               headers->n_previous);
  }
}

enum weir_error weir__merged_metadata_init(struct weir__merged_metadata *merged,
                                           const grpc_metadata *metadata, size_t n_metadata,
                                           const struct weir__request_headers *headers,
                                           const struct weir_allocator *allocator) {
  merged->count = 0;
  merged->entries = merged->inline_entries;
  if (n_metadata > WEIR__INLINE_METADATA - WEIR__N_HEADERS) {
    merged->entries =
        weir__zalloc_array(allocator, n_metadata + WEIR__N_HEADERS, sizeof merged->entries[0]);
    if (merged->entries == NULL) {
      return WEIR_ERROR_NO_MEMORY;
    }
  }
  for (size_t i = 0; i < n_metadata; i++) {
    if (!is_replaced(&metadata[i].key, headers)) {
      merged->entries[merged->count++] = metadata[i];
    }
  }
  add_headers(merged, headers);
  return WEIR_OK;
}

void weir__merged_metadata_fini(struct weir__merged_metadata *merged,
                                const struct weir_allocator *allocator) {
  if (merged->entries != merged->inline_entries) {
    weir__free(allocator, merged->entries);
  }
}

uint32_t weir__request_metadata_flags(uint32_t flags, enum weir_wait_for_ready policy) {
  if ((flags & GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET) != 0 ||
      (flags & GRPC_INITIAL_METADATA_WAIT_FOR_READY) != 0) {
    return flags;
  }
  switch (policy) {
  case WEIR_WAIT_FOR_READY_UNSET:
    return flags;
  case WEIR_WAIT_FOR_READY_TRUE:
    return flags | GRPC_INITIAL_METADATA_WAIT_FOR_READY |
           GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
  case WEIR_WAIT_FOR_READY_FALSE:
    return flags | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
  }
  return flags;
}
