/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/clock.h>
#include <weir/random.h>

#include <cmocka.h>

#include "src/base/random.h"
#include "test/support/child_exit.h"

#define N_DRAWS 64
#define N_THREADS 8
#define N_THREAD_DRAWS 1000

static uint64_t constant_next(void *context) {
  return *(const uint64_t *)context;
}

static double unit_of(uint64_t value) {
  const struct weir_random random = {sizeof random, constant_next, &value};
  return weir_random_unit(&random);
}

static uint64_t draw_from(const struct weir_random *random) {
  return random->next(random->context);
}

static void draw_many(const struct weir_random *random, uint64_t *values_out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    values_out[i] = draw_from(random);
  }
}

static int compare(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a;
  uint64_t right = *(const uint64_t *)b;
  return left < right ? -1 : left > right;
}

/* Of 64 bits each: two that are equal come from one sequence, not by chance. */
static void assert_all_differ(uint64_t *values, size_t n) {
  qsort(values, n, sizeof *values, compare);
  for (size_t i = 1; i < n; i++) {
    assert_int_not_equal(values[i - 1], values[i]);
  }
}

static void the_unit_interval_has_its_lower_bound_and_not_its_upper(void **state) {
  (void)state;
  assert_true(unit_of(0) == 0.0);
  assert_true(unit_of(UINT64_C(1) << 63) == 0.5);
  assert_true(unit_of(UINT64_MAX) < 1.0);
  assert_true(unit_of(UINT64_MAX) > 0.999999999999999);
}

static void a_unit_is_the_threads_own_without_a_source(void **state) {
  (void)state;
  double least = 1.0;
  double most = 0.0;
  for (int i = 0; i < 1000; i++) {
    double unit = weir_random_unit(NULL);
    assert_true(unit >= 0.0 && unit < 1.0);
    least = unit < least ? unit : least;
    most = unit > most ? unit : most;
  }
  assert_true(least < 0.1 && most > 0.9); /* else once in 10^45 runs */
}

static void a_given_source_is_used(void **state) {
  (void)state;
  uint64_t value = 1;
  const struct weir_random random = {sizeof random, constant_next, &value};

  assert_ptr_equal(weir__random_or_default(&random), &random);
  assert_ptr_equal(weir__random_or_default(NULL), weir_random_thread());
}

static void *draw_in_thread(void *values_out) {
  draw_many(weir_random_thread(), values_out, N_THREAD_DRAWS);
  return NULL;
}

/* A shared sequence would make the threads of a fleet return together. */
static void threads_do_not_share_a_sequence(void **state) {
  (void)state;
  static uint64_t values[N_THREADS][N_THREAD_DRAWS];
  pthread_t threads[N_THREADS];
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, draw_in_thread, values[i]), 0);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }

  assert_all_differ(values[0], (size_t)N_THREADS * N_THREAD_DRAWS);
}

/* Draws in a child, and in a child of that one if there is to be one. False: a system call
 * failed. */
static bool draw_in_child(int pipe_end, unsigned n_generations) {
  uint64_t values[N_DRAWS];
  bool grandchild_drew = true;
  if (n_generations > 1) {
    int status = 0;
    pid_t grandchild = fork();
    if (grandchild == 0) {
      child_exit(draw_in_child(pipe_end, n_generations - 1) ? 0 : 1);
    }
    grandchild_drew = waitpid(grandchild, &status, 0) == grandchild && status == 0;
  }
  draw_many(weir_random_thread(), values, N_DRAWS);
  return write(pipe_end, values, sizeof values) == (ssize_t)sizeof values && grandchild_drew;
}

