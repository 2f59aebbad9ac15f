/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "test/stack/stack_fixture.h"

/* Calls in several batches are retried until they commit. */

#define N_SENDS 3

/* The order of unary_ops. */
enum { OP_SEND_METADATA, OP_SEND_MESSAGE, OP_CLOSE, OP_RECV_METADATA, OP_RECV_MESSAGE, OP_STATUS };

/* Starts `n_ops` of a unary's operations, from `first`, as one batch; its tag is (void *)(1 +
 * first). */
static grpc_call_error start_ops(struct unary *unary, size_t first, size_t n_ops) {
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(unary, ops);
  return weir_call_start_batch(unary->call, &ops[first], n_ops, (void *)(1 + first), NULL);
}

static void start_op(struct unary *unary, size_t op) {
  assert_int_equal(start_ops(unary, op, 1), GRPC_CALL_OK);
}

static void start_all(struct unary *unary) {
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    start_op(unary, op);
  }
}

static void send_text(struct unary *unary, const char *text, bool last, void *tag) {
  grpc_slice slice = grpc_slice_from_copied_string(text);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  grpc_op ops[2];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_MESSAGE;
  ops[0].data.send_message.send_message = message;
  ops[1].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  assert_int_equal(weir_call_start_batch(unary->call, ops, last ? 2 : 1, tag, NULL), GRPC_CALL_OK);
  grpc_byte_buffer_destroy(message);
}

static size_t n_came(const struct fixture *f, const void *tag, bool *success_out) {
  size_t n = 0;
  for (size_t i = 0; i < f->n_foreign; i++) {
    if (f->foreign[i] == tag) {
      n++;
      *success_out = f->foreign_success[i];
    }
  }
  return n;
}

static bool came(const struct fixture *f, size_t op) {
  bool success = false;
  return n_came(f, (void *)(1 + op), &success) > 0;
}

/* The success of an operation's tag; fails unless it came exactly once. */
static bool came_with(const struct fixture *f, size_t op) {
  bool success = false;
  assert_int_equal(n_came(f, (void *)(1 + op), &success), 1);
  return success;
}

static void check_all_came_well(const struct fixture *f) {
  assert_int_equal(f->n_foreign, MAX_UNARY_OPS);
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    assert_true(came_with(f, op));
  }
}

static struct weir_replay_snapshot replay_snapshot(const struct fixture *f) {
  struct weir_replay_snapshot snapshot = WEIR_REPLAY_SNAPSHOT_INIT;
  assert_int_equal(weir_channel_replay_snapshot(f->channel, &snapshot), WEIR_OK);
  return snapshot;
}

static void batches_of_one_operation_each_are_retried_as_one(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("100")},
                 {AT_MS(105), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, T0 + MS(50));
  assert_true(came_with(f, OP_SEND_METADATA));
  assert_false(came(f, OP_RECV_METADATA));
  assert_false(came(f, OP_RECV_MESSAGE));
  assert_false(came(f, OP_STATUS));
  run_until_idle(f);

  check_all_came_well(f);
  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_true(unary_reply_is(&stream, "bar"));
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_true(sent(f, 2)->half_closed);
  assert_null(sent_attempt_value(sent(f, 1), "grpc-previous-rpc-attempts"));
  assert_string_equal(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"), "1");
  assert_int_equal(unary_report(&stream).n_attempts, 2);
  unary_fini(&stream);
}

static void what_an_attempt_brought_is_not_mixed_with_the_next(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("0")},
                 {AT_MS(5), EXPECT_SEND},
                 {AT_MS(9), HEADERS_THEN(GRPC_STATUS_ABORTED, "enough"), WITH_TRAILING("x", "2")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  check_all_came_well(f);
  assert_int_equal(stream.status, GRPC_STATUS_ABORTED);
  assert_true(unary_details_are(&stream, "enough"));
  assert_int_equal(stream.trailing_metadata.count, 1);
  unary_fini(&stream);
}

static void headers_commit_a_stream(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(2), HEADERS},
                 {AT_MS(5), HEADERS_THEN(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, T0 + MS(3));
  assert_true(came_with(f, OP_RECV_METADATA));
  run_until_idle(f);

  check_all_came_well(f);
  assert_int_equal(stream.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_COMMITTED);
  assert_int_equal(f->transport.n_sent, 1);
  unary_fini(&stream);
}

