/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/queue.h"

#include <assert.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/queue/callback.h"
#include "src/queue/drain.h"
#include "src/queue/pluck.h"
#include "src/time/clock.h"

/* --- life --- */

static void queue_free(weir_completion_queue *queue) {
  pthread_mutex_destroy(&queue->guarded.lock);
  weir__pluckers_free(queue->pluckers);
  weir__callbacks_free(queue->callbacks, queue->allocator);
  weir__slab_pool_fini(&queue->blocks);
  weir__free(queue->allocator, queue);
}

/* What the kinds have of their own. False when there is no memory. */
static bool kind_init(weir_completion_queue *queue, const struct weir__queue_options *options) {
  switch (queue->head.type) {
  case GRPC_CQ_NEXT:
    return true;
  case GRPC_CQ_PLUCK:
    queue->pluckers = weir__pluckers_new(queue->allocator);
    return queue->pluckers != NULL;
  case GRPC_CQ_CALLBACK:
    queue->callbacks = weir__callbacks_new(queue->allocator, options->shutdown_callback,
                                           options->n_callback_threads);
    return queue->callbacks != NULL;
  }
  return false; /* what this library does not know */
}

weir_completion_queue *weir__queue_new(const struct weir__queue_options *options) {
  const struct weir_allocator *allocator = weir__allocator_or_default(options->allocator);
  weir_completion_queue *queue = weir__zalloc(allocator, sizeof *queue);
  if (queue == NULL) {
    return NULL;
  }
  queue->allocator = allocator;
  queue->clock = weir__clock_or_default(options->clock);
  queue->head.transport = options->transport;
  queue->head.type = options->type;
  atomic_init(&queue->n_refs, 1);
  atomic_init(&queue->head.n_open, WEIR__QUEUE_HOLD + 1);
  atomic_init(&queue->next_due_at_ns, WEIR_NO_DEADLINE);
  weir__expiry_init(&queue->expiry);
  weir__slab_pool_init(&queue->blocks, allocator,
                       options->slab_blocks != 0 ? options->slab_blocks : WEIR__SLAB_MAX_BLOCKS,
                       WEIR__QUEUE_BLOCK_BYTES);
  pthread_mutex_init(&queue->guarded.lock, NULL);
  if (!kind_init(queue, options)) {
    queue_free(queue);
    return NULL;
  }
  queue->head.core =
      queue->head.transport->queue_create(queue->head.transport->context, options->polling);
  if (queue->callbacks != NULL && !weir__callbacks_start(queue)) {
    weir_completion_queue_destroy(queue);
    return NULL;
  }
  return queue;
}

void weir__queue_ref(weir_completion_queue *queue) {
  atomic_fetch_add_explicit(&queue->n_refs, 1,
                            memory_order_relaxed); /* the caller has a share already */
}

void weir__queue_unref(weir_completion_queue *queue) {
  /* acq_rel: what the others did with the queue comes before its end */
  if (atomic_fetch_sub_explicit(&queue->n_refs, 1, memory_order_acq_rel) == 1) {
    queue_free(queue);
  }
}

/* Rings that nobody has heard may be left in the core's queue, answers to pluckers that have left,
 * and what is held. */
static void drain_rest(weir_completion_queue *queue) {
  grpc_event event;
  while (!weir__queue_drain(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), &event) ||
         event.tag == &queue->sync_tag) {
    /* something was left */
  }
  assert(event.type != GRPC_OP_COMPLETE && "destroyed before it was drained");
}

void weir_completion_queue_destroy(weir_completion_queue *queue) {
  weir_completion_queue_shutdown(queue);
  if (queue->callbacks != NULL) {
    weir__callbacks_end(queue);
  }
  assert((uint32_t)atomic_load(&queue->head.n_open) == 0 && "destroyed before it was drained");
  assert((queue->pluckers == NULL || weir__pluckers_are_done(queue->pluckers)) &&
         "destroyed before all was plucked");
  drain_rest(queue);
  if (queue->guarded.bell != NULL) {
    queue->head.transport->call_unref(queue->head.transport->context, queue->guarded.bell);
  }
  queue->head.transport->queue_destroy(queue->head.transport->context, queue->head.core);
  queue->head.core = NULL;
  weir__queue_unref(queue);
}

/* --- for the engine --- */

grpc_completion_queue *weir_completion_queue_core(weir_completion_queue *queue) {
  return queue->head.core;
}

