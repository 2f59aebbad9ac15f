/* The organisation's document, followed beside the channel's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/support/counting_allocator.h"
#include "test/unit/watch/watched.h"

#define VARIABLE "WEIR_ORG_POLICY"

/* A default of the organisation's. */
#define DEFAULT(seconds) POLICY(seconds)

/* What it enforces: a channel's document with a longer maxTimeout is refused. */
#define ENFORCED(seconds) "{\"enforce\": {\"deadline\": {\"maxTimeout\": \"" #seconds "s\"}}}"

/* A channel's with both. */
#define CEILING(timeout, max) \
  "{\"deadline\": {\"defaultTimeout\": \"" #timeout "s\", \"maxTimeout\": \"" #max "s\"}}"

static char organisation_path[PATH_MAX];

/* NULL = it is not set. */
static void set_variable(const char *value) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  assert_int_equal(value != NULL ? setenv(VARIABLE, value, 1) : unsetenv(VARIABLE), 0);
}

static int setup(void **state) {
  set_variable(NULL);
  if (watched_setup(state) != 0) {
    return -1;
  }
  struct watched *watched = *state;
  snprintf(organisation_path, sizeof organisation_path, "%s/organisation.json", watched->directory);
  watched->options.organisation_path = organisation_path;
  return 0;
}

static void put_organisation(const struct watched *watched, const char *text) {
  put(watched, "organisation.json", text);
}

static void start(struct watched *watched, const char *organisation, const char *channel) {
  put_organisation(watched, organisation);
  put(watched, "policy.json", channel);
  start_watch(watched);
}

static void a_change_of_either_document_is_one_of_the_policy(void **state) {
  struct watched *watched = *state;
  start(watched, DEFAULT(3), "{}");
  assert_int_equal(seconds_in_force(watched), 3);
  put_organisation(watched, DEFAULT(4));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 4);
  put(watched, "policy.json", POLICY(5));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 5);
  put_organisation(watched, DEFAULT(6));
  put(watched, "policy.json", "{\"name\": \"a\"}");
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 6);
  const struct weir_policy_watch_snapshot snapshot = snapshot_of(watched);
  assert_int_equal(snapshot.n_applied, 4);
  assert_int_equal(snapshot.organisation_file, WEIR_POLICY_FILE_IN_FORCE);
  assert_non_null(strstr(last_told(watched, WEIR_LOG_POLICY_APPLIED), "/organisation.json"));
}

