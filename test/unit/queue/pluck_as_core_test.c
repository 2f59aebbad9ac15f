/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/grpc_security.h>

#include "src/transport/transport.h"
#include "test/unit/queue/queue_fixture.h"

/* What the core's own pluck queue does, weir's does: each step is made on both. */

enum side { OURS, CORES, N_SIDES };

struct pair {
  weir_completion_queue *ours;
  grpc_completion_queue *core[N_SIDES];
  grpc_call *lame[N_SIDES];
  grpc_call *pending[N_SIDES]; /* of which the status is waited for, until it is cancelled */
  grpc_metadata_array trailing[N_SIDES];
  grpc_slice details[N_SIDES];
  grpc_status_code status[N_SIDES];
};

static char tags[8];

static int setup(void **state) {
  static struct pair pair;
  grpc_init();
  memset(&pair, 0, sizeof pair);
  pair.ours = weir_completion_queue_create_for_pluck(NULL);
  pair.core[OURS] = weir_completion_queue_core(pair.ours);
  pair.core[CORES] = grpc_completion_queue_create_for_pluck(NULL);
  for (int i = 0; i < N_SIDES; i++) {
    pair.lame[i] = weir__transport_core()->bell_create(NULL, pair.core[i]);
  }
  *state = &pair;
  return 0;
}

static int teardown(void **state) {
  struct pair *pair = *state;
  for (int i = 0; i < N_SIDES; i++) {
    grpc_call_unref(pair->lame[i]);
    if (pair->pending[i] != NULL) {
      grpc_call_unref(pair->pending[i]);
      grpc_metadata_array_destroy(&pair->trailing[i]);
      grpc_slice_unref(pair->details[i]);
    }
  }
  weir_completion_queue_destroy(pair->ours);
  grpc_completion_queue_destroy(pair->core[CORES]);
  grpc_shutdown();
  return 0;
}

static void post(struct pair *pair, void *tag) {
  for (int i = 0; i < N_SIDES; i++) {
    assert_int_equal(grpc_call_start_batch(pair->lame[i], NULL, 0, tag, NULL), GRPC_CALL_OK);
  }
}

static void post_failed(struct pair *pair, void *tag) {
  for (int i = 0; i < N_SIDES; i++) {
    post_failed_at_once(pair->core[i], tag);
  }
}

/* A batch that is under way until pending_end. */
static void pending_begin(struct pair *pair, void *tag) {
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create("127.0.0.1:1", creds, NULL);
  grpc_channel_credentials_release(creds);
  for (int i = 0; i < N_SIDES; i++) {
    grpc_op op;
    memset(&op, 0, sizeof op);
    pair->details[i] = grpc_empty_slice();
    op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op.data.recv_status_on_client.trailing_metadata = &pair->trailing[i];
    op.data.recv_status_on_client.status = &pair->status[i];
    op.data.recv_status_on_client.status_details = &pair->details[i];
    pair->pending[i] = grpc_channel_create_call(channel, NULL, 0, pair->core[i],
                                                grpc_slice_from_static_string("/a/b"), NULL,
                                                gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    assert_int_equal(grpc_call_start_batch(pair->pending[i], &op, 1, tag, NULL), GRPC_CALL_OK);
  }
  grpc_channel_destroy(channel);
}

static void pending_end(struct pair *pair) {
  for (int i = 0; i < N_SIDES; i++) {
    assert_int_equal(grpc_call_cancel(pair->pending[i], NULL), GRPC_CALL_OK);
  }
}

static void shut_down(struct pair *pair) {
  weir_completion_queue_shutdown(pair->ours);
  grpc_completion_queue_shutdown(pair->core[CORES]);
}

/* Plucks on both, and fails unless both say the same. */
static grpc_event pluck(struct pair *pair, void *tag, gpr_timespec deadline) {
  grpc_event ours = weir_completion_queue_pluck(pair->ours, tag, deadline, NULL);
  grpc_event cores = grpc_completion_queue_pluck(pair->core[CORES], tag, deadline, NULL);
  assert_int_equal(ours.type, cores.type);
  assert_int_equal(ours.success, cores.success);
  if (cores.type == GRPC_OP_COMPLETE) {
    assert_ptr_equal(ours.tag, cores.tag);
  }
  return ours;
}

static void pluck_expecting(struct pair *pair, void *tag, grpc_completion_type type) {
  assert_int_equal(pluck(pair, tag, at_once()).type, type);
}

/* --- deadlines --- */

static void a_deadline_of_any_clock_ends_the_wait(void **state) {
  struct pair *pair = *state;
  static const gpr_clock_type clocks[] = {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME,
                                          GPR_CLOCK_PRECISE, GPR_TIMESPAN};
  for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
    gpr_timespec now = clocks[i] == GPR_TIMESPAN ? gpr_time_0(GPR_TIMESPAN) : gpr_now(clocks[i]);
    const gpr_timespec deadlines[] = {
        gpr_inf_past(clocks[i]),
        gpr_time_0(clocks[i]),
        gpr_time_sub(now, gpr_time_from_seconds(10, GPR_TIMESPAN)),
        now,
        gpr_time_add(now, gpr_time_from_micros(1, GPR_TIMESPAN)),
        gpr_time_add(now, gpr_time_from_millis(3, GPR_TIMESPAN)),
    };
    for (size_t j = 0; j < sizeof deadlines / sizeof deadlines[0]; j++) {
      assert_int_equal(pluck(pair, &tags[0], deadlines[j]).type, GRPC_QUEUE_TIMEOUT);
    }
    post(pair, &tags[0]);
    assert_int_equal(pluck(pair, &tags[0], gpr_inf_future(clocks[i])).type, GRPC_OP_COMPLETE);
    post(pair, &tags[0]);
    assert_int_equal(pluck(pair, &tags[0], gpr_inf_past(clocks[i])).type, GRPC_OP_COMPLETE);
  }
  shut_down(pair);
}

