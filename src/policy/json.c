/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/policy/json_number.h"

/* Up to this many keys are compared with each other; more are sorted. */
#define FEW_KEYS 16

/* The widths of struct weir__json_value. */
#define PLACE_MASK 0x7fffffU
#define KIND_MASK 0x7U

struct reader {
  struct weir__json *json;
  const char *text;
  size_t size;
  size_t at;
  uint32_t depth;
  bool out_of_memory;
  const char *fault; /* static */
  size_t fault_at;
};

static bool read_value(struct reader *reader);

/* False, so that a reader can return it. The first fault is kept. */
static bool fail_at(struct reader *reader, size_t at, const char *fault) {
  if (reader->fault == NULL) {
    reader->fault = fault;
    reader->fault_at = at;
  }
  return false;
}

static bool fail_memory(struct reader *reader) {
  reader->out_of_memory = true;
  return false;
}

static bool at_end(const struct reader *reader) {
  return reader->at == reader->size;
}

/* '\0' at the end: no place takes that byte. */
static char peek(const struct reader *reader) {
  return at_end(reader) ? '\0' : reader->text[reader->at];
}

static void skip_space(struct reader *reader) {
  while (!at_end(reader)) {
    const char c = reader->text[reader->at];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      return;
    }
    reader->at++;
  }
}

/* There is a place for every value: see count_values. */
static uint32_t add_value(struct reader *reader, enum weir__json_kind kind, size_t begin) {
  struct weir__json *json = reader->json;
  struct weir__json_value *value = &json->values[json->n_values];
  value->begin = (uint32_t)begin & PLACE_MASK;
  value->kind = (uint32_t)kind & KIND_MASK;
  value->duplicate = false;
  value->escaped = false;
  value->link = (uint32_t)reader->at;
  return json->n_values++;
}

/* ---- strings ---- */

/* The bytes of the UTF-8 character at `at`, 0 when there is none (RFC 3629). */
static size_t utf8_length(const char *text, size_t size, size_t at) {
  const unsigned char *bytes = (const unsigned char *)text + at;
  const size_t left = size - at;
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (bytes[0] < 0x80) {
    return 1;
  }
  if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf) {
    length = 2;
  } else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef) {
    length = 3;
    low = bytes[0] == 0xe0 ? 0xa0 : low;
    high = bytes[0] == 0xed ? 0x9f : high; /* no surrogates */
  } else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4) {
    length = 4;
    low = bytes[0] == 0xf0 ? 0x90 : low;
    high = bytes[0] == 0xf4 ? 0x8f : high;
  }
  if (length == 0 || length > left || bytes[1] < low || bytes[1] > high) {
    return 0;
  }
  for (size_t i = 2; i < length; i++) {
    if (bytes[i] < 0x80 || bytes[i] > 0xbf) {
      return 0;
    }
  }
  return length;
}

/* The four digits of a "\u", or -1. */
static int32_t hex4(const struct reader *reader, size_t at) {
  int32_t value = 0;
  if (reader->size - at < 4) {
    return -1;
  }
  for (size_t i = at; i < at + 4; i++) {
    const char c = reader->text[i];
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + (c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      value = value * 16 + (c - 'A' + 10);
    } else {
      return -1;
    }
  }
  return value;
}

