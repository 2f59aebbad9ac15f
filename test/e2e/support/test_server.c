/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* conditions over the monotonic clock */

#include "test/e2e/support/test_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "test/e2e/support/metadata.h"
#include "test/e2e/support/server_ops.h"

#define ADDRESS_SIZE 32
#define DEFAULT_THREADS 4
#define WAIT_LIMIT_S 10
#define NS_PER_SECOND INT64_C(1000000000)

/* What an event of the queue means for a call. */
enum step {
  STEP_ARRIVED,
  STEP_CLOSED,
  STEP_RECEIVED,
  STEP_HEADERS_SENT,
  STEP_DELAYED,
  STEP_REPLIED
};
#define N_STEPS 6

struct serving;

struct step_tag {
  struct serving *serving;
  enum step step;
};

/* One call under way, from the wish to have one until its last event. */
struct serving {
  weir__test_server *server;
  struct serving *previous; /* this and `next`: guarded by the server */
  struct serving *next;
  atomic_uint n_steps; /* events to come, and the one being handled */
  struct step_tag tags[N_STEPS];
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  grpc_byte_buffer *message;
  int was_cancelled;
  uint64_t number;
  struct weir__test_reply reply;
  struct {
    grpc_call *call; /* guarded by the server */
    bool over;       /* guarded by the server: the call has ended, do not wait for anything */
    grpc_status_code code;
    grpc_slice details;
    grpc_metadata_array metadata;
  } timer;
};

struct weir__test_server {
  weir__test_handler_fn *handler;
  void *context;
  size_t n_threads;
  const char *address; /* NULL = the loopback's `port` */
  int port;
  atomic_uint n_handovers; /* of calls to the queue */
  grpc_server *core;       /* NULL: stopped */
  grpc_completion_queue *queue;
  grpc_channel *timers; /* never connects: its calls only have deadlines */
  pthread_t threads[WEIR__TEST_THREADS_MAX];
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopping;
    bool down; /* the core has said that the port is closed and all is served */
    struct serving *servings;
    uint64_t n_calls;
    uint64_t n_cancelled;
    size_t n_records;
    struct weir__test_record records[WEIR__TEST_RECORDS_MAX];
  } guarded;
};

/* A server that can't go on is a broken test: it says why and ends the process. */
static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "test server: %s\n", what);
    abort();
  }
}

static void server_lock(weir__test_server *server) {
  check(pthread_mutex_lock(&server->guarded.mutex) == 0, "lock");
}

static void server_unlock(weir__test_server *server) {
  check(pthread_mutex_unlock(&server->guarded.mutex) == 0, "unlock");
}

/* --- one call --- */

static void reply_fini(struct weir__test_reply *reply) {
  grpc_slice_unref(reply->text);
  grpc_byte_buffer_destroy(reply->message);
  for (size_t i = 0; i < reply->n_initial_metadata; i++) {
    grpc_slice_unref(reply->initial_metadata[i].key);
    grpc_slice_unref(reply->initial_metadata[i].value);
  }
  for (size_t i = 0; i < reply->n_trailing_metadata; i++) {
    grpc_slice_unref(reply->trailing_metadata[i].key);
    grpc_slice_unref(reply->trailing_metadata[i].value);
  }
}

static struct serving *serving_new(weir__test_server *server) {
  struct serving *serving = calloc(1, sizeof *serving);
  check(serving != NULL, "no memory");
  serving->server = server;
  for (int i = 0; i < N_STEPS; i++) {
    serving->tags[i].serving = serving;
    serving->tags[i].step = (enum step)i;
  }
  grpc_call_details_init(&serving->details);
  grpc_metadata_array_init(&serving->metadata);
  grpc_metadata_array_init(&serving->timer.metadata);
  serving->timer.details = grpc_empty_slice();
  serving->reply.text = grpc_empty_slice();

  server_lock(server);
  serving->next = server->guarded.servings;
  if (serving->next != NULL) {
    serving->next->previous = serving;
  }
  server->guarded.servings = serving;
  server_unlock(server);
  return serving;
}

