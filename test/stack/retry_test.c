/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "src/channel/channel.h"
#include "test/stack/stack_fixture.h"

/* --- when, and how often --- */

static void a_retryable_failure_is_tried_again(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(40), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
              {AT_MS(140), EXPECT_SEND}, {AT_MS(150), REPLY("bar")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_true(unary.success);
  assert_true(unary_reply_is(&unary, "bar"));
  assert_int_equal(unary.done_at_ns, T0 + MS(150));
  assert_int_equal(unary_report(&unary).n_attempts, 2);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NONE);
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_true(sent(f, 2)->half_closed);
  unary_fini(&unary);
}

static void a_code_that_is_not_listed_is_not_tried_again(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_INTERNAL, "broken")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_INTERNAL);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NOT_RETRYABLE);
  unary_fini(&unary);
}

static void a_method_without_a_retry_policy_makes_one_attempt(void **state) {
  struct fixture *f = *state;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NO_RETRY_POLICY);
  assert_null(sent_attempt_value(sent(f, 1), "weir-retry-owner"));
  unary_fini(&unary);
}

/* Each backoff runs from the end of the failed attempt. */
static void the_last_status_is_returned_after_max_attempts(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "first")},
              {AT_MS(110), EXPECT_SEND},
              {AT_MS(120), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "second")},
              {AT_MS(320), EXPECT_SEND},
              {AT_MS(330), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "third")},
              {AT_MS(730), EXPECT_SEND},
              {AT_MS(740), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "fourth")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_details_are(&unary, "fourth"));
  assert_int_equal(unary.done_at_ns, T0 + MS(740));
  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(report.reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  assert_int_equal(report.n_attempts, 4);
  assert_int_equal(report.attempts[2].started_after_ns, MS(320));
  assert_int_equal(report.attempts[2].duration_ns, MS(10));
  assert_int_equal(report.attempts[2].code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.total_ns, MS(740));
  unary_fini(&unary);
}

static void the_backoff_is_jittered_from_the_first_retry_on(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  seeded_random_init_constant(&f->random, 0);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(80), EXPECT_SEND}, {AT_MS(80), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(240), EXPECT_SEND}, {AT_MS(240), REPLY("bar")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

/* --- the peer's word --- */

struct pushback_row {
  const char *why;
  const char *value;
  int64_t second_at_ns;
  uint32_t n_attempts;
  enum weir_reason reason;
};

static const struct pushback_row pushback_rows[] = {
    {"zero: at once", "0", 0, 2, WEIR_REASON_NONE},
    {"a delay is exact, without jitter", "200", MS(200), 2, WEIR_REASON_NONE},
    {"negative: stop", "-1", 0, 1, WEIR_REASON_PUSHBACK},
    {"malformed, as the core renders it: stop", "-9223372036854775808", 0, 1, WEIR_REASON_PUSHBACK},
    {"malformed: stop", "abc", 0, 1, WEIR_REASON_PUSHBACK},
    {"empty: stop", "", 0, 1, WEIR_REASON_PUSHBACK},
    {"a fraction: stop", "1.5", 0, 1, WEIR_REASON_PUSHBACK},
    {"the largest delay does not fit before the deadline", "2147483647", 0, 1, WEIR_REASON_BUDGET},
    {"beyond 32 bits: stop", "2147483648", 0, 1, WEIR_REASON_PUSHBACK},
    {"beyond 32 bits: stop", "1000000000000", 0, 1, WEIR_REASON_PUSHBACK},
};

static void pushback_replaces_the_backoff_or_forbids_the_retry(void **state) {
  struct fixture *f = *state;
  seeded_random_init_constant(&f->random, 0); /* a jitter would be seen */
  fixture_open_raw(f);
  for (size_t i = 0; i < sizeof pushback_rows / sizeof pushback_rows[0]; i++) {
    const struct pushback_row *row = &pushback_rows[i];
    const struct script_step answer = {TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"),
                                       PUSHBACK(row->value)};
    if (row->n_attempts == 2) {
      play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, answer, {AT_NS(row->second_at_ns), EXPECT_SEND},
                     {AT_NS(row->second_at_ns), REPLY("bar")}));
    } else {
      play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, answer));
    }
    struct unary unary;
    unary_run(f, &unary);
    struct weir_call_report report = unary_report(&unary);
    if (report.n_attempts != row->n_attempts || report.reason != row->reason) {
      fail_msg("%s: %u attempts, %s", row->why, report.n_attempts, weir_reason_name(report.reason));
    }
    unary_fini(&unary);
  }
}

