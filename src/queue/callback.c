/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/callback.h"

#include <assert.h>
#include <signal.h>

#include "src/base/allocator.h"
#include "src/queue/drain.h"
#include "src/queue/kept_events.h"
#include "src/time/timespec.h"

/* How many functors a thread runs in one poll when its deadline is past. */
#define MAX_LATE_FUNCTORS 128

/* How many of the queue's own threads may be in functors that may block: all but one. A functor
 * that finds no thread waits in `pending`. */
struct weir__callbacks {
  grpc_completion_queue_functor *shutdown_callback;
  uint32_t n_threads; /* of its own; 0, or one more than may be in functors that may block */
  uint32_t n_started;

  /* Guarded by the queue's lock. */
  size_t n_inside;     /* threads that poll, or run what they have got there */
  uint32_t n_blocking; /* of the queue's own, those in functors that may block */
  struct weir__completion_list pending;
  struct weir__kept_events kept;
  bool drained; /* the core's queue is shut down, and empty */
  bool over;    /* the shutdown callback is being run, or has been */

  pthread_t threads[];
};

struct weir__callbacks *weir__callbacks_new(const struct weir_allocator *allocator,
                                            grpc_completion_queue_functor *shutdown_callback,
                                            uint32_t n_threads) {
  size_t n_own = n_threads == 0 ? 0 : (size_t)n_threads + 1;
  struct weir__callbacks *callbacks = NULL;
  if (n_own <= (SIZE_MAX - sizeof *callbacks) / sizeof callbacks->threads[0] &&
      n_own <= UINT32_MAX) {
    callbacks = weir__zalloc(allocator, sizeof *callbacks + n_own * sizeof callbacks->threads[0]);
  }
  if (callbacks != NULL) {
    callbacks->shutdown_callback = shutdown_callback;
    callbacks->n_threads = (uint32_t)n_own;
  }
  return callbacks;
}

void weir__callbacks_free(struct weir__callbacks *callbacks,
                          const struct weir_allocator *allocator) {
  if (callbacks != NULL) {
    weir__kept_events_fini(&callbacks->kept, allocator);
    weir__free(allocator, callbacks);
  }
}

static void run(const grpc_event *event) {
  grpc_completion_queue_functor *functor = event->tag;
  if (functor != NULL) {
    functor->functor_run(functor, event->success);
  }
}

/* A thread leaves, which has seen the queue's end or not. The last one runs the shutdown callback,
 * and the queue may be gone afterwards. */
static grpc_completion_type leave(weir_completion_queue *queue, grpc_completion_type seen) {
  struct weir__callbacks *callbacks = queue->callbacks;
  pthread_mutex_lock(&queue->guarded.lock);
  callbacks->drained = callbacks->drained || seen == GRPC_QUEUE_SHUTDOWN;
  callbacks->n_inside--;
  bool is_last = callbacks->drained && callbacks->n_inside == 0 && !callbacks->over;
  callbacks->over = callbacks->over || is_last;
  grpc_completion_queue_functor *shutdown_callback = callbacks->shutdown_callback;
  grpc_completion_type end = callbacks->drained ? GRPC_QUEUE_SHUTDOWN : seen;
  pthread_mutex_unlock(&queue->guarded.lock);
  if (is_last && shutdown_callback != NULL) {
    shutdown_callback->functor_run(shutdown_callback, 1);
  }
  return end;
}

/* --- threads of the application's --- */

/* Whether a thread that runs functors past its deadline has done enough. */
static bool is_late(const weir_completion_queue *queue, gpr_timespec until, unsigned *n_late) {
  int64_t now_ns = weir__queue_now_ns(queue);
  return weir__instant_from_timespec(until, now_ns) <= now_ns && ++*n_late >= MAX_LATE_FUNCTORS;
}

static grpc_completion_type poll_until(weir_completion_queue *queue, gpr_timespec until) {
  unsigned n_late = 0;
  for (;;) {
    grpc_event event;
    if (!weir__queue_drain(queue, until, &event)) {
      continue;
    }
    if (event.type != GRPC_OP_COMPLETE) {
      return event.type;
    }
    weir__queue_leave(queue); /* the functor may take long */
    run(&event);
    if (is_late(queue, until, &n_late)) {
      return GRPC_QUEUE_TIMEOUT;
    }
  }
}

grpc_completion_type weir_completion_queue_poll(weir_completion_queue *queue, gpr_timespec deadline,
                                                void *reserved) {
  assert(reserved == NULL);
  (void)reserved;
  if (queue->callbacks == NULL) {
    return GRPC_QUEUE_SHUTDOWN;
  }
  pthread_mutex_lock(&queue->guarded.lock);
  queue->callbacks->n_inside++;
  pthread_mutex_unlock(&queue->guarded.lock);
  grpc_completion_type end = poll_until(queue, weir__queue_fix_deadline(queue, deadline));
  weir__queue_leave(queue);
  return leave(queue, end);
}

/* --- threads of the queue's own --- */

/* Whether the calling thread may enter a functor that may block: another is left to poll. */
static bool may_block_locked(const struct weir__callbacks *callbacks) {
  return callbacks->n_blocking + 1 < callbacks->n_threads;
}

