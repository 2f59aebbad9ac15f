/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/output.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/process.h"
#include "cmd/weirctl/verb.h"

#define COMPLAINT_SIZE 4096
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* ---- text from elsewhere ---- */

/* One character; the size is 0 where there is none, but a byte that is no UTF-8. */
struct character {
  unsigned long code;
  size_t size;
};

static struct character character_at(const char *text) {
  const unsigned char lead = (unsigned char)text[0];
  const size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  static const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
  static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  struct character character = {.code = lead & lead_bits[size], .size = size};
  for (size_t i = 1; i < size; i++) {
    const unsigned char next = (unsigned char)text[i];
    if ((next & 0xc0) != 0x80) {
      return (struct character){.code = 0, .size = 0};
    }
    character.code = character.code << 6 | (next & 0x3f);
  }
  if (lead > 0xf4 || character.code < least[size] || character.code > 0x10ffff ||
      (character.code >= 0xd800 && character.code <= 0xdfff)) {
    character.size = 0;
  }
  return character;
}

/* Controls of a terminal, of lines and of the direction of writing. */
static bool is_control(unsigned long code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

static void foreign_print(FILE *file, const char *text) {
  for (const char *at = text; *at != '\0';) {
    const struct character character = character_at(at);
    if (character.size == 0 || is_control(character.code)) {
      (void)fputc('?', file);
    } else {
      (void)fwrite(at, 1, character.size, file);
    }
    at += character.size > 0 ? character.size : 1;
  }
}

json_t *output_string(const char *text) {
  char *clean = memory_new(strlen(text) * (sizeof REPLACEMENT - 1) + 1);
  size_t n = 0;
  for (const char *at = text; *at != '\0';) {
    const struct character character = character_at(at);
    const char *from = character.size > 0 ? at : REPLACEMENT;
    const size_t size = character.size > 0 ? character.size : sizeof REPLACEMENT - 1;
    memcpy(clean + n, from, size);
    n += size;
    at += character.size > 0 ? character.size : 1;
  }
  json_t *string = json_stringn(clean, n);
  free(clean);
  return string;
}

/* ---- standard output ---- */

static const char *style_begin(enum style style) {
  switch (style) {
  case STYLE_PLAIN:
    return "";
  case STYLE_STRONG:
    return "\033[1m";
  case STYLE_FAINT:
    return "\033[2m";
  case STYLE_ERROR:
    return "\033[1;31m";
  case STYLE_WARNING:
    return "\033[1;35m";
  case STYLE_GOOD:
    return "\033[32m";
  }
  return "";
}

/* https://no-color.org: whatever it says, unless it is empty. */
static bool terminal_has_colors(FILE *file) {
  const char *no_color = process_variable("NO_COLOR");
  const char *terminal = process_variable("TERM");
  return isatty(fileno(file)) && (no_color == NULL || no_color[0] == '\0') && terminal != NULL &&
         terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
}

void output_init(struct output *output, FILE *file, const struct arguments *arguments) {
  *output = (struct output){.file = file, .as_json = arguments->as_json};
  output->colored =
      !arguments->as_json && (arguments->color == COLOR_ALWAYS ||
                              (arguments->color == COLOR_AUTO && terminal_has_colors(file)));
}

static bool style_open(const struct output *output, enum style style) {
  const bool styled = output->colored && style != STYLE_PLAIN;
  if (styled) {
    (void)fputs(style_begin(style), output->file);
  }
  return styled;
}

static void style_close(const struct output *output, bool styled) {
  if (styled) {
    (void)fputs("\033[0m", output->file);
  }
}

void output_text(const struct output *output, enum style style, const char *format, ...) {
  va_list arguments;
  const bool styled = style_open(output, style);
  va_start(arguments, format);
  (void)vfprintf(output->file, format, arguments);
  va_end(arguments);
  style_close(output, styled);
}

void output_foreign(const struct output *output, enum style style, const char *text) {
  const bool styled = style_open(output, style);
  foreign_print(output->file, text);
  style_close(output, styled);
}

/* In ASCII, which no terminal and no locale takes for anything else. */
char *output_json_text(const json_t *document) {
  char *text = json_dumps(document, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
  if (text == NULL) {
    complain_of_memory();
  }
  const size_t length = strlen(text);
  char *line = memory_new(length + sizeof "\n");
  memcpy(line, text, length + 1);
  line[length] = '\n';
  free(text);
  return line;
}

void output_json(const struct output *output, json_t *document) {
  char *text = output_json_text(document);
  (void)fputs(text, output->file);
  free(text);
  json_decref(document);
}

/* ---- standard error ---- */

void complain(const char *format, ...) {
  char text[COMPLAINT_SIZE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  (void)fputs("weirctl: ", stderr);
  foreign_print(stderr, text);
  (void)fputc('\n', stderr);
}

void complain_of_memory(void) {
  (void)fputs("weirctl: out of memory\n", stderr);
  process_end(VERDICT_FAILED);
}
