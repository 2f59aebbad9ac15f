/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/stack/trailers.h"

/* A sanitizer finds what it looks for in fewer, which take it as long. */
#if defined(__SANITIZE_ADDRESS__)
#define SHARE 4
#else
#define SHARE 1
#endif

#define CALLS (20000 / SHARE)

/* Those in which each allocation fails. */
#define CALLS_WITHOUT_MEMORY (1000 / SHARE)

static void whatever_a_peer_ends_a_call_with_is_translated(void **state) {
  (void)state;
  struct trailers_tally tally;
  memset(&tally, 0, sizeof tally);
  for (uint64_t seed = 0; seed < CALLS; seed++) {
    uint8_t bytes[TRAILERS_MAX_BYTES];
    const size_t size = trailers_of_seed(seed, bytes);
    trailers_run(bytes, size, &tally);
  }
  /* They are worth something only if all of this is in them. */
  assert_true(tally.n_calls > CALLS / 2);
  assert_true(tally.n_streams > CALLS / 4);
  assert_true(tally.n_failures > CALLS / 4);
  assert_true(tally.n_retried > CALLS / 40);
  assert_true(tally.n_odd_statuses > CALLS / 20);
  assert_true(tally.n_kept_details > CALLS / 100);
  assert_true(tally.n_dropped_details > CALLS / 40);
  assert_true(tally.n_kept_metadata > CALLS / 100);
  assert_true(tally.n_kept_early > CALLS / 100);
  assert_true(tally.n_dropped_early > CALLS / 20);
  assert_true(tally.n_refused_policies > CALLS / 20);
  assert_true(tally.n_out_of_memory > CALLS / 100);
}

/* Nothing of what the peer wrote is seen because there was no memory to take it out. */
static void memory_may_run_out_at_any_point(void **state) {
  (void)state;
  struct trailers_tally tally;
  memset(&tally, 0, sizeof tally);
  for (uint64_t seed = 0; seed < CALLS_WITHOUT_MEMORY; seed++) {
    uint8_t bytes[TRAILERS_MAX_BYTES];
    const size_t size = trailers_of_seed(seed, bytes);
    for (int for_good = 0; for_good <= 1; for_good++) {
      struct trailers_memory memory = {.fails_at = 1, .for_good = for_good != 0};
      while (trailers_run_with(bytes, size, &memory, &tally) > 0) {
        memory.fails_at++;
      }
    }
  }
  assert_true(tally.n_out_of_memory > CALLS_WITHOUT_MEMORY);
  assert_true(tally.n_failures > CALLS_WITHOUT_MEMORY / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_a_peer_ends_a_call_with_is_translated),
      cmocka_unit_test(memory_may_run_out_at_any_point),
  };
  return cmocka_run_group_tests_name("trailers", tests, NULL, NULL);
}
