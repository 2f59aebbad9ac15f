/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <grpc/status.h>

#include <weir/clock.h>
#include <weir/interceptor.h>
#include <weir/policy.h>

#include <cmocka.h>

#include "interceptors/retry/retry.h"
#include "src/base/allocator.h"
#include "test/support/counting_allocator.h"

#define MS(n) ((n)*WEIR_MS_NS)
#define BIT(code) (1u << (unsigned)(code))
#define HALF (UINT64_C(1) << 63) /* of chance: no jitter */
#define MAX_TOKENS 10

struct fixture {
  struct counting_allocator counting;
  weir_throttle *throttle;
  weir_interceptor *layer;
  uint64_t chance;
  struct weir_random random;
  int64_t now_ns;

  struct weir_retry_options options;
  struct weir_method_policy method;
  struct weir_plan plan;
  void *call_state;
};

static uint64_t chance_next(void *context) {
  return *(const uint64_t *)context;
}

static void refill(weir_throttle *throttle) {
  while (weir_throttle_tokens_milli(throttle) < MAX_TOKENS * 1000) {
    weir_throttle_record_success(throttle);
  }
}

static int setup(void **state) {
  static struct fixture fixture;
  struct fixture *f = &fixture;
  memset(f, 0, sizeof *f);
  counting_allocator_init(&f->counting);
  weir_throttle_forget(); /* what the last test has left */
  assert_int_equal(weir_throttle_acquire("retry", MAX_TOKENS, 100, &f->throttle), WEIR_OK);
  assert_int_equal(weir__retry_layer_new(f->throttle, "cart", &f->counting.base, &f->layer),
                   WEIR_OK);
  f->chance = HALF;
  f->random = (struct weir_random){sizeof f->random, chance_next, &f->chance};
  f->now_ns = MS(1000);
  f->options = (struct weir_retry_options)WEIR_RETRY_OPTIONS_INIT;
  f->method.retry_options = &f->options;
  f->method.retry = (struct weir_retry_policy){
      .max_attempts = 4,
      .retryable_codes = BIT(GRPC_STATUS_UNAVAILABLE) | BIT(GRPC_STATUS_CANCELLED) |
                         BIT(GRPC_STATUS_DEADLINE_EXCEEDED) | BIT(GRPC_STATUS_RESOURCE_EXHAUSTED),
      .initial_backoff_ns = MS(100),
      .max_backoff_ns = MS(1000),
      .backoff_multiplier = 2.0};
  f->plan.method = &f->method;
  f->plan.shape = WEIR_CALL_SHAPE_ONE_BATCH;
  f->plan.replayable = true;
  f->plan.n_attempts = 1;
  f->call_state = weir__zalloc(&f->counting.base, f->layer->vtable->call_state_size);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir__free(&f->counting.base, f->call_state);
  f->layer->vtable->destroy(f->layer);
  weir_throttle_release(f->throttle);
  assert_int_equal(f->counting.n_outstanding, 0);
  return 0;
}

static void admit(struct fixture *f) {
  const struct weir_event event = {.now_ns = f->now_ns, .random = &f->random};
  assert_int_equal(f->layer->vtable->admit(f->layer, f->call_state, &event, &f->plan),
                   WEIR_ADMISSION_PROCEED);
}

static enum weir_disposition settle(struct fixture *f, struct weir_outcome outcome) {
  const struct weir_event event = {.now_ns = f->now_ns, .random = &f->random};
  return f->layer->vtable->settle(f->layer, f->call_state, &event, &outcome, &f->plan);
}

static struct weir_outcome failure(grpc_status_code code) {
  return (struct weir_outcome){.code = code, .origin = WEIR_ORIGIN_PEER, .retryable = true};
}

static struct weir_outcome unavailable(void) {
  return failure(GRPC_STATUS_UNAVAILABLE);
}

static struct weir_outcome ok(void) {
  return (struct weir_outcome){
      .code = GRPC_STATUS_OK, .origin = WEIR_ORIGIN_PEER, .committed = true, .got_message = true};
}

static struct weir_outcome pushed_back(grpc_status_code code, int64_t delay_ns) {
  struct weir_outcome outcome = failure(code);
  outcome.pushback = delay_ns < 0 ? WEIR_PUSHBACK_STOP : WEIR_PUSHBACK_DELAY;
  outcome.pushback_delay_ns = delay_ns < 0 ? 0 : delay_ns;
  return outcome;
}

