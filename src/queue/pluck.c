/* SPDX-License-Identifier: Apache-2.0 */
#include "src/queue/pluck.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "src/base/allocator.h"
#include "src/base/container_of.h"
#include "src/queue/drain.h"
#include "src/queue/kept_events.h"
#include "src/queue/tag_table.h"
#include "src/time/clock.h"
#include "src/time/timespec.h"

#define NS_PER_SECOND INT64_C(1000000000)

/* So many events for others a leader takes before it looks at the time. */
#define FAVOURS 16

/* A thread in pluck. What is not said to be its own is guarded by the queue's lock. */
struct plucker {
  struct weir__tag_waiter waiter; /* in the table, until it is served */
  struct plucker *next;           /* in the order in which they came */
  struct plucker *previous;
  bool served; /* with: */
  struct weir__completion *completion;
  grpc_event event; /* if there is no completion */

  pthread_cond_t woken;
  bool can_be_woken;     /* `woken` is initialised */
  unsigned n_for_others; /* events that it has taken as the leader */
  bool asked;            /* see ask_locked */
  uint64_t question;
};

/* Guarded by the queue's lock. */
struct weir__pluckers {
  const struct weir_allocator *allocator;
  struct plucker *leader;
  struct plucker *first;
  struct plucker *last;
  struct weir__tag_table table;
  struct weir__kept_events kept;
  uint64_t n_questions; /* that were asked, and events with the sync tag that have come */
  uint64_t n_answers;
  bool drained; /* the core's queue is shut down, and empty */
};

struct weir__pluckers *weir__pluckers_new(const struct weir_allocator *allocator) {
  struct weir__pluckers *pluckers = weir__zalloc(allocator, sizeof *pluckers);
  if (pluckers == NULL) {
    return NULL;
  }
  pluckers->allocator = allocator;
  weir__tag_table_init(&pluckers->table);
  struct weir__kept_chunk *chunk = weir__kept_chunk_new(allocator);
  if (chunk == NULL) {
    weir__pluckers_free(pluckers);
    return NULL;
  }
  weir__kept_events_add(&pluckers->kept, chunk);
  return pluckers;
}

void weir__pluckers_free(struct weir__pluckers *pluckers) {
  if (pluckers != NULL) {
    weir__kept_events_fini(&pluckers->kept, pluckers->allocator);
    weir__tag_table_fini(&pluckers->table, pluckers->allocator);
    weir__free(pluckers->allocator, pluckers);
  }
}

bool weir__pluckers_are_done(const struct weir__pluckers *pluckers) {
  return pluckers->table.n_entries == 0;
}

/* --- what comes --- */

/* Ends the wait of a plucker. True: it is asleep in the core, or about to be; wake one there. */
static bool serve_locked(weir_completion_queue *queue, struct plucker *plucker) {
  struct weir__pluckers *pluckers = queue->pluckers;
  plucker->served = true;
  weir__tag_table_remove_waiter(&pluckers->table, &plucker->waiter);
  if (plucker == pluckers->leader) {
    atomic_fetch_or(&queue->head.stir, WEIR__QUEUE_READY);
    return true;
  }
  pthread_cond_signal(&plucker->woken);
  return false;
}

static struct plucker *find_plucker(const struct weir__pluckers *pluckers, const void *tag) {
  struct weir__tag_waiter *waiter = weir__tag_table_find_waiter(&pluckers->table, tag);
  return waiter != NULL ? WEIR__CONTAINER_OF(waiter, struct plucker, waiter) : NULL;
}

