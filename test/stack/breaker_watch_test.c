/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "test/stack/batches.h"
#include "test/stack/stack_fixture.h"

/* --- a listener that keeps what it was told --- */

#define N_KEPT 16

struct kept_change {
  struct weir_breaker_change change;
  char name[WEIR_REPORT_NAME_BYTES];
};

struct watch {
  struct weir_breaker_listener base;
  struct fixture *f;
  size_t n;
  struct kept_change kept[N_KEPT];
  void (*then)(struct watch *watch); /* after a change was kept; NULL = nothing */
  struct unary made;
};

static void keep_change(void *context, const struct weir_breaker_change *change) {
  struct watch *watch = context;
  assert_in_range(watch->n, 0, N_KEPT - 1);
  assert_int_equal(change->size, sizeof *change);
  assert_int_equal(strlen(change->name), change->name_size);
  struct kept_change *kept = &watch->kept[watch->n++];
  kept->change = *change;
  memcpy(kept->name, change->name, change->name_size + 1);
  if (watch->then != NULL) {
    watch->then(watch);
  }
}

/* A fixture whose breaker opens for 10 s after two failed calls, and closes after one probe. */
static void open_watched(struct fixture *f, struct watch *watch) {
  *watch = (struct watch){
      .base = {.size = sizeof watch->base, .changed = keep_change, .context = watch}, .f = f};
  f->breaker_listener = &watch->base;
  f->breaker.min_requests = 2;
  f->breaker.failure_ratio = 1.0;
  f->breaker.open_for_ns = SECONDS(10);
  f->breaker.open_jitter = 0.0;
  f->breaker.probes = 1;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  fixture_open(f);
}

static void trip(struct fixture *f) {
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, f->breaker.min_requests);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

static void call_method(struct fixture *f, struct unary *unary, const char *method) {
  unary_init_with(f, unary, &(struct unary_options){.method = method});
  unary_start(f, unary);
  run_until_idle(f);
}

static struct weir_call_report report_of(struct fixture *f, const char *method) {
  struct unary unary;
  call_method(f, &unary, method);
  struct weir_call_report report = unary_report(&unary);
  unary_fini(&unary);
  return report;
}

static void assert_change(const struct watch *watch, size_t nth, enum weir_breaker_state from,
                          enum weir_breaker_state to, int64_t next_probe_in_ns) {
  const struct weir_breaker_change *change = &watch->kept[nth].change;
  assert_true(nth < watch->n);
  assert_int_equal(change->from, from);
  assert_int_equal(change->to, to);
  assert_true(change->next_probe_in_ns == next_probe_in_ns);
  if (nth > 0) {
    assert_true(change->generation > watch->kept[nth - 1].change.generation);
  }
}

/* --- changes --- */

static void each_change_is_told_once_with_what_made_it(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  open_watched(f, &watch);
  trip(f);
  int64_t tripped_at_ns = f->clock.now_ns;
  run_calls(f, 5); /* refused: nothing changes */
  f->clock.now_ns += SECONDS(10);
  scripted_transport_always(&f->transport, MS(5), answer_not_found);
  run_calls(f, 1);

  assert_int_equal(watch.n, 3);
  assert_change(&watch, 0, WEIR_BREAKER_CLOSED, WEIR_BREAKER_OPEN, SECONDS(10));
  assert_true(watch.kept[0].change.by_outcome);
  assert_int_equal(watch.kept[0].change.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(watch.kept[0].change.origin, WEIR_ORIGIN_PEER);
  assert_int_equal(watch.kept[0].change.at_ns, tripped_at_ns);
  assert_change(&watch, 1, WEIR_BREAKER_OPEN, WEIR_BREAKER_HALF_OPEN, 0);
  assert_false(watch.kept[1].change.by_outcome);
  assert_int_equal(watch.kept[1].change.at_ns, tripped_at_ns + SECONDS(10));
  assert_change(&watch, 2, WEIR_BREAKER_HALF_OPEN, WEIR_BREAKER_CLOSED, 0);
  assert_true(watch.kept[2].change.by_outcome);
  assert_int_equal(watch.kept[2].change.code, GRPC_STATUS_NOT_FOUND); /* not what it became */
  for (size_t i = 0; i < watch.n; i++) {
    assert_string_equal(watch.kept[i].name, f->policy_options.name);
    assert_int_equal(watch.kept[i].change.override, WEIR_BREAKER_OVERRIDE_NONE);
  }
}

static void a_streams_first_message_tells_that_it_has_closed(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  open_watched(f, &watch);
  trip(f);
  f->clock.now_ns += SECONDS(10);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(1), MESSAGE("one")},
                 {AT_MS(9), HEADERS_THEN(GRPC_STATUS_OK, "")}));
  struct batched_call *call = batches_new(f);
  (void)batched_call_start(call, OPS(SEND_ALL));
  (void)batched_call_start(call, OPS(RECV_METADATA));
  (void)batched_call_start(call, OPS(RECV_MESSAGE));
  (void)batched_call_start(call, OPS(RECV_STATUS));
  drain_until(f, T0 + MS(10005));
  assert_int_equal(watch.n, 3);
  assert_change(&watch, 2, WEIR_BREAKER_HALF_OPEN, WEIR_BREAKER_CLOSED, 0);
  assert_true(watch.kept[2].change.by_outcome);
  assert_int_equal(watch.kept[2].change.code, GRPC_STATUS_OK);
  assert_int_equal(watch.kept[2].change.at_ns, T0 + MS(10001));
  drain(f);
  assert_int_equal(watch.n, 3);
  assert_int_equal(batched_call_report(call).breaker_generation, watch.kept[2].change.generation);
  batched_call_release(call);
}

