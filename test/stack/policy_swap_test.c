/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/support/alloc.h>

#include "interceptors/breaker/breaker_layer.h"
#include "src/call/extras.h"
#include "src/call/rules.h"
#include "src/channel/channel.h"
#include "src/channel/registered_method.h"
#include "test/stack/batches.h"

/* What becomes of calls when their channel's policy is swapped. */

/* --- two policies --- */

/* They differ in all that a call can show. */
static void choose_old(struct fixture *f) {
  f->policy_options.name = "old-policy";
  f->policy_options.pass_trace = true;
  f->deadline.max_timeout_ns = SECONDS(20);
  f->deadline.max_stream_timeout_ns = SECONDS(40);
  f->translation.boundary = true;
  f->translation.message_ref = true;
  f->translation.codes[GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_ABORTED;
  f->method.timeout_ns = SECONDS(10);
  f->method.wait_for_ready = WEIR_WAIT_FOR_READY_TRUE;
  f->method.max_response_bytes = 100;
  f->method.retry.max_attempts = 3;
  f->method.retry.initial_backoff_ns = MS(100);
  f->method.retry.backoff_multiplier = 1.0;
}

static void choose_new(struct fixture *f) {
  f->policy_options.name = "new-policy";
  f->policy_options.pass_trace = false;
  f->deadline.max_timeout_ns = SECONDS(2);
  f->deadline.max_stream_timeout_ns = SECONDS(4);
  f->translation.boundary = true;
  f->translation.message_ref = false;
  f->translation.codes[GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_DATA_LOSS;
  f->method.timeout_ns = SECONDS(1);
  f->method.wait_for_ready = WEIR_WAIT_FOR_READY_FALSE;
  f->method.max_response_bytes = 1;
  f->method.retry.max_attempts = 2;
  f->method.retry.initial_backoff_ns = MS(30);
  f->method.retry.backoff_multiplier = 1.0;
}

static struct weir_channel_counters counters_of(const struct fixture *f) {
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  return counters;
}

/* --- all that can be seen of a call --- */

#define TRACE_BYTES 8192

struct trace {
  char text[TRACE_BYTES];
  size_t size;
};

__attribute__((format(printf, 2, 3))) static void put(struct trace *trace, const char *format,
                                                      ...) {
  va_list arguments;
  va_start(arguments, format);
  int size =
      vsnprintf(trace->text + trace->size, sizeof trace->text - trace->size, format, arguments);
  va_end(arguments);
  assert_in_range(size, 0, sizeof trace->text - trace->size - 1);
  trace->size += (size_t)size;
}

static void put_attempts(struct trace *trace, const struct fixture *f) {
  for (size_t nth = 1; nth <= f->transport.n_sent; nth++) {
    const struct sent_attempt *attempt = sent(f, nth);
    put(trace, "%zu: at %lld until %lld, %s, flags %u\n", nth, (long long)attempt->sent_at_ns,
        (long long)attempt->deadline_at_ns, attempt->path, attempt->metadata_flags);
    for (size_t i = 0; i < attempt->n_metadata; i++) {
      put(trace, "  %s: %s\n", attempt->metadata[i].key, attempt->metadata[i].value);
    }
  }
}

static void put_report(struct trace *trace, const struct weir_call_report *report) {
  put(trace, "%d of %d, origin %d, reason %d, bound %d, clamped %d, attempts %u, ref %s\n",
      (int)report->code, (int)report->raw_code, (int)report->origin, (int)report->reason,
      (int)report->deadline_bound, report->deadline_clamped, report->n_attempts, report->reference);
  put(trace, "total %lld, backoff %lld, breaker %s %d, do not retry %d, fallback %d\n",
      (long long)report->total_ns, (long long)report->backoff_ns, report->breaker_name,
      (int)report->breaker_state, report->do_not_retry, (int)report->fallback_result);
}

static void put_slice(struct trace *trace, grpc_slice slice) {
  put(trace, "details %.*s\n", (int)GRPC_SLICE_LENGTH(slice),
      (const char *)GRPC_SLICE_START_PTR(slice));
}

static void put_log(struct trace *trace, const struct fixture *f) {
  for (size_t i = 0; i < f->log.n_records; i++) {
    const struct weir_log_record *record = &f->log.records[i].numbers;
    put(trace, "log: event %d, %s, code %d of %d, attempts %u\n", (int)record->event,
        f->log.records[i].reference, (int)record->code, (int)record->raw_code, record->n_attempts);
  }
}

/* --- when it is swapped --- */

enum moment {
  NEVER = 0,
  CREATED, /* and not started */
  STARTED, /* in the first attempt */
  WAITING, /* for the second */
  AGAIN,   /* in the second attempt */
  ANSWERED /* of a stream: a message has come; else the call has ended */
};

static void swap_at(struct fixture *f, enum moment now, enum moment wanted) {
  if (now == wanted) {
    choose_new(f);
    fixture_swap(f);
  }
}

static void with_fixture(void (*run)(struct fixture *f, enum moment moment, bool begins_new,
                                     struct trace *trace),
                         enum moment moment, bool begins_new, struct trace *trace_out) {
  void *state = NULL;
  *trace_out = (struct trace){.size = 0};
  assert_int_equal(fixture_setup(&state), 0);
  run(state, moment, begins_new, trace_out);
  assert_int_equal(fixture_teardown(&state), 0);
}

/* Wherever the swap is, what is seen of the call is what is seen without it; and it can be seen at
 * all which policy it is. */
static void check_each_moment(void (*run)(struct fixture *f, enum moment moment, bool begins_new,
                                          struct trace *trace)) {
  static struct trace without;
  static struct trace other;
  static struct trace with;
  with_fixture(run, NEVER, false, &without);
  with_fixture(run, NEVER, true, &other);
  assert_string_not_equal(without.text, other.text);
  for (enum moment moment = CREATED; moment <= ANSWERED; moment++) {
    with_fixture(run, moment, false, &with);
    if (strcmp(with.text, without.text) != 0) {
      fail_msg("moment %d:\n%s\nwithout a swap:\n%s", (int)moment, with.text, without.text);
    }
  }
}

static void open_with(struct fixture *f, bool begins_new) {
  (begins_new ? choose_new : choose_old)(f);
  fixture_open(f);
}

/* --- calls in one batch --- */

static weir_inbound *traced_inbound(struct fixture *f) {
  return fixture_inbound(f, T0 + SECONDS(30), NULL, NULL);
}

static void run_unary_to_failure(struct fixture *f, enum moment moment, bool begins_new,
                                 struct trace *trace) {
  open_with(f, begins_new);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  weir_inbound *inbound = traced_inbound(f);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  swap_at(f, CREATED, moment);
  unary_start(f, &unary);
  swap_at(f, STARTED, moment);
  run_until(f, T0 + MS(15));
  swap_at(f, WAITING, moment);
  run_until(f, T0 + (begins_new ? MS(45) : MS(112)));
  swap_at(f, AGAIN, moment);
  run_until_idle(f);
  swap_at(f, ANSWERED, moment);
  struct weir_call_report report = unary_report(&unary);
  put_attempts(trace, f);
  put_report(trace, &report);
  put_slice(trace, unary.details);
  put_log(trace, f);
  unary_fini(&unary);
  weir_inbound_release(inbound);
}

static void a_call_goes_by_its_policy_to_its_end(void **state) {
  (void)state;
  check_each_moment(run_unary_to_failure);
}

static void run_unary_to_deadline(struct fixture *f, enum moment moment, bool begins_new,
                                  struct trace *trace) {
  open_with(f, begins_new);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(3600)});
  swap_at(f, CREATED, moment);
  unary_start(f, &unary);
  swap_at(f, STARTED, moment);
  run_until_idle(f);
  swap_at(f, ANSWERED, moment);
  struct weir_call_report report = unary_report(&unary);
  put_attempts(trace, f);
  put_report(trace, &report);
  put_log(trace, f);
  unary_fini(&unary);
}

