/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

/* When a breaker that trips at T0 with the default numbers and no jitter lets probes through. */
#define HALF_OPEN_AT (T0 + SECONDS(30))

static enum weir_breaker_state state_at(const struct fixture *f, int64_t now_ns) {
  return fixture_snapshot(f, now_ns).state;
}

/* A breaker that tripped at T0 and whose open time is over at HALF_OPEN_AT. */
static struct fixture *tripped(void **state, uint32_t n_probes) {
  struct fixture *f = *state;
  f->options.probes = n_probes;
  fixture_breaker(f);
  fixture_trip(f, T0);
  return f;
}

static void lets_calls_through_while_closed(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0);
  assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot.generation, 0);
  fixture_calls(f, 1000, GOOD, T0);
  snapshot = fixture_snapshot(f, T0);
  assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot.n_requests, 1000);
  assert_int_equal(snapshot.n_refused, 0);
  assert_int_equal(snapshot.n_probes, 0);
  fixture_breaker_end(f);
}

static void refuses_while_open_and_says_for_how_long(void **state) {
  struct fixture *f = tripped(state, 3);
  assert_int_equal(fixture_refused(f, T0), SECONDS(30));
  assert_int_equal(fixture_refused(f, T0 + SECONDS(10)), SECONDS(20));
  assert_int_equal(fixture_refused(f, HALF_OPEN_AT - 1), 1);
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(10)).next_probe_in_ns, SECONDS(20));
  assert_int_equal(state_at(f, HALF_OPEN_AT - 1), WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static void counts_a_trip_once_and_refusals_apart(void **state) {
  struct fixture *f = tripped(state, 3);
  for (int i = 0; i < 10000; i++) {
    (void)fixture_refused(f, T0 + i);
  }
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0 + SECONDS(1));
  assert_int_equal(snapshot.n_trips, 1);
  assert_int_equal(snapshot.n_refused, 10000);
  assert_int_equal(snapshot.n_probes, 0);
  assert_int_equal(snapshot.generation, 1);
  fixture_breaker_end(f);
}

static void open_time_that_is_over_shows_no_negative_wait(void **state) {
  struct fixture *f = tripped(state, 3);
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, HALF_OPEN_AT + SECONDS(5));
  assert_int_equal(snapshot.state, WEIR_BREAKER_OPEN);
  assert_int_equal(snapshot.next_probe_in_ns, 0);
  fixture_breaker_end(f);
}

static void half_open_admits_exactly_the_probe_count(void **state) {
  static const uint32_t counts[] = {1, 3, 64};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    struct fixture *f = tripped(state, counts[i]);
    for (uint32_t j = 0; j < counts[i]; j++) {
      struct weir_breaker_ticket ticket = fixture_admit(f, HALF_OPEN_AT);
      assert_int_not_equal(ticket.place, WEIR_BREAKER_NO_PLACE);
    }
    for (int j = 0; j < 100; j++) {
      (void)fixture_refused(f, HALF_OPEN_AT);
    }
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, HALF_OPEN_AT);
    assert_int_equal(snapshot.state, WEIR_BREAKER_HALF_OPEN);
    assert_int_equal(snapshot.n_probes, counts[i]);
    assert_int_equal(snapshot.n_refused, 100);
    assert_int_equal(snapshot.next_probe_in_ns, 0);
    fixture_breaker_end(f);
  }
}

static void closes_only_when_all_probes_have_succeeded(void **state) {
  struct fixture *f = tripped(state, 3);
  struct weir_breaker_ticket probes[3];
  for (int i = 0; i < 3; i++) {
    probes[i] = fixture_admit(f, HALF_OPEN_AT);
  }
  fixture_settle(f, &probes[2], GOOD, HALF_OPEN_AT);
  fixture_settle(f, &probes[0], GOOD, HALF_OPEN_AT);
  assert_int_equal(state_at(f, HALF_OPEN_AT), WEIR_BREAKER_HALF_OPEN);
  (void)fixture_refused(f, HALF_OPEN_AT); /* a success does not make room for another probe */
  fixture_settle(f, &probes[1], GOOD, HALF_OPEN_AT);
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, HALF_OPEN_AT);
  assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot.generation, 3);
  assert_int_equal(snapshot.n_requests, 0);
  assert_int_equal(snapshot.n_trips, 1);
  fixture_calls(f, 10, GOOD, HALF_OPEN_AT);
  fixture_breaker_end(f);
}

