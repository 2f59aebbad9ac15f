/* diff – tells what another document would change: values that hold, not lines.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/weirctl/effective.h"
#include "cmd/weirctl/effective_changes.h"
#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/verb.h"
#include "src/decide/breaker.h"
#include "src/policy/policy.h"

enum option { OPTION_ORG, OPTION_ORG_OLD, OPTION_ORG_NEW, OPTION_LENIENT };

static const struct option_rule options[] = {
    [OPTION_ORG] = {"org", '\0', "FILE", "the organisation's document, of both ($WEIR_ORG_POLICY)"},
    [OPTION_ORG_OLD] = {"org-old", '\0', "FILE", "the organisation's document, of OLD"},
    [OPTION_ORG_NEW] = {"org-new", '\0', "FILE", "the organisation's document, of NEW"},
    [OPTION_LENIENT] = {"lenient", '\0', NULL, "unknown keys are warnings"},
};

#define PATH_WIDTH 38

struct side {
  struct effective effective;
  struct findings findings;
  enum verdict verdict;
};

struct compared {
  struct side old_side;
  struct side new_side;
  const char **paths; /* that either names, in their order */
  size_t n_paths;
  struct effective_changes channel;
  bool changed;
};

/* ---- paths ---- */

static int compare_names(const struct effective_name *a, const struct effective_name *b) {
  return strcmp(a->path, b->path);
}

/* Both are sorted. */
static void merge_paths(struct compared *compared) {
  const struct effective *old_policy = &compared->old_side.effective;
  const struct effective *new_policy = &compared->new_side.effective;
  size_t i = 0;
  size_t j = 0;
  compared->paths =
      memory_new((old_policy->n_names + new_policy->n_names) * sizeof *compared->paths);
  while (i < old_policy->n_names || j < new_policy->n_names) {
    int order = i == old_policy->n_names ? 1 : -1;
    if (i < old_policy->n_names && j < new_policy->n_names) {
      order = compare_names(&old_policy->names[i], &new_policy->names[j]);
    }
    compared->paths[compared->n_paths++] =
        order <= 0 ? old_policy->names[i].path : new_policy->names[j].path;
    i += order <= 0 ? 1 : 0;
    j += order >= 0 ? 1 : 0;
  }
}

/* ---- what a reload would reset ---- */

enum reset {
  RESET_NONE = 0,
  RESET_BREAKERS, /* all begin anew, CLOSED */
  RESET_WINDOWS   /* their windows are emptied, their states stay */
};

static const char *reset_name(enum reset reset) {
  switch (reset) {
  case RESET_NONE:
    return "NONE";
  case RESET_BREAKERS:
    return "BREAKERS";
  case RESET_WINDOWS:
    return "WINDOWS";
  }
  return "NONE";
}

static enum reset reset_of(const struct compared *compared) {
  const struct weir_breaker_options *before =
      weir__policy_breaker(compared->old_side.effective.view.policy);
  const struct weir_breaker_options *after =
      weir__policy_breaker(compared->new_side.effective.view.policy);
  if (before->scope != after->scope || before->enabled != after->enabled) {
    return before->enabled || after->enabled ? RESET_BREAKERS : RESET_NONE;
  }
  struct weir__breaker_rules rules;
  weir__breaker_rules_init(&rules, before, NULL);
  return before->enabled && weir__breaker_rules_recut(&rules, after) ? RESET_WINDOWS : RESET_NONE;
}

/* A change of a throttle's numbers keeps how full it is. */
static bool throttle_begins_full(const struct compared *compared) {
  uint32_t max_tokens = 0;
  uint32_t ratio_milli = 0;
  return !weir__policy_throttle(compared->old_side.effective.view.policy, &max_tokens,
                                &ratio_milli) &&
         weir__policy_throttle(compared->new_side.effective.view.policy, &max_tokens, &ratio_milli);
}

/* ---- as text ---- */

static void print_side(const struct effective_value *value, const struct output *output) {
  char *text = value != NULL ? effective_value_text(value->value, value->none)
                             : memory_copy_text("none", strlen("none"));
  output_foreign(output, STYLE_STRONG, text);
  free(text);
}

