/* A policy put in force on channels of each kind, by the public functions alone, and what an
 * organisation's document says to it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/test_server.h"

#define ABORTED_CODE "\"translation\":{\"codes\":{\"UNAVAILABLE\":\"ABORTED\"}}"
#define DATA_LOSS_CODE "\"translation\":{\"codes\":{\"UNAVAILABLE\":\"DATA_LOSS\"}}"

static weir_policy *policy_of(const char *document) {
  weir_policy *policy = NULL;
  struct weir_diagnostic diagnostic;
  if (weir_policy_from_json(document, strlen(document), NULL, NULL, &policy, &diagnostic) !=
      WEIR_OK) {
    fail_msg("%s: %s", diagnostic.path, diagnostic.message);
  }
  return policy;
}

static enum weir_error swap(weir_channel *channel, const char *document,
                            struct weir_diagnostic *diagnostic) {
  weir_policy *policy = policy_of(document);
  enum weir_error error = weir_channel_set_policy(channel, policy, diagnostic);
  weir_policy_unref(policy);
  return error;
}

static grpc_status_code code_of_call(weir_channel *channel) {
  struct unary unary;
  unary_run(&unary, channel, NULL);
  grpc_status_code code = unary.code;
  unary_fini(&unary);
  return code;
}

/* What the log was told of, and how often. */
struct told {
  struct weir_log_sink base;
  size_t n_refused;
  size_t n_core_kept;
  char text[512]; /* of the last of them */
};

static void note_record(void *context, const struct weir_log_record *record) {
  struct told *told = context;
  if (record->event == WEIR_LOG_POLICY_REFUSED || record->event == WEIR_LOG_CORE_CONFIG_KEPT) {
    told->n_refused += record->event == WEIR_LOG_POLICY_REFUSED;
    told->n_core_kept += record->event == WEIR_LOG_CORE_CONFIG_KEPT;
    (void)snprintf(told->text, sizeof told->text, "%s", record->text);
  }
}

static struct told *told_start(void) {
  static struct told told;
  memset(&told, 0, sizeof told);
  told.base =
      (struct weir_log_sink){.size = sizeof told.base, .write = note_record, .context = &told};
  return &told;
}

/* --- kinds of channels --- */

/* Nobody listens there. */
#define NOWHERE "unix:/nowhere/at/all"

static weir_channel *created(const struct weir_channel_options *options) {
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(NOWHERE, creds, NULL, options);
  grpc_channel_credentials_release(creds);
  return channel;
}

static weir_channel *lame(const struct weir_channel_options *options) {
  return weir_lame_client_channel_create("lame", GRPC_STATUS_UNAVAILABLE, "by hand", options);
}

static weir_channel *from_fd(const struct weir_channel_options *options) {
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create_from_fd("socket", ends[0], creds, NULL, options);
  grpc_channel_credentials_release(creds);
  assert_int_equal(close(ends[1]), 0); /* who would have answered is gone */
  if (channel == NULL) {
    assert_int_equal(close(ends[0]), 0);
  }
  return channel;
}

static weir_channel *wrapped(const struct weir_channel_options *options) {
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  grpc_channel *core = grpc_channel_create(NOWHERE, creds, NULL);
  grpc_channel_credentials_release(creds);
  weir_channel *channel = NULL;
  enum weir_error error = weir_channel_wrap(core, options, &channel);
  if (error != WEIR_OK) {
    assert_int_equal(error, WEIR_ERROR_INVALID_POLICY);
    grpc_channel_destroy(core);
  }
  return channel;
}

static const struct {
  const char *why;
  weir_channel *(*make)(const struct weir_channel_options *options);
} kinds[] = {{"created", created}, {"lame", lame}, {"from_fd", from_fd}, {"wrapped", wrapped}};

static weir_channel *channel_of(size_t kind, const char *document, struct told *told) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.policy = policy_of(document);
  options.log = &told->base;
  weir_channel *channel = kinds[kind].make(&options);
  weir_policy_unref(options.policy);
  return channel;
}

static void each_kind_of_channel_takes_another_policy(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    struct told *told = told_start();
    struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
    weir_channel *channel = channel_of(i, "{" ABORTED_CODE "}", told);
    assert_non_null(channel);
    void *handle = weir_channel_register_call(channel, METHOD, NULL, NULL);
    assert_int_equal(code_of_call(channel), GRPC_STATUS_ABORTED);
    assert_int_equal(swap(channel, "{" DATA_LOSS_CODE "}", NULL), WEIR_OK);
    if (code_of_call(channel) != GRPC_STATUS_DATA_LOSS) {
      fail_msg("%s", kinds[i].why);
    }
    struct unary unary;
    unary_run(&unary, channel, &(struct unary_setup){.registered = handle});
    assert_int_equal(unary.code, GRPC_STATUS_DATA_LOSS);
    unary_fini(&unary);
    assert_int_equal(told->n_core_kept, 0);
    assert_int_equal(
        swap(channel, "{\"loadBalancingConfig\":[{\"round_robin\":{}}]," ABORTED_CODE "}", NULL),
        WEIR_OK);
    assert_int_equal(told->n_core_kept, 1);
    assert_int_equal(code_of_call(channel), GRPC_STATUS_ABORTED);
    assert_int_equal(weir_channel_get_counters(channel, &counters), WEIR_OK);
    assert_int_equal(counters.n_policy_swaps, 2);
    weir_channel_destroy(channel);
  }
}

