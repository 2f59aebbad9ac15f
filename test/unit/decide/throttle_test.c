/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <weir/error.h>
#include <weir/random.h>

#include <cmocka.h>

#include <weir/throttle.h>

static weir_throttle *acquire(const char *target, uint32_t max_tokens, uint32_t token_ratio_milli) {
  weir_throttle *throttle = NULL;
  assert_int_equal(weir_throttle_acquire(target, max_tokens, token_ratio_milli, &throttle),
                   WEIR_OK);
  return throttle;
}

/* Of a name that no test before has left a level behind for. */
static weir_throttle *acquire_new(uint32_t max_tokens, uint32_t token_ratio_milli) {
  static unsigned n_names;
  char target[32];
  snprintf(target, sizeof target, "new-%u:1", n_names++);
  return acquire(target, max_tokens, token_ratio_milli);
}

static void fail_times(weir_throttle *throttle, uint32_t n) {
  while (n-- > 0) {
    (void)weir_throttle_record_failure(throttle);
  }
}

static void succeed_times(weir_throttle *throttle, uint32_t n) {
  while (n-- > 0) {
    weir_throttle_record_success(throttle);
  }
}

/* How often a failure is still followed by a retry, from full. */
static const struct {
  const char *why;
  uint32_t max_tokens;
  uint32_t n_allowed;
} threshold_rows[] = {
    {"10 -> 6 > 5, then 5 is not", 10, 4}, {"4 -> 3 > 2, then 2 is not", 4, 1},
    {"2 -> 1 is not above 1", 2, 0},       {"5 -> 4 and 3 > 2.5, then 2 is not", 5, 2},
    {"3 -> 2 > 1.5, then 1 is not", 3, 1}, {"1 -> 0 is not above 0.5", 1, 0},
    {"1000 -> 501 > 500", 1000, 499},
};

static void retries_stop_at_half_of_the_tokens(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof threshold_rows / sizeof threshold_rows[0]; i++) {
    weir_throttle *throttle = acquire_new(threshold_rows[i].max_tokens, 100);
    uint32_t n_allowed = 0;
    while (weir_throttle_record_failure(throttle)) {
      n_allowed++;
    }
    weir_throttle_release(throttle);
    if (n_allowed != threshold_rows[i].n_allowed) {
      fail_msg("%s: %u", threshold_rows[i].why, n_allowed);
    }
  }
}

static void ten_successes_make_a_token_at_a_ratio_of_a_tenth(void **state) {
  (void)state;
  weir_throttle *throttle = acquire_new(10, 100);
  fail_times(throttle, 5);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 5000);

  succeed_times(throttle, 9);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 5900);
  assert_false(weir_throttle_record_failure(throttle)); /* 4.9 */
  succeed_times(throttle, 21);                          /* 7.0 */
  assert_true(weir_throttle_record_failure(throttle));  /* 6.0 */

  succeed_times(throttle, 50);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 10000);
  weir_throttle_release(throttle);
}

static void a_ratio_of_one_is_one_token(void **state) {
  (void)state;
  weir_throttle *throttle = acquire_new(4, 1000);
  fail_times(throttle, 10);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 0);

  succeed_times(throttle, 10);

  assert_int_equal(weir_throttle_tokens_milli(throttle), 4000);
  assert_true(weir_throttle_record_failure(throttle));
  weir_throttle_release(throttle);
}

static void the_bucket_is_never_below_empty_nor_above_full(void **state) {
  (void)state;
  weir_throttle *throttle = acquire_new(3, 546);
  succeed_times(throttle, 3);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 3000);
  fail_times(throttle, 1);
  succeed_times(throttle, 1);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 2546);
  succeed_times(throttle, 1);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 3000);
  fail_times(throttle, 1);
  succeed_times(throttle, 1); /* 2.546 */
  fail_times(throttle, 9);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 0);
  weir_throttle_release(throttle);
}

