/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/request.h"

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "src/base/allocator.h"
#include "src/base/decimal.h"
#include "src/call/headers.h"
#include "src/call/retry_owner.h"

#define NS_PER_MS UINT64_C(1000000)
#define MS_PER_SECOND 1000
#define MAX_TIMEOUT 99999999 /* eight digits: gRPC's wire format has no more */

_Static_assert(GRPC_SLICE_INLINED_SIZE >= WEIR__DECIMAL_BYTES, "a number fits into a slice itself");

void weir__request_init(struct weir__request *request, const struct weir__batch *batch) {
  request->metadata = batch->send_initial_metadata->data.send_initial_metadata.metadata;
  request->n_metadata = batch->send_initial_metadata->data.send_initial_metadata.count;
  request->metadata_flags = batch->send_initial_metadata->flags;
  request->message_flags = batch->send_message->flags;
  request->message = batch->send_message->data.send_message.send_message;
}

static bool budget_take(struct weir__replay_budget *budget, size_t n_bytes, size_t max_bytes) {
  if (n_bytes == 0) {
    return true; /* nothing is taken, and no other thread met */
  }
  weir__replay_budget_take(budget, n_bytes);
  if (!weir__replay_budget_fits(budget, max_bytes)) {
    weir__replay_budget_give(budget, n_bytes);
    return false;
  }
  return true;
}

