/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

/* A call whose first attempt has failed at T0, 100 ms before the second. */
static void start_in_backoff(struct fixture *f, struct unary *unary) {
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")}));
  unary_init(f, unary);
  unary_start(f, unary);
  run_until(f, T0 + MS(40));
  assert_int_equal(unary->n_done, 0);
}

static void check_cancelled(const struct unary *unary, grpc_status_code code, const char *text) {
  assert_int_equal(unary->n_done, 1);
  assert_true(unary->success);
  assert_int_equal(unary->status, code);
  assert_true(unary_details_are(unary, text));
  assert_null(unary->reply);
  assert_int_equal(unary_report(unary).origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(unary_report(unary).reason, WEIR_REASON_CANCELLED);
}

/* --- before there is an attempt --- */

static void a_call_cancelled_before_it_starts_sends_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct unary unary;
  unary_init(f, &unary);
  assert_int_equal(weir_call_cancel(unary.call, NULL), GRPC_CALL_OK);
  unary_start(f, &unary);
  assert_int_equal(unary.n_done, 0);
  run_until_idle(f);

  assert_int_equal(f->transport.n_created, 0);
  check_cancelled(&unary, GRPC_STATUS_CANCELLED, "the call was cancelled");
  unary_fini(&unary);
}

static void it_ends_with_the_status_that_it_was_cancelled_with(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct unary unary;
  unary_init(f, &unary);
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_FAILED_PRECONDITION, "not today", NULL);
  unary_start(f, &unary);
  run_until_idle(f);

  check_cancelled(&unary, GRPC_STATUS_FAILED_PRECONDITION, "not today");
  unary_fini(&unary);
}

static void a_call_that_is_never_started_can_be_cancelled_and_let_go(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct unary unary;
  unary_init(f, &unary);
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_ABORTED, "x", NULL);
  unary_fini(&unary);
  assert_int_equal(f->transport.n_created, 0);
}

static void a_cancellation_with_something_reserved_is_refused_and_changes_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  assert_int_equal(weir_call_cancel(unary.call, &unary), GRPC_CALL_ERROR);
  assert_int_equal(weir_call_cancel_with_status(unary.call, GRPC_STATUS_ABORTED, "x", &unary),
                   GRPC_CALL_ERROR);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_false(sent(f, 1)->cancelled);
  unary_fini(&unary);
}

/* --- in an attempt --- */

static void cancelling_reaches_the_attempt_and_ends_the_call(void **state) {
  struct fixture *f = *state;
  f->method.retry.retryable_codes |= CODE_BIT(GRPC_STATUS_CANCELLED);
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  run_until(f, T0 + MS(20));
  weir_call_cancel(unary.call, NULL);
  run_until_idle(f);

  assert_true(sent(f, 1)->cancelled);
  assert_int_equal(unary.done_at_ns, T0 + MS(20));
  check_cancelled(&unary, GRPC_STATUS_CANCELLED, "the call was cancelled");
  unary_fini(&unary);
}

static void the_first_cancellation_wins(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_FAILED_PRECONDITION, "first", NULL);
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_ABORTED, "second", NULL);
  weir_call_cancel(unary.call, NULL);
  run_until_idle(f);

  check_cancelled(&unary, GRPC_STATUS_FAILED_PRECONDITION, "first");
  unary_fini(&unary);
}

static void cancelling_an_ended_call_changes_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), REPLY("bar")}));
  struct unary unary;
  unary_run(f, &unary);
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_ABORTED, "late", NULL);

  assert_int_equal(unary_report(&unary).code, GRPC_STATUS_OK);
  unary_fini(&unary);
}

/* The answer is on the queue when the call is cancelled. */
static void an_answer_that_has_come_stays_unless_it_would_be_retried(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("bar")}, {AT_MS(0), EXPECT_SEND},
                 {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")}));
  struct unary answered;
  struct unary failed;
  unary_init(f, &answered);
  unary_init(f, &failed);
  unary_start(f, &answered);
  scripted_transport_happen(&f->transport);
  weir_call_cancel(answered.call, NULL);
  unary_start(f, &failed);
  scripted_transport_happen(&f->transport);
  weir_call_cancel(failed.call, NULL);
  run_until_idle(f);

  assert_int_equal(answered.status, GRPC_STATUS_OK);
  check_cancelled(&failed, GRPC_STATUS_CANCELLED, "the call was cancelled");
  unary_fini(&answered);
  unary_fini(&failed);
}

