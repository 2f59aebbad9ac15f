/* metadata – entries of gRPC metadata, looked up and made from text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SUPPORT_METADATA_H
#define WEIR_TEST_E2E_SUPPORT_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

/* The last value of `key`, owned by `metadata`; NULL when there is none. */
const grpc_slice *weir__metadata_find(const grpc_metadata_array *metadata, const char *key);

/* Copies the value of `key` as text, cut to fit and terminated. False, and "", when there is
 * none. */
bool weir__metadata_copy_text(const grpc_metadata_array *metadata, const char *key, char *text_out,
                              size_t text_size);

/* The value of `key` as a decimal number; `otherwise` when there is none, or it is no number. */
int64_t weir__metadata_number(const grpc_metadata_array *metadata, const char *key,
                              int64_t otherwise);

/* An entry with copies of both texts: two slices to unref. */
grpc_metadata weir__metadata_from_text(const char *key, const char *value);

#endif /* WEIR_TEST_E2E_SUPPORT_METADATA_H */