static void print_place(const struct side *side, const struct effective_value *value,
                        const struct output *output) {
  const struct weir__origin nowhere = {.kind = WEIR__ORIGIN_BUILT_IN};
  effective_print_origin(&side->effective, value != NULL ? &value->origin : &nowhere, output);
}

static void print_change(const struct compared *compared, const struct effective_change *change,
                         const struct output *output) {
  const struct effective_value *any =
      change->new_value != NULL ? change->new_value : change->old_value;
  output_text(output, STYLE_PLAIN, "  %-*s ", PATH_WIDTH, effective_change_path(change));
  print_side(change->old_value, output);
  output_text(output, STYLE_PLAIN, " -> ");
  print_side(change->new_value, output);
  output_text(output, STYLE_FAINT, "  (");
  print_place(&compared->old_side, change->old_value, output);
  output_text(output, STYLE_FAINT, " -> ");
  print_place(&compared->new_side, change->new_value, output);
  output_text(output, STYLE_FAINT, ")");
  if (any->note[0] != '\0') {
    output_text(output, STYLE_FAINT, "  %s", any->note);
  }
  output_text(output, STYLE_PLAIN, "\n");
}

static const char *kind_words(enum effective_kind kind) {
  switch (kind) {
  case EFFECTIVE_METHOD:
    return "its own entry";
  case EFFECTIVE_SERVICE:
    return "its service's entry";
  case EFFECTIVE_DEFAULT:
    return "the entry for everything";
  case EFFECTIVE_BUILT_IN:
    return "the built-in defaults";
  }
  return "";
}

static enum effective_kind kind_in(const struct side *side, const char *path) {
  return effective_match_of(&side->effective, path, strlen(path)).chosen;
}

/* What a path is. */
static enum effective_kind kind_of_path(const char *path) {
  const size_t size = strlen(path);
  if (strcmp(path, EFFECTIVE_EVERYTHING) == 0) {
    return EFFECTIVE_DEFAULT;
  }
  return path[size - 1] == '/' ? EFFECTIVE_SERVICE : EFFECTIVE_METHOD;
}

/* "/pkg.Service/", as a person writes it. */
static void print_path(const char *path, const struct output *output) {
  switch (kind_of_path(path)) {
  case EFFECTIVE_METHOD:
    output_foreign(output, STYLE_STRONG, path);
    break;
  case EFFECTIVE_SERVICE:
    output_foreign(output, STYLE_STRONG, path);
    output_text(output, STYLE_STRONG, "*");
    break;
  case EFFECTIVE_DEFAULT:
  case EFFECTIVE_BUILT_IN:
    output_text(output, STYLE_STRONG, "all other methods");
    break;
  }
}

static void print_method(const struct compared *compared, const char *path,
                         const struct effective_changes *changes, const struct output *output) {
  const enum effective_kind before = kind_in(&compared->old_side, path);
  const enum effective_kind after = kind_in(&compared->new_side, path);
  print_path(path, output);
  if (before != after) {
    output_text(output, STYLE_PLAIN, ": %s, no longer %s", kind_words(after), kind_words(before));
  }
  output_text(output, STYLE_PLAIN, "\n");
  for (size_t i = 0; i < changes->n; i++) {
    print_change(compared, &changes->list[i], output);
  }
}

static void print_channel(const struct compared *compared, const struct output *output) {
  if (compared->channel.n == 0) {
    return;
  }
  output_text(output, STYLE_STRONG, "channel-wide\n");
  for (size_t i = 0; i < compared->channel.n; i++) {
    print_change(compared, &compared->channel.list[i], output);
  }
}

static void print_resets(const struct compared *compared, const struct output *output) {
  switch (reset_of(compared)) {
  case RESET_NONE:
    break;
  case RESET_BREAKERS:
    output_text(output, STYLE_WARNING, "a reload begins every breaker anew: CLOSED, and empty\n");
    break;
  case RESET_WINDOWS:
    output_text(output, STYLE_WARNING,
                "a reload empties the breakers' windows; their states stay\n");
    break;
  }
  if (throttle_begins_full(compared)) {
    output_text(output, STYLE_PLAIN, "a throttle that no other channel has begins full\n");
  }
}

