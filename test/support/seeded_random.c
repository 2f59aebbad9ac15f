/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/seeded_random.h"

static uint64_t constant_next(void *context) {
  return *(const uint64_t *)context;
}

void seeded_random_init_constant(struct seeded_random *random, uint64_t value) {
  random->constant = value;
  random->base = (struct weir_random){
      .size = sizeof(struct weir_random), .next = constant_next, .context = &random->constant};
}

void seeded_random_init(struct seeded_random *random, uint64_t seed) {
  weir_random_seed(&random->sequence, seed);
  random->base = random->sequence.base;
}

uint64_t seeded_random_next(struct seeded_random *random) {
  return random->base.next(random->base.context);
}