static void after_a_pushback_the_backoff_starts_over(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
              {AT_MS(100), EXPECT_SEND},
              {AT_MS(100), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, ""), PUSHBACK("300")},
              {AT_MS(400), EXPECT_SEND}, {AT_MS(400), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
              {AT_MS(500), EXPECT_SEND}, {AT_MS(500), REPLY("bar")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void pushback_does_not_go_beyond_max_attempts(void **state) {
  struct fixture *f = *state;
  f->method.retry.max_attempts = 2;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(1), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, ""), PUSHBACK("0")},
                 {AT_MS(1), EXPECT_SEND},
                 {AT_MS(2), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, ""), PUSHBACK("0")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  unary_fini(&unary);
}

static void pushback_does_not_make_a_code_retryable(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(1), TRAILERS_ONLY(GRPC_STATUS_INTERNAL, ""), PUSHBACK("10")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NOT_RETRYABLE);
  unary_fini(&unary);
}

static void pushback_in_initial_metadata_is_not_read(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), HEADERS_THEN(GRPC_STATUS_UNAVAILABLE, ""),
                                           WITH_INITIAL("grpc-retry-pushback-ms", "10")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_COMMITTED);
  unary_fini(&unary);
}

/* --- the throttle --- */

static void open_with_throttle(struct fixture *f, uint32_t max_tokens, uint32_t ratio_milli) {
  f->policy_options.throttle_max_tokens = max_tokens;
  f->policy_options.throttle_token_ratio_milli = ratio_milli;
  fixture_open_raw(f);
}

static void no_retry_while_the_throttle_is_at_half_or_below(void **state) {
  struct fixture *f = *state;
  open_with_throttle(f, 4, 500);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_run(f, &unary); /* 4 -> 3: allowed; 3 -> 2: not */

  assert_int_equal(f->transport.n_sent, 2);
  assert_int_equal(elapsed_ns(f), MS(100)); /* returned at once */
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_THROTTLED);
  unary_fini(&unary);
}

static void successes_refill_the_throttle(void **state) {
  struct fixture *f = *state;
  open_with_throttle(f, 4, 500);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1); /* 2 are left */
  scripted_transport_always(&f->transport, 0, answer_ok);
  run_calls(f, 4); /* 4 again */
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  f->transport.n_start_batches = 0;
  run_calls(f, 1);

  assert_int_equal(f->transport.n_start_batches, 2);
}

static void answers_that_are_not_retryable_cost_no_token(void **state) {
  struct fixture *f = *state;
  open_with_throttle(f, 4, 500);
  scripted_transport_always(&f->transport, 0, answer_not_found);
  run_calls(f, 20);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  f->transport.n_start_batches = 0;
  run_calls(f, 1);

  assert_int_equal(f->transport.n_start_batches, 2);
}

static void two_methods_share_the_throttle(void **state) {
  struct fixture *f = *state;
  open_with_throttle(f, 4, 500);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.method = OTHER_METHOD});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary_report(&unary).n_attempts, 1);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_THROTTLED);
  unary_fini(&unary);
}

static void a_committed_failure_costs_a_token(void **state) {
  struct fixture *f = *state;
  open_with_throttle(f, 4, 500);
  const struct wire_answer committed = {
      .what = WIRE_TRAILERS, .status = GRPC_STATUS_UNAVAILABLE, .text = ""};
  scripted_transport_always(&f->transport, 0, committed);
  run_calls(f, 2);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_THROTTLED);
  unary_fini(&unary);
}

static void two_channels_to_one_server_share_the_throttle(void **state) {
  struct fixture *f = *state;
  open_with_throttle(f, 4, 500);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);
  weir_channel *first = f->channel;
  f->channel = fixture_make_channel(f, "dns:///" FIXTURE_TARGET);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary_report(&unary).n_attempts, 1);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_THROTTLED);
  unary_fini(&unary);
  weir_channel_destroy(first);
}

