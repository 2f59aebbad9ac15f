/* allocator – memory through a weir_allocator.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_ALLOCATOR_H
#define WEIR_SRC_BASE_ALLOCATOR_H

#include <stddef.h>

#include <weir/allocator.h>

/* `allocator`, or malloc's when it is NULL. */
const struct weir_allocator *weir__allocator_or_default(const struct weir_allocator *allocator);

/* NULL when there is none left; zeroed. */
void *weir__zalloc(const struct weir_allocator *allocator, size_t n_bytes);

/* As weir__zalloc for an array; NULL also when the product overflows. */
void *weir__zalloc_array(const struct weir_allocator *allocator, size_t length,
                         size_t element_bytes);

/* A terminated copy of `size` bytes. */
char *weir__copy_text(const struct weir_allocator *allocator, const char *text, size_t size);

/* NULL is allowed. */
void weir__free(const struct weir_allocator *allocator, void *memory);

#endif /* WEIR_SRC_BASE_ALLOCATOR_H */