/* Before anything of it goes: a stop looks in the list for timers to cancel. */
static void serving_unlink(struct serving *serving) {
  weir__test_server *server = serving->server;
  server_lock(server);
  if (serving->previous != NULL) {
    serving->previous->next = serving->next;
  } else {
    server->guarded.servings = serving->next;
  }
  if (serving->next != NULL) {
    serving->next->previous = serving->previous;
  }
  (void)pthread_cond_broadcast(&server->guarded.changed);
  server_unlock(server);
}

static void serving_destroy(struct serving *serving) {
  serving_unlink(serving);
  if (serving->timer.call != NULL) {
    grpc_call_unref(serving->timer.call);
  }
  if (serving->call != NULL) {
    grpc_call_unref(serving->call);
  }
  grpc_call_details_destroy(&serving->details);
  grpc_metadata_array_destroy(&serving->metadata);
  grpc_metadata_array_destroy(&serving->timer.metadata);
  grpc_slice_unref(serving->timer.details);
  grpc_byte_buffer_destroy(serving->message);
  reply_fini(&serving->reply);
  free(serving);
}

/* Announces an event. What was written before is seen by the thread that gets the event: the
 * increment pairs with the load in serve(), since a sanitizer can't see how the core orders the
 * two. */
static void *step_begin(struct serving *serving, enum step step) {
  atomic_fetch_add_explicit(&serving->n_steps, 1,
                            memory_order_relaxed); /* we hold a step, or made it */
  atomic_fetch_add_explicit(&serving->server->n_handovers, 1, memory_order_release);
  return &serving->tags[step];
}

static void step_end(struct serving *serving) {
  if (atomic_fetch_sub_explicit(&serving->n_steps, 1, memory_order_acq_rel) == 1) {
    serving_destroy(serving);
  }
}

static void start_batch(struct serving *serving, grpc_call *call, const grpc_op *ops, size_t n_ops,
                        enum step step) {
  grpc_call_error error = grpc_call_start_batch(call, ops, n_ops, step_begin(serving, step), NULL);
  check(error == GRPC_CALL_OK, grpc_call_error_to_string(error));
}

static void await_call(weir__test_server *server) {
  struct serving *serving = serving_new(server);
  void *tag = step_begin(serving, STEP_ARRIVED);
  grpc_call_error error =
      grpc_server_request_call(server->core, &serving->call, &serving->details, &serving->metadata,
                               server->queue, server->queue, tag);
  check(error == GRPC_CALL_OK, grpc_call_error_to_string(error));
}

static void start_close(struct serving *serving) {
  const grpc_op op = weir__close_op(&serving->was_cancelled);
  start_batch(serving, serving->call, &op, 1, STEP_CLOSED);
}

static void start_receive(struct serving *serving) {
  const grpc_op op = weir__receive_op(&serving->message);
  start_batch(serving, serving->call, &op, 1, STEP_RECEIVED);
}

static grpc_op headers_op(struct serving *serving) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_SEND_INITIAL_METADATA;
  op.data.send_initial_metadata.count = serving->reply.n_initial_metadata;
  op.data.send_initial_metadata.metadata = serving->reply.initial_metadata;
  return op;
}

static grpc_op status_op(struct weir__test_reply *reply) {
  grpc_op op;
  if (reply->status.op == GRPC_OP_SEND_STATUS_FROM_SERVER) {
    return reply->status;
  }
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  op.data.send_status_from_server.status = reply->code;
  op.data.send_status_from_server.status_details = &reply->text;
  op.data.send_status_from_server.trailing_metadata_count = reply->n_trailing_metadata;
  op.data.send_status_from_server.trailing_metadata = reply->trailing_metadata;
  return op;
}

static void send_reply(struct serving *serving) {
  struct weir__test_reply *reply = &serving->reply;
  grpc_op ops[3];
  size_t n_ops = 0;
  memset(ops, 0, sizeof ops);
  if (!reply->headers_apart) {
    ops[n_ops++] = headers_op(serving);
  }
  if (reply->message != NULL) {
    ops[n_ops].op = GRPC_OP_SEND_MESSAGE;
    ops[n_ops++].data.send_message.send_message = reply->message;
  }
  ops[n_ops++] = status_op(reply);
  start_batch(serving, serving->call, ops, n_ops, STEP_REPLIED);
}

