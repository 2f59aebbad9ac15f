/* demo – a chain of services on the real C core, with and without weir: client -> A -> B, over
 * loopback.
 *
 * It prints five tables, or with --json one document, and fails when a row is not what doc/demo.md
 * says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <grpc/grpc.h>

#include "examples/demo/results.h"
#include "examples/demo/tables.h"

#define EXIT_WRONG 1
#define EXIT_USAGE 2

static void print_tables(const struct results *results, FILE *file) {
  fputs("client -> A -> B, real gRPC servers on loopback. \"bare\" is A without weir.\n\n", file);
  results_print(results, file, "translation", "TRANSLATION  B answers a code; A's client sees",
                "Codes that would blame the client for what A asked of B become INTERNAL.");
  results_print_blocks(results, file, "messages", "MESSAGES  what A's client can read",
                       "The original is in A's log, once, under the reference.");
  results_print(results, file, "amplification",
                "AMPLIFICATION  the last service is down; calls that it gets for one of the client",
                "\"3\" is three tries. With weir, one layer of the chain retries.");
  results_print(results, file, "deadline",
                "DEADLINE  B takes 1 s, A gives it 300 ms, the client has 5 s and retries "
                "UNAVAILABLE, 3 tries",
                "With weir the reply says: do not retry.");
  results_print(results, file, "breaker", "BREAKER  100 calls while B fails with one code",
                "Only UNAVAILABLE, DEADLINE_EXCEEDED and ABORTED can trip it.");
}

int main(int argc, char **argv) {
  bool as_json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !as_json) {
    fprintf(stderr, "usage: %s [--json]\n", argv[0]);
    return EXIT_USAGE;
  }
  struct results results;
  results_init(&results);
  grpc_init();
  table_translation(&results);
  table_messages(&results);
  table_amplification(&results);
  table_deadline(&results);
  table_breaker(&results);
  grpc_shutdown_blocking();

  if (as_json) {
    results_print_json(&results, stdout);
  } else {
    print_tables(&results, stdout);
  }
  unsigned n_wrong = results.n_wrong;
  fprintf(stderr, "demo: %u rows, %u not as expected\n", results.n_rows, n_wrong);
  results_fini(&results);
  return n_wrong == 0 ? 0 : EXIT_WRONG;
}
