/* SPDX-License-Identifier: Apache-2.0 */
#include "src/outcome/outcome.h"

#include <string.h>

#include <grpc/slice.h>

#include <weir/clock.h>
#include <weir/policy.h>

#include "src/time/instant.h"

#define PUSHBACK_KEY "grpc-retry-pushback-ms"

/* What a code means when it is the peer's. The breaker's failures are design, not opinion:
 * UNAVAILABLE, DEADLINE_EXCEEDED and ABORTED; every other answer proves that the transport works.
 */
struct code_meaning {
  enum weir_blame blames;
  enum weir_breaker_verdict verdict;
};

#define SUCCESS WEIR_BREAKER_VERDICT_SUCCESS
#define FAILURE WEIR_BREAKER_VERDICT_FAILURE
#define IGNORED WEIR_BREAKER_VERDICT_IGNORED

static const struct code_meaning code_meanings[WEIR_N_STATUS_CODES] = {
    [GRPC_STATUS_OK] = {WEIR_BLAME_NOBODY, SUCCESS},
    [GRPC_STATUS_CANCELLED] = {WEIR_BLAME_SERVER, SUCCESS}, /* not by us: the server gave up */
    [GRPC_STATUS_UNKNOWN] = {WEIR_BLAME_SERVER, SUCCESS},
    [GRPC_STATUS_INVALID_ARGUMENT] = {WEIR_BLAME_CLIENT, SUCCESS},
    [GRPC_STATUS_DEADLINE_EXCEEDED] = {WEIR_BLAME_SERVER, FAILURE},
    [GRPC_STATUS_NOT_FOUND] = {WEIR_BLAME_NOBODY, SUCCESS},      /* an answer about data */
    [GRPC_STATUS_ALREADY_EXISTS] = {WEIR_BLAME_NOBODY, SUCCESS}, /* likewise */
    [GRPC_STATUS_PERMISSION_DENIED] = {WEIR_BLAME_CLIENT, SUCCESS},
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = {WEIR_BLAME_SERVER,
                                        SUCCESS}, /* it may well have room later */
    [GRPC_STATUS_FAILED_PRECONDITION] = {WEIR_BLAME_CLIENT, SUCCESS},
    [GRPC_STATUS_ABORTED] = {WEIR_BLAME_SERVER, FAILURE},
    [GRPC_STATUS_OUT_OF_RANGE] = {WEIR_BLAME_CLIENT, SUCCESS},
    [GRPC_STATUS_UNIMPLEMENTED] = {WEIR_BLAME_CLIENT, SUCCESS},
    [GRPC_STATUS_INTERNAL] = {WEIR_BLAME_SERVER, SUCCESS},
    [GRPC_STATUS_UNAVAILABLE] = {WEIR_BLAME_SERVER, FAILURE},
    [GRPC_STATUS_DATA_LOSS] = {WEIR_BLAME_SERVER, SUCCESS},
    [GRPC_STATUS_UNAUTHENTICATED] = {WEIR_BLAME_CLIENT, SUCCESS},
};

/* What an origin makes of a code's meaning. */
struct origin_meaning {
  enum weir_blame blames;
  /* The verdict where the code says SUCCESS, and where it says FAILURE. */
  enum weir_breaker_verdict of_success;
  enum weir_breaker_verdict of_failure;
  bool blames_by_code; /* and not by `blames` */
  bool retryable;
};

