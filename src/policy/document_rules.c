/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include <weir/policy.h>

#include "interceptors/translation/translation.h"
#include "src/decide/breaker_options.h"
#include "src/policy/document_walk.h"
#include "src/policy/duration.h"
#include "src/policy/json_number.h"
#include "src/policy/policy.h"
#include "src/policy/policy_options.h"

/* A token ratio beyond this fills any bucket at once (A6: maxTokens is at most 1000), so it is
 * taken as this. */
#define MAX_RATIO_MILLI ((uint64_t)1000 * WEIR__TOKEN_MILLI)
#define RATIO_PLACES 3

#define SHOWN_SIZE 32

/* ---- fields ---- */

static const struct weir__field_rule field_rules[] = {
    {.message = "RetryPolicy",
     .field = "max_attempts",
     .place = WEIR__RULE_OUTSIDE_ENFORCE,
     .required = true,
     .at_least = 2,
     .at_most = DBL_MAX,
     .must = "an integer > 1"},
    {.message = "RetryPolicy",
     .field = "initial_backoff",
     .place = WEIR__RULE_OUTSIDE_ENFORCE,
     .required = true,
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "RetryPolicy",
     .field = "max_backoff",
     .place = WEIR__RULE_OUTSIDE_ENFORCE,
     .required = true,
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "RetryPolicy",
     .field = "backoff_multiplier",
     .place = WEIR__RULE_OUTSIDE_ENFORCE,
     .required = true,
     .at_least = DBL_TRUE_MIN,
     .at_most = DBL_MAX,
     .must = "a finite number > 0"},
    {.message = "RetryPolicy",
     .field = "retryable_status_codes",
     .place = WEIR__RULE_OUTSIDE_ENFORCE,
     .required = true,
     .not_ok = true},
    /* What is enforced of retries bounds those that there are: each bound may stand alone. */
    {.message = "RetryPolicy",
     .field = "max_attempts",
     .place = WEIR__RULE_INSIDE_ENFORCE,
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "an integer >= 1; 1 = no retries"},
    {.message = "RetryPolicy",
     .field = "initial_backoff",
     .place = WEIR__RULE_INSIDE_ENFORCE,
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "RetryPolicy",
     .field = "max_backoff",
     .place = WEIR__RULE_INSIDE_ENFORCE,
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "RetryPolicy",
     .field = "backoff_multiplier",
     .place = WEIR__RULE_INSIDE_ENFORCE,
     .at_least = DBL_TRUE_MIN,
     .at_most = DBL_MAX,
     .must = "a finite number > 0"},
    {.message = "RetryPolicy",
     .field = "retryable_status_codes",
     .place = WEIR__RULE_INSIDE_ENFORCE,
     .not_ok = true},
    {.message = "RetryThrottling",
     .field = "max_tokens",
     .required = true,
     .at_least = 1,
     .at_most = 1000,
     .must = "an integer in (0, 1000]"},
    {.message = "RetryThrottling", .field = "token_ratio", .required = true},
    {.message = "MethodConfig",
     .field = "per_attempt_timeout",
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "Deadline",
     .field = "default_timeout",
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "Deadline",
     .field = "max_timeout",
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "Deadline",
     .field = "default_stream_timeout",
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "Deadline",
     .field = "max_stream_timeout",
     .at_least = 1,
     .at_most = DBL_MAX,
     .must = "> 0s"},
    {.message = "Translation", .field = "deadline_exceeded_as", .not_ok = true},
    {.message = "Translation",
     .field = "max_message_bytes",
     .at_least = 64,
     .at_most = 8192,
     .must = "an integer from 64 to 8192"},
    {.message = "Fallback", .field = "timeout", .at_least = 1, .at_most = DBL_MAX, .must = "> 0s"},
    {.message = "Fallback",
     .field = "max_concurrent",
     .at_least = 1,
     .at_most = WEIR_MAX_FALLBACKS,
     .must = "an integer from 1 to 1024"},
    {.message = "Translation.CodesEntry", .field = "value", .not_ok = true},
};

