/* SPDX-License-Identifier: Apache-2.0 */
#include "test/memory/lame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "test/memory/policies.h"
#include "test/support/silent_log.h"

#define NO_STATUS 77
#define WAIT_S 60
#define SLICES 5
#define MESSAGE "0123456789abcdefghijklmnopqrstuvwxyz"

weir_channel *lame_channel(const char *policy) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.log = &silent_log;
  options.policy = policy != NULL ? policy_of(policy) : NULL;
  weir_channel *channel = weir_lame_client_channel_create("lame.test", GRPC_STATUS_UNAVAILABLE,
                                                          "out of order", &options);
  assert_non_null(channel);
  weir_policy_unref(options.policy);
  return channel;
}

weir_completion_queue *lame_queue(grpc_cq_completion_type type) {
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.n_callback_threads = 0;
  weir_completion_queue *queue = NULL;
  switch (type) {
  case GRPC_CQ_NEXT:
    queue = weir_completion_queue_create_for_next(&options);
    break;
  case GRPC_CQ_PLUCK:
    queue = weir_completion_queue_create_for_pluck(&options);
    break;
  case GRPC_CQ_CALLBACK:
    queue = weir_completion_queue_create_for_callback(NULL, &options);
    break;
  }
  assert_non_null(queue);
  return queue;
}

static gpr_timespec in_a_while(void) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(WAIT_S, GPR_TIMESPAN));
}

void lame_queue_end(weir_completion_queue *queue, grpc_cq_completion_type type) {
  weir_completion_queue_shutdown(queue);
  grpc_completion_type seen = GRPC_OP_COMPLETE;
  switch (type) {
  case GRPC_CQ_NEXT:
    seen = weir_completion_queue_next(queue, in_a_while(), NULL).type;
    break;
  case GRPC_CQ_PLUCK:
    seen = weir_completion_queue_pluck(queue, queue, in_a_while(), NULL).type;
    break;
  case GRPC_CQ_CALLBACK:
    seen = weir_completion_queue_poll(queue, in_a_while(), NULL);
    break;
  }
  assert_int_equal(seen, GRPC_QUEUE_SHUTDOWN); /* no tag that nobody knows of */
  weir_completion_queue_destroy(queue);
}

weir_call *lame_call_make(weir_channel *channel, weir_completion_queue *queue) {
  return weir_channel_create_call(channel, NULL, 0, queue,
                                  grpc_slice_from_static_string(LAME_METHOD), NULL,
                                  gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static grpc_byte_buffer *message_new(bool is_large) {
  grpc_slice slices[SLICES];
  const size_t n_slices = is_large ? SLICES : 1;
  for (size_t i = 0; i < n_slices; i++) {
    slices[i] = grpc_slice_from_copied_string(MESSAGE);
  }
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, n_slices);
  for (size_t i = 0; i < n_slices; i++) {
    grpc_slice_unref(slices[i]);
  }
  return message;
}

static void set_ops(struct lame_call *call, size_t n_metadata) {
  grpc_op *ops = call->ops;
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[0].data.send_initial_metadata.metadata = call->metadata;
  ops[0].data.send_initial_metadata.count = n_metadata;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = call->message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &call->reply;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &call->status;
  ops[5].data.recv_status_on_client.status_details = &call->details;
  ops[5].data.recv_status_on_client.error_string = &call->error_string;
}

void lame_call_init(struct lame_call *call, weir_call *made, bool is_large) {
  memset(call, 0, sizeof *call);
  call->call = made;
  call->status = (grpc_status_code)NO_STATUS;
  call->details = grpc_empty_slice();
  call->message = message_new(is_large);
  grpc_metadata_array_init(&call->initial_metadata);
  grpc_metadata_array_init(&call->trailing_metadata);
  for (size_t i = 0; i < sizeof call->metadata / sizeof call->metadata[0]; i++) {
    call->metadata[i].key = grpc_slice_from_static_string("many");
    call->metadata[i].value = grpc_slice_from_static_string("v");
  }
  set_ops(call, is_large ? sizeof call->metadata / sizeof call->metadata[0] : 0);
}

static void tag_came(grpc_completion_queue_functor *functor, int success) {
  (void)success;
  ((struct lame_tag *)(void *)functor)->n_came++;
}

grpc_call_error lame_call_start(struct lame_call *call, size_t from, size_t to) {
  struct lame_tag *tag = &call->tags[from];
  *tag = (struct lame_tag){.base = {.functor_run = tag_came, .inlineable = 1}};
  grpc_call_error error =
      weir_call_start_batch(call->call, call->ops + from, to - from, &tag->base, NULL);
  tag->was_started = error == GRPC_CALL_OK;
  return error;
}

/* Drains one event of the queue, which is this tag's where it is plucked. */
static void drain(struct lame_tag *tag, weir_completion_queue *queue,
                  grpc_cq_completion_type type) {
  grpc_event event;
  switch (type) {
  case GRPC_CQ_NEXT:
    event = weir_completion_queue_next(queue, in_a_while(), NULL);
    break;
  case GRPC_CQ_PLUCK:
    event = weir_completion_queue_pluck(queue, &tag->base, in_a_while(), NULL);
    break;
  case GRPC_CQ_CALLBACK:
    (void)weir_completion_queue_poll(queue, gpr_now(GPR_CLOCK_MONOTONIC), NULL);
    return;
  }
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  tag_came(event.tag, event.success);
}

void lame_call_wait(struct lame_call *call, weir_completion_queue *queue,
                    grpc_cq_completion_type type) {
  const gpr_timespec until = in_a_while();
  for (size_t i = 0; i < LAME_OPS; i++) {
    struct lame_tag *tag = &call->tags[i];
    while (tag->was_started && tag->n_came == 0) {
      assert_true(gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until) < 0);
      drain(tag, queue, type);
    }
    assert_int_equal(tag->n_came, tag->was_started ? 1 : 0);
  }
}

void lame_call_fini(struct lame_call *call) {
  void *error_string = NULL;
  if (call->call != NULL) {
    weir_call_unref(call->call);
  }
  grpc_byte_buffer_destroy(call->message);
  if (call->reply != NULL) {
    grpc_byte_buffer_destroy(call->reply);
  }
  grpc_metadata_array_destroy(&call->initial_metadata);
  grpc_metadata_array_destroy(&call->trailing_metadata);
  grpc_slice_unref(call->details);
  memcpy(&error_string, &call->error_string, sizeof error_string);
  gpr_free(error_string);
}

void lame_call_run(weir_channel *channel, weir_completion_queue *queue,
                   grpc_cq_completion_type type) {
  struct lame_call call;
  lame_call_init(&call, lame_call_make(channel, queue), false);
  assert_non_null(call.call);
  assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK);
  lame_call_wait(&call, queue, type);
  assert_int_equal(call.status, GRPC_STATUS_UNAVAILABLE);
  lame_call_fini(&call);
}
