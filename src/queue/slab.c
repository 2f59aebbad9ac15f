/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/slab.h"

#include <string.h>

#include "src/base/allocator.h"

#define CACHE_LINE_BYTES 64
#define NO_SLAB ((uintptr_t)1) /* not the address of any */
#define FIRST_INDEX_LENGTH 16
#define MAX_SLABS_A_GROWTH 32 /* the pool doubles until then, so that aligning wastes little */

/* At the start of each slab; its blocks follow. */
struct weir__slab {
  _Atomic uint64_t free_blocks;      /* bit n: block n is free */
  _Atomic(struct weir__slab *) next; /* a ring, so that a search can start at the hint */
  void *memory; /* the allocation of this slab and of those that came with it; NULL in those */
  struct weir__slab *next_owner; /* the pool's list of slabs with `memory` */
  _Atomic int64_t times_ns[WEIR__SLAB_MAX_BLOCKS];
};

_Static_assert(sizeof(struct weir__slab) <= WEIR__SLAB_HEADER_BYTES, "the header is too large");

/* An open-addressed set of slabs. Readers go without a lock: entries are only ever added, and a
 * larger index replaces a smaller one, which stays until the pool ends because a reader may be in
 * it. */
struct weir__slab_index {
  struct weir__slab_index *older;
  size_t length; /* a power of two, at most half full */
  size_t n_slabs;
  _Atomic(uintptr_t) slabs[];
};

static size_t index_start(const struct weir__slab_pool *pool, uintptr_t base, size_t length) {
  uint64_t hash = (uint64_t)(base / pool->slab_bytes) * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(hash >> 32) & (length - 1);
}

void weir__slab_pool_init(struct weir__slab_pool *pool, const struct weir_allocator *allocator,
                          size_t slab_bytes, size_t block_bytes) {
  memset(pool, 0, sizeof *pool);
  pool->allocator = allocator;
  pool->slab_bytes = slab_bytes;
  atomic_init(&pool->last_owned, NO_SLAB);
  pool->slab_mask = ~(uintptr_t)(slab_bytes - 1);
  pool->block_bytes = CACHE_LINE_BYTES;
  while (pool->block_bytes < block_bytes) {
    pool->block_bytes *= 2;
  }
  pool->block_mask = pool->block_bytes - 1;
  pool->block_shift = (unsigned)__builtin_ctzll(pool->block_bytes);
  pthread_mutex_init(&pool->grow_lock, NULL);
}

void weir__slab_pool_fini(struct weir__slab_pool *pool) {
  struct weir__slab *owner = pool->allocations;
  while (owner != NULL) {
    struct weir__slab *next = owner->next_owner;
    weir__free(pool->allocator, owner->memory);
    owner = next;
  }
  struct weir__slab_index *index = atomic_load_explicit(&pool->index, memory_order_relaxed);
  while (index != NULL) {
    struct weir__slab_index *older = index->older;
    weir__free(pool->allocator, index);
    index = older;
  }
  pthread_mutex_destroy(&pool->grow_lock);
}

static bool index_contains(const struct weir__slab_pool *pool, struct weir__slab_index *index,
                           uintptr_t base) {
  for (size_t i = index_start(pool, base, index->length);; i = (i + 1) & (index->length - 1)) {
    uintptr_t found = atomic_load_explicit(&index->slabs[i], memory_order_relaxed);
    if (found == base) {
      return true;
    }
    if (found == 0) {
      return false;
    }
  }
}

bool weir__slab_is_owned(struct weir__slab_pool *pool, uintptr_t base) {
  /* acquire: the index's contents, published when it was made. A tag that is ours was handed to the
   * core after that. */
  struct weir__slab_index *index = atomic_load_explicit(&pool->index, memory_order_acquire);
  if (index == NULL || base == 0 || !index_contains(pool, index, base)) {
    return false;
  }
  atomic_store_explicit(&pool->last_owned, base, memory_order_relaxed);
  return true;
}

static void index_put(const struct weir__slab_pool *pool, struct weir__slab_index *index,
                      uintptr_t base) {
  size_t i = index_start(pool, base, index->length);
  while (atomic_load_explicit(&index->slabs[i], memory_order_relaxed) != 0) {
    i = (i + 1) & (index->length - 1);
  }
  atomic_store_explicit(&index->slabs[i], base, memory_order_relaxed);
  index->n_slabs++;
}

