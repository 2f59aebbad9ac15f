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

/* Of the breaker that calls share, where there may be others. */
#define SHARED_NAME "other"

struct breaker_layer {
  weir_interceptor base;
  const struct weir_allocator *allocator;
  const char *name;
  struct weir_breaker_options options;
  struct weir__breaker_registry registry;
};

/* The breaker is plan->breaker_entry's; NULL: the layer is switched off. */
struct breaker_call {
  struct weir_breaker_ticket ticket;
};

static struct breaker_layer *layer_of(weir_interceptor *self) {
  return WEIR__CONTAINER_OF(self, struct breaker_layer, base);
}

static weir_breaker *breaker_of(const struct weir_plan *plan) {
  const struct weir__breaker_entry *entry = plan->breaker_entry;
  return entry != NULL ? weir__breaker_entry_breaker(entry) : NULL;
}

static void plan_view(struct weir_plan *plan, const struct weir_breaker_view *view) {
  plan->breaker_state = view->state;
  plan->breaker_generation = view->generation;
  plan->next_probe_in_ns = view->next_probe_in_ns;
  if (view->changed) {
    plan->breaker_changed = true;
    plan->breaker_changed_from = view->changed_from;
  }
}

static enum weir_admission plan_refuse(struct weir_plan *plan,
                                       const struct weir_breaker_view *view) {
  plan_view(plan, view);
  plan->breaker_refusal = view->refusal;
  plan->reason = WEIR_REASON_BREAKER_OPEN;
  plan->do_not_retry = true; /* whoever calls this service would only find the breaker again */
  return WEIR_ADMISSION_REFUSE;
}

static bool is_probe(const struct weir_breaker_ticket *ticket) {
  return ticket->stage == WEIR_BREAKER_TICKET_PENDING && ticket->place != WEIR_BREAKER_NO_PLACE;
}

static enum weir_admission breaker_admit(weir_interceptor *self, void *call_state,
                                         const struct weir_event *event, struct weir_plan *plan) {
  struct breaker_layer *layer = layer_of(self);
  struct breaker_call *call = call_state;
  struct weir__breaker_entry *entry = plan->breaker_entry;
  struct weir_breaker_view view;
  enum weir_admission admission =
      weir__breaker_registry_admit(&layer->registry, plan->path, plan->path_size, event->now_ns,
                                   event->random, &entry, &call->ticket, &view);
  plan->breaker_entry = entry;
  if (admission == WEIR_ADMISSION_REFUSE) {
    plan->refused_as = WEIR_ORIGIN_LOCAL_BREAKER;
    return plan_refuse(plan, &view);
  }
  plan_view(plan, &view);
  plan->breaker_refusal = view.refusal; /* which shadow mode has let pass */
  if (is_probe(&call->ticket) && layer->options.mode == WEIR_BREAKER_MODE_ENFORCE) {
    plan->single_attempt = true;
  }
  return WEIR_ADMISSION_PROCEED;
}

static enum weir_admission breaker_resume(weir_interceptor *self, void *call_state,
                                          const struct weir_event *event, struct weir_plan *plan) {
  const struct breaker_call *call = call_state;
  if (plan->breaker_entry == NULL ||
      weir__breaker_registry_still_admits(&layer_of(self)->registry, plan->breaker_entry,
                                          plan->path, plan->path_size, &call->ticket)) {
    return WEIR_ADMISSION_PROCEED;
  }
  struct weir_breaker_view view = weir_breaker_look(breaker_of(plan), event->now_ns);
  return plan_refuse(plan, &view);
}

