/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/decimal.h"

static void assert_written(uint64_t number) {
  char expected[32];
  char out[WEIR__DECIMAL_BYTES];
  int expected_size = snprintf(expected, sizeof expected, "%llu", (unsigned long long)number);
  size_t size = weir__decimal_write(number, out);
  assert_int_equal(size, expected_size);
  assert_memory_equal(out, expected, size);
  uint64_t read = 0;
  assert_true(weir__decimal_read(out, size, &read));
  assert_true(read == number);
}

static void numbers_of_all_lengths_are_written_as_they_are_read(void **state) {
  (void)state;
  assert_written(0);
  assert_written(UINT64_MAX);
  for (uint64_t power = 1;; power *= 10) {
    assert_written(power - 1);
    assert_written(power);
    assert_written(power + power / 7);
    if (power > UINT64_MAX / 10) {
      return;
    }
  }
}

static void nothing_but_digits_that_fit_are_read(void **state) {
  (void)state;
  static const char *const texts[] = {"", " 1", "1 ", "+1", "-1", "1x", "18446744073709551616"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    uint64_t number = 0;
    if (weir__decimal_read(texts[i], strlen(texts[i]), &number)) {
      fail_msg("\"%s\"", texts[i]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_of_all_lengths_are_written_as_they_are_read),
      cmocka_unit_test(nothing_but_digits_that_fit_are_read),
  };
  return cmocka_run_group_tests_name("decimal", tests, NULL, NULL);
}
