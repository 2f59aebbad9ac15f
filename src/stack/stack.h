/* stack – the layers of a channel in their order, and how a call walks them.
 *
 *   application -> deadline -> translation -> breaker -> retry -> attempts
 *
 * The deadline covers all attempts and their backoffs. Translation is outside breaker and retry,
 * which therefore see the raw outcome. Retry is innermost, so the breaker judges calls after their
 * retries. The layers never call each other. A stack does not change once it is built.
 *
 * A channel has a stack for each policy that it has had and that calls still go by. The layers are
 * each stack's own; what has to outlast a policy, breakers and throttle, they share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_STACK_STACK_H
#define WEIR_SRC_STACK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/channel.h>
#include <weir/error.h>
#include <weir/interceptor.h>
#include <weir/policy.h>

/* Deadline, translation, breaker, retry. */
#define WEIR__STACK_MAX_LAYERS 4

struct weir__layer {
  weir_interceptor *self;
  struct weir_interceptor_vtable hooks; /* the layer's; NULL passes through */
  size_t state_offset;                  /* of its part of a call's states */
};

/* Which layers have a hook that few have: a bit for each, the outermost's the lowest. */
struct weir__hooked {
  uint8_t settle;
  uint8_t release;
  uint8_t present;
};

struct weir__stack {
  size_t n_layers;
  struct weir__hooked hooked;
  size_t states_bytes; /* of all layers, for one call */
  struct weir__layer layers[WEIR__STACK_MAX_LAYERS];
  weir_interceptor *breaker; /* one of the layers, to be looked at */
  weir_interceptor *retry;   /* likewise */
};

/* What a stack is made of beside the policy. */
struct weir__stack_parts {
  const struct weir__stack *last;      /* the channel's stack in force; NULL = it has none yet */
  enum weir_core_retries core_retries; /* retries are in it while the core makes none */
};

/* Builds the stack that a policy asks for, but for its throttle. It has the breakers of the last
 * stack, which go on by that one's policy. `policy` is borrowed until weir__stack_fini.
 * WEIR_ERROR_NO_MEMORY: nothing is left behind. */
WEIR_MUST_CHECK enum weir_error weir__stack_init(struct weir__stack *stack,
                                                 const weir_policy *policy,
                                                 const struct weir__stack_parts *parts,
                                                 const struct weir_allocator *allocator);

/* Adds the throttle that the policy asks for, if it does: the one of the name of `target`, a
 * channel's, which takes the policy's parameters at once for all who share it. So it is the last
 * thing that is done, and before the stack has calls. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error
weir__stack_take_throttle(struct weir__stack *stack, const weir_policy *policy, const char *target);

/* Has the breakers go by the policy that the stack was made of; when nothing can fail any more. */
void weir__stack_put_in_force(const struct weir__stack *stack);

void weir__stack_fini(struct weir__stack *stack);

/* Adds a layer inside those that are there; takes it over. Only while the stack is being built. */
void weir__stack_add(struct weir__stack *stack, weir_interceptor *layer);

/* Puts a layer, or one that watches it, in the nth place of those that are there: its calls' states
 * stay where they are. Likewise. */
void weir__stack_put(struct weir__stack *stack, size_t nth, weir_interceptor *layer);

/* Asks every layer, outermost first, until one refuses. `*n_admitted_out` layers are to be
 * released. */
enum weir_admission weir__stack_admit(const struct weir__stack *stack, void *states,
                                      const struct weir_event *event, struct weir_plan *plan,
                                      uint8_t *n_admitted_out);

/* Asks every layer for a further attempt at plan->resume_at_ns. */
enum weir_admission weir__stack_resume(const struct weir__stack *stack, void *states,
                                       const struct weir_event *event, struct weir_plan *plan);

void weir__stack_progress(const struct weir__stack *stack, void *states,
                          const struct weir_event *event, struct weir_plan *plan);

/* Tells the layers below `n_layers`, innermost first, until one wants a retry: `*n_layers` is then
 * how many there are outside it, otherwise 0. */
enum weir_disposition weir__stack_settle(const struct weir__stack *stack, void *states,
                                         const struct weir_event *event,
                                         const struct weir_outcome *outcome, struct weir_plan *plan,
                                         uint8_t *n_layers);

/* Asks every layer what the caller is to see of a failure. */
void weir__stack_present(const struct weir__stack *stack, const struct weir_outcome *outcome,
                         struct weir_plan *plan);

void weir__stack_release(const struct weir__stack *stack, void *states,
                         const struct weir_event *event, const struct weir_plan *plan,
                         uint8_t n_admitted);

/* Has the breaker's layer find out about a method that was registered: what its calls' plans get as
 * `breaker_entry`. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__stack_know_method(const struct weir__stack *stack,
                                                        const char *path, size_t path_size,
                                                        void **breaker_entry_out);

#endif /* WEIR_SRC_STACK_STACK_H */
