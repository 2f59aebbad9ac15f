/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/document.h"

#include <math.h>
#include <string.h>

#include <google/protobuf/duration.upb.h>
#include <upb/internal/table.h>
#include <upb/internal/upb.h>
#include <upb/msg_internal.h>
#include <upb/reflection.h>
#include <weir/v1/policy.upbdefs.h>

#include "src/base/allocator.h"
#include "src/policy/document_walk.h"
#include "src/policy/duration.h"
#include "src/policy/json.h"
#include "src/policy/json_number.h"

/* How much of a wrong value a message shows. */
#define SHOWN_SIZE 32

/* Longer names are those of no enum. */
#define ENUM_NAME_SIZE 32

static bool read_message(struct weir__walk *walk, struct weir__object *object);

/* ---- memory ---- */

static void *document_allocate(upb_alloc *alloc, void *memory, size_t old_size, size_t size) {
  const struct weir_allocator *allocator = ((struct weir__document_memory *)alloc)->allocator;
  void *moved = NULL;
  if (size > 0) {
    moved = allocator->allocate(allocator->context, size);
    if (moved == NULL) {
      return NULL;
    }
  }
  if (memory != NULL) {
    if (moved != NULL) {
      memcpy(moved, memory, old_size < size ? old_size : size);
    }
    allocator->release(allocator->context, memory);
  }
  return moved;
}

/* upb doubles an arena's blocks, however large they are, and of the last one half may stay empty. */
static void limit_blocks(upb_Arena *arena) {
  enum { BLOCK_BYTES = 32 * 1024 }; /* half of what the next block will have */
  if (arena->last_size > BLOCK_BYTES) {
    arena->last_size = BLOCK_BYTES;
  }
}

void *weir__document_allocate(upb_Arena *arena, size_t size) {
  limit_blocks(arena);
  return upb_Arena_Malloc(arena, size);
}

void *weir__walk_allocate(struct weir__walk *walk, size_t size) {
  void *memory = weir__document_allocate(walk->document->arena, size);
  walk->out_of_memory = walk->out_of_memory || memory == NULL;
  return memory;
}

size_t weir__walk_at(const struct weir__walk *walk, uint32_t index) {
  return walk->json->values[index].begin + (size_t)1;
}

upb_Arena *weir__document_arena(struct weir__document_memory *memory,
                                const struct weir_allocator *allocator) {
  *memory =
      (struct weir__document_memory){.base = {.func = document_allocate}, .allocator = allocator};
  return upb_Arena_Init(NULL, 0, &memory->base);
}

/* Blocks of an arena grow, so few are enough. */
bool weir__document_reserve_map(upb_Arena *arena) {
  enum { MAP_BYTES = 1024 };
  while (_upb_ArenaHas(arena) < MAP_BYTES) {
    if (upb_Arena_Malloc(arena, MAP_BYTES) == NULL) {
      return false;
    }
  }
  return true;
}

/* ---- places of values ---- */

/* Values are told of in the order of the document, so that it is read through once. */
static void note_place(struct weir__walk *walk, uint32_t index, struct weir__origin_key key) {
  if (walk->origins == NULL || walk->origins->unwanted || walk->out_of_memory) {
    return;
  }
  weir__json_place_move(walk->json->text, &walk->origin_place, walk->json->values[index].begin);
  const struct weir__origin origin = {.kind = walk->in_enforce ? WEIR__ORIGIN_ENFORCED
                                                               : walk->origin_kind,
                                      .line = walk->origin_place.line,
                                      .column = walk->origin_place.column};
  walk->out_of_memory = !weir__origins_put(walk->origins, key, origin);
}

/* As upb_Array_New, but with room for so many, which is nearly always less than four. */
static upb_Array *new_list(struct weir__walk *walk, const upb_FieldDef *field, uint32_t length) {
  static const struct {
    int type;
    int size_lg2;
  } sizes[] = {
      {kUpb_CType_Bool, 0},   {kUpb_CType_UInt32, 2},  {kUpb_CType_Enum, 2},
      {kUpb_CType_Double, 3}, {kUpb_CType_Message, 3}, {kUpb_CType_String, 4},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    if (sizes[i].type == (int)upb_FieldDef_CType(field)) {
      return _upb_Array_New(walk->document->arena, length, sizes[i].size_lg2);
    }
  }
  return upb_Array_New(walk->document->arena, upb_FieldDef_CType(field));
}

