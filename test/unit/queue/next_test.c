/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/container_of.h"
#include "src/queue/queue_state.h"
#include "test/unit/queue/queue_fixture.h"

/* Repetitions of a test whose interleaving is left to the scheduler. */
#define N_RACES 200

static int tags[64];

static int setup(void **state) {
  static struct queue_fixture fixture;
  grpc_init();
  queue_fixture_init(&fixture, GRPC_CQ_NEXT);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  queue_fixture_fini(*state);
  grpc_shutdown();
  return 0;
}

static grpc_event next(struct queue_fixture *f, gpr_timespec deadline) {
  return weir_completion_queue_next(f->queue, deadline, NULL);
}

static void assert_came(grpc_event event, const void *tag, int success) {
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, tag);
  assert_int_equal(event.success, success);
}

/* A thread that takes one event. */
struct taker {
  pthread_t thread;
  struct queue_fixture *fixture;
  grpc_event event;
};

static void *taker_run(void *context) {
  struct taker *taker = context;
  taker->event = next(taker->fixture, never());
  return NULL;
}

static void taker_start(struct taker *taker, struct queue_fixture *f) {
  taker->fixture = f;
  assert_int_equal(pthread_create(&taker->thread, NULL, taker_run, taker), 0);
}

static void taker_join(struct taker *taker) {
  assert_int_equal(pthread_join(taker->thread, NULL), 0);
}

/* --- one thread --- */

static void batches_come_as_the_core_and_the_queue_end_them(void **state) {
  struct queue_fixture *f = *state;
  batch_post(batch_begin(f, &tags[0]));
  assert_came(next(f, never()), &tags[0], 1);

  struct batch *failed = batch_begin(f, NULL);
  failed->success = false;
  batch_end(failed);
  assert_came(next(f, at_once()), NULL, 0);
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
}

static void a_batch_that_goes_on_comes_when_it_has_ended(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  atomic_store(&batch->n_rounds, 4);
  batch_post(batch);

  assert_came(next(f, never()), &tags[0], 1);
}

static void what_ended_first_comes_first(void **state) {
  struct queue_fixture *f = *state;
  for (size_t i = 0; i < 10; i++) {
    batch_end(batch_begin(f, &tags[i]));
  }
  for (size_t i = 0; i < 10; i++) {
    assert_came(next(f, at_once()), &tags[i], 1);
  }
}

/* An application that starts a call for each that is refused finds the queue never empty; what the
 * core has must come all the same. */
static void the_core_is_heard_while_there_is_always_something_ready(void **state) {
  struct queue_fixture *f = *state;
  batch_post(batch_begin(f, &tags[0]));
  grpc_event event = {.type = GRPC_OP_COMPLETE, .tag = &tags[1]};
  for (size_t i = 0; i < 1000 && event.tag == &tags[1]; i++) {
    batch_end(batch_begin(f, &tags[1]));
    event = next(f, never());
  }
  assert_came(event, &tags[0], 1);
  assert_came(next(f, at_once()), &tags[1], 1);
}

static void foreign_tags_pass_untouched_wherever_they_point(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  const size_t all_blocks_bytes =
      WEIR__SLAB_MAX_BLOCKS * (WEIR__QUEUE_BLOCK_BYTES + WEIR__SLAB_OWN_BYTES);
  void *const foreign[] = {
      NULL,
      (void *)1,
      (void *)UINTPTR_MAX,
      &tags[1],
      f,
      f->queue,
      batch,                          /* as the address of a call */
      (void *)((uintptr_t)batch + 1), /* so, with a mark in its lowest bits */
      (void *)((uintptr_t)batch + 7),
      (void *)((uintptr_t)batch - sizeof(void *)), /* the first block: before all of them */
      (void *)((uintptr_t)batch + all_blocks_bytes + sizeof(void *)),
  };
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
    foreign_post(f, foreign[i]);
    assert_came(next(f, never()), foreign[i], 1);
    foreign_post_failed(f, foreign[i]);
    assert_came(next(f, never()), foreign[i], 0);
  }
  batch_end(batch);
  assert_came(next(f, at_once()), &tags[0], 1);
}

static void a_batch_that_was_abandoned_never_comes(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  weir__queue_abandon(f->queue);
  weir__queue_block_give(f->queue, batch);

  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
}

