/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/stream_server.h"

/* Streams whose batches are started by one thread while others drain, retry, and give the call
 * back: as callback APIs do, whoever gets the last tag ends the call, though the thread that started
 * its batch may not have returned yet. */

#define N_STARTERS 4
#define N_DRAINERS 4
#define N_STREAMS 40 /* of each starter */
#define N_MESSAGES 4
#define N_OPS 8 /* of grpc_op_type */

struct race;

struct racer;

struct racer_tag {
  struct racer *racer;
  atomic_bool out;
};

struct racer {
  struct race *race;
  weir_call *call;
  atomic_uint n_left; /* tags that are out, and one while more may follow: at 0 it ends */
  struct racer_tag tags[N_OPS];
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *sent;
  grpc_byte_buffer *received;
  grpc_status_code status;
  grpc_slice details;
};

struct race {
  weir_channel *channel;
  weir_completion_queue *queue;
  atomic_uint n_ended;
  atomic_uint n_refused; /* batches that were not started: none may be */
  atomic_uint n_wrong;   /* tags that were not out */
};

static gpr_timespec forever(void) {
  return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

/* --- a stream --- */

static struct racer *racer_new(struct race *race, const char *method) {
  struct racer *racer = calloc(1, sizeof *racer);
  grpc_slice path = grpc_slice_from_static_string(method);
  racer->race = race;
  racer->details = grpc_empty_slice();
  racer->call =
      weir_channel_create_call(race->channel, NULL, 0, race->queue, path, NULL, forever(), NULL);
  for (size_t i = 0; i < N_OPS; i++) {
    racer->tags[i].racer = racer;
  }
  atomic_init(&racer->n_left, 1);
  return racer;
}

static void racer_leave(struct racer *racer) {
  if (atomic_fetch_sub(&racer->n_left, 1) != 1) {
    return;
  }
  struct race *race = racer->race;
  weir_call_unref(racer->call);
  grpc_metadata_array_destroy(&racer->initial_metadata);
  grpc_metadata_array_destroy(&racer->trailing_metadata);
  grpc_byte_buffer_destroy(racer->sent);
  grpc_byte_buffer_destroy(racer->received);
  grpc_slice_unref(racer->details);
  free(racer);
  atomic_fetch_add(&race->n_ended, 1);
}

static grpc_op racer_op(struct racer *racer, grpc_op_type type) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = type;
  if (type == GRPC_OP_SEND_MESSAGE) {
    grpc_byte_buffer_destroy(racer->sent);
    racer->sent = message_of("a message");
    op.data.send_message.send_message = racer->sent;
  } else if (type == GRPC_OP_RECV_INITIAL_METADATA) {
    op.data.recv_initial_metadata.recv_initial_metadata = &racer->initial_metadata;
  } else if (type == GRPC_OP_RECV_MESSAGE) {
    op.data.recv_message.recv_message = &racer->received;
  } else if (type == GRPC_OP_RECV_STATUS_ON_CLIENT) {
    op.data.recv_status_on_client.trailing_metadata = &racer->trailing_metadata;
    op.data.recv_status_on_client.status = &racer->status;
    op.data.recv_status_on_client.status_details = &racer->details;
  }
  return op;
}

/* With the last batch the starter's share goes, so it touches nothing afterwards. */
static void racer_start(struct racer *racer, grpc_op_type type, bool is_last) {
  struct race *race = racer->race;
  grpc_op op = racer_op(racer, type);
  atomic_store(&racer->tags[type].out, true);
  if (!is_last) {
    atomic_fetch_add(&racer->n_left, 1);
  }
  if (weir_call_start_batch(racer->call, &op, 1, &racer->tags[type], NULL) != GRPC_CALL_OK) {
    atomic_fetch_add(&race->n_refused, 1);
    racer_leave(racer);
  }
}