/* As upb_Map_New, but with room for so many, and it looks whether its table could be allocated. */
static upb_Map *new_map(struct weir__walk *walk, uint32_t length) {
  upb_Map *map = upb_Arena_Malloc(walk->document->arena, sizeof *map);
  if (map == NULL || !upb_strtable_init(&map->table, length, walk->document->arena)) {
    return NULL;
  }
  map->key_size = 0;               /* a string */
  map->val_size = sizeof(int32_t); /* an enum */
  return map;
}

/* Of an array or an object. */
static uint32_t count_members(const struct weir__walk *walk, uint32_t index) {
  const uint32_t end = weir__json_next(walk->json, index);
  const uint32_t is_object = walk->json->values[index].kind == WEIR__JSON_OBJECT ? 1 : 0;
  uint32_t n = 0;
  for (uint32_t i = index + 1; i < end; i = weir__json_next(walk->json, i + is_object)) {
    n++;
  }
  return n;
}

/* ---- words for wrong values ---- */

static enum weir__json_kind kind_of(const struct weir__walk *walk, uint32_t index) {
  return (enum weir__json_kind)walk->json->values[index].kind;
}

static const char *kind_name(enum weir__json_kind kind) {
  switch (kind) {
  case WEIR__JSON_NULL:
    return "null";
  case WEIR__JSON_FALSE:
  case WEIR__JSON_TRUE:
    return "a boolean";
  case WEIR__JSON_NUMBER:
    return "a number";
  case WEIR__JSON_STRING:
    return "a string";
  case WEIR__JSON_ARRAY:
    return "an array";
  case WEIR__JSON_OBJECT:
    return "an object";
  }
  return "";
}

/* False, so that a reader can return it. */
static bool refuse_kind(struct weir__walk *walk, uint32_t index, const struct weir__path *path,
                        const char *must) {
  weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path, "must be %s, not %s", must,
                      kind_name(kind_of(walk, index)));
  return false;
}

static bool refuse_value(struct weir__walk *walk, uint32_t index, const struct weir__path *path,
                         const char *must) {
  const struct weir__json_text source = weir__json_source(walk->json, index);
  const int shown = weir__text_cut(source.text, source.size, SHOWN_SIZE);
  weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path, "must be %s, not %.*s%s", must,
                      shown, source.text, (size_t)shown < source.size ? "..." : "");
  return false;
}

static void tell_duplicate(struct weir__walk *walk, const struct weir__path *path) {
  weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path,
                      "a key that this object has already");
}

/* In a value that is not read. The path is that of the value, since nothing is known of what it
 * holds. */
static void tell_duplicates_inside(struct weir__walk *walk, uint32_t index,
                                   const struct weir__path *path) {
  for (uint32_t i = index; i < weir__json_next(walk->json, index); i++) {
    if (walk->json->values[i].duplicate) {
      const struct weir__json_text key = weir__json_string(walk->json, i);
      const struct weir__path inside = {
          .parent = path, .key = key.text, .key_size = key.size, .at = weir__walk_at(walk, i)};
      tell_duplicate(walk, &inside);
    }
  }
}

/* ---- single values ---- */

/* Proto3's JSON takes a number in quotes for the number. */
static bool number_of(struct weir__walk *walk, uint32_t index,
                      struct weir__json_number *decimal_out) {
  if (kind_of(walk, index) == WEIR__JSON_STRING) {
    const struct weir__json_text text = weir__json_string(walk->json, index);
    return weir__json_number_parse(text.text, text.size, decimal_out);
  }
  if (kind_of(walk, index) == WEIR__JSON_NUMBER) {
    const struct weir__json_text source = weir__json_source(walk->json, index);
    return weir__json_number_parse(source.text, source.size, decimal_out);
  }
  return false;
}

