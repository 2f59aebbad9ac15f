/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weir/clock.h>
#include <weir/outcome.h>
#include <weir/policy.h>

#include <cmocka.h>

#include "cmd/weirctl/simulate.h"

#define PATH "/shop.Cart/Get"

#define N_ORIGINS (WEIR_ORIGIN_LOCAL_SHUTDOWN + 1)

#define RETRIES                                                         \
  "\"retryPolicy\": {\"maxAttempts\": 3, \"initialBackoff\": \"0.1s\"," \
  " \"maxBackoff\": \"1s\", \"backoffMultiplier\": 2,"                  \
  " \"retryableStatusCodes\": [\"UNAVAILABLE\", \"ABORTED\", \"DEADLINE_EXCEEDED\"]}"
#define ALL(keys) "\"methodConfig\": [{\"name\": [{}], " keys "}]"
#define THROTTLE "\"retryThrottling\": {\"maxTokens\": 10, \"tokenRatio\": 0.1}"

struct fixture {
  weir_policy *policy;
  struct simulation_question question;
  struct simulation_answer answer;
};

static int setup(void **state) {
  static struct fixture fixture;
  memset(&fixture, 0, sizeof fixture);
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir_policy_unref(f->policy);
  return 0;
}

static void use(struct fixture *f, const char *document) {
  struct weir_diagnostic diagnostic;
  weir_policy_unref(f->policy);
  f->policy = NULL;
  if (weir_policy_from_json(document, strlen(document), NULL, NULL, &f->policy, &diagnostic) !=
      WEIR_OK) {
    fail_msg("%s: %s", diagnostic.path, diagnostic.message);
  }
}

static void suppose(struct fixture *f, grpc_status_code code, enum weir_origin origin) {
  f->question = (struct simulation_question){
      .policy = f->policy,
      .path = PATH,
      .path_size = strlen(PATH),
      .code = code,
      .origin = origin,
      .shape = WEIR_CALL_SHAPE_ONE_BATCH,
      .attempt = origin == WEIR_ORIGIN_LOCAL_BREAKER ? 0 : 1,
  };
}

static enum weir_error ask(struct fixture *f) {
  return simulation_run(&f->question, &f->answer);
}

static void assert_possible(struct fixture *f) {
  enum weir_error error = ask(f);
  if (error != WEIR_OK) {
    fail_msg("%s from %s: %s", weir_status_code_name(f->question.code),
             weir_origin_name(f->question.origin), f->answer.why_not);
  }
}

static void assert_impossible(struct fixture *f, const char *why_not) {
  assert_int_equal(ask(f), WEIR_ERROR_INVALID_ARGUMENT);
  if (strstr(f->answer.why_not, why_not) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", f->answer.why_not, why_not);
  }
}

/* ---- every code from every origin ---- */

#define NEVER '-'
#define SUCCESS 's'
#define FAILURE 'f'
#define IGNORED 'i'
#define UNASKED 'u'

/* What the breaker makes of a code (down) from an origin (across, as in enum weir_origin): peer,
 * no connection, lost in flight, own deadline, own cancellation, breaker, size limit, shutdown.
 * Written out from the design, not from the code. */
static const char *const verdicts[WEIR_N_STATUS_CODES] = {
    [GRPC_STATUS_OK] = "s-------",
    [GRPC_STATUS_CANCELLED] = "sis-i--i",
    [GRPC_STATUS_UNKNOWN] = "sis-i---",
    [GRPC_STATUS_INVALID_ARGUMENT] = "sis-i---",
    [GRPC_STATUS_DEADLINE_EXCEEDED] = "f--fi---",
    [GRPC_STATUS_NOT_FOUND] = "sis-i---",
    [GRPC_STATUS_ALREADY_EXISTS] = "sis-i---",
    [GRPC_STATUS_PERMISSION_DENIED] = "sis-i---",
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = "s-s-i-i-",
    [GRPC_STATUS_FAILED_PRECONDITION] = "sis-i---",
    [GRPC_STATUS_ABORTED] = "fff-i---",
    [GRPC_STATUS_OUT_OF_RANGE] = "sis-i---",
    [GRPC_STATUS_UNIMPLEMENTED] = "sis-i---",
    [GRPC_STATUS_INTERNAL] = "sis-i---",
    [GRPC_STATUS_UNAVAILABLE] = "fff-iu--",
    [GRPC_STATUS_DATA_LOSS] = "sis-i---",
    [GRPC_STATUS_UNAUTHENTICATED] = "sis-i---",
};

