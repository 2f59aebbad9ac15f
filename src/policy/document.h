/* document – a policy document, read into the message that policy.proto defines.
 *
 * The schema is the only list of keys and types: upb's reflection leads the reading. What no schema
 * can say, ranges and what goes together, is in document_rules.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_DOCUMENT_H
#define WEIR_SRC_POLICY_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <upb/arena.h>
#include <upb/def.h>
#include <weir/v1/policy.upb.h>

#include <weir/allocator.h>
#include <weir/error.h>

#include "src/policy/origins.h"
#include "src/policy/passed_on.h"
#include "src/policy/problems.h"

/* upb's arena over a weir_allocator. */
struct weir__document_memory {
  upb_alloc base;
  const struct weir_allocator *allocator;
};

/* `memory` stays where it is until the arena is freed. NULL: there is none. */
upb_Arena *weir__document_arena(struct weir__document_memory *memory,
                                const struct weir_allocator *allocator);

/* Makes room for a map: upb_Map_New does not look whether its table could be allocated. False:
 * there is no memory. */
bool weir__document_reserve_map(upb_Arena *arena);

/* As upb_Arena_Malloc, but without ever larger blocks. */
void *weir__document_allocate(upb_Arena *arena, size_t size);

/* Strings of the message are terminated. */
struct weir__document {
  struct weir__document_memory memory;
  upb_Arena *arena;
  upb_DefPool *schema;
  bool schema_is_borrowed;
  weir_v1_Policy *policy;
  /* what is only passed on, as the core wants it; NULL = nothing */
  const char *core_service_config;
  /* the same as it stands in the document's text, and what stands under `enforce` */
  struct weir__passed_on passed_on;
  struct weir__passed_on enforced_passed_on;
};

/* Reads a document and tells all its problems; weir__document_fini ends it, also after a failure.
 * `document` stays where it is until then. WEIR_ERROR_INVALID_POLICY: there were problems.
 * WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__document_init(struct weir__document *document,
                                                    const char *text, size_t size,
                                                    const struct weir_allocator *allocator,
                                                    struct weir__problems *problems);

/* What a reading is asked for beyond the message. */
struct weir__document_reading {
  upb_DefPool *schema; /* borrowed until weir__document_fini; NULL = one of the document's own */
  /* where the values' places go, but for those in lists that were refused; NULL = nowhere */
  struct weir__origins *origins;
  enum weir__origin_kind kind; /* of what is not enforced */
  bool only_if_enforcing;      /* places are wanted of a document that enforces something */
  bool is_layer; /* no word of what is above a ceiling: the ceilings of all are not known yet */
};

/* As weir__document_init. */
WEIR_MUST_CHECK enum weir_error weir__document_read(struct weir__document *document,
                                                    const char *text, size_t size,
                                                    const struct weir__document_reading *reading,
                                                    const struct weir_allocator *allocator,
                                                    struct weir__problems *problems);

void weir__document_fini(struct weir__document *document);

#endif /* WEIR_SRC_POLICY_DOCUMENT_H */
