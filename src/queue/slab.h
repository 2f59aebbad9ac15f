/* slab – memory for calls in blocks of one size, told from any other address without reading it.
 *
 * Taking and giving back is lock-free in the steady state. Memory goes back to the allocator only
 * with the whole pool, so the set of slabs only grows, and can be asked without a lock.
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

struct weir__slab_index;

/* In front of a slab's blocks. */
#define WEIR__SLAB_HEADER_BYTES 576

#define WEIR__SLAB_MAX_BLOCKS 64 /* the bits of a mask */

/* Of a block that has no time to mind. */
#define WEIR__SLAB_NEVER INT64_MAX

struct weir__slab_pool {
  _Atomic(uintptr_t) last_owned; /* the slab that weir__slab_owns found last; none at first */
  uintptr_t slab_mask;           /* of an address: which slab */
  uintptr_t block_mask;          /* of an address less the header: where in its block */
  size_t block_bytes;            /* a power of two, at least the cache line */
  unsigned block_shift;          /* which one */
  size_t slab_bytes;             /* a power of two; slabs are aligned to it */
  const struct weir_allocator *allocator;
  _Atomic(struct weir__slab *) hint;        /* where a free block was last seen */
  _Atomic(struct weir__slab_index *) index; /* by address; when it grows, the old ones stay */
  pthread_mutex_t grow_lock;                /* taken only to add slabs */
  struct weir__slab *allocations;           /* guarded by grow_lock */
};

/* `slab_bytes` holds at least one block and the slab's own header. */
void weir__slab_pool_init(struct weir__slab_pool *pool, const struct weir_allocator *allocator,
                          size_t slab_bytes, size_t block_bytes);

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

/* Whether a slab of the pool begins at `base`. */
bool weir__slab_is_owned(struct weir__slab_pool *pool, uintptr_t base);

/* Whether `address` lies inside a block of the pool, behind its first byte: the address of the
 * block itself is what its user shows to others, who may give it any meaning. Never dereferences
 * it. */
static inline bool weir__slab_owns(struct weir__slab_pool *pool, const void *address) {
  uintptr_t base = (uintptr_t)address & pool->slab_mask;
  /* relaxed: a slab that was ever found stays one */
  return (base == atomic_load_explicit(&pool->last_owned, memory_order_relaxed) ||
          weir__slab_is_owned(pool, base)) &&
         (((uintptr_t)address - WEIR__SLAB_HEADER_BYTES) & pool->block_mask) != 0;
}

#endif /* WEIR_SRC_QUEUE_SLAB_H */
