/* weir/backoff.h – which failures are retried, how often, and how long to wait before (A6).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BACKOFF_H
#define WEIR_BACKOFF_H

#include <stdint.h>

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A6: more than this is taken as this, with a warning. */
#define WEIR_MAX_ATTEMPTS 5

/* A6 retryPolicy of a method. max_attempts 1 = no retry policy. */
struct weir_retry_policy {
  uint32_t max_attempts;      /* the first one included; 1..WEIR_MAX_ATTEMPTS */
  uint32_t retryable_codes;   /* bit n = status code n */
  int64_t initial_backoff_ns; /* the wait before the first retry */
  int64_t max_backoff_ns;     /* the most that later ones grow to, before jitter */
  double backoff_multiplier;  /* by which each wait is longer than the one before */
};

/* One attempt, no retries. */
#define WEIR_RETRY_POLICY_NONE                                                             \
  {                                                                                        \
    .max_attempts = 1, .retryable_codes = 0, .initial_backoff_ns = 0, .max_backoff_ns = 0, \
    .backoff_multiplier = 1.0                                                              \
  }

/* Computes how long to wait before a retry (A6, text of August 2024): initial_backoff_ns before the
 * first, even where that is above max_backoff_ns; before the nth, times backoff_multiplier to the
 * power of n - 1, at most max_backoff_ns; and all times 0.8 to 1.2.
 *
 * Ownership: `policy` is borrowed for the call. `nth` counts from 1; `unit` is in [0, 1), for the
 *            jitter.
 * Threads:   any thread.
 * Errors:    none; nanoseconds, at least 1, at most WEIR_NO_LIMIT_NS. */
WEIR_API int64_t weir_backoff_delay_ns(const struct weir_retry_policy *policy, uint32_t nth,
                                       double unit);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BACKOFF_H */
