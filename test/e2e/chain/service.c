/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/chain/service.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "test/e2e/support/metadata.h"
#include "test/e2e/support/server_ops.h"

struct worker {
  struct service *service;
  grpc_completion_queue *queue;
  pthread_t thread;
};

struct service {
  struct next *next;
  struct journal *journal;
  grpc_server *core;
  int port;
  struct worker workers[SERVICE_THREADS];
  struct {
    pthread_mutex_t mutex;
    struct chain_order order;
  } guarded;
};

/* A request, and the memory of its operations. */
struct request {
  struct worker *worker;
  struct served served;
  int cancelled; /* once it is closed */
  bool closed;
  bool headers_sent;
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "hop: %s\n", what);
    abort();
  }
}

/* --- operations --- */

static void start(const struct request *request, const grpc_op *ops, size_t n_ops, void *tag) {
  check(grpc_call_start_batch(request->served.call, ops, n_ops, tag, NULL) == GRPC_CALL_OK,
        "the core refused a batch");
}

static bool run(const struct request *request, const grpc_op *ops, size_t n_ops) {
  void *tag = (void *)(uintptr_t)ops;
  start(request, ops, n_ops, tag);
  grpc_event event = grpc_completion_queue_pluck(request->worker->queue, tag,
                                                 gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  return event.success != 0;
}

static void start_close(struct request *request) {
  const grpc_op op = weir__close_op(&request->cancelled);
  start(request, &op, 1, request);
}

/* Waits for the end of the request, `span_ns` at most: what is not a sleep. */
static void await_close(struct request *request, int64_t span_ns) {
  gpr_timespec until = gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (span_ns != CHAIN_FOREVER) {
    until = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(span_ns, GPR_TIMESPAN));
  }
  if (!request->closed) {
    grpc_event event = grpc_completion_queue_pluck(request->worker->queue, request, until, NULL);
    request->closed = event.type == GRPC_OP_COMPLETE;
  }
}

static grpc_byte_buffer *receive(const struct request *request) {
  grpc_byte_buffer *message = NULL;
  const grpc_op op = weir__receive_op(&message);
  (void)run(request, &op, 1);
  return message;
}

static bool send_message(struct request *request, grpc_byte_buffer *message) {
  grpc_op ops[WEIR__SEND_OPS];
  return run(request, ops, weir__send_ops(ops, &request->headers_sent, message, NULL));
}

static void send_answer(struct request *request, struct next_answer *answer) {
  grpc_op ops[WEIR__SEND_OPS];
  (void)run(request, ops,
            weir__send_ops(ops, &request->headers_sent, answer->message, &answer->status));
}

/* --- the last hop --- */

static struct chain_order take_order(struct service *service) {
  (void)pthread_mutex_lock(&service->guarded.mutex);
  struct chain_order order = service->guarded.order;
  if (order.n_failures > 0 && order.n_failures != CHAIN_ALWAYS) {
    service->guarded.order.n_failures--;
  }
  (void)pthread_mutex_unlock(&service->guarded.mutex);
  return order;
}

static void stream_as_ordered(struct request *request, const struct chain_order *order) {
  bool wanted = true;
  for (uint32_t i = 0; i < order->n_messages && wanted; i++) {
    grpc_slice text = grpc_slice_from_static_string("one of many");
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&text, 1);
    wanted = send_message(request, message);
    grpc_byte_buffer_destroy(message);
  }
}

static void answer_as_ordered(struct request *request, grpc_byte_buffer *message,
                              struct next_answer *answer_out) {
  const struct chain_order order = take_order(request->worker->service);
  bool fails = order.n_failures > 0;
  next_answer_init(answer_out, fails ? order.failure : GRPC_STATUS_OK,
                   grpc_slice_from_static_string(fails ? CHAIN_SECRET : ""));
  if (grpc_slice_str_cmp(request->served.details->method, CHAIN_WATCH) == 0) {
    stream_as_ordered(request, &order);
  } else if (!fails) {
    answer_out->message = grpc_byte_buffer_copy(message);
  }
  if (order.delay_ns > 0) {
    await_close(request, order.delay_ns);
  }
}

/* --- a hop in the middle --- */

static bool pass_on(void *context, grpc_byte_buffer *message) {
  struct request *request = context;
  return send_message(request, message);
}

static void ask_next(struct request *request, grpc_byte_buffer *message,
                     struct next_answer *answer_out) {
  struct next *next = request->worker->service->next;
  if (grpc_slice_str_cmp(request->served.details->method, CHAIN_WATCH) == 0) {
    next_watch(next, &request->served, message, pass_on, request, answer_out);
  } else {
    next_ask(next, &request->served, message, answer_out);
  }
}

/* --- requests --- */

static int64_t timeout_ns(gpr_timespec deadline) {
  gpr_timespec left = gpr_time_sub(gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC),
                                   gpr_now(GPR_CLOCK_MONOTONIC));
  return left.tv_sec > INT32_MAX ? INT64_MAX : left.tv_sec * WEIR_SECOND_NS + left.tv_nsec;
}