/* --- the budget --- */

static void a_backoff_that_does_not_fit_ends_the_call_with_the_last_real_status(void **state) {
  struct fixture *f = *state;
  f->method.retry.initial_backoff_ns = SECONDS(1);
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(20), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "db down")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(300)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.done_at_ns, T0 + MS(20));
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_details_are(&unary, "db down"));
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_BUDGET);
  unary_fini(&unary);
}

/* The backoff of 100 ms and an attempt of 1 ms have to end before the deadline, not at it. */
static void a_retry_that_would_end_with_the_budget_does_not_fit(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(101)});
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_BUDGET);
  unary_fini(&unary);

  int64_t now_ns = f->clock.now_ns;
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), REPLY("bar")}));
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = now_ns + MS(101) + 1});
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void a_drainer_that_comes_late_makes_no_attempt_without_time(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(300)});
  unary_start(f, &unary);
  run_until(f, T0 + MS(1));
  fake_clock_advance_to(&f->clock, T0 + MS(400));
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_details_are(&unary, "busy"));
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_BUDGET);
  unary_fini(&unary);
}

/* --- what binds a call to an attempt --- */

struct commit_row {
  const char *why;
  struct wire_answer answer;
  bool retry_after_headers;
  bool is_retried;
};

static const struct commit_row commit_rows[] = {
    {"Trailers-Only", {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = ""}, false, true},
    {"headers, then trailers", {.what = WIRE_TRAILERS, .status = 14, .text = ""}, false, false},
    {"headers with an entry, then trailers",
     {.what = WIRE_TRAILERS, .status = 14, .text = "", .initial = {{"x", "y"}}},
     false,
     false},
    {"a message, then trailers",
     {.what = WIRE_MESSAGE_THEN, .status = 14, .text = "", .body = "bar"},
     false,
     false},
    {"lost before headers", {.what = WIRE_RESET, .status = 14, .text = ""}, false, true},
    {"no connection", {.what = WIRE_CONNECT_FAIL, .status = 14, .text = ""}, false, true},
    {"headers, where the policy lets them pass",
     {.what = WIRE_TRAILERS, .status = 14, .text = ""},
     true,
     true},
    {"a message, where the policy lets headers pass",
     {.what = WIRE_MESSAGE_THEN, .status = 14, .text = "", .body = "bar"},
     true,
     false},
};

static void check_commit_row(const struct commit_row *row) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  f->retry.retry_after_headers = row->retry_after_headers;
  fixture_open_raw(f);
  const struct script_step answer = {AT_MS(1), .answer = row->answer};
  if (row->is_retried) {
    play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, answer, {AT_MS(101), EXPECT_SEND},
                   {AT_MS(101), REPLY("bar")}));
  } else {
    play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, answer));
  }
  struct unary unary;
  unary_run(f, &unary);
  if ((unary_report(&unary).reason == WEIR_REASON_COMMITTED) == row->is_retried) {
    fail_msg("%s", row->why);
  }
  unary_fini(&unary);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void headers_or_a_message_commit_a_call(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof commit_rows / sizeof commit_rows[0]; i++) {
    check_commit_row(&commit_rows[i]);
  }
}

/* Where the core's signals can't be relied on, nothing tells Trailers-Only from headers. */
static void without_the_cores_signals_a_call_counts_as_committed(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  f->channel->environment->signals_trusted = false;
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(1), EXPECT_SEND}, {AT_MS(2), UNPROCESSED}));
  for (size_t i = 0; i < 2; i++) {
    struct unary unary;
    unary_init(f, &unary);
    unary_start(f, &unary);
    run_until_idle(f);
    assert_int_equal(unary_report(&unary).reason, WEIR_REASON_COMMITTED);
    unary_fini(&unary);
  }
}

static void a_connection_lost_after_headers_is_not_retried(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), HEADERS}, {AT_MS(2), RESET("Socket closed")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_TRANSPORT_RESET);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_COMMITTED);
  unary_fini(&unary);
}

/* --- the time of one attempt --- */

