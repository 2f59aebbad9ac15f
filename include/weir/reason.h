/* weir/reason.h – why a call was ended by weir, or not retried.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_REASON_H
#define WEIR_REASON_H

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why a call ended as it did, or got no further attempt. doc/operations.md says what to do. */
enum weir_reason {
  WEIR_REASON_NONE = 0,      /* nothing to explain: the call succeeded, or has not ended */
  WEIR_REASON_BREAKER_OPEN,  /* refused, or not tried again, because the breaker is not closed */
  WEIR_REASON_BUDGET,        /* another attempt does not fit before the deadline */
  WEIR_REASON_THROTTLED,     /* the retry throttle is at or below half (A6) */
  WEIR_REASON_PUSHBACK,      /* the peer said: do not retry (A6) */
  WEIR_REASON_COMMITTED,     /* a part of the response had been received (A6) */
  WEIR_REASON_NOT_OWNER,     /* a layer further out owns the retries of this call chain */
  WEIR_REASON_NOT_RETRYABLE, /* the code is not in the policy's list */
  WEIR_REASON_ATTEMPTS_EXHAUSTED, /* maxAttempts were made */
  WEIR_REASON_NO_RETRY_POLICY,    /* the method has none */
  /* what it sends is more than replayBytes, or channelReplayBytes, allow to keep */
  WEIR_REASON_NOT_REPLAYABLE,
  WEIR_REASON_DEADLINE,  /* the call's own time was up */
  WEIR_REASON_CANCELLED, /* by the application, or by the parent */
  WEIR_REASON_LIMIT,     /* a size limit of this process */
  WEIR_REASON_SHUTDOWN,  /* the queue was shut down */
  WEIR_REASON_NO_MEMORY  /* there was none for another attempt */
};

/* Names a reason, e.g. "BREAKER_OPEN".
 *
 * Ownership: the result is static.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API const char *weir_reason_name(enum weir_reason reason);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_REASON_H */