static char verdict_of(const struct simulation_breaker *breaker) {
  if (!breaker->asked) {
    return UNASKED;
  }
  switch (breaker->verdict) {
  case WEIR_BREAKER_VERDICT_SUCCESS:
    return SUCCESS;
  case WEIR_BREAKER_VERDICT_FAILURE:
    return FAILURE;
  case WEIR_BREAKER_VERDICT_IGNORED:
    break;
  }
  return IGNORED;
}

static void the_breaker_counts_each_code_of_each_origin_as_designed(void **state) {
  struct fixture *f = *state;
  use(f, "{}");
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    for (int origin = 0; origin < N_ORIGINS; origin++) {
      suppose(f, (grpc_status_code)code, (enum weir_origin)origin);
      char verdict = ask(f) == WEIR_OK ? verdict_of(&f->answer.breaker) : NEVER;
      if (verdict != verdicts[code][origin]) {
        fail_msg("%s from %s: %c, not %c (%s)", weir_status_code_name((grpc_status_code)code),
                 weir_origin_name((enum weir_origin)origin), verdict, verdicts[code][origin],
                 f->answer.why_not);
      }
    }
  }
}

/* What the caller sees at a boundary, from the design's table: of what a peer or the transport
 * says. */
static const grpc_status_code folded[WEIR_N_STATUS_CODES] = {
    [GRPC_STATUS_OK] = GRPC_STATUS_OK,
    [GRPC_STATUS_CANCELLED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNKNOWN] = GRPC_STATUS_UNKNOWN,
    [GRPC_STATUS_INVALID_ARGUMENT] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_DEADLINE_EXCEEDED] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_NOT_FOUND,
    [GRPC_STATUS_ALREADY_EXISTS] = GRPC_STATUS_ALREADY_EXISTS,
    [GRPC_STATUS_PERMISSION_DENIED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [GRPC_STATUS_FAILED_PRECONDITION] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_ABORTED] = GRPC_STATUS_ABORTED,
    [GRPC_STATUS_OUT_OF_RANGE] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNIMPLEMENTED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_INTERNAL] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_DATA_LOSS] = GRPC_STATUS_DATA_LOSS,
    [GRPC_STATUS_UNAUTHENTICATED] = GRPC_STATUS_INTERNAL,
};

static grpc_status_code visible_at_boundary(grpc_status_code code, enum weir_origin origin) {
  bool is_own = origin == WEIR_ORIGIN_LOCAL_CANCEL || origin == WEIR_ORIGIN_LOCAL_SHUTDOWN;
  bool is_callers_time = origin == WEIR_ORIGIN_LOCAL_DEADLINE; /* at the root of a chain */
  return is_own || is_callers_time ? code : folded[code];
}

static void translation_folds_each_code_of_each_origin_as_designed(void **state) {
  struct fixture *f = *state;
  use(f, "{}");
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    for (int origin = 0; origin < N_ORIGINS; origin++) {
      suppose(f, (grpc_status_code)code, (enum weir_origin)origin);
      if (ask(f) != WEIR_OK) {
        continue;
      }
      grpc_status_code visible =
          visible_at_boundary((grpc_status_code)code, (enum weir_origin)origin);
      if (f->answer.translation.visible != visible ||
          f->answer.translation.scrubbed != (code != GRPC_STATUS_OK)) {
        fail_msg("%s from %s became %s", weir_status_code_name((grpc_status_code)code),
                 weir_origin_name((enum weir_origin)origin),
                 weir_status_code_name(f->answer.translation.visible));
      }
    }
  }
}

static void without_a_boundary_every_code_passes_as_it_is(void **state) {
  struct fixture *f = *state;
  use(f, "{\"translation\": {\"boundary\": false}}");
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    suppose(f, (grpc_status_code)code, WEIR_ORIGIN_PEER);
    assert_possible(f);
    assert_int_equal(f->answer.translation.visible, code);
    assert_false(f->answer.translation.scrubbed);
  }
}

/* ---- whose time it was ---- */

