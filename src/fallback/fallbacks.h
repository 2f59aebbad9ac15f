/* fallbacks – the fallback of a channel, and the places for those who ask it.
 *
 * It outlives the channel while an `ask` runs, so it knows nothing of the channel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_FALLBACK_FALLBACKS_H
#define WEIR_SRC_FALLBACK_FALLBACKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/fallback.h>

#include "src/fallback/threads.h"

struct weir__fallbacks {
  atomic_size_t n_refs; /* the channel's with its calls', and one for each `ask` that runs */
  const struct weir_allocator *allocator;
  struct weir_fallback fallback;
  const struct weir__fallback_threads *threads;
  atomic_uint n_running;   /* places that are taken */
  _Atomic uint64_t n_late; /* answers that nobody waited for any more */
};

/* Whether a channel can be made with it: WEIR_ERROR_INVALID_ARGUMENT, it has no size or no ask;
 * WEIR_ERROR_UNSUPPORTED, it is from a newer header. NULL is allowed. */
WEIR_MUST_CHECK enum weir_error weir__fallback_check(const struct weir_fallback *fallback);

/* `fallback` was checked, and is copied. NULL when there is no memory. */
struct weir__fallbacks *weir__fallbacks_new(const struct weir_fallback *fallback,
                                            const struct weir_allocator *allocator);

void weir__fallbacks_ref(struct weir__fallbacks *fallbacks);

/* The last share gone, the fallback is released. NULL is allowed. */
void weir__fallbacks_unref(struct weir__fallbacks *fallbacks);

/* No channel was made with it: it stays the application's, and is not to be released. NULL is
 * allowed. */
void weir__fallbacks_disown(struct weir__fallbacks *fallbacks);

/* Takes a place, if fewer than `max_running` are taken. */
bool weir__fallbacks_enter(struct weir__fallbacks *fallbacks, uint32_t max_running);
void weir__fallbacks_leave(struct weir__fallbacks *fallbacks);

#endif /* WEIR_SRC_FALLBACK_FALLBACKS_H */
