/* deadline – the layer that bounds a call's time: by its own, its parent's and the policy's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_DEADLINE_DEADLINE_H
#define WEIR_INTERCEPTORS_DEADLINE_DEADLINE_H

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/interceptor.h>

/* The caller ends `*layer_out` with its destroy hook; NULL on failure. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__deadline_layer_new(const struct weir_allocator *allocator,
                                                         weir_interceptor **layer_out);

#endif /* WEIR_INTERCEPTORS_DEADLINE_DEADLINE_H */
