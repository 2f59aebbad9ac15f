/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/stack/batches.h"

/* What a call does with the time that is left to it, whether it is one batch or several. */

static void start(struct batched_call *call, bool one_batch) {
  if (one_batch) {
    batched_call_start(call, OPS(SEND_ALL, RECV_ALL));
    return;
  }
  batched_call_start(call, OPS(SEND_METADATA));
  batched_call_start(call, OPS(SEND_MESSAGE));
  batched_call_start(call, OPS(SEND_CLOSE));
  batched_call_start(call, OPS(RECV_METADATA));
  batched_call_start(call, OPS(RECV_MESSAGE));
  batched_call_start(call, OPS(RECV_STATUS));
}

static const char *shape_name(bool one_batch) {
  return one_batch ? "one batch" : "several batches";
}

/* --- none --- */

/* Where the bound comes from: 0 = it does not. */
struct past_row {
  const char *why;
  int64_t call_at_ns;
  int64_t parent_at_ns;
  int64_t margin_ns;
  bool no_timeout; /* the method's is 0s */
  enum weir_deadline_bound bound;
};

static const struct past_row past_rows[] = {
    {"the call's, long ago", T0 - SECONDS(5), 0, 0, false, WEIR_DEADLINE_BOUND_CALL},
    {"the call's, now", T0, 0, 0, false, WEIR_DEADLINE_BOUND_CALL},
    {"the call's, the infinite past", INT64_MIN, 0, 0, false, WEIR_DEADLINE_BOUND_CALL},
    {"the parent's, now", 0, T0, 0, false, WEIR_DEADLINE_BOUND_PARENT},
    {"the parent's, less a margin of all that is left", 0, T0 + MS(20), MS(20), false,
     WEIR_DEADLINE_BOUND_PARENT},
    {"the parent's, less a margin of more", T0 + SECONDS(9), T0 + MS(20), SECONDS(3), false,
     WEIR_DEADLINE_BOUND_PARENT},
    {"the method's, nothing", 0, 0, 0, true, WEIR_DEADLINE_BOUND_POLICY},
};

static void check_untouched(struct fixture *f) {
  assert_int_equal(f->transport.n_created, 0);
  assert_int_equal(fixture_breaker(f).n_requests, 0);
  assert_int_equal(f->log.n_records, 0);
}

/* As the core has it for a call whose deadline is past: what it sends and receives fails, and its
 * status succeeds. */
static void check_batches(const struct batched_call *call, bool one_batch) {
  for (size_t i = 0; i < call->n_batches; i++) {
    bool has_status = one_batch || i + 1 == call->n_batches;
    assert_true(has_status ? batch_is_success(&call->batches[i])
                           : batch_is_failure(&call->batches[i]));
    assert_null(call->batches[i].received);
  }
}

static void check_past_row(const struct past_row *row, bool one_batch) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  f->deadline.margin_ns = row->margin_ns;
  f->method.timeout_ns = row->no_timeout ? 0 : f->method.timeout_ns;
  f->method.retry.retryable_codes |= CODE_BIT(GRPC_STATUS_DEADLINE_EXCEEDED);
  f->translation.boundary = false;
  fixture_open(f);
  weir_inbound *inbound =
      row->parent_at_ns != 0 ? fixture_inbound(f, row->parent_at_ns, NULL, NULL) : NULL;
  struct batched_call *call =
      batches_new_for(f, row->call_at_ns != 0 ? row->call_at_ns : WEIR_NO_DEADLINE, inbound);
  weir_inbound_release(inbound);
  start(call, one_batch);
  drain(f);

  struct weir_call_report report = batched_call_report(call);
  if (report.code != GRPC_STATUS_DEADLINE_EXCEEDED || report.deadline_bound != row->bound ||
      report.origin != WEIR_ORIGIN_LOCAL_DEADLINE || report.reason != WEIR_REASON_DEADLINE ||
      report.n_attempts != 0 || report.blames != WEIR_BLAME_NOBODY || elapsed_ns(f) != 0) {
    fail_msg("%s, %s: %s, bound by %s", row->why, shape_name(one_batch),
             weir_reason_name(report.reason), weir_deadline_bound_name(report.deadline_bound));
  }
  assert_int_equal(call->status, GRPC_STATUS_DEADLINE_EXCEEDED);
  check_batches(call, one_batch);
  check_untouched(f);
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void a_call_without_time_ends_at_once_and_touches_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof past_rows / sizeof past_rows[0]; i++) {
    check_past_row(&past_rows[i], true);
    check_past_row(&past_rows[i], false);
  }
}

/* --- less than a wait --- */

/* The first attempt fails after 20 ms; then 100 ms are to be waited, unless the peer says more. */
struct wait_row {
  const char *why;
  int64_t deadline_ns;
  const char *pushback; /* NULL = none */
  bool fits;
};

static const struct wait_row wait_rows[] = {
    {"a backoff longer than what is left", MS(90), NULL, false},
    {"a backoff of all that is left", MS(120), NULL, false},
    {"a backoff that leaves less than an attempt needs", MS(121) - 1, NULL, false},
    {"a backoff that leaves just what an attempt needs", MS(121), NULL, false},
    {"a backoff that leaves a little more", MS(121) + 1, NULL, true},
    {"a pushback longer than what is left", MS(300), "5000", false},
    {"the longest pushback", SECONDS(60), "2147483647", false},
    {"a pushback of all that is left", MS(300), "280", false},
    {"a pushback that leaves a little", MS(302), "280", true},
};