static void a_weaker_document_is_refused_naming_both_places(void **state) {
  struct watched *watched = *state;
  start(watched, ENFORCED(20), CEILING(1, 15));
  put(watched, "policy.json", CEILING(2, 40));
  assert_false(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 1);
  assert_string_equal(watched->refused_path, watched->path);
  assert_non_null(strstr(watched->refusal.path, "maxTimeout"));
  assert_non_null(strstr(watched->refusal.other_path, "maxTimeout"));
  assert_int_equal(watched->refusal.line, 1);
  assert_int_equal(watched->refusal.other_line, 1);
  const char *text = last_told(watched, WEIR_LOG_POLICY_REFUSED);
  assert_non_null(strstr(text, "/policy.json:1:"));
  assert_non_null(strstr(text, "enforce"));
  const struct weir_policy_watch_snapshot snapshot = snapshot_of(watched);
  assert_int_equal(snapshot.file, WEIR_POLICY_FILE_REFUSED);
  assert_int_equal(snapshot.organisation_file, WEIR_POLICY_FILE_IN_FORCE);
  put(watched, "policy.json", CEILING(2, 19));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

static void a_weaker_document_is_no_start(void **state) {
  struct watched *watched = *state;
  put_organisation(watched, ENFORCED(20));
  put(watched, "policy.json", CEILING(2, 40));
  assert_int_equal(try_watch(watched), WEIR_ERROR_INVALID_POLICY);
  assert_non_null(strstr(watched->diagnostic.path, "maxTimeout"));
  assert_non_null(strstr(watched->diagnostic.other_path, "maxTimeout"));
}

static void what_was_refused_comes_into_force_when_the_organisation_allows_it(void **state) {
  struct watched *watched = *state;
  start(watched, ENFORCED(20), CEILING(1, 15));
  put(watched, "policy.json", CEILING(2, 40));
  assert_false(wait_and_poll(watched));
  put_organisation(watched, ENFORCED(50));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  assert_int_equal(snapshot_of(watched).n_refused, 1);
}

static void a_refused_document_that_is_gone_never_comes_into_force(void **state) {
  struct watched *watched = *state;
  start(watched, ENFORCED(20), CEILING(1, 15));
  put(watched, "policy.json", CEILING(2, 40));
  assert_false(wait_and_poll(watched));
  delete (watched, "policy.json");
  assert_false(wait_and_poll(watched));
  put_organisation(watched, ENFORCED(50));
  assert_true(wait_and_poll(watched)); /* with what is in force of the channel's */
  assert_int_equal(seconds_in_force(watched), 1);
}

static void rules_that_the_channel_breaks_wait_for_it(void **state) {
  struct watched *watched = *state;
  start(watched, ENFORCED(50), CEILING(1, 40));
  put_organisation(watched, ENFORCED(20));
  assert_false(wait_and_poll(watched));
  assert_string_equal(watched->refused_path, organisation_path);
  assert_int_equal(snapshot_of(watched).organisation_file, WEIR_POLICY_FILE_REFUSED);
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  put(watched, "policy.json", CEILING(2, 10));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(snapshot_of(watched).organisation_file, WEIR_POLICY_FILE_IN_FORCE);
}

static void new_rules_hold_although_the_channels_new_document_is_refused(void **state) {
  struct watched *watched = *state;
  start(watched, "{}", "{\"name\": \"a\"}");
  assert_int_equal(seconds_in_force(watched), BUILT_IN_SECONDS);
  put_organisation(watched, "{\"deadline\": {\"defaultTimeout\": \"3s\"}, "
                            "\"enforce\": {\"deadline\": {\"maxTimeout\": \"20s\"}}}");
  put(watched, "policy.json", CEILING(2, 40));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 3);
  const struct weir_policy_watch_snapshot snapshot = snapshot_of(watched);
  assert_int_equal(snapshot.n_applied, 2);
  assert_int_equal(snapshot.n_refused, 1);
  assert_int_equal(snapshot.organisation_file, WEIR_POLICY_FILE_IN_FORCE);
  assert_int_equal(snapshot.file, WEIR_POLICY_FILE_REFUSED);
  assert_string_equal(watched->refused_path, watched->path);
}

static void a_bad_document_of_the_organisations_stops_no_other(void **state) {
  struct watched *watched = *state;
  start(watched, ENFORCED(20), CEILING(1, 15));
  put_organisation(watched, BAD_POLICY);
  assert_false(wait_and_poll(watched));
  assert_string_equal(watched->refused_path, organisation_path);
  put(watched, "policy.json", CEILING(2, 15));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  put(watched, "policy.json", CEILING(3, 40)); /* the last good rules hold */
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).n_refused, 2);
}

/* A program rewrites both in place, and closes one after the other. */
static void half_of_one_document_is_not_read_because_the_other_is_closed(void **state) {
  struct watched *watched = *state;
  static const char half[] = "{\"deadline\": ";
  static const char rest[] = "{\"defaultTimeout\": \"2s\"}}";
  start(watched, ENFORCED(60), POLICY(1));
  const int fd = open(watched->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, half, sizeof half - 1), sizeof half - 1);
  put_organisation(watched, ENFORCED(50));
  assert_true(poll_watch(watched)); /* the organisation's */
  assert_int_equal(snapshot_of(watched).n_refused, 0);
  assert_int_equal(write(fd, rest, sizeof rest - 1), sizeof rest - 1);
  assert_int_equal(close(fd), 0);
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(snapshot_of(watched).n_refused, 0);
}

/* Nobody closes it: in the end it is what it is. */
static void half_of_a_document_is_refused_when_it_stays_so(void **state) {
  struct watched *watched = *state;
  start(watched, ENFORCED(60), POLICY(1));
  const int fd = open(watched->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "{", 1), 1);
  put_organisation(watched, ENFORCED(50));
  assert_true(poll_watch(watched));
  assert_false(wait_and_poll(watched)); /* by the timer */
  assert_int_equal(snapshot_of(watched).n_refused, 1);
  assert_int_equal(close(fd), 0);
}

