/* document – a policy document, read into the message that policy.proto defines.
 *
 * The schema is the only list of keys and types: upb's reflection leads the reading. What no schema
 * can say, ranges and what goes together, is in document_rules.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_DOCUMENT_H
#define WEIR_SRC_POLICY_DOCUMENT_H

#include <stddef.h>

#include <upb/arena.h>
#include <upb/def.h>
#include <weir/v1/policy.upb.h>

#include <weir/allocator.h>
#include <weir/error.h>

#include "src/policy/problems.h"

/* upb's arena over a weir_allocator. */
struct weir__document_memory {
  upb_alloc base;
  const struct weir_allocator *allocator;
};

/* Strings of the message are terminated. */
struct weir__document {
  struct weir__document_memory memory;
  upb_Arena *arena;
  upb_DefPool *schema;
  weir_v1_Policy *policy;
  /* what is only passed on, as the core wants it; NULL = nothing */
  const char *core_service_config;
};

/* Reads a document and tells all its problems; weir__document_fini ends it, also after a failure.
 * `document` stays where it is until then. WEIR_ERROR_INVALID_POLICY: there were problems.
 * WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__document_init(struct weir__document *document,
                                                    const char *text, size_t size,
                                                    const struct weir_allocator *allocator,
                                                    struct weir__problems *problems);

void weir__document_fini(struct weir__document *document);

#endif /* WEIR_SRC_POLICY_DOCUMENT_H */
