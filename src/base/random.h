/* random – chance for what is inside weir.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_BASE_RANDOM_H
#define WEIR_SRC_BASE_RANDOM_H

#include <stddef.h>

#include <weir/clock.h>
#include <weir/random.h>

/* `random`, or the threads' own when it is NULL. */
static inline const struct weir_random *weir__random_or_default(const struct weir_random *random) {
  return random != NULL ? random : weir_random_thread();
}

/* Uniform in [0, 1). */
static inline double weir__random_unit(const struct weir_random *random) {
  return weir_random_unit(random);
}

#endif /* WEIR_SRC_BASE_RANDOM_H */
