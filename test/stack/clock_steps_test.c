/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "src/time/timespec.h"
#include "test/stack/batches.h"

/* Clocks that jump: the wall clock, when somebody sets it, and the monotonic one, after the machine
 * has slept. */

#define HOURS(n) SECONDS(3600 * INT64_C(n))

/* --- the wall clock --- */

/* The core's own seam for its tests. */
extern gpr_timespec (*gpr_now_impl)(gpr_clock_type clock_type);

static struct {
  gpr_timespec (*real)(gpr_clock_type clock_type);
  const struct fake_clock *clock;
  int64_t ahead_ns; /* of the monotonic one */
} wall;

static gpr_timespec wall_now(gpr_clock_type clock_type) {
  if (clock_type != GPR_CLOCK_REALTIME) {
    return wall.real(clock_type);
  }
  gpr_timespec now = weir__instant_to_timespec(wall.clock->now_ns + wall.ahead_ns);
  now.clock_type = GPR_CLOCK_REALTIME;
  return now;
}

static void wall_begin(const struct fixture *f) {
  wall.real = gpr_now_impl;
  wall.clock = &f->clock;
  wall.ahead_ns = HOURS(400000); /* some time this century */
  gpr_now_impl = wall_now;
}

static void wall_end(void) {
  gpr_now_impl = wall.real;
}

/* In that much time by the wall clock. */
static gpr_timespec wall_in(int64_t ns) {
  return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_nanos(ns, GPR_TIMESPAN));
}

static struct batched_call *call_until(struct fixture *f, gpr_timespec deadline) {
  return batched_call_new(weir_channel_create_call(
      f->channel, NULL, 0, f->queue, grpc_slice_from_static_string(METHOD), NULL, deadline, NULL));
}

static const struct {
  const char *why;
  int64_t before_start_ns; /* how far the clock is set after the call was made */
  int64_t after_start_ns;
} wall_rows[] = {
    {"not at all", 0, 0},
    {"an hour ahead, before the call is started", HOURS(1), 0},
    {"an hour back, before the call is started", HOURS(-1), 0},
    {"an hour ahead, while it is under way", 0, HOURS(1)},
    {"an hour back, while it is under way", 0, HOURS(-1)},
    {"there and back", HOURS(1), HOURS(-1)},
};

/* A deadline, and a backoff of 1 s. */
static void check_wall_row(size_t nth, bool one_batch) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  f->method.retry.initial_backoff_ns = SECONDS(1);
  fixture_open_raw(f);
  wall_begin(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(100), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(1100), EXPECT_SEND}));
  struct batched_call *call = call_until(f, wall_in(SECONDS(2)));
  wall.ahead_ns += wall_rows[nth].before_start_ns;
  batched_call_start(call, one_batch ? OPS(SEND_ALL, RECV_ALL) : OPS(SEND_ALL));
  if (!one_batch) {
    batched_call_start(call, OPS(RECV_ALL));
  }
  drain_until(f, T0 + MS(500));
  wall.ahead_ns += wall_rows[nth].after_start_ns;
  drain(f);
  wall_end();

  if (elapsed_ns(f) != SECONDS(2) || sent(f, 2)->deadline_at_ns != T0 + SECONDS(2)) {
    fail_msg("%s: it ended after %lld ns", wall_rows[nth].why, (long long)elapsed_ns(f));
  }
  assert_int_equal(call->status, GRPC_STATUS_DEADLINE_EXCEEDED);
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void a_step_of_the_wall_clock_changes_nothing_of_a_call(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof wall_rows / sizeof wall_rows[0]; i++) {
    check_wall_row(i, true);
    check_wall_row(i, false);
  }
}

/* --- the monotonic clock --- */

#define N_WAITING 5

