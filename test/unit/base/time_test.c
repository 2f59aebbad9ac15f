/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <grpc/support/time.h>

#include <weir/clock.h>

#include <cmocka.h>

#include "src/time/clock.h"
#include "src/time/instant.h"
#include "src/time/timespec.h"

#define SECOND_NS INT64_C(1000000000)

static void sums_saturate(void **state) {
  (void)state;
  static const struct {
    const char *why;
    int64_t at_ns;
    int64_t span_ns;
    int64_t expected_ns;
  } rows[] = {
      {"plain", 5, 7, 12},
      {"back in time", 5, -7, -2},
      {"no deadline stays none", WEIR_NO_DEADLINE, 1, WEIR_NO_DEADLINE},
      {"no deadline less a margin stays none", WEIR_NO_DEADLINE, -1, WEIR_NO_DEADLINE},
      {"beyond the end of time", INT64_MAX - 1, 2, WEIR_NO_DEADLINE},
      {"no limit added", 5, WEIR_NO_LIMIT_NS, WEIR_NO_DEADLINE},
      {"the largest that is an instant", INT64_MAX - 2, 1, INT64_MAX - 1},
      {"before the beginning of time", INT64_MIN + 1, -2, INT64_MIN},
      {"the infinite past and no time", INT64_MIN, 0, INT64_MIN},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (weir__instant_add(rows[i].at_ns, rows[i].span_ns) != rows[i].expected_ns) {
      fail_msg("%s", rows[i].why);
    }
  }
}

static void what_remains_is_never_negative(void **state) {
  (void)state;
  static const struct {
    const char *why;
    int64_t deadline_at_ns;
    int64_t now_ns;
    int64_t expected_ns;
  } rows[] = {
      {"plain", 10, 3, 7},
      {"just now", 10, 10, 0},
      {"past", 3, 10, 0},
      {"none", WEIR_NO_DEADLINE, 10, WEIR_NO_LIMIT_NS},
      {"the infinite past", INT64_MIN, 10, 0},
      {"more than a span can hold", INT64_MAX - 1, INT64_MIN, WEIR_NO_LIMIT_NS},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (weir__instant_remaining(rows[i].deadline_at_ns, rows[i].now_ns) != rows[i].expected_ns) {
      fail_msg("%s", rows[i].why);
    }
  }
}

static void core_times_become_instants(void **state) {
  (void)state;
  const int64_t now_ns = 100 * SECOND_NS;
  const struct {
    const char *why;
    gpr_timespec time;
    int64_t expected_ns;
  } rows[] = {
      {"monotonic as it is", {7, 5, GPR_CLOCK_MONOTONIC}, 7 * SECOND_NS + 5},
      {"a span counts from now", {7, 5, GPR_TIMESPAN}, 107 * SECOND_NS + 5},
      {"a negative span", {-1, 0, GPR_TIMESPAN}, 99 * SECOND_NS},
      {"the infinite future", gpr_inf_future(GPR_CLOCK_MONOTONIC), WEIR_NO_DEADLINE},
      {"the infinite future of the wall clock", gpr_inf_future(GPR_CLOCK_REALTIME),
       WEIR_NO_DEADLINE},
      {"an infinite span", gpr_inf_future(GPR_TIMESPAN), WEIR_NO_DEADLINE},
      {"the infinite past", gpr_inf_past(GPR_CLOCK_MONOTONIC), INT64_MIN},
      {"the infinite past of the wall clock", gpr_inf_past(GPR_CLOCK_REALTIME), INT64_MIN},
      {"the longest duration of a policy",
       {INT64_C(315576000000), 0, GPR_TIMESPAN},
       WEIR_NO_DEADLINE},
      {"a time of a clock that there is not", {7, 5, (gpr_clock_type)99}, WEIR_NO_DEADLINE},
      {"a wall time that nanoseconds can't hold",
       {INT64_C(315576000000), 0, GPR_CLOCK_REALTIME},
       WEIR_NO_DEADLINE},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t at_ns = weir__instant_from_timespec(rows[i].time, now_ns);
    if (at_ns != rows[i].expected_ns) {
      fail_msg("%s: %lld", rows[i].why, (long long)at_ns);
    }
  }
}

