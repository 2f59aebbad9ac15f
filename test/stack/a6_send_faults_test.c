/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/stack/batches.h"

/* Attempts that fail below the retries, before anything of them is on the wire, as the core's own
 * tests have them. */

static void check_previous_attempts(const struct fixture *f, size_t nth, const char *text) {
  const char *value = sent_attempt_value(sent(f, nth), "grpc-previous-rpc-attempts");
  if (text == NULL) {
    assert_null(value);
  } else {
    assert_non_null(value);
    assert_string_equal(value, text);
  }
}

/* --- sends that fail are held back --- */

/* Each of the sends is a batch of its own, under way at once. */
struct four_batches {
  struct batched_call *call;
  struct call_batch *sends[3];
  struct call_batch *receives;
};

static struct four_batches start_four(struct batched_call *call) {
  struct four_batches four = {.call = call};
  four.sends[0] = batched_call_start(call, OPS(SEND_METADATA));
  four.sends[1] = batched_call_start(call, OPS(SEND_MESSAGE));
  four.sends[2] = batched_call_start(call, OPS(SEND_CLOSE));
  four.receives = batched_call_start(call, OPS(RECV_MESSAGE, RECV_METADATA, RECV_STATUS));
  return four;
}

static void check_four(const struct four_batches *four, bool sends_succeed) {
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(four->sends[i]->tag.n_came, 1);
    assert_int_equal(four->sends[i]->tag.success, sends_succeed);
  }
  assert_true(batch_is_success(four->receives));
}

static void sends_that_failed_are_told_so_when_the_call_is_cancelled(void **state) {
  struct fixture *f = *state;
  f->method.retry.initial_backoff_ns = SECONDS(5);
  f->method.retry.max_backoff_ns = SECONDS(5);
  open_retrying(f, GRPC_STATUS_ABORTED, 2);
  play(f, SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(5), NOT_SENT(GRPC_STATUS_ABORTED, "no")}));
  struct four_batches four = start_four(batches_new_until(f, T0 + SECONDS(30)));
  drain_until(f, T0 + SECONDS(1));
  for (size_t i = 0; i < 3; i++) {
    assert_true(four.sends[i]->tag.is_out);
  }
  assert_int_equal(weir_call_cancel(four.call->call, NULL), GRPC_CALL_OK);
  drain(f);

  check_four(&four, false);
  assert_int_equal(four.call->status, GRPC_STATUS_CANCELLED);
  assert_int_equal(f->clock.now_ns, T0 + SECONDS(1));
  assert_int_equal(f->transport.n_sent, 1);
  assert_report(four.call, 1, WEIR_REASON_CANCELLED);
  batched_call_release(four.call);
}

/* The core waits for the deadline, and answers DEADLINE_EXCEEDED. weir begins no backoff that the
 * deadline would cut short: the call ends at once with the last real status. */
static void sends_that_failed_are_told_so_when_no_backoff_fits(void **state) {
  struct fixture *f = *state;
  f->method.retry.initial_backoff_ns = SECONDS(5);
  f->method.retry.max_backoff_ns = SECONDS(5);
  open_retrying(f, GRPC_STATUS_ABORTED, 2);
  play(f, SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(5), NOT_SENT(GRPC_STATUS_ABORTED, "no")}));
  struct four_batches four = start_four(batches_new_until(f, T0 + SECONDS(3)));
  drain(f);

  check_four(&four, false);
  assert_status(four.call, GRPC_STATUS_ABORTED, "no");
  assert_int_equal(f->clock.now_ns, T0 + MS(5));
  assert_report(four.call, 1, WEIR_REASON_BUDGET);
  batched_call_release(four.call);
}

static void three_pending_sends_complete_from_the_attempt_that_works(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_ABORTED, 2);
  play(f, SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(5), NOT_SENT(GRPC_STATUS_ABORTED, "no")},
                 {AT_MS(105), EXPECT_CONNECTING}, {AT_MS(110), CONNECTED},
                 {AT_MS(120), REPLY("bar")}));
  struct four_batches four = start_four(batches_new(f));
  drain_until(f, T0 + MS(107));
  assert_true(four.sends[0]->tag.is_out);
  drain(f);

  check_four(&four, true);
  assert_status(four.call, GRPC_STATUS_OK, "");
  assert_true(batch_received(four.receives, "bar"));
  assert_int_equal(sent(f, 2)->n_messages, 1);
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_true(sent(f, 2)->half_closed);
  batched_call_release(four.call);
}

