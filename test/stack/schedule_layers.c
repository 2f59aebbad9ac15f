/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_layers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/container_of.h"

static struct schedule_layer *layer_of(weir_interceptor *self) {
  return WEIR__CONTAINER_OF(self, struct schedule_layer, base);
}

static struct schedule_layer_call *find(struct schedule_layer *layer, const void *call_state) {
  for (size_t i = 0; i < SCHEDULE_LAYER_CALLS; i++) {
    if (layer->calls[i].call_state == call_state) {
      return &layer->calls[i];
    }
  }
  return NULL;
}

static enum weir_admission watched_admit(weir_interceptor *self, void *call_state,
                                         const struct weir_event *event, struct weir_plan *plan) {
  struct schedule_layer *layer = layer_of(self);
  assert_null(find(layer, call_state));
  if (layer->hooks.admit != NULL &&
      layer->hooks.admit(layer->inner, call_state, event, plan) == WEIR_ADMISSION_REFUSE) {
    return WEIR_ADMISSION_REFUSE;
  }
  struct schedule_layer_call *call = find(layer, NULL);
  assert_non_null(call);
  *call = (struct schedule_layer_call){.call_state = call_state};
  layer->n_admits++;
  return WEIR_ADMISSION_PROCEED;
}

static enum weir_admission watched_resume(weir_interceptor *self, void *call_state,
                                          const struct weir_event *event, struct weir_plan *plan) {
  struct schedule_layer *layer = layer_of(self);
  assert_non_null(find(layer, call_state));
  assert_true(plan->resume_at_ns >= event->now_ns);
  return layer->hooks.resume != NULL ? layer->hooks.resume(layer->inner, call_state, event, plan)
                                     : WEIR_ADMISSION_PROCEED;
}

static void watched_progress(weir_interceptor *self, void *call_state,
                             const struct weir_event *event, struct weir_plan *plan) {
  struct schedule_layer *layer = layer_of(self);
  assert_non_null(find(layer, call_state));
  if (layer->hooks.progress != NULL) {
    layer->hooks.progress(layer->inner, call_state, event, plan);
  }
}

static enum weir_disposition watched_settle(weir_interceptor *self, void *call_state,
                                            const struct weir_event *event,
                                            const struct weir_outcome *outcome,
                                            struct weir_plan *plan) {
  struct schedule_layer *layer = layer_of(self);
  struct schedule_layer_call *call = find(layer, call_state);
  assert_non_null(call);
  assert_in_range(outcome->code, 0, WEIR_N_STATUS_CODES - 1);
  call->n_settled++;
  return layer->hooks.settle != NULL
             ? layer->hooks.settle(layer->inner, call_state, event, outcome, plan)
             : WEIR_DISPOSITION_FINISH;
}

static void watched_release(weir_interceptor *self, void *call_state,
                            const struct weir_event *event, const struct weir_plan *plan) {
  struct schedule_layer *layer = layer_of(self);
  struct schedule_layer_call *call = find(layer, call_state);
  assert_non_null(call);
  if (!layer->all->may_forget) {
    assert_true(call->n_settled == 1 || (layer->innermost && call->n_settled > 1));
  }
  call->call_state = NULL;
  layer->n_releases++;
  if (layer->hooks.release != NULL) {
    layer->hooks.release(layer->inner, call_state, event, plan);
  }
}

static void watched_present(weir_interceptor *self, const struct weir_outcome *outcome,
                            struct weir_plan *plan) {
  struct schedule_layer *layer = layer_of(self);
  assert_int_not_equal(outcome->code, GRPC_STATUS_OK);
  if (layer->hooks.present != NULL) {
    layer->hooks.present(layer->inner, outcome, plan);
  }
}

static void watched_destroy(weir_interceptor *self) {
  struct schedule_layer *layer = layer_of(self);
  if (layer->hooks.destroy != NULL) {
    layer->hooks.destroy(layer->inner);
  }
}

static const struct weir_interceptor_vtable watching_vtable = {
    .size = sizeof(struct weir_interceptor_vtable),
    .name = "watching",
    .admit = watched_admit,
    .resume = watched_resume,
    .progress = watched_progress,
    .settle = watched_settle,
    .release = watched_release,
    .destroy = watched_destroy,
    .present = watched_present,
};

void schedule_layers_watch(struct schedule_layers *layers, struct weir__stack *stack) {
  memset(layers, 0, sizeof *layers);
  layers->n_layers = stack->n_layers;
  for (size_t i = 0; i < stack->n_layers; i++) {
    const struct weir__layer *watched = &stack->layers[i];
    layers->layers[i] = (struct schedule_layer){
        .base = {.vtable = &watching_vtable},
        .all = layers,
        .inner = watched->self,
        .hooks = watched->hooks,
        .innermost = i + 1 == stack->n_layers,
    };
    weir__stack_put(stack, i, &layers->layers[i].base);
  }
}

void schedule_layers_check(const struct schedule_layers *layers) {
  for (size_t i = 0; i < layers->n_layers; i++) {
    assert_int_equal(layers->layers[i].n_admits, layers->layers[i].n_releases);
  }
}