static const struct origin_meaning origin_meanings[] = {
    [WEIR_ORIGIN_PEER] = {WEIR_BLAME_NOBODY, SUCCESS, FAILURE, true, true},
    /* Any other code than a failure's is our own misconfiguration (a channel that could not be
     * made, credentials that could not be had): no sign that a transport works, and never the
     * client's fault. */
    [WEIR_ORIGIN_TRANSPORT_CONNECT] = {WEIR_BLAME_NETWORK, IGNORED, FAILURE, false, true},
    [WEIR_ORIGIN_TRANSPORT_RESET] = {WEIR_BLAME_NETWORK, SUCCESS, FAILURE, false, true},
    /* The only sign of a black hole. */
    [WEIR_ORIGIN_LOCAL_DEADLINE] = {WEIR_BLAME_SERVER, FAILURE, FAILURE, false, false},
    [WEIR_ORIGIN_LOCAL_CANCEL] = {WEIR_BLAME_NOBODY, IGNORED, IGNORED, false, false},
    [WEIR_ORIGIN_LOCAL_BREAKER] = {WEIR_BLAME_SERVER, IGNORED, IGNORED, false, false},
    [WEIR_ORIGIN_LOCAL_LIMIT] = {WEIR_BLAME_CLIENT, IGNORED, IGNORED, false, false},
    [WEIR_ORIGIN_LOCAL_SHUTDOWN] = {WEIR_BLAME_NOBODY, IGNORED, IGNORED, false, false},
};

/* Fills what follows from code and origin. */
static void outcome_judge(struct weir_outcome *outcome) {
  const struct code_meaning *by_code = &code_meanings[outcome->code];
  const struct origin_meaning *by_origin = &origin_meanings[outcome->origin];
  outcome->blames = by_origin->blames_by_code ? by_code->blames : by_origin->blames;
  outcome->breaker_verdict =
      by_code->verdict == FAILURE ? by_origin->of_failure : by_origin->of_success;
  outcome->retryable = by_origin->retryable && !weir__outcome_is_ok(outcome);
}

static grpc_status_code code_from_wire(int status) {
  return status >= 0 && status < WEIR_N_STATUS_CODES ? (grpc_status_code)status
                                                     : GRPC_STATUS_UNKNOWN;
}

/* A status that says "deadline" or "cancelled" at or after our own deadline is our own deadline's
 * work. */
static bool is_own_deadline(const struct weir__wire_result *result, grpc_status_code code) {
  if (result->deadline_at_ns == WEIR_NO_DEADLINE) {
    return false;
  }
  if (code == GRPC_STATUS_DEADLINE_EXCEEDED) {
    return weir__instant_add(result->ended_at_ns, result->deadline_slack_ns) >=
           result->deadline_at_ns;
  }
  return code == GRPC_STATUS_CANCELLED && result->ended_at_ns >= result->deadline_at_ns;
}

static bool is_own_cancel(const struct weir__wire_result *result, grpc_status_code code) {
  return result->cancelled_by_us && (code == result->cancel_code || code == GRPC_STATUS_CANCELLED);
}

static enum weir_origin origin_with_trailers(const struct weir__wire_result *result,
                                             grpc_status_code code) {
  if (is_own_cancel(result, code)) {
    /* The trailers may be half of a header block that never ended. If they are whole and say the
     * same as the application, nothing is lost. */
    return WEIR_ORIGIN_LOCAL_CANCEL;
  }
  if (code == GRPC_STATUS_RESOURCE_EXHAUSTED && !result->got_message &&
      weir__wire_signals_message_refused(&result->signals)) {
    return WEIR_ORIGIN_LOCAL_LIMIT;
  }
  return is_own_deadline(result, code) ? WEIR_ORIGIN_LOCAL_DEADLINE : WEIR_ORIGIN_PEER;
}

/* The parent's: nothing had come, which with the core's retries on is also said of a stream that the
 * peer has reset. Once something has, a peer's reset with CANCEL looks the same as
 * the parent's cancellation; whose parent is gone reads no answer, so it is taken for the peer's. */
static bool is_parents_cancel(const struct weir__wire_result *result, grpc_status_code code) {
  uint32_t reset_code = 0;
  return code == GRPC_STATUS_CANCELLED && result->has_parent &&
         result->signals.initial_capacity == 0 &&
         !weir__wire_words_tell_reset(result->details, &reset_code);
}

/* However late it is seen: a time of our own is told as such, and only the parent's ends the
 * parent. */
