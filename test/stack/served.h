/* served – a request that a service is given, as bytes tell it, and a call that is made for it,
 * through the whole of weir.
 *
 * Any bytes are such a request, with the service's policy: see served_plan. It fails the running test
 * of cmocka, or, without one and with CMOCKA_TEST_ABORT=1, aborts, unless
 *
 * - an inbound is made of it, unless the keys of a trace are illegal;
 * - the call's deadline is the nearest of those that bind it, to the nanosecond, and a deadline that is
 *   past sends nothing; the budget that is sent says the same;
 * - whoever owns the retries is passed on under a name that a policy can have, and nobody else
 *   retries;
 * - of the request's metadata nothing goes on but the values of a trace, within their limits; of
 *   the service's own all does, but for what weir says itself;
 * - the call ends once, as it is answered, and what the service's reply says of it fits;
 * - nothing is left at the end: calls, slices, memory.
 *
 * What must hold is worked out anew, from what doc/inbound.md, doc/deadlines.md and doc/retry.md say.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SERVED_H
#define WEIR_TEST_STACK_SERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What requests had in them, to see that they are worth something. */
struct served_tally {
  size_t n_requests;
  size_t n_refused_keys;
  size_t n_past; /* before anything was sent */
  size_t n_bound_by_parent;
  size_t n_marked;
  size_t n_retried;
  size_t n_traces; /* values that went on */
  size_t n_overridden;
  size_t n_out_of_memory;
};

#define SERVED_MAX_BYTES 192

/* Makes one of the requests that are told by a number; says how long it is. */
size_t served_of_seed(uint64_t seed, uint8_t bytes_out[SERVED_MAX_BYTES]);

/* Where memory runs out: at an allocation from when the request comes in, or from it on; 0 = nowhere. */
struct served_memory {
  size_t fails_at;
  bool for_good;
};

/* Says how many allocations have failed. */
size_t served_run_with(const uint8_t *bytes, size_t size, const struct served_memory *memory,
                       struct served_tally *tally);

void served_run(const uint8_t *bytes, size_t size, struct served_tally *tally);

#endif /* WEIR_TEST_STACK_SERVED_H */
