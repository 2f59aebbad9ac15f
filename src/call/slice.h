/* slice – grpc_slices that are empty, or hold what they have themselves, without a call of a function.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_SLICE_H
#define WEIR_SRC_CALL_SLICE_H

#include <stddef.h>
#include <string.h>

#include <grpc/slice.h>

/* Zeroed memory is such a slice, too. */
static inline grpc_slice weir__slice_empty(void) {
  grpc_slice slice;
  memset(&slice, 0, sizeof slice);
  return slice;
}

static inline void weir__slice_unref(const grpc_slice *slice) {
  if (slice->refcount != NULL) {
    grpc_slice_unref(*slice);
  }
}

#endif /* WEIR_SRC_CALL_SLICE_H */