static void a_ratio_above_the_maximum_fills_the_bucket(void **state) {
  (void)state;
  weir_throttle *throttle = acquire_new(2, UINT32_MAX);
  fail_times(throttle, 5);

  succeed_times(throttle, 1);

  assert_int_equal(weir_throttle_tokens_milli(throttle), 2000);
  weir_throttle_release(throttle);
}

static void what_is_no_throttle_is_refused(void **state) {
  (void)state;
  static const struct {
    uint32_t max_tokens;
    uint32_t token_ratio_milli;
    enum weir_error error;
  } rows[] = {
      {0, 100, WEIR_ERROR_INVALID_ARGUMENT},
      {1001, 100, WEIR_ERROR_INVALID_ARGUMENT},
      {UINT32_MAX, 100, WEIR_ERROR_INVALID_ARGUMENT},
      {10, 0, WEIR_ERROR_INVALID_ARGUMENT},
      {1, 1, WEIR_OK},
      {1000, 1, WEIR_OK},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    weir_throttle *throttle = NULL;
    assert_int_equal(
        weir_throttle_acquire("range:1", rows[i].max_tokens, rows[i].token_ratio_milli, &throttle),
        rows[i].error);
    assert_true((throttle != NULL) == (rows[i].error == WEIR_OK));
    weir_throttle_release(throttle);
  }
  weir_throttle_release(NULL);
}

static void channels_to_one_server_share_a_bucket(void **state) {
  (void)state;
  weir_throttle *a = acquire("dns:///Shared.example", 10, 100);
  weir_throttle *b = acquire("shared.example:443", 10, 100);
  weir_throttle *other = acquire("shared.example:444", 10, 100);

  assert_ptr_equal(a, b);
  assert_ptr_not_equal(a, other);
  weir_throttle_release(a);
  weir_throttle_release(b);
  weir_throttle_release(other);
}

/* present tokens of old maximum become a share of the new one */
static const struct {
  uint32_t old_max;
  uint32_t n_failures;
  uint32_t new_max;
  uint32_t expected_milli;
} change_rows[] = {
    {10, 5, 100, 50000}, {10, 5, 4, 2000}, {10, 0, 7, 7000},
    {10, 10, 7, 0},      {3, 1, 10, 6666}, {1000, 1, 1, 999},
};

static void a_change_of_parameters_keeps_the_fraction(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof change_rows / sizeof change_rows[0]; i++) {
    char target[32];
    snprintf(target, sizeof target, "changed-%zu:1", i);
    weir_throttle *before = acquire(target, change_rows[i].old_max, 100);
    fail_times(before, change_rows[i].n_failures);

    weir_throttle *after = acquire(target, change_rows[i].new_max, 500);

    assert_ptr_equal(before, after); /* whoever had it sees the new parameters */
    assert_int_equal(weir_throttle_tokens_milli(before), change_rows[i].expected_milli);
    weir_throttle_release(before);
    weir_throttle_release(after);
  }
}

static void a_changed_ratio_is_used_from_then_on(void **state) {
  (void)state;
  weir_throttle *before = acquire("ratio:1", 10, 100);
  fail_times(before, 5);
  weir_throttle *after = acquire("ratio:1", 10, 1000);

  weir_throttle_record_success(before);

  assert_int_equal(weir_throttle_tokens_milli(after), 6000);
  weir_throttle_release(before);
  weir_throttle_release(after);
}

static void a_changed_maximum_moves_the_threshold(void **state) {
  (void)state;
  weir_throttle *before = acquire("threshold:1", 10, 100);
  fail_times(before, 2); /* 8 of 10 */
  weir_throttle *after = acquire("threshold:1", 4, 100);
  assert_int_equal(weir_throttle_tokens_milli(before), 3200);

  assert_true(weir_throttle_record_failure(before));  /* 2.2 > 2 */
  assert_false(weir_throttle_record_failure(before)); /* 1.2 */
  weir_throttle_release(before);
  weir_throttle_release(after);
}

