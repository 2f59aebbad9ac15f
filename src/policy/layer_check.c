/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/policy/layer_rules.h"
#include "src/policy/layering.h"
#include "src/policy/policy_options.h"

/* ---- words ---- */

static const upb_FieldDef *code_field(const upb_FieldDef *map_field) {
  return upb_MessageDef_FindFieldByNumber(upb_FieldDef_MessageSubDef(map_field), 2);
}

static void print_place(const struct weir__layer_place *place, char *out, size_t out_size) {
  const char *name = upb_FieldDef_JsonName(place->field);
  const struct weir__path path = {
      .parent = place->part->path, .key = name, .key_size = strlen(name)};
  struct weir__path element = {.parent = &path, .index = place->element - 1};
  if (place->element == WEIR__ORIGIN_WHOLE) {
    weir__path_print(&path, out, out_size);
    return;
  }
  if (upb_FieldDef_IsMap(place->field)) {
    const upb_EnumDef *codes = upb_FieldDef_EnumSubDef(code_field(place->field));
    element.key =
        upb_EnumValueDef_Name(upb_EnumDef_FindValueByNumber(codes, (int32_t)place->element - 1));
    element.key_size = strlen(element.key);
  }
  weir__path_print(&element, out, out_size);
}

static struct weir__origin origin_of(const struct weir__layering *layering,
                                     const struct weir__layer_place *place) {
  return weir__origins_get(layering->origins,
                           (struct weir__origin_key){.message = place->part->message,
                                                     .field = place->field,
                                                     .element = place->element});
}

/* Appends the other place to the message, and returns how much it wanted to. */
static size_t name_other(const struct weir__layering *layering, struct weir_diagnostic *problem,
                         size_t at) {
  char place[32] = "";
  const char *file = layering->enforced_by;
  if (problem->other_line > 0) {
    snprintf(place, sizeof place, ", %u:%u", (unsigned)problem->other_line,
             (unsigned)problem->other_column);
  }
  return (size_t)snprintf(problem->message + at, sizeof problem->message - at, ": %s%s%s%s",
                          problem->other_path, place, file != NULL ? " of " : "",
                          file != NULL ? file : "");
}

void weir__layer_tell(struct weir__layering *layering, enum weir_policy_severity severity,
                      const struct weir__layer_place *at, const struct weir__layer_place *other,
                      const char *format, ...) {
  struct weir_diagnostic problem = {.line = 0};
  char *message = problem.message;
  const size_t size = sizeof problem.message;
  const struct weir__origin origin = origin_of(layering, at);
  va_list arguments;
  print_place(at, problem.path, sizeof problem.path);
  problem.line = origin.line;
  problem.column = origin.column;
  va_start(arguments, format);
  size_t n = (size_t)vsnprintf(message, size, format, arguments);
  va_end(arguments);
  if (other != NULL) {
    const struct weir__origin other_origin = origin_of(layering, other);
    print_place(other, problem.other_path, sizeof problem.other_path);
    problem.other_line = other_origin.line;
    problem.other_column = other_origin.column;
    n += name_other(layering, &problem, n < size ? n : size - 1);
  }
  weir__text_make_printable(message, size, n >= size);
  weir__problems_add(layering->problems, severity, &problem);
}

/* ---- single fields ---- */

/* What a value has to be. */
static const char *must_be(enum weir__stricter stricter) {
  switch (stricter) {
  case WEIR__STRICTER_LESS:
    return "at most ";
  case WEIR__STRICTER_MORE:
    return "at least ";
  case WEIR__STRICTER_FIRST:
    return "as strict as ";
  case WEIR__STRICTER_EQUAL:
  case WEIR__STRICTER_TRUE:
  case WEIR__STRICTER_FALSE:
  case WEIR__STRICTER_SUBSET:
  case WEIR__STRICTER_EACH:
  case WEIR__STRICTER_INSIDE:
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    return "";
  }
  return "";
}

static void refuse_value(struct weir__layering *layering, const struct weir__layer_place *at,
                         const struct weir__layer_place *enforced, const char *must,
                         upb_MessageValue bound) {
  char text[WEIR__LAYER_VALUE_SIZE];
  weir__layer_print_value(upb_FieldDef_IsMap(enforced->field) ? code_field(enforced->field)
                                                              : enforced->field,
                          bound, text);
  weir__layer_tell(layering, WEIR_POLICY_REFUSED, at, enforced, "must be %s%s, which is enforced",
                   must, text);
}

