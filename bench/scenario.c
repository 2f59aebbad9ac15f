/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#define N_OPS 6
#define N_AT_ONCE 64
#define DEADLINE_S 60
#define COUNT_TEXT_SIZE 16

static const char message_text[] = "thirty-two bytes of a message...";

/* As weir sends them. */
static grpc_metadata headers[SIDE_HEADERS_MAX];

static void fail(const char *what) {
  (void)fprintf(stderr, "bench client: %s\n", what);
  abort();
}

/* --- a call --- */

/* One call and what it sends and receives; its operations by their places in `ops`. */
struct exchange {
  grpc_op ops[N_OPS];
  void *call;
  grpc_byte_buffer *request;
  grpc_byte_buffer *response;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code status;
  grpc_slice details;
};

enum { SEND_HEADERS, SEND_MESSAGE, SEND_CLOSE, RECV_HEADERS, RECV_MESSAGE, RECV_STATUS };

static void exchange_init(struct exchange *exchange, const struct client *client,
                          const char *method, grpc_byte_buffer *request) {
  memset(exchange, 0, sizeof *exchange);
  exchange->request = request;
  grpc_op *ops = exchange->ops;
  ops[SEND_HEADERS].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[SEND_HEADERS].data.send_initial_metadata.count = client->side->n_headers;
  ops[SEND_HEADERS].data.send_initial_metadata.metadata = headers;
  ops[SEND_MESSAGE].op = GRPC_OP_SEND_MESSAGE;
  ops[SEND_MESSAGE].data.send_message.send_message = request;
  ops[SEND_CLOSE].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[RECV_HEADERS].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[RECV_HEADERS].data.recv_initial_metadata.recv_initial_metadata = &exchange->initial_metadata;
  ops[RECV_MESSAGE].op = GRPC_OP_RECV_MESSAGE;
  ops[RECV_MESSAGE].data.recv_message.recv_message = &exchange->response;
  ops[RECV_STATUS].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[RECV_STATUS].data.recv_status_on_client.trailing_metadata = &exchange->trailing_metadata;
  ops[RECV_STATUS].data.recv_status_on_client.status = &exchange->status;
  ops[RECV_STATUS].data.recv_status_on_client.status_details = &exchange->details;
  gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(DEADLINE_S, GPR_TIMESPAN));
  exchange->call = client->side->on->call_create(client->channel, client->queue,
                                                 grpc_slice_from_static_string(method), deadline);
}

static void exchange_fini(struct exchange *exchange, const struct client *client) {
  if (exchange->status != GRPC_STATUS_OK) {
    (void)fprintf(stderr, "bench client: a call ended with status %d\n", (int)exchange->status);
    abort();
  }
  grpc_byte_buffer_destroy(exchange->request);
  grpc_byte_buffer_destroy(exchange->response);
  grpc_metadata_array_destroy(&exchange->initial_metadata);
  grpc_metadata_array_destroy(&exchange->trailing_metadata);
  grpc_slice_unref(exchange->details);
  client->side->on->call_unref(exchange->call);
}

static void start(struct exchange *exchange, const struct client *client, int first_op,
                  size_t n_ops) {
  if (client->side->on->call_start_batch(exchange->call, &exchange->ops[first_op], n_ops,
                                         exchange) != GRPC_CALL_OK) {
    fail("a batch was refused");
  }
}

static struct exchange *await(const struct client *client) {
  grpc_event event = client->side->on->queue_next(client->queue);
  if (event.type != GRPC_OP_COMPLETE || event.success == 0) {
    fail("a batch failed");
  }
  return event.tag;
}

static grpc_byte_buffer *message_new(void) {
  grpc_slice slice = grpc_slice_from_static_string(message_text);
  return grpc_raw_byte_buffer_create(&slice, 1);
}

/* What asks the server for `n` messages. */
static grpc_byte_buffer *count_message_new(int n) {
  char text[COUNT_TEXT_SIZE];
  (void)snprintf(text, sizeof text, "%d", n);
  grpc_slice slice = grpc_slice_from_copied_string(text);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return message;
}

/* --- the scenarios --- */

static void unary(const struct client *client, const char *method) {
  struct exchange exchange;
  exchange_init(&exchange, client, method, message_new());
  start(&exchange, client, 0, N_OPS);
  (void)await(client);
  exchange_fini(&exchange, client);
}