static void fork_and_draw(int pipe_end, unsigned n_generations) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    child_exit(draw_in_child(pipe_end, n_generations) ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void processes_do_not_share_a_sequence(void **state) {
  (void)state;
  enum { N_CHILDREN = 3 }; /* two of this process, and one of the second's */
  uint64_t values[N_CHILDREN + 1][N_DRAWS];
  int pipe_ends[2];
  assert_int_equal(pipe(pipe_ends), 0);
  (void)weir_random_unit(NULL); /* seeded before the forks, so that the children inherit it */

  fork_and_draw(pipe_ends[1], 1);
  fork_and_draw(pipe_ends[1], 2);

  for (size_t i = 0; i < N_CHILDREN; i++) {
    assert_int_equal(read(pipe_ends[0], values[i], sizeof values[i]), sizeof values[i]);
  }
  draw_many(weir_random_thread(), values[N_CHILDREN], N_DRAWS);
  assert_all_differ(values[0], (N_CHILDREN + 1) * (size_t)N_DRAWS);
  (void)close(pipe_ends[0]);
  (void)close(pipe_ends[1]);
}

/* Reference values of SplitMix64, from implementations that are not ours. */
static void a_seeded_sequence_is_the_same_everywhere(void **state) {
  (void)state;
  static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                      UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                      UINT64_C(16408922859458223821)};
  struct weir_seeded_random random;

  weir_random_seed(&random, 1234567);

  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
    assert_true(draw_from(&random.base) == expected[i]);
  }
}

static void a_seed_can_be_sown_again(void **state) {
  (void)state;
  struct weir_seeded_random random;
  uint64_t first[N_DRAWS];
  uint64_t again[N_DRAWS];
  weir_random_seed(&random, 7);
  draw_many(&random.base, first, N_DRAWS);

  weir_random_seed(&random, 7);
  draw_many(&random.base, again, N_DRAWS);

  assert_memory_equal(first, again, sizeof first);
}

static void neighbouring_seeds_share_nothing(void **state) {
  (void)state;
  static uint64_t values[N_THREADS][N_THREAD_DRAWS];
  for (uint64_t seed = 0; seed < N_THREADS; seed++) {
    struct weir_seeded_random random;
    weir_random_seed(&random, seed);
    draw_many(&random.base, values[seed], N_THREAD_DRAWS);
  }

  assert_all_differ(values[0], (size_t)N_THREADS * N_THREAD_DRAWS);
}

struct sharer {
  pthread_t thread;
  const struct weir_random *random;
  uint64_t *values;
};

static void *share(void *context) {
  struct sharer *sharer = context;
  draw_many(sharer->random, sharer->values, N_THREAD_DRAWS);
  return NULL;
}

static void each_value_of_a_seeded_sequence_goes_to_one_thread(void **state) {
  (void)state;
  enum { N = N_THREADS * N_THREAD_DRAWS };
  static uint64_t shared[N];
  static uint64_t alone[N];
  struct sharer sharers[N_THREADS];
  struct weir_seeded_random random;
  weir_random_seed(&random, 42);
  for (size_t i = 0; i < N_THREADS; i++) {
    sharers[i].random = &random.base;
    sharers[i].values = &shared[i * N_THREAD_DRAWS];
    assert_int_equal(pthread_create(&sharers[i].thread, NULL, share, &sharers[i]), 0);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(sharers[i].thread, NULL), 0);
  }
  weir_random_seed(&random, 42);
  draw_many(&random.base, alone, N);

  qsort(shared, N, sizeof *shared, compare);
  qsort(alone, N, sizeof *alone, compare);
  assert_memory_equal(shared, alone, sizeof shared);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_unit_interval_has_its_lower_bound_and_not_its_upper),
      cmocka_unit_test(a_unit_is_the_threads_own_without_a_source),
      cmocka_unit_test(a_given_source_is_used),
      cmocka_unit_test(threads_do_not_share_a_sequence),
      cmocka_unit_test(processes_do_not_share_a_sequence),
      cmocka_unit_test(a_seeded_sequence_is_the_same_everywhere),
      cmocka_unit_test(a_seed_can_be_sown_again),
      cmocka_unit_test(neighbouring_seeds_share_nothing),
      cmocka_unit_test(each_value_of_a_seeded_sequence_goes_to_one_thread),
  };
  return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
