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
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

/* One thing done to a breaker with two probes, three samples to trip, a lease of 20 s and no
 * jitter; and what its view has to say. */
enum action { ADMIT = 0, SETTLE, PROGRESS, LOOK };

#define N_TICKETS 8

static const struct step {
  const char *why;
  enum action action;
  size_t ticket;
  enum weir_breaker_verdict verdict;
  int64_t at_s;
  struct weir_breaker_view view;
} steps[] = {
    {"let through", ADMIT, 0, NEUTRAL, 0, {WEIR_BREAKER_CLOSED, 0, 0, 0, false, 0}},
    {"a success", SETTLE, 0, GOOD, 0, {WEIR_BREAKER_CLOSED, 0, 0, 0, false, 0}},
    {"another call", ADMIT, 0, NEUTRAL, 0, {WEIR_BREAKER_CLOSED, 0, 0, 0, false, 0}},
    {"and another", ADMIT, 1, NEUTRAL, 0, {WEIR_BREAKER_CLOSED, 0, 0, 0, false, 0}},
    {"a failure too few", SETTLE, 0, BAD, 0, {WEIR_BREAKER_CLOSED, 0, 0, 0, false, 0}},
    {"one that will come too late", ADMIT, 2, NEUTRAL, 0, {WEIR_BREAKER_CLOSED, 0, 0, 0, false, 0}},
    {"the failure that trips",
     SETTLE,
     1,
     BAD,
     0,
     {WEIR_BREAKER_OPEN, 0, 1, SECONDS(30), true, WEIR_BREAKER_CLOSED}},
    {"a late failure", SETTLE, 2, BAD, 10, {WEIR_BREAKER_OPEN, 0, 1, SECONDS(20), false, 0}},
    {"refused",
     ADMIT,
     0,
     NEUTRAL,
     10,
     {WEIR_BREAKER_OPEN, WEIR_BREAKER_REFUSAL_OPEN, 1, SECONDS(20), false, 0}},
    {"a look",
     LOOK,
     0,
     NEUTRAL,
     29,
     {WEIR_BREAKER_OPEN, WEIR_BREAKER_REFUSAL_OPEN, 1, SECONDS(1), false, 0}},
    {"a look when its time is over", LOOK, 0, NEUTRAL, 30, {WEIR_BREAKER_OPEN, 0, 1, 0, false, 0}},
    {"the first probe",
     ADMIT,
     0,
     NEUTRAL,
     30,
     {WEIR_BREAKER_HALF_OPEN, 0, 2, 0, true, WEIR_BREAKER_OPEN}},
    {"a place is left", LOOK, 0, NEUTRAL, 30, {WEIR_BREAKER_HALF_OPEN, 0, 2, 0, false, 0}},
    {"the second", ADMIT, 1, NEUTRAL, 32, {WEIR_BREAKER_HALF_OPEN, 0, 2, 0, false, 0}},
    {"too many",
     ADMIT,
     2,
     NEUTRAL,
     32,
     {WEIR_BREAKER_HALF_OPEN, WEIR_BREAKER_REFUSAL_PROBES_TAKEN, 2, SECONDS(18), false, 0}},
    {"no place is left",
     LOOK,
     0,
     NEUTRAL,
     32,
     {WEIR_BREAKER_HALF_OPEN, WEIR_BREAKER_REFUSAL_PROBES_TAKEN, 2, SECONDS(18), false, 0}},
    {"one succeeds", SETTLE, 0, GOOD, 33, {WEIR_BREAKER_HALF_OPEN, 0, 2, SECONDS(19), false, 0}},
    {"the other fails",
     SETTLE,
     1,
     BAD,
     34,
     {WEIR_BREAKER_OPEN, 0, 3, SECONDS(30), true, WEIR_BREAKER_HALF_OPEN}},
    {"a probe again",
     ADMIT,
     0,
     NEUTRAL,
     64,
     {WEIR_BREAKER_HALF_OPEN, 0, 4, 0, true, WEIR_BREAKER_OPEN}},
    {"is ignored", SETTLE, 0, NEUTRAL, 64, {WEIR_BREAKER_HALF_OPEN, 0, 4, 0, false, 0}},
    {"its place is had", ADMIT, 0, NEUTRAL, 64, {WEIR_BREAKER_HALF_OPEN, 0, 4, 0, false, 0}},
    {"a stream", ADMIT, 1, NEUTRAL, 64, {WEIR_BREAKER_HALF_OPEN, 0, 4, 0, false, 0}},
    {"the call succeeds",
     SETTLE,
     0,
     GOOD,
     64,
     {WEIR_BREAKER_HALF_OPEN, 0, 4, SECONDS(20), false, 0}},
    {"the stream's first message closes it",
     PROGRESS,
     1,
     NEUTRAL,
     65,
     {WEIR_BREAKER_CLOSED, 0, 5, 0, true, WEIR_BREAKER_HALF_OPEN}},
    {"its end is of the past", SETTLE, 1, BAD, 66, {WEIR_BREAKER_CLOSED, 0, 5, 0, false, 0}},
    {"a spent ticket", SETTLE, 1, BAD, 66, {WEIR_BREAKER_CLOSED, 0, 5, 0, false, 0}},
    {"a look at last", LOOK, 0, NEUTRAL, 66, {WEIR_BREAKER_CLOSED, 0, 5, 0, false, 0}},
};

