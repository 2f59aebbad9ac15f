/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/policy_options.h"

#include <string.h>

#include <google/protobuf/duration.upb.h>
#include <weir/outcome.h>

#include "src/policy/duration.h"

int64_t weir__policy_options_ns(const struct google_protobuf_Duration *duration,
                                int64_t otherwise_ns) {
  if (duration == NULL) {
    return otherwise_ns;
  }
  const struct weir__duration length = {.seconds = google_protobuf_Duration_seconds(duration),
                                        .nanos = google_protobuf_Duration_nanos(duration)};
  return weir__duration_to_ns(&length);
}

static void fill_deadline(struct weir_deadline_options *options, const weir_v1_Deadline *deadline) {
  *options = (struct weir_deadline_options)WEIR_DEADLINE_OPTIONS_INIT;
  if (deadline == NULL) {
    return;
  }
  options->default_timeout_ns = weir__policy_options_ns(weir_v1_Deadline_default_timeout(deadline),
                                                        options->default_timeout_ns);
  options->max_timeout_ns =
      weir__policy_options_ns(weir_v1_Deadline_max_timeout(deadline), options->max_timeout_ns);
  options->default_stream_timeout_ns = weir__policy_options_ns(
      weir_v1_Deadline_default_stream_timeout(deadline), options->default_stream_timeout_ns);
  options->max_stream_timeout_ns = weir__policy_options_ns(
      weir_v1_Deadline_max_stream_timeout(deadline), options->max_stream_timeout_ns);
  options->margin_ns =
      weir__policy_options_ns(weir_v1_Deadline_deadline_margin(deadline), options->margin_ns);
  options->slack_ns =
      weir__policy_options_ns(weir_v1_Deadline_deadline_slack(deadline), options->slack_ns);
  if (weir_v1_Deadline_has_inherits_parent(deadline)) {
    options->inherits_parent = weir_v1_Deadline_inherits_parent(deadline);
  }
}

/* ---- translation ---- */

/* `texts` NULL: the list was left out, which upb tells from an empty one. */
static bool fill_list(const char *const **list, size_t *n_list, const upb_StringView *texts,
                      size_t n_texts, struct weir__policy_list *room, upb_Arena *arena) {
  if (texts == NULL) {
    return true;
  }
  if (n_texts > room->length) {
    room->items = weir__document_allocate(arena, n_texts * sizeof *room->items);
    if (room->items == NULL) {
      return false;
    }
    room->length = n_texts;
  }
  for (size_t i = 0; i < n_texts; i++) {
    room->items[i] = texts[i].data;
  }
  *list = n_texts > 0 ? room->items : NULL;
  *n_list = n_texts;
  return true;
}

static bool fill_kept(struct weir_translation_options *options,
                      const weir_v1_Translation *translation, struct weir__policy_kept *kept,
                      upb_Arena *arena) {
  size_t n_keys = 0;
  size_t n_types = 0;
  const upb_StringView *keys = weir_v1_Translation_keep_metadata(translation, &n_keys);
  const upb_StringView *types = weir_v1_Translation_keep_details(translation, &n_types);
  return fill_list(&options->keep_metadata, &options->n_keep_metadata, keys, n_keys,
                   &kept->metadata, arena) &&
         fill_list(&options->keep_details, &options->n_keep_details, types, n_types, &kept->details,
                   arena);
}

/* A table has them by their names; OK is in none. */
static int code_of(upb_StringView name) {
  for (int code = 1; code < WEIR_N_STATUS_CODES; code++) {
    const char *other = weir_status_code_name((grpc_status_code)code);
    if (strncmp(other, name.data, name.size) == 0 && other[name.size] == '\0') {
      return code;
    }
  }
  return GRPC_STATUS_UNKNOWN;
}

