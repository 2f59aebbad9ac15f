/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/outcome.h>
#include <weir/policy.h>

#include <cmocka.h>

#include "cmd/weirctl/effective.h"
#include "cmd/weirctl/effective_changes.h"
#include "cmd/weirctl/effective_values.h"

#define ADD "/shop.Cart/Add"

#define RETRIES                                                         \
  "\"retryPolicy\": {\"maxAttempts\": 3, \"initialBackoff\": \"0.1s\"," \
  " \"maxBackoff\": \"1s\", \"backoffMultiplier\": 2,"                  \
  " \"retryableStatusCodes\": [\"UNAVAILABLE\", \"ABORTED\"]}"

struct fixture {
  struct effective old_policy;
  struct effective new_policy;
  struct findings findings;
  struct effective_values values;
  struct effective_changes channel;
  struct effective_changes changes;
  char text[8192];
};

static int setup(void **state) {
  static struct fixture fixture;
  memset(&fixture, 0, sizeof fixture);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  effective_values_fini(&f->values);
  effective_changes_fini(&f->channel);
  effective_changes_fini(&f->changes);
  effective_fini(&f->old_policy);
  effective_fini(&f->new_policy);
  findings_fini(&f->findings);
  return 0;
}

/* ---- documents ---- */

static const char *file_in_folder(const char *name, char path_out[512]) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *folder = getenv("TEST_TMPDIR");
  (void)snprintf(path_out, 512, "%s/%s", folder != NULL ? folder : ".", name);
  return path_out;
}

static void load_file(struct fixture *f, struct effective *effective, const char *path) {
  const struct effective_sources sources = {.path = path};
  if (effective_load(effective, &sources, &f->findings) != VERDICT_ACCEPTED) {
    fail_msg("%s: %s", path, f->findings.n > 0 ? f->findings.list[0].message : "not read");
  }
}

static void load_text(struct fixture *f, struct effective *effective, const char *name,
                      const char *text) {
  char path[512];
  FILE *file = fopen(file_in_folder(name, path), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
  load_file(f, effective, path);
}

static void hold(struct effective *effective, const char *path) {
  const char *const paths[] = {path};
  effective_hold(effective, paths, 1);
}

static void explain(struct fixture *f, const char *path) {
  hold(&f->old_policy, path);
  effective_values_clear(&f->values);
  effective_values_method(&f->values, &f->old_policy, path, 0);
  effective_values_channel(&f->values, &f->old_policy, EFFECTIVE_PART_FIXED);
}

static const struct effective_value *value_of(const struct fixture *f, const char *path) {
  for (size_t i = 0; i < f->values.n; i++) {
    if (strcmp(f->values.list[i].path, path) == 0) {
      return &f->values.list[i];
    }
  }
  fail_msg("no value is called %s", path);
  return NULL;
}

/* ---- every field ---- */

static bool is_message(const upb_FieldDef *field) {
  return upb_FieldDef_IsSubMessage(field) && !upb_FieldDef_IsMap(field) &&
         upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) ==
             kUpb_WellKnown_Unspecified;
}

/* Not a value: entries, their names, what is enforced. */
static bool is_structure(const struct fixture *f, const upb_FieldDef *field) {
  return is_message(field) && (upb_FieldDef_IsRepeated(field) ||
                               upb_FieldDef_MessageSubDef(field) == f->old_policy.policy_def);
}

static void assert_told(const struct fixture *f, const upb_MessageDef *def, const char *prefix) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    char path[EFFECTIVE_PATH_SIZE];
    if (is_structure(f, field)) {
      continue;
    }
    (void)snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                   upb_FieldDef_JsonName(field));
    if (is_message(field)) {
      assert_told(f, upb_FieldDef_MessageSubDef(field), path);
    } else {
      (void)value_of(f, upb_FieldDef_IsMap(field) ? strcat(path, ".DATA_LOSS") : path);
    }
  }
}

static void every_field_of_the_schema_is_told(void **state) {
  struct fixture *f = *state;
  load_file(f, &f->old_policy, "test/unit/policy/testdata/everything.json");
  explain(f, ADD);
  assert_told(f, f->old_policy.method_def, "");
  assert_told(f, f->old_policy.policy_def, "");
}

