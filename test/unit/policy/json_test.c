/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/policy/json.h"
#include "test/support/counting_allocator.h"

struct fixture {
  struct counting_allocator allocator;
  struct weir__json json;
  struct weir_diagnostic fault;
};

static enum weir_error read_bytes(struct fixture *f, const char *text, size_t size) {
  return weir__json_init(&f->json, text, size, &f->allocator.base, &f->fault);
}

static enum weir_error read_text(struct fixture *f, const char *text) {
  return read_bytes(f, text, strlen(text));
}

static void finish(struct fixture *f) {
  weir__json_fini(&f->json);
  assert_int_equal(f->allocator.n_outstanding, 0);
}

static int setup(void **state) {
  static struct fixture fixture;
  memset(&fixture, 0, sizeof fixture);
  counting_allocator_init(&fixture.allocator);
  *state = &fixture;
  return 0;
}

static void every_form_of_the_grammar_is_read(void **state) {
  struct fixture *f = *state;
  static const char *const good[] = {
      "{}",
      "[]",
      " \t\r\n{} \t\r\n",
      "null",
      "true",
      "false",
      "0",
      "-0",
      "-0.0e-0",
      "1E+2",
      "\"\"",
      "\"a\"",
      "[null,true,false,0,\"\",[],{}]",
      "{\"\":{\"a\":[{}]}}",
      "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"",
      "\"\\ud834\\udd1e\"",
      "\"\\u0000\"",
      "\"\x7f\"",
      "\"\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
      "123456789012345678901234567890",
      "1e400",
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    if (read_text(f, good[i]) != WEIR_OK) {
      fail_msg("%s: %s", good[i], f->fault.message);
    }
    finish(f);
  }
}

struct broken {
  const char *text;
  uint32_t line;
  uint32_t column;
  const char *says;
};

static const struct broken broken[] = {
    {"", 1, 1, "empty"},
    {" \n ", 1, 1, "empty"},
    {"\xef\xbb\xbf{}", 1, 1, "UTF-8 byte order mark"},
    {"\xff\xfe{", 1, 1, "UTF-16"},
    {"\xfe\xff{", 1, 1, "UTF-16"},
    {"\xff{", 1, 1, "value"},
    {"{\n  // why\n}", 2, 3, "comment"},
    {"{} // why", 1, 4, "comment"},
    {"[1, /* two */ 2]", 1, 5, "comment"},
    {"# why\n{}", 1, 1, "comment"},
    {"[1,2,]", 1, 5, "trailing comma"},
    {"{\"a\":1 ,\n }", 1, 8, "trailing comma"},
    {"[,1]", 1, 2, "value is missing"},
    {"[1,,2]", 1, 4, "value is missing"},
    {"{,}", 1, 2, "key"},
    {"{} {}", 1, 4, "ends before"},
    {"{}x", 1, 3, "ends before"},
    {"{}}", 1, 3, "ends before"},
    {"[1 2]", 1, 4, "comma or \"]\""},
    {"[1}", 1, 3, "comma or \"]\""},
    {"{\"a\":1]", 1, 7, "comma or \"}\""},
    {"{\"a\" 1}", 1, 6, "colon"},
    {"{\"a\":}", 1, 6, "value was expected"},
    {"{a:1}", 1, 2, "key in double quotes"},
    {"{'a':1}", 1, 2, "double quotes"},
    {"{1:1}", 1, 2, "key in double quotes"},
    {"{\"a\":'b'}", 1, 6, "double quotes"},
    {"{\"a\":", 1, 6, "too early"},
    {"[", 1, 2, "too early"},
    {"{\"a\":\n\"b", 2, 1, "without an end"},
    {"\"a\\", 1, 3, "escape"},
    {"\"\\x\"", 1, 2, "escape"},
    {"\"\\u12\"", 1, 2, "hexadecimal"},
    {"\"\\u12g4\"", 1, 2, "hexadecimal"},
    {"\"\\ud834\"", 1, 2, "surrogate"},
    {"\"\\udd1e\"", 1, 2, "surrogate"},
    {"\"\\ud834\\u0041\"", 1, 2, "surrogate"},
    {"\"a\tb\"", 1, 3, "control"},
    {"\"a\nb\"", 1, 3, "line"},
    {"\"\xc0\x80\"", 1, 2, "UTF-8"},
    {"\"\xed\xa0\x80\"", 1, 2, "UTF-8"},
    {"\"\xf4\x90\x80\x80\"", 1, 2, "UTF-8"},
    {"\"\xe2\x82\"", 1, 2, "UTF-8"},
    {"\"\x80\"", 1, 2, "UTF-8"},
    {"01", 1, 1, "leading zeros"},
    {"[-012]", 1, 2, "leading zeros"},
    {"[1, .5]", 1, 5, "digit"},
    {"+1", 1, 1, "plus"},
    {"1.", 1, 1, "point"},
    {"1e", 1, 1, "number"},
    {"--1", 1, 1, "number"},
    {"0x10", 1, 1, "decimal"},
    {"[1, 1_000]", 1, 5, "decimal"},
    {"[10ms]", 1, 2, "decimal"},
    {"[1e5f]", 1, 2, "decimal"},
    {"[NaN]", 1, 2, "word"},
    {"[-Infinity]", 1, 2, "number"},
    {"True", 1, 1, "word"},
    {"nul", 1, 1, "word"},
    {"nulll", 1, 1, "word"},
    {"{\"\xc3\xa4\xc3\xb6\":1,}", 1, 8, "trailing comma"},
};

