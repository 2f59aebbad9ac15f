/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream.h"
#include "src/call/breaker_news.h"

#include <sched.h>

#include <grpc/byte_buffer.h>

#include "src/call/backoff.h"
#include "src/call/retry_owner.h"
#include "src/call/stream_attempt.h"
#include "src/call/stream_timer.h"

/* What is to be done once the lock is let go. */
struct step {
  uint8_t handed; /* slots whose batches are to be handed out */
  bool judge;     /* the attempt is over: go on, or end */
  bool end;       /* the committed call is over */
};

static const struct weir__completion_ops own_ops;
static void own_on_close(struct weir__held *held);

/* --- life --- */

bool weir__stream_open(weir_call *call) {
  struct weir__stream *stream = weir__queue_block_take(call->queue);
  call->stream = stream;
  if (stream == NULL) {
    return false;
  }
  if (!call->environment->signals_trusted) {
    stream->guarded.overflowed = true; /* nothing is kept: each failure counts as committed */
    stream->guarded.committed = true;
  }
  stream->call = call;
  for (unsigned number = 0; number < WEIR__N_OWN_BATCHES; number++) {
    stream->own[number].completion.slot = (uint8_t)number;
    stream->own[number].completion.ops = &own_ops;
    stream->own[number].on_close = own_on_close;
  }
  stream->timer.on_due = weir__stream_timer_on_due;
  weir__stream_timer_renew_locked(stream);
  pthread_mutex_init(&stream->guarded.lock, NULL);
  return true;
}

void weir__stream_release(weir_call *call) {
  struct weir__stream *stream = call->stream;
  if (stream == NULL) {
    return;
  }
  call->stream = NULL;
  weir__replay_drop(&stream->guarded.replay, &call->environment->replay_budget,
                    call->environment->allocator);
  pthread_mutex_destroy(&stream->guarded.lock);
  weir__queue_block_give(call->queue, stream);
}

bool weir__stream_is_between(const weir_call *call) {
  /* Without the lock: asked by the thread that is deciding, and so set it. */
  return call->stream != NULL && call->stream->guarded.phase == WEIR__STREAM_BETWEEN;
}

/* --- what comes back --- */

/* Ends a stream's attempt, and so the call, with RESOURCE_EXHAUSTED of this process. */
static void stream_hit_limit(weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  atomic_store(&call->limit_hit, true);
  transport->call_cancel(transport->context, call->attempt.core, GRPC_STATUS_RESOURCE_EXHAUSTED,
                         "a message is larger than the policy allows");
}

/* A stream's message has come, or its end. False: the application is not to have it. */
static bool stream_on_message(weir_call *call) {
  if (call->attempt.message == NULL) {
    return true;
  }
  uint32_t limit = call->plan.method->max_response_bytes;
  if (limit != WEIR_NO_LIMIT_BYTES && grpc_byte_buffer_length(call->attempt.message) > limit) {
    grpc_byte_buffer_destroy(call->attempt.message);
    call->attempt.message = NULL;
    stream_hit_limit(call);
    return false;
  }
  unsigned char progress = atomic_load_explicit(&call->progress, memory_order_relaxed);
  if (progress == WEIR__PROGRESS_NONE &&
      atomic_compare_exchange_strong(&call->progress, &progress, WEIR__PROGRESS_RUNNING)) {
    struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
    weir__stack_progress(&call->rules->stack, call->layer_states, &event, &call->plan);
    struct weir__breaker_news news;
    bool is_news = weir__breaker_news_take(call, &(struct weir_outcome){.code = GRPC_STATUS_OK},
                                           event.now_ns, &news);
    atomic_store(&call->progress, WEIR__PROGRESS_DONE);
    if (is_news) {
      weir__breaker_news_tell(call->environment, &news);
    }
  } else if (progress == WEIR__PROGRESS_TOLD) {
    (void)atomic_compare_exchange_strong(&call->progress, &progress, WEIR__PROGRESS_DONE);
  }
  return true;
}

