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

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(a_silent_attempt_is_followed_by_another),
      STAGED(the_last_attempt_is_cut_off_as_well),
  };
  return cmocka_run_group_tests_name("a6_attempt_timeout", tests, start_core, stop_core);
}
