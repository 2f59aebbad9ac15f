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
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"

#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "not now" }
#define WORKS \
  { .code = GRPC_STATUS_OK }
#define SILENT \
  { .delay_ns = SECONDS(60) }

/* "At once", on a machine that is busy. */
#define GENEROUS SECONDS(5)

#define POLICY_QUICK_RETRY \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("3", "0.002s", UNAVAILABLE)) "}"

static gpr_timespec forever(void) {
  return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

static gpr_timespec in_ms(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

/* A server that answers by a script, a channel to it, and a queue. */
struct way {
  weir__test_server *server;
  weir_channel *channel;
  weir_completion_queue *queue;
  struct counted_random random;
};

static void way_open(struct way *way, const struct script *script, const char *policy) {
  counted_random_init(&way->random);
  way->server = weir__test_server_new(answer_by_script, (void *)(uintptr_t)script, 0);
  way->channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(way->server), .policy = policy, .random = &way->random.base});
  way->queue = weir_completion_queue_create_for_next(NULL);
}

/* What a test has ended itself is NULL. */
static void way_close(struct way *way) {
  if (way->queue != NULL) {
    queue_end(way->queue);
  }
  if (way->channel != NULL) {
    weir_channel_destroy(way->channel);
  }
  weir__test_server_release(way->server);
  counted_random_fini(&way->random);
}

/* Every first attempt fails, every later one works. */
static void fail_first_attempts(void *context, const struct weir__test_served *served,
                                struct weir__test_reply *reply) {
  (void)context;
  static const struct answer fails = FAILS;
  static const struct answer works = WORKS;
  bool is_first = weir__metadata_find(served->metadata, "grpc-previous-rpc-attempts") == NULL;
  answer_with(is_first ? &fails : &works, served, reply);
}

/* --- a queue for more than weir --- */

/* Tags that are no addresses, as programs of the core use them. */
#define TAG_ARRIVED ((void *)1)
#define TAG_ANSWERED ((void *)2)
#define TAG_BARE ((void *)3)
#define TAG_DOWN ((void *)5)

/* A server whose calls are drained by the client's own queue. */
struct own_server {
  grpc_server *core;
  int port;
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  int cancelled;
  unsigned n_arrived;
  unsigned n_answered;
};

static void own_server_await(struct own_server *server, grpc_completion_queue *queue) {
  grpc_call_details_init(&server->details);
  grpc_metadata_array_init(&server->metadata);
  assert_int_equal(grpc_server_request_call(server->core, &server->call, &server->details,
                                            &server->metadata, queue, queue, TAG_ARRIVED),
                   GRPC_CALL_OK);
}

static void own_server_open(struct own_server *server, grpc_completion_queue *queue) {
  memset(server, 0, sizeof *server);
  server->core = grpc_server_create(NULL, NULL);
  grpc_server_register_completion_queue(server->core, queue, NULL);
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  server->port = grpc_server_add_http2_port(server->core, "127.0.0.1:0", creds);
  grpc_server_credentials_release(creds);
  assert_true(server->port > 0);
  grpc_server_start(server->core);
  own_server_await(server, queue);
}

static void own_server_answer(struct own_server *server, grpc_status_code code) {
  static grpc_slice text;
  text = grpc_slice_from_static_string("said on the same queue");
  grpc_op ops[3];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[1].data.send_status_from_server.status = code;
  ops[1].data.send_status_from_server.status_details = &text;
  ops[2].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  ops[2].data.recv_close_on_server.cancelled = &server->cancelled;
  assert_int_equal(grpc_call_start_batch(server->call, ops, COUNT_OF(ops), TAG_ANSWERED, NULL),
                   GRPC_CALL_OK);
}

/* Serves what is the server's of an event; the first call fails. False: it is somebody else's. */
static bool own_server_on_event(struct own_server *server, grpc_completion_queue *queue,
                                const grpc_event *event) {
  if (event->tag == TAG_ARRIVED) {
    assert_int_equal(event->success, 1);
    own_server_answer(server,
                      server->n_arrived++ == 0 ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_NOT_FOUND);
    return true;
  }
  if (event->tag == TAG_ANSWERED) {
    grpc_call_unref(server->call);
    grpc_call_details_destroy(&server->details);
    grpc_metadata_array_destroy(&server->metadata);
    server->n_answered++;
    own_server_await(server, queue);
    return true;
  }
  return false;
}

