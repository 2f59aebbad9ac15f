/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Attempts whose time is limited, as the core's own tests have them. The core calls the field
 * perAttemptRecvTimeout, and an attempt's end CANCELLED; with weir it is what it is: a
 * DEADLINE_EXCEEDED that a bound of the attempt has caused. */

#define POLICY_ATTEMPT_TIMEOUT(attempts, timeout) \
  "{" NO_BOUNDARY "," NO_BREAKER                  \
  "," METHODS("\"perAttemptTimeout\":\"" timeout "\"," RETRY(attempts, "0.005s", ABORTED)) "}"

/* Accepts an attempt that gets no answer. */
static struct puppet_call *ignore_attempt(struct stage *stage, int64_t previous_attempts) {
  struct puppet_call *attempt = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(attempt), previous_attempts);
  puppet_watch(attempt);
  puppet_reads(attempt, "foo");
  return attempt;
}

static void a_silent_attempt_is_followed_by_another(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ATTEMPT_TIMEOUT("3", "2s"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *unary = batched_call_start(call, OPS(SEND_ALL, RECV_ALL));
  struct puppet_call *silent = ignore_attempt(stage, -1);
  struct puppet_call *failed = puppet_accept(stage->server);
  assert_true(puppet_was_cancelled(silent));
  assert_int_equal(puppet_previous_attempts(failed), 1);
  puppet_reads(failed, "foo");
  puppet_end(failed, ENDS(.code = GRPC_STATUS_ABORTED));
  assert_false(puppet_was_cancelled(failed));
  struct puppet_call *third = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(third), 2);
  puppet_reads(third, "foo");
  puppet_end(third, ENDS(.code = GRPC_STATUS_OK, .body = "bar"));
  assert_false(puppet_was_cancelled(third));

  assert_true(stage_await(stage, unary));
  assert_status(call, GRPC_STATUS_OK, "xyz");
  assert_true(batch_received(unary, "bar"));
  struct weir_call_report report = batched_call_report(call);
  assert_int_equal(report.n_attempts, 3);
  assert_int_equal(report.attempts[0].code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(report.attempts[1].code, GRPC_STATUS_ABORTED);
}

static void the_last_attempt_is_cut_off_as_well(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ATTEMPT_TIMEOUT("2", "0.5s"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *unary = batched_call_start(call, OPS(SEND_ALL, RECV_ALL));
  struct puppet_call *first = ignore_attempt(stage, -1);
  struct puppet_call *second = ignore_attempt(stage, 1);

  assert_true(stage_await(stage, unary));
  assert_true(puppet_was_cancelled(first));
  assert_true(puppet_was_cancelled(second));
  assert_int_equal(call->status, GRPC_STATUS_DEADLINE_EXCEEDED);
  struct weir_call_report report = batched_call_report(call);
  assert_int_equal(report.n_attempts, 2);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_ATTEMPT);
  assert_false(puppet_server_is_called(stage->server));
}

/* --- calls in several batches --- */

struct stream {
  struct batched_call *call;
  struct call_batch *sends;
  struct call_batch *metadata;
  struct call_batch *message;
  struct call_batch *status;
};

static struct stream start_stream(struct stage *stage) {
  struct batched_call *call = stage_call(stage, AMPLE);
  return (struct stream){
      .call = call,
      .sends = batched_call_start(call, OPS(SEND_ALL)),
      .metadata = batched_call_start(call, OPS(RECV_METADATA)),
      .message = batched_call_start(call, OPS(RECV_MESSAGE)),
      .status = batched_call_start(call, OPS(RECV_STATUS)),
  };
}

/* One is answered; another, which is not, takes longer than either may. */
static void a_stream_has_the_time_of_an_attempt_until_it_is_answered(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ATTEMPT_TIMEOUT("2", "2s"));
  struct stream answered = start_stream(stage);
  struct puppet_call *silent = ignore_attempt(stage, -1);
  struct puppet_call *second = puppet_accept(stage->server);
  assert_true(puppet_was_cancelled(silent));
  assert_int_equal(puppet_previous_attempts(second), 1);
  puppet_reads(second, "foo");
  puppet_send_headers(second, "from", "second");
  assert_true(stage_await(stage, answered.metadata));

  struct stream unanswered = start_stream(stage);
  struct puppet_call *third = ignore_attempt(stage, -1);
  struct puppet_call *fourth = ignore_attempt(stage, 1);
  assert_true(stage_await(stage, unanswered.status));
  assert_true(puppet_was_cancelled(third));
  assert_true(puppet_was_cancelled(fourth));
  assert_status(unanswered.call, GRPC_STATUS_DEADLINE_EXCEEDED, "the time of the attempt is up");
  assert_report(unanswered.call, 2, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  struct weir_call_report report = batched_call_report(unanswered.call);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_ATTEMPT);

  puppet_end(second, ENDS(.code = GRPC_STATUS_OK, .body = "bar"));
  assert_true(stage_await(stage, answered.status));
  assert_false(puppet_was_cancelled(second));
  assert_status(answered.call, GRPC_STATUS_OK, "xyz");
  assert_report(answered.call, 2, WEIR_REASON_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(a_silent_attempt_is_followed_by_another),
      STAGED(the_last_attempt_is_cut_off_as_well),
      STAGED(a_stream_has_the_time_of_an_attempt_until_it_is_answered),
  };
  return cmocka_run_group_tests_name("a6_attempt_timeout", tests, start_core, stop_core);
}
