/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/scenario.h"

#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "bench/require.h"

#define N_AT_ONCE_MAX 64
#define LARGE_BYTES ((size_t)64 * 1024)
#define DEADLINE_S 60
#define COUNT_TEXT_SIZE 16

static const char message_text[] = "thirty-two bytes of a message...";

static grpc_byte_buffer *message_new(void) {
  grpc_slice slice = grpc_slice_from_static_string(message_text);
  return grpc_raw_byte_buffer_create(&slice, 1);
}

static grpc_byte_buffer *large_message_new(void) {
  static char zeros[LARGE_BYTES];
  grpc_slice slice = grpc_slice_from_static_buffer(zeros, sizeof zeros);
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

static void begin(struct exchange *exchange, const struct client *client, const char *method,
                  grpc_byte_buffer *request) {
  gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(DEADLINE_S, GPR_TIMESPAN));
  exchange_init(exchange, client, method, deadline, request);
}

static void end(struct exchange *exchange, const struct client *client) {
  require(exchange->status == GRPC_STATUS_OK, "a call failed");
  exchange_fini(exchange, client);
}

static void unary(const struct client *client, const char *method, grpc_byte_buffer *request) {
  struct exchange exchange;
  begin(&exchange, client, method, request);
  exchange_start(&exchange, client, SEND_HEADERS, N_OPS);
  (void)exchange_await(client);
  end(&exchange, client);
}

static void unary_one_batch(const struct client *client, int n) {
  for (int i = 0; i < n; i++) {
    unary(client, "/bench.Service/Unary", message_new());
  }
}

static void unary_64k(const struct client *client, int n) {
  for (int i = 0; i < n; i++) {
    unary(client, "/bench.Service/Echo", large_message_new());
  }
}

static void unary_six_batches(const struct client *client, int n) {
  for (int i = 0; i < n; i++) {
    struct exchange exchange;
    begin(&exchange, client, "/bench.Service/Unary", message_new());
    for (int op = 0; op < N_OPS; op++) {
      exchange_start(&exchange, client, (enum exchange_op)op, 1);
    }
    for (int op = 0; op < N_OPS; op++) {
      (void)exchange_await(client);
    }
    end(&exchange, client);
  }
}

static void unary_at_once(const struct client *client, int n, int n_at_once) {
  static struct exchange exchanges[N_AT_ONCE_MAX];
  int n_started = 0;
  for (; n_started < n_at_once && n_started < n; n_started++) {
    begin(&exchanges[n_started], client, "/bench.Service/Unary", message_new());
    exchange_start(&exchanges[n_started], client, SEND_HEADERS, N_OPS);
  }
  for (int i = 0; i < n; i++) {
    struct exchange *exchange = exchange_await(client);
    end(exchange, client);
    if (n_started < n) {
      begin(exchange, client, "/bench.Service/Unary", message_new());
      exchange_start(exchange, client, SEND_HEADERS, N_OPS);
      n_started++;
    }
  }
}

static void unary_8_at_once(const struct client *client, int n) {
  unary_at_once(client, n, 8);
}

static void unary_64_at_once(const struct client *client, int n) {
  unary_at_once(client, n, N_AT_ONCE_MAX);
}

static void stream(const struct client *client, int n) {
  struct exchange exchange;
  begin(&exchange, client, "/bench.Service/Stream", count_message_new(n));
  exchange_start(&exchange, client, SEND_HEADERS, 4);
  (void)exchange_await(client);
  for (int i = 0; i < n; i++) {
    exchange_start(&exchange, client, RECV_MESSAGE, 1);
    (void)exchange_await(client);
    require(exchange.response != NULL, "a stream ended early");
    grpc_byte_buffer_destroy(exchange.response);
    exchange.response = NULL;
  }
  exchange_start(&exchange, client, RECV_MESSAGE, 2); /* the end, and the status */
  (void)exchange_await(client);
  end(&exchange, client);
}

static void client_stream(const struct client *client, int n) {
  struct exchange exchange;
  begin(&exchange, client, "/bench.Service/Collect", NULL);
  exchange_start(&exchange, client, SEND_HEADERS, 1);
  exchange_start(&exchange, client, RECV_HEADERS, 1);
  (void)exchange_await(client);
  (void)exchange_await(client);
  for (int i = 0; i < n; i++) {
    grpc_byte_buffer *message = message_new();
    exchange.ops[SEND_MESSAGE].data.send_message.send_message = message;
    exchange_start(&exchange, client, SEND_MESSAGE, 1);
    (void)exchange_await(client);
    grpc_byte_buffer_destroy(message);
  }
  exchange_start(&exchange, client, SEND_CLOSE, 1);
  (void)exchange_await(client);
  unary(client, "/bench.Service/Finish", message_new()); /* the server answers then */
  exchange_start(&exchange, client, RECV_MESSAGE, 2);
  (void)exchange_await(client);
  end(&exchange, client);
}

static const struct scenario scenarios[] = {
    {"unary_one_batch", unary_one_batch},     {"unary_64k", unary_64k},
    {"unary_six_batches", unary_six_batches}, {"unary_8_at_once", unary_8_at_once},
    {"unary_64_at_once", unary_64_at_once},   {"stream", stream},
    {"client_stream", client_stream},
};

const struct scenario *scenario_find(const char *name) {
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
    if (strcmp(scenarios[i].name, name) == 0) {
      return &scenarios[i];
    }
  }
  return NULL;
}
