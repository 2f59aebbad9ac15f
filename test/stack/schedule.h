/* schedule – a run of many calls at once, told by bytes: what the application and the peers do, and
 * when.
 *
 * Any bytes are a schedule, and the same bytes are the same one. It fails the running test of
 * cmocka, or, without one and with CMOCKA_TEST_ABORT=1, aborts, unless
 *
 * - every batch comes exactly once, and succeeds if its operations did on the call's attempts;
 * - what is received is what the last attempt was told: each message once, in order;
 * - what an attempt is sent is what the application has started: metadata intact, each message
 *   once, in order, the half-close last, and all of it when the peer says that all is well;
 * - an attempt is sent in time, within its policy, after a failure that may be retried, and never
 *   for a call that was cancelled or let go, or in a queue that is shut down;
 * - what a fallback has found comes to a call in one batch that has failed, once, and alone;
 * - a layer is released as often as it admitted;
 * - the log is told once of each call that fails within a boundary, answered by a fallback or not, and
 *   of nothing else;
 * - nothing is left at the end: calls, slices, memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_H
#define WEIR_TEST_STACK_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What schedules had in them, to see that they are worth something. */
struct schedule_tally {
  size_t n_calls;
  size_t n_streams;
  size_t n_attempts;
  size_t n_retried;         /* attempts beyond a call's first */
  size_t n_streams_retried; /* those of calls in several batches */
  size_t n_cut_off;         /* attempts of them whose time was up */
  size_t n_cut_off_retried; /* and that were followed by another */
  size_t n_expired;         /* attempts of calls in one batch, whose queue has cut them off */
  size_t n_expired_retried; /* and that were followed by another */
  size_t n_messages;        /* received */
  size_t n_logged;
  size_t n_refused;
  size_t n_ended_in_backoff;
  size_t n_out_of_memory;
  size_t n_asked;    /* questions to a fallback */
  size_t n_stood_in; /* calls that it has answered */
};

#define SCHEDULE_MAX_BYTES 160

/* Makes one of the schedules that are told by a number; says how long it is. */
size_t schedule_of_seed(uint64_t seed, uint8_t bytes_out[SCHEDULE_MAX_BYTES]);

void schedule_run(const uint8_t *bytes, size_t size, struct schedule_tally *tally);

/* How memory runs out, once all is opened. */
struct schedule_memory {
  size_t fails_at; /* the nth allocation; 0 = never */
  bool for_good;   /* and all that follow, until the calls of the schedule have ended */
};

/* As schedule_run; says how many allocations have failed, those that the schedule itself lets fail
 * included. */
size_t schedule_run_with(const uint8_t *bytes, size_t size, const struct schedule_memory *memory,
                         struct schedule_tally *tally);

#endif /* WEIR_TEST_STACK_SCHEDULE_H */
