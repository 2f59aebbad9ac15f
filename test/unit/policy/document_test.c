/* Single keys of a document: what is taken, and what is told of what is not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/status.h>

#include "src/policy/policy.h"
#include "src/policy/problems.h"
#include "test/unit/policy/loaded.h"

#define SECONDS WEIR_SECOND_NS
#define MEBIBYTE ((size_t)1024 * 1024)
#define CODE(code) (UINT32_C(1) << GRPC_STATUS_##code)

/* ---- one retryPolicy ---- */

/* A document whose only retryPolicy has `value` for `key`, and good values for the others. */
static void load_with(struct loaded *loaded, const char *key, const char *value) {
  static const char *const members[][2] = {
      {"maxAttempts", "3"},       {"initialBackoff", "\"0.1s\""},   {"maxBackoff", "\"1s\""},
      {"backoffMultiplier", "2"}, {"retryableStatusCodes", "[14]"},
  };
  char text[1024];
  size_t n =
      (size_t)snprintf(text, sizeof text, "{\"methodConfig\":[{\"name\":[{}],\"retryPolicy\":{");
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    const bool chosen = strcmp(members[i][0], key) == 0;
    n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\":%s", i > 0 ? "," : "", members[i][0],
                          chosen ? value : members[i][1]);
  }
  (void)snprintf(text + n, sizeof text - n, "}}]}");
  loaded_from_text(loaded, text, LOAD_STRICT);
}

/* Fails unless the document was refused for this one place, with these words. */
static void assert_refused_at(struct loaded *loaded, const char *what, const char *path,
                              const char *says) {
  const struct told *told = loaded_told(loaded, path);
  if (loaded->error != WEIR_ERROR_INVALID_POLICY || told == NULL || loaded->n_refused != 1 ||
      strstr(told->problem.message, says) == NULL) {
    loaded_print(loaded);
    fail_msg("%s: %s, expected [%s] %s", what, weir_error_name(loaded->error), path, says);
  }
  assert_null(loaded->policy);
  loaded_fini(loaded);
}

static void assert_accepted(const struct loaded *loaded, const char *what) {
  if (loaded->error != WEIR_OK) {
    loaded_print(loaded);
    fail_msg("%s: %s", what, weir_error_name(loaded->error));
  }
}

static void attempts_are_integers_above_one_and_at_most_five(void **state) {
  (void)state;
  static const struct {
    const char *value;
    uint32_t attempts; /* 0: refused */
    size_t n_warnings;
  } rows[] = {
      {"2", 2, 0},     {"5", 5, 0},       {"6", 5, 1},      {"100", 5, 1},    {"4294967295", 5, 1},
      {"3.0", 3, 0},   {"3e0", 3, 0},     {"\"3\"", 3, 0},  {"1", 0, 0},      {"0", 0, 0},
      {"-1", 0, 0},    {"2.5", 0, 0},     {"1e400", 0, 0},  {"true", 0, 0},   {"[3]", 0, 0},
      {"{}", 0, 0},    {"\"\"", 0, 0},    {"\"3x\"", 0, 0}, {"\" 3\"", 0, 0}, {"-3", 0, 0},
      {"1.999", 0, 0}, {"\"two\"", 0, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    load_with(&loaded, "maxAttempts", rows[i].value);
    if (rows[i].attempts == 0) {
      assert_refused_at(&loaded, rows[i].value, "methodConfig[0].retryPolicy.maxAttempts",
                        "an integer > 1");
      continue;
    }
    assert_accepted(&loaded, rows[i].value);
    assert_int_equal(loaded_method(&loaded, "/a.B/C")->retry.max_attempts, rows[i].attempts);
    assert_int_equal(loaded.n_warnings, rows[i].n_warnings);
    loaded_fini(&loaded);
  }
}

static void multipliers_are_finite_and_above_zero(void **state) {
  (void)state;
  static const char *const good[] = {"0.5", "1", "1e308", "1.0", "5e-324", "\"2\""};
  static const char *const bad[] = {"0",    "-1",    "1e400", "-1e400", "\"NaN\"", "\"Infinity\"",
                                    "true", "0.0e5", "1e-400"};
  struct loaded loaded;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    load_with(&loaded, "backoffMultiplier", good[i]);
    assert_accepted(&loaded, good[i]);
    loaded_fini(&loaded);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    load_with(&loaded, "backoffMultiplier", bad[i]);
    assert_refused_at(&loaded, bad[i], "methodConfig[0].retryPolicy.backoffMultiplier",
                      "finite number > 0");
  }
}

static void codes_are_names_in_any_case_or_numbers(void **state) {
  (void)state;
  static const struct {
    const char *value;
    uint32_t codes;
  } rows[] = {
      {"[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", 0x1fffe},
      {"[\"UNAVAILABLE\"]", CODE(UNAVAILABLE)},
      {"[\"unavailable\",\"Unavailable\",14,14.0]", CODE(UNAVAILABLE)},
      {"[\"deadline_exceeded\",\"Data_Loss\"]", CODE(DEADLINE_EXCEEDED) | CODE(DATA_LOSS)},
      {"[\"CANCELLED\",16]", CODE(CANCELLED) | CODE(UNAUTHENTICATED)},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    load_with(&loaded, "retryableStatusCodes", rows[i].value);
    assert_accepted(&loaded, rows[i].value);
    assert_int_equal(loaded_method(&loaded, "/a.B/C")->retry.retryable_codes, rows[i].codes);
    assert_int_equal(loaded.n_warnings, 0);
    loaded_fini(&loaded);
  }
}

