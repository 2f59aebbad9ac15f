/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream_timer.h"

#include <grpc/slice.h>

#include <weir/clock.h>

#include "src/base/container_of.h"
#include "src/call/stream_attempt.h"
#include "src/time/instant.h"

/* A queue that was not drained when an attempt's time was up is given some more, once an attempt:
 * what has come meanwhile is taken from it first. The core's timers are no finer than LATE_NS. */
#define LATE_NS WEIR_MS_NS
#define GRACE_NS (10 * WEIR_MS_NS)

/* What it is cancelled with. A status of the peer's that was first has the peer's words. */
#define WORDS "the time of the attempt is up"

/* Arms the timer, for `due_at_ns`. False: the call is cancelled, or the queue has closed. */
static bool arm_for(struct weir__stream *stream, int64_t due_at_ns) {
  weir_call *call = stream->call;
  weir__queue_lock(call->queue);
  /* Who cancels disarms, with the same lock. */
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  bool arms = (state & WEIR__CALL_CANCELLED) == 0;
  if (arms) {
    stream->timer.due_at_ns = due_at_ns;
    arms = weir__queue_arm_lasting_locked(call->queue, &stream->timer);
  }
  if (arms) {
    /* release: the stream, for a canceller */
    (void)atomic_fetch_or_explicit(&call->state, WEIR__CALL_TIMED, memory_order_release);
  }
  weir__queue_unlock(call->queue);
  return arms;
}

/* The attempt's time is up, and it has not been answered. */
static void cut_off_locked(struct weir__stream *stream, int64_t now_ns) {
  const weir_call *call = stream->call;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  stream->guarded.timer_state = WEIR__STREAM_TIMER_OFF;
  if (now_ns >= call->plan.deadline_at_ns || (state & WEIR__CALL_CANCELLED) != 0) {
    return; /* that comes first: the core sees to it, and has perhaps */
  }
  stream->guarded.timed_out = true;
  transport->call_cancel(transport->context, call->attempt.core, GRPC_STATUS_DEADLINE_EXCEEDED,
                         WORDS);
}

/* When nobody has drained the queue for a while. True: the timer runs again. */
static bool give_time_locked(struct weir__stream *stream, int64_t now_ns) {
  bool late = now_ns > weir__instant_add(stream->timer.due_at_ns, LATE_NS);
  if (!late || stream->guarded.timer_was_late) {
    return false;
  }
  stream->guarded.timer_was_late = true;
  return arm_for(stream, weir__instant_add(now_ns, GRACE_NS));
}

/* An attempt may have ended, and another begun, since the timer was taken from the queue. */
static bool is_armed_anew(struct weir__stream *stream) {
  weir_completion_queue *queue = stream->call->queue;
  weir__queue_lock(queue);
  bool armed = stream->timer.armed;
  weir__queue_unlock(queue);
  return armed;
}

void weir__stream_timer_on_due(struct weir__timer *timer, int64_t now_ns) {
  struct weir__stream *stream = WEIR__CONTAINER_OF(timer, struct weir__stream, timer);
  weir_call *call = stream->call;
  bool runs_again = false;
  pthread_mutex_lock(&stream->guarded.lock);
  if (stream->guarded.timer_state == WEIR__STREAM_TIMER_RUNS && now_ns >= timer->due_at_ns &&
      !is_armed_anew(stream)) {
    runs_again = give_time_locked(stream, now_ns);
    if (!runs_again) {
      cut_off_locked(stream, now_ns);
    }
  }
  pthread_mutex_unlock(&stream->guarded.lock);
  if (!runs_again) {
    weir__call_release(call);
  }
}

void weir__stream_timer_arm_locked(struct weir__stream *stream, int64_t sent_at_ns) {
  weir_call *call = stream->call;
  int64_t due_at_ns = weir__instant_add(sent_at_ns, call->plan.method->per_attempt_timeout_ns);
  stream->guarded.timer_state = WEIR__STREAM_TIMER_OFF;
  stream->guarded.timer_was_late = false;
  if (due_at_ns >= call->plan.deadline_at_ns) {
    return;
  }
  /* relaxed: the caller has a share. Before the timer can be due. */
  (void)atomic_fetch_add_explicit(&call->n_refs, 1, memory_order_relaxed);
  if (!arm_for(stream, due_at_ns)) {
    weir__call_release(call);
    return;
  }
  stream->guarded.timer_state = WEIR__STREAM_TIMER_RUNS;
  weir__queue_wake_for_timer(call->queue);
}

void weir__stream_timer_disarm_locked(struct weir__stream *stream) {
  weir_call *call = stream->call;
  weir__queue_lock(call->queue);
  bool was_armed = weir__queue_disarm_locked(call->queue, &stream->timer);
  weir__queue_unlock(call->queue);
  if (was_armed) {
    weir__call_release(call);
  }
}

bool weir__stream_timer_ended(const weir_call *call) {
  /* Without the lock: it does not change any more. */
  return call->stream->guarded.timed_out && call->attempt.status == GRPC_STATUS_DEADLINE_EXCEEDED &&
         grpc_slice_str_cmp(call->attempt.details, WORDS) == 0;
}

bool weir__stream_timer_cancel(weir_call *call) {
  return weir__queue_disarm_locked(call->queue, &call->stream->timer);
}
