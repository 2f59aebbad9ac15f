/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <weir/error.h>
#include <weir/random.h>

#include "src/base/hash.h"
#include "src/decide/throttle.h"

#define MIN_CHAINS 64

static weir_throttle *first_chains[MIN_CHAINS];

/* All throttles of the process: retryThrottling is by server name, and several channels may go to
 * one. It is asked when a channel is made, changes its policy or goes away, never by a call. A
 * name's level outlives those who have it, or a program that makes a channel for each request would
 * begin with a full bucket each time; of the names that nobody has, the last ones are kept. */
static struct {
  pthread_mutex_t mutex;
  struct weir__hash_secret secret; /* set before the first use, and then only read */
  /* guarded by the mutex, as all that is the registry's of each throttle */
  weir_throttle **chains;
  size_t n_chains; /* a power of two */
  size_t n_throttles;
  size_t n_kept;
  weir_throttle *newest_kept;
  weir_throttle *oldest_kept;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER, .chains = first_chains, .n_chains = MIN_CHAINS};

static pthread_once_t registry_once = PTHREAD_ONCE_INIT;

static void registry_lock(void) {
  (void)pthread_mutex_lock(&registry.mutex);
}

static void registry_unlock(void) {
  (void)pthread_mutex_unlock(&registry.mutex);
}

/* A child must not find the lock taken by a thread that it does not have. It goes on with the
 * levels as they are, and on its own: it is another process. */
static void registry_begin(void) {
  weir__hash_secret_init(&registry.secret, weir_random_thread());
  (void)pthread_atfork(registry_lock, registry_unlock, registry_unlock);
}

/* ---- the table ---- */

static weir_throttle **chain_locked(uint64_t hash) {
  return &registry.chains[hash & (registry.n_chains - 1)];
}

static weir_throttle *find_locked(const char *name, uint64_t hash) {
  weir_throttle *throttle = *chain_locked(hash);
  while (throttle != NULL && (throttle->hash != hash || strcmp(throttle->name, name) != 0)) {
    throttle = throttle->next;
  }
  return throttle;
}

static void move_locked(weir_throttle **old_chains, size_t n_old_chains) {
  for (size_t i = 0; i < n_old_chains; i++) {
    weir_throttle *throttle = old_chains[i];
    while (throttle != NULL) {
      weir_throttle *next = throttle->next;
      weir_throttle **chain = chain_locked(throttle->hash);
      throttle->next = *chain;
      *chain = throttle;
      throttle = next;
    }
  }
}

/* Without the memory for it chains get longer, and all else stays as it is. */
static void resize_locked(size_t n_chains) {
  weir_throttle **old_chains = registry.chains;
  size_t n_old_chains = registry.n_chains;
  weir_throttle **chains =
      n_chains > MIN_CHAINS ? calloc(n_chains, sizeof(weir_throttle *)) : first_chains;
  if (chains == NULL) {
    return;
  }
  memset(chains, 0, n_chains * sizeof(weir_throttle *));
  registry.chains = chains;
  registry.n_chains = n_chains;
  move_locked(old_chains, n_old_chains);
  if (old_chains != first_chains) {
    free(old_chains);
  }
}

static void insert_locked(weir_throttle *throttle) {
  if (registry.n_throttles >= registry.n_chains) {
    resize_locked(registry.n_chains * 2);
  }
  weir_throttle **chain = chain_locked(throttle->hash);
  throttle->next = *chain;
  *chain = throttle;
  registry.n_throttles++;
}

static void remove_locked(weir_throttle *throttle) {
  weir_throttle **link = chain_locked(throttle->hash);
  while (*link != throttle) {
    link = &(*link)->next;
  }
  *link = throttle->next;
  registry.n_throttles--;
  if (registry.n_chains > MIN_CHAINS && registry.n_throttles < registry.n_chains / 8) {
    resize_locked(registry.n_chains / 2);
  }
}

/* ---- those that nobody has ---- */

