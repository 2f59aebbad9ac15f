/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/shaped_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>

#define WAIT_LIMIT_S 30

/* How the operations, in their usual order, are divided into batches: how many go into each. */
static const size_t divisions[N_SHAPES][SHAPED_BATCHES_MAX] = {
    [SHAPE_ONE_BATCH] = {6},
    [SHAPE_SIX_BATCHES] = {1, 1, 1, 1, 1, 1},
    [SHAPE_SERVER_STREAM] = {3, 1, 1, 1},
};

const char *shape_name(enum shape shape) {
  static const char *const names[N_SHAPES] = {"one batch", "six batches", "server stream"};
  return names[shape];
}

static void start_batch(struct shaped_call *call, size_t index, const grpc_op *ops, size_t n_ops) {
  struct shaped_batch *batch = &call->batches[index];
  batch->n_started++;
  call->n_under_way++;
  assert_int_equal(weir_call_start_batch(call->unary.call, ops, n_ops, batch, NULL), GRPC_CALL_OK);
}

void shaped_start(struct shaped_call *call, enum shape shape, weir_channel *channel,
                  weir_completion_queue *queue, const struct unary_setup *setup) {
  static const struct unary_setup defaults = {.method = NULL};
  grpc_op ops[UNARY_OPS];
  memset(call, 0, sizeof *call);
  call->shape = shape;
  unary_create(&call->unary, channel, queue, setup != NULL ? setup : &defaults);
  unary_ops(&call->unary, setup != NULL ? setup : &defaults, ops);
  size_t at = 0;
  while (at < UNARY_OPS) {
    size_t n_ops = divisions[shape][call->n_batches];
    start_batch(call, call->n_batches++, ops + at, n_ops);
    at += n_ops;
  }
}

/* The message of a stream's batch has come: asks for the next. */
static void receive_more(struct shaped_call *call, size_t index) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = &call->next_message;
  start_batch(call, index, &op, 1);
}

/* The index of the batch that receives one message after the other. */
#define STREAM_MESSAGES 2

static void on_message(struct shaped_call *call) {
  if (call->n_messages > 0 && call->next_message == NULL) {
    return; /* the end */
  }
  if (call->next_message != NULL) {
    grpc_byte_buffer_destroy(call->unary.message);
    call->unary.message = call->next_message;
    call->next_message = NULL;
  }
  if (call->unary.message != NULL) {
    call->n_messages++;
    receive_more(call, STREAM_MESSAGES);
  }
}

bool shaped_on_tag(struct shaped_call *call, void *tag, bool ok) {
  for (size_t i = 0; i < call->n_batches; i++) {
    struct shaped_batch *batch = &call->batches[i];
    if (tag != batch) {
      continue;
    }
    if (batch->n_came == batch->n_started) {
      return false;
    }
    batch->n_came++;
    batch->ok = ok;
    call->n_under_way--;
    if (call->shape == SHAPE_SERVER_STREAM && i == STREAM_MESSAGES) {
      on_message(call);
    }
    return true;
  }
  return false;
}

void shaped_wait(struct shaped_call *call, weir_completion_queue *queue) {
  while (call->n_under_way > 0) {
    gpr_timespec limit = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                      gpr_time_from_seconds(WAIT_LIMIT_S, GPR_TIMESPAN));
    grpc_event event = weir_completion_queue_next(queue, limit, NULL);
    if (event.type != GRPC_OP_COMPLETE) {
      fail_msg("%s: %zu tags are owed", shape_name(call->shape), call->n_under_way);
    }
    assert_true(shaped_on_tag(call, event.tag, event.success != 0));
  }
  if (call->shape != SHAPE_SERVER_STREAM) {
    call->n_messages = call->unary.message != NULL ? 1 : 0;
  }
  unary_read_report(&call->unary);
}

void shaped_fini(struct shaped_call *call) {
  unary_fini(&call->unary);
}

void shaped_run(struct shaped_call *call, enum shape shape, weir_channel *channel,
                const struct unary_setup *setup) {
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  shaped_start(call, shape, channel, queue, setup);
  shaped_wait(call, queue);
  queue_end(queue);
}
