/* What is no JSON, or JSON that is read in two ways elsewhere: each kind is refused where it stands,
 * and a lenient load forgives none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/policy/json.h"
#include "test/unit/policy/loaded.h"

#define TEXT(literal) (literal), sizeof(literal) - 1

struct row {
  const char *why;
  const char *text;
  size_t size;
  const char *path;
  const char *says;
  uint32_t line;
  uint32_t column;
};

static void assert_row(const struct row *row) {
  for (int mode = LOAD_STRICT; mode <= LOAD_LENIENT; mode++) {
    struct loaded loaded;
    loaded_from_bytes(&loaded, row->text, row->size, (enum load_mode)mode);
    const struct weir_diagnostic *first = &loaded.diagnostic;
    if (loaded.error != WEIR_ERROR_INVALID_POLICY || loaded.policy != NULL ||
        loaded.n_refused != 1 || strcmp(first->path, row->path) != 0 ||
        strstr(first->message, row->says) == NULL || first->line != row->line ||
        first->column != row->column) {
      loaded_print(&loaded);
      fail_msg("%s: expected [%s] %s (%u:%u)", row->why, row->path, row->says, (unsigned)row->line,
               (unsigned)row->column);
    }
    loaded_fini(&loaded);
  }
}

static void assert_rows(const struct row *rows, size_t n_rows) {
  for (size_t i = 0; i < n_rows; i++) {
    assert_row(&rows[i]);
  }
}

static void what_is_no_json_is_refused_where_it_stands(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"an empty file", "", 0, "", "empty", 1, 1},
      {"only whitespace", TEXT(" \n\t\r\n "), "", "empty", 1, 1},
      {"only a NUL", TEXT("\0"), "", "NUL", 1, 1},
      {"UTF-8 with a mark", TEXT("\xef\xbb\xbf{}"), "", "UTF-8 byte order mark", 1, 1},
      {"a mark alone", TEXT("\xef\xbb\xbf"), "", "UTF-8 byte order mark", 1, 1},
      {"UTF-16, little", TEXT("\xff\xfe{\0}\0"), "", "UTF-16", 1, 1},
      {"UTF-16, big", TEXT("\xfe\xff\0{\0}"), "", "UTF-16", 1, 1},
      {"UTF-32, little", TEXT("\xff\xfe\0\0{\0\0\0"), "", "UTF-32", 1, 1},
      {"UTF-32, big", TEXT("\0\0\xfe\xff\0\0\0{"), "", "UTF-32", 1, 1},
      {"UTF-16 without a mark", TEXT("{\0}\0"), "", "NUL", 1, 2},
      {"a mark inside", TEXT("{\n\xef\xbb\xbf}"), "", "key", 2, 1},
      {"padding with NUL", TEXT("{}\0\0\0\0"), "", "NUL", 1, 3},
      {"a NUL on its own line", TEXT("{}\n\0"), "", "NUL", 2, 1},
      {"bytes behind the end", TEXT("{}\n{}"), "", "ends before", 2, 1},
      {"a comma behind the end", TEXT("{},"), "", "ends before", 1, 3},
      {"a line comment", TEXT("{\n  // why\n}"), "", "comment", 2, 3},
      {"a line comment in front", TEXT("// why\n{}"), "", "comment", 1, 1},
      {"a line comment behind", TEXT("{}\n// why"), "", "comment", 2, 1},
      {"a comment in an array", TEXT("{\"methodConfig\":[ /* none */ ]}"), "", "comment", 1, 19},
      {"a comment before a colon", TEXT("{\"name\"/**/:\"a\"}"), "", "comment", 1, 8},
      {"a comment of a shell", TEXT("{\n# why\n}"), "", "comment", 2, 1},
      {"a comment without an end", TEXT("{/*"), "", "comment", 1, 2},
      {"a comma before a brace", TEXT("{\"name\":\"a\",\n}"), "", "trailing comma", 1, 12},
      {"a comma before a bracket", TEXT("{\"methodConfig\":[{},]}"), "", "trailing comma", 1, 20},
      {"two commas", TEXT("{\"name\":\"a\",,\"deadline\":{}}"), "", "key", 1, 13},
      {"single quotes", TEXT("{\"name\":'a'}"), "", "double quotes", 1, 9},
      {"a key in single quotes", TEXT("{'name':\"a\"}"), "", "double quotes", 1, 2},
      {"a key without quotes", TEXT("{name:\"a\"}"), "", "double quotes", 1, 2},
      {"an equals sign", TEXT("{\"name\"=\"a\"}"), "", "colon", 1, 8},
      {"a leading zero", TEXT("{\"retry\":{\"replayBytes\":01}}"), "", "leading zeros", 1, 25},
      {"a plus sign", TEXT("{\"retry\":{\"replayBytes\":+1}}"), "", "plus", 1, 25},
      {"no digit before the point", TEXT("{\"retryThrottling\":{\"tokenRatio\":.5}}"), "",
       "begins with a digit", 1, 34},
      {"no digit behind it", TEXT("{\"retryThrottling\":{\"tokenRatio\":1.}}"), "", "point", 1, 34},
      {"no digit behind the e", TEXT("{\"retryThrottling\":{\"tokenRatio\":1e}}"), "", "number", 1,
       34},
      {"two minus signs", TEXT("{\"retry\":{\"replayBytes\":--1}}"), "", "number", 1, 25},
      {"hexadecimal", TEXT("{\"retry\":{\"replayBytes\":0x10}}"), "", "decimal", 1, 25},
      {"underscores", TEXT("{\"retry\":{\"replayBytes\":1_000}}"), "", "decimal", 1, 25},
      {"a unit", TEXT("{\"deadline\":{\"maxTimeout\":10s}}"), "", "unit", 1, 27},
      {"NaN", TEXT("{\"retryThrottling\":{\"tokenRatio\":NaN}}"), "", "word", 1, 34},
      {"Infinity", TEXT("{\"retryThrottling\":{\"tokenRatio\":Infinity}}"), "", "word", 1, 34},
      {"-Infinity", TEXT("{\"retryThrottling\":{\"tokenRatio\":-Infinity}}"), "", "number", 1, 34},
      {"undefined", TEXT("{\"name\":undefined}"), "", "word", 1, 9},
      {"True", TEXT("{\"passTrace\":True}"), "", "word", 1, 14},
      {"half a pair", TEXT("{\"name\":\"\\ud800\"}"), "", "surrogate", 1, 10},
      {"its other half", TEXT("{\"name\":\"\\udc00\"}"), "", "surrogate", 1, 10},
      {"two first halves", TEXT("{\"name\":\"\\ud800\\ud800\"}"), "", "surrogate", 1, 10},
      {"half a pair as a key", TEXT("{\"\\ud800\":1}"), "", "surrogate", 1, 3},
      {"a surrogate in UTF-8", TEXT("{\"name\":\"\xed\xa0\x80\"}"), "", "UTF-8", 1, 10},
      {"an overlong slash", TEXT("{\"name\":\"\xc0\xaf\"}"), "", "UTF-8", 1, 10},
      {"an overlong NUL", TEXT("{\"name\":\"\xc0\x80\"}"), "", "UTF-8", 1, 10},
      {"beyond Unicode", TEXT("{\"name\":\"\xf4\x90\x80\x80\"}"), "", "UTF-8", 1, 10},
      {"a character cut short", TEXT("{\"name\":\"\xe2\x82\"}"), "", "UTF-8", 1, 10},
      {"Latin-1", TEXT("{\"name\":\"caf\xe9\"}"), "", "UTF-8", 1, 13},
      {"Latin-1 as a key", TEXT("{\"\xe4\":1}"), "", "UTF-8", 1, 3},
      {"a tab in a string", TEXT("{\"name\":\"a\tb\"}"), "", "control", 1, 11},
      {"a NUL in a string", TEXT("{\"name\":\"a\0b\"}"), "", "control", 1, 11},
      {"a line break in a string", TEXT("{\"name\":\"a\nb\"}"), "", "its line", 1, 11},
      {"an escape of C", TEXT("{\"name\":\"\\x41\"}"), "", "escape", 1, 10},
      {"a string without an end", TEXT("{\"name\":\"a}"), "", "without an end", 1, 9},
      {"cut short", TEXT("{\"methodConfig\":[{\"name\":["), "", "too early", 1, 27},
      {"a bracket for a brace", TEXT("{\"methodConfig\":[{]}"), "", "key", 1, 19},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

