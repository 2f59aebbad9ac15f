/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/lanes.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <grpc/support/time.h>

#include <weir/weir.h>

#include "src/base/container_of.h"
#include "test/soak/blocking.h"
#include "test/soak/call.h"
#include "test/soak/chance.h"
#include "test/soak/live_memory.h"

#define NEXT_SLOTS 16
#define CALLBACK_SLOTS 16
#define ASYNC_SLOTS (NEXT_SLOTS + CALLBACK_SLOTS)
#define NEXT_THREADS 3
#define CALLBACK_THREADS 3
#define PLUCK_THREADS 8
#define BLOCKING_THREADS 8

#define TURN_MS 2
#define SWAP_EACH_TURNS 12
#define OVERRIDE_PERCENT 10

/* A call that failed at once is not followed at once by the next: while a breaker is open, or
 * nobody listens, such calls would be all that is made. */
#define AT_ONCE_NS (2 * WEIR_MS_NS)
#define REST_NS (16 * WEIR_MS_NS)

#define STUCK_LIMIT_NS (WEIR_SECOND_NS * 60)

enum slot_state { SLOT_IDLE = 0, SLOT_RUNNING, SLOT_RESTING };

/* Where calls are made one after the other. */
struct slot {
  struct call call;
  struct lanes *lanes;
  _Atomic int state;
  _Atomic int64_t rests_until_ns;
};

struct worker {
  struct lanes *lanes;
  pthread_t thread;
  struct slot slot; /* of a plucker */
  /* Of a thread that blocks: the call that it is in. */
  _Atomic int64_t id;
  _Atomic int64_t stuck_at_ns;
};

struct lanes {
  struct client *client;
  weir_completion_queue *next;
  weir_completion_queue *callback;
  weir_completion_queue *pluck;
  struct slot async[ASYNC_SLOTS];
  pthread_t drainers[NEXT_THREADS];
  struct worker pluckers[PLUCK_THREADS];
  struct worker blockers[BLOCKING_THREADS];
  pthread_t disturber;
  int end[2];           /* a pipe that wakes it for the last time */
  struct chance chance; /* its */

  struct {
    pthread_mutex_t mutex; /* held while channels are disturbed */
    bool on;
  } storm;

  _Atomic int64_t next_id;
  _Atomic int64_t next_blocking_id;
  _Atomic int64_t last;

  struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* the turn, or the phase */
    pthread_cond_t idle;
    uint64_t turn;
    uint64_t phase;
    size_t n_busy;
    bool over;
  } guarded;
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: lanes: %s\n", what);
    abort();
  }
}

/* --- who is at work --- */

/* The next call to be made; 0 = there are no more in this phase. */
static int64_t draw(struct lanes *lanes) {
  int64_t id = 0;
  do {
    id = atomic_fetch_add(&lanes->next_id, 1);
  } while (plan_is_blocking(id));
  return id <= atomic_load(&lanes->last) ? id : 0;
}

static int64_t draw_blocking(struct lanes *lanes) {
  int64_t id = atomic_fetch_add(&lanes->next_blocking_id, PLAN_BLOCKING_EACH);
  return id <= atomic_load(&lanes->last) ? id : 0;
}

static void become_idle(struct lanes *lanes) {
  (void)pthread_mutex_lock(&lanes->guarded.mutex);
  lanes->guarded.n_busy--;
  if (lanes->guarded.n_busy == 0) {
    (void)pthread_cond_broadcast(&lanes->guarded.idle);
  }
  (void)pthread_mutex_unlock(&lanes->guarded.mutex);
}

/* False = there is none any more. */
static bool await_phase(struct lanes *lanes, uint64_t *phase) {
  (void)pthread_mutex_lock(&lanes->guarded.mutex);
  while (lanes->guarded.phase == *phase && !lanes->guarded.over) {
    (void)pthread_cond_wait(&lanes->guarded.changed, &lanes->guarded.mutex);
  }
  *phase = lanes->guarded.phase;
  bool over = lanes->guarded.over;
  (void)pthread_mutex_unlock(&lanes->guarded.mutex);
  return !over;
}

void lanes_await_turn(struct lanes *lanes) {
  (void)pthread_mutex_lock(&lanes->guarded.mutex);
  uint64_t turn = lanes->guarded.turn;
  while (lanes->guarded.turn == turn) {
    (void)pthread_cond_wait(&lanes->guarded.changed, &lanes->guarded.mutex);
  }
  (void)pthread_mutex_unlock(&lanes->guarded.mutex);
}

static bool failed_at_once(const struct tally_call *call, grpc_status_code code) {
  return code != GRPC_STATUS_OK && ledger_now_ns() - call->began_at_ns < AT_ONCE_NS;
}

