/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include "src/time/timespec.h"
#include "test/stack/batches.h"

/* Calls in several batches that are cancelled, or let go, while they are retried. */

/* Every operation is a batch of its own, in the order of OPS(SEND_ALL, RECV_ALL). */
#define FIRST_RECEIVE 3
#define REPLY_MESSAGE 4
#define STATUS 5

static void start_each(struct batched_call *call) {
  static const enum batched_op ops[N_BATCHED_OPS] = {SEND_ALL, RECV_ALL};
  for (size_t i = 0; i < N_BATCHED_OPS; i++) {
    (void)batched_call_start(call, OPS(ops[i]));
  }
}

/* A call whose first attempt has failed at 10 ms, and whose second comes at 110. It is 50 ms. */
static struct batched_call *start_into_backoff(struct fixture *f) {
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct batched_call *call = batches_new(f);
  start_each(call);
  drain_until(f, T0 + MS(50));
  for (size_t i = 0; i < N_BATCHED_OPS; i++) {
    assert_int_equal(call->batches[i].tag.is_out, i >= FIRST_RECEIVE);
  }
  return call;
}

/* Where the cancellation finds the call. */
enum whereabouts { IN_BACKOFF, IN_ATTEMPT };

/* What was sent was a success; what was to be received is not, but for the status, and for a message
 * that the core was waiting for: it calls the lack of one a success. */
static void check_cancelled(const struct batched_call *call, enum whereabouts where,
                            grpc_status_code code, const char *text) {
  for (size_t i = 0; i < N_BATCHED_OPS; i++) {
    bool succeeds = i < FIRST_RECEIVE || i == STATUS || (i == REPLY_MESSAGE && where == IN_ATTEMPT);
    assert_int_equal(call->batches[i].tag.n_came, 1);
    assert_int_equal(call->batches[i].tag.success, succeeds);
  }
  assert_status(call, code, text);
  assert_int_equal(call->trailing_metadata.count, 0);
  if (call->call != NULL) {
    assert_int_equal(batched_call_report(call).origin, WEIR_ORIGIN_LOCAL_CANCEL);
    assert_int_equal(batched_call_report(call).reason, WEIR_REASON_CANCELLED);
  }
}

/* --- in the backoff --- */

static void a_cancellation_ends_the_backoff_and_every_batch(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  fixture_open(f);
  struct batched_call *call = start_into_backoff(f);
  assert_int_equal(weir_call_cancel(call->call, NULL), GRPC_CALL_OK);
  assert_true(call->batches[STATUS].tag.is_out); /* never in the canceller's thread */
  drain(f);

  check_cancelled(call, IN_BACKOFF, GRPC_STATUS_CANCELLED, "the call was cancelled");
  assert_int_equal(f->clock.now_ns, T0 + MS(50));
  assert_int_equal(batched_call_report(call).n_attempts, 1);
  assert_int_equal(fixture_breaker(f).n_requests, 0);
  batched_call_release(call);
}

static void the_first_of_two_cancellations_wins(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct batched_call *call = start_into_backoff(f);
  weir_call_cancel_with_status(call->call, GRPC_STATUS_FAILED_PRECONDITION, "x", NULL);
  weir_call_cancel_with_status(call->call, GRPC_STATUS_ABORTED, "y", NULL);
  weir_call_cancel(call->call, NULL);
  drain(f);

  check_cancelled(call, IN_BACKOFF, GRPC_STATUS_FAILED_PRECONDITION, "x");
  batched_call_release(call);
}

static void a_call_let_go_in_its_backoff_ends_every_batch(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct batched_call *call = start_into_backoff(f);
  batched_call_let_go(call);
  drain(f);

  check_cancelled(call, IN_BACKOFF, GRPC_STATUS_CANCELLED, "the call was cancelled");
  assert_int_equal(f->clock.now_ns, T0 + MS(50));
  batched_call_release(call);
}

static void a_call_without_a_status_may_be_let_go_in_its_backoff(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  drain_until(f, T0 + MS(50));
  assert_true(receives->tag.is_out);
  batched_call_let_go(call);
  drain(f);

  assert_true(batch_is_success(sends));
  assert_true(batch_is_failure(receives));
  assert_int_equal(f->clock.now_ns, T0 + MS(50));
  batched_call_release(call);
}

static void what_waits_to_be_sent_fails_with_the_backoff(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_METADATA));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  drain_until(f, T0 + MS(50));
  batches_say(f, call, "late");
  struct call_batch *message = batched_call_start(call, OPS(SEND_MESSAGE));
  struct call_batch *closes = batched_call_start(call, OPS(SEND_CLOSE));
  weir_call_cancel(call->call, NULL);
  drain(f);

  assert_true(batch_is_failure(message));
  assert_true(batch_is_failure(closes));
  assert_true(batch_is_success(receives));
  assert_int_equal(call->status, GRPC_STATUS_CANCELLED);
  batched_call_release(call);
}

