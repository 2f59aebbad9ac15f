/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/container_of.h"
#include "test/unit/queue/queue_fixture.h"

/* --- functors --- */

struct note {
  grpc_completion_queue_functor functor; /* its address is the tag */
  struct queue_fixture *fixture;
  void (*then)(struct note *note); /* NULL = nothing more */
  void *context;                   /* of `then` */
  atomic_int n_runs;
  atomic_int n_again; /* of go_on */
  int success;        /* of the last run */
  pthread_t thread;
  sem_t ran; /* posted last */
};

static void note_run(grpc_completion_queue_functor *functor, int success) {
  struct note *note = WEIR__CONTAINER_OF(functor, struct note, functor);
  note->success = success;
  note->thread = pthread_self();
  if (note->then != NULL) {
    note->then(note);
  }
  atomic_fetch_add(&note->n_runs, 1);
  sem_post(&note->ran);
}

static void note_init(struct note *note, struct queue_fixture *f, int inlineable) {
  memset(note, 0, sizeof *note);
  note->functor.functor_run = note_run;
  note->functor.inlineable = inlineable;
  note->fixture = f;
  sem_init(&note->ran, 0, 0);
}

static void note_wait(struct note *note) {
  while (sem_wait(&note->ran) != 0) {
    /* a signal */
  }
}

/* --- fixtures --- */

static struct note at_shutdown;

static void setup_with(void **state, uint32_t n_threads) {
  static struct queue_fixture fixture;
  grpc_init();
  note_init(&at_shutdown, &fixture, 0);
  queue_fixture_init_callback(&fixture, &at_shutdown.functor, n_threads);
  *state = &fixture;
}

/* The test's threads poll. */
static int setup(void **state) {
  setup_with(state, 0);
  return 0;
}

static int setup_one(void **state) {
  setup_with(state, 1);
  return 0;
}

static int setup_four(void **state) {
  setup_with(state, 4);
  return 0;
}

static int teardown(void **state) {
  struct queue_fixture *f = *state;
  queue_fixture_fini(f);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 1);
  assert_int_equal(at_shutdown.success, 1);
  grpc_shutdown();
  return 0;
}

static grpc_completion_type poll_for(struct queue_fixture *f, gpr_timespec deadline) {
  return weir_completion_queue_poll(f->queue, deadline, NULL);
}

/* --- threads of the application's --- */

static void a_functor_is_run_once_with_what_became_of_its_batch(void **state) {
  struct queue_fixture *f = *state;
  struct note notes[5];
  for (size_t i = 0; i < 5; i++) {
    note_init(&notes[i], f, i % 2 == 0);
  }
  batch_post(batch_begin(f, &notes[0]));
  batch_end(batch_begin(f, &notes[1]));
  struct batch *failed = batch_begin(f, &notes[2]);
  failed->success = false;
  batch_end(failed);
  foreign_post(f, &notes[3]);
  foreign_post_failed_at_once(f, &notes[4]);
  foreign_post(f, NULL); /* tells nobody */

  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_TIMEOUT);

  static const int successes[] = {1, 1, 0, 1, 0};
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(atomic_load(&notes[i].n_runs), 1);
    assert_int_equal(notes[i].success, successes[i]);
  }
}

static void nothing_is_run_before_somebody_polls(void **state) {
  struct queue_fixture *f = *state;
  struct note notes[2];
  for (size_t i = 0; i < 2; i++) {
    note_init(&notes[i], f, i == 0);
    batch_end(batch_begin(f, &notes[i]));
  }
  weir_completion_queue_shutdown(f->queue);
  assert_int_equal(atomic_load(&notes[0].n_runs), 0);
  assert_int_equal(atomic_load(&notes[1].n_runs), 0);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 0);

  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_SHUTDOWN);

  assert_int_equal(atomic_load(&notes[0].n_runs), 1);
  assert_int_equal(atomic_load(&notes[1].n_runs), 1);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 1);
  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_SHUTDOWN); /* and is not run again */
}

static void a_poll_ends_at_its_deadline(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 1);
  batch_end_at(batch_begin(f, &note), due_in_ms(f, 3600000));
  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_TIMEOUT);
  assert_int_equal(poll_for(f, in_ms(2)), GRPC_QUEUE_TIMEOUT);
  assert_int_equal(poll_for(f, gpr_time_from_millis(2, GPR_TIMESPAN)), GRPC_QUEUE_TIMEOUT);
  assert_int_equal(atomic_load(&note.n_runs), 0);
  weir_completion_queue_shutdown(f->queue); /* which ends the batch at once */
  assert_int_equal(poll_for(f, in_ms(3600000)), GRPC_QUEUE_SHUTDOWN);
  assert_int_equal(atomic_load(&note.n_runs), 1);
}

