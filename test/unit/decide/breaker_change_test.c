/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/decide/breaker_numbers.h"
#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

#define HALF_OPEN_AT (T0 + SECONDS(30))
#define NOW (HALF_OPEN_AT + SECONDS(1))
#define MAX_PROBES 8

static void breaker_begin(struct fixture *f) {
  assert_int_equal(weir_breaker_new(&f->options, &f->allocator, &f->breaker), WEIR_OK);
}

static void breaker_end(struct fixture *f) {
  weir_breaker_free(f->breaker);
  f->breaker = NULL;
}

static void set_options(struct fixture *f, const struct weir_breaker_options *options) {
  assert_int_equal(weir_breaker_set_options(f->breaker, options), WEIR_OK);
}

static enum weir_breaker_state state_at(const struct fixture *f, int64_t now_ns) {
  return weir_breaker_look(f->breaker, now_ns).state;
}

/* --- every state, every change --- */

static void untouched(struct fixture *f) {
  (void)f;
}

static void with_results(struct fixture *f) {
  fixture_calls(f, 3, GOOD, T0);
  fixture_calls(f, 4, BAD, T0);
}

static void open_now(struct fixture *f) {
  fixture_trip(f, T0 + SECONDS(20));
}

static void half_open(struct fixture *f) {
  struct weir_breaker_ticket probe;
  fixture_trip(f, T0);
  probe = fixture_admit(f, HALF_OPEN_AT);
  fixture_settle(f, &probe, NEUTRAL, HALF_OPEN_AT);
}

static void half_open_with_two_out(struct fixture *f) {
  fixture_trip(f, T0);
  (void)fixture_admit(f, HALF_OPEN_AT);
  (void)fixture_admit(f, HALF_OPEN_AT);
}

static void half_open_with_a_success(struct fixture *f) {
  half_open(f);
  fixture_calls(f, 1, GOOD, HALF_OPEN_AT);
}

static void in_a_ramp(struct fixture *f) {
  struct weir_breaker_options options = f->options;
  options.ramp_for_ns = SECONDS(600);
  set_options(f, &options);
  fixture_trip(f, T0);
  fixture_calls(f, f->options.probes, GOOD, HALF_OPEN_AT);
}

static void forced_open(struct fixture *f) {
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_OPEN, NULL);
}

static void disabled(struct fixture *f) {
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
}

static const struct {
  const char *name;
  void (*past)(struct fixture *f);
} pasts[] = {
    {"untouched", untouched},
    {"with results", with_results},
    {"open", open_now},
    {"half-open", half_open},
    {"half-open, two probes out", half_open_with_two_out},
    {"half-open, one has succeeded", half_open_with_a_success},
    {"in a ramp", in_a_ramp},
    {"forced open", forced_open},
    {"disabled", disabled},
};

/* `field` is set to `value`, or, where there is none, to the whole number. */
struct change {
  const char *why;
  size_t integer_at; /* of an int64_t */
  size_t small_at;   /* of a uint32_t */
  size_t real_at;    /* of a double */
  double value;
  bool empties; /* the window */
};

#define SPAN(field, v) .integer_at = offsetof(struct weir_breaker_options, field), .value = (v)
#define NUMBER(field, v) .small_at = offsetof(struct weir_breaker_options, field), .value = (v)
#define REAL(field, v) .real_at = offsetof(struct weir_breaker_options, field), .value = (v)

