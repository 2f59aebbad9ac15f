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

/* The operations in their usual order, as bits. */
#define SENDS 0x07u
#define METADATA 0x08u
#define MESSAGE 0x10u
#define STATUS 0x20u
#define ALL (SENDS | METADATA | MESSAGE | STATUS)

/* How the operations are divided into batches, and how many of these are started once the status has
 * come. */
struct division {
  unsigned batches[SHAPED_BATCHES_MAX];
  size_t n_late;
};

static const struct division divisions[N_ALL_SHAPES] = {
    [SHAPE_ONE_BATCH] = {.batches = {ALL}},
    [SHAPE_SIX_BATCHES] = {.batches = {0x01, 0x02, 0x04, METADATA, MESSAGE, STATUS}},
    [SHAPE_SERVER_STREAM] = {.batches = {SENDS, METADATA, MESSAGE, STATUS}},
    [SHAPE_TWO_BATCHES] = {.batches = {SENDS, METADATA | MESSAGE | STATUS}},
    [SHAPE_FOUR_BATCHES] = {.batches = {SENDS, METADATA, MESSAGE, STATUS}},
    [SHAPE_METADATA_APART] = {.batches = {SENDS | MESSAGE | STATUS, METADATA}},
    [SHAPE_METADATA_LAST] = {.batches = {SENDS | MESSAGE | STATUS, METADATA}, .n_late = 1},
    [SHAPE_STREAM_METADATA_LAST] = {.batches = {SENDS, MESSAGE, STATUS, METADATA}, .n_late = 1},
};

const char *shape_name(enum shape shape) {
  static const char *const names[N_ALL_SHAPES] = {
      [SHAPE_ONE_BATCH] = "one batch",
      [SHAPE_SIX_BATCHES] = "six batches",
      [SHAPE_SERVER_STREAM] = "server stream",
      [SHAPE_TWO_BATCHES] = "two batches",
      [SHAPE_FOUR_BATCHES] = "four batches",
      [SHAPE_METADATA_APART] = "metadata apart",
      [SHAPE_METADATA_LAST] = "metadata last",
      [SHAPE_STREAM_METADATA_LAST] = "stream, metadata last",
  };
  return names[shape];
}

static size_t n_batches_of(const struct division *division) {
  size_t n_batches = 0;
  while (n_batches < SHAPED_BATCHES_MAX && division->batches[n_batches] != 0) {
    n_batches++;
  }
  return n_batches;
}

static void start_batch(struct shaped_call *call, size_t index, const grpc_op *ops, size_t n_ops) {
  struct shaped_batch *batch = &call->batches[index];
  batch->n_started++;
  call->n_under_way++;
  assert_int_equal(weir_call_start_batch(call->unary.call, ops, n_ops, batch, NULL), GRPC_CALL_OK);
}

/* Starts batches of the division until there are that many. */
static void start_batches(struct shaped_call *call, size_t n_batches, const grpc_op *ops) {
  const struct division *division = &divisions[call->shape];
  while (call->n_batches < n_batches) {
    grpc_op own[UNARY_OPS];
    size_t n_ops = 0;
    for (size_t i = 0; i < UNARY_OPS; i++) {
      if ((division->batches[call->n_batches] & 1u << i) != 0) {
        own[n_ops++] = ops[i];
      }
    }
    start_batch(call, call->n_batches++, own, n_ops);
  }
}

static const struct unary_setup default_setup = {.method = NULL};

void shaped_create(struct shaped_call *call, enum shape shape, weir_channel *channel,
                   weir_completion_queue *queue, const struct unary_setup *setup) {
  memset(call, 0, sizeof *call);
  call->shape = shape;
  unary_create(&call->unary, channel, queue, setup != NULL ? setup : &default_setup);
}

void shaped_begin(struct shaped_call *call, const struct unary_setup *setup) {
  const struct division *division = &divisions[call->shape];
  grpc_op ops[UNARY_OPS];
  unary_ops(&call->unary, setup != NULL ? setup : &default_setup, ops);
  start_batches(call, n_batches_of(division) - division->n_late, ops);
}

void shaped_start(struct shaped_call *call, enum shape shape, weir_channel *channel,
                  weir_completion_queue *queue, const struct unary_setup *setup) {
  shaped_create(call, shape, channel, queue, setup);
  shaped_begin(call, setup);
}

/* The status has come: what is left receives only. */
static void begin_late(struct shaped_call *call) {
  grpc_op ops[UNARY_OPS];
  unary_ops(&call->unary, &default_setup, ops);
  start_batches(call, n_batches_of(&divisions[call->shape]), ops);
}

/* The message of a stream's batch has come: asks for the next. */
static void receive_more(struct shaped_call *call, size_t index) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = &call->next_message;
  start_batch(call, index, &op, 1);
}

static void on_message(struct shaped_call *call, size_t index) {
  if (call->n_messages > 0 && call->next_message == NULL) {
    return; /* the end */
  }
  if (call->next_message != NULL) {
    grpc_byte_buffer_destroy(call->unary.message);
    call->unary.message = call->next_message;
    call->next_message = NULL;
  }
  call->message_early = !call->ended;
  if (call->unary.message == NULL) {
    return;
  }
  call->n_messages++;
  bool let_go = call->unary.call == NULL;
  if (call->shape == SHAPE_SERVER_STREAM && !let_go) {
    receive_more(call, index);
  }
}

static void on_outputs(struct shaped_call *call, size_t index) {
  unsigned ops = divisions[call->shape].batches[index];
  if ((ops & STATUS) != 0) {
    call->ended = true; /* what is in the same batch does not come before it */
  }
  if ((ops & METADATA) != 0) {
    call->metadata_early = !call->ended;
  }
  if ((ops & MESSAGE) != 0) {
    on_message(call, index);
  }
  if ((ops & STATUS) != 0 && call->unary.call != NULL) {
    begin_late(call);
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
    on_outputs(call, i);
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
