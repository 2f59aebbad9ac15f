/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/slab.h"

#include <string.h>

#include "src/base/allocator.h"

/* The pool grows by this part of itself. */
#define GROWTH_DIVISOR 16

/* In front of the blocks of its region. At the start of a line, so that the number of a block fits
 * into the address. */
struct weir__slab {
  _Atomic uint64_t free_blocks;      /* bit n: block n is free */
  _Atomic(struct weir__slab *) next; /* a ring, so that a search can start at the hint */
  char *blocks;
  _Atomic int64_t times_ns[]; /* of each block */
};

/* At the end of each block that is taken: its slab's address, and in the low bits its number. */
typedef uintptr_t block_home;

_Static_assert(sizeof(block_home) == WEIR__SLAB_OWN_BYTES, "that is all");

_Static_assert(WEIR__SLAB_MAX_BLOCKS <= WEIR__SLAB_LINE_BYTES, "a number fits into the low bits");

/* Stands for a region while nothing is owned. */
static const struct weir__slab_region no_region = {.first = 0, .n_bytes = 0};

static size_t round_up(size_t n_bytes) {
  return (n_bytes + WEIR__SLAB_LINE_BYTES - 1) / WEIR__SLAB_LINE_BYTES * WEIR__SLAB_LINE_BYTES;
}

void weir__slab_pool_init(struct weir__slab_pool *pool, const struct weir_allocator *allocator,
                          size_t n_blocks, size_t block_bytes) {
  memset(pool, 0, sizeof *pool);
  pool->allocator = allocator;
  atomic_init(&pool->last_owned, &no_region);
  pool->n_blocks = n_blocks;
  pool->block_bytes = round_up(block_bytes + sizeof(block_home));
  pthread_mutex_init(&pool->grow_lock, NULL);
}

void weir__slab_pool_fini(struct weir__slab_pool *pool) {
  struct weir__slab_region *region = atomic_load_explicit(&pool->newest, memory_order_relaxed);
  while (region != NULL) {
    struct weir__slab_region *older = region->older;
    weir__free(pool->allocator, region->memory);
    region = older;
  }
  pthread_mutex_destroy(&pool->grow_lock);
}

/* --- regions --- */

