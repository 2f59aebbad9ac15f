/* weir/report.h – what can be read of a finished call.
 *
 * A report holds numbers, weir's own words and names of this process's policy, never a byte that
 * the peer wrote.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_REPORT_H
#define WEIR_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/breaker.h>
#include <weir/fallback.h>
#include <weir/interceptor.h>
#include <weir/outcome.h>
#include <weir/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

/* So many attempts of a call are told one by one. */
#define WEIR_REPORT_ATTEMPTS 8

/* Hex digits of a reference. */
#define WEIR_REFERENCE_LENGTH 12

#define WEIR_REPORT_NAME_BYTES 128 /* of the longest name and its end; a longer one is cut */

/* One attempt of a finished call. */
struct weir_attempt_report {
  grpc_status_code code; /* as it came */
  enum weir_origin origin;
  int64_t started_after_ns; /* since the call's start */
  int64_t duration_ns;      /* until its end was taken from the queue */
};

/* A finished call. Set `size` before asking for it; fields are only ever added at the end. */
struct weir_call_report {
  size_t size;
  grpc_status_code code;     /* what the caller saw */
  grpc_status_code raw_code; /* what translation started from */
  enum weir_origin origin;
  enum weir_blame blames;
  /* the nearest bound: of a call that failed, on its last attempt; else, on the call */
  enum weir_deadline_bound deadline_bound;
  enum weir_reason reason;
  enum weir_breaker_state breaker_state; /* as this call left it */
  /* sent to the core, replays of what the server never saw included; 0 = nothing was */
  uint32_t n_attempts;
  struct weir_attempt_report attempts[WEIR_REPORT_ATTEMPTS]; /* the first of them */
  int64_t total_ns; /* from the start of the first batch to the end of the call */
  /* until the breaker, as this call left it, lets a call through: 0 while it is CLOSED,
   * WEIR_NO_LIMIT_NS where that takes somebody's hand */
  int64_t next_probe_in_ns;
  const char *fallback_source; /* with HIT: what the message comes from; else NULL; static */
  char reference[WEIR_REFERENCE_LENGTH + 1]; /* as in the message and the log; "" = none */
  bool do_not_retry;                         /* the service's own caller should not try again */
  /* another call may go better: the failure came from the server or the network, and not from this
   * process (a deadline, the breaker), and nobody has forbidden it */
  bool caller_may_retry;
  /* a ceiling of the policy (maxTimeout, maxStreamTimeout) brought a deadline nearer that was given
   * to the call, by its parent or by the method's timeout */
  bool deadline_clamped;

  /* What ate total_ns: its parts, none of them negative; fallback_ns is the fourth. */

  /* The attempts' durations, each from its start until a thread that drains the queue took its end
   * from there. */
  int64_t attempts_ns;
  /* The waits between attempts, each as long as the backoff or the peer's pushback asked for, or
   * until it was broken off. */
  int64_t backoff_ns;
  /* The rest: a wait was over, and no thread drained the queue to start the next attempt. */
  int64_t queued_ns;

  /* What came of asking the fallback. With HIT, `code` is OK, and the rest still tells how the call
   * to the service ended. */
  enum weir_fallback_result fallback_result;
  /* The wait for it: until a thread that drains the queue took the answer from there, or until its
   * time was up. */
  int64_t fallback_ns;

  /* The breaker that the call went through, or was refused by. */

  /* with BREAKER_OPEN, why; with another reason, why WEIR_BREAKER_MODE_ENFORCE would have refused
   * it; NONE = it would not */
  enum weir_breaker_refusal breaker_refusal;
  uint64_t breaker_generation; /* as this call left it; from 0 on */
  /* The path of the method, "/pkg.Service", the policy's name for the only one of the channel,
   * "other" for the one that calls share beyond maxBreakers; "" = there is none. */
  char breaker_name[WEIR_REPORT_NAME_BYTES];
};

/* A report that no call has filled in is not one of success. */
#define WEIR_CALL_REPORT_INIT \
  { .size = sizeof(struct weir_call_report), .code = GRPC_STATUS_UNKNOWN }

#ifdef __cplusplus
}
#endif

#endif /* WEIR_REPORT_H */