static struct weir_breaker_view step_do(struct fixture *f, const struct step *step,
                                        struct weir_breaker_ticket *ticket) {
  struct weir_breaker_view view;
  int64_t now_ns = T0 + SECONDS(step->at_s);
  memset(&view, 0xff, sizeof view);
  switch (step->action) {
  case ADMIT:
    (void)weir_breaker_admit(f->breaker, now_ns, &f->random, ticket, &view);
    break;
  case SETTLE:
    weir_breaker_settle(f->breaker, ticket, step->verdict, now_ns, &f->random, &view);
    break;
  case PROGRESS:
    weir_breaker_progress(f->breaker, ticket, now_ns, &view);
    break;
  case LOOK:
    view = weir_breaker_look(f->breaker, now_ns);
    break;
  }
  return view;
}

static void every_call_is_told_how_it_found_the_breaker(void **state) {
  struct fixture *f = *state;
  struct weir_breaker_ticket tickets[N_TICKETS];
  f->options.min_requests = 3;
  f->options.probes = 2;
  f->options.open_jitter = 0.0;
  f->options.probe_lease_ns = SECONDS(20);
  fixture_breaker(f);
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    struct weir_breaker_view view = step_do(f, &steps[i], &tickets[steps[i].ticket]);
    const struct weir_breaker_view *expected = &steps[i].view;
    if (view.state != expected->state || view.refusal != expected->refusal ||
        view.generation != expected->generation ||
        view.next_probe_in_ns != expected->next_probe_in_ns || view.changed != expected->changed ||
        view.changed_from != expected->changed_from) {
      fail_msg("%s: %s, %s, generation %llu, %lld ns, changed %d from %s", steps[i].why,
               weir_breaker_state_name(view.state), weir_breaker_refusal_name(view.refusal),
               (unsigned long long)view.generation, (long long)view.next_probe_in_ns, view.changed,
               weir_breaker_state_name(view.changed_from));
    }
  }
  fixture_breaker_end(f);
}

static void view_is_not_asked_for_in_vain(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  struct weir_breaker_ticket call = fixture_admit(f, T0);
  weir_breaker_progress(f->breaker, &call, T0, NULL);
  weir_breaker_settle(f->breaker, &call, BAD, T0, &f->random, NULL);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_OPEN, NULL);
  assert_int_equal(weir_breaker_look(f->breaker, T0).next_probe_in_ns, WEIR_NO_LIMIT_NS);
  assert_int_equal(weir_breaker_look(f->breaker, T0).refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
  fixture_breaker_end(f);
}