static void own_server_close(struct own_server *server, weir_completion_queue *queue) {
  grpc_server_shutdown_and_notify(server->core, weir_completion_queue_core(queue), TAG_DOWN);
  bool arrived = false;
  bool down = false;
  while (!arrived || !down) {
    grpc_event event = weir_completion_queue_next(queue, in_ms(10000), NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    arrived = arrived || event.tag == TAG_ARRIVED;
    down = down || event.tag == TAG_DOWN;
    assert_int_equal(event.success, event.tag == TAG_DOWN); /* nobody called */
  }
  grpc_call_details_destroy(&server->details);
  grpc_metadata_array_destroy(&server->metadata);
  grpc_server_destroy(server->core);
}

/* A call of the core's own, to nobody. */
struct bare_call {
  grpc_channel *channel;
  grpc_call *call;
  grpc_status_code code;
  grpc_slice details;
  grpc_metadata_array trailing;
};

/* Starts it, and an empty batch with no tag at all. */
static void bare_call_start(struct bare_call *bare, grpc_completion_queue *queue) {
  grpc_op ops[2];
  memset(ops, 0, sizeof ops);
  memset(bare, 0, sizeof *bare);
  bare->details = grpc_empty_slice();
  bare->channel = grpc_lame_client_channel_create("nobody", GRPC_STATUS_DATA_LOSS, "lame");
  bare->call = grpc_channel_create_call(
      bare->channel, NULL, 0, queue, grpc_slice_from_static_string(METHOD), NULL, forever(), NULL);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[1].data.recv_status_on_client.trailing_metadata = &bare->trailing;
  ops[1].data.recv_status_on_client.status = &bare->code;
  ops[1].data.recv_status_on_client.status_details = &bare->details;
  assert_int_equal(grpc_call_start_batch(bare->call, ops, COUNT_OF(ops), TAG_BARE, NULL),
                   GRPC_CALL_OK);
  assert_int_equal(grpc_call_start_batch(bare->call, NULL, 0, NULL, NULL), GRPC_CALL_OK);
}

static void bare_call_fini(struct bare_call *bare) {
  grpc_metadata_array_destroy(&bare->trailing);
  grpc_slice_unref(bare->details);
  grpc_call_unref(bare->call);
  grpc_channel_destroy(bare->channel);
}

static void foreign_tags_pass_untouched(void **state) {
  (void)state;
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  grpc_completion_queue *core = weir_completion_queue_core(queue);
  struct own_server server;
  struct bare_call bare;
  struct unary unary;
  unsigned n_bare = 0;
  unsigned n_null = 0;
  unsigned n_unary = 0;
  own_server_open(&server, core);
  weir_channel *channel = channel_to(server.port, POLICY_QUICK_RETRY);
  unary_start(&unary, channel, queue, NULL);
  bare_call_start(&bare, core);
  while (n_bare + n_null + n_unary < 3 || server.n_answered < 2) {
    grpc_event event = weir_completion_queue_next(queue, in_ms(10000), NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    if (!own_server_on_event(&server, core, &event)) {
      n_bare += event.tag == TAG_BARE;
      n_null += event.tag == NULL;
      n_unary += event.tag == &unary;
      assert_int_equal(event.success, 1);
    }
  }
  assert_int_equal(n_bare, 1);
  assert_int_equal(n_null, 1);
  assert_int_equal(n_unary, 1);
  assert_int_equal(bare.code, GRPC_STATUS_DATA_LOSS);
  assert_int_equal(unary.code, GRPC_STATUS_NOT_FOUND); /* the second attempt's */
  assert_int_equal(server.n_arrived, 2);
  unary_fini(&unary);
  bare_call_fini(&bare);
  weir_channel_destroy(channel);
  own_server_close(&server, queue);
  queue_end(queue);
}

/* --- many at once --- */

#define N_PLUCKERS 8
#define PLUCKED_CALLS 40

struct plucker {
  weir_channel *channel;
  weir_completion_queue *queue;
  unsigned n_wrong;
};

static void *pluck_own_calls(void *argument) {
  struct plucker *plucker = argument;
  for (unsigned i = 0; i < PLUCKED_CALLS; i++) {
    struct unary unary;
    unary_start(&unary, plucker->channel, plucker->queue, NULL);
    grpc_event event = weir_completion_queue_pluck(plucker->queue, &unary, forever(), NULL);
    plucker->n_wrong += event.type != GRPC_OP_COMPLETE || event.tag != &unary ||
                        event.success != 1 || unary.code != GRPC_STATUS_OK;
    unary_fini(&unary);
  }
  return NULL;
}

static void eight_threads_pluck_their_own_calls(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  pthread_t threads[N_PLUCKERS];
  struct plucker pluckers[N_PLUCKERS];
  for (size_t i = 0; i < N_PLUCKERS; i++) {
    pluckers[i] = (struct plucker){.channel = channel, .queue = queue};
    assert_int_equal(pthread_create(&threads[i], NULL, pluck_own_calls, &pluckers[i]), 0);
  }
  unsigned n_wrong = 0;
  for (size_t i = 0; i < N_PLUCKERS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    n_wrong += pluckers[i].n_wrong;
  }
  assert_int_equal(n_wrong, 0);
  assert_int_equal(weir__test_server_n_calls(server), 2 * N_PLUCKERS * PLUCKED_CALLS);
  weir_completion_queue_shutdown(queue);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

#define N_POLLERS 8
#define CALLS_IN_FLIGHT 200

struct flying {
  struct unary unary; /* first: its address is the tag */
  atomic_uint n_tags;
};

struct poller {
  weir_completion_queue *queue;
  unsigned n_tags;
};

static void *poll_until_shutdown(void *argument) {
  struct poller *poller = argument;
  for (;;) {
    grpc_event event = weir_completion_queue_next(poller->queue, forever(), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    atomic_fetch_add(&((struct flying *)event.tag)->n_tags, 1);
    poller->n_tags++;
  }
}

static void eight_pollers_share_calls_that_are_retried(void **state) {
  (void)state;
  static struct flying calls[CALLS_IN_FLIGHT];
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  pthread_t threads[N_POLLERS];
  struct poller pollers[N_POLLERS];
  for (size_t i = 0; i < N_POLLERS; i++) {
    pollers[i] = (struct poller){.queue = queue};
    assert_int_equal(pthread_create(&threads[i], NULL, poll_until_shutdown, &pollers[i]), 0);
  }
  for (size_t i = 0; i < CALLS_IN_FLIGHT; i++) {
    atomic_init(&calls[i].n_tags, 0);
    unary_start(&calls[i].unary, channel, queue, NULL);
  }
  assert_true(weir__test_server_wait_calls(server, 2 * CALLS_IN_FLIGHT)); /* no backoff is left */
  weir_completion_queue_shutdown(queue);
  unsigned n_tags = 0;
  for (size_t i = 0; i < N_POLLERS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    n_tags += pollers[i].n_tags;
  }
  assert_int_equal(n_tags, CALLS_IN_FLIGHT);
  for (size_t i = 0; i < CALLS_IN_FLIGHT; i++) {
    assert_int_equal(atomic_load(&calls[i].n_tags), 1);
    assert_int_equal(calls[i].unary.code, GRPC_STATUS_OK);
    unary_fini(&calls[i].unary);
  }
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- shutdown --- */

static void shutdown_ends_a_backoff_with_the_last_status_and_comes_last(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_LONG_BACKOFF);
  unary_start(&unary, way.channel, way.queue, &(struct unary_setup){.timeout_ns = SECONDS(60)});
  drain_into_backoff(way.queue, &way.random, 1);
  int64_t before_ns = now_ns();
  weir_completion_queue_shutdown(way.queue);
  unary_wait(&unary, way.queue);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_text(unary.details, "not now");
  assert_int_equal(unary.report.reason, WEIR_REASON_SHUTDOWN);
  assert_null(next_tag(way.queue));
  assert_null(next_tag(way.queue)); /* and again */
  assert_true(now_ns() - before_ns < GENEROUS);
  assert_int_equal(weir__test_server_n_calls(way.server), 1);
  unary_fini(&unary);
  way_close(&way);
}

static void shutdown_wakes_a_thread_that_waits_for_a_backoff(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way;
  static struct flying call;
  struct poller poller;
  pthread_t thread;
  way_open(&way, &script, POLICY_LONG_BACKOFF);
  atomic_init(&call.n_tags, 0);
  unary_start(&call.unary, way.channel, way.queue,
              &(struct unary_setup){.timeout_ns = SECONDS(60)});
  drain_into_backoff(way.queue, &way.random, 1);
  poller = (struct poller){.queue = way.queue};
  assert_int_equal(pthread_create(&thread, NULL, poll_until_shutdown, &poller), 0);
  int64_t before_ns = now_ns();
  weir_completion_queue_shutdown(way.queue);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(now_ns() - before_ns < GENEROUS);
  assert_int_equal(atomic_load(&call.n_tags), 1);
  unary_fini(&call.unary);
  way_close(&way);
}

static void an_attempt_goes_on_after_shutdown_and_is_the_last(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_UNAVAILABLE, .delay_ns = MS(50)});
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_QUICK_RETRY);
  unary_start(&unary, way.channel, way.queue, NULL);
  weir_completion_queue_shutdown(way.queue);
  unary_wait(&unary, way.queue);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.reason, WEIR_REASON_SHUTDOWN);
  assert_int_equal(unary.report.n_attempts, 1);
  assert_null(next_tag(way.queue));
  unary_fini(&unary);
  way_close(&way);
}

