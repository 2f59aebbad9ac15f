/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/decide/breaker_window.h"
#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

struct burst {
  int64_t after_ns; /* since T0 */
  uint32_t n_good;
  uint32_t n_bad; /* settled after the good ones */
};

/* Ratio 0.5, 10 samples at least, 10 s in 10 buckets. */
static const struct {
  const char *why;
  struct burst bursts[4];
  bool trips;
} rows[] = {
    {"one failure is no outage", {{0, 0, 1}}, false},
    {"all nine failed: too few", {{0, 0, 9}}, false},
    {"the tenth trips", {{0, 0, 10}}, true},
    {"exactly the ratio trips", {{0, 5, 5}}, true},
    {"just below it does not", {{0, 6, 5}}, false},
    {"successes count for the least number", {{0, 4, 5}}, false},
    {"the idle half minute empties it", {{0, 0, 5}, {SECONDS(30), 0, 5}}, false},
    {"just inside the window", {{0, 0, 5}, {MS(9999), 0, 5}}, true},
    {"the whole window later", {{0, 0, 5}, {SECONDS(10), 0, 5}}, false},
    {"spread over all buckets",
     {{0, 0, 3}, {SECONDS(3), 0, 3}, {SECONDS(6), 0, 3}, {MS(9500), 0, 1}},
     true},
    {"old successes leave, the failures decide",
     {{0, 50, 0}, {SECONDS(5), 0, 9}, {SECONDS(11), 0, 1}},
     true},
    {"old failures leave", {{0, 0, 9}, {SECONDS(5), 9, 0}, {SECONDS(11), 0, 5}}, false},
    {"a bucket's place is used again, its old count is not",
     {{0, 0, 9}, {SECONDS(16), 0, 9}, {SECONDS(32), 0, 9}},
     false},
    {"six hours later, as after a suspend", {{0, 0, 9}, {SECONDS(6) * 3600, 0, 9}}, false},
    {"a century later", {{0, 0, 9}, {SECONDS(100) * 365 * 86400, 0, 9}}, false},
};

static void trips_on_what_the_window_holds(void **state) {
  struct fixture *f = *state;
  f->options.failure_ratio = 0.5;
  f->options.min_requests = 10;
  f->options.window_ns = SECONDS(10);
  f->options.window_buckets = 10;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    fixture_breaker(f);
    for (size_t j = 0; j < 4; j++) {
      const struct burst *burst = &rows[i].bursts[j];
      fixture_calls(f, burst->n_good, GOOD, T0 + burst->after_ns);
      fixture_calls(f, burst->n_bad, BAD, T0 + burst->after_ns);
    }
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0);
    if ((snapshot.state == WEIR_BREAKER_OPEN) != rows[i].trips) {
      fail_msg("%s: %s", rows[i].why, rows[i].trips ? "did not trip" : "tripped");
    }
    assert_int_equal(snapshot.n_trips, rows[i].trips ? 1 : 0);
    fixture_breaker_end(f);
  }
}

/* A bucket of a millisecond counts to 2^18 - 1, which is more than a CPU gets done in it. */
static void a_bucket_that_is_full_stays_so(void **state) {
  struct fixture *f = *state;
  const uint32_t most = (UINT32_C(1) << 18) - 1;
  f->options.window_ns = MS(10);
  f->options.window_buckets = 10;
  f->options.failure_ratio = 1.0;
  f->stripe_mask = 0;
  fixture_breaker(f);
  fixture_calls(f, most, GOOD, T0);
  assert_int_equal(fixture_snapshot(f, T0).n_requests, most);
  fixture_calls(f, 2, GOOD, T0);
  assert_int_equal(fixture_snapshot(f, T0).n_requests, most);
  fixture_breaker_end(f);
}

static void ratio_is_reached_exactly_for_any_count(void **state) {
  struct fixture *f = *state;
  static const double ratios[] = {0.1, 0.2, 0.3, 0.6, 0.7, 0.9, 1.0};
  for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++) {
    for (uint32_t n = 10; n <= 100; n += 10) {
      uint32_t n_bad = (uint32_t)(ratios[i] * n + 0.5);
      f->options.failure_ratio = ratios[i];
      f->options.min_requests = n;
      fixture_breaker(f);
      fixture_calls(f, n - n_bad, GOOD, T0);
      fixture_calls(f, n_bad - 1, BAD, T0);
      assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_CLOSED);
      fixture_calls(f, 1, BAD, T0);
      assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_OPEN);
      fixture_breaker_end(f);
    }
  }
}

