/* check – tells all that is wrong with documents, and what is unwise in them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cmd/weirctl/findings.h"
#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/source.h"
#include "cmd/weirctl/verb.h"

enum option { OPTION_LENIENT };

static const struct option_rule options[] = {
    [OPTION_LENIENT] = {"lenient", '\0', NULL, "unknown keys are warnings"},
};

/* One file of those given. */
struct checked {
  const char *path;
  enum verdict verdict;
  struct findings findings;
};

static void check_file(struct checked *checked, const char *path,
                       const struct arguments *arguments) {
  struct source source;
  weir_policy *policy = NULL;
  *checked = (struct checked){.path = path, .verdict = VERDICT_FAILED};
  if (source_read(&source, path)) {
    struct load load = {.findings = &checked->findings, .file = path};
    struct weir_policy_load_options load_options = WEIR_POLICY_LOAD_OPTIONS_INIT;
    load_options.lenient = arguments->given[OPTION_LENIENT] != NULL;
    load_options.on_problem = load_on_problem;
    load_options.context = &load;
    const enum weir_error error =
        weir_policy_from_json(source.text, source.size, &load_options, NULL, &policy, NULL);
    memory_check(error);
    checked->verdict = error == WEIR_OK ? VERDICT_ACCEPTED : VERDICT_REFUSED;
    weir_policy_unref(policy);
  } else {
    source_complain(path);
  }
  source_fini(&source);
}

static const char *verdict_name(enum verdict verdict) {
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

static void print_checked(const struct checked *checked, const struct output *output) {
  findings_print(&checked->findings, output);
  if (checked->verdict != VERDICT_FAILED) {
    output_foreign(output, STYLE_STRONG, source_name(checked->path));
    output_text(output, STYLE_PLAIN, ": ");
    output_text(output, checked->verdict == VERDICT_ACCEPTED ? STYLE_GOOD : STYLE_ERROR, "%s",
                verdict_name(checked->verdict));
    output_text(output, STYLE_PLAIN, "\n");
  }
}

static json_t *checked_json(const struct checked *checked) {
  json_t *object = json_object();
  (void)json_object_set_new(object, "file", output_string(checked->path));
  (void)json_object_set_new(object, "verdict", json_string(verdict_name(checked->verdict)));
  (void)json_object_set_new(object, "problems", findings_json(&checked->findings));
  return object;
}

static enum verdict run(const struct arguments *arguments, const struct output *output) {
  enum verdict verdict = VERDICT_ACCEPTED;
  json_t *files = json_array();
  if (!source_stdin_once(arguments->operands, arguments->n_operands, NULL)) {
    json_decref(files);
    return VERDICT_FAILED;
  }
  for (size_t i = 0; i < arguments->n_operands; i++) {
    struct checked checked;
    check_file(&checked, arguments->operands[i], arguments);
    if (output->as_json) {
      (void)json_array_append_new(files, checked_json(&checked));
    } else {
      print_checked(&checked, output);
    }
    verdict = checked.verdict > verdict ? checked.verdict : verdict;
    findings_fini(&checked.findings);
  }
  if (output->as_json) {
    json_t *document = json_object();
    (void)json_object_set_new(document, "files", files);
    (void)json_object_set_new(document, "verdict", json_string(verdict_name(verdict)));
    output_json(output, document);
  } else {
    json_decref(files);
  }
  return verdict;
}

const struct verb verb_check = {
    .name = "check",
    .operands = "FILE...",
    .summary = "tells all that is wrong with documents, and what is unwise",
    .help = "FILE is a policy document; - is standard input.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least_operands = 1,
    .most_operands = SIZE_MAX,
    .run = run,
};
