/* weir/unary.h – a whole unary call in one function.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UNARY_H
#define WEIR_UNARY_H

#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/call.h>
#include <weir/channel.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/inbound.h>
#include <weir/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to ask. Start from WEIR_UNARY_REQUEST_INIT. */
struct weir_unary_request {
  size_t size;
  const char *method; /* "/pkg.Service/Method" */
  /* loses its bytes; still the caller's to destroy; an empty one is a buffer of no slices */
  grpc_byte_buffer *message;
  const grpc_metadata *metadata; /* borrowed for the call */
  size_t n_metadata;
  int64_t timeout_ns; /* WEIR_NO_LIMIT_NS: as the policy says */
  /* the request being served; NULL = the thread's ambient one, if there is one */
  weir_inbound *inbound;
  enum weir_inbound_bond inbound_bond; /* to that request */
};

#define WEIR_UNARY_REQUEST_INIT                                                                   \
  {                                                                                               \
    .size = sizeof(struct weir_unary_request), .method = NULL, .message = NULL, .metadata = NULL, \
    .n_metadata = 0, .timeout_ns = WEIR_NO_LIMIT_NS, .inbound = NULL,                             \
    .inbound_bond = WEIR_INBOUND_ATTACHED                                                         \
  }

/* What came back. Start from WEIR_UNARY_REPLY_INIT; end with weir_unary_reply_fini. */
struct weir_unary_reply {
  size_t size;
  grpc_status_code code;                 /* UNKNOWN before there is one, and after an error */
  grpc_slice details;                    /* the status's message; empty when it is OK */
  grpc_byte_buffer *message;             /* NULL on failure */
  grpc_metadata_array initial_metadata;  /* as the core gives it; a boundary filters it */
  grpc_metadata_array trailing_metadata; /* likewise */
  struct weir_call_report report;
  weir_call *call; /* keeps the metadata's elements alive */
};

#define WEIR_UNARY_REPLY_INIT                                             \
  {                                                                       \
    .size = sizeof(struct weir_unary_reply), .code = GRPC_STATUS_UNKNOWN, \
    .report = WEIR_CALL_REPORT_INIT                                       \
  }

/* Makes a unary call and waits for its end.
 *
 * Ownership: `request` is borrowed for the call. What `*reply` holds is the caller's until
 *            weir_unary_reply_fini.
 * Threads:   any number of threads at once; it blocks until the call has ended. Without an inbound in
 *            `request`, the calling one's ambient inbound counts.
 * Errors:    how the RPC ended is in `reply->code`. WEIR_ERROR_INVALID_ARGUMENT method or message is
 *            missing, metadata is illegal, the bond is none, or `*reply` was not initialised.
 *            WEIR_ERROR_NO_MEMORY. On an error `*reply` is empty, and what weir_reply_status makes of
 *            its report is UNKNOWN; fini is still allowed. */
WEIR_API WEIR_MUST_CHECK enum weir_error weir_unary(weir_channel *channel,
                                                    const struct weir_unary_request *request,
                                                    struct weir_unary_reply *reply);

/* Frees what a reply holds and makes it empty again.
 *
 * Ownership: `*reply` is the caller's memory.
 * Threads:   one thread at a time.
 * Errors:    none. */
WEIR_API void weir_unary_reply_fini(struct weir_unary_reply *reply);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_UNARY_H */