static void closes_with_probes_that_come_one_after_the_other(void **state) {
  struct fixture *f = tripped(state, 3);
  fixture_calls(f, 1, GOOD, HALF_OPEN_AT);
  fixture_calls(f, 1, GOOD, HALF_OPEN_AT + SECONDS(100));
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(100)), WEIR_BREAKER_HALF_OPEN);
  fixture_calls(f, 1, GOOD, HALF_OPEN_AT + SECONDS(200));
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(200)), WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

static void one_failed_probe_opens_for_a_full_open_time(void **state) {
  for (int n_good_first = 0; n_good_first < 3; n_good_first++) {
    struct fixture *f = tripped(state, 3);
    struct weir_breaker_ticket probes[3];
    for (int i = 0; i < 3; i++) {
      probes[i] = fixture_admit(f, HALF_OPEN_AT);
    }
    for (int i = 0; i < n_good_first; i++) {
      fixture_settle(f, &probes[i], GOOD, HALF_OPEN_AT + SECONDS(1));
    }
    fixture_settle(f, &probes[n_good_first], BAD, HALF_OPEN_AT + SECONDS(2));
    assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(2)), WEIR_BREAKER_OPEN);
    assert_int_equal(fixture_refused(f, HALF_OPEN_AT + SECONDS(2)), SECONDS(30));
    assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT + SECONDS(2)).n_trips, 2);

    /* What the others say is of the past. */
    for (int i = n_good_first + 1; i < 3; i++) {
      fixture_settle(f, &probes[i], i == 1 ? GOOD : BAD, HALF_OPEN_AT + SECONDS(3));
    }
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, HALF_OPEN_AT + SECONDS(3));
    assert_int_equal(snapshot.state, WEIR_BREAKER_OPEN);
    assert_int_equal(snapshot.next_probe_in_ns, SECONDS(29));
    assert_int_equal(snapshot.n_trips, 2);
    fixture_breaker_end(f);
  }
}

static void ignored_probe_gives_its_place_back(void **state) {
  struct fixture *f = tripped(state, 1);
  for (int i = 0; i < 100; i++) {
    struct weir_breaker_ticket probe = fixture_admit(f, HALF_OPEN_AT);
    (void)fixture_refused(f, HALF_OPEN_AT);
    fixture_settle(f, &probe, NEUTRAL, HALF_OPEN_AT);
    assert_int_equal(state_at(f, HALF_OPEN_AT), WEIR_BREAKER_HALF_OPEN);
  }
  fixture_calls(f, 1, GOOD, HALF_OPEN_AT);
  assert_int_equal(state_at(f, HALF_OPEN_AT), WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

static void probe_that_is_never_settled_gives_its_place_back(void **state) {
  struct fixture *f = tripped(state, 1);
  struct weir_breaker_ticket probe = fixture_admit(f, HALF_OPEN_AT);
  weir_breaker_release(f->breaker, &probe);
  struct weir_breaker_ticket next = fixture_admit(f, HALF_OPEN_AT);
  weir_breaker_release(f->breaker, &probe); /* a spent ticket is worth nothing */
  (void)fixture_refused(f, HALF_OPEN_AT);
  fixture_settle(f, &next, GOOD, HALF_OPEN_AT);
  assert_int_equal(state_at(f, HALF_OPEN_AT), WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

static void place_can_be_claimed_when_the_lease_is_over(void **state) {
  struct fixture *f = tripped(state, 1);
  struct weir_breaker_options options = f->rules.options;
  options.probe_lease_ns = SECONDS(5);
  fixture_set_options(f, &options);
  struct weir_breaker_ticket lost = fixture_admit(f, HALF_OPEN_AT);
  assert_int_equal(fixture_refused(f, HALF_OPEN_AT), SECONDS(5));
  assert_int_equal(fixture_refused(f, HALF_OPEN_AT + SECONDS(5) - 1), 1);
  struct weir_breaker_ticket next = fixture_admit(f, HALF_OPEN_AT + SECONDS(5));
  assert_int_equal(fixture_refused(f, HALF_OPEN_AT + SECONDS(5)), SECONDS(5));
  assert_int_equal(fixture_snapshot(f, T0).n_probes, 2);

  fixture_settle(f, &next, GOOD, HALF_OPEN_AT + SECONDS(6));
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(6)), WEIR_BREAKER_CLOSED);
  fixture_settle(f, &lost, BAD, HALF_OPEN_AT + SECONDS(7));
  assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT + SECONDS(7)).n_failures, 0);
  fixture_breaker_end(f);
}