static uint32_t tokens_milli(const struct fixture *f) {
  return weir_throttle_tokens_milli(f->throttle);
}

static void assert_finished(struct fixture *f, struct weir_outcome outcome, enum weir_reason reason,
                            uint32_t tokens_left_milli) {
  assert_int_equal(settle(f, outcome), WEIR_DISPOSITION_FINISH);
  assert_string_equal(weir_reason_name(f->plan.reason), weir_reason_name(reason));
  assert_int_equal(tokens_milli(f), tokens_left_milli);
  assert_false(f->plan.uncounted);
}

static void assert_retried_in(struct fixture *f, struct weir_outcome outcome, int64_t delay_ns) {
  assert_int_equal(settle(f, outcome), WEIR_DISPOSITION_RETRY);
  assert_int_equal(f->plan.resume_at_ns - f->now_ns, delay_ns);
  assert_int_equal(f->plan.reason, WEIR_REASON_NONE);
  f->now_ns = f->plan.resume_at_ns;
  f->plan.n_attempts += f->plan.uncounted ? 0 : 1;
}

static void a_success_is_the_end(void **state) {
  struct fixture *f = *state;
  admit(f);
  f->plan.reason = WEIR_REASON_THROTTLED;

  assert_finished(f, ok(), WEIR_REASON_NONE, 10000);
}

static void retries_back_off_until_the_attempts_are_used_up(void **state) {
  struct fixture *f = *state;
  admit(f);

  assert_retried_in(f, unavailable(), MS(100));
  assert_false(f->plan.uncounted);
  assert_retried_in(f, unavailable(), MS(200));
  assert_retried_in(f, unavailable(), MS(400));
  assert_finished(f, unavailable(), WEIR_REASON_ATTEMPTS_EXHAUSTED, 6000);
}

static void the_backoff_is_jittered_by_the_given_chance(void **state) {
  struct fixture *f = *state;
  admit(f);

  f->chance = 0;
  assert_retried_in(f, unavailable(), MS(80));
}

static void a_code_that_is_not_listed_is_not_retried(void **state) {
  struct fixture *f = *state;
  admit(f);

  assert_finished(f, failure(GRPC_STATUS_INVALID_ARGUMENT), WEIR_REASON_NOT_RETRYABLE, 10000);
  assert_finished(f, failure(GRPC_STATUS_UNAUTHENTICATED), WEIR_REASON_NOT_RETRYABLE, 10000);
}

static void a_method_without_a_policy_does_not_retry_but_feeds_the_throttle(void **state) {
  struct fixture *f = *state;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  admit(f);

  assert_finished(f, unavailable(), WEIR_REASON_NO_RETRY_POLICY, 10000);
  assert_finished(f, pushed_back(GRPC_STATUS_UNAVAILABLE, -1), WEIR_REASON_NO_RETRY_POLICY, 9000);
  assert_finished(f, ok(), WEIR_REASON_NONE, 9100);
}

static void a_policy_of_one_attempt_is_none_whatever_it_lists(void **state) {
  struct fixture *f = *state;
  f->method.retry.max_attempts = 1;
  admit(f);

  assert_finished(f, unavailable(), WEIR_REASON_NO_RETRY_POLICY, 10000);
}

/* Listed or not: the origin decides. */
static const struct {
  grpc_status_code code;
  enum weir_origin origin;
  enum weir_reason reason;
} local_rows[] = {
    {GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_REASON_DEADLINE},
    {GRPC_STATUS_CANCELLED, WEIR_ORIGIN_LOCAL_CANCEL, WEIR_REASON_CANCELLED},
    {GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_LOCAL_CANCEL, WEIR_REASON_CANCELLED},
    {GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_LOCAL_BREAKER, WEIR_REASON_BREAKER_OPEN},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, WEIR_ORIGIN_LOCAL_LIMIT, WEIR_REASON_LIMIT},
    {GRPC_STATUS_CANCELLED, WEIR_ORIGIN_LOCAL_SHUTDOWN, WEIR_REASON_SHUTDOWN},
};

static void what_this_process_ended_is_not_retried_and_costs_nothing(void **state) {
  struct fixture *f = *state;
  admit(f);
  for (size_t i = 0; i < sizeof local_rows / sizeof local_rows[0]; i++) {
    struct weir_outcome outcome = pushed_back(local_rows[i].code, -1);
    outcome.origin = local_rows[i].origin;
    outcome.unprocessed = true;
    assert_finished(f, outcome, local_rows[i].reason, 10000);
  }
}

