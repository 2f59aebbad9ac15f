/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/findings.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/source.h"

void findings_fini(struct findings *findings) {
  for (size_t i = 0; i < findings->n; i++) {
    free(findings->list[i].text);
  }
  free(findings->list);
  *findings = (struct findings){.list = NULL};
}

/* Copies a text to `*at`, and moves that behind it. */
static const char *put(char **at, const char *text) {
  const size_t size = strlen(text) + 1;
  char *copy = memcpy(*at, text, size);
  *at += size;
  return copy;
}

void findings_add(struct findings *findings, enum weir_policy_severity severity, const char *id,
                  const struct place *place, const struct place *other, const char *message) {
  findings->n_refused += severity == WEIR_POLICY_REFUSED ? 1 : 0;
  findings->n_warnings += severity == WEIR_POLICY_WARNING ? 1 : 0;
  if (findings->n == FINDINGS_MAX) {
    return;
  }
  findings->list =
      memory_grow(findings->list, findings->n, &findings->capacity, sizeof *findings->list);
  struct finding *finding = &findings->list[findings->n++];
  *finding =
      (struct finding){.severity = severity, .id = id, .place = *place, .nth = findings->n - 1};
  finding->text = memory_new(strlen(message) + strlen(place->path) +
                             (other != NULL ? strlen(other->path) : 0) + sizeof "\0\0");
  char *at = finding->text;
  finding->message = put(&at, message);
  finding->place.path = put(&at, place->path);
  if (other != NULL) {
    finding->other = *other;
    finding->other.path = put(&at, other->path);
  }
}

static int compare(size_t a, size_t b) {
  return a < b ? -1 : a > b;
}

static int compare_findings(const void *left, const void *right) {
  const struct finding *a = left;
  const struct finding *b = right;
  const int lines = compare(a->place.line - 1u, b->place.line - 1u); /* 0 is the last */
  const int columns = compare(a->place.column, b->place.column);
  return lines != 0 ? lines : columns != 0 ? columns : compare(a->nth, b->nth);
}

void findings_sort(struct findings *findings) {
  if (findings->n > 0) {
    qsort(findings->list, findings->n, sizeof *findings->list, compare_findings);
  }
}

size_t findings_n_left_out(const struct findings *findings) {
  return findings->n_refused + findings->n_warnings - findings->n;
}

/* ---- as text ---- */

static void print_place(const struct place *place, const struct output *output) {
  output_foreign(output, STYLE_STRONG, source_name(place->file));
  if (place->line > 0) {
    output_text(output, STYLE_STRONG, ":%u:%u", (unsigned)place->line, (unsigned)place->column);
  }
  output_text(output, STYLE_STRONG, ":");
}

static void print_path(const struct place *place, const struct output *output) {
  if (place->path[0] != '\0') {
    output_text(output, STYLE_PLAIN, " ");
    output_foreign(output, STYLE_PLAIN, place->path);
    output_text(output, STYLE_PLAIN, ":");
  }
}

static void print_finding(const struct finding *finding, const struct output *output) {
  const bool refused = finding->severity == WEIR_POLICY_REFUSED;
  print_place(&finding->place, output);
  output_text(output, refused ? STYLE_ERROR : STYLE_WARNING, refused ? " error:" : " warning:");
  print_path(&finding->place, output);
  output_text(output, STYLE_PLAIN, " ");
  output_foreign(output, STYLE_PLAIN, finding->message);
  output_text(output, STYLE_FAINT, " [%s]", finding->id);
  output_text(output, STYLE_PLAIN, "\n");
  if (finding->other.file != NULL) {
    print_place(&finding->other, output);
    output_text(output, STYLE_FAINT, " note:");
    print_path(&finding->other, output);
    output_text(output, STYLE_PLAIN, " the organisation's\n");
  }
}

void findings_print(const struct findings *findings, const struct output *output) {
  for (size_t i = 0; i < findings->n; i++) {
    print_finding(&findings->list[i], output);
  }
  if (findings_n_left_out(findings) > 0) {
    output_text(output, STYLE_STRONG, "... and %zu more\n", findings_n_left_out(findings));
  }
}