static void a_batch_after_a_cancellation_in_the_backoff_comes_back(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_METADATA));
  (void)batched_call_start(call, OPS(RECV_METADATA));
  drain_until(f, T0 + MS(50));
  weir_call_cancel(call->call, NULL);
  drain(f);
  struct call_batch *message = batched_call_start(call, OPS(SEND_MESSAGE));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_MESSAGE));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  drain(f);

  assert_true(batch_is_failure(message));
  assert_true(batch_is_failure(receives));
  assert_true(batch_received(receives, NULL));
  assert_true(batch_is_success(status));
  assert_int_equal(call->status, GRPC_STATUS_CANCELLED);
  assert_int_equal(f->transport.n_sent, 1);
  batched_call_release(call);
}

/* --- at its end --- */

static void a_cancel_at_the_instant_of_the_timer_leaves_no_attempt(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct batched_call *call = start_into_backoff(f);
  fake_clock_advance_to(&f->clock, T0 + MS(110)); /* due, and not seen yet */
  weir_call_cancel(call->call, NULL);
  drain(f);

  check_cancelled(call, IN_BACKOFF, GRPC_STATUS_CANCELLED, "the call was cancelled");
  assert_int_equal(f->transport.n_sent, 1);
  batched_call_release(call);
}

static void a_cancel_right_after_the_timer_reaches_the_new_attempt(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(110), EXPECT_SEND}));
  struct batched_call *call = batches_new(f);
  start_each(call);
  drain_until(f, T0 + MS(110));
  weir_call_cancel_with_status(call->call, GRPC_STATUS_FAILED_PRECONDITION, "x", NULL);
  drain(f);

  assert_true(sent(f, 2)->cancelled);
  check_cancelled(call, IN_ATTEMPT, GRPC_STATUS_FAILED_PRECONDITION, "x");
  assert_int_equal(batched_call_report(call).n_attempts, 2);
  batched_call_release(call);
}

/* UNAVAILABLE is in the list; it is the application's own here. */
static void a_cancelled_attempt_is_not_retried_whatever_its_status(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct batched_call *call = batches_new(f);
  start_each(call);
  drain_until(f, T0 + MS(5));
  weir_call_cancel_with_status(call->call, GRPC_STATUS_UNAVAILABLE, "enough", NULL);
  drain(f);

  check_cancelled(call, IN_ATTEMPT, GRPC_STATUS_UNAVAILABLE, "enough");
  batched_call_release(call);
}

/* What a failed attempt said is not the call's end any more when it has been cancelled. */
static void a_cancel_that_overtakes_a_failure_is_the_end(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct batched_call *call = batches_new(f);
  start_each(call);
  scripted_transport_happen(&f->transport);
  weir_call_cancel(call->call, NULL);
  drain(f);

  check_cancelled(call, IN_BACKOFF, GRPC_STATUS_CANCELLED, "the call was cancelled");
  batched_call_release(call);
}

/* --- the parent's --- */

static void the_parents_cancellation_reaches_the_backoff(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct batched_call *call = batched_call_new(weir_channel_create_call(
      f->channel, parent, GRPC_PROPAGATE_DEFAULTS, f->queue, grpc_slice_from_static_string(METHOD),
      NULL, weir__instant_to_timespec(WEIR_NO_DEADLINE), NULL));
  start_each(call);
  drain_until(f, T0 + MS(10));
  assert_true(call->batches[STATUS].tag.is_out);
  scripted_transport_cancel_parent(&f->transport, parent);
  drain(f);

  check_cancelled(call, IN_BACKOFF, GRPC_STATUS_CANCELLED, "the call was cancelled");
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  assert_int_equal(f->transport.n_sent, 1);
  batched_call_release(call);
  f->transport.base.call_unref(&f->transport, parent);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_cancellation_ends_the_backoff_and_every_batch),
      TEST(the_first_of_two_cancellations_wins),
      TEST(a_call_let_go_in_its_backoff_ends_every_batch),
      TEST(a_call_without_a_status_may_be_let_go_in_its_backoff),
      TEST(what_waits_to_be_sent_fails_with_the_backoff),
      TEST(a_batch_after_a_cancellation_in_the_backoff_comes_back),
      TEST(a_cancel_at_the_instant_of_the_timer_leaves_no_attempt),
      TEST(a_cancel_right_after_the_timer_reaches_the_new_attempt),
      TEST(a_cancelled_attempt_is_not_retried_whatever_its_status),
      TEST(a_cancel_that_overtakes_a_failure_is_the_end),
      TEST(the_parents_cancellation_reaches_the_backoff),
  };
  return cmocka_run_group_tests_name("a6_cancellation", tests, NULL, NULL);
}
