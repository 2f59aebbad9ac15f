/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/effective_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <google/protobuf/duration.upb.h>
#include <upb/array.h>
#include <upb/map.h>
#include <weir/outcome.h>

#include "cmd/weirctl/enforced.h"
#include "cmd/weirctl/memory.h"
#include "cmd/weirctl/simulate.h"
#include "src/policy/duration.h"
#include "src/policy/policy.h"

/* Less than a thousandth, and more than what reading a decimal twice can differ by. */
#define RATIO_GRAIN 1e-9

/* ---- the list ---- */

void effective_values_clear(struct effective_values *values) {
  for (size_t i = 0; i < values->n; i++) {
    json_decref(values->list[i].value);
    json_decref(values->list[i].said);
    json_decref(values->list[i].bound.json);
  }
  values->n = 0;
}

void effective_values_fini(struct effective_values *values) {
  effective_values_clear(values);
  free(values->list);
  *values = (struct effective_values){.list = NULL};
}

/* ---- values as JSON ---- */

static json_t *duration_json(const upb_Message *message) {
  const google_protobuf_Duration *duration = message;
  const struct weir__duration length = {.seconds = google_protobuf_Duration_seconds(duration),
                                        .nanos = google_protobuf_Duration_nanos(duration)};
  const int64_t ns = weir__duration_to_ns(&length);
  char text[WEIR__DURATION_TEXT_SIZE];
  if (ns == WEIR_NO_LIMIT_NS) {
    return json_null();
  }
  weir__duration_print(ns, text);
  return json_string(text);
}

static json_t *enum_json(const upb_FieldDef *field, int32_t number) {
  const upb_EnumValueDef *value =
      upb_EnumDef_FindValueByNumber(upb_FieldDef_EnumSubDef(field), number);
  return value != NULL ? json_string(upb_EnumValueDef_Name(value)) : json_null();
}

static json_t *text_json(upb_StringView view) {
  char *text = memory_copy_text(view.size > 0 ? view.data : "", view.size);
  json_t *string = output_string(text);
  free(text);
  return string;
}

static json_t *single_json(const upb_FieldDef *field, upb_MessageValue value) {
  switch ((int)upb_FieldDef_CType(field)) {
  case kUpb_CType_Bool:
    return json_boolean(value.bool_val);
  case kUpb_CType_Int32:
    return json_integer(value.int32_val);
  case kUpb_CType_UInt32:
    return json_integer(value.uint32_val);
  case kUpb_CType_Int64:
    return json_integer(value.int64_val);
  case kUpb_CType_Double:
    return json_real(value.double_val);
  case kUpb_CType_Enum:
    return enum_json(field, value.int32_val);
  case kUpb_CType_String:
    return text_json(value.str_val);
  case kUpb_CType_Message:
    return duration_json(value.msg_val);
  default:
    return json_null();
  }
}

struct element {
  json_t *value;
};

static int compare_elements(const void *a, const void *b) {
  const struct element *left = a;
  const struct element *right = b;
  return strcmp(json_string_value(left->value), json_string_value(right->value));
}

/* In one order, and each element once: neither means anything in a policy. */
static json_t *list_json(const upb_FieldDef *field, const upb_Array *array) {
  const size_t n = upb_Array_Size(array);
  struct element *elements = memory_new(n * sizeof *elements);
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) {
    elements[i].value = single_json(field, upb_Array_Get(array, i));
  }
  if (n > 0 && json_is_string(elements[0].value)) {
    qsort(elements, n, sizeof *elements, compare_elements);
  }
  for (size_t i = 0; i < n; i++) {
    if (i == 0 || !json_equal(elements[i].value, elements[i - 1].value)) {
      (void)json_array_append(list, elements[i].value);
    }
  }
  for (size_t i = 0; i < n; i++) {
    json_decref(elements[i].value);
  }
  free(elements);
  return list;
}