#define N_FIELD_RULES (sizeof field_rules / sizeof field_rules[0])
_Static_assert(N_FIELD_RULES <= WEIR__DOCUMENT_MAX_RULES, "walk.ruled_fields is too short");

/* ---- helpers ---- */

/* A place under an object. */
static struct weir__path path_to(const struct weir__walk *walk, const struct weir__object *object,
                                 const char *json_name) {
  const size_t size = strlen(json_name);
  const upb_FieldDef *field = upb_MessageDef_FindByJsonNameWithSize(object->def, json_name, size);
  const uint32_t value = field == NULL ? 0 : object->given[upb_FieldDef_Index(field)];
  return (struct weir__path){.parent = object->path,
                             .key = json_name,
                             .key_size = size,
                             .at = value == 0 ? 0 : weir__walk_at(walk, value)};
}

/* The place of an element of a list of single values. */
static struct weir__path path_to_element(const struct weir__walk *walk,
                                         const struct weir__path *list, uint32_t list_value,
                                         size_t i) {
  return (struct weir__path){
      .parent = list, .index = i, .at = weir__walk_at(walk, list_value + 1 + (uint32_t)i)};
}

static void tell(struct weir__walk *walk, enum weir_policy_severity severity,
                 const struct weir__object *object, const char *json_name, const char *message) {
  const struct weir__path path = path_to(walk, object, json_name);
  weir__problems_tell(walk->problems, severity, &path, "%s", message);
}

static bool is_valid(const struct weir__object *object, const char *field) {
  bool valid = false;
  (void)weir__object_given(object, field, &valid);
  return valid;
}

/* ---- names ---- */

static void check_name_is_new(struct weir__walk *walk, const struct weir__object *object,
                              upb_StringView service, upb_StringView method) {
  const struct weir__named name = {.name = object->message,
                                   .config = (uint32_t)object->path->parent->parent->index,
                                   .index = (uint32_t)object->path->index};
  struct weir__named first;
  switch (weir__name_set_add(&walk->names, &name, &first)) {
  case WEIR__NAME_ADDED:
    return;
  case WEIR__NAME_NO_MEMORY:
    walk->out_of_memory = true;
    return;
  case WEIR__NAME_FOUND:
    break;
  }
  if (service.size == 0) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, object->path,
                        "second default entry; the first is methodConfig[%u].name[%u]",
                        (unsigned)first.config, (unsigned)first.index);
    return;
  }
  weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, object->path,
                      "second entry for /%.*s/%.*s; the first is methodConfig[%u].name[%u]",
                      weir__text_cut(service.data, service.size, (size_t)3 * SHOWN_SIZE / 2),
                      service.data, weir__text_cut(method.data, method.size, SHOWN_SIZE),
                      method.data, (unsigned)first.config, (unsigned)first.index);
}

static bool holds(upb_StringView text, char c) {
  return text.size > 0 && memchr(text.data, c, text.size) != NULL;
}

/* Whether a name can be that of a method; else the problems have been told. */
static bool check_name_is_well_formed(struct weir__walk *walk, const struct weir__object *object,
                                      upb_StringView service, upb_StringView method) {
  const size_t n_refused = walk->problems->n_refused;
  if (service.size == 0 && method.size > 0) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, object->path,
                        "a method without its service");
  }
  if (holds(service, '/')) {
    tell(
        walk, WEIR_POLICY_REFUSED, object, "service",
        "must not hold a slash: \"package.Service\" here, and its \"Method\" under the key method");
  }
  if (holds(method, '/')) {
    tell(walk, WEIR_POLICY_REFUSED, object, "method",
         "must not hold a slash: the bare name of the method");
  }
  if (holds(service, '*') || holds(method, '*')) {
    weir__problems_tell(walk->problems, WEIR_POLICY_WARNING, object->path,
                        "\"*\" is no wildcard; an empty or missing key means all");
  }
  return walk->problems->n_refused == n_refused;
}

