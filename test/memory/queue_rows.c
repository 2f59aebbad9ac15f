/* Queues. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <weir/completion_queue.h>

#include "test/memory/lame.h"
#include "test/memory/trial.h"

/* --- made --- */

static void check_queue(struct trial *trial, weir_completion_queue *queue,
                        grpc_cq_completion_type type) {
  trial_check_not_null(trial, queue);
  if (queue == NULL) {
    queue = lame_queue(type);
  }
  weir_channel *channel = lame_channel(NULL);
  lame_call_run(channel, queue, type);
  weir_channel_destroy(channel);
  lame_queue_end(queue, type);
}

static void make_next(struct trial *trial) {
  trial_begin(trial);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  trial_end(trial);
  check_queue(trial, queue, GRPC_CQ_NEXT);
}

static void make_pluck(struct trial *trial) {
  trial_begin(trial);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  trial_end(trial);
  check_queue(trial, queue, GRPC_CQ_PLUCK);
}

static void make_by_attributes(struct trial *trial) {
  const grpc_completion_queue_attributes attributes = {GRPC_CQ_CURRENT_VERSION, GRPC_CQ_PLUCK,
                                                       GRPC_CQ_DEFAULT_POLLING, NULL};
  trial_begin(trial);
  weir_completion_queue *queue = weir_completion_queue_create(&attributes, NULL);
  trial_end(trial);
  check_queue(trial, queue, GRPC_CQ_PLUCK);
}

struct ending {
  grpc_completion_queue_functor base;
  unsigned n_ends;
};

static void count_end(grpc_completion_queue_functor *functor, int success) {
  (void)success;
  ((struct ending *)(void *)functor)->n_ends++;
}

/* With threads: none of them may be left where one can't be had. */
static void make_callback(struct trial *trial) {
  struct ending ending = {.base = {.functor_run = count_end}, .n_ends = 0};
  trial_begin(trial);
  weir_completion_queue *queue = weir_completion_queue_create_for_callback(&ending.base, NULL);
  trial_end(trial);
  trial_check_not_null(trial, queue);
  assert_int_equal(ending.n_ends, 0);
  if (queue != NULL) {
    weir_completion_queue_destroy(queue);
    assert_int_equal(ending.n_ends, 1);
  }
}

/* --- used --- */

/* More than a queue has room to keep at first. */
#define MANY_EVENTS 100

/* Events of a raw call come before the one that is plucked, so that they have to be kept. */
static void pluck_the_last(struct trial *trial) {
  weir_channel *channel = lame_channel(NULL);
  weir_completion_queue *queue = lame_queue(GRPC_CQ_PLUCK);
  struct lame_call call;
  grpc_call *raw = grpc_channel_create_call(
      weir_channel_core(channel), NULL, 0, weir_completion_queue_core(queue),
      grpc_slice_from_static_string(LAME_METHOD), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  char tags[MANY_EVENTS];
  for (size_t i = 0; i < MANY_EVENTS; i++) {
    assert_int_equal(grpc_call_start_batch(raw, NULL, 0, &tags[i], NULL), GRPC_CALL_OK);
  }
  lame_call_init(&call, lame_call_make(channel, queue), false);
  assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK);
  trial_begin(trial);
  grpc_event event = weir_completion_queue_pluck(queue, &call.tags[0].base,
                                                 gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  trial_end(trial);
  if (event.type == GRPC_OP_COMPLETE) {
    assert_ptr_equal(event.tag, &call.tags[0].base);
    call.tags[0].n_came++;
  } else {
    assert_int_equal(event.type, GRPC_QUEUE_TIMEOUT);
    assert_true(trial->n_refused > 0);
  }
  lame_call_wait(&call, queue, GRPC_CQ_PLUCK);
  assert_int_equal(call.status, GRPC_STATUS_UNAVAILABLE);
  for (size_t i = 0; i < MANY_EVENTS; i++) {
    event = weir_completion_queue_pluck(queue, &tags[i], gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    assert_ptr_equal(event.tag, &tags[i]);
  }
  grpc_call_unref(raw);
  lame_call_fini(&call);
  lame_queue_end(queue, GRPC_CQ_PLUCK);
  weir_channel_destroy(channel);
}

struct functor {
  grpc_completion_queue_functor base;
  unsigned n_runs;
};

static void count_run(grpc_completion_queue_functor *functor, int success) {
  (void)success;
  ((struct functor *)(void *)functor)->n_runs++;
}

/* Functors of more batches than a queue has room for at first. */
#define MANY_BATCHES 400

static void poll_functors(struct trial *trial) {
  weir_channel *channel = lame_channel(NULL);
  weir_completion_queue *queue = lame_queue(GRPC_CQ_CALLBACK);
  struct functor functors[MANY_BATCHES];
  bool was_started[MANY_BATCHES];
  weir_call *call = lame_call_make(channel, queue);
  trial_begin(trial);
  for (size_t i = 0; i < MANY_BATCHES; i++) {
    functors[i] = (struct functor){.base = {.functor_run = count_run}, .n_runs = 0};
    was_started[i] = weir_call_start_batch(call, NULL, 0, &functors[i].base, NULL) == GRPC_CALL_OK;
  }
  (void)weir_completion_queue_poll(queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
  trial_end(trial);
  weir_call_unref(call);
  lame_queue_end(queue, GRPC_CQ_CALLBACK);
  for (size_t i = 0; i < MANY_BATCHES; i++) {
    assert_int_equal(functors[i].n_runs, was_started[i] ? 1 : 0);
    assert_true(was_started[i] || trial->n_refused > 0);
  }
  weir_channel_destroy(channel);
}

static void drain(struct trial *trial) {
  weir_completion_queue *queue = lame_queue(GRPC_CQ_NEXT);
  void *tag = NULL;
  int ok = 0;
  trial_begin(trial);
  (void)weir_completion_queue_core(queue);
  weir_completion_queue_thread_local_cache_init(queue);
  const int n_cached = weir_completion_queue_thread_local_cache_flush(queue, &tag, &ok);
  const grpc_event nothing =
      weir_completion_queue_next(queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
  weir_completion_queue_shutdown(queue);
  const grpc_event end =
      weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  weir_completion_queue_destroy(queue);
  trial_end(trial);
  assert_int_equal(n_cached, 0);
  assert_int_equal(nothing.type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(end.type, GRPC_QUEUE_SHUTDOWN);
}

const struct trial_row queue_rows[] = {
    {"weir_completion_queue_create_for_next", TAKES_MEMORY, make_next},
    {"weir_completion_queue_create_for_pluck", TAKES_MEMORY, make_pluck},
    {"weir_completion_queue_create_for_callback", TAKES_MEMORY, make_callback},
    {"weir_completion_queue_create", TAKES_MEMORY, make_by_attributes},
    {"weir_completion_queue_pluck", TAKES_MEMORY, pluck_the_last},
    {"weir_completion_queue_poll", TAKES_MEMORY, poll_functors},
    {"weir_completion_queue_core", TAKES_NOTHING, drain},
    {"weir_completion_queue_destroy", TAKES_NOTHING, drain},
    {"weir_completion_queue_next", TAKES_NOTHING, drain},
    {"weir_completion_queue_shutdown", TAKES_NOTHING, drain},
    {"weir_completion_queue_thread_local_cache_flush", TAKES_NOTHING, drain},
    {"weir_completion_queue_thread_local_cache_init", TAKES_NOTHING, drain},
    TRIAL_ROWS_END,
};