static bool is_in_range(const struct weir__field_rule *rule, double number) {
  return rule == NULL || rule->must == NULL ||
         (number >= rule->at_least && number <= rule->at_most);
}

static const char *must_of(const struct weir__field_rule *rule, const char *otherwise) {
  return rule != NULL && rule->must != NULL ? rule->must : otherwise;
}

/* 3.0 and 3e0 are the number 3 as well. */
static bool read_uint32(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                        const struct weir__path *path, upb_MessageValue *value_out) {
  const struct weir__field_rule *rule = weir__field_rule_of(walk, field);
  struct weir__json_number decimal;
  uint64_t number = 0;
  const char *must = must_of(rule, "an integer from 0 to 4294967295");
  if (!number_of(walk, index, &decimal) || !weir__json_number_scale(&decimal, 0, &number) ||
      (decimal.negative && number > 0) || number > UINT32_MAX ||
      !is_in_range(rule, (double)number)) {
    return refuse_value(walk, index, path, must);
  }
  value_out->uint32_val = (uint32_t)number;
  return true;
}

static bool read_double(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                        const struct weir__path *path, upb_MessageValue *value_out) {
  const struct weir__field_rule *rule = weir__field_rule_of(walk, field);
  struct weir__json_number decimal;
  const char *must = must_of(rule, "a finite number");
  if (!number_of(walk, index, &decimal)) {
    return refuse_value(walk, index, path, must);
  }
  value_out->double_val = weir__json_number_to_double(&decimal);
  if (!isfinite(value_out->double_val) || !is_in_range(rule, value_out->double_val)) {
    return refuse_value(walk, index, path, must);
  }
  return true;
}

static bool read_bool(struct weir__walk *walk, uint32_t index, const struct weir__path *path,
                      upb_MessageValue *value_out) {
  const enum weir__json_kind kind = kind_of(walk, index);
  if (kind != WEIR__JSON_TRUE && kind != WEIR__JSON_FALSE) {
    return refuse_kind(walk, index, path, "a boolean");
  }
  value_out->bool_val = kind == WEIR__JSON_TRUE;
  return true;
}

static bool read_string(struct weir__walk *walk, uint32_t index, const struct weir__path *path,
                        upb_MessageValue *value_out) {
  if (kind_of(walk, index) != WEIR__JSON_STRING) {
    return refuse_kind(walk, index, path, "a string");
  }
  const struct weir__json_text text = weir__json_string(walk->json, index);
  if (memchr(text.text, '\0', text.size) != NULL) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path, "must not hold a NUL character");
    return false;
  }
  char *copy = weir__walk_allocate(walk, text.size + 1);
  if (copy == NULL) {
    return false;
  }
  memcpy(copy, text.text, text.size);
  copy[text.size] = '\0';
  value_out->str_val = upb_StringView_FromDataAndSize(copy, text.size);
  return true;
}

/* ---- enums ---- */

/* A name in any case. */
static const upb_EnumValueDef *enum_value_named(const upb_EnumDef *names,
                                                struct weir__json_text text) {
  char upper[ENUM_NAME_SIZE];
  if (text.size > sizeof upper) {
    return NULL;
  }
  for (size_t i = 0; i < text.size; i++) {
    const char c = text.text[i];
    upper[i] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
  }
  return upb_EnumDef_FindValueByNameWithSize(names, upper, text.size);
}

static const upb_EnumValueDef *enum_value_numbered(const upb_EnumDef *names, const char *text,
                                                   size_t size) {
  struct weir__json_number decimal;
  uint64_t number = 0;
  if (!weir__json_number_parse(text, size, &decimal) ||
      !weir__json_number_scale(&decimal, 0, &number) || (decimal.negative && number > 0) ||
      number > INT32_MAX) {
    return NULL;
  }
  return upb_EnumDef_FindValueByNumber(names, (int32_t)number);
}