static void a_first_batch_that_comes_to_nothing_tells_what_it_has_changed(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  struct unary unary;
  open_watched(f, &watch);
  trip(f);
  f->clock.now_ns += SECONDS(10);
  f->transport.start_fails_at = f->transport.n_start_batches + 1;
  unary_init(f, &unary);
  assert_int_equal(unary_try_start(f, &unary), GRPC_CALL_ERROR);
  assert_int_equal(watch.n, 2);
  assert_change(&watch, 1, WEIR_BREAKER_OPEN, WEIR_BREAKER_HALF_OPEN, 0);
  unary_fini(&unary);
}

/* --- the log --- */

static void the_log_is_told_boundary_or_not(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  f->translation.boundary = false;
  open_watched(f, &watch);
  trip(f);
  assert_int_equal(f->log.n_records, 1);
  const struct recorded_failure *kept = &f->log.records[0];
  assert_int_equal(kept->numbers.event, WEIR_LOG_BREAKER_CHANGED);
  assert_int_equal(kept->numbers.raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(kept->numbers.origin, WEIR_ORIGIN_PEER);
  assert_int_equal(kept->numbers.breaker_from, WEIR_BREAKER_CLOSED);
  assert_int_equal(kept->numbers.breaker_to, WEIR_BREAKER_OPEN);
  assert_int_equal(kept->numbers.breaker_generation, watch.kept[0].change.generation);
  assert_int_equal(kept->numbers.next_probe_in_ns, SECONDS(10));
  assert_int_equal(kept->numbers.breaker.size, strlen(f->policy_options.name));
  assert_int_equal(kept->numbers.at_ns, f->clock.now_ns);
  assert_int_not_equal(kept->numbers.time_unix_ns, 0);
  assert_string_equal(kept->target, FIXTURE_TARGET);
  assert_string_equal(kept->reference, "");
  assert_int_not_equal(strlen(kept->text), 0);
}

/* --- a listener that does something --- */

static void use_everything(struct watch *watch) {
  struct fixture *f = watch->f;
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  watch->then = NULL;
  assert_int_equal(weir_channel_breaker_snapshot(f->channel, METHOD, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.state, WEIR_BREAKER_OPEN);
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  assert_non_null(weir_channel_register_call(f->channel, METHOD, NULL, NULL));
  /* told of it within this telling */
  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_DISABLED), WEIR_OK);
  unary_init(f, &watch->made);
  unary_start(f, &watch->made);
}

