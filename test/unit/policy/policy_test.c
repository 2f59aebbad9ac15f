/* A policy made from options structs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/status.h>
#include <weir/policy.h>

#include "src/policy/policy.h"
#include "test/support/counting_allocator.h"

#define SECONDS WEIR_SECOND_NS
#define MS WEIR_MS_NS

struct fixture {
  struct counting_allocator allocator;
  struct weir_diagnostic diagnostic;
  struct weir_policy_options options;
  struct weir_deadline_options deadline;
  struct weir_translation_options translation;
  struct weir_translation_options own; /* for a method */
  struct weir_breaker_options breaker;
  struct weir_retry_options retry;
  struct weir_fallback_options fallback;
  struct weir_fallback_options own_fallback; /* for a method */
  struct weir_method_options methods[4];
  weir_policy *policy;
};

static int setup(void **state) {
  static struct fixture fixture;
  memset(&fixture, 0, sizeof fixture);
  counting_allocator_init(&fixture.allocator);
  fixture.options = (struct weir_policy_options)WEIR_POLICY_OPTIONS_INIT;
  fixture.deadline = (struct weir_deadline_options)WEIR_DEADLINE_OPTIONS_INIT;
  fixture.translation = (struct weir_translation_options)WEIR_TRANSLATION_OPTIONS_INIT;
  fixture.own = fixture.translation;
  fixture.breaker = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
  fixture.retry = (struct weir_retry_options)WEIR_RETRY_OPTIONS_INIT;
  fixture.fallback = (struct weir_fallback_options)WEIR_FALLBACK_OPTIONS_INIT;
  fixture.own_fallback = fixture.fallback;
  for (size_t i = 0; i < 4; i++) {
    fixture.methods[i] = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
  }
  fixture.options.deadline = &fixture.deadline;
  fixture.options.translation = &fixture.translation;
  fixture.options.breaker = &fixture.breaker;
  fixture.options.retry = &fixture.retry;
  fixture.options.fallback = &fixture.fallback;
  fixture.options.methods = fixture.methods;
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir_policy_unref(f->policy);
  return f->allocator.n_outstanding == 0 ? 0 : -1;
}

static enum weir_error make(struct fixture *f) {
  weir_policy_unref(f->policy);
  return weir_policy_new(&f->options, &f->allocator.base, &f->policy, &f->diagnostic);
}

static const struct weir_method_policy *method(const struct fixture *f, const char *path) {
  return weir_policy_method(f->policy, path, strlen(path));
}

static void assert_built_in(const struct weir_method_policy *policy) {
  assert_int_equal(policy->timeout_ns, WEIR_NO_LIMIT_NS);
  assert_int_equal(policy->wait_for_ready, WEIR_WAIT_FOR_READY_UNSET);
  assert_int_equal(policy->max_request_bytes, WEIR_NO_LIMIT_BYTES);
  assert_int_equal(policy->max_response_bytes, WEIR_NO_LIMIT_BYTES);
  assert_int_equal(policy->retry.max_attempts, 1);
  assert_int_equal(policy->deadline->default_timeout_ns, 10 * SECONDS);
  assert_int_equal(policy->deadline->max_timeout_ns, 60 * SECONDS);
  assert_true(policy->deadline->inherits_parent);
  assert_true(policy->translation->boundary);
  assert_int_equal(policy->retry_options->owner, WEIR_RETRY_OWNER_OUTERMOST);
  assert_true(policy->fallback->on_refusal);
  assert_false(policy->fallback->on_failure);
  assert_int_equal(policy->fallback->timeout_ns, 100 * MS);
  assert_int_equal(policy->fallback->max_concurrent, 32);
}

static void an_empty_policy_is_the_built_in_defaults(void **state) {
  struct fixture *f = *state;
  const struct weir_policy_options bare = WEIR_POLICY_OPTIONS_INIT;
  uint32_t max_tokens = 1;
  uint32_t ratio_milli = 1;
  assert_int_equal(weir_policy_new(&bare, &f->allocator.base, &f->policy, NULL), WEIR_OK);
  assert_built_in(method(f, "/a.B/C"));
  assert_string_equal(weir__policy_name(f->policy), "weir");
  assert_true(weir__policy_breaker(f->policy)->enabled);
  assert_false(weir__policy_throttle(f->policy, &max_tokens, &ratio_milli));
  assert_int_equal(max_tokens, 0);
  assert_int_equal(ratio_milli, 0);
  assert_null(weir__policy_core_service_config(f->policy));
}