/* Waits until no other thread tells the layers of the first message: hooks of one call never run at
 * once. Says whether there was one on this attempt. */
static bool stream_finish_progress(weir_call *call) {
  unsigned char progress = WEIR__PROGRESS_NONE;
  if (atomic_compare_exchange_strong(&call->progress, &progress, WEIR__PROGRESS_DONE) ||
      progress == WEIR__PROGRESS_TOLD) {
    return false;
  }
  while (atomic_load(&call->progress) == WEIR__PROGRESS_RUNNING) {
    (void)sched_yield();
  }
  return true;
}

/* The committed call's status has come. */
static void stream_on_status(weir_call *call) {
  bool got_message = stream_finish_progress(call);
  const struct weir__arrivals arrivals = {
      .message = got_message,
      .message_asked = atomic_load(&call->message_tried),
      .initial_capacity = atomic_load(&call->initial_capacity),
      .limit_exceeded = atomic_load(&call->limit_hit),
      .timed_out = weir__stream_timer_ended(call),
  };
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  weir__call_classify(call, &arrivals, event.now_ns);
  weir__call_end(call, &event);
}

/* Notes what a batch has received. False: the application is not to have it. */
static bool note_received(weir_call *call, uint8_t op_types, bool ok) {
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA)) != 0) {
    size_t capacity = call->attempt.initial_metadata.capacity;
    atomic_store(&call->initial_capacity, capacity > UINT32_MAX ? UINT32_MAX : (unsigned)capacity);
  }
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)) != 0) {
    atomic_store(&call->message_tried, true);
    return stream_on_message(call) && ok;
  }
  return ok;
}

/* --- deciding, under the lock --- */

static bool in_slot(uint8_t slots, uint8_t slot) {
  return (slots & (1u << slot)) != 0;
}

/* Whether the pending batch in `slot` is over. */
static bool is_done_locked(const struct weir__stream *stream, uint8_t slot) {
  return in_slot(stream->guarded.pending, slot) &&
         (stream->batches[slot].op_types & stream->guarded.marks.undone) == 0;
}

static bool has_failed_locked(const struct weir__stream *stream, uint8_t slot) {
  uint8_t op_types = stream->batches[slot].op_types;
  bool has_status = (op_types & WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT)) != 0;
  return !has_status && (op_types & stream->guarded.marks.failed) != 0;
}

static void hand_out_locked(struct weir__stream *stream, uint8_t slot, struct step *step) {
  stream->batches[slot].ok = !has_failed_locked(stream, slot);
  stream->guarded.pending &= (uint8_t) ~(1u << slot);
  step->handed |= (uint8_t)(1u << slot);
}

/* Hands out what is over and has none of `but_not`. */
static void hand_out_done_locked(struct weir__stream *stream, uint8_t but_not, struct step *step) {
  for (uint8_t slot = 0; slot < WEIR__N_CLIENT_OPS; slot++) {
    if (is_done_locked(stream, slot) && (stream->batches[slot].op_types & but_not) == 0) {
      hand_out_locked(stream, slot, step);
    }
  }
}

/* Hands out what was only sent, and well. What is over beyond that waits for the status. */
static bool hand_out_sent_locked(struct weir__stream *stream, struct step *step) {
  bool any_held = false;
  for (uint8_t slot = 0; slot < WEIR__N_CLIENT_OPS; slot++) {
    if (!is_done_locked(stream, slot)) {
      continue;
    }
    if ((stream->batches[slot].op_types & WEIR__RECEIVES) == 0 &&
        !has_failed_locked(stream, slot)) {
      hand_out_locked(stream, slot, step);
    } else {
      any_held = true;
    }
  }
  return any_held;
}

static void drop_replay_locked(struct weir__stream *stream) {
  struct weir__environment *environment = stream->call->environment;
  weir__replay_drop(&stream->guarded.replay, &environment->replay_budget, environment->allocator);
}

