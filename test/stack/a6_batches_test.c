/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "test/stack/batches.h"

/* Whatever batches an application makes of a call, each comes back once across its attempts, with
 * what the last attempt brought. */

#define MAX_STEPS 6

/* The first attempt is sent at 0, and fails at 10 ms. */
struct step {
  int64_t at_ns;
  enum batched_op ops[N_BATCHED_OPS + 1];
};

struct shape {
  const char *why;
  int64_t second_at_ns; /* when the second attempt is sent; it is answered 20 ms later */
  struct step steps[MAX_STEPS];
};

#define AT(n) MS(n)

static const struct shape shapes[] = {
    {"all six in one", AT(110), {{0, {SEND_ALL, RECV_ALL}}}},
    {"one each",
     AT(110),
     {{0, {SEND_METADATA}},
      {0, {SEND_MESSAGE}},
      {0, {SEND_CLOSE}},
      {0, {RECV_METADATA}},
      {0, {RECV_MESSAGE}},
      {0, {RECV_STATUS}}}},
    {"receives before sends",
     AT(110),
     {{0, {RECV_STATUS, RECV_MESSAGE, RECV_METADATA}}, {0, {SEND_ALL}}}},
    {"sends and receives mixed",
     AT(110),
     {{0, {SEND_METADATA, RECV_METADATA}},
      {0, {RECV_MESSAGE, SEND_MESSAGE}},
      {0, {SEND_CLOSE, RECV_STATUS}}}},
    {"a message later",
     AT(110),
     {{0, {SEND_METADATA, RECV_METADATA}},
      {AT(5), {SEND_MESSAGE, SEND_CLOSE}},
      {AT(6), {RECV_MESSAGE, RECV_STATUS}}}},
    {"the status last, in the backoff",
     AT(110),
     {{0, {SEND_ALL}}, {0, {RECV_METADATA, RECV_MESSAGE}}, {AT(50), {RECV_STATUS}}}},
    {"the status last, in the second attempt",
     AT(110),
     {{0, {SEND_ALL}}, {0, {RECV_METADATA, RECV_MESSAGE}}, {AT(115), {RECV_STATUS}}}},
    {"the status last, when all is over",
     AT(110),
     {{0, {SEND_ALL}}, {0, {RECV_METADATA, RECV_MESSAGE}}, {AT(200), {RECV_STATUS}}}},
    {"a message pending across attempts",
     AT(110),
     {{0, {SEND_ALL}}, {0, {RECV_MESSAGE}}, {AT(50), {RECV_METADATA}}, {AT(115), {RECV_STATUS}}}},
    {"the headers never asked for",
     AT(110),
     {{0, {SEND_ALL}}, {0, {RECV_MESSAGE}}, {0, {RECV_STATUS}}}},
    {"the headers asked for when all is over",
     AT(110),
     {{0, {SEND_ALL}}, {0, {RECV_MESSAGE}}, {0, {RECV_STATUS}}, {AT(200), {RECV_METADATA}}}},
    {"the half-close in the backoff",
     AT(110),
     {{0, {SEND_METADATA, SEND_MESSAGE}}, {0, {RECV_ALL}}, {AT(50), {SEND_CLOSE}}}},
    {"the half-close in the second attempt",
     AT(110),
     {{0, {SEND_METADATA, SEND_MESSAGE}}, {0, {RECV_ALL}}, {AT(115), {SEND_CLOSE}}}},
    {"the message in the backoff",
     AT(110),
     {{0, {SEND_METADATA}}, {0, {RECV_ALL}}, {AT(50), {SEND_MESSAGE, SEND_CLOSE}}}},
    {"the message, which fails on the first attempt",
     AT(150), /* which is over when somebody looks at it */
     {{0, {SEND_METADATA}},
      {AT(50), {SEND_MESSAGE}},
      {AT(60), {SEND_CLOSE}},
      {AT(60), {RECV_ALL}}}},
    {"nothing received before the first attempt is over",
     AT(150), /* likewise */
     {{0, {SEND_ALL}}, {AT(50), {RECV_ALL}}}},
};

static void start_steps(struct fixture *f, const struct shape *shape, struct batched_call *call) {
  for (size_t i = 0; i < MAX_STEPS && shape->steps[i].ops[0] != OPS_END; i++) {
    drain_until(f, T0 + shape->steps[i].at_ns);
    for (const enum batched_op *op = shape->steps[i].ops; *op != OPS_END; op++) {
      if (*op == SEND_MESSAGE) {
        batches_say(f, call, "foo");
      }
    }
    (void)batched_call_start(call, shape->steps[i].ops);
  }
  drain(f);
}

