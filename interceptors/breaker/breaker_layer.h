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
#include <weir/policy.h>

#include "src/decide/breaker_registry.h"

/* Makes the layer of one channel. `options` are copied; `name`, the policy's, and `allocator`
 * (NULL = malloc) are borrowed until the layer is destroyed; `n_known` says how many methods and
 * services will be made known, about. With `enabled` false every call passes.
 * WEIR_ERROR_INVALID_ARGUMENT a value is out of range; WEIR_ERROR_UNSUPPORTED `options` are a
 * newer program's; WEIR_ERROR_NO_MEMORY. `*layer_out` is NULL on failure. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_new(const struct weir_breaker_options *options,
                                                        const char *name, size_t n_known,
                                                        const struct weir_allocator *allocator,
                                                        weir_interceptor **layer_out);

/* Makes a method known, so that it has a breaker of its own whatever else is called. Its calls'
 * plans may have `*entry_out` from the start. WEIR_ERROR_NO_MEMORY. Any thread. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_know(weir_interceptor *layer, const char *path,
                                                         size_t path_size, void **entry_out);

/* The same for what a policy names; a service ("/pkg.Service/") is no method. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_know_named(weir_interceptor *layer,
                                                               const char *path, size_t path_size);

/* What the breaker is called that a call has gone through, or was refused by; empty = none. */
void weir__breaker_layer_name(weir_interceptor *layer, const struct weir_plan *plan,
                              struct weir__breaker_name *name_out);

/* Told of each breaker that an override has found otherwise, and which one that was: another thread
 * may have said a later word. Without a lock. */
typedef void weir__breaker_layer_overridden_fn(void *context, const struct weir__breaker_name *name,
                                               enum weir_breaker_override override,
                                               const struct weir_breaker_view *view);

/* Overrides the breaker of a method, or, with `path` NULL, all that there are and will be.
 * WEIR_ERROR_NO_MEMORY. Any thread. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_layer_override(weir_interceptor *layer, const char *path, size_t path_size,
                             enum weir_breaker_override override,
                             weir__breaker_layer_overridden_fn *overridden, void *context);

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
