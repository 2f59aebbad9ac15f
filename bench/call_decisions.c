/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/decisions.h"

#include <stdlib.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <weir/weir.h>

#include "bench/exchange.h"
#include "bench/require.h"

#define SERIES 200
#define MAX_CALLS_TO_OPEN 1000

/* Nobody listens there. */
#define TARGET "ipv4:127.0.0.1:1"

static const char policy_json[] =
    "{\"name\":\"bench\",\"breaker\":{\"minRequests\":1,\"openFor\":\"3600s\","
    "\"maxOpenFor\":\"3600s\"}}";

struct caller {
  weir_channel *channel;
  struct weir_unary_request request;
};

/* What a program does with a record is not weir's to answer for. */
static void record_drop(void *context, const struct weir_log_record *record) {
  (void)context;
  (void)record;
}

static const struct weir_log_sink log_sink = {.size = sizeof(struct weir_log_sink),
                                              .write = record_drop};

static enum weir_reason call_once(struct caller *caller) {
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  require(weir_unary(caller->channel, &caller->request, &reply) == WEIR_OK, "no call");
  enum weir_reason reason = reply.report.reason;
  weir_unary_reply_fini(&reply);
  return reason;
}

static void *caller_new(void) {
  struct caller *caller = require_memory(1, sizeof *caller);
  grpc_init();
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.log = &log_sink;
  require(weir_policy_from_json(policy_json, sizeof policy_json - 1, NULL, NULL, &options.policy,
                                NULL) == WEIR_OK,
          "no policy");
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  caller->channel = weir_channel_create(TARGET, creds, NULL, &options);
  grpc_channel_credentials_release(creds);
  weir_policy_unref(options.policy);
  require(caller->channel != NULL, "no channel");
  caller->request = (struct weir_unary_request)WEIR_UNARY_REQUEST_INIT;
  caller->request.method = "/bench.Service/Unary";
  caller->request.message = grpc_raw_byte_buffer_create(NULL, 0);
  int n_calls = 0;
  while (call_once(caller) != WEIR_REASON_BREAKER_OPEN) {
    require(++n_calls < MAX_CALLS_TO_OPEN, "the breaker does not open");
  }
  return caller;
}

static void caller_free(void *state) {
  struct caller *caller = state;
  grpc_byte_buffer_destroy(caller->request.message);
  weir_channel_destroy(caller->channel);
  grpc_shutdown();
  free(caller);
}

static void run_calls(void *state, uint32_t n_times) {
  for (uint32_t i = 0; i < n_times; i++) {
    require(call_once(state) == WEIR_REASON_BREAKER_OPEN, "the breaker has closed");
  }
}

/* --- the same, by the calls that mirror the core's --- */

struct queued {
  struct caller *caller; /* NULL on the bare core */
  struct client client;
  grpc_byte_buffer *message;
};

static void *queued_new(void) {
  struct queued *queued = require_memory(1, sizeof *queued);
  queued->caller = caller_new();
  queued->client.side = side_find("weir");
  queued->client.channel = queued->caller->channel;
  queued->client.queue = queued->client.side->on->queue_create();
  queued->message = queued->caller->request.message;
  return queued;
}

static void queue_end(const struct client *client) {
  const struct side_functions *on = client->side->on;
  on->queue_shutdown(client->queue);
  require(on->queue_next(client->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC)).type ==
              GRPC_QUEUE_SHUTDOWN,
          "a queue does not end");
  on->queue_destroy(client->queue);
}

static void queued_free(void *state) {
  struct queued *queued = state;
  queue_end(&queued->client);
  caller_free(queued->caller);
  free(queued);
}

static void run_queued(void *state, uint32_t n_times) {
  const struct queued *queued = state;
  for (uint32_t i = 0; i < n_times; i++) {
    struct exchange exchange;
    exchange_init(&exchange, &queued->client, "/bench.Service/Unary",
                  gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    exchange.ops[SEND_MESSAGE].data.send_message.send_message = queued->message;
    exchange_start(&exchange, &queued->client, SEND_HEADERS, N_OPS);
    require(exchange_await(&queued->client)->status == GRPC_STATUS_UNAVAILABLE,
            "a call was not refused");
    exchange_fini(&exchange, &queued->client);
  }
}

/* The core's own way to refuse a call. */
static void *lame_new(void) {
  struct queued *queued = require_memory(1, sizeof *queued);
  grpc_init();
  queued->client.side = side_find("bare");
  queued->client.channel =
      grpc_lame_client_channel_create(TARGET, GRPC_STATUS_UNAVAILABLE, "refused");
  queued->client.queue = queued->client.side->on->queue_create();
  queued->message = grpc_raw_byte_buffer_create(NULL, 0);
  return queued;
}

static void lame_free(void *state) {
  struct queued *queued = state;
  queue_end(&queued->client);
  grpc_byte_buffer_destroy(queued->message);
  grpc_channel_destroy(queued->client.channel);
  grpc_shutdown();
  free(queued);
}

const struct operation core_lame = {
    .name = "peer.core.lame",
    .series_length = SERIES,
    .setup = lame_new,
    .run = run_queued,
    .teardown = lame_free,
};

const struct operation refuse_queue = {
    .name = "refuse_queue",
    .series_length = SERIES,
    .setup = queued_new,
    .run = run_queued,
    .teardown = queued_free,
};

const struct operation refuse_unary = {
    .name = "refuse_unary",
    .series_length = SERIES,
    .setup = caller_new,
    .run = run_calls,
    .teardown = caller_free,
};
