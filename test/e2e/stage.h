/* stage – a puppet server, a channel to it, and calls in batches, all on one queue and in one
 * thread.
 *
 * A test is played as the core's own retry tests are: each end does its next step when it is told,
 * and the step is waited for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_STAGE_H
#define WEIR_TEST_E2E_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/puppet_server.h"
#include "test/support/batched_call.h"

/* A test of cmocka's that has a stage. */
#define STAGED(name) cmocka_unit_test_setup_teardown(name, stage_setup, stage_teardown)

#define ABORTED "\"ABORTED\""

/* A policy of weir's own fields, whose every method retries ABORTED. Nothing but retries can be
 * seen. */
#define POLICY_WITH(fields, attempts, backoff) \
  "{" NO_BOUNDARY "," NO_BREAKER "," fields METHODS(RETRY(attempts, backoff, ABORTED)) "}"
#define POLICY_ABORTED(attempts) POLICY_WITH("", attempts, "0.005s")

/* Times that no test waits for. */
#define LONG_BACKOFF "20s"
#define AMPLE SECONDS(50)

#define STAGE_CALLS 4

struct stage {
  weir_completion_queue *queue;
  struct puppet_server *server;
  weir_channel *channel;
  struct counted_random random; /* asked once for each backoff */
  struct batched_call *calls[STAGE_CALLS];
  size_t n_calls;
};

/* setup and teardown of cmocka; the latter fails on a tag that comes twice, or not at all. */
int stage_setup(void **state);
int stage_teardown(void **state);

/* Opens server and channel. */
void stage_open(struct stage *stage, const char *policy);
void stage_open_with(struct stage *stage, const char *policy, const struct puppet_options *options,
                     const grpc_channel_args *args);

/* Ends the server, and opens another. */
void stage_close_server(struct stage *stage);
void stage_reopen_server(struct stage *stage, const struct puppet_options *options);

/* A call that is not started, with a deadline that long from now; 0 = as the policy says. It goes
 * with the stage. */
struct batched_call *stage_call(struct stage *stage, int64_t timeout_ns);

/* Waits for a batch's tag; whether it was a success. */
#define stage_await(stage, batch) awaited_tag_wait(&(batch)->tag, (stage)->queue)

/* Drains until that many backoffs have begun. */
void stage_await_backoff(struct stage *stage, unsigned n_backoffs);

#endif /* WEIR_TEST_E2E_STAGE_H */
