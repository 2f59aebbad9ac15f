/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "src/policy/document.h"
#include "src/policy/layer_rules.h"
#include "src/policy/layering.h"
#include "src/policy/policy_options.h"

static upb_Message *new_message(struct weir__layering *layering, const upb_MessageDef *def) {
  upb_Message *message = upb_Message_New(def, layering->arena);
  layering->out_of_memory = layering->out_of_memory || message == NULL;
  return message;
}

void *weir__layer_allocate(struct weir__layering *layering, size_t size) {
  void *memory = upb_Arena_Malloc(layering->arena, size);
  layering->out_of_memory = layering->out_of_memory || memory == NULL;
  return memory;
}

/* ---- where values stand ---- */

static struct weir__origin_key key_of(const upb_Message *message, const upb_FieldDef *field,
                                      uint32_t element) {
  return (struct weir__origin_key){.message = message, .field = field, .element = element};
}

static void note(struct weir__layering *layering, struct weir__origin_key key,
                 struct weir__origin origin) {
  /* What was made in code has no place, but it is somebody's. */
  if (origin.kind != WEIR__ORIGIN_BUILT_IN && !layering->out_of_memory) {
    layering->out_of_memory = !weir__origins_put(layering->origins, key, origin);
  }
}

static void copy_place(struct weir__layering *layering, const upb_Message *to,
                       const upb_Message *from, const upb_FieldDef *field, uint32_t element) {
  note(layering, key_of(to, field, element),
       weir__origins_get(layering->origins, key_of(from, field, element)));
}

/* Those of a list's elements, or of what codes become. */
static void copy_inner_places(struct weir__layering *layering, const upb_Message *to,
                              const upb_Message *from, const upb_FieldDef *field) {
  const upb_MessageValue value = upb_Message_Get(from, field);
  const size_t n =
      upb_FieldDef_IsMap(field) ? WEIR_N_STATUS_CODES : upb_Array_Size(value.array_val);
  for (size_t i = 0; i < n; i++) {
    copy_place(layering, to, from, field, (uint32_t)i + 1);
  }
}

/* ---- copies ---- */

static void set(struct weir__layering *layering, upb_Message *message, const upb_FieldDef *field,
                upb_MessageValue value) {
  layering->out_of_memory =
      layering->out_of_memory || !upb_Message_Set(message, field, value, layering->arena);
}

/* NULL and out_of_memory: there is none left. */
static upb_Map *own_map(struct weir__layering *layering, upb_Message *message,
                        const upb_FieldDef *field) {
  if (layering->out_of_memory || !weir__document_reserve_map(layering->arena)) {
    layering->out_of_memory = true;
    return NULL;
  }
  upb_Map *map = upb_Message_Mutable(message, field, layering->arena).map;
  layering->out_of_memory = map == NULL;
  return map;
}

/* Lays one map over another, which is the message's own. */
static void copy_codes(struct weir__layering *layering, upb_Message *to, const upb_Message *from,
                       const upb_FieldDef *field) {
  const upb_Map *codes = upb_Message_Get(from, field).map_val;
  upb_Map *map = own_map(layering, to, field);
  size_t iterator = kUpb_Map_Begin;
  while (map != NULL && upb_MapIterator_Next(codes, &iterator)) {
    if (!upb_Map_Set(map, upb_MapIterator_Key(codes, iterator),
                     upb_MapIterator_Value(codes, iterator), layering->arena)) {
      layering->out_of_memory = true;
      return;
    }
  }
}

/* A message of the schema, whose fields have rules, and no duration. */
static bool is_inside(const upb_FieldDef *field) {
  return weir__layer_rule_of(field)->stricter == WEIR__STRICTER_INSIDE;
}

void weir__layer_copy_field(struct weir__layering *layering, upb_Message *to,
                            const upb_Message *from, const upb_FieldDef *field) {
  upb_MessageValue value = upb_Message_Get(from, field);
  copy_place(layering, to, from, field, WEIR__ORIGIN_WHOLE);
  if (upb_FieldDef_IsRepeated(field)) {
    copy_inner_places(layering, to, from, field);
  }
  if (upb_FieldDef_IsMap(field)) {
    copy_codes(layering, to, from, field);
    return;
  }
  if (is_inside(field)) {
    value.msg_val = weir__layer_copy(layering, upb_FieldDef_MessageSubDef(field), value.msg_val);
  }
  if (!layering->out_of_memory) {
    set(layering, to, field, value);
  }
}

