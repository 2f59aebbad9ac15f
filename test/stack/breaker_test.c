/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

/* A breaker that opens for 10 s after `min_requests` calls of which all failed. */
static void open_with_breaker(struct fixture *f, uint32_t min_requests) {
  f->breaker.min_requests = min_requests;
  f->breaker.failure_ratio = 1.0;
  f->breaker.open_for_ns = SECONDS(10);
  f->breaker.probes = 1;
  fixture_open(f);
}

static void trip(struct fixture *f) {
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, f->breaker.min_requests);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

static void pass_the_open_time(struct fixture *f) {
  f->clock.now_ns += SECONDS(10);
}

/* --- what counts --- */

static void four_failed_attempts_are_one_failure(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 3);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);

  assert_int_equal(f->transport.n_sent, 4);
  assert_int_equal(fixture_breaker(f).n_requests, 1);
  assert_int_equal(fixture_breaker(f).n_failures, 1);
}

static void a_call_that_a_retry_saved_is_a_success(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 3);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), REPLY("bar")}));
  run_calls(f, 1);

  assert_int_equal(fixture_breaker(f).n_requests, 1);
  assert_int_equal(fixture_breaker(f).n_failures, 0);
}

struct verdict_row {
  const char *why;
  struct wire_answer answer;
  uint64_t n_failures; /* of 1 sample */
};

static const struct verdict_row verdict_rows[] = {
    {"UNAVAILABLE", {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = ""}, 1},
    {"ABORTED", {.what = WIRE_TRAILERS_ONLY, .status = 10, .text = ""}, 1},
    {"the peer's DEADLINE_EXCEEDED", {.what = WIRE_TRAILERS_ONLY, .status = 4, .text = ""}, 1},
    {"no connection", {.what = WIRE_CONNECT_FAIL, .status = 14, .text = ""}, 1},
    {"UNKNOWN", {.what = WIRE_TRAILERS_ONLY, .status = 2, .text = ""}, 0},
    {"INVALID_ARGUMENT", {.what = WIRE_TRAILERS_ONLY, .status = 3, .text = ""}, 0},
    {"RESOURCE_EXHAUSTED", {.what = WIRE_TRAILERS_ONLY, .status = 8, .text = ""}, 0},
    {"INTERNAL", {.what = WIRE_TRAILERS_ONLY, .status = 13, .text = ""}, 0},
    {"UNAUTHENTICATED", {.what = WIRE_TRAILERS_ONLY, .status = 16, .text = ""}, 0},
    {"the peer's CANCELLED", {.what = WIRE_TRAILERS_ONLY, .status = 1, .text = ""}, 0},
};

static void only_transport_failures_count(void **state) {
  struct fixture *f = *state;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  open_with_breaker(f, 100);
  for (size_t i = 0; i < sizeof verdict_rows / sizeof verdict_rows[0]; i++) {
    const struct verdict_row *row = &verdict_rows[i];
    struct weir_breaker_snapshot before = {.n_requests = 0, .n_failures = 0};
    if (i > 0) {
      before = fixture_breaker(f);
    }
    scripted_transport_always(&f->transport, 0, row->answer);
    run_calls(f, 1);
    struct weir_breaker_snapshot after = fixture_breaker(f);
    if (after.n_requests != before.n_requests + 1 ||
        after.n_failures != before.n_failures + row->n_failures) {
      fail_msg("%s", row->why);
    }
  }
}

