/* blocking – a call of the client of a soak by weir_unary.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_BLOCKING_H
#define WEIR_TEST_SOAK_BLOCKING_H

#include <stdint.h>

#include "test/soak/client.h"
#include "test/soak/tally.h"

/* Begins a call as its plan says. */
struct tally_call blocking_plan(struct client *client, int64_t id);

/* Makes it, waits for its end, and has it judged. `call` is borrowed for the call. */
grpc_status_code blocking_run(struct client *client, struct tally_call *call);

#endif /* WEIR_TEST_SOAK_BLOCKING_H */