static void window_is_judged_when_a_failure_comes_not_when_a_success_does(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  fixture_calls(f, 4, BAD, T0);
  fixture_calls(f, 1, GOOD, T0);
  assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_CLOSED);
  fixture_calls(f, 1, BAD, T0);
  assert_int_equal(fixture_snapshot(f, T0).state, WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static void ignored_calls_are_in_neither_count(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  fixture_calls(f, 50, NEUTRAL, T0);
  fixture_calls(f, 4, BAD, T0);
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0);
  assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot.n_requests, 4);
  assert_int_equal(snapshot.n_failures, 4);
  fixture_breaker_end(f);
}

static void half_a_percent_of_failures_never_trips(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  for (int64_t at_ms = 0; at_ms < 120 * 1000; at_ms += 20) {
    fixture_calls(f, 199, GOOD, T0 + MS(at_ms));
    fixture_calls(f, 1, BAD, T0 + MS(at_ms));
  }
  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0 + SECONDS(120) - 1);
  assert_int_equal(snapshot.n_trips, 0);
  assert_int_equal(snapshot.n_requests, UINT64_C(200) * 50 * 60);
  assert_int_equal(snapshot.n_failures, UINT64_C(50) * 60);
  fixture_breaker_end(f);
}

static void failures_too_far_apart_never_reach_the_least_number(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  for (int64_t at_s = 0; at_s < 3600; at_s += 19) {
    fixture_calls(f, 1, BAD, T0 + SECONDS(at_s));
  }
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(3600)).n_trips, 0);
  fixture_breaker_end(f);
}

static void counts_leave_the_window_bucket_by_bucket(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 1000;
  f->options.window_ns = SECONDS(10);
  fixture_breaker(f);
  for (int64_t at_s = 0; at_s < 10; at_s++) {
    fixture_calls(f, 2, GOOD, T0 + SECONDS(at_s));
    fixture_calls(f, 1, BAD, T0 + SECONDS(at_s));
  }
  for (int64_t at_s = 9; at_s < 25; at_s++) {
    uint64_t n_left = at_s < 19 ? (uint64_t)(19 - at_s) : 0;
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0 + SECONDS(at_s));
    assert_int_equal(snapshot.n_requests, 3 * n_left);
    assert_int_equal(snapshot.n_failures, n_left);
  }
  fixture_breaker_end(f);
}

static void any_number_of_buckets_adds_up(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 1000;
  for (uint32_t n_buckets = 1; n_buckets <= 60; n_buckets++) {
    f->options.window_buckets = n_buckets;
    f->options.window_ns = SECONDS((int64_t)n_buckets);
    fixture_breaker(f);
    for (int64_t i = 0; i < 130; i++) {
      fixture_calls(f, 1, BAD, T0 + SECONDS(i));
      uint64_t expected = i + 1 < (int64_t)n_buckets ? (uint64_t)(i + 1) : n_buckets;
      assert_int_equal(fixture_snapshot(f, T0 + SECONDS(i)).n_failures, expected);
    }
    fixture_breaker_end(f);
  }
}

/* Two threads: one has read its clock before a bucket's end, the other after, and is first. */
static void result_of_a_slightly_older_clock_still_counts(void **state) {
  struct fixture *f = *state;
  f->options.window_ns = SECONDS(10);
  fixture_breaker(f);
  struct weir_breaker_ticket early = fixture_admit(f, T0 + SECONDS(1) - 1);
  fixture_calls(f, 4, BAD, T0 + SECONDS(1));
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(1)).state, WEIR_BREAKER_CLOSED);
  fixture_settle(f, &early, BAD, T0 + SECONDS(1) - 1);
  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(1)).state, WEIR_BREAKER_OPEN);
  fixture_breaker_end(f);
}

static void result_older_than_the_window_does_not_undo_a_newer_bucket(void **state) {
  struct fixture *f = *state;
  f->options.window_ns = MS(20);
  f->options.window_buckets = 2;
  fixture_breaker(f);
  struct weir_breaker_ticket old = fixture_admit(f, T0);
  fixture_calls(f, 3, BAD, T0 + MS(500));
  fixture_settle(f, &old, BAD, T0);
  assert_int_equal(fixture_snapshot(f, T0 + MS(500)).n_failures, 3);
  fixture_breaker_end(f);
}

