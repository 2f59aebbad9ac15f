/* gated_fallback – a fallback that blocks until a test opens its gate.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_GATED_FALLBACK_H
#define WEIR_TEST_E2E_GATED_FALLBACK_H

#include <pthread.h>
#include <stdbool.h>

#include <weir/fallback.h>

struct gated_fallback {
  struct weir_fallback base; /* what is handed to the code under test */
  enum weir_fallback_found found;
  const char *text; /* of what it finds, in the source "gate" */

  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool is_open;
  unsigned n_asked;
  unsigned n_inside;
  unsigned n_inside_most;
  unsigned n_released;
};

/* Open, and finds "stale". */
void gated_fallback_init(struct gated_fallback *fallback);

/* Waits until it has been released that often: nobody asks it any more. */
void gated_fallback_fini(struct gated_fallback *fallback, unsigned n_released);

void gated_fallback_open(struct gated_fallback *fallback);
void gated_fallback_close(struct gated_fallback *fallback);

/* Waits until so many block at once, and until nobody does. */
void gated_fallback_await_inside(struct gated_fallback *fallback, unsigned n_inside);
void gated_fallback_await_empty(struct gated_fallback *fallback);

#endif /* WEIR_TEST_E2E_GATED_FALLBACK_H */