/* One of an enum's names, or, of codes, what there is to choose from. */
static bool refuse_enum(struct weir__walk *walk, const upb_EnumDef *names, uint32_t index,
                        const struct weir__path *path) {
  const bool codes = strcmp(upb_EnumDef_FullName(names), "weir.v1.StatusCode") == 0;
  if (kind_of(walk, index) == WEIR__JSON_STRING) {
    const struct weir__json_text text = weir__json_string(walk->json, index);
    const char *meant = weir__hint_enum_name(walk, names, text);
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path, "no %s is called \"%.*s\"%s%s%s",
                        codes ? "status code" : "value of this key",
                        weir__text_cut(text.text, text.size, SHOWN_SIZE), text.text,
                        meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "",
                        meant != NULL ? "?" : "");
    return false;
  }
  return refuse_value(walk, index, path,
                      codes ? "the name or the number (0 to 16) of a status code"
                            : "one of this key's names");
}

static bool read_enum(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                      const struct weir__path *path, upb_MessageValue *value_out) {
  const upb_EnumDef *names = upb_FieldDef_EnumSubDef(field);
  const struct weir__field_rule *rule = weir__field_rule_of(walk, field);
  const upb_EnumValueDef *value = NULL;
  if (kind_of(walk, index) == WEIR__JSON_STRING) {
    value = enum_value_named(names, weir__json_string(walk->json, index));
  } else if (kind_of(walk, index) == WEIR__JSON_NUMBER) {
    const struct weir__json_text source = weir__json_source(walk->json, index);
    value = enum_value_numbered(names, source.text, source.size);
  }
  if (value == NULL) {
    return refuse_enum(walk, names, index, path);
  }
  value_out->int32_val = upb_EnumValueDef_Number(value);
  if (rule != NULL && rule->not_ok && value_out->int32_val == weir_v1_OK) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path,
                        "must not be OK, which is no failure");
    return false;
  }
  return true;
}

/* ---- durations ---- */

static bool refuse_duration(struct weir__walk *walk, uint32_t index,
                            const struct weir__path *path) {
  char meant[WEIR__DURATION_TEXT_SIZE];
  const enum weir__json_kind kind = kind_of(walk, index);
  if (kind != WEIR__JSON_STRING && kind != WEIR__JSON_NUMBER) {
    return refuse_kind(walk, index, path, "a duration such as \"1.5s\"");
  }
  const struct weir__json_text text = kind == WEIR__JSON_STRING
                                          ? weir__json_string(walk->json, index)
                                          : weir__json_source(walk->json, index);
  const bool suggested = weir__duration_suggest(text.text, text.size, meant);
  const struct weir__json_text source = weir__json_source(walk->json, index);
  const int shown = weir__text_cut(source.text, source.size, SHOWN_SIZE);
  weir__problems_tell(
      walk->problems, WEIR_POLICY_REFUSED, path,
      "must be a duration such as \"1.5s\", of at most nine decimals and 315576000000s, not "
      "%.*s%s%s%s",
      shown, source.text, suggested ? "; write \"" : "", suggested ? meant : "",
      suggested ? "\"" : "");
  return false;
}

static bool read_duration(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                          const struct weir__path *path, upb_MessageValue *value_out) {
  const struct weir__field_rule *rule = weir__field_rule_of(walk, field);
  struct weir__duration duration;
  if (kind_of(walk, index) != WEIR__JSON_STRING) {
    return refuse_duration(walk, index, path);
  }
  const struct weir__json_text text = weir__json_string(walk->json, index);
  if (!weir__duration_parse(text.text, text.size, &duration)) {
    return refuse_duration(walk, index, path);
  }
  const int64_t ns = weir__duration_to_ns(&duration);
  if (ns < 0 || !is_in_range(rule, (double)ns)) {
    return refuse_value(walk, index, path, must_of(rule, "0s or more"));
  }
  google_protobuf_Duration *message = google_protobuf_Duration_new(walk->document->arena);
  if (message == NULL) {
    walk->out_of_memory = true;
    return false;
  }
  google_protobuf_Duration_set_seconds(message, duration.seconds);
  google_protobuf_Duration_set_nanos(message, duration.nanos);
  value_out->msg_val = message;
  return true;
}

