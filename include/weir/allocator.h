/* weir/allocator.h – where the library's own memory comes from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ALLOCATOR_H
#define WEIR_ALLOCATOR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A source of memory. A pointer to one is borrowed until the last object made with it is gone, so
 * it is best static. Both functions may be called from any thread, at once. */
struct weir_allocator {
  size_t size;                                      /* sizeof(struct weir_allocator) */
  void *(*allocate)(void *context, size_t n_bytes); /* aligned as malloc's; NULL = none left */
  void (*release)(void *context, void *memory);     /* `memory` is never NULL */
  void *context;
};

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ALLOCATOR_H */
