/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "src/queue/expiry.h"
#include "src/queue/queue_state.h"
#include "test/support/fake_clock.h"
#include "test/unit/queue/queue_fixture.h"

/* A look passes every block: with a hundred thousand, looks must not be as many, nor keep a thread
 * from what there is to hand out. */

#define N_CROWD 100000
#define MS(n) ((n)*INT64_C(1000000))
#define T0 MS(5000)

struct crowd {
  struct queue_fixture fixture;
  struct fake_clock clock;
  struct batch *batches[N_CROWD];
};

/* Of the test that runs. */
static size_t n_expired;
static bool was_early;

/* A batch ends when its time is up, and not before, so that none needs a hold. */
static void crowd_hold(void *block) {
  (void)block;
}

static void crowd_expire(void *block, int64_t at_ns) {
  struct batch *batch = block;
  weir_completion_queue *queue = batch->fixture->queue;
  n_expired++;
  was_early = was_early || weir__queue_now_ns(queue) < at_ns;
  weir__queue_expire_never(queue, batch);
  batch_end(batch);
}

static const struct weir__expiry_ops crowd_ops = {.hold = crowd_hold, .expire = crowd_expire};

static int tag;

static void expire_at(struct crowd *crowd, size_t nth, int64_t at_ns) {
  weir__queue_expire_at(crowd->fixture.queue, crowd->batches[nth], &crowd_ops, at_ns);
}

static void take(struct crowd *crowd, gpr_timespec until) {
  grpc_event event = weir_completion_queue_next(crowd->fixture.queue, until, NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event.tag, &tag);
}

static void assert_none(struct crowd *crowd) {
  assert_int_equal(weir_completion_queue_next(crowd->fixture.queue, at_once(), NULL).type,
                   GRPC_QUEUE_TIMEOUT);
}

static int setup(void **state) {
  struct crowd *crowd = calloc(1, sizeof *crowd);
  assert_non_null(crowd);
  grpc_init();
  queue_fixture_init(&crowd->fixture, GRPC_CQ_NEXT);
  for (size_t i = 0; i < N_CROWD; i++) {
    crowd->batches[i] = batch_begin(&crowd->fixture, &tag);
  }
  n_expired = 0;
  was_early = false;
  *state = crowd;
  return 0;
}

static int teardown(void **state) {
  struct crowd *crowd = *state;
  queue_fixture_fini(&crowd->fixture);
  grpc_shutdown();
  free(crowd);
  return 0;
}

static void what_expires_at_one_instant_is_handed_out_meanwhile(void **state) {
  struct crowd *crowd = *state;
  int64_t at_ns = weir__queue_now_ns(crowd->fixture.queue);
  for (size_t i = 0; i < N_CROWD; i++) {
    expire_at(crowd, i, at_ns);
  }
  take(crowd, never());
  assert_true(n_expired < N_CROWD / 100);
  for (size_t i = 1; i < N_CROWD; i++) {
    take(crowd, never());
  }
  assert_int_equal(n_expired, N_CROWD);
  assert_none(crowd);
}

/* With a look for each, it would take minutes. */
static void times_that_follow_each_other_share_looks(void **state) {
  struct crowd *crowd = *state;
  int64_t first_at_ns = weir__queue_now_ns(crowd->fixture.queue) + MS(20);
  for (size_t i = 0; i < N_CROWD; i++) {
    expire_at(crowd, i, first_at_ns + (int64_t)(i * 7919 % N_CROWD) * 1000); /* in no order */
  }
  for (size_t i = 0; i < N_CROWD; i++) {
    take(crowd, never());
  }
  assert_int_equal(n_expired, N_CROWD);
  assert_false(was_early);
}

static void a_look_follows_another_after_a_rest(void **state) {
  struct crowd *crowd = *state;
  fake_clock_init(&crowd->clock, T0);
  crowd->fixture.queue->clock = &crowd->clock.base;
  expire_at(crowd, 0, T0);
  expire_at(crowd, 1, T0 + 1000);
  take(crowd, at_once());
  fake_clock_advance_to(&crowd->clock, T0 + 10000);
  assert_none(crowd);
  expire_at(crowd, 2, T0 + 20000);
  expire_at(crowd, 3, T0 + 500); /* it is nearer, but is not found sooner */
  assert_none(crowd);
  fake_clock_advance_to(&crowd->clock, T0 + MS(2));
  take(crowd, at_once());
  take(crowd, at_once());
  take(crowd, at_once());
  assert_none(crowd);
  for (size_t i = 4; i < N_CROWD; i++) {
    batch_end(crowd->batches[i]);
    take(crowd, at_once());
  }
  assert_false(was_early);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(what_expires_at_one_instant_is_handed_out_meanwhile),
      CLAIM(times_that_follow_each_other_share_looks),
      CLAIM(a_look_follows_another_after_a_rest),
  };
  return cmocka_run_group_tests_name("expiry_crowd", tests, NULL, NULL);
}
