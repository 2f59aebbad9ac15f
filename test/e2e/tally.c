/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/tally.h"

#include <stdbool.h>

static bool is_refused(const struct weir_call_report *report) {
  return report->reason == WEIR_REASON_BREAKER_OPEN && report->n_attempts == 0;
}

/* While the last of the probes that have succeeded closes the breaker, a call may be let through the
 * next moment; in a ramp it may be so at any. */
static bool says_when(const struct weir_call_report *report) {
  switch (report->breaker_state) {
  case WEIR_BREAKER_CLOSED:
    return report->next_probe_in_ns == 0;
  case WEIR_BREAKER_OPEN:
    return report->next_probe_in_ns > 0;
  case WEIR_BREAKER_HALF_OPEN:
    break;
  }
  return report->next_probe_in_ns >= 0;
}

static bool is_refused_well(const struct weir_call_report *report) {
  return report->code == GRPC_STATUS_UNAVAILABLE && report->raw_code == GRPC_STATUS_UNAVAILABLE &&
         report->origin == WEIR_ORIGIN_LOCAL_BREAKER && says_when(report) && report->do_not_retry &&
         !report->caller_may_retry;
}

/* A server that is stopped tells its calls so. */
static bool is_cut_off(const struct weir_call_report *report) {
  return report->n_attempts > 0 && report->origin == WEIR_ORIGIN_PEER &&
         report->raw_code == GRPC_STATUS_CANCELLED;
}

static bool is_expired(const struct weir_call_report *report) {
  return report->n_attempts == 0 && report->origin == WEIR_ORIGIN_LOCAL_DEADLINE &&
         report->reason == WEIR_REASON_DEADLINE;
}

static bool has_failed_well(const struct weir_call_report *report) {
  return report->n_attempts > 0 && report->reason != WEIR_REASON_NONE &&
         (report->raw_code == GRPC_STATUS_UNAVAILABLE ||
          report->raw_code == GRPC_STATUS_DEADLINE_EXCEEDED);
}

void tally_add(struct tally *tally, const struct weir_call_report *report) {
  tally->n_calls++;
  tally->n_attempts += report->n_attempts;
  tally->n_admitted += report->n_attempts > 0;
  if (report->code == GRPC_STATUS_OK) {
    tally->n_ok++;
  } else if (is_cut_off(report)) {
    tally->n_cut_off++;
  } else if (is_expired(report)) {
    tally->n_expired++;
  } else if (is_refused(report)) {
    tally->n_refused++;
    tally->n_ramped += report->breaker_state == WEIR_BREAKER_CLOSED;
    tally->n_odd += !is_refused_well(report);
  } else {
    tally->n_odd += !has_failed_well(report);
  }
}
