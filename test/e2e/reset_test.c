/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/support/odd_peer.h"

#define PREVIOUS "grpc-previous-rpc-attempts"

/* --- RST_STREAM --- */

#define RESET(http2_code, mapped)                                                                \
  {                                                                                              \
    .why = "RST_STREAM " #http2_code, .script = ODD_SCRIPT(ODD_RST(http2_code)), .code = mapped, \
    .origin = WEIR_ORIGIN_TRANSPORT_RESET, .n_requests = ALL_ATTEMPTS                            \
  }

/* gRPC's PROTOCOL-HTTP2.md, "Errors". */
static const struct odd_case reset_cases[] = {
    RESET(0, GRPC_STATUS_INTERNAL),
    RESET(1, GRPC_STATUS_INTERNAL),
    RESET(2, GRPC_STATUS_INTERNAL),
    RESET(3, GRPC_STATUS_INTERNAL),
    RESET(4, GRPC_STATUS_INTERNAL),
    RESET(5, GRPC_STATUS_INTERNAL),
    RESET(6, GRPC_STATUS_INTERNAL),
    RESET(8, GRPC_STATUS_CANCELLED), /* the peer's: it is tried again, and INTERNAL further out */
    RESET(9, GRPC_STATUS_INTERNAL),
    RESET(10, GRPC_STATUS_INTERNAL),
    RESET(11, GRPC_STATUS_RESOURCE_EXHAUSTED),
    RESET(12, GRPC_STATUS_PERMISSION_DENIED),
    RESET(13, GRPC_STATUS_INTERNAL),
    RESET(99, GRPC_STATUS_INTERNAL),
    RESET(4294967295, GRPC_STATUS_INTERNAL),
    /* Provably not processed (A6): once more for free. */
    {.why = "REFUSED_STREAM",
     .script = ODD_SCRIPT(ODD_RST(7)),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1 + ALL_ATTEMPTS,
     .replayed = true},
};

static void a_reset_is_mapped_as_grpc_says_and_tried_again(void **state) {
  (void)state;
  odd_cases_assert(reset_cases, COUNT_OF(reset_cases));
}

#define RESET_LATE(http2_code, mapped)                                                          \
  {.why = "RST_STREAM " #http2_code " after headers",                                           \
   .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "x-served-by " SECRET "\n"), ODD_RST(http2_code)),   \
   .code = mapped,                                                                              \
   .origin = WEIR_ORIGIN_TRANSPORT_RESET,                                                       \
   .n_requests = 1,                                                                             \
   .shown_early = true},                                                                        \
  {                                                                                             \
    .why = "RST_STREAM " #http2_code " after a message",                                        \
    .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET), ODD_RST(http2_code)),        \
    .code = mapped, .origin = WEIR_ORIGIN_TRANSPORT_RESET, .n_requests = 1, .shown_early = true \
  }

static const struct odd_case late_reset_cases[] = {
    RESET_LATE(0, GRPC_STATUS_INTERNAL),
    RESET_LATE(2, GRPC_STATUS_INTERNAL),
    RESET_LATE(7, GRPC_STATUS_UNAVAILABLE),
    RESET_LATE(8, GRPC_STATUS_CANCELLED),
    RESET_LATE(11, GRPC_STATUS_RESOURCE_EXHAUSTED),
};

static void a_reset_after_headers_is_not_tried_again(void **state) {
  (void)state;
  odd_cases_assert(late_reset_cases, COUNT_OF(late_reset_cases));
}

