/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/effective_changes.h"

#include <stdlib.h>
#include <string.h>

#include <upb/array.h>
#include <upb/map.h>

#include "cmd/weirctl/memory.h"

void effective_changes_fini(struct effective_changes *changes) {
  effective_values_fini(&changes->old_values);
  effective_values_fini(&changes->new_values);
  free(changes->list);
  *changes = (struct effective_changes){.list = NULL};
}

/* The longer one: the other may be that of a message which is not there. */
const char *effective_change_path(const struct effective_change *change) {
  const char *old_path = change->old_value != NULL ? change->old_value->path : "";
  const char *new_path = change->new_value != NULL ? change->new_value->path : "";
  return strlen(old_path) > strlen(new_path) ? old_path : new_path;
}

static void add_change(struct effective_changes *changes, const struct effective_value *old_value,
                       const struct effective_value *new_value) {
  changes->list = memory_grow(changes->list, changes->n, &changes->capacity, sizeof *changes->list);
  changes->list[changes->n++] =
      (struct effective_change){.old_value = old_value, .new_value = new_value};
}

/* ---- value by value ---- */

/* Where a path is among values, from `from` on; their number: nowhere. */
static size_t find_path(const struct effective_values *values, size_t from, const char *path) {
  size_t at = from;
  while (at < values->n && strcmp(values->list[at].path, path) != 0) {
    at++;
  }
  return at;
}

static bool is_inside(const char *path, const char *message) {
  const size_t size = strlen(message);
  return strncmp(path, message, size) == 0 && path[size] == '.';
}

/* What says that there is no such message as `value` is of; NULL: nothing does. */
static const struct effective_value *absence_of(const struct effective_values *values,
                                                const struct effective_value *value) {
  for (size_t i = 0; i < values->n; i++) {
    if (json_is_null(values->list[i].value) && is_inside(value->path, values->list[i].path)) {
      return &values->list[i];
    }
  }
  return NULL;
}

/* What one side alone has. That there is no such message at all is no value. */
static void add_old(struct effective_changes *changes, const struct effective_value *value) {
  if (!json_is_null(value->value)) {
    add_change(changes, value, absence_of(&changes->new_values, value));
  }
}

static void add_new(struct effective_changes *changes, const struct effective_value *value) {
  if (!json_is_null(value->value)) {
    add_change(changes, absence_of(&changes->old_values, value), value);
  }
}

/* Both lists are in the order of the schema. */
static void compare_values(struct effective_changes *changes) {
  const struct effective_values *new_values = &changes->new_values;
  size_t next = 0;
  for (size_t i = 0; i < changes->old_values.n; i++) {
    const struct effective_value *old_value = &changes->old_values.list[i];
    const size_t at = find_path(new_values, next, old_value->path);
    if (at == new_values->n) {
      add_old(changes, old_value);
      continue;
    }
    for (; next < at; next++) {
      add_new(changes, &new_values->list[next]);
    }
    if (!json_equal(old_value->value, new_values->list[at].value)) {
      add_change(changes, old_value, &new_values->list[at]);
    }
    next = at + 1;
  }
  for (; next < new_values->n; next++) {
    add_new(changes, &new_values->list[next]);
  }
}

static void clear(struct effective_changes *changes) {
  effective_values_clear(&changes->old_values);
  effective_values_clear(&changes->new_values);
  changes->n = 0;
}

void effective_changes_channel(struct effective_changes *changes,
                               const struct effective *old_policy,
                               const struct effective *new_policy) {
  clear(changes);
  effective_values_channel(&changes->old_values, old_policy, EFFECTIVE_PART_WHOLE);
  effective_values_channel(&changes->new_values, new_policy, EFFECTIVE_PART_WHOLE);
  compare_values(changes);
}

/* ---- a quick look, since most methods of a large policy stay as they are ---- */

static bool is_same_message(const upb_MessageDef *def, const upb_Message *a, const upb_Message *b);

static bool is_same_single(const upb_FieldDef *field, upb_MessageValue a, upb_MessageValue b) {
  switch ((int)upb_FieldDef_CType(field)) {
  case kUpb_CType_Bool:
    return a.bool_val == b.bool_val;
  case kUpb_CType_Int32:
  case kUpb_CType_UInt32:
  case kUpb_CType_Enum:
    return a.uint32_val == b.uint32_val;
  case kUpb_CType_Int64:
    return a.int64_val == b.int64_val;
  case kUpb_CType_Double:
    return a.double_val >= b.double_val && a.double_val <= b.double_val;
  case kUpb_CType_String:
    return upb_StringView_IsEqual(a.str_val, b.str_val);
  case kUpb_CType_Message:
    return is_same_message(upb_FieldDef_MessageSubDef(field), a.msg_val, b.msg_val);
  default:
    return false;
  }
}

