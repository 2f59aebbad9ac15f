/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/test_server.h"
#include "test/support/silent_log.h"

#define TRIP 5

/* So short that it is over when it is looked for. */
#define POLICY_OF(probes, lease)                                                            \
  "{" NO_BOUNDARY ",\"breaker\":{\"openFor\":\"0.05s\",\"openJitter\":0,\"probes\":" probes \
  ",\"probeLease\":\"" lease "\"}," METHODS("\"maxRequestMessageBytes\":100") "}"

/* --- a server that fails until its breaker has opened, and then answers when it is told to --- */

#define PROBES_MAX 3

struct gate {
  weir__test_server *server;
  pthread_mutex_t mutex; /* of what follows */
  pthread_cond_t moved;
  bool is_let_out[PROBES_MAX];        /* of the calls after the trip, in their order */
  grpc_status_code codes[PROBES_MAX]; /* what they are answered; all that follow: OK */
  bool open;                          /* all are let out */
};

/* With the lock. */
static bool may_go(const struct gate *gate, uint64_t index) {
  return gate->open || (index < PROBES_MAX && gate->is_let_out[index]);
}

static void answer_when_let_out(void *context, const struct weir__test_served *served,
                                struct weir__test_reply *reply) {
  struct gate *gate = context;
  struct answer answer = {.code = GRPC_STATUS_UNAVAILABLE};
  if (served->number > TRIP) {
    uint64_t index = served->number - TRIP - 1;
    (void)pthread_mutex_lock(&gate->mutex);
    while (!may_go(gate, index)) {
      (void)pthread_cond_wait(&gate->moved, &gate->mutex);
    }
    answer.code = index < PROBES_MAX ? gate->codes[index] : GRPC_STATUS_OK;
    (void)pthread_mutex_unlock(&gate->mutex);
  }
  answer_with(&answer, served, reply);
}

static void gate_let_out(struct gate *gate, unsigned index) {
  (void)pthread_mutex_lock(&gate->mutex);
  gate->is_let_out[index] = true;
  (void)pthread_cond_broadcast(&gate->moved);
  (void)pthread_mutex_unlock(&gate->mutex);
}

static void gate_open(struct gate *gate) {
  (void)pthread_mutex_lock(&gate->mutex);
  gate->open = true;
  (void)pthread_cond_broadcast(&gate->moved);
  (void)pthread_mutex_unlock(&gate->mutex);
}

static struct weir_breaker_snapshot look(weir_channel *channel) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir_channel_breaker_snapshot(channel, METHOD, &snapshot), WEIR_OK);
  return snapshot;
}

/* A channel whose breaker has just opened. */
static weir_channel *open_tripped(struct gate *gate, const char *policy,
                                  const grpc_status_code *codes, size_t n_codes) {
  memset(gate, 0, sizeof *gate);
  for (size_t i = 0; i < n_codes; i++) {
    gate->codes[i] = codes[i];
  }
  (void)pthread_mutex_init(&gate->mutex, NULL);
  (void)pthread_cond_init(&gate->moved, NULL);
  gate->server = weir__test_server_new(answer_when_let_out, gate, 2 * PROBES_MAX);
  weir_channel *channel = channel_to(weir__test_server_port(gate->server), policy);
  for (int i = 0; i < TRIP; i++) {
    struct unary unary;
    unary_run(&unary, channel, NULL);
    assert_int_equal(unary.report.n_attempts, 1);
    unary_fini(&unary);
  }
  assert_int_equal(look(channel).n_trips, 1);
  return channel;
}

static void close_gate(struct gate *gate, weir_channel *channel) {
  gate_open(gate);
  weir_channel_destroy(channel);
  weir__test_server_release(gate->server);
  (void)pthread_cond_destroy(&gate->moved);
  (void)pthread_mutex_destroy(&gate->mutex);
}

/* --- many threads at the moment of half-open --- */

#define N_THREADS 64

struct rush {
  weir_channel *channel;
  pthread_barrier_t start;
  pthread_mutex_t mutex; /* of what follows */
  pthread_cond_t counted;
  unsigned n_let_through; /* and answered */
  unsigned n_refused;     /* beside the probes */
  unsigned n_odd;
};

static struct weir_call_report ask(weir_channel *channel) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  enum weir_error error = weir_unary(channel, &request, &reply);
  struct weir_call_report report = reply.report;
  report.n_attempts = error == WEIR_OK ? report.n_attempts : UINT32_MAX;
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return report;
}

static bool is_refused(const struct weir_call_report *report) {
  return report->n_attempts == 0 && report->reason == WEIR_REASON_BREAKER_OPEN;
}

