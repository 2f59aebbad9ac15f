/* A policy file that changes while calls are made by it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/test_server.h"

#define WAIT_S 10

static const struct answer fails = {.code = GRPC_STATUS_UNAVAILABLE, .text = "not now"};
static const struct script fails_always = {.answers = &fails, .n_answers = 1};

/* A server, a channel to it, and the file that says how often it is asked. */
struct fixture {
  char directory[512];
  char path[1024];
  char new_path[1024];
  weir__test_server *server;
  weir_channel *channel;
  weir_policy_watcher *watcher;
  sem_t changed;
  atomic_bool done;
};

static void put_over(const struct fixture *f, const char *policy) {
  FILE *file = fopen(f->new_path, "w");
  assert_non_null(file);
  assert_true(fputs(policy, file) >= 0);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(rename(f->new_path, f->path), 0);
}

static void on_change(void *context, weir_policy *policy, uint64_t generation) {
  struct fixture *f = context;
  (void)policy;
  (void)generation;
  sem_post(&f->changed);
}

static void wait_for_change(struct fixture *f) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WAIT_S;
  assert_int_equal(sem_timedwait(&f->changed, &until), 0);
}

static int setup(void **state) {
  static struct fixture fixture;
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *base = getenv("TEST_TMPDIR");
  struct weir_policy_watch_options options = WEIR_POLICY_WATCH_OPTIONS_INIT;
  memset(&fixture, 0, sizeof fixture);
  snprintf(fixture.directory, sizeof fixture.directory, "%s/watch-XXXXXX",
           base != NULL ? base : "/tmp");
  if (mkdtemp(fixture.directory) == NULL) {
    return -1;
  }
  snprintf(fixture.path, sizeof fixture.path, "%s/policy.json", fixture.directory);
  snprintf(fixture.new_path, sizeof fixture.new_path, "%s/policy.new", fixture.directory);
  (void)sem_init(&fixture.changed, 0, 0);
  atomic_init(&fixture.done, false);
  put_over(&fixture, POLICY_PLAIN);
  options.on_change = on_change;
  options.context = &fixture;
  if (weir_policy_watch(fixture.path, &options, &fixture.watcher, NULL) != WEIR_OK) {
    return -1;
  }
  fixture.server = weir__test_server_new(answer_by_script, (void *)(uintptr_t)&fails_always, 0);
  fixture.channel = channel_to(weir__test_server_port(fixture.server), POLICY_RETRY);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir_channel_destroy(f->channel);
  weir_policy_watcher_free(f->watcher);
  weir__test_server_release(f->server);
  (void)sem_destroy(&f->changed);
  (void)unlink(f->path);
  return rmdir(f->directory);
}

static unsigned attempts_of_a_call(const struct fixture *f) {
  struct unary unary;
  unary_run(&unary, f->channel, NULL);
  const unsigned n_attempts = unary.report.n_attempts;
  unary_fini(&unary);
  return n_attempts;
}

static void a_channel_goes_by_the_file_from_when_it_is_added_until_it_is_removed(void **state) {
  struct fixture *f = *state;
  struct weir_policy_watch_snapshot snapshot = WEIR_POLICY_WATCH_SNAPSHOT_INIT;
  assert_int_equal(attempts_of_a_call(f), 3);
  assert_int_equal(weir_policy_watcher_add_channel(f->watcher, f->channel, NULL), WEIR_OK);
  assert_int_equal(attempts_of_a_call(f), 1);
  assert_int_equal(weir_policy_watcher_add_channel(f->watcher, f->channel, NULL),
                   WEIR_ERROR_INVALID_ARGUMENT);
  put_over(f, POLICY_RETRY);
  wait_for_change(f);
  assert_int_equal(attempts_of_a_call(f), 3);
  assert_int_equal(weir_policy_watcher_snapshot(f->watcher, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.n_channels, 1);
  assert_int_equal(snapshot.n_channels_behind, 0);
  weir_policy_watcher_remove_channel(f->watcher, f->channel);
  weir_policy_watcher_remove_channel(f->watcher, f->channel);
  put_over(f, POLICY_PLAIN);
  wait_for_change(f);
  assert_int_equal(attempts_of_a_call(f), 3);
  assert_int_equal(weir_policy_watcher_snapshot(f->watcher, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.n_channels, 0);
}

/* The channel's last share may be the watcher's: the teardown destroys it first. */
static void a_channel_may_be_destroyed_before_the_watcher(void **state) {
  struct fixture *f = *state;
  assert_int_equal(weir_policy_watcher_add_channel(f->watcher, f->channel, NULL), WEIR_OK);
  weir_channel_destroy(f->channel);
  put_over(f, POLICY_RETRY);
  wait_for_change(f);
  weir_policy_watcher_remove_channel(f->watcher, f->channel);
  f->channel = channel_to(weir__test_server_port(f->server), POLICY_PLAIN);
  assert_int_equal(weir_policy_watcher_add_channel(f->watcher, f->channel, NULL), WEIR_OK);
  assert_int_equal(attempts_of_a_call(f), 3);
}

/* ---- from within a swap ---- */

/* What the core is not told of, so that the channel's log is written to as it takes the policy. */
#define POLICY_ROUND_ROBIN \
  "{" NO_BOUNDARY "," NO_BREAKER ",\"loadBalancingConfig\":[{\"round_robin\":{}}]}"

struct leaver {
  weir_policy_watcher *watcher;
  weir_channel *channel;
  sem_t left;
};

static void leave(void *context, const struct weir_log_record *record) {
  struct leaver *leaver = context;
  if (record->event == WEIR_LOG_CORE_CONFIG_KEPT) {
    weir_policy_watcher_remove_channel(leaver->watcher, leaver->channel);
    (void)sem_post(&leaver->left);
  }
}

static struct leaver leaver;

static void leaver_open(const struct fixture *f) {
  static const struct weir_log_sink log = {.size = sizeof log, .write = leave, .context = &leaver};
  (void)sem_init(&leaver.left, 0, 0);
  leaver.watcher = f->watcher;
  leaver.channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(f->server), .policy = POLICY_PLAIN, .log = &log});
}

