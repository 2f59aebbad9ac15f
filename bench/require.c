/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/require.h"

#include <stdio.h>
#include <stdlib.h>

void require_failed(const char *what) {
  (void)fprintf(stderr, "bench: %s\n", what);
  abort();
}

void *require_memory(size_t n_elements, size_t size) {
  void *memory = calloc(n_elements, size);
  require(memory != NULL, "no memory");
  return memory;
}
