/* SPDX-License-Identifier: Apache-2.0 */
#include "interceptors/breaker/breaker_layer.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/base/options.h"
#include "src/decide/breaker.h"
#include "src/decide/breaker_options.h"
#include "src/decide/breaker_registry.h"
#include "src/outcome/outcome.h"
#include "src/time/instant.h"

struct breaker_layer {
  weir_interceptor base;
  const struct weir_allocator *allocator;
  struct weir_breaker_options options;
  struct weir__breaker_registry registry;
};

struct breaker_call {
  weir_breaker *breaker; /* NULL: the layer is switched off */
  struct weir_breaker_ticket ticket;
};

static struct breaker_layer *layer_of(weir_interceptor *self) {
  return WEIR__CONTAINER_OF(self, struct breaker_layer, base);
}

static enum weir_admission plan_refuse(struct weir_plan *plan, struct weir_breaker_view view) {
  plan->reason = WEIR_REASON_BREAKER_OPEN;
  plan->breaker_state = view.state;
  plan->next_probe_in_ns = view.next_probe_in_ns;
  plan->do_not_retry = true; /* whoever calls this service would only find the breaker again */
  return WEIR_ADMISSION_REFUSE;
}

static enum weir_admission breaker_admit(weir_interceptor *self, void *call_state,
                                         const struct weir_event *event, struct weir_plan *plan) {
  struct breaker_layer *layer = layer_of(self);
  struct breaker_call *call = call_state;
  struct weir_breaker_view view = {.state = WEIR_BREAKER_CLOSED};
  if (!layer->options.enabled) {
    return WEIR_ADMISSION_PROCEED;
  }
  call->breaker = weir__breaker_registry_enter(&layer->registry, plan->path, plan->path_size);
  if (weir_breaker_admit(call->breaker, event->now_ns, event->random, &call->ticket, &view) ==
      WEIR_ADMISSION_REFUSE) {
    plan->refused_as = WEIR_ORIGIN_LOCAL_BREAKER;
    return plan_refuse(plan, view);
  }
  plan->breaker_state = view.state;
  if (call->ticket.place != WEIR_BREAKER_NO_PLACE) {
    plan->single_attempt = true;
  }
  return WEIR_ADMISSION_PROCEED;
}

static enum weir_admission breaker_resume(weir_interceptor *self, void *call_state,
                                          const struct weir_event *event, struct weir_plan *plan) {
  (void)self;
  const struct breaker_call *call = call_state;
  if (call->breaker == NULL || weir_breaker_still_admits(call->breaker, &call->ticket)) {
    return WEIR_ADMISSION_PROCEED;
  }
  return plan_refuse(plan, weir_breaker_look(call->breaker, event->now_ns));
}

static void breaker_progress(weir_interceptor *self, void *call_state,
                             const struct weir_event *event) {
  (void)self;
  struct breaker_call *call = call_state;
  if (call->breaker != NULL) {
    weir_breaker_progress(call->breaker, &call->ticket, event->now_ns, NULL);
  }
}

/* A peer counts the time it was given by a clock of its own and often answers before the local one
 * has run out, so its DEADLINE_EXCEEDED is judged by the call's budget too. */
static bool ran_out_of_time(const struct weir_outcome *outcome) {
  return outcome->origin == WEIR_ORIGIN_LOCAL_DEADLINE ||
         weir__outcome_is_deadline_exceeded(outcome);
}

/* The classifier's verdict, or IGNORED for what the options take out of the failures. */
static enum weir_breaker_verdict verdict_of(const struct weir_breaker_options *options,
                                            const struct weir_outcome *outcome,
                                            const struct weir_plan *plan) {
  if (outcome->breaker_verdict != WEIR_BREAKER_VERDICT_FAILURE) {
    return outcome->breaker_verdict;
  }
  if (options->ignore_resets && outcome->origin == WEIR_ORIGIN_TRANSPORT_RESET) {
    return WEIR_BREAKER_VERDICT_IGNORED;
  }
  int64_t budget_ns = weir__instant_remaining(plan->deadline_at_ns, plan->started_at_ns);
  if (ran_out_of_time(outcome) && budget_ns < options->deadline_floor_ns) {
    return WEIR_BREAKER_VERDICT_IGNORED;
  }
  return WEIR_BREAKER_VERDICT_FAILURE;
}

