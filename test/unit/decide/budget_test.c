/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/budget.h>
#include <weir/clock.h>

#define MS(n) ((n)*WEIR_MS_NS)

static const struct {
  const char *why;
  int64_t deadline_at_ns;
  int64_t start_at_ns;
  int64_t min_attempt_ns;
  bool allowed;
} rows[] = {
    {"time to spare", MS(1000), MS(500), MS(1), true},
    {"a nanosecond to spare", MS(1000), MS(999) - 1, MS(1), true},
    {"it would end exactly with the call", MS(1000), MS(999), MS(1), false},
    {"it would end a nanosecond too late", MS(1000), MS(999) + 1, MS(1), false},
    {"it would start exactly at the end", MS(1000), MS(1000), 0, false},
    {"it needs no time and starts in time", MS(1000), MS(1000) - 1, 0, true},
    {"the deadline is past", MS(1000), MS(2000), 0, false},
    {"no deadline", WEIR_NO_DEADLINE, MS(1000), MS(1), true},
    {"no deadline, and a start that never comes", WEIR_NO_DEADLINE, WEIR_NO_DEADLINE, MS(1), true},
    {"no deadline, and an attempt without end", WEIR_NO_DEADLINE, 0, WEIR_NO_LIMIT_NS, true},
    {"a start that never comes", MS(1000), WEIR_NO_DEADLINE, MS(1), false},
    {"an attempt without end", MS(1000), MS(1), WEIR_NO_LIMIT_NS, false},
    {"the sum saturates and does not wrap", WEIR_NO_DEADLINE - 1, WEIR_NO_DEADLINE - 2, MS(1),
     false},
    {"the last instant that there is", WEIR_NO_DEADLINE - 1, WEIR_NO_DEADLINE - 3, 1, true},
    {"a clock below zero", MS(-1), MS(-3), MS(1), true},
    {"a clock that passes zero", MS(1), MS(-1), MS(2), false},
};

static void an_attempt_fits_if_it_ends_before_the_call_does(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (weir_budget_allows(rows[i].deadline_at_ns, rows[i].start_at_ns, rows[i].min_attempt_ns) !=
        rows[i].allowed) {
      fail_msg("%s", rows[i].why);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_attempt_fits_if_it_ends_before_the_call_does),
  };
  return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
