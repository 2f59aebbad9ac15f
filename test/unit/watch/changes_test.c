/* What is done to a policy's file, and to the way that leads to it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/unit/watch/watched.h"

/* ---- ways to bring in another policy ---- */

struct change_row {
  const char *why;
  void (*prepare)(struct watched *watched); /* POLICY(1) is in force then */
  void (*change)(struct watched *watched);  /* and then POLICY(2) is to be */
};

static void plain_file(struct watched *watched) {
  put(watched, "policy.json", POLICY(1));
}

static void write_in_place(struct watched *watched) {
  put(watched, "policy.json", POLICY(2));
}

static void rename_over(struct watched *watched) {
  put_over(watched, "policy.json", POLICY(2));
}

static void delete_and_create(struct watched *watched) {
  delete (watched, "policy.json");
  put(watched, "policy.json", POLICY(2));
}

static void as_editors_do(struct watched *watched) {
  move(watched, "policy.json", "policy.json~");
  put(watched, "policy.json", POLICY(2));
  delete (watched, "policy.json~");
}

static void twice(struct watched *watched) {
  put(watched, "policy.json", BAD_POLICY);
  put(watched, "policy.json", POLICY(2));
}

static void link_in_its_place(struct watched *watched) {
  put(watched, "other.json", POLICY(2));
  link_over(watched, "policy.json", "other.json");
}

static void linked_file(struct watched *watched) {
  put(watched, "one.json", POLICY(1));
  put(watched, "two.json", POLICY(2));
  link_over(watched, "policy.json", "one.json");
}

static void point_elsewhere(struct watched *watched) {
  link_over(watched, "policy.json", "two.json");
}

static void write_what_is_linked(struct watched *watched) {
  put(watched, "one.json", POLICY(2));
}

static void replace_what_is_linked(struct watched *watched) {
  put_over(watched, "one.json", POLICY(2));
}

static void hard_linked_file(struct watched *watched) {
  make_directory(watched, "elsewhere");
  put(watched, "elsewhere/one.json", POLICY(1));
  assert_int_equal(link(at(watched, "elsewhere/one.json"), watched->path), 0);
}

static void write_by_its_other_name(struct watched *watched) {
  put(watched, "elsewhere/one.json", POLICY(2));
}

static void hard_link_in_its_place(struct watched *watched) {
  put(watched, "other.json", POLICY(2));
  delete (watched, "policy.json");
  assert_int_equal(link(at(watched, "other.json"), watched->path), 0);
}

/* As Kubernetes mounts a config map. */
static void config_map(struct watched *watched) {
  make_directory(watched, "..2024_01");
  put(watched, "..2024_01/policy.json", POLICY(1));
  link_over(watched, "..data", "..2024_01");
  link_over(watched, "policy.json", "..data/policy.json");
}

static void swap_config_map(struct watched *watched) {
  make_directory(watched, "..2024_02");
  put(watched, "..2024_02/policy.json", POLICY(2));
  assert_int_equal(symlink("..2024_02", at(watched, "..data_tmp")), 0);
  move(watched, "..data_tmp", "..data");
  delete (watched, "..2024_01/policy.json");
  delete (watched, "..2024_01");
}

/* A release that `current` names, with links that go up, and from the root. */
static void releases(struct watched *watched) {
  make_directory(watched, "v1");
  make_directory(watched, "v2");
  put(watched, "v1/policy.json", POLICY(1));
  put(watched, "v2/policy.json", POLICY(2));
  assert_int_equal(symlink(at(watched, "v1"), at(watched, "current")), 0);
  make_directory(watched, "conf");
  assert_int_equal(symlink("../current/./policy.json", at(watched, "conf/policy.json")), 0);
  snprintf(watched->path, sizeof watched->path, "%s//conf/../conf/policy.json", watched->directory);
}

static void next_release(struct watched *watched) {
  assert_int_equal(symlink("v2", at(watched, "current.new")), 0);
  move(watched, "current.new", "current");
}

