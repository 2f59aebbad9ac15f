/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/trace.h"

#include <string.h>

#include <grpc/slice.h>

static bool begins_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_legal_key(const char *key) {
  return key != NULL && grpc_header_key_is_legal(grpc_slice_from_static_string(key)) != 0 &&
         !begins_with(key, "grpc-") && !begins_with(key, "weir-");
}

enum weir_error weir__trace_check_keys(const char *const *keys, size_t n_keys) {
  if (n_keys > WEIR__TRACE_KEYS) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  for (size_t i = 0; i < n_keys; i++) {
    if (!is_legal_key(keys[i])) {
      return WEIR_ERROR_INVALID_ARGUMENT;
    }
  }
  return WEIR_OK;
}

static bool may_be_sent(const grpc_metadata *entry) {
  return grpc_is_binary_header(entry->key) != 0 ||
         grpc_header_nonbin_value_is_legal(entry->value) != 0;
}

static void take(struct weir__trace *trace, const grpc_metadata *entry) {
  size_t n_bytes = GRPC_SLICE_LENGTH(entry->key) + GRPC_SLICE_LENGTH(entry->value);
  if (trace->n_entries == WEIR__TRACE_ENTRIES ||
      GRPC_SLICE_LENGTH(entry->value) > WEIR__TRACE_VALUE_BYTES ||
      n_bytes > WEIR__TRACE_BYTES - trace->n_bytes || !may_be_sent(entry)) {
    return;
  }
  trace->n_bytes += n_bytes;
  trace->entries[trace->n_entries++] = (struct weir__trace_entry){
      .key = grpc_slice_copy(entry->key), .value = grpc_slice_copy(entry->value)};
}

static bool is_asked_for_before(const char *const *keys, size_t nth) {
  for (size_t i = 0; i < nth; i++) {
    if (strcmp(keys[i], keys[nth]) == 0) {
      return true;
    }
  }
  return false;
}

void weir__trace_read(struct weir__trace *trace, const char *const *keys, size_t n_keys,
                      const grpc_metadata_array *metadata) {
  for (size_t nth = 0; metadata != NULL && nth < n_keys; nth++) {
    if (is_asked_for_before(keys, nth)) {
      continue;
    }
    for (size_t i = 0; i < metadata->count; i++) {
      if (grpc_slice_str_cmp(metadata->metadata[i].key, keys[nth]) == 0) {
        take(trace, &metadata->metadata[i]);
      }
    }
    trace->has_first = trace->has_first || (nth == 0 && trace->n_entries > 0);
  }
}

bool weir__trace_is_overridden(const struct weir__trace_entry *entry, const grpc_metadata *metadata,
                               size_t n_metadata) {
  for (size_t i = 0; i < n_metadata; i++) {
    if (grpc_slice_eq(metadata[i].key, entry->key) != 0) {
      return true;
    }
  }
  return false;
}

struct weir_bytes weir__trace_first(const struct weir__trace *trace) {
  if (!trace->has_first) {
    return (struct weir_bytes){.data = NULL, .size = 0};
  }
  const grpc_slice *value = &trace->entries[0].value;
  return (struct weir_bytes){.data = (const char *)GRPC_SLICE_START_PTR(*value),
                             .size = GRPC_SLICE_LENGTH(*value)};
}

void weir__trace_fini(struct weir__trace *trace) {
  for (size_t i = 0; i < trace->n_entries; i++) {
    grpc_slice_unref(trace->entries[i].key);
    grpc_slice_unref(trace->entries[i].value);
  }
}
