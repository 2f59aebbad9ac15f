/* Options structs as a message, and back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <upb/encode.h>
#include <upb/reflection.h>
#include <weir/v1/policy.upb.h>
#include <weir/v1/policy.upbdefs.h>

#include "src/policy/document.h"
#include "src/policy/policy_message.h"
#include "src/policy/policy_options.h"
#include "src/policy/problems.h"
#include "test/support/counting_allocator.h"

struct fixture {
  struct counting_allocator allocator;
  struct weir_policy_load_options load_options;
  struct weir__problems problems;
  struct weir__document document;
  struct weir__policy_options options;
  const upb_MessageDef *def;
  char text[8192];
};

static int setup(void **state) {
  static struct fixture f;
  memset(&f, 0, sizeof f);
  counting_allocator_init(&f.allocator);
  f.load_options = (struct weir_policy_load_options)WEIR_POLICY_LOAD_OPTIONS_INIT;
  f.problems.options = &f.load_options;
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir__document_fini(&f->document);
  assert_int_equal(f->allocator.n_outstanding, 0);
  return 0;
}

/* NULL, and nothing, stay what they are. */
static void *copy_of(upb_Arena *arena, const void *from, size_t size) {
  void *copy = from != NULL && size > 0 ? upb_Arena_Malloc(arena, size) : NULL;
  if (copy != NULL) {
    memcpy(copy, from, size);
  }
  return copy;
}

/* The document's methods are told one after the other: here they are an array. */
static void keep_methods(struct fixture *f) {
  upb_Arena *arena = f->document.arena;
  const struct weir__policy_methods *told = &f->options.methods;
  struct weir_method_options *methods =
      upb_Arena_Malloc(arena, (told->n_methods + 1) * sizeof *methods);
  assert_non_null(methods);
  for (size_t i = 0; i < told->n_methods; i++) {
    assert_int_equal(told->next(told->context, i, &methods[i]), WEIR_OK);
    methods[i].fallback = copy_of(arena, methods[i].fallback, sizeof *methods[i].fallback);
    struct weir_translation_options *own =
        copy_of(arena, methods[i].translation, sizeof *methods[i].translation);
    if (own != NULL) {
      own->keep_metadata =
          copy_of(arena, own->keep_metadata, own->n_keep_metadata * sizeof *own->keep_metadata);
      own->keep_details =
          copy_of(arena, own->keep_details, own->n_keep_details * sizeof *own->keep_details);
    }
    methods[i].translation = own;
  }
  f->options.policy.methods = methods;
  f->options.policy.n_methods = told->n_methods;
}

static void read_text(struct fixture *f, size_t size) {
  assert_int_equal(
      weir__document_init(&f->document, f->text, size, &f->allocator.base, &f->problems), WEIR_OK);
  assert_int_equal(weir__policy_options_init(&f->options, &f->document), WEIR_OK);
  keep_methods(f);
  f->def = weir_v1_Policy_getmsgdef(f->document.schema);
}

static void read_string(struct fixture *f, const char *text) {
  const int n = snprintf(f->text, sizeof f->text, "%s", text);
  read_text(f, (size_t)n);
}

static void read_everything(struct fixture *f) {
  FILE *file = fopen("test/unit/policy/testdata/everything.json", "rb");
  assert_non_null(file);
  const size_t size = fread(f->text, 1, sizeof f->text, file);
  (void)fclose(file);
  read_text(f, size);
}

/* What no options struct has. */
static void clear_the_rest(weir_v1_Policy *policy) {
  size_t n = 0;
  weir_v1_MethodConfig **configs = weir_v1_Policy_mutable_method_config(policy, &n);
  weir_v1_Policy_clear_enforce(policy);
  weir_v1_Policy_clear_load_balancing_policy(policy);
  for (size_t i = 0; i < n; i++) {
    weir_v1_MethodConfig_clear_idempotent(configs[i]);
  }
}

static void assert_same(struct fixture *f, const weir_v1_Policy *a, const weir_v1_Policy *b) {
  size_t a_size = 0;
  size_t b_size = 0;
  char *a_bytes = NULL;
  char *b_bytes = NULL;
  const int options = kUpb_EncodeOption_Deterministic;
  upb_Arena *arena = f->document.arena;
  assert_int_equal(
      upb_Encode(a, upb_MessageDef_MiniTable(f->def), options, arena, &a_bytes, &a_size),
      kUpb_EncodeStatus_Ok);
  assert_int_equal(
      upb_Encode(b, upb_MessageDef_MiniTable(f->def), options, arena, &b_bytes, &b_size),
      kUpb_EncodeStatus_Ok);
  assert_int_equal(a_size, b_size);
  assert_memory_equal(a_bytes, b_bytes, a_size);
}

/* The document has every key (schema_test.c), none with its default. */
static void says_every_field_as_the_document_did(void **state) {
  struct fixture *f = *state;
  read_everything(f);
  const weir_v1_Policy *back =
      weir__policy_message_of_options(&f->options.policy, f->document.arena);
  assert_non_null(back);
  clear_the_rest(f->document.policy);
  assert_same(f, back, f->document.policy);
}

