/* SPDX-License-Identifier: Apache-2.0 */
#include "test/memory/memory_fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool is_on;
static atomic_size_t refused_at;
static atomic_bool is_for_good;
static atomic_size_t n_asked;
static atomic_size_t n_refused;
static atomic_size_t n_outstanding;

void memory_fault_begin(size_t nth, bool for_good) {
  atomic_store(&n_asked, 0);
  atomic_store(&n_refused, 0);
  atomic_store(&refused_at, nth);
  atomic_store(&is_for_good, for_good);
  atomic_store(&is_on, true);
}

void memory_fault_end(void) {
  atomic_store(&is_on, false);
}

size_t memory_fault_n_asked(void) {
  return atomic_load(&n_asked);
}

size_t memory_fault_n_refused(void) {
  return atomic_load(&n_refused);
}

size_t memory_fault_n_outstanding(void) {
  return atomic_load(&n_outstanding);
}

static bool is_refused(void) {
  if (!atomic_load(&is_on)) {
    return false;
  }
  const size_t nth = atomic_fetch_add(&n_asked, 1) + 1;
  const size_t at = atomic_load(&refused_at);
  if (at == 0 || nth < at || (nth > at && !atomic_load(&is_for_good))) {
    return false;
  }
  atomic_fetch_add(&n_refused, 1);
  return true;
}

static void *count(void *memory) {
  if (memory != NULL) {
    atomic_fetch_add(&n_outstanding, 1);
  }
  return memory;
}

/* The linker's names: __wrap_X is called for X, and __real_X is X. */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n_elements, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);

void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
  return is_refused() ? NULL : count(__real_malloc(size));
}

void *__wrap_calloc(size_t n_elements, size_t size);
void *__wrap_calloc(size_t n_elements, size_t size) {
  return is_refused() ? NULL : count(__real_calloc(n_elements, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  return is_refused() ? NULL : count(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *memory);
void __wrap_free(void *memory) {
  if (memory != NULL) {
    atomic_fetch_sub(&n_outstanding, 1);
  }
  __real_free(memory);
}

void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size) {
  if (memory == NULL) {
    return __wrap_malloc(size);
  }
  return is_refused() ? NULL : __real_realloc(memory, size);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *argument), void *argument) {
  return is_refused() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}
