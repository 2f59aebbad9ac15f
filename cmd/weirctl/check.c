/* check – tells all that is wrong with documents, what is unwise in them, and how bad it can get.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cmd/weirctl/findings.h"
#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/methods.h"
#include "cmd/weirctl/policy_view.h"
#include "cmd/weirctl/source.h"
#include "cmd/weirctl/verb.h"
#include "cmd/weirctl/warnings.h"

enum option { OPTION_ORG, OPTION_LENIENT, OPTION_QUIET, OPTION_WERROR };

static const struct option_rule options[] = {
    [OPTION_ORG] = {"org", '\0', "FILE", "the organisation's document ($WEIR_ORG_POLICY)"},
    [OPTION_LENIENT] = {"lenient", '\0', NULL, "unknown keys are warnings"},
    [OPTION_QUIET] = {"quiet", 'q', NULL, "problems alone: no verdicts, no worst cases"},
    [OPTION_WERROR] = {"werror", '\0', NULL, "a document with warnings is refused"},
};

/* One document of those given. */
struct checked {
  struct source source;
  struct findings findings;
  enum verdict verdict;
  bool has_view;
  struct policy_view view;
  bool is_unlaid; /* there is an organisation's document, and it can't be laid under that */
};

/* What is asked for. */
struct task {
  const struct output *output;
  const struct checked *organisation; /* NULL: none */
  enum strictness strictness;
  bool quiet;
  bool werror;
};

/* ---- checking ---- */

/* The organisation's document is not laid under itself. */
static const struct policy_view *over(const struct task *task, struct checked *checked) {
  const struct checked *organisation = task->organisation;
  if (organisation == NULL || source_is_same(&organisation->source, &checked->source)) {
    return NULL;
  }
  checked->is_unlaid = !organisation->has_view;
  return organisation->has_view ? &organisation->view : NULL;
}

static void check(const struct task *task, const char *path, struct checked *checked) {
  *checked = (struct checked){.verdict = VERDICT_FAILED};
  if (!source_read(&checked->source, path)) {
    source_complain(path);
    return;
  }
  checked->has_view = policy_view_init(&checked->view, &checked->source, over(task, checked),
                                       task->strictness, &checked->findings);
  checked->verdict = checked->has_view ? VERDICT_ACCEPTED : VERDICT_REFUSED;
  if (checked->has_view) {
    warnings_add(&checked->view, &checked->findings);
    findings_sort(&checked->findings);
    if (task->werror && checked->findings.n_warnings > 0) {
      checked->verdict = VERDICT_REFUSED;
    }
  }
}

static void checked_fini(struct checked *checked) {
  if (checked->has_view) {
    policy_view_fini(&checked->view);
  }
  findings_fini(&checked->findings);
  source_fini(&checked->source);
}

/* ---- as text ---- */

static void print_count(const struct output *output, size_t n, const char *what) {
  if (n > 0) {
    output_text(output, STYLE_PLAIN, ", %zu %s%s", n, what, n == 1 ? "" : "s");
  }
}

static void print_verdict(const struct checked *checked, const struct output *output) {
  output_foreign(output, STYLE_STRONG, source_name(checked->source.path));
  output_text(output, STYLE_PLAIN, ": ");
  output_text(output, checked->verdict == VERDICT_ACCEPTED ? STYLE_GOOD : STYLE_ERROR, "%s",
              verdict_name(checked->verdict));
  print_count(output, checked->findings.n_refused, "error");
  print_count(output, checked->findings.n_warnings, "warning");
  output_text(output, STYLE_PLAIN, "%s\n",
              checked->is_unlaid ? ", by itself: the organisation's document is not accepted" : "");
}

static void print(const struct task *task, const struct checked *checked) {
  findings_print(&checked->findings, task->output);
  if (task->quiet || checked->verdict == VERDICT_FAILED) {
    return;
  }
  print_verdict(checked, task->output);
  if (checked->has_view) {
    methods_print(&checked->view, task->output);
  }
}

