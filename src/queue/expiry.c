/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/expiry.h"

#include <stdbool.h>
#include <stddef.h>

#include "src/base/container_of.h"
#include "src/queue/queue_state.h"
#include "src/time/instant.h"

/* So many are expired, by cancelling a call, before the thread that looks hands out what is there.
 */
#define AT_ONCE 32

/* A slab is passed as a whole. */
#define MAX_EXPIRED (AT_ONCE + WEIR__SLAB_MAX_BLOCKS - 1)

/* So many slabs are passed before the lock is let go for a moment, some 10 us. */
#define SLABS_A_LOCK 64

/* A block costs a look 2 ns or so: looks take a fifth of one thread's time at most. */
#define REST_NS_A_BLOCK 10

/* Before the times are looked through though none is up: a drain that minds a timer costs a hundred
 * instructions more, a block in a look some five. */
#define DRAINS_A_BLOCK 2
#define MAX_DRAINS (INT32_MAX / 2)

/* The time of a block that was found to be over: its owner waits for the look to end. */
#define TAKEN INT64_MIN

/* What a look has found, with the queue's lock. */
struct found {
  struct weir__expiry *expiry;
  int64_t now_ns;
  struct {
    void *block;
    int64_t at_ns;
  } expired[MAX_EXPIRED];
  size_t n_expired;
};

static void look_at(void *context, void *block, _Atomic int64_t *time_ns) {
  struct found *found = context;
  struct weir__expiry *expiry = found->expiry;
  int64_t at_ns = atomic_load(time_ns);
  if (at_ns == TAKEN) {
    return; /* by a look before this one */
  }
  if (at_ns > found->now_ns) {
    expiry->left_at_ns = weir__instant_min(expiry->left_at_ns, at_ns);
  } else if (atomic_compare_exchange_strong(time_ns, &at_ns, TAKEN)) {
    expiry->ops->hold(block);
    found->expired[found->n_expired].block = block;
    found->expired[found->n_expired++].at_ns = at_ns;
  }
}

/* Has a look begin, or go on, at `at_ns`. False: the queue has closed, so nobody waits for anything.
 */
static bool arm_locked(weir_completion_queue *queue, int64_t at_ns) {
  struct weir__timer *timer = &queue->expiry.timer;
  (void)weir__queue_disarm_locked(queue, timer);
  timer->due_at_ns = at_ns;
  return weir__queue_arm_lasting_locked(queue, timer);
}

static void count_drains_anew(struct weir__expiry *expiry, size_t n_blocks) {
  size_t n_drains = n_blocks * DRAINS_A_BLOCK;
  atomic_store_explicit(&expiry->n_drains_left,
                        n_drains < MAX_DRAINS ? (int32_t)n_drains : MAX_DRAINS,
                        memory_order_relaxed);
}

static void begin_locked(struct weir__expiry *expiry, int64_t now_ns) {
  expiry->is_looking = true;
  expiry->walk = (struct weir__slab_walk){.first = NULL};
  expiry->began_at_ns = now_ns;
  expiry->left_at_ns = WEIR_NO_DEADLINE;
  /* Before the look: who sets a time that the look does not see finds none that is nearer, and waits
   * for the lock. */
  atomic_store(&expiry->first_at_ns, WEIR_NO_DEADLINE);
}

/* True: the timer is armed, for the times that are left. */
static bool end_locked(weir_completion_queue *queue) {
  struct weir__expiry *expiry = &queue->expiry;
  int64_t first_at_ns = weir__instant_min(expiry->left_at_ns, atomic_load(&expiry->first_at_ns));
  expiry->is_looking = false;
  count_drains_anew(expiry, expiry->walk.n_blocks);
  expiry->rests_until_ns =
      weir__instant_add(expiry->began_at_ns, (int64_t)expiry->walk.n_blocks * REST_NS_A_BLOCK);
  atomic_store(&expiry->first_at_ns, first_at_ns);
  if (first_at_ns == WEIR_NO_DEADLINE) {
    return false;
  }
  return arm_locked(queue,
                    first_at_ns > expiry->rests_until_ns ? first_at_ns : expiry->rests_until_ns);
}

/* What comes of some slabs. */
enum progress { PROGRESS_GOES_ON, PROGRESS_IS_FULL, PROGRESS_AT_END };

