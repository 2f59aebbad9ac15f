/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
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

#define POLICY_QUICK_RETRY \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("3", "0.002s", UNAVAILABLE)) "}"

#define N_THREADS 8

static gpr_timespec forever(void) {
  return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

/* --- functors --- */

struct note {
  grpc_completion_queue_functor functor; /* its address is the tag */
  void (*then)(struct note *note);       /* NULL = nothing more */
  void *context;                         /* of `then` */
  atomic_uint n_runs;
  atomic_int success; /* of the last run; a foreign one's order with the next is the core's */
  sem_t ran;
};

static void note_run(grpc_completion_queue_functor *functor, int success) {
  struct note *note = (struct note *)(void *)functor;
  atomic_store(&note->success, success);
  if (note->then != NULL) {
    note->then(note);
  }
  atomic_fetch_add(&note->n_runs, 1);
  sem_post(&note->ran);
}

static void note_init(struct note *note, int inlineable) {
  memset(note, 0, sizeof *note);
  note->functor.functor_run = note_run;
  note->functor.inlineable = inlineable;
  sem_init(&note->ran, 0, 0);
}

static void note_wait(struct note *note) {
  while (sem_wait(&note->ran) != 0) {
    /* a signal */
  }
}

/* --- calls with a tag of the test's --- */

struct call {
  struct note note;
  weir_call *call;
  grpc_byte_buffer *request;
  grpc_byte_buffer *reply;
  grpc_metadata_array initial;
  grpc_metadata_array trailing;
  grpc_slice details;
  grpc_status_code code;
};

/* Its tag is its address, which is that of its functor. */
static void call_start_under(struct call *call, weir_channel *channel, weir_completion_queue *queue,
                             grpc_call *parent) {
  grpc_op ops[6];
  memset(ops, 0, sizeof ops);
  call->request = message_of("hello");
  call->reply = NULL;
  grpc_metadata_array_init(&call->initial);
  grpc_metadata_array_init(&call->trailing);
  call->details = grpc_empty_slice();
  /* Longer than any backoff here. */
  gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(60, GPR_TIMESPAN));
  call->call =
      weir_channel_create_call(channel, parent, GRPC_PROPAGATE_DEFAULTS, queue,
                               grpc_slice_from_static_string(METHOD), NULL, deadline, NULL);
  assert_non_null(call->call);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = call->request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &call->reply;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
  ops[5].data.recv_status_on_client.status = &call->code;
  ops[5].data.recv_status_on_client.status_details = &call->details;
  assert_int_equal(weir_call_start_batch(call->call, ops, COUNT_OF(ops), call, NULL), GRPC_CALL_OK);
}

static void call_start(struct call *call, weir_channel *channel, weir_completion_queue *queue) {
  call_start_under(call, channel, queue, NULL);
}

static void call_fini(struct call *call) {
  grpc_byte_buffer_destroy(call->request);
  grpc_byte_buffer_destroy(call->reply);
  grpc_metadata_array_destroy(&call->initial);
  grpc_metadata_array_destroy(&call->trailing);
  grpc_slice_unref(call->details);
  weir_call_unref(call->call);
}

/* --- servers --- */

/* Every first attempt fails, every later one works. */
static void fail_first_attempts(void *context, const struct weir__test_served *served,
                                struct weir__test_reply *reply) {
  (void)context;
  static const struct answer fails = FAILS;
  static const struct answer works = WORKS;
  bool is_first = weir__metadata_find(served->metadata, "grpc-previous-rpc-attempts") == NULL;
  answer_with(is_first ? &fails : &works, served, reply);
}

/* A server of the core's own, on a queue of weir's that its clients' calls are on too. It serves
 * one call at a time; every other one fails. */
struct shared_server {
  pthread_mutex_t lock; /* the core orders the steps, which TSan does not see */
  grpc_server *core;
  weir_completion_queue *queue;
  int port;
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  int cancelled;
  unsigned n_served;
  struct note arrived;
  struct note answered;
  struct note down;
};