static void replace_directory(struct watched *watched) {
  move(watched, "v1", "v0");
  move(watched, "v2", "v1");
}

static void deep_file(struct watched *watched) {
  make_directory(watched, "a");
  make_directory(watched, "a/b");
  make_directory(watched, "a/b/c");
  put(watched, "a/b/c/policy.json", POLICY(1));
  snprintf(watched->path, sizeof watched->path, "%s/a/b/c/policy.json", watched->directory);
}

static void replace_its_grandparent(struct watched *watched) {
  make_directory(watched, "new");
  make_directory(watched, "new/c");
  put(watched, "new/c/policy.json", POLICY(2));
  move(watched, "a/b", "a/old");
  move(watched, "new", "a/b");
}

static void delete_all_and_build_anew(struct watched *watched) {
  delete (watched, "a/b/c/policy.json");
  delete (watched, "a/b/c");
  delete (watched, "a/b");
  delete (watched, "a");
  deep_file(watched);
  put(watched, "a/b/c/policy.json", POLICY(2));
}

static const struct change_row change_rows[] = {
    {"written in place", plain_file, write_in_place},
    {"renamed over", plain_file, rename_over},
    {"deleted and created", plain_file, delete_and_create},
    {"moved aside and created", plain_file, as_editors_do},
    {"written twice, badly first", plain_file, twice},
    {"a link in its place", plain_file, link_in_its_place},
    {"a hard link in its place", plain_file, hard_link_in_its_place},
    {"a link that leads elsewhere", linked_file, point_elsewhere},
    {"what a link leads to, written", linked_file, write_what_is_linked},
    {"what a link leads to, replaced", linked_file, replace_what_is_linked},
    {"written by another name, of another directory", hard_linked_file, write_by_its_other_name},
    {"a config map's swap", config_map, swap_config_map},
    {"a release's link, in the middle of the path", releases, next_release},
    {"another directory by the same name", releases, replace_directory},
    {"another directory further up", deep_file, replace_its_grandparent},
    {"the whole way made anew", deep_file, delete_all_and_build_anew},
};

static void any_way_to_change_the_file_brings_the_new_policy(void **state) {
  struct watched *watched = *state;
  for (size_t i = 0; i < sizeof change_rows / sizeof change_rows[0]; i++) {
    const struct change_row *row = &change_rows[i];
    row->prepare(watched);
    start_watch(watched);
    assert_int_equal(seconds_in_force(watched), 1);
    assert_false(poll_watch(watched));
    row->change(watched);
    const bool changed = wait_and_poll(watched);
    const int64_t seconds = seconds_in_force(watched);
    const struct weir_policy_watch_snapshot snapshot = snapshot_of(watched);
    if (!changed || seconds != 2 || snapshot.n_applied != 2 || snapshot.n_refused != 0 ||
        snapshot.file != WEIR_POLICY_FILE_IN_FORCE) {
      fail_msg("%s: changed %d, %d s in force, %d applied, %d refused", row->why, (int)changed,
               (int)seconds, (int)snapshot.n_applied, (int)snapshot.n_refused);
    }
    /* and it is followed further */
    FILE *file = fopen(watched->path, "w");
    assert_non_null(file);
    assert_true(fputs(POLICY(3), file) >= 0);
    assert_int_equal(fclose(file), 0);
    if (!wait_and_poll(watched) || seconds_in_force(watched) != 3) {
      fail_msg("%s: not followed any more", row->why);
    }
    assert_int_equal(watched_teardown(state), 0);
    assert_int_equal(watched_setup(state), 0);
  }
}

/* ---- what is no change ---- */