static void check_name(struct weir__walk *walk, const struct weir__object *object) {
  const weir_v1_Name *name = object->message;
  const upb_StringView service = weir_v1_Name_service(name);
  const upb_StringView method = weir_v1_Name_method(name);
  bool service_valid = false;
  bool method_valid = false;
  const bool service_given = weir__object_given(object, "service", &service_valid) != 0;
  const bool method_given = weir__object_given(object, "method", &method_valid) != 0;
  if ((service_given && !service_valid) || (method_given && !method_valid)) {
    return;
  }
  if (check_name_is_well_formed(walk, object, service, method) && !walk->in_enforce) {
    check_name_is_new(walk, object, service, method);
  }
}

/* ---- methods ---- */

static void check_timeout(struct weir__walk *walk, const struct weir__object *object,
                          const weir_v1_MethodConfig *config) {
  char ceiling[WEIR__DURATION_TEXT_SIZE];
  const struct weir__path path = path_to(walk, object, "timeout");
  const int64_t timeout_ns = weir__policy_options_ns(weir_v1_MethodConfig_timeout(config), 0);
  if (walk->in_enforce) {
    return; /* it bounds those that channels have */
  }
  if (timeout_ns == 0) {
    weir__problems_tell(walk->problems, WEIR_POLICY_WARNING, &path,
                        "0s: every call is past its deadline at once");
  } else if (walk->ceilings_are_known && timeout_ns > walk->max_timeout_ns) {
    weir__duration_print(walk->max_timeout_ns, ceiling);
    weir__problems_tell(walk->problems, WEIR_POLICY_WARNING, &path,
                        "above the ceiling: unary calls are clamped to deadline.maxTimeout, %s",
                        ceiling);
  }
}

static void check_method_config(struct weir__walk *walk, const struct weir__object *object) {
  const weir_v1_MethodConfig *config = object->message;
  const uint32_t names = weir__object_given(object, "name", NULL);
  const bool retries = weir__object_given(object, "retry_policy", NULL) != 0;
  const bool hedges = weir__object_given(object, "hedging_policy", NULL) != 0;
  if (retries && hedges) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, object->path,
                        "retryPolicy and hedgingPolicy exclude each other");
  } else if (hedges && is_valid(object, "hedging_policy")) {
    tell(walk, WEIR_POLICY_WARNING, object, "hedgingPolicy", "not supported, ignored");
  }
  if (names == 0 || weir__json_next(walk->json, names) == names + 1) {
    if (names == 0 || walk->json->values[names].kind == WEIR__JSON_ARRAY) {
      weir__problems_tell(walk->problems, WEIR_POLICY_WARNING, object->path,
                          "has no name and is ignored");
    }
  } else if (is_valid(object, "timeout")) {
    check_timeout(walk, object, config);
  }
}

static void check_retry_policy(struct weir__walk *walk, const struct weir__object *object) {
  const uint32_t max_attempts = weir_v1_RetryPolicy_max_attempts(object->message);
  const struct weir__path path = path_to(walk, object, "maxAttempts");
  if (is_valid(object, "max_attempts") && max_attempts > WEIR_MAX_ATTEMPTS) {
    weir__problems_tell(walk->problems, WEIR_POLICY_WARNING, &path, "%u clamped to %d",
                        (unsigned)max_attempts, WEIR_MAX_ATTEMPTS);
  }
}

/* ---- the throttle ---- */

/* Thousandths are cut from the text, which "0.29" is exact in, and put into the message as the
 * nearest double to them. */
