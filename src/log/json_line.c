/* SPDX-License-Identifier: Apache-2.0 */
#include "src/log/json_line.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_US 1000
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_SECOND INT64_C(1000000000)

/* What each text of a record may take of a line: all of them at their longest leave a quarter of it
 * to the rest, which needs an eighth. */
#define LONG_TEXT_BYTES 640  /* what somebody wrote: message, error, text */
#define SHORT_TEXT_BYTES 480 /* names and addresses */
#define WORD_BYTES 128       /* a reference, a trace, a name of weir's own */
#define END_BYTES 64         /* for the line's end */

struct writer {
  char *out;
  size_t size;
  size_t capacity;
};

static void put(struct writer *writer, const char *text, size_t size) {
  if (size <= writer->capacity - writer->size) {
    memcpy(writer->out + writer->size, text, size);
    writer->size += size;
  }
}

static void put_text(struct writer *writer, const char *text) {
  put(writer, text, strlen(text));
}

/* How many bytes the UTF-8 character at `text` has (Unicode 15, table 3-7); 0 = it is none. */
static size_t utf8_length(const unsigned char *text, size_t size) {
  static const struct {
    unsigned char first_low, first_high, second_low, second_high, length;
  } forms[] = {
      {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
  };
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    if (text[0] < forms[i].first_low || text[0] > forms[i].first_high) {
      continue;
    }
    if (size < forms[i].length) {
      return 0;
    }
    if (forms[i].length > 1 && (text[1] < forms[i].second_low || text[1] > forms[i].second_high)) {
      return 0;
    }
    for (size_t j = 2; j < forms[i].length; j++) {
      if ((text[j] & 0xc0) != 0x80) {
        return 0;
      }
    }
    return forms[i].length;
  }
  return 0;
}

/* The code point of a character of `length` bytes; of four, one that needs no escape. */
static unsigned code_point(const unsigned char *text, size_t length) {
  switch (length) {
  case 1:
    return text[0];
  case 2:
    return ((unsigned)(text[0] & 0x1f) << 6) | (unsigned)(text[1] & 0x3f);
  case 3:
    return ((unsigned)(text[0] & 0x0f) << 12) | ((unsigned)(text[1] & 0x3f) << 6) |
           (unsigned)(text[2] & 0x3f);
  default:
    return 0x10000;
  }
}

/* The controls of ASCII, which JSON forbids, those of Latin-1, what some readers take for the end of
 * a line (U+0085, U+2028, U+2029), and what makes a terminal show text in another order (U+202A to
 * U+202E, U+2066 to U+2069). */