/* Asks while the breaker is open, and once more. */
static void *ask_until_it_is_over(void *argument) {
  struct rush *rush = argument;
  (void)pthread_barrier_wait(&rush->start);
  struct weir_call_report report = ask(rush->channel);
  while (is_refused(&report) && report.breaker_state == WEIR_BREAKER_OPEN) {
    report = ask(rush->channel);
  }
  (void)pthread_mutex_lock(&rush->mutex);
  if (is_refused(&report)) {
    rush->n_refused++;
    rush->n_odd += report.next_probe_in_ns <= 0;
  } else {
    rush->n_let_through++;
    rush->n_odd += report.n_attempts != 1;
  }
  (void)pthread_cond_signal(&rush->counted);
  (void)pthread_mutex_unlock(&rush->mutex);
  return NULL;
}

/* The threads end by themselves, so there is no limit. */
static void await_count(struct rush *rush, const unsigned *count, unsigned at_least) {
  (void)pthread_mutex_lock(&rush->mutex);
  while (*count < at_least) {
    (void)pthread_cond_wait(&rush->counted, &rush->mutex);
  }
  (void)pthread_mutex_unlock(&rush->mutex);
}

struct rush_row {
  const char *why;
  const char *policy;
  unsigned n_probes;
  grpc_status_code codes[PROBES_MAX];
  enum weir_breaker_state state; /* in the end */
};

#define OK GRPC_STATUS_OK
#define FAILED GRPC_STATUS_UNAVAILABLE
#define ONE_PROBE POLICY_OF("1", "30s")
#define THREE_PROBES POLICY_OF("3", "30s")

static const struct rush_row rush_rows[] = {
    {"one probe that succeeds", ONE_PROBE, 1, {OK}, WEIR_BREAKER_CLOSED},
    {"one probe that fails", ONE_PROBE, 1, {FAILED}, WEIR_BREAKER_OPEN},
    {"an answer is a success", ONE_PROBE, 1, {GRPC_STATUS_INVALID_ARGUMENT}, WEIR_BREAKER_CLOSED},
    {"three that succeed", THREE_PROBES, 3, {OK, OK, OK}, WEIR_BREAKER_CLOSED},
    {"the last one fails", THREE_PROBES, 3, {OK, OK, FAILED}, WEIR_BREAKER_OPEN},
    {"two late successes", THREE_PROBES, 3, {FAILED, OK, OK}, WEIR_BREAKER_OPEN},
    {"two late failures", THREE_PROBES, 3, {FAILED, FAILED, FAILED}, WEIR_BREAKER_OPEN},
};

/* The probes are held until all others have been refused, and answered one by one. */
static void rush_in(struct rush *rush, struct gate *gate, const struct rush_row *row) {
  pthread_t threads[N_THREADS];
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, ask_until_it_is_over, rush), 0);
  }
  (void)pthread_barrier_wait(&rush->start);
  await_count(rush, &rush->n_refused, N_THREADS - row->n_probes);
  for (unsigned i = 0; i < row->n_probes; i++) {
    gate_let_out(gate, i);
    await_count(rush, &rush->n_let_through, i + 1);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
}

static void as_many_calls_get_through_at_half_open_as_there_are_probes(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rush_rows); i++) {
    const struct rush_row *row = &rush_rows[i];
    struct gate gate;
    struct rush rush = {.channel = open_tripped(&gate, row->policy, row->codes, PROBES_MAX)};
    (void)pthread_barrier_init(&rush.start, NULL, N_THREADS + 1);
    (void)pthread_mutex_init(&rush.mutex, NULL);
    (void)pthread_cond_init(&rush.counted, NULL);
    rush_in(&rush, &gate, row);
    struct weir_breaker_snapshot after = look(rush.channel);
    bool trips_again = row->state == WEIR_BREAKER_OPEN;
    if (rush.n_let_through != row->n_probes || rush.n_odd != 0 || after.state != row->state ||
        after.n_probes != row->n_probes || after.n_trips != (trips_again ? 2 : 1) ||
        weir__test_server_n_calls(gate.server) != TRIP + row->n_probes) {
      fail_msg("%s: %u through, %u odd, %s", row->why, rush.n_let_through, rush.n_odd,
               weir_breaker_state_name(after.state));
    }
    (void)pthread_cond_destroy(&rush.counted);
    (void)pthread_mutex_destroy(&rush.mutex);
    (void)pthread_barrier_destroy(&rush.start);
    close_gate(&gate, rush.channel);
  }
}

/* --- probes that are lost --- */

/* A call that the breaker lets through while it is half-open; under way when this returns. */
static void start_probe(struct unary *probe, struct gate *gate, weir_channel *channel,
                        weir_completion_queue *queue) {
  uint64_t n_probes = look(channel).n_probes;
  uint64_t n_calls = weir__test_server_n_calls(gate->server);
  unary_start(probe, channel, queue, NULL);
  while (look(channel).n_probes == n_probes) {
    unary_wait(probe, queue); /* refused */
    unary_fini(probe);
    unary_start(probe, channel, queue, NULL);
  }
  assert_true(weir__test_server_wait_calls(gate->server, n_calls + 1));
}