/* ---- values of any type ---- */

/* A message of the schema, a duration, or an object that is only passed on: that one stays out of
 * the message. */
static bool read_submessage(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                            const struct weir__path *path, upb_MessageValue *value_out) {
  const upb_MessageDef *def = upb_FieldDef_MessageSubDef(field);
  const upb_WellKnown well_known = upb_MessageDef_WellKnownType(def);
  if (well_known == kUpb_WellKnown_Duration) {
    return read_duration(walk, field, index, path, value_out);
  }
  if (kind_of(walk, index) != WEIR__JSON_OBJECT) {
    tell_duplicates_inside(walk, index, path);
    return refuse_kind(walk, index, path, "an object");
  }
  if (well_known == kUpb_WellKnown_Struct) {
    tell_duplicates_inside(walk, index, path);
    value_out->msg_val = NULL;
    return true;
  }
  if (def == walk->root && walk->in_enforce) {
    tell_duplicates_inside(walk, index, path);
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path,
                        "what is enforced can't enforce anything itself");
    return false;
  }
  struct weir__object object = {.index = index, .def = def, .path = path};
  object.message = upb_Message_New(def, walk->document->arena);
  if (object.message == NULL) {
    walk->out_of_memory = true;
    return false;
  }
  value_out->msg_val = object.message;
  const bool in_enforce = walk->in_enforce;
  walk->in_enforce = in_enforce || def == walk->root;
  const bool valid = read_message(walk, &object);
  walk->in_enforce = in_enforce;
  return valid;
}

static bool read_single(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                        const struct weir__path *path, upb_MessageValue *value_out) {
  /* The types that policy.proto uses; a test reads a document with every field. */
  switch ((int)upb_FieldDef_CType(field)) {
  case kUpb_CType_Bool:
    return read_bool(walk, index, path, value_out);
  case kUpb_CType_UInt32:
    return read_uint32(walk, field, index, path, value_out);
  case kUpb_CType_Double:
    return read_double(walk, field, index, path, value_out);
  case kUpb_CType_Enum:
    return read_enum(walk, field, index, path, value_out);
  case kUpb_CType_String:
    return read_string(walk, index, path, value_out);
  case kUpb_CType_Message:
    return read_submessage(walk, field, index, path, value_out);
  default:
    return refuse_kind(walk, index, path, "left out: this type is not supported");
  }
}

static bool read_list(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                      struct weir__object *object, const struct weir__path *path) {
  const struct weir__field_rule *rule = weir__field_rule_of(walk, field);
  const uint32_t end = weir__json_next(walk->json, index);
  bool valid = true;
  if (kind_of(walk, index) != WEIR__JSON_ARRAY) {
    tell_duplicates_inside(walk, index, path);
    return refuse_kind(walk, index, path, "an array");
  }
  if (end == index + 1 && rule != NULL && rule->not_ok) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path, "must not be empty");
    return false;
  }
  upb_Array *list = new_list(walk, field, count_members(walk, index));
  if (list == NULL) {
    walk->out_of_memory = true;
    return false;
  }
  upb_Message_Set(object->message, field, (upb_MessageValue){.array_val = list}, NULL);
  struct weir__path element = {.parent = path, .index = 0};
  for (uint32_t i = index + 1; i < end && !walk->out_of_memory;
       i = weir__json_next(walk->json, i)) {
    upb_MessageValue value = {.msg_val = NULL};
    element.at = weir__walk_at(walk, i);
    note_place(walk, i, weir__origin_key_of(object->message, field, (uint32_t)element.index));
    if (!read_single(walk, field, i, &element, &value)) {
      valid = false;
    } else if (!upb_FieldDef_IsSubMessage(field) || value.msg_val != NULL) {
      walk->out_of_memory = !upb_Array_Append(list, value, walk->document->arena);
    }
    element.index++;
  }
  return valid && !walk->out_of_memory;
}