static void shared_server_await(struct shared_server *server) {
  grpc_completion_queue *core = weir_completion_queue_core(server->queue);
  grpc_call_details_init(&server->details);
  grpc_metadata_array_init(&server->metadata);
  assert_int_equal(grpc_server_request_call(server->core, &server->call, &server->details,
                                            &server->metadata, core, core, &server->arrived),
                   GRPC_CALL_OK);
}

static void shared_server_answer(struct shared_server *server) {
  static grpc_slice text;
  text = grpc_slice_from_static_string("said on the same queue");
  grpc_op ops[3];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[1].data.send_status_from_server.status =
      server->n_served++ % 2 == 0 ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_NOT_FOUND;
  ops[1].data.send_status_from_server.status_details = &text;
  ops[2].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  ops[2].data.recv_close_on_server.cancelled = &server->cancelled;
  assert_int_equal(grpc_call_start_batch(server->call, ops, COUNT_OF(ops), &server->answered, NULL),
                   GRPC_CALL_OK);
}

static void shared_server_forget(struct shared_server *server) {
  grpc_call_details_destroy(&server->details);
  grpc_metadata_array_destroy(&server->metadata);
}

static void shared_server_next(struct shared_server *server) {
  grpc_call_unref(server->call);
  shared_server_forget(server);
  shared_server_await(server);
}

static void shared_server_open(struct shared_server *server, weir_completion_queue *queue) {
  memset(server, 0, sizeof *server);
  pthread_mutex_init(&server->lock, NULL);
  server->queue = queue;
  server->core = grpc_server_create(NULL, NULL);
  grpc_server_register_completion_queue(server->core, weir_completion_queue_core(queue), NULL);
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  server->port = grpc_server_add_http2_port(server->core, "127.0.0.1:0", creds);
  grpc_server_credentials_release(creds);
  assert_true(server->port > 0);
  grpc_server_start(server->core);
}

/* --- plucking --- */

static grpc_event pluck(weir_completion_queue *queue, void *tag) {
  return weir_completion_queue_pluck(queue, tag, forever(), NULL);
}

/* Serves until it is down. */
static void *pluck_as_server(void *argument) {
  struct shared_server *server = argument;
  shared_server_await(server);
  while (pluck(server->queue, &server->arrived).success != 0) {
    shared_server_answer(server);
    assert_int_equal(pluck(server->queue, &server->answered).success, 1);
    shared_server_next(server);
  }
  shared_server_forget(server);
  return NULL;
}

#define CALLS_A_THREAD 25

struct client {
  pthread_t thread;
  weir_channel *channel;
  weir_completion_queue *queue;
  grpc_status_code expected;
  unsigned n_wrong;
};

static void *pluck_as_client(void *argument) {
  struct client *client = argument;
  for (unsigned i = 0; i < CALLS_A_THREAD; i++) {
    struct call call;
    call_start(&call, client->channel, client->queue);
    grpc_event event = pluck(client->queue, &call);
    client->n_wrong += event.type != GRPC_OP_COMPLETE || event.tag != &call || event.success != 1 ||
                       call.code != client->expected;
    call_fini(&call);
  }
  return NULL;
}

static void run_clients(weir_channel *channel, weir_completion_queue *queue,
                        grpc_status_code expected) {
  struct client clients[N_THREADS];
  for (size_t i = 0; i < N_THREADS; i++) {
    clients[i] = (struct client){.channel = channel, .queue = queue, .expected = expected};
    assert_int_equal(pthread_create(&clients[i].thread, NULL, pluck_as_client, &clients[i]), 0);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
    assert_int_equal(clients[i].n_wrong, 0);
  }
}

