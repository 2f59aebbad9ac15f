/* Tells what happens in schedules: schedule_replay FILE...
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/fuzz/fuzz_target.h"
#include "test/stack/schedule_trace.h"

#define FILE_MAX ((size_t)64 * 1024)

int main(int argc, char **argv) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  (void)setenv(SCHEDULE_TRACE_VARIABLE, "1", 1);
  for (int i = 1; i < argc; i++) {
    static uint8_t data[FILE_MAX];
    FILE *file = fopen(argv[i], "rb");
    if (file == NULL) {
      perror(argv[i]);
      return 1;
    }
    size_t size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, size);
  }
  return 0;
}
