/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "src/log/json_line.h"

#define SECOND_NS INT64_C(1000000000)

static struct weir_log_record plain_record(void) {
  return (struct weir_log_record){
      .reference = "0123456789ab",
      .path = {"/shop.Cart/Pay", 14},
      .target = "dns:///cart",
      .peer = {"ipv4:10.0.0.7:443", 17},
      .raw_code = GRPC_STATUS_INVALID_ARGUMENT,
      .code = GRPC_STATUS_INTERNAL,
      .origin = WEIR_ORIGIN_PEER,
      .blames = WEIR_BLAME_CLIENT,
      .reason = WEIR_REASON_NOT_RETRYABLE,
      .n_attempts = 3,
      .duration_ns = 1234567,
      .message = {"no such row", 11},
      .details = {"\x08\x03", 2},
      .error_string = {"UNKNOWN:{...}", 13},
      .event = WEIR_LOG_CALL_FAILED,
      .at_ns = 5 * SECOND_NS,
      .time_unix_ns = INT64_C(1700000000) * SECOND_NS + 123456789,
      .trace = {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 55},
      .text = "",
  };
}

/* Formats, checks that it is one terminated line, and parses it. */
static json_t *parsed(const struct weir_log_record *record) {
  char line[WEIR__JSON_LINE_BYTES];
  memset(line, 'x', sizeof line);
  size_t size = weir__json_line_format(record, 0, line);
  assert_true(size < sizeof line);
  assert_int_equal(strlen(line), size);
  assert_ptr_equal(strchr(line, '\n'), &line[size - 1]);
  json_error_t error;
  json_t *json = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
  if (json == NULL) {
    fail_msg("%s at %d in %s", error.text, error.column, line);
  }
  return json;
}

static void assert_text(const json_t *json, const char *key, const char *expected) {
  const char *text = json_string_value(json_object_get(json, key));
  if (text == NULL || strcmp(text, expected) != 0) {
    fail_msg("%s: %s, not %s", key, text != NULL ? text : "(none)", expected);
  }
}