/* Makes sure that `n_more` slabs fit; false when there is no memory. */
static bool index_reserve_locked(struct weir__slab_pool *pool, size_t n_more) {
  /* relaxed: written under the lock */
  struct weir__slab_index *index = atomic_load_explicit(&pool->index, memory_order_relaxed);
  size_t n_slabs = (index == NULL ? 0 : index->n_slabs) + n_more;
  size_t length = index == NULL ? FIRST_INDEX_LENGTH : index->length;
  if (index != NULL && n_slabs * 2 <= length) {
    return true;
  }
  while (n_slabs * 2 > length) {
    length *= 2;
  }
  struct weir__slab_index *larger =
      weir__zalloc(pool->allocator, sizeof *larger + length * sizeof(larger->slabs[0]));
  if (larger == NULL) {
    return false;
  }
  larger->older = index;
  larger->length = length;
  for (size_t i = 0; index != NULL && i < index->length; i++) {
    uintptr_t base = atomic_load_explicit(&index->slabs[i], memory_order_relaxed);
    if (base != 0) {
      index_put(pool, larger, base);
    }
  }
  atomic_store_explicit(&pool->index, larger,
                        memory_order_release); /* pairs with the acquire in owns */
  return true;
}

/* Puts a slab at `base` into the index and then, so that no block of it is out before its address
 * is known, into the ring behind `ring` (NULL: it is the first). `taken`: the blocks that are not
 * free. */
static struct weir__slab *slab_add_locked(struct weir__slab_pool *pool, uintptr_t base,
                                          struct weir__slab *ring, uint64_t taken) {
  struct weir__slab *slab = (struct weir__slab *)base;
  size_t n_blocks = (pool->slab_bytes - WEIR__SLAB_HEADER_BYTES) / pool->block_bytes;
  uint64_t all = n_blocks >= WEIR__SLAB_MAX_BLOCKS ? UINT64_MAX : (UINT64_C(1) << n_blocks) - 1;
  memset(slab, 0, sizeof *slab);
  atomic_init(&slab->free_blocks, all & ~taken);
  atomic_init(&slab->next, slab);
  for (size_t i = 0; i < WEIR__SLAB_MAX_BLOCKS; i++) {
    atomic_init(&slab->times_ns[i], WEIR__SLAB_NEVER);
  }
  /* relaxed: the index and the ring are written under the lock */
  index_put(pool, atomic_load_explicit(&pool->index, memory_order_relaxed), base);
  if (ring != NULL) {
    atomic_init(&slab->next, atomic_load_explicit(&ring->next, memory_order_relaxed));
    /* Who finds the slab in the ring sees its header, and the index. In one order with the times:
     * who looks through them after one of this slab was set finds the slab. */
    atomic_store(&ring->next, slab);
  }
  return slab;
}

/* Adds as many slabs as there are, within a limit. The first block of the result is the caller's:
 * others might take all of them before he looks. NULL when there is no memory. */
static struct weir__slab *grow_locked(struct weir__slab_pool *pool, struct weir__slab *ring) {
  struct weir__slab_index *index = atomic_load_explicit(&pool->index, memory_order_relaxed);
  size_t n_slabs = index == NULL || index->n_slabs == 0 ? 1 : index->n_slabs;
  if (n_slabs > MAX_SLABS_A_GROWTH) {
    n_slabs = MAX_SLABS_A_GROWTH;
  }
  if (!index_reserve_locked(pool, n_slabs)) {
    return NULL;
  }
  void *memory =
      pool->allocator->allocate(pool->allocator->context, (n_slabs + 1) * pool->slab_bytes);
  if (memory == NULL) {
    return NULL;
  }
  uintptr_t base = ((uintptr_t)memory + pool->slab_bytes - 1) & ~(uintptr_t)(pool->slab_bytes - 1);
  struct weir__slab *first = slab_add_locked(pool, base, ring, 1);
  first->memory = memory;
  first->next_owner = pool->allocations;
  pool->allocations = first;
  for (size_t i = 1; i < n_slabs; i++) {
    (void)slab_add_locked(pool, base + i * pool->slab_bytes, first, 0);
  }
  return first;
}

static void *block_of(const struct weir__slab_pool *pool, struct weir__slab *slab, int block) {
  return (char *)slab + WEIR__SLAB_HEADER_BYTES + (size_t)block * pool->block_bytes;
}

