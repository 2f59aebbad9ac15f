/* breaker_layer – the circuit breaker's layer of a stack: refuses calls that would likely fail.
 *
 * It stands outside the retrying layer, so it judges calls, not attempts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_BREAKER_BREAKER_LAYER_H
#define WEIR_INTERCEPTORS_BREAKER_BREAKER_LAYER_H

#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/channel.h>
#include <weir/error.h>
#include <weir/interceptor.h>
#include <weir/log.h>
#include <weir/policy.h>

#include "src/decide/breaker_registry.h"

/* Makes the layer of one channel. `options` are copied; `name`, the policy's, and `allocator`
 * (NULL = malloc) are borrowed until the layer is destroyed; `n_known` says how many methods and
 * services will be made known, about. With `enabled` false every call passes: a stack may have the
 * layer all the same, at no cost to its calls, as the vtable then has no hooks for them.
 * WEIR_ERROR_INVALID_ARGUMENT a value is out of range; WEIR_ERROR_UNSUPPORTED `options` are a
 * newer program's; WEIR_ERROR_NO_MEMORY. `*layer_out` is NULL on failure. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_new(const struct weir_breaker_options *options,
                                                        const char *name, size_t n_known,
                                                        const struct weir_allocator *allocator,
                                                        weir_interceptor **layer_out);

/* A channel that changes its policy has one layer after the other, each in the stack that its calls
 * hold, and all of them the same breakers (others only where the scope is another, or thousands of
 * names are of policies of the past). In this order:
 *
 *   renew, know_named, know   whatever may fail: until here nothing has changed, and `*next_out`
 *                             may be destroyed again
 *   put_in_force              the breakers go by the new options
 *   catch_up                  what that has closed is told
 *
 * A call stays with the layer that has admitted it: what its verdict depends on, and whether a
 * refusal holds (`enabled`, `mode`, `deadline_floor_ns`, `ignore_resets`), are that one's. */

/* Makes the layer that is to follow `layer`, the channel's last one; as weir__breaker_layer_new,
 * with the same allocator. `layer` may be destroyed at any time after. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_layer_renew(weir_interceptor *layer, const struct weir_breaker_options *options,
                          const char *name, size_t n_known, weir_interceptor **next_out);

/* Has all breakers go by the options of `layer`, which renew has made. Before or after its first
 * calls; one thread at a time of those that change the channel's policy. */
void weir__breaker_layer_put_in_force(weir_interceptor *layer);

/* Makes a method known, so that it has a breaker of its own whatever else is called. The plans of
 * calls that this layer is to admit may have `*entry_out` from the start; it is borrowed until the
 * layer is destroyed. NULL: the layer is switched off. WEIR_ERROR_NO_MEMORY. Any thread. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_know(weir_interceptor *layer, const char *path,
                                                         size_t path_size, void **entry_out);

/* The same for what a policy names, before it is in force; a service ("/pkg.Service/") is no
 * method. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_know_named(weir_interceptor *layer,
                                                               const char *path, size_t path_size);

/* What the breaker is called that a call has gone through, or was refused by, of which
 * WEIR__BREAKER_NAME_BYTES at most; empty = none. Borrowed as the layer and the plan's path are. */
struct weir_bytes weir__breaker_layer_name(weir_interceptor *layer, const struct weir_plan *plan);

/* Copies such a name. */
void weir__breaker_name_set(struct weir__breaker_name *name, struct weir_bytes text);

/* Told of each breaker that an override has found otherwise, and which one that was: another thread
 * may have said a later word. Without a lock. */
typedef void weir__breaker_layer_overridden_fn(void *context, const struct weir__breaker_name *name,
                                               enum weir_breaker_override override,
                                               const struct weir_breaker_view *view);

/* Overrides the breaker of a method, or, with `path` NULL, all that there are and will be.
 * WEIR_ERROR_UNAVAILABLE the layer is switched off; WEIR_ERROR_INVALID_ARGUMENT a service, where
 * each method has a breaker; WEIR_ERROR_NO_MEMORY. Any thread. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_layer_override(weir_interceptor *layer, const char *path, size_t path_size,
                             enum weir_breaker_override override,
                             weir__breaker_layer_overridden_fn *overridden, void *context);

/* After weir__breaker_layer_put_in_force, without a lock: those breakers that are switched off now,
 * or on again, or whose scope has gone, are CLOSED (or under what was set by hand, which `override`
 * is). Told of each whose state that has changed. Any thread. */
void weir__breaker_layer_catch_up(weir_interceptor *layer,
                                  weir__breaker_layer_overridden_fn *changed, void *context);

/* Reads the breaker that calls of `path` go through. `out->size` says how much of it the caller
 * knows. WEIR_ERROR_UNAVAILABLE there is none, or none for that path yet: the fields are zero then.
 * WEIR_ERROR_INVALID_ARGUMENT the size is less than its own. Any thread. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_snapshot(weir_interceptor *layer,
                                                             const char *path, size_t path_size,
                                                             int64_t now_ns,
                                                             struct weir_breaker_snapshot *out);

/* Breakers in use, the shared one not counted. */
uint32_t weir__breaker_layer_n_breakers(weir_interceptor *layer);

/* Calls that shared a breaker because maxBreakers were in use, or there was no memory for
 * another. */
uint64_t weir__breaker_layer_n_overflowed(weir_interceptor *layer);

#endif /* WEIR_INTERCEPTORS_BREAKER_BREAKER_LAYER_H */