static void wrong_codes_are_told_with_their_index(void **state) {
  (void)state;
  static const struct {
    const char *value;
    const char *at;
    const char *says;
  } rows[] = {
      {"[17]", "[0]", "not 17"},
      {"[14,-1]", "[1]", "not -1"},
      {"[14.5]", "[0]", "not 14.5"},
      {"[14,\"UNAVAILABEL\"]", "[1]", "UNAVAILABLE?"},
      {"[\"canceled\"]", "[0]", "CANCELLED?"},
      {"[\"deadline-exceeded\"]", "[0]", "DEADLINE_EXCEEDED?"},
      {"[\"DeadlineExceeded\"]", "[0]", "DEADLINE_EXCEEDED?"},
      {"[\"14\"]", "[0]", "no status code"},
      {"[\"\"]", "[0]", "no status code"},
      {"[true]", "[0]", "status code"},
      {"[null]", "[0]", "status code"},
      {"[[14]]", "[0]", "status code"},
      {"[\"OK\"]", "[0]", "OK"},
      {"[14,0]", "[1]", "OK"},
      {"[]", "", "empty"},
      {"14", "", "an array"},
      {"\"UNAVAILABLE\"", "", "an array"},
      {"{}", "", "an array"},
      {"null", "", "missing"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    char path[96];
    snprintf(path, sizeof path, "methodConfig[0].retryPolicy.retryableStatusCodes%s", rows[i].at);
    load_with(&loaded, "retryableStatusCodes", rows[i].value);
    assert_refused_at(&loaded, rows[i].value, path, rows[i].says);
  }
}

static void wrong_durations_are_told_with_what_was_meant(void **state) {
  (void)state;
  static const struct {
    const char *value;
    const char *says;
  } rows[] = {
      {"\"500ms\"", "write \"0.5s\""},
      {"\"1m\"", "write \"60s\""},
      {"\".01s\"", "write \"0.01s\""},
      {"5", "write \"5s\""},
      {"0.5", "write \"0.5s\""},
      {"\" 1s \"", "write \"1s\""},
      {"\"1\"", "write \"1s\""},
      {"\"1e3s\"", "not \"1e3s\""},
      {"\"1.-5s\"", "not \"1.-5s\""},
      {"\"-1s\"", "> 0s"},
      {"\"0s\"", "> 0s"},
      {"\"0.0000000001s\"", "nine decimals"},
      {"{\"seconds\":5}", "object"},
      {"[]", "array"},
      {"true", "boolean"},
      {"\"315576000001s\"", "315576000000s"},
      {"\"\"", "duration"},
      {"null", "missing"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    load_with(&loaded, "initialBackoff", rows[i].value);
    assert_refused_at(&loaded, rows[i].value, "methodConfig[0].retryPolicy.initialBackoff",
                      rows[i].says);
  }
}

static void a_maximum_below_the_first_backoff_is_no_error(void **state) {
  (void)state;
  struct loaded loaded;
  load_with(&loaded, "maxBackoff", "\"0.000000001s\"");
  assert_accepted(&loaded, "A6 says so");
  assert_int_equal(loaded.n_warnings, 0);
  assert_int_equal(loaded_method(&loaded, "/a.B/C")->retry.max_backoff_ns, 1);
  loaded_fini(&loaded);
}

/* ---- the throttle ---- */

static void load_throttle(struct loaded *loaded, const char *max_tokens, const char *ratio) {
  char text[256];
  snprintf(text, sizeof text, "{\"retryThrottling\":{\"maxTokens\":%s,\"tokenRatio\":%s}}",
           max_tokens, ratio);
  loaded_from_text(loaded, text, LOAD_STRICT);
}

static void token_ratios_are_cut_after_the_third_decimal(void **state) {
  (void)state;
  static const struct {
    const char *ratio;
    uint32_t milli;
  } rows[] = {
      {"1", 1000},
      {"1.0", 1000},
      {"0.001", 1},
      {"0.29", 290},
      {"0.57", 570},
      {"0.5466", 546},
      {"0.1", 100},
      {"1.005", 1005},
      {"4.35", 4350},
      {"0.0019999999", 1},
      {"1e-3", 1},
      {"5E-1", 500},
      {"\"0.5\"", 500},
      {"10", 10000},
      {"1000", 10000},
      {"1e300", 10000},
      {"0.29000000000000000001", 290},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    uint32_t max_tokens = 0;
    uint32_t milli = 0;
    load_throttle(&loaded, "10", rows[i].ratio);
    assert_accepted(&loaded, rows[i].ratio);
    assert_true(weir__policy_throttle(loaded.policy, &max_tokens, &milli));
    assert_int_equal(max_tokens, 10);
    if (milli != rows[i].milli) {
      fail_msg("%s is %u thousandths", rows[i].ratio, (unsigned)milli);
    }
    loaded_fini(&loaded);
  }
}

static void throttles_that_a6_forbids_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *max_tokens;
    const char *ratio;
    const char *path;
    const char *says;
  } rows[] = {
      {"0", "0.1", "retryThrottling.maxTokens", "(0, 1000]"},
      {"1001", "0.1", "retryThrottling.maxTokens", "(0, 1000]"},
      {"-5", "0.1", "retryThrottling.maxTokens", "(0, 1000]"},
      {"10.5", "0.1", "retryThrottling.maxTokens", "(0, 1000]"},
      {"null", "0.1", "retryThrottling.maxTokens", "missing"},
      {"10", "0", "retryThrottling.tokenRatio", "0.001"},
      {"10", "0.0004", "retryThrottling.tokenRatio", "0.001"},
      {"10", "0.0009999999999999999999999", "retryThrottling.tokenRatio", "0.001"},
      {"10", "-0.5", "retryThrottling.tokenRatio", "0.001"},
      {"10", "1e400", "retryThrottling.tokenRatio", "finite"},
      {"10", "true", "retryThrottling.tokenRatio", "number"},
      {"10", "null", "retryThrottling.tokenRatio", "missing"},
  };
  struct loaded loaded;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    load_throttle(&loaded, rows[i].max_tokens, rows[i].ratio);
    assert_refused_at(&loaded, rows[i].ratio, rows[i].path, rows[i].says);
  }
  load_throttle(&loaded, "1000", "0.1");
  assert_accepted(&loaded, "1000 tokens");
  loaded_fini(&loaded);
}

/* ---- any document ---- */