static void *slab_try_take(const struct weir__slab_pool *pool, struct weir__slab *slab) {
  uint64_t free_blocks = atomic_load_explicit(&slab->free_blocks, memory_order_relaxed);
  while (free_blocks != 0) {
    int block = __builtin_ctzll(free_blocks);
    /* acquire: pairs with the release in give, whose thread wrote the block before */
    if (atomic_compare_exchange_weak_explicit(&slab->free_blocks, &free_blocks,
                                              free_blocks & (free_blocks - 1), memory_order_acquire,
                                              memory_order_relaxed)) {
      return block_of(pool, slab, block);
    }
  }
  return NULL;
}

static void *ring_try_take(struct weir__slab_pool *pool, struct weir__slab *first) {
  struct weir__slab *slab = first;
  do {
    void *block = slab_try_take(pool, slab);
    if (block != NULL) {
      if (slab != first) {
        atomic_store_explicit(&pool->hint, slab, memory_order_release);
      }
      return block;
    }
    slab = atomic_load_explicit(&slab->next, memory_order_acquire);
  } while (slab != first);
  return NULL;
}

static void *grow_and_take(struct weir__slab_pool *pool, const struct weir__slab *seen) {
  void *block = NULL;
  pthread_mutex_lock(&pool->grow_lock);
  struct weir__slab *hint = atomic_load_explicit(&pool->hint, memory_order_acquire);
  if (hint != NULL && hint != seen) {
    block = slab_try_take(pool, hint); /* another thread has grown the pool meanwhile */
  }
  if (block == NULL) {
    struct weir__slab *slab = grow_locked(pool, hint);
    if (slab != NULL) {
      block = block_of(pool, slab, 0);
      atomic_store_explicit(&pool->hint, slab,
                            memory_order_release); /* publishes the slab and the index */
    }
  }
  pthread_mutex_unlock(&pool->grow_lock);
  return block;
}

void *weir__slab_take(struct weir__slab_pool *pool) {
  struct weir__slab *hint = atomic_load_explicit(&pool->hint, memory_order_acquire);
  void *block = hint != NULL ? slab_try_take(pool, hint) : NULL;
  if (block == NULL && hint != NULL) {
    block = ring_try_take(pool, hint);
  }
  return block != NULL ? block : grow_and_take(pool, hint);
}

static struct weir__slab *slab_of(const struct weir__slab_pool *pool, const void *block) {
  return (struct weir__slab *)((uintptr_t)block & pool->slab_mask);
}

static size_t number_of(const struct weir__slab_pool *pool, const void *block) {
  uintptr_t offset = ((uintptr_t)block & ~pool->slab_mask) - WEIR__SLAB_HEADER_BYTES;
  return offset >> pool->block_shift;
}

void weir__slab_give(struct weir__slab_pool *pool, void *block) {
  struct weir__slab *slab = slab_of(pool, block);
  size_t number = number_of(pool, block);
  /* release: the next owner sees the block as this one left it */
  uint64_t before =
      atomic_fetch_or_explicit(&slab->free_blocks, UINT64_C(1) << number, memory_order_release);
  if (before == 0) {
    atomic_store_explicit(&pool->hint, slab, memory_order_release);
  }
}

/* --- times --- */

_Atomic int64_t *weir__slab_time_of(const struct weir__slab_pool *pool, const void *block) {
  return &slab_of(pool, block)->times_ns[number_of(pool, block)];
}

bool weir__slab_walk_on(const struct weir__slab_pool *pool, struct weir__slab_walk *walk,
                        weir__slab_visit_fn *visit, void *context) {
  if (walk->first == NULL) {
    walk->first = atomic_load_explicit(&pool->hint, memory_order_acquire);
    walk->slab = walk->first;
  }
  struct weir__slab *slab = walk->slab;
  if (slab == NULL) {
    return false;
  }
  size_t n_blocks = (pool->slab_bytes - WEIR__SLAB_HEADER_BYTES) / pool->block_bytes;
  n_blocks = n_blocks < WEIR__SLAB_MAX_BLOCKS ? n_blocks : WEIR__SLAB_MAX_BLOCKS;
  for (size_t i = 0; i < n_blocks; i++) {
    if (atomic_load(&slab->times_ns[i]) != WEIR__SLAB_NEVER) {
      visit(context, block_of(pool, slab, (int)i), &slab->times_ns[i]);
    }
  }
  walk->n_blocks += n_blocks;
  slab = atomic_load(&slab->next);
  walk->slab = slab != walk->first ? slab : NULL;
  return true;
}
