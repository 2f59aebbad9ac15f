/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/service.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "test/e2e/support/metadata.h"
#include "test/e2e/support/server_ops.h"
#include "test/soak/live_memory.h"

/* Each serves one request at a time, so a request that is stuck takes one away. */
#define SERVICE_THREADS 48

#define KEYS_SIZE 128

/* From when a request was found to be cut until the core says that it is cancelled. */
#define CUT_LIMIT_NS (10 * WEIR_SECOND_NS)

struct worker {
  struct service *service;
  struct desk desk;
  pthread_t thread;
};

struct service {
  struct ledger *ledger;
  enum ledger_who who;
  service_handler_fn *handler;
  void *context;
  grpc_server *core;
  int port;
  struct worker workers[SERVICE_THREADS];
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t quiet;
    uint32_t n_under_way;
  } guarded;
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: service: %s\n", what);
    abort();
  }
}

/* --- operations --- */

static bool run(struct served *served, const grpc_op *ops, size_t n_ops) {
  check(grpc_call_start_batch(served->call, ops, n_ops, desk_owe(&served->work), NULL) ==
            GRPC_CALL_OK,
        "the core refused a batch");
  (void)desk_await(served->desk, &served->work, WEIR_NO_LIMIT_NS);
  return served->work.ok;
}

static void start_close(struct served *served) {
  const grpc_op op = weir__close_op(&served->cancelled);
  check(grpc_call_start_batch(served->call, &op, 1, desk_owe(&served->close), NULL) == GRPC_CALL_OK,
        "the core refused to tell of the end");
}

grpc_byte_buffer *served_receive(struct served *served) {
  grpc_byte_buffer *message = NULL;
  const grpc_op op = weir__receive_op(&message);
  (void)run(served, &op, 1);
  return message;
}

bool served_send(struct served *served, grpc_byte_buffer *message) {
  grpc_op ops[WEIR__SEND_OPS];
  return run(served, ops, weir__send_ops(ops, &served->headers_sent, message, NULL));
}

void served_answer(struct served *served, const grpc_op *status, grpc_byte_buffer *message) {
  grpc_op ops[WEIR__SEND_OPS];
  (void)run(served, ops, weir__send_ops(ops, &served->headers_sent, message, status));
  (void)served_await_end(served, WEIR_NO_LIMIT_NS);
  ledger_note(served->ledger, served->id, served->who, LEDGER_ANSWERED,
              status->data.send_status_from_server.status, served->cancelled);
}

bool served_await_end(struct served *served, int64_t span_ns) {
  return desk_await(served->desk, &served->close, span_ns);
}

/* --- requests --- */

/* A connection that is cut within a request's HEADERS frame leaves what was read of it so far: the
 * core tells of that request all the same, as one that is cancelled and has no message. Any other
 * that has no number can be nobody's. */
static void look_at_stranger(struct service *service, struct served *served,
                             const grpc_metadata_array *metadata) {
  char keys[KEYS_SIZE] = "";
  size_t size = 0;
  grpc_byte_buffer *message = served_receive(served);
  bool cut = served->id < 0 && message == NULL && served_await_end(served, CUT_LIMIT_NS) &&
             served->cancelled != 0;
  grpc_byte_buffer_destroy(message);
  if (cut) {
    return;
  }
  for (size_t i = 0; i < metadata->count && size < sizeof keys; i++) {
    grpc_slice key = metadata->metadata[i].key;
    int n = snprintf(keys + size, sizeof keys - size, " %.*s", (int)GRPC_SLICE_LENGTH(key),
                     (const char *)GRPC_SLICE_START_PTR(key));
    size += n > 0 ? (size_t)n : 0;
  }
  ledger_blame(service->ledger, 0, service->who, "a request of call %d, which there is not: %s,%s",
               (int)served->id, served->method, keys);
}

static void arrive(struct service *service, struct served *served,
                   const grpc_metadata_array *metadata) {
  int64_t previous = weir__metadata_number(metadata, "grpc-previous-rpc-attempts", -1);
  served->id = weir__metadata_number(metadata, SERVICE_ID_KEY, -1);
  served->owned = weir__metadata_find(metadata, "weir-retry-owner") != NULL || previous >= 0;
  struct ledger_entry *entry = ledger_entry_of(service->ledger, served->id);
  if (entry == NULL) {
    look_at_stranger(service, served, metadata);
    return;
  }
  served->arrival =
      atomic_fetch_add(service->who == LEDGER_A ? &entry->n_at_a : &entry->n_at_b, 1) + 1;
  ledger_note(service->ledger, served->id, service->who, LEDGER_ARRIVED, served->arrival, previous);
  if (atomic_load(&entry->n_made) == 0) {
    ledger_blame(service->ledger, served->id, service->who, "a request of a call that nobody made");
  }
}

static void change_under_way(struct service *service, int change) {
  (void)pthread_mutex_lock(&service->guarded.mutex);
  service->guarded.n_under_way += (uint32_t)change;
  (void)pthread_cond_broadcast(&service->guarded.quiet);
  (void)pthread_mutex_unlock(&service->guarded.mutex);
}