/* ---- maps from status codes ---- */

static const upb_EnumValueDef *code_of_key(const upb_EnumDef *names, struct weir__json_text key) {
  const upb_EnumValueDef *code = enum_value_named(names, key);
  return code != NULL ? code : enum_value_numbered(names, key.text, key.size);
}

static bool read_map_key(struct weir__walk *walk, const upb_EnumDef *names,
                         struct weir__json_text key, const struct weir__path *path,
                         upb_MessageValue *key_out) {
  const upb_EnumValueDef *code = code_of_key(names, key);
  if (code == NULL) {
    const char *meant = weir__hint_enum_name(walk, names, key);
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path,
                        "no status code is called this%s%s%s",
                        meant != NULL ? "; did you mean " : "", meant != NULL ? meant : "",
                        meant != NULL ? "?" : "");
    return false;
  }
  if (upb_EnumValueDef_Number(code) == weir_v1_OK) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path, "OK is never translated");
    return false;
  }
  key_out->str_val = upb_StringView_FromString(upb_EnumValueDef_Name(code));
  return true;
}

/* `path` is that of the key, and the value's but for its place in the text. */
static bool read_map_member(struct weir__walk *walk, const upb_FieldDef *value_field,
                            uint32_t key_index, upb_Map *map, const struct weir__path *path) {
  upb_MessageValue key = {.msg_val = NULL};
  upb_MessageValue value = {.msg_val = NULL};
  struct weir__path value_path = *path;
  if (walk->json->values[key_index].duplicate) {
    tell_duplicate(walk, path);
    return false;
  }
  value_path.at = weir__walk_at(walk, key_index + 1);
  const bool key_valid = read_map_key(walk, upb_FieldDef_EnumSubDef(value_field),
                                      weir__json_string(walk->json, key_index), path, &key);
  const bool value_valid = read_single(walk, value_field, key_index + 1, &value_path, &value);
  if (!key_valid || !value_valid) {
    return false;
  }
  if (upb_Map_Get(map, key, NULL)) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, path, "this code is given twice");
    return false;
  }
  walk->out_of_memory = !upb_Map_Set(map, key, value, walk->document->arena);
  return !walk->out_of_memory;
}

static bool read_map(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                     struct weir__object *object, const struct weir__path *path) {
  const upb_FieldDef *value_field =
      upb_MessageDef_FindFieldByNumber(upb_FieldDef_MessageSubDef(field), 2);
  bool valid = true;
  if (kind_of(walk, index) != WEIR__JSON_OBJECT) {
    tell_duplicates_inside(walk, index, path);
    return refuse_kind(walk, index, path, "an object");
  }
  upb_Map *map = new_map(walk, count_members(walk, index));
  if (map == NULL) {
    walk->out_of_memory = true;
    return false;
  }
  upb_Message_Set(object->message, field, (upb_MessageValue){.map_val = map}, NULL);
  const uint32_t end = weir__json_next(walk->json, index);
  for (uint32_t key = index + 1; key < end && !walk->out_of_memory;
       key = weir__json_next(walk->json, key + 1)) {
    const struct weir__json_text text = weir__json_string(walk->json, key);
    const struct weir__path member = {
        .parent = path, .key = text.text, .key_size = text.size, .at = weir__walk_at(walk, key)};
    const upb_EnumValueDef *code = code_of_key(upb_FieldDef_EnumSubDef(value_field), text);
    if (code != NULL) {
      note_place(
          walk, key + 1,
          weir__origin_key_of(object->message, field, (uint32_t)upb_EnumValueDef_Number(code)));
    }
    valid = read_map_member(walk, value_field, key, map, &member) && valid;
  }
  return valid && !walk->out_of_memory;
}

/* ---- objects ---- */