json_t *effective_field_json(const upb_FieldDef *field, upb_MessageValue value) {
  return upb_FieldDef_IsRepeated(field) ? list_json(field, value.array_val)
                                        : single_json(field, value);
}

/* "a, b", of strings. */
static char *list_text(const json_t *list) {
  size_t size = 1;
  for (size_t i = 0; i < json_array_size(list); i++) {
    size += json_string_length(json_array_get(list, i)) + strlen(", ");
  }
  char *text = memory_new(size);
  char *at = text;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *element = json_array_get(list, i);
    at += snprintf(at, size - (size_t)(at - text), "%s%s", i > 0 ? ", " : "",
                   json_string_value(element));
  }
  return text;
}

static char *real_text(const json_t *real) {
  char text[32];
  const int size = snprintf(text, sizeof text, "%.15g", json_real_value(real));
  return memory_copy_text(text, (size_t)size);
}

char *effective_value_text(const json_t *value, const char *none) {
  if (json_is_null(value)) {
    return memory_copy_text(none, strlen(none));
  }
  if (json_is_string(value)) {
    return memory_copy_text(json_string_value(value), json_string_length(value));
  }
  if (json_is_real(value)) {
    return real_text(value);
  }
  if (json_is_array(value) && json_array_size(value) == 0) {
    return memory_copy_text("none", strlen("none"));
  }
  if (json_is_array(value) && json_is_string(json_array_get(value, 0))) {
    return list_text(value);
  }
  char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
  if (dump == NULL) {
    complain_of_memory();
  }
  return dump;
}

/* ---- fields ---- */

/* What is called otherwise than "none" where it is not there. */
struct none_words {
  const char *field;
  const char *words;
};

static const struct none_words nones[] = {
    {"weir.v1.MethodConfig.retry_policy", "no retries"},
    {"weir.v1.MethodConfig.timeout", "none of its own"},
    {"weir.v1.MethodConfig.wait_for_ready", "the core's: false"},
    {"weir.v1.MethodConfig.max_request_message_bytes", "no limit but the channel's"},
    {"weir.v1.MethodConfig.max_response_message_bytes", "no limit but the channel's"},
    {"weir.v1.Policy.retry_throttling", "no throttling"},
    {"weir.v1.Translation.deadline_exceeded_as", "by whose time it was"},
};

static const char *none_of(const upb_FieldDef *field) {
  const char *name = upb_FieldDef_FullName(field);
  for (size_t i = 0; i < sizeof nones / sizeof nones[0]; i++) {
    if (strcmp(nones[i].field, name) == 0) {
      return nones[i].words;
    }
  }
  return "none";
}

static bool is_of_kind(const upb_FieldDef *field, upb_WellKnown kind) {
  return upb_FieldDef_IsSubMessage(field) && !upb_FieldDef_IsMap(field) &&
         upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) == kind;
}

static bool is_passed_on(const upb_FieldDef *field) {
  return is_of_kind(field, kUpb_WellKnown_Struct);
}

static bool is_ours(const upb_FieldDef *field) {
  return is_of_kind(field, kUpb_WellKnown_Unspecified);
}

/* A list of entries or of names, or a whole policy: none of them is a value that holds. */
static bool is_structure(const struct effective *effective, const upb_FieldDef *field) {
  return is_ours(field) && (upb_FieldDef_IsRepeated(field) ||
                            upb_FieldDef_MessageSubDef(field) == effective->policy_def);
}

/* The channel's field that an entry's is laid over; NULL: it is the entry's alone. */
static const upb_FieldDef *overlaid_field(const struct effective *effective,
                                          const upb_FieldDef *field) {
  const upb_FieldDef *channels =
      upb_MessageDef_FindFieldByName(effective->policy_def, upb_FieldDef_Name(field));
  return is_ours(field) && channels != NULL && is_ours(channels) &&
                 upb_FieldDef_MessageSubDef(channels) == upb_FieldDef_MessageSubDef(field)
             ? channels
             : NULL;
}

