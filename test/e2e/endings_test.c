/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/stream_server.h"

/* Everything that ends a call, alone and with another at the same moment, in each state of a call,
 * with eight threads that drain its queue. */

#define N_DRAINERS 8
#define N_OPS 6
#define LIMIT_S 20

enum call_state { NOT_STARTED, IN_ATTEMPT, IN_BACKOFF, COMMITTED, DONE, N_STATES };

enum ending {
  NOTHING,
  CANCEL,
  CANCEL_WITH_STATUS,
  LET_GO,
  QUEUE_SHUTDOWN,
  CHANNEL_DESTROY,
  START_ANOTHER, /* no end, but in the way of one */
  N_ENDINGS
};

enum shape { ONE_BATCH, SIX_BATCHES, N_SHAPES };

/* An owed event; its address is the tag. */
struct owed {
  atomic_uint n_owed;
  atomic_uint n_came;
};

struct run {
  struct stream_server *server;
  struct counted_random random;
  weir_channel *channel;
  weir_completion_queue *queue;
  weir_call *call;
  enum shape shape;
  pthread_t drainers[N_DRAINERS];
  pthread_barrier_t barrier;
  atomic_bool hung;
  atomic_bool shut_down;
  atomic_bool channel_gone;
  struct owed owed[N_OPS + 1]; /* the last is of START_ANOTHER */

  grpc_byte_buffer *request;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *message;
  grpc_byte_buffer *another_message;
  grpc_status_code code;
  grpc_slice details;
  const char *error_string;
};

static const char *const methods[N_STATES] = {
    [NOT_STARTED] = STREAM_COUNT,      [IN_ATTEMPT] = STREAM_WAIT, [IN_BACKOFF] = STREAM_REFUSE,
    [COMMITTED] = STREAM_ONE_AND_WAIT, [DONE] = STREAM_COUNT,
};

static gpr_timespec limit(void) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(LIMIT_S, GPR_TIMESPAN));
}

/* --- draining --- */

static void *drain(void *argument) {
  struct run *run = argument;
  for (;;) {
    grpc_event event = weir_completion_queue_next(run->queue, limit(), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      atomic_store(&run->shut_down, true);
      return NULL;
    }
    if (event.type == GRPC_QUEUE_TIMEOUT) {
      atomic_store(&run->hung, true);
      return NULL;
    }
    struct owed *owed = event.tag;
    atomic_fetch_add(&owed->n_came, 1);
  }
}

/* --- starting --- */

static void start(struct run *run, const grpc_op *ops, size_t n_ops, struct owed *owed) {
  atomic_fetch_add(&owed->n_owed, 1);
  if (weir_call_start_batch(run->call, ops, n_ops, owed, NULL) != GRPC_CALL_OK) {
    atomic_fetch_sub(&owed->n_owed, 1);
  }
}

static void fill_ops(struct run *run, grpc_op ops[N_OPS]) {
  memset(ops, 0, N_OPS * sizeof ops[0]);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = run->request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &run->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &run->message;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &run->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &run->code;
  ops[5].data.recv_status_on_client.status_details = &run->details;
  ops[5].data.recv_status_on_client.error_string = &run->error_string;
}

static void start_call(struct run *run) {
  grpc_op ops[N_OPS];
  fill_ops(run, ops);
  if (run->shape == ONE_BATCH) {
    start(run, ops, N_OPS, &run->owed[0]);
    return;
  }
  for (size_t i = 0; i < N_OPS; i++) {
    start(run, &ops[i], 1, &run->owed[i]);
  }
}

static void wait_for(struct run *run, const struct owed *owed) {
  int64_t limit_ns = now_ns() + SECONDS(LIMIT_S);
  while (atomic_load(&owed->n_came) < atomic_load(&owed->n_owed)) {
    assert_false(atomic_load(&run->hung));
    assert_true(now_ns() < limit_ns);
    (void)sched_yield();
  }
}

/* Brings the call into a state; `n_calls` have come to the server before. */
static void bring_to(struct run *run, enum call_state state, size_t n_calls) {
  if (state == NOT_STARTED) {
    return;
  }
  unsigned n_asked = counted_random_n_asked(&run->random);
  start_call(run);
  assert_true(stream_server_wait_calls(run->server, n_calls + 1));
  if (state == IN_BACKOFF) {
    assert_true(counted_random_wait(&run->random, n_asked + 1));
  }
  if (state == COMMITTED && run->shape == SIX_BATCHES) {
    wait_for(run, &run->owed[4]);
  }
  if (state == DONE) {
    wait_for(run, &run->owed[run->shape == ONE_BATCH ? 0 : 5]);
  }
}

/* --- ending --- */

static void start_another(struct run *run) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = &run->another_message;
  start(run, &op, 1, &run->owed[N_OPS]);
}

static void end_by(struct run *run, enum ending ending) {
  switch (ending) {
  case CANCEL:
    (void)weir_call_cancel(run->call, NULL);
    break;
  case CANCEL_WITH_STATUS:
    (void)weir_call_cancel_with_status(run->call, GRPC_STATUS_ABORTED, "enough", NULL);
    break;
  case LET_GO:
    weir_call_unref(run->call); /* beside the share of the thread */
    break;
  case QUEUE_SHUTDOWN:
    weir_completion_queue_shutdown(run->queue);
    break;
  case CHANNEL_DESTROY:
    if (!atomic_exchange(&run->channel_gone, true)) {
      weir_channel_destroy(run->channel);
    }
    break;
  case START_ANOTHER:
    start_another(run);
    break;
  case NOTHING:
  case N_ENDINGS:
    break;
  }
}

