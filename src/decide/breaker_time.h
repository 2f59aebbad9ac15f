/* breaker_time – how long a breaker stays open, and how much of a ramp is over.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_TIME_H
#define WEIR_SRC_DECIDE_BREAKER_TIME_H

#include <stdatomic.h>
#include <stdint.h>

#include "src/decide/breaker.h"
#include "src/decide/breaker_phase.h"
#include "src/time/instant.h"

/* openFor times openBackoff to the power of `reopenings`, capped, then jittered by `chance`, which
 * is in [0, 1): a jitter under the cap would send half of a fleet back in the same instant. */
int64_t weir__breaker_open_time_ns(const struct weir__breaker_rules *rules, uint64_t reopenings,
                                   double chance);

/* An open time that was measured before the clock was set back starts again. Returns the rest of
 * it. */
int64_t weir__breaker_open_again_ns(weir_breaker *breaker, uint64_t phase, int64_t now_ns);

/* The rest of the open time in `phase`, which is OPENING or OPEN. The phase, written after at_ns
 * and read before it, has published it; should it be a later phase's already, then an exchange of
 * this one fails. */
static inline int64_t weir__breaker_open_wait_ns(weir_breaker *breaker, uint64_t phase,
                                                 int64_t now_ns) {
  const struct weir__breaker_rules *rules = breaker->rules;
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_OPENING) {
    return rules->options.open_for_ns;
  }
  int64_t wait_ns =
      weir__instant_remaining(atomic_load_explicit(&breaker->at_ns, memory_order_relaxed), now_ns);
  return wait_ns <= rules->longest_wait_ns ? wait_ns
                                           : weir__breaker_open_again_ns(breaker, phase, now_ns);
}

/* The share of calls that a ramp lets through: from its least one up to 1, where it ends. `phase`
 * is RAMP_BEGINS or RAMP. */
double weir__breaker_ramp_share(const weir_breaker *breaker, uint64_t phase, int64_t now_ns);

/* A ramp that began before the clock was set back begins again. */
void weir__breaker_time_recover(weir_breaker *breaker, uint64_t phase, int64_t now_ns);

/* When a call may next get through, of a breaker in `phase`: 0 while it is CLOSED. */
int64_t weir__breaker_wait_ns(const weir_breaker *breaker, uint64_t phase, int64_t now_ns);

#endif /* WEIR_SRC_DECIDE_BREAKER_TIME_H */