static const struct change changes[] = {
    {"longer window", SPAN(window_ns, 120e9), true},
    {"shorter window", SPAN(window_ns, 1e9), true},
    {"more buckets", NUMBER(window_buckets, 60), true},
    {"fewer buckets", NUMBER(window_buckets, 1), true},
    {"more samples", NUMBER(min_requests, 100), false},
    {"fewer samples", NUMBER(min_requests, 1), false},
    {"lower ratio", REAL(failure_ratio, 0.01), false},
    {"higher ratio", REAL(failure_ratio, 1.0), false},
    {"a row", NUMBER(consecutive_failures, 1), false},
    {"longer open", SPAN(open_for_ns, 60e9), false},
    {"shorter open", SPAN(open_for_ns, 20e9), false},
    {"no jitter", REAL(open_jitter, 0.0), false},
    {"growth", REAL(open_backoff, 2.0), false},
    {"higher cap", SPAN(max_open_for_ns, 900e9), false},
    {"more probes", NUMBER(probes, 5), false},
    {"fewer probes", NUMBER(probes, 2), false},
    {"longer lease", SPAN(probe_lease_ns, 60e9), false},
    {"shorter lease", SPAN(probe_lease_ns, 5e9), false},
    {"a ramp", SPAN(ramp_for_ns, 300e9), false},
    {"a floor", SPAN(deadline_floor_ns, 1e9), false},
    {"shadow", NUMBER(mode, WEIR_BREAKER_MODE_SHADOW), false},
    {"fewer breakers", NUMBER(max_breakers, 1), false},
};

static struct weir_breaker_options changed(const struct weir_breaker_options *before,
                                           const struct change *change) {
  struct weir_breaker_options options = *before;
  char *bytes = (char *)&options;
  if (change->integer_at != 0) {
    int64_t value = (int64_t)change->value;
    memcpy(bytes + change->integer_at, &value, sizeof value);
  } else if (change->small_at != 0) {
    uint32_t value = (uint32_t)change->value;
    memcpy(bytes + change->small_at, &value, sizeof value);
  } else {
    memcpy(bytes + change->real_at, &change->value, sizeof change->value);
  }
  return options;
}

/* Calls that succeed, until it is CLOSED and lets everything through. */
static void recover(struct fixture *f, const char *past, const char *change) {
  int64_t now_ns = NOW + SECONDS(3600);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
  for (uint32_t i = 0; i < 2 * MAX_PROBES; i++) {
    struct weir_breaker_ticket ticket;
    struct weir_breaker_view view;
    (void)weir_breaker_admit(f->breaker, now_ns, &f->random, &ticket, &view);
    if (view.refusal == WEIR_BREAKER_REFUSAL_PROBES_TAKEN ||
        view.refusal == WEIR_BREAKER_REFUSAL_OPEN) {
      fail_msg("%s, %s: refused for ever", past, change);
    }
    weir_breaker_settle(f->breaker, &ticket, GOOD, now_ns, &f->random, NULL);
  }
  now_ns += SECONDS(3600); /* a ramp is over */
  fixture_calls(f, 1, GOOD, now_ns);
  if (state_at(f, now_ns) != WEIR_BREAKER_CLOSED) {
    fail_msg("%s, %s: does not close", past, change);
  }
}

static void change_in_a_state(struct fixture *f, size_t past, const struct change *change) {
  breaker_begin(f);
  pasts[past].past(f);
  struct weir_breaker_snapshot before = fixture_snapshot(f, NOW);
  struct weir_breaker_options options = changed(&f->breaker->rules->options, change);
  set_options(f, &options);
  struct weir_breaker_snapshot after = fixture_snapshot(f, NOW);
  if (change->empties) {
    before.n_requests = 0;
    before.n_failures = 0;
  }
  if (before.state != after.state || before.generation != after.generation ||
      before.override != after.override || before.n_trips != after.n_trips ||
      before.n_probes != after.n_probes || before.n_requests != after.n_requests ||
      before.n_failures != after.n_failures) {
    fail_msg("%s, %s: %s of generation %llu, %llu of %llu failed", pasts[past].name, change->why,
             weir_breaker_state_name(after.state), (unsigned long long)after.generation,
             (unsigned long long)after.n_failures, (unsigned long long)after.n_requests);
  }
  recover(f, pasts[past].name, change->why);
  breaker_end(f);
}

static void no_change_of_numbers_is_a_change_of_state(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 8;
  for (size_t past = 0; past < sizeof pasts / sizeof pasts[0]; past++) {
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
      change_in_a_state(f, past, &changes[i]);
    }
  }
}