/* All that the entry and the channel say, and so in a place; but for what is ignored, and codes. */
static void what_a_document_says_is_told_with_its_place(void **state) {
  struct fixture *f = *state;
  load_file(f, &f->old_policy, "test/unit/policy/testdata/everything.json");
  explain(f, ADD);
  for (size_t i = 0; i < f->values.n; i++) {
    const struct effective_value *value = &f->values.list[i];
    if (strncmp(value->path, "translation.codes.", strlen("translation.codes.")) == 0 ||
        strcmp(value->path, "hedgingPolicy") == 0) {
      continue;
    }
    if (value->origin.kind == WEIR__ORIGIN_BUILT_IN || value->origin.line == 0 ||
        json_is_null(value->value)) {
      fail_msg("%s is said to be built in, or nowhere, or nothing", value->path);
    }
  }
}

static void every_code_is_told(void **state) {
  struct fixture *f = *state;
  load_text(f, &f->old_policy, "codes.json", "{}");
  explain(f, ADD);
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    char path[EFFECTIVE_PATH_SIZE];
    (void)snprintf(path, sizeof path, "translation.codes.%s",
                   weir_status_code_name((grpc_status_code)code));
    assert_true(json_is_string(value_of(f, path)->value));
  }
}

/* ---- single values ---- */