/* ---- as JSON ---- */

static json_t *checked_json(const struct checked *checked) {
  json_t *object = json_object();
  const size_t n_left_out = findings_n_left_out(&checked->findings);
  (void)json_object_set_new(object, "file", output_string(checked->source.path));
  (void)json_object_set_new(object, "verdict", json_string(verdict_name(checked->verdict)));
  (void)json_object_set_new(object, "errors",
                            json_integer((json_int_t)checked->findings.n_refused));
  (void)json_object_set_new(object, "warnings",
                            json_integer((json_int_t)checked->findings.n_warnings));
  (void)json_object_set_new(object, "problems", findings_json(&checked->findings));
  (void)json_object_set_new(object, "problems_left_out", json_integer((json_int_t)n_left_out));
  (void)json_object_set_new(object, "methods",
                            checked->has_view ? methods_json(&checked->view) : json_array());
  return object;
}

/* ---- the verb ---- */

static enum verdict worse(enum verdict a, enum verdict b) {
  return a > b ? a : b;
}

/* Text comes file by file, a JSON document at the end. */
static enum verdict check_all(const struct task *task, char *const *paths, size_t n_paths,
                              json_t *files) {
  enum verdict verdict = VERDICT_ACCEPTED;
  for (size_t i = 0; i < n_paths; i++) {
    struct checked *checked = memory_new(sizeof *checked);
    check(task, paths[i], checked);
    if (files != NULL) {
      (void)json_array_append_new(files, checked_json(checked));
    } else {
      print(task, checked);
    }
    verdict = worse(verdict, checked->verdict);
    checked_fini(checked);
    free(checked);
  }
  return verdict;
}

/* The organisation's document first, by itself. */
static enum verdict check_under(struct task *task, const char *organisation,
                                const struct arguments *arguments, json_t *document) {
  enum verdict verdict = VERDICT_ACCEPTED;
  json_t *files = document != NULL ? json_array() : NULL;
  json_t *told = document != NULL ? json_null() : NULL;
  struct checked *over = NULL;
  if (organisation != NULL) {
    over = memory_new(sizeof *over);
    check(task, organisation, over);
    verdict = over->verdict;
    if (document != NULL) {
      told = checked_json(over);
    } else {
      print(task, over);
    }
    task->organisation = over;
  }
  verdict = worse(verdict, check_all(task, arguments->operands, arguments->n_operands, files));
  if (document != NULL) {
    (void)json_object_set_new(document, "verdict", json_string(verdict_name(verdict)));
    (void)json_object_set_new(document, "organisation", told);
    (void)json_object_set_new(document, "files", files);
  }
  if (over != NULL) {
    checked_fini(over);
    free(over);
  }
  return verdict;
}

static enum verdict run(const struct arguments *arguments, const struct output *output) {
  struct task task = {.output = output,
                      .strictness = arguments->given[OPTION_LENIENT] != NULL ? LENIENT : STRICT,
                      .quiet = arguments->given[OPTION_QUIET] != NULL,
                      .werror = arguments->given[OPTION_WERROR] != NULL};
  const char *organisation = source_organisation(arguments->given[OPTION_ORG]);
  if (!source_stdin_once(arguments->operands, arguments->n_operands, organisation)) {
    return VERDICT_FAILED;
  }
  json_t *document = output->as_json ? json_object() : NULL;
  const enum verdict verdict = check_under(&task, organisation, arguments, document);
  if (document != NULL) {
    output_json(output, document);
  }
  return verdict;
}

const struct verb verb_check = {
    .name = "check",
    .operands = "FILE...",
    .summary = "tells all that is wrong with documents, and what is unwise",
    .help = "Reads policy documents (- is standard input), and tells of every problem and of what\n"
            "is seldom meant. Of each method that a document names it then tells the worst case:\n"
            "the longest time of a call, and its most attempts. Exits with 1 if a document is\n"
            "refused, and with 2 if one can't be read.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least_operands = 1,
    .most_operands = SIZE_MAX,
    .run = run,
};
