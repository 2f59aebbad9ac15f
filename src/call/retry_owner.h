/* retry_owner – the marker by which the layers of a chain of calls know which of them retries.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_RETRY_OWNER_H
#define WEIR_SRC_CALL_RETRY_OWNER_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

/* A name, terminated, fits. A marker that is longer is passed on as WEIR__UNKNOWN_RETRY_OWNER. */
#define WEIR__RETRY_OWNER_BYTES 64

/* The marker passed on for a caller that retries, but does not say under which policy. */
#define WEIR__UNKNOWN_RETRY_OWNER "upstream"

/* Whether `key` is the marker's. */
bool weir__retry_owner_is_key(const grpc_slice *key);

/* Whether the metadata hold a marker, and `name_out`: the name to pass on, the first that is one. A
 * marker that can't be a policy's name still marks: whoever sent it wants no retries here. */
bool weir__retry_owner_find(const grpc_metadata *metadata, size_t n_metadata,
                            char name_out[WEIR__RETRY_OWNER_BYTES]);

/* Whether an operation, or NULL, sends a marker of the application's. */
bool weir__retry_owner_is_sent(const grpc_op *send_initial_metadata);

#endif /* WEIR_SRC_CALL_RETRY_OWNER_H */
