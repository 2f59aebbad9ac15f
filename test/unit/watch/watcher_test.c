/* The life of a watcher that the application polls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/support/child_exit.h"
#include "test/unit/watch/watched.h"

/* ---- the start ---- */

static void a_bad_file_is_no_start_and_says_why(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", BAD_POLICY);
  watched->options.starts_without_file = true;
  assert_int_equal(try_watch(watched), WEIR_ERROR_INVALID_POLICY);
  assert_null(watched->watcher);
  assert_int_equal(watched->diagnostic.line, 2);
  assert_int_equal(watched->n_refusals, 0);
  assert_int_equal(weir_policy_watch(watched->path, &watched->options, &watched->watcher, NULL),
                   WEIR_ERROR_INVALID_POLICY);
}

static void a_missing_file_is_no_start_unless_it_may_be_missing(void **state) {
  struct watched *watched = *state;
  assert_int_equal(try_watch(watched), WEIR_ERROR_UNAVAILABLE);
  assert_non_null(strstr(watched->diagnostic.message, "No such file"));
  watched->options.starts_without_file = true;
  start_watch(watched);
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_MISSING);
  assert_int_equal(snapshot_of(watched).generation, 1);
  assert_int_equal(snapshot_of(watched).n_applied, 1);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_APPLIED), 0);
}

static void a_start_is_told_in_the_log(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_APPLIED), 1);
  assert_non_null(
      strstr(last_told(watched, WEIR_LOG_POLICY_APPLIED), "policy.json is in force, as gen"));
  assert_int_equal(watched->n_changes, 0);
}

/* Its last 256 bytes, or one less where that is within a character. */
static void of_a_long_path_the_log_tells_the_end(void **state) {
  struct watched *watched = *state;
  char name[300];
  for (size_t n_behind = 0; n_behind < 2; n_behind++) {
    size_t n = 0;
    for (size_t i = 0; i < 127; i++) {
      n += (size_t)snprintf(name + n, sizeof name - n, "\xc3\xa4");
    }
    snprintf(name + n, sizeof name - n, "/%s", n_behind == 0 ? "a" : "ab");
    name[n] = '\0';
    make_directory(watched, name);
    name[n] = '/';
    put(watched, name, POLICY(1));
    snprintf(watched->path, sizeof watched->path, "%s", at(watched, name));
    start_watch(watched);
    const char *text = last_told(watched, WEIR_LOG_POLICY_APPLIED);
    const char *shown = strstr(text, "\xe2\x80\xa6");
    assert_non_null(shown);
    assert_memory_equal(text, "the policy of \xe2\x80\xa6", (size_t)(shown + 3 - text));
    const size_t n_shown = (size_t)(strstr(shown, " is in force") - shown) - 3;
    assert_true(n_shown == 256 || n_shown == 255);
    assert_int_not_equal((unsigned char)shown[3] & 0xc0, 0x80);
    assert_memory_equal(shown + 3, watched->path + strlen(watched->path) - n_shown, n_shown);
    end_watch(watched);
    (void)unlink(watched->path);
    name[n] = '\0';
    (void)rmdir(at(watched, name));
  }
}

