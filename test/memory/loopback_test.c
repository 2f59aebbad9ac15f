/* Calls to a real server, where memory runs out at each allocation that weir makes for a channel, a
 * queue and a call on them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"
#include "test/memory/lame.h"
#include "test/support/counting_allocator.h"
#include "test/support/proto_writer.h"
#include "test/support/silent_log.h"

/* What the server does with a call. */
#define ANSWERED "/shop.Cart/Answered"
#define FAILED "/shop.Cart/Failed"
#define TRIED_AGAIN "/shop.Cart/TriedAgain" /* its first attempt fails */

/* No caller of a boundary may see it. */
#define SECRET "hunter2"

/* With time for a machine that is busy, or watched by valgrind. */
#define DEADLINE "\"deadline\": {\"defaultTimeout\": \"60s\"}"

#define POLICY                                                                                     \
  "{" DEADLINE ", \"translation\": {\"keepMetadata\": [\"x-quota\"],"                              \
  "   \"keepDetails\": [\"google.rpc.RetryInfo\"]}, \"breaker\": {\"scope\": \"METHOD\"},"         \
  " \"retryThrottling\": {\"maxTokens\": 1000, \"tokenRatio\": 1},"                                \
  " \"methodConfig\": [{\"name\": [{}], \"retryPolicy\": {\"maxAttempts\": 2,"                     \
  "   \"initialBackoff\": \"0.000001s\", \"maxBackoff\": \"0.000001s\", \"backoffMultiplier\": 1," \
  "   \"retryableStatusCodes\": [\"UNAVAILABLE\"]}}]}"
#define OTHER_POLICY "{" DEADLINE "}"

/* --- the server --- */

static void add_details(struct weir__test_reply *reply) {
  struct proto_writer details;
  memset(&details, 0, sizeof details);
  proto_write_number(&details, 1, GRPC_STATUS_INVALID_ARGUMENT);
  proto_write_text(&details, 2, SECRET);
  proto_write_detail(&details, "type.googleapis.com/google.rpc.RetryInfo", "\x0a\x02\x08\x01", 4);
  proto_write_detail(&details, "type.googleapis.com/google.rpc.DebugInfo", SECRET,
                     sizeof SECRET - 1);
  weir__test_reply_trailer(reply, "grpc-status-details-bin", details.bytes, details.size);
  proto_writer_fini(&details);
}

static void answer(void *context, const struct weir__test_served *served,
                   struct weir__test_reply *reply) {
  (void)context;
  if (strcmp(served->path, FAILED) == 0) {
    weir__test_reply_status(reply, GRPC_STATUS_INVALID_ARGUMENT, "no table " SECRET);
    weir__test_reply_trailer(reply, "x-quota", "7", 1);
    weir__test_reply_trailer(reply, "x-host", SECRET, sizeof SECRET - 1);
    add_details(reply);
  } else if (strcmp(served->path, TRIED_AGAIN) == 0 &&
             weir__metadata_number(served->metadata, "grpc-previous-rpc-attempts", 0) == 0) {
    weir__test_reply_status(reply, GRPC_STATUS_UNAVAILABLE, SECRET);
  } else {
    reply->message = grpc_byte_buffer_copy(served->message);
  }
}

/* --- the client, all of whose memory may run out --- */

struct client {
  struct counting_allocator memory;
  weir_policy *policy;
  weir_channel *channel;
  weir_completion_queue *queue;
  grpc_cq_completion_type type;
};

static void make_channel(struct client *client, int port) {
  char target[32];
  (void)snprintf(target, sizeof target, "127.0.0.1:%d", port);
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.policy = client->policy;
  options.log = &silent_log;
  options.allocator = &client->memory.base;
  client->channel = weir_channel_create(target, credentials, NULL, &options);
  grpc_channel_credentials_release(credentials);
}

static void make_queue(struct client *client) {
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.allocator = &client->memory.base;
  options.n_callback_threads = 0;
  switch (client->type) {
  case GRPC_CQ_NEXT:
    client->queue = weir_completion_queue_create_for_next(&options);
    break;
  case GRPC_CQ_PLUCK:
    client->queue = weir_completion_queue_create_for_pluck(&options);
    break;
  case GRPC_CQ_CALLBACK:
    client->queue = weir_completion_queue_create_for_callback(NULL, &options);
    break;
  }
}

