/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/call/environment.h"
#include "src/channel/channel.h"
#include "test/stack/stack_fixture.h"

/* Calls in one batch whose time is kept by their queue, and of which the core knows no deadline. */

static void open_keeping(struct fixture *f) {
  fixture_open_raw(f);
  f->channel->environment->keeps_time = true;
}

static void start_until(struct fixture *f, struct unary *unary, int64_t deadline_at_ns) {
  unary_init_with(
      f, unary,
      &(struct unary_options){.method = METHOD, .deadline_at_ns = deadline_at_ns, .parent = NULL});
  unary_start(f, unary);
}

static void assert_cut_off(const struct fixture *f, size_t nth, int64_t after_ns) {
  assert_true(sent(f, nth)->cancelled);
  assert_int_equal(sent(f, nth)->cancel_code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(sent(f, nth)->ended_at_ns, T0 + after_ns);
}

static void the_peer_is_told_the_time_and_the_core_is_not(void **state) {
  struct fixture *f = *state;
  open_keeping(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(40), REPLY("bar")}));
  struct unary unary;
  start_until(f, &unary, T0 + MS(500));
  run_until_idle(f);
  assert_int_equal(sent(f, 1)->deadline_at_ns, WEIR_NO_DEADLINE);
  assert_string_equal(sent_attempt_value(sent(f, 1), "grpc-timeout"), "501m");
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-budget-us"), "500000");
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_false(sent(f, 1)->cancelled);
  unary_fini(&unary);
}

static void a_silent_call_is_cut_off_when_its_time_is_up(void **state) {
  struct fixture *f = *state;
  open_keeping(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  start_until(f, &unary, T0 + MS(500));
  run_until_idle(f);
  assert_cut_off(f, 1, MS(500));
  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_true(unary_details_are(&unary, "Deadline Exceeded"));
  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_CALL);
  assert_int_equal(report.n_attempts, 1);
  unary_fini(&unary);
}

/* The look through the times is for the first of them, and there is another for the next. */
static void each_call_has_its_own_time(void **state) {
  struct fixture *f = *state;
  open_keeping(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), EXPECT_SEND}, {AT_MS(0), EXPECT_SEND}));
  struct unary unaries[3];
  start_until(f, &unaries[0], T0 + MS(300));
  start_until(f, &unaries[1], T0 + MS(100));
  start_until(f, &unaries[2], T0 + MS(200));
  run_until_idle(f);
  assert_cut_off(f, 1, MS(300));
  assert_cut_off(f, 2, MS(100));
  assert_cut_off(f, 3, MS(200));
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(unaries[i].status, GRPC_STATUS_DEADLINE_EXCEEDED);
    unary_fini(&unaries[i]);
  }
}

static void each_attempt_has_its_own_time(void **state) {
  struct fixture *f = *state;
  f->method.per_attempt_timeout_ns = MS(100);
  open_keeping(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(200), EXPECT_SEND}, {AT_MS(290), REPLY("bar")}));
  struct unary unary;
  start_until(f, &unary, T0 + SECONDS(5));
  run_until_idle(f);
  assert_cut_off(f, 1, MS(100));
  assert_string_equal(sent_attempt_value(sent(f, 1), "grpc-timeout"), "101m");
  assert_string_equal(sent_attempt_value(sent(f, 2), "grpc-timeout"), "101m");
  assert_false(sent(f, 2)->cancelled);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(unary_report(&unary).attempts[0].code, GRPC_STATUS_DEADLINE_EXCEEDED);
  unary_fini(&unary);
}

static void a_parents_deadline_is_left_to_the_core(void **state) {
  struct fixture *f = *state;
  open_keeping(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(40), REPLY("bar")}));
  struct unary unary;
  unary_init_with(
      f, &unary,
      &(struct unary_options){.method = METHOD, .deadline_at_ns = T0 + MS(500), .parent = parent});
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + MS(500));
  assert_null(sent_attempt_value(sent(f, 1), "grpc-timeout"));
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

static void a_call_without_a_deadline_is_never_cut_off(void **state) {
  struct fixture *f = *state;
  f->deadline.default_timeout_ns = WEIR_NO_LIMIT_NS;
  f->deadline.max_timeout_ns = WEIR_NO_LIMIT_NS;
  open_keeping(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(3600000), REPLY("bar")}));
  struct unary unary;
  start_until(f, &unary, 0);
  run_until_idle(f);
  assert_null(sent_attempt_value(sent(f, 1), "grpc-timeout"));
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_peer_is_told_the_time_and_the_core_is_not),
      TEST(a_silent_call_is_cut_off_when_its_time_is_up),
      TEST(each_call_has_its_own_time),
      TEST(each_attempt_has_its_own_time),
      TEST(a_parents_deadline_is_left_to_the_core),
      TEST(a_call_without_a_deadline_is_never_cut_off),
  };
  return cmocka_run_group_tests_name("kept_time", tests, NULL, NULL);
}
