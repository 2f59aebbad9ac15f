/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/policy_message.h"

#include <stdbool.h>

#include <google/protobuf/duration.upb.h>
#include <weir/outcome.h>

#include "src/policy/document.h"
#include "src/policy/duration.h"
#include "src/policy/policy_options.h"

/* A message while it is filled. */
struct filling {
  upb_Arena *arena;
  bool out_of_memory;
};

/* What a pointer must be; the caller goes on with NULL only after a look at out_of_memory. */
static void *made(struct filling *filling, void *message) {
  filling->out_of_memory = filling->out_of_memory || message == NULL;
  return message;
}

/* Without a limit it is the longest that there is, which reads as that. NULL: no memory. */
static google_protobuf_Duration *duration_of(struct filling *filling, int64_t ns) {
  const bool limited = ns != WEIR_NO_LIMIT_NS;
  google_protobuf_Duration *duration = made(filling, google_protobuf_Duration_new(filling->arena));
  if (duration != NULL) {
    google_protobuf_Duration_set_seconds(duration, limited ? ns / WEIR_SECOND_NS
                                                           : WEIR__DURATION_MAX_SECONDS);
    google_protobuf_Duration_set_nanos(duration, limited ? (int32_t)(ns % WEIR_SECOND_NS) : 0);
  }
  return duration;
}

static upb_StringView text_of(const char *text) {
  return upb_StringView_FromString(text);
}

/* ---- layers ---- */

static weir_v1_Deadline *message_of_deadline(struct filling *filling,
                                             const struct weir_deadline_options *options) {
  weir_v1_Deadline *deadline = made(filling, weir_v1_Deadline_new(filling->arena));
  if (deadline == NULL) {
    return NULL;
  }
  weir_v1_Deadline_set_default_timeout(deadline, duration_of(filling, options->default_timeout_ns));
  weir_v1_Deadline_set_max_timeout(deadline, duration_of(filling, options->max_timeout_ns));
  if (options->default_stream_timeout_ns != WEIR_NO_LIMIT_NS) {
    weir_v1_Deadline_set_default_stream_timeout(
        deadline, duration_of(filling, options->default_stream_timeout_ns));
  }
  if (options->max_stream_timeout_ns != WEIR_NO_LIMIT_NS) {
    weir_v1_Deadline_set_max_stream_timeout(deadline,
                                            duration_of(filling, options->max_stream_timeout_ns));
  }
  weir_v1_Deadline_set_deadline_margin(deadline, duration_of(filling, options->margin_ns));
  weir_v1_Deadline_set_deadline_slack(deadline, duration_of(filling, options->slack_ns));
  weir_v1_Deadline_set_inherits_parent(deadline, options->inherits_parent);
  return deadline;
}

static int32_t scope_of(enum weir_breaker_scope scope) {
  switch (scope) {
  case WEIR_BREAKER_SCOPE_CHANNEL:
    return weir_v1_Breaker_CHANNEL;
  case WEIR_BREAKER_SCOPE_SERVICE:
    return weir_v1_Breaker_SERVICE;
  case WEIR_BREAKER_SCOPE_METHOD:
    return weir_v1_Breaker_METHOD;
  }
  return weir_v1_Breaker_CHANNEL;
}

static int32_t mode_of(enum weir_breaker_mode mode) {
  switch (mode) {
  case WEIR_BREAKER_MODE_ENFORCE:
    return weir_v1_Breaker_ENFORCE;
  case WEIR_BREAKER_MODE_SHADOW:
    return weir_v1_Breaker_SHADOW;
  }
  return weir_v1_Breaker_ENFORCE;
}

