/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/policy/json_number.h"

static const struct {
  const char *text;
  uint64_t scaled;
  uint32_t places;
  bool exact;
} scales[] = {
    {"0", 0, 3, true},
    {"1", 1, 0, true},
    {"3.0", 3, 0, true},
    {"3e0", 3, 0, true},
    {"30e-1", 3, 0, true},
    {"0.3E+1", 3, 0, true},
    {"2.5", 2, 0, false},
    {"1", 1000, 3, true},
    {"1.0", 1000, 3, true},
    {"0.001", 1, 3, true},
    {"0.29", 290, 3, true},
    {"0.57", 570, 3, true},
    {"1.005", 1005, 3, true},
    {"0.5466", 546, 3, false},
    {"0.0004", 0, 3, false},
    {"0.0009999999999999999999999999", 0, 3, false},
    {"5e-1", 500, 3, true},
    {"0.0005e3", 500, 3, true},
    {"-7", 7, 0, true},
    {"-0", 0, 0, true},
    {"0e999999999999", 0, 0, true},
    {"0.0e-999999999999", 0, 3, true},
    {"1e-999999999999", 0, 3, false},
    {"1e999999999999", UINT64_MAX, 0, true},
    {"18446744073709551615", UINT64_MAX, 0, true},
    {"18446744073709551616", UINT64_MAX, 0, true},
    {"18446744073709551614", UINT64_MAX - 1, 0, true},
    {"1844674407370955161.4", UINT64_MAX - 1, 1, true},
    {"20000000000000000000", UINT64_MAX, 0, true},
    {"1e19", UINT64_C(10000000000000000000), 0, true},
    {"2e19", UINT64_MAX, 0, true},
};

static void a_number_is_scaled_without_a_detour_through_binary(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
    struct weir__json_number number;
    uint64_t scaled = 0;
    assert_true(weir__json_number_parse(scales[i].text, strlen(scales[i].text), &number));
    const bool exact = weir__json_number_scale(&number, scales[i].places, &scaled);
    if (scaled != scales[i].scaled || exact != scales[i].exact) {
      fail_msg("%s is %llu", scales[i].text, (unsigned long long)scaled);
    }
  }
}

static void what_is_no_number_of_json_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"",    "-",   "01",   "-01",  "+1",    "1.",    ".5", "-.5",
                                    "1e",  "1e+", "1.e1", "0x10", "1_0",   "1 ",    " 1", "1,5",
                                    "NaN", "inf", "--1",  "1-",   "1.2.3", "1e1.5", "00"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct weir__json_number number;
    if (weir__json_number_parse(bad[i], strlen(bad[i]), &number)) {
      fail_msg("\"%s\" is accepted", bad[i]);
    }
  }
}

static void doubles_are_the_nearest(void **state) {
  (void)state;
  static const char *const texts[] = {"0.1",          "1.3",
                                      "-2.5e-3",      "123456789012345678901234567890",
                                      "0.000001e-10", "1.7976931348623157e308",
                                      "4.9e-324",     "9007199254740993",
                                      "100",          "1e22"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct weir__json_number number;
    assert_true(weir__json_number_parse(texts[i], strlen(texts[i]), &number));
    const double expected = strtod(texts[i], NULL);
    const double value = weir__json_number_to_double(&number);
    assert_memory_equal(&value, &expected, sizeof value);
  }
}

static double parsed(const char *text) {
  struct weir__json_number number;
  assert_true(weir__json_number_parse(text, strlen(text), &number));
  return weir__json_number_to_double(&number);
}

static void too_large_is_infinite_and_too_small_is_zero(void **state) {
  (void)state;
  assert_true(isinf(parsed("1e400")));
  assert_true(isinf(parsed("-1e400")) && parsed("-1e400") < 0);
  assert_true(isinf(parsed("1e99999999999999999999")));
  assert_false(parsed("1e-400") > 0);
  assert_false(parsed("0e400") > 0);
}

/* The environment's locales need not have a decimal comma; those that are there are tried. */
static void no_locale_has_a_say(void **state) {
  (void)state;
  static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8",
                                        "ps_AF"};
  for (size_t i = 0; i < sizeof locales / sizeof locales[0]; i++) {
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    if (setlocale(LC_ALL, locales[i]) != NULL) {
      assert_true(parsed("1.5") >= 1.5 && parsed("1.5") <= 1.5);
    }
  }
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): as above */
  (void)setlocale(LC_ALL, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_number_is_scaled_without_a_detour_through_binary),
      cmocka_unit_test(what_is_no_number_of_json_is_refused),
      cmocka_unit_test(doubles_are_the_nearest),
      cmocka_unit_test(too_large_is_infinite_and_too_small_is_zero),
      cmocka_unit_test(no_locale_has_a_say),
  };
  return cmocka_run_group_tests_name("json_number", tests, NULL, NULL);
}
