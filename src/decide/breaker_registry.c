/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_registry.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/base/random.h"
#include "src/decide/breaker_window.h"
#include "src/time/instant.h"

/* Chains lengthen beyond that many breakers; nobody sets such a bound to reach it. */
#define MAX_CHAINS 65536

/* How many entries one call looks at for one to take over. */
#define LOOKS 4

/* How often a look-up that came to nothing is repeated because an entry was on its way. */
#define FIND_TURNS 4

/* Known keys that look-ups are made for where nobody has said how many there will be. */
#define EXPECTED_KNOWN 1024

/* An unknown entry has room for a name of that size at least: it may come to another key. */
#define MIN_NAME_BYTES 32

_Static_assert(WEIR__BREAKER_NAME_BYTES <= UINT8_MAX, "name_capacity is wide enough");

struct known_entry {
  struct weir__breaker_entry base;
  char key[];
};

/* Behind the name, there is the breaker. */
struct unknown_entry {
  struct weir__breaker_entry base;
  int64_t taken_at_ns; /* when it became this key's */
  char name[];         /* only to be told: the hash says whose it is */
};

struct key {
  const char *text;
  size_t size;
  uint64_t hash;
};

static struct known_entry *known_of(struct weir__breaker_entry *entry) {
  return WEIR__CONTAINER_OF(entry, struct known_entry, base);
}

static struct unknown_entry *unknown_of(struct weir__breaker_entry *entry) {
  return WEIR__CONTAINER_OF(entry, struct unknown_entry, base);
}

/* --- keys --- */

size_t weir__breaker_registry_key_size(const struct weir__breaker_registry *registry,
                                       const char *path, size_t path_size) {
  size_t size = path_size;
  if (registry->rules.scope == WEIR_BREAKER_SCOPE_SERVICE) {
    while (size > 0 && path[size - 1] != '/') {
      size--;
    }
    size = size > 1 ? size - 1 : path_size; /* one without a second slash is its own service */
  }
  return size;
}

static struct key key_of(const struct weir__breaker_registry *registry, const char *path,
                         size_t path_size) {
  size_t size = weir__breaker_registry_key_size(registry, path, path_size);
  uint64_t hash = weir__hash(&registry->secret, path, size);
  return (struct key){path, size, hash != 0 ? hash : 1};
}

static bool has_keys(const struct weir__breaker_registry *registry) {
  /* relaxed: it is one or the other from the registry's start on */
  return atomic_load_explicit(&registry->known, memory_order_relaxed) != NULL;
}

/* --- looking up --- */

/* Acquire, here and with `first`, `next`, `hash` and `breaker`: pairs with the release of whoever
 * has put it there, so what is found is whole. */
static struct weir__breaker_entry *_Atomic *
chain_of(struct weir__breaker_chains *const _Atomic *where, uint64_t hash) {
  struct weir__breaker_chains *chains = atomic_load_explicit(where, memory_order_acquire);
  return &chains->first[hash & chains->mask];
}

static struct weir__breaker_entry *chain_first(struct weir__breaker_chains *const _Atomic *chains,
                                               uint64_t hash) {
  return atomic_load_explicit(chain_of(chains, hash), memory_order_acquire);
}

static struct weir__breaker_entry *chain_next(const struct weir__breaker_entry *entry) {
  return atomic_load_explicit(&entry->next, memory_order_acquire);
}

static uint64_t entry_hash(const struct weir__breaker_entry *entry) {
  return atomic_load_explicit(&entry->hash, memory_order_acquire);
}

static bool is_known_key(struct weir__breaker_entry *entry, const struct key *key) {
  return entry_hash(entry) == key->hash && entry->name_size == key->size &&
         memcmp(known_of(entry)->key, key->text, key->size) == 0;
}

static struct weir__breaker_entry *known_find(const struct weir__breaker_registry *registry,
                                              const struct key *key) {
  struct weir__breaker_entry *entry = chain_first(&registry->known, key->hash);
  while (entry != NULL && !is_known_key(entry, key)) {
    entry = chain_next(entry);
  }
  return entry;
}

/* An entry may move to another chain while it is looked at, and what follows is then that one's:
 * the key is missed, or found. */
static struct weir__breaker_entry *unknown_find(const struct weir__breaker_registry *registry,
                                                const struct key *key) {
  struct weir__breaker_entry *entry = chain_first(&registry->unknown, key->hash);
  while (entry != NULL && entry_hash(entry) != key->hash) {
    entry = chain_next(entry);
  }
  return entry;
}

/* NULL under the mutex: there is none. Without it: there was none, or a key was moving all the
 * time. */
static struct weir__breaker_entry *entry_find(const struct weir__breaker_registry *registry,
                                              const struct key *key) {
  for (unsigned turn = 0; turn < FIND_TURNS; turn++) {
    uint32_t moves = atomic_load_explicit(&registry->moves, memory_order_acquire);
    struct weir__breaker_entry *entry = known_find(registry, key);
    if (entry == NULL) {
      entry = unknown_find(registry, key);
    }
    /* relaxed: behind the acquiring loads of the search */
    if (entry != NULL || ((moves & 1) == 0 &&
                          moves == atomic_load_explicit(&registry->moves, memory_order_relaxed))) {
      return entry;
    }
  }
  return NULL;
}

