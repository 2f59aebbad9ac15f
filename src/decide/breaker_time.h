/* breaker_time – how long a breaker stays open, and how much of a ramp is over.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_TIME_H
#define WEIR_SRC_DECIDE_BREAKER_TIME_H

#include <stdint.h>

#include "src/decide/breaker.h"

/* openFor times openBackoff to the power of `reopenings`, capped, then jittered by `chance`, which
 * is in [0, 1): a jitter under the cap would send half of a fleet back in the same instant. */
int64_t weir__breaker_open_time_ns(const struct weir__breaker_rules *rules, uint64_t reopenings,
                                   double chance);

/* The rest of the open time in `phase`, which is OPENING or OPEN. One that was measured before the
 * clock was set back starts again. */
int64_t weir__breaker_open_wait_ns(weir_breaker *breaker, uint64_t phase, int64_t now_ns);

/* The share of calls that a ramp lets through: from its least one up to 1, where it ends. `phase`
 * is RAMP_BEGINS or RAMP. */
double weir__breaker_ramp_share(const weir_breaker *breaker, uint64_t phase, int64_t now_ns);

/* A ramp that began before the clock was set back begins again. */
void weir__breaker_time_recover(weir_breaker *breaker, uint64_t phase, int64_t now_ns);

/* When a call may next get through, of a breaker in `phase`: 0 while it is CLOSED. */
int64_t weir__breaker_wait_ns(const weir_breaker *breaker, uint64_t phase, int64_t now_ns);

#endif /* WEIR_SRC_DECIDE_BREAKER_TIME_H */