/* A lower maxTimeout, and timeout, is of later calls. */
static void a_deadline_does_not_move(void **state) {
  (void)state;
  check_each_moment(run_unary_to_deadline);
}

/* What is larger than the new policy allows, and not than the old one. */
static void a_limit_of_messages_stays(void **state) {
  struct fixture *f = *state;
  struct unary before;
  struct unary after;
  choose_old(f);
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(10), answer_ok);
  unary_init(f, &before);
  unary_start(f, &before);
  choose_new(f);
  fixture_swap(f);
  run_until_idle(f);
  assert_int_equal(before.status, GRPC_STATUS_OK);
  unary_run(f, &after);
  assert_int_equal(unary_report(&after).origin, WEIR_ORIGIN_LOCAL_LIMIT);
  unary_fini(&before);
  unary_fini(&after);
}

static void a_call_that_is_made_after_the_swap_goes_by_the_new_policy(void **state) {
  (void)state;
  static struct trace swapped;
  static struct trace from_the_start;
  void *state_of_one = NULL;
  assert_int_equal(fixture_setup(&state_of_one), 0);
  struct fixture *f = state_of_one;
  choose_old(f);
  fixture_open(f);
  choose_new(f);
  fixture_swap(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  struct unary unary;
  unary_run(f, &unary);
  struct weir_call_report report = unary_report(&unary);
  put_attempts(&swapped, f);
  put_report(&swapped, &report);
  unary_fini(&unary);
  assert_int_equal(fixture_teardown(&state_of_one), 0);

  assert_int_equal(fixture_setup(&state_of_one), 0);
  f = state_of_one;
  choose_new(f);
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  unary_run(f, &unary);
  report = unary_report(&unary);
  put_attempts(&from_the_start, f);
  put_report(&from_the_start, &report);
  unary_fini(&unary);
  assert_int_equal(fixture_teardown(&state_of_one), 0);
  assert_string_equal(swapped.text, from_the_start.text);
}

/* What a call can be asked after its end is its policy's, too. */
static void who_answered_is_told_as_the_calls_own_policy_has_it(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(10), answer_ok);
  struct unary unary;
  unary_run(f, &unary);
  f->translation.boundary = true;
  fixture_swap(f);
  char *peer = weir_call_get_peer(unary.call);
  assert_string_equal(peer, "ipv4:10.0.0.7:4433");
  gpr_free(peer);
  unary_fini(&unary);
  unary_run(f, &unary);
  peer = weir_call_get_peer(unary.call);
  assert_string_not_equal(peer, "ipv4:10.0.0.7:4433");
  gpr_free(peer);
  unary_fini(&unary);
}

