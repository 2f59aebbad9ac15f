/* counting_allocator – malloc that counts what is out, and that can fail once or from some time on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_COUNTING_ALLOCATOR_H
#define WEIR_TEST_SUPPORT_COUNTING_ALLOCATOR_H

#include <stddef.h>

#include <weir/allocator.h>

struct counting_allocator {
  struct weir_allocator base; /* what is handed to the code under test */
  size_t n_outstanding;
  size_t n_allocations; /* asked for so far, failed ones included */
  size_t fails_at;      /* the nth allocation from the start fails; 0 = none does */
  size_t n_failed;
  size_t n_allowed; /* allocations that still succeed before all fail */
};

/* Never runs out until n_allowed is set, and fails none until it is told to. */
void counting_allocator_init(struct counting_allocator *counting);

/* Lets the nth allocation from now fail. */
void counting_allocator_fail_nth(struct counting_allocator *counting, size_t nth);

#endif /* WEIR_TEST_SUPPORT_COUNTING_ALLOCATOR_H */