/* --- an organisation's document --- */

#define ORGANISATION_VARIABLE "WEIR_ORG_POLICY"

static char organisation_path[512];

/* NOLINTBEGIN(concurrency-mt-unsafe): no channel's thread reads the environment */

static int set_organisation(void **state) {
  (void)state;
  static const char document[] =
      "{\"enforce\":{\"translation\":{\"codes\":{\"UNAVAILABLE\":\"ABORTED\"}}}}";
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(organisation_path, sizeof organisation_path, "%s/organisation.json",
                 folder != NULL ? folder : ".");
  FILE *file = fopen(organisation_path, "wb");
  if (file == NULL) {
    return -1;
  }
  bool is_written = fwrite(document, 1, sizeof document - 1, file) == sizeof document - 1;
  return fclose(file) == 0 && is_written && setenv(ORGANISATION_VARIABLE, organisation_path, 1) == 0
             ? 0
             : -1;
}

static int unset_organisation(void **state) {
  (void)state;
  (void)remove(organisation_path);
  return unsetenv(ORGANISATION_VARIABLE);
}

static void a_channel_that_is_refused_is_not_made_and_the_log_says_why(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    struct told *told = told_start();
    if (channel_of(i, "{" DATA_LOSS_CODE "}", told) != NULL) {
      fail_msg("%s", kinds[i].why);
    }
    assert_int_equal(told->n_refused, 1);
    assert_non_null(strstr(told->text, "translation.codes"));
  }
}

static void what_is_enforced_holds_where_the_channel_says_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    weir_channel *channel = channel_of(i, "{}", told_start());
    assert_non_null(channel);
    assert_int_equal(code_of_call(channel), GRPC_STATUS_ABORTED);
    assert_int_equal(weir_channel_set_policy(channel, NULL, NULL), WEIR_OK);
    assert_int_equal(code_of_call(channel), GRPC_STATUS_ABORTED);
    weir_channel_destroy(channel);
  }
}

static void a_swap_that_is_refused_leaves_the_policy(void **state) {
  (void)state;
  struct told *told = told_start();
  struct weir_diagnostic diagnostic;
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  weir_channel *channel = channel_of(0, "{\"name\":\"old\"}", told);
  weir_policy *before = weir_channel_policy(channel);
  assert_int_equal(swap(channel, "{" DATA_LOSS_CODE "}", &diagnostic), WEIR_ERROR_INVALID_POLICY);
  assert_non_null(strstr(diagnostic.path, "translation"));
  assert_int_equal(swap(channel, "{" DATA_LOSS_CODE "}", NULL), WEIR_ERROR_INVALID_POLICY);
  assert_int_equal(setenv(ORGANISATION_VARIABLE, "no/such/file.json", 1), 0);
  assert_int_equal(swap(channel, "{}", &diagnostic), WEIR_ERROR_UNAVAILABLE);
  weir_policy *after = weir_channel_policy(channel);
  assert_ptr_equal(after, before);
  assert_int_equal(code_of_call(channel), GRPC_STATUS_ABORTED);
  assert_int_equal(weir_channel_get_counters(channel, &counters), WEIR_OK);
  assert_int_equal(counters.n_policy_swaps, 0);
  assert_int_equal(counters.n_policy_refusals, 3);
  assert_int_equal(told->n_refused, 0); /* the caller has been told */
  weir_policy_unref(after);
  weir_policy_unref(before);
  weir_channel_destroy(channel);
}

/* NOLINTEND(concurrency-mt-unsafe) */

#define ENFORCED(name) cmocka_unit_test_setup_teardown(name, set_organisation, unset_organisation)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_kind_of_channel_takes_another_policy),
      ENFORCED(a_channel_that_is_refused_is_not_made_and_the_log_says_why),
      ENFORCED(what_is_enforced_holds_where_the_channel_says_nothing),
      ENFORCED(a_swap_that_is_refused_leaves_the_policy),
  };
  return cmocka_run_group_tests_name("policies of channels of each kind", tests, start_core,
                                     stop_core);
}