/* Whether each pending batch waits for its own event of the core only. */
static bool all_pending_are_passed_locked(const struct weir__stream *stream) {
  for (uint8_t slot = 0; slot < WEIR__N_CLIENT_OPS; slot++) {
    const struct weir__completion *completion = &stream->batches[slot];
    if (in_slot(stream->guarded.pending, slot) &&
        ((completion->op_types & stream->guarded.marks.undone & ~completion->core_op_types) != 0 ||
         (completion->op_types & stream->guarded.marks.failed) != 0)) {
      return false;
    }
  }
  return true;
}

/* What the layers are to know of the call when they are asked about its end. */
static void tell_plan_locked(struct weir__stream *stream) {
  struct weir_plan *plan = &stream->call->plan;
  plan->replayable = !stream->guarded.overflowed;
  plan->outer_owns_retries = plan->outer_owns_retries || stream->guarded.outer_owns_retries;
}

/* Once nothing is between the application and the core any more, nothing need be written down. */
static void pass_straight_locked(struct weir__stream *stream) {
  if (stream->guarded.pumping) {
    return;
  }
  drop_replay_locked(stream);
  tell_plan_locked(stream);
  if (stream->guarded.timer_state != WEIR__STREAM_TIMER_OFF) {
    return; /* the answer has to be noticed */
  }
  const uint8_t headers = WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA);
  if (stream->guarded.n_own == 0 && stream->guarded.marks.unclaimed == 0 &&
      !stream->guarded.ended_here && (stream->guarded.marks.asked & headers) != 0 &&
      all_pending_are_passed_locked(stream)) {
    /* release: what was done here so far, for who comes without the lock */
    atomic_fetch_or_explicit(&stream->call->state, WEIR__CALL_DIRECT, memory_order_release);
  }
}

static void advance_committed_locked(struct weir__stream *stream, struct step *step) {
  const uint8_t status = WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT);
  bool ended = stream->guarded.phase == WEIR__STREAM_ENDED;
  if (!ended && !stream->guarded.ending && (stream->guarded.marks.came & status) != 0) {
    stream->guarded.ending = true;
    tell_plan_locked(stream);
    step->end = true;
    return;
  }
  if (stream->guarded.ending && !ended) {
    return; /* the call ends before anything else is handed out; what is owed holds it meanwhile */
  }
  hand_out_done_locked(stream, ended ? 0 : status, step);
  pass_straight_locked(stream);
}

static void advance_failed_locked(struct weir__stream *stream, struct step *step) {
  if (!stream->guarded.broken) {
    /* What a failure means depends on all three. Nothing is unread once the status has come. */
    weir__stream_ask_locked(stream, GRPC_OP_RECV_MESSAGE);
  }
  if (stream->guarded.n_under_way == 0) {
    stream->guarded.phase = WEIR__STREAM_BETWEEN;
    tell_plan_locked(stream);
    step->judge = true;
  }
}

/* Without its headers the core hands out nothing of a call, not even its status, and not even when
 * it is cancelled. And where the attempt's time is limited, they have to be noticed. */
static void ask_for_headers_locked(struct weir__stream *stream) {
  const uint8_t others =
      WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE) | WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT);
  if ((stream->guarded.marks.asked & others) != 0 ||
      stream->guarded.timer_state == WEIR__STREAM_TIMER_RUNS) {
    weir__stream_ask_locked(stream, GRPC_OP_RECV_INITIAL_METADATA);
  }
}

/* Looks at where the attempt is, and says what follows. */
static struct step advance_locked(struct weir__stream *stream) {
  struct step step = {.handed = 0, .judge = false, .end = false};
  bool status_came =
      (stream->guarded.marks.came & WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT)) != 0;
  if (stream->guarded.phase == WEIR__STREAM_BETWEEN) {
    return step;
  }
  if (status_came || stream->guarded.broken) {
    weir__stream_stop_pump_locked(stream);
  }
  if (status_came && stream->call->attempt.status == GRPC_STATUS_OK) {
    stream->guarded.committed = true;
  }
  if ((stream->guarded.committed && !stream->guarded.broken) ||
      stream->guarded.phase == WEIR__STREAM_ENDED) {
    if (!stream->guarded.ended_here) {
      weir__stream_close_locked(stream);
    }
    advance_committed_locked(stream, &step);
  } else if (status_came || stream->guarded.broken) {
    advance_failed_locked(stream, &step);
  } else if (hand_out_sent_locked(stream, &step) || stream->guarded.owes_close) {
    /* Nothing more comes of this attempt but its status, unless headers do. */
    weir__stream_ask_locked(stream, GRPC_OP_RECV_STATUS_ON_CLIENT);
    if (stream->guarded.broken) {
      advance_failed_locked(stream, &step); /* nothing else may be under way */
    }
  }
  if (stream->guarded.phase != WEIR__STREAM_BETWEEN && !stream->guarded.ended_here) {
    ask_for_headers_locked(stream);
  }
  return step;
}

