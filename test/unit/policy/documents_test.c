/* Whole documents: the verdict, everything that is told, and what holds for methods.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <grpc/status.h>

#include "src/policy/json.h"
#include "src/policy/policy.h"
#include "test/unit/policy/loaded.h"

#define MS WEIR_MS_NS
#define SECONDS WEIR_SECOND_NS
#define CODE(code) (UINT32_C(1) << GRPC_STATUS_##code)

struct expected_problem {
  const char *path;
  const char *says; /* a part of the message */
  uint32_t line;
  uint32_t column;
};

/* A refused document, and all its problems in order. */
struct refusal {
  const char *file;
  enum load_mode mode;
  struct expected_problem problems[16];
};

static const struct refusal refusals[] = {
    {"second_default.json",
     LOAD_STRICT,
     {{"methodConfig[1].name[1]", "second default entry", 2, 55}}},
    {"second_method.json",
     LOAD_STRICT,
     {{"methodConfig[1].name[1]", "second entry for /a.B/C; the first is methodConfig[0].name[0]",
       2, 70},
      {"methodConfig[2].name[0]", "second entry for /a.B/; the first is methodConfig[0].name[1]", 3,
       33}}},
    {"method_without_service.json",
     LOAD_STRICT,
     {{"methodConfig[0].name[0]", "without its service", 1, 33},
      {"methodConfig[1].name[0]", "without its service", 1, 70}}},
    {"capital_keys.json",
     LOAD_STRICT,
     {{"methodConfig[0].retryPolicy.MaxAttempts", "\"maxAttempts\"", 2, 20},
      {"methodConfig[0].retryPolicy.InitialBackoff", "\"initialBackoff\"", 2, 38},
      {"methodConfig[0].retryPolicy.MaxBackoff", "\"maxBackoff\"", 2, 64},
      {"methodConfig[0].retryPolicy.BackoffMultiplier", "\"backoffMultiplier\"", 2, 86},
      {"methodConfig[0].retryPolicy.RetryableStatusCodes", "\"retryableStatusCodes\"", 3, 20},
      {"methodConfig[0].retryPolicy.maxAttempts", "missing; found \"MaxAttempts\"", 2, 18},
      {"methodConfig[0].retryPolicy.initialBackoff", "missing; found \"InitialBackoff\"", 2, 18},
      {"methodConfig[0].retryPolicy.maxBackoff", "missing; found \"MaxBackoff\"", 2, 18},
      {"methodConfig[0].retryPolicy.backoffMultiplier", "missing; found \"BackoffMultiplier\"", 2,
       18},
      {"methodConfig[0].retryPolicy.retryableStatusCodes",
       "missing; found \"RetryableStatusCodes\"", 2, 18}}},
    {"leading_point.json",
     LOAD_STRICT,
     {{"methodConfig[0].retryPolicy.initialBackoff", "write \"0.01s\"", 2, 56},
      {"methodConfig[0].retryPolicy.maxBackoff", "write \"0.05s\"", 2, 78}}},
    {"throttle_out_of_range.json",
     LOAD_STRICT,
     {{"retryThrottling.maxTokens", "in (0, 1000], not 1500", 1, 37},
      {"retryThrottling.tokenRatio", "at least 0.001", 1, 57}}},
    {"keys_astray.json",
     LOAD_STRICT,
     {{"timeout", "belongs inside methodConfig[]", 2, 3},
      {"retryPolicy", "belongs inside methodConfig[]", 3, 3},
      {"retryThrottle", "retryThrottling?", 4, 3},
      {"methodConfigs", "methodConfig?", 5, 3},
      {"methodConfig[0].retryPolicy.initialBackoff", "missing", 8, 23},
      {"methodConfig[0].retryPolicy.maxBackoff", "missing", 8, 23},
      {"methodConfig[0].retryPolicy.backoffMultiplier", "missing", 8, 23},
      {"methodConfig[0].retryPolicy.retryableStatusCodes", "missing", 8, 23},
      {"methodConfig[0].waitForReady", "must be a boolean, not a string", 9, 23},
      {"methodConfig[0].maxTokens", "belongs inside retryThrottling", 10, 7},
      {"notOfThisCentury", "unknown key", 14, 3}}},
    {"comment.jsonc", LOAD_STRICT, {{"", "comment", 3, 5}}},
    {"comment.jsonc", LOAD_LENIENT, {{"", "comment", 3, 5}}},
    {"trailing_comma.jsonc", LOAD_STRICT, {{"", "trailing comma", 1, 63}}},
    {"dns_choice.json",
     LOAD_STRICT,
     {{"clientHostname", "gRFC A2", 2, 3},
      {"percentage", "gRFC A2", 3, 3},
      {"serviceConfig",
       "\"serviceConfig\" found one level down - this is the DNS choice form (gRFC A2)", 4, 3}}},
    {"retry_beside_hedging.json", LOAD_STRICT, {{"methodConfig[0]", "exclude each other", 1, 21}}},
    {"required_fields.json",
     LOAD_STRICT,
     {{"methodConfig[0].retryPolicy.maxAttempts", "> 1", 2, 73},
      {"methodConfig[0].retryPolicy.initialBackoff", "> 0s", 2, 94},
      {"methodConfig[0].retryPolicy.backoffMultiplier", "> 0", 3, 26},
      {"methodConfig[0].retryPolicy.retryableStatusCodes", "empty", 3, 54},
      {"methodConfig[1].retryPolicy.initialBackoff", "missing", 4, 56},
      {"methodConfig[1].retryPolicy.maxBackoff", "missing", 4, 56},
      {"methodConfig[1].retryPolicy.backoffMultiplier", "missing", 4, 56},
      {"methodConfig[1].retryPolicy.retryableStatusCodes", "missing", 4, 56},
      {"methodConfig[2].retryPolicy.maxAttempts", "missing", 5, 58},
      {"methodConfig[2].retryPolicy.initialBackoff", "missing", 5, 58},
      {"methodConfig[2].retryPolicy.maxBackoff", "missing", 5, 58},
      {"methodConfig[2].retryPolicy.backoffMultiplier", "missing", 5, 58},
      {"methodConfig[2].retryPolicy.retryableStatusCodes", "missing", 5, 58}}},
    {"byte_order_mark.json", LOAD_STRICT, {{"", "UTF-8 byte order mark", 1, 1}}},
};