static bool is_overlaid(const struct effective *effective, const upb_FieldDef *channels) {
  const upb_FieldDef *field =
      upb_MessageDef_FindFieldByName(effective->method_def, upb_FieldDef_Name(channels));
  return field != NULL && overlaid_field(effective, field) == channels;
}

/* A list that is empty is said, one that is not there is not. */
static bool is_said(const upb_Message *message, const upb_FieldDef *field) {
  if (message == NULL) {
    return false;
  }
  if (upb_FieldDef_IsRepeated(field)) {
    return upb_Message_Get(message, field).array_val != NULL;
  }
  return !upb_FieldDef_HasPresence(field) || upb_Message_Has(message, field);
}

static const upb_Message *message_in(const upb_Message *message, const upb_FieldDef *field) {
  return is_said(message, field) ? upb_Message_Get(message, field).msg_val : NULL;
}

/* ---- the walk ---- */

/* What is known of one message. */
struct level {
  const upb_Message *held;    /* what holds; NULL: there is no such message */
  const upb_Message *said[2]; /* the innermost first; NULL: nothing */
  const upb_Message *channel; /* what the channel's document has; NULL: nothing, or not looked at */
  const struct weir_method_policy *method;
};

struct walk {
  const struct effective *effective;
  const char *path; /* of the method; NULL: the channel's values are walked */
  struct effective_values *values;
};

static void walk_message(struct walk *walk, const upb_MessageDef *def, const char *path,
                         const struct level *level);

/* Of the innermost message that says it; NULL: none does. */
static const upb_Message *sayer_of(const struct level *level, const upb_FieldDef *field) {
  for (size_t i = 0; i < 2; i++) {
    if (is_said(level->said[i], field)) {
      return level->said[i];
    }
  }
  return NULL;
}

/* A place is known of a null too, which says nothing; and of what is forbidden. */
static struct weir__origin origin_of(const struct walk *walk, const struct level *level,
                                     const upb_FieldDef *field) {
  const struct weir__layered *layered = &walk->effective->view.layered;
  const upb_Message *sayer = sayer_of(level, field);
  if (sayer != NULL) {
    return weir__layered_origin(layered, sayer, field);
  }
  for (size_t i = 0; i < 2; i++) {
    if (level->said[i] != NULL) {
      const struct weir__origin origin = weir__layered_origin(layered, level->said[i], field);
      if (origin.kind == WEIR__ORIGIN_ENFORCED) {
        return origin;
      }
    }
  }
  return (struct weir__origin){.kind = WEIR__ORIGIN_BUILT_IN};
}

static struct effective_value *add_value(struct walk *walk, const char *prefix, const char *key) {
  struct effective_values *values = walk->values;
  values->list = memory_grow(values->list, values->n, &values->capacity, sizeof *values->list);
  struct effective_value *value = &values->list[values->n++];
  *value = (struct effective_value){.none = "none"};
  (void)snprintf(value->path, sizeof value->path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                 key);
  return value;
}

/* NULL: nothing of this name is passed on to the core. */
static json_t *core_value(const struct walk *walk, const upb_FieldDef *field) {
  const struct effective *effective = walk->effective;
  return upb_FieldDef_ContainingType(field) == effective->policy_def && effective->core != NULL
             ? json_object_get(effective->core, upb_FieldDef_JsonName(field))
             : NULL;
}

static void add_core_value(struct effective_value *value, json_t *core) {
  value->value = json_incref(core);
  (void)snprintf(value->note, sizeof value->note, "passed on to the core");
}

static json_t *said_json(const struct level *level, const upb_FieldDef *field) {
  const upb_Message *sayer = sayer_of(level, field);
  return sayer != NULL ? effective_field_json(field, upb_Message_Get(sayer, field)) : NULL;
}

