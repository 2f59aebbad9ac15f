/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/fallback.h"

#include <grpc/byte_buffer.h>

#include "src/base/container_of.h"
#include "src/call/one_batch.h"
#include "src/fallback/asking.h"
#include "src/fallback/fallbacks.h"
#include "src/outcome/outcome.h"
#include "src/time/instant.h"

/* A queue's timer is late by up to this. A call that waits for a fallback ends by so much before
 * its deadline, so that its caller hears of the failure in time. */
#define TIMER_GRAIN_NS WEIR_MS_NS

/* --- whether it is asked --- */

/* The call's own time is up, whoever's bound it was; that of one attempt leaves the call the rest. */
static bool is_out_of_time(const struct weir_outcome *outcome) {
  return outcome->origin == WEIR_ORIGIN_LOCAL_DEADLINE &&
         !weir__outcome_is_attempt_timeout(outcome);
}

static bool is_wanted(const weir_call *call) {
  const struct weir_fallback_options *options = call->plan.method->fallback;
  const struct weir_outcome *outcome = &call->outcome;
  if (outcome->origin == WEIR_ORIGIN_LOCAL_BREAKER) {
    return options->on_refusal;
  }
  return options->on_failure && weir_outcome_blames_downstream(outcome) && !is_out_of_time(outcome);
}

/* When the call waits no longer; some day, in any case. */
static int64_t waits_until(const weir_call *call, int64_t now_ns) {
  const struct weir_plan *plan = &call->plan;
  int64_t until_ns = weir__instant_add(now_ns, plan->method->fallback->timeout_ns);
  if (plan->deadline_at_ns == WEIR_NO_DEADLINE) {
    return weir__instant_min(until_ns, WEIR_NO_DEADLINE - 1);
  }
  return weir__instant_min(until_ns, weir__instant_add(plan->deadline_at_ns, -TIMER_GRAIN_NS));
}

/* --- the end of the wait --- */

static void note_result(weir_call *call, enum weir_fallback_result result) {
  call->fallback_result = (uint8_t)result;
  weir__call_counter_bump(&call->environment->counters.n_fallback_results[result]);
}

/* Who calls this owns the call's end. */
static void conclude(weir_call *call, enum weir_fallback_result result, int64_t now_ns) {
  struct weir__asking *asking = call->asking;
  struct weir_event event = weir__call_event_at(call, now_ns);
  int64_t ended_at_ns = result == WEIR_FALLBACK_TIMED_OUT
                            ? weir__instant_min(now_ns, call->backoff.due_at_ns)
                            : now_ns;
  asking->waited_ns = ended_at_ns > asking->asked_at_ns ? ended_at_ns - asking->asked_at_ns : 0;
  call->outcome.ended_at_ns = now_ns;
  note_result(call, result);
  weir__call_conclude(call, &event);
}

void weir__fallback_conclude(weir_call *call) {
  conclude(call, call->asking->result, weir__queue_now_ns(call->queue));
}

static void end_waiting(weir_call *call, enum weir_fallback_result result, int64_t now_ns) {
  weir__asking_abandon(call->asking);
  if (result == WEIR_FALLBACK_CANCELLED) {
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_CANCEL, now_ns);
    call->plan.reason = WEIR_REASON_CANCELLED;
  }
  conclude(call, result, now_ns);
  weir__queue_push_ready(call->queue, &call->batch);
}

void weir__fallback_cancelled(weir_call *call) {
  end_waiting(call, WEIR_FALLBACK_CANCELLED, weir__queue_now_ns(call->queue));
}

static bool is_cancelled(const weir_call *call) {
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  return (state & (WEIR__CALL_CANCELLED | WEIR__CALL_PARENT_CANCELLED)) != 0;
}

/* The time is up, or the queue is being shut down. */
static void on_due(struct weir__timer *timer, int64_t now_ns) {
  weir_call *call = WEIR__CONTAINER_OF(timer, weir_call, backoff);
  enum weir_fallback_result result = WEIR_FALLBACK_SHUTDOWN;
  if (is_cancelled(call)) {
    result = WEIR_FALLBACK_CANCELLED;
  } else if (now_ns >= timer->due_at_ns) {
    result = WEIR_FALLBACK_TIMED_OUT;
  }
  end_waiting(call, result, now_ns);
}

/* --- asking --- */

/* With the asking's lock: the call has not ended, since it would have to abandon that first. */
static bool claim(void *waiter) {
  weir_call *call = waiter;
  weir__queue_lock(call->queue);
  bool was_waiting = weir__queue_disarm_locked(call->queue, &call->backoff);
  weir__queue_unlock(call->queue);
  return was_waiting;
}