static void check_retry_throttling(struct weir__walk *walk, const struct weir__object *object) {
  struct weir__json_number ratio;
  uint64_t milli = 0;
  const uint32_t value = weir__object_given(object, "token_ratio", NULL);
  if (!is_valid(object, "token_ratio")) {
    return;
  }
  const struct weir__json_text text = walk->json->values[value].kind == WEIR__JSON_STRING
                                          ? weir__json_string(walk->json, value)
                                          : weir__json_source(walk->json, value);
  (void)weir__json_number_parse(text.text, text.size, &ratio);
  (void)weir__json_number_scale(&ratio, RATIO_PLACES, &milli);
  if (milli == 0 || ratio.negative) {
    const struct weir__path path = path_to(walk, object, "tokenRatio");
    weir__problems_tell(
        walk->problems, WEIR_POLICY_REFUSED, &path,
        "must be at least 0.001 (digits beyond the third decimal are cut off), not %.*s",
        weir__text_cut(text.text, text.size, SHOWN_SIZE), text.text);
    return;
  }
  milli = milli < MAX_RATIO_MILLI ? milli : MAX_RATIO_MILLI;
  weir_v1_RetryThrottling_set_token_ratio(object->message, (double)milli / WEIR__TOKEN_MILLI);
}

/* ---- layers ---- */

static void check_default(struct weir__walk *walk, const struct weir__object *object,
                          const char *json_name, int64_t default_ns, int64_t max_ns,
                          const char *message) {
  if (default_ns > max_ns) {
    tell(walk, WEIR_POLICY_WARNING, object, json_name, message);
  }
}

static void check_deadline(struct weir__walk *walk, const struct weir__object *object) {
  const weir_v1_Deadline *deadline = object->message;
  if (!walk->ceilings_are_known) {
    return;
  }
  check_default(walk, object, "defaultTimeout",
                weir__policy_options_ns(weir_v1_Deadline_default_timeout(deadline), 0),
                walk->max_timeout_ns, "above deadline.maxTimeout, and clamped to it");
  check_default(
      walk, object, "defaultStreamTimeout",
      weir__policy_options_ns(weir_v1_Deadline_default_stream_timeout(deadline), 0),
      weir__policy_options_ns(weir_v1_Deadline_max_stream_timeout(deadline), WEIR_NO_LIMIT_NS),
      "above deadline.maxStreamTimeout, and clamped to it");
}

/* What is enforced need not fit the defaults of what is not, since a channel can set that. */
static void make_way(struct weir_breaker_options *options, const weir_v1_Breaker *breaker) {
  if (!weir_v1_Breaker_has_open_for(breaker)) {
    options->open_for_ns = 1;
  }
  if (!weir_v1_Breaker_has_window(breaker)) {
    options->window_ns = WEIR_SECOND_NS;
  }
  if (!weir_v1_Breaker_has_window_buckets(breaker)) {
    options->window_buckets = 1;
  }
}

/* The layer knows what it can be run with. It names one fault at a time; each is told, and its
 * field made the default again, until it is content. */
static void check_breaker(struct weir__walk *walk, const struct weir__object *object) {
  struct weir_breaker_options options;
  struct weir_diagnostic fault;
  for (int i = 0; i < upb_MessageDef_FieldCount(object->def); i++) {
    weir__policy_options_breaker(&options, object->message);
    if (walk->in_enforce) {
      make_way(&options, object->message);
    }
    if (weir__breaker_options_check(&options, &fault) == WEIR_OK) {
      return;
    }
    tell(walk, WEIR_POLICY_REFUSED, object, fault.path, fault.message);
    const upb_FieldDef *field =
        upb_MessageDef_FindByJsonNameWithSize(object->def, fault.path, strlen(fault.path));
    if (field == NULL || !upb_Message_Has(object->message, field)) {
      return;
    }
    upb_Message_ClearField(object->message, field);
  }
}

static void check_keep_metadata(struct weir__walk *walk, const struct weir__object *object) {
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_diagnostic fault;
  size_t n_keys = 0;
  const upb_StringView *keys = weir_v1_Translation_keep_metadata(object->message, &n_keys);
  const struct weir__path list = path_to(walk, object, "keepMetadata");
  const uint32_t value = weir__object_given(object, "keep_metadata", NULL);
  for (size_t i = 0; i < n_keys; i++) {
    const struct weir__path path = path_to_element(walk, &list, value, i);
    options.keep_metadata = &keys[i].data;
    options.n_keep_metadata = 1;
    if (weir__translation_options_check(&options, &fault) != WEIR_OK) {
      weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, &path, "%s", fault.message);
    }
  }
}