upb_Message *weir__layer_copy(struct weir__layering *layering, const upb_MessageDef *def,
                              const upb_Message *from) {
  upb_Message *copy = new_message(layering, def);
  for (int i = 0; i < upb_MessageDef_FieldCount(def) && !layering->out_of_memory; i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (weir__layer_says(from, field)) {
      weir__layer_copy_field(layering, copy, from, field);
    }
  }
  return copy;
}

/* ---- one over the other ---- */

static struct weir__layer_part part_inside(const struct weir__layer_part *part,
                                           const upb_FieldDef *field, struct weir__path *path_out) {
  const char *name = upb_FieldDef_JsonName(field);
  *path_out = (struct weir__path){.parent = part->path, .key = name, .key_size = strlen(name)};
  return (struct weir__layer_part){.message = upb_Message_Get(part->message, field).msg_val,
                                   .path = path_out};
}

static void lay_inside(struct weir__layering *layering, upb_Message *laid,
                       const upb_FieldDef *field, const struct weir__layer_part *over,
                       const struct weir__layer_part *under) {
  struct weir__path over_path;
  struct weir__path under_path;
  const struct weir__layer_part upper = part_inside(over, field, &over_path);
  const struct weir__layer_part lower = part_inside(under, field, &under_path);
  const upb_MessageValue value = {
      .msg_val = weir__layer_lay(layering, upb_FieldDef_MessageSubDef(field), &upper, &lower)};
  copy_place(layering, laid, over->message, field, WEIR__ORIGIN_WHOLE);
  if (!layering->out_of_memory) {
    set(layering, laid, field, value);
  }
}

void weir__layer_lower_to_ceiling(struct weir__layering *layering, upb_Message *laid,
                                  const upb_FieldDef *field, const struct weir__layer_part *over,
                                  const struct weir__layer_part *under) {
  const struct weir__layer_place at = {.part = over, .field = field};
  const struct weir__layer_place other = {.part = under, .field = field};
  char text[WEIR__LAYER_VALUE_SIZE];
  struct weir__origin origin =
      weir__origins_get(layering->origins, key_of(under->message, field, WEIR__ORIGIN_WHOLE));
  set(layering, laid, field, upb_Message_Get(under->message, field));
  origin.kind = WEIR__ORIGIN_CEILING;
  note(layering, key_of(laid, field, WEIR__ORIGIN_WHOLE), origin);
  weir__layer_print_value(field, upb_Message_Get(under->message, field), text);
  weir__layer_tell(layering, WEIR_POLICY_WARNING, &at, &other,
                   "above the organisation's ceiling, and clamped to %s", text);
}

static void lay_field(struct weir__layering *layering, upb_Message *laid, const upb_FieldDef *field,
                      const struct weir__layer_part *over, const struct weir__layer_part *under) {
  const bool upper = weir__layer_says(over->message, field);
  const bool lower = weir__layer_says(under->message, field);
  const struct weir__layer_rule *rule = weir__layer_rule_of(field);
  if (upper && lower && rule->stricter == WEIR__STRICTER_INSIDE) {
    lay_inside(layering, laid, field, over, under);
  } else if (upper && lower && rule->stricter == WEIR__STRICTER_EACH) {
    weir__layer_copy_field(layering, laid, under->message, field);
    weir__layer_copy_field(layering, laid, over->message, field);
  } else if (upper && lower && rule->is_ceiling &&
             weir__layer_is_weaker(field, upb_Message_Get(over->message, field),
                                   upb_Message_Get(under->message, field))) {
    weir__layer_lower_to_ceiling(layering, laid, field, over, under);
  } else if (upper || lower) {
    weir__layer_copy_field(layering, laid, upper ? over->message : under->message, field);
  }
}

upb_Message *weir__layer_lay(struct weir__layering *layering, const upb_MessageDef *def,
                             const struct weir__layer_part *over,
                             const struct weir__layer_part *under) {
  upb_Message *laid = new_message(layering, def);
  for (int i = 0; i < upb_MessageDef_FieldCount(def) && !layering->out_of_memory; i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    const enum weir__stricter stricter = weir__layer_rule_of(field)->stricter;
    if (stricter != WEIR__STRICTER_METHODS && stricter != WEIR__STRICTER_NOT) {
      lay_field(layering, laid, field, over, under);
    }
  }
  return laid;
}

