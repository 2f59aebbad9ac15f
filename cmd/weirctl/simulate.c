/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/simulate.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/clock.h>
#include <weir/throttle.h>

#include "cmd/weirctl/output.h"
#include "interceptors/breaker/breaker_layer.h"
#include "interceptors/deadline/deadline.h"
#include "interceptors/translation/translation.h"
#include "src/outcome/outcome.h"
#include "src/outcome/supposed.h"
#include "src/policy/policy.h"
#include "src/stack/stack.h"
#include "src/time/instant.h"

/* Where the channel is supposed to lead; names its throttle. */
#define TARGET "weirctl"

/* When the call began. */
#define STARTED_AT_NS WEIR_SECOND_NS

/* What a call has of its own, or of its parent's, where the policy bounds nothing. */
#define OWN_TIMEOUT_NS (3600 * WEIR_SECOND_NS)

#define REFERENCE "0123456789ab"

#define CALLS_TIME_FIRST "the time of the call is up before its perAttemptTimeout is"

static_assert(SIMULATION_MESSAGE_SIZE == WEIR__TRANSLATION_MESSAGE_BYTES, "a message fits");

struct run {
  const struct simulation_question *question;
  struct simulation_answer *answer;
  struct weir_random random;
  struct weir__stack stack;
  void *states;
  uint8_t n_admitted;
  weir_throttle *throttle;
  struct weir_inbound_facts inbound;
  struct weir_plan plan;
  int64_t now_ns;
};

__attribute__((format(printf, 2, 3))) static enum weir_error impossible(const struct run *run,
                                                                        const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(run->answer->why_not, sizeof run->answer->why_not, format, arguments);
  va_end(arguments);
  return WEIR_ERROR_INVALID_ARGUMENT;
}

static struct weir_event event_of(const struct run *run) {
  return (struct weir_event){.now_ns = run->now_ns, .random = &run->random};
}

/* ---- the call ---- */

static void plan_init(struct run *run) {
  const struct simulation_question *question = run->question;
  run->inbound.deadline_at_ns = WEIR_NO_DEADLINE;
  run->plan = (struct weir_plan){
      .method = weir_policy_method(question->policy, question->path, question->path_size),
      .inbound = question->caller == SIMULATION_CALLER_ROOT ? NULL : &run->inbound,
      .path = question->path,
      .path_size = question->path_size,
      .started_at_ns = STARTED_AT_NS,
      .attempted_at_ns = STARTED_AT_NS,
      .shape = question->shape,
      .replayable = true,
      .outer_owns_retries = question->caller == SIMULATION_CALLER_RETRYING,
      .deadline_at_ns = WEIR_NO_DEADLINE,
      .deadline_bound = WEIR_DEADLINE_BOUND_NONE,
  };
}

/* What the policy alone makes of the time of a call that brings no deadline. */
static struct weir_plan bound_by_policy(const struct run *run) {
  const struct weir__layer *deadline = &run->stack.layers[0];
  struct weir_event event = event_of(run);
  struct weir_plan plan = run->plan;
  (void)deadline->hooks.admit(deadline->self, run->states, &event, &plan);
  return plan;
}

/* The policy's time alone is up before the first attempt only if it leaves none. */
static enum weir_deadline_bound bound_of(const struct run *run, const struct weir_plan *by_policy) {
  const struct simulation_question *question = run->question;
  bool inherits = run->plan.method->deadline->inherits_parent;
  bool by_policy_too = by_policy->deadline_bound != WEIR_DEADLINE_BOUND_NONE &&
                       (question->attempt > 0 || by_policy->deadline_at_ns <= run->now_ns);
  if (question->bound != WEIR_DEADLINE_BOUND_NONE ||
      question->origin != WEIR_ORIGIN_LOCAL_DEADLINE) {
    return question->bound;
  }
  if (inherits && run->plan.inbound != NULL) {
    return WEIR_DEADLINE_BOUND_PARENT;
  }
  return by_policy_too ? WEIR_DEADLINE_BOUND_POLICY : WEIR_DEADLINE_BOUND_CALL;
}

