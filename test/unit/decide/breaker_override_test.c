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

static struct weir_breaker_view set(struct fixture *f, enum weir_breaker_override override) {
  struct weir_breaker_view view;
  memset(&view, 0xff, sizeof view);
  weir_breaker_set_override(f->breaker, override, &view);
  assert_int_equal(view.refusal, WEIR_BREAKER_REFUSAL_NONE);
  return view;
}

/* What a breaker has been through before it is overridden. */
typedef void past_fn(struct fixture *f);

static void closed(struct fixture *f) {
  fixture_calls(f, 3, BAD, T0);
}

static void open(struct fixture *f) {
  fixture_trip(f, T0);
}

static void half_open(struct fixture *f) {
  fixture_trip(f, T0);
  (void)fixture_admit(f, HALF_OPEN_AT);
}

static void in_a_ramp(struct fixture *f) {
  struct weir_breaker_options options = f->rules.options;
  options.ramp_for_ns = SECONDS(100);
  fixture_set_options(f, &options);
  fixture_trip(f, T0);
  fixture_calls(f, f->options.probes, GOOD, HALF_OPEN_AT);
}

static void forced_open(struct fixture *f) {
  (void)set(f, WEIR_BREAKER_OVERRIDE_OPEN);
}

static void disabled(struct fixture *f) {
  (void)set(f, WEIR_BREAKER_OVERRIDE_DISABLED);
}

static const struct {
  const char *why;
  past_fn *past;
  enum weir_breaker_state state;
} pasts[] = {
    {"CLOSED", closed, WEIR_BREAKER_CLOSED},
    {"OPEN", open, WEIR_BREAKER_OPEN},
    {"HALF_OPEN", half_open, WEIR_BREAKER_HALF_OPEN},
    {"in a ramp", in_a_ramp, WEIR_BREAKER_CLOSED},
    {"forced open", forced_open, WEIR_BREAKER_OPEN},
    {"switched off", disabled, WEIR_BREAKER_CLOSED},
};

#define N_PASTS (sizeof pasts / sizeof pasts[0])

static void override_starts_a_generation_in_any_state(void **state) {
  static const enum weir_breaker_override overrides[] = {
      WEIR_BREAKER_OVERRIDE_NONE, WEIR_BREAKER_OVERRIDE_OPEN, WEIR_BREAKER_OVERRIDE_DISABLED};
  struct fixture *f = *state;
  for (size_t i = 0; i < N_PASTS * 3; i++) {
    enum weir_breaker_override override = overrides[i % 3];
    fixture_breaker(f);
    pasts[i / 3].past(f);
    struct weir_breaker_snapshot before = fixture_snapshot(f, HALF_OPEN_AT);
    struct weir_breaker_view view = set(f, override);
    bool changes = before.override != override;
    bool opens = override == WEIR_BREAKER_OVERRIDE_OPEN;
    enum weir_breaker_state expected = before.state;
    if (changes) {
      expected = opens ? WEIR_BREAKER_OPEN : WEIR_BREAKER_CLOSED;
    }
    if (view.changed != changes || view.state != expected ||
        view.generation != before.generation + changes ||
        (changes && view.changed_from != pasts[i / 3].state) ||
        view.next_probe_in_ns != (opens ? WEIR_NO_LIMIT_NS : 0)) {
      fail_msg("%s, override %d", pasts[i / 3].why, (int) override);
    }
    assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).override, override);
    assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).n_trips, before.n_trips);
    assert_false(set(f, override).changed); /* it is set already */
    fixture_breaker_end(f);
  }
}

static void forced_open_refuses_every_call_for_ever(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < N_PASTS; i++) {
    fixture_breaker(f);
    pasts[i].past(f);
    (void)set(f, WEIR_BREAKER_OVERRIDE_OPEN);
    for (int64_t at_s = 0; at_s < 100 * 86400; at_s += 86400) {
      struct weir_breaker_ticket ticket;
      struct weir_breaker_view view;
      assert_int_equal(fixture_refused(f, T0 + SECONDS(at_s)), WEIR_NO_LIMIT_NS);
      (void)weir_breaker_admit(f->breaker, T0 + SECONDS(at_s), &f->random, &ticket, &view);
      assert_int_equal(view.refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
      assert_false(view.changed);
    }
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, HALF_OPEN_AT);
    assert_int_equal(snapshot.next_probe_in_ns, WEIR_NO_LIMIT_NS);
    assert_int_equal(snapshot.admitted_share_milli, 0);
    assert_true(snapshot.n_refused >= 200);
    fixture_breaker_end(f);
  }
}

static void disabled_lets_all_through_and_counts_nothing(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < N_PASTS; i++) {
    fixture_breaker(f);
    pasts[i].past(f);
    (void)set(f, WEIR_BREAKER_OVERRIDE_DISABLED);
    uint64_t n_refused = fixture_snapshot(f, T0).n_refused;
    for (int j = 0; j < 100; j++) {
      struct weir_breaker_ticket ticket;
      struct weir_breaker_view view;
      assert_int_equal(weir_breaker_admit(f->breaker, T0, &f->random, &ticket, &view),
                       WEIR_ADMISSION_PROCEED);
      assert_int_equal(ticket.stage, WEIR_BREAKER_TICKET_SPENT);
      assert_int_equal(view.state, WEIR_BREAKER_CLOSED);
      assert_int_equal(view.refusal, WEIR_BREAKER_REFUSAL_NONE);
      assert_true(weir_breaker_still_admits(f->breaker, &ticket));
      weir_breaker_progress(f->breaker, &ticket, T0, NULL);
      fixture_settle(f, &ticket, BAD, T0);
    }
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0);
    assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
    assert_int_equal(snapshot.n_requests, 0);
    assert_int_equal(snapshot.n_refused, n_refused);
    assert_int_equal(snapshot.admitted_share_milli, 1000);
    fixture_breaker_end(f);
  }
}

