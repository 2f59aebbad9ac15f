/* options_check – whether a policy can be made from given options structs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_OPTIONS_CHECK_H
#define WEIR_SRC_POLICY_OPTIONS_CHECK_H

#include <stddef.h>

#include <weir/error.h>
#include <weir/policy.h>

/* Methods that are no array. */
struct weir__policy_methods {
  size_t n_methods;
  /* Tells the `nth`, which are asked for in order, perhaps several times from the first on. What it
   * points to is good for this one and the next: a translation, or a fallback, of both is the same
   * one, or stands elsewhere. WEIR_ERROR_NO_MEMORY. */
  enum weir_error (*next)(void *context, size_t nth, struct weir_method_options *method_out);
  void *context;
};

/* The structs that a weir_policy_options points to, copied: what an older program does not know is
 * the default. */
struct weir__policy_parts {
  struct weir_policy_options policy;
  const struct weir__policy_methods *methods; /* NULL: they are the policy's */
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

/* Copies and checks all but the methods, which are those of the options if `methods` is NULL. As
 * weir_policy_new; `diagnostic` may be NULL. */
WEIR_MUST_CHECK enum weir_error weir__policy_parts_init(struct weir__policy_parts *parts,
                                                        const struct weir_policy_options *options,
                                                        const struct weir__policy_methods *methods,
                                                        struct weir_diagnostic *diagnostic);

size_t weir__policy_parts_n_methods(const struct weir__policy_parts *parts);

/* Copies and checks the `i`th method; they are asked for in order. WEIR_ERROR_INVALID_ARGUMENT,
 * WEIR_ERROR_UNSUPPORTED, WEIR_ERROR_NO_MEMORY. */
WEIR_MUST_CHECK enum weir_error weir__policy_parts_method(const struct weir__policy_parts *parts,
                                                          size_t i,
                                                          struct weir__policy_method *method_out,
                                                          struct weir_diagnostic *diagnostic);

/* Fills a diagnostic, if there is one, and returns WEIR_ERROR_INVALID_ARGUMENT. */
__attribute__((format(printf, 3, 4))) enum weir_error
weir__policy_refuse(struct weir_diagnostic *diagnostic, const char *message,
                    const char *path_format, ...);

#endif /* WEIR_SRC_POLICY_OPTIONS_CHECK_H */