static const struct {
  const char *why;
  enum simulation_caller caller;
  enum weir_deadline_bound bound;
  enum weir_deadline_bound supposed;
  grpc_status_code visible;
  bool do_not_retry;
} times[] = {
    {"the root's, by the policy", SIMULATION_CALLER_ROOT, WEIR_DEADLINE_BOUND_NONE,
     WEIR_DEADLINE_BOUND_POLICY, GRPC_STATUS_DEADLINE_EXCEEDED, false},
    {"the root's, by its own", SIMULATION_CALLER_ROOT, WEIR_DEADLINE_BOUND_CALL,
     WEIR_DEADLINE_BOUND_CALL, GRPC_STATUS_DEADLINE_EXCEEDED, false},
    {"a service's parent's", SIMULATION_CALLER_SERVING, WEIR_DEADLINE_BOUND_NONE,
     WEIR_DEADLINE_BOUND_PARENT, GRPC_STATUS_DEADLINE_EXCEEDED, false},
    {"a service's own", SIMULATION_CALLER_SERVING, WEIR_DEADLINE_BOUND_CALL,
     WEIR_DEADLINE_BOUND_CALL, GRPC_STATUS_UNAVAILABLE, true},
    {"a service's policy's", SIMULATION_CALLER_SERVING, WEIR_DEADLINE_BOUND_POLICY,
     WEIR_DEADLINE_BOUND_POLICY, GRPC_STATUS_UNAVAILABLE, true},
    {"a service's attempt's", SIMULATION_CALLER_SERVING, WEIR_DEADLINE_BOUND_ATTEMPT,
     WEIR_DEADLINE_BOUND_ATTEMPT, GRPC_STATUS_UNAVAILABLE, true},
};

static void a_deadline_is_told_by_whose_time_it_was(void **state) {
  struct fixture *f = *state;
  use(f, "{" ALL("\"perAttemptTimeout\": \"0.5s\"") "}");
  for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
    suppose(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE);
    f->question.caller = times[i].caller;
    f->question.bound = times[i].bound;
    assert_possible(f);
    if (f->answer.deadline.bound != times[i].supposed ||
        f->answer.translation.visible != times[i].visible ||
        f->answer.translation.do_not_retry != times[i].do_not_retry) {
      fail_msg("%s: by %s, %s", times[i].why, weir_deadline_bound_name(f->answer.deadline.bound),
               weir_status_code_name(f->answer.translation.visible));
    }
  }
}

static void a_bound_that_cannot_be_is_refused(void **state) {
  struct fixture *f = *state;
  use(f, "{\"deadline\": {\"inheritsParent\": false}}");
  suppose(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE);
  f->question.bound = WEIR_DEADLINE_BOUND_PARENT;
  assert_impossible(f, "--inbound");
  f->question.caller = SIMULATION_CALLER_SERVING;
  assert_impossible(f, "inheritsParent");
  f->question.bound = WEIR_DEADLINE_BOUND_ATTEMPT;
  assert_impossible(f, "perAttemptTimeout");
  f->question.bound = WEIR_DEADLINE_BOUND_POLICY;
  f->question.shape = WEIR_CALL_SHAPE_STREAM;
  assert_impossible(f, "does not bound");
}

static void a_call_that_was_too_late_to_begin_is_refused_by_the_deadline(void **state) {
  struct fixture *f = *state;
  use(f, "{}");
  suppose(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE);
  f->question.attempt = 0;
  assert_possible(f);
  assert_true(f->answer.deadline.refuses);
  assert_false(f->answer.breaker.asked);
  assert_int_equal(f->answer.retry.reason, WEIR_REASON_DEADLINE);
  assert_int_equal(f->answer.outcome.sent_to_peer, WEIR_SENT_TO_PEER_NO);
  f->question.caller = SIMULATION_CALLER_SERVING;
  assert_possible(f);
  assert_int_equal(f->answer.deadline.bound, WEIR_DEADLINE_BOUND_PARENT);
  assert_true(f->answer.deadline.refuses);
}

