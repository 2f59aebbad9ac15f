/* explain – tells what holds for a method, where each value comes from, and what the layers would do
 * with a failure.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/clock.h>

#include "cmd/weirctl/effective.h"
#include "cmd/weirctl/effective_values.h"
#include "cmd/weirctl/enforced.h"
#include "cmd/weirctl/explain_outcome.h"
#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/simulate.h"
#include "cmd/weirctl/verb.h"
#include "cmd/weirctl/worst.h"
#include "src/policy/duration.h"

enum option {
  OPTION_ORG,
  OPTION_LENIENT,
  OPTION_CODE,
  OPTION_ORIGIN,
  OPTION_ATTEMPT,
  OPTION_BOUND,
  OPTION_INBOUND,
  OPTION_RETRIED,
  OPTION_ONE_BATCH,
  OPTION_STREAM,
  OPTION_PUSHBACK,
  OPTION_HEADERS,
  OPTION_UNPROCESSED
};

static const struct option_rule options[] = {
    [OPTION_ORG] = {"org", '\0', "FILE", "the organisation's document ($WEIR_ORG_POLICY)"},
    [OPTION_LENIENT] = {"lenient", '\0', NULL, "unknown keys are warnings"},
    [OPTION_CODE] = {"code", '\0', "CODE", "suppose that an attempt ends so: a name or a number"},
    [OPTION_ORIGIN] = {"origin", '\0', "ORIGIN",
                       "who says so: PEER (if not given), LOCAL_DEADLINE"},
    [OPTION_ATTEMPT] = {"attempt", '\0', "N", "which attempt it is; 0: the call ends before one"},
    [OPTION_BOUND] = {"bound", '\0', "BOUND",
                      "whose time is tightest: CALL, PARENT, POLICY, ATTEMPT"},
    [OPTION_INBOUND] = {"inbound", '\0', NULL, "the call is made while a request is served"},
    [OPTION_RETRIED] = {"retried", '\0', NULL, "likewise, and an outer layer retries that request"},
    [OPTION_ONE_BATCH] = {"one-batch", '\0', NULL,
                          "a unary call in one batch (if not said otherwise)"},
    [OPTION_STREAM] = {"stream", '\0', NULL, "a call in several batches"},
    [OPTION_PUSHBACK] = {"pushback", '\0', "MS", "the peer's grpc-retry-pushback-ms"},
    [OPTION_HEADERS] = {"headers", '\0', NULL, "response headers had come"},
    [OPTION_UNPROCESSED] = {"unprocessed", '\0', NULL, "no server has seen the attempt"},
};

/* Of the columns. */
#define LABEL_WIDTH 14
#define PATH_WIDTH 44
#define VALUE_WIDTH 34

/* What is asked of a call's end; NULL without --code. */
struct supposed {
  struct simulation_question question;
  struct simulation_answer answer;
};

struct explained {
  struct effective effective;
  struct findings findings;
  struct effective_values values;
  struct effective_match match;
  char *path;
  struct supposed *supposed;
};

/* ---- the command line ---- */

/* "/pkg.Service/Method", of that or of "pkg.Service/Method". NULL: it has been said what is wrong. */
static char *parse_method(const char *word) {
  const char *name = word[0] == '/' ? word + 1 : word;
  const char *slash = strchr(name, '/');
  if (slash != NULL && slash > name && slash[1] != '\0' && strchr(slash + 1, '/') == NULL) {
    const size_t size = strlen(name) + sizeof "/";
    char *path = memory_new(size);
    (void)snprintf(path, size, "/%s", name);
    return path;
  }
  const char *dot = strrchr(name, '.');
  if (slash == NULL && dot != NULL && dot > name && dot[1] != '\0') {
    complain("'%s' is no method; write '%.*s/%s'", word, (int)(dot - name), name, dot + 1);
  } else {
    complain("'%s' is no method; write 'package.Service/Method'", word);
  }
  return NULL;
}

/* What means nothing without --code. */
static bool has_stray_option(const struct arguments *arguments) {
  for (int option = OPTION_ORIGIN; option <= OPTION_UNPROCESSED; option++) {
    if (arguments->given[option] != NULL) {
      complain("--%s needs --code", options[option].name);
      return true;
    }
  }
  return false;
}