static void late_result_of_a_lost_place_is_dropped(void **state) {
  static const enum weir_breaker_verdict verdicts[] = {GOOD, BAD, NEUTRAL};
  for (size_t i = 0; i < 3; i++) {
    struct fixture *f = tripped(state, 1);
    struct weir_breaker_ticket lost = fixture_admit(f, HALF_OPEN_AT);
    struct weir_breaker_ticket next = fixture_admit(f, HALF_OPEN_AT + SECONDS(30));
    fixture_settle(f, &lost, verdicts[i], HALF_OPEN_AT + SECONDS(31));
    assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(31)), WEIR_BREAKER_HALF_OPEN);
    (void)fixture_refused(f, HALF_OPEN_AT + SECONDS(31)); /* the place is not returned twice */
    fixture_settle(f, &next, GOOD, HALF_OPEN_AT + SECONDS(31));
    assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(31)), WEIR_BREAKER_CLOSED);
    fixture_breaker_end(f);
  }
}

static void late_result_counts_while_nobody_has_taken_the_place(void **state) {
  struct fixture *f = tripped(state, 1);
  struct weir_breaker_ticket slow = fixture_admit(f, HALF_OPEN_AT);
  fixture_settle(f, &slow, BAD, HALF_OPEN_AT + SECONDS(60));
  assert_int_equal(fixture_refused(f, HALF_OPEN_AT + SECONDS(60)), SECONDS(30));
  slow = fixture_admit(f, HALF_OPEN_AT + SECONDS(90));
  fixture_settle(f, &slow, GOOD, HALF_OPEN_AT + SECONDS(150));
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(150)), WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

static void lost_probe_of_months_ago_does_not_block(void **state) {
  struct fixture *f = tripped(state, 1);
  (void)fixture_admit(f, HALF_OPEN_AT);
  fixture_calls(f, 1, GOOD, HALF_OPEN_AT + SECONDS(86400) * 200);
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(86400) * 200), WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

static void lease_without_end_holds(void **state) {
  struct fixture *f = *state;
  f->options.probe_lease_ns = WEIR_NO_LIMIT_NS;
  (void)tripped(state, 1);
  (void)fixture_admit(f, HALF_OPEN_AT);
  (void)fixture_refused(f, HALF_OPEN_AT + SECONDS(86400) * 365);
  fixture_breaker_end(f);
}

