/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include "src/call/extras.h"
#include "src/channel/channel.h"
#include "src/channel/registered_method.h"
#include "test/stack/stack_fixture.h"

#define HOST "till.shop.internal"
#define WARM_UP 10
#define CALLS 100

/* A call that is not started, of a registered method. */
static void init_registered(struct fixture *f, struct unary *unary, void *handle,
                            grpc_call *parent) {
  unary_init(f, unary);
  weir_call_unref(unary->call);
  unary->call = weir_channel_create_registered_call(
      f->channel, parent, parent != NULL ? GRPC_PROPAGATE_DEFAULTS : 0, f->queue, handle,
      gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  assert_non_null(unary->call);
}

static void a_registered_call_is_retried_on_its_method_and_host(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
              {AT_MS(110), EXPECT_SEND}, {AT_MS(120), REPLY("bar")}));
  char method[] = METHOD;
  char host[] = HOST;
  void *handle = weir_channel_register_call(f->channel, method, host, NULL);
  memset(method, 'x', sizeof method - 1); /* both were copied */
  memset(host, 'x', sizeof host - 1);
  struct unary unary;
  init_registered(f, &unary, handle, NULL);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  for (size_t nth = 1; nth <= 2; nth++) {
    assert_true(sent(f, nth)->registered);
    assert_string_equal(sent(f, nth)->path, METHOD);
    assert_string_equal(sent(f, nth)->host, HOST);
  }
  unary_fini(&unary);
}

static void a_pair_has_one_handle(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  void *handle = weir_channel_register_call(f->channel, METHOD, NULL, NULL);
  assert_non_null(handle);
  assert_ptr_equal(weir_channel_register_call(f->channel, METHOD, NULL, NULL), handle);
  assert_ptr_equal(weir_channel_register_call(f->channel, METHOD, "", NULL), handle);
  void *on_host = weir_channel_register_call(f->channel, METHOD, HOST, NULL);
  void *other = weir_channel_register_call(f->channel, OTHER_METHOD, NULL, NULL);
  assert_ptr_not_equal(on_host, handle);
  assert_ptr_not_equal(other, handle);
  assert_ptr_equal(weir_channel_register_call(f->channel, METHOD, HOST, NULL), on_host);
  assert_int_equal(f->transport.n_registered, 3);

  assert_null(weir_channel_register_call(f->channel, NULL, NULL, NULL));
  assert_null(weir_channel_register_call(f->channel, METHOD, NULL, f));
  counting_allocator_fail_nth(&f->allocator, 1);
  assert_null(weir_channel_register_call(f->channel, "/shop.Cart/Drop", NULL, NULL));
}

static void what_the_policy_says_is_found_once(void **state) {
  struct fixture *f = *state;
  struct weir_method_options methods[2] = {f->method, f->method};
  methods[0].retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 2;
  fixture_open_raw(f);
  struct weir__registered_method *pay = weir_channel_register_call(f->channel, METHOD, NULL, NULL);
  struct weir__registered_method *add =
      weir_channel_register_call(f->channel, OTHER_METHOD, NULL, NULL);
  const struct weir__rules *rules = weir__rules_peek(&f->channel->rules);
  struct weir__call_extras *of_pay = weir__rules_registered(rules, pay->nth);
  const struct weir__call_extras *of_add = weir__rules_registered(rules, add->nth);
  assert_ptr_equal(of_pay->policy, weir_policy_method(f->policy, METHOD, strlen(METHOD)));
  assert_ptr_not_equal(of_pay->policy, of_add->policy);

  /* By what was found, not by looking it up: nothing else can tell the two apart. */
  of_pay->policy = of_add->policy;
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  init_registered(f, &unary, pay, NULL);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(f->transport.n_sent, 1);
  unary_fini(&unary);
}

static void a_registered_call_allocates_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(1), answer_ok);
  void *handle = weir_channel_register_call(f->channel, METHOD, HOST, NULL);
  size_t before = 0;
  for (size_t i = 0; i < WARM_UP + CALLS; i++) {
    struct unary unary;
    unary_init(f, &unary);
    weir_call_unref(unary.call);
    before = i == WARM_UP ? f->allocator.n_allocations : before;
    unary.call = weir_channel_create_registered_call(f->channel, NULL, 0, f->queue, handle,
                                                     gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    unary_start(f, &unary);
    run_until_idle(f);
    assert_int_equal(unary.status, GRPC_STATUS_OK);
    unary_fini(&unary);
  }
  assert_int_equal(f->allocator.n_allocations, before);
  assert_int_equal(f->transport.n_registered, 1);
}