static void keep_locked(weir_throttle *throttle) {
  throttle->newer = NULL;
  throttle->older = registry.newest_kept;
  *(throttle->older != NULL ? &throttle->older->newer : &registry.oldest_kept) = throttle;
  registry.newest_kept = throttle;
  registry.n_kept++;
}

static void take_back_locked(weir_throttle *throttle) {
  *(throttle->newer != NULL ? &throttle->newer->older : &registry.newest_kept) = throttle->older;
  *(throttle->older != NULL ? &throttle->older->newer : &registry.oldest_kept) = throttle->newer;
  registry.n_kept--;
}

/* Answers what is to be freed, if anything. A full one says no more than a new one would. */
static weir_throttle *leave_locked(weir_throttle *throttle) {
  if (weir__throttle_is_full(throttle)) {
    remove_locked(throttle);
    return throttle;
  }
  keep_locked(throttle);
  if (registry.n_kept <= WEIR_THROTTLE_KEPT_NAMES) {
    return NULL;
  }
  weir_throttle *oldest = registry.oldest_kept;
  take_back_locked(oldest);
  remove_locked(oldest);
  return oldest;
}

/* ---- shares ---- */

static weir_throttle *throttle_new(const char *target) {
  size_t size = sizeof(weir_throttle) + weir__throttle_name_size(target);
  size =
      (size + WEIR__THROTTLE_ALIGNMENT - 1) / WEIR__THROTTLE_ALIGNMENT * WEIR__THROTTLE_ALIGNMENT;
  weir_throttle *throttle = aligned_alloc(WEIR__THROTTLE_ALIGNMENT, size);
  if (throttle == NULL) {
    return NULL;
  }
  weir__throttle_name(target, throttle->name);
  throttle->hash = weir__hash(&registry.secret, throttle->name, strlen(throttle->name));
  throttle->n_shares = 1;
  return throttle;
}

enum weir_error weir_throttle_acquire(const char *target, uint32_t max_tokens,
                                      uint32_t token_ratio_milli, weir_throttle **throttle_out) {
  *throttle_out = NULL;
  if (max_tokens == 0 || max_tokens > WEIR_THROTTLE_MAX_TOKENS || token_ratio_milli == 0) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  (void)pthread_once(&registry_once, registry_begin);
  weir_throttle *fresh = throttle_new(target);
  if (fresh == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  weir__throttle_init(fresh, max_tokens, token_ratio_milli);
  registry_lock();
  weir_throttle *found = find_locked(fresh->name, fresh->hash);
  if (found == NULL) {
    insert_locked(fresh);
  } else {
    if (found->n_shares++ == 0) {
      take_back_locked(found);
    }
    weir__throttle_reconfigure(found, max_tokens, token_ratio_milli);
  }
  registry_unlock();
  if (found != NULL) {
    free(fresh);
  }
  *throttle_out = found != NULL ? found : fresh;
  return WEIR_OK;
}

void weir_throttle_ref(weir_throttle *throttle) {
  registry_lock();
  throttle->n_shares++;
  registry_unlock();
}

void weir_throttle_release(weir_throttle *throttle) {
  if (throttle == NULL) {
    return;
  }
  registry_lock();
  weir_throttle *unneeded = --throttle->n_shares == 0 ? leave_locked(throttle) : NULL;
  registry_unlock();
  free(unneeded);
}

void weir_throttle_forget(void) {
  registry_lock();
  weir_throttle *forgotten = registry.oldest_kept;
  for (weir_throttle *throttle = forgotten; throttle != NULL; throttle = throttle->newer) {
    remove_locked(throttle);
  }
  registry.oldest_kept = NULL;
  registry.newest_kept = NULL;
  registry.n_kept = 0;
  registry_unlock();
  while (forgotten != NULL) {
    weir_throttle *newer = forgotten->newer;
    free(forgotten);
    forgotten = newer;
  }
}

void weir__throttle_registry_count(struct weir__throttle_census *census_out) {
  registry_lock();
  *census_out = (struct weir__throttle_census){.n_shared = registry.n_throttles - registry.n_kept,
                                               .n_kept = registry.n_kept,
                                               .n_chains = registry.n_chains};
  registry_unlock();
}