int64_t weir__queue_now_ns(const weir_completion_queue *queue) {
  return weir__clock_now_ns(queue->clock);
}

int64_t weir__queue_wall_clock_ns(const weir_completion_queue *queue, int64_t at_ns) {
  return queue->clock == weir__clock_or_default(NULL) ? weir__wall_clock_at_ns(at_ns)
                                                      : weir__wall_clock_now_ns();
}

void *weir__queue_block_take(weir_completion_queue *queue) {
  void *block = weir__slab_take(&queue->blocks);
  if (block != NULL) {
    /* Not by a constant: libc's loop is better than an inlined one. */
    memset(block, 0, queue->blocks.block_bytes - WEIR__SLAB_OWN_BYTES);
  }
  return block;
}

void weir__queue_block_give(weir_completion_queue *queue, void *block) {
  weir__slab_give(&queue->blocks, block);
}

void weir__queue_lock(weir_completion_queue *queue) {
  pthread_mutex_lock(&queue->guarded.lock);
}

void weir__queue_unlock(weir_completion_queue *queue) {
  pthread_mutex_unlock(&queue->guarded.lock);
}

bool weir__queue_is_shut_down_locked(const weir_completion_queue *queue) {
  return queue->guarded.shut_down;
}

/* --- what is under way --- */

bool weir__queue_try_hold(weir_completion_queue *queue) {
  return weir__queue_open_add(&queue->head, WEIR__QUEUE_HOLD, UINT64_MAX);
}

void weir__queue_unhold(weir_completion_queue *queue) {
  /* acq_rel: everything that was under way comes before the core's shutdown */
  if (atomic_fetch_sub_explicit(&queue->head.n_open, WEIR__QUEUE_HOLD, memory_order_acq_rel) ==
      WEIR__QUEUE_HOLD) {
    queue->head.transport->queue_shutdown(queue->head.transport->context, queue->head.core);
  }
}

void weir__queue_abandon(weir_completion_queue *queue) {
  weir__queue_settle(queue);
}