/* ---- what is enforced ---- */

/* The message that says what holds for a field, or NULL. */
static const upb_Message *speaker_of(const struct weir__layer_view *view,
                                     const upb_FieldDef *field) {
  const upb_Message *const candidates[] = {view->message, view->inherited, view->built_in};
  for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
    if (weir__layer_says(candidates[i], field)) {
      return candidates[i];
    }
  }
  return NULL;
}

static void enforce_single(struct weir__layering *layering, const struct weir__layer_target *target,
                           const upb_FieldDef *field, const upb_Message *enforced) {
  const upb_Message *speaker = speaker_of(&target->view, field);
  if (speaker == NULL || weir__layer_is_weaker(field, upb_Message_Get(speaker, field),
                                               upb_Message_Get(enforced, field))) {
    weir__layer_copy_field(layering, target->message, enforced, field);
  }
}

/* What the target has and the enforced list has as well. */
static void enforce_list(struct weir__layering *layering, const struct weir__layer_target *target,
                         const upb_FieldDef *field, const upb_Message *enforced) {
  const upb_Message *speaker = speaker_of(&target->view, field);
  const upb_Array *allowed = upb_Message_Get(enforced, field).array_val;
  if (speaker == NULL) {
    return;
  }
  const upb_Array *list = upb_Message_Get(speaker, field).array_val;
  upb_Array *kept = upb_Array_New(layering->arena, upb_FieldDef_CType(field));
  layering->out_of_memory = layering->out_of_memory || kept == NULL;
  for (size_t i = 0; i < upb_Array_Size(list) && !layering->out_of_memory; i++) {
    const upb_MessageValue element = upb_Array_Get(list, i);
    if (weir__layer_list_has(field, allowed, element)) {
      layering->out_of_memory = !upb_Array_Append(kept, element, layering->arena);
      note(layering, key_of(target->message, field, (uint32_t)upb_Array_Size(kept)),
           weir__origins_get(layering->origins, key_of(speaker, field, (uint32_t)i + 1)));
    }
  }
  if (!layering->out_of_memory && upb_Array_Size(kept) < upb_Array_Size(list)) {
    set(layering, target->message, field, (upb_MessageValue){.array_val = kept});
    copy_place(layering, target->message, enforced, field, WEIR__ORIGIN_WHOLE);
  }
}

static void set_code(struct weir__layering *layering, upb_Message *message,
                     const upb_FieldDef *field, upb_MessageValue code, upb_MessageValue becomes) {
  upb_Map *map = own_map(layering, message, field);
  if (map != NULL && !upb_Map_Set(map, code, becomes, layering->arena)) {
    layering->out_of_memory = true;
  }
}

static uint32_t code_number(const upb_FieldDef *field, upb_MessageValue code) {
  const upb_FieldDef *becomes =
      upb_MessageDef_FindFieldByNumber(upb_FieldDef_MessageSubDef(field), 2);
  return (uint32_t)upb_EnumValueDef_Number(upb_EnumDef_FindValueByNameWithSize(
      upb_FieldDef_EnumSubDef(becomes), code.str_val.data, code.str_val.size));
}

/* Codes are inherited one by one. */
static bool becomes_already(const struct weir__layer_view *view, const upb_FieldDef *field,
                            upb_MessageValue code, upb_MessageValue wanted) {
  const upb_Message *const candidates[] = {view->message, view->inherited};
  for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
    upb_MessageValue becomes;
    if (weir__layer_says(candidates[i], field) &&
        upb_Map_Get(upb_Message_Get(candidates[i], field).map_val, code, &becomes)) {
      return becomes.int32_val == wanted.int32_val;
    }
  }
  return false;
}

static void enforce_codes(struct weir__layering *layering, const struct weir__layer_target *target,
                          const upb_FieldDef *field, const upb_Message *enforced) {
  const upb_Map *codes = upb_Message_Get(enforced, field).map_val;
  size_t iterator = kUpb_Map_Begin;
  while (!layering->out_of_memory && upb_MapIterator_Next(codes, &iterator)) {
    const upb_MessageValue code = upb_MapIterator_Key(codes, iterator);
    const upb_MessageValue becomes = upb_MapIterator_Value(codes, iterator);
    if (!becomes_already(&target->view, field, code, becomes)) {
      set_code(layering, target->message, field, code, becomes);
      copy_place(layering, target->message, enforced, field, code_number(field, code) + 1);
      if (weir__origins_get(layering->origins, key_of(target->message, field, WEIR__ORIGIN_WHOLE))
              .kind == WEIR__ORIGIN_BUILT_IN) {
        copy_place(layering, target->message, enforced, field, WEIR__ORIGIN_WHOLE);
      }
    }
  }
}

