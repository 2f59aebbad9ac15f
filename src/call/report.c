/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "interceptors/breaker/breaker_layer.h"
#include "src/base/zero.h"
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

static void report_breaker_name(const weir_call *call, struct weir_call_report *report) {
  weir_interceptor *breaker = call->rules->stack.breaker;
  if (breaker != NULL) {
    struct weir_bytes name = weir__breaker_layer_name(breaker, &call->plan);
    memcpy(report->breaker_name, name.data, name.size);
  }
}

/* Fills in a whole report. */
static void report_write(const weir_call *call, struct weir_call_report *report) {
  weir__zero(report, sizeof *report);
  report->size = sizeof *report;
  report->code = call->plan.visible_code;
  report->raw_code = call->outcome.code;
  report->origin = call->outcome.origin;
  report->blames = call->outcome.blames;
  report->deadline_bound = call->outcome.deadline_bound;
  report->reason = call->plan.reason;
  report->breaker_state = call->plan.breaker_state;
  report->n_attempts = call->n_sent;
  report->next_probe_in_ns = call->plan.next_probe_in_ns;
  report->fallback_source = weir__fallback_source(call);
  memcpy(report->reference, call->reference, sizeof report->reference);
  report->do_not_retry = call->plan.do_not_retry;
  report->caller_may_retry = caller_may_retry(call);
  report->deadline_clamped = call->plan.deadline_clamped;
  report->fallback_result = (enum weir_fallback_result)call->fallback_result;
  report->breaker_refusal = call->plan.breaker_refusal;
  report->breaker_generation = call->plan.breaker_generation;
  report_breaker_name(call, report);
  report_times(call, report);
  report_attempts(call, report);
}

/* For a program that was compiled with an older header. Apart, so that others need none of its
 * stack. */
__attribute__((noinline)) static void report_write_part(const weir_call *call,
                                                        struct weir_call_report *report_out) {
  struct weir_call_report report;
  report_write(call, &report);
  report.size = report_out->size;
  memcpy(report_out, &report, report.size);
}

enum weir_error weir_call_get_report(const weir_call *call, struct weir_call_report *report_out) {
  if (report_out->size < sizeof report_out->size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  /* acquire: pairs with the end of the call */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) == 0) {
    return WEIR_ERROR_UNAVAILABLE;
  }
  if (report_out->size >= sizeof *report_out) {
    report_write(call, report_out);
  } else {
    report_write_part(call, report_out);
  }
  return WEIR_OK;
}
