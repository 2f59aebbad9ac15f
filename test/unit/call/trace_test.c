/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "src/call/inbound.h"
#include "src/call/trace.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
#define MAX_METADATA 40

static int setup(void **state) {
  (void)state;
  grpc_init();
  return 0;
}

static int teardown(void **state) {
  (void)state;
  grpc_shutdown();
  return 0;
}

/* --- which keys --- */

static const struct {
  const char *why;
  const char *keys[WEIR__TRACE_KEYS + 1];
  size_t n_keys;
  enum weir_error error;
} key_rows[] = {
    {"none", {NULL}, 0, WEIR_OK},
    {"usual ones", {"traceparent", "tracestate", "x-request-id", "b3"}, 4, WEIR_OK},
    {"a binary one", {"trace-bin"}, 1, WEIR_OK},
    {"as many as there may be", {"a", "b", "c", "d", "e", "f", "g", "h"}, 8, WEIR_OK},
    {"one more", {"a", "b", "c", "d", "e", "f", "g", "h", "i"}, 9, WEIR_ERROR_INVALID_ARGUMENT},
    {"NULL", {"a", NULL}, 2, WEIR_ERROR_INVALID_ARGUMENT},
    {"an empty one", {""}, 1, WEIR_ERROR_INVALID_ARGUMENT},
    {"capitals", {"TraceParent"}, 1, WEIR_ERROR_INVALID_ARGUMENT},
    {"a space", {"trace parent"}, 1, WEIR_ERROR_INVALID_ARGUMENT},
    {"HTTP/2's own", {":path"}, 1, WEIR_ERROR_INVALID_ARGUMENT},
    {"gRPC's own", {"grpc-timeout"}, 1, WEIR_ERROR_INVALID_ARGUMENT},
    {"gRPC's own, binary", {"a", "grpc-trace-bin"}, 2, WEIR_ERROR_INVALID_ARGUMENT},
    {"weir's own", {"weir-budget-us"}, 1, WEIR_ERROR_INVALID_ARGUMENT},
    {"so is what weir may say one day", {"weir-x"}, 1, WEIR_ERROR_INVALID_ARGUMENT},
    {"not so what only begins alike", {"weird", "grpcs"}, 2, WEIR_OK},
};

static void keys_that_are_not_to_be_passed_on_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof key_rows / sizeof key_rows[0]; i++) {
    struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
    options.trace_keys = key_rows[i].keys;
    options.n_trace_keys = key_rows[i].n_keys;
    weir_inbound *inbound = (weir_inbound *)&options;
    if (weir_inbound_new(NULL, NULL, NULL, &options, &inbound) != key_rows[i].error) {
      fail_msg("%s", key_rows[i].why);
    }
    assert_int_equal(inbound == NULL, key_rows[i].error != WEIR_OK);
    weir_inbound_release(inbound);
  }
}

static void options_of_a_newer_program_are_told_from_this_librarys(void **state) {
  (void)state;
  struct {
    struct weir_inbound_options known;
    size_t unknown;
  } newer = {.known = WEIR_INBOUND_OPTIONS_INIT, .unknown = 0};
  newer.known.size = sizeof newer;
  weir_inbound *inbound = NULL;
  assert_int_equal(weir_inbound_new(NULL, NULL, NULL, &newer.known, &inbound), WEIR_OK);
  weir_inbound_release(inbound);
  newer.unknown = 1;
  assert_int_equal(weir_inbound_new(NULL, NULL, NULL, &newer.known, &inbound),
                   WEIR_ERROR_UNSUPPORTED);
  assert_null(inbound);
}

/* --- which values --- */

struct header {
  const char *key;
  const char *value;
  size_t size; /* of a value that holds a NUL; 0 = it ends at the first */
};

/* An inbound of headers up to one without a key, which are gone when it is there. */
static weir_inbound *inbound_of(const struct header *headers, const char *const *keys,
                                size_t n_keys) {
  grpc_metadata metadata[MAX_METADATA];
  grpc_metadata_array array = {.count = 0, .capacity = MAX_METADATA, .metadata = metadata};
  memset(metadata, 0, sizeof metadata);
  for (; headers[array.count].key != NULL; array.count++) {
    const struct header *header = &headers[array.count];
    metadata[array.count].key = grpc_slice_from_copied_string(header->key);
    metadata[array.count].value = grpc_slice_from_copied_buffer(
        header->value, header->size != 0 ? header->size : strlen(header->value));
  }
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  options.trace_keys = keys;
  options.n_trace_keys = n_keys;
  weir_inbound *inbound = NULL;
  assert_int_equal(weir_inbound_new(NULL, &array, NULL, &options, &inbound), WEIR_OK);
  for (size_t i = 0; i < array.count; i++) {
    grpc_slice_unref(metadata[i].key);
    grpc_slice_unref(metadata[i].value);
  }
  return inbound;
}

static void assert_entry(const weir_inbound *inbound, size_t nth, const char *key,
                         const void *value, size_t size) {
  assert_true(nth < inbound->trace.n_entries);
  const struct weir__trace_entry *entry = &inbound->trace.entries[nth];
  assert_int_equal(grpc_slice_str_cmp(entry->key, key), 0);
  assert_int_equal(GRPC_SLICE_LENGTH(entry->value), size);
  assert_memory_equal(GRPC_SLICE_START_PTR(entry->value), value, size);
}