static enum weir_disposition breaker_settle(weir_interceptor *self, void *call_state,
                                            const struct weir_event *event,
                                            const struct weir_outcome *outcome,
                                            struct weir_plan *plan) {
  struct breaker_layer *layer = layer_of(self);
  struct breaker_call *call = call_state;
  if (call->breaker != NULL) {
    struct weir_breaker_view view;
    weir_breaker_settle(call->breaker, &call->ticket, verdict_of(&layer->options, outcome, plan),
                        event->now_ns, event->random, &view);
    plan->breaker_state = view.state;
  }
  return WEIR_DISPOSITION_FINISH;
}

static void breaker_release(weir_interceptor *self, void *call_state,
                            const struct weir_event *event) {
  (void)self;
  (void)event;
  struct breaker_call *call = call_state;
  if (call->breaker != NULL) {
    weir_breaker_release(call->breaker, &call->ticket);
  }
}

static void breaker_destroy(weir_interceptor *self) {
  struct breaker_layer *layer = layer_of(self);
  const struct weir_allocator *allocator = layer->allocator;
  weir__breaker_registry_fini(&layer->registry);
  weir__free(allocator, layer);
}

static const struct weir_interceptor_vtable breaker_vtable = {
    .size = sizeof(struct weir_interceptor_vtable),
    .name = "breaker",
    .call_state_size = sizeof(struct breaker_call),
    .admit = breaker_admit,
    .resume = breaker_resume,
    .progress = breaker_progress,
    .settle = breaker_settle,
    .release = breaker_release,
    .destroy = breaker_destroy,
};

enum weir_error weir__breaker_layer_new(const struct weir_breaker_options *options,
                                        const struct weir_allocator *allocator,
                                        weir_interceptor **layer_out) {
  *layer_out = NULL;
  struct weir_breaker_options known = WEIR_BREAKER_OPTIONS_INIT;
  enum weir_error error = weir__options_copy(&known, sizeof known, options);
  if (error == WEIR_OK) {
    error = weir__breaker_options_check(&known, NULL);
  }
  if (error != WEIR_OK) {
    return error;
  }
  allocator = weir__allocator_or_default(allocator);
  struct breaker_layer *layer = weir__zalloc(allocator, sizeof *layer);
  if (layer == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  layer->base.vtable = &breaker_vtable;
  layer->allocator = allocator;
  layer->options = known;
  error = weir__breaker_registry_init(&layer->registry, &known, allocator);
  if (error != WEIR_OK) {
    weir__free(allocator, layer);
    return error;
  }
  *layer_out = &layer->base;
  return WEIR_OK;
}

enum weir_error weir__breaker_layer_snapshot(weir_interceptor *self, const char *path,
                                             size_t path_size, int64_t now_ns,
                                             struct weir_breaker_snapshot *out) {
  const struct breaker_layer *layer = layer_of(self);
  size_t size = out->size;
  if (size < sizeof size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  const weir_breaker *breaker = layer->options.enabled
                                    ? weir__breaker_registry_find(&layer->registry, path, path_size)
                                    : NULL;
  if (breaker == NULL) {
    memset(out, 0, size);
    out->size = size;
    return WEIR_ERROR_UNAVAILABLE;
  }
  return weir_breaker_snapshot(breaker, now_ns, out);
}

uint64_t weir__breaker_layer_n_overflowed(weir_interceptor *self) {
  return weir__breaker_registry_n_overflowed(&layer_of(self)->registry);
}