static void eight_threads_pluck_calls_that_are_retried(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  run_clients(channel, queue, GRPC_STATUS_OK);
  assert_int_equal(weir__test_server_n_calls(server), 2 * N_THREADS * CALLS_A_THREAD);
  weir_completion_queue_shutdown(queue);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void a_server_and_its_clients_share_a_pluck_queue(void **state) {
  (void)state;
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  static struct shared_server server;
  pthread_t thread;
  shared_server_open(&server, queue);
  /* With one call served at a time every other one fails, but which is whose? None is retried. */
  weir_channel *channel = channel_to(server.port, POLICY_PLAIN);
  assert_int_equal(pthread_create(&thread, NULL, pluck_as_server, &server), 0);
  for (unsigned i = 0; i < CALLS_A_THREAD; i++) {
    struct call calls[2];
    call_start(&calls[0], channel, queue);
    call_start(&calls[1], channel, queue);
    assert_int_equal(pluck(queue, &calls[1]).success, 1);
    assert_int_equal(pluck(queue, &calls[0]).success, 1);
    assert_int_equal(calls[0].code + calls[1].code,
                     GRPC_STATUS_UNAVAILABLE + GRPC_STATUS_NOT_FOUND);
    call_fini(&calls[0]);
    call_fini(&calls[1]);
  }
  weir_channel_destroy(channel);
  grpc_server_shutdown_and_notify(server.core, weir_completion_queue_core(queue), &server.down);
  assert_int_equal(pluck(queue, &server.down).success, 1);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(server.n_served, 2 * CALLS_A_THREAD);
  grpc_server_destroy(server.core);
  weir_completion_queue_shutdown(queue);
  assert_int_equal(pluck(queue, NULL).type, GRPC_QUEUE_SHUTDOWN);
  weir_completion_queue_destroy(queue);
}

/* --- a parent's cancellation --- */

/* A service in the middle, which calls the last one on a queue of its own. */
struct middle {
  weir_channel *channel;
  grpc_cq_completion_type type;
  atomic_uint code;
};

static void relay(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  struct middle *middle = context;
  bool is_pluck = middle->type == GRPC_CQ_PLUCK;
  struct call call;
  note_init(&call.note, 0);
  weir_completion_queue *queue = is_pluck ? weir_completion_queue_create_for_pluck(NULL)
                                          : weir_completion_queue_create_for_callback(NULL, NULL);
  call_start_under(&call, middle->channel, queue, served->call);
  if (is_pluck) {
    assert_int_equal(pluck(queue, &call).type, GRPC_OP_COMPLETE);
  } else {
    note_wait(&call.note);
  }
  atomic_store(&middle->code, (unsigned)call.code);
  call_fini(&call);
  weir_completion_queue_shutdown(queue);
  weir_completion_queue_destroy(queue);
  weir__test_reply_status(reply, GRPC_STATUS_ABORTED, "given up");
}

static void a_parents_cancellation_reaches_a_backoff_on_queues_of_each_kind(void **state) {
  (void)state;
  static const grpc_cq_completion_type types[] = {GRPC_CQ_PLUCK, GRPC_CQ_CALLBACK};
  const struct script script = SCRIPT(FAILS);
  for (size_t i = 0; i < COUNT_OF(types); i++) {
    struct counted_random random;
    counted_random_init(&random);
    weir__test_server *last =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
    struct middle middle = {.type = types[i]};
    middle.channel = channel_new(&(struct channel_setup){.port = weir__test_server_port(last),
                                                         .policy = POLICY_LONG_BACKOFF,
                                                         .random = &random.base});
    weir__test_server *first = weir__test_server_new(relay, &middle, 0);
    weir_channel *channel = channel_to(weir__test_server_port(first), POLICY_PLAIN);
    weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
    struct call root;
    call_start(&root, channel, queue);
    assert_true(counted_random_wait(&random, 1)); /* the backoff has begun */
    assert_int_equal(weir_call_cancel(root.call, NULL), GRPC_CALL_OK);
    assert_ptr_equal(next_tag(queue), &root);
    call_fini(&root);
    queue_end(queue);
    weir_channel_destroy(channel);
    weir__test_server_release(first); /* its handler has ended, long before the backoff would */
    assert_int_equal(atomic_load(&middle.code), GRPC_STATUS_CANCELLED);
    assert_int_equal(weir__test_server_n_calls(last), 1);
    weir_channel_destroy(middle.channel);
    weir__test_server_release(last);
    counted_random_fini(&random);
  }
}

/* --- callbacks --- */

static void on_arrived(struct note *note) {
  struct shared_server *server = note->context;
  pthread_mutex_lock(&server->lock);
  if (atomic_load(&note->success) != 0) {
    shared_server_answer(server);
  }
  pthread_mutex_unlock(&server->lock);
}

static void on_answered(struct note *note) {
  struct shared_server *server = note->context;
  pthread_mutex_lock(&server->lock);
  shared_server_next(server);
  pthread_mutex_unlock(&server->lock);
}

static void a_server_and_its_clients_share_a_queue_for_callbacks(void **state) {
  (void)state;
  struct note end;
  note_init(&end, 0);
  weir_completion_queue *queue = weir_completion_queue_create_for_callback(&end.functor, NULL);
  static struct shared_server server;
  shared_server_open(&server, queue);
  note_init(&server.arrived, 0);
  note_init(&server.answered, 0);
  note_init(&server.down, 1);
  server.arrived.then = on_arrived;
  server.arrived.context = &server;
  server.answered.then = on_answered;
  server.answered.context = &server;
  shared_server_await(&server);
  weir_channel *channel = channel_to(server.port, POLICY_QUICK_RETRY);
  for (unsigned i = 0; i < CALLS_A_THREAD; i++) {
    struct call call;
    note_init(&call.note, i % 2 == 0);
    call_start(&call, channel, queue);
    note_wait(&call.note);
    assert_int_equal(call.code, GRPC_STATUS_NOT_FOUND); /* the second attempt's */
    call_fini(&call);
  }
  weir_channel_destroy(channel);
  for (unsigned i = 0; i < 2 * CALLS_A_THREAD; i++) {
    note_wait(&server.answered);
  }
  grpc_server_shutdown_and_notify(server.core, weir_completion_queue_core(queue),
                                  &server.down.functor);
  note_wait(&server.down);
  weir_completion_queue_shutdown(queue);
  note_wait(&end);
  assert_int_equal(atomic_load(&server.arrived.n_runs), 2 * CALLS_A_THREAD + 1);
  assert_int_equal(atomic_load(&server.arrived.success), 0); /* the last: nobody called */
  shared_server_forget(&server);
  weir_completion_queue_destroy(queue);
  grpc_server_destroy(server.core);
}

static void block_until(struct note *note) {
  note_wait(note->context);
}

/* Whatever the core does with the threads that it has. */
static void calls_go_on_while_functors_block(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_callback(NULL, NULL);
  struct note release;
  struct call blocking[3];
  note_init(&release, 1);
  for (size_t i = 0; i < 3; i++) {
    note_init(&blocking[i].note, 0);
    blocking[i].note.then = block_until;
    blocking[i].note.context = &release;
    call_start(&blocking[i], channel, queue);
  }
  for (unsigned i = 0; i < 20; i++) {
    struct call call;
    note_init(&call.note, i % 2 == 0);
    call_start(&call, channel, queue);
    note_wait(&call.note);
    assert_int_equal(call.code, GRPC_STATUS_OK);
    call_fini(&call);
  }
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(atomic_load(&blocking[i].note.n_runs), 0);
  }
  for (size_t i = 0; i < 3; i++) {
    sem_post(&release.ran);
  }
  for (size_t i = 0; i < 3; i++) {
    note_wait(&blocking[i].note);
    assert_int_equal(blocking[i].code, GRPC_STATUS_OK);
    call_fini(&blocking[i]);
  }
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void *poll_until_shutdown(void *argument) {
  assert_int_equal(weir_completion_queue_poll(argument, forever(), NULL), GRPC_QUEUE_SHUTDOWN);
  return NULL;
}

static void eight_threads_of_the_applications_poll(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.n_callback_threads = 0;
  struct note end;
  note_init(&end, 0);
  weir_completion_queue *queue = weir_completion_queue_create_for_callback(&end.functor, &options);
  pthread_t threads[N_THREADS];
  static struct call calls[200];
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, poll_until_shutdown, queue), 0);
  }
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    note_init(&calls[i].note, i % 2 == 0);
    call_start(&calls[i], channel, queue);
  }
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    note_wait(&calls[i].note);
    assert_int_equal(calls[i].code, GRPC_STATUS_OK);
  }
  weir_completion_queue_shutdown(queue);
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  assert_int_equal(atomic_load(&end.n_runs), 1);
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    assert_int_equal(atomic_load(&calls[i].note.n_runs), 1);
    call_fini(&calls[i]);
  }
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- shutdown from a functor --- */