static void the_peers_deadline_and_cancellation_are_retried_when_listed(void **state) {
  struct fixture *f = *state;
  admit(f);

  assert_retried_in(f, failure(GRPC_STATUS_DEADLINE_EXCEEDED), MS(100));
  struct weir_outcome reset = failure(GRPC_STATUS_CANCELLED);
  reset.origin = WEIR_ORIGIN_TRANSPORT_RESET;
  assert_retried_in(f, reset, MS(200));
  assert_retried_in(f, failure(GRPC_STATUS_RESOURCE_EXHAUSTED), MS(400));
}

static void pushback_is_exact_and_starts_the_backoff_over(void **state) {
  struct fixture *f = *state;
  f->chance = 0; /* jitter would show */
  admit(f);

  assert_retried_in(f, unavailable(), MS(80));
  assert_retried_in(f, pushed_back(GRPC_STATUS_UNAVAILABLE, MS(2000)), MS(2000));
  assert_retried_in(f, unavailable(), MS(80));
}

static void a_pushback_of_nothing_retries_at_once(void **state) {
  struct fixture *f = *state;
  admit(f);

  assert_retried_in(f, pushed_back(GRPC_STATUS_UNAVAILABLE, 0), 0);
}

static void a_pushback_of_24_days_is_left_to_the_budget(void **state) {
  struct fixture *f = *state;
  admit(f);

  assert_retried_in(f, pushed_back(GRPC_STATUS_UNAVAILABLE, MS(INT64_C(2147483647))),
                    MS(INT64_C(2147483647)));
}

static void a_pushback_that_says_stop_stops(void **state) {
  struct fixture *f = *state;
  admit(f);

  assert_finished(f, pushed_back(GRPC_STATUS_UNAVAILABLE, -1), WEIR_REASON_PUSHBACK, 9000);
}

static void a_pushback_with_another_code_costs_a_token_only_if_it_says_stop(void **state) {
  struct fixture *f = *state;
  admit(f);

  assert_finished(f, pushed_back(GRPC_STATUS_INVALID_ARGUMENT, MS(5)), WEIR_REASON_NOT_RETRYABLE,
                  10000);
  assert_finished(f, pushed_back(GRPC_STATUS_INVALID_ARGUMENT, -1), WEIR_REASON_NOT_RETRYABLE,
                  9000);
}

static void attempts_bind_a_pushback_too(void **state) {
  struct fixture *f = *state;
  admit(f);
  f->plan.n_attempts = 4;

  assert_finished(f, pushed_back(GRPC_STATUS_UNAVAILABLE, 0), WEIR_REASON_ATTEMPTS_EXHAUSTED, 9000);
}

static void a_committed_failure_is_not_retried_but_costs_a_token(void **state) {
  struct fixture *f = *state;
  struct weir_outcome outcome = unavailable();
  outcome.committed = true;
  admit(f);

  assert_finished(f, outcome, WEIR_REASON_COMMITTED, 9000);
}

static const struct {
  const char *why;
  bool allowed;
  enum weir_call_shape shape;
  bool got_message;
  enum weir_disposition disposition;
} headers_rows[] = {
    {"one batch, headers alone", true, WEIR_CALL_SHAPE_ONE_BATCH, false, WEIR_DISPOSITION_RETRY},
    {"one batch, a message", true, WEIR_CALL_SHAPE_ONE_BATCH, true, WEIR_DISPOSITION_FINISH},
    {"a stream's headers have been seen", true, WEIR_CALL_SHAPE_STREAM, false,
     WEIR_DISPOSITION_FINISH},
    {"not allowed", false, WEIR_CALL_SHAPE_ONE_BATCH, false, WEIR_DISPOSITION_FINISH},
};

static void retry_after_headers_is_for_what_nobody_has_seen(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof headers_rows / sizeof headers_rows[0]; i++) {
    struct weir_outcome outcome = unavailable();
    outcome.committed = true;
    outcome.got_message = headers_rows[i].got_message;
    f->options.retry_after_headers = headers_rows[i].allowed;
    f->plan.shape = headers_rows[i].shape;
    admit(f);
    if (settle(f, outcome) != headers_rows[i].disposition) {
      fail_msg("%s", headers_rows[i].why);
    }
  }
}

