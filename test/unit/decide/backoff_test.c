/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/backoff.h>
#include <weir/clock.h>

#define MS(n) ((n)*WEIR_MS_NS)
#define ALMOST_ONE 0x1.fffffffffffffp-1 /* the largest that a unit of chance can be */
#define LONGEST_NS INT64_MAX            /* 315576000000 s saturate */

struct row {
  const char *why;
  int64_t initial_ns;
  int64_t max_ns;
  double multiplier;
  uint32_t nth;
  double unit;
  int64_t low_ns;
  int64_t high_ns;
};

static const struct row rows[] = {
    {"the first has jitter, down", MS(100), MS(1000), 2.0, 1, 0.0, MS(80), MS(80)},
    {"the first has jitter, none", MS(100), MS(1000), 2.0, 1, 0.5, MS(100), MS(100)},
    {"the first has jitter, up", MS(100), MS(1000), 2.0, 1, ALMOST_ONE, MS(120) - 1, MS(120)},
    {"the second doubles", MS(100), MS(1000), 2.0, 2, 0.5, MS(200), MS(200)},
    {"the second, down", MS(100), MS(1000), 2.0, 2, 0.0, MS(160), MS(160)},
    {"the second, up", MS(100), MS(1000), 2.0, 2, ALMOST_ONE, MS(240) - 1, MS(240)},
    {"the fourth", MS(100), MS(1000), 2.0, 4, 0.5, MS(800), MS(800)},
    {"the fifth meets the cap", MS(100), MS(1000), 2.0, 5, 0.5, MS(1000), MS(1000)},
    {"jitter may pass the cap", MS(100), MS(1000), 2.0, 5, ALMOST_ONE, MS(1200) - 1, MS(1200)},
    {"the cap, down", MS(100), MS(1000), 2.0, 5, 0.0, MS(800), MS(800)},
    {"a multiplier below 1 shrinks", MS(100), MS(1000), 0.5, 3, 0.5, MS(25), MS(25)},
    {"and ends at a nanosecond", MS(100), MS(1000), 0.5, 200, 0.5, 1, 1},
    {"a multiplier of 1 stays", MS(100), MS(1000), 1.0, 4000000000u, 0.5, MS(100), MS(100)},
    {"a huge multiplier", MS(100), MS(1000), 1e308, 2, 0.5, MS(1000), MS(1000)},
    {"a huge multiplier overflows to the cap", MS(100), MS(1000), 1e308, 5, 0.5, MS(1000),
     MS(1000)},
    {"a tiny multiplier underflows to a nanosecond", MS(100), MS(1000), 1e-308, 5, 0.5, 1, 1},
    {"the first is not capped", MS(1000), MS(100), 2.0, 1, 0.5, MS(1000), MS(1000)},
    {"later ones are", MS(1000), MS(100), 2.0, 2, 0.5, MS(100), MS(100)},
    {"one nanosecond stays one", 1, 1, 1.0, 1, 0.0, 1, 1},
    {"the longest saturates", LONGEST_NS, LONGEST_NS, 2.0, 1, 0.5, INT64_MAX, INT64_MAX},
    {"the longest with jitter up", LONGEST_NS, LONGEST_NS, 2.0, 5, ALMOST_ONE, INT64_MAX,
     INT64_MAX},
    {"the longest with jitter down", LONGEST_NS, LONGEST_NS, 2.0, 2, 0.0,
     INT64_C(7378697629483820000), INT64_C(7378697629483821056)},
};

static void the_delay_grows_to_the_cap_with_twenty_percent_of_jitter(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *row = &rows[i];
    const struct weir_retry_policy policy = {.max_attempts = 5,
                                             .retryable_codes = 0,
                                             .initial_backoff_ns = row->initial_ns,
                                             .max_backoff_ns = row->max_ns,
                                             .backoff_multiplier = row->multiplier};
    int64_t delay_ns = weir_backoff_delay_ns(&policy, row->nth, row->unit);
    if (delay_ns < row->low_ns || delay_ns > row->high_ns) {
      fail_msg("%s: %lld ns", row->why, (long long)delay_ns);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_delay_grows_to_the_cap_with_twenty_percent_of_jitter),
  };
  return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
