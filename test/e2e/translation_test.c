/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/seen.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/test_server.h"

#define SECRET_SIZE 25
#define DETAILS_KEY "grpc-status-details-bin"

/* --- a secret, planted everywhere --- */

/* What the server answers, and where it puts the secret: everywhere, or not in what comes before
 * the status. */
struct planter {
  grpc_status_code code;
  char secret[SECRET_SIZE];
  enum { PLANT_TRAILERS, PLANT_HEADERS, PLANT_MESSAGE } how;
};

static void planter_init(struct planter *planter, grpc_status_code code) {
  unsigned char bytes[(SECRET_SIZE - 1) / 2];
  memset(planter, 0, sizeof *planter);
  planter->code = code;
  assert_int_equal(getrandom(bytes, sizeof bytes, 0), sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) {
    (void)snprintf(planter->secret + 2 * i, 3, "%02x", bytes[i]);
  }
}

static void plant(void *context, const struct weir__test_served *served,
                  struct weir__test_reply *reply) {
  const struct planter *planter = context;
  char text[128];
  (void)snprintf(text, sizeof text, "pg: password=%s at 10.0.0.7", planter->secret);
  const struct answer answer = {
      .code = planter->code,
      .text = text,
      .body = planter->how == PLANT_MESSAGE ? text : NULL,
      .trailing = {{"x-debug-stack", text}, {DETAILS_KEY, text}, {"x-blob-bin", text}},
      .headers_apart = planter->how == PLANT_HEADERS,
  };
  answer_with(&answer, served, reply);
  if (planter->how != PLANT_TRAILERS) {
    reply->initial_metadata[reply->n_initial_metadata++] =
        weir__metadata_from_text("x-served-by", text);
  }
}

/* --- the ways to call --- */

/* What became of a call, whichever way it was made. */
struct result {
  grpc_status_code code;
  struct weir_call_report report;
  struct seen seen;
};

static void call_one_batch(weir_channel *channel, struct result *result) {
  struct unary unary;
  unary_run(&unary, channel, NULL);
  result->code = unary.code;
  result->report = unary.report;
  see_unary(&result->seen, &unary);
  unary_fini(&unary);
}

static void call_blocking(weir_channel *channel, struct result *result) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  assert_int_equal(weir_unary(channel, &request, &reply), WEIR_OK);
  result->code = reply.code;
  result->report = reply.report;
  see_reply(&result->seen, &reply);
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
}

/* A call whose batches are not those of a unary one: `n_receiving` for what is received, 1 or 3. */
static void call_in_batches(weir_channel *channel, size_t n_receiving, struct result *result) {
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unary;
  grpc_op ops[6];
  memset(&unary, 0, sizeof unary);
  memset(ops, 0, sizeof ops);
  unary.details = grpc_empty_slice();
  unary.request = message_of("hello");
  unary.owns_request = true;
  unary.call =
      weir_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string(METHOD), NULL,
                               gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = unary.request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &unary.initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &unary.message;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &unary.trailing_metadata;
  ops[5].data.recv_status_on_client.status = &unary.code;
  ops[5].data.recv_status_on_client.status_details = &unary.details;
  ops[5].data.recv_status_on_client.error_string = &unary.error_string;
  assert_int_equal(weir_call_start_batch(unary.call, ops, 3, &ops[0], NULL), GRPC_CALL_OK);
  for (size_t i = 0; i < n_receiving; i++) {
    assert_int_equal(
        weir_call_start_batch(unary.call, &ops[3 + i], 3 / n_receiving, &ops[3 + i], NULL),
        GRPC_CALL_OK);
  }
  for (size_t i = 0; i < n_receiving + 1; i++) {
    assert_non_null(next_tag(queue));
  }
  unary_read_report(&unary);
  result->code = unary.code;
  result->report = unary.report;
  see_unary(&result->seen, &unary);
  unary_fini(&unary);
  queue_end(queue);
}

static void call_in_two_batches(weir_channel *channel, struct result *result) {
  call_in_batches(channel, 1, result);
}

static void call_in_four_batches(weir_channel *channel, struct result *result) {
  call_in_batches(channel, 3, result);
}

typedef void call_fn(weir_channel *channel, struct result *result);

/* --- what is seen of a failure --- */

/* The record says under the caller's reference what the caller was not told, each place once. */
static void assert_logged(const struct kept_log *log, const struct planter *planter,
                          const struct result *result) {
  assert_int_equal(log->n_records, 1);
  const struct kept_record *record = &log->records[0];
  assert_int_equal(strlen(record->reference), WEIR_REFERENCE_LENGTH);
  assert_string_equal(record->reference, result->report.reference);
  assert_int_equal(count_in(record->message, strlen(record->message), planter->secret), 1);
  assert_int_equal(count_in(record->details, strlen(record->details), planter->secret), 1);
  assert_int_equal(record->raw_code, planter->code);
  assert_int_equal(record->code, result->code);
}

