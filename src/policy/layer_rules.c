/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/layer_rules.h"

#include <stdio.h>
#include <string.h>

#include <weir/policy.h>
#include <weir/v1/policy.upb.h>

#include "src/policy/duration.h"
#include "src/policy/policy_options.h"
#include "src/policy/problems.h"

/* ---- the table ---- */

static const int32_t owners[WEIR__LAYER_ORDER_LENGTH] = {
    weir_v1_Retry_NEVER, weir_v1_Retry_OUTERMOST, weir_v1_Retry_ALWAYS};

/* doc/organisation.md has the reasons. What there is a ceiling of, there is too much of. */
static const struct weir__layer_rule rules[] = {
    {.message = "Policy", .field = "load_balancing_policy", .stricter = WEIR__STRICTER_PASSED_ON},
    {.message = "Policy", .field = "method_config", .stricter = WEIR__STRICTER_METHODS},
    {.message = "Policy", .field = "retry_throttling", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "Policy", .field = "load_balancing_config", .stricter = WEIR__STRICTER_PASSED_ON},
    {.message = "Policy", .field = "health_check_config", .stricter = WEIR__STRICTER_PASSED_ON},
    {.message = "Policy", .field = "name", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Policy", .field = "deadline", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "Policy", .field = "translation", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "Policy", .field = "breaker", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "Policy", .field = "retry", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "Policy", .field = "pass_trace", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Policy", .field = "fallback", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "Policy", .field = "enforce", .stricter = WEIR__STRICTER_NOT},

    {.message = "MethodConfig", .field = "name", .stricter = WEIR__STRICTER_NOT},
    {.message = "MethodConfig", .field = "wait_for_ready", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "MethodConfig", .field = "timeout", .stricter = WEIR__STRICTER_LESS},
    {.message = "MethodConfig",
     .field = "max_request_message_bytes",
     .stricter = WEIR__STRICTER_LESS},
    {.message = "MethodConfig",
     .field = "max_response_message_bytes",
     .stricter = WEIR__STRICTER_LESS},
    {.message = "MethodConfig", .field = "retry_policy", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "MethodConfig", .field = "hedging_policy", .stricter = WEIR__STRICTER_NOT},
    {.message = "MethodConfig", .field = "per_attempt_timeout", .stricter = WEIR__STRICTER_LESS},
    {.message = "MethodConfig", .field = "translation", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "MethodConfig", .field = "fallback", .stricter = WEIR__STRICTER_INSIDE},
    {.message = "MethodConfig", .field = "idempotent", .stricter = WEIR__STRICTER_FALSE},

    {.message = "Name", .field = "service", .stricter = WEIR__STRICTER_NOT},
    {.message = "Name", .field = "method", .stricter = WEIR__STRICTER_NOT},

    {.message = "RetryPolicy",
     .field = "max_attempts",
     .stricter = WEIR__STRICTER_LESS,
     .at_most = WEIR_MAX_ATTEMPTS},
    {.message = "RetryPolicy", .field = "initial_backoff", .stricter = WEIR__STRICTER_MORE},
    {.message = "RetryPolicy", .field = "max_backoff", .stricter = WEIR__STRICTER_MORE},
    {.message = "RetryPolicy", .field = "backoff_multiplier", .stricter = WEIR__STRICTER_MORE},
    {.message = "RetryPolicy",
     .field = "retryable_status_codes",
     .stricter = WEIR__STRICTER_SUBSET},

    {.message = "RetryThrottling", .field = "max_tokens", .stricter = WEIR__STRICTER_LESS},
    {.message = "RetryThrottling", .field = "token_ratio", .stricter = WEIR__STRICTER_LESS},

    {.message = "Deadline", .field = "default_timeout", .stricter = WEIR__STRICTER_LESS},
    {.message = "Deadline",
     .field = "max_timeout",
     .stricter = WEIR__STRICTER_LESS,
     .is_ceiling = true},
    {.message = "Deadline", .field = "default_stream_timeout", .stricter = WEIR__STRICTER_LESS},
    {.message = "Deadline",
     .field = "max_stream_timeout",
     .stricter = WEIR__STRICTER_LESS,
     .is_ceiling = true},
    {.message = "Deadline", .field = "deadline_margin", .stricter = WEIR__STRICTER_MORE},
    {.message = "Deadline", .field = "deadline_slack", .stricter = WEIR__STRICTER_LESS},
    {.message = "Deadline", .field = "inherits_parent", .stricter = WEIR__STRICTER_TRUE},

    {.message = "Translation", .field = "boundary", .stricter = WEIR__STRICTER_TRUE},
    {.message = "Translation", .field = "message_ref", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Translation", .field = "keep_metadata", .stricter = WEIR__STRICTER_SUBSET},
    {.message = "Translation", .field = "deadline_exceeded_as", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Translation", .field = "codes", .stricter = WEIR__STRICTER_EACH},
    {.message = "Translation", .field = "keep_details", .stricter = WEIR__STRICTER_SUBSET},
    {.message = "Translation",
     .field = "max_message_bytes",
     .stricter = WEIR__STRICTER_LESS,
     .is_ceiling = true},

    {.message = "Breaker", .field = "enabled", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker", .field = "scope", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker",
     .field = "max_breakers",
     .stricter = WEIR__STRICTER_LESS,
     .is_ceiling = true},
    {.message = "Breaker", .field = "window", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker", .field = "window_buckets", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker", .field = "min_requests", .stricter = WEIR__STRICTER_LESS},
    {.message = "Breaker", .field = "failure_ratio", .stricter = WEIR__STRICTER_LESS},
    {.message = "Breaker", .field = "open_for", .stricter = WEIR__STRICTER_MORE},
    {.message = "Breaker", .field = "open_jitter", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker", .field = "open_backoff", .stricter = WEIR__STRICTER_MORE},
    {.message = "Breaker", .field = "max_open_for", .stricter = WEIR__STRICTER_MORE},
    {.message = "Breaker", .field = "probes", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker", .field = "probe_lease", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker", .field = "deadline_floor", .stricter = WEIR__STRICTER_LESS},
    {.message = "Breaker", .field = "ignore_resets", .stricter = WEIR__STRICTER_FALSE},
    {.message = "Breaker", .field = "mode", .stricter = WEIR__STRICTER_EQUAL},
    {.message = "Breaker",
     .field = "consecutive_failures",
     .stricter = WEIR__STRICTER_LESS,
     .zero_is_none = true},
    {.message = "Breaker", .field = "ramp_for", .stricter = WEIR__STRICTER_MORE},

    {.message = "Retry", .field = "owner", .stricter = WEIR__STRICTER_FIRST, .order = owners},
    {.message = "Retry", .field = "min_attempt_time", .stricter = WEIR__STRICTER_MORE},
    {.message = "Retry",
     .field = "replay_bytes",
     .stricter = WEIR__STRICTER_LESS,
     .is_ceiling = true},
    {.message = "Retry", .field = "retry_after_headers", .stricter = WEIR__STRICTER_FALSE},
    {.message = "Retry",
     .field = "channel_replay_bytes",
     .stricter = WEIR__STRICTER_LESS,
     .is_ceiling = true},

    {.message = "Fallback", .field = "on_refusal", .stricter = WEIR__STRICTER_FALSE},
    {.message = "Fallback", .field = "on_failure", .stricter = WEIR__STRICTER_FALSE},
    {.message = "Fallback", .field = "timeout", .stricter = WEIR__STRICTER_LESS},
    {.message = "Fallback",
     .field = "max_concurrent",
     .stricter = WEIR__STRICTER_LESS,
     .is_ceiling = true},
};

#define N_RULES (sizeof rules / sizeof rules[0])

const struct weir__layer_rule *weir__layer_rule_of(const upb_FieldDef *field) {
  const char *message = upb_MessageDef_Name(upb_FieldDef_ContainingType(field));
  const char *name = upb_FieldDef_Name(field);
  for (size_t i = 0; i < N_RULES; i++) {
    if (strcmp(rules[i].field, name) == 0 && strcmp(rules[i].message, message) == 0) {
      return &rules[i];
    }
  }
  return NULL;
}

/* ---- fields ---- */

bool weir__layer_says(const upb_Message *message, const upb_FieldDef *field) {
  if (message == NULL) {
    return false;
  }
  if (upb_FieldDef_IsMap(field)) {
    const upb_Map *map = upb_Message_Get(message, field).map_val;
    return map != NULL && upb_Map_Size(map) > 0;
  }
  if (upb_FieldDef_IsRepeated(field)) {
    return upb_Message_Get(message, field).array_val != NULL;
  }
  return upb_Message_Has(message, field);
}

const upb_FieldDef *weir__layer_field(const upb_MessageDef *def, const char *name) {
  return upb_MessageDef_FindFieldByNameWithSize(def, name, strlen(name));
}

/* ---- values ---- */

static int place_in(const int32_t *order, int32_t number) {
  int place = 0;
  while (place < WEIR__LAYER_ORDER_LENGTH && order[place] != number) {
    place++;
  }
  return place;
}

/* All but doubles, as numbers with the order of the field. */
static int64_t number_of(const struct weir__layer_rule *rule, const upb_FieldDef *field,
                         upb_MessageValue value) {
  /* The types that policy.proto uses for single values. */
  switch ((int)upb_FieldDef_CType(field)) {
  case kUpb_CType_Bool:
    return value.bool_val ? 1 : 0;
  case kUpb_CType_UInt32:
    if (rule->zero_is_none && value.uint32_val == 0) {
      return INT64_MAX;
    }
    return rule->at_most > 0 && value.uint32_val > rule->at_most ? rule->at_most : value.uint32_val;
  case kUpb_CType_Enum:
    return rule->order != NULL ? place_in(rule->order, value.int32_val) : value.int32_val;
  case kUpb_CType_Message:
    return weir__policy_options_ns(value.msg_val, 0); /* a duration: no other is compared */
  default:
    return 0;
  }
}

static int compare_numbers(int64_t a, int64_t b) {
  return a < b ? -1 : a > b;
}

static int compare(const struct weir__layer_rule *rule, const upb_FieldDef *field,
                   upb_MessageValue a, upb_MessageValue b) {
  switch ((int)upb_FieldDef_CType(field)) {
  case kUpb_CType_String:
    return !upb_StringView_IsEqual(a.str_val, b.str_val);
  case kUpb_CType_Double:
    return a.double_val < b.double_val ? -1 : a.double_val > b.double_val;
  default:
    return compare_numbers(number_of(rule, field, a), number_of(rule, field, b));
  }
}

bool weir__layer_is_weaker(const upb_FieldDef *field, upb_MessageValue value,
                           upb_MessageValue bound) {
  const struct weir__layer_rule *rule = weir__layer_rule_of(field);
  switch (rule->stricter) {
  case WEIR__STRICTER_LESS:
  case WEIR__STRICTER_FALSE:
  case WEIR__STRICTER_FIRST:
    return compare(rule, field, value, bound) > 0;
  case WEIR__STRICTER_MORE:
  case WEIR__STRICTER_TRUE:
    return compare(rule, field, value, bound) < 0;
  case WEIR__STRICTER_EQUAL:
    return compare(rule, field, value, bound) != 0;
  case WEIR__STRICTER_SUBSET:
  case WEIR__STRICTER_EACH:
  case WEIR__STRICTER_INSIDE:
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    return false;
  }
  return false;
}

bool weir__layer_is_weakest(const upb_FieldDef *field, upb_MessageValue value) {
  const struct weir__layer_rule *rule = weir__layer_rule_of(field);
  switch (rule->stricter) {
  case WEIR__STRICTER_LESS:
    return number_of(rule, field, value) == INT64_MAX;
  case WEIR__STRICTER_FALSE:
    return value.bool_val;
  case WEIR__STRICTER_TRUE:
    return !value.bool_val;
  case WEIR__STRICTER_FIRST:
    return value.int32_val == rule->order[WEIR__LAYER_ORDER_LENGTH - 1];
  case WEIR__STRICTER_MORE:
    return upb_FieldDef_IsSubMessage(field) && number_of(rule, field, value) == 0;
  case WEIR__STRICTER_EQUAL:
  case WEIR__STRICTER_SUBSET:
  case WEIR__STRICTER_EACH:
  case WEIR__STRICTER_INSIDE:
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    return false;
  }
  return false;
}

bool weir__layer_list_has(const upb_FieldDef *field, const upb_Array *list,
                          upb_MessageValue value) {
  const struct weir__layer_rule *rule = weir__layer_rule_of(field);
  for (size_t i = 0; i < upb_Array_Size(list); i++) {
    if (compare(rule, field, upb_Array_Get(list, i), value) == 0) {
      return true;
    }
  }
  return false;
}

/* ---- words ---- */

static const char *enum_name(const upb_FieldDef *field, int32_t number) {
  const upb_EnumValueDef *value =
      upb_EnumDef_FindValueByNumber(upb_FieldDef_EnumSubDef(field), number);
  return value != NULL ? upb_EnumValueDef_Name(value) : "what is built in";
}

static void print_text(char *text_out, size_t size, upb_StringView text) {
  snprintf(text_out, size, "\"%.*s\"", weir__text_cut(text.data, text.size, size - 8), text.data);
}

void weir__layer_print_value(const upb_FieldDef *field, upb_MessageValue value,
                             char text_out[WEIR__LAYER_VALUE_SIZE]) {
  const size_t size = WEIR__LAYER_VALUE_SIZE;
  _Static_assert(WEIR__LAYER_VALUE_SIZE >= WEIR__DURATION_TEXT_SIZE, "durations have room");
  switch ((int)upb_FieldDef_CType(field)) {
  case kUpb_CType_Bool:
    snprintf(text_out, size, "%s", value.bool_val ? "true" : "false");
    break;
  case kUpb_CType_UInt32:
    snprintf(text_out, size, "%u", (unsigned)value.uint32_val);
    break;
  case kUpb_CType_Double:
    snprintf(text_out, size, "%.9g", value.double_val);
    break;
  case kUpb_CType_Enum:
    snprintf(text_out, size, "%s", enum_name(field, value.int32_val));
    break;
  case kUpb_CType_String:
    print_text(text_out, size, value.str_val);
    break;
  case kUpb_CType_Message:
    weir__duration_print(weir__policy_options_ns(value.msg_val, 0), text_out);
    break;
  default:
    text_out[0] = '\0';
    break;
  }
}

/* ---- what is passed on ---- */

/* The next byte that says something, or -1 at the end. */
static int next_byte(const char *text, size_t size, size_t *at, bool *in_string) {
  while (*at < size && !*in_string && strchr(" \t\r\n", text[*at]) != NULL) {
    (*at)++;
  }
  if (*at >= size) {
    return -1;
  }
  const char c = text[(*at)++];
  if (c == '"') {
    *in_string = !*in_string;
  }
  return (unsigned char)c;
}

/* A backslash and what it escapes are two bytes of a string; an escaped quote must not end it. */
static size_t escaped(const char *text, size_t size, size_t at, bool in_string) {
  return in_string && text[at - 1] == '\\' && at < size ? 1 : 0;
}

bool weir__layer_json_is_equal(const char *a, size_t a_size, const char *b, size_t b_size) {
  size_t a_at = 0;
  size_t b_at = 0;
  bool a_in_string = false;
  bool b_in_string = false;
  for (;;) {
    const int a_byte = next_byte(a, a_size, &a_at, &a_in_string);
    const int b_byte = next_byte(b, b_size, &b_at, &b_in_string);
    if (a_byte != b_byte || a_byte < 0) {
      return a_byte == b_byte;
    }
    if (escaped(a, a_size, a_at, a_in_string) != 0) {
      if (b_at >= b_size || a[a_at] != b[b_at]) {
        return false;
      }
      a_at++;
      b_at++;
    }
  }
}
