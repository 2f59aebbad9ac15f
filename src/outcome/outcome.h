/* outcome – the one place where codes, metadata and signals become a meaning.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_OUTCOME_OUTCOME_H
#define WEIR_SRC_OUTCOME_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/outcome.h>

#include "src/outcome/wire_signals.h"

/* All that is known of an ended attempt. */
struct weir__wire_result {
  int status; /* as the core gave it: a peer may send any number */
  struct weir__wire_signals signals;
  bool signals_trusted;          /* false: committed, and the peer's unless it is plainly ours */
  bool got_message;              /* a response message, not the end of the stream */
  const grpc_metadata *trailing; /* signals.trailing_count of them; borrowed */
  grpc_slice details;            /* the status's words, the peer's or the core's; borrowed */
  bool cancelled_by_us;          /* grpc_call_cancel or weir's own, before the attempt had ended */
  grpc_status_code cancel_code;  /* with cancelled_by_us: the status it was cancelled with */
  bool has_parent;               /* a server call's cancellation and deadline reach the attempt */
  bool limit_exceeded;           /* the response was larger than this process takes */
  bool timed_out; /* weir cancelled it because the time of the attempt was up, and this is that */
  int64_t started_at_ns;
  int64_t ended_at_ns;
  int64_t deadline_at_ns; /* WEIR_NO_DEADLINE = none */
  int64_t deadline_slack_ns;
  enum weir_deadline_bound deadline_bound;
};

/* Classifies an attempt that the core has ended. */
void weir__outcome_classify(const struct weir__wire_result *result,
                            struct weir_outcome *outcome_out);

/* The short way for an attempt that succeeded, which needs no signals: false when it did not, and
 * `*outcome_out` is then unchanged. */
bool weir__outcome_classify_success(int status, bool got_message, int64_t started_at_ns,
                                    int64_t ended_at_ns, struct weir_outcome *outcome_out);

/* A call that ended here, without the core. */
struct weir__local_end {
  enum weir_origin origin;      /* one of WEIR_ORIGIN_LOCAL_* */
  bool attempted;               /* an attempt of the call had been started */
  grpc_status_code cancel_code; /* of WEIR_ORIGIN_LOCAL_CANCEL; GRPC_STATUS_OK = CANCELLED */
  int64_t started_at_ns;
  int64_t ended_at_ns;
  enum weir_deadline_bound deadline_bound;
};

void weir__outcome_local(const struct weir__local_end *end, struct weir_outcome *outcome_out);

/* For layers, which do not compare codes. */
static inline bool weir__outcome_is_ok(const struct weir_outcome *outcome) {
  return outcome->code == GRPC_STATUS_OK;
}

static inline bool weir__outcome_is_deadline_exceeded(const struct weir_outcome *outcome) {
  return outcome->code == GRPC_STATUS_DEADLINE_EXCEEDED;
}

/* The time of one attempt was up, not that of its call. */
static inline bool weir__outcome_is_attempt_timeout(const struct weir_outcome *outcome) {
  return outcome->origin == WEIR_ORIGIN_LOCAL_DEADLINE &&
         outcome->deadline_bound == WEIR_DEADLINE_BOUND_ATTEMPT;
}

/* Made by this process, whatever the code says. */
static inline bool weir__outcome_is_local(const struct weir_outcome *outcome) {
  return outcome->origin >= WEIR_ORIGIN_LOCAL_DEADLINE;
}

#endif /* WEIR_SRC_OUTCOME_OUTCOME_H */