static void the_default_policy_outlives_all_shares(void **state) {
  (void)state;
  weir_policy *policy = weir__policy_default();
  weir_policy_unref(weir_policy_ref(policy));
  weir_policy_unref(policy);
  weir_policy_unref(policy);
  assert_ptr_equal(weir__policy_default(), policy);
  assert_built_in(weir_policy_method(policy, "/a.B/C", 6));
  assert_string_equal(weir__policy_name(policy), "weir");
  assert_true(weir__policy_breaker(policy)->enabled);
  assert_null(weir__policy_core_service_config(policy));
}

static void a_policy_keeps_nothing_of_what_it_was_made_from(void **state) {
  struct fixture *f = *state;
  char name[] = "edge";
  char config[] = "{\"x\":1}";
  char service[] = "a.B";
  char key[] = "x-a";
  char own_key[] = "x-own";
  char type[] = "a.Why";
  const char *keys[] = {key};
  const char *own_keys[] = {own_key};
  const char *types[] = {type};
  f->options.name = name;
  f->options.core_service_config = config;
  f->translation.keep_metadata = keys;
  f->translation.n_keep_metadata = 1;
  f->own.keep_metadata = own_keys;
  f->own.n_keep_metadata = 1;
  f->own.keep_details = types;
  f->own.n_keep_details = 1;
  f->methods[0].translation = &f->own;
  f->methods[0].service = service;
  f->methods[0].timeout_ns = 5;
  f->options.n_methods = 1;
  assert_int_equal(make(f), WEIR_OK);
  memset(name, 'z', 4);
  memset(config, 'z', 7);
  memset(service, 'z', 3);
  memset(key, 'z', 3);
  memset(own_key, 'z', 5);
  memset(type, 'z', 5);
  keys[0] = own_keys[0] = types[0] = NULL;
  f->own.max_message_bytes = 0;
  f->deadline.max_timeout_ns = 1;
  assert_string_equal(weir__policy_name(f->policy), "edge");
  assert_string_equal(weir__policy_core_service_config(f->policy), "{\"x\":1}");
  assert_int_equal(method(f, "/a.B/C")->timeout_ns, 5);
  assert_string_equal(method(f, "/x.Y/Z")->translation->keep_metadata[0], "x-a");
  assert_string_equal(method(f, "/a.B/C")->translation->keep_metadata[0], "x-own");
  assert_string_equal(method(f, "/a.B/C")->translation->keep_details[0], "a.Why");
  assert_int_equal(method(f, "/a.B/C")->translation->max_message_bytes, 1024);
  assert_int_equal(method(f, "/a.B/C")->deadline->max_timeout_ns, 60 * SECONDS);
}

