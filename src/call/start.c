/* SPDX-License-Identifier: Apache-2.0 */
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

/* --- empty batches --- */

/* Its tag comes back at once, whatever the call does. In a block of its own, since any number may
 * be under way. */
struct empty_batch {
  struct weir__completion completion;
  weir_call *call;
};

static void deliver_empty(struct weir__completion *completion, grpc_event *event_out) {
  struct empty_batch *batch = WEIR__CONTAINER_OF(completion, struct empty_batch, completion);
  weir_call *call = batch->call;
  event_out->type = GRPC_OP_COMPLETE;
  event_out->tag = completion->app_tag;
  event_out->success = 1;
  weir__queue_block_give(call->queue, batch);
  weir__call_release(call);
}

static bool empty_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  (void)ok;
  (void)completion;
  (void)event_out;
  return false; /* never given to the core */
}

static const struct weir__completion_ops empty_ops = {.on_event = empty_on_event,
                                                      .deliver = deliver_empty};

static grpc_call_error start_empty(weir_call *call, void *tag) {
  struct empty_batch *batch = weir__queue_block_take(call->queue);
  if (batch == NULL) {
    return GRPC_CALL_ERROR;
  }
  batch->completion.ops = &empty_ops;
  batch->call = call;
  enum weir_error error = weir__queue_begin(call->queue, &batch->completion, tag);
  if (error != WEIR_OK) {
    weir__queue_block_give(call->queue, batch);
    return weir__call_error_of(error);
  }
  atomic_fetch_add_explicit(&call->n_refs, 1, memory_order_relaxed);
  weir__queue_push_ready(call->queue, &batch->completion);
  return GRPC_CALL_OK;
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

/* The batch's tag is owed from here on. */
static grpc_call_error begin(weir_call *call, const struct weir__batch *batch, void *tag,
                             const struct weir__completion_ops *ops) {
  struct weir__completion *completion = &call->completions[batch->slot];
  completion->ops = ops;
  completion->op_types = batch->op_types;
  completion->core_op_types = batch->op_types;
  completion->ok = false;
  grpc_call_error error = weir__call_begin_batch(call, completion, tag);
  if (error == GRPC_CALL_OK) {
    set_outputs(call, batch);
  }
  return error;
}

/* Takes what may have to be sent again. False: there is no memory for what is needed at all. */
static bool keep_request(weir_call *call, const struct weir__batch *batch) {
  if (call->plan.shape == WEIR_CALL_SHAPE_STREAM) {
    call->plan.replayable = call->environment->signals_trusted;
    return weir__stream_open(call);
  }
  weir__request_init(&call->request, batch);
  weir__request_keep(&call->request, call->plan.method->retry_options,
                     &call->environment->replay_budget, call->environment->allocator);
  call->plan.replayable = call->request.kept;
  return true;
}

/* An application that hands its request's metadata on, or is a stack of its own, marks the call
 * itself. */
static void plan_owner(weir_call *call, const struct weir__batch *batch) {
  if (weir__retry_owner_is_sent(batch->send_initial_metadata)) {
    call->plan.outer_owns_retries = true;
  }
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
  if (!keep_request(call, batch)) {
    return GRPC_CALL_ERROR;
  }
  plan_owner(call, batch);
  enum weir_admission admission =
      weir__stack_admit(stack, call->layer_states, event, &call->plan, &call->n_admitted);
  call->n_unsettled = call->n_admitted;
  if (call->plan.breaker_state != WEIR_BREAKER_CLOSED) {
    weir__reconnect_for_probe(call, event->now_ns);
  }
  struct weir__breaker_news news;
  if (weir__breaker_news_take(call, NULL, event->now_ns, &news)) {
    weir__breaker_news_tell(call->environment, &news);
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
  return one_batch ? weir__one_batch_send(call, call->request.message, event->now_ns,
                                          &call->completions[batch->slot])
                   : weir__stream_start(call, batch, event->now_ns);
}

/* Nothing came of the first batch: as if it had not been started. */
static void undo_first(weir_call *call, const struct weir__batch *batch,
                       const struct weir_event *event, int64_t deadline_at_ns) {
  weir__stack_release(&call->rules->stack, call->layer_states, event, &call->plan,
                      call->n_admitted);
  memset(call->layer_states, 0, call->rules->stack.states_bytes);
  call->n_admitted = 0;
  call->n_unsettled = 0;
  weir__queue_expire_never(call->queue, call);
  weir__call_drop_request(call);
  memset(&call->request, 0, sizeof call->request); /* whose shape is not known any more */
  weir__call_init_plan(call, deadline_at_ns);
  call->n_sent = 0;
  weir__queue_lock(call->queue); /* a canceller may look for an attempt */
  struct weir__attempt attempt = call->attempt;
  memset(&call->attempt, 0, sizeof call->attempt);
  call->attempt.details = grpc_empty_slice();
  weir__queue_unlock(call->queue);
  weir__attempt_fini(&attempt, weir__queue_transport(call->queue));
  weir__call_abandon_batch(call, &call->completions[batch->slot]);
  /* Last: another thread may be waiting to be the first. */
  atomic_fetch_and(&call->state,
                   ~(unsigned)(WEIR__CALL_STARTED | WEIR__CALL_STARTING | WEIR__CALL_DIRECT));
}

/* The call ends before anything was sent. */
static void end_unsent(weir_call *call, struct weir__completion *completion,
                       const struct weir_event *event) {
  bool has_ended = true;
  if (call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH) {
    /* Before: when a fallback is asked, the call may be over as soon as that has begun. */
    atomic_fetch_or_explicit(&call->state, WEIR__CALL_STARTED, memory_order_release);
    has_ended = weir__call_end_or_ask(call, event);
  } else {
    weir__call_end(call, event);
    atomic_fetch_or_explicit(&call->state, WEIR__CALL_STARTED, memory_order_release);
  }
  if (has_ended && call->blocking) {
    grpc_event event_of_nobody;
    call->blocking = false;
    weir__queue_hand_out(call->queue, completion, &event_of_nobody);
  } else if (has_ended) {
    weir__queue_push_ready(call->queue, completion);
  }
}

static grpc_call_error start_first(weir_call *call, const struct weir__batch *batch, void *tag) {
  bool one_batch = (batch->op_types & WEIR__UNARY_OPS) == WEIR__UNARY_OPS;
  grpc_call_error error =
      begin(call, batch, tag, one_batch ? &weir__one_batch_ops : &weir__stream_ops);
  if (error != GRPC_CALL_OK) {
    atomic_fetch_and(&call->state, ~(unsigned)WEIR__CALL_STARTING);
    return error;
  }
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  int64_t deadline_at_ns = call->plan.deadline_at_ns; /* before the layers bring it nearer */
  call->plan.shape = one_batch ? WEIR_CALL_SHAPE_ONE_BATCH : WEIR_CALL_SHAPE_STREAM;
  call->plan.started_at_ns = event.now_ns;
  bool refused = false;
  error = first_attempt(call, batch, &event, &refused);
  if (error != GRPC_CALL_OK) {
    undo_first(call, batch, &event, deadline_at_ns);
  } else if (refused) {
    end_unsent(call, &call->completions[batch->slot], &event);
  }
  return error;
}

/* Never given to the core. */
static const struct weir__completion_ops beside_ops = {.on_event = empty_on_event,
                                                       .deliver = weir__call_deliver_ready};

/* A batch beside, or after, a one-batch call. While that is under way, only the initial metadata
 * can be left to ask for: they come with its end. */
static void start_beside_one_batch(weir_call *call, const struct weir__batch *batch) {
  unsigned state = WEIR__CALL_ENDED;
  if (batch->recv_initial_metadata != NULL) {
    /* release: the batch, for the thread that ends the call; acquire: what it left, if it has */
    state =
        atomic_fetch_or_explicit(&call->state, WEIR__CALL_METADATA_AWAITED, memory_order_acq_rel);
  }
  if ((state & WEIR__CALL_ENDED) != 0) {
    weir__queue_push_ready(call->queue, &call->completions[batch->slot]);
  }
}

/* A batch after the first. */
static grpc_call_error start_further(weir_call *call, const struct weir__batch *batch, void *tag) {
  bool one_batch = call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH;
  grpc_call_error error = begin(call, batch, tag, one_batch ? &beside_ops : &weir__stream_ops);
  if (error != GRPC_CALL_OK) {
    return error;
  }
  if (one_batch) {
    start_beside_one_batch(call, batch);
    return GRPC_CALL_OK;
  }
  /* Until the call has ended, the attempt may be changing. acquire: pairs with its end */
  bool ended = (atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) != 0;
  if (ended && call->attempt.core == NULL) {
    /* It ended before it was sent: nothing is left to be sent or received. */
    weir__queue_push_ready(call->queue, &call->completions[batch->slot]);
    return GRPC_CALL_OK;
  }
  int64_t now_ns = batch->send_initial_metadata != NULL ? weir__queue_now_ns(call->queue)
                                                        : 0; /* only it tells a time */
  error = weir__stream_start(call, batch, now_ns);
  if (error != GRPC_CALL_OK) {
    weir__call_abandon_batch(call, &call->completions[batch->slot]);
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
  if (nops == 1 && weir__stream_message_fits(call, ops)) {
    return weir__stream_message_start(call, ops, tag);
  }
  return start_batch(call, ops, nops, tag);
}

grpc_call_error weir__call_start_blocking(weir_call *call, const grpc_op *ops, size_t n_ops,
                                          bool *over_out) {
  call->blocking = true;
  grpc_call_error error = start_batch(call, ops, n_ops, call);
  *over_out = !call->blocking;
  call->blocking = false;
  return error;
}