/* ---- as JSON ---- */

static void set_place(json_t *object, const struct place *place) {
  (void)json_object_set_new(object, "file", output_string(place->file));
  (void)json_object_set_new(object, "path", output_string(place->path));
  (void)json_object_set_new(object, "line",
                            place->line > 0 ? json_integer(place->line) : json_null());
  (void)json_object_set_new(object, "column",
                            place->line > 0 ? json_integer(place->column) : json_null());
}

json_t *place_json(const struct place *place) {
  json_t *object = json_object();
  set_place(object, place);
  return object;
}

json_t *findings_json(const struct findings *findings) {
  json_t *list = json_array();
  for (size_t i = 0; i < findings->n; i++) {
    const struct finding *finding = &findings->list[i];
    json_t *object = json_object();
    (void)json_object_set_new(
        object, "severity",
        json_string(finding->severity == WEIR_POLICY_REFUSED ? "error" : "warning"));
    (void)json_object_set_new(object, "id", json_string(finding->id));
    set_place(object, &finding->place);
    (void)json_object_set_new(object, "message", output_string(finding->message));
    if (finding->other.file != NULL) {
      (void)json_object_set_new(object, "other", place_json(&finding->other));
    }
    (void)json_array_append_new(list, object);
  }
  return list;
}

/* ---- a load's problems ---- */

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text);
  const size_t end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool begins_with(const char *text, const char *begin) {
  return strncmp(text, begin, strlen(begin)) == 0;
}

/* A load gives its warnings no names. There are few kinds; two are of any key, and of the others a
 * key has one. */
static const char *load_warning_id(const struct weir_diagnostic *problem) {
  static const struct {
    const char *path_end;
    const char *id;
  } ids[] = {
      {".retryPolicy.maxAttempts", "attempts-clamped"},
      {".hedgingPolicy", "hedging-ignored"},
      {".timeout", "timeout"},
      {".defaultTimeout", "timeout"},
      {".defaultStreamTimeout", "timeout"},
  };
  if (begins_with(problem->message, "enforces nothing")) {
    return "enforces-nothing";
  }
  if (begins_with(problem->message, "unknown key")) {
    return "unknown-key";
  }
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
    if (ends_with(problem->path, ids[i].path_end)) {
      return ids[i].id;
    }
  }
  if (ends_with(problem->path, "]")) {
    return strstr(problem->path, ".name[") != NULL ? "name-wildcard" : "entry-without-name";
  }
  return "unknown-key";
}

static const char *load_id(enum weir_policy_severity severity,
                           const struct weir_diagnostic *problem, const struct place *other) {
  switch (severity) {
  case WEIR_POLICY_REFUSED:
    return other != NULL ? "weaker" : "invalid";
  case WEIR_POLICY_WARNING:
    return other != NULL ? "ceiling" : load_warning_id(problem);
  }
  return "invalid";
}

void load_on_problem(void *context, enum weir_policy_severity severity,
                     const struct weir_diagnostic *problem) {
  const struct load *load = context;
  const struct place place = {
      .file = load->file, .path = problem->path, .line = problem->line, .column = problem->column};
  const struct place other_place = {.file = load->other_file,
                                    .path = problem->other_path,
                                    .line = problem->other_line,
                                    .column = problem->other_column};
  const bool has_other = problem->other_path[0] != '\0' || problem->other_line > 0;
  const struct place *other = has_other ? &other_place : NULL;
  findings_add(load->findings, severity, load_id(severity, problem, other), &place, other,
               problem->message);
}

/* ---- verdicts ---- */

const char *verdict_name(enum verdict verdict) {
  switch (verdict) {
  case VERDICT_ACCEPTED:
    return "accepted";
  case VERDICT_REFUSED:
    return "refused";
  case VERDICT_FAILED:
    return "unreadable";
  }
  return "unreadable";
}