static bool is_escaped(unsigned point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

static void put_character(struct writer *writer, const unsigned char *text, size_t length) {
  char escaped[8];
  unsigned point = length > 0 ? code_point(text, length) : 0xfffd;
  if (point == '"' || point == '\\') {
    escaped[0] = '\\';
    escaped[1] = (char)point;
    put(writer, escaped, 2);
  } else if (length == 0 || is_escaped(point)) {
    put(writer, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", point & 0xffff));
  } else {
    put(writer, (const char *)text, length);
  }
}

static void put_field(struct writer *writer, const char *name, struct weir_bytes value,
                      size_t limit_bytes) {
  put_text(writer, ",\"");
  put_text(writer, name);
  put_text(writer, "\":\"");
  size_t limit = writer->size + limit_bytes;
  const unsigned char *text = (const unsigned char *)value.data;
  for (size_t i = 0; i < value.size;) {
    if (writer->size >= limit) {
      put_text(writer, "\xe2\x80\xa6"); /* an ellipsis: there was more */
      break;
    }
    size_t length = utf8_length(text + i, value.size - i);
    put_character(writer, text + i, length);
    i += length > 0 ? length : 1;
  }
  put_text(writer, "\"");
}

static void put_word(struct writer *writer, const char *name, const char *value,
                     size_t limit_bytes) {
  struct weir_bytes bytes = {.data = value, .size = value != NULL ? strlen(value) : 0};
  put_field(writer, name, bytes, limit_bytes);
}

static void put_number(struct writer *writer, const char *name, int64_t value) {
  char number[64];
  put(writer, number, (size_t)snprintf(number, sizeof number, ",\"%s\":%" PRId64, name, value));
}

static void put_count(struct writer *writer, const char *name, uint64_t value) {
  char number[64];
  put(writer, number, (size_t)snprintf(number, sizeof number, ",\"%s\":%" PRIu64, name, value));
}

/* RFC 3339, in UTC. */
static void put_time(struct writer *writer, int64_t time_unix_ns) {
  char text[96];
  struct tm parts;
  int64_t seconds = time_unix_ns / NS_PER_SECOND;
  int64_t rest_ns = time_unix_ns % NS_PER_SECOND;
  if (rest_ns < 0) {
    rest_ns += NS_PER_SECOND;
    seconds -= 1;
  }
  time_t time = (time_t)seconds;
  memset(&parts, 0, sizeof parts);
  (void)gmtime_r(&time, &parts); /* can't fail within the 292 years around 1970 */
  put(writer, text,
      (size_t)snprintf(text, sizeof text, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"",
                       parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                       parts.tm_min, parts.tm_sec, (int)(rest_ns / NS_PER_MS)));
}

static const char *event_name(enum weir_log_event event) {
  switch (event) {
  case WEIR_LOG_CALL_FAILED:
    return "call_failed";
  case WEIR_LOG_CHANNEL_WRAPPED:
    return "channel_wrapped";
  case WEIR_LOG_BREAKER_CHANGED:
    return "breaker_changed";
  case WEIR_LOG_CORE_CONFIG_KEPT:
    return "core_config_kept";
  case WEIR_LOG_POLICY_REFUSED:
    return "policy_refused";
  case WEIR_LOG_POLICY_APPLIED:
    return "policy_applied";
  case WEIR_LOG_POLICY_MISSING:
    return "policy_missing";
  case WEIR_LOG_POLICY_UNREADABLE:
    return "policy_unreadable";
  case WEIR_LOG_POLICY_POLLED:
    return "policy_polled";
  }
  return "unknown";
}

/* Nothing where none was asked. */
static void put_fallback(struct writer *writer, const struct weir_log_record *record) {
  if (record->fallback_result != WEIR_FALLBACK_NOT_ASKED) {
    put_word(writer, "fallback", weir_fallback_result_name(record->fallback_result), WORD_BYTES);
    put_word(writer, "fallback_source", record->fallback_source, WORD_BYTES);
  }
}

static void put_failure(struct writer *writer, const struct weir_log_record *record) {
  put_word(writer, "ref", record->reference, WORD_BYTES);
  put_field(writer, "trace", record->trace, WORD_BYTES);
  put_word(writer, "code", weir_status_code_name(record->code), WORD_BYTES);
  put_word(writer, "raw_code", weir_status_code_name(record->raw_code), WORD_BYTES);
  put_word(writer, "origin", weir_origin_name(record->origin), WORD_BYTES);
  put_word(writer, "blames", weir_blame_name(record->blames), WORD_BYTES);
  put_word(writer, "reason", weir_reason_name(record->reason), WORD_BYTES);
  put_fallback(writer, record);
  put_count(writer, "attempts", record->n_attempts);
  put_number(writer, "duration_us", record->duration_ns / NS_PER_US);
  put_field(writer, "path", record->path, SHORT_TEXT_BYTES);
  put_word(writer, "target", record->target, SHORT_TEXT_BYTES);
  put_field(writer, "peer", record->peer, SHORT_TEXT_BYTES);
  put_field(writer, "message", record->message, LONG_TEXT_BYTES);
  put_count(writer, "details_bytes", record->details.size);
  put_field(writer, "error", record->error_string, LONG_TEXT_BYTES);
}

static const char *override_name(enum weir_breaker_override override) {
  switch (override) {
  case WEIR_BREAKER_OVERRIDE_NONE:
    return "NONE";
  case WEIR_BREAKER_OVERRIDE_OPEN:
    return "OPEN";
  case WEIR_BREAKER_OVERRIDE_DISABLED:
    return "DISABLED";
  }
  return "UNKNOWN";
}

static void put_change(struct writer *writer, const struct weir_log_record *record) {
  put_field(writer, "breaker", record->breaker, SHORT_TEXT_BYTES);
  put_word(writer, "from", weir_breaker_state_name(record->breaker_from), WORD_BYTES);
  put_word(writer, "to", weir_breaker_state_name(record->breaker_to), WORD_BYTES);
  put_count(writer, "generation", record->breaker_generation);
  put_word(writer, "override", override_name(record->breaker_override), WORD_BYTES);
  if (record->raw_code != GRPC_STATUS_OK) {
    put_word(writer, "raw_code", weir_status_code_name(record->raw_code), WORD_BYTES);
    put_word(writer, "origin", weir_origin_name(record->origin), WORD_BYTES);
  }
  if (record->next_probe_in_ns != WEIR_NO_LIMIT_NS) {
    put_number(writer, "next_probe_us", record->next_probe_in_ns / NS_PER_US);
  }
}

size_t weir__json_line_format(const struct weir_log_record *record, uint64_t n_left_out,
                              char line_out[WEIR__JSON_LINE_BYTES]) {
  struct writer writer = {
      .out = line_out, .size = 0, .capacity = WEIR__JSON_LINE_BYTES - END_BYTES};
  put_time(&writer, record->time_unix_ns);
  put_word(&writer, "weir", event_name(record->event), WORD_BYTES);
  if (n_left_out > 0) {
    put_count(&writer, "left_out", n_left_out);
  }
  if (record->event == WEIR_LOG_CALL_FAILED) {
    put_failure(&writer, record);
  } else {
    if (record->event == WEIR_LOG_BREAKER_CHANGED) {
      put_change(&writer, record);
    }
    put_word(&writer, "target", record->target, SHORT_TEXT_BYTES);
    put_word(&writer, "text", record->text, LONG_TEXT_BYTES);
  }
  writer.capacity = WEIR__JSON_LINE_BYTES - 1;
  put_text(&writer, "}\n");
  line_out[writer.size] = '\0';
  return writer.size;
}