static void a_timeout_of_nothing_leaves_no_attempt(void **state) {
  struct fixture *f = *state;
  use(f, "{" ALL("\"timeout\": \"0s\"") "}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER);
  assert_impossible(f, "before their first attempt: DEADLINE");
  suppose(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE);
  f->question.attempt = 0;
  assert_possible(f);
  assert_int_equal(f->answer.deadline.bound, WEIR_DEADLINE_BOUND_POLICY);
}

/* ---- retries ---- */

static const struct {
  const char *why;
  const char *document;
  grpc_status_code code;
  enum weir_origin origin;
  enum simulation_caller caller;
  uint32_t attempt;
  const char *pushback;
  bool after_headers;
  enum simulation_next next;
  enum weir_reason reason;
  int32_t tokens_milli;
} retries[] = {
    {"listed", "{" ALL(RETRIES) "," THROTTLE "}", GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0, 1,
     NULL, false, SIMULATION_NEXT_RETRY, WEIR_REASON_NONE, -1000},
    {"unlisted", "{" ALL(RETRIES) "," THROTTLE "}", GRPC_STATUS_INTERNAL, WEIR_ORIGIN_PEER, 0, 1,
     NULL, false, SIMULATION_NEXT_END, WEIR_REASON_NOT_RETRYABLE, 0},
    {"no list", "{" THROTTLE "}", GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0, 1, NULL, false,
     SIMULATION_NEXT_END, WEIR_REASON_NO_RETRY_POLICY, 0},
    {"a success gives back", "{" ALL(RETRIES) "," THROTTLE "}", GRPC_STATUS_OK, WEIR_ORIGIN_PEER, 0,
     1, NULL, false, SIMULATION_NEXT_END, WEIR_REASON_NONE, 100},
    {"the last one", "{" ALL(RETRIES) "," THROTTLE "}", GRPC_STATUS_ABORTED, WEIR_ORIGIN_PEER, 0, 3,
     NULL, false, SIMULATION_NEXT_END, WEIR_REASON_ATTEMPTS_EXHAUSTED, -1000},
    {"told not to", "{" ALL(RETRIES) "," THROTTLE "}", GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0,
     1, "-1", false, SIMULATION_NEXT_END, WEIR_REASON_PUSHBACK, -1000},
    {"told not to, unlisted", "{" ALL(RETRIES) "," THROTTLE "}", GRPC_STATUS_INTERNAL,
     WEIR_ORIGIN_PEER, 0, 1, "-1", false, SIMULATION_NEXT_END, WEIR_REASON_NOT_RETRYABLE, -1000},
    {"told when", "{" ALL(RETRIES) "}", GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0, 1, "700",
     false, SIMULATION_NEXT_RETRY, WEIR_REASON_NONE, 0},
    {"another's to retry", "{" ALL(RETRIES) "}", GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER,
     SIMULATION_CALLER_RETRYING, 1, NULL, false, SIMULATION_NEXT_END, WEIR_REASON_NOT_OWNER, 0},
    {"headers had come", "{" ALL(RETRIES) "}", GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0, 1,
     NULL, true, SIMULATION_NEXT_END, WEIR_REASON_COMMITTED, 0},
    {"headers that do not bind", "{" ALL(RETRIES) ", \"retry\": {\"retryAfterHeaders\": true}}",
     GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0, 1, NULL, true, SIMULATION_NEXT_RETRY,
     WEIR_REASON_NONE, 0},
    {"a bucket of one",
     "{" ALL(RETRIES) ", \"retryThrottling\": {\"maxTokens\": 1, \"tokenRatio\": 1}}",
     GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0, 1, NULL, false, SIMULATION_NEXT_END,
     WEIR_REASON_THROTTLED, -1000},
    {"no time for a backoff", "{" ALL(RETRIES ", \"timeout\": \"0.05s\"") "}",
     GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER, 0, 1, NULL, false, SIMULATION_NEXT_END,
     WEIR_REASON_BUDGET, 0},
    {"its own deadline, whatever is listed", "{" ALL(RETRIES) "}", GRPC_STATUS_DEADLINE_EXCEEDED,
     WEIR_ORIGIN_LOCAL_DEADLINE, 0, 1, NULL, false, SIMULATION_NEXT_END, WEIR_REASON_DEADLINE, 0},
    {"no connection", "{" ALL(RETRIES) "}", GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_TRANSPORT_CONNECT,
     0, 1, NULL, false, SIMULATION_NEXT_RETRY, WEIR_REASON_NONE, 0},
};

static void a_retry_is_decided_as_the_layer_decides_it(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof retries / sizeof retries[0]; i++) {
    use(f, retries[i].document);
    suppose(f, retries[i].code, retries[i].origin);
    f->question.caller = retries[i].caller;
    f->question.attempt = retries[i].attempt;
    f->question.pushback = retries[i].pushback;
    f->question.after_headers = retries[i].after_headers;
    assert_possible(f);
    if (f->answer.retry.next != retries[i].next || f->answer.retry.reason != retries[i].reason ||
        f->answer.retry.tokens_milli != retries[i].tokens_milli) {
      fail_msg("%s: next %d, %s, %d thousandths", retries[i].why, (int)f->answer.retry.next,
               weir_reason_name(f->answer.retry.reason), (int)f->answer.retry.tokens_milli);
    }
  }
}

