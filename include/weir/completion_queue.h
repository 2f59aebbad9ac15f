/* weir/completion_queue.h – a grpc_completion_queue whose drainer also runs weir's half of each
 * call.
 *
 * It is used as the core's: one may put server calls and raw calls on it by
 * weir_completion_queue_core, and their tags come back untouched. Retries and backoffs run in the
 * threads that drain it. Only a queue for callbacks has threads of its own, unless it is told not
 * to.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_COMPLETION_QUEUE_H
#define WEIR_COMPLETION_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/allocator.h>
#include <weir/clock.h>
#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A grpc_completion_queue of any kind, with the calls whose next attempt is due in it. */
typedef struct weir_completion_queue weir_completion_queue;

/* Where the core has `reserved`, weir takes options; NULL is right nearly always. */
struct weir_completion_queue_options {
  size_t size;
  const struct weir_allocator *allocator; /* NULL = malloc */
  const struct weir_clock *clock;         /* NULL = CLOCK_MONOTONIC */

  /* Queues for callbacks only: how many callbacks that may block can run at once in threads of the
   * queue's own, of which there is one more, that polls. 0 = none: the application's threads call
   * weir_completion_queue_poll, or nothing ever happens. */
  uint32_t n_callback_threads;
};

#define WEIR_COMPLETION_QUEUE_OPTIONS_INIT                                                  \
  {                                                                                         \
    .size = sizeof(struct weir_completion_queue_options), .allocator = NULL, .clock = NULL, \
    .n_callback_threads = 4                                                                 \
  }

/* Makes a queue that is drained by weir_completion_queue_next. grpc_init must have been called.
 *
 * Ownership: the result is the caller's until weir_completion_queue_destroy. `options` is borrowed
 *            for the call, what it points to as its type says.
 * Threads:   any thread.
 * Errors:    NULL when there is no memory, or `options` is from a newer header and asks for what
 *            this library lacks. */
WEIR_API weir_completion_queue *
weir_completion_queue_create_for_next(const struct weir_completion_queue_options *options);

/* Makes a queue that is drained by weir_completion_queue_pluck.
 *
 * Ownership: as weir_completion_queue_create_for_next.
 * Threads:   any thread.
 * Errors:    as weir_completion_queue_create_for_next. */
WEIR_API weir_completion_queue *
weir_completion_queue_create_for_pluck(const struct weir_completion_queue_options *options);

/* Makes a queue whose tags are functors: when a batch is over, `functor_run` of the
 * grpc_completion_queue_functor that was given as its tag is called, with whether it succeeded.
 * So are the tags of what others put on the core's queue. A tag that is NULL tells nobody.
 *
 * A functor is run by a thread of the queue's own, or by one in weir_completion_queue_poll; never
 * within a call of the application's that starts, cancels or ends something. One whose `inlineable`
 * is 0 may block: while it does, the queue's own threads go on polling, and running others, up to
 * the number that the options say. One whose `inlineable` is not 0 must not block: a thread that
 * polls runs it before it polls on. In weir_completion_queue_poll both kinds are run in the thread
 * that called it. No lock is held; any function of weir's may be called, but for
 * weir_completion_queue_destroy of this queue.
 *
 * `shutdown_callback` is run once, when the queue has been shut down, after every other functor
 * has returned, in the last thread that leaves the queue. From within it the queue may be
 * destroyed.
 *
 * Ownership: as weir_completion_queue_create_for_next; `shutdown_callback` (NULL = none) is borrowed
 *            until it is run, a functor until it is run.
 * Threads:   any thread. Those of the queue's own, which block all signals, end with it.
 * Errors:    as weir_completion_queue_create_for_next; NULL also when there is no thread to be
 *            had; shutdown_callback is not run then. */
WEIR_API weir_completion_queue *
weir_completion_queue_create_for_callback(grpc_completion_queue_functor *shutdown_callback,
                                          const struct weir_completion_queue_options *options);

/* Makes a queue of the kind, and the way of polling, that the core's attributes name.
 *
 * Ownership: `attributes` is borrowed for the call; else as the three above.
 * Threads:   any thread.
 * Errors:    as the three above; NULL also for attributes that this library does not know. */