struct flight {
  weir_completion_queue *queue;
  struct call calls[20];
};

static void shut_down_and_cancel(struct note *note) {
  struct flight *flight = note->context;
  weir_completion_queue_shutdown(flight->queue);
  for (size_t i = 0; i < COUNT_OF(flight->calls); i++) {
    (void)weir_call_cancel(flight->calls[i].call, NULL);
  }
}

static void destroy_queue(struct note *note) {
  struct flight *flight = note->context;
  weir_completion_queue_destroy(flight->queue);
}

static void a_functor_ends_a_queue_with_calls_in_flight(void **state) {
  (void)state;
  const struct script silent = SCRIPT(SILENT);
  const struct script fails = SCRIPT(FAILS);
  weir__test_server *servers[2] = {
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&silent, 0),
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&fails, 0)};
  weir_channel *channels[2] = {channel_to(weir__test_server_port(servers[0]), POLICY_LONG_BACKOFF),
                               channel_to(weir__test_server_port(servers[1]), POLICY_LONG_BACKOFF)};
  static struct flight flight;
  struct note end;
  note_init(&end, 0);
  end.then = destroy_queue;
  end.context = &flight;
  flight.queue = weir_completion_queue_create_for_callback(&end.functor, NULL);
  for (size_t i = 0; i < COUNT_OF(flight.calls); i++) { /* in an attempt, or in a backoff */
    note_init(&flight.calls[i].note, 0);
    call_start(&flight.calls[i], channels[i % 2], flight.queue);
  }
  assert_true(weir__test_server_wait_calls(servers[1], COUNT_OF(flight.calls) / 2));
  struct note trigger;
  note_init(&trigger, 0);
  trigger.then = shut_down_and_cancel;
  trigger.context = &flight;
  weir_call *empty =
      weir_channel_create_call(channels[0], NULL, 0, flight.queue,
                               grpc_slice_from_static_string(METHOD), NULL, forever(), NULL);
  assert_int_equal(weir_call_start_batch(empty, NULL, 0, &trigger, NULL), GRPC_CALL_OK);
  note_wait(&end);
  weir_call_unref(empty); /* after its queue */
  for (size_t i = 0; i < COUNT_OF(flight.calls); i++) {
    assert_int_equal(atomic_load(&flight.calls[i].note.n_runs), 1);
    assert_true(flight.calls[i].code == GRPC_STATUS_CANCELLED ||
                flight.calls[i].code == GRPC_STATUS_UNAVAILABLE);
    call_fini(&flight.calls[i]);
  }
  for (size_t i = 0; i < 2; i++) {
    weir_channel_destroy(channels[i]);
    weir__test_server_release(servers[i]);
  }
}

