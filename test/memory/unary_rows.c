/* A call in one function. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include <weir/unary.h>

#include "test/memory/lame.h"
#include "test/memory/policies.h"
#include "test/memory/trial.h"

static enum weir_error ask(weir_channel *channel, struct weir_unary_reply *reply) {
  grpc_slice slice = grpc_slice_from_static_string("hello");
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  request.method = LAME_METHOD;
  request.message = message;
  enum weir_error error = weir_unary(channel, &request, reply);
  grpc_byte_buffer_destroy(message);
  return error;
}

static void ask_with(struct trial *trial, const char *policy) {
  weir_channel *channel = lame_channel(policy);
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  trial_begin(trial);
  enum weir_error error = ask(channel, &reply);
  trial_end(trial);
  trial_check_error(trial, error);
  assert_null(reply.message);
  assert_int_equal(reply.code, error == WEIR_OK ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_UNKNOWN);
  assert_int_equal(reply.report.code, reply.code);
  assert_int_equal(reply.call != NULL, error == WEIR_OK);
  weir_unary_reply_fini(&reply);
  assert_int_equal(ask(channel, &reply), WEIR_OK);
  assert_int_equal(reply.code, GRPC_STATUS_UNAVAILABLE);
  weir_unary_reply_fini(&reply);
  weir_channel_destroy(channel);
}

static void ask_at_a_boundary(struct trial *trial) {
  ask_with(trial, policy_rich);
}

static void ask_again_and_again(struct trial *trial) {
  ask_with(trial, policy_retrying);
}

/* Nothing is sent, and the first call makes the queue of those that follow. */
static void ask_and_be_refused(struct trial *trial) {
  weir_channel *channel = lame_channel(policy_rich);
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  assert_int_equal(weir_channel_set_breaker_override(channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN),
                   WEIR_OK);
  trial_begin(trial);
  enum weir_error error = ask(channel, &reply);
  trial_end(trial);
  trial_check_error(trial, error);
  assert_int_equal(reply.call != NULL, error == WEIR_OK);
  weir_unary_reply_fini(&reply);
  assert_int_equal(ask(channel, &reply), WEIR_OK);
  weir_channel_destroy(channel);
  assert_int_equal(reply.report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(reply.report.n_attempts, 0);
  weir_unary_reply_fini(&reply);
}

static void end_a_reply(struct trial *trial) {
  weir_channel *channel = lame_channel(NULL);
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  assert_int_equal(ask(channel, &reply), WEIR_OK);
  trial_begin(trial);
  weir_unary_reply_fini(&reply);
  trial_end(trial);
  assert_null(reply.call);
  weir_channel_destroy(channel);
}

const struct trial_row unary_rows[] = {
    {"weir_unary", TAKES_MEMORY, ask_at_a_boundary},
    {"weir_unary", TAKES_MEMORY, ask_again_and_again},
    {"weir_unary", TAKES_MEMORY, ask_and_be_refused},
    {"weir_unary_reply_fini", TAKES_NOTHING, end_a_reply},
    TRIAL_ROWS_END,
};