static void the_same_options_change_nothing(void **state) {
  struct fixture *f = *state;
  for (size_t past = 0; past < sizeof pasts / sizeof pasts[0]; past++) {
    breaker_begin(f);
    pasts[past].past(f);
    struct weir_breaker_options options = f->breaker->rules->options;
    struct weir_breaker_snapshot before = fixture_snapshot(f, NOW);
    struct weir_breaker_view looked = weir_breaker_look(f->breaker, NOW);
    uint64_t turn = weir__breaker_rules_turn(f->breaker->rules);
    size_t n_allocations = f->n_allocations;
    for (int i = 0; i < 1000; i++) {
      set_options(f, &options);
    }
    struct weir_breaker_snapshot after = fixture_snapshot(f, NOW);
    struct weir_breaker_view looked_again = weir_breaker_look(f->breaker, NOW);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(looked.next_probe_in_ns, looked_again.next_probe_in_ns);
    assert_int_equal(looked.refusal, looked_again.refusal);
    assert_int_equal(weir__breaker_rules_turn(f->breaker->rules), turn);
    assert_int_equal(f->n_allocations, n_allocations);
    breaker_end(f);
  }
}

/* --- the open time --- */

static const struct {
  const char *why;
  uint32_t n_reopenings;
  uint64_t chance;
  struct weir_breaker_options from;
  struct weir_breaker_options to;
  int64_t asked_after_s; /* it opened */
  int64_t wait_ms;       /* 0 = it is half-open now */
} open_times[] = {
#define FROM WEIR_BREAKER_OPTIONS_INIT
    {"longer", 0, CHANCE_MIDDLE, FROM, {.open_for_ns = SECONDS(60)}, 10, 50000},
    {"shorter", 0, CHANCE_MIDDLE, FROM, {.open_for_ns = SECONDS(20)}, 10, 10000},
    {"so short that it is over", 0, CHANCE_MIDDLE, FROM, {.open_for_ns = SECONDS(10)}, 10, 0},
    {"the jitter is not drawn again",
     0,
     CHANCE_LOWEST,
     FROM,
     {.open_for_ns = SECONDS(60)},
     0,
     54000},
    {"no jitter any more", 0, CHANCE_LOWEST, FROM, {.open_jitter = 1e-300}, 0, 30000},
    {"more jitter", 0, CHANCE_LOWEST, FROM, {.open_jitter = 0.5}, 0, 15000},
    {"growth", 2, CHANCE_MIDDLE, FROM, {.open_backoff = 2.0}, 0, 120000},
    {"a lower cap",
     2,
     CHANCE_MIDDLE,
     FROM,
     {.open_backoff = 2.0, .max_open_for_ns = SECONDS(50)},
     0,
     50000},
    {"longer than the old cap",
     0,
     CHANCE_MIDDLE,
     FROM,
     {.open_for_ns = SECONDS(1000), .max_open_for_ns = SECONDS(2000)},
     10,
     990000},
#undef FROM
};

/* What is set in `to`, else what is in `from`. */
static struct weir_breaker_options merged(const struct weir_breaker_options *from,
                                          const struct weir_breaker_options *to) {
  struct weir_breaker_options options = *from;
  options.open_for_ns = to->open_for_ns != 0 ? to->open_for_ns : from->open_for_ns;
  options.open_jitter = to->open_jitter > 0.0 ? to->open_jitter : from->open_jitter;
  options.open_backoff = to->open_backoff > 0.0 ? to->open_backoff : from->open_backoff;
  options.max_open_for_ns = to->max_open_for_ns != 0 ? to->max_open_for_ns : from->max_open_for_ns;
  return options;
}

