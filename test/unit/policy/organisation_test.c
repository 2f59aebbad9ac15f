/* The organisation's document that the environment names.
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

#include <weir/policy.h>

#include "src/policy/organisation.h"
#include "src/policy/policy.h"
#include "src/policy/policy_source.h"
#include "test/support/counting_allocator.h"

struct fixture {
  struct counting_allocator allocator;
  char path[512];
  weir_policy *channel;
  weir_policy *in_force;
  struct weir_diagnostic diagnostic;
};

static int setup(void **state) {
  static struct fixture f;
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *folder = getenv("TEST_TMPDIR");
  memset(&f, 0, sizeof f);
  counting_allocator_init(&f.allocator);
  snprintf(f.path, sizeof f.path, "%s/org.json", folder != NULL ? folder : ".");
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): as above */
  assert_int_equal(unsetenv(WEIR__ORGANISATION_VARIABLE), 0);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir_policy_unref(f->in_force);
  weir_policy_unref(f->channel);
  assert_int_equal(f->allocator.n_outstanding, 0);
  (void)remove(f->path);
  return 0;
}

static void set_variable(const char *value) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  assert_int_equal(setenv(WEIR__ORGANISATION_VARIABLE, value, 1), 0);
}

static void set_organisation(struct fixture *f, const char *text) {
  FILE *file = fopen(f->path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
  set_variable(f->path);
}

static void set_channel(struct fixture *f, const char *text) {
  assert_int_equal(
      weir_policy_from_json(text, strlen(text), NULL, &f->allocator.base, &f->channel, NULL),
      WEIR_OK);
}

static enum weir_error put_in_force(struct fixture *f) {
  return weir__policy_in_force(f->channel, &f->allocator.base, &f->in_force, &f->diagnostic);
}

static int64_t timeout_of(const struct fixture *f) {
  return weir_policy_method(f->in_force, "/a.B/C", 6)->deadline->max_timeout_ns;
}

static void without_one_a_channel_has_the_policy_that_it_was_given(void **state) {
  struct fixture *f = *state;
  set_channel(f, "{}");
  assert_int_equal(put_in_force(f), WEIR_OK);
  assert_ptr_equal(f->in_force, f->channel);
}

static void an_empty_name_is_none(void **state) {
  struct fixture *f = *state;
  set_variable("");
  assert_int_equal(put_in_force(f), WEIR_OK);
  assert_ptr_equal(f->in_force, weir__policy_default());
}

static void the_built_in_policy_is_laid_under_it(void **state) {
  struct fixture *f = *state;
  set_organisation(f, "{\"enforce\":{\"deadline\":{\"maxTimeout\":\"5s\"}}}");
  assert_int_equal(put_in_force(f), WEIR_OK);
  assert_int_equal(timeout_of(f), 5 * WEIR_SECOND_NS);
}

static void a_layered_policy_is_left_as_it_is(void **state) {
  struct fixture *f = *state;
  weir_policy *other = NULL;
  assert_int_equal(weir_policy_from_json("{}", 2, NULL, &f->allocator.base, &other, NULL), WEIR_OK);
  assert_int_equal(weir_policy_layer(other, NULL, NULL, &f->allocator.base, &f->channel, NULL),
                   WEIR_OK);
  weir_policy_unref(other);
  set_organisation(f, "{\"enforce\":{\"deadline\":{\"maxTimeout\":\"5s\"}}}");
  assert_int_equal(put_in_force(f), WEIR_OK);
  assert_ptr_equal(f->in_force, f->channel);
}

/* The text of the last record that was written. */
struct record {
  size_t n;
  enum weir_log_event event;
  char text[640];
};

static void keep_record(void *context, const struct weir_log_record *record) {
  struct record *kept = context;
  kept->n++;
  kept->event = record->event;
  snprintf(kept->text, sizeof kept->text, "%s for %s", record->text, record->target);
}

static void log_refusal(const struct fixture *f, struct record *record_out) {
  const struct weir_log_sink sink = {
      .size = sizeof sink, .write = keep_record, .context = record_out};
  memset(record_out, 0, sizeof *record_out);
  weir__policy_log_refused(&sink, "cart:443", &f->diagnostic);
}

static void assert_holds(const char *text, const char *part) {
  if (strstr(text, part) == NULL) {
    fail_msg("no \"%s\" in \"%s\"", part, text);
  }
}

static void a_weaker_channel_is_refused_and_the_log_names_both_places(void **state) {
  struct fixture *f = *state;
  struct record record;
  set_organisation(f, "{\"enforce\":\n{\"deadline\":{\"maxTimeout\":\"5s\"}}}");
  set_channel(f, "{\n\n\"deadline\":{\"maxTimeout\":\"6s\"}}");
  assert_int_equal(put_in_force(f), WEIR_ERROR_INVALID_POLICY);
  assert_null(f->in_force);
  log_refusal(f, &record);
  assert_int_equal(record.n, 1);
  assert_int_equal(record.event, WEIR_LOG_POLICY_REFUSED);
  assert_holds(record.text, "deadline.maxTimeout, 3:26");
  assert_holds(record.text, "enforce.deadline.maxTimeout, 2:27");
  assert_holds(record.text, "for cart:443");
}

static void a_channel_made_in_code_has_a_path_and_no_line(void **state) {
  struct fixture *f = *state;
  struct record record;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  struct weir_deadline_options deadline = WEIR_DEADLINE_OPTIONS_INIT;
  deadline.max_timeout_ns = 6 * WEIR_SECOND_NS;
  options.deadline = &deadline;
  set_organisation(f, "{\"enforce\":{\"deadline\":{\"maxTimeout\":\"5s\"}}}");
  assert_int_equal(weir_policy_new(&options, &f->allocator.base, &f->channel, NULL), WEIR_OK);
  assert_int_equal(put_in_force(f), WEIR_ERROR_INVALID_POLICY);
  log_refusal(f, &record);
  assert_holds(record.text, "the policy is refused: deadline.maxTimeout: ");
  assert_holds(record.text, "enforce.deadline.maxTimeout, 1:");
}

static void a_file_that_is_refused_itself_is_named(void **state) {
  struct fixture *f = *state;
  struct record record;
  set_organisation(f, "{\"deadline\":{\"maxTimeout\":\"no\"}}");
  assert_int_equal(put_in_force(f), WEIR_ERROR_INVALID_POLICY);
  assert_null(f->in_force);
  log_refusal(f, &record);
  assert_holds(record.text, "deadline.maxTimeout");
  assert_holds(record.text, "WEIR_ORG_POLICY");
}

static void a_file_that_is_not_there_is_a_failure(void **state) {
  struct fixture *f = *state;
  set_variable("no/such/file.json");
  assert_int_equal(put_in_force(f), WEIR_ERROR_UNAVAILABLE);
  assert_null(f->in_force);
  assert_holds(f->diagnostic.message, "no/such/file.json");
}

static void the_file_is_read_each_time(void **state) {
  struct fixture *f = *state;
  set_organisation(f, "{\"enforce\":{\"deadline\":{\"maxTimeout\":\"5s\"}}}");
  assert_int_equal(put_in_force(f), WEIR_OK);
  weir_policy_unref(f->in_force);
  set_organisation(f, "{\"enforce\":{\"deadline\":{\"maxTimeout\":\"4s\"}}}");
  assert_int_equal(put_in_force(f), WEIR_OK);
  assert_int_equal(timeout_of(f), 4 * WEIR_SECOND_NS);
}

static void running_out_of_memory_is_survived_at_every_allocation(void **state) {
  struct fixture *f = *state;
  enum weir_error error = WEIR_ERROR_NO_MEMORY;
  set_organisation(f, "{\"enforce\":{\"deadline\":{\"maxTimeout\":\"5s\"}}}");
  for (size_t nth = 1; error == WEIR_ERROR_NO_MEMORY; nth++) {
    counting_allocator_fail_nth(&f->allocator, nth);
    error = put_in_force(f);
    f->allocator.fails_at = 0;
    assert_true(error == WEIR_OK || f->in_force == NULL);
    assert_true(nth < 1000);
  }
  assert_int_equal(error, WEIR_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_one_a_channel_has_the_policy_that_it_was_given, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(an_empty_name_is_none, setup, teardown),
      cmocka_unit_test_setup_teardown(the_built_in_policy_is_laid_under_it, setup, teardown),
      cmocka_unit_test_setup_teardown(a_layered_policy_is_left_as_it_is, setup, teardown),
      cmocka_unit_test_setup_teardown(a_weaker_channel_is_refused_and_the_log_names_both_places,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(a_channel_made_in_code_has_a_path_and_no_line, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_file_that_is_refused_itself_is_named, setup, teardown),
      cmocka_unit_test_setup_teardown(a_file_that_is_not_there_is_a_failure, setup, teardown),
      cmocka_unit_test_setup_teardown(the_file_is_read_each_time, setup, teardown),
      cmocka_unit_test_setup_teardown(running_out_of_memory_is_survived_at_every_allocation, setup,
                                      teardown),
  };
  return cmocka_run_group_tests_name("organisation", tests, NULL, NULL);
}