/* The message was received by one of the batches. */
static bool has_received(const struct batched_call *call, const char *text) {
  for (size_t i = 0; i < call->n_batches; i++) {
    if (call->batches[i].received != NULL) {
      return batch_received(&call->batches[i], text);
    }
  }
  return false;
}

static bool asks_for_headers(const struct shape *shape) {
  for (size_t i = 0; i < MAX_STEPS; i++) {
    for (size_t k = 0; k < N_BATCHED_OPS; k++) {
      if (shape->steps[i].ops[k] == RECV_METADATA) {
        return true;
      }
    }
  }
  return false;
}

/* As the second attempt was answered, and nothing of the first. */
static bool is_answered(const struct fixture *f, const struct shape *shape,
                        const struct batched_call *call) {
  return call->status == GRPC_STATUS_OK && has_received(call, "bar") &&
         call->initial_metadata.count == (asks_for_headers(shape) ? 1 : 0) &&
         call->trailing_metadata.count == 1 && batched_call_has_trailer(call, "from", "second") &&
         call->error_string == NULL && batched_call_report(call).n_attempts == 2 &&
         f->transport.n_sent == 2;
}

static void check_answer(const struct fixture *f, const struct shape *shape,
                         const struct batched_call *call) {
  for (size_t i = 0; i < call->n_batches; i++) {
    if (!batch_is_success(&call->batches[i])) {
      fail_msg("%s: batch %zu", shape->why, i);
    }
  }
  if (!is_answered(f, shape, call)) {
    fail_msg("%s", shape->why);
  }
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_int_equal(sent(f, 2)->n_messages, 1);
  assert_true(sent(f, 2)->half_closed);
  assert_string_equal(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"), "1");
}

static void check_shape(const struct shape *shape) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 3);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"),
                  WITH_TRAILING("from", "first")},
                 {AT_NS(shape->second_at_ns), EXPECT_SEND},
                 {AT_NS(shape->second_at_ns + MS(20)), REPLY("bar"), WITH_INITIAL("x", "second"),
                  WITH_TRAILING("from", "second")}));
  struct batched_call *call = batches_new(f);
  start_steps(f, shape, call);
  check_answer(f, shape, call);
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void every_batch_comes_back_once_with_what_the_second_attempt_brought(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    check_shape(&shapes[i]);
  }
}

/* --- after the commit --- */

static void what_is_received_after_the_commit_goes_straight_through(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 3);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
              {AT_MS(110), EXPECT_SEND}, {AT_MS(120), MESSAGE("one")}, {AT_MS(130), MESSAGE("two")},
              {AT_MS(140), HEADERS_THEN(GRPC_STATUS_UNAVAILABLE, "late")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *first = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  drain_until(f, T0 + MS(120));
  assert_true(batch_is_success(first));
  assert_true(batch_received(first, "one"));
  struct call_batch *second = batched_call_start(call, OPS(RECV_MESSAGE));
  drain_until(f, T0 + MS(130));
  assert_true(batch_received(second, "two"));
  struct call_batch *last = batched_call_start(call, OPS(RECV_MESSAGE));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  drain(f);

  assert_true(batch_is_success(last));
  assert_true(batch_received(last, NULL));
  assert_true(batch_is_success(status));
  assert_status(call, GRPC_STATUS_UNAVAILABLE, "late");
  assert_int_equal(batched_call_report(call).reason, WEIR_REASON_COMMITTED);
  batched_call_release(call);
}

/* --- what is refused --- */