static void a_send_that_fails_is_a_success_of_the_next_attempt(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_ABORTED, 2);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(0), NOT_SENT(GRPC_STATUS_ABORTED, "no")},
              {AT_MS(100), EXPECT_SEND}, {AT_MS(110), TRAILERS_ONLY(GRPC_STATUS_ABORTED, "xyz")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives =
      batched_call_start(call, OPS(RECV_MESSAGE, RECV_METADATA, RECV_STATUS));
  drain_until(f, T0 + MS(50));
  assert_true(sends->tag.is_out && receives->tag.is_out);
  drain(f);

  assert_true(batch_is_success(sends));
  assert_true(batch_is_success(receives));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  check_previous_attempts(f, 1, NULL);
  check_previous_attempts(f, 2, "1");
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_report(call, 2, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  batched_call_release(call);
}

/* The application asks how the call ended only when it hears that the send failed; the engine has
 * asked before, or there would be no second attempt. */
static void a_send_that_fails_is_retried_before_anybody_asks_for_the_status(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 2);
  play(f, SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(5), CONNECT_FAIL("LB pick failed")},
                 {AT_MS(105), EXPECT_CONNECTING}, {AT_MS(110), CONNECT_FAIL("LB pick failed")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *opens = batched_call_start(call, OPS(SEND_METADATA));
  drain_until(f, T0 + MS(50));
  assert_true(opens->tag.is_out);
  drain(f);
  assert_true(batch_is_failure(opens));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  drain(f);

  assert_true(batch_is_success(status));
  assert_status(call, GRPC_STATUS_UNAVAILABLE, "LB pick failed");
  assert_int_equal(f->clock.now_ns, T0 + MS(110));
  assert_report(call, 2, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  batched_call_release(call);
}

/* The core never retries what its load balancing drops. That a pick was dropped is not told at its
 * surface, though: a drop looks like a connection that could not be made, and is retried as one. */
static void a_dropped_pick_looks_like_no_connection(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 2);
  static const char text[] = "Call dropped by drop LB policy";
  play(f, SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(0), CONNECT_FAIL(text)},
                 {AT_MS(100), EXPECT_CONNECTING}, {AT_MS(100), CONNECT_FAIL(text)}));
  struct batched_call *call = batches_new(f);
  struct call_batch *unary = batched_call_start(call, OPS(SEND_ALL, RECV_ALL));
  drain(f);

  assert_true(batch_is_success(unary));
  assert_status(call, GRPC_STATUS_UNAVAILABLE, text);
  assert_int_equal(batched_call_report(call).origin, WEIR_ORIGIN_TRANSPORT_CONNECT);
  assert_report(call, 2, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  batched_call_release(call);
}

/* --- what is received is asked for once an attempt --- */

/* The scripted core fails a test that asks twice at once. */
static void a_receive_that_was_held_back_is_asked_for_once_more(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_ABORTED, 2);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(0), NOT_SENT(GRPC_STATUS_ABORTED, "no")},
              {AT_MS(100), EXPECT_SEND}, {AT_MS(110), TRAILERS_ONLY(GRPC_STATUS_ABORTED, "xyz")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *opens = batched_call_start(call, OPS(SEND_METADATA, RECV_METADATA));
  struct call_batch *message = batched_call_start(call, OPS(RECV_MESSAGE));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  drain_until(f, T0 + MS(50));
  assert_true(opens->tag.is_out && message->tag.is_out && status->tag.is_out);
  drain(f);

  assert_true(batch_is_success(opens));
  assert_true(batch_is_success(message));
  assert_true(batch_received(message, NULL));
  assert_true(batch_is_success(status));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  assert_report(call, 2, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  batched_call_release(call);
}

static void what_a_batch_has_sent_is_not_sent_again_while_it_receives(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_ABORTED, 3);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_PERMISSION_DENIED, "xyz")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *opens = batched_call_start(call, OPS(SEND_METADATA, RECV_METADATA));
  struct call_batch *sends = batched_call_start(call, OPS(SEND_MESSAGE, RECV_STATUS));
  drain_until(f, T0 + MS(5));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_MESSAGE));
  drain(f);

  assert_true(batch_is_success(opens));
  assert_true(batch_is_success(sends));
  assert_true(batch_is_success(receives));
  assert_int_equal(sent(f, 1)->n_messages, 1);
  assert_status(call, GRPC_STATUS_PERMISSION_DENIED, "xyz");
  assert_report(call, 1, WEIR_REASON_NOT_RETRYABLE);
  batched_call_release(call);
}

/* --- whose status it is --- */

/* The server said ABORTED, which would be retried. What is below has made another status of it: the
 * answer is judged as it comes out of the core. */
static void a_status_is_judged_as_the_core_gives_it(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_ABORTED, 2);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_INVALID_ARGUMENT, "injected error")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *first = batched_call_start(call, OPS(SEND_ALL, RECV_MESSAGE, RECV_METADATA));
  drain(f);
  assert_true(batch_is_success(first));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  drain(f);

  assert_true(batch_is_success(status));
  assert_status(call, GRPC_STATUS_INVALID_ARGUMENT, "injected error");
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  assert_report(call, 1, WEIR_REASON_NOT_RETRYABLE);
  batched_call_release(call);
}

/* And what the layers above make of a status for the caller does not change what is retried. */
static void a_status_is_judged_before_it_is_translated(void **state) {
  struct fixture *f = *state;
  f->method.retry.retryable_codes = CODE_BIT(GRPC_STATUS_INVALID_ARGUMENT);
  f->method.retry.max_attempts = 2;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_INVALID_ARGUMENT, "one")},
                 {AT_MS(110), EXPECT_SEND},
                 {AT_MS(120), TRAILERS_ONLY(GRPC_STATUS_INVALID_ARGUMENT, "two")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_ALL, RECV_MESSAGE, RECV_METADATA));
  (void)batched_call_start(call, OPS(RECV_STATUS));
  drain(f);

  assert_int_equal(call->status, GRPC_STATUS_INTERNAL);
  assert_int_equal(batched_call_report(call).raw_code, GRPC_STATUS_INVALID_ARGUMENT);
  assert_report(call, 2, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  batched_call_release(call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(sends_that_failed_are_told_so_when_the_call_is_cancelled),
      TEST(sends_that_failed_are_told_so_when_no_backoff_fits),
      TEST(three_pending_sends_complete_from_the_attempt_that_works),
      TEST(a_send_that_fails_is_a_success_of_the_next_attempt),
      TEST(a_send_that_fails_is_retried_before_anybody_asks_for_the_status),
      TEST(a_dropped_pick_looks_like_no_connection),
      TEST(a_receive_that_was_held_back_is_asked_for_once_more),
      TEST(what_a_batch_has_sent_is_not_sent_again_while_it_receives),
      TEST(a_status_is_judged_as_the_core_gives_it),
      TEST(a_status_is_judged_before_it_is_translated),
  };
  return cmocka_run_group_tests_name("a6_send_faults", tests, NULL, NULL);
}
