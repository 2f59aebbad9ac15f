/* SPDX-License-Identifier: Apache-2.0 */
#include "src/policy/name_set.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/base/random.h"

#define FIRST_NAMES 16

/* Odd, so that a service's name is not the same as a method's. */
#define SERVICE_FACTOR UINT64_C(0x9e3779b97f4a7c15)

static uint32_t hash_name(const struct weir__name_set *set, const weir_v1_Name *name) {
  const upb_StringView service = weir_v1_Name_service(name);
  const upb_StringView method = weir_v1_Name_method(name);
  const uint64_t service_hash = weir__hash(&set->secret, service.data, service.size);
  const uint64_t method_hash = weir__hash(&set->secret, method.data, method.size);
  return (uint32_t)((service_hash * SERVICE_FACTOR + method_hash) >> 32);
}

static bool is_same_text(upb_StringView a, upb_StringView b) {
  return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool is_same(const weir_v1_Name *a, const weir_v1_Name *b) {
  return is_same_text(weir_v1_Name_service(a), weir_v1_Name_service(b)) &&
         is_same_text(weir_v1_Name_method(a), weir_v1_Name_method(b));
}

/* The slot that has the name, or the free one where it belongs. */
static uint32_t *find_slot(const struct weir__name_set *set, const weir_v1_Name *name) {
  uint32_t i = hash_name(set, name) & (set->n_slots - 1);
  while (set->slots[i] != 0 && !is_same(set->names[set->slots[i] - 1].name, name)) {
    i = (i + 1) & (set->n_slots - 1);
  }
  return &set->slots[i];
}

/* The first time it makes the secret as well. */
static bool grow(struct weir__name_set *set) {
  const uint32_t n_slots = set->n_slots == 0 ? 2 * FIRST_NAMES : set->n_slots * 2;
  struct weir__named *names = weir__zalloc_array(set->allocator, n_slots / 2, sizeof *names);
  uint32_t *slots = weir__zalloc_array(set->allocator, n_slots, sizeof *slots);
  if (names == NULL || slots == NULL) {
    weir__free(set->allocator, names);
    weir__free(set->allocator, slots);
    return false;
  }
  if (set->n_slots == 0) {
    weir__hash_secret_init(&set->secret, weir__random_or_default(NULL));
  } else {
    memcpy(names, set->names, set->n_names * sizeof *names);
  }
  weir__name_set_fini(set);
  set->names = names;
  set->slots = slots;
  set->n_slots = n_slots;
  for (uint32_t i = 0; i < set->n_names; i++) {
    *find_slot(set, set->names[i].name) = i + 1;
  }
  return true;
}

void weir__name_set_fini(struct weir__name_set *set) {
  weir__free(set->allocator, set->names);
  weir__free(set->allocator, set->slots);
  set->names = NULL;
  set->slots = NULL;
}

enum weir__name_set_result weir__name_set_add(struct weir__name_set *set,
                                              const struct weir__named *name,
                                              struct weir__named *first_out) {
  if (set->n_names == set->n_slots / 2 && !grow(set)) {
    return WEIR__NAME_NO_MEMORY;
  }
  uint32_t *slot = find_slot(set, name->name);
  if (*slot != 0) {
    *first_out = set->names[*slot - 1];
    return WEIR__NAME_FOUND;
  }
  set->names[set->n_names++] = *name;
  *slot = set->n_names;
  return WEIR__NAME_ADDED;
}
