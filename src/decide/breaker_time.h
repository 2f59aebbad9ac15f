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

/* openFor times openBackoff to the power of `reopenings`, capped, then jittered by `chance` of
 * 2^32: a jitter under the cap would send half of a fleet back in the same instant. */
int64_t weir__breaker_open_time_ns(const struct weir__breaker_opening *opening, uint64_t reopenings,
                                   uint32_t chance);

/* Since when `phase`, which is OPEN or RAMP, has lasted. The phase, written after since_ns and read
 * before it, has published it; should it be a later phase's already, then an exchange of this one
 * fails. Before the clock was set back, it would last longer than it can: it begins again. */
int64_t weir__breaker_since_ns(weir_breaker *breaker, uint64_t phase, int64_t now_ns);

/* The rest of the open time in `phase`, which is OPENING or OPEN. */
int64_t weir__breaker_open_wait_ns(weir_breaker *breaker,
                                   const struct weir__breaker_opening *opening, uint64_t phase,
                                   int64_t now_ns);

/* The share of calls that a ramp lets through: from its least one up to 1, where it ends. `phase`
 * is RAMP_BEGINS or RAMP. */
double weir__breaker_ramp_share(const weir_breaker *breaker, int64_t ramp_for_ns, uint64_t phase,
                                int64_t now_ns);

/* When a call may next get through, of a breaker in `phase`: 0 while it is CLOSED. */
int64_t weir__breaker_wait_ns(const weir_breaker *breaker, uint64_t phase, int64_t now_ns);

#endif /* WEIR_SRC_DECIDE_BREAKER_TIME_H */
