/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

/* --- which bound is the tightest --- */

struct bound_row {
  const char *why;
  int64_t call_ns; /* 0 = none, so below */
  int64_t parent_ns;
  int64_t timeout_ns;
  int64_t margin_ns;
  int64_t effective_ns;
  enum weir_deadline_bound bound;
  bool ignores_parent;
};

static const struct bound_row bound_rows[] = {
    {"no bound: the default", 0, 0, 0, 0, SECONDS(10), WEIR_DEADLINE_BOUND_POLICY, false},
    {"the call's own", SECONDS(2), 0, 0, 0, SECONDS(2), WEIR_DEADLINE_BOUND_CALL, false},
    {"the method's is nearer", SECONDS(2), 0, SECONDS(1), 0, SECONDS(1), WEIR_DEADLINE_BOUND_POLICY,
     false},
    {"the parent's is nearer", SECONDS(2), MS(700), SECONDS(1), 0, MS(700),
     WEIR_DEADLINE_BOUND_PARENT, false},
    {"the parent's, less the margin", SECONDS(2), MS(700), 0, MS(50), MS(650),
     WEIR_DEADLINE_BOUND_PARENT, false},
    {"the parent's is not looked at", SECONDS(2), MS(700), 0, 0, SECONDS(2),
     WEIR_DEADLINE_BOUND_CALL, true},
    {"the parent's wins a tie", SECONDS(2), SECONDS(2), 0, 0, SECONDS(2),
     WEIR_DEADLINE_BOUND_PARENT, false},
    {"the ceiling, for a deadline given in hours", SECONDS(36000), 0, 0, 0, SECONDS(60),
     WEIR_DEADLINE_BOUND_POLICY, false},
    {"a far parent's does not bring the default in", 0, SECONDS(30), 0, 0, SECONDS(30),
     WEIR_DEADLINE_BOUND_PARENT, false},
};

static void check_bound_row(const struct bound_row *row) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  f->deadline.margin_ns = row->margin_ns;
  f->deadline.inherits_parent = !row->ignores_parent;
  if (row->timeout_ns != 0) {
    f->method.timeout_ns = row->timeout_ns;
  }
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  weir_inbound *inbound =
      row->parent_ns != 0 ? fixture_inbound(f, T0 + row->parent_ns, NULL, NULL) : NULL;
  struct unary unary;
  unary_init_with(
      f, &unary,
      &(struct unary_options){.deadline_at_ns = row->call_ns != 0 ? T0 + row->call_ns : 0,
                              .inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until_idle(f);

  struct weir_call_report report = unary_report(&unary);
  if (elapsed_ns(f) != row->effective_ns || report.deadline_bound != row->bound ||
      sent(f, 1)->deadline_at_ns != T0 + row->effective_ns) {
    fail_msg("%s: ended after %ld ns, bound by %s", row->why, (long)elapsed_ns(f),
             weir_deadline_bound_name(report.deadline_bound));
  }
  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  unary_fini(&unary);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void the_nearest_bound_is_the_calls_deadline(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bound_rows / sizeof bound_rows[0]; i++) {
    check_bound_row(&bound_rows[i]);
  }
}

/* --- what a ceiling cut --- */

static uint64_t n_clamped(const struct fixture *f) {
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  return counters.n_clamped_deadlines;
}

static void a_call_with_a_clamped_deadline_is_counted_once_and_says_so(void **state) {
  struct fixture *f = *state;
  f->deadline.max_timeout_ns = SECONDS(5);
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(101), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(6)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_true(unary_report(&unary).deadline_clamped);
  assert_int_equal(unary_report(&unary).n_attempts, 2);
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + SECONDS(5));
  assert_int_equal(n_clamped(f), 1);
  unary_fini(&unary);
}

static void a_default_under_a_ceiling_is_no_clamp(void **state) {
  struct fixture *f = *state;
  f->deadline.default_timeout_ns = SECONDS(8);
  f->deadline.max_timeout_ns = SECONDS(5);
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_run(f, &unary);

  assert_false(unary_report(&unary).deadline_clamped);
  assert_int_equal(n_clamped(f), 0);
  unary_fini(&unary);
}

/* The first batch came to nothing, so the call has not been started. */
static void a_clamp_is_not_counted_again_when_the_call_is_started_anew(void **state) {
  struct fixture *f = *state;
  f->deadline.max_timeout_ns = SECONDS(5);
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(6)});
  f->transport.start_fails_at = 1;
  assert_int_equal(unary_try_start(f, &unary), GRPC_CALL_ERROR);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_true(unary_report(&unary).deadline_clamped);
  assert_int_equal(n_clamped(f), 1);
  unary_fini(&unary);
}

