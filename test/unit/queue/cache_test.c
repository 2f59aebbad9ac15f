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

#define N_RACES 200

static int tags[4];

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

static void assert_came(grpc_event event, const void *tag) {
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, tag);
}

/* Flushes, and expects `tag`; NULL = nothing. */
static void flush(struct queue_fixture *f, const void *expected, int success) {
  void *tag = &tag;
  int ok = 7;
  int found = weir_completion_queue_thread_local_cache_flush(f->queue, &tag, &ok);
  assert_int_equal(found, expected != NULL ? 1 : 0);
  if (expected != NULL) {
    assert_ptr_equal(tag, expected);
    assert_int_equal(ok, success);
  } else {
    assert_ptr_equal(tag, &tag); /* not written */
    assert_int_equal(ok, 7);
  }
}

static void the_first_event_of_the_thread_is_its_own(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue_thread_local_cache_init(f->queue);
  foreign_post_failed_at_once(f, &tags[0]);
  foreign_post(f, &tags[1]);
  assert_came(next(f, at_once()), &tags[1]);
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  flush(f, &tags[0], 0);
  flush(f, NULL, 0);
  foreign_post(f, &tags[2]); /* there is no cache any more */
  assert_came(next(f, at_once()), &tags[2]);
}

static void nothing_is_in_a_cache_of_a_thread_that_did_nothing(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue_thread_local_cache_init(f->queue);
  flush(f, NULL, 0);
}

static void a_batch_in_the_cache_is_what_the_application_started(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue_thread_local_cache_init(f->queue);
  batch_post(batch_begin(f, &tags[0]));
  flush(f, &tags[0], 1);
  assert_int_equal(atomic_load(&f->n_handed_out), 1);
}

static void a_batch_in_the_cache_may_go_on(void **state) {
  struct queue_fixture *f = *state;
  struct batch *batch = batch_begin(f, &tags[0]);
  atomic_store(&batch->n_rounds, 2);
  weir_completion_queue_thread_local_cache_init(f->queue);
  batch_post(batch);
  flush(f, NULL, 0);
  assert_came(next(f, never()), &tags[0]);
}

static void a_batch_of_the_engines_own_is_nothing_to_the_application(void **state) {
  struct queue_fixture *f = *state;
  struct held_batch *held = held_begin(f);
  weir_completion_queue_thread_local_cache_init(f->queue);
  held_post(held);
  flush(f, NULL, 0);
  assert_int_equal(atomic_load(&f->n_let_go), 1);
}

static void what_ends_without_the_core_is_not_in_the_cache(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue_thread_local_cache_init(f->queue);
  batch_end(batch_begin(f, &tags[0]));
  flush(f, NULL, 0);
  assert_came(next(f, at_once()), &tags[0]);
}

static void the_shutdown_waits_for_what_is_in_a_cache(void **state) {
  struct queue_fixture *f = *state;
  weir_completion_queue_thread_local_cache_init(f->queue);
  batch_post(batch_begin(f, &tags[0]));
  weir_completion_queue_shutdown(f->queue);
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  flush(f, &tags[0], 1);
  assert_int_equal(next(f, never()).type, GRPC_QUEUE_SHUTDOWN);
}

/* --- a ring in the cache --- */

static void *take_one(void *context) {
  struct queue_fixture *f = context;
  assert_came(next(f, never()), &tags[0]);
  return NULL;
}

/* The thread with the cache wakes a sleeper, and the ring is the first event that it brings
 * about. */
static void a_ring_in_the_cache_is_passed_on(void **state) {
  struct queue_fixture *f = *state;
  uint64_t seed = 1;
  for (int i = 0; i < N_RACES; i++) {
    pthread_t thread;
    struct batch *batch = batch_begin(f, &tags[0]);
    assert_int_equal(pthread_create(&thread, NULL, take_one, f), 0);
    random_yield(&seed);
    weir_completion_queue_thread_local_cache_init(f->queue);
    if (i % 2 == 0) {
      batch_end(batch);
    } else {
      batch_end_at(batch, due_in_ms(f, 1));
    }
    flush(f, NULL, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  }
}

/* --- other kinds --- */

static unsigned n_runs;

static void count_run(grpc_completion_queue_functor *functor, int success) {
  (void)functor;
  n_runs += success != 0 ? 1 : 0;
}

static void queues_of_other_kinds_have_no_caches(void **state) {
  (void)state;
  struct queue_fixture f;
  queue_fixture_init(&f, GRPC_CQ_PLUCK);
  weir_completion_queue_thread_local_cache_init(f.queue);
  foreign_post(&f, &tags[0]);
  flush(&f, NULL, 0);
  assert_came(weir_completion_queue_pluck(f.queue, &tags[0], at_once(), NULL), &tags[0]);
  queue_fixture_fini(&f);

  grpc_completion_queue_functor functor = {.functor_run = count_run, .inlineable = 1};
  queue_fixture_init(&f, GRPC_CQ_CALLBACK);
  weir_completion_queue_thread_local_cache_init(f.queue);
  foreign_post(&f, &functor);
  flush(&f, NULL, 0);
  assert_int_equal(weir_completion_queue_poll(f.queue, at_once(), NULL), GRPC_QUEUE_TIMEOUT);
  assert_int_equal(n_runs, 1);
  queue_fixture_fini(&f);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(the_first_event_of_the_thread_is_its_own),
      CLAIM(nothing_is_in_a_cache_of_a_thread_that_did_nothing),
      CLAIM(a_batch_in_the_cache_is_what_the_application_started),
      CLAIM(a_batch_in_the_cache_may_go_on),
      CLAIM(a_batch_of_the_engines_own_is_nothing_to_the_application),
      CLAIM(what_ends_without_the_core_is_not_in_the_cache),
      CLAIM(the_shutdown_waits_for_what_is_in_a_cache),
      CLAIM(a_ring_in_the_cache_is_passed_on),
      CLAIM(queues_of_other_kinds_have_no_caches),
  };
  return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