/* An element that the enforced list does not have. */
static void check_list(struct weir__layering *layering, const upb_FieldDef *field,
                       const struct weir__layer_part *stated,
                       const struct weir__layer_part *enforced) {
  const upb_Array *list = upb_Message_Get(stated->message, field).array_val;
  const upb_Array *allowed = upb_Message_Get(enforced->message, field).array_val;
  const struct weir__layer_place other = {.part = enforced, .field = field};
  char text[WEIR__LAYER_VALUE_SIZE];
  for (size_t i = 0; i < upb_Array_Size(list); i++) {
    if (!weir__layer_list_has(field, allowed, upb_Array_Get(list, i))) {
      const struct weir__layer_place at = {
          .part = stated, .field = field, .element = (uint32_t)i + 1};
      weir__layer_print_value(field, upb_Array_Get(list, i), text);
      weir__layer_tell(layering, WEIR_POLICY_REFUSED, &at, &other,
                       "%s is not in the list that is enforced", text);
    }
  }
}

static upb_MessageValue code_named(const upb_FieldDef *map_field, int32_t code) {
  const upb_EnumDef *codes = upb_FieldDef_EnumSubDef(code_field(map_field));
  const char *name = upb_EnumValueDef_Name(upb_EnumDef_FindValueByNumber(codes, code));
  return (upb_MessageValue){.str_val = upb_StringView_FromString(name)};
}

/* False: the message's map does not have the code. */
static bool find_code(const upb_Message *message, const upb_FieldDef *map_field, int32_t code,
                      upb_MessageValue *becomes_out) {
  const upb_Map *map = upb_Message_Get(message, map_field).map_val;
  return map != NULL && upb_Map_Get(map, code_named(map_field, code), becomes_out);
}

static void check_codes(struct weir__layering *layering, const upb_FieldDef *field,
                        const struct weir__layer_part *stated,
                        const struct weir__layer_part *enforced) {
  for (int32_t code = 0; code < WEIR_N_STATUS_CODES; code++) {
    upb_MessageValue becomes;
    upb_MessageValue bound;
    if (find_code(stated->message, field, code, &becomes) &&
        find_code(enforced->message, field, code, &bound) && becomes.int32_val != bound.int32_val) {
      const struct weir__layer_place at = {stated, field, (uint32_t)code + 1};
      const struct weir__layer_place other = {enforced, field, (uint32_t)code + 1};
      refuse_value(layering, &at, &other, "", bound);
    }
  }
}

static void check_single(struct weir__layering *layering, const upb_FieldDef *field,
                         const struct weir__layer_part *stated,
                         const struct weir__layer_part *enforced) {
  const upb_MessageValue value = upb_Message_Get(stated->message, field);
  const upb_MessageValue bound = upb_Message_Get(enforced->message, field);
  if (weir__layer_is_weaker(field, value, bound)) {
    const struct weir__layer_place at = {.part = stated, .field = field};
    const struct weir__layer_place other = {.part = enforced, .field = field};
    refuse_value(layering, &at, &other, must_be(weir__layer_rule_of(field)->stricter), bound);
  }
}

/* ---- what takes the ground from under something enforced ---- */

static const upb_FieldDef *said_of(const upb_MessageDef *def, const upb_Message *message,
                                   const char *name) {
  const upb_FieldDef *field = weir__layer_field(def, name);
  return weir__layer_says(message, field) ? field : NULL;
}

static bool says_bool(const upb_MessageDef *def, const upb_Message *message, const char *name,
                      bool value) {
  const upb_FieldDef *field = said_of(def, message, name);
  return field != NULL && upb_Message_Get(message, field).bool_val == value;
}

static void refuse_ground(struct weir__layering *layering, const upb_MessageDef *def,
                          const struct weir__layer_part *stated, const char *name,
                          const struct weir__layer_part *enforced, const upb_FieldDef *pointless) {
  const struct weir__layer_place at = {.part = stated, .field = weir__layer_field(def, name)};
  const struct weir__layer_place other = {.part = enforced, .field = pointless};
  char text[WEIR__LAYER_VALUE_SIZE];
  weir__layer_print_value(at.field, upb_Message_Get(stated->message, at.field), text);
  weir__layer_tell(layering, WEIR_POLICY_REFUSED, &at, &other,
                   "with %s, what is enforced means nothing", text);
}

const upb_FieldDef *weir__layer_wants_boundary(const upb_MessageDef *def,
                                               const upb_Message *enforced) {
  static const char *const names[] = {"codes", "deadline_exceeded_as", "keep_metadata",
                                      "keep_details"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const upb_FieldDef *field = said_of(def, enforced, names[i]);
    if (field != NULL) {
      return field;
    }
  }
  return says_bool(def, enforced, "message_ref", true) ? weir__layer_field(def, "message_ref")
                                                       : NULL;
}

