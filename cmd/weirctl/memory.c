/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cmd/weirctl/output.h"

#define FIRST_CAPACITY 16

void *memory_new(size_t size) {
  void *memory = calloc(1, size > 0 ? size : 1);
  if (memory == NULL) {
    complain_of_memory();
  }
  return memory;
}

void *memory_grow(void *array, size_t n, size_t *capacity, size_t element_size) {
  if (n < *capacity) {
    return array;
  }
  const size_t more = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
  if (more > SIZE_MAX / element_size) {
    complain_of_memory();
  }
  void *grown = realloc(array, more * element_size);
  if (grown == NULL) {
    complain_of_memory();
  }
  *capacity = more;
  return grown;
}

char *memory_copy_text(const char *text, size_t size) {
  char *copy = memory_new(size + 1);
  memcpy(copy, text, size);
  return copy;
}

void memory_init(void) {
  json_set_alloc_funcs(memory_new, free);
}

void memory_check(enum weir_error error) {
  if (error == WEIR_ERROR_NO_MEMORY) {
    complain_of_memory();
  }
}