static void an_attempt_that_takes_too_long_is_followed_by_another(void **state) {
  struct fixture *f = *state;
  f->method.per_attempt_timeout_ns = MS(200);
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(300), EXPECT_SEND}, {AT_MS(400), REPLY("bar")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(5)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + MS(200));
  assert_int_equal(sent(f, 2)->deadline_at_ns, T0 + MS(500));
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-budget-us"), "200000");
  assert_int_equal(unary_report(&unary).attempts[0].code, GRPC_STATUS_DEADLINE_EXCEEDED);
  unary_fini(&unary);
}

static void the_last_attempt_is_cut_off_too(void **state) {
  struct fixture *f = *state;
  f->method.per_attempt_timeout_ns = MS(200);
  f->method.retry.max_attempts = 2;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(300), EXPECT_SEND}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(5)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(elapsed_ns(f), MS(500));
  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_ATTEMPT);
  assert_int_equal(report.reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  unary_fini(&unary);
}

static void the_calls_own_deadline_ends_it_where_that_is_nearer(void **state) {
  struct fixture *f = *state;
  f->method.per_attempt_timeout_ns = MS(200);
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(150)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_CALL);
  assert_int_equal(report.reason, WEIR_REASON_DEADLINE);
  unary_fini(&unary);
}

static void a_request_of_exactly_replay_bytes_is_tried_again(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 1000;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_set_request(f, &unary, 1000);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(sent(f, 2)->message_size, 1000);
  assert_memory_equal(sent(f, 1)->message, sent(f, 2)->message, 1000);
  unary_fini(&unary);
}

static void a_larger_request_is_sent_once_and_whole(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 1000;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_set_request(f, &unary, 1001);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(sent(f, 1)->message_size, 1001);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NOT_REPLAYABLE);
  assert_null(
      sent_attempt_value(sent(f, 1), "weir-retry-owner")); /* a layer further in may retry */
  unary_fini(&unary);
}

/* --- what no server has seen --- */

static void what_no_server_saw_is_sent_again_at_once_and_does_not_count(void **state) {
  struct fixture *f = *state;
  f->method.retry.max_attempts = 2;
  open_with_throttle(f, 4, 500);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), UNPROCESSED}, {AT_MS(5), EXPECT_SEND},
                 {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
                 {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_OK); /* neither an attempt nor a token was spent */
  assert_null(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"));
  assert_string_equal(sent_attempt_value(sent(f, 3), "grpc-previous-rpc-attempts"), "1");
  assert_int_equal(unary_report(&unary).n_attempts, 3);
  unary_fini(&unary);
}

static void it_is_sent_again_once_only(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), UNPROCESSED}, {AT_MS(5), EXPECT_SEND},
                 {AT_MS(10), UNPROCESSED}, {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void it_needs_no_retry_policy(void **state) {
  struct fixture *f = *state;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), UNPROCESSED}, {AT_MS(5), EXPECT_SEND},
                 {AT_MS(10), UNPROCESSED}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  unary_fini(&unary);
}

/* --- what the next hop is told --- */

static void attempts_are_numbered_from_the_second_on(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);

  assert_null(sent_attempt_value(sent(f, 1), "grpc-previous-rpc-attempts"));
  assert_string_equal(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"), "1");
  assert_string_equal(sent_attempt_value(sent(f, 3), "grpc-previous-rpc-attempts"), "2");
  assert_string_equal(sent_attempt_value(sent(f, 4), "grpc-previous-rpc-attempts"), "3");
}

static void headers_of_weirs_that_the_application_wrote_are_replaced(void **state) {
  struct fixture *f = *state;
  f->retry.owner = WEIR_RETRY_OWNER_ALWAYS; /* or the marker would be an outer layer's */
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_add_metadata(f, &unary, "before", "a");
  unary_add_metadata(f, &unary, "grpc-previous-rpc-attempts", "7");
  unary_add_metadata(f, &unary, "weir-budget-us", "1");
  unary_add_metadata(f, &unary, "weir-retry-owner", "somebody");
  unary_add_metadata(f, &unary, "after", "b");
  unary_start(f, &unary);
  run_until_idle(f);

  assert_null(sent_attempt_value(sent(f, 1), "grpc-previous-rpc-attempts"));
  assert_string_equal(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"), "1");
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-budget-us"), "10000000");
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "cart-policy");
  assert_string_equal(sent_attempt_value(sent(f, 2), "before"), "a");
  assert_string_equal(sent_attempt_value(sent(f, 2), "after"), "b");
  assert_int_equal(sent(f, 1)->n_metadata, 4);
  unary_fini(&unary);
}

