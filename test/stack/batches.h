/* batches – calls in several batches over the scripted transport, step by step.
 *
 * The fixture's queue carries their tags only: it is drained by the functions below.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_BATCHES_H
#define WEIR_TEST_STACK_BATCHES_H

#include <stdint.h>

#include "test/stack/stack_fixture.h"
#include "test/support/batched_call.h"

/* A fixture without boundary and breaker, whose methods retry `code`: that many attempts, 100 ms
 * apart. */
void open_retrying(struct fixture *f, grpc_status_code code, uint32_t max_attempts);

/* A call that is not started; the second has a deadline, the third one and a request that it is made
 * for (NULL = none). Ended by batched_call_release. */
struct batched_call *batches_new(struct fixture *f);
struct batched_call *batches_new_until(struct fixture *f, int64_t deadline_at_ns);
struct batched_call *batches_new_for(struct fixture *f, int64_t deadline_at_ns,
                                     weir_inbound *inbound);

/* The next message, in slices that the transport counts. */
void batches_say(struct fixture *f, struct batched_call *call, const char *text);

/* Drains until `at_ns`; it is then that time. */
void drain_until(struct fixture *f, int64_t at_ns);

/* Drains until nothing will ever happen, or the queue is shut down. */
void drain(struct fixture *f);

#endif /* WEIR_TEST_STACK_BATCHES_H */
