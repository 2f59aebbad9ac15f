/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/time/timespec.h"
#include "test/stack/batches.h"

/* Calls in several batches on a queue that is plucked from: whoever waits for one tag does what is
 * due for the others, since nobody else will. */

static void open_pluck(struct fixture *f) {
  f->translation.boundary = false;
  f->breaker.enabled = false;
  fixture_open_queue(f, GRPC_CQ_PLUCK);
}

static void pluck(struct fixture *f, struct call_batch *batch) {
  assert_true(
      awaited_tag_pluck(&batch->tag, f->queue, weir__instant_to_timespec(WEIR_NO_DEADLINE)));
  assert_true(batch->tag.success);
}

static void check_plucked_in_order(const size_t order[3]) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  open_pluck(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *batches[3];
  batches[0] = batched_call_start(call, OPS(SEND_ALL));
  batches[1] = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  batches[2] = batched_call_start(call, OPS(RECV_STATUS));
  for (size_t i = 0; i < 3; i++) {
    pluck(f, batches[order[i]]);
  }
  assert_status(call, GRPC_STATUS_OK, "");
  assert_true(batch_received(batches[1], "bar"));
  assert_int_equal(f->clock.now_ns, T0 + MS(120));
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void batches_of_a_call_that_is_retried_are_plucked_in_any_order(void **state) {
  static const size_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
    check_plucked_in_order(orders[i]);
  }
}

static void the_status_may_be_asked_for_when_nothing_else_is_left(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  struct call_batch *sends = batched_call_start(call, OPS(SEND_ALL));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  pluck(f, sends);
  pluck(f, receives);
  assert_true(batch_received(receives, "bar"));
  pluck(f, batched_call_start(call, OPS(RECV_STATUS)));
  assert_status(call, GRPC_STATUS_OK, "");
  batched_call_release(call);
}

/* As a blocking client does it: it reads until there is nothing more, then asks why. */
static void a_failure_that_is_not_retried_is_plucked_message_first(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  scripted_transport_always(&f->transport, MS(10), answer_not_found);
  struct batched_call *call = batches_new(f);
  pluck(f, batched_call_start(call, OPS(SEND_ALL)));
  struct call_batch *receives = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  pluck(f, receives);
  assert_true(batch_received(receives, NULL));
  pluck(f, batched_call_start(call, OPS(RECV_STATUS)));
  assert_status(call, GRPC_STATUS_NOT_FOUND, "no");
  batched_call_release(call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_failure_that_is_not_retried_is_plucked_message_first),
      TEST(the_status_may_be_asked_for_when_nothing_else_is_left),
      cmocka_unit_test(batches_of_a_call_that_is_retried_are_plucked_in_any_order),
  };
  return cmocka_run_group_tests_name("a6_pluck", tests, NULL, NULL);
}
