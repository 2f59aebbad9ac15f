/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/queue/queue_fixture.h"

/* The same on queues of each kind. */
static const grpc_cq_completion_type kinds[] = {GRPC_CQ_NEXT, GRPC_CQ_PLUCK, GRPC_CQ_CALLBACK};

#define N_KINDS (sizeof kinds / sizeof kinds[0])

static int setup(void **state) {
  static struct queue_fixture fixture;
  grpc_init();
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  (void)state;
  grpc_shutdown();
  return 0;
}

static void run_nothing(grpc_completion_queue_functor *functor, int success) {
  (void)functor;
  (void)success;
}

/* A tag for every kind. */
static grpc_completion_queue_functor tag = {.functor_run = run_nothing, .inlineable = 1};

/* What one thread that drains sees: that a batch with the tag has come, or not. */
static grpc_completion_type drain(struct queue_fixture *f, gpr_timespec deadline) {
  size_t n_before = atomic_load(&f->n_handed_out);
  switch (f->type) {
  case GRPC_CQ_NEXT:
    return weir_completion_queue_next(f->queue, deadline, NULL).type;
  case GRPC_CQ_PLUCK:
    return weir_completion_queue_pluck(f->queue, &tag, deadline, NULL).type;
  case GRPC_CQ_CALLBACK:
    break;
  }
  grpc_completion_type type = weir_completion_queue_poll(f->queue, at_once(), NULL);
  return atomic_load(&f->n_handed_out) > n_before ? GRPC_OP_COMPLETE : type;
}

static void what_is_held_is_closed_once_nothing_is_owed(void **state) {
  struct queue_fixture *f = *state;
  for (size_t i = 0; i < N_KINDS; i++) {
    queue_fixture_init(f, kinds[i]);
    struct batch *batch = batch_begin(f, &tag);
    for (int j = 0; j < 3; j++) {
      (void)held_begin(f);
    }
    weir_completion_queue_shutdown(f->queue);
    (void)held_begin(f); /* a tag is owed yet */
    assert_int_equal(drain(f, at_once()), GRPC_QUEUE_TIMEOUT);
    assert_int_equal(atomic_load(&f->n_let_go), 0);
    batch_post(batch);
    assert_int_equal(drain(f, never()), GRPC_OP_COMPLETE);
    assert_int_equal(drain(f, never()), GRPC_QUEUE_SHUTDOWN);
    assert_int_equal(atomic_load(&f->n_let_go), 4);
    queue_fixture_fini(f);
  }
}

static void a_queue_that_owes_nothing_ends_at_once_whatever_is_held(void **state) {
  struct queue_fixture *f = *state;
  for (size_t i = 0; i < N_KINDS; i++) {
    queue_fixture_init(f, kinds[i]);
    (void)held_begin(f);
    weir_completion_queue_shutdown(f->queue);
    struct batch *late = weir__queue_block_take(f->queue);
    struct held_batch *late_held = weir__queue_block_take(f->queue);
    assert_int_equal(weir__queue_begin(f->queue, &late->completion, &tag), WEIR_ERROR_UNAVAILABLE);
    assert_int_equal(weir__queue_hold(f->queue, &late_held->held), WEIR_ERROR_UNAVAILABLE);
    weir__queue_block_give(f->queue, late_held);
    weir__queue_block_give(f->queue, late);
    assert_int_equal(drain(f, never()), GRPC_QUEUE_SHUTDOWN);
    assert_int_equal(atomic_load(&f->n_let_go), 1);
    queue_fixture_fini(f);
  }
}

static void what_ends_by_itself_is_waited_for(void **state) {
  struct queue_fixture *f = *state;
  for (size_t i = 0; i < N_KINDS; i++) {
    queue_fixture_init(f, kinds[i]);
    struct held_batch *held = held_begin(f);
    weir__queue_let_go(f->queue, &held->held); /* and is held anew, without an on_close */
    held->held.on_close = NULL;
    assert_int_equal(weir__queue_hold(f->queue, &held->held), WEIR_OK);
    weir_completion_queue_shutdown(f->queue);
    assert_int_equal(drain(f, at_once()), GRPC_QUEUE_TIMEOUT);
    held_post(held);
    assert_int_equal(drain(f, never()), GRPC_QUEUE_SHUTDOWN);
    queue_fixture_fini(f);
  }
}