static void rest(struct lanes *lanes) {
  int64_t until_ns = ledger_now_ns() + REST_NS;
  while (ledger_now_ns() < until_ns) {
    lanes_await_turn(lanes);
  }
}

/* --- slots: next and callback --- */

static void slot_next(struct slot *slot) {
  int64_t id = draw(slot->lanes);
  if (id == 0) {
    atomic_store(&slot->state, SLOT_IDLE);
    become_idle(slot->lanes);
    return;
  }
  call_begin(&slot->call, id);
}

static void slot_on_tag(struct call_tag *tag, bool ok) {
  struct slot *slot = WEIR__CONTAINER_OF(tag->call, struct slot, call);
  if (!call_on_tag(tag, ok)) {
    return;
  }
  if (failed_at_once(&slot->call.told, slot->call.code)) {
    atomic_store(&slot->rests_until_ns, ledger_now_ns() + REST_NS);
    atomic_store(&slot->state, SLOT_RESTING); /* the disturber's now */
  } else {
    slot_next(slot);
  }
}

static void run_functor(grpc_completion_queue_functor *functor, int success) {
  slot_on_tag(WEIR__CONTAINER_OF(functor, struct call_tag, functor), success != 0);
}

static void slot_look(struct slot *slot, int64_t now_ns) {
  call_cancel_if_due(&slot->call, now_ns);
  if (atomic_load(&slot->state) == SLOT_RESTING && now_ns >= atomic_load(&slot->rests_until_ns)) {
    atomic_store(&slot->state, SLOT_RUNNING);
    slot_next(slot);
  }
}