static void a_throttled_call_is_not_retried(void **state) {
  struct fixture *f = *state;
  admit(f);
  for (int i = 0; i < 4; i++) {
    f->plan.n_attempts = 1;
    assert_int_equal(settle(f, unavailable()), WEIR_DISPOSITION_RETRY);
  }

  f->plan.n_attempts = 1;
  assert_finished(f, unavailable(), WEIR_REASON_THROTTLED, 5000);
}

static void without_a_throttle_retries_are_not_limited(void **state) {
  struct fixture *f = *state;
  weir_interceptor *throttled = f->layer;
  assert_int_equal(weir__retry_layer_new(NULL, "cart", &f->counting.base, &f->layer), WEIR_OK);
  admit(f);
  for (int i = 0; i < 100; i++) {
    assert_int_equal(settle(f, unavailable()), WEIR_DISPOSITION_RETRY);
  }
  (void)settle(f, ok());
  f->layer->vtable->destroy(f->layer);
  f->layer = throttled;

  assert_int_equal(tokens_milli(f), 10000);
}

static void the_layer_keeps_the_throttle_alive(void **state) {
  struct fixture *f = *state;
  weir_throttle_release(f->throttle);
  admit(f);

  assert_retried_in(f, unavailable(), MS(100));

  weir_throttle_ref(f->throttle); /* for the teardown */
}

static void an_unseen_call_is_replayed_once_for_nothing(void **state) {
  struct fixture *f = *state;
  struct weir_outcome unseen = unavailable();
  unseen.unprocessed = true;
  admit(f);

  assert_retried_in(f, unseen, 0);
  assert_true(f->plan.uncounted);
  assert_int_equal(tokens_milli(f), 10000);

  assert_retried_in(f, unseen, MS(100)); /* the second time it is a failure as any */
  assert_false(f->plan.uncounted);
  assert_int_equal(tokens_milli(f), 9000);
}

static void an_unseen_call_is_replayed_without_a_policy_or_ownership(void **state) {
  struct fixture *f = *state;
  struct weir_outcome unseen = unavailable();
  unseen.unprocessed = true;
  f->plan.outer_owns_retries = true;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  admit(f);

  assert_retried_in(f, unseen, 0);
  assert_true(f->plan.uncounted);
  assert_finished(f, unseen, WEIR_REASON_NO_RETRY_POLICY, 10000);
}

static void an_unseen_call_that_can_not_be_sent_again_is_not_replayed(void **state) {
  struct fixture *f = *state;
  struct weir_outcome unseen = unavailable();
  unseen.unprocessed = true;
  f->plan.replayable = false;
  admit(f);
  assert_finished(f, unseen, WEIR_REASON_NOT_REPLAYABLE, 9000);

  f->plan.replayable = true;
  f->plan.single_attempt = true;
  assert_finished(f, unseen, WEIR_REASON_BREAKER_OPEN, 8000);
}

static void a_connection_that_could_not_be_made_waits_its_backoff(void **state) {
  struct fixture *f = *state;
  struct weir_outcome refused = unavailable();
  refused.origin = WEIR_ORIGIN_TRANSPORT_CONNECT;
  refused.sent_to_peer = WEIR_SENT_TO_PEER_NO;
  admit(f);

  assert_retried_in(f, refused, MS(100));
  assert_false(f->plan.uncounted);
}

static void a_probe_makes_one_attempt(void **state) {
  struct fixture *f = *state;
  f->plan.single_attempt = true;
  admit(f);

  assert_finished(f, unavailable(), WEIR_REASON_BREAKER_OPEN, 9000);
}

static void a_call_that_can_not_be_sent_again_is_not(void **state) {
  struct fixture *f = *state;
  f->plan.replayable = false;
  admit(f);

  assert_finished(f, unavailable(), WEIR_REASON_NOT_REPLAYABLE, 9000);
}

/* Where several hold, the first in A6's order is told: each row takes the first one away. */
static void the_reasons_have_an_order(void **state) {
  struct fixture *f = *state;
  struct weir_outcome outcome = pushed_back(GRPC_STATUS_UNAVAILABLE, -1);
  outcome.committed = true;
  f->plan.n_attempts = 4;
  f->plan.single_attempt = true;
  f->plan.replayable = false;
  f->options.owner = WEIR_RETRY_OWNER_NEVER;
  admit(f);
  while (weir_throttle_record_failure(f->throttle)) {
  }

  assert_finished(f, outcome, WEIR_REASON_THROTTLED, 4000);
  refill(f->throttle);
  assert_finished(f, outcome, WEIR_REASON_COMMITTED, 9000);
  outcome.committed = false;
  assert_finished(f, outcome, WEIR_REASON_BREAKER_OPEN, 8000);
  f->plan.single_attempt = false;
  assert_finished(f, outcome, WEIR_REASON_ATTEMPTS_EXHAUSTED, 7000);
  f->plan.n_attempts = 3;
  assert_finished(f, outcome, WEIR_REASON_PUSHBACK, 6000);
  refill(f->throttle);
  outcome.pushback = WEIR_PUSHBACK_NONE;
  assert_finished(f, outcome, WEIR_REASON_NOT_OWNER, 9000);
  f->options.owner = WEIR_RETRY_OWNER_OUTERMOST;
  admit(f);
  assert_finished(f, outcome, WEIR_REASON_NOT_REPLAYABLE, 8000);
  f->plan.replayable = true;
  assert_retried_in(f, outcome, MS(100));
}

