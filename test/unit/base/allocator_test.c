/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/allocator.h"
#include "test/support/counting_allocator.h"

static void the_default_is_used_for_none(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);

  assert_non_null(weir__allocator_or_default(NULL));
  assert_ptr_equal(weir__allocator_or_default(&counting.base), &counting.base);
}

static void memory_comes_zeroed_and_is_given_back(void **state) {
  (void)state;
  static const unsigned char zeroes[64];
  struct counting_allocator counting;
  counting_allocator_init(&counting);

  void *memory = weir__zalloc(&counting.base, sizeof zeroes);

  assert_memory_equal(memory, zeroes, sizeof zeroes);
  assert_int_equal(counting.n_outstanding, 1);
  weir__free(&counting.base, memory);
  assert_int_equal(counting.n_outstanding, 0);
}

static void an_array_whose_size_overflows_is_refused(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);

  assert_null(weir__zalloc_array(&counting.base, SIZE_MAX / 2 + 1, 2));
  assert_int_equal(counting.n_outstanding, 0);

  void *memory = weir__zalloc_array(&counting.base, 3, 5);
  assert_non_null(memory);
  weir__free(&counting.base, memory);
}

static void a_copy_of_text_is_terminated(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);

  char *copy = weir__copy_text(&counting.base, "shop.Cart/Pay", 9);

  assert_string_equal(copy, "shop.Cart");
  assert_null(weir__copy_text(&counting.base, "x", SIZE_MAX));
  weir__free(&counting.base, copy);
  assert_int_equal(counting.n_outstanding, 0);
}

static void running_out_is_told_by_null(void **state) {
  (void)state;
  struct counting_allocator counting;
  counting_allocator_init(&counting);
  counting.n_allowed = 0;

  assert_null(weir__zalloc(&counting.base, 8));
  assert_null(weir__zalloc_array(&counting.base, 2, 8));
  assert_null(weir__copy_text(&counting.base, "x", 1));
  weir__free(&counting.base, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_default_is_used_for_none),
      cmocka_unit_test(memory_comes_zeroed_and_is_given_back),
      cmocka_unit_test(an_array_whose_size_overflows_is_refused),
      cmocka_unit_test(a_copy_of_text_is_terminated),
      cmocka_unit_test(running_out_is_told_by_null),
  };
  return cmocka_run_group_tests_name("allocator", tests, NULL, NULL);
}