static void breaker_progress(weir_interceptor *self, void *call_state,
                             const struct weir_event *event, struct weir_plan *plan) {
  (void)self;
  struct breaker_call *call = call_state;
  weir_breaker *breaker = breaker_of(plan);
  if (breaker != NULL) {
    struct weir_breaker_view view;
    weir_breaker_progress(breaker, &call->ticket, event->now_ns, &view);
    plan_view(plan, &view);
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
  weir_breaker *breaker = breaker_of(plan);
  if (breaker != NULL) {
    struct weir_breaker_view view;
    weir_breaker_settle(breaker, &call->ticket, verdict_of(&layer->options, outcome, plan),
                        event->now_ns, event->random, &view);
    plan_view(plan, &view);
  }
  return WEIR_DISPOSITION_FINISH;
}

static void breaker_release(weir_interceptor *self, void *call_state,
                            const struct weir_event *event, const struct weir_plan *plan) {
  (void)self;
  (void)event;
  struct breaker_call *call = call_state;
  weir_breaker *breaker = breaker_of(plan);
  if (breaker != NULL) {
    weir_breaker_release(breaker, &call->ticket);
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

/* Calls pass through where there is no hook. */
static const struct weir_interceptor_vtable off_vtable = {
    .size = sizeof(struct weir_interceptor_vtable),
    .name = "breaker",
    .destroy = breaker_destroy,
};

enum weir_error weir__breaker_layer_new(const struct weir_breaker_options *options,
                                        const char *name, size_t n_known,
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
  layer->base.vtable = known.enabled ? &breaker_vtable : &off_vtable;
  layer->allocator = allocator;
  layer->name = name;
  layer->options = known;
  error = weir__breaker_registry_init(&layer->registry, &known, allocator);
  if (error != WEIR_OK) {
    weir__free(allocator, layer);
    return error;
  }
  (void)weir__breaker_registry_expect(&layer->registry, n_known); /* without, it is slower */
  *layer_out = &layer->base;
  return WEIR_OK;
}

enum weir_error weir__breaker_layer_renew(weir_interceptor *self,
                                          const struct weir_breaker_options *options,
                                          const char *name, size_t n_known,
                                          weir_interceptor **next_out) {
  return weir__breaker_layer_new(options, name, n_known, layer_of(self)->allocator, next_out);
}

void weir__breaker_layer_put_in_force(weir_interceptor *self) {
  (void)self;
}

void weir__breaker_layer_catch_up(weir_interceptor *self,
                                  weir__breaker_layer_overridden_fn *changed, void *context) {
  (void)self;
  (void)changed;
  (void)context;
}

enum weir_error weir__breaker_layer_know(weir_interceptor *self, const char *path, size_t path_size,
                                         void **entry_out) {
  struct weir__breaker_entry *entry = NULL;
  enum weir_error error =
      weir__breaker_registry_know(&layer_of(self)->registry, path, path_size, &entry);
  *entry_out = entry;
  return error;
}

enum weir_error weir__breaker_layer_know_named(weir_interceptor *self, const char *path,
                                               size_t path_size) {
  void *entry = NULL;
  bool is_service = path_size > 0 && path[path_size - 1] == '/';
  if (is_service && layer_of(self)->options.scope == WEIR_BREAKER_SCOPE_METHOD) {
    return WEIR_OK;
  }
  return weir__breaker_layer_know(self, path, path_size, &entry);
}

static void name_set(struct weir__breaker_name *name, const char *text, size_t size) {
  name->size = size < WEIR__BREAKER_NAME_BYTES ? size : WEIR__BREAKER_NAME_BYTES;
  memcpy(name->text, text, name->size);
  name->text[name->size] = '\0';
}

static void name_set_shared(const struct breaker_layer *layer, struct weir__breaker_name *name) {
  const char *text = layer->options.scope == WEIR_BREAKER_SCOPE_CHANNEL ? layer->name : SHARED_NAME;
  name_set(name, text, strlen(text));
}

void weir__breaker_layer_name(weir_interceptor *self, const struct weir_plan *plan,
                              struct weir__breaker_name *name_out) {
  const struct breaker_layer *layer = layer_of(self);
  const struct weir__breaker_entry *entry = plan->breaker_entry;
  if (entry == NULL) {
    name_set(name_out, "", 0);
  } else if (entry->kind == WEIR__BREAKER_SHARED) {
    name_set_shared(layer, name_out);
  } else {
    name_set(name_out, plan->path,
             weir__breaker_registry_key_size(&layer->registry, plan->path, plan->path_size));
  }
}

/* Completes the names that the registry does not know. */
struct overriding {
  const struct breaker_layer *layer;
  weir__breaker_layer_overridden_fn *overridden;
  void *context;
};

static void tell_overridden(void *context, enum weir__breaker_kind kind,
                            const struct weir__breaker_name *name,
                            enum weir_breaker_override override,
                            const struct weir_breaker_view *view) {
  const struct overriding *overriding = context;
  struct weir__breaker_name own;
  if (kind == WEIR__BREAKER_SHARED) {
    name_set_shared(overriding->layer, &own);
    name = &own;
  }
  overriding->overridden(overriding->context, name, override, view);
}

enum weir_error weir__breaker_layer_override(weir_interceptor *self, const char *path,
                                             size_t path_size, enum weir_breaker_override override,
                                             weir__breaker_layer_overridden_fn *overridden,
                                             void *context) {
  struct breaker_layer *layer = layer_of(self);
  struct overriding overriding = {.layer = layer, .overridden = overridden, .context = context};
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_view view;
  if (path == NULL) {
    weir__breaker_registry_override_all(&layer->registry, override, tell_overridden, &overriding);
    return WEIR_OK;
  }
  enum weir_error error = weir__breaker_registry_override_one(&layer->registry, path, path_size,
                                                              override, &entry, &view);
  if (entry != NULL) {
    const struct weir_plan plan = {.path = path, .path_size = path_size, .breaker_entry = entry};
    struct weir__breaker_name name;
    weir__breaker_layer_name(self, &plan, &name);
    overridden(context, &name, override, &view);
  }
  return error;
}

enum weir_error weir__breaker_layer_snapshot(weir_interceptor *self, const char *path,
                                             size_t path_size, int64_t now_ns,
                                             struct weir_breaker_snapshot *out) {
  struct breaker_layer *layer = layer_of(self);
  size_t size = out->size;
  if (size < sizeof size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  enum weir_error error = WEIR_ERROR_UNAVAILABLE;
  if (layer->options.enabled) {
    error = weir__breaker_registry_snapshot(&layer->registry, path, path_size, now_ns, out);
  }
  if (error != WEIR_OK) {
    memset(out, 0, size);
    out->size = size;
  }
  return error;
}

uint32_t weir__breaker_layer_n_breakers(weir_interceptor *self) {
  return weir__breaker_registry_n_breakers(&layer_of(self)->registry);
}

uint64_t weir__breaker_layer_n_overflowed(weir_interceptor *self) {
  return weir__breaker_registry_n_overflowed(&layer_of(self)->registry);
}