/* Who runs a functor that may block. */
enum turn {
  TURN_OURS,      /* the calling thread, which is counted as one that may block; others poll */
  TURN_LATER,     /* a thread that is in a functor now: it is pending */
  TURN_IN_A_HURRY /* the calling thread, though it is the last that polls: there is no memory */
};

static enum turn decide_turn(weir_completion_queue *queue, const grpc_event *event) {
  struct weir__callbacks *callbacks = queue->callbacks;
  enum turn turn = TURN_IN_A_HURRY;
  pthread_mutex_lock(&queue->guarded.lock);
  if (!may_block_locked(callbacks) && callbacks->kept.free == NULL) {
    pthread_mutex_unlock(&queue->guarded.lock);
    struct weir__kept_chunk *chunk = weir__kept_chunk_new(queue->allocator);
    pthread_mutex_lock(&queue->guarded.lock);
    if (chunk != NULL) {
      weir__kept_events_add(&callbacks->kept, chunk);
    }
  }
  if (may_block_locked(callbacks)) {
    callbacks->n_blocking++;
    turn = TURN_OURS;
  } else if (callbacks->kept.free != NULL) {
    weir__completion_list_push(&callbacks->pending,
                               weir__kept_events_keep(&callbacks->kept, event));
    turn = TURN_LATER;
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  return turn;
}

/* The next of the pending ones. False: there is none, and the thread may block no more. */
static bool take_pending_locked(struct weir__callbacks *callbacks, grpc_event *event_out) {
  struct weir__completion *completion = weir__completion_list_pop(&callbacks->pending);
  if (completion == NULL) {
    callbacks->n_blocking--;
    return false;
  }
  *event_out = weir__kept_events_take(&callbacks->kept, completion);
  return true;
}

/* Runs a functor that may block, and then those that have waited for that. */
static void run_blocking(weir_completion_queue *queue, const grpc_event *first) {
  grpc_event event = *first;
  bool goes_on = true;
  while (goes_on) {
    run(&event);
    pthread_mutex_lock(&queue->guarded.lock);
    goes_on = take_pending_locked(queue->callbacks, &event);
    pthread_mutex_unlock(&queue->guarded.lock);
  }
}

/* There is nothing left to poll for: helps with what is pending. */
static void run_pending(weir_completion_queue *queue) {
  grpc_event event;
  pthread_mutex_lock(&queue->guarded.lock);
  queue->callbacks->n_blocking++;
  bool is_pending = take_pending_locked(queue->callbacks, &event);
  pthread_mutex_unlock(&queue->guarded.lock);
  if (is_pending) {
    run_blocking(queue, &event);
  }
}

static void run_in_turn(weir_completion_queue *queue, const grpc_event *event) {
  const grpc_completion_queue_functor *functor = event->tag;
  if (functor == NULL || functor->inlineable != 0) {
    run(event);
    return;
  }
  switch (decide_turn(queue, event)) {
  case TURN_OURS:
    weir__queue_leave(queue);
    run_blocking(queue, event);
    break;
  case TURN_LATER:
    break;
  case TURN_IN_A_HURRY:
    run(event);
    break;
  }
}

static void *own_thread(void *context) {
  weir_completion_queue *queue = context;
  bool is_at_end = false;
  while (!is_at_end) {
    grpc_event event;
    if (weir__queue_drain(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), &event)) {
      is_at_end = event.type == GRPC_QUEUE_SHUTDOWN;
      if (event.type == GRPC_OP_COMPLETE) {
        run_in_turn(queue, &event);
      }
    }
  }
  run_pending(queue);
  (void)leave(queue, GRPC_QUEUE_SHUTDOWN);
  return NULL; /* the queue may be gone */
}

bool weir__callbacks_start(weir_completion_queue *queue) {
  struct weir__callbacks *callbacks = queue->callbacks;
  sigset_t all;
  sigset_t before;
  callbacks->n_inside = callbacks->n_threads; /* no other thread is there yet */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (callbacks->n_started < callbacks->n_threads &&
         pthread_create(&callbacks->threads[callbacks->n_started], NULL, own_thread, queue) == 0) {
    callbacks->n_started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (callbacks->n_started == callbacks->n_threads) {
    return true;
  }
  pthread_mutex_lock(&queue->guarded.lock);
  callbacks->n_inside -= callbacks->n_threads - callbacks->n_started;
  callbacks->over = true;
  pthread_mutex_unlock(&queue->guarded.lock);
  return false;
}

void weir__callbacks_end(weir_completion_queue *queue) {
  struct weir__callbacks *callbacks = queue->callbacks;
  for (uint32_t i = 0; i < callbacks->n_started; i++) {
    if (pthread_equal(callbacks->threads[i], pthread_self()) != 0) {
      pthread_detach(callbacks->threads[i]); /* it is in the shutdown callback */
    } else {
      pthread_join(callbacks->threads[i], NULL);
    }
  }
  pthread_mutex_lock(&queue->guarded.lock);
  bool over = callbacks->over;
  pthread_mutex_unlock(&queue->guarded.lock);
  if (!over) {
    (void)weir_completion_queue_poll(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  }
  assert(callbacks->n_inside == 0 && "destroyed from within a functor, or while it is polled");
}