static weir_v1_Breaker *message_of_breaker(struct filling *filling,
                                           const struct weir_breaker_options *options) {
  weir_v1_Breaker *breaker = made(filling, weir_v1_Breaker_new(filling->arena));
  if (breaker == NULL) {
    return NULL;
  }
  weir_v1_Breaker_set_enabled(breaker, options->enabled);
  weir_v1_Breaker_set_scope(breaker, scope_of(options->scope));
  weir_v1_Breaker_set_max_breakers(breaker, options->max_breakers);
  weir_v1_Breaker_set_window(breaker, duration_of(filling, options->window_ns));
  weir_v1_Breaker_set_window_buckets(breaker, options->window_buckets);
  weir_v1_Breaker_set_min_requests(breaker, options->min_requests);
  weir_v1_Breaker_set_failure_ratio(breaker, options->failure_ratio);
  weir_v1_Breaker_set_open_for(breaker, duration_of(filling, options->open_for_ns));
  weir_v1_Breaker_set_open_jitter(breaker, options->open_jitter);
  weir_v1_Breaker_set_open_backoff(breaker, options->open_backoff);
  weir_v1_Breaker_set_max_open_for(breaker, duration_of(filling, options->max_open_for_ns));
  weir_v1_Breaker_set_probes(breaker, options->probes);
  weir_v1_Breaker_set_probe_lease(breaker, duration_of(filling, options->probe_lease_ns));
  weir_v1_Breaker_set_deadline_floor(breaker, duration_of(filling, options->deadline_floor_ns));
  weir_v1_Breaker_set_ignore_resets(breaker, options->ignore_resets);
  weir_v1_Breaker_set_mode(breaker, mode_of(options->mode));
  weir_v1_Breaker_set_consecutive_failures(breaker, options->consecutive_failures);
  weir_v1_Breaker_set_ramp_for(breaker, duration_of(filling, options->ramp_for_ns));
  return breaker;
}

static int32_t owner_of(enum weir_retry_owner owner) {
  switch (owner) {
  case WEIR_RETRY_OWNER_OUTERMOST:
    return weir_v1_Retry_OUTERMOST;
  case WEIR_RETRY_OWNER_ALWAYS:
    return weir_v1_Retry_ALWAYS;
  case WEIR_RETRY_OWNER_NEVER:
    return weir_v1_Retry_NEVER;
  }
  return weir_v1_Retry_OUTERMOST;
}

static weir_v1_Retry *message_of_retry(struct filling *filling,
                                       const struct weir_retry_options *options) {
  weir_v1_Retry *retry = made(filling, weir_v1_Retry_new(filling->arena));
  if (retry == NULL) {
    return NULL;
  }
  weir_v1_Retry_set_owner(retry, owner_of(options->owner));
  weir_v1_Retry_set_min_attempt_time(retry, duration_of(filling, options->min_attempt_time_ns));
  weir_v1_Retry_set_replay_bytes(retry, options->replay_bytes);
  weir_v1_Retry_set_channel_replay_bytes(retry, options->channel_replay_bytes);
  weir_v1_Retry_set_retry_after_headers(retry, options->retry_after_headers);
  return retry;
}

static weir_v1_Fallback *message_of_fallback(struct filling *filling,
                                             const struct weir_fallback_options *options) {
  weir_v1_Fallback *fallback = made(filling, weir_v1_Fallback_new(filling->arena));
  if (fallback == NULL) {
    return NULL;
  }
  weir_v1_Fallback_set_on_refusal(fallback, options->on_refusal);
  weir_v1_Fallback_set_on_failure(fallback, options->on_failure);
  weir_v1_Fallback_set_timeout(fallback, duration_of(filling, options->timeout_ns));
  weir_v1_Fallback_set_max_concurrent(fallback, options->max_concurrent);
  return fallback;
}

/* ---- translation ---- */

/* An empty list too, which is another thing than none. */
static void fill_lists(struct filling *filling, weir_v1_Translation *translation,
                       const struct weir_translation_options *options) {
  upb_StringView *keys = weir_v1_Translation_resize_keep_metadata(
      translation, options->n_keep_metadata, filling->arena);
  upb_StringView *types =
      weir_v1_Translation_resize_keep_details(translation, options->n_keep_details, filling->arena);
  if (made(filling, keys) == NULL || made(filling, types) == NULL) {
    return;
  }
  for (size_t i = 0; i < options->n_keep_metadata; i++) {
    keys[i] = text_of(options->keep_metadata[i]);
  }
  for (size_t i = 0; i < options->n_keep_details; i++) {
    types[i] = text_of(options->keep_details[i]);
  }
}

