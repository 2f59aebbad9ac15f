/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "src/channel/channel.h"
#include "test/stack/batches.h"
#include "test/stack/stack_fixture.h"

static uint64_t n_detached(const struct fixture *f) {
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  return counters.n_detached_calls;
}

static void parent_release(struct fixture *f, grpc_call *parent) {
  f->transport.base.call_unref(&f->transport, parent);
}

/* --- shares of the server's call --- */

static void the_server_call_is_held_until_the_applications_last_share_ends(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, 0, NULL, parent);
  parent_release(f, parent); /* the server is done with it, the inbound is not */
  assert_int_equal(f->transport.n_parents, 1);

  assert_ptr_equal(weir_inbound_ref(inbound), inbound);
  weir_inbound_release(inbound);
  assert_int_equal(f->transport.n_parents, 1);
  weir_inbound_release(inbound);
  assert_int_equal(f->transport.n_parents, 0);
}

static void a_call_holds_the_server_call_until_it_has_ended(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, 0, "front-door", parent);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), REPLY("bar")}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  parent_release(f, parent);
  unary_start(f, &unary);
  run_until(f, T0 + MS(5));
  assert_int_equal(f->transport.n_parents, 1); /* the call's */

  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(f->transport.n_parents, 0);
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "front-door");
  unary_fini(&unary); /* and with it what it held of the inbound */
}

static void a_call_that_ends_first_leaves_the_server_call_to_the_inbound(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, 0, NULL, parent);
  parent_release(f, parent);
  for (int i = 0; i < 3; i++) {
    struct unary unary;
    unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
    unary_start(f, &unary);
    run_until_idle(f);
    assert_ptr_equal(sent(f, 1)->parent, parent);
    unary_fini(&unary);
    assert_int_equal(f->transport.n_parents, 1);
  }
  weir_inbound_release(inbound);
  assert_int_equal(f->transport.n_parents, 0);
}

static void a_call_that_is_never_started_holds_nothing_for_ever(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, 0, NULL, parent);
  parent_release(f, parent);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  assert_int_equal(f->transport.n_parents, 1);
  unary_fini(&unary);
  assert_int_equal(f->transport.n_parents, 0);
}

/* --- the thread's ambient inbound --- */

/* Makes a call whose options name no inbound, and tells what it was marked with, and its parent. */
static const char *owner_of_call(struct fixture *f, const grpc_call **parent_out) {
  struct unary unary;
  unary_run(f, &unary);
  unary_fini(&unary);
  const struct sent_attempt *attempt = sent(f, f->transport.n_sent);
  if (parent_out != NULL) {
    *parent_out = attempt->parent;
  }
  return sent_attempt_value(attempt, "weir-retry-owner");
}

static void calls_inside_a_scope_are_made_for_its_inbound(void **state) {
  struct fixture *f = *state;
  f->retry.owner = WEIR_RETRY_OWNER_NEVER;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, T0 + SECONDS(3), "front-door", parent);
  const grpc_call *seen = NULL;
  struct weir_inbound_scope scope;

  assert_null(weir_inbound_current());
  weir_inbound_enter(inbound, &scope);
  assert_ptr_equal(weir_inbound_current(), inbound);
  assert_string_equal(owner_of_call(f, &seen), "front-door");
  assert_ptr_equal(seen, parent);
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + SECONDS(3));
  weir_inbound_leave(&scope);

  assert_null(weir_inbound_current());
  assert_null(owner_of_call(f, &seen));
  assert_null(seen);
  weir_inbound_release(inbound);
  parent_release(f, parent);
}

static void registered_calls_are_too(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *inbound = fixture_inbound(f, T0 + SECONDS(3), "front-door", NULL);
  void *handle = weir_channel_register_call(f->channel, METHOD, NULL, NULL);
  struct weir_inbound_scope scope;
  struct unary unary;
  unary_init(f, &unary);
  weir_call_unref(unary.call);
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound); /* the scope has a share of its own */
  unary.call = weir_channel_create_registered_call(f->channel, NULL, 0, f->queue, handle,
                                                   gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  weir_inbound_leave(&scope);
  unary_start(f, &unary); /* made inside it is what counts */
  run_until_idle(f);

  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "front-door");
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + SECONDS(3));
  unary_fini(&unary);
}