static void a_key_twice_is_refused_at_every_depth(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"at the top", TEXT("{\"name\":\"a\",\n\"name\":\"a\"}"), "name", "already", 2, 1},
      {"of a wrong type", TEXT("{\"name\":\"a\",\"name\":7}"), "name", "already", 1, 13},
      {"null the first time", TEXT("{\"name\":null,\"name\":\"a\"}"), "name", "already", 1, 14},
      {"in an entry",
       TEXT("{\"methodConfig\":[{\"name\":[{}],\n\"timeout\":\"1s\",\"timeout\":\"2s\"}]}"),
       "methodConfig[0].timeout", "already", 2, 16},
      {"in a name", TEXT("{\"methodConfig\":[{\"name\":[{\"service\":\"a\",\"service\":\"b\"}]}]}"),
       "methodConfig[0].name[0].service", "already", 1, 42},
      {"in a layer", TEXT("{\"breaker\":{\"probes\":1,\"probes\":1}}"), "breaker.probes", "already",
       1, 24},
      {"in a table of codes", TEXT("{\"translation\":{\"codes\":{\"ABORTED\":14,\"ABORTED\":14}}}"),
       "translation.codes.ABORTED", "already", 1, 39},
      {"one code, its name and its number",
       TEXT("{\"translation\":{\"codes\":{\"ABORTED\":14,\"10\":14}}}"), "translation.codes.10",
       "twice", 1, 39},
      {"one code in two cases",
       TEXT("{\"translation\":{\"codes\":{\"ABORTED\":14,\"aborted\":14}}}"),
       "translation.codes.aborted", "twice", 1, 39},
      {"in what is passed on", TEXT("{\"healthCheckConfig\":{\"a\":1,\"a\":2}}"),
       "healthCheckConfig.a", "already", 1, 29},
      {"deep in what is passed on",
       TEXT("{\"loadBalancingConfig\":[{\"x\":{\"y\":[{\"z\":1,\"z\":1}]}}]}"),
       "loadBalancingConfig[0].z", "already", 1, 43},
      {"in what is ignored", TEXT("{\"methodConfig\":[{\"hedgingPolicy\":{\"a\":1,\"a\":1}}]}"),
       "methodConfig[0].hedgingPolicy.a", "already", 1, 42},
      {"with an escape", TEXT("{\"name\":\"a\",\"\\u006eame\":\"b\"}"), "name", "already", 1, 13},
      {"with an escape, the first", TEXT("{\"\\u006eame\":\"a\",\"name\":\"b\"}"), "name",
       "already", 1, 18},
      {"spelt in two ways", TEXT("{\"pass_trace\":true,\"passTrace\":true}"), "passTrace",
       "given twice", 1, 20},
      {"in two ways, the other first", TEXT("{\"passTrace\":true,\n\"pass_trace\":true}"),
       "passTrace", "given twice", 2, 1},
      {"in two ways, in an entry",
       TEXT("{\"methodConfig\":[{\"name\":[{}],\"waitForReady\":true,\"wait_for_ready\":true}]}"),
       "methodConfig[0].waitForReady", "given twice", 1, 51},
      {"in two ways, one of them null", TEXT("{\"pass_trace\":null,\"passTrace\":true}"),
       "passTrace", "given twice", 1, 20},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