static bool is_cancel_at_any_time(const struct weir__wire_result *result, grpc_status_code code) {
  return is_own_cancel(result, code) ||
         (is_parents_cancel(result, code) && result->deadline_bound != WEIR_DEADLINE_BOUND_PARENT);
}

/* The core made the status up. */
static enum weir_origin origin_without_trailers(const struct weir__wire_result *result,
                                                grpc_status_code code) {
  if (is_cancel_at_any_time(result, code)) {
    return WEIR_ORIGIN_LOCAL_CANCEL;
  }
  if (code == GRPC_STATUS_DEADLINE_EXCEEDED || is_own_deadline(result, code)) {
    return WEIR_ORIGIN_LOCAL_DEADLINE;
  }
  if (is_parents_cancel(result, code)) {
    return WEIR_ORIGIN_LOCAL_CANCEL;
  }
  uint32_t reset_code = 0;
  if (code == GRPC_STATUS_RESOURCE_EXHAUSTED &&
      !weir__wire_words_tell_reset(result->details, &reset_code)) {
    return WEIR_ORIGIN_LOCAL_LIMIT; /* and not the peer's ENHANCE_YOUR_CALM */
  }
  return weir__wire_signals_never_connected(&result->signals) ? WEIR_ORIGIN_TRANSPORT_CONNECT
                                                              : WEIR_ORIGIN_TRANSPORT_RESET;
}

/* Without signals: ours only where no peer could have said it. That nothing has come of one shows
 * with the core's retries on, too; a parent's cancellation that passed for an answer would close a
 * breaker. */
static enum weir_origin origin_untrusted(const struct weir__wire_result *result,
                                         grpc_status_code code) {
  if (is_cancel_at_any_time(result, code)) {
    return WEIR_ORIGIN_LOCAL_CANCEL;
  }
  if (is_own_deadline(result, code)) {
    return WEIR_ORIGIN_LOCAL_DEADLINE;
  }
  return is_parents_cancel(result, code) ? WEIR_ORIGIN_LOCAL_CANCEL : WEIR_ORIGIN_PEER;
}

static enum weir_origin origin_of(const struct weir__wire_result *result, grpc_status_code code) {
  if (result->limit_exceeded) {
    return WEIR_ORIGIN_LOCAL_LIMIT;
  }
  if (result->timed_out) {
    return WEIR_ORIGIN_LOCAL_DEADLINE;
  }
  if (!result->signals_trusted) {
    return origin_untrusted(result, code);
  }
  return weir__wire_signals_trailers_from_peer(&result->signals)
             ? origin_with_trailers(result, code)
             : origin_without_trailers(result, code);
}

/* The parent's deadline, handed on by the core, can be nearer than any that this process knows of.
 */
static enum weir_deadline_bound bound_of(const struct weir__wire_result *result,
                                         enum weir_origin origin) {
  if (result->timed_out && origin == WEIR_ORIGIN_LOCAL_DEADLINE) {
    return WEIR_DEADLINE_BOUND_ATTEMPT;
  }
  bool early =
      weir__instant_add(result->ended_at_ns, result->deadline_slack_ns) < result->deadline_at_ns;
  return origin == WEIR_ORIGIN_LOCAL_DEADLINE && result->has_parent && early
             ? WEIR_DEADLINE_BOUND_PARENT
             : result->deadline_bound;
}

/* A6: a signed 32-bit decimal without needless zeros; all else reads as "do not retry". */
static void pushback_parse(const uint8_t *text, size_t size, struct weir_outcome *outcome) {
  uint64_t delay_ms = 0;
  bool valid = size > 0 && (size == 1 || text[0] != '0');
  for (size_t i = 0; valid && i < size; i++) {
    valid = text[i] >= '0' && text[i] <= '9';
    delay_ms = delay_ms * 10 + (uint64_t)(text[i] - '0');
    valid = valid && delay_ms <= INT32_MAX;
  }
  outcome->pushback = valid ? WEIR_PUSHBACK_DELAY : WEIR_PUSHBACK_STOP;
  outcome->pushback_delay_ns = valid ? (int64_t)delay_ms * WEIR_MS_NS : 0;
}

