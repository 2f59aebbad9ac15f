/* weir/inbound.h – what a service knows of the request it serves while it calls others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INBOUND_H
#define WEIR_INBOUND_H

#include <grpc/grpc.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_inbound weir_inbound;

/* Reads a request that a server has been given: its deadline (the nearer of the core's and
 * weir-budget-us), who owns the retries of the chain (weir-retry-owner, or
 * grpc-previous-rpc-attempts from a caller without weir), and the call whose cancellation reaches
 * the calls made for it.
 *
 * Malformed headers are read as absent: a forged one can bring the deadline nearer or switch
 * retries off, no more.
 *
 * Ownership: `details` and `request_metadata` are borrowed for the call. `server_call` is borrowed
 *            until the calls made with this inbound have been created; it may be NULL. On success
 *            `*inbound_out` is the caller's until weir_inbound_release; calls keep a share of their
 *            own. `allocator` NULL = malloc.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_NO_MEMORY; `*inbound_out` is then NULL. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_inbound_new(const grpc_call_details *details, const grpc_metadata_array *request_metadata,
                 grpc_call *server_call, const struct weir_allocator *allocator,
                 weir_inbound **inbound_out);

/* Ends the caller's share of an inbound.
 *
 * Ownership: `inbound` is taken over; NULL is allowed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_inbound_release(weir_inbound *inbound);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_INBOUND_H */
