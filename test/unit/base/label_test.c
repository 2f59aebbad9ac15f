/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/base/label.h"

#define SIXTY_THREE "0123456789abcdefghijklmnopqrstuvwxyz.-_ABCDEFGHIJKLMNOPQRSTUVWX"

static const struct {
  const char *why;
  const char *label;
  bool is_legal;
} rows[] = {
    {"one letter", "a", true},
    {"all kinds of bytes", "Front-door_2.a", true},
    {"63 of them", SIXTY_THREE, true},
    {"64 of them", SIXTY_THREE "Y", false},
    {"none", "", false},
    {"a blank", "a b", false},
    {"a line end", "a\n", false},
    {"a quote", "a\"", false},
    {"a letter of another alphabet", "\xc3\xa4", false},
    {"a slash", "a/b", false},
};

static void a_label_has_1_to_63_bytes_that_need_no_quoting(void **state) {
  (void)state;
  assert_int_equal(sizeof SIXTY_THREE - 1, WEIR__LABEL_MAX);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (weir__label_is_legal(rows[i].label) != rows[i].is_legal) {
      fail_msg("%s", rows[i].why);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_label_has_1_to_63_bytes_that_need_no_quoting),
  };
  return cmocka_run_group_tests_name("label", tests, NULL, NULL);
}