static const struct refused {
  const char *text;
  const char *path;
  const char *says;
} refused[] = {
    {"null", "", "must be an object, not null"},
    {"[]", "", "must be an object, not an array"},
    {"\"{}\"", "", "must be an object"},
    {"{\"methodConfig\":{}}", "methodConfig", "an array"},
    {"{\"methodConfig\":[null]}", "methodConfig[0]", "must be an object, not null"},
    {"{\"methodConfig\":[{\"name\":{\"service\":\"a.B\"}}]}", "methodConfig[0].name", "an array"},
    {"{\"methodConfig\":[{\"name\":[\"a.B\"]}]}", "methodConfig[0].name[0]", "an object"},
    {"{\"methodConfig\":[{\"name\":[{\"service\":7}]}]}", "methodConfig[0].name[0].service",
     "a string"},
    {"{\"methodConfig\":[{\"name\":[{\"service\":\"/a.B\"}]}]}", "methodConfig[0].name[0].service",
     "slash"},
    {"{\"methodConfig\":[{\"name\":[{\"service\":\"a.B/C\"}]}]}", "methodConfig[0].name[0].service",
     "slash"},
    {"{\"methodConfig\":[{\"name\":[{\"service\":\"a.B\",\"method\":\"/C\"}]}]}",
     "methodConfig[0].name[0].method", "slash"},
    {"{\"methodConfig\":[{\"name\":[{\"service\":\"a\\u0000B\"}]}]}",
     "methodConfig[0].name[0].service", "NUL"},
    {"{\"methodConfig\":[{\"name\":[{\"Service\":\"a.B\"}]}]}", "methodConfig[0].name[0].Service",
     "\"service\""},
    {"{\"methodConfig\":[{\"name\":[{}],\"timeout\":\"-1s\"}]}", "methodConfig[0].timeout",
     "0s or more"},
    {"{\"methodConfig\":[{\"name\":[{}],\"perAttemptTimeout\":\"0s\"}]}",
     "methodConfig[0].perAttemptTimeout", "> 0s"},
    {"{\"methodConfig\":[{\"timeout\":\"x\"}]}", "methodConfig[0].timeout", "duration"},
    {"{\"methodConfig\":[{\"name\":[{}],\"waitForReady\":1}]}", "methodConfig[0].waitForReady",
     "a boolean"},
    {"{\"methodConfig\":[{\"name\":[{}],\"waitForReady\":\"true\"}]}",
     "methodConfig[0].waitForReady", "a boolean"},
    {"{\"methodConfig\":[{\"name\":[{}],\"maxRequestMessageBytes\":-1}]}",
     "methodConfig[0].maxRequestMessageBytes", "0 to 4294967295"},
    {"{\"methodConfig\":[{\"name\":[{}],\"maxResponseMessageBytes\":4294967296}]}",
     "methodConfig[0].maxResponseMessageBytes", "0 to 4294967295"},
    {"{\"methodConfig\":[{\"name\":[{}],\"hedgingPolicy\":[]}]}", "methodConfig[0].hedgingPolicy",
     "an object"},
    {"{\"name\":\"\"}", "name", "1 to 63"},
    {"{\"name\":\"a b\"}", "name", "1 to 63"},
    {"{\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\"}", "name",
     "1 to 63"},
    {"{\"loadBalancingConfig\":{}}", "loadBalancingConfig", "an array"},
    {"{\"loadBalancingConfig\":[1]}", "loadBalancingConfig[0]", "an object"},
    {"{\"loadBalancingPolicy\":1}", "loadBalancingPolicy", "a string"},
    {"{\"healthCheckConfig\":\"x\"}", "healthCheckConfig", "an object"},
    {"{\"deadline\":{\"maxTimeout\":\"0s\"}}", "deadline.maxTimeout", "> 0s"},
    {"{\"deadline\":{\"defaultTimeout\":\"10\"}}", "deadline.defaultTimeout", "write \"10s\""},
    {"{\"deadline\":{\"deadlineMargin\":\"-1s\"}}", "deadline.deadlineMargin", "0s or more"},
    {"{\"deadline\":{\"timeout\":\"1s\"}}", "deadline.timeout", "belongs inside methodConfig[]"},
    {"{\"translation\":{\"codes\":{\"NOT_FOUND\":\"OK\"}}}", "translation.codes.NOT_FOUND", "OK"},
    {"{\"translation\":{\"codes\":{\"NOT_FOUND\":0}}}", "translation.codes.NOT_FOUND", "OK"},
    {"{\"translation\":{\"codes\":{\"OK\":\"INTERNAL\"}}}", "translation.codes.OK",
     "never translated"},
    {"{\"translation\":{\"codes\":{\"NOT_FOUN\":\"INTERNAL\"}}}", "translation.codes.NOT_FOUN",
     "NOT_FOUND?"},
    {"{\"translation\":{\"codes\":{\"NOT_FOUND\":null}}}", "translation.codes.NOT_FOUND",
     "status code"},
    {"{\"translation\":{\"codes\":{\"NOT_FOUND\":13,\"5\":14}}}", "translation.codes.5", "twice"},
    {"{\"translation\":{\"codes\":{\"not_found\":13,\"NOT_FOUND\":14}}}",
     "translation.codes.NOT_FOUND", "twice"},
    {"{\"translation\":{\"codes\":[]}}", "translation.codes", "an object"},
    {"{\"translation\":{\"deadlineExceededAs\":\"ok\"}}", "translation.deadlineExceededAs", "OK"},
    {"{\"translation\":{\"keepMetadata\":[\"x-a\",\"X-Request-Id\"]}}",
     "translation.keepMetadata[1]", "a-z"},
    {"{\"translation\":{\"keepMetadata\":[\"grpc-status-details-bin\"]}}",
     "translation.keepMetadata[0]", "grpc-"},
    {"{\"translation\":{\"keepMetadata\":\"x-a\"}}", "translation.keepMetadata", "an array"},
    {"{\"translation\":{\"boundary\":\"false\"}}", "translation.boundary", "a boolean"},
    {"{\"translation\":{\"keepDetails\":[\"a.B\",\"type.googleapis.com/google.rpc.RetryInfo\"]}}",
     "translation.keepDetails[1]", "write \"google.rpc.RetryInfo\""},
    {"{\"translation\":{\"keepDetails\":[\"/google.rpc.RetryInfo\"]}}",
     "translation.keepDetails[0]", "write \"google.rpc.RetryInfo\""},
    {"{\"translation\":{\"keepDetails\":[\"a.B/\"]}}", "translation.keepDetails[0]", "A-Z"},
    {"{\"translation\":{\"keepDetails\":[\"RetryInfo\"]}}", "translation.keepDetails[0]",
     "package"},
    {"{\"translation\":{\"keepDetails\":[\"\"]}}", "translation.keepDetails[0]", "1 to 255"},
    {"{\"translation\":{\"keepDetails\":[\".a.B\"]}}", "translation.keepDetails[0]", "empty part"},
    {"{\"translation\":{\"keepDetails\":[\"a..B\"]}}", "translation.keepDetails[0]", "empty part"},
    {"{\"translation\":{\"keepDetails\":[\"a.B.\"]}}", "translation.keepDetails[0]", "empty part"},
    {"{\"translation\":{\"keepDetails\":[\"a.B-C\"]}}", "translation.keepDetails[0]", "A-Z"},
    {"{\"translation\":{\"keepDetails\":[\"a.\u00e4\"]}}", "translation.keepDetails[0]", "A-Z"},
    {"{\"translation\":{\"keepDetails\":[\"a.B\\u0000\"]}}", "translation.keepDetails[0]", "NUL"},
    {"{\"translation\":{\"keepDetails\":[7]}}", "translation.keepDetails[0]", "a string"},
    {"{\"translation\":{\"keepDetails\":\"a.B\"}}", "translation.keepDetails", "an array"},
    {"{\"translation\":{\"maxMessageBytes\":63}}", "translation.maxMessageBytes",
     "64 to 8192, not 63"},
    {"{\"translation\":{\"maxMessageBytes\":8193}}", "translation.maxMessageBytes", "64 to 8192"},
    {"{\"translation\":{\"maxMessageBytes\":0}}", "translation.maxMessageBytes", "64 to 8192"},
    {"{\"translation\":{\"maxMessageBytes\":-100}}", "translation.maxMessageBytes", "64 to 8192"},
    {"{\"translation\":{\"maxMessageBytes\":100.5}}", "translation.maxMessageBytes", "64 to 8192"},
    {"{\"translation\":{\"maxMessageBytes\":4294967396}}", "translation.maxMessageBytes",
     "64 to 8192"},
    {"{\"translation\":{\"maxMessageBytes\":\"1k\"}}", "translation.maxMessageBytes", "64 to 8192"},
    {"{\"methodConfig\":[{},{},{\"name\":[{}],\"translation\":{\"codes\":{\"NOT_FOUN\":13}}}]}",
     "methodConfig[2].translation.codes.NOT_FOUN", "NOT_FOUND?"},
    {"{\"methodConfig\":[{\"name\":[{}],\"translation\":{\"keepMetadata\":[\"grpc-x\"]}}]}",
     "methodConfig[0].translation.keepMetadata[0]", "grpc-"},
    {"{\"methodConfig\":[{\"name\":[{}],\"translation\":{\"keepDetails\":[\"x.com/a.B\"]}}]}",
     "methodConfig[0].translation.keepDetails[0]", "write \"a.B\""},
    {"{\"methodConfig\":[{\"name\":[{}],\"translation\":{\"maxMessageBytes\":1}}]}",
     "methodConfig[0].translation.maxMessageBytes", "64 to 8192"},
    {"{\"methodConfig\":[{\"name\":[{}],\"translation\":true}]}", "methodConfig[0].translation",
     "an object"},
    {"{\"passTrace\":\"no\"}", "passTrace", "a boolean"},
    {"{\"passTrace\":0}", "passTrace", "a boolean"},
    {"{\"pass_trace\":true,\"passTrace\":true}", "passTrace", "given twice"},
    {"{\"breaker\":{\"scope\":\"HOST\"}}", "breaker.scope", "HOST"},
    {"{\"breaker\":{\"scope\":9}}", "breaker.scope", "not 9"},
    {"{\"breaker\":{\"failureRatio\":1.5}}", "breaker.failureRatio", "at most 1"},
    {"{\"breaker\":{\"failureRatio\":0}}", "breaker.failureRatio", "above 0"},
    {"{\"breaker\":{\"openFor\":\"10s\",\"maxOpenFor\":\"5s\"}}", "breaker.maxOpenFor", "openFor"},
    {"{\"breaker\":{\"windowBuckets\":0}}", "breaker.windowBuckets", "1"},
    {"{\"breaker\":{\"windowBuckets\":61}}", "breaker.windowBuckets", "60"},
    {"{\"breaker\":{\"openFor\":\"0s\"}}", "breaker.openFor", "above 0"},
    {"{\"breaker\":{\"mode\":\"SHADOWS\"}}", "breaker.mode", "SHADOW?"},
    {"{\"breaker\":{\"mode\":2}}", "breaker.mode", "not 2"},
    {"{\"breaker\":{\"mode\":true}}", "breaker.mode", "name"},
    {"{\"breaker\":{\"consecutiveFailures\":-1}}", "breaker.consecutiveFailures", "integer"},
    {"{\"breaker\":{\"consecutiveFailure\":5}}", "breaker.consecutiveFailure",
     "consecutiveFailures?"},
    {"{\"breaker\":{\"rampFor\":\"-1s\"}}", "breaker.rampFor", "0s or more"},
    {"{\"breaker\":{\"rampFor\":10}}", "breaker.rampFor", "10s"},
    {"{\"breaker\":{\"ramp_up\":\"1s\"}}", "breaker.ramp_up", "unknown key"},
    {"{\"rampFor\":\"1s\"}", "rampFor", "belongs inside breaker"},
    {"{\"breaker\":{\"failureRatio\":\"60%\"}}", "breaker.failureRatio", "finite number"},
    {"{\"fallback\":{\"timeout\":\"0s\"}}", "fallback.timeout", "> 0s"},
    {"{\"fallback\":{\"timeout\":\"100ms\"}}", "fallback.timeout", "write \"0.1s\""},
    {"{\"fallback\":{\"maxConcurrent\":0}}", "fallback.maxConcurrent", "1 to 1024, not 0"},
    {"{\"fallback\":{\"maxConcurrent\":1025}}", "fallback.maxConcurrent", "1 to 1024"},
    {"{\"fallback\":{\"maxConcurrent\":1.5}}", "fallback.maxConcurrent", "1 to 1024"},
    {"{\"fallback\":{\"onRefusal\":\"no\"}}", "fallback.onRefusal", "a boolean"},
    {"{\"fallback\":{\"onFailures\":true}}", "fallback.onFailures", "onFailure?"},
    {"{\"fallback\":true}", "fallback", "an object"},
    {"{\"fallbacks\":{}}", "fallbacks", "fallback?"},
    {"{\"onRefusal\":false}", "onRefusal",
     "belongs inside fallback or inside methodConfig[].fallback"},
    {"{\"breaker\":{\"fallback\":{}}}", "breaker.fallback",
     "belongs at the top or inside methodConfig[]"},
    {"{\"methodConfig\":[{\"name\":[{}],\"fallback\":{\"maxConcurrent\":2000}}]}",
     "methodConfig[0].fallback.maxConcurrent", "1 to 1024"},
    {"{\"methodConfig\":[{\"name\":[{}],\"fallback\":{\"timeout\":\"0s\"}}]}",
     "methodConfig[0].fallback.timeout", "> 0s"},
    {"{\"retry\":{\"owner\":\"outer\"}}", "retry.owner", "outer"},
    {"{\"retry\":{\"owner\":\"NEVR\"}}", "retry.owner", "NEVER?"},
    {"{\"retry\":{\"maxAttempts\":3}}", "retry.maxAttempts",
     "belongs inside methodConfig[].retryPolicy"},
    {"{\"retry\":{\"replayBytes\":\"256k\"}}", "retry.replayBytes", "integer"},
    {"{\"retry\":{\"channelReplayBytes\":-1}}", "retry.channelReplayBytes", "integer"},
    {"{\"enabled\":true}", "enabled", "belongs inside breaker"},
    {"{\"methodConfig\":[{\"name\":[{}],\"method-config\":[]}]}", "methodConfig[0].method-config",
     "unknown key"},
    {"{\"methodConfig\":[{\"name\":[{}],\"breaker\":{}}]}", "methodConfig[0].breaker",
     "belongs at the top"},
    {"{\"keepDetails\":[\"a.B\"]}", "keepDetails",
     "belongs inside translation or inside methodConfig[].translation"},
    {"{\"methodConfig\":[{\"name\":[{}],\"boundary\":true}]}", "methodConfig[0].boundary",
     "belongs inside translation or inside methodConfig[].translation"},
    {"{\"breaker\":{\"translation\":{}}}", "breaker.translation",
     "belongs at the top or inside methodConfig[]"},
    {"{\"methodConfig\":[{\"name\":[{\"service\":\"a.B\",\"translation\":{}}]}]}",
     "methodConfig[0].name[0].translation", "belongs at the top or inside methodConfig[]"},
    {"{\"translation\":{\"passTrace\":false}}", "translation.passTrace", "belongs at the top"},
    {"{\"translation\":{\"keepDetail\":[]}}", "translation.keepDetail", "keepDetails?"},
    {"{\"translation\":{\"keepdetails\":[]}}", "translation.keepdetails", "\"keepDetails\""},
    {"{\"translation\":{\"keep-details\":[]}}", "translation.keep-details", "\"keepDetails\""},
    {"{\"translation\":{\"maxMessageByte\":64}}", "translation.maxMessageByte", "maxMessageBytes?"},
    {"{\"methodConfig\":[{\"name\":[{}],\"Translation\":{}}]}", "methodConfig[0].Translation",
     "\"translation\""},
    {"{\"methodConfig\":[{\"name\":[{}],\"translations\":{}}]}", "methodConfig[0].translations",
     "translation?"},
    {"{\"PassTrace\":true}", "PassTrace", "\"passTrace\""},
    {"{\"passTraces\":true}", "passTraces", "passTrace?"},
    {"{\"method_Config\":[]}", "method_Config", "\"methodConfig\""},
    {"{\"methodConfig\":[],\"method_config\":[]}", "methodConfig", "given twice"},
    {"{\"a\\tb\\u0000c\":1}", "a?b?c", "unknown key"},
};

