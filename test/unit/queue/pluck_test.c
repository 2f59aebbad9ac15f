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

#include "src/queue/pluck_table.h"
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
  atomic_bool returned;
};

static void *plucker_run(void *context) {
  struct plucker *plucker = context;
  plucker->event = pluck(plucker->fixture, plucker->tag, plucker->deadline);
  atomic_store(&plucker->returned, true);
  return NULL;
}

static void plucker_start(struct plucker *plucker, struct queue_fixture *f, void *tag,
                          gpr_timespec deadline) {
  plucker->fixture = f;
  plucker->tag = tag;
  plucker->deadline = deadline;
  atomic_init(&plucker->returned, false);
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

static void batches_with_one_tag_come_once_each(void **state) {
  struct queue_fixture *f = *state;
  batch_end(batch_begin(f, NULL));
  batch_end(batch_begin(f, NULL));

  assert_came(pluck(f, NULL, at_once()), NULL, 1);
  assert_came(pluck(f, NULL, at_once()), NULL, 1);
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

static void a_foreign_event_with_the_tag_of_a_batch_comes_beside_it(void **state) {
  struct queue_fixture *f = *state;
  batch_end(batch_begin(f, &tags[0]));
  foreign_post_failed(f, &tags[0]);

  int n_successes = pluck(f, &tags[0], never()).success + pluck(f, &tags[0], never()).success;

  assert_int_equal(n_successes, 1);
  assert_int_equal(pluck(f, &tags[0], at_once()).type, GRPC_QUEUE_TIMEOUT);
}

static void a_batch_that_was_abandoned_never_comes(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  weir__queue_abandon(f->queue, &batch->completion);
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

static void more_batches_than_a_chunk_holds_can_be_under_way(void **state) {
  struct queue_fixture *f = *state;
  enum { N = 3 * WEIR__PLUCK_CHUNK_LENGTH + 1 };
  static char many[N];
  struct batch *batches[N];
  for (size_t i = 0; i < N; i++) {
    batches[i] = batch_begin(f, &many[i]);
  }
  for (size_t i = N; i-- > 0;) {
    batch_end(batches[i]);
    assert_came(pluck(f, &many[i], at_once()), &many[i], 1);
  }
}

static void a_batch_without_memory_for_it_is_refused_and_leaves_nothing(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batches[WEIR__PLUCK_CHUNK_LENGTH];
  for (size_t i = 0; i < WEIR__PLUCK_CHUNK_LENGTH; i++) {
    batches[i] = batch_begin(f, &tags[0]);
  }
  struct weir__completion *one_more = weir__queue_block_take(f->queue);
  atomic_store(&f->n_allowed, 0);
  assert_int_equal(weir__queue_begin(f->queue, one_more, &tags[1]), WEIR_ERROR_NO_MEMORY);
  assert_int_equal(pluck(f, &tags[1], at_once()).type, GRPC_QUEUE_TIMEOUT);

  atomic_store(&f->n_allowed, 1);
  assert_int_equal(weir__queue_begin(f->queue, one_more, &tags[1]), WEIR_OK);

  weir__queue_abandon(f->queue, one_more);
  weir__queue_block_give(f->queue, one_more);
  for (size_t i = 0; i < WEIR__PLUCK_CHUNK_LENGTH; i++) {
    batch_end(batches[i]);
    assert_came(pluck(f, &tags[0], at_once()), &tags[0], 1);
  }
}

static void shutdown_comes_when_the_last_batch_has_been_plucked(void **state) {
  struct queue_fixture *f = *state;
  batch_end_at(batch_begin(f, &tags[0]), due_in_ms(f, 3600000));
  struct batch *posted = batch_begin(f, &tags[1]);
  weir_completion_queue_shutdown(f->queue);

  struct batch *late = batch_begin(f, &tags[2]); /* as the core: something is under way still */
  batch_post(posted);
  batch_end(late);
  assert_came(pluck(f, &tags[0], never()), &tags[0], 1);
  assert_came(pluck(f, &tags[1], never()), &tags[1], 1);
  assert_int_equal(pluck(f, &tags[3], at_once()).type, GRPC_QUEUE_TIMEOUT);
  assert_came(pluck(f, &tags[2], never()), &tags[2], 1);

  assert_int_equal(pluck(f, &tags[0], never()).type, GRPC_QUEUE_SHUTDOWN);
  struct weir__completion *completion = weir__queue_block_take(f->queue);
  assert_int_equal(weir__queue_begin(f->queue, completion, &tags[0]), WEIR_ERROR_UNAVAILABLE);
  weir__queue_block_give(f->queue, completion);
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
    weir__queue_abandon(f->queue, &batch->completion);
    /* The same memory, so the same tag for the core. */
    assert_int_equal(weir__queue_begin(f->queue, &batch->completion, &tags[1]), WEIR_OK);
    batch_end(batch);
    foreign_post(f, &tags[0]);
    plucker_join(&plucker);
    assert_came(plucker.event, &tags[0], 1);
    assert_came(pluck(f, &tags[1], never()), &tags[1], 1);
  }
}

/* Seven threads pluck seven tags, and nothing has ended yet: the last to come is turned away, or
 * whom it crowded out. */
static void seven_pluck(struct queue_fixture *f) {
  struct plucker pluckers[WEIR__MAX_PLUCKERS + 1];
  struct batch *batches[WEIR__MAX_PLUCKERS + 1];
  for (size_t i = 0; i <= WEIR__MAX_PLUCKERS; i++) {
    batches[i] = batch_begin(f, &tags[i]);
    plucker_start(&pluckers[i], f, &tags[i], never());
  }
  size_t n_returned = 0;
  for (size_t i = 0; n_returned == 0; i = (i + 1) % (WEIR__MAX_PLUCKERS + 1)) {
    (void)sched_yield();
    n_returned += atomic_load(&pluckers[i].returned) ? 1 : 0;
  }
  for (size_t i = 0; i <= WEIR__MAX_PLUCKERS; i++) {
    batch_end(batches[i]);
  }
  for (size_t i = 0; i <= WEIR__MAX_PLUCKERS; i++) {
    plucker_join(&pluckers[i]);
    if (pluckers[i].event.type == GRPC_QUEUE_TIMEOUT) {
      pluckers[i].event = pluck(f, &tags[i], at_once());
    }
    assert_came(pluckers[i].event, &tags[i], 1);
  }
}

static void six_threads_pluck_and_a_seventh_is_turned_away(void **state) {
  struct queue_fixture *f = *state;
  for (int i = 0; i < 20; i++) {
    seven_pluck(f);
  }
}

static void the_seventh_thread_is_turned_away_though_a_timer_would_bound_its_wait(void **state) {
  struct queue_fixture *f = *state;
  batch_end_at(batch_begin(f, &tags[7]), due_in_ms(f, 3600000));
  seven_pluck(f);

  weir_completion_queue_shutdown(f->queue);
  assert_came(pluck(f, &tags[7], never()), &tags[7], 1);
}

/* --- everything at once --- */

#define N_STORM_PLUCKERS 4
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
      weir__queue_abandon(f->queue, &abandoned->completion);
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
      CLAIM(batches_with_one_tag_come_once_each),
      CLAIM(a_wait_that_timed_out_can_be_taken_up_again),
      CLAIM(foreign_events_are_plucked_untouched),
      CLAIM(the_address_of_a_block_is_a_tag_as_any_other),
      CLAIM(a_foreign_event_with_the_tag_of_a_batch_comes_beside_it),
      CLAIM(a_batch_that_was_abandoned_never_comes),
      CLAIM(a_timer_ends_a_batch_that_is_waited_for),
      CLAIM(a_timer_ends_another_batch_than_the_one_waited_for),
      CLAIM(a_span_as_a_deadline_ends),
      CLAIM(more_batches_than_a_chunk_holds_can_be_under_way),
      CLAIM(a_batch_without_memory_for_it_is_refused_and_leaves_nothing),
      CLAIM(shutdown_comes_when_the_last_batch_has_been_plucked),
      CLAIM(a_batch_that_ends_while_it_is_plucked_wakes_its_thread),
      CLAIM(a_tag_may_be_plucked_before_its_batch_begins),
      CLAIM(two_threads_pluck_two_tags),
      CLAIM(two_threads_that_pluck_one_tag_get_a_batch_each),
      CLAIM(a_batch_is_left_to_the_other_thread_that_waits_for_its_tag),
      CLAIM(an_end_that_meets_a_timeout_is_not_lost),
      CLAIM(a_foreign_event_meets_a_batch_of_the_same_tag),
      CLAIM(a_thread_that_plucks_an_abandoned_batch_goes_on_waiting_for_its_tag),
      CLAIM(six_threads_pluck_and_a_seventh_is_turned_away),
      CLAIM(the_seventh_thread_is_turned_away_though_a_timer_would_bound_its_wait),
      CLAIM(every_batch_is_plucked_once_whatever_the_threads_do),
  };
  return cmocka_run_group_tests_name("pluck", tests, NULL, NULL);
}
