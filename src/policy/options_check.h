/* options_check – whether a policy can be made from given options structs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_OPTIONS_CHECK_H
#define WEIR_SRC_POLICY_OPTIONS_CHECK_H

#include <stddef.h>

#include <weir/error.h>
#include <weir/policy.h>

/* The structs that a weir_policy_options points to, copied: what an older program does not know is
 * the default. */
struct weir__policy_parts {
  struct weir_policy_options policy;
  struct weir_deadline_options deadline;
  struct weir_translation_options translation;
  struct weir_breaker_options breaker;
  struct weir_retry_options retry;
  struct weir_fallback_options fallback;
};

/* An entry for methods, likewise. */
struct weir__policy_method {
  struct weir_method_options options; /* `translation` is the program's, to tell it by, or NULL */
  struct weir_translation_options translation; /* if there is one */
  struct weir_fallback_options fallback;       /* likewise, and `options.fallback` to tell it by */
};

/* Copies and checks all but the methods. As weir_policy_new; `diagnostic` may be NULL. */
WEIR_MUST_CHECK enum weir_error weir__policy_parts_init(struct weir__policy_parts *parts,
                                                        const struct weir_policy_options *options,
                                                        struct weir_diagnostic *diagnostic);

/* Copies and checks the `i`th method. */
WEIR_MUST_CHECK enum weir_error weir__policy_parts_method(const struct weir__policy_parts *parts,
                                                          size_t i,
                                                          struct weir__policy_method *method_out,
                                                          struct weir_diagnostic *diagnostic);

/* Fills a diagnostic, if there is one, and returns WEIR_ERROR_INVALID_ARGUMENT. */
__attribute__((format(printf, 3, 4))) enum weir_error
weir__policy_refuse(struct weir_diagnostic *diagnostic, const char *message,
                    const char *path_format, ...);

#endif /* WEIR_SRC_POLICY_OPTIONS_CHECK_H */