static void a_batch_that_begins_after_the_shutdown_is_refused(void **state) {
  struct queue_fixture *f = *state;
  struct weir__completion *completion = weir__queue_block_take(f->queue);
  weir_completion_queue_shutdown(f->queue);

  assert_int_equal(weir__queue_begin(f->queue, completion, &tags[0]), WEIR_ERROR_UNAVAILABLE);

  assert_int_equal(next(f, never()).type, GRPC_QUEUE_SHUTDOWN);
  assert_int_equal(weir__queue_begin(f->queue, completion, &tags[0]), WEIR_ERROR_UNAVAILABLE);
  weir__queue_wake_for_timer(f->queue);
  weir__queue_block_give(f->queue, completion);
}

static void shutdown_waits_for_what_is_under_way_and_for_what_begins_meanwhile(void **state) {
  struct queue_fixture *f = *state;
  struct batch *first = batch_begin(f, &tags[0]);
  weir_completion_queue_shutdown(f->queue);
  weir_completion_queue_shutdown(f->queue);

  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  struct batch *second = batch_begin(f, &tags[1]);
  batch_post(first);
  assert_came(next(f, never()), &tags[0], 1);
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  batch_end(second);
  assert_came(next(f, never()), &tags[1], 1);
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_SHUTDOWN);
}

static void a_queue_without_memory_is_not_made_and_leaves_nothing(void **state) {
  struct queue_fixture *f = *state;
  size_t n_outstanding = atomic_load(&f->n_outstanding);
  atomic_store(&f->n_allowed, 0);

  assert_null(queue_fixture_new_queue(f, GRPC_CQ_NEXT));
  assert_null(queue_fixture_new_queue(f, GRPC_CQ_PLUCK));
  assert_null(weir__queue_block_take(f->queue));

  assert_int_equal(atomic_load(&f->n_outstanding), n_outstanding);
  atomic_store(&f->n_allowed, SIZE_MAX);
}

static void a_block_outlives_the_end_of_its_queue(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue *queue = queue_fixture_new_queue(f, GRPC_CQ_NEXT);
  unsigned char *block = weir__queue_block_take(queue);
  weir__queue_ref(queue);
  weir_completion_queue_shutdown(queue);
  assert_int_equal(weir_completion_queue_next(queue, never(), NULL).type, GRPC_QUEUE_SHUTDOWN);
  weir_completion_queue_destroy(queue);

  for (size_t i = 0; i < WEIR__QUEUE_BLOCK_BYTES; i++) {
    assert_int_equal(block[i], 0);
  }
  weir__queue_block_give(queue, block);
  weir__queue_unref(queue);
}

static void a_block_comes_zeroed_again(void **state) {
  struct queue_fixture *f = *state;
  unsigned char *block = weir__queue_block_take(f->queue);
  memset(block, 0xff, WEIR__QUEUE_BLOCK_BYTES);
  weir__queue_block_give(f->queue, block);

  unsigned char *again = weir__queue_block_take(f->queue);
  assert_ptr_equal(again, block); /* else this test shows nothing */
  for (size_t i = 0; i < WEIR__QUEUE_BLOCK_BYTES; i++) {
    assert_int_equal(again[i], 0);
  }
  weir__queue_block_give(f->queue, again);
}

/* --- timers --- */

static void the_earliest_timer_comes_first(void **state) {
  struct queue_fixture *f = *state;
  static const int64_t due_ms[] = {5, 1, 4, 2, 3};
  const int64_t start_ns = due_in_ms(f, 0);
  for (size_t i = 0; i < 5; i++) {
    batch_end_at(batch_begin(f, &tags[due_ms[i]]), start_ns + due_ms[i] * 1000000);
  }
  for (size_t i = 1; i <= 5; i++) {
    assert_came(next(f, never()), &tags[i], 1);
  }
}

static void timers_that_are_due_are_found_without_a_wait(void **state) {
  struct queue_fixture *f = *state;
  batch_end_at(batch_begin(f, &tags[0]), due_in_ms(f, 0));
  batch_end_at(batch_begin(f, &tags[1]), INT64_MIN);

  assert_came(next(f, at_once()), &tags[1], 1);
  assert_came(next(f, at_once()), &tags[0], 1);
}