static void a_silent_peer_counts(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  for (size_t i = 0; i < 2; i++) {
    struct unary unary;
    unary_init_with(f, &unary,
                    &(struct unary_options){.deadline_at_ns = f->clock.now_ns + SECONDS(1)});
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
  }
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

static void a_cancelled_call_is_no_sample(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  for (size_t i = 0; i < 50; i++) {
    struct unary unary;
    unary_init(f, &unary);
    unary_start(f, &unary);
    run_until(f, f->clock.now_ns + MS(20));
    weir_call_cancel(unary.call, NULL);
    run_until_idle(f);
    assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
    unary_fini(&unary);
  }
  assert_int_equal(fixture_breaker(f).n_requests, 0);
}

/* --- open --- */

static void an_open_breaker_refuses_without_touching_the_core(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  trip(f);
  run_until(f, f->clock.now_ns + SECONDS(4));
  size_t n_touches = f->transport.n_touches;
  f->log.n_records = 0;
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  assert_int_equal(unary.n_done, 0); /* delivered by the queue, not by the start of the batch */
  run_until_idle(f);

  assert_int_equal(f->transport.n_touches, n_touches);
  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_int_equal(report.breaker_state, WEIR_BREAKER_OPEN);
  assert_int_equal(report.next_probe_in_ns, SECONDS(6));
  assert_int_equal(report.n_attempts, 0);
  assert_true(report.do_not_retry);
  assert_false(report.caller_may_retry);
  unary_fini(&unary);
}

static void refusals_are_no_trips_and_no_samples(void **state) {
  struct fixture *f = *state;
  f->policy_options.throttle_max_tokens = 10;
  f->policy_options.throttle_token_ratio_milli = 500;
  open_with_breaker(f, 2);
  trip(f);
  run_calls(f, 1000);

  struct weir_breaker_snapshot breaker = fixture_breaker(f);
  assert_int_equal(breaker.n_trips, 1);
  assert_int_equal(breaker.n_refused, 1000);
  assert_int_equal(breaker.n_requests, 0);
}

static void calls_in_backoff_end_when_the_breaker_opens(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  open_with_breaker(f, 2);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary waiting[5];
  for (size_t i = 0; i < 5; i++) {
    unary_init(f, &waiting[i]);
    unary_start(f, &waiting[i]);
  }
  run_until(f, f->clock.now_ns); /* all are in their first backoff */
  struct wire_answer aborted = {.what = WIRE_TRAILERS_ONLY, .status = 10, .text = "aborted"};
  scripted_transport_always(&f->transport, 0, aborted);
  for (size_t i = 0; i < 2;
       i++) { /* not listed: each ends at once, and the second opens the breaker */
    struct unary unary;
    unary_init(f, &unary);
    unary_start(f, &unary);
    run_until(f, f->clock.now_ns);
    unary_fini(&unary);
  }
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  size_t n_sent = f->transport.n_sent;
  run_until_idle(f);

  assert_int_equal(f->transport.n_sent, n_sent);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(waiting[i].n_done, 1);
    assert_int_equal(waiting[i].status, GRPC_STATUS_UNAVAILABLE);
    assert_true(unary_details_are(&waiting[i], "busy"));
    assert_int_equal(unary_report(&waiting[i]).reason, WEIR_REASON_BREAKER_OPEN);
    assert_int_equal(unary_report(&waiting[i]).n_attempts, 1);
    unary_fini(&waiting[i]);
  }
}

/* --- half open --- */

static void a_probe_makes_one_attempt(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  trip(f);
  pass_the_open_time(f);
  size_t n_sent = f->transport.n_sent;
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(f->transport.n_sent, n_sent + 1);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  unary_fini(&unary);
}

static void a_probe_that_succeeds_closes(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  trip(f);
  pass_the_open_time(f);
  scripted_transport_always(&f->transport, MS(5), answer_ok);
  struct unary probe;
  struct unary other;
  unary_init(f, &probe);
  unary_init(f, &other);
  unary_start(f, &probe);
  unary_start(f, &other);
  run_until_idle(f);

  assert_int_equal(probe.status, GRPC_STATUS_OK);
  assert_int_equal(unary_report(&other).reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
  unary_fini(&probe);
  unary_fini(&other);
}

/* A new call is let through: a probe is free. */
static void check_probe_is_free(struct fixture *f) {
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_HALF_OPEN);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_run(f, &unary);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
  unary_fini(&unary);
}

static void start_silent_probe(struct fixture *f, struct unary *probe) {
  trip(f);
  pass_the_open_time(f);
  scripted_transport_always(&f->transport, SECONDS(60), answer_ok);
  unary_init(f, probe);
  unary_start(f, probe);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_HALF_OPEN);
}

static void a_cancelled_probe_gives_its_place_back(void **state) {
  struct fixture *f = *state;
  struct unary probe;
  open_with_breaker(f, 2);
  start_silent_probe(f, &probe);
  weir_call_cancel(probe.call, NULL);
  run_until_idle(f);
  assert_int_equal(probe.status, GRPC_STATUS_CANCELLED);
  unary_fini(&probe);
  check_probe_is_free(f);
}

static void a_probe_that_is_let_go_gives_its_place_back(void **state) {
  struct fixture *f = *state;
  struct unary probe;
  open_with_breaker(f, 2);
  start_silent_probe(f, &probe);
  weir_call_unref(probe.call);
  probe.call = NULL;
  run_until_idle(f);
  assert_int_equal(probe.n_done, 1);
  unary_fini(&probe);
  check_probe_is_free(f);
}

static void a_probe_that_can_not_be_started_gives_its_place_back(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  trip(f);
  pass_the_open_time(f);
  f->transport.start_fails_at = f->transport.n_start_batches + 1;
  struct unary unary;
  unary_init(f, &unary);
  assert_int_equal(unary_try_start(f, &unary), GRPC_CALL_ERROR);

  /* the same call may be started again, with the retries that any other call has */
  pass_the_open_time(f);
  check_probe_is_free(f);
  size_t n_sent = f->transport.n_sent;
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  grpc_byte_buffer_destroy(unary.request);
  unary.request = NULL;
  unary_set_request(f, &unary, 3);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(f->transport.n_sent, n_sent + 4);
  unary_fini(&unary);
}