static void nothing_is_started_on_a_queue_that_is_done(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct way way;
  way_open(&way, &script, POLICY_PLAIN);
  weir_call *call =
      weir_channel_create_call(way.channel, NULL, 0, way.queue,
                               grpc_slice_from_static_string(METHOD), NULL, forever(), NULL);
  assert_non_null(call);
  weir_completion_queue_shutdown(way.queue);
  assert_null(next_tag(way.queue));
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_SEND_INITIAL_METADATA;
  assert_int_equal(weir_call_start_batch(call, &op, 1, &op, NULL),
                   GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
  assert_int_equal(weir_call_start_batch(call, NULL, 0, &op, NULL),
                   GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
  weir_call_unref(call);
  way_close(&way);
}

/* --- patience --- */

static void a_drainer_without_patience_is_told_so_while_a_backoff_goes_on(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, WORKS);
  struct way way;
  struct unary unary;
  way_open(&way, &script,
           "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("2", "0.1s", UNAVAILABLE)) "}");
  unary_start(&unary, way.channel, way.queue, NULL);
  drain_into_backoff(way.queue, &way.random,
                     1); /* by waits of a millisecond, each of them timed out */
  assert_int_equal(
      weir_completion_queue_next(way.queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL).type,
      GRPC_QUEUE_TIMEOUT);
  unary_wait(&unary, way.queue);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);
  way_close(&way);
}

