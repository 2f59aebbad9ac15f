/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"

#define METHOD "/test.Service/Method"
#define SHORT_MS 50
#define LONG_MS 10000

static void refuse(void *context, const struct weir__test_served *served,
                   struct weir__test_reply *reply) {
  (void)context;
  (void)served;
  weir__test_reply_status(reply, GRPC_STATUS_FAILED_PRECONDITION, "not today");
  weir__test_reply_trailer(reply, "grpc-retry-pushback-ms", "-1", 2);
  weir__test_reply_trailer(reply, "some-bin", "a\0b", 3);
  reply->initial_metadata[reply->n_initial_metadata++] =
      weir__metadata_from_text("served-by", "test");
}

static void refuse_after_headers(void *context, const struct weir__test_served *served,
                                 struct weir__test_reply *reply) {
  refuse(context, served, reply);
  reply->headers_apart = true;
  reply->delay_ns = 1;
}

static void echo(void *context, const struct weir__test_served *served,
                 struct weir__test_reply *reply) {
  (void)context;
  reply->message = grpc_byte_buffer_copy(served->message);
}

static void never_answer(void *context, const struct weir__test_served *served,
                         struct weir__test_reply *reply) {
  (void)context;
  (void)served;
  reply->delay_ns = INT64_MAX;
}

/* What `channel` answers within `timeout_ms`; the caller's to fini. */
static struct weir__bare_reply ask(grpc_channel *channel, int64_t timeout_ms, grpc_call *parent,
                                   const grpc_metadata *metadata, size_t n_metadata) {
  grpc_slice bytes = grpc_slice_from_static_string("hello");
  struct weir__bare_reply reply;
  struct weir__bare_request request = {
      .method = METHOD,
      .message = grpc_raw_byte_buffer_create(&bytes, 1),
      .metadata = metadata,
      .n_metadata = n_metadata,
      .deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                               gpr_time_from_millis(timeout_ms, GPR_TIMESPAN)),
      .parent = parent,
  };
  weir__bare_unary(channel, &request, &reply);
  grpc_byte_buffer_destroy(request.message);
  return reply;
}

static grpc_status_code ask_once(int port, int64_t timeout_ms, grpc_call *parent) {
  grpc_channel *channel = weir__bare_channel_create(port, WEIR__CORE_RETRIES_OFF, NULL);
  struct weir__bare_reply reply = ask(channel, timeout_ms, parent, NULL, 0);
  grpc_status_code code = reply.code;
  weir__bare_reply_fini(&reply);
  grpc_channel_destroy(channel);
  return code;
}

/* A service in the middle: its context is the next one's port. */
static void relay(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  const int *port = context;
  weir__test_reply_status(reply, ask_once(*port, LONG_MS, served->call), "relayed");
}

static void assert_refusal(int port) {
  grpc_channel *channel = weir__bare_channel_create(port, WEIR__CORE_RETRIES_OFF, NULL);
  struct weir__bare_reply reply = ask(channel, LONG_MS, NULL, NULL, 0);
  const grpc_slice *blob = weir__metadata_find(&reply.trailing_metadata, "some-bin");
  char served_by[16];
  assert_int_equal(reply.code, GRPC_STATUS_FAILED_PRECONDITION);
  assert_int_equal(grpc_slice_str_cmp(reply.details, "not today"), 0);
  assert_null(reply.message);
  assert_int_equal(weir__metadata_number(&reply.trailing_metadata, "grpc-retry-pushback-ms", 0),
                   -1);
  assert_non_null(blob);
  assert_int_equal(GRPC_SLICE_LENGTH(*blob), 3);
  assert_true(
      weir__metadata_copy_text(&reply.initial_metadata, "served-by", served_by, sizeof served_by));
  assert_string_equal(served_by, "test");
  weir__bare_reply_fini(&reply);
  grpc_channel_destroy(channel);
}

static void answers_with_what_the_handler_says(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(refuse, NULL, 0);
  assert_refusal(weir__test_server_port(server));
  weir__test_server_release(server);
}

static void sends_headers_apart_when_asked_to(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(refuse_after_headers, NULL, 0);
  assert_refusal(weir__test_server_port(server));
  weir__test_server_release(server);
}