static void a_probe_that_never_ends_loses_its_place_after_its_lease(void **state) {
  struct fixture *f = *state;
  struct unary probe;
  f->breaker.probe_lease_ns = SECONDS(30);
  f->method.timeout_ns = SECONDS(50);
  open_with_breaker(f, 2);
  start_silent_probe(f, &probe);
  run_until(f, f->clock.now_ns + SECONDS(31));
  check_probe_is_free(f);
  run_until_idle(f); /* the late end is of a generation that is over */
  assert_int_equal(probe.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(fixture_breaker(f).n_failures, 0);
  unary_fini(&probe);
}

/* --- a breaker that only watches --- */

/* OPEN, then HALF_OPEN with its only place taken, then beside the probe. */
static void in_shadow_mode_calls_go_on_as_without_a_breaker(void **state) {
  struct fixture *f = *state;
  f->breaker.mode = WEIR_BREAKER_MODE_SHADOW;
  open_with_breaker(f, 2);
  trip(f);
  size_t n_sent = f->transport.n_sent;
  for (uint64_t i = 1; i <= 3; i++) {
    struct unary unary;
    unary_run(f, &unary);
    assert_int_equal(unary_report(&unary).n_attempts, 4);
    assert_int_equal(unary_report(&unary).reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
    assert_int_equal(f->transport.n_sent, n_sent + 4 * i);
    unary_fini(&unary);
    pass_the_open_time(f);
  }
  assert_int_equal(fixture_breaker(f).n_refused, 0);
  assert_true(fixture_breaker(f).n_shadowed > 0);
  assert_int_equal(f->transport.n_reconnects, 0);
}

static void what_is_switched_off_by_hand_lets_calls_go_on_as_without_it(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  trip(f);
  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, METHOD, WEIR_BREAKER_OVERRIDE_DISABLED),
      WEIR_OK);
  size_t n_sent = f->transport.n_sent;
  struct unary unary;
  unary_run(f, &unary);
  assert_int_equal(f->transport.n_sent, n_sent + 4);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  assert_int_equal(fixture_breaker(f).n_requests, 0);
  unary_fini(&unary);
}

/* The core is left alone: nothing is going to be probed. */
static void what_is_opened_by_hand_stays_so(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  scripted_transport_always(&f->transport, 0, answer_ok);
  assert_int_equal(weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN),
                   WEIR_OK);
  for (size_t i = 0; i < 3; i++) {
    struct unary unary;
    unary_run(f, &unary);
    struct weir_call_report report = unary_report(&unary);
    assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
    assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
    assert_int_equal(report.next_probe_in_ns, WEIR_NO_LIMIT_NS);
    unary_fini(&unary);
    f->clock.now_ns += SECONDS(3600);
  }
  assert_int_equal(f->transport.n_sent, 0);
  assert_int_equal(f->transport.n_reconnects, 0);

  assert_int_equal(weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_NONE),
                   WEIR_OK);
  run_calls(f, 1);
  assert_int_equal(f->transport.n_sent, 1);
}

/* --- order of the layers --- */

/* The deadline is outside the breaker, so an expired call is told so even while the breaker is
 * open. */
static void deadline_is_outside_the_breaker(void **state) {
  struct fixture *f = *state;
  open_with_breaker(f, 2);
  trip(f);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = f->clock.now_ns});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(fixture_breaker(f).n_refused, 0);
  unary_fini(&unary);
}

/* Translation is outside the breaker, so a refusal is told in its words. */
static void translation_is_outside_the_breaker(void **state) {
  struct fixture *f = *state;
  f->translation.message_ref = false;
  f->translation.codes[GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_INTERNAL;
  open_with_breaker(f, 2);
  trip(f);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_INTERNAL);
  assert_true(unary_details_are(&unary, "downstream service error"));
  assert_int_equal(unary_report(&unary).raw_code, GRPC_STATUS_UNAVAILABLE);
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(four_failed_attempts_are_one_failure),
      TEST(a_call_that_a_retry_saved_is_a_success),
      TEST(only_transport_failures_count),
      TEST(a_silent_peer_counts),
      TEST(a_cancelled_call_is_no_sample),
      TEST(an_open_breaker_refuses_without_touching_the_core),
      TEST(refusals_are_no_trips_and_no_samples),
      TEST(calls_in_backoff_end_when_the_breaker_opens),
      TEST(a_probe_makes_one_attempt),
      TEST(a_probe_that_succeeds_closes),
      TEST(a_cancelled_probe_gives_its_place_back),
      TEST(a_probe_that_is_let_go_gives_its_place_back),
      TEST(a_probe_that_can_not_be_started_gives_its_place_back),
      TEST(a_probe_that_never_ends_loses_its_place_after_its_lease),
      TEST(in_shadow_mode_calls_go_on_as_without_a_breaker),
      TEST(what_is_switched_off_by_hand_lets_calls_go_on_as_without_it),
      TEST(what_is_opened_by_hand_stays_so),
      TEST(deadline_is_outside_the_breaker),
      TEST(translation_is_outside_the_breaker),
  };
  return cmocka_run_group_tests_name("breaker", tests, NULL, NULL);
}