static void the_same_content_again_changes_nothing(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  weir_policy *before = weir_policy_watcher_policy(watched->watcher);
  put(watched, "policy.json", POLICY(1));
  assert_false(wait_and_poll(watched));
  put_over(watched, "policy.json", POLICY(1));
  assert_false(wait_and_poll(watched));
  assert_int_equal(chmod(watched->path, 0600), 0);
  assert_false(wait_and_poll(watched));
  weir_policy *after = weir_policy_watcher_policy(watched->watcher);
  assert_ptr_equal(before, after);
  weir_policy_unref(before);
  weir_policy_unref(after);
  const struct weir_policy_watch_snapshot snapshot = snapshot_of(watched);
  assert_int_equal(snapshot.n_applied, 1);
  assert_int_equal(snapshot.n_unchanged, 3);
  assert_int_equal(snapshot.n_loads, 4);
  assert_int_equal(snapshot.generation, 1);
  assert_int_equal(watched->n_changes, 0);
}

static void what_else_goes_on_in_the_directory_is_not_looked_at(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  for (int i = 0; i < 2000; i++) {
    char name[32];
    snprintf(name, sizeof name, "file-%d", i);
    put(watched, name, POLICY(2));
    assert_false(poll_watch(watched));
  }
  assert_int_equal(snapshot_of(watched).n_loads, 1);
}

static void events_that_were_lost_are_made_up_for(void **state) {
  struct watched *watched = *state;
  char line[32] = "16384";
  FILE *limit = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
  if (limit != NULL) {
    assert_non_null(fgets(line, sizeof line, limit));
    (void)fclose(limit);
  }
  const unsigned long max_events = strtoul(line, NULL, 10);
  if (max_events > 100000) {
    skip(); /* that would take long */
  }
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  const char *one = at(watched, "one");
  const char *other = at(watched, "other");
  put(watched, "one", "");
  for (unsigned long i = 0; i < max_events; i++) { /* two events each */
    assert_int_equal(i % 2 == 0 ? rename(one, other) : rename(other, one), 0);
  }
  put_over(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

/* ---- refused ---- */

static void a_bad_file_is_refused_once_and_the_last_good_policy_stays(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "policy.json", BAD_POLICY);
  assert_false(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 1);
  const struct weir_policy_watch_snapshot snapshot = snapshot_of(watched);
  assert_int_equal(snapshot.n_refused, 1);
  assert_int_equal(snapshot.file, WEIR_POLICY_FILE_REFUSED);
  assert_string_equal(snapshot.refused_path, watched->path);
  assert_int_equal(snapshot.refusal.line, 2);
  assert_true(snapshot.refusal.message[0] != '\0');
  assert_int_equal(watched->n_refusals, 1);
  assert_string_equal(watched->refused_path, watched->path);
  assert_int_equal(watched->refusal.column, snapshot.refusal.column);
  const char *text = last_told(watched, WEIR_LOG_POLICY_REFUSED);
  assert_non_null(strstr(text, "/policy.json:2:"));
  assert_non_null(strstr(text, snapshot.refusal.message));

  put(watched, "policy.json", BAD_POLICY);
  assert_false(wait_and_poll(watched));
  weir_policy_watcher_reload(watched->watcher);
  assert_false(wait_and_poll(watched));
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_REFUSED), 1);
  assert_int_equal(snapshot_of(watched).n_refused, 1);

  put(watched, "policy.json", BAD_POLICY " ");
  assert_false(wait_and_poll(watched));
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_REFUSED), 2);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(watched->n_changes, 1);
  assert_int_equal(watched->generation, 2);
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  assert_non_null(strstr(last_told(watched, WEIR_LOG_POLICY_APPLIED), "generation 2"));
}

static void going_back_to_what_is_in_force_is_no_swap(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "policy.json", BAD_POLICY);
  assert_false(wait_and_poll(watched));
  put(watched, "policy.json", POLICY(1));
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).n_applied, 1);
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
}