static void the_wait_is_told_with_its_jitter(void **state) {
  struct fixture *f = *state;
  use(f, "{" ALL(RETRIES) "}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER);
  f->question.attempt = 2;
  assert_possible(f);
  assert_int_equal(f->answer.retry.least_wait_ns, 160 * WEIR_MS_NS);
  assert_in_range(f->answer.retry.most_wait_ns, 239 * WEIR_MS_NS, 240 * WEIR_MS_NS);
  f->question.pushback = "700";
  assert_possible(f);
  assert_int_equal(f->answer.retry.least_wait_ns, 700 * WEIR_MS_NS);
  assert_int_equal(f->answer.retry.most_wait_ns, 700 * WEIR_MS_NS);
}

static void an_attempt_out_of_time_is_retried_unlisted(void **state) {
  struct fixture *f = *state;
  use(f, "{" ALL(RETRIES ", \"perAttemptTimeout\": \"0.2s\", \"timeout\": \"1s\"") "}");
  suppose(f, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE);
  f->question.bound = WEIR_DEADLINE_BOUND_ATTEMPT;
  assert_possible(f);
  assert_int_equal(f->answer.retry.next, SIMULATION_NEXT_RETRY);
  use(f, "{" ALL(RETRIES ", \"perAttemptTimeout\": \"2s\", \"timeout\": \"1s\"") "}");
  f->question.policy = f->policy;
  assert_impossible(f, "before its perAttemptTimeout");
}

static void what_no_server_saw_is_replayed_at_once_and_uncounted(void **state) {
  struct fixture *f = *state;
  use(f, "{" THROTTLE "}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_TRANSPORT_RESET);
  f->question.unprocessed = true;
  assert_possible(f);
  assert_int_equal(f->answer.retry.next, SIMULATION_NEXT_REPLAY);
  assert_int_equal(f->answer.retry.most_wait_ns, 0);
  assert_int_equal(f->answer.retry.tokens_milli, 0);
}

static void an_attempt_beyond_the_last_is_refused(void **state) {
  struct fixture *f = *state;
  use(f, "{" ALL(RETRIES) "}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER);
  f->question.attempt = 4;
  assert_impossible(f, "no attempt 4: ATTEMPTS_EXHAUSTED");
  use(f, "{}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER);
  f->question.attempt = 2;
  assert_impossible(f, "no attempt 2: NO_RETRY_POLICY");
}

/* ---- the breaker ---- */

static void a_refusal_of_the_breaker_is_no_sample_and_not_to_be_retried(void **state) {
  struct fixture *f = *state;
  use(f, "{" ALL(RETRIES) "}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_possible(f);
  assert_true(f->answer.breaker.refuses);
  assert_false(f->answer.breaker.asked);
  assert_false(f->answer.retry.asked);
  assert_int_equal(f->answer.retry.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(f->answer.translation.visible, GRPC_STATUS_UNAVAILABLE);
  assert_true(f->answer.translation.do_not_retry);
  f->question.attempt = 1;
  assert_impossible(f, "before its first attempt");
  use(f, "{\"breaker\": {\"enabled\": false}}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_impossible(f, "switched off");
}

static const struct {
  const char *why;
  const char *document;
  grpc_status_code code;
  enum weir_origin origin;
  enum weir_breaker_verdict verdict;
  bool opens;
} verdict_rows[] = {
    {"resets that are ignored", "{\"breaker\": {\"ignoreResets\": true}}", GRPC_STATUS_UNAVAILABLE,
     WEIR_ORIGIN_TRANSPORT_RESET, WEIR_BREAKER_VERDICT_IGNORED, false},
    {"a deadline below the floor",
     "{\"breaker\": {\"deadlineFloor\": \"2s\"}," ALL("\"timeout\": \"1s\"") "}",
     GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_BREAKER_VERDICT_IGNORED,
     false},
    {"a deadline above the floor",
     "{\"breaker\": {\"deadlineFloor\": \"2s\"}," ALL("\"timeout\": \"3s\"") "}",
     GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_ORIGIN_LOCAL_DEADLINE, WEIR_BREAKER_VERDICT_FAILURE,
     false},
    {"one failure is enough", "{\"breaker\": {\"minRequests\": 1}}", GRPC_STATUS_UNAVAILABLE,
     WEIR_ORIGIN_PEER, WEIR_BREAKER_VERDICT_FAILURE, true},
};

static void the_breakers_options_are_heard(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof verdict_rows / sizeof verdict_rows[0]; i++) {
    use(f, verdict_rows[i].document);
    suppose(f, verdict_rows[i].code, verdict_rows[i].origin);
    assert_possible(f);
    if (f->answer.breaker.verdict != verdict_rows[i].verdict ||
        f->answer.breaker.opens != verdict_rows[i].opens) {
      fail_msg("%s: %d", verdict_rows[i].why, (int)f->answer.breaker.verdict);
    }
  }
}

/* ---- the message ---- */

static void the_callers_message_is_weirs(void **state) {
  struct fixture *f = *state;
  use(f, "{}");
  suppose(f, GRPC_STATUS_NOT_FOUND, WEIR_ORIGIN_PEER);
  assert_possible(f);
  assert_string_equal(f->answer.translation.message,
                      "downstream service: NOT_FOUND [ref 0123456789ab]");
  use(f, "{\"translation\": {\"messageRef\": false, \"codes\": {\"NOT_FOUND\": \"INTERNAL\"}}}");
  f->question.policy = f->policy;
  assert_possible(f);
  assert_string_equal(f->answer.translation.message, "downstream service error");
}

static void only_a_peer_pushes_back_and_only_after_an_attempt(void **state) {
  struct fixture *f = *state;
  use(f, "{}");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_TRANSPORT_RESET);
  f->question.pushback = "-1";
  assert_impossible(f, "only a peer");
  suppose(f, GRPC_STATUS_UNAVAILABLE, WEIR_ORIGIN_PEER);
  f->question.attempt = 0;
  assert_impossible(f, "PEER says that there was an attempt");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_breaker_counts_each_code_of_each_origin_as_designed,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(translation_folds_each_code_of_each_origin_as_designed, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(without_a_boundary_every_code_passes_as_it_is, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(a_deadline_is_told_by_whose_time_it_was, setup, teardown),
      cmocka_unit_test_setup_teardown(a_bound_that_cannot_be_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(a_call_that_was_too_late_to_begin_is_refused_by_the_deadline,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(a_timeout_of_nothing_leaves_no_attempt, setup, teardown),
      cmocka_unit_test_setup_teardown(a_retry_is_decided_as_the_layer_decides_it, setup, teardown),
      cmocka_unit_test_setup_teardown(the_wait_is_told_with_its_jitter, setup, teardown),
      cmocka_unit_test_setup_teardown(an_attempt_out_of_time_is_retried_unlisted, setup, teardown),
      cmocka_unit_test_setup_teardown(what_no_server_saw_is_replayed_at_once_and_uncounted, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(an_attempt_beyond_the_last_is_refused, setup, teardown),
      cmocka_unit_test_setup_teardown(a_refusal_of_the_breaker_is_no_sample_and_not_to_be_retried,
                                      setup, teardown),
      cmocka_unit_test_setup_teardown(the_breakers_options_are_heard, setup, teardown),
      cmocka_unit_test_setup_teardown(the_callers_message_is_weirs, setup, teardown),
      cmocka_unit_test_setup_teardown(only_a_peer_pushes_back_and_only_after_an_attempt, setup,
                                      teardown),
  };
  return cmocka_run_group_tests_name("simulate", tests, NULL, NULL);
}
