/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/chance.h"

#define PERCENT 100

/* SplitMix64: any seed will do, and neighbours have nothing in common. */
uint64_t chance_next(struct chance *chance) {
  uint64_t z = chance->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

struct chance chance_of(uint64_t seed, uint64_t thing) {
  struct chance chance = {.state = seed};
  chance.state = chance_next(&chance) ^ thing;
  chance.state = chance_next(&chance);
  return chance;
}

uint64_t chance_below(struct chance *chance, uint64_t n) {
  return chance_next(chance) % n;
}

int64_t chance_between(struct chance *chance, int64_t first, int64_t last) {
  return first + (int64_t)chance_below(chance, (uint64_t)(last - first) + 1);
}

bool chance_percent(struct chance *chance, unsigned percent) {
  return chance_below(chance, PERCENT) < percent;
}
