/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/outcome.h>
#include <weir/policy.h>

#include <cmocka.h>

#include "interceptors/translation/translation.h"

#define REFERENCE "0123456789ab"

static void the_message_says_weirs_words_only(void **state) {
  (void)state;
  static const struct {
    grpc_status_code visible;
    const char *reference;
    const char *message;
  } rows[] = {
      {GRPC_STATUS_INTERNAL, NULL, "downstream service error"},
      {GRPC_STATUS_INTERNAL, REFERENCE, "downstream service error [ref 0123456789ab]"},
      {GRPC_STATUS_UNAVAILABLE, NULL, "downstream service: UNAVAILABLE"},
      {GRPC_STATUS_NOT_FOUND, REFERENCE, "downstream service: NOT_FOUND [ref 0123456789ab]"},
      {(grpc_status_code)17, NULL, "downstream service: UNKNOWN"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char message[WEIR__TRANSLATION_MESSAGE_BYTES];
    size_t length = weir__translation_message(rows[i].visible, rows[i].reference, message);
    assert_string_equal(message, rows[i].message);
    assert_int_equal(length, strlen(rows[i].message));
  }
}

static void all_codes_but_one_are_told_by_their_names(void **state) {
  (void)state;
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    char message[WEIR__TRANSLATION_MESSAGE_BYTES];
    char expected[WEIR__TRANSLATION_MESSAGE_BYTES];
    (void)snprintf(expected, sizeof expected, "downstream service: %s",
                   weir_status_code_name((grpc_status_code)code));
    (void)weir__translation_message((grpc_status_code)code, NULL, message);
    assert_string_equal(message,
                        code == GRPC_STATUS_INTERNAL ? "downstream service error" : expected);
  }
}

/* On the heap, so that a byte too many is seen. */
static void every_message_fits_the_memory_that_is_asked_for(void **state) {
  (void)state;
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    char *message = malloc(WEIR__TRANSLATION_MESSAGE_BYTES);
    size_t length = weir__translation_message((grpc_status_code)code, REFERENCE, message);
    assert_true(length < WEIR__TRANSLATION_MESSAGE_BYTES);
    assert_int_equal(message[length - 1], ']');
    assert_int_equal(message[length], '\0');
    free(message);
  }
}

static void a_reference_is_twelve_hex_digits(void **state) {
  (void)state;
  char reference[WEIR_REFERENCE_LENGTH + 1];

  weir__reference_make(UINT64_C(0xffff0123456789ab), reference);
  assert_string_equal(reference, REFERENCE);
  weir__reference_make(0, reference);
  assert_string_equal(reference, "000000000000");
  weir__reference_make(UINT64_MAX, reference);
  assert_string_equal(reference, "ffffffffffff");
  for (uint64_t digit = 0; digit < 16; digit++) {
    char expected[WEIR_REFERENCE_LENGTH + 1];
    (void)snprintf(expected, sizeof expected, "%012" PRIx64, digit * UINT64_C(0x111111111111));
    weir__reference_make(digit * UINT64_C(0x1111111111111111), reference);
    assert_string_equal(reference, expected);
  }
}

static void only_listed_keys_pass(void **state) {
  (void)state;
  static const char *const keys[] = {"x-quota", "x-region"};
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;

  assert_false(weir__translation_keeps(&options, "x-quota", 7));

  options.keep_metadata = keys;
  options.n_keep_metadata = 2;
  assert_true(weir__translation_keeps(&options, "x-quota", 7));
  assert_true(weir__translation_keeps(&options, "x-region-and-more", 8));
  assert_false(weir__translation_keeps(&options, "x-quota-left", 12));
  assert_false(weir__translation_keeps(&options, "x-quot", 6));
  assert_false(weir__translation_keeps(&options, "", 0));
}

static enum weir_error check(const struct weir_translation_options *options,
                             const char *path_expected) {
  struct weir_diagnostic diagnostic = {.path = "", .message = ""};
  enum weir_error error = weir__translation_options_check(options, &diagnostic);
  assert_string_equal(diagnostic.path, path_expected);
  assert_int_equal(diagnostic.message[0] != '\0', error != WEIR_OK);
  assert_int_equal(weir__translation_options_check(options, NULL), error);
  return error;
}