static void headers_that_nobody_asks_for_commit_all_the_same(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(2), HEADERS},
                 {AT_MS(5), HEADERS_THEN(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct unary stream;
  unary_init(f, &stream);
  assert_int_equal(start_ops(&stream, OP_SEND_METADATA, N_SENDS), GRPC_CALL_OK);
  start_op(&stream, OP_STATUS);
  run_until_idle(f);

  assert_true(came_with(f, OP_STATUS));
  assert_int_equal(stream.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(f->transport.n_sent, 1);
  /* what the engine asked for is the application's, if it wants it */
  start_op(&stream, OP_RECV_METADATA);
  start_op(&stream, OP_RECV_MESSAGE);
  run_until_idle(f);
  assert_true(came_with(f, OP_RECV_METADATA));
  assert_true(came_with(f, OP_RECV_MESSAGE));
  assert_null(stream.reply);
  unary_fini(&stream);
}

static void a_stream_that_only_asks_for_its_status_is_retried(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("0")},
                 {AT_MS(5), EXPECT_SEND}, {AT_MS(9), HEADERS_THEN(GRPC_STATUS_OK, "")}));
  struct unary stream;
  unary_init(f, &stream);
  assert_int_equal(start_ops(&stream, OP_SEND_METADATA, N_SENDS), GRPC_CALL_OK);
  start_op(&stream, OP_STATUS);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 2);
  assert_int_equal(stream.status, GRPC_STATUS_OK);
  unary_fini(&stream);
}

static void the_status_is_asked_for_where_the_application_has_not(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("0")},
                 {AT_MS(5), EXPECT_SEND},
                 {AT_MS(9), TRAILERS_ONLY(GRPC_STATUS_INVALID_ARGUMENT, "xyz")}));
  struct unary stream;
  unary_init(f, &stream);
  assert_int_equal(start_ops(&stream, OP_SEND_METADATA, N_SENDS + 1), GRPC_CALL_OK);
  run_until_idle(f);
  assert_true(came_with(f, OP_SEND_METADATA));
  assert_int_equal(f->transport.n_sent, 2);

  /* and is kept for when it does */
  start_op(&stream, OP_RECV_MESSAGE);
  start_op(&stream, OP_STATUS);
  run_until_idle(f);
  assert_true(came_with(f, OP_RECV_MESSAGE));
  assert_true(came_with(f, OP_STATUS));
  assert_int_equal(stream.status, GRPC_STATUS_INVALID_ARGUMENT);
  assert_true(unary_details_are(&stream, "xyz"));
  unary_fini(&stream);
}

static void what_is_sent_during_a_backoff_goes_out_behind_what_was_sent_before(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("100")},
                 {AT_MS(105), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  unary_add_metadata(f, &stream, "x-a", "1");
  assert_int_equal(start_ops(&stream, OP_RECV_METADATA, 3), GRPC_CALL_OK);
  start_op(&stream, OP_SEND_METADATA);
  run_until(f, T0);
  send_text(&stream, "m1", false, (void *)21);
  run_until(f, T0 + MS(1));
  send_text(&stream, "m2", false, (void *)22);
  run_until(f, T0 + MS(50));
  send_text(&stream, "m3", true, (void *)23);
  run_until(f, T0 + MS(60));
  bool success = false;
  assert_int_equal(n_came(f, (void *)23, &success), 0);
  run_until_idle(f);

  assert_int_equal(n_came(f, (void *)21, &success), 1);
  assert_int_equal(n_came(f, (void *)22, &success), 1);
  assert_int_equal(n_came(f, (void *)23, &success), 1);
  assert_true(success);
  assert_true(came_with(f, OP_RECV_METADATA));
  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_int_equal(sent(f, 1)->n_messages, 2);
  assert_int_equal(sent(f, 2)->n_messages, 3);
  assert_string_equal(sent(f, 2)->message, "m1m2m3");
  assert_true(sent(f, 2)->half_closed);
  assert_string_equal(sent_attempt_value(sent(f, 2), "x-a"), "1");
  unary_fini(&stream);
}

/* More than a call has room for itself, and more than twice that. */
static void as_many_messages_as_there_are_go_out_again_in_order(void **state) {
  struct fixture *f = *state;
  enum { N_MESSAGES = 11 };
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(50), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("100")},
                 {AT_MS(150), EXPECT_SEND}, {AT_MS(160), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  assert_int_equal(start_ops(&stream, OP_RECV_METADATA, 3), GRPC_CALL_OK);
  start_op(&stream, OP_SEND_METADATA);
  run_until(f, T0);
  for (int i = 0; i < N_MESSAGES; i++) {
    const char text[] = {(char)('a' + i), '\0'};
    send_text(&stream, text, i + 1 == N_MESSAGES, (void *)(uintptr_t)(21 + i));
    run_until(f, T0 + MS(1 + i));
  }
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_int_equal(sent(f, 1)->n_messages, N_MESSAGES);
  assert_int_equal(sent(f, 2)->n_messages, N_MESSAGES);
  assert_string_equal(sent(f, 2)->message, "abcdefghijk");
  assert_true(sent(f, 2)->half_closed);
  unary_fini(&stream);
}

