/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "src/outcome/wire_signals.h"
#include "test/e2e/fixture.h"
#include "test/e2e/raw_peer.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/test_server.h"

#define SILENCE MS(500) /* enough to connect, on a machine that is busy */

/* --- what the core's own arrays say --- */

/* What is seen of one call on the bare core. */
struct seen {
  grpc_status_code code;
  struct weir__wire_signals signals;
};

static struct seen see(int port, int64_t timeout_ns) {
  grpc_channel *channel = weir__bare_channel_create(port, WEIR__CORE_RETRIES_OFF, NULL);
  grpc_byte_buffer *message = message_of("hello");
  const struct weir__bare_request request = {
      .method = METHOD,
      .message = message,
      .deadline =
          gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(timeout_ns, GPR_TIMESPAN)),
  };
  struct weir__bare_reply reply;
  weir__bare_unary(channel, &request, &reply);
  struct seen seen = {
      .code = reply.code,
      .signals =
          {
              .initial_capacity = reply.initial_metadata.capacity,
              .trailing_capacity = reply.trailing_metadata.capacity,
              .trailing_count = reply.trailing_metadata.count,
              .failed_before_recv_message = grpc_call_failed_before_recv_message(reply.call) != 0,
              .recv_message_done = true,
          },
  };
  weir__bare_reply_fini(&reply);
  grpc_byte_buffer_destroy(message);
  grpc_channel_destroy(channel);
  return seen;
}

/* A situation, and what is known of it because the peer is ours. */
struct situation {
  const char *why;
  grpc_status_code code;
  bool headers;
  bool from_peer;
  bool never_connected;
  bool unprocessed;
};

static void assert_seen(const struct situation *known, const struct seen *seen) {
  const struct weir__wire_signals *signals = &seen->signals;
  if (seen->code != known->code || weir__wire_signals_headers_received(signals) != known->headers ||
      weir__wire_signals_trailers_from_peer(signals) != known->from_peer ||
      weir__wire_signals_never_connected(signals) != known->never_connected ||
      weir__wire_signals_unprocessed(signals) != known->unprocessed) {
    fail_msg("%s: code %d, capacities %zu and %zu, count %zu, failed before message %d", known->why,
             (int)seen->code, signals->initial_capacity, signals->trailing_capacity,
             signals->trailing_count, signals->failed_before_recv_message);
  }
}

struct served_row {
  struct situation known;
  struct answer answer;
};

static const struct served_row served_rows[] = {
    {{"OK", GRPC_STATUS_OK, true, true, false, false}, {.body = "yes"}},
    {{"Trailers-Only", GRPC_STATUS_UNAVAILABLE, false, true, false, false},
     {.code = GRPC_STATUS_UNAVAILABLE}},
    {{"Trailers-Only with entries", GRPC_STATUS_UNAVAILABLE, false, true, false, false},
     {.code = GRPC_STATUS_UNAVAILABLE, .trailing = {{"a", "1"}, {"b", "2"}}}},
    {{"headers, then a failure", GRPC_STATUS_UNAVAILABLE, true, true, false, false},
     {.code = GRPC_STATUS_UNAVAILABLE, .headers_apart = true}},
    {{"headers with one entry, then a failure", GRPC_STATUS_UNAVAILABLE, true, true, false, false},
     {.code = GRPC_STATUS_UNAVAILABLE, .headers_apart = true, .initial = {{"a", "1"}}}},
    {{"headers, later a failure with an entry", GRPC_STATUS_ABORTED, true, true, false, false},
     {.code = GRPC_STATUS_ABORTED,
      .headers_apart = true,
      .delay_ns = MS(5),
      .trailing = {{"a", "1"}}}},
    {{"a message, then a failure", GRPC_STATUS_UNAVAILABLE, true, true, false, false},
     {.code = GRPC_STATUS_UNAVAILABLE, .body = "half"}},
};