struct code_row {
  int given;
  grpc_status_code code;
};

static void a_cancellation_is_a_failure_with_a_code_of_grpcs(void **state) {
  static const struct code_row rows[] = {
      {GRPC_STATUS_OK, GRPC_STATUS_CANCELLED},
      {GRPC_STATUS_UNAVAILABLE, GRPC_STATUS_UNAVAILABLE}, /* and it is not retried */
      {77, GRPC_STATUS_UNKNOWN},
      {-1, GRPC_STATUS_UNKNOWN},
  };
  struct fixture *f = *state;
  fixture_open_raw(f);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct unary unary;
    play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
    unary_init(f, &unary);
    unary_start(f, &unary);
    weir_call_cancel_with_status(unary.call, (grpc_status_code)rows[i].given, "x", NULL);
    run_until_idle(f);
    check_cancelled(&unary, rows[i].code, "x");
    unary_fini(&unary);
  }
}

/* --- in a backoff --- */

static void cancelling_ends_a_backoff_at_once(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  start_in_backoff(f, &unary);
  weir_call_cancel(unary.call, NULL);
  assert_int_equal(unary.n_done, 0);
  run_until_idle(f);

  assert_int_equal(unary.done_at_ns, T0 + MS(40));
  check_cancelled(&unary, GRPC_STATUS_CANCELLED, "the call was cancelled");
  assert_int_equal(unary_report(&unary).n_attempts, 1);
  unary_fini(&unary);
}

static void a_backoff_ends_with_the_status_that_it_was_cancelled_with(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  start_in_backoff(f, &unary);
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_FAILED_PRECONDITION, "x", NULL);
  weir_call_cancel(unary.call, NULL);
  run_until_idle(f);

  check_cancelled(&unary, GRPC_STATUS_FAILED_PRECONDITION, "x");
  unary_fini(&unary);
}

static void a_cancel_at_the_instant_of_the_timer_leaves_no_attempt(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  start_in_backoff(f, &unary);
  fake_clock_advance_to(&f->clock, T0 + MS(100)); /* due, and not seen yet */
  weir_call_cancel(unary.call, NULL);
  run_until_idle(f);

  check_cancelled(&unary, GRPC_STATUS_CANCELLED, "the call was cancelled");
  assert_int_equal(f->transport.n_sent, 1);
  unary_fini(&unary);
}

static void a_cancel_right_after_the_timer_reaches_the_new_attempt(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  run_until(f, T0 + MS(100));
  weir_call_cancel(unary.call, NULL);
  run_until_idle(f);

  assert_true(sent(f, 2)->cancelled);
  check_cancelled(&unary, GRPC_STATUS_CANCELLED, "the call was cancelled");
  unary_fini(&unary);
}

static void a_call_let_go_in_backoff_still_gives_its_tag(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  start_in_backoff(f, &unary);
  weir_call_unref(unary.call);
  unary.call = NULL;
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(unary.done_at_ns, T0 + MS(40));
  unary_fini(&unary);
}

static void a_call_let_go_in_an_attempt_still_gives_its_tag(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init(f, &unary);
  weir_call_ref(unary.call);
  unary_start(f, &unary);
  weir_call_unref(unary.call); /* another share is left: nothing happens */
  run_until(f, T0 + MS(5));
  assert_int_equal(unary.n_done, 0);
  weir_call_unref(unary.call);
  unary.call = NULL;
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  unary_fini(&unary);
}

static void a_boundary_keeps_the_status_of_a_cancellation(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_FAILED_PRECONDITION, "x", NULL);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_FAILED_PRECONDITION);
  unary_fini(&unary);
}

/* --- the parent's --- */

