/* SPDX-License-Identifier: Apache-2.0 */
#include "interceptors/translation/details.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include <google/protobuf/any.upb.h>
#include <google/rpc/status.upb.h>

#include "src/base/allocator.h"

#define TYPE_URL_PREFIX "type.googleapis.com/"
#define TYPE_URL_PREFIX_SIZE (sizeof TYPE_URL_PREFIX - 1)

/* Enough for a few details; more come from the allocator. */
#define BLOCK_BYTES 2048

/* The memory of an arena. */
struct memory {
  upb_alloc base;
  const struct weir_allocator *allocator;
};

struct rebuild {
  upb_Arena *arena;
  const char *const *names;
  size_t n_names;
  size_t n_bytes; /* of type_urls and values that are kept so far */
  google_rpc_Status *status;
};

/* An arena asks for blocks and gives them back; it resizes none. */
static void *memory_allocate(upb_alloc *alloc, void *block, size_t old_size, size_t size) {
  const struct weir_allocator *allocator = ((struct memory *)alloc)->allocator;
  (void)old_size;
  if (size > 0) {
    return allocator->allocate(allocator->context, size);
  }
  weir__free(allocator, block);
  return NULL;
}

/* What follows the last '/'; empty when there is none. */
static upb_StringView type_of(upb_StringView type_url) {
  for (size_t i = type_url.size; i > 0; i--) {
    if (type_url.data[i - 1] == '/') {
      return upb_StringView_FromDataAndSize(type_url.data + i, type_url.size - i);
    }
  }
  return upb_StringView_FromDataAndSize(NULL, 0);
}

/* The policy's name of a type; empty when the type is not kept. */
static upb_StringView kept_name(const struct rebuild *rebuild, upb_StringView type) {
  for (size_t i = 0; i < rebuild->n_names && type.size > 0; i++) {
    const char *name = rebuild->names[i];
    if (strlen(name) == type.size && memcmp(name, type.data, type.size) == 0) {
      return upb_StringView_FromDataAndSize(name, type.size);
    }
  }
  return upb_StringView_FromDataAndSize(NULL, 0);
}

/* Adds a detail under a type_url of weir's own. */
static bool keep(struct rebuild *rebuild, upb_StringView name, upb_StringView value) {
  const size_t url_size = TYPE_URL_PREFIX_SIZE + name.size;
  rebuild->n_bytes += url_size + value.size;
  if (rebuild->n_bytes > WEIR__DETAILS_BYTES) {
    return false;
  }
  google_protobuf_Any *any = google_rpc_Status_add_details(rebuild->status, rebuild->arena);
  char *url = upb_Arena_Malloc(rebuild->arena, url_size);
  if (any == NULL || url == NULL) {
    return false;
  }
  memcpy(url, TYPE_URL_PREFIX, TYPE_URL_PREFIX_SIZE);
  memcpy(url + TYPE_URL_PREFIX_SIZE, name.data, name.size);
  google_protobuf_Any_set_type_url(any, upb_StringView_FromDataAndSize(url, url_size));
  google_protobuf_Any_set_value(any, value);
  return true;
}

/* Adds what is to be kept of the peer's message. False also when that is nothing. */
static bool keep_named(struct rebuild *rebuild, const google_rpc_Status *sent) {
  size_t n_sent = 0;
  const google_protobuf_Any *const *details = google_rpc_Status_details(sent, &n_sent);
  for (size_t i = 0; i < n_sent; i++) {
    const upb_StringView name =
        kept_name(rebuild, type_of(google_protobuf_Any_type_url(details[i])));
    if (name.size > 0 && !keep(rebuild, name, google_protobuf_Any_value(details[i]))) {
      return false;
    }
  }
  return rebuild->n_bytes > 0;
}

static bool write_status(const struct rebuild *rebuild, grpc_slice *details_out) {
  char *bytes = NULL;
  size_t size = 0;
  if (upb_Encode(rebuild->status, &google_rpc_Status_msginit, 0, rebuild->arena, &bytes, &size) !=
          kUpb_EncodeStatus_Ok ||
      size > WEIR__DETAILS_BYTES) {
    return false;
  }
  *details_out = grpc_slice_from_copied_buffer(bytes, size);
  return true;
}

bool weir__translation_details(const char *const *names, size_t n_names, grpc_status_code visible,
                               const char *message, size_t message_size, const char *details,
                               size_t details_size, const struct weir_allocator *allocator,
                               grpc_slice *details_out) {
  *details_out = grpc_empty_slice();
  if (n_names == 0 || details_size == 0 || details_size > WEIR__DETAILS_READ_BYTES) {
    return false;
  }
  /* Zeroed, as upb reads a field of an arena in a given block before it has set it. */
  alignas(max_align_t) char block[BLOCK_BYTES] = {0};
  struct memory memory = {{memory_allocate}, weir__allocator_or_default(allocator)};
  struct rebuild rebuild = {.names = names, .n_names = n_names};
  rebuild.arena = upb_Arena_Init(block, sizeof block, &memory.base);
  rebuild.status = google_rpc_Status_new(rebuild.arena);
  /* Strings are not copied: `details` outlives the arena. */
  const google_rpc_Status *sent = google_rpc_Status_parse_ex(
      details, details_size, NULL, kUpb_DecodeOption_AliasString, rebuild.arena);
  bool kept = rebuild.status != NULL && sent != NULL && keep_named(&rebuild, sent);
  if (kept) {
    google_rpc_Status_set_code(rebuild.status, (int32_t)visible);
    google_rpc_Status_set_message(rebuild.status,
                                  upb_StringView_FromDataAndSize(message, message_size));
    kept = write_status(&rebuild, details_out);
  }
  upb_Arena_Free(rebuild.arena);
  return kept;
}