static void the_defaults_and_any_failure_for_another_are_fine(void **state) {
  (void)state;
  static const char *const keys[] = {"x-quota", "a.b_c-9", "blob-bin"};
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
  assert_int_equal(check(&options, ""), WEIR_OK);

  options.codes[GRPC_STATUS_UNAUTHENTICATED] = GRPC_STATUS_UNAUTHENTICATED;
  options.codes[GRPC_STATUS_CANCELLED] = GRPC_STATUS_CANCELLED;
  options.deadline_exceeded_as = GRPC_STATUS_DEADLINE_EXCEEDED;
  options.keep_metadata = keys;
  options.n_keep_metadata = 3;
  assert_int_equal(check(&options, ""), WEIR_OK);
}

static void translations_from_and_to_ok_are_refused(void **state) {
  (void)state;
  struct weir_translation_options from = WEIR_TRANSLATION_OPTIONS_INIT;
  from.codes[GRPC_STATUS_OK] = GRPC_STATUS_INTERNAL;
  struct weir_translation_options ok_to_ok = WEIR_TRANSLATION_OPTIONS_INIT;
  ok_to_ok.codes[GRPC_STATUS_OK] = GRPC_STATUS_OK;
  struct weir_translation_options to = WEIR_TRANSLATION_OPTIONS_INIT;
  to.codes[GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_OK;
  struct weir_translation_options deadline = WEIR_TRANSLATION_OPTIONS_INIT;
  deadline.deadline_exceeded_as = GRPC_STATUS_OK;

  assert_int_equal(check(&from, "translation.codes[0]"), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(check(&ok_to_ok, "translation.codes[0]"), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(check(&to, "translation.codes[5]"), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(check(&deadline, "translation.deadlineExceededAs"), WEIR_ERROR_INVALID_ARGUMENT);
}

static void codes_out_of_range_are_refused(void **state) {
  (void)state;
  static const int8_t codes[] = {17, 127, -2, -128};
  for (size_t i = 0; i < sizeof codes; i++) {
    struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
    options.codes[GRPC_STATUS_UNAUTHENTICATED] = codes[i];
    assert_int_equal(check(&options, "translation.codes[16]"), WEIR_ERROR_INVALID_ARGUMENT);
    options = (struct weir_translation_options)WEIR_TRANSLATION_OPTIONS_INIT;
    options.deadline_exceeded_as = codes[i];
    assert_int_equal(check(&options, "translation.deadlineExceededAs"),
                     WEIR_ERROR_INVALID_ARGUMENT);
  }
}

static void keys_that_can_not_be_or_are_reserved_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    NULL,
                                    "X-Quota",
                                    "x quota",
                                    ":status",
                                    "x:y",
                                    "x-\xc3\xa4",
                                    "grpc-status-details-bin",
                                    "grpc-message"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const char *keys[] = {"x-fine", bad[i]};
    struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
    options.keep_metadata = keys;
    options.n_keep_metadata = 2;
    assert_int_equal(check(&options, "translation.keepMetadata[1]"), WEIR_ERROR_INVALID_ARGUMENT);
  }
  struct weir_translation_options missing = WEIR_TRANSLATION_OPTIONS_INIT;
  missing.n_keep_metadata = 1;
  assert_int_equal(check(&missing, "translation.keepMetadata[0]"), WEIR_ERROR_INVALID_ARGUMENT);
}

static void full_names_of_message_types_are_fine(void **state) {
  (void)state;
  static const char *const types[] = {"google.rpc.RetryInfo", "_.A", "a.b.c.D_9", "a.B", "a.B"};
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
  options.keep_details = types;
  options.n_keep_details = sizeof types / sizeof types[0];
  assert_int_equal(check(&options, ""), WEIR_OK);
}

static void what_names_no_message_type_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      NULL,   "",      ".",     "..",         "A",   ".a.B",  "a.B.",
      "a..B", "a.B C", "a/b.C", "a.\xc3\xa4", "a.*", "a-b.C", "type.googleapis.com/a.B"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    const char *types[] = {"a.B", bad[i]};
    struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
    options.keep_details = types;
    options.n_keep_details = 2;
    assert_int_equal(check(&options, "translation.keepDetails[1]"), WEIR_ERROR_INVALID_ARGUMENT);
  }
  struct weir_translation_options missing = WEIR_TRANSLATION_OPTIONS_INIT;
  missing.n_keep_details = 1;
  assert_int_equal(check(&missing, "translation.keepDetails[0]"), WEIR_ERROR_INVALID_ARGUMENT);
}