static void a_timer_that_was_disarmed_is_not_due(void **state) {
  struct queue_fixture *f = *state;
  struct batch *disarmed = batch_begin(f, &tags[0]);
  batch_end_at(disarmed, due_in_ms(f, 0));
  batch_end_at(batch_begin(f, &tags[1]), due_in_ms(f, 1));
  weir__queue_lock(f->queue);
  assert_true(weir__queue_disarm_locked(f->queue, &disarmed->timer));
  assert_false(weir__queue_disarm_locked(f->queue, &disarmed->timer));
  weir__queue_unlock(f->queue);

  assert_came(next(f, never()), &tags[1], 1);
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  batch_end(disarmed);
  assert_came(next(f, at_once()), &tags[0], 1);
}

static void shutdown_fires_what_is_armed_at_once(void **state) {
  struct queue_fixture *f = *state;
  for (size_t i = 0; i < 3; i++) {
    batch_end_at(batch_begin(f, &tags[i]), due_in_ms(f, 3600000 + (int64_t)i));
  }
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  weir__queue_lock(f->queue);
  assert_false(weir__queue_is_shut_down_locked(f->queue));
  weir__queue_unlock(f->queue);
  weir_completion_queue_shutdown(f->queue);

  for (size_t i = 0; i < 3; i++) {
    assert_came(next(f, never()), &tags[i], 1);
  }
  assert_int_equal(next(f, never()).type, GRPC_QUEUE_SHUTDOWN);
  weir__queue_lock(f->queue);
  assert_true(weir__queue_is_shut_down_locked(f->queue));
  weir__queue_unlock(f->queue);
}

/* --- time that passes only in sleep --- */

#define MAX_WAITS 16

/* A core's queue in which nothing ever comes: each sleep takes the clock to its end. */
struct stillness {
  struct weir_clock clock;
  struct weir__transport transport;
  int64_t now_ns;
  bool shut_down;
  size_t n_waits;
  int64_t waits_until_ns[MAX_WAITS];
};

static int64_t stillness_now(void *context) {
  const struct stillness *stillness = context;
  return stillness->now_ns;
}

static grpc_event stillness_next(grpc_completion_queue *queue, gpr_timespec deadline,
                                 void *context) {
  (void)queue;
  struct stillness *stillness = context;
  if (stillness->shut_down) {
    return (grpc_event){.type = GRPC_QUEUE_SHUTDOWN, .success = 0, .tag = NULL};
  }
  assert_int_equal(deadline.clock_type, GPR_CLOCK_MONOTONIC);
  int64_t until_ns = deadline.tv_sec * 1000000000 + deadline.tv_nsec;
  assert_true(stillness->n_waits < MAX_WAITS);
  stillness->waits_until_ns[stillness->n_waits++] = until_ns;
  if (until_ns > stillness->now_ns) {
    stillness->now_ns = until_ns;
  }
  return (grpc_event){.type = GRPC_QUEUE_TIMEOUT, .success = 0, .tag = NULL};
}

static grpc_completion_queue *stillness_create(void *context, grpc_cq_polling_type polling) {
  (void)context;
  (void)polling;
  return NULL;
}

static void stillness_shutdown(void *context, grpc_completion_queue *queue) {
  struct stillness *stillness = context;
  (void)queue;
  stillness->shut_down = true;
}

static void stillness_destroy(void *context, grpc_completion_queue *queue) {
  (void)context;
  (void)queue;
}

static weir_completion_queue *stillness_init(struct stillness *stillness) {
  memset(stillness, 0, sizeof *stillness);
  stillness->clock = (struct weir_clock){
      .size = sizeof(struct weir_clock), .now_ns = stillness_now, .context = stillness};
  stillness->transport = *weir__transport_core();
  stillness->transport.context = stillness;
  stillness->transport.queue_create = stillness_create;
  stillness->transport.queue_next = stillness_next;
  stillness->transport.queue_shutdown = stillness_shutdown;
  stillness->transport.queue_destroy = stillness_destroy;
  return weir__queue_new(&(struct weir__queue_options){.allocator = NULL,
                                                       .clock = &stillness->clock,
                                                       .transport = &stillness->transport,
                                                       .type = GRPC_CQ_NEXT,
                                                       .slab_blocks = 0});
}

/* A timer that says when it was due. */
struct noted_timer {
  struct weir__timer timer;
  int64_t fired_at_ns;
};

static void noted_on_due(struct weir__timer *timer, int64_t now_ns) {
  WEIR__CONTAINER_OF(timer, struct noted_timer, timer)->fired_at_ns = now_ns;
}