void weir__request_keep(struct weir__request *request, const struct weir_retry_options *options,
                        struct weir__replay_budget *budget,
                        const struct weir_allocator *allocator) {
  const grpc_slice_buffer *message = &request->message->data.raw.slice_buffer;
  if (message->length > options->replay_bytes || message->count > UINT32_MAX ||
      !budget_take(budget, message->length, options->channel_replay_bytes)) {
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
  if (request->n_bytes > 0) {
    weir__replay_budget_give(budget, request->n_bytes);
  }
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

/* Whether weir says this itself, so that what the application wrote must not stand beside it. */
static bool is_replaced(const grpc_slice *key) {
  size_t size = GRPC_SLICE_LENGTH(*key);
  const char *name = (const char *)GRPC_SLICE_START_PTR(*key);
  if (size == sizeof WEIR__HEADER_PREVIOUS_ATTEMPTS - 1) {
    return memcmp(name, WEIR__HEADER_PREVIOUS_ATTEMPTS, size) == 0;
  }
  if (size == sizeof WEIR__HEADER_BUDGET - 1) {
    return memcmp(name, WEIR__HEADER_BUDGET, size) == 0;
  }
  return false;
}

/* Copies the application's metadata, but for what weir says itself. True: among that was a mark of a
 * retry owner. */
static bool copy_metadata(struct weir__merged_metadata *merged, const grpc_metadata *metadata,
                          size_t n_metadata) {
  bool marked = false;
  for (size_t i = 0; i < n_metadata; i++) {
    if (weir__retry_owner_is_key(&metadata[i].key)) {
      marked = true;
    } else if (!is_replaced(&metadata[i].key)) {
      merged->entries[merged->count++] = metadata[i];
    }
  }
  return marked;
}

static void add_number(struct weir__merged_metadata *merged, grpc_slice key, uint64_t number) {
  grpc_metadata *entry = &merged->entries[merged->count++];
  entry->key = key;
  entry->value.refcount = NULL; /* inlined: a slice holds 23 bytes itself */
  entry->value.data.inlined.length =
      (uint8_t)weir__decimal_write(number, (char *)entry->value.data.inlined.bytes);
}

/* Rounded up. The core reads it as if it had come from the application, makes an instant of it, and
 * writes what is left until then. It counts from the millisecond that has begun: without one more,
 * the peer's time might be over before the call's. The last of several counts. */
static void add_timeout(struct weir__merged_metadata *merged, int64_t budget_ns) {
  uint64_t left = ((uint64_t)budget_ns + NS_PER_MS - 1) / NS_PER_MS + 1;
  char unit = 'm';
  if (left > MAX_TIMEOUT) {
    left = (left + MS_PER_SECOND - 1) / MS_PER_SECOND;
    left = left < MAX_TIMEOUT ? left : MAX_TIMEOUT;
    unit = 'S';
  }
  grpc_slice *value = &merged->entries[merged->count].value;
  add_number(merged,
             grpc_slice_from_static_buffer(WEIR__HEADER_TIMEOUT, sizeof WEIR__HEADER_TIMEOUT - 1),
             left);
  value->data.inlined.bytes[value->data.inlined.length++] = (uint8_t)unit;
}

static void add_owner(struct weir__merged_metadata *merged, const char *name) {
  grpc_metadata *entry = &merged->entries[merged->count++];
  size_t size = strlen(name);
  entry->key =
      grpc_slice_from_static_buffer(WEIR__HEADER_RETRY_OWNER, sizeof WEIR__HEADER_RETRY_OWNER - 1);
  if (size <= GRPC_SLICE_INLINED_SIZE) {
    entry->value.refcount = NULL;
    entry->value.data.inlined.length = (uint8_t)size;
    memcpy(entry->value.data.inlined.bytes, name, size);
  } else {
    entry->value = grpc_slice_from_copied_buffer(name, size);
    merged->owned = entry->value;
    merged->has_owned = true;
  }
}

static void add_trace(struct weir__merged_metadata *merged, const struct weir__trace *trace,
                      const grpc_metadata *metadata, size_t n_metadata) {
  for (size_t i = 0; i < trace->n_entries; i++) {
    if (!weir__trace_is_overridden(&trace->entries[i], metadata, n_metadata)) {
      grpc_metadata *entry = &merged->entries[merged->count++];
      entry->key = trace->entries[i].key;
      entry->value = trace->entries[i].value;
    }
  }
}

static void add_headers(struct weir__merged_metadata *merged, const char *retry_owner,
                        const struct weir__request_headers *headers) {
  if (headers->budget_ns != WEIR_NO_LIMIT_NS) {
    if (headers->tells_timeout) {
      add_timeout(merged, headers->budget_ns);
    }
    add_number(merged,
               grpc_slice_from_static_buffer(WEIR__HEADER_BUDGET, sizeof WEIR__HEADER_BUDGET - 1),
               (uint64_t)headers->budget_ns / 1000);
  }
  if (retry_owner != NULL) {
    add_owner(merged, retry_owner);
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
  size_t n_own = WEIR__N_HEADERS + (headers->trace != NULL ? headers->trace->n_entries : 0);
  weir__merged_metadata_init_empty(merged);
  if (n_metadata > WEIR__INLINE_METADATA - n_own) {
    merged->entries = weir__zalloc_array(allocator, n_metadata + n_own, sizeof merged->entries[0]);
    if (merged->entries == NULL) {
      return WEIR_ERROR_NO_MEMORY;
    }
  }
  const char *retry_owner =
      headers->retry_owner != NULL ? headers->retry_owner : headers->outer_retry_owner;
  char passed_on[WEIR__RETRY_OWNER_BYTES];
  if (copy_metadata(merged, metadata, n_metadata) &&
      (headers->yields || headers->retry_owner == NULL)) {
    (void)weir__retry_owner_find(metadata, n_metadata, passed_on);
    retry_owner = passed_on;
  }
  add_headers(merged, retry_owner, headers);
  if (headers->trace != NULL) {
    add_trace(merged, headers->trace, metadata, n_metadata);
  }
  return WEIR_OK;
}

void weir__merged_metadata_fini(struct weir__merged_metadata *merged,
                                const struct weir_allocator *allocator) {
  if (merged->entries != merged->inline_entries) {
    weir__free(allocator, merged->entries);
  }
  if (merged->has_owned) {
    grpc_slice_unref(merged->owned);
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
