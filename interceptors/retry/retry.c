/* SPDX-License-Identifier: Apache-2.0 */
#include "interceptors/retry/retry.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/base/random.h"
#include "src/outcome/outcome.h"
#include "src/time/instant.h"
#include <weir/backoff.h>

struct retry_layer {
  weir_interceptor base;
  const struct weir_allocator *allocator;
  weir_throttle *throttle; /* NULL = none */
  char *owner_name;        /* NULL = it makes no retries */
};

struct retry_call {
  uint32_t n_backoffs; /* since the start, or since the peer last said when to come again */
  bool replayed;       /* the one free replay was used */
};

static struct retry_layer *layer_of(weir_interceptor *self) {
  return WEIR__CONTAINER_OF(self, struct retry_layer, base);
}

static bool has_retry_policy(const struct weir_method_policy *method) {
  return method->retry.max_attempts > 1;
}

static bool owns_retries(const struct retry_layer *layer, const struct weir_plan *plan) {
  if (layer->owner_name == NULL) {
    return false;
  }
  switch (plan->method->retry_options->owner) {
  case WEIR_RETRY_OWNER_OUTERMOST:
    return !plan->outer_owns_retries && has_retry_policy(plan->method);
  case WEIR_RETRY_OWNER_ALWAYS:
    return has_retry_policy(plan->method);
  case WEIR_RETRY_OWNER_NEVER:
    break;
  }
  return false;
}

/* A call that can't be sent again is not retried here, so a layer further in may as well. An outer
 * layer's marker goes on in any case. */
static enum weir_admission retry_admit(weir_interceptor *self, void *call_state,
                                       const struct weir_event *event, struct weir_plan *plan) {
  (void)call_state;
  (void)event;
  const struct retry_layer *layer = layer_of(self);
  plan->retry_owner = owns_retries(layer, plan) && plan->replayable ? layer->owner_name : NULL;
  plan->min_attempt_ns = plan->method->retry_options->min_attempt_time_ns;
  return WEIR_ADMISSION_PROCEED;
}

/* Why a call that this process ended is over. */
static enum weir_reason local_reason(enum weir_origin origin) {
  switch (origin) {
  case WEIR_ORIGIN_LOCAL_DEADLINE:
    return WEIR_REASON_DEADLINE;
  case WEIR_ORIGIN_LOCAL_CANCEL:
    return WEIR_REASON_CANCELLED;
  case WEIR_ORIGIN_LOCAL_BREAKER:
    return WEIR_REASON_BREAKER_OPEN;
  case WEIR_ORIGIN_LOCAL_LIMIT:
    return WEIR_REASON_LIMIT;
  case WEIR_ORIGIN_LOCAL_SHUTDOWN:
    return WEIR_REASON_SHUTDOWN;
  case WEIR_ORIGIN_PEER:
  case WEIR_ORIGIN_TRANSPORT_CONNECT:
  case WEIR_ORIGIN_TRANSPORT_RESET:
    break;
  }
  return WEIR_REASON_NONE;
}

/* What the core's transparent retries did: no server has seen the call, so sending it again repeats
 * nothing. */
static bool may_replay(const struct retry_call *call, const struct weir_outcome *outcome,
                       const struct weir_plan *plan) {
  return outcome->unprocessed && !outcome->committed && plan->replayable && !plan->single_attempt &&
         !call->replayed;
}

/* Whether the policy has it tried again. An attempt that took too long is, whatever codes are listed:
 * this process said so and no peer. */
static bool is_listed(const struct weir_retry_policy *policy, const struct weir_outcome *outcome) {
  return weir__outcome_is_attempt_timeout(outcome) ||
         (policy->retryable_codes >> (uint32_t)outcome->code & 1u) != 0;
}

/* Whether the throttle allows a retry after one more failure. */
static bool throttle_charge(weir_throttle *throttle) {
  return throttle == NULL || weir_throttle_record_failure(throttle);
}

/* The application of a one-batch call sees nothing before its end, so headers alone need not bind
 * it. */
static bool is_committed(const struct weir_outcome *outcome, const struct weir_plan *plan) {
  bool headers_pass =
      plan->method->retry_options->retry_after_headers && plan->shape == WEIR_CALL_SHAPE_ONE_BATCH;
  return outcome->committed && !(headers_pass && !outcome->got_message);
}

/* Why a retryable failure of a call with a policy is not retried; WEIR_REASON_NONE = it is. The
 * order is A6's: the throttle was asked before, since it counts every such failure. */
static enum weir_reason refusal_of(const struct retry_layer *layer,
                                   const struct weir_outcome *outcome,
                                   const struct weir_plan *plan) {
  if (layer->owner_name == NULL) {
    return WEIR_REASON_NOT_OWNER; /* first: what else there is would be said of every call */
  }
  if (is_committed(outcome, plan)) {
    return WEIR_REASON_COMMITTED;
  }
  if (plan->single_attempt) {
    return WEIR_REASON_BREAKER_OPEN; /* a probe of a breaker that is not closed; attempts would be
                                        left */
  }
  if (plan->n_attempts >= plan->method->retry.max_attempts) {
    return WEIR_REASON_ATTEMPTS_EXHAUSTED;
  }
  if (outcome->pushback == WEIR_PUSHBACK_STOP) {
    return WEIR_REASON_PUSHBACK;
  }
  if (!owns_retries(layer, plan)) {
    return WEIR_REASON_NOT_OWNER;
  }
  return plan->replayable ? WEIR_REASON_NONE : WEIR_REASON_NOT_REPLAYABLE;
}