static void rules_stay_when_their_file_is_gone(void **state) {
  struct watched *watched = *state;
  start(watched, ENFORCED(20), CEILING(1, 15));
  delete (watched, "organisation.json");
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).organisation_file, WEIR_POLICY_FILE_MISSING);
  put(watched, "policy.json", CEILING(2, 40));
  assert_false(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 1);
  put_organisation(watched, ENFORCED(50));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

static void the_organisations_document_has_to_be_there(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  watched->options.starts_without_file = true;
  assert_int_equal(try_watch(watched), WEIR_ERROR_UNAVAILABLE);
  put_organisation(watched, DEFAULT(3));
  delete (watched, "policy.json");
  start_watch(watched);
  assert_int_equal(seconds_in_force(watched), 3);
  put(watched, "policy.json", POLICY(1));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 1);
}

static void the_environment_names_it_unless_the_options_do(void **state) {
  struct watched *watched = *state;
  put_organisation(watched, DEFAULT(3));
  put(watched, "other.json", DEFAULT(4));
  put(watched, "policy.json", "{}");
  set_variable(at(watched, "other.json"));
  start_watch(watched);
  assert_int_equal(seconds_in_force(watched), 3);
  end_watch(watched);
  watched->options.organisation_path = NULL;
  start_watch(watched);
  assert_int_equal(seconds_in_force(watched), 4);
  put(watched, "other.json", DEFAULT(5));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 5);
  end_watch(watched);
  set_variable("");
  start_watch(watched);
  assert_int_equal(seconds_in_force(watched), BUILT_IN_SECONDS);
  assert_int_equal(snapshot_of(watched).organisation_file, WEIR_POLICY_FILE_NONE);
  set_variable(NULL);
}

static void one_file_may_be_both(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  snprintf(organisation_path, sizeof organisation_path, "%s", watched->path);
  start_watch(watched);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

static void a_look_without_memory_is_made_up_for(void **state) {
  struct watched *watched = *state;
  struct counting_allocator allocator;
  counting_allocator_init(&allocator);
  watched->options.allocator = &allocator.base;
  start(watched, ENFORCED(20), CEILING(1, 15));
  size_t n_failed = 1;
  for (size_t nth = 1; n_failed > 0; nth++) {
    allocator.n_failed = 0;
    counting_allocator_fail_nth(&allocator, nth);
    put(watched, "policy.json", nth % 2 == 0 ? CEILING(2, 15) : CEILING(3, 15));
    put_organisation(watched, nth % 2 == 0 ? ENFORCED(21) : ENFORCED(22));
    bool changed = poll_watch(watched);
    n_failed = allocator.n_failed;
    allocator.fails_at = 0;
    weir_policy_watcher_reload(watched->watcher); /* so as not to wait for it */
    changed = poll_watch(watched) || changed;
    assert_true(changed);
    assert_int_equal(seconds_in_force(watched), nth % 2 == 0 ? 2 : 3);
    assert_int_equal(snapshot_of(watched).n_refused, 0);
  }
  end_watch(watched);
  assert_int_equal(allocator.n_outstanding, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, watched_teardown)
      TEST(a_change_of_either_document_is_one_of_the_policy),
      TEST(a_weaker_document_is_refused_naming_both_places),
      TEST(a_weaker_document_is_no_start),
      TEST(what_was_refused_comes_into_force_when_the_organisation_allows_it),
      TEST(a_refused_document_that_is_gone_never_comes_into_force),
      TEST(rules_that_the_channel_breaks_wait_for_it),
      TEST(new_rules_hold_although_the_channels_new_document_is_refused),
      TEST(a_bad_document_of_the_organisations_stops_no_other),
      TEST(half_of_one_document_is_not_read_because_the_other_is_closed),
      TEST(half_of_a_document_is_refused_when_it_stays_so),
      TEST(rules_stay_when_their_file_is_gone),
      TEST(the_organisations_document_has_to_be_there),
      TEST(the_environment_names_it_unless_the_options_do),
      TEST(one_file_may_be_both),
      TEST(a_look_without_memory_is_made_up_for),
#undef TEST
  };
  return cmocka_run_group_tests_name("organisation", tests, NULL, NULL);
}