static void probe_of_an_earlier_half_open_period_moves_nothing(void **state) {
  static const enum weir_breaker_verdict verdicts[] = {GOOD, BAD, NEUTRAL};
  for (size_t i = 0; i < 3; i++) {
    struct fixture *f = tripped(state, 2);
    struct weir_breaker_ticket stale = fixture_admit(f, HALF_OPEN_AT);
    fixture_calls(f, 1, BAD, HALF_OPEN_AT);
    int64_t again_at_ns = HALF_OPEN_AT + SECONDS(30);
    struct weir_breaker_ticket first = fixture_admit(f, again_at_ns);
    struct weir_breaker_ticket second = fixture_admit(f, again_at_ns);

    fixture_settle(f, &stale, verdicts[i], again_at_ns);

    assert_int_equal(state_at(f, again_at_ns), WEIR_BREAKER_HALF_OPEN);
    (void)fixture_refused(f, again_at_ns);
    fixture_settle(f, &first, GOOD, again_at_ns);
    assert_int_equal(state_at(f, again_at_ns), WEIR_BREAKER_HALF_OPEN);
    fixture_settle(f, &second, GOOD, again_at_ns);
    assert_int_equal(state_at(f, again_at_ns), WEIR_BREAKER_CLOSED);
    fixture_breaker_end(f);
  }
}

static void call_admitted_before_the_trip_moves_nothing_after_it(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  struct weir_breaker_ticket calls[4];
  for (int i = 0; i < 4; i++) {
    calls[i] = fixture_admit(f, T0);
  }
  fixture_trip(f, T0);
  fixture_settle(f, &calls[0], GOOD, T0 + SECONDS(1));
  fixture_settle(f, &calls[1], BAD, T0 + SECONDS(1));
  assert_int_equal(fixture_refused(f, T0 + SECONDS(1)), SECONDS(29));
  for (int i = 0; i < 3; i++) {
    (void)fixture_admit(f, HALF_OPEN_AT);
  }
  fixture_settle(f, &calls[2], GOOD, HALF_OPEN_AT);
  fixture_settle(f, &calls[3], BAD, HALF_OPEN_AT);
  assert_int_equal(state_at(f, HALF_OPEN_AT), WEIR_BREAKER_HALF_OPEN);
  (void)fixture_refused(f, HALF_OPEN_AT);
  assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).n_trips, 1);
  fixture_breaker_end(f);
}

static void ticket_is_as_good_after_the_breaker_was_disabled(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  struct weir_breaker_ticket call = fixture_admit(f, T0);
  for (int i = 0; i < 3; i++) {
    weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
    assert_true(weir_breaker_still_admits(f->breaker, &call));
    weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
    assert_true(weir_breaker_still_admits(f->breaker, &call));
  }
  struct weir_breaker_ticket later = fixture_admit(f, T0);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_OPEN, NULL);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
  assert_false(weir_breaker_still_admits(f->breaker, &call)); /* it was open in between */
  assert_false(weir_breaker_still_admits(f->breaker, &later));
  struct weir_breaker_ticket last = fixture_admit(f, T0);
  fixture_trip(f, T0);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
  assert_false(weir_breaker_still_admits(f->breaker, &last));
  fixture_breaker_end(f);
}

static void ticket_says_whether_the_breaker_is_still_closed(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  fixture_breaker(f);
  struct weir_breaker_ticket call = fixture_admit(f, T0);
  assert_true(weir_breaker_still_admits(f->breaker, &call));
  fixture_trip(f, T0);
  assert_false(weir_breaker_still_admits(f->breaker, &call));
  struct weir_breaker_ticket probe = fixture_admit(f, HALF_OPEN_AT);
  assert_false(weir_breaker_still_admits(f->breaker, &call));
  assert_false(weir_breaker_still_admits(f->breaker, &probe));
  fixture_settle(f, &probe, GOOD, HALF_OPEN_AT);
  assert_false(weir_breaker_still_admits(f->breaker, &call)); /* closed, but another time */
  struct weir_breaker_ticket later = fixture_admit(f, HALF_OPEN_AT);
  assert_true(weir_breaker_still_admits(f->breaker, &later));
  fixture_breaker_end(f);
}