static void type_names_and_their_number_are_bounded(void **state) {
  (void)state;
  char name[WEIR__TRANSLATION_TYPE_NAME_BYTES + 2];
  const char *types[WEIR__TRANSLATION_MAX_KEEP_DETAILS + 1];
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
  memset(name, 'a', sizeof name);
  name[1] = '.';
  name[WEIR__TRANSLATION_TYPE_NAME_BYTES] = '\0';
  for (size_t i = 0; i <= WEIR__TRANSLATION_MAX_KEEP_DETAILS; i++) {
    types[i] = name;
  }
  options.keep_details = types;
  options.n_keep_details = WEIR__TRANSLATION_MAX_KEEP_DETAILS;
  assert_int_equal(check(&options, ""), WEIR_OK);

  options.n_keep_details++;
  assert_int_equal(check(&options, "translation.keepDetails"), WEIR_ERROR_INVALID_ARGUMENT);

  options.n_keep_details = 1;
  name[WEIR__TRANSLATION_TYPE_NAME_BYTES] = 'a';
  name[WEIR__TRANSLATION_TYPE_NAME_BYTES + 1] = '\0';
  assert_int_equal(check(&options, "translation.keepDetails[0]"), WEIR_ERROR_INVALID_ARGUMENT);
}

static void a_type_url_is_answered_with_the_name_in_it(void **state) {
  (void)state;
  static const char *const types[] = {"type.googleapis.com/google.rpc.RetryInfo"};
  struct weir_diagnostic diagnostic;
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
  options.keep_details = types;
  options.n_keep_details = 1;
  assert_int_equal(weir__translation_options_check(&options, &diagnostic),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_non_null(strstr(diagnostic.message, "write \"google.rpc.RetryInfo\""));
}

static void message_sizes_have_room_for_weirs_words_and_an_end(void **state) {
  (void)state;
  static const uint32_t good[] = {64, 65, 1024, 8192};
  static const uint32_t bad[] = {0, 1, 63, 8193, UINT32_MAX};
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
  assert_int_equal(options.max_message_bytes, 1024);
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    options.max_message_bytes = good[i];
    assert_int_equal(check(&options, ""), WEIR_OK);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    options.max_message_bytes = bad[i];
    assert_int_equal(check(&options, "translation.maxMessageBytes"), WEIR_ERROR_INVALID_ARGUMENT);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_message_says_weirs_words_only),
      cmocka_unit_test(all_codes_but_one_are_told_by_their_names),
      cmocka_unit_test(every_message_fits_the_memory_that_is_asked_for),
      cmocka_unit_test(a_reference_is_twelve_hex_digits),
      cmocka_unit_test(only_listed_keys_pass),
      cmocka_unit_test(the_defaults_and_any_failure_for_another_are_fine),
      cmocka_unit_test(translations_from_and_to_ok_are_refused),
      cmocka_unit_test(codes_out_of_range_are_refused),
      cmocka_unit_test(keys_that_can_not_be_or_are_reserved_are_refused),
      cmocka_unit_test(full_names_of_message_types_are_fine),
      cmocka_unit_test(what_names_no_message_type_is_refused),
      cmocka_unit_test(type_names_and_their_number_are_bounded),
      cmocka_unit_test(a_type_url_is_answered_with_the_name_in_it),
      cmocka_unit_test(message_sizes_have_room_for_weirs_words_and_an_end),
  };
  return cmocka_run_group_tests_name("scrubbing", tests, NULL, NULL);
}