static void start_again(struct note *note) {
  batch_end(batch_begin(note->fixture, note));
}

static void a_poll_whose_deadline_is_past_does_not_run_for_ever(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 1);
  note.then = start_again;
  start_again(&note);
  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_TIMEOUT);
  assert_true(atomic_load(&note.n_runs) > 1);
  assert_int_equal(poll_for(f, in_ms(1)), GRPC_QUEUE_TIMEOUT);
  note.then = NULL;
  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_TIMEOUT);
}

static void batches_of_the_engines_own_run_nothing(void **state) {
  struct queue_fixture *f = *state;
  struct note notes[2];
  struct held_batch *held = held_begin(f);
  held->n_ends = 2;
  for (size_t i = 0; i < 2; i++) {
    note_init(&notes[i], f, 1);
    held->ends[i] = batch_begin(f, &notes[i]);
  }
  held_post(held);
  held_post(held_begin(f));
  (void)held_begin(f); /* closed with the queue */
  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_TIMEOUT);
  assert_int_equal(atomic_load(&f->n_let_go), 2);
  assert_int_equal(atomic_load(&notes[0].n_runs), 1);
  assert_int_equal(atomic_load(&notes[1].n_runs), 1);
}

static void poll_within(struct note *note) {
  assert_int_equal(poll_for(note->fixture, at_once()), GRPC_QUEUE_TIMEOUT);
}

static void a_functor_may_poll(void **state) {
  struct queue_fixture *f = *state;
  struct note outer;
  struct note inner;
  note_init(&outer, f, 0);
  note_init(&inner, f, 0);
  outer.then = poll_within;
  batch_end(batch_begin(f, &outer));
  batch_end(batch_begin(f, &inner));
  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_TIMEOUT);
  assert_int_equal(atomic_load(&inner.n_runs), 1);
}

static void shut_down_and_poll_within(struct note *note) {
  weir_completion_queue_shutdown(note->fixture->queue);
  assert_int_equal(poll_for(note->fixture, never()), GRPC_QUEUE_SHUTDOWN);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 0); /* not before this one has returned */
}

static void the_shutdown_callback_waits_for_the_functor_that_polls(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 0);
  note.then = shut_down_and_poll_within;
  batch_end(batch_begin(f, &note));
  assert_int_equal(poll_for(f, at_once()), GRPC_QUEUE_SHUTDOWN);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 1);
}

static void begin_after_shutdown(struct note *note) {
  struct weir__completion *completion = weir__queue_block_take(note->fixture->queue);
  weir_completion_queue_shutdown(note->fixture->queue);
  assert_int_equal(weir__queue_begin(note->fixture->queue, completion, note),
                   WEIR_ERROR_UNAVAILABLE);
  weir__queue_block_give(note->fixture->queue, completion);
}

static void a_functor_may_shut_the_queue_down_and_starts_nothing_then(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 0);
  note.then = begin_after_shutdown;
  batch_post(batch_begin(f, &note));
  assert_int_equal(poll_for(f, never()), GRPC_QUEUE_SHUTDOWN);
  assert_int_equal(atomic_load(&note.n_runs), 1);
}

static void destroy(struct note *note) {
  weir_completion_queue_destroy(note->fixture->queue);
  note->fixture->queue = NULL;
}

static void the_shutdown_callback_may_destroy_the_queue_that_is_polled(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 0);
  at_shutdown.then = destroy;
  batch_end(batch_begin(f, &note));
  weir_completion_queue_shutdown(f->queue);
  assert_int_equal(poll_for(f, never()), GRPC_QUEUE_SHUTDOWN);
  assert_int_equal(atomic_load(&note.n_runs), 1);
}

static void destroying_a_queue_that_nobody_polls_runs_what_is_left(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 0);
  batch_post(batch_begin(f, &note));
  destroy(&note);
  assert_int_equal(atomic_load(&note.n_runs), 1);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 1);
}