static void a_listener_may_use_the_channel_that_tells_it(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  open_watched(f, &watch);
  watch.then = use_everything;
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 2);
  run_until_idle(f);
  assert_int_equal(watch.n, 2);
  assert_change(&watch, 0, WEIR_BREAKER_CLOSED, WEIR_BREAKER_OPEN, SECONDS(10));
  assert_int_equal(watch.kept[1].change.override, WEIR_BREAKER_OVERRIDE_DISABLED);
  assert_true(watch.kept[1].change.generation > watch.kept[0].change.generation);
  assert_int_equal(watch.made.n_done, 1);
  assert_int_equal(unary_report(&watch.made).origin, WEIR_ORIGIN_PEER); /* it was sent */
  unary_fini(&watch.made);
}

static void destroy_channel(struct watch *watch) {
  watch->then = NULL;
  weir_channel_destroy(watch->f->channel);
  watch->f->channel = NULL;
}

static void a_listener_may_destroy_the_channel(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  open_watched(f, &watch);
  watch.then = destroy_channel;
  assert_int_equal(weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN),
                   WEIR_OK);
  assert_int_equal(watch.n, 1);
  assert_null(f->channel);
}

/* --- reports --- */

static void a_report_names_the_breaker_its_generation_and_the_refusal(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  open_watched(f, &watch);
  trip(f);
  struct weir_call_report report = report_of(f, METHOD);
  assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_OPEN);
  assert_int_equal(report.breaker_generation, watch.kept[0].change.generation);
  assert_string_equal(report.breaker_name, METHOD);
  assert_int_equal(report.next_probe_in_ns, SECONDS(10));
  report = report_of(f, OTHER_METHOD);
  assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_NONE);
  assert_int_equal(report.breaker_state, WEIR_BREAKER_CLOSED);
  assert_int_equal(report.breaker_generation, 0); /* its first */
  assert_string_equal(report.breaker_name, OTHER_METHOD);
  assert_int_equal(report.next_probe_in_ns, 0);
}

static void a_report_of_a_channel_without_breaker_names_none(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct weir_call_report report = report_of(f, METHOD);
  assert_string_equal(report.breaker_name, "");
  assert_int_equal(report.breaker_generation, 0);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  assert_int_equal(counters.n_breakers, 0);
  assert_int_equal(counters.n_overflowed_calls, 0);
  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, METHOD, WEIR_BREAKER_OVERRIDE_OPEN),
      WEIR_ERROR_UNAVAILABLE);
}

/* --- overrides --- */

static void an_override_holds_until_it_is_taken_back(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  open_watched(f, &watch);
  scripted_transport_always(&f->transport, 0, answer_ok);
  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, METHOD, (enum weir_breaker_override)9),
      WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, METHOD, WEIR_BREAKER_OVERRIDE_OPEN), WEIR_OK);
  f->clock.now_ns += SECONDS(3600);
  struct weir_call_report report = report_of(f, METHOD);
  assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
  assert_true(report.next_probe_in_ns == WEIR_NO_LIMIT_NS);
  assert_int_equal(report.n_attempts, 0);
  assert_int_equal(report_of(f, OTHER_METHOD).code, GRPC_STATUS_OK);

  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, METHOD, WEIR_BREAKER_OVERRIDE_DISABLED),
      WEIR_OK);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(report_of(f, METHOD).n_attempts, 1);
  }
  assert_int_equal(fixture_breaker(f).n_requests, 0);
  assert_int_equal(fixture_breaker(f).override, WEIR_BREAKER_OVERRIDE_DISABLED);
  assert_int_equal(
      weir_channel_set_breaker_override(f->channel, METHOD, WEIR_BREAKER_OVERRIDE_NONE), WEIR_OK);
  trip(f);
  assert_int_equal(watch.n, 4);
  assert_string_equal(watch.kept[0].name, METHOD);
  assert_int_equal(watch.kept[0].change.override, WEIR_BREAKER_OVERRIDE_OPEN);
  assert_true(watch.kept[0].change.next_probe_in_ns == WEIR_NO_LIMIT_NS);
  assert_int_equal(watch.kept[1].change.override, WEIR_BREAKER_OVERRIDE_DISABLED);
  assert_int_equal(watch.kept[2].change.override, WEIR_BREAKER_OVERRIDE_NONE);
  assert_change(&watch, 3, WEIR_BREAKER_CLOSED, WEIR_BREAKER_OPEN, SECONDS(10));
}

