/* SPDX-License-Identifier: Apache-2.0 */
#include "interceptors/deadline/deadline.h"

#include <stdbool.h>
#include <stdint.h>

#include <weir/clock.h>

#include <weir/budget.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/time/instant.h"

struct deadline_layer {
  weir_interceptor base;
  const struct weir_allocator *allocator;
};

static int64_t default_timeout_ns(const struct weir_deadline_options *options,
                                  enum weir_call_shape shape) {
  return shape == WEIR_CALL_SHAPE_ONE_BATCH ? options->default_timeout_ns
                                            : options->default_stream_timeout_ns;
}

static int64_t max_timeout_ns(const struct weir_deadline_options *options,
                              enum weir_call_shape shape) {
  return shape == WEIR_CALL_SHAPE_ONE_BATCH ? options->max_timeout_ns
                                            : options->max_stream_timeout_ns;
}

/* WEIR_NO_DEADLINE when there is no parent, or it has none, or it is not to be inherited. */
static int64_t parent_deadline_at_ns(const struct weir_deadline_options *options,
                                     const struct weir_plan *plan) {
  if (!options->inherits_parent || plan->inbound == NULL) {
    return WEIR_NO_DEADLINE;
  }
  return weir__instant_add(plan->inbound->deadline_at_ns, -options->margin_ns);
}

/* The parent's wins a tie with the call's own: a service that passes its inbound's deadline on by
 * hand means the same bound, and translation asks whether it was the parent's. */
static void plan_bound_by_parent(struct weir_plan *plan, int64_t parent_at_ns) {
  if (parent_at_ns != WEIR_NO_DEADLINE && parent_at_ns <= plan->deadline_at_ns) {
    plan->deadline_at_ns = parent_at_ns;
    plan->deadline_bound = WEIR_DEADLINE_BOUND_PARENT;
  }
}

/* A policy's time has to be nearer to be the bound. True: it is. */
static bool plan_bound_by_policy(struct weir_plan *plan, int64_t now_ns, int64_t timeout_ns) {
  int64_t at_ns =
      timeout_ns == WEIR_NO_LIMIT_NS ? WEIR_NO_DEADLINE : weir__instant_add(now_ns, timeout_ns);
  if (at_ns >= plan->deadline_at_ns) {
    return false;
  }
  plan->deadline_at_ns = at_ns;
  plan->deadline_bound = WEIR_DEADLINE_BOUND_POLICY;
  return true;
}

static enum weir_admission deadline_admit(weir_interceptor *self, void *call_state,
                                          const struct weir_event *event, struct weir_plan *plan) {
  (void)self;
  (void)call_state;
  const struct weir_deadline_options *options = plan->method->deadline;
  plan_bound_by_parent(plan, parent_deadline_at_ns(options, plan));
  bool given =
      plan->deadline_at_ns != WEIR_NO_DEADLINE || plan->method->timeout_ns != WEIR_NO_LIMIT_NS;
  (void)plan_bound_by_policy(plan, event->now_ns,
                             given ? plan->method->timeout_ns
                                   : default_timeout_ns(options, plan->shape));
  if (plan_bound_by_policy(plan, event->now_ns, max_timeout_ns(options, plan->shape))) {
    plan->deadline_clamped = given;
  }
  if (plan->deadline_at_ns > event->now_ns) {
    return WEIR_ADMISSION_PROCEED;
  }
  plan->refused_as = WEIR_ORIGIN_LOCAL_DEADLINE;
  plan->reason = WEIR_REASON_DEADLINE;
  return WEIR_ADMISSION_REFUSE;
}

static enum weir_admission deadline_resume(weir_interceptor *self, void *call_state,
                                           const struct weir_event *event, struct weir_plan *plan) {
  (void)self;
  (void)call_state;
  (void)event;
  if (!weir_budget_allows(plan->deadline_at_ns, plan->resume_at_ns, plan->min_attempt_ns)) {
    plan->reason = WEIR_REASON_BUDGET;
    return WEIR_ADMISSION_REFUSE;
  }
  return WEIR_ADMISSION_PROCEED;
}

static void deadline_destroy(weir_interceptor *self) {
  struct deadline_layer *layer = WEIR__CONTAINER_OF(self, struct deadline_layer, base);
  weir__free(layer->allocator, layer);
}

static const struct weir_interceptor_vtable deadline_vtable = {
    .size = sizeof(struct weir_interceptor_vtable),
    .name = "deadline",
    .call_state_size = 0,
    .admit = deadline_admit,
    .resume = deadline_resume,
    .destroy = deadline_destroy,
};

enum weir_error weir__deadline_layer_new(const struct weir_allocator *allocator,
                                         weir_interceptor **layer_out) {
  const struct weir_allocator *memory = weir__allocator_or_default(allocator);
  struct deadline_layer *layer = weir__zalloc(memory, sizeof *layer);
  *layer_out = NULL;
  if (layer == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  layer->base.vtable = &deadline_vtable;
  layer->allocator = memory;
  *layer_out = &layer->base;
  return WEIR_OK;
}
