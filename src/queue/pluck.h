/* pluck – threads that wait each for a tag of its own, over a core's queue that hands any thread
 * any event.
 *
 * One of them, the leader, drains for all of them. An event that is another's wakes that one; an
 * event that is nobody's is kept. Who leaves hands the lead on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_PLUCK_H
#define WEIR_SRC_QUEUE_PLUCK_H

#include <stdbool.h>

#include "src/queue/queue.h"

struct weir__pluckers;

/* NULL when there is no memory. */
struct weir__pluckers *weir__pluckers_new(const struct weir_allocator *allocator);

/* NULL is allowed. */
void weir__pluckers_free(struct weir__pluckers *pluckers);

/* Nobody waits, and nothing is left. */
bool weir__pluckers_are_done(const struct weir__pluckers *pluckers);

/* weir__queue_push_ready of this kind. */
void weir__pluckers_push_ready(weir_completion_queue *queue, struct weir__completion *completion);

#endif /* WEIR_SRC_QUEUE_PLUCK_H */
