/* scenario – a number of calls, or of messages of one call, on one side of a benchmark.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_SCENARIO_H
#define WEIR_BENCH_SCENARIO_H

#include "bench/exchange.h"

typedef void scenario_run_fn(const struct client *client, int n);

struct scenario {
  const char *name;
  scenario_run_fn *run;
};

/* "unary_one_batch": one call after the other, each as one batch. "unary_64k": the same, with 64 KiB
 * there and back. "unary_six_batches": each operation as a batch of its own, all started, then all
 * awaited. "unary_8_at_once", "unary_64_at_once": one batch a call, so many calls under way all the
 * time. "stream", "client_stream": one call and n messages, each started when the one before has
 * come back. NULL: none has that name. */
const struct scenario *scenario_find(const char *name);

#endif /* WEIR_BENCH_SCENARIO_H */
