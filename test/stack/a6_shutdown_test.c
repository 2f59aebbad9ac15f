/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/support/time.h>

#include "test/stack/batches.h"

/* Queues and channels that go while calls in several batches wait for a retry. */

#define MANY 100

struct waiting {
  struct batched_call *call;
  struct call_batch *sends;
  struct call_batch *message;
  struct call_batch *status;
};

/* The first attempt fails at once, and the backoff is one of 5 s. */
static void open_waiting(struct fixture *f) {
  f->method.retry.initial_backoff_ns = SECONDS(5);
  f->method.retry.max_backoff_ns = SECONDS(5);
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 3);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
}

static struct waiting start_waiting(struct fixture *f) {
  struct waiting waiting = {.call = batches_new(f)};
  batches_say(f, waiting.call, "foo");
  waiting.sends = batched_call_start(waiting.call, OPS(SEND_ALL));
  waiting.message = batched_call_start(waiting.call, OPS(RECV_METADATA, RECV_MESSAGE));
  waiting.status = batched_call_start(waiting.call, OPS(RECV_STATUS));
  return waiting;
}

static bool is_shut_down(const struct fixture *f) {
  return weir_completion_queue_next(f->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL).type ==
         GRPC_QUEUE_SHUTDOWN;
}

/* As an attempt that is not followed by another. */
static void check_ended(const struct waiting *waiting, enum weir_reason reason) {
  assert_true(batch_is_success(waiting->sends));
  assert_true(batch_is_success(waiting->message));
  assert_true(batch_received(waiting->message, NULL));
  assert_true(batch_is_success(waiting->status));
  assert_status(waiting->call, GRPC_STATUS_UNAVAILABLE, "busy");
  assert_int_equal(batched_call_report(waiting->call).reason, reason);
}

static void shutdown_ends_many_backoffs_at_once_with_their_last_status(void **state) {
  struct fixture *f = *state;
  struct waiting waiting[MANY];
  open_waiting(f);
  for (size_t i = 0; i < MANY; i++) {
    waiting[i] = start_waiting(f);
  }
  drain_until(f, T0 + MS(10));
  for (size_t i = 0; i < MANY; i++) {
    assert_true(waiting[i].message->tag.is_out && waiting[i].status->tag.is_out);
  }
  size_t n_start_batches = f->transport.n_start_batches;
  weir_completion_queue_shutdown(f->queue);
  weir_completion_queue_shutdown(f->queue); /* more does no harm */
  drain(f);

  assert_true(is_shut_down(f));
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  assert_int_equal(f->transport.n_start_batches, n_start_batches);
  for (size_t i = 0; i < MANY; i++) {
    check_ended(&waiting[i], WEIR_REASON_SHUTDOWN);
    batched_call_release(waiting[i].call);
  }
}

static void what_waits_to_be_sent_comes_back_before_the_shutdown(void **state) {
  struct fixture *f = *state;
  open_waiting(f);
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_METADATA));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  drain_until(f, T0 + MS(10));
  batches_say(f, call, "late");
  struct call_batch *message = batched_call_start(call, OPS(SEND_MESSAGE, SEND_CLOSE));
  weir_completion_queue_shutdown(f->queue);
  drain(f);

  assert_true(is_shut_down(f));
  assert_true(batch_is_failure(message)); /* no attempt has sent it */
  assert_true(batch_is_success(receives));
  assert_status(call, GRPC_STATUS_UNAVAILABLE, "busy");
  batched_call_release(call);
}

/* As long as a tag is owed, more may be started; afterwards, nothing. */
static void batches_may_be_started_until_the_last_tag_has_come(void **state) {
  struct fixture *f = *state;
  open_waiting(f);
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *message = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  drain_until(f, T0 + MS(10));
  weir_completion_queue_shutdown(f->queue);
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  drain(f);
  assert_true(batch_is_success(message));
  assert_true(batch_is_success(status));
  assert_status(call, GRPC_STATUS_UNAVAILABLE, "busy");
  assert_true(is_shut_down(f));
  assert_int_equal(batched_call_refused(call, OPS(RECV_MESSAGE)),
                   GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
  batched_call_release(call);
}

static void an_attempt_that_fails_after_the_shutdown_is_the_last(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 3);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(50), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("0")}));
  struct waiting waiting = start_waiting(f);
  drain_until(f, T0);
  weir_completion_queue_shutdown(f->queue);
  drain(f);

  assert_true(is_shut_down(f));
  check_ended(&waiting, WEIR_REASON_SHUTDOWN);
  batched_call_release(waiting.call);
}

static void calls_in_their_backoff_outlive_the_channel(void **state) {
  struct fixture *f = *state;
  struct waiting waiting[MANY];
  open_waiting(f);
  for (size_t i = 0; i < MANY; i++) {
    waiting[i] = start_waiting(f);
  }
  drain_until(f, T0 + MS(10));
  weir_channel_destroy(f->channel);
  f->channel = NULL;
  scripted_transport_always(&f->transport, 0, answer_ok);
  drain(f);

  for (size_t i = 0; i < MANY; i++) {
    assert_true(batch_is_success(waiting[i].message));
    assert_true(batch_received(waiting[i].message, "bar"));
    assert_true(batch_is_success(waiting[i].status));
    assert_status(waiting[i].call, GRPC_STATUS_OK, "");
    batched_call_release(waiting[i].call);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(shutdown_ends_many_backoffs_at_once_with_their_last_status),
      TEST(what_waits_to_be_sent_comes_back_before_the_shutdown),
      TEST(batches_may_be_started_until_the_last_tag_has_come),
      TEST(an_attempt_that_fails_after_the_shutdown_is_the_last),
      TEST(calls_in_their_backoff_outlive_the_channel),
  };
  return cmocka_run_group_tests_name("a6_shutdown", tests, NULL, NULL);
}
