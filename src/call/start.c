/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sched.h>
#include <string.h>

#include <grpc/byte_buffer.h>

#include "src/call/breaker_news.h"
#include "src/call/call.h"
#include "src/call/one_batch.h"
#include "src/call/reconnect.h"
#include "src/call/retry_owner.h"
#include "src/call/stream.h"
#include "src/call/stream_message.h"

/* --- batches that the core is never given --- */

/* In a block of its own: few calls have one, and of those that are empty any number may be under
 * way. */
struct lone_batch {
  struct weir__completion completion;
  weir_call *call;
};

static bool lone_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  (void)ok;
  (void)completion;
  (void)event_out;
  return false; /* never given to the core */
}

/* NULL: it was not begun, for `error_out`. */
static struct lone_batch *lone_begin(weir_call *call, const struct weir__completion_ops *ops,
                                     void *tag, grpc_call_error *error_out) {
  struct lone_batch *batch = weir__queue_block_take(call->queue);
  if (batch == NULL) {
    *error_out = GRPC_CALL_ERROR;
    return NULL;
  }
  batch->completion.ops = ops;
  batch->call = call;
  enum weir_error error = weir__call_begin_batch(call, &batch->completion, tag);
  if (error != WEIR_OK) {
    *error_out = weir__call_error_of(error);
    weir__queue_block_give(call->queue, batch);
    return NULL;
  }
  return batch;
}

/* Gives the block back, and says what was in it. */
static struct lone_batch lone_take_out(struct weir__completion *completion) {
  struct lone_batch *block = WEIR__CONTAINER_OF(completion, struct lone_batch, completion);
  struct lone_batch batch = *block;
  weir__queue_block_give(batch.call->queue, block);
  return batch;
}

/* --- empty batches --- */

/* Its tag comes back at once, whatever the call does. */
static void deliver_empty(struct weir__completion *completion, grpc_event *event_out) {
  struct lone_batch batch = lone_take_out(completion);
  event_out->type = GRPC_OP_COMPLETE;
  event_out->tag = batch.completion.app_tag;
  event_out->success = 1;
  weir__call_release(batch.call);
}

static const struct weir__completion_ops empty_ops = {.on_event = lone_on_event,
                                                      .deliver = deliver_empty};

static grpc_call_error start_empty(weir_call *call, void *tag) {
  grpc_call_error error = GRPC_CALL_OK;
  struct lone_batch *batch = lone_begin(call, &empty_ops, tag, &error);
  if (batch != NULL) {
    weir__queue_push_ready(call->queue, &batch->completion);
  }
  return error;
}

/* --- claims --- */

static unsigned claims_of(const struct weir__batch *batch) {
  unsigned once = batch->op_types & WEIR__ONCE_OPS;
  return once | WEIR__CLAIM_SLOT(batch->slot) | WEIR__CLAIM_AGAIN(batch->op_types);
}

/* Takes what a batch needs; false when some of it is taken, as the core would refuse it. */
static bool claim_batch(weir_call *call, unsigned wanted) {
  unsigned claims = atomic_load(&call->claims);
  do {
    if ((claims & wanted) != 0) {
      return false;
    }
  } while (!atomic_compare_exchange_weak(&call->claims, &claims, claims | wanted));
  return true;
}

/* --- the first batch, and those after it --- */

static void set_outputs(weir_call *call, const struct weir__batch *batch) {
  struct weir__outputs *outputs = &call->outputs;
  if (batch->recv_initial_metadata != NULL) {
    outputs->initial_metadata =
        batch->recv_initial_metadata->data.recv_initial_metadata.recv_initial_metadata;
  }
  if (batch->recv_message != NULL) {
    outputs->message = batch->recv_message->data.recv_message.recv_message;
  }
  if (batch->recv_status != NULL) {
    outputs->trailing_metadata = batch->recv_status->data.recv_status_on_client.trailing_metadata;
    outputs->status = batch->recv_status->data.recv_status_on_client.status;
    outputs->details = batch->recv_status->data.recv_status_on_client.status_details;
    outputs->error_string = batch->recv_status->data.recv_status_on_client.error_string;
  }
}

/* Where a batch of a call's first, or of a stream's, is written down. */
static struct weir__completion *completion_of(weir_call *call, const struct weir__batch *batch) {
  return call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH ? &call->batch
                                                       : &call->stream->batches[batch->slot];
}

