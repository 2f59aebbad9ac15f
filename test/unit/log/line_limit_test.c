/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/log/line_limit.h"

#define MS(n) ((n)*INT64_C(1000000))
#define SECONDS(n) ((n)*INT64_C(1000000000))
#define MAX_LINES 10

/* How many of `n` lines at one instant are admitted. */
static int admitted(struct weir__line_limit *limit, int n, int64_t at_ns) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    count += weir__line_limit_admit(limit, MAX_LINES, at_ns);
  }
  return count;
}

static void times_decide_how_many_lines_are_written(void **state) {
  (void)state;
  static const struct {
    const char *why;
    struct {
      int64_t at_ns;
      int n;
      int n_admitted;
    } bursts[5];
    uint64_t n_left_out;
  } rows[] = {
      {"as many as there may be", {{0, 10, 10}}, 0},
      {"a burst", {{SECONDS(7), 1000, 10}}, 990},
      {"spread over the second", {{0, 4, 4}, {MS(500), 4, 4}, {MS(999), 4, 2}}, 2},
      {"the next second", {{0, 100, 10}, {MS(999), 1, 0}, {SECONDS(1), 100, 10}}, 181},
      {"a window begins with its first line", {{0, 1, 1}, {MS(1500), 10, 10}, {MS(2499), 1, 0}}, 1},
      {"long quiet", {{0, 11, 10}, {SECONDS(1000000), 11, 10}}, 2},
      {"quiet for all time", {{INT64_MIN, 11, 10}, {INT64_MAX, 11, 10}}, 2},
      {"an event that comes late", {{SECONDS(5), 10, 10}, {MS(4001), 1, 0}, {SECONDS(5), 1, 0}}, 2},
      {"a late one first", {{SECONDS(5), 5, 5}, {MS(4500), 5, 5}, {MS(5999), 1, 0}}, 1},
      {"another clock", {{SECONDS(3600), 11, 10}, {SECONDS(1), 11, 10}, {MS(1999), 1, 0}}, 3},
      {"a clock that began anew", {{INT64_MAX, 11, 10}, {0, 11, 10}, {SECONDS(1), 11, 10}}, 3},
      {"before its beginning", {{-1, 5, 5}, {0, 5, 5}, {1, 1, 0}, {SECONDS(1), 1, 1}}, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir__line_limit limit = {.window = 0, .n_left_out = 0};
    for (size_t j = 0; j < 5; j++) {
      int n = admitted(&limit, rows[i].bursts[j].n, rows[i].bursts[j].at_ns);
      if (n != rows[i].bursts[j].n_admitted) {
        fail_msg("%s: %d of burst %zu", rows[i].why, n, j);
      }
    }
    uint64_t n_left_out = weir__line_limit_take_left_out(&limit);
    if (n_left_out != rows[i].n_left_out) {
      fail_msg("%s: %d left out", rows[i].why, (int)n_left_out);
    }
  }
}

static void what_was_left_out_is_told_once(void **state) {
  (void)state;
  struct weir__line_limit limit = {.window = 0, .n_left_out = 0};
  assert_int_equal(admitted(&limit, 14, 0), 10);
  weir__line_limit_leave_out(&limit, 3);

  assert_int_equal(weir__line_limit_take_left_out(&limit), 7);
  assert_int_equal(weir__line_limit_take_left_out(&limit), 0);
}

static void the_largest_limit_is_kept(void **state) {
  (void)state;
  struct weir__line_limit limit = {.window = 0, .n_left_out = 0};
  int count = 0;
  for (int i = 0; i < 70000; i++) {
    count += weir__line_limit_admit(&limit, WEIR__LINE_LIMIT_MAX, INT64_MAX);
  }
  assert_int_equal(count, WEIR__LINE_LIMIT_MAX);
}

/* --- threads --- */

#define N_THREADS 4
#define N_SECONDS 50
#define N_EACH 40 /* a thread's lines in a second */

struct crowd {
  struct weir__line_limit limit;
  pthread_barrier_t barrier;
  _Atomic int n_admitted;
};

/* All in the same second, and then all in the next. */
static void *log_lines(void *argument) {
  struct crowd *crowd = argument;
  for (int second = 0; second < N_SECONDS; second++) {
    (void)pthread_barrier_wait(&crowd->barrier);
    for (int i = 0; i < N_EACH; i++) {
      crowd->n_admitted += weir__line_limit_admit(&crowd->limit, MAX_LINES, SECONDS(second));
    }
    (void)pthread_barrier_wait(&crowd->barrier);
  }
  return NULL;
}

static void threads_share_one_limit(void **state) {
  (void)state;
  struct crowd crowd = {.n_admitted = 0};
  pthread_t threads[N_THREADS];
  assert_int_equal(pthread_barrier_init(&crowd.barrier, NULL, N_THREADS), 0);
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, log_lines, &crowd), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    (void)pthread_join(threads[i], NULL);
  }
  (void)pthread_barrier_destroy(&crowd.barrier);

  assert_int_equal(crowd.n_admitted, N_SECONDS * MAX_LINES);
  assert_int_equal(weir__line_limit_take_left_out(&crowd.limit),
                   N_SECONDS * (N_THREADS * N_EACH - MAX_LINES));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(times_decide_how_many_lines_are_written),
      cmocka_unit_test(what_was_left_out_is_told_once),
      cmocka_unit_test(the_largest_limit_is_kept),
      cmocka_unit_test(threads_share_one_limit),
  };
  return cmocka_run_group_tests_name("line_limit", tests, NULL, NULL);
}