static void a_stream_with_more_than_replay_bytes_is_sent_whole_and_once(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 4;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("0")}));
  struct unary stream;
  unary_init(f, &stream);
  start_op(&stream, OP_SEND_METADATA);
  run_until(f, T0);
  send_text(&stream, "1234", false, (void *)21);
  run_until(f, T0);
  send_text(&stream, "5", true, (void *)22);
  assert_int_equal(start_ops(&stream, OP_RECV_METADATA, 3), GRPC_CALL_OK);
  run_until_idle(f);

  assert_int_equal(replay_snapshot(f).n_overflows, 1);
  assert_int_equal(f->transport.n_sent, 1);
  assert_string_equal(sent(f, 1)->message, "12345");
  assert_int_equal(stream.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_NOT_REPLAYABLE);
  unary_fini(&stream);
}

static void a_stream_with_exactly_replay_bytes_is_retried(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 5;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("0")},
                 {AT_MS(5), EXPECT_SEND}, {AT_MS(9), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  start_op(&stream, OP_SEND_METADATA);
  run_until(f, T0);
  send_text(&stream, "1234", false, (void *)21);
  run_until(f, T0);
  send_text(&stream, "5", true, (void *)22);
  assert_int_equal(start_ops(&stream, OP_RECV_METADATA, 3), GRPC_CALL_OK);
  run_until_idle(f);

  assert_string_equal(sent(f, 2)->message, "12345");
  assert_int_equal(stream.status, GRPC_STATUS_OK);
  unary_fini(&stream);
}

static void too_much_during_a_backoff_makes_the_next_attempt_the_last(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 4;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "one"), PUSHBACK("100")},
                 {AT_MS(105), EXPECT_SEND},
                 {AT_MS(110), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "two")}));
  struct unary stream;
  unary_init(f, &stream);
  start_op(&stream, OP_SEND_METADATA);
  assert_int_equal(start_ops(&stream, OP_RECV_METADATA, 3), GRPC_CALL_OK);
  run_until(f, T0 + MS(50));
  send_text(&stream, "12345", true, (void *)21);
  run_until_idle(f);

  bool success = false;
  assert_int_equal(n_came(f, (void *)21, &success), 1);
  assert_true(success);
  assert_string_equal(sent(f, 2)->message, "12345");
  assert_int_equal(stream.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_details_are(&stream, "two"));
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_NOT_REPLAYABLE);
  unary_fini(&stream);
}

static void all_calls_of_a_channel_share_what_they_keep(void **state) {
  struct fixture *f = *state;
  f->retry.channel_replay_bytes = 5;
  fixture_open_raw(f);
  struct wire_answer answer = answer_unavailable;
  answer.trailing[0] = (struct wire_pair){"grpc-retry-pushback-ms", "0"};
  scripted_transport_always(&f->transport, MS(5), answer);
  struct unary first;
  struct unary second;
  unary_init(f, &first);
  unary_init(f, &second);
  start_all(&first);
  start_all(&second);
  run_until_idle(f);
  assert_int_equal(unary_report(&first).reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  assert_int_equal(unary_report(&second).reason, WEIR_REASON_NOT_REPLAYABLE);
  unary_fini(&first);
  unary_fini(&second);

  /* and give it back */
  struct unary third;
  unary_init(f, &third);
  f->n_foreign = 0;
  start_all(&third);
  run_until_idle(f);
  assert_int_equal(unary_report(&third).reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  unary_fini(&third);
  struct weir_replay_snapshot snapshot = replay_snapshot(f);
  assert_int_equal(snapshot.n_overflows, 1);
  assert_int_equal(snapshot.n_bytes, 0);
  assert_int_equal(snapshot.max_bytes, 5);
  snapshot.size = sizeof snapshot.size - 1;
  assert_int_equal(weir_channel_replay_snapshot(f->channel, &snapshot),
                   WEIR_ERROR_INVALID_ARGUMENT);
}

/* --- how it ends in a backoff --- */

static void start_into_backoff(struct fixture *f, struct unary *stream) {
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("1000")}));
  unary_init(f, stream);
  start_all(stream);
  run_until(f, T0 + MS(50));
  assert_false(came(f, OP_STATUS));
}