/* --- shutdown --- */

static void a_queue_with_nothing_left_is_at_its_end_at_once(void **state) {
  struct pair *pair = *state;
  shut_down(pair);
  shut_down(pair);
  pluck_expecting(pair, &tags[0], GRPC_QUEUE_SHUTDOWN);
  pluck_expecting(pair, NULL, GRPC_QUEUE_SHUTDOWN);
  pluck_expecting(pair, &tags[0], GRPC_QUEUE_SHUTDOWN);
}

static void what_has_come_and_was_not_plucked_outlasts_the_shutdown(void **state) {
  struct pair *pair = *state;
  post(pair, &tags[0]);
  post_failed(pair, &tags[0]);
  post(pair, &tags[1]);
  shut_down(pair);
  pluck_expecting(pair, &tags[2], GRPC_QUEUE_SHUTDOWN); /* it never will come */
  pluck_expecting(pair, &tags[1], GRPC_OP_COMPLETE);
  pluck_expecting(pair, &tags[1], GRPC_QUEUE_SHUTDOWN);
  pluck_expecting(pair, &tags[0], GRPC_OP_COMPLETE);
  pluck_expecting(pair, &tags[0], GRPC_OP_COMPLETE);
  pluck_expecting(pair, &tags[0], GRPC_QUEUE_SHUTDOWN);
}

static void what_is_under_way_holds_the_shutdown_up(void **state) {
  struct pair *pair = *state;
  pending_begin(pair, &tags[0]);
  post(pair, &tags[1]);
  shut_down(pair);
  pluck_expecting(pair, &tags[2], GRPC_QUEUE_TIMEOUT);
  pluck_expecting(pair, &tags[0], GRPC_QUEUE_TIMEOUT);
  post(pair, &tags[3]); /* something is under way, so more may be */
  pluck_expecting(pair, &tags[1], GRPC_OP_COMPLETE);
  pending_end(pair);
  assert_int_equal(pluck(pair, &tags[0], never()).type, GRPC_OP_COMPLETE);
  pluck_expecting(pair, &tags[2], GRPC_QUEUE_SHUTDOWN);
  pluck_expecting(pair, &tags[3], GRPC_OP_COMPLETE);
  pluck_expecting(pair, &tags[3], GRPC_QUEUE_SHUTDOWN);
}

/* --- anything --- */

static void random_steps(struct pair *pair, uint64_t seed, unsigned n_steps) {
  for (unsigned i = 0; i < n_steps; i++) {
    uint64_t choice = random_next(&seed);
    void *tag = choice % 5 == 0 ? NULL : &tags[choice % 5];
    if (choice / 8 % 8 < 3) {
      post(pair, tag);
    } else if (choice / 8 % 8 == 3) {
      post_failed(pair, tag);
    } else {
      (void)pluck(pair, tag, at_once());
    }
  }
}

static void whatever_comes_in_whatever_order_is_plucked_the_same(void **state) {
  struct pair *pair = *state;
  random_steps(pair, 0x9e3779b97f4a7c15u, 20000);
  shut_down(pair);
  for (size_t i = 0; i < 5; i++) {
    while (pluck(pair, i == 0 ? NULL : &tags[i], at_once()).type == GRPC_OP_COMPLETE) {
      /* the same on both */
    }
    pluck_expecting(pair, i == 0 ? NULL : &tags[i], GRPC_QUEUE_SHUTDOWN);
  }
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(a_deadline_of_any_clock_ends_the_wait),
      CLAIM(a_queue_with_nothing_left_is_at_its_end_at_once),
      CLAIM(what_has_come_and_was_not_plucked_outlasts_the_shutdown),
      CLAIM(what_is_under_way_holds_the_shutdown_up),
      CLAIM(whatever_comes_in_whatever_order_is_plucked_the_same),
  };
  return cmocka_run_group_tests_name("pluck as the core does", tests, NULL, NULL);
}
