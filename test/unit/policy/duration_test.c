/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/clock.h>

#include "src/policy/duration.h"

static const struct {
  const char *why;
  const char *text;
  int64_t ns;
} good[] = {
    {"whole seconds", "3s", INT64_C(3000000000)},
    {"zero", "0s", 0},
    {"zero with decimals", "0.000s", 0},
    {"zero with a sign", "-0s", 0},
    {"tenths are not counted as nanoseconds", "1.2s", INT64_C(1200000000)},
    {"a zero inside the fraction", "1.05s", INT64_C(1050000000)},
    {"zeros behind", "3.000s", INT64_C(3000000000)},
    {"the shortest", "0.000000001s", 1},
    {"nine digits", "1.123456789s", INT64_C(1123456789)},
    {"leading zeros", "007s", INT64_C(7000000000)},
    {"negative", "-1.5s", INT64_C(-1500000000)},
    {"the last that nanoseconds can say", "9223372036.854775806s", INT64_MAX - 1},
    {"no limit", "9223372036.854775807s", WEIR_NO_LIMIT_NS},
    {"beyond nanoseconds", "9223372036.854775808s", WEIR_NO_LIMIT_NS},
    {"the longest", "315576000000s", WEIR_NO_LIMIT_NS},
    {"the longest, negative", "-315576000000s", -WEIR_NO_LIMIT_NS},
};

static const char *const bad[] = {
    "",
    "s",
    "1",
    "1m",
    "500ms",
    "1e3s",
    " 1s",
    "1s ",
    "1 s",
    "1.-5s",
    "1.+5s",
    "1.s",
    ".5s",
    "+1s",
    "--1s",
    "-s",
    "-.5s",
    "1S",
    "1.5.5s",
    "0.0000000001s",
    "0x1s",
    "1,5s",
    "infs",
    "nans",
    "315576000001s",
    "-315576000001s",
    "315576000000.000000001s",
    "99999999999999999999999s",
    "1ss",
    "1s1s",
};

static const struct {
  const char *text;
  const char *meant; /* NULL: can't be told */
} suggestions[] = {
    {".01s", "0.01s"},
    {".5", "0.5s"},
    {"500ms", "0.5s"},
    {"1m", "60s"},
    {"1.5h", "5400s"},
    {"2 min", "120s"},
    {"1d", "86400s"},
    {"100us", "0.0001s"},
    {"3ns", "0.000000003s"},
    {"5", "5s"},
    {" 1s ", "1s"},
    {"2S", "2s"},
    {"7 seconds", "7s"},
    {"10\xc2\xb5s", "0.00001s"},
    {"", NULL},
    {"1h30m", NULL},
    {"soon", NULL},
    {"1e3s", NULL},
    {"1.-5s", NULL},
    {"0.5ns", NULL},
    {"-1s", NULL},
    {"999999999999999999999d", NULL},
};

static void what_proto3_writes_is_read_to_the_nanosecond(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    struct weir__duration duration;
    if (!weir__duration_parse(good[i].text, strlen(good[i].text), &duration)) {
      fail_msg("%s: %s is refused", good[i].why, good[i].text);
    }
    if (weir__duration_to_ns(&duration) != good[i].ns) {
      fail_msg("%s: %s is %lld ns", good[i].why, good[i].text,
               (long long)weir__duration_to_ns(&duration));
    }
  }
}

static void anything_else_is_no_duration(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct weir__duration duration;
    if (weir__duration_parse(bad[i], strlen(bad[i]), &duration)) {
      fail_msg("\"%s\" is accepted", bad[i]);
    }
  }
}

static void a_duration_ends_where_its_size_says(void **state) {
  (void)state;
  struct weir__duration duration;
  assert_true(weir__duration_parse("1.5sabc", 4, &duration));
  assert_false(weir__duration_parse("1.5s", 3, &duration));
  assert_false(weir__duration_parse("1s\0", 3, &duration));
}

static void what_was_meant_is_suggested(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof suggestions / sizeof suggestions[0]; i++) {
    char meant[WEIR__DURATION_TEXT_SIZE] = "";
    const char *text = suggestions[i].text;
    const bool told = weir__duration_suggest(text, strlen(text), meant);
    if (told != (suggestions[i].meant != NULL) ||
        (told && strcmp(meant, suggestions[i].meant) != 0)) {
      fail_msg("\"%s\" is taken for \"%s\"", text, meant);
    }
  }
}

static void a_suggestion_is_itself_a_duration(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof suggestions / sizeof suggestions[0]; i++) {
    struct weir__duration duration;
    if (suggestions[i].meant != NULL) {
      assert_true(
          weir__duration_parse(suggestions[i].meant, strlen(suggestions[i].meant), &duration));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_proto3_writes_is_read_to_the_nanosecond),
      cmocka_unit_test(anything_else_is_no_duration),
      cmocka_unit_test(a_duration_ends_where_its_size_says),
      cmocka_unit_test(what_was_meant_is_suggested),
      cmocka_unit_test(a_suggestion_is_itself_a_duration),
  };
  return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
