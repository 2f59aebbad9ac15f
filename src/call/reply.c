/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <grpc/slice.h>

#include <weir/reply.h>

#include "interceptors/translation/translation.h"

/* A program that was compiled with an older header has a shorter report. */
#define HAS_FIELD(report, field) \
  ((report)->size >= offsetof(struct weir_call_report, field) + sizeof(report)->field)

size_t weir_reply_metadata(const struct weir_call_report *report,
                           grpc_metadata metadata_out[WEIR_REPLY_METADATA_MAX]) {
  if (!HAS_FIELD(report, do_not_retry) || !report->do_not_retry) {
    return 0;
  }
  memset(&metadata_out[0], 0, sizeof metadata_out[0]);
  metadata_out[0].key = grpc_slice_from_static_string("grpc-retry-pushback-ms");
  metadata_out[0].value = grpc_slice_from_static_string("-1"); /* A6: negative = do not retry */
  return 1;
}

static grpc_status_code code_of(const struct weir_call_report *report) {
  int code = HAS_FIELD(report, code) ? (int)report->code : GRPC_STATUS_UNKNOWN;
  return code >= 0 && code < WEIR_N_STATUS_CODES ? (grpc_status_code)code : GRPC_STATUS_UNKNOWN;
}

/* The reference as it was made, or NULL: what else a program may have put there is not sent. */
static const char *reference_of(const struct weir_call_report *report) {
  if (!HAS_FIELD(report, reference) ||
      memchr(report->reference, '\0', sizeof report->reference) == NULL) {
    return NULL;
  }
  size_t length = strspn(report->reference, "0123456789abcdef");
  return length == WEIR_REFERENCE_LENGTH ? report->reference : NULL;
}

void weir_reply_status(const struct weir_call_report *report, struct weir_reply *reply_out,
                       grpc_op *op_out) {
  grpc_status_code code = code_of(report);
  size_t length = 0;
  size_t n_metadata = 0;
  memset(reply_out, 0, sizeof *reply_out);
  if (code != GRPC_STATUS_OK) {
    length = weir__translation_message(code, reference_of(report), reply_out->message);
    n_metadata = weir_reply_metadata(report, reply_out->trailing_metadata);
  }
  reply_out->details = grpc_slice_from_static_buffer(reply_out->message, length);

  memset(op_out, 0, sizeof *op_out);
  op_out->op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  op_out->data.send_status_from_server.trailing_metadata_count = n_metadata;
  op_out->data.send_status_from_server.trailing_metadata = reply_out->trailing_metadata;
  op_out->data.send_status_from_server.status = code;
  op_out->data.send_status_from_server.status_details = &reply_out->details;
}
