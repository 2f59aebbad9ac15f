/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/retry_owner.h"

#include <string.h>

#include <grpc/slice.h>

#include "src/call/headers.h"

bool weir__retry_owner_is_key(const grpc_slice *key) {
  static const char name[] = WEIR__HEADER_RETRY_OWNER;
  return GRPC_SLICE_LENGTH(*key) == sizeof name - 1 &&
         memcmp(GRPC_SLICE_START_PTR(*key), name, sizeof name - 1) == 0;
}

/* A name as policies have them; see weir_policy_options. */
static bool is_name(const char *text, size_t size) {
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (size == 0 || size >= WEIR__RETRY_OWNER_BYTES) {
    return false;
  }
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '\0' || strchr(allowed, text[i]) == NULL) {
      return false;
    }
  }
  return true;
}

bool weir__retry_owner_find(const grpc_metadata *metadata, size_t n_metadata,
                            char name_out[WEIR__RETRY_OWNER_BYTES]) {
  bool found = false;
  for (size_t i = 0; i < n_metadata; i++) {
    if (!weir__retry_owner_is_key(&metadata[i].key)) {
      continue;
    }
    found = true;
    const char *text = (const char *)GRPC_SLICE_START_PTR(metadata[i].value);
    size_t size = GRPC_SLICE_LENGTH(metadata[i].value);
    if (is_name(text, size)) {
      memcpy(name_out, text, size);
      name_out[size] = '\0';
      return true;
    }
  }
  if (found) {
    memcpy(name_out, WEIR__UNKNOWN_RETRY_OWNER, sizeof WEIR__UNKNOWN_RETRY_OWNER);
  }
  return found;
}

bool weir__retry_owner_is_sent(const grpc_op *send_initial_metadata) {
  if (send_initial_metadata == NULL) {
    return false;
  }
  const grpc_metadata *metadata = send_initial_metadata->data.send_initial_metadata.metadata;
  size_t n_metadata = send_initial_metadata->data.send_initial_metadata.count;
  for (size_t i = 0; i < n_metadata; i++) {
    if (weir__retry_owner_is_key(&metadata[i].key)) {
      return true;
    }
  }
  return false;
}
