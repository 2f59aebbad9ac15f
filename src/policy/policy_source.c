/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/policy_source.h"

#include <string.h>

#include "src/base/allocator.h"

struct weir__policy_source *weir__policy_source_new(char *text, size_t size, const char *file_name,
                                                    const struct weir_allocator *allocator) {
  const size_t name_size = file_name != NULL ? strlen(file_name) + 1 : 0;
  struct weir__policy_source *source = weir__zalloc(allocator, sizeof *source + name_size);
  if (source == NULL) {
    return NULL;
  }
  source->allocator = allocator;
  atomic_init(&source->n_shares, 1);
  source->text = text;
  source->size = size;
  if (file_name != NULL) {
    source->file_name = memcpy(source + 1, file_name, name_size);
  }
  return source;
}

struct weir__policy_source *weir__policy_source_ref(struct weir__policy_source *source) {
  /* relaxed: who calls has a share, so the object can't go away meanwhile */
  atomic_fetch_add_explicit(&source->n_shares, 1, memory_order_relaxed);
  return source;
}

void weir__policy_source_unref(struct weir__policy_source *source) {
  if (source == NULL) {
    return;
  }
  /* acq_rel: what other threads did with their shares comes before the end, which is in the last
   * one's */
  if (atomic_fetch_sub_explicit(&source->n_shares, 1, memory_order_acq_rel) == 1) {
    const struct weir_allocator *allocator = source->allocator;
    weir__free(allocator, source->text);
    weir__free(allocator, source);
  }
}