/* --- lives that end in another order --- */

static void a_channel_may_go_before_its_calls(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, {.delay_ns = MS(30)});
  struct way way;
  struct unary in_backoff;
  struct unary in_attempt;
  way_open(&way, &script,
           "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("2", "0.1s", UNAVAILABLE)) "}");
  unary_start(&in_backoff, way.channel, way.queue, NULL);
  drain_into_backoff(way.queue, &way.random, 1);
  unary_start(&in_attempt, way.channel, way.queue, NULL);
  weir_channel_destroy(way.channel);
  way.channel = NULL;
  assert_non_null(next_tag(way.queue));
  assert_non_null(next_tag(way.queue));
  assert_int_equal(in_backoff.code, GRPC_STATUS_OK);
  assert_int_equal(in_attempt.code, GRPC_STATUS_OK);
  unary_fini(&in_backoff);
  unary_fini(&in_attempt);
  way_close(&way);
}

static void a_call_may_be_released_after_its_queue(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_OK, .trailing = {{"a", "b"}}});
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_RETRY);
  unary_start(&unary, way.channel, way.queue, NULL);
  weir_call *unused =
      weir_channel_create_call(way.channel, NULL, 0, way.queue,
                               grpc_slice_from_static_string(METHOD), NULL, forever(), NULL);
  unary_wait(&unary, way.queue);
  queue_end(way.queue);
  way.queue = NULL;
  weir_channel_destroy(way.channel);
  way.channel = NULL;
  assert_text(unary.trailing_metadata.metadata[0].value, "b"); /* it lives as long as its call */
  unary_fini(&unary);
  weir_call_unref(unused);
  way_close(&way);
}

