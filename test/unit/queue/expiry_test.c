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

#include "src/base/container_of.h"
#include "src/queue/expiry.h"
#include "src/queue/queue_state.h"
#include "test/unit/queue/queue_fixture.h"

#define HOUR_MS INT64_C(3600000)
#define N_MANY 200 /* in several slabs, and more than one look expires */
#define N_RACES 300
#define N_DRAINS 1000 /* after fewer the times are looked through */
#define N_OWNERS 3

/* What a call is here: a batch whose time is minded, and that ends when it is up. */
struct minded {
  struct weir__completion completion_of_nobody; /* a completion is not at the start of its block */
  struct weir__completion completion;
  struct queue_fixture *fixture;
  atomic_int n_refs; /* the batch's, and one for each hold */
  atomic_bool ended;
};

static atomic_int n_expired;

static void minded_release(struct minded *minded) {
  if (atomic_fetch_sub(&minded->n_refs, 1) == 1) {
    weir_completion_queue *queue = minded->fixture->queue;
    memset(minded, 0xa5, sizeof *minded);
    weir__queue_block_give(queue, minded);
  }
}

static void minded_deliver(struct weir__completion *completion, grpc_event *event_out) {
  struct minded *minded = WEIR__CONTAINER_OF(completion, struct minded, completion);
  *event_out = (grpc_event){.type = GRPC_OP_COMPLETE, .success = 1, .tag = completion->app_tag};
  minded_release(minded);
}

static bool minded_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  (void)ok;
  minded_deliver(completion, event_out);
  return true;
}

static const struct weir__completion_ops minded_ops = {.on_event = minded_on_event,
                                                       .deliver = minded_deliver};

static struct minded *minded_begin(struct queue_fixture *f, void *tag) {
  struct minded *minded = weir__queue_block_take(f->queue);
  assert_non_null(minded);
  minded->completion.ops = &minded_ops;
  minded->fixture = f;
  atomic_init(&minded->n_refs, 1);
  atomic_init(&minded->ended, false);
  assert_int_equal(weir__queue_begin(f->queue, &minded->completion, tag), WEIR_OK);
  return minded;
}

/* By its owner, or since its time is up: who comes first. */
static void minded_end(struct minded *minded) {
  weir_completion_queue *queue = minded->fixture->queue;
  if (!atomic_exchange(&minded->ended, true)) {
    weir__queue_expire_never(queue, minded);
    weir__queue_push_ready(queue, &minded->completion);
  }
}

static void minded_hold(void *block) {
  struct minded *minded = block;
  assert_true(atomic_fetch_add(&minded->n_refs, 1) > 0);
}

static void minded_expire(void *block, int64_t at_ns) {
  (void)at_ns;
  atomic_fetch_add(&n_expired, 1);
  minded_end(block);
  minded_release(block);
}

static const struct weir__expiry_ops expiry_ops = {.hold = minded_hold, .expire = minded_expire};

static void expire_in_ms(struct minded *minded, int64_t ms) {
  weir__queue_expire_at(minded->fixture->queue, minded, &expiry_ops,
                        due_in_ms(minded->fixture, ms));
}

static int tags[N_MANY];

static int setup_kind(void **state, grpc_cq_completion_type type) {
  static struct queue_fixture fixture;
  grpc_init();
  queue_fixture_init(&fixture, type);
  atomic_store(&n_expired, 0);
  *state = &fixture;
  return 0;
}

static int setup(void **state) {
  return setup_kind(state, GRPC_CQ_NEXT);
}

