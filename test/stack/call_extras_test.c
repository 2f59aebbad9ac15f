/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "test/stack/stack_fixture.h"
#include "test/support/scripted_call.h"

#define HOST "till.shop.internal"

/* Three attempts: 0, 110 and 320 ms. */
static void play_two_failures_and_a_reply(struct fixture *f) {
  play(f,
       SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
              {AT_MS(110), EXPECT_SEND},
              {AT_MS(120), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
              {AT_MS(320), EXPECT_SEND}, {AT_MS(330), REPLY("bar")}));
}

/* --- credentials --- */

/* Credentials that say when the last share of them is gone. */
static int get_no_metadata(void *state, grpc_auth_metadata_context context,
                           grpc_credentials_plugin_metadata_cb cb, void *user_data,
                           grpc_metadata creds_md[GRPC_METADATA_CREDENTIALS_PLUGIN_SYNC_MAX],
                           size_t *num_creds_md, grpc_status_code *status,
                           const char **error_details) {
  (void)state;
  (void)context;
  (void)cb;
  (void)user_data;
  (void)creds_md;
  *num_creds_md = 0;
  *status = GRPC_STATUS_OK;
  *error_details = NULL;
  return 1;
}

static char *describe(void *state) {
  (void)state;
  return gpr_strdup("a test's");
}

static void note_gone(void *state) {
  size_t *n_gone = state;
  (*n_gone)++;
}

static grpc_call_credentials *credentials_new(size_t *n_gone) {
  grpc_metadata_credentials_plugin plugin = {.get_metadata = get_no_metadata,
                                             .debug_string = describe,
                                             .destroy = note_gone,
                                             .state = n_gone,
                                             .type = "test"};
  return grpc_metadata_credentials_create_from_plugin(plugin, GRPC_SECURITY_NONE, NULL);
}

static void credentials_go_with_every_attempt_and_are_held_by_the_call(void **state) {
  struct fixture *f = *state;
  size_t n_gone = 0;
  fixture_open_raw(f);
  play_two_failures_and_a_reply(f);
  struct unary unary;
  unary_init(f, &unary);
  grpc_call_credentials *creds = credentials_new(&n_gone);
  assert_int_equal(weir_call_set_credentials(unary.call, creds), GRPC_CALL_OK);
  grpc_call_credentials_release(creds); /* the application's share; the call has one */
  assert_int_equal(n_gone, 0);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  for (size_t nth = 1; nth <= 3; nth++) {
    assert_ptr_equal(sent(f, nth)->credentials, creds);
  }
  assert_int_equal(n_gone, 0);
  unary_fini(&unary);
  assert_int_equal(n_gone, 1);
}

static void the_credentials_set_last_are_the_calls(void **state) {
  struct fixture *f = *state;
  size_t n_first_gone = 0;
  size_t n_second_gone = 0;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  grpc_call_credentials *first = credentials_new(&n_first_gone);
  grpc_call_credentials *second = credentials_new(&n_second_gone);
  assert_int_equal(weir_call_set_credentials(unary.call, first), GRPC_CALL_OK);
  grpc_call_credentials_release(first);
  assert_int_equal(weir_call_set_credentials(unary.call, second), GRPC_CALL_OK);
  grpc_call_credentials_release(second);
  assert_int_equal(n_first_gone, 1);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_ptr_equal(sent(f, 1)->credentials, second);
  unary_fini(&unary);

  unary_init(f, &unary);
  first = credentials_new(&n_first_gone);
  assert_int_equal(weir_call_set_credentials(unary.call, first), GRPC_CALL_OK);
  grpc_call_credentials_release(first);
  assert_int_equal(weir_call_set_credentials(unary.call, NULL), GRPC_CALL_OK);
  assert_int_equal(n_first_gone, 2);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_null(sent(f, 2)->credentials);
  unary_fini(&unary);
  assert_int_equal(n_second_gone, 1);
}

static void credentials_come_too_late_after_the_first_batch(void **state) {
  struct fixture *f = *state;
  size_t n_gone = 0;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  grpc_call_credentials *creds = credentials_new(&n_gone);
  assert_int_equal(weir_call_set_credentials(unary.call, creds), GRPC_CALL_ERROR_ALREADY_INVOKED);
  grpc_call_credentials_release(creds);
  assert_int_equal(n_gone, 1);
  run_until_idle(f);
  unary_fini(&unary);
}