static void values_that_are_json_and_no_policy_have_their_place(void **state) {
  (void)state;
  static const struct row rows[] = {
      {"null", TEXT("null"), "", "an object, not null", 1, 1},
      {"an array", TEXT("\n [{}]"), "", "an object, not an array", 2, 2},
      {"a string", TEXT("\"{}\""), "", "an object, not a string", 1, 1},
      {"a number", TEXT("0"), "", "an object, not a number", 1, 1},
      {"a boolean", TEXT("  true"), "", "an object, not a boolean", 1, 3},
      {"a number that is infinite",
       TEXT("{\"retryThrottling\":{\"maxTokens\":10,\"tokenRatio\":1e400}}"),
       "retryThrottling.tokenRatio", "finite", 1, 49},
      {"one that is nothing",
       TEXT("{\"retryThrottling\":{\"maxTokens\":10,\"tokenRatio\":1e-400}}"),
       "retryThrottling.tokenRatio", "at least 0.001", 1, 49},
      {"twenty digits", TEXT("{\"retry\":{\"replayBytes\":12345678901234567890}}"),
       "retry.replayBytes", "integer", 1, 25},
      {"less than nothing", TEXT("{\"retry\":{\"replayBytes\":-1}}"), "retry.replayBytes",
       "integer", 1, 25},
      {"a fraction", TEXT("{\"retry\":{\"replayBytes\":0.5}}"), "retry.replayBytes", "integer", 1,
       25},
      {"a null in a list", TEXT("{\"methodConfig\":[null]}"), "methodConfig[0]", "not null", 1, 18},
      {"a null among names", TEXT("{\"methodConfig\":[{\"name\":[null]}]}"),
       "methodConfig[0].name[0]", "not null", 1, 27},
      {"a null among keys", TEXT("{\"translation\":{\"keepMetadata\":[\"x-a\",\nnull]}}"),
       "translation.keepMetadata[1]", "not null", 2, 1},
      {"a null for a code", TEXT("{\"translation\":{\"codes\":{\"ABORTED\":\n null}}}"),
       "translation.codes.ABORTED", "status code", 2, 2},
      {"a code that is none", TEXT("{\"translation\":{\"codes\":{\n \"ABORT\": 14}}}"),
       "translation.codes.ABORT", "no status code", 2, 2},
      {"a key with a NUL", TEXT("{\"translation\":{\"codes\":{\"A\\u0000\":14}}}"),
       "translation.codes.A?", "no status code", 1, 26},
      {"an object for a list", TEXT("{\"methodConfig\":\n{}}"), "methodConfig", "an array", 2, 1},
      {"characters count once",
       TEXT("{\"healthCheckConfig\":{\"\xc3\xa4\xe2\x82\xac\":1}, \"name\":7}"), "name", "a string",
       1, 39},
      {"a problem of the whole object, told at its end",
       TEXT("{\"methodConfig\":[\n "
            "{\"retryPolicy\":null,\n\"hedgingPolicy\":{},\"retry_policy\":1}]}"),
       "methodConfig[0].retryPolicy", "given twice", 3, 20},
      {"an element of a list, told at the end of its object",
       TEXT("{\"translation\":{\"keepDetails\":[\"a.B\",\n  \"RetryInfo\"],\n\"boundary\":true}}"),
       "translation.keepDetails[1]", "package", 2, 3},
      {"a bound of two fields",
       TEXT("{\"breaker\":{\n\"maxOpenFor\":\"5s\",\n\"openFor\":\"10s\"}}"), "breaker.maxOpenFor",
       "openFor", 2, 14},
      {"a bound of one field and a default", TEXT("{\n\"breaker\":\n{\"maxOpenFor\":\"5s\"}}"),
       "breaker.maxOpenFor", "openFor", 3, 15},
  };
  assert_rows(rows, sizeof rows / sizeof rows[0]);
}