static void a_record_is_one_json_object(void **state) {
  (void)state;
  struct weir_log_record record = plain_record();
  json_t *json = parsed(&record);

  assert_text(json, "weir", "call_failed");
  assert_text(json, "time", "2023-11-14T22:13:20.123Z");
  assert_text(json, "ref", "0123456789ab");
  assert_text(json, "trace", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  assert_text(json, "code", "INTERNAL");
  assert_text(json, "raw_code", "INVALID_ARGUMENT");
  assert_text(json, "origin", weir_origin_name(WEIR_ORIGIN_PEER));
  assert_text(json, "blames", weir_blame_name(WEIR_BLAME_CLIENT));
  assert_text(json, "reason", weir_reason_name(WEIR_REASON_NOT_RETRYABLE));
  assert_text(json, "path", "/shop.Cart/Pay");
  assert_text(json, "target", "dns:///cart");
  assert_text(json, "peer", "ipv4:10.0.0.7:443");
  assert_text(json, "message", "no such row");
  assert_text(json, "error", "UNKNOWN:{...}");
  assert_int_equal(json_integer_value(json_object_get(json, "attempts")), 3);
  assert_int_equal(json_integer_value(json_object_get(json, "duration_us")), 1234);
  assert_int_equal(json_integer_value(json_object_get(json, "details_bytes")), 2);
  assert_int_equal(json_object_size(json), 17);
  json_decref(json);
}

static void what_stood_in_is_told_where_one_was_asked(void **state) {
  (void)state;
  struct weir_log_record record = plain_record();
  record.code = GRPC_STATUS_OK;
  record.fallback_result = WEIR_FALLBACK_HIT;
  record.fallback_source = "cache";
  json_t *hit = parsed(&record);
  assert_text(hit, "code", "OK");
  assert_text(hit, "raw_code", "INVALID_ARGUMENT");
  assert_text(hit, "fallback", "HIT");
  assert_text(hit, "fallback_source", "cache");
  assert_int_equal(json_object_size(hit), 19);
  json_decref(hit);

  record.fallback_result = WEIR_FALLBACK_TIMED_OUT;
  record.fallback_source = "";
  json_t *late = parsed(&record);
  assert_text(late, "fallback", "TIMED_OUT");
  assert_text(late, "fallback_source", "");
  json_decref(late);
}

static void texts_come_back_as_they_were_or_replaced(void **state) {
  (void)state;
#define BYTES(text) \
  { text, sizeof text - 1 }
#define BAD "\xef\xbf\xbd" /* U+FFFD */
  static const struct {
    const char *why;
    struct weir_bytes message;
    struct weir_bytes expected;
  } rows[] = {
      {"nothing", {NULL, 0}, BYTES("")},
      {"quotes", BYTES("a \"b\" c"), BYTES("a \"b\" c")},
      {"backslashes", BYTES("\\n \\ \\\\"), BYTES("\\n \\ \\\\")},
      {"the end of the object", BYTES("\"}"), BYTES("\"}")},
      {"line ends", BYTES("a\nb\r\nc"), BYTES("a\nb\r\nc")},
      {"controls", BYTES("\x01\x08\t\x0b\x0c\x1b\x1f\x7f"),
       BYTES("\x01\x08\t\x0b\x0c\x1b\x1f\x7f")},
      {"a NUL", BYTES("a\0b"), BYTES("a\0b")},
      {"two bytes", BYTES("\xc2\x80 \xdf\xbf"), BYTES("\xc2\x80 \xdf\xbf")},
      {"three bytes", BYTES("\xe0\xa0\x80 \xe2\x82\xac \xef\xbf\xbf"),
       BYTES("\xe0\xa0\x80 \xe2\x82\xac \xef\xbf\xbf")},
      {"four bytes", BYTES("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"),
       BYTES("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf")},
      {"a lone continuation", BYTES("a\x80z"), BYTES("a" BAD "z")},
      {"Latin-1", BYTES("caf\xe9 ole"), BYTES("caf" BAD " ole")},
      {"overlong of two", BYTES("\xc0\xaf\xc1\xbf"), BYTES(BAD BAD BAD BAD)},
      {"overlong of three", BYTES("\xe0\x9f\xbf"), BYTES(BAD BAD BAD)},
      {"overlong of four", BYTES("\xf0\x8f\xbf\xbf"), BYTES(BAD BAD BAD BAD)},
      {"a surrogate", BYTES("\xed\xa0\x80"), BYTES(BAD BAD BAD)},
      {"beyond Unicode", BYTES("\xf4\x90\x80\x80"), BYTES(BAD BAD BAD BAD)},
      {"bytes that never are", BYTES("\xf5\xfe\xff"), BYTES(BAD BAD BAD)},
      {"two bytes, cut off", BYTES("a\xc3"), BYTES("a" BAD)},
      {"three bytes, cut off", BYTES("a\xe2\x82"), BYTES("a" BAD BAD)},
      {"four bytes, cut off", BYTES("a\xf0\x9f\x98"), BYTES("a" BAD BAD BAD)},
      {"broken by a quote", BYTES("\xe2\"\x82"), BYTES(BAD "\"" BAD)},
      {"a line separator of JavaScript", BYTES("a\xe2\x80\xa8z"), BYTES("a\xe2\x80\xa8z")},
  };
#undef BAD
#undef BYTES
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_log_record record = plain_record();
    record.message = rows[i].message;
    char line[WEIR__JSON_LINE_BYTES];
    size_t size = weir__json_line_format(&record, 0, line);
    json_t *json = json_loadb(line, size, JSON_ALLOW_NUL, NULL);
    const json_t *message = json_object_get(json, "message");
    if (!json_is_string(message) || json_string_length(message) != rows[i].expected.size ||
        memcmp(json_string_value(message), rows[i].expected.data, rows[i].expected.size) != 0) {
      fail_msg("%s: %s", rows[i].why, line);
    }
    assert_int_equal(strlen(line), size);
    assert_ptr_equal(strchr(line, '\n'), &line[size - 1]);
    json_decref(json);
  }
}

static void each_text_is_escaped(void **state) {
  (void)state;
  static const char evil[] = "\"\\\n\x01\xff";
  struct weir_log_record record = plain_record();
  record.reference = evil;
  record.target = evil;
  record.path = record.peer = record.message = record.error_string = record.trace =
      (struct weir_bytes){evil, sizeof evil - 1};
  json_t *json = parsed(&record);

  static const char *const keys[] = {"ref", "target", "path", "peer", "message", "error", "trace"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    assert_text(json, keys[i], "\"\\\n\x01\xef\xbf\xbd");
  }
  json_decref(json);
}