static void start_with_parent(struct fixture *f, struct unary *unary, grpc_call *parent) {
  fixture_open_raw(f);
  weir_inbound *inbound = fixture_inbound(f, 0, NULL, parent);
  unary_init_with(f, unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, unary);
}

static void the_parents_cancellation_reaches_an_attempt(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  struct unary unary;
  start_with_parent(f, &unary, parent);
  run_until(f, T0 + MS(10));
  scripted_transport_cancel_parent(&f->transport, parent);
  run_until_idle(f);

  assert_int_equal(unary.done_at_ns, T0 + MS(10));
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_LOCAL_CANCEL);
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

static void the_parents_cancellation_reaches_a_backoff(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  struct unary unary;
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  start_with_parent(f, &unary, parent);
  run_until(f, T0 + MS(10));
  scripted_transport_cancel_parent(&f->transport, parent);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.done_at_ns, T0 + MS(10));
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(f->transport.n_sent, 1);
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

/* Cancels a call, once, when its end lets go of its parent. */
static struct late_canceller {
  void (*cancel)(void *context, grpc_call *call, grpc_status_code code, const char *description);
  weir_call *call; /* NULL = it was, or is not to be */
} late_canceller;

static void cancel_late(void *context, grpc_call *core, grpc_status_code code,
                        const char *description) {
  weir_call *call = late_canceller.call;
  late_canceller.call = NULL;
  late_canceller.cancel(context, core, code, description);
  if (call != NULL) {
    weir_call_cancel_with_status(call, GRPC_STATUS_ABORTED, "too late", NULL);
  }
}

/* As another thread may. */
static void a_cancellation_after_the_parents_changes_nothing(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  struct unary unary;
  late_canceller = (struct late_canceller){.cancel = f->transport.base.call_cancel};
  f->transport.base.call_cancel = cancel_late;
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  start_with_parent(f, &unary, parent);
  run_until(f, T0 + MS(10));
  late_canceller.call = unary.call;
  scripted_transport_cancel_parent(&f->transport, parent);
  run_until_idle(f);

  assert_null(late_canceller.call);
  check_cancelled(&unary, GRPC_STATUS_CANCELLED, "the call was cancelled");
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

static void a_retry_under_a_parent_leaves_nothing_behind(void **state) {
  struct fixture *f = *state;
  grpc_call *parent = scripted_transport_parent(&f->transport);
  struct unary unary;
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), REPLY("bar")}));
  start_with_parent(f, &unary, parent);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_ptr_equal(sent(f, 2)->parent, parent);
  assert_int_equal(f->transport.n_parents, 1); /* the test's own */
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_call_cancelled_before_it_starts_sends_nothing),
      TEST(it_ends_with_the_status_that_it_was_cancelled_with),
      TEST(a_call_that_is_never_started_can_be_cancelled_and_let_go),
      TEST(a_cancellation_with_something_reserved_is_refused_and_changes_nothing),
      TEST(cancelling_reaches_the_attempt_and_ends_the_call),
      TEST(the_first_cancellation_wins),
      TEST(cancelling_an_ended_call_changes_nothing),
      TEST(an_answer_that_has_come_stays_unless_it_would_be_retried),
      TEST(a_cancellation_is_a_failure_with_a_code_of_grpcs),
      TEST(cancelling_ends_a_backoff_at_once),
      TEST(a_backoff_ends_with_the_status_that_it_was_cancelled_with),
      TEST(a_cancel_at_the_instant_of_the_timer_leaves_no_attempt),
      TEST(a_cancel_right_after_the_timer_reaches_the_new_attempt),
      TEST(a_call_let_go_in_backoff_still_gives_its_tag),
      TEST(a_call_let_go_in_an_attempt_still_gives_its_tag),
      TEST(a_boundary_keeps_the_status_of_a_cancellation),
      TEST(the_parents_cancellation_reaches_an_attempt),
      TEST(the_parents_cancellation_reaches_a_backoff),
      TEST(a_cancellation_after_the_parents_changes_nothing),
      TEST(a_retry_under_a_parent_leaves_nothing_behind),
  };
  return cmocka_run_group_tests_name("cancellation", tests, NULL, NULL);
}
