/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/expiry.h"

#include <stdbool.h>
#include <stddef.h>

#include "src/base/container_of.h"
#include "src/queue/queue_state.h"
#include "src/time/instant.h"

/* So many are expired at once; the next look is for those that are left. */
#define AT_ONCE 32

/* The time of a block that was found to be over: its owner waits for the look to end. */
#define TAKEN INT64_MIN

/* A look through the times, with the queue's lock. */
struct look {
  const struct weir__expiry_ops *ops;
  int64_t now_ns;
  int64_t first_at_ns; /* of the times that are left */
  struct {
    void *block;
    int64_t at_ns;
  } expired[AT_ONCE];
  size_t n_expired;
};

static void look_at(void *context, void *block, _Atomic int64_t *time_ns) {
  struct look *look = context;
  int64_t at_ns = atomic_load(time_ns);
  if (at_ns == TAKEN) {
    return; /* by a look before this one */
  }
  if (at_ns > look->now_ns || look->n_expired == AT_ONCE) {
    look->first_at_ns = weir__instant_min(look->first_at_ns, at_ns);
  } else if (atomic_compare_exchange_strong(time_ns, &at_ns, TAKEN)) {
    look->ops->hold(block);
    look->expired[look->n_expired].block = block;
    look->expired[look->n_expired++].at_ns = at_ns;
  }
}

/* False: the queue has closed, so nobody waits for anything. */
static bool arm_locked(weir_completion_queue *queue, int64_t at_ns) {
  struct weir__timer *timer = &queue->expiry.timer;
  (void)weir__queue_disarm_locked(queue, timer);
  timer->due_at_ns = at_ns;
  return weir__queue_arm_lasting_locked(queue, timer);
}

static void on_due(struct weir__timer *timer, int64_t now_ns) {
  weir_completion_queue *queue = WEIR__CONTAINER_OF(timer, weir_completion_queue, expiry.timer);
  struct look look = {.now_ns = now_ns, .first_at_ns = WEIR_NO_DEADLINE};
  bool armed = false;
  weir__queue_lock(queue);
  look.ops = queue->expiry.ops;
  /* Before the look: who sets a time that the look does not see finds none that is nearer, and waits
   * for the lock. */
  atomic_store(&queue->expiry.looks_at_ns, WEIR_NO_DEADLINE);
  weir__slab_visit_times(&queue->blocks, look_at, &look);
  if (look.first_at_ns != WEIR_NO_DEADLINE) {
    atomic_store(&queue->expiry.looks_at_ns, look.first_at_ns);
    armed = arm_locked(queue, look.first_at_ns);
  }
  weir__queue_unlock(queue);
  if (armed) {
    weir__queue_wake_for_timer(queue);
  }
  for (size_t i = 0; i < look.n_expired; i++) {
    look.ops->expire(look.expired[i].block, look.expired[i].at_ns);
  }
}

void weir__expiry_init(struct weir__expiry *expiry) {
  atomic_init(&expiry->looks_at_ns, WEIR_NO_DEADLINE);
  expiry->timer.on_due = on_due;
  expiry->timer.lasting = true;
}

/* A time that is nearer than the next look. */
static void look_sooner(weir_completion_queue *queue, const struct weir__expiry_ops *ops,
                        int64_t at_ns) {
  bool armed = false;
  weir__queue_lock(queue);
  queue->expiry.ops = ops;
  if (at_ns < atomic_load(&queue->expiry.looks_at_ns)) {
    atomic_store(&queue->expiry.looks_at_ns, at_ns);
    armed = arm_locked(queue, at_ns);
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
  if (at_ns < atomic_load(&queue->expiry.looks_at_ns)) {
    look_sooner(queue, ops, at_ns);
  }
}

void weir__queue_expire_never(weir_completion_queue *queue, void *block) {
  time_set(queue, block, WEIR__SLAB_NEVER);
}
