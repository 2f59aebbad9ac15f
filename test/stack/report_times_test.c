/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/stack/batches.h"

/* The report tells what ate the time of a call: its attempts, the waits that were asked for, and
 * the rest. Three attempts, 100 ms apart. */

#define MAX_ATTEMPTS 3
#define FAILS TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")

struct times_row {
  const char *why;
  const struct script_step *script;
  int64_t deadline_ms;  /* 0 = none */
  int64_t away_from_ms; /* nobody drains from then until `back_at_ms`; 0 = somebody always does */
  int64_t back_at_ms;   /* 0 = as above */
  int64_t cancelled_at_ms; /* 0 = it is not; so below. Not before `back_at_ms` */
  int64_t shut_down_at_ms;

  uint32_t n_attempts;
  enum weir_reason reason;
  int64_t attempts_ms;
  int64_t backoff_ms;
  int64_t queued_ms;
};

static const struct script_step answered[] = {
    {AT_MS(0), EXPECT_SEND}, {AT_MS(30), REPLY("bar")}, SCRIPT_END};
static const struct script_step retried[] = {{AT_MS(0), EXPECT_SEND},
                                             {AT_MS(20), FAILS},
                                             {AT_MS(120), EXPECT_SEND},
                                             {AT_MS(150), REPLY("bar")},
                                             SCRIPT_END};
static const struct script_step retried_twice[] = {{AT_MS(0), EXPECT_SEND},
                                                   {AT_MS(20), FAILS},
                                                   {AT_MS(120), EXPECT_SEND},
                                                   {AT_MS(125), FAILS},
                                                   {AT_MS(225), EXPECT_SEND},
                                                   {AT_MS(226), FAILS},
                                                   SCRIPT_END};
static const struct script_step told_when[] = {{AT_MS(0), EXPECT_SEND},
                                               {AT_MS(20), FAILS, PUSHBACK("70")},
                                               {AT_MS(90), EXPECT_SEND},
                                               {AT_MS(95), REPLY("bar")},
                                               SCRIPT_END};
static const struct script_step told_now[] = {{AT_MS(0), EXPECT_SEND},
                                              {AT_MS(20), FAILS, PUSHBACK("0")},
                                              {AT_MS(20), EXPECT_SEND},
                                              {AT_MS(50), REPLY("bar")},
                                              SCRIPT_END};
static const struct script_step replayed[] = {{AT_MS(0), EXPECT_SEND},
                                              {AT_MS(10), UNPROCESSED},
                                              {AT_MS(10), EXPECT_SEND},
                                              {AT_MS(25), REPLY("bar")},
                                              SCRIPT_END};
static const struct script_step failed_once[] = {
    {AT_MS(0), EXPECT_SEND}, {AT_MS(20), FAILS}, SCRIPT_END};
static const struct script_step retried_late[] = {{AT_MS(0), EXPECT_SEND},
                                                  {AT_MS(20), FAILS},
                                                  {AT_MS(300), EXPECT_SEND},
                                                  {AT_MS(310), REPLY("bar")},
                                                  SCRIPT_END};
static const struct script_step then_silent[] = {
    {AT_MS(0), EXPECT_SEND}, {AT_MS(20), FAILS}, {AT_MS(120), EXPECT_SEND}, SCRIPT_END};
static const struct script_step nothing_sent[] = {SCRIPT_END};

