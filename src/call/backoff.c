/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/backoff.h"

#include <string.h>

#include <grpc/slice.h>

#include "src/base/container_of.h"
#include "src/call/fallback.h"
#include "src/call/one_batch.h"
#include "src/call/stream.h"
#include "src/time/instant.h"

/* Whether the call may go on: it was not cancelled, and its queue is not shut down. If not, says
 * what it ends with. */
static bool may_go_on_locked(weir_call *call, int64_t now_ns) {
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  if ((state & (WEIR__CALL_CANCELLED | WEIR__CALL_PARENT_CANCELLED)) != 0) {
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_CANCEL, now_ns);
    call->plan.reason = WEIR_REASON_CANCELLED;
    return false;
  }
  if (weir__queue_is_shut_down_locked(call->queue)) {
    call->plan.reason = WEIR_REASON_SHUTDOWN; /* with the last real status */
    return false;
  }
  return true;
}

static bool resend(weir_call *call, int64_t now_ns) {
  return call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH ? weir__one_batch_resend(call, now_ns)
                                                       : weir__stream_resend(call, now_ns);
}

/* Starts the next attempt. False: the call has to end with call->outcome. After true the call may
 * be over. */
static bool attempt_again(weir_call *call, int64_t now_ns) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  /* Its status is the call's, if no other attempt can be made. */
  struct weir__attempt last = call->attempt;
  int64_t deadline_at_ns = weir__call_attempt_deadline_at_ns(call, now_ns);
  grpc_call *core = weir__call_create_core(call, deadline_at_ns);
  weir__queue_lock(call->queue);
  bool goes_on = may_go_on_locked(call, now_ns);
  if (goes_on) {
    memset(&call->attempt, 0, sizeof call->attempt);
    call->attempt.core = core;
    call->attempt.deadline_at_ns = deadline_at_ns;
    call->attempt.details = grpc_empty_slice();
  }
  weir__queue_unlock(call->queue);
  if (goes_on) {
    uint32_t n_attempts = call->plan.n_attempts;
    uint8_t n_unsettled = call->n_unsettled;
    weir__call_begin_attempt(call, now_ns);
    weir__call_watch_time(call);
    if (resend(call, now_ns)) {
      weir__attempt_fini(&last, transport);
      return true;
    }
    call->plan.n_attempts = n_attempts;
    /* The layers that have heard of the last outcome hear of it once. */
    call->n_unsettled = n_unsettled;
    call->n_sent--;
    weir__queue_lock(call->queue);
    call->attempt = last;
    weir__queue_unlock(call->queue);
  }
  transport->call_unref(transport->context, core);
  return false;
}

bool weir__backoff_begin(weir_call *call, const struct weir_event *event) {
  if (weir__stack_resume(&call->rules->stack, call->layer_states, event, &call->plan) ==
      WEIR_ADMISSION_REFUSE) {
    return false;
  }
  if (call->plan.resume_at_ns <= event->now_ns) {
    return attempt_again(call, event->now_ns);
  }
  weir__parent_watch_start(call);
  weir__queue_lock(call->queue);
  bool goes_on = may_go_on_locked(call, event->now_ns);
  if (goes_on) {
    call->backoff.due_at_ns = call->plan.resume_at_ns;
    weir__queue_arm_locked(call->queue, &call->backoff);
  }
  weir_completion_queue *queue = call->queue; /* once unlocked, the call may be over */
  weir__queue_ref(queue);
  weir__queue_unlock(queue);
  if (goes_on) {
    weir__queue_wake_for_timer(queue);
  }
  weir__queue_unref(queue);
  return goes_on;
}

/* A wait is over. What it took longer than was asked for is none of it. */
static void note_wait(weir_call *call, int64_t now_ns) {
  int64_t began_at_ns = call->outcome.ended_at_ns; /* of the attempt before */
  int64_t ended_at_ns = weir__instant_min(now_ns, call->backoff.due_at_ns);
  if (ended_at_ns > began_at_ns) {
    call->backoff_ns += ended_at_ns - began_at_ns;
  }
}

/* Ends the call with call->outcome, and hands out what is owed, unless a fallback is asked first. */
static void end_waiting(weir_call *call, const struct weir_event *event) {
  if (call->plan.shape == WEIR_CALL_SHAPE_STREAM) {
    weir__call_end(call, event);
    weir__stream_end_waiting(call);
  } else if (weir__call_end_or_ask(call, event)) {
    weir__queue_push_ready(call->queue, &call->batch);
  }
}

void weir__backoff_on_due(struct weir__timer *timer, int64_t now_ns) {
  weir_call *call = WEIR__CONTAINER_OF(timer, weir_call, backoff);
  struct weir_event event = weir__call_event_at(call, now_ns);
  note_wait(call, now_ns);
  call->plan.resume_at_ns = now_ns;
  weir__queue_lock(call->queue);
  bool goes_on = may_go_on_locked(call, now_ns);
  weir__queue_unlock(call->queue);
  if (goes_on &&
      weir__stack_resume(&call->rules->stack, call->layer_states, &event, &call->plan) ==
          WEIR_ADMISSION_PROCEED &&
      attempt_again(call, now_ns)) {
    return;
  }
  end_waiting(call, &event);
}

void weir__backoff_cancelled(weir_call *call) {
  /* relaxed: who has taken the timer owns the call's end */
  if ((atomic_load_explicit(&call->state, memory_order_relaxed) & WEIR__CALL_ASKED) != 0) {
    weir__fallback_cancelled(call);
    return;
  }
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  note_wait(call, event.now_ns);
  weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_CANCEL, event.now_ns);
  call->plan.reason = WEIR_REASON_CANCELLED;
  end_waiting(call, &event);
}
