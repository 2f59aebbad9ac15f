/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/time/timespec.h"
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

static void what_comes_for_other_tags_is_kept_in_order(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  scripted_transport_always(&f->transport, MS(50), answer_ok);
  grpc_completion_queue *core = weir_completion_queue_core(f->queue);
  static const bool successes[] = {true, false, false, true};
  for (int64_t i = 0; i < 4; i++) {
    scripted_transport_post(&f->transport, core, NULL, successes[i], T0 + MS(1 + i));
    scripted_transport_post(&f->transport, core, (void *)(intptr_t)(i + 1), true, T0 + MS(1 + i));
  }
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  grpc_event event = pluck(f, &unary, WEIR_NO_DEADLINE);
  check_plucked(&event, &unary);
  for (size_t i = 0; i < 4; i++) {
    event = pluck(f, NULL, T0);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    assert_int_equal(event.success, successes[i]);
  }
  for (intptr_t i = 4; i > 0; i--) {
    assert_int_equal(pluck(f, (void *)i, T0).type, GRPC_OP_COMPLETE);
  }
  assert_int_equal(pluck(f, NULL, T0).type, GRPC_QUEUE_TIMEOUT);
  unary_fini(&unary);
}

static void a_parents_cancellation_reaches_a_plucked_call_in_backoff(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  open_pluck(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.parent = parent});
  unary_start(f, &unary);
  assert_int_equal(pluck(f, &unary, T0 + MS(10)).type, GRPC_QUEUE_TIMEOUT);
  scripted_transport_cancel_parent(&f->transport, parent);
  grpc_event event = pluck(f, &unary, WEIR_NO_DEADLINE);

  check_plucked(&event, &unary);
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(pluck(f, NULL, T0).type, GRPC_QUEUE_TIMEOUT); /* the watch has no tag */
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

