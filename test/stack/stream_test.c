/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/support/time.h>

#include "test/stack/stack_fixture.h"

/* Calls in several batches pass through all layers; replay_test has what is done twice. */

/* The order of unary_ops. */
enum { OP_SEND_METADATA, OP_SEND_MESSAGE, OP_CLOSE, OP_RECV_METADATA, OP_RECV_MESSAGE, OP_STATUS };

/* Starts one of a unary's operations as a batch of its own; its tag is (void *)(1 + op). */
static grpc_call_error start_op(struct unary *unary, size_t op) {
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(unary, ops);
  return weir_call_start_batch(unary->call, &ops[op], 1, (void *)(1 + op), NULL);
}

static void start_all(struct unary *unary) {
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    assert_int_equal(start_op(unary, op), GRPC_CALL_OK);
  }
}

/* The success of an operation's tag; fails unless it came exactly once. */
static bool came_with(const struct fixture *f, size_t op) {
  size_t n = 0;
  bool success = false;
  for (size_t i = 0; i < f->n_foreign; i++) {
    if (f->foreign[i] == (void *)(1 + op)) {
      n++;
      success = f->foreign_success[i];
    }
  }
  assert_int_equal(n, 1);
  return success;
}

static void receive_again(struct unary *unary) {
  if (unary->reply != NULL) {
    grpc_byte_buffer_destroy(unary->reply);
    unary->reply = NULL;
  }
  assert_int_equal(start_op(unary, OP_RECV_MESSAGE), GRPC_CALL_OK);
}

static void each_batch_passes_through(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), HEADERS, WITH_INITIAL("x-a", "1")},
                 {AT_MS(9), MESSAGE_THEN("bar", GRPC_STATUS_OK, "")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, T0 + MS(5));
  assert_true(came_with(f, OP_RECV_METADATA));
  assert_int_equal(stream.initial_metadata.count, 1);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 6);
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    assert_true(came_with(f, op));
  }
  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_true(unary_reply_is(&stream, "bar"));
  assert_string_equal(sent(f, 1)->message, "foo");
  assert_int_equal(unary_report(&stream).n_attempts, 1);
  unary_fini(&stream);
}

static void a_stream_has_no_deadline_unless_it_is_given_one(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(3600000), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_int_equal(sent(f, 1)->deadline_at_ns, WEIR_NO_DEADLINE);
  assert_null(sent_attempt_value(sent(f, 1), "weir-budget-us"));
  unary_fini(&stream);
}

static void the_policy_may_limit_streams(void **state) {
  struct fixture *f = *state;
  f->deadline.max_stream_timeout_ns = SECONDS(7);
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  assert_int_equal(f->clock.now_ns, T0 + SECONDS(7));
  assert_int_equal(stream.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  unary_fini(&stream);
}

static void messages_come_before_the_failure_that_follows_them(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), MESSAGE("one")}, {AT_MS(2), MESSAGE("two")},
                 {AT_MS(3), HEADERS_THEN(GRPC_STATUS_INVALID_ARGUMENT, "secret")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, T0 + MS(1));
  assert_true(unary_reply_is(&stream, "one"));
  receive_again(&stream);
  run_until(f, T0 + MS(2));
  assert_true(unary_reply_is(&stream, "two"));
  receive_again(&stream);
  f->n_foreign = 0;
  run_until_idle(f);

  assert_true(came_with(f, OP_RECV_MESSAGE)); /* the end of the stream */
  assert_null(stream.reply);
  assert_true(came_with(f, OP_STATUS));
  assert_int_equal(stream.status, GRPC_STATUS_INTERNAL);
  assert_false(unary_can_see(&stream, "secret"));
  assert_int_equal(f->log.n_records, 1);
  unary_fini(&stream);
}

/* What the application has not been handed when the failure becomes known, it does not get. */
static void what_comes_with_the_failure_is_dropped(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  const struct wire_answer answer = {.what = WIRE_MESSAGE_THEN,
                                     .status = GRPC_STATUS_ABORTED,
                                     .text = "secret",
                                     .body = "secret",
                                     .initial = {{"x", "secret"}}};
  scripted_transport_always(&f->transport, 0, answer);
  struct unary stream;
  unary_init(f, &stream);
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&stream, ops);
  assert_int_equal(start_op(&stream, OP_SEND_METADATA), GRPC_CALL_OK);
  assert_int_equal(weir_call_start_batch(stream.call, &ops[OP_RECV_METADATA], 3, (void *)9, NULL),
                   GRPC_CALL_OK);
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_ABORTED);
  assert_null(stream.reply);
  assert_false(unary_can_see(&stream, "secret"));
  unary_fini(&stream);
}