static void timers_bound_the_sleep_and_the_deadline_ends_the_wait(void **state) {
  (void)state;
  struct stillness stillness;
  weir_completion_queue *queue = stillness_init(&stillness);
  struct noted_timer timers[4];
  static const int64_t due_ns[] = {700, 300, 500, 2000};
  memset(timers, 0, sizeof timers);
  weir__queue_lock(queue);
  for (size_t i = 0; i < 4; i++) {
    timers[i].timer.on_due = noted_on_due;
    timers[i].timer.due_at_ns = due_ns[i];
    weir__queue_arm_locked(queue, &timers[i].timer);
  }
  weir__queue_unlock(queue);

  static const struct {
    const char *why;
    gpr_timespec deadline;
    int64_t ends_at_ns;
  } rows[] = {
      {"between two timers", {0, 400, GPR_CLOCK_MONOTONIC}, 400},
      {"a span begins once, whatever fires in it", {0, 600, GPR_TIMESPAN}, 1000},
      {"past", {0, 100, GPR_CLOCK_MONOTONIC}, 1000},
      {"at a timer: what is due then is found by the next call",
       {0, 2000, GPR_CLOCK_MONOTONIC},
       2000},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    grpc_event event = weir_completion_queue_next(queue, rows[i].deadline, NULL);
    if (event.type != GRPC_QUEUE_TIMEOUT || stillness.now_ns != rows[i].ends_at_ns) {
      fail_msg("%s: type %d at %lld", rows[i].why, (int)event.type, (long long)stillness.now_ns);
    }
  }
  static const int64_t waits_until_ns[] = {300, 400, 500, 700, 1000, 100, 2000};
  assert_int_equal(stillness.n_waits, sizeof waits_until_ns / sizeof waits_until_ns[0]);
  assert_memory_equal(stillness.waits_until_ns, waits_until_ns, sizeof waits_until_ns);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(timers[i].fired_at_ns, due_ns[i]);
  }
  assert_int_equal(timers[3].fired_at_ns, 0);

  weir_completion_queue_shutdown(queue);
  assert_int_equal(timers[3].fired_at_ns, 2000);
  weir_completion_queue_destroy(queue);
}

/* Of a call that owes the application nothing, or of one that does. */
static void a_lasting_timer_lasts_until_the_last_tag_was_handed_out(void **state) {
  struct queue_fixture *f = *state;
  struct noted_timer lasting = {.timer = {.due_at_ns = INT64_MAX - 1, .on_due = noted_on_due}};
  struct noted_timer disarmed = lasting;
  struct noted_timer other = lasting;
  struct batch *batch = batch_begin(f, &tags[0]);
  weir__queue_lock(f->queue);
  assert_true(weir__queue_arm_lasting_locked(f->queue, &lasting.timer));
  assert_true(weir__queue_arm_lasting_locked(f->queue, &disarmed.timer));
  weir__queue_arm_locked(f->queue, &other.timer);
  assert_true(weir__queue_disarm_locked(f->queue, &disarmed.timer));
  assert_false(weir__queue_disarm_locked(f->queue, &disarmed.timer));
  weir__queue_unlock(f->queue);

  weir_completion_queue_shutdown(f->queue);
  assert_int_not_equal(other.fired_at_ns, 0);
  assert_int_equal(lasting.fired_at_ns, 0);

  batch_end(batch);
  assert_came(weir_completion_queue_next(f->queue, never(), NULL), &tags[0], 1);
  assert_int_not_equal(lasting.fired_at_ns, 0); /* early, and never afterwards */
  assert_int_equal(disarmed.fired_at_ns, 0);
  weir__queue_lock(f->queue);
  assert_false(weir__queue_disarm_locked(f->queue, &lasting.timer));
  assert_false(weir__queue_arm_lasting_locked(f->queue, &disarmed.timer));
  weir__queue_unlock(f->queue);
}