static void null_is_the_same_as_leaving_out(void **state) {
  (void)state;
  static const char *const keys[] = {"loadBalancingPolicy",
                                     "methodConfig",
                                     "retryThrottling",
                                     "loadBalancingConfig",
                                     "healthCheckConfig",
                                     "name",
                                     "deadline",
                                     "translation",
                                     "breaker",
                                     "retry",
                                     "passTrace",
                                     "fallback"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    char text[64];
    struct loaded loaded;
    (void)snprintf(text, sizeof text, "{\"%s\":null}", keys[i]);
    loaded_from_text(&loaded, text, LOAD_STRICT);
    if (loaded.error != WEIR_OK || loaded.n_told != 0) {
      loaded_print(&loaded);
      fail_msg("%s", keys[i]);
    }
    loaded_fini(&loaded);
  }
}

/* `depth` levels in all, in what is passed on. */
static void load_deep(struct loaded *loaded, size_t depth) {
  static const char begin[] = "{\"healthCheckConfig\":{\"a\":";
  const size_t n_arrays = depth - 2;
  char *text = malloc(sizeof begin + 2 * n_arrays + 2);
  assert_non_null(text);
  size_t n = sizeof begin - 1;
  memcpy(text, begin, n);
  memset(text + n, '[', n_arrays);
  memset(text + n + n_arrays, ']', n_arrays);
  memset(text + n + 2 * n_arrays, '}', 2);
  loaded_from_bytes(loaded, text, n + 2 * n_arrays + 2, LOAD_STRICT);
  free(text);
}

