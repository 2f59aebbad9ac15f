/* policy_options – a policy document's message as the options structs that a policy is made from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_POLICY_OPTIONS_H
#define WEIR_SRC_POLICY_POLICY_OPTIONS_H

#include <weir/error.h>
#include <weir/policy.h>
#include <weir/v1/policy.upb.h>

#include "src/policy/document.h"
#include "src/policy/options_check.h"

/* A throttle's numbers are in thousandths of a token. */
#define WEIR__TOKEN_MILLI 1000

/* Room for a list of texts, which are the document's. */
struct weir__policy_list {
  const char **items;
  size_t length;
};

struct weir__policy_kept {
  struct weir__policy_list metadata;
  struct weir__policy_list details;
};

struct weir__policy_own_translation {
  struct weir_translation_options options;
  struct weir__policy_kept kept;
};

/* Where the methods have got to. */
struct weir__policy_cursor {
  size_t next_config;
  const weir_v1_Name *const *names; /* of the entry before it */
  size_t n_names;
  size_t first;                      /* how many methods come before these */
  struct weir_method_options method; /* without its name */
};

/* The options of a whole policy; `policy` points to the others and into the document. Its methods
 * are not an array: ten thousand would take as much as the document itself. */
struct weir__policy_options {
  struct weir_policy_options policy;
  struct weir__policy_methods methods;
  struct weir_deadline_options deadline;
  struct weir_translation_options translation;
  struct weir_breaker_options breaker;
  struct weir_retry_options retry;
  struct weir_fallback_options fallback;
  /* what the methods are made from, and of */
  upb_Arena *arena;
  const weir_v1_MethodConfig *const *configs;
  struct weir__policy_kept kept;
  struct weir__policy_own_translation own_translations[2];
  struct weir_fallback_options own_fallbacks[2];
  size_t n_own_translations;
  size_t n_own_fallbacks;
  struct weir__policy_cursor cursor;
};

/* `options` stays where it is, and what it gets lives as long as the document, which had no
 * problems. WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__policy_options_init(struct weir__policy_options *options,
                                                          const struct weir__document *document);

/* NULL is a breaker that has no key. */
void weir__policy_options_breaker(struct weir_breaker_options *options,
                                  const weir_v1_Breaker *breaker);

/* The default where a duration is not given. */
int64_t weir__policy_options_ns(const struct google_protobuf_Duration *duration,
                                int64_t otherwise_ns);

#endif /* WEIR_SRC_POLICY_POLICY_OPTIONS_H */