static const struct {
  const char *why;
  const char *text;
} documents[] = {
    {"nothing but defaults", "{}"},
    {"a method that has what is built in where the channel has not",
     "{\"translation\":{\"codes\":{\"NOT_FOUND\":\"INTERNAL\"},\"deadlineExceededAs\":14},"
     "\"methodConfig\":[{\"name\":[{}],\"translation\":{\"codes\":{\"DEADLINE_EXCEEDED\":4},"
     "\"keepMetadata\":[]}}]}"},
    {"limits that are none",
     "{\"deadline\":{\"maxTimeout\":\"315576000000s\"},\"breaker\":{\"maxOpenFor\":"
     "\"300000000000s\"},\"methodConfig\":[{\"name\":[{\"service\":\"a.B\"}],\"timeout\":\"0s\","
     "\"waitForReady\":false,\"maxRequestMessageBytes\":0}]}"},
    {"a breaker for each service, in shadow, and retries that are somebody else's",
     "{\"breaker\":{\"scope\":\"SERVICE\",\"mode\":\"SHADOW\"},\"retry\":{\"owner\":\"NEVER\"}}"},
    {"fractions", "{\"retryThrottling\":{\"maxTokens\":7,\"tokenRatio\":0.29},"
                  "\"deadline\":{\"deadlineSlack\":\"0.000000001s\"},"
                  "\"breaker\":{\"failureRatio\":0.1}}"},
};

static void assert_same_translation(const struct weir_translation_options *a,
                                    const struct weir_translation_options *b) {
  assert_int_equal(a->boundary, b->boundary);
  assert_int_equal(a->message_ref, b->message_ref);
  assert_memory_equal(a->codes, b->codes, sizeof a->codes);
  assert_int_equal(a->deadline_exceeded_as, b->deadline_exceeded_as);
  assert_int_equal(a->n_keep_metadata, b->n_keep_metadata);
  assert_int_equal(a->n_keep_details, b->n_keep_details);
  assert_int_equal(a->max_message_bytes, b->max_message_bytes);
}

static void assert_same_deadline(const struct weir_deadline_options *a,
                                 const struct weir_deadline_options *b) {
  assert_int_equal(a->default_timeout_ns, b->default_timeout_ns);
  assert_int_equal(a->max_timeout_ns, b->max_timeout_ns);
  assert_int_equal(a->default_stream_timeout_ns, b->default_stream_timeout_ns);
  assert_int_equal(a->max_stream_timeout_ns, b->max_stream_timeout_ns);
  assert_int_equal(a->margin_ns, b->margin_ns);
  assert_int_equal(a->slack_ns, b->slack_ns);
  assert_int_equal(a->inherits_parent, b->inherits_parent);
}

static void assert_same_method(const struct weir_method_options *a,
                               const struct weir_method_options *b) {
  assert_string_equal(a->service, b->service);
  assert_string_equal(a->method, b->method);
  assert_int_equal(a->timeout_ns, b->timeout_ns);
  assert_int_equal(a->per_attempt_timeout_ns, b->per_attempt_timeout_ns);
  assert_int_equal(a->wait_for_ready, b->wait_for_ready);
  assert_int_equal(a->max_request_bytes, b->max_request_bytes);
  assert_int_equal(a->max_response_bytes, b->max_response_bytes);
  assert_int_equal(a->retry.max_attempts, b->retry.max_attempts);
  assert_int_equal(a->translation == NULL, b->translation == NULL);
  if (a->translation != NULL && b->translation != NULL) {
    assert_same_translation(a->translation, b->translation);
  }
}

static void options_survive_the_way_there_and_back(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
    print_message("%s\n", documents[i].why);
    read_string(f, documents[i].text);
    struct weir__document back_document = {.arena = f->document.arena};
    struct weir__policy_options back;
    back_document.policy = weir__policy_message_of_options(&f->options.policy, f->document.arena);
    assert_int_equal(weir__policy_options_init(&back, &back_document), WEIR_OK);
    assert_same_deadline(&back.deadline, &f->options.deadline);
    assert_same_translation(&back.translation, &f->options.translation);
    assert_int_equal(back.breaker.max_open_for_ns, f->options.breaker.max_open_for_ns);
    assert_true(back.breaker.failure_ratio == f->options.breaker.failure_ratio);
    assert_int_equal(back.breaker.scope, f->options.breaker.scope);
    assert_int_equal(back.breaker.mode, f->options.breaker.mode);
    assert_int_equal(back.retry.owner, f->options.retry.owner);
    assert_int_equal(back.policy.throttle_max_tokens, f->options.policy.throttle_max_tokens);
    assert_int_equal(back.policy.throttle_token_ratio_milli,
                     f->options.policy.throttle_token_ratio_milli);
    assert_int_equal(back.methods.n_methods, f->options.policy.n_methods);
    for (size_t j = 0; j < back.methods.n_methods; j++) {
      struct weir_method_options method;
      assert_int_equal(back.methods.next(back.methods.context, j, &method), WEIR_OK);
      assert_same_method(&method, &f->options.policy.methods[j]);
    }
    weir__document_fini(&f->document);
    f->document = (struct weir__document){.arena = NULL};
  }
}

static void survives_a_lack_of_memory(void **state) {
  struct fixture *f = *state;
  bool failed = true;
  read_everything(f);
  for (size_t nth = 1; failed; nth++) {
    struct weir__document_memory memory;
    upb_Arena *arena = NULL;
    counting_allocator_fail_nth(&f->allocator, nth);
    arena = weir__document_arena(&memory, &f->allocator.base);
    failed = arena == NULL || weir__policy_message_of_options(&f->options.policy, arena) == NULL;
    f->allocator.fails_at = 0;
    if (arena != NULL) {
      upb_Arena_Free(arena);
    }
    assert_true(nth < 10000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(says_every_field_as_the_document_did, setup, teardown),
      cmocka_unit_test_setup_teardown(options_survive_the_way_there_and_back, setup, teardown),
      cmocka_unit_test_setup_teardown(survives_a_lack_of_memory, setup, teardown),
  };
  return cmocka_run_group_tests_name("policy_message", tests, NULL, NULL);
}