static void timers_of_both_kinds_are_due_in_one_order(void **state) {
  (void)state;
  struct stillness stillness;
  weir_completion_queue *queue = stillness_init(&stillness);
  struct noted_timer timers[4];
  static const int64_t due_ns[] = {700, 300, 500, 600};
  memset(timers, 0, sizeof timers);
  weir__queue_lock(queue);
  for (size_t i = 0; i < 4; i++) {
    timers[i].timer.on_due = noted_on_due;
    timers[i].timer.due_at_ns = due_ns[i];
    if (i % 2 == 0) {
      assert_true(weir__queue_arm_lasting_locked(queue, &timers[i].timer));
    } else {
      weir__queue_arm_locked(queue, &timers[i].timer);
    }
  }
  weir__queue_unlock(queue);
  const gpr_timespec deadline = {0, 800, GPR_CLOCK_MONOTONIC};
  assert_int_equal(weir_completion_queue_next(queue, deadline, NULL).type, GRPC_QUEUE_TIMEOUT);

  for (size_t i = 0; i < 4; i++) {
    assert_int_equal(timers[i].fired_at_ns, due_ns[i]);
  }
  weir_completion_queue_destroy(queue);
}

/* --- a timer that another thread arms while one falls asleep --- */

/* The other thread: it arms the timer at the nth look at the clock, and wakes a sleeper only when the
 * first thread has got into the core. */
struct intrusion {
  struct stillness stillness; /* first: the context of its table */
  weir_completion_queue *queue;
  struct noted_timer far;
  struct noted_timer near;
  size_t n_looks_left;
  bool is_to_wake;
  void *ringing; /* the tag of the bell that is on its way */
};

static int64_t intrusion_now(void *context) {
  struct intrusion *intrusion = context;
  if (intrusion->n_looks_left > 0 && --intrusion->n_looks_left == 0) {
    weir__queue_lock(intrusion->queue);
    weir__queue_arm_locked(intrusion->queue, &intrusion->near.timer);
    weir__queue_unlock(intrusion->queue);
    intrusion->is_to_wake = true;
  }
  return stillness_now(&intrusion->stillness);
}

static grpc_event intrusion_next(grpc_completion_queue *core, gpr_timespec deadline,
                                 void *context) {
  struct intrusion *intrusion = context;
  if (intrusion->is_to_wake) {
    intrusion->is_to_wake = false;
    weir__queue_wake_for_timer(intrusion->queue);
  }
  if (intrusion->ringing != NULL) {
    grpc_event bell = {.type = GRPC_OP_COMPLETE, .success = 1, .tag = intrusion->ringing};
    intrusion->ringing = NULL;
    return bell;
  }
  return stillness_next(core, deadline, &intrusion->stillness);
}

static grpc_call *intrusion_bell_create(void *context, grpc_completion_queue *core) {
  (void)core;
  return context; /* not looked at */
}

static grpc_call_error intrusion_start_batch(grpc_call *call, const grpc_op *ops, size_t n_ops,
                                             void *tag, void *context) {
  struct intrusion *intrusion = context;
  (void)call;
  (void)ops;
  assert_int_equal(n_ops, 0);
  intrusion->ringing = tag;
  return GRPC_CALL_OK;
}

static void intrusion_unref(void *context, grpc_call *call) {
  (void)context;
  (void)call;
}

static void far_on_due(struct weir__timer *timer, int64_t now_ns) {
  struct intrusion *intrusion = WEIR__CONTAINER_OF(timer, struct intrusion, far.timer);
  noted_on_due(timer, now_ns);
  weir_completion_queue_shutdown(intrusion->queue);
}

static void intrusion_init(struct intrusion *intrusion, size_t at_look) {
  memset(intrusion, 0, sizeof *intrusion);
  intrusion->queue = stillness_init(&intrusion->stillness);
  intrusion->stillness.clock.now_ns = intrusion_now;
  intrusion->stillness.transport.queue_next = intrusion_next;
  intrusion->stillness.transport.bell_create = intrusion_bell_create;
  intrusion->stillness.transport.call_start_batch = intrusion_start_batch;
  intrusion->stillness.transport.call_unref = intrusion_unref;
  intrusion->far.timer = (struct weir__timer){.due_at_ns = 1000000, .on_due = far_on_due};
  intrusion->near.timer = (struct weir__timer){.due_at_ns = 500, .on_due = noted_on_due};
  weir__queue_lock(intrusion->queue);
  weir__queue_arm_locked(intrusion->queue, &intrusion->far.timer);
  weir__queue_unlock(intrusion->queue);
  intrusion->n_looks_left = at_look;
}

/* Who falls asleep looks at the clock to see whether the timer that it knows is due, and, to measure
 * its patience, when the deadline is not one of the monotonic clock. */
