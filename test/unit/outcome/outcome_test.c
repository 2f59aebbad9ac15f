/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/clock.h>
#include <weir/outcome.h>
#include <weir/policy.h>

#include <cmocka.h>

#include "src/outcome/outcome.h"

#define MS(n) ((n)*WEIR_MS_NS)
#define STARTED_AT_NS MS(1000)
#define DEADLINE_AT_NS MS(2000)
#define SLACK_NS MS(10)

/* initial, trailing, count, failed before, message op done */
#define TRAILERS_ONLY \
  { 1, 2, 0, false, true }
#define HEADERS_AND_TRAILERS \
  { 2, 2, 0, true, true }
#define HEADERS_THEN_LOST \
  { 2, 1, 0, true, true }
#define SENT_THEN_LOST \
  { 1, 1, 0, true, true }
#define NOT_SEEN \
  { 1, 2, 0, true, true }
#define SILENCE \
  { 0, 1, 0, true, true }
#define NO_CONNECTION \
  { 0, 0, 0, false, true }
#define HTTP_ERROR \
  { 0, 0, 0, true, true }
#define REFUSED_MESSAGE \
  { 2, 3, 0, false, true }
/* Before the deadline or a cancellation cut it off. */
#define HALF_TRAILERS_ONLY \
  { 0, 3, 0, true, true }
#define HALF_TRAILERS \
  { 2, 2, 0, true, true }

/* The words of a GOAWAY, which tell something with the signals of NOT_SEEN only. */
static struct weir__wire_result wire_result(int status, struct weir__wire_signals signals,
                                            int64_t ended_at_ns) {
  return (struct weir__wire_result){
      .status = status,
      .details = weir__wire_words_of_goaway(),
      .signals = signals,
      .signals_trusted = true,
      .started_at_ns = STARTED_AT_NS,
      .ended_at_ns = ended_at_ns,
      .deadline_at_ns = DEADLINE_AT_NS,
      .deadline_slack_ns = SLACK_NS,
      .deadline_bound = WEIR_DEADLINE_BOUND_CALL,
  };
}

static struct weir_outcome classify(const struct weir__wire_result *result) {
  struct weir_outcome outcome;
  weir__outcome_classify(result, &outcome);
  return outcome;
}

/* Who ended it. `by_us` is 0, or the code that we cancelled it with. */
struct origin_row {
  const char *why;
  int status;
  struct weir__wire_signals signals;
  int64_t ended_at_ns;
  int by_us;
  bool has_parent;
  enum weir_origin origin;
  grpc_status_code code;
};