static void each_answer_of_a_server_is_told_by_the_arrays(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(served_rows); i++) {
    const struct served_row *row = &served_rows[i];
    struct script script = {.answers = &row->answer, .n_answers = 1};
    weir__test_server *server = weir__test_server_new(answer_by_script, &script, 0);
    struct seen seen = see(weir__test_server_port(server), SECONDS(30));
    assert_seen(&row->known, &seen);
    weir__test_server_release(server);
  }
}

struct raw_row {
  struct situation known;
  enum raw_greeting greeting;
  struct raw_script script;
};

#define TRAILERS_UNAVAILABLE "grpc-status 14\n"

static const struct raw_row raw_rows[] = {
    {{"Trailers-Only by hand", GRPC_STATUS_UNAVAILABLE, false, true, false, false},
     RAW_GREET,
     {{{RAW_TRAILERS, RAW_HEADERS_OK TRAILERS_UNAVAILABLE, 0}}}},
    {{"headers by hand, then trailers", GRPC_STATUS_UNAVAILABLE, true, true, false, false},
     RAW_GREET,
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}, {RAW_TRAILERS, TRAILERS_UNAVAILABLE, 0}}}},
    {{"lost before headers", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     RAW_GREET,
     {{{RAW_CLOSE, NULL, 0}}}},
    {{"reset before headers", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     RAW_GREET,
     {{{RAW_ABORT, NULL, 0}}}},
    {{"lost after headers", GRPC_STATUS_UNAVAILABLE, true, false, false, false},
     RAW_GREET,
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}, {RAW_CLOSE, NULL, 0}}}},
    {{"lost after a message", GRPC_STATUS_UNAVAILABLE, true, false, false, false},
     RAW_GREET,
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}, {RAW_MESSAGE, "half", 0}, {RAW_CLOSE, NULL, 0}}}},
    {{"stream refused", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     RAW_GREET,
     {{{RAW_RST, NULL, 7}}}},
    {{"stream reset after headers", GRPC_STATUS_INTERNAL, true, false, false, false},
     RAW_GREET,
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}, {RAW_RST, NULL, 2}}}},
    {{"GOAWAY below the stream", GRPC_STATUS_UNAVAILABLE, false, false, false, true},
     RAW_GREET,
     {{{RAW_GOAWAY, NULL, 1}}}},
    {{"GOAWAY at the stream, then lost", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     RAW_GREET,
     {{{RAW_GOAWAY, NULL, 0}, {RAW_CLOSE, NULL, 0}}}},
    {{"Trailers-Only after a GOAWAY", GRPC_STATUS_UNAVAILABLE, false, true, false, false},
     RAW_GREET,
     {{{RAW_GOAWAY, NULL, 0}, {RAW_TRAILERS, RAW_HEADERS_OK TRAILERS_UNAVAILABLE, 0}}}},
    {{"accepted, and closed", GRPC_STATUS_UNAVAILABLE, false, false, true, false},
     RAW_GREET_CLOSE,
     {{{RAW_END, NULL, 0}}}},
    {{"accepted, and silent", GRPC_STATUS_DEADLINE_EXCEEDED, false, false, true, false},
     RAW_GREET_NOTHING,
     {{{RAW_END, NULL, 0}}}},
    {{"headers, then silence", GRPC_STATUS_DEADLINE_EXCEEDED, true, false, false, false},
     RAW_GREET,
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}}}},
    {{"silent on the stream", GRPC_STATUS_DEADLINE_EXCEEDED, false, false, false, false},
     RAW_GREET,
     {{{RAW_END, NULL, 0}}}},
};

static void each_end_on_the_wire_is_told_by_the_arrays(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(raw_rows); i++) {
    const struct raw_row *row = &raw_rows[i];
    struct raw_peer *peer = raw_peer_new(row->greeting, &row->script, 1);
    bool is_silent = row->known.code == GRPC_STATUS_DEADLINE_EXCEEDED;
    struct seen seen = see(raw_peer_port(peer), is_silent ? SILENCE : SECONDS(30));
    assert_seen(&row->known, &seen);
    raw_peer_release(peer);
  }
}