static void assert_told(const struct loaded *loaded, const char *file,
                        enum weir_policy_severity severity, size_t i,
                        const struct expected_problem *expected) {
  const struct told *told = &loaded->told[i];
  if (i >= loaded->n_told || told->severity != severity ||
      strcmp(told->problem.path, expected->path) != 0 ||
      strstr(told->problem.message, expected->says) == NULL ||
      told->problem.line != expected->line || told->problem.column != expected->column) {
    loaded_print(loaded);
    fail_msg("%s: expected at %zu [%s] %s (%u:%u)", file, i, expected->path, expected->says,
             (unsigned)expected->line, (unsigned)expected->column);
  }
}

static void a_refused_document_has_all_its_problems_told_in_order(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    const struct refusal *refusal = &refusals[i];
    struct loaded loaded;
    size_t n = 0;
    loaded_from_file(&loaded, refusal->file, refusal->mode);
    for (; n < 16 && refusal->problems[n].path != NULL; n++) {
      assert_told(&loaded, refusal->file, WEIR_POLICY_REFUSED, n, &refusal->problems[n]);
    }
    if (loaded.error != WEIR_ERROR_INVALID_POLICY || loaded.n_told != n) {
      loaded_print(&loaded);
      fail_msg("%s: %s", refusal->file, weir_error_name(loaded.error));
    }
    assert_null(loaded.policy);
    assert_memory_equal(&loaded.diagnostic, &loaded.told[0].problem, sizeof loaded.diagnostic);
    loaded_fini(&loaded);
  }
}

/* What an accepted document says of one method. */
struct effective {
  const char *path;
  int64_t timeout_ns;
  enum weir_wait_for_ready wait_for_ready;
  struct weir_retry_policy retry;
};

