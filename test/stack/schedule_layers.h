/* schedule_layers – looks over the shoulder of each layer of a stack: what it is asked, and in which
 * order.
 *
 * A layer that admits a call is released exactly once; it hears of an end between the two, and
 * never after; the layers outside retry hear of one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_LAYERS_H
#define WEIR_TEST_STACK_SCHEDULE_LAYERS_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/interceptor.h>

#include "src/stack/stack.h"

/* Calls that a layer has admitted and not released, at most. */
#define SCHEDULE_LAYER_CALLS 16

struct schedule_layer_call {
  const void *call_state; /* NULL = free */
  size_t n_settled;
};

struct schedule_layers;

struct schedule_layer {
  weir_interceptor base;
  const struct schedule_layers *all;
  weir_interceptor *inner;
  struct weir_interceptor_vtable hooks; /* of `inner` */
  bool innermost;
  size_t n_admits;
  size_t n_releases;
  struct schedule_layer_call calls[SCHEDULE_LAYER_CALLS];
};

struct schedule_layers {
  struct schedule_layer layers[WEIR__STACK_MAX_LAYERS];
  size_t n_layers;
  bool may_forget; /* a call that could not be started may be released unsettled */
};

/* Puts itself in front of the layers of a stack that no call has used. `layers` lives until the
 * stack has gone. */
void schedule_layers_watch(struct schedule_layers *layers, struct weir__stack *stack);

/* Every call has ended: fails if a layer was not released. */
void schedule_layers_check(const struct schedule_layers *layers);

#endif /* WEIR_TEST_STACK_SCHEDULE_LAYERS_H */
