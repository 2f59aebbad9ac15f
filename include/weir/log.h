/* weir/log.h – where the truth about a failure goes that its caller must not see.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/breaker.h>
#include <weir/fallback.h>
#include <weir/outcome.h>
#include <weir/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that may hold anything, NUL and invalid UTF-8 included. */
struct weir_bytes {
  const char *data; /* not terminated */
  size_t size;      /* how many there are */
};

/* What a record tells of. */
enum weir_log_event {
  /* at a boundary; one record a call, also of one that a fallback has answered */
  WEIR_LOG_CALL_FAILED = 0,
  WEIR_LOG_CHANNEL_WRAPPED, /* one that weir can't keep all its promises on; once a channel */
  WEIR_LOG_BREAKER_CHANGED, /* its state, or what has been set by hand; one record a change */
  /* a policy was put in force that has other things for the core than the channel was made with;
   * those hold from the next channel on */
  WEIR_LOG_CORE_CONFIG_KEPT,
  WEIR_LOG_POLICY_REFUSED, /* what was in force before stays so */
  /* of a policy's file that is followed (weir/policy_watch.h): */
  WEIR_LOG_POLICY_APPLIED,    /* what it holds is in force */
  WEIR_LOG_POLICY_MISSING,    /* it is not there; what was in force stays so */
  WEIR_LOG_POLICY_UNREADABLE, /* it can't be read, likewise */
  WEIR_LOG_POLICY_POLLED      /* the system does not tell of all its changes, and why not */
};

/* What happened, untranslated. All of it is borrowed for the call of the sink. Of an event that is
 * no failed call, there are the event, its times, the target, the text and what is said to be its
 * own; the rest is empty.
 * Fields are only ever added at the end. */
struct weir_log_record {
  const char *reference;     /* as in the message that the caller saw; "" when references are off */
  struct weir_bytes path;    /* "/pkg.Service/Method" */
  const char *target;        /* of the channel */
  struct weir_bytes peer;    /* the address that answered, or the target */
  grpc_status_code raw_code; /* what translation started from */
  grpc_status_code code;     /* what the caller saw */
  enum weir_origin origin;
  enum weir_blame blames;
  enum weir_reason reason;
  uint32_t n_attempts; /* as in the call's report */
  int64_t duration_ns; /* its total_ns */
  /* the status's words: the peer's with the origin PEER, else the core's or weir's */
  struct weir_bytes message;
  struct weir_bytes details;      /* grpc-status-details-bin, decoded from base64 */
  struct weir_bytes error_string; /* the core's, or weir's where it ended the call itself */
  enum weir_log_event event;
  int64_t at_ns; /* of the event, on the monotonic clock */
  /* the same for people, on the wall clock: since 1970 in UTC. When that is set, a failed call is told
   * by what it said before for a millisecond at most */
  int64_t time_unix_ns;
  struct weir_bytes trace; /* traceparent of the request that was being served; empty = none */
  const char *text;        /* of an event that is no failed call; "" otherwise */
  enum weir_fallback_result fallback_result; /* as in the call's report */
  const char *fallback_source;               /* likewise; "" where that is NULL */

  /* Of a breaker that has changed; `raw_code` and `origin` are then those of the call that did it
   * with its end, or OK. As in struct weir_breaker_change. */
  struct weir_bytes breaker; /* its name */
  enum weir_breaker_state breaker_from;
  enum weir_breaker_state breaker_to;
  uint64_t breaker_generation; /* that began */
  enum weir_breaker_override breaker_override;
  int64_t next_probe_in_ns; /* as in struct weir_breaker_view */
};

/* A receiver of records, borrowed until the last channel made with it is gone, and the last of its
 * calls; weir/json_log.h has one that writes lines. It runs in the thread that ends a call, without
 * a lock of weir's: one that drains the queue, mostly, but also one that starts a batch which is
 * refused, cancels a call that waits for a retry, gives its last share back, or shuts the queue
 * down; or the one that wraps a channel, swaps its policy, or overrides its breakers. It must not
 * block, nor take a lock that is held around those. */
struct weir_log_sink {
  size_t size; /* sizeof(struct weir_log_sink) */
  /* takes a record */
  void (*write)(void *context, const struct weir_log_record *record);
  void *context;
};

#ifdef __cplusplus
}
#endif

#endif /* WEIR_LOG_H */