static void a_call_that_was_never_started_gives_its_credentials_back(void **state) {
  struct fixture *f = *state;
  size_t n_gone = 0;
  fixture_open_raw(f);
  struct unary unary;
  unary_init(f, &unary);
  grpc_call_credentials *creds = credentials_new(&n_gone);
  assert_int_equal(weir_call_set_credentials(unary.call, creds), GRPC_CALL_OK);
  grpc_call_credentials_release(creds);
  unary_fini(&unary);
  assert_int_equal(n_gone, 1);
}

/* --- census --- */

static struct census_context *census_at(char *place) {
  return (struct census_context *)(void *)place;
}

static void the_census_context_goes_with_every_attempt(void **state) {
  struct fixture *f = *state;
  char place;
  fixture_open_raw(f);
  play_two_failures_and_a_reply(f);
  struct unary unary;
  unary_init(f, &unary);
  assert_null(weir_census_call_get_context(unary.call));
  weir_census_call_set_context(unary.call, census_at(&place));
  weir_census_call_set_context(unary.call, NULL); /* changes nothing, as in the core */
  assert_ptr_equal(weir_census_call_get_context(unary.call), &place);
  unary_start(f, &unary);
  run_until_idle(f);

  for (size_t nth = 1; nth <= 3; nth++) {
    assert_ptr_equal(sent(f, nth)->census, &place);
  }
  assert_ptr_equal(weir_census_call_get_context(unary.call), &place);
  unary_fini(&unary);
}

static void a_census_context_comes_too_late_after_the_first_batch(void **state) {
  struct fixture *f = *state;
  char place;
  fixture_open_raw(f);
  play_two_failures_and_a_reply(f);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  weir_census_call_set_context(unary.call, census_at(&place));
  run_until_idle(f);
  assert_null(weir_census_call_get_context(unary.call));
  assert_null(sent(f, 3)->census);
  unary_fini(&unary);
}

static void the_parents_census_context_is_handed_on(void **state) {
  struct fixture *f = *state;
  char parents;
  char own;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  scripted_transport_set_census(parent, census_at(&parents));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.parent = parent});
  assert_ptr_equal(weir_census_call_get_context(unary.call), &parents);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_ptr_equal(sent(f, 1)->census, &parents);
  assert_ptr_equal(weir_census_call_get_context(unary.call), &parents);
  unary_fini(&unary);

  unary_init_with(f, &unary, &(struct unary_options){.parent = parent});
  weir_census_call_set_context(unary.call, census_at(&own));
  unary_start(f, &unary);
  run_until_idle(f);
  assert_ptr_equal(sent(f, 2)->census, &own);
  unary_fini(&unary);
  f->transport.base.call_unref(f->transport.base.context, parent);
}

/* --- parents and masks --- */

struct mask_row {
  const char *why;
  uint32_t mask;
  bool ends_unknown;
};

static const struct mask_row mask_rows[] = {
    {"nothing", 0, false},
    {"everything", GRPC_PROPAGATE_DEFAULTS, false},
    {"all but the deadline", GRPC_PROPAGATE_DEFAULTS & ~GRPC_PROPAGATE_DEADLINE, false},
    {"both census bits",
     GRPC_PROPAGATE_CENSUS_STATS_CONTEXT | GRPC_PROPAGATE_CENSUS_TRACING_CONTEXT, false},
    {"statistics alone", GRPC_PROPAGATE_CENSUS_STATS_CONTEXT, true},
    {"tracing alone", GRPC_PROPAGATE_CENSUS_TRACING_CONTEXT, true},
    {"all but tracing", GRPC_PROPAGATE_DEFAULTS & ~GRPC_PROPAGATE_CENSUS_TRACING_CONTEXT, true},
};

