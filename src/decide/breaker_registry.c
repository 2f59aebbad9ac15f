/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_registry.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "src/base/allocator.h"

/* Chains lengthen beyond that many breakers; nobody sets such a bound to reach it. */
#define MAX_CHAINS 65536

/* Odd constants with well-mixed bits: the golden ratio's, and the square root of 3's. */
#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15)
#define HASH_FINISH UINT64_C(0xbb67ae8584caa73b)

/* Never changed or removed once it can be found. */
struct weir__breaker_entry {
  struct weir__breaker_entry *next;
  uint64_t hash;
  size_t key_size;
  const char *key;
  weir_breaker breaker; /* with what belongs to it, and then the key */
};

struct key {
  const char *text;
  size_t size;
  uint64_t hash;
};

static uint64_t hash_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * HASH_FACTOR;
  return hash ^ (hash >> 29);
}

static uint64_t hash_bytes(uint64_t seed, const char *bytes, size_t size) {
  uint64_t hash = hash_mix(seed, size);
  uint64_t word = 0;
  for (; size >= sizeof word; bytes += sizeof word, size -= sizeof word) {
    memcpy(&word, bytes, sizeof word);
    hash = hash_mix(hash, word);
  }
  word = 0;
  memcpy(&word, bytes, size);
  hash = hash_mix(hash, word) * HASH_FINISH;
  return hash ^ (hash >> 32);
}

/* A path, or what stands before its last slash: "/pkg.Service". One without a second slash is its
 * own service. */
static struct key key_of(const struct weir__breaker_registry *registry, const char *path,
                         size_t path_size) {
  size_t size = path_size;
  if (registry->rules.options.scope == WEIR_BREAKER_SCOPE_SERVICE) {
    while (size > 0 && path[size - 1] != '/') {
      size--;
    }
    size = size > 1 ? size - 1 : path_size;
  }
  return (struct key){path, size, hash_bytes(registry->seed, path, size)};
}

/* Acquire, with the release in entry_publish: an entry that is found is whole. */
static struct weir__breaker_entry *entry_find(const struct weir__breaker_registry *registry,
                                              const struct key *key) {
  struct weir__breaker_entry *entry = atomic_load_explicit(
      &registry->chains[key->hash & registry->chain_mask].first, memory_order_acquire);
  while (entry != NULL && (entry->hash != key->hash || entry->key_size != key->size ||
                           memcmp(entry->key, key->text, key->size) != 0)) {
    entry = entry->next;
  }
  return entry;
}

static void entry_publish(struct weir__breaker_registry *registry,
                          struct weir__breaker_entry *entry) {
  struct weir__breaker_entry *_Atomic *head =
      &registry->chains[entry->hash & registry->chain_mask].first;
  entry->next = atomic_load_explicit(head, memory_order_relaxed); /* writers hold the mutex */
  atomic_store_explicit(head, entry, memory_order_release);
}

static struct weir__breaker_entry *entry_new(const struct weir__breaker_registry *registry,
                                             const struct key *key) {
  struct weir__breaker_entry *entry = NULL;
  size_t n_bytes =
      offsetof(struct weir__breaker_entry, breaker) + weir__breaker_bytes(&registry->rules);
  if (key->size <= SIZE_MAX - n_bytes) {
    entry = weir__zalloc(registry->allocator, n_bytes + key->size);
  }
  if (entry == NULL) {
    return NULL;
  }
  weir__breaker_init(&entry->breaker, &registry->rules);
  entry->hash = key->hash;
  entry->key_size = key->size;
  memcpy((char *)entry + n_bytes, key->text, key->size);
  entry->key = (char *)entry + n_bytes;
  return entry;
}

/* Acquire, with the release in insert_locked: who sees the bound reached finds every entry
 * afterwards. A full registry stays so. */
static bool is_full(const struct weir__breaker_registry *registry) {
  return atomic_load_explicit(&registry->n_breakers, memory_order_acquire) >=
         registry->rules.options.max_breakers;
}

static struct weir__breaker_entry *insert_locked(struct weir__breaker_registry *registry,
                                                 const struct key *key) {
  struct weir__breaker_entry *entry = entry_find(registry, key);
  if (entry != NULL || is_full(registry)) {
    return entry;
  }
  entry = entry_new(registry, key);
  if (entry != NULL) {
    entry_publish(registry, entry);
    atomic_fetch_add_explicit(&registry->n_breakers, 1, memory_order_release);
  }
  return entry;
}

