/* method_table – finds an entry by the path of a method, in the same time whatever the number of
 * entries.
 *
 * Others choose the paths that are looked for, so the hash has a secret.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_POLICY_METHOD_TABLE_H
#define WEIR_SRC_POLICY_METHOD_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/hash.h"

/* No entry. */
#define WEIR__METHOD_NONE UINT32_MAX

struct weir__method_slot {
  const char *path; /* NULL: free */
  uint32_t path_size;
  uint32_t hash;
  uint32_t entry;
};

/* Open addressing; at most half of the slots are taken, so a look-up ends after a few. Paths are
 * "/service/method", and "/service/" for the whole service. */
struct weir__method_table {
  struct weir__method_slot *slots; /* the owner's, zeroed at first */
  uint32_t n_slots;                /* a power of two, or 0 */
  uint32_t n_taken;
  struct weir__hash_secret secret;
};

/* A table without entries; `slots` are zeroed. */
void weir__method_table_init(struct weir__method_table *table, struct weir__method_slot *slots,
                             uint32_t n_slots);

/* How many slots `n_entries` want. */
uint32_t weir__method_table_slots(uint32_t n_entries);

uint32_t weir__method_table_find(const struct weir__method_table *table, const char *path,
                                 size_t path_size);

/* Puts an entry in, unless the path has one: that one is the answer, else WEIR__METHOD_NONE. There
 * must be a free slot. `path` is borrowed until the table is gone. */
uint32_t weir__method_table_insert(struct weir__method_table *table, const char *path,
                                   uint32_t path_size, uint32_t entry);

#endif /* WEIR_SRC_POLICY_METHOD_TABLE_H */
