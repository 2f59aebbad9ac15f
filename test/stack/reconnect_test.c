/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

/* A breaker that opens for `open_for_ns` after two calls that failed. */
static void open_and_trip(struct fixture *f, int64_t open_for_ns) {
  f->breaker.min_requests = 2;
  f->breaker.failure_ratio = 1.0;
  f->breaker.open_for_ns = open_for_ns;
  f->breaker.max_open_for_ns = open_for_ns;
  f->breaker.probes = 2;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_not_found);
  run_calls(f, 10);
  assert_int_equal(f->transport.n_reconnects, 0);
  f->clock.now_ns += SECONDS(3600); /* those are out of the window */
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 2);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

/* Each refused call passes `step_ns`. */
static void be_refused_for(struct fixture *f, int64_t span_ns, int64_t step_ns) {
  size_t n_sent = f->transport.n_sent;
  for (int64_t until_ns = f->clock.now_ns + span_ns; f->clock.now_ns < until_ns;
       f->clock.now_ns += step_ns) {
    run_calls(f, 1);
  }
  assert_int_equal(f->transport.n_sent, n_sent);
}

static void the_core_is_left_alone_until_a_probe_is_near(void **state) {
  struct fixture *f = *state;
  open_and_trip(f, SECONDS(5));
  be_refused_for(f, MS(4490), MS(10));
  assert_int_equal(f->transport.n_reconnects, 0);
  be_refused_for(f, MS(500), MS(10));
  assert_int_equal(f->transport.n_reconnects, 1);
}

static void a_long_open_time_has_a_second_to_connect_in(void **state) {
  struct fixture *f = *state;
  open_and_trip(f, SECONDS(300));
  be_refused_for(f, MS(298990), MS(500));
  assert_int_equal(f->transport.n_reconnects, 0);
  be_refused_for(f, MS(900), MS(10));
  assert_int_equal(f->transport.n_reconnects, 1);
}

/* Without traffic nobody was there to connect in time: the next probe is to find a connection. */
static void a_probe_that_comes_out_of_silence_connects_for_the_next(void **state) {
  struct fixture *f = *state;
  open_and_trip(f, SECONDS(5));
  f->clock.now_ns += SECONDS(60);
  run_calls(f, 1);
  assert_int_equal(fixture_breaker(f).n_probes, 1);
  assert_int_equal(f->transport.n_reconnects, 1);
}

static void a_refusal_beside_a_probe_asks_for_nothing(void **state) {
  struct fixture *f = *state;
  open_and_trip(f, SECONDS(5));
  f->clock.now_ns += SECONDS(5);
  scripted_transport_always(&f->transport, SECONDS(2), answer_ok);
  struct unary probes[2];
  struct unary refused[10];
  for (size_t i = 0; i < 2; i++) {
    unary_init(f, &probes[i]);
    unary_start(f, &probes[i]);
  }
  assert_int_equal(f->transport.n_reconnects, 1); /* both at once */
  run_until(f, f->clock.now_ns + SECONDS(1));
  for (size_t i = 0; i < 10; i++) {
    unary_init(f, &refused[i]);
    unary_start(f, &refused[i]);
  }
  run_until_idle(f);
  assert_int_equal(f->transport.n_reconnects, 1);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
  for (size_t i = 0; i < 2; i++) {
    unary_fini(&probes[i]);
  }
  for (size_t i = 0; i < 10; i++) {
    assert_int_equal(unary_report(&refused[i]).reason, WEIR_REASON_BREAKER_OPEN);
    unary_fini(&refused[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_core_is_left_alone_until_a_probe_is_near),
      TEST(a_long_open_time_has_a_second_to_connect_in),
      TEST(a_probe_that_comes_out_of_silence_connects_for_the_next),
      TEST(a_refusal_beside_a_probe_asks_for_nothing),
  };
  return cmocka_run_group_tests_name("reconnect", tests, NULL, NULL);
}