static void add_field(struct walk *walk, const char *prefix, const struct level *level,
                      const upb_FieldDef *field) {
  struct effective_value *value = add_value(walk, prefix, upb_FieldDef_JsonName(field));
  json_t *core = core_value(walk, field);
  value->none = none_of(field);
  value->origin = origin_of(walk, level, field);
  if (is_said(level->held, field)) {
    value->value = effective_field_json(field, upb_Message_Get(level->held, field));
  } else if (core != NULL) {
    add_core_value(value, core);
  } else {
    value->value = json_null();
  }
  json_t *said = value->origin.kind == WEIR__ORIGIN_CEILING && is_said(level->channel, field)
                     ? effective_field_json(field, upb_Message_Get(level->channel, field))
                     : said_json(level, field);
  if (said != NULL && !json_equal(said, value->value)) {
    value->said = said;
  } else {
    json_decref(said);
  }
}

/* ---- what is not there ---- */

/* Retries may be forbidden where nobody wants any. */
static struct weir__origin ban_of(const struct walk *walk, const upb_FieldDef *field) {
  const weir_v1_Policy *enforced = enforced_of(walk->effective);
  const bool is_retries = strcmp(upb_FieldDef_Name(field), "retry_policy") == 0;
  size_t n = 0;
  const weir_v1_MethodConfig *const *configs = enforced != NULL && is_retries && walk->path != NULL
                                                   ? weir_v1_Policy_method_config(enforced, &n)
                                                   : NULL;
  for (size_t i = 0; i < n; i++) {
    const weir_v1_RetryPolicy *bound = weir_v1_MethodConfig_retry_policy(configs[i]);
    if (bound != NULL && weir_v1_RetryPolicy_max_attempts(bound) == 1 &&
        enforced_covers(configs[i], walk->path)) {
      return weir__layered_origin(
          &walk->effective->view.layered, bound,
          upb_MessageDef_FindFieldByName(upb_FieldDef_MessageSubDef(field), "max_attempts"));
    }
  }
  return (struct weir__origin){.kind = WEIR__ORIGIN_BUILT_IN};
}

/* Where there is no such message at all. */
static void add_absent(struct walk *walk, const char *prefix, const struct level *level,
                       const upb_FieldDef *field) {
  struct effective_value *value = add_value(walk, prefix, upb_FieldDef_JsonName(field));
  value->none = none_of(field);
  value->value = json_null();
  value->origin = origin_of(walk, level, field);
  if (value->origin.kind == WEIR__ORIGIN_BUILT_IN) {
    value->origin = ban_of(walk, field);
  }
}

/* ---- what is passed on ---- */

/* It is no part of any message, so a place is known of the document's own message at most. */
static struct weir__origin passed_on_origin(const struct walk *walk, const struct level *level,
                                            const upb_FieldDef *field) {
  const struct effective *effective = walk->effective;
  const struct weir__layered *layered = &effective->view.layered;
  const bool is_channels = upb_FieldDef_ContainingType(field) == effective->policy_def;
  const upb_Message *const sayers[] = {
      level->said[0],
      is_channels ? enforced_of(effective) : NULL,
      is_channels ? layered->channel.policy : NULL,
      is_channels ? layered->organisation.policy : NULL,
  };
  for (size_t i = 0; i < sizeof sayers / sizeof sayers[0]; i++) {
    struct weir__origin origin = {.kind = WEIR__ORIGIN_BUILT_IN};
    if (sayers[i] != NULL) {
      origin = weir__layered_origin(layered, sayers[i], field);
    }
    const char *source = effective_source_at(effective, &origin);
    if (source != NULL && *source != 'n') { /* of null */
      return origin;
    }
  }
  return (struct weir__origin){.kind = WEIR__ORIGIN_BUILT_IN};
}

static void add_passed_on(struct walk *walk, const char *prefix, const struct level *level,
                          const upb_FieldDef *field) {
  struct effective_value *value = add_value(walk, prefix, upb_FieldDef_JsonName(field));
  json_t *core = core_value(walk, field);
  value->value = json_null();
  value->origin = passed_on_origin(walk, level, field);
  if (core != NULL) {
    add_core_value(value, core);
  } else if (value->origin.kind != WEIR__ORIGIN_BUILT_IN) {
    (void)snprintf(value->note, sizeof value->note, "ignored");
  }
}