static void the_applications_metadata_array_is_left_alone(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_add_metadata(f, &unary, "grpc-previous-rpc-attempts", "7");
  unary_add_metadata(f, &unary, "user", "anna");
  grpc_metadata before[UNARY_METADATA];
  memcpy(before, unary.metadata, sizeof before);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_memory_equal(before, unary.metadata, sizeof before);
  unary_fini(&unary);
}

static void more_metadata_than_fits_inline_is_sent_whole(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  for (size_t i = 0; i < 30; i++) {
    unary_add_metadata(f, &unary, "many", "v");
  }
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(sent(f, 1)->n_metadata, 32);
  assert_int_equal(sent(f, 2)->n_metadata, 33);
  unary_fini(&unary);
}

static void each_attempt_says_what_is_left_of_the_budget(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(40), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(140), EXPECT_SEND}, {AT_MS(150), REPLY("bar")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(2)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-budget-us"), "2000000");
  assert_string_equal(sent_attempt_value(sent(f, 2), "weir-budget-us"), "1860000");
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + SECONDS(2));
  assert_int_equal(sent(f, 2)->deadline_at_ns, T0 + SECONDS(2));
  unary_fini(&unary);
}

static void the_owner_of_the_retries_says_so_on_every_attempt(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);

  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "cart-policy");
  assert_string_equal(sent_attempt_value(sent(f, 4), "weir-retry-owner"), "cart-policy");
}

static void run_with_owner(struct fixture *f, struct unary *unary) {
  weir_inbound *inbound = fixture_inbound(f, 0, "front-door", NULL);
  unary_init_with(f, unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound); /* the call has a share of its own */
  unary_start(f, unary);
  run_until_idle(f);
}

static void a_layer_further_out_owns_the_retries(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  run_with_owner(f, &unary);

  assert_int_equal(f->transport.n_sent, 1);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NOT_OWNER);
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "front-door");
  unary_fini(&unary);
}

static void owner_always_retries_under_its_own_name(void **state) {
  struct fixture *f = *state;
  f->retry.owner = WEIR_RETRY_OWNER_ALWAYS;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  run_with_owner(f, &unary);

  assert_int_equal(f->transport.n_sent, 4);
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "cart-policy");
  unary_fini(&unary);
}

static void owner_never_makes_one_attempt(void **state) {
  struct fixture *f = *state;
  f->retry.owner = WEIR_RETRY_OWNER_NEVER;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(f->transport.n_sent, 1);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NOT_OWNER);
  assert_null(sent_attempt_value(sent(f, 1), "weir-retry-owner"));
  unary_fini(&unary);
}

static void a_marker_that_the_application_passes_on_by_hand_stays(void **state) {
  struct fixture *f = *state;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_add_metadata(f, &unary, "weir-retry-owner", "front-door");
  unary_start(f, &unary);
  run_until_idle(f);

  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "front-door");
  unary_fini(&unary);
}

