/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/batched_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#define NO_STATUS ((grpc_status_code)-1)

struct batched_call *batched_call_new(weir_call *made) {
  assert_non_null(made);
  struct batched_call *call = calloc(1, sizeof *call);
  assert_non_null(call);
  call->call = made;
  grpc_metadata_array_init(&call->initial_metadata);
  grpc_metadata_array_init(&call->trailing_metadata);
  call->status = NO_STATUS;
  call->details = grpc_empty_slice();
  return call;
}

/* --- what is sent --- */

void batched_call_say_buffer(struct batched_call *call, grpc_byte_buffer *message) {
  assert_null(call->next_message);
  call->next_message = message;
}

void batched_call_say(struct batched_call *call, const char *text) {
  grpc_slice slice = grpc_slice_from_copied_string(text);
  batched_call_say_buffer(call, grpc_raw_byte_buffer_create(&slice, 1));
  grpc_slice_unref(slice);
}

void batched_call_say_bytes(struct batched_call *call, size_t size) {
  grpc_slice slice = grpc_slice_malloc(size);
  memset(GRPC_SLICE_START_PTR(slice), 'x', size);
  batched_call_say_buffer(call, grpc_raw_byte_buffer_create(&slice, 1));
  grpc_slice_unref(slice);
}

static void send_op_fill(struct batched_call *call, struct call_batch *batch,
                         enum batched_op batched, grpc_op *op) {
  if (batched == SEND_METADATA) {
    op->op = GRPC_OP_SEND_INITIAL_METADATA;
    op->flags = call->metadata_flags;
    op->data.send_initial_metadata.metadata = call->metadata;
    op->data.send_initial_metadata.count = call->n_metadata;
  } else if (batched == SEND_MESSAGE) {
    if (call->next_message == NULL) {
      batched_call_say(call, "foo");
    }
    batch->sent = call->next_message;
    call->next_message = NULL;
    op->op = GRPC_OP_SEND_MESSAGE;
    op->data.send_message.send_message = batch->sent;
  } else {
    op->op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  }
}

static void op_fill(struct batched_call *call, struct call_batch *batch, enum batched_op batched,
                    grpc_op *op) {
  switch (batched) {
  case SEND_METADATA:
  case SEND_MESSAGE:
  case SEND_CLOSE:
    send_op_fill(call, batch, batched, op);
    break;
  case RECV_METADATA:
    op->op = GRPC_OP_RECV_INITIAL_METADATA;
    op->data.recv_initial_metadata.recv_initial_metadata = &call->initial_metadata;
    break;
  case RECV_MESSAGE:
    op->op = GRPC_OP_RECV_MESSAGE;
    op->data.recv_message.recv_message = &batch->received;
    break;
  case RECV_STATUS:
    op->op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op->data.recv_status_on_client.trailing_metadata = &call->trailing_metadata;
    op->data.recv_status_on_client.status = &call->status;
    op->data.recv_status_on_client.status_details = &call->details;
    op->data.recv_status_on_client.error_string = &call->error_string;
    break;
  case OPS_END:
    break;
  }
}

static grpc_call_error batch_try(struct batched_call *call, struct call_batch *batch,
                                 const enum batched_op *ops) {
  grpc_op core_ops[N_BATCHED_OPS];
  size_t n_ops = 0;
  memset(core_ops, 0, sizeof core_ops);
  for (; ops[n_ops] != OPS_END; n_ops++) {
    op_fill(call, batch, ops[n_ops], &core_ops[n_ops]);
  }
  grpc_call_error error =
      weir_call_start_batch(call->call, core_ops, n_ops, awaited_tag_go(&batch->tag), NULL);
  memset(core_ops, 0xa5, sizeof core_ops); /* the array may be used again */
  return error;
}

struct call_batch *batched_call_start(struct batched_call *call, const enum batched_op *ops) {
  assert_true(call->n_batches < BATCHES_MAX);
  struct call_batch *batch = &call->batches[call->n_batches++];
  assert_int_equal(batch_try(call, batch, ops), GRPC_CALL_OK);
  return batch;
}

