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

/* Makes the layer of one channel. `options` are copied; `allocator` (NULL = malloc) is borrowed
 * until the layer is destroyed. With `enabled` false every call passes.
 * WEIR_ERROR_INVALID_ARGUMENT a value is out of range; WEIR_ERROR_UNSUPPORTED `options` are a
 * newer program's; WEIR_ERROR_NO_MEMORY. `*layer_out` is NULL on failure. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_new(const struct weir_breaker_options *options,
                                                        const struct weir_allocator *allocator,
                                                        weir_interceptor **layer_out);

/* Reads the breaker that calls of `path` go through. `out->size` says how much of it the caller
 * knows. WEIR_ERROR_UNAVAILABLE there is none, or none for that path yet: the fields are zero then.
 * WEIR_ERROR_INVALID_ARGUMENT the size is less than its own. Any thread. */
WEIR_MUST_CHECK enum weir_error weir__breaker_layer_snapshot(weir_interceptor *layer,
                                                             const char *path, size_t path_size,
                                                             int64_t now_ns,
                                                             struct weir_breaker_snapshot *out);

/* Calls that shared a breaker because maxBreakers were in use, or there was no memory for
 * another. */
uint64_t weir__breaker_layer_n_overflowed(weir_interceptor *layer);

#endif /* WEIR_INTERCEPTORS_BREAKER_BREAKER_LAYER_H */