static void cancelling_ends_a_streams_backoff_at_once(void **state) {
  struct fixture *f = *state;
  struct unary stream;
  start_into_backoff(f, &stream);
  weir_call_cancel_with_status(stream.call, GRPC_STATUS_FAILED_PRECONDITION, "x", NULL);
  run_until_idle(f);

  assert_int_equal(f->clock.now_ns, T0 + MS(50));
  assert_int_equal(f->n_foreign, MAX_UNARY_OPS);
  assert_false(came_with(f, OP_RECV_METADATA));
  assert_false(came_with(f, OP_RECV_MESSAGE));
  assert_true(came_with(f, OP_STATUS));
  assert_int_equal(stream.status, GRPC_STATUS_FAILED_PRECONDITION);
  assert_true(unary_details_are(&stream, "x"));
  assert_int_equal(stream.trailing_metadata.count, 0);
  unary_fini(&stream);
}

static void a_stream_let_go_in_its_backoff_gives_all_its_tags(void **state) {
  struct fixture *f = *state;
  struct unary stream;
  start_into_backoff(f, &stream);
  weir_call_unref(stream.call);
  stream.call = NULL;
  run_until_idle(f);

  assert_int_equal(f->n_foreign, MAX_UNARY_OPS);
  assert_int_equal(stream.status, GRPC_STATUS_CANCELLED);
  unary_fini(&stream);
}

static void shutdown_ends_a_streams_backoff_with_its_last_status(void **state) {
  struct fixture *f = *state;
  struct unary stream;
  start_into_backoff(f, &stream);
  weir_completion_queue_shutdown(f->queue);
  run_until_idle(f);

  assert_int_equal(f->clock.now_ns, T0 + MS(50));
  assert_true(f->saw_shutdown);
  check_all_came_well(f);
  assert_int_equal(stream.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_SHUTDOWN);
  unary_fini(&stream);
}

static void a_batch_after_the_end_of_a_backoff_fails_at_once(void **state) {
  struct fixture *f = *state;
  struct unary stream;
  start_into_backoff(f, &stream);
  weir_call_cancel(stream.call, NULL);
  run_until_idle(f);
  f->n_foreign = 0;
  start_op(&stream, OP_RECV_MESSAGE);
  run_until_idle(f);

  assert_false(came_with(f, OP_RECV_MESSAGE));
  assert_null(stream.reply);
  unary_fini(&stream);
}

static void a_message_above_the_limit_ends_a_stream_with_its_backoff(void **state) {
  struct fixture *f = *state;
  f->method.max_request_bytes = 3;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("100")}));
  struct unary stream;
  unary_init(f, &stream);
  start_op(&stream, OP_SEND_METADATA);
  start_op(&stream, OP_STATUS);
  run_until(f, T0 + MS(50));
  send_text(&stream, "four", false, (void *)100);
  run_until_idle(f);

  bool success = true;
  assert_int_equal(n_came(f, (void *)100, &success), 1);
  assert_false(success);
  assert_int_equal(f->clock.now_ns, T0 + MS(105));
  assert_int_equal(f->transport.n_sent, 1);
  assert_int_equal(stream.status, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(unary_report(&stream).origin, WEIR_ORIGIN_LOCAL_LIMIT);
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_LIMIT);
  unary_fini(&stream);
}

/* --- what the server never saw --- */

static void a_stream_that_the_server_never_saw_is_replayed_at_once(void **state) {
  struct fixture *f = *state;
  f->method.retry.max_attempts = 1;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), UNPROCESSED}, {AT_MS(5), EXPECT_SEND},
                 {AT_MS(9), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  check_all_came_well(f);
  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_null(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"));
  unary_fini(&stream);
}

static void it_is_replayed_also_when_only_the_status_was_asked_for(void **state) {
  struct fixture *f = *state;
  f->method.retry.max_attempts = 1;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), UNPROCESSED}, {AT_MS(5), EXPECT_SEND},
                 {AT_MS(9), HEADERS_THEN(GRPC_STATUS_OK, "")}));
  struct unary stream;
  unary_init(f, &stream);
  assert_int_equal(start_ops(&stream, OP_SEND_METADATA, N_SENDS), GRPC_CALL_OK);
  start_op(&stream, OP_STATUS);
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_OK);
  unary_fini(&stream);
}