static void sixty_four_levels_are_read_and_no_more(void **state) {
  (void)state;
  static const size_t too_deep[] = {65, 66, 1000, 10000, 1000000};
  struct loaded loaded;
  load_deep(&loaded, 64);
  assert_int_equal(loaded.error, WEIR_OK);
  loaded_fini(&loaded);
  for (size_t i = 0; i < sizeof too_deep / sizeof too_deep[0]; i++) {
    load_deep(&loaded, too_deep[i]);
    assert_int_equal(loaded.error, WEIR_ERROR_INVALID_POLICY);
    assert_string_equal(loaded.diagnostic.message, "nested deeper than 64 levels");
    assert_int_equal(loaded.diagnostic.line, 1);
    assert_int_equal(loaded.diagnostic.column, 27 + 62);
    loaded_fini(&loaded);
  }
}

static void four_mebibytes_are_read_and_no_more(void **state) {
  (void)state;
  struct loaded loaded;
  char *text = malloc(WEIR__JSON_MAX_SIZE + 1);
  assert_non_null(text);
  memset(text, ' ', WEIR__JSON_MAX_SIZE + 1);
  text[0] = '{';
  text[1] = '}';
  loaded_from_bytes(&loaded, text, WEIR__JSON_MAX_SIZE, LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_OK);
  loaded_fini(&loaded);
  loaded_from_bytes(&loaded, text, WEIR__JSON_MAX_SIZE + 1, LOAD_STRICT);
  assert_int_equal(loaded.error, WEIR_ERROR_INVALID_POLICY);
  assert_string_equal(loaded.diagnostic.message, "the document is larger than 4 MiB");
  assert_int_equal(loaded.diagnostic.line, 1);
  loaded_fini(&loaded);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_no_json_is_refused_where_it_stands),
      cmocka_unit_test(a_key_twice_is_refused_at_every_depth),
      cmocka_unit_test(values_that_are_json_and_no_policy_have_their_place),
      cmocka_unit_test(null_is_the_same_as_leaving_out),
      cmocka_unit_test(sixty_four_levels_are_read_and_no_more),
      cmocka_unit_test(four_mebibytes_are_read_and_no_more),
  };
  return cmocka_run_group_tests_name("dialect", tests, NULL, NULL);
}
