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
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/test_server.h"

#define SILENCE MS(500) /* enough to connect, on a machine that is busy */

/* --- what the core's own arrays say --- */

/* What is seen of one call on the bare core. */
struct seen {
  grpc_status_code code;
  struct weir__wire_signals signals;
  bool tells_reset;
  uint32_t reset_code;
  bool unprocessed;
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
  seen.tells_reset = weir__wire_words_tell_reset(reply.details, &seen.reset_code);
  seen.unprocessed = weir__wire_signals_unprocessed(&seen.signals, reply.details);
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
      seen->unprocessed != known->unprocessed) {
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

/* `greeting` without steps: as a server greets. */
struct odd_row {
  struct situation known;
  struct odd_script script;
  struct odd_script greeting;
};

static const struct odd_row odd_rows[] = {
    {.known = {"Trailers-Only, odd", GRPC_STATUS_UNAVAILABLE, false, true, false, false},
     .script = ODD_SCRIPT(ODD_ONLY(14))},
    {.known = {"headers, odd, then trailers", GRPC_STATUS_UNAVAILABLE, true, true, false, false},
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_TRAILERS(ODD_STATUS(14)))},
    {.known = {"lost before headers", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     .script = ODD_SCRIPT(ODD_CLOSE)},
    {.known = {"reset before headers", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     .script = ODD_SCRIPT(ODD_ABORT)},
    {.known = {"lost amid Trailers-Only", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     .script = ODD_SCRIPT(ODD_BYTES("\x00\x00\x20\x01\x05\x00\x00\x00\x01\x88"), ODD_CLOSE)},
    {.known = {"lost after headers", GRPC_STATUS_UNAVAILABLE, true, false, false, false},
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_CLOSE)},
    {.known = {"lost after a message", GRPC_STATUS_UNAVAILABLE, true, false, false, false},
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE("half"), ODD_CLOSE)},
    {.known = {"stream refused", GRPC_STATUS_UNAVAILABLE, false, false, false, false},
     .script = ODD_SCRIPT(ODD_RST(7))},
    {.known = {"stream reset after headers", GRPC_STATUS_INTERNAL, true, false, false, false},
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_RST(2))},
    {.known = {"GOAWAY below the stream", GRPC_STATUS_UNAVAILABLE, false, false, false, true},
     .script = ODD_SCRIPT(ODD_GOAWAY(1))},
    {.known = {"GOAWAY at the stream, then lost", GRPC_STATUS_UNAVAILABLE, false, false, false,
               false},
     .script = ODD_SCRIPT(ODD_GOAWAY(0), ODD_CLOSE)},
    {.known = {"Trailers-Only after a GOAWAY", GRPC_STATUS_UNAVAILABLE, false, true, false, false},
     .script = ODD_SCRIPT(ODD_GOAWAY(0), ODD_ONLY(14))},
    {.known = {"accepted, and closed", GRPC_STATUS_UNAVAILABLE, false, false, true, false},
     .greeting = ODD_SCRIPT(ODD_CLOSE)},
    {.known = {"accepted, and silent", GRPC_STATUS_DEADLINE_EXCEEDED, false, false, true, false},
     .greeting = ODD_SCRIPT(ODD_MUTE)},
    {.known = {"headers, then silence", GRPC_STATUS_DEADLINE_EXCEEDED, true, false, false, false},
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK))},
    {.known = {"silent on the stream", GRPC_STATUS_DEADLINE_EXCEEDED, false, false, false, false}},
};

static void each_end_on_the_wire_is_told_by_the_arrays(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(odd_rows); i++) {
    const struct odd_row *row = &odd_rows[i];
    bool greets_oddly = row->greeting.steps[0].act != ODD_ACT_END;
    struct odd_peer *peer = odd_peer_new(&(struct odd_setup){.greetings = &row->greeting,
                                                             .n_greetings = greets_oddly ? 1 : 0,
                                                             .answers = &row->script,
                                                             .n_answers = 1});
    bool is_silent = row->known.code == GRPC_STATUS_DEADLINE_EXCEEDED;
    struct seen seen = see(odd_peer_port(peer), is_silent ? SILENCE : SECONDS(30));
    assert_seen(&row->known, &seen);
    odd_peer_release(peer);
  }
}

