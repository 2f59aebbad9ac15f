/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/judge.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* A call's clock and its maker's are read some instructions apart, by threads that may be held
 * up. */
#define SLACK_NS (WEIR_SECOND_NS * 5)

#define US_NS 1000

static void expect(const struct judged *judged, bool fine, const char *what) {
  const struct weir_call_report *report = judged->report;
  if (!fine) {
    ledger_blame(judged->ledger, judged->id, judged->who,
                 "%s (code %d, raw %d, %s, %s, %u attempts, fallback %d)", what, (int)report->code,
                 (int)report->raw_code, weir_reason_name(report->reason),
                 weir_origin_name(report->origin), report->n_attempts,
                 (int)report->fallback_result);
  }
}

static bool is_code(grpc_status_code code) {
  return code >= GRPC_STATUS_OK && code <= GRPC_STATUS_UNAUTHENTICATED;
}

static void judge_codes(const struct judged *judged) {
  const struct weir_call_report *report = judged->report;
  bool hit = report->fallback_result == WEIR_FALLBACK_HIT;
  expect(judged, is_code(judged->code) && is_code(report->raw_code), "a code that there is not");
  expect(judged, report->code == judged->code, "the report has another code than the call");
  expect(judged, (report->reason == WEIR_REASON_NONE) == (report->raw_code == GRPC_STATUS_OK),
         "a reason without a failure, or a failure without one");
  expect(judged, !hit || report->code == GRPC_STATUS_OK, "a fallback's answer that is no success");
  expect(judged, (report->code == GRPC_STATUS_OK) == (report->raw_code == GRPC_STATUS_OK || hit),
         "a success that nobody has given, or one that was taken away");
  expect(judged, (report->fallback_source != NULL) == hit, "a source without its answer");
  expect(judged, !(report->do_not_retry && report->caller_may_retry),
         "the caller may retry and may not");
}

static void judge_times(const struct judged *judged) {
  const struct weir_call_report *report = judged->report;
  int64_t parts_ns =
      report->attempts_ns + report->backoff_ns + report->queued_ns + report->fallback_ns;
  int64_t attempts_ns = 0;
  uint32_t n_told = report->n_attempts;
  n_told = n_told < WEIR_REPORT_ATTEMPTS ? n_told : WEIR_REPORT_ATTEMPTS;
  expect(judged, parts_ns == report->total_ns, "the parts of the time are not the whole");
  expect(judged,
         report->attempts_ns >= 0 && report->backoff_ns >= 0 && report->queued_ns >= 0 &&
             report->fallback_ns >= 0,
         "a part of the time is negative");
  expect(judged, report->total_ns <= judged->took_ns + SLACK_NS, "longer than it took");
  for (uint32_t i = 0; i < n_told; i++) {
    const struct weir_attempt_report *attempt = &report->attempts[i];
    attempts_ns += attempt->duration_ns;
    expect(judged,
           attempt->started_after_ns >= 0 && attempt->duration_ns >= 0 &&
               attempt->started_after_ns + attempt->duration_ns <= report->total_ns,
           "an attempt is outside of its call");
    expect(judged,
           i == 0 || attempt->started_after_ns >= report->attempts[i - 1].started_after_ns +
                                                      report->attempts[i - 1].duration_ns,
           "two attempts at once");
    expect(judged, is_code(attempt->code), "an attempt's code that there is not");
  }
  /* Each attempt's is told in whole microseconds. */
  expect(judged,
         n_told < report->n_attempts ||
             (attempts_ns <= report->attempts_ns &&
              report->attempts_ns - attempts_ns <= (int64_t)n_told * US_NS),
         "the attempts' times are not what they add up to");
}

uint32_t judge_max_attempts(const struct policy_facts *policy) {
  return policy != NULL ? policy->max_attempts : POLICIES_MAX_ATTEMPTS;
}

bool judge_was_replayed(const struct weir_call_report *report) {
  bool lost = false;
  for (uint32_t i = 0; i + 1 < report->n_attempts && i < WEIR_REPORT_ATTEMPTS; i++) {
    lost = lost || report->attempts[i].origin == WEIR_ORIGIN_TRANSPORT_RESET;
  }
  return lost;
}

static void judge_attempts(const struct judged *judged) {
  const struct weir_call_report *report = judged->report;
  uint32_t limit = judge_max_attempts(judged->policy) + judge_was_replayed(report);
  expect(judged, report->n_attempts <= limit, "more attempts than the policy has");
  expect(judged, report->n_attempts > 0 || report->raw_code != GRPC_STATUS_OK,
         "a success without an attempt");
  expect(judged, report->n_attempts <= 1 || report->backoff_ns >= 0, "no time between attempts");
  if (report->n_attempts > 0 && report->n_attempts <= WEIR_REPORT_ATTEMPTS &&
      report->raw_code == GRPC_STATUS_OK) {
    expect(judged, report->attempts[report->n_attempts - 1].code == GRPC_STATUS_OK,
           "a success whose last attempt has failed");
  }
}

/* A library must not hand on what a downstream wrote; nor, without a boundary, invent a
 * reference. */
static void judge_words(const struct judged *judged) {
  const struct weir_call_report *report = judged->report;
  static const char secret[] = POLICIES_SECRET;
  if (judged->policy == NULL || report->code == GRPC_STATUS_OK) {
    return;
  }
  expect(judged, (report->reference[0] != '\0') == judged->policy->boundary,
         judged->policy->boundary ? "no reference at a boundary" : "a reference, and no boundary");
  if (judged->policy->boundary) {
    size_t size = GRPC_SLICE_LENGTH(judged->details);
    const char *text = (const char *)GRPC_SLICE_START_PTR(judged->details);
    bool said = false;
    for (size_t i = 0; i + sizeof secret - 1 <= size; i++) {
      said = said || memcmp(text + i, secret, sizeof secret - 1) == 0;
    }
    expect(judged, !said, "a boundary lets the downstream's words through");
  }
}

void judge_call(const struct judged *judged) {
  judge_codes(judged);
  judge_times(judged);
  judge_attempts(judged);
  judge_words(judged);
}