static void keeps_what_each_call_brought_along(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(echo, NULL, 1);
  grpc_channel *channel =
      weir__bare_channel_create(weir__test_server_port(server), WEIR__CORE_RETRIES_OFF, NULL);
  grpc_metadata metadata[3] = {weir__metadata_from_text("grpc-previous-rpc-attempts", "2"),
                               weir__metadata_from_text("weir-retry-owner", "edge"),
                               weir__metadata_from_text("weir-budget-us", "1500")};
  struct weir__test_record record;

  struct weir__bare_reply marked = ask(channel, LONG_MS, NULL, metadata, 3);
  struct weir__bare_reply plain = ask(channel, LONG_MS, NULL, NULL, 0);
  assert_int_equal(marked.code, GRPC_STATUS_OK);
  assert_int_equal(grpc_byte_buffer_length(plain.message), strlen("hello"));

  assert_true(weir__test_server_record(server, 0, &record));
  assert_string_equal(record.path, METHOD);
  assert_string_equal(record.retry_owner, "edge");
  assert_int_equal(record.previous_attempts, 2);
  assert_int_equal(record.budget_us, 1500);
  assert_in_range(record.deadline_in_ns, 1, (int64_t)(LONG_MS + LONG_MS / 10) * 1000000);
  assert_true(weir__test_server_record(server, 1, &record));
  assert_string_equal(record.retry_owner, "");
  assert_int_equal(record.previous_attempts, -1);
  assert_int_equal(record.budget_us, -1);
  assert_false(weir__test_server_record(server, 2, &record));
  assert_int_equal(weir__test_server_n_calls(server), 2);
  weir__test_server_forget(server);
  assert_int_equal(weir__test_server_n_calls(server), 0);

  for (size_t i = 0; i < 3; i++) {
    grpc_slice_unref(metadata[i].key);
    grpc_slice_unref(metadata[i].value);
  }
  weir__bare_reply_fini(&marked);
  weir__bare_reply_fini(&plain);
  grpc_channel_destroy(channel);
  weir__test_server_release(server);
}

static void an_answer_is_not_waited_for_once_the_client_has_gone(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(never_answer, NULL, 0);
  while (weir__test_server_n_calls(server) ==
         0) { /* a slow machine may not even get there in time */
    assert_int_equal(ask_once(weir__test_server_port(server), SHORT_MS, NULL),
                     GRPC_STATUS_DEADLINE_EXCEEDED);
  }
  assert_true(weir__test_server_wait_cancelled(server, 1));
  weir__test_server_release(server);
}

static void *ask_in_thread(void *argument) {
  const int *port = argument;
  (void)ask_once(*port, LONG_MS, NULL);
  return NULL;
}

static void stopping_cancels_what_is_served_and_the_calls_made_for_it(void **state) {
  (void)state;
  pthread_t client;
  weir__test_server *b = weir__test_server_new(never_answer, NULL, 0);
  int b_port = weir__test_server_port(b);
  weir__test_server *a = weir__test_server_new(relay, &b_port, 0);
  int a_port = weir__test_server_port(a);
  assert_int_equal(pthread_create(&client, NULL, ask_in_thread, &a_port), 0);
  assert_true(weir__test_server_wait_calls(b, 1));
  weir__test_server_stop(a);
  assert_true(weir__test_server_wait_cancelled(b, 1));
  assert_int_equal(pthread_join(client, NULL), 0);
  weir__test_server_release(a);
  weir__test_server_release(b);
}

static void starts_again_on_the_same_port(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(echo, NULL, 0);
  int port = weir__test_server_port(server);
  assert_int_equal(ask_once(port, LONG_MS, NULL), GRPC_STATUS_OK);
  weir__test_server_stop(server);
  assert_int_equal(ask_once(port, LONG_MS, NULL), GRPC_STATUS_UNAVAILABLE);
  weir__test_server_start(server);
  assert_int_equal(weir__test_server_port(server), port);
  assert_int_equal(ask_once(port, LONG_MS, NULL), GRPC_STATUS_OK);
  assert_int_equal(weir__test_server_n_calls(server), 2);
  weir__test_server_release(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_with_what_the_handler_says),
      cmocka_unit_test(sends_headers_apart_when_asked_to),
      cmocka_unit_test(keeps_what_each_call_brought_along),
      cmocka_unit_test(an_answer_is_not_waited_for_once_the_client_has_gone),
      cmocka_unit_test(stopping_cancels_what_is_served_and_the_calls_made_for_it),
      cmocka_unit_test(starts_again_on_the_same_port),
  };
  return cmocka_run_group_tests_name("test_server", tests, NULL, NULL);
}