static void *drain(void *argument) {
  struct lanes *lanes = argument;
  for (;;) {
    grpc_event event =
        weir_completion_queue_next(lanes->next, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    if (event.type != GRPC_OP_COMPLETE) {
      return NULL;
    }
    slot_on_tag(event.tag, event.success != 0);
  }
}

/* --- threads that wait for a call each --- */

static void pluck_call(struct worker *worker, int64_t id) {
  struct call *call = &worker->slot.call;
  bool over = false;
  call_begin(call, id);
  while (!over) {
    grpc_event event = weir_completion_queue_pluck(worker->lanes->pluck, call_owed(call),
                                                   gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    check(event.type == GRPC_OP_COMPLETE, "no tag of those that are owed");
    over = call_on_tag(event.tag, event.success != 0);
  }
  if (failed_at_once(&call->told, call->code)) {
    rest(worker->lanes);
  }
}

static void *pluck(void *argument) {
  struct worker *worker = argument;
  uint64_t phase = 0;
  while (await_phase(worker->lanes, &phase)) {
    for (int64_t id = draw(worker->lanes); id != 0; id = draw(worker->lanes)) {
      pluck_call(worker, id);
    }
    become_idle(worker->lanes);
  }
  return NULL;
}

static void block_in_call(struct worker *worker, int64_t id) {
  struct tally_call call = blocking_plan(worker->lanes->client, id);
  atomic_store(&worker->stuck_at_ns, call.began_at_ns + call.plan.timeout_ns + STUCK_LIMIT_NS);
  atomic_store(&worker->id, id);
  grpc_status_code code = blocking_run(worker->lanes->client, &call);
  atomic_store(&worker->id, 0);
  if (failed_at_once(&call, code)) {
    rest(worker->lanes);
  }
}

static void *block(void *argument) {
  struct worker *worker = argument;
  uint64_t phase = 0;
  while (await_phase(worker->lanes, &phase)) {
    for (int64_t id = draw_blocking(worker->lanes); id != 0; id = draw_blocking(worker->lanes)) {
      block_in_call(worker, id);
    }
    become_idle(worker->lanes);
  }
  return NULL;
}

/* --- the thread that disturbs them --- */

/* Another policy, and now and then an override, which the next turn of that channel takes back. */
static void disturb(struct lanes *lanes) {
  struct wire *wire = &lanes->client->wires[chance_below(&lanes->chance, PLAN_CLIENT_CHANNELS)];
  enum weir_breaker_override override = WEIR_BREAKER_OVERRIDE_NONE;
  if (chance_percent(&lanes->chance, OVERRIDE_PERCENT)) {
    override = chance_percent(&lanes->chance, 50) ? WEIR_BREAKER_OVERRIDE_OPEN
                                                  : WEIR_BREAKER_OVERRIDE_DISABLED;
  }
  wire_swap(wire, chance_below(&lanes->chance, POLICIES_CLIENT));
  enum weir_error error = weir_channel_set_breaker_override(wire->channel, NULL, override);
  check(error == WEIR_OK || error == WEIR_ERROR_UNAVAILABLE, "an override is refused");
}

static void turn(struct lanes *lanes, uint64_t number) {
  int64_t now_ns = ledger_now_ns();
  tally_turn(lanes->client->tally, now_ns);
  (void)pthread_mutex_lock(&lanes->storm.mutex);
  if (number % SWAP_EACH_TURNS == 0 && lanes->storm.on) {
    disturb(lanes);
  }
  (void)pthread_mutex_unlock(&lanes->storm.mutex);
  for (size_t i = 0; i < ASYNC_SLOTS; i++) {
    slot_look(&lanes->async[i], now_ns);
  }
  for (size_t i = 0; i < PLUCK_THREADS; i++) {
    call_cancel_if_due(&lanes->pluckers[i].slot.call, now_ns);
  }
  (void)pthread_mutex_lock(&lanes->guarded.mutex);
  lanes->guarded.turn = number;
  (void)pthread_cond_broadcast(&lanes->guarded.changed);
  (void)pthread_mutex_unlock(&lanes->guarded.mutex);
}

static void *disturb_all(void *argument) {
  struct lanes *lanes = argument;
  struct pollfd fd = {.fd = lanes->end[0], .events = POLLIN};
  for (uint64_t number = 1; poll(&fd, 1, TURN_MS) <= 0; number++) {
    turn(lanes, number);
  }
  return NULL;
}

/* --- lanes --- */

static void open_queues(struct lanes *lanes) {
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.allocator = &live_memory;
  options.n_callback_threads = CALLBACK_THREADS;
  lanes->next = weir_completion_queue_create_for_next(&options);
  lanes->pluck = weir_completion_queue_create_for_pluck(&options);
  lanes->callback = weir_completion_queue_create_for_callback(NULL, &options);
  check(lanes->next != NULL && lanes->pluck != NULL && lanes->callback != NULL, "no queue");
}

static void slot_init(struct slot *slot, struct lanes *lanes, weir_completion_queue *queue) {
  slot->lanes = lanes;
  call_init(&slot->call, lanes->client, queue, queue == lanes->callback ? run_functor : NULL);
}

static void start_thread(pthread_t *thread, void *(*run)(void *argument), void *argument) {
  check(pthread_create(thread, NULL, run, argument) == 0, "no thread");
}

static void worker_start(struct worker *worker, struct lanes *lanes, void *(*run)(void *argument)) {
  worker->lanes = lanes;
  slot_init(&worker->slot, lanes, lanes->pluck);
  start_thread(&worker->thread, run, worker);
}

static void start_threads(struct lanes *lanes) {
  for (size_t i = 0; i < ASYNC_SLOTS; i++) {
    slot_init(&lanes->async[i], lanes, i < NEXT_SLOTS ? lanes->next : lanes->callback);
  }
  for (size_t i = 0; i < NEXT_THREADS; i++) {
    start_thread(&lanes->drainers[i], drain, lanes);
  }
  for (size_t i = 0; i < PLUCK_THREADS; i++) {
    worker_start(&lanes->pluckers[i], lanes, pluck);
  }
  for (size_t i = 0; i < BLOCKING_THREADS; i++) {
    worker_start(&lanes->blockers[i], lanes, block);
  }
  start_thread(&lanes->disturber, disturb_all, lanes);
}

struct lanes *lanes_new(struct client *client) {
  struct lanes *lanes = calloc(1, sizeof *lanes);
  pthread_condattr_t monotonic;
  check(lanes != NULL, "no memory");
  lanes->client = client;
  lanes->chance = chance_of(client->plans->seed, UINT64_MAX);
  check(pipe(lanes->end) == 0, "no pipe");
  (void)pthread_mutex_init(&lanes->storm.mutex, NULL);
  (void)pthread_mutex_init(&lanes->guarded.mutex, NULL);
  (void)pthread_condattr_init(&monotonic);
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&lanes->guarded.changed, &monotonic);
  (void)pthread_cond_init(&lanes->guarded.idle, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  open_queues(lanes);
  start_threads(lanes);
  return lanes;
}

static void set_storm(struct lanes *lanes, bool on) {
  (void)pthread_mutex_lock(&lanes->storm.mutex);
  lanes->storm.on = on;
  (void)pthread_mutex_unlock(&lanes->storm.mutex);
}

void lanes_calm(struct lanes *lanes) {
  set_storm(lanes, false);
}

void lanes_begin(struct lanes *lanes, int64_t first, int64_t last) {
  int64_t each = PLAN_BLOCKING_EACH;
  set_storm(lanes, true);
  atomic_store(&lanes->last, last);
  atomic_store(&lanes->next_id, first);
  atomic_store(&lanes->next_blocking_id, (first + each - 1) / each * each);
  (void)pthread_mutex_lock(&lanes->guarded.mutex);
  lanes->guarded.n_busy = ASYNC_SLOTS + PLUCK_THREADS + BLOCKING_THREADS;
  lanes->guarded.phase++;
  (void)pthread_cond_broadcast(&lanes->guarded.changed);
  (void)pthread_mutex_unlock(&lanes->guarded.mutex);
  for (size_t i = 0; i < ASYNC_SLOTS; i++) {
    atomic_store(&lanes->async[i].state, SLOT_RUNNING);
    slot_next(&lanes->async[i]);
  }
}

bool lanes_await(struct lanes *lanes, int64_t span_ns) {
  int64_t until_ns = ledger_now_ns() + span_ns;
  const struct timespec until = {.tv_sec = until_ns / WEIR_SECOND_NS,
                                 .tv_nsec = until_ns % WEIR_SECOND_NS};
  int error = 0;
  (void)pthread_mutex_lock(&lanes->guarded.mutex);
  while (lanes->guarded.n_busy > 0 && error == 0) {
    error = pthread_cond_timedwait(&lanes->guarded.idle, &lanes->guarded.mutex, &until);
  }
  bool idle = lanes->guarded.n_busy == 0;
  (void)pthread_mutex_unlock(&lanes->guarded.mutex);
  return idle;
}

bool lanes_are_stuck(struct lanes *lanes) {
  int64_t now_ns = ledger_now_ns();
  bool stuck = false;
  for (size_t i = 0; i < ASYNC_SLOTS; i++) {
    stuck = call_is_stuck(&lanes->async[i].call, now_ns) || stuck;
  }
  for (size_t i = 0; i < PLUCK_THREADS; i++) {
    stuck = call_is_stuck(&lanes->pluckers[i].slot.call, now_ns) || stuck;
  }
  for (size_t i = 0; i < BLOCKING_THREADS; i++) {
    int64_t id = atomic_load(&lanes->blockers[i].id);
    if (id != 0 && now_ns > atomic_load(&lanes->blockers[i].stuck_at_ns)) {
      ledger_blame(lanes->client->ledger, id, LEDGER_CLIENT, "weir_unary does not return");
      stuck = true;
    }
  }
  return stuck;
}

/* --- the end --- */

static void end_threads(struct lanes *lanes) {
  check(write(lanes->end[1], "x", 1) == 1, "wake");
  (void)pthread_join(lanes->disturber, NULL);
  (void)pthread_mutex_lock(&lanes->guarded.mutex);
  lanes->guarded.over = true;
  (void)pthread_cond_broadcast(&lanes->guarded.changed);
  (void)pthread_mutex_unlock(&lanes->guarded.mutex);
  for (size_t i = 0; i < PLUCK_THREADS; i++) {
    (void)pthread_join(lanes->pluckers[i].thread, NULL);
    call_fini(&lanes->pluckers[i].slot.call);
  }
  for (size_t i = 0; i < BLOCKING_THREADS; i++) {
    (void)pthread_join(lanes->blockers[i].thread, NULL);
    call_fini(&lanes->blockers[i].slot.call);
  }
}

static void end_queues(struct lanes *lanes) {
  weir_completion_queue_shutdown(lanes->next);
  for (size_t i = 0; i < NEXT_THREADS; i++) {
    (void)pthread_join(lanes->drainers[i], NULL);
  }
  weir_completion_queue_destroy(lanes->next);
  weir_completion_queue_shutdown(lanes->callback);
  weir_completion_queue_destroy(lanes->callback);
  weir_completion_queue_shutdown(lanes->pluck);
  for (size_t i = 0; i < PLUCK_THREADS; i++) {
    for (size_t j = 0; j < CALL_OPS; j++) {
      grpc_event event =
          weir_completion_queue_pluck(lanes->pluck, &lanes->pluckers[i].slot.call.tags[j],
                                      gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
      if (event.type != GRPC_QUEUE_SHUTDOWN) {
        ledger_blame(lanes->client->ledger, lanes->pluckers[i].slot.call.told.id, LEDGER_CLIENT,
                     "line %zu has come once too often", j);
      }
    }
  }
  weir_completion_queue_destroy(lanes->pluck);
}

void lanes_release(struct lanes *lanes) {
  end_threads(lanes);
  end_queues(lanes);
  for (size_t i = 0; i < ASYNC_SLOTS; i++) {
    call_fini(&lanes->async[i].call);
  }
  (void)close(lanes->end[0]);
  (void)close(lanes->end[1]);
  (void)pthread_cond_destroy(&lanes->guarded.changed);
  (void)pthread_cond_destroy(&lanes->guarded.idle);
  (void)pthread_mutex_destroy(&lanes->storm.mutex);
  (void)pthread_mutex_destroy(&lanes->guarded.mutex);
  free(lanes);
}
