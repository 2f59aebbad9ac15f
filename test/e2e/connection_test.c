/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/odd_case.h"
#include "test/e2e/seen.h"
#include "test/e2e/shaped_call.h"
#include "test/e2e/support/odd_peer.h"

#define RETRIES METHODS(RETRY("3", "0.001s", CODES_ALL))
#define SAYS_YES ODD_HEADERS(ODD_OK), ODD_MESSAGE("yes"), ODD_TRAILERS(ODD_STATUS(0))
#define PLAIN_GREETING ODD_SCRIPT(ODD_SETTINGS(0, 0))

static const struct odd_script says_yes = ODD_SCRIPT(SAYS_YES);

/* HTTP/2's numbers of settings. */
#define MAX_CONCURRENT_STREAMS 3

static struct weir_breaker_snapshot look(weir_channel *channel) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir_channel_breaker_snapshot(channel, METHOD, &snapshot), WEIR_OK);
  return snapshot;
}

/* --- a peer that never gets as far as SETTINGS --- */

struct greeting_row {
  const char *why;
  struct odd_script greeting;
};

static const struct greeting_row no_connection_rows[] = {
    {"closed", ODD_SCRIPT(ODD_CLOSE)},
    {"reset", ODD_SCRIPT(ODD_ABORT)},
    {"closed in the middle of SETTINGS", ODD_SCRIPT(ODD_CUT, ODD_SETTINGS(3, 100), ODD_CLOSE)},
    {"HTTP/1.1",
     ODD_SCRIPT(ODD_BYTES("HTTP/1.1 400 Bad Request\r\nServer: " SECRET "\r\n\r\n"), ODD_CLOSE)},
    {"another protocol", ODD_SCRIPT(ODD_BYTES("SSH-2.0-" SECRET "_9.2p1 Debian-2\r\n"))},
    {"TLS", ODD_SCRIPT(ODD_BYTES("\25\3\3\0\2\2\106"), ODD_CLOSE)}, /* an alert */
    {"SETTINGS of five bytes", ODD_SCRIPT(ODD_FRAME(4, 0, "\0\4\377\377\377"))},
    {"a window beyond 2^31", ODD_SCRIPT(ODD_FRAME(4, 0, "\0\4\377\377\377\377"))},
    {"GOAWAY before SETTINGS", ODD_SCRIPT(ODD_GOAWAY_SAYING(0, SECRET), ODD_CLOSE)},
    {"a frame of 16 MiB", ODD_SCRIPT(ODD_BYTES("\377\377\377\4\0\0\0\0\0"))},
};

static void assert_no_connection(const struct greeting_row *row, enum shape shape,
                                 const char *policy, bool is_boundary) {
  static struct seen seen;
  struct odd_peer *peer =
      odd_peer_new(&(struct odd_setup){.greetings = &row->greeting, .n_greetings = 1});
  weir_channel *channel = channel_to(odd_peer_port(peer), policy);
  struct shaped_call call;
  shaped_run(&call, shape, channel, NULL);
  const struct weir_call_report *report = &call.unary.report;
  const uint32_t n_attempts = 3;
  if (call.unary.code != GRPC_STATUS_UNAVAILABLE ||
      report->origin != WEIR_ORIGIN_TRANSPORT_CONNECT || report->n_attempts != n_attempts ||
      report->blames != WEIR_BLAME_NETWORK || look(channel).n_failures != 1) {
    fail_msg("%s (%s): %s from %s, %u attempts", row->why, shape_name(shape),
             weir_status_code_name(call.unary.code), weir_origin_name(report->origin),
             report->n_attempts);
  }
  assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 0);
  seen.size = 0;
  see_unary(&seen, &call.unary);
  if (is_boundary && (count_seen(&seen, SECRET) > 0 || count_seen(&seen, "127.0.0.1") > 0)) {
    fail_msg("%s (%s): it is seen", row->why, shape_name(shape));
  }
  shaped_fini(&call);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

/* Such faults persist: each attempt waits its backoff, and all of them are one failure to the
 * breaker. */
static void what_does_not_greet_is_no_connection(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(no_connection_rows); i++) {
    for (int shape = 0; shape < N_SHAPES; shape++) {
      assert_no_connection(&no_connection_rows[i], (enum shape)shape,
                           "{" NO_BOUNDARY "," RETRIES "}", false);
      assert_no_connection(&no_connection_rows[i], (enum shape)shape, "{" RETRIES "}", true);
    }
  }
}

/* --- waiting for one that does --- */

