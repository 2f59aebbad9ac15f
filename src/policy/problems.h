/* problems – tells what is wrong with a policy document, and where.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_PROBLEMS_H
#define WEIR_SRC_POLICY_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/error.h>
#include <weir/policy.h>

/* A place in a document, as a list from the innermost key outwards; NULL is the document itself. */
struct weir__path {
  const struct weir__path *parent;
  const char *key; /* NULL: an element of an array */
  size_t key_size;
  size_t index;
};

/* Where problems go, as they are found. */
struct weir__problems {
  const struct weir_policy_load_options *options;
  struct weir_diagnostic *first; /* gets the first that is no warning; may be NULL */
  size_t n_refused;
  size_t n_told; /* warnings too */
};

/* Takes a diagnostic as it is. */
void weir__problems_add(struct weir__problems *problems, enum weir_policy_severity severity,
                        const struct weir_diagnostic *problem);

/* Words one. What does not fit is cut; control characters become question marks. */
__attribute__((format(printf, 4, 5))) void weir__problems_tell(struct weir__problems *problems,
                                                               enum weir_policy_severity severity,
                                                               const struct weir__path *path,
                                                               const char *format, ...);

/* As text: "methodConfig[2].retryPolicy.maxBackoff". */
void weir__path_print(const struct weir__path *path, char *out, size_t out_size);

/* At most `most` bytes of `text`, which is UTF-8, without cutting a character: a length for
 * "%.*s". */
int weir__text_cut(const char *text, size_t size, size_t most);

#endif /* WEIR_SRC_POLICY_PROBLEMS_H */
