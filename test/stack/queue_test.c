/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/time/instant.h"
#include "test/stack/stack_fixture.h"

/* --- tags of others --- */

static void foreign_tags_pass_through_untouched(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(2), answer_ok);
  grpc_completion_queue *core = weir_completion_queue_core(f->queue);
  struct unary unary;
  unary_init(f, &unary);
  void *const tags[] = {NULL, (void *)3, (void *)UINTPTR_MAX, &unary.status, f->queue};
  for (size_t i = 0; i < 5; i++) {
    scripted_transport_post(&f->transport, core, tags[i], i % 2 == 0, T0 + MS(1) * (int64_t)i);
  }
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_ptr_equal(f->foreign[i], tags[i]);
    assert_int_equal(f->foreign_success[i], i % 2 == 0);
  }
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void a_foreign_event_is_not_held_up_by_a_backoff(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  scripted_transport_post(&f->transport, weir_completion_queue_core(f->queue), (void *)7, true,
                          T0 + MS(50));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  grpc_event event =
      weir_completion_queue_next(f->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);

  assert_ptr_equal(event.tag, (void *)7);
  assert_int_equal(f->clock.now_ns, T0 + MS(50));
  run_until_idle(f);
  unary_fini(&unary);
}

/* --- several calls --- */

static void calls_with_backoffs_of_their_own_interleave(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(30), EXPECT_SEND},
                 {AT_MS(40), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, ""), PUSHBACK("20")},
                 {AT_MS(60), EXPECT_SEND}, {AT_MS(70), REPLY("second")}, {AT_MS(100), EXPECT_SEND},
                 {AT_MS(110), REPLY("first")}));
  struct unary first;
  struct unary second;
  unary_init(f, &first);
  unary_init(f, &second);
  unary_start(f, &first);
  run_until(f, T0 + MS(30));
  unary_start(f, &second);
  run_until_idle(f);

  assert_true(unary_reply_is(&first, "first"));
  assert_true(unary_reply_is(&second, "second"));
  assert_int_equal(first.done_at_ns, T0 + MS(110));
  assert_int_equal(second.done_at_ns, T0 + MS(70));
  unary_fini(&first);
  unary_fini(&second);
}

static void a_thousand_backoffs_end_each_in_its_time(void **state) {
  struct fixture *f = *state;
  static struct unary unaries[1000];
  fixture_open_raw(f);
  seeded_random_init(&f->random, 1);
  for (size_t i = 0; i < 1000; i += 50) {
    scripted_transport_always(&f->transport, 0, answer_unavailable);
    for (size_t k = i; k < i + 50; k++) {
      unary_init(f, &unaries[k]);
      unary_start(f, &unaries[k]);
    }
    run_until(f, f->clock.now_ns);
    scripted_transport_always(&f->transport, 0, answer_ok);
    int64_t from_ns = f->clock.now_ns;
    run_until_idle(f);
    for (size_t k = i; k < i + 50; k++) {
      assert_int_equal(unaries[k].status, GRPC_STATUS_OK);
      assert_in_range(unaries[k].done_at_ns - from_ns, MS(80), MS(120));
      unary_fini(&unaries[k]);
    }
  }
}

static void a_drainer_whose_patience_is_at_an_end_gets_a_timeout(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  grpc_event event =
      weir_completion_queue_next(f->queue, weir__instant_to_timespec(T0 + MS(99)), NULL);
  assert_int_equal(event.type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(f->clock.now_ns, T0 + MS(99));
  event = weir_completion_queue_next(f->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
  assert_int_equal(event.type, GRPC_QUEUE_TIMEOUT);
  assert_int_equal(f->clock.now_ns, T0 + MS(99));
  run_until_idle(f);
  unary_fini(&unary);
}

static void a_result_without_the_core_comes_before_its_events(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_post(&f->transport, weir_completion_queue_core(f->queue), (void *)7, true, T0);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0});
  unary_start(f, &unary);
  grpc_event event = weir_completion_queue_next(f->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);

  assert_ptr_equal(event.tag, &unary);
  run_until_idle(f);
  assert_ptr_equal(f->foreign[0], (void *)7);
  unary_fini(&unary);
}

/* --- pluck queues --- */

static grpc_event pluck(struct fixture *f, void *tag, int64_t until_ns) {
  return weir_completion_queue_pluck(f->queue, tag, weir__instant_to_timespec(until_ns), NULL);
}

static void open_pluck(struct fixture *f) {
  f->translation.boundary = false;
  f->breaker.enabled = false;
  fixture_open_queue(f, GRPC_CQ_PLUCK);
}