static void leaver_close(const struct fixture *f, size_t n_left) {
  struct weir_policy_watch_snapshot snapshot = WEIR_POLICY_WATCH_SNAPSHOT_INIT;
  int n_posted = 0;
  assert_int_equal(weir_policy_watcher_snapshot(f->watcher, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.n_channels, 0);
  assert_int_equal(sem_getvalue(&leaver.left, &n_posted), 0);
  assert_int_equal(n_posted, n_left);
  weir_channel_destroy(leaver.channel);
  (void)sem_destroy(&leaver.left);
}

/* Who is told of the change that a file has made may end it for the channel. */
static void a_channel_may_be_removed_while_it_takes_the_policy(void **state) {
  struct fixture *f = *state;
  leaver_open(f);
  assert_int_equal(weir_policy_watcher_add_channel(f->watcher, leaver.channel, NULL), WEIR_OK);
  put_over(f, POLICY_ROUND_ROBIN);
  wait_for_change(f);
  leaver_close(f, 1);
}

static void a_channel_may_be_removed_while_it_is_added(void **state) {
  struct fixture *f = *state;
  put_over(f, POLICY_ROUND_ROBIN);
  wait_for_change(f);
  leaver_open(f);
  assert_int_equal(weir_policy_watcher_add_channel(f->watcher, leaver.channel, NULL), WEIR_OK);
  leaver_close(f, 1);
}

/* ---- many at once ---- */

#define N_THREADS 4
#define N_CHANGES 100

static void *call_on_and_on(void *argument) {
  const struct fixture *f = argument;
  while (!atomic_load_explicit(&f->done, memory_order_relaxed)) {
    const unsigned n_attempts = attempts_of_a_call(f);
    if (n_attempts != 1 && n_attempts != 3) {
      return argument;
    }
  }
  return NULL;
}

static void *add_and_remove(void *argument) {
  struct fixture *f = argument;
  weir_channel *other = channel_to(weir__test_server_port(f->server), POLICY_PLAIN);
  while (!atomic_load_explicit(&f->done, memory_order_relaxed)) {
    if (weir_policy_watcher_add_channel(f->watcher, other, NULL) != WEIR_OK) {
      return argument;
    }
    weir_policy_watcher_remove_channel(f->watcher, other);
  }
  weir_channel_destroy(other);
  return NULL;
}

static void calls_go_by_the_newest_file_while_it_changes_over_and_over(void **state) {
  struct fixture *f = *state;
  pthread_t threads[N_THREADS + 1];
  assert_int_equal(weir_policy_watcher_add_channel(f->watcher, f->channel, NULL), WEIR_OK);
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, call_on_and_on, f), 0);
  }
  assert_int_equal(pthread_create(&threads[N_THREADS], NULL, add_and_remove, f), 0);
  for (int i = 0; i < N_CHANGES; i++) {
    put_over(f, i % 2 == 0 ? POLICY_RETRY : POLICY_PLAIN);
    wait_for_change(f);
    if (i % 10 < 2) {
      assert_int_equal(attempts_of_a_call(f), i % 2 == 0 ? 3 : 1);
    }
  }
  atomic_store_explicit(&f->done, true, memory_order_relaxed);
  for (size_t i = 0; i <= N_THREADS; i++) {
    void *result = NULL;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_null(result);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      TEST(a_channel_goes_by_the_file_from_when_it_is_added_until_it_is_removed),
      TEST(a_channel_may_be_destroyed_before_the_watcher),
      TEST(a_channel_may_be_removed_while_it_takes_the_policy),
      TEST(a_channel_may_be_removed_while_it_is_added),
      TEST(calls_go_by_the_newest_file_while_it_changes_over_and_over),
#undef TEST
  };
  return cmocka_run_group_tests_name("policy_watch", tests, start_core, stop_core);
}
