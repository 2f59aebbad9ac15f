/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/support/odd_peer.h"

/* --- long --- */

#define FAILS ODD_OK ODD_STATUS(14)

/* The core takes 8 KiB of metadata. What is longer is refused by this process, whatever it said:
 * the same would come again. */
#define TOO_LONG(words, ...)                                                                 \
  {                                                                                          \
    .why = words, .script = ODD_SCRIPT(__VA_ARGS__), .code = GRPC_STATUS_RESOURCE_EXHAUSTED, \
    .origin = WEIR_ORIGIN_LOCAL_LIMIT, .n_requests = 1, .shown_early = true                  \
  }
#define LONG_BUT_FINE(words, ...)                                                     \
  {                                                                                   \
    .why = words, .script = ODD_SCRIPT(__VA_ARGS__), .code = GRPC_STATUS_UNAVAILABLE, \
    .origin = WEIR_ORIGIN_PEER, .n_requests = ALL_ATTEMPTS                            \
  }

static const struct odd_case long_cases[] = {
    LONG_BUT_FINE("a message of 7,000 bytes",
                  ODD_LONG_TRAILERS(FAILS "grpc-message " SECRET "\n", 7000)),
    LONG_BUT_FINE("details of 4,500 bytes, 6,000 in base64",
                  ODD_LONG_TRAILERS(FAILS "grpc-status-details-bin AAAA\n", 5996)),
    TOO_LONG("a message of 9,000 bytes",
             ODD_LONG_TRAILERS(FAILS "grpc-message " SECRET "\n", 9000)),
    TOO_LONG("a message of 20,000 bytes, in two frames",
             ODD_LONG_TRAILERS(FAILS "grpc-message " SECRET "\n", 20000)),
    TOO_LONG("a message of 9,000 bytes after headers", ODD_HEADERS(ODD_OK),
             ODD_LONG_TRAILERS(ODD_STATUS(14) "grpc-message " SECRET "\n", 9000)),
    LONG_BUT_FINE("details of 6,750 bytes, 9,000 in base64",
                  ODD_LONG_TRAILERS(FAILS "grpc-status-details-bin AAAA\n", 8996)),
    TOO_LONG("details of 9,000 bytes, 12,000 in base64",
             ODD_LONG_TRAILERS(FAILS "grpc-status-details-bin AAAA\n", 11996)),
    TOO_LONG("headers of 9,000 bytes", ODD_LONG_HEADERS(ODD_OK "x " SECRET "\n", 9000),
             ODD_TRAILERS(ODD_STATUS(14))),
    TOO_LONG("an entry of 9,000 bytes behind a message", ODD_HEADERS(ODD_OK), ODD_MESSAGE(SECRET),
             ODD_LONG_TRAILERS(ODD_STATUS(14) "x " SECRET "\n", 9000)),
};

static void what_is_too_long_is_refused_once_and_what_is_long_is_not(void **state) {
  (void)state;
  odd_cases_assert(long_cases, COUNT_OF(long_cases));
}

/* Quota by the same code is the peer's and may be retried; that is in the test of statuses. */
static void a_long_message_passes_as_far_as_the_policy_lets_it(void **state) {
  (void)state;
  static const struct {
    const char *policy;
    size_t size;
  } rows[] = {
      {POLICY_PLAIN, 1024},
      {"{\"translation\":{\"boundary\":false,\"maxMessageBytes\":8192}," NO_BREAKER "}", 7000},
  };
  const struct odd_script script = ODD_SCRIPT(ODD_LONG_TRAILERS(FAILS "grpc-message m\n", 6999));
  struct odd_peer *peer = odd_peer_answering(&script);
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    weir_channel *channel = channel_to(odd_peer_port(peer), rows[i].policy);
    struct unary unary;
    unary_run(&unary, channel, NULL);
    assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(GRPC_SLICE_LENGTH(unary.details), rows[i].size);
    unary_fini(&unary);
    weir_channel_destroy(channel);
  }
  odd_peer_release(peer);
}

/* The core gives up the whole connection, and tells every call on it the same. Which of them it was
 * that got too much can't be told, so none is tried again. */