static void check_keep_details(struct weir__walk *walk, const struct weir__object *object) {
  struct weir_translation_options options = WEIR_TRANSLATION_OPTIONS_INIT;
  struct weir_diagnostic fault;
  size_t n_types = 0;
  const upb_StringView *types = weir_v1_Translation_keep_details(object->message, &n_types);
  const struct weir__path list = path_to(walk, object, "keepDetails");
  const uint32_t value = weir__object_given(object, "keep_details", NULL);
  if (n_types > WEIR__TRANSLATION_MAX_KEEP_DETAILS) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, &list,
                        "%zu message types; at most %d are kept", n_types,
                        WEIR__TRANSLATION_MAX_KEEP_DETAILS);
  }
  for (size_t i = 0; i < n_types; i++) {
    const struct weir__path path = path_to_element(walk, &list, value, i);
    options.keep_details = &types[i].data;
    options.n_keep_details = 1;
    if (weir__translation_options_check(&options, &fault) != WEIR_OK) {
      weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, &path, "%s", fault.message);
    }
  }
}

/* Of a list with a wrong element the indices are not those of the document. */
static void check_translation(struct weir__walk *walk, const struct weir__object *object) {
  if (is_valid(object, "keep_metadata")) {
    check_keep_metadata(walk, object);
  }
  if (is_valid(object, "keep_details")) {
    check_keep_details(walk, object);
  }
}

/* ---- the whole ---- */

/* The keys that the core is told of, as they stand in the document. */
static void take_passed_on(const struct weir__walk *walk, const struct weir__object *object,
                           struct weir__passed_on *passed_on) {
  for (size_t i = 0; i < WEIR__N_PASSED_ON; i++) {
    const uint32_t value = weir__object_given(object, weir__passed_on_fields[i], NULL);
    if (value != 0) {
      passed_on->values[i] = weir__json_source(walk->json, value);
    }
  }
}

static void check_policy(struct weir__walk *walk, const struct weir__object *object) {
  if (is_valid(object, "name") &&
      !weir__policy_name_is_legal(weir_v1_Policy_name(object->message).data)) {
    tell(walk, WEIR_POLICY_REFUSED, object, "name",
         "must be 1 to 63 of A-Z, a-z, 0-9, \".\", \"_\" and \"-\"");
  }
  struct weir__document *document = walk->document;
  if (walk->in_enforce) {
    take_passed_on(walk, object, &document->enforced_passed_on);
    return;
  }
  take_passed_on(walk, object, &document->passed_on);
  walk->out_of_memory =
      walk->out_of_memory ||
      !weir__passed_on_print(&document->passed_on, document->arena, &document->core_service_config);
}

/* ---- finding a rule ---- */

static const struct {
  const char *message;
  weir__object_rule *check;
} object_rules[] = {
    {"Policy", check_policy},
    {"MethodConfig", check_method_config},
    {"Name", check_name},
    {"RetryPolicy", check_retry_policy},
    {"RetryThrottling", check_retry_throttling},
    {"Deadline", check_deadline},
    {"Translation", check_translation},
    {"Breaker", check_breaker},
};

#define N_OBJECT_RULES (sizeof object_rules / sizeof object_rules[0])
_Static_assert(N_OBJECT_RULES <= WEIR__DOCUMENT_MAX_RULES, "walk.ruled_messages is too short");

static const upb_MessageDef *find_message(const struct weir__walk *walk, const char *name) {
  char full_name[64];
  snprintf(full_name, sizeof full_name, "weir.v1.%s", name);
  return upb_DefPool_FindMessageByName(walk->document->schema, full_name);
}

