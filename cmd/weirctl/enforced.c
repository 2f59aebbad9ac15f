/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/weirctl/enforced.h"

#include <stdio.h>
#include <string.h>

#include <upb/array.h>
#include <upb/map.h>
#include <weir/outcome.h>

#include "src/policy/layer_rules.h"

const weir_v1_Policy *enforced_of(const struct effective *effective) {
  const struct weir__layered *layered = &effective->view.layered;
  const weir_v1_Policy *by =
      effective->organisation_loaded ? layered->organisation.policy : layered->channel.policy;
  return by != NULL && weir_v1_Policy_has_enforce(by) ? weir_v1_Policy_enforce(by) : NULL;
}

/* ---- methods ---- */

static bool name_covers(const weir_v1_Name *name, const char *path) {
  const upb_StringView service = weir_v1_Name_service(name);
  const upb_StringView method = weir_v1_Name_method(name);
  if (service.size == 0) {
    return true;
  }
  if (strncmp(path + 1, service.data, service.size) != 0 || path[1 + service.size] != '/') {
    return false;
  }
  const char *rest = path + 2 + service.size;
  return method.size == 0 ||
         (strlen(rest) == method.size && memcmp(rest, method.data, method.size) == 0);
}

bool enforced_covers(const weir_v1_MethodConfig *config, const char *path) {
  size_t n = 0;
  const weir_v1_Name *const *names = weir_v1_MethodConfig_name(config, &n);
  for (size_t i = 0; i < n; i++) {
    if (name_covers(names[i], path)) {
      return true;
    }
  }
  return false;
}

/* ---- bounds ---- */

struct search {
  struct effective_values *values;
  size_t from;
  const struct effective *effective;
};

static struct effective_value *find(const struct search *search, const char *path) {
  for (size_t i = search->from; i < search->values->n; i++) {
    if (strcmp(search->values->list[i].path, path) == 0) {
      return &search->values->list[i];
    }
  }
  return NULL;
}

/* Of two entries that cover a method, both hold: the stricter one is told. */
static bool is_stricter(const upb_FieldDef *field, upb_MessageValue bound,
                        const struct effective_value *value) {
  if (value->bound.field == NULL) {
    return true;
  }
  if (value->bound.field != field) {
    return false;
  }
  if (upb_FieldDef_IsRepeated(field)) {
    return upb_Array_Size(bound.array_val) < upb_Array_Size(value->bound.value.array_val);
  }
  return weir__layer_is_weaker(field, value->bound.value, bound);
}

static void note_field(const struct search *search, const char *path, const upb_Message *message,
                       const upb_FieldDef *field) {
  const upb_MessageValue bound = upb_Message_Get(message, field);
  struct effective_value *value = find(search, path);
  if (value == NULL || weir__layer_is_weakest(field, bound) || !is_stricter(field, bound, value)) {
    return;
  }
  json_decref(value->bound.json);
  value->bound = (struct effective_bound){
      .field = field,
      .value = bound,
      .json = effective_field_json(field, bound),
      .origin = weir__layered_origin(&search->effective->view.layered, message, field)};
}

static void note_codes(const struct search *search, const char *path, const upb_Message *message,
                       const upb_FieldDef *field) {
  const upb_Map *map = upb_Message_Get(message, field).map_val;
  char element[EFFECTIVE_PATH_SIZE];
  for (uint32_t code = 0; map != NULL && code < WEIR_N_STATUS_CODES; code++) {
    const char *name = weir_status_code_name((grpc_status_code)code);
    const upb_MessageValue key = {.str_val = upb_StringView_FromString(name)};
    upb_MessageValue becomes;
    (void)snprintf(element, sizeof element, "%s.%s", path, name);
    struct effective_value *value = find(search, element);
    if (value != NULL && value->bound.field == NULL && upb_Map_Get(map, key, &becomes)) {
      const char *visible = weir_status_code_name((grpc_status_code)becomes.int32_val);
      value->bound =
          (struct effective_bound){.field = field,
                                   .json = json_string(visible),
                                   .origin = weir__layered_element_origin(
                                       &search->effective->view.layered, message, field, code)};
    }
  }
}

static void note_message(const struct search *search, const char *prefix, const upb_MessageDef *def,
                         const upb_Message *message) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const upb_FieldDef *field = upb_MessageDef_Field(def, i);
    char path[EFFECTIVE_PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "",
                   upb_FieldDef_JsonName(field));
    if (!weir__layer_says(message, field)) {
      continue;
    }
    switch (weir__layer_rule_of(field)->stricter) {
    case WEIR__STRICTER_INSIDE:
      note_message(search, path, upb_FieldDef_MessageSubDef(field),
                   upb_Message_Get(message, field).msg_val);
      break;
    case WEIR__STRICTER_EACH:
      note_codes(search, path, message, field);
      break;
    case WEIR__STRICTER_EQUAL:
    case WEIR__STRICTER_LESS:
    case WEIR__STRICTER_MORE:
    case WEIR__STRICTER_TRUE:
    case WEIR__STRICTER_FALSE:
    case WEIR__STRICTER_FIRST:
    case WEIR__STRICTER_SUBSET:
      note_field(search, path, message, field);
      break;
    case WEIR__STRICTER_METHODS:
    case WEIR__STRICTER_PASSED_ON:
    case WEIR__STRICTER_NOT:
      break;
    }
  }
}

void enforced_note(struct effective_values *values, size_t from, const struct effective *effective,
                   const char *path) {
  const struct search search = {.values = values, .from = from, .effective = effective};
  const weir_v1_Policy *enforced = enforced_of(effective);
  size_t n = 0;
  if (enforced == NULL) {
    return;
  }
  const weir_v1_MethodConfig *const *configs = weir_v1_Policy_method_config(enforced, &n);
  for (size_t i = 0; path != NULL && i < n; i++) {
    if (enforced_covers(configs[i], path)) {
      note_message(&search, "", effective->method_def, configs[i]);
    }
  }
  note_message(&search, "", effective->policy_def, enforced);
}

const char *enforced_words(const struct effective_value *value) {
  switch (weir__layer_rule_of(value->bound.field)->stricter) {
  case WEIR__STRICTER_LESS:
    return "at most ";
  case WEIR__STRICTER_MORE:
    return "at least ";
  case WEIR__STRICTER_SUBSET:
    return "no other than ";
  case WEIR__STRICTER_FIRST:
    return "as strict as ";
  case WEIR__STRICTER_EQUAL:
  case WEIR__STRICTER_TRUE:
  case WEIR__STRICTER_FALSE:
  case WEIR__STRICTER_EACH:
  case WEIR__STRICTER_INSIDE:
  case WEIR__STRICTER_METHODS:
  case WEIR__STRICTER_PASSED_ON:
  case WEIR__STRICTER_NOT:
    return "";
  }
  return "";
}