/* A part of the response binds the call to this attempt (A6). */
static bool is_answered_locked(const struct weir__stream *stream, uint8_t op_types) {
  const struct weir__attempt *attempt = &stream->call->attempt;
  const struct weir__wire_signals signals = {.initial_capacity =
                                                 attempt->initial_metadata.capacity};
  return ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA)) != 0 &&
          weir__wire_signals_headers_received(&signals)) ||
         ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)) != 0 && attempt->message != NULL);
}

/* What has come of an attempt whose time is limited: an answer, or its end, sets it free. Where the
 * core's signals can't be trusted, anything that comes is an answer. */
__attribute__((noinline)) static void note_limited_locked(struct weir__stream *stream,
                                                          uint8_t op_types) {
  const uint8_t headers = WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA);
  const uint8_t status = WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT);
  if (is_answered_locked(stream, op_types) || (op_types & status) != 0 ||
      ((op_types & headers) != 0 && !stream->call->environment->signals_trusted)) {
    weir__stream_timer_stop_locked(stream);
  }
}

/* A batch that the core had is over. */
static void note_event_locked(struct weir__stream *stream, uint8_t op_types, bool ok) {
  stream->guarded.n_under_way--;
  stream->guarded.marks.came |= op_types & WEIR__RECEIVES;
  stream->guarded.marks.undone &= (uint8_t)~op_types;
  if (!ok) {
    stream->guarded.marks.failed |= op_types;
  }
  /* An attempt that was cut off before is to be followed by another, if one may. */
  if ((is_answered_locked(stream, op_types) && !stream->guarded.timed_out) ||
      atomic_load(&stream->call->limit_hit)) {
    stream->guarded.committed = true;
  }
  if (stream->guarded.timer_state != WEIR__STREAM_TIMER_OFF) {
    note_limited_locked(stream, op_types);
  }
}

/* --- doing, without the lock --- */

static void push_handed(weir_call *call, uint8_t slots) {
  weir_completion_queue *queue = call->queue;
  struct weir__stream *stream = call->stream;
  for (uint8_t slot = 0; slots != 0; slot++, slots >>= 1) {
    if ((slots & 1) != 0) {
      weir__queue_push_ready(queue, &stream->batches[slot]); /* with the last, the call may go */
    }
  }
}

/* An attempt that no part of a response came of is over. */
static void judge(weir_call *call) {
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  bool goes_on = false;
  if (call->stream->guarded.broken) {
    weir__call_note_attempt_time(call, event.now_ns);
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_LIMIT, event.now_ns);
    call->plan.reason = WEIR_REASON_NO_MEMORY;
  } else {
    const struct weir__arrivals arrivals = {
        .initial_capacity = call->attempt.initial_metadata.capacity,
        .message_asked = true,
        .timed_out = weir__stream_timer_ended(call),
    };
    weir__call_classify(call, &arrivals, event.now_ns);
    goes_on = weir__stack_settle(&call->rules->stack, call->layer_states, &event, &call->outcome,
                                 &call->plan, &call->n_unsettled) == WEIR_DISPOSITION_RETRY &&
              weir__backoff_begin(call, &event);
  }
  if (!goes_on) {
    weir__call_end(call, &event);
    weir__stream_end_waiting(call);
  }
}

