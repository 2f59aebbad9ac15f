/* weir/completion_queue.h – a grpc_completion_queue whose drainer also runs weir's half of each
 * call.
 *
 * It is used as the core's: one may put server calls and raw calls on it by
 * weir_completion_queue_core, and their tags come back untouched. There is no thread behind it:
 * retries and backoffs run in the threads that drain it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_COMPLETION_QUEUE_H
#define WEIR_COMPLETION_QUEUE_H

#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>
#include <weir/clock.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_completion_queue weir_completion_queue;

/* Where the core has `reserved`, weir takes options; NULL is right nearly always. */
struct weir_completion_queue_options {
  size_t size;
  const struct weir_allocator *allocator; /* NULL = malloc */
  const struct weir_clock *clock;         /* NULL = CLOCK_MONOTONIC */
};

#define WEIR_COMPLETION_QUEUE_OPTIONS_INIT \
  { .size = sizeof(struct weir_completion_queue_options), .allocator = NULL, .clock = NULL }

/* Makes a queue that is drained by weir_completion_queue_next. grpc_init must have been called.
 *
 * Ownership: the result is the caller's until weir_completion_queue_destroy. `options` is borrowed
 *            for the call, what it points to as its type says.
 * Threads:   any thread.
 * Errors:    NULL when there is no memory, or `options` is from a newer header and asks for what
 *            this library lacks. */
WEIR_API weir_completion_queue *
weir_completion_queue_create_for_next(const struct weir_completion_queue_options *options);

/* Makes a queue that is drained by weir_completion_queue_pluck. The core allows six threads in
 * pluck at a time.
 *
 * Ownership: as weir_completion_queue_create_for_next.
 * Threads:   any thread.
 * Errors:    as weir_completion_queue_create_for_next. */
WEIR_API weir_completion_queue *
weir_completion_queue_create_for_pluck(const struct weir_completion_queue_options *options);

/* Waits for the next event, as grpc_completion_queue_next does, and runs what weir has due
 * meanwhile.
 *
 * Ownership: `queue` is borrowed for the call. `reserved` must be NULL.
 * Threads:   any number of threads at once.
 * Errors:    none beyond the event's: GRPC_QUEUE_TIMEOUT, and GRPC_QUEUE_SHUTDOWN once the queue
 *            has been shut down and every tag has been handed out. */
WEIR_API grpc_event weir_completion_queue_next(weir_completion_queue *queue, gpr_timespec deadline,
                                               void *reserved);

/* Waits for the event of one tag, as grpc_completion_queue_pluck does.
 *
 * A call that waits for a retry on a queue of this kind hears of its parent's cancellation when the
 * wait is over.
 *
 * Ownership: as weir_completion_queue_next.
 * Threads:   up to six threads at once (a limit of the core).
 * Errors:    as weir_completion_queue_next. */
WEIR_API grpc_event weir_completion_queue_pluck(weir_completion_queue *queue, void *tag,
                                                gpr_timespec deadline, void *reserved);

/* Begins the shutdown: calls that wait for a retry end with their last status, no attempt is
 * started any more, and once every tag has been handed out the drainers see GRPC_QUEUE_SHUTDOWN.
 *
 * Ownership: `queue` is borrowed for the call.
 * Threads:   any thread; once is enough, more does no harm.
 * Errors:    none. */
WEIR_API void weir_completion_queue_shutdown(weir_completion_queue *queue);

/* Ends a queue that has been shut down and drained. Calls made on it may be released later.
 *
 * Ownership: `queue` is taken over.
 * Threads:   any thread, with no other in next or pluck.
 * Errors:    none. */
WEIR_API void weir_completion_queue_destroy(weir_completion_queue *queue);

/* Gives the core's queue, to put server calls, raw calls and connectivity watches on. It must not
 * be drained, shut down or destroyed directly.
 *
 * Ownership: the result is borrowed until weir_completion_queue_destroy.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API grpc_completion_queue *weir_completion_queue_core(weir_completion_queue *queue);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_COMPLETION_QUEUE_H */
