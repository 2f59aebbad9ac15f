/* SPDX-License-Identifier: Apache-2.0 */
/* soak: [--seed N] [--calls N] [--json]. Exits with 1 when a promise is broken. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "test/soak/result.h"
#include "test/soak/soak.h"

#define DEFAULT_CALLS 200000
#define CALLS_MAX 10000000
#define SEED_MASK UINT64_C(0xffffffff)
#define EXIT_USAGE 2

static bool read_number(const char *text, uint64_t max, uint64_t *number_out) {
  char *end = NULL;
  if (text == NULL || text[0] < '0' || text[0] > '9') {
    return false;
  }
  errno = 0;
  *number_out = strtoumax(text, &end, 10);
  return errno == 0 && *end == '\0' && *number_out <= max;
}

static bool read_arguments(int argc, char **argv, struct soak_options *options, bool *json) {
  uint64_t number = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0) {
      *json = true;
    } else if (strcmp(argv[i], "--seed") == 0 && read_number(argv[i + 1], UINT64_MAX, &number)) {
      options->seed = number;
      i++;
    } else if (strcmp(argv[i], "--calls") == 0 && read_number(argv[i + 1], CALLS_MAX, &number) &&
               number > 0) {
      options->n_calls = (uint32_t)number;
      i++;
    } else {
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  struct soak_options options = {.n_calls = DEFAULT_CALLS};
  struct soak_result result;
  bool json = false;
  bool has_seed = getrandom(&options.seed, sizeof options.seed, 0) == sizeof options.seed;
  options.seed &= SEED_MASK; /* short enough to be typed */
  if (!has_seed || !read_arguments(argc, argv, &options, &json)) {
    fprintf(stderr, "usage: soak [--seed N] [--calls N] [--json]\n");
    return EXIT_USAGE;
  }
  (void)signal(SIGPIPE, SIG_IGN);
  fprintf(stderr, "soak: --seed %" PRIu64 " --calls %u\n", options.seed, options.n_calls);
  bool fine = soak_run(&options, stderr, &result);
  (json ? result_print_json : result_print)(&result, stdout);
  soak_result_fini(&result);
  return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