static gpr_timespec instant_after(int64_t span_ns) {
  if (span_ns == INT64_MAX) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(span_ns, GPR_TIMESPAN));
}

/* Starts a call that will never do anything but meet its deadline, or be cancelled before. False:
 * nothing to wait for. */
static bool start_delay(struct serving *serving) {
  weir__test_server *server = serving->server;
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  op.data.recv_status_on_client.trailing_metadata = &serving->timer.metadata;
  op.data.recv_status_on_client.status = &serving->timer.code;
  op.data.recv_status_on_client.status_details = &serving->timer.details;

  server_lock(server);
  bool wanted = serving->reply.delay_ns > 0 && !serving->timer.over && !server->guarded.stopping;
  if (wanted) {
    serving->timer.call =
        grpc_channel_create_call(server->timers, NULL, GRPC_PROPAGATE_DEFAULTS, server->queue,
                                 grpc_slice_from_static_string("/timer"), NULL,
                                 instant_after(serving->reply.delay_ns), NULL);
    start_batch(serving, serving->timer.call, &op, 1, STEP_DELAYED);
  }
  server_unlock(server);
  return wanted;
}

static void reply_after_delay(struct serving *serving) {
  if (!start_delay(serving)) {
    send_reply(serving);
  }
}

static int64_t deadline_in_ns(gpr_timespec deadline) {
  gpr_timespec left = gpr_time_sub(gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC),
                                   gpr_now(GPR_CLOCK_MONOTONIC));
  if (left.tv_sec > INT32_MAX) { /* 68 years: infinity, however it was written */
    return INT64_MAX;
  }
  return left.tv_sec * NS_PER_SECOND + left.tv_nsec;
}

static void record_fill(struct weir__test_record *record, const struct serving *serving) {
  const grpc_metadata_array *metadata = &serving->metadata;
  const grpc_slice *path = &serving->details.method;
  size_t length = GRPC_SLICE_LENGTH(*path);
  length = length < sizeof record->path ? length : sizeof record->path - 1;
  memset(record, 0, sizeof *record);
  memcpy(record->path, GRPC_SLICE_START_PTR(*path), length);
  (void)weir__metadata_copy_text(metadata, "weir-retry-owner", record->retry_owner,
                                 sizeof record->retry_owner);
  record->previous_attempts = weir__metadata_number(metadata, "grpc-previous-rpc-attempts", -1);
  record->budget_us = weir__metadata_number(metadata, "weir-budget-us", -1);
  record->deadline_in_ns = deadline_in_ns(serving->details.deadline);
}

static void on_arrived(struct serving *serving) {
  weir__test_server *server = serving->server;
  server_lock(server);
  bool stopping = server->guarded.stopping;
  serving->number = ++server->guarded.n_calls;
  if (server->guarded.n_records < WEIR__TEST_RECORDS_MAX) {
    record_fill(&server->guarded.records[server->guarded.n_records++], serving);
  }
  (void)pthread_cond_broadcast(&server->guarded.changed);
  server_unlock(server);

  if (!stopping) {
    await_call(server);
  }
  start_close(serving);
  start_receive(serving);
}

static void on_closed(struct serving *serving) {
  weir__test_server *server = serving->server;
  server_lock(server);
  if (serving->was_cancelled != 0) {
    server->guarded.n_cancelled++;
    (void)pthread_cond_broadcast(&server->guarded.changed);
  }
  serving->timer.over = true;
  if (serving->timer.call != NULL) {
    (void)grpc_call_cancel(serving->timer.call, NULL);
  }
  server_unlock(server);
}

static void on_received(struct serving *serving) {
  char *path = grpc_slice_to_c_string(serving->details.method);
  const struct weir__test_served served = {
      .path = path,
      .details = &serving->details,
      .metadata = &serving->metadata,
      .message = serving->message,
      .call = serving->call,
      .number = serving->number,
  };
  serving->server->handler(serving->server->context, &served, &serving->reply);
  gpr_free(path);

  if (serving->reply.headers_apart) {
    grpc_op op = headers_op(serving);
    start_batch(serving, serving->call, &op, 1, STEP_HEADERS_SENT);
  } else {
    reply_after_delay(serving);
  }
}

