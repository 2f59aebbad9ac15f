/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/allocations.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* The C library's own, under the names that it has for replacements.
 * NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static _Thread_local uint64_t n_allocations;

static void count(void) {
  n_allocations++;
}

uint64_t allocations_count(void) {
  return n_allocations;
}

void *malloc(size_t size) {
  count();
  return __libc_malloc(size);
}

void *calloc(size_t n_elements, size_t size) {
  count();
  return __libc_calloc(n_elements, size);
}

void *realloc(void *memory, size_t size) {
  count();
  return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory_out, size_t alignment, size_t size) {
  count();
  *memory_out = __libc_memalign(alignment, size);
  return *memory_out == NULL ? ENOMEM : 0;
}
