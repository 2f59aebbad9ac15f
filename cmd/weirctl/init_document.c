/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/init.h"

#include <string.h>

#include <upb/arena.h>
#include <upb/def.h>
#include <upb/reflection.h>
#include <weir/breaker.h>
#include <weir/policy.h>
#include <weir/v1/policy.upb.h>
#include <weir/v1/policy.upbdefs.h>

#include "cmd/weirctl/output.h"
#include "src/policy/duration.h"
#include "src/policy/policy_message.h"
#include "src/policy/policy_options.h"

/* ---- the defaults, by the schema ---- */

static json_t *message_json(const upb_MessageDef *def, const upb_Message *message);

/* What the core is only handed has no default of weir's, and `enforce` is an organisation's. */
static bool is_written(const upb_MessageDef *def, const upb_FieldDef *field) {
  const upb_MessageDef *sub =
      upb_FieldDef_IsSubMessage(field) ? upb_FieldDef_MessageSubDef(field) : NULL;
  return sub != def &&
         (sub == NULL || upb_MessageDef_WellKnownType(sub) != kUpb_WellKnown_Struct) &&
         strcmp(upb_FieldDef_Name(field), "load_balancing_policy") != 0;
}

static json_t *submessage_json(const upb_FieldDef *field, const upb_Message *message) {
  const upb_MessageDef *def = upb_FieldDef_MessageSubDef(field);
  char text[WEIR__DURATION_TEXT_SIZE];
  if (upb_MessageDef_WellKnownType(def) != kUpb_WellKnown_Duration) {
    return message_json(def, message);
  }
  weir__duration_print(weir__policy_options_ns(message, 0), text);
  return json_string(text);
}

static json_t *enum_json(const upb_FieldDef *field, int32_t number) {
  const upb_EnumValueDef *value =
      upb_EnumDef_FindValueByNumber(upb_FieldDef_EnumSubDef(field), number);
  return value != NULL ? json_string(upb_EnumValueDef_Name(value)) : json_null();
}

static json_t *value_json(const upb_FieldDef *field, const upb_Message *message) {
  const upb_MessageValue value = upb_Message_Get(message, field);
  /* The types that policy.proto uses. */
  switch ((int)upb_FieldDef_CType(field)) {
  case kUpb_CType_Bool:
    return json_boolean(value.bool_val);
  case kUpb_CType_UInt32:
    return json_integer(value.uint32_val);
  case kUpb_CType_Double:
    return json_real(value.double_val);
  case kUpb_CType_Enum:
    return enum_json(field, value.int32_val);
  case kUpb_CType_String:
    return json_stringn(value.str_val.data, value.str_val.size);
  case kUpb_CType_Message:
    return submessage_json(field, value.msg_val);
  default:
    return json_null();
  }
}

/* The lists and maps of the defaults are empty. */
static json_t *field_json(const upb_FieldDef *field, const upb_Message *message) {
  if (upb_FieldDef_IsMap(field)) {
    return json_object();
  }
  if (upb_FieldDef_IsRepeated(field)) {
    return json_array();
  }
  return upb_Message_Has(message, field) ? value_json(field, message) : json_null();
}

static json_t *message_json(const upb_MessageDef *def, const upb_Message *message) {
  json_t *object = json_object();
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (is_written(def, field)) {
      (void)json_object_set_new(object, upb_FieldDef_JsonName(field), field_json(field, message));
    }
  }
  return object;
}

static const weir_v1_Policy *default_message(upb_Arena *arena) {
  const struct weir_deadline_options deadline = WEIR_DEADLINE_OPTIONS_INIT;
  const struct weir_translation_options translation = WEIR_TRANSLATION_OPTIONS_INIT;
  const struct weir_breaker_options breaker = WEIR_BREAKER_OPTIONS_INIT;
  const struct weir_retry_options retry = WEIR_RETRY_OPTIONS_INIT;
  const struct weir_fallback_options fallback = WEIR_FALLBACK_OPTIONS_INIT;
  struct weir_policy_options options = WEIR_POLICY_OPTIONS_INIT;
  options.deadline = &deadline;
  options.translation = &translation;
  options.breaker = &breaker;
  options.retry = &retry;
  options.fallback = &fallback;
  return weir__policy_message_of_options(&options, arena);
}

json_t *init_channel(void) {
  upb_Arena *arena = upb_Arena_New();
  upb_DefPool *schema = upb_DefPool_New();
  if (arena == NULL || schema == NULL) {
    complain_of_memory();
  }
  const weir_v1_Policy *message = default_message(arena);
  const upb_MessageDef *def = weir_v1_Policy_getmsgdef(schema);
  if (message == NULL || def == NULL) {
    complain_of_memory();
  }
  json_t *document = message_json(def, message);
  upb_DefPool_Free(schema);
  upb_Arena_Free(arena);
  return document;
}

/* ---- what may be added ---- */

/* Three attempts of 1.5 s and the backoffs between them fit into 5 s. */
void init_add_service(json_t *channel, const char *service, enum init_repeats repeats) {
  json_t *entry = json_object();
  json_t *name = json_object();
  json_t *names = json_array();
  (void)json_object_set_new(name, "service", output_string(service));
  (void)json_array_append_new(names, name);
  (void)json_object_set_new(entry, "name", names);
  (void)json_object_set_new(entry, "timeout", json_string("5s"));
  if (repeats == INIT_REPEATS_IDEMPOTENT) {
    (void)json_object_set_new(entry, "retryPolicy",
                              json_pack("{si,ss,ss,si,s[s]}", "maxAttempts", 3, "initialBackoff",
                                        "0.1s", "maxBackoff", "1s", "backoffMultiplier", 2,
                                        "retryableStatusCodes", "UNAVAILABLE"));
    (void)json_object_set_new(entry, "perAttemptTimeout", json_string("1.5s"));
    (void)json_object_set_new(channel, "retryThrottling",
                              json_pack("{si,sf}", "maxTokens", 100, "tokenRatio", 0.1));
  }
  (void)json_object_set_new(entry, "idempotent", json_boolean(repeats == INIT_REPEATS_IDEMPOTENT));
  (void)json_array_append_new(json_object_get(channel, "methodConfig"), entry);
}

json_t *init_organisation(void) {
  json_t *document = json_object();
  json_t *enforce = json_object();
  (void)json_object_set_new(document, "deadline", json_pack("{ss}", "maxTimeout", "60s"));
  (void)json_object_set_new(
      document, "retry",
      json_pack("{si,si}", "replayBytes", 262144, "channelReplayBytes", 16777216));
  (void)json_object_set_new(enforce, "methodConfig",
                            json_pack("[{s[{}],s{si}}]", "name", "retryPolicy", "maxAttempts", 3));
  (void)json_object_set_new(enforce, "translation", json_pack("{sb}", "boundary", 1));
  (void)json_object_set_new(enforce, "breaker", json_pack("{sb}", "enabled", 1));
  (void)json_object_set_new(document, "enforce", enforce);
  return document;
}
