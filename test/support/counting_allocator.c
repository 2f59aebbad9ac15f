/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/counting_allocator.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *counting_allocate(void *context, size_t n_bytes) {
  struct counting_allocator *counting = context;
  counting->n_allocations++;
  if (counting->n_allocations == counting->fails_at || counting->n_allowed == 0) {
    counting->n_failed++;
    return NULL;
  }
  counting->n_allowed--;
  void *memory = malloc(n_bytes);
  if (memory != NULL) {
    memset(memory, 0xa5, n_bytes); /* nobody may count on zeroes */
    counting->n_outstanding++;
  }
  return memory;
}

static void counting_release(void *context, void *memory) {
  struct counting_allocator *counting = context;
  counting->n_outstanding--;
  free(memory);
}

void counting_allocator_init(struct counting_allocator *counting) {
  *counting = (struct counting_allocator){
      .base = {.size = sizeof(struct weir_allocator),
               .allocate = counting_allocate,
               .release = counting_release,
               .context = counting},
      .n_allowed = SIZE_MAX,
  };
}

void counting_allocator_fail_nth(struct counting_allocator *counting, size_t nth) {
  counting->fails_at = counting->n_allocations + nth;
}