static void a_fault_is_told_with_line_and_column(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    const enum weir_error error = read_text(f, broken[i].text);
    if (error != WEIR_ERROR_INVALID_POLICY || f->fault.line != broken[i].line ||
        f->fault.column != broken[i].column || strstr(f->fault.message, broken[i].says) == NULL) {
      fail_msg("%s: %s %u:%u %s", broken[i].text, weir_error_name(error), (unsigned)f->fault.line,
               (unsigned)f->fault.column, f->fault.message);
    }
    finish(f);
  }
}

static void a_fault_leaves_no_byte_of_the_diagnostic_as_it_was(void **state) {
  struct fixture *f = *state;
  static const char zeros[sizeof f->fault.message] = "";
  memset(&f->fault, 'z', sizeof f->fault);
  assert_int_equal(read_text(f, "{"), WEIR_ERROR_INVALID_POLICY);
  const size_t length = strlen(f->fault.message);
  assert_memory_equal(f->fault.path, zeros, sizeof f->fault.path);
  assert_memory_equal(f->fault.message + length, zeros, sizeof f->fault.message - length);
  finish(f);
}

static void nul_bytes_are_refused_everywhere(void **state) {
  struct fixture *f = *state;
  static const char behind[] = "{}\0\0";
  static const char before[] = "\0{}";
  static const char between[] = "[1,\0 2]";
  static const char inside[] = "\"a\0b\"";
  assert_int_equal(read_bytes(f, behind, 4), WEIR_ERROR_INVALID_POLICY);
  assert_non_null(strstr(f->fault.message, "NUL"));
  assert_int_equal(f->fault.column, 3);
  finish(f);
  assert_int_equal(read_bytes(f, before, 3), WEIR_ERROR_INVALID_POLICY);
  finish(f);
  assert_int_equal(read_bytes(f, between, 7), WEIR_ERROR_INVALID_POLICY);
  finish(f);
  assert_int_equal(read_bytes(f, inside, 5), WEIR_ERROR_INVALID_POLICY);
  finish(f);
  assert_int_equal(read_bytes(f, NULL, 0), WEIR_ERROR_INVALID_POLICY);
  finish(f);
}

static void escapes_are_resolved(void **state) {
  struct fixture *f = *state;
  static const char expected[] = "a\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\0z";
  assert_int_equal(read_text(f, "[\"plain\",\"a\\\"\\\\\\/"
                                "\\b\\f\\n\\r\\t\\u00e9\\u20AC\\uD834\\uDD1E\\u0000z\",\"\\n\"]"),
                   WEIR_OK);
  assert_memory_equal(weir__json_string(&f->json, 1).text, "plain", 5);
  const struct weir__json_text text = weir__json_string(&f->json, 2);
  assert_int_equal(text.size, sizeof expected - 1);
  assert_memory_equal(text.text, expected, sizeof expected - 1);
  assert_int_equal(weir__json_string(&f->json, 3).size, 1);
  finish(f);
}

