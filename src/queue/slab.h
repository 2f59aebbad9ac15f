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

struct weir__slab_pool {
  const struct weir_allocator *allocator;
  size_t slab_bytes;                        /* a power of two; slabs are aligned to it */
  size_t block_bytes;                       /* a multiple of the cache line */
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

/* Whether `address` lies inside a block of the pool, behind its first byte: the address of the
 * block itself is what its user shows to others, who may give it any meaning. Never dereferences
 * it. */
bool weir__slab_owns(struct weir__slab_pool *pool, const void *address);

#endif /* WEIR_SRC_QUEUE_SLAB_H */