static void an_override_of_all_reaches_methods_that_were_never_called(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  open_watched(f, &watch);
  scripted_transport_always(&f->transport, 0, answer_ok);
  assert_int_equal(report_of(f, METHOD).code, GRPC_STATUS_OK);
  assert_int_equal(weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_OPEN),
                   WEIR_OK);
  assert_int_equal(report_of(f, METHOD).breaker_refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
  assert_int_equal(report_of(f, OTHER_METHOD).breaker_refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
  assert_int_equal(watch.n, 2); /* the method's, and the one that is shared beyond the bound */
  assert_int_equal(weir_channel_set_breaker_override(f->channel, NULL, WEIR_BREAKER_OVERRIDE_NONE),
                   WEIR_OK);
  assert_int_equal(report_of(f, METHOD).code, GRPC_STATUS_OK);
  assert_int_equal(report_of(f, OTHER_METHOD).code, GRPC_STATUS_OK);
}

/* --- shadow --- */

static void shadow_mode_lets_every_call_and_retry_through(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  f->breaker.mode = WEIR_BREAKER_MODE_SHADOW;
  open_watched(f, &watch);
  weir_channel_destroy(f->channel);
  weir_policy_unref(f->policy);
  f->method.retry = (struct weir_retry_policy){.max_attempts = 3,
                                               .retryable_codes = CODE_BIT(14),
                                               .initial_backoff_ns = MS(1),
                                               .max_backoff_ns = MS(1),
                                               .backoff_multiplier = 1.0};
  assert_int_equal(fixture_make_policy(f), WEIR_OK);
  f->channel = fixture_make_channel(f, FIXTURE_TARGET);
  trip(f);
  struct weir_call_report report = report_of(f, METHOD);
  assert_int_equal(report.n_attempts, 3);
  assert_int_equal(report.breaker_refusal, WEIR_BREAKER_REFUSAL_OPEN);
  assert_int_not_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(fixture_breaker(f).n_shadowed, 1);
  assert_int_equal(fixture_breaker(f).n_refused, 0);
  f->clock.now_ns += SECONDS(10);
  assert_int_equal(report_of(f, METHOD).n_attempts, 3); /* a probe's too */
  assert_int_equal(watch.n, 3);
  assert_change(&watch, 2, WEIR_BREAKER_HALF_OPEN, WEIR_BREAKER_OPEN, SECONDS(10));
}

/* --- who gets a breaker --- */

static struct weir_channel_counters counters_of(struct fixture *f) {
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  return counters;
}

static void flood(struct fixture *f, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    char path[32];
    (void)snprintf(path, sizeof path, "/x.S/%u", i);
    assert_int_equal(report_of(f, path).code, GRPC_STATUS_OK);
  }
}

static void methods_that_the_policy_names_are_not_pushed_out(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  struct weir_method_options methods[3] = {f->method, f->method, f->method};
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  methods[2].service = "shop.Till"; /* a service: not each of its methods */
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 3;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->breaker.max_breakers = 3;
  open_watched(f, &watch);
  scripted_transport_always(&f->transport, 0, answer_ok);
  flood(f, 10);
  assert_int_equal(counters_of(f).n_breakers, 2);
  assert_int_equal(counters_of(f).n_overflowed_calls, 8);
  assert_string_equal(report_of(f, "/shop.Cart/Pay").breaker_name, "/shop.Cart/Pay");
  assert_string_equal(report_of(f, "/shop.Till/Open").breaker_name, "other");
  assert_string_equal(report_of(f, "/x.S/9").breaker_name, "other");
  assert_string_equal(report_of(f, "/x.S/0").breaker_name, "/x.S/0");
  assert_int_equal(counters_of(f).n_breakers, 3);
}

static void services_that_the_policy_names_are_not_pushed_out(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  struct weir_method_options methods[3] = {f->method, f->method, f->method};
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  methods[2].service = "shop.Till";
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 3;
  f->breaker.scope = WEIR_BREAKER_SCOPE_SERVICE;
  f->breaker.max_breakers = 2;
  open_watched(f, &watch);
  scripted_transport_always(&f->transport, 0, answer_ok);
  assert_string_equal(report_of(f, "/x.S/M").breaker_name, "other");
  assert_string_equal(report_of(f, "/shop.Cart/Other").breaker_name, "/shop.Cart");
  assert_string_equal(report_of(f, "/shop.Till/Open").breaker_name, "/shop.Till");
}

