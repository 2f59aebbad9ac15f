/* live memory – malloc for weir's objects, which tells how much of it is in use in this process.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_LIVE_MEMORY_H
#define WEIR_TEST_SOAK_LIVE_MEMORY_H

#include <stdint.h>

#include <weir/allocator.h>

/* What is handed to weir. */
extern const struct weir_allocator live_memory;

uint64_t live_memory_blocks(void);
uint64_t live_memory_bytes(void);

#endif /* WEIR_TEST_SOAK_LIVE_MEMORY_H */