/* --- calls in several batches --- */

static void run_stream(struct fixture *f, enum moment moment, bool begins_new,
                       struct trace *trace) {
  open_with(f, begins_new);
  int64_t second_ns = begins_new ? MS(40) : MS(110);
  play(f, (const struct script_step[]){
              {AT_MS(0), EXPECT_SEND},
              {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
              {.at_ns = second_ns, EXPECT_SEND},
              {.at_ns = second_ns + MS(10), MESSAGE("x")},
              {.at_ns = second_ns + MS(30), HEADERS_THEN(GRPC_STATUS_UNAVAILABLE, "gone")},
              SCRIPT_END});
  struct batched_call *call = batches_new_until(f, T0 + SECONDS(3600));
  swap_at(f, CREATED, moment);
  (void)batched_call_start(call, OPS(SEND_ALL));
  swap_at(f, STARTED, moment);
  struct call_batch *message = batched_call_start(call, OPS(RECV_METADATA, RECV_MESSAGE));
  (void)batched_call_start(call, OPS(RECV_STATUS));
  drain_until(f, T0 + MS(15));
  swap_at(f, WAITING, moment);
  drain_until(f, T0 + second_ns + MS(2));
  swap_at(f, AGAIN, moment);
  drain_until(f, T0 + second_ns + MS(15));
  assert_true(batch_received(message, "x"));
  swap_at(f, ANSWERED, moment);
  drain(f);
  struct weir_call_report report = batched_call_report(call);
  put_attempts(trace, f);
  put_report(trace, &report);
  put(trace, "status %d\n", (int)call->status);
  put_slice(trace, call->details);
  put_log(trace, f);
  batched_call_release(call);
}

static void a_stream_goes_by_its_policy_to_its_end(void **state) {
  (void)state;
  check_each_moment(run_stream);
}

/* --- methods --- */

static void a_method_that_is_named_no_more_goes_by_what_is_left(void **state) {
  struct fixture *f = *state;
  struct weir_method_options methods[2] = {f->method, f->method};
  methods[0].retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 2;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  struct unary before;
  unary_init(f, &before);
  f->policy_options.n_methods = 1;
  fixture_swap(f);
  unary_start(f, &before);
  run_until_idle(f);
  assert_int_equal(unary_report(&before).n_attempts, 4);
  unary_fini(&before);
  struct unary after;
  unary_run(f, &after);
  assert_int_equal(unary_report(&after).n_attempts, 1);
  unary_fini(&after);
}

/* More than the first pieces of the rules' memory have room for. */
#define N_REGISTERED 50

static struct unary registered_call(struct fixture *f, void *handle) {
  struct unary unary;
  unary_init(f, &unary);
  weir_call_unref(unary.call);
  unary.call = weir_channel_create_registered_call(f->channel, NULL, 0, f->queue, handle,
                                                   gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  assert_non_null(unary.call);
  return unary;
}

static void name_method(char path[32], size_t nth) {
  (void)snprintf(path, 32, "/shop.Cart/M%02zu", nth);
}

static uint32_t run_registered(struct fixture *f, void *handle) {
  struct unary unary = registered_call(f, handle);
  unary_start(f, &unary);
  run_until_idle(f);
  uint32_t n_attempts = unary_report(&unary).n_attempts;
  unary_fini(&unary);
  return n_attempts;
}

/* Every other one has an entry, in the new policy the others. */
static void registered_methods_are_what_each_policy_says(void **state) {
  struct fixture *f = *state;
  struct weir_method_options methods[1 + N_REGISTERED / 2];
  char names[N_REGISTERED][32];
  void *handles[N_REGISTERED];
  methods[0] = f->method;
  methods[0].retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->breaker.min_requests = 1000;
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 1 + N_REGISTERED / 2;
  for (size_t i = 0; i < N_REGISTERED; i++) {
    name_method(names[i], i);
    if (i % 2 == 0) {
      methods[1 + i / 2] = f->method;
      methods[1 + i / 2].service = "shop.Cart";
      methods[1 + i / 2].method = strrchr(names[i], '/') + 1;
    }
  }
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  for (size_t i = 0; i < N_REGISTERED - 1; i++) {
    handles[i] = weir_channel_register_call(f->channel, names[i], NULL, NULL);
    assert_non_null(handles[i]);
  }
  for (size_t i = 0; i < N_REGISTERED - 1; i++) {
    assert_int_equal(run_registered(f, handles[i]), i % 2 == 0 ? 4 : 1);
  }
  for (size_t i = 1; i < N_REGISTERED; i += 2) {
    methods[1 + i / 2].method = strrchr(names[i], '/') + 1;
  }
  fixture_swap(f);
  handles[N_REGISTERED - 1] =
      weir_channel_register_call(f->channel, names[N_REGISTERED - 1], NULL, NULL);
  for (size_t i = 0; i < N_REGISTERED; i++) {
    assert_int_equal(run_registered(f, handles[i]), i % 2 == 0 ? 1 : 4);
    assert_ptr_equal(weir_channel_register_call(f->channel, names[i], NULL, NULL), handles[i]);
  }
  assert_int_equal(f->transport.n_registered, N_REGISTERED);
}

/* In the fixture's time. */
static uint64_t requests_of(const struct fixture *f, const char *path) {
  struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
  assert_int_equal(weir__breaker_layer_snapshot(weir__rules_peek(&f->channel->rules)->stack.breaker,
                                                path, strlen(path), f->clock.now_ns, &snapshot),
                   WEIR_OK);
  return snapshot.n_requests;
}

/* Nothing else than what the swap has found out can tell the two methods apart: it is exchanged. */
static void a_call_of_a_registered_method_looks_nothing_up_after_a_swap_either(void **state) {
  struct fixture *f = *state;
  struct weir_method_options methods[2] = {f->method, f->method};
  methods[0].retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 2;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->breaker.min_requests = 1000;
  fixture_open(f);
  struct weir__registered_method *pay = weir_channel_register_call(f->channel, METHOD, NULL, NULL);
  struct weir__registered_method *add =
      weir_channel_register_call(f->channel, OTHER_METHOD, NULL, NULL);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  fixture_swap(f);
  const struct weir__rules *rules = weir__rules_peek(&f->channel->rules);
  struct weir__call_extras *of_pay = weir__rules_registered(rules, pay->nth);
  struct weir__call_extras *of_add = weir__rules_registered(rules, add->nth);
  assert_ptr_equal(of_pay->policy, weir_policy_method(rules->policy, METHOD, strlen(METHOD)));
  const struct weir_method_policy *policy = of_pay->policy;
  void *breaker_entry = of_pay->breaker_entry;
  of_pay->policy = of_add->policy;
  of_pay->breaker_entry = of_add->breaker_entry;
  of_add->policy = policy;
  of_add->breaker_entry = breaker_entry;
  assert_int_equal(run_registered(f, pay), 1);
  assert_int_equal(run_registered(f, pay), 1);
  assert_int_equal(run_registered(f, add), 4);
  assert_int_equal(requests_of(f, METHOD), 1);
  assert_int_equal(requests_of(f, OTHER_METHOD), 2);
}

/* A registered method's call that was made before, and gets extras of its own after. */
static void what_is_set_on_a_call_after_the_swap_keeps_its_policy(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  void *handle = weir_channel_register_call(f->channel, METHOD, NULL, NULL);
  struct unary unary = registered_call(f, handle);
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  fixture_swap(f);
  assert_non_null(weir_call_arena_alloc(unary.call, 10));
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary_report(&unary).n_attempts, 4);
  unary_fini(&unary);
}

/* --- the throttle, and what is kept for replays --- */

static void the_throttle_keeps_its_level_in_proportion(void **state) {
  struct fixture *f = *state;
  f->policy_options.throttle_max_tokens = 4;
  f->policy_options.throttle_token_ratio_milli = 100;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1); /* two tokens are left, which is no more than half */
  struct unary unary;
  f->policy_options.throttle_max_tokens = 0;
  f->policy_options.throttle_token_ratio_milli = 0;
  fixture_swap(f);
  f->policy_options.throttle_max_tokens = 8;
  f->policy_options.throttle_token_ratio_milli = 100;
  fixture_swap(f);
  unary_run(f, &unary);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_THROTTLED);
  assert_int_equal(unary_report(&unary).n_attempts, 1);
  unary_fini(&unary);
}

