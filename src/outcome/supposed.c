/* SPDX-License-Identifier: Apache-2.0 */
#include "src/outcome/supposed.h"

#include <stddef.h>

#include <grpc/slice.h>

#include <weir/clock.h>

#include "src/outcome/outcome.h"
#include "src/outcome/wire_signals.h"

#define PUSHBACK_KEY "grpc-retry-pushback-ms"

/* What the core says of a stream that the peer has reset with ENHANCE_YOUR_CALM: the one way to a
 * RESOURCE_EXHAUSTED of the transport's. */
#define CALM_WORDS "Received RST_STREAM with error code 11"

static enum weir__wire_ending ending_of(const struct weir__supposed_end *end) {
  switch (end->origin) {
  case WEIR_ORIGIN_PEER:
    return end->after_headers ? WEIR__WIRE_ENDING_TRAILERS : WEIR__WIRE_ENDING_TRAILERS_ONLY;
  case WEIR_ORIGIN_TRANSPORT_CONNECT:
    return WEIR__WIRE_ENDING_NO_CONNECTION;
  case WEIR_ORIGIN_TRANSPORT_RESET:
    if (end->unprocessed) {
      return WEIR__WIRE_ENDING_UNPROCESSED;
    }
    return end->after_headers ? WEIR__WIRE_ENDING_HEADERS_LOST : WEIR__WIRE_ENDING_LOST;
  case WEIR_ORIGIN_LOCAL_DEADLINE:
  case WEIR_ORIGIN_LOCAL_CANCEL:
  case WEIR_ORIGIN_LOCAL_BREAKER:
  case WEIR_ORIGIN_LOCAL_LIMIT:
  case WEIR_ORIGIN_LOCAL_SHUTDOWN:
    break;
  }
  return WEIR__WIRE_ENDING_SILENCE;
}

/* Without an attempt, or between two of them. */
static bool is_made_here(const struct weir__supposed_end *end) {
  return !end->attempted || end->origin == WEIR_ORIGIN_LOCAL_BREAKER ||
         end->origin == WEIR_ORIGIN_LOCAL_SHUTDOWN;
}

static void classify_local(const struct weir__supposed_end *end, struct weir_outcome *outcome_out) {
  const struct weir__local_end local = {
      .origin = end->origin,
      .attempted = end->attempted,
      .cancel_code = end->code,
      .started_at_ns = end->started_at_ns,
      .ended_at_ns = end->ended_at_ns,
      .deadline_bound = end->deadline_bound,
  };
  weir__outcome_local(&local, outcome_out);
}

static grpc_slice words_of(const struct weir__supposed_end *end) {
  if (end->origin != WEIR_ORIGIN_TRANSPORT_RESET) {
    return grpc_empty_slice();
  }
  if (end->unprocessed) {
    return weir__wire_words_of_goaway();
  }
  return end->code == GRPC_STATUS_RESOURCE_EXHAUSTED ? grpc_slice_from_static_string(CALM_WORDS)
                                                     : grpc_empty_slice();
}

static void classify_attempt(const struct weir__supposed_end *end,
                             struct weir_outcome *outcome_out) {
  bool is_deadline = end->origin == WEIR_ORIGIN_LOCAL_DEADLINE;
  grpc_metadata trailing = {.key = grpc_slice_from_static_string(PUSHBACK_KEY)};
  struct weir__wire_result result = {
      .status = (int)end->code,
      .signals = weir__wire_signals_of(ending_of(end)),
      .signals_trusted = true,
      .trailing = &trailing,
      .details = words_of(end),
      .cancelled_by_us = end->origin == WEIR_ORIGIN_LOCAL_CANCEL,
      .cancel_code = end->code,
      .limit_exceeded = end->origin == WEIR_ORIGIN_LOCAL_LIMIT,
      .timed_out = is_deadline && end->deadline_bound == WEIR_DEADLINE_BOUND_ATTEMPT,
      .started_at_ns = end->started_at_ns,
      .ended_at_ns = end->ended_at_ns,
      .deadline_at_ns = end->deadline_at_ns,
      .deadline_bound = end->deadline_bound,
  };
  if (end->pushback != NULL) {
    trailing.value = grpc_slice_from_static_string(end->pushback);
    result.signals.trailing_count = 1;
  }
  weir__outcome_classify(&result, outcome_out);
}

bool weir__outcome_suppose(const struct weir__supposed_end *end, struct weir_outcome *outcome_out) {
  if (is_made_here(end)) {
    classify_local(end, outcome_out);
  } else {
    classify_attempt(end, outcome_out);
  }
  return outcome_out->code == end->code && outcome_out->origin == end->origin;
}