static void taken_back_it_is_closed_and_knows_nothing(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < N_PASTS; i++) {
    fixture_breaker(f);
    pasts[i].past(f);
    (void)set(f, WEIR_BREAKER_OVERRIDE_OPEN);
    assert_int_equal(set(f, WEIR_BREAKER_OVERRIDE_NONE).state, WEIR_BREAKER_CLOSED);
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0);
    assert_int_equal(snapshot.n_requests, 0);
    assert_int_equal(snapshot.admitted_share_milli, 1000);
    struct weir_breaker_options options = f->rules.options;
    options.ramp_for_ns = 0;
    fixture_set_options(f, &options);
    fixture_calls(f, 4, BAD, T0);
    assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_CLOSED);
    fixture_calls(f, 1, BAD, T0);
    assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_OPEN);
    assert_int_equal(fixture_refused(f, T0), SECONDS(30));
    fixture_breaker_end(f);
  }
}

static void growth_is_forgotten_under_an_override(void **state) {
  struct fixture *f = *state;
  f->options.open_backoff = 2.0;
  f->options.probes = 1;
  fixture_breaker(f);
  fixture_trip(f, T0);
  fixture_calls(f, 1, BAD, HALF_OPEN_AT);
  (void)set(f, WEIR_BREAKER_OVERRIDE_DISABLED);
  (void)set(f, WEIR_BREAKER_OVERRIDE_NONE);
  fixture_trip(f, HALF_OPEN_AT);
  assert_int_equal(fixture_refused(f, HALF_OPEN_AT), SECONDS(30));
  fixture_breaker_end(f);
}

/* Calls of before, or of a half-open period that an override has ended. */
static void result_from_before_moves_nothing(void **state) {
  static const enum weir_breaker_verdict verdicts[] = {GOOD, BAD, WEIR_BREAKER_VERDICT_IGNORED};
  struct fixture *f = *state;
  f->options.probes = 1;
  f->options.min_requests = 1;
  for (size_t i = 0; i < 3 * 3; i++) {
    fixture_breaker(f);
    struct weir_breaker_ticket call = fixture_admit(f, T0);
    fixture_trip(f, T0);
    struct weir_breaker_ticket probe = fixture_admit(f, HALF_OPEN_AT);
    (void)set(f, i / 3 == 0 ? WEIR_BREAKER_OVERRIDE_OPEN : WEIR_BREAKER_OVERRIDE_DISABLED);
    if (i / 3 == 2) {
      (void)set(f, WEIR_BREAKER_OVERRIDE_NONE);
    }
    struct weir_breaker_snapshot before = fixture_snapshot(f, HALF_OPEN_AT);
    fixture_settle(f, &call, verdicts[i % 3], HALF_OPEN_AT);
    fixture_settle(f, &probe, verdicts[i % 3], HALF_OPEN_AT);
    struct weir_breaker_snapshot after = fixture_snapshot(f, HALF_OPEN_AT);
    assert_memory_equal(&after, &before, sizeof after);
    fixture_breaker_end(f);
  }
}

static void calls_under_way_go_on_only_if_it_lets_calls_through(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  struct weir_breaker_ticket call = fixture_admit(f, T0);
  (void)set(f, WEIR_BREAKER_OVERRIDE_DISABLED);
  assert_true(weir_breaker_still_admits(f->breaker, &call));
  struct weir_breaker_ticket uncounted = {0};
  struct weir_breaker_view view;
  (void)weir_breaker_admit(f->breaker, T0, &f->random, &uncounted, &view);
  (void)set(f, WEIR_BREAKER_OVERRIDE_OPEN);
  assert_false(weir_breaker_still_admits(f->breaker, &call));
  assert_false(weir_breaker_still_admits(f->breaker, &uncounted));
  (void)set(f, WEIR_BREAKER_OVERRIDE_NONE);
  assert_false(weir_breaker_still_admits(f->breaker, &call)); /* another generation's */
  assert_true(weir_breaker_still_admits(f->breaker, &uncounted));
  fixture_trip(f, T0);
  assert_false(weir_breaker_still_admits(f->breaker, &uncounted));
  fixture_breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(override_starts_a_generation_in_any_state),
      TEST(forced_open_refuses_every_call_for_ever),
      TEST(disabled_lets_all_through_and_counts_nothing),
      TEST(taken_back_it_is_closed_and_knows_nothing),
      TEST(growth_is_forgotten_under_an_override),
      TEST(result_from_before_moves_nothing),
      TEST(calls_under_way_go_on_only_if_it_lets_calls_through),
  };
  return cmocka_run_group_tests_name("breaker override", tests, NULL, NULL);
}
