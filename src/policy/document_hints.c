/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "src/policy/document_walk.h"

/* Words longer than this are not compared. */
#define WORD_SIZE 48

/* Past this many problems in a document no hints are sought: it is not a policy. */
#define HINTS_LIMIT 256

/* A known key of these is looked for elsewhere, so deep. */
#define SCHEMA_DEPTH 4

/* ---- likeness of words ---- */

static char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_separator(char c) {
  return c == '_' || c == '-' || c == ' ' || c == '.';
}

/* Equal but for case and what separates words. */
static bool is_respelt(const char *a, size_t a_size, const char *b, size_t b_size) {
  size_t i = 0;
  size_t j = 0;
  for (;;) {
    while (i < a_size && is_separator(a[i])) {
      i++;
    }
    while (j < b_size && is_separator(b[j])) {
      j++;
    }
    if (i == a_size || j == b_size) {
      return i == a_size && j == b_size;
    }
    if (to_lower(a[i++]) != to_lower(b[j++])) {
      return false;
    }
  }
}

static size_t min_of(size_t a, size_t b) {
  return a < b ? a : b;
}

/* How many letters must be changed, put in or taken out (Levenshtein), case aside. Neither is
 * longer than WORD_SIZE. */
static size_t distance(const char *a, size_t a_size, const char *b, size_t b_size) {
  size_t row[WORD_SIZE + 1];
  for (size_t j = 0; j <= b_size; j++) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a_size; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b_size; j++) {
      const size_t above = row[j];
      const size_t changed = diagonal + (to_lower(a[i - 1]) == to_lower(b[j - 1]) ? 0 : 1);
      row[j] = min_of(changed, min_of(above, row[j - 1]) + 1);
      diagonal = above;
    }
  }
  return row[b_size];
}

/* The nearest so far. */
struct nearest {
  const char *name;
  size_t distance;
};

/* Words are alike when at most a quarter of the letters differ, one at least. */
static void consider(struct nearest *nearest, struct weir__json_text text, const char *name) {
  const size_t name_size = strlen(name);
  if (text.size > WORD_SIZE || name_size > WORD_SIZE || text.size == 0) {
    return;
  }
  const size_t apart = distance(text.text, text.size, name, name_size);
  const size_t allowed = name_size < 8 ? 1 : name_size / 4;
  if (apart <= allowed && (nearest->name == NULL || apart < nearest->distance)) {
    *nearest = (struct nearest){.name = name, .distance = apart};
  }
}

/* ---- keys in the wrong place ---- */

static bool is_ours(const upb_FieldDef *field) {
  return upb_FieldDef_CType(field) == kUpb_CType_Message && !upb_FieldDef_IsMap(field) &&
         upb_MessageDef_WellKnownType(upb_FieldDef_MessageSubDef(field)) ==
             kUpb_WellKnown_Unspecified;
}

/* What a whole policy has inside of `enforce` it has outside as well. */
static bool is_whole(const upb_FieldDef *field) {
  return upb_FieldDef_MessageSubDef(field) == upb_FieldDef_ContainingType(field);
}

/* Where a key is known, as text: "at the top or inside methodConfig[].translation". */
struct places {
  struct weir__json_text key;
  const upb_FieldDef *trail[SCHEMA_DEPTH]; /* the fields by which a message is reached */
  size_t n_found;
  size_t n; /* of `text` */
  char text[96];
};

static void print(struct places *places, const char *text) {
  const int written =
      snprintf(places->text + places->n, sizeof places->text - places->n, "%s", text);
  places->n = min_of(places->n + (size_t)written, sizeof places->text - 1);
}

static void print_place(struct places *places, size_t depth) {
  print(places, places->n_found++ > 0 ? " or " : "");
  print(places, depth == 0 ? "at the top" : "inside ");
  for (size_t i = 0; i < depth; i++) {
    print(places, i > 0 ? "." : "");
    print(places, upb_FieldDef_JsonName(places->trail[i]));
    print(places, upb_FieldDef_IsRepeated(places->trail[i]) ? "[]" : "");
  }
}

/* Finds the messages with the key that are `wanted` levels down. */
static void find_places(const upb_MessageDef *def, size_t depth, size_t wanted,
                        struct places *places) {
  if (depth == wanted) {
    if (upb_MessageDef_FindByJsonNameWithSize(def, places->key.text, places->key.size) != NULL) {
      print_place(places, depth);
    }
    return;
  }
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    places->trail[depth] = upb_MessageDef_Field(def, i);
    if (is_ours(places->trail[depth]) && !is_whole(places->trail[depth])) {
      find_places(upb_FieldDef_MessageSubDef(places->trail[depth]), depth + 1, wanted, places);
    }
  }
}

