/* soak – a great many calls through a chain of real services, over connections that break, each of
 * them accounted for.
 *
 * client → proxy → A → proxy → B, each a process of its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_SOAK_H
#define WEIR_TEST_SOAK_SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "test/soak/checkpoint.h"
#include "test/soak/proxy.h"
#include "test/soak/tally.h"

struct soak_options {
  uint64_t seed;
  uint32_t n_calls;
};

/* What has come of it. */
struct soak_result {
  struct soak_options options;
  struct tally *tally;
  struct proxy_counts proxies[2]; /* before A, before B */
  struct checkpoint checkpoints[CHECKPOINTS_MAX];
  size_t n_checkpoints;
  uint64_t n_trips; /* of the breakers of the client's channels */
  uint64_t n_closed;
  int64_t took_ns;
  uint32_t n_broken; /* promises */
};

/* Runs it, and tells on `story` of the promises that were found broken; true = none was. Nothing
 * else may run in this process, and gRPC must not have been initialised. `*result` ends with
 * soak_result_fini. */
bool soak_run(const struct soak_options *options, FILE *story, struct soak_result *result);
void soak_result_fini(struct soak_result *result);

#endif /* WEIR_TEST_SOAK_SOAK_H */
