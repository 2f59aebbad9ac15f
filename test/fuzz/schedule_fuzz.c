/* The engine, under any schedule: see test/stack/schedule.h. What has happened is printed before it
 * aborts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "test/fuzz/fuzz_target.h"
#include "test/stack/schedule.h"
#include "test/stack/schedule_trace.h"

static struct sigaction before;

/* A schedule aborts by itself, never inside the C library, so anything may be called. */
static void on_abort(int number, siginfo_t *info, void *context) {
  schedule_trace_print(stderr);
  (void)sigaction(number, &before, NULL);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context); /* libFuzzer's, which keeps the input */
  }
}

/* Called by AddressSanitizer, where there is one. */
void __asan_on_error(void);
void __asan_on_error(void) {
  schedule_trace_print(stderr);
}

static void prepare(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_abort;
  action.sa_flags = SA_SIGINFO;
  (void)sigaction(SIGABRT, &action, &before);
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  (void)setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failed assertion aborts, outside a test */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static bool prepared;
  static struct schedule_tally tally;
  if (!prepared) {
    prepare();
    prepared = true;
  }
  schedule_run(data, size, &tally);
  return 0;
}