static void what_is_set_on_one_call_is_not_the_others(void **state) {
  struct fixture *f = *state;
  char place;
  struct census_context *census = (struct census_context *)(void *)&place;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  void *handle = weir_channel_register_call(f->channel, METHOD, HOST, NULL);
  struct unary with;
  struct unary without;
  init_registered(f, &with, handle, NULL);
  init_registered(f, &without, handle, NULL);
  weir_census_call_set_context(with.call, census);
  assert_non_null(weir_call_arena_alloc(with.call, 10));
  unary_start(f, &with);
  run_until_idle(f);
  unary_start(f, &without);
  run_until_idle(f);

  assert_ptr_equal(sent(f, 1)->census, census);
  assert_true(sent(f, 1)->registered);
  assert_string_equal(sent(f, 1)->host, HOST);
  assert_null(sent(f, 2)->census);
  assert_true(sent(f, 2)->registered);
  unary_fini(&with);
  unary_fini(&without);
}

static void a_registered_call_outlasts_its_channel(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(1), answer_unavailable);
  struct unary unary;
  init_registered(f, &unary, weir_channel_register_call(f->channel, METHOD, HOST, NULL), NULL);
  unary_start(f, &unary);
  weir_channel_destroy(f->channel);
  f->channel = NULL;
  run_until_idle(f);
  assert_int_equal(f->transport.n_sent, 4);
  assert_string_equal(sent(f, 4)->path, METHOD);
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  unary_fini(&unary);
}

/* The watch over the parent during a backoff is made by the handle too. */
static void a_parents_cancellation_reaches_a_registered_call_in_backoff(void **state) {
  struct fixture *f = *state;
  f->method.retry.initial_backoff_ns = SECONDS(5);
  f->method.retry.max_backoff_ns = SECONDS(5);
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  struct unary unary;
  init_registered(f, &unary, weir_channel_register_call(f->channel, METHOD, HOST, NULL), parent);
  unary_start(f, &unary);
  run_until(f, T0 + MS(10));
  assert_int_equal(unary.n_done, 0);
  scripted_transport_cancel_parent(&f->transport, parent);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(f->clock.now_ns, T0 + MS(10));
  unary_fini(&unary);
  f->transport.base.call_unref(f->transport.base.context, parent);
}

/* --- watching --- */

static void a_watch_holds_its_queue_open_and_its_tag_comes_back_untouched(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  weir_channel_watch_connectivity_state(f->channel, GRPC_CHANNEL_IDLE,
                                        gpr_time_add(gpr_time_from_nanos(T0, GPR_CLOCK_MONOTONIC),
                                                     gpr_time_from_seconds(3, GPR_TIMESPAN)),
                                        f->queue, f);
  weir_completion_queue_shutdown(f->queue);
  run_until(f, T0 + SECONDS(2));
  assert_int_equal(f->n_foreign, 0);
  assert_false(f->saw_shutdown);
  run_until_idle(f);
  assert_int_equal(f->clock.now_ns, T0 + SECONDS(3));
  assert_int_equal(f->n_foreign, 1);
  assert_ptr_equal(f->foreign[0], f);
  assert_false(f->foreign_success[0]);
  assert_true(f->saw_shutdown);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_registered_call_is_retried_on_its_method_and_host),
      TEST(a_pair_has_one_handle),
      TEST(what_the_policy_says_is_found_once),
      TEST(a_registered_call_allocates_nothing),
      TEST(what_is_set_on_one_call_is_not_the_others),
      TEST(a_registered_call_outlasts_its_channel),
      TEST(a_parents_cancellation_reaches_a_registered_call_in_backoff),
      TEST(a_watch_holds_its_queue_open_and_its_tag_comes_back_untouched),
  };
  return cmocka_run_group_tests_name("registered calls", tests, NULL, NULL);
}
