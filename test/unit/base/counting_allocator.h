/* counting_allocator – malloc that counts what is out, and can run out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_UNIT_BASE_COUNTING_ALLOCATOR_H
#define WEIR_TEST_UNIT_BASE_COUNTING_ALLOCATOR_H

#include <stddef.h>

#include <weir/allocator.h>

struct counting_allocator {
  struct weir_allocator base; /* what is handed to the code under test */
  size_t n_outstanding;
  size_t n_allowed; /* allocations that still succeed */
};

/* Never runs out until n_allowed is set. */
void counting_allocator_init(struct counting_allocator *counting);

#endif /* WEIR_TEST_UNIT_BASE_COUNTING_ALLOCATOR_H */