static void a_queue_without_memory_is_not_made_and_runs_nothing(void **state) {
  struct queue_fixture *f = *state;
  size_t n_outstanding = atomic_load(&f->n_outstanding);
  for (size_t n = 0; n < 2; n++) {
    atomic_store(&f->n_allowed, n);
    assert_null(queue_fixture_new_queue(f, GRPC_CQ_CALLBACK));
  }
  atomic_store(&f->n_allowed, SIZE_MAX);
  f->n_callback_threads = UINT32_MAX; /* more than there is memory for */
  assert_null(queue_fixture_new_queue(f, GRPC_CQ_CALLBACK));
  assert_int_equal(atomic_load(&f->n_outstanding), n_outstanding);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 0);
}

/* --- threads of the queue's own --- */

static void functors_run_in_threads_of_the_queues(void **state) {
  struct queue_fixture *f = *state;
  for (int inlineable = 0; inlineable < 2; inlineable++) {
    struct note note;
    note_init(&note, f, inlineable);
    for (int i = 0; i < 200; i++) {
      struct batch *batch = batch_begin(f, &note);
      if (i % 3 == 0) {
        batch_post(batch);
      } else if (i % 3 == 1) {
        batch_end(batch);
      } else {
        batch_end_at(batch, due_in_ms(f, i % 2));
      }
      note_wait(&note);
      assert_false(pthread_equal(note.thread, pthread_self()));
    }
    assert_int_equal(atomic_load(&note.n_runs), 200);
  }
}

static void wait_for_context(struct note *note) {
  note_wait(note->context);
}

struct gate {
  sem_t entered;
  struct note *release;
};

static void wait_at_gate(struct note *note) {
  struct gate *gate = note->context;
  (void)sem_post(&gate->entered);
  note_wait(gate->release);
}

/* One thread for functors that may block, and one that polls. */
static void while_a_functor_blocks_others_go_on(void **state) {
  struct queue_fixture *f = *state;
  struct note blocks;
  struct note waits;
  struct note goes_on;
  struct note release;
  note_init(&blocks, f, 0);
  note_init(&waits, f, 0);
  note_init(&goes_on, f, 1);
  note_init(&release, f, 1);
  struct gate gate = {.release = &release};
  (void)sem_init(&gate.entered, 0, 0);
  blocks.then = wait_at_gate;
  blocks.context = &gate;
  batch_end(batch_begin(f, &blocks));
  while (sem_wait(&gate.entered) != 0) { /* before another functor can take its thread */
  }
  batch_end(batch_begin(f, &waits));
  for (int i = 0; i < 10; i++) {
    batch_post(batch_begin(f, &goes_on));
    note_wait(&goes_on);
  }
  assert_int_equal(atomic_load(&blocks.n_runs), 0);
  assert_int_equal(atomic_load(&waits.n_runs), 0); /* there is no thread for it */
  batch_end(batch_begin(f, &release));
  note_wait(&blocks);
  note_wait(&waits);
  (void)sem_destroy(&gate.entered);
}

static void meet(struct note *note) {
  pthread_barrier_wait(note->context);
}

static void as_many_functors_block_at_once_as_was_said(void **state) {
  struct queue_fixture *f = *state;
  struct note notes[4];
  pthread_barrier_t barrier;
  for (int round = 0; round < 50; round++) {
    pthread_barrier_init(&barrier, NULL, 4);
    for (size_t i = 0; i < 4; i++) {
      note_init(&notes[i], f, 0);
      notes[i].then = meet;
      notes[i].context = &barrier;
      batch_end(batch_begin(f, &notes[i]));
    }
    for (size_t i = 0; i < 4; i++) {
      note_wait(&notes[i]);
    }
    pthread_barrier_destroy(&barrier);
  }
}

static void more_may_wait_than_there_is_memory_for(void **state) {
  struct queue_fixture *f = *state;
  enum { N = 500 };
  static struct note notes[N];
  struct note blocks;
  struct note release;
  note_init(&blocks, f, 0);
  note_init(&release, f, 1);
  struct gate gate = {.release = &release};
  (void)sem_init(&gate.entered, 0, 0);
  blocks.then = wait_at_gate;
  blocks.context = &gate;
  batch_end(batch_begin(f, &blocks));
  while (sem_wait(&gate.entered) != 0) { /* before another functor can take its thread */
  }
  atomic_store(&f->n_allowed, 1);
  for (size_t i = 0; i < N; i++) { /* the last are run by the thread that polls */
    note_init(&notes[i], f, 0);
    foreign_post(f, &notes[i]);
  }
  note_wait(&notes[N - 1]);
  assert_int_equal(atomic_load(&notes[0].n_runs), 0);
  atomic_store(&f->n_allowed, SIZE_MAX);
  foreign_post(f, &release);
  note_wait(&blocks);
  for (size_t i = 0; i < N - 1; i++) {
    note_wait(&notes[i]);
  }
}