static struct step end_committed(struct weir__stream *stream) {
  stream_on_status(stream->call);
  pthread_mutex_lock(&stream->guarded.lock);
  stream->guarded.phase = WEIR__STREAM_ENDED;
  struct step step = advance_locked(stream);
  pthread_mutex_unlock(&stream->guarded.lock);
  return step;
}

/* Does what was decided; if that is nothing, the call may be gone. True: `event_out` is that of
 * `current`, which is no longer pending. */
static bool take_step(weir_call *call, struct step step, struct weir__completion *current,
                      grpc_event *event_out) {
  if (step.judge) {
    judge(call); /* the call may be gone */
    return false;
  }
  if (step.end) {
    step = end_committed(call->stream);
  }
  if (step.handed == 0) {
    return false;
  }
  uint8_t own_slot = 0;
  if (current != NULL) {
    own_slot = (uint8_t)(1u << current->slot);
  }
  bool is_handed = (step.handed & own_slot) != 0;
  push_handed(call, step.handed & (uint8_t)~own_slot);
  if (is_handed) {
    weir__call_hand_over(call, current, current->ok, event_out);
  }
  return is_handed;
}

/* --- events --- */

static bool is_direct(const weir_call *call) {
  /* acquire: pairs with pass_straight_locked */
  return (atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_DIRECT) != 0;
}

static bool direct_on_event(weir_call *call, struct weir__completion *completion, bool ok,
                            grpc_event *event_out) {
  if ((completion->core_op_types & WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT)) != 0) {
    stream_on_status(call);
  }
  weir__call_hand_over(call, completion, ok, event_out);
  return true;
}

/* A batch of the application's. */
static bool stream_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  struct weir__stream *stream = weir__stream_of(completion);
  weir_call *call = stream->call;
  uint8_t op_types = completion->core_op_types;
  ok = note_received(call, op_types, ok);
  if (is_direct(call)) {
    return direct_on_event(call, completion, ok, event_out);
  }
  pthread_mutex_lock(&stream->guarded.lock);
  if (is_direct(call)) { /* now: the notes are not kept any more */
    pthread_mutex_unlock(&stream->guarded.lock);
    return direct_on_event(call, completion, ok, event_out);
  }
  note_event_locked(stream, op_types, ok);
  struct step step = advance_locked(stream);
  pthread_mutex_unlock(&stream->guarded.lock);
  return take_step(call, step, completion, event_out);
}

static void stream_deliver(struct weir__completion *completion, grpc_event *event_out) {
  weir__call_hand_over(weir__stream_of(completion)->call, completion, completion->ok, event_out);
}

const struct weir__completion_ops weir__stream_ops = {
    .on_event = stream_on_event,
    .deliver = stream_deliver,
};

static struct weir__stream *stream_of(struct weir__held *held) {
  return WEIR__CONTAINER_OF(held - held->completion.slot, struct weir__stream, own);
}

/* A batch of the engine's own. */
static bool own_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  struct weir__held *held = WEIR__CONTAINER_OF(completion, struct weir__held, completion);
  struct weir__stream *stream = stream_of(held);
  weir_call *call = stream->call;
  uint8_t op_types = completion->core_op_types;
  bool was_sent = completion->slot == WEIR__OWN_SENDS;
  ok = note_received(call, op_types, ok);
  pthread_mutex_lock(&stream->guarded.lock);
  weir__queue_let_go(call->queue, held); /* before it is used again */
  stream->guarded.n_own--;
  if (was_sent) {
    stream->guarded.n_under_way--;
    weir__stream_pumped_locked(stream, ok);
    if (ok && !weir__stream_pump_locked(stream, weir__queue_now_ns(call->queue))) {
      weir__stream_break_locked(stream);
    }
  } else {
    note_event_locked(stream, op_types, ok);
  }
  struct step step = advance_locked(stream);
  pthread_mutex_unlock(&stream->guarded.lock);
  (void)take_step(call, step, NULL, event_out);
  weir__call_release(call);
  return false;
}