static void open_time_counts_from_the_opening(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof open_times / sizeof open_times[0]; i++) {
    int64_t opened_ns = T0;
    f->options = open_times[i].from;
    f->chance = open_times[i].chance;
    breaker_begin(f);
    fixture_trip(f, opened_ns);
    for (uint32_t n = 0; n < open_times[i].n_reopenings; n++) {
      opened_ns += SECONDS(40);
      fixture_calls(f, 1, BAD, opened_ns);
    }
    struct weir_breaker_options options = merged(&f->options, &open_times[i].to);
    set_options(f, &options);
    int64_t now_ns = opened_ns + SECONDS(open_times[i].asked_after_s);
    int64_t wait_ns = MS(open_times[i].wait_ms);
    int64_t looked_ns = weir_breaker_look(f->breaker, now_ns).next_probe_in_ns;
    if (looked_ns < wait_ns - 1 || looked_ns > wait_ns + 1) {
      fail_msg("%s: %lld ns", open_times[i].why, (long long)looked_ns);
    }
    if (wait_ns > 0) {
      (void)fixture_refused(f, now_ns + looked_ns - 1);
    }
    (void)fixture_admit(f, now_ns + looked_ns);
    assert_int_equal(state_at(f, now_ns + looked_ns), WEIR_BREAKER_HALF_OPEN);
    breaker_end(f);
  }
}

static void back_and_forth_is_as_before(void **state) {
  struct fixture *f = *state;
  struct weir_breaker_options other = f->options;
  other.open_for_ns = SECONDS(5);
  other.open_jitter = 0.9;
  other.probes = 7;
  f->chance = CHANCE_HIGHEST / 3;
  breaker_begin(f);
  fixture_trip(f, T0);
  int64_t wait_ns = weir_breaker_look(f->breaker, T0).next_probe_in_ns;
  for (int i = 0; i < 100; i++) {
    set_options(f, &other);
    set_options(f, &f->options);
  }
  assert_int_equal(weir_breaker_look(f->breaker, T0).next_probe_in_ns, wait_ns);
  breaker_end(f);
}

/* --- the window --- */

static void thresholds_are_judged_at_the_next_failure(void **state) {
  static const struct {
    const char *why;
    struct change change;
  } rows[] = {
      {"fewer samples", {"", NUMBER(min_requests, 3), false}},
      {"a lower ratio", {"", REAL(failure_ratio, 0.3), false}},
  };
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    f->options = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
    f->options.min_requests = i == 0 ? 100 : 5;
    breaker_begin(f);
    fixture_calls(f, i == 0 ? 1 : 6, GOOD, T0);
    fixture_calls(f, 3, BAD, T0);
    struct weir_breaker_options options = changed(&f->options, &rows[i].change);
    set_options(f, &options);
    assert_int_equal(state_at(f, T0), WEIR_BREAKER_CLOSED);
    fixture_calls(f, 1, GOOD, T0);
    assert_int_equal(state_at(f, T0), WEIR_BREAKER_CLOSED);
    fixture_calls(f, 1, BAD, T0);
    if (state_at(f, T0) != WEIR_BREAKER_OPEN) {
      fail_msg("%s: does not trip", rows[i].why);
    }
    breaker_end(f);
  }
}

static void row_of_failures_goes_on(void **state) {
  struct fixture *f = *state;
  f->options.consecutive_failures = 4;
  f->options.min_requests = 100;
  breaker_begin(f);
  fixture_calls(f, 2, BAD, T0);
  struct weir_breaker_options options = f->options;
  options.consecutive_failures = 3;
  options.window_ns = SECONDS(5);
  set_options(f, &options);
  assert_int_equal(state_at(f, T0), WEIR_BREAKER_CLOSED);
  fixture_calls(f, 1, BAD, T0);
  assert_int_equal(state_at(f, T0), WEIR_BREAKER_OPEN);
  breaker_end(f);
}

