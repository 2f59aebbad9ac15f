/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/stack/schedule.h"
#include "test/stack/schedule_trace.h"

#define SCHEDULES 20000

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
  assert_true(tally.n_messages > SCHEDULES / 2);
  assert_true(tally.n_refused > SCHEDULES / 100);
  assert_true(tally.n_ended_in_backoff > SCHEDULES / 100);
  assert_true(tally.n_out_of_memory > SCHEDULES / 100);
  assert_true(tally.n_asked > SCHEDULES / 20);
  assert_true(tally.n_stood_in > SCHEDULES / 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(every_schedule_keeps_the_engines_promises, print_trace),
  };
  return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