static enum weir_error bound_by_parent(struct run *run, int64_t at_ns) {
  const struct weir_deadline_options *options = run->plan.method->deadline;
  if (run->plan.inbound == NULL) {
    return impossible(run, "a parent's deadline needs a request that is being served (--inbound)");
  }
  if (!options->inherits_parent) {
    return impossible(run, "the policy does not look at a parent's deadline (inheritsParent)");
  }
  run->inbound.deadline_at_ns = weir__instant_add(at_ns, options->margin_ns);
  return WEIR_OK;
}

static enum weir_error bound_by_attempt(const struct run *run, int64_t at_ns) {
  int64_t timeout_ns = run->plan.method->per_attempt_timeout_ns;
  if (timeout_ns == WEIR_NO_LIMIT_NS) {
    return impossible(run, "the method has no perAttemptTimeout");
  }
  if (weir__instant_add(STARTED_AT_NS, timeout_ns) >= at_ns) {
    return impossible(run, CALLS_TIME_FIRST);
  }
  return WEIR_OK;
}

/* Has the bound that is asked for be the tightest, and no tighter than it must be. */
static enum weir_error plan_bound(struct run *run) {
  struct weir_plan by_policy = bound_by_policy(run);
  int64_t policy_at_ns = by_policy.deadline_at_ns;
  int64_t own_at_ns = policy_at_ns == WEIR_NO_DEADLINE
                          ? weir__instant_add(STARTED_AT_NS, OWN_TIMEOUT_NS)
                          : policy_at_ns - 1;
  enum weir_deadline_bound bound = bound_of(run, &by_policy);
  run->answer->deadline.bound = bound;
  run->answer->deadline.limit_ns = weir__instant_remaining(policy_at_ns, STARTED_AT_NS);
  switch (bound) {
  case WEIR_DEADLINE_BOUND_NONE:
    break;
  case WEIR_DEADLINE_BOUND_CALL:
    run->plan.deadline_at_ns = own_at_ns;
    run->plan.deadline_bound = WEIR_DEADLINE_BOUND_CALL;
    break;
  case WEIR_DEADLINE_BOUND_PARENT:
    return bound_by_parent(run, own_at_ns);
  case WEIR_DEADLINE_BOUND_POLICY:
    if (policy_at_ns == WEIR_NO_DEADLINE) {
      return impossible(run, "the policy does not bound the time of such a call");
    }
    break;
  case WEIR_DEADLINE_BOUND_ATTEMPT:
    return bound_by_attempt(run, policy_at_ns);
  }
  return WEIR_OK;
}

/* ---- a call that ends before its first attempt ---- */

static enum weir_error suppose(struct run *run, bool attempted) {
  const struct simulation_question *question = run->question;
  struct weir__supposed_end end = {
      .code = question->code,
      .origin = question->origin,
      .deadline_bound = run->answer->deadline.bound,
      .attempted = attempted,
      .after_headers = question->after_headers,
      .unprocessed = question->unprocessed,
      .pushback = question->pushback,
      .started_at_ns = run->plan.attempted_at_ns,
      .ended_at_ns = run->now_ns,
      .deadline_at_ns = question->origin == WEIR_ORIGIN_LOCAL_DEADLINE ? run->plan.deadline_at_ns
                                                                       : WEIR_NO_DEADLINE,
  };
  if (weir__outcome_suppose(&end, &run->answer->outcome)) {
    return WEIR_OK;
  }
  return impossible(run, "nothing ends with %s from %s", weir_status_code_name(question->code),
                    weir_origin_name(question->origin));
}