struct acceptance {
  const char *file;
  enum load_mode mode;
  struct expected_problem warnings[6];
  struct effective methods[8];
};

#define NO_RETRY WEIR_RETRY_POLICY_NONE
#define NO_LIMIT WEIR_NO_LIMIT_NS
#define UNSET WEIR_WAIT_FOR_READY_UNSET

static const struct acceptance acceptances[] = {
    {"several_names.json",
     LOAD_STRICT,
     {{"methodConfig[2].timeout", "clamped to deadline.maxTimeout, 60s", 24, 18}},
     {{"/bank.v2.Accounts/Read",
       45 * SECONDS,
       UNSET,
       {4, CODE(ABORTED) | CODE(UNKNOWN) | CODE(UNAVAILABLE), 250 * MS, 30 * SECONDS, 1.7}},
      {"/bank.v2.Accounts/Search",
       45 * SECONDS,
       UNSET,
       {4, CODE(ABORTED) | CODE(UNKNOWN) | CODE(UNAVAILABLE), 250 * MS, 30 * SECONDS, 1.7}},
      {"/bank.v2.Statements/Whatever",
       45 * SECONDS,
       UNSET,
       {4, CODE(ABORTED) | CODE(UNKNOWN) | CODE(UNAVAILABLE), 250 * MS, 30 * SECONDS, 1.7}},
      {"/bank.v2.Accounts/Transfer", 45 * SECONDS, UNSET, NO_RETRY},
      {"/bank.v2.Accounts/Follow",
       3600 * SECONDS,
       UNSET,
       {3, CODE(CANCELLED) | CODE(UNAVAILABLE) | CODE(DEADLINE_EXCEEDED), 250 * MS, 30 * SECONDS,
        3}},
      {"/bank.v2.Accounts/Other", NO_LIMIT, UNSET, NO_RETRY},
      {"/else.Where/M", NO_LIMIT, UNSET, NO_RETRY}}},
    {"precedence.json",
     LOAD_STRICT,
     {{"methodConfig[0]", "no name", 3, 5}, {"methodConfig[3]", "no name", 6, 5}},
     {{"/toys.Basket/Checkout", NO_LIMIT, WEIR_WAIT_FOR_READY_FALSE, NO_RETRY},
      {"/toys.Basket/Add", 2500 * MS, UNSET, {2, CODE(UNAVAILABLE), 300 * MS, 4 * SECONDS, 1.5}},
      {"/toys.Shelf/Any", 750 * MS, UNSET, NO_RETRY},
      {"/toys.BasketX/Checkout", 7 * SECONDS, UNSET, NO_RETRY},
      {"/toys.Baske/Checkout", 7 * SECONDS, UNSET, NO_RETRY},
      {"/toys.Basket/CheckoutX",
       2500 * MS,
       UNSET,
       {2, CODE(UNAVAILABLE), 300 * MS, 4 * SECONDS, 1.5}},
      {"/other.S/M", 7 * SECONDS, UNSET, NO_RETRY}}},
    {"too_many_attempts.json",
     LOAD_STRICT,
     {{"methodConfig[0].retryPolicy.maxAttempts", "40 clamped to 5", 2, 35}},
     {{"/night.Job/Run", NO_LIMIT, UNSET, {5, CODE(UNAVAILABLE), 2 * SECONDS, 90 * SECONDS, 1}}}},
    {"codes_of_all_spellings.json",
     LOAD_STRICT,
     {{NULL, NULL, 0, 0}},
     {{"/news.Feed/Read",
       NO_LIMIT,
       UNSET,
       {3, CODE(RESOURCE_EXHAUSTED) | CODE(UNAVAILABLE) | CODE(ABORTED) | CODE(INTERNAL), 20 * MS,
        200 * MS, 1.25}}}},
    {"durations.json",
     LOAD_STRICT,
     {{"methodConfig[3].timeout", "clamped", 5, 53},
      {"methodConfig[4].timeout", "past its deadline at once", 6, 53}},
     {{"/t.Half/M", 500 * MS, UNSET, NO_RETRY},
      {"/t.Tick/M", 1, UNSET, NO_RETRY},
      {"/t.Zeros/M", 4 * SECONDS, UNSET, NO_RETRY},
      {"/t.Ages/M", NO_LIMIT, UNSET, NO_RETRY},
      {"/t.None/M", 0, UNSET, NO_RETRY},
      {"/t.Inner/M", 2070 * MS, UNSET, NO_RETRY}}},
    {"hedging_alone.json",
     LOAD_STRICT,
     {{"methodConfig[0].hedgingPolicy", "not supported, ignored", 2, 40}},
     {{"/q.R/M", 1 * SECONDS, UNSET, NO_RETRY}}},
    {"keys_astray_only.json",
     LOAD_LENIENT,
     {{"retryPolicy", "belongs inside methodConfig[]", 2, 3},
      {"retryThrottle", "retryThrottling?", 3, 3},
      {"methodConfigs", "methodConfig?", 4, 3},
      {"notOfThisCentury", "unknown key", 6, 3}},
     {{"/x.Y/M", NO_LIMIT, WEIR_WAIT_FOR_READY_TRUE, NO_RETRY},
      {"/z.Z/M", NO_LIMIT, UNSET, NO_RETRY}}},
    {"dns_choice.json",
     LOAD_LENIENT,
     {{"clientHostname", "gRFC A2", 2, 3},
      {"percentage", "gRFC A2", 3, 3},
      {"serviceConfig", "pass the inner object", 4, 3}},
     {{"/any.S/M", NO_LIMIT, UNSET, NO_RETRY}}},
};