/* In the message; in the core's error, if it was asked for; and in the report. */
static void assert_reference_seen(const struct result *result) {
  char text[WEIR_REFERENCE_LENGTH + 8];
  (void)snprintf(text, sizeof text, "[ref %s]", result->report.reference);
  assert_true(count_seen(&result->seen, text) > 0);
}

static void assert_scrubbed(call_fn *call, struct planter *planter) {
  static struct result result;
  static struct kept_log log;
  memset(&result, 0, sizeof result);
  kept_log_init(&log);
  weir__test_server *server = weir__test_server_new(plant, planter, 2);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(server), .policy = "{" NO_BREAKER "}", .log = &log.base});
  call(channel, &result);
  assert_int_equal(result.code, boundary_codes[planter->code]);
  assert_int_equal(result.report.code, boundary_codes[planter->code]);
  assert_int_equal(result.report.raw_code, planter->code);
  if (planter->code == GRPC_STATUS_OK) {
    assert_true(count_seen(&result.seen, planter->secret) > 0); /* it is an answer */
    assert_int_equal(log.n_records, 0);
  } else {
    assert_int_equal(count_seen(&result.seen, planter->secret), 0);
    assert_int_equal(count_seen(&result.seen, "10.0.0.7"), 0);
    assert_logged(&log, planter, &result);
    assert_reference_seen(&result);
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
  kept_log_fini(&log);
}

static void assert_all_codes_scrubbed(call_fn *call, bool with_headers) {
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    struct planter planter;
    planter_init(&planter, (grpc_status_code)code);
    assert_scrubbed(call, &planter);
    if (with_headers) {
      planter_init(&planter, (grpc_status_code)code);
      planter.how = code % 2 == 0 ? PLANT_HEADERS : PLANT_MESSAGE;
      assert_scrubbed(call, &planter);
    }
  }
}

static void one_batch_shows_no_secret_with_any_code(void **state) {
  (void)state;
  assert_all_codes_scrubbed(call_one_batch, true);
}

static void the_blocking_call_shows_no_secret_with_any_code(void **state) {
  (void)state;
  assert_all_codes_scrubbed(call_blocking, true);
}

static void a_call_in_two_batches_shows_no_secret_with_any_code(void **state) {
  (void)state;
  assert_all_codes_scrubbed(call_in_two_batches, true);
}

/* What came before the status has been handed out by then. */
static void a_call_in_four_batches_shows_no_secret_with_any_code(void **state) {
  (void)state;
  assert_all_codes_scrubbed(call_in_four_batches, false);
}

static void a_retried_call_is_logged_once(void **state) {
  (void)state;
  static struct result result;
  static struct kept_log log;
  struct planter planter;
  planter_init(&planter, GRPC_STATUS_UNAVAILABLE);
  kept_log_init(&log);
  weir__test_server *server = weir__test_server_new(plant, &planter, 2);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(server),
      .policy = "{" NO_BREAKER "," METHODS(RETRY("3", "0.001s", UNAVAILABLE)) "}",
      .log = &log.base});
  call_one_batch(channel, &result);
  assert_int_equal(weir__test_server_n_calls(server), 3);
  assert_logged(&log, &planter, &result);
  assert_int_equal(log.records[0].n_attempts, 3);
  assert_int_equal(count_seen(&result.seen, planter.secret), 0);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
  kept_log_fini(&log);
}

/* Breaker and retry see the raw code: what translation makes of it does not trip or retry
 * anything. */
static void layers_below_see_the_raw_code(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_INVALID_ARGUMENT});
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server),
                                     "{" METHODS(RETRY("3", "0.001s", "\"INTERNAL\"")) "}");
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_INTERNAL);
  assert_int_equal(weir__test_server_n_calls(server), 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void kept_keys_pass_and_references_can_be_left_out(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_NOT_FOUND,
                                       .text = "row 17",
                                       .trailing = {{"x-request-id", "abc"}, {"x-secret", "def"}}});
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel =
      channel_to(weir__test_server_port(server),
                 "{\"translation\":{\"messageRef\":false,\"keepMetadata\":[\"x-request-id\"]}}");
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_text(unary.details, "downstream service: NOT_FOUND");
  assert_string_equal(unary.error_string, "downstream service: NOT_FOUND");
  assert_string_equal(unary.report.reference, "");
  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_text(unary.trailing_metadata.metadata[0].value, "abc");
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* --- what the core itself writes --- */

