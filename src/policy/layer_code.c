/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <weir/v1/policy.upbdefs.h>

#include "src/policy/json.h"
#include "src/policy/layer_rules.h"
#include "src/policy/layering.h"
#include "src/policy/policy.h"
#include "src/policy/policy_message.h"

/* ---- what a policy was made from ---- */

/* "/service/method" as two terminated texts. */
static bool split_path(upb_Arena *arena, const struct weir__policy_path *path,
                       struct weir_method_options *method) {
  char *text = upb_Arena_Malloc(arena, path->size + 1);
  if (text == NULL) {
    return false;
  }
  memcpy(text, path->text, path->size);
  text[path->size] = '\0';
  char *slash = memchr(text + 1, '/', path->size - 1); /* names have none */
  *slash = '\0';
  method->service = text + 1;
  method->method = slash + 1;
  return true;
}

/* All but the name. What a method has of its own is told by where it is. */
static void fill_method(struct weir_method_options *method, const struct weir_method_policy *rules,
                        const struct weir_policy_options *whole) {
  method->timeout_ns = rules->timeout_ns;
  method->wait_for_ready = rules->wait_for_ready;
  method->max_request_bytes = rules->max_request_bytes;
  method->max_response_bytes = rules->max_response_bytes;
  method->retry = rules->retry;
  method->per_attempt_timeout_ns = rules->per_attempt_timeout_ns;
  method->translation = rules->translation != whole->translation ? rules->translation : NULL;
  method->fallback = rules->fallback != whole->fallback ? rules->fallback : NULL;
}

static bool says_nothing(const struct weir_method_options *method) {
  return method->timeout_ns == WEIR_NO_LIMIT_NS &&
         method->wait_for_ready == WEIR_WAIT_FOR_READY_UNSET &&
         method->max_request_bytes == WEIR_NO_LIMIT_BYTES &&
         method->max_response_bytes == WEIR_NO_LIMIT_BYTES && method->retry.max_attempts <= 1 &&
         method->per_attempt_timeout_ns == WEIR_NO_LIMIT_NS && method->translation == NULL &&
         method->fallback == NULL;
}

/* The entry without a name comes first, if there is one. */
static bool fill_methods(struct weir_policy_options *options, const weir_policy *policy,
                         upb_Arena *arena) {
  const size_t n = weir__policy_n_paths(policy) + 1;
  struct weir_method_options *methods = upb_Arena_Malloc(arena, n * sizeof *methods);
  struct weir__policy_path path = {.nth = 0};
  if (methods == NULL) {
    return false;
  }
  methods[0] = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
  fill_method(&methods[0], weir_policy_method(policy, "", 0), options);
  size_t i = says_nothing(&methods[0]) ? 0 : 1;
  for (; i < n && weir__policy_next_path(policy, &path); i++) {
    methods[i] = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
    if (!split_path(arena, &path, &methods[i])) {
      return false;
    }
    fill_method(&methods[i], weir_policy_method(policy, path.text, path.size), options);
  }
  options->methods = methods;
  options->n_methods = i;
  return true;
}

/* ---- what it counts as stating ---- */

static bool values_are_equal(const upb_FieldDef *field, upb_MessageValue a, upb_MessageValue b) {
  return !weir__layer_is_weaker(field, a, b) && !weir__layer_is_weaker(field, b, a);
}

static bool lists_are_equal(const upb_FieldDef *field, const upb_Array *a, const upb_Array *b) {
  const size_t n = upb_Array_Size(a);
  if (n != (b == NULL ? 0 : upb_Array_Size(b))) {
    return false;
  }
  for (size_t i = 0; i < n; i++) {
    if (!weir__layer_list_has(field, b, upb_Array_Get(a, i))) {
      return false;
    }
  }
  return true;
}

static bool is_inside(const upb_FieldDef *field) {
  return weir__layer_rule_of(field)->stricter == WEIR__STRICTER_INSIDE;
}