static const struct {
  const char *why;
  const char *document;
  const char *path;
  const char *value; /* as a person reads it */
  const char *said;  /* NULL: nothing else */
  enum weir__origin_kind kind;
  uint32_t line;
  uint32_t column;
} rows[] = {
    {"a default", "{}", "deadline.maxTimeout", "60s", NULL, WEIR__ORIGIN_BUILT_IN, 0, 0},
    {"what is said", "{\n \"deadline\": {\"maxTimeout\": \"5s\"}}", "deadline.maxTimeout", "5s",
     NULL, WEIR__ORIGIN_CHANNEL, 2, 29},
    {"a default that is said", "{\"deadline\": {\"maxTimeout\": \"60.0s\"}}", "deadline.maxTimeout",
     "60s", NULL, WEIR__ORIGIN_CHANNEL, 1, 29},
    {"null is nothing said", "{\"deadline\": {\"maxTimeout\": null}}", "deadline.maxTimeout", "60s",
     NULL, WEIR__ORIGIN_BUILT_IN, 0, 0},
    {"a default timeout above the ceiling", "{\"deadline\": {\"defaultTimeout\": \"120s\"}}",
     "deadline.defaultTimeout", "60s", "120s", WEIR__ORIGIN_CHANNEL, 1, 33},
    {"a default timeout above a lower ceiling", "{\"deadline\": {\"maxTimeout\": \"4s\"}}",
     "deadline.defaultTimeout", "4s", "10s", WEIR__ORIGIN_BUILT_IN, 0, 0},
    {"a ratio of more digits", "{\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0.5466}}",
     "retryThrottling.tokenRatio", "0.546", "0.5466", WEIR__ORIGIN_CHANNEL, 1, 53},
    {"a ratio in quotes", "{\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": \"0.5466\"}}",
     "retryThrottling.tokenRatio", "0.546", "0.5466", WEIR__ORIGIN_CHANNEL, 1, 53},
    {"a ratio as it is", "{\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0.29}}",
     "retryThrottling.tokenRatio", "0.29", NULL, WEIR__ORIGIN_CHANNEL, 1, 53},
    {"no throttling", "{}", "retryThrottling", "no throttling", NULL, WEIR__ORIGIN_BUILT_IN, 0, 0},
    {"no retries", "{}", "retryPolicy", "no retries", NULL, WEIR__ORIGIN_BUILT_IN, 0, 0},
    {"a longer open time takes its ceiling along", "{\"breaker\": {\"openFor\": \"400s\"}}",
     "breaker.maxOpenFor", "400s", NULL, WEIR__ORIGIN_BUILT_IN, 0, 0},
    {"attempts above five",
     "{\"methodConfig\": [{\"name\": [{}], \"retryPolicy\": {\"maxAttempts\": 7,"
     " \"initialBackoff\": \"1s\", \"maxBackoff\": \"1s\", \"backoffMultiplier\": 1,"
     " \"retryableStatusCodes\": [14, \"unavailable\", 10]}}]}",
     "retryPolicy.maxAttempts", "5", "7", WEIR__ORIGIN_CHANNEL, 1, 65},
    {"codes in one order, each once",
     "{\"methodConfig\": [{\"name\": [{}], \"retryPolicy\": {\"maxAttempts\": 7,"
     " \"initialBackoff\": \"1s\", \"maxBackoff\": \"1s\", \"backoffMultiplier\": 1,"
     " \"retryableStatusCodes\": [14, \"unavailable\", 10]}}]}",
     "retryPolicy.retryableStatusCodes", "ABORTED, UNAVAILABLE", NULL, WEIR__ORIGIN_CHANNEL, 1,
     160},
    {"a code of the channel's", "{\"translation\": {\"codes\": {\"5\": \"INTERNAL\"}}}",
     "translation.codes.NOT_FOUND", "INTERNAL", NULL, WEIR__ORIGIN_CHANNEL, 1, 33},
    {"a code that the entry changes back",
     "{\"translation\": {\"codes\": {\"NOT_FOUND\": \"INTERNAL\"}},\n\"methodConfig\": "
     "[{\"name\": [{}], \"translation\": {\"codes\": {\"NOT_FOUND\": \"NOT_FOUND\"}}}]}",
     "translation.codes.NOT_FOUND", "NOT_FOUND", NULL, WEIR__ORIGIN_CHANNEL, 2, 72},
    {"a code beside one that the entry says",
     "{\"translation\": {\"codes\": {\"NOT_FOUND\": \"INTERNAL\"}},\n\"methodConfig\": "
     "[{\"name\": [{}], \"translation\": {\"codes\": {\"ABORTED\": \"UNKNOWN\"}}}]}",
     "translation.codes.NOT_FOUND", "INTERNAL", NULL, WEIR__ORIGIN_CHANNEL, 1, 41},
    {"a deadline by its key", "{\"translation\": {\"deadlineExceededAs\": \"ABORTED\"}}",
     "translation.codes.DEADLINE_EXCEEDED", "ABORTED", NULL, WEIR__ORIGIN_CHANNEL, 1, 40},
    {"a deadline by the entry's codes over the channel's key",
     "{\"translation\": {\"deadlineExceededAs\": \"ABORTED\"},\n\"methodConfig\": [{\"name\": "
     "[{}], \"translation\": {\"codes\": {\"DEADLINE_EXCEEDED\": \"UNKNOWN\"}}}]}",
     "translation.codes.DEADLINE_EXCEEDED", "UNKNOWN", NULL, WEIR__ORIGIN_CHANNEL, 2, 80},
    {"no boundary", "{\"translation\": {\"boundary\": false}}",
     "translation.codes.INVALID_ARGUMENT", "INVALID_ARGUMENT", NULL, WEIR__ORIGIN_CHANNEL, 1, 30},
    {"a list that is empty over one that is not",
     "{\"translation\": {\"keepMetadata\": [\"x-a\"]},\n\"methodConfig\": [{\"name\": [{}],"
     " \"translation\": {\"keepMetadata\": []}}]}",
     "translation.keepMetadata", "none", NULL, WEIR__ORIGIN_CHANNEL, 2, 65},
    {"a fallback of the channel's under an entry's",
     "{\"fallback\": {\"timeout\": \"0.5s\"},\n\"methodConfig\": [{\"name\": [{}],"
     " \"fallback\": {\"onFailure\": true}}]}",
     "fallback.timeout", "0.5s", NULL, WEIR__ORIGIN_CHANNEL, 1, 26},
    {"what is passed on", "{\"loadBalancingConfig\": [{\"pick_first\": {}}]}",
     "loadBalancingConfig", "[{\"pick_first\": {}}]", NULL, WEIR__ORIGIN_CHANNEL, 1, 25},
    {"a policy by name", "{\"loadBalancingPolicy\": \"round_robin\"}", "loadBalancingPolicy",
     "round_robin", NULL, WEIR__ORIGIN_CHANNEL, 1, 25},
    {"idempotent, by which weir does nothing",
     "{\"methodConfig\": [{\"name\": [{}], \"idempotent\": true}]}", "idempotent", "true", NULL,
     WEIR__ORIGIN_CHANNEL, 1, 48},
};

