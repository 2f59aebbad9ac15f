/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

#define WARM_UP 10
#define CALLS 200

/* Allocations of weir's own while `CALLS` calls are made, after as many as it takes to warm up. */
static size_t allocations_of_calls(struct fixture *f) {
  run_calls(f, WARM_UP);
  size_t before = f->allocator.n_allocations;
  run_calls(f, CALLS);
  return f->allocator.n_allocations - before;
}

static void successful_calls(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(1), answer_ok);
  assert_int_equal(allocations_of_calls(f), 0);
}

static void calls_that_are_retried(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(1), answer_unavailable);
  assert_int_equal(allocations_of_calls(f), 0);
}

static void failures_at_a_boundary(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(1), answer_not_found);
  assert_int_equal(allocations_of_calls(f), 0);
}

static void calls_that_the_breaker_refuses(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  assert_int_equal(allocations_of_calls(f), 0);
  assert_int_equal(fixture_breaker(f).n_refused, WARM_UP + CALLS - 5);
}

static void calls_of_a_request_that_is_served(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *inbound = fixture_inbound(f, T0 + SECONDS(1), "front-door", NULL);
  size_t before = 0;
  for (size_t i = 0; i < WARM_UP + CALLS; i++) {
    struct unary unary;
    before = i == WARM_UP ? f->allocator.n_allocations : before;
    unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
  }
  assert_int_equal(f->allocator.n_allocations, before);
  weir_inbound_release(inbound);
}

static void many_calls_at_once_need_memory_the_first_time_only(void **state) {
  struct fixture *f = *state;
  struct unary unaries[60];
  size_t before = 0;
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(1), answer_ok);
  for (size_t round = 0; round < 5; round++) {
    before = round == 1 ? f->allocator.n_allocations : before;
    for (size_t i = 0; i < 60; i++) {
      unary_init(f, &unaries[i]);
      unary_start(f, &unaries[i]);
    }
    run_until_idle(f);
    for (size_t i = 0; i < 60; i++) {
      unary_fini(&unaries[i]);
    }
  }
  assert_int_equal(f->allocator.n_allocations, before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(successful_calls),
      TEST(calls_that_are_retried),
      TEST(failures_at_a_boundary),
      TEST(calls_that_the_breaker_refuses),
      TEST(calls_of_a_request_that_is_served),
      TEST(many_calls_at_once_need_memory_the_first_time_only),
  };
  return cmocka_run_group_tests_name("steady state allocates nothing", tests, NULL, NULL);
}