static void fill_codes(struct filling *filling, weir_v1_Translation *translation,
                       const struct weir_translation_options *options,
                       const struct weir_translation_options *channel) {
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    if (options->codes[code] == channel->codes[code]) {
      continue;
    }
    if (!weir__document_reserve_map(filling->arena) ||
        !weir_v1_Translation_codes_set(translation,
                                       text_of(weir_status_code_name((grpc_status_code)code)),
                                       options->codes[code], filling->arena)) {
      filling->out_of_memory = true;
      return;
    }
  }
}

/* What is laid over `channel`. A method's own `codes` for DEADLINE_EXCEEDED would undo the
 * channel's `deadlineExceededAs`, so a method says both. */
static weir_v1_Translation *message_of_translation(struct filling *filling,
                                                   const struct weir_translation_options *options,
                                                   const struct weir_translation_options *channel) {
  weir_v1_Translation *translation = made(filling, weir_v1_Translation_new(filling->arena));
  if (translation == NULL) {
    return NULL;
  }
  weir_v1_Translation_set_boundary(translation, options->boundary);
  weir_v1_Translation_set_message_ref(translation, options->message_ref);
  weir_v1_Translation_set_max_message_bytes(translation, options->max_message_bytes);
  fill_lists(filling, translation, options);
  fill_codes(filling, translation, options, channel);
  if (options->deadline_exceeded_as != WEIR_TRANSLATION_DEFAULT ||
      channel->deadline_exceeded_as != WEIR_TRANSLATION_DEFAULT) {
    weir_v1_Translation_set_deadline_exceeded_as(translation, options->deadline_exceeded_as);
  }
  return translation;
}

/* ---- methods ---- */

static weir_v1_RetryPolicy *message_of_retry_policy(struct filling *filling,
                                                    const struct weir_retry_policy *options) {
  weir_v1_RetryPolicy *policy = made(filling, weir_v1_RetryPolicy_new(filling->arena));
  if (policy == NULL) {
    return NULL;
  }
  weir_v1_RetryPolicy_set_max_attempts(policy, options->max_attempts);
  weir_v1_RetryPolicy_set_initial_backoff(policy,
                                          duration_of(filling, options->initial_backoff_ns));
  weir_v1_RetryPolicy_set_max_backoff(policy, duration_of(filling, options->max_backoff_ns));
  weir_v1_RetryPolicy_set_backoff_multiplier(policy, options->backoff_multiplier);
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    if ((options->retryable_codes >> code & 1) != 0 &&
        !weir_v1_RetryPolicy_add_retryable_status_codes(policy, code, filling->arena)) {
      filling->out_of_memory = true;
    }
  }
  return policy;
}

static void fill_name(struct filling *filling, weir_v1_MethodConfig *config,
                      const struct weir_method_options *method) {
  weir_v1_Name *name = made(filling, weir_v1_MethodConfig_add_name(config, filling->arena));
  if (name != NULL && method->service[0] != '\0') {
    weir_v1_Name_set_service(name, text_of(method->service));
  }
  if (name != NULL && method->method[0] != '\0') {
    weir_v1_Name_set_method(name, text_of(method->method));
  }
}

static void fill_limits(struct filling *filling, weir_v1_MethodConfig *config,
                        const struct weir_method_options *method) {
  if (method->timeout_ns != WEIR_NO_LIMIT_NS) {
    weir_v1_MethodConfig_set_timeout(config, duration_of(filling, method->timeout_ns));
  }
  if (method->per_attempt_timeout_ns != WEIR_NO_LIMIT_NS) {
    weir_v1_MethodConfig_set_per_attempt_timeout(
        config, duration_of(filling, method->per_attempt_timeout_ns));
  }
  if (method->wait_for_ready != WEIR_WAIT_FOR_READY_UNSET) {
    weir_v1_MethodConfig_set_wait_for_ready(config,
                                            method->wait_for_ready == WEIR_WAIT_FOR_READY_TRUE);
  }
  if (method->max_request_bytes != WEIR_NO_LIMIT_BYTES) {
    weir_v1_MethodConfig_set_max_request_message_bytes(config, method->max_request_bytes);
  }
  if (method->max_response_bytes != WEIR_NO_LIMIT_BYTES) {
    weir_v1_MethodConfig_set_max_response_message_bytes(config, method->max_response_bytes);
  }
}