static void look_who_has_run(struct note *note) {
  const struct note *others = note->context;
  for (size_t i = 0; i < 20; i++) {
    note->success = note->success && atomic_load(&others[i].n_runs) == 1;
  }
}

static void the_shutdown_callback_runs_last(void **state) {
  struct queue_fixture *f = *state;
  struct note notes[20];
  struct note release;
  note_init(&release, f, 1);
  for (size_t i = 0; i < 20; i++) {
    note_init(&notes[i], f, i % 4 == 3);
    if (i % 4 != 3) {
      notes[i].then = wait_for_context;
      notes[i].context = &release;
    }
    batch_post(batch_begin(f, &notes[i]));
  }
  at_shutdown.then = look_who_has_run;
  at_shutdown.context = notes;
  weir_completion_queue_shutdown(f->queue);
  for (size_t i = 0; i < 15; i++) {
    sem_post(&release.ran);
  }
  note_wait(&at_shutdown);
  assert_int_equal(at_shutdown.success, 1);
}

static void shut_down(struct note *note) {
  weir_completion_queue_shutdown(note->fixture->queue);
}

static void a_functor_may_shut_the_queue_down(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 0);
  note.then = shut_down;
  batch_end(batch_begin(f, &note));
  note_wait(&at_shutdown);
  assert_int_equal(atomic_load(&note.n_runs), 1);
}

static void the_shutdown_callback_may_destroy_the_queue(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 0);
  at_shutdown.then = destroy;
  batch_end(batch_begin(f, &note));
  weir_completion_queue_shutdown(f->queue);
  note_wait(&at_shutdown);
  assert_int_equal(atomic_load(&note.n_runs), 1);
  assert_int_equal(atomic_load(&f->n_outstanding), 0); /* there and then */
}

static void destroying_a_queue_waits_for_what_is_under_way(void **state) {
  struct queue_fixture *f = *state;
  struct note note;
  note_init(&note, f, 0);
  batch_end_at(batch_begin(f, &note), due_in_ms(f, 3600000));
  destroy(&note);
  assert_int_equal(atomic_load(&note.n_runs), 1);
  assert_int_equal(atomic_load(&at_shutdown.n_runs), 1);
}

static void queues_are_made_and_destroyed_many_times(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue *first = f->queue;
  for (int i = 0; i < 100; i++) {
    struct note end;
    struct note note;
    note_init(&end, f, 0);
    note_init(&note, f, i % 2);
    f->shutdown_callback = i % 3 == 0 ? NULL : &end.functor;
    f->queue = queue_fixture_new_queue(f, GRPC_CQ_CALLBACK);
    end.then = i % 3 == 1 ? destroy : NULL;
    batch_end(batch_begin(f, &note));
    weir_completion_queue_shutdown(f->queue);
    if (i % 3 == 1) {
      note_wait(&end);
    } else {
      weir_completion_queue_destroy(f->queue);
    }
    assert_int_equal(atomic_load(&note.n_runs), 1);
    assert_int_equal(atomic_load(&end.n_runs), i % 3 == 0 ? 0 : 1);
  }
  f->queue = first;
}

/* --- everything at once --- */

#define N_STORM_POLLERS 8
#define N_STORM_BEGINNERS 4
#define N_STORM_NOTES 500 /* a beginner */

struct storm_thread {
  pthread_t thread;
  struct queue_fixture *fixture;
  struct note *notes;
  uint64_t seed;
};

/* A functor whose batch is begun anew, some times. */
static void go_on(struct note *note) {
  if (atomic_fetch_add(&note->n_again, 1) < 3) {
    batch_post(batch_begin(note->fixture, note));
  }
}

static void *storm_poll(void *context) {
  struct storm_thread *self = context;
  while (poll_for(self->fixture, random_next(&self->seed) % 2 == 0 ? in_ms(1) : never()) !=
         GRPC_QUEUE_SHUTDOWN) {
    random_yield(&self->seed);
  }
  return NULL;
}