static void what_is_wrong_is_told_where_it_is(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    struct loaded loaded;
    loaded_from_text(&loaded, refused[i].text, LOAD_STRICT);
    assert_refused_at(&loaded, refused[i].text, refused[i].path, refused[i].says);
  }
}

static void what_is_right_is_accepted_without_a_word(void **state) {
  (void)state;
  static const char *const good[] = {
      "{}",
      "{\"methodConfig\":[]}",
      "{\"methodConfig\":null,\"deadline\":null,\"name\":null,\"retryThrottling\":null,"
      "\"healthCheckConfig\":null}",
      "{\"method_config\":[{\"name\":[{}],\"wait_for_ready\":true}]}",
      "{\"methodConfig\":[{\"name\":[{\"service\":\"\"}]}]}",
      "{\"methodConfig\":[{\"name\":[{\"service\":\"a\"},{\"service\":\"b\"}],\"retryPolicy\":null}"
      "]}",
      "{\"methodConfig\":[{\"name\":[{}],\"maxRequestMessageBytes\":0,\"maxResponseMessageBytes\":"
      "\"4294967295\"}]}",
      "{\"methodConfig\":[{\"name\":[{}],\"timeout\":\"60s\"}]}",
      "{\"methodConfig\":[{\"name\":[{}],\"timeout\":\"90s\"}],\"deadline\":{\"max_timeout\":"
      "\"90s\"}}",
      "{\"translation\":{\"keep_details\":[\"a.B\",\"a.B\",\"_._\",\"A.b.C9\"],\"max_message_"
      "bytes\":64}}",
      "{\"translation\":{\"maxMessageBytes\":\"8192\",\"keepMetadata\":[\"x-a\",\"x-a\"]}}",
      "{\"methodConfig\":[{\"name\":[{}],\"translation\":{}},{\"name\":[{\"service\":\"a.B\"}],"
      "\"translation\":null}]}",
      "{\"pass_trace\":false}",
      "{\"breaker\":{\"openFor\":\"600s\"}}",
      "{\"breaker\":{\"scope\":\"Service\"},\"retry\":{\"owner\":2}}",
      "{\"breaker\":{\"mode\":\"Enforce\",\"consecutiveFailures\":0,\"rampFor\":\"0s\"}}",
      "{\"breaker\":{\"mode\":1,\"consecutive_failures\":4294967295,\"ramp_for\":\"0.5s\"}}",
      "{\"healthCheckConfig\":{\"a\":[{\"b\":1e400}]}}",
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    struct loaded loaded;
    loaded_from_text(&loaded, good[i], LOAD_STRICT);
    assert_accepted(&loaded, good[i]);
    assert_int_equal(loaded.n_told, 0);
    loaded_fini(&loaded);
  }
}

