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

#include "test/unit/queue/queue_fixture.h"

/* Repetitions of a test whose interleaving is left to the scheduler. */
#define N_RACES 200

static int tags[64];

static int setup(void **state) {
  static struct queue_fixture fixture;
  grpc_init();
  queue_fixture_init(&fixture, GRPC_CQ_PLUCK);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  queue_fixture_fini(*state);
  grpc_shutdown();
  return 0;
}

static grpc_event pluck(struct queue_fixture *f, void *tag, gpr_timespec deadline) {
  return weir_completion_queue_pluck(f->queue, tag, deadline, NULL);
}

/* A thread that plucks one tag. */
struct plucker {
  pthread_t thread;
  struct queue_fixture *fixture;
  void *tag;
  gpr_timespec deadline;
  grpc_event event;
};

static void *plucker_run(void *context) {
  struct plucker *plucker = context;
  plucker->event = pluck(plucker->fixture, plucker->tag, plucker->deadline);
  return NULL;
}

static void plucker_start(struct plucker *plucker, struct queue_fixture *f, void *tag,
                          gpr_timespec deadline) {
  plucker->fixture = f;
  plucker->tag = tag;
  plucker->deadline = deadline;
  assert_int_equal(pthread_create(&plucker->thread, NULL, plucker_run, plucker), 0);
}

static void plucker_join(struct plucker *plucker) {
  assert_int_equal(pthread_join(plucker->thread, NULL), 0);
}

static void assert_came(grpc_event event, const void *tag, int success) {
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, tag);
  assert_int_equal(event.success, success);
}

/* --- one thread --- */

static void a_batch_that_the_core_has_ended_is_plucked(void **state) {
  struct queue_fixture *f = *state;
  batch_post(batch_begin(f, &tags[0]));

  assert_came(pluck(f, &tags[0], never()), &tags[0], 1);
}

static void a_batch_that_has_ended_without_the_core_is_plucked_with_its_success(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  batch->success = false;
  batch_end(batch);

  assert_came(pluck(f, &tags[0], at_once()), &tags[0], 0);
}

static void a_batch_that_goes_on_is_plucked_when_it_has_ended(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  atomic_store(&batch->n_rounds, 4);
  batch_post(batch);

  assert_came(pluck(f, &tags[0], never()), &tags[0], 1);
}

static void tags_are_plucked_in_any_order(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batches[4];
  for (size_t i = 0; i < 4; i++) {
    batches[i] = batch_begin(f, &tags[i]);
  }
  for (size_t i = 0; i < 4; i++) {
    if (i % 2 == 0) {
      batch_post(batches[i]);
    } else {
      batch_end(batches[i]);
    }
  }

  for (size_t i = 4; i-- > 0;) {
    assert_came(pluck(f, &tags[i], never()), &tags[i], 1);
  }
}

static void what_has_one_tag_comes_in_order(void **state) {
  struct queue_fixture *f = *state;
  static const int successes[] = {1, 0, 0, 1, 0, 1};
  foreign_post(f, NULL);
  foreign_post_failed_at_once(f, NULL);
  foreign_post_failed_at_once(f, NULL);
  foreign_post(f, NULL);
  assert_int_equal(pluck(f, &tags[0], at_once()).type, GRPC_QUEUE_TIMEOUT);
  struct batch *failed = batch_begin(f, NULL);
  failed->success = false;
  batch_end(failed);
  batch_end(batch_begin(f, NULL));

  for (size_t i = 0; i < sizeof successes / sizeof successes[0]; i++) {
    assert_came(pluck(f, NULL, at_once()), NULL, successes[i]);
  }
  assert_int_equal(pluck(f, NULL, at_once()).type, GRPC_QUEUE_TIMEOUT);
}

