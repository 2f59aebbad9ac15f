/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/odd_peer.h"

#define PUSHBACK(value) "grpc-retry-pushback-ms " value "\n"
#define FAILS_WITH(value) ODD_TRAILERS(ODD_OK ODD_STATUS(14) PUSHBACK(value))
#define WORKS ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE("yes"), ODD_TRAILERS(ODD_STATUS(0)))

/* Its own backoff is longer than the call may take: what is tried again was pushed back. */
#define POLICY_PUSHED                                                           \
  "{" NO_BOUNDARY "," NO_BREAKER                                                \
  ",\"deadline\":{\"maxTimeout\":\"8s\",\"maxStreamTimeout\":\"8s\"}," METHODS( \
      RETRY("4", "30s", UNAVAILABLE)) "}"

/* A peer with its answers, and a channel to it. */
struct way {
  struct odd_peer *peer;
  weir_channel *channel;
  struct shaped_call call;
};

static void way_run(struct way *way, const struct odd_script *answers, size_t n_answers,
                    enum shape shape, const char *policy) {
  way->peer = odd_peer_new(&(struct odd_setup){.answers = answers, .n_answers = n_answers});
  way->channel = channel_to(odd_peer_port(way->peer), policy);
  shaped_run(&way->call, shape, way->channel, NULL);
}

static void way_fini(struct way *way) {
  shaped_fini(&way->call);
  weir_channel_destroy(way->channel);
  odd_peer_release(way->peer);
}

/* --- what the peer may say --- */

struct pushback_row {
  const char *why;
  struct odd_script first;
  size_t n_requests;
  enum weir_reason reason; /* of one that is not tried again */
  int64_t delay_ns;
};

#define SAYS(value, n, why_not, ns)                                                  \
  {                                                                                  \
    .why = "\"" value "\"", .first = ODD_SCRIPT(FAILS_WITH(value)), .n_requests = n, \
    .reason = why_not, .delay_ns = ns                                                \
  }
#define TRIED(value, ns) SAYS(value, 2, WEIR_REASON_NONE, ns)
#define STOPPED(value) SAYS(value, 1, WEIR_REASON_PUSHBACK, 0)

/* A6: a 32-bit number in decimal without needless zeros; all else means "do not retry". */
static const struct pushback_row pushback_rows[] = {
    TRIED("0", 0),
    TRIED("1", MS(1)),
    TRIED("200", MS(200)),
    STOPPED("-1"),
    STOPPED("-2147483648"),
    STOPPED("abc"),
    STOPPED(""),
    STOPPED("1.5"),
    STOPPED("5x"),
    STOPPED("0x10"),
    STOPPED("2147483648"),
    STOPPED("4294967296"), /* 0, if 32 bits wrapped */
    STOPPED("1000000000000"),
    STOPPED("100000000000000000000"),
    SAYS("2147483647", 1, WEIR_REASON_BUDGET, 0), /* in 24 days */
    /* Malformed, but the core has rendered them as 50 and 5 by the time weir sees them. */
    TRIED("0050", MS(50)),
    TRIED("+5", MS(5)),
    /* Of several the core leaves the last. */
    {.why = "10, then 20",
     .first = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(14) PUSHBACK("10") PUSHBACK("20"))),
     .n_requests = 2,
     .delay_ns = MS(20)},
    {.why = "10, then -1",
     .first = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(14) PUSHBACK("10") PUSHBACK("-1"))),
     .n_requests = 1,
     .reason = WEIR_REASON_PUSHBACK},
    /* Only trailing metadata tells it; and headers commit. */
    {.why = "in headers",
     .first = ODD_SCRIPT(ODD_HEADERS(ODD_OK PUSHBACK("0")), ODD_TRAILERS(ODD_STATUS(14))),
     .n_requests = 1,
     .reason = WEIR_REASON_COMMITTED},
    {.why = "after headers",
     .first = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_TRAILERS(ODD_STATUS(14) PUSHBACK("0"))),
     .n_requests = 1,
     .reason = WEIR_REASON_COMMITTED},
    {.why = "0, for a code that is not listed",
     .first = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(5) PUSHBACK("0"))),
     .n_requests = 1,
     .reason = WEIR_REASON_NOT_RETRYABLE},
};