enum weir_error weir__queue_hold(weir_completion_queue *queue, struct weir__held *held) {
  held->completion.app_tag = NULL;
  held->linked = false;
  if (!weir__queue_open_add(&queue->head, WEIR__QUEUE_HOLD, UINT32_MAX)) {
    return WEIR_ERROR_UNAVAILABLE;
  }
  if (held->on_close == NULL) {
    return WEIR_OK;
  }
  pthread_mutex_lock(&queue->guarded.lock);
  bool closed = queue->guarded.closed;
  if (!closed) {
    held->linked = true;
    held->previous = NULL;
    held->next = queue->guarded.held;
    if (held->next != NULL) {
      held->next->previous = held;
    }
    queue->guarded.held = held;
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  if (closed) {
    weir__queue_unhold(queue);
    return WEIR_ERROR_UNAVAILABLE;
  }
  return WEIR_OK;
}

void weir__queue_let_go(weir_completion_queue *queue, struct weir__held *held) {
  if (held->on_close != NULL) {
    pthread_mutex_lock(&queue->guarded.lock);
    if (held->linked) {
      struct weir__held **place =
          held->previous != NULL ? &held->previous->next : &queue->guarded.held;
      *place = held->next;
      if (held->next != NULL) {
        held->next->previous = held->previous;
      }
      held->linked = false;
    }
    pthread_mutex_unlock(&queue->guarded.lock);
  }
  weir__queue_unhold(queue);
}

void weir__queue_close(weir_completion_queue *queue) {
  pthread_mutex_lock(&queue->guarded.lock);
  queue->guarded.closed = true;
  struct weir__held *held = queue->guarded.held;
  queue->guarded.held = NULL;
  while (held != NULL) {
    struct weir__held *next = held->next;
    held->linked = false;
    held->on_close(held);
    held = next;
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  weir__queue_fire_lasting(queue);
  weir__queue_unhold(queue);
}

void weir_completion_queue_shutdown(weir_completion_queue *queue) {
  pthread_mutex_lock(&queue->guarded.lock);
  bool first = !queue->guarded.shut_down;
  queue->guarded.shut_down = true;
  pthread_mutex_unlock(&queue->guarded.lock);
  if (first) {
    /* None but a lasting timer is armed from here on; those that are end at once. */
    weir__queue_fire_all(queue);
    weir__queue_settle(queue);
  }
}

/* --- waking --- */

void weir__queue_ring(weir_completion_queue *queue, void *tag) {
  pthread_mutex_lock(&queue->guarded.lock);
  if (queue->guarded.bell == NULL) {
    queue->guarded.bell =
        queue->head.transport->bell_create(queue->head.transport->context, queue->head.core);
  }
  grpc_call *bell = queue->guarded.bell;
  pthread_mutex_unlock(&queue->guarded.lock);
  grpc_call_error error =
      queue->head.transport->call_start_batch(bell, NULL, 0, tag, queue->head.transport->context);
  assert(error == GRPC_CALL_OK);
  (void)error;
}

void weir__queue_wake_one(weir_completion_queue *queue) {
  if ((atomic_load(&queue->head.stir) & ~WEIR__QUEUE_STIRRED) != 0 &&
      !atomic_exchange(&queue->bell_rung, true)) {
    weir__queue_ring(queue, &queue->bell_tag);
  }
}

void weir__queue_pass_on(weir_completion_queue *queue) {
  if ((atomic_load(&queue->head.stir) & WEIR__QUEUE_READY) != 0) {
    weir__queue_wake_one(queue);
  }
  weir__queue_wake_for_timer(queue);
}

void weir__queue_push_ready(weir_completion_queue *queue, struct weir__completion *completion) {
  if (queue->pluckers != NULL) {
    weir__pluckers_push_ready(queue, completion);
    return;
  }
  pthread_mutex_lock(&queue->guarded.lock);
  weir__completion_list_push(&queue->guarded.ready, completion);
  uint32_t stir = atomic_fetch_or(&queue->head.stir, WEIR__QUEUE_READY);
  /* The batch may be handed out, and the queue at its end, as soon as the lock is free. */
  bool wakes = (stir & ~WEIR__QUEUE_STIRRED) != 0 && weir__queue_try_hold(queue);
  pthread_mutex_unlock(&queue->guarded.lock);
  if (wakes) {
    weir__queue_wake_one(queue);
    weir__queue_unhold(queue);
  }
}

/* --- made by the application --- */

static weir_completion_queue *queue_create(const struct weir_completion_queue_options *options,
                                           struct weir__queue_options *made) {
  struct weir_completion_queue_options known = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  if (options != NULL && weir__options_copy(&known, sizeof known, options) != WEIR_OK) {
    return NULL;
  }
  made->allocator = known.allocator;
  made->clock = known.clock;
  made->transport = weir__transport_core();
  made->n_callback_threads = known.n_callback_threads;
  return weir__queue_new(made);
}

weir_completion_queue *
weir_completion_queue_create_for_next(const struct weir_completion_queue_options *options) {
  return queue_create(options, &(struct weir__queue_options){.type = GRPC_CQ_NEXT,
                                                             .polling = GRPC_CQ_DEFAULT_POLLING});
}

weir_completion_queue *
weir_completion_queue_create_for_pluck(const struct weir_completion_queue_options *options) {
  return queue_create(options, &(struct weir__queue_options){.type = GRPC_CQ_PLUCK,
                                                             .polling = GRPC_CQ_DEFAULT_POLLING});
}

weir_completion_queue *
weir_completion_queue_create_for_callback(grpc_completion_queue_functor *shutdown_callback,
                                          const struct weir_completion_queue_options *options) {
  return queue_create(options,
                      &(struct weir__queue_options){.type = GRPC_CQ_CALLBACK,
                                                    .polling = GRPC_CQ_DEFAULT_POLLING,
                                                    .shutdown_callback = shutdown_callback});
}

weir_completion_queue *
weir_completion_queue_create(const grpc_completion_queue_attributes *attributes,
                             const struct weir_completion_queue_options *options) {
  if (attributes->version < 1 || attributes->version > GRPC_CQ_CURRENT_VERSION ||
      attributes->cq_polling_type > GRPC_CQ_NON_POLLING) {
    return NULL;
  }
  bool is_callback = attributes->cq_completion_type == GRPC_CQ_CALLBACK;
  if (is_callback && attributes->version < GRPC_CQ_VERSION_MINIMUM_FOR_CALLBACKABLE) {
    return NULL;
  }
  return queue_create(options,
                      &(struct weir__queue_options){
                          .type = attributes->cq_completion_type,
                          .polling = attributes->cq_polling_type,
                          .shutdown_callback = is_callback ? attributes->cq_shutdown_cb : NULL});
}