static void options_are_checked(void **state) {
  struct watched *watched = *state;
  struct weir_log_sink mute = {.size = sizeof mute, .write = NULL, .context = NULL};
  put(watched, "policy.json", POLICY(1));
  const struct weir_policy_watch_options good = watched->options;
  watched->options.poll_interval_ns = 0;
  assert_int_equal(try_watch(watched), WEIR_ERROR_INVALID_ARGUMENT);
  watched->options = good;
  watched->options.log = &mute;
  assert_int_equal(try_watch(watched), WEIR_ERROR_INVALID_ARGUMENT);
  watched->options = good;
  watched->options.size = 1;
  assert_int_equal(try_watch(watched), WEIR_ERROR_INVALID_ARGUMENT);
  watched->options = good;
  watched->path[0] = '\0';
  assert_int_equal(try_watch(watched), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir_policy_watch(NULL, &good, &watched->watcher, NULL),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(watched->watcher);
  weir_policy_watcher_free(NULL);
}

static void a_path_that_is_too_long_is_no_start(void **state) {
  struct watched *watched = *state;
  char path[2 * PATH_MAX];
  memset(path, 'a', sizeof path);
  path[0] = '/';
  path[sizeof path - 1] = '\0';
  assert_int_equal(weir_policy_watch(path, &watched->options, &watched->watcher, NULL),
                   WEIR_ERROR_UNAVAILABLE);
  for (size_t i = 0; i < sizeof path - 1; i += 2) {
    path[i] = '/';
  }
  assert_int_equal(weir_policy_watch(path, &watched->options, &watched->watcher, NULL),
                   WEIR_ERROR_UNAVAILABLE);
}

static void a_relative_path_is_one_of_the_start(void **state) {
  struct watched *watched = *state;
  char before[PATH_MAX];
  assert_non_null(getcwd(before, sizeof before));
  put(watched, "policy.json", POLICY(1));
  assert_int_equal(chdir(watched->directory), 0);
  assert_int_equal(weir_policy_watch("policy.json", &watched->options, &watched->watcher, NULL),
                   WEIR_OK);
  assert_int_equal(chdir(before), 0);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  put(watched, "policy.json", BAD_POLICY);
  assert_false(wait_and_poll(watched));
  assert_string_equal(snapshot_of(watched).refused_path, watched->path);
}

static void a_working_directory_that_is_gone_is_no_start(void **state) {
  struct watched *watched = *state;
  char before[PATH_MAX];
  assert_non_null(getcwd(before, sizeof before));
  make_directory(watched, "gone");
  assert_int_equal(chdir(at(watched, "gone")), 0);
  delete (watched, "gone");
  const enum weir_error error =
      weir_policy_watch("policy.json", &watched->options, &watched->watcher, &watched->diagnostic);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(error, WEIR_ERROR_UNAVAILABLE);
  assert_true(watched->diagnostic.message[0] != '\0');
}

static void a_snapshot_of_an_older_program_is_filled_in_as_far_as_it_goes(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  struct weir_policy_watch_snapshot snapshot = {
      .size = offsetof(struct weir_policy_watch_snapshot, n_loads), .n_loads = 77};
  assert_int_equal(weir_policy_watcher_snapshot(watched->watcher, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.generation, 1);
  assert_int_equal(snapshot.n_loads, 77);
  snapshot.size = 1;
  assert_int_equal(weir_policy_watcher_snapshot(watched->watcher, &snapshot),
                   WEIR_ERROR_INVALID_ARGUMENT);
}

/* ---- asked for ---- */

static weir_policy_watcher *reloaded;

static void reload_by_signal(int number) {
  (void)number;
  weir_policy_watcher_reload(reloaded);
}

static void a_reload_looks_whatever_inotify_says(void **state) {
  struct watched *watched = *state;
  struct sigaction action;
  struct sigaction before;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  weir_policy_watcher_reload(watched->watcher);
  weir_policy_watcher_reload(watched->watcher);
  assert_false(poll_watch(watched));
  assert_int_equal(snapshot_of(watched).n_unchanged, 1);

  reloaded = watched->watcher;
  memset(&action, 0, sizeof action);
  action.sa_handler = reload_by_signal;
  assert_int_equal(sigaction(SIGHUP, &action, &before), 0);
  assert_int_equal(raise(SIGHUP), 0);
  assert_int_equal(sigaction(SIGHUP, &before, NULL), 0);
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).n_unchanged, 2);
}

static void polling_goes_on_by_itself_where_it_is_wanted(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  watched->options.always_polls = true;
  watched->options.poll_interval_ns = WEIR_MS_NS;
  start_watch(watched);
  for (int i = 0; i < 3; i++) {
    assert_false(wait_and_poll(watched));
  }
  assert_int_equal(snapshot_of(watched).n_unchanged, 3);
  assert_true(snapshot_of(watched).polled);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_POLLED), 0); /* it was asked for */
}