/* ---- what is enforced of a translation ---- */

static upb_MessageValue deadline_exceeded(void) {
  return (upb_MessageValue){.str_val = upb_StringView_FromString("DEADLINE_EXCEEDED")};
}

/* Two fields say what DEADLINE_EXCEEDED becomes: the one that is enforced, or NULL. */
static const upb_FieldDef *enforced_deadline_code(const upb_MessageDef *def,
                                                  const upb_Message *enforced,
                                                  upb_MessageValue *becomes_out) {
  const upb_FieldDef *as = weir__layer_field(def, "deadline_exceeded_as");
  const upb_FieldDef *codes = weir__layer_field(def, "codes");
  if (weir__layer_says(enforced, as)) {
    *becomes_out = upb_Message_Get(enforced, as);
    return as;
  }
  return weir__layer_says(enforced, codes) && upb_Map_Get(upb_Message_Get(enforced, codes).map_val,
                                                          deadline_exceeded(), becomes_out)
             ? codes
             : NULL;
}

/* What is enforced by either has to be said by both, since a method's `codes` undo the channel's
 * `deadlineExceededAs`. */
static bool both_say_so(const upb_MessageDef *def, const struct weir__layer_view *view,
                        upb_MessageValue becomes) {
  const upb_FieldDef *as = weir__layer_field(def, "deadline_exceeded_as");
  const upb_Message *speaker = speaker_of(view, as);
  return speaker != NULL && upb_Message_Get(speaker, as).int32_val == becomes.int32_val &&
         becomes_already(view, weir__layer_field(def, "codes"), deadline_exceeded(), becomes);
}

static void enforce_deadline_code(struct weir__layering *layering, const upb_MessageDef *def,
                                  const struct weir__layer_target *target,
                                  const upb_Message *enforced) {
  const uint32_t element = (uint32_t)weir_v1_DEADLINE_EXCEEDED + 1;
  const upb_FieldDef *as = weir__layer_field(def, "deadline_exceeded_as");
  const upb_FieldDef *codes = weir__layer_field(def, "codes");
  upb_MessageValue becomes;
  const upb_FieldDef *source = enforced_deadline_code(def, enforced, &becomes);
  if (source == NULL || both_say_so(def, &target->view, becomes)) {
    return;
  }
  const struct weir__origin origin = weir__origins_get(
      layering->origins, key_of(enforced, source, source == as ? WEIR__ORIGIN_WHOLE : element));
  set(layering, target->message, as, becomes);
  note(layering, key_of(target->message, as, WEIR__ORIGIN_WHOLE), origin);
  set_code(layering, target->message, codes, deadline_exceeded(), becomes);
  note(layering, key_of(target->message, codes, element), origin);
}

/* Without one, what is enforced means nothing. */
static bool lacks_boundary(const upb_MessageDef *def, const struct weir__layer_view *view,
                           const upb_Message *enforced) {
  const upb_FieldDef *boundary = weir__layer_field(def, "boundary");
  const upb_Message *speaker = speaker_of(view, boundary);
  return weir__layer_wants_boundary(def, enforced) != NULL && speaker != NULL &&
         !upb_Message_Get(speaker, boundary).bool_val;
}

static void enforce_boundary(struct weir__layering *layering, const upb_MessageDef *def,
                             const struct weir__layer_target *target, const upb_Message *enforced) {
  const upb_FieldDef *boundary = weir__layer_field(def, "boundary");
  const upb_FieldDef *wants = weir__layer_wants_boundary(def, enforced);
  if (lacks_boundary(def, &target->view, enforced)) {
    set(layering, target->message, boundary, (upb_MessageValue){.bool_val = true});
    note(layering, key_of(target->message, boundary, WEIR__ORIGIN_WHOLE),
         weir__origins_get(layering->origins, key_of(enforced, wants, WEIR__ORIGIN_WHOLE)));
  }
}