/* Who retries, and what the layers further in are told. */
static const struct {
  const char *why;
  enum weir_retry_owner owner;
  bool has_policy;
  bool replayable;
  bool outer_owns;
  bool retries;
  const char *marker; /* this layer's own */
} owner_rows[] = {
    {"the outermost that may retry owns", WEIR_RETRY_OWNER_OUTERMOST, true, true, false, true,
     "cart"},
    {"a layer further out that retries owns", WEIR_RETRY_OWNER_OUTERMOST, true, true, true, false,
     NULL},
    {"ALWAYS owns beside one further out", WEIR_RETRY_OWNER_ALWAYS, true, true, true, true, "cart"},
    {"NEVER does not own", WEIR_RETRY_OWNER_NEVER, true, true, false, false, NULL},
    {"NEVER leaves the marker to one further out", WEIR_RETRY_OWNER_NEVER, true, true, true, false,
     NULL},
    {"nothing to own without a policy", WEIR_RETRY_OWNER_OUTERMOST, false, true, false, false,
     NULL},
    {"ALWAYS owns nothing without a policy", WEIR_RETRY_OWNER_ALWAYS, false, true, true, false,
     NULL},
    {"what can't be sent again leaves retries to others", WEIR_RETRY_OWNER_OUTERMOST, true, false,
     false, false, NULL},
    {"so does ALWAYS", WEIR_RETRY_OWNER_ALWAYS, true, false, true, false, NULL},
};

static bool same_text(const char *a, const char *b) {
  return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void one_layer_of_a_chain_owns_the_retries(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof owner_rows / sizeof owner_rows[0]; i++) {
    f->options.owner = owner_rows[i].owner;
    f->method.retry.max_attempts = owner_rows[i].has_policy ? 4 : 1;
    f->plan.replayable = owner_rows[i].replayable;
    f->plan.outer_owns_retries = owner_rows[i].outer_owns;
    f->plan.retry_owner = "left over";

    admit(f);

    if (!same_text(f->plan.retry_owner, owner_rows[i].marker)) {
      fail_msg("%s: %s", owner_rows[i].why, f->plan.retry_owner);
    }
    if ((settle(f, unavailable()) == WEIR_DISPOSITION_RETRY) != owner_rows[i].retries) {
      fail_msg("%s: %s", owner_rows[i].why, weir_reason_name(f->plan.reason));
    }
    refill(f->throttle);
  }
}

static void a_marked_call_says_that_another_owns_its_retries(void **state) {
  struct fixture *f = *state;
  f->plan.outer_owns_retries = true;
  admit(f);

  assert_finished(f, unavailable(), WEIR_REASON_NOT_OWNER, 9000);
}

/* A stream whose metadata come after its first batch. */
static void a_marker_that_is_seen_after_admission_still_ends_the_retries(void **state) {
  struct fixture *f = *state;
  admit(f);
  f->plan.outer_owns_retries = true;

  assert_finished(f, unavailable(), WEIR_REASON_NOT_OWNER, 9000);
}

static void the_least_time_of_an_attempt_is_in_the_plan(void **state) {
  struct fixture *f = *state;
  f->options.min_attempt_time_ns = MS(7);

  admit(f);

  assert_int_equal(f->plan.min_attempt_ns, MS(7));
}