static void on_event(const struct step_tag *tag, bool success) {
  struct serving *serving = tag->serving;
  switch (tag->step) {
  case STEP_ARRIVED:
    if (success) { /* or else the server is shutting down */
      on_arrived(serving);
    }
    break;
  case STEP_CLOSED:
    on_closed(serving);
    break;
  case STEP_RECEIVED:
    on_received(serving);
    break;
  case STEP_HEADERS_SENT:
    reply_after_delay(serving);
    break;
  case STEP_DELAYED:
    send_reply(serving);
    break;
  case STEP_REPLIED:
    memset(&serving->reply.weir, '!', sizeof serving->reply.weir);
    break;
  }
  step_end(serving);
}

/* --- the server --- */

static void *serve(void *argument) {
  weir__test_server *server = argument;
  gpr_timespec forever = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  for (;;) {
    grpc_event event = grpc_completion_queue_next(server->queue, forever, NULL);
    (void)atomic_load_explicit(&server->n_handovers, memory_order_acquire); /* see step_begin */
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    if (event.tag != server) {
      on_event(event.tag, event.success != 0);
      continue;
    }
    server_lock(server);
    server->guarded.down = true;
    (void)pthread_cond_broadcast(&server->guarded.changed);
    server_unlock(server);
  }
}

static void open_port(weir__test_server *server) {
  char loopback[ADDRESS_SIZE];
  char key[] = GRPC_ARG_ALLOW_REUSEPORT;
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = GRPC_ARG_INTEGER; /* a port that the system chose must not be somebody else's too */
  arg.key = key;
  arg.value.integer = 0;
  const grpc_channel_args args = {.num_args = 1, .args = &arg};

  (void)snprintf(loopback, sizeof loopback, "127.0.0.1:%d", server->port);
  server->core = grpc_server_create(&args, NULL);
  server->queue = grpc_completion_queue_create_for_next(NULL);
  grpc_server_register_completion_queue(server->core, server->queue, NULL);
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  server->port = grpc_server_add_http2_port(
      server->core, server->address != NULL ? server->address : loopback, creds);
  grpc_server_credentials_release(creds);
  check(server->port > 0, "no port on the loopback");
  grpc_server_start(server->core);
}

void weir__test_server_start(weir__test_server *server) {
  if (server->core != NULL) {
    return;
  }
  server_lock(server);
  server->guarded.stopping = false;
  server->guarded.down = false;
  server_unlock(server);
  open_port(server);
  for (size_t i = 0; i < server->n_threads; i++) {
    await_call(server);
  }
  for (size_t i = 0; i < server->n_threads; i++) {
    check(pthread_create(&server->threads[i], NULL, serve, server) == 0, "no thread");
  }
}

void weir__test_server_stop(weir__test_server *server) {
  if (server->core == NULL) {
    return;
  }
  server_lock(server);
  server->guarded.stopping = true;
  for (struct serving *serving = server->guarded.servings; serving != NULL;
       serving = serving->next) {
    if (serving->timer.call != NULL) {
      (void)grpc_call_cancel(serving->timer.call, NULL);
    }
  }
  server_unlock(server);
  grpc_server_shutdown_and_notify(server->core, server->queue, server);
  grpc_server_cancel_all_calls(server->core);

  server_lock(server);
  while (!server->guarded.down || server->guarded.servings != NULL) {
    (void)pthread_cond_wait(&server->guarded.changed, &server->guarded.mutex);
  }
  server_unlock(server);
  grpc_completion_queue_shutdown(server->queue);
  for (size_t i = 0; i < server->n_threads; i++) {
    (void)pthread_join(server->threads[i], NULL);
  }
  grpc_server_destroy(server->core);
  grpc_completion_queue_destroy(server->queue);
  server->core = NULL;
  server->queue = NULL;
}

weir__test_server *weir__test_server_new(weir__test_handler_fn *handler, void *context,
                                         size_t n_threads) {
  return weir__test_server_new_at(NULL, handler, context, n_threads);
}

