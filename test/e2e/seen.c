/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/seen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

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

static void see_text(struct seen *seen, const char *text) {
  see_bytes(seen, text, strlen(text));
}

static void see_entries(struct seen *seen, const grpc_metadata *metadata, size_t count) {
  for (size_t i = 0; i < count; i++) {
    see_slice(seen, metadata[i].key);
    see_slice(seen, metadata[i].value);
  }
}

/* Each byte, and not each member: nothing may be left in between either. */
static bool is_blank(const grpc_metadata *entry) {
  const unsigned char *bytes = (const unsigned char *)entry;
  size_t n_blank = 0;
  while (n_blank < sizeof *entry && bytes[n_blank] == 0) {
    n_blank++;
  }
  return n_blank == sizeof *entry;
}

static void see_metadata(struct seen *seen, const grpc_metadata_array *array) {
  see_entries(seen, array->metadata, array->count);
  for (size_t i = array->count; i < array->capacity; i++) {
    seen->n_behind += is_blank(&array->metadata[i]) ? 0 : 1;
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

static void see_details(struct seen *seen, grpc_slice details) {
  see_slice(seen, details);
  see_bytes(seen, &details, sizeof details); /* a short one is inlined, with something behind it */
}

/* What a service answers its own caller because of the call. */
static void see_answer(struct seen *seen, const struct weir_call_report *report) {
  struct weir_reply reply;
  grpc_op op;
  memset(&reply, 0, sizeof reply);
  weir_reply_status(report, &reply, &op);
  see_bytes(seen, reply.message, sizeof reply.message);
  see_slice(seen, *op.data.send_status_from_server.status_details);
  see_entries(seen, op.data.send_status_from_server.trailing_metadata,
              op.data.send_status_from_server.trailing_metadata_count);
}

static void see_report(struct seen *seen, const struct weir_call_report *report) {
  grpc_metadata metadata[WEIR_REPLY_METADATA_MAX];
  see_bytes(seen, report, sizeof *report);
  see_entries(seen, metadata, weir_reply_metadata(report, metadata));
  see_answer(seen, report);
  see_text(seen, weir_status_code_name(report->code));
  see_text(seen, weir_status_code_name(report->raw_code));
  see_text(seen, weir_origin_name(report->origin));
  see_text(seen, weir_blame_name(report->blames));
  see_text(seen, weir_deadline_bound_name(report->deadline_bound));
  see_text(seen, weir_reason_name(report->reason));
  if (report->fallback_source != NULL) {
    see_text(seen, report->fallback_source);
  }
}

/* What comes with the status. */
static void see_status(struct seen *seen, const struct unary *unary) {
  see_details(seen, unary->details);
  see_metadata(seen, &unary->trailing_metadata);
  if (unary->error_string != NULL) {
    see_text(seen, unary->error_string);
  }
  see_report(seen, &unary->report);
}

void see_unary(struct seen *seen, const struct unary *unary) {
  see_status(seen, unary);
  see_metadata(seen, &unary->initial_metadata);
  see_message(seen, unary->message);
}

void see_shaped(struct seen *seen, const struct shaped_call *call) {
  see_status(seen, &call->unary);
  if (!call->metadata_early) {
    see_metadata(seen, &call->unary.initial_metadata);
  }
  if (!call->message_early) {
    see_message(seen, call->unary.message);
  }
}

void see_reply(struct seen *seen, const struct weir_unary_reply *reply) {
  see_details(seen, reply->details);
  see_metadata(seen, &reply->initial_metadata);
  see_metadata(seen, &reply->trailing_metadata);
  see_message(seen, reply->message);
  see_report(seen, &reply->report);
}

void see_peer(struct seen *seen, weir_call *call, weir_channel *channel) {
  char *peer = weir_call_get_peer(call);
  char *target = weir_channel_get_target(channel);
  if (strcmp(peer, target) != 0) {
    see_text(seen, peer);
  }
  gpr_free(target);
  gpr_free(peer);
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
