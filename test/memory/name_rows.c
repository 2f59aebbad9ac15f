/* What is only looked up. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/memory/trial.h"

static void name_everything(struct trial *trial) {
  trial_begin(trial);
  for (int i = -1; i < 20; i++) {
    (void)weir_blame_name((enum weir_blame)i);
    (void)weir_breaker_refusal_name((enum weir_breaker_refusal)i);
    (void)weir_breaker_state_name((enum weir_breaker_state)i);
    (void)weir_deadline_bound_name((enum weir_deadline_bound)i);
    (void)weir_error_name((enum weir_error)i);
    (void)weir_error_string((enum weir_error)i);
    (void)weir_fallback_result_name((enum weir_fallback_result)i);
    (void)weir_origin_name((enum weir_origin)i);
    (void)weir_reason_name((enum weir_reason)i);
    (void)weir_status_code_name((grpc_status_code)i);
  }
  (void)weir_version_string();
  trial_end(trial);
}

static void ask_an_outcome(struct trial *trial) {
  struct weir_outcome outcome;
  memset(&outcome, 0, sizeof outcome);
  outcome.retryable = true;
  trial_begin(trial);
  const bool is_retryable = weir_outcome_is_retryable(&outcome);
  (void)weir_outcome_blames_downstream(&outcome);
  (void)weir_outcome_reached_server(&outcome);
  trial_end(trial);
  assert_true(is_retryable);
}

static void reply_by_a_report(struct trial *trial) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  struct weir_reply reply;
  grpc_metadata metadata[WEIR_REPLY_METADATA_MAX];
  grpc_op op;
  report.code = GRPC_STATUS_UNAVAILABLE;
  report.do_not_retry = true;
  trial_begin(trial);
  weir_reply_status(&report, &reply, &op);
  const size_t n_entries = weir_reply_metadata(&report, metadata);
  trial_end(trial);
  assert_int_equal(n_entries, 1);
  assert_int_equal(op.data.send_status_from_server.status, GRPC_STATUS_UNAVAILABLE);
}

const struct trial_row name_rows[] = {
    {"weir_blame_name", TAKES_NOTHING, name_everything},
    {"weir_breaker_refusal_name", TAKES_NOTHING, name_everything},
    {"weir_breaker_state_name", TAKES_NOTHING, name_everything},
    {"weir_deadline_bound_name", TAKES_NOTHING, name_everything},
    {"weir_error_name", TAKES_NOTHING, name_everything},
    {"weir_error_string", TAKES_NOTHING, name_everything},
    {"weir_fallback_result_name", TAKES_NOTHING, name_everything},
    {"weir_origin_name", TAKES_NOTHING, name_everything},
    {"weir_reason_name", TAKES_NOTHING, name_everything},
    {"weir_status_code_name", TAKES_NOTHING, name_everything},
    {"weir_version_string", TAKES_NOTHING, name_everything},
    {"weir_outcome_blames_downstream", TAKES_NOTHING, ask_an_outcome},
    {"weir_outcome_is_retryable", TAKES_NOTHING, ask_an_outcome},
    {"weir_outcome_reached_server", TAKES_NOTHING, ask_an_outcome},
    {"weir_reply_metadata", TAKES_NOTHING, reply_by_a_report},
    {"weir_reply_status", TAKES_NOTHING, reply_by_a_report},
    TRIAL_ROWS_END,
};