static void assert_effective(const struct loaded *loaded, const char *file,
                             const struct effective *expected) {
  const struct weir_method_policy *method = loaded_method(loaded, expected->path);
  if (method->timeout_ns != expected->timeout_ns ||
      method->wait_for_ready != expected->wait_for_ready ||
      method->retry.max_attempts != expected->retry.max_attempts ||
      method->retry.retryable_codes != expected->retry.retryable_codes ||
      method->retry.initial_backoff_ns != expected->retry.initial_backoff_ns ||
      method->retry.max_backoff_ns != expected->retry.max_backoff_ns ||
      method->retry.backoff_multiplier < expected->retry.backoff_multiplier ||
      method->retry.backoff_multiplier > expected->retry.backoff_multiplier) {
    fail_msg("%s: %s has timeout %lld, %u attempts, codes %x", file, expected->path,
             (long long)method->timeout_ns, (unsigned)method->retry.max_attempts,
             (unsigned)method->retry.retryable_codes);
  }
}

static void an_accepted_document_means_what_it_says_with_all_warnings(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof acceptances / sizeof acceptances[0]; i++) {
    const struct acceptance *acceptance = &acceptances[i];
    struct loaded loaded;
    size_t n = 0;
    loaded_from_file(&loaded, acceptance->file, acceptance->mode);
    for (; n < 6 && acceptance->warnings[n].path != NULL; n++) {
      assert_told(&loaded, acceptance->file, WEIR_POLICY_WARNING, n, &acceptance->warnings[n]);
    }
    if (loaded.error != WEIR_OK || loaded.n_told != n) {
      loaded_print(&loaded);
      fail_msg("%s: %s", acceptance->file, weir_error_name(loaded.error));
    }
    for (size_t j = 0; j < 8 && acceptance->methods[j].path != NULL; j++) {
      assert_effective(&loaded, acceptance->file, &acceptance->methods[j]);
    }
    loaded_fini(&loaded);
  }
}

