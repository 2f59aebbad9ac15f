/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <pthread.h>

#include <weir/error.h>

#include <cmocka.h>

#include <weir/throttle.h>

#include "src/decide/throttle.h"

#define N_THREADS 8
#define N_ROUNDS 10000
#define MAX_TOKENS 1000

struct worker {
  pthread_t thread;
  pthread_barrier_t *start;
  weir_throttle *throttle;
  uint32_t n_failures;
  uint32_t n_successes;
};

static void *record_all(void *context) {
  struct worker *worker = context;
  (void)pthread_barrier_wait(worker->start);
  for (uint32_t i = 0; i < worker->n_failures; i++) {
    (void)weir_throttle_record_failure(worker->throttle);
  }
  for (uint32_t i = 0; i < worker->n_successes; i++) {
    weir_throttle_record_success(worker->throttle);
  }
  return NULL;
}

/* As a channel that comes, changes its policy, and goes. */
static void *come_and_go(void *context) {
  struct worker *worker = context;
  (void)pthread_barrier_wait(worker->start);
  for (uint32_t i = 0; i < N_ROUNDS / 10; i++) {
    weir_throttle *throttle = NULL;
    if (weir_throttle_acquire("dns:///busy", 1 + i % MAX_TOKENS, 1 + i % 7, &throttle) == WEIR_OK) {
      (void)weir_throttle_record_failure(throttle);
      weir_throttle_record_success(throttle);
    }
    weir_throttle_release(throttle);
  }
  return NULL;
}

static void run(struct worker workers[N_THREADS], void *(*body)(void *)) {
  pthread_barrier_t start;
  assert_int_equal(pthread_barrier_init(&start, NULL, N_THREADS), 0);
  for (size_t i = 0; i < N_THREADS; i++) {
    workers[i].start = &start;
    assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
  }
  assert_int_equal(pthread_barrier_destroy(&start), 0);
}

static weir_throttle *acquire(uint32_t max_tokens, uint32_t token_ratio_milli) {
  weir_throttle *throttle = NULL;
  assert_int_equal(weir_throttle_acquire("busy", max_tokens, token_ratio_milli, &throttle),
                   WEIR_OK);
  return throttle;
}

/* 8 x 100 failures from full, then each thread gives 10,000 thousandths back: nothing is clamped
 * in between whatever the order, since what is taken is taken before. */
static void no_token_is_lost_or_made(void **state) {
  (void)state;
  struct worker workers[N_THREADS];
  weir_throttle *throttle = acquire(MAX_TOKENS, 1);
  memset(workers, 0, sizeof workers);
  for (size_t i = 0; i < N_THREADS; i++) {
    workers[i].throttle = throttle;
    workers[i].n_failures = 100;
  }
  run(workers, record_all);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 200000);

  for (size_t i = 0; i < N_THREADS; i++) {
    workers[i].n_failures = 0;
    workers[i].n_successes = N_ROUNDS;
  }
  run(workers, record_all);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 200000 + N_THREADS * N_ROUNDS);
  weir_throttle_release(throttle);
}

static void the_bucket_stays_whole_while_channels_come_and_go(void **state) {
  (void)state;
  struct worker workers[N_THREADS];
  weir_throttle *throttle = acquire(10, 100);
  memset(workers, 0, sizeof workers);

  run(workers, come_and_go);

  weir_throttle *same = acquire(10, 100);
  assert_ptr_equal(same, throttle);
  assert_true(weir_throttle_tokens_milli(throttle) <= 10000);
  weir_throttle_release(same);
  weir_throttle_release(throttle);
}

/* The first one changes the policy all the time, the others fail. */
static void *change_or_fail(void *context) {
  struct worker *worker = context;
  (void)pthread_barrier_wait(worker->start);
  for (uint32_t i = 0; i < worker->n_successes; i++) {
    weir_throttle *throttle = NULL;
    uint32_t max_tokens = i % 2 == 0 ? MAX_TOKENS : worker->n_failures;
    if (weir_throttle_acquire("busy", max_tokens, 1 + i % 900, &throttle) == WEIR_OK) {
      weir_throttle_release(throttle);
    }
  }
  for (uint32_t i = 0; worker->n_successes == 0 && i < worker->n_failures; i++) {
    (void)weir_throttle_record_failure(worker->throttle);
  }
  return NULL;
}