static void a_wait_that_timed_out_can_be_taken_up_again(void **state) {
  struct queue_fixture *f = *state;
  struct batch *posted = batch_begin(f, &tags[0]);
  struct batch *ended = batch_begin(f, &tags[1]);

  assert_int_equal(pluck(f, &tags[0], at_once()).type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(pluck(f, &tags[1], in_ms(1)).type, GRPC_QUEUE_TIMEOUT);
  batch_post(posted);
  batch_end(ended);

  assert_came(pluck(f, &tags[0], never()), &tags[0], 1);
  assert_came(pluck(f, &tags[1], never()), &tags[1], 1);
}

static void foreign_events_are_plucked_untouched(void **state) {
  struct queue_fixture *f = *state;
  foreign_post(f, NULL);
  foreign_post(f, &tags[1]);
  foreign_post_failed(f, &tags[2]);

  assert_came(pluck(f, &tags[2], never()), &tags[2], 0);
  assert_came(pluck(f, &tags[1], never()), &tags[1], 1);
  assert_came(pluck(f, NULL, never()), NULL, 1);
  assert_int_equal(pluck(f, NULL, at_once()).type, GRPC_QUEUE_TIMEOUT);
}

static void the_address_of_a_block_is_a_tag_as_any_other(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  foreign_post_failed(f, batch);
  batch_post(batch);

  assert_came(pluck(f, &tags[0], never()), &tags[0], 1);
  assert_came(pluck(f, batch, never()), batch, 0);
}

static void a_batch_that_was_abandoned_never_comes(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  weir__queue_abandon(f->queue);
  weir__queue_block_give(f->queue, batch);

  assert_int_equal(pluck(f, &tags[0], at_once()).type, GRPC_QUEUE_TIMEOUT);
}

static void a_timer_ends_a_batch_that_is_waited_for(void **state) {
  struct queue_fixture *f = *state;
  batch_end_at(batch_begin(f, &tags[0]), due_in_ms(f, 2));

  assert_came(pluck(f, &tags[0], never()), &tags[0], 1);
}

static void a_timer_ends_another_batch_than_the_one_waited_for(void **state) {
  struct queue_fixture *f = *state;
  batch_end_at(batch_begin(f, &tags[0]), due_in_ms(f, 1));

  assert_int_equal(pluck(f, &tags[1], in_ms(20)).type, GRPC_QUEUE_TIMEOUT);
  assert_came(pluck(f, &tags[0], at_once()), &tags[0], 1);
}

static void a_span_as_a_deadline_ends(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);

  assert_int_equal(pluck(f, &tags[0], gpr_time_from_millis(2, GPR_TIMESPAN)).type,
                   GRPC_QUEUE_TIMEOUT);
  batch_end(batch);
  assert_came(pluck(f, &tags[0], never()), &tags[0], 1);
}

