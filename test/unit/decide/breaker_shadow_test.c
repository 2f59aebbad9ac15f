/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE

#define HALF_OPEN_AT (T0 + SECONDS(30))

static struct fixture *shadowing(void **state) {
  struct fixture *f = *state;
  f->options.mode = WEIR_BREAKER_MODE_SHADOW;
  f->options.open_jitter = 0.0;
  fixture_breaker(f);
  return f;
}

/* A call that is let through though it would be refused. */
static struct weir_breaker_view shadowed(struct fixture *f, int64_t now_ns,
                                         enum weir_breaker_refusal refusal) {
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  memset(&ticket, 0xff, sizeof ticket);
  assert_int_equal(weir_breaker_admit(f->breaker, now_ns, &f->random, &ticket, &view),
                   WEIR_ADMISSION_PROCEED);
  assert_int_equal(ticket.stage, WEIR_BREAKER_TICKET_SPENT);
  assert_int_equal(view.refusal, refusal);
  assert_true(weir_breaker_still_admits(f->breaker, &ticket));
  return view;
}

static void lets_through_what_it_would_refuse_and_counts_it(void **state) {
  struct fixture *f = shadowing(state);
  fixture_trip(f, T0);
  for (int i = 0; i < 100; i++) {
    struct weir_breaker_view view = shadowed(f, T0 + SECONDS(10), WEIR_BREAKER_REFUSAL_OPEN);
    assert_int_equal(view.state, WEIR_BREAKER_OPEN);
    assert_int_equal(view.next_probe_in_ns, SECONDS(20));
  }
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0 + SECONDS(10));
  assert_int_equal(snapshot.n_shadowed, 100);
  assert_int_equal(snapshot.n_refused, 0);
  assert_int_equal(snapshot.n_trips, 1);
  assert_int_equal(snapshot.state, WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

/* Its decisions are those that it would make if it acted: the results of calls that it would have
 * refused are not known to it. */
static void decides_as_if_it_acted(void **state) {
  struct fixture *f = shadowing(state);
  struct weir_breaker_options options = f->rules.options;
  options.ramp_for_ns = SECONDS(100);
  fixture_set_options(f, &options);
  fixture_trip(f, T0);
  (void)shadowed(f, T0 + SECONDS(29), WEIR_BREAKER_REFUSAL_OPEN);
  struct weir_breaker_ticket probes[3];
  for (int i = 0; i < 3; i++) {
    probes[i] = fixture_admit(f, HALF_OPEN_AT);
    assert_int_not_equal(probes[i].place, WEIR_BREAKER_NO_PLACE);
  }
  (void)shadowed(f, HALF_OPEN_AT, WEIR_BREAKER_REFUSAL_PROBES_TAKEN);
  for (int i = 0; i < 3; i++) {
    fixture_settle(f, &probes[i], GOOD, HALF_OPEN_AT);
  }
  assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).state, WEIR_BREAKER_CLOSED);
  (void)shadowed(f, HALF_OPEN_AT, WEIR_BREAKER_REFUSAL_RAMP);
  assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).n_probes, 3);
  fixture_breaker_end(f);
}

static void further_attempts_go_on_whatever_it_decides(void **state) {
  struct fixture *f = shadowing(state);
  struct weir_breaker_ticket call = fixture_admit(f, T0);
  fixture_trip(f, T0);
  assert_true(weir_breaker_still_admits(f->breaker, &call));
  struct weir_breaker_ticket probe = fixture_admit(f, HALF_OPEN_AT);
  assert_true(weir_breaker_still_admits(f->breaker, &probe));
  fixture_settle(f, &probe, BAD, HALF_OPEN_AT);
  assert_true(weir_breaker_still_admits(f->breaker, &call));
  fixture_breaker_end(f);
}

static void what_is_set_by_hand_holds(void **state) {
  struct fixture *f = shadowing(state);
  struct weir_breaker_ticket call = fixture_admit(f, T0);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_OPEN, NULL);
  assert_int_equal(fixture_refused(f, T0), WEIR_NO_LIMIT_NS);
  assert_false(weir_breaker_still_admits(f->breaker, &call));
  assert_int_equal(fixture_snapshot(f, T0).n_refused, 1);
  assert_int_equal(fixture_snapshot(f, T0).n_shadowed, 0);
  fixture_breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(lets_through_what_it_would_refuse_and_counts_it),
      TEST(decides_as_if_it_acted),
      TEST(further_attempts_go_on_whatever_it_decides),
      TEST(what_is_set_by_hand_holds),
  };
  return cmocka_run_group_tests_name("breaker shadow", tests, NULL, NULL);
}