static const struct times_row rows[] = {
    {.why = "answered at once", .script = answered, .n_attempts = 1, .attempts_ms = 30},
    {.why = "one retry", .script = retried, .n_attempts = 2, .attempts_ms = 50, .backoff_ms = 100},
    {.why = "all attempts are used up",
     .script = retried_twice,
     .n_attempts = 3,
     .reason = WEIR_REASON_ATTEMPTS_EXHAUSTED,
     .attempts_ms = 26,
     .backoff_ms = 200},
    {.why = "the peer's wait counts as one",
     .script = told_when,
     .n_attempts = 2,
     .attempts_ms = 25,
     .backoff_ms = 70},
    {.why = "a retry at once waits for nothing",
     .script = told_now,
     .n_attempts = 2,
     .attempts_ms = 50},
    {.why = "so does a replay of what no server saw",
     .script = replayed,
     .n_attempts = 2,
     .attempts_ms = 25},
    {.why = "cancelled in an attempt",
     .script = answered,
     .cancelled_at_ms = 10,
     .n_attempts = 1,
     .reason = WEIR_REASON_CANCELLED,
     .attempts_ms = 10},
    {.why = "cancelled in a backoff: as much of it as was waited",
     .script = failed_once,
     .cancelled_at_ms = 60,
     .n_attempts = 1,
     .reason = WEIR_REASON_CANCELLED,
     .attempts_ms = 20,
     .backoff_ms = 40},
    {.why = "the queue is shut down in a backoff",
     .script = failed_once,
     .shut_down_at_ms = 50,
     .n_attempts = 1,
     .reason = WEIR_REASON_SHUTDOWN,
     .attempts_ms = 20,
     .backoff_ms = 30},
    {.why = "a backoff that does not fit is not waited for",
     .script = failed_once,
     .deadline_ms = 100,
     .n_attempts = 1,
     .reason = WEIR_REASON_BUDGET,
     .attempts_ms = 20},
    {.why = "the deadline comes in the second attempt",
     .script = then_silent,
     .deadline_ms = 200,
     .n_attempts = 2,
     .reason = WEIR_REASON_DEADLINE,
     .attempts_ms = 100,
     .backoff_ms = 100},
    {.why = "a backoff is over, and nobody drains",
     .script = retried_late,
     .away_from_ms = 60,
     .back_at_ms = 300,
     .n_attempts = 2,
     .attempts_ms = 30,
     .backoff_ms = 100,
     .queued_ms = 180},
    {.why = "a backoff is over, nobody drains, and the time runs out",
     .script = failed_once,
     .deadline_ms = 250,
     .away_from_ms = 60,
     .back_at_ms = 300,
     .n_attempts = 1,
     .reason = WEIR_REASON_BUDGET,
     .attempts_ms = 20,
     .backoff_ms = 100,
     .queued_ms = 180},
    {.why = "cancelled when the backoff has long been over",
     .script = failed_once,
     .away_from_ms = 60,
     .back_at_ms = 300,
     .cancelled_at_ms = 300,
     .n_attempts = 1,
     .reason = WEIR_REASON_CANCELLED,
     .attempts_ms = 20,
     .backoff_ms = 100,
     .queued_ms = 180},
    {.why = "an answer that nobody takes from the queue is the attempt's",
     .script = answered,
     .away_from_ms = 10,
     .back_at_ms = 200,
     .n_attempts = 1,
     .attempts_ms = 200},
    {.why = "refused: its deadline was past",
     .script = nothing_sent,
     .deadline_ms = -1,
     .reason = WEIR_REASON_DEADLINE},
};

static const struct times_row *current; /* for what a failure prints */

static void fail_row(const struct weir_call_report *report, bool one_batch) {
  fail_msg("%s, %s: %u attempts, %s; %lld + %lld + %lld of %lld ns", current->why,
           one_batch ? "one batch" : "several batches", (unsigned)report->n_attempts,
           weir_reason_name(report->reason), (long long)report->attempts_ns,
           (long long)report->backoff_ns, (long long)report->queued_ns,
           (long long)report->total_ns);
}

static void check_times(const struct batched_call *call, bool one_batch) {
  const struct times_row *row = current;
  struct weir_call_report report = batched_call_report(call);
  if (report.attempts_ns != MS(row->attempts_ms) || report.backoff_ns != MS(row->backoff_ms) ||
      report.queued_ns != MS(row->queued_ms) ||
      report.total_ns != MS(row->attempts_ms + row->backoff_ms + row->queued_ms) ||
      report.n_attempts != row->n_attempts || report.reason != row->reason) {
    fail_row(&report, one_batch);
  }
  int64_t attempts_ns = 0;
  for (size_t i = 0; i < WEIR_REPORT_ATTEMPTS; i++) {
    attempts_ns += report.attempts[i].duration_ns;
  }
  assert_int_equal(report.attempts_ns, attempts_ns);
}