/* 7 x 50 failures take as many tokens of 1000; and of those that are counted while the maximum is
 * 500, up to twice as many. */
static void changes_of_the_policy_lose_no_failure(void **state) {
  (void)state;
  static const uint32_t other_maximum[] = {MAX_TOKENS, 500};
  for (size_t row = 0; row < 2; row++) {
    struct worker workers[N_THREADS];
    weir_throttle_forget();
    weir_throttle *throttle = acquire(MAX_TOKENS, 1);
    memset(workers, 0, sizeof workers);
    for (size_t i = 0; i < N_THREADS; i++) {
      workers[i].throttle = throttle;
      workers[i].n_failures = 50;
    }
    workers[0].n_successes = N_ROUNDS;
    workers[0].n_failures = other_maximum[row];
    run(workers, change_or_fail);
    weir_throttle_release(acquire(MAX_TOKENS, 1));
    uint32_t left_milli = weir_throttle_tokens_milli(throttle);
    assert_in_range(left_milli, row == 0 ? 650000 : 300000 - 1, 650000);
    weir_throttle_release(throttle);
  }
}

/* Each of them leaves the bucket to nobody, and finds it again, all the time. */
static void *leave_and_return(void *context) {
  struct worker *worker = context;
  (void)pthread_barrier_wait(worker->start);
  for (uint32_t i = 0; i < N_ROUNDS / 10; i++) {
    weir_throttle *throttle = NULL;
    if (weir_throttle_acquire("nobodys:1", MAX_TOKENS, 1, &throttle) == WEIR_OK &&
        i < worker->n_failures) {
      (void)weir_throttle_record_failure(throttle);
    }
    weir_throttle_release(throttle);
  }
  return NULL;
}

static void a_level_outlives_the_last_of_many_channels(void **state) {
  (void)state;
  struct worker workers[N_THREADS];
  memset(workers, 0, sizeof workers);
  for (size_t i = 0; i < N_THREADS; i++) {
    workers[i].n_failures = 50;
  }

  run(workers, leave_and_return);

  weir_throttle *anew = NULL;
  assert_int_equal(weir_throttle_acquire("nobodys:1", MAX_TOKENS, 1, &anew), WEIR_OK);
  assert_int_equal(weir_throttle_tokens_milli(anew), (MAX_TOKENS - N_THREADS * 50) * 1000);
  weir_throttle_release(anew);
}

/* Many names, more than are kept, so that threads push out what others look for. */
static void *wander(void *context) {
  struct worker *worker = context;
  (void)pthread_barrier_wait(worker->start);
  for (uint32_t i = 0; i < N_ROUNDS / 2; i++) {
    char target[32];
    weir_throttle *throttle = NULL;
    snprintf(target, sizeof target, "wandered-%u:1", (i * 7919u + worker->n_failures) % 3000u);
    if (weir_throttle_acquire(target, 1 + i % 9, 100, &throttle) == WEIR_OK) {
      (void)weir_throttle_record_failure(throttle);
      weir_throttle_ref(throttle);
      weir_throttle_release(throttle);
    }
    weir_throttle_release(throttle);
  }
  return NULL;
}

static void names_come_and_go_among_threads(void **state) {
  (void)state;
  struct worker workers[N_THREADS];
  struct weir__throttle_census census;
  memset(workers, 0, sizeof workers);
  for (uint32_t i = 0; i < N_THREADS; i++) {
    workers[i].n_failures = i * 375;
  }

  run(workers, wander);

  weir__throttle_registry_count(&census);
  assert_int_equal(census.n_shared, 0);
  assert_int_equal(census.n_kept, WEIR_THROTTLE_KEPT_NAMES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_token_is_lost_or_made),
      cmocka_unit_test(the_bucket_stays_whole_while_channels_come_and_go),
      cmocka_unit_test(changes_of_the_policy_lose_no_failure),
      cmocka_unit_test(a_level_outlives_the_last_of_many_channels),
      cmocka_unit_test(names_come_and_go_among_threads),
  };
  return cmocka_run_group_tests_name("throttle_threads", tests, NULL, NULL);
}
