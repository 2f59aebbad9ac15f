/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/call.h"

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "src/base/allocator.h"
#include "src/call/backoff.h"
#include "src/call/slice.h"
#include "src/call/stream.h"
#include "src/call/stream_timer.h"
#include "src/fallback/asking.h"
#include "src/policy/policy.h"
#include "src/time/instant.h"
#include "src/time/timespec.h"

#define NS_PER_US 1000

/* --- life --- */

static const struct weir__call_extras *extras_of(const weir_call *call) {
  return atomic_load_explicit(&call->extras, memory_order_acquire);
}

const struct weir_method_policy *weir__call_method_policy(const weir_call *call) {
  const struct weir__call_extras *extras = extras_of(call);
  if (extras != NULL && extras->policy != NULL) {
    return extras->policy;
  }
  return weir_policy_method(call->rules->policy, (const char *)GRPC_SLICE_START_PTR(call->method),
                            GRPC_SLICE_LENGTH(call->method));
}

void weir__call_init_plan(weir_call *call, int64_t deadline_at_ns) {
  struct weir_plan *plan = &call->plan;
  if (call->inbound != NULL) {
    plan->inbound = call->detached ? &call->inbound->detached_facts : &call->inbound->facts;
    plan->outer_owns_retries = call->inbound->has_retry_owner;
  }
  plan->path = (const char *)GRPC_SLICE_START_PTR(call->method);
  plan->path_size = GRPC_SLICE_LENGTH(call->method);
  plan->method = weir__call_method_policy(call);
  plan->breaker_entry = extras_of(call) != NULL ? extras_of(call)->breaker_entry : NULL;
  plan->deadline_at_ns = deadline_at_ns;
  plan->deadline_bound =
      deadline_at_ns == WEIR_NO_DEADLINE ? WEIR_DEADLINE_BOUND_NONE : WEIR_DEADLINE_BOUND_CALL;
}

weir_call *weir__call_new(const struct weir__call_arguments *arguments) {
  struct weir__environment *environment = arguments->rules->environment;
  struct weir__call_extras *extras = arguments->extras;
  if (arguments->host != NULL) {
    extras = weir__call_extras_new(arguments->host, environment->allocator);
    if (extras == NULL) {
      return NULL;
    }
  }
  weir_call *call = weir__queue_block_take(arguments->queue);
  if (call == NULL) {
    weir__call_extras_free(extras, environment->allocator);
    return NULL;
  }
  atomic_init(&call->extras, extras);
  atomic_init(&call->n_refs, 1);
  atomic_init(&call->n_app_refs, 1);
  call->queue = arguments->queue;
  weir__queue_ref(call->queue);
  call->rules = arguments->rules;
  call->environment = environment;
  if (arguments->inbound != NULL) {
    call->inbound = weir__inbound_hold(arguments->inbound);
    call->detached = arguments->detached;
  }
  if (arguments->parent != NULL) {
    const struct weir__transport *transport = weir__queue_transport(call->queue);
    transport->call_ref(transport->context, arguments->parent);
    call->parent = arguments->parent;
    call->propagation_mask = arguments->propagation_mask;
  }
  call->method = grpc_slice_ref(arguments->method);
  call->backoff.on_due = weir__backoff_on_due;
  weir__call_init_plan(call, arguments->deadline_at_ns);
  return call;
}

void weir__call_drop_request(weir_call *call) {
  /* relaxed: the caller has set it, or has the last share */
  if ((atomic_load_explicit(&call->state, memory_order_relaxed) & WEIR__CALL_ASKED) != 0) {
    weir__asking_release(call->asking);
  } else if (call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH) {
    weir__request_fini(&call->request, &call->environment->replay_budget,
                       call->environment->allocator);
  } else {
    weir__stream_release(call);
  }
}

static void call_free(weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  struct weir__rules *rules = call->rules;
  struct weir__environment *environment = call->environment;
  weir_completion_queue *queue = call->queue;
  weir__call_drop_request(call);
  weir__attempt_fini(&call->attempt, transport);
  weir__parent_watch_free(call);
  weir__slice_unref(&call->method);
  /* relaxed: the last share has been given back */
  weir__call_extras_free(atomic_load_explicit(&call->extras, memory_order_relaxed),
                         environment->allocator);
  weir__free(environment->allocator, call->cancellation);
  if (call->parent != NULL) {
    transport->call_unref(transport->context, call->parent);
  }
  weir__inbound_let_go(call->inbound);
  weir__rules_release(rules);
  weir__queue_block_give(queue, call);
  weir__queue_unref(queue);
}

