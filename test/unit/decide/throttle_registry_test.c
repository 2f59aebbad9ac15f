/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/error.h>
#include <weir/throttle.h>

#include <cmocka.h>

#include "src/decide/throttle.h"

#define MAX_TOKENS 10
#define N_CHANNELS 10000

static weir_throttle *acquire(const char *target) {
  weir_throttle *throttle = NULL;
  assert_int_equal(weir_throttle_acquire(target, MAX_TOKENS, 100, &throttle), WEIR_OK);
  return throttle;
}

static weir_throttle *acquire_nth(const char *kind, size_t nth) {
  char target[32];
  snprintf(target, sizeof target, "%s-%zu:1", kind, nth);
  return acquire(target);
}

static struct weir__throttle_census count(void) {
  struct weir__throttle_census census;
  weir__throttle_registry_count(&census);
  return census;
}

/* Nobody has a share when a test begins or ends; what is kept is of names that it does not use. */
static int nobody_has_a_share(void **state) {
  (void)state;
  assert_int_equal(count().n_shared, 0);
  return 0;
}

static void fail_once(weir_throttle *throttle) {
  (void)weir_throttle_record_failure(throttle);
}

/* Uses a name, as a channel that is made for one request. */
static uint32_t use_once(const char *kind, size_t nth) {
  weir_throttle *throttle = acquire_nth(kind, nth);
  fail_once(throttle);
  uint32_t tokens_milli = weir_throttle_tokens_milli(throttle);
  weir_throttle_release(throttle);
  return tokens_milli;
}

static void a_bucket_lasts_while_one_channel_has_it(void **state) {
  (void)state;
  weir_throttle *a = acquire("lasting:1");
  weir_throttle *b = acquire("lasting:1");
  fail_once(a);
  weir_throttle_release(a);
  assert_int_equal(weir_throttle_tokens_milli(b), 9000);

  weir_throttle_ref(b);
  weir_throttle_release(b);
  assert_int_equal(count().n_shared, 1);
  assert_int_equal(weir_throttle_tokens_milli(b), 9000);
  weir_throttle_release(b);
}

static void a_channel_for_each_request_gets_no_full_bucket_each_time(void **state) {
  (void)state;
  for (uint32_t i = 1; i <= MAX_TOKENS; i++) {
    assert_int_equal(use_once("request", 0), (MAX_TOKENS - i) * 1000);
  }
}

/* A policy without retryThrottling gives the share back; the next with one finds the level. */
static void a_level_is_kept_while_no_policy_throttles(void **state) {
  (void)state;
  weir_throttle *before = acquire("swapped:1");
  fail_once(before);
  weir_throttle_release(before);

  weir_throttle *after = NULL;
  assert_int_equal(weir_throttle_acquire("swapped:1", 100, 100, &after), WEIR_OK);
  assert_int_equal(weir_throttle_tokens_milli(after), 90000);
  weir_throttle_release(after);
}

static void a_full_bucket_is_not_kept(void **state) {
  (void)state;
  struct weir__throttle_census before = count();

  weir_throttle_release(acquire("full:1"));

  assert_int_equal(count().n_kept, before.n_kept);
}

static void a_bucket_that_is_taken_up_again_is_kept_no_longer(void **state) {
  (void)state;
  size_t n_kept = count().n_kept;
  (void)use_once("again", 0);
  assert_int_equal(count().n_kept, n_kept + 1);

  weir_throttle *again = acquire("again-0:1");

  assert_int_equal(count().n_kept, n_kept);
  assert_int_equal(count().n_shared, 1);
  weir_throttle_release(again);
}

static void levels_of_the_last_names_are_kept_and_the_oldest_go_first(void **state) {
  (void)state;
  for (size_t i = 0; i < WEIR_THROTTLE_KEPT_NAMES; i++) {
    (void)use_once("last", i);
  }
  assert_int_equal(count().n_kept, WEIR_THROTTLE_KEPT_NAMES);
  assert_int_equal(use_once("last", 0), 8000); /* the oldest, and now the newest */

  (void)use_once("pushing", 0); /* pushes out the second */

  assert_int_equal(count().n_kept, WEIR_THROTTLE_KEPT_NAMES);
  assert_int_equal(use_once("last", 2), 8000);
  assert_int_equal(use_once("last", 0), 7000);
  assert_int_equal(use_once("last", 1), 9000); /* full again at first */
}

