/* passed_on – what weir only hands on to the core: the keys of a policy, and their text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_PASSED_ON_H
#define WEIR_SRC_POLICY_PASSED_ON_H

#include <stdbool.h>
#include <stddef.h>

#include <upb/arena.h>

#include "src/policy/json.h"

enum weir__passed_on_index {
  WEIR__PASSED_ON_POLICY = 0, /* loadBalancingPolicy */
  WEIR__PASSED_ON_CONFIG,     /* loadBalancingConfig */
  WEIR__PASSED_ON_HEALTH_CHECK,
  WEIR__N_PASSED_ON
};

/* The fields of the schema and their keys, in this order. */
extern const char *const weir__passed_on_fields[WEIR__N_PASSED_ON];
extern const char *const weir__passed_on_keys[WEIR__N_PASSED_ON];

/* The values as they stand in a document; a text that is NULL is none. */
struct weir__passed_on {
  struct weir__json_text values[WEIR__N_PASSED_ON];
  /* members of an object that are no keys of ours, with their commas; none in a document */
  struct weir__json_text others;
};

/* A terminated JSON object with what there is, or NULL in `text_out` for nothing. False: there is
 * no memory. */
bool weir__passed_on_print(const struct weir__passed_on *passed_on, upb_Arena *arena,
                           const char **text_out);

#endif /* WEIR_SRC_POLICY_PASSED_ON_H */