/* Makes an end of this process's own the call's outcome. */
void weir__call_set_local_outcome(weir_call *call, enum weir_origin origin, int64_t now_ns) {
  const struct weir__cancellation *cancellation = weir__call_cancellation(call);
  struct weir__local_end end = {
      .origin = origin,
      .attempted = call->n_sent > 0,
      .cancel_code = cancellation != NULL ? cancellation->code : GRPC_STATUS_CANCELLED,
      .started_at_ns = call->plan.started_at_ns,
      .ended_at_ns = now_ns,
      .deadline_bound = call->plan.deadline_bound,
  };
  weir__outcome_local(&end, &call->outcome);
  call->plan.visible_code = call->outcome.code;
  call->ended_here = true;
  call->ended_as_told = origin == WEIR_ORIGIN_LOCAL_CANCEL && cancellation != NULL;
}

void weir__call_end_of_life(weir_call *call) {
  if (call->n_admitted > 0) {
    /* A stream whose status nobody asked for: it ends here for the layers. */
    struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
    weir__call_set_local_outcome(call, WEIR_ORIGIN_LOCAL_CANCEL, event.now_ns);
    weir__call_end(call, &event);
  }
  call_free(call);
}

void weir_call_ref(weir_call *call) {
  atomic_fetch_add_explicit(&call->n_app_refs, 1,
                            memory_order_relaxed); /* the caller has a share already */
}

/* Gives a share back. True: it was the last. Who has the only one shares with nobody who could take
 * another, and needs no locked step. */
static bool is_last_share(atomic_uint *n_shares) {
  /* acquire, and acq_rel: all that was done with the call comes before its end */
  return atomic_load_explicit(n_shares, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(n_shares, 1, memory_order_acq_rel) == 1;
}

void weir_call_unref(weir_call *call) {
  if (!is_last_share(&call->n_app_refs)) {
    return;
  }
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  if ((state & WEIR__CALL_STARTED) != 0 && (state & WEIR__CALL_ENDED) == 0) {
    (void)weir_call_cancel(call, NULL);
  }
  if (is_last_share(&call->n_refs)) {
    weir__call_end_of_life(call);
  }
}

/* --- attempts --- */

/* The bound of an attempt that begins at `now_ns`: the call's, unless the attempt's own is nearer.
 */
struct attempt_deadline {
  int64_t at_ns;
  enum weir_deadline_bound bound;
};

static struct attempt_deadline attempt_deadline_of(const weir_call *call, int64_t now_ns) {
  const struct weir_plan *plan = &call->plan;
  int64_t timeout_ns = plan->method->per_attempt_timeout_ns;
  if (timeout_ns != WEIR_NO_LIMIT_NS && plan->shape == WEIR_CALL_SHAPE_ONE_BATCH) {
    int64_t at_ns = weir__instant_add(now_ns, timeout_ns);
    if (at_ns < plan->deadline_at_ns) {
      return (struct attempt_deadline){.at_ns = at_ns, .bound = WEIR_DEADLINE_BOUND_ATTEMPT};
    }
  }
  return (struct attempt_deadline){.at_ns = plan->deadline_at_ns, .bound = plan->deadline_bound};
}

/* Inlined: it is on the path of every call. */
static inline grpc_call *create_core(const weir_call *call, uint32_t propagation_mask,
                                     int64_t deadline_at_ns,
                                     const struct weir__call_extras *extras) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  struct weir__call_target target = {
      .channel = call->environment->channel,
      .parent = call->parent,
      .propagation_mask = propagation_mask,
      .queue = weir_completion_queue_core(call->queue),
      .method = call->method,
      .deadline = weir__instant_to_timespec(deadline_at_ns),
  };
  if (extras != NULL) {
    weir__call_extras_aim(extras, &target);
  }
  return transport->call_create(transport->context, &target);
}

int64_t weir__call_attempt_deadline_at_ns(const weir_call *call, int64_t now_ns) {
  return attempt_deadline_of(call, now_ns).at_ns;
}

