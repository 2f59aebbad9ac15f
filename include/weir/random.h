/* weir/random.h – chance for jitter: a generator a thread, or a seeded one for runs that repeat.
 *
 * Good enough to keep a fleet from returning as one; not for secrets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_RANDOM_H
#define WEIR_RANDOM_H

#include <stdint.h>

#include <weir/clock.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Finds the source that weir uses unless it is given another. Each thread that asks it has a
 * generator of its own, seeded by the system at its first value, and anew at the first after a
 * fork: neither two threads nor a process and its child go through the same values.
 *
 * Ownership: the result is static.
 * Threads:   any thread; no lock.
 * Errors:    none. */
WEIR_API const struct weir_random *weir_random_thread(void);

/* Chance that is the same in every run. Memory of the caller's; filled by weir_random_seed. */
struct weir_seeded_random {
  struct weir_random base; /* what is handed on; its context is this struct, which must stay */
  uint64_t state;          /* weir's */
};

/* Starts a sequence. The same seed starts the same one, in every build and on every machine; any
 * seed will do.
 *
 * Ownership: `random` stays the caller's, and where it is while its `base` is in use.
 * Threads:   one thread at a time. What it fills may then be asked by any thread, without a lock:
 *            each value of the sequence goes to one of them.
 * Errors:    none. */
WEIR_API void weir_random_seed(struct weir_seeded_random *random, uint64_t seed);

/* Draws a number that is uniform in [0, 1), as weir_backoff_delay_ns wants it.
 *
 * Ownership: `random` is borrowed for the call; NULL = weir_random_thread.
 * Threads:   as the source says.
 * Errors:    none. */
WEIR_API double weir_random_unit(const struct weir_random *random);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RANDOM_H */
