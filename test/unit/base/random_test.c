/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/clock.h>

#include <cmocka.h>

#include "src/base/random.h"

static uint64_t constant_next(void *context) {
  return *(const uint64_t *)context;
}

static double unit_of(uint64_t value) {
  const struct weir_random random = {sizeof random, constant_next, &value};
  return weir__random_unit(&random);
}

static uint64_t draw(void) {
  const struct weir_random *random = weir__random_or_default(NULL);
  return random->next(random->context);
}

static void *draw_in_thread(void *value_out) {
  *(uint64_t *)value_out = draw();
  return NULL;
}

static void the_unit_interval_has_its_lower_bound_and_not_its_upper(void **state) {
  (void)state;
  assert_true(unit_of(0) == 0.0);
  assert_true(unit_of(UINT64_C(1) << 63) == 0.5);
  assert_true(unit_of(UINT64_MAX) < 1.0);
  assert_true(unit_of(UINT64_MAX) > 0.999999999999999);
}

static void a_given_source_is_used(void **state) {
  (void)state;
  uint64_t value = 1;
  const struct weir_random random = {sizeof random, constant_next, &value};

  assert_ptr_equal(weir__random_or_default(&random), &random);
}

static void values_of_one_thread_differ(void **state) {
  (void)state;
  uint64_t first = draw();

  assert_int_not_equal(first, draw());
}

/* A shared seed would make the threads of a fleet return together. */
static void threads_do_not_share_a_sequence(void **state) {
  (void)state;
  uint64_t values[3] = {draw(), 0, 0};
  for (size_t i = 1; i < 3; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, draw_in_thread, &values[i]), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }

  assert_int_not_equal(values[0], values[1]);
  assert_int_not_equal(values[0], values[2]);
  assert_int_not_equal(values[1], values[2]);
}

static void a_child_process_does_not_repeat_its_parent(void **state) {
  (void)state;
  int pipe_ends[2];
  uint64_t of_child = 0;
  (void)draw(); /* seeded before the fork, so that the child inherits the state */
  assert_int_equal(pipe(pipe_ends), 0);

  pid_t child = fork();
  if (child == 0) {
    uint64_t value = draw();
    _exit(write(pipe_ends[1], &value, sizeof value) == (ssize_t)sizeof value ? 0 : 1);
  }
  uint64_t of_parent = draw();

  assert_int_equal(read(pipe_ends[0], &of_child, sizeof of_child), sizeof of_child);
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_int_not_equal(of_child, of_parent);
  (void)close(pipe_ends[0]);
  (void)close(pipe_ends[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_unit_interval_has_its_lower_bound_and_not_its_upper),
      cmocka_unit_test(a_given_source_is_used),
      cmocka_unit_test(values_of_one_thread_differ),
      cmocka_unit_test(threads_do_not_share_a_sequence),
      cmocka_unit_test(a_child_process_does_not_repeat_its_parent),
  };
  return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
