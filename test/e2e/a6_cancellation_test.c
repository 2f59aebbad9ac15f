/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Calls that are cancelled, run out of time or are let go while they are retried, as gRFC A6 and
 * the core's own tests of it have them. */

static struct batched_call *start_unary(struct stage *stage, int64_t timeout_ns) {
  struct batched_call *call = stage_call(stage, timeout_ns);
  (void)batched_call_start(call, OPS(SEND_ALL, RECV_ALL));
  return call;
}

/* Accepts the first attempt, and fails it; the client has not given it up. */
static void fail_first(struct stage *stage) {
  struct puppet_call *first = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(first), -1);
  puppet_end(first, ENDS(.code = GRPC_STATUS_ABORTED));
  assert_false(puppet_was_cancelled(first));
}

/* --- in the backoff --- */

static void a_cancellation_does_not_wait_for_the_backoff(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("", "3", LONG_BACKOFF));
  struct batched_call *call = start_unary(stage, AMPLE);
  fail_first(stage);
  stage_await_backoff(stage, 1);
  assert_false(batched_call_is_idle(call));
  assert_int_equal(weir_call_cancel(call->call, NULL), GRPC_CALL_OK);

  assert_true(stage_await(stage, &call->batches[0]));
  assert_int_equal(call->status, GRPC_STATUS_CANCELLED);
  assert_int_equal(batched_call_report(call).n_attempts, 1);
  assert_int_equal(batched_call_report(call).origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_false(puppet_server_is_called(stage->server));
}

/* The core waits for the deadline here, and answers DEADLINE_EXCEEDED. weir begins no backoff that
 * the deadline would cut short: waiting can't help, so the caller gets the last real status at
 * once. */
static void a_backoff_that_outlasts_the_deadline_is_not_begun(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("", "3", LONG_BACKOFF));
  struct batched_call *call = start_unary(stage, SECONDS(10)); /* half of the backoff */
  fail_first(stage);

  assert_true(stage_await(stage, &call->batches[0]));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  struct weir_call_report report = batched_call_report(call);
  assert_int_equal(report.n_attempts, 1);
  assert_int_equal(report.reason, WEIR_REASON_BUDGET);
  assert_true(report.total_ns < SECONDS(10));
  assert_false(puppet_server_is_called(stage->server));
}

/* A call in several batches that waits for its second attempt. */
struct waiting {
  struct batched_call *call;
  struct call_batch *message;
  struct call_batch *status;
};

static struct waiting start_waiting(struct stage *stage) {
  stage_open(stage, POLICY_WITH("", "3", LONG_BACKOFF));
  struct waiting waiting = {.call = stage_call(stage, AMPLE)};
  struct call_batch *sends = batched_call_start(waiting.call, OPS(SEND_ALL));
  waiting.message = batched_call_start(waiting.call, OPS(RECV_METADATA, RECV_MESSAGE));
  waiting.status = batched_call_start(waiting.call, OPS(RECV_STATUS));
  assert_true(stage_await(stage, sends)); /* or it may be held back with the rest */
  fail_first(stage);
  stage_await_backoff(stage, 1);
  assert_true(waiting.message->tag.is_out && waiting.status->tag.is_out);
  return waiting;
}

static void a_cancellation_in_the_backoff_ends_every_batch(void **state) {
  struct stage *stage = *state;
  struct waiting waiting = start_waiting(stage);
  weir_call_cancel_with_status(waiting.call->call, GRPC_STATUS_FAILED_PRECONDITION, "x", NULL);

  assert_false(stage_await(stage, waiting.message));
  assert_true(stage_await(stage, waiting.status));
  assert_status(waiting.call, GRPC_STATUS_FAILED_PRECONDITION, "x");
  assert_report(waiting.call, 1, WEIR_REASON_CANCELLED);
  assert_false(puppet_server_is_called(stage->server));
}