static bool is_same_list(const upb_FieldDef *field, const upb_Array *a, const upb_Array *b) {
  const size_t n = a != NULL ? upb_Array_Size(a) : 0;
  if (n != (b != NULL ? upb_Array_Size(b) : 0)) {
    return false;
  }
  for (size_t i = 0; i < n; i++) {
    if (!is_same_single(field, upb_Array_Get(a, i), upb_Array_Get(b, i))) {
      return false;
    }
  }
  return true;
}

static bool is_same_map(const upb_FieldDef *field, const upb_Map *a, const upb_Map *b) {
  const upb_FieldDef *value_field =
      upb_MessageDef_FindFieldByNumber(upb_FieldDef_MessageSubDef(field), 2);
  const size_t n = a != NULL ? upb_Map_Size(a) : 0;
  size_t at = kUpb_Map_Begin;
  if (n != (b != NULL ? upb_Map_Size(b) : 0)) {
    return false;
  }
  while (n > 0 && upb_MapIterator_Next(a, &at)) {
    upb_MessageValue other;
    if (!upb_Map_Get(b, upb_MapIterator_Key(a, at), &other) ||
        !is_same_single(value_field, upb_MapIterator_Value(a, at), other)) {
      return false;
    }
  }
  return true;
}

/* A message that is not there can't be asked for. */
static bool is_same_field(const upb_FieldDef *field, const upb_Message *a, const upb_Message *b) {
  if (upb_FieldDef_HasPresence(field)) {
    const bool is_there = upb_Message_Has(a, field);
    if (!is_there || !upb_Message_Has(b, field)) {
      return !is_there && !upb_Message_Has(b, field);
    }
  }
  const upb_MessageValue a_value = upb_Message_Get(a, field);
  const upb_MessageValue b_value = upb_Message_Get(b, field);
  if (upb_FieldDef_IsMap(field)) {
    return is_same_map(field, a_value.map_val, b_value.map_val);
  }
  return upb_FieldDef_IsRepeated(field) ? is_same_list(field, a_value.array_val, b_value.array_val)
                                        : is_same_single(field, a_value, b_value);
}

static bool is_same_message(const upb_MessageDef *def, const upb_Message *a, const upb_Message *b) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    if (!is_same_field(upb_MessageDef_Field(def, i), a, b)) {
      return false;
    }
  }
  return true;
}

/* What is laid over something else says nothing by itself, so it counts only where nothing of the
 * channel's has changed. */
static bool has_own_layers(const upb_MessageDef *def, const upb_Message *held) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    if (!upb_FieldDef_IsRepeated(field) && upb_FieldDef_IsSubMessage(field) &&
        upb_Message_Has(held, field)) {
      return true;
    }
  }
  return false;
}

static bool is_unchanged(const struct effective *old_policy, const struct effective *new_policy,
                         size_t nth, const struct effective_changes *channel) {
  size_t n_old = 0;
  size_t n_new = 0;
  const upb_MessageDef *def = old_policy->method_def;
  const upb_Message *old_held = weir_v1_Policy_method_config(old_policy->held, &n_old)[nth];
  const upb_Message *new_held = weir_v1_Policy_method_config(new_policy->held, &n_new)[nth];
  const bool may_depend = channel->n > 0 && has_own_layers(def, old_held);
  return !may_depend && is_same_message(def, old_held, new_held);
}

/* ---- methods ---- */

static bool is_same_change(const struct effective_change *a, const struct effective_change *b) {
  return a->old_value != NULL && a->new_value != NULL && b->old_value != NULL &&
         b->new_value != NULL && strcmp(a->old_value->path, b->old_value->path) == 0 &&
         strcmp(a->new_value->path, b->new_value->path) == 0 &&
         json_equal(a->old_value->value, b->old_value->value) &&
         json_equal(a->new_value->value, b->new_value->value);
}

/* Leaves out what is said channel-wide. */
static void drop_channel_wide(struct effective_changes *changes,
                              const struct effective_changes *channel) {
  size_t kept = 0;
  for (size_t i = 0; i < changes->n; i++) {
    bool is_told = false;
    for (size_t j = 0; j < channel->n && !is_told; j++) {
      is_told = is_same_change(&changes->list[i], &channel->list[j]);
    }
    if (!is_told) {
      changes->list[kept++] = changes->list[i];
    }
  }
  changes->n = kept;
}

void effective_changes_method(struct effective_changes *changes, const struct effective *old_policy,
                              const struct effective *new_policy, const char *path, size_t nth,
                              const struct effective_changes *channel) {
  clear(changes);
  if (is_unchanged(old_policy, new_policy, nth, channel)) {
    return;
  }
  effective_values_method(&changes->old_values, old_policy, path, nth);
  effective_values_method(&changes->new_values, new_policy, path, nth);
  compare_values(changes);
  drop_channel_wide(changes, channel);
}