static const struct origin_row origin_rows[] = {
    {"an answer", 0, HEADERS_AND_TRAILERS, MS(1100), 0, false, WEIR_ORIGIN_PEER, GRPC_STATUS_OK},
    {"a failure in trailers", 14, TRAILERS_ONLY, MS(1100), 0, false, WEIR_ORIGIN_PEER,
     GRPC_STATUS_UNAVAILABLE},
    {"a code that there is not", 17, TRAILERS_ONLY, MS(1100), 0, false, WEIR_ORIGIN_PEER,
     GRPC_STATUS_UNKNOWN},
    {"a negative code", -1, TRAILERS_ONLY, MS(1100), 0, false, WEIR_ORIGIN_PEER,
     GRPC_STATUS_UNKNOWN},
    {"the server's deadline, long before ours", 4, TRAILERS_ONLY, MS(1100), 0, false,
     WEIR_ORIGIN_PEER, GRPC_STATUS_DEADLINE_EXCEEDED},
    {"the server's deadline just before the slack", 4, TRAILERS_ONLY, MS(1990) - 1, 0, false,
     WEIR_ORIGIN_PEER, GRPC_STATUS_DEADLINE_EXCEEDED},
    {"the server's deadline within the slack of ours", 4, TRAILERS_ONLY, MS(1990), 0, false,
     WEIR_ORIGIN_LOCAL_DEADLINE, GRPC_STATUS_DEADLINE_EXCEEDED},
    {"our deadline, silence", 4, SILENCE, MS(2000), 0, false, WEIR_ORIGIN_LOCAL_DEADLINE,
     GRPC_STATUS_DEADLINE_EXCEEDED},
    {"our deadline while connecting", 4, NO_CONNECTION, MS(2000), 0, false,
     WEIR_ORIGIN_LOCAL_DEADLINE, GRPC_STATUS_DEADLINE_EXCEEDED},
    {"the server cancelled", 1, TRAILERS_ONLY, MS(1100), 0, false, WEIR_ORIGIN_PEER,
     GRPC_STATUS_CANCELLED},
    {"the server cancelled as our deadline passed", 1, TRAILERS_ONLY, MS(2001), 0, false,
     WEIR_ORIGIN_LOCAL_DEADLINE, GRPC_STATUS_DEADLINE_EXCEEDED},
    {"RST_STREAM CANCEL from the server", 1, SENT_THEN_LOST, MS(1100), 0, false,
     WEIR_ORIGIN_TRANSPORT_RESET, GRPC_STATUS_CANCELLED},
    {"we cancelled", 1, SILENCE, MS(1100), 1, false, WEIR_ORIGIN_LOCAL_CANCEL,
     GRPC_STATUS_CANCELLED},
    {"we cancelled with a code", 9, SILENCE, MS(1100), 9, false, WEIR_ORIGIN_LOCAL_CANCEL,
     GRPC_STATUS_FAILED_PRECONDITION},
    {"we cancelled before there was a connection", 1, NO_CONNECTION, MS(1100), 1, false,
     WEIR_ORIGIN_LOCAL_CANCEL, GRPC_STATUS_CANCELLED},
    {"we cancelled in the middle of Trailers-Only", 1, HALF_TRAILERS_ONLY, MS(1100), 1, false,
     WEIR_ORIGIN_LOCAL_CANCEL, GRPC_STATUS_CANCELLED},
    {"we cancelled in the middle of trailers", 9, HALF_TRAILERS, MS(1100), 9, false,
     WEIR_ORIGIN_LOCAL_CANCEL, GRPC_STATUS_FAILED_PRECONDITION},
    {"our deadline in the middle of Trailers-Only", 4, HALF_TRAILERS_ONLY, MS(2000), 0, false,
     WEIR_ORIGIN_LOCAL_DEADLINE, GRPC_STATUS_DEADLINE_EXCEEDED},
    {"we cancelled as the deadline passed", 1, SILENCE, MS(2001), 1, false,
     WEIR_ORIGIN_LOCAL_CANCEL, GRPC_STATUS_CANCELLED},
    {"we cancelled, but the deadline was first", 4, SILENCE, MS(2000), 1, false,
     WEIR_ORIGIN_LOCAL_DEADLINE, GRPC_STATUS_DEADLINE_EXCEEDED},
    {"we cancelled, but the answer was first", 3, TRAILERS_ONLY, MS(1100), 1, false,
     WEIR_ORIGIN_PEER, GRPC_STATUS_INVALID_ARGUMENT},
    {"we cancelled as what came was lost", 14, SENT_THEN_LOST, MS(1100), 1, false,
     WEIR_ORIGIN_TRANSPORT_RESET, GRPC_STATUS_UNAVAILABLE},
    {"the parent was cancelled", 1, SILENCE, MS(1100), 0, true, WEIR_ORIGIN_LOCAL_CANCEL,
     GRPC_STATUS_CANCELLED},
    {"RST_STREAM CANCEL from the server while a request is being served", 1, SENT_THEN_LOST,
     MS(1100), 0, true, WEIR_ORIGIN_TRANSPORT_RESET, GRPC_STATUS_CANCELLED},
    {"the same after headers", 1, HEADERS_THEN_LOST, MS(1100), 0, true, WEIR_ORIGIN_TRANSPORT_RESET,
     GRPC_STATUS_CANCELLED},
    {"connection refused", 14, NO_CONNECTION, MS(1100), 0, false, WEIR_ORIGIN_TRANSPORT_CONNECT,
     GRPC_STATUS_UNAVAILABLE},
    {"a channel that could not be made", 3, NO_CONNECTION, MS(1100), 0, false,
     WEIR_ORIGIN_TRANSPORT_CONNECT, GRPC_STATUS_INVALID_ARGUMENT},
    {"closed before headers", 14, SENT_THEN_LOST, MS(1100), 0, false, WEIR_ORIGIN_TRANSPORT_RESET,
     GRPC_STATUS_UNAVAILABLE},
    {"closed after headers", 14, HEADERS_THEN_LOST, MS(1100), 0, false, WEIR_ORIGIN_TRANSPORT_RESET,
     GRPC_STATUS_UNAVAILABLE},
    {"refused by a GOAWAY", 14, NOT_SEEN, MS(1100), 0, false, WEIR_ORIGIN_TRANSPORT_RESET,
     GRPC_STATUS_UNAVAILABLE},
    {"RST_STREAM INTERNAL_ERROR", 13, SENT_THEN_LOST, MS(1100), 0, false,
     WEIR_ORIGIN_TRANSPORT_RESET, GRPC_STATUS_INTERNAL},
    {"a proxy's 503", 14, HTTP_ERROR, MS(1100), 0, false, WEIR_ORIGIN_TRANSPORT_RESET,
     GRPC_STATUS_UNAVAILABLE},
    {"the server's quota", 8, TRAILERS_ONLY, MS(1100), 0, false, WEIR_ORIGIN_PEER,
     GRPC_STATUS_RESOURCE_EXHAUSTED},
    {"the server's quota after headers", 8, HEADERS_AND_TRAILERS, MS(1100), 0, false,
     WEIR_ORIGIN_PEER, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {"the core's limit on metadata", 8, SENT_THEN_LOST, MS(1100), 0, false, WEIR_ORIGIN_LOCAL_LIMIT,
     GRPC_STATUS_RESOURCE_EXHAUSTED},
    {"a message that can't be decompressed", 2, REFUSED_MESSAGE, MS(1100), 0, false,
     WEIR_ORIGIN_PEER, GRPC_STATUS_INTERNAL},
    {"UNKNOWN after headers", 2, HEADERS_AND_TRAILERS, MS(1100), 0, false, WEIR_ORIGIN_PEER,
     GRPC_STATUS_UNKNOWN},
    {"the core's limit on messages", 8, REFUSED_MESSAGE, MS(1100), 0, false,
     WEIR_ORIGIN_LOCAL_LIMIT, GRPC_STATUS_RESOURCE_EXHAUSTED},
};

static void the_origin_is_told_by_signals_not_by_the_code(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof origin_rows / sizeof origin_rows[0]; i++) {
    const struct origin_row *row = &origin_rows[i];
    struct weir__wire_result result = wire_result(row->status, row->signals, row->ended_at_ns);
    result.cancelled_by_us = row->by_us != 0;
    result.cancel_code = (grpc_status_code)row->by_us;
    result.has_parent = row->has_parent;

    struct weir_outcome outcome = classify(&result);

    if (outcome.origin != row->origin || outcome.code != row->code) {
      fail_msg("%s: %s from %s", row->why, weir_status_code_name(outcome.code),
               weir_origin_name(outcome.origin));
    }
  }
}

