/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "test/stack/stack_fixture.h"

/* What a test does under an allocator whose nth allocation fails. */
typedef void scenario_fn(struct fixture *f);

/* Runs it with n = 1, 2, … until all of them succeed. The teardown finds what is left behind. */
static void with_each_allocation_failing(scenario_fn *scenario, size_t at_least) {
  size_t nth = 0;
  bool failed = true;
  while (failed) {
    void *state = NULL;
    assert_int_equal(fixture_setup(&state), 0);
    struct fixture *f = state;
    f->allocator.fails_at = ++nth;
    scenario(f);
    failed = f->allocator.n_failed > 0;
    assert_int_equal(fixture_teardown(&state), 0);
  }
  assert_true(nth > at_least); /* it has allocated at all */
}

/* --- constructors --- */

static void make_everything(struct fixture *f) {
  static const char *const keys[] = {"x-quota"};
  f->translation.keep_metadata = keys;
  f->translation.n_keep_metadata = 1;
  f->policy_options.throttle_max_tokens = 10;
  f->policy_options.throttle_token_ratio_milli = 100;
  enum weir_error error = fixture_make_policy(f);
  assert_true(error == WEIR_OK || error == WEIR_ERROR_NO_MEMORY);
  assert_int_equal(error == WEIR_OK, f->policy != NULL);
  if (f->policy != NULL) {
    f->channel = fixture_make_channel(f, "failing.shop.internal");
    f->queue = fixture_make_queue(f, GRPC_CQ_NEXT);
  }
  if (f->allocator.n_failed == 0) {
    assert_non_null(f->channel);
    assert_non_null(f->queue);
  }
}

static void constructors_leave_nothing_behind(void **state) {
  (void)state;
  with_each_allocation_failing(make_everything, 5);
}

static void make_inbound(struct fixture *f) {
  weir_inbound *inbound = NULL;
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  options.allocator = &f->allocator.base;
  enum weir_error error = weir_inbound_new(NULL, NULL, NULL, &options, &inbound);
  assert_int_equal(error, f->allocator.n_failed > 0 ? WEIR_ERROR_NO_MEMORY : WEIR_OK);
  assert_int_equal(inbound == NULL, f->allocator.n_failed > 0);
  weir_inbound_release(inbound);
}

static void an_inbound_is_made_whole_or_not_at_all(void **state) {
  (void)state;
  with_each_allocation_failing(make_inbound, 1);
}

/* --- calls --- */

/* Opens with memory, then lets the same allocation fail that was to fail. */
static void open_with_memory(struct fixture *f, grpc_cq_completion_type type) {
  size_t nth = f->allocator.fails_at;
  f->allocator.fails_at = 0;
  f->translation.boundary = false;
  f->breaker.enabled = false;
  fixture_open_queue(f, type);
  counting_allocator_fail_nth(&f->allocator, nth);
}

/* Much of everything, so that nothing fits inline. */
static void make_large(struct fixture *f, struct unary *unary) {
  grpc_slice slices[5];
  for (size_t i = 0; i < 5; i++) {
    slices[i] = scripted_transport_slice(&f->transport, "0123456789abcdefghijklmnopqrstuvwxyz", 36);
  }
  grpc_byte_buffer_destroy(unary->request);
  unary->request = grpc_raw_byte_buffer_create(slices, 5);
  for (size_t i = 0; i < 5; i++) {
    grpc_slice_unref(slices[i]);
  }
  for (size_t i = 0; i < 30; i++) {
    unary_add_metadata(f, unary, "many", "v");
  }
}