/* A port on which nobody listens: it was somebody's a moment ago. */
static int closed_port(void) {
  struct raw_peer *peer = raw_peer_new(RAW_GREET, NULL, 0);
  int port = raw_peer_port(peer);
  raw_peer_release(peer);
  return port;
}

static void a_refused_connection_is_told_by_the_arrays(void **state) {
  (void)state;
  const struct situation known = {
      "connection refused", GRPC_STATUS_UNAVAILABLE, false, false, true, false};
  struct seen seen = see(closed_port(), SECONDS(30));
  assert_seen(&known, &seen);
}

static void a_call_cancelled_before_it_was_sent_is_told_by_the_arrays(void **state) {
  (void)state;
  grpc_channel *channel = weir__bare_channel_create(closed_port(), WEIR__CORE_RETRIES_OFF, NULL);
  grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
  grpc_call *call =
      grpc_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string(METHOD), NULL,
                               gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_metadata_array initial;
  grpc_metadata_array trailing;
  grpc_byte_buffer *message = NULL;
  grpc_status_code code = GRPC_STATUS_OK;
  grpc_slice details = grpc_empty_slice();
  grpc_op ops[4];
  memset(ops, 0, sizeof ops);
  grpc_metadata_array_init(&initial);
  grpc_metadata_array_init(&trailing);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[1].data.recv_initial_metadata.recv_initial_metadata = &initial;
  ops[2].op = GRPC_OP_RECV_MESSAGE;
  ops[2].data.recv_message.recv_message = &message;
  ops[3].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[3].data.recv_status_on_client.trailing_metadata = &trailing;
  ops[3].data.recv_status_on_client.status = &code;
  ops[3].data.recv_status_on_client.status_details = &details;

  assert_int_equal(grpc_call_cancel(call, NULL), GRPC_CALL_OK);
  assert_int_equal(grpc_call_start_batch(call, ops, COUNT_OF(ops), ops, NULL), GRPC_CALL_OK);
  (void)grpc_completion_queue_pluck(queue, ops, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  const struct seen seen = {
      .code = code,
      .signals = {.initial_capacity = initial.capacity,
                  .trailing_capacity = trailing.capacity,
                  .failed_before_recv_message = grpc_call_failed_before_recv_message(call) != 0,
                  .recv_message_done = true},
  };
  assert_seen(
      &(struct situation){"cancelled early", GRPC_STATUS_CANCELLED, false, false, true, false},
      &seen);

  grpc_metadata_array_destroy(&initial);
  grpc_metadata_array_destroy(&trailing);
  grpc_slice_unref(details);
  grpc_call_unref(call);
  grpc_completion_queue_shutdown(queue);
  grpc_completion_queue_destroy(queue);
  grpc_channel_destroy(channel);
}

static void the_linked_core_is_one_whose_signals_are_trusted(void **state) {
  (void)state;
  assert_true(weir__wire_signals_trusted());
}

/* --- what weir makes of odd peers --- */

struct odd_row {
  const char *why;
  struct raw_script script;
  grpc_status_code raw_code;
  enum weir_origin origin;
  size_t n_requests; /* three attempts, and every code is retryable: 1 = committed, or ours */
};

#define CODES_ALL "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"
#define POLICY_RETRY_ALL \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("3", "0.001s", CODES_ALL)) "}"

#define ALL 3
#define ONCE 1

static const struct odd_row odd_rows[] = {
    {"no grpc-status in Trailers-Only",
     {{{RAW_TRAILERS, RAW_HEADERS_OK, 0}}},
     GRPC_STATUS_UNKNOWN,
     WEIR_ORIGIN_PEER,
     ALL},
    {"no grpc-status after headers",
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}, {RAW_TRAILERS, "x y\n", 0}}},
     GRPC_STATUS_UNKNOWN,
     WEIR_ORIGIN_PEER,
     ONCE},
    {"the stream ends with data",
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}, {RAW_BODY, "", 0}}},
     GRPC_STATUS_UNKNOWN,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ONCE},
    {"HTTP 503",
     {{{RAW_HEADERS, ":status 503\ncontent-type text/html\n", 0},
       {RAW_BODY, "<html>no</html>", 0}}},
     GRPC_STATUS_UNAVAILABLE,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"HTTP 503 without a body",
     {{{RAW_TRAILERS, ":status 503\n", 0}}},
     GRPC_STATUS_UNAVAILABLE,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"HTTP 404",
     {{{RAW_TRAILERS, ":status 404\n", 0}}},
     GRPC_STATUS_UNIMPLEMENTED,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"HTTP 401",
     {{{RAW_TRAILERS, ":status 401\n", 0}}},
     GRPC_STATUS_UNAUTHENTICATED,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"HTTP 403",
     {{{RAW_TRAILERS, ":status 403\n", 0}}},
     GRPC_STATUS_PERMISSION_DENIED,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"HTTP 400",
     {{{RAW_TRAILERS, ":status 400\n", 0}}},
     GRPC_STATUS_INTERNAL,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"HTTP 429",
     {{{RAW_TRAILERS, ":status 429\n", 0}}},
     GRPC_STATUS_UNAVAILABLE,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"HTTP 503 with a grpc-status",
     {{{RAW_TRAILERS, ":status 503\ncontent-type application/grpc\ngrpc-status 5\n", 0}}},
     GRPC_STATUS_NOT_FOUND,
     WEIR_ORIGIN_PEER,
     ALL},
    {"a status beyond 16",
     {{{RAW_TRAILERS, RAW_HEADERS_OK "grpc-status 999\n", 0}}},
     GRPC_STATUS_UNKNOWN,
     WEIR_ORIGIN_PEER,
     ALL},
    {"a negative status",
     {{{RAW_TRAILERS, RAW_HEADERS_OK "grpc-status -1\n", 0}}},
     GRPC_STATUS_UNKNOWN,
     WEIR_ORIGIN_PEER,
     ALL},
    {"REFUSED_STREAM",
     {{{RAW_RST, NULL, 7}}},
     GRPC_STATUS_UNAVAILABLE,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"RST_STREAM with CANCEL",
     {{{RAW_RST, NULL, 8}}},
     GRPC_STATUS_CANCELLED,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"ENHANCE_YOUR_CALM looks like our own limit",
     {{{RAW_RST, NULL, 11}}},
     GRPC_STATUS_RESOURCE_EXHAUSTED,
     WEIR_ORIGIN_LOCAL_LIMIT,
     ONCE},
    {"RST_STREAM with INTERNAL_ERROR",
     {{{RAW_RST, NULL, 2}}},
     GRPC_STATUS_INTERNAL,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
    {"closed after headers",
     {{{RAW_HEADERS, RAW_HEADERS_OK, 0}, {RAW_CLOSE, NULL, 0}}},
     GRPC_STATUS_UNAVAILABLE,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ONCE},
    {"details that are not base64",
     {{{RAW_TRAILERS, RAW_HEADERS_OK "grpc-status 14\ngrpc-status-details-bin ***\n", 0}}},
     GRPC_STATUS_UNKNOWN,
     WEIR_ORIGIN_TRANSPORT_RESET,
     ALL},
};

