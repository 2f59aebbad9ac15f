/* A policy's file, whatever happens to it, and its watcher: see test/unit/watch/episode.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "test/fuzz/fuzz_target.h"
#include "test/unit/watch/episode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool prepared;
  static struct episode_tally tally;
  if (!prepared) {
    /* a failed assertion aborts, outside a test */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    prepared = true;
  }
  episode_run(data, size, &tally);
  return 0;
}