static void a_nearer_timer_is_not_slept_past_whenever_it_is_armed(void **state) {
  (void)state;
  const gpr_timespec in_an_hour =
      gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_hours(1, GPR_TIMESPAN));
  for (size_t at_look = 1; at_look <= 2; at_look++) {
    for (int32_t n_drains_left = 0; n_drains_left < 2; n_drains_left++) {
      struct intrusion intrusion;
      intrusion_init(&intrusion, at_look);
      /* 0: kept times are looked through first */
      atomic_store(&intrusion.queue->expiry.n_drains_left, n_drains_left);
      grpc_event event = weir_completion_queue_next(intrusion.queue, in_an_hour, NULL);
      assert_int_equal(event.type, GRPC_QUEUE_SHUTDOWN);
      assert_int_equal(intrusion.near.fired_at_ns, 500);
      assert_int_equal(intrusion.far.fired_at_ns, 1000000);
      weir_completion_queue_destroy(intrusion.queue);
    }
  }
}

/* --- threads --- */

static void a_batch_that_ends_wakes_a_sleeper(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 1;
  for (int i = 0; i < N_RACES; i++) {
    struct batch *batch = batch_begin(f, &tags[0]);
    struct taker taker;
    taker_start(&taker, f);
    random_yield(&seed);
    batch_end(batch);
    taker_join(&taker);
    assert_came(taker.event, &tags[0], 1);
  }
}

static void batches_that_end_at_once_wake_a_sleeper_each(void **state) {
  struct queue_fixture *f = *state;
  enum { N = 4 };
  uint64_t seed = 2;
  for (int i = 0; i < N_RACES; i++) {
    struct taker takers[N];
    struct batch *batches[N];
    for (size_t j = 0; j < N; j++) {
      batches[j] = batch_begin(f, &tags[j]);
      taker_start(&takers[j], f);
    }
    random_yield(&seed);
    for (size_t j = 0; j < N; j++) {
      batch_end(batches[j]);
    }
    for (size_t j = 0; j < N; j++) {
      taker_join(&takers[j]);
      assert_int_equal(takers[j].event.type, GRPC_OP_COMPLETE);
    }
  }
}

static void a_timer_of_another_thread_wakes_a_sleeper(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 3;
  for (int i = 0; i < 50; i++) {
    struct batch *batch = batch_begin(f, &tags[0]);
    struct taker taker;
    taker_start(&taker, f);
    random_yield(&seed);
    batch_end_at(batch, due_in_ms(f, i % 3));
    taker_join(&taker);
    assert_came(taker.event, &tags[0], 1);
  }
}

static void a_nearer_timer_wakes_a_sleeper_that_waits_for_a_farther_one(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 4;
  struct batch *far = batch_begin(f, &tags[1]);
  batch_end_at(far, due_in_ms(f, 3600000));
  for (int i = 0; i < 50; i++) {
    struct batch *batch = batch_begin(f, &tags[0]);
    struct taker taker;
    taker_start(&taker, f);
    random_yield(&seed);
    batch_end_at(batch, due_in_ms(f, i % 3));
    taker_join(&taker);
    assert_came(taker.event, &tags[0], 1);
  }
  weir_completion_queue_shutdown(f->queue);
  assert_came(next(f, never()), &tags[1], 1);
}

/* Two sleep without a bound; a timer is armed, of which one of them is told; then an event takes
 * one of them away for good. The other must wake for the timer, whichever it is. */
static void a_thread_that_leaves_hands_the_watch_for_timers_on(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 5;
  for (int i = 0; i < 100; i++) {
    struct taker takers[2];
    taker_start(&takers[0], f);
    taker_start(&takers[1], f);
    random_yield(&seed);
    struct batch *batch = batch_begin(f, &tags[0]);
    if (i % 2 == 0) {
      batch_end_at(batch, due_in_ms(f, 4));
      random_yield(&seed);
      foreign_post(f, &tags[1]);
    } else {
      foreign_post(f, &tags[1]);
      batch_end_at(batch, due_in_ms(f, 4));
    }
    taker_join(&takers[0]);
    taker_join(&takers[1]);
    assert_int_equal(takers[0].event.type, GRPC_OP_COMPLETE);
    assert_int_equal(takers[1].event.type, GRPC_OP_COMPLETE);
    assert_ptr_not_equal(takers[0].event.tag, takers[1].event.tag);
  }
}