static void every_long_text_is_cut_and_the_others_stay(void **state) {
  (void)state;
  static const struct {
    const char *why;
    const char *unit;
  } rows[] = {
      {"plain", "x"},
      {"of two bytes", "\xc3\xa9"},
      {"of three bytes", "\xe2\x82\xac"},
      {"of four bytes", "\xf0\x9f\x98\x80"},
      {"escaped", "\""},
      {"escaped by six", "\x01"},
      {"none", "\xff"},
      {"mixed", "a\xf0\x9f\x98\x80\x01\""},
  };
  const size_t size = (size_t)1 << 20;
  char *text = malloc(size + 1);
  text[size] = '\0';
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t unit_size = strlen(rows[i].unit);
    for (size_t shift = 0; shift < 5; shift++) {
      memset(text, 'a', shift);
      for (size_t j = shift; j < size; j++) {
        text[j] = rows[i].unit[(j - shift) % unit_size];
      }
      struct weir_log_record record = plain_record();
      record.path = record.peer = record.message = record.error_string = record.trace =
          (struct weir_bytes){text, size};
      record.target = text;
      json_t *json = parsed(&record);
      static const char *const keys[] = {"path", "target", "peer", "message", "error", "trace"};
      for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
        const char *cut = json_string_value(json_object_get(json, keys[j]));
        if (cut == NULL || strlen(cut) < 20 || strcmp(cut + strlen(cut) - 3, "\xe2\x80\xa6") != 0 ||
            (unit_size == 1 && (unsigned char)rows[i].unit[0] < 0x80 &&
             strstr(cut, "\xef\xbf\xbd"))) {
          fail_msg("%s, %s: %s", rows[i].why, keys[j], cut != NULL ? cut : "(none)");
        }
      }
      assert_text(json, "ref", "0123456789ab");
      assert_int_equal(json_integer_value(json_object_get(json, "details_bytes")), 2);
      json_decref(json);
    }
  }
  free(text);
}

static void a_text_of_exactly_what_fits_is_not_cut(void **state) {
  (void)state;
  char text[1024];
  memset(text, 'x', sizeof text);
  bool was_cut = false;
  for (size_t size = 1; size < sizeof text; size++) {
    struct weir_log_record record = plain_record();
    record.message = (struct weir_bytes){text, size};
    json_t *json = parsed(&record);
    const char *message = json_string_value(json_object_get(json, "message"));
    bool cut = strstr(message, "\xe2\x80\xa6") != NULL;
    assert_true(cut || strlen(message) == size);
    assert_true(cut || !was_cut);
    was_cut = cut;
    json_decref(json);
  }
  assert_true(was_cut);
}

static void numbers_of_any_size_are_written(void **state) {
  (void)state;
  struct weir_log_record record = plain_record();
  record.n_attempts = UINT32_MAX;
  record.duration_ns = INT64_MAX;
  record.details.size = SIZE_MAX;
  record.raw_code = (grpc_status_code)12345;
  record.code = (grpc_status_code)-1;
  char line[WEIR__JSON_LINE_BYTES];
  size_t size = weir__json_line_format(&record, 0, line);

  assert_non_null(strstr(line, "\"attempts\":4294967295,\"duration_us\":9223372036854775,"));
  assert_non_null(strstr(line, "\"details_bytes\":18446744073709551615,"));
  json_t *json = json_loadb(line, size, JSON_DECODE_INT_AS_REAL, NULL);
  assert_non_null(json);
  json_decref(json);

  record.duration_ns = -1;
  record.details.size = 0;
  json = parsed(&record);
  assert_int_equal(json_integer_value(json_object_get(json, "duration_us")), 0);
  json_decref(json);
}

