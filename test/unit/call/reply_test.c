/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include <weir/outcome.h>
#include <weir/policy.h>
#include <weir/reply.h>
#include <weir/report.h>

#include <cmocka.h>

#include "interceptors/translation/translation.h"

#define REFERENCE "0123456789ab"

static void a_reply_says_do_not_retry_when_the_report_does(void **state) {
  (void)state;
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  grpc_metadata metadata[WEIR_REPLY_METADATA_MAX];

  assert_int_equal(weir_reply_metadata(&report, metadata), 0);

  report.do_not_retry = true;
  assert_int_equal(weir_reply_metadata(&report, metadata), 1);
  assert_int_equal(grpc_slice_str_cmp(metadata[0].key, "grpc-retry-pushback-ms"), 0);
  assert_int_equal(grpc_slice_str_cmp(metadata[0].value, "-1"), 0);
}

static void a_report_without_the_field_says_nothing(void **state) {
  (void)state;
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  grpc_metadata metadata[WEIR_REPLY_METADATA_MAX];
  report.do_not_retry = true;
  report.size = offsetof(struct weir_call_report, do_not_retry);

  assert_int_equal(weir_reply_metadata(&report, metadata), 0);
}

static struct weir_call_report report_of(int code, const char *reference) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  report.code = (grpc_status_code)code;
  report.raw_code = GRPC_STATUS_PERMISSION_DENIED;
  memcpy(report.reference, reference, strlen(reference) + 1);
  return report;
}

/* Fills in from memory that was something else, and checks what every operation has. */
static void reply_make(const struct weir_call_report *report, struct weir_reply *reply,
                       grpc_op *op) {
  memset(reply, 0xa5, sizeof *reply);
  memset(op, 0xa5, sizeof *op);
  weir_reply_status(report, reply, op);
  assert_int_equal(op->op, GRPC_OP_SEND_STATUS_FROM_SERVER);
  assert_int_equal(op->flags, 0);
  assert_null(op->reserved);
  assert_ptr_equal(op->data.send_status_from_server.status_details, &reply->details);
  assert_ptr_equal(op->data.send_status_from_server.trailing_metadata, reply->trailing_metadata);
}

static void assert_message(const grpc_op *op, const char *expected) {
  const grpc_slice *details = op->data.send_status_from_server.status_details;
  if (grpc_slice_str_cmp(*details, expected) != 0) {
    fail_msg("%.*s, not %s", (int)GRPC_SLICE_LENGTH(*details),
             (const char *)GRPC_SLICE_START_PTR(*details), expected);
  }
}