weir_breaker *weir__breaker_registry_enter(struct weir__breaker_registry *registry,
                                           const char *path, size_t path_size) {
  if (registry->chains == NULL) {
    return registry->shared;
  }
  struct key key = key_of(registry, path, path_size);
  bool full = is_full(registry); /* before the search: the last breaker may just be coming */
  struct weir__breaker_entry *entry = entry_find(registry, &key);
  if (entry == NULL && !full) {
    (void)pthread_mutex_lock(&registry->insertion);
    entry = insert_locked(registry, &key);
    (void)pthread_mutex_unlock(&registry->insertion);
  }
  if (entry == NULL) {
    atomic_fetch_add_explicit(&registry->n_overflowed, 1, memory_order_relaxed); /* a statistic */
    return registry->shared;
  }
  return &entry->breaker;
}

const weir_breaker *weir__breaker_registry_find(const struct weir__breaker_registry *registry,
                                                const char *path, size_t path_size) {
  if (registry->chains == NULL) {
    return registry->shared;
  }
  struct key key = key_of(registry, path, path_size);
  bool full = is_full(registry); /* as in weir__breaker_registry_enter */
  const struct weir__breaker_entry *entry = entry_find(registry, &key);
  if (entry != NULL) {
    return &entry->breaker;
  }
  return full ? registry->shared : NULL;
}

uint64_t weir__breaker_registry_n_overflowed(const struct weir__breaker_registry *registry) {
  return atomic_load_explicit(&registry->n_overflowed, memory_order_relaxed); /* a statistic */
}

uint32_t weir__breaker_registry_n_breakers(const struct weir__breaker_registry *registry) {
  return atomic_load_explicit(&registry->n_breakers, memory_order_relaxed); /* a statistic */
}

static bool chains_init(struct weir__breaker_registry *registry) {
  uint64_t n_chains = 1;
  while (n_chains < registry->rules.options.max_breakers && n_chains < MAX_CHAINS) {
    n_chains *= 2;
  }
  registry->chain_mask = n_chains - 1;
  registry->chains = weir__zalloc_array(registry->allocator, n_chains, sizeof *registry->chains);
  return registry->chains != NULL;
}

static weir_breaker *shared_new(const struct weir__breaker_registry *registry) {
  weir_breaker *shared = weir__zalloc(registry->allocator, weir__breaker_bytes(&registry->rules));
  if (shared == NULL) {
    return NULL;
  }
  weir__breaker_init(shared, &registry->rules);
  if (registry->rules.options.scope == WEIR_BREAKER_SCOPE_CHANNEL) {
    (void)weir__breaker_spread(shared); /* without memory one stripe has to do */
  }
  return shared;
}

enum weir_error weir__breaker_registry_init(struct weir__breaker_registry *registry,
                                            const struct weir_breaker_options *options,
                                            const struct weir_allocator *allocator) {
  memset(registry, 0, sizeof *registry);
  weir__breaker_rules_init(&registry->rules, options, allocator);
  registry->allocator = allocator;
  registry->seed = (uint64_t)(uintptr_t)registry; /* not the same in every process */
  if (options->scope != WEIR_BREAKER_SCOPE_CHANNEL && !chains_init(registry)) {
    return WEIR_ERROR_NO_MEMORY;
  }
  registry->shared = shared_new(registry);
  if (registry->shared == NULL) {
    goto fail_chains;
  }
  if (pthread_mutex_init(&registry->insertion, NULL) != 0) {
    goto fail_shared;
  }
  return WEIR_OK;

fail_shared:
  weir__breaker_fini(registry->shared);
  weir__free(allocator, registry->shared);
fail_chains:
  weir__free(allocator, registry->chains);
  return WEIR_ERROR_NO_MEMORY;
}

void weir__breaker_registry_fini(struct weir__breaker_registry *registry) {
  for (uint64_t i = 0; registry->chains != NULL && i <= registry->chain_mask; i++) {
    /* Relaxed: whoever ends the registry has seen its calls end. */
    struct weir__breaker_entry *entry =
        atomic_load_explicit(&registry->chains[i].first, memory_order_relaxed);
    while (entry != NULL) {
      struct weir__breaker_entry *next = entry->next;
      weir__breaker_fini(&entry->breaker);
      weir__free(registry->allocator, entry);
      entry = next;
    }
  }
  (void)pthread_mutex_destroy(&registry->insertion);
  weir__breaker_fini(registry->shared);
  weir__free(registry->allocator, registry->shared);
  weir__free(registry->allocator, registry->chains);
}