static void scopes_nest_and_one_of_nothing_makes_roots(void **state) {
  struct fixture *f = *state;
  f->retry.owner = WEIR_RETRY_OWNER_NEVER;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *one = fixture_inbound(f, 0, "one", NULL);
  weir_inbound *two = fixture_inbound(f, 0, "two", NULL);
  struct weir_inbound_scope scopes[4];

  weir_inbound_enter(one, &scopes[0]);
  weir_inbound_enter(two, &scopes[1]);
  assert_string_equal(owner_of_call(f, NULL), "two");
  weir_inbound_enter(NULL, &scopes[2]);
  assert_null(weir_inbound_current());
  assert_null(owner_of_call(f, NULL));
  weir_inbound_enter(one, &scopes[3]);
  assert_string_equal(owner_of_call(f, NULL), "one");
  weir_inbound_leave(&scopes[3]);
  assert_null(owner_of_call(f, NULL));
  weir_inbound_leave(&scopes[2]);
  assert_string_equal(owner_of_call(f, NULL), "two");
  weir_inbound_leave(&scopes[1]);
  assert_string_equal(owner_of_call(f, NULL), "one");
  weir_inbound_leave(&scopes[0]);
  assert_null(weir_inbound_current());
  weir_inbound_release(one);
  weir_inbound_release(two);
}

static void an_inbound_in_the_options_wins_over_the_ambient_one(void **state) {
  struct fixture *f = *state;
  f->retry.owner = WEIR_RETRY_OWNER_NEVER;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *ambient = fixture_inbound(f, T0 + SECONDS(1), "ambient", NULL);
  weir_inbound *named = fixture_inbound(f, T0 + SECONDS(2), "named", NULL);
  struct weir_inbound_scope scope;
  struct unary unary;
  weir_inbound_enter(ambient, &scope);
  unary_init_with(f, &unary, &(struct unary_options){.inbound = named});
  weir_inbound_leave(&scope);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "named");
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + SECONDS(2));
  unary_fini(&unary);
  weir_inbound_release(ambient);
  weir_inbound_release(named);
}

/* --- parents that are over --- */

/* An inbound whose server's call has come to its end. */
static weir_inbound *finished_inbound(struct fixture *f, int64_t deadline_at_ns) {
  grpc_call *parent = scripted_transport_parent(&f->transport);
  scripted_transport_cancel_parent(&f->transport, parent);
  weir_inbound *inbound = fixture_inbound(f, deadline_at_ns, NULL, parent);
  parent_release(f, parent);
  return inbound;
}

static void a_call_for_a_request_that_is_over_is_cancelled_and_not_sent(void **state) {
  struct fixture *f = *state;
  f->method.retry.retryable_codes |= CODE_BIT(GRPC_STATUS_CANCELLED);
  fixture_open(f);
  weir_inbound *inbound = finished_inbound(f, T0 + SECONDS(1));
  for (int i = 0; i < 10; i++) {
    struct unary unary;
    unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
    unary_start(f, &unary);
    run_until_idle(f);
    assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
    assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_LOCAL_CANCEL);
    assert_int_equal(unary_report(&unary).reason, WEIR_REASON_CANCELLED);
    assert_int_equal(unary.done_at_ns, T0);
    unary_fini(&unary);
  }
  weir_inbound_release(inbound);
  assert_int_equal(f->transport.n_created, 10);
  assert_int_equal(fixture_breaker(f).n_requests, 0);
}

