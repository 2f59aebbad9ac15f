/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/stack/batches.h"

/* Calls in several batches that no server has seen, as the core's own tests have them. No method
 * has a retry policy. */

static void open_without_policy(struct fixture *f) {
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  fixture_open_raw(f);
}

struct two_batches {
  struct batched_call *call;
  struct call_batch *sends;
  struct call_batch *receives;
};

static struct two_batches start_two(struct fixture *f) {
  struct two_batches two = {.call = batches_new(f)};
  batches_say(f, two.call, "foo");
  two.sends = batched_call_start(two.call, OPS(SEND_ALL));
  two.receives = batched_call_start(two.call, OPS(RECV_MESSAGE, RECV_METADATA, RECV_STATUS));
  return two;
}

static void check_answered_by_second(struct fixture *f, struct two_batches *two) {
  assert_true(batch_is_success(two->sends));
  assert_true(batch_is_success(two->receives));
  assert_status(two->call, GRPC_STATUS_OK, "");
  assert_true(batch_received(two->receives, "bar"));
  assert_string_equal(sent(f, 2)->message, "foo");
  assert_int_equal(sent(f, 2)->n_messages, 1);
  assert_true(sent(f, 2)->half_closed);
  assert_null(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"));
  assert_int_equal(batched_call_report(two->call).reason, WEIR_REASON_NONE);
}

/* The server refused the stream by a GOAWAY: it was on the wire, and not seen. */
static void a_call_that_the_server_did_not_see_is_sent_again_at_once(void **state) {
  struct fixture *f = *state;
  open_without_policy(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), UNPROCESSED}, {AT_MS(5), EXPECT_SEND},
                 {AT_MS(9), REPLY("bar")}));
  struct two_batches two = start_two(f);
  drain(f);

  check_answered_by_second(f, &two);
  batched_call_release(two.call);
}

/* It waited for its turn on the connection when that went away: its sends fail. */
static void a_call_that_was_not_on_the_wire_is_sent_again_at_once(void **state) {
  struct fixture *f = *state;
  open_without_policy(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(5), UNPROCESSED}, {AT_MS(5), EXPECT_SEND},
                 {AT_MS(9), REPLY("bar")}));
  struct two_batches two = start_two(f);
  drain_until(f, T0 + MS(4));
  assert_true(two.sends->tag.is_out);
  drain(f);

  check_answered_by_second(f, &two);
  batched_call_release(two.call);
}

/* The core sends again without end what was not on the wire. At its surface that can't be told from
 * what was, and was not seen; for that the core's own rule is once, so it is for both here. */
static void a_call_that_is_never_seen_is_sent_again_once(void **state) {
  struct fixture *f = *state;
  open_without_policy(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_CONNECTING}, {AT_MS(5), UNPROCESSED},
                 {AT_MS(5), EXPECT_CONNECTING}, {AT_MS(10), UNPROCESSED}));
  struct two_batches two = start_two(f);
  drain(f);

  assert_true(batch_is_failure(two.sends));
  assert_true(batch_is_success(two.receives));
  assert_int_equal(two.call->status, GRPC_STATUS_UNAVAILABLE);
  assert_true(batch_received(two.receives, NULL));
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  struct weir_call_report report = batched_call_report(two.call);
  assert_int_equal(report.n_attempts, 2);
  assert_int_equal(report.reason, WEIR_REASON_NO_RETRY_POLICY);
  batched_call_release(two.call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_call_that_the_server_did_not_see_is_sent_again_at_once),
      TEST(a_call_that_was_not_on_the_wire_is_sent_again_at_once),
      TEST(a_call_that_is_never_seen_is_sent_again_once),
  };
  return cmocka_run_group_tests_name("a6_transparent", tests, NULL, NULL);
}
