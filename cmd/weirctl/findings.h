/* findings – what was found in documents: problems of a load and warnings of weirctl's own, each
 * with its place, and printed as compilers do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_FINDINGS_H
#define WEIR_CMD_WEIRCTL_FINDINGS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <weir/policy.h>

#include "cmd/weirctl/output.h"
#include "cmd/weirctl/verb.h"

/* More are counted, and not kept. */
#define FINDINGS_MAX 10000

/* A place in a document. */
struct place {
  const char *file; /* as it was given; borrowed */
  const char *path; /* JSON path; "" = the whole */
  uint32_t line;    /* from 1; 0 = it has none */
  uint32_t column;
};

struct finding {
  enum weir_policy_severity severity;
  const char *id; /* static; what a kind of finding is called for ever */
  char *text;     /* message and paths are in it */
  const char *message;
  struct place place;
  struct place other; /* `file` NULL: there is none */
  size_t nth;         /* in the order in which they were added */
};

struct findings {
  struct finding *list;
  size_t n;
  size_t capacity;
  size_t n_refused; /* what is not kept, too */
  size_t n_warnings;
};

void findings_fini(struct findings *findings);

/* Adds one. What it is given is copied, but for `id` and the names of files. `other` NULL: there is
 * no second place. */
void findings_add(struct findings *findings, enum weir_policy_severity severity, const char *id,
                  const struct place *place, const struct place *other, const char *message);

/* In the order of their places; those that have none come last. */
void findings_sort(struct findings *findings);

/* How many were not kept. */
size_t findings_n_left_out(const struct findings *findings);

/* FILE:LINE:COLUMN: error: PATH: MESSAGE [ID], a line each. */
void findings_print(const struct findings *findings, const struct output *output);

/* A list of {"severity", "id", "file", "path", "line", "column", "message"}, with "other" where there
 * is a second place. */
json_t *findings_json(const struct findings *findings);

/* {"file", "path", "line", "column"}; line and column are null where there are none. */
json_t *place_json(const struct place *place);

/* Stable: "accepted", "refused", "unreadable". */
const char *verdict_name(enum verdict verdict);

/* ---- a load's problems ---- */

/* Where the problems of a load go. */
struct load {
  struct findings *findings;
  const char *file;
  const char *other_file; /* what a second place is in */
};

/* For weir_policy_load_options: `context` is a struct load. */
void load_on_problem(void *context, enum weir_policy_severity severity,
                     const struct weir_diagnostic *problem);

#endif /* WEIR_CMD_WEIRCTL_FINDINGS_H */