static void retry_a_large_call(struct fixture *f) {
  struct unary unary;
  open_with_memory(f, GRPC_CQ_NEXT);
  scripted_transport_always(&f->transport, MS(1), answer_unavailable);
  unary_init_with(f, &unary, &(struct unary_options){.method = METHOD});
  if (unary.call != NULL) {
    make_large(f, &unary);
    grpc_call_error error = unary_try_start(f, &unary);
    assert_true(error == GRPC_CALL_OK || error == GRPC_CALL_ERROR);
    assert_true(error == GRPC_CALL_OK || f->allocator.n_failed > 0);
    run_until_idle(f);
    assert_int_equal(unary.n_done, error == GRPC_CALL_OK ? 1 : 0);
    if (unary.n_done == 1) {
      assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
      assert_true(unary_details_are(&unary, "busy"));
      assert_int_equal(unary_report(&unary).n_attempts, f->transport.n_sent);
      assert_true(f->allocator.n_failed > 0 || f->transport.n_sent == 4);
    }
  }
  unary_fini(&unary);
}

static void a_call_ends_once_with_its_last_real_status(void **state) {
  (void)state;
  with_each_allocation_failing(retry_a_large_call, 5);
}

static void the_report_says_that_memory_was_the_reason(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct unary unary;
  unary_init(f, &unary);
  make_large(f, &unary);
  unary_start(f, &unary);
  counting_allocator_fail_nth(&f->allocator, 1); /* the metadata of the second attempt */
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_details_are(&unary, "busy"));
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_NO_MEMORY);
  assert_int_equal(unary_report(&unary).n_attempts, 1);
  unary_fini(&unary);
}

/* The throttle is charged once for one failure, even if the retry can't be made. */
static void a_failure_is_told_to_the_layers_once(void **state) {
  struct fixture *f = *state;
  f->policy_options.throttle_max_tokens = 10;
  f->policy_options.throttle_token_ratio_milli = 100;
  f->method.retry.max_attempts = 5;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  make_large(f, &unary);
  unary_start(f, &unary);
  counting_allocator_fail_nth(&f->allocator, 1);
  run_until_idle(f);
  assert_int_equal(f->transport.n_sent, 1); /* 9 tokens are left */
  unary_fini(&unary);

  unary_run(f, &unary); /* 8, 7, 6: retried; 5: not */
  assert_int_equal(unary_report(&unary).n_attempts, 4);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_THROTTLED);
  unary_fini(&unary);
}

static void cancel_with_words(struct fixture *f) {
  struct unary unary;
  open_with_memory(f, GRPC_CQ_NEXT);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  unary_init_with(f, &unary, &(struct unary_options){.method = METHOD});
  if (unary.call != NULL) {
    unary_start(f, &unary);
    run_until(f, T0 + MS(5));
    weir_call_cancel_with_status(unary.call, GRPC_STATUS_ABORTED, "enough", NULL);
    run_until_idle(f);
    assert_int_equal(unary.n_done, 1);
    assert_int_equal(unary.status,
                     f->allocator.n_failed > 0 ? GRPC_STATUS_CANCELLED : GRPC_STATUS_ABORTED);
  }
  unary_fini(&unary);
}

static void a_cancellation_without_memory_is_a_plain_one(void **state) {
  (void)state;
  with_each_allocation_failing(cancel_with_words, 1);
}