/* On a channel whose core may retry by itself. */
static void without_a_name_there_are_no_retries_and_no_mark(void **state) {
  struct fixture *f = *state;
  weir_interceptor *named = f->layer;
  static const struct {
    const char *why;
    enum weir_retry_owner owner;
    bool committed;
    bool unprocessed;
  } rows[] = {
      {"the outermost", WEIR_RETRY_OWNER_OUTERMOST, false, false},
      {"always", WEIR_RETRY_OWNER_ALWAYS, false, false},
      {"committed", WEIR_RETRY_OWNER_OUTERMOST, true, false},
      {"never seen by a server", WEIR_RETRY_OWNER_OUTERMOST, false, true},
  };
  assert_int_equal(weir__retry_layer_new(f->throttle, NULL, &f->counting.base, &f->layer), WEIR_OK);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_outcome outcome = unavailable();
    outcome.committed = rows[i].committed;
    outcome.unprocessed = rows[i].unprocessed;
    f->options.owner = rows[i].owner;
    admit(f);
    if (f->plan.retry_owner != NULL || settle(f, outcome) != WEIR_DISPOSITION_FINISH ||
        f->plan.reason != WEIR_REASON_NOT_OWNER) {
      fail_msg("%s", rows[i].why);
    }
  }
  f->layer->vtable->destroy(f->layer);
  f->layer = named;
}

static void running_out_of_memory_is_told_and_leaves_nothing(void **state) {
  struct fixture *f = *state;
  struct counting_allocator counting;
  weir_interceptor *layer = f->layer;
  enum weir_error error = WEIR_ERROR_NO_MEMORY;
  for (size_t n = 0; error != WEIR_OK; n++) {
    counting_allocator_init(&counting);
    counting.n_allowed = n;
    error = weir__retry_layer_new(f->throttle, "cart", &counting.base, &layer);
    assert_true(n < 3);
    if (error != WEIR_OK) {
      assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
      assert_null(layer);
      assert_int_equal(counting.n_outstanding, 0);
    }
  }
  layer->vtable->destroy(layer);
  assert_int_equal(counting.n_outstanding, 0);
}

int main(void) {
#define WITH_LAYER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
  const struct CMUnitTest tests[] = {
      WITH_LAYER(without_a_name_there_are_no_retries_and_no_mark),
      WITH_LAYER(a_success_is_the_end),
      WITH_LAYER(retries_back_off_until_the_attempts_are_used_up),
      WITH_LAYER(the_backoff_is_jittered_by_the_given_chance),
      WITH_LAYER(a_code_that_is_not_listed_is_not_retried),
      WITH_LAYER(a_method_without_a_policy_does_not_retry_but_feeds_the_throttle),
      WITH_LAYER(a_policy_of_one_attempt_is_none_whatever_it_lists),
      WITH_LAYER(what_this_process_ended_is_not_retried_and_costs_nothing),
      WITH_LAYER(the_peers_deadline_and_cancellation_are_retried_when_listed),
      WITH_LAYER(pushback_is_exact_and_starts_the_backoff_over),
      WITH_LAYER(a_pushback_of_nothing_retries_at_once),
      WITH_LAYER(a_pushback_of_24_days_is_left_to_the_budget),
      WITH_LAYER(a_pushback_that_says_stop_stops),
      WITH_LAYER(a_pushback_with_another_code_costs_a_token_only_if_it_says_stop),
      WITH_LAYER(attempts_bind_a_pushback_too),
      WITH_LAYER(a_committed_failure_is_not_retried_but_costs_a_token),
      WITH_LAYER(retry_after_headers_is_for_what_nobody_has_seen),
      WITH_LAYER(a_throttled_call_is_not_retried),
      WITH_LAYER(without_a_throttle_retries_are_not_limited),
      WITH_LAYER(the_layer_keeps_the_throttle_alive),
      WITH_LAYER(an_unseen_call_is_replayed_once_for_nothing),
      WITH_LAYER(an_unseen_call_is_replayed_without_a_policy_or_ownership),
      WITH_LAYER(an_unseen_call_that_can_not_be_sent_again_is_not_replayed),
      WITH_LAYER(a_connection_that_could_not_be_made_waits_its_backoff),
      WITH_LAYER(a_probe_makes_one_attempt),
      WITH_LAYER(a_call_that_can_not_be_sent_again_is_not),
      WITH_LAYER(the_reasons_have_an_order),
      WITH_LAYER(one_layer_of_a_chain_owns_the_retries),
      WITH_LAYER(a_marked_call_says_that_another_owns_its_retries),
      WITH_LAYER(a_marker_that_is_seen_after_admission_still_ends_the_retries),
      WITH_LAYER(the_least_time_of_an_attempt_is_in_the_plan),
      WITH_LAYER(running_out_of_memory_is_told_and_leaves_nothing),
  };
  return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