/* The level of each maximum in turn, for as long as two channels with different policies are made
 * one after the other. Cut to thousandths each time, 500 of 999,000 and 1,000,000 would be gone
 * after 500 turns. */
static const struct {
  uint32_t max_tokens[3];
  uint32_t n_failures;
} turn_rows[] = {
    {{999, 1000, 999}, 998}, {{1000, 999, 1000}, 500}, {{3, 10, 3}, 2},
    {{997, 998, 999}, 700},  {{7, 1000, 3}, 5},        {{1000, 1, 1000}, 333},
};

static void changes_back_and_forth_neither_lose_nor_make_tokens(void **state) {
  (void)state;
  for (size_t row = 0; row < sizeof turn_rows / sizeof turn_rows[0]; row++) {
    const uint32_t *max_tokens = turn_rows[row].max_tokens;
    char target[32];
    snprintf(target, sizeof target, "turn-%zu:1", row);
    weir_throttle *throttle = acquire(target, max_tokens[0], 1);
    fail_times(throttle, turn_rows[row].n_failures);
    uint32_t at_first_milli = weir_throttle_tokens_milli(throttle);
    for (size_t turn = 1; turn <= 3000; turn++) {
      weir_throttle_release(acquire(target, max_tokens[turn % 3], 1));
    }
    uint32_t at_last_milli = weir_throttle_tokens_milli(throttle);
    if (at_last_milli != at_first_milli && at_last_milli + 1 != at_first_milli) {
      fail_msg("row %zu: %u of a token became %u", row, at_first_milli, at_last_milli);
    }
    weir_throttle_release(throttle);
  }
}

/* Each turn gives back a thousandth; each change cuts off up to one. */
static void what_is_given_back_between_changes_adds_up(void **state) {
  (void)state;
  weir_throttle *throttle = acquire("between:1", 999, 1);
  fail_times(throttle, 998);
  for (size_t turn = 0; turn < 500; turn++) {
    weir_throttle_record_success(throttle);
    weir_throttle_release(acquire("between:1", turn % 2 == 0 ? 1000 : 999, 1));
  }

  /* 250 of 1/999,000 and 250 of 1/1,000,000 of the bucket, in 1/999,000 */
  assert_in_range(weir_throttle_tokens_milli(throttle), 1000 + 499, 1000 + 500);
  weir_throttle_release(throttle);
}

static void a_bucket_that_has_become_full_stays_full_through_changes(void **state) {
  (void)state;
  weir_throttle *throttle = acquire("full:1", 3, 1000);
  fail_times(throttle, 1);
  weir_throttle_release(acquire("full:1", 10, 1000)); /* 6.666, and something cut off */
  succeed_times(throttle, 4);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 10000);

  weir_throttle_release(acquire("full:1", 7, 1000));

  assert_int_equal(weir_throttle_tokens_milli(throttle), 7000);
  weir_throttle_release(throttle);
}

/* A minute of a thousand changes of policy a second: two channels, or one that has its next share
 * before it gives the last one back, or after. */
static void a_minute_of_changes_moves_no_level(void **state) {
  (void)state;
  struct weir_seeded_random random;
  weir_random_seed(&random, 1);
  for (uint32_t n_failures = 1; n_failures <= 996; n_failures += 199) {
    char target[32];
    snprintf(target, sizeof target, "minute-%u:1", n_failures);
    weir_throttle *throttle = acquire(target, 997, 1);
    fail_times(throttle, n_failures);
    uint32_t at_first_milli = weir_throttle_tokens_milli(throttle);
    for (uint32_t turn = 0; turn < 60000; turn++) {
      uint32_t max_tokens = 1 + (uint32_t)(weir_random_unit(&random.base) * 1000);
      if (turn % 3 == 0) {
        weir_throttle_release(throttle);
        throttle = acquire(target, max_tokens, 1 + turn % 2000);
      } else {
        weir_throttle *next = acquire(target, max_tokens, 1 + turn % 2000);
        weir_throttle_release(throttle);
        throttle = next;
      }
    }
    weir_throttle_release(acquire(target, 997, 1));
    uint32_t at_last_milli = weir_throttle_tokens_milli(throttle);
    if (at_last_milli + 1 < at_first_milli || at_last_milli > at_first_milli + 1) {
      fail_msg("%u failures: %u became %u", n_failures, at_first_milli, at_last_milli);
    }
    weir_throttle_release(throttle);
  }
}

