/* A system that gives less than is asked for: its answers are scripted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <linux/magic.h>
#include <pthread.h>

#include <cmocka.h>

#include "test/unit/watch/watched.h"

/* 0 = as the system says. */
static struct {
  int init_errno;
  int watch_errno;
  int epoll_errno;
  int thread_errno;
  int statfs_errno;
  unsigned file_system; /* what every directory is said to be on */
  bool file_grows;      /* between the two looks at a file, as if somebody wrote */
  int n_looks;
  const struct watched *moving; /* whose file another link takes the place of at each look */
} script;

int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_fstat(int fd, struct stat *status);
int __wrap_fstat(int fd, struct stat *status);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);

int __real_statfs(const char *path, struct statfs *status);
int __wrap_statfs(const char *path, struct statfs *status);

int __wrap_inotify_init1(int flags) {
  errno = script.init_errno;
  return script.init_errno != 0 ? -1 : __real_inotify_init1(flags);
}

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask) {
  errno = script.watch_errno;
  return script.watch_errno != 0 ? -1 : __real_inotify_add_watch(fd, path, mask);
}

int __wrap_epoll_create1(int flags) {
  errno = script.epoll_errno;
  return script.epoll_errno != 0 ? -1 : __real_epoll_create1(flags);
}

int __wrap_fstat(int fd, struct stat *status) {
  const int result = __real_fstat(fd, status);
  if (script.file_grows) {
    status->st_mtim.tv_nsec = ++script.n_looks;
  }
  if (script.moving != NULL) {
    link_over(script.moving, "policy.json", "two.json");
  }
  return result;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument) {
  return script.thread_errno != 0 ? script.thread_errno
                                  : __real_pthread_create(thread, attributes, run, argument);
}

int __wrap_statfs(const char *path, struct statfs *status) {
  const int result = __real_statfs(path, status);
  if (script.file_system != 0) {
    status->f_type = (__fsword_t)script.file_system;
  }
  errno = script.statfs_errno;
  return script.statfs_errno != 0 ? -1 : result;
}

static int setup(void **state) {
  memset(&script, 0, sizeof script);
  return watched_setup(state);
}

static void follow_by_polling(struct watched *watched, const char *why) {
  put(watched, "policy.json", POLICY(1));
  watched->options.poll_interval_ns = WEIR_MS_NS;
  start_watch(watched);
  assert_true(snapshot_of(watched).polled);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_POLLED), 1);
  assert_non_null(strstr(last_told(watched, WEIR_LOG_POLICY_POLLED), why));
  put_over(watched, "policy.json", POLICY(2));
  while (!wait_and_poll(watched)) {
  }
  assert_int_equal(seconds_in_force(watched), 2);
  assert_int_equal(n_told(watched, WEIR_LOG_POLICY_POLLED), 1);
}

static void without_an_instance_of_inotify_it_is_polled(void **state) {
  script.init_errno = EMFILE;
  follow_by_polling(*state, "fs.inotify.max_user_instances");
}

static void without_watches_it_is_polled_until_there_are_some(void **state) {
  struct watched *watched = *state;
  script.watch_errno = ENOSPC;
  follow_by_polling(watched, "fs.inotify.max_user_watches");
  script.watch_errno = 0;
  (void)wait_and_poll(watched);
  put(watched, "policy.json", POLICY(3));
  while (!wait_and_poll(watched)) {
  }
  assert_int_equal(seconds_in_force(watched), 3);
}

static void what_can_not_be_watched_is_polled_and_the_reason_told(void **state) {
  static const struct {
    int number;
    const char *why;
  } rows[] = {{EACCES, "a directory on its way may not be read"},
              {ENOMEM, "there is no memory for its watches"},
              {EIO, "a directory on its way can't be watched"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(i == 0 ? 0 : setup(state), 0);
    script.watch_errno = rows[i].number;
    follow_by_polling(*state, rows[i].why);
    assert_int_equal(i + 1 == sizeof rows / sizeof rows[0] ? 0 : watched_teardown(state), 0);
  }
}

/* inotify tells of what this machine does there, and of nothing else. */
static void a_file_system_of_the_network_is_polled(void **state) {
  script.file_system = NFS_SUPER_MAGIC;
  follow_by_polling(*state, "it is on a file system that does not tell of all changes");
}

static void an_overlay_is_polled(void **state) {
  script.file_system = OVERLAYFS_SUPER_MAGIC;
  follow_by_polling(*state, "it is on an overlay, which does not tell of all changes");
}

static void a_file_system_that_tells_nothing_of_itself_is_followed(void **state) {
  struct watched *watched = *state;
  script.statfs_errno = EIO;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  assert_false(snapshot_of(watched).polled);
  put_over(watched, "policy.json", POLICY(2));
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
}

static void without_descriptors_it_does_not_start(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  script.epoll_errno = EMFILE;
  assert_int_equal(try_watch(watched), WEIR_ERROR_UNAVAILABLE);
  assert_null(watched->watcher);
  assert_non_null(strstr(watched->diagnostic.message, "descriptors"));
}

static void without_a_thread_it_does_not_start(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  script.thread_errno = EAGAIN;
  watched->options.threadless = false;
  assert_int_equal(try_watch(watched), WEIR_ERROR_UNAVAILABLE);
  assert_null(watched->watcher);
  assert_non_null(strstr(watched->diagnostic.message, "thread"));
}

static void a_file_that_changes_while_it_is_read_is_read_again_later(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  start_watch(watched);
  put(watched, "policy.json", POLICY(2));
  script.file_grows = true;
  assert_false(poll_watch(watched));
  assert_int_equal(snapshot_of(watched).n_refused, 0);
  assert_int_equal(snapshot_of(watched).file, WEIR_POLICY_FILE_IN_FORCE);
  script.file_grows = false;
  assert_true(wait_and_poll(watched)); /* by the timer */
  assert_int_equal(seconds_in_force(watched), 2);
}

static void a_way_that_changes_all_the_time_is_gone_all_the_same(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  put(watched, "two.json", POLICY(2));
  start_watch(watched);
  link_over(watched, "policy.json", "two.json");
  script.moving = watched;
  assert_true(wait_and_poll(watched));
  assert_int_equal(seconds_in_force(watched), 2);
  script.moving = NULL;
}

static void a_file_that_changes_all_the_time_is_no_start(void **state) {
  struct watched *watched = *state;
  put(watched, "policy.json", POLICY(1));
  script.file_grows = true;
  assert_int_equal(try_watch(watched), WEIR_ERROR_UNAVAILABLE);
  assert_non_null(strstr(watched->diagnostic.message, "while it was read"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, watched_teardown)
      TEST(without_an_instance_of_inotify_it_is_polled),
      TEST(without_watches_it_is_polled_until_there_are_some),
      TEST(what_can_not_be_watched_is_polled_and_the_reason_told),
      TEST(a_file_system_of_the_network_is_polled),
      TEST(an_overlay_is_polled),
      TEST(a_file_system_that_tells_nothing_of_itself_is_followed),
      TEST(without_descriptors_it_does_not_start),
      TEST(without_a_thread_it_does_not_start),
      TEST(a_file_that_changes_while_it_is_read_is_read_again_later),
      TEST(a_way_that_changes_all_the_time_is_gone_all_the_same),
      TEST(a_file_that_changes_all_the_time_is_no_start),
#undef TEST
  };
  return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