/* The batch's tag is owed from here on, but for an unshared call's. */
static inline grpc_call_error begin(weir_call *call, const struct weir__batch *batch, void *tag,
                                    const struct weir__completion_ops *ops) {
  struct weir__completion *completion = completion_of(call, batch);
  completion->ops = ops;
  completion->slot = batch->slot;
  completion->op_types = batch->op_types;
  completion->core_op_types = batch->op_types;
  completion->ok = false;
  enum weir_error error = call->unshared ? WEIR_OK : weir__call_begin_batch(call, completion, tag);
  if (error != WEIR_OK) {
    return weir__call_error_of(error);
  }
  set_outputs(call, batch);
  return GRPC_CALL_OK;
}

/* Takes what may have to be sent again. */
static void keep_request(weir_call *call, const struct weir__batch *batch) {
  if (call->plan.shape == WEIR_CALL_SHAPE_STREAM) {
    call->plan.replayable = call->environment->signals_trusted;
    return;
  }
  weir__request_init(&call->request, batch);
  weir__request_keep(&call->request, call->plan.method->retry_options,
                     &call->environment->replay_budget, call->environment->allocator);
  call->plan.replayable = call->request.kept;
}

/* An application that hands its request's metadata on, or is a stack of its own, marks the call
 * itself. */
static void plan_owner(weir_call *call, const struct weir__batch *batch) {
  if (weir__retry_owner_is_sent(batch->send_initial_metadata)) {
    call->plan.outer_owns_retries = true;
  }
}

/* An unshared call is not over at once: its tag is owed from here on. Its queue is open. */
static void share(weir_call *call) {
  enum weir_error error = weir__call_begin_batch(call, &call->batch, call);
  assert(error == WEIR_OK);
  (void)error;
  call->unshared = false;
}

/* Asks the layers, and makes the first attempt. `*refused_out`: the call ended here, with
 * call->outcome. */
static grpc_call_error first_attempt(weir_call *call, const struct weir__batch *batch,
                                     const struct weir_event *event, bool *refused_out) {
  const struct weir__stack *stack = &call->rules->stack;
  bool one_batch = call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH;
  *refused_out = true;
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_CANCELLED) != 0) {
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_CANCEL, event->now_ns);
    call->plan.reason = WEIR_REASON_CANCELLED;
    return GRPC_CALL_OK;
  }
  if (weir__call_request_too_large(call, batch)) {
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_LIMIT, event->now_ns);
    call->plan.reason = WEIR_REASON_LIMIT;
    return GRPC_CALL_OK;
  }
  keep_request(call, batch);
  plan_owner(call, batch);
  enum weir_admission admission =
      weir__stack_admit(stack, call->layer_states, event, &call->plan, &call->n_admitted);
  call->n_unsettled = call->n_admitted;
  if (call->plan.breaker_state != WEIR_BREAKER_CLOSED) {
    weir__reconnect_for_probe(call, event->now_ns);
  }
  if (call->plan.breaker_changed) {
    weir__breaker_news_pass_on(call, NULL, event->now_ns);
  }
  if (call->plan.deadline_clamped && !call->clamp_counted) {
    call->clamp_counted = true; /* a first batch that comes to nothing may be followed by another */
    weir__call_counter_bump(&call->environment->counters.n_clamped_deadlines);
  }
  if (admission == WEIR_ADMISSION_REFUSE) {
    weir__call_set_local_outcome(call, call->plan.refused_as, event->now_ns);
    return GRPC_CALL_OK;
  }
  *refused_out = false;
  if (call->unshared) {
    share(call);
  }
  call->attempt.deadline_at_ns = weir__call_attempt_deadline_at_ns(call, event->now_ns);
  call->attempt.core = weir__call_create_core(call, call->attempt.deadline_at_ns);
  weir__call_begin_attempt(call, event->now_ns);
  /* release: attempt.core, for a canceller. Who comes second of it and this cancels the core's
   * call. */
  unsigned state = atomic_fetch_or_explicit(&call->state, WEIR__CALL_STARTED, memory_order_acq_rel);
  grpc_call *core = call->attempt.core;
  if ((state & WEIR__CALL_CANCELLED) != 0) {
    weir__call_cancel_core(call, core);
  }
  weir__call_watch_time(call);
  return one_batch ? weir__one_batch_send(call, call->request.message, event->now_ns)
                   : weir__stream_start(call, batch, event->now_ns);
}