/* One token less than all, and there would be one retry less. */
static void a_request_that_is_over_takes_no_token(void **state) {
  struct fixture *f = *state;
  f->method.retry.retryable_codes |= CODE_BIT(GRPC_STATUS_CANCELLED);
  f->policy_options.throttle_max_tokens = 4;
  f->policy_options.throttle_token_ratio_milli = 1;
  fixture_open_raw(f);
  weir_inbound *inbound = finished_inbound(f, 0);
  struct unary unary;
  for (int i = 0; i < 5; i++) {
    unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
  }
  weir_inbound_release(inbound);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), REPLY("bar")}));
  unary_run(f, &unary);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void a_half_open_breaker_gets_its_probe_back_from_one(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  f->breaker.min_requests = 1;
  f->breaker.probes = 1;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  run_until(f, T0 + SECONDS(31));
  weir_inbound *inbound = finished_inbound(f, 0);
  struct unary unary;
  for (int i = 0; i < 3; i++) {
    unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
    unary_start(f, &unary);
    run_until_idle(f);
    assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
    unary_fini(&unary);
  }
  weir_inbound_release(inbound);
  scripted_transport_always(&f->transport, 0, answer_ok);
  run_calls(f, 1);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_CLOSED);
}

static void a_stream_for_a_request_that_is_over_is_cancelled_and_not_sent(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_CANCELLED, 3);
  weir_inbound *inbound = finished_inbound(f, 0);
  struct weir_inbound_scope scope;
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  struct batched_call *call = batches_new(f);
  weir_inbound_leave(&scope);
  static const enum batched_op ops[N_BATCHED_OPS] = {SEND_ALL, RECV_ALL};
  for (size_t i = 0; i < N_BATCHED_OPS; i++) {
    (void)batched_call_start(call, OPS(ops[i]));
  }
  drain(f);

  assert_int_equal(f->clock.now_ns, T0);
  assert_int_equal(f->transport.n_sent, 0);
  for (size_t i = 0; i < N_BATCHED_OPS; i++) {
    assert_int_equal(call->batches[i].tag.n_came, 1);
  }
  assert_int_equal(call->status, GRPC_STATUS_CANCELLED);
  assert_int_equal(batched_call_report(call).origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(batched_call_report(call).reason, WEIR_REASON_CANCELLED);
  batched_call_release(call);
}

/* Its time was up before it was over: that is told. */
static void a_request_that_is_over_and_late_is_late(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  weir_inbound *inbound = finished_inbound(f, T0);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(unary_report(&unary).deadline_bound, WEIR_DEADLINE_BOUND_PARENT);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_DEADLINE);
  assert_int_equal(f->transport.n_created, 0);
  assert_int_equal(fixture_breaker(f).n_requests, 0);
  unary_fini(&unary);
}

/* The cancellation came within the attempt's time, and is seen after it. */
static void a_cancelled_request_that_is_seen_late_is_not_retried(void **state) {
  struct fixture *f = *state;
  f->method.per_attempt_timeout_ns = MS(50);
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, T0 + SECONDS(5), NULL, parent);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until(f, T0 + MS(10));
  scripted_transport_cancel_parent(&f->transport, parent);
  fake_clock_advance_to(&f->clock, T0 + MS(200));
  run_until_idle(f);

  assert_int_equal(f->transport.n_sent, 1);
  assert_int_equal(f->transport.n_created, 1);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(unary_report(&unary).reason, WEIR_REASON_CANCELLED);
  unary_fini(&unary);
  parent_release(f, parent);
}

/* --- detached calls --- */

static void a_detached_call_outlives_its_parent(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, T0 + MS(50), "front-door", parent);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(100), REPLY("bar")}));
  struct unary unary;
  unary_init_with(
      f, &unary,
      &(struct unary_options){.inbound = inbound, .inbound_bond = WEIR_INBOUND_DETACHED});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until(f, T0 + MS(10));
  scripted_transport_cancel_parent(&f->transport, parent);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(unary.done_at_ns, T0 + MS(100));
  assert_null(sent(f, 1)->parent);
  assert_string_equal(sent_attempt_value(sent(f, 1), "weir-retry-owner"), "front-door");
  assert_int_equal(sent(f, 1)->deadline_at_ns, T0 + SECONDS(10)); /* the policy's own */
  unary_fini(&unary);
  parent_release(f, parent);
}

