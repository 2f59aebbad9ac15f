/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/exchange.h"

#include <string.h>

#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "bench/require.h"

/* As weir sends them. */
static grpc_metadata headers[SIDE_HEADERS_MAX];

void exchange_init(struct exchange *exchange, const struct client *client, const char *method,
                   gpr_timespec deadline, grpc_byte_buffer *request) {
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
  exchange->call = client->side->on->call_create(client->channel, client->queue,
                                                 grpc_slice_from_static_string(method), deadline);
  require(exchange->call != NULL, "no call");
}

void exchange_fini(struct exchange *exchange, const struct client *client) {
  grpc_byte_buffer_destroy(exchange->request);
  grpc_byte_buffer_destroy(exchange->response);
  grpc_metadata_array_destroy(&exchange->initial_metadata);
  grpc_metadata_array_destroy(&exchange->trailing_metadata);
  grpc_slice_unref(exchange->details);
  client->side->on->call_unref(exchange->call);
}

void exchange_start(struct exchange *exchange, const struct client *client,
                    enum exchange_op first_op, size_t n_ops) {
  require(client->side->on->call_start_batch(exchange->call, &exchange->ops[first_op], n_ops,
                                             exchange) == GRPC_CALL_OK,
          "a batch was refused");
}

struct exchange *exchange_await_until(const struct client *client, gpr_timespec deadline) {
  grpc_event event = client->side->on->queue_next(client->queue, deadline);
  if (event.type == GRPC_QUEUE_TIMEOUT) {
    return NULL;
  }
  require(event.type == GRPC_OP_COMPLETE && event.success != 0, "a batch failed");
  return event.tag;
}

struct exchange *exchange_await(const struct client *client) {
  struct exchange *exchange = exchange_await_until(client, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  require(exchange != NULL, "no batch has ended");
  return exchange;
}

/* --- the client --- */

void client_init(struct client *client, const struct side *side, const char *target) {
  headers[0].key = grpc_slice_from_static_string("weir-budget-us");
  headers[0].value = grpc_slice_from_static_string("59999999");
  headers[1].key = grpc_slice_from_static_string("weir-retry-owner");
  headers[1].value = grpc_slice_from_static_string("bench");
  client->side = side;
  client->channel = side->channel_create(side, target);
  client->queue = side->on->queue_create();
}

void client_fini(struct client *client) {
  client->side->on->queue_shutdown(client->queue);
  while (client->side->on->queue_next(client->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC)).type !=
         GRPC_QUEUE_SHUTDOWN) {
  }
  client->side->on->queue_destroy(client->queue);
  client->side->on->channel_destroy(client->channel);
}