static void assert_next_call_closes(struct gate *gate, weir_channel *channel) {
  gate_open(gate);
  struct weir_call_report report = ask(channel);
  while (is_refused(&report) && report.breaker_state == WEIR_BREAKER_OPEN) {
    report = ask(channel);
  }
  assert_int_equal(report.code, GRPC_STATUS_OK);
  assert_int_equal(look(channel).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(look(channel).n_trips, 1);
}

static void lose_by_cancelling(struct unary *probe) {
  assert_int_equal(weir_call_cancel(probe->call, NULL), GRPC_CALL_OK);
}

/* With a code that would be the server's fault, if it were the server's. */
static void lose_by_cancelling_as_unavailable(struct unary *probe) {
  assert_int_equal(
      weir_call_cancel_with_status(probe->call, GRPC_STATUS_UNAVAILABLE, "enough", NULL),
      GRPC_CALL_OK);
}

static void lose_by_letting_go(struct unary *probe) {
  weir_call_unref(probe->call);
  probe->call = NULL;
}

static void a_lost_probe_gives_its_place_back(void **state) {
  (void)state;
  static void (*const ways[])(struct unary *) = {lose_by_cancelling, lose_by_letting_go,
                                                 lose_by_cancelling_as_unavailable};
  for (size_t i = 0; i < COUNT_OF(ways); i++) {
    struct gate gate;
    struct unary probe;
    weir_channel *channel = open_tripped(&gate, ONE_PROBE, NULL, 0);
    weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
    start_probe(&probe, &gate, channel, queue);
    ways[i](&probe);
    assert_ptr_equal(next_tag(queue), &probe);
    assert_int_equal(look(channel).state, WEIR_BREAKER_HALF_OPEN);
    unary_fini(&probe);
    assert_next_call_closes(&gate, channel);
    queue_end(queue);
    close_gate(&gate, channel);
  }
}

/* The queue's shutdown waits for the probe, and a queue that has been shut down takes none. */
static void a_probe_that_meets_its_queues_shutdown_gives_its_place_back(void **state) {
  (void)state;
  struct gate gate;
  struct unary probe;
  struct unary late;
  weir_channel *channel = open_tripped(&gate, ONE_PROBE, NULL, 0);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  start_probe(&probe, &gate, channel, queue);
  weir_completion_queue_shutdown(queue);
  lose_by_cancelling(&probe);
  assert_ptr_equal(next_tag(queue), &probe);
  unary_fini(&probe);

  grpc_op ops[UNARY_OPS];
  const struct unary_setup setup = {.method = NULL};
  unary_create(&late, channel, queue, &setup);
  unary_ops(&late, &setup, ops);
  assert_int_equal(weir_call_start_batch(late.call, ops, UNARY_OPS, &late, NULL),
                   GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
  unary_fini(&late);
  assert_next_call_closes(&gate, channel);
  assert_null(next_tag(queue));
  weir_completion_queue_destroy(queue);
  close_gate(&gate, channel);
}

/* --- calls that never are probes --- */

static grpc_byte_buffer *message_of_size(size_t size) {
  grpc_slice slice = grpc_slice_malloc(size);
  memset(GRPC_SLICE_START_PTR(slice), 'x', size);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return message;
}

static grpc_status_code code_of(weir_channel *channel, const struct unary_setup *setup) {
  struct unary unary;
  unary_run(&unary, channel, setup);
  assert_int_equal(unary.report.n_attempts, 0);
  grpc_status_code code = unary.code;
  unary_fini(&unary);
  return code;
}

static void assert_batch_is_refused(weir_channel *channel, weir_completion_queue *queue) {
  struct unary unary;
  grpc_op ops[UNARY_OPS];
  const struct unary_setup setup = {.message_flags = UINT32_MAX};
  unary_create(&unary, channel, queue, &setup);
  unary_ops(&unary, &setup, ops);
  assert_int_equal(weir_call_start_batch(unary.call, ops, UNARY_OPS, &unary, NULL),
                   GRPC_CALL_ERROR_INVALID_FLAGS);
  unary_fini(&unary);
}

/* Each of them ends by itself, with nothing sent, while the only place is free. */
static void what_ends_before_it_is_sent_takes_no_place(void **state) {
  (void)state;
  struct gate gate;
  struct unary probe;
  weir_channel *channel = open_tripped(&gate, ONE_PROBE, NULL, 0);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  start_probe(&probe, &gate, channel, queue);
  lose_by_cancelling(&probe);
  assert_ptr_equal(next_tag(queue), &probe);
  unary_fini(&probe);
  assert_int_equal(look(channel).state, WEIR_BREAKER_HALF_OPEN);

  grpc_byte_buffer *large = message_of_size(101);
  assert_int_equal(code_of(channel, &(struct unary_setup){.message = large}),
                   GRPC_STATUS_RESOURCE_EXHAUSTED);
  grpc_byte_buffer_destroy(large);
  assert_int_equal(code_of(channel, &(struct unary_setup){.timeout_ns = -MS(1)}),
                   GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_batch_is_refused(channel, queue);
  assert_int_equal(look(channel).n_probes, 1);
  assert_next_call_closes(&gate, channel);
  queue_end(queue);
  close_gate(&gate, channel);
}

/* --- probes that never end --- */

static void the_late_failure_of_a_probe_that_lost_its_lease_moves_nothing(void **state) {
  (void)state;
  static const grpc_status_code codes[] = {FAILED, OK};
  struct gate gate;
  struct unary slow;
  struct unary quick;
  weir_channel *channel = open_tripped(&gate, POLICY_OF("1", "0.05s"), codes, COUNT_OF(codes));
  weir_completion_queue *slow_queue = weir_completion_queue_create_for_next(NULL);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  start_probe(&slow, &gate, channel, slow_queue);
  start_probe(&quick, &gate, channel, queue); /* once the other's lease is over */
  gate_let_out(&gate, 1);
  unary_wait(&quick, queue);
  assert_int_equal(quick.code, GRPC_STATUS_OK);
  assert_int_equal(look(channel).state, WEIR_BREAKER_CLOSED);

  gate_let_out(&gate, 0);
  unary_wait(&slow, slow_queue);
  assert_int_equal(slow.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(look(channel).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(look(channel).n_requests, 0);
  assert_int_equal(look(channel).n_trips, 1);
  unary_fini(&quick);
  unary_fini(&slow);
  queue_end(slow_queue);
  queue_end(queue);
  close_gate(&gate, channel);
}

/* Black hole: its deadline is the only sign of it. */
static void a_probe_that_runs_out_of_time_opens_again(void **state) {
  (void)state;
  struct gate gate;
  struct unary probe;
  weir_channel *channel = open_tripped(&gate, ONE_PROBE, NULL, 0);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  const struct unary_setup short_time = {.timeout_ns = MS(30)};
  do {
    unary_start(&probe, channel, queue, &short_time);
    unary_wait(&probe, queue);
    unary_fini(&probe);
  } while (probe.report.n_attempts == 0); /* refused, or begun so late that its time was over */
  assert_int_equal(probe.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(look(channel).state, WEIR_BREAKER_OPEN);
  assert_int_equal(look(channel).n_trips, 2);
  queue_end(queue);
  close_gate(&gate, channel);
}

/* --- channels that are never connected again --- */

static void assert_trips_and_probes(weir_channel *channel) {
  assert_non_null(channel);
  for (int i = 0; i < TRIP; i++) {
    assert_int_equal(ask(channel).raw_code, GRPC_STATUS_UNAVAILABLE);
  }
  assert_int_equal(look(channel).state, WEIR_BREAKER_OPEN);
  while (look(channel).n_trips == 1) {
    assert_int_equal(ask(channel).raw_code, GRPC_STATUS_UNAVAILABLE);
  }
  assert_int_equal(look(channel).n_probes, 1);
  weir_channel_destroy(channel);
}

static struct weir_channel_options quiet_options(const char *document) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.log = &silent_log;
  assert_int_equal(
      weir_policy_from_json(document, strlen(document), NULL, NULL, &options.policy, NULL),
      WEIR_OK);
  return options;
}

static void a_channel_that_is_not_connected_again_is_probed_too(void **state) {
  (void)state;
  struct weir_channel_options options = quiet_options(ONE_PROBE);
  assert_trips_and_probes(
      weir_lame_client_channel_create("lame", GRPC_STATUS_UNAVAILABLE, "lame", &options));

  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  (void)close(ends[1]);
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  assert_trips_and_probes(weir_channel_create_from_fd("gone", ends[0], creds, NULL, &options));
  grpc_channel_credentials_release(creds);
  weir_policy_unref(options.policy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_many_calls_get_through_at_half_open_as_there_are_probes),
      cmocka_unit_test(a_lost_probe_gives_its_place_back),
      cmocka_unit_test(a_probe_that_meets_its_queues_shutdown_gives_its_place_back),
      cmocka_unit_test(what_ends_before_it_is_sent_takes_no_place),
      cmocka_unit_test(the_late_failure_of_a_probe_that_lost_its_lease_moves_nothing),
      cmocka_unit_test(a_probe_that_runs_out_of_time_opens_again),
      cmocka_unit_test(a_channel_that_is_not_connected_again_is_probed_too),
  };
  return cmocka_run_group_tests_name("half_open", tests, start_core, stop_core);
}
