/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

static void start_many_in_backoff(struct fixture *f, struct unary *unaries, size_t n) {
  f->method.retry.initial_backoff_ns = SECONDS(5);
  f->method.retry.max_backoff_ns = SECONDS(5);
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  for (size_t i = 0; i < n; i++) {
    unary_init(f, &unaries[i]);
    unary_start(f, &unaries[i]);
  }
  run_until(f, T0 + MS(10));
}

static void shutdown_ends_backoffs_at_once_with_the_last_real_status(void **state) {
  struct fixture *f = *state;
  struct unary unaries[20];
  start_many_in_backoff(f, unaries, 20);
  weir_completion_queue_shutdown(f->queue);
  weir_completion_queue_shutdown(f->queue); /* more does no harm */
  run_until_idle(f);

  assert_true(f->saw_shutdown);
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  assert_int_equal(f->transport.n_sent, 20);
  for (size_t i = 0; i < 20; i++) {
    assert_int_equal(unaries[i].n_done, 1);
    assert_int_equal(unaries[i].status, GRPC_STATUS_UNAVAILABLE);
    assert_true(unary_details_are(&unaries[i], "busy"));
    assert_int_equal(unary_report(&unaries[i]).reason, WEIR_REASON_SHUTDOWN);
    assert_int_equal(unary_report(&unaries[i]).total_ns, MS(10)); /* the wait included */
    unary_fini(&unaries[i]);
  }
}

static void the_shutdown_event_comes_after_every_tag(void **state) {
  struct fixture *f = *state;
  struct unary waiting;
  struct unary silent;
  start_many_in_backoff(f, &waiting, 1);
  scripted_transport_always(&f->transport, SECONDS(2), answer_ok);
  unary_init(f, &silent);
  unary_start(f, &silent);
  weir_completion_queue_shutdown(f->queue);
  run_until(f, T0 + SECONDS(1));
  assert_int_equal(waiting.n_done, 1);
  assert_int_equal(silent.n_done, 0);
  assert_false(f->saw_shutdown);
  run_until_idle(f);

  assert_int_equal(silent.status, GRPC_STATUS_OK);
  assert_true(f->saw_shutdown);
  unary_fini(&waiting);
  unary_fini(&silent);
}

static void no_attempt_is_made_after_shutdown(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(50), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"), PUSHBACK("0")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  weir_completion_queue_shutdown(f->queue);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_details_are(&unary, "busy"));
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_SHUTDOWN);
  assert_true(f->saw_shutdown);
  unary_fini(&unary);
}

static void a_batch_on_a_queue_that_is_shut_down_is_refused(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct unary unary;
  unary_init(f, &unary);
  weir_completion_queue_shutdown(f->queue);
  assert_int_equal(unary_try_start(f, &unary), GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
  assert_int_equal(weir_call_start_batch(unary.call, NULL, 0, &unary, NULL),
                   GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
  run_until_idle(f);

  assert_true(f->saw_shutdown);
  assert_int_equal(f->transport.n_created, 0);
  unary_fini(&unary);
}

/* As with the core: as long as something is under way, more may be started. */
static void a_batch_may_be_started_while_another_is_under_way(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(5), answer_ok);
  struct unary first;
  struct unary second;
  unary_init(f, &first);
  unary_init(f, &second);
  unary_start(f, &first);
  weir_completion_queue_shutdown(f->queue);
  unary_start(f, &second);
  run_until_idle(f);

  assert_int_equal(first.status, GRPC_STATUS_OK);
  assert_int_equal(second.status, GRPC_STATUS_OK);
  assert_true(f->saw_shutdown);
  unary_fini(&first);
  unary_fini(&second);
}

static void a_call_may_be_cancelled_in_backoff_before_the_shutdown(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  start_many_in_backoff(f, &unary, 1);
  weir_call_cancel(unary.call, NULL);
  weir_completion_queue_shutdown(f->queue);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_true(f->saw_shutdown);
  unary_fini(&unary);
}

static void a_backoff_under_a_parent_does_not_hold_the_shutdown_up(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.parent = parent});
  unary_start(f, &unary);
  run_until(f, T0 + MS(10));
  weir_completion_queue_shutdown(f->queue);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_true(f->saw_shutdown);
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

static void calls_outlive_their_channel(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  start_many_in_backoff(f, &unary, 1);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_channel_destroy(f->channel);
  f->channel = NULL;
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void calls_may_be_released_after_their_queue(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("bar"), WITH_TRAILING("x-a", "1")}));
  struct unary unary;
  unary_run(f, &unary);
  fixture_close_queue(f);

  assert_true(unary_can_see(&unary, "x-a"));
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(shutdown_ends_backoffs_at_once_with_the_last_real_status),
      TEST(the_shutdown_event_comes_after_every_tag),
      TEST(no_attempt_is_made_after_shutdown),
      TEST(a_batch_on_a_queue_that_is_shut_down_is_refused),
      TEST(a_batch_may_be_started_while_another_is_under_way),
      TEST(a_call_may_be_cancelled_in_backoff_before_the_shutdown),
      TEST(a_backoff_under_a_parent_does_not_hold_the_shutdown_up),
      TEST(calls_outlive_their_channel),
      TEST(calls_may_be_released_after_their_queue),
  };
  return cmocka_run_group_tests_name("shutdown", tests, NULL, NULL);
}
