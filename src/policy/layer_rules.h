/* layer_rules – for every field of a policy, which of two values is the weaker one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_LAYER_RULES_H
#define WEIR_SRC_POLICY_LAYER_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <upb/def.h>
#include <upb/reflection.h>

enum weir__stricter {
  WEIR__STRICTER_EQUAL = 0, /* there is no order: the same, or weaker */
  WEIR__STRICTER_LESS,
  WEIR__STRICTER_MORE,
  WEIR__STRICTER_TRUE,
  WEIR__STRICTER_FALSE,
  WEIR__STRICTER_FIRST,     /* of the field's `order`, the earlier one */
  WEIR__STRICTER_SUBSET,    /* of a list */
  WEIR__STRICTER_EACH,      /* of a map: EQUAL for each key */
  WEIR__STRICTER_INSIDE,    /* of a message: its own fields have rules */
  WEIR__STRICTER_METHODS,   /* methodConfig: by the names that it covers */
  WEIR__STRICTER_PASSED_ON, /* EQUAL, but what weir keeps of it is its text */
  WEIR__STRICTER_NOT        /* nothing that could be enforced */
};

#define WEIR__LAYER_ORDER_LENGTH 3

struct weir__layer_rule {
  const char *message; /* in the package weir.v1 */
  const char *field;
  enum weir__stricter stricter;
  bool is_ceiling;      /* an organisation's plain value bounds a channel's */
  bool zero_is_none;    /* 0 means that there is no limit: the weakest of all */
  uint32_t at_most;     /* larger values mean this; 0 = they mean what they say */
  const int32_t *order; /* WEIR__LAYER_ORDER_LENGTH enum numbers, the strictest first */
};

/* NULL: the schema has a field that nothing is known of; a test fails then. */
const struct weir__layer_rule *weir__layer_rule_of(const upb_FieldDef *field);

/* Whether a message says something of a field; an empty list is something. */
bool weir__layer_says(const upb_Message *message, const upb_FieldDef *field);

/* By the fields' names, of messages of known types. */
const upb_FieldDef *weir__layer_field(const upb_MessageDef *def, const char *name);

/* Whether `value` is weaker than `bound`. Of LESS, MORE, TRUE, FALSE, FIRST and EQUAL. */
bool weir__layer_is_weaker(const upb_FieldDef *field, upb_MessageValue value,
                           upb_MessageValue bound);

/* Whether nothing is weaker than `value`, so that to enforce it is to enforce nothing. Likewise. */
bool weir__layer_is_weakest(const upb_FieldDef *field, upb_MessageValue value);

/* Whether a list has an element that is equal to `value`. */
bool weir__layer_list_has(const upb_FieldDef *field, const upb_Array *list, upb_MessageValue value);

#define WEIR__LAYER_VALUE_SIZE 48

/* A value as words for a message, cut if need be. */
void weir__layer_print_value(const upb_FieldDef *field, upb_MessageValue value,
                             char text_out[WEIR__LAYER_VALUE_SIZE]);

/* Whether two JSON texts are the same but for blanks between their tokens. */
bool weir__layer_json_is_equal(const char *a, size_t a_size, const char *b, size_t b_size);

#endif /* WEIR_SRC_POLICY_LAYER_RULES_H */
