/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/queue.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/queue/pluck_table.h"
#include "src/queue/slab.h"
#include "src/time/clock.h"
#include "src/time/instant.h"

#define DEFAULT_SLAB_BYTES 65536

/* One epoch of the watch; the sleepers are counted below it. */
#define WATCH_EPOCH (UINT64_C(1) << 32)

struct weir_completion_queue {
  const struct weir_allocator *allocator;
  const struct weir_clock *clock;
  const struct weir__transport *transport;
  grpc_completion_queue *core;
  grpc_cq_completion_type type;
  atomic_size_t n_refs;

  /* What is under way, and one until shutdown is asked for. At zero the core's queue is shut down,
   * for good. */
  atomic_size_t n_open;

  /* Sleepers in next, and what may wake them. Each side writes its own, then reads the other's
   * (sequentially consistent), so that not both can miss. */
  atomic_size_t n_sleeping;
  atomic_size_t n_ready;
  _Atomic int64_t next_due_at_ns; /* of the timers; WEIR_NO_DEADLINE = none */
  atomic_bool bell_rung;          /* an event with &bell_tag is on its way */
  char bell_tag;

  /* The watch: how many sleepers wake by next_due_at_ns, and above WATCH_EPOCH the count of times
   * it has come nearer. A thread that leaves next while nobody keeps the watch wakes another
   * sleeper to keep it. */
  _Atomic uint64_t watch;

  atomic_uint n_plucking; /* threads in the core's pluck */

  struct weir__slab_pool blocks;
  struct weir__pluck_table plucks; /* pluck queues only */

  struct {
    pthread_mutex_t lock;
    bool shut_down;
    grpc_call *bell; /* made when it is first needed */
    struct weir__completion *first_ready;
    struct weir__completion *last_ready;
    struct weir__timer_heap timers;
  } guarded;
};

weir_completion_queue *weir__queue_new(const struct weir__queue_options *options) {
  const struct weir_allocator *allocator = weir__allocator_or_default(options->allocator);
  weir_completion_queue *queue = weir__zalloc(allocator, sizeof *queue);
  if (queue == NULL) {
    return NULL;
  }
  queue->allocator = allocator;
  queue->clock = weir__clock_or_default(options->clock);
  queue->transport = options->transport;
  queue->type = options->type;
  atomic_init(&queue->n_refs, 1);
  atomic_init(&queue->n_open, 1);
  atomic_init(&queue->next_due_at_ns, WEIR_NO_DEADLINE);
  weir__slab_pool_init(&queue->blocks, allocator,
                       options->slab_bytes != 0 ? options->slab_bytes : DEFAULT_SLAB_BYTES,
                       WEIR__QUEUE_BLOCK_BYTES);
  weir__pluck_table_init(&queue->plucks, allocator);
  pthread_mutex_init(&queue->guarded.lock, NULL);
  queue->core = queue->transport->queue_create(queue->transport->context, options->type);
  return queue;
}

static weir_completion_queue *queue_create(const struct weir_completion_queue_options *options,
                                           grpc_cq_completion_type type) {
  struct weir_completion_queue_options known = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  if (options != NULL && weir__options_copy(&known, sizeof known, options) != WEIR_OK) {
    return NULL;
  }
  return weir__queue_new(&(struct weir__queue_options){.allocator = known.allocator,
                                                       .clock = known.clock,
                                                       .transport = weir__transport_core(),
                                                       .type = type,
                                                       .slab_bytes = 0});
}

weir_completion_queue *
weir_completion_queue_create_for_next(const struct weir_completion_queue_options *options) {
  return queue_create(options, GRPC_CQ_NEXT);
}

weir_completion_queue *
weir_completion_queue_create_for_pluck(const struct weir_completion_queue_options *options) {
  return queue_create(options, GRPC_CQ_PLUCK);
}

void weir__queue_ref(weir_completion_queue *queue) {
  atomic_fetch_add_explicit(&queue->n_refs, 1,
                            memory_order_relaxed); /* the caller has a share already */
}

