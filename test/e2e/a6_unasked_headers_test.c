/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Calls in several batches whose application never asks for the response headers. The core gives
 * neither messages nor the status to who has not asked for them, so weir has to ask in its place,
 * as it does for a call in one batch. */

static void a_retried_call_is_answered(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *message = batched_call_start(call, OPS(RECV_MESSAGE));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  puppet_end(puppet_accept(stage->server), ENDS(.code = GRPC_STATUS_ABORTED));
  struct puppet_call *second = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(second), 1);
  puppet_reads(second, "foo");
  puppet_end(second, ENDS(.code = GRPC_STATUS_OK, .body = "bar"));

  assert_true(stage_await(stage, sends));
  assert_true(stage_await(stage, message));
  assert_true(batch_received(message, "bar"));
  assert_true(stage_await(stage, status));
  assert_status(call, GRPC_STATUS_OK, "xyz");
  assert_int_equal(batched_call_report(call).n_attempts, 2);
}

static void a_call_that_only_asks_for_its_status_is_told(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("2"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *unary = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  puppet_end(puppet_accept(stage->server), ENDS(.code = GRPC_STATUS_ABORTED));
  puppet_end(puppet_accept(stage->server), ENDS(.code = GRPC_STATUS_ABORTED));

  assert_true(stage_await(stage, unary));
  assert_true(stage_await(stage, status));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(a_retried_call_is_answered),
      STAGED(a_call_that_only_asks_for_its_status_is_told),
  };
  return cmocka_run_group_tests_name("a6_unasked_headers", tests, start_core, stop_core);
}
