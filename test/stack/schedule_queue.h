/* schedule_queue – the queues of a schedule: time passes while they are drained.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_QUEUE_H
#define WEIR_TEST_STACK_SCHEDULE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "test/stack/schedule_call.h"

void schedule_queue_open(struct schedule_world *world, size_t index, grpc_cq_completion_type type);

/* A tag for this queue, that is not owed yet. */
struct owed_tag schedule_queue_tag(struct schedule_world *world, size_t index, enum tag_kind kind,
                                   size_t call);

/* Drains all queues for so long. */
void schedule_queue_run(struct schedule_world *world, int64_t span_ns);

/* Takes one event that is there from the first queue. */
void schedule_queue_take(struct schedule_world *world);

void schedule_queue_shut_down(struct schedule_world *world, size_t index);

/* No call is left: fails if a block of the queue's is not free. */
void schedule_queue_check_blocks(struct schedule_world *world, size_t index);

/* Shut down before, with every tag out: fails unless the queue says so. */
void schedule_queue_close(struct schedule_world *world, size_t index);

#endif /* WEIR_TEST_STACK_SCHEDULE_QUEUE_H */
