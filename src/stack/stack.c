/* SPDX-License-Identifier: Apache-2.0 */
#include "src/stack/stack.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "interceptors/breaker/breaker_layer.h"
#include "interceptors/deadline/deadline.h"
#include "interceptors/retry/retry.h"
#include "interceptors/translation/translation.h"
#include "src/policy/policy.h"

static void bit_set(uint8_t *bits, size_t nth, bool on) {
  unsigned bit = 1u << nth;
  *bits = (uint8_t)(on ? *bits | bit : *bits & ~bit);
}

void weir__stack_put(struct weir__stack *stack, size_t nth, weir_interceptor *layer) {
  struct weir_interceptor_vtable hooks = {.size = sizeof hooks};
  size_t known = sizeof hooks < layer->vtable->size ? sizeof hooks : layer->vtable->size;
  memcpy(&hooks, layer->vtable, known);
  stack->layers[nth].self = layer;
  stack->layers[nth].hooks = hooks;
  bit_set(&stack->hooked.settle, nth, hooks.settle != NULL);
  bit_set(&stack->hooked.release, nth, hooks.release != NULL);
  bit_set(&stack->hooked.present, nth, hooks.present != NULL);
}

void weir__stack_add(struct weir__stack *stack, weir_interceptor *layer) {
  assert(stack->n_layers < WEIR__STACK_MAX_LAYERS);
  size_t nth = stack->n_layers++;
  weir__stack_put(stack, nth, layer);
  stack->layers[nth].state_offset = stack->states_bytes;
  size_t alignment = alignof(int64_t);
  stack->states_bytes += (layer->vtable->call_state_size + alignment - 1) / alignment * alignment;
}

/* What a layer marks its calls with; NULL = it makes no retries, since the core may make its
 * own. */
static const char *owner_name(const weir_policy *policy, enum weir_core_retries core_retries) {
  switch (core_retries) {
  case WEIR_CORE_RETRIES_OFF:
    return weir__policy_name(policy);
  case WEIR_CORE_RETRIES_UNKNOWN:
    break;
  }
  return NULL;
}

static enum weir_error add_retry(struct weir__stack *stack, const weir_policy *policy,
                                 enum weir_core_retries core_retries,
                                 const struct weir_allocator *allocator) {
  enum weir_error error =
      weir__retry_layer_new(NULL, owner_name(policy, core_retries), allocator, &stack->retry);
  if (error == WEIR_OK) {
    weir__stack_add(stack, stack->retry);
  }
  return error;
}

/* The methods and services that the policy names are known to it from the start. */
static enum weir_error add_breaker(struct weir__stack *stack, const weir_policy *policy,
                                   const struct weir__stack *last,
                                   const struct weir_allocator *allocator) {
  const struct weir_breaker_options *options = weir__policy_breaker(policy);
  const char *name = weir__policy_name(policy);
  size_t n_known = weir__policy_n_paths(policy);
  enum weir_error error =
      last != NULL
          ? weir__breaker_layer_renew(last->breaker, options, name, n_known, &stack->breaker)
          : weir__breaker_layer_new(options, name, n_known, allocator, &stack->breaker);
  if (error != WEIR_OK) {
    return error;
  }
  weir__stack_add(stack, stack->breaker);
  struct weir__policy_path path = {.nth = 0};
  while (error == WEIR_OK && weir__policy_next_path(policy, &path)) {
    error = weir__breaker_layer_know_named(stack->breaker, path.text, path.size);
  }
  return error;
}

static enum weir_error add_layers(struct weir__stack *stack, const weir_policy *policy,
                                  const struct weir__stack_parts *parts,
                                  const struct weir_allocator *allocator) {
  weir_interceptor *layer = NULL;
  enum weir_error error = weir__deadline_layer_new(allocator, &layer);
  if (error != WEIR_OK) {
    return error;
  }
  weir__stack_add(stack, layer);

  error = weir__translation_layer_new(allocator, &layer);
  if (error != WEIR_OK) {
    return error;
  }
  weir__stack_add(stack, layer);

  error = add_breaker(stack, policy, parts->last, allocator);
  if (error != WEIR_OK) {
    return error;
  }
  return add_retry(stack, policy, parts->core_retries, allocator);
}

enum weir_error weir__stack_init(struct weir__stack *stack, const weir_policy *policy,
                                 const struct weir__stack_parts *parts,
                                 const struct weir_allocator *allocator) {
  memset(stack, 0, sizeof *stack);
  enum weir_error error = add_layers(stack, policy, parts, allocator);
  if (error != WEIR_OK) {
    weir__stack_fini(stack);
  }
  return error;
}

