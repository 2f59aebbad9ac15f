/* schedule_policy – the policies that schedules run under; each is made once and shared by all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_POLICY_H
#define WEIR_TEST_STACK_SCHEDULE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/policy.h>

#define SCHEDULE_MAX_ATTEMPTS 3
#define SCHEDULE_TIMEOUT_NS (60 * WEIR_MS_NS)
#define SCHEDULE_BACKOFF_NS (4 * WEIR_MS_NS) /* the first; the second is twice as long */

/* How long a call waits for a fallback. */
#define SCHEDULE_FALLBACK_NS (8 * WEIR_MS_NS)

struct schedule_policy {
  weir_policy *policy;
  bool boundary;
  bool breaker;
  bool throttle;
  bool retry_after_headers;
  uint32_t replay_bytes;
  uint32_t channel_replay_bytes;
  uint32_t max_request_bytes;
  uint32_t max_response_bytes;
  int64_t per_attempt_timeout_ns; /* WEIR_NO_LIMIT_NS = none */
  uint32_t retryable_codes;
};

#define SCHEDULE_POLICIES 512

/* One of them; it lives as long as the process. */
const struct schedule_policy *schedule_policy_of(unsigned number);

#endif /* WEIR_TEST_STACK_SCHEDULE_POLICY_H */