/* Nothing came of the first batch: as if it had not been started. */
static void undo_first(weir_call *call, const struct weir_event *event, int64_t deadline_at_ns) {
  weir__stack_release(&call->rules->stack, call->layer_states, event, &call->plan,
                      call->n_admitted);
  memset(call->layer_states, 0, call->rules->stack.states_bytes);
  call->n_admitted = 0;
  call->n_unsettled = 0;
  weir__queue_expire_never(call->queue, call);
  weir__call_drop_request(call);
  memset(&call->request, 0, sizeof call->request); /* whose shape is not known any more */
  memset(&call->plan, 0, sizeof call->plan);
  weir__call_init_plan(call, deadline_at_ns);
  call->n_sent = 0;
  /* A canceller, or a look through the times, may be about to read the attempt; afterwards it is
   * nobody's but the starter's. */
  weir__queue_lock(call->queue);
  struct weir__attempt attempt = call->attempt;
  memset(&call->attempt, 0, sizeof call->attempt);
  atomic_fetch_and(&call->state, ~(unsigned)WEIR__CALL_STARTED);
  weir__queue_unlock(call->queue);
  weir__attempt_fini(&attempt, weir__queue_transport(call->queue));
  weir__call_abandon_batch(call);
  /* Last: another thread may be waiting to be the first. */
  atomic_fetch_and(&call->state, ~(unsigned)(WEIR__CALL_STARTING | WEIR__CALL_DIRECT));
}

/* The call ends before anything was sent. */
static void end_unsent(weir_call *call, struct weir__completion *completion,
                       const struct weir_event *event) {
  bool has_ended = true;
  if (call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH) {
    /* Before: when a fallback is asked, the call may be over as soon as that has begun. */
    (void)weir__call_state_add(call, WEIR__CALL_STARTED);
    has_ended = weir__call_end_or_ask(call, event);
  } else {
    weir__call_end(call, event);
    atomic_fetch_or_explicit(&call->state, WEIR__CALL_STARTED, memory_order_release);
  }
  if (has_ended && call->unshared) {
    (void)weir__call_hand_out(call, completion->op_types, true);
  } else if (has_ended) {
    weir__queue_push_ready(call->queue, completion);
  }
}

static grpc_call_error start_first(weir_call *call, const struct weir__batch *batch, void *tag) {
  bool one_batch = (batch->op_types & WEIR__UNARY_OPS) == WEIR__UNARY_OPS;
  call->plan.shape = one_batch ? WEIR_CALL_SHAPE_ONE_BATCH : WEIR_CALL_SHAPE_STREAM;
  grpc_call_error error = GRPC_CALL_ERROR;
  if (one_batch || weir__stream_open(call)) {
    error = begin(call, batch, tag, one_batch ? &weir__one_batch_ops : &weir__stream_ops);
  }
  if (error != GRPC_CALL_OK) {
    weir__call_drop_request(call);
    atomic_fetch_and(&call->state, ~(unsigned)WEIR__CALL_STARTING);
    return error;
  }
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  int64_t deadline_at_ns = call->plan.deadline_at_ns; /* before the layers bring it nearer */
  call->plan.started_at_ns = event.now_ns;
  bool refused = false;
  error = first_attempt(call, batch, &event, &refused);
  if (error != GRPC_CALL_OK) {
    undo_first(call, &event, deadline_at_ns);
  } else if (refused) {
    end_unsent(call, completion_of(call, batch), &event);
  }
  return error;
}

static void deliver_beside(struct weir__completion *completion, grpc_event *event_out) {
  struct lone_batch batch = lone_take_out(completion);
  weir__call_hand_over_ready(batch.call, &batch.completion, event_out);
}

static const struct weir__completion_ops beside_ops = {.on_event = lone_on_event,
                                                       .deliver = deliver_beside};

/* A batch beside, or after, a one-batch call. While that is under way, only the initial metadata
 * can be left to ask for: they come with its end. */