/* What each code means when it is the peer's. */
static const struct {
  grpc_status_code code;
  enum weir_blame blames;
  enum weir_breaker_verdict verdict;
} peer_rows[] = {
    {GRPC_STATUS_OK, WEIR_BLAME_NOBODY, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_CANCELLED, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_UNKNOWN, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_INVALID_ARGUMENT, WEIR_BLAME_CLIENT, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_FAILURE},
    {GRPC_STATUS_NOT_FOUND, WEIR_BLAME_NOBODY, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_ALREADY_EXISTS, WEIR_BLAME_NOBODY, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_PERMISSION_DENIED, WEIR_BLAME_CLIENT, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_FAILED_PRECONDITION, WEIR_BLAME_CLIENT, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_ABORTED, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_FAILURE},
    {GRPC_STATUS_OUT_OF_RANGE, WEIR_BLAME_CLIENT, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_UNIMPLEMENTED, WEIR_BLAME_CLIENT, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_INTERNAL, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_UNAVAILABLE, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_FAILURE},
    {GRPC_STATUS_DATA_LOSS, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_SUCCESS},
    {GRPC_STATUS_UNAUTHENTICATED, WEIR_BLAME_CLIENT, WEIR_BREAKER_VERDICT_SUCCESS},
};

static void a_peers_code_has_one_meaning(void **state) {
  (void)state;
  assert_int_equal(sizeof peer_rows / sizeof peer_rows[0], WEIR_N_STATUS_CODES);
  for (size_t i = 0; i < sizeof peer_rows / sizeof peer_rows[0]; i++) {
    const char *name = weir_status_code_name(peer_rows[i].code);
    struct weir__wire_result result =
        wire_result((int)peer_rows[i].code, (struct weir__wire_signals)TRAILERS_ONLY, MS(1100));

    struct weir_outcome outcome = classify(&result);

    if (outcome.blames != peer_rows[i].blames) {
      fail_msg("%s blames %s", name, weir_blame_name(outcome.blames));
    }
    if (outcome.breaker_verdict != peer_rows[i].verdict) {
      fail_msg("%s: breaker's verdict %d", name, (int)outcome.breaker_verdict);
    }
    if (outcome.retryable != (peer_rows[i].code != GRPC_STATUS_OK)) {
      fail_msg("%s: retryable %d", name, (int)outcome.retryable);
    }
    assert_int_equal(outcome.sent_to_peer, WEIR_SENT_TO_PEER_YES);
    assert_true(weir_outcome_reached_server(&outcome));
  }
}

/* What an origin makes of it. */
static const struct {
  const char *why;
  int status;
  struct weir__wire_signals signals;
  enum weir_blame blames;
  enum weir_breaker_verdict verdict;
  bool retryable;
  enum weir_sent_to_peer sent;
} consequence_rows[] = {
    {"refused", 14, NO_CONNECTION, WEIR_BLAME_NETWORK, WEIR_BREAKER_VERDICT_FAILURE, true,
     WEIR_SENT_TO_PEER_NO},
    {"our misconfiguration is not the client's fault, nor proof of a transport", 3, NO_CONNECTION,
     WEIR_BLAME_NETWORK, WEIR_BREAKER_VERDICT_IGNORED, true, WEIR_SENT_TO_PEER_NO},
    {"reset", 14, SENT_THEN_LOST, WEIR_BLAME_NETWORK, WEIR_BREAKER_VERDICT_FAILURE, true,
     WEIR_SENT_TO_PEER_MAYBE},
    {"reset as INTERNAL", 13, SENT_THEN_LOST, WEIR_BLAME_NETWORK, WEIR_BREAKER_VERDICT_SUCCESS,
     true, WEIR_SENT_TO_PEER_MAYBE},
    {"reset after headers", 14, HEADERS_THEN_LOST, WEIR_BLAME_NETWORK, WEIR_BREAKER_VERDICT_FAILURE,
     true, WEIR_SENT_TO_PEER_YES},
    {"a GOAWAY before it", 14, NOT_SEEN, WEIR_BLAME_NETWORK, WEIR_BREAKER_VERDICT_FAILURE, true,
     WEIR_SENT_TO_PEER_NO},
    {"a black hole has no other sign", 4, SILENCE, WEIR_BLAME_SERVER, WEIR_BREAKER_VERDICT_FAILURE,
     false, WEIR_SENT_TO_PEER_MAYBE},
    {"a black hole on the way", 4, NO_CONNECTION, WEIR_BLAME_NETWORK, WEIR_BREAKER_VERDICT_FAILURE,
     false, WEIR_SENT_TO_PEER_NO},
    {"a size limit of ours", 8, REFUSED_MESSAGE, WEIR_BLAME_CLIENT, WEIR_BREAKER_VERDICT_IGNORED,
     false, WEIR_SENT_TO_PEER_YES},
};

