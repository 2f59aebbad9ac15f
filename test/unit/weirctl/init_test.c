/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include <weir/policy.h>

#include "cmd/weirctl/init.h"
#include "src/policy/policy.h"

static void no_problem(void *context, enum weir_policy_severity severity,
                       const struct weir_diagnostic *problem) {
  (void)context;
  (void)severity;
  fail_msg("%s: %s", problem->path, problem->message);
}

/* Takes the document over. */
static weir_policy *load(json_t *document) {
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  char *text = json_dumps(document, 0);
  options.on_problem = no_problem;
  assert_int_equal(weir_policy_from_json(text, strlen(text), &options, NULL, &policy, NULL),
                   WEIR_OK);
  free(text);
  json_decref(document);
  return policy;
}

#define SAME(left, right, field) \
  assert_memory_equal(&(left)->field, &(right)->field, sizeof(left)->field)

static void same_translation(const struct weir_translation_options *a,
                             const struct weir_translation_options *b) {
  SAME(a, b, boundary);
  SAME(a, b, message_ref);
  SAME(a, b, codes);
  SAME(a, b, deadline_exceeded_as);
  SAME(a, b, n_keep_metadata);
  SAME(a, b, n_keep_details);
  SAME(a, b, max_message_bytes);
}

static void same_deadline(const struct weir_deadline_options *a,
                          const struct weir_deadline_options *b) {
  SAME(a, b, inherits_parent);
  SAME(a, b, default_timeout_ns);
  SAME(a, b, max_timeout_ns);
  SAME(a, b, default_stream_timeout_ns);
  SAME(a, b, max_stream_timeout_ns);
  SAME(a, b, margin_ns);
  SAME(a, b, slack_ns);
}

static void same_retries(const struct weir_method_policy *a, const struct weir_method_policy *b) {
  SAME(a, b, retry.max_attempts);
  SAME(a, b, per_attempt_timeout_ns);
  SAME(a->retry_options, b->retry_options, owner);
  SAME(a->retry_options, b->retry_options, min_attempt_time_ns);
  SAME(a->retry_options, b->retry_options, replay_bytes);
  SAME(a->retry_options, b->retry_options, retry_after_headers);
  SAME(a->retry_options, b->retry_options, channel_replay_bytes);
}

static void same_method(const struct weir_method_policy *a, const struct weir_method_policy *b) {
  SAME(a, b, timeout_ns);
  SAME(a, b, wait_for_ready);
  SAME(a, b, max_request_bytes);
  SAME(a, b, max_response_bytes);
  SAME(a->fallback, b->fallback, on_refusal);
  SAME(a->fallback, b->fallback, on_failure);
  SAME(a->fallback, b->fallback, timeout_ns);
  SAME(a->fallback, b->fallback, max_concurrent);
  same_translation(a->translation, b->translation);
  same_deadline(a->deadline, b->deadline);
  same_retries(a, b);
}

static void same_breaker(const struct weir_breaker_options *a,
                         const struct weir_breaker_options *b) {
  SAME(a, b, enabled);
  SAME(a, b, ignore_resets);
  SAME(a, b, scope);
  SAME(a, b, max_breakers);
  SAME(a, b, window_ns);
  SAME(a, b, window_buckets);
  SAME(a, b, min_requests);
  SAME(a, b, failure_ratio);
  SAME(a, b, open_for_ns);
  SAME(a, b, open_jitter);
  SAME(a, b, open_backoff);
  SAME(a, b, max_open_for_ns);
  SAME(a, b, probes);
  SAME(a, b, probe_lease_ns);
  SAME(a, b, deadline_floor_ns);
  SAME(a, b, mode);
  SAME(a, b, consecutive_failures);
  SAME(a, b, ramp_for_ns);
}

static void same_channel(const weir_policy *a, const weir_policy *b) {
  uint32_t tokens = 0;
  uint32_t ratio = 0;
  assert_string_equal(weir__policy_name(a), weir__policy_name(b));
  assert_int_equal(weir__policy_passes_trace(a), weir__policy_passes_trace(b));
  assert_int_equal(weir__policy_throttle(a, &tokens, &ratio),
                   weir__policy_throttle(b, &tokens, &ratio));
  assert_null(weir__policy_core_service_config(a));
  same_breaker(weir__policy_breaker(a), weir__policy_breaker(b));
}

static void a_document_to_start_from_changes_nothing(void **state) {
  (void)state;
  weir_policy *policy = load(init_channel());
  weir_policy *built_in = weir__policy_default();
  same_channel(policy, built_in);
  same_method(weir_policy_method(policy, "/a.B/C", 6), weir_policy_method(built_in, "/a.B/C", 6));
  weir_policy_unref(policy);
}

static void a_service_is_the_only_one_that_changes(void **state) {
  (void)state;
  json_t *document = init_channel();
  init_add_service(document, "a.B", INIT_REPEATS_IDEMPOTENT);
  weir_policy *policy = load(document);
  assert_int_equal(weir_policy_method(policy, "/a.B/C", 6)->retry.max_attempts, 3);
  same_method(weir_policy_method(policy, "/a.C/C", 6),
              weir_policy_method(weir__policy_default(), "/a.C/C", 6));
  weir_policy_unref(policy);
}

/* A default is written out, so a key that is missing here is one that init forgot. */
static void every_key_with_a_default_is_there(void **state) {
  (void)state;
  json_t *document = init_channel();
  static const char *const keys[] = {"methodConfig", "retryThrottling", "name",
                                     "deadline",     "translation",     "breaker",
                                     "retry",        "passTrace",       "fallback"};
  assert_int_equal(json_object_size(document), sizeof keys / sizeof keys[0]);
  size_t i = 0;
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(document, key, value) {
    assert_string_equal(key, keys[i++]);
  }
  json_decref(document);
}

static void an_organisations_document_has_no_problem(void **state) {
  (void)state;
  weir_policy_unref(load(init_organisation()));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_document_to_start_from_changes_nothing),
      cmocka_unit_test(a_service_is_the_only_one_that_changes),
      cmocka_unit_test(every_key_with_a_default_is_there),
      cmocka_unit_test(an_organisations_document_has_no_problem),
  };
  return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