/* --- what its words say --- */

static void the_code_of_a_reset_is_told_by_the_words(void **state) {
  (void)state;
  static const uint32_t codes[] = {0, 2, 7, 8, 11, 99, UINT32_MAX};
  for (size_t i = 0; i < COUNT_OF(codes); i++) {
    const struct odd_script scripts[] = {ODD_SCRIPT(ODD_RST(codes[i])),
                                         ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_RST(codes[i]))};
    for (size_t at = 0; at < COUNT_OF(scripts); at++) {
      struct odd_peer *peer = odd_peer_answering(&scripts[at]);
      struct seen seen = see(odd_peer_port(peer), SECONDS(30));
      assert_true(seen.tells_reset);
      assert_int_equal(seen.reset_code, codes[i]);
      odd_peer_release(peer);
    }
  }
}

static void other_ends_are_not_told_as_a_reset(void **state) {
  (void)state;
  static const struct odd_script scripts[] = {
      ODD_SCRIPT(ODD_ONLY(14)), ODD_SCRIPT(ODD_CLOSE), ODD_SCRIPT(ODD_GOAWAY(1)),
      ODD_SCRIPT(ODD_LONG_TRAILERS(ODD_OK ODD_STATUS(14) "x y\n", 9000))};
  for (size_t i = 0; i < COUNT_OF(scripts); i++) {
    struct odd_peer *peer = odd_peer_answering(&scripts[i]);
    struct seen seen = see(odd_peer_port(peer), SECONDS(30));
    assert_false(seen.tells_reset);
    odd_peer_release(peer);
  }
}

/* --- a message that the core refuses --- */

static void a_message_that_the_core_refuses_is_told_by_the_arrays(void **state) {
  (void)state;
  static const struct {
    struct odd_script script;
    grpc_status_code code;
    bool refused;
  } rows[] = {
      {ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE_OF(5 * 1024 * 1024),
                  ODD_TRAILERS(ODD_STATUS(14))),
       GRPC_STATUS_RESOURCE_EXHAUSTED, true},
      {ODD_SCRIPT(ODD_HEADERS(ODD_OK "grpc-encoding gzip\n"), ODD_DATA("\1\0\0\0\5hello"),
                  ODD_TRAILERS(ODD_STATUS(14))),
       GRPC_STATUS_UNKNOWN, true},
      {ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_TRAILERS(ODD_STATUS(2))), GRPC_STATUS_UNKNOWN, false},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    struct odd_peer *peer = odd_peer_answering(&rows[i].script);
    struct seen seen = see(odd_peer_port(peer), SECONDS(30));
    assert_int_equal(seen.code, rows[i].code);
    assert_int_equal(weir__wire_signals_message_refused(&seen.signals), rows[i].refused);
    odd_peer_release(peer);
  }
}

/* --- no transport --- */

static void a_refused_connection_is_told_by_the_arrays(void **state) {
  (void)state;
  const struct situation known = {
      "connection refused", GRPC_STATUS_UNAVAILABLE, false, false, true, false};
  struct seen seen = see(odd_closed_port(), SECONDS(30));
  assert_seen(&known, &seen);
}

static void a_call_cancelled_before_it_was_sent_is_told_by_the_arrays(void **state) {
  (void)state;
  grpc_channel *channel =
      weir__bare_channel_create(odd_closed_port(), WEIR__CORE_RETRIES_OFF, NULL);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_linked_core_is_one_whose_signals_are_trusted),
      cmocka_unit_test(each_answer_of_a_server_is_told_by_the_arrays),
      cmocka_unit_test(each_end_on_the_wire_is_told_by_the_arrays),
      cmocka_unit_test(the_code_of_a_reset_is_told_by_the_words),
      cmocka_unit_test(other_ends_are_not_told_as_a_reset),
      cmocka_unit_test(a_message_that_the_core_refuses_is_told_by_the_arrays),
      cmocka_unit_test(a_refused_connection_is_told_by_the_arrays),
      cmocka_unit_test(a_call_cancelled_before_it_was_sent_is_told_by_the_arrays),
  };
  return cmocka_run_group_tests_name("wire signals", tests, start_core, stop_core);
}