/* ---- what is enforced of retries ---- */

/* Whether `maxBackoff` cuts the enforced `initialBackoff`. */
static bool cuts_backoff(const upb_MessageDef *def, const struct weir__layer_view *view,
                         const upb_Message *enforced) {
  const upb_FieldDef *initial = weir__layer_field(def, "initial_backoff");
  const upb_FieldDef *most = weir__layer_field(def, "max_backoff");
  const upb_Message *speaker = speaker_of(view, most);
  return weir__layer_says(enforced, initial) && speaker != NULL &&
         weir__policy_options_ns(upb_Message_Get(speaker, most).msg_val, 0) <
             weir__policy_options_ns(upb_Message_Get(enforced, initial).msg_val, 0);
}

static void enforce_backoff(struct weir__layering *layering, const upb_MessageDef *def,
                            const struct weir__layer_target *target, const upb_Message *enforced) {
  const upb_FieldDef *initial = weir__layer_field(def, "initial_backoff");
  const upb_FieldDef *most = weir__layer_field(def, "max_backoff");
  if (cuts_backoff(def, &target->view, enforced)) {
    set(layering, target->message, most, upb_Message_Get(enforced, initial));
    note(layering, key_of(target->message, most, WEIR__ORIGIN_WHOLE),
         weir__origins_get(layering->origins, key_of(enforced, initial, WEIR__ORIGIN_WHOLE)));
  }
}

/* ---- messages ---- */

static bool is_empty(const upb_MessageDef *def, const upb_Message *message) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    if (weir__layer_says(message, upb_MessageDef_Field(def, i))) {
      return false;
    }
  }
  return true;
}

static const upb_Message *message_inside(const upb_Message *message, const upb_FieldDef *field) {
  return weir__layer_says(message, field) ? upb_Message_Get(message, field).msg_val : NULL;
}

static void enforce_inside(struct weir__layering *layering, const struct weir__layer_target *target,
                           const upb_FieldDef *field, const upb_Message *enforced) {
  const upb_MessageDef *def = upb_FieldDef_MessageSubDef(field);
  const bool is_new = !weir__layer_says(target->message, field);
  upb_Message *message = upb_Message_Mutable(target->message, field, layering->arena).msg;
  layering->out_of_memory = layering->out_of_memory || message == NULL;
  if (layering->out_of_memory) {
    return;
  }
  const struct weir__layer_target inside = {
      .message = message,
      .view = {.message = message,
               .inherited = message_inside(target->view.inherited, field),
               .built_in = message_inside(target->view.built_in, field)}};
  weir__layer_enforce(layering, def, &inside, upb_Message_Get(enforced, field).msg_val);
  if (is_new && is_empty(def, message)) {
    upb_Message_ClearField(target->message, field);
  } else if (is_new) {
    copy_place(layering, target->message, enforced, field, WEIR__ORIGIN_WHOLE);
  }
}

/* An enforced retry policy bounds the one that there is, and makes none. */
static bool makes_no_retries(const upb_FieldDef *field, const struct weir__layer_view *view) {
  return strcmp(upb_FieldDef_Name(field), "retry_policy") == 0 &&
         !weir__layer_says(view->message, field);
}

static void enforce_field(struct weir__layering *layering, const struct weir__layer_target *target,
                          const upb_FieldDef *field, const upb_Message *enforced) {
  switch (weir__layer_rule_of(field)->stricter) {
  case WEIR__STRICTER_EQUAL:
  case WEIR__STRICTER_LESS:
  case WEIR__STRICTER_MORE:
  case WEIR__STRICTER_TRUE:
  case WEIR__STRICTER_FALSE:
  case WEIR__STRICTER_FIRST:
    enforce_single(layering, target, field, enforced);
    break;
  case WEIR__STRICTER_SUBSET:
    enforce_list(layering, target, field, enforced);
    break;
  case WEIR__STRICTER_EACH:
    enforce_codes(layering, target, field, enforced);
    break;
  case WEIR__STRICTER_INSIDE:
    if (!makes_no_retries(field, &target->view)) {
      enforce_inside(layering, target, field, enforced);
    }
    break;
  case WEIR__STRICTER_PASSED_ON:
    weir__layer_copy_field(layering, target->message, enforced, field);
    break;
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_NOT:
    break;
  }
}