struct ender {
  struct run *run;
  enum ending ending;
};

/* Has a share of the call, and gives it back. */
static void *end_at_once(void *argument) {
  const struct ender *ender = argument;
  (void)pthread_barrier_wait(&ender->run->barrier);
  end_by(ender->run, ender->ending);
  weir_call_unref(ender->run->call);
  return NULL;
}

/* --- one run --- */

static void run_open(struct run *run, enum call_state state) {
  const struct channel_setup setup = {
      .port = stream_server_port(run->server),
      .policy = POLICY_LONG_BACKOFF,
      .random = &run->random.base,
  };
  run->channel = channel_new(&setup);
  run->queue = weir_completion_queue_create_for_next(NULL);
  run->request = message_of("hello");
  run->details = grpc_empty_slice();
  grpc_slice path = grpc_slice_from_static_string(methods[state]);
  run->call = weir_channel_create_call(run->channel, NULL, 0, run->queue, path, NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  assert_non_null(run->call);
  for (size_t i = 0; i < N_DRAINERS; i++) {
    assert_int_equal(pthread_create(&run->drainers[i], NULL, drain, run), 0);
  }
}

static void run_close(struct run *run) {
  for (size_t i = 0; i < N_DRAINERS; i++) {
    (void)pthread_join(run->drainers[i], NULL);
  }
  weir_completion_queue_destroy(run->queue);
  if (!atomic_load(&run->channel_gone)) {
    weir_channel_destroy(run->channel);
  }
  grpc_byte_buffer_destroy(run->request);
  grpc_byte_buffer_destroy(run->message);
  grpc_byte_buffer_destroy(run->another_message);
  grpc_metadata_array_destroy(&run->initial_metadata);
  grpc_metadata_array_destroy(&run->trailing_metadata);
  grpc_slice_unref(run->details);
  void *error_string = NULL;
  memcpy(&error_string, &run->error_string, sizeof error_string);
  gpr_free(error_string);
}

static void check(const struct run *run, enum call_state state, const enum ending endings[2]) {
  bool right = !atomic_load(&run->hung);
  for (size_t i = 0; i <= N_OPS; i++) {
    right = right && atomic_load(&run->owed[i].n_came) == atomic_load(&run->owed[i].n_owed);
  }
  if (!right) {
    fail_msg("state %d, endings %d and %d, shape %d", (int)state, (int)endings[0], (int)endings[1],
             (int)run->shape);
  }
}

static void end_in(struct stream_server *server, enum call_state state, enum shape shape,
                   const enum ending endings[2]) {
  struct run run;
  memset(&run, 0, sizeof run);
  run.server = server;
  run.shape = shape;
  size_t n_calls = stream_server_n_calls(server);
  counted_random_init(&run.random);
  (void)pthread_barrier_init(&run.barrier, NULL, 2);
  run_open(&run, state);
  bring_to(&run, state, n_calls);

  struct ender enders[2] = {{&run, endings[0]}, {&run, endings[1]}};
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) {
    weir_call_ref(run.call);
    assert_int_equal(pthread_create(&threads[i], NULL, end_at_once, &enders[i]), 0);
  }
  for (size_t i = 0; i < 2; i++) {
    (void)pthread_join(threads[i], NULL);
  }
  bool let_go = endings[0] == LET_GO || endings[1] == LET_GO;
  if (!let_go) {
    (void)weir_call_cancel(run.call, NULL);
  }
  weir_completion_queue_shutdown(run.queue);
  run_close(&run);
  check(&run, state, endings);
  if (!let_go) {
    weir_call_unref(run.call);
  }
  /* No attempt is made after the end. */
  assert_true(stream_server_n_calls(server) <= n_calls + 1);
  (void)pthread_barrier_destroy(&run.barrier);
  counted_random_fini(&run.random);
}

static void end_in_every_way(enum call_state state) {
  struct stream_server *server = stream_server_new();
  for (int first = NOTHING; first < N_ENDINGS; first++) {
    for (int second = first; second < N_ENDINGS; second++) {
      if (first == LET_GO && second == LET_GO) {
        continue; /* there is one share to let go */
      }
      for (int shape = ONE_BATCH; shape < N_SHAPES; shape++) {
        end_in(server, state, (enum shape)shape,
               (const enum ending[2]){(enum ending)first, (enum ending)second});
      }
    }
  }
  stream_server_release(server);
}

static void a_call_that_is_not_started_ends_in_every_way(void **state) {
  (void)state;
  end_in_every_way(NOT_STARTED);
}

static void a_call_in_its_attempt_ends_in_every_way(void **state) {
  (void)state;
  end_in_every_way(IN_ATTEMPT);
}

static void a_call_in_its_backoff_ends_in_every_way(void **state) {
  (void)state;
  end_in_every_way(IN_BACKOFF);
}

static void a_committed_call_ends_in_every_way(void **state) {
  (void)state;
  end_in_every_way(COMMITTED);
}

static void a_call_that_is_done_ends_in_every_way(void **state) {
  (void)state;
  end_in_every_way(DONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_that_is_not_started_ends_in_every_way),
      cmocka_unit_test(a_call_in_its_attempt_ends_in_every_way),
      cmocka_unit_test(a_call_in_its_backoff_ends_in_every_way),
      cmocka_unit_test(a_committed_call_ends_in_every_way),
      cmocka_unit_test(a_call_that_is_done_ends_in_every_way),
  };
  return cmocka_run_group_tests_name("endings", tests, start_core, stop_core);
}