/* Why a call ends that is not even shown to the layers. */
static enum weir_reason engines_reason(enum weir_origin origin) {
  switch (origin) {
  case WEIR_ORIGIN_LOCAL_CANCEL:
    return WEIR_REASON_CANCELLED;
  case WEIR_ORIGIN_LOCAL_LIMIT:
    return WEIR_REASON_LIMIT;
  case WEIR_ORIGIN_LOCAL_SHUTDOWN:
    return WEIR_REASON_SHUTDOWN;
  case WEIR_ORIGIN_LOCAL_DEADLINE:
  case WEIR_ORIGIN_LOCAL_BREAKER:
  case WEIR_ORIGIN_PEER:
  case WEIR_ORIGIN_TRANSPORT_CONNECT:
  case WEIR_ORIGIN_TRANSPORT_RESET:
    break;
  }
  return WEIR_REASON_NONE;
}

static void ignore_overridden(void *context, const struct weir__breaker_name *name,
                              enum weir_breaker_override override,
                              const struct weir_breaker_view *view) {
  (void)context;
  (void)name;
  (void) override;
  (void)view;
}

static enum weir_error open_breaker(const struct run *run) {
  const struct simulation_question *question = run->question;
  if (!run->answer->breaker.enabled) {
    return impossible(run, "the policy's breaker is switched off, so it refuses nothing");
  }
  return weir__breaker_layer_override(run->stack.breaker, question->path, question->path_size,
                                      WEIR_BREAKER_OVERRIDE_OPEN, ignore_overridden, NULL);
}

static enum weir_admission admit(struct run *run) {
  struct weir_event event = event_of(run);
  return weir__stack_admit(&run->stack, run->states, &event, &run->plan, &run->n_admitted);
}

/* Has the layer that the end is of refuse the call. */
static enum weir_error refuse_call(struct run *run) {
  enum weir_error error = WEIR_OK;
  if (run->question->origin == WEIR_ORIGIN_LOCAL_BREAKER) {
    error = open_breaker(run);
  } else if (run->question->origin == WEIR_ORIGIN_LOCAL_DEADLINE) {
    int64_t given_ns = weir__instant_min(run->plan.deadline_at_ns, run->inbound.deadline_at_ns);
    run->now_ns = given_ns != WEIR_NO_DEADLINE ? given_ns : run->now_ns;
  } else {
    run->plan.reason = engines_reason(run->question->origin);
    return WEIR_OK;
  }
  if (error == WEIR_OK &&
      (admit(run) != WEIR_ADMISSION_REFUSE || run->plan.refused_as != run->question->origin)) {
    error = impossible(run, "no call is refused so");
  }
  run->answer->breaker.refuses = run->question->origin == WEIR_ORIGIN_LOCAL_BREAKER;
  run->answer->deadline.refuses = run->question->origin == WEIR_ORIGIN_LOCAL_DEADLINE;
  return error;
}

static enum weir_error end_before_first(struct run *run) {
  if (run->question->origin < WEIR_ORIGIN_LOCAL_DEADLINE) {
    return impossible(run, "%s says that there was an attempt",
                      weir_origin_name(run->question->origin));
  }
  enum weir_error error = refuse_call(run);
  return error == WEIR_OK ? suppose(run, false) : error;
}

/* ---- a call whose attempts have begun ---- */

static void refill_throttle(weir_throttle *throttle, uint32_t max_tokens) {
  while (throttle != NULL && weir_throttle_tokens_milli(throttle) < max_tokens * 1000) {
    weir_throttle_record_success(throttle);
  }
}

static void begin_attempt(struct run *run) {
  run->plan.n_attempts += run->plan.uncounted ? 0 : 1;
  run->plan.uncounted = false;
  run->plan.attempted_at_ns = run->now_ns;
}

/* One that the policy has tried again; false: there is none. */
static bool suppose_retryable(const struct run *run, struct weir_outcome *outcome_out) {
  struct weir__supposed_end end = {
      .code = GRPC_STATUS_CANCELLED,
      .origin = WEIR_ORIGIN_PEER,
      .attempted = true,
      .started_at_ns = run->now_ns,
      .ended_at_ns = run->now_ns,
      .deadline_at_ns = WEIR_NO_DEADLINE,
  };
  uint32_t codes = run->plan.method->retry.retryable_codes;
  while ((int)end.code < WEIR_N_STATUS_CODES - 1 && (codes >> (uint32_t)end.code & 1u) == 0) {
    end.code = (grpc_status_code)((int)end.code + 1);
  }
  return weir__outcome_suppose(&end, outcome_out);
}

