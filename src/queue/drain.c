/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/drain.h"

#include "src/time/clock.h"
#include "src/time/timespec.h"

gpr_timespec weir__queue_fix_span(const weir_completion_queue *queue, gpr_timespec span) {
  return weir__instant_to_timespec(weir__instant_from_timespec(span, weir__queue_now_ns(queue)));
}

/* So many events that need no core are handed out before the core is heard: it has none of its own
 * to offer while an application starts a call for each that is refused. A look costs as much as a
 * few of them. */
#define READY_IN_A_ROW 64

/* --- timers --- */

static struct weir__timer *first_timer_locked(const weir_completion_queue *queue) {
  struct weir__timer *first = weir__timer_heap_first(&queue->guarded.timers);
  struct weir__timer *lasting = weir__timer_heap_first(&queue->guarded.lasting_timers);
  bool is_lasting = lasting != NULL && (first == NULL || lasting->due_at_ns < first->due_at_ns);
  return is_lasting ? lasting : first;
}

static void publish_next_due_locked(weir_completion_queue *queue) {
  const struct weir__timer *first = first_timer_locked(queue);
  if (first != NULL) {
    atomic_store(&queue->next_due_at_ns, first->due_at_ns);
    atomic_fetch_or(&queue->head.stir, WEIR__QUEUE_TIMER);
  } else {
    atomic_fetch_and(&queue->head.stir, ~WEIR__QUEUE_TIMER);
    atomic_store(&queue->next_due_at_ns, WEIR_NO_DEADLINE);
  }
}

static void arm_locked(weir_completion_queue *queue, struct weir__timer_heap *heap,
                       struct weir__timer *timer) {
  weir__timer_heap_add(heap, timer);
  publish_next_due_locked(queue);
  if (first_timer_locked(queue) == timer) {
    /* Who keeps the watch now may wake too late. After next_due_at_ns, so that who is counted in
     * this epoch has seen it. */
    uint64_t watch = atomic_load(&queue->watch);
    while (!atomic_compare_exchange_weak(&queue->watch, &watch,
                                         (watch / WEIR__QUEUE_EPOCH + 1) * WEIR__QUEUE_EPOCH)) {
    }
  }
}

void weir__queue_arm_locked(weir_completion_queue *queue, struct weir__timer *timer) {
  timer->lasting = false;
  arm_locked(queue, &queue->guarded.timers, timer);
}

bool weir__queue_arm_lasting_locked(weir_completion_queue *queue, struct weir__timer *timer) {
  if (queue->guarded.closed) {
    return false;
  }
  timer->lasting = true;
  arm_locked(queue, &queue->guarded.lasting_timers, timer);
  return true;
}

bool weir__queue_disarm_locked(weir_completion_queue *queue, struct weir__timer *timer) {
  bool was_armed = weir__timer_heap_remove(
      timer->lasting ? &queue->guarded.lasting_timers : &queue->guarded.timers, timer);
  if (was_armed) {
    publish_next_due_locked(queue);
  }
  return was_armed;
}

void weir__queue_wake_for_timer(weir_completion_queue *queue) {
  uint32_t stir = atomic_load(&queue->head.stir);
  if ((stir & WEIR__QUEUE_TIMER) == 0 || (stir & ~WEIR__QUEUE_STIRRED) == 0 ||
      atomic_load(&queue->watch) % WEIR__QUEUE_EPOCH != 0) {
    return;
  }
  if (weir__queue_try_hold(queue)) {
    weir__queue_wake_one(queue);
    weir__queue_unhold(queue);
  }
}

