/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/throttle.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A token is 1000: ratios have three decimals (A6), and integers add up the same in any order. */
#define TOKEN_MILLI 1000u

/* The whole bucket is one word, so that tokens and parameters change together without a lock. The
 * largest of each is 1000 tokens = 1,000,000 thousandths, which 20 bits hold. */
#define FIELD_BITS 20
#define FIELD_MASK ((UINT64_C(1) << FIELD_BITS) - 1)

struct bucket {
  uint32_t tokens_milli;
  uint32_t max_milli;
  uint32_t ratio_milli; /* at most max_milli: more fills the bucket no fuller */
};

struct weir_throttle {
  _Atomic uint64_t state;
  weir_throttle *next; /* guarded by the registry */
  size_t n_shares;     /* likewise */
  char name[];
};

/* All throttles of the process: retryThrottling is by server name, and several channels may go to
 * one. It is asked when a channel is made, changes its policy or goes away, never by a call. */
static struct {
  pthread_mutex_t mutex;
  weir_throttle *first;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER, .first = NULL};

static uint64_t bucket_pack(struct bucket bucket) {
  return ((uint64_t)bucket.tokens_milli << (2 * FIELD_BITS)) |
         ((uint64_t)bucket.max_milli << FIELD_BITS) | bucket.ratio_milli;
}

static struct bucket bucket_unpack(uint64_t state) {
  return (struct bucket){.tokens_milli = (uint32_t)((state >> (2 * FIELD_BITS)) & FIELD_MASK),
                         .max_milli = (uint32_t)((state >> FIELD_BITS) & FIELD_MASK),
                         .ratio_milli = (uint32_t)(state & FIELD_MASK)};
}

static struct bucket bucket_full(uint32_t max_tokens, uint32_t token_ratio_milli) {
  uint32_t max_milli = max_tokens * TOKEN_MILLI;
  return (struct bucket){.tokens_milli = max_milli,
                         .max_milli = max_milli,
                         .ratio_milli =
                             token_ratio_milli < max_milli ? token_ratio_milli : max_milli};
}

/* `wanted` with as much in it, in proportion, as is in `present`; rounded down. */
static struct bucket bucket_rescale(struct bucket present, struct bucket wanted) {
  wanted.tokens_milli =
      (uint32_t)((uint64_t)present.tokens_milli * wanted.max_milli / present.max_milli);
  return wanted;
}

/* Relaxed everywhere below: the word is all there is, nothing else is published with it. */

static void throttle_reconfigure(weir_throttle *throttle, struct bucket wanted) {
  uint64_t state = atomic_load_explicit(&throttle->state, memory_order_relaxed);
  struct bucket present = bucket_unpack(state);
  while (present.max_milli != wanted.max_milli || present.ratio_milli != wanted.ratio_milli) {
    if (atomic_compare_exchange_weak_explicit(&throttle->state, &state,
                                              bucket_pack(bucket_rescale(present, wanted)),
                                              memory_order_relaxed, memory_order_relaxed)) {
      return;
    }
    present = bucket_unpack(state);
  }
}

bool weir_throttle_record_failure(weir_throttle *throttle) {
  uint64_t state = atomic_load_explicit(&throttle->state, memory_order_relaxed);
  struct bucket bucket;
  do {
    bucket = bucket_unpack(state);
    bucket.tokens_milli = bucket.tokens_milli > TOKEN_MILLI ? bucket.tokens_milli - TOKEN_MILLI : 0;
  } while (!atomic_compare_exchange_weak_explicit(&throttle->state, &state, bucket_pack(bucket),
                                                  memory_order_relaxed, memory_order_relaxed));
  return bucket.tokens_milli > bucket.max_milli / 2; /* exact: max_milli is a multiple of 1000 */
}

void weir_throttle_record_success(weir_throttle *throttle) {
  uint64_t state = atomic_load_explicit(&throttle->state, memory_order_relaxed);
  struct bucket bucket;
  do {
    bucket = bucket_unpack(state);
    if (bucket.tokens_milli == bucket.max_milli) {
      return; /* the usual case writes nothing, so that cores don't share the line */
    }
    uint32_t room_milli = bucket.max_milli - bucket.tokens_milli;
    bucket.tokens_milli += bucket.ratio_milli < room_milli ? bucket.ratio_milli : room_milli;
  } while (!atomic_compare_exchange_weak_explicit(&throttle->state, &state, bucket_pack(bucket),
                                                  memory_order_relaxed, memory_order_relaxed));
}