/* Whether an attempt that fails is followed by another. */
static bool fail_attempt(struct run *run) {
  struct weir_outcome outcome;
  struct weir_event event = event_of(run);
  uint8_t n_layers = run->n_admitted;
  return suppose_retryable(run, &outcome) &&
         weir__stack_settle(&run->stack, run->states, &event, &outcome, &run->plan, &n_layers) ==
             WEIR_DISPOSITION_RETRY &&
         weir__stack_resume(&run->stack, run->states, &event, &run->plan) == WEIR_ADMISSION_PROCEED;
}

/* The attempts before the one that is asked about have failed, and each was tried again. */
static enum weir_error fail_earlier_attempts(struct run *run, uint32_t max_tokens) {
  for (uint32_t i = 1; i < run->question->attempt; i++) {
    begin_attempt(run);
    refill_throttle(run->throttle, max_tokens);
    if (!fail_attempt(run)) {
      return impossible(run, "the method's calls have no attempt %u: %s",
                        (unsigned)run->question->attempt, weir_reason_name(run->plan.reason));
    }
    run->now_ns = run->plan.resume_at_ns;
  }
  begin_attempt(run);
  refill_throttle(run->throttle, max_tokens);
  return WEIR_OK;
}

/* When the attempt ends: at once, unless it is its time that is up. False: that is the call's before
 * it is the attempt's. */
static bool pass_time(struct run *run) {
  if (run->question->origin != WEIR_ORIGIN_LOCAL_DEADLINE) {
    return true;
  }
  bool is_attempts = run->answer->deadline.bound == WEIR_DEADLINE_BOUND_ATTEMPT;
  run->now_ns = is_attempts
                    ? weir__instant_add(run->now_ns, run->plan.method->per_attempt_timeout_ns)
                    : run->plan.deadline_at_ns;
  return !is_attempts || run->now_ns < run->plan.deadline_at_ns;
}

static enum weir_error end_attempt(struct run *run, uint32_t max_tokens) {
  if (run->question->origin == WEIR_ORIGIN_LOCAL_BREAKER) {
    return impossible(run, "a breaker refuses a call before its first attempt; later ones are "
                           "not made, and the call ends as the last one did");
  }
  if (run->question->pushback != NULL && run->question->origin != WEIR_ORIGIN_PEER) {
    return impossible(run, "only a peer can push back");
  }
  if (admit(run) == WEIR_ADMISSION_REFUSE) {
    return impossible(run, "calls of the method end before their first attempt: %s",
                      weir_reason_name(run->plan.reason));
  }
  enum weir_error error = fail_earlier_attempts(run, max_tokens);
  if (error == WEIR_OK) {
    error = pass_time(run) ? suppose(run, true) : impossible(run, CALLS_TIME_FIRST);
  }
  return error;
}

/* ---- what the layers say ---- */

static struct weir_breaker_snapshot look_at_breaker(const struct run *run) {
  struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
  if (weir__breaker_layer_snapshot(run->stack.breaker, run->question->path,
                                   run->question->path_size, run->now_ns, &snapshot) != WEIR_OK) {
    snapshot = (struct weir_breaker_snapshot)WEIR_BREAKER_SNAPSHOT_INIT; /* there is none */
  }
  return snapshot;
}

static void read_breaker(const struct run *run, const struct weir_breaker_snapshot *before) {
  struct simulation_breaker *breaker = &run->answer->breaker;
  struct weir_breaker_snapshot after = look_at_breaker(run);
  breaker->opens = after.n_trips > before->n_trips;
  if (breaker->opens || after.n_failures > before->n_failures) {
    breaker->verdict = WEIR_BREAKER_VERDICT_FAILURE;
  } else if (after.n_requests > before->n_requests) {
    breaker->verdict = WEIR_BREAKER_VERDICT_SUCCESS;
  }
}

