/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/stack/served.h"

/* A sanitizer finds what it looks for in fewer, which take it as long. */
#if defined(__SANITIZE_ADDRESS__)
#define SHARE 4
#else
#define SHARE 1
#endif

#define REQUESTS (5000 / SHARE)

/* Those in which each allocation fails. */
#define REQUESTS_WITHOUT_MEMORY (200 / SHARE)

static void whatever_a_request_says_binds_the_calls_made_for_it_and_no_more(void **state) {
  (void)state;
  struct served_tally tally;
  memset(&tally, 0, sizeof tally);
  for (uint64_t seed = 0; seed < REQUESTS; seed++) {
    uint8_t bytes[SERVED_MAX_BYTES];
    const size_t size = served_of_seed(seed, bytes);
    served_run(bytes, size, &tally);
  }
  /* They are worth something only if all of this is in them. */
  assert_true(tally.n_refused_keys > REQUESTS / 50);
  assert_true(tally.n_past > REQUESTS / 50);
  assert_true(tally.n_bound_by_parent > REQUESTS / 20);
  assert_true(tally.n_marked > REQUESTS / 4);
  assert_true(tally.n_retried > REQUESTS / 40);
  assert_true(tally.n_traces > REQUESTS / 4);
  assert_true(tally.n_overridden > REQUESTS / 100);
}

static void memory_may_run_out_at_any_point(void **state) {
  (void)state;
  struct served_tally tally;
  memset(&tally, 0, sizeof tally);
  for (uint64_t seed = 0; seed < REQUESTS_WITHOUT_MEMORY; seed++) {
    uint8_t bytes[SERVED_MAX_BYTES];
    const size_t size = served_of_seed(seed, bytes);
    for (int for_good = 0; for_good <= 1; for_good++) {
      struct served_memory memory = {.fails_at = 1, .for_good = for_good != 0};
      while (served_run_with(bytes, size, &memory, &tally) > 0) {
        memory.fails_at++;
      }
    }
  }
  assert_true(tally.n_out_of_memory > REQUESTS_WITHOUT_MEMORY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_a_request_says_binds_the_calls_made_for_it_and_no_more),
      cmocka_unit_test(memory_may_run_out_at_any_point),
  };
  return cmocka_run_group_tests_name("served", tests, NULL, NULL);
}