static void assert_row(const struct fixture *f, size_t i) {
  const struct effective_value *value = value_of(f, rows[i].path);
  char *text = effective_value_text(value->value, value->none);
  char *said = value->said != NULL ? effective_value_text(value->said, value->none) : NULL;
  const bool is_as_said = (said == NULL && rows[i].said == NULL) ||
                          (said != NULL && rows[i].said != NULL && strcmp(said, rows[i].said) == 0);
  if (strcmp(text, rows[i].value) != 0 || !is_as_said || value->origin.kind != rows[i].kind ||
      value->origin.line != rows[i].line || value->origin.column != rows[i].column) {
    fail_msg("%s: %s, said %s, kind %d at %u:%u", rows[i].why, text, said != NULL ? said : "-",
             (int)value->origin.kind, (unsigned)value->origin.line, (unsigned)value->origin.column);
  }
  free(text);
  free(said);
}

static void a_value_is_what_holds_beside_what_is_said(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    load_text(f, &f->old_policy, "value.json", rows[i].document);
    explain(f, ADD);
    assert_row(f, i);
    effective_fini(&f->old_policy);
    memset(&f->old_policy, 0, sizeof f->old_policy);
  }
}

static void a_timeout_above_a_ceiling_says_for_which_calls_it_is_cut(void **state) {
  struct fixture *f = *state;
  load_text(f, &f->old_policy, "cut.json",
            "{\"deadline\": {\"maxTimeout\": \"5s\", \"maxStreamTimeout\": \"7s\"},"
            "\"methodConfig\": [{\"name\": [{}], \"timeout\": \"6s\"},"
            "{\"name\": [{\"service\": \"a.B\"}], \"timeout\": \"8s\"}]}");
  explain(f, "/x.Y/Z");
  assert_string_equal(value_of(f, "timeout")->note, "unary calls: cut to 5s");
  explain(f, "/a.B/C");
  assert_string_equal(value_of(f, "timeout")->note, "unary calls: cut to 5s, streams: cut to 7s");
}

/* ---- entries ---- */

static const struct {
  const char *path;
  enum effective_kind chosen;
  bool service_matches;
  bool default_matches;
} matches[] = {
    {"/a.B/C", EFFECTIVE_METHOD, true, true},    {"/a.B/D", EFFECTIVE_SERVICE, true, true},
    {"/a.BC/C", EFFECTIVE_DEFAULT, false, true}, {"/a.B/", EFFECTIVE_SERVICE, true, true},
    {"//", EFFECTIVE_DEFAULT, false, true},
};

static void the_chosen_entry_is_the_one_that_holds(void **state) {
  struct fixture *f = *state;
  load_text(f, &f->old_policy, "match.json",
            "{\"methodConfig\": [{\"name\": [{}], \"timeout\": \"1s\"},"
            "{\"name\": [{\"service\": \"x.Y\"}, {\"service\": \"a.B\"}], \"timeout\": \"2s\"},"
            "{\"name\": [{\"service\": \"a.B\", \"method\": \"C\"}], \"timeout\": \"3s\"}]}");
  for (size_t i = 0; i < sizeof matches / sizeof matches[0]; i++) {
    const struct effective_match match =
        effective_match_of(&f->old_policy, matches[i].path, strlen(matches[i].path));
    if (match.chosen != matches[i].chosen ||
        (match.names[EFFECTIVE_SERVICE] != NULL) != matches[i].service_matches ||
        (match.names[EFFECTIVE_DEFAULT] != NULL) != matches[i].default_matches) {
      fail_msg("%s: %s", matches[i].path, effective_kind_name(match.chosen));
    }
    explain(f, matches[i].path);
    const struct effective_value *timeout = value_of(f, "timeout");
    assert_int_equal(timeout->said == NULL, true); /* the policy in force has the same entry */
  }
}

/* ---- changes ---- */

#define METHODS(entries) "{\"methodConfig\": [" entries "]}"
#define ENTRY(name, keys) "{\"name\": [" name "], " keys "}"
#define OF_SERVICE "{\"service\": \"shop.Cart\"}"
#define OF_ADD "{\"service\": \"shop.Cart\", \"method\": \"Add\"}"