static void each_attempt_goes_to_the_calls_host(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  weir_call_unref(unary.call);
  grpc_slice host = scripted_transport_slice(&f->transport, "eu.shop.internal", 16);
  unary.call =
      weir_channel_create_call(f->channel, NULL, 0, f->queue, grpc_slice_from_static_string(METHOD),
                               &host, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
  grpc_slice_unref(host);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_string_equal(sent(f, 1)->host, "eu.shop.internal");
  assert_string_equal(sent(f, 4)->host, "eu.shop.internal");
  assert_string_equal(sent(f, 4)->path, METHOD);
  unary_fini(&unary);
}

/* --- what is sent again --- */

static void a_request_in_many_slices_is_sent_again_whole(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  grpc_slice slices[5];
  for (size_t i = 0; i < 5; i++) {
    slices[i] = scripted_transport_slice(&f->transport, "0123456789abcdefghijklmnopqrstuvwxyz", 36);
  }
  grpc_byte_buffer_destroy(unary.request);
  unary.request = grpc_raw_compressed_byte_buffer_create(slices, 5, GRPC_COMPRESS_GZIP);
  for (size_t i = 0; i < 5; i++) {
    grpc_slice_unref(slices[i]);
  }
  unary.message_flags = GRPC_WRITE_NO_COMPRESS;
  unary_start(f, &unary);
  assert_int_equal(grpc_byte_buffer_length(unary.request), 0); /* as with the core */
  run_until_idle(f);

  assert_int_equal(sent(f, 4)->message_size, 180);
  assert_memory_equal(sent(f, 1)->message, sent(f, 4)->message, 180);
  assert_int_equal(sent(f, 4)->message_flags, GRPC_WRITE_NO_COMPRESS);
  assert_int_equal(sent(f, 4)->compression, GRPC_COMPRESS_GZIP);
  unary_fini(&unary);
}

static void wait_for_ready_comes_from_the_policy_unless_the_application_says(void **state) {
  struct fixture *f = *state;
  f->method.wait_for_ready = WEIR_WAIT_FOR_READY_TRUE;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  run_calls(f, 1);
  const uint32_t set = GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
  assert_int_equal(sent(f, 1)->metadata_flags, GRPC_INITIAL_METADATA_WAIT_FOR_READY | set);

  struct unary unary;
  unary_init(f, &unary);
  unary.metadata_flags = set;
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(sent(f, 2)->metadata_flags, set);
  unary_fini(&unary);
}

/* --- origin decides, not the code --- */

static void list_deadline_and_cancelled(struct fixture *f) {
  f->method.retry.retryable_codes =
      CODE_BIT(GRPC_STATUS_UNAVAILABLE) | CODE_BIT(GRPC_STATUS_CANCELLED) |
      CODE_BIT(GRPC_STATUS_DEADLINE_EXCEEDED) | CODE_BIT(GRPC_STATUS_RESOURCE_EXHAUSTED);
  fixture_open_raw(f);
}

static void the_peers_own_deadline_and_cancellation_are_retried_when_listed(void **state) {
  struct fixture *f = *state;
  list_deadline_and_cancelled(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_DEADLINE_EXCEEDED, "")},
              {AT_MS(100), EXPECT_SEND}, {AT_MS(100), TRAILERS_ONLY(GRPC_STATUS_CANCELLED, "")},
              {AT_MS(300), EXPECT_SEND},
              {AT_MS(300), .answer.what = WIRE_RESET,
               .answer.status = GRPC_STATUS_CANCELLED}, /* RST_STREAM(CANCEL) */
              {AT_MS(700), EXPECT_SEND}, {AT_MS(700), REPLY("bar")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void the_calls_own_deadline_is_never_retried(void **state) {
  struct fixture *f = *state;
  list_deadline_and_cancelled(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(50)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_DEADLINE);
  unary_fini(&unary);
}

static void the_peers_exhaustion_is_retried_and_the_cores_own_size_limit_is_not(void **state) {
  struct fixture *f = *state;
  list_deadline_and_cancelled(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_RESOURCE_EXHAUSTED, "quota")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), TOO_LARGE}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_LOCAL_LIMIT);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_LIMIT);
  unary_fini(&unary);
}

static void a_request_above_the_policys_limit_is_not_sent(void **state) {
  struct fixture *f = *state;
  f->method.max_request_bytes = 10;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_set_request(f, &unary, 10);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);

  unary_init(f, &unary);
  unary_set_request(f, &unary, 11);
  unary_start(f, &unary);
  assert_int_equal(unary.n_done, 0);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_LOCAL_LIMIT);
  assert_int_equal(unary_report(&unary).n_attempts, 0);
  unary_fini(&unary);
}

static void a_reply_above_the_policys_limit_is_dropped_and_not_asked_for_again(void **state) {
  struct fixture *f = *state;
  f->method.max_response_bytes = 3;
  list_deadline_and_cancelled(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("four")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_null(unary.reply);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_LIMIT);
  unary_fini(&unary);
}

