/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Retries of calls in one batch, as gRFC A6 and the core's own tests of it have them. The server
 * answers Trailers-Only where a test does not say otherwise. */

static struct call_batch *start_unary(struct stage *stage) {
  return batched_call_start(stage_call(stage, AMPLE), OPS(SEND_ALL, RECV_ALL));
}

/* Accepts an attempt and ends it; the client has not given it up. */
static void answer(struct stage *stage, int64_t previous_attempts, const struct puppet_end *end) {
  struct puppet_call *attempt = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(attempt), previous_attempts);
  puppet_end(attempt, end);
  assert_false(puppet_was_cancelled(attempt));
}

/* Waits for the end of the stage's call, after `n_attempts`, with `reason`. */
static void assert_ends(struct stage *stage, struct call_batch *unary, uint32_t n_attempts,
                        enum weir_reason reason) {
  assert_true(stage_await(stage, unary));
  assert_false(puppet_server_is_called(stage->server));
  assert_report(stage->calls[0], n_attempts, reason);
}

static void a_failed_attempt_is_followed_by_one_that_works(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED));
  struct puppet_call *second = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(second), 1);
  puppet_reads(second, "foo");
  puppet_end(second, ENDS(.code = GRPC_STATUS_OK, .body = "bar"));
  assert_false(puppet_was_cancelled(second));

  assert_ends(stage, unary, 2, WEIR_REASON_NONE);
  assert_status(stage->calls[0], GRPC_STATUS_OK, "xyz");
  assert_true(batch_received(unary, "bar"));
}

/* The core's switch is the channel argument grpc.enable_retries, which weir always gives it as 0;
 * what switches weir's own off is the policy. */
static void a_retry_policy_is_not_used_where_retries_are_off(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("\"retry\":{\"owner\":\"NEVER\"},", "2", "0.005s"));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED));

  assert_ends(stage, unary, 1, WEIR_REASON_NOT_OWNER);
  assert_status(stage->calls[0], GRPC_STATUS_ABORTED, "xyz");
}

static void a_request_that_can_not_be_kept_is_sent_once(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("\"retry\":{\"replayBytes\":2},", "2", "0.005s"));
  struct call_batch *unary = start_unary(stage); /* three bytes */
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED));

  assert_ends(stage, unary, 1, WEIR_REASON_NOT_REPLAYABLE);
  assert_status(stage->calls[0], GRPC_STATUS_ABORTED, "xyz");
}

static void a_status_that_is_not_listed_ends_the_call(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("2"));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_INVALID_ARGUMENT));

  assert_ends(stage, unary, 1, WEIR_REASON_NOT_RETRYABLE);
  assert_status(stage->calls[0], GRPC_STATUS_INVALID_ARGUMENT, "xyz");
}

static void response_headers_bind_the_call_to_its_attempt(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("2"));
  struct call_batch *unary = start_unary(stage);
  struct puppet_call *attempt = puppet_accept(stage->server);
  puppet_send_headers(attempt, "key", "value");
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_ABORTED));
  assert_false(puppet_was_cancelled(attempt));

  assert_ends(stage, unary, 1, WEIR_REASON_COMMITTED);
  assert_status(stage->calls[0], GRPC_STATUS_ABORTED, "xyz");
  assert_int_equal(stage->calls[0]->initial_metadata.count, 1);
}

static void a_response_message_binds_the_call_to_its_attempt(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("2"));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED, .body = "bar"));

  assert_ends(stage, unary, 1, WEIR_REASON_COMMITTED);
  assert_status(stage->calls[0], GRPC_STATUS_ABORTED, "xyz");
  assert_true(batch_received(unary, "bar"));
}

/* The backoff is one that no test waits for. */
static void the_servers_delay_takes_the_place_of_the_backoff(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("", "3", LONG_BACKOFF));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED, .text = "message1", .pushback = "200"));
  struct puppet_call *second = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(second), 1);
  puppet_reads(second, "foo");
  puppet_end(second, ENDS(.code = GRPC_STATUS_OK, .text = "message2"));

  assert_ends(stage, unary, 2, WEIR_REASON_NONE);
  assert_status(stage->calls[0], GRPC_STATUS_OK, "message2");
  struct weir_call_report report = batched_call_report(stage->calls[0]);
  assert_true(report.attempts[1].started_after_ns - report.attempts[0].started_after_ns >= MS(200));
}

static void the_server_may_forbid_the_next_attempt(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED));
  answer(stage, 1, ENDS(.code = GRPC_STATUS_ABORTED, .pushback = "-1"));

  assert_ends(stage, unary, 2, WEIR_REASON_PUSHBACK);
  assert_status(stage->calls[0], GRPC_STATUS_ABORTED, "xyz");
}

/* One failure leaves one token of two, and that is not more than half. */
static void a_throttle_at_half_allows_no_retry(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("\"retryThrottling\":{\"maxTokens\":2,\"tokenRatio\":1.0},", "2",
                                "0.005s"));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED));

  assert_ends(stage, unary, 1, WEIR_REASON_THROTTLED);
  assert_status(stage->calls[0], GRPC_STATUS_ABORTED, "xyz");
}

static void the_last_of_the_attempts_gives_its_status_to_the_call(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("2"));
  struct call_batch *unary = start_unary(stage);
  answer(stage, -1, ENDS(.code = GRPC_STATUS_ABORTED, .text = "first"));
  answer(stage, 1, ENDS(.code = GRPC_STATUS_ABORTED));

  assert_ends(stage, unary, 2, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  assert_status(stage->calls[0], GRPC_STATUS_ABORTED, "xyz");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(a_failed_attempt_is_followed_by_one_that_works),
      STAGED(a_retry_policy_is_not_used_where_retries_are_off),
      STAGED(a_request_that_can_not_be_kept_is_sent_once),
      STAGED(a_status_that_is_not_listed_ends_the_call),
      STAGED(response_headers_bind_the_call_to_its_attempt),
      STAGED(a_response_message_binds_the_call_to_its_attempt),
      STAGED(the_servers_delay_takes_the_place_of_the_backoff),
      STAGED(the_server_may_forbid_the_next_attempt),
      STAGED(a_throttle_at_half_allows_no_retry),
      STAGED(the_last_of_the_attempts_gives_its_status_to_the_call),
  };
  return cmocka_run_group_tests_name("a6_one_batch", tests, start_core, stop_core);
}
