/* chance – numbers that look like chance, and are the same for the same seed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_CHANCE_H
#define WEIR_TEST_SOAK_CHANCE_H

#include <stdbool.h>
#include <stdint.h>

struct chance {
  uint64_t state;
};

/* Of one thing among many: the seed of the run, and what tells the thing from the others. */
struct chance chance_of(uint64_t seed, uint64_t thing);

uint64_t chance_next(struct chance *chance);

/* One of 0 … n - 1; n is not 0. */
uint64_t chance_below(struct chance *chance, uint64_t n);

/* One of first … last. */
int64_t chance_between(struct chance *chance, int64_t first, int64_t last);

bool chance_percent(struct chance *chance, unsigned percent);

#endif /* WEIR_TEST_SOAK_CHANCE_H */