static void what_follows_depends_on_the_origin(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof consequence_rows / sizeof consequence_rows[0]; i++) {
    struct weir__wire_result result =
        wire_result(consequence_rows[i].status, consequence_rows[i].signals, MS(2000));
    struct weir_outcome outcome = classify(&result);
    if (outcome.blames != consequence_rows[i].blames ||
        outcome.breaker_verdict != consequence_rows[i].verdict ||
        outcome.retryable != consequence_rows[i].retryable ||
        outcome.sent_to_peer != consequence_rows[i].sent) {
      fail_msg("%s: blames %s, verdict %d, retryable %d, sent %d", consequence_rows[i].why,
               weir_blame_name(outcome.blames), (int)outcome.breaker_verdict,
               (int)outcome.retryable, (int)outcome.sent_to_peer);
    }
  }
}

static void our_own_cancellation_is_nobodys_fault(void **state) {
  (void)state;
  struct weir__wire_result result = wire_result(14, (struct weir__wire_signals)SILENCE, MS(1100));
  result.cancelled_by_us = true;
  result.cancel_code = GRPC_STATUS_UNAVAILABLE;

  struct weir_outcome outcome = classify(&result);

  assert_int_equal(outcome.origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(outcome.blames, WEIR_BLAME_NOBODY);
  assert_int_equal(outcome.breaker_verdict, WEIR_BREAKER_VERDICT_IGNORED);
  assert_false(weir_outcome_is_retryable(&outcome));
  assert_false(weir_outcome_blames_downstream(&outcome));
}

static void an_attempt_without_any_time_does_not_count(void **state) {
  (void)state;
  struct weir__wire_result result =
      wire_result(4, (struct weir__wire_signals)NO_CONNECTION, MS(1000));
  result.deadline_at_ns = STARTED_AT_NS;

  struct weir_outcome outcome = classify(&result);

  assert_int_equal(outcome.breaker_verdict, WEIR_BREAKER_VERDICT_IGNORED);
  assert_int_equal(outcome.blames, WEIR_BLAME_NOBODY);
}

static void our_limit_on_the_response_wins_over_the_status(void **state) {
  (void)state;
  struct weir__wire_result result =
      wire_result(0, (struct weir__wire_signals)HEADERS_AND_TRAILERS, MS(1100));
  result.got_message = true;
  result.limit_exceeded = true;

  struct weir_outcome outcome = classify(&result);

  assert_int_equal(outcome.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(outcome.origin, WEIR_ORIGIN_LOCAL_LIMIT);
  assert_int_equal(outcome.breaker_verdict, WEIR_BREAKER_VERDICT_IGNORED);
}

static void the_servers_quota_after_a_message_is_the_servers(void **state) {
  (void)state;
  struct weir__wire_result result =
      wire_result(8, (struct weir__wire_signals){2, 2, 0, false, true}, MS(1100));
  result.got_message = true;

  assert_int_equal(classify(&result).origin, WEIR_ORIGIN_PEER);
}

static const struct {
  const char *why;
  struct weir__wire_signals signals;
  bool got_message;
  bool committed;
} commit_rows[] = {
    {"Trailers-Only", TRAILERS_ONLY, false, false},
    {"headers", HEADERS_AND_TRAILERS, false, true},
    {"headers, then lost", HEADERS_THEN_LOST, false, true},
    {"a message", {2, 2, 0, false, true}, true, true},
    {"lost before headers", SENT_THEN_LOST, false, false},
    {"no connection", NO_CONNECTION, false, false},
    {"an HTTP error", HTTP_ERROR, false, false},
    {"headers may have come unasked for", {0, 2, 0, true, true}, false, true},
};

static void headers_or_a_message_commit(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof commit_rows / sizeof commit_rows[0]; i++) {
    struct weir__wire_result result = wire_result(14, commit_rows[i].signals, MS(1100));
    result.got_message = commit_rows[i].got_message;
    struct weir_outcome outcome = classify(&result);
    if (outcome.committed != commit_rows[i].committed) {
      fail_msg("%s: committed %d", commit_rows[i].why, (int)outcome.committed);
    }
    assert_int_equal(outcome.got_message, commit_rows[i].got_message);
  }
}

static const struct {
  const char *why;
  struct weir__wire_signals signals;
  bool untrusted;
  enum weir_blame blames;
} cut_off_rows[] = {
    {"silence", SILENCE, false, WEIR_BLAME_SERVER},
    {"no connection yet", NO_CONNECTION, false, WEIR_BLAME_NETWORK},
    {"in the middle of Trailers-Only", HALF_TRAILERS_ONLY, false, WEIR_BLAME_SERVER},
    {"as headers came", HEADERS_THEN_LOST, false, WEIR_BLAME_SERVER},
    {"without signals", SILENCE, true, WEIR_BLAME_SERVER},
};

/* Long before the call's own deadline, and with a parent that might have had a nearer one. */
static void an_attempt_that_was_cut_off_ran_out_of_its_own_time(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cut_off_rows / sizeof cut_off_rows[0]; i++) {
    struct weir__wire_result result = wire_result(4, cut_off_rows[i].signals, MS(1100));
    result.timed_out = true;
    result.has_parent = true;
    result.signals_trusted = !cut_off_rows[i].untrusted;
    struct weir_outcome outcome = classify(&result);
    if (outcome.origin != WEIR_ORIGIN_LOCAL_DEADLINE ||
        outcome.deadline_bound != WEIR_DEADLINE_BOUND_ATTEMPT ||
        outcome.code != GRPC_STATUS_DEADLINE_EXCEEDED || !outcome.retryable ||
        outcome.blames != cut_off_rows[i].blames ||
        outcome.breaker_verdict != WEIR_BREAKER_VERDICT_FAILURE) {
      fail_msg("%s", cut_off_rows[i].why);
    }
  }
}