static const struct {
  const char *why;
  double jitter;
  uint64_t chance;
  double backoff;
  int64_t max_open_for_ns;
  int64_t open_for_ns[5]; /* of the trip and of each reopening after it */
} open_times[] = {
    {"as set",
     0.0,
     CHANCE_LOWEST,
     1.0,
     SECONDS(300),
     {SECONDS(10), SECONDS(10), SECONDS(10), SECONDS(10), SECONDS(10)}},
    {"shortest",
     0.1,
     CHANCE_LOWEST,
     1.0,
     SECONDS(300),
     {SECONDS(9), SECONDS(9), SECONDS(9), SECONDS(9), SECONDS(9)}},
    {"in the middle",
     0.1,
     CHANCE_MIDDLE,
     1.0,
     SECONDS(300),
     {SECONDS(10), SECONDS(10), SECONDS(10), SECONDS(10), SECONDS(10)}},
    {"longest",
     0.1,
     CHANCE_HIGHEST,
     1.0,
     SECONDS(300),
     {SECONDS(11), SECONDS(11), SECONDS(11), SECONDS(11), SECONDS(11)}},
    {"doubling up to the cap",
     0.0,
     CHANCE_LOWEST,
     2.0,
     SECONDS(50),
     {SECONDS(10), SECONDS(20), SECONDS(40), SECONDS(50), SECONDS(50)}},
    {"growing by half",
     0.0,
     CHANCE_LOWEST,
     1.5,
     SECONDS(300),
     {SECONDS(10), SECONDS(15), MS(22500), MS(33750), MS(50625)}},
    {"a fleet at the cap is still spread",
     0.5,
     CHANCE_HIGHEST,
     2.0,
     SECONDS(20),
     {SECONDS(15), SECONDS(30), SECONDS(30), SECONDS(30), SECONDS(30)}},
    {"growth beyond all numbers",
     0.0,
     CHANCE_LOWEST,
     1e300,
     SECONDS(300),
     {SECONDS(10), SECONDS(300), SECONDS(300), SECONDS(300), SECONDS(300)}},
    {"without a cap worth the name",
     0.0,
     CHANCE_LOWEST,
     10.0,
     WEIR_NO_LIMIT_NS,
     {SECONDS(10), SECONDS(100), SECONDS(1000), SECONDS(10000), SECONDS(100000)}},
};

static void assert_about(const char *why, int64_t actual_ns, int64_t expected_ns) {
  int64_t off_ns = actual_ns - expected_ns;
  if (off_ns > 10 || off_ns < -10) {
    fail_msg("%s: %lld ns instead of %lld", why, (long long)actual_ns, (long long)expected_ns);
  }
}

static void stays_open_for_the_jittered_and_grown_time(void **state) {
  struct fixture *f = *state;
  f->options.open_for_ns = SECONDS(10);
  f->options.probes = 1;
  for (size_t i = 0; i < sizeof open_times / sizeof open_times[0]; i++) {
    f->options.open_jitter = open_times[i].jitter;
    f->options.open_backoff = open_times[i].backoff;
    f->options.max_open_for_ns = open_times[i].max_open_for_ns;
    f->chance = open_times[i].chance;
    fixture_breaker(f);
    int64_t now_ns = T0;
    fixture_trip(f, now_ns);
    for (size_t j = 0; j < 5; j++) {
      int64_t open_ns = fixture_refused(f, now_ns);
      assert_about(open_times[i].why, open_ns, open_times[i].open_for_ns[j]);
      (void)fixture_refused(f, now_ns + open_ns - 1);
      now_ns += open_ns;
      fixture_calls(f, 1, BAD, now_ns);
      assert_int_equal(fixture_snapshot(f, now_ns).n_trips, j + 2);
    }
    fixture_breaker_end(f);
  }
}

static void growth_starts_again_when_it_has_closed(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  f->options.open_jitter = 0.0;
  f->options.open_backoff = 2.0;
  fixture_breaker(f);
  fixture_trip(f, T0);
  fixture_calls(f, 1, BAD, T0 + SECONDS(30));
  assert_int_equal(fixture_refused(f, T0 + SECONDS(30)), SECONDS(60));
  fixture_calls(f, 1, GOOD, T0 + SECONDS(90));
  fixture_trip(f, T0 + SECONDS(91));
  assert_int_equal(fixture_refused(f, T0 + SECONDS(91)), SECONDS(30));
  fixture_breaker_end(f);
}