static bool is_default(const upb_Message *message, const upb_FieldDef *field,
                       const upb_Message *otherwise) {
  const upb_MessageValue value = upb_Message_Get(message, field);
  if (upb_FieldDef_IsMap(field)) {
    return false;
  }
  if (upb_FieldDef_IsRepeated(field)) {
    return lists_are_equal(field, value.array_val,
                           otherwise == NULL ? NULL : upb_Message_Get(otherwise, field).array_val);
  }
  return otherwise != NULL && weir__layer_says(otherwise, field) &&
         values_are_equal(field, value, upb_Message_Get(otherwise, field));
}

/* Takes out of a message what would be so without it. */
static void drop_defaults(upb_Message *message, const upb_MessageDef *def,
                          const upb_Message *otherwise) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    const enum weir__stricter stricter = weir__layer_rule_of(field)->stricter;
    if (weir__layer_says(message, field) && !is_inside(field) &&
        stricter != WEIR__STRICTER_METHODS && stricter != WEIR__STRICTER_NOT &&
        is_default(message, field, otherwise)) {
      upb_Message_ClearField(message, field);
    }
  }
}

static void drop_defaults_inside(upb_Message *message, const upb_FieldDef *field,
                                 const upb_Message *otherwise) {
  if (field != NULL && weir__layer_says(message, field)) {
    drop_defaults(upb_Message_Mutable(message, field, NULL).msg, upb_FieldDef_MessageSubDef(field),
                  weir__layer_says(otherwise, field) ? upb_Message_Get(otherwise, field).msg_val
                                                     : NULL);
  }
}

static const char *const with_defaults[] = {"deadline", "translation", "breaker", "retry",
                                            "fallback"};

/* Of a method, what is as the channel has it. */
static void drop_method_defaults(weir_v1_MethodConfig *config, const upb_MessageDef *def,
                                 const weir_v1_MethodConfig *channel) {
  drop_defaults_inside(config, weir__layer_field(def, "translation"), channel);
  drop_defaults_inside(config, weir__layer_field(def, "fallback"), channel);
}

/* False: there is no memory. `policy` says everything; methods first, since theirs is what differs
 * from the channel's. */
static bool drop_all_defaults(weir_v1_Policy *policy, const weir_v1_Policy *built_in,
                              const struct weir__document *document) {
  const upb_MessageDef *def = weir_v1_Policy_getmsgdef(document->schema);
  const upb_MessageDef *method_def = weir_v1_MethodConfig_getmsgdef(document->schema);
  weir_v1_MethodConfig *channel = weir_v1_MethodConfig_new(document->arena);
  size_t n = 0;
  weir_v1_MethodConfig **configs = weir_v1_Policy_mutable_method_config(policy, &n);
  if (channel == NULL) {
    return false;
  }
  weir_v1_MethodConfig_set_translation(channel,
                                       weir_v1_Policy_mutable_translation(policy, document->arena));
  weir_v1_MethodConfig_set_fallback(channel,
                                    weir_v1_Policy_mutable_fallback(policy, document->arena));
  for (size_t i = 0; i < n; i++) {
    drop_method_defaults(configs[i], method_def, channel);
  }
  for (size_t i = 0; i < sizeof with_defaults / sizeof with_defaults[0]; i++) {
    drop_defaults_inside(policy, weir__layer_field(def, with_defaults[i]), built_in);
  }
  drop_defaults(policy, def, built_in);
  return true;
}

/* ---- places ---- */

/* They have no line, but they are somebody's. False: there is no memory. */
static bool note_fields(const struct weir__document_reading *reading, const upb_Message *message,
                        const upb_MessageDef *def) {
  const struct weir__origin origin = {.kind = reading->kind};
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    const struct weir__origin_key key = {.message = message, .field = field};
    if (!weir__layer_says(message, field)) {
      continue;
    }
    if (!weir__origins_put(reading->origins, key, origin)) {
      return false;
    }
    const upb_MessageValue value = upb_Message_Get(message, field);
    if (is_inside(field) &&
        !note_fields(reading, value.msg_val, upb_FieldDef_MessageSubDef(field))) {
      return false;
    }
    const bool is_list = upb_FieldDef_IsRepeated(field);
    const bool is_map = upb_FieldDef_IsMap(field);
    const size_t n = !is_list ? 0 : is_map ? WEIR_N_STATUS_CODES : upb_Array_Size(value.array_val);
    for (size_t j = 0; j < n; j++) {
      if (!weir__origins_put(reading->origins, weir__origin_key_of(message, field, (uint32_t)j),
                             origin)) {
        return false;
      }
      if (!is_map && upb_FieldDef_IsSubMessage(field) &&
          !note_fields(reading, upb_Array_Get(value.array_val, j).msg_val,
                       upb_FieldDef_MessageSubDef(field))) {
        return false;
      }
    }
  }
  return true;
}