/* A server that has answered may say so: it wants no more of the request (RFC 9113, 8.1). */
static const struct odd_case answered_cases[] = {
    {.why = "an answer, then NO_ERROR",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE("yes"), ODD_TRAILERS(ODD_STATUS(0)),
                          ODD_FRAME(3, 0, "\0\0\0\0")),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "Trailers-Only, then NO_ERROR",
     .script = ODD_SCRIPT(ODD_ONLY(14), ODD_FRAME(3, 0, "\0\0\0\0")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "Trailers-Only, then CANCEL",
     .script = ODD_SCRIPT(ODD_ONLY(5), ODD_FRAME(3, 0, "\0\0\0\10")),
     .code = GRPC_STATUS_NOT_FOUND,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
};

static void a_reset_behind_the_answer_changes_nothing(void **state) {
  (void)state;
  odd_cases_assert(answered_cases, COUNT_OF(answered_cases));
}

/* --- GOAWAY --- */

#define SAYS_YES ODD_HEADERS(ODD_OK), ODD_MESSAGE("yes"), ODD_TRAILERS(ODD_STATUS(0))

static const struct odd_case goaway_cases[] = {
    {.why = "a GOAWAY below the stream",
     .script = ODD_SCRIPT(ODD_GOAWAY(1)),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1 + ALL_ATTEMPTS,
     .replayed = true},
    {.why = "a GOAWAY below the stream, and closed",
     .script = ODD_SCRIPT(ODD_GOAWAY(1), ODD_CLOSE),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1 + ALL_ATTEMPTS,
     .replayed = true},
    {.why = "a GOAWAY that says a secret",
     .script = ODD_SCRIPT(ODD_GOAWAY_SAYING(1, SECRET)),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1 + ALL_ATTEMPTS,
     .replayed = true},
    {.why = "a graceful end that the stream was too late for",
     .script = ODD_SCRIPT(ODD_GRACEFUL_GOAWAY, ODD_PINGS(1), ODD_GOAWAY(1)),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1 + ALL_ATTEMPTS,
     .replayed = true},
    {.why = "a graceful end that lets the stream through",
     .script = ODD_SCRIPT(ODD_GRACEFUL_GOAWAY, ODD_PINGS(1), ODD_GOAWAY(0), SAYS_YES),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "a GOAWAY at the stream, and an answer",
     .script = ODD_SCRIPT(ODD_GOAWAY(0), SAYS_YES, ODD_CLOSE),
     .code = GRPC_STATUS_OK,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "a GOAWAY at the stream, and Trailers-Only",
     .script = ODD_SCRIPT(ODD_GOAWAY(0), ODD_ONLY(14)),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "a GOAWAY at the stream, and closed",
     .script = ODD_SCRIPT(ODD_GOAWAY(0), ODD_CLOSE),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS,
     .closes = true},
    {.why = "a GOAWAY after headers, and closed",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_GOAWAY(0), ODD_CLOSE),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1,
     .closes = true},
};

static void what_a_goaway_left_out_is_replayed_and_nothing_else(void **state) {
  (void)state;
  odd_cases_assert(goaway_cases, COUNT_OF(goaway_cases));
}

/* --- what is counted --- */

static const struct odd_script refusals[] = {
    ODD_SCRIPT(ODD_RST(7)),
    ODD_SCRIPT(ODD_GOAWAY(1)),
};

static const char *previous_attempts(struct odd_peer *peer, size_t index) {
  static struct odd_request request;
  static char value[16];
  assert_true(odd_peer_request(peer, index, &request));
  return odd_request_value(&request, PREVIOUS, value, sizeof value) ? value : NULL;
}

static void a_replay_is_not_told_as_an_attempt(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(refusals); i++) {
    struct odd_peer *peer = odd_peer_answering(&refusals[i]);
    weir_channel *channel = channel_to(
        odd_peer_port(peer), "{" NO_BOUNDARY "," METHODS(RETRY("3", "0.001s", UNAVAILABLE)) "}");
    struct unary unary;
    unary_run(&unary, channel, NULL);
    assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 4);
    assert_null(previous_attempts(peer, 0));
    assert_null(previous_attempts(peer, 1)); /* the replay */
    assert_string_equal(previous_attempts(peer, 2), "1");
    assert_string_equal(previous_attempts(peer, 3), "2");
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

static void a_replay_that_works_is_all_that_is_seen(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(refusals); i++) {
    const struct odd_script answers[] = {refusals[i], ODD_SCRIPT(SAYS_YES)};
    struct odd_peer *peer =
        odd_peer_new(&(struct odd_setup){.answers = answers, .n_answers = COUNT_OF(answers)});
    weir_channel *channel = channel_to(odd_peer_port(peer), "{" NO_BOUNDARY "}");
    struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
    struct odd_request request;
    struct unary unary;
    unary_run(&unary, channel, NULL);
    assert_int_equal(unary.code, GRPC_STATUS_OK);
    assert_null(unary.error_string);
    assert_true(message_is(unary.message, "yes"));
    assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 2);
    for (size_t index = 0; index < 2; index++) {
      assert_true(odd_peer_request(peer, index, &request));
      assert_true(request.ended);
      assert_int_equal(odd_request_n_messages(&request), 1);
      assert_true(odd_request_message_is(&request, 0, "hello"));
    }
    assert_int_equal(weir_channel_breaker_snapshot(channel, METHOD, &snapshot), WEIR_OK);
    assert_int_equal(snapshot.n_requests, 1);
    assert_int_equal(snapshot.n_failures, 0);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* Three tokens: the first attempt leaves two, the second one, which is not more than half. */
