/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Longer keys are cut in what is printed. */
#define KEY_PRINTED 64

static bool continues_character(char c) {
  return ((unsigned char)c & 0xc0) == 0x80;
}

int weir__text_cut(const char *text, size_t size, size_t most) {
  if (size <= most) {
    return (int)size;
  }
  while (most > 0 && continues_character(text[most])) {
    most--;
  }
  return (int)most;
}

void weir__text_make_printable(char *text, size_t size, bool cut) {
  size_t length = strlen(text);
  if (cut && length == size - 1) {
    size_t start = length;
    while (start > 0 && continues_character(text[start - 1])) {
      start--;
    }
    if (start > 0 && (unsigned char)text[start - 1] >= 0xc0) {
      text[start - 1] = '\0'; /* that character may lack its end; it is not worth a closer look */
    }
    length = strlen(text);
  }
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
      text[i] = '?';
    }
  }
}

/* Appends at `n`, and returns where the next goes, which may be past the end. */
static size_t append(char *out, size_t out_size, size_t n, const char *text, size_t size) {
  for (size_t i = 0; i < size && n + i < out_size - 1; i++) {
    out[n + i] = text[i] == '\0' ? '?' : text[i];
    out[n + i + 1] = '\0';
  }
  return n + size;
}

/* A document has WEIR__JSON_MAX_DEPTH levels at most, and a policy far fewer. */
static size_t print_path(const struct weir__path *path, char *out, size_t out_size) {
  char index[32];
  size_t n = 0;
  if (path == NULL) {
    return 0;
  }
  n = print_path(path->parent, out, out_size);
  if (path->key == NULL) {
    const int length = snprintf(index, sizeof index, "[%zu]", path->index);
    return append(out, out_size, n, index, (size_t)length);
  }
  if (n > 0) {
    n = append(out, out_size, n, ".", 1);
  }
  n = append(out, out_size, n, path->key,
             (size_t)weir__text_cut(path->key, path->key_size, KEY_PRINTED));
  return path->key_size > KEY_PRINTED ? append(out, out_size, n, "...", 3) : n;
}

void weir__path_print(const struct weir__path *path, char *out, size_t out_size) {
  out[0] = '\0';
  const size_t n = print_path(path, out, out_size);
  weir__text_make_printable(out, out_size, n > out_size - 1);
}

void weir__problems_read(struct weir__problems *problems, const char *text, size_t size) {
  problems->text = text;
  problems->size = size;
  problems->place = (struct weir__json_place)WEIR__JSON_PLACE_INIT;
}

/* What is nowhere in the document is where its first value begins. */
static size_t place_of(const struct weir__problems *problems, const struct weir__path *path) {
  size_t first = 0;
  for (; path != NULL; path = path->parent) {
    if (path->at > 0) {
      return path->at - 1;
    }
  }
  while (first < problems->size && strchr(" \t\r\n", problems->text[first]) != NULL) {
    first++;
  }
  return first;
}

void weir__problems_add(struct weir__problems *problems, enum weir_policy_severity severity,
                        const struct weir_diagnostic *problem) {
  if (severity == WEIR_POLICY_REFUSED && problems->n_refused++ == 0 && problems->first != NULL) {
    *problems->first = *problem;
  }
  problems->n_told++;
  if (problems->options->on_problem != NULL) {
    problems->options->on_problem(problems->options->context, severity, problem);
  }
}

__attribute__((format(printf, 2, 0))) static void word(struct weir_diagnostic *diagnostic,
                                                       const char *format, va_list arguments) {
  char *message = diagnostic->message;
  const int n = vsnprintf(message, sizeof diagnostic->message, format, arguments);
  weir__text_make_printable(message, sizeof diagnostic->message,
                            n >= (int)sizeof diagnostic->message);
}

void weir__diagnostic_word(struct weir_diagnostic *diagnostic, const char *format, ...) {
  va_list arguments;
  if (diagnostic != NULL) {
    memset(diagnostic, 0, sizeof *diagnostic);
    va_start(arguments, format);
    word(diagnostic, format, arguments);
    va_end(arguments);
  }
}

void weir__problems_tell(struct weir__problems *problems, enum weir_policy_severity severity,
                         const struct weir__path *path, const char *format, ...) {
  struct weir_diagnostic problem = {.line = 0, .column = 0};
  va_list arguments;
  weir__path_print(path, problem.path, sizeof problem.path);
  va_start(arguments, format);
  word(&problem, format, arguments);
  va_end(arguments);
  if (problems->text != NULL) {
    weir__json_place_move(problems->text, &problems->place, place_of(problems, path));
    problem.line = problems->place.line;
    problem.column = problems->place.column;
  }
  weir__problems_add(problems, severity, &problem);
}
