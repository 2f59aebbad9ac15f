/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weir/clock.h>

#include <cmocka.h>

#include "src/base/options.h"

/* What a program built with an older header has, what the library knows, and what a newer one
 * has. */
struct old_options {
  size_t size;
  int32_t first;
};

struct known_options {
  size_t size;
  int32_t first;
  int32_t second;
};

struct new_options {
  size_t size;
  int32_t first;
  int32_t second;
  int32_t third;
};

static const struct known_options defaults = {sizeof defaults, 10, 20};

static void takes_the_fields_of_the_same_version(void **state) {
  (void)state;
  struct known_options known = defaults;
  const struct known_options given = {sizeof given, 1, 2};

  assert_int_equal(weir__options_copy(&known, sizeof known, &given), WEIR_OK);

  assert_int_equal(known.first, 1);
  assert_int_equal(known.second, 2);
  assert_int_equal(known.size, sizeof known);
}

static void keeps_the_defaults_that_an_older_program_does_not_know(void **state) {
  (void)state;
  struct known_options known = defaults;
  const struct old_options given = {sizeof(size_t) + sizeof(int32_t), 1};

  assert_int_equal(weir__options_copy(&known, sizeof known, &given), WEIR_OK);

  assert_int_equal(known.first, 1);
  assert_int_equal(known.second, 20);
  assert_int_equal(known.size, sizeof known);
}

static void takes_a_newer_program_that_asks_for_nothing_new(void **state) {
  (void)state;
  struct known_options known = defaults;
  struct new_options given;
  memset(&given, 0, sizeof given);
  given.size = sizeof given;
  given.first = 1;
  given.second = 2;

  assert_int_equal(weir__options_copy(&known, sizeof known, &given), WEIR_OK);

  assert_int_equal(known.second, 2);
  assert_int_equal(known.size, sizeof known);
}

static void refuses_a_newer_program_that_asks_for_something_new(void **state) {
  (void)state;
  struct known_options known = defaults;
  struct new_options given;
  memset(&given, 0, sizeof given);
  given.size = sizeof given;
  given.first = 1;
  given.third = 3;

  assert_int_equal(weir__options_copy(&known, sizeof known, &given), WEIR_ERROR_UNSUPPORTED);

  assert_int_equal(known.first, 10);
}

static void refuses_a_size_that_does_not_hold_itself(void **state) {
  (void)state;
  struct known_options known = defaults;
  const struct known_options given = {sizeof(size_t) - 1, 1, 2};

  assert_int_equal(weir__options_copy(&known, sizeof known, &given), WEIR_ERROR_INVALID_ARGUMENT);

  assert_int_equal(known.first, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_the_fields_of_the_same_version),
      cmocka_unit_test(keeps_the_defaults_that_an_older_program_does_not_know),
      cmocka_unit_test(takes_a_newer_program_that_asks_for_nothing_new),
      cmocka_unit_test(refuses_a_newer_program_that_asks_for_something_new),
      cmocka_unit_test(refuses_a_size_that_does_not_hold_itself),
  };
  return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