static void fill_codes(struct weir_translation_options *options,
                       const weir_v1_Translation *translation) {
  const weir_v1_Translation_CodesEntry *entry = NULL;
  size_t at = kUpb_Map_Begin;
  while ((entry = weir_v1_Translation_codes_next(translation, &at)) != NULL) {
    const int code = code_of(weir_v1_Translation_CodesEntry_key(entry));
    options->codes[code] = (int8_t)weir_v1_Translation_CodesEntry_value(entry);
    if (code == GRPC_STATUS_DEADLINE_EXCEEDED) {
      /* The channel's word comes before any table, but not before the method's. */
      options->deadline_exceeded_as = WEIR_TRANSLATION_DEFAULT;
    }
  }
  if (weir_v1_Translation_has_deadline_exceeded_as(translation)) {
    options->deadline_exceeded_as = (int8_t)weir_v1_Translation_deadline_exceeded_as(translation);
  }
}

/* Lays what is given over what `options` has. */
static bool fill_translation(struct weir_translation_options *options,
                             const weir_v1_Translation *translation, struct weir__policy_kept *kept,
                             upb_Arena *arena) {
  if (translation == NULL) {
    return true;
  }
  if (weir_v1_Translation_has_boundary(translation)) {
    options->boundary = weir_v1_Translation_boundary(translation);
  }
  if (weir_v1_Translation_has_message_ref(translation)) {
    options->message_ref = weir_v1_Translation_message_ref(translation);
  }
  if (weir_v1_Translation_has_max_message_bytes(translation)) {
    options->max_message_bytes = weir_v1_Translation_max_message_bytes(translation);
  }
  fill_codes(options, translation);
  return fill_kept(options, translation, kept, arena);
}

/* ---- breaker and retry ---- */

static void fill_breaker_times(struct weir_breaker_options *options,
                               const weir_v1_Breaker *breaker) {
  options->window_ns = weir__policy_options_ns(weir_v1_Breaker_window(breaker), options->window_ns);
  options->open_for_ns =
      weir__policy_options_ns(weir_v1_Breaker_open_for(breaker), options->open_for_ns);
  if (options->max_open_for_ns < options->open_for_ns) {
    options->max_open_for_ns = options->open_for_ns; /* the default has to make way */
  }
  options->max_open_for_ns =
      weir__policy_options_ns(weir_v1_Breaker_max_open_for(breaker), options->max_open_for_ns);
  options->probe_lease_ns =
      weir__policy_options_ns(weir_v1_Breaker_probe_lease(breaker), options->probe_lease_ns);
  options->deadline_floor_ns =
      weir__policy_options_ns(weir_v1_Breaker_deadline_floor(breaker), options->deadline_floor_ns);
  options->ramp_for_ns =
      weir__policy_options_ns(weir_v1_Breaker_ramp_for(breaker), options->ramp_for_ns);
}

static void fill_breaker_numbers(struct weir_breaker_options *options,
                                 const weir_v1_Breaker *breaker) {
  if (weir_v1_Breaker_has_max_breakers(breaker)) {
    options->max_breakers = weir_v1_Breaker_max_breakers(breaker);
  }
  if (weir_v1_Breaker_has_window_buckets(breaker)) {
    options->window_buckets = weir_v1_Breaker_window_buckets(breaker);
  }
  if (weir_v1_Breaker_has_min_requests(breaker)) {
    options->min_requests = weir_v1_Breaker_min_requests(breaker);
  }
  if (weir_v1_Breaker_has_failure_ratio(breaker)) {
    options->failure_ratio = weir_v1_Breaker_failure_ratio(breaker);
  }
  if (weir_v1_Breaker_has_open_jitter(breaker)) {
    options->open_jitter = weir_v1_Breaker_open_jitter(breaker);
  }
  if (weir_v1_Breaker_has_open_backoff(breaker)) {
    options->open_backoff = weir_v1_Breaker_open_backoff(breaker);
  }
  if (weir_v1_Breaker_has_probes(breaker)) {
    options->probes = weir_v1_Breaker_probes(breaker);
  }
  if (weir_v1_Breaker_has_consecutive_failures(breaker)) {
    options->consecutive_failures = weir_v1_Breaker_consecutive_failures(breaker);
  }
}

