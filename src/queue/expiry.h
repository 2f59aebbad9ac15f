/* expiry – the times at which the calls of a queue are to be over, if they are not before.
 *
 * Nearly all calls are, so a time is one store when a call begins and one when it has ended, without
 * a lock, beside the call's block (src/queue/slab.h). The queue has a single timer, due when the
 * first of the times might be; it looks through the times then. A time that is nearer than the timer
 * arms it anew, as rarely as that is: times go on as calls do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_EXPIRY_H
#define WEIR_SRC_QUEUE_EXPIRY_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/completion_queue.h>

#include "src/queue/timer_heap.h"

/* What a time that has come means. One kind of block has times. */
struct weir__expiry_ops {
  /* Sees to it that the block stays. The queue's lock is held. */
  void (*hold)(void *block);

  /* The time `at_ns` is up; ends the hold. In a thread that drains, without a lock. */
  void (*expire)(void *block, int64_t at_ns);
};

/* Of a queue. */
struct weir__expiry {
  _Atomic int64_t looks_at_ns; /* no time is nearer; WEIR_NO_DEADLINE = there is none */
  struct weir__timer timer;    /* due then; guarded by the queue's lock, as is: */
  const struct weir__expiry_ops *ops;
};

void weir__expiry_init(struct weir__expiry *expiry);

/* Has a block expire at `at_ns`, and no more when it was to before, unless that has been found to be
 * over. By its owner, one thread at a time, who owes a tag; the queue's lock is not held. */
void weir__queue_expire_at(weir_completion_queue *queue, void *block,
                           const struct weir__expiry_ops *ops, int64_t at_ns);

/* It does not expire any more: afterwards nobody but those who were given a hold looks at it. The
 * queue's lock is not held. */
void weir__queue_expire_never(weir_completion_queue *queue, void *block);

#endif /* WEIR_SRC_QUEUE_EXPIRY_H */
