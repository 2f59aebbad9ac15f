/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Calls that no server has seen, as the core's own tests have them: no policy, no count. */

/* A server that comes back is soon found. The least time between two connections is left alone: it
 * bounds the time for making one, too. */
static grpc_channel_args eager(grpc_arg args[2]) {
  static char keys[2][64] = {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                             GRPC_ARG_MAX_RECONNECT_BACKOFF_MS};
  memset(args, 0, 2 * sizeof args[0]);
  for (size_t i = 0; i < 2; i++) {
    args[i].type = GRPC_ARG_INTEGER;
    args[i].key = keys[i];
    args[i].value.integer = 100;
  }
  return (grpc_channel_args){.num_args = 2, .args = args};
}

/* The server takes one stream of a connection at a time, so the second call waits in the transport
 * until the server goes. */
static void a_call_that_waited_for_a_stream_goes_to_the_next_server(void **state) {
  struct stage *stage = *state;
  grpc_arg args[2];
  const grpc_channel_args all = eager(args);
  stage_open_with(stage, POLICY_PLAIN, &(struct puppet_options){.max_streams = 1}, &all);
  int port = puppet_server_port(stage->server);
  struct call_batch *first = batched_call_start(stage_call(stage, AMPLE), OPS(SEND_ALL, RECV_ALL));
  struct puppet_call *served = puppet_accept(stage->server);

  struct batched_call *queued = stage_call(stage, AMPLE);
  queued->metadata_flags =
      GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
  struct call_batch *second = batched_call_start(queued, OPS(SEND_ALL, RECV_ALL));
  puppet_server_begin_shutdown(stage->server);
  puppet_end(served, ENDS(.code = GRPC_STATUS_OK));
  assert_true(stage_await(stage, first));
  assert_int_equal(stage->calls[0]->status, GRPC_STATUS_OK);
  assert_false(puppet_server_is_called(stage->server));
  stage_close_server(stage);

  stage_reopen_server(stage, &(struct puppet_options){.port = port});
  struct puppet_call *replayed = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(replayed), -1);
  puppet_reads(replayed, "foo");
  puppet_end(replayed, ENDS(.code = GRPC_STATUS_OK));
  assert_false(puppet_was_cancelled(replayed));
  assert_true(stage_await(stage, second));
  assert_status(queued, GRPC_STATUS_OK, "xyz");
  assert_int_equal(batched_call_report(queued).reason, WEIR_REASON_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(a_call_that_waited_for_a_stream_goes_to_the_next_server),
  };
  return cmocka_run_group_tests_name("a6_transparent", tests, start_core, stop_core);
}
