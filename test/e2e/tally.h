/* tally – how the calls of a test have ended, by their reports.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_TALLY_H
#define WEIR_TEST_E2E_TALLY_H

#include <stdint.h>

#include <weir/weir.h>

/* Zeroed = none yet. */
struct tally {
  uint64_t n_calls;
  uint64_t n_ok;
  uint64_t n_admitted; /* that made an attempt */
  uint64_t n_attempts;
  uint64_t n_cut_off; /* by a server that was stopped while it served them */
  uint64_t n_expired; /* before an attempt was made: on a busy machine a short time is soon over */
  uint64_t n_refused; /* by the breaker, before an attempt */
  uint64_t n_ramped;  /* of them, while it is CLOSED, and lets more and more calls through */
  uint64_t n_odd; /* ended as no call should: not well, not refused, not by the server's fault */
};

/* Of a refused call it is asked that it says everything: the reason, the origin, when to come back,
 * and that no layer further out should try again. */
void tally_add(struct tally *tally, const struct weir_call_report *report);

#endif /* WEIR_TEST_E2E_TALLY_H */