static void a_call_given_up_before_its_first_batch_leaves_nothing(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct way way;
  way_open(&way, &script, POLICY_RETRY);
  weir_call *call =
      weir_channel_create_call(way.channel, NULL, 0, way.queue,
                               grpc_slice_from_static_string(METHOD), NULL, forever(), NULL);
  weir_call_ref(call);
  weir_call_unref(call);
  weir_call_unref(call);
  way_close(&way); /* the queue is empty */
}

/* Gives the only share back; the tag comes all the same. */
static void give_up(struct unary *unary) {
  weir_call_unref(unary->call);
  unary->call = NULL;
}

static void fini_given_up(struct unary *unary) {
  grpc_metadata_array_destroy(&unary->initial_metadata);
  grpc_metadata_array_destroy(&unary->trailing_metadata);
  grpc_byte_buffer_destroy(unary->message);
  grpc_slice_unref(unary->details);
  gpr_free((void *)(uintptr_t)unary->error_string);
  grpc_byte_buffer_destroy(unary->request);
}

static void a_call_given_up_in_an_attempt_ends_at_once(void **state) {
  (void)state;
  const struct script script = SCRIPT(SILENT);
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_RETRY);
  unary_start(&unary, way.channel, way.queue, NULL);
  assert_true(weir__test_server_wait_calls(way.server, 1));
  give_up(&unary);
  assert_ptr_equal(next_tag(way.queue), &unary);
  assert_int_equal(unary.code, GRPC_STATUS_CANCELLED);
  assert_true(weir__test_server_wait_cancelled(way.server, 1));
  fini_given_up(&unary);
  way_close(&way);
}

static void a_call_given_up_in_a_backoff_ends_at_once(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_LONG_BACKOFF);
  unary_start(&unary, way.channel, way.queue, &(struct unary_setup){.timeout_ns = SECONDS(60)});
  drain_into_backoff(way.queue, &way.random, 1);
  give_up(&unary);
  assert_ptr_equal(next_tag(way.queue), &unary);
  assert_int_equal(unary.code, GRPC_STATUS_CANCELLED);
  assert_int_equal(weir__test_server_n_calls(way.server), 1);
  fini_given_up(&unary);
  way_close(&way);
}

static void a_call_given_up_before_its_tag_is_taken_hands_it_out(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_NOT_FOUND});
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_RETRY);
  unary_start(&unary, way.channel, way.queue, NULL);
  assert_true(weir__test_server_wait_calls(way.server, 1));
  give_up(&unary);
  assert_ptr_equal(next_tag(way.queue), &unary);
  assert_true(unary.code == GRPC_STATUS_NOT_FOUND || unary.code == GRPC_STATUS_CANCELLED);
  fini_given_up(&unary);
  way_close(&way);
}

/* --- cancelling --- */

static void a_cancellation_ends_a_backoff_with_its_own_status(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way;
  struct unary plain;
  struct unary told;
  way_open(&way, &script, POLICY_LONG_BACKOFF);
  const struct unary_setup setup = {.timeout_ns = SECONDS(60)};
  unary_start(&plain, way.channel, way.queue, &setup);
  unary_start(&told, way.channel, way.queue, &setup);
  drain_into_backoff(way.queue, &way.random, 2);
  assert_int_equal(weir_call_cancel(plain.call, NULL), GRPC_CALL_OK);
  unary_wait(&plain, way.queue);
  assert_int_equal(plain.code, GRPC_STATUS_CANCELLED);
  assert_int_equal(plain.report.origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(
      weir_call_cancel_with_status(told.call, GRPC_STATUS_FAILED_PRECONDITION, "x", NULL),
      GRPC_CALL_OK);
  assert_int_equal(weir_call_cancel(told.call, NULL), GRPC_CALL_OK); /* the first wins */
  unary_wait(&told, way.queue);
  assert_int_equal(told.code, GRPC_STATUS_FAILED_PRECONDITION);
  assert_text(told.details, "x");
  assert_int_equal(weir__test_server_n_calls(way.server), 2);
  unary_fini(&plain);
  unary_fini(&told);
  way_close(&way);
}

static void a_cancellation_ends_an_attempt_with_its_own_status(void **state) {
  (void)state;
  const struct script script = SCRIPT(SILENT);
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_RETRY);
  unary_start(&unary, way.channel, way.queue, NULL);
  assert_true(weir__test_server_wait_calls(way.server, 1));
  assert_int_equal(weir_call_cancel_with_status(unary.call, GRPC_STATUS_UNAVAILABLE, "mine", NULL),
                   GRPC_CALL_OK);
  unary_wait(&unary, way.queue);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE); /* and is not retried, whatever the code */
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(unary.report.n_attempts, 1);
  unary_fini(&unary);
  way_close(&way);
}

