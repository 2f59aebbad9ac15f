/* retry – the layer that decides whether, and when, a failed attempt is followed by another.
 *
 * It is the innermost one: it sees every attempt. It spends the call's budget, never extends it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_INTERCEPTORS_RETRY_RETRY_H
#define WEIR_INTERCEPTORS_RETRY_RETRY_H

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/interceptor.h>

#include <weir/throttle.h>

/* `throttle` NULL = retries are not throttled; else the layer takes a share of its own.
 * `owner_name`, the policy's name, is copied; the plan's retry_owner points to the copy until the
 * layer is destroyed. NULL = the channel's retries are not weir's to make: this layer owns none,
 * whatever the policy says, and repeats nothing. The caller ends `*layer_out` with its destroy hook;
 * NULL on failure. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__retry_layer_new(weir_throttle *throttle,
                                                      const char *owner_name,
                                                      const struct weir_allocator *allocator,
                                                      weir_interceptor **layer_out);

/* Gives a layer that was made without one a throttle, before its first call; a share is taken
 * over. */
void weir__retry_layer_set_throttle(weir_interceptor *layer, weir_throttle *throttle);

#endif /* WEIR_INTERCEPTORS_RETRY_RETRY_H */