static void every_layer_is_set_by_its_own_keys(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_file(&loaded, "everything.json", LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_method_policy *method = loaded_method(&loaded, "/shop.Cart/Add");
  const struct weir_deadline_options *deadline = method->deadline;
  assert_int_equal(deadline->default_timeout_ns, 2 * SECONDS);
  assert_int_equal(deadline->max_timeout_ns, 20 * SECONDS);
  assert_int_equal(deadline->default_stream_timeout_ns, 30 * SECONDS);
  assert_int_equal(deadline->max_stream_timeout_ns, 300 * SECONDS);
  assert_int_equal(deadline->margin_ns, 5 * MS);
  assert_int_equal(deadline->slack_ns, 20 * MS);
  assert_false(deadline->inherits_parent);
  assert_int_equal(method->per_attempt_timeout_ns, 400 * MS);
  assert_int_equal(method->max_request_bytes, 1000);
  assert_int_equal(method->max_response_bytes, 2000);
  assert_int_equal(method->retry_options->owner, WEIR_RETRY_OWNER_ALWAYS);
  assert_int_equal(method->retry_options->min_attempt_time_ns, 3 * MS);
  assert_int_equal(method->retry_options->replay_bytes, 4096);
  assert_int_equal(method->retry_options->channel_replay_bytes, 65536);
  assert_true(method->retry_options->retry_after_headers);
  loaded_fini(&loaded);
}

static void translation_is_set_by_its_own_keys(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_file(&loaded, "everything.json", LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_translation_options *translation =
      loaded_method(&loaded, "/shop.Search/Find")->translation;
  assert_false(translation->boundary);
  assert_false(translation->message_ref);
  assert_int_equal(translation->n_keep_metadata, 2);
  assert_string_equal(translation->keep_metadata[0], "x-request-id");
  assert_string_equal(translation->keep_metadata[1], "trace-bin");
  assert_int_equal(translation->n_keep_details, 2);
  assert_string_equal(translation->keep_details[0], "google.rpc.RetryInfo");
  assert_string_equal(translation->keep_details[1], "shop.v1.Why_2");
  assert_int_equal(translation->max_message_bytes, 200);
  assert_int_equal(translation->deadline_exceeded_as, GRPC_STATUS_UNAVAILABLE);
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    const int expected = code == GRPC_STATUS_NOT_FOUND            ? GRPC_STATUS_INTERNAL
                         : code == GRPC_STATUS_RESOURCE_EXHAUSTED ? GRPC_STATUS_UNAVAILABLE
                         : code == GRPC_STATUS_ABORTED            ? GRPC_STATUS_UNKNOWN
                                                                  : WEIR_TRANSLATION_DEFAULT;
    assert_int_equal(translation->codes[code], expected);
  }
  loaded_fini(&loaded);
}

static void a_methods_translation_is_set_by_the_same_keys(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_file(&loaded, "everything.json", LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_translation_options *translation =
      loaded_method(&loaded, "/shop.Cart/Add")->translation;
  assert_true(translation->boundary);
  assert_true(translation->message_ref);
  assert_int_equal(translation->n_keep_metadata, 1);
  assert_string_equal(translation->keep_metadata[0], "x-shop");
  assert_int_equal(translation->n_keep_details, 1);
  assert_string_equal(translation->keep_details[0], "google.rpc.QuotaFailure");
  assert_int_equal(translation->max_message_bytes, 64);
  assert_int_equal(translation->deadline_exceeded_as, GRPC_STATUS_ABORTED);
  assert_int_equal(translation->codes[GRPC_STATUS_NOT_FOUND], GRPC_STATUS_UNKNOWN);
  assert_int_equal(translation->codes[GRPC_STATUS_RESOURCE_EXHAUSTED], GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(translation->codes[GRPC_STATUS_DATA_LOSS], WEIR_TRANSLATION_DEFAULT);
  assert_false(weir__policy_passes_trace(loaded.policy));
  loaded_fini(&loaded);
}

static void the_fallback_is_set_by_its_own_keys(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_file(&loaded, "everything.json", LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_fallback_options *channels =
      loaded_method(&loaded, "/shop.Search/Find")->fallback;
  assert_false(channels->on_refusal);
  assert_true(channels->on_failure);
  assert_int_equal(channels->timeout_ns, 250 * MS);
  assert_int_equal(channels->max_concurrent, 9);
  const struct weir_fallback_options *own = loaded_method(&loaded, "/shop.Cart/Add")->fallback;
  assert_true(own->on_refusal);
  assert_false(own->on_failure);
  assert_int_equal(own->timeout_ns, 30 * MS);
  assert_int_equal(own->max_concurrent, 4);
  loaded_fini(&loaded);
}

static void the_breaker_is_set_by_its_own_keys(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_file(&loaded, "everything.json", LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_breaker_options *breaker = weir__policy_breaker(loaded.policy);
  assert_false(breaker->enabled);
  assert_true(breaker->ignore_resets);
  assert_int_equal(breaker->scope, WEIR_BREAKER_SCOPE_METHOD);
  assert_int_equal(breaker->max_breakers, 7);
  assert_int_equal(breaker->window_ns, 10 * SECONDS);
  assert_int_equal(breaker->window_buckets, 5);
  assert_int_equal(breaker->min_requests, 20);
  assert_true(breaker->failure_ratio >= 0.25 && breaker->failure_ratio <= 0.25);
  assert_int_equal(breaker->open_for_ns, 3 * SECONDS);
  assert_true(breaker->open_jitter >= 0.5 && breaker->open_jitter <= 0.5);
  assert_true(breaker->open_backoff >= 2.0 && breaker->open_backoff <= 2.0);
  assert_int_equal(breaker->max_open_for_ns, 48 * SECONDS);
  assert_int_equal(breaker->probes, 1);
  assert_int_equal(breaker->probe_lease_ns, 4 * SECONDS);
  assert_int_equal(breaker->deadline_floor_ns, 100 * MS);
  assert_int_equal(breaker->mode, WEIR_BREAKER_MODE_SHADOW);
  assert_int_equal(breaker->consecutive_failures, 12);
  assert_int_equal(breaker->ramp_for_ns, 20 * SECONDS);
  loaded_fini(&loaded);
}

static void the_core_gets_what_weir_does_not_handle_and_nothing_else(void **state) {
  (void)state;
  struct loaded loaded;
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  loaded_from_file(&loaded, "everything.json", LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  assert_string_equal(weir__policy_core_service_config(loaded.policy),
                      "{\"loadBalancingPolicy\":\"round_robin\",\"loadBalancingConfig\":[ { "
                      "\"round_robin\": {} }, { \"pick_first\": { \"shuffleAddressList\": true } } "
                      "],\"healthCheckConfig\":{ \"serviceName\": \"shop\" }}");
  assert_string_equal(weir__policy_name(loaded.policy), "front-door_2.a");
  assert_true(weir__policy_throttle(loaded.policy, &max_tokens, &ratio_milli));
  assert_int_equal(max_tokens, 100);
  assert_int_equal(ratio_milli, 290);
  loaded_fini(&loaded);
  loaded_from_file(&loaded, "precedence.json", LOAD_STRICT);
  assert_null(weir__policy_core_service_config(loaded.policy));
  assert_false(weir__policy_throttle(loaded.policy, &max_tokens, &ratio_milli));
  loaded_fini(&loaded);
}

static void a_file_that_cannot_be_read_is_unavailable(void **state) {
  (void)state;
  static const struct {
    const char *path;
    const char *says;
  } rows[] = {
      {"no such file", "no such file can't be opened: No such file or directory"},
      {"test/unit/policy/testdata", "test/unit/policy/testdata is a directory, not a regular file"},
      {"test/unit/policy/testdata/precedence.json/x",
       "testdata/precedence.json/x can't be opened: Not a directory"},
      {"/dev/null", "/dev/null is a device, not a regular file"},
      {"/dev/zero", "/dev/zero is a device, not a regular file"},
      {"bell\a.json", "bell?.json can't be opened"},
      {"", " can't be opened: No such file or directory"},
      {"a/very/long/path/whose/first/half/nobody/wants/to/be/told/of/since/its/end/says/which/file/"
       "it/is.json",
       "...e/first/half/nobody/wants/to/be/told/of/since/its/end/says/which/file/it/is.json "
       "can't be opened: No such file"},
      {"a/path/whose/end/would/begin/within/a/character/\xc3\xa4"
       "/first/half/nobody/wants/to/be/told/of/since/its/end/says/which/file/it/is.json",
       ".../first/half/nobody/wants/to/be/told/of/since/its/end/says/which/file/it/is.json "
       "can't be opened: No such file"},
      {"/proc/self/mem", "/proc/self/mem can't be read: Input/output error"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_diagnostic diagnostic;
    weir_policy *policy = NULL;
    memset(&diagnostic, 'z', sizeof diagnostic);
    assert_int_equal(weir_policy_from_file(rows[i].path, NULL, NULL, &policy, &diagnostic),
                     WEIR_ERROR_UNAVAILABLE);
    assert_null(policy);
    if (strstr(diagnostic.message, rows[i].says) == NULL) {
      fail_msg("%s: %s", rows[i].path, diagnostic.message);
    }
    assert_string_equal(diagnostic.path, "");
    assert_int_equal(diagnostic.line, 0);
  }
}

/* Nobody writes to it, and who waited for that would do so for ever. */
static void a_pipe_is_not_waited_for(void **state) {
  (void)state;
  char path[256];
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *folder = getenv("TEST_TMPDIR");
  snprintf(path, sizeof path, "%s/pipe", folder != NULL ? folder : "/tmp");
  (void)unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(weir_policy_from_file(path, NULL, NULL, &policy, &diagnostic),
                   WEIR_ERROR_UNAVAILABLE);
  assert_non_null(strstr(diagnostic.message, "is a pipe, not a regular file"));
  (void)unlink(path);
}

/* Files of /proc say that they have no bytes. */
static void a_file_without_a_size_is_read_to_its_end(void **state) {
  (void)state;
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  assert_int_equal(weir_policy_from_file("/proc/self/status", NULL, NULL, &policy, &diagnostic),
                   WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(diagnostic.message,
                      "no such word in JSON: null, true and false are, and strings have double "
                      "quotes");
}

/* A byte more than a document may have, and a hole of a gibibyte. */
static void a_file_that_is_too_large_is_not_read_to_its_end(void **state) {
  (void)state;
  static const off_t sizes[] = {WEIR__JSON_MAX_SIZE + 1, (off_t)1 << 30};
  char path[256];
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *folder = getenv("TEST_TMPDIR");
  snprintf(path, sizeof path, "%s/large", folder != NULL ? folder : "/tmp");
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct counting_allocator allocator;
    struct weir_diagnostic diagnostic;
    weir_policy *policy = NULL;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, sizes[i]), 0);
    counting_allocator_init(&allocator);
    assert_int_equal(weir_policy_from_file(path, NULL, &allocator.base, &policy, &diagnostic),
                     WEIR_ERROR_INVALID_POLICY);
    assert_string_equal(diagnostic.message, "the document is larger than 4 MiB");
    assert_int_equal(allocator.n_outstanding, 0);
  }
  (void)unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_refused_document_has_all_its_problems_told_in_order),
      cmocka_unit_test(an_accepted_document_means_what_it_says_with_all_warnings),
      cmocka_unit_test(every_layer_is_set_by_its_own_keys),
      cmocka_unit_test(translation_is_set_by_its_own_keys),
      cmocka_unit_test(a_methods_translation_is_set_by_the_same_keys),
      cmocka_unit_test(the_breaker_is_set_by_its_own_keys),
      cmocka_unit_test(the_fallback_is_set_by_its_own_keys),
      cmocka_unit_test(the_core_gets_what_weir_does_not_handle_and_nothing_else),
      cmocka_unit_test(a_file_that_cannot_be_read_is_unavailable),
      cmocka_unit_test(a_pipe_is_not_waited_for),
      cmocka_unit_test(a_file_without_a_size_is_read_to_its_end),
      cmocka_unit_test(a_file_that_is_too_large_is_not_read_to_its_end),
  };
  return cmocka_run_group_tests_name("documents", tests, NULL, NULL);
}
