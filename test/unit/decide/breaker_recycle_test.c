/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE

#define LATER (T0 + SECONDS(3600))

/* What a breaker has been through at T0; whether it may be recycled at LATER, when its window is
 * empty again and an open time is over. */
typedef void past_fn(struct fixture *f);

static void nothing(struct fixture *f) {
  (void)f;
}

static void good_calls(struct fixture *f) {
  fixture_calls(f, 10, GOOD, T0);
}

static void some_failures(struct fixture *f) {
  fixture_calls(f, 4, BAD, T0);
}

static void recent_call(struct fixture *f) {
  fixture_calls(f, 1, GOOD, LATER - SECONDS(50));
}

static void trip(struct fixture *f) {
  fixture_trip(f, T0);
}

static void trip_and_probe(struct fixture *f) {
  fixture_trip(f, T0);
  (void)fixture_admit(f, T0 + SECONDS(60));
}

static void recovery(struct fixture *f) {
  fixture_trip(f, T0);
  fixture_calls(f, 3, GOOD, T0 + SECONDS(60));
}

static void ramp(struct fixture *f) {
  struct weir_breaker_options options = f->rules.options;
  options.ramp_for_ns = SECONDS(86400);
  fixture_set_options(f, &options);
  recovery(f);
}

static void streak(struct fixture *f) {
  struct weir_breaker_options options = f->rules.options;
  options.consecutive_failures = 5;
  fixture_set_options(f, &options);
  some_failures(f);
}

static void broken_streak(struct fixture *f) {
  streak(f);
  fixture_calls(f, 1, GOOD, T0);
}

static void streak_of_another_generation(struct fixture *f) {
  struct weir_breaker_options options = f->rules.options;
  options.consecutive_failures = 100;
  fixture_set_options(f, &options);
  recovery(f);
}

static void forced_open(struct fixture *f) {
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_OPEN, NULL);
}

static void disabled(struct fixture *f) {
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
}

static const struct {
  const char *why;
  past_fn *past;
  bool recycles;
} rows[] = {
    {"never used", nothing, true},
    {"results that have left the window", good_calls, true},
    {"failures that have left the window", some_failures, true},
    {"a result in the window", recent_call, false},
    {"OPEN, its time over", trip, false},
    {"HALF_OPEN, a probe lost", trip_and_probe, false},
    {"CLOSED again", recovery, true},
    {"in a ramp", ramp, false},
    {"failures in a row, however old", streak, false},
    {"a row that has been ended", broken_streak, true},
    {"a row of a generation that is over", streak_of_another_generation, true},
    {"forced open", forced_open, false},
    {"switched off", disabled, false},
};

static void recycles_only_what_knows_nothing(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    fixture_breaker(f);
    rows[i].past(f);
    struct weir_breaker_snapshot before = fixture_snapshot(f, LATER);
    bool recycled = weir__breaker_recycle(f->breaker, LATER);
    struct weir_breaker_snapshot after = fixture_snapshot(f, LATER);
    if (recycled != rows[i].recycles) {
      fail_msg("%s: %s", rows[i].why, recycled ? "recycled" : "not recycled");
    }
    if (recycled) {
      struct weir_breaker_snapshot as_new = {.size = sizeof as_new,
                                             .state = WEIR_BREAKER_CLOSED,
                                             .generation = before.generation + 1,
                                             .admitted_share_milli = 1000};
      assert_memory_equal(&after, &as_new, sizeof after);
    } else {
      assert_memory_equal(&after, &before, sizeof after);
    }
    fixture_breaker_end(f);
  }
}

static void result_from_before_is_dropped(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 1;
  fixture_breaker(f);
  struct weir_breaker_ticket good = fixture_admit(f, T0);
  struct weir_breaker_ticket bad = fixture_admit(f, T0);
  assert_true(weir__breaker_recycle(f->breaker, T0));
  assert_false(weir_breaker_still_admits(f->breaker, &good));
  fixture_settle(f, &good, GOOD, T0);
  fixture_settle(f, &bad, BAD, T0);
  assert_int_equal(fixture_snapshot(f, T0).n_requests, 0);
  assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

/* With its entry, key and place in a table it is to stay below 419 bytes: 10,000 in 4 MiB. */
static void is_small_with_the_default_numbers(void **state) {
  struct fixture *f = *state;
  weir__breaker_rules_init(&f->rules, &f->options, &f->allocator);
  assert_true(weir__breaker_bytes(&f->rules) <= 300);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(recycles_only_what_knows_nothing),
      TEST(result_from_before_is_dropped),
      TEST(is_small_with_the_default_numbers),
  };
  return cmocka_run_group_tests_name("breaker recycle", tests, NULL, NULL);
}
