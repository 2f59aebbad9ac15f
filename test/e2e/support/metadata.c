/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/support/metadata.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/slice.h>

#define NUMBER_SIZE 24 /* INT64_MIN has 20 characters */

const grpc_slice *weir__metadata_find(const grpc_metadata_array *metadata, const char *key) {
  for (size_t i = metadata->count; i > 0; i--) {
    if (grpc_slice_str_cmp(metadata->metadata[i - 1].key, key) == 0) {
      return &metadata->metadata[i - 1].value;
    }
  }
  return NULL;
}

bool weir__metadata_copy_text(const grpc_metadata_array *metadata, const char *key, char *text_out,
                              size_t text_size) {
  const grpc_slice *value = weir__metadata_find(metadata, key);
  text_out[0] = '\0';
  if (value == NULL) {
    return false;
  }
  size_t length = GRPC_SLICE_LENGTH(*value);
  if (length >= text_size) {
    length = text_size - 1;
  }
  memcpy(text_out, GRPC_SLICE_START_PTR(*value), length);
  text_out[length] = '\0';
  return true;
}

int64_t weir__metadata_number(const grpc_metadata_array *metadata, const char *key,
                              int64_t otherwise) {
  char text[NUMBER_SIZE];
  char *end = NULL;
  if (!weir__metadata_copy_text(metadata, key, text, sizeof text) || text[0] == '\0') {
    return otherwise;
  }
  errno = 0;
  int64_t number = strtoimax(text, &end, 10);
  return *end == '\0' && errno == 0 ? number : otherwise;
}

grpc_metadata weir__metadata_from_text(const char *key, const char *value) {
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  entry.key = grpc_slice_from_copied_string(key);
  entry.value = grpc_slice_from_copied_string(value);
  return entry;
}