/* Names of types, of a length that only the last of them has. */
static void load_details(struct loaded *loaded, int n_types, int last_size) {
  char text[4096];
  size_t n = (size_t)snprintf(text, sizeof text, "{\"translation\":{\"keepDetails\":[");
  for (int i = 0; i < n_types; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%s\"pkg.%0*d\"", i > 0 ? "," : "",
                          i == n_types - 1 ? last_size - 4 : 4, i);
  }
  snprintf(text + n, sizeof text - n, "]}}");
  loaded_from_text(loaded, text, LOAD_STRICT);
}

static void at_most_64_types_of_255_bytes_are_kept(void **state) {
  (void)state;
  struct loaded loaded;
  load_details(&loaded, 64, 255);
  assert_accepted(&loaded, "64 types");
  const struct weir_translation_options *translation =
      loaded_method(&loaded, "/a.B/C")->translation;
  assert_int_equal(translation->n_keep_details, 64);
  assert_int_equal(strlen(translation->keep_details[63]), 255);
  loaded_fini(&loaded);
  load_details(&loaded, 65, 8);
  assert_refused_at(&loaded, "65 types", "translation.keepDetails", "65 message types; at most 64");
  load_details(&loaded, 64, 256);
  assert_refused_at(&loaded, "256 bytes", "translation.keepDetails[63]", "1 to 255");
}

static void trace_identifiers_pass_unless_told_otherwise(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool passes;
  } rows[] = {{"{}", true},
              {"{\"passTrace\":null}", true},
              {"{\"passTrace\":true}", true},
              {"{\"passTrace\":false}", false}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    loaded_from_text(&loaded, rows[i].text, LOAD_STRICT);
    assert_accepted(&loaded, rows[i].text);
    assert_int_equal(weir__policy_passes_trace(loaded.policy), rows[i].passes);
    loaded_fini(&loaded);
  }
}

static void an_open_time_above_the_default_ceiling_lifts_it(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_text(&loaded, "{\"breaker\":{\"openFor\":\"600s\"}}", LOAD_STRICT);
  assert_accepted(&loaded, "openFor");
  assert_int_equal(weir__policy_breaker(loaded.policy)->max_open_for_ns, 600 * SECONDS);
  loaded_fini(&loaded);
}

static void warnings_do_not_refuse(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *path;
    const char *says;
  } rows[] = {
      {"{\"methodConfig\":[{}]}", "methodConfig[0]", "no name"},
      {"{\"methodConfig\":[{\"name\":null,\"timeout\":\"1s\"}]}", "methodConfig[0]", "no name"},
      {"{\"methodConfig\":[{\"name\":[{\"service\":\"*\"}]}]}", "methodConfig[0].name[0]",
       "no wildcard"},
      {"{\"methodConfig\":[{\"name\":[{}],\"timeout\":\"61s\"}]}", "methodConfig[0].timeout",
       "60s"},
      {"{\"methodConfig\":[{\"name\":[{}],\"timeout\":\"3s\"}],\"deadline\":{\"maxTimeout\":\"2."
       "5s\"}}",
       "methodConfig[0].timeout", "2.5s"},
      {"{\"deadline\":{\"defaultTimeout\":\"61s\"}}", "deadline.defaultTimeout", "clamped"},
      {"{\"deadline\":{\"defaultStreamTimeout\":\"2s\",\"maxStreamTimeout\":\"1s\"}}",
       "deadline.defaultStreamTimeout", "clamped"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct loaded loaded;
    loaded_from_text(&loaded, rows[i].text, LOAD_STRICT);
    assert_accepted(&loaded, rows[i].text);
    const struct told *told = loaded_told(&loaded, rows[i].path);
    if (loaded.n_told != 1 || told == NULL || strstr(told->problem.message, rows[i].says) == NULL) {
      loaded_print(&loaded);
      fail_msg("%s", rows[i].text);
    }
    loaded_fini(&loaded);
  }
}