static void silence_until_the_deadline_does_not_commit(void **state) {
  (void)state;
  struct weir__wire_result result = wire_result(4, (struct weir__wire_signals)SILENCE, MS(2000));

  assert_false(classify(&result).committed);
}

static void only_an_unavailable_call_may_be_unprocessed(void **state) {
  (void)state;
  struct weir__wire_result refused = wire_result(14, (struct weir__wire_signals)NOT_SEEN, MS(1100));
  /* trailers with details that are not base64: the server has seen the call */
  struct weir__wire_result garbled = wire_result(2, (struct weir__wire_signals)NOT_SEEN, MS(1100));
  struct weir__wire_result cancelled =
      wire_result(14, (struct weir__wire_signals)NOT_SEEN, MS(1100));
  cancelled.cancelled_by_us = true;
  cancelled.cancel_code = GRPC_STATUS_UNAVAILABLE;

  assert_true(classify(&refused).unprocessed);
  assert_false(classify(&garbled).unprocessed);
  assert_false(classify(&cancelled).unprocessed);
}

static const struct {
  const char *why;
  const char *words;
  struct weir__wire_signals signals;
  int status;
  enum weir_origin origin;
  bool signals_trusted;
  bool unprocessed;
} reset_rows[] = {
    {"REFUSED_STREAM", "Received RST_STREAM with error code 7", SENT_THEN_LOST, 14,
     WEIR_ORIGIN_TRANSPORT_RESET, true, true},
    {"REFUSED_STREAM after headers", "Received RST_STREAM with error code 7", HEADERS_THEN_LOST, 14,
     WEIR_ORIGIN_TRANSPORT_RESET, true, false},
    {"REFUSED_STREAM, says the peer", "Received RST_STREAM with error code 7", TRAILERS_ONLY, 14,
     WEIR_ORIGIN_PEER, true, false},
    {"REFUSED_STREAM, by a core that is not known", "Received RST_STREAM with error code 7",
     SENT_THEN_LOST, 14, WEIR_ORIGIN_PEER, false, false},
    {"another code", "Received RST_STREAM with error code 77", SENT_THEN_LOST, 14,
     WEIR_ORIGIN_TRANSPORT_RESET, true, false},
    {"closed", "Socket closed", SENT_THEN_LOST, 14, WEIR_ORIGIN_TRANSPORT_RESET, true, false},
    {"closed, amid trailers or before it was sent", "Socket closed", NOT_SEEN, 14,
     WEIR_ORIGIN_TRANSPORT_RESET, true, false},
    {"a GOAWAY", "GOAWAY received", NOT_SEEN, 14, WEIR_ORIGIN_TRANSPORT_RESET, true, true},
    {"ENHANCE_YOUR_CALM", "Received RST_STREAM with error code 11", SENT_THEN_LOST, 8,
     WEIR_ORIGIN_TRANSPORT_RESET, true, false},
    {"ENHANCE_YOUR_CALM after headers", "Received RST_STREAM with error code 11", HEADERS_THEN_LOST,
     8, WEIR_ORIGIN_TRANSPORT_RESET, true, false},
    {"the core's limit on metadata", "received initial metadata size exceeds limit", SENT_THEN_LOST,
     8, WEIR_ORIGIN_LOCAL_LIMIT, true, false},
};

static void the_cores_words_tell_what_the_peer_has_reset(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof reset_rows / sizeof reset_rows[0]; i++) {
    struct weir__wire_result result =
        wire_result(reset_rows[i].status, reset_rows[i].signals, MS(1100));
    result.details = grpc_slice_from_static_string(reset_rows[i].words);
    result.signals_trusted = reset_rows[i].signals_trusted;

    struct weir_outcome outcome = classify(&result);

    if (outcome.origin != reset_rows[i].origin ||
        outcome.unprocessed != reset_rows[i].unprocessed) {
      fail_msg("%s: from %s, unprocessed %d", reset_rows[i].why, weir_origin_name(outcome.origin),
               (int)outcome.unprocessed);
    }
    assert_int_equal(outcome.sent_to_peer == WEIR_SENT_TO_PEER_NO, outcome.unprocessed);
  }
}