static void a_detached_call_is_made_though_its_parent_is_over(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  scripted_transport_cancel_parent(&f->transport, parent);
  weir_inbound *inbound = fixture_inbound(f, T0 - MS(1), NULL, parent);
  struct unary unary;
  unary_init_with(
      f, &unary,
      &(struct unary_options){.inbound = inbound, .inbound_bond = WEIR_INBOUND_DETACHED});
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
  weir_inbound_release(inbound);
  parent_release(f, parent);
}

/* A refused first batch, and the next, see the same bond. */
static void a_detached_call_that_is_started_again_is_still_detached(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *inbound = fixture_inbound(f, T0 + MS(1), NULL, NULL);
  struct unary unary;
  unary_init_with(
      f, &unary,
      &(struct unary_options){.inbound = inbound, .inbound_bond = WEIR_INBOUND_DETACHED});
  f->transport.start_fails_at = f->transport.n_start_batches + 1;
  assert_int_not_equal(unary_try_start(f, &unary), GRPC_CALL_OK);
  unary_set_request(f, &unary, 3);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(sent(f, f->transport.n_sent)->deadline_at_ns, T0 + SECONDS(10));
  unary_fini(&unary);
  weir_inbound_release(inbound);
}

static void an_explicit_parent_reaches_a_detached_call(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  weir_inbound *inbound = fixture_inbound(f, T0 + MS(50), NULL, NULL);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init_with(f, &unary,
                  &(struct unary_options){
                      .inbound = inbound, .inbound_bond = WEIR_INBOUND_DETACHED, .parent = parent});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until(f, T0 + MS(100)); /* the inbound's deadline is past */
  assert_int_equal(unary.n_done, 0);
  scripted_transport_cancel_parent(&f->transport, parent);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(unary.done_at_ns, T0 + MS(100));
  unary_fini(&unary);
  parent_release(f, parent);
}

/* A service's own slow downstream is still no deadline of its caller's. */
static void a_detached_calls_failure_is_told_as_in_a_service(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  weir_inbound *inbound = fixture_inbound(f, T0 + SECONDS(2), NULL, NULL);
  struct unary unary;
  unary_init_with(f, &unary,
                  &(struct unary_options){.deadline_at_ns = T0 + SECONDS(3),
                                          .inbound = inbound,
                                          .inbound_bond = WEIR_INBOUND_DETACHED});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.done_at_ns, T0 + SECONDS(3));
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_report(&unary).do_not_retry);
  assert_int_equal(unary_report(&unary).deadline_bound, WEIR_DEADLINE_BOUND_CALL);
  unary_fini(&unary);
}

static void detached_calls_are_counted_and_others_are_not(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable); /* attempts don't count */
  weir_inbound *inbound = fixture_inbound(f, 0, NULL, NULL);
  static const struct {
    bool has_inbound;
    enum weir_inbound_bond bond;
    uint64_t n_detached;
  } rows[] = {
      {true, WEIR_INBOUND_ATTACHED, 0},  {true, WEIR_INBOUND_DETACHED, 1},
      {false, WEIR_INBOUND_DETACHED, 1}, /* there is nothing that it is detached from */
      {false, WEIR_INBOUND_ATTACHED, 1}, {true, WEIR_INBOUND_DETACHED, 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct unary unary;
    unary_init_with(f, &unary,
                    &(struct unary_options){.inbound = rows[i].has_inbound ? inbound : NULL,
                                            .inbound_bond = rows[i].bond});
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
    assert_int_equal(n_detached(f), rows[i].n_detached);
  }
  weir_inbound_release(inbound);
}