/* --- it covers everything --- */

static void a_timeout_is_for_the_whole_call(void **state) {
  struct fixture *f = *state;
  f->method.timeout_ns = SECONDS(2);
  f->method.retry.initial_backoff_ns = 1;
  f->method.retry.max_backoff_ns = 1;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(700), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_NS(MS(700) + 1), EXPECT_SEND},
                 {AT_MS(1400), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_NS(MS(1400) + 1), EXPECT_SEND}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(elapsed_ns(f), SECONDS(2));
  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(sent(f, 3)->deadline_at_ns, T0 + SECONDS(2));
  unary_fini(&unary);
}

/* A wall clock's deadline becomes one of the monotonic clock when the call is made. */
static void a_realtime_deadline_is_converted_once(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init(f, &unary);
  weir_call_unref(unary.call);
  gpr_timespec in_two_seconds =
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(2, GPR_TIMESPAN));
  unary.call =
      weir_channel_create_call(f->channel, NULL, 0, f->queue, grpc_slice_from_static_string(METHOD),
                               NULL, in_two_seconds, NULL);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_true(elapsed_ns(f) <= SECONDS(2));
  assert_true(elapsed_ns(f) > SECONDS(1)); /* the conversion takes no second */
  unary_fini(&unary);
}

/* --- past at the start --- */

static void check_expired(struct fixture *f, const struct unary *unary) {
  assert_int_equal(f->transport.n_created, 0);
  assert_int_equal(unary->n_done, 1);
  assert_true(unary->success);
  assert_int_equal(unary->status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_null(unary->reply);
  struct weir_call_report report = unary_report(unary);
  assert_int_equal(report.n_attempts, 0);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(report.reason, WEIR_REASON_DEADLINE);
}

static void a_deadline_that_is_past_sends_nothing(void **state) {
  static const int64_t deadlines_ns[] = {T0, T0 - SECONDS(5), INT64_MIN};
  struct fixture *f = *state;
  f->method.retry.retryable_codes |= CODE_BIT(GRPC_STATUS_DEADLINE_EXCEEDED);
  fixture_open(f);
  for (size_t i = 0; i < sizeof deadlines_ns / sizeof deadlines_ns[0]; i++) {
    struct unary unary;
    unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = deadlines_ns[i]});
    unary_start(f, &unary);
    assert_int_equal(unary.n_done, 0); /* the tag comes from the queue */
    run_until_idle(f);
    check_expired(f, &unary);
    unary_fini(&unary);
  }
}

static void a_parent_whose_time_is_up_sends_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  weir_inbound *inbound = fixture_inbound(f, T0 - 1, NULL, NULL);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until_idle(f);

  check_expired(f, &unary);
  assert_int_equal(unary_report(&unary).deadline_bound, WEIR_DEADLINE_BOUND_PARENT);
  unary_fini(&unary);
}

static void an_expired_call_touches_neither_breaker_nor_tokens(void **state) {
  struct fixture *f = *state;
  f->policy_options.throttle_max_tokens = 4;
  f->policy_options.throttle_token_ratio_milli = 500;
  fixture_open(f);
  for (size_t i = 0; i < 20; i++) {
    struct unary unary;
    unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0});
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
  }
  assert_int_equal(f->log.n_records, 20); /* as every failure at a boundary */
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary_report(&unary).n_attempts, 2); /* of 4 tokens the second is the last */
  assert_int_equal(fixture_breaker(f).n_requests, 1);
  unary_fini(&unary);
}

static void a_deadline_that_passes_while_an_answer_waits_does_not_change_it(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(50), REPLY("bar")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(50)});
  unary_start(f, &unary);
  fake_clock_advance_to(&f->clock, T0 + SECONDS(9));
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_nearest_bound_is_the_calls_deadline),
      TEST(a_call_with_a_clamped_deadline_is_counted_once_and_says_so),
      TEST(a_default_under_a_ceiling_is_no_clamp),
      TEST(a_clamp_is_not_counted_again_when_the_call_is_started_anew),
      TEST(a_timeout_is_for_the_whole_call),
      TEST(a_realtime_deadline_is_converted_once),
      TEST(a_deadline_that_is_past_sends_nothing),
      TEST(a_parent_whose_time_is_up_sends_nothing),
      TEST(an_expired_call_touches_neither_breaker_nor_tokens),
      TEST(a_deadline_that_passes_while_an_answer_waits_does_not_change_it),
  };
  return cmocka_run_group_tests_name("deadline", tests, NULL, NULL);
}