/* Takes a timer that is due at `now_ns`, or NULL. */
static struct weir__timer *take_due(weir_completion_queue *queue, int64_t now_ns) {
  pthread_mutex_lock(&queue->guarded.lock);
  struct weir__timer *timer = first_timer_locked(queue);
  if (timer != NULL && timer->due_at_ns <= now_ns) {
    (void)weir__queue_disarm_locked(queue, timer);
  } else {
    timer = NULL;
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  return timer;
}

/* Takes any timer of one kind, or NULL. */
static struct weir__timer *take_any(weir_completion_queue *queue,
                                    const struct weir__timer_heap *heap) {
  pthread_mutex_lock(&queue->guarded.lock);
  struct weir__timer *timer = weir__timer_heap_first(heap);
  if (timer != NULL) {
    (void)weir__queue_disarm_locked(queue, timer);
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
    bool in_parts = timer->in_parts; /* its owner may be gone afterwards */
    timer->on_due(timer, now_ns);
    if (in_parts) {
      return;
    }
  }
}

static void fire_heap(weir_completion_queue *queue, const struct weir__timer_heap *heap) {
  struct weir__timer *timer = NULL;
  while ((timer = take_any(queue, heap)) != NULL) {
    timer->on_due(timer, weir__queue_now_ns(queue));
  }
}

void weir__queue_fire_all(weir_completion_queue *queue) {
  fire_heap(queue, &queue->guarded.timers);
}

void weir__queue_fire_lasting(weir_completion_queue *queue) {
  fire_heap(queue, &queue->guarded.lasting_timers);
}

/* How long a drainer may sleep: until the application's deadline, or until the next timer if that
 * is sooner. */
struct patience {
  gpr_timespec until;
  bool for_timer;
  bool joins; /* there is a timer */
};

/* A monotonic deadline, the usual one, asks for no time; and there is often none. */
static int64_t instant_of(const weir_completion_queue *queue, gpr_timespec deadline) {
  if (deadline.tv_sec == INT64_MAX) {
    return WEIR_NO_DEADLINE;
  }
  int64_t now_ns = deadline.clock_type == GPR_CLOCK_MONOTONIC ? 0 : weir__queue_now_ns(queue);
  return weir__instant_from_timespec(deadline, now_ns);
}

static struct patience patience_until(weir_completion_queue *queue, gpr_timespec deadline) {
  int64_t due_at_ns = atomic_load(&queue->next_due_at_ns);
  bool has_timer = due_at_ns != WEIR_NO_DEADLINE;
  if (!has_timer || instant_of(queue, deadline) <= due_at_ns) {
    return (struct patience){.until = deadline, .for_timer = false, .joins = has_timer};
  }
  return (struct patience){
      .until = weir__instant_to_timespec(due_at_ns), .for_timer = true, .joins = true};
}

/* Joins the watch, since there is a timer to wait for, in the epoch of `watch`, which was read before
 * the wait was measured. True: it counts. */
static bool watch_join(weir_completion_queue *queue, uint64_t watch) {
  uint64_t epoch = watch / WEIR__QUEUE_EPOCH;
  while (watch / WEIR__QUEUE_EPOCH == epoch) {
    if (atomic_compare_exchange_weak(&queue->watch, &watch, watch + 1)) {
      return true;
    }
  }
  return false; /* a nearer timer came, and its thread looks for a sleeper */
}

static void watch_leave(weir_completion_queue *queue, uint64_t joined) {
  uint64_t watch = atomic_load(&queue->watch);
  while (watch / WEIR__QUEUE_EPOCH == joined / WEIR__QUEUE_EPOCH) {
    if (atomic_compare_exchange_weak(&queue->watch, &watch, watch - 1)) {
      return;
    }
  }
}

/* --- what is ready --- */

static bool take_ready(weir_completion_queue *queue, grpc_event *event_out) {
  if ((atomic_load(&queue->head.stir) & WEIR__QUEUE_READY) == 0 ||
      queue->head.type == GRPC_CQ_PLUCK) {
    return false;
  }
  pthread_mutex_lock(&queue->guarded.lock);
  struct weir__completion *completion = weir__completion_list_pop(&queue->guarded.ready);
  bool is_last = queue->guarded.ready.first == NULL;
  if (is_last) {
    atomic_fetch_and(&queue->head.stir, ~WEIR__QUEUE_READY);
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  if (completion == NULL) {
    return false;
  }
  atomic_fetch_add_explicit(&queue->n_ready_taken, 1, memory_order_relaxed);
  if (!is_last) {
    weir__queue_wake_one(
        queue); /* one bell wakes one, who wakes the next; this batch is owed yet */
  }
  completion->ops->deliver(completion, event_out);
  weir__queue_settle(queue);
  return true;
}

/* Whether it is the core's turn although something is ready. Relaxed: a turn sooner or later. */
static bool take_turn_of_core(weir_completion_queue *queue) {
  if (atomic_load_explicit(&queue->n_ready_taken, memory_order_relaxed) < READY_IN_A_ROW) {
    return false;
  }
  atomic_store_explicit(&queue->n_ready_taken, 0, memory_order_relaxed);
  return true;
}

/* --- what comes --- */

bool weir__queue_on_other_event(weir_completion_queue *queue, grpc_event *event) {
  if (event->type == GRPC_OP_COMPLETE) {
    if (event->tag != &queue->bell_tag) {
      return true;
    }
    /* The store comes before the look at what is ready: who finds the bell rung counts on that
     * look. */
    atomic_store(&queue->bell_rung, false);
    return false;
  }
  event->tag = NULL; /* the core leaves it unset */
  return event->type != GRPC_QUEUE_TIMEOUT ||
         (atomic_load(&queue->head.stir) & WEIR__QUEUE_READY) == 0;
}

/* Takes what the core has now, without a wait. False: nothing. */
static bool hear_core(weir_completion_queue *queue, grpc_event *event_out) {
  *event_out = queue->head.transport->queue_next(
      queue->head.core, gpr_inf_past(GPR_CLOCK_MONOTONIC), queue->head.transport->context);
  return event_out->type == GRPC_OP_COMPLETE;
}

/* --- sleeping --- */

/* Sleeps in the core until an event, or until there is something else to do. The thread has been
 * counted as a sleeper, when nothing was ready. The result as that of weir__queue_drain. */
static inline bool sleep_counted(weir_completion_queue *queue, gpr_timespec deadline,
                                 grpc_event *event_out) {
  const struct weir__queue_head *head = &queue->head;
  uint64_t watch = atomic_load(&queue->watch);
  struct patience patience = patience_until(queue, deadline);
  bool watching = patience.joins && watch_join(queue, watch);
  *event_out = head->transport->queue_next(head->core, patience.until, head->transport->context);
  if (watching) {
    watch_leave(queue, watch);
  }
  atomic_fetch_sub(&queue->head.stir, 1);
  if (event_out->type == GRPC_QUEUE_TIMEOUT && patience.for_timer) {
    return false;
  }
  return weir__queue_on_core_event(queue, event_out);
}

/* Does what there is to do without the core, and otherwise sleeps. */
__attribute__((noinline)) static bool attend(weir_completion_queue *queue, gpr_timespec deadline,
                                             grpc_event *event_out) {
  fire_due(queue);
  if (take_turn_of_core(queue) && hear_core(queue, event_out)) {
    return weir__queue_on_core_event(queue, event_out);
  }
  if (take_ready(queue, event_out)) {
    return true;
  }
  if ((atomic_fetch_add(&queue->head.stir, 1) & WEIR__QUEUE_READY) != 0) {
    atomic_fetch_sub(&queue->head.stir, 1);
    return false;
  }
  return sleep_counted(queue, deadline, event_out);
}

bool weir__queue_drain_stirred(weir_completion_queue *queue, uint32_t stir, gpr_timespec deadline,
                               grpc_event *event_out) {
  bool stale = weir__expiry_is_stale(&queue->expiry);
  int64_t due_at_ns = atomic_load(&queue->next_due_at_ns);
  if (!stale && (stir & WEIR__QUEUE_READY) == 0 && weir__queue_now_ns(queue) < due_at_ns) {
    return sleep_counted(queue, deadline, event_out); /* only a timer, and not yet */
  }
  atomic_fetch_sub(&queue->head.stir, 1); /* first: who arms a timer wakes a sleeper */
  if (stale) {
    weir__expiry_look_early(queue);
  }
  return attend(queue, deadline, event_out);
}