/* What is mounted over a directory is not told. */
static void a_missing_file_is_looked_for_from_time_to_time(void **state) {
  struct watched *watched = *state;
  watched->options.starts_without_file = true;
  watched->options.poll_interval_ns = WEIR_MS_NS;
  start_watch(watched);
  assert_false(wait_and_poll(watched));
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).n_unreadable, 3);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_MISSING), 1);
  assert_false(snapshot_of(watched).polled);
}

/* ---- callbacks ---- */

static void a_poll_in_a_callback_does_nothing(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(watched->n_changes, 1);
  assert_false(watched->is_nested);
}

static void callbacks_may_end_the_watcher(void **state) {
  struct watched *watched = *state;
  watched->frees = true;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "policy.json", POLICY(2));
  (void)poll_watch(watched);
  assert_int_equal(watched->n_changes, 1);
  start_watch(watched);
  put(watched, "policy.json", BAD_POLICY);
  (void)poll_watch(watched);
  assert_int_equal(watched->n_refusals, 1);
  watched->watcher = NULL;
}

/* ---- several ---- */

static void two_watchers_follow_one_file(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  struct watched other = *watched;
  start_watch(watched);
  other.options.on_change = NULL;
  other.options.on_refused = NULL;
  other.options.log = NULL;
  other.watcher = NULL;
  start_watch(&other);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_true(wait_and_poll(&other));
  end_watch(watched);
  put(watched, "policy.json", POLICY(3));
  assert_true(wait_and_poll(&other));
  end_watch(&other);
}

static void the_child_of_a_fork_follows_nothing_and_takes_nothing_away(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "policy.json", POLICY(2));
  const pid_t child = fork();
  if (child == 0) {
    weir_policy_watcher_reload(watched->watcher);
    const bool changed = weir_policy_watcher_poll(watched->watcher);
    weir_policy_watcher_free(watched->watcher);
    child_exit(changed ? 1 : 0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  put(watched, "policy.json", POLICY(3));
  assert_true(wait_and_poll(watched));
}

/* ---- memory ---- */

static void a_start_without_memory_fails_whole(void **state) {
  struct watched *watched = *state;
  struct counting_allocator allocator;
  put(watched, "policy.json", POLICY(1));
  enum weir_error error = WEIR_ERROR_NO_MEMORY;
  for (size_t nth = 1; error != WEIR_OK; nth++) {
    counting_allocator_init(&allocator);
    counting_allocator_fail_nth(&allocator, nth);
    watched->options.allocator = &allocator.base;
    error = try_watch(watched);
    if (error != WEIR_OK) {
      assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
      assert_null(watched->watcher);
    }
    /* without the memory for a watch, it is polled */
    end_watch(watched);
    assert_int_equal(allocator.n_outstanding, 0);
    if (error == WEIR_OK && allocator.n_failed > 0) {
      error = WEIR_ERROR_NO_MEMORY;
    }
  }
}

static void a_look_without_memory_is_made_up_for(void **state) {
  struct watched *watched = *state;
  struct counting_allocator allocator;
  counting_allocator_init(&allocator);
  watched->options.allocator = &allocator.base;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  size_t n_failed = 1;
  for (size_t nth = 1; n_failed > 0; nth++) {
    allocator.n_failed = 0;
    counting_allocator_fail_nth(&allocator, nth);
    put(watched, "policy.json", nth % 2 == 0 ? POLICY(2) : POLICY(3));
    bool changed = poll_watch(watched);
    n_failed = allocator.n_failed;
    allocator.fails_at = 0;
    weir_policy_watcher_reload(watched->watcher); /* so as not to wait for it */
    changed = wait_and_poll(watched) || changed;
    assert_true(changed);
    assert_int_equal(seconds_in_force(watched), nth % 2 == 0 ? 2 : 3);
    assert_int_equal(snapshot_of(watched).n_refused, 0);
  }
  end_watch(watched);
  assert_int_equal(allocator.n_outstanding, 0);
}

static void a_look_without_memory_is_taken_again_by_itself(void **state) {
  struct watched *watched = *state;
  struct counting_allocator allocator;
  counting_allocator_init(&allocator);
  watched->options.allocator = &allocator.base;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "policy.json", POLICY(2));
  allocator.n_allowed = 0;
  assert_false(poll_watch(watched));
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  allocator.n_allowed = SIZE_MAX;
  assert_true(wait_and_poll(watched));
  end_watch(watched);
  assert_int_equal(allocator.n_outstanding, 0);
}