/* Whatever lengths they have: nothing of one is seen through the other. */
static void windows_do_not_mix(void **state) {
  static const int64_t windows_ns[] = {MS(60),         SECONDS(10),         SECONDS(60),
                                       SECONDS(61),    SECONDS(120),        SECONDS(3600),
                                       SECONDS(86400), SECONDS(86400) * 365};
  static const uint32_t buckets[] = {1, 5, 10, 11, 20, 60};
  struct fixture *f = *state;
  f->options.min_requests = UINT32_MAX;
  for (int64_t at_s = 0; at_s < 3; at_s++) {
    int64_t now_ns = 1 + SECONDS(at_s) * 50;
    breaker_begin(f);
    for (size_t i = 0; i < 48 * 48; i++) {
      struct weir_breaker_options options = f->options;
      options.window_ns = windows_ns[i % 48 / 6];
      options.window_buckets = buckets[i % 6];
      set_options(f, &options);
      options.window_ns = windows_ns[i / 48 / 6];
      options.window_buckets = buckets[i / 48 % 6];
      set_options(f, &options);
      fixture_calls(f, 3, GOOD, now_ns);
      fixture_calls(f, 2, BAD, now_ns);
      struct weir_breaker_snapshot snapshot = fixture_snapshot(f, now_ns);
      bool same = i % 48 == i / 48; /* as the one before, or it has been emptied */
      if (!same && (snapshot.n_requests != 5 || snapshot.n_failures != 2)) {
        fail_msg("%zu: %llu of %llu", i, (unsigned long long)snapshot.n_failures,
                 (unsigned long long)snapshot.n_requests);
      }
    }
    breaker_end(f);
  }
}

/* --- probes --- */

static void fewer_probes_wait_for_those_that_are_out(void **state) {
  struct fixture *f = *state;
  f->options.probes = 4;
  breaker_begin(f);
  fixture_trip(f, T0);
  struct weir_breaker_ticket probes[4];
  for (int i = 0; i < 4; i++) {
    probes[i] = fixture_admit(f, HALF_OPEN_AT);
  }
  struct weir_breaker_options options = f->options;
  options.probes = 2;
  set_options(f, &options);
  assert_int_equal(fixture_refused(f, NOW), SECONDS(29)); /* the leases */
  fixture_settle(f, &probes[0], NEUTRAL, NOW);
  (void)fixture_refused(f, NOW);
  fixture_settle(f, &probes[1], NEUTRAL, NOW);
  (void)fixture_refused(f, NOW); /* the last two places are out */
  fixture_settle(f, &probes[3], NEUTRAL, NOW);
  struct weir_breaker_ticket next = fixture_admit(f, NOW);
  (void)fixture_refused(f, NOW);
  fixture_settle(f, &probes[2], GOOD, NOW);
  assert_int_equal(state_at(f, NOW), WEIR_BREAKER_HALF_OPEN);
  fixture_settle(f, &next, GOOD, NOW);
  assert_int_equal(state_at(f, NOW), WEIR_BREAKER_CLOSED);
  breaker_end(f);
}

static void one_that_is_out_may_still_fail(void **state) {
  struct fixture *f = *state;
  breaker_begin(f);
  fixture_trip(f, T0);
  (void)fixture_admit(f, HALF_OPEN_AT);
  (void)fixture_admit(f, HALF_OPEN_AT);
  struct weir_breaker_ticket third = fixture_admit(f, HALF_OPEN_AT);
  struct weir_breaker_options options = f->options;
  options.probes = 1;
  set_options(f, &options);
  fixture_settle(f, &third, BAD, NOW);
  assert_int_equal(state_at(f, NOW), WEIR_BREAKER_OPEN);
  breaker_end(f);
}