static void a_shutdown_in_the_backoff_ends_every_batch_with_the_last_status(void **state) {
  struct stage *stage = *state;
  struct waiting waiting = start_waiting(stage);
  stage_close_server(stage); /* its tags would keep the queue open */
  weir_channel_destroy(stage->channel);
  stage->channel = NULL;
  weir_completion_queue_shutdown(stage->queue);

  assert_true(stage_await(stage, waiting.message));
  assert_true(batch_received(waiting.message, NULL));
  assert_true(stage_await(stage, waiting.status));
  assert_status(waiting.call, GRPC_STATUS_ABORTED, "xyz");
  assert_report(waiting.call, 1, WEIR_REASON_SHUTDOWN);
  assert_null(next_tag(stage->queue));
}

/* --- in a later attempt --- */

static struct puppet_call *accept_second(struct stage *stage) {
  struct puppet_call *second = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(second), 1);
  puppet_watch(second);
  puppet_reads(second, "foo");
  return second;
}

static void a_cancellation_reaches_the_attempt_that_is_under_way(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("5"));
  struct batched_call *call = start_unary(stage, AMPLE);
  fail_first(stage);
  struct puppet_call *second = accept_second(stage);
  assert_int_equal(weir_call_cancel(call->call, NULL), GRPC_CALL_OK);

  assert_true(stage_await(stage, &call->batches[0]));
  assert_int_equal(call->status, GRPC_STATUS_CANCELLED);
  assert_true(puppet_was_cancelled(second));
  assert_int_equal(batched_call_report(call).n_attempts, 2);
  assert_int_equal(batched_call_report(call).reason, WEIR_REASON_CANCELLED);
}

static void the_deadline_ends_the_attempt_that_is_under_way(void **state) {
  struct stage *stage = *state;
  stage_open(stage, "{" NO_BOUNDARY "," NO_BREAKER
                    "," METHODS("\"timeout\":\"10s\"," RETRY("5", "0.005s", ABORTED)) "}");
  struct batched_call *call = start_unary(stage, SECONDS(2));
  fail_first(stage);
  struct puppet_call *second = accept_second(stage);

  assert_true(stage_await(stage, &call->batches[0]));
  assert_int_equal(call->status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_true(puppet_was_cancelled(second));
  struct weir_call_report report = batched_call_report(call);
  assert_int_equal(report.n_attempts, 2);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_CALL);
}

/* --- let go --- */

/* The message is too large for a slice's own memory: it would be missed. */
static void a_call_let_go_as_it_starts_gives_all_its_tags_back(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  batched_call_say_bytes(call, 1000);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  batched_call_let_go(call);

  (void)stage_await(stage, sends); /* how far it got is a matter of time */
  (void)stage_await(stage, receives);
  assert_true(stage_await(stage, status));
  assert_int_equal(call->status, GRPC_STATUS_CANCELLED);
}

static void a_call_let_go_after_its_end_needs_no_status(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  struct puppet_call *attempt = puppet_accept(stage->server);
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_FAILED_PRECONDITION));
  assert_false(puppet_was_cancelled(attempt));
  assert_true(stage_await(stage, sends));
  assert_true(stage_await(stage, receives)); /* as in any call that ends without an answer */
  assert_true(batch_received(receives, NULL));
  batched_call_let_go(call);
  assert_false(puppet_server_is_called(stage->server));
}

static void what_is_awaited_of_a_call_let_go_fails(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  struct puppet_call *attempt = puppet_accept(stage->server);
  assert_true(stage_await(stage, sends));
  batched_call_let_go(call);

  assert_false(stage_await(stage, receives));
  assert_true(batch_received(receives, NULL));
  /* whether it has heard of that yet is a matter of time */
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_FAILED_PRECONDITION));
  assert_false(puppet_server_is_called(stage->server));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(a_cancellation_does_not_wait_for_the_backoff),
      STAGED(a_backoff_that_outlasts_the_deadline_is_not_begun),
      STAGED(a_cancellation_in_the_backoff_ends_every_batch),
      STAGED(a_shutdown_in_the_backoff_ends_every_batch_with_the_last_status),
      STAGED(a_cancellation_reaches_the_attempt_that_is_under_way),
      STAGED(the_deadline_ends_the_attempt_that_is_under_way),
      STAGED(a_call_let_go_as_it_starts_gives_all_its_tags_back),
      STAGED(a_call_let_go_after_its_end_needs_no_status),
      STAGED(what_is_awaited_of_a_call_let_go_fails),
  };
  return cmocka_run_group_tests_name("a6_cancellation", tests, start_core, stop_core);
}