static const struct {
  const char *why;
  const char *old_text;
  const char *new_text;
  const char *changes; /* "path: old -> new; ", those of the channel first */
} differences[] = {
    {"nothing", "{}", "{}", ""},
    {"written otherwise", "{\"name\":\"a\",\"passTrace\":true}",
     "{ \"passTrace\" : true,\n \"name\": \"\\u0061\" }", ""},
    {"null and an empty object", "{\"breaker\": {}}", "{\"breaker\": null, \"name\": null}", ""},
    {"a default that is said", "{}", "{\"breaker\": {\"probes\": 3, \"window\": \"60s\"}}", ""},
    {"numbers in other forms", "{\"breaker\": {\"probes\": 4, \"failureRatio\": 0.50}}",
     "{\"breaker\": {\"probes\": \"4\", \"failureRatio\": 5e-1}}", ""},
    {"whole numbers with a fraction", "{\"breaker\": {\"probes\": 4}}",
     "{\"breaker\": {\"probes\": 4.0}}", ""},
    {"codes in another order, twice, as numbers", METHODS(ENTRY(OF_ADD, RETRIES)),
     METHODS(ENTRY(OF_ADD, "\"retryPolicy\": {\"maxAttempts\": 3, \"initialBackoff\": \"0.10s\","
                           " \"maxBackoff\": \"1s\", \"backoffMultiplier\": 2.0,"
                           " \"retryableStatusCodes\": [10, \"unavailable\", 14, 14]}")),
     ""},
    {"attempts beyond five are five",
     METHODS(ENTRY(OF_ADD, "\"retryPolicy\": {\"maxAttempts\": 6, \"initialBackoff\": \"0.1s\","
                           " \"maxBackoff\": \"1s\", \"backoffMultiplier\": 2,"
                           " \"retryableStatusCodes\": [14]}")),
     METHODS(ENTRY(OF_ADD, "\"retryPolicy\": {\"maxAttempts\": 9, \"initialBackoff\": \"0.1s\","
                           " \"maxBackoff\": \"1s\", \"backoffMultiplier\": 2,"
                           " \"retryableStatusCodes\": [14]}")),
     ""},
    {"lists in another order", "{\"translation\": {\"keepMetadata\": [\"x-a\", \"x-b\"]}}",
     "{\"translation\": {\"keepMetadata\": [\"x-b\", \"x-a\", \"x-b\"]}}", ""},
    {"a code that is translated as it is built in", "{}",
     "{\"translation\": {\"codes\": {\"INVALID_ARGUMENT\": \"INTERNAL\"}}}", ""},
    {"what is passed on, its keys in another order",
     "{\"loadBalancingConfig\": [{\"x\": {\"a\": 1, \"b\": 2}}]}",
     "{\"loadBalancingConfig\": [{\"x\": {\"b\": 2, \"a\": 1}}]}", ""},
    {"a value of the channel's", "{}", "{\"breaker\": {\"window\": \"30s\"}}",
     "breaker.window: 60s -> 30s; "},
    {"a value of an entry's", METHODS(ENTRY(OF_ADD, "\"timeout\": \"1s\"")),
     METHODS(ENTRY(OF_ADD, "\"timeout\": \"2s\"")), "timeout: 1s -> 2s; "},
    {"retries that are new", METHODS(ENTRY(OF_ADD, "\"timeout\": \"1s\"")),
     METHODS(ENTRY(OF_ADD, "\"timeout\": \"1s\", " RETRIES)),
     "retryPolicy.maxAttempts: no retries -> 3; retryPolicy.initialBackoff: no retries -> 0.1s; "
     "retryPolicy.maxBackoff: no retries -> 1s; retryPolicy.backoffMultiplier: no retries -> 2; "
     "retryPolicy.retryableStatusCodes: no retries -> ABORTED, UNAVAILABLE; "},
    {"a throttle that is gone", "{\"retryThrottling\": {\"maxTokens\": 9, \"tokenRatio\": 1}}",
     "{}",
     "retryThrottling.maxTokens: 9 -> no throttling; retryThrottling.tokenRatio: 1 -> no "
     "throttling; "},
    {"an entry that is new and says what its service's does",
     METHODS(ENTRY(OF_SERVICE, "\"timeout\": \"1s\"")),
     METHODS(ENTRY(OF_SERVICE ", " OF_ADD, "\"timeout\": \"1s\"")), ""},
    {"an entry that is gone, so that its service's holds",
     METHODS(ENTRY(OF_ADD, "\"timeout\": \"1s\"") "," ENTRY(OF_SERVICE, "\"timeout\": \"2s\"")),
     METHODS(ENTRY(OF_SERVICE, "\"timeout\": \"2s\"")), "timeout: 1s -> 2s; "},
    {"what is the channel's is told once",
     "{\"methodConfig\": [" ENTRY(OF_ADD, "\"translation\": {\"keepMetadata\": [\"x-a\"]}") "]}",
     "{\"translation\": {\"messageRef\": false, \"codes\": {\"ABORTED\": \"UNKNOWN\"}},"
     " \"methodConfig\": [" ENTRY(OF_ADD, "\"translation\": {\"keepMetadata\": [\"x-a\"]}") "]}",
     "translation.messageRef: true -> false; translation.codes.ABORTED: ABORTED -> UNKNOWN; "},
    {"what an entry had of its own and has now of the channel's",
     METHODS(ENTRY(OF_ADD, "\"translation\": {\"messageRef\": false}")),
     "{\"translation\": {\"messageRef\": false}, \"methodConfig\": [" ENTRY(
         OF_ADD, "\"timeout\": null") "]}",
     "translation.messageRef: true -> false; "},
    {"what an entry keeps although the channel's changes stays untold",
     "{\"methodConfig\": [" ENTRY(OF_ADD, "\"fallback\": {\"timeout\": \"0.2s\"}") "]}",
     "{\"fallback\": {\"timeout\": \"0.3s\"}, \"methodConfig\": [" ENTRY(
         OF_ADD, "\"fallback\": {\"timeout\": \"0.2s\"}") "]}",
     "fallback.timeout: 0.1s -> 0.3s; "},
    {"a default timeout that the ceiling cuts either way",
     "{\"deadline\": {\"defaultTimeout\": \"100s\"}}",
     "{\"deadline\": {\"defaultTimeout\": \"200s\"}}", ""},
    {"idempotent", METHODS(ENTRY(OF_ADD, "\"idempotent\": false")),
     METHODS(ENTRY(OF_ADD, "\"idempotent\": true")), "idempotent: false -> true; "},
    {"idempotent, not said and said to be false", METHODS(ENTRY(OF_ADD, "\"timeout\": \"1s\"")),
     METHODS(ENTRY(OF_ADD, "\"timeout\": \"1s\", \"idempotent\": false")), ""},
};