/* The core tries to connect again soon. */
static weir_channel *eager_channel_to(int port, const char *policy) {
  static const char *const keys[] = {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                                     GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                                     GRPC_ARG_MAX_RECONNECT_BACKOFF_MS};
  grpc_arg args[COUNT_OF(keys)];
  memset(args, 0, sizeof args);
  for (size_t i = 0; i < COUNT_OF(keys); i++) {
    args[i].type = GRPC_ARG_INTEGER;
    memcpy(&args[i].key, &keys[i], sizeof args[i].key);
    args[i].value.integer = 100;
  }
  const grpc_channel_args all = {.num_args = COUNT_OF(args), .args = args};
  return channel_new(&(struct channel_setup){.port = port, .policy = policy, .args = &all});
}

#define POLICY_WAIT \
  "{" NO_BOUNDARY "," METHODS("\"waitForReady\":true," RETRY("3", "0.001s", CODES_ALL)) "}"

static void a_call_that_waits_sees_nothing_of_what_did_not_greet(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(no_connection_rows); i++) {
    const struct odd_script greetings[] = {no_connection_rows[i].greeting, PLAIN_GREETING};
    struct odd_peer *peer = odd_peer_new(&(struct odd_setup){.greetings = greetings,
                                                             .n_greetings = COUNT_OF(greetings),
                                                             .answers = &says_yes,
                                                             .n_answers = 1});
    weir_channel *channel = eager_channel_to(odd_peer_port(peer), POLICY_WAIT);
    struct unary unary;
    unary_run(&unary, channel, NULL);
    if (unary.code != GRPC_STATUS_OK || unary.report.n_attempts != 1) {
      fail_msg("%s: %s, %u attempts", no_connection_rows[i].why, weir_status_code_name(unary.code),
               unary.report.n_attempts);
    }
    assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 1);
    assert_true(odd_peer_count(peer, ODD_CONNECTIONS) >= 2);
    assert_int_equal(look(channel).n_failures, 0);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

static void waiting_for_what_never_greets_ends_with_the_deadline(void **state) {
  (void)state;
  static const struct odd_script greetings[] = {ODD_SCRIPT(ODD_CLOSE), ODD_SCRIPT(ODD_MUTE)};
  for (size_t i = 0; i < COUNT_OF(greetings); i++) {
    struct odd_peer *peer =
        odd_peer_new(&(struct odd_setup){.greetings = &greetings[i], .n_greetings = 1});
    weir_channel *channel = eager_channel_to(odd_peer_port(peer), POLICY_WAIT);
    struct unary unary;
    unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = MS(250)});
    assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
    assert_int_equal(unary.report.blames, WEIR_BLAME_NETWORK);
    assert_int_equal(unary.report.n_attempts, 1);
    assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 0);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* --- a peer that goes after its SETTINGS --- */