/* In any order of due times, and one of them long before it would be due. */
static void what_is_overdue_after_a_jump_fires_once_each(void **state) {
  struct fixture *f = *state;
  f->method.retry.max_attempts = 2;
  f->method.per_attempt_timeout_ns = MS(500);
  f->deadline.default_timeout_ns = WEIR_NO_LIMIT_NS;
  f->deadline.max_timeout_ns = WEIR_NO_LIMIT_NS;
  fixture_open_raw(f);
  struct batched_call *waiting[N_WAITING];
  struct wire_answer busy = answer_unavailable;
  for (size_t i = 0; i < N_WAITING; i++) {
    static const char *const delays_ms[N_WAITING] = {"300", "100", "400", "200", "86400000"};
    busy.trailing[0] = (struct wire_pair){"grpc-retry-pushback-ms", delays_ms[i]};
    scripted_transport_always(&f->transport, 0, busy);
    waiting[i] = batches_new(f);
    batched_call_start(waiting[i], i % 2 == 0 ? OPS(SEND_ALL, RECV_ALL) : OPS(SEND_ALL));
    if (i % 2 != 0) {
      batched_call_start(waiting[i], OPS(RECV_ALL));
    }
    drain_until(f, T0);
  }
  scripted_transport_always(&f->transport, HOURS(1000), answer_ok); /* never */
  struct batched_call *silent = batches_new(f);
  batched_call_start(silent, OPS(SEND_ALL));
  batched_call_start(silent, OPS(RECV_ALL));
  drain_until(f, T0 + MS(10));
  assert_int_equal(f->transport.n_sent, N_WAITING + 1);

  scripted_transport_always(&f->transport, 0, answer_ok);
  fake_clock_advance_to(&f->clock, T0 + HOURS(6));
  drain_until(f, T0 + HOURS(6) + SECONDS(1));
  assert_int_equal(f->transport.n_sent, N_WAITING + 1 + N_WAITING); /* one is not due for a day */
  for (size_t i = 0; i + 1 < N_WAITING; i++) {
    struct weir_call_report report = batched_call_report(waiting[i]);
    assert_int_equal(report.code, GRPC_STATUS_OK);
    assert_int_equal(report.n_attempts, 2);
    assert_int_equal(report.total_ns, HOURS(6));
    assert_int_equal(report.attempts_ns + report.backoff_ns + report.queued_ns, report.total_ns);
    assert_true(report.backoff_ns <= MS(400));
  }
  assert_report(silent, 2, WEIR_REASON_NONE); /* cut off, and answered */
  assert_int_equal(weir_call_cancel(waiting[N_WAITING - 1]->call, NULL), GRPC_CALL_OK);
  drain(f);
  for (size_t i = 0; i < N_WAITING; i++) {
    batched_call_release(waiting[i]);
  }
  batched_call_release(silent);
}

static void a_breaker_is_half_open_after_a_jump_and_admits_a_probe(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  f->method.retry = (struct weir_retry_policy){.max_attempts = 1};
  f->breaker.min_requests = 2;
  f->breaker.open_for_ns = SECONDS(10);
  f->breaker.probes = 1;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 2);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);

  fake_clock_advance_to(&f->clock, T0 + HOURS(6));
  scripted_transport_always(&f->transport, MS(5), answer_ok);
  struct unary probe;
  struct unary refused;
  unary_init(f, &probe);
  unary_init(f, &refused);
  unary_start(f, &probe);
  unary_start(f, &refused);
  run_until_idle(f);

  assert_int_equal(probe.status, GRPC_STATUS_OK);
  assert_int_equal(unary_report(&refused).reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(f->transport.n_sent, 3);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(fixture_breaker(f).n_trips, 1);
  unary_fini(&probe);
  unary_fini(&refused);
}

/* As after a suspended machine that nobody has told: the time of the call is up, and nothing more
 * is sent. */
static void a_call_whose_time_went_in_a_jump_makes_no_attempt(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct batched_call *call = batches_new_until(f, T0 + SECONDS(30));
  batched_call_start(call, OPS(SEND_ALL));
  batched_call_start(call, OPS(RECV_ALL));
  drain_until(f, T0 + MS(10));
  fake_clock_advance_to(&f->clock, T0 + HOURS(6));
  drain(f);

  assert_int_equal(f->transport.n_sent, 1);
  assert_status(call, GRPC_STATUS_UNAVAILABLE, "busy");
  assert_report(call, 1, WEIR_REASON_BUDGET);
  batched_call_release(call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_of_the_wall_clock_changes_nothing_of_a_call),
      TEST(what_is_overdue_after_a_jump_fires_once_each),
      TEST(a_breaker_is_half_open_after_a_jump_and_admits_a_probe),
      TEST(a_call_whose_time_went_in_a_jump_makes_no_attempt),
  };
  return cmocka_run_group_tests_name("steps of clocks", tests, NULL, NULL);
}