static void every_sleeper_sees_the_shutdown(void **state) {
  struct queue_fixture *f = *state;
  struct taker takers[4];
  struct batch *batch = batch_begin(f, &tags[0]);
  for (size_t i = 0; i < 4; i++) {
    taker_start(&takers[i], f);
  }
  weir_completion_queue_shutdown(f->queue);
  batch_end(batch);
  size_t n_shutdowns = 0;
  for (size_t i = 0; i < 4; i++) {
    taker_join(&takers[i]);
    n_shutdowns += takers[i].event.type == GRPC_QUEUE_SHUTDOWN ? 1 : 0;
  }
  assert_int_equal(n_shutdowns, 3);
}

/* --- everything at once --- */

#define N_STORM_POLLERS 4
#define N_STORM_BEGINNERS 4
#define N_STORM_BATCHES 2000 /* a beginner */
#define N_STORM_TAGS ((size_t)N_STORM_BEGINNERS * N_STORM_BATCHES)

struct storm {
  struct queue_fixture *fixture;
  atomic_uint n_seen[N_STORM_TAGS]; /* the address of each is a tag */
  atomic_size_t n_taken;
};

struct storm_thread {
  pthread_t thread;
  struct storm *storm;
  uint64_t seed;
  size_t first_tag;
};

static void *storm_poll(void *context) {
  struct storm_thread *self = context;
  for (;;) {
    uint64_t patience = random_next(&self->seed) % 8;
    grpc_event event = next(self->storm->fixture, patience == 0  ? at_once()
                                                  : patience < 3 ? in_ms(1)
                                                                 : never());
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    if (event.type == GRPC_OP_COMPLETE) {
      atomic_fetch_add((atomic_uint *)event.tag, 1);
      atomic_fetch_add(&self->storm->n_taken, 1);
      random_yield(&self->seed);
    }
  }
}

static void storm_begin_one(struct storm_thread *self, void *tag) {
  struct queue_fixture *f = self->storm->fixture;
  uint64_t kind = random_next(&self->seed) % 16;
  if (kind == 0) {
    foreign_post(f, tag);
    return;
  }
  struct batch *batch = batch_begin(f, tag);
  random_yield(&self->seed);
  if (kind < 7) {
    batch_end(batch);
  } else if (kind < 12) {
    batch_end_at(batch, due_in_ms(f, (int64_t)(kind % 3)));
  } else {
    atomic_store(&batch->n_rounds, (int)(kind % 3) + 1);
    batch_post(batch);
  }
}

static void *storm_begin(void *context) {
  struct storm_thread *self = context;
  for (size_t i = 0; i < N_STORM_BATCHES; i++) {
    storm_begin_one(self, &self->storm->n_seen[self->first_tag + i]);
  }
  return NULL;
}

static void every_batch_comes_once_and_shutdown_last_whatever_the_threads_do(void **state) {
  static struct storm storm;
  memset(&storm, 0, sizeof storm);
  storm.fixture = *state;
  struct storm_thread pollers[N_STORM_POLLERS];
  struct storm_thread beginners[N_STORM_BEGINNERS];
  for (size_t i = 0; i < N_STORM_POLLERS; i++) {
    pollers[i] = (struct storm_thread){.storm = &storm, .seed = 100 + i};
    assert_int_equal(pthread_create(&pollers[i].thread, NULL, storm_poll, &pollers[i]), 0);
  }
  for (size_t i = 0; i < N_STORM_BEGINNERS; i++) {
    beginners[i] =
        (struct storm_thread){.storm = &storm, .seed = 200 + i, .first_tag = i * N_STORM_BATCHES};
    assert_int_equal(pthread_create(&beginners[i].thread, NULL, storm_begin, &beginners[i]), 0);
  }
  for (size_t i = 0; i < N_STORM_BEGINNERS; i++) {
    assert_int_equal(pthread_join(beginners[i].thread, NULL), 0);
  }
  weir_completion_queue_shutdown(storm.fixture->queue);
  for (size_t i = 0; i < N_STORM_POLLERS; i++) {
    assert_int_equal(pthread_join(pollers[i].thread, NULL), 0);
  }
  assert_int_equal(atomic_load(&storm.n_taken), N_STORM_TAGS);
  for (size_t i = 0; i < N_STORM_TAGS; i++) {
    assert_int_equal(atomic_load(&storm.n_seen[i]), 1);
  }
}

/* Takes up to some microseconds, so that two threads meet at every step. */
static void spin(uint64_t *seed) {
  for (uint64_t n = random_next(seed) % 4096; n > 0; n--) {
    atomic_signal_fence(memory_order_seq_cst); /* keeps the loop */
  }
}

