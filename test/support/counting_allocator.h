/* counting_allocator – malloc that counts what is out, and that can fail once or from some time on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_COUNTING_ALLOCATOR_H
#define WEIR_TEST_SUPPORT_COUNTING_ALLOCATOR_H

#include <stdatomic.h>
#include <stddef.h>

#include <weir/allocator.h>

/* Any thread may allocate, and set what fails. */
struct counting_allocator {
  struct weir_allocator base; /* what is handed to the code under test */
  atomic_size_t n_outstanding;
  atomic_size_t n_allocations; /* asked for so far, failed ones included */
  atomic_size_t fails_at;      /* the nth allocation from the start fails; 0 = none does */
  atomic_size_t n_failed;
  atomic_size_t n_allowed; /* allocations that still succeed before all fail */
};

/* Never runs out until n_allowed is set, and fails none until it is told to. */
void counting_allocator_init(struct counting_allocator *counting);

/* Lets the nth allocation from now fail. */
void counting_allocator_fail_nth(struct counting_allocator *counting, size_t nth);

/* Lets it fail, and all that follow. */
void counting_allocator_fail_from_nth(struct counting_allocator *counting, size_t nth);

/* Fails none any more. */
void counting_allocator_fail_none(struct counting_allocator *counting);

#endif /* WEIR_TEST_SUPPORT_COUNTING_ALLOCATOR_H */