static const struct {
  const char *why;
  int status;
  int64_t ended_at_ns;
  int by_us;
  enum weir_origin origin;
} untrusted_rows[] = {
    {"connection refused", 14, MS(1100), 0, WEIR_ORIGIN_PEER},
    {"a quota or a limit", 8, MS(1100), 0, WEIR_ORIGIN_PEER},
    {"cancelled by whom", 1, MS(1100), 0, WEIR_ORIGIN_PEER},
    {"we cancelled", 1, MS(1100), 1, WEIR_ORIGIN_LOCAL_CANCEL},
    {"a deadline before ours", 4, MS(1100), 0, WEIR_ORIGIN_PEER},
    {"our deadline", 4, MS(2000), 0, WEIR_ORIGIN_LOCAL_DEADLINE},
};

static void without_signals_the_safe_side_is_chosen(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof untrusted_rows / sizeof untrusted_rows[0]; i++) {
    struct weir__wire_result result =
        wire_result(untrusted_rows[i].status, (struct weir__wire_signals)NOT_SEEN,
                    untrusted_rows[i].ended_at_ns);
    result.signals_trusted = false;
    result.cancelled_by_us = untrusted_rows[i].by_us != 0;
    result.cancel_code = (grpc_status_code)untrusted_rows[i].by_us;

    struct weir_outcome outcome = classify(&result);

    if (outcome.origin != untrusted_rows[i].origin) {
      fail_msg("%s: %s", untrusted_rows[i].why, weir_origin_name(outcome.origin));
    }
    assert_true(outcome.committed);
    assert_false(outcome.unprocessed);
    assert_int_equal(outcome.sent_to_peer, WEIR_SENT_TO_PEER_MAYBE);
  }
}

/* The status is seen when the queue is drained, which may be late: after the deadline. */
static void a_parents_cancellation_that_is_seen_late_is_no_deadline_of_ours(void **state) {
  (void)state;
  static const struct {
    enum weir_deadline_bound bound;
    enum weir_origin origin;
  } rows[] = {
      {WEIR_DEADLINE_BOUND_CALL, WEIR_ORIGIN_LOCAL_CANCEL},
      {WEIR_DEADLINE_BOUND_POLICY, WEIR_ORIGIN_LOCAL_CANCEL},
      {WEIR_DEADLINE_BOUND_ATTEMPT, WEIR_ORIGIN_LOCAL_CANCEL},
      {WEIR_DEADLINE_BOUND_PARENT, WEIR_ORIGIN_LOCAL_DEADLINE}, /* that was up, and is told so */
  };
  for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
    struct weir__wire_result late = wire_result(1, (struct weir__wire_signals)SILENCE, MS(5000));
    late.has_parent = true;
    late.deadline_bound = rows[i / 2].bound;
    late.signals_trusted = i % 2 == 0;
    struct weir_outcome outcome = classify(&late);
    assert_int_equal(outcome.origin, rows[i / 2].origin);
    assert_int_equal(outcome.deadline_bound, rows[i / 2].bound);
    assert_false(outcome.retryable);
  }
}

static void without_signals_a_parents_cancellation_is_known_by_nothing_having_come(void **state) {
  (void)state;
  static const struct {
    const char *why;
    struct weir__wire_signals signals;
    bool has_parent;
    const char *words;
    enum weir_origin origin;
  } rows[] = {
      {"before it was sent", NO_CONNECTION, true, "CANCELLED", WEIR_ORIGIN_LOCAL_CANCEL},
      {"in silence", SILENCE, true, "CANCELLED", WEIR_ORIGIN_LOCAL_CANCEL},
      {"by nobody's parent", SILENCE, false, "CANCELLED", WEIR_ORIGIN_PEER},
      {"by the peer", TRAILERS_ONLY, true, "CANCELLED", WEIR_ORIGIN_PEER},
      {"by the peer's reset", NO_CONNECTION, true, "Received RST_STREAM with error code 8",
       WEIR_ORIGIN_PEER},
      {"once headers had come", HEADERS_THEN_LOST, true, "CANCELLED", WEIR_ORIGIN_PEER},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir__wire_result result = wire_result(1, rows[i].signals, MS(1100));
    result.details = grpc_slice_from_static_string(rows[i].words);
    result.has_parent = rows[i].has_parent;
    result.signals_trusted = false;
    struct weir_outcome outcome = classify(&result);
    if (outcome.origin != rows[i].origin) {
      fail_msg("%s: %s", rows[i].why, weir_origin_name(outcome.origin));
    }
    assert_int_equal(outcome.breaker_verdict, rows[i].origin == WEIR_ORIGIN_PEER
                                                  ? WEIR_BREAKER_VERDICT_SUCCESS
                                                  : WEIR_BREAKER_VERDICT_IGNORED);
  }
}