/* The call was on its way when the GOAWAY came, or had not left: nobody has seen it. */
static void a_connection_that_ends_at_once_is_replayed_on_another(void **state) {
  (void)state;
  const struct odd_script greetings[] = {ODD_SCRIPT(ODD_SETTINGS(0, 0), ODD_GOAWAY(0)),
                                         PLAIN_GREETING};
  for (int shape = 0; shape < N_SHAPES; shape++) {
    struct odd_peer *peer = odd_peer_new(&(struct odd_setup){.greetings = greetings,
                                                             .n_greetings = COUNT_OF(greetings),
                                                             .answers = &says_yes,
                                                             .n_answers = 1});
    weir_channel *channel = channel_to(odd_peer_port(peer), "{" NO_BOUNDARY "}");
    struct odd_request request;
    struct shaped_call call;
    char previous[8];
    shaped_run(&call, (enum shape)shape, channel, NULL);
    assert_int_equal(call.unary.code, GRPC_STATUS_OK);
    size_t last = odd_peer_count(peer, ODD_REQUESTS) - 1;
    assert_true(odd_peer_request(peer, last, &request));
    assert_int_equal(request.connection, 1);
    assert_true(request.ended);
    assert_false(
        odd_request_value(&request, "grpc-previous-rpc-attempts", previous, sizeof previous));
    shaped_fini(&call);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

/* First a lost connection, then nobody there. */
static void a_peer_that_goes_away_is_lost_once_and_refused_after(void **state) {
  (void)state;
  const struct odd_script script = ODD_SCRIPT(ODD_STOP_LISTENING, ODD_CLOSE);
  struct odd_peer *peer = odd_peer_answering(&script);
  weir_channel *channel = channel_to(odd_peer_port(peer), "{" RETRIES "}");
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary.report.n_attempts >= 3);
  assert_int_equal(unary.report.attempts[0].origin, WEIR_ORIGIN_TRANSPORT_RESET);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_TRANSPORT_CONNECT);
  assert_int_equal(odd_peer_count(peer, ODD_REQUESTS), 1);
  assert_int_equal(look(channel).n_failures, 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  odd_peer_release(peer);
}

/* --- more calls than streams --- */

struct waiting {
  struct odd_peer *peer;
  struct unary first;
  struct unary second; /* waits in the core for the first to end */
};

/* The connection is lost as the first of two `answers` says while the second call waits for a stream. */
static void waiting_init(struct waiting *waiting, const struct odd_script *answers) {
  static const struct odd_script greetings[] = {ODD_SCRIPT(ODD_SETTINGS(MAX_CONCURRENT_STREAMS, 1)),
                                                PLAIN_GREETING};
  waiting->peer = odd_peer_new(&(struct odd_setup){.greetings = greetings,
                                                   .n_greetings = COUNT_OF(greetings),
                                                   .answers = answers,
                                                   .n_answers = 2});
  weir_channel *channel = channel_to(odd_peer_port(waiting->peer), "{" NO_BOUNDARY "}");
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  unary_start(&waiting->first, channel, queue, &(struct unary_setup){.text = "first"});
  assert_true(odd_peer_wait(waiting->peer, ODD_ENDS, 1));
  unary_start(&waiting->second, channel, queue, &(struct unary_setup){.text = "second"});
  assert_non_null(next_tag(queue));
  assert_non_null(next_tag(queue));
  unary_read_report(&waiting->first);
  unary_read_report(&waiting->second);
  assert_int_equal(waiting->first.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(waiting->first.report.n_attempts, 1);
  queue_end(queue);
  weir_channel_destroy(channel);
}

static void waiting_fini(struct waiting *waiting) {
  unary_fini(&waiting->first);
  unary_fini(&waiting->second);
  odd_peer_release(waiting->peer);
}

/* The first call was seen, the second was not, and the GOAWAY says so. */
static void a_call_that_waited_for_a_stream_is_replayed_after_a_goaway(void **state) {
  (void)state;
  /* Time for the second call to be queued; if there was too little of it, it goes to the second
   * connection at once. */
  static const struct odd_script answers[] = {
      ODD_SCRIPT(ODD_DELAY_MS(100), ODD_GOAWAY(0), ODD_CLOSE), ODD_SCRIPT(SAYS_YES)};
  struct waiting waiting;
  struct odd_request request;
  waiting_init(&waiting, answers);
  assert_int_equal(waiting.second.code, GRPC_STATUS_OK);
  assert_int_equal(odd_peer_count(waiting.peer, ODD_REQUESTS), 2);
  assert_true(odd_peer_request(waiting.peer, 0, &request));
  assert_true(odd_request_message_is(&request, 0, "first"));
  assert_true(odd_peer_request(waiting.peer, 1, &request));
  assert_int_equal(request.connection, 1);
  assert_true(odd_request_message_is(&request, 0, "second"));
  waiting_fini(&waiting);
}

/* To its client, a call that never got its stream is then like one whose answer was cut off. */
static void a_call_that_waited_for_a_stream_is_not_replayed_after_a_mere_loss(void **state) {
  (void)state;
  static const struct odd_script answers[] = {ODD_SCRIPT(ODD_DELAY_MS(100), ODD_CLOSE),
                                              ODD_SCRIPT(SAYS_YES)};
  struct waiting waiting;
  waiting_init(&waiting, answers);
  if (odd_peer_count(waiting.peer, ODD_CONNECTIONS) == 1) {
    assert_int_equal(waiting.second.code, GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(waiting.second.report.origin, WEIR_ORIGIN_TRANSPORT_RESET);
    assert_int_equal(waiting.second.report.n_attempts, 1);
  }
  waiting_fini(&waiting);
}

/* --- odd, and no reason to fail --- */

static const struct odd_case tolerated_cases[] = {
    {.why = "a thousand PINGs", .script = ODD_SCRIPT(ODD_PINGS(1000), SAYS_YES)},
    {.why = "no acknowledgement of anything",
     .greeting = ODD_SCRIPT(ODD_NO_ACKS, ODD_SETTINGS(0, 0)),
     .script = ODD_SCRIPT(SAYS_YES)},
    {.why = "no WINDOW_UPDATE",
     .greeting = ODD_SCRIPT(ODD_NO_WINDOW, ODD_SETTINGS(0, 0)),
     .script = ODD_SCRIPT(SAYS_YES)},
    {.why = "a frame of a type that there is not",
     .script = ODD_SCRIPT(ODD_FRAME(0x77, 0xff, SECRET), SAYS_YES)},
    {.why = "a setting that there is not",
     .greeting = ODD_SCRIPT(ODD_SETTINGS(0x7777, 7)),
     .script = ODD_SCRIPT(SAYS_YES)},
    {.why = "a window beyond 2^31, in two steps",
     .script = ODD_SCRIPT(ODD_FRAME(8, 0, "\177\377\377\377"), SAYS_YES)},
    {.why = "SETTINGS again and again",
     .script =
         ODD_SCRIPT(ODD_SETTINGS(3, 100), ODD_SETTINGS(4, 1), ODD_SETTINGS(4, 65535), SAYS_YES)},
    {.why = "an answer before the request has ended", .script = ODD_EARLY_SCRIPT(SAYS_YES)},
};

static void what_is_odd_but_allowed_is_no_failure(void **state) {
  (void)state;
  static struct odd_case cases[COUNT_OF(tolerated_cases)];
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    cases[i] = tolerated_cases[i];
    cases[i].code = GRPC_STATUS_OK;
    cases[i].origin = WEIR_ORIGIN_PEER;
    cases[i].n_requests = 1;
  }
  odd_cases_assert(cases, COUNT_OF(cases));
}

/* --- what the peer is told --- */

static int64_t number_of(const struct odd_request *request, const char *key) {
  char value[32];
  return odd_request_value(request, key, value, sizeof value) ? strtoll(value, NULL, 10) : -1;
}

/* By each connection anew: what the compression of headers refers to is gone with the last. */
static void each_attempt_tells_what_is_left_on_every_connection(void **state) {
  (void)state;
  const struct odd_script script = ODD_SCRIPT(ODD_DELAY_MS(20), ODD_ONLY(14), ODD_CLOSE);
  for (int shape = 0; shape < N_SHAPES; shape++) {
    struct odd_peer *peer = odd_peer_answering(&script);
    weir_channel *channel =
        channel_to(odd_peer_port(peer), "{\"name\":\"odd\"," NO_BREAKER
                                        "," METHODS(RETRY("3", "0.005s", UNAVAILABLE)) "}");
    struct shaped_call call;
    shaped_run(&call, (enum shape)shape, channel, &(struct unary_setup){.timeout_ns = SECONDS(8)});
    size_t n_requests = odd_peer_count(peer, ODD_REQUESTS);
    assert_true(n_requests >= 2); /* one may be lost with its connection */
    int64_t left_us = SECONDS(8) / 1000 + 1;
    int64_t previous = -1;
    for (size_t i = 0; i < n_requests; i++) {
      struct odd_request request;
      char text[32];
      assert_true(odd_peer_request(peer, i, &request));
      assert_true(odd_request_value(&request, "grpc-timeout", text, sizeof text));
      assert_true(odd_request_value(&request, "weir-retry-owner", text, sizeof text));
      assert_string_equal(text, "odd");
      assert_true(number_of(&request, "weir-budget-us") > 0);
      assert_true(number_of(&request, "weir-budget-us") <= left_us);
      assert_true(number_of(&request, "grpc-previous-rpc-attempts") > previous || i == 0);
      assert_true(odd_request_message_is(&request, 0, "hello"));
      assert_true(request.ended);
      left_us = number_of(&request, "weir-budget-us") - 20000;
      previous = number_of(&request, "grpc-previous-rpc-attempts");
    }
    assert_true(odd_peer_count(peer, ODD_CONNECTIONS) >= n_requests);
    shaped_fini(&call);
    weir_channel_destroy(channel);
    odd_peer_release(peer);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_does_not_greet_is_no_connection),
      cmocka_unit_test(a_call_that_waits_sees_nothing_of_what_did_not_greet),
      cmocka_unit_test(waiting_for_what_never_greets_ends_with_the_deadline),
      cmocka_unit_test(a_connection_that_ends_at_once_is_replayed_on_another),
      cmocka_unit_test(a_peer_that_goes_away_is_lost_once_and_refused_after),
      cmocka_unit_test(a_call_that_waited_for_a_stream_is_replayed_after_a_goaway),
      cmocka_unit_test(a_call_that_waited_for_a_stream_is_not_replayed_after_a_mere_loss),
      cmocka_unit_test(what_is_odd_but_allowed_is_no_failure),
      cmocka_unit_test(each_attempt_tells_what_is_left_on_every_connection),
  };
  return cmocka_run_group_tests_name("connection", tests, start_core, stop_core);
}
