/* policy_options – a policy document's message as the options structs that a policy is made from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_POLICY_OPTIONS_H
#define WEIR_SRC_POLICY_POLICY_OPTIONS_H

#include <weir/error.h>
#include <weir/policy.h>
#include <weir/v1/policy.upb.h>

#include "src/policy/document.h"

/* A throttle's numbers are in thousandths of a token. */
#define WEIR__TOKEN_MILLI 1000

/* The options of a whole policy; `policy` points to the others and into the document. */
struct weir__policy_options {
  struct weir_policy_options policy;
  struct weir_deadline_options deadline;
  struct weir_translation_options translation;
  struct weir_breaker_options breaker;
  struct weir_retry_options retry;
  struct weir_fallback_options fallback;
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