static void repeated_keys_are_told_with_path_line_and_column(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *path;
    uint32_t line;
    uint32_t column;
  } rows[] = {
      {"{\"name\":\"a\",\n \"name\":\"b\"}", "name", 2, 2},
      {"{\"methodConfig\":[{\"name\":[{}],\"timeout\":\"1s\",\n\n  \"time\\u006fut\":\"2s\"}]}",
       "methodConfig[0].timeout", 3, 3},
      {"{\"healthCheckConfig\":{\"a\":{\"b\":1,\"b\":2}}}", "healthCheckConfig.b", 1, 34},
      {"{\"translation\":{\"codes\":{\"ABORTED\":14,\"ABORTED\":14}}}", "translation.codes.ABORTED",
       1, 39},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (int mode = LOAD_STRICT; mode <= LOAD_LENIENT; mode++) {
      struct loaded loaded;
      loaded_from_text(&loaded, rows[i].text, (enum load_mode)mode);
      assert_int_equal(loaded.diagnostic.line, rows[i].line);
      assert_int_equal(loaded.diagnostic.column, rows[i].column);
      assert_refused_at(&loaded, rows[i].text, rows[i].path, "already");
    }
  }
}

static void a_lenient_load_forgives_unknown_keys_and_nothing_else(void **state) {
  (void)state;
  static const char *const forgiven[] = {
      "{\"future\":1}", "{\"retryPolicy\":{}}", "{\"deadline\":{\"soon\":[]}}",
      "{\"methodConfig\":[{\"name\":[{}],\"translation\":{\"keepDetail\":7}}]}",
      "{\"methodConfig\":[{\"name\":[{}],\"Timeout\":\"x\"}]}"};
  static const char *const not_forgiven[] = {
      "{\"future\":1,}", "{\"name\":7}", "{\"future\":{\"a\":1,\"a\":1}}",
      "{\"methodConfig\":[{\"name\":[{}],\"retryPolicy\":{\"MaxAttempts\":3}}]}",
      "{\"methodConfig\":[{\"name\":[{}]},{\"name\":[{}]}]}"};
  struct loaded loaded;
  for (size_t i = 0; i < sizeof forgiven / sizeof forgiven[0]; i++) {
    loaded_from_text(&loaded, forgiven[i], LOAD_LENIENT);
    assert_accepted(&loaded, forgiven[i]);
    assert_int_equal(loaded.n_warnings, 1);
    loaded_fini(&loaded);
    loaded_from_text(&loaded, forgiven[i], LOAD_STRICT);
    assert_int_equal(loaded.error, WEIR_ERROR_INVALID_POLICY);
    loaded_fini(&loaded);
  }
  for (size_t i = 0; i < sizeof not_forgiven / sizeof not_forgiven[0]; i++) {
    loaded_from_text(&loaded, not_forgiven[i], LOAD_LENIENT);
    assert_int_equal(loaded.error, WEIR_ERROR_INVALID_POLICY);
    loaded_fini(&loaded);
  }
}

static void every_wrong_key_of_a_layer_is_told(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_text(
      &loaded,
      "{\"breaker\":{\"failureRatio\":2,\"probes\":0,\"openJitter\":1,\"openBackoff\":0.5,"
      "\"maxBreakers\":0,\"minRequests\":0,\"window\":\"0s\",\"probeLease\":\"0s\",\"scope\":\"x\"}"
      "}",
      LOAD_STRICT);
  static const char *const keys[] = {"failureRatio", "probes",      "openJitter",
                                     "openBackoff",  "maxBreakers", "minRequests",
                                     "window",       "probeLease",  "scope"};
  assert_int_equal(loaded.n_refused, sizeof keys / sizeof keys[0]);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    char path[64];
    snprintf(path, sizeof path, "breaker.%s", keys[i]);
    assert_non_null(loaded_told(&loaded, path));
  }
  loaded_fini(&loaded);
}

static void long_keys_and_values_are_cut_at_whole_characters(void **state) {
  (void)state;
  char text[2048];
  struct loaded loaded;
  size_t n = (size_t)snprintf(text, sizeof text, "{\"");
  for (int i = 0; i < 400; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "\xc3\xa4");
  }
  snprintf(text + n, sizeof text - n, "\":1}");
  loaded_from_text(&loaded, text, LOAD_STRICT);
  assert_int_equal(loaded.n_refused, 1);
  const size_t length = strlen(loaded.diagnostic.path);
  assert_int_equal(length, 64 + 3);
  assert_memory_equal(loaded.diagnostic.path + length - 5, "\xc3\xa4...", 5);
  loaded_fini(&loaded);
}

/* What is told is cut where no character is, as well: 63 bytes of keys, and one of two bytes. */
static void a_value_is_cut_before_the_character_that_does_not_fit(void **state) {
  (void)state;
  char value[512];
  struct loaded loaded;
  for (size_t n_before = 0; n_before < 2; n_before++) {
    size_t n = (size_t)snprintf(value, sizeof value, "\"%s", n_before == 0 ? "" : "x");
    while (n < sizeof value - 4) {
      n += (size_t)snprintf(value + n, sizeof value - n, "\xc3\xa4");
    }
    snprintf(value + n, sizeof value - n, "\"");
    char text[640];
    snprintf(text, sizeof text, "{\"breaker\":{\"scope\":%s}}", value);
    loaded_from_text(&loaded, text, LOAD_STRICT);
    assert_int_equal(loaded.n_refused, 1);
    assert_string_equal(loaded.diagnostic.path, "breaker.scope");
    for (const char *c = loaded.diagnostic.message; *c != '\0'; c++) {
      if ((unsigned char)*c == 0xc3) {
        assert_int_equal((unsigned char)c[1], 0xa4);
        c++;
      } else {
        assert_true((unsigned char)*c < 0x80);
      }
    }
    loaded_fini(&loaded);
  }
}

/* The last character may lack its end. */
static void a_text_that_was_cut_ends_before_its_last_character(void **state) {
  (void)state;
  static const struct {
    const char *text;
    const char *expected;
  } rows[] = {{"abcdef\xc3\xa4", "abcdef"},
              {"abcde\xc3\xa4x", "abcde"},
              {"abcdefgh", "abcdefg"},
              {"ab\nd", "ab?d"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[8];
    const int n = snprintf(text, sizeof text, "%s", rows[i].text);
    weir__text_make_printable(text, sizeof text, n >= (int)sizeof text);
    assert_string_equal(text, rows[i].expected);
  }
}

/* Hints cost time: a document of nothing but faults gets its first ones only. */
static void wrong_names_are_told_without_a_hint_behind_many_problems(void **state) {
  (void)state;
  static char text[65536];
  struct loaded loaded;
  size_t n = (size_t)snprintf(text, sizeof text, "{\"methodConfig\":[");
  for (int i = 0; i < 300; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "1,");
  }
  snprintf(text + n, sizeof text - n, "1],\"breaker\":{\"scope\":\"CHANEL\"}}");
  loaded_from_text(&loaded, text, LOAD_STRICT);
  assert_int_equal(loaded.n_refused, 302);
  loaded_fini(&loaded);

  loaded_from_text(&loaded, "{\"breaker\":{\"scope\":\"CHANEL\"}}", LOAD_STRICT);
  assert_int_equal(loaded.n_refused, 1);
  assert_non_null(strstr(loaded.diagnostic.message, "CHANNEL"));
  loaded_fini(&loaded);
}