enum weir_error weir__stack_take_throttle(struct weir__stack *stack, const weir_policy *policy,
                                          const char *target) {
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  weir_throttle *throttle = NULL;
  if (!weir__policy_throttle(policy, &max_tokens, &ratio_milli)) {
    return WEIR_OK;
  }
  enum weir_error error = weir_throttle_acquire(target, max_tokens, ratio_milli, &throttle);
  if (error == WEIR_OK) {
    weir__retry_layer_set_throttle(stack->retry, throttle);
  }
  return error;
}

void weir__stack_put_in_force(const struct weir__stack *stack) {
  weir__breaker_layer_put_in_force(stack->breaker);
}

void weir__stack_fini(struct weir__stack *stack) {
  while (stack->n_layers > 0) {
    const struct weir__layer *layer = &stack->layers[--stack->n_layers];
    if (layer->hooks.destroy != NULL) {
      layer->hooks.destroy(layer->self);
    }
  }
}

static void *state_of(const struct weir__layer *layer, void *states) {
  return (char *)states + layer->state_offset;
}

/* Whether one of the `n` outermost layers has a hook, of whose bits these are. */
static bool any_outside(unsigned hooked, size_t n) {
  return (hooked & ((1u << n) - 1)) != 0;
}

enum weir_admission weir__stack_admit(const struct weir__stack *stack, void *states,
                                      const struct weir_event *event, struct weir_plan *plan,
                                      uint8_t *n_admitted_out) {
  const struct weir__layer *end = stack->layers + stack->n_layers;
  for (const struct weir__layer *layer = stack->layers; layer != end; layer++) {
    if (layer->hooks.admit != NULL && layer->hooks.admit(layer->self, state_of(layer, states),
                                                         event, plan) == WEIR_ADMISSION_REFUSE) {
      *n_admitted_out = (uint8_t)(layer - stack->layers);
      return WEIR_ADMISSION_REFUSE;
    }
  }
  *n_admitted_out = (uint8_t)stack->n_layers;
  return WEIR_ADMISSION_PROCEED;
}

enum weir_admission weir__stack_resume(const struct weir__stack *stack, void *states,
                                       const struct weir_event *event, struct weir_plan *plan) {
  for (size_t i = 0; i < stack->n_layers; i++) {
    const struct weir__layer *layer = &stack->layers[i];
    if (layer->hooks.resume != NULL && layer->hooks.resume(layer->self, state_of(layer, states),
                                                           event, plan) == WEIR_ADMISSION_REFUSE) {
      return WEIR_ADMISSION_REFUSE;
    }
  }
  return WEIR_ADMISSION_PROCEED;
}

void weir__stack_progress(const struct weir__stack *stack, void *states,
                          const struct weir_event *event, struct weir_plan *plan) {
  for (size_t i = stack->n_layers; i-- > 0;) {
    const struct weir__layer *layer = &stack->layers[i];
    if (layer->hooks.progress != NULL) {
      layer->hooks.progress(layer->self, state_of(layer, states), event, plan);
    }
  }
}

enum weir_disposition weir__stack_settle(const struct weir__stack *stack, void *states,
                                         const struct weir_event *event,
                                         const struct weir_outcome *outcome, struct weir_plan *plan,
                                         uint8_t *n_layers) {
  const struct weir__layer *layer =
      stack->layers + (any_outside(stack->hooked.settle, *n_layers) ? *n_layers : 0);
  while (layer != stack->layers) {
    layer--;
    if (layer->hooks.settle != NULL &&
        layer->hooks.settle(layer->self, state_of(layer, states), event, outcome, plan) ==
            WEIR_DISPOSITION_RETRY) {
      *n_layers = (uint8_t)(layer - stack->layers);
      return WEIR_DISPOSITION_RETRY;
    }
  }
  *n_layers = 0;
  return WEIR_DISPOSITION_FINISH;
}

void weir__stack_present(const struct weir__stack *stack, const struct weir_outcome *outcome,
                         struct weir_plan *plan) {
  unsigned rest = stack->hooked.present;
  while (rest != 0) {
    unsigned innermost = 31 - (unsigned)__builtin_clz(rest);
    const struct weir__layer *layer = &stack->layers[innermost];
    layer->hooks.present(layer->self, outcome, plan);
    rest &= ~(1u << innermost);
  }
}

void weir__stack_release(const struct weir__stack *stack, void *states,
                         const struct weir_event *event, const struct weir_plan *plan,
                         uint8_t n_admitted) {
  if (!any_outside(stack->hooked.release, n_admitted)) {
    return;
  }
  for (const struct weir__layer *layer = stack->layers + n_admitted; layer != stack->layers;) {
    layer--;
    if (layer->hooks.release != NULL) {
      layer->hooks.release(layer->self, state_of(layer, states), event, plan);
    }
  }
}

enum weir_error weir__stack_know_method(const struct weir__stack *stack, const char *path,
                                        size_t path_size, void **breaker_entry_out) {
  return weir__breaker_layer_know(stack->breaker, path, path_size, breaker_entry_out);
}
