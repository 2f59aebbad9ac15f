/* Breaker, throttle, backoff and budget. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include <weir/decide.h>

#include "test/memory/trial.h"

#define FAILURES 8

/* --- breaker --- */

static void trip(weir_breaker *breaker) {
  struct weir_breaker_view view = {.state = WEIR_BREAKER_CLOSED};
  for (int i = 0; i < FAILURES; i++) {
    struct weir_breaker_ticket ticket;
    (void)weir_breaker_admit(breaker, 1, NULL, &ticket, &view);
    weir_breaker_settle(breaker, &ticket, WEIR_BREAKER_VERDICT_FAILURE, 1, NULL, &view);
  }
  assert_int_equal(weir_breaker_look(breaker, 1).state, WEIR_BREAKER_OPEN);
}

static void make_breaker(struct trial *trial) {
  weir_breaker *breaker = NULL;
  trial_begin(trial);
  enum weir_error error = weir_breaker_new(NULL, NULL, &breaker);
  trial_end(trial);
  trial_check_made(trial, error, breaker);
  if (breaker == NULL) {
    assert_int_equal(weir_breaker_new(NULL, NULL, &breaker), WEIR_OK);
  }
  trip(breaker);
  weir_breaker_free(breaker);
}

static void use_breaker(struct trial *trial) {
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
  struct weir_breaker_ticket ticket = {.place = WEIR_BREAKER_NO_PLACE};
  struct weir_breaker_view view;
  weir_breaker *breaker = NULL;
  assert_int_equal(weir_breaker_new(&options, NULL, &breaker), WEIR_OK);
  trial_begin(trial);
  (void)weir_breaker_admit(breaker, 0, NULL, &ticket, &view);
  weir_breaker_progress(breaker, &ticket, 1, &view);
  const bool still_admits = weir_breaker_still_admits(breaker, &ticket);
  weir_breaker_settle(breaker, &ticket, WEIR_BREAKER_VERDICT_SUCCESS, 1, NULL, &view);
  weir_breaker_release(breaker, &ticket);
  trip(breaker);
  weir_breaker_set_override(breaker, WEIR_BREAKER_OVERRIDE_OPEN, &view);
  enum weir_error snapshot_error = weir_breaker_snapshot(breaker, 1, &snapshot);
  weir_breaker_free(breaker);
  trial_end(trial);
  assert_true(still_admits);
  assert_int_equal(snapshot_error, WEIR_OK);
  assert_int_equal(snapshot.n_trips, 1);
  assert_int_equal(snapshot.override, WEIR_BREAKER_OVERRIDE_OPEN);
}

static void change_breaker(struct trial *trial) {
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  weir_breaker *breaker = NULL;
  assert_int_equal(weir_breaker_new(&options, NULL, &breaker), WEIR_OK);
  options.window_buckets = 50;
  options.probes = 90;
  options.min_requests = FAILURES + 1;
  trial_begin(trial);
  enum weir_error error = weir_breaker_set_options(breaker, &options);
  trial_end(trial);
  trial_check_error(trial, error);
  if (error == WEIR_OK) {
    options.min_requests = FAILURES;
    assert_int_equal(weir_breaker_set_options(breaker, &options), WEIR_OK);
  } /* else it goes by what it went by before */
  trip(breaker);
  weir_breaker_free(breaker);
}

/* --- throttle --- */

/* More than the table of names begins with. */
#define SOME_NAMES 70

static enum weir_error acquire(int nth, weir_throttle **throttle_out) {
  char target[32];
  (void)snprintf(target, sizeof target, "host%d.test:1", nth);
  return weir_throttle_acquire(target, 10, 100, throttle_out);
}

static void acquire_throttles(struct trial *trial) {
  weir_throttle *throttles[SOME_NAMES];
  enum weir_error errors[SOME_NAMES];
  trial_begin(trial);
  for (int i = 0; i < SOME_NAMES; i++) {
    errors[i] = acquire(i, &throttles[i]);
  }
  trial_end(trial);
  for (int i = 0; i < SOME_NAMES; i++) {
    trial_check_made(trial, errors[i], throttles[i]);
    if (throttles[i] == NULL) {
      assert_int_equal(acquire(i, &throttles[i]), WEIR_OK);
    }
    assert_int_equal(weir_throttle_tokens_milli(throttles[i]), 10000);
  }
  for (int i = 0; i < SOME_NAMES; i++) {
    weir_throttle_release(throttles[i]);
  }
}