static void append_changes(struct fixture *f, const struct effective_changes *changes) {
  for (size_t i = 0; i < changes->n; i++) {
    const struct effective_value *before = changes->list[i].old_value;
    const struct effective_value *after = changes->list[i].new_value;
    char *old_text = before != NULL ? effective_value_text(before->value, before->none) : NULL;
    char *new_text = after != NULL ? effective_value_text(after->value, after->none) : NULL;
    const size_t length = strlen(f->text);
    (void)snprintf(f->text + length, sizeof f->text - length, "%s: %s -> %s; ",
                   effective_change_path(&changes->list[i]), old_text != NULL ? old_text : "none",
                   new_text != NULL ? new_text : "none");
    free(old_text);
    free(new_text);
  }
}

static void only_what_holds_otherwise_is_a_change(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
    load_text(f, &f->old_policy, "old.json", differences[i].old_text);
    load_text(f, &f->new_policy, "new.json", differences[i].new_text);
    hold(&f->old_policy, ADD);
    hold(&f->new_policy, ADD);
    f->text[0] = '\0';
    effective_changes_channel(&f->channel, &f->old_policy, &f->new_policy);
    append_changes(f, &f->channel);
    effective_changes_method(&f->changes, &f->old_policy, &f->new_policy, ADD, 0, &f->channel);
    append_changes(f, &f->changes);
    if (strcmp(f->text, differences[i].changes) != 0) {
      fail_msg("%s: \"%s\"", differences[i].why, f->text);
    }
    effective_fini(&f->old_policy);
    effective_fini(&f->new_policy);
    memset(&f->old_policy, 0, sizeof f->old_policy);
    memset(&f->new_policy, 0, sizeof f->new_policy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_field_of_the_schema_is_told, setup, teardown),
      cmocka_unit_test_setup_teardown(what_a_document_says_is_told_with_its_place, setup, teardown),
      cmocka_unit_test_setup_teardown(every_code_is_told, setup, teardown),
      cmocka_unit_test_setup_teardown(a_value_is_what_holds_beside_what_is_said, setup, teardown),
      cmocka_unit_test_setup_teardown(a_timeout_above_a_ceiling_says_for_which_calls_it_is_cut,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(the_chosen_entry_is_the_one_that_holds, setup, teardown),
      cmocka_unit_test_setup_teardown(only_what_holds_otherwise_is_a_change, setup, teardown),
  };
  return cmocka_run_group_tests_name("effective", tests, NULL, NULL);
}
