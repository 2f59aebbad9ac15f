/* slab – memory for calls in blocks of one size, told from any other address without reading it.
 *
 * Taking and giving back is lock-free in the steady state. Memory goes back to the allocator only
 * with the whole pool, so the set of slabs only grows, and can be asked without a lock. It grows by
 * a sixteenth, so that little is had that is not used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_SLAB_H
#define WEIR_SRC_QUEUE_SLAB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>

struct weir__slab;

#define WEIR__SLAB_MAX_BLOCKS 64 /* the bits of a mask */

#define WEIR__SLAB_LINE_BYTES 64 /* of a cache; each block begins with one */

/* Of a block that has no time to mind. */
#define WEIR__SLAB_NEVER INT64_MAX

/* One allocation: slabs, and all of their blocks, in a row. */
struct weir__slab_region {
  uintptr_t first; /* of the blocks */
  uintptr_t n_bytes;
  void *memory;
  struct weir__slab_region *older; /* the one that was added before; NULL = none */
  size_t n_slabs;                  /* of the pool, with these */

  /* All that the pool had with this one. A reader may be in those of older ones, which stay. */
  size_t n_regions;
  const struct weir__slab_region *by_address[];
};

struct weir__slab_pool {
  /* where weir__slab_owns found the last one; an empty one at first */
  _Atomic(const struct weir__slab_region *) last_owned;
  _Atomic(struct weir__slab *) hint;          /* where a free block was last seen */
  _Atomic(struct weir__slab_region *) newest; /* NULL = none */
  const struct weir_allocator *allocator;
  size_t block_bytes;        /* with what the pool has of it; a multiple of a line */
  size_t n_blocks;           /* of a slab */
  pthread_mutex_t grow_lock; /* taken only to add slabs */
};

/* What the pool has of each block: where it belongs to. */
#define WEIR__SLAB_OWN_BYTES sizeof(uintptr_t)

/* `n_blocks` is how many a slab has, the least that is asked of the allocator at once: 1 to
 * WEIR__SLAB_MAX_BLOCKS. */
void weir__slab_pool_init(struct weir__slab_pool *pool, const struct weir_allocator *allocator,
                          size_t n_blocks, size_t block_bytes);

/* Every block has been given back. */
void weir__slab_pool_fini(struct weir__slab_pool *pool);

/* NULL when there is no memory. Not zeroed. */
void *weir__slab_take(struct weir__slab_pool *pool);

void weir__slab_give(struct weir__slab_pool *pool, void *block);

/* A time that goes with a block, WEIR__SLAB_NEVER at first. It lies apart from the block, so that
 * others may look at it whoever has the block. */
_Atomic int64_t *weir__slab_time_of(const struct weir__slab_pool *pool, const void *block);

/* Where a walk through the times has got to. Zeroed: it has not begun. */
struct weir__slab_walk {
  struct weir__slab *first;
  struct weir__slab *slab; /* the next */
  size_t n_blocks;         /* that have been passed */
};

/* Of a block whose time is not WEIR__SLAB_NEVER. */
typedef void weir__slab_visit_fn(void *context, void *block, _Atomic int64_t *time_ns);

/* Takes a walk on by one slab. False: there was none, since the walk is at its end. Blocks may be
 * taken and given, and slabs added, meanwhile. Slabs that were there when it began are passed once. */
bool weir__slab_walk_on(const struct weir__slab_pool *pool, struct weir__slab_walk *walk,
                        weir__slab_visit_fn *visit, void *context);

/* Whether `address` is one of a block's, of any region of the pool. */
bool weir__slab_is_owned(struct weir__slab_pool *pool, uintptr_t address);

/* Whether `address` lies inside a block of the pool, where a pointer may, and not where a cache line
 * begins: the address of the block itself is what its user shows to others, who may give it any
 * meaning, also with a mark in its lowest bits. Never dereferences it. */
static inline bool weir__slab_owns(struct weir__slab_pool *pool, const void *address) {
  /* acquire: the region */
  const struct weir__slab_region *last =
      atomic_load_explicit(&pool->last_owned, memory_order_acquire);
  return ((uintptr_t)address - last->first < last->n_bytes ||
          weir__slab_is_owned(pool, (uintptr_t)address)) &&
         (uintptr_t)address % WEIR__SLAB_LINE_BYTES != 0 &&
         (uintptr_t)address % sizeof(void *) == 0;
}

#endif /* WEIR_SRC_QUEUE_SLAB_H */