/* `deadlineExceededAs` comes before `codes`, and a method's `codes` before the channel's of
 * both. */
static void check_deadline_code(struct weir__layering *layering, const upb_MessageDef *def,
                                const struct weir__layer_part *stated,
                                const struct weir__layer_part *enforced) {
  const upb_FieldDef *as = weir__layer_field(def, "deadline_exceeded_as");
  const upb_FieldDef *codes = weir__layer_field(def, "codes");
  const int32_t code = weir_v1_DEADLINE_EXCEEDED;
  const struct weir__layer_place stated_as = {stated, as, WEIR__ORIGIN_WHOLE};
  const struct weir__layer_place stated_code = {stated, codes, (uint32_t)code + 1};
  const struct weir__layer_place enforced_as = {enforced, as, WEIR__ORIGIN_WHOLE};
  const struct weir__layer_place enforced_code = {enforced, codes, (uint32_t)code + 1};
  upb_MessageValue becomes;
  if (weir__layer_says(enforced->message, as) &&
      find_code(stated->message, codes, code, &becomes)) {
    const upb_MessageValue bound = upb_Message_Get(enforced->message, as);
    if (becomes.int32_val != bound.int32_val) {
      refuse_value(layering, &stated_code, &enforced_as, "", bound);
    }
  }
  if (weir__layer_says(stated->message, as) &&
      find_code(enforced->message, codes, code, &becomes) &&
      becomes.int32_val != upb_Message_Get(stated->message, as).int32_val) {
    refuse_value(layering, &stated_as, &enforced_code, "", becomes);
  }
}

static void check_translation_ground(struct weir__layering *layering, const upb_MessageDef *def,
                                     const struct weir__layer_part *stated,
                                     const struct weir__layer_part *enforced) {
  const upb_FieldDef *pointless = weir__layer_wants_boundary(def, enforced->message);
  if (pointless != NULL && says_bool(def, stated->message, "boundary", false) &&
      !says_bool(def, enforced->message, "boundary", true)) {
    refuse_ground(layering, def, stated, "boundary", enforced, pointless);
  }
  check_deadline_code(layering, def, stated, enforced);
}

/* A ceiling of what grows, stated below where it is enforced to begin. */
static void check_room(struct weir__layering *layering, const upb_MessageDef *def,
                       const struct weir__layer_part *stated, const char *most_name,
                       const struct weir__layer_part *enforced, const char *first_name) {
  const upb_FieldDef *most = said_of(def, stated->message, most_name);
  const upb_FieldDef *first = said_of(def, enforced->message, first_name);
  if (most != NULL && first != NULL &&
      weir__policy_options_ns(upb_Message_Get(stated->message, most).msg_val, 0) <
          weir__policy_options_ns(upb_Message_Get(enforced->message, first).msg_val, 0)) {
    const struct weir__layer_place at = {.part = stated, .field = most};
    const struct weir__layer_place other = {.part = enforced, .field = first};
    refuse_value(layering, &at, &other, "at least ", upb_Message_Get(enforced->message, first));
  }
}

/* What is enforced of a breaker, other than that it is off, or only counts. */
static const upb_FieldDef *wants_breaker(const upb_MessageDef *def, const upb_Message *enforced) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    const char *name = upb_FieldDef_Name(field);
    const bool is_switch = strcmp(name, "enabled") == 0 || strcmp(name, "mode") == 0;
    if (weir__layer_says(enforced, field) && !is_switch) {
      return field;
    }
  }
  return NULL;
}

static void check_breaker_ground(struct weir__layering *layering, const upb_MessageDef *def,
                                 const struct weir__layer_part *stated,
                                 const struct weir__layer_part *enforced) {
  const upb_FieldDef *mode = weir__layer_field(def, "mode");
  const upb_FieldDef *enforced_mode = said_of(def, enforced->message, "mode");
  const bool on = says_bool(def, enforced->message, "enabled", true);
  const upb_FieldDef *pointless = wants_breaker(def, enforced->message);
  const bool counts = weir__layer_says(stated->message, mode) &&
                      upb_Message_Get(stated->message, mode).int32_val == weir_v1_Breaker_SHADOW;
  if (counts && enforced_mode == NULL && (pointless != NULL || on)) {
    refuse_ground(layering, def, stated, "mode", enforced,
                  on ? weir__layer_field(def, "enabled") : pointless);
  }
  pointless = pointless != NULL ? pointless : enforced_mode;
  if (pointless != NULL && !on && says_bool(def, stated->message, "enabled", false)) {
    refuse_ground(layering, def, stated, "enabled", enforced, pointless);
  }
  check_room(layering, def, stated, "max_open_for", enforced, "open_for");
}

