/* policy_source – the text that a policy was read from, shared by what is made of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_POLICY_SOURCE_H
#define WEIR_SRC_POLICY_POLICY_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/policy.h>

struct weir__policy_source {
  const struct weir_allocator *allocator;
  _Atomic uint32_t n_shares;
  char *text; /* not terminated */
  size_t size;
  const char *file_name; /* NULL: unknown */
  bool lenient;          /* it was read so */
};

/* With one share, which is the caller's. `text` is taken over if it succeeds, and must be of
 * `allocator`; `file_name` is copied, and may be NULL. NULL: there is no memory. */
struct weir__policy_source *weir__policy_source_new(char *text, size_t size, const char *file_name,
                                                    const struct weir_allocator *allocator);

struct weir__policy_source *weir__policy_source_ref(struct weir__policy_source *source);

/* NULL is allowed. */
void weir__policy_source_unref(struct weir__policy_source *source);

/* The documents that a policy was made of. */
struct weir__policy_sources {
  struct weir__policy_source *own;          /* NULL: made in code */
  struct weir__policy_source *organisation; /* NULL: made in code, or not layered */
  bool layered;                             /* made of two policies */
};

/* Gives a new policy, that is nobody else's yet, its sources; it takes shares of its own. */
void weir__policy_set_sources(weir_policy *policy, const struct weir__policy_sources *sources);

/* Borrowed until the caller's share of `policy` ends. Any thread. */
const struct weir__policy_sources *weir__policy_sources_of(const weir_policy *policy);

#endif /* WEIR_SRC_POLICY_POLICY_SOURCE_H */