/* Whoever is under way, and wherever: on an attempt, between two, on the next. */
static void what_is_under_way_is_not_started_again_in_any_attempt(void **state) {
  struct fixture *f = *state;
  static const int64_t times_ns[] = {MS(5), MS(50), MS(115)};
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 3);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_METADATA));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  for (size_t i = 0; i < sizeof times_ns / sizeof times_ns[0]; i++) {
    drain_until(f, T0 + times_ns[i]);
    assert_int_equal(batched_call_refused(call, OPS(SEND_MESSAGE, RECV_MESSAGE)),
                     GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
    assert_int_equal(batched_call_refused(call, OPS(SEND_METADATA)),
                     GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
    assert_int_equal(batched_call_refused(call, OPS(SEND_CLOSE, RECV_STATUS)),
                     GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  }
  struct call_batch *sends = batched_call_start(call, OPS(SEND_MESSAGE, SEND_CLOSE));
  drain(f);

  assert_true(batch_is_success(sends));
  assert_true(batch_is_success(receives));
  assert_int_equal(sent(f, 2)->n_messages, 1);
  assert_status(call, GRPC_STATUS_OK, "");
  batched_call_release(call);
}

static void a_message_that_waits_for_the_next_attempt_is_the_only_one(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 3);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_METADATA));
  (void)batched_call_start(call, OPS(RECV_ALL));
  drain_until(f, T0 + MS(50));
  struct call_batch *waits = batched_call_start(call, OPS(SEND_MESSAGE));
  drain_until(f, T0 + MS(60));
  assert_true(waits->tag.is_out);
  assert_int_equal(batched_call_refused(call, OPS(SEND_MESSAGE)),
                   GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  (void)batched_call_start(call, OPS(SEND_CLOSE));
  drain(f);

  assert_true(batch_is_success(waits));
  assert_string_equal(sent(f, 2)->message, "foo");
  batched_call_release(call);
}

/* --- memory of the application's --- */

/* A slice may stand for memory without holding it. The application's is its own again once the tag
 * has come back. */
/* The attempt has ended, which its batch with the status tells, while the event of a message that the
 * engine has sent again is on its way: the core does not take another one yet. */
static void a_message_is_taken_while_one_that_was_sent_again_is_not_heard_of(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 2);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
              {AT_MS(110), EXPECT_CONNECTING}, {AT_MS(115), CONNECTED},
              {AT_MS(120), TRAILERS_ONLY(GRPC_STATUS_OK, "")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_METADATA, SEND_MESSAGE));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  drain_until(f, T0);
  (void)batched_call_start(call, OPS(SEND_MESSAGE));
  drain_until(f, T0 + MS(114));

  fake_clock_advance_to(&f->clock, T0 + MS(115));
  struct awaited_tag between = {.is_out = false};
  scripted_transport_happen(&f->transport);
  scripted_transport_post(&f->transport, weir_completion_queue_core(f->queue),
                          awaited_tag_go(&between), true, T0 + MS(115));
  assert_true(awaited_tag_take(f->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC)));
  assert_int_equal(between.n_came, 1); /* and the second message is with the core */

  fake_clock_advance_to(&f->clock, T0 + MS(120));
  scripted_transport_happen(&f->transport);
  scripted_transport_turn(weir_completion_queue_core(f->queue));
  assert_true(awaited_tag_take(f->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC)));
  assert_true(batch_is_success(receives));
  struct call_batch *late = batched_call_start(call, OPS(SEND_MESSAGE));
  drain(f);
  assert_true(batch_is_failure(late));
  assert_status(call, GRPC_STATUS_OK, "");
  batched_call_release(call);
}

static void metadata_outlive_the_memory_that_they_were_in(void **state) {
  struct fixture *f = *state;
  static char key[] = "x-key";
  static char value[] = "a value that is longer than what a slice can hold in itself";
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 3);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  grpc_metadata entry = {.key = grpc_slice_from_static_string(key),
                         .value = grpc_slice_from_static_string(value)};
  call->metadata = &entry;
  call->n_metadata = 1;
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  drain_until(f, T0);
  assert_true(batch_is_success(sends));
  key[0] = value[0] = '!';
  (void)batched_call_start(call, OPS(RECV_ALL));
  drain(f);

  assert_status(call, GRPC_STATUS_OK, "");
  assert_string_equal(sent_attempt_value(sent(f, 2), "x-key"),
                      "a value that is longer than what a slice can hold in itself");
  batched_call_release(call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_batch_comes_back_once_with_what_the_second_attempt_brought),
      TEST(what_is_received_after_the_commit_goes_straight_through),
      TEST(what_is_under_way_is_not_started_again_in_any_attempt),
      TEST(a_message_that_waits_for_the_next_attempt_is_the_only_one),
      TEST(a_message_is_taken_while_one_that_was_sent_again_is_not_heard_of),
      TEST(metadata_outlive_the_memory_that_they_were_in),
  };
  return cmocka_run_group_tests_name("a6_batches", tests, NULL, NULL);
}