static void the_most_specific_entry_is_used_whole(void **state) {
  struct fixture *f = *state;
  f->methods[0].timeout_ns = 1;
  f->methods[1].service = "shop.Cart";
  f->methods[1].timeout_ns = 2;
  f->methods[2].service = "shop.Cart";
  f->methods[2].method = "Pay";
  f->methods[2].wait_for_ready = WEIR_WAIT_FOR_READY_TRUE;
  f->methods[3].service = "shop.Stock";
  f->methods[3].method = "List";
  f->methods[3].timeout_ns = 4;
  f->options.n_methods = 4;
  assert_int_equal(make(f), WEIR_OK);
  static const struct {
    const char *path;
    int64_t timeout_ns;
  } rows[] = {
      {"/shop.Cart/Pay", WEIR_NO_LIMIT_NS},
      {"/shop.Cart/Add", 2},
      {"/shop.Cart/", 2},
      {"/shop.CartX/Pay", 1},
      {"/shop.Car/Pay", 1},
      {"/shop.Cart/PayX", 2},
      {"/shop.Cart/Pa", 2},
      {"/shop.Stock/List", 4},
      {"/shop.Stock/Else", 1},
      {"/SHOP.CART/Pay", 1},
      {"/other.S/M", 1},
      {"", 1},
      {"/", 1},
      {"//", 1},
      {"/shop.Cart", 1},
      {"shop.Cart/Pay", 1},
      {"/x/shop.Cart/Pay", 1},
      {"/shop.Cart/Pay?a=1", 2},
      {"/shop.Cart/Pay/", 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (method(f, rows[i].path)->timeout_ns != rows[i].timeout_ns) {
      fail_msg("%s: %lld", rows[i].path, (long long)method(f, rows[i].path)->timeout_ns);
    }
  }
  assert_int_equal(method(f, "/shop.Cart/Pay")->wait_for_ready, WEIR_WAIT_FOR_READY_TRUE);
}

static void a_methods_translation_is_taken_whole(void **state) {
  struct fixture *f = *state;
  static const char *const keys[] = {"x-a"};
  f->translation.codes[GRPC_STATUS_ABORTED] = GRPC_STATUS_UNAVAILABLE;
  f->translation.keep_metadata = keys;
  f->translation.n_keep_metadata = 1;
  f->translation.boundary = false;
  f->own.codes[GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_UNKNOWN;
  f->methods[0].service = "a.B";
  f->methods[0].translation = &f->own;
  f->methods[1].service = "a.B";
  f->methods[1].method = "Bare";
  f->methods[2].service = "a.C";
  f->methods[2].translation = &f->translation;
  f->options.n_methods = 3;
  assert_int_equal(make(f), WEIR_OK);
  const struct weir_translation_options *own = method(f, "/a.B/C")->translation;
  const struct weir_translation_options *channels = method(f, "/x.Y/Z")->translation;
  assert_int_equal(own->codes[GRPC_STATUS_NOT_FOUND], GRPC_STATUS_UNKNOWN);
  assert_int_equal(own->codes[GRPC_STATUS_ABORTED], WEIR_TRANSLATION_DEFAULT);
  assert_int_equal(own->n_keep_metadata, 0);
  assert_true(own->boundary);
  assert_int_equal(channels->codes[GRPC_STATUS_ABORTED], GRPC_STATUS_UNAVAILABLE);
  assert_false(channels->boundary);
  assert_ptr_equal(method(f, "/a.B/Bare")->translation, channels);
  assert_ptr_equal(method(f, "/a.C/M")->translation, channels);
}

/* In any order of the entries, with the one without a name among them. */
static void translations_are_told_apart_by_where_the_program_has_them(void **state) {
  struct fixture *f = *state;
  static const char *const services[] = {"a.A", "", "a.B", "a.C"};
  struct weir_translation_options other = f->own;
  const struct weir_translation_options *given[] = {&f->own, &other, &other, &f->own};
  f->own.max_message_bytes = 100;
  other.max_message_bytes = 200;
  for (size_t i = 0; i < 4; i++) {
    f->methods[i].service = services[i];
    f->methods[i].translation = given[i];
  }
  f->options.n_methods = 4;
  assert_int_equal(make(f), WEIR_OK);
  assert_int_equal(method(f, "/a.A/M")->translation->max_message_bytes, 100);
  assert_int_equal(method(f, "/x.Y/M")->translation->max_message_bytes, 200);
  assert_int_equal(method(f, "/a.B/M")->translation->max_message_bytes, 200);
  assert_int_equal(method(f, "/a.C/M")->translation->max_message_bytes, 100);
  assert_ptr_equal(method(f, "/a.B/M")->translation, method(f, "/x.Y/M")->translation);
}

/* As with translations, and beside them. */
static void a_methods_rules_for_the_fallback_are_taken_whole(void **state) {
  struct fixture *f = *state;
  struct weir_fallback_options other = f->own_fallback;
  f->fallback.timeout_ns = 1 * MS;
  f->own_fallback.on_refusal = false;
  f->own_fallback.max_concurrent = WEIR_MAX_FALLBACKS;
  other.timeout_ns = 2 * MS;
  f->methods[0].service = "a.A";
  f->methods[0].fallback = &f->own_fallback;
  f->methods[0].translation = &f->own;
  f->methods[1].fallback = &other; /* of all that has no entry */
  f->methods[2].service = "a.B";
  f->methods[3].service = "a.C";
  f->methods[3].fallback = &f->fallback;
  f->options.n_methods = 4;
  assert_int_equal(make(f), WEIR_OK);
  const struct weir_fallback_options *own = method(f, "/a.A/M")->fallback;
  assert_false(own->on_refusal);
  assert_int_equal(own->max_concurrent, 1024);
  assert_int_equal(own->timeout_ns, 100 * MS);
  assert_int_equal(method(f, "/x.Y/M")->fallback->timeout_ns, 2 * MS);
  assert_int_equal(method(f, "/a.B/M")->fallback->timeout_ns, 1 * MS);
  assert_ptr_equal(method(f, "/a.B/M")->fallback, method(f, "/a.C/M")->fallback);
}

static void trace_identifiers_pass_if_the_options_say_so(void **state) {
  struct fixture *f = *state;
  assert_int_equal(make(f), WEIR_OK);
  assert_true(weir__policy_passes_trace(f->policy));
  assert_true(weir__policy_passes_trace(weir__policy_default()));
  f->options.pass_trace = false;
  assert_int_equal(make(f), WEIR_OK);
  assert_false(weir__policy_passes_trace(f->policy));
  f->options.size = offsetof(struct weir_policy_options, pass_trace);
  assert_int_equal(make(f), WEIR_OK);
  assert_true(weir__policy_passes_trace(f->policy));
}

static void paths_need_not_be_terminated(void **state) {
  struct fixture *f = *state;
  f->methods[0].service = "a.B";
  f->methods[0].method = "C";
  f->methods[0].timeout_ns = 3;
  f->options.n_methods = 1;
  assert_int_equal(make(f), WEIR_OK);
  assert_int_equal(weir_policy_method(f->policy, "/a.B/Call", 6)->timeout_ns, 3);
  assert_int_equal(weir_policy_method(f->policy, "/a.B/Call", 9)->timeout_ns, WEIR_NO_LIMIT_NS);
}

static void two_entries_of_one_name_are_refused(void **state) {
  struct fixture *f = *state;
  f->options.n_methods = 2;
  assert_int_equal(make(f), WEIR_ERROR_INVALID_ARGUMENT);
  assert_string_equal(f->diagnostic.path, "methods[1]");
  f->methods[0].service = f->methods[1].service = "a.B";
  assert_int_equal(make(f), WEIR_ERROR_INVALID_ARGUMENT);
  f->methods[0].method = f->methods[1].method = "C";
  assert_int_equal(make(f), WEIR_ERROR_INVALID_ARGUMENT);
  f->methods[1].method = "D";
  assert_int_equal(make(f), WEIR_OK);
}

/* A value that one field of the fixture must not have; `path` is what the diagnostic then names. */
struct breakage {
  const char *path;
  size_t offset;
  size_t size;
  const void *value;
};

#define BROKEN(path, field, type, value)                                 \
  {                                                                      \
    path, offsetof(struct fixture, field), sizeof(type), &(const type) { \
      value                                                              \
    }                                                                    \
  }

static const struct breakage breakages[] = {
    BROKEN("name", options.name, char *, ""),
    BROKEN("name", options.name, char *, NULL),
    BROKEN("name", options.name, char *, "a b"),
    BROKEN("retryThrottling.maxTokens", options.throttle_max_tokens, uint32_t, 1001),
    BROKEN("retryThrottling.tokenRatio", options.throttle_max_tokens, uint32_t, 0),
    BROKEN("retryThrottling.tokenRatio", options.throttle_token_ratio_milli, uint32_t, 0),
    BROKEN("methods", options.methods, void *, NULL),
    BROKEN("methods", options.n_methods, size_t, 16777217),
    BROKEN("deadline.defaultTimeout", deadline.default_timeout_ns, int64_t, 0),
    BROKEN("deadline.maxTimeout", deadline.max_timeout_ns, int64_t, -1),
    BROKEN("deadline.defaultStreamTimeout", deadline.default_stream_timeout_ns, int64_t, 0),
    BROKEN("deadline.maxStreamTimeout", deadline.max_stream_timeout_ns, int64_t, 0),
    BROKEN("deadline.deadlineMargin", deadline.margin_ns, int64_t, -1),
    BROKEN("deadline.deadlineSlack", deadline.slack_ns, int64_t, -1),
    BROKEN("translation.codes[5]", translation.codes[5], int8_t, 0),
    BROKEN("translation.codes[0]", translation.codes[0], int8_t, 13),
    BROKEN("translation.deadlineExceededAs", translation.deadline_exceeded_as, int8_t, 0),
    BROKEN("translation.maxMessageBytes", translation.max_message_bytes, uint32_t, 63),
    BROKEN("translation.keepDetails[0]", translation.n_keep_details, size_t, 1),
    BROKEN("translation.keepDetails", translation.n_keep_details, size_t, 65),
    BROKEN("breaker.failureRatio", breaker.failure_ratio, double, NAN),
    BROKEN("breaker.mode", breaker.mode, enum weir_breaker_mode, (enum weir_breaker_mode)9),
    BROKEN("breaker.rampFor", breaker.ramp_for_ns, int64_t, -1),
    BROKEN("retry.owner", retry.owner, enum weir_retry_owner, (enum weir_retry_owner)9),
    BROKEN("retry.minAttemptTime", retry.min_attempt_time_ns, int64_t, -1),
    BROKEN("fallback.timeout", fallback.timeout_ns, int64_t, 0),
    BROKEN("fallback.maxConcurrent", fallback.max_concurrent, uint32_t, 0),
    BROKEN("fallback.maxConcurrent", fallback.max_concurrent, uint32_t, 1025),
    BROKEN("fallback", fallback.size, size_t, 7),
    BROKEN("methods[0].fallback.timeout", own_fallback.timeout_ns, int64_t, -1),
    BROKEN("methods[0].fallback.maxConcurrent", own_fallback.max_concurrent, uint32_t, 1025),
    BROKEN("methods[0].fallback", own_fallback.size, size_t, 7),
    BROKEN("methods[0].service", methods[0].service, char *, NULL),
    BROKEN("methods[0].service", methods[0].service, char *, "/a.B"),
    BROKEN("methods[0].method", methods[0].method, char *, NULL),
    BROKEN("methods[0].method", methods[0].method, char *, "C/D"),
    BROKEN("methods[0].method", methods[0].service, char *, ""),
    BROKEN("methods[0].timeout", methods[0].timeout_ns, int64_t, -1),
    BROKEN("methods[0].perAttemptTimeout", methods[0].per_attempt_timeout_ns, int64_t, 0),
    BROKEN("methods[0].translation.codes[5]", own.codes[5], int8_t, 0),
    BROKEN("methods[0].translation.codes[0]", own.codes[0], int8_t, 0),
    BROKEN("methods[0].translation.codes[16]", own.codes[16], int8_t, 17),
    BROKEN("methods[0].translation.deadlineExceededAs", own.deadline_exceeded_as, int8_t, 0),
    BROKEN("methods[0].translation.keepMetadata[0]", own.n_keep_metadata, size_t, 1),
    BROKEN("methods[0].translation.keepDetails[0]", own.n_keep_details, size_t, 1),
    BROKEN("methods[0].translation.maxMessageBytes", own.max_message_bytes, uint32_t, 8193),
    BROKEN("methods[0].translation", own.size, size_t, 7),
    BROKEN("methods[0].waitForReady", methods[0].wait_for_ready, enum weir_wait_for_ready,
           (enum weir_wait_for_ready)9),
    BROKEN("methods[0].retryPolicy.maxAttempts", methods[0].retry.max_attempts, uint32_t, 0),
    BROKEN("methods[0].retryPolicy.maxAttempts", methods[0].retry.max_attempts, uint32_t, 6),
    BROKEN("methods[0].retryPolicy.retryableStatusCodes", methods[0].retry.retryable_codes,
           uint32_t, 0),
    BROKEN("methods[0].retryPolicy.retryableStatusCodes", methods[0].retry.retryable_codes,
           uint32_t, 0x4001),
    BROKEN("methods[0].retryPolicy.retryableStatusCodes", methods[0].retry.retryable_codes,
           uint32_t, 0x20000),
    BROKEN("methods[0].retryPolicy.initialBackoff", methods[0].retry.initial_backoff_ns, int64_t,
           0),
    BROKEN("methods[0].retryPolicy.maxBackoff", methods[0].retry.max_backoff_ns, int64_t, 0),
    BROKEN("methods[0].retryPolicy.backoffMultiplier", methods[0].retry.backoff_multiplier, double,
           0),
    BROKEN("methods[0].retryPolicy.backoffMultiplier", methods[0].retry.backoff_multiplier, double,
           INFINITY),
};

static void a_value_out_of_range_is_refused_and_named(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof breakages / sizeof breakages[0]; i++) {
    assert_int_equal(setup(state), 0);
    f->options.throttle_max_tokens = 10;
    f->options.throttle_token_ratio_milli = 100;
    f->options.n_methods = 1;
    f->methods[0].service = "a.B";
    f->methods[0].method = "C";
    f->methods[0].translation = &f->own;
    f->methods[0].fallback = &f->own_fallback;
    f->methods[0].retry =
        (struct weir_retry_policy){.max_attempts = 2,
                                   .retryable_codes = 1u << GRPC_STATUS_UNAVAILABLE,
                                   .initial_backoff_ns = 1,
                                   .max_backoff_ns = 1,
                                   .backoff_multiplier = 1};
    assert_int_equal(make(f), WEIR_OK);
    memcpy((char *)f + breakages[i].offset, breakages[i].value, breakages[i].size);
    const enum weir_error error = make(f);
    if (error != WEIR_ERROR_INVALID_ARGUMENT ||
        strcmp(f->diagnostic.path, breakages[i].path) != 0) {
      fail_msg("%zu: %s, [%s] instead of [%s]", i, weir_error_name(error), f->diagnostic.path,
               breakages[i].path);
    }
    assert_null(f->policy);
    assert_int_equal(weir_policy_new(&f->options, &f->allocator.base, &f->policy, NULL),
                     WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(f->allocator.n_outstanding, 0);
  }
}

static void a_ratio_beyond_the_bucket_fills_it(void **state) {
  struct fixture *f = *state;
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  f->options.throttle_max_tokens = 10;
  f->options.throttle_token_ratio_milli = UINT32_MAX;
  assert_int_equal(make(f), WEIR_OK);
  assert_true(weir__policy_throttle(f->policy, &max_tokens, &ratio_milli));
  assert_int_equal(max_tokens, 10);
  assert_int_equal(ratio_milli, 10000);
}

/* A program compiled with a later header, whose method options have one field more. */
struct later_method_options {
  struct weir_method_options known;
  uint64_t later;
};

static void a_later_programs_array_is_walked_by_its_own_element_size(void **state) {
  struct fixture *f = *state;
  struct later_method_options later[3];
  memset(later, 0, sizeof later);
  for (size_t i = 0; i < 3; i++) {
    static const char *const services[] = {"a.A", "b.B", "c.C"};
    later[i].known = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
    later[i].known.size = sizeof later[i];
    later[i].known.service = services[i];
    later[i].known.timeout_ns = (int64_t)i + 1;
  }
  f->options.methods = &later[0].known;
  f->options.n_methods = 3;
  assert_int_equal(make(f), WEIR_OK);
  assert_int_equal(method(f, "/c.C/M")->timeout_ns, 3);
  later[1].later = 1;
  assert_int_equal(make(f), WEIR_ERROR_UNSUPPORTED);
  assert_string_equal(f->diagnostic.path, "methods[1]");
}

static void an_earlier_programs_struct_leaves_the_rest_at_its_default(void **state) {
  struct fixture *f = *state;
  f->deadline.size = offsetof(struct weir_deadline_options, margin_ns);
  f->deadline.max_timeout_ns = 7 * SECONDS;
  f->deadline.slack_ns = 99 * SECONDS;
  assert_int_equal(make(f), WEIR_OK);
  assert_int_equal(method(f, "/a.B/C")->deadline->max_timeout_ns, 7 * SECONDS);
  assert_int_equal(method(f, "/a.B/C")->deadline->slack_ns, 10 * MS);
}

static void an_earlier_programs_translation_leaves_the_rest_built_in(void **state) {
  struct fixture *f = *state;
  f->own.size = offsetof(struct weir_translation_options, keep_details);
  f->own.message_ref = false;
  f->own.max_message_bytes = 0;
  f->own.n_keep_details = 7;
  f->methods[0].translation = &f->own;
  f->options.n_methods = 1;
  assert_int_equal(make(f), WEIR_OK);
  assert_false(method(f, "/a.B/C")->translation->message_ref);
  assert_int_equal(method(f, "/a.B/C")->translation->max_message_bytes, 1024);
  assert_int_equal(method(f, "/a.B/C")->translation->n_keep_details, 0);
}

/* Method options as they were before they had a translation. */
static void an_earlier_programs_methods_have_the_channels_translation(void **state) {
  struct fixture *f = *state;
  enum { EARLIER = offsetof(struct weir_method_options, translation) };
  static const char *const services[] = {"a.A", "a.B"};
  int64_t earlier[2 * EARLIER / sizeof(int64_t)];
  for (size_t i = 0; i < 2; i++) {
    struct weir_method_options options = WEIR_METHOD_OPTIONS_INIT;
    options.size = EARLIER;
    options.service = services[i];
    options.timeout_ns = (int64_t)i + 1;
    memcpy((char *)earlier + i * EARLIER, &options, EARLIER);
  }
  void *methods = earlier;
  f->options.methods = methods;
  f->options.n_methods = 2;
  assert_int_equal(make(f), WEIR_OK);
  assert_int_equal(method(f, "/a.B/M")->timeout_ns, 2);
  assert_ptr_equal(method(f, "/a.B/M")->translation, method(f, "/x.Y/Z")->translation);
}

static void a_later_programs_translation_is_refused_where_it_asks_for_more(void **state) {
  struct fixture *f = *state;
  struct {
    struct weir_translation_options known;
    uint64_t later;
  } later = {.known = f->own, .later = 0};
  later.known.size = sizeof later;
  f->methods[0].translation = &later.known;
  f->options.n_methods = 1;
  assert_int_equal(make(f), WEIR_OK);
  later.later = 1;
  assert_int_equal(make(f), WEIR_ERROR_UNSUPPORTED);
  assert_string_equal(f->diagnostic.path, "methods[0].translation");
}

static void a_policy_lives_until_its_last_share(void **state) {
  struct fixture *f = *state;
  assert_int_equal(make(f), WEIR_OK);
  weir_policy *other = weir_policy_ref(f->policy);
  assert_ptr_equal(other, f->policy);
  weir_policy_unref(f->policy);
  f->policy = NULL;
  assert_int_equal(f->allocator.n_outstanding, 1);
  weir_policy_unref(other);
  assert_int_equal(f->allocator.n_outstanding, 0);
  weir_policy_unref(NULL);
}

static void running_out_of_memory_leaves_nothing(void **state) {
  struct fixture *f = *state;
  f->allocator.n_allowed = 0;
  assert_int_equal(make(f), WEIR_ERROR_NO_MEMORY);
  assert_null(f->policy);
  f->allocator.n_allowed = 1; /* one block is all it takes */
  assert_int_equal(make(f), WEIR_OK);
}

static void each_of_ten_thousand_methods_finds_its_own(void **state) {
  struct fixture *f = *state;
  enum { N = 10000, NAME_BYTES = 24 };
  static char names[N][NAME_BYTES];
  struct weir_method_options *methods = calloc(N, sizeof *methods);
  assert_non_null(methods);
  for (int i = 0; i < N; i++) {
    snprintf(names[i], NAME_BYTES, "Method%d", i);
    methods[i] = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
    methods[i].service = "load.Service";
    methods[i].method = names[i];
    methods[i].timeout_ns = i;
  }
  f->options.methods = methods;
  f->options.n_methods = N;
  assert_int_equal(make(f), WEIR_OK);
  for (int i = 0; i < N; i++) {
    char path[64];
    snprintf(path, sizeof path, "/load.Service/Method%d", i);
    assert_int_equal(method(f, path)->timeout_ns, i);
  }
  assert_int_equal(method(f, "/load.Service/Method10000")->timeout_ns, WEIR_NO_LIMIT_NS);
  free(methods);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_empty_policy_is_the_built_in_defaults, setup, teardown),
      cmocka_unit_test(the_default_policy_outlives_all_shares),
      cmocka_unit_test_setup_teardown(a_policy_keeps_nothing_of_what_it_was_made_from, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(the_most_specific_entry_is_used_whole, setup, teardown),
      cmocka_unit_test_setup_teardown(a_methods_translation_is_taken_whole, setup, teardown),
      cmocka_unit_test_setup_teardown(translations_are_told_apart_by_where_the_program_has_them,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(a_methods_rules_for_the_fallback_are_taken_whole, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(trace_identifiers_pass_if_the_options_say_so, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(an_earlier_programs_translation_leaves_the_rest_built_in,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(an_earlier_programs_methods_have_the_channels_translation,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(
          a_later_programs_translation_is_refused_where_it_asks_for_more, setup, teardown),
      cmocka_unit_test_setup_teardown(paths_need_not_be_terminated, setup, teardown),
      cmocka_unit_test_setup_teardown(two_entries_of_one_name_are_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(a_value_out_of_range_is_refused_and_named, setup, teardown),
      cmocka_unit_test_setup_teardown(a_ratio_beyond_the_bucket_fills_it, setup, teardown),
      cmocka_unit_test_setup_teardown(a_later_programs_array_is_walked_by_its_own_element_size,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(an_earlier_programs_struct_leaves_the_rest_at_its_default,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(a_policy_lives_until_its_last_share, setup, teardown),
      cmocka_unit_test_setup_teardown(running_out_of_memory_leaves_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(each_of_ten_thousand_methods_finds_its_own, setup, teardown),
  };
  return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