/* ---- what it passes on ---- */

/* Which of our keys it is, or WEIR__N_PASSED_ON. */
static size_t find_key(struct weir__json_text name) {
  size_t i = 0;
  while (i < WEIR__N_PASSED_ON && (strlen(weir__passed_on_keys[i]) != name.size ||
                                   memcmp(weir__passed_on_keys[i], name.text, name.size) != 0)) {
    i++;
  }
  return i;
}

static enum weir_error split_config(struct weir__document *document,
                                    const struct weir__json *json) {
  struct weir__passed_on *passed_on = &document->passed_on;
  char *others = upb_Arena_Malloc(document->arena, (size_t)json->size + 1);
  size_t n = 0;
  if (others == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  for (uint32_t key = 1; key < json->n_values; key = weir__json_next(json, key + 1)) {
    const size_t known = find_key(weir__json_string(json, key));
    if (known < WEIR__N_PASSED_ON) {
      passed_on->values[known] = weir__json_source(json, key + 1);
      continue;
    }
    const char *begin = json->text + json->values[key].begin;
    const struct weir__json_text value = weir__json_source(json, key + 1);
    const size_t member_size = (size_t)(value.text + value.size - begin);
    if (n > 0) {
      others[n++] = ',';
    }
    memcpy(others + n, begin, member_size);
    n += member_size;
  }
  passed_on->others = (struct weir__json_text){.text = others, .size = n};
  return WEIR_OK;
}

static enum weir_error read_config(struct weir__document *document, const char *config,
                                   const struct weir_allocator *allocator,
                                   struct weir__problems *problems) {
  struct weir__json json;
  struct weir_diagnostic fault;
  enum weir_error error = weir__json_init(&json, config, strlen(config), allocator, &fault);
  if (error == WEIR_OK && json.values[0].kind == WEIR__JSON_OBJECT) {
    error = split_config(document, &json);
  } else if (error != WEIR_ERROR_NO_MEMORY) {
    static const struct weir__path path = {.key = "core_service_config",
                                           .key_size = sizeof "core_service_config" - 1};
    weir__problems_tell(problems, WEIR_POLICY_REFUSED, &path,
                        "must be a JSON object, to be laid over another");
    error = WEIR_ERROR_INVALID_POLICY;
  }
  weir__json_fini(&json);
  return error;
}

/* ---- the whole ---- */

enum weir_error weir__layer_document_of_code(struct weir__document *document,
                                             const weir_policy *policy,
                                             const struct weir__document_reading *reading,
                                             const struct weir_allocator *allocator,
                                             struct weir__problems *problems) {
  const struct weir_policy_options defaults = WEIR_POLICY_OPTIONS_INIT;
  struct weir_policy_options options = weir__policy_options_of(policy);
  *document = (struct weir__document){.schema = reading->schema, .schema_is_borrowed = true};
  document->arena = weir__document_arena(&document->memory, allocator);
  if (document->arena == NULL || !fill_methods(&options, policy, document->arena)) {
    return WEIR_ERROR_NO_MEMORY;
  }
  document->policy = weir__policy_message_of_options(&options, document->arena);
  const weir_v1_Policy *built_in = weir__policy_message_of_options(&defaults, document->arena);
  if (document->policy == NULL || built_in == NULL ||
      !drop_all_defaults(document->policy, built_in, document) ||
      !note_fields(reading, document->policy, weir_v1_Policy_getmsgdef(document->schema))) {
    return WEIR_ERROR_NO_MEMORY;
  }
  document->core_service_config = options.core_service_config;
  return options.core_service_config == NULL
             ? WEIR_OK
             : read_config(document, options.core_service_config, allocator, problems);
}