static void the_usual_identifiers_are_kept_and_nothing_else(void **state) {
  (void)state;
  static const struct header headers[] = {{"user-agent", "x", 0},
                                          {"tracestate", "vendor=1", 0},
                                          {"authorization", "secret", 0},
                                          {"traceparent", PARENT, 0},
                                          {NULL, NULL, 0}};
  weir_inbound *inbound = inbound_of(headers, NULL, 0);
  assert_int_equal(inbound->trace.n_entries, 2);
  assert_entry(inbound, 0, "traceparent", PARENT, sizeof PARENT - 1);
  assert_entry(inbound, 1, "tracestate", "vendor=1", 8);
  struct weir_bytes first = weir__inbound_trace(inbound);
  assert_int_equal(first.size, sizeof PARENT - 1);
  assert_memory_equal(first.data, PARENT, first.size);
  weir_inbound_release(inbound);
}

static void other_keys_can_be_asked_for_or_none(void **state) {
  (void)state;
  static const struct header headers[] = {{"traceparent", PARENT, 0},
                                          {"x-request-id", "17", 0},
                                          {"trace-bin", "\0\xff\0", 3},
                                          {"x-request-id", "18", 0},
                                          {NULL, NULL, 0}};
  static const char *const keys[] = {"trace-bin", "x-request-id", "absent", "x-request-id"};
  weir_inbound *inbound = inbound_of(headers, keys, 4);
  assert_int_equal(inbound->trace.n_entries, 3); /* a key that is asked for twice is taken once */
  assert_entry(inbound, 0, "trace-bin", "\0\xff\0", 3);
  assert_entry(inbound, 1, "x-request-id", "17", 2);
  assert_entry(inbound, 2, "x-request-id", "18", 2);
  weir_inbound_release(inbound);

  inbound = inbound_of(headers, keys, 0);
  assert_int_equal(inbound->trace.n_entries, 0);
  assert_null(weir__inbound_trace(inbound).data);
  weir_inbound_release(inbound);
}

static void a_trace_that_lacks_its_first_key_has_no_name(void **state) {
  (void)state;
  static const struct header headers[] = {{"tracestate", "vendor=1", 0}, {NULL, NULL, 0}};
  weir_inbound *inbound = inbound_of(headers, NULL, 0);
  assert_int_equal(inbound->trace.n_entries, 1);
  assert_int_equal(weir__inbound_trace(inbound).size, 0);
  weir_inbound_release(inbound);
}

static void what_is_too_long_or_may_not_be_sent_is_left_out_and_never_cut(void **state) {
  (void)state;
  static char longest[WEIR__TRACE_VALUE_BYTES + 1];
  static char longer[WEIR__TRACE_VALUE_BYTES + 2];
  static char huge[10 * 1024 + 1];
  memset(longest, 'a', sizeof longest - 1);
  memset(longer, 'a', sizeof longer - 1);
  memset(huge, 'a', sizeof huge - 1);
  static const struct {
    const char *why;
    struct header header;
    bool kept;
  } rows[] = {
      {"the longest", {"traceparent", longest, 0}, true},
      {"a longer one", {"traceparent", longer, 0}, false},
      {"a huge one", {"traceparent", huge, 0}, false},
      {"a huge binary one", {"id-bin", huge, 0}, false},
      {"an empty one", {"traceparent", "", 0}, true},
      {"a line end", {"traceparent", "a\r\nb: c", 0}, false},
      {"a NUL", {"traceparent", "a\0b", 3}, false},
      {"not ASCII", {"traceparent", "\xc3\xa9", 0}, false},
      {"so, binary", {"id-bin", "\xc3\xa9\r\n", 0}, true},
  };
  static const char *const keys[] = {"traceparent", "id-bin"};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct header headers[] = {rows[i].header, {NULL, NULL, 0}};
    weir_inbound *inbound = inbound_of(headers, keys, 2);
    if (inbound->trace.n_entries != rows[i].kept) {
      fail_msg("%s", rows[i].why);
    }
    weir_inbound_release(inbound);
  }
}

static void a_request_can_not_pass_on_any_amount(void **state) {
  (void)state;
  static char longest[WEIR__TRACE_VALUE_BYTES + 1];
  memset(longest, 'a', sizeof longest - 1);
  struct header headers[MAX_METADATA] = {{NULL, NULL, 0}};
  for (size_t i = 0; i < 30; i++) {
    headers[i] = (struct header){"tracestate", "x", 0};
  }
  weir_inbound *inbound = inbound_of(headers, NULL, 0);
  assert_int_equal(inbound->trace.n_entries, WEIR__TRACE_ENTRIES);
  weir_inbound_release(inbound);

  for (size_t i = 0; i < 30; i++) {
    headers[i].value = longest;
  }
  headers[30] = (struct header){"traceparent", PARENT, 0};
  inbound = inbound_of(headers, NULL, 0);
  /* the first key's value comes first, wherever it stands */
  assert_entry(inbound, 0, "traceparent", PARENT, sizeof PARENT - 1);
  assert_int_equal(inbound->trace.n_entries, 4);
  assert_true(inbound->trace.n_bytes <= WEIR__TRACE_BYTES);
  weir_inbound_release(inbound);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_that_are_not_to_be_passed_on_are_refused),
      cmocka_unit_test(options_of_a_newer_program_are_told_from_this_librarys),
      cmocka_unit_test(the_usual_identifiers_are_kept_and_nothing_else),
      cmocka_unit_test(other_keys_can_be_asked_for_or_none),
      cmocka_unit_test(a_trace_that_lacks_its_first_key_has_no_name),
      cmocka_unit_test(what_is_too_long_or_may_not_be_sent_is_left_out_and_never_cut),
      cmocka_unit_test(a_request_can_not_pass_on_any_amount),
  };
  return cmocka_run_group_tests_name("trace", tests, setup, teardown);
}
