/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"
#include "test/e2e/stream_server.h"

/* A blocking client: it waits for each batch before it starts the next, on a queue that is plucked
 * from. */

#define WAIT_LIMIT_S 10

#define POLICY_REFUSED(attempts) \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY(attempts, "0.005s", UNAVAILABLE)) "}"

struct blocking {
  struct stream_server *server;
  weir_channel *channel;
  weir_completion_queue *queue;
  struct batched_call *call;
};

static void blocking_open(struct blocking *blocking, const char *policy, const char *method) {
  blocking->server = stream_server_new();
  blocking->channel = channel_to(stream_server_port(blocking->server), policy);
  blocking->queue = weir_completion_queue_create_for_pluck(NULL);
  blocking->call = batched_call_new(weir_channel_create_call(
      blocking->channel, NULL, 0, blocking->queue, grpc_slice_from_static_string(method), NULL,
      gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL));
}

static void blocking_close(struct blocking *blocking) {
  batched_call_release(blocking->call);
  weir_completion_queue_shutdown(blocking->queue);
  weir_completion_queue_destroy(blocking->queue);
  weir_channel_destroy(blocking->channel);
  stream_server_release(blocking->server);
}

static struct call_batch *run(struct blocking *blocking, const enum batched_op *ops) {
  struct call_batch *batch = batched_call_start(blocking->call, ops);
  gpr_timespec limit =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(WAIT_LIMIT_S, GPR_TIMESPAN));
  if (!awaited_tag_pluck(&batch->tag, blocking->queue, limit)) {
    fail_msg("a tag did not come back");
  }
  assert_true(batch->tag.success);
  return batch;
}

static void a_refused_stream_is_read_to_its_end(void **state) {
  (void)state;
  static const char *const policies[] = {POLICY_PLAIN, POLICY_REFUSED("3")};
  static const size_t n_calls[] = {1, 3};
  for (size_t i = 0; i < COUNT_OF(policies); i++) {
    struct blocking blocking;
    blocking_open(&blocking, policies[i], STREAM_REFUSE);
    (void)run(&blocking, OPS(SEND_ALL));
    assert_true(batch_received(run(&blocking, OPS(RECV_METADATA, RECV_MESSAGE)), NULL));
    (void)run(&blocking, OPS(RECV_STATUS));
    assert_status(blocking.call, GRPC_STATUS_UNAVAILABLE, STREAM_SECRET);
    assert_int_equal(stream_server_n_calls(blocking.server), n_calls[i]);
    blocking_close(&blocking);
  }
}

static void a_stream_that_works_is_read_to_its_end(void **state) {
  (void)state;
  static const char *const texts[] = {"1", "2", "3", NULL};
  struct blocking blocking;
  blocking_open(&blocking, POLICY_REFUSED("3"), STREAM_THREE);
  (void)run(&blocking, OPS(SEND_ALL));
  (void)run(&blocking, OPS(RECV_METADATA));
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    assert_true(batch_received(run(&blocking, OPS(RECV_MESSAGE)), texts[i]));
  }
  (void)run(&blocking, OPS(RECV_STATUS));
  assert_int_equal(blocking.call->status, GRPC_STATUS_OK);
  blocking_close(&blocking);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_that_works_is_read_to_its_end),
      cmocka_unit_test(a_refused_stream_is_read_to_its_end),
  };
  return cmocka_run_group_tests_name("a6_pluck", tests, start_core, stop_core);
}
