/* episode – what happens to a policy's file and to the way that leads to it, as bytes tell, and a
 * watcher that follows it.
 *
 * Any bytes are such an episode: files are written, cut, renamed, linked, deleted, become
 * directories or pipes, may not be read; the watcher is polled now and then. It fails the running
 * test of cmocka, or, without one and with CMOCKA_TEST_ABORT=1, aborts, unless
 *
 * - what is in force is what the file held when it was good last, or that of the start;
 * - generations, on_change and what a poll says count the changes of that, and nothing else;
 * - the state that is told is the file's, at once or as soon as the descriptor is readable;
 * - nothing is left at the end: memory, descriptors.
 *
 * What the file is, is found out by opening it, without weir.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_UNIT_WATCH_EPISODE_H
#define WEIR_TEST_UNIT_WATCH_EPISODE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/policy_watch.h>

#define EPISODE_N_STATES (WEIR_POLICY_FILE_UNREADABLE + 1)

/* What episodes had in them, to see that they are worth something. */
struct episode_tally {
  size_t n_steps; /* that the system let happen */
  size_t n_changes;
  size_t n_settled[EPISODE_N_STATES]; /* by what the file was */
};

#define EPISODE_MAX_BYTES 96

/* Makes one of the episodes that are told by a number; says how long it is. */
size_t episode_of_seed(uint64_t seed, uint8_t bytes_out[EPISODE_MAX_BYTES]);

void episode_run(const uint8_t *bytes, size_t size, struct episode_tally *tally);

#endif /* WEIR_TEST_UNIT_WATCH_EPISODE_H */
