/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/attempt.h"

#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "src/call/slice.h"

grpc_op weir__attempt_op(struct weir__attempt *attempt, const grpc_op *op) {
  grpc_op own = *op;
  switch (op->op) {
  case GRPC_OP_RECV_INITIAL_METADATA:
    own.data.recv_initial_metadata.recv_initial_metadata = &attempt->initial_metadata;
    break;
  case GRPC_OP_RECV_MESSAGE:
    own.data.recv_message.recv_message = &attempt->message;
    break;
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
    own.data.recv_status_on_client.trailing_metadata = &attempt->trailing_metadata;
    own.data.recv_status_on_client.status = &attempt->status;
    own.data.recv_status_on_client.status_details = &attempt->details;
    own.data.recv_status_on_client.error_string = &attempt->error_string;
    break;
  case GRPC_OP_SEND_INITIAL_METADATA:
  case GRPC_OP_SEND_MESSAGE:
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    break;
  }
  return own;
}

static void free_text(const char **text) {
  void *memory = NULL;
  memcpy(&memory, text, sizeof memory); /* the core's out-parameter is const, its memory is not */
  gpr_free(memory);
  *text = NULL;
}

static void drop_metadata(grpc_metadata_array *array) {
  if (array->metadata != NULL) {
    grpc_metadata_array_destroy(array);
    grpc_metadata_array_init(array);
  }
}

void weir__attempt_drop_response(struct weir__attempt *attempt) {
  drop_metadata(&attempt->initial_metadata);
  drop_metadata(&attempt->trailing_metadata);
  if (attempt->message != NULL) {
    grpc_byte_buffer_destroy(attempt->message);
    attempt->message = NULL;
  }
  weir__slice_unref(&attempt->details);
  attempt->details = weir__slice_empty();
  if (attempt->error_string != NULL) {
    free_text(&attempt->error_string);
  }
}

void weir__attempt_fini(struct weir__attempt *attempt, const struct weir__transport *transport) {
  weir__attempt_drop_response(attempt);
  if (attempt->core != NULL) {
    transport->call_unref(transport->context, attempt->core);
    attempt->core = NULL;
  }
}