static void a_bucket_that_somebody_has_is_never_pushed_out(void **state) {
  (void)state;
  weir_throttle *held = acquire("held:1");
  fail_once(held);
  for (size_t i = 0; i < WEIR_THROTTLE_KEPT_NAMES + 10; i++) {
    (void)use_once("crowd", i);
  }

  weir_throttle *same = acquire("held:1");

  assert_ptr_equal(held, same);
  weir_throttle_release(held);
  weir_throttle_release(same);
}

/* A look-up goes through one chain; there are as many as names, or more. */
static void the_table_grows_with_the_names_and_shrinks_again(void **state) {
  (void)state;
  static weir_throttle *throttles[N_CHANNELS];
  size_t n_chains = count().n_chains;
  for (size_t i = 0; i < N_CHANNELS; i++) {
    throttles[i] = acquire_nth("channel", i);
  }
  assert_int_equal(count().n_shared, N_CHANNELS);
  assert_true(count().n_chains >= N_CHANNELS);
  for (size_t i = 0; i < N_CHANNELS; i++) {
    weir_throttle *same = acquire_nth("channel", i);
    assert_ptr_equal(same, throttles[i]);
    weir_throttle_release(same);
  }

  for (size_t i = 0; i < N_CHANNELS; i++) {
    weir_throttle_release(throttles[i]);
  }
  assert_int_equal(count().n_shared, 0);
  assert_true(count().n_chains <= 8 * WEIR_THROTTLE_KEPT_NAMES);
  assert_true(count().n_chains >= n_chains);
}

static void what_is_kept_can_be_forgotten(void **state) {
  (void)state;
  weir_throttle *held = acquire("remembered:1");
  fail_once(held);
  for (size_t i = 0; i < 3; i++) {
    (void)use_once("forgotten", i);
  }

  weir_throttle_forget();
  weir_throttle_forget();

  assert_int_equal(count().n_kept, 0);
  assert_int_equal(count().n_shared, 1);
  assert_int_equal(use_once("forgotten", 1), 9000);
  assert_int_equal(weir_throttle_tokens_milli(held), 9000);
  weir_throttle_release(held);
}

/* ---- fork ---- */

static void *come_and_go(void *stop) {
  while (!atomic_load((atomic_bool *)stop)) {
    (void)use_once("busy", 0);
  }
  return NULL;
}

static void a_child_has_the_levels_and_an_unlocked_registry(void **state) {
  (void)state;
  atomic_bool stop;
  pthread_t thread;
  weir_throttle *throttle = acquire("forked:1");
  atomic_init(&stop, false);
  fail_once(throttle);
  assert_int_equal(pthread_create(&thread, NULL, come_and_go, &stop), 0);

  for (int i = 0; i < 50; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      weir_throttle *same = NULL;
      (void)alarm(20); /* or a child that finds the lock taken would wait for ever */
      bool found = weir_throttle_acquire("forked:1", MAX_TOKENS, 100, &same) == WEIR_OK &&
                   same == throttle && weir_throttle_tokens_milli(same) == 9000;
      (void)weir_throttle_record_failure(same);
      weir_throttle_release(same);
      _exit(found ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }

  atomic_store(&stop, true);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 9000); /* the child's were its own */
  weir_throttle_release(throttle);
}

int main(void) {
#define ALONE(test) cmocka_unit_test_setup_teardown(test, nobody_has_a_share, nobody_has_a_share)
  const struct CMUnitTest tests[] = {
      ALONE(a_bucket_lasts_while_one_channel_has_it),
      ALONE(a_channel_for_each_request_gets_no_full_bucket_each_time),
      ALONE(a_level_is_kept_while_no_policy_throttles),
      ALONE(a_full_bucket_is_not_kept),
      ALONE(a_bucket_that_is_taken_up_again_is_kept_no_longer),
      ALONE(levels_of_the_last_names_are_kept_and_the_oldest_go_first),
      ALONE(a_bucket_that_somebody_has_is_never_pushed_out),
      ALONE(the_table_grows_with_the_names_and_shrinks_again),
      ALONE(what_is_kept_can_be_forgotten),
      ALONE(a_child_has_the_levels_and_an_unlocked_registry),
  };
  return cmocka_run_group_tests_name("throttle_registry", tests, NULL, NULL);
}