/* Keys around a service config where it is one of several in a DNS record (gRFC A2). */
static const char *dns_choice_hint(struct weir__json_text key) {
  static const char *const around[] = {"clientLanguage", "clientHostname", "percentage"};
  static const char wrapper[] = "serviceConfig";
  if (key.size == sizeof wrapper - 1 && memcmp(key.text, wrapper, key.size) == 0) {
    return "\"serviceConfig\" found one level down - this is the DNS choice form (gRFC A2); pass "
           "the inner object";
  }
  for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
    if (strlen(around[i]) == key.size && memcmp(key.text, around[i], key.size) == 0) {
      return "unknown key; it belongs to the DNS choice form (gRFC A2), of which a policy is the "
             "inner object";
    }
  }
  return NULL;
}

/* ---- words ---- */

static const char *respelt_field(const upb_MessageDef *def, struct weir__json_text key) {
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    const char *name = upb_FieldDef_JsonName(upb_MessageDef_Field(def, i));
    if (is_respelt(key.text, key.size, name, strlen(name))) {
      return name;
    }
  }
  return NULL;
}

static const char *nearest_field(const upb_MessageDef *def, struct weir__json_text key) {
  struct nearest nearest = {.name = NULL};
  for (int i = 0; i < upb_MessageDef_FieldCount(def); i++) {
    consider(&nearest, key, upb_FieldDef_JsonName(upb_MessageDef_Field(def, i)));
  }
  return nearest.name;
}

static void tell_with_hint(struct weir__walk *walk, enum weir_policy_severity severity,
                           const struct weir__object *object, struct weir__json_text key,
                           const struct weir__path *path) {
  struct places places = {.key = key};
  const char *hint = object->path == NULL ? dns_choice_hint(key) : NULL;
  if (hint != NULL) {
    weir__problems_tell(walk->problems, severity, path, "%s", hint);
    return;
  }
  const char *respelt = respelt_field(object->def, key);
  if (respelt != NULL) {
    weir__problems_tell(walk->problems, severity, path,
                        "unknown key; keys are spelt exactly: \"%s\"", respelt);
    return;
  }
  for (size_t wanted = 0; wanted <= SCHEMA_DEPTH; wanted++) {
    find_places(walk->root, 0, wanted, &places);
  }
  if (places.n_found > 0) {
    weir__problems_tell(walk->problems, severity, path, "unknown key here; it belongs %s",
                        places.text);
  } else {
    const char *nearest = nearest_field(object->def, key);
    weir__problems_tell(walk->problems, severity, path, "unknown key%s%s%s",
                        nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "?" : "");
  }
}

void weir__hint_unknown_key(struct weir__walk *walk, const struct weir__object *object,
                            uint32_t key_index) {
  const struct weir__json_text key = weir__json_string(walk->json, key_index);
  const struct weir__path path = {.parent = object->path,
                                  .key = key.text,
                                  .key_size = key.size,
                                  .at = weir__walk_at(walk, key_index)};
  const enum weir_policy_severity severity =
      walk->problems->options->lenient ? WEIR_POLICY_WARNING : WEIR_POLICY_REFUSED;
  if (walk->problems->n_told < HINTS_LIMIT) {
    tell_with_hint(walk, severity, object, key, &path);
  } else {
    weir__problems_tell(walk->problems, severity, &path, "unknown key");
  }
}

void weir__hint_missing_field(struct weir__walk *walk, const struct weir__object *object,
                              const upb_FieldDef *field) {
  const char *name = upb_FieldDef_JsonName(field);
  const size_t name_size = strlen(name);
  const struct weir__path path = {.parent = object->path, .key = name, .key_size = name_size};
  const uint32_t end = weir__json_next(walk->json, object->index);
  for (uint32_t key = object->index + 1; key < end && walk->problems->n_told < HINTS_LIMIT;
       key = weir__json_next(walk->json, key + 1)) {
    const struct weir__json_text text = weir__json_string(walk->json, key);
    if (is_respelt(text.text, text.size, name, name_size) &&
        upb_MessageDef_FindByJsonNameWithSize(object->def, text.text, text.size) == NULL) {
      weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, &path,
                          "missing; found \"%.*s\", but keys are spelt exactly", (int)text.size,
                          text.text);
      return;
    }
  }
  weir__problems_tell(walk->problems, WEIR_POLICY_REFUSED, &path, "missing");
}

const char *weir__hint_enum_name(const struct weir__walk *walk, const upb_EnumDef *names,
                                 struct weir__json_text text) {
  struct nearest nearest = {.name = NULL};
  if (walk->problems->n_told >= HINTS_LIMIT) {
    return NULL;
  }
  for (int i = 0; i < upb_EnumDef_ValueCount(names); i++) {
    const char *name = upb_EnumValueDef_Name(upb_EnumDef_Value(names, i));
    if (is_respelt(text.text, text.size, name, strlen(name))) {
      return name;
    }
    consider(&nearest, text, name);
  }
  return nearest.name;
}
