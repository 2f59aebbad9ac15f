/* counted_memory – an allocator for weir that counts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_COUNTED_MEMORY_H
#define WEIR_BENCH_COUNTED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>

extern const struct weir_allocator counted_memory;

/* How often it was asked for memory so far, by all threads. */
uint64_t counted_memory_n_requests(void);

/* What it has given and not got back, with what malloc adds to each piece. */
size_t counted_memory_n_bytes(void);

#endif /* WEIR_BENCH_COUNTED_MEMORY_H */