static bool parse_supposed(const struct arguments *arguments, struct supposed **supposed_out) {
  const struct explain_words words = {
      .code = arguments->given[OPTION_CODE],
      .origin = arguments->given[OPTION_ORIGIN],
      .bound = arguments->given[OPTION_BOUND],
      .attempt = arguments->given[OPTION_ATTEMPT],
      .pushback = arguments->given[OPTION_PUSHBACK],
      .is_stream = arguments->given[OPTION_STREAM] != NULL,
      .is_serving = arguments->given[OPTION_INBOUND] != NULL,
      .is_outer_retrying = arguments->given[OPTION_RETRIED] != NULL,
      .after_headers = arguments->given[OPTION_HEADERS] != NULL,
      .is_unprocessed = arguments->given[OPTION_UNPROCESSED] != NULL,
  };
  *supposed_out = NULL;
  if (words.code == NULL) {
    return !has_stray_option(arguments);
  }
  if (words.is_stream && arguments->given[OPTION_ONE_BATCH] != NULL) {
    complain("--one-batch and --stream can't both be");
    return false;
  }
  *supposed_out = memory_new(sizeof **supposed_out);
  return explain_outcome_parse(&words, &(*supposed_out)->question);
}

/* ---- as text ---- */

static void label(const struct output *output, const char *text) {
  output_text(output, STYLE_STRONG, "%-*s", LABEL_WIDTH, text);
}

static const char *kind_words(enum effective_kind kind) {
  switch (kind) {
  case EFFECTIVE_METHOD:
    return "the method's";
  case EFFECTIVE_SERVICE:
    return "the service's";
  case EFFECTIVE_DEFAULT:
    return "the one for everything, {}";
  case EFFECTIVE_BUILT_IN:
    return "none, so the built-in defaults hold";
  }
  return "";
}

static void print_name(const struct explained *explained, enum effective_kind kind,
                       const struct output *output) {
  output_text(output, STYLE_PLAIN, "%s", kind_words(kind));
  if (kind != EFFECTIVE_BUILT_IN) {
    const struct weir__origin origin =
        effective_name_origin(&explained->effective, explained->match.names[kind]);
    output_text(output, STYLE_PLAIN, ", ");
    effective_print_origin(&explained->effective, &origin, output);
  }
}

static void print_entry(const struct explained *explained, const struct output *output) {
  bool is_first = true;
  label(output, "entry");
  print_name(explained, explained->match.chosen, output);
  for (enum effective_kind kind = (enum effective_kind)(explained->match.chosen + 1);
       kind < EFFECTIVE_BUILT_IN; kind = (enum effective_kind)(kind + 1)) {
    if (explained->match.names[kind] == NULL) {
      continue;
    }
    output_text(output, STYLE_PLAIN, is_first ? "\n" : "; ");
    if (is_first) {
      label(output, "passed over");
    }
    print_name(explained, kind, output);
    is_first = false;
  }
  output_text(output, STYLE_PLAIN, is_first ? "\n" : "; an entry is used whole\n");
}

static void print_limit(const struct weir_method_policy *method, enum weir_call_shape shape,
                        const struct output *output) {
  const int64_t most_ns = simulation_limit_ns(method, shape, SIMULATION_OWN_FAR);
  const int64_t default_ns = simulation_limit_ns(method, shape, SIMULATION_OWN_NONE);
  char text[WEIR__DURATION_TEXT_SIZE];
  label(output, shape == WEIR_CALL_SHAPE_ONE_BATCH ? "a unary call" : "a stream");
  if (most_ns == WEIR_NO_LIMIT_NS) {
    output_text(output, STYLE_PLAIN, "takes as long as its own deadline, or its parent's, lets it");
  } else {
    weir__duration_print(most_ns, text);
    output_text(output, STYLE_PLAIN, "takes at most %s, attempts and backoffs included", text);
  }
  if (default_ns != most_ns) {
    weir__duration_print(default_ns, text);
    output_text(output, STYLE_PLAIN, "; %s if it has no deadline", text);
  }
  output_text(output, STYLE_PLAIN, "\n");
}

static void print_retries(const struct weir_method_policy *method, const struct output *output) {
  const uint32_t n_attempts = worst_attempts_allowed(method);
  label(output, "retries");
  if (n_attempts > 1) {
    output_text(output, STYLE_PLAIN, "up to %u attempts\n", (unsigned)n_attempts);
  } else {
    output_text(output, STYLE_PLAIN, "no retries%s\n",
                method->retry.max_attempts > 1 ? ", though there is a retryPolicy: retry.owner"
                                               : "");
  }
}

/* Pads what is `width` wide by now to a column. */
static void pad(const struct output *output, size_t width, size_t column) {
  output_text(output, STYLE_PLAIN, "%*s", width < column ? (int)(column - width) : 2, "");
}

/* What is enforced shows also where a value is from elsewhere, and strict enough. */
static void print_bound(const struct explained *explained, const struct effective_value *value,
                        const struct output *output) {
  if (value->bound.json == NULL || value->origin.kind == WEIR__ORIGIN_ENFORCED) {
    return;
  }
  char *text = effective_value_text(value->bound.json, value->none);
  output_text(output, STYLE_PLAIN, "; %s", enforced_words(value));
  output_foreign(output, STYLE_PLAIN, text);
  output_text(output, STYLE_PLAIN, ": ");
  effective_print_origin(&explained->effective, &value->bound.origin, output);
  free(text);
}

