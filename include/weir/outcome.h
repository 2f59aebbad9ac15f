/* weir/outcome.h – how an attempt, or a call, ended, classified once.
 *
 * Layers, logs and reports read these fields; nothing after the classifier looks at a status code
 * to guess what a failure means.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_OUTCOME_H
#define WEIR_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/breaker.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who produced a status. Where the core's surface can't tell a peer's answer from the transport's,
 * PEER is said: it is never treated as ours, its text is scrubbed, and it is retried only as the
 * policy says. */
enum weir_origin {
  WEIR_ORIGIN_PEER = 0, /* the peer's trailers */
  /* no connection: name resolution, refused, unreachable, TLS; persistent */
  WEIR_ORIGIN_TRANSPORT_CONNECT,
  WEIR_ORIGIN_TRANSPORT_RESET, /* lost in flight: a reset stream, a closed connection; transient */
  WEIR_ORIGIN_LOCAL_DEADLINE,  /* this process's clock */
  WEIR_ORIGIN_LOCAL_CANCEL,    /* the application, or the parent that it serves */
  WEIR_ORIGIN_LOCAL_BREAKER,   /* refused before anything was sent */
  WEIR_ORIGIN_LOCAL_LIMIT,     /* a size limit of this process */
  WEIR_ORIGIN_LOCAL_SHUTDOWN   /* the queue went away under the call */
};

/* Which bound on the call's time was the tightest. */
enum weir_deadline_bound {
  WEIR_DEADLINE_BOUND_NONE = 0, /* the call has no deadline */
  WEIR_DEADLINE_BOUND_CALL,     /* the deadline given to the call */
  WEIR_DEADLINE_BOUND_PARENT,   /* the inbound's */
  WEIR_DEADLINE_BOUND_POLICY,   /* the method's timeout, a ceiling or a default */
  WEIR_DEADLINE_BOUND_ATTEMPT   /* the time of one attempt: the call may have more */
};

/* Whose fault a failure is, seen from the process that made the call. CLIENT is that process
 * itself. */
enum weir_blame { WEIR_BLAME_NOBODY = 0, WEIR_BLAME_CLIENT, WEIR_BLAME_SERVER, WEIR_BLAME_NETWORK };

/* What the peer said about retrying (A6, grpc-retry-pushback-ms). */
enum weir_pushback {
  WEIR_PUSHBACK_NONE = 0,
  WEIR_PUSHBACK_DELAY, /* after exactly `pushback_delay_ns` */
  WEIR_PUSHBACK_STOP   /* do not retry: negative, malformed, or beyond 32 bits */
};

/* Whether the request reached the peer's application. */
enum weir_sent_to_peer { WEIR_SENT_TO_PEER_MAYBE = 0, WEIR_SENT_TO_PEER_NO, WEIR_SENT_TO_PEER_YES };

/* One ended attempt or call. Made by the library only; fields are only ever added at the end. */
struct weir_outcome {
  grpc_status_code code; /* 0..16; what a peer sends beyond that is UNKNOWN */
  enum weir_origin origin;
  enum weir_deadline_bound deadline_bound;
  enum weir_blame blames;
  enum weir_breaker_verdict breaker_verdict;
  enum weir_pushback pushback;
  enum weir_sent_to_peer sent_to_peer;
  bool retryable; /* by nature, before policy: not OK and not made by this process */
  /* the application has, or could have, seen a part of this response (A6, commit) */
  bool committed;
  /* the server provably never saw the request, though there was a connection to it */
  bool unprocessed;
  int64_t pushback_delay_ns; /* with WEIR_PUSHBACK_DELAY */
  int64_t started_at_ns;     /* on the monotonic clock */
  int64_t ended_at_ns;       /* likewise */
  bool got_message; /* a response message came; `committed` is said at response headers already */
};

/* Says whether a failure may be worth another try, before any policy is asked.
 *
 * Ownership: `outcome` is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API bool weir_outcome_is_retryable(const struct weir_outcome *outcome);

/* Says whether the failure speaks against the server or the way to it, not against the request.
 *
 * Ownership: `outcome` is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API bool weir_outcome_blames_downstream(const struct weir_outcome *outcome);

/* Says whether the peer's application has certainly seen the request.
 *
 * Ownership: `outcome` is borrowed for the call.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API bool weir_outcome_reached_server(const struct weir_outcome *outcome);

/* Names a status code, e.g. "UNAVAILABLE" (statuscodes.md).
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none; a value out of 0..16 is "UNKNOWN". */
WEIR_API const char *weir_status_code_name(grpc_status_code code);

/* Names an origin, e.g. "TRANSPORT_CONNECT".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_origin_name(enum weir_origin origin);

/* Names a blame, e.g. "NETWORK".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_blame_name(enum weir_blame blame);

/* Names a deadline's bound, e.g. "PARENT".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_deadline_bound_name(enum weir_deadline_bound bound);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_OUTCOME_H */