/* An hour in one bucket at 1.2 million calls a second. */
static void counts_do_not_wrap(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = UINT32_MAX;
  f->options.failure_ratio = 1.0;
  f->options.window_ns = SECONDS(3600);
  f->options.window_buckets = 1;
  fixture_breaker(f);
  fixture_calls(f, 1, GOOD, T0 * 4);
  /* The counter of the one bucket, moved to just below. */
  atomic_fetch_add(&weir__breaker_own_stripe(f->breaker)->buckets[0].successes, UINT32_MAX - 2);
  assert_int_equal(fixture_snapshot(f, T0 * 4).n_requests, UINT32_MAX - 1);
  fixture_calls(f, 5, GOOD, T0 * 4);
  assert_int_equal(fixture_snapshot(f, T0 * 4).n_requests, UINT64_C(0x100000003));
  fixture_breaker_end(f);
}

static void result_of_an_earlier_generation_is_in_no_count(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  fixture_breaker(f);
  struct weir_breaker_ticket late_good = fixture_admit(f, T0);
  struct weir_breaker_ticket late_bad = fixture_admit(f, T0);
  fixture_trip(f, T0);
  fixture_calls(f, 1, GOOD, T0 + SECONDS(30));
  struct weir_breaker_snapshot before = fixture_snapshot(f, T0 + SECONDS(30));
  assert_int_equal(before.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(before.n_requests, 0);

  fixture_settle(f, &late_good, GOOD, T0 + SECONDS(31));
  fixture_settle(f, &late_bad, BAD, T0 + SECONDS(31));

  assert_int_equal(fixture_snapshot(f, T0 + SECONDS(31)).n_requests, 0);
  fixture_breaker_end(f);
}

/* The failures that tripped it are half a minute old and would still be within 60 s. */
static void closes_with_an_empty_window(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  for (int64_t cycle = 0; cycle < 200; cycle++) {
    int64_t at_ns = T0 + cycle * SECONDS(31);
    fixture_calls(f, 4, BAD, at_ns);
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, at_ns);
    assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
    assert_int_equal(snapshot.n_failures, 4);
    fixture_calls(f, 1, BAD, at_ns);
    assert_int_equal(fixture_snapshot(f, at_ns).state, WEIR_BREAKER_OPEN);
    fixture_calls(f, 3, GOOD, at_ns + SECONDS(30));
    assert_int_equal(fixture_snapshot(f, at_ns + SECONDS(30)).n_requests, 0);
    assert_int_equal(fixture_snapshot(f, at_ns + SECONDS(30)).n_trips, cycle + 1);
  }
  fixture_breaker_end(f);
}

static const int64_t steps_back_ns[] = {
    1,
    MS(1),
    MS(999),
    SECONDS(1),
    SECONDS(7),
    SECONDS(30),
    SECONDS(59),
    SECONDS(60),
    SECONDS(61),
    SECONDS(90),
    SECONDS(119),
    SECONDS(120),
    SECONDS(180),
    SECONDS(200),
    SECONDS(600),
    SECONDS(3600),
    SECONDS(86400) * 30,
};

/* However full the window was: of the calls after the step, five that fail are enough. */
static void trips_after_the_clock_was_set_back(void **state) {
  struct fixture *f = *state;
  int64_t now_ns = T0 + SECONDS(86400) * 100;
  for (size_t i = 0; i < sizeof steps_back_ns / sizeof steps_back_ns[0]; i++) {
    for (uint32_t n_bad = 0; n_bad <= 2; n_bad++) {
      fixture_breaker(f);
      for (int64_t at_s = 60; at_s >= 0; at_s--) {
        fixture_calls(f, 1, GOOD, now_ns - SECONDS(at_s));
      }
      fixture_calls(f, n_bad, BAD, now_ns);
      for (int j = 0; j < 100; j++) {
        struct weir_breaker_ticket ticket = {0};
        struct weir_breaker_view view;
        if (weir_breaker_admit(f->breaker, now_ns - steps_back_ns[i], &f->random, &ticket, &view) ==
            WEIR_ADMISSION_PROCEED) {
          fixture_settle(f, &ticket, BAD, now_ns - steps_back_ns[i]);
        }
      }
      if (fixture_snapshot(f, now_ns - steps_back_ns[i]).state != WEIR_BREAKER_OPEN) {
        fail_msg("%lld ns back: blind", (long long)steps_back_ns[i]);
      }
      fixture_breaker_end(f);
    }
  }
}

static void step_back_beyond_two_windows_empties_it(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof steps_back_ns / sizeof steps_back_ns[0]; i++) {
    int64_t now_ns = T0 + SECONDS(86400) * 100;
    fixture_breaker(f);
    fixture_calls(f, 4, BAD, now_ns);
    uint64_t n_left = fixture_snapshot(f, now_ns - steps_back_ns[i]).n_failures;
    if (steps_back_ns[i] >= SECONDS(120) ? n_left != 0
                                         : steps_back_ns[i] <= SECONDS(30) && n_left != 4) {
      fail_msg("%lld ns back: %llu left", (long long)steps_back_ns[i], (unsigned long long)n_left);
    }
    fixture_breaker_end(f);
  }
}