static bool read_field(struct weir__walk *walk, const upb_FieldDef *field, uint32_t index,
                       struct weir__object *object, const struct weir__path *path) {
  upb_MessageValue value = {.msg_val = NULL};
  limit_blocks(walk->document->arena);
  if (upb_FieldDef_IsMap(field)) {
    return read_map(walk, field, index, object, path);
  }
  if (upb_FieldDef_IsRepeated(field)) {
    return read_list(walk, field, index, object, path);
  }
  const bool valid = read_single(walk, field, index, path, &value);
  if (upb_FieldDef_IsSubMessage(field) ? value.msg_val != NULL : valid) {
    walk->out_of_memory = walk->out_of_memory ||
                          !upb_Message_Set(object->message, field, value, walk->document->arena);
  }
  return valid && !walk->out_of_memory;
}

static void read_known(struct weir__walk *walk, struct weir__object *object,
                       const upb_FieldDef *field, uint32_t key_index) {
  const uint32_t i = upb_FieldDef_Index(field);
  const char *name = upb_FieldDef_JsonName(field);
  struct weir__path path = {.parent = object->path,
                            .key = name,
                            .key_size = strlen(name),
                            .at = weir__walk_at(walk, key_index)};
  if (object->given[i] != 0) {
    weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, &path,
                        "given twice: as \"%s\" and as \"%s\"", name, upb_FieldDef_Name(field));
    return;
  }
  path.at = weir__walk_at(walk, key_index + 1);
  object->given[i] = key_index + 1;
  note_place(walk, key_index + 1,
             (struct weir__origin_key){.message = object->message, .field = field});
  object->has_null = object->has_null || kind_of(walk, key_index + 1) == WEIR__JSON_NULL;
  object->valid[i] = kind_of(walk, key_index + 1) != WEIR__JSON_NULL &&
                     read_field(walk, field, key_index + 1, object, &path);
}

/* Fields that are null count as left out, but no other spelling may give them again. */
static void forget_nulls(struct weir__walk *walk, struct weir__object *object) {
  for (size_t i = 0; i < WEIR__DOCUMENT_MAX_FIELDS && object->has_null; i++) {
    if (object->given[i] != 0 && kind_of(walk, object->given[i]) == WEIR__JSON_NULL) {
      object->given[i] = 0;
    }
  }
}