static void ask_for_resume(struct run *run, struct weir_event *event) {
  struct simulation_answer *answer = run->answer;
  answer->retry.least_wait_ns = run->plan.resume_at_ns - run->now_ns;
  answer->retry.most_wait_ns = answer->retry.least_wait_ns;
  answer->deadline.asked = true;
  answer->deadline.fits =
      weir__stack_resume(&run->stack, run->states, event, &run->plan) == WEIR_ADMISSION_PROCEED;
  if (answer->deadline.fits) {
    answer->retry.next = run->plan.uncounted ? SIMULATION_NEXT_REPLAY : SIMULATION_NEXT_RETRY;
  }
}

/* As the engine does, and on to the end of the call even if it would have another attempt. */
static void settle(struct run *run) {
  struct simulation_answer *answer = run->answer;
  struct weir_event event = event_of(run);
  struct weir_breaker_snapshot breaker_before = look_at_breaker(run);
  uint32_t tokens_before = run->throttle != NULL ? weir_throttle_tokens_milli(run->throttle) : 0;
  uint8_t n_unsettled = run->n_admitted;
  answer->retry.asked = run->n_admitted == run->stack.n_layers;
  answer->breaker.asked = answer->breaker.enabled && answer->retry.asked;
  if (weir__stack_settle(&run->stack, run->states, &event, &answer->outcome, &run->plan,
                         &n_unsettled) == WEIR_DISPOSITION_RETRY) {
    ask_for_resume(run, &event);
  }
  answer->retry.reason = run->plan.reason;
  if (run->throttle != NULL) {
    answer->retry.tokens_milli =
        (int32_t)weir_throttle_tokens_milli(run->throttle) - (int32_t)tokens_before;
  }
  while (weir__stack_settle(&run->stack, run->states, &event, &answer->outcome, &run->plan,
                            &n_unsettled) == WEIR_DISPOSITION_RETRY) {
    /* the end is the end */
  }
  weir__stack_release(&run->stack, run->states, &event, &run->plan, run->n_admitted);
  read_breaker(run, &breaker_before);
}

static void present(struct run *run) {
  struct simulation_translation *translation = &run->answer->translation;
  const struct weir_translation_options *options = run->plan.method->translation;
  run->plan.visible_code = run->answer->outcome.code;
  if (!weir__outcome_is_ok(&run->answer->outcome)) {
    weir__stack_present(&run->stack, &run->answer->outcome, &run->plan);
  }
  translation->boundary = options->boundary;
  translation->visible = run->plan.visible_code;
  translation->scrubbed = run->plan.scrubbed;
  translation->do_not_retry = run->plan.do_not_retry;
  if (translation->scrubbed) {
    (void)weir__translation_message(translation->visible, options->message_ref ? REFERENCE : NULL,
                                    translation->message);
  }
}

/* ---- one run, and two of them ---- */

/* A bucket that is not full shows what a success gives back. */
static void make_room_in_throttle(const struct run *run) {
  if (run->throttle != NULL && run->question->code == GRPC_STATUS_OK) {
    (void)weir_throttle_record_failure(run->throttle);
  }
}

static enum weir_error run_with(struct run *run) {
  const weir_policy *policy = run->question->policy;
  struct simulation_answer *answer = run->answer;
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  enum weir_error error = WEIR_OK;
  plan_init(run);
  answer->retry.max_attempts = run->plan.method->retry.max_attempts;
  answer->breaker.enabled = weir__policy_breaker(policy)->enabled;
  answer->breaker.mode = weir__policy_breaker(policy)->mode;
  answer->retry.throttled = weir__policy_throttle(policy, &max_tokens, &ratio_milli);
  answer->retry.max_tokens_milli = max_tokens * 1000;
  if (answer->retry.throttled) {
    error = weir_throttle_acquire(TARGET, max_tokens, ratio_milli, &run->throttle);
  }
  if (error == WEIR_OK) {
    error = plan_bound(run);
  }
  if (error == WEIR_OK) {
    error = run->question->attempt == 0 ? end_before_first(run) : end_attempt(run, max_tokens);
  }
  if (error == WEIR_OK) {
    make_room_in_throttle(run);
    settle(run);
    present(run);
  }
  weir_throttle_release(run->throttle);
  return error;
}

