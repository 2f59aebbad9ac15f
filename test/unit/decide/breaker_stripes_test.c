/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/decide/breaker_window.h"
#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE

#define N_THREADS 4

/* As fixture_breaker, but with the first stripe only. */
static void breaker_begin(struct fixture *f) {
  weir__breaker_rules_init(&f->rules, &f->options, &f->allocator);
  f->rules.stripe_mask = f->stripe_mask;
  f->breaker = f->allocator.allocate(f, weir__breaker_bytes(&f->rules));
  assert_non_null(f->breaker);
  weir__breaker_init(f->breaker, &f->rules);
}

static void window_is_the_sum_of_old_and_new_stripes(void **state) {
  struct fixture *f = *state;
  breaker_begin(f);
  fixture_calls(f, 2, GOOD, T0);
  fixture_calls(f, 2, BAD, T0);
  size_t n_before = f->n_allocations;
  assert_true(weir__breaker_spread(f->breaker));
  assert_true(weir__breaker_spread(f->breaker));
  assert_int_equal(f->n_allocations, n_before + 1);
  fixture_calls(f, 1, GOOD, T0);
  assert_int_equal(fixture_snapshot(f, T0).n_requests, 5);
  assert_int_equal(fixture_snapshot(f, T0).n_failures, 2);
  fixture_calls(f, 2, BAD, T0);
  assert_int_equal(fixture_snapshot(f, T0).n_failures, 4);
  fixture_calls(f, 1, BAD, T0); /* 5 of 8 */
  assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_OPEN);
  (void)fixture_refused(f, T0);
  assert_int_equal(fixture_snapshot(f, T0).n_refused, 1);
  fixture_breaker_end(f);
}

static void stripes_share_no_cache_lines(void **state) {
  struct fixture *f = *state;
  for (uint32_t n_buckets = 1; n_buckets <= 60; n_buckets++) {
    f->options.window_buckets = n_buckets;
    fixture_breaker(f);
    const struct weir__breaker_annex *annex = atomic_load(&f->breaker->annex);
    assert_int_equal(annex->stripe_mask, f->rules.stripe_mask);
    for (uint32_t i = 0; i <= annex->stripe_mask; i++) {
      uintptr_t stripe = (uintptr_t)weir__breaker_stripe_at(annex, i);
      assert_int_equal(stripe % WEIR__BREAKER_STRIPE_ALIGNMENT, 0);
    }
    assert_true(weir__breaker_stripe_size(n_buckets) <= annex->stripe_bytes);
    fixture_breaker_end(f);
  }
}

static void without_memory_it_goes_on_as_before(void **state) {
  struct fixture *f = *state;
  breaker_begin(f);
  fixture_calls(f, 4, BAD, T0);
  f->fails_at = f->n_allocations + 1;
  assert_false(weir__breaker_spread(f->breaker));
  assert_int_equal(fixture_snapshot(f, T0).n_failures, 4);
  fixture_calls(f, 1, BAD, T0);
  assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_OPEN);
  f->fails_at = 0;
  assert_true(weir__breaker_spread(f->breaker));
  fixture_breaker_end(f);
}

static void one_processor_needs_no_stripes(void **state) {
  struct fixture *f = *state;
  f->stripe_mask = 0;
  breaker_begin(f);
  assert_true(weir__breaker_spread(f->breaker));
  assert_null(atomic_load(&f->breaker->annex));
  fixture_breaker_end(f);
}

static void one_thread_alone_allocates_nothing(void **state) {
  struct fixture *f = *state;
  breaker_begin(f);
  size_t n_before = f->n_allocations;
  fixture_calls(f, 100000, GOOD, T0);
  fixture_trip(f, T0 + SECONDS(120));
  for (int i = 0; i < 1000; i++) {
    (void)fixture_refused(f, T0 + SECONDS(120));
  }
  assert_int_equal(f->n_allocations, n_before);
  fixture_breaker_end(f);
}

struct crowd {
  struct fixture *f;
  _Atomic uint64_t n_calls;
};

/* Until threads have been seen to get in each other's way. Where they run one after the other, no
 * exchange is lost: so each says now and then that it has lost one. */
static void *call_until_spread(void *argument) {
  struct crowd *crowd = argument;
  weir_breaker *breaker = crowd->f->breaker;
  uint64_t n = 0;
  while (atomic_load_explicit(&breaker->annex, memory_order_relaxed) == NULL || n % 1000 != 0) {
    struct weir_breaker_ticket ticket;
    struct weir_breaker_view view;
    (void)weir_breaker_admit(breaker, T0, NULL, &ticket, &view);
    weir_breaker_settle(breaker, &ticket, GOOD, T0, NULL, &view);
    n++;
    if (n % 1000 == 0) {
      weir__breaker_contention_note(breaker, T0);
    }
  }
  atomic_fetch_add(&crowd->n_calls, n);
  return NULL;
}

/* The clock stands still, so the lost exchanges are all of one second; and all but a few of those
 * that it takes are there already. */
static void threads_at_one_word_are_given_stripes_once(void **state) {
  struct fixture *f = *state;
  pthread_t threads[N_THREADS];
  struct crowd crowd = {.f = f};
  breaker_begin(f);
  size_t n_before = f->n_allocations;
  atomic_store(&f->breaker->contention, (uint32_t)((uint64_t)T0 >> 30) << 10 | 250);
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, call_until_spread, &crowd), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  assert_int_equal(f->n_allocations, n_before + 1);
  assert_int_equal(fixture_snapshot(f, T0).n_requests, atomic_load(&crowd.n_calls));
  fixture_breaker_end(f);
}

struct pair {
  struct fixture *f;
  _Atomic uint32_t stripes[2];
};

struct twin {
  struct pair *pair;
  uint32_t index;
};

/* Both begin at the same stripe, and call until they are at different ones. Where they run one after
 * the other, or one is done when the other comes to its stripe, no exchange is lost: so each says
 * that it has lost one. */
static void *call_until_apart(void *argument) {
  const struct twin *twin = argument;
  struct pair *pair = twin->pair;
  weir_breaker *breaker = pair->f->breaker;
  weir__breaker_thread = 4;
  for (;;) {
    for (int i = 0; i < 1000; i++) {
      struct weir_breaker_ticket ticket;
      struct weir_breaker_view view;
      (void)weir_breaker_admit(breaker, T0, NULL, &ticket, &view);
      weir_breaker_settle(breaker, &ticket, GOOD, T0, NULL, &view);
    }
    uint32_t own = weir__breaker_thread & pair->f->rules.stripe_mask;
    atomic_store(&pair->stripes[twin->index], own);
    if (own != atomic_load(&pair->stripes[1 - twin->index])) {
      return NULL;
    }
    weir__breaker_contention_note(breaker, T0);
  }
}

static void threads_that_meet_at_a_stripe_part(void **state) {
  struct fixture *f = *state;
  pthread_t threads[2];
  struct pair pair = {.f = f};
  struct twin twins[2] = {{&pair, 0}, {&pair, 1}};
  fixture_breaker(f);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, call_until_apart, &twins[i]), 0);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  fixture_breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(window_is_the_sum_of_old_and_new_stripes),
      TEST(stripes_share_no_cache_lines),
      TEST(without_memory_it_goes_on_as_before),
      TEST(one_processor_needs_no_stripes),
      TEST(one_thread_alone_allocates_nothing),
      TEST(threads_at_one_word_are_given_stripes_once),
      TEST(threads_that_meet_at_a_stripe_part),
  };
  return cmocka_run_group_tests_name("breaker stripes", tests, NULL, NULL);
}
