/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/base/counting_allocator.h"

#include <stdint.h>
#include <stdlib.h>

static void *counting_allocate(void *context, size_t n_bytes) {
  struct counting_allocator *counting = context;
  if (counting->n_allowed == 0) {
    return NULL;
  }
  counting->n_allowed--;
  counting->n_outstanding++;
  return malloc(n_bytes);
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
      .n_outstanding = 0,
      .n_allowed = SIZE_MAX,
  };
}
