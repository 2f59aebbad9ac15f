/* SPDX-License-Identifier: Apache-2.0 */
#include "interceptors/translation/translation.h"

#include <stdbool.h>
#include <stdint.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/outcome/outcome.h"

struct translation_layer {
  weir_interceptor base;
  const struct weir_allocator *allocator;
};

/* What a peer's code becomes. Those that would blame this service's own caller for what this
 * service sent fold to INTERNAL; answers about data and about load keep their meaning on the way
 * up. CANCELLED is the peer's here, a local one is kept; DEADLINE_EXCEEDED has a rule of its own.
 */
static const grpc_status_code boundary_codes[WEIR_N_STATUS_CODES] = {
    [GRPC_STATUS_OK] = GRPC_STATUS_OK,
    [GRPC_STATUS_CANCELLED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNKNOWN] = GRPC_STATUS_UNKNOWN,
    [GRPC_STATUS_INVALID_ARGUMENT] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_DEADLINE_EXCEEDED] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_NOT_FOUND,
    [GRPC_STATUS_ALREADY_EXISTS] = GRPC_STATUS_ALREADY_EXISTS,
    [GRPC_STATUS_PERMISSION_DENIED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [GRPC_STATUS_FAILED_PRECONDITION] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_ABORTED] = GRPC_STATUS_ABORTED,
    [GRPC_STATUS_OUT_OF_RANGE] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNIMPLEMENTED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_INTERNAL] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_DATA_LOSS] = GRPC_STATUS_DATA_LOSS,
    [GRPC_STATUS_UNAUTHENTICATED] = GRPC_STATUS_INTERNAL,
};

/* DEADLINE_EXCEEDED tells a caller that his time is up. While a request is served that is so only
 * when its deadline was the bound; at the root of a chain, whenever it was this process's. */
static bool is_the_callers_deadline(const struct weir_outcome *outcome,
                                    const struct weir_plan *plan) {
  if (outcome->origin != WEIR_ORIGIN_LOCAL_DEADLINE) {
    return false;
  }
  return plan->inbound == NULL || outcome->deadline_bound == WEIR_DEADLINE_BOUND_PARENT;
}

static grpc_status_code translate_deadline(const struct weir_translation_options *options,
                                           const struct weir_outcome *outcome,
                                           const struct weir_plan *plan) {
  if (options->deadline_exceeded_as != WEIR_TRANSLATION_DEFAULT) {
    return (grpc_status_code)options->deadline_exceeded_as;
  }
  if (options->codes[outcome->code] != WEIR_TRANSLATION_DEFAULT) {
    return (grpc_status_code)options->codes[outcome->code];
  }
  return is_the_callers_deadline(outcome, plan) ? outcome->code : boundary_codes[outcome->code];
}

static grpc_status_code translate(const struct weir_translation_options *options,
                                  const struct weir_outcome *outcome,
                                  const struct weir_plan *plan) {
  if (outcome->origin == WEIR_ORIGIN_LOCAL_CANCEL ||
      outcome->origin == WEIR_ORIGIN_LOCAL_SHUTDOWN) {
    return outcome->code; /* the application's own doing, and the code that it gave */
  }
  if (weir__outcome_is_deadline_exceeded(outcome)) {
    return translate_deadline(options, outcome, plan);
  }
  int8_t override = options->codes[outcome->code];
  return override != WEIR_TRANSLATION_DEFAULT ? (grpc_status_code) override
                                              : boundary_codes[outcome->code];
}

/* A slow downstream told as one of these invites the caller's retries, each of which is as slow. */
static const bool invites_retries[WEIR_N_STATUS_CODES] = {[GRPC_STATUS_UNAVAILABLE] = true};

static bool hides_a_deadline(const struct weir_outcome *outcome, grpc_status_code visible) {
  return weir__outcome_is_deadline_exceeded(outcome) && invites_retries[visible];
}

/* A service that does not own the retries of its chain has to hand a peer's "no" on to the one that
 * does. The breaker says its own where it refuses. */
static bool forbids_retries(const struct weir_outcome *outcome) {
  return outcome->pushback == WEIR_PUSHBACK_STOP;
}

static void translation_present(weir_interceptor *self, const struct weir_outcome *outcome,
                                struct weir_plan *plan) {
  (void)self;
  const struct weir_translation_options *options = plan->method->translation;
  plan->do_not_retry = plan->do_not_retry || forbids_retries(outcome);
  if (options->boundary) {
    plan->visible_code = translate(options, outcome, plan);
    plan->scrubbed = true;
    plan->do_not_retry = plan->do_not_retry || hides_a_deadline(outcome, plan->visible_code);
  }
}

static void translation_destroy(weir_interceptor *self) {
  struct translation_layer *layer = WEIR__CONTAINER_OF(self, struct translation_layer, base);
  weir__free(layer->allocator, layer);
}

static const struct weir_interceptor_vtable translation_vtable = {
    .size = sizeof(struct weir_interceptor_vtable),
    .name = "translation",
    .call_state_size = 0,
    .destroy = translation_destroy,
    .present = translation_present,
};

enum weir_error weir__translation_layer_new(const struct weir_allocator *allocator,
                                            weir_interceptor **layer_out) {
  const struct weir_allocator *memory = weir__allocator_or_default(allocator);
  struct translation_layer *layer = weir__zalloc(memory, sizeof *layer);
  *layer_out = NULL;
  if (layer == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  layer->base.vtable = &translation_vtable;
  layer->allocator = memory;
  *layer_out = &layer->base;
  return WEIR_OK;
}
