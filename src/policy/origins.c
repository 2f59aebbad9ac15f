/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/origins.h"

#include "src/base/allocator.h"

#define FIRST_SLOTS 64

/* Odd, and without a pattern: the golden ratio in 64 bits. */
#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

static uint32_t hash_key(struct weir__origin_key key) {
  uint64_t hash = ((uintptr_t)key.message ^ key.element) * MULTIPLIER;
  hash = (hash ^ hash >> 32 ^ (uintptr_t)key.field) * MULTIPLIER;
  return (uint32_t)(hash >> 32);
}

static bool keys_are_equal(struct weir__origin_key a, struct weir__origin_key b) {
  return a.message == b.message && a.field == b.field && a.element == b.element;
}

/* The slot that has the key, or the free one where it belongs. */
static struct weir__origin_slot *find_slot(const struct weir__origins *origins,
                                           struct weir__origin_key key) {
  uint32_t i = hash_key(key) & (origins->n_slots - 1);
  while (origins->slots[i].key.message != NULL && !keys_are_equal(origins->slots[i].key, key)) {
    i = (i + 1) & (origins->n_slots - 1);
  }
  return &origins->slots[i];
}

static bool grow(struct weir__origins *origins) {
  struct weir__origins larger = {.allocator = origins->allocator, .n_taken = origins->n_taken};
  larger.n_slots = origins->n_slots == 0 ? FIRST_SLOTS : origins->n_slots * 2;
  larger.slots = weir__zalloc_array(origins->allocator, larger.n_slots, sizeof *larger.slots);
  if (larger.slots == NULL) {
    return false;
  }
  for (uint32_t i = 0; i < origins->n_slots; i++) {
    if (origins->slots[i].key.message != NULL) {
      *find_slot(&larger, origins->slots[i].key) = origins->slots[i];
    }
  }
  weir__free(origins->allocator, origins->slots);
  *origins = larger;
  return true;
}

void weir__origins_fini(struct weir__origins *origins) {
  weir__free(origins->allocator, origins->slots);
  origins->slots = NULL;
  origins->n_slots = 0;
  origins->n_taken = 0;
}

bool weir__origins_put(struct weir__origins *origins, struct weir__origin_key key,
                       struct weir__origin origin) {
  if (origins->unwanted) {
    return true;
  }
  if (origins->n_taken >= origins->n_slots / 2 && !grow(origins)) {
    return false;
  }
  struct weir__origin_slot *slot = find_slot(origins, key);
  origins->n_taken += slot->key.message == NULL ? 1 : 0;
  *slot = (struct weir__origin_slot){.key = key, .origin = origin};
  return true;
}

struct weir__origin weir__origins_get(const struct weir__origins *origins,
                                      struct weir__origin_key key) {
  if (origins->n_slots == 0) {
    return (struct weir__origin){.kind = WEIR__ORIGIN_BUILT_IN};
  }
  return find_slot(origins, key)->origin; /* a free slot is zeroed */
}
