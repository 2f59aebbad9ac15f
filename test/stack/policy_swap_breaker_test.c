/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test/stack/stack_fixture.h"

/* What becomes of the breakers, and of calls that have to do with them, when their channel's policy
 * is swapped. */

#define ROUND_ROBIN "{\"loadBalancingConfig\":[{\"round_robin\":{}}]}"

/* A breaker that opens for 10 s after two failed calls, no retries, and a fallback for refusals. */
static void choose_tripping(struct fixture *f) {
  f->has_fallback = true;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  f->breaker.min_requests = 2;
  f->breaker.failure_ratio = 1.0;
  f->breaker.open_for_ns = SECONDS(10);
  f->breaker.probes = 1;
  f->fallback_options.on_refusal = false;
}

static void trip(struct fixture *f) {
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 2);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

static void a_call_that_waits_for_a_fallback_waits_as_its_policy_says(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  choose_tripping(f);
  f->fallback_options.on_refusal = true;
  f->fallback_options.timeout_ns = MS(100);
  fixture_open(f);
  trip(f);
  unary_init(f, &unary);
  unary_start(f, &unary);
  f->fallback_options.on_refusal = false;
  f->fallback_options.timeout_ns = MS(1);
  f->translation.boundary = false;
  fixture_swap(f);
  int64_t asked_at_ns = f->clock.now_ns;
  run_until(f, asked_at_ns + MS(50));
  assert_int_equal(unary.n_done, 0);
  run_until_idle(f);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_TIMED_OUT);
  assert_int_equal(unary.done_at_ns, asked_at_ns + MS(100));
  unary_fini(&unary);
  unary_run(f, &unary); /* the breaker is open still, and nobody is asked any more */
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_NOT_ASKED);
  unary_fini(&unary);
  scripted_fallback_run_all(&f->fallback);
}

static void an_open_breaker_stays_open(void **state) {
  struct fixture *f = *state;
  choose_tripping(f);
  fixture_open(f);
  trip(f);
  size_t n_sent = f->transport.n_sent;
  f->policy_options.name = "new-policy";
  f->method.timeout_ns = SECONDS(3);
  fixture_swap(f);
  run_calls(f, 3);
  assert_int_equal(f->transport.n_sent, n_sent);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);

  f->clock.now_ns += SECONDS(10);
  scripted_transport_always(&f->transport, 0, answer_ok);
  run_calls(f, 1);
  assert_int_equal(f->transport.n_sent, n_sent + 1);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
}

static void a_probe_that_is_out_at_the_swap_decides(void **state) {
  struct fixture *f = *state;
  static const struct {
    struct wire_answer answer;
    enum weir_breaker_state becomes;
  } rows[] = {
      {{.what = WIRE_MESSAGE_THEN, .status = 0, .text = "", .body = "bar"}, WEIR_BREAKER_CLOSED},
      {{.what = WIRE_TRAILERS_ONLY, .status = 14, .text = "busy"}, WEIR_BREAKER_OPEN}};
  choose_tripping(f);
  fixture_open(f);
  trip(f);
  for (size_t i = sizeof rows / sizeof rows[0]; i-- > 0;) { /* first it opens again */
    struct unary probe;
    f->clock.now_ns += SECONDS(10);
    scripted_transport_always(&f->transport, MS(5), rows[i].answer);
    unary_init(f, &probe);
    unary_start(f, &probe);
    assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_HALF_OPEN);
    f->policy_options.name = i == 0 ? "new-policy" : "newer-policy";
    fixture_swap(f);
    assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_HALF_OPEN);
    run_calls(f, 1); /* there is no place for another */
    assert_int_equal(unary_report(&probe).breaker_state, rows[i].becomes);
    assert_int_equal(fixture_breaker(f).state, rows[i].becomes);
    unary_fini(&probe);
  }
}

/* Between the two policies the window is not touched: of two failures one is counted before. */
static void failures_count_across_a_swap(void **state) {
  struct fixture *f = *state;
  choose_tripping(f);
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);
  f->policy_options.name = "new-policy";
  fixture_swap(f);
  run_calls(f, 1);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

static void what_is_set_by_hand_holds_on(void **state) {
  struct fixture *f = *state;
  choose_tripping(f);
  fixture_open(f);
  assert_int_equal(weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN),
                   WEIR_OK);
  f->policy_options.name = "new-policy";
  fixture_swap(f);
  assert_int_equal(fixture_breaker(f).override, WEIR_BREAKER_OVERRIDE_OPEN);
  scripted_transport_always(&f->transport, 0, answer_ok);
  run_calls(f, 1);
  assert_int_equal(f->transport.n_sent, 0);
}

