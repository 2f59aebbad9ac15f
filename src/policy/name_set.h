/* name_set – the names of methods that a document has had, and where.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_NAME_SET_H
#define WEIR_SRC_POLICY_NAME_SET_H

#include <stdint.h>

#include <weir/v1/policy.upb.h>

#include <weir/allocator.h>

#include "src/base/hash.h"

/* A name in methodConfig[config].name[index]. */
struct weir__named {
  const weir_v1_Name *name; /* borrowed until the set is gone */
  uint32_t config;
  uint32_t index;
};

/* Zeroed but for its allocator at first. */
struct weir__name_set {
  const struct weir_allocator *allocator;
  struct weir__named *names;
  uint32_t n_names;
  uint32_t *slots;  /* indices of names, plus 1; 0 = free */
  uint32_t n_slots; /* a power of two, or 0; at most half of them are taken */
  struct weir__hash_secret secret;
};

void weir__name_set_fini(struct weir__name_set *set);

enum weir__name_set_result { WEIR__NAME_ADDED = 0, WEIR__NAME_FOUND, WEIR__NAME_NO_MEMORY };

/* Adds a name, unless its service and method are there: then that one is written to `first_out`. */
enum weir__name_set_result weir__name_set_add(struct weir__name_set *set,
                                              const struct weir__named *name,
                                              struct weir__named *first_out);

#endif /* WEIR_SRC_POLICY_NAME_SET_H */