static enum weir_breaker_scope scope_of(int32_t scope) {
  switch ((weir_v1_Breaker_Scope)scope) {
  case weir_v1_Breaker_CHANNEL:
    return WEIR_BREAKER_SCOPE_CHANNEL;
  case weir_v1_Breaker_SERVICE:
    return WEIR_BREAKER_SCOPE_SERVICE;
  case weir_v1_Breaker_METHOD:
    return WEIR_BREAKER_SCOPE_METHOD;
  }
  return WEIR_BREAKER_SCOPE_CHANNEL;
}

static enum weir_breaker_mode mode_of(int32_t mode) {
  switch ((weir_v1_Breaker_Mode)mode) {
  case weir_v1_Breaker_ENFORCE:
    return WEIR_BREAKER_MODE_ENFORCE;
  case weir_v1_Breaker_SHADOW:
    return WEIR_BREAKER_MODE_SHADOW;
  }
  return WEIR_BREAKER_MODE_ENFORCE;
}

void weir__policy_options_breaker(struct weir_breaker_options *options,
                                  const weir_v1_Breaker *breaker) {
  *options = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
  if (breaker == NULL) {
    return;
  }
  if (weir_v1_Breaker_has_enabled(breaker)) {
    options->enabled = weir_v1_Breaker_enabled(breaker);
  }
  if (weir_v1_Breaker_has_ignore_resets(breaker)) {
    options->ignore_resets = weir_v1_Breaker_ignore_resets(breaker);
  }
  if (weir_v1_Breaker_has_scope(breaker)) {
    options->scope = scope_of(weir_v1_Breaker_scope(breaker));
  }
  if (weir_v1_Breaker_has_mode(breaker)) {
    options->mode = mode_of(weir_v1_Breaker_mode(breaker));
  }
  fill_breaker_times(options, breaker);
  fill_breaker_numbers(options, breaker);
}

static enum weir_retry_owner owner_of(int32_t owner) {
  switch ((weir_v1_Retry_Owner)owner) {
  case weir_v1_Retry_OUTERMOST:
    return WEIR_RETRY_OWNER_OUTERMOST;
  case weir_v1_Retry_ALWAYS:
    return WEIR_RETRY_OWNER_ALWAYS;
  case weir_v1_Retry_NEVER:
    return WEIR_RETRY_OWNER_NEVER;
  }
  return WEIR_RETRY_OWNER_OUTERMOST;
}

static void fill_retry(struct weir_retry_options *options, const weir_v1_Retry *retry) {
  *options = (struct weir_retry_options)WEIR_RETRY_OPTIONS_INIT;
  if (retry == NULL) {
    return;
  }
  if (weir_v1_Retry_has_owner(retry)) {
    options->owner = owner_of(weir_v1_Retry_owner(retry));
  }
  options->min_attempt_time_ns =
      weir__policy_options_ns(weir_v1_Retry_min_attempt_time(retry), options->min_attempt_time_ns);
  if (weir_v1_Retry_has_replay_bytes(retry)) {
    options->replay_bytes = weir_v1_Retry_replay_bytes(retry);
  }
  if (weir_v1_Retry_has_channel_replay_bytes(retry)) {
    options->channel_replay_bytes = weir_v1_Retry_channel_replay_bytes(retry);
  }
  if (weir_v1_Retry_has_retry_after_headers(retry)) {
    options->retry_after_headers = weir_v1_Retry_retry_after_headers(retry);
  }
}

/* ---- fallback ---- */

