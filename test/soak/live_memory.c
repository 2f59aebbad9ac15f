/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/live_memory.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Before each block, as large as malloc's alignment asks for. */
union head {
  size_t n_bytes;
  max_align_t alignment;
};

static _Atomic uint64_t n_blocks;
static _Atomic uint64_t n_bytes_live;

static void *allocate(void *context, size_t n_bytes) {
  (void)context;
  union head *head = n_bytes <= SIZE_MAX - sizeof *head ? malloc(sizeof *head + n_bytes) : NULL;
  if (head == NULL) {
    return NULL;
  }
  head->n_bytes = n_bytes;
  atomic_fetch_add(&n_blocks, 1);
  atomic_fetch_add(&n_bytes_live, n_bytes);
  return head + 1;
}

static void release(void *context, void *memory) {
  (void)context;
  union head *head = (union head *)memory - 1;
  atomic_fetch_sub(&n_blocks, 1);
  atomic_fetch_sub(&n_bytes_live, head->n_bytes);
  free(head);
}

const struct weir_allocator live_memory = {
    .size = sizeof(struct weir_allocator),
    .allocate = allocate,
    .release = release,
    .context = NULL,
};

uint64_t live_memory_blocks(void) {
  return atomic_load(&n_blocks);
}

uint64_t live_memory_bytes(void) {
  return atomic_load(&n_bytes_live);
}
