/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/stage.h"

/* Calls in several batches that are sent again, as gRFC A6 and the core's own tests of it have
 * them. */

static struct call_batch *send_message(struct batched_call *call, const char *text) {
  batched_call_say(call, text);
  return batched_call_start(call, OPS(SEND_MESSAGE));
}

static struct puppet_call *accept_attempt(struct stage *stage, int64_t previous_attempts) {
  struct puppet_call *attempt = puppet_accept(stage->server);
  assert_int_equal(puppet_previous_attempts(attempt), previous_attempts);
  return attempt;
}

static void end_attempt(struct puppet_call *attempt, const struct puppet_end *end) {
  puppet_end(attempt, end);
  assert_false(puppet_was_cancelled(attempt));
}

/* --- messages are sent again, and in order --- */

static void what_was_sent_is_sent_again_before_what_comes_later(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  batched_call_say(call, "one");
  struct call_batch *first = batched_call_start(call, OPS(SEND_METADATA, SEND_MESSAGE));
  struct puppet_call *attempt = accept_attempt(stage, -1);
  puppet_reads(attempt, "one");
  assert_true(stage_await(stage, first));
  struct call_batch *second = send_message(call, "two");
  puppet_reads(attempt, "two");
  assert_true(stage_await(stage, second));
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED));

  attempt = accept_attempt(stage, 1);
  puppet_reads(attempt, "one");
  puppet_reads(attempt, "two");
  batched_call_say(call, "three");
  struct call_batch *third = batched_call_start(call, OPS(SEND_MESSAGE, SEND_CLOSE));
  puppet_reads(attempt, "three");
  assert_true(stage_await(stage, third));
  /* the message binds the call, or there would be a third attempt */
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .body = "bar"));

  assert_true(stage_await(stage, receives));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  assert_true(batch_received(receives, "bar"));
  assert_report(call, 2, WEIR_REASON_COMMITTED);
}

static void an_answer_may_cut_the_replay_short(void **state) {
  struct stage *stage = *state;
  static const char *const texts[] = {"one", "two", "three"};
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  struct call_batch *opens = batched_call_start(call, OPS(SEND_METADATA));
  struct puppet_call *attempt = accept_attempt(stage, -1);
  assert_true(stage_await(stage, opens));
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    struct call_batch *sends = send_message(call, texts[i]);
    puppet_reads(attempt, texts[i]);
    assert_true(stage_await(stage, sends));
  }
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED));

  attempt = accept_attempt(stage, 1);
  puppet_reads(attempt, "one");
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .body = "bar"));
  assert_true(stage_await(stage, receives));
  assert_status(call, GRPC_STATUS_ABORTED, "xyz");
  assert_true(batch_received(receives, "bar"));
  assert_report(call, 2, WEIR_REASON_COMMITTED);
}

/* The half-close comes after all messages, whenever it was started. */
static void what_is_sent_in_the_backoff_goes_with_the_next_attempt(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("", "3", "0.3s"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *receives = batched_call_start(call, OPS(RECV_ALL));
  batched_call_say(call, "one");
  struct call_batch *first = batched_call_start(call, OPS(SEND_METADATA, SEND_MESSAGE));
  struct puppet_call *attempt = accept_attempt(stage, -1);
  puppet_reads(attempt, "one");
  assert_true(stage_await(stage, first));
  struct call_batch *second = send_message(call, "two");
  puppet_reads(attempt, "two");
  assert_true(stage_await(stage, second));
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED));
  stage_await_backoff(stage, 1);
  struct call_batch *third = send_message(call, "three");
  struct call_batch *closes = batched_call_start(call, OPS(SEND_CLOSE));

  attempt = accept_attempt(stage, 1);
  puppet_reads(attempt, "one");
  puppet_reads(attempt, "two");
  puppet_reads(attempt, "three");
  puppet_reads(attempt, NULL);
  assert_true(stage_await(stage, third));
  assert_true(stage_await(stage, closes));
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_OK, .body = "bar"));
  assert_true(stage_await(stage, receives));
  assert_status(call, GRPC_STATUS_OK, "xyz");
  assert_report(call, 2, WEIR_REASON_NONE);
}

/* One entry fits into a slice itself, the other does not; neither is the application's any more
 * when it is sent again. */
static void metadata_outlive_the_batch_that_sent_them(void **state) {
  struct stage *stage = *state;
  static const char long_value[] = "a value that is too long to be held in the slice itself";
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  grpc_metadata metadata[2];
  memset(metadata, 0, sizeof metadata);
  metadata[0].key = grpc_slice_from_copied_string("foo");
  metadata[0].value = grpc_slice_from_copied_string("bar");
  metadata[1].key = grpc_slice_from_copied_string("a-key-that-is-too-long-to-be-held-in-itself");
  metadata[1].value = grpc_slice_from_copied_string(long_value);
  call->metadata = metadata;
  call->n_metadata = COUNT_OF(metadata);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct puppet_call *attempt = accept_attempt(stage, -1);
  assert_true(stage_await(stage, sends));
  for (size_t i = 0; i < COUNT_OF(metadata); i++) {
    grpc_slice_unref(metadata[i].key);
    grpc_slice_unref(metadata[i].value);
  }
  memset(metadata, 0xa5, sizeof metadata);
  struct call_batch *receives =
      batched_call_start(call, OPS(RECV_MESSAGE, RECV_METADATA, RECV_STATUS));
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED));

  attempt = accept_attempt(stage, 1);
  assert_true(puppet_was_told(attempt, "foo", "bar"));
  assert_true(puppet_was_told(attempt, "a-key-that-is-too-long-to-be-held-in-itself", long_value));
  puppet_reads(attempt, "foo");
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_OK, .body = "bar"));
  assert_true(stage_await(stage, receives));
  assert_status(call, GRPC_STATUS_OK, "xyz");
  assert_true(batch_received(receives, "bar"));
}