grpc_call_error batched_call_refused(struct batched_call *call, const enum batched_op *ops) {
  struct call_batch batch;
  memset(&batch, 0, sizeof batch);
  grpc_call_error error = batch_try(call, &batch, ops);
  assert_int_not_equal(error, GRPC_CALL_OK);
  awaited_tag_stay(&batch.tag);
  if (batch.sent != NULL) {
    assert_int_not_equal(grpc_byte_buffer_length(batch.sent),
                         0); /* a message that is sent is emptied */
    grpc_byte_buffer_destroy(batch.sent);
  }
  return error;
}

/* --- the end --- */

void batched_call_let_go(struct batched_call *call) {
  weir_call *held = call->call;
  call->call = NULL;
  weir_call_unref(held);
}

bool batched_call_is_idle(const struct batched_call *call) {
  for (size_t i = 0; i < call->n_batches; i++) {
    if (call->batches[i].tag.is_out) {
      return false;
    }
  }
  return true;
}

void batched_call_release(struct batched_call *call) {
  void *error_string = NULL;
  assert_true(batched_call_is_idle(call));
  for (size_t i = 0; i < call->n_batches; i++) {
    grpc_byte_buffer_destroy(call->batches[i].sent);
    grpc_byte_buffer_destroy(call->batches[i].received);
  }
  grpc_byte_buffer_destroy(call->next_message);
  grpc_metadata_array_destroy(&call->initial_metadata);
  grpc_metadata_array_destroy(&call->trailing_metadata);
  grpc_slice_unref(call->details);
  memcpy(&error_string, &call->error_string, sizeof error_string);
  gpr_free(error_string);
  if (call->call != NULL) {
    batched_call_let_go(call);
  }
  free(call);
}

/* --- what came back --- */

bool batch_is_success(const struct call_batch *batch) {
  return batch->tag.n_came == 1 && batch->tag.success;
}

bool batch_is_failure(const struct call_batch *batch) {
  return batch->tag.n_came == 1 && !batch->tag.success;
}

bool batch_received(const struct call_batch *batch, const char *text) {
  grpc_byte_buffer_reader reader;
  if (batch->received == NULL || text == NULL) {
    return batch->received == NULL && text == NULL;
  }
  assert_true(grpc_byte_buffer_reader_init(&reader, batch->received));
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  bool same = grpc_slice_str_cmp(all, text) == 0;
  grpc_slice_unref(all);
  grpc_byte_buffer_reader_destroy(&reader);
  return same;
}

void assert_status(const struct batched_call *call, grpc_status_code code, const char *details) {
  if (call->status != code || grpc_slice_str_cmp(call->details, details) != 0) {
    fail_msg("%d \"%.*s\" is not %d \"%s\"", (int)call->status,
             (int)GRPC_SLICE_LENGTH(call->details),
             (const char *)GRPC_SLICE_START_PTR(call->details), (int)code, details);
  }
}

bool batched_call_has_trailer(const struct batched_call *call, const char *key, const char *value) {
  const grpc_metadata_array *array = &call->trailing_metadata;
  for (size_t i = 0; i < array->count; i++) {
    if (grpc_slice_str_cmp(array->metadata[i].key, key) == 0 &&
        grpc_slice_str_cmp(array->metadata[i].value, value) == 0) {
      return true;
    }
  }
  return false;
}

void assert_report(const struct batched_call *call, uint32_t n_attempts, enum weir_reason reason) {
  struct weir_call_report report = batched_call_report(call);
  if (report.n_attempts != n_attempts || report.reason != reason) {
    fail_msg("%u attempts, %s: not %u, %s", (unsigned)report.n_attempts,
             weir_reason_name(report.reason), (unsigned)n_attempts, weir_reason_name(reason));
  }
}

struct weir_call_report batched_call_report(const struct batched_call *call) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  assert_int_equal(weir_call_get_report(call->call, &report), WEIR_OK);
  return report;
}