static void a_replay_costs_no_token(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(refusals); i++) {
    struct odd_peer *peer = odd_peer_answering(&refusals[i]);
    weir_channel *channel = channel_to(
        odd_peer_port(peer),
        "{" NO_BOUNDARY ",\"retryThrottling\":{\"maxTokens\":3,\"tokenRatio\":0.1}," METHODS(
            RETRY("5", "0.001s", UNAVAILABLE)) "}");
    struct unary unary;
    unary_run(&unary, channel, NULL);
    assert_int_equal(unary.report.reason, WEIR_REASON_THROTTLED);
    assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 3);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* --- a lost connection --- */

#define LOST(words, n, ...)                                                                     \
  {                                                                                             \
    .why = words, .script = ODD_SCRIPT(__VA_ARGS__), .code = GRPC_STATUS_UNAVAILABLE,           \
    .origin = WEIR_ORIGIN_TRANSPORT_RESET, .n_requests = n, .closes = true, .shown_early = true \
  }

static const struct odd_case lost_cases[] = {
    LOST("closed before headers", ALL_ATTEMPTS, ODD_CLOSE),
    LOST("reset before headers", ALL_ATTEMPTS, ODD_ABORT),
    LOST("closed after headers", 1, ODD_HEADERS(ODD_OK), ODD_CLOSE),
    LOST("reset after headers", 1, ODD_HEADERS(ODD_OK), ODD_ABORT),
    LOST("closed after headers with an entry", 1, ODD_HEADERS(ODD_OK "x " SECRET "\n"), ODD_CLOSE),
    LOST("closed after a message", 1, ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET), ODD_CLOSE),
    LOST("closed in a message", 1, ODD_HEADERS(ODD_OK), ODD_CUT, ODD_MESSAGE(SECRET), ODD_CLOSE),
    LOST("closed in the prefix of a message", 1, ODD_HEADERS(ODD_OK), ODD_DATA("\0\0\0"),
         ODD_CLOSE),
    LOST("closed in headers", 1, ODD_CUT, ODD_HEADERS(ODD_OK "x " SECRET "\n"), ODD_CLOSE),
    LOST("closed after half of SETTINGS", ALL_ATTEMPTS, ODD_CUT, ODD_SETTINGS(3, 100), ODD_CLOSE),
    /* Half of trailers looks like trailers to the core: no harm, since headers had come. */
    {.why = "closed in trailers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_CUT, ODD_TRAILERS(ODD_STATUS(14)), ODD_CLOSE),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1,
     .closes = true},
    {.why = "closed in Trailers-Only",
     .script = ODD_SCRIPT(ODD_CUT, ODD_ONLY(14), ODD_CLOSE),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS,
     .closes = true},
};

static void a_lost_connection_commits_once_headers_have_come(void **state) {
  (void)state;
  odd_cases_assert(lost_cases, COUNT_OF(lost_cases));
}

/* --- commit --- */

static const struct odd_case commit_cases[] = {
    {.why = "Trailers-Only",
     .script = ODD_SCRIPT(ODD_ONLY(14)),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "Trailers-Only with entries",
     .script = ODD_SCRIPT(ODD_TRAILERS(ODD_OK ODD_STATUS(14) "a " SECRET "\nb " SECRET "\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "headers without an entry, and trailers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "headers with an entry, and trailers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "x y\n"), ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "headers, and trailers later",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_DELAY_MS(5), ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1},
    {.why = "a message, and a failure",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET), ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1,
     .shown_early = true},
    {.why = "a message before any headers",
     .script = ODD_SCRIPT(ODD_FRAME(0, 0, "\0\0\0\0\6" SECRET), ODD_ONLY(14)),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1,
     .shown_early = true},
};

static void response_headers_commit_and_trailers_only_do_not(void **state) {
  (void)state;
  odd_cases_assert(commit_cases, COUNT_OF(commit_cases));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reset_is_mapped_as_grpc_says_and_tried_again),
      cmocka_unit_test(a_reset_after_headers_is_not_tried_again),
      cmocka_unit_test(a_reset_behind_the_answer_changes_nothing),
      cmocka_unit_test(what_a_goaway_left_out_is_replayed_and_nothing_else),
      cmocka_unit_test(a_replay_is_not_told_as_an_attempt),
      cmocka_unit_test(a_replay_that_works_is_all_that_is_seen),
      cmocka_unit_test(a_replay_costs_no_token),
      cmocka_unit_test(a_lost_connection_commits_once_headers_have_come),
      cmocka_unit_test(response_headers_commit_and_trailers_only_do_not),
  };
  return cmocka_run_group_tests_name("reset", tests, start_core, stop_core);
}