static void sends_that_fail_are_held_until_another_attempt_has_sent_them(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), CONNECT_FAIL("refused")},
                 {AT_MS(102), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  start_op(&stream, OP_SEND_METADATA);
  run_until(f, T0 + MS(2));
  start_op(&stream, OP_SEND_MESSAGE); /* in vain: the attempt is over */
  run_until(f, T0 + MS(50));
  assert_false(came(f, OP_SEND_MESSAGE));
  run_until(f, T0 + MS(102));
  assert_true(came_with(f, OP_SEND_MESSAGE));
  start_op(&stream, OP_CLOSE);
  assert_int_equal(start_ops(&stream, OP_RECV_METADATA, 3), GRPC_CALL_OK);
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_true(sent(f, 2)->half_closed);
  unary_fini(&stream);
}

static void sends_that_fail_for_good_are_told_so(void **state) {
  struct fixture *f = *state;
  f->method.retry.max_attempts = 1;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), CONNECT_FAIL("refused")}));
  struct unary stream;
  unary_init(f, &stream);
  start_op(&stream, OP_SEND_METADATA);
  run_until(f, T0 + MS(2));
  start_op(&stream, OP_SEND_MESSAGE);
  run_until_idle(f);
  assert_false(came_with(f, OP_SEND_MESSAGE));
  start_op(&stream, OP_STATUS);
  run_until_idle(f);

  assert_true(came_with(f, OP_STATUS));
  assert_int_equal(stream.status, GRPC_STATUS_UNAVAILABLE);
  unary_fini(&stream);
}

static void a_limit_of_attempts_binds_streams_too(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct wire_answer answer = answer_unavailable;
  answer.trailing[0] = (struct wire_pair){"grpc-retry-pushback-ms", "0"};
  scripted_transport_always(&f->transport, MS(1), answer);
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  check_all_came_well(f);
  assert_int_equal(f->transport.n_sent, 4);
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  unary_fini(&stream);
}

static void a_refusal_of_the_core_in_a_replay_ends_the_call(void **state) {
  for (size_t nth = 7; nth < 13; nth++) {
    struct fixture *f = *state;
    if (nth > 7) {
      assert_int_equal(fixture_teardown(state), 0);
      assert_int_equal(fixture_setup(state), 0);
      f = *state;
    }
    fixture_open_raw(f);
    struct wire_answer answer = answer_unavailable;
    answer.trailing[0] = (struct wire_pair){"grpc-retry-pushback-ms", "0"};
    scripted_transport_always(&f->transport, MS(1), answer);
    f->transport.start_fails_at = nth;
    struct unary stream;
    unary_init(f, &stream);
    start_all(&stream);
    run_until_idle(f);

    assert_int_equal(f->n_foreign, MAX_UNARY_OPS);
    assert_true(came_with(f, OP_STATUS));
    unary_fini(&stream);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(batches_of_one_operation_each_are_retried_as_one),
      TEST(what_an_attempt_brought_is_not_mixed_with_the_next),
      TEST(headers_commit_a_stream),
      TEST(headers_that_nobody_asks_for_commit_all_the_same),
      TEST(a_stream_that_only_asks_for_its_status_is_retried),
      TEST(the_status_is_asked_for_where_the_application_has_not),
      TEST(what_is_sent_during_a_backoff_goes_out_behind_what_was_sent_before),
      TEST(as_many_messages_as_there_are_go_out_again_in_order),
      TEST(a_stream_with_more_than_replay_bytes_is_sent_whole_and_once),
      TEST(a_stream_with_exactly_replay_bytes_is_retried),
      TEST(too_much_during_a_backoff_makes_the_next_attempt_the_last),
      TEST(all_calls_of_a_channel_share_what_they_keep),
      TEST(cancelling_ends_a_streams_backoff_at_once),
      TEST(a_stream_let_go_in_its_backoff_gives_all_its_tags),
      TEST(shutdown_ends_a_streams_backoff_with_its_last_status),
      TEST(a_batch_after_the_end_of_a_backoff_fails_at_once),
      TEST(a_message_above_the_limit_ends_a_stream_with_its_backoff),
      TEST(a_stream_that_the_server_never_saw_is_replayed_at_once),
      TEST(it_is_replayed_also_when_only_the_status_was_asked_for),
      TEST(sends_that_fail_are_held_until_another_attempt_has_sent_them),
      TEST(sends_that_fail_for_good_are_told_so),
      TEST(a_limit_of_attempts_binds_streams_too),
      TEST(a_refusal_of_the_core_in_a_replay_ends_the_call),
  };
  return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
