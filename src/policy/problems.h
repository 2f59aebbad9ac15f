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

#include "src/policy/json.h"

/* A place in a document, as a list from the innermost key outwards; NULL is the document itself. */
struct weir__path {
  const struct weir__path *parent;
  const char *key; /* NULL: an element of an array */
  size_t key_size;
  size_t index;
  size_t at; /* in the text, plus 1; 0 = it does not stand there, so the place is the parent's */
};

/* Where problems go, as they are found. */
struct weir__problems {
  const struct weir_policy_load_options *options;
  struct weir_diagnostic *first; /* gets the first that is no warning; may be NULL */
  size_t n_refused;
  size_t n_told; /* warnings too */
  /* What the paths of those to come lead through; NULL = no text. Set by weir__problems_read. */
  const char *text;
  size_t size;
  struct weir__json_place place; /* of the last one */
};

/* Those to come are about this document, which is borrowed as long as they come. */
void weir__problems_read(struct weir__problems *problems, const char *text, size_t size);

/* Takes a diagnostic as it is. */
void weir__problems_add(struct weir__problems *problems, enum weir_policy_severity severity,
                        const struct weir_diagnostic *problem);

/* Words one, and finds its line and column. What does not fit is cut; control characters become
 * question marks. */
__attribute__((format(printf, 4, 5))) void weir__problems_tell(struct weir__problems *problems,
                                                               enum weir_policy_severity severity,
                                                               const struct weir__path *path,
                                                               const char *format, ...);

/* Words a diagnostic that is about no place, as weir__problems_tell does. NULL is allowed. */
__attribute__((format(printf, 2, 3))) void weir__diagnostic_word(struct weir_diagnostic *diagnostic,
                                                                 const char *format, ...);

/* As text: "methodConfig[2].retryPolicy.maxBackoff". */
void weir__path_print(const struct weir__path *path, char *out, size_t out_size);

/* At most `most` bytes of `text`, which is UTF-8, without cutting a character: a length for
 * "%.*s". */
int weir__text_cut(const char *text, size_t size, size_t most);

/* Ends a text that was cut to `size` at a whole character, and takes what would break a line or a
 * terminal out of it. */
void weir__text_make_printable(char *text, size_t size, bool cut);

#endif /* WEIR_SRC_POLICY_PROBLEMS_H */