static void tell_missing(struct weir__walk *walk, const struct weir__object *object) {
  if (!weir__message_requires(walk, object->def)) {
    return;
  }
  for (int i = 0; i < upb_MessageDef_FieldCount(object->def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(object->def, i);
    const struct weir__field_rule *rule = weir__field_rule_of(walk, field);
    if (rule != NULL && rule->required && object->given[upb_FieldDef_Index(field)] == 0) {
      weir__hint_missing_field(walk, object, field);
    }
  }
}

static void read_member(struct weir__walk *walk, struct weir__object *object, uint32_t key_index) {
  const struct weir__json_text key = weir__json_string(walk->json, key_index);
  const struct weir__path path = {.parent = object->path,
                                  .key = key.text,
                                  .key_size = key.size,
                                  .at = weir__walk_at(walk, key_index)};
  if (walk->json->values[key_index].duplicate) {
    tell_duplicate(walk, &path);
    tell_duplicates_inside(walk, key_index + 1, &path);
    return;
  }
  const upb_FieldDef *field =
      upb_MessageDef_FindByJsonNameWithSize(object->def, key.text, key.size);
  if (field == NULL) {
    weir__hint_unknown_key(walk, object, key_index);
    tell_duplicates_inside(walk, key_index + 1, &path);
    return;
  }
  read_known(walk, object, field, key_index);
}

/* Calls itself through the messages of the schema. One of them, the whole policy, is inside of
 * itself, as `enforce`, but not in there once more. */
static bool read_message(struct weir__walk *walk, struct weir__object *object) {
  const size_t n_refused = walk->problems->n_refused;
  weir__object_rule *rule = weir__object_rule_of(walk, object->def);
  const uint32_t end = weir__json_next(walk->json, object->index);
  for (uint32_t key = object->index + 1; key < end && !walk->out_of_memory;
       key = weir__json_next(walk->json, key + 1)) {
    read_member(walk, object, key);
  }
  if (walk->out_of_memory) {
    return false;
  }
  forget_nulls(walk, object);
  tell_missing(walk, object);
  if (rule != NULL) {
    rule(walk, object);
  }
  return walk->problems->n_refused == n_refused && !walk->out_of_memory;
}

uint32_t weir__object_given(const struct weir__object *object, const char *field, bool *valid_out) {
  const upb_FieldDef *def =
      upb_MessageDef_FindFieldByNameWithSize(object->def, field, strlen(field));
  const uint32_t i = upb_FieldDef_Index(def);
  if (valid_out != NULL) {
    *valid_out = object->valid[i];
  }
  return object->given[i];
}

/* ---- the whole ---- */

static enum weir_error walk_document(struct weir__document *document, const struct weir__json *json,
                                     const struct weir__document_reading *reading,
                                     struct weir__problems *problems) {
  struct weir__walk walk = {.document = document,
                            .json = json,
                            .problems = problems,
                            .origin_kind = reading->kind,
                            .origin_place = WEIR__JSON_PLACE_INIT};
  weir__problems_read(problems, json->text, json->size);
  walk.root = weir_v1_Policy_getmsgdef(document->schema);
  if (walk.root == NULL || !weir__rules_prepare(&walk)) {
    return WEIR_ERROR_NO_MEMORY;
  }
  walk.names.allocator = document->memory.allocator;
  if (json->values[0].kind != WEIR__JSON_OBJECT) {
    tell_duplicates_inside(&walk, 0, NULL);
    (void)refuse_kind(&walk, 0, NULL, "an object");
    return WEIR_ERROR_INVALID_POLICY;
  }
  const bool enforces = weir__rules_enforce(&walk);
  walk.origins = !reading->only_if_enforcing || enforces ? reading->origins : NULL;
  walk.ceilings_are_known = !reading->is_layer && !enforces;
  struct weir__object root = {
      .index = 0, .def = walk.root, .message = document->policy, .path = NULL};
  (void)read_message(&walk, &root);
  weir__name_set_fini(&walk.names);
  if (walk.out_of_memory) {
    return WEIR_ERROR_NO_MEMORY;
  }
  return problems->n_refused > 0 ? WEIR_ERROR_INVALID_POLICY : WEIR_OK;
}

enum weir_error weir__document_read(struct weir__document *document, const char *text, size_t size,
                                    const struct weir__document_reading *reading,
                                    const struct weir_allocator *allocator,
                                    struct weir__problems *problems) {
  struct weir__json json;
  struct weir_diagnostic fault;
  *document = (struct weir__document){.schema = reading->schema,
                                      .schema_is_borrowed = reading->schema != NULL};
  enum weir_error error = weir__json_init(&json, text, size, allocator, &fault);
  if (error == WEIR_ERROR_INVALID_POLICY) {
    weir__problems_add(problems, WEIR_POLICY_REFUSED, &fault);
  }
  if (error != WEIR_OK) {
    goto out;
  }
  error = WEIR_ERROR_NO_MEMORY;
  if (!document->schema_is_borrowed) {
    document->schema = upb_DefPool_New();
  }
  document->arena = weir__document_arena(&document->memory, allocator);
  if (document->schema == NULL || document->arena == NULL) {
    goto out;
  }
  document->policy = weir_v1_Policy_new(document->arena);
  if (document->policy != NULL) {
    error = walk_document(document, &json, reading, problems);
  }

out:
  weir__json_fini(&json);
  return error;
}

enum weir_error weir__document_init(struct weir__document *document, const char *text, size_t size,
                                    const struct weir_allocator *allocator,
                                    struct weir__problems *problems) {
  const struct weir__document_reading reading = {.origins = NULL};
  return weir__document_read(document, text, size, &reading, allocator, problems);
}

void weir__document_fini(struct weir__document *document) {
  if (document->arena != NULL) {
    upb_Arena_Free(document->arena);
  }
  if (document->schema != NULL && !document->schema_is_borrowed) {
    upb_DefPool_Free(document->schema);
  }
}