/* Converted once, at `now_ns`: what the wall clock does afterwards is not looked at. */
static void a_wall_time_is_as_far_ahead_as_it_was_on_entry(void **state) {
  (void)state;
  const int64_t now_ns = 1000 * SECOND_NS;
  gpr_timespec ahead =
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(60, GPR_TIMESPAN));

  int64_t at_ns = weir__instant_from_timespec(ahead, now_ns);

  assert_true(at_ns <= 1060 * SECOND_NS);
  assert_true(at_ns > 1000 * SECOND_NS); /* this machine may be slow, but not by a minute */
}

/* The seconds of 1600, counted from 1970, are a sum; their distance from today is not. */
static void a_wall_time_further_back_than_a_sum_can_say_is_past_for_ever(void **state) {
  (void)state;
  const gpr_timespec long_ago = {INT64_C(-9223372036), 0, GPR_CLOCK_REALTIME};

  assert_true(weir__instant_from_timespec(long_ago, 1000 * SECOND_NS) == INT64_MIN);
}

static void instants_become_times_of_the_monotonic_clock(void **state) {
  (void)state;
  static const int64_t instants_ns[] = {0, 1, -1, 7 * SECOND_NS + 5, INT64_MAX - 1, INT64_MIN / 2};
  for (size_t i = 0; i < sizeof instants_ns / sizeof instants_ns[0]; i++) {
    gpr_timespec time = weir__instant_to_timespec(instants_ns[i]);

    assert_int_equal(time.clock_type, GPR_CLOCK_MONOTONIC);
    assert_in_range(time.tv_nsec, 0, SECOND_NS - 1);
    assert_true(weir__instant_from_timespec(time, 0) == instants_ns[i]);
  }
  gpr_timespec never = weir__instant_to_timespec(WEIR_NO_DEADLINE);
  assert_int_equal(gpr_time_cmp(never, gpr_inf_future(GPR_CLOCK_MONOTONIC)), 0);
}

static int64_t fixed_now_ns(void *context) {
  return *(const int64_t *)context;
}

static void a_given_clock_is_read(void **state) {
  (void)state;
  int64_t now_ns = 42;
  const struct weir_clock clock = {sizeof clock, fixed_now_ns, &now_ns};

  assert_int_equal(weir__clock_now_ns(weir__clock_or_default(&clock)), 42);
}

static void the_default_clock_does_not_go_back(void **state) {
  (void)state;
  const struct weir_clock *clock = weir__clock_or_default(NULL);
  int64_t before_ns = weir__clock_now_ns(clock);

  assert_true(weir__clock_now_ns(clock) >= before_ns);
}

/* Deadlines go to the core as they are, so both must count from the same start. */
static void the_default_clock_is_the_cores_monotonic_one(void **state) {
  (void)state;
  int64_t before_ns = weir__clock_now_ns(weir__clock_or_default(NULL));
  int64_t core_ns = weir__instant_from_timespec(gpr_now(GPR_CLOCK_MONOTONIC), 0);
  int64_t after_ns = weir__clock_now_ns(weir__clock_or_default(NULL));

  assert_true(before_ns <= core_ns);
  assert_true(core_ns <= after_ns);
}

static void the_wall_clock_counts_from_1970(void **state) {
  (void)state;
  gpr_timespec before = gpr_now(GPR_CLOCK_REALTIME);
  int64_t now_ns = weir__wall_clock_now_ns();
  gpr_timespec after = gpr_now(GPR_CLOCK_REALTIME);

  assert_in_range(now_ns, before.tv_sec * SECOND_NS + before.tv_nsec,
                  after.tv_sec * SECOND_NS + after.tv_nsec);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_saturate),
      cmocka_unit_test(what_remains_is_never_negative),
      cmocka_unit_test(core_times_become_instants),
      cmocka_unit_test(a_wall_time_is_as_far_ahead_as_it_was_on_entry),
      cmocka_unit_test(a_wall_time_further_back_than_a_sum_can_say_is_past_for_ever),
      cmocka_unit_test(instants_become_times_of_the_monotonic_clock),
      cmocka_unit_test(a_given_clock_is_read),
      cmocka_unit_test(the_default_clock_does_not_go_back),
      cmocka_unit_test(the_default_clock_is_the_cores_monotonic_one),
      cmocka_unit_test(the_wall_clock_counts_from_1970),
  };
  return cmocka_run_group_tests_name("time", tests, NULL, NULL);
}