static void a_bond_that_is_none_makes_no_call(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  options.inbound_bond = (enum weir_inbound_bond)2;
  assert_null(weir_channel_create_call(f->channel, NULL, 0, f->queue,
                                       grpc_slice_from_static_string(METHOD), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), &options));
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(NULL, 0);
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message;
  request.inbound_bond = (enum weir_inbound_bond) - 1;
  assert_int_equal(weir_unary(f->channel, &request, &reply), WEIR_ERROR_INVALID_ARGUMENT);
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(message);
}

/* --- identifiers of a trace --- */

#define TRACEPARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static weir_inbound *traced_inbound(struct fixture *f) {
  grpc_metadata metadata[2];
  memset(metadata, 0, sizeof metadata);
  metadata[0].key = grpc_slice_from_static_string("tracestate");
  metadata[0].value = grpc_slice_from_static_string("vendor=1");
  metadata[1].key = grpc_slice_from_static_string("traceparent");
  metadata[1].value = grpc_slice_from_static_string(TRACEPARENT);
  grpc_metadata_array array = {.count = 2, .capacity = 2, .metadata = metadata};
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  options.allocator = &f->allocator.base;
  weir_inbound *inbound = NULL;
  assert_int_equal(weir_inbound_new(NULL, &array, NULL, &options, &inbound), WEIR_OK);
  return inbound;
}

static void assert_traced(const struct sent_attempt *attempt, const char *parent) {
  assert_string_equal(sent_attempt_value(attempt, "traceparent"), parent);
  assert_string_equal(sent_attempt_value(attempt, "tracestate"), "vendor=1");
}

static void a_trace_goes_out_with_every_attempt(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  static const enum weir_inbound_bond bonds[] = {WEIR_INBOUND_ATTACHED, WEIR_INBOUND_DETACHED};
  for (size_t i = 0; i < 2; i++) {
    weir_inbound *inbound = traced_inbound(f);
    struct unary unary;
    unary_init_with(f, &unary,
                    &(struct unary_options){.inbound = inbound, .inbound_bond = bonds[i]});
    weir_inbound_release(inbound);
    unary_add_metadata(f, &unary, "x-mine", "1");
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
    assert_int_equal(f->transport.n_sent, 4 * (i + 1));
  }
  for (size_t nth = 1; nth <= 8; nth++) {
    assert_traced(sent(f, nth), TRACEPARENT);
    assert_string_equal(sent_attempt_value(sent(f, nth), "x-mine"), "1");
  }
}

static void a_trace_goes_out_with_a_stream(void **state) {
  struct fixture *f = *state;
  open_retrying(f, GRPC_STATUS_UNAVAILABLE, 2);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  weir_inbound *inbound = traced_inbound(f);
  struct weir_inbound_scope scope;
  weir_inbound_enter(inbound, &scope);
  weir_inbound_release(inbound);
  struct batched_call *call = batches_new(f);
  weir_inbound_leave(&scope);
  (void)batched_call_start(call, OPS(SEND_ALL));
  (void)batched_call_start(call, OPS(RECV_ALL));
  drain(f);
  batched_call_release(call);
  assert_int_equal(f->transport.n_sent, 2);
  assert_traced(sent(f, 1), TRACEPARENT);
  assert_traced(sent(f, 2), TRACEPARENT);
}

static void an_identifier_of_the_applications_stands(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *inbound = traced_inbound(f);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  unary_add_metadata(f, &unary, "traceparent", "a span of its own");
  unary_start(f, &unary);
  run_until_idle(f);
  unary_fini(&unary);
  assert_traced(sent(f, 1), "a span of its own"); /* and there is one */
}

static void a_policy_may_keep_a_trace_to_this_service(void **state) {
  struct fixture *f = *state;
  f->policy_options.pass_trace = false;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *inbound = traced_inbound(f);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until_idle(f);
  unary_fini(&unary);
  assert_null(sent_attempt_value(sent(f, 1), "traceparent"));
  assert_null(sent_attempt_value(sent(f, 1), "tracestate"));
}

