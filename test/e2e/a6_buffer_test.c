/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Calls that send more than is kept for another attempt, as gRFC A6 and the core's own tests of it
 * have them. */

#define KIB 1024

#define REPLAY_BYTES 102400
#define KEEPS_100_KIB "\"retry\":{\"replayBytes\":102400},"

/* It binds the call to the next attempt, which is on its way already. */
static void too_much_in_the_backoff_goes_with_the_next_attempt_and_no_other(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH(KEEPS_100_KIB, "3", "0.3s"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *receives =
      batched_call_start(call, OPS(SEND_METADATA, RECV_MESSAGE, RECV_METADATA, RECV_STATUS));
  struct puppet_call *attempt = puppet_accept(stage->server);
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .text = "message1"));
  assert_false(puppet_was_cancelled(attempt));
  stage_await_backoff(stage, 1);
  batched_call_say_bytes(call, REPLAY_BYTES + 1);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_MESSAGE, SEND_CLOSE));
  assert_true(receives->tag.is_out && sends->tag.is_out);

  attempt = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(attempt), 1);
  assert_int_equal(puppet_read_size(attempt), REPLAY_BYTES + 1);
  assert_true(stage_await(stage, sends));
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .text = "message2"));
  assert_false(puppet_was_cancelled(attempt));
  assert_true(stage_await(stage, receives));
  assert_status(call, GRPC_STATUS_ABORTED, "message2");
  assert_report(call, 2, WEIR_REASON_NOT_REPLAYABLE);
  assert_false(puppet_server_is_called(stage->server));
}

static void too_much_in_a_later_batch_binds_the_call(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH(KEEPS_100_KIB, "2", "0.005s"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *opens = batched_call_start(call, OPS(SEND_METADATA));
  assert_true(stage_await(stage, opens));
  batched_call_say_bytes(call, REPLAY_BYTES + 1);
  struct call_batch *rest = batched_call_start(
      call, OPS(SEND_MESSAGE, RECV_MESSAGE, SEND_CLOSE, RECV_METADATA, RECV_STATUS));
  struct puppet_call *attempt = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(attempt), -1);
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_ABORTED));
  assert_false(puppet_was_cancelled(attempt));

  assert_true(stage_await(stage, rest));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  assert_report(call, 1, WEIR_REASON_NOT_REPLAYABLE);
  assert_false(puppet_server_is_called(stage->server));
}

/* 256 KiB are kept unless the policy says otherwise. */
static void a_stream_that_outgrows_what_is_kept_goes_on_and_is_not_made_again(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  struct call_batch *opens = batched_call_start(call, OPS(SEND_METADATA));
  assert_true(stage_await(stage, opens));
  struct puppet_call *attempt = puppet_accept(stage->server);
  for (int i = 0; i < 3; i++) {
    batched_call_say_bytes(call, 100 * KIB);
    struct call_batch *sends = batched_call_start(call, OPS(SEND_MESSAGE));
    assert_int_equal(puppet_read_size(attempt), 100 * KIB);
    assert_true(stage_await(stage, sends));
  }
  struct call_batch *closes = batched_call_start(call, OPS(SEND_CLOSE));
  puppet_reads(attempt, NULL);
  assert_true(stage_await(stage, closes));
  puppet_end(attempt, ENDS(.code = GRPC_STATUS_ABORTED));

  assert_true(stage_await(stage, receives));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  assert_report(call, 1, WEIR_REASON_NOT_REPLAYABLE);
  assert_false(puppet_server_is_called(stage->server));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(too_much_in_the_backoff_goes_with_the_next_attempt_and_no_other),
      STAGED(too_much_in_a_later_batch_binds_the_call),
      STAGED(a_stream_that_outgrows_what_is_kept_goes_on_and_is_not_made_again),
  };
  return cmocka_run_group_tests_name("a6_buffer", tests, start_core, stop_core);
}
