/* Calls. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/call.h>

#include "test/memory/lame.h"
#include "test/memory/policies.h"
#include "test/memory/trial.h"

struct stage {
  weir_channel *channel;
  weir_completion_queue *queue;
  grpc_cq_completion_type type;
};

static void stage_open(struct stage *stage, const char *policy, grpc_cq_completion_type type) {
  *stage = (struct stage){.channel = lame_channel(policy), .queue = lame_queue(type), .type = type};
}

/* Calls can be made still. */
static void stage_close(struct stage *stage) {
  lame_call_run(stage->channel, stage->queue, stage->type);
  lame_queue_end(stage->queue, stage->type);
  weir_channel_destroy(stage->channel);
}

/* --- made --- */

static void make_call(struct trial *trial) {
  struct stage stage;
  stage_open(&stage, policy_rich, GRPC_CQ_NEXT);
  const grpc_slice host = grpc_slice_from_static_string("host.test");
  weir_inbound *inbound = NULL;
  assert_int_equal(weir_inbound_new(NULL, NULL, NULL, NULL, &inbound), WEIR_OK);
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  options.inbound = inbound;
  trial_begin(trial);
  weir_call *call = weir_channel_create_call(stage.channel, NULL, 0, stage.queue,
                                             grpc_slice_from_static_string(LAME_METHOD), &host,
                                             gpr_inf_future(GPR_CLOCK_MONOTONIC), &options);
  trial_end(trial);
  trial_check_not_null(trial, call);
  if (call != NULL) {
    weir_call_unref(call);
  }
  weir_inbound_release(inbound);
  stage_close(&stage);
}

static void make_registered_call(struct trial *trial) {
  struct stage stage;
  stage_open(&stage, policy_rich, GRPC_CQ_NEXT);
  void *handle = weir_channel_register_call(stage.channel, LAME_METHOD, NULL, NULL);
  assert_non_null(handle);
  trial_begin(trial);
  weir_call *call = weir_channel_create_registered_call(stage.channel, NULL, 0, stage.queue, handle,
                                                        gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  trial_end(trial);
  trial_check_not_null(trial, call);
  if (call != NULL) {
    weir_call_unref(call);
  }
  stage_close(&stage);
}

/* --- started --- */

/* What is refused has not begun; what has begun comes to its end, once, with the real status. */
static void check_end(const struct trial *trial, struct lame_call *call, struct stage *stage) {
  lame_call_wait(call, stage->queue, stage->type);
  const bool has_status = call->tags[0].was_started && call->tags[5].was_started;
  if (call->tags[0].was_started || call->tags[5].was_started) {
    weir_call_cancel(call->call, NULL); /* what has no status to wait for */
  }
  assert_true(trial->n_refused > 0 || (int)call->status == GRPC_STATUS_UNAVAILABLE);
  assert_true(!has_status || (int)call->status == GRPC_STATUS_UNAVAILABLE);
}

static void run_one_batch(struct trial *trial, const char *policy, grpc_cq_completion_type type) {
  struct stage stage;
  struct lame_call call;
  stage_open(&stage, policy, type);
  lame_call_init(&call, lame_call_make(stage.channel, stage.queue), true);
  trial_begin(trial);
  grpc_call_error error = lame_call_start(&call, 0, LAME_OPS);
  lame_call_wait(&call, stage.queue, type);
  trial_end(trial);
  if (error != GRPC_CALL_OK) {
    assert_int_equal(error, GRPC_CALL_ERROR);
    assert_true(trial->n_refused > 0);
    assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK); /* it has not begun */
    lame_call_wait(&call, stage.queue, type);
  }
  assert_int_equal(call.status, GRPC_STATUS_UNAVAILABLE);
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  assert_int_equal(weir_call_get_report(call.call, &report), WEIR_OK);
  assert_int_equal(report.code, GRPC_STATUS_UNAVAILABLE);
  lame_call_fini(&call);
  stage_close(&stage);
}

static void start_one_batch(struct trial *trial) {
  run_one_batch(trial, policy_rich, GRPC_CQ_NEXT);
}

static void pluck_one_batch(struct trial *trial) {
  run_one_batch(trial, policy_rich, GRPC_CQ_PLUCK);
}

static void retry_one_batch(struct trial *trial) {
  run_one_batch(trial, policy_retrying, GRPC_CQ_NEXT);
}

static void run_batches(struct trial *trial, const char *policy, grpc_cq_completion_type type) {
  struct stage stage;
  struct lame_call call;
  stage_open(&stage, policy, type);
  lame_call_init(&call, lame_call_make(stage.channel, stage.queue), true);
  trial_begin(trial);
  for (size_t i = 0; i < LAME_OPS; i++) {
    grpc_call_error error = lame_call_start(&call, i, i + 1);
    if (error != GRPC_CALL_OK) {
      (void)weir_call_cancel(call.call, NULL);
      break;
    }
  }
  trial_end(trial);
  if (!call.tags[5].was_started) {
    assert_true(trial->n_refused > 0);
    assert_int_equal(lame_call_start(&call, 5, 6), GRPC_CALL_OK);
    lame_call_wait(&call, stage.queue, type);
    assert_true((int)call.status == GRPC_STATUS_CANCELLED ||
                (int)call.status == GRPC_STATUS_UNAVAILABLE);
  } else {
    check_end(trial, &call, &stage);
  }
  lame_call_fini(&call);
  stage_close(&stage);
}

static void start_six_batches(struct trial *trial) {
  run_batches(trial, policy_rich, GRPC_CQ_NEXT);
}

static void pluck_six_batches(struct trial *trial) {
  run_batches(trial, policy_retrying, GRPC_CQ_PLUCK);
}

static void retry_six_batches(struct trial *trial) {
  run_batches(trial, policy_retrying, GRPC_CQ_NEXT);
}