static void answer(void *waiter) {
  weir_call *call = waiter;
  weir__queue_push_ready(call->queue, &call->batch);
}

static const struct weir__asking_waiter waiter_ops = {.claim = claim, .answer = answer};

/* What was asked of the service; NULL = it is there no more. */
static grpc_byte_buffer *message_of(const weir_call *call) {
  if (!call->request.kept && call->n_sent == 0) {
    return grpc_byte_buffer_copy(call->request.message); /* the application's is whole */
  }
  return weir__request_replay_message(&call->request);
}

/* NULL when there is no memory. */
static struct weir__asking *asking_new(weir_call *call, int64_t until_ns, int64_t now_ns) {
  const struct weir_fallback_request request = {
      .size = sizeof request,
      .path = call->plan.path,
      .path_size = call->plan.path_size,
      .message = message_of(call),
      .metadata = call->request.metadata,
      .n_metadata = call->request.n_metadata,
      .max_response_bytes = call->plan.method->max_response_bytes,
      .deadline_at_ns = until_ns,
      .timeout_ns = until_ns - now_ns,
      .raw_code = call->outcome.code,
      .origin = call->outcome.origin,
      .blames = call->outcome.blames,
      .reason = call->plan.reason,
  };
  const struct weir__asking_arguments arguments = {.fallbacks = call->environment->fallbacks,
                                                   .request = &request,
                                                   .ops = &waiter_ops,
                                                   .waiter = call};
  struct weir__asking *asking = weir__asking_new(&arguments);
  if (asking != NULL) {
    asking->asked_at_ns = now_ns;
  } else if (request.message != NULL) {
    grpc_byte_buffer_destroy(request.message);
  }
  return asking;
}

/* From here on others may end the call. False: it was cancelled, or its queue shut down. */
static bool begin_waiting(weir_call *call, struct weir__asking *asking, int64_t until_ns) {
  weir_completion_queue *queue = call->queue; /* once unlocked, the call may be over */
  weir__parent_watch_start(call);
  weir__call_drop_request(call); /* nothing more is sent */
  weir__queue_ref(queue);
  weir__queue_lock(queue);
  bool waits = !is_cancelled(call) && !weir__queue_is_shut_down_locked(queue);
  if (waits) {
    call->asking = asking;
    /* relaxed: cancellers have the lock, and all others come after the end */
    (void)atomic_fetch_or_explicit(&call->state, WEIR__CALL_ASKED, memory_order_relaxed);
    call->backoff.due_at_ns = until_ns;
    call->backoff.on_due = on_due;
    weir__queue_arm_locked(queue, &call->backoff);
  }
  weir__queue_unlock(queue);
  if (waits) {
    weir__queue_wake_for_timer(queue);
  }
  weir__queue_unref(queue);
  return waits;
}

bool weir__fallback_begin(weir_call *call, const struct weir_event *event) {
  struct weir__fallbacks *fallbacks = call->environment->fallbacks;
  int64_t until_ns = waits_until(call, event->now_ns);
  if (!is_wanted(call) || until_ns <= event->now_ns) {
    return false;
  }
  if (!weir__fallbacks_enter(fallbacks, call->plan.method->fallback->max_concurrent)) {
    note_result(call, WEIR_FALLBACK_BUSY);
    return false;
  }
  struct weir__asking *asking = asking_new(call, until_ns, event->now_ns);
  if (asking == NULL) {
    weir__fallbacks_leave(fallbacks);
    note_result(call, WEIR_FALLBACK_NO_RESOURCES);
    return false;
  }
  if (!begin_waiting(call, asking, until_ns)) {
    weir__asking_drop(asking);
    weir__asking_release(asking);
    return false;
  }
  if (weir__asking_start(asking)) {
    return true;
  }
  bool is_ours = weir__asking_claim(asking) != NULL;
  weir__asking_drop(asking);
  if (is_ours) {
    note_result(call, WEIR_FALLBACK_NO_RESOURCES);
  }
  return !is_ours; /* another thread has ended the call */
}

/* --- what came of it --- */

const char *weir__fallback_source(const weir_call *call) {
  return call->fallback_result == WEIR_FALLBACK_HIT ? call->asking->source : NULL;
}

int64_t weir__fallback_waited_ns(const weir_call *call) {
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  return (state & WEIR__CALL_ASKED) != 0 ? call->asking->waited_ns : 0;
}

grpc_byte_buffer *weir__fallback_take_message(weir_call *call) {
  grpc_byte_buffer *message = call->asking->message;
  call->asking->message = NULL;
  return message;
}
