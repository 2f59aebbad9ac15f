/* Runs a fuzzer over files, where there is no libFuzzer: each as it is, cut short, and with single
 * bytes changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/fuzz/fuzz_target.h"

#define FILE_MAX ((size_t)64 * 1024)

/* Each file is tried this often in each of the two ways. */
#define TRIES 40

/* What a changed byte becomes: bytes that mean something in JSON. */
static const unsigned char changes[] = "\"\\{}[],:0-.eE \n\x80\xff";

/* An exact copy, so that a sanitizer sees a read past the end. */
static void run(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size > 0 ? size : 1);
  if (copy == NULL) {
    abort();
  }
  memcpy(copy, data, size);
  (void)LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

static int run_file(const char *path) {
  static uint8_t data[FILE_MAX];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return 1;
  }
  const size_t size = fread(data, 1, sizeof data, file);
  (void)fclose(file);
  run(data, size);
  for (size_t i = 0; i < TRIES; i++) {
    const size_t at = size * i / TRIES;
    run(data, at);
    if (at < size) {
      const uint8_t kept = data[at];
      data[at] = changes[i % (sizeof changes)];
      run(data, size);
      data[at] = kept;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  int status = 0;
  for (int i = 1; i < argc; i++) {
    status |= run_file(argv[i]);
  }
  return argc > 1 ? status : 1;
}