/* --- what ends here --- */

static void check_ended_here(struct fixture *f, const struct unary *stream, grpc_status_code code) {
  assert_int_equal(f->n_foreign, 6);
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    assert_int_equal(came_with(f, op), op == OP_STATUS);
  }
  assert_int_equal(stream->status, code);
  assert_null(stream->reply);
}

static void a_stream_whose_time_is_up_sends_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  struct unary stream;
  unary_init_with(f, &stream, &(struct unary_options){.deadline_at_ns = T0 - 1});
  start_all(&stream);
  assert_int_equal(f->n_foreign, 0);
  run_until_idle(f);

  check_ended_here(f, &stream, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(f->transport.n_created, 0);
  unary_fini(&stream);
}

static void a_stream_cancelled_before_it_starts_sends_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  struct unary stream;
  unary_init(f, &stream);
  weir_call_cancel(stream.call, NULL);
  start_all(&stream);
  run_until_idle(f);

  check_ended_here(f, &stream, GRPC_STATUS_CANCELLED);
  assert_int_equal(f->transport.n_created, 0);
  unary_fini(&stream);
}

static void trip_with_one_probe(struct fixture *f) {
  f->breaker.min_requests = 1;
  f->breaker.probes = 1;
  f->breaker.open_for_ns = SECONDS(10);
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

static void an_open_breaker_refuses_streams(void **state) {
  struct fixture *f = *state;
  trip_with_one_probe(f);
  size_t n_created = f->transport.n_created;
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  check_ended_here(f, &stream, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(f->transport.n_created, n_created);
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_BREAKER_OPEN);
  unary_fini(&stream);
}

static void a_cancelled_stream_ends_all_its_batches(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, T0 + MS(5));
  weir_call_cancel_with_status(stream.call, GRPC_STATUS_ABORTED, "enough", NULL);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 6);
  assert_true(came_with(f, OP_SEND_METADATA));
  assert_false(came_with(f, OP_RECV_METADATA));
  assert_true(came_with(f, OP_STATUS));
  assert_int_equal(stream.status, GRPC_STATUS_ABORTED);
  assert_true(unary_details_are(&stream, "enough"));
  assert_int_equal(unary_report(&stream).origin, WEIR_ORIGIN_LOCAL_CANCEL);
  unary_fini(&stream);
}

static void a_stream_let_go_gives_all_its_tags(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  weir_call_unref(stream.call);
  stream.call = NULL;
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 6);
  assert_int_equal(stream.status, GRPC_STATUS_CANCELLED);
  unary_fini(&stream);
}

/* --- the breaker's view --- */

static void a_streams_first_message_is_its_success(void **state) {
  struct fixture *f = *state;
  trip_with_one_probe(f);
  f->clock.now_ns += SECONDS(10);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), MESSAGE("one")},
                 {AT_MS(9), HEADERS_THEN(GRPC_STATUS_OK, "")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, f->clock.now_ns + MS(4));
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_HALF_OPEN);
  run_until(f, f->clock.now_ns + MS(1));
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_OK);
  assert_int_equal(fixture_breaker(f).n_failures, 0);
  unary_fini(&stream);
}

/* Its first message has closed the breaker, so its end is of a period that is over. */
static void a_probing_stream_that_fails_after_the_breaker_has_closed_is_none(void **state) {
  struct fixture *f = *state;
  trip_with_one_probe(f);
  f->clock.now_ns += SECONDS(10);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), MESSAGE("one")},
                 {AT_MS(9), HEADERS_THEN(GRPC_STATUS_UNAVAILABLE, "")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(fixture_breaker(f).n_requests, 0);
  assert_int_equal(fixture_breaker(f).n_trips, 1);
  unary_fini(&stream);
}

static void a_stream_that_fails_later_is_a_failure_too(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), MESSAGE("one")},
                 {AT_MS(9), HEADERS_THEN(GRPC_STATUS_UNAVAILABLE, "")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, T0 + MS(5));
  assert_int_equal(fixture_breaker(f).n_requests, 1);
  assert_int_equal(fixture_breaker(f).n_failures, 0);
  run_until_idle(f);

  assert_int_equal(fixture_breaker(f).n_failures, 1);
  assert_int_equal(unary_report(&stream).reason, WEIR_REASON_COMMITTED);
  unary_fini(&stream);
}