static enum weir_error run_once(const struct simulation_question *question,
                                uint64_t (*chance)(void *context),
                                struct simulation_answer *answer_out) {
  struct run run = {
      .question = question,
      .answer = answer_out,
      .random = {.size = sizeof run.random, .next = chance},
      .now_ns = STARTED_AT_NS,
  };
  memset(answer_out, 0, sizeof *answer_out);
  weir_throttle_forget();
  const struct weir__stack_parts parts = {.core_retries = WEIR_CORE_RETRIES_OFF};
  enum weir_error error =
      weir__stack_init(&run.stack, question->policy, &parts, /* allocator */ NULL);
  if (error != WEIR_OK) {
    return error;
  }
  run.states = calloc(1, run.stack.states_bytes);
  error = run.states != NULL ? weir__stack_take_throttle(&run.stack, question->policy, TARGET)
                             : WEIR_ERROR_NO_MEMORY;
  if (error == WEIR_OK) {
    weir__stack_put_in_force(&run.stack);
    error = run_with(&run);
  }
  free(run.states);
  weir__stack_fini(&run.stack);
  weir_throttle_forget();
  return error;
}

static uint64_t least_chance(void *context) {
  (void)context;
  return 0;
}

static uint64_t most_chance(void *context) {
  (void)context;
  return UINT64_MAX;
}

enum weir_error simulation_run(const struct simulation_question *question,
                               struct simulation_answer *answer_out) {
  struct simulation_answer least;
  enum weir_error error = run_once(question, least_chance, &least);
  if (error != WEIR_OK) {
    *answer_out = least;
    return error;
  }
  error = run_once(question, most_chance, answer_out);
  if (error == WEIR_OK) {
    answer_out->retry.least_wait_ns = least.retry.least_wait_ns;
  }
  return error;
}

/* ---- single answers ---- */

grpc_status_code simulation_visible(const struct weir_method_policy *method,
                                    grpc_status_code code) {
  const struct weir_outcome outcome = {.code = code, .origin = WEIR_ORIGIN_PEER};
  struct weir_plan plan = {.method = method, .visible_code = code};
  weir_interceptor *layer = NULL;
  if (weir__translation_layer_new(NULL, &layer) != WEIR_OK) {
    complain_of_memory();
  }
  if (!weir__outcome_is_ok(&outcome)) {
    layer->vtable->present(layer, &outcome, &plan);
  }
  layer->vtable->destroy(layer);
  return plan.visible_code;
}

int64_t simulation_limit_ns(const struct weir_method_policy *method, enum weir_call_shape shape,
                            enum simulation_own own) {
  const struct weir_event event = {.now_ns = STARTED_AT_NS};
  struct weir_plan plan = {
      .method = method,
      .started_at_ns = STARTED_AT_NS,
      .shape = shape,
      .deadline_at_ns = own == SIMULATION_OWN_FAR ? WEIR_NO_DEADLINE - 1 : WEIR_NO_DEADLINE,
  };
  weir_interceptor *layer = NULL;
  if (weir__deadline_layer_new(NULL, &layer) != WEIR_OK) {
    complain_of_memory();
  }
  (void)layer->vtable->admit(layer, NULL, &event, &plan);
  layer->vtable->destroy(layer);
  return plan.deadline_bound == WEIR_DEADLINE_BOUND_POLICY
             ? weir__instant_remaining(plan.deadline_at_ns, STARTED_AT_NS)
             : WEIR_NO_LIMIT_NS;
}
