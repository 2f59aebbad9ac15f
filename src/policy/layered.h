/* layered – an organisation's and a channel's document as one, and where each value comes from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_LAYERED_H
#define WEIR_SRC_POLICY_LAYERED_H

#include <stdbool.h>
#include <stddef.h>

#include <upb/def.h>
#include <upb/reflection.h>
#include <weir/v1/policy.upb.h>

#include <weir/allocator.h>
#include <weir/error.h>
#include <weir/policy.h>

#include "src/policy/document.h"
#include "src/policy/origins.h"
#include "src/policy/problems.h"

/* A document before it is read. */
struct weir__policy_text {
  /* instead of a text: counts as a document that says what differs from the defaults; borrowed
   * likewise */
  const weir_policy *made_in_code;
  const char *text;
  size_t size;
  const char *file_name; /* for messages; NULL = unknown */
  bool lenient;          /* unknown keys are warnings, whatever the load's options say */
};

/* Stays where it is between weir__layered_init and weir__layered_fini. */
struct weir__layered {
  /* what both say, nothing filled in from the defaults; part of it belongs to the documents */
  const weir_v1_Policy *policy;
  upb_DefPool *schema;
  struct weir__document organisation; /* empty when there is none */
  struct weir__document channel;
  struct weir__document merged; /* empty when the channel's is the whole */
  const struct weir__document *whole;
  struct weir__origins origins;
};

/* Reads the documents, lays them over each other, and tells all problems; weir__layered_fini ends
 * it, also after a failure. `organisation` may be NULL: then the channel's own `enforce` holds over
 * what else it says. The texts are borrowed until weir__layered_fini.
 * WEIR_ERROR_INVALID_POLICY: there were problems. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__layered_init(struct weir__layered *layered,
                                                   const struct weir__policy_text *organisation,
                                                   const struct weir__policy_text *channel,
                                                   const struct weir_allocator *allocator,
                                                   struct weir__problems *problems);

/* As weir__layered_init, but where values stand is kept only if it is needed for what is told: it
 * costs most documents no memory. */
WEIR_MUST_CHECK enum weir_error weir__layered_load(struct weir__layered *layered,
                                                   const struct weir__policy_text *organisation,
                                                   const struct weir__policy_text *channel,
                                                   const struct weir_allocator *allocator,
                                                   struct weir__problems *problems);

void weir__layered_fini(struct weir__layered *layered);

/* Where a field of a message that is part of `layered->policy` has its value from: a message's is
 * where its object begins, a list's where the list does. */
struct weir__origin weir__layered_origin(const struct weir__layered *layered,
                                         const upb_Message *message, const upb_FieldDef *field);

/* Likewise of an element of a list, and of what a code becomes (`index` is the code). */
struct weir__origin weir__layered_element_origin(const struct weir__layered *layered,
                                                 const upb_Message *message,
                                                 const upb_FieldDef *field, uint32_t index);

#endif /* WEIR_SRC_POLICY_LAYERED_H */