/* Between them, a search may miss what is there. acq_rel: what is moved stays between. */
static void moving_locked(struct weir__breaker_registry *registry) {
  atomic_fetch_add_explicit(&registry->moves, 1, memory_order_acq_rel);
}

/* --- chains, under the mutex --- */

static void chain_insert_locked(struct weir__breaker_chains *const _Atomic *chains, uint64_t hash,
                                struct weir__breaker_entry *entry) {
  struct weir__breaker_entry *_Atomic *first = chain_of(chains, hash);
  /* release, both: `next` also is read by who stands on the entry from its last chain */
  atomic_store_explicit(&entry->next, atomic_load_explicit(first, memory_order_relaxed),
                        memory_order_release);
  atomic_store_explicit(first, entry, memory_order_release);
}

/* Who stands on the entry still goes on from there. */
static void chain_remove_locked(struct weir__breaker_chains *const _Atomic *chains, uint64_t hash,
                                struct weir__breaker_entry *entry) {
  struct weir__breaker_entry *_Atomic *place = chain_of(chains, hash);
  struct weir__breaker_entry *found = atomic_load_explicit(place, memory_order_relaxed);
  while (found != entry) {
    place = &found->next;
    found = atomic_load_explicit(place, memory_order_relaxed);
  }
  atomic_store_explicit(place, atomic_load_explicit(&entry->next, memory_order_relaxed),
                        memory_order_release);
}

static struct weir__breaker_chains *chains_new(size_t n_entries,
                                               const struct weir_allocator *allocator) {
  uint64_t n_chains = 1;
  while (n_chains < n_entries && n_chains < MAX_CHAINS) {
    n_chains *= 2;
  }
  struct weir__breaker_chains *chains =
      weir__zalloc(allocator, sizeof *chains + n_chains * sizeof chains->first[0]);
  if (chains != NULL) {
    chains->mask = n_chains - 1;
  }
  return chains;
}

static void chains_free(struct weir__breaker_chains *chains,
                        const struct weir_allocator *allocator) {
  while (chains != NULL) {
    struct weir__breaker_chains *former = chains->former;
    weir__free(allocator, chains);
    chains = former;
  }
}

/* Makes chains for `n_entries` at least, and has all entries, of which `newest` is the last one,
 * move there. Who looks meanwhile may miss any of them, and waits. False: there is no memory. */
static bool chains_grow_locked(struct weir__breaker_registry *registry,
                               struct weir__breaker_chains *_Atomic *where, size_t n_entries,
                               struct weir__breaker_entry *newest) {
  struct weir__breaker_chains *former = atomic_load_explicit(where, memory_order_relaxed);
  if (n_entries <= former->mask + 1 || former->mask + 1 >= MAX_CHAINS) {
    return true;
  }
  struct weir__breaker_chains *chains = chains_new(n_entries, registry->rules.allocator);
  if (chains == NULL) {
    return false;
  }
  chains->former = former;
  atomic_store_explicit(&registry->is_growing, true, memory_order_relaxed);
  moving_locked(registry);
  atomic_store_explicit(where, chains, memory_order_release);
  for (struct weir__breaker_entry *entry = newest; entry != NULL; entry = entry->older) {
    if (!entry->retired) {
      chain_insert_locked(where, entry_hash(entry), entry);
    }
  }
  moving_locked(registry);
  atomic_store_explicit(&registry->is_growing, false, memory_order_relaxed);
  return true;
}

/* --- how many --- */

/* Acquire, and the release below: who sees the last place taken can find who has taken it. */
static uint32_t count_of(const _Atomic uint32_t *count) {
  return atomic_load_explicit(count, memory_order_acquire);
}

static void count_add_locked(_Atomic uint32_t *count, uint32_t difference) {
  atomic_store_explicit(count, count_of(count) + difference, memory_order_release);
}

static bool known_have_room(const struct weir__breaker_registry *registry) {
  return count_of(&registry->n_known_used) < count_of(&registry->max_breakers);
}

/* What the known keys leave, used or not. */
static bool unknown_have_room(const struct weir__breaker_registry *registry) {
  uint32_t n_known = count_of(&registry->n_known);
  uint32_t max = count_of(&registry->max_breakers);
  return n_known < max && count_of(&registry->n_unknown) < max - n_known;
}

/* --- making --- */

/* What holds of a breaker, of which `override` was set by hand. */
static enum weir_breaker_override effective_locked(const struct weir__breaker_registry *registry,
                                                   enum weir_breaker_override override) {
  return registry->guarded.is_off ? WEIR_BREAKER_OVERRIDE_DISABLED : override;
}

