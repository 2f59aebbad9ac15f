/* allocations – how often a thread asks for memory, in whatever library.
 *
 * malloc and its kin are replaced by functions that count and hand on, for every library that the
 * program is linked with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_ALLOCATIONS_H
#define WEIR_BENCH_ALLOCATIONS_H

#include <stdint.h>

/* So far, by the calling thread. */
uint64_t allocations_count(void);

#endif /* WEIR_BENCH_ALLOCATIONS_H */
