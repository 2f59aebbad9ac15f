/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weir/error.h>

#include <cmocka.h>

static void every_error_has_a_name_and_a_text(void **state) {
  (void)state;
  static const struct {
    enum weir_error error;
    const char *name;
  } rows[] = {
      {WEIR_OK, "OK"},
      {WEIR_ERROR_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
      {WEIR_ERROR_INVALID_POLICY, "INVALID_POLICY"},
      {WEIR_ERROR_NO_MEMORY, "NO_MEMORY"},
      {WEIR_ERROR_UNSUPPORTED, "UNSUPPORTED"},
      {WEIR_ERROR_UNAVAILABLE, "UNAVAILABLE"},
      {(enum weir_error)99, "UNKNOWN"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_string_equal(weir_error_name(rows[i].error), rows[i].name);
    assert_true(strlen(weir_error_string(rows[i].error)) > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_error_has_a_name_and_a_text),
  };
  return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
