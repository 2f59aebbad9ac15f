/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "interceptors/breaker/breaker_layer.h"
#include "src/call/call.h"
#include "src/call/fallback.h"

#define NS_PER_US 1000

/* Another call may go better: the failure is the server's or the network's, and nothing says that
 * it will stay. */
static bool caller_may_retry(const weir_call *call) {
  return call->fallback_result != WEIR_FALLBACK_HIT && weir_outcome_is_retryable(&call->outcome) &&
         weir_outcome_blames_downstream(&call->outcome) && !call->plan.do_not_retry;
}

static int64_t at_most(int64_t ns, int64_t limit_ns) {
  return ns < limit_ns ? ns : limit_ns;
}

/* What ate the time. By these subtractions the parts are the whole, whatever the clock did. */
static void report_times(const weir_call *call, struct weir_call_report *report) {
  int64_t total_ns = call->outcome.ended_at_ns - call->plan.started_at_ns;
  report->total_ns = total_ns > 0 ? total_ns : 0;
  report->attempts_ns = call->attempts_ns > 0 ? at_most(call->attempts_ns, report->total_ns) : 0;
  report->backoff_ns = at_most(call->backoff_ns, report->total_ns - report->attempts_ns);
  int64_t rest_ns = report->total_ns - report->attempts_ns - report->backoff_ns;
  report->fallback_ns = at_most(weir__fallback_waited_ns(call), rest_ns);
  report->queued_ns = rest_ns - report->fallback_ns;
}

static void report_attempts(const weir_call *call, struct weir_call_report *report) {
  const struct weir__attempt_records *records = &call->records;
  for (uint8_t i = 0; i < call->n_records; i++) {
    report->attempts[i] = (struct weir_attempt_report){
        .code = (grpc_status_code)(records->ends[i] & WEIR__ATTEMPT_CODE_MASK),
        .origin = (enum weir_origin)(records->ends[i] >> WEIR__ATTEMPT_CODE_BITS),
        .started_after_ns = (int64_t)records->started_after_us[i] * NS_PER_US,
        .duration_ns = (int64_t)records->duration_us[i] * NS_PER_US,
    };
  }
}

static void report_breaker_name(const weir_call *call, char name_out[WEIR_REPORT_NAME_BYTES]) {
  weir_interceptor *breaker = call->rules->stack.breaker;
  if (breaker != NULL) {
    struct weir__breaker_name name;
    weir__breaker_layer_name(breaker, &call->plan, &name);
    memcpy(name_out, name.text, name.size + 1);
  }
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
      .next_probe_in_ns = call->plan.next_probe_in_ns,
      .fallback_source = weir__fallback_source(call),
      .do_not_retry = call->plan.do_not_retry,
      .caller_may_retry = caller_may_retry(call),
      .deadline_clamped = call->plan.deadline_clamped,
      .fallback_result = (enum weir_fallback_result)call->fallback_result,
      .breaker_refusal = call->plan.breaker_refusal,
      .breaker_generation = call->plan.breaker_generation,
  };
  report_breaker_name(call, report.breaker_name);
  memcpy(report.reference, call->reference, sizeof report.reference);
  report_times(call, &report);
  report_attempts(call, &report);
  report.size = report_out->size < sizeof report ? report_out->size : sizeof report;
  memcpy(report_out, &report, report.size);
  return WEIR_OK;
}
