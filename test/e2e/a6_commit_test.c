/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Calls in several batches that are not sent again, as gRFC A6 and the core's own tests of it have
 * them. */

static struct puppet_call *accept_only(struct stage *stage) {
  struct puppet_call *attempt = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(attempt), -1);
  return attempt;
}

/* Whether to retry is known before the application asks how the call ended; it is told then. */
static void a_status_that_is_not_listed_is_kept_until_it_is_asked_for(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("2"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL, RECV_METADATA));
  struct puppet_call *attempt = accept_only(stage);
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_INVALID_ARGUMENT, .trailer = "only"));
  assert_false(puppet_was_cancelled(attempt));
  assert_true(stage_await(stage, sends));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_MESSAGE, RECV_STATUS));

  assert_true(stage_await(stage, receives));
  assert_status(call, GRPC_STATUS_INVALID_ARGUMENT, "xyz");
  assert_true(batch_received(receives, NULL));
  assert_true(batched_call_has_trailer(call, "from", "only"));
  assert_report(call, 1, WEIR_REASON_NOT_RETRYABLE);
  assert_false(puppet_server_is_called(stage->server));
}

static void after_a_message_operations_pass_straight_through(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *first_reply = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  batched_call_say(call, "one");
  struct call_batch *first = batched_call_start(call, OPS(SEND_METADATA, SEND_MESSAGE));
  struct puppet_call *attempt = accept_only(stage);
  puppet_reads(attempt, "one");
  assert_true(stage_await(stage, first));
  puppet_send_headers(attempt, NULL, "");
  puppet_send_message(attempt, "reply one");
  assert_true(stage_await(stage, first_reply));
  assert_true(batch_received(first_reply, "reply one"));

  batched_call_say(call, "two");
  struct call_batch *second = batched_call_start(call, OPS(SEND_MESSAGE, SEND_CLOSE));
  puppet_reads(attempt, "two");
  assert_true(stage_await(stage, second));
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .body = "reply two"));
  assert_false(puppet_was_cancelled(attempt));
  struct call_batch *second_reply = batched_call_start(call, OPS(RECV_MESSAGE));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  assert_true(stage_await(stage, second_reply));
  assert_true(batch_received(second_reply, "reply two"));
  assert_true(stage_await(stage, status));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  assert_report(call, 1, WEIR_REASON_COMMITTED);
  assert_false(puppet_server_is_called(stage->server));
}

/* Reads what has come; the messages are not there twice. */
static void assert_receives(struct stage *stage, struct batched_call *call, const char *text) {
  struct call_batch *receives = batched_call_start(call, OPS(RECV_MESSAGE));
  assert_true(stage_await(stage, receives));
  assert_true(batch_received(receives, text));
}

static void run_stream_that_breaks(struct stage *stage) {
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *opens = batched_call_start(call, OPS(SEND_ALL, RECV_METADATA));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  struct puppet_call *attempt = accept_only(stage);
  puppet_send_message(attempt, "one");
  assert_true(stage_await(stage, opens));
  assert_receives(stage, call, "one");
  puppet_send_message(attempt, "two");
  assert_receives(stage, call, "two");
  struct call_batch *last = batched_call_start(call, OPS(RECV_MESSAGE));
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_ABORTED));
  assert_true(stage_await(stage, last));
  assert_true(batch_received(last, NULL));
  assert_true(stage_await(stage, status));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  assert_report(call, 1, WEIR_REASON_COMMITTED);
}

/* And the throttle counts the failure: two of four tokens are not more than half. */
static void a_stream_that_breaks_after_messages_is_not_made_again(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("\"retryThrottling\":{\"maxTokens\":4,\"tokenRatio\":1.0},", "3",
                                "0.005s"));
  run_stream_that_breaks(stage);
  assert_false(puppet_server_is_called(stage->server));

  struct batched_call *next = stage_call(stage, AMPLE);
  struct call_batch *unary = batched_call_start(next, OPS(SEND_ALL, RECV_ALL));
  puppet_end(accept_only(stage), ENDS(.code = GRPC_STATUS_ABORTED));
  assert_true(stage_await(stage, unary));
  assert_report(next, 1, WEIR_REASON_THROTTLED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(a_status_that_is_not_listed_is_kept_until_it_is_asked_for),
      STAGED(after_a_message_operations_pass_straight_through),
      STAGED(a_stream_that_breaks_after_messages_is_not_made_again),
  };
  return cmocka_run_group_tests_name("a6_commit", tests, start_core, stop_core);
}