static void open_time_without_end_is_survived(void **state) {
  struct fixture *f = *state;
  f->options.open_for_ns = WEIR_NO_LIMIT_NS;
  f->options.max_open_for_ns = WEIR_NO_LIMIT_NS;
  f->chance = CHANCE_HIGHEST;
  fixture_breaker(f);
  fixture_trip(f, T0);
  assert_int_equal(fixture_refused(f, T0 + SECONDS(86400) * 365 * 100), WEIR_NO_LIMIT_NS);
  fixture_breaker_end(f);
}

static void large_jump_of_the_clock_makes_one_transition(void **state) {
  struct fixture *f = tripped(state, 1);
  int64_t later_ns = T0 + SECONDS(6) * 3600;
  struct weir_breaker_ticket probe = fixture_admit(f, later_ns);
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, later_ns);
  assert_int_equal(snapshot.state, WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(snapshot.generation, 2);
  assert_int_equal(snapshot.n_trips, 1);
  (void)fixture_refused(f, later_ns);
  fixture_settle(f, &probe, GOOD, later_ns);
  assert_int_equal(fixture_snapshot(f, later_ns).generation, 3);
  fixture_breaker_end(f);
}

static void works_from_the_first_nanosecond_to_the_last(void **state) {
  static const int64_t starts_ns[] = {INT64_MIN, -1, 0, 1, INT64_MAX / 2, INT64_MAX - SECONDS(1)};
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof starts_ns / sizeof starts_ns[0]; i++) {
    fixture_breaker(f);
    fixture_calls(f, 4, BAD, starts_ns[i]);
    assert_int_equal(fixture_snapshot(f, starts_ns[i]).n_failures, 4);
    fixture_calls(f, 1, BAD, starts_ns[i]);
    assert_int_equal(state_at(f, starts_ns[i]), WEIR_BREAKER_OPEN);
    (void)fixture_refused(f, starts_ns[i]);
    fixture_breaker_end(f);
  }
}

static void window_reaches_across_the_clocks_zero(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  fixture_calls(f, 4, BAD, -1);
  fixture_calls(f, 1, BAD, 0);
  assert_int_equal(state_at(f, 0), WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static void first_message_of_a_stream_is_its_success(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  struct weir_breaker_ticket stream = fixture_admit(f, T0);
  weir_breaker_progress(f->breaker, &stream, T0, NULL);
  weir_breaker_progress(f->breaker, &stream, T0, NULL);
  assert_int_equal(fixture_snapshot(f, T0).n_requests, 1);
  fixture_settle(f, &stream, GOOD, T0 + SECONDS(1));
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(1)).n_requests, 1);
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(1)).n_failures, 0);
  fixture_breaker_end(f);
}

static void stream_that_fails_after_its_first_message_fails_too(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  struct weir_breaker_ticket stream = fixture_admit(f, T0);
  weir_breaker_progress(f->breaker, &stream, T0, NULL);
  fixture_settle(f, &stream, BAD, T0 + SECONDS(1));
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(1)).n_requests, 2);
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(1)).n_failures, 1);
  fixture_breaker_end(f);
}

static void streaming_probes_close_with_their_first_messages(void **state) {
  struct fixture *f = tripped(state, 2);
  struct weir_breaker_ticket streams[2];
  for (int i = 0; i < 2; i++) {
    streams[i] = fixture_admit(f, HALF_OPEN_AT);
    weir_breaker_progress(f->breaker, &streams[i], HALF_OPEN_AT, NULL);
  }
  assert_int_equal(state_at(f, HALF_OPEN_AT), WEIR_BREAKER_CLOSED);
  /* The period they were probes of is over. */
  fixture_settle(f, &streams[0], BAD, HALF_OPEN_AT + SECONDS(1));
  fixture_settle(f, &streams[1], GOOD, HALF_OPEN_AT + SECONDS(1));
  assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT + SECONDS(1)).n_requests, 0);
  fixture_breaker_end(f);
}