static void odd_peers_are_classified_and_none_ends_the_process(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(odd_rows); i++) {
    const struct odd_row *row = &odd_rows[i];
    struct raw_peer *peer = raw_peer_new(RAW_GREET, &row->script, 1);
    weir_channel *channel = channel_to(raw_peer_port(peer), POLICY_RETRY_ALL);
    struct unary unary;
    unary_run(&unary, channel, NULL);
    if (unary.report.raw_code != row->raw_code || unary.report.origin != row->origin ||
        raw_peer_n_requests(peer) != row->n_requests) {
      fail_msg("%s: code %d, origin %s, %zu requests", row->why, (int)unary.report.raw_code,
               weir_origin_name(unary.report.origin), raw_peer_n_requests(peer));
    }
    assert_null(unary.message);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    raw_peer_release(peer);
  }
}

/* An attempt may find a connection that is lost already, so not each of them gets to the peer. */
static void a_connection_lost_before_headers_is_tried_again(void **state) {
  (void)state;
  const struct raw_script script = {{{RAW_CLOSE, NULL, 0}}};
  struct raw_peer *peer = raw_peer_new(RAW_GREET, &script, 1);
  weir_channel *channel = channel_to(raw_peer_port(peer), POLICY_RETRY_ALL);
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.attempts[0].origin, WEIR_ORIGIN_TRANSPORT_RESET);
  assert_int_equal(unary.report.blames, WEIR_BLAME_NETWORK);
  assert_true(unary.report.n_attempts >= 3);
  assert_true(raw_peer_n_requests(peer) <= 3);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  raw_peer_release(peer);
}

