/* document_walk – the state of reading a document, shared by the files that do it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_DOCUMENT_WALK_H
#define WEIR_SRC_POLICY_DOCUMENT_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <upb/arena.h>
#include <upb/def.h>
#include <upb/reflection.h>

#include "src/policy/document.h"
#include "src/policy/json.h"
#include "src/policy/name_set.h"
#include "src/policy/problems.h"

/* Fields of one message, and rules; a test reads a document with all of policy.proto. */
#define WEIR__DOCUMENT_MAX_FIELDS 32
#define WEIR__DOCUMENT_MAX_RULES 24

#define WEIR__DOCUMENT_MAX_REQUIRING 8

struct weir__walk;
struct weir__object;

/* Where a rule holds. */
enum weir__rule_place {
  WEIR__RULE_EVERYWHERE = 0,
  WEIR__RULE_OUTSIDE_ENFORCE,
  WEIR__RULE_INSIDE_ENFORCE
};

/* What holds for a field beyond its type. */
struct weir__field_rule {
  const char *message; /* in the package weir.v1 */
  const char *field;
  enum weir__rule_place place;
  bool required;
  bool not_ok;     /* a code other than OK; a list then has an element at least */
  double at_least; /* of numbers, and of durations in nanoseconds */
  double at_most;
  const char *must; /* words for at_least and at_most */
};

/* What holds for an object once all its keys have been read. */
typedef void weir__object_rule(struct weir__walk *walk, const struct weir__object *object);

struct weir__walk {
  struct weir__document *document;
  const struct weir__json *json;
  struct weir__problems *problems;
  const upb_MessageDef *root;
  const upb_FieldDef *ruled_fields[WEIR__DOCUMENT_MAX_RULES];     /* in the order of the rules */
  const upb_MessageDef *ruled_messages[WEIR__DOCUMENT_MAX_RULES]; /* likewise */
  const upb_MessageDef *requiring[WEIR__DOCUMENT_MAX_REQUIRING];  /* that have a required field */
  size_t n_requiring;
  struct weir__origins *origins; /* NULL: no places are wanted */
  enum weir__origin_kind origin_kind;
  struct weir__json_place origin_place; /* of the last value */
  bool in_enforce;                      /* what is read stands under `enforce` */
  bool ceilings_are_known;              /* what is above one is told of */
  bool out_of_memory;
  int64_t max_timeout_ns; /* the ceiling of unary calls */
  struct weir__name_set names;
};

/* An object of the document that is a message of the schema. */
struct weir__object {
  uint32_t index;
  const upb_MessageDef *def;
  upb_Message *message;
  const struct weir__path *path;
  /* By the index of the field: the value in the document, 0 = none, or null; and whether it was
   * right. */
  uint32_t given[WEIR__DOCUMENT_MAX_FIELDS];
  bool valid[WEIR__DOCUMENT_MAX_FIELDS];
  bool has_null;
};

/* ---- document.c ---- */

/* NULL, and walk->out_of_memory, when there is none left. */
void *weir__walk_allocate(struct weir__walk *walk, size_t size);

/* Where a value or a key stands in the text, as a path has it. */
size_t weir__walk_at(const struct weir__walk *walk, uint32_t index);

/* The value of an object's field in the document, 0 when it has none; `valid_out`, if not NULL,
 * says whether it was right. */
uint32_t weir__object_given(const struct weir__object *object, const char *field, bool *valid_out);

/* ---- document_rules.c ---- */

/* What must be known before the walk. False: the schema is not the one that the rules are for. */
bool weir__rules_prepare(struct weir__walk *walk);

/* Whether the document has the key `enforce`. */
bool weir__rules_enforce(const struct weir__walk *walk);

/* Whether a message has a field that is required. */
bool weir__message_requires(const struct weir__walk *walk, const upb_MessageDef *def);

/* NULL: the field has no rule, the message none. */
const struct weir__field_rule *weir__field_rule_of(const struct weir__walk *walk,
                                                   const upb_FieldDef *field);
weir__object_rule *weir__object_rule_of(const struct weir__walk *walk, const upb_MessageDef *def);

/* ---- document_hints.c ---- */

/* Tells of a key that the object's message does not have. */
void weir__hint_unknown_key(struct weir__walk *walk, const struct weir__object *object,
                            uint32_t key_index);

/* Tells of a required field that an object does not have. */
void weir__hint_missing_field(struct weir__walk *walk, const struct weir__object *object,
                              const upb_FieldDef *field);

/* The name among an enum's that `text` was most likely meant to be, or NULL. */
const char *weir__hint_enum_name(const struct weir__walk *walk, const upb_EnumDef *names,
                                 struct weir__json_text text);

#endif /* WEIR_SRC_POLICY_DOCUMENT_WALK_H */
