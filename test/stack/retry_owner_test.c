/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include "test/stack/batches.h"

/* One layer of a chain retries: what an application says of it by its own metadata, as one does that
 * hands its request's on, or that is a stack of its own. */

static const struct {
  const char *why;
  enum weir_retry_owner owner;
  const char *inbound; /* the marker of the request being served; NULL = none is served */
  const char *by_hand; /* in the call's metadata; NULL = none */
  size_t n_attempts;
  const char *sent; /* the marker */
} rows[] = {
    {"nobody further out retries", WEIR_RETRY_OWNER_OUTERMOST, NULL, NULL, 4, "cart-policy"},
    {"the application's marker is one", WEIR_RETRY_OWNER_OUTERMOST, NULL, "front-door", 1,
     "front-door"},
    {"also while serving", WEIR_RETRY_OWNER_OUTERMOST, "gate", "front-door", 1, "front-door"},
    {"one that is no name", WEIR_RETRY_OWNER_OUTERMOST, NULL, "no name", 1, "upstream"},
    {"an empty one", WEIR_RETRY_OWNER_OUTERMOST, NULL, "", 1, "upstream"},
    {"ALWAYS retries under its own name", WEIR_RETRY_OWNER_ALWAYS, NULL, "front-door", 4,
     "cart-policy"},
    {"NEVER passes it on", WEIR_RETRY_OWNER_NEVER, NULL, "front-door", 1, "front-door"},
    {"NEVER without one says nothing", WEIR_RETRY_OWNER_NEVER, NULL, NULL, 1, NULL},
};

static bool same_text(const char *a, const char *b) {
  return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_row(const struct fixture *f, size_t i) {
  if (f->transport.n_sent != rows[i].n_attempts) {
    fail_msg("%s: %zu attempts", rows[i].why, f->transport.n_sent);
  }
  for (size_t nth = 1; nth <= rows[i].n_attempts; nth++) {
    const char *marker = sent_attempt_value(sent(f, nth), "weir-retry-owner");
    if (!same_text(marker, rows[i].sent)) {
      fail_msg("%s: %s", rows[i].why, marker != NULL ? marker : "no marker");
    }
  }
}

/* Each row has a fixture of its own, so that attempts count from 1. */
static void with_each_row(void (*run)(struct fixture *f, size_t i)) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    void *state = NULL;
    assert_int_equal(fixture_setup(&state), 0);
    struct fixture *f = state;
    f->retry.owner = rows[i].owner;
    fixture_open_raw(f);
    scripted_transport_always(&f->transport, 0, answer_unavailable);
    weir_inbound *inbound =
        rows[i].inbound != NULL ? fixture_inbound(f, 0, rows[i].inbound, NULL) : NULL;
    struct weir_inbound_scope scope;
    weir_inbound_enter(inbound, &scope);
    weir_inbound_release(inbound);
    run(f, i);
    weir_inbound_leave(&scope);
    check_row(f, i);
    assert_int_equal(fixture_teardown(&state), 0);
  }
}

static void run_unary(struct fixture *f, size_t i) {
  struct unary unary;
  unary_init(f, &unary);
  if (rows[i].by_hand != NULL) {
    unary_add_metadata(f, &unary, "weir-retry-owner", rows[i].by_hand);
  }
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary_report(&unary).reason, rows[i].n_attempts == 4
                                                    ? WEIR_REASON_ATTEMPTS_EXHAUSTED
                                                    : WEIR_REASON_NOT_OWNER);
  unary_fini(&unary);
}

static void a_marker_of_the_applications_is_an_outer_layers(void **state) {
  (void)state;
  with_each_row(run_unary);
}

/* The metadata of a stream are in its first batch, or come later. */
static void run_stream(struct fixture *f, size_t i, const enum batched_op *first,
                       const enum batched_op *second) {
  grpc_metadata marker;
  memset(&marker, 0, sizeof marker);
  marker.key = grpc_slice_from_static_string("weir-retry-owner");
  struct batched_call *call = batches_new(f);
  if (rows[i].by_hand != NULL) {
    marker.value = grpc_slice_from_static_string(rows[i].by_hand);
    call->metadata = &marker;
    call->n_metadata = 1;
  }
  (void)batched_call_start(call, first);
  (void)batched_call_start(call, second);
  drain(f);
  assert_true(batched_call_is_idle(call));
  assert_int_equal(call->status, GRPC_STATUS_UNAVAILABLE);
  assert_report(call, (uint32_t)rows[i].n_attempts,
                rows[i].n_attempts == 4 ? WEIR_REASON_ATTEMPTS_EXHAUSTED : WEIR_REASON_NOT_OWNER);
  batched_call_release(call);
}

static void run_stream_at_once(struct fixture *f, size_t i) {
  run_stream(f, i, OPS(SEND_ALL), OPS(RECV_ALL));
}

static void run_stream_late(struct fixture *f, size_t i) {
  run_stream(f, i, OPS(RECV_ALL), OPS(SEND_ALL));
}

static void a_streams_marker_is_an_outer_layers(void **state) {
  (void)state;
  with_each_row(run_stream_at_once);
}

static void a_streams_marker_may_come_after_its_first_batch(void **state) {
  (void)state;
  with_each_row(run_stream_late);
}

/* How often a call was tried before is no marker there: the engine counts itself. */
static void a_count_of_attempts_of_the_applications_marks_nothing(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_add_metadata(f, &unary, "grpc-previous-rpc-attempts", "7");
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(f->transport.n_sent, 4);
  assert_null(sent_attempt_value(sent(f, 1), "grpc-previous-rpc-attempts"));
  assert_string_equal(sent_attempt_value(sent(f, 2), "grpc-previous-rpc-attempts"), "1");
  unary_fini(&unary);
}

/* What no server has seen is sent again all the same, under the same marker. */
static void the_free_replay_of_an_unseen_call_keeps_the_marker(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), UNPROCESSED}, {AT_MS(0), EXPECT_SEND},
                 {AT_MS(0), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_add_metadata(f, &unary, "weir-retry-owner", "front-door");
  unary_start(f, &unary);
  run_until_idle(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_string_equal(sent_attempt_value(sent(f, 2), "weir-retry-owner"), "front-door");
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_marker_of_the_applications_is_an_outer_layers),
      cmocka_unit_test(a_streams_marker_is_an_outer_layers),
      cmocka_unit_test(a_streams_marker_may_come_after_its_first_batch),
      TEST(a_count_of_attempts_of_the_applications_marks_nothing),
      TEST(the_free_replay_of_an_unseen_call_keeps_the_marker),
  };
  return cmocka_run_group_tests_name("retry owner", tests, NULL, NULL);
}