WEIR_API weir_completion_queue *
weir_completion_queue_create(const grpc_completion_queue_attributes *attributes,
                             const struct weir_completion_queue_options *options);

/* Waits for the next event, as grpc_completion_queue_next does, and runs what weir has due
 * meanwhile.
 *
 * Ownership: `queue` is borrowed for the call. `reserved` must be NULL.
 * Threads:   any number of threads at once.
 * Errors:    none beyond the event's: GRPC_QUEUE_TIMEOUT, and GRPC_QUEUE_SHUTDOWN once the queue
 *            has been shut down and every tag has been handed out; at once on a queue of another
 *            kind. */
WEIR_API grpc_event weir_completion_queue_next(weir_completion_queue *queue, gpr_timespec deadline,
                                               void *reserved);

/* Waits for the event of one tag, as grpc_completion_queue_pluck does. What comes for other tags
 * meanwhile is kept for those that pluck them, in order.
 *
 * Once the queue has been shut down and nothing is under way any more, a tag that has not come
 * never will: its plucker sees GRPC_QUEUE_SHUTDOWN, while tags that have come can still be plucked.
 *
 * Ownership: as weir_completion_queue_next.
 * Threads:   any number of threads at once, also for the same tag.
 * Errors:    none beyond the event's: GRPC_QUEUE_TIMEOUT, before its time only when there is no
 *            memory to keep what is others'; and GRPC_QUEUE_SHUTDOWN, at once on a queue of another
 *            kind. */
WEIR_API grpc_event weir_completion_queue_pluck(weir_completion_queue *queue, void *tag,
                                                gpr_timespec deadline, void *reserved);

/* Runs the functors of a queue for callbacks in the calling thread, until `deadline` or until the
 * queue is at its end. What there is to be run is run even if the deadline is past, but not without
 * end. It may be called from within a functor.
 *
 * Ownership: `queue` is borrowed for the call. `reserved` must be NULL.
 * Threads:   any number of threads at once, beside the queue's own.
 * Errors:    none beyond the result: GRPC_QUEUE_TIMEOUT, or GRPC_QUEUE_SHUTDOWN once the queue has
 *            been shut down and every other functor has been run or is being run in another thread;
 *            so at once on a queue of another kind. */
WEIR_API grpc_completion_type weir_completion_queue_poll(weir_completion_queue *queue,
                                                         gpr_timespec deadline, void *reserved);

/* Has the first event that the calling thread brings about on `queue` kept for this thread, until
 * it calls weir_completion_queue_thread_local_cache_flush, which it must, as
 * grpc_completion_queue_thread_local_cache_init does. Queues for next only; no effect on another.
 *
 * Ownership: `queue` is borrowed until the flush.
 * Threads:   the cache is the calling thread's. A thread has one, whatever the number of queues.
 * Errors:    none. */
WEIR_API void weir_completion_queue_thread_local_cache_init(weir_completion_queue *queue);

/* Ends the cache, and gives what is in it.
 *
 * Ownership: `queue` is borrowed for the call. `tag` and `ok` are written when the result is 1.
 * Threads:   the thread that has called weir_completion_queue_thread_local_cache_init.
 * Errors:    none beyond the result: 0 when there is nothing in it for the application. So it is
 *            too when what came has made weir go on with the call. */
WEIR_API int weir_completion_queue_thread_local_cache_flush(weir_completion_queue *queue,
                                                            void **tag, int *ok);

/* Begins the shutdown: calls that wait for a retry end with their last status, no attempt is
 * started any more, and once nothing is under way the drainers see GRPC_QUEUE_SHUTDOWN. May be
 * called from within a functor.
 *
 * Ownership: `queue` is borrowed for the call.
 * Threads:   any thread; once is enough, more does no harm.
 * Errors:    none. */
WEIR_API void weir_completion_queue_shutdown(weir_completion_queue *queue);

/* Ends a queue that has been shut down and drained. Calls made on it may be released later.
 *
 * A queue for callbacks is shut down, and waited for, if that has not been: its own threads end,
 * or, if it has none, the calling one runs what is left.
 *
 * Ownership: `queue` is taken over.
 * Threads:   any thread, with no other in next, pluck or poll; of functors only the shutdown
 *            callback.
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