static void enough_successes_close_it_at_the_next_call(void **state) {
  struct fixture *f = *state;
  breaker_begin(f);
  half_open_with_a_success(f);
  struct weir_breaker_ticket held = fixture_admit(f, HALF_OPEN_AT);
  struct weir_breaker_options options = f->options;
  options.probes = 1;
  set_options(f, &options);
  assert_int_equal(state_at(f, NOW), WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(weir_breaker_look(f->breaker, NOW).refusal, WEIR_BREAKER_REFUSAL_NONE);
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  assert_int_equal(weir_breaker_admit(f->breaker, NOW, &f->random, &ticket, &view),
                   WEIR_ADMISSION_PROCEED);
  assert_true(view.changed);
  assert_int_equal(view.changed_from, WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(view.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(ticket.place, WEIR_BREAKER_NO_PLACE);
  fixture_settle(f, &held, BAD, NOW); /* of the past */
  fixture_settle(f, &ticket, GOOD, NOW);
  assert_int_equal(fixture_snapshot(f, NOW).n_requests, 1);
  assert_int_equal(state_at(f, NOW), WEIR_BREAKER_CLOSED);
  breaker_end(f);
}

static void enough_successes_close_it_into_its_ramp(void **state) {
  struct fixture *f = *state;
  breaker_begin(f);
  half_open_with_a_success(f);
  struct weir_breaker_options options = f->options;
  options.probes = 1;
  options.ramp_for_ns = SECONDS(100);
  set_options(f, &options);
  f->chance = CHANCE_LOWEST;
  (void)fixture_admit(f, NOW);
  assert_int_equal(fixture_snapshot(f, NOW).admitted_share_milli, 100);
  assert_int_equal(fixture_snapshot(f, NOW + SECONDS(50)).admitted_share_milli, 550);
  breaker_end(f);
}

static void more_probes_are_let_out(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  breaker_begin(f);
  fixture_trip(f, T0);
  struct weir_breaker_ticket probes[MAX_PROBES];
  probes[0] = fixture_admit(f, HALF_OPEN_AT);
  (void)fixture_refused(f, HALF_OPEN_AT);
  struct weir_breaker_options options = f->options;
  options.probes = MAX_PROBES;
  set_options(f, &options);
  for (uint32_t i = 1; i < MAX_PROBES; i++) {
    probes[i] = fixture_admit(f, NOW);
  }
  (void)fixture_refused(f, NOW);
  for (uint32_t i = 0; i < MAX_PROBES; i++) {
    assert_int_equal(state_at(f, NOW), WEIR_BREAKER_HALF_OPEN);
    fixture_settle(f, &probes[i], GOOD, NOW);
  }
  assert_int_equal(state_at(f, NOW), WEIR_BREAKER_CLOSED);
  breaker_end(f);
}

static void lease_lasts_as_long_as_it_does_now(void **state) {
  static const int64_t leases_s[] = {1, 5, 29, 30, 31, 200};
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof leases_s / sizeof leases_s[0]; i++) {
    breaker_begin(f);
    half_open_with_two_out(f);
    (void)fixture_admit(f, HALF_OPEN_AT);
    struct weir_breaker_options options = f->options;
    options.probe_lease_ns = SECONDS(leases_s[i]);
    set_options(f, &options);
    assert_int_equal(fixture_refused(f, HALF_OPEN_AT), SECONDS(leases_s[i]));
    (void)fixture_refused(f, HALF_OPEN_AT + SECONDS(leases_s[i]) - 1);
    (void)fixture_admit(f, HALF_OPEN_AT + SECONDS(leases_s[i]));
    breaker_end(f);
  }
}

/* --- ramp, mode --- */

static void ramp_follows(void **state) {
  static const struct {
    const char *why;
    int64_t ramp_s;
    uint32_t share_milli; /* after 10 s of 600 */
  } rows[] = {{"longer", 1000, 109}, {"shorter", 100, 190}, {"over", 10, 1000}, {"none", 0, 1000}};
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    breaker_begin(f);
    in_a_ramp(f);
    struct weir_breaker_options options = f->options;
    options.ramp_for_ns = SECONDS(rows[i].ramp_s);
    set_options(f, &options);
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, HALF_OPEN_AT + SECONDS(10));
    if (snapshot.admitted_share_milli != rows[i].share_milli) {
      fail_msg("%s: %u", rows[i].why, snapshot.admitted_share_milli);
    }
    breaker_end(f);
  }
}