static uint64_t random_next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static void any_bytes_make_one_valid_line(void **state) {
  (void)state;
  uint64_t seed = 99;
  for (int i = 0; i < 3000; i++) {
    char text[900];
    size_t size = random_next(&seed) % sizeof text;
    for (size_t j = 0; j < size; j++) {
      text[j] = (char)random_next(&seed);
    }
    struct weir_log_record record = plain_record();
    record.path = record.message = record.error_string = (struct weir_bytes){text, size};
    record.peer = (struct weir_bytes){text, size / 2};
    char line[WEIR__JSON_LINE_BYTES];
    size_t line_size = weir__json_line_format(&record, 0, line);
    json_t *json = json_loadb(line, line_size, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    assert_ptr_equal(strchr(line, '\n'), &line[line_size - 1]);
    json_decref(json);
  }
}

static void times_are_written_in_utc_by_the_millisecond(void **state) {
  (void)state;
  static const struct {
    const char *why;
    int64_t time_unix_ns;
    const char *expected;
  } rows[] = {
      {"the beginning", 0, "1970-01-01T00:00:00.000Z"},
      {"less than a millisecond", 999999, "1970-01-01T00:00:00.000Z"},
      {"the last of a second", INT64_C(999999999), "1970-01-01T00:00:00.999Z"},
      {"before the beginning", -1, "1969-12-31T23:59:59.999Z"},
      {"a second before", -SECOND_NS, "1969-12-31T23:59:59.000Z"},
      {"a leap day", INT64_C(951782400) * SECOND_NS + 5000000, "2000-02-29T00:00:00.005Z"},
      {"no leap day", INT64_C(4107542400) * SECOND_NS, "2100-03-01T00:00:00.000Z"},
      {"the latest", INT64_MAX, "2262-04-11T23:47:16.854Z"},
      {"the earliest", INT64_MIN, "1677-09-21T00:12:43.145Z"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_log_record record = plain_record();
    record.time_unix_ns = rows[i].time_unix_ns;
    json_t *json = parsed(&record);
    const char *text = json_string_value(json_object_get(json, "time"));
    if (text == NULL || strcmp(text, rows[i].expected) != 0) {
      fail_msg("%s: %s, not %s", rows[i].why, text != NULL ? text : "(none)", rows[i].expected);
    }
    json_decref(json);
  }
}

static void what_was_left_out_is_told_if_there_was_something(void **state) {
  (void)state;
  struct weir_log_record record = plain_record();
  char line[WEIR__JSON_LINE_BYTES];
  (void)weir__json_line_format(&record, 0, line);
  assert_null(strstr(line, "left_out"));
  (void)weir__json_line_format(&record, UINT64_MAX, line);
  assert_non_null(strstr(line, ",\"left_out\":18446744073709551615,"));
}

static void a_wrapped_channel_is_another_event(void **state) {
  (void)state;
  struct weir_log_record record = {.reference = "",
                                   .target = "dns:///\"cart\"",
                                   .event = WEIR_LOG_CHANNEL_WRAPPED,
                                   .text = "no\nretries"};
  json_t *json = parsed(&record);
  assert_text(json, "weir", "channel_wrapped");
  assert_text(json, "target", "dns:///\"cart\"");
  assert_text(json, "text", "no\nretries");
  assert_int_equal(json_object_size(json), 4); /* and the time */
  json_decref(json);
}

static void a_refused_policy_is_another_event(void **state) {
  (void)state;
  struct weir_log_record record = {.reference = "",
                                   .target = "cart:443",
                                   .event = WEIR_LOG_POLICY_REFUSED,
                                   .text = "deadline.maxTimeout, 3:9: must be at most 5s"};
  json_t *json = parsed(&record);
  assert_text(json, "weir", "policy_refused");
  assert_text(json, "target", "cart:443");
  assert_text(json, "text", "deadline.maxTimeout, 3:9: must be at most 5s");
  assert_int_equal(json_object_size(json), 4); /* and the time */
  json_decref(json);
}

static void a_changed_breaker_is_another_event(void **state) {
  (void)state;
  struct weir_log_record record = {
      .reference = "",
      .target = "cart:443",
      .raw_code = GRPC_STATUS_UNAVAILABLE,
      .origin = WEIR_ORIGIN_TRANSPORT_CONNECT,
      .event = WEIR_LOG_BREAKER_CHANGED,
      .text = "too many",
      .breaker = {"/shop.Cart/\"Pay\"\n", 17},
      .breaker_from = WEIR_BREAKER_CLOSED,
      .breaker_to = WEIR_BREAKER_OPEN,
      .breaker_generation = 3,
      .next_probe_in_ns = 29999999,
  };
  json_t *json = parsed(&record);
  assert_text(json, "weir", "breaker_changed");
  assert_text(json, "breaker", "/shop.Cart/\"Pay\"\n");
  assert_text(json, "from", "CLOSED");
  assert_text(json, "to", "OPEN");
  assert_text(json, "override", "NONE");
  assert_text(json, "raw_code", "UNAVAILABLE");
  assert_text(json, "origin", "TRANSPORT_CONNECT");
  assert_text(json, "target", "cart:443");
  assert_text(json, "text", "too many");
  assert_int_equal(json_integer_value(json_object_get(json, "generation")), 3);
  assert_int_equal(json_integer_value(json_object_get(json, "next_probe_us")), 29999);
  assert_int_equal(json_object_size(json), 12); /* and the time */
  json_decref(json);
}

static void a_policy_that_the_core_is_behind_is_another_event(void **state) {
  (void)state;
  struct weir_log_record record = {.reference = "",
                                   .target = "cart:443",
                                   .event = WEIR_LOG_CORE_CONFIG_KEPT,
                                   .text = "from the next"};
  json_t *json = parsed(&record);
  assert_text(json, "weir", "core_config_kept");
  assert_text(json, "target", "cart:443");
  assert_text(json, "text", "from the next");
  assert_int_equal(json_object_size(json), 4); /* and the time */
  json_decref(json);
}

static void a_breaker_that_was_overridden_has_no_code_and_no_end(void **state) {
  (void)state;
  static const struct {
    enum weir_breaker_override override;
    const char *name;
  } rows[] = {{WEIR_BREAKER_OVERRIDE_OPEN, "OPEN"},
              {WEIR_BREAKER_OVERRIDE_DISABLED, "DISABLED"},
              {(enum weir_breaker_override)9, "UNKNOWN"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_log_record record = {.reference = "",
                                     .target = "",
                                     .event = WEIR_LOG_BREAKER_CHANGED,
                                     .text = "",
                                     .breaker_override = rows[i].override,
                                     .next_probe_in_ns = WEIR_NO_LIMIT_NS};
    json_t *json = parsed(&record);
    assert_text(json, "override", rows[i].name);
    assert_null(json_object_get(json, "raw_code"));
    assert_null(json_object_get(json, "origin"));
    assert_null(json_object_get(json, "next_probe_us"));
    json_decref(json);
  }
}

static void an_event_from_a_later_library_is_a_line_too(void **state) {
  (void)state;
  struct weir_log_record record = {
      .reference = "", .target = "", .event = (enum weir_log_event)99, .text = "new"};
  json_t *json = parsed(&record);
  assert_text(json, "weir", "unknown");
  assert_text(json, "text", "new");
  json_decref(json);
}

static void what_changes_the_order_of_text_is_escaped(void **state) {
  (void)state;
  static const unsigned points[] = {0x202a, 0x202b, 0x202c, 0x202d, 0x202e,
                                    0x2066, 0x2067, 0x2068, 0x2069};
  for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
    const char raw[] = {(char)(0xe0 | (points[i] >> 12)), (char)(0x80 | (points[i] >> 6 & 0x3f)),
                        (char)(0x80 | (points[i] & 0x3f))};
    struct weir_log_record record = plain_record();
    char line[WEIR__JSON_LINE_BYTES];
    char expected[64];
    record.message = (struct weir_bytes){raw, sizeof raw};
    (void)weir__json_line_format(&record, 0, line);
    (void)snprintf(expected, sizeof expected, "\"message\":\"\\u%04x\",", points[i]);
    assert_non_null(strstr(line, expected));
  }
}

/* Terminals obey controls of Latin-1 too, and readers split lines at more than a line feed. */
static void what_moves_a_cursor_or_ends_a_line_is_escaped(void **state) {
  (void)state;
  static const struct {
    const char *raw;
    const char *escaped;
  } rows[] = {
      {"\x1b[2J", "\\u001b[2J"},        {"\x7f", "\\u007f"},
      {"\xc2\x85", "\\u0085"},          {"\xc2\x9b", "\\u009b"},
      {"\xe2\x80\xa8", "\\u2028"},      {"\xe2\x80\xa9", "\\u2029"},
      {"\xc2\xa0", "\xc2\xa0"},         {"\xe2\x80\xa7", "\xe2\x80\xa7"},
      {"\xe2\x80\xaf", "\xe2\x80\xaf"}, {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
      {"\xef\xbf\xbd", "\xef\xbf\xbd"}, {"\xe2\x81\xaa", "\xe2\x81\xaa"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_log_record record = plain_record();
    char line[WEIR__JSON_LINE_BYTES];
    char expected[64];
    record.message = (struct weir_bytes){rows[i].raw, strlen(rows[i].raw)};
    (void)weir__json_line_format(&record, 0, line);
    (void)snprintf(expected, sizeof expected, "\"message\":\"%s\",", rows[i].escaped);
    if (strstr(line, expected) == NULL) {
      fail_msg("%s is not in %s", expected, line);
    }
  }
}

/* All at their longest at once, and the longest of numbers. */
static void the_longest_record_there_can_be_is_whole(void **state) {
  (void)state;
  static char text[1 << 16];
  memset(text, 1, sizeof text - 1);
  const struct weir_bytes bytes = {text, sizeof text - 1};
  struct weir_log_record record = {
      .reference = text,
      .path = bytes,
      .target = text,
      .peer = bytes,
      .raw_code = GRPC_STATUS_FAILED_PRECONDITION,
      .code = GRPC_STATUS_RESOURCE_EXHAUSTED,
      .origin = WEIR_ORIGIN_TRANSPORT_CONNECT,
      .blames = WEIR_BLAME_NETWORK,
      .reason = WEIR_REASON_ATTEMPTS_EXHAUSTED,
      .n_attempts = UINT32_MAX,
      .duration_ns = INT64_MIN,
      .message = bytes,
      .details = {text, SIZE_MAX},
      .error_string = bytes,
      .time_unix_ns = INT64_MIN,
      .trace = bytes,
      .text = text,
      .breaker = bytes,
      .breaker_to = WEIR_BREAKER_HALF_OPEN,
      .breaker_generation = UINT64_MAX,
      .breaker_override = WEIR_BREAKER_OVERRIDE_DISABLED,
      .next_probe_in_ns = INT64_MIN,
  };
  for (int event = WEIR_LOG_CALL_FAILED; event <= WEIR_LOG_POLICY_POLLED; event++) {
    char line[WEIR__JSON_LINE_BYTES];
    record.event = (enum weir_log_event)event;
    size_t size = weir__json_line_format(&record, UINT64_MAX, line);
    json_t *json = json_loadb(line, size, JSON_DECODE_INT_AS_REAL, NULL);
    assert_non_null(json);
    assert_non_null(json_object_get(json, event == WEIR_LOG_CALL_FAILED ? "error" : "text"));
    json_decref(json);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_record_is_one_json_object),
      cmocka_unit_test(what_stood_in_is_told_where_one_was_asked),
      cmocka_unit_test(texts_come_back_as_they_were_or_replaced),
      cmocka_unit_test(each_text_is_escaped),
      cmocka_unit_test(every_long_text_is_cut_and_the_others_stay),
      cmocka_unit_test(a_text_of_exactly_what_fits_is_not_cut),
      cmocka_unit_test(numbers_of_any_size_are_written),
      cmocka_unit_test(any_bytes_make_one_valid_line),
      cmocka_unit_test(times_are_written_in_utc_by_the_millisecond),
      cmocka_unit_test(what_was_left_out_is_told_if_there_was_something),
      cmocka_unit_test(a_wrapped_channel_is_another_event),
      cmocka_unit_test(a_refused_policy_is_another_event),
      cmocka_unit_test(a_changed_breaker_is_another_event),
      cmocka_unit_test(a_policy_that_the_core_is_behind_is_another_event),
      cmocka_unit_test(a_breaker_that_was_overridden_has_no_code_and_no_end),
      cmocka_unit_test(an_event_from_a_later_library_is_a_line_too),
      cmocka_unit_test(what_changes_the_order_of_text_is_escaped),
      cmocka_unit_test(what_moves_a_cursor_or_ends_a_line_is_escaped),
      cmocka_unit_test(the_longest_record_there_can_be_is_whole),
  };
  return cmocka_run_group_tests_name("json_line", tests, NULL, NULL);
}