static void a_backoff_ends_while_another_call_is_plucked(void **state) {
  struct fixture *f = *state;
  open_pluck(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  assert_int_equal(pluck(f, (void *)5, T0 + MS(200)).type, GRPC_QUEUE_TIMEOUT);
  grpc_event event = pluck(f, &unary, T0);

  check_plucked(&event, &unary);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

/* --- queues for callbacks, that the test polls --- */

/* A call of which the tag is a functor. */
struct called_back {
  grpc_completion_queue_functor functor;
  struct fixture *fixture;
  struct unary unary;
  void (*then)(struct called_back *call); /* NULL = nothing */
  struct called_back *other;              /* for `then` */
};

static void called_back_run(grpc_completion_queue_functor *functor, int success) {
  struct called_back *call = (struct called_back *)(void *)functor;
  call->unary.success = success != 0;
  call->unary.n_done++;
  call->unary.done_at_ns = call->fixture->clock.now_ns;
  if (call->then != NULL) {
    call->then(call);
  }
}

static void called_back_start(struct called_back *call) {
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&call->unary, ops);
  assert_int_equal(weir_call_start_batch(call->unary.call, ops, MAX_UNARY_OPS, call, NULL),
                   GRPC_CALL_OK);
  assert_int_equal(call->unary.n_done, 0); /* not within a call of the application's */
}

static void called_back_init(struct fixture *f, struct called_back *call,
                             const struct unary_options *options) {
  *call = (struct called_back){.functor = {.functor_run = called_back_run}, .fixture = f};
  unary_init_with(f, &call->unary, options);
  assert_non_null(call->unary.call);
}

static void open_callback(struct fixture *f) {
  f->translation.boundary = false;
  f->breaker.enabled = false;
  fixture_open_queue(f, GRPC_CQ_CALLBACK);
}

static grpc_completion_type poll_until(struct fixture *f, int64_t until_ns) {
  return weir_completion_queue_poll(f->queue, weir__instant_to_timespec(until_ns), NULL);
}

static void a_functor_is_run_when_its_call_has_ended_after_retries(void **state) {
  struct fixture *f = *state;
  open_callback(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct called_back call;
  called_back_init(f, &call, &(struct unary_options){.method = METHOD});
  called_back_start(&call);
  assert_int_equal(poll_until(f, T0 + MS(109)), GRPC_QUEUE_TIMEOUT);
  assert_int_equal(call.unary.n_done, 0);
  assert_int_equal(poll_until(f, T0 + MS(200)), GRPC_QUEUE_TIMEOUT);

  assert_int_equal(call.unary.n_done, 1);
  assert_int_equal(call.unary.done_at_ns, T0 + MS(110));
  assert_true(call.unary.success);
  assert_true(unary_reply_is(&call.unary, "bar"));
  assert_int_equal(f->clock.now_ns, T0 + MS(200));
  unary_fini(&call.unary);
}

static void a_refused_call_is_told_of_by_a_poll(void **state) {
  struct fixture *f = *state;
  open_callback(f);
  struct called_back call;
  called_back_init(f, &call, &(struct unary_options){.deadline_at_ns = T0});
  called_back_start(&call);
  assert_int_equal(poll_until(f, T0), GRPC_QUEUE_TIMEOUT);

  assert_int_equal(call.unary.n_done, 1);
  assert_int_equal(call.unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  unary_fini(&call.unary);
}

static void cancel_other(struct called_back *call) {
  weir_call_cancel(call->other->unary.call, NULL);
  assert_int_equal(call->other->unary.n_done, 0);
}

static void a_functor_may_cancel_a_call_in_backoff(void **state) {
  struct fixture *f = *state;
  open_callback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct called_back waiting;
  struct called_back refused;
  called_back_init(f, &waiting, &(struct unary_options){.method = METHOD});
  called_back_start(&waiting);
  assert_int_equal(poll_until(f, T0 + MS(5)), GRPC_QUEUE_TIMEOUT);
  called_back_init(f, &refused, &(struct unary_options){.deadline_at_ns = T0});
  refused.then = cancel_other;
  refused.other = &waiting;
  called_back_start(&refused);
  assert_int_equal(poll_until(f, T0 + MS(5)), GRPC_QUEUE_TIMEOUT);

  assert_int_equal(waiting.unary.n_done, 1);
  assert_int_equal(waiting.unary.status, GRPC_STATUS_CANCELLED);
  unary_fini(&waiting.unary);
  unary_fini(&refused.unary);
}

static void start_other(struct called_back *call) {
  unary_fini(&call->unary); /* its own call may go */
  called_back_start(call->other);
}

static void a_functor_may_start_the_next_call(void **state) {
  struct fixture *f = *state;
  struct called_back calls[5];
  open_callback(f);
  scripted_transport_always(&f->transport, MS(10), answer_ok);
  for (size_t i = 0; i < 5; i++) {
    called_back_init(f, &calls[i], &(struct unary_options){.method = METHOD});
    calls[i].then = i < 4 ? start_other : NULL;
    calls[i].other = i < 4 ? &calls[i + 1] : NULL;
  }
  called_back_start(&calls[0]);
  assert_int_equal(poll_until(f, T0 + MS(100)), GRPC_QUEUE_TIMEOUT);

  assert_int_equal(calls[4].unary.done_at_ns, T0 + MS(50));
  assert_int_equal(calls[4].unary.status, GRPC_STATUS_OK);
  unary_fini(&calls[4].unary);
}

static void shutdown_ends_a_backoff_and_its_functor_is_run(void **state) {
  struct fixture *f = *state;
  open_callback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct called_back call;
  called_back_init(f, &call, &(struct unary_options){.method = METHOD});
  called_back_start(&call);
  assert_int_equal(poll_until(f, T0 + MS(5)), GRPC_QUEUE_TIMEOUT);
  weir_completion_queue_shutdown(f->queue);
  assert_int_equal(call.unary.n_done, 0);
  assert_int_equal(poll_until(f, T0), GRPC_QUEUE_SHUTDOWN);

  assert_int_equal(call.unary.n_done, 1);
  assert_int_equal(call.unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(f->clock.now_ns, T0 + MS(5));
  unary_fini(&call.unary);
}

static void a_parents_cancellation_reaches_a_functor(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  open_callback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct called_back call;
  called_back_init(f, &call, &(struct unary_options){.parent = parent});
  called_back_start(&call);
  assert_int_equal(poll_until(f, T0 + MS(10)), GRPC_QUEUE_TIMEOUT);
  scripted_transport_cancel_parent(&f->transport, parent);
  assert_int_equal(poll_until(f, T0 + MS(10)), GRPC_QUEUE_TIMEOUT);

  assert_int_equal(call.unary.n_done, 1);
  assert_int_equal(call.unary.status, GRPC_STATUS_CANCELLED);
  unary_fini(&call.unary);
  f->transport.base.call_unref(&f->transport, parent);
}

/* --- caches of a thread's own --- */

static void a_cached_event_that_is_retried_is_nothing_to_the_application(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(110), REPLY("bar")}));
  struct unary unary;
  void *tag = NULL;
  int ok = 0;
  unary_init(f, &unary);
  weir_completion_queue_thread_local_cache_init(f->queue);
  unary_start(f, &unary);
  scripted_transport_happen(&f->transport);
  assert_int_equal(weir_completion_queue_thread_local_cache_flush(f->queue, &tag, &ok), 0);
  run_until(f, T0 + MS(105));
  weir_completion_queue_thread_local_cache_init(f->queue);
  f->clock.now_ns = T0 + MS(110);
  scripted_transport_happen(&f->transport);
  assert_int_equal(weir_completion_queue_thread_local_cache_flush(f->queue, &tag, &ok), 1);

  assert_ptr_equal(tag, &unary);
  assert_int_equal(ok, 1);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
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
      TEST(what_comes_for_other_tags_is_kept_in_order),
      TEST(a_parents_cancellation_reaches_a_plucked_call_in_backoff),
      TEST(a_backoff_ends_while_another_call_is_plucked),
      TEST(a_functor_is_run_when_its_call_has_ended_after_retries),
      TEST(a_refused_call_is_told_of_by_a_poll),
      TEST(a_functor_may_cancel_a_call_in_backoff),
      TEST(a_functor_may_start_the_next_call),
      TEST(shutdown_ends_a_backoff_and_its_functor_is_run),
      TEST(a_parents_cancellation_reaches_a_functor),
      TEST(a_cached_event_that_is_retried_is_nothing_to_the_application),
  };
  return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