/* ---- as JSON ---- */

static json_t *side_json(const struct side *side, const struct effective_value *value) {
  const struct weir__origin nowhere = {.kind = WEIR__ORIGIN_BUILT_IN};
  json_t *object = json_object();
  (void)json_object_set_new(object, "value",
                            value != NULL ? json_incref(value->value) : json_null());
  (void)json_object_set_new(
      object, "origin",
      effective_origin_json(&side->effective, value != NULL ? &value->origin : &nowhere));
  return object;
}

static json_t *changes_json(const struct compared *compared,
                            const struct effective_changes *changes) {
  json_t *list = json_array();
  for (size_t i = 0; i < changes->n; i++) {
    const struct effective_change *change = &changes->list[i];
    json_t *object = json_object();
    (void)json_object_set_new(
        object, "path",
        json_string(change->new_value != NULL ? change->new_value->path : change->old_value->path));
    (void)json_object_set_new(object, "old", side_json(&compared->old_side, change->old_value));
    (void)json_object_set_new(object, "new", side_json(&compared->new_side, change->new_value));
    (void)json_array_append_new(list, object);
  }
  return list;
}

/* As weirctl check calls it: with an asterisk for all of a service, and that alone for the rest. */
static json_t *name_json(const char *path) {
  const enum effective_kind kind = kind_of_path(path);
  const size_t size = strlen(path) + sizeof "*";
  char *name = memory_new(size);
  (void)snprintf(name, size, "%s%s", kind == EFFECTIVE_DEFAULT ? "" : path,
                 kind == EFFECTIVE_METHOD ? "" : "*");
  json_t *string = output_string(name);
  free(name);
  return string;
}

static json_t *method_json(const struct compared *compared, const char *path,
                           const struct effective_changes *changes) {
  json_t *object = json_object();
  (void)json_object_set_new(object, "name", name_json(path));
  (void)json_object_set_new(object, "kind", json_string(effective_kind_name(kind_of_path(path))));
  (void)json_object_set_new(object, "old_entry",
                            json_string(effective_kind_name(kind_in(&compared->old_side, path))));
  (void)json_object_set_new(object, "new_entry",
                            json_string(effective_kind_name(kind_in(&compared->new_side, path))));
  (void)json_object_set_new(object, "changes", changes_json(compared, changes));
  return object;
}

static json_t *document_json(const struct side *side) {
  json_t *object = json_object();
  const char *organisation = side->effective.sources.organisation;
  (void)json_object_set_new(object, "file", output_string(side->effective.sources.path));
  (void)json_object_set_new(object, "organisation",
                            organisation != NULL ? output_string(organisation) : json_null());
  (void)json_object_set_new(object, "verdict", json_string(verdict_name(side->verdict)));
  (void)json_object_set_new(object, "problems", findings_json(&side->findings));
  return object;
}

/* ---- the verb ---- */

/* `methods` NULL: as text. */
static void tell_methods(struct compared *compared, json_t *methods, const struct output *output) {
  struct effective_changes changes = {.list = NULL};
  for (size_t i = 0; i < compared->n_paths; i++) {
    effective_changes_method(&changes, &compared->old_side.effective, &compared->new_side.effective,
                             compared->paths[i], i, &compared->channel);
    if (changes.n == 0) {
      continue;
    }
    compared->changed = true;
    if (methods != NULL) {
      (void)json_array_append_new(methods, method_json(compared, compared->paths[i], &changes));
    } else {
      print_method(compared, compared->paths[i], &changes, output);
    }
  }
  effective_changes_fini(&changes);
}

static void tell_as_text(struct compared *compared, const struct output *output) {
  print_channel(compared, output);
  tell_methods(compared, NULL, output);
  print_resets(compared, output);
  if (!compared->changed) {
    output_text(output, STYLE_GOOD, "no effective change\n");
  }
}