static void memory_does_not_grow_with_changes(void **state) {
  struct watched *watched = *state;
  struct counting_allocator allocator;
  counting_allocator_init(&allocator);
  watched->options.allocator = &allocator.base;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  const size_t before = allocator.n_outstanding;
  for (int i = 0; i < 20; i++) {
    put(watched, "policy.json", i % 2 == 0 ? POLICY(2) : POLICY(1));
    assert_true(wait_and_poll(watched));
    put_over(watched, "policy.json", i % 2 == 0 ? BAD_POLICY : BAD_POLICY " ");
    assert_false(wait_and_poll(watched));
  }
  put_over(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(allocator.n_outstanding, before);
  end_watch(watched);
  assert_int_equal(allocator.n_outstanding, 0);
}

/* The watches of inotify that this process has. */
static size_t count_watches(void) {
  size_t count = 0;
  for (int fd = 0; fd < 64; fd++) {
    char path[64];
    char line[256];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
      count += strncmp(line, "inotify wd:", 11) == 0 ? 1 : 0;
    }
    if (file != NULL) {
      (void)fclose(file);
    }
  }
  return count;
}

static void watches_do_not_grow_with_changes(void **state) {
  struct watched *watched = *state;
  make_directory(watched, "1");
  put(watched, "1/policy.json", POLICY(1));
  link_over(watched, "data", "1");
  link_over(watched, "policy.json", "data/policy.json");
  start_watch(watched);
  const size_t before = count_watches();
  assert_true(before >= 3);
  for (int i = 2; i < 9; i++) {
    char name[32];
    char file[64];
    snprintf(name, sizeof name, "%d", i);
    snprintf(file, sizeof file, "%d/policy.json", i);
    make_directory(watched, name);
    put(watched, file, i % 2 == 0 ? POLICY(2) : POLICY(3));
    link_over(watched, "data", name);
    assert_true(wait_and_poll(watched));
  }
  assert_int_equal(count_watches(), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, watched_setup, watched_teardown)
      TEST(a_bad_file_is_no_start_and_says_why),
      TEST(a_missing_file_is_no_start_unless_it_may_be_missing),
      TEST(a_start_is_told_in_the_log),
      TEST(of_a_long_path_the_log_tells_the_end),
      TEST(options_are_checked),
      TEST(a_path_that_is_too_long_is_no_start),
      TEST(a_relative_path_is_one_of_the_start),
      TEST(a_working_directory_that_is_gone_is_no_start),
      TEST(a_snapshot_of_an_older_program_is_filled_in_as_far_as_it_goes),
      TEST(a_reload_looks_whatever_inotify_says),
      TEST(polling_goes_on_by_itself_where_it_is_wanted),
      TEST(a_missing_file_is_looked_for_from_time_to_time),
      TEST(a_poll_in_a_callback_does_nothing),
      TEST(callbacks_may_end_the_watcher),
      TEST(two_watchers_follow_one_file),
      TEST(the_child_of_a_fork_follows_nothing_and_takes_nothing_away),
      TEST(a_start_without_memory_fails_whole),
      TEST(a_look_without_memory_is_made_up_for),
      TEST(a_look_without_memory_is_taken_again_by_itself),
      TEST(memory_does_not_grow_with_changes),
      TEST(watches_do_not_grow_with_changes),
#undef TEST
  };
  return cmocka_run_group_tests_name("watcher", tests, NULL, NULL);
}