/* ---- properties of the load ---- */

static void the_same_document_is_told_of_the_same_way_each_time(void **state) {
  (void)state;
  struct loaded first;
  struct loaded second;
  loaded_from_file(&first, "keys_astray.json", LOAD_STRICT);
  loaded_from_file(&second, "keys_astray.json", LOAD_STRICT);
  assert_int_equal(first.n_told, second.n_told);
  assert_memory_equal(first.told, second.told, sizeof first.told);
  loaded_fini(&first);
  loaded_fini(&second);
}

static void a_load_needs_neither_options_nor_diagnostic(void **state) {
  (void)state;
  weir_policy *policy = NULL;
  assert_int_equal(weir_policy_from_json("{}", 2, NULL, NULL, &policy, NULL), WEIR_OK);
  weir_policy_unref(policy);
  assert_int_equal(weir_policy_from_json("{", 1, NULL, NULL, &policy, NULL),
                   WEIR_ERROR_INVALID_POLICY);
  assert_null(policy);
  assert_int_equal(weir_policy_from_file("no such file", NULL, NULL, &policy, NULL),
                   WEIR_ERROR_UNAVAILABLE);
}

static void options_without_a_size_are_refused_by_every_load(void **state) {
  (void)state;
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *organisation = NULL;
  weir_policy *policy = NULL;
  assert_int_equal(weir_policy_from_json("{}", 2, NULL, NULL, &organisation, NULL), WEIR_OK);
  options.size = 0;
  assert_int_equal(weir_policy_from_json("{}", 2, &options, NULL, &policy, NULL),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(policy);
  assert_int_equal(weir_policy_layer(organisation, NULL, &options, NULL, &policy, NULL),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(policy);
  assert_int_equal(weir_policy_from_file("test/unit/policy/testdata/precedence.json", &options,
                                         NULL, &policy, NULL),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(policy);
  weir_policy_unref(organisation);
}

static void running_out_of_memory_is_survived_at_every_allocation(void **state) {
  (void)state;
  static const char *const files[] = {"everything.json", "several_names.json", "keys_astray.json"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char path[64];
    struct counting_allocator allocator;
    enum weir_error error = WEIR_ERROR_NO_MEMORY;
    weir_policy *policy = NULL;
    size_t n_allowed = 0;
    snprintf(path, sizeof path, "test/unit/policy/testdata/%s", files[i]);
    for (; error == WEIR_ERROR_NO_MEMORY; n_allowed++) {
      counting_allocator_init(&allocator);
      allocator.n_allowed = n_allowed;
      error = weir_policy_from_file(path, NULL, &allocator.base, &policy, NULL);
      assert_true(error == WEIR_OK || policy == NULL);
      /* the policy, its text, and what the text is shared by */
      assert_int_equal(allocator.n_outstanding, error == WEIR_OK ? 3 : 0);
    }
    assert_true(n_allowed > 4);
    weir_policy_unref(policy);
    assert_int_equal(allocator.n_outstanding, 0);
  }
}

/* Knows how many bytes are out, and were at most; each block has its size in front. */
struct measuring {
  size_t n_bytes;
  size_t most_bytes;
};

union measured {
  size_t n_bytes;
  max_align_t alignment;
};

static void *measuring_allocate(void *context, size_t n_bytes) {
  struct measuring *measuring = context;
  union measured *block = malloc(sizeof *block + n_bytes);
  if (block == NULL) {
    return NULL;
  }
  block->n_bytes = n_bytes;
  measuring->n_bytes += n_bytes;
  if (measuring->n_bytes > measuring->most_bytes) {
    measuring->most_bytes = measuring->n_bytes;
  }
  return block + 1;
}

static void measuring_release(void *context, void *memory) {
  struct measuring *measuring = context;
  union measured *block = (union measured *)memory - 1;
  measuring->n_bytes -= block->n_bytes;
  free(block);
}

#define N_METHODS 10000
#define RETRIES                                                                            \
  ",\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"0.1s\",\"maxBackoff\":\"1s\"," \
  "\"backoffMultiplier\":2,\"retryableStatusCodes\":[\"UNAVAILABLE\"]}"
#define TRANSLATION                                                                            \
  ",\"translation\":{\"codes\":{\"NOT_FOUND\":\"INTERNAL\"},\"keepMetadata\":[\"x-request\"]," \
  "\"keepDetails\":[\"google.rpc.RetryInfo\"]}"
#define FALLBACK ",\"fallback\":{\"onFailure\":true,\"timeout\":\"0.05s\"}"

/* What each of the entries has beside its name. */
static const char *const shapes[] = {
    ",\"timeout\":\"1.5s\"",
    ",\"timeout\":\"1.5s\"" RETRIES,
    ",\"timeout\":\"1.5s\"" TRANSLATION,
    ",\"timeout\":\"1.5s\"" FALLBACK,
    RETRIES TRANSLATION FALLBACK,
    /* escapes are kept a second time */
    ",\"timeout\":\"1.5s\",\"translation\":{\"keepDetails\":[\"google.rpc.\\u0052etryInfo\"]}",
};

static size_t print_methods(char *text, size_t size, const char *more) {
  size_t n = (size_t)snprintf(text, size, "{\"methodConfig\":[");
  for (int i = 0; i < N_METHODS; i++) {
    n += (size_t)snprintf(
        text + n, size - n,
        "%s{\"name\":[{\"service\":\"load.Service%d\",\"method\":\"Method%d\"}]%s}",
        i > 0 ? "," : "", i / 100, i, more);
  }
  return n + (size_t)snprintf(text + n, size - n, "]}");
}

/* upb keeps 32 bytes free between any two pieces of an arena where addresses are watched. */
#if defined(__SANITIZE_ADDRESS__)
#define MOST_BYTES (20 * MEBIBYTE)
#else
#define MOST_BYTES (16 * MEBIBYTE)
#endif

/* Both have the text: the one borrows it, the other reads it. */
enum origin { FROM_TEXT = 0, FROM_FILE };

static void load_ten_thousand(const char *more, enum origin origin) {
  struct measuring measuring = {.n_bytes = 0};
  const struct weir_allocator allocator = {.size = sizeof allocator,
                                           .allocate = measuring_allocate,
                                           .release = measuring_release,
                                           .context = &measuring};
  static char text[4 * MEBIBYTE];
  struct weir_diagnostic diagnostic;
  weir_policy *policy = NULL;
  enum weir_error error = WEIR_OK;
  size_t borrowed = print_methods(text, sizeof text, more);
  assert_true(borrowed < sizeof text);
  if (origin == FROM_FILE) {
    char path[256];
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    const char *folder = getenv("TEST_TMPDIR");
    snprintf(path, sizeof path, "%s/methods.json", folder != NULL ? folder : "/tmp");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, borrowed, file), borrowed);
    assert_int_equal(fclose(file), 0);
    error = weir_policy_from_file(path, NULL, &allocator, &policy, &diagnostic);
    (void)remove(path);
    borrowed = 0;
  } else {
    error = weir_policy_from_json(text, borrowed, NULL, &allocator, &policy, &diagnostic);
  }
  if (error != WEIR_OK || measuring.most_bytes + borrowed > MOST_BYTES) {
    fail_msg("%s: %zu bytes, %s", more, measuring.most_bytes + borrowed,
             error != WEIR_OK ? diagnostic.message : "too many");
  }
  assert_ptr_not_equal(weir_policy_method(policy, "/load.Service99/Method9999", 26),
                       weir_policy_method(policy, "/load.Service99/Other", 21));
  weir_policy_unref(policy);
  assert_int_equal(measuring.n_bytes, 0);
}

static void ten_thousand_methods_load_in_sixteen_mebibytes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    load_ten_thousand(shapes[i], i % 2 == 0 ? FROM_TEXT : FROM_FILE);
  }
}

