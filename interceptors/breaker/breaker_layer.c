/* SPDX-License-Identifier: Apache-2.0 */
#include "interceptors/breaker/breaker_layer.h"

#include <stdatomic.h>
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

/* Keys stay known. When so many more were named by policies of the past than the present one names
 * twice over, a channel's breakers begin anew. */
#define MAX_NAMES_OF_THE_PAST 4096

/* Of the breaker that calls share, where there may be others. */
#define SHARED_NAME "other"

/* The breakers of one scope, which the layers of a channel's policies have together. */
struct breakers {
  atomic_size_t n_shares;
  size_t n_named; /* keys that a policy was the first to name; whoever changes the policy counts */
  struct weir__breaker_registry registry;
};

struct breaker_layer {
  weir_interceptor base;
  const struct weir_allocator *allocator;
  const char *name;
  size_t name_size;
  struct weir_breaker_options options;
  struct breakers *breakers; /* NULL = they have never been switched on */

  /* Of a layer that is to follow another, until it has caught up: */
  struct breakers *former; /* of another scope; NULL = none */
  struct weir__breaker_name former_name;
  bool is_switched;
};

/* The breaker is plan->breaker_entry's. */
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
  enum weir_admission admission = weir__breaker_registry_admit(
      &layer->breakers->registry, layer->options.mode, plan->path, plan->path_size, event->now_ns,
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
  const struct breaker_layer *layer = layer_of(self);
  const struct breaker_call *call = call_state;
  if (plan->breaker_entry == NULL ||
      weir__breaker_registry_still_admits(&layer->breakers->registry, layer->options.mode,
                                          plan->breaker_entry, plan->path, plan->path_size,
                                          &call->ticket)) {
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

static struct breakers *breakers_new(const struct weir_breaker_options *options,
                                     const struct weir_allocator *allocator) {
  struct breakers *breakers = weir__zalloc(allocator, sizeof *breakers);
  if (breakers == NULL) {
    return NULL;
  }
  atomic_init(&breakers->n_shares, 1);
  if (weir__breaker_registry_init(&breakers->registry, options, allocator) != WEIR_OK) {
    weir__free(allocator, breakers);
    return NULL;
  }
  return breakers;
}

static struct breakers *breakers_ref(struct breakers *breakers) {
  if (breakers != NULL) {
    /* relaxed: the layer that is asked has a share */
    atomic_fetch_add_explicit(&breakers->n_shares, 1, memory_order_relaxed);
  }
  return breakers;
}

static void breakers_unref(struct breakers *breakers, const struct weir_allocator *allocator) {
  if (breakers != NULL &&
      atomic_fetch_sub_explicit(&breakers->n_shares, 1, memory_order_acq_rel) == 1) {
    weir__breaker_registry_fini(&breakers->registry);
    weir__free(allocator, breakers);
  }
}

static void breaker_destroy(weir_interceptor *self) {
  struct breaker_layer *layer = layer_of(self);
  const struct weir_allocator *allocator = layer->allocator;
  breakers_unref(layer->former, allocator);
  breakers_unref(layer->breakers, allocator);
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

/* A layer without breakers. `*options_out` are what this library knows of `options`. */
static enum weir_error layer_new(const struct weir_breaker_options *options, const char *name,
                                 const struct weir_allocator *allocator,
                                 struct breaker_layer **layer_out) {
  struct weir_breaker_options known = WEIR_BREAKER_OPTIONS_INIT;
  enum weir_error error = weir__options_copy(&known, sizeof known, options);
  if (error == WEIR_OK) {
    error = weir__breaker_options_check(&known, NULL);
  }
  if (error != WEIR_OK) {
    return error;
  }
  struct breaker_layer *layer = weir__zalloc(allocator, sizeof *layer);
  if (layer == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  layer->base.vtable = known.enabled ? &breaker_vtable : &off_vtable;
  layer->allocator = allocator;
  layer->name = name;
  layer->name_size = strlen(name);
  layer->options = known;
  *layer_out = layer;
  return WEIR_OK;
}

/* Gives a layer that is switched on its breakers: the former layer's, or new ones. */
static enum weir_error breakers_find(struct breaker_layer *layer, struct breakers *former,
                                     size_t n_known) {
  const struct weir_breaker_options *options = &layer->options;
  if (former != NULL && former->registry.rules.scope == options->scope &&
      former->n_named / 2 <= n_known + MAX_NAMES_OF_THE_PAST / 2) {
    layer->breakers = breakers_ref(former);
    return weir__breaker_registry_prepare(&former->registry, options);
  }
  layer->breakers = breakers_new(options, layer->allocator);
  layer->former = breakers_ref(former);
  return layer->breakers != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

static enum weir_error layer_begin(const struct weir_breaker_options *options, const char *name,
                                   size_t n_known, const struct weir_allocator *allocator,
                                   struct breakers *former, struct breaker_layer **layer_out) {
  struct breaker_layer *layer = NULL;
  enum weir_error error = layer_new(options, name, allocator, &layer);
  if (error != WEIR_OK) {
    return error;
  }
  if (layer->options.enabled) {
    error = breakers_find(layer, former, n_known);
  } else {
    layer->breakers = breakers_ref(former);
  }
  if (error != WEIR_OK) {
    breaker_destroy(&layer->base);
    return error;
  }
  if (layer->options.enabled) {
    /* without, it is slower */
    (void)weir__breaker_registry_expect(&layer->breakers->registry, n_known);
  }
  *layer_out = layer;
  return WEIR_OK;
}

enum weir_error weir__breaker_layer_new(const struct weir_breaker_options *options,
                                        const char *name, size_t n_known,
                                        const struct weir_allocator *allocator,
                                        weir_interceptor **layer_out) {
  struct breaker_layer *layer = NULL;
  enum weir_error error =
      layer_begin(options, name, n_known, weir__allocator_or_default(allocator), NULL, &layer);
  *layer_out = error == WEIR_OK ? &layer->base : NULL;
  return error;
}

enum weir_error weir__breaker_layer_know(weir_interceptor *self, const char *path, size_t path_size,
                                         void **entry_out) {
  const struct breaker_layer *layer = layer_of(self);
  struct weir__breaker_entry *entry = NULL;
  enum weir_error error = WEIR_OK;
  if (layer->options.enabled) {
    error = weir__breaker_registry_know(&layer->breakers->registry, path, path_size, &entry);
  }
  *entry_out = entry;
  return error;
}

/* In breakers of scope METHOD, "/pkg.Service/" is nobody's key. */
static bool is_no_method(const struct breaker_layer *layer, const char *path, size_t path_size) {
  return layer->options.scope == WEIR_BREAKER_SCOPE_METHOD && path_size > 0 &&
         path[path_size - 1] == '/';
}

enum weir_error weir__breaker_layer_know_named(weir_interceptor *self, const char *path,
                                               size_t path_size) {
  struct breaker_layer *layer = layer_of(self);
  void *entry = NULL;
  if (!layer->options.enabled || is_no_method(layer, path, path_size)) {
    return WEIR_OK;
  }
  uint32_t n_before = weir__breaker_registry_n_known(&layer->breakers->registry);
  enum weir_error error = weir__breaker_layer_know(self, path, path_size, &entry);
  if (weir__breaker_registry_n_known(&layer->breakers->registry) != n_before) {
    layer->breakers->n_named++;
  }
  return error;
}

static struct weir_bytes name_of(const char *text, size_t size) {
  return (struct weir_bytes){
      .data = text, .size = size < WEIR__BREAKER_NAME_BYTES ? size : WEIR__BREAKER_NAME_BYTES};
}

/* Of the breaker that all calls have, or those beyond the bound. */
static struct weir_bytes shared_name_of(const struct breaker_layer *layer,
                                        enum weir_breaker_scope scope) {
  return scope == WEIR_BREAKER_SCOPE_CHANNEL ? name_of(layer->name, layer->name_size)
                                             : name_of(SHARED_NAME, sizeof SHARED_NAME - 1);
}

void weir__breaker_name_set(struct weir__breaker_name *name, struct weir_bytes text) {
  name->size = text.size;
  memcpy(name->text, text.data, text.size);
  name->text[text.size] = '\0';
}

static void name_set_shared(const struct breaker_layer *layer, enum weir_breaker_scope scope,
                            struct weir__breaker_name *name) {
  weir__breaker_name_set(name, shared_name_of(layer, scope));
}

struct weir_bytes weir__breaker_layer_name(weir_interceptor *self, const struct weir_plan *plan) {
  const struct breaker_layer *layer = layer_of(self);
  const struct weir__breaker_entry *entry = plan->breaker_entry;
  if (entry == NULL) {
    return name_of("", 0);
  }
  if (entry->kind == WEIR__BREAKER_SHARED) {
    return shared_name_of(layer, layer->options.scope);
  }
  return name_of(plan->path, weir__breaker_registry_key_size(&layer->breakers->registry, plan->path,
                                                             plan->path_size));
}

/* Completes the names that the registry does not know. */
struct telling {
  struct weir__breaker_name shared_name;
  weir__breaker_layer_overridden_fn *told;
  void *context;
};

static void tell(void *context, enum weir__breaker_kind kind, const struct weir__breaker_name *name,
                 enum weir_breaker_override override, const struct weir_breaker_view *view) {
  const struct telling *telling = context;
  telling->told(telling->context, kind == WEIR__BREAKER_SHARED ? &telling->shared_name : name,
                override, view);
}

enum weir_error weir__breaker_layer_override(weir_interceptor *self, const char *path,
                                             size_t path_size, enum weir_breaker_override override,
                                             weir__breaker_layer_overridden_fn *overridden,
                                             void *context) {
  const struct breaker_layer *layer = layer_of(self);
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_view view;
  if (!layer->options.enabled) {
    return WEIR_ERROR_UNAVAILABLE;
  }
  if (path == NULL) {
    struct telling telling = {.told = overridden, .context = context};
    name_set_shared(layer, layer->options.scope, &telling.shared_name);
    weir__breaker_registry_override_all(&layer->breakers->registry, override, tell, &telling);
    return WEIR_OK;
  }
  if (is_no_method(layer, path, path_size)) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  enum weir_error error = weir__breaker_registry_override_one(&layer->breakers->registry, path,
                                                              path_size, override, &entry, &view);
  if (entry != NULL) {
    const struct weir_plan plan = {.path = path, .path_size = path_size, .breaker_entry = entry};
    struct weir__breaker_name name;
    weir__breaker_name_set(&name, weir__breaker_layer_name(self, &plan));
    overridden(context, &name, override, &view);
  }
  return error;
}

/* --- one layer after the other --- */

enum weir_error weir__breaker_layer_renew(weir_interceptor *self,
                                          const struct weir_breaker_options *options,
                                          const char *name, size_t n_known,
                                          weir_interceptor **next_out) {
  const struct breaker_layer *layer = layer_of(self);
  struct breaker_layer *next = NULL;
  enum weir_error error =
      layer_begin(options, name, n_known, layer->allocator, layer->breakers, &next);
  if (error == WEIR_OK && next->former != NULL) {
    name_set_shared(layer, next->former->registry.rules.scope, &next->former_name);
  }
  *next_out = error == WEIR_OK ? &next->base : NULL;
  return error;
}

void weir__breaker_layer_put_in_force(weir_interceptor *self) {
  struct breaker_layer *layer = layer_of(self);
  struct breakers *breakers = layer->breakers;
  if (layer->former != NULL) {
    weir__breaker_registry_inherit(&breakers->registry, &layer->former->registry);
    (void)weir__breaker_registry_switch(&layer->former->registry, false);
  } else if (layer->options.enabled) {
    weir__breaker_registry_set_options(&breakers->registry, &layer->options);
  }
  layer->is_switched = breakers != NULL &&
                       weir__breaker_registry_switch(&breakers->registry, layer->options.enabled);
}

void weir__breaker_layer_catch_up(weir_interceptor *self,
                                  weir__breaker_layer_overridden_fn *changed, void *context) {
  struct breaker_layer *layer = layer_of(self);
  struct telling telling = {.shared_name = layer->former_name, .told = changed, .context = context};
  struct breakers *former = layer->former;
  if (former != NULL) {
    layer->former = NULL;
    weir__breaker_registry_catch_up(&former->registry, tell, &telling);
    breakers_unref(former, layer->allocator);
  }
  if (layer->is_switched) {
    layer->is_switched = false;
    name_set_shared(layer, layer->breakers->registry.rules.scope, &telling.shared_name);
    weir__breaker_registry_catch_up(&layer->breakers->registry, tell, &telling);
  }
}

/* --- reading --- */

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
    error =
        weir__breaker_registry_snapshot(&layer->breakers->registry, path, path_size, now_ns, out);
  }
  if (error != WEIR_OK) {
    memset(out, 0, size);
    out->size = size;
  }
  return error;
}

uint32_t weir__breaker_layer_n_breakers(weir_interceptor *self) {
  const struct breaker_layer *layer = layer_of(self);
  return layer->options.enabled ? weir__breaker_registry_n_breakers(&layer->breakers->registry) : 0;
}

uint64_t weir__breaker_layer_n_overflowed(weir_interceptor *self) {
  const struct breaker_layer *layer = layer_of(self);
  return layer->breakers != NULL ? weir__breaker_registry_n_overflowed(&layer->breakers->registry)
                                 : 0;
}