/* In memory of weir__breaker_bytes. NULL: there is none for its annex. */
static weir_breaker *breaker_begin_locked(struct weir__breaker_registry *registry, void *memory) {
  const struct weir_breaker_options room = {.window_buckets = registry->guarded.n_buckets,
                                            .probes = registry->guarded.n_probes};
  weir_breaker *breaker = memory;
  weir__breaker_init(breaker, &registry->rules);
  if (!weir__breaker_reserve(breaker, &room)) {
    return NULL;
  }
  weir_breaker_set_override(breaker, effective_locked(registry, registry->guarded.override), NULL);
  return breaker;
}

static size_t aligned(size_t size) {
  return (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

/* The breaker is for later. */
static struct weir__breaker_entry *known_new_locked(struct weir__breaker_registry *registry,
                                                    const struct key *key) {
  struct known_entry *entry = NULL;
  if (key->size <= UINT32_MAX) {
    entry = weir__zalloc(registry->rules.allocator, sizeof *entry + key->size);
  }
  if (entry == NULL) {
    return NULL;
  }
  entry->base.kind = WEIR__BREAKER_KNOWN;
  entry->base.name_size = (uint32_t)key->size;
  memcpy(entry->key, key->text, key->size);
  atomic_init(&entry->base.hash, key->hash);
  entry->base.older = registry->guarded.newest_known;
  registry->guarded.newest_known = &entry->base;
  count_add_locked(&registry->n_known, 1);
  return &entry->base;
}

static size_t min_of(size_t a, size_t b) {
  return a < b ? a : b;
}

static void unknown_become_locked(struct weir__breaker_registry *registry,
                                  struct unknown_entry *entry, const struct key *key,
                                  int64_t now_ns) {
  entry->base.name_size = (uint32_t)min_of(key->size, entry->base.name_capacity);
  memcpy(entry->name, key->text, entry->base.name_size);
  entry->taken_at_ns = now_ns;
  chain_insert_locked(&registry->unknown, key->hash, &entry->base);
  atomic_store_explicit(&entry->base.hash, key->hash, memory_order_release);
}

/* What holds for a breaker by hand; guarded by the registry's lock. */
static void entry_set_by_hand(struct weir__breaker_entry *entry,
                              enum weir_breaker_override by_hand) {
  entry->override = (unsigned)by_hand & 3u;
}

static struct weir__breaker_entry *unknown_new_locked(struct weir__breaker_registry *registry,
                                                      const struct key *key, int64_t now_ns) {
  size_t capacity = min_of(key->size, WEIR__BREAKER_NAME_BYTES);
  capacity = capacity > MIN_NAME_BYTES ? capacity : MIN_NAME_BYTES;
  size_t breaker_at = aligned(sizeof(struct unknown_entry) + capacity);
  struct unknown_entry *entry =
      weir__zalloc(registry->rules.allocator, breaker_at + weir__breaker_bytes(&registry->rules));
  if (entry == NULL) {
    return NULL;
  }
  weir_breaker *breaker = breaker_begin_locked(registry, (char *)entry + breaker_at);
  if (breaker == NULL) {
    weir__free(registry->rules.allocator, entry);
    return NULL;
  }
  entry->base.kind = WEIR__BREAKER_UNKNOWN;
  entry_set_by_hand(&entry->base, registry->guarded.override);
  entry->base.name_capacity = (uint8_t)capacity;
  atomic_init(&entry->base.breaker, breaker);
  entry->base.older = registry->guarded.newest_unknown;
  registry->guarded.newest_unknown = &entry->base;
  unknown_become_locked(registry, entry, key, now_ns);
  count_add_locked(&registry->n_unknown, 1);
  return &entry->base;
}

/* --- taking over --- */

/* Relaxed: it stands for itself. */
static int64_t span_of(const _Atomic int64_t *span_ns) {
  return atomic_load_explicit(span_ns, memory_order_relaxed);
}

/* Whether an entry may change hands: it has been this key's for a whole window, so that calls which
 * had it made have had time to end. */
static bool is_old_enough(const struct weir__breaker_registry *registry,
                          const struct unknown_entry *entry, int64_t now_ns) {
  return now_ns >= entry->taken_at_ns &&
         now_ns - entry->taken_at_ns >= span_of(&registry->window_ns);
}

/* The hash is gone before the breaker starts its new generation: a call that is let through in that
 * one and compares the hash afterwards sees it gone. */
static bool take_over_locked(struct weir__breaker_registry *registry, struct unknown_entry *entry,
                             const struct key *key, int64_t now_ns) {
  if (entry->base.retired || !is_old_enough(registry, entry, now_ns)) {
    return false;
  }
  uint64_t old_hash = entry_hash(&entry->base);
  moving_locked(registry);
  atomic_store_explicit(&entry->base.hash, 0, memory_order_release);
  bool taken = weir__breaker_recycle(weir__breaker_entry_breaker(&entry->base), now_ns);
  if (taken) {
    chain_remove_locked(&registry->unknown, old_hash, &entry->base);
    unknown_become_locked(registry, entry, key, now_ns);
  } else {
    atomic_store_explicit(&entry->base.hash, old_hash, memory_order_release);
  }
  moving_locked(registry);
  return taken;
}

/* After a whole round without one, nobody looks for as long as it takes a window to move on. */
static struct weir__breaker_entry *recycle_locked(struct weir__breaker_registry *registry,
                                                  const struct key *key, int64_t now_ns) {
  for (unsigned i = 0; i < LOOKS && registry->guarded.newest_unknown != NULL; i++) {
    struct weir__breaker_entry *entry = registry->guarded.hand;
    if (entry == NULL) {
      entry = registry->guarded.newest_unknown;
    }
    registry->guarded.hand = entry->older;
    if (take_over_locked(registry, unknown_of(entry), key, now_ns)) {
      registry->guarded.n_fruitless = 0;
      return entry;
    }
    registry->guarded.n_fruitless++;
  }
  if (registry->guarded.n_fruitless >= count_of(&registry->n_unknown)) {
    registry->guarded.n_fruitless = 0;
    /* relaxed: it stands for itself */
    atomic_store_explicit(&registry->no_search_until_ns,
                          weir__instant_add(now_ns, span_of(&registry->bucket_ns)),
                          memory_order_relaxed);
  }
  return NULL;
}

/* Also where the clock has been set back: no pause is longer. */
static bool may_search(const struct weir__breaker_registry *registry, int64_t now_ns) {
  int64_t until_ns = atomic_load_explicit(&registry->no_search_until_ns, memory_order_relaxed);
  return now_ns >= until_ns || until_ns - now_ns > span_of(&registry->bucket_ns);
}

/* --- entering --- */

static struct weir__breaker_entry *overflow(struct weir__breaker_registry *registry) {
  atomic_fetch_add_explicit(&registry->n_overflowed, 1, memory_order_relaxed); /* a statistic */
  return &registry->shared;
}

/* `had_room` before the key was looked for. NULL: there is neither a place for it nor one that may
 * be taken over, or no memory. */
static struct weir__breaker_entry *unknown_enter(struct weir__breaker_registry *registry,
                                                 const struct key *key, bool had_room,
                                                 int64_t now_ns) {
  if (had_room) {
    (void)pthread_mutex_lock(&registry->guarded.mutex);
  } else if (!may_search(registry, now_ns) ||
             pthread_mutex_trylock(&registry->guarded.mutex) != 0) {
    return NULL;
  }
  struct weir__breaker_entry *entry = entry_find(registry, key);
  if (entry == NULL && unknown_have_room(registry)) {
    entry = unknown_new_locked(registry, key, now_ns);
  } else if (entry == NULL) {
    entry = recycle_locked(registry, key, now_ns);
  }
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  return entry;
}

/* A known key's breaker is made when it is first used. False: there is no memory. */
static bool known_use_locked(struct weir__breaker_registry *registry,
                             struct weir__breaker_entry *entry) {
  if (weir__breaker_entry_breaker(entry) != NULL) {
    return true;
  }
  void *memory = weir__zalloc(registry->rules.allocator, weir__breaker_bytes(&registry->rules));
  weir_breaker *breaker = memory != NULL ? breaker_begin_locked(registry, memory) : NULL;
  if (breaker == NULL) {
    weir__free(registry->rules.allocator, memory);
    return false;
  }
  entry_set_by_hand(entry, registry->guarded.override);
  atomic_store_explicit(&entry->breaker, breaker, memory_order_release);
  count_add_locked(&registry->n_known_used, 1);
  return true;
}

static bool known_use(struct weir__breaker_registry *registry, struct weir__breaker_entry *entry) {
  bool used = false;
  if (known_have_room(registry)) {
    (void)pthread_mutex_lock(&registry->guarded.mutex);
    used = weir__breaker_entry_breaker(entry) != NULL ||
           (known_have_room(registry) && known_use_locked(registry, entry));
    (void)pthread_mutex_unlock(&registry->guarded.mutex);
  }
  return used;
}

static struct weir__breaker_entry *enter(struct weir__breaker_registry *registry,
                                         const struct key *key, int64_t now_ns) {
  bool had_room = unknown_have_room(registry);
  struct weir__breaker_entry *entry = entry_find(registry, key);
  if (entry == NULL && atomic_load_explicit(&registry->is_growing, memory_order_acquire)) {
    (void)pthread_mutex_lock(&registry->guarded.mutex); /* until it has */
    entry = entry_find(registry, key);
    (void)pthread_mutex_unlock(&registry->guarded.mutex);
  }
  if (entry == NULL) {
    entry = unknown_enter(registry, key, had_room, now_ns);
  }
  if (entry == NULL ||
      (weir__breaker_entry_breaker(entry) == NULL && !known_use(registry, entry))) {
    return overflow(registry);
  }
  return entry;
}

struct weir__breaker_entry *weir__breaker_registry_enter(struct weir__breaker_registry *registry,
                                                         const char *path, size_t path_size,
                                                         int64_t now_ns) {
  if (!has_keys(registry)) {
    return &registry->shared;
  }
  struct key key = key_of(registry, path, path_size);
  return enter(registry, &key, now_ns);
}

/* --- calls --- */

/* Asks a breaker that nobody can take over. */
static enum weir_admission
admit_known(struct weir__breaker_registry *registry, enum weir_breaker_mode mode,
            struct weir__breaker_entry **entry, int64_t now_ns, const struct weir_random *random,
            struct weir_breaker_ticket *ticket_out, struct weir_breaker_view *view_out) {
  if (weir__breaker_entry_breaker(*entry) == NULL && !known_use(registry, *entry)) {
    *entry = overflow(registry);
  }
  return weir__breaker_admit(weir__breaker_entry_breaker(*entry), mode, now_ns, random, ticket_out,
                             view_out);
}

/* An unknown entry is taken over at most once a window, so this turns once, but for the rarest of
 * cases. A call that has changed another key's breaker stays with it: somebody has to tell of the
 * change. */
enum weir_admission weir__breaker_registry_admit(struct weir__breaker_registry *registry,
                                                 enum weir_breaker_mode mode, const char *path,
                                                 size_t path_size, int64_t now_ns,
                                                 const struct weir_random *random,
                                                 struct weir__breaker_entry **entry,
                                                 struct weir_breaker_ticket *ticket_out,
                                                 struct weir_breaker_view *view_out) {
  bool is_shared = *entry == NULL && !has_keys(registry);
  if (is_shared) {
    *entry = &registry->shared;
  }
  if (is_shared || *entry != NULL) {
    return admit_known(registry, mode, entry, now_ns, random, ticket_out, view_out);
  }
  struct key key = key_of(registry, path, path_size);
  for (;;) {
    *entry = enter(registry, &key, now_ns);
    weir_breaker *breaker = weir__breaker_entry_breaker(*entry);
    enum weir_admission admission =
        weir__breaker_admit(breaker, mode, now_ns, random, ticket_out, view_out);
    if ((*entry)->kind != WEIR__BREAKER_UNKNOWN || view_out->changed ||
        entry_hash(*entry) == key.hash) {
      return admission;
    }
    weir_breaker_release(breaker, ticket_out);
  }
}

bool weir__breaker_registry_still_admits(const struct weir__breaker_registry *registry,
                                         enum weir_breaker_mode mode,
                                         const struct weir__breaker_entry *entry, const char *path,
                                         size_t path_size,
                                         const struct weir_breaker_ticket *ticket) {
  return weir__breaker_still_admits(weir__breaker_entry_breaker(entry), mode, ticket) ||
         (entry->kind == WEIR__BREAKER_UNKNOWN &&
          entry_hash(entry) != key_of(registry, path, path_size).hash);
}

/* --- names --- */

/* The unknown entry's breaker becomes the known one's. Its hash stays, so who has found it goes on
 * with the same breaker. */
static void promote_locked(struct weir__breaker_registry *registry,
                           struct weir__breaker_entry *unknown, struct weir__breaker_entry *known) {
  atomic_store_explicit(&known->breaker, weir__breaker_entry_breaker(unknown),
                        memory_order_release);
  known->set_apart = unknown->set_apart;
  known->override = unknown->override;
  unknown->retired = true;
  known->borrows = true;
  chain_remove_locked(&registry->unknown, entry_hash(unknown), unknown);
  count_add_locked(&registry->n_unknown, UINT32_MAX); /* one less */
  count_add_locked(&registry->n_known_used, 1);
}

static struct weir__breaker_entry *know_locked(struct weir__breaker_registry *registry,
                                               const struct key *key) {
  struct weir__breaker_entry *entry = known_find(registry, key);
  if (entry != NULL) {
    return entry;
  }
  entry = known_new_locked(registry, key);
  if (entry == NULL) {
    return NULL;
  }
  struct weir__breaker_entry *unknown = unknown_find(registry, key);
  moving_locked(registry);
  if (unknown != NULL) {
    promote_locked(registry, unknown, entry);
  }
  chain_insert_locked(&registry->known, key->hash, entry);
  moving_locked(registry);
  return entry;
}

enum weir_error weir__breaker_registry_know(struct weir__breaker_registry *registry,
                                            const char *path, size_t path_size,
                                            struct weir__breaker_entry **entry_out) {
  *entry_out = &registry->shared;
  if (has_keys(registry)) {
    struct key key = key_of(registry, path, path_size);
    (void)pthread_mutex_lock(&registry->guarded.mutex);
    *entry_out = know_locked(registry, &key);
    (void)pthread_mutex_unlock(&registry->guarded.mutex);
  }
  return *entry_out != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

/* --- reading --- */

enum weir_error weir__breaker_registry_snapshot(struct weir__breaker_registry *registry,
                                                const char *path, size_t path_size, int64_t now_ns,
                                                struct weir_breaker_snapshot *snapshot_out) {
  if (!has_keys(registry)) {
    return weir_breaker_snapshot(weir__breaker_entry_breaker(&registry->shared), now_ns,
                                 snapshot_out);
  }
  struct key key = key_of(registry, path, path_size);
  enum weir_error error = WEIR_ERROR_UNAVAILABLE;
  (void)pthread_mutex_lock(&registry->guarded.mutex); /* nothing is taken over meanwhile */
  const struct weir__breaker_entry *entry = entry_find(registry, &key);
  const weir_breaker *breaker = entry != NULL ? weir__breaker_entry_breaker(entry) : NULL;
  bool has_room = entry != NULL ? known_have_room(registry) : unknown_have_room(registry);
  if (breaker == NULL && !has_room) {
    breaker = weir__breaker_entry_breaker(&registry->shared);
  }
  if (breaker != NULL) {
    error = weir_breaker_snapshot(breaker, now_ns, snapshot_out);
  }
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  return error;
}

uint64_t weir__breaker_registry_n_overflowed(const struct weir__breaker_registry *registry) {
  return atomic_load_explicit(&registry->n_overflowed, memory_order_relaxed); /* a statistic */
}

uint32_t weir__breaker_registry_n_known(const struct weir__breaker_registry *registry) {
  return count_of(&registry->n_known);
}

uint32_t weir__breaker_registry_n_breakers(const struct weir__breaker_registry *registry) {
  if (!has_keys(registry)) {
    return 1;
  }
  return count_of(&registry->n_known_used) + count_of(&registry->n_unknown);
}

/* --- overrides --- */

/* Brings the entry's breaker to what was set by hand of it, or to what all are switched to. Whether
 * this has changed anything: what a call changes just then is that call's to tell. */
static bool bring_locked(const struct weir__breaker_registry *registry,
                         const struct weir__breaker_entry *entry,
                         struct weir_breaker_view *view_out) {
  weir_breaker *breaker = weir__breaker_entry_breaker(entry);
  if (breaker == NULL) {
    return false;
  }
  weir_breaker_set_override(
      breaker, effective_locked(registry, (enum weir_breaker_override)entry->override), view_out);
  return view_out->changed;
}

/* The one of a key that an override names exists, whatever the bound. */
static struct weir__breaker_entry *overridden_locked(struct weir__breaker_registry *registry,
                                                     const struct key *key,
                                                     enum weir_breaker_override override,
                                                     enum weir_error *error_out) {
  struct weir__breaker_entry *entry = entry_find(registry, key);
  *error_out = WEIR_OK;
  if (override == registry->guarded.override) {
    /* none that is made later needs to be told from the others */
    return entry != NULL && weir__breaker_entry_breaker(entry) != NULL ? entry : NULL;
  }
  entry = know_locked(registry, key);
  if (entry == NULL || !known_use_locked(registry, entry)) {
    *error_out = WEIR_ERROR_NO_MEMORY;
    return NULL;
  }
  return entry;
}

enum weir_error weir__breaker_registry_override_one(struct weir__breaker_registry *registry,
                                                    const char *path, size_t path_size,
                                                    enum weir_breaker_override override,
                                                    struct weir__breaker_entry **entry_out,
                                                    struct weir_breaker_view *view_out) {
  enum weir_error error = WEIR_OK;
  struct weir__breaker_entry *entry = &registry->shared;
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  if (has_keys(registry)) {
    struct key key = key_of(registry, path, path_size);
    entry = overridden_locked(registry, &key, override, &error);
  } else {
    registry->guarded.override = override; /* the only one is all of them */
  }
  if (entry != NULL) {
    entry->set_apart = true;
    entry_set_by_hand(entry, override);
    entry = bring_locked(registry, entry, view_out) ? entry : NULL;
  }
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  *entry_out = entry;
  return error;
}

static void name_copy_locked(struct weir__breaker_entry *entry,
                             struct weir__breaker_name *name_out) {
  const char *text = "";
  switch ((enum weir__breaker_kind)entry->kind) {
  case WEIR__BREAKER_SHARED:
    break;
  case WEIR__BREAKER_KNOWN:
    text = known_of(entry)->key;
    break;
  case WEIR__BREAKER_UNKNOWN:
    text = unknown_of(entry)->name;
    break;
  }
  name_out->size = min_of(entry->name_size, WEIR__BREAKER_NAME_BYTES);
  memcpy(name_out->text, text, name_out->size);
  name_out->text[name_out->size] = '\0';
}

/* Nobody has said anything of `entry`, and those before it, since. */
static void set_apart_none_locked(struct weir__breaker_entry *entry) {
  for (; entry != NULL; entry = entry->older) {
    entry->set_apart = false;
  }
}

/* What is done with each breaker, by `told`. */
struct round {
  struct weir__breaker_registry *registry;
  bool by_hand; /* an override of all: it is that of those that none was set apart of */
  weir__breaker_overridden_fn *told;
  void *context;
};

/* Whether there is something to tell. */
static bool visit_locked(const struct round *round, struct weir__breaker_entry *entry,
                         struct weir_breaker_view *view_out) {
  if (entry->retired) {
    return false;
  }
  if (!round->by_hand) {
    return bring_locked(round->registry, entry, view_out) &&
           view_out->changed_from != view_out->state;
  }
  if (entry->set_apart) {
    return false;
  }
  entry_set_by_hand(entry, round->registry->guarded.override);
  return bring_locked(round->registry, entry, view_out);
}

/* `entry` and those before it, one after the other: who is told may call anything. A breaker that
 * is made meanwhile is made so. */
static void visit_each(const struct round *round, struct weir__breaker_entry *entry) {
  pthread_mutex_t *mutex = &round->registry->guarded.mutex;
  for (; entry != NULL; entry = entry->older) {
    struct weir__breaker_name name;
    struct weir_breaker_view view;
    (void)pthread_mutex_lock(mutex);
    bool tells = visit_locked(round, entry, &view);
    enum weir_breaker_override override = (enum weir_breaker_override)entry->override;
    name_copy_locked(entry, &name);
    (void)pthread_mutex_unlock(mutex);
    if (tells) {
      round->told(round->context, (enum weir__breaker_kind)entry->kind, &name, override, &view);
    }
  }
}

static struct weir__breaker_entry *newest_of(struct weir__breaker_registry *registry,
                                             struct weir__breaker_entry *const *newest) {
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  struct weir__breaker_entry *entry = *newest;
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  return entry;
}

static void visit_all(const struct round *round) {
  struct weir__breaker_registry *registry = round->registry;
  visit_each(round, &registry->shared);
  visit_each(round, newest_of(registry, &registry->guarded.newest_unknown));
  /* afterwards: what has become a known one's meanwhile is among these */
  visit_each(round, newest_of(registry, &registry->guarded.newest_known));
}

void weir__breaker_registry_override_all(struct weir__breaker_registry *registry,
                                         enum weir_breaker_override override,
                                         weir__breaker_overridden_fn *overridden, void *context) {
  const struct round round = {
      .registry = registry, .by_hand = true, .told = overridden, .context = context};
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  registry->guarded.override = override;
  set_apart_none_locked(&registry->shared);
  set_apart_none_locked(registry->guarded.newest_known);
  set_apart_none_locked(registry->guarded.newest_unknown);
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  visit_all(&round);
}

/* --- other options --- */

bool weir__breaker_registry_switch(struct weir__breaker_registry *registry, bool on) {
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  bool changes = registry->guarded.is_off == on;
  registry->guarded.is_off = !on;
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  return changes;
}

void weir__breaker_registry_catch_up(struct weir__breaker_registry *registry,
                                     weir__breaker_overridden_fn *changed, void *context) {
  const struct round round = {.registry = registry, .told = changed, .context = context};
  visit_all(&round);
}

void weir__breaker_registry_inherit(struct weir__breaker_registry *registry,
                                    struct weir__breaker_registry *from) {
  (void)pthread_mutex_lock(&from->guarded.mutex);
  enum weir_breaker_override override = from->guarded.override;
  uint64_t n_overflowed = weir__breaker_registry_n_overflowed(from);
  (void)pthread_mutex_unlock(&from->guarded.mutex);
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  registry->guarded.override = override;
  entry_set_by_hand(&registry->shared, override);
  weir_breaker_set_override(weir__breaker_entry_breaker(&registry->shared), override, NULL);
  atomic_fetch_add_explicit(&registry->n_overflowed, n_overflowed, memory_order_relaxed);
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
}

/* `entry`'s breaker and those before it. */
static bool reserve_locked(struct weir__breaker_entry *entry,
                           const struct weir_breaker_options *options) {
  for (; entry != NULL; entry = entry->older) {
    weir_breaker *breaker = weir__breaker_entry_breaker(entry);
    if (breaker != NULL && !weir__breaker_reserve(breaker, options)) {
      return false;
    }
  }
  return true;
}

static uint32_t larger_of(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

enum weir_error weir__breaker_registry_prepare(struct weir__breaker_registry *registry,
                                               const struct weir_breaker_options *options) {
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  uint32_t n_buckets = larger_of(registry->guarded.n_buckets, options->window_buckets);
  uint32_t n_probes = larger_of(registry->guarded.n_probes, options->probes);
  bool done = true;
  if (n_buckets > registry->guarded.n_buckets || n_probes > registry->guarded.n_probes) {
    done = reserve_locked(&registry->shared, options) &&
           reserve_locked(registry->guarded.newest_known, options) &&
           reserve_locked(registry->guarded.newest_unknown, options);
  }
  if (done) {
    registry->guarded.n_buckets = n_buckets;
    registry->guarded.n_probes = n_probes;
  }
  if (done && has_keys(registry)) {
    done = chains_grow_locked(registry, &registry->unknown, options->max_breakers,
                              registry->guarded.newest_unknown);
  }
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  return done ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
}

static void clear_locked(struct weir__breaker_entry *entry) {
  for (; entry != NULL; entry = entry->older) {
    weir_breaker *breaker = weir__breaker_entry_breaker(entry);
    if (breaker != NULL) {
      weir__breaker_window_clear(breaker);
    }
  }
}

static void bounds_set_locked(struct weir__breaker_registry *registry,
                              const struct weir_breaker_options *options) {
  atomic_store_explicit(&registry->max_breakers, options->max_breakers, memory_order_release);
  /* relaxed: each stands for itself */
  atomic_store_explicit(&registry->window_ns, options->window_ns, memory_order_relaxed);
  atomic_store_explicit(&registry->bucket_ns, options->window_ns / options->window_buckets,
                        memory_order_relaxed);
}

void weir__breaker_registry_set_options(struct weir__breaker_registry *registry,
                                        const struct weir_breaker_options *options) {
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  if (weir__breaker_rules_recut(&registry->rules, options)) {
    clear_locked(&registry->shared);
    clear_locked(registry->guarded.newest_known);
    clear_locked(registry->guarded.newest_unknown);
  }
  weir__breaker_rules_set(&registry->rules, options);
  bounds_set_locked(registry, options);
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
}

/* --- life --- */

bool weir__breaker_registry_expect(struct weir__breaker_registry *registry, size_t n_known) {
  if (!has_keys(registry)) {
    return true;
  }
  (void)pthread_mutex_lock(&registry->guarded.mutex);
  bool done =
      chains_grow_locked(registry, &registry->known, n_known, registry->guarded.newest_known);
  (void)pthread_mutex_unlock(&registry->guarded.mutex);
  return done;
}

static bool keys_init(struct weir__breaker_registry *registry,
                      const struct weir_allocator *allocator) {
  size_t n_entries = count_of(&registry->max_breakers);
  struct weir__breaker_chains *known = chains_new(min_of(n_entries, EXPECTED_KNOWN), allocator);
  struct weir__breaker_chains *unknown = chains_new(n_entries, allocator);
  weir__hash_secret_init(&registry->secret, weir__random_or_default(NULL));
  atomic_init(&registry->known, known);
  atomic_init(&registry->unknown, unknown);
  return known != NULL && unknown != NULL;
}

static void keys_end(struct weir__breaker_registry *registry) {
  /* relaxed: whoever ends the registry has seen its calls end */
  chains_free(atomic_load_explicit(&registry->unknown, memory_order_relaxed),
              registry->rules.allocator);
  chains_free(atomic_load_explicit(&registry->known, memory_order_relaxed),
              registry->rules.allocator);
}

static bool shared_init(struct weir__breaker_registry *registry,
                        const struct weir_allocator *allocator) {
  weir_breaker *breaker = weir__zalloc(allocator, weir__breaker_bytes(&registry->rules));
  if (breaker == NULL) {
    return false;
  }
  weir__breaker_init(breaker, &registry->rules);
  atomic_init(&registry->shared.breaker, breaker);
  (void)weir__breaker_spread(breaker); /* all calls may come here; without, it does as well */
  return true;
}

static void breaker_end(const struct weir__breaker_registry *registry, weir_breaker *breaker) {
  if (breaker != NULL) {
    weir__breaker_fini(breaker);
    weir__free(registry->rules.allocator, breaker);
  }
}

enum weir_error weir__breaker_registry_init(struct weir__breaker_registry *registry,
                                            const struct weir_breaker_options *options,
                                            const struct weir_allocator *allocator) {
  memset(registry, 0, sizeof *registry);
  weir__breaker_rules_init(&registry->rules, options, allocator);
  bounds_set_locked(registry, options);
  registry->guarded.n_buckets = options->window_buckets;
  registry->guarded.n_probes = options->probes;
  if ((options->scope == WEIR_BREAKER_SCOPE_CHANNEL || keys_init(registry, allocator)) &&
      shared_init(registry, allocator)) {
    if (pthread_mutex_init(&registry->guarded.mutex, NULL) == 0) {
      return WEIR_OK;
    }
    breaker_end(registry, weir__breaker_entry_breaker(&registry->shared));
  }
  keys_end(registry);
  return WEIR_ERROR_NO_MEMORY;
}

/* A known key's breaker may be in an unknown entry's block. */
static void entries_free(const struct weir__breaker_registry *registry) {
  const struct weir_allocator *allocator = registry->rules.allocator;
  struct weir__breaker_entry *older = NULL;
  for (struct weir__breaker_entry *entry = registry->guarded.newest_known; entry != NULL;
       entry = older) {
    older = entry->older;
    if (!entry->borrows) {
      breaker_end(registry, weir__breaker_entry_breaker(entry));
    }
    weir__free(allocator, known_of(entry));
  }
  for (struct weir__breaker_entry *entry = registry->guarded.newest_unknown; entry != NULL;
       entry = older) {
    older = entry->older;
    weir__breaker_fini(weir__breaker_entry_breaker(entry));
    weir__free(allocator, unknown_of(entry));
  }
}

void weir__breaker_registry_fini(struct weir__breaker_registry *registry) {
  entries_free(registry);
  breaker_end(registry, weir__breaker_entry_breaker(&registry->shared));
  (void)pthread_mutex_destroy(&registry->guarded.mutex);
  keys_end(registry);
}