/* Around the number of entries that are merged without memory. */
static void any_amount_of_metadata_is_merged_with_a_trace(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  weir_inbound *inbound = traced_inbound(f);
  static const char *const keys[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8",
                                     "k9", "ka", "kb", "kc", "kd", "ke", "kf", "kg", "kh",
                                     "ki", "kj", "kk", "kl", "km", "kn", "ko", "kp"};
  for (size_t n = 16; n <= sizeof keys / sizeof keys[0]; n++) {
    struct unary unary;
    unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
    for (size_t i = 0; i < n; i++) {
      unary_add_metadata(f, &unary, keys[i], keys[i]);
    }
    unary_start(f, &unary);
    run_until_idle(f);
    unary_fini(&unary);
    assert_traced(sent(f, f->transport.n_sent), TRACEPARENT);
    assert_string_equal(sent_attempt_value(sent(f, f->transport.n_sent), keys[n - 1]), keys[n - 1]);
  }
  weir_inbound_release(inbound);
}

/* --- counters --- */

static void a_channel_that_has_made_no_calls_has_counted_none(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  counters.n_clamped_deadlines = 7;
  counters.n_detached_calls = 7;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  assert_int_equal(counters.size, sizeof counters);
  assert_int_equal(counters.n_clamped_deadlines, 0);
  assert_int_equal(counters.n_detached_calls, 0);
}

static void an_older_program_gets_the_counters_that_it_knows(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  weir__call_counter_bump(&f->channel->environment->counters.n_clamped_deadlines);
  weir__call_counter_bump(&f->channel->environment->counters.n_detached_calls);
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  counters.size = offsetof(struct weir_channel_counters, n_detached_calls);
  counters.n_detached_calls = 7;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  assert_int_equal(counters.size, offsetof(struct weir_channel_counters, n_detached_calls));
  assert_int_equal(counters.n_clamped_deadlines, 1);
  assert_int_equal(counters.n_detached_calls, 7); /* behind what it knows */

  counters.size = sizeof counters.size - 1;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_ERROR_INVALID_ARGUMENT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_server_call_is_held_until_the_applications_last_share_ends),
      TEST(a_call_holds_the_server_call_until_it_has_ended),
      TEST(a_call_that_ends_first_leaves_the_server_call_to_the_inbound),
      TEST(a_call_that_is_never_started_holds_nothing_for_ever),
      TEST(calls_inside_a_scope_are_made_for_its_inbound),
      TEST(registered_calls_are_too),
      TEST(scopes_nest_and_one_of_nothing_makes_roots),
      TEST(an_inbound_in_the_options_wins_over_the_ambient_one),
      TEST(a_call_for_a_request_that_is_over_is_cancelled_and_not_sent),
      TEST(a_request_that_is_over_takes_no_token),
      TEST(a_half_open_breaker_gets_its_probe_back_from_one),
      TEST(a_stream_for_a_request_that_is_over_is_cancelled_and_not_sent),
      TEST(a_request_that_is_over_and_late_is_late),
      TEST(a_cancelled_request_that_is_seen_late_is_not_retried),
      TEST(a_detached_call_outlives_its_parent),
      TEST(a_detached_call_is_made_though_its_parent_is_over),
      TEST(a_detached_call_that_is_started_again_is_still_detached),
      TEST(an_explicit_parent_reaches_a_detached_call),
      TEST(a_detached_calls_failure_is_told_as_in_a_service),
      TEST(detached_calls_are_counted_and_others_are_not),
      TEST(a_bond_that_is_none_makes_no_call),
      TEST(a_trace_goes_out_with_every_attempt),
      TEST(a_trace_goes_out_with_a_stream),
      TEST(an_identifier_of_the_applications_stands),
      TEST(a_policy_may_keep_a_trace_to_this_service),
      TEST(any_amount_of_metadata_is_merged_with_a_trace),
      TEST(a_channel_that_has_made_no_calls_has_counted_none),
      TEST(an_older_program_gets_the_counters_that_it_knows),
  };
  return cmocka_run_group_tests_name("inbound over a script", tests, NULL, NULL);
}
