/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/allocator.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *default_allocate(void *context, size_t n_bytes) {
  (void)context;
  return malloc(n_bytes);
}

static void default_release(void *context, void *memory) {
  (void)context;
  free(memory);
}

static const struct weir_allocator default_allocator = {
    .size = sizeof(struct weir_allocator),
    .allocate = default_allocate,
    .release = default_release,
    .context = NULL,
};

const struct weir_allocator *weir__allocator_or_default(const struct weir_allocator *allocator) {
  return allocator != NULL ? allocator : &default_allocator;
}

void *weir__zalloc(const struct weir_allocator *allocator, size_t n_bytes) {
  void *memory = allocator->allocate(allocator->context, n_bytes);
  if (memory != NULL) {
    memset(memory, 0, n_bytes);
  }
  return memory;
}

void *weir__zalloc_array(const struct weir_allocator *allocator, size_t length,
                         size_t element_bytes) {
  if (element_bytes != 0 && length > SIZE_MAX / element_bytes) {
    return NULL;
  }
  return weir__zalloc(allocator, length * element_bytes);
}

char *weir__copy_text(const struct weir_allocator *allocator, const char *text, size_t size) {
  if (size == SIZE_MAX) {
    return NULL;
  }
  char *copy = allocator->allocate(allocator->context, size + 1);
  if (copy != NULL) {
    memcpy(copy, text, size);
    copy[size] = '\0';
  }
  return copy;
}

void weir__free(const struct weir_allocator *allocator, void *memory) {
  if (memory != NULL) {
    allocator->release(allocator->context, memory);
  }
}