static void a_failure_is_told_in_weirs_words(void **state) {
  (void)state;
  static const struct {
    const char *why;
    int code;
    const char *reference;
    grpc_status_code sent;
    const char *message;
  } rows[] = {
      {"folded", GRPC_STATUS_INTERNAL, REFERENCE, GRPC_STATUS_INTERNAL,
       "downstream service error [ref " REFERENCE "]"},
      {"kept", GRPC_STATUS_NOT_FOUND, REFERENCE, GRPC_STATUS_NOT_FOUND,
       "downstream service: NOT_FOUND [ref " REFERENCE "]"},
      {"no reference", GRPC_STATUS_UNAVAILABLE, "", GRPC_STATUS_UNAVAILABLE,
       "downstream service: UNAVAILABLE"},
      {"the longest", GRPC_STATUS_FAILED_PRECONDITION, REFERENCE, GRPC_STATUS_FAILED_PRECONDITION,
       "downstream service: FAILED_PRECONDITION [ref " REFERENCE "]"},
      {"beyond the codes", 17, REFERENCE, GRPC_STATUS_UNKNOWN,
       "downstream service: UNKNOWN [ref " REFERENCE "]"},
      {"far beyond", INT32_MAX, "", GRPC_STATUS_UNKNOWN, "downstream service: UNKNOWN"},
      {"negative", -1, "", GRPC_STATUS_UNKNOWN, "downstream service: UNKNOWN"},
      {"a short reference", GRPC_STATUS_ABORTED, "0123", GRPC_STATUS_ABORTED,
       "downstream service: ABORTED"},
      {"no reference of weir's", GRPC_STATUS_ABORTED, "table users!", GRPC_STATUS_ABORTED,
       "downstream service: ABORTED"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir_call_report report = report_of(rows[i].code, rows[i].reference);
    struct weir_reply reply;
    grpc_op op;
    reply_make(&report, &reply, &op);
    assert_int_equal(op.data.send_status_from_server.status, rows[i].sent);
    assert_message(&op, rows[i].message);
    assert_string_equal(reply.message, rows[i].message);
    assert_int_equal(op.data.send_status_from_server.trailing_metadata_count, 0);
  }
}

static void every_code_has_the_words_of_a_boundary(void **state) {
  (void)state;
  for (int code = 1; code < WEIR_N_STATUS_CODES; code++) {
    char expected[WEIR__TRANSLATION_MESSAGE_BYTES];
    struct weir_call_report report = report_of(code, REFERENCE);
    struct weir_reply reply;
    grpc_op op;
    reply_make(&report, &reply, &op);
    (void)weir__translation_message((grpc_status_code)code, REFERENCE, expected);
    assert_int_equal(op.data.send_status_from_server.status, code);
    assert_message(&op, expected);
  }
}

static void do_not_retry_goes_along(void **state) {
  (void)state;
  struct weir_call_report report = report_of(GRPC_STATUS_UNAVAILABLE, REFERENCE);
  struct weir_reply reply;
  grpc_op op;
  report.do_not_retry = true;
  reply_make(&report, &reply, &op);

  const grpc_metadata *metadata = op.data.send_status_from_server.trailing_metadata;
  assert_int_equal(op.data.send_status_from_server.trailing_metadata_count, 1);
  assert_int_equal(grpc_slice_str_cmp(metadata[0].key, "grpc-retry-pushback-ms"), 0);
  assert_int_equal(grpc_slice_str_cmp(metadata[0].value, "-1"), 0);
}

static void success_is_told_without_a_word(void **state) {
  (void)state;
  struct weir_call_report report = report_of(GRPC_STATUS_OK, REFERENCE);
  struct weir_reply reply;
  grpc_op op;
  report.do_not_retry = true;
  reply_make(&report, &reply, &op);

  assert_int_equal(op.data.send_status_from_server.status, GRPC_STATUS_OK);
  assert_message(&op, "");
  assert_int_equal(op.data.send_status_from_server.trailing_metadata_count, 0);
}

static void a_report_that_no_call_filled_in_is_no_success(void **state) {
  (void)state;
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  struct weir_reply reply;
  grpc_op op;
  reply_make(&report, &reply, &op);

  assert_int_equal(op.data.send_status_from_server.status, GRPC_STATUS_UNKNOWN);
  assert_message(&op, "downstream service: UNKNOWN");
}

/* Each on the heap and of its own size, so that a byte read too many is seen. */
static void a_report_of_any_size_is_read_as_far_as_it_goes(void **state) {
  (void)state;
  struct weir_call_report whole = report_of(GRPC_STATUS_UNAVAILABLE, REFERENCE);
  whole.do_not_retry = true;
  for (whole.size = sizeof whole.size; whole.size <= sizeof whole; whole.size++) {
    struct weir_reply reply;
    grpc_op op;
    struct weir_call_report *report = malloc(whole.size);
    memcpy(report, &whole, whole.size);
    reply_make(report, &reply, &op);
    free(report);

    bool has_code = whole.size >= offsetof(struct weir_call_report, code) + sizeof whole.code;
    bool has_reference =
        whole.size >= offsetof(struct weir_call_report, reference) + sizeof whole.reference;
    bool has_stop =
        whole.size >= offsetof(struct weir_call_report, do_not_retry) + sizeof whole.do_not_retry;
    assert_int_equal(op.data.send_status_from_server.status,
                     has_code ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_UNKNOWN);
    assert_int_equal(strstr(reply.message, "[ref " REFERENCE "]") != NULL, has_reference);
    assert_int_equal(op.data.send_status_from_server.trailing_metadata_count, has_stop);
  }
}

static void a_reference_without_an_end_is_left_out(void **state) {
  (void)state;
  struct weir_call_report report = report_of(GRPC_STATUS_ABORTED, "");
  struct weir_reply reply;
  grpc_op op;
  memset(report.reference, 'a', sizeof report.reference);
  reply_make(&report, &reply, &op);

  assert_message(&op, "downstream service: ABORTED");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reply_says_do_not_retry_when_the_report_does),
      cmocka_unit_test(a_report_without_the_field_says_nothing),
      cmocka_unit_test(a_failure_is_told_in_weirs_words),
      cmocka_unit_test(every_code_has_the_words_of_a_boundary),
      cmocka_unit_test(do_not_retry_goes_along),
      cmocka_unit_test(success_is_told_without_a_word),
      cmocka_unit_test(a_report_that_no_call_filled_in_is_no_success),
      cmocka_unit_test(a_report_of_any_size_is_read_as_far_as_it_goes),
      cmocka_unit_test(a_reference_without_an_end_is_left_out),
  };
  return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