static void a_misspelt_key_is_refused_unless_lenient(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", "{\"deadlines\": {}}");
  assert_int_equal(try_watch(watched), WEIR_ERROR_INVALID_POLICY);
  assert_null(watched->watcher);
  assert_string_equal(watched->diagnostic.path, "deadlines");
  watched->options.lenient = true;
  start_watch(watched);
  put(watched, "policy.json", "{\"deadlines\": {}, \"deadline\": {\"defaultTimeout\": \"2s\"}}");
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

/* ---- half of a file ---- */

static int open_file(const struct watched *watched, const char *text) {
  const int fd = open(watched->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  return fd;
}

static void a_file_that_is_being_written_is_waited_for(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  const int fd = open_file(watched, "{\"deadline\": ");
  assert_false(poll_watch(watched));
  static const char rest[] = "{\"defaultTimeout\": \"2s\"}}";
  assert_int_equal(write(fd, rest, strlen(rest)), strlen(rest));
  assert_false(poll_watch(watched));
  assert_int_equal(close(fd), 0);
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(snapshot_of(watched).n_refused, 0);
}

static void a_file_that_is_kept_open_is_looked_at_after_a_while(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  const int whole = open_file(watched, POLICY(2));
  assert_false(poll_watch(watched));
  assert_true(wait_and_poll(watched)); /* by the timer */
  assert_int_equal(seconds_in_force(watched), 2);
  const int half = open_file(watched, "{\"deadline\": ");
  assert_false(poll_watch(watched));
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).n_refused, 1);
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(close(half), 0);
  assert_int_equal(close(whole), 0);
}

static void a_file_that_has_just_been_created_is_waited_for(void **state) {
  struct watched *watched = *state;
  watched->options.starts_without_file = true;
  start_watch(watched);
  const int fd = open_file(watched, "{\"deadline\": ");
  assert_false(poll_watch(watched));
  static const char rest[] = "{\"defaultTimeout\": \"2s\"}}";
  assert_int_equal(write(fd, rest, strlen(rest)), strlen(rest));
  assert_int_equal(close(fd), 0);
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(snapshot_of(watched).n_refused, 0);
}

static void a_bad_file_that_has_just_been_created_is_refused_in_the_end(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "bad.json", BAD_POLICY);
  delete (watched, "policy.json");
  assert_false(wait_and_poll(watched));
  /* all that is told of a link is that it was made */
  assert_int_equal(symlink("bad.json", watched->path), 0);
  assert_false(poll_watch(watched));
  assert_false(wait_and_poll(watched)); /* by the timer */
  assert_int_equal(snapshot_of(watched).n_refused, 1);
}

static void a_truncated_file_is_refused(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  assert_int_equal(truncate(watched->path, 0), 0);
  assert_false(poll_watch(watched));
  assert_false(wait_and_poll(watched)); /* by the timer: nobody has closed it */
  assert_int_equal(snapshot_of(watched).n_refused, 1);
  assert_int_equal(seconds_in_force(watched), 1);
}

/* ---- gone, and back ---- */

static void a_deleted_file_changes_nothing_and_is_told_once(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  delete (watched, "policy.json");
  assert_false(wait_and_poll(watched));
  weir_policy_watcher_reload(watched->watcher);
  assert_false(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 1);
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_MISSING);
  assert_int_equal(snapshot_of(watched).n_unreadable, 2);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_MISSING), 1);
  assert_non_null(strstr(last_told(watched, WEIR_LOG_POLICY_MISSING), "/policy.json: "));

  put(watched, "policy.json", POLICY(1));
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  assert_int_equal(snapshot_of(watched).n_applied, 1);
  delete (watched, "policy.json");
  assert_false(wait_and_poll(watched));
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_MISSING), 2);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
}

static void directories_may_come_later_one_by_one(void **state) {
  struct watched *watched = *state;
  watched->options.starts_without_file = true;
  snprintf(watched->path, sizeof watched->path, "%s/a/b/policy.json", watched->directory);
  start_watch(watched);
  assert_int_equal(seconds_in_force(watched), BUILT_IN_SECONDS);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_MISSING), 1);
  make_directory(watched, "a");
  assert_false(wait_and_poll(watched));
  make_directory(watched, "a/b");
  assert_false(wait_and_poll(watched));
  put(watched, "a/b/policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_MISSING), 1);
}