/* So many that the table shrinks when they go, which takes memory, or is left. */
#define MANY_NAMES 600
#define FEW_NAMES 8

static void release_throttles(struct trial *trial) {
  static weir_throttle *throttles[MANY_NAMES];
  weir_throttle *kept = NULL;
  for (int i = 0; i < MANY_NAMES; i++) {
    assert_int_equal(acquire(i, &throttles[i]), WEIR_OK);
  }
  assert_int_equal(acquire(0, &kept), WEIR_OK);
  assert_true(weir_throttle_record_failure(kept));
  trial_begin(trial);
  for (int i = 0; i < MANY_NAMES; i++) {
    weir_throttle_release(throttles[i]);
  }
  trial_end(trial);
  assert_int_equal(weir_throttle_tokens_milli(kept), 9000);
  assert_int_equal(acquire(0, &throttles[0]), WEIR_OK);
  assert_ptr_equal(throttles[0], kept); /* it is still found */
  weir_throttle_release(throttles[0]);
  weir_throttle_release(kept);
  weir_throttle_forget();
  for (int i = 0; i < FEW_NAMES; i++) { /* the table shrinks with the next that go */
    assert_int_equal(acquire(i, &throttles[i]), WEIR_OK);
    weir_throttle_release(throttles[i]);
  }
}

static void use_throttle(struct trial *trial) {
  weir_throttle *throttle = NULL;
  assert_int_equal(acquire(1, &throttle), WEIR_OK);
  trial_begin(trial);
  weir_throttle_ref(throttle);
  (void)weir_throttle_record_failure(throttle);
  weir_throttle_record_success(throttle);
  const uint32_t tokens_milli = weir_throttle_tokens_milli(throttle);
  weir_throttle_release(throttle);
  weir_throttle_release(throttle);
  weir_throttle_forget();
  trial_end(trial);
  assert_int_equal(tokens_milli, 9100);
}

/* --- numbers --- */

static void compute(struct trial *trial) {
  const struct weir_retry_policy policy = WEIR_RETRY_POLICY_NONE;
  struct weir_seeded_random random;
  trial_begin(trial);
  weir_random_seed(&random, 7);
  const double unit = weir_random_unit(&random.base);
  const double other_unit = weir_random_unit(weir_random_thread());
  const int64_t delay_ns = weir_backoff_delay_ns(&policy, 1, unit);
  const bool allows = weir_budget_allows(WEIR_NO_DEADLINE, 0, 1);
  trial_end(trial);
  assert_true(delay_ns >= 1);
  assert_true(allows);
  assert_true(other_unit < 1);
}

const struct trial_row decide_rows[] = {
    {"weir_breaker_new", TAKES_MEMORY, make_breaker},
    {"weir_breaker_set_options", TAKES_MEMORY, change_breaker},
    {"weir_breaker_admit", TAKES_NOTHING, use_breaker},
    {"weir_breaker_free", TAKES_NOTHING, use_breaker},
    {"weir_breaker_look", TAKES_NOTHING, use_breaker},
    {"weir_breaker_progress", TAKES_NOTHING, use_breaker},
    {"weir_breaker_release", TAKES_NOTHING, use_breaker},
    {"weir_breaker_set_override", TAKES_NOTHING, use_breaker},
    {"weir_breaker_settle", TAKES_NOTHING, use_breaker},
    {"weir_breaker_snapshot", TAKES_NOTHING, use_breaker},
    {"weir_breaker_still_admits", TAKES_NOTHING, use_breaker},
    {"weir_throttle_acquire", TAKES_MEMORY, acquire_throttles},
    {"weir_throttle_release", TAKES_MEMORY, release_throttles},
    {"weir_throttle_forget", TAKES_NOTHING, use_throttle},
    {"weir_throttle_record_failure", TAKES_NOTHING, use_throttle},
    {"weir_throttle_record_success", TAKES_NOTHING, use_throttle},
    {"weir_throttle_ref", TAKES_NOTHING, use_throttle},
    {"weir_throttle_tokens_milli", TAKES_NOTHING, use_throttle},
    {"weir_backoff_delay_ns", TAKES_NOTHING, compute},
    {"weir_budget_allows", TAKES_NOTHING, compute},
    {"weir_random_seed", TAKES_NOTHING, compute},
    {"weir_random_thread", TAKES_NOTHING, compute},
    {"weir_random_unit", TAKES_NOTHING, compute},
    TRIAL_ROWS_END,
};
