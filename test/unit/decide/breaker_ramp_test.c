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

#define RAMP_NS SECONDS(100)
#define CLOSED_AT (T0 + SECONDS(30))

/* CLOSED again at CLOSED_AT, with a ramp of RAMP_NS. */
static struct fixture *recovered(void **state) {
  struct fixture *f = *state;
  f->options.ramp_for_ns = RAMP_NS;
  f->options.open_jitter = 0.0;
  fixture_breaker(f);
  fixture_trip(f, T0);
  fixture_calls(f, f->options.probes, GOOD, CLOSED_AT);
  assert_int_equal(fixture_snapshot(f, CLOSED_AT).state, WEIR_BREAKER_CLOSED);
  return f;
}

/* Of 1000 calls whose chances are spread evenly. */
static uint32_t n_admitted(struct fixture *f, int64_t now_ns) {
  uint32_t n = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    struct weir_breaker_ticket ticket;
    struct weir_breaker_view view;
    f->chance = UINT64_MAX / 1000 * i + UINT64_MAX / 2000;
    enum weir_admission admission =
        weir_breaker_admit(f->breaker, now_ns, &f->random, &ticket, &view);
    n += admission == WEIR_ADMISSION_PROCEED;
    assert_int_equal(view.state, WEIR_BREAKER_CLOSED);
    assert_int_equal(view.refusal, admission == WEIR_ADMISSION_PROCEED ? WEIR_BREAKER_REFUSAL_NONE
                                                                       : WEIR_BREAKER_REFUSAL_RAMP);
    assert_int_equal(view.next_probe_in_ns, 0);
    assert_int_equal(ticket.stage, admission == WEIR_ADMISSION_PROCEED ? WEIR_BREAKER_TICKET_PENDING
                                                                       : WEIR_BREAKER_TICKET_SPENT);
    weir_breaker_release(f->breaker, &ticket);
  }
  f->chance = CHANCE_MIDDLE;
  return n;
}

static const struct {
  const char *why;
  int64_t after_ns; /* since it closed */
  uint32_t share_milli;
} shares[] = {
    {"a clock that is behind", -SECONDS(1) / 2, 100},
    {"at first a tenth", 0, 100},
    {"a tenth of the time, a tenth of the rest", SECONDS(10), 190},
    {"half of the time", SECONDS(50), 550},
    {"three quarters", SECONDS(75), 775},
    {"just before the end", RAMP_NS - 1, 1000},
    {"the end", RAMP_NS, 1000},
    {"a day later", SECONDS(86400), 1000},
};

static void admits_a_share_that_grows(void **state) {
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    struct fixture *f = recovered(state);
    int64_t now_ns = CLOSED_AT + shares[i].after_ns;
    uint32_t said = fixture_snapshot(f, now_ns).admitted_share_milli;
    uint32_t n = n_admitted(f, now_ns);
    if (n != shares[i].share_milli || said > n || n > said + 1) {
      fail_msg("%s: let %u of 1000 through, said %u", shares[i].why, n, said);
    }
    assert_int_equal(fixture_snapshot(f, now_ns).n_refused, 1000 - n);
    fixture_breaker_end(f);
  }
}

static void without_a_ramp_all_are_let_through(void **state) {
  struct fixture *f = *state;
  f->options.open_jitter = 0.0;
  fixture_breaker(f);
  fixture_trip(f, T0);
  fixture_calls(f, f->options.probes, GOOD, CLOSED_AT);
  assert_int_equal(n_admitted(f, CLOSED_AT), 1000);
  fixture_breaker_end(f);
}

static void first_closing_of_its_life_is_no_ramp(void **state) {
  struct fixture *f = *state;
  f->options.ramp_for_ns = RAMP_NS;
  fixture_breaker(f);
  assert_int_equal(n_admitted(f, T0), 1000);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_OPEN, NULL);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
  assert_int_equal(n_admitted(f, T0), 1000);
  fixture_breaker_end(f);
}

