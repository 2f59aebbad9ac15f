/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/queue/queue_fixture.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/container_of.h"
#include "src/transport/transport.h"

/* --- the queue --- */

static void *counted_allocate(void *context, size_t n_bytes) {
  struct queue_fixture *fixture = context;
  size_t n_allowed = atomic_load(&fixture->n_allowed);
  do {
    if (n_allowed == 0) {
      return NULL;
    }
  } while (!atomic_compare_exchange_weak(&fixture->n_allowed, &n_allowed, n_allowed - 1));
  atomic_fetch_add(&fixture->n_outstanding, 1);
  return malloc(n_bytes);
}

static void counted_release(void *context, void *memory) {
  struct queue_fixture *fixture = context;
  atomic_fetch_sub(&fixture->n_outstanding, 1);
  free(memory);
}

weir_completion_queue *queue_fixture_new_queue(struct queue_fixture *fixture,
                                               grpc_cq_completion_type type) {
  return weir__queue_new(
      &(struct weir__queue_options){.allocator = &fixture->allocator,
                                    .clock = NULL,
                                    .transport = weir__transport_core(),
                                    .type = type,
                                    .polling = GRPC_CQ_DEFAULT_POLLING,
                                    .slab_blocks = 0,
                                    .shutdown_callback = fixture->shutdown_callback,
                                    .n_callback_threads = fixture->n_callback_threads});
}

static void fixture_start(struct queue_fixture *fixture, grpc_cq_completion_type type) {
  fixture->allocator = (struct weir_allocator){.size = sizeof(struct weir_allocator),
                                               .allocate = counted_allocate,
                                               .release = counted_release,
                                               .context = fixture};
  fixture->type = type;
  atomic_init(&fixture->n_allowed, SIZE_MAX);
  fixture->queue = queue_fixture_new_queue(fixture, type);
  assert_non_null(fixture->queue);
  fixture->lame =
      weir__transport_core()->bell_create(NULL, weir_completion_queue_core(fixture->queue));
}

void queue_fixture_init(struct queue_fixture *fixture, grpc_cq_completion_type type) {
  memset(fixture, 0, sizeof *fixture);
  fixture_start(fixture, type);
}

void queue_fixture_init_callback(struct queue_fixture *fixture,
                                 grpc_completion_queue_functor *shutdown_callback,
                                 uint32_t n_callback_threads) {
  memset(fixture, 0, sizeof *fixture);
  fixture->shutdown_callback = shutdown_callback;
  fixture->n_callback_threads = n_callback_threads;
  fixture_start(fixture, GRPC_CQ_CALLBACK);
}

static grpc_completion_type drain_to_the_end(struct queue_fixture *fixture) {
  switch (fixture->type) {
  case GRPC_CQ_NEXT:
    return weir_completion_queue_next(fixture->queue, never(), NULL).type;
  case GRPC_CQ_PLUCK:
    return weir_completion_queue_pluck(fixture->queue, fixture, never(), NULL).type;
  case GRPC_CQ_CALLBACK:
    return weir_completion_queue_poll(fixture->queue, never(), NULL);
  }
  return GRPC_QUEUE_TIMEOUT;
}

void queue_fixture_fini(struct queue_fixture *fixture) {
  if (fixture->queue != NULL) {
    weir_completion_queue_shutdown(fixture->queue);
    assert_int_equal(drain_to_the_end(fixture), GRPC_QUEUE_SHUTDOWN);
    weir_completion_queue_destroy(fixture->queue); /* the core aborts if an event is left */
  }
  grpc_call_unref(fixture->lame);
  assert_int_equal(atomic_load(&fixture->n_outstanding), 0);
}

/* --- batches --- */

static struct batch *batch_of(struct weir__completion *completion) {
  return WEIR__CONTAINER_OF(completion, struct batch, completion);
}

static void batch_hand_out(struct batch *batch, bool success, grpc_event *event_out) {
  struct queue_fixture *fixture = batch->fixture;
  *event_out = (grpc_event){
      .type = GRPC_OP_COMPLETE, .success = success ? 1 : 0, .tag = batch->completion.app_tag};
  memset(batch, 0xa5, sizeof *batch); /* the queue must not look at it any more */
  weir__queue_block_give(fixture->queue, batch);
  atomic_fetch_add(&fixture->n_handed_out, 1);
}

static bool batch_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  struct batch *batch = batch_of(completion);
  if (atomic_fetch_sub(&batch->n_rounds, 1) > 1) {
    batch_post(batch);
    return false;
  }
  batch_hand_out(batch, ok, event_out);
  return true;
}

static void batch_deliver(struct weir__completion *completion, grpc_event *event_out) {
  struct batch *batch = batch_of(completion);
  batch_hand_out(batch, batch->success, event_out);
}