static void check_wait_row(const struct wait_row *row, bool one_batch) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  f->policy_options.throttle_max_tokens = 10;
  f->policy_options.throttle_token_ratio_milli = 1;
  f->translation.boundary = false;
  fixture_open(f);
  struct wire_answer down = {
      .what = WIRE_TRAILERS_ONLY,
      .status = GRPC_STATUS_UNAVAILABLE,
      .text = "db down",
      .trailing = {{row->pushback != NULL ? "grpc-retry-pushback-ms" : NULL, row->pushback}}};
  scripted_transport_always(&f->transport, MS(20), down);
  struct batched_call *call = batches_new_until(f, T0 + row->deadline_ns);
  start(call, one_batch);
  drain(f);

  struct weir_call_report report = batched_call_report(call);
  uint32_t n_attempts = row->fits ? 2 : 1;
  if (report.n_attempts != n_attempts || f->transport.n_sent != n_attempts) {
    fail_msg("%s, %s: %u attempts, %s", row->why, shape_name(one_batch),
             (unsigned)report.n_attempts, weir_reason_name(report.reason));
  }
  if (!row->fits) {
    assert_status(call, GRPC_STATUS_UNAVAILABLE, "db down"); /* what went wrong, and at once */
    assert_int_equal(report.reason, WEIR_REASON_BUDGET);
    assert_int_equal(report.origin, WEIR_ORIGIN_PEER);
    assert_int_equal(elapsed_ns(f), MS(20));
    assert_int_equal(fixture_breaker(f).n_requests, 1);
  } else {
    assert_int_equal(elapsed_ns(f), row->deadline_ns);
  }
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void a_wait_that_does_not_fit_ends_the_call_with_what_went_wrong(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof wait_rows / sizeof wait_rows[0]; i++) {
    check_wait_row(&wait_rows[i], true);
    check_wait_row(&wait_rows[i], false);
  }
}

/* --- some, attempt by attempt --- */

static void check_shrinking(bool one_batch) {
  static const char *const budgets_us[] = {"2000000", "1299999", "599999"};
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  f->method.timeout_ns = SECONDS(2);
  f->method.retry.max_attempts = 5;
  f->method.retry.initial_backoff_ns = 1;
  f->method.retry.max_backoff_ns = 1;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(700), answer_unavailable);
  struct batched_call *call = batches_new(f);
  start(call, one_batch);
  drain(f);

  assert_int_equal(elapsed_ns(f), SECONDS(2)); /* since the first attempt began */
  assert_int_equal(call->status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_report(call, 3, WEIR_REASON_DEADLINE);
  assert_int_equal(f->transport.n_sent, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(sent(f, i + 1)->deadline_at_ns, T0 + SECONDS(2));
    assert_string_equal(sent_attempt_value(sent(f, i + 1), "weir-budget-us"), budgets_us[i]);
  }
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void every_attempt_has_what_the_ones_before_have_left(void **state) {
  (void)state;
  check_shrinking(true);
  check_shrinking(false);
}

/* --- streams --- */

/* A ceiling of unary calls is none of theirs, nor is a default. */
static void a_stream_has_all_time_unless_the_policy_says_so(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(86400000), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  start(call, false);
  drain(f);

  assert_status(call, GRPC_STATUS_OK, "");
  assert_true(sent(f, 1)->deadline_at_ns == WEIR_NO_DEADLINE);
  assert_null(sent_attempt_value(sent(f, 1), "weir-budget-us"));
  assert_int_equal(batched_call_report(call).deadline_bound, WEIR_DEADLINE_BOUND_NONE);
  batched_call_release(call);
}

/* Of the whole stream, also once it is committed. */
static void a_streams_ceiling_holds_to_its_end(void **state) {
  struct fixture *f = *state;
  f->deadline.max_stream_timeout_ns = SECONDS(5);
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), MESSAGE("bar")}));
  struct batched_call *call = batches_new_until(f, T0 + SECONDS(9));
  start(call, false);
  drain(f);

  assert_int_equal(elapsed_ns(f), SECONDS(5));
  assert_int_equal(call->status, GRPC_STATUS_DEADLINE_EXCEEDED);
  struct weir_call_report report = batched_call_report(call);
  assert_true(report.deadline_clamped);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_POLICY);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  assert_int_equal(counters.n_clamped_deadlines, 1);
  batched_call_release(call);
}

static void a_streams_default_is_for_one_that_was_given_nothing(void **state) {
  struct fixture *f = *state;
  f->deadline.default_stream_timeout_ns = SECONDS(3);
  fixture_open_raw(f);
  struct batched_call *given = batches_new_until(f, T0 + SECONDS(4));
  start(given, false);
  struct batched_call *not_given = batches_new(f);
  start(not_given, false);
  drain(f);

  assert_int_equal(batched_call_report(given).total_ns, SECONDS(4));
  assert_int_equal(batched_call_report(not_given).total_ns, SECONDS(3));
  assert_false(batched_call_report(not_given).deadline_clamped);
  batched_call_release(given);
  batched_call_release(not_given);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_without_time_ends_at_once_and_touches_nothing),
      cmocka_unit_test(a_wait_that_does_not_fit_ends_the_call_with_what_went_wrong),
      cmocka_unit_test(every_attempt_has_what_the_ones_before_have_left),
      TEST(a_stream_has_all_time_unless_the_policy_says_so),
      TEST(a_streams_ceiling_holds_to_its_end),
      TEST(a_streams_default_is_for_one_that_was_given_nothing),
  };
  return cmocka_run_group_tests_name("time that is left", tests, NULL, NULL);
}