weir__test_server *weir__test_server_new_at(const char *address, weir__test_handler_fn *handler,
                                            void *context, size_t n_threads) {
  weir__test_server *server = calloc(1, sizeof *server);
  pthread_condattr_t monotonic;
  check(server != NULL, "no memory");
  check(n_threads <= WEIR__TEST_THREADS_MAX, "too many threads");
  server->address = address;
  server->handler = handler;
  server->context = context;
  server->n_threads = n_threads == 0 ? DEFAULT_THREADS : n_threads;
  check(pthread_mutex_init(&server->guarded.mutex, NULL) == 0, "mutex");
  check(pthread_condattr_init(&monotonic) == 0, "condition");
  check(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0, "condition");
  check(pthread_cond_init(&server->guarded.changed, &monotonic) == 0, "condition");
  (void)pthread_condattr_destroy(&monotonic);

  grpc_init();
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  server->timers = grpc_channel_create("127.0.0.1:1", creds, NULL);
  grpc_channel_credentials_release(creds);
  weir__test_server_start(server);
  return server;
}

void weir__test_server_release(weir__test_server *server) {
  if (server == NULL) {
    return;
  }
  weir__test_server_stop(server);
  grpc_channel_destroy(server->timers);
  (void)pthread_cond_destroy(&server->guarded.changed);
  (void)pthread_mutex_destroy(&server->guarded.mutex);
  free(server);
  grpc_shutdown_blocking(); /* its threads are gone before the process looks for leaks */
}

int weir__test_server_port(const weir__test_server *server) {
  return server->port;
}

/* --- what it has seen --- */

static uint64_t read_count(weir__test_server *server, const uint64_t *count) {
  server_lock(server);
  uint64_t value = *count;
  server_unlock(server);
  return value;
}

static bool wait_count(weir__test_server *server, const uint64_t *count, uint64_t at_least) {
  struct timespec until;
  int error = clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += WAIT_LIMIT_S;
  server_lock(server);
  while (*count < at_least && error == 0) {
    error = pthread_cond_timedwait(&server->guarded.changed, &server->guarded.mutex, &until);
  }
  bool reached = *count >= at_least;
  server_unlock(server);
  return reached;
}

uint64_t weir__test_server_n_calls(weir__test_server *server) {
  return read_count(server, &server->guarded.n_calls);
}

uint64_t weir__test_server_n_cancelled(weir__test_server *server) {
  return read_count(server, &server->guarded.n_cancelled);
}

bool weir__test_server_wait_calls(weir__test_server *server, uint64_t n_calls) {
  return wait_count(server, &server->guarded.n_calls, n_calls);
}

bool weir__test_server_wait_cancelled(weir__test_server *server, uint64_t n_cancelled) {
  return wait_count(server, &server->guarded.n_cancelled, n_cancelled);
}

bool weir__test_server_record(weir__test_server *server, size_t index,
                              struct weir__test_record *record_out) {
  memset(record_out, 0, sizeof *record_out);
  server_lock(server);
  bool kept = index < server->guarded.n_records;
  if (kept) {
    *record_out = server->guarded.records[index];
  }
  server_unlock(server);
  return kept;
}

void weir__test_server_forget(weir__test_server *server) {
  server_lock(server);
  server->guarded.n_calls = 0;
  server->guarded.n_cancelled = 0;
  server->guarded.n_records = 0;
  server_unlock(server);
}

/* --- replies --- */

void weir__test_reply_status(struct weir__test_reply *reply, grpc_status_code code,
                             const char *text) {
  grpc_slice_unref(reply->text);
  reply->code = code;
  reply->text = grpc_slice_from_copied_string(text);
}

void weir__test_reply_trailer(struct weir__test_reply *reply, const char *key, const void *value,
                              size_t value_size) {
  check(reply->n_trailing_metadata < WEIR__TEST_METADATA_MAX, "too much trailing metadata");
  grpc_metadata *entry = &reply->trailing_metadata[reply->n_trailing_metadata++];
  memset(entry, 0, sizeof *entry);
  entry->key = grpc_slice_from_copied_string(key);
  entry->value = grpc_slice_from_copied_buffer(value, value_size);
}