static void *storm_begin(void *context) {
  struct storm_thread *self = context;
  struct queue_fixture *f = self->fixture;
  for (size_t i = 0; i < N_STORM_NOTES; i++) {
    struct note *note = &self->notes[i];
    uint64_t kind = random_next(&self->seed);
    note_init(note, f, kind % 3 == 0);
    note->then = go_on;
    if (kind / 4 % 8 == 0) {
      foreign_post(f, note);
    } else if (kind / 4 % 8 < 4) {
      batch_end(batch_begin(f, note));
    } else {
      batch_end_at(batch_begin(f, note), due_in_ms(f, (int64_t)(kind / 32 % 3)));
    }
    random_yield(&self->seed);
  }
  for (size_t i = 0; i < N_STORM_NOTES; i++) {
    for (int j = 0; j < 4; j++) {
      note_wait(&self->notes[i]);
    }
  }
  return NULL;
}

static void every_functor_runs_as_often_as_it_was_tagged(void **state) {
  static struct note notes[N_STORM_BEGINNERS][N_STORM_NOTES];
  struct queue_fixture *f = *state;
  struct storm_thread pollers[N_STORM_POLLERS];
  struct storm_thread beginners[N_STORM_BEGINNERS];
  for (size_t i = 0; i < N_STORM_POLLERS; i++) {
    pollers[i] = (struct storm_thread){.fixture = f, .seed = 100 + i};
    assert_int_equal(pthread_create(&pollers[i].thread, NULL, storm_poll, &pollers[i]), 0);
  }
  for (size_t i = 0; i < N_STORM_BEGINNERS; i++) {
    beginners[i] = (struct storm_thread){.fixture = f, .notes = notes[i], .seed = 200 + i};
    assert_int_equal(pthread_create(&beginners[i].thread, NULL, storm_begin, &beginners[i]), 0);
  }
  for (size_t i = 0; i < N_STORM_BEGINNERS; i++) {
    assert_int_equal(pthread_join(beginners[i].thread, NULL), 0);
  }
  weir_completion_queue_shutdown(f->queue);
  for (size_t i = 0; i < N_STORM_POLLERS; i++) {
    assert_int_equal(pthread_join(pollers[i].thread, NULL), 0);
  }
  for (size_t i = 0; i < N_STORM_BEGINNERS; i++) {
    for (size_t j = 0; j < N_STORM_NOTES; j++) {
      assert_int_equal(atomic_load(&notes[i][j].n_runs), 4);
    }
  }
}

#define POLLED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define ONE_BLOCKS(name) cmocka_unit_test_setup_teardown(name, setup_one, teardown)
#define FOUR_BLOCK(name) cmocka_unit_test_setup_teardown(name, setup_four, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      POLLED(a_functor_is_run_once_with_what_became_of_its_batch),
      POLLED(nothing_is_run_before_somebody_polls),
      POLLED(a_poll_ends_at_its_deadline),
      POLLED(a_poll_whose_deadline_is_past_does_not_run_for_ever),
      POLLED(batches_of_the_engines_own_run_nothing),
      POLLED(a_functor_may_poll),
      POLLED(the_shutdown_callback_waits_for_the_functor_that_polls),
      POLLED(a_functor_may_shut_the_queue_down_and_starts_nothing_then),
      POLLED(the_shutdown_callback_may_destroy_the_queue_that_is_polled),
      POLLED(destroying_a_queue_that_nobody_polls_runs_what_is_left),
      POLLED(a_queue_without_memory_is_not_made_and_runs_nothing),
      ONE_BLOCKS(functors_run_in_threads_of_the_queues),
      ONE_BLOCKS(while_a_functor_blocks_others_go_on),
      FOUR_BLOCK(as_many_functors_block_at_once_as_was_said),
      ONE_BLOCKS(more_may_wait_than_there_is_memory_for),
      FOUR_BLOCK(the_shutdown_callback_runs_last),
      FOUR_BLOCK(a_functor_may_shut_the_queue_down),
      FOUR_BLOCK(the_shutdown_callback_may_destroy_the_queue),
      FOUR_BLOCK(destroying_a_queue_waits_for_what_is_under_way),
      FOUR_BLOCK(queues_are_made_and_destroyed_many_times),
      POLLED(every_functor_runs_as_often_as_it_was_tagged),
      FOUR_BLOCK(every_functor_runs_as_often_as_it_was_tagged),
  };
  return cmocka_run_group_tests_name("callback", tests, NULL, NULL);
}
