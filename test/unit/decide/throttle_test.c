/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weir/error.h>

#include <cmocka.h>

#include <weir/throttle.h>

static weir_throttle *acquire(const char *target, uint32_t max_tokens, uint32_t token_ratio_milli) {
  weir_throttle *throttle = NULL;
  assert_int_equal(weir_throttle_acquire(target, max_tokens, token_ratio_milli, &throttle),
                   WEIR_OK);
  return throttle;
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
    weir_throttle *throttle = acquire("threshold", threshold_rows[i].max_tokens, 100);
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
  weir_throttle *throttle = acquire("tenth", 10, 100);
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
  weir_throttle *throttle = acquire("one", 4, 1000);
  fail_times(throttle, 10);
  assert_int_equal(weir_throttle_tokens_milli(throttle), 0);

  succeed_times(throttle, 10);

  assert_int_equal(weir_throttle_tokens_milli(throttle), 4000);
  assert_true(weir_throttle_record_failure(throttle));
  weir_throttle_release(throttle);
}

static void the_bucket_is_never_below_empty_nor_above_full(void **state) {
  (void)state;
  weir_throttle *throttle = acquire("clamp", 3, 546);
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
  weir_throttle *throttle = acquire("generous", 2, UINT32_MAX);
  fail_times(throttle, 5);

  succeed_times(throttle, 1);

  assert_int_equal(weir_throttle_tokens_milli(throttle), 2000);
  weir_throttle_release(throttle);
}

/* Names that mean one server, and names that don't. */
static const struct {
  const char *a;
  const char *b;
  bool same;
} name_rows[] = {
    {"cart.example:443", "cart.example:443", true},
    {"cart.example:443", "dns:cart.example:443", true},
    {"cart.example:443", "dns:///cart.example:443", true},
    {"cart.example:443", "DNS:///Cart.Example:443", true},
    {"cart.example:443", "dns://8.8.8.8/cart.example:443", true},
    {"10.0.0.1:80", "ipv4:10.0.0.1:80", true},
    {"[::1]:80", "ipv6:[::1]:80", true},
    {"cart.example:443", "cart.example:444", false},
    {"cart.example:443", "stock.example:443", false},
    {"unix:/run/a", "unix:/run/A", false},
    {"unix:/run/a", "/run/a", false},
    {"unix:/run/a", "unix:/run/a", true},
    {"dns:", "dns:///", false},
};

static void channels_to_one_server_share_a_bucket(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof name_rows / sizeof name_rows[0]; i++) {
    weir_throttle *a = acquire(name_rows[i].a, 10, 100);
    weir_throttle *b = acquire(name_rows[i].b, 10, 100);
    if ((a == b) != name_rows[i].same) {
      fail_msg("%s, %s", name_rows[i].a, name_rows[i].b);
    }
    weir_throttle_release(a);
    weir_throttle_release(b);
  }
}

static void a_bucket_lives_as_long_as_one_channel_has_it(void **state) {
  (void)state;
  weir_throttle *a = acquire("shared", 10, 100);
  weir_throttle *b = acquire("shared", 10, 100);
  fail_times(a, 3);
  weir_throttle_release(a);
  assert_int_equal(weir_throttle_tokens_milli(b), 7000);

  weir_throttle_ref(b);
  weir_throttle_release(b);
  assert_int_equal(weir_throttle_tokens_milli(b), 7000);
  weir_throttle_release(b);

  weir_throttle *anew = acquire("shared", 10, 100);
  assert_int_equal(weir_throttle_tokens_milli(anew), 10000);
  weir_throttle_release(anew);
  weir_throttle_release(NULL);
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
    weir_throttle *before = acquire("changed", change_rows[i].old_max, 100);
    fail_times(before, change_rows[i].n_failures);

    weir_throttle *after = acquire("changed", change_rows[i].new_max, 500);

    assert_ptr_equal(before, after); /* whoever had it sees the new parameters */
    assert_int_equal(weir_throttle_tokens_milli(before), change_rows[i].expected_milli);
    weir_throttle_release(before);
    weir_throttle_release(after);
  }
}

static void a_changed_ratio_is_used_from_then_on(void **state) {
  (void)state;
  weir_throttle *before = acquire("ratio", 10, 100);
  fail_times(before, 5);
  weir_throttle *after = acquire("ratio", 10, 1000);

  weir_throttle_record_success(before);

  assert_int_equal(weir_throttle_tokens_milli(after), 6000);
  weir_throttle_release(before);
  weir_throttle_release(after);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(retries_stop_at_half_of_the_tokens),
      cmocka_unit_test(ten_successes_make_a_token_at_a_ratio_of_a_tenth),
      cmocka_unit_test(a_ratio_of_one_is_one_token),
      cmocka_unit_test(the_bucket_is_never_below_empty_nor_above_full),
      cmocka_unit_test(a_ratio_above_the_maximum_fills_the_bucket),
      cmocka_unit_test(channels_to_one_server_share_a_bucket),
      cmocka_unit_test(a_bucket_lives_as_long_as_one_channel_has_it),
      cmocka_unit_test(a_change_of_parameters_keeps_the_fraction),
      cmocka_unit_test(a_changed_ratio_is_used_from_then_on),
  };
  return cmocka_run_group_tests_name("throttle", tests, NULL, NULL);
}