static void tell_as_json(struct compared *compared, const struct output *output) {
  json_t *document = json_object();
  json_t *methods = json_array();
  tell_methods(compared, methods, output);
  (void)json_object_set_new(document, "old", document_json(&compared->old_side));
  (void)json_object_set_new(document, "new", document_json(&compared->new_side));
  (void)json_object_set_new(document, "changed", json_boolean(compared->changed));
  (void)json_object_set_new(document, "channel", changes_json(compared, &compared->channel));
  (void)json_object_set_new(document, "methods", methods);
  (void)json_object_set_new(document, "resets", json_string(reset_name(reset_of(compared))));
  (void)json_object_set_new(document, "throttle_begins_full",
                            json_boolean(throttle_begins_full(compared)));
  output_json(output, document);
}

static void compare(struct compared *compared, const struct output *output) {
  merge_paths(compared);
  effective_hold(&compared->old_side.effective, compared->paths, compared->n_paths);
  effective_hold(&compared->new_side.effective, compared->paths, compared->n_paths);
  effective_changes_channel(&compared->channel, &compared->old_side.effective,
                            &compared->new_side.effective);
  compared->changed = compared->channel.n > 0;
  if (output->as_json) {
    tell_as_json(compared, output);
  } else {
    tell_as_text(compared, output);
  }
  effective_changes_fini(&compared->channel);
  free(compared->paths);
}

/* Of what could be read, also where the other could not. */
static void print_refused(const struct compared *compared, const struct output *output) {
  if (!output->as_json) {
    findings_print(&compared->old_side.findings, output);
    findings_print(&compared->new_side.findings, output);
    return;
  }
  json_t *document = json_object();
  (void)json_object_set_new(document, "old", document_json(&compared->old_side));
  (void)json_object_set_new(document, "new", document_json(&compared->new_side));
  output_json(output, document);
}

static const char *organisation_of(const struct arguments *arguments, enum option own) {
  return source_organisation(arguments->given[own] != NULL ? arguments->given[own]
                                                           : arguments->given[OPTION_ORG]);
}

static void load_side(struct side *side, const struct arguments *arguments, size_t operand,
                      enum option organisation) {
  const struct effective_sources sources = {
      .path = arguments->operands[operand],
      .organisation = organisation_of(arguments, organisation),
      .lenient = arguments->given[OPTION_LENIENT] != NULL,
  };
  side->verdict = effective_load(&side->effective, &sources, &side->findings);
}

static void side_fini(struct side *side) {
  effective_fini(&side->effective);
  findings_fini(&side->findings);
}

/* Each side reads the organisation's by itself. */
static bool is_stdin_once(const struct arguments *arguments) {
  const char *old_organisation = organisation_of(arguments, OPTION_ORG_OLD);
  const char *new_organisation = organisation_of(arguments, OPTION_ORG_NEW);
  const bool both = old_organisation != NULL && new_organisation != NULL &&
                    strcmp(old_organisation, "-") == 0 && strcmp(new_organisation, "-") == 0;
  if (both) {
    complain("standard input (-) can be read only once");
    return false;
  }
  const bool is_old = old_organisation != NULL && strcmp(old_organisation, "-") == 0;
  return source_stdin_once(arguments->operands, 2, is_old ? old_organisation : new_organisation);
}

static enum verdict run(const struct arguments *arguments, const struct output *output) {
  if (!is_stdin_once(arguments)) {
    return VERDICT_FAILED;
  }
  struct compared *compared = memory_new(sizeof *compared);
  load_side(&compared->old_side, arguments, 0, OPTION_ORG_OLD);
  load_side(&compared->new_side, arguments, 1, OPTION_ORG_NEW);
  const enum verdict verdict = compared->old_side.verdict > compared->new_side.verdict
                                   ? compared->old_side.verdict
                                   : compared->new_side.verdict;
  if (verdict == VERDICT_ACCEPTED) {
    compare(compared, output);
  } else {
    print_refused(compared, output);
  }
  side_fini(&compared->old_side);
  side_fini(&compared->new_side);
  free(compared);
  return verdict;
}

const struct verb verb_diff = {
    .name = "diff",
    .operands = "OLD NEW",
    .summary = "tells what another document would change",
    .help = "OLD and NEW are policy documents. What is written otherwise and means the same is no "
            "change.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least_operands = 2,
    .most_operands = 2,
    .run = run,
};
