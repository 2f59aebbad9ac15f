/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/stack/batches.h"

/* Attempts of calls in several batches whose time is limited: 100 ms each, and 100 ms between
 * them. */

#define MAX_ATTEMPTS 3
#define CUT_OFF "the time of the attempt is up"

static void open_limited(struct fixture *f) {
  f->method.per_attempt_timeout_ns = MS(100);
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, MAX_ATTEMPTS);
}

/* A call whose batches are one operation each, but for what it sends. */
struct stream {
  struct batched_call *call;
  struct call_batch *sends;
  struct call_batch *metadata;
  struct call_batch *message;
  struct call_batch *status;
};

static struct stream start_call(struct batched_call *call) {
  return (struct stream){
      .call = call,
      .sends = batched_call_start(call, OPS(SEND_ALL)),
      .metadata = batched_call_start(call, OPS(RECV_METADATA)),
      .message = batched_call_start(call, OPS(RECV_MESSAGE)),
      .status = batched_call_start(call, OPS(RECV_STATUS)),
  };
}

static struct stream start_stream(struct fixture *f) {
  return start_call(batches_new(f));
}

static void assert_cut_off(const struct fixture *f, size_t nth, int64_t at_ns) {
  assert_true(sent(f, nth)->cancelled);
  assert_int_equal(sent(f, nth)->cancel_code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(sent(f, nth)->ended_at_ns, T0 + at_ns);
}

static void assert_ended_by_attempt(const struct batched_call *call, uint32_t n_attempts,
                                    enum weir_reason reason) {
  assert_status(call, GRPC_STATUS_DEADLINE_EXCEEDED, CUT_OFF);
  assert_report(call, n_attempts, reason);
  assert_int_equal(batched_call_report(call).origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(batched_call_report(call).deadline_bound, WEIR_DEADLINE_BOUND_ATTEMPT);
}

/* --- an attempt that nothing comes of --- */

/* Whatever codes are listed: this process said so and no peer. */
static void a_silent_attempt_is_cut_off_and_followed_by_another(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(200), EXPECT_SEND}, {AT_MS(290), REPLY("bar")}));
  struct stream stream = start_stream(f);
  drain(f);

  assert_cut_off(f, 1, MS(100));
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_string_equal(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"), "1");
  assert_status(stream.call, GRPC_STATUS_OK, "");
  assert_true(batch_received(stream.message, "bar"));
  assert_true(batch_is_success(stream.sends) && batch_is_success(stream.metadata));
  struct weir_call_report report = batched_call_report(stream.call);
  assert_int_equal(report.n_attempts, 2);
  assert_int_equal(report.attempts[0].code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(report.attempts[0].origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(report.attempts_ns, MS(190));
  assert_int_equal(report.backoff_ns, MS(100));
  batched_call_release(stream.call);
}

static void every_attempt_has_its_time_and_the_last_ends_the_call(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(200), EXPECT_SEND}, {AT_MS(400), EXPECT_SEND}));
  struct stream stream = start_stream(f);
  drain(f);

  assert_cut_off(f, 1, MS(100));
  assert_cut_off(f, 2, MS(300));
  assert_cut_off(f, 3, MS(500));
  assert_int_equal(elapsed_ns(f), MS(500));
  assert_ended_by_attempt(stream.call, 3, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  assert_true(batch_received(stream.message, NULL));
  batched_call_release(stream.call);
}

/* What the peer is told is the call's time: an attempt that it answers may have all of it. */
static void the_attempt_bounds_neither_budget_nor_the_cores_deadline(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(200), EXPECT_SEND}, {AT_MS(210), REPLY("bar")}));
  struct stream stream = start_call(batches_new_until(f, T0 + SECONDS(3)));
  drain(f);

  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + SECONDS(3));
  assert_int_equal(sent(f, 2)->deadline_at_ns, T0 + SECONDS(3));
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-budget-us"), "3000000");
  assert_string_equal(sent_attempt_value(sent(f, 2), "weir-budget-us"), "2800000");
  batched_call_release(stream.call);
}