#define PREVIOUS "grpc-previous-rpc-attempts"

static void what_a_goaway_refused_is_replayed_once_and_not_counted(void **state) {
  (void)state;
  const struct raw_script scripts[] = {
      {{{RAW_GOAWAY, NULL, 1}, {RAW_CLOSE, NULL, 0}}},
      {{{RAW_TRAILERS, RAW_HEADERS_OK "grpc-status 0\n", 0}}},
  };
  struct raw_peer *peer = raw_peer_new(RAW_GREET, scripts, COUNT_OF(scripts));
  weir_channel *channel =
      channel_to(raw_peer_port(peer), POLICY_PLAIN); /* without a retry policy */
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(raw_peer_n_requests(peer), 2);
  assert_int_equal(unary.report.n_attempts, 2);
  assert_false(raw_peer_request_holds(peer, 1, PREVIOUS));
  unary_fini(&unary);
  weir_channel_destroy(channel);
  raw_peer_release(peer);
}

static void a_second_goaway_is_an_attempt_as_any_other(void **state) {
  (void)state;
  const struct raw_script script = {{{RAW_GOAWAY, NULL, 1}, {RAW_CLOSE, NULL, 0}}};
  struct raw_peer *peer = raw_peer_new(RAW_GREET, &script, 1);
  weir_channel *channel = channel_to(raw_peer_port(peer), POLICY_RETRY_ALL);
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(raw_peer_n_requests(peer), 4); /* the replay, and three that count */
  assert_false(raw_peer_request_holds(peer, 0, PREVIOUS));
  assert_false(raw_peer_request_holds(peer, 1, PREVIOUS));
  assert_true(raw_peer_request_holds(peer, 2, PREVIOUS));
  assert_true(raw_peer_request_holds(peer, 3, PREVIOUS));
  unary_fini(&unary);
  weir_channel_destroy(channel);
  raw_peer_release(peer);
}

static void a_goaway_that_let_the_stream_through_is_not_replayed(void **state) {
  (void)state;
  const struct raw_script script = {{{RAW_GOAWAY, NULL, 0}, {RAW_CLOSE, NULL, 0}}};
  struct raw_peer *peer = raw_peer_new(RAW_GREET, &script, 1);
  weir_channel *channel = channel_to(raw_peer_port(peer), POLICY_PLAIN);
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(raw_peer_n_requests(peer), 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  raw_peer_release(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_linked_core_is_one_whose_signals_are_trusted),
      cmocka_unit_test(each_answer_of_a_server_is_told_by_the_arrays),
      cmocka_unit_test(each_end_on_the_wire_is_told_by_the_arrays),
      cmocka_unit_test(a_refused_connection_is_told_by_the_arrays),
      cmocka_unit_test(a_call_cancelled_before_it_was_sent_is_told_by_the_arrays),
      cmocka_unit_test(odd_peers_are_classified_and_none_ends_the_process),
      cmocka_unit_test(a_connection_lost_before_headers_is_tried_again),
      cmocka_unit_test(what_a_goaway_refused_is_replayed_once_and_not_counted),
      cmocka_unit_test(a_second_goaway_is_an_attempt_as_any_other),
      cmocka_unit_test(a_goaway_that_let_the_stream_through_is_not_replayed),
  };
  return cmocka_run_group_tests_name("wire signals", tests, start_core, stop_core);
}