grpc_call *weir__call_create_core(const weir_call *call, int64_t deadline_at_ns) {
  const struct weir__call_extras *extras =
      atomic_load_explicit(&call->extras, memory_order_acquire);
  grpc_call *core =
      create_core(call, call->propagation_mask,
                  weir__call_keeps_time(call) ? WEIR_NO_DEADLINE : deadline_at_ns, extras);
  if (extras != NULL) {
    weir__call_extras_apply(extras, weir__queue_transport(call->queue), core);
  }
  return core;
}

grpc_call *weir__call_create_unsent(const weir_call *call) {
  return create_core(call, GRPC_PROPAGATE_CANCELLATION, call->plan.deadline_at_ns,
                     atomic_load_explicit(&call->extras, memory_order_acquire));
}

/* Cancels an attempt as the application has cancelled the call. */
void weir__call_cancel_core(const weir_call *call, grpc_call *core) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  const struct weir__cancellation *cancellation = weir__call_cancellation(call);
  transport->call_cancel(
      transport->context, core, cancellation != NULL ? cancellation->code : GRPC_STATUS_CANCELLED,
      cancellation != NULL ? cancellation->description : "the call was cancelled");
}

static void hold(void *block) {
  weir_call *call = block;
  /* relaxed: until the look is over, the call does not end */
  (void)atomic_fetch_add_explicit(&call->n_refs, 1, memory_order_relaxed);
}

/* The attempt's time is up. It may have ended meanwhile, and with it the call, or another may have
 * begun, whose time is later. */
static void expire(void *block, int64_t at_ns) {
  weir_call *call = block;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call *core = NULL;
  weir__queue_lock(call->queue);
  /* acquire: its attempt. A first batch may have come to nothing meanwhile: one that is started anew
   * has its attempt to itself until it says STARTED, and one that was refused then has none. */
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  if ((state & (WEIR__CALL_STARTED | WEIR__CALL_ENDED)) == WEIR__CALL_STARTED &&
      call->attempt.core != NULL && call->attempt.deadline_at_ns <= at_ns) {
    core = call->attempt.core;
    transport->call_ref(transport->context, core);
  }
  weir__queue_unlock(call->queue);
  if (core != NULL) {
    transport->call_cancel(transport->context, core, GRPC_STATUS_DEADLINE_EXCEEDED,
                           "Deadline Exceeded"); /* as the core says it */
    transport->call_unref(transport->context, core);
  }
  weir__call_release(call);
}

static const struct weir__expiry_ops expiry_ops = {.hold = hold, .expire = expire};

void weir__call_watch_time(weir_call *call) {
  int64_t at_ns = call->attempt.deadline_at_ns;
  if (at_ns != WEIR_NO_DEADLINE && weir__call_keeps_time(call)) {
    weir__queue_expire_at(call->queue, call, &expiry_ops, at_ns);
  }
}

struct weir__request_headers weir__call_headers(const weir_call *call, int64_t now_ns) {
  const weir_inbound *inbound = call->inbound;
  struct weir__request_headers headers = {
      .budget_ns = weir__instant_remaining(attempt_deadline_of(call, now_ns).at_ns, now_ns),
      .retry_owner = call->plan.retry_owner,
      .yields = call->plan.method->retry_options->owner != WEIR_RETRY_OWNER_ALWAYS,
      .n_previous = call->plan.n_attempts > 0 ? call->plan.n_attempts - 1 : 0,
      .tells_timeout = weir__call_keeps_time(call),
  };
  if (inbound != NULL) {
    headers.outer_retry_owner = inbound->has_retry_owner ? inbound->retry_owner : NULL;
    headers.trace = weir__policy_passes_trace(call->rules->policy) ? &inbound->trace : NULL;
  }
  return headers;
}

/* Notes that an attempt is about to be sent. */
void weir__call_begin_attempt(weir_call *call, int64_t now_ns) {
  if (!call->plan.uncounted) {
    call->plan.n_attempts++;
  }
  call->plan.uncounted = false;
  call->plan.attempted_at_ns = now_ns;
  call->n_unsettled = call->n_admitted;
  call->n_sent++;
}

