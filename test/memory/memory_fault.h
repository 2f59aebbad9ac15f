/* memory_fault – a C library whose memory runs out, and whose threads can't be had, when it is told.
 *
 * It is all of malloc, calloc, realloc, aligned_alloc and pthread_create that is linked statically: weir, upb, and
 * the test. What the core allocates in its shared library is not touched. A program that is linked
 * with it wraps these functions and free (memory_fault_linkopts in BUILD.bazel).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_MEMORY_MEMORY_FAULT_H
#define WEIR_TEST_MEMORY_MEMORY_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* Counts from now on what is asked for, by any thread, and refuses the nth, or the nth and all that
 * follow; 0 = none. */
void memory_fault_begin(size_t nth, bool for_good);

/* Refuses nothing any more. What was counted stays until the next begin. */
void memory_fault_end(void);

/* How often something was asked for, and refused, from begin to end. */
size_t memory_fault_n_asked(void);
size_t memory_fault_n_refused(void);

/* What was ever allocated, and is not freed. */
size_t memory_fault_n_outstanding(void);

#endif /* WEIR_TEST_MEMORY_MEMORY_FAULT_H */
