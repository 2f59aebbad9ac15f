/* seeded_random – chance that is the same in every run: one value for ever, or a sequence from a
 * seed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SEEDED_RANDOM_H
#define WEIR_TEST_SUPPORT_SEEDED_RANDOM_H

#include <stdint.h>

#include <weir/clock.h>
#include <weir/random.h>

/* Half of the range: a jitter of nothing. */
#define SEEDED_RANDOM_MIDDLE (UINT64_C(1) << 63)

struct seeded_random {
  struct weir_random base; /* what is handed to the code under test */
  uint64_t constant;
  struct weir_seeded_random sequence;
};

void seeded_random_init_constant(struct seeded_random *random, uint64_t value);
void seeded_random_init(struct seeded_random *random, uint64_t seed);

/* The next value, for a test that decides by chance itself. */
uint64_t seeded_random_next(struct seeded_random *random);

#endif /* WEIR_TEST_SUPPORT_SEEDED_RANDOM_H */