static void print_value(const struct explained *explained, const struct effective_value *value,
                        const struct output *output) {
  char *text = effective_value_text(value->value, value->none);
  size_t width = strlen(text);
  output_text(output, STYLE_PLAIN, "%s", value->path);
  pad(output, strlen(value->path), PATH_WIDTH);
  output_foreign(output, STYLE_PLAIN, text);
  free(text);
  if (value->said != NULL) {
    char *said = effective_value_text(value->said, value->none);
    output_text(output, STYLE_WARNING, " (said: ");
    output_foreign(output, STYLE_WARNING, said);
    output_text(output, STYLE_WARNING, ")");
    width += strlen(" (said: )") + strlen(said);
    free(said);
  }
  pad(output, width, VALUE_WIDTH);
  effective_print_origin(&explained->effective, &value->origin, output);
  print_bound(explained, value, output);
  if (value->note[0] != '\0') {
    output_text(output, STYLE_FAINT, "  %s", value->note);
  }
  output_text(output, STYLE_PLAIN, "\n");
}

static void print_explained(const struct explained *explained, const struct output *output) {
  const struct weir_method_policy *method = weir_policy_method(
      explained->effective.view.policy, explained->path, strlen(explained->path));
  findings_print(&explained->findings, output);
  output_foreign(output, STYLE_STRONG, explained->path);
  output_text(output, STYLE_PLAIN, "\n\n");
  print_entry(explained, output);
  print_limit(method, WEIR_CALL_SHAPE_ONE_BATCH, output);
  print_limit(method, WEIR_CALL_SHAPE_STREAM, output);
  print_retries(method, output);
  output_text(output, STYLE_PLAIN, "\n");
  if (explained->supposed != NULL) {
    explain_outcome_print(&explained->supposed->question, &explained->supposed->answer, output);
    output_text(output, STYLE_PLAIN, "\n");
  }
  for (size_t i = 0; i < explained->values.n; i++) {
    print_value(explained, &explained->values.list[i], output);
  }
}

/* ---- as JSON ---- */

static json_t *name_json(const struct explained *explained, enum effective_kind kind) {
  struct weir__origin origin = {.kind = WEIR__ORIGIN_BUILT_IN};
  json_t *object = json_object();
  if (kind != EFFECTIVE_BUILT_IN) {
    origin = effective_name_origin(&explained->effective, explained->match.names[kind]);
  }
  (void)json_object_set_new(object, "kind", json_string(effective_kind_name(kind)));
  (void)json_object_set_new(object, "origin",
                            effective_origin_json(&explained->effective, &origin));
  return object;
}

static json_t *passed_over_json(const struct explained *explained) {
  json_t *list = json_array();
  for (enum effective_kind kind = (enum effective_kind)(explained->match.chosen + 1);
       kind < EFFECTIVE_BUILT_IN; kind = (enum effective_kind)(kind + 1)) {
    if (explained->match.names[kind] != NULL) {
      (void)json_array_append_new(list, name_json(explained, kind));
    }
  }
  return list;
}

static json_t *limit_json(const struct explained *explained, enum weir_call_shape shape,
                          enum simulation_own own) {
  const struct weir_method_policy *method = weir_policy_method(
      explained->effective.view.policy, explained->path, strlen(explained->path));
  const int64_t limit_ns = simulation_limit_ns(method, shape, own);
  char text[WEIR__DURATION_TEXT_SIZE];
  if (limit_ns == WEIR_NO_LIMIT_NS) {
    return json_null();
  }
  weir__duration_print(limit_ns, text);
  return json_string(text);
}

static json_t *limits_json(const struct explained *explained, enum weir_call_shape shape) {
  json_t *object = json_object();
  (void)json_object_set_new(object, "most", limit_json(explained, shape, SIMULATION_OWN_FAR));
  (void)json_object_set_new(object, "without", limit_json(explained, shape, SIMULATION_OWN_NONE));
  return object;
}

static json_t *value_json(const struct explained *explained, const struct effective_value *value) {
  json_t *object = json_object();
  (void)json_object_set_new(object, "path", json_string(value->path));
  (void)json_object_set(object, "value", value->value);
  if (value->said != NULL) {
    (void)json_object_set(object, "said", value->said);
  }
  if (value->note[0] != '\0') {
    (void)json_object_set_new(object, "note", json_string(value->note));
  }
  (void)json_object_set_new(object, "origin",
                            effective_origin_json(&explained->effective, &value->origin));
  if (value->bound.json != NULL) {
    json_t *bound = json_object();
    (void)json_object_set(bound, "value", value->bound.json);
    (void)json_object_set_new(bound, "origin",
                              effective_origin_json(&explained->effective, &value->bound.origin));
    (void)json_object_set_new(object, "enforced", bound);
  }
  return object;
}