static int64_t gap_ns(struct odd_peer *peer) {
  static struct odd_request first;
  static struct odd_request second;
  assert_true(odd_peer_request(peer, 0, &first));
  assert_true(odd_peer_request(peer, 1, &second));
  return second.began_at_ns - first.began_at_ns;
}

static void assert_pushed(const struct pushback_row *row, enum shape shape) {
  const struct odd_script answers[] = {row->first, WORKS};
  struct way way;
  way_run(&way, answers, COUNT_OF(answers), shape, POLICY_PUSHED);
  size_t n_requests = odd_peer_count(way.peer, ODD_REQUESTS);
  bool tried = row->n_requests == 2;
  if (n_requests != row->n_requests || (way.call.unary.code == GRPC_STATUS_OK) != tried ||
      way.call.unary.report.reason != row->reason) {
    fail_msg("%s (%s): %zu requests, %s, %s", row->why, shape_name(shape), n_requests,
             weir_status_code_name(way.call.unary.code),
             weir_reason_name(way.call.unary.report.reason));
  }
  if (tried && gap_ns(way.peer) < row->delay_ns) {
    fail_msg("%s (%s): after %lld ns", row->why, shape_name(shape), (long long)gap_ns(way.peer));
  }
  way_fini(&way);
}

static void the_peers_pushback_is_read_strictly_and_kept_exactly(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(pushback_rows); i++) {
    for (int shape = 0; shape < N_SHAPES; shape++) {
      assert_pushed(&pushback_rows[i], (enum shape)shape);
    }
  }
}

/* The jitter is of the backoff: chance is not asked for a pushback. */
static void a_pushback_has_no_jitter(void **state) {
  (void)state;
  const struct odd_script answers[] = {ODD_SCRIPT(FAILS_WITH("1")), WORKS};
  struct odd_peer *peer =
      odd_peer_new(&(struct odd_setup){.answers = answers, .n_answers = COUNT_OF(answers)});
  struct counted_random random;
  counted_random_init(&random);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = odd_peer_port(peer), .policy = POLICY_PUSHED, .random = &random.base});
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(counted_random_n_asked(&random), 0);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  counted_random_fini(&random);
  odd_peer_release(peer);
}

static void pushbacks_do_not_add_attempts(void **state) {
  (void)state;
  const struct odd_script script = ODD_SCRIPT(FAILS_WITH("0"));
  struct way way;
  way_run(&way, &script, 1, SHAPE_ONE_BATCH, POLICY_PUSHED);
  assert_int_equal(odd_peer_count(way.peer, ODD_REQUESTS), 4);
  assert_int_equal(way.call.unary.report.reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  way_fini(&way);
}

/* 10 ms, then 10 s: the latter does not fit, so it is not asked for. */
static void the_backoff_starts_over_after_a_pushback(void **state) {
  (void)state;
  const struct odd_script plain = ODD_SCRIPT(ODD_ONLY(14));
  const struct odd_script answers[] = {plain, ODD_SCRIPT(FAILS_WITH("0")), plain, WORKS};
  struct way way;
  way_run(&way, answers, COUNT_OF(answers), SHAPE_ONE_BATCH,
          "{" NO_BOUNDARY "," NO_BREAKER
          ",\"deadline\":{\"maxTimeout\":\"8s\",\"maxStreamTimeout\":\"8s\"}," METHODS(
              "\"retryPolicy\":{\"maxAttempts\":5,\"initialBackoff\":\"0.01s\",\"maxBackoff\":"
              "\"1000s\",\"backoffMultiplier\":1000,\"retryableStatusCodes\":[14]}") "}");
  assert_int_equal(way.call.unary.code, GRPC_STATUS_OK);
  assert_int_equal(odd_peer_count(way.peer, ODD_REQUESTS), 4);
  way_fini(&way);
}

/* --- what it costs --- */

/* Half of four tokens is two. An answer of three bytes may come. */
#define POLICY_TOKENS                                                   \
  "{" NO_BOUNDARY "," NO_BREAKER                                        \
  ",\"retryThrottling\":{\"maxTokens\":4,\"tokenRatio\":0.1}," METHODS( \
      "\"maxResponseMessageBytes\":3," RETRY("5", "0.001s", UNAVAILABLE)) "}"

struct token_row {
  const char *why;
  struct odd_script first_two; /* what the first two calls get, all others UNAVAILABLE */
  uint32_t n_attempts;         /* of the third call */
};

static const struct token_row token_rows[] = {
    {"no failure", WORKS, 2}, /* four tokens: three left, then two */
    {"a code that is not listed", ODD_SCRIPT(ODD_ONLY(5)), 2},
    {"such a code, pushed back for a while",
     ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(5) PUSHBACK("9"))), 2},
    {"such a code, and do not retry", ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(5) PUSHBACK("-1"))),
     1},
    {"such a code, and nonsense", ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(5) PUSHBACK("soon"))),
     1},
    {"a listed code, and do not retry", ODD_SCRIPT(FAILS_WITH("-1")), 1},
    {"a listed code, and nonsense", ODD_SCRIPT(FAILS_WITH("")), 1},
    {"a size limit of ours",
     ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE("four"), ODD_TRAILERS(ODD_STATUS(14))), 2},
};

