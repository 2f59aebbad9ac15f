/* json – a document's syntax: RFC 8259, read strictly into a flat tree.
 *
 * Nothing but the grammar is accepted: no comments, trailing commas, byte-order mark or trailing
 * bytes. Numbers keep their text. Keys that occur twice in an object are marked, since who reads
 * the tree can tell where they are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_JSON_H
#define WEIR_SRC_POLICY_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/error.h>

#define WEIR__JSON_MAX_SIZE ((size_t)4 * 1024 * 1024)
#define WEIR__JSON_MAX_DEPTH 64

enum weir__json_kind {
  WEIR__JSON_NULL = 0,
  WEIR__JSON_FALSE,
  WEIR__JSON_TRUE,
  WEIR__JSON_NUMBER,
  WEIR__JSON_STRING,
  WEIR__JSON_ARRAY,
  WEIR__JSON_OBJECT
};

/* A value, or a key. What an array or object holds follows it, an object's keys before their
 * values. There are a hundred and more for each kibibyte of a document, so they are small. */
struct weir__json_value {
  uint32_t begin : 23; /* its place in the document */
  uint32_t kind : 3;
  bool duplicate : 1; /* a key that its object has had before */
  bool escaped : 1;   /* a string that differs from its text */
  /* Of an array or object: the index behind all that it holds; of an escaped string: its place in
   * `decoded`, where its size precedes it; else its end in the document. */
  uint32_t link;
};

_Static_assert(sizeof(struct weir__json_value) == 8, "it is small");
_Static_assert(WEIR__JSON_MAX_SIZE < (size_t)1 << 23, "`begin` is wide enough");

/* A document. Its values refer to `text`, which is borrowed until weir__json_fini. The root is at
 * index 0. */
struct weir__json {
  const struct weir_allocator *allocator;
  const char *text;
  uint32_t size;
  struct weir__json_value *values;
  uint32_t n_values;
  uint32_t capacity;
  char *decoded; /* NULL: no string has an escape */
  uint32_t n_decoded;
};

/* Text that is not terminated, and may hold zeros. */
struct weir__json_text {
  const char *text;
  size_t size;
};

/* Reads a document; weir__json_fini ends it, also after a failure. WEIR_ERROR_INVALID_POLICY:
 * `fault_out` says what is wrong and where; only then is it written. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__json_init(struct weir__json *json, const char *text,
                                                size_t size, const struct weir_allocator *allocator,
                                                struct weir_diagnostic *fault_out);

void weir__json_fini(struct weir__json *json);

/* A place in a document as people count: lines and columns, in characters, from 1. */
struct weir__json_place {
  size_t at;
  uint32_t line;
  uint32_t column;
};

#define WEIR__JSON_PLACE_INIT \
  { .at = 0, .line = 1, .column = 1 }

/* Moves `place` to `to`, forwards or back. What lies between is read, and going back to another line
 * what is in front of `to` on it: places that are asked for roughly in order cost little. */
void weir__json_place_move(const char *text, struct weir__json_place *place, size_t to);

/* The index of what follows a value and all that it holds. */
static inline uint32_t weir__json_next(const struct weir__json *json, uint32_t index) {
  const struct weir__json_value *value = &json->values[index];
  return value->kind >= WEIR__JSON_ARRAY ? value->link : index + 1;
}

/* A string or a key, with its escapes resolved. */
struct weir__json_text weir__json_string(const struct weir__json *json, uint32_t index);

/* A value as it stands in the document. The end of an array, an object or an escaped string is looked
 * for, so it is nothing to ask of each. */
struct weir__json_text weir__json_source(const struct weir__json *json, uint32_t index);

#endif /* WEIR_SRC_POLICY_JSON_H */