static void window_rule_holds_in_the_ramp(void **state) {
  struct fixture *f = recovered(state);
  f->chance = CHANCE_LOWEST;
  fixture_calls(f, 4, BAD, CLOSED_AT + SECONDS(1));
  assert_int_equal(fixture_snapshot(f, CLOSED_AT + SECONDS(1)).n_failures, 4);
  fixture_calls(f, 1, BAD, CLOSED_AT + SECONDS(1));
  assert_int_equal(fixture_snapshot(f, CLOSED_AT + SECONDS(1)).state, WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static void results_of_the_ramp_stay_in_the_window_after_it(void **state) {
  struct fixture *f = *state;
  f->options.window_ns = SECONDS(600);
  (void)recovered(state);
  f->chance = CHANCE_LOWEST;
  struct weir_breaker_ticket call = fixture_admit(f, CLOSED_AT);
  fixture_calls(f, 3, BAD, CLOSED_AT);
  uint64_t generation = fixture_snapshot(f, CLOSED_AT).generation;
  fixture_calls(f, 1, BAD, CLOSED_AT + RAMP_NS);
  assert_int_equal(fixture_snapshot(f, CLOSED_AT + RAMP_NS).generation, generation);
  assert_int_equal(fixture_snapshot(f, CLOSED_AT + RAMP_NS).n_failures, 4);
  assert_true(weir_breaker_still_admits(f->breaker, &call));
  fixture_settle(f, &call, BAD, CLOSED_AT + RAMP_NS);
  assert_int_equal(fixture_snapshot(f, CLOSED_AT + RAMP_NS).state, WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static const struct {
  const char *why;
  int64_t trips_after_ns; /* since it closed */
  bool is_asked_before;   /* a call that comes after the ramp ends it */
  int64_t open_ns;
} trips[] = {
    {"as it closes", 0, false, SECONDS(60)},
    {"in the ramp", RAMP_NS / 2, false, SECONDS(60)},
    {"in its last instant", RAMP_NS - 1, false, SECONDS(60)},
    {"after it, and nobody has called since", RAMP_NS, false, SECONDS(30)},
    {"after it", RAMP_NS + SECONDS(1), true, SECONDS(30)},
};

static void trip_in_the_ramp_is_a_reopening(void **state) {
  struct fixture *f = *state;
  f->options.open_backoff = 2.0;
  for (size_t i = 0; i < sizeof trips / sizeof trips[0]; i++) {
    struct weir_breaker_ticket calls[5];
    int64_t now_ns = CLOSED_AT + trips[i].trips_after_ns;
    (void)recovered(state);
    f->chance = CHANCE_LOWEST;
    for (int j = 0; j < 5; j++) {
      calls[j] = fixture_admit(f, trips[i].is_asked_before ? now_ns : CLOSED_AT);
    }
    for (int j = 0; j < 5; j++) {
      fixture_settle(f, &calls[j], BAD, now_ns);
    }
    int64_t open_ns = fixture_refused(f, now_ns);
    if (open_ns != trips[i].open_ns) {
      fail_msg("%s: open for %lld ns", trips[i].why, (long long)open_ns);
    }
    fixture_breaker_end(f);
    f->chance = CHANCE_MIDDLE;
  }
}

static void growth_goes_on_from_ramp_to_ramp(void **state) {
  struct fixture *f = *state;
  f->options.open_backoff = 2.0;
  f->options.max_open_for_ns = SECONDS(100);
  (void)recovered(state);
  int64_t now_ns = CLOSED_AT;
  static const int64_t open_ns[] = {SECONDS(60), SECONDS(100), SECONDS(100)};
  for (size_t i = 0; i < 3; i++) {
    f->chance = CHANCE_LOWEST;
    fixture_calls(f, 5, BAD, now_ns);
    assert_int_equal(fixture_refused(f, now_ns), open_ns[i]);
    now_ns += open_ns[i];
    fixture_calls(f, f->options.probes, GOOD, now_ns);
    assert_int_equal(fixture_snapshot(f, now_ns).admitted_share_milli, 100);
  }
  fixture_breaker_end(f);
}

static void end_of_the_ramp_is_no_change_of_state(void **state) {
  struct fixture *f = recovered(state);
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  assert_int_equal(weir_breaker_admit(f->breaker, CLOSED_AT + RAMP_NS, &f->random, &ticket, &view),
                   WEIR_ADMISSION_PROCEED);
  assert_false(view.changed);
  assert_int_equal(view.generation, 3);
  /* It is over, even for a clock that is behind. */
  assert_int_equal(n_admitted(f, CLOSED_AT), 1000);
  fixture_breaker_end(f);
}

/* It begins anew, and lasts no longer than a whole ramp from then on. */
static void clock_that_is_set_back_delays_the_ramp_by_no_more_than_itself(void **state) {
  struct fixture *f = recovered(state);
  int64_t back_ns = CLOSED_AT - SECONDS(3600);
  assert_int_equal(n_admitted(f, back_ns), 100);
  assert_int_equal(n_admitted(f, back_ns + RAMP_NS / 2), 550);
  assert_int_equal(n_admitted(f, back_ns + RAMP_NS), 1000);
  fixture_breaker_end(f);
}

static void share_is_neither_nothing_nor_too_much_at_any_time(void **state) {
  static const int64_t times_ns[] = {INT64_MIN, -1, 0, 1, T0, INT64_MAX - 1, INT64_MAX};
  struct fixture *f = *state;
  f->options.ramp_for_ns = WEIR_NO_LIMIT_NS;
  f->options.probes = 1;
  for (size_t i = 0; i < sizeof times_ns / sizeof times_ns[0]; i++) {
    fixture_breaker(f);
    fixture_trip(f, T0);
    fixture_calls(f, 1, GOOD, CLOSED_AT + SECONDS(10));
    uint32_t share = fixture_snapshot(f, times_ns[i]).admitted_share_milli;
    assert_in_range(share, 100, 1000);
    fixture_breaker_end(f);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(admits_a_share_that_grows),
      TEST(without_a_ramp_all_are_let_through),
      TEST(first_closing_of_its_life_is_no_ramp),
      TEST(window_rule_holds_in_the_ramp),
      TEST(results_of_the_ramp_stay_in_the_window_after_it),
      TEST(trip_in_the_ramp_is_a_reopening),
      TEST(growth_goes_on_from_ramp_to_ramp),
      TEST(end_of_the_ramp_is_no_change_of_state),
      TEST(clock_that_is_set_back_delays_the_ramp_by_no_more_than_itself),
      TEST(share_is_neither_nothing_nor_too_much_at_any_time),
  };
  return cmocka_run_group_tests_name("breaker ramp", tests, NULL, NULL);
}
