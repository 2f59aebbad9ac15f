/* SPDX-License-Identifier: Apache-2.0 */
#include "src/fallback/fallbacks.h"

#include "src/base/allocator.h"
#include "src/base/options.h"

enum weir_error weir__fallback_check(const struct weir_fallback *fallback) {
  struct weir_fallback known = WEIR_FALLBACK_INIT;
  if (fallback == NULL) {
    return WEIR_OK;
  }
  enum weir_error error = weir__options_copy(&known, sizeof known, fallback);
  return error == WEIR_OK && known.ask == NULL ? WEIR_ERROR_INVALID_ARGUMENT : error;
}

struct weir__fallbacks *weir__fallbacks_new(const struct weir_fallback *fallback,
                                            const struct weir_allocator *allocator) {
  struct weir__fallbacks *fallbacks = weir__zalloc(allocator, sizeof *fallbacks);
  if (fallbacks == NULL) {
    return NULL;
  }
  fallbacks->fallback = (struct weir_fallback)WEIR_FALLBACK_INIT;
  if (weir__options_copy(&fallbacks->fallback, sizeof fallbacks->fallback, fallback) != WEIR_OK) {
    weir__free(allocator, fallbacks);
    return NULL;
  }
  atomic_init(&fallbacks->n_refs, 1);
  atomic_init(&fallbacks->n_running, 0);
  atomic_init(&fallbacks->n_late, 0);
  fallbacks->allocator = allocator;
  fallbacks->threads = &weir__fallback_threads_system;
  return fallbacks;
}

void weir__fallbacks_ref(struct weir__fallbacks *fallbacks) {
  /* relaxed: the caller has a share already */
  (void)atomic_fetch_add_explicit(&fallbacks->n_refs, 1, memory_order_relaxed);
}

void weir__fallbacks_unref(struct weir__fallbacks *fallbacks) {
  /* acq_rel: all that was asked comes before the release */
  if (fallbacks == NULL ||
      atomic_fetch_sub_explicit(&fallbacks->n_refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  const struct weir_fallback fallback = fallbacks->fallback;
  weir__free(fallbacks->allocator, fallbacks);
  if (fallback.release != NULL) {
    fallback.release(fallback.context); /* last: it may end what the memory came from */
  }
}

void weir__fallbacks_disown(struct weir__fallbacks *fallbacks) {
  if (fallbacks != NULL) {
    fallbacks->fallback.release = NULL;
  }
}

bool weir__fallbacks_enter(struct weir__fallbacks *fallbacks, uint32_t max_running) {
  /* relaxed: a place orders nothing */
  unsigned n_running = atomic_load_explicit(&fallbacks->n_running, memory_order_relaxed);
  while (n_running < max_running) {
    if (atomic_compare_exchange_weak_explicit(&fallbacks->n_running, &n_running, n_running + 1,
                                              memory_order_relaxed, memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void weir__fallbacks_leave(struct weir__fallbacks *fallbacks) {
  (void)atomic_fetch_sub_explicit(&fallbacks->n_running, 1, memory_order_relaxed);
}