static void a_deadline_well_before_ours_was_the_parents(void **state) {
  (void)state;
  struct weir__wire_result early = wire_result(4, (struct weir__wire_signals)SILENCE, MS(1500));
  early.has_parent = true;
  struct weir__wire_result in_time = wire_result(4, (struct weir__wire_signals)SILENCE, MS(1990));
  in_time.has_parent = true;
  struct weir__wire_result alone = wire_result(4, (struct weir__wire_signals)SILENCE, MS(1500));
  struct weir__wire_result unbounded = early;
  unbounded.deadline_at_ns = WEIR_NO_DEADLINE;
  unbounded.deadline_bound = WEIR_DEADLINE_BOUND_NONE;

  assert_int_equal(classify(&early).deadline_bound, WEIR_DEADLINE_BOUND_PARENT);
  assert_int_equal(classify(&in_time).deadline_bound, WEIR_DEADLINE_BOUND_CALL);
  assert_int_equal(classify(&alone).deadline_bound, WEIR_DEADLINE_BOUND_CALL);
  assert_int_equal(classify(&unbounded).deadline_bound, WEIR_DEADLINE_BOUND_PARENT);
}

static const struct {
  const char *text;
  enum weir_pushback pushback;
  int64_t delay_ns;
} pushback_rows[] = {
    {"0", WEIR_PUSHBACK_DELAY, 0},
    {"1", WEIR_PUSHBACK_DELAY, MS(1)},
    {"200", WEIR_PUSHBACK_DELAY, MS(200)},
    {"2147483647", WEIR_PUSHBACK_DELAY, MS(INT64_C(2147483647))},
    {"2147483648", WEIR_PUSHBACK_STOP, 0},
    {"1000000000000", WEIR_PUSHBACK_STOP, 0},
    {"100000000000000000000", WEIR_PUSHBACK_STOP, 0},
    {"18446744073709551617", WEIR_PUSHBACK_STOP, 0}, /* 1, if 64 bits wrapped */
    {"-1", WEIR_PUSHBACK_STOP, 0},
    {"-9223372036854775808", WEIR_PUSHBACK_STOP, 0}, /* the core's rendering of garbage */
    {"-0", WEIR_PUSHBACK_STOP, 0},
    {"-", WEIR_PUSHBACK_STOP, 0},
    {"", WEIR_PUSHBACK_STOP, 0},
    {"abc", WEIR_PUSHBACK_STOP, 0},
    {"1.5", WEIR_PUSHBACK_STOP, 0},
    {"1 ", WEIR_PUSHBACK_STOP, 0},
    {" 1", WEIR_PUSHBACK_STOP, 0},
    {"+5", WEIR_PUSHBACK_STOP, 0},
    {"050", WEIR_PUSHBACK_STOP, 0},
    {"00", WEIR_PUSHBACK_STOP, 0},
};

static grpc_metadata metadata(const char *key, const char *value) {
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  entry.key = grpc_slice_from_static_string(key);
  entry.value = grpc_slice_from_static_string(value);
  return entry;
}

static struct weir_outcome classify_with_trailing(const grpc_metadata *trailing, size_t length) {
  struct weir__wire_result result =
      wire_result(14, (struct weir__wire_signals){1, 2 + length, length, false, true}, MS(1100));
  result.trailing = trailing;
  return classify(&result);
}

static void pushback_is_read_strictly(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof pushback_rows / sizeof pushback_rows[0]; i++) {
    const grpc_metadata trailing[] = {metadata("grpc-retry-pushback-ms", pushback_rows[i].text)};
    struct weir_outcome outcome = classify_with_trailing(trailing, 1);
    if (outcome.pushback != pushback_rows[i].pushback ||
        outcome.pushback_delay_ns != pushback_rows[i].delay_ns) {
      fail_msg("\"%s\": pushback %d, %lld ns", pushback_rows[i].text, (int)outcome.pushback,
               (long long)outcome.pushback_delay_ns);
    }
  }
}

static void the_last_pushback_wins_and_other_keys_are_none(void **state) {
  (void)state;
  const grpc_metadata two[] = {metadata("grpc-retry-pushback-ms", "10"), metadata("x-a", "1"),
                               metadata("grpc-retry-pushback-ms", "20")};
  const grpc_metadata stop_first[] = {metadata("grpc-retry-pushback-ms", "-1"),
                                      metadata("grpc-retry-pushback-ms", "20")};
  const grpc_metadata others[] = {metadata("grpc-retry-pushback-m", "10"),
                                  metadata("x-grpc-retry-pushback-ms", "10")};

  assert_int_equal(classify_with_trailing(two, 3).pushback_delay_ns, MS(20));
  assert_int_equal(classify_with_trailing(stop_first, 2).pushback, WEIR_PUSHBACK_DELAY);
  assert_int_equal(classify_with_trailing(others, 2).pushback, WEIR_PUSHBACK_NONE);
  assert_int_equal(classify_with_trailing(NULL, 0).pushback, WEIR_PUSHBACK_NONE);
}