static void mode_is_that_of_the_moment(void **state) {
  struct fixture *f = *state;
  struct weir_breaker_options shadow = f->options;
  shadow.mode = WEIR_BREAKER_MODE_SHADOW;
  breaker_begin(f);
  struct weir_breaker_ticket call = fixture_admit(f, T0);
  fixture_trip(f, T0);
  assert_false(weir_breaker_still_admits(f->breaker, &call));
  set_options(f, &shadow);
  assert_true(weir_breaker_still_admits(f->breaker, &call));
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  assert_int_equal(weir_breaker_admit(f->breaker, T0, &f->random, &ticket, &view),
                   WEIR_ADMISSION_PROCEED);
  assert_int_equal(view.refusal, WEIR_BREAKER_REFUSAL_OPEN);
  set_options(f, &f->options);
  (void)fixture_refused(f, T0);
  assert_int_equal(fixture_snapshot(f, T0).n_shadowed, 1);
  assert_int_equal(fixture_snapshot(f, T0).n_refused, 1);
  breaker_end(f);
}

/* --- what may fail --- */

static void bad_options_change_nothing(void **state) {
  struct fixture *f = *state;
  struct weir_breaker_options options = f->options;
  breaker_begin(f);
  fixture_trip(f, T0);
  options.open_for_ns = SECONDS(1);
  options.probes = 0;
  assert_int_equal(weir_breaker_set_options(f->breaker, &options), WEIR_ERROR_INVALID_ARGUMENT);
  options.probes = 1;
  options.scope = (enum weir_breaker_scope)77;
  assert_int_equal(weir_breaker_set_options(f->breaker, &options), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(fixture_refused(f, T0), SECONDS(30));
  set_options(f, NULL); /* the defaults, which it has */
  assert_int_equal(fixture_refused(f, T0), SECONDS(30));
  breaker_end(f);
}

static void without_memory_nothing_has_changed(void **state) {
  struct fixture *f = *state;
  struct weir_breaker_options options = f->options;
  options.probes = 50;
  options.window_buckets = 50;
  options.open_for_ns = SECONDS(1);
  breaker_begin(f);
  fixture_calls(f, 4, BAD, T0);
  f->fails_at = f->n_allocations + 1;
  assert_int_equal(weir_breaker_set_options(f->breaker, &options), WEIR_ERROR_NO_MEMORY);
  assert_int_equal(fixture_snapshot(f, T0).n_failures, 4);
  fixture_calls(f, 1, BAD, T0);
  assert_int_equal(fixture_refused(f, T0), SECONDS(30));
  f->fails_at = 0;
  set_options(f, &options);
  assert_int_equal(weir_breaker_look(f->breaker, T0).next_probe_in_ns, SECONDS(1));
  breaker_end(f);
}

static void memory_is_bounded_by_the_largest_numbers(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  f->options.window_buckets = 1;
  breaker_begin(f);
  for (uint32_t round = 0; round < 20; round++) {
    for (uint32_t n = 1; n <= 1024; n++) {
      struct weir_breaker_options options = f->options;
      options.probes = n;
      options.window_buckets = 1 + n % 60;
      options.open_for_ns = SECONDS(1 + n % 7);
      set_options(f, &options);
    }
  }
  assert_in_range(f->n_allocations, 3, 20); /* each makes room for twice as much, at least */
  breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(no_change_of_numbers_is_a_change_of_state),
      TEST(the_same_options_change_nothing),
      TEST(open_time_counts_from_the_opening),
      TEST(back_and_forth_is_as_before),
      TEST(thresholds_are_judged_at_the_next_failure),
      TEST(row_of_failures_goes_on),
      TEST(windows_do_not_mix),
      TEST(fewer_probes_wait_for_those_that_are_out),
      TEST(one_that_is_out_may_still_fail),
      TEST(enough_successes_close_it_at_the_next_call),
      TEST(enough_successes_close_it_into_its_ramp),
      TEST(more_probes_are_let_out),
      TEST(lease_lasts_as_long_as_it_does_now),
      TEST(ramp_follows),
      TEST(mode_is_that_of_the_moment),
      TEST(bad_options_change_nothing),
      TEST(without_memory_nothing_has_changed),
      TEST(memory_is_bounded_by_the_largest_numbers),
  };
  return cmocka_run_group_tests_name("breaker change", tests, NULL, NULL);
}