static const struct weir__completion_ops batch_ops = {
    .on_event = batch_on_event,
    .deliver = batch_deliver,
};

static void batch_on_due(struct weir__timer *timer, int64_t now_ns) {
  struct batch *batch = WEIR__CONTAINER_OF(timer, struct batch, timer);
  (void)now_ns;
  batch_end(batch);
}

struct batch *batch_begin(struct queue_fixture *fixture, void *tag) {
  struct batch *batch = weir__queue_block_take(fixture->queue);
  assert_non_null(batch);
  batch->completion.ops = &batch_ops;
  batch->fixture = fixture;
  batch->timer.on_due = batch_on_due;
  batch->success = true;
  atomic_init(&batch->n_rounds, 1);
  assert_int_equal(weir__queue_begin(fixture->queue, &batch->completion, tag), WEIR_OK);
  return batch;
}

void batch_post(struct batch *batch) {
  foreign_post(batch->fixture, &batch->completion);
}

void batch_end(struct batch *batch) {
  weir__queue_push_ready(batch->fixture->queue, &batch->completion);
}

void batch_end_at(struct batch *batch, int64_t due_at_ns) {
  weir_completion_queue *queue = batch->fixture->queue;
  batch->timer.due_at_ns = due_at_ns;
  weir__queue_lock(queue);
  weir__queue_arm_locked(queue, &batch->timer);
  weir__queue_unlock(queue);
  weir__queue_wake_for_timer(queue);
}

/* --- batches of the engine's own --- */

static bool held_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  struct held_batch *batch = WEIR__CONTAINER_OF(completion, struct held_batch, held.completion);
  struct queue_fixture *fixture = batch->fixture;
  (void)ok;
  *event_out = (grpc_event){.type = GRPC_OP_COMPLETE, .success = 1, .tag = &fixture->type};
  for (size_t i = 0; i < batch->n_ends; i++) {
    batch_end(batch->ends[i]);
  }
  weir__queue_let_go(fixture->queue, &batch->held);
  memset(batch, 0xa5, sizeof *batch);
  weir__queue_block_give(fixture->queue, batch);
  atomic_fetch_add(&fixture->n_let_go, 1);
  return false;
}

static const struct weir__completion_ops held_ops = {.on_event = held_on_event, .deliver = NULL};

static void held_on_close(struct weir__held *held) {
  held_post(WEIR__CONTAINER_OF(held, struct held_batch, held));
}

struct held_batch *held_begin(struct queue_fixture *fixture) {
  struct held_batch *batch = weir__queue_block_take(fixture->queue);
  assert_non_null(batch);
  batch->fixture = fixture;
  batch->held.completion.ops = &held_ops;
  batch->held.on_close = held_on_close;
  assert_int_equal(weir__queue_hold(fixture->queue, &batch->held), WEIR_OK);
  return batch;
}

void held_post(struct held_batch *batch) {
  foreign_post(batch->fixture, &batch->held.completion);
}

/* --- what is not weir's --- */

void foreign_post(struct queue_fixture *fixture, void *tag) {
  assert_int_equal(weir__transport_core()->call_start_batch(fixture->lame, NULL, 0, tag, NULL),
                   GRPC_CALL_OK);
}

void foreign_post_failed(struct queue_fixture *fixture, void *tag) {
  grpc_channel *channel =
      grpc_lame_client_channel_create("weir:foreign", GRPC_STATUS_UNAVAILABLE, "never sent");
  /* Waits for a change that does not come, until a time that is past. */
  grpc_channel_watch_connectivity_state(channel, GRPC_CHANNEL_SHUTDOWN, at_once(),
                                        weir_completion_queue_core(fixture->queue), tag);
  grpc_channel_destroy(channel);
}

void foreign_post_failed_at_once(struct queue_fixture *fixture, void *tag) {
  post_failed_at_once(weir_completion_queue_core(fixture->queue), tag);
}

void post_failed_at_once(grpc_completion_queue *core, void *tag) {
  const struct weir__transport *transport = weir__transport_core();
  grpc_call *call = transport->bell_create(NULL, core);
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_SEND_INITIAL_METADATA;
  assert_int_equal(transport->call_start_batch(call, &op, 1, tag, NULL), GRPC_CALL_OK);
  grpc_call_unref(call);
}

/* --- time and chance --- */

gpr_timespec never(void) {
  return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

gpr_timespec at_once(void) {
  return gpr_inf_past(GPR_CLOCK_MONOTONIC);
}

gpr_timespec in_ms(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

int64_t due_in_ms(const struct queue_fixture *fixture, int64_t ms) {
  return weir__queue_now_ns(fixture->queue) + ms * 1000000;
}

uint64_t random_next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

void random_yield(uint64_t *seed) {
  for (uint64_t n = random_next(seed) % 4; n > 0; n--) {
    (void)sched_yield();
  }
}