static void streaming_probe_that_fails_in_its_period_opens(void **state) {
  struct fixture *f = tripped(state, 2);
  struct weir_breaker_ticket stream = fixture_admit(f, HALF_OPEN_AT);
  weir_breaker_progress(f->breaker, &stream, HALF_OPEN_AT, NULL);
  assert_int_equal(state_at(f, HALF_OPEN_AT), WEIR_BREAKER_HALF_OPEN);
  fixture_settle(f, &stream, BAD, HALF_OPEN_AT + SECONDS(100));
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(100)), WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static void long_stream_keeps_no_place_from_the_next_probe(void **state) {
  struct fixture *f = tripped(state, 1);
  struct weir_breaker_ticket silent = fixture_admit(f, HALF_OPEN_AT);
  struct weir_breaker_ticket next = fixture_admit(f, HALF_OPEN_AT + SECONDS(30));
  weir_breaker_progress(f->breaker, &silent, HALF_OPEN_AT + SECONDS(31), NULL); /* too late */
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(31)), WEIR_BREAKER_HALF_OPEN);
  fixture_settle(f, &silent, BAD, HALF_OPEN_AT + SECONDS(32));
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(32)), WEIR_BREAKER_HALF_OPEN);
  fixture_settle(f, &next, GOOD, HALF_OPEN_AT + SECONDS(33));
  assert_int_equal(state_at(f, HALF_OPEN_AT + SECONDS(33)), WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

static void calls_allocate_nothing(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  size_t n_before = f->n_allocations;
  fixture_trip(f, T0);
  (void)fixture_refused(f, T0);
  fixture_calls(f, 3, GOOD, HALF_OPEN_AT);
  assert_int_equal(f->n_allocations, n_before);
  fixture_breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(lets_calls_through_while_closed),
      TEST(refuses_while_open_and_says_for_how_long),
      TEST(counts_a_trip_once_and_refusals_apart),
      TEST(open_time_that_is_over_shows_no_negative_wait),
      TEST(half_open_admits_exactly_the_probe_count),
      TEST(closes_only_when_all_probes_have_succeeded),
      TEST(closes_with_probes_that_come_one_after_the_other),
      TEST(one_failed_probe_opens_for_a_full_open_time),
      TEST(ignored_probe_gives_its_place_back),
      TEST(probe_that_is_never_settled_gives_its_place_back),
      TEST(place_can_be_claimed_when_the_lease_is_over),
      TEST(late_result_of_a_lost_place_is_dropped),
      TEST(late_result_counts_while_nobody_has_taken_the_place),
      TEST(lost_probe_of_months_ago_does_not_block),
      TEST(lease_without_end_holds),
      TEST(probe_of_an_earlier_half_open_period_moves_nothing),
      TEST(call_admitted_before_the_trip_moves_nothing_after_it),
      TEST(ticket_is_as_good_after_the_breaker_was_disabled),
      TEST(ticket_says_whether_the_breaker_is_still_closed),
      TEST(stays_open_for_the_jittered_and_grown_time),
      TEST(growth_starts_again_when_it_has_closed),
      TEST(open_time_without_end_is_survived),
      TEST(large_jump_of_the_clock_makes_one_transition),
      TEST(works_from_the_first_nanosecond_to_the_last),
      TEST(window_reaches_across_the_clocks_zero),
      TEST(first_message_of_a_stream_is_its_success),
      TEST(stream_that_fails_after_its_first_message_fails_too),
      TEST(streaming_probes_close_with_their_first_messages),
      TEST(streaming_probe_that_fails_in_its_period_opens),
      TEST(long_stream_keeps_no_place_from_the_next_probe),
      TEST(calls_allocate_nothing),
  };
  return cmocka_run_group_tests_name("breaker", tests, NULL, NULL);
}