static void a_lower_limit_for_replays_is_of_later_calls(void **state) {
  struct fixture *f = *state;
  struct weir_replay_snapshot snapshot = WEIR_REPLAY_SNAPSHOT_INIT;
  struct unary before;
  struct unary after;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  unary_init(f, &before);
  unary_start(f, &before);
  f->retry.channel_replay_bytes = 5; /* one request of three bytes */
  fixture_swap(f);
  assert_int_equal(weir_channel_replay_snapshot(f->channel, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.max_bytes, 5);
  assert_int_equal(snapshot.n_bytes, 3);
  unary_init(f, &after);
  unary_start(f, &after);
  run_until_idle(f);
  assert_int_equal(unary_report(&before).n_attempts, 4);
  assert_int_equal(unary_report(&after).n_attempts, 1);
  assert_int_equal(unary_report(&after).reason, WEIR_REASON_NOT_REPLAYABLE);
  unary_fini(&before);
  unary_fini(&after);
}

/* --- what the core has --- */

#define ROUND_ROBIN "{\"loadBalancingConfig\":[{\"round_robin\":{}}]}"

static void what_the_core_is_not_told_of_is_logged_once(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  fixture_swap(f);
  assert_int_equal(f->log.n_records, 0);
  f->policy_options.core_service_config = ROUND_ROBIN;
  fixture_swap(f);
  assert_int_equal(f->log.n_records, 1);
  assert_int_equal(f->log.records[0].numbers.event, WEIR_LOG_CORE_CONFIG_KEPT);
  assert_string_equal(f->log.records[0].target, FIXTURE_TARGET);
  f->policy_options.name = "new-policy";
  fixture_swap(f); /* no news */
  assert_int_equal(f->log.n_records, 1);
  f->policy_options.core_service_config = NULL;
  fixture_swap(f); /* as the core has it */
  assert_int_equal(f->log.n_records, 1);
  f->policy_options.core_service_config = ROUND_ROBIN;
  fixture_swap(f);
  assert_int_equal(f->log.n_records, 2);
}

/* --- shares --- */

static void the_policy_in_force_can_be_had(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  weir_policy *policy = weir_channel_policy(f->channel);
  assert_ptr_equal(policy, f->policy);
  weir_policy_unref(policy);
  assert_int_equal(weir_channel_set_policy(f->channel, NULL, NULL), WEIR_OK);
  policy = weir_channel_policy(f->channel);
  assert_ptr_not_equal(policy, f->policy);
  assert_int_equal(weir_policy_method(policy, METHOD, strlen(METHOD))->retry.max_attempts, 1);
  weir_policy_unref(policy);
  assert_int_equal(counters_of(f).n_policy_swaps, 1);
  assert_int_equal(counters_of(f).n_policy_refusals, 0);
}

/* Swaps that no call looks at, calls that outlast several swaps, and their channel. */
static void a_policy_goes_with_its_last_call(void **state) {
  struct fixture *f = *state;
  struct unary unaries[4];
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  run_calls(f, 1);
  fixture_swap(f);
  size_t n_before = f->allocator.n_outstanding;
  for (size_t i = 0; i < 100; i++) {
    fixture_swap(f);
    assert_int_equal(f->allocator.n_outstanding, n_before);
  }
  for (size_t i = 0; i < 4; i++) {
    unary_init(f, &unaries[i]);
    unary_start(f, &unaries[i]);
    fixture_swap(f);
  }
  size_t n_with = f->allocator.n_outstanding;
  weir_channel_destroy(f->channel);
  f->channel = NULL;
  assert_true(f->allocator.n_outstanding < n_with); /* the rules in force were nobody's */
  run_until_idle(f);
  for (size_t i = 0; i < 4; i++) {
    size_t n_left = f->allocator.n_outstanding;
    assert_int_equal(unary_report(&unaries[i]).n_attempts, 4);
    unary_fini(&unaries[i]);
    assert_true(f->allocator.n_outstanding < n_left);
  }
}

static void a_failed_swap_changes_nothing(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  size_t nth = 0;
  struct weir_method_options methods[2] = {f->method, f->method};
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  f->policy_options.throttle_max_tokens = 1000;
  f->policy_options.throttle_token_ratio_milli = 100;
  f->breaker.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->breaker.min_requests = 1000;
  fixture_open(f);
  assert_non_null(weir_channel_register_call(f->channel, METHOD, NULL, NULL));
  assert_non_null(weir_channel_register_call(f->channel, OTHER_METHOD, NULL, NULL));
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);
  weir_policy *next = NULL;
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 2;
  f->policy_options.throttle_max_tokens = 900;
  f->breaker.window_buckets = 20;
  f->breaker.probes = 9;
  methods[1].retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  assert_int_equal(weir_policy_new(&f->policy_options, &f->allocator.base, &next, NULL), WEIR_OK);
  for (;;) {
    size_t n_outstanding = f->allocator.n_outstanding;
    size_t n_failed = f->allocator.n_failed;
    counting_allocator_fail_nth(&f->allocator, ++nth);
    enum weir_error error = weir_channel_set_policy(f->channel, next, NULL);
    counting_allocator_fail_nth(&f->allocator, 0);
    if (error == WEIR_OK && f->allocator.n_failed > n_failed) { /* it was only for speed */
      assert_int_equal(weir_channel_set_policy(f->channel, f->policy, NULL), WEIR_OK);
      continue;
    }
    if (error == WEIR_OK) {
      break;
    }
    assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
    assert_in_range(f->allocator.n_outstanding, 1, n_outstanding + 2); /* names may stay known */
    weir_policy *policy = weir_channel_policy(f->channel);
    assert_ptr_equal(policy, f->policy);
    weir_policy_unref(policy);
    unary_run(f, &unary);
    assert_int_equal(unary_report(&unary).n_attempts, 4);
    unary_fini(&unary);
  }
  assert_true(nth > 5);
  assert_true(counters_of(f).n_policy_refusals > 5);
  unary_run(f, &unary);
  assert_int_equal(unary_report(&unary).n_attempts, 1);
  unary_fini(&unary);
  weir_policy_unref(next);
}