static const struct weir__completion_ops own_ops = {
    .on_event = own_on_event, .deliver = NULL, /* it is never put on the ready list */
};

/* The queue has handed out its last tag: nobody will hear of the call again. */
static void own_on_close(struct weir__held *held) {
  weir_call *call = stream_of(held)->call;
  (void)atomic_fetch_or_explicit(&call->state, WEIR__CALL_CANCELLED, memory_order_acq_rel);
  weir__call_cancel_core(call, call->attempt.core);
}

/* --- starting --- */

/* Too much is kept, or there is no memory for it: the attempt under way, or the next, is the last.
 */
static void overflow_locked(struct weir__stream *stream) {
  if (stream->guarded.overflowed) {
    return;
  }
  stream->guarded.overflowed = true;
  weir__replay_budget_note_overflow(&stream->call->environment->replay_budget);
  if (stream->guarded.phase == WEIR__STREAM_UNDER_WAY) {
    stream->guarded.committed = true;
  }
}

/* Keeps what a batch sends as long as it may be needed. False: there is no memory, and it is needed
 * to be sent at all. `*kept_out`: it is kept. */
static bool keep_locked(struct weir__stream *stream, const struct weir__batch *batch,
                        bool *kept_out) {
  struct weir__environment *environment = stream->call->environment;
  bool between = stream->guarded.phase == WEIR__STREAM_BETWEEN;
  bool needed = stream->guarded.pumping || between;
  *kept_out = false;
  if ((batch->op_types & WEIR__SENDS) == 0 ||
      (!needed && (stream->guarded.committed || stream->guarded.phase == WEIR__STREAM_ENDED))) {
    return true;
  }
  if (weir__replay_keep(&stream->guarded.replay, batch, &environment->replay_budget,
                        environment->allocator) != WEIR_OK) {
    if (!needed) {
      overflow_locked(stream);
    }
    return !needed;
  }
  *kept_out = true;
  const struct weir_retry_options *options = stream->call->plan.method->retry_options;
  if (stream->guarded.replay.n_bytes > options->replay_bytes ||
      !weir__replay_budget_fits(&environment->replay_budget, options->channel_replay_bytes)) {
    overflow_locked(stream);
  }
  return true;
}

/* Which of a batch's operations go to the core with it. */
static uint8_t passed_ops_locked(const struct weir__stream *stream, uint8_t op_types) {
  if (stream->guarded.phase == WEIR__STREAM_BETWEEN || stream->guarded.ended_here) {
    return 0;
  }
  uint8_t passed = op_types & (uint8_t)~stream->guarded.marks.unclaimed;
  /* With the status in its batch a message is handed out whatever is sent with it. The status is the
   * engine's to give here, so what is sent must not take the message down: it would fail in any
   * case. */
  bool splits = (op_types & stream->guarded.marks.unclaimed &
                 WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT)) != 0 &&
                (passed & WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)) != 0;
  /* A pump that was stopped may have its last batch with the core still. */
  bool is_sending = stream->guarded.pumping || stream->guarded.sending != 0;
  return is_sending || splits ? passed & (uint8_t)~WEIR__SENDS : passed;
}

/* Where the attempt's time is limited, its headers have to be noticed as soon as they come, and not
 * with all else that their batch waits for: the engine asks for them. */
static bool headers_go_apart_locked(const struct weir__stream *stream, uint8_t op_types) {
  const uint8_t headers = WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA);
  return stream->guarded.phase == WEIR__STREAM_UNDER_WAY && (op_types & headers) != 0 &&
         op_types != headers;
}

/* A batch has been started on an attempt whose time is limited. Says what the engine has claimed
 * for it. */
__attribute__((noinline)) static uint8_t start_limited_locked(struct weir__stream *stream,
                                                              uint8_t op_types, uint8_t passed,
                                                              int64_t now_ns) {
  if ((passed & WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA)) != 0) {
    weir__stream_timer_start_locked(stream, now_ns);
  }
  if (!headers_go_apart_locked(stream, op_types)) {
    return 0;
  }
  weir__stream_ask_locked(stream, GRPC_OP_RECV_INITIAL_METADATA);
  return op_types & stream->guarded.marks.unclaimed;
}