static void require_memory(const struct client *client, bool was_made) {
  assert_true(was_made || client->memory.n_failed > 0);
}

/* Goes as far as there is memory. */
static bool client_open(struct client *client, int port) {
  enum weir_error error = weir_policy_from_json(POLICY, sizeof POLICY - 1, NULL,
                                                &client->memory.base, &client->policy, NULL);
  require_memory(client, error == WEIR_OK);
  if (client->policy != NULL) {
    make_channel(client, port);
    require_memory(client, client->channel != NULL);
  }
  if (client->channel != NULL) {
    make_queue(client);
    require_memory(client, client->queue != NULL);
  }
  return client->queue != NULL;
}

static void client_close(struct client *client) {
  if (client->queue != NULL) {
    lame_queue_end(client->queue, client->type);
  }
  if (client->channel != NULL) {
    weir_channel_destroy(client->channel);
  }
  weir_policy_unref(client->policy);
  assert_int_equal(client->memory.n_outstanding, 0);
}

/* --- calls --- */

static weir_call *call_of(const struct client *client, const char *method) {
  return weir_channel_create_call(client->channel, NULL, 0, client->queue,
                                  grpc_slice_from_static_string(method), NULL,
                                  gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static bool slice_holds_secret(grpc_slice slice) {
  for (size_t i = 0; i + sizeof SECRET - 1 <= GRPC_SLICE_LENGTH(slice); i++) {
    if (memcmp(GRPC_SLICE_START_PTR(slice) + i, SECRET, sizeof SECRET - 1) == 0) {
      return true;
    }
  }
  return false;
}

static void check_status(const struct lame_call *call, const char *method) {
  if (strcmp(method, ANSWERED) == 0) {
    assert_int_equal(call->status, GRPC_STATUS_OK);
  } else if (strcmp(method, FAILED) == 0) {
    assert_int_equal(call->status, GRPC_STATUS_INTERNAL);
  } else {
    assert_true(call->status == GRPC_STATUS_OK || call->status == GRPC_STATUS_UNAVAILABLE);
  }
  assert_int_equal(call->reply != NULL, call->status == GRPC_STATUS_OK);
  assert_false(slice_holds_secret(call->details));
  for (size_t i = 0; i < call->trailing_metadata.count; i++) {
    assert_false(slice_holds_secret(call->trailing_metadata.metadata[i].value));
  }
}

/* What a whole call has to say, without a fault. */
static void run_with_memory(struct client *client) {
  struct lame_call call;
  lame_call_init(&call, call_of(client, ANSWERED), false);
  assert_non_null(call.call);
  assert_int_equal(lame_call_start(&call, 0, LAME_OPS), GRPC_CALL_OK);
  lame_call_wait(&call, client->queue, client->type);
  check_status(&call, ANSWERED);
  lame_call_fini(&call);
}

/* A policy that comes while the call is under way. */
static void swap_policy(struct client *client) {
  weir_policy *policy = NULL;
  enum weir_error error = weir_policy_from_json(OTHER_POLICY, sizeof OTHER_POLICY - 1, NULL,
                                                &client->memory.base, &policy, NULL);
  if (error == WEIR_OK) {
    error = weir_channel_set_policy(client->channel, policy, NULL);
    weir_policy_unref(policy);
  }
  require_memory(client, error == WEIR_OK);
}

/* In one batch, or one for each operation. */
static void call_in_batches(struct client *client, const char *method, size_t batch_length) {
  struct lame_call call;
  lame_call_init(&call, call_of(client, method), true);
  require_memory(client, call.call != NULL);
  bool goes_on = call.call != NULL;
  for (size_t i = 0; i < LAME_OPS && goes_on; i += batch_length) {
    goes_on = lame_call_start(&call, i, i + batch_length) == GRPC_CALL_OK;
    require_memory(client, goes_on);
  }
  if (call.call != NULL && !goes_on) {
    (void)weir_call_cancel(call.call, NULL);
  }
  swap_policy(client);
  lame_call_wait(&call, client->queue, client->type);
  if (goes_on) {
    check_status(&call, method);
  }
  lame_call_fini(&call);
}

static void call_in_one(struct client *client, const char *method) {
  call_in_batches(client, method, LAME_OPS);
}

static void call_in_six(struct client *client, const char *method) {
  call_in_batches(client, method, 1);
}

static void call_blocking(struct client *client, const char *method) {
  grpc_slice slice = grpc_slice_from_static_string("hello");
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = method;
  request.message = message;
  enum weir_error error = weir_unary(client->channel, &request, &reply);
  if (error != WEIR_OK) {
    assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
    assert_true(client->memory.n_failed > 0);
    assert_null(reply.call);
  } else {
    assert_int_equal(reply.message != NULL, reply.code == GRPC_STATUS_OK);
    assert_false(slice_holds_secret(reply.details));
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(message);
}

/* --- runs --- */

typedef void call_fn(struct client *client, const char *method);

struct run {
  const char *why;
  call_fn *call;
  const char *method;
  grpc_cq_completion_type type;
};

static const struct run runs[] = {
    {"one batch, answered", call_in_one, ANSWERED, GRPC_CQ_NEXT},
    {"one batch, a boundary's failure", call_in_one, FAILED, GRPC_CQ_NEXT},
    {"one batch, a retry", call_in_one, TRIED_AGAIN, GRPC_CQ_NEXT},
    {"one batch, plucked", call_in_one, TRIED_AGAIN, GRPC_CQ_PLUCK},
    {"one batch, called back", call_in_one, TRIED_AGAIN, GRPC_CQ_CALLBACK},
    {"six batches, answered", call_in_six, ANSWERED, GRPC_CQ_NEXT},
    {"six batches, a boundary's failure", call_in_six, FAILED, GRPC_CQ_PLUCK},
    {"six batches, a retry", call_in_six, TRIED_AGAIN, GRPC_CQ_NEXT},
    {"six batches, called back", call_in_six, TRIED_AGAIN, GRPC_CQ_CALLBACK},
    {"blocking, answered", call_blocking, ANSWERED, GRPC_CQ_NEXT},
    {"blocking, a boundary's failure", call_blocking, FAILED, GRPC_CQ_NEXT},
    {"blocking, a retry", call_blocking, TRIED_AGAIN, GRPC_CQ_NEXT},
};

/* What runs, for whoever reads of a failure. */
static const struct run *running;
static size_t running_nth;

static int tell_what_ran(void **state) {
  (void)state;
  if (running != NULL) {
    print_message("%s, allocation %zu\n", running->why, running_nth);
  }
  return 0;
}

static size_t run_once(const struct run *run, int port, size_t nth, bool for_good) {
  struct client client;
  memset(&client, 0, sizeof client);
  client.type = run->type;
  counting_allocator_init(&client.memory);
  if (for_good) {
    counting_allocator_fail_from_nth(&client.memory, nth);
  } else {
    counting_allocator_fail_nth(&client.memory, nth);
  }
  if (client_open(&client, port)) {
    run->call(&client, run->method);
    counting_allocator_fail_none(&client.memory);
    run_with_memory(&client);
  }
  const size_t n_failed = client.memory.n_failed;
  client_close(&client);
  return n_failed;
}

static void run_all(bool for_good) {
  weir__test_server *server = weir__test_server_new(answer, NULL, 1);
  for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
    size_t n_failed = 1;
    running = &runs[i];
    for (running_nth = 1; n_failed > 0; running_nth++) {
      n_failed = run_once(running, weir__test_server_port(server), running_nth, for_good);
    }
    assert_true(running_nth > 10); /* it has allocated */
  }
  running = NULL;
  weir__test_server_release(server);
}

static void a_call_without_one_piece_of_memory_ends_once(void **state) {
  (void)state;
  run_all(false);
}

static void a_call_without_any_more_memory_ends_once(void **state) {
  (void)state;
  run_all(true);
}

static int start_core(void **state) {
  (void)state;
  grpc_init();
  return 0;
}

static int stop_core(void **state) {
  (void)state;
  grpc_shutdown_blocking();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_call_without_one_piece_of_memory_ends_once, tell_what_ran),
      cmocka_unit_test_teardown(a_call_without_any_more_memory_ends_once, tell_what_ran),
  };
  return cmocka_run_group_tests_name("memory on the loopback", tests, start_core, stop_core);
}