/* The peer's delay is exact, and after it the backoff starts over (A6, pushback). */
static int64_t next_delay_ns(struct retry_call *call, const struct weir_event *event,
                             const struct weir_outcome *outcome,
                             const struct weir_retry_policy *policy) {
  if (outcome->pushback == WEIR_PUSHBACK_DELAY) {
    call->n_backoffs = 0;
    return outcome->pushback_delay_ns;
  }
  call->n_backoffs++;
  return weir_backoff_delay_ns(policy, call->n_backoffs, weir__random_unit(event->random));
}

static enum weir_disposition finish(struct weir_plan *plan, enum weir_reason reason) {
  plan->reason = reason;
  return WEIR_DISPOSITION_FINISH;
}

static enum weir_disposition retry_at(struct weir_plan *plan, int64_t resume_at_ns) {
  plan->reason = WEIR_REASON_NONE;
  plan->resume_at_ns = resume_at_ns;
  return WEIR_DISPOSITION_RETRY;
}

/* A code that is not in the method's list. A6: the peer's "do not retry" is a failure whatever the
 * code. */
static enum weir_disposition settle_unlisted(weir_throttle *throttle,
                                             const struct weir_outcome *outcome,
                                             struct weir_plan *plan) {
  if (outcome->pushback == WEIR_PUSHBACK_STOP) {
    (void)throttle_charge(throttle);
  }
  return finish(plan, has_retry_policy(plan->method) ? WEIR_REASON_NOT_RETRYABLE
                                                     : WEIR_REASON_NO_RETRY_POLICY);
}

static enum weir_disposition retry_settle(weir_interceptor *self, void *call_state,
                                          const struct weir_event *event,
                                          const struct weir_outcome *outcome,
                                          struct weir_plan *plan) {
  struct retry_call *call = call_state;
  const struct retry_layer *layer = layer_of(self);
  weir_throttle *throttle = layer->throttle;
  plan->uncounted = false;
  if (weir__outcome_is_ok(outcome)) {
    if (throttle != NULL) {
      weir_throttle_record_success(throttle);
    }
    return finish(plan, WEIR_REASON_NONE);
  }
  if (weir__outcome_is_local(outcome) && !weir__outcome_is_attempt_timeout(outcome)) {
    return finish(plan, local_reason(outcome->origin));
  }
  if (layer->owner_name != NULL && may_replay(call, outcome, plan)) {
    call->replayed = true;
    plan->uncounted = true;
    return retry_at(plan, event->now_ns);
  }
  if (!has_retry_policy(plan->method) || !is_listed(&plan->method->retry, outcome)) {
    return settle_unlisted(throttle, outcome, plan);
  }
  if (!throttle_charge(throttle)) {
    return finish(plan, WEIR_REASON_THROTTLED);
  }
  enum weir_reason refusal = refusal_of(layer, outcome, plan);
  if (refusal != WEIR_REASON_NONE) {
    return finish(plan, refusal);
  }
  return retry_at(plan, weir__instant_add(event->now_ns, next_delay_ns(call, event, outcome,
                                                                       &plan->method->retry)));
}

static void retry_destroy(weir_interceptor *self) {
  struct retry_layer *layer = layer_of(self);
  weir_throttle_release(layer->throttle);
  weir__free(layer->allocator, layer->owner_name);
  weir__free(layer->allocator, layer);
}

static const struct weir_interceptor_vtable retry_vtable = {
    .size = sizeof(struct weir_interceptor_vtable),
    .name = "retry",
    .call_state_size = sizeof(struct retry_call),
    .admit = retry_admit,
    .settle = retry_settle,
    .destroy = retry_destroy,
};

enum weir_error weir__retry_layer_new(weir_throttle *throttle, const char *owner_name,
                                      const struct weir_allocator *allocator,
                                      weir_interceptor **layer_out) {
  const struct weir_allocator *memory = weir__allocator_or_default(allocator);
  struct retry_layer *layer = weir__zalloc(memory, sizeof *layer);
  *layer_out = NULL;
  if (layer == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  layer->base.vtable = &retry_vtable;
  layer->allocator = memory;
  if (owner_name != NULL) {
    layer->owner_name = weir__copy_text(memory, owner_name, strlen(owner_name));
    if (layer->owner_name == NULL) {
      weir__free(memory, layer);
      return WEIR_ERROR_NO_MEMORY;
    }
  }
  if (throttle != NULL) {
    weir_throttle_ref(throttle);
    layer->throttle = throttle;
  }
  *layer_out = &layer->base;
  return WEIR_OK;
}

void weir__retry_layer_set_throttle(weir_interceptor *self, weir_throttle *throttle) {
  struct retry_layer *layer = WEIR__CONTAINER_OF(self, struct retry_layer, base);
  layer->throttle = throttle;
}