static void a_batch_of_the_engines_own_is_plucked_by_nobody(void **state) {
  struct queue_fixture *f = *state;
  for (int i = 0; i < 3; i++) {
    held_post(held_begin(f));
  }
  foreign_post_failed_at_once(f, NULL);

  assert_came(pluck(f, NULL, never()), NULL, 0); /* and not one of those, whose tag is none */
  assert_int_equal(pluck(f, NULL, at_once()).type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(atomic_load(&f->n_let_go), 3);
}

static void one_event_may_end_batches_that_are_plucked_later(void **state) {
  struct queue_fixture *f = *state;
  struct held_batch *held = held_begin(f);
  held->n_ends = 4;
  for (size_t i = 0; i < 4; i++) {
    held->ends[i] = batch_begin(f, &tags[i]);
  }
  held_post(held);

  for (size_t i = 4; i-- > 0;) {
    assert_came(pluck(f, &tags[i], never()), &tags[i], 1);
  }
}

static void any_number_of_tags_can_be_there_before_they_are_plucked(void **state) {
  struct queue_fixture *f = *state;
  enum { N = 1 << 16 }; /* the core's own check of tags is slow */
  for (uintptr_t i = 0; i < N; i++) {
    foreign_post(f, (void *)(i * 8));
    foreign_post(f, (void *)(i % 4));
  }
  assert_int_equal(pluck(f, &tags[0], at_once()).type, GRPC_QUEUE_TIMEOUT);
  for (uintptr_t i = N; i-- > 1;) {
    assert_came(pluck(f, (void *)(i * 8), at_once()), (void *)(i * 8), 1);
  }
  for (uintptr_t i = 0; i < N; i++) {
    assert_came(pluck(f, (void *)(i % 4), at_once()), (void *)(i % 4), 1);
  }
  assert_came(pluck(f, NULL, at_once()), NULL, 1);
  assert_int_equal(pluck(f, NULL, at_once()).type, GRPC_QUEUE_TIMEOUT);
}

/* Takes all the room there is for events that are kept. */
static uintptr_t fill_with_events(struct queue_fixture *f) {
  uintptr_t n = 0;
  while (n == 0 || pluck(f, &tags[1], in_ms(1000)).type == GRPC_OP_COMPLETE) {
    foreign_post(f, (void *)(n * 8));
    foreign_post(f, &tags[1]);
    n++;
  }
  return n;
}

static void without_memory_a_plucker_is_turned_away_and_nothing_is_lost(void **state) {
  struct queue_fixture *f = *state;
  size_t n_outstanding = atomic_load(&f->n_outstanding);
  atomic_store(&f->n_allowed, 0);
  uintptr_t n = fill_with_events(f);
  assert_true(n > 1);
  assert_int_equal(atomic_load(&f->n_outstanding), n_outstanding);

  assert_came(pluck(f, NULL, at_once()), NULL, 1); /* so there is room for one */
  assert_came(pluck(f, &tags[1], at_once()), &tags[1], 1);
  atomic_store(&f->n_allowed, SIZE_MAX);
  for (uintptr_t i = 1; i < n; i++) {
    assert_came(pluck(f, (void *)(i * 8), at_once()), (void *)(i * 8), 1);
  }
  assert_int_equal(pluck(f, NULL, at_once()).type, GRPC_QUEUE_TIMEOUT);
}

static void shutdown_comes_when_the_last_batch_has_ended(void **state) {
  struct queue_fixture *f = *state;
  batch_end_at(batch_begin(f, &tags[0]), due_in_ms(f, 3600000));
  struct batch *posted = batch_begin(f, &tags[1]);
  weir_completion_queue_shutdown(f->queue);

  struct batch *late = batch_begin(f, &tags[2]); /* as the core: something is under way still */
  batch_post(posted);
  assert_came(pluck(f, &tags[1], never()), &tags[1], 1);
  assert_int_equal(pluck(f, &tags[3], at_once()).type, GRPC_QUEUE_TIMEOUT);
  batch_end(late);
  assert_int_equal(pluck(f, &tags[3], never()).type, GRPC_QUEUE_SHUTDOWN);
  assert_came(pluck(f, &tags[0], never()), &tags[0], 1); /* what has ended is there all the same */
  assert_came(pluck(f, &tags[2], never()), &tags[2], 1);

  assert_int_equal(pluck(f, &tags[0], never()).type, GRPC_QUEUE_SHUTDOWN);
  struct weir__completion *completion = weir__queue_block_take(f->queue);
  assert_int_equal(weir__queue_begin(f->queue, completion, &tags[0]), WEIR_ERROR_UNAVAILABLE);
  weir__queue_block_give(f->queue, completion);
}

static void a_queue_of_which_all_was_plucked_may_be_destroyed(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue *queue = f->queue;
  grpc_call *lame = f->lame;
  for (int i = 0; i < 50; i++) {
    f->queue = queue_fixture_new_queue(f, GRPC_CQ_PLUCK);
    f->lame = weir__transport_core()->bell_create(NULL, weir_completion_queue_core(f->queue));
    (void)held_begin(f); /* closed with the queue */
    struct batch *batch = batch_begin(f, &tags[0]);
    struct plucker plucker;
    plucker_start(&plucker, f, &tags[0], never());
    batch_end(batch); /* a ring may be left in the core's queue */
    plucker_join(&plucker);
    assert_came(plucker.event, &tags[0], 1);
    weir_completion_queue_shutdown(f->queue);
    weir_completion_queue_destroy(f->queue);
    grpc_call_unref(f->lame);
  }
  assert_int_equal(atomic_load(&f->n_let_go), 50);
  f->queue = queue;
  f->lame = lame;
}

/* --- threads --- */

static void a_batch_that_ends_while_it_is_plucked_wakes_its_thread(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 1;
  for (int i = 0; i < N_RACES; i++) {
    struct batch *batch = batch_begin(f, &tags[0]);
    struct plucker plucker;
    plucker_start(&plucker, f, &tags[0], never());
    random_yield(&seed);
    if (i % 2 == 0) {
      batch_end(batch);
    } else {
      batch_post(batch);
    }
    plucker_join(&plucker);
    assert_came(plucker.event, &tags[0], 1);
  }
}

static void a_tag_may_be_plucked_before_its_batch_begins(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 2;
  for (int i = 0; i < N_RACES; i++) {
    struct plucker plucker;
    plucker_start(&plucker, f, &tags[0], never());
    random_yield(&seed);
    struct batch *batch = batch_begin(f, &tags[0]);
    random_yield(&seed);
    if (i % 2 == 0) {
      batch_end(batch);
    } else {
      batch_post(batch);
    }
    plucker_join(&plucker);
    assert_came(plucker.event, &tags[0], 1);
  }
}

static void two_threads_pluck_two_tags(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 3;
  for (int i = 0; i < N_RACES; i++) {
    struct plucker pluckers[2];
    struct batch *batches[2] = {batch_begin(f, &tags[0]), batch_begin(f, &tags[1])};
    plucker_start(&pluckers[0], f, &tags[0], never());
    plucker_start(&pluckers[1], f, &tags[1], never());
    random_yield(&seed);
    batch_end(batches[i % 2]);
    batch_post(batches[(i + 1) % 2]);
    for (size_t j = 0; j < 2; j++) {
      plucker_join(&pluckers[j]);
      assert_came(pluckers[j].event, &tags[j], 1);
    }
  }
}

static void two_threads_that_pluck_one_tag_get_a_batch_each(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 4;
  for (int i = 0; i < N_RACES; i++) {
    struct plucker pluckers[2];
    plucker_start(&pluckers[0], f, &tags[0], never());
    random_yield(&seed);
    struct batch *first = batch_begin(f, &tags[0]);
    plucker_start(&pluckers[1], f, &tags[0], never());
    random_yield(&seed);
    struct batch *second = batch_begin(f, &tags[0]);
    batch_end(i % 2 == 0 ? first : second);
    random_yield(&seed);
    batch_post(i % 2 == 0 ? second : first);
    for (size_t j = 0; j < 2; j++) {
      plucker_join(&pluckers[j]);
      assert_came(pluckers[j].event, &tags[0], 1);
    }
  }
}

static void a_batch_is_left_to_the_other_thread_that_waits_for_its_tag(void **state) {
  struct queue_fixture *f = *state;
  for (int i = 0; i < 50; i++) {
    struct batch *batch = batch_begin(f, &tags[0]);
    struct plucker impatient;
    struct plucker patient;
    plucker_start(&impatient, f, &tags[0], in_ms(1));
    plucker_start(&patient, f, &tags[0], never());
    plucker_join(&impatient);
    assert_int_equal(impatient.event.type, GRPC_QUEUE_TIMEOUT);
    batch_end(batch);
    plucker_join(&patient);
    assert_came(patient.event, &tags[0], 1);
  }
}

/* What happens at the moment when a wait times out: the batch ends, or begins, just then. */
static void an_end_that_meets_a_timeout_is_not_lost(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 5;
  for (int i = 0; i < N_RACES; i++) {
    struct plucker plucker;
    struct batch *batch = i % 2 == 0 ? batch_begin(f, &tags[0]) : NULL;
    plucker_start(&plucker, f, &tags[0], i % 3 == 0 ? in_ms(1) : at_once());
    random_yield(&seed);
    if (batch == NULL) {
      batch = batch_begin(f, &tags[0]);
    }
    batch_end(batch);
    plucker_join(&plucker);
    if (plucker.event.type == GRPC_QUEUE_TIMEOUT) {
      plucker.event = pluck(f, &tags[0], at_once());
    }
    assert_came(plucker.event, &tags[0], 1);
  }
}

static void a_foreign_event_meets_a_batch_of_the_same_tag(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 6;
  for (int i = 0; i < N_RACES; i++) {
    struct plucker pluckers[2];
    bool fails = i % 2 == 0;
    plucker_start(&pluckers[0], f, &tags[0], never());
    random_yield(&seed);
    if (i % 4 < 2) {
      batch_end(batch_begin(f, &tags[0]));
    }
    if (fails) {
      foreign_post_failed(f, &tags[0]);
    } else {
      foreign_post(f, &tags[0]);
    }
    if (i % 4 >= 2) {
      batch_end(batch_begin(f, &tags[0]));
    }
    plucker_start(&pluckers[1], f, &tags[0], never());
    plucker_join(&pluckers[0]);
    plucker_join(&pluckers[1]);
    assert_int_equal(pluckers[0].event.type, GRPC_OP_COMPLETE);
    assert_int_equal(pluckers[1].event.type, GRPC_OP_COMPLETE);
    assert_int_equal(pluckers[0].event.success + pluckers[1].event.success, fails ? 1 : 2);
    assert_int_equal(pluck(f, &tags[0], at_once()).type, GRPC_QUEUE_TIMEOUT);
  }
}

static void a_thread_that_plucks_an_abandoned_batch_goes_on_waiting_for_its_tag(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 7;
  for (int i = 0; i < N_RACES; i++) {
    struct plucker plucker;
    struct batch *batch = batch_begin(f, &tags[0]);
    plucker_start(&plucker, f, &tags[0], never());
    random_yield(&seed);
    weir__queue_abandon(f->queue);
    /* The same memory, so the same tag for the core. */
    assert_int_equal(weir__queue_begin(f->queue, &batch->completion, &tags[1]), WEIR_OK);
    batch_end(batch);
    foreign_post(f, &tags[0]);
    plucker_join(&plucker);
    assert_came(plucker.event, &tags[0], 1);
    assert_came(pluck(f, &tags[1], never()), &tags[1], 1);
  }
}

/* The leader sleeps in the core for a tag that does not come. */
static void what_is_there_is_found_at_once_though_another_thread_drains(void **state) {
  struct queue_fixture *f = *state;
  struct plucker leader;
  struct batch *batch = batch_begin(f, &tags[0]);
  plucker_start(&leader, f, &tags[0], never());
  for (int i = 0; i < N_RACES; i++) {
    foreign_post(f, &tags[1]);
    assert_came(pluck(f, &tags[1], at_once()), &tags[1], 1);
    assert_int_equal(pluck(f, &tags[1], at_once()).type, GRPC_QUEUE_TIMEOUT);
    foreign_post_failed_at_once(f, &tags[2]);
    assert_int_equal(pluck(f, &tags[1], at_once()).type, GRPC_QUEUE_TIMEOUT);
    assert_came(pluck(f, &tags[2], at_once()), &tags[2], 0);
  }
  batch_end(batch);
  plucker_join(&leader);
  assert_came(leader.event, &tags[0], 1);
}

static void twenty_threads_pluck_twenty_tags(void **state) {
  struct queue_fixture *f = *state;
  enum { N = 20 };
  uint64_t seed = 8;
  for (int i = 0; i < 20; i++) {
    struct plucker pluckers[N];
    struct batch *batches[N];
    for (size_t j = 0; j < N; j++) {
      batches[j] = batch_begin(f, &tags[j]);
      plucker_start(&pluckers[j], f, &tags[j], never());
    }
    random_yield(&seed);
    for (size_t j = N; j-- > 0;) {
      if (j % 3 == 0) {
        batch_end(batches[j]);
      } else {
        batch_post(batches[j]);
      }
    }
    for (size_t j = 0; j < N; j++) {
      plucker_join(&pluckers[j]);
      assert_came(pluckers[j].event, &tags[j], 1);
    }
  }
}

static void who_leaves_hands_the_lead_on(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 9;
  for (int i = 0; i < N_RACES; i++) {
    struct plucker pluckers[3];
    for (size_t j = 0; j < 3; j++) {
      plucker_start(&pluckers[j], f, &tags[j], never());
    }
    random_yield(&seed);
    for (size_t j = 0; j < 3; j++) { /* one after the other: of the first one leads, maybe */
      foreign_post(f, &tags[(j + (size_t)i) % 3]);
      plucker_join(&pluckers[(j + (size_t)i) % 3]);
    }
    for (size_t j = 0; j < 3; j++) {
      assert_came(pluckers[j].event, &tags[j], 1);
    }
  }
}

static void a_timer_of_another_thread_wakes_the_leader(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 10;
  for (int i = 0; i < 50; i++) {
    struct batch *batch = batch_begin(f, &tags[1]);
    struct plucker pluckers[2];
    plucker_start(&pluckers[0], f, &tags[0], never());
    plucker_start(&pluckers[1], f, &tags[1], never());
    random_yield(&seed);
    batch_end_at(batch, due_in_ms(f, i % 3));
    plucker_join(&pluckers[1]);
    assert_came(pluckers[1].event, &tags[1], 1);
    foreign_post(f, &tags[0]);
    plucker_join(&pluckers[0]);
    assert_came(pluckers[0].event, &tags[0], 1);
  }
}

static void every_plucker_sees_the_shutdown(void **state) {
  struct queue_fixture *f = *state;
  struct plucker pluckers[8];
  struct batch *batch = batch_begin(f, &tags[0]);
  for (size_t i = 0; i < 8; i++) {
    plucker_start(&pluckers[i], f, &tags[i], i % 3 == 2 ? in_ms(3600000) : never());
  }
  weir_completion_queue_shutdown(f->queue);
  batch_end(batch);
  for (size_t i = 0; i < 8; i++) {
    plucker_join(&pluckers[i]);
    assert_int_equal(pluckers[i].event.type, i == 0 ? GRPC_OP_COMPLETE : GRPC_QUEUE_SHUTDOWN);
  }
}

/* --- a core that is never empty --- */

#define FLOOD_TAG (&tags[60])

/* A core's queue in which there is always one more foreign event. What is posted comes first. */
struct flood {
  struct weir__transport transport;
  pthread_mutex_t lock;
  void *posted[8];
  size_t n_posted;
  bool shut_down;
};

static grpc_event flood_next(grpc_completion_queue *core, gpr_timespec deadline, void *context) {
  (void)core;
  (void)deadline;
  struct flood *flood = context;
  grpc_event event = {.type = GRPC_OP_COMPLETE, .success = 1, .tag = FLOOD_TAG};
  pthread_mutex_lock(&flood->lock);
  if (flood->n_posted > 0) {
    event.tag = flood->posted[0];
    flood->n_posted--;
    memmove(&flood->posted[0], &flood->posted[1], flood->n_posted * sizeof flood->posted[0]);
  } else if (flood->shut_down) {
    event.type = GRPC_QUEUE_SHUTDOWN;
  }
  pthread_mutex_unlock(&flood->lock);
  return event;
}

static grpc_call_error flood_start_batch(grpc_call *call, const grpc_op *ops, size_t n_ops,
                                         void *tag, void *context) {
  (void)call;
  (void)ops;
  (void)n_ops;
  struct flood *flood = context;
  pthread_mutex_lock(&flood->lock);
  flood->posted[flood->n_posted++] = tag;
  pthread_mutex_unlock(&flood->lock);
  return GRPC_CALL_OK;
}

static grpc_completion_queue *flood_queue_create(void *context, grpc_cq_polling_type polling) {
  (void)context;
  (void)polling;
  return NULL;
}

static void flood_shutdown(void *context, grpc_completion_queue *core) {
  (void)core;
  struct flood *flood = context;
  pthread_mutex_lock(&flood->lock);
  flood->shut_down = true;
  pthread_mutex_unlock(&flood->lock);
}

static void flood_queue_destroy(void *context, grpc_completion_queue *core) {
  (void)context;
  (void)core;
}

static grpc_call *flood_bell_create(void *context, grpc_completion_queue *core) {
  (void)core;
  return context;
}

static void flood_call_unref(void *context, grpc_call *call) {
  (void)context;
  (void)call;
}

static weir_completion_queue *flood_init(struct flood *flood) {
  memset(flood, 0, sizeof *flood);
  pthread_mutex_init(&flood->lock, NULL);
  flood->transport = (struct weir__transport){
      .context = flood,
      .call_start_batch = flood_start_batch,
      .call_unref = flood_call_unref,
      .queue_create = flood_queue_create,
      .queue_next = flood_next,
      .queue_shutdown = flood_shutdown,
      .queue_destroy = flood_queue_destroy,
      .bell_create = flood_bell_create,
  };
  return weir__queue_new(
      &(struct weir__queue_options){.transport = &flood->transport, .type = GRPC_CQ_PLUCK});
}

static void a_plucker_whose_time_is_over_does_not_drain_for_others_without_end(void **state) {
  (void)state;
  struct flood flood;
  struct queue_fixture f = {.queue = flood_init(&flood)};
  struct plucker pluckers[3];
  plucker_start(&pluckers[0], &f, &tags[0], in_ms(2));
  plucker_start(&pluckers[1], &f, &tags[1], in_ms(4));
  plucker_start(&pluckers[2], &f, &tags[2], at_once());
  size_t n_flooded = 0;
  for (size_t i = 0; i < 3; i++) {
    plucker_join(&pluckers[i]);
    assert_int_equal(pluckers[i].event.type, GRPC_QUEUE_TIMEOUT);
  }
  assert_int_equal(pluck(&f, &tags[0], at_once()).type, GRPC_QUEUE_TIMEOUT); /* and alone */
  weir_completion_queue_shutdown(f.queue);
  assert_int_equal(pluck(&f, &tags[0], never()).type, GRPC_QUEUE_SHUTDOWN);
  while (pluck(&f, FLOOD_TAG, never()).type == GRPC_OP_COMPLETE) {
    n_flooded++;
  }
  assert_true(n_flooded > 0); /* else this test shows nothing */
  weir_completion_queue_destroy(f.queue);
  pthread_mutex_destroy(&flood.lock);
}

/* A leader that takes many events for others asks whether its own is on its way; its own may come
 * before the answer. */
static void an_answer_that_nobody_waits_for_is_not_left(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue *queue = f->queue;
  grpc_call *lame = f->lame;
  for (size_t n_others = 0; n_others < 40; n_others++) {
    f->queue = queue_fixture_new_queue(f, GRPC_CQ_PLUCK);
    f->lame = weir__transport_core()->bell_create(NULL, weir_completion_queue_core(f->queue));
    for (size_t i = 1; i <= n_others; i++) {
      foreign_post(f, &tags[i]);
    }
    foreign_post(f, &tags[0]);
    assert_came(pluck(f, &tags[0], at_once()), &tags[0], 1);
    for (size_t i = 1; i <= n_others; i++) {
      assert_came(pluck(f, &tags[i], at_once()), &tags[i], 1);
    }
    weir_completion_queue_shutdown(f->queue);
    weir_completion_queue_destroy(f->queue);
    grpc_call_unref(f->lame);
  }
  f->queue = queue;
  f->lame = lame;
}

/* --- everything at once --- */

#define N_STORM_PLUCKERS 8
#define N_STORM_BEGINNERS 4
#define N_STORM_TAGS 3
#define N_STORM_BATCHES 1500 /* a beginner */

struct storm {
  struct queue_fixture *fixture;
  atomic_size_t n_begun;
  atomic_size_t n_plucked;
  atomic_bool over;
};

struct storm_thread {
  pthread_t thread;
  struct storm *storm;
  uint64_t seed;
};

static void *storm_pluck(void *context) {
  struct storm_thread *self = context;
  struct storm *storm = self->storm;
  for (;;) {
    bool over = atomic_load(&storm->over);
    void *tag = &tags[random_next(&self->seed) % N_STORM_TAGS];
    grpc_event event =
        pluck(storm->fixture, tag, random_next(&self->seed) % 4 == 0 ? in_ms(1) : at_once());
    if (event.type == GRPC_OP_COMPLETE) {
      assert_ptr_equal(event.tag, tag);
      atomic_fetch_add(&storm->n_plucked, 1);
    } else if (over && atomic_load(&storm->n_plucked) == atomic_load(&storm->n_begun)) {
      return NULL;
    }
  }
}

static void *storm_begin(void *context) {
  struct storm_thread *self = context;
  struct queue_fixture *f = self->storm->fixture;
  for (size_t i = 0; i < N_STORM_BATCHES; i++) {
    void *tag = &tags[random_next(&self->seed) % N_STORM_TAGS];
    uint64_t kind = random_next(&self->seed) % 16;
    if (kind == 0) {
      struct batch *abandoned = batch_begin(f, tag);
      random_yield(&self->seed);
      weir__queue_abandon(f->queue);
      weir__queue_block_give(f->queue, abandoned);
      continue;
    }
    atomic_fetch_add(&self->storm->n_begun, 1);
    if (kind == 1) {
      foreign_post(f, tag);
      continue;
    }
    struct batch *batch = batch_begin(f, tag);
    random_yield(&self->seed);
    if (kind < 8) {
      batch_end(batch);
    } else if (kind < 10) {
      batch_end_at(batch, due_in_ms(f, 0));
    } else {
      atomic_store(&batch->n_rounds, (int)(kind % 3) + 1);
      batch_post(batch);
    }
  }
  return NULL;
}

static void every_batch_is_plucked_once_whatever_the_threads_do(void **state) {
  struct storm storm = {.fixture = *state};
  struct storm_thread pluckers[N_STORM_PLUCKERS];
  struct storm_thread beginners[N_STORM_BEGINNERS];
  for (size_t i = 0; i < N_STORM_PLUCKERS; i++) {
    pluckers[i] = (struct storm_thread){.storm = &storm, .seed = 100 + i};
    assert_int_equal(pthread_create(&pluckers[i].thread, NULL, storm_pluck, &pluckers[i]), 0);
  }
  for (size_t i = 0; i < N_STORM_BEGINNERS; i++) {
    beginners[i] = (struct storm_thread){.storm = &storm, .seed = 200 + i};
    assert_int_equal(pthread_create(&beginners[i].thread, NULL, storm_begin, &beginners[i]), 0);
  }
  for (size_t i = 0; i < N_STORM_BEGINNERS; i++) {
    assert_int_equal(pthread_join(beginners[i].thread, NULL), 0);
  }
  atomic_store(&storm.over, true);
  for (size_t i = 0; i < N_STORM_PLUCKERS; i++) {
    assert_int_equal(pthread_join(pluckers[i].thread, NULL), 0);
  }
  assert_int_equal(atomic_load(&storm.n_plucked), atomic_load(&storm.n_begun));
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(a_batch_that_the_core_has_ended_is_plucked),
      CLAIM(a_batch_that_has_ended_without_the_core_is_plucked_with_its_success),
      CLAIM(a_batch_that_goes_on_is_plucked_when_it_has_ended),
      CLAIM(tags_are_plucked_in_any_order),
      CLAIM(what_has_one_tag_comes_in_order),
      CLAIM(a_wait_that_timed_out_can_be_taken_up_again),
      CLAIM(foreign_events_are_plucked_untouched),
      CLAIM(the_address_of_a_block_is_a_tag_as_any_other),
      CLAIM(a_batch_that_was_abandoned_never_comes),
      CLAIM(a_timer_ends_a_batch_that_is_waited_for),
      CLAIM(a_timer_ends_another_batch_than_the_one_waited_for),
      CLAIM(a_span_as_a_deadline_ends),
      CLAIM(a_batch_of_the_engines_own_is_plucked_by_nobody),
      CLAIM(one_event_may_end_batches_that_are_plucked_later),
      CLAIM(any_number_of_tags_can_be_there_before_they_are_plucked),
      CLAIM(without_memory_a_plucker_is_turned_away_and_nothing_is_lost),
      CLAIM(shutdown_comes_when_the_last_batch_has_ended),
      CLAIM(a_queue_of_which_all_was_plucked_may_be_destroyed),
      CLAIM(a_batch_that_ends_while_it_is_plucked_wakes_its_thread),
      CLAIM(a_tag_may_be_plucked_before_its_batch_begins),
      CLAIM(two_threads_pluck_two_tags),
      CLAIM(two_threads_that_pluck_one_tag_get_a_batch_each),
      CLAIM(a_batch_is_left_to_the_other_thread_that_waits_for_its_tag),
      CLAIM(an_end_that_meets_a_timeout_is_not_lost),
      CLAIM(a_foreign_event_meets_a_batch_of_the_same_tag),
      CLAIM(a_thread_that_plucks_an_abandoned_batch_goes_on_waiting_for_its_tag),
      CLAIM(what_is_there_is_found_at_once_though_another_thread_drains),
      CLAIM(twenty_threads_pluck_twenty_tags),
      CLAIM(who_leaves_hands_the_lead_on),
      CLAIM(a_timer_of_another_thread_wakes_the_leader),
      CLAIM(every_plucker_sees_the_shutdown),
      CLAIM(an_answer_that_nobody_waits_for_is_not_left),
      cmocka_unit_test(a_plucker_whose_time_is_over_does_not_drain_for_others_without_end),
      CLAIM(every_batch_is_plucked_once_whatever_the_threads_do),
  };
  return cmocka_run_group_tests_name("pluck", tests, NULL, NULL);
}
