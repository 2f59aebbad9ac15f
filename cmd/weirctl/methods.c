/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/methods.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/weirctl/worst.h"
#include "src/policy/duration.h"

/* A name, and what holds for it. */
struct row {
  char *name;                     /* as view_name gives it */
  const struct view_entry *entry; /* NULL: no entry covers it */
  const struct weir_method_policy *method;
};

/* Where rows go: to `output`, or to `list` if there is one. */
struct rows {
  const struct output *output;
  json_t *list;
};

typedef void row_fn(const struct rows *rows, const struct row *row);

static bool is_for_all(const char *name) {
  return name[0] == '\0';
}

/* Calls back for each row, in the order of the entries. */
static void for_each_row(const struct policy_view *view, row_fn *told, const struct rows *rows) {
  bool all_covered = false;
  for (size_t i = 0; i < view_n_entries(view); i++) {
    struct view_entry entry;
    if (!view_entry_at(view, i, &entry)) {
      continue;
    }
    for (size_t k = 0; k < entry.n_names; k++) {
      struct row row = {.name = view_name(&entry, k), .entry = &entry};
      row.method = view_method(view, row.name);
      all_covered = all_covered || is_for_all(row.name);
      told(rows, &row);
      free(row.name);
    }
  }
  if (!all_covered) {
    char nothing[] = "";
    const struct row row = {.name = nothing, .method = view_method(view, nothing)};
    told(rows, &row);
  }
}

/* ---- as text ---- */

static void print_time(const struct output *output, int64_t ns) {
  char text[WEIR__DURATION_TEXT_SIZE] = "none";
  if (ns != WEIR_NO_LIMIT_NS) {
    weir__duration_print(ns, text);
  }
  output_text(output, STYLE_PLAIN, "  %12s", text);
}

static void print_row(const struct rows *rows, const struct row *row) {
  const struct output *output = rows->output;
  const struct worst unary = worst_of(row->method, WEIR_CALL_SHAPE_ONE_BATCH);
  const struct worst stream = worst_of(row->method, WEIR_CALL_SHAPE_STREAM);
  print_time(output, unary.longest_ns);
  output_text(output, STYLE_PLAIN, "  %8u", (unsigned)unary.n_attempts);
  print_time(output, stream.longest_ns);
  output_text(output, STYLE_PLAIN, "  %8u  ", (unsigned)stream.n_attempts);
  if (is_for_all(row->name)) {
    output_text(output, STYLE_PLAIN, "all other methods\n");
    return;
  }
  output_foreign(output, STYLE_PLAIN, row->name);
  output_text(output, STYLE_PLAIN, "%s\n", row->name[strlen(row->name) - 1] == '/' ? "*" : "");
}

void methods_print(const struct policy_view *view, const struct output *output) {
  const struct rows rows = {.output = output};
  output_text(output, STYLE_FAINT, "  %12s  %8s  %12s  %8s  %s\n", "unary call", "attempts",
              "stream", "attempts", "at most");
  for_each_row(view, print_row, &rows);
}

/* ---- as JSON ---- */

static json_t *seconds(int64_t ns) {
  return ns != WEIR_NO_LIMIT_NS ? json_real((double)ns / (double)WEIR_SECOND_NS) : json_null();
}

/* "/package.Service/Method", "/package.Service/" + "*", "*". */
static json_t *name_json(const char *name) {
  const size_t length = strlen(name);
  if (length > 0 && name[length - 1] != '/') {
    return output_string(name);
  }
  json_t *clean = output_string(name);
  json_t *starred = json_sprintf("%s*", json_string_value(clean));
  json_decref(clean);
  return starred;
}

static json_t *entry_json(const struct view_entry *entry) {
  if (entry == NULL || entry->line == 0) {
    return json_null();
  }
  const struct place place = view_entry_place(entry);
  return place_json(&place);
}

static void add_row(const struct rows *rows, const struct row *row) {
  json_t *object = json_object();
  const struct worst unary = worst_of(row->method, WEIR_CALL_SHAPE_ONE_BATCH);
  const struct worst stream = worst_of(row->method, WEIR_CALL_SHAPE_STREAM);
  (void)json_object_set_new(object, "name", name_json(row->name));
  (void)json_object_set_new(object, "entry", entry_json(row->entry));
  (void)json_object_set_new(object, "unary_attempts", json_integer(unary.n_attempts));
  (void)json_object_set_new(object, "longest_unary_seconds", seconds(unary.longest_ns));
  (void)json_object_set_new(object, "unary_deadline_seconds", seconds(unary.deadline_ns));
  (void)json_object_set_new(object, "default_unary_deadline_seconds", seconds(unary.default_ns));
  (void)json_object_set_new(object, "stream_attempts", json_integer(stream.n_attempts));
  (void)json_object_set_new(object, "longest_stream_seconds", seconds(stream.longest_ns));
  (void)json_object_set_new(object, "stream_deadline_seconds", seconds(stream.deadline_ns));
  (void)json_object_set_new(object, "default_stream_deadline_seconds", seconds(stream.default_ns));
  (void)json_array_append_new(rows->list, object);
}

json_t *methods_json(const struct policy_view *view) {
  const struct rows rows = {.list = json_array()};
  for_each_row(view, add_row, &rows);
  return rows.list;
}