/* Calls of the policy with breakers, and of the one without, at the same time. */
static void breakers_can_be_switched_off_and_on_under_calls(void **state) {
  struct fixture *f = *state;
  struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
  struct unary with;
  struct unary without;
  choose_tripping(f);
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  unary_init(f, &with);
  unary_start(f, &with);
  f->breaker.enabled = false;
  fixture_swap(f);
  assert_int_equal(weir_channel_breaker_snapshot(f->channel, METHOD, &snapshot),
                   WEIR_ERROR_UNAVAILABLE);
  unary_init(f, &without);
  unary_start(f, &without);
  run_calls(f, 5); /* that would have opened it */
  assert_int_equal(f->transport.n_sent, 7);
  assert_string_equal(unary_report(&with).breaker_name, "cart-policy");
  assert_string_equal(unary_report(&without).breaker_name, "");
  f->breaker.enabled = true;
  fixture_swap(f);
  run_calls(f, 2);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  unary_fini(&with);
  unary_fini(&without);
}

static void a_call_that_waits_for_a_retry_goes_on_when_breakers_were_off_meanwhile(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  f->breaker.min_requests = 100;
  f->method.retry.max_attempts = 2;
  f->method.retry.initial_backoff_ns = MS(30);
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  unary_init(f, &unary);
  unary_start(f, &unary);
  run_until(f, f->clock.now_ns + MS(1));
  assert_int_equal(f->transport.n_sent, 1);
  f->breaker.enabled = false;
  fixture_swap(f);
  f->breaker.enabled = true;
  fixture_swap(f);
  run_until_idle(f);
  assert_int_equal(f->transport.n_sent, 2);
  assert_int_equal(unary_report(&unary).n_attempts, 2);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  unary_fini(&unary);
}

static void a_scope_can_change_under_calls(void **state) {
  struct fixture *f = *state;
  struct unary before;
  choose_tripping(f);
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  unary_init(f, &before);
  unary_start(f, &before);
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->policy_options.name = "new-policy";
  fixture_swap(f);
  run_until_idle(f);
  assert_string_equal(unary_report(&before).breaker_name, "cart-policy");
  run_calls(f, 2);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  struct unary other;
  unary_init_with(f, &other, &(struct unary_options){.method = OTHER_METHOD});
  unary_start(f, &other);
  run_until_idle(f);
  assert_string_equal(unary_report(&other).breaker_name, OTHER_METHOD);
  assert_int_equal(unary_report(&other).n_attempts, 1);
  unary_fini(&other);
  unary_fini(&before);
}

struct destroyer {
  struct weir_breaker_listener base;
  struct fixture *f;
  size_t n_told;
};

static void destroy_channel(void *context, const struct weir_breaker_change *change) {
  struct destroyer *destroyer = context;
  struct fixture *f = destroyer->f;
  destroyer->n_told++;
  if (change->by_policy && f->channel != NULL) {
    weir_channel *channel = f->channel;
    f->channel = NULL;
    weir_channel_destroy(channel);
  }
}

static void who_is_told_of_a_swap_may_destroy_the_channel(void **state) {
  struct fixture *f = *state;
  struct destroyer destroyer = {.f = f};
  destroyer.base = (struct weir_breaker_listener){
      .size = sizeof destroyer.base, .changed = destroy_channel, .context = &destroyer};
  f->breaker_listener = &destroyer.base;
  choose_tripping(f);
  fixture_open(f);
  trip(f);
  size_t n_told = destroyer.n_told;
  f->breaker.enabled = false;
  f->policy_options.core_service_config = ROUND_ROBIN;
  fixture_swap(f);
  assert_null(f->channel);
  assert_int_equal(destroyer.n_told, n_told + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_call_that_waits_for_a_fallback_waits_as_its_policy_says),
      TEST(an_open_breaker_stays_open),
      TEST(a_probe_that_is_out_at_the_swap_decides),
      TEST(failures_count_across_a_swap),
      TEST(what_is_set_by_hand_holds_on),
      TEST(breakers_can_be_switched_off_and_on_under_calls),
      TEST(a_call_that_waits_for_a_retry_goes_on_when_breakers_were_off_meanwhile),
      TEST(a_scope_can_change_under_calls),
      TEST(who_is_told_of_a_swap_may_destroy_the_channel),
  };
  return cmocka_run_group_tests_name("breakers and swaps of the policy", tests, NULL, NULL);
}
