/* A watcher with a thread of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/support/child_exit.h"
#include "test/unit/watch/watched.h"

static void start_with_thread(struct watched *watched) {
  put(watched, "policy.json", POLICY(1));
  watched->options.threadless = false;
  start_watch(watched);
}

/* What /proc says of the thread of that name, in a line that begins so; false: there is none. */
static bool thread_says(const char *name, const char *key, char *value_out, size_t value_size) {
  DIR *tasks = opendir("/proc/self/task");
  bool found = false;
  assert_non_null(tasks);
  for (const struct dirent *task = next_entry(tasks); task != NULL; task = next_entry(tasks)) {
    char path[PATH_MAX];
    char line[256];
    bool is_it = false;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *status = fopen(path, "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
      is_it = is_it || (strncmp(line, "Name:", 5) == 0 && strstr(line, name) != NULL);
      if (is_it && strncmp(line, key, strlen(key)) == 0) {
        snprintf(value_out, value_size, "%s", line + strlen(key));
        found = true;
      }
    }
    if (status != NULL) {
      (void)fclose(status);
    }
  }
  (void)closedir(tasks);
  return found;
}

static void the_thread_loads_what_is_new(void **state) {
  struct watched *watched = *state;
  start_with_thread(watched);
  put(watched, "policy.json", POLICY(2));
  wait_for(&watched->changed);
  assert_int_equal(seconds_in_force(watched), 2);
  put_over(watched, "policy.json", BAD_POLICY);
  wait_for(&watched->refused);
  assert_int_equal(seconds_in_force(watched), 2);
  put_over(watched, "policy.json", POLICY(3));
  wait_for(&watched->changed);
  assert_int_equal(seconds_in_force(watched), 3);
  assert_int_equal(snapshot_of(watched).generation, 3);
}

static void the_thread_has_a_name_and_no_signals_and_ends_with_the_watcher(void **state) {
  struct watched *watched = *state;
  char value[256];
  start_with_thread(watched);
  put(watched, "policy.json", POLICY(2));
  wait_for(&watched->changed); /* it has its name by then */
  assert_true(thread_says("weir-policy", "SigBlk:", value, sizeof value));
  const unsigned long long blocked = strtoull(value, NULL, 16);
  assert_true((blocked & (1ULL << (SIGTERM - 1))) != 0);
  assert_true((blocked & (1ULL << (SIGHUP - 1))) != 0);
  end_watch(watched);
  assert_false(thread_says("weir-policy", "SigBlk:", value, sizeof value));
}