static void what_is_let_go_is_not_closed(void **state) {
  struct queue_fixture *f = *state;
  enum { N = 200 };
  for (size_t i = 0; i < N_KINDS; i++) {
    queue_fixture_init(f, kinds[i]);
    struct held_batch *held[N];
    uint64_t seed = 1;
    for (size_t j = 0; j < N; j++) {
      held[j] = held_begin(f);
    }
    for (size_t j = N; j-- > 1;) { /* in any order */
      size_t k = (size_t)(random_next(&seed) % (j + 1));
      struct held_batch *swap = held[j];
      held[j] = held[k];
      held[k] = swap;
    }
    for (size_t j = 0; j < N / 2; j++) {
      held_post(held[j]);
    }
    assert_int_equal(drain(f, at_once()), GRPC_QUEUE_TIMEOUT);
    assert_int_equal(atomic_load(&f->n_let_go), N / 2);
    weir_completion_queue_shutdown(f->queue);
    assert_int_equal(drain(f, never()), GRPC_QUEUE_SHUTDOWN);
    assert_int_equal(atomic_load(&f->n_let_go), N); /* a second event would be one too many */
    queue_fixture_fini(f);
  }
}

/* --- threads --- */

#define N_THREADS 8

struct holder {
  pthread_t thread;
  struct queue_fixture *fixture;
  pthread_barrier_t *start;
  uint64_t seed;
  size_t n_held;
};

static void held_on_close_late(struct weir__held *held) {
  held_post((struct held_batch *)(void *)((char *)held - offsetof(struct held_batch, held)));
}

/* Holds until it is refused. What it holds is closed, or ends before. */
static void *hold_on(void *context) {
  struct holder *self = context;
  struct queue_fixture *f = self->fixture;
  struct held_batch *first = held_begin(f); /* so the queue is not done before */
  const struct weir__completion_ops *ops = first->held.completion.ops;
  pthread_barrier_wait(self->start);
  self->n_held = 1;
  for (;;) {
    struct held_batch *batch = weir__queue_block_take(f->queue);
    batch->fixture = f;
    batch->held.completion.ops = ops;
    bool ends_itself = random_next(&self->seed) % 2 == 0;
    batch->held.on_close = ends_itself ? NULL : held_on_close_late;
    if (weir__queue_hold(f->queue, &batch->held) != WEIR_OK) {
      weir__queue_block_give(f->queue, batch);
      return NULL;
    }
    self->n_held++;
    random_yield(&self->seed);
    if (ends_itself) {
      held_post(batch);
    }
  }
}

static void holds_meet_the_shutdown(void **state) {
  struct queue_fixture *f = *state;
  for (unsigned round = 0; round < 30; round++) {
    struct holder holders[N_THREADS];
    pthread_barrier_t start;
    uint64_t seed = round + 1;
    queue_fixture_init(f, kinds[round % N_KINDS]);
    pthread_barrier_init(&start, NULL, N_THREADS + 1);
    for (size_t i = 0; i < N_THREADS; i++) {
      holders[i] = (struct holder){.fixture = f, .start = &start, .seed = 10 * round + i + 1};
      assert_int_equal(pthread_create(&holders[i].thread, NULL, hold_on, &holders[i]), 0);
    }
    pthread_barrier_wait(&start);
    random_yield(&seed);
    assert_int_equal(drain(f, at_once()), GRPC_QUEUE_TIMEOUT);
    weir_completion_queue_shutdown(f->queue);
    size_t n_held = 0;
    for (size_t i = 0; i < N_THREADS; i++) {
      assert_int_equal(pthread_join(holders[i].thread, NULL), 0);
      n_held += holders[i].n_held;
    }
    assert_int_equal(drain(f, never()), GRPC_QUEUE_SHUTDOWN);
    assert_int_equal(atomic_load(&f->n_let_go), n_held);
    pthread_barrier_destroy(&start);
    queue_fixture_fini(f);
  }
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(what_is_held_is_closed_once_nothing_is_owed),
      CLAIM(a_queue_that_owes_nothing_ends_at_once_whatever_is_held),
      CLAIM(what_ends_by_itself_is_waited_for),
      CLAIM(what_is_let_go_is_not_closed),
      CLAIM(holds_meet_the_shutdown),
  };
  return cmocka_run_group_tests_name("held", tests, NULL, NULL);
}
