/* threads – where a fallback is asked.
 *
 * One that blocks must not hold a thread that drains a queue, so each question has a thread of its
 * own, which ends with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_FALLBACK_THREADS_H
#define WEIR_SRC_FALLBACK_THREADS_H

#include <stdbool.h>

/* What makes threads; a test runs them by hand. */
struct weir__fallback_threads {
  /* Has `run` called with `argument`, once, in another thread or later. False: it won't be. */
  bool (*start)(void *context, void *(*run)(void *argument), void *argument);
  void *context;
};

/* The system's: detached, with all signals blocked. */
extern const struct weir__fallback_threads weir__fallback_threads_system;

#endif /* WEIR_SRC_FALLBACK_THREADS_H */