/* --- what a call has only sometimes --- */

static void set_credentials(struct trial *trial) {
  struct stage stage;
  stage_open(&stage, NULL, GRPC_CQ_NEXT);
  weir_call *call = lame_call_make(stage.channel, stage.queue);
  grpc_call_credentials *credentials = grpc_access_token_credentials_create("token", NULL);
  trial_begin(trial);
  grpc_call_error error = weir_call_set_credentials(call, credentials);
  trial_end(trial);
  assert_true(error == GRPC_CALL_OK || trial->n_refused > 0);
  assert_int_equal(weir_call_set_credentials(call, credentials), GRPC_CALL_OK);
  weir_call_unref(call);
  grpc_call_credentials_release(credentials);
  stage_close(&stage);
}

static void set_census(struct trial *trial) {
  struct stage stage;
  stage_open(&stage, NULL, GRPC_CQ_NEXT);
  weir_call *call = lame_call_make(stage.channel, stage.queue);
  struct census_context *context = (struct census_context *)&stage;
  trial_begin(trial);
  weir_census_call_set_context(call, context);
  trial_end(trial);
  struct census_context *seen = weir_census_call_get_context(call);
  assert_true(seen == context || (seen == NULL && trial->n_refused > 0));
  weir_call_unref(call);
  stage_close(&stage);
}

static void allocate_for_call(struct trial *trial) {
  struct stage stage;
  stage_open(&stage, NULL, GRPC_CQ_NEXT);
  weir_call *call = lame_call_make(stage.channel, stage.queue);
  trial_begin(trial);
  unsigned char *memory = weir_call_arena_alloc(call, 100);
  trial_end(trial);
  trial_check_not_null(trial, memory);
  memory = memory != NULL ? memory : weir_call_arena_alloc(call, 100);
  assert_non_null(memory);
  assert_int_equal(memory[0] | memory[99], 0);
  memset(memory, 0xff, 100);
  weir_call_unref(call);
  stage_close(&stage);
}

/* Without memory for its words, it is a plain cancellation. */
static void cancel_with_words(struct trial *trial) {
  struct stage stage;
  struct lame_call call;
  stage_open(&stage, policy_retrying, GRPC_CQ_NEXT);
  lame_call_init(&call, lame_call_make(stage.channel, stage.queue), false);
  trial_begin(trial);
  grpc_call_error error = weir_call_cancel_with_status(
      call.call, GRPC_STATUS_ABORTED, "words that are longer than a slice has room for", NULL);
  trial_end(trial);
  assert_int_equal(error, GRPC_CALL_OK);
  assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK);
  lame_call_wait(&call, stage.queue, stage.type);
  assert_true((int)call.status == GRPC_STATUS_ABORTED ||
              ((int)call.status == GRPC_STATUS_CANCELLED && trial->n_refused > 0));
  lame_call_fini(&call);
  stage_close(&stage);
}

/* --- looked at, shared, ended --- */

static void look_at_call(struct trial *trial) {
  struct stage stage;
  struct lame_call call;
  stage_open(&stage, policy_rich, GRPC_CQ_NEXT);
  lame_call_init(&call, lame_call_make(stage.channel, stage.queue), false);
  assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK);
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  trial_begin(trial);
  weir_call_ref(call.call);
  lame_call_wait(&call, stage.queue, stage.type);
  enum weir_error error = weir_call_get_report(call.call, &report);
  char *peer = weir_call_get_peer(call.call);
  grpc_auth_context *identity = weir_call_auth_context(call.call);
  (void)weir_call_failed_before_recv_message(call.call);
  (void)weir_census_call_get_context(call.call);
  (void)weir_call_cancel(call.call, NULL);
  weir_call_unref(call.call);
  trial_end(trial);
  assert_int_equal(error, WEIR_OK);
  assert_int_equal(report.code, GRPC_STATUS_UNAVAILABLE);
  if (identity != NULL) {
    grpc_auth_context_release(identity);
  }
  gpr_free(peer);
  lame_call_fini(&call);
  stage_close(&stage);
}

const struct trial_row call_rows[] = {
    {"weir_channel_create_call", TAKES_MEMORY, make_call},
    {"weir_channel_create_registered_call", TAKES_MEMORY, make_registered_call},
    {"weir_call_start_batch", TAKES_MEMORY, start_one_batch},
    {"weir_call_start_batch", TAKES_MEMORY, pluck_one_batch},
    {"weir_call_start_batch", TAKES_MEMORY, retry_one_batch},
    {"weir_call_start_batch", TAKES_MEMORY, start_six_batches},
    {"weir_call_start_batch", TAKES_MEMORY, pluck_six_batches},
    {"weir_call_start_batch", TAKES_MEMORY, retry_six_batches},
    {"weir_call_set_credentials", TAKES_MEMORY, set_credentials},
    {"weir_census_call_set_context", TAKES_MEMORY, set_census},
    {"weir_call_arena_alloc", TAKES_MEMORY, allocate_for_call},
    {"weir_call_cancel_with_status", TAKES_MEMORY, cancel_with_words},
    {"weir_call_auth_context", TAKES_NOTHING, look_at_call},
    {"weir_call_cancel", TAKES_NOTHING, look_at_call},
    {"weir_call_failed_before_recv_message", TAKES_NOTHING, look_at_call},
    {"weir_call_get_peer", TAKES_NOTHING, look_at_call},
    {"weir_call_get_report", TAKES_NOTHING, look_at_call},
    {"weir_call_ref", TAKES_NOTHING, look_at_call},
    {"weir_call_unref", TAKES_NOTHING, look_at_call},
    {"weir_census_call_get_context", TAKES_NOTHING, look_at_call},
    TRIAL_ROWS_END,
};