static void an_empty_reply_is_a_reply(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_non_null(unary.reply);
  unary_fini(&unary);
}

/* --- what came back --- */

static void nothing_of_a_failed_attempt_is_left_in_the_reply(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "first"),
                  WITH_TRAILING("x-first", "1")},
                 {AT_MS(100), EXPECT_SEND},
                 {AT_MS(100), REPLY("bar"), WITH_INITIAL("x-initial", "2"),
                  WITH_TRAILING("x-second", "3")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.initial_metadata.count, 1);
  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_true(unary_can_see(&unary, "x-second"));
  assert_false(unary_can_see(&unary, "first"));
  assert_null(unary.error_string); /* left alone on OK, as the core does */
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_retryable_failure_is_tried_again),
      TEST(a_code_that_is_not_listed_is_not_tried_again),
      TEST(a_method_without_a_retry_policy_makes_one_attempt),
      TEST(the_last_status_is_returned_after_max_attempts),
      TEST(the_backoff_is_jittered_from_the_first_retry_on),
      TEST(pushback_replaces_the_backoff_or_forbids_the_retry),
      TEST(after_a_pushback_the_backoff_starts_over),
      TEST(pushback_does_not_go_beyond_max_attempts),
      TEST(pushback_does_not_make_a_code_retryable),
      TEST(pushback_in_initial_metadata_is_not_read),
      TEST(no_retry_while_the_throttle_is_at_half_or_below),
      TEST(successes_refill_the_throttle),
      TEST(answers_that_are_not_retryable_cost_no_token),
      TEST(two_methods_share_the_throttle),
      TEST(a_committed_failure_costs_a_token),
      TEST(two_channels_to_one_server_share_the_throttle),
      TEST(a_backoff_that_does_not_fit_ends_the_call_with_the_last_real_status),
      TEST(a_retry_that_would_end_with_the_budget_does_not_fit),
      TEST(a_drainer_that_comes_late_makes_no_attempt_without_time),
      cmocka_unit_test(headers_or_a_message_commit_a_call),
      TEST(without_the_cores_signals_a_call_counts_as_committed),
      TEST(a_connection_lost_after_headers_is_not_retried),
      TEST(an_attempt_that_takes_too_long_is_followed_by_another),
      TEST(the_last_attempt_is_cut_off_too),
      TEST(the_calls_own_deadline_ends_it_where_that_is_nearer),
      TEST(a_request_of_exactly_replay_bytes_is_tried_again),
      TEST(a_larger_request_is_sent_once_and_whole),
      TEST(what_no_server_saw_is_sent_again_at_once_and_does_not_count),
      TEST(it_is_sent_again_once_only),
      TEST(it_needs_no_retry_policy),
      TEST(attempts_are_numbered_from_the_second_on),
      TEST(headers_of_weirs_that_the_application_wrote_are_replaced),
      TEST(the_applications_metadata_array_is_left_alone),
      TEST(more_metadata_than_fits_inline_is_sent_whole),
      TEST(each_attempt_says_what_is_left_of_the_budget),
      TEST(the_owner_of_the_retries_says_so_on_every_attempt),
      TEST(a_layer_further_out_owns_the_retries),
      TEST(owner_always_retries_under_its_own_name),
      TEST(owner_never_makes_one_attempt),
      TEST(a_marker_that_the_application_passes_on_by_hand_stays),
      TEST(each_attempt_goes_to_the_calls_host),
      TEST(a_request_in_many_slices_is_sent_again_whole),
      TEST(wait_for_ready_comes_from_the_policy_unless_the_application_says),
      TEST(the_peers_own_deadline_and_cancellation_are_retried_when_listed),
      TEST(the_calls_own_deadline_is_never_retried),
      TEST(the_peers_exhaustion_is_retried_and_the_cores_own_size_limit_is_not),
      TEST(a_request_above_the_policys_limit_is_not_sent),
      TEST(a_reply_above_the_policys_limit_is_dropped_and_not_asked_for_again),
      TEST(an_empty_reply_is_a_reply),
      TEST(nothing_of_a_failed_attempt_is_left_in_the_reply),
  };
  return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