/* Lays what is given over what `options` has. */
static void fill_fallback(struct weir_fallback_options *options, const weir_v1_Fallback *fallback) {
  if (fallback == NULL) {
    return;
  }
  if (weir_v1_Fallback_has_on_refusal(fallback)) {
    options->on_refusal = weir_v1_Fallback_on_refusal(fallback);
  }
  if (weir_v1_Fallback_has_on_failure(fallback)) {
    options->on_failure = weir_v1_Fallback_on_failure(fallback);
  }
  options->timeout_ns =
      weir__policy_options_ns(weir_v1_Fallback_timeout(fallback), options->timeout_ns);
  if (weir_v1_Fallback_has_max_concurrent(fallback)) {
    options->max_concurrent = weir_v1_Fallback_max_concurrent(fallback);
  }
}

/* ---- methods ---- */

static void fill_retry_policy(struct weir_retry_policy *options,
                              const weir_v1_RetryPolicy *policy) {
  size_t n_codes = 0;
  const int32_t *codes = weir_v1_RetryPolicy_retryable_status_codes(policy, &n_codes);
  const uint32_t max_attempts = weir_v1_RetryPolicy_max_attempts(policy);
  options->max_attempts = max_attempts < WEIR_MAX_ATTEMPTS ? max_attempts : WEIR_MAX_ATTEMPTS;
  options->retryable_codes = 0;
  for (size_t i = 0; i < n_codes; i++) {
    options->retryable_codes |= UINT32_C(1) << codes[i];
  }
  options->initial_backoff_ns =
      weir__policy_options_ns(weir_v1_RetryPolicy_initial_backoff(policy), 0);
  options->max_backoff_ns = weir__policy_options_ns(weir_v1_RetryPolicy_max_backoff(policy), 0);
  options->backoff_multiplier = weir_v1_RetryPolicy_backoff_multiplier(policy);
}

/* All of an entry but its name. */
static void fill_method(struct weir_method_options *options, const weir_v1_MethodConfig *config) {
  *options = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
  options->timeout_ns =
      weir__policy_options_ns(weir_v1_MethodConfig_timeout(config), options->timeout_ns);
  options->per_attempt_timeout_ns = weir__policy_options_ns(
      weir_v1_MethodConfig_per_attempt_timeout(config), options->per_attempt_timeout_ns);
  if (weir_v1_MethodConfig_has_wait_for_ready(config)) {
    options->wait_for_ready = weir_v1_MethodConfig_wait_for_ready(config)
                                  ? WEIR_WAIT_FOR_READY_TRUE
                                  : WEIR_WAIT_FOR_READY_FALSE;
  }
  if (weir_v1_MethodConfig_has_max_request_message_bytes(config)) {
    options->max_request_bytes = weir_v1_MethodConfig_max_request_message_bytes(config);
  }
  if (weir_v1_MethodConfig_has_max_response_message_bytes(config)) {
    options->max_response_bytes = weir_v1_MethodConfig_max_response_message_bytes(config);
  }
  if (weir_v1_MethodConfig_has_retry_policy(config)) {
    fill_retry_policy(&options->retry, weir_v1_MethodConfig_retry_policy(config));
  }
}

/* What an entry has of its own stands over the channel's. Entries in turn have it in two places, so
 * that an entry's is not where the last one's was, which it is told by. */
static bool fill_own(struct weir__policy_options *options, struct weir_method_options *method,
                     const weir_v1_MethodConfig *config) {
  if (weir_v1_MethodConfig_has_translation(config)) {
    struct weir__policy_own_translation *own =
        &options->own_translations[++options->n_own_translations % 2];
    own->options = options->translation;
    method->translation = &own->options;
    if (!fill_translation(&own->options, weir_v1_MethodConfig_translation(config), &own->kept,
                          options->arena)) {
      return false;
    }
  }
  if (weir_v1_MethodConfig_has_fallback(config)) {
    struct weir_fallback_options *own = &options->own_fallbacks[++options->n_own_fallbacks % 2];
    *own = options->fallback;
    method->fallback = own;
    fill_fallback(own, weir_v1_MethodConfig_fallback(config));
  }
  return true;
}