static void print_json(const struct explained *explained, const struct output *output) {
  json_t *document = json_object();
  json_t *values = json_array();
  for (size_t i = 0; i < explained->values.n; i++) {
    (void)json_array_append_new(values, value_json(explained, &explained->values.list[i]));
  }
  (void)json_object_set_new(document, "verdict", json_string(verdict_name(VERDICT_ACCEPTED)));
  (void)json_object_set_new(document, "problems", findings_json(&explained->findings));
  (void)json_object_set_new(document, "method", output_string(explained->path));
  (void)json_object_set_new(document, "entry", name_json(explained, explained->match.chosen));
  (void)json_object_set_new(document, "passed_over", passed_over_json(explained));
  (void)json_object_set_new(document, "unary_limit",
                            limits_json(explained, WEIR_CALL_SHAPE_ONE_BATCH));
  (void)json_object_set_new(document, "stream_limit",
                            limits_json(explained, WEIR_CALL_SHAPE_STREAM));
  if (explained->supposed != NULL) {
    (void)json_object_set_new(
        document, "outcome",
        explain_outcome_json(&explained->supposed->question, &explained->supposed->answer));
  }
  (void)json_object_set_new(document, "values", values);
  output_json(output, document);
}

/* ---- the verb ---- */

/* Also of what can't be read, of which there are no problems. */
static void print_refused(const struct explained *explained, enum verdict verdict,
                          const struct output *output) {
  if (!output->as_json) {
    findings_print(&explained->findings, output);
    return;
  }
  json_t *document = json_object();
  (void)json_object_set_new(document, "verdict", json_string(verdict_name(verdict)));
  (void)json_object_set_new(document, "problems", findings_json(&explained->findings));
  output_json(output, document);
}

static bool simulate(struct explained *explained) {
  struct supposed *supposed = explained->supposed;
  if (supposed == NULL) {
    return true;
  }
  supposed->question.policy = explained->effective.view.policy;
  supposed->question.path = explained->path;
  supposed->question.path_size = strlen(explained->path);
  const enum weir_error error = simulation_run(&supposed->question, &supposed->answer);
  memory_check(error);
  if (error != WEIR_OK) {
    complain("%s from %s can't be: %s", weir_status_code_name(supposed->question.code),
             weir_origin_name(supposed->question.origin), supposed->answer.why_not);
  }
  return error == WEIR_OK;
}

static enum verdict explain(struct explained *explained, const struct output *output) {
  const char *const paths[] = {explained->path};
  if (!simulate(explained)) {
    return VERDICT_FAILED;
  }
  explained->match =
      effective_match_of(&explained->effective, explained->path, strlen(explained->path));
  effective_hold(&explained->effective, paths, 1);
  effective_values_method(&explained->values, &explained->effective, explained->path, 0);
  effective_values_channel(&explained->values, &explained->effective, EFFECTIVE_PART_FIXED);
  if (output->as_json) {
    print_json(explained, output);
  } else {
    print_explained(explained, output);
  }
  return VERDICT_ACCEPTED;
}

static enum verdict load_and_explain(const struct arguments *arguments, struct explained *explained,
                                     const struct output *output) {
  const struct effective_sources sources = {
      .path = arguments->operands[0],
      .organisation = source_organisation(arguments->given[OPTION_ORG]),
      .lenient = arguments->given[OPTION_LENIENT] != NULL,
  };
  enum verdict verdict = VERDICT_FAILED;
  explained->path = parse_method(arguments->operands[1]);
  if (explained->path == NULL || !parse_supposed(arguments, &explained->supposed) ||
      !source_stdin_once(arguments->operands, 1, sources.organisation)) {
    return verdict;
  }
  verdict = effective_load(&explained->effective, &sources, &explained->findings);
  if (verdict == VERDICT_ACCEPTED) {
    verdict = explain(explained, output);
  } else {
    print_refused(explained, verdict, output);
  }
  effective_values_fini(&explained->values);
  effective_fini(&explained->effective);
  return verdict;
}

static enum verdict run(const struct arguments *arguments, const struct output *output) {
  struct explained *explained = memory_new(sizeof *explained);
  const enum verdict verdict = load_and_explain(arguments, explained, output);
  findings_fini(&explained->findings);
  free(explained->supposed);
  free(explained->path);
  free(explained);
  return verdict;
}

const struct verb verb_explain = {
    .name = "explain",
    .operands = "FILE METHOD",
    .summary = "tells what holds for a method, and where it stands",
    .help = "FILE is a policy document, - is standard input; METHOD is package.Service/Method.\n"
            "With --code, also tells what each layer does with such an end of an attempt.\n",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .least_operands = 2,
    .most_operands = 2,
    .run = run,
};