void weir__queue_unref(weir_completion_queue *queue) {
  /* acq_rel: what the others did with the queue comes before its end */
  if (atomic_fetch_sub_explicit(&queue->n_refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  pthread_mutex_destroy(&queue->guarded.lock);
  weir__pluck_table_fini(&queue->plucks);
  weir__slab_pool_fini(&queue->blocks);
  weir__free(queue->allocator, queue);
}

void weir_completion_queue_destroy(weir_completion_queue *queue) {
  assert(atomic_load(&queue->n_open) == 0 && "destroyed before it was shut down and drained");
  if (queue->guarded.bell != NULL) {
    queue->transport->call_unref(queue->transport->context, queue->guarded.bell);
  }
  queue->transport->queue_destroy(queue->transport->context, queue->core);
  queue->core = NULL;
  weir__queue_unref(queue);
}

grpc_completion_queue *weir_completion_queue_core(weir_completion_queue *queue) {
  return queue->core;
}

const struct weir__transport *weir__queue_transport(const weir_completion_queue *queue) {
  return queue->transport;
}

int64_t weir__queue_now_ns(const weir_completion_queue *queue) {
  return weir__clock_now_ns(queue->clock);
}

bool weir__queue_is_for_next(const weir_completion_queue *queue) {
  return queue->type == GRPC_CQ_NEXT;
}

void *weir__queue_block_take(weir_completion_queue *queue) {
  void *block = weir__slab_take(&queue->blocks);
  if (block != NULL) {
    /* Not by a constant: libc's loop is better than an inlined one. */
    memset(block, 0, queue->blocks.block_bytes);
  }
  return block;
}

void weir__queue_block_give(weir_completion_queue *queue, void *block) {
  weir__slab_give(&queue->blocks, block);
}

/* --- what is under way --- */

static bool queue_hold(weir_completion_queue *queue) {
  size_t n_open = atomic_load_explicit(&queue->n_open, memory_order_relaxed);
  while (n_open != 0) {
    if (atomic_compare_exchange_weak_explicit(&queue->n_open, &n_open, n_open + 1,
                                              memory_order_relaxed, memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

static void queue_let_go(weir_completion_queue *queue) {
  /* acq_rel: everything that was under way comes before the core's shutdown */
  if (atomic_fetch_sub_explicit(&queue->n_open, 1, memory_order_acq_rel) == 1) {
    queue->transport->queue_shutdown(queue->transport->context, queue->core);
  }
}

/* Posts an event with `tag`. Something is under way, so the core's queue is open. */
static void queue_ring(weir_completion_queue *queue, void *tag) {
  pthread_mutex_lock(&queue->guarded.lock);
  if (queue->guarded.bell == NULL) {
    queue->guarded.bell = queue->transport->bell_create(queue->transport->context, queue->core);
  }
  grpc_call *bell = queue->guarded.bell;
  pthread_mutex_unlock(&queue->guarded.lock);
  grpc_call_error error =
      queue->transport->call_start_batch(queue->transport->context, bell, NULL, 0, tag);
  assert(error == GRPC_CALL_OK);
  (void)error;
}

/* Wakes one sleeper of a next queue, if there is one and none is being woken. */
static void queue_wake_one(weir_completion_queue *queue) {
  if (atomic_load(&queue->n_sleeping) > 0 && !atomic_exchange(&queue->bell_rung, true)) {
    queue_ring(queue, &queue->bell_tag);
  }
}

/* Wakes a thread that waits for `tag` in the core, because a batch with it is there to be
 * plucked. */
static void queue_wake_plucker(weir_completion_queue *queue, void *tag) {
  if (weir__pluck_table_pick(&queue->plucks, tag)) {
    queue_ring(queue, tag);
  }
}

enum weir_error weir__queue_begin(weir_completion_queue *queue, struct weir__completion *completion,
                                  void *app_tag) {
  if (!queue_hold(queue)) {
    return WEIR_ERROR_UNAVAILABLE;
  }
  completion->app_tag = app_tag;
  if (queue->type != GRPC_CQ_PLUCK) {
    return WEIR_OK;
  }
  if (!weir__pluck_table_add(&queue->plucks, completion)) {
    queue_let_go(queue);
    return WEIR_ERROR_NO_MEMORY;
  }
  queue_wake_plucker(queue, app_tag);
  return WEIR_OK;
}

static void abandon_plucked(weir_completion_queue *queue, struct weir__completion *completion) {
  struct weir__pluck_slot *slot = completion->in_queue.pluck_slot;
  uint64_t hands = weir__pluck_slot_hands(slot);
  if (weir__pluck_slot_abandon(slot)) {
    /* A thread waits for the core's event of it already: it is to be gone before the tag is used
     * again. */
    queue_ring(queue, completion);
    while (weir__pluck_slot_hands(slot) == hands) {
      (void)sched_yield();
    }
  }
}

void weir__queue_abandon(weir_completion_queue *queue, struct weir__completion *completion) {
  if (queue->type == GRPC_CQ_PLUCK) {
    abandon_plucked(queue, completion);
  }
  queue_let_go(queue);
}

static void push_for_next(weir_completion_queue *queue, struct weir__completion *completion) {
  completion->in_queue.next_ready = NULL;
  pthread_mutex_lock(&queue->guarded.lock);
  if (queue->guarded.last_ready != NULL) {
    queue->guarded.last_ready->in_queue.next_ready = completion;
  } else {
    queue->guarded.first_ready = completion;
  }
  queue->guarded.last_ready = completion;
  atomic_fetch_add(&queue->n_ready, 1);
  pthread_mutex_unlock(&queue->guarded.lock);
  queue_wake_one(queue);
}

void weir__queue_push_ready(weir_completion_queue *queue, struct weir__completion *completion) {
  /* The batch may be handed out, and the queue's last hold with it, before the bell rings. */
  bool held = queue_hold(queue);
  assert(held);
  (void)held;
  if (queue->type != GRPC_CQ_PLUCK) {
    push_for_next(queue, completion);
  } else if (weir__pluck_slot_end(completion->in_queue.pluck_slot)) {
    queue_ring(queue, completion); /* its thread takes the ring before it hands the batch out */
  }
  queue_let_go(queue);
}

/* --- timers --- */

void weir__queue_lock(weir_completion_queue *queue) {
  pthread_mutex_lock(&queue->guarded.lock);
}

void weir__queue_unlock(weir_completion_queue *queue) {
  pthread_mutex_unlock(&queue->guarded.lock);
}

bool weir__queue_is_shut_down_locked(const weir_completion_queue *queue) {
  return queue->guarded.shut_down;
}

static void publish_next_due_locked(weir_completion_queue *queue) {
  const struct weir__timer *first = weir__timer_heap_first(&queue->guarded.timers);
  atomic_store(&queue->next_due_at_ns, first != NULL ? first->due_at_ns : WEIR_NO_DEADLINE);
}

void weir__queue_arm_locked(weir_completion_queue *queue, struct weir__timer *timer) {
  weir__timer_heap_add(&queue->guarded.timers, timer);
  publish_next_due_locked(queue);
  if (weir__timer_heap_first(&queue->guarded.timers) == timer) {
    /* Who keeps the watch now may wake too late. After next_due_at_ns, so that who is counted in
     * this epoch has seen it. */
    uint64_t watch = atomic_load(&queue->watch);
    while (!atomic_compare_exchange_weak(&queue->watch, &watch,
                                         (watch / WATCH_EPOCH + 1) * WATCH_EPOCH)) {
    }
  }
}

bool weir__queue_disarm_locked(weir_completion_queue *queue, struct weir__timer *timer) {
  bool was_armed = weir__timer_heap_remove(&queue->guarded.timers, timer);
  if (was_armed) {
    publish_next_due_locked(queue);
  }
  return was_armed;
}

void weir__queue_wake_for_timer(weir_completion_queue *queue) {
  /* A plucker sleeps by itself: the timers of its batch are armed by it, in between. */
  if (queue->type == GRPC_CQ_PLUCK || atomic_load(&queue->next_due_at_ns) == WEIR_NO_DEADLINE ||
      atomic_load(&queue->watch) % WATCH_EPOCH != 0 || atomic_load(&queue->n_sleeping) == 0) {
    return;
  }
  if (queue_hold(queue)) {
    queue_wake_one(queue);
    queue_let_go(queue);
  }
}

/* Takes a timer that is due at `now_ns`, or NULL. */
static struct weir__timer *take_due(weir_completion_queue *queue, int64_t now_ns) {
  pthread_mutex_lock(&queue->guarded.lock);
  struct weir__timer *timer = weir__timer_heap_first(&queue->guarded.timers);
  if (timer != NULL && timer->due_at_ns <= now_ns) {
    (void)weir__queue_disarm_locked(queue, timer);
  } else {
    timer = NULL;
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  return timer;
}

static void fire_due(weir_completion_queue *queue) {
  if (atomic_load(&queue->next_due_at_ns) == WEIR_NO_DEADLINE) {
    return;
  }
  int64_t now_ns = weir__queue_now_ns(queue);
  struct weir__timer *timer = NULL;
  while (atomic_load(&queue->next_due_at_ns) <= now_ns &&
         (timer = take_due(queue, now_ns)) != NULL) {
    timer->on_due(timer, now_ns);
  }
}

void weir_completion_queue_shutdown(weir_completion_queue *queue) {
  pthread_mutex_lock(&queue->guarded.lock);
  bool first = !queue->guarded.shut_down;
  queue->guarded.shut_down = true;
  pthread_mutex_unlock(&queue->guarded.lock);
  if (!first) {
    return;
  }
  /* No timer is armed from here on; those that are end at once. */
  struct weir__timer *timer = NULL;
  while ((timer = take_due(queue, INT64_MAX)) != NULL) {
    timer->on_due(timer, weir__queue_now_ns(queue));
  }
  queue_let_go(queue);
}

/* --- draining --- */

/* `deadline` as an instant of a clock: the waits for it are several, and a span would start anew
 * with each. */
static gpr_timespec deadline_fixed(weir_completion_queue *queue, gpr_timespec deadline) {
  if (deadline.clock_type != GPR_TIMESPAN) {
    return deadline;
  }
  return weir__instant_to_timespec(
      weir__instant_from_timespec(deadline, weir__queue_now_ns(queue)));
}

/* How long a drainer may sleep: until the application's deadline, or until the next timer if that
 * is sooner. */
struct patience {
  gpr_timespec until;
  bool for_timer;
};

static struct patience patience_until(weir_completion_queue *queue, gpr_timespec deadline) {
  int64_t due_at_ns = atomic_load(&queue->next_due_at_ns);
  if (due_at_ns == WEIR_NO_DEADLINE) {
    return (struct patience){.until = deadline, .for_timer = false};
  }
  if (weir__instant_from_timespec(deadline, weir__queue_now_ns(queue)) <= due_at_ns) {
    return (struct patience){.until = deadline, .for_timer = false};
  }
  return (struct patience){.until = weir__instant_to_timespec(due_at_ns), .for_timer = true};
}

/* Joins the watch, if there is a timer to wait for, in the epoch of `watch`, which was read before
 * the wait was measured. True: it counts. */
static bool watch_join(weir_completion_queue *queue, uint64_t watch) {
  if (atomic_load(&queue->next_due_at_ns) == WEIR_NO_DEADLINE) {
    return false;
  }
  uint64_t epoch = watch / WATCH_EPOCH;
  while (watch / WATCH_EPOCH == epoch) {
    if (atomic_compare_exchange_weak(&queue->watch, &watch, watch + 1)) {
      return true;
    }
  }
  return false; /* a nearer timer came, and its thread looks for a sleeper */
}

static void watch_leave(weir_completion_queue *queue, uint64_t joined) {
  uint64_t watch = atomic_load(&queue->watch);
  while (watch / WATCH_EPOCH == joined / WATCH_EPOCH) {
    if (atomic_compare_exchange_weak(&queue->watch, &watch, watch - 1)) {
      return;
    }
  }
}

static bool take_ready(weir_completion_queue *queue, grpc_event *event_out) {
  if (atomic_load(&queue->n_ready) == 0) {
    return false;
  }
  pthread_mutex_lock(&queue->guarded.lock);
  struct weir__completion *completion = queue->guarded.first_ready;
  if (completion != NULL) {
    queue->guarded.first_ready = completion->in_queue.next_ready;
    if (queue->guarded.first_ready == NULL) {
      queue->guarded.last_ready = NULL;
    }
    atomic_fetch_sub(&queue->n_ready, 1);
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  if (completion == NULL) {
    return false;
  }
  if (atomic_load(&queue->n_ready) > 0) {
    queue_wake_one(queue); /* one bell wakes one, who wakes the next; this batch is a hold still */
  }
  completion->ops->deliver(completion, event_out);
  queue_let_go(queue);
  return true;
}

/* Sleeps in the core until an event, or until there is something else to do. */
static grpc_event next_sleep(weir_completion_queue *queue, gpr_timespec deadline,
                             bool *for_timer_out) {
  *for_timer_out = true;
  grpc_event event = {.type = GRPC_QUEUE_TIMEOUT, .success = 0, .tag = NULL};
  atomic_fetch_add(&queue->n_sleeping, 1);
  if (atomic_load(&queue->n_ready) == 0) {
    uint64_t watch = atomic_load(&queue->watch);
    struct patience patience = patience_until(queue, deadline);
    bool watching = watch_join(queue, watch);
    event = queue->transport->queue_next(queue->transport->context, queue->core, patience.until);
    if (watching) {
      watch_leave(queue, watch);
    }
    *for_timer_out = patience.for_timer;
  }
  atomic_fetch_sub(&queue->n_sleeping, 1);
  return event;
}

static grpc_event next_event(weir_completion_queue *queue, gpr_timespec deadline) {
  for (;;) {
    grpc_event event;
    fire_due(queue);
    if (take_ready(queue, &event)) {
      return event;
    }
    bool for_timer = false;
    event = next_sleep(queue, deadline, &for_timer);
    if (event.type == GRPC_QUEUE_TIMEOUT) {
      if (!for_timer && atomic_load(&queue->n_ready) == 0) {
        return event;
      }
    } else if (event.type == GRPC_OP_COMPLETE && event.tag == &queue->bell_tag) {
      /* Only a completion has a tag: the core leaves that of a shutdown unset. The store comes
       * before the look at what is ready: who finds the bell rung counts on that look. */
      atomic_store(&queue->bell_rung, false);
    } else if (event.type == GRPC_QUEUE_SHUTDOWN || !weir__slab_owns(&queue->blocks, event.tag)) {
      return event; /* a foreign one, or the last: nothing is under way, so nothing is ready */
    } else {
      struct weir__completion *completion = event.tag;
      if (completion->ops->on_event(completion, event.success != 0, &event)) {
        queue_let_go(queue);
        return event;
      }
    }
  }
}

grpc_event weir_completion_queue_next(weir_completion_queue *queue, gpr_timespec deadline,
                                      void *reserved) {
  assert(reserved == NULL);
  (void)reserved;
  grpc_event event = next_event(queue, deadline_fixed(queue, deadline));
  weir__queue_wake_for_timer(queue); /* this thread may be gone for long */
  return event;
}

/* --- plucking --- */

/* Plucks from the core. With as many threads there as it allows, it does not wait; *for_timer is
 * then false. */
static grpc_event pluck_sleep(weir_completion_queue *queue, void *tag, struct patience *patience) {
  if (atomic_fetch_add(&queue->n_plucking, 1) >= WEIR__MAX_PLUCKERS) {
    *patience = (struct patience){.until = gpr_inf_past(GPR_CLOCK_MONOTONIC), .for_timer = false};
  }
  grpc_event event =
      queue->transport->queue_pluck(queue->transport->context, queue->core, tag, patience->until);
  atomic_fetch_sub(&queue->n_plucking, 1);
  return event;
}

/* The next event with `tag`, which is there or is being posted. */
static grpc_event pluck_certain(weir_completion_queue *queue, void *tag) {
  for (;;) {
    struct patience patience = {.until = gpr_inf_future(GPR_CLOCK_MONOTONIC), .for_timer = false};
    grpc_event event = pluck_sleep(queue, tag, &patience);
    if (event.type == GRPC_OP_COMPLETE) {
      return event;
    }
    (void)sched_yield(); /* too many threads at once */
  }
}

/* Tells another thread that waits for `tag` of a batch which this one leaves to it. */
static void wake_other_plucker(weir_completion_queue *queue, void *tag) {
  if (queue_hold(queue)) {
    queue_wake_plucker(queue, tag);
    queue_let_go(queue);
  }
}

static grpc_event hand_out_ready(weir_completion_queue *queue, struct weir__pluck_slot *slot) {
  grpc_event event;
  struct weir__completion *completion = slot->completion;
  weir__pluck_slot_free(slot);
  completion->ops->deliver(completion, &event);
  queue_let_go(queue);
  return event;
}

/* The core's event for the batch in `slot`, or the ring. True: `*event` is for the application, or,
 * with a type of GRPC_QUEUE_TIMEOUT, the batch was abandoned. */
static bool pluck_on_event(weir_completion_queue *queue, struct weir__pluck_slot *slot,
                           grpc_event *event) {
  struct weir__completion *completion = slot->completion;
  switch (weir__pluck_slot_state(slot)) {
  case WEIR__PLUCK_READY_RUNG:
    *event = hand_out_ready(queue, slot);
    return true;
  case WEIR__PLUCK_ABANDONED:
    weir__pluck_slot_free(slot);
    event->type = GRPC_QUEUE_TIMEOUT;
    return true;
  case WEIR__PLUCK_WAITING:
    break;
  case WEIR__PLUCK_FREE:
  case WEIR__PLUCK_FILLING:
  case WEIR__PLUCK_IDLE:
  case WEIR__PLUCK_READY:
  case WEIR__PLUCK_READY_CLAIMED:
    assert(false);
  }
  if (!completion->ops->on_event(completion, event->success != 0, event)) {
    return false;
  }
  weir__pluck_slot_free(slot);
  queue_let_go(queue);
  return true;
}

/* Gives up a wait that is over. False: something has happened to the batch meanwhile. */
static bool pluck_give_up(weir_completion_queue *queue, struct weir__pluck_slot *slot, void *tag) {
  if (!weir__pluck_slot_leave(slot)) {
    return false;
  }
  wake_other_plucker(queue, tag);
  return true;
}

/* Plucks the batch in `slot`, which the calling thread has claimed. False: it was abandoned. */
static bool pluck_claimed(weir_completion_queue *queue, struct weir__pluck_slot *slot, void *tag,
                          gpr_timespec deadline, grpc_event *event_out) {
  struct weir__completion *completion = slot->completion;
  for (;;) {
    fire_due(queue);
    if (weir__pluck_slot_state(slot) == WEIR__PLUCK_READY_CLAIMED) {
      *event_out = hand_out_ready(queue, slot);
      return true;
    }
    struct patience patience = patience_until(queue, deadline);
    if (weir__pluck_slot_state(slot) != WEIR__PLUCK_WAITING) {
      *event_out = pluck_certain(queue, completion); /* it has ended, or is not to be: the ring */
    } else {
      *event_out = pluck_sleep(queue, completion, &patience);
    }
    if (event_out->type == GRPC_OP_COMPLETE) {
      if (pluck_on_event(queue, slot, event_out)) {
        return event_out->type == GRPC_OP_COMPLETE;
      }
    } else if (!patience.for_timer && pluck_give_up(queue, slot, tag)) {
      return true;
    }
  }
}

/* Ends the wait for `tag`, of which `*event` came. If there is a ring for this thread, it is in the
 * core, being posted, or in the hands of a thread that will say so. True: it was rung. */
static bool pluck_end_wait(weir_completion_queue *queue, struct weir__pluck_waiter *waiter,
                           void *tag, grpc_event *event) {
  bool rung = false;
  while (!weir__pluck_waiter_end(waiter)) {
    rung = true;
    struct patience none = {.until = gpr_inf_past(GPR_CLOCK_MONOTONIC), .for_timer = false};
    grpc_event other = pluck_sleep(queue, tag, &none);
    if (other.type != GRPC_OP_COMPLETE) {
      (void)sched_yield();
    } else if ((other.success == 0 && event->type != GRPC_OP_COMPLETE) ||
               !weir__pluck_table_settle(&queue->plucks, tag)) {
      *event = other; /* a foreign one */
    }
  }
  return rung;
}

/* Waits for a tag that no batch has, as far as is known: a foreign one. False: look for a batch
 * again. */
static bool pluck_unknown(weir_completion_queue *queue, void *tag, gpr_timespec deadline,
                          grpc_event *event_out) {
  struct weir__pluck_waiter *waiter = weir__pluck_table_wait(&queue->plucks, tag);
  bool look_again = weir__pluck_table_has(&queue->plucks, tag);
  *event_out = (grpc_event){.type = GRPC_QUEUE_TIMEOUT, .success = 0, .tag = NULL};
  if (!look_again) {
    struct patience patience = patience_until(queue, deadline);
    *event_out = pluck_sleep(queue, tag, &patience);
    look_again = event_out->type == GRPC_QUEUE_TIMEOUT && patience.for_timer;
  }
  if (event_out->type == GRPC_OP_COMPLETE && event_out->success != 0 &&
      weir__pluck_table_settle(&queue->plucks, tag)) {
    /* A ring: an event is its tag and its success, so any will do. */
    event_out->type = GRPC_QUEUE_TIMEOUT;
    look_again = true;
  }
  if (waiter != NULL && pluck_end_wait(queue, waiter, tag, event_out)) {
    look_again = true;
  }
  if (event_out->type == GRPC_OP_COMPLETE && look_again) {
    wake_other_plucker(queue, tag); /* to look in this thread's place */
  }
  return event_out->type == GRPC_OP_COMPLETE || !look_again;
}

grpc_event weir_completion_queue_pluck(weir_completion_queue *queue, void *tag,
                                       gpr_timespec deadline, void *reserved) {
  assert(reserved == NULL);
  (void)reserved;
  gpr_timespec until = deadline_fixed(queue, deadline);
  for (;;) {
    grpc_event event;
    fire_due(queue);
    struct weir__pluck_slot *slot = weir__pluck_table_claim(&queue->plucks, tag);
    if (slot != NULL ? pluck_claimed(queue, slot, tag, until, &event)
                     : pluck_unknown(queue, tag, until, &event)) {
      return event;
    }
  }
}
