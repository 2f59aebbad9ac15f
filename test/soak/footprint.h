/* footprint – what a process holds of the system.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_FOOTPRINT_H
#define WEIR_TEST_SOAK_FOOTPRINT_H

#include <stdint.h>
#include <sys/types.h>

#include "test/soak/ledger.h"

struct footprint {
  uint64_t rss_kib; /* of memory that is its own */
  uint64_t n_threads;
  uint64_t n_descriptors;
  uint64_t heap_bytes; /* in use, of all of malloc's; 0 = it can't be told */
};

/* All but the heap, which a process only knows of itself. */
void footprint_look(pid_t pid, struct footprint *footprint_out);

/* This process's. */
void footprint_take(struct footprint *footprint_out);

/* This process's, once its threads that have ended are no more than `n_threads`, or after some
 * seconds. */
void footprint_take_last(uint64_t n_threads, struct footprint *footprint_out);

/* Blames what `now`, at the end, has more than `before`, ere the core was there. */
void footprint_judge(const struct footprint *before, const struct footprint *now, const char *name,
                     struct ledger *ledger);

#endif /* WEIR_TEST_SOAK_FOOTPRINT_H */