static void pluck_a_call(struct fixture *f) {
  struct unary unary;
  open_with_memory(f, GRPC_CQ_PLUCK);
  scripted_transport_always(&f->transport, 0, answer_ok);
  unary_init_with(f, &unary, &(struct unary_options){.method = METHOD});
  if (unary.call != NULL && unary_try_start(f, &unary) == GRPC_CALL_OK) {
    grpc_event event =
        weir_completion_queue_pluck(f->queue, &unary, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    assert_int_equal(unary.status, GRPC_STATUS_OK);
  }
  unary_fini(&unary);
}

static void a_call_is_plucked_or_refused(void **state) {
  (void)state;
  with_each_allocation_failing(pluck_a_call, 1);
}

static void serve_and_call(struct fixture *f) {
  struct unary unaries[4];
  grpc_call *parent = scripted_transport_parent(&f->transport);
  open_with_memory(f, GRPC_CQ_NEXT);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  for (size_t i = 0; i < 4; i++) {
    unary_init_with(f, &unaries[i], &(struct unary_options){.parent = parent});
    if (unaries[i].call != NULL) {
      size_t n_started = unary_try_start(f, &unaries[i]) == GRPC_CALL_OK ? 1 : 0;
      grpc_call_error error = weir_call_start_batch(unaries[i].call, NULL, 0, f, NULL);
      run_until_idle(f);
      assert_int_equal(f->n_foreign, error == GRPC_CALL_OK ? 1 : 0);
      assert_int_equal(unaries[i].n_done, n_started);
      f->n_foreign = 0;
    }
  }
  for (size_t i = 0; i < 4; i++) {
    unary_fini(&unaries[i]);
  }
  f->transport.base.call_unref(&f->transport, parent);
}

static void calls_under_a_parent_and_empty_batches_end_once(void **state) {
  (void)state;
  with_each_allocation_failing(serve_and_call, 1);
}

/* Breakers of methods, one of which is set by hand, and a fallback for what they refuse and what
 * fails. */
static void fall_back(struct fixture *f) {
  static const char *const methods[] = {METHOD, OTHER_METHOD, METHOD};
  size_t nth = f->allocator.fails_at;
  f->allocator.fails_at = 0;
  f->has_fallback = true;
  f->fallback_options.on_failure = true;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  fixture_open(f);
  counting_allocator_fail_nth(&f->allocator, nth);
  scripted_transport_always(&f->transport, MS(1), answer_unavailable);
  enum weir_error error =
      weir_channel_set_breaker_override(f->channel, METHOD, WEIR_BREAKER_OVERRIDE_OPEN);
  assert_true(error == WEIR_OK || (error == WEIR_ERROR_NO_MEMORY && f->allocator.n_failed > 0));
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    struct unary unary;
    unary_init_with(f, &unary, &(struct unary_options){.method = methods[i]});
    if (unary.call != NULL && unary_try_start(f, &unary) == GRPC_CALL_OK) {
      run_until(f, f->clock.now_ns + SECONDS(30));
      scripted_fallback_run_all(&f->fallback);
      run_until_idle(f);
      struct weir_call_report report = unary_report(&unary);
      bool hit = report.fallback_result == WEIR_FALLBACK_HIT;
      assert_int_equal(unary.n_done, 1);
      assert_int_equal(unary.status, hit ? GRPC_STATUS_OK : GRPC_STATUS_UNAVAILABLE);
      assert_int_equal(unary.reply != NULL, hit);
      assert_true(hit || report.fallback_result == WEIR_FALLBACK_NO_RESOURCES ||
                  report.fallback_result == WEIR_FALLBACK_TIMED_OUT);
      bool refused = error == WEIR_OK && i % 2 == 0;
      assert_int_equal(report.origin == WEIR_ORIGIN_LOCAL_BREAKER, refused);
      assert_int_equal(report.total_ns, report.attempts_ns + report.backoff_ns + report.queued_ns +
                                            report.fallback_ns);
    }
    unary_fini(&unary);
  }
  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, METHOD, WEIR_BREAKER_OVERRIDE_NONE), WEIR_OK);
  assert_int_equal(f->fallback.n_questions, 0);
}

static void a_fallback_is_asked_or_the_call_fails_as_it_would(void **state) {
  (void)state;
  with_each_allocation_failing(fall_back, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constructors_leave_nothing_behind),
      cmocka_unit_test(an_inbound_is_made_whole_or_not_at_all),
      cmocka_unit_test(a_call_ends_once_with_its_last_real_status),
      TEST(the_report_says_that_memory_was_the_reason),
      TEST(a_failure_is_told_to_the_layers_once),
      cmocka_unit_test(a_cancellation_without_memory_is_a_plain_one),
      cmocka_unit_test(a_call_is_plucked_or_refused),
      cmocka_unit_test(calls_under_a_parent_and_empty_batches_end_once),
      cmocka_unit_test(a_fallback_is_asked_or_the_call_fails_as_it_would),
  };
  return cmocka_run_group_tests_name("no memory", tests, NULL, NULL);
}