static const struct {
  enum weir_origin origin;
  bool attempted;
  grpc_status_code code;
  enum weir_blame blames;
  enum weir_breaker_verdict verdict;
} local_rows[] = {
    {WEIR_ORIGIN_LOCAL_BREAKER, false, GRPC_STATUS_UNAVAILABLE, WEIR_BLAME_SERVER,
     WEIR_BREAKER_VERDICT_IGNORED},
    {WEIR_ORIGIN_LOCAL_DEADLINE, false, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_BLAME_NOBODY,
     WEIR_BREAKER_VERDICT_IGNORED},
    {WEIR_ORIGIN_LOCAL_DEADLINE, true, GRPC_STATUS_DEADLINE_EXCEEDED, WEIR_BLAME_SERVER,
     WEIR_BREAKER_VERDICT_FAILURE},
    {WEIR_ORIGIN_LOCAL_CANCEL, false, GRPC_STATUS_CANCELLED, WEIR_BLAME_NOBODY,
     WEIR_BREAKER_VERDICT_IGNORED},
    {WEIR_ORIGIN_LOCAL_CANCEL, true, GRPC_STATUS_CANCELLED, WEIR_BLAME_NOBODY,
     WEIR_BREAKER_VERDICT_IGNORED},
    {WEIR_ORIGIN_LOCAL_LIMIT, false, GRPC_STATUS_RESOURCE_EXHAUSTED, WEIR_BLAME_CLIENT,
     WEIR_BREAKER_VERDICT_IGNORED},
    {WEIR_ORIGIN_LOCAL_SHUTDOWN, true, GRPC_STATUS_CANCELLED, WEIR_BLAME_NOBODY,
     WEIR_BREAKER_VERDICT_IGNORED},
};

static void ends_made_here_have_their_codes_and_no_retry(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof local_rows / sizeof local_rows[0]; i++) {
    const struct weir__local_end end = {.origin = local_rows[i].origin,
                                        .attempted = local_rows[i].attempted,
                                        .started_at_ns = 5,
                                        .ended_at_ns = 7,
                                        .deadline_bound = WEIR_DEADLINE_BOUND_POLICY};
    struct weir_outcome outcome;
    weir__outcome_local(&end, &outcome);

    if (outcome.code != local_rows[i].code || outcome.blames != local_rows[i].blames ||
        outcome.breaker_verdict != local_rows[i].verdict) {
      fail_msg("%s: %s, blames %s, verdict %d", weir_origin_name(end.origin),
               weir_status_code_name(outcome.code), weir_blame_name(outcome.blames),
               (int)outcome.breaker_verdict);
    }
    assert_int_equal(outcome.origin, end.origin);
    assert_false(outcome.retryable);
    assert_int_equal(outcome.sent_to_peer,
                     end.attempted ? WEIR_SENT_TO_PEER_MAYBE : WEIR_SENT_TO_PEER_NO);
    assert_int_equal(outcome.started_at_ns, 5);
    assert_int_equal(outcome.ended_at_ns, 7);
    assert_int_equal(outcome.deadline_bound, WEIR_DEADLINE_BOUND_POLICY);
  }
}

static void a_local_cancellation_keeps_the_code_that_was_given(void **state) {
  (void)state;
  struct weir__local_end end = {.origin = WEIR_ORIGIN_LOCAL_CANCEL,
                                .cancel_code = GRPC_STATUS_FAILED_PRECONDITION};
  struct weir_outcome outcome;

  weir__outcome_local(&end, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_FAILED_PRECONDITION);

  end.cancel_code = (grpc_status_code)77;
  weir__outcome_local(&end, &outcome);
  assert_int_equal(outcome.code, GRPC_STATUS_UNKNOWN);
}

static void downstream_is_server_or_network(void **state) {
  (void)state;
  struct weir_outcome outcome = {.blames = WEIR_BLAME_SERVER};
  assert_true(weir_outcome_blames_downstream(&outcome));
  outcome.blames = WEIR_BLAME_NETWORK;
  assert_true(weir_outcome_blames_downstream(&outcome));
  outcome.blames = WEIR_BLAME_CLIENT;
  assert_false(weir_outcome_blames_downstream(&outcome));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_origin_is_told_by_signals_not_by_the_code),
      cmocka_unit_test(a_peers_code_has_one_meaning),
      cmocka_unit_test(what_follows_depends_on_the_origin),
      cmocka_unit_test(our_own_cancellation_is_nobodys_fault),
      cmocka_unit_test(an_attempt_without_any_time_does_not_count),
      cmocka_unit_test(our_limit_on_the_response_wins_over_the_status),
      cmocka_unit_test(the_servers_quota_after_a_message_is_the_servers),
      cmocka_unit_test(headers_or_a_message_commit),
      cmocka_unit_test(an_attempt_that_was_cut_off_ran_out_of_its_own_time),
      cmocka_unit_test(silence_until_the_deadline_does_not_commit),
      cmocka_unit_test(only_an_unavailable_call_may_be_unprocessed),
      cmocka_unit_test(the_cores_words_tell_what_the_peer_has_reset),
      cmocka_unit_test(without_signals_the_safe_side_is_chosen),
      cmocka_unit_test(without_signals_a_parents_cancellation_is_known_by_nothing_having_come),
      cmocka_unit_test(a_parents_cancellation_that_is_seen_late_is_no_deadline_of_ours),
      cmocka_unit_test(a_deadline_well_before_ours_was_the_parents),
      cmocka_unit_test(pushback_is_read_strictly),
      cmocka_unit_test(the_last_pushback_wins_and_other_keys_are_none),
      cmocka_unit_test(ends_made_here_have_their_codes_and_no_retry),
      cmocka_unit_test(a_local_cancellation_keeps_the_code_that_was_given),
      cmocka_unit_test(downstream_is_server_or_network),
  };
  return cmocka_run_group_tests_name("outcome", tests, NULL, NULL);
}