/* How many of the regions begin at `address` or before it. */
static size_t n_regions_to(const struct weir__slab_region *newest, uintptr_t address) {
  size_t low = 0;
  size_t high = newest->n_regions;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (newest->by_address[middle]->first <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

bool weir__slab_is_owned(struct weir__slab_pool *pool, uintptr_t address) {
  /* acquire: the regions, published when the newest was made. A tag that is ours was handed to the
   * core after that. */
  const struct weir__slab_region *newest =
      atomic_load_explicit(&pool->newest, memory_order_acquire);
  size_t n = newest == NULL ? 0 : n_regions_to(newest, address);
  if (n == 0) {
    return false;
  }
  const struct weir__slab_region *region = newest->by_address[n - 1];
  if (address - region->first >= region->n_bytes) {
    return false;
  }
  /* release: the region, for who is told of it so */
  atomic_store_explicit(&pool->last_owned, region, memory_order_release);
  return true;
}

/* What a region consists of. */
struct layout {
  size_t n_slabs; /* its own */
  size_t n_regions;
  size_t region_bytes;
  size_t slab_bytes; /* of a slab without its blocks */
  size_t blocks_bytes;
};

static struct layout next_layout(const struct weir__slab_pool *pool,
                                 const struct weir__slab_region *newest) {
  struct layout layout = {.n_slabs = 1, .n_regions = 1};
  if (newest != NULL) {
    layout.n_slabs += newest->n_slabs / GROWTH_DIVISOR;
    layout.n_regions += newest->n_regions;
  }
  layout.region_bytes = round_up(sizeof(struct weir__slab_region) +
                                 layout.n_regions * sizeof(struct weir__slab_region *));
  layout.slab_bytes =
      round_up(sizeof(struct weir__slab) + pool->n_blocks * sizeof(_Atomic int64_t));
  layout.blocks_bytes = layout.n_slabs * pool->n_blocks * pool->block_bytes;
  return layout;
}

/* Makes a region beside `newest`. NULL when there is no memory. */
static struct weir__slab_region *region_new(const struct weir__slab_pool *pool,
                                            struct weir__slab_region *newest,
                                            const struct layout *layout) {
  size_t slabs_bytes = layout->n_slabs * layout->slab_bytes;
  void *memory = pool->allocator->allocate(pool->allocator->context,
                                           layout->region_bytes + slabs_bytes +
                                               layout->blocks_bytes + WEIR__SLAB_LINE_BYTES - 1);
  if (memory == NULL) {
    return NULL;
  }
  struct weir__slab_region *region = (struct weir__slab_region *)round_up((uintptr_t)memory);
  region->first = (uintptr_t)region + layout->region_bytes + slabs_bytes;
  region->n_bytes = layout->blocks_bytes;
  region->memory = memory;
  region->older = newest;
  region->n_slabs = layout->n_slabs + (newest == NULL ? 0 : newest->n_slabs);
  region->n_regions = layout->n_regions;
  size_t n_before = newest == NULL ? 0 : n_regions_to(newest, region->first);
  for (size_t i = 0; i < layout->n_regions; i++) {
    if (i == n_before) {
      region->by_address[i] = region;
    } else {
      region->by_address[i] = newest->by_address[i < n_before ? i : i - 1];
    }
  }
  return region;
}

static struct weir__slab *slab_at(const struct weir__slab_region *region,
                                  const struct layout *layout, size_t nth) {
  return (struct weir__slab *)((uintptr_t)region + layout->region_bytes + nth * layout->slab_bytes);
}

/* Makes the slabs of a region, which end where `after` is, a slab of the ring (NULL: at the first).
 * The first block of the first is taken. */
static struct weir__slab *slabs_init(const struct weir__slab_pool *pool,
                                     const struct weir__slab_region *region,
                                     const struct layout *layout, struct weir__slab *after) {
  const uint64_t all = UINT64_MAX >> (WEIR__SLAB_MAX_BLOCKS - pool->n_blocks);
  struct weir__slab *first = slab_at(region, layout, 0);
  struct weir__slab *next = after != NULL ? after : first;
  for (size_t nth = layout->n_slabs; nth-- > 0;) {
    struct weir__slab *slab = slab_at(region, layout, nth);
    atomic_init(&slab->free_blocks, nth == 0 ? all - 1 : all);
    atomic_init(&slab->next, next);
    slab->blocks = (char *)region->first + nth * pool->n_blocks * pool->block_bytes;
    for (size_t i = 0; i < pool->n_blocks; i++) {
      atomic_init(&slab->times_ns[i], WEIR__SLAB_NEVER);
    }
    next = slab;
  }
  return first;
}

/* Adds slabs behind `ring` (NULL: they are the first). The first block of the result is the
 * caller's: others might take all of them before he looks. NULL when there is no memory. */
static struct weir__slab *grow_locked(struct weir__slab_pool *pool, struct weir__slab *ring) {
  /* relaxed: regions and ring are written under the lock */
  struct weir__slab_region *newest = atomic_load_explicit(&pool->newest, memory_order_relaxed);
  struct layout layout = next_layout(pool, newest);
  struct weir__slab_region *region = region_new(pool, newest, &layout);
  if (region == NULL) {
    return NULL;
  }
  struct weir__slab *after =
      ring != NULL ? atomic_load_explicit(&ring->next, memory_order_relaxed) : NULL;
  struct weir__slab *first = slabs_init(pool, region, &layout, after);
  /* release: pairs with the acquire in is_owned. Before the ring, so that no block is out before its
   * address is known. */
  atomic_store_explicit(&pool->newest, region, memory_order_release);
  if (ring != NULL) {
    /* Who finds the slabs in the ring sees them whole, and the region. In one order with the times:
     * who looks through them after one of these slabs was set finds the slab. */
    atomic_store(&ring->next, first);
  }
  return first;
}

/* --- blocks --- */

static void *block_of(const struct weir__slab_pool *pool, struct weir__slab *slab, size_t number) {
  return slab->blocks + number * pool->block_bytes;
}

static block_home *home_of(const struct weir__slab_pool *pool, const void *block) {
  return (block_home *)((uintptr_t)block + pool->block_bytes - sizeof(block_home));
}

/* The block is the caller's. */
static void *block_taken(const struct weir__slab_pool *pool, struct weir__slab *slab,
                         size_t number) {
  void *block = block_of(pool, slab, number);
  *home_of(pool, block) = (uintptr_t)slab | number;
  return block;
}

static struct weir__slab *slab_of(block_home home) {
  return (struct weir__slab *)(home & ~(block_home)(WEIR__SLAB_LINE_BYTES - 1));
}

static size_t number_of(block_home home) {
  return home & (WEIR__SLAB_LINE_BYTES - 1);
}

static void *slab_try_take(const struct weir__slab_pool *pool, struct weir__slab *slab) {
  uint64_t free_blocks = atomic_load_explicit(&slab->free_blocks, memory_order_relaxed);
  while (free_blocks != 0) {
    size_t number = (size_t)__builtin_ctzll(free_blocks);
    /* acquire: pairs with the release in give, whose thread wrote the block before */
    if (atomic_compare_exchange_weak_explicit(&slab->free_blocks, &free_blocks,
                                              free_blocks & (free_blocks - 1), memory_order_acquire,
                                              memory_order_relaxed)) {
      return block_taken(pool, slab, number);
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
      block = block_taken(pool, slab, 0);
      atomic_store_explicit(&pool->hint, slab, memory_order_release); /* publishes the slab */
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

void weir__slab_give(struct weir__slab_pool *pool, void *block) {
  block_home home = *home_of(pool, block);
  struct weir__slab *slab = slab_of(home);
  /* release: the next owner sees the block as this one left it */
  uint64_t before = atomic_fetch_or_explicit(&slab->free_blocks, UINT64_C(1) << number_of(home),
                                             memory_order_release);
  if (before == 0) {
    atomic_store_explicit(&pool->hint, slab, memory_order_release);
  }
}

/* --- times --- */

_Atomic int64_t *weir__slab_time_of(const struct weir__slab_pool *pool, const void *block) {
  block_home home = *home_of(pool, block);
  return &slab_of(home)->times_ns[number_of(home)];
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
  for (size_t i = 0; i < pool->n_blocks; i++) {
    if (atomic_load(&slab->times_ns[i]) != WEIR__SLAB_NEVER) {
      visit(context, block_of(pool, slab, i), &slab->times_ns[i]);
    }
  }
  walk->n_blocks += pool->n_blocks;
  slab = atomic_load(&slab->next);
  walk->slab = slab != walk->first ? slab : NULL;
  return true;
}