static void unary_one_batch(const struct client *client, int n) {
  for (int i = 0; i < n; i++) {
    unary(client, "/bench.Service/Unary");
  }
}

static void unary_six_batches(const struct client *client, int n) {
  for (int i = 0; i < n; i++) {
    struct exchange exchange;
    exchange_init(&exchange, client, "/bench.Service/Unary", message_new());
    for (int op = 0; op < N_OPS; op++) {
      start(&exchange, client, op, 1);
    }
    for (int op = 0; op < N_OPS; op++) {
      (void)await(client);
    }
    exchange_fini(&exchange, client);
  }
}

static void unary_64_at_once(const struct client *client, int n) {
  static struct exchange exchanges[N_AT_ONCE];
  int n_started = 0;
  for (; n_started < N_AT_ONCE && n_started < n; n_started++) {
    exchange_init(&exchanges[n_started], client, "/bench.Service/Unary", message_new());
    start(&exchanges[n_started], client, 0, N_OPS);
  }
  for (int i = 0; i < n; i++) {
    struct exchange *exchange = await(client);
    exchange_fini(exchange, client);
    if (n_started < n) {
      exchange_init(exchange, client, "/bench.Service/Unary", message_new());
      start(exchange, client, 0, N_OPS);
      n_started++;
    }
  }
}

static void stream(const struct client *client, int n) {
  struct exchange exchange;
  exchange_init(&exchange, client, "/bench.Service/Stream", count_message_new(n));
  start(&exchange, client, SEND_HEADERS, 4);
  (void)await(client);
  for (int i = 0; i < n; i++) {
    start(&exchange, client, RECV_MESSAGE, 1);
    (void)await(client);
    if (exchange.response == NULL) {
      fail("a stream ended early");
    }
    grpc_byte_buffer_destroy(exchange.response);
    exchange.response = NULL;
  }
  start(&exchange, client, RECV_MESSAGE, 2); /* the end, and the status */
  (void)await(client);
  exchange_fini(&exchange, client);
}

static void client_stream(const struct client *client, int n) {
  struct exchange exchange;
  exchange_init(&exchange, client, "/bench.Service/Collect", NULL);
  start(&exchange, client, SEND_HEADERS, 1);
  start(&exchange, client, RECV_HEADERS, 1);
  (void)await(client);
  (void)await(client);
  for (int i = 0; i < n; i++) {
    grpc_byte_buffer *message = message_new();
    exchange.ops[SEND_MESSAGE].data.send_message.send_message = message;
    start(&exchange, client, SEND_MESSAGE, 1);
    (void)await(client);
    grpc_byte_buffer_destroy(message);
  }
  start(&exchange, client, SEND_CLOSE, 1);
  (void)await(client);
  unary(client, "/bench.Service/Finish"); /* the server answers then */
  start(&exchange, client, RECV_MESSAGE, 2);
  (void)await(client);
  exchange_fini(&exchange, client);
}

static const struct {
  const char *name;
  scenario_run_fn *run;
} scenarios[] = {
    {"unary_one_batch", unary_one_batch},   {"unary_six_batches", unary_six_batches},
    {"unary_64_at_once", unary_64_at_once}, {"stream", stream},
    {"client_stream", client_stream},
};

scenario_run_fn *scenario_find(const char *name) {
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
    if (strcmp(scenarios[i].name, name) == 0) {
      return scenarios[i].run;
    }
  }
  return NULL;
}

/* --- the client --- */

void client_init(struct client *client, const struct side *side, const char *target) {
  headers[0].key = grpc_slice_from_static_string("weir-budget-us");
  headers[0].value = grpc_slice_from_static_string("59999999");
  headers[1].key = grpc_slice_from_static_string("weir-retry-owner");
  headers[1].value = grpc_slice_from_static_string("bench");
  client->side = side;
  client->channel = side->channel_create(target);
  client->queue = side->on->queue_create();
}

void client_fini(struct client *client) {
  client->side->on->queue_shutdown(client->queue);
  while (client->side->on->queue_next(client->queue).type != GRPC_QUEUE_SHUTDOWN) {
  }
  client->side->on->queue_destroy(client->queue);
  client->side->on->channel_destroy(client->channel);
}