static void a_call_with_less_time_ends_by_its_own_deadline(void **state) {
  static const int64_t deadlines_ns[] = {MS(70), MS(100)};
  struct fixture *f = *state;
  open_limited(f);
  for (size_t i = 0; i < sizeof deadlines_ns / sizeof deadlines_ns[0]; i++) {
    int64_t began_at_ns = f->clock.now_ns;
    struct stream stream = start_call(batches_new_until(f, began_at_ns + deadlines_ns[i]));
    drain(f);
    assert_int_equal(f->clock.now_ns, began_at_ns + deadlines_ns[i]);
    assert_false(sent(f, i + 1)->cancelled);
    assert_report(stream.call, 1, WEIR_REASON_DEADLINE);
    assert_int_equal(batched_call_report(stream.call).deadline_bound, WEIR_DEADLINE_BOUND_CALL);
    batched_call_release(stream.call);
  }
}

static void a_retry_that_does_not_fit_leaves_the_attempts_end(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct stream stream = start_call(batches_new_until(f, T0 + MS(150)));
  drain(f);

  assert_int_equal(elapsed_ns(f), MS(100));
  assert_ended_by_attempt(stream.call, 1, WEIR_REASON_BUDGET);
  batched_call_release(stream.call);
}

static void an_attempt_that_was_cut_off_takes_a_token(void **state) {
  struct fixture *f = *state;
  f->policy_options.throttle_max_tokens = 3;
  f->policy_options.throttle_token_ratio_milli = 1;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(200), EXPECT_SEND}));
  struct stream stream = start_stream(f);
  drain(f);

  assert_ended_by_attempt(stream.call, 2, WEIR_REASON_THROTTLED); /* of 3 tokens 1 is left */
  batched_call_release(stream.call);
}

/* The one attempt there can be. */
static void what_is_too_much_to_keep_is_bounded_too(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 4;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct batched_call *call = batches_new(f);
  batched_call_say(call, "more than 4 bytes");
  struct stream stream = start_call(call);
  drain(f);

  assert_cut_off(f, 1, MS(100));
  assert_ended_by_attempt(stream.call, 1, WEIR_REASON_NOT_REPLAYABLE);
  batched_call_release(stream.call);
}

static void what_is_too_much_to_keep_is_free_once_it_is_answered(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 4;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(99), HEADERS}, {AT_MS(5000), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  batched_call_say(call, "more than 4 bytes");
  struct call_batch *metadata = batched_call_start(call, OPS(RECV_METADATA));
  batched_call_start(call, OPS(SEND_ALL));
  batched_call_start(call, OPS(RECV_STATUS));
  drain_until(f, T0 + MS(99));
  assert_true(batch_is_success(metadata));
  struct call_batch *message = batched_call_start(call, OPS(RECV_MESSAGE));
  drain(f);

  assert_status(call, GRPC_STATUS_OK, "");
  assert_true(batch_received(message, "bar"));
  assert_int_equal(elapsed_ns(f), MS(5000));
  batched_call_release(call);
}

static void a_method_without_retries_is_bounded_too(void **state) {
  struct fixture *f = *state;
  f->method.per_attempt_timeout_ns = MS(100);
  f->method.retry = (struct weir_retry_policy){.max_attempts = 1};
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct stream stream = start_stream(f);
  drain(f);

  assert_ended_by_attempt(stream.call, 1, WEIR_REASON_NO_RETRY_POLICY);
  batched_call_release(stream.call);
}

/* --- when its time begins --- */

static void an_attempts_time_begins_when_it_is_sent(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  struct batched_call *call = batches_new(f);
  batched_call_start(call, OPS(RECV_ALL));
  drain_until(f, T0 + MS(700));
  assert_int_equal(f->transport.n_created, 1);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(200), EXPECT_SEND}, {AT_MS(210), REPLY("bar")}));
  batched_call_start(call, OPS(SEND_ALL));
  drain(f);

  assert_cut_off(f, 1, MS(800));
  assert_status(call, GRPC_STATUS_OK, "");
  assert_report(call, 2, WEIR_REASON_NONE);
  batched_call_release(call);
}

/* As an application does that goes on sending while nothing comes. */
static void an_attempt_is_cut_off_whatever_the_application_asks_for(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(250), EXPECT_SEND}, {AT_MS(260), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_METADATA, SEND_MESSAGE));
  drain_until(f, T0 + MS(150)); /* nothing is owed, so nothing is retried */
  assert_true(batch_is_success(sends));
  assert_cut_off(f, 1, MS(100));
  struct call_batch *close = batched_call_start(call, OPS(SEND_CLOSE, RECV_ALL));
  drain(f);

  assert_true(batch_is_success(close));
  assert_true(batch_received(close, "bar"));
  assert_status(call, GRPC_STATUS_OK, "");
  batched_call_release(call);
}

