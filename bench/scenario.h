/* scenario – a number of calls, or of messages of one call, on one side of a benchmark.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_SCENARIO_H
#define WEIR_BENCH_SCENARIO_H

#include "bench/side.h"

/* A channel and the one queue of its calls, drained by the one thread that starts them. */
struct client {
  const struct side *side;
  void *channel;
  void *queue;
};

typedef void scenario_run_fn(const struct client *client, int n);

/* "unary_one_batch": one call after the other, each as one batch. "unary_six_batches": each
 * operation as a batch of its own, all started, then all awaited. "unary_64_at_once": one batch a
 * call, 64 calls under way all the time. "stream", "client_stream": one call and n messages, each
 * started when the one before has come back. NULL: none has that name. */
scenario_run_fn *scenario_find(const char *name);

void client_init(struct client *client, const struct side *side, const char *target);
void client_fini(struct client *client);

#endif /* WEIR_BENCH_SCENARIO_H */