/* --- counts of shares --- */

/* As after that many calls. */
static void pretend_taken(struct fixture *f, uint64_t count) {
  struct weir__rules *rules = weir__rules_peek(&f->channel->rules);
  (void)atomic_fetch_add(&f->channel->rules.word, count);
  (void)atomic_fetch_sub(&rules->n_shares, count);
}

static void more_shares_than_the_word_has_room_for_can_be_taken(void **state) {
  struct fixture *f = *state;
  struct unary unary;
  fixture_open_raw(f);
  fixture_swap(f); /* whose policy is nobody else's */
  scripted_transport_always(&f->transport, MS(1), answer_ok);
  for (size_t i = 0; i < 5; i++) {
    pretend_taken(f, WEIR__RULES_MANY - 1);
    run_calls(f, 2); /* the second finds it at that */
    assert_true((atomic_load(&f->channel->rules.word) & WEIR__RULES_MANY) == 0);
  }
  unary_init(f, &unary);
  unary_start(f, &unary);
  size_t n_before = f->allocator.n_outstanding;
  fixture_swap(f);
  assert_int_equal(f->allocator.n_outstanding > n_before, true); /* the call has its own */
  run_until_idle(f);
  unary_fini(&unary);
  assert_int_equal(f->allocator.n_outstanding, n_before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_goes_by_its_policy_to_its_end),
      cmocka_unit_test(a_deadline_does_not_move),
      TEST(a_limit_of_messages_stays),
      cmocka_unit_test(a_call_that_is_made_after_the_swap_goes_by_the_new_policy),
      TEST(who_answered_is_told_as_the_calls_own_policy_has_it),
      cmocka_unit_test(a_stream_goes_by_its_policy_to_its_end),
      TEST(a_method_that_is_named_no_more_goes_by_what_is_left),
      TEST(registered_methods_are_what_each_policy_says),
      TEST(a_call_of_a_registered_method_looks_nothing_up_after_a_swap_either),
      TEST(what_is_set_on_a_call_after_the_swap_keeps_its_policy),
      TEST(the_throttle_keeps_its_level_in_proportion),
      TEST(a_lower_limit_for_replays_is_of_later_calls),
      TEST(what_the_core_is_not_told_of_is_logged_once),
      TEST(the_policy_in_force_can_be_had),
      TEST(a_policy_goes_with_its_last_call),
      TEST(a_failed_swap_changes_nothing),
      TEST(more_shares_than_the_word_has_room_for_can_be_taken),
  };
  return cmocka_run_group_tests_name("swaps of the policy", tests, NULL, NULL);
}
