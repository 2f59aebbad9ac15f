/* SPDX-License-Identifier: Apache-2.0 */
#include "src/log/json_log.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What each text of a record may take of a line: the others, and the frame, have room beside it. */
#define TEXT_BYTES 640
#define FRAME_BYTES 128

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

static void put_character(struct writer *writer, const unsigned char *text, size_t length) {
  char escaped[8];
  if (length == 0) {
    put_text(writer, "\\ufffd");
  } else if (length == 1 && (text[0] == '"' || text[0] == '\\')) {
    escaped[0] = '\\';
    escaped[1] = (char)text[0];
    put(writer, escaped, 2);
  } else if (length == 1 && (text[0] < 0x20 || text[0] == 0x7f)) {
    put(writer, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)text[0]));
  } else {
    put(writer, (const char *)text, length);
  }
}

static void put_field(struct writer *writer, const char *name, const char *data, size_t size) {
  put_text(writer, ",\"");
  put_text(writer, name);
  put_text(writer, "\":\"");
  size_t limit = writer->size + TEXT_BYTES;
  const unsigned char *text = (const unsigned char *)data;
  for (size_t i = 0; i < size;) {
    if (writer->size >= limit) {
      put_text(writer, "\xe2\x80\xa6"); /* an ellipsis: there was more */
      break;
    }
    size_t length = utf8_length(text + i, size - i);
    put_character(writer, text + i, length);
    i += length > 0 ? length : 1;
  }
  put_text(writer, "\"");
}

static void put_name(struct writer *writer, const char *name, const char *value) {
  put_field(writer, name, value, strlen(value));
}

size_t weir__json_log_format(const struct weir_log_record *record,
                             char line_out[WEIR__JSON_LOG_LINE_BYTES]) {
  struct writer writer = {
      .out = line_out, .size = 0, .capacity = WEIR__JSON_LOG_LINE_BYTES - FRAME_BYTES};
  char numbers[96];
  put_text(&writer, "{\"weir\":\"call_failed\"");
  put_name(&writer, "ref", record->reference);
  put_name(&writer, "code", weir_status_code_name(record->code));
  put_name(&writer, "raw_code", weir_status_code_name(record->raw_code));
  put_name(&writer, "origin", weir_origin_name(record->origin));
  put_name(&writer, "blames", weir_blame_name(record->blames));
  put_name(&writer, "reason", weir_reason_name(record->reason));
  put(&writer, numbers,
      (size_t)snprintf(numbers, sizeof numbers,
                       ",\"attempts\":%" PRIu32 ",\"duration_us\":%" PRId64, record->n_attempts,
                       record->duration_ns / 1000));
  put_field(&writer, "path", record->path.data, record->path.size);
  put_name(&writer, "target", record->target);
  put_field(&writer, "peer", record->peer.data, record->peer.size);
  put_field(&writer, "message", record->message.data, record->message.size);
  put(&writer, numbers,
      (size_t)snprintf(numbers, sizeof numbers, ",\"details_bytes\":%zu", record->details.size));
  put_field(&writer, "error", record->error_string.data, record->error_string.size);
  writer.capacity = WEIR__JSON_LOG_LINE_BYTES - 1;
  put_text(&writer, "}\n");
  line_out[writer.size] = '\0';
  return writer.size;
}

static void write_line(void *context, const struct weir_log_record *record) {
  (void)context;
  char line[WEIR__JSON_LOG_LINE_BYTES];
  size_t size = weir__json_log_format(record, line);
  /* A log that can't be written has nowhere to say so. */
  ssize_t written = write(STDERR_FILENO, line, size);
  (void)written;
}

static const struct weir_log_sink json_sink = {
    .size = sizeof(struct weir_log_sink),
    .write = write_line,
    .context = NULL,
};

const struct weir_log_sink *weir__json_log_sink(void) {
  return &json_sink;
}
