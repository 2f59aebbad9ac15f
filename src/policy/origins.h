/* origins – where the values of a policy's message stand in the documents that it was made of.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_ORIGINS_H
#define WEIR_SRC_POLICY_ORIGINS_H

#include <stdbool.h>
#include <stdint.h>

#include <upb/def.h>
#include <upb/reflection.h>

#include <weir/allocator.h>

enum weir__origin_kind {
  WEIR__ORIGIN_BUILT_IN = 0,
  WEIR__ORIGIN_CHANNEL,
  WEIR__ORIGIN_ORGANISATION, /* its default */
  WEIR__ORIGIN_CEILING,      /* its ceiling, lower than what the channel says */
  WEIR__ORIGIN_ENFORCED
};

struct weir__origin {
  enum weir__origin_kind kind;
  uint32_t line; /* in the document of that kind; 0 = made in code, or built in */
  uint32_t column;
};

/* Of what a value is: a field of a message; of lists and of codes, also what they hold. */
struct weir__origin_key {
  const upb_Message *message;
  const upb_FieldDef *field;
  uint32_t element; /* WEIR__ORIGIN_WHOLE, or 1 and more: the index of an element, or a code */
};

#define WEIR__ORIGIN_WHOLE 0

/* The key of an element of a list, or of what a code becomes. */
static inline struct weir__origin_key
weir__origin_key_of(const upb_Message *message, const upb_FieldDef *field, uint32_t index) {
  return (struct weir__origin_key){.message = message, .field = field, .element = index + 1};
}

struct weir__origin_slot {
  struct weir__origin_key key; /* message NULL: free */
  struct weir__origin origin;
};

/* A hash table; zeroed but for the first two at first. */
struct weir__origins {
  const struct weir_allocator *allocator;
  bool unwanted; /* nothing is put in */
  struct weir__origin_slot *slots;
  uint32_t n_slots; /* a power of two, or 0 */
  uint32_t n_taken;
};

void weir__origins_fini(struct weir__origins *origins);

/* Puts one in, over what the key had. False: there is no memory. */
bool weir__origins_put(struct weir__origins *origins, struct weir__origin_key key,
                       struct weir__origin origin);

/* WEIR__ORIGIN_BUILT_IN for what has none. */
struct weir__origin weir__origins_get(const struct weir__origins *origins,
                                      struct weir__origin_key key);

#endif /* WEIR_SRC_POLICY_ORIGINS_H */
