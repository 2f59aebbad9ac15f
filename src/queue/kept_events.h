/* kept_events – the core's events that have come before the one they are for.
 *
 * A kept event is a completion without ops, so it can be in one list with those of batches. The
 * caller synchronises.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_QUEUE_KEPT_EVENTS_H
#define WEIR_SRC_QUEUE_KEPT_EVENTS_H

#include <stdbool.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>

#include "src/queue/completion.h"

struct weir__kept_chunk;

/* Zeroed = no room. */
struct weir__kept_events {
  struct weir__completion *free;
  struct weir__kept_chunk *chunks;
};

void weir__kept_events_fini(struct weir__kept_events *kept, const struct weir_allocator *allocator);

/* Room for some more events: allocated with no lock held, then added. NULL when there is no
 * memory. */
struct weir__kept_chunk *weir__kept_chunk_new(const struct weir_allocator *allocator);
void weir__kept_events_add(struct weir__kept_events *kept, struct weir__kept_chunk *chunk);

/* The event, which has a tag, as a completion. NULL when there is no room. */
struct weir__completion *weir__kept_events_keep(struct weir__kept_events *kept,
                                                const grpc_event *event);

static inline bool weir__completion_is_kept_event(const struct weir__completion *completion) {
  return completion->ops == NULL;
}

/* Takes the event out again. */
grpc_event weir__kept_events_take(struct weir__kept_events *kept,
                                  struct weir__completion *completion);

#endif /* WEIR_SRC_QUEUE_KEPT_EVENTS_H */