/* A storm without deadlines: if a wake-up is lost, it never ends. */
static void *storm_poll_without_end(void *context) {
  struct storm_thread *self = context;
  for (;;) {
    grpc_event event = next(self->storm->fixture, never());
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    atomic_fetch_add(&self->storm->n_taken, 1);
    spin(&self->seed);
  }
}

/* One batch at a time, so that each finds the pollers asleep, or on their way. */
static void end_one_at_a_time(struct queue_fixture *f, size_t n_pollers) {
  static struct storm storm;
  memset(&storm, 0, sizeof storm);
  storm.fixture = f;
  struct storm_thread pollers[2];
  for (size_t i = 0; i < n_pollers; i++) {
    pollers[i] = (struct storm_thread){.storm = &storm, .seed = 300 + i};
    assert_int_equal(pthread_create(&pollers[i].thread, NULL, storm_poll_without_end, &pollers[i]),
                     0);
  }
  uint64_t seed = 6;
  for (size_t i = 0; i < 5 * N_STORM_BATCHES; i++) {
    struct batch *batch = batch_begin(f, &tags[0]);
    spin(&seed);
    if (i % 8 == 7) {
      batch_end_at(batch, due_in_ms(f, 0));
    } else {
      batch_end(batch);
    }
    for (int n_looks = 0; atomic_load(&storm.n_taken) <= i; n_looks++) {
      if (n_looks > 1000) {
        (void)sched_yield(); /* there may be one core only */
      }
    }
  }
  weir_completion_queue_shutdown(f->queue);
  for (size_t i = 0; i < n_pollers; i++) {
    assert_int_equal(pthread_join(pollers[i].thread, NULL), 0);
  }
}

static void no_wake_up_is_lost_between_a_push_and_a_sleep(void **state) {
  end_one_at_a_time(*state, 1);
}

static void no_wake_up_is_lost_between_a_push_and_two_sleeps(void **state) {
  end_one_at_a_time(*state, 2);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(batches_come_as_the_core_and_the_queue_end_them),
      CLAIM(a_batch_that_goes_on_comes_when_it_has_ended),
      CLAIM(what_ended_first_comes_first),
      CLAIM(the_core_is_heard_while_there_is_always_something_ready),
      CLAIM(foreign_tags_pass_untouched_wherever_they_point),
      CLAIM(a_batch_that_was_abandoned_never_comes),
      CLAIM(a_batch_that_begins_after_the_shutdown_is_refused),
      CLAIM(shutdown_waits_for_what_is_under_way_and_for_what_begins_meanwhile),
      CLAIM(a_queue_without_memory_is_not_made_and_leaves_nothing),
      CLAIM(a_block_outlives_the_end_of_its_queue),
      CLAIM(a_block_comes_zeroed_again),
      CLAIM(the_earliest_timer_comes_first),
      CLAIM(timers_that_are_due_are_found_without_a_wait),
      CLAIM(a_timer_that_was_disarmed_is_not_due),
      CLAIM(shutdown_fires_what_is_armed_at_once),
      cmocka_unit_test(timers_bound_the_sleep_and_the_deadline_ends_the_wait),
      cmocka_unit_test(a_nearer_timer_is_not_slept_past_whenever_it_is_armed),
      CLAIM(a_lasting_timer_lasts_until_the_last_tag_was_handed_out),
      cmocka_unit_test(timers_of_both_kinds_are_due_in_one_order),
      CLAIM(a_batch_that_ends_wakes_a_sleeper),
      CLAIM(batches_that_end_at_once_wake_a_sleeper_each),
      CLAIM(a_timer_of_another_thread_wakes_a_sleeper),
      CLAIM(a_nearer_timer_wakes_a_sleeper_that_waits_for_a_farther_one),
      CLAIM(a_thread_that_leaves_hands_the_watch_for_timers_on),
      CLAIM(every_sleeper_sees_the_shutdown),
      CLAIM(every_batch_comes_once_and_shutdown_last_whatever_the_threads_do),
      CLAIM(no_wake_up_is_lost_between_a_push_and_a_sleep),
      CLAIM(no_wake_up_is_lost_between_a_push_and_two_sleeps),
  };
  return cmocka_run_group_tests_name("next", tests, NULL, NULL);
}