static void snapshot_serves_older_and_newer_programs(void **state) {
  struct fixture *f = *state;
  struct {
    struct weir_breaker_snapshot snapshot;
    unsigned char more[16];
  } newer;
  struct weir_breaker_snapshot older;
  fixture_breaker(f);
  fixture_trip(f, T0);
  memset(&newer, 0xff, sizeof newer);
  newer.snapshot.size = sizeof newer;
  assert_int_equal(weir_breaker_snapshot(f->breaker, T0, &newer.snapshot), WEIR_OK);
  assert_int_equal(newer.snapshot.size, sizeof newer);
  assert_int_equal(newer.snapshot.n_trips, 1);
  assert_int_equal(newer.more[15], 0);
  memset(&older, 0xff, sizeof older);
  older.size = offsetof(struct weir_breaker_snapshot, n_shadowed);
  assert_int_equal(weir_breaker_snapshot(f->breaker, T0, &older), WEIR_OK);
  assert_int_equal(older.next_probe_in_ns, SECONDS(30));
  assert_int_equal(older.n_shadowed, UINT64_MAX); /* not touched */
  older.size = sizeof older.size - 1;
  assert_int_equal(weir_breaker_snapshot(f->breaker, T0, &older), WEIR_ERROR_INVALID_ARGUMENT);
  fixture_breaker_end(f);
}

/* OPEN, and the clock is then set back by a day: it does not stay so for a day. */
static void open_time_starts_again_when_the_clock_is_set_back(void **state) {
  struct fixture *f = *state;
  f->options.open_jitter = 0.0;
  f->options.probes = 1;
  int64_t back_ns = T0 + SECONDS(10);
  int64_t now_ns = back_ns + SECONDS(86400);
  fixture_breaker(f);
  fixture_trip(f, now_ns);
  assert_in_range(fixture_refused(f, back_ns), SECONDS(30), SECONDS(30) + 1);
  assert_in_range(fixture_refused(f, back_ns + SECONDS(29)), SECONDS(1), SECONDS(1) + 1);
  fixture_calls(f, 1, GOOD, back_ns + SECONDS(31));
  assert_int_equal(fixture_snapshot(f, back_ns + SECONDS(31)).state, WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

static void lease_starts_again_when_the_clock_is_set_back(void **state) {
  struct fixture *f = *state;
  f->options.open_jitter = 0.0;
  f->options.probes = 1;
  f->options.probe_lease_ns = SECONDS(5);
  int64_t back_ns = T0;
  int64_t now_ns = T0 + SECONDS(86400);
  fixture_breaker(f);
  fixture_trip(f, now_ns);
  (void)fixture_admit(f, now_ns + SECONDS(30)); /* lost */
  assert_int_equal(fixture_refused(f, back_ns), SECONDS(5));
  assert_int_equal(fixture_refused(f, back_ns + SECONDS(4)), SECONDS(1));
  fixture_calls(f, 1, GOOD, back_ns + SECONDS(5));
  assert_int_equal(fixture_snapshot(f, back_ns + SECONDS(5)).state, WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

/* A thread that was stopped for a moment has read its clock before the others. */
static void clock_that_is_a_little_behind_shortens_nothing(void **state) {
  struct fixture *f = *state;
  f->options.open_jitter = 0.0;
  f->options.probes = 1;
  f->options.probe_lease_ns = MS(50);
  f->options.open_for_ns = MS(100);
  fixture_breaker(f);
  fixture_trip(f, T0);
  assert_int_equal(fixture_refused(f, T0 - MS(900)), MS(1000));
  (void)fixture_refused(f, T0 + MS(100) - 1);
  (void)fixture_admit(f, T0 + MS(100));
  assert_int_equal(fixture_refused(f, T0 - MS(800)), MS(950));
  (void)fixture_refused(f, T0 + MS(150) - 1);
  (void)fixture_admit(f, T0 + MS(150));
  fixture_breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(every_call_is_told_how_it_found_the_breaker),
      TEST(view_is_not_asked_for_in_vain),
      TEST(snapshot_serves_older_and_newer_programs),
      TEST(open_time_starts_again_when_the_clock_is_set_back),
      TEST(lease_starts_again_when_the_clock_is_set_back),
      TEST(clock_that_is_a_little_behind_shortens_nothing),
  };
  return cmocka_run_group_tests_name("breaker view", tests, NULL, NULL);
}