static void a_stream_whose_status_nobody_asks_for_gives_its_probe_back(void **state) {
  struct fixture *f = *state;
  trip_with_one_probe(f);
  f->clock.now_ns += SECONDS(10);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary stream;
  unary_init(f, &stream);
  assert_int_equal(start_op(&stream, OP_SEND_METADATA), GRPC_CALL_OK);
  run_until_idle(f);
  unary_fini(&stream);

  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_HALF_OPEN);
  scripted_transport_always(&f->transport, 0, answer_ok);
  run_calls(f, 1);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
}

/* --- one at a time --- */

static void an_operation_under_way_is_not_started_again(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), REPLY("bar")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  for (size_t op = 0; op < MAX_UNARY_OPS; op++) {
    assert_int_equal(start_op(&stream, op), GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  }
  run_until_idle(f);
  assert_int_equal(f->n_foreign, 6);

  /* what may come again may; what a call has once is used up */
  assert_int_equal(start_op(&stream, OP_STATUS), GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  assert_int_equal(start_op(&stream, OP_CLOSE), GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  receive_again(&stream);
  f->n_foreign = 0;
  run_until_idle(f);
  assert_true(came_with(f, OP_RECV_MESSAGE));
  assert_null(stream.reply);
  unary_fini(&stream);
}

/* A committed stream with one message received. */
static void start_committed(struct fixture *f, struct unary *stream) {
  unary_init(f, stream);
  start_all(stream);
  run_until(f, T0 + MS(1));
  assert_true(unary_reply_is(stream, "one"));
  f->n_foreign = 0;
}

static void a_refused_message_leaves_the_one_under_way_alone(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), MESSAGE("one")}, {AT_MS(2), MESSAGE("two")},
                 {AT_MS(3), HEADERS_THEN(GRPC_STATUS_OK, "")}));
  struct unary stream;
  start_committed(f, &stream);
  receive_again(&stream);
  grpc_byte_buffer *elsewhere = NULL;
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = &elsewhere;
  assert_int_equal(weir_call_start_batch(stream.call, &op, 1, (void *)77, NULL),
                   GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  grpc_op both[2] = {op, op};
  both[0].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  assert_int_equal(weir_call_start_batch(stream.call, both, 2, (void *)77, NULL),
                   GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  run_until(f, T0 + MS(2));

  assert_true(came_with(f, OP_RECV_MESSAGE));
  assert_true(unary_reply_is(&stream, "two"));
  assert_null(elsewhere);
  assert_int_equal(f->n_foreign, 1);
  run_until_idle(f);
  unary_fini(&stream);
}

static void a_message_that_the_core_refuses_may_be_started_again(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), MESSAGE("one")}, {AT_MS(2), MESSAGE("two")},
                 {AT_MS(3), HEADERS_THEN(GRPC_STATUS_OK, "")}));
  struct unary stream;
  start_committed(f, &stream);
  grpc_byte_buffer_destroy(stream.reply);
  stream.reply = NULL;
  f->transport.start_fails_at = f->transport.n_start_batches + 1;
  assert_int_equal(start_op(&stream, OP_RECV_MESSAGE), GRPC_CALL_ERROR);
  receive_again(&stream);
  run_until(f, T0 + MS(2));

  assert_true(came_with(f, OP_RECV_MESSAGE));
  assert_true(unary_reply_is(&stream, "two"));
  run_until_idle(f);
  unary_fini(&stream);
}

/* Nothing of a call that goes on is owed, and the queue takes no more. */
static void a_message_after_the_queues_end_is_refused(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), MESSAGE("one")}));
  struct unary stream;
  unary_init(f, &stream);
  for (size_t op = 0; op < OP_STATUS; op++) {
    assert_int_equal(start_op(&stream, op), GRPC_CALL_OK);
  }
  run_until(f, T0 + MS(1));
  assert_true(unary_reply_is(&stream, "one"));
  grpc_byte_buffer_destroy(stream.reply);
  stream.reply = NULL;
  weir_completion_queue_shutdown(f->queue);
  run_until_idle(f);
  assert_true(f->saw_shutdown);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(start_op(&stream, OP_RECV_MESSAGE), GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
  }
  unary_fini(&stream);
}