/* An object of a hundred thousand unknown keys, and one of as many equal ones: told of in time, and
 * all. */
static void documents_of_nothing_but_faults_are_read_to_their_end(void **state) {
  (void)state;
  enum { N = 100000, KEY_BYTES = 12 };
  static char text[N * KEY_BYTES + 2];
  struct loaded loaded;
  size_t n = 0;
  for (int i = 0; i < N; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%c\"k%d\":0", i == 0 ? '{' : ',', i);
  }
  text[n++] = '}';
  loaded_from_bytes(&loaded, text, n, LOAD_STRICT);
  assert_int_equal(loaded.n_refused, N);
  loaded_fini(&loaded);
  n = 0;
  for (int i = 0; i < N; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%c\"k\":0", i == 0 ? '{' : ',');
  }
  text[n++] = '}';
  loaded_from_bytes(&loaded, text, n, LOAD_LENIENT);
  assert_int_equal(loaded.n_refused, N - 1);
  loaded_fini(&loaded);
}

/* Each entry has a problem inside, told first, and some of the object around it. All of them stand on
 * one line, or one a line. */
static void places_of_many_problems_are_found_in_time(void **state) {
  (void)state;
  enum { N = 10000, ENTRY_BYTES = 64 };
  static char text[N * ENTRY_BYTES + 32];
  for (int mode = 0; mode < 2; mode++) {
    const char *end = mode == 0 ? " " : "\n";
    struct loaded loaded;
    size_t n = (size_t)snprintf(text, sizeof text, "{\"methodConfig\":[%s", end);
    for (int i = 0; i < N; i++) {
      n +=
          (size_t)snprintf(text + n, sizeof text - n, "%s{\"retryPolicy\":{\"maxAttempts\":%s0}}%s",
                           i > 0 ? "," : "", end, end);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "]}");
    loaded_from_bytes(&loaded, text, n, LOAD_STRICT);
    assert_int_equal(loaded.n_refused, 5 * N);
    assert_int_equal(loaded.n_warnings, N);
    assert_string_equal(loaded.told[6].problem.path, "methodConfig[1].retryPolicy.maxAttempts");
    assert_int_equal(loaded.told[6].problem.line, mode == 0 ? 1 : 5);
    assert_string_equal(loaded.told[11].problem.path, "methodConfig[1]");
    assert_int_equal(loaded.told[11].problem.line, mode == 0 ? 1 : 4);
    assert_int_equal(loaded.told[11].problem.column, mode == 0 ? 55 : 2);
    loaded_fini(&loaded);
  }
}

/* What an entry leaves out is the channel's, not built in. */
static void a_methods_fallback_is_laid_over_the_channels(void **state) {
  (void)state;
  struct loaded loaded;
  loaded_from_text(&loaded,
                   "{\"methodConfig\":["
                   "{\"name\":[{\"service\":\"a.B\"},{\"service\":\"a.C\"}],"
                   "\"fallback\":{\"onRefusal\":false}},"
                   "{\"name\":[{\"service\":\"a.B\",\"method\":\"M\"}],\"timeout\":\"1s\"},"
                   "{\"name\":[{\"service\":\"a.D\"}],\"fallback\":{}}],"
                   "\"fallback\":{\"onFailure\":true,\"timeout\":\"0.5s\"}}",
                   LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  const struct weir_fallback_options *own = loaded_method(&loaded, "/a.B/Other")->fallback;
  assert_false(own->on_refusal);
  assert_true(own->on_failure);
  assert_int_equal(own->timeout_ns, SECONDS / 2);
  assert_int_equal(own->max_concurrent, 32);
  assert_ptr_equal(loaded_method(&loaded, "/a.C/M")->fallback, own);
  assert_true(loaded_method(&loaded, "/a.B/M")->fallback->on_refusal);
  assert_true(loaded_method(&loaded, "/a.D/M")->fallback->on_refusal);
  assert_true(loaded_method(&loaded, "/x.Y/M")->fallback->on_failure);
  loaded_fini(&loaded);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_methods_fallback_is_laid_over_the_channels),
      cmocka_unit_test(attempts_are_integers_above_one_and_at_most_five),
      cmocka_unit_test(multipliers_are_finite_and_above_zero),
      cmocka_unit_test(codes_are_names_in_any_case_or_numbers),
      cmocka_unit_test(wrong_codes_are_told_with_their_index),
      cmocka_unit_test(wrong_durations_are_told_with_what_was_meant),
      cmocka_unit_test(a_maximum_below_the_first_backoff_is_no_error),
      cmocka_unit_test(token_ratios_are_cut_after_the_third_decimal),
      cmocka_unit_test(throttles_that_a6_forbids_are_refused),
      cmocka_unit_test(what_is_wrong_is_told_where_it_is),
      cmocka_unit_test(what_is_right_is_accepted_without_a_word),
      cmocka_unit_test(at_most_64_types_of_255_bytes_are_kept),
      cmocka_unit_test(trace_identifiers_pass_unless_told_otherwise),
      cmocka_unit_test(an_open_time_above_the_default_ceiling_lifts_it),
      cmocka_unit_test(warnings_do_not_refuse),
      cmocka_unit_test(repeated_keys_are_told_with_path_line_and_column),
      cmocka_unit_test(a_lenient_load_forgives_unknown_keys_and_nothing_else),
      cmocka_unit_test(every_wrong_key_of_a_layer_is_told),
      cmocka_unit_test(long_keys_and_values_are_cut_at_whole_characters),
      cmocka_unit_test(a_value_is_cut_before_the_character_that_does_not_fit),
      cmocka_unit_test(a_text_that_was_cut_ends_before_its_last_character),
      cmocka_unit_test(wrong_names_are_told_without_a_hint_behind_many_problems),
      cmocka_unit_test(the_same_document_is_told_of_the_same_way_each_time),
      cmocka_unit_test(a_load_needs_neither_options_nor_diagnostic),
      cmocka_unit_test(options_without_a_size_are_refused_by_every_load),
      cmocka_unit_test(running_out_of_memory_is_survived_at_every_allocation),
      cmocka_unit_test(ten_thousand_methods_load_in_sixteen_mebibytes),
      cmocka_unit_test(documents_of_nothing_but_faults_are_read_to_their_end),
      cmocka_unit_test(places_of_many_problems_are_found_in_time),
  };
  return cmocka_run_group_tests_name("document", tests, NULL, NULL);
}