/* In the trailing metadata only; the core leaves one of several, the last. */
static void pushback_read(const struct weir__wire_result *result, struct weir_outcome *outcome) {
  for (size_t i = 0; i < result->signals.trailing_count; i++) {
    const grpc_metadata *entry = &result->trailing[i];
    if (grpc_slice_str_cmp(entry->key, PUSHBACK_KEY) == 0) {
      pushback_parse(GRPC_SLICE_START_PTR(entry->value), GRPC_SLICE_LENGTH(entry->value), outcome);
    }
  }
}

/* Of a status that the core made up for a stream that is lost. */
static bool is_unprocessed(const struct weir__wire_result *result, grpc_status_code code) {
  uint32_t reset_code = 0;
  if (result->got_message || code != GRPC_STATUS_UNAVAILABLE) {
    return false;
  }
  return weir__wire_signals_unprocessed(&result->signals, result->details) ||
         (!weir__wire_signals_headers_received(&result->signals) &&
          weir__wire_words_tell_reset(result->details, &reset_code) &&
          reset_code == WEIR__HTTP2_REFUSED_STREAM);
}

/* A message that the core could not decompress: UNKNOWN in 1.51, INTERNAL by gRPC's
 * statuscodes.md. */
static bool is_undecodable(const struct weir__wire_result *result, grpc_status_code code) {
  return code == GRPC_STATUS_UNKNOWN && result->signals_trusted && !result->got_message &&
         weir__wire_signals_message_refused(&result->signals);
}

static enum weir_sent_to_peer sent_of(const struct weir__wire_result *result,
                                      const struct weir_outcome *outcome) {
  if (result->got_message) {
    return WEIR_SENT_TO_PEER_YES;
  }
  if (!result->signals_trusted) {
    return WEIR_SENT_TO_PEER_MAYBE;
  }
  if (outcome->unprocessed || weir__wire_signals_never_connected(&result->signals)) {
    return WEIR_SENT_TO_PEER_NO;
  }
  return weir__wire_signals_trailers_from_peer(&result->signals) ||
                 weir__wire_signals_headers_received(&result->signals)
             ? WEIR_SENT_TO_PEER_YES
             : WEIR_SENT_TO_PEER_MAYBE;
}

static bool is_committed(const struct weir__wire_result *result,
                         const struct weir_outcome *outcome) {
  if (result->got_message || !result->signals_trusted ||
      weir__wire_signals_headers_received(&result->signals)) {
    return true;
  }
  return !weir__outcome_is_local(outcome) && weir__wire_signals_headers_unknown(&result->signals);
}

/* LOCAL_DEADLINE whose call had no time to begin with, or that found no connection. */
static void deadline_refine(bool had_time, bool connected, struct weir_outcome *outcome) {
  if (!had_time) {
    outcome->blames = WEIR_BLAME_NOBODY;
    outcome->breaker_verdict = IGNORED;
  } else if (!connected) {
    outcome->blames = WEIR_BLAME_NETWORK;
  }
}

bool weir__outcome_classify_success(int status, bool got_message, int64_t started_at_ns,
                                    int64_t ended_at_ns, struct weir_outcome *outcome_out) {
  if (status != GRPC_STATUS_OK) {
    return false;
  }
  *outcome_out = (struct weir_outcome){
      .code = GRPC_STATUS_OK,
      .origin = WEIR_ORIGIN_PEER,
      .blames = WEIR_BLAME_NOBODY,
      .breaker_verdict = SUCCESS,
      .sent_to_peer = WEIR_SENT_TO_PEER_YES,
      .committed = true,
      .got_message = got_message,
      .started_at_ns = started_at_ns,
      .ended_at_ns = ended_at_ns,
  };
  return true;
}

