/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/seeded_random.h"

static uint64_t next(void *context) {
  return seeded_random_next(context);
}

static void init(struct seeded_random *random, bool is_constant, uint64_t state) {
  random->base =
      (struct weir_random){.size = sizeof(struct weir_random), .next = next, .context = random};
  random->is_constant = is_constant;
  random->state = state;
}

void seeded_random_init_constant(struct seeded_random *random, uint64_t value) {
  init(random, true, value);
}

void seeded_random_init(struct seeded_random *random, uint64_t seed) {
  init(random, false, seed);
}

uint64_t seeded_random_next(struct seeded_random *random) {
  if (random->is_constant) {
    return random->state;
  }
  /* SplitMix64: any seed will do */
  uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}