static void tell_arrival(const struct request *request) {
  const grpc_metadata_array *metadata = request->served.metadata;
  struct chain_event event = {
      .kind = CHAIN_ARRIVED,
      .root = request->served.root,
      .budget_us = weir__metadata_number(metadata, "weir-budget-us", -1),
      .timeout_ns = timeout_ns(request->served.details->deadline),
      .previous_attempts = weir__metadata_number(metadata, "grpc-previous-rpc-attempts", -1),
  };
  (void)weir__metadata_copy_text(metadata, "weir-retry-owner", event.retry_owner,
                                 sizeof event.retry_owner);
  journal_write(request->worker->service->journal, &event);
}

static void answer(struct request *request, grpc_byte_buffer *message) {
  struct next_answer answer;
  if (request->worker->service->next != NULL) {
    ask_next(request, message, &answer);
  } else {
    answer_as_ordered(request, message, &answer);
  }
  send_answer(request, &answer);
  await_close(request, CHAIN_FOREVER);
  journal_write(request->worker->service->journal,
                &(struct chain_event){.kind = CHAIN_ENDED,
                                      .root = request->served.root,
                                      .code = answer.status.data.send_status_from_server.status,
                                      .cancelled = request->cancelled != 0});
  next_answer_fini(&answer);
}

/* A request that was cancelled before it was read: whatever is done for it now is done for nobody,
 * and the calls made for it may be under way before its cancellation reaches them. */
static void give_up(struct request *request) {
  await_close(request, CHAIN_FOREVER);
  journal_write(request->worker->service->journal,
                &(struct chain_event){.kind = CHAIN_ENDED,
                                      .root = request->served.root,
                                      .code = GRPC_STATUS_CANCELLED,
                                      .cancelled = true});
}

static void serve(struct worker *worker, const grpc_call_details *details,
                  const grpc_metadata_array *metadata, grpc_call *call) {
  struct request request = {.worker = worker};
  request.served.details = details;
  request.served.metadata = metadata;
  request.served.call = call;
  request.served.root = weir__metadata_number(metadata, CHAIN_ROOT_KEY, -1);
  /* Early too: what the request has left is counted from here. */
  check(weir_inbound_new(details, metadata, call, NULL, &request.served.inbound) == WEIR_OK,
        "no inbound");
  start_close(&request);
  tell_arrival(&request);
  grpc_byte_buffer *message = receive(&request);
  if (message != NULL) {
    answer(&request, message);
    grpc_byte_buffer_destroy(message);
  } else {
    give_up(&request);
  }
  weir_inbound_release(request.served.inbound);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  bool going_on = true;
  while (going_on) {
    grpc_call *call = NULL;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    check(grpc_server_request_call(worker->service->core, &call, &details, &metadata, worker->queue,
                                   worker->queue, worker) == GRPC_CALL_OK,
          "the core takes no requests");
    grpc_event event = grpc_completion_queue_pluck(worker->queue, worker,
                                                   gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    going_on = event.success != 0; /* or else the server is shutting down */
    if (going_on) {
      serve(worker, &details, &metadata, call);
      grpc_call_unref(call);
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
    service->workers[i].queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_server_register_completion_queue(service->core, service->workers[i].queue, NULL);
  }
  service->port = grpc_server_add_http2_port(service->core, "127.0.0.1:0", creds);
  check(service->port > 0, "no port on the loopback");
  grpc_server_credentials_release(creds);
  grpc_server_start(service->core);
}

struct service *service_new(struct next *next, struct journal *journal) {
  struct service *service = calloc(1, sizeof *service);
  check(service != NULL, "no memory");
  service->next = next;
  service->journal = journal;
  (void)pthread_mutex_init(&service->guarded.mutex, NULL);
  open_port(service);
  for (size_t i = 0; i < SERVICE_THREADS; i++) {
    check(pthread_create(&service->workers[i].thread, NULL, work, &service->workers[i]) == 0,
          "no thread");
  }
  return service;
}

void service_release(struct service *service) {
  grpc_completion_queue *queue = service->workers[0].queue;
  grpc_server_shutdown_and_notify(service->core, queue, service);
  grpc_server_cancel_all_calls(service->core);
  for (size_t i = 0; i < SERVICE_THREADS; i++) {
    (void)pthread_join(service->workers[i].thread, NULL);
  }
  (void)grpc_completion_queue_pluck(queue, service, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_server_destroy(service->core);
  for (size_t i = 0; i < SERVICE_THREADS; i++) {
    grpc_completion_queue_shutdown(service->workers[i].queue);
    grpc_completion_queue_destroy(service->workers[i].queue);
  }
  (void)pthread_mutex_destroy(&service->guarded.mutex);
  free(service);
}

int service_port(const struct service *service) {
  return service->port;
}

void service_set_order(struct service *service, const struct chain_order *order) {
  (void)pthread_mutex_lock(&service->guarded.mutex);
  service->guarded.order = *order;
  (void)pthread_mutex_unlock(&service->guarded.mutex);
}
