/* trailers – a call that a peer ends as bytes tell, through the whole of weir.
 *
 * Any bytes are such a call, with its policy: see trailers_plan. It fails the running test of
 * cmocka, or, without one and with CMOCKA_TEST_ABORT=1, aborts, unless
 *
 * - the call ends once, with a status in 0..16, which its report says too;
 * - at a boundary a failure says weir's words, and nothing that the peer wrote can be seen: but the
 *   metadata of kept keys, and the values of kept types in details that are as weir makes them; a
 *   stream has seen the headers and messages that came before;
 * - a failure at a boundary is logged once;
 * - a policy from or to OK is refused, and no other;
 * - nothing is left at the end: calls, slices, memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_TRAILERS_H
#define WEIR_TEST_STACK_TRAILERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What calls had in them, to see that they are worth something. */
struct trailers_tally {
  size_t n_calls;
  size_t n_streams;
  size_t n_failures; /* at a boundary */
  size_t n_retried;
  size_t n_odd_statuses;
  size_t n_kept_details;
  size_t n_dropped_details; /* where types may be kept */
  size_t n_kept_metadata;
  size_t n_kept_early; /* headers */
  size_t n_dropped_early;
  size_t n_refused_policies;
  size_t n_out_of_memory;
};

#define TRAILERS_MAX_BYTES 192

/* Makes one of the calls that are told by a number; says how long it is. */
size_t trailers_of_seed(uint64_t seed, uint8_t bytes_out[TRAILERS_MAX_BYTES]);

void trailers_run(const uint8_t *bytes, size_t size, struct trailers_tally *tally);

/* Where memory runs out: at an allocation of the call, or from it on. */
struct trailers_memory {
  size_t fails_at;
  bool for_good;
};

/* As trailers_run, but for the allocation that the bytes let fail; says how many have failed. */
size_t trailers_run_with(const uint8_t *bytes, size_t size, const struct trailers_memory *memory,
                         struct trailers_tally *tally);

#endif /* WEIR_TEST_STACK_TRAILERS_H */