static void a_value_is_shown_as_it_stands(void **state) {
  struct fixture *f = *state;
  static const char *const sources[] = {
      "[ 1, [ ], {\"]}\" : \"\\\"]\\\\\"}, \"a\\u0022b\", \"}\", -1.5e3 , null]",
      "1",
      "[ ]",
      "{\"]}\" : \"\\\"]\\\\\"}",
      "\"]}\"",
      "\"\\\"]\\\\\"",
      "\"a\\u0022b\"",
      "\"}\"",
      "-1.5e3",
      "null",
  };
  assert_int_equal(read_text(f, sources[0]), WEIR_OK);
  assert_int_equal(f->json.n_values, sizeof sources / sizeof sources[0]);
  for (uint32_t i = 0; i < f->json.n_values; i++) {
    const struct weir__json_text source = weir__json_source(&f->json, i);
    if (source.size != strlen(sources[i]) || memcmp(source.text, sources[i], source.size) != 0) {
      fail_msg("%s: %.*s", sources[i], (int)source.size, source.text);
    }
  }
  finish(f);
}

/* What each takes beyond its text would show where there are most of them. */
static void a_document_of_escaped_strings_is_read_in_its_own_size(void **state) {
  struct fixture *f = *state;
  enum { N = 100000, STRING_BYTES = 5 };
  static char text[N * STRING_BYTES + 2];
  text[0] = '[';
  for (size_t i = 0; i < N; i++) {
    memcpy(text + 1 + i * STRING_BYTES, i + 1 < N ? "\"\\n\"," : "\"\\n\"]", STRING_BYTES);
  }
  assert_int_equal(read_bytes(f, text, 1 + (size_t)N * STRING_BYTES), WEIR_OK);
  assert_int_equal(f->json.n_decoded, N * (sizeof(uint32_t) + 1));
  for (uint32_t i = 1; i <= N; i++) {
    assert_int_equal(weir__json_string(&f->json, i).size, 1);
    assert_int_equal(weir__json_string(&f->json, i).text[0], '\n');
  }
  finish(f);
}

static void depth_is_limited(void **state) {
  struct fixture *f = *state;
  enum { DEEP = 100000 };
  static char text[2 * DEEP];
  memset(text, '[', WEIR__JSON_MAX_DEPTH);
  memset(text + WEIR__JSON_MAX_DEPTH, ']', WEIR__JSON_MAX_DEPTH);
  assert_int_equal(read_bytes(f, text, (size_t)2 * WEIR__JSON_MAX_DEPTH), WEIR_OK);
  finish(f);
  memset(text, '[', DEEP);
  assert_int_equal(read_bytes(f, text, DEEP), WEIR_ERROR_INVALID_POLICY);
  assert_int_equal(f->fault.column, WEIR__JSON_MAX_DEPTH + 1);
  assert_non_null(strstr(f->fault.message, "64"));
  finish(f);
  static const char opening[5] = {'{', '"', 'a', '"', ':'};
  for (size_t i = 0; i < DEEP - sizeof opening; i += sizeof opening) {
    memcpy(text + i, opening, sizeof opening);
  }
  assert_int_equal(read_bytes(f, text, DEEP), WEIR_ERROR_INVALID_POLICY);
  assert_int_equal(f->fault.column, 5 * WEIR__JSON_MAX_DEPTH + 1);
  finish(f);
}

static void size_is_limited(void **state) {
  struct fixture *f = *state;
  char *text = malloc(WEIR__JSON_MAX_SIZE + 1);
  assert_non_null(text);
  memset(text, ' ', WEIR__JSON_MAX_SIZE + 1);
  text[0] = '1';
  assert_int_equal(read_bytes(f, text, WEIR__JSON_MAX_SIZE), WEIR_OK);
  finish(f);
  assert_int_equal(read_bytes(f, text, WEIR__JSON_MAX_SIZE + 1), WEIR_ERROR_INVALID_POLICY);
  assert_non_null(strstr(f->fault.message, "4 MiB"));
  finish(f);
  free(text);
}

static size_t count_duplicates(const struct weir__json *json) {
  size_t n = 0;
  for (uint32_t i = 0; i < json->n_values; i++) {
    n += json->values[i].duplicate ? 1 : 0;
  }
  return n;
}