static void check_deadline_ground(struct weir__layering *layering, const upb_MessageDef *def,
                                  const struct weir__layer_part *stated,
                                  const struct weir__layer_part *enforced) {
  const upb_FieldDef *margin = said_of(def, enforced->message, "deadline_margin");
  if (margin != NULL && says_bool(def, stated->message, "inherits_parent", false) &&
      !says_bool(def, enforced->message, "inherits_parent", true)) {
    refuse_ground(layering, def, stated, "inherits_parent", enforced, margin);
  }
}

static const struct {
  const char *message;
  void (*check)(struct weir__layering *layering, const upb_MessageDef *def,
                const struct weir__layer_part *stated, const struct weir__layer_part *enforced);
} grounds[] = {
    {"Translation", check_translation_ground},
    {"Breaker", check_breaker_ground},
    {"Deadline", check_deadline_ground},
};

static void check_ground(struct weir__layering *layering, const upb_MessageDef *def,
                         const struct weir__layer_part *stated,
                         const struct weir__layer_part *enforced) {
  for (size_t i = 0; i < sizeof grounds / sizeof grounds[0]; i++) {
    if (strcmp(grounds[i].message, upb_MessageDef_Name(def)) == 0) {
      grounds[i].check(layering, def, stated, enforced);
    }
  }
}

/* ---- messages ---- */

typedef void check_fn(struct weir__layering *layering, const upb_MessageDef *def,
                      const struct weir__layer_part *stated,
                      const struct weir__layer_part *enforced);

static void check_inside(struct weir__layering *layering, const upb_FieldDef *field,
                         const struct weir__layer_part *stated,
                         const struct weir__layer_part *enforced, check_fn *check) {
  const char *name = upb_FieldDef_JsonName(field);
  const struct weir__path stated_path = {
      .parent = stated->path, .key = name, .key_size = strlen(name)};
  const struct weir__path enforced_path = {
      .parent = enforced->path, .key = name, .key_size = strlen(name)};
  const struct weir__layer_part inside = {
      .message = upb_Message_Get(stated->message, field).msg_val, .path = &stated_path};
  const struct weir__layer_part bound = {
      .message = upb_Message_Get(enforced->message, field).msg_val, .path = &enforced_path};
  check(layering, upb_FieldDef_MessageSubDef(field), &inside, &bound);
}

static void check_field(struct weir__layering *layering, const upb_FieldDef *field,
                        const struct weir__layer_part *stated,
                        const struct weir__layer_part *enforced) {
  switch (weir__layer_rule_of(field)->stricter) {
  case WEIR__STRICTER_EQUAL:
  case WEIR__STRICTER_LESS:
  case WEIR__STRICTER_MORE:
  case WEIR__STRICTER_TRUE:
  case WEIR__STRICTER_FALSE:
  case WEIR__STRICTER_FIRST:
    check_single(layering, field, stated, enforced);
    break;
  case WEIR__STRICTER_SUBSET:
    check_list(layering, field, stated, enforced);
    break;
  case WEIR__STRICTER_EACH:
    check_codes(layering, field, stated, enforced);
    break;
  case WEIR__STRICTER_INSIDE:
    check_inside(layering, field, stated, enforced, weir__layer_check);
    break;
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    break;
  }
}

static bool both_say(const struct weir__layer_part *a, const struct weir__layer_part *b,
                     const upb_FieldDef *field) {
  return weir__layer_says(a->message, field) && weir__layer_says(b->message, field);
}

void weir__layer_check(struct weir__layering *layering, const upb_MessageDef *def,
                       const struct weir__layer_part *stated,
                       const struct weir__layer_part *enforced) {
  if (stated->message == NULL || enforced->message == NULL) {
    return;
  }
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (both_say(stated, enforced, field)) {
      check_field(layering, field, stated, enforced);
    }
  }
  check_ground(layering, def, stated, enforced);
  if (strcmp(upb_MessageDef_Name(def), "RetryPolicy") == 0) {
    /* Of two that are enforced the longer one holds. */
    check_room(layering, def, stated, "max_backoff", enforced, "initial_backoff");
  }
}

