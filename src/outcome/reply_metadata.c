/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include <grpc/slice.h>

#include <weir/report.h>

size_t weir_reply_metadata(const struct weir_call_report *report,
                           grpc_metadata metadata_out[WEIR_REPLY_METADATA_MAX]) {
  size_t known = offsetof(struct weir_call_report, do_not_retry) + sizeof report->do_not_retry;
  if (report->size < known || !report->do_not_retry) {
    return 0;
  }
  memset(&metadata_out[0], 0, sizeof metadata_out[0]);
  metadata_out[0].key = grpc_slice_from_static_string("grpc-retry-pushback-ms");
  metadata_out[0].value = grpc_slice_from_static_string("-1"); /* A6: negative = do not retry */
  return 1;
}