/* --- every batch comes back once, with what the second attempt brought --- */

static void fail_then_answer(struct stage *stage) {
  struct puppet_call *attempt = accept_attempt(stage, -1);
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .text = "no", .trailer = "first"));
  attempt = accept_attempt(stage, 1);
  puppet_reads(attempt, "foo");
  puppet_reads(attempt, NULL);
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_OK, .body = "bar", .trailer = "second"));
}

static void assert_second_answer(const struct batched_call *call) {
  assert_status(call, GRPC_STATUS_OK, "xyz");
  assert_int_equal(call->trailing_metadata.count, 1);
  assert_true(batched_call_has_trailer(call, "from", "second"));
  assert_null(call->error_string);
  assert_report(call, 2, WEIR_REASON_NONE);
}

static void each_operation_may_be_a_batch_of_its_own(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  static const enum batched_op ops[] = {SEND_METADATA, SEND_MESSAGE, SEND_CLOSE,
                                        RECV_METADATA, RECV_MESSAGE, RECV_STATUS};
  struct call_batch *batches[N_BATCHED_OPS];
  for (size_t i = 0; i < COUNT_OF(ops); i++) {
    batches[i] = batched_call_start(call, OPS(ops[i]));
  }
  fail_then_answer(stage);
  for (size_t i = 0; i < COUNT_OF(ops); i++) {
    assert_true(stage_await(stage, batches[i]));
  }
  assert_true(batch_received(batches[4], "bar"));
  assert_second_answer(call);
}

static void the_status_may_be_asked_for_last(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  fail_then_answer(stage);
  assert_true(stage_await(stage, sends));
  assert_true(stage_await(stage, receives));
  assert_true(batch_received(receives, "bar"));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  assert_true(stage_await(stage, status));
  assert_second_answer(call);
}

static void the_status_may_be_asked_for_in_the_backoff(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_WITH("", "3", "0.3s"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL, RECV_METADATA));
  struct puppet_call *attempt = accept_attempt(stage, -1);
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .text = "no", .trailer = "first"));
  stage_await_backoff(stage, 1);
  struct call_batch *receives = batched_call_start(call, OPS(RECV_MESSAGE, RECV_STATUS));
  attempt = accept_attempt(stage, 1);
  puppet_reads(attempt, "foo");
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_OK, .body = "bar", .trailer = "second"));
  assert_true(stage_await(stage, sends));
  assert_true(stage_await(stage, receives));
  assert_true(batch_received(receives, "bar"));
  assert_second_answer(call);
}

/* --- a stream of the server's --- */

static void a_stream_refused_before_its_first_message_is_made_again(void **state) {
  struct stage *stage = *state;
  stage_open(stage, POLICY_ABORTED("3"));
  struct batched_call *call = stage_call(stage, AMPLE);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *first = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  struct call_batch *status = batched_call_start(call, OPS(RECV_STATUS));
  struct puppet_call *attempt = accept_attempt(stage, -1);
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_ABORTED, .text = "no", .trailer = "first"));

  attempt = accept_attempt(stage, 1);
  assert_true(stage_await(stage, sends));
  puppet_send_headers(attempt, "x-from", "second");
  puppet_send_message(attempt, "one");
  assert_true(stage_await(stage, first));
  assert_true(batch_received(first, "one"));
  assert_int_equal(call->initial_metadata.count, 1);
  puppet_send_message(attempt, "two");
  struct call_batch *second = batched_call_start(call, OPS(RECV_MESSAGE));
  assert_true(stage_await(stage, second));
  assert_true(batch_received(second, "two"));
  struct call_batch *last = batched_call_start(call, OPS(RECV_MESSAGE));
  end_attempt(attempt, ENDS(.code = GRPC_STATUS_OK, .trailer = "second"));
  assert_true(stage_await(stage, last));
  assert_true(batch_received(last, NULL));
  assert_true(stage_await(stage, status));
  assert_second_answer(call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGED(what_was_sent_is_sent_again_before_what_comes_later),
      STAGED(an_answer_may_cut_the_replay_short),
      STAGED(what_is_sent_in_the_backoff_goes_with_the_next_attempt),
      STAGED(metadata_outlive_the_batch_that_sent_them),
      STAGED(each_operation_may_be_a_batch_of_its_own),
      STAGED(the_status_may_be_asked_for_last),
      STAGED(the_status_may_be_asked_for_in_the_backoff),
      STAGED(a_stream_refused_before_its_first_message_is_made_again),
  };
  return cmocka_run_group_tests_name("a6_streaming", tests, start_core, stop_core);
}
