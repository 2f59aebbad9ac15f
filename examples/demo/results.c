/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/results.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 8
#define CELL_SIZE 512
#define REAL_DIGITS 7 /* a millisecond count with its tenths */

struct column {
  const char *key;
  size_t width;
};

struct columns {
  struct column columns[COLUMNS_MAX];
  size_t n;
};

void results_init(struct results *results) {
  memset(results, 0, sizeof *results);
  results->document = json_object();
}

void results_fini(struct results *results) {
  json_decref(results->document);
}

void results_add(struct results *results, const char *table, json_t *row, bool as_expected,
                 const char *expected) {
  json_t *rows = json_object_get(results->document, table);
  if (rows == NULL) {
    rows = json_array();
    (void)json_object_set_new(results->document, table, rows);
  }
  results->n_rows++;
  if (!as_expected) {
    char *text = json_dumps(row, JSON_REAL_PRECISION(REAL_DIGITS));
    fprintf(stderr, "demo: %s: not as expected: %s; expected %s\n", table, text, expected);
    free(text);
    results->n_wrong++;
  }
  (void)json_array_append_new(rows, row);
}

static void cell_text(const json_t *value, char text_out[CELL_SIZE]) {
  if (json_is_string(value)) {
    (void)snprintf(text_out, CELL_SIZE, "%s", json_string_value(value));
  } else if (json_is_real(value)) {
    (void)snprintf(text_out, CELL_SIZE, "%.1f", json_real_value(value));
  } else if (json_is_integer(value)) {
    (void)snprintf(text_out, CELL_SIZE, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  } else {
    (void)snprintf(text_out, CELL_SIZE, "-");
  }
}

static struct column *column_of(struct columns *columns, const char *key) {
  for (size_t i = 0; i < columns->n; i++) {
    if (strcmp(columns->columns[i].key, key) == 0) {
      return &columns->columns[i];
    }
  }
  if (columns->n == COLUMNS_MAX) {
    return NULL;
  }
  struct column *column = &columns->columns[columns->n++];
  column->key = key;
  column->width = strlen(key);
  return column;
}

static void measure(const json_t *rows, struct columns *columns) {
  char text[CELL_SIZE];
  columns->n = 0;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    json_t *row = json_array_get(rows, i);
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(row, key, value) {
      struct column *column = column_of(columns, key);
      cell_text(value, text);
      if (column != NULL && strlen(text) > column->width) {
        column->width = strlen(text);
      }
    }
  }
}

/* Column names are the document's keys with spaces in place of underscores. */
static void print_key(FILE *file, const char *key, size_t width) {
  char text[CELL_SIZE];
  (void)snprintf(text, sizeof text, "%s", key);
  for (char *at = strchr(text, '_'); at != NULL; at = strchr(at, '_')) {
    *at = ' ';
  }
  fprintf(file, "  %-*s", (int)width, text);
}

static const json_t *begin(const struct results *results, FILE *file, const char *table,
                           const char *title, const char *remark) {
  fprintf(file, "%s\n", title);
  if (remark[0] != '\0') {
    fprintf(file, "%s\n", remark);
  }
  fputc('\n', file);
  return json_object_get(results->document, table);
}

void results_print(const struct results *results, FILE *file, const char *table, const char *title,
                   const char *remark) {
  char text[CELL_SIZE];
  struct columns columns;
  const json_t *rows = begin(results, file, table, title, remark);
  measure(rows, &columns);
  for (size_t c = 0; c < columns.n; c++) {
    print_key(file, columns.columns[c].key, columns.columns[c].width);
  }
  fputc('\n', file);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    for (size_t c = 0; c < columns.n; c++) {
      const json_t *value = json_object_get(json_array_get(rows, i), columns.columns[c].key);
      cell_text(value, text);
      fprintf(file, json_is_number(value) ? "  %*s" : "  %-*s", (int)columns.columns[c].width,
              text);
    }
    fputc('\n', file);
  }
  fputc('\n', file);
}

void results_print_blocks(const struct results *results, FILE *file, const char *table,
                          const char *title, const char *remark) {
  char text[CELL_SIZE];
  struct columns columns;
  const json_t *rows = begin(results, file, table, title, remark);
  measure(rows, &columns);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    for (size_t c = 0; c < columns.n; c++) {
      cell_text(json_object_get(json_array_get(rows, i), columns.columns[c].key), text);
      if (c == 0) {
        fprintf(file, "  %s\n", text);
      } else {
        fprintf(file, "    %-6s%s\n", columns.columns[c].key, text);
      }
    }
  }
  fputc('\n', file);
}

void results_print_json(const struct results *results, FILE *file) {
  (void)json_dumpf(results->document, file, JSON_INDENT(1) | JSON_REAL_PRECISION(REAL_DIGITS));
  fputc('\n', file);
}