/* Whatever the clock did while it was not CLOSED. */
static void closes_with_an_empty_window_after_any_step(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  f->options.open_jitter = 0.0;
  for (int64_t back_s = 0; back_s <= 1200; back_s++) {
    int64_t now_ns = T0 + SECONDS(86400);
    fixture_breaker(f);
    for (int64_t at_s = 50; at_s > 0; at_s -= 7) {
      fixture_calls(f, 1, BAD, now_ns - SECONDS(at_s));
      if (fixture_snapshot(f, now_ns).state != WEIR_BREAKER_CLOSED) {
        break;
      }
    }
    now_ns -= SECONDS(back_s);
    struct weir_breaker_ticket ticket;
    struct weir_breaker_view view;
    (void)weir_breaker_admit(f->breaker, now_ns, &f->random, &ticket, &view);
    now_ns += view.next_probe_in_ns;
    fixture_calls(f, 1, GOOD, now_ns);
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, now_ns);
    assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
    assert_int_equal(snapshot.n_requests, 0);
    fixture_breaker_end(f);
  }
}

static void many_generations_leave_nothing_behind(void **state) {
  struct fixture *f = *state;
  fixture_breaker(f);
  for (int i = 0; i < 2000; i++) {
    fixture_calls(f, 2, BAD, T0);
    assert_int_equal(fixture_snapshot(f, T0).n_failures, 2);
    weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
    weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
    assert_int_equal(fixture_snapshot(f, T0).n_failures, 0);
  }
  fixture_breaker_end(f);
}

static void buckets_are_numbered_as_by_division(void **state) {
  static const uint32_t counts[] = {1, 2, 3, 7, 10, 16, 59, 60};
  static const int64_t times_ns[] = {0,        1, T0, INT64_MAX / 3, INT64_MAX / 2, INT64_MAX - 1,
                                     INT64_MAX};
  struct fixture *f = *state;
  uint64_t chance = 1;
  for (size_t i = 0; i < 4000; i++) {
    uint32_t n_buckets = counts[i % 8];
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    f->options.window_buckets = n_buckets;
    f->options.window_ns = (int64_t)(n_buckets * (uint64_t)WEIR_MS_NS + (chance >> (2 + i % 40)));
    struct weir__breaker_grid grid = weir__breaker_grid_make(&f->options, 0);
    uint64_t bucket_ns = (uint64_t)f->options.window_ns / n_buckets;
    for (size_t j = 0; j < 7 * 3; j++) {
      uint64_t edge = (uint64_t)times_ns[j / 3] / bucket_ns * bucket_ns;
      uint64_t at_ns = j % 3 == 0 ? (uint64_t)times_ns[j / 3] : edge - (j % 3 == 1 && edge > 0);
      struct weir__breaker_moment moment = weir__breaker_moment_at(&grid, 0, (int64_t)at_ns);
      assert_int_equal(moment.slot, at_ns / bucket_ns % n_buckets);
      assert_int_equal(moment.epoch, at_ns / bucket_ns & weir__breaker_epoch_mask(&grid));
    }
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(trips_on_what_the_window_holds),
      TEST(a_bucket_that_is_full_stays_so),
      TEST(ratio_is_reached_exactly_for_any_count),
      TEST(window_is_judged_when_a_failure_comes_not_when_a_success_does),
      TEST(ignored_calls_are_in_neither_count),
      TEST(half_a_percent_of_failures_never_trips),
      TEST(failures_too_far_apart_never_reach_the_least_number),
      TEST(counts_leave_the_window_bucket_by_bucket),
      TEST(any_number_of_buckets_adds_up),
      TEST(result_of_a_slightly_older_clock_still_counts),
      TEST(result_older_than_the_window_does_not_undo_a_newer_bucket),
      TEST(counts_do_not_wrap),
      TEST(result_of_an_earlier_generation_is_in_no_count),
      TEST(closes_with_an_empty_window),
      TEST(trips_after_the_clock_was_set_back),
      TEST(step_back_beyond_two_windows_empties_it),
      TEST(closes_with_an_empty_window_after_any_step),
      TEST(many_generations_leave_nothing_behind),
      TEST(buckets_are_numbered_as_by_division),
  };
  return cmocka_run_group_tests_name("breaker window", tests, NULL, NULL);
}