/* --- an answer --- */

struct answer_row {
  const char *why;
  const enum batched_op *batches[4]; /* NULL: no more */
  struct script_step answer;
};

static const enum batched_op sends_all[] = {SEND_ALL, OPS_END};
static const enum batched_op recv_metadata[] = {RECV_METADATA, OPS_END};
static const enum batched_op recv_message[] = {RECV_MESSAGE, OPS_END};
static const enum batched_op recv_status[] = {RECV_STATUS, OPS_END};
static const enum batched_op recv_all[] = {RECV_ALL, OPS_END};
static const enum batched_op recv_metadata_message[] = {RECV_METADATA, RECV_MESSAGE, OPS_END};
static const enum batched_op sends_and_metadata[] = {SEND_ALL, RECV_METADATA, OPS_END};
static const enum batched_op all_but_close[] = {SEND_METADATA, SEND_MESSAGE, RECV_ALL, OPS_END};

static const struct answer_row answer_rows[] = {
    {"headers", {sends_all, recv_metadata, recv_message, recv_status}, {AT_MS(99), HEADERS}},
    {"headers, in the batch that sends",
     {sends_and_metadata, recv_message, recv_status},
     {AT_MS(99), HEADERS}},
    {"headers, with all that is received", {sends_all, recv_all}, {AT_MS(99), HEADERS}},
    {"headers, with a message",
     {sends_all, recv_metadata_message, recv_status},
     {AT_MS(99), HEADERS}},
    {"headers, in one batch that is no whole unary call", {all_but_close}, {AT_MS(99), HEADERS}},
    {"headers that nobody has asked for", {sends_all, recv_message}, {AT_MS(99), HEADERS}},
    {"headers, and nothing asked for", {sends_all}, {AT_MS(99), HEADERS}},
    {"a message",
     {sends_all, recv_metadata, recv_message, recv_status},
     {AT_MS(99), MESSAGE("bar")}},
    {"a message that nobody has asked for",
     {sends_all, recv_metadata, recv_status},
     {AT_MS(99), MESSAGE("bar")}},
};

static void check_answer_row(const struct answer_row *row) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  open_limited(f);
  play(f, (const struct script_step[]){{AT_MS(0), EXPECT_SEND}, row->answer, SCRIPT_END});
  struct batched_call *call = batches_new(f);
  for (size_t i = 0; i < 4 && row->batches[i] != NULL; i++) {
    batched_call_start(call, row->batches[i]);
  }
  drain_until(f, T0 + SECONDS(3600));
  if (sent(f, 1)->cancelled || f->transport.n_sent != 1) {
    fail_msg("%s: cut off after %lld ns", row->why, (long long)(sent(f, 1)->ended_at_ns - T0));
  }
  assert_int_equal(weir_call_cancel(call->call, NULL), GRPC_CALL_OK);
  drain(f);
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void a_stream_that_was_answered_is_never_cut_off(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof answer_rows / sizeof answer_rows[0]; i++) {
    check_answer_row(&answer_rows[i]);
  }
}

static void the_attempt_after_one_that_was_cut_off_is_as_free(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(200), EXPECT_SEND}, {AT_MS(299), HEADERS},
                 {AT_MS(9000), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  drain(f);

  assert_true(batch_is_success(sends));
  assert_true(batch_received(receives, "bar"));
  assert_status(call, GRPC_STATUS_OK, "");
  assert_int_equal(elapsed_ns(f), MS(9000));
  batched_call_release(call);
}

static void a_trailers_only_answer_is_the_peers(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(99), TRAILERS_ONLY(GRPC_STATUS_DEADLINE_EXCEEDED, "mine")}));
  struct stream stream = start_stream(f);
  drain(f);

  assert_status(stream.call, GRPC_STATUS_DEADLINE_EXCEEDED, "mine");
  assert_report(stream.call, 1, WEIR_REASON_NOT_RETRYABLE);
  assert_int_equal(batched_call_report(stream.call).origin, WEIR_ORIGIN_PEER);
  batched_call_release(stream.call);
}

