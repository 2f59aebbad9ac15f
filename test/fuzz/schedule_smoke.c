/* Runs many schedules, the same ones each time: schedule_smoke [COUNT [FIRST]].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/fuzz/fuzz_target.h"
#include "test/stack/schedule.h"

#define DEFAULT_COUNT 1000000

int main(int argc, char **argv) {
  uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : DEFAULT_COUNT;
  uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  for (uint64_t seed = first; seed < first + count; seed++) {
    uint8_t bytes[SCHEDULE_MAX_BYTES];
    size_t size = schedule_of_seed(seed, bytes);
    (void)LLVMFuzzerTestOneInput(bytes, size);
  }
  (void)printf("%llu schedules, from %llu on, kept the engine's promises\n",
               (unsigned long long)count, (unsigned long long)first);
  return 0;
}
