/* random – chance for jitter and references; not for secrets.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_RANDOM_H
#define WEIR_SRC_BASE_RANDOM_H

#include <stdint.h>

#include <weir/clock.h>

/* `random`, or a generator a thread, seeded by the system and anew after a fork, when it is
 * NULL. */
const struct weir_random *weir__random_or_default(const struct weir_random *random);

/* Uniform in [0, 1). */
double weir__random_unit(const struct weir_random *random);

#endif /* WEIR_SRC_BASE_RANDOM_H */
