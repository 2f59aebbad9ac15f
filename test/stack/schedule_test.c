/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/stack/schedule.h"
#include "test/stack/schedule_trace.h"

/* A sanitizer finds what it looks for in fewer, which take it as long. */
#if defined(__SANITIZE_ADDRESS__)
#define SHARE 4
#else
#define SHARE 1
#endif

#define SCHEDULES (20000 / SHARE)

/* Those in which each allocation fails. A schedule may let one fail by itself: so many are tried at
 * most. */
#define MOST_ALLOCATIONS 120
#define SCHEDULES_WITHOUT_MEMORY (600 / SHARE)

/* A failed one is printed, to be read. */
static int print_trace(void **state) {
  (void)state;
  schedule_trace_print(stderr);
  return 0;
}

static void every_schedule_keeps_the_engines_promises(void **state) {
  (void)state;
  struct schedule_tally tally;
  memset(&tally, 0, sizeof tally);
  for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
    uint8_t bytes[SCHEDULE_MAX_BYTES];
    size_t size = schedule_of_seed(seed, bytes);
    schedule_run(bytes, size, &tally);
  }
  /* They are worth something only if all of this is in them. */
  assert_true(tally.n_calls > SCHEDULES);
  assert_true(tally.n_streams > SCHEDULES / 10);
  assert_true(tally.n_attempts > SCHEDULES);
  assert_true(tally.n_retried > SCHEDULES / 10);
  assert_true(tally.n_streams_retried > SCHEDULES / 20);
  assert_true(tally.n_cut_off > SCHEDULES / 50);
  assert_true(tally.n_cut_off_retried > SCHEDULES / 100);
  assert_true(tally.n_expired > SCHEDULES / 50);
  assert_true(tally.n_expired_retried > SCHEDULES / 500);
  assert_true(tally.n_messages > SCHEDULES / 2);
  assert_true(tally.n_refused > SCHEDULES / 100);
  assert_true(tally.n_ended_in_backoff > SCHEDULES / 100);
  assert_true(tally.n_out_of_memory > SCHEDULES / 100);
  assert_true(tally.n_asked > SCHEDULES / 20);
  assert_true(tally.n_stood_in > SCHEDULES / 50);
}

/* Says how many allocations the schedule makes, and that it can make without a fault of its own. */
static size_t run_out_at_each(const uint8_t *bytes, size_t size, bool for_good,
                              struct schedule_tally *tally) {
  struct schedule_memory memory = {.fails_at = 1, .for_good = for_good};
  while (schedule_run_with(bytes, size, &memory, tally) > 0 && memory.fails_at < MOST_ALLOCATIONS) {
    memory.fails_at++;
  }
  return memory.fails_at - 1;
}

static void memory_may_run_out_at_any_point(void **state) {
  (void)state;
  struct schedule_tally tally;
  memset(&tally, 0, sizeof tally);
  size_t n_points = 0;
  for (uint64_t seed = 0; seed < SCHEDULES_WITHOUT_MEMORY; seed++) {
    uint8_t bytes[SCHEDULE_MAX_BYTES];
    const size_t size = schedule_of_seed(seed, bytes);
    n_points += run_out_at_each(bytes, size, false, &tally);
    n_points += run_out_at_each(bytes, size, true, &tally);
  }
  assert_true(n_points > (size_t)SCHEDULES_WITHOUT_MEMORY * 10);
  assert_true(tally.n_streams_retried > SCHEDULES_WITHOUT_MEMORY);
  assert_true(tally.n_stood_in > SCHEDULES_WITHOUT_MEMORY / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(every_schedule_keeps_the_engines_promises, print_trace),
      cmocka_unit_test_teardown(memory_may_run_out_at_any_point, print_trace),
  };
  return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