static void serve(struct worker *worker, const grpc_call_details *details,
                  const grpc_metadata_array *metadata, grpc_call *call) {
  struct service *service = worker->service;
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  struct served served = {
      .ledger = service->ledger, .who = service->who, .desk = &worker->desk, .call = call};
  options.allocator = &live_memory;
  check(weir_inbound_new(details, metadata, call, &options, &served.inbound) == WEIR_OK,
        "no inbound");
  served.method = grpc_slice_to_c_string(details->method);
  start_close(&served);
  arrive(service, &served, metadata);
  if (served.arrival > 0) {
    service->handler(service->context, &served);
  }
  weir_inbound_release(served.inbound);
  grpc_call_unref(call); /* cancels what was not answered */
  (void)served_await_end(&served, WEIR_NO_LIMIT_NS);
  gpr_free(served.method);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  grpc_completion_queue *queue = weir_completion_queue_core(worker->desk.queue);
  bool going_on = true;
  while (going_on) {
    grpc_call *call = NULL;
    grpc_call_details details;
    grpc_metadata_array metadata;
    struct desk_tag tag = {.n_owed = 0};
    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    check(grpc_server_request_call(worker->service->core, &call, &details, &metadata, queue, queue,
                                   desk_owe(&tag)) == GRPC_CALL_OK,
          "the core takes no requests");
    (void)desk_await(&worker->desk, &tag, WEIR_NO_LIMIT_NS);
    going_on = tag.ok; /* or else the server is shutting down */
    if (going_on) {
      change_under_way(worker->service, 1);
      serve(worker, &details, &metadata, call);
      change_under_way(worker->service, -1);
    }
    grpc_call_details_destroy(&details);
    grpc_metadata_array_destroy(&metadata);
  }
  return NULL;
}

/* --- the server --- */

static void open_port(struct service *service) {
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  service->core = grpc_server_create(NULL, NULL);
  for (size_t i = 0; i < SERVICE_THREADS; i++) {
    service->workers[i].service = service;
    desk_init(&service->workers[i].desk, i % 2 == 0 ? DESK_PLUCKS : DESK_NEXT);
    grpc_server_register_completion_queue(
        service->core, weir_completion_queue_core(service->workers[i].desk.queue), NULL);
  }
  service->port = grpc_server_add_http2_port(service->core, "127.0.0.1:0", creds);
  check(service->port > 0, "no port on the loopback");
  grpc_server_credentials_release(creds);
  grpc_server_start(service->core);
}

struct service *service_new(struct ledger *ledger, enum ledger_who who, service_handler_fn *handler,
                            void *context) {
  struct service *service = calloc(1, sizeof *service);
  pthread_condattr_t monotonic;
  check(service != NULL, "no memory");
  service->ledger = ledger;
  service->who = who;
  service->handler = handler;
  service->context = context;
  (void)pthread_mutex_init(&service->guarded.mutex, NULL);
  (void)pthread_condattr_init(&monotonic);
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&service->guarded.quiet, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  open_port(service);
  for (size_t i = 0; i < SERVICE_THREADS; i++) {
    check(pthread_create(&service->workers[i].thread, NULL, work, &service->workers[i]) == 0,
          "no thread");
  }
  return service;
}

void service_release(struct service *service) {
  struct desk *desk = &service->workers[0].desk;
  struct desk_tag tag = {.n_owed = 0};
  grpc_server_shutdown_and_notify(service->core, weir_completion_queue_core(desk->queue),
                                  desk_owe(&tag));
  grpc_server_cancel_all_calls(service->core);
  for (size_t i = 0; i < SERVICE_THREADS; i++) {
    (void)pthread_join(service->workers[i].thread, NULL);
  }
  (void)desk_await(desk, &tag, WEIR_NO_LIMIT_NS);
  grpc_server_destroy(service->core);
  for (size_t i = 0; i < SERVICE_THREADS; i++) {
    desk_fini(&service->workers[i].desk);
  }
  (void)pthread_cond_destroy(&service->guarded.quiet);
  (void)pthread_mutex_destroy(&service->guarded.mutex);
  free(service);
}

int service_port(const struct service *service) {
  return service->port;
}

bool service_await_quiet(struct service *service, int64_t limit_ns) {
  int64_t until_ns = ledger_now_ns() + limit_ns;
  const struct timespec until = {.tv_sec = until_ns / WEIR_SECOND_NS,
                                 .tv_nsec = until_ns % WEIR_SECOND_NS};
  int error = 0;
  (void)pthread_mutex_lock(&service->guarded.mutex);
  while (service->guarded.n_under_way > 0 && error == 0) {
    error = pthread_cond_timedwait(&service->guarded.quiet, &service->guarded.mutex, &until);
  }
  bool quiet = service->guarded.n_under_way == 0;
  (void)pthread_mutex_unlock(&service->guarded.mutex);
  return quiet;
}