static void let_happen(struct fixture *f, struct batched_call *call) {
  const struct times_row *row = current;
  if (row->away_from_ms != 0) {
    drain_until(f, T0 + MS(row->away_from_ms));
    fake_clock_advance_to(&f->clock, T0 + MS(row->back_at_ms));
  }
  if (row->cancelled_at_ms != 0) {
    if (row->away_from_ms == 0) {
      drain_until(f, T0 + MS(row->cancelled_at_ms));
    }
    assert_int_equal(weir_call_cancel(call->call, NULL), GRPC_CALL_OK);
  }
  if (row->shut_down_at_ms != 0) {
    drain_until(f, T0 + MS(row->shut_down_at_ms));
    weir_completion_queue_shutdown(f->queue);
  }
  drain(f);
}

static void run_row(bool one_batch) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, MAX_ATTEMPTS);
  bool whole = current->cancelled_at_ms == 0 || current->script != answered;
  if (whole) {
    play(f, current->script);
  }
  struct batched_call *call = batches_new_until(
      f, current->deadline_ms != 0 ? T0 + MS(current->deadline_ms) : WEIR_NO_DEADLINE);
  if (one_batch) {
    batched_call_start(call, OPS(SEND_ALL, RECV_ALL));
  } else {
    batched_call_start(call, OPS(SEND_ALL));
    batched_call_start(call, OPS(RECV_METADATA));
    batched_call_start(call, OPS(RECV_MESSAGE));
    batched_call_start(call, OPS(RECV_STATUS));
  }
  let_happen(f, call);
  check_times(call, one_batch);
  batched_call_release(call);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void the_parts_of_a_calls_time_are_told_and_are_the_whole(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    current = &rows[i];
    run_row(true);
    run_row(false);
  }
}

/* The core refuses to be asked how it ended. */
static void an_attempt_that_breaks_has_its_time(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, MAX_ATTEMPTS);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(20), FAILS}));
  struct batched_call *call = batches_new(f);
  batched_call_start(call, OPS(SEND_ALL));
  batched_call_start(call, OPS(RECV_METADATA));
  batched_call_start(call, OPS(RECV_MESSAGE));
  drain_until(f, T0 + MS(10));
  f->transport.start_fails_at = f->transport.n_start_batches + 1;
  drain(f);

  struct weir_call_report report = batched_call_report(call);
  assert_int_equal(report.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(report.n_attempts, 1);
  assert_int_equal(report.attempts_ns, MS(20));
  assert_int_equal(report.total_ns, MS(20));
  batched_call_release(call);
}

/* A program that was built before the times were told. */
static void an_older_program_gets_the_report_that_it_knows(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, MAX_ATTEMPTS);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(30), REPLY("bar")}));
  struct batched_call *call = batches_new(f);
  batched_call_start(call, OPS(SEND_ALL, RECV_ALL));
  drain(f);

  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  report.size = offsetof(struct weir_call_report, attempts_ns);
  report.attempts_ns = 7;
  assert_int_equal(weir_call_get_report(call->call, &report), WEIR_OK);
  assert_int_equal(report.size, offsetof(struct weir_call_report, attempts_ns));
  assert_int_equal(report.total_ns, MS(30));
  assert_int_equal(report.attempts_ns, 7); /* behind what it knows */
  batched_call_release(call);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_parts_of_a_calls_time_are_told_and_are_the_whole),
      TEST(an_attempt_that_breaks_has_its_time),
      TEST(an_older_program_gets_the_report_that_it_knows),
  };
  return cmocka_run_group_tests_name("times of the report", tests, NULL, NULL);
}