/* The policy of one is changed; the other's counts by the same numbers from then on. */
static void two_channels_with_different_policies_have_the_last_one_s_numbers(void **state) {
  (void)state;
  weir_throttle *one = acquire("two:1", 10, 100);
  weir_throttle *other = acquire("two:1", 100, 1000);
  fail_times(one, 20); /* 80 of 100 */
  weir_throttle_record_success(one);
  assert_int_equal(weir_throttle_tokens_milli(other), 81000);
  weir_throttle_release(other); /* its policy throttles no more */
  weir_throttle_record_success(one);
  assert_int_equal(weir_throttle_tokens_milli(one), 82000);
  weir_throttle_release(acquire("two:1", 10, 100));
  assert_int_equal(weir_throttle_tokens_milli(one), 8200);
  weir_throttle_record_success(one);
  assert_int_equal(weir_throttle_tokens_milli(one), 8300);
  weir_throttle_release(one);
}

/* What an operator reckons with (doc/retry.md): whatever the traffic, each retry is paid for by one
 * of the upper half's tokens, and nothing but a success puts any there. */
static void retries_are_bounded_by_half_of_the_tokens_and_what_successes_gave(void **state) {
  (void)state;
  struct weir_seeded_random random;
  weir_random_seed(&random, 1);
  for (size_t row = 0; row < 200; row++) {
    uint32_t max_tokens = 1 + (uint32_t)(weir_random_unit(&random.base) * 20);
    uint32_t ratio_milli = 1 + (uint32_t)(weir_random_unit(&random.base) * 1500);
    double failing = weir_random_unit(&random.base);
    uint64_t n_retries = 0;
    uint64_t n_successes = 0;
    weir_throttle *throttle = acquire_new(max_tokens, ratio_milli);
    for (size_t i = 0; i < 1000; i++) {
      if (weir_random_unit(&random.base) < failing) {
        n_retries += weir_throttle_record_failure(throttle) ? 1 : 0;
      } else {
        weir_throttle_record_success(throttle);
        n_successes++;
      }
      assert_true(2000 * n_retries <= 1000 * max_tokens + 2 * ratio_milli * n_successes);
    }
    weir_throttle_release(throttle);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(retries_stop_at_half_of_the_tokens),
      cmocka_unit_test(ten_successes_make_a_token_at_a_ratio_of_a_tenth),
      cmocka_unit_test(a_ratio_of_one_is_one_token),
      cmocka_unit_test(the_bucket_is_never_below_empty_nor_above_full),
      cmocka_unit_test(a_ratio_above_the_maximum_fills_the_bucket),
      cmocka_unit_test(what_is_no_throttle_is_refused),
      cmocka_unit_test(retries_are_bounded_by_half_of_the_tokens_and_what_successes_gave),
      cmocka_unit_test(channels_to_one_server_share_a_bucket),
      cmocka_unit_test(a_change_of_parameters_keeps_the_fraction),
      cmocka_unit_test(a_changed_ratio_is_used_from_then_on),
      cmocka_unit_test(a_changed_maximum_moves_the_threshold),
      cmocka_unit_test(changes_back_and_forth_neither_lose_nor_make_tokens),
      cmocka_unit_test(what_is_given_back_between_changes_adds_up),
      cmocka_unit_test(a_minute_of_changes_moves_no_level),
      cmocka_unit_test(two_channels_with_different_policies_have_the_last_one_s_numbers),
      cmocka_unit_test(a_bucket_that_has_become_full_stays_full_through_changes),
  };
  return cmocka_run_group_tests_name("throttle", tests, NULL, NULL);
}
