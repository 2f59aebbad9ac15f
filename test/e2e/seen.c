/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/seen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

const grpc_status_code boundary_codes[WEIR_N_STATUS_CODES] = {
    [GRPC_STATUS_OK] = GRPC_STATUS_OK,
    [GRPC_STATUS_CANCELLED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNKNOWN] = GRPC_STATUS_UNKNOWN,
    [GRPC_STATUS_INVALID_ARGUMENT] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_DEADLINE_EXCEEDED] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_NOT_FOUND,
    [GRPC_STATUS_ALREADY_EXISTS] = GRPC_STATUS_ALREADY_EXISTS,
    [GRPC_STATUS_PERMISSION_DENIED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [GRPC_STATUS_FAILED_PRECONDITION] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_ABORTED] = GRPC_STATUS_ABORTED,
    [GRPC_STATUS_OUT_OF_RANGE] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNIMPLEMENTED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_INTERNAL] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_DATA_LOSS] = GRPC_STATUS_DATA_LOSS,
    [GRPC_STATUS_UNAUTHENTICATED] = GRPC_STATUS_INTERNAL,
};

void see_bytes(struct seen *seen, const void *bytes, size_t size) {
  assert_true(seen->size + size < SEEN_SIZE);
  if (size > 0) {
    memcpy(seen->bytes + seen->size, bytes, size);
    seen->size += size;
  }
  seen->bytes[seen->size++] = '\n';
}

static void see_slice(struct seen *seen, grpc_slice slice) {
  see_bytes(seen, GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice));
}

static void see_metadata(struct seen *seen, const grpc_metadata *metadata, size_t count) {
  for (size_t i = 0; i < count; i++) {
    see_slice(seen, metadata[i].key);
    see_slice(seen, metadata[i].value);
  }
}

static void see_message(struct seen *seen, grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  if (message != NULL && grpc_byte_buffer_reader_init(&reader, message) != 0) {
    grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
    see_slice(seen, bytes);
    grpc_slice_unref(bytes);
    grpc_byte_buffer_reader_destroy(&reader);
  }
}

static void see_report(struct seen *seen, const struct weir_call_report *report) {
  grpc_metadata metadata[WEIR_REPLY_METADATA_MAX];
  see_bytes(seen, report, sizeof *report);
  see_metadata(seen, metadata, weir_reply_metadata(report, metadata));
}

void see_unary(struct seen *seen, const struct unary *unary) {
  see_slice(seen, unary->details);
  see_metadata(seen, unary->initial_metadata.metadata, unary->initial_metadata.count);
  see_metadata(seen, unary->trailing_metadata.metadata, unary->trailing_metadata.count);
  see_message(seen, unary->message);
  if (unary->error_string != NULL) {
    see_bytes(seen, unary->error_string, strlen(unary->error_string));
  }
  see_report(seen, &unary->report);
}

void see_reply(struct seen *seen, const struct weir_unary_reply *reply) {
  see_slice(seen, reply->details);
  see_metadata(seen, reply->initial_metadata.metadata, reply->initial_metadata.count);
  see_metadata(seen, reply->trailing_metadata.metadata, reply->trailing_metadata.count);
  see_message(seen, reply->message);
  see_report(seen, &reply->report);
}

size_t count_in(const char *bytes, size_t size, const char *text) {
  size_t length = strlen(text);
  size_t count = 0;
  for (size_t i = 0; i + length <= size; i++) {
    count += memcmp(bytes + i, text, length) == 0;
  }
  return count;
}

size_t count_seen(const struct seen *seen, const char *text) {
  return count_in(seen->bytes, seen->size, text);
}
