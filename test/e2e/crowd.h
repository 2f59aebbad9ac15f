/* crowd – threads that make one blocking call after the other, all at once, over one channel.
 *
 * Their calls are counted by phases that the test names by number: a call is of the phase in which
 * it was begun. Who is refused comes back when the breaker has said that a probe may be let through,
 * or a little earlier: all of them at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_CROWD_H
#define WEIR_TEST_E2E_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "test/e2e/tally.h"

#define CROWD_THREADS 64
#define CROWD_PHASES 4

struct crowd;

/* The threads wait at a gate until crowd_let_in. `channel` is borrowed until crowd_release. */
struct crowd *crowd_new(weir_channel *channel);

/* Opens the gate if it is closed. Calls that are begun from now on are of `phase`, and have
 * `timeout_ns`, or what the policy gives them if it is WEIR_NO_LIMIT_NS. */
void crowd_let_in(struct crowd *crowd, unsigned phase, int64_t timeout_ns);

/* Closes the gate, and waits until no call is under way. */
void crowd_hold(struct crowd *crowd);

/* Waits, up to half a minute, until what is asked after each call is true; false when the time is
 * over. `is_so` runs under the crowd's lock. */
bool crowd_wait(struct crowd *crowd, bool (*is_so)(const struct crowd *crowd, void *context),
                void *context);

/* Of what was counted so far; for `is_so`, and while the crowd is held. */
const struct tally *crowd_tally(const struct crowd *crowd, unsigned phase);

/* Lets the threads go, and joins them. */
void crowd_release(struct crowd *crowd);

#endif /* WEIR_TEST_E2E_CROWD_H */