/* --- who is first --- */

/* Nobody drains while its time runs out, and a little longer. */
static void a_status_of_the_peers_that_was_there_wins(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(98), TRAILERS_ONLY(GRPC_STATUS_ABORTED, "mine")}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(95));
  fake_clock_advance_to(&f->clock, T0 + MS(105));
  scripted_transport_happen(&f->transport);
  drain(f);

  assert_status(stream.call, GRPC_STATUS_ABORTED, "mine");
  assert_int_equal(batched_call_report(stream.call).origin, WEIR_ORIGIN_PEER);
  batched_call_release(stream.call);
}

/* They were in the queue when the attempt was cut off: nobody has seen them, nor will. */
static void headers_that_nobody_had_taken_do_not_bind(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(98), MESSAGE("too late"), WITH_INITIAL("x", "1")},
                 {AT_NS(MS(200) + 1), EXPECT_SEND}, {AT_MS(210), REPLY("bar")}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(95));
  fake_clock_advance_to(&f->clock, T0 + MS(100) + 1);
  scripted_transport_happen(&f->transport);
  drain(f);

  assert_cut_off(f, 1, MS(100) + 1);
  assert_status(stream.call, GRPC_STATUS_OK, "");
  assert_true(batch_received(stream.message, "bar"));
  assert_int_equal(stream.call->initial_metadata.count, 0);
  assert_report(stream.call, 2, WEIR_REASON_NONE);
  batched_call_release(stream.call);
}

/* Nobody drains for long: what has come meanwhile is looked at first. */
static void a_queue_that_is_drained_late_has_time_to_find_the_answer(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(98), HEADERS}, {AT_MS(5000), REPLY("bar")}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(50));
  fake_clock_advance_to(&f->clock, T0 + MS(3000));
  drain(f);

  assert_status(stream.call, GRPC_STATUS_OK, "");
  assert_false(sent(f, 1)->cancelled);
  assert_int_equal(elapsed_ns(f), MS(5000));
  batched_call_release(stream.call);
}

static void it_has_that_time_once(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(4100), EXPECT_SEND}, {AT_MS(4110), REPLY("bar")}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(50));
  fake_clock_advance_to(&f->clock, T0 + MS(3000));
  drain_until(f, T0 + MS(3005));
  assert_false(sent(f, 1)->cancelled);
  fake_clock_advance_to(&f->clock, T0 + MS(4000));
  drain(f);

  assert_cut_off(f, 1, MS(4000));
  assert_status(stream.call, GRPC_STATUS_OK, "");
  batched_call_release(stream.call);
}

static void a_queue_that_is_drained_late_cuts_a_silent_attempt_off_a_little_later(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(3110), EXPECT_SEND}, {AT_MS(3120), REPLY("bar")}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(50));
  fake_clock_advance_to(&f->clock, T0 + MS(3000));
  drain(f);

  assert_cut_off(f, 1, MS(3010));
  assert_status(stream.call, GRPC_STATUS_OK, "");
  batched_call_release(stream.call);
}

/* Its deadline has passed too, while nobody drained: the core has ended it. */
static void a_call_whose_time_is_up_is_not_cut_off(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct stream stream = start_call(batches_new_until(f, T0 + MS(103)));
  drain_until(f, T0 + MS(50));
  fake_clock_advance_to(&f->clock, T0 + MS(105));
  drain(f);

  assert_false(sent(f, 1)->cancelled);
  assert_report(stream.call, 1, WEIR_REASON_DEADLINE);
  assert_int_equal(batched_call_report(stream.call).deadline_bound, WEIR_DEADLINE_BOUND_CALL);
  batched_call_release(stream.call);
}

/* --- ends that are none of its --- */

static void a_cancelled_call_is_not_cut_off(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(60));
  assert_int_equal(weir_call_cancel(stream.call->call, NULL), GRPC_CALL_OK);
  drain_until(f, T0 + MS(400));

  assert_int_equal(sent(f, 1)->cancel_code, GRPC_STATUS_CANCELLED);
  assert_report(stream.call, 1, WEIR_REASON_CANCELLED);
  batched_call_release(stream.call);
}