void weir__pluckers_push_ready(weir_completion_queue *queue, struct weir__completion *completion) {
  struct weir__pluckers *pluckers = queue->pluckers;
  /* The batch is owed no more, as one that the core has ended, but it may be plucked, and the queue
   * be destroyed, before this thread is done. */
  bool held = weir__queue_try_hold(queue);
  assert(held);
  (void)held;
  weir__queue_settle(queue);
  pthread_mutex_lock(&queue->guarded.lock);
  struct plucker *plucker = find_plucker(pluckers, completion->app_tag);
  bool wakes = false;
  if (plucker != NULL) {
    plucker->completion = completion;
    wakes = serve_locked(queue, plucker);
  } else {
    weir__tag_table_put(&pluckers->table, completion);
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  if (wakes) {
    weir__queue_wake_one(queue);
  }
  weir__queue_unhold(queue);
}

/* Gives the core's event to whom it is for, or keeps it: there is room. */
static void distribute_locked(weir_completion_queue *queue, const grpc_event *event) {
  struct weir__pluckers *pluckers = queue->pluckers;
  struct plucker *plucker = find_plucker(pluckers, event->tag);
  if (plucker != NULL) {
    plucker->event = *event;
    (void)serve_locked(queue, plucker); /* the leader is the calling thread */
  } else {
    weir__tag_table_put(&pluckers->table, weir__kept_events_keep(&pluckers->kept, event));
  }
}

/* The leader has seen the queue's end, or an event that answers. */
static void wake_informed_locked(const struct weir__pluckers *pluckers) {
  for (struct plucker *plucker = pluckers->first; plucker != NULL; plucker = plucker->next) {
    bool is_answered = plucker->asked && plucker->question <= pluckers->n_answers;
    if (plucker != pluckers->leader && (is_answered || pluckers->drained)) {
      pthread_cond_signal(&plucker->woken);
    }
  }
}

/* Finds out what is on its way to a plucker whose time is over: an event may be in the core, or in
 * the leader's hands. It has an event of its own posted behind. When the leader has got to that
 * one, all that was before has been given out. The lock is let go meanwhile. */
static void ask_locked(weir_completion_queue *queue, struct plucker *self) {
  self->asked = true;
  self->question = ++queue->pluckers->n_questions;
  pthread_mutex_unlock(&queue->guarded.lock);
  if (weir__queue_try_hold(queue)) { /* if not, the leader is about to see the end */
    weir__queue_ring(queue, &queue->sync_tag);
    weir__queue_unhold(queue);
  }
  pthread_mutex_lock(&queue->guarded.lock);
}

/* --- leading --- */

/* Makes room for one more event to keep. False: there is no memory. The lock is let go
 * meanwhile. */
static bool make_room_locked(weir_completion_queue *queue) {
  struct weir__pluckers *pluckers = queue->pluckers;
  size_t length = weir__tag_table_wanted_length(&pluckers->table);
  if (length != 0) {
    pthread_mutex_unlock(&queue->guarded.lock);
    struct weir__tag_bucket *buckets = weir__tag_buckets_new(pluckers->allocator, length);
    pthread_mutex_lock(&queue->guarded.lock);
    if (buckets != NULL) { /* only a leader comes here, so it is wanted yet */
      buckets = weir__tag_table_grow(&pluckers->table, buckets, length);
    }
    if (buckets != NULL) {
      pthread_mutex_unlock(&queue->guarded.lock);
      weir__free(pluckers->allocator, buckets);
      pthread_mutex_lock(&queue->guarded.lock);
    }
  }
  if (pluckers->kept.free == NULL) {
    pthread_mutex_unlock(&queue->guarded.lock);
    struct weir__kept_chunk *chunk = weir__kept_chunk_new(pluckers->allocator);
    pthread_mutex_lock(&queue->guarded.lock);
    if (chunk != NULL) {
      weir__kept_events_add(&pluckers->kept, chunk);
    }
  }
  return pluckers->kept.free != NULL;
}

/* The leader does not lead any more. */
static void hand_on_locked(weir_completion_queue *queue, struct plucker *leader) {
  struct weir__pluckers *pluckers = queue->pluckers;
  struct plucker *other = pluckers->first;
  while (other != NULL && (other == leader || other->served)) {
    other = other->next;
  }
  atomic_fetch_and(&queue->head.stir, ~WEIR__QUEUE_READY);
  pluckers->leader = other;
  if (other != NULL) {
    pthread_cond_signal(&other->woken);
  }
}

/* Whether the leader, that has just taken an event for another, might do so without end. */
static bool is_late(const weir_completion_queue *queue, struct plucker *leader,
                    gpr_timespec until) {
  if (leader->asked || ++leader->n_for_others % FAVOURS != 0) {
    return false;
  }
  int64_t now_ns = weir__queue_now_ns(queue);
  return weir__instant_from_timespec(until, now_ns) <= now_ns;
}

/* One step in the core, for all. Says how the leader's own wait is to end, if nothing has come for
 * it; GRPC_OP_COMPLETE = it goes on. The lock is let go meanwhile. */
static grpc_completion_type lead_locked(weir_completion_queue *queue, struct plucker *self,
                                        gpr_timespec until) {
  struct weir__pluckers *pluckers = queue->pluckers;
  if (!make_room_locked(queue)) {
    return GRPC_QUEUE_TIMEOUT; /* as the core, where it has no room for one more plucker */
  }
  if (self->served) {
    return GRPC_OP_COMPLETE;
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  grpc_event event;
  bool has_come = weir__queue_drain(queue, until, &event);
  pthread_mutex_lock(&queue->guarded.lock);
  if (!has_come) {
    return GRPC_OP_COMPLETE;
  }
  if (event.type == GRPC_QUEUE_SHUTDOWN) {
    pluckers->drained = true;
    wake_informed_locked(pluckers);
  } else if (event.type == GRPC_OP_COMPLETE && event.tag == &queue->sync_tag) {
    pluckers->n_answers++;
    wake_informed_locked(pluckers);
  } else if (event.type == GRPC_OP_COMPLETE) {
    distribute_locked(queue, &event);
    if (!self->served && is_late(queue, self, until)) {
      ask_locked(queue, self);
    }
  }
  return event.type;
}

/* --- following --- */

static void init_woken(struct plucker *self) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&self->woken, &attributes);
  pthread_condattr_destroy(&attributes);
  self->can_be_woken = true;
}