static grpc_call_error start_beside_one_batch(weir_call *call, const struct weir__batch *batch,
                                              void *tag) {
  grpc_call_error error = GRPC_CALL_OK;
  struct lone_batch *beside = lone_begin(call, &beside_ops, tag, &error);
  if (beside == NULL) {
    return error;
  }
  beside->completion.slot = batch->slot;
  beside->completion.op_types = batch->op_types;
  set_outputs(call, batch);
  unsigned state = WEIR__CALL_ENDED;
  if (batch->recv_initial_metadata != NULL) {
    call->awaiting = &beside->completion;
    /* release: the batch, for the thread that ends the call; acquire: what it left, if it has */
    state =
        atomic_fetch_or_explicit(&call->state, WEIR__CALL_METADATA_AWAITED, memory_order_acq_rel);
  }
  if ((state & WEIR__CALL_ENDED) != 0) {
    weir__queue_push_ready(call->queue, &beside->completion);
  }
  return GRPC_CALL_OK;
}

/* A batch after the first. */
static grpc_call_error start_further(weir_call *call, const struct weir__batch *batch, void *tag) {
  if (call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH) {
    return start_beside_one_batch(call, batch, tag);
  }
  grpc_call_error error = begin(call, batch, tag, &weir__stream_ops);
  if (error != GRPC_CALL_OK) {
    return error;
  }
  /* Until the call has ended, the attempt may be changing. acquire: pairs with its end */
  bool ended = (atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) != 0;
  if (ended && call->attempt.core == NULL) {
    /* It ended before it was sent: nothing is left to be sent or received. */
    weir__queue_push_ready(call->queue, completion_of(call, batch));
    return GRPC_CALL_OK;
  }
  int64_t now_ns = batch->send_initial_metadata != NULL ? weir__queue_now_ns(call->queue)
                                                        : 0; /* only it tells a time */
  error = weir__stream_start(call, batch, now_ns);
  if (error != GRPC_CALL_OK) {
    weir__call_abandon_batch(call);
  }
  return error;
}

/* True: the calling thread starts the first batch. False: another has. Two threads meet here when
 * one only sends and one only receives; the second waits for the few steps of the first. */
static bool take_first(weir_call *call) {
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_STARTED) != 0) {
    return false;
  }
  for (;;) {
    unsigned state =
        atomic_fetch_or_explicit(&call->state, WEIR__CALL_STARTING, memory_order_acq_rel);
    if ((state & WEIR__CALL_STARTED) != 0) {
      return false;
    }
    if ((state & WEIR__CALL_STARTING) == 0) {
      return true;
    }
    (void)sched_yield();
  }
}

/* Apart, so that the short way needs none of its stack. */
__attribute__((noinline)) static grpc_call_error start_batch(weir_call *call, const grpc_op *ops,
                                                             size_t n_ops, void *tag) {
  if (n_ops == 0) {
    return start_empty(call, tag);
  }
  struct weir__batch batch;
  grpc_call_error error = weir__batch_read(ops, n_ops, atomic_load(&call->claims), &batch);
  if (error != GRPC_CALL_OK) {
    return error;
  }
  unsigned wanted = claims_of(&batch);
  if (!claim_batch(call, wanted)) {
    return GRPC_CALL_ERROR_TOO_MANY_OPERATIONS;
  }
  error = take_first(call) ? start_first(call, &batch, tag) : start_further(call, &batch, tag);
  if (error != GRPC_CALL_OK) {
    atomic_fetch_and(&call->claims, ~wanted);
  }
  return error;
}

grpc_call_error weir_call_start_batch(weir_call *call, const grpc_op *ops, size_t nops, void *tag,
                                      void *reserved) {
  if (reserved != NULL) {
    return GRPC_CALL_ERROR;
  }
  weir__stream_message_fn *start = nops == 1 ? weir__stream_message_way(call, ops) : NULL;
  if (start != NULL) {
    return start(call, ops, tag);
  }
  return start_batch(call, ops, nops, tag);
}

grpc_call_error weir__call_start_blocking(weir_call *call, const struct weir__batch *batch,
                                          bool *over_out) {
  unsigned claims = claims_of(batch);
  call->unshared = call->environment->fallbacks == NULL; /* which may be asked by other threads */
  atomic_store_explicit(&call->claims, claims, memory_order_relaxed);
  (void)weir__call_state_add(call, WEIR__CALL_STARTING);
  grpc_call_error error = start_first(call, batch, call);
  *over_out = error == GRPC_CALL_OK && call->unshared;
  if (*over_out) {
    call->unshared = false;
    atomic_store_explicit(&call->claims, claims & WEIR__ONCE_OPS, memory_order_relaxed);
  }
  return error;
}