static void directories_may_come_later_all_at_once(void **state) {
  struct watched *watched = *state;
  watched->options.starts_without_file = true;
  snprintf(watched->path, sizeof watched->path, "%s/a/b/policy.json", watched->directory);
  start_watch(watched);
  make_directory(watched, "new");
  make_directory(watched, "new/b");
  put(watched, "new/b/policy.json", POLICY(2));
  move(watched, "new", "a");
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

static void a_directory_may_be_moved_away_and_back(void **state) {
  struct watched *watched = *state;
  deep_file(watched);
  start_watch(watched);
  move(watched, "a/b", "away");
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_MISSING);
  put(watched, "away/c/policy.json", POLICY(2));
  assert_false(poll_watch(watched)); /* it is not on the way any more */
  assert_int_equal(seconds_in_force(watched), 1);
  move(watched, "away", "a/b");
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

static void the_initial_policy_holds_until_there_is_a_file(void **state) {
  struct watched *watched = *state;
  weir_policy *initial = NULL;
  assert_int_equal(weir_policy_from_json(POLICY(7), strlen(POLICY(7)), NULL, NULL, &initial, NULL),
                   WEIR_OK);
  watched->options.starts_without_file = true;
  watched->options.initial_policy = initial;
  start_watch(watched);
  weir_policy_unref(initial);
  assert_int_equal(seconds_in_force(watched), 7);
  put(watched, "policy.json", BAD_POLICY);
  assert_false(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 7);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

/* ---- what is no file ---- */

static void become_directory(struct watched *watched) {
  make_directory(watched, "policy.json");
}

static void become_fifo(struct watched *watched) {
  assert_int_equal(mkfifo(watched->path, 0644), 0);
}

static void become_loop(struct watched *watched) {
  assert_int_equal(symlink("policy.json", watched->path), 0);
}

static void become_long_loop(struct watched *watched) {
  link_over(watched, "a", "b");
  link_over(watched, "b", "a");
  assert_int_equal(symlink("a", watched->path), 0);
}

static void become_device(struct watched *watched) {
  assert_int_equal(symlink("/dev/zero", watched->path), 0);
}

static void lead_nowhere(struct watched *watched) {
  assert_int_equal(symlink("nowhere/at/all.json", watched->path), 0);
}

static void lead_through_a_file(struct watched *watched) {
  put(watched, "file", "");
  assert_int_equal(symlink("file/policy.json", watched->path), 0);
}

static void what_is_no_file_is_never_waited_for(void **state) {
  struct watched *watched = *state;
  static const struct {
    const char *why;
    void (*become)(struct watched *watched);
    enum weir_policy_file_state state;
  } rows[] = {
      {"a directory", become_directory, WEIR_POLICY_FILE_UNREADABLE},
      {"a FIFO", become_fifo, WEIR_POLICY_FILE_UNREADABLE},
      {"a link to itself", become_loop, WEIR_POLICY_FILE_UNREADABLE},
      {"links in a circle", become_long_loop, WEIR_POLICY_FILE_UNREADABLE},
      {"a device", become_device, WEIR_POLICY_FILE_UNREADABLE},
      {"a link to nowhere", lead_nowhere, WEIR_POLICY_FILE_MISSING},
      {"a link through a file", lead_through_a_file, WEIR_POLICY_FILE_MISSING},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    put(watched, "policy.json", POLICY(1));
    start_watch(watched);
    delete (watched, "policy.json");
    rows[i].become(watched);
    const bool changed = wait_and_poll(watched);
    if (changed || seconds_in_force(watched) != 1 || snapshot_of(watched).file != rows[i].state) {
      fail_msg("%s: state %d", rows[i].why, (int)snapshot_of(watched).file);
    }
    put(watched, "policy.new", POLICY(2));
    delete (watched, "policy.json");
    move(watched, "policy.new", "policy.json");
    if (!wait_and_poll(watched) || seconds_in_force(watched) != 2) {
      fail_msg("%s: not followed any more", rows[i].why);
    }
    end_watch(watched);
    if (try_watch(watched) != WEIR_OK) {
      fail_msg("%s: not loaded anew", rows[i].why);
    }
    end_watch(watched);
    delete (watched, "policy.json");
    rows[i].become(watched);
    if (try_watch(watched) != WEIR_ERROR_UNAVAILABLE || watched->diagnostic.message[0] == '\0') {
      fail_msg("%s: a start with it", rows[i].why);
    }
    assert_int_equal(watched_teardown(state), 0);
    assert_int_equal(watched_setup(state), 0);
  }
}

/* Whether root may read everything, of this thread. */
static void set_override(bool has_it) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
  const uint32_t mask = CAP_TO_MASK(CAP_DAC_OVERRIDE) | CAP_TO_MASK(CAP_DAC_READ_SEARCH);
  assert_int_equal(syscall(SYS_capget, &header, data), 0);
  data[0].effective &= ~mask;
  data[0].effective |= has_it ? data[0].permitted & mask : 0;
  assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void a_file_that_may_not_be_read_any_more_changes_nothing(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  set_override(false);
  start_watch(watched);
  assert_int_equal(chmod(watched->path, 0), 0);
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_UNREADABLE);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_UNREADABLE), 1);
  assert_int_equal(chmod(watched->path, 0644), 0);
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  put(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  set_override(true);
}