/* False: `until` is past. */
static bool wait_locked(weir_completion_queue *queue, struct plucker *self, gpr_timespec until) {
  /* Not the queue's clock, which may be the application's own. */
  int64_t at_ns =
      weir__instant_from_timespec(until, weir__clock_now_ns(weir__clock_or_default(NULL)));
  if (at_ns == WEIR_NO_DEADLINE) {
    pthread_cond_wait(&self->woken, &queue->guarded.lock);
    return true;
  }
  at_ns = at_ns > 0 ? at_ns : 0;
  struct timespec at = {.tv_sec = (time_t)(at_ns / NS_PER_SECOND),
                        .tv_nsec = (long)(at_ns % NS_PER_SECOND)};
  return pthread_cond_timedwait(&self->woken, &queue->guarded.lock, &at) != ETIMEDOUT;
}

/* One wait for the leader. */
static void follow_locked(weir_completion_queue *queue, struct plucker *self, gpr_timespec until) {
  if (!self->can_be_woken) {
    init_woken(self);
  }
  if (self->asked) {
    pthread_cond_wait(&self->woken, &queue->guarded.lock);
  } else if (!wait_locked(queue, self, until)) {
    ask_locked(queue, self);
  }
}

/* --- plucking --- */

static void enter_locked(struct weir__pluckers *pluckers, struct plucker *self) {
  weir__tag_table_add_waiter(&pluckers->table, &self->waiter);
  self->previous = pluckers->last;
  if (self->previous != NULL) {
    self->previous->next = self;
  } else {
    pluckers->first = self;
  }
  pluckers->last = self;
}

static void leave_locked(weir_completion_queue *queue, struct plucker *self) {
  struct weir__pluckers *pluckers = queue->pluckers;
  if (!self->served) {
    weir__tag_table_remove_waiter(&pluckers->table, &self->waiter);
  }
  if (pluckers->leader == self) {
    hand_on_locked(queue, self);
  }
  if (self->previous != NULL) {
    self->previous->next = self->next;
  } else {
    pluckers->first = self->next;
  }
  if (self->next != NULL) {
    self->next->previous = self->previous;
  } else {
    pluckers->last = self->previous;
  }
}

/* Says how the wait has ended, if nothing has come. */
static grpc_completion_type wait_for_tag_locked(weir_completion_queue *queue, struct plucker *self,
                                                gpr_timespec until) {
  struct weir__pluckers *pluckers = queue->pluckers;
  grpc_completion_type end = GRPC_OP_COMPLETE;
  enter_locked(pluckers, self);
  while (end == GRPC_OP_COMPLETE && !self->served) {
    if (pluckers->leader == NULL) {
      pluckers->leader = self;
    }
    if (pluckers->drained) {
      end = GRPC_QUEUE_SHUTDOWN;
    } else if (self->asked && pluckers->n_answers >= self->question) {
      end = GRPC_QUEUE_TIMEOUT;
    } else if (pluckers->leader == self) {
      end = lead_locked(queue, self, until);
    } else {
      follow_locked(queue, self, until);
    }
  }
  leave_locked(queue, self);
  return end;
}

grpc_event weir_completion_queue_pluck(weir_completion_queue *queue, void *tag,
                                       gpr_timespec deadline, void *reserved) {
  assert(reserved == NULL);
  (void)reserved;
  struct weir__pluckers *pluckers = queue->pluckers;
  if (pluckers == NULL) {
    return weir__queue_no_event(GRPC_QUEUE_SHUTDOWN);
  }
  gpr_timespec until = weir__queue_fix_deadline(queue, deadline);
  struct plucker self = {.waiter = {.tag = tag}};
  grpc_completion_type end = GRPC_OP_COMPLETE;
  pthread_mutex_lock(&queue->guarded.lock);
  self.completion = weir__tag_table_take(&pluckers->table, tag);
  if (self.completion == NULL) {
    end = wait_for_tag_locked(queue, &self, until);
  } else {
    self.served = true;
  }
  if (self.served && self.completion != NULL && weir__completion_is_kept_event(self.completion)) {
    self.event = weir__kept_events_take(&pluckers->kept, self.completion);
    self.completion = NULL;
  }
  pthread_mutex_unlock(&queue->guarded.lock);
  if (self.can_be_woken) {
    pthread_cond_destroy(&self.woken);
  }
  if (!self.served) {
    return weir__queue_no_event(end);
  }
  if (self.completion != NULL) {
    self.completion->ops->deliver(self.completion, &self.event);
  }
  return self.event;
}