const struct weir__field_rule *weir__field_rule_of(const struct weir__walk *walk,
                                                   const upb_FieldDef *field) {
  const enum weir__rule_place other =
      walk->in_enforce ? WEIR__RULE_OUTSIDE_ENFORCE : WEIR__RULE_INSIDE_ENFORCE;
  for (size_t i = 0; i < N_FIELD_RULES; i++) {
    if (walk->ruled_fields[i] == field && field_rules[i].place != other) {
      return &field_rules[i];
    }
  }
  return NULL;
}

bool weir__message_requires(const struct weir__walk *walk, const upb_MessageDef *def) {
  for (size_t i = 0; i < walk->n_requiring; i++) {
    if (walk->requiring[i] == def) {
      return true;
    }
  }
  return false;
}

weir__object_rule *weir__object_rule_of(const struct weir__walk *walk, const upb_MessageDef *def) {
  for (size_t i = 0; i < N_OBJECT_RULES; i++) {
    if (walk->ruled_messages[i] == def) {
      return object_rules[i].check;
    }
  }
  return NULL;
}

/* The value that an object of the document has for a field, or 0. */
static uint32_t find_value(const struct weir__walk *walk, uint32_t object,
                           const upb_MessageDef *def, const char *field) {
  const upb_FieldDef *wanted = upb_MessageDef_FindFieldByNameWithSize(def, field, strlen(field));
  const uint32_t end = weir__json_next(walk->json, object);
  if (walk->json->values[object].kind != WEIR__JSON_OBJECT) {
    return 0;
  }
  for (uint32_t key = object + 1; key < end; key = weir__json_next(walk->json, key + 1)) {
    const struct weir__json_text text = weir__json_string(walk->json, key);
    if (upb_MessageDef_FindByJsonNameWithSize(def, text.text, text.size) == wanted) {
      return key + 1;
    }
  }
  return 0;
}

/* The ceiling may stand behind the timeouts that it bounds. Should it be wrong, the walk will say
 * so. */
static int64_t find_max_timeout_ns(const struct weir__walk *walk) {
  const struct weir_deadline_options defaults = WEIR_DEADLINE_OPTIONS_INIT;
  struct weir__duration duration;
  const uint32_t deadline = find_value(walk, 0, walk->root, "deadline");
  const uint32_t value =
      deadline == 0 ? 0 : find_value(walk, deadline, find_message(walk, "Deadline"), "max_timeout");
  if (value == 0 || walk->json->values[value].kind != WEIR__JSON_STRING) {
    return defaults.max_timeout_ns;
  }
  const struct weir__json_text text = weir__json_string(walk->json, value);
  if (!weir__duration_parse(text.text, text.size, &duration) ||
      weir__duration_to_ns(&duration) <= 0) {
    return defaults.max_timeout_ns;
  }
  return weir__duration_to_ns(&duration);
}

bool weir__rules_enforce(const struct weir__walk *walk) {
  return find_value(walk, 0, walk->root, "enforce") != 0;
}

bool weir__rules_prepare(struct weir__walk *walk) {
  for (size_t i = 0; i < N_FIELD_RULES; i++) {
    const upb_MessageDef *def = find_message(walk, field_rules[i].message);
    walk->ruled_fields[i] =
        def == NULL ? NULL
                    : upb_MessageDef_FindFieldByNameWithSize(def, field_rules[i].field,
                                                             strlen(field_rules[i].field));
    if (walk->ruled_fields[i] == NULL) {
      return false;
    }
    if (field_rules[i].required && !weir__message_requires(walk, def)) {
      if (walk->n_requiring == WEIR__DOCUMENT_MAX_REQUIRING) {
        return false;
      }
      walk->requiring[walk->n_requiring++] = def;
    }
  }
  for (size_t i = 0; i < N_OBJECT_RULES; i++) {
    walk->ruled_messages[i] = find_message(walk, object_rules[i].message);
    if (walk->ruled_messages[i] == NULL) {
      return false;
    }
  }
  walk->max_timeout_ns = find_max_timeout_ns(walk);
  return true;
}
