/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "src/call/call.h"

#define NS_PER_US 1000

/* Another call may go better: the failure is the server's or the network's, and nothing says that
 * it will stay. */
static bool caller_may_retry(const weir_call *call) {
  return weir_outcome_is_retryable(&call->outcome) &&
         weir_outcome_blames_downstream(&call->outcome) && !call->plan.do_not_retry;
}

enum weir_error weir_call_get_report(const weir_call *call, struct weir_call_report *report_out) {
  if (report_out->size < sizeof report_out->size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  /* acquire: pairs with the end of the call */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) == 0) {
    return WEIR_ERROR_UNAVAILABLE;
  }
  struct weir_call_report report = {
      .code = call->plan.visible_code,
      .raw_code = call->outcome.code,
      .origin = call->outcome.origin,
      .blames = call->outcome.blames,
      .deadline_bound = call->outcome.deadline_bound,
      .reason = call->plan.reason,
      .breaker_state = call->plan.breaker_state,
      .n_attempts = call->n_sent,
      .total_ns = call->outcome.ended_at_ns - call->plan.started_at_ns,
      .next_probe_in_ns = call->plan.next_probe_in_ns,
      .fallback_source = NULL,
      .do_not_retry = call->plan.do_not_retry,
      .caller_may_retry = caller_may_retry(call),
  };
  memcpy(report.reference, call->reference, sizeof report.reference);
  for (uint8_t i = 0; i < call->n_records; i++) {
    const struct weir__attempt_record *record = &call->records[i];
    report.attempts[i] = (struct weir_attempt_report){
        .code = (grpc_status_code)record->code,
        .origin = (enum weir_origin)record->origin,
        .started_after_ns = (int64_t)record->started_after_us * NS_PER_US,
        .duration_ns = (int64_t)record->duration_us * NS_PER_US,
    };
  }
  report.size = report_out->size < sizeof report ? report_out->size : sizeof report;
  memcpy(report_out, &report, report.size);
  return WEIR_OK;
}
