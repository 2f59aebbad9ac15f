/* expiry – the times at which the calls of a queue are to be over, if they are not before.
 *
 * Nearly all calls are, so a time is one store when a call begins and one when it has ended, without
 * a lock, beside the call's block (src/queue/slab.h). The queue has a single timer, due when the
 * first of the times might be; it looks through the times then. A time that is nearer than the timer
 * arms it anew, as rarely as that is: times go on as calls do.
 *
 * A look passes every block, so looks keep a distance that grows with their number: a time that
 * comes soon after a look may be found late, by a millisecond where there are 100,000 calls. What
 * expires by the thousand does so some at a time, between events that are handed out.
 *
 * While the timer is armed, who drains has to mind it; and most often all the calls that it is armed
 * for have ended. So after some drains, as many as make it cheap, a look is made whether any time is
 * left, though none is up.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_EXPIRY_H
#define WEIR_SRC_QUEUE_EXPIRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/completion_queue.h>

#include "src/queue/slab.h"
#include "src/queue/timer_heap.h"

/* What a time that has come means. One kind of block has times. */
struct weir__expiry_ops {
  /* Sees to it that the block stays. The queue's lock is held. */
  void (*hold)(void *block);

  /* The time `at_ns` is up; ends the hold. In a thread that drains, without a lock. */
  void (*expire)(void *block, int64_t at_ns);
};

/* Of a queue. What is not atomic is guarded by its lock. */
struct weir__expiry {
  /* No time is nearer; WEIR_NO_DEADLINE = there is none. While a look is on: no time that was set
   * since. */
  _Atomic int64_t first_at_ns;
  struct weir__timer timer;
  const struct weir__expiry_ops *ops;

  /* A look is on, in a thread or, with the timer armed, between two. */
  bool is_looking;
  struct weir__slab_walk walk;
  int64_t began_at_ns;
  int64_t left_at_ns; /* the first of the times that it has left */

  int64_t rests_until_ns; /* no look begins before, unless many drains have passed */

  /* Before the times are stale. Not exact: threads that meet may count as one. */
  _Atomic int32_t n_drains_left;
};

void weir__expiry_init(struct weir__expiry *expiry);

/* A thread drains while a timer is armed. True: so many have that a look is due. */
static inline bool weir__expiry_is_stale(struct weir__expiry *expiry) {
  int32_t n_left = atomic_load_explicit(&expiry->n_drains_left, memory_order_relaxed) - 1;
  atomic_store_explicit(&expiry->n_drains_left, n_left, memory_order_relaxed);
  return __builtin_expect(n_left < 0, 0);
}

/* Looks through the times, if there may be any, whether the first is up or not. */
void weir__expiry_look_early(weir_completion_queue *queue);

/* Has a block expire at `at_ns`, and no more when it was to before, unless that has been found to be
 * over. By its owner, one thread at a time, who owes a tag; the queue's lock is not held. */
void weir__queue_expire_at(weir_completion_queue *queue, void *block,
                           const struct weir__expiry_ops *ops, int64_t at_ns);

/* It does not expire any more: afterwards nobody but those who were given a hold looks at it. The
 * queue's lock is not held. */
void weir__queue_expire_never(weir_completion_queue *queue, void *block);

#endif /* WEIR_SRC_QUEUE_EXPIRY_H */
