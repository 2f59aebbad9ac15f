/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

/* A proxy: it calls whatever path it is asked for, and three methods that there are. */

#define MAX_BREAKERS 100
#define N_PATHS 20000

#define FAILS "/shop.Cart/Fails"
#define WORKS "/shop.Cart/Works"
#define RARE "/shop.Cart/Rare" /* first called when the unknown ones have filled all places */

static struct weir_method_options method_named(const char *method) {
  struct weir_method_options options = WEIR_METHOD_OPTIONS_INIT;
  options.service = "shop.Cart";
  options.method = method;
  return options;
}

static void open_proxy(struct fixture *f) {
  static struct weir_method_options methods[4];
  methods[0] = method_named("Fails");
  methods[1] = method_named("Works");
  methods[2] = method_named("Rare");
  methods[3] = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
  f->policy_options.methods = methods;
  f->policy_options.n_methods = sizeof methods / sizeof methods[0];
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->breaker.max_breakers = MAX_BREAKERS;
  f->breaker.min_requests = 3;
  f->breaker.failure_ratio = 1.0;
  f->breaker.window_ns = SECONDS(1);
  f->breaker.open_for_ns = SECONDS(3600);
  f->breaker.max_open_for_ns = SECONDS(3600);
  fixture_open(f);
}

static struct weir_call_report call_path(struct fixture *f, const char *path,
                                         struct wire_answer answer) {
  struct unary unary;
  scripted_transport_always(&f->transport, 0, answer);
  unary_init_with(f, &unary, &(struct unary_options){.method = path});
  unary_start(f, &unary);
  run_until_idle(f);
  struct weir_call_report report = unary_report(&unary);
  unary_fini(&unary);
  f->n_unaries = 0;
  f->clock.now_ns += MS(1);
  return report;
}

/* A path that was never called before. */
static struct weir_call_report call_invented(struct fixture *f, unsigned number) {
  char path[64];
  (void)snprintf(path, sizeof path, "/x.S/%08x-%u", number * 2654435761U, number);
  return call_path(f, path, number % 7 == 0 ? answer_unavailable : answer_not_found);
}

static struct weir_channel_counters counters_of(struct fixture *f) {
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  return counters;
}

static void assert_real_ones_are_themselves(struct fixture *f) {
  struct weir_call_report report = call_path(f, FAILS, answer_ok);
  assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_OPEN);
  assert_string_equal(report.breaker_name, FAILS);
  report = call_path(f, WORKS, answer_ok);
  assert_int_equal(report.code, GRPC_STATUS_OK);
  assert_string_equal(report.breaker_name, WORKS);
}

static void invented_paths_cost_bounded_memory_and_harm_no_real_method(void **state) {
  struct fixture *f = *state;
  size_t n_when_full = 0;
  open_proxy(f);
  for (int i = 0; i < 3; i++) {
    (void)call_path(f, FAILS, answer_unavailable);
  }
  for (unsigned i = 1; i <= N_PATHS; i++) {
    struct weir_call_report report = call_invented(f, i);
    assert_int_equal(report.n_attempts, 1); /* refused for nobody's sake */
    if (i % 1000 == 0) {
      assert_real_ones_are_themselves(f);
    }
    n_when_full = i == N_PATHS / 4 ? f->allocator.n_outstanding : n_when_full;
  }
  assert_true(f->allocator.n_outstanding <= n_when_full);
  assert_true(counters_of(f).n_breakers <= MAX_BREAKERS);
  assert_true(counters_of(f).n_overflowed_calls > 0);
  assert_true(counters_of(f).n_overflowed_calls < N_PATHS);

  struct weir_call_report report = call_path(f, RARE, answer_ok);
  assert_string_equal(report.breaker_name, RARE);
  assert_int_equal(report.breaker_state, WEIR_BREAKER_CLOSED);
  assert_true(counters_of(f).n_breakers <= MAX_BREAKERS);
}

/* The failures of many strangers may open the one that they share; not the real ones'. */
static void strangers_that_fail_are_refused_apart(void **state) {
  struct fixture *f = *state;
  open_proxy(f);
  unsigned n_refused = 0;
  for (unsigned i = 1; i <= 10 * MAX_BREAKERS; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "/x.S/%u", i);
    struct weir_call_report report = call_path(f, path, answer_unavailable);
    if (report.n_attempts == 0) {
      assert_string_equal(report.breaker_name, "other");
      n_refused++;
    }
  }
  assert_true(n_refused > 0);
  assert_int_equal(call_path(f, WORKS, answer_ok).code, GRPC_STATUS_OK);
  assert_int_equal(call_path(f, RARE, answer_ok).code, GRPC_STATUS_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(invented_paths_cost_bounded_memory_and_harm_no_real_method),
      TEST(strangers_that_fail_are_refused_apart),
  };
  return cmocka_run_group_tests_name("many_paths", tests, NULL, NULL);
}
