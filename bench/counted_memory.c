/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/counted_memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

/* malloc keeps the size of each piece beside it. */
#define MALLOC_OWN_BYTES sizeof(size_t)

static _Atomic uint64_t n_requests;
static _Atomic size_t n_bytes;

static void *counted_allocate(void *context, size_t size) {
  (void)context;
  void *memory = malloc(size);
  if (memory != NULL) {
    n_requests++;
    n_bytes += malloc_usable_size(memory) + MALLOC_OWN_BYTES;
  }
  return memory;
}

static void counted_release(void *context, void *memory) {
  (void)context;
  n_bytes -= malloc_usable_size(memory) + MALLOC_OWN_BYTES;
  free(memory);
}

const struct weir_allocator counted_memory = {
    .size = sizeof(struct weir_allocator),
    .allocate = counted_allocate,
    .release = counted_release,
};

uint64_t counted_memory_n_requests(void) {
  return n_requests;
}

size_t counted_memory_n_bytes(void) {
  return n_bytes;
}
