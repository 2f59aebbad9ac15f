/* lanes – the ways in which the client of a soak makes calls: on a queue for next, one for
 * callbacks and one for pluck, each of which several threads drain, and with weir_unary; and the
 * thread that disturbs them all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_LANES_H
#define WEIR_TEST_SOAK_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "test/soak/client.h"

/* Starts the threads, which wait. `client` is borrowed until the release. */
struct lanes *lanes_new(struct client *client);

/* Shuts the queues down, and ends all threads. Nothing is under way. Blames tags that come all the
 * same. */
void lanes_release(struct lanes *lanes);

void lanes_begin(struct lanes *lanes, int64_t first, int64_t last);

/* From when it returns, until lanes_begin, nobody disturbs the channels. */
void lanes_calm(struct lanes *lanes);

/* Waits for `span_ns` at most until all calls that were begun have ended. */
bool lanes_await(struct lanes *lanes, int64_t span_ns);

/* Blames calls that have not ended long after their deadlines, and says whether there are any. */
bool lanes_are_stuck(struct lanes *lanes);

/* Waits for the next of the disturbing thread's turns, which are some milliseconds apart. */
void lanes_await_turn(struct lanes *lanes);

#endif /* WEIR_TEST_SOAK_LANES_H */