static size_t put_utf8(char *out, uint32_t code_point) {
  if (code_point < 0x80) {
    out[0] = (char)code_point;
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = (char)(0xc0 | code_point >> 6);
    out[1] = (char)(0x80 | (code_point & 0x3f));
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = (char)(0xe0 | code_point >> 12);
    out[1] = (char)(0x80 | (code_point >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code_point & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | code_point >> 18);
  out[1] = (char)(0x80 | (code_point >> 12 & 0x3f));
  out[2] = (char)(0x80 | (code_point >> 6 & 0x3f));
  out[3] = (char)(0x80 | (code_point & 0x3f));
  return 4;
}

/* A "\u" with its surrogate's other half; `at` is behind the "u". */
static bool read_code_point(struct reader *reader, size_t escape_at, uint32_t *code_point_out) {
  const int32_t first = hex4(reader, reader->at);
  if (first < 0) {
    return fail_at(reader, escape_at, "\\u wants four hexadecimal digits");
  }
  reader->at += 4;
  *code_point_out = (uint32_t)first;
  if (first < 0xd800 || first > 0xdfff) {
    return true;
  }
  if (first <= 0xdbff && reader->size - reader->at >= 6 && reader->text[reader->at] == '\\' &&
      reader->text[reader->at + 1] == 'u') {
    const int32_t second = hex4(reader, reader->at + 2);
    if (second >= 0xdc00 && second <= 0xdfff) {
      reader->at += 6;
      *code_point_out = 0x10000 + (((uint32_t)first - 0xd800) << 10) + ((uint32_t)second - 0xdc00);
      return true;
    }
  }
  return fail_at(reader, escape_at, "half of a surrogate pair");
}

/* Decodes the escape at `reader->at` to `out`, four bytes at most. */
static bool read_escape(struct reader *reader, char *out, size_t *n_out) {
  static const char names[] = "\"\\/bfnrt";
  static const char meanings[] = "\"\\/\b\f\n\r\t";
  const size_t escape_at = reader->at;
  reader->at++;
  const char c = peek(reader);
  reader->at += at_end(reader) ? 0 : 1;
  if (c == 'u') {
    uint32_t code_point = 0;
    if (!read_code_point(reader, escape_at, &code_point)) {
      return false;
    }
    *n_out = put_utf8(out, code_point);
    return true;
  }
  const char *name = c == '\0' ? NULL : strchr(names, c);
  if (name == NULL) {
    return fail_at(reader, escape_at, "no such escape in JSON");
  }
  *out = meanings[name - names];
  *n_out = 1;
  return true;
}

/* A byte in each of the eight of a word. */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether all of eight bytes are ASCII that stands for itself in a string: a byte that does not sets
 * its highest bit in one of these. */
static bool is_plain(uint64_t word) {
  const uint64_t quote = word ^ EACH('"');
  const uint64_t escape = word ^ EACH('\\');
  const uint64_t faults =
      word | (word - EACH(0x20)) | (quote - EACH(1)) | (escape - EACH(1)); /* borrows are faults */
  return (faults & EACH(0x80)) == 0;
}

/* Moves over what strings are most often made of. */
static void skip_plain(struct reader *reader) {
  const char *text = reader->text;
  size_t at = reader->at;
  uint64_t word = 0;
  for (; reader->size - at >= sizeof word; at += sizeof word) {
    memcpy(&word, text + at, sizeof word);
    if (!is_plain(word)) {
      break;
    }
  }
  while (at < reader->size && text[at] >= 0x20 && text[at] != '"' && text[at] != '\\') {
    at++;
  }
  reader->at = at;
}

/* Moves over one character of a string. */
static bool read_character(struct reader *reader) {
  const unsigned char c = (unsigned char)reader->text[reader->at];
  if (c == '\n' || c == '\r') {
    return fail_at(reader, reader->at, "a string ends on its line: \\n is a line break in it");
  }
  if (c < 0x20) {
    return fail_at(reader, reader->at, "a control character in a string: write \\u00..");
  }
  const size_t length = utf8_length(reader->text, reader->size, reader->at);
  if (length == 0) {
    return fail_at(reader, reader->at, "not UTF-8");
  }
  reader->at += length;
  return true;
}

/* What all strings with escapes take from here on, each with its size in front: escapes get no longer
 * by being resolved. As far as the document is well-formed these are the strings that will be read. */
static size_t measure_escaped(const struct reader *reader, size_t at) {
  size_t n = 0;
  for (; at < reader->size; at++) {
    if (reader->text[at] == '"') {
      bool escaped = false;
      const size_t begin = ++at;
      for (; at < reader->size && reader->text[at] != '"'; at++) {
        escaped = escaped || reader->text[at] == '\\';
        at += reader->text[at] == '\\' ? 1 : 0;
      }
      n += escaped ? at - begin + sizeof(uint32_t) : 0;
    }
  }
  return n;
}

/* Room for the escaped strings of the whole document, when the first one is met. */
static bool ensure_decoded(struct reader *reader, size_t quote_at) {
  struct weir__json *json = reader->json;
  if (json->decoded == NULL) {
    json->decoded =
        json->allocator->allocate(json->allocator->context, measure_escaped(reader, quote_at));
  }
  return json->decoded != NULL;
}

/* From the first escape on; what came before it is at `begin`. */
static bool read_escaped(struct reader *reader, size_t begin, uint32_t *decoded_out) {
  struct weir__json *json = reader->json;
  if (!ensure_decoded(reader, begin - 1)) {
    return fail_memory(reader);
  }
  const uint32_t header = json->n_decoded;
  char *out = json->decoded + header + sizeof(uint32_t);
  size_t n = reader->at - begin;
  memcpy(out, reader->text + begin, n);
  while (!at_end(reader) && peek(reader) != '"') {
    const size_t from = reader->at;
    if (peek(reader) == '\\') {
      size_t n_escape = 0;
      if (!read_escape(reader, out + n, &n_escape)) {
        return false;
      }
      n += n_escape;
    } else if (read_character(reader)) {
      memcpy(out + n, reader->text + from, reader->at - from);
      n += reader->at - from;
    } else {
      return false;
    }
  }
  const uint32_t size = (uint32_t)n;
  memcpy(json->decoded + header, &size, sizeof size);
  json->n_decoded = header + (uint32_t)sizeof size + size;
  *decoded_out = header;
  return true;
}

static bool read_string(struct reader *reader) {
  const size_t quote_at = reader->at;
  uint32_t decoded = 0;
  reader->at++;
  skip_plain(reader);
  while (!at_end(reader) && peek(reader) != '"' && peek(reader) != '\\') {
    if (!read_character(reader)) {
      return false;
    }
    skip_plain(reader);
  }
  const bool escaped = peek(reader) == '\\';
  if (escaped && !read_escaped(reader, quote_at + 1, &decoded)) {
    return false;
  }
  if (at_end(reader)) {
    return fail_at(reader, quote_at, "a string without an end");
  }
  reader->at++;
  const uint32_t index = add_value(reader, WEIR__JSON_STRING, quote_at);
  if (escaped) {
    reader->json->values[index].escaped = true;
    reader->json->values[index].link = decoded;
  }
  return true;
}

/* ---- numbers and words ---- */

static bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool is_number_byte(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static const char *number_fault(const char *text, size_t size) {
  const size_t sign = text[0] == '-' ? 1 : 0;
  if (text[0] == '+') {
    return "a number has no plus sign in front";
  }
  if (size > sign && text[sign] == '.') {
    return "a number begins with a digit: write 0 before the point";
  }
  if (size > sign + 1 && text[sign] == '0' && text[sign + 1] >= '0' && text[sign + 1] <= '9') {
    return "a number has no leading zeros";
  }
  if (text[size - 1] == '.') {
    return "a number does not end with its point";
  }
  return "not a number of JSON";
}

static bool read_number(struct reader *reader) {
  const size_t begin = reader->at;
  struct weir__json_number decimal;
  while (!at_end(reader) && is_number_byte(peek(reader))) {
    reader->at++;
  }
  const char *text = reader->text + begin;
  const size_t size = reader->at - begin;
  if (!weir__json_number_parse(text, size, &decimal)) {
    return fail_at(reader, begin, number_fault(text, size));
  }
  if (is_word_byte(peek(reader))) { /* 0x10, 1_000, 10ms */
    return fail_at(reader, begin, "not a number of JSON, which is decimal and has no unit");
  }
  add_value(reader, WEIR__JSON_NUMBER, begin);
  return true;
}

static bool read_word(struct reader *reader) {
  static const struct {
    const char *word;
    enum weir__json_kind kind;
  } words[] = {{"null", WEIR__JSON_NULL}, {"true", WEIR__JSON_TRUE}, {"false", WEIR__JSON_FALSE}};
  const size_t begin = reader->at;
  while (!at_end(reader) && is_word_byte(peek(reader))) {
    reader->at++;
  }
  const size_t size = reader->at - begin;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (strlen(words[i].word) == size && memcmp(words[i].word, reader->text + begin, size) == 0) {
      add_value(reader, words[i].kind, begin);
      return true;
    }
  }
  return fail_at(reader, begin,
                 "no such word in JSON: null, true and false are, and strings have double quotes");
}

/* ---- what goes wrong between values ---- */

/* For a byte that can't begin what must come next: `expected` unless something better can be
 * said. */
static bool fail_unexpected(struct reader *reader, const char *expected) {
  const char c = peek(reader);
  if (at_end(reader)) {
    return fail_at(reader, reader->at, "the document ends too early");
  }
  if (c == '/' || c == '#') {
    return fail_at(reader, reader->at, "a comment: JSON has none");
  }
  if (c == '\'') {
    return fail_at(reader, reader->at, "strings have double quotes");
  }
  if (c == '\0') {
    return fail_at(reader, reader->at, "a NUL byte: a document is text, in UTF-8");
  }
  return fail_at(reader, reader->at, expected);
}

/* ---- arrays and objects ---- */

static bool enter(struct reader *reader) {
  if (reader->depth == WEIR__JSON_MAX_DEPTH) {
    return fail_at(reader, reader->at, "nested deeper than 64 levels");
  }
  reader->depth++;
  reader->at++;
  skip_space(reader);
  return true;
}

static bool leave(struct reader *reader, uint32_t index) {
  reader->depth--;
  reader->at++;
  reader->json->values[index].link = reader->json->n_values;
  return true;
}

/* Behind an element: true = another one follows. `*more_out` false = the end does. */
static bool read_comma(struct reader *reader, char closer, const char *trailing,
                       const char *expected, bool *more_out) {
  skip_space(reader);
  const size_t comma_at = reader->at;
  *more_out = peek(reader) == ',';
  if (!*more_out) {
    return peek(reader) == closer || fail_unexpected(reader, expected);
  }
  reader->at++;
  skip_space(reader);
  if (peek(reader) == closer) {
    return fail_at(reader, comma_at, trailing);
  }
  return true;
}

static bool read_array(struct reader *reader) {
  const uint32_t index = add_value(reader, WEIR__JSON_ARRAY, reader->at);
  if (!enter(reader)) {
    return false;
  }
  bool more = peek(reader) != ']';
  while (more) {
    if (!read_value(reader) ||
        !read_comma(reader, ']', "a comma before \"]\": JSON has no trailing commas",
                    "a comma or \"]\" was expected", &more)) {
      return false;
    }
  }
  return leave(reader, index);
}

static bool read_member(struct reader *reader) {
  if (peek(reader) != '"') {
    return fail_unexpected(reader, "a key in double quotes was expected");
  }
  if (!read_string(reader)) {
    return false;
  }
  skip_space(reader);
  if (peek(reader) != ':') {
    return fail_unexpected(reader, "a colon was expected behind the key");
  }
  reader->at++;
  skip_space(reader);
  return read_value(reader);
}

/* ---- keys that occur twice ---- */

static int compare_text(struct weir__json_text a, struct weir__json_text b) {
  const size_t common = a.size < b.size ? a.size : b.size;
  const int order = common == 0 ? 0 : memcmp(a.text, b.text, common);
  if (order != 0) {
    return order;
  }
  return (a.size > b.size) - (a.size < b.size);
}

struct sorted_key {
  struct weir__json_text text;
  struct weir__json_value *value;
};

/* Equal keys in the order of the document. */
static int compare_keys(const void *a, const void *b) {
  const struct sorted_key *left = a;
  const struct sorted_key *right = b;
  const int order = compare_text(left->text, right->text);
  if (order != 0) {
    return order;
  }
  return (left->value->begin > right->value->begin) - (left->value->begin < right->value->begin);
}

static void mark_few(struct weir__json *json, uint32_t object) {
  const uint32_t end = json->n_values;
  for (uint32_t key = object + 1; key < end; key = weir__json_next(json, key + 1)) {
    const struct weir__json_text text = weir__json_string(json, key);
    for (uint32_t other = object + 1; other < key; other = weir__json_next(json, other + 1)) {
      if (compare_text(text, weir__json_string(json, other)) == 0) {
        json->values[key].duplicate = true;
      }
    }
  }
}

static bool mark_many(struct weir__json *json, uint32_t object, uint32_t n_keys) {
  struct sorted_key *keys = weir__zalloc_array(json->allocator, n_keys, sizeof *keys);
  uint32_t key = object + 1;
  if (keys == NULL) {
    return false;
  }
  for (uint32_t i = 0; i < n_keys; i++) {
    keys[i].text = weir__json_string(json, key);
    keys[i].value = &json->values[key];
    key = weir__json_next(json, key + 1);
  }
  qsort(keys, n_keys, sizeof *keys, compare_keys);
  for (uint32_t i = 1; i < n_keys; i++) {
    keys[i].value->duplicate = compare_text(keys[i - 1].text, keys[i].text) == 0;
  }
  weir__free(json->allocator, keys);
  return true;
}

static bool read_object(struct reader *reader) {
  const uint32_t index = add_value(reader, WEIR__JSON_OBJECT, reader->at);
  uint32_t n_keys = 0;
  if (!enter(reader)) {
    return false;
  }
  bool more = peek(reader) != '}';
  for (; more; n_keys++) {
    if (!read_member(reader) ||
        !read_comma(reader, '}', "a comma before \"}\": JSON has no trailing commas",
                    "a comma or \"}\" was expected", &more)) {
      return false;
    }
  }
  if (n_keys <= FEW_KEYS) {
    mark_few(reader->json, index);
  } else if (!mark_many(reader->json, index, n_keys)) {
    return fail_memory(reader);
  }
  return leave(reader, index);
}

/* ---- the whole ---- */

/* Calls itself through arrays and objects, WEIR__JSON_MAX_DEPTH deep at most. */
static bool read_value(struct reader *reader) {
  const char c = peek(reader);
  if (c == '{') {
    return read_object(reader);
  }
  if (c == '[') {
    return read_array(reader);
  }
  if (c == '"') {
    return read_string(reader);
  }
  if (is_number_byte(c) && c != 'e' && c != 'E') {
    return read_number(reader);
  }
  if (is_word_byte(c)) {
    return read_word(reader);
  }
  return fail_unexpected(reader,
                         c == ',' ? "a value is missing before the comma" : "a value was expected");
}

/* What is wrong with how the text is encoded, as its first bytes tell; NULL = nothing. */
static const char *mark_fault(const char *text, size_t size) {
  static const struct {
    const char *bytes;
    size_t size;
    const char *fault;
  } marks[] = {
      {"\xef\xbb\xbf", 3, "a UTF-8 byte order mark: save the document without one"},
      {"\xff\xfe\0\0", 4, "this is UTF-32: save the document as UTF-8"},
      {"\0\0\xfe\xff", 4, "this is UTF-32: save the document as UTF-8"},
      {"\xff\xfe", 2, "this is UTF-16: save the document as UTF-8"},
      {"\xfe\xff", 2, "this is UTF-16: save the document as UTF-8"},
  };
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    if (size >= marks[i].size && memcmp(text, marks[i].bytes, marks[i].size) == 0) {
      return marks[i].fault;
    }
  }
  return NULL;
}

static bool read_document(struct reader *reader) {
  const char *mark = mark_fault(reader->text, reader->size);
  if (mark != NULL) {
    return fail_at(reader, 0, mark);
  }
  skip_space(reader);
  if (at_end(reader)) {
    return fail_at(reader, 0, "the document is empty");
  }
  if (!read_value(reader)) {
    return false;
  }
  skip_space(reader);
  return at_end(reader) || fail_unexpected(reader, "the document ends before this");
}

/* No fewer than the values and keys that a document of these bytes can have: each but the first has
 * one of these in front of it. */
static size_t count_values(const char *text, size_t size) {
  static const unsigned char is_counted[256] = {[','] = 1, [':'] = 1, ['['] = 1, ['{'] = 1};
  size_t n = 1;
  for (size_t i = 0; i < size; i++) {
    n += is_counted[(unsigned char)text[i]];
  }
  return n;
}

static enum weir_error report_fault(const struct reader *reader,
                                    struct weir_diagnostic *fault_out) {
  struct weir__json_place place = WEIR__JSON_PLACE_INIT;
  *fault_out = (struct weir_diagnostic){.line = 0}; /* all of it: it is copied whole */
  snprintf(fault_out->message, sizeof fault_out->message, "%s", reader->fault);
  weir__json_place_move(reader->text, &place, reader->fault_at);
  fault_out->line = place.line;
  fault_out->column = place.column;
  return WEIR_ERROR_INVALID_POLICY;
}

enum weir_error weir__json_init(struct weir__json *json, const char *text, size_t size,
                                const struct weir_allocator *allocator,
                                struct weir_diagnostic *fault_out) {
  struct reader reader = {.json = json, .text = text, .size = size};
  *json = (struct weir__json){.allocator = allocator, .text = text};
  if (size > WEIR__JSON_MAX_SIZE) {
    reader.fault = "the document is larger than 4 MiB";
    return report_fault(&reader, fault_out);
  }
  json->size = (uint32_t)size;
  json->capacity = (uint32_t)count_values(text, size);
  /* Not zeroed: what a broken document does not need is not touched. */
  json->values = allocator->allocate(allocator->context, json->capacity * sizeof *json->values);
  if (json->values == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  if (read_document(&reader)) {
    return WEIR_OK;
  }
  return reader.out_of_memory ? WEIR_ERROR_NO_MEMORY : report_fault(&reader, fault_out);
}

void weir__json_fini(struct weir__json *json) {
  weir__free(json->allocator, json->values);
  weir__free(json->allocator, json->decoded);
  json->values = NULL;
  json->decoded = NULL;
}

/* The bytes that continue a character are not counted. */
static bool begins_character(char c) {
  return (unsigned char)c < 0x80 || (unsigned char)c >= 0xc0;
}

static void place_move_back(const char *text, struct weir__json_place *place, size_t to) {
  const uint32_t line = place->line;
  for (; place->at > to; place->at--) {
    const char c = text[place->at - 1];
    place->line -= c == '\n' ? 1 : 0;
    place->column -= c != '\n' && begins_character(c) ? 1 : 0;
  }
  if (place->line != line) {
    place->column = 1;
    for (size_t i = to; i > 0 && text[i - 1] != '\n'; i--) {
      place->column += begins_character(text[i - 1]) ? 1 : 0;
    }
  }
}

void weir__json_place_move(const char *text, struct weir__json_place *place, size_t to) {
  place_move_back(text, place, to);
  for (; place->at < to; place->at++) {
    const char c = text[place->at];
    place->line += c == '\n' ? 1 : 0;
    place->column = c == '\n' ? 1 : place->column + (begins_character(c) ? 1 : 0);
  }
}

struct weir__json_text weir__json_string(const struct weir__json *json, uint32_t index) {
  const struct weir__json_value *value = &json->values[index];
  if (!value->escaped) {
    return (struct weir__json_text){json->text + value->begin + 1, value->link - value->begin - 2};
  }
  const char *header = json->decoded + value->link;
  uint32_t size = 0;
  memcpy(&size, header, sizeof size);
  return (struct weir__json_text){header + sizeof size, size};
}

/* Behind the string that begins at `at`. The document is known to be well-formed. */
static size_t string_end(const char *text, size_t at) {
  for (at++; text[at] != '"'; at++) {
    at += text[at] == '\\' ? 1 : 0;
  }
  return at + 1;
}

/* Behind the array, object or string that begins at `at`. */
static size_t find_end(const char *text, size_t at) {
  size_t depth = 0;
  do {
    const char c = text[at];
    depth += c == '[' || c == '{' ? 1 : 0;
    depth -= c == ']' || c == '}' ? 1 : 0;
    at = c == '"' ? string_end(text, at) : at + 1;
  } while (depth > 0);
  return at;
}

struct weir__json_text weir__json_source(const struct weir__json *json, uint32_t index) {
  const struct weir__json_value *value = &json->values[index];
  const bool ends_at_link = value->kind < WEIR__JSON_ARRAY && !value->escaped;
  const size_t end = ends_at_link ? value->link : find_end(json->text, value->begin);
  return (struct weir__json_text){json->text + value->begin, end - value->begin};
}
