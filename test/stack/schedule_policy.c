/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <grpc/status.h>

#define CODE_BIT(code) (1u << (code))

static weir_policy *policy_new(const struct schedule_policy *wanted) {
  struct weir_translation_options translation = WEIR_TRANSLATION_OPTIONS_INIT;
  translation.boundary = wanted->boundary;
  struct weir_breaker_options breaker = WEIR_BREAKER_OPTIONS_INIT;
  breaker.enabled = wanted->breaker;
  breaker.open_jitter = 0;
  breaker.min_requests = 2;
  breaker.open_for_ns = 5 * WEIR_MS_NS;
  breaker.probes = 1;
  breaker.scope = wanted->throttle ? WEIR_BREAKER_SCOPE_METHOD : WEIR_BREAKER_SCOPE_CHANNEL;
  breaker.max_breakers = 1;
  breaker.ramp_for_ns = wanted->boundary ? 5 * WEIR_MS_NS : 0;
  breaker.consecutive_failures = wanted->retry_after_headers ? 2 : 0;
  breaker.mode = wanted->throttle && wanted->retry_after_headers ? WEIR_BREAKER_MODE_SHADOW
                                                                 : WEIR_BREAKER_MODE_ENFORCE;
  struct weir_retry_options retry = WEIR_RETRY_OPTIONS_INIT;
  retry.retry_after_headers = wanted->retry_after_headers;
  retry.replay_bytes = wanted->replay_bytes;
  retry.channel_replay_bytes = wanted->channel_replay_bytes;
  struct weir_method_options method = WEIR_METHOD_OPTIONS_INIT;
  method.timeout_ns = SCHEDULE_TIMEOUT_NS;
  method.max_request_bytes = wanted->max_request_bytes;
  method.max_response_bytes = wanted->max_response_bytes;
  method.per_attempt_timeout_ns = wanted->per_attempt_timeout_ns;
  method.retry = (struct weir_retry_policy){
      .max_attempts = SCHEDULE_MAX_ATTEMPTS,
      .retryable_codes = wanted->retryable_codes,
      .initial_backoff_ns = SCHEDULE_BACKOFF_NS,
      .max_backoff_ns = WEIR_SECOND_NS,
      .backoff_multiplier = 2.0,
  };
  struct weir_fallback_options fallback = WEIR_FALLBACK_OPTIONS_INIT;
  fallback.on_failure = true; /* of a channel that has one */
  fallback.timeout_ns = SCHEDULE_FALLBACK_NS;
  fallback.max_concurrent = 3;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  options.fallback = &fallback;
  options.name = "cart-policy";
  options.translation = &translation;
  options.breaker = &breaker;
  options.retry = &retry;
  options.throttle_max_tokens = wanted->throttle ? 6 : 0;
  options.throttle_token_ratio_milli = wanted->throttle ? 500 : 0;
  options.methods = &method;
  options.n_methods = 1;
  weir_policy *policy = NULL;
  assert_int_equal(weir_policy_new(&options, NULL, &policy, NULL), WEIR_OK);
  return policy;
}

const struct schedule_policy *schedule_policy_of(unsigned number) {
  static struct schedule_policy policies[SCHEDULE_POLICIES];
  static const uint32_t replay_bytes[] = {256 * 1024, 256 * 1024, 100, 70};
  struct schedule_policy *policy = &policies[number];
  if (policy->policy == NULL) {
    *policy = (struct schedule_policy){
        .boundary = (number & 1) != 0,
        .breaker = (number & 2) != 0,
        .throttle = (number & 4) != 0,
        .retry_after_headers = (number & 8) != 0,
        .replay_bytes = replay_bytes[number >> 4 & 3],
        .channel_replay_bytes = (number >> 4 & 3) == 3 ? 150 : 64 * 1024 * 1024,
        .max_request_bytes = (number & 192) == 128 ? 40 : WEIR_NO_LIMIT_BYTES,
        .max_response_bytes = (number & 192) == 192 ? 6 : WEIR_NO_LIMIT_BYTES,
        .per_attempt_timeout_ns = (number & 256) != 0 ? 7 * WEIR_MS_NS : WEIR_NO_LIMIT_NS,
        .retryable_codes = CODE_BIT(GRPC_STATUS_UNAVAILABLE) | CODE_BIT(GRPC_STATUS_ABORTED) |
                           CODE_BIT(GRPC_STATUS_DEADLINE_EXCEEDED),
    };
    policy->policy = policy_new(policy);
  }
  return policy;
}