static void do_not_retry_costs_a_token_whatever_the_code(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(token_rows); i++) {
    const struct token_row *row = &token_rows[i];
    const struct odd_script answers[] = {row->first_two, row->first_two, ODD_SCRIPT(ODD_ONLY(14))};
    struct odd_peer *peer =
        odd_peer_new(&(struct odd_setup){.answers = answers, .n_answers = COUNT_OF(answers)});
    weir_channel *channel = channel_to(odd_peer_port(peer), POLICY_TOKENS);
    struct unary unary;
    for (int call = 0; call < 2; call++) {
      unary_run(&unary, channel, NULL);
      assert_int_equal(unary.report.n_attempts, 1);
      unary_fini(&unary);
    }
    unary_run(&unary, channel, NULL);
    if (unary.report.n_attempts != row->n_attempts ||
        unary.report.reason != WEIR_REASON_THROTTLED) {
      fail_msg("%s: %u attempts, %s", row->why, unary.report.n_attempts,
               weir_reason_name(unary.report.reason));
    }
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* Two failures leave two of four tokens; two answers bring two back, also if the ratio is written
 * without a point. */
static void a_ratio_of_one_is_a_whole_token(void **state) {
  (void)state;
  static const char *const policies[] = {
      "{" NO_BREAKER ",\"retryThrottling\":{\"maxTokens\":4,\"tokenRatio\":1}," METHODS(
          RETRY("5", "0.001s", UNAVAILABLE)) "}",
      "{" NO_BREAKER ",\"retryThrottling\":{\"maxTokens\":4,\"tokenRatio\":1.0}," METHODS(
          RETRY("5", "0.001s", UNAVAILABLE)) "}",
  };
  static const uint32_t n_attempts[] = {2, 1, 1, 2};
  const struct odd_script fails = ODD_SCRIPT(ODD_ONLY(14));
  const struct odd_script answers[] = {fails, fails, WORKS, WORKS, fails};
  for (size_t i = 0; i < COUNT_OF(policies); i++) {
    struct odd_peer *peer =
        odd_peer_new(&(struct odd_setup){.answers = answers, .n_answers = COUNT_OF(answers)});
    weir_channel *channel = channel_to(odd_peer_port(peer), policies[i]);
    for (size_t call = 0; call < COUNT_OF(n_attempts); call++) {
      struct unary unary;
      unary_run(&unary, channel, NULL);
      assert_int_equal(unary.report.n_attempts, n_attempts[call]);
      unary_fini(&unary);
    }
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* --- what the caller sees of it --- */

static void a_boundary_does_not_pass_the_pushback_on(void **state) {
  (void)state;
  const struct odd_script script = ODD_SCRIPT(FAILS_WITH("-1"));
  struct way way;
  way_run(&way, &script, 1, SHAPE_ONE_BATCH, "{}");
  assert_int_equal(way.call.unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(way.call.unary.trailing_metadata.count, 0);
  way_fini(&way);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_peers_pushback_is_read_strictly_and_kept_exactly),
      cmocka_unit_test(a_pushback_has_no_jitter),
      cmocka_unit_test(pushbacks_do_not_add_attempts),
      cmocka_unit_test(the_backoff_starts_over_after_a_pushback),
      cmocka_unit_test(do_not_retry_costs_a_token_whatever_the_code),
      cmocka_unit_test(a_ratio_of_one_is_a_whole_token),
      cmocka_unit_test(a_boundary_does_not_pass_the_pushback_on),
  };
  return cmocka_run_group_tests_name("pushback", tests, start_core, stop_core);
}