static void racer_wait(struct racer *racer, grpc_op_type type) {
  while (atomic_load(&racer->tags[type].out)) {
    (void)sched_yield();
  }
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): the starter has a share until it starts the last batch */
static void racer_run(struct racer *racer, unsigned number) {
  bool status_last = number % 2 == 0;
  racer_start(racer, GRPC_OP_SEND_INITIAL_METADATA, false);
  racer_start(racer, GRPC_OP_RECV_INITIAL_METADATA, false);
  if (!status_last) {
    racer_start(racer, GRPC_OP_RECV_STATUS_ON_CLIENT, false);
  }
  racer_start(racer, GRPC_OP_RECV_MESSAGE, false);
  for (unsigned i = 0; i < N_MESSAGES; i++) {
    racer_wait(racer, GRPC_OP_SEND_MESSAGE);
    racer_start(racer, GRPC_OP_SEND_MESSAGE, false);
  }
  if (number % 5 == 0) {
    (void)weir_call_cancel(racer->call, NULL);
  }
  racer_start(racer, GRPC_OP_SEND_CLOSE_FROM_CLIENT, !status_last);
  if (status_last) {
    racer_start(racer, GRPC_OP_RECV_STATUS_ON_CLIENT, true);
  }
}
/* NOLINTEND(clang-analyzer-unix.Malloc) */

/* --- the threads --- */

static void *start_streams(void *argument) {
  for (unsigned i = 0; i < N_STREAMS; i++) {
    racer_run(racer_new(argument, i % 3 == 0 ? STREAM_COUNT : STREAM_REFUSE), i);
  }
  return NULL;
}

static void *drain_streams(void *argument) {
  struct race *race = argument;
  for (;;) {
    grpc_event event = weir_completion_queue_next(race->queue, forever(), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    struct racer_tag *tag = event.tag;
    if (!atomic_exchange(&tag->out, false)) {
      atomic_fetch_add(&race->n_wrong, 1);
    }
    racer_leave(tag->racer);
  }
}

static void run_race(const char *policy) {
  struct stream_server *server = stream_server_new();
  struct race race;
  pthread_t starters[N_STARTERS];
  pthread_t drainers[N_DRAINERS];
  memset(&race, 0, sizeof race);
  race.channel = channel_to(stream_server_port(server), policy);
  race.queue = weir_completion_queue_create_for_next(NULL);
  for (size_t i = 0; i < N_DRAINERS; i++) {
    assert_int_equal(pthread_create(&drainers[i], NULL, drain_streams, &race), 0);
  }
  for (size_t i = 0; i < N_STARTERS; i++) {
    assert_int_equal(pthread_create(&starters[i], NULL, start_streams, &race), 0);
  }
  for (size_t i = 0; i < N_STARTERS; i++) {
    assert_int_equal(pthread_join(starters[i], NULL), 0);
  }
  weir_completion_queue_shutdown(race.queue);
  for (size_t i = 0; i < N_DRAINERS; i++) {
    assert_int_equal(pthread_join(drainers[i], NULL), 0);
  }
  weir_completion_queue_destroy(race.queue);
  weir_channel_destroy(race.channel);
  stream_server_release(server);
  assert_int_equal(race.n_refused, 0);
  assert_int_equal(race.n_wrong, 0);
  assert_int_equal(race.n_ended, N_STARTERS * N_STREAMS);
}

static void streams_are_started_while_others_retry_and_end_them(void **state) {
  (void)state;
  run_race("{" NO_BREAKER "," METHODS(RETRY("4", "0.001s", UNAVAILABLE)) "}");
}

static void streams_without_retries_are_ended_while_they_are_started(void **state) {
  (void)state;
  run_race(POLICY_PLAIN);
}

/* An attempt has about as much time as it takes, so many are cut off while they are answered. */
static void streams_run_out_of_time_while_they_are_answered(void **state) {
  (void)state;
  run_race("{" NO_BREAKER
           "," METHODS("\"perAttemptTimeout\":\"0.001s\"," RETRY("4", "0.001s", UNAVAILABLE)) "}");
}

/* The same, and the next attempt follows at once: its time begins while another thread has yet to see
 * that the one before has ended in time. */
static void streams_are_retried_at_once_while_they_run_out_of_time(void **state) {
  (void)state;
  run_race("{" NO_BREAKER "," METHODS(
      "\"perAttemptTimeout\":\"0.001s\"," RETRY("5", "0.000000001s", UNAVAILABLE)) "}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_are_started_while_others_retry_and_end_them),
      cmocka_unit_test(streams_without_retries_are_ended_while_they_are_started),
      cmocka_unit_test(streams_run_out_of_time_while_they_are_answered),
      cmocka_unit_test(streams_are_retried_at_once_while_they_run_out_of_time),
  };
  return cmocka_run_group_tests_name("stream_threads", tests, start_core, stop_core);
}
