/* weir/inbound.h – what a service knows of the request it serves while it calls others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INBOUND_H
#define WEIR_INBOUND_H

#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request that is being served: its deadline, who owns its retries, what its trace goes by. */
typedef struct weir_inbound weir_inbound;

/* How a call is bound to the request that it is made for. */
enum weir_inbound_bond {
  WEIR_INBOUND_ATTACHED = 0, /* the request's deadline bounds it, its cancellation reaches it */
  /* neither does: the call is to be finished anyway. Who owns the retries, the trace identifiers,
   * and how a failure is told while a request is served, hold as for any other. */
  WEIR_INBOUND_DETACHED
};

/* What an inbound is made with. Start from WEIR_INBOUND_OPTIONS_INIT. */
struct weir_inbound_options {
  size_t size;
  const struct weir_allocator *allocator; /* NULL = malloc */
  /* the keys of the request's metadata that are passed on with each call made for it, at most 8; a
   * key that ends in -bin may be one. NULL = traceparent and tracestate. */
  const char *const *trace_keys;
  size_t n_trace_keys; /* of `trace_keys`, unless that is NULL; 0 = nothing is passed on */
};

#define WEIR_INBOUND_OPTIONS_INIT                                                       \
  {                                                                                     \
    .size = sizeof(struct weir_inbound_options), .allocator = NULL, .trace_keys = NULL, \
    .n_trace_keys = 0                                                                   \
  }

/* Reads a request that a server has been given: its deadline (the nearer of the core's, of any
 * clock, and weir-budget-us), who owns the retries of the chain (weir-retry-owner, or
 * grpc-previous-rpc-attempts from a caller without weir), the identifiers that a trace follows it
 * by, and the call whose cancellation reaches the calls made for it.
 *
 * Malformed headers are read as absent: a forged one can bring the deadline nearer or switch
 * retries off, no more. The deadline is put on the monotonic clock here, once. Of the identifiers,
 * a value of more than 512 bytes, one that may not be sent, and what is beyond 8 values or 2048
 * bytes in all, is left out, never cut.
 *
 * The server hears of a cancellation, and so do the calls made for the request, only where it has
 * asked for it (GRPC_OP_RECV_CLOSE_ON_SERVER). Once that has come back, cancelled or not, the
 * request is over: a call that is made for it then ends with CANCELLED, and nothing is sent.
 *
 * Ownership: `details`, `request_metadata` and `options` (NULL = the defaults) are borrowed for the
 *            call; each of the first two may be NULL. `server_call` may be NULL; a share of it is
 *            held until the application's last share of the inbound is released, and by each call
 *            made for it until that has ended. On success `*inbound_out` is the caller's until
 *            weir_inbound_release.
 * Threads:   any thread.
 * Errors:    `*inbound_out` is then NULL. WEIR_ERROR_INVALID_ARGUMENT a trace key is no legal one,
 *            or it is gRPC's or weir's own ("grpc-", "weir-"), or there are too many.
 *            WEIR_ERROR_UNSUPPORTED `options` is from a newer header and asks for what this library
 *            lacks. WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_inbound_new(const grpc_call_details *details, const grpc_metadata_array *request_metadata,
                 grpc_call *server_call, const struct weir_inbound_options *options,
                 weir_inbound **inbound_out);

/* Takes another share of an inbound, for another thread that works for the same request.
 *
 * Ownership: the result is `inbound`, shared: it is ended by one more weir_inbound_release. NULL
 *            is allowed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API weir_inbound *weir_inbound_ref(weir_inbound *inbound);

/* Ends a share of an inbound. With the application's last one the server's call is given back;
 * calls under way go on, and are reached by its cancellation as before.
 *
 * Ownership: `inbound` is taken over; NULL is allowed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API void weir_inbound_release(weir_inbound *inbound);

/* A stretch of a thread's work that is done for one request. What is in it is weir's. */
struct weir_inbound_scope {
  weir_inbound *inbound;            /* weir's */
  struct weir_inbound_scope *outer; /* likewise */
};

/* Makes an inbound the thread's ambient one: calls that the thread makes, and whose options name
 * none, are made for it. Scopes nest. To hand a request over to another thread, take a share for it
 * (weir_inbound_ref), and enter, leave and release it there.
 *
 * Ownership: the scope takes a share of `inbound` of its own. NULL = none: what is called inside
 *            has no parent, whatever is around it. `*scope` is the caller's memory, and borrowed
 *            until weir_inbound_leave.
 * Threads:   any thread; it holds for the calling one.
 * Errors:    none. */
WEIR_API void weir_inbound_enter(weir_inbound *inbound, struct weir_inbound_scope *scope);

/* Ends a scope: what was ambient before it is so again.
 *
 * Ownership: the scope's share of its inbound is given back.
 * Threads:   the one that entered it, in the reverse order of entering.
 * Errors:    none. */
WEIR_API void weir_inbound_leave(struct weir_inbound_scope *scope);

/* Tells the calling thread's ambient inbound; NULL = none.
 *
 * Ownership: the result is borrowed until its scope is left.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API weir_inbound *weir_inbound_current(void);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_INBOUND_H */
