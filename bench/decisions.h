/* decisions – the operations that decide about a call, to be timed and counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_DECISIONS_H
#define WEIR_BENCH_DECISIONS_H

#include <stddef.h>

#include "bench/timed.h"

/* breaker_decisions.c: one breaker, by itself and as the layer of a stack. */
extern const struct operation breaker_admit_settle_without_clock;
extern const struct operation
    breaker_admit_settle;                         /* with one look at the clock, as an event has */
extern const struct operation breaker_admit_fail; /* a failure that trips nothing */
extern const struct operation breaker_refuse;
extern const struct operation breaker_layer_admit_settle;
extern const struct operation breaker_layer_refuse;
extern const struct operation clock_read;

/* lookup_decisions.c: many breakers, by path. */
extern const struct operation registry_lookup_10;
extern const struct operation registry_lookup_10000_use_10; /* there are 10,000, 10 are used */
extern const struct operation registry_lookup_10000_use_all;

/* The same of paths that somebody has named before. */
extern const struct operation registry_lookup_10_known;
extern const struct operation registry_lookup_10000_known_use_10;

/* What 10,000 breakers take, with what malloc adds to each piece of memory. */
size_t registry_bytes_10000(void);
size_t registry_bytes_10000_known(void);

/* retry_decisions.c */
extern const struct operation throttle_record; /* a success into a bucket that is not full */
extern const struct operation throttle_record_full;
extern const struct operation throttle_record_failure;
extern const struct operation backoff_delay;

/* The same by libgrpc's own throttle. NULL: this libgrpc does not show its functions. */
const struct operation *core_throttle_record(void);
const struct operation *core_throttle_record_full(void);
const struct operation *core_throttle_record_failure(void);

/* call_decisions.c: calls on a channel whose breaker is OPEN, by weir_unary, and as one batch. */
extern const struct operation refuse_unary;
extern const struct operation refuse_queue;
extern const struct operation core_lame; /* as one batch on a lame channel of the bare core */

/* timer_decisions.c: one of so many is taken out of the heap, and put in again. */
extern const struct operation timer_of_1;
extern const struct operation timer_of_1000;
extern const struct operation timer_of_100000;

#endif /* WEIR_BENCH_DECISIONS_H */
