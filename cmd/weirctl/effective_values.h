/* effective_values – what holds, value by value: a list that the schema makes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CMD_WEIRCTL_EFFECTIVE_VALUES_H
#define WEIR_CMD_WEIRCTL_EFFECTIVE_VALUES_H

#include <stddef.h>

#include <jansson.h>

#include "cmd/weirctl/effective.h"

/* The longest is "translation.codes.FAILED_PRECONDITION". */
#define EFFECTIVE_PATH_SIZE 96
#define EFFECTIVE_NOTE_SIZE 96

/* What is enforced on a value. */
struct effective_bound {
  const upb_FieldDef *field; /* NULL: nothing */
  upb_MessageValue value;
  json_t *json; /* likewise; NULL: nothing */
  struct weir__origin origin;
};

struct effective_value {
  char path[EFFECTIVE_PATH_SIZE]; /* "retryPolicy.maxAttempts" */
  json_t *value;                  /* null: there is none */
  json_t *said;     /* what a document says, where something else holds; NULL: nothing else */
  const char *none; /* what to call null: "no retries" */
  char note[EFFECTIVE_NOTE_SIZE];
  struct weir__origin origin;
  struct effective_bound bound;
};

/* Zeroed at first. */
struct effective_values {
  struct effective_value *list;
  size_t n;
  size_t capacity;
};

void effective_values_fini(struct effective_values *values);

/* Forgets what there is; the list's memory stays. */
void effective_values_clear(struct effective_values *values);

/* What holds for the `nth` of the paths that were held: its entry's fields, and what the entry may
 * lay over the channel's. */
void effective_values_method(struct effective_values *values, const struct effective *effective,
                             const char *path, size_t nth);

/* Which fields of the channel's are meant. */
enum effective_part {
  EFFECTIVE_PART_FIXED = 0, /* those that no entry has */
  EFFECTIVE_PART_WHOLE
};

void effective_values_channel(struct effective_values *values, const struct effective *effective,
                              enum effective_part part);

/* A field's value as a document would say it. */
json_t *effective_field_json(const upb_FieldDef *field, upb_MessageValue value);

/* For a person; free() ends it. */
char *effective_value_text(const json_t *value, const char *none);

#endif /* WEIR_CMD_WEIRCTL_EFFECTIVE_VALUES_H */