/* ---- codes ---- */

static const upb_Message *codes_sayer_of(const struct level *level, const upb_FieldDef *field,
                                         const char *name, const upb_FieldDef *deadline_as) {
  const bool is_deadline = strcmp(name, weir_status_code_name(GRPC_STATUS_DEADLINE_EXCEEDED)) == 0;
  const upb_MessageValue key = {.str_val = upb_StringView_FromString(name)};
  for (size_t i = 0; i < 2; i++) {
    const upb_Map *map =
        level->said[i] != NULL ? upb_Message_Get(level->said[i], field).map_val : NULL;
    if ((map != NULL && upb_Map_Get(map, key, NULL)) ||
        (is_deadline && is_said(level->said[i], deadline_as))) {
      return level->said[i];
    }
  }
  return NULL;
}

static void add_code(struct walk *walk, const char *prefix, const struct level *level,
                     const upb_FieldDef *field, const upb_EnumValueDef *code) {
  const char *name = upb_EnumValueDef_Name(code);
  const grpc_status_code number = (grpc_status_code)upb_EnumValueDef_Number(code);
  const upb_FieldDef *deadline_as =
      upb_MessageDef_FindFieldByName(upb_FieldDef_ContainingType(field), "deadline_exceeded_as");
  const upb_Message *sayer = codes_sayer_of(level, field, name, deadline_as);
  struct effective_value *value = add_value(walk, prefix, name);
  value->value = json_string(weir_status_code_name(simulation_visible(level->method, number)));
  if (sayer != NULL) {
    value->origin = number == GRPC_STATUS_DEADLINE_EXCEEDED && is_said(sayer, deadline_as)
                        ? weir__layered_origin(&walk->effective->view.layered, sayer, deadline_as)
                        : weir__layered_element_origin(&walk->effective->view.layered, sayer, field,
                                                       (uint32_t)number);
  } else if (!level->method->translation->boundary) {
    value->origin =
        origin_of(walk, level,
                  upb_MessageDef_FindFieldByName(upb_FieldDef_ContainingType(field), "boundary"));
  }
  if (number == GRPC_STATUS_CANCELLED && level->method->translation->boundary) {
    (void)snprintf(value->note, sizeof value->note, "the peer's; this process's own passes");
  } else if (number == GRPC_STATUS_DEADLINE_EXCEEDED && sayer == NULL &&
             level->method->translation->boundary) {
    (void)snprintf(value->note, sizeof value->note,
                   "the peer's; this process's own by whose time it was");
  }
}

/* What every code becomes for the caller, said or not. */
static void add_codes(struct walk *walk, const char *prefix, const struct level *level,
                      const upb_FieldDef *field) {
  const upb_MessageDef *entry = upb_FieldDef_MessageSubDef(field);
  const upb_EnumDef *codes =
      upb_FieldDef_EnumSubDef(upb_MessageDef_FindFieldByNumber(entry, 2 /* a map's values */));
  char path[EFFECTIVE_PATH_SIZE];
  (void)snprintf(path, sizeof path, "%s.%s", prefix, upb_FieldDef_JsonName(field));
  for (int i = 0; i < upb_EnumDef_ValueCount(codes); i++) {
    add_code(walk, path, level, field, upb_EnumDef_Value(codes, i));
  }
}

/* ---- messages ---- */

static void walk_submessage(struct walk *walk, const upb_FieldDef *field, const char *prefix,
                            const struct level *level) {
  char path[EFFECTIVE_PATH_SIZE];
  const struct level inner = {
      .held = message_in(level->held, field),
      .said = {message_in(level->said[0], field), message_in(level->said[1], field)},
      .channel = message_in(level->channel, field),
      .method = level->method,
  };
  if (inner.held == NULL) {
    add_absent(walk, prefix, level, field);
    return;
  }
  (void)snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                 upb_FieldDef_JsonName(field));
  walk_message(walk, upb_FieldDef_MessageSubDef(field), path, &inner);
}

