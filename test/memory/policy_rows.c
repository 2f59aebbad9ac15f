/* Policies. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/policy.h>

#include "test/memory/policies.h"
#include "test/memory/trial.h"

#define PATH "/shop.Cart/Pay"

static void check_rich(const weir_policy *policy) {
  const struct weir_method_policy *method = weir_policy_method(policy, PATH, strlen(PATH));
  assert_int_equal(method->timeout_ns, 2 * WEIR_SECOND_NS);
  assert_false(method->translation->boundary);
}

/* Whatever was told, there was no policy of it: none that is in part what the document says. */
static void count_problem(void *context, enum weir_policy_severity severity,
                          const struct weir_diagnostic *problem) {
  size_t *n_problems = context;
  assert_true(problem->message[0] != '\0');
  n_problems[severity]++;
}

static void make_policy(struct trial *trial) {
  static const char *const keys[] = {"x-quota", "x-shard"};
  struct weir_translation_options translation = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_method_options methods[2] = {WEIR_METHOD_OPTIONS_INIT, WEIR_METHOD_OPTIONS_INIT};
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  translation.keep_metadata = keys;
  translation.n_keep_metadata = 2;
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  methods[1].timeout_ns = WEIR_SECOND_NS;
  methods[1].translation = &translation;
  options.translation = &translation;
  options.methods = methods;
  options.n_methods = 2;
  options.core_service_config = "{}";
  weir_policy *policy = NULL;
  struct weir_diagnostic diagnostic;
  trial_begin(trial);
  enum weir_error error = weir_policy_new(&options, NULL, &policy, &diagnostic);
  trial_end(trial);
  trial_check_made(trial, error, policy);
  if (policy == NULL) {
    assert_int_equal(weir_policy_new(&options, NULL, &policy, NULL), WEIR_OK);
  }
  assert_int_equal(weir_policy_method(policy, PATH, strlen(PATH))->timeout_ns, WEIR_SECOND_NS);
  weir_policy_unref(policy);
}

static void read_policy(struct trial *trial) {
  size_t n_problems[2] = {0, 0};
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  options.on_problem = count_problem;
  options.context = n_problems;
  options.file_name = "cart.json";
  weir_policy *policy = NULL;
  trial_begin(trial);
  enum weir_error error =
      weir_policy_from_json(policy_rich, strlen(policy_rich), &options, NULL, &policy, NULL);
  trial_end(trial);
  trial_check_made(trial, error, policy);
  assert_int_equal(n_problems[WEIR_POLICY_REFUSED], 0);
  if (policy == NULL) {
    policy = policy_of(policy_rich);
  } else {
    assert_int_equal(n_problems[WEIR_POLICY_WARNING], 1);
  }
  check_rich(policy);
  weir_policy_unref(policy);
}

static void refuse_policy(struct trial *trial) {
  size_t n_problems[2] = {0, 0};
  struct weir_policy_load_options options = WEIR_POLICY_LOAD_OPTIONS_INIT;
  options.on_problem = count_problem;
  options.context = n_problems;
  weir_policy *policy = NULL;
  struct weir_diagnostic diagnostic;
  trial_begin(trial);
  enum weir_error error = weir_policy_from_json(policy_refused, strlen(policy_refused), &options,
                                                NULL, &policy, &diagnostic);
  trial_end(trial);
  assert_null(policy);
  if (error != WEIR_ERROR_NO_MEMORY) {
    assert_int_equal(error, WEIR_ERROR_INVALID_POLICY);
    assert_true(n_problems[WEIR_POLICY_REFUSED] > 0);
    assert_true(diagnostic.message[0] != '\0');
  }
  if (trial->n_refused == 0) {
    assert_int_equal(error, WEIR_ERROR_INVALID_POLICY);
    assert_int_equal(n_problems[WEIR_POLICY_REFUSED], 3);
  }
}

static void read_policy_file(struct trial *trial) {
  char path[256];
  weir_policy *policy = NULL;
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *directory = getenv("TEST_TMPDIR");
  (void)snprintf(path, sizeof path, "%s/policy-XXXXXX", directory != NULL ? directory : "/tmp");
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, policy_rich, strlen(policy_rich)), strlen(policy_rich));
  trial_begin(trial);
  enum weir_error error = weir_policy_from_file(path, NULL, NULL, &policy, NULL);
  trial_end(trial);
  trial_check_made(trial, error, policy);
  if (policy != NULL) {
    check_rich(policy);
  }
  weir_policy_unref(policy);
  (void)close(fd);
  (void)unlink(path);
}

static void layer_policies(struct trial *trial) {
  weir_policy *organisation = policy_of(policy_organisation);
  weir_policy *channel = policy_of(policy_rich);
  weir_policy *layered = NULL;
  struct weir_diagnostic diagnostic;
  trial_begin(trial);
  enum weir_error error =
      weir_policy_layer(organisation, channel, NULL, NULL, &layered, &diagnostic);
  trial_end(trial);
  trial_check_made(trial, error, layered);
  if (layered == NULL) {
    assert_int_equal(weir_policy_layer(organisation, channel, NULL, NULL, &layered, &diagnostic),
                     WEIR_OK);
  }
  check_rich(layered);
  weir_policy_unref(layered);
  weir_policy_unref(channel);
  weir_policy_unref(organisation);
}

static void share_policy(struct trial *trial) {
  weir_policy *policy = policy_of(policy_rich);
  trial_begin(trial);
  weir_policy *share = weir_policy_ref(policy);
  (void)weir_policy_method(share, PATH, strlen(PATH));
  weir_policy_unref(policy);
  trial_end(trial);
  check_rich(share);
  weir_policy_unref(share);
}

const struct trial_row policy_rows[] = {
    {"weir_policy_new", TAKES_MEMORY, make_policy},
    {"weir_policy_from_json", TAKES_MEMORY, read_policy},
    {"weir_policy_from_json", TAKES_MEMORY, refuse_policy},
    {"weir_policy_from_file", TAKES_MEMORY, read_policy_file},
    {"weir_policy_layer", TAKES_MEMORY, layer_policies},
    {"weir_policy_method", TAKES_NOTHING, share_policy},
    {"weir_policy_ref", TAKES_NOTHING, share_policy},
    {"weir_policy_unref", TAKES_NOTHING, share_policy},
    TRIAL_ROWS_END,
};