/* Where there is an order, the stricter one holds, and there is nothing to tell. */
static void check_field_together(struct weir__layering *layering, const upb_FieldDef *field,
                                 const struct weir__layer_part *one,
                                 const struct weir__layer_part *other) {
  switch (weir__layer_rule_of(field)->stricter) {
  case WEIR__STRICTER_EQUAL:
    check_single(layering, field, one, other);
    break;
  case WEIR__STRICTER_EACH:
    check_codes(layering, field, one, other);
    break;
  case WEIR__STRICTER_INSIDE:
    check_inside(layering, field, one, other, weir__layer_check_together);
    break;
  case WEIR__STRICTER_LESS:
  case WEIR__STRICTER_MORE:
  case WEIR__STRICTER_TRUE:
  case WEIR__STRICTER_FALSE:
  case WEIR__STRICTER_FIRST:
  case WEIR__STRICTER_SUBSET:
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    break;
  }
}

void weir__layer_check_together(struct weir__layering *layering, const upb_MessageDef *def,
                                const struct weir__layer_part *one,
                                const struct weir__layer_part *other) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (both_say(one, other, field)) {
      check_field_together(layering, field, one, other);
    }
  }
  check_ground(layering, def, one, other);
}

/* ---- what can't be told from the messages ---- */

void weir__layer_check_use(struct weir__layering *layering, const upb_MessageDef *def,
                           const struct weir__layer_part *enforced) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (!weir__layer_says(enforced->message, field)) {
      continue;
    }
    const upb_MessageValue value = upb_Message_Get(enforced->message, field);
    if (weir__layer_rule_of(field)->stricter == WEIR__STRICTER_INSIDE) {
      const char *name = upb_FieldDef_JsonName(field);
      const struct weir__path path = {
          .parent = enforced->path, .key = name, .key_size = strlen(name)};
      const struct weir__layer_part inside = {.message = value.msg_val, .path = &path};
      weir__layer_check_use(layering, upb_FieldDef_MessageSubDef(field), &inside);
    } else if (weir__layer_is_weakest(field, value)) {
      const struct weir__layer_place at = {.part = enforced, .field = field};
      weir__layer_tell(layering, WEIR_POLICY_WARNING, &at, NULL,
                       "enforces nothing: no value is weaker");
    }
  }
}

/* The core takes a `loadBalancingConfig` first, and looks at no `loadBalancingPolicy` beside it. */
static void check_balancing(struct weir__layering *layering, const upb_MessageDef *def,
                            const struct weir__layer_part *stated,
                            const struct weir__layer_part *enforced) {
  const struct weir__json_text *bound = layering->enforced_passed_on->values;
  const struct weir__layer_place at = {.part = stated,
                                       .field = weir__layer_field(def, "load_balancing_config")};
  const struct weir__layer_place other = {.part = enforced,
                                          .field = weir__layer_field(def, "load_balancing_policy")};
  if (bound[WEIR__PASSED_ON_POLICY].text != NULL && bound[WEIR__PASSED_ON_CONFIG].text == NULL &&
      layering->channel_passed_on->values[WEIR__PASSED_ON_CONFIG].text != NULL) {
    weir__layer_tell(layering, WEIR_POLICY_REFUSED, &at, &other,
                     "the core would take it instead of what is enforced");
  }
}

void weir__layer_check_passed_on(struct weir__layering *layering) {
  const upb_MessageDef *def = upb_DefPool_FindMessageByName(layering->schema, "weir.v1.Policy");
  const struct weir__path path = {.key = "enforce", .key_size = sizeof "enforce" - 1};
  const struct weir__layer_part stated = {.message = layering->channel};
  const struct weir__layer_part enforced = {.message = layering->enforced, .path = &path};
  for (size_t i = 0; i < WEIR__N_PASSED_ON; i++) {
    const struct weir__json_text *a = &layering->channel_passed_on->values[i];
    const struct weir__json_text *b = &layering->enforced_passed_on->values[i];
    const upb_FieldDef *field = weir__layer_field(def, weir__passed_on_fields[i]);
    if (a->text != NULL && b->text != NULL &&
        !weir__layer_json_is_equal(a->text, a->size, b->text, b->size)) {
      const struct weir__layer_place at = {.part = &stated, .field = field};
      const struct weir__layer_place other = {.part = &enforced, .field = field};
      weir__layer_tell(layering, WEIR_POLICY_REFUSED, &at, &other,
                       "must be as it is enforced, or left out");
    }
  }
  check_balancing(layering, def, &stated, &enforced);
}