static void half_a_census_mask_makes_a_call_that_has_failed(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  size_t n_expected = 0;
  for (size_t i = 0; i < sizeof mask_rows / sizeof mask_rows[0]; i++) {
    struct unary unary;
    unary_init(f, &unary);
    weir_call_unref(unary.call);
    unary.call = weir_channel_create_call(f->channel, parent, mask_rows[i].mask, f->queue,
                                          grpc_slice_from_static_string(METHOD), NULL,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    unary_start(f, &unary);
    run_until_idle(f);
    n_expected += mask_rows[i].ends_unknown ? 0 : 1;
    if (unary.status != (mask_rows[i].ends_unknown ? GRPC_STATUS_UNKNOWN : GRPC_STATUS_OK) ||
        f->transport.n_sent != n_expected) {
      fail_msg("%s: status %d, %zu sent", mask_rows[i].why, (int)unary.status, f->transport.n_sent);
    }
    unary_fini(&unary);
  }
  assert_int_equal(fixture_breaker(f).n_requests, n_expected); /* it was not asked */
  f->transport.base.call_unref(f->transport.base.context, parent);
}

static void a_mask_means_nothing_without_a_parent(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  weir_call_unref(unary.call);
  unary.call = weir_channel_create_call(f->channel, NULL, GRPC_PROPAGATE_CENSUS_STATS_CONTEXT,
                                        f->queue, grpc_slice_from_static_string(METHOD), NULL,
                                        gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

/* --- memory --- */

static void memory_lives_as_long_as_the_call(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play_two_failures_and_a_reply(f);
  struct unary unary;
  unary_init(f, &unary);
  size_t outstanding = f->allocator.n_outstanding;
  unsigned char *places[4];
  for (size_t i = 0; i < 4; i++) {
    size_t size = i * 1000;
    places[i] = weir_call_arena_alloc(unary.call, size);
    assert_non_null(places[i]);
    assert_int_equal((uintptr_t)places[i] % alignof(max_align_t), 0);
    memset(places[i], (int)i, size);
    if (i == 1) {
      unary_start(f, &unary); /* at any time */
    }
  }
  run_until_idle(f);
  for (size_t i = 1; i < 4; i++) {
    assert_int_equal(places[i][0], i);
    assert_int_equal(places[i][i * 1000 - 1], i);
  }
  assert_null(weir_call_arena_alloc(unary.call, SIZE_MAX));
  assert_null(weir_call_arena_alloc(unary.call, SIZE_MAX - 8));
  assert_true(f->allocator.n_outstanding > outstanding);
  unary_fini(&unary);
  assert_true(f->allocator.n_outstanding <= outstanding);
}

static void without_memory_the_call_is_as_it_was(void **state) {
  struct fixture *f = *state;
  char place;
  size_t n_gone = 0;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  grpc_call_credentials *creds = credentials_new(&n_gone);
  counting_allocator_fail_nth(&f->allocator, 1);
  assert_int_equal(weir_call_set_credentials(unary.call, creds), GRPC_CALL_ERROR);
  counting_allocator_fail_nth(&f->allocator, 1);
  weir_census_call_set_context(unary.call, census_at(&place));
  assert_null(weir_census_call_get_context(unary.call));
  counting_allocator_fail_nth(&f->allocator, 1);
  assert_null(weir_call_arena_alloc(unary.call, 8));
  counting_allocator_fail_nth(&f->allocator, 2);
  assert_null(weir_call_arena_alloc(unary.call, 8));
  grpc_call_credentials_release(creds);
  assert_int_equal(n_gone, 1);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

/* --- the host --- */

static void the_host_goes_with_every_attempt(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play_two_failures_and_a_reply(f);
  struct unary unary;
  unary_init(f, &unary);
  weir_call_unref(unary.call);
  grpc_slice host = scripted_transport_slice(&f->transport, HOST, sizeof HOST - 1);
  unary.call =
      weir_channel_create_call(f->channel, NULL, 0, f->queue, grpc_slice_from_static_string(METHOD),
                               &host, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_slice_unref(host); /* the call has a reference of its own */
  unary_start(f, &unary);
  run_until_idle(f);
  for (size_t nth = 1; nth <= 3; nth++) {
    assert_string_equal(sent(f, nth)->host, HOST);
  }
  unary_fini(&unary);
}

/* --- what is asked of a call --- */

static void assert_peer(const struct unary *unary, const char *expected) {
  char *peer = weir_call_get_peer(unary->call);
  assert_string_equal(peer, expected);
  gpr_free(peer);
}

static void the_peer_is_the_attempts_or_the_target(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play_two_failures_and_a_reply(f);
  struct unary unary;
  unary_init(f, &unary);
  assert_peer(&unary, SCRIPTED_TARGET);
  unary_start(f, &unary);
  assert_peer(&unary, SCRIPTED_PEER);
  run_until(f, T0 + MS(50)); /* in backoff: the last one's */
  assert_peer(&unary, SCRIPTED_PEER);
  run_until_idle(f);
  assert_peer(&unary, SCRIPTED_PEER);
  unary_fini(&unary);
}

static void at_a_boundary_the_peer_is_the_target_always(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(1), answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  assert_peer(&unary, SCRIPTED_TARGET);
  unary_start(f, &unary);
  assert_peer(&unary, SCRIPTED_TARGET);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_peer(&unary, SCRIPTED_TARGET);
  unary_fini(&unary);

  scripted_transport_always(&f->transport, MS(1), answer_not_found);
  unary_run(f, &unary);
  assert_peer(&unary, SCRIPTED_TARGET);
  assert_false(unary_can_see(&unary, "10.0.0.7"));
  unary_fini(&unary);
}

static void the_auth_context_is_the_current_attempts(void **state) {
  struct fixture *f = *state;
  fixture_open(f); /* at a boundary too */
  play_two_failures_and_a_reply(f);
  struct unary unary;
  unary_init(f, &unary);
  assert_null(weir_call_auth_context(unary.call));
  unary_start(f, &unary);
  grpc_auth_context *first = weir_call_auth_context(unary.call);
  assert_non_null(first);
  run_until(f, T0 + MS(50));
  assert_ptr_equal(weir_call_auth_context(unary.call), first);
  run_until(f, T0 + MS(115));
  assert_ptr_not_equal(weir_call_auth_context(unary.call), first);
  run_until_idle(f);
  assert_non_null(weir_call_auth_context(unary.call));
  unary_fini(&unary);
}

static void a_refused_call_has_no_attempt_to_ask(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  fixture_open(f);
  struct unary unary;
  unary_init(f, &unary);
  assert_int_equal(weir_call_failed_before_recv_message(unary.call), 0);
  (void)weir_call_cancel(unary.call, NULL);
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(f->transport.n_created, 0);
  assert_peer(&unary, SCRIPTED_TARGET);
  assert_null(weir_call_auth_context(unary.call));
  assert_null(weir_census_call_get_context(unary.call));
  assert_int_equal(weir_call_failed_before_recv_message(unary.call), 0);
  unary_fini(&unary);
}

static void whether_it_failed_before_a_message_is_the_last_attempts_answer(void **state) {
  struct fixture *f = *state;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_not_found); /* Trailers-Only */
  struct unary unary;
  unary_run(f, &unary);
  assert_int_equal(weir_call_failed_before_recv_message(unary.call), 0);
  unary_fini(&unary);
  const struct wire_answer lost = {
      .what = WIRE_RESET, .status = GRPC_STATUS_UNAVAILABLE, .text = "reset"};
  scripted_transport_always(&f->transport, 0, lost);
  unary_run(f, &unary);
  assert_int_equal(weir_call_failed_before_recv_message(unary.call), 1);
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(credentials_go_with_every_attempt_and_are_held_by_the_call),
      TEST(the_credentials_set_last_are_the_calls),
      TEST(credentials_come_too_late_after_the_first_batch),
      TEST(a_call_that_was_never_started_gives_its_credentials_back),
      TEST(the_census_context_goes_with_every_attempt),
      TEST(a_census_context_comes_too_late_after_the_first_batch),
      TEST(the_parents_census_context_is_handed_on),
      TEST(half_a_census_mask_makes_a_call_that_has_failed),
      TEST(a_mask_means_nothing_without_a_parent),
      TEST(memory_lives_as_long_as_the_call),
      TEST(without_memory_the_call_is_as_it_was),
      TEST(the_host_goes_with_every_attempt),
      TEST(the_peer_is_the_attempts_or_the_target),
      TEST(at_a_boundary_the_peer_is_the_target_always),
      TEST(the_auth_context_is_the_current_attempts),
      TEST(a_refused_call_has_no_attempt_to_ask),
      TEST(whether_it_failed_before_a_message_is_the_last_attempts_answer),
  };
  return cmocka_run_group_tests_name("call extras", tests, NULL, NULL);
}