static size_t count_names(const weir_v1_MethodConfig *const *configs, size_t n_configs) {
  size_t n = 0;
  for (size_t i = 0; i < n_configs; i++) {
    size_t n_names = 0;
    (void)weir_v1_MethodConfig_name(configs[i], &n_names);
    n += n_names;
  }
  return n;
}

/* One entry for each name. They are asked for in order, so most often the entry of the document is
 * the last one's. */
static enum weir_error next_method(void *context, size_t nth,
                                   struct weir_method_options *method_out) {
  struct weir__policy_options *options = context;
  struct weir__policy_cursor *cursor = &options->cursor;
  if (nth == 0) {
    *cursor = (struct weir__policy_cursor){.n_names = 0};
  }
  while (nth >= cursor->first + cursor->n_names) {
    const weir_v1_MethodConfig *config = options->configs[cursor->next_config++];
    cursor->first += cursor->n_names;
    cursor->names = weir_v1_MethodConfig_name(config, &cursor->n_names);
    if (cursor->n_names > 0) {
      fill_method(&cursor->method, config);
      if (!fill_own(options, &cursor->method, config)) {
        return WEIR_ERROR_NO_MEMORY;
      }
    }
  }
  const weir_v1_Name *name = cursor->names[nth - cursor->first];
  *method_out = cursor->method;
  if (weir_v1_Name_has_service(name)) {
    method_out->service = weir_v1_Name_service(name).data;
  }
  if (weir_v1_Name_has_method(name)) {
    method_out->method = weir_v1_Name_method(name).data;
  }
  return WEIR_OK;
}

enum weir_error weir__policy_options_init(struct weir__policy_options *options,
                                          const struct weir__document *document) {
  const weir_v1_Policy *policy = document->policy;
  struct weir_policy_options *whole = &options->policy;
  *options = (struct weir__policy_options){.arena = document->arena};
  *whole = (struct weir_policy_options)WEIR_POLICY_OPTIONS_INIT;
  whole->deadline = &options->deadline;
  whole->translation = &options->translation;
  whole->breaker = &options->breaker;
  whole->retry = &options->retry;
  whole->fallback = &options->fallback;
  whole->core_service_config = document->core_service_config;
  if (weir_v1_Policy_has_name(policy)) {
    whole->name = weir_v1_Policy_name(policy).data;
  }
  if (weir_v1_Policy_has_pass_trace(policy)) {
    whole->pass_trace = weir_v1_Policy_pass_trace(policy);
  }
  const weir_v1_RetryThrottling *throttling = weir_v1_Policy_retry_throttling(policy);
  if (throttling != NULL) {
    const double milli = weir_v1_RetryThrottling_token_ratio(throttling) * WEIR__TOKEN_MILLI;
    whole->throttle_max_tokens = weir_v1_RetryThrottling_max_tokens(throttling);
    whole->throttle_token_ratio_milli =
        (uint32_t)(milli + 0.5); /* document_rules.c left whole thousandths */
  }
  fill_deadline(&options->deadline, weir_v1_Policy_deadline(policy));
  weir__policy_options_breaker(&options->breaker, weir_v1_Policy_breaker(policy));
  fill_retry(&options->retry, weir_v1_Policy_retry(policy));
  options->fallback = (struct weir_fallback_options)WEIR_FALLBACK_OPTIONS_INIT;
  fill_fallback(&options->fallback, weir_v1_Policy_fallback(policy));
  options->translation = (struct weir_translation_options)WEIR_TRANSLATION_OPTIONS_INIT;
  if (!fill_translation(&options->translation, weir_v1_Policy_translation(policy), &options->kept,
                        document->arena)) {
    return WEIR_ERROR_NO_MEMORY;
  }
  size_t n_configs = 0;
  options->configs = weir_v1_Policy_method_config(policy, &n_configs);
  options->methods =
      (struct weir__policy_methods){.n_methods = count_names(options->configs, n_configs),
                                    .next = next_method,
                                    .context = options};
  return WEIR_OK;
}