static void a_call_cancelled_before_its_first_batch_is_never_sent(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct way way;
  way_open(&way, &script, POLICY_RETRY);
  weir_call *call =
      weir_channel_create_call(way.channel, NULL, 0, way.queue,
                               grpc_slice_from_static_string(METHOD), NULL, forever(), NULL);
  grpc_status_code code = GRPC_STATUS_OK;
  grpc_slice details = grpc_empty_slice();
  grpc_metadata_array trailing;
  grpc_op ops[2];
  memset(ops, 0, sizeof ops);
  grpc_metadata_array_init(&trailing);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[1].data.recv_status_on_client.trailing_metadata = &trailing;
  ops[1].data.recv_status_on_client.status = &code;
  ops[1].data.recv_status_on_client.status_details = &details;
  assert_int_equal(weir_call_cancel(call, NULL), GRPC_CALL_OK);
  assert_int_equal(weir_call_start_batch(call, &ops[0], 1, &ops[0], NULL), GRPC_CALL_OK);
  assert_int_equal(weir_call_start_batch(call, &ops[1], 1, &ops[1], NULL), GRPC_CALL_OK);
  for (int i = 0; i < 2; i++) {
    grpc_event event = weir_completion_queue_next(way.queue, in_ms(10000), NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    assert_int_equal(event.success, event.tag == &ops[1]); /* as with the core */
  }
  assert_int_equal(code, GRPC_STATUS_CANCELLED);
  assert_int_equal(weir__test_server_n_calls(way.server), 0);
  grpc_metadata_array_destroy(&trailing);
  grpc_slice_unref(details);
  weir_call_unref(call);
  way_close(&way);
}

#define N_ROUNDS 10
#define CALLS_PER_ROUND 50

struct canceller {
  struct unary *unaries;
  uint64_t seed;
};

static uint64_t next_random(uint64_t *seed) {
  *seed ^= *seed << 13; /* xorshift (Marsaglia) */
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static void *cancel_at_random_moments(void *argument) {
  struct canceller *canceller = argument;
  for (size_t i = 0; i < CALLS_PER_ROUND; i++) {
    for (uint64_t wait = next_random(&canceller->seed) % 64; wait > 0; wait--) {
      (void)sched_yield();
    }
    size_t which = (size_t)(next_random(&canceller->seed) % CALLS_PER_ROUND);
    (void)weir_call_cancel(canceller->unaries[which].call, NULL);
  }
  return NULL;
}

static void assert_cancelled_or_ok(struct unary *unary) {
  if (unary->code != GRPC_STATUS_OK && unary->code != GRPC_STATUS_CANCELLED) {
    unary_read_report(unary);
    fail_msg("code %d after %u attempts, origin %s, reason %s", (int)unary->code,
             (unsigned)unary->report.n_attempts, weir_origin_name(unary->report.origin),
             weir_reason_name(unary->report.reason));
  }
}

static void cancel_round(weir_channel *channel, weir_completion_queue *queue, uint64_t seed) {
  struct unary unaries[CALLS_PER_ROUND];
  unsigned n_tags[CALLS_PER_ROUND] = {0};
  struct canceller canceller = {.unaries = unaries, .seed = seed};
  pthread_t thread;
  for (size_t i = 0; i < CALLS_PER_ROUND; i++) {
    unary_start(&unaries[i], channel, queue, NULL);
  }
  assert_int_equal(pthread_create(&thread, NULL, cancel_at_random_moments, &canceller), 0);
  for (size_t i = 0; i < CALLS_PER_ROUND; i++) {
    struct unary *unary = next_tag(queue);
    n_tags[unary - unaries]++;
  }
  assert_int_equal(pthread_join(thread, NULL), 0);
  for (size_t i = 0; i < CALLS_PER_ROUND; i++) {
    assert_int_equal(n_tags[i], 1);
    assert_cancelled_or_ok(&unaries[i]);
    /* As with the core, a message may have come before the call was cancelled. */
    assert_true(unaries[i].message != NULL || unaries[i].code != GRPC_STATUS_OK);
    unary_fini(&unaries[i]);
  }
}

static void calls_cancelled_at_any_moment_come_back_once(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  for (uint64_t round = 0; round < N_ROUNDS; round++) {
    cancel_round(channel, queue, 0x9e3779b97f4a7c15u * (round + 1));
  }
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- everything at once --- */

#define N_STORMS 12
#define CALLS_IN_STORM 40
#define N_STORM_POLLERS 3

struct storm {
  struct flying *calls;
  uint64_t seed;
};

static void wait_a_little(uint64_t *seed) {
  for (uint64_t wait = next_random(seed) % 200; wait > 0; wait--) {
    (void)sched_yield();
  }
}

/* Cancels some calls, and gives others up. */
static void *trouble(void *argument) {
  struct storm *storm = argument;
  for (size_t i = 0; i < CALLS_IN_STORM / 2; i++) {
    struct unary *unary = &storm->calls[next_random(&storm->seed) % CALLS_IN_STORM].unary;
    wait_a_little(&storm->seed);
    if (unary->call == NULL) {
      continue;
    }
    if (next_random(&storm->seed) % 2 == 0) {
      (void)weir_call_cancel(unary->call, NULL);
    } else {
      give_up(unary);
    }
  }
  return NULL;
}

static void storm_run(weir_channel *channel, uint64_t seed) {
  static struct flying calls[CALLS_IN_STORM];
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  pthread_t threads[N_STORM_POLLERS + 1];
  struct poller pollers[N_STORM_POLLERS];
  struct storm storm = {.calls = calls, .seed = seed};
  for (size_t i = 0; i < N_STORM_POLLERS; i++) {
    pollers[i] = (struct poller){.queue = queue};
    assert_int_equal(pthread_create(&threads[i], NULL, poll_until_shutdown, &pollers[i]), 0);
  }
  for (size_t i = 0; i < CALLS_IN_STORM; i++) {
    atomic_init(&calls[i].n_tags, 0);
    unary_start(&calls[i].unary, channel, queue, NULL);
  }
  assert_int_equal(pthread_create(&threads[N_STORM_POLLERS], NULL, trouble, &storm), 0);
  wait_a_little(&seed);
  weir_completion_queue_shutdown(queue);
  for (size_t i = 0; i <= N_STORM_POLLERS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  for (size_t i = 0; i < CALLS_IN_STORM; i++) {
    assert_int_equal(atomic_load(&calls[i].n_tags), 1);
    assert_true((int)calls[i].unary.code >= 0);
    if (calls[i].unary.call == NULL) {
      fini_given_up(&calls[i].unary);
    } else {
      unary_fini(&calls[i].unary);
    }
  }
  weir_completion_queue_destroy(queue);
}

static void each_tag_comes_once_whatever_happens_to_calls_and_queue(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  for (uint64_t i = 0; i < N_STORMS; i++) {
    storm_run(channel, 0x2545f4914f6cdd1du * (i + 1));
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- plucking, by those who cannot wait --- */

struct nervous {
  weir_channel *channel;
  weir_completion_queue *queue;
  uint64_t seed;
  unsigned n_wrong;
};

/* Plucks with little patience, and now and then cancels in between. */
static void *pluck_nervously(void *argument) {
  struct nervous *nervous = argument;
  for (unsigned i = 0; i < 30; i++) {
    struct unary unary;
    grpc_event event;
    bool cancels = next_random(&nervous->seed) % 4 == 0;
    unary_start(&unary, nervous->channel, nervous->queue, NULL);
    do {
      event = weir_completion_queue_pluck(nervous->queue, &unary,
                                          in_ms((int64_t)(next_random(&nervous->seed) % 3)), NULL);
      if (cancels && event.type == GRPC_QUEUE_TIMEOUT) {
        (void)weir_call_cancel(unary.call, NULL);
      }
    } while (event.type == GRPC_QUEUE_TIMEOUT);
    nervous->n_wrong +=
        event.tag != &unary || event.success != 1 || (!cancels && unary.code != GRPC_STATUS_OK);
    unary_fini(&unary);
  }
  return NULL;
}

static void pluckers_without_patience_miss_nothing(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  pthread_t threads[N_PLUCKERS];
  struct nervous nervous[N_PLUCKERS];
  for (size_t i = 0; i < N_PLUCKERS; i++) {
    nervous[i] =
        (struct nervous){.channel = channel, .queue = queue, .seed = 0x9e3779b97f4a7c15u * (i + 1)};
    assert_int_equal(pthread_create(&threads[i], NULL, pluck_nervously, &nervous[i]), 0);
  }
  for (size_t i = 0; i < N_PLUCKERS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(nervous[i].n_wrong, 0);
  }
  weir_completion_queue_shutdown(queue);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void a_plucked_call_can_be_cancelled_in_its_backoff(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way;
  struct unary unary;
  way_open(&way, &script, POLICY_LONG_BACKOFF);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  unary_start(&unary, way.channel, queue, &(struct unary_setup){.timeout_ns = SECONDS(60)});
  while (counted_random_n_asked(&way.random) == 0) {
    assert_int_equal(weir_completion_queue_pluck(queue, &unary, in_ms(1), NULL).type,
                     GRPC_QUEUE_TIMEOUT);
  }
  assert_int_equal(weir_call_cancel(unary.call, NULL), GRPC_CALL_OK);
  grpc_event event = weir_completion_queue_pluck(queue, &unary, in_ms(10000), NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  assert_int_equal(unary.code, GRPC_STATUS_CANCELLED);
  unary_fini(&unary);
  weir_completion_queue_shutdown(queue);
  weir_completion_queue_destroy(queue);
  way_close(&way);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(foreign_tags_pass_untouched),
      cmocka_unit_test(eight_threads_pluck_their_own_calls),
      cmocka_unit_test(eight_pollers_share_calls_that_are_retried),
      cmocka_unit_test(shutdown_ends_a_backoff_with_the_last_status_and_comes_last),
      cmocka_unit_test(shutdown_wakes_a_thread_that_waits_for_a_backoff),
      cmocka_unit_test(an_attempt_goes_on_after_shutdown_and_is_the_last),
      cmocka_unit_test(nothing_is_started_on_a_queue_that_is_done),
      cmocka_unit_test(a_drainer_without_patience_is_told_so_while_a_backoff_goes_on),
      cmocka_unit_test(a_channel_may_go_before_its_calls),
      cmocka_unit_test(a_call_may_be_released_after_its_queue),
      cmocka_unit_test(a_call_given_up_before_its_first_batch_leaves_nothing),
      cmocka_unit_test(a_call_given_up_in_an_attempt_ends_at_once),
      cmocka_unit_test(a_call_given_up_in_a_backoff_ends_at_once),
      cmocka_unit_test(a_call_given_up_before_its_tag_is_taken_hands_it_out),
      cmocka_unit_test(a_cancellation_ends_a_backoff_with_its_own_status),
      cmocka_unit_test(a_cancellation_ends_an_attempt_with_its_own_status),
      cmocka_unit_test(a_call_cancelled_before_its_first_batch_is_never_sent),
      cmocka_unit_test(calls_cancelled_at_any_moment_come_back_once),
      cmocka_unit_test(each_tag_comes_once_whatever_happens_to_calls_and_queue),
      cmocka_unit_test(pluckers_without_patience_miss_nothing),
      cmocka_unit_test(a_plucked_call_can_be_cancelled_in_its_backoff),
  };
  return cmocka_run_group_tests_name("queue", tests, start_core, stop_core);
}
