/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/method_table.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/random.h"

static uint32_t hash_path(const struct weir__method_table *table, const char *path, size_t size) {
  return (uint32_t)weir__hash(&table->secret, path, size);
}

static bool slot_is(const struct weir__method_slot *slot, uint32_t hash, const char *path,
                    size_t path_size) {
  return slot->hash == hash && slot->path_size == path_size &&
         memcmp(slot->path, path, path_size) == 0;
}

/* The slot that has the path, or the free one where it belongs. */
static struct weir__method_slot *find_slot(const struct weir__method_table *table, uint32_t hash,
                                           const char *path, size_t path_size) {
  uint32_t i = hash & (table->n_slots - 1);
  while (table->slots[i].path != NULL && !slot_is(&table->slots[i], hash, path, path_size)) {
    i = (i + 1) & (table->n_slots - 1);
  }
  return &table->slots[i];
}

uint32_t weir__method_table_slots(uint32_t n_entries) {
  uint32_t n_slots = 1;
  if (n_entries == 0) {
    return 0;
  }
  while (n_slots / 2 < n_entries) {
    n_slots *= 2;
  }
  return n_slots;
}

void weir__method_table_init(struct weir__method_table *table, struct weir__method_slot *slots,
                             uint32_t n_slots) {
  *table = (struct weir__method_table){.slots = slots, .n_slots = n_slots};
  weir__hash_secret_init(&table->secret, weir__random_or_default(NULL));
}

uint32_t weir__method_table_find(const struct weir__method_table *table, const char *path,
                                 size_t path_size) {
  if (table->n_slots == 0) {
    return WEIR__METHOD_NONE;
  }
  const struct weir__method_slot *slot =
      find_slot(table, hash_path(table, path, path_size), path, path_size);
  return slot->path != NULL ? slot->entry : WEIR__METHOD_NONE;
}

uint32_t weir__method_table_insert(struct weir__method_table *table, const char *path,
                                   uint32_t path_size, uint32_t entry) {
  const uint32_t hash = hash_path(table, path, path_size);
  struct weir__method_slot *slot = find_slot(table, hash, path, path_size);
  if (slot->path != NULL) {
    return slot->entry;
  }
  *slot = (struct weir__method_slot){
      .path = path, .path_size = path_size, .hash = hash, .entry = entry};
  table->n_taken++;
  return WEIR__METHOD_NONE;
}
