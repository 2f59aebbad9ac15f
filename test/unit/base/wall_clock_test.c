/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "src/time/clock.h"

#define SECOND_NS INT64_C(1000000000)
#define HOUR_NS (3600 * SECOND_NS)

/* The system's clocks, in the place of libc's. Others than these two are the kernel's. */
static struct {
  int64_t monotonic_ns;
  int64_t wall_ns;
  int64_t look_ns; /* how long a look takes */
  int n_wall_looks;
} fake;

static void look(int64_t ns, struct timespec *out) {
  out->tv_sec = ns / SECOND_NS;
  out->tv_nsec = ns % SECOND_NS;
  fake.monotonic_ns += fake.look_ns;
  fake.wall_ns += fake.look_ns;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
  if (clock == CLOCK_REALTIME) {
    fake.n_wall_looks++;
    look(fake.wall_ns, out);
    return 0;
  }
  if (clock == CLOCK_MONOTONIC) {
    look(fake.monotonic_ns, out);
    return 0;
  }
  return (int)syscall(SYS_clock_gettime, clock, out);
}

static void time_passes(int64_t ns) {
  fake.monotonic_ns += ns;
  fake.wall_ns += ns;
}

/* Later than whatever a test before has had kept. */
static int setup(void **state) {
  (void)state;
  time_passes(HOUR_NS);
  fake.wall_ns = fake.monotonic_ns + 400000 * HOUR_NS; /* some time this century */
  fake.look_ns = 0;
  return 0;
}

static void a_time_is_told_as_the_wall_clock_was_then(void **state) {
  (void)state;
  int64_t at_ns = fake.monotonic_ns;
  int64_t wall_ns = fake.wall_ns;
  time_passes(100);
  assert_int_equal(weir__wall_clock_at_ns(at_ns), wall_ns);
  assert_int_equal(weir__wall_clock_at_ns(at_ns), wall_ns);
  assert_int_equal(weir__wall_clock_at_ns(at_ns + 70), wall_ns + 70);
}

static void the_wall_clock_is_looked_at_once_in_a_while(void **state) {
  (void)state;
  int n_looks = fake.n_wall_looks; /* cmocka's among them */
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(weir__wall_clock_at_ns(fake.monotonic_ns), fake.wall_ns);
    time_passes(WEIR__WALL_STEP_SEEN_NS / 100);
  }
  assert_int_equal(fake.n_wall_looks - n_looks, 10);
}

static void a_step_is_seen(void **state) {
  (void)state;
  (void)weir__wall_clock_at_ns(fake.monotonic_ns);
  fake.wall_ns -= HOUR_NS;
  time_passes(WEIR__WALL_STEP_SEEN_NS);
  assert_int_equal(weir__wall_clock_at_ns(fake.monotonic_ns), fake.wall_ns);
}

/* What was seen then is told, since it is the best there is, and not kept. */
static void an_interrupted_look_is_not_kept(void **state) {
  (void)state;
  int n_looks = fake.n_wall_looks;
  fake.look_ns = SECOND_NS;
  (void)weir__wall_clock_at_ns(fake.monotonic_ns);
  fake.look_ns = 0;
  assert_int_equal(weir__wall_clock_at_ns(fake.monotonic_ns), fake.wall_ns);
  assert_int_equal(fake.n_wall_looks - n_looks, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_time_is_told_as_the_wall_clock_was_then, setup),
      cmocka_unit_test_setup(the_wall_clock_is_looked_at_once_in_a_while, setup),
      cmocka_unit_test_setup(a_step_is_seen, setup),
      cmocka_unit_test_setup(an_interrupted_look_is_not_kept, setup),
  };
  return cmocka_run_group_tests_name("wall_clock", tests, NULL, NULL);
}
