/* details – the google.rpc.Status beside a failure's status, made anew for a caller at a boundary.
 *
 * A peer may explain its failure in a message of its own, a google.rpc.Status in the trailing
 * metadata grpc-status-details-bin: code and message once more, and a list of google.protobuf.Any.
 * A boundary lets none of its bytes pass but the values of the types that the policy names.
 *
 * A value passes as it is: what it says, and what it hides in fields that its type does not know,
 * is the peer's. Whoever names a type in the policy trusts the peer with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_TRANSLATION_DETAILS_H
#define WEIR_INTERCEPTORS_TRANSLATION_DETAILS_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/slice.h>
#include <grpc/status.h>

#include <weir/allocator.h>

/* The largest message that is made: with the base64 of HTTP/2 around it, and metadata of the
 * service's own beside it, it stays below the 8 KiB that a core accepts. */
#define WEIR__DETAILS_BYTES 4096

/* The largest message that is read, which bounds the memory that reading it takes. A core accepts
 * as much only where its own bound was raised. */
#define WEIR__DETAILS_READ_BYTES ((size_t)256 * 1024)

/* Makes the details of a failure that the caller sees as `visible` and `message` out of the peer's:
 * the raw bytes, without base64. Kept are, in their order, those whose type is one of `names` (as
 * "google.rpc.RetryInfo"; a type is what follows the last '/' of a type_url), each with the
 * canonical type_url of the name. All of them are kept, or none.
 *
 * On true `*details_out` is the caller's (grpc_slice_unref). False, with an empty slice: there is
 * nothing to keep, the bytes are no google.rpc.Status, one of the bounds above is exceeded, or
 * there is no memory. Any thread. */
bool weir__translation_details(const char *const *names, size_t n_names, grpc_status_code visible,
                               const char *message, size_t message_size, const char *details,
                               size_t details_size, const struct weir_allocator *allocator,
                               grpc_slice *details_out);

#endif /* WEIR_INTERCEPTORS_TRANSLATION_DETAILS_H */