static void repeated_keys_are_marked_but_for_the_first(void **state) {
  struct fixture *f = *state;
  assert_int_equal(read_text(f, "{\"a\":{\"a\":1},\"b\":2,\"\\u0061\":3,\"a\":4}"), WEIR_OK);
  assert_false(f->json.values[1].duplicate);
  assert_false(f->json.values[3].duplicate);
  assert_false(f->json.values[5].duplicate);
  assert_true(f->json.values[7].duplicate);
  assert_true(f->json.values[9].duplicate);
  assert_int_equal(count_duplicates(&f->json), 2);
  finish(f);
}

static void repeated_keys_are_marked_among_many(void **state) {
  struct fixture *f = *state;
  enum { N = 50000, KEY_BYTES = 16 };
  static char text[2 * N * KEY_BYTES];
  size_t n = 0;
  for (int i = 0; i < N + 7; i++) {
    n += (size_t)snprintf(text + n, sizeof text - n, "%c\"k%d\":0", i == 0 ? '{' : ',',
                          i < N ? i : i - N);
  }
  n += (size_t)snprintf(text + n, sizeof text - n, "}");
  assert_int_equal(read_bytes(f, text, n), WEIR_OK);
  assert_int_equal(count_duplicates(&f->json), 7);
  assert_true(f->json.values[1 + 2 * N].duplicate);
  assert_false(f->json.values[1].duplicate);
  finish(f);
}

static void a_place_is_the_same_from_wherever_it_is_moved_to(void **state) {
  (void)state;
  static const char text[] = "{\"\xc3\xa4\":\n\n [1,\r\n\t2],\n\"\xf0\x9d\x84\x9e\" : 3}\n";
  const size_t size = sizeof text - 1;
  for (size_t from = 0; from <= size; from++) {
    for (size_t to = 0; to <= size; to++) {
      struct weir__json_place straight = WEIR__JSON_PLACE_INIT;
      struct weir__json_place place = WEIR__JSON_PLACE_INIT;
      weir__json_place_move(text, &straight, to);
      weir__json_place_move(text, &place, from);
      weir__json_place_move(text, &place, to);
      assert_int_equal(place.at, to);
      assert_int_equal(place.line, straight.line);
      assert_int_equal(place.column, straight.column);
    }
  }
  struct weir__json_place end = WEIR__JSON_PLACE_INIT;
  weir__json_place_move(text, &end, size - 2);
  assert_int_equal(end.line, 5);
  assert_int_equal(end.column, 8);
}

static void running_out_of_memory_is_survived_at_every_allocation(void **state) {
  struct fixture *f = *state;
  static const char text[] =
      "{\"a\":\"\\n\",\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,"
      "\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1,\"a\":2}";
  enum weir_error error = WEIR_ERROR_NO_MEMORY;
  size_t n_allowed = 0;
  for (; error == WEIR_ERROR_NO_MEMORY; n_allowed++) {
    f->allocator.n_allowed = n_allowed;
    error = read_text(f, text);
    finish(f);
  }
  assert_int_equal(error, WEIR_OK);
  assert_int_equal(
      n_allowed,
      4); /* the values, the decoded strings, the sorted keys; and one that fails no more */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(every_form_of_the_grammar_is_read, setup),
      cmocka_unit_test_setup(a_fault_is_told_with_line_and_column, setup),
      cmocka_unit_test_setup(a_fault_leaves_no_byte_of_the_diagnostic_as_it_was, setup),
      cmocka_unit_test_setup(nul_bytes_are_refused_everywhere, setup),
      cmocka_unit_test_setup(escapes_are_resolved, setup),
      cmocka_unit_test_setup(a_value_is_shown_as_it_stands, setup),
      cmocka_unit_test_setup(a_document_of_escaped_strings_is_read_in_its_own_size, setup),
      cmocka_unit_test_setup(depth_is_limited, setup),
      cmocka_unit_test_setup(size_is_limited, setup),
      cmocka_unit_test_setup(repeated_keys_are_marked_but_for_the_first, setup),
      cmocka_unit_test_setup(repeated_keys_are_marked_among_many, setup),
      cmocka_unit_test(a_place_is_the_same_from_wherever_it_is_moved_to),
      cmocka_unit_test_setup(running_out_of_memory_is_survived_at_every_allocation, setup),
  };
  return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