static int setup_pluck(void **state) {
  return setup_kind(state, GRPC_CQ_PLUCK);
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

static void what_ends_in_time_does_not_expire(void **state) {
  struct queue_fixture *f = *state;
  struct minded *minded = minded_begin(f, &tags[0]);
  expire_in_ms(minded, HOUR_MS);
  minded_end(minded);
  assert_came(next(f, never()), &tags[0]);
  assert_int_equal(atomic_load(&n_expired), 0);
}

static void whoever_waits_sees_what_expires_meanwhile(void **state) {
  struct queue_fixture *f = *state;
  expire_in_ms(minded_begin(f, &tags[0]), 5);
  assert_came(next(f, never()), &tags[0]);
  assert_int_equal(atomic_load(&n_expired), 1);
}

static void it_expires_while_it_is_plucked(void **state) {
  struct queue_fixture *f = *state;
  expire_in_ms(minded_begin(f, &tags[0]), 5);
  assert_came(weir_completion_queue_pluck(f->queue, &tags[0], never(), NULL), &tags[0]);
  assert_int_equal(atomic_load(&n_expired), 1);
}

static void the_last_time_that_was_set_counts(void **state) {
  struct queue_fixture *f = *state;
  struct minded *minded = minded_begin(f, &tags[0]);
  expire_in_ms(minded, -1);
  expire_in_ms(minded, HOUR_MS);
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(atomic_load(&n_expired), 0);
  expire_in_ms(minded, -1);
  assert_came(next(f, never()), &tags[0]);
  assert_int_equal(atomic_load(&n_expired), 1);
}

static void of_many_those_expire_whose_time_is_up(void **state) {
  struct queue_fixture *f = *state;
  struct minded *late[N_MANY / 2];
  for (size_t i = 0; i < N_MANY; i++) {
    struct minded *minded = minded_begin(f, &tags[i]);
    expire_in_ms(minded, i % 2 == 0 ? -1 : HOUR_MS);
    late[i / 2] = minded;
  }
  for (size_t i = 0; i < N_MANY / 2; i++) {
    grpc_event event = next(f, never());
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    assert_int_equal(((int *)event.tag - tags) % 2, 0);
  }
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(atomic_load(&n_expired), N_MANY / 2);
  for (size_t i = 0; i < N_MANY / 2; i++) {
    expire_in_ms(late[i], 1);
  }
  for (size_t i = 0; i < N_MANY / 2; i++) {
    assert_int_equal(next(f, never()).type, GRPC_OP_COMPLETE);
  }
  assert_int_equal(atomic_load(&n_expired), N_MANY);
}

static bool minds_a_timer(const struct queue_fixture *f) {
  return (atomic_load(&f->queue->head.stir) & WEIR__QUEUE_TIMER) != 0;
}

static void drain_in_vain(struct queue_fixture *f) {
  for (size_t i = 0; i < N_DRAINS; i++) {
    assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
  }
}

static void a_timer_that_is_not_needed_any_more_is_let_go(void **state) {
  struct queue_fixture *f = *state;
  struct minded *minded = minded_begin(f, &tags[0]);
  expire_in_ms(minded, HOUR_MS);
  minded_end(minded);
  assert_came(next(f, never()), &tags[0]);
  assert_true(minds_a_timer(f));
  drain_in_vain(f);
  assert_false(minds_a_timer(f));
  expire_in_ms(minded_begin(f, &tags[1]), 5);
  assert_true(minds_a_timer(f));
  assert_came(next(f, never()), &tags[1]);
  assert_int_equal(atomic_load(&n_expired), 1);
}

static void a_timer_that_is_needed_stays(void **state) {
  struct queue_fixture *f = *state;
  struct minded *soon = minded_begin(f, &tags[0]);
  struct minded *late = minded_begin(f, &tags[1]);
  expire_in_ms(soon, HOUR_MS);
  expire_in_ms(late, 2 * HOUR_MS);
  minded_end(soon);
  assert_came(next(f, never()), &tags[0]);
  drain_in_vain(f);
  assert_true(minds_a_timer(f));
  assert_int_equal(f->queue->expiry.timer.due_at_ns,
                   atomic_load(weir__slab_time_of(&f->queue->blocks, late)));
  minded_end(late);
  assert_came(next(f, never()), &tags[1]);
}

static void on_due_never(struct weir__timer *timer, int64_t now_ns) {
  (void)timer;
  (void)now_ns;
  fail();
}

static void anothers_timer_is_left_alone(void **state) {
  struct queue_fixture *f = *state;
  struct minded *minded = minded_begin(f, &tags[0]);
  struct weir__timer timer = {.due_at_ns = due_in_ms(f, HOUR_MS), .on_due = on_due_never};
  weir__queue_lock(f->queue);
  weir__queue_arm_locked(f->queue, &timer);
  weir__queue_unlock(f->queue);
  drain_in_vain(f);
  assert_true(timer.armed);
  weir__queue_lock(f->queue);
  assert_true(weir__queue_disarm_locked(f->queue, &timer));
  weir__queue_unlock(f->queue);
  minded_end(minded);
  assert_came(next(f, never()), &tags[0]);
}

static void *take_one(void *context) {
  struct queue_fixture *f = context;
  grpc_event event = next(f, never());
  return event.type == GRPC_OP_COMPLETE ? event.tag : NULL;
}

static void who_sleeps_is_woken_for_a_nearer_time(void **state) {
  struct queue_fixture *f = *state;
  struct minded *late = minded_begin(f, &tags[0]);
  struct minded *soon = minded_begin(f, &tags[1]);
  pthread_t thread;
  void *tag = NULL;
  expire_in_ms(late, HOUR_MS);
  assert_int_equal(pthread_create(&thread, NULL, take_one, f), 0);
  expire_in_ms(soon, 20);
  assert_int_equal(pthread_join(thread, &tag), 0);
  assert_ptr_equal(tag, &tags[1]);
  minded_end(late);
  assert_came(next(f, never()), &tags[0]);
}

static void it_expires_after_the_queue_was_shut_down(void **state) {
  struct queue_fixture *f = *state;
  expire_in_ms(minded_begin(f, &tags[0]), 5);
  weir_completion_queue_shutdown(f->queue);
  assert_came(next(f, never()), &tags[0]);
  assert_int_equal(next(f, never()).type, GRPC_QUEUE_SHUTDOWN);
}

static void *own_some(void *context) {
  struct queue_fixture *f = context;
  uint64_t seed = (uint64_t)(uintptr_t)&seed | 1;
  for (int i = 0; i < N_RACES; i++) {
    struct minded *minded = minded_begin(f, &tags[0]);
    atomic_fetch_add(&minded->n_refs, 1); /* this thread's */
    expire_in_ms(minded, 0);
    random_yield(&seed);
    minded_end(minded);
    minded_release(minded);
  }
  return NULL;
}

/* Each batch ends once, by its owner or by a look in one of the threads that drain, and its memory
 * is given back after the last that has to do with it. */
static void owners_and_looks_meet(void **state) {
  struct queue_fixture *f = *state;
  pthread_t owners[N_OWNERS];
  for (size_t i = 0; i < N_OWNERS; i++) {
    assert_int_equal(pthread_create(&owners[i], NULL, own_some, f), 0);
  }
  for (size_t i = 0; i < N_OWNERS * N_RACES; i++) {
    assert_came(next(f, never()), &tags[0]);
  }
  for (size_t i = 0; i < N_OWNERS; i++) {
    assert_int_equal(pthread_join(owners[i], NULL), 0);
  }
  assert_int_equal(next(f, at_once()).type, GRPC_QUEUE_TIMEOUT);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(what_ends_in_time_does_not_expire),
      CLAIM(whoever_waits_sees_what_expires_meanwhile),
      cmocka_unit_test_setup_teardown(it_expires_while_it_is_plucked, setup_pluck, teardown),
      CLAIM(the_last_time_that_was_set_counts),
      CLAIM(of_many_those_expire_whose_time_is_up),
      CLAIM(a_timer_that_is_not_needed_any_more_is_let_go),
      CLAIM(a_timer_that_is_needed_stays),
      CLAIM(anothers_timer_is_left_alone),
      CLAIM(who_sleeps_is_woken_for_a_nearer_time),
      CLAIM(it_expires_after_the_queue_was_shut_down),
      CLAIM(owners_and_looks_meet),
  };
  return cmocka_run_group_tests_name("expiry", tests, NULL, NULL);
}