static void connect_errors_show_no_address(void **state) {
  (void)state;
  static struct result result;
  char port[16];
  int number = odd_closed_port();
  (void)snprintf(port, sizeof port, ":%d", number);
  weir_channel *channel = channel_to(number, "{}");
  call_one_batch(channel, &result);
  assert_int_equal(result.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(result.report.origin, WEIR_ORIGIN_TRANSPORT_CONNECT);
  assert_int_equal(count_seen(&result.seen, "127.0.0.1"), 0);
  assert_int_equal(count_seen(&result.seen, port), 0);
  weir_channel_destroy(channel);
}

static void a_proxys_page_is_not_shown(void **state) {
  (void)state;
  static struct result result;
  const struct odd_script script =
      ODD_SCRIPT(ODD_HEADERS(":status 503\ncontent-type text/plain\n"), ODD_BODY("sesame"));
  struct odd_peer *peer = odd_peer_answering(&script);
  weir_channel *channel = channel_to(odd_peer_port(peer), "{}");
  call_one_batch(channel, &result);
  assert_int_equal(result.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(count_seen(&result.seen, "sesame"), 0);
  assert_int_equal(count_seen(&result.seen, "503"), 0);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

/* --- the default log --- */

/* Standard error, for a while a file. */
struct capture {
  int saved;
  FILE *file;
};

static void capture_begin(struct capture *capture) {
  capture->file = tmpfile();
  assert_non_null(capture->file);
  (void)fflush(stderr);
  capture->saved = dup(STDERR_FILENO);
  assert_true(capture->saved >= 0);
  assert_true(dup2(fileno(capture->file), STDERR_FILENO) >= 0);
}

static size_t capture_end(struct capture *capture, char *out, size_t out_size) {
  (void)fflush(stderr);
  assert_true(dup2(capture->saved, STDERR_FILENO) >= 0);
  (void)close(capture->saved);
  rewind(capture->file);
  size_t size = fread(out, 1, out_size - 1, capture->file);
  out[size] = '\0';
  (void)fclose(capture->file);
  return size;
}

/* By the strict reader of policies, which takes any object when it is told to overlook unknown
 * keys. */
static bool is_json_object(const char *text, size_t size) {
  struct weir_policy_load_options lenient = WEIR_POLICY_LOAD_OPTIONS_INIT;
  weir_policy *policy = NULL;
  lenient.lenient = true;
  enum weir_error error = weir_policy_from_json(text, size, &lenient, NULL, &policy, NULL);
  weir_policy_unref(policy);
  return error == WEIR_OK;
}

static void the_default_log_is_one_line_of_json_whatever_the_server_writes(void **state) {
  (void)state;
  static const char *const texts[] = {
      "plain",        "\"quotes\" \\ and {braces}", "two\nlines\ttab",
      "\x01\x1f\x7f", "\xff\xfe no UTF-8 \xc3",     "\xe2\x82\xac"};
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    const struct answer answer = {.code = GRPC_STATUS_INTERNAL, .text = texts[i]};
    const struct script script = {.answers = &answer, .n_answers = 1};
    weir__test_server *server =
        weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 2);
    weir_channel *channel = channel_new(&(struct channel_setup){
        .port = weir__test_server_port(server), .policy = "{}", .default_log = true});
    struct capture capture;
    struct unary unary;
    char line[8192];
    capture_begin(&capture);
    unary_run(&unary, channel, NULL);
    size_t size = capture_end(&capture, line, sizeof line);
    assert_int_equal(count_in(line, size, "\n"), 1);
    assert_true(size > 0 && line[size - 1] == '\n');
    if (!is_json_object(line, size)) {
      fail_msg("no JSON: %s", line);
    }
    assert_int_equal(count_in(line, size, unary.report.reference), 1);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    weir__test_server_release(server);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_batch_shows_no_secret_with_any_code),
      cmocka_unit_test(the_blocking_call_shows_no_secret_with_any_code),
      cmocka_unit_test(a_call_in_two_batches_shows_no_secret_with_any_code),
      cmocka_unit_test(a_call_in_four_batches_shows_no_secret_with_any_code),
      cmocka_unit_test(a_retried_call_is_logged_once),
      cmocka_unit_test(layers_below_see_the_raw_code),
      cmocka_unit_test(kept_keys_pass_and_references_can_be_left_out),
      cmocka_unit_test(connect_errors_show_no_address),
      cmocka_unit_test(a_proxys_page_is_not_shown),
      cmocka_unit_test(the_default_log_is_one_line_of_json_whatever_the_server_writes),
  };
  return cmocka_run_group_tests_name("translation", tests, start_core, stop_core);
}