static void fill_method(struct filling *filling, weir_v1_Policy *policy,
                        const struct weir_method_options *method,
                        const struct weir_translation_options *channel) {
  weir_v1_MethodConfig *config =
      made(filling, weir_v1_Policy_add_method_config(policy, filling->arena));
  if (config == NULL) {
    return;
  }
  fill_name(filling, config, method);
  fill_limits(filling, config, method);
  if (method->retry.max_attempts > 1) {
    weir_v1_MethodConfig_set_retry_policy(config, message_of_retry_policy(filling, &method->retry));
  }
  if (method->translation != NULL) {
    weir_v1_MethodConfig_set_translation(
        config, message_of_translation(filling, method->translation, channel));
  }
  if (method->fallback != NULL) {
    weir_v1_MethodConfig_set_fallback(config, message_of_fallback(filling, method->fallback));
  }
}

/* ---- the whole ---- */

static void fill_throttle(struct filling *filling, weir_v1_Policy *policy,
                          const struct weir_policy_options *options) {
  if (options->throttle_max_tokens == 0) {
    return;
  }
  weir_v1_RetryThrottling *throttling = made(filling, weir_v1_RetryThrottling_new(filling->arena));
  if (throttling != NULL) {
    weir_v1_RetryThrottling_set_max_tokens(throttling, options->throttle_max_tokens);
    weir_v1_RetryThrottling_set_token_ratio(
        throttling, (double)options->throttle_token_ratio_milli / WEIR__TOKEN_MILLI);
    weir_v1_Policy_set_retry_throttling(policy, throttling);
  }
}

weir_v1_Policy *weir__policy_message_of_options(const struct weir_policy_options *options,
                                                upb_Arena *arena) {
  const struct weir_deadline_options deadline = WEIR_DEADLINE_OPTIONS_INIT;
  const struct weir_translation_options translation = WEIR_TRANSLATION_OPTIONS_INIT;
  const struct weir_breaker_options breaker = WEIR_BREAKER_OPTIONS_INIT;
  const struct weir_retry_options retry = WEIR_RETRY_OPTIONS_INIT;
  const struct weir_fallback_options fallback = WEIR_FALLBACK_OPTIONS_INIT;
  const struct weir_translation_options *channel =
      options->translation != NULL ? options->translation : &translation;
  struct filling filling = {.arena = arena};
  weir_v1_Policy *policy = made(&filling, weir_v1_Policy_new(arena));
  if (policy == NULL) {
    return NULL;
  }
  weir_v1_Policy_set_name(policy, text_of(options->name));
  weir_v1_Policy_set_pass_trace(policy, options->pass_trace);
  fill_throttle(&filling, policy, options);
  weir_v1_Policy_set_deadline(
      policy,
      message_of_deadline(&filling, options->deadline != NULL ? options->deadline : &deadline));
  weir_v1_Policy_set_translation(policy, message_of_translation(&filling, channel, &translation));
  weir_v1_Policy_set_breaker(
      policy, message_of_breaker(&filling, options->breaker != NULL ? options->breaker : &breaker));
  weir_v1_Policy_set_retry(
      policy, message_of_retry(&filling, options->retry != NULL ? options->retry : &retry));
  weir_v1_Policy_set_fallback(
      policy,
      message_of_fallback(&filling, options->fallback != NULL ? options->fallback : &fallback));
  for (size_t i = 0; i < options->n_methods && !filling.out_of_memory; i++) {
    fill_method(&filling, policy, &options->methods[i], channel);
  }
  return filling.out_of_memory ? NULL : policy;
}