static void a_directory_that_may_not_be_searched_any_more_changes_nothing(void **state) {
  struct watched *watched = *state;
  deep_file(watched);
  set_override(false);
  start_watch(watched);
  assert_int_equal(chmod(at(watched, "a/b"), 0), 0);
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_UNREADABLE);
  assert_int_equal(chmod(at(watched, "a/b"), 0755), 0);
  assert_false(wait_and_poll(watched));
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  put(watched, "a/b/c/policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  set_override(true);
}

/* It can be gone through, but not watched. */
static void a_directory_that_may_not_be_read_is_polled(void **state) {
  struct watched *watched = *state;
  deep_file(watched);
  move(watched, "a/b/c", "c");
  watched->options.starts_without_file = true;
  watched->options.poll_interval_ns = WEIR_MS_NS;
  assert_int_equal(chmod(at(watched, "a/b"), 0311), 0);
  set_override(false);
  start_watch(watched);
  assert_true(snapshot_of(watched).polled);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_POLLED), 1);
  move(watched, "c", "a/b/c");
  while (!wait_and_poll(watched)) {
  }
  assert_int_equal(seconds_in_force(watched), 1);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_POLLED), 1);
  set_override(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, watched_setup, watched_teardown)
      TEST(any_way_to_change_the_file_brings_the_new_policy),
      TEST(the_same_content_again_changes_nothing),
      TEST(what_else_goes_on_in_the_directory_is_not_looked_at),
      TEST(events_that_were_lost_are_made_up_for),
      TEST(a_bad_file_is_refused_once_and_the_last_good_policy_stays),
      TEST(going_back_to_what_is_in_force_is_no_swap),
      TEST(a_misspelt_key_is_refused_unless_lenient),
      TEST(a_file_that_is_being_written_is_waited_for),
      TEST(a_file_that_is_kept_open_is_looked_at_after_a_while),
      TEST(a_file_that_has_just_been_created_is_waited_for),
      TEST(a_bad_file_that_has_just_been_created_is_refused_in_the_end),
      TEST(a_truncated_file_is_refused),
      TEST(a_deleted_file_changes_nothing_and_is_told_once),
      TEST(directories_may_come_later_one_by_one),
      TEST(directories_may_come_later_all_at_once),
      TEST(a_directory_may_be_moved_away_and_back),
      TEST(the_initial_policy_holds_until_there_is_a_file),
      TEST(what_is_no_file_is_never_waited_for),
      TEST(a_file_that_may_not_be_read_any_more_changes_nothing),
      TEST(a_directory_that_may_not_be_searched_any_more_changes_nothing),
      TEST(a_directory_that_may_not_be_read_is_polled),
#undef TEST
  };
  return cmocka_run_group_tests_name("changes", tests, NULL, NULL);
}