static grpc_call_error start_locked(struct weir__stream *stream, const struct weir__batch *batch,
                                    int64_t now_ns) {
  weir_call *call = stream->call;
  struct weir__completion *completion = &stream->batches[batch->slot];
  bool kept = false;
  if (!keep_locked(stream, batch, &kept)) {
    return GRPC_CALL_ERROR;
  }
  uint8_t claimed = batch->op_types & stream->guarded.marks.unclaimed;
  uint8_t passed = passed_ops_locked(stream, batch->op_types);
  bool limited = stream->guarded.timer_state != WEIR__STREAM_TIMER_OFF;
  if (limited && headers_go_apart_locked(stream, batch->op_types)) {
    passed &= (uint8_t)~WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA);
  }
  completion->core_op_types = passed; /* before its event can come */
  if (passed != 0) {
    grpc_call_error error = weir__stream_pass(call, batch, passed, now_ns);
    if (error != GRPC_CALL_OK) {
      if (kept) {
        struct weir__environment *environment = call->environment;
        weir__replay_unkeep(&stream->guarded.replay, batch, &environment->replay_budget,
                            environment->allocator);
      }
      return error;
    }
    stream->guarded.n_under_way++;
    stream->guarded.marks.asked |= passed & WEIR__RECEIVES;
  }
  stream->guarded.outer_owns_retries =
      stream->guarded.outer_owns_retries || weir__retry_owner_is_sent(batch->send_initial_metadata);
  if (limited) {
    claimed |= start_limited_locked(stream, batch->op_types, passed, now_ns);
  }
  stream->guarded.pending |= (uint8_t)(1u << batch->slot);
  stream->guarded.marks.unclaimed &= (uint8_t)~claimed;
  stream->guarded.marks.failed &= (uint8_t) ~(batch->op_types & ~claimed);
  stream->guarded.marks.undone |=
      batch->op_types & (uint8_t) ~(claimed & stream->guarded.marks.came);
  if (!stream->guarded.pumping && stream->guarded.phase != WEIR__STREAM_BETWEEN) {
    weir__stream_lose_locked(stream, batch->op_types & WEIR__SENDS & (uint8_t)~passed);
  }
  if (stream->guarded.ended_here) {
    stream->guarded.marks.undone &= (uint8_t)~batch->op_types;
    stream->guarded.marks.failed |= batch->op_types;
  }
  return GRPC_CALL_OK;
}

static grpc_call_error direct_start(weir_call *call, const struct weir__batch *batch,
                                    int64_t now_ns) {
  if (weir__call_request_too_large(call, batch)) {
    stream_hit_limit(call);
  }
  return weir__stream_pass(call, batch, batch->op_types, now_ns);
}

static grpc_call_error noted_start(weir_call *call, const struct weir__batch *batch,
                                   int64_t now_ns) {
  struct weir__stream *stream = call->stream;
  struct step step = {.handed = 0, .judge = false, .end = false};
  pthread_mutex_lock(&stream->guarded.lock);
  if (is_direct(call)) { /* now: the notes are not kept any more */
    pthread_mutex_unlock(&stream->guarded.lock);
    return direct_start(call, batch, now_ns);
  }
  bool too_large = weir__call_request_too_large(call, batch);
  if (too_large && stream->guarded.phase == WEIR__STREAM_BETWEEN) {
    atomic_store(&call->limit_hit, true);
  } else if (too_large) {
    stream_hit_limit(call);
  }
  grpc_call_error error = start_locked(stream, batch, now_ns);
  if (error == GRPC_CALL_OK) {
    if (stream->guarded.phase == WEIR__STREAM_UNDER_WAY && stream->guarded.pumping &&
        !weir__stream_pump_locked(stream, weir__queue_now_ns(call->queue))) {
      weir__stream_break_locked(stream);
    }
    step = advance_locked(stream);
  }
  pthread_mutex_unlock(&stream->guarded.lock);
  (void)take_step(call, step, NULL, NULL);
  return error;
}

