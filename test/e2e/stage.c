/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <grpc/slice.h>
#include <grpc/support/time.h>

#define WAIT_LIMIT_S 10

int stage_setup(void **state) {
  struct stage *stage = calloc(1, sizeof *stage);
  if (stage == NULL) {
    return -1;
  }
  counted_random_init(&stage->random);
  stage->queue = weir_completion_queue_create_for_next(NULL);
  *state = stage;
  return stage->queue != NULL ? 0 : -1;
}

static void open_channel(struct stage *stage, const char *policy, const grpc_channel_args *args) {
  stage->channel = channel_new(&(struct channel_setup){.port = puppet_server_port(stage->server),
                                                       .policy = policy,
                                                       .random = &stage->random.base,
                                                       .args = args});
}

void stage_open_with(struct stage *stage, const char *policy, const struct puppet_options *options,
                     const grpc_channel_args *args) {
  stage->server = puppet_server_new(stage->queue, options);
  open_channel(stage, policy, args);
}

void stage_open(struct stage *stage, const char *policy) {
  stage_open_with(stage, policy, NULL, NULL);
}

void stage_close_server(struct stage *stage) {
  struct puppet_server *server = stage->server;
  stage->server = NULL;
  puppet_server_release(server);
}

void stage_reopen_server(struct stage *stage, const struct puppet_options *options) {
  stage->server = puppet_server_new(stage->queue, options);
}

struct batched_call *stage_call(struct stage *stage, int64_t timeout_ns) {
  gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  assert_true(stage->n_calls < STAGE_CALLS);
  if (timeout_ns != 0) {
    deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN));
  }
  struct batched_call *call = batched_call_new(
      weir_channel_create_call(stage->channel, NULL, 0, stage->queue,
                               grpc_slice_from_static_string(METHOD), NULL, deadline, NULL));
  stage->calls[stage->n_calls++] = call;
  return call;
}

void stage_await_backoff(struct stage *stage, unsigned n_backoffs) {
  int64_t limit_ns = now_ns() + SECONDS(WAIT_LIMIT_S);
  while (counted_random_n_asked(&stage->random) < n_backoffs) {
    (void)awaited_tag_take(stage->queue, gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                                      gpr_time_from_millis(1, GPR_TIMESPAN)));
    assert_true(now_ns() < limit_ns);
  }
}

/* Waits for every tag that is out; a call that goes on is given up. */
static void end_calls(struct stage *stage) {
  for (size_t i = 0; i < stage->n_calls; i++) {
    struct batched_call *call = stage->calls[i];
    if (!batched_call_is_idle(call) && call->call != NULL) {
      batched_call_let_go(call);
    }
    for (size_t k = 0; k < call->n_batches; k++) {
      (void)awaited_tag_wait(&call->batches[k].tag, stage->queue);
    }
  }
}

int stage_teardown(void **state) {
  struct stage *stage = *state;
  end_calls(stage);
  if (stage->server != NULL) {
    stage_close_server(stage);
  }
  weir_completion_queue_shutdown(stage->queue);
  assert_null(next_tag(stage->queue));
  for (size_t i = 0; i < stage->n_calls; i++) {
    batched_call_release(stage->calls[i]);
  }
  weir_completion_queue_destroy(stage->queue);
  if (stage->channel != NULL) {
    weir_channel_destroy(stage->channel);
  }
  counted_random_fini(&stage->random);
  free(stage);
  return 0;
}