static void walk_field(struct walk *walk, const upb_FieldDef *field, const char *prefix,
                       const struct level *level) {
  if (is_structure(walk->effective, field)) {
    return;
  }
  if (upb_FieldDef_IsMap(field)) {
    add_codes(walk, prefix, level, field);
  } else if (is_passed_on(field)) {
    add_passed_on(walk, prefix, level, field);
  } else if (is_ours(field)) {
    walk_submessage(walk, field, prefix, level);
  } else {
    add_field(walk, prefix, level, field);
  }
}

static void walk_message(struct walk *walk, const upb_MessageDef *def, const char *path,
                         const struct level *level) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    walk_field(walk, upb_MessageDef_Field(def, i), path, level);
  }
}

/* An entry's own, or the channel's where it has none. */
static void walk_overlaid(struct walk *walk, const upb_FieldDef *field,
                          const upb_FieldDef *channels, const struct level *level) {
  const struct effective *effective = walk->effective;
  const upb_Message *own = message_in(level->held, field);
  const struct level inner = {
      .held = own != NULL ? own : message_in(effective->held, channels),
      .said = {message_in(level->said[0], field),
               message_in(effective->view.layered.policy, channels)},
      .channel = message_in(effective->view.layered.channel.policy, channels),
      .method = level->method,
  };
  walk_message(walk, upb_FieldDef_MessageSubDef(field), upb_FieldDef_JsonName(field), &inner);
}

/* ---- what a ceiling cuts ---- */

static json_t *limit_json(int64_t limit_ns) {
  char text[WEIR__DURATION_TEXT_SIZE];
  if (limit_ns == WEIR_NO_LIMIT_NS) {
    return json_null();
  }
  weir__duration_print(limit_ns, text);
  return json_string(text);
}

static struct effective_value *find_value(const struct effective_values *values, size_t from,
                                          const char *path) {
  for (size_t i = from; i < values->n; i++) {
    if (strcmp(values->list[i].path, path) == 0) {
      return &values->list[i];
    }
  }
  return NULL;
}

/* A default above its ceiling is cut, as every call's time is. */
static void cut_default(struct effective_values *values, size_t from, const char *path,
                        int64_t limit_ns) {
  struct effective_value *value = find_value(values, from, path);
  json_t *limit = limit_json(limit_ns);
  if (value == NULL || json_is_null(value->value) || json_equal(value->value, limit)) {
    json_decref(limit);
    return;
  }
  json_decref(value->said);
  value->said = value->value;
  value->value = limit;
}

/* An entry's timeout is for calls of both shapes, which have ceilings of their own. */
static void note_cut_timeout(struct effective_values *values, size_t from,
                             const struct weir_method_policy *method) {
  static const struct {
    enum weir_call_shape shape;
    const char *words;
  } shapes[] = {{WEIR_CALL_SHAPE_ONE_BATCH, "unary calls"}, {WEIR_CALL_SHAPE_STREAM, "streams"}};
  struct effective_value *value = find_value(values, from, "timeout");
  if (value == NULL || method->timeout_ns == WEIR_NO_LIMIT_NS) {
    return;
  }
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    const int64_t limit_ns = simulation_limit_ns(method, shapes[i].shape, SIMULATION_OWN_FAR);
    const size_t length = strlen(value->note);
    char text[WEIR__DURATION_TEXT_SIZE];
    if (limit_ns < method->timeout_ns) {
      weir__duration_print(limit_ns, text);
      (void)snprintf(value->note + length, sizeof value->note - length, "%s%s: cut to %s",
                     length > 0 ? ", " : "", shapes[i].words, text);
    }
  }
}