static uint32_t saturated_us(int64_t ns) {
  int64_t us = ns > 0 ? ns / NS_PER_US : 0;
  return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static void record_attempt(weir_call *call) {
  const struct weir_outcome *outcome = &call->outcome;
  int64_t duration_ns = outcome->ended_at_ns - outcome->started_at_ns;
  call->attempts_ns += duration_ns;
  uint8_t nth = call->n_records;
  if (nth == WEIR_REPORT_ATTEMPTS) {
    return;
  }
  call->n_records = (uint8_t)(nth + 1);
  if (nth > 0) { /* the first one starts with the call */
    call->records.started_after_us[nth] =
        saturated_us(outcome->started_at_ns - call->plan.started_at_ns);
  }
  call->records.duration_us[nth] = saturated_us(duration_ns);
  call->records.ends[nth] = weir__attempt_end(outcome);
}

/* The attempt's status has come: makes call->outcome of it. */
static void classify_failure(weir_call *call, const struct weir__arrivals *arrivals,
                             int64_t now_ns) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  const struct weir__attempt *attempt = &call->attempt;
  const struct weir__cancellation *cancellation = weir__call_cancellation(call);
  struct attempt_deadline deadline = attempt_deadline_of(call, call->plan.attempted_at_ns);
  struct weir__wire_result result = {
      .status = (int)attempt->status,
      .signals =
          {
              .initial_capacity = arrivals->initial_capacity,
              .trailing_capacity = attempt->trailing_metadata.capacity,
              .trailing_count = attempt->trailing_metadata.count,
              .failed_before_recv_message =
                  transport->call_failed_before_recv_message(transport->context, attempt->core),
              .recv_message_done = arrivals->message_asked,
          },
      .signals_trusted = call->environment->signals_trusted,
      .got_message = arrivals->message,
      .trailing = attempt->trailing_metadata.metadata,
      .details = attempt->details,
      .cancelled_by_us =
          (atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_CANCELLED) != 0,
      .cancel_code = cancellation != NULL ? cancellation->code : GRPC_STATUS_CANCELLED,
      .has_parent = call->parent != NULL,
      .limit_exceeded = arrivals->limit_exceeded,
      .timed_out = arrivals->timed_out,
      .started_at_ns = call->plan.attempted_at_ns,
      .ended_at_ns = now_ns,
      .deadline_at_ns = deadline.at_ns,
      .deadline_slack_ns = call->plan.method->deadline->slack_ns,
      .deadline_bound = deadline.bound,
  };
  weir__outcome_classify(&result, &call->outcome);
  if (result.cancelled_by_us && !arrivals->message) {
    /* The cancellation may have overtaken the headers. No attempt follows in any case, but where
     * one would, the call ends with the cancellation and not with what the peer said. */
    call->outcome.committed = false;
  }
  if (arrivals->timed_out && !arrivals->message && !arrivals->limit_exceeded) {
    /* So with headers that came when the attempt had been cut off: nobody has seen them. */
    call->outcome.committed = !call->environment->signals_trusted;
  }
  call->ended_here = arrivals->limit_exceeded;
}

void weir__call_classify(weir_call *call, const struct weir__arrivals *arrivals, int64_t now_ns) {
  if (arrivals->limit_exceeded ||
      !weir__outcome_classify_success((int)call->attempt.status, arrivals->message,
                                      call->plan.attempted_at_ns, now_ns, &call->outcome)) {
    classify_failure(call, arrivals, now_ns);
  } else {
    call->outcome.deadline_bound = call->plan.deadline_bound;
  }
  call->plan.visible_code = call->outcome.code;
  record_attempt(call);
}

bool weir__call_request_too_large(const weir_call *call, const struct weir__batch *batch) {
  uint32_t limit = call->plan.method->max_request_bytes;
  return limit != WEIR_NO_LIMIT_BYTES && batch->send_message != NULL &&
         grpc_byte_buffer_length(batch->send_message->data.send_message.send_message) > limit;
}

/* --- batches --- */

grpc_call_error weir__call_error_of(enum weir_error error) {
  return error == WEIR_ERROR_UNAVAILABLE ? GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN
                                         : GRPC_CALL_ERROR;
}

void weir__call_abandon_batch(weir_call *call) {
  weir__queue_abandon(call->queue);
  /* relaxed: the caller's share stays */
  (void)atomic_fetch_sub_explicit(&call->n_refs, 1, memory_order_relaxed);
}

/* --- handing over --- */

