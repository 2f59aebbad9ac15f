/* schedule – a run of many calls at once, told by bytes: what the application and the peers do, and
 * when.
 *
 * Any bytes are a schedule. It fails the running test of cmocka unless every tag comes exactly
 * once, no attempt is sent for a call that was cancelled or let go, or beyond its deadline or its
 * policy, layers are released as often as they admitted, and nothing is left at the end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_H
#define WEIR_TEST_STACK_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

/* What schedules had in them, to see that they are worth something. */
struct schedule_tally {
  size_t n_calls;
  size_t n_streams;
  size_t n_attempts;
  size_t n_retried; /* attempts beyond a call's first */
  size_t n_refused;
  size_t n_ended_in_backoff;
  size_t n_out_of_memory;
};

void schedule_run(const uint8_t *bytes, size_t size, struct schedule_tally *tally);

#endif /* WEIR_TEST_STACK_SCHEDULE_H */