/* A ratio is read to thousandths; what else stood there is in the text only. */
static void note_cut_ratio(struct effective_values *values, size_t from,
                           const struct effective *effective) {
  struct effective_value *value = find_value(values, from, "retryThrottling.tokenRatio");
  if (value == NULL || value->said != NULL) {
    return;
  }
  const char *text = effective_source_at(effective, &value->origin);
  char *end = NULL;
  if (text == NULL) {
    return;
  }
  const double said = strtod(text + (*text == '"' ? 1 : 0), &end); /* weirctl sets no locale */
  const double difference = said - json_real_value(value->value);
  if (end != text && (difference > RATIO_GRAIN || difference < -RATIO_GRAIN)) {
    value->said = json_real(said);
  }
}

/* What a longer openFor does to the default that it may not exceed. */
static void note_moved_default(struct effective_values *values, size_t from) {
  struct effective_value *most = find_value(values, from, "breaker.maxOpenFor");
  const struct effective_value *open_for = find_value(values, from, "breaker.openFor");
  if (most != NULL && open_for != NULL && most->origin.kind == WEIR__ORIGIN_BUILT_IN &&
      open_for->origin.kind != WEIR__ORIGIN_BUILT_IN && json_equal(most->value, open_for->value)) {
    (void)snprintf(most->note, sizeof most->note, "not below openFor");
  }
}

/* ---- the whole ---- */

void effective_values_method(struct effective_values *values, const struct effective *effective,
                             const char *path, size_t nth) {
  struct walk walk = {.effective = effective, .path = path, .values = values};
  const size_t path_size = strlen(path);
  const struct effective_match match = effective_match_of(effective, path, path_size);
  const struct effective_name *chosen =
      match.chosen < EFFECTIVE_BUILT_IN ? match.names[match.chosen] : NULL;
  size_t n_configs = 0;
  const weir_v1_MethodConfig *const *configs =
      weir_v1_Policy_method_config(effective->held, &n_configs);
  const struct level level = {
      .held = configs[nth],
      .said = {chosen != NULL ? chosen->config : NULL, NULL},
      .method = weir_policy_method(effective->view.policy, path, path_size),
  };
  const size_t from = values->n;
  for (int i = 0; i < upb_MessageDef_FieldCount(effective->method_def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(effective->method_def, i);
    const upb_FieldDef *channels = overlaid_field(effective, field);
    if (channels != NULL) {
      walk_overlaid(&walk, field, channels, &level);
    } else {
      walk_field(&walk, field, "", &level);
    }
  }
  note_cut_timeout(values, from, level.method);
  enforced_note(values, from, effective, path);
}

void effective_values_channel(struct effective_values *values, const struct effective *effective,
                              enum effective_part part) {
  struct walk walk = {.effective = effective, .values = values};
  struct weir_method_policy method = {.timeout_ns = WEIR_NO_LIMIT_NS};
  const size_t from = values->n;
  struct weir_policy_options options = weir__policy_options_of(effective->view.policy);
  method.deadline = options.deadline;
  method.translation = options.translation;
  method.retry_options = options.retry;
  method.fallback = options.fallback;
  const struct level level = {.held = effective->held,
                              .said = {effective->view.layered.policy, NULL},
                              .channel = effective->view.layered.channel.policy,
                              .method = &method};
  for (int i = 0; i < upb_MessageDef_FieldCount(effective->policy_def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(effective->policy_def, i);
    if (part == EFFECTIVE_PART_WHOLE || !is_overlaid(effective, field)) {
      walk_field(&walk, field, "", &level);
    }
  }
  cut_default(values, from, "deadline.defaultTimeout",
              simulation_limit_ns(&method, WEIR_CALL_SHAPE_ONE_BATCH, SIMULATION_OWN_NONE));
  cut_default(values, from, "deadline.defaultStreamTimeout",
              simulation_limit_ns(&method, WEIR_CALL_SHAPE_STREAM, SIMULATION_OWN_NONE));
  note_cut_ratio(values, from, effective);
  note_moved_default(values, from);
  enforced_note(values, from, effective, NULL);
}