static void check_plucked(const grpc_event *event, const struct unary *unary) {
  assert_int_equal(event->type, GRPC_OP_COMPLETE);
  assert_ptr_equal(event->tag, unary);
  assert_int_equal(event->success, 1);
}

static void a_call_is_plucked_through_its_retries(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  grpc_event event = pluck(f, &unary, WEIR_NO_DEADLINE);

  check_plucked(&event, &unary);
  assert_int_equal(f->clock.now_ns, T0 + MS(110));
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void a_pluck_that_times_out_may_be_tried_again(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  for (int64_t slice = 20; slice <= 100; slice += 20) {
    assert_int_equal(pluck(f, &unary, T0 + MS(slice)).type, GRPC_QUEUE_TIMEOUT);
    assert_int_equal(f->clock.now_ns, T0 + MS(slice));
  }
  grpc_event event = pluck(f, &unary, T0 + MS(120));

  check_plucked(&event, &unary);
  unary_fini(&unary);
}

static void a_foreign_tag_is_plucked_as_it_is(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  scripted_transport_always(&f->transport, MS(10), answer_ok);
  scripted_transport_post(&f->transport, weir_completion_queue_core(f->queue), (void *)5, false,
                          T0 + MS(30));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  grpc_event foreign = pluck(f, (void *)5, WEIR_NO_DEADLINE);
  assert_int_equal(foreign.type, GRPC_OP_COMPLETE);
  assert_ptr_equal(foreign.tag, (void *)5);
  assert_int_equal(foreign.success, 0);
  assert_int_equal(f->clock.now_ns, T0 + MS(30));
  grpc_event event = pluck(f, &unary, WEIR_NO_DEADLINE);

  check_plucked(&event, &unary);
  unary_fini(&unary);
}

static void a_tag_may_be_plucked_before_its_batch_is_started(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  scripted_transport_always(&f->transport, MS(10), answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  assert_int_equal(pluck(f, &unary, T0 + MS(5)).type, GRPC_QUEUE_TIMEOUT);
  unary_start(f, &unary);
  grpc_event event = pluck(f, &unary, WEIR_NO_DEADLINE);

  check_plucked(&event, &unary);
  unary_fini(&unary);
}

static void a_refused_call_is_plucked_like_any_other(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0});
  unary_start(f, &unary);
  assert_int_equal(pluck(f, (void *)5, T0 + MS(5)).type, GRPC_QUEUE_TIMEOUT);
  grpc_event event = pluck(f, &unary, WEIR_NO_DEADLINE);

  check_plucked(&event, &unary);
  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  unary_fini(&unary);
}

static void a_call_cancelled_in_backoff_is_plucked(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  assert_int_equal(pluck(f, &unary, T0 + MS(5)).type, GRPC_QUEUE_TIMEOUT);
  weir_call_cancel(unary.call, NULL);
  grpc_event event = pluck(f, &unary, WEIR_NO_DEADLINE);

  check_plucked(&event, &unary);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(f->clock.now_ns, T0 + MS(5));
  unary_fini(&unary);
}

static void two_calls_are_plucked_in_any_order(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  scripted_transport_always(&f->transport, MS(10), answer_ok);
  struct unary first;
  struct unary second;
  unary_init(f, &first);
  unary_init(f, &second);
  unary_start(f, &first);
  unary_start(f, &second);
  grpc_event event = pluck(f, &second, WEIR_NO_DEADLINE);
  check_plucked(&event, &second);
  event = pluck(f, &first, WEIR_NO_DEADLINE);
  check_plucked(&event, &first);
  unary_fini(&first);
  unary_fini(&second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(foreign_tags_pass_through_untouched),
      TEST(a_foreign_event_is_not_held_up_by_a_backoff),
      TEST(calls_with_backoffs_of_their_own_interleave),
      TEST(a_thousand_backoffs_end_each_in_its_time),
      TEST(a_drainer_whose_patience_is_at_an_end_gets_a_timeout),
      TEST(a_result_without_the_core_comes_before_its_events),
      TEST(a_call_is_plucked_through_its_retries),
      TEST(a_pluck_that_times_out_may_be_tried_again),
      TEST(a_foreign_tag_is_plucked_as_it_is),
      TEST(a_tag_may_be_plucked_before_its_batch_is_started),
      TEST(a_refused_call_is_plucked_like_any_other),
      TEST(a_call_cancelled_in_backoff_is_plucked),
      TEST(two_calls_are_plucked_in_any_order),
  };
  return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