static enum progress look_on_locked(weir_completion_queue *queue, struct found *found) {
  for (unsigned n_slabs = 0; n_slabs < SLABS_A_LOCK; n_slabs++) {
    if (!weir__slab_walk_on(&queue->blocks, &queue->expiry.walk, look_at, found)) {
      return PROGRESS_AT_END;
    }
    if (found->n_expired >= AT_ONCE) {
      return PROGRESS_IS_FULL;
    }
  }
  return PROGRESS_GOES_ON;
}

static void on_due(struct weir__timer *timer, int64_t now_ns) {
  weir_completion_queue *queue = WEIR__CONTAINER_OF(timer, weir_completion_queue, expiry.timer);
  struct weir__expiry *expiry = &queue->expiry;
  struct found found;
  found.expiry = expiry;
  found.now_ns = now_ns;
  found.n_expired = 0;
  weir__queue_lock(queue);
  if (!expiry->is_looking) {
    begin_locked(expiry, now_ns);
  }
  enum progress progress = look_on_locked(queue, &found);
  while (progress == PROGRESS_GOES_ON) {
    weir__queue_unlock(queue);
    weir__queue_lock(queue);
    progress = look_on_locked(queue, &found);
  }
  bool armed = progress == PROGRESS_IS_FULL ? arm_locked(queue, now_ns) : end_locked(queue);
  const struct weir__expiry_ops *ops = expiry->ops;
  weir__queue_unlock(queue);
  if (armed) {
    weir__queue_wake_for_timer(queue);
  }
  for (size_t i = 0; i < found.n_expired; i++) {
    ops->expire(found.expired[i].block, found.expired[i].at_ns);
  }
}

void weir__expiry_look_early(weir_completion_queue *queue) {
  struct weir__expiry *expiry = &queue->expiry;
  weir__queue_lock(queue);
  count_drains_anew(expiry, WEIR__SLAB_MAX_BLOCKS); /* so too if the timer is another's */
  bool was_armed = weir__queue_disarm_locked(queue, &expiry->timer);
  weir__queue_unlock(queue);
  if (was_armed) {
    on_due(&expiry->timer, weir__queue_now_ns(queue));
  }
}

void weir__expiry_init(struct weir__expiry *expiry) {
  count_drains_anew(expiry, WEIR__SLAB_MAX_BLOCKS);
  atomic_init(&expiry->first_at_ns, WEIR_NO_DEADLINE);
  expiry->rests_until_ns = INT64_MIN;
  expiry->timer.on_due = on_due;
  expiry->timer.lasting = true;
  expiry->timer.in_parts = true;
}

/* A time that is nearer than all others. */
static void look_sooner(weir_completion_queue *queue, const struct weir__expiry_ops *ops,
                        int64_t at_ns) {
  struct weir__expiry *expiry = &queue->expiry;
  bool armed = false;
  weir__queue_lock(queue);
  expiry->ops = ops;
  if (at_ns < atomic_load(&expiry->first_at_ns)) {
    atomic_store(&expiry->first_at_ns, at_ns);
    int64_t due_at_ns = at_ns > expiry->rests_until_ns ? at_ns : expiry->rests_until_ns;
    if (!expiry->is_looking && !(expiry->timer.armed && expiry->timer.due_at_ns <= due_at_ns)) {
      armed = arm_locked(queue, due_at_ns);
    }
  }
  weir__queue_unlock(queue);
  if (armed) {
    weir__queue_wake_for_timer(queue);
  }
}

static void time_set(weir_completion_queue *queue, void *block, int64_t at_ns) {
  if (atomic_exchange(weir__slab_time_of(&queue->blocks, block), at_ns) == TAKEN) {
    weir__queue_lock(queue); /* its hold has begun once the look is over */
    weir__queue_unlock(queue);
  }
}

void weir__queue_expire_at(weir_completion_queue *queue, void *block,
                           const struct weir__expiry_ops *ops, int64_t at_ns) {
  time_set(queue, block, at_ns);
  if (at_ns < atomic_load(&queue->expiry.first_at_ns)) {
    look_sooner(queue, ops, at_ns);
  }
}

void weir__queue_expire_never(weir_completion_queue *queue, void *block) {
  time_set(queue, block, WEIR__SLAB_NEVER);
}