void weir__outcome_classify(const struct weir__wire_result *result,
                            struct weir_outcome *outcome_out) {
  grpc_status_code code = code_from_wire(result->status);
  if (!result->limit_exceeded &&
      weir__outcome_classify_success(result->status, result->got_message, result->started_at_ns,
                                     result->ended_at_ns, outcome_out)) {
    outcome_out->deadline_bound = result->deadline_bound;
    return;
  }
  enum weir_origin origin = origin_of(result, code);
  if (origin == WEIR_ORIGIN_LOCAL_LIMIT) {
    code = GRPC_STATUS_RESOURCE_EXHAUSTED;
  } else if (origin == WEIR_ORIGIN_LOCAL_DEADLINE) {
    code = GRPC_STATUS_DEADLINE_EXCEEDED;
  } else if (is_undecodable(result, code)) {
    code = GRPC_STATUS_INTERNAL;
  }
  struct weir_outcome outcome = {
      .code = code,
      .origin = origin,
      .deadline_bound = bound_of(result, origin),
      .started_at_ns = result->started_at_ns,
      .ended_at_ns = result->ended_at_ns,
      .got_message = result->got_message,
  };
  outcome_judge(&outcome);
  if (origin == WEIR_ORIGIN_LOCAL_DEADLINE) {
    bool connected =
        !result->signals_trusted || !weir__wire_signals_never_connected(&result->signals);
    deadline_refine(result->deadline_at_ns > result->started_at_ns, connected, &outcome);
    outcome.retryable = weir__outcome_is_attempt_timeout(&outcome);
  }
  outcome.unprocessed = origin == WEIR_ORIGIN_TRANSPORT_RESET && is_unprocessed(result, code);
  outcome.committed = is_committed(result, &outcome);
  outcome.sent_to_peer = sent_of(result, &outcome);
  pushback_read(result, &outcome);
  *outcome_out = outcome;
}

static grpc_status_code local_code(const struct weir__local_end *end) {
  switch (end->origin) {
  case WEIR_ORIGIN_LOCAL_DEADLINE:
    return GRPC_STATUS_DEADLINE_EXCEEDED;
  case WEIR_ORIGIN_LOCAL_CANCEL:
    return end->cancel_code == GRPC_STATUS_OK ? GRPC_STATUS_CANCELLED
                                              : code_from_wire((int)end->cancel_code);
  case WEIR_ORIGIN_LOCAL_LIMIT:
    return GRPC_STATUS_RESOURCE_EXHAUSTED;
  case WEIR_ORIGIN_LOCAL_SHUTDOWN:
    return GRPC_STATUS_CANCELLED;
  case WEIR_ORIGIN_LOCAL_BREAKER:
  case WEIR_ORIGIN_PEER:
  case WEIR_ORIGIN_TRANSPORT_CONNECT:
  case WEIR_ORIGIN_TRANSPORT_RESET:
    break;
  }
  return GRPC_STATUS_UNAVAILABLE;
}

void weir__outcome_local(const struct weir__local_end *end, struct weir_outcome *outcome_out) {
  memset(outcome_out, 0, sizeof *outcome_out);
  outcome_out->code = local_code(end);
  outcome_out->origin = end->origin;
  outcome_out->deadline_bound = end->deadline_bound;
  outcome_out->sent_to_peer = end->attempted ? WEIR_SENT_TO_PEER_MAYBE : WEIR_SENT_TO_PEER_NO;
  outcome_out->started_at_ns = end->started_at_ns;
  outcome_out->ended_at_ns = end->ended_at_ns;
  outcome_judge(outcome_out);
  if (end->origin == WEIR_ORIGIN_LOCAL_DEADLINE) {
    deadline_refine(end->attempted, true, outcome_out);
  }
}

bool weir_outcome_is_retryable(const struct weir_outcome *outcome) {
  return outcome->retryable;
}

bool weir_outcome_blames_downstream(const struct weir_outcome *outcome) {
  return outcome->blames == WEIR_BLAME_SERVER || outcome->blames == WEIR_BLAME_NETWORK;
}

bool weir_outcome_reached_server(const struct weir_outcome *outcome) {
  return outcome->sent_to_peer == WEIR_SENT_TO_PEER_YES;
}