/* --- lives --- */

static void wait_for_call(weir_completion_queue *queue, grpc_cq_completion_type type,
                          struct call *call) {
  switch (type) {
  case GRPC_CQ_NEXT:
    assert_ptr_equal(next_tag(queue), call);
    weir_completion_queue_shutdown(queue);
    assert_null(next_tag(queue));
    break;
  case GRPC_CQ_PLUCK:
    assert_int_equal(pluck(queue, call).type, GRPC_OP_COMPLETE);
    weir_completion_queue_shutdown(queue);
    break;
  case GRPC_CQ_CALLBACK:
    note_wait(&call->note);
    break;
  }
}

static void queues_of_each_kind_come_and_go(void **state) {
  (void)state;
  static const grpc_cq_completion_type types[] = {GRPC_CQ_NEXT, GRPC_CQ_PLUCK, GRPC_CQ_CALLBACK};
  weir__test_server *server = weir__test_server_new(fail_first_attempts, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_QUICK_RETRY);
  for (size_t i = 0; i < 150; i++) {
    const grpc_completion_queue_attributes attributes = {
        .version = 2,
        .cq_completion_type = types[i % COUNT_OF(types)],
        .cq_polling_type = i % 2 == 0 ? GRPC_CQ_DEFAULT_POLLING : GRPC_CQ_NON_LISTENING};
    weir_completion_queue *queue = weir_completion_queue_create(&attributes, NULL);
    struct call call;
    note_init(&call.note, 0);
    call_start(&call, channel, queue);
    wait_for_call(queue, attributes.cq_completion_type, &call);
    assert_int_equal(call.code, GRPC_STATUS_OK);
    if (i % 4 == 0) {
      weir_completion_queue_destroy(queue);
      call_fini(&call);
    } else {
      call_fini(&call);
      weir_completion_queue_destroy(queue);
    }
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- caches of a thread's own --- */

static void what_a_thread_cancels_is_in_its_cache(void **state) {
  (void)state;
  const struct script script = SCRIPT(SILENT);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  for (unsigned i = 1; i <= 10; i++) {
    struct call call;
    void *tag = NULL;
    int ok = 0;
    call_start(&call, channel, queue);
    /* Drained by nobody, the call would not be sent. */
    while (weir__test_server_n_calls(server) < i) {
      gpr_timespec soon =
          gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1, GPR_TIMESPAN));
      assert_int_equal(weir_completion_queue_next(queue, soon, NULL).type, GRPC_QUEUE_TIMEOUT);
    }
    weir_completion_queue_thread_local_cache_init(queue);
    assert_int_equal(weir_call_cancel(call.call, NULL), GRPC_CALL_OK);
    if (weir_completion_queue_thread_local_cache_flush(queue, &tag, &ok) == 0) {
      tag = next_tag(queue); /* the core may have left it to another thread */
      ok = 1;
    }
    assert_ptr_equal(tag, &call);
    assert_int_equal(ok, 1);
    assert_int_equal(call.code, GRPC_STATUS_CANCELLED);
    call_fini(&call);
  }
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eight_threads_pluck_calls_that_are_retried),
      cmocka_unit_test(a_server_and_its_clients_share_a_pluck_queue),
      cmocka_unit_test(a_parents_cancellation_reaches_a_backoff_on_queues_of_each_kind),
      cmocka_unit_test(a_server_and_its_clients_share_a_queue_for_callbacks),
      cmocka_unit_test(calls_go_on_while_functors_block),
      cmocka_unit_test(eight_threads_of_the_applications_poll),
      cmocka_unit_test(a_functor_ends_a_queue_with_calls_in_flight),
      cmocka_unit_test(queues_of_each_kind_come_and_go),
      cmocka_unit_test(what_a_thread_cancels_is_in_its_cache),
  };
  return cmocka_run_group_tests_name("queue kinds", tests, start_core, stop_core);
}