/* A write through a mapping is no event. */
static void a_reload_has_the_thread_look(void **state) {
  struct watched *watched = *state;
  static const char other[] = POLICY(4);
  start_with_thread(watched);
  const int fd = open(watched->path, O_RDWR | O_CLOEXEC);
  assert_true(fd >= 0);
  char *mapped = mmap(NULL, strlen(POLICY(1)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_ptr_not_equal(mapped, MAP_FAILED);
  assert_int_equal(close(fd), 0);
  memcpy(mapped, other, sizeof other - 1);
  weir_policy_watcher_reload(watched->watcher);
  wait_for(&watched->changed);
  assert_int_equal(seconds_in_force(watched), 4);
  assert_int_equal(munmap(mapped, strlen(POLICY(1))), 0);
}

static void callbacks_in_the_thread_may_end_the_watcher(void **state) {
  struct watched *watched = *state;
  watched->frees = true;
  start_with_thread(watched);
  put(watched, "policy.json", POLICY(2));
  wait_for(&watched->changed);
  char value[256];
  while (thread_says("weir-policy", "SigBlk:", value, sizeof value)) {
  }
  watched->watcher = NULL;
}

/* Ends the watcher when it is not the watcher's thread that has looked; there is more to look at
 * then. */
struct poller {
  struct watched *watched;
  pthread_t thread;
  bool has_freed;
};

static void free_as_poller(void *context, weir_policy *policy, uint64_t generation) {
  struct poller *poller = context;
  (void)policy;
  (void)generation;
  if (pthread_equal(pthread_self(), poller->thread)) {
    put_over(poller->watched, "policy.json", POLICY(4));
    weir_policy_watcher_free(poller->watched->watcher);
    poller->has_freed = true;
  }
}

static void who_polls_beside_the_thread_may_end_the_watcher(void **state) {
  struct watched *watched = *state;
  struct poller poller = {.watched = watched, .thread = pthread_self()};
  watched->options.on_change = free_as_poller;
  watched->options.context = &poller;
  watched->options.on_refused = NULL;
  for (int i = 0; i < 20; i++) {
    poller.has_freed = false;
    start_with_thread(watched);
    for (unsigned nth = 0; !poller.has_freed; nth++) {
      put_over(watched, "policy.json", nth % 2 == 0 ? POLICY(2) : POLICY(3));
      (void)poll_watch(watched);
    }
    watched->watcher = NULL;
  }
}

static void an_idle_thread_ends_at_once(void **state) {
  struct watched *watched = *state;
  for (int i = 0; i < 50; i++) {
    start_with_thread(watched);
    end_watch(watched);
  }
}

static void the_thread_polls_where_it_is_to(void **state) {
  struct watched *watched = *state;
  watched->options.always_polls = true;
  watched->options.poll_interval_ns = WEIR_MS_NS;
  start_with_thread(watched);
  while (snapshot_of(watched).n_unchanged < 3) {
  }
}

static void the_child_of_a_fork_may_free_it(void **state) {
  struct watched *watched = *state;
  start_with_thread(watched);
  const pid_t child = fork();
  if (child == 0) {
    weir_policy_watcher_free(watched->watcher);
    child_exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  put(watched, "policy.json", POLICY(2));
  wait_for(&watched->changed);
}

/* ---- all at once ---- */

#define N_ROUNDS 200

struct busy {
  struct watched *watched;
  atomic_bool done;
};

static void *ask(void *argument) {
  struct busy *busy = argument;
  while (!atomic_load_explicit(&busy->done, memory_order_relaxed)) {
    const int64_t seconds = seconds_in_force(busy->watched);
    if (seconds < 1 || seconds > 9) {
      return busy;
    }
    (void)snapshot_of(busy->watched);
    (void)weir_policy_watcher_poll(busy->watched->watcher);
    weir_policy_watcher_reload(busy->watched->watcher);
  }
  return NULL;
}

static void the_last_of_many_changes_is_in_force_in_the_end(void **state) {
  struct watched *watched = *state;
  struct busy busy = {.watched = watched};
  pthread_t threads[2];
  atomic_init(&busy.done, false);
  start_with_thread(watched);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, ask, &busy), 0);
  }
  for (int i = 0; i < N_ROUNDS; i++) {
    switch (i % 4) {
    case 0:
      put(watched, "policy.json", POLICY(2));
      break;
    case 1:
      put_over(watched, "policy.json", POLICY(3));
      break;
    case 2:
      put_over(watched, "policy.json", BAD_POLICY);
      break;
    default:
      delete (watched, "policy.json");
      break;
    }
  }
  put_over(watched, "policy.json", POLICY(5));
  while (seconds_in_force(watched) != 5) {
    wait_for(&watched->changed);
  }
  atomic_store_explicit(&busy.done, true, memory_order_relaxed);
  for (size_t i = 0; i < 2; i++) {
    void *result = NULL;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_null(result);
  }
}

static void *link_on_and_on(void *argument) {
  struct busy *busy = argument;
  char link[PATH_MAX];
  snprintf(link, sizeof link, "%s/link", busy->watched->directory);
  for (unsigned nth = 0; !atomic_load_explicit(&busy->done, memory_order_relaxed); nth++) {
    if (symlink(nth % 2 == 0 ? "two.json" : "three.json", link) != 0 ||
        rename(link, busy->watched->path) != 0) {
      return busy;
    }
  }
  return NULL;
}

static void changes_without_a_pause_hold_nothing_up(void **state) {
  struct watched *watched = *state;
  struct busy busy = {.watched = watched};
  pthread_t thread;
  void *result = NULL;
  atomic_init(&busy.done, false);
  put(watched, "two.json", POLICY(2));
  put(watched, "three.json", POLICY(3));
  start_with_thread(watched);
  assert_int_equal(pthread_create(&thread, NULL, link_on_and_on, &busy), 0);
  for (int i = 0; i < 20; i++) {
    wait_for(&watched->changed);
  }
  atomic_store_explicit(&busy.done, true, memory_order_relaxed);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_null(result);
  assert_int_equal(snapshot_of(watched).n_refused, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, watched_setup, watched_teardown)
      TEST(the_thread_loads_what_is_new),
      TEST(the_thread_has_a_name_and_no_signals_and_ends_with_the_watcher),
      TEST(a_reload_has_the_thread_look),
      TEST(callbacks_in_the_thread_may_end_the_watcher),
      TEST(who_polls_beside_the_thread_may_end_the_watcher),
      TEST(an_idle_thread_ends_at_once),
      TEST(the_thread_polls_where_it_is_to),
      TEST(the_child_of_a_fork_may_free_it),
      TEST(changes_without_a_pause_hold_nothing_up),
      TEST(the_last_of_many_changes_is_in_force_in_the_end),
#undef TEST
  };
  return cmocka_run_group_tests_name("watcher_thread", tests, NULL, NULL);
}