static void what_is_too_long_for_one_call_ends_all_on_its_connection(void **state) {
  (void)state;
  const struct odd_script answers[] = {
      ODD_SCRIPT({ODD_ACT_END, NULL, 0, 0}),
      ODD_SCRIPT(ODD_LONG_TRAILERS(FAILS "grpc-message " SECRET "\n", 9000))};
  struct odd_peer *peer =
      odd_peer_new(&(struct odd_setup){.answers = answers, .n_answers = COUNT_OF(answers)});
  weir_channel *channel =
      channel_to(odd_peer_port(peer), "{" METHODS(RETRY("3", "0.001s", CODES_ALL)) "}");
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary calls[2];
  unary_start(&calls[0], channel, queue, NULL);
  assert_true(odd_peer_wait(peer, ODD_ENDS, 1));
  unary_start(&calls[1], channel, queue, NULL);
  assert_non_null(next_tag(queue));
  assert_non_null(next_tag(queue));
  for (size_t i = 0; i < COUNT_OF(calls); i++) {
    unary_read_report(&calls[i]);
    assert_int_equal(calls[i].code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(calls[i].report.origin, WEIR_ORIGIN_LOCAL_LIMIT);
    unary_fini(&calls[i]);
  }
  assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 2);
  queue_end(queue);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

/* A boundary's own words are short, and name the code whatever came. */
static void a_long_message_is_a_short_one_at_a_boundary(void **state) {
  (void)state;
  static const unsigned sizes[] = {7000, 9000, 20000};
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    const struct odd_script script =
        ODD_SCRIPT(ODD_LONG_TRAILERS(FAILS "grpc-message " SECRET "\n", sizes[i]));
    struct odd_peer *peer = odd_peer_answering(&script);
    weir_channel *channel = channel_to(odd_peer_port(peer), "{}");
    struct unary unary;
    char words[96];
    unary_run(&unary, channel, NULL);
    (void)snprintf(words, sizeof words, "downstream service: %s [ref %s]",
                   weir_status_code_name(unary.code), unary.report.reference);
    assert_text(unary.details, words);
    assert_string_equal(unary.error_string, words);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* --- not decodable --- */

static const struct odd_case garbled_cases[] = {
    /* The core gives the whole connection up, and its status does not say why. */
    {.why = "details that are no base64",
     .script = ODD_SCRIPT(ODD_TRAILERS(FAILS "grpc-status-details-bin *" SECRET "*\n")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS,
     .closes = true},
    {.why = "a binary entry that is no base64",
     .script = ODD_SCRIPT(ODD_TRAILERS(FAILS "x-blob-bin *\n")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS,
     .closes = true},
    {.why = "such details after headers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK),
                          ODD_TRAILERS(ODD_STATUS(14) "grpc-status-details-bin *" SECRET "*\n")),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = 1,
     .closes = true},
    {.why = "such an entry in headers",
     .script = ODD_SCRIPT(ODD_HEADERS(ODD_OK "x-blob-bin *\n"), ODD_TRAILERS(ODD_STATUS(14))),
     .code = GRPC_STATUS_UNKNOWN,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = 1,
     .closes = true},
    /* Details are any bytes to weir, and dropped at a boundary. */
    {.why = "details that are no message",
     .script = ODD_SCRIPT(ODD_TRAILERS(FAILS "grpc-status-details-bin /////w\n")),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
    {.why = "details of another code",
     .script = ODD_SCRIPT(ODD_TRAILERS(FAILS "grpc-status-details-bin CAU\n")), /* code: 5 */
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_PEER,
     .n_requests = ALL_ATTEMPTS},
};

static void metadata_that_is_garbled_is_told_as_the_core_tells_it(void **state) {
  (void)state;
  odd_cases_assert(garbled_cases, COUNT_OF(garbled_cases));
}

/* --- cut off --- */

/* Trailers-Only of which only BYTES of 32 come. To the core's arrays it is as a call that was never sent; but the peer
 * has the request, and may have done what it asks for. */
#define CUT(words, literal)                                                                     \
  {                                                                                             \
    .why = words,                                                                               \
    .script = ODD_SCRIPT(ODD_BYTES("\x00\x00\x20\x01\x05\x00\x00\x00\x01" literal), ODD_CLOSE), \
    .code = GRPC_STATUS_UNAVAILABLE, .origin = WEIR_ORIGIN_TRANSPORT_RESET,                     \
    .n_requests = ALL_ATTEMPTS, .closes = true                                                  \
  }

static const struct odd_case cut_cases[] = {
    CUT("none of it", ""),
    CUT("its :status", "\x88"),
    CUT("its :status and content-type", "\x88\x5f\x10"
                                        "application/grpc"),
    CUT("its :status and an entry", "\x88\x00\x01x\x01y"),
    CUT("its :status and grpc-status", "\x88\x00\x0bgrpc-status\x02"
                                       "14"),
    CUT("half of a message like a GOAWAY's", "\x88\x00\x0cgrpc-message\x0fGOAWAY rec"),
    {.why = "all of it, but for the frame that ends it",
     .script = ODD_SCRIPT(ODD_BYTES("\x00\x00\x01\x01\x01\x00\x00\x00\x01\x88"), ODD_CLOSE),
     .code = GRPC_STATUS_UNAVAILABLE,
     .origin = WEIR_ORIGIN_TRANSPORT_RESET,
     .n_requests = ALL_ATTEMPTS,
     .closes = true},
};

static void an_answer_that_is_cut_off_is_no_reason_to_send_for_free(void **state) {
  (void)state;
  odd_cases_assert(cut_cases, COUNT_OF(cut_cases));
}

/* --- what is in the log --- */

static void the_log_has_what_a_boundary_hides(void **state) {
  (void)state;
  static struct kept_log log;
  const struct odd_script script =
      ODD_SCRIPT(ODD_TRAILERS(FAILS "grpc-message " SECRET "\ngrpc-status-details-bin c2VzYW1l\n"));
  struct odd_peer *peer = odd_peer_answering(&script);
  kept_log_init(&log);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = odd_peer_port(peer), .policy = "{" NO_BREAKER "}", .log = &log.base});
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(log.n_records, 1);
  assert_string_equal(log.records[0].message, SECRET);
  assert_string_equal(log.records[0].details, SECRET); /* decoded */
  assert_string_equal(log.records[0].reference, unary.report.reference);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  kept_log_fini(&log);
  odd_peer_release(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_too_long_is_refused_once_and_what_is_long_is_not),
      cmocka_unit_test(a_long_message_passes_as_far_as_the_policy_lets_it),
      cmocka_unit_test(what_is_too_long_for_one_call_ends_all_on_its_connection),
      cmocka_unit_test(a_long_message_is_a_short_one_at_a_boundary),
      cmocka_unit_test(metadata_that_is_garbled_is_told_as_the_core_tells_it),
      cmocka_unit_test(an_answer_that_is_cut_off_is_no_reason_to_send_for_free),
      cmocka_unit_test(the_log_has_what_a_boundary_hides),
  };
  return cmocka_run_group_tests_name("odd metadata", tests, start_core, stop_core);
}
