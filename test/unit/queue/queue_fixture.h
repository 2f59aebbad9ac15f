/* queue_fixture – a completion queue over the real core, and batches whose end the test decides.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_UNIT_QUEUE_QUEUE_FIXTURE_H
#define WEIR_TEST_UNIT_QUEUE_QUEUE_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "src/queue/queue.h"

struct queue_fixture {
  weir_completion_queue *queue; /* NULL = the test has ended it */
  grpc_cq_completion_type type;
  grpc_completion_queue_functor *shutdown_callback; /* callback queues only */
  uint32_t n_callback_threads;
  grpc_call *lame; /* its empty batches are the core's events of the tests */
  struct weir_allocator allocator;
  atomic_size_t n_outstanding; /* of the allocator */
  atomic_size_t n_allowed;     /* allocations that still succeed */
  atomic_size_t n_handed_out;  /* batches */
  atomic_size_t n_let_go;      /* held batches */
};

/* A batch, in a block of the queue's. */
struct batch {
  struct queue_fixture *fixture;
  struct weir__completion completion;
  struct weir__timer timer;
  atomic_int n_rounds; /* events of the core that it takes to end it */
  bool success;        /* what a batch that ends without the core says */
};

/* A batch of the engine's own, in a block of the queue's. */
struct held_batch {
  struct queue_fixture *fixture;
  struct weir__held held;
  struct batch *ends[4]; /* what it ends when its event has come */
  size_t n_ends;
};

/* grpc_init must have been called. A queue for callbacks that is made so has no threads of its
 * own. */
void queue_fixture_init(struct queue_fixture *fixture, grpc_cq_completion_type type);

/* The same for callbacks, with threads of its own. */
void queue_fixture_init_callback(struct queue_fixture *fixture,
                                 grpc_completion_queue_functor *shutdown_callback,
                                 uint32_t n_callback_threads);

/* Shuts the queue down, expects that nothing is left in it, and that all memory has been given
 * back. */
void queue_fixture_fini(struct queue_fixture *fixture);

/* A queue is made as queue_fixture_init does, with as much memory as `n_allowed` says. NULL when it
 * ran out. */
weir_completion_queue *queue_fixture_new_queue(struct queue_fixture *fixture,
                                               grpc_cq_completion_type type);

/* A batch that one event of the core ends. It is given back when it is handed out. */
struct batch *batch_begin(struct queue_fixture *fixture, void *tag);

/* Posts the core's event for the batch. */
void batch_post(struct batch *batch);

/* Ends the batch without the core. */
void batch_end(struct batch *batch);

/* Has the batch's timer, due at `due_at_ns`, end the batch. */
void batch_end_at(struct batch *batch, int64_t due_at_ns);

/* A batch of the engine's own, which ends when it is posted, or when the queue closes. */
struct held_batch *held_begin(struct queue_fixture *fixture);
void held_post(struct held_batch *batch);

/* A foreign event, as of a server's or a raw call. */
void foreign_post(struct queue_fixture *fixture, void *tag);

/* The same, which says that it failed. */
void foreign_post_failed(struct queue_fixture *fixture, void *tag);

/* The same, of which the event is there at once. */
void foreign_post_failed_at_once(struct queue_fixture *fixture, void *tag);
void post_failed_at_once(grpc_completion_queue *core, void *tag);

gpr_timespec never(void);
gpr_timespec at_once(void);

/* `ms` from now, on the core's clock. */
gpr_timespec in_ms(int64_t ms);

/* `ms` from now, on the queue's clock. */
int64_t due_in_ms(const struct queue_fixture *fixture, int64_t ms);

/* A seeded generator of this thread's own (xorshift64). */
uint64_t random_next(uint64_t *seed);

/* Lets other threads run, or not. */
void random_yield(uint64_t *seed);

#endif /* WEIR_TEST_UNIT_QUEUE_QUEUE_FIXTURE_H */
