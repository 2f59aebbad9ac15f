/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/queue/timer_heap.h"

#define N_MANY 100000

static uint64_t random_next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static struct weir__timer *pop(struct weir__timer_heap *heap) {
  struct weir__timer *first = weir__timer_heap_first(heap);
  if (first != NULL) {
    assert_true(weir__timer_heap_remove(heap, first));
    assert_false(first->armed);
  }
  return first;
}

static void a_zeroed_heap_is_empty(void **state) {
  (void)state;
  struct weir__timer_heap heap = {NULL};
  struct weir__timer timer = {0};

  assert_null(weir__timer_heap_first(&heap));
  assert_false(weir__timer_heap_remove(&heap, &timer));
}

static void the_first_stays_in_until_it_is_removed(void **state) {
  (void)state;
  struct weir__timer_heap heap = {NULL};
  struct weir__timer timer = {.due_at_ns = 7};

  weir__timer_heap_add(&heap, &timer);
  assert_true(timer.armed);
  assert_ptr_equal(weir__timer_heap_first(&heap), &timer);
  assert_ptr_equal(weir__timer_heap_first(&heap), &timer);

  assert_true(weir__timer_heap_remove(&heap, &timer));
  assert_false(weir__timer_heap_remove(&heap, &timer));
  assert_null(weir__timer_heap_first(&heap));
}

static void extreme_times_are_ordered(void **state) {
  (void)state;
  struct weir__timer_heap heap = {NULL};
  static const int64_t sorted[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
  struct weir__timer timers[7];
  memset(timers, 0, sizeof timers);
  for (size_t i = 0; i < 7; i++) {
    timers[i].due_at_ns = sorted[(i * 3) % 7];
    weir__timer_heap_add(&heap, &timers[i]);
  }
  for (size_t i = 0; i < 7; i++) {
    assert_true(pop(&heap)->due_at_ns == sorted[i]);
  }
  assert_null(pop(&heap));
}

static int compare_times(const void *a, const void *b) {
  const int64_t *left = a;
  const int64_t *right = b;
  return (*left > *right) - (*left < *right);
}

/* Adds `n` timers whose times `time_of` gives, and expects them sorted. */
static void assert_sorts(size_t n, int64_t (*time_of)(size_t i, uint64_t *seed)) {
  struct weir__timer_heap heap = {NULL};
  struct weir__timer *timers = calloc(n, sizeof *timers);
  int64_t *sorted = calloc(n, sizeof *sorted);
  uint64_t seed = 42;
  for (size_t i = 0; i < n; i++) {
    sorted[i] = timers[i].due_at_ns = time_of(i, &seed);
    weir__timer_heap_add(&heap, &timers[i]);
  }
  qsort(sorted, n, sizeof sorted[0], compare_times);
  for (size_t i = 0; i < n; i++) {
    assert_true(pop(&heap)->due_at_ns == sorted[i]);
  }
  assert_null(pop(&heap));
  free(sorted);
  free(timers);
}

static int64_t rising(size_t i, uint64_t *seed) {
  (void)seed;
  return (int64_t)i;
}

static int64_t falling(size_t i, uint64_t *seed) {
  (void)seed;
  return -(int64_t)i;
}

static int64_t equal(size_t i, uint64_t *seed) {
  (void)i;
  (void)seed;
  return 5;
}

static int64_t by_chance(size_t i, uint64_t *seed) {
  (void)i;
  return (int64_t)random_next(seed);
}

static int64_t often_equal(size_t i, uint64_t *seed) {
  (void)i;
  return (int64_t)(random_next(seed) % 10);
}

/* Shapes that would be deep, or wide, for an algorithm that recurses over children or siblings. */
static void many_timers_come_out_sorted(void **state) {
  (void)state;
  assert_sorts(N_MANY, rising);
  assert_sorts(N_MANY, falling);
  assert_sorts(N_MANY, equal);
  assert_sorts(N_MANY, by_chance);
  assert_sorts(N_MANY, often_equal);
}

/* --- against a list that is searched --- */

#define N_TIMERS 60

static int64_t earliest_of(const struct weir__timer *timers, bool *any_out) {
  int64_t earliest = INT64_MAX;
  *any_out = false;
  for (size_t i = 0; i < N_TIMERS; i++) {
    if (timers[i].armed) {
      *any_out = true;
      earliest = timers[i].due_at_ns < earliest ? timers[i].due_at_ns : earliest;
    }
  }
  return earliest;
}

static void any_timer_can_be_removed_at_any_time(void **state) {
  (void)state;
  for (uint64_t round = 1; round <= 300; round++) {
    struct weir__timer_heap heap = {NULL};
    struct weir__timer timers[N_TIMERS];
    uint64_t seed = round;
    memset(timers, 0, sizeof timers);
    for (int step = 0; step < 400; step++) {
      struct weir__timer *timer = &timers[random_next(&seed) % N_TIMERS];
      if (timer->armed) {
        assert_true(weir__timer_heap_remove(&heap, timer));
      } else {
        timer->due_at_ns = (int64_t)(random_next(&seed) % (round % 3 == 0 ? 5 : 1000));
        weir__timer_heap_add(&heap, timer);
      }
      if (random_next(&seed) % 8 == 0) {
        (void)pop(&heap);
      }
      bool any = false;
      int64_t earliest = earliest_of(timers, &any);
      const struct weir__timer *first = weir__timer_heap_first(&heap);
      assert_int_equal(first != NULL, any);
      assert_true(first == NULL || (first->armed && first->due_at_ns == earliest));
    }
  }
}

static void all_but_the_first_can_be_removed_in_any_order(void **state) {
  (void)state;
  struct weir__timer_heap heap = {NULL};
  struct weir__timer *timers = calloc(N_MANY, sizeof *timers);
  uint64_t seed = 9;
  for (size_t i = 0; i < N_MANY; i++) {
    timers[i].due_at_ns = (int64_t)(random_next(&seed) % 1000);
    weir__timer_heap_add(&heap, &timers[i]);
    if (i % 3 == 0) {
      struct weir__timer *again = pop(&heap);
      again->due_at_ns += 500;
      weir__timer_heap_add(&heap, again);
    }
  }
  for (size_t i = N_MANY; i-- > 0;) {
    size_t j = (i * 7919) % N_MANY; /* a prime that does not divide it: each once */
    assert_true(weir__timer_heap_remove(&heap, &timers[j]));
  }
  assert_null(weir__timer_heap_first(&heap));
  free(timers);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_zeroed_heap_is_empty),
      cmocka_unit_test(the_first_stays_in_until_it_is_removed),
      cmocka_unit_test(extreme_times_are_ordered),
      cmocka_unit_test(many_timers_come_out_sorted),
      cmocka_unit_test(any_timer_can_be_removed_at_any_time),
      cmocka_unit_test(all_but_the_first_can_be_removed_in_any_order),
  };
  return cmocka_run_group_tests_name("timer_heap", tests, NULL, NULL);
}