static void a_registered_method_is_not_pushed_out(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  struct unary unary;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->breaker.max_breakers = 2;
  open_watched(f, &watch);
  scripted_transport_always(&f->transport, 0, answer_ok);
  void *handle = weir_channel_register_call(f->channel, METHOD, NULL, NULL);
  flood(f, 3);
  unary_init(f, &unary);
  weir_call_unref(unary.call);
  unary.call = weir_channel_create_registered_call(f->channel, NULL, 0, f->queue, handle,
                                                   gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_string_equal(unary_report(&unary).breaker_name, METHOD);
  unary_fini(&unary);
  assert_int_equal(fixture_breaker(f).n_requests, 1);
  assert_int_equal(counters_of(f).n_breakers, 2);
  assert_string_equal(report_of(f, METHOD).breaker_name, METHOD); /* not registered: the same */
  assert_int_equal(fixture_breaker(f).n_requests, 2);
}

static void two_hosts_of_one_channel_share_a_methods_breaker(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  open_watched(f, &watch);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  const char *const hosts[] = {"a.shop.internal", "b.shop.internal"};
  for (size_t i = 0; i < 2; i++) {
    struct unary unary;
    grpc_slice host = grpc_slice_from_static_string(hosts[i]);
    unary_init(f, &unary);
    weir_call_unref(unary.call);
    unary.call = weir_channel_create_call(f->channel, NULL, 0, f->queue,
                                          grpc_slice_from_static_string(METHOD), &host,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
  }
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  assert_int_equal(counters_of(f).n_breakers, 1);
}

static void no_memory_to_know_a_method_registers_none(void **state) {
  struct fixture *f = *state;
  struct watch watch;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  open_watched(f, &watch);
  for (size_t nth = 1; nth <= 3; nth++) {
    counting_allocator_fail_nth(&f->allocator, nth);
    assert_null(weir_channel_register_call(f->channel, METHOD, NULL, NULL));
  }
  counting_allocator_fail_nth(&f->allocator, 0);
  assert_non_null(weir_channel_register_call(f->channel, METHOD, NULL, NULL));
}

/* Nothing of what the application had there is left to be taken for an answer. */
static void a_channel_without_breaker_has_an_empty_snapshot(void **state) {
  struct fixture *f = *state;
  struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
  f->breaker.enabled = false;
  fixture_open(f);
  snapshot.n_trips = 77;
  assert_int_equal(weir_channel_breaker_snapshot(f->channel, METHOD, &snapshot),
                   WEIR_ERROR_UNAVAILABLE);
  assert_int_equal(snapshot.n_trips, 0);
  assert_int_equal(snapshot.size, sizeof snapshot);
  snapshot.size = sizeof snapshot.size - 1;
  assert_int_equal(weir_channel_breaker_snapshot(f->channel, METHOD, &snapshot),
                   WEIR_ERROR_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(each_change_is_told_once_with_what_made_it),
      TEST(a_streams_first_message_tells_that_it_has_closed),
      TEST(a_first_batch_that_comes_to_nothing_tells_what_it_has_changed),
      TEST(the_log_is_told_boundary_or_not),
      TEST(a_listener_may_use_the_channel_that_tells_it),
      TEST(a_listener_may_destroy_the_channel),
      TEST(a_report_names_the_breaker_its_generation_and_the_refusal),
      TEST(a_report_of_a_channel_without_breaker_names_none),
      TEST(a_channel_without_breaker_has_an_empty_snapshot),
      TEST(an_override_holds_until_it_is_taken_back),
      TEST(an_override_of_all_reaches_methods_that_were_never_called),
      TEST(shadow_mode_lets_every_call_and_retry_through),
      TEST(methods_that_the_policy_names_are_not_pushed_out),
      TEST(services_that_the_policy_names_are_not_pushed_out),
      TEST(a_registered_method_is_not_pushed_out),
      TEST(two_hosts_of_one_channel_share_a_methods_breaker),
      TEST(no_memory_to_know_a_method_registers_none),
  };
  return cmocka_run_group_tests_name("breaker, watched", tests, NULL, NULL);
}