/* Fills in the event of a batch that is over, and lets the batch go: the call may be gone
 * afterwards. */
void weir__call_hand_over(weir_call *call, struct weir__completion *completion, bool core_ok,
                          grpc_event *event_out) {
  event_out->success = weir__call_hand_out(call, completion->op_types, core_ok) ? 1 : 0;
  weir__call_let_go(call, completion, event_out);
}

/* A batch that came after the end of a one-batch call: the core would say that the stream has
 * ended, which is a success, unless something is to be sent, or the call failed without an
 * answer. */
static bool is_end_of_stream(const weir_call *call, const struct weir__completion *completion) {
  const uint8_t sends = WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA) |
                        WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE) |
                        WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT);
  bool answered = (call->attempt.core != NULL && !call->ended_here) ||
                  call->fallback_result == WEIR_FALLBACK_HIT;
  return call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH && answered &&
         (completion->op_types & sends) == 0;
}

void weir__call_hand_over_ready(weir_call *call, struct weir__completion *completion,
                                grpc_event *event_out) {
  weir__call_hand_over(call, completion, is_end_of_stream(call, completion), event_out);
}

/* --- cancelling --- */

/* A cancelled call has failed, and with a code of gRPC's, whatever the application says. */
static grpc_status_code cancellation_code(grpc_status_code status) {
  if (status == GRPC_STATUS_OK) {
    return GRPC_STATUS_CANCELLED;
  }
  return (int)status > 0 && (int)status < WEIR_N_STATUS_CODES ? status : GRPC_STATUS_UNKNOWN;
}

static struct weir__cancellation *cancellation_new(const weir_call *call, grpc_status_code code,
                                                   const char *description) {
  size_t size = strlen(description) + 1;
  struct weir__cancellation *cancellation =
      weir__zalloc(call->environment->allocator, sizeof *cancellation + size);
  if (cancellation != NULL) {
    cancellation->code = cancellation_code(code);
    memcpy(cancellation->description, description, size);
  }
  return cancellation;
}

void weir__call_parent_cancelled(weir_call *call) {
  weir__queue_lock(call->queue);
  atomic_fetch_or_explicit(&call->state, WEIR__CALL_PARENT_CANCELLED, memory_order_release);
  bool in_backoff = weir__queue_disarm_locked(call->queue, &call->backoff);
  weir__queue_unlock(call->queue);
  if (in_backoff) {
    weir__backoff_cancelled(call);
  }
}

static void cancel_with(weir_call *call, struct weir__cancellation *cancellation) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call *core = NULL;
  bool in_backoff = false;
  bool was_timed = false;
  weir__queue_lock(call->queue);
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  bool first = (state & (WEIR__CALL_CANCELLED | WEIR__CALL_ENDED)) == 0;
  if (first) {
    call->cancellation = cancellation;
    state = atomic_fetch_or_explicit(&call->state, WEIR__CALL_CANCELLED, memory_order_acq_rel);
    in_backoff = weir__queue_disarm_locked(call->queue, &call->backoff);
    was_timed = (state & WEIR__CALL_TIMED) != 0 && weir__stream_timer_cancel(call);
    if (!in_backoff && (state & WEIR__CALL_STARTED) != 0 && call->attempt.core != NULL) {
      core = call->attempt.core;
      transport->call_ref(transport->context, core);
    }
  }
  weir__queue_unlock(call->queue);
  if (!first) {
    weir__free(call->environment->allocator, cancellation);
  } else if (in_backoff) {
    weir__backoff_cancelled(call);
  } else if (core != NULL) {
    weir__call_cancel_core(call, core);
    transport->call_unref(transport->context, core);
  }
  if (was_timed) {
    weir__call_release(call); /* the timer's share */
  }
}

grpc_call_error weir_call_cancel(weir_call *call, void *reserved) {
  if (reserved != NULL) {
    return GRPC_CALL_ERROR;
  }
  cancel_with(call, NULL);
  return GRPC_CALL_OK;
}

grpc_call_error weir_call_cancel_with_status(weir_call *call, grpc_status_code status,
                                             const char *description, void *reserved) {
  if (reserved != NULL) {
    return GRPC_CALL_ERROR;
  }
  cancel_with(call, cancellation_new(call, status, description != NULL ? description : ""));
  return GRPC_CALL_OK;
}