void weir__layer_enforce(struct weir__layering *layering, const upb_MessageDef *def,
                         const struct weir__layer_target *target, const upb_Message *enforced) {
  if (enforced == NULL) {
    return;
  }
  for (int i = 0; i < upb_MessageDef_FieldCount(def) && !layering->out_of_memory; i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (weir__layer_says(enforced, field)) {
      enforce_field(layering, target, field, enforced);
    }
  }
  if (strcmp(upb_MessageDef_Name(def), "Translation") == 0 && !layering->out_of_memory) {
    enforce_deadline_code(layering, def, target, enforced);
    enforce_boundary(layering, def, target, enforced);
  }
  if (strcmp(upb_MessageDef_Name(def), "RetryPolicy") == 0 && !layering->out_of_memory) {
    enforce_backoff(layering, def, target, enforced);
  }
}

/* ---- what holds already ---- */

static bool list_holds(const struct weir__layer_view *view, const upb_FieldDef *field,
                       const upb_Message *enforced) {
  const upb_Message *speaker = speaker_of(view, field);
  const upb_Array *allowed = upb_Message_Get(enforced, field).array_val;
  const upb_Array *list = speaker != NULL ? upb_Message_Get(speaker, field).array_val : NULL;
  for (size_t i = 0; list != NULL && i < upb_Array_Size(list); i++) {
    if (!weir__layer_list_has(field, allowed, upb_Array_Get(list, i))) {
      return false;
    }
  }
  return true;
}

static bool codes_hold(const struct weir__layer_view *view, const upb_FieldDef *field,
                       const upb_Message *enforced) {
  const upb_Map *codes = upb_Message_Get(enforced, field).map_val;
  size_t iterator = kUpb_Map_Begin;
  while (upb_MapIterator_Next(codes, &iterator)) {
    if (!becomes_already(view, field, upb_MapIterator_Key(codes, iterator),
                         upb_MapIterator_Value(codes, iterator))) {
      return false;
    }
  }
  return true;
}

static bool inside_holds(const struct weir__layer_view *view, const upb_FieldDef *field,
                         const upb_Message *enforced) {
  const struct weir__layer_view inside = {.message = message_inside(view->message, field),
                                          .inherited = message_inside(view->inherited, field),
                                          .built_in = message_inside(view->built_in, field)};
  return makes_no_retries(field, view) ||
         weir__layer_holds(upb_FieldDef_MessageSubDef(field), &inside,
                           upb_Message_Get(enforced, field).msg_val);
}

static bool single_holds(const struct weir__layer_view *view, const upb_FieldDef *field,
                         const upb_Message *enforced) {
  const upb_Message *speaker = speaker_of(view, field);
  return speaker != NULL && !weir__layer_is_weaker(field, upb_Message_Get(speaker, field),
                                                   upb_Message_Get(enforced, field));
}

static bool field_holds(const struct weir__layer_view *view, const upb_FieldDef *field,
                        const upb_Message *enforced) {
  switch (weir__layer_rule_of(field)->stricter) {
  case WEIR__STRICTER_EQUAL:
  case WEIR__STRICTER_LESS:
  case WEIR__STRICTER_MORE:
  case WEIR__STRICTER_TRUE:
  case WEIR__STRICTER_FALSE:
  case WEIR__STRICTER_FIRST:
    return single_holds(view, field, enforced);
  case WEIR__STRICTER_SUBSET:
    return list_holds(view, field, enforced);
  case WEIR__STRICTER_EACH:
    return codes_hold(view, field, enforced);
  case WEIR__STRICTER_INSIDE:
    return inside_holds(view, field, enforced);
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    return true;
  }
  return false;
}

bool weir__layer_holds(const upb_MessageDef *def, const struct weir__layer_view *view,
                       const upb_Message *enforced) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (weir__layer_says(enforced, field) && !field_holds(view, field, enforced)) {
      return false;
    }
  }
  if (strcmp(upb_MessageDef_Name(def), "RetryPolicy") == 0) {
    return !cuts_backoff(def, view, enforced);
  }
  upb_MessageValue becomes;
  return strcmp(upb_MessageDef_Name(def), "Translation") != 0 ||
         ((enforced_deadline_code(def, enforced, &becomes) == NULL ||
           both_say_so(def, view, becomes)) &&
          !lacks_boundary(def, view, enforced));
}
