/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/counting_allocator.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Takes one of those that still succeed; false: there are none. */
static bool is_allowed(struct counting_allocator *counting) {
  size_t n_allowed = atomic_load(&counting->n_allowed);
  do {
    if (n_allowed == 0) {
      return false;
    }
  } while (!atomic_compare_exchange_weak(&counting->n_allowed, &n_allowed, n_allowed - 1));
  return true;
}

static void *counting_allocate(void *context, size_t n_bytes) {
  struct counting_allocator *counting = context;
  const size_t nth = atomic_fetch_add(&counting->n_allocations, 1) + 1;
  if (nth == atomic_load(&counting->fails_at) || !is_allowed(counting)) {
    atomic_fetch_add(&counting->n_failed, 1);
    return NULL;
  }
  void *memory = malloc(n_bytes);
  if (memory != NULL) {
    memset(memory, 0xa5, n_bytes); /* nobody may count on zeroes */
    atomic_fetch_add(&counting->n_outstanding, 1);
  }
  return memory;
}

static void counting_release(void *context, void *memory) {
  struct counting_allocator *counting = context;
  atomic_fetch_sub(&counting->n_outstanding, 1);
  free(memory);
}

void counting_allocator_init(struct counting_allocator *counting) {
  counting->base = (struct weir_allocator){.size = sizeof(struct weir_allocator),
                                           .allocate = counting_allocate,
                                           .release = counting_release,
                                           .context = counting};
  atomic_init(&counting->n_outstanding, 0);
  atomic_init(&counting->n_allocations, 0);
  atomic_init(&counting->fails_at, 0);
  atomic_init(&counting->n_failed, 0);
  atomic_init(&counting->n_allowed, SIZE_MAX);
}

void counting_allocator_fail_nth(struct counting_allocator *counting, size_t nth) {
  atomic_store(&counting->fails_at, atomic_load(&counting->n_allocations) + nth);
}

void counting_allocator_fail_from_nth(struct counting_allocator *counting, size_t nth) {
  atomic_store(&counting->n_allowed, nth - 1);
}

void counting_allocator_fail_none(struct counting_allocator *counting) {
  atomic_store(&counting->fails_at, 0);
  atomic_store(&counting->n_allowed, SIZE_MAX);
}