uint32_t weir_throttle_tokens_milli(const weir_throttle *throttle) {
  return bucket_unpack(atomic_load_explicit(&throttle->state, memory_order_relaxed)).tokens_milli;
}

static char lower_ascii(char byte) {
  return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static bool starts_with(const char *text, const char *lower_prefix) {
  for (; *lower_prefix != '\0'; text++, lower_prefix++) {
    if (lower_ascii(*text) != *lower_prefix) {
      return false;
    }
  }
  return true;
}

/* Where the server's name begins in a target: behind the scheme and authority of
 * "dns://resolver/host", and behind the schemes of plain addresses. Other schemes (unix, xds, ...)
 * name other servers and stay. */
static const char *name_of(const char *target) {
  static const char *const schemes[] = {"dns:", "ipv4:", "ipv6:"};
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
    if (!starts_with(target, schemes[i])) {
      continue;
    }
    const char *path = target + strlen(schemes[i]);
    if (path[0] == '/' && path[1] == '/') {
      const char *authority_end = strchr(path + 2, '/');
      path = authority_end != NULL ? authority_end : path + strlen(path);
    }
    while (*path == '/') {
      path++;
    }
    return *path != '\0' ? path : target;
  }
  return target;
}

/* Paths of unix sockets tell upper from lower case; host names don't. */
static bool keeps_case(const char *name) {
  return starts_with(name, "unix");
}

static weir_throttle *throttle_new(const char *target, struct bucket bucket) {
  const char *name = name_of(target);
  size_t size = strlen(name) + 1;
  weir_throttle *throttle = malloc(sizeof *throttle + size);
  if (throttle == NULL) {
    return NULL;
  }
  bool cased = keeps_case(name);
  for (size_t i = 0; i < size; i++) {
    throttle->name[i] = cased ? name[i] : lower_ascii(name[i]);
  }
  throttle->next = NULL;
  throttle->n_shares = 1;
  atomic_init(&throttle->state, bucket_pack(bucket));
  return throttle;
}

static weir_throttle *registry_find_locked(const char *name) {
  weir_throttle *throttle = registry.first;
  while (throttle != NULL && strcmp(throttle->name, name) != 0) {
    throttle = throttle->next;
  }
  return throttle;
}

enum weir_error weir_throttle_acquire(const char *target, uint32_t max_tokens,
                                      uint32_t token_ratio_milli, weir_throttle **throttle_out) {
  *throttle_out = NULL;
  if (max_tokens == 0 || max_tokens > WEIR_THROTTLE_MAX_TOKENS || token_ratio_milli == 0) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  struct bucket wanted = bucket_full(max_tokens, token_ratio_milli);
  weir_throttle *fresh = throttle_new(target, wanted);
  if (fresh == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  (void)pthread_mutex_lock(&registry.mutex);
  weir_throttle *found = registry_find_locked(fresh->name);
  if (found != NULL) {
    found->n_shares++;
    throttle_reconfigure(found, wanted);
    *throttle_out = found;
  } else {
    fresh->next = registry.first;
    registry.first = fresh;
    *throttle_out = fresh;
  }
  (void)pthread_mutex_unlock(&registry.mutex);
  if (found != NULL) {
    free(fresh);
  }
  return WEIR_OK;
}

void weir_throttle_ref(weir_throttle *throttle) {
  (void)pthread_mutex_lock(&registry.mutex);
  throttle->n_shares++;
  (void)pthread_mutex_unlock(&registry.mutex);
}

static void registry_remove_locked(const weir_throttle *throttle) {
  weir_throttle **link = &registry.first;
  while (*link != throttle) {
    link = &(*link)->next;
  }
  *link = throttle->next;
}

void weir_throttle_release(weir_throttle *throttle) {
  if (throttle == NULL) {
    return;
  }
  (void)pthread_mutex_lock(&registry.mutex);
  bool last = --throttle->n_shares == 0;
  if (last) {
    registry_remove_locked(throttle);
  }
  (void)pthread_mutex_unlock(&registry.mutex);
  if (last) {
    free(throttle);
  }
}
