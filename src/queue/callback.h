/* callback – functors that are run when their batches are over: by threads of the queue's own, and
 * by those in weir_completion_queue_poll.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_CALLBACK_H
#define WEIR_SRC_QUEUE_CALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "src/queue/queue.h"

struct weir__callbacks;

/* NULL when there is no memory. `n_threads` as n_callback_threads of the options. */
struct weir__callbacks *weir__callbacks_new(const struct weir_allocator *allocator,
                                            grpc_completion_queue_functor *shutdown_callback,
                                            uint32_t n_threads);

/* NULL is allowed. */
void weir__callbacks_free(struct weir__callbacks *callbacks,
                          const struct weir_allocator *allocator);

/* Starts the queue's own threads. False: there is one too few; the shutdown callback is not run any
 * more, and the queue is to be destroyed. */
bool weir__callbacks_start(weir_completion_queue *queue);

/* The queue has been shut down: waits until all has been run. */
void weir__callbacks_end(weir_completion_queue *queue);

#endif /* WEIR_SRC_QUEUE_CALLBACK_H */