grpc_call_error weir__stream_start(weir_call *call, const struct weir__batch *batch,
                                   int64_t now_ns) {
  if (is_direct(call)) {
    return direct_start(call, batch, now_ns);
  }
  /* Once the core has the batch it may be over, and the application may let the call go, before
   * this thread has unlocked. relaxed: the caller has a share */
  (void)atomic_fetch_add_explicit(&call->n_refs, 1, memory_order_relaxed);
  grpc_call_error error = noted_start(call, batch, now_ns);
  weir__call_release(call);
  return error;
}

/* --- between attempts --- */

/* Starts what is pending. False: the core refused some of it. */
static bool resend_locked(struct weir__stream *stream, int64_t now_ns) {
  weir__stream_renew_locked(stream);
  if (!weir__stream_pump_locked(stream, now_ns)) {
    return false;
  }
  if (stream->guarded.timer_state != WEIR__STREAM_TIMER_OFF) {
    weir__stream_ask_locked(stream, GRPC_OP_RECV_INITIAL_METADATA); /* by itself, to be noticed */
  }
  for (uint8_t slot = 0; slot < WEIR__N_CLIENT_OPS; slot++) {
    if (in_slot(stream->guarded.pending, slot) && !weir__stream_ask_again_locked(stream, slot)) {
      return false;
    }
  }
  ask_for_headers_locked(stream);
  return true;
}

bool weir__stream_resend(weir_call *call, int64_t now_ns) {
  struct weir__stream *stream = call->stream;
  pthread_mutex_lock(&stream->guarded.lock);
  if (atomic_load(&call->limit_hit)) {
    pthread_mutex_unlock(&stream->guarded.lock);
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_LIMIT, now_ns);
    call->plan.reason = WEIR_REASON_LIMIT;
    return false;
  }
  atomic_store(&call->initial_capacity, 0);
  atomic_store(&call->message_tried, false);
  unsigned char progress = WEIR__PROGRESS_DONE; /* of a message that came too late */
  (void)atomic_compare_exchange_strong(&call->progress, &progress, WEIR__PROGRESS_TOLD);
  struct weir__stream_marks last = stream->guarded.marks;
  stream->guarded.phase = WEIR__STREAM_UNDER_WAY;
  bool started = resend_locked(stream, now_ns);
  if (!started && stream->guarded.n_under_way > 0) {
    weir__stream_break_locked(stream);
    started = true; /* and ends when what was started is over */
  } else if (!started) {
    stream->guarded.marks = last; /* whose status is the call's */
    stream->guarded.pumping = false;
    stream->guarded.phase = WEIR__STREAM_BETWEEN;
    call->plan.reason = WEIR_REASON_NO_MEMORY;
  }
  pthread_mutex_unlock(&stream->guarded.lock);
  return started;
}

/* What was not sent on the last attempt. Where the peer has ended that, closing works. */
static uint8_t lost_at_end_locked(const struct weir__stream *stream) {
  bool by_peer = (stream->guarded.marks.failed & WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA)) == 0;
  return by_peer ? WEIR__SENDS & (uint8_t)~WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT)
                 : WEIR__SENDS;
}

void weir__stream_end_waiting(weir_call *call) {
  struct weir__stream *stream = call->stream;
  struct step step = {.handed = 0, .judge = false, .end = false};
  pthread_mutex_lock(&stream->guarded.lock);
  stream->guarded.phase = WEIR__STREAM_ENDED;
  weir__stream_timer_stop_locked(stream); /* of an attempt that was not sent */
  stream->guarded.ended_here = call->ended_here;
  stream->guarded.marks.failed |=
      call->ended_here ? UINT8_MAX : stream->guarded.marks.undone & lost_at_end_locked(stream);
  stream->guarded.marks.undone = 0;
  stream->guarded.owes_close = false;
  hand_out_done_locked(stream, 0, &step);
  drop_replay_locked(stream);
  pthread_mutex_unlock(&stream->guarded.lock);
  push_handed(call, step.handed);
}