static void a_call_cancelled_after_its_attempt_was_cut_off_is_cancelled(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(160)); /* in the backoff */
  assert_int_equal(weir_call_cancel(stream.call->call, NULL), GRPC_CALL_OK);
  drain(f);

  assert_status(stream.call, GRPC_STATUS_CANCELLED, "the call was cancelled");
  assert_report(stream.call, 1, WEIR_REASON_CANCELLED);
  batched_call_release(stream.call);
}

/* The timer has a share of the call, and nobody drains the queue any more. */
static void a_call_that_is_let_go_does_not_wait_for_its_timer(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct batched_call *call = batches_new(f);
  batched_call_start(call, OPS(SEND_ALL));
  drain_until(f, T0 + MS(10));
  batched_call_let_go(call);
  drain_until(f, T0 + MS(10));

  assert_true(sent(f, 1)->released);
  batched_call_release(call);
}

/* --- a queue that is shut down --- */

static void an_attempt_keeps_its_bound_and_is_not_followed_by_another(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct stream stream = start_stream(f);
  drain_until(f, T0 + MS(10));
  weir_completion_queue_shutdown(f->queue);
  drain(f);

  assert_int_equal(elapsed_ns(f), MS(100));
  assert_ended_by_attempt(stream.call, 1, WEIR_REASON_SHUTDOWN);
  batched_call_release(stream.call);
}

static void a_queue_that_owes_nothing_ends_before_the_timer(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct batched_call *call = batches_new(f);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_METADATA, SEND_MESSAGE));
  drain_until(f, T0 + MS(10));
  assert_true(batch_is_success(sends));
  fixture_close_queue(f);

  assert_int_equal(elapsed_ns(f), MS(10));
  batched_call_release(call); /* the last share */
  assert_true(sent(f, 1)->released);
}

static void a_stream_may_be_started_while_the_queue_is_being_shut_down(void **state) {
  struct fixture *f = *state;
  open_limited(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), EXPECT_SEND}));
  struct stream first = start_stream(f);
  weir_completion_queue_shutdown(f->queue);
  struct stream second = start_stream(f);
  drain(f);

  assert_int_equal(elapsed_ns(f), MS(100));
  assert_ended_by_attempt(first.call, 1, WEIR_REASON_SHUTDOWN);
  assert_ended_by_attempt(second.call, 1, WEIR_REASON_SHUTDOWN);
  batched_call_release(first.call);
  batched_call_release(second.call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_silent_attempt_is_cut_off_and_followed_by_another),
      TEST(every_attempt_has_its_time_and_the_last_ends_the_call),
      TEST(the_attempt_bounds_neither_budget_nor_the_cores_deadline),
      TEST(a_call_with_less_time_ends_by_its_own_deadline),
      TEST(a_retry_that_does_not_fit_leaves_the_attempts_end),
      TEST(an_attempt_that_was_cut_off_takes_a_token),
      TEST(what_is_too_much_to_keep_is_bounded_too),
      TEST(what_is_too_much_to_keep_is_free_once_it_is_answered),
      TEST(a_method_without_retries_is_bounded_too),
      TEST(an_attempts_time_begins_when_it_is_sent),
      TEST(an_attempt_is_cut_off_whatever_the_application_asks_for),
      cmocka_unit_test(a_stream_that_was_answered_is_never_cut_off),
      TEST(the_attempt_after_one_that_was_cut_off_is_as_free),
      TEST(a_trailers_only_answer_is_the_peers),
      TEST(a_status_of_the_peers_that_was_there_wins),
      TEST(headers_that_nobody_had_taken_do_not_bind),
      TEST(a_queue_that_is_drained_late_has_time_to_find_the_answer),
      TEST(it_has_that_time_once),
      TEST(a_queue_that_is_drained_late_cuts_a_silent_attempt_off_a_little_later),
      TEST(a_call_whose_time_is_up_is_not_cut_off),
      TEST(a_cancelled_call_is_not_cut_off),
      TEST(a_call_cancelled_after_its_attempt_was_cut_off_is_cancelled),
      TEST(a_call_that_is_let_go_does_not_wait_for_its_timer),
      TEST(an_attempt_keeps_its_bound_and_is_not_followed_by_another),
      TEST(a_queue_that_owes_nothing_ends_before_the_timer),
      TEST(a_stream_may_be_started_while_the_queue_is_being_shut_down),
  };
  return cmocka_run_group_tests_name("attempts of streams whose time is limited", tests, NULL,
                                     NULL);
}