static void a_message_that_is_awaited_when_a_boundary_call_fails_is_dropped(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), MESSAGE("one")},
                 {AT_MS(2), MESSAGE_THEN("secret", GRPC_STATUS_ABORTED, "secret")}));
  struct unary stream;
  start_committed(f, &stream);
  receive_again(&stream);
  /* Both events are there; the status is read first. */
  fake_clock_advance_to(&f->clock, T0 + MS(2));
  scripted_transport_happen(&f->transport);
  scripted_transport_turn(weir_completion_queue_core(f->queue));
  run_until_idle(f);

  assert_int_equal(stream.status, GRPC_STATUS_ABORTED);
  assert_null(stream.reply);
  assert_false(unary_can_see(&stream, "secret"));
  unary_fini(&stream);
}

struct drain_at_end {
  struct fixture *f;
  size_t n_ends;
  grpc_completion_type type;
};

/* Runs in the midst of a call's end, and does what another thread may do meanwhile. */
static void drain_meanwhile(void *context, const struct weir_log_record *record) {
  struct drain_at_end *meanwhile = context;
  (void)record;
  meanwhile->n_ends++;
  meanwhile->type =
      weir_completion_queue_next(meanwhile->f->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL).type;
}

static void what_comes_while_a_boundary_call_ends_waits_for_the_end(void **state) {
  struct fixture *f = *state;
  struct drain_at_end meanwhile = {.f = f};
  f->log.base.context = &meanwhile;
  f->log.base.write = drain_meanwhile;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(2), MESSAGE_THEN("secret", GRPC_STATUS_ABORTED, "secret"),
                  WITH_INITIAL("x-where", "secret")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until(f, T0 + MS(1));
  /* The status, then the message, which binds the call and so ends it, then the headers. */
  fake_clock_advance_to(&f->clock, T0 + MS(2));
  scripted_transport_happen(&f->transport);
  scripted_transport_turn(weir_completion_queue_core(f->queue));
  run_until_idle(f);

  assert_int_equal(meanwhile.n_ends, 1);
  assert_int_equal(meanwhile.type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(f->n_foreign, 6);
  assert_int_equal(stream.status, GRPC_STATUS_ABORTED);
  assert_false(unary_can_see(&stream, "secret"));
  unary_fini(&stream);
}

static void nothing_more_comes_from_a_unary_call_that_has_ended(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_run(f, &unary);
  receive_again(&unary);
  run_until_idle(f);

  assert_null(unary.reply);
  assert_int_equal(f->n_foreign, 1);
  unary_fini(&unary);
}

/* --- sizes --- */

static void a_message_above_the_policys_limit_ends_a_stream(void **state) {
  struct fixture *f = *state;
  f->method.max_response_bytes = 3;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), MESSAGE("four")}));
  struct unary stream;
  unary_init(f, &stream);
  start_all(&stream);
  run_until_idle(f);

  assert_null(stream.reply);
  assert_false(came_with(f, OP_RECV_MESSAGE));
  assert_int_equal(stream.status, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(unary_report(&stream).origin, WEIR_ORIGIN_LOCAL_LIMIT);
  unary_fini(&stream);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(each_batch_passes_through),
      TEST(a_stream_has_no_deadline_unless_it_is_given_one),
      TEST(the_policy_may_limit_streams),
      TEST(messages_come_before_the_failure_that_follows_them),
      TEST(what_comes_with_the_failure_is_dropped),
      TEST(a_stream_whose_time_is_up_sends_nothing),
      TEST(a_stream_cancelled_before_it_starts_sends_nothing),
      TEST(an_open_breaker_refuses_streams),
      TEST(a_cancelled_stream_ends_all_its_batches),
      TEST(a_stream_let_go_gives_all_its_tags),
      TEST(a_streams_first_message_is_its_success),
      TEST(a_probing_stream_that_fails_after_the_breaker_has_closed_is_none),
      TEST(a_stream_that_fails_later_is_a_failure_too),
      TEST(a_stream_whose_status_nobody_asks_for_gives_its_probe_back),
      TEST(an_operation_under_way_is_not_started_again),
      TEST(a_refused_message_leaves_the_one_under_way_alone),
      TEST(a_message_that_the_core_refuses_may_be_started_again),
      TEST(a_message_after_the_queues_end_is_refused),
      TEST(a_message_that_is_awaited_when_a_boundary_call_fails_is_dropped),
      TEST(what_comes_while_a_boundary_call_ends_waits_for_the_end),
      TEST(nothing_more_comes_from_a_unary_call_that_has_ended),
      TEST(a_message_above_the_policys_limit_ends_a_stream),
  };
  return cmocka_run_group_tests_name("stream", tests, NULL, NULL);
}
