/* SPDX-License-Identifier: Apache-2.0 */
#include "test/support/scripted_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

/* --- what is given out --- */

struct counted_bytes {
  size_t *n_slices;
  char bytes[];
};

static void counted_bytes_gone(void *user_data) {
  struct counted_bytes *counted = user_data;
  (*counted->n_slices)--;
  free(counted);
}

grpc_slice scripted_transport_slice(struct scripted_transport *transport, const char *bytes,
                                    size_t size) {
  struct counted_bytes *counted = malloc(sizeof *counted + size + 1);
  assert_non_null(counted);
  counted->n_slices = &transport->n_slices;
  memcpy(counted->bytes, bytes, size);
  transport->n_slices++;
  return grpc_slice_new_with_user_data(counted->bytes, size, counted_bytes_gone, counted);
}

static grpc_slice slice_of_text(struct scripted_transport *transport, const char *text) {
  return scripted_transport_slice(transport, text, strlen(text));
}

static void published_fill(struct scripted_transport *transport, struct published *published,
                           const struct wire_pair pairs[WIRE_PAIRS]) {
  for (size_t i = 0; i < WIRE_PAIRS && pairs[i].key != NULL; i++) {
    grpc_metadata *entry = &published->entries[published->count++];
    entry->key = grpc_slice_from_static_string(pairs[i].key);
    entry->value = slice_of_text(transport, pairs[i].value);
  }
}

static void published_drop(struct published *published) {
  for (size_t i = 0; i < published->count; i++) {
    grpc_slice_unref(published->entries[i].value);
  }
  published->count = 0;
}

/* As the core does it: room for everything that came, published or not, is made behind what is
 * there. */
static void publish(const struct published *published, size_t n_unpublished,
                    grpc_metadata_array *array) {
  size_t room = array->count + n_unpublished + published->count;
  if (room > array->capacity) {
    size_t larger = array->capacity * 3 / 2;
    array->capacity = room > larger ? room : larger;
    array->metadata = gpr_realloc(array->metadata, array->capacity * sizeof array->metadata[0]);
  }
  for (size_t i = 0; i < published->count; i++) {
    array->metadata[array->count++] = published->entries[i];
  }
}

/* --- what comes back --- */

static size_t unpublished_initial(const struct scripted_call *call) {
  if (call->has_headers) {
    return 2;
  }
  switch (call->end) {
  case END_TRAILERS_ONLY:
  case END_LOST:
  case END_UNPROCESSED:
    return 1;
  case END_NOT:
  case END_NEVER_SENT:
  case END_TRAILERS:
  case END_LOCAL:
  case END_TOO_LARGE:
    break;
  }
  return 0;
}

static size_t unpublished_trailing(enum call_end end) {
  switch (end) {
  case END_TRAILERS_ONLY:
  case END_TRAILERS:
  case END_UNPROCESSED:
    return 2;
  case END_LOST:
  case END_LOCAL:
    return 1;
  case END_TOO_LARGE:
    return 3;
  case END_NOT:
  case END_NEVER_SENT:
    break;
  }
  return 0;
}

static bool failed_before_recv_message(enum call_end end) {
  switch (end) {
  case END_TRAILERS:
  case END_LOST:
  case END_UNPROCESSED:
  case END_LOCAL:
    return true;
  case END_NOT:
  case END_NEVER_SENT:
  case END_TRAILERS_ONLY:
  case END_TOO_LARGE:
    break;
  }
  return false;
}

/* Whether operations that the end cut short still say success. */
static bool end_is_told_by_status(enum call_end end) {
  return end == END_TRAILERS_ONLY || end == END_TRAILERS || end == END_LOST ||
         end == END_UNPROCESSED;
}

/* Tries to end one receiving operation; `*ok_out` as in its own batch. */
static bool receive_headers(struct scripted_call *call, bool *ok_out) {
  if (!call->has_headers && call->end == END_NOT) {
    return false;
  }
  grpc_metadata_array *array =
      call->ops[GRPC_OP_RECV_INITIAL_METADATA].data.recv_initial_metadata.recv_initial_metadata;
  publish(&call->initial, unpublished_initial(call), array);
  *ok_out = call->has_headers || end_is_told_by_status(call->end);
  return true;
}

/* Who has not asked for the headers gets neither messages nor what the peer says of the end. */
static bool headers_were_asked(const struct scripted_call *call) {
  return (call->once & (1u << GRPC_OP_RECV_INITIAL_METADATA)) != 0;
}

static bool receive_message(struct scripted_call *call, bool *ok_out) {
  grpc_byte_buffer **buffer = call->ops[GRPC_OP_RECV_MESSAGE].data.recv_message.recv_message;
  if (call->n_taken < call->n_messages) {
    if (!headers_were_asked(call)) {
      return false;
    }
    grpc_slice slice = slice_of_text(call->transport, call->messages[call->n_taken++]);
    *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return true;
  }
  if (call->end == END_NOT) {
    return false;
  }
  *buffer = NULL;
  call->failed_before_recv_message = failed_before_recv_message(call->end);
  *ok_out = end_is_told_by_status(call->end);
  return true;
}

static bool receive_status(struct scripted_call *call, uint8_t others) {
  bool reads_first = call->status == GRPC_STATUS_OK && call->n_taken < call->n_messages;
  bool hears = headers_were_asked(call) || !end_is_told_by_status(call->end);
  if (call->end == END_NOT || reads_first || !hears ||
      (others & (1u << GRPC_OP_RECV_MESSAGE)) != 0) {
    return false;
  }
  const grpc_op *op = &call->ops[GRPC_OP_RECV_STATUS_ON_CLIENT];
  publish(&call->trailing, unpublished_trailing(call->end),
          op->data.recv_status_on_client.trailing_metadata);
  *op->data.recv_status_on_client.status = (grpc_status_code)call->status;
  *op->data.recv_status_on_client.status_details = slice_of_text(call->transport, call->text);
  if (call->status != GRPC_STATUS_OK && op->data.recv_status_on_client.error_string != NULL) {
    char *text = NULL;
    gpr_asprintf(&text, "UNKNOWN:Error received from peer " SCRIPTED_PEER " {grpc_message:\"%s\"}",
                 call->text);
    *op->data.recv_status_on_client.error_string = text;
  }
  return true;
}

static void batch_op_done(struct scripted_batch *batch, grpc_op_type type, bool ok) {
  batch->waiting &= (uint8_t) ~(1u << type);
  batch->all_ok = batch->all_ok && ok;
}

static bool waits_for(const struct scripted_batch *batch, grpc_op_type type) {
  return (batch->waiting & (1u << type)) != 0;
}

/* Whether something of the batch ended. */
static bool batch_progress(struct scripted_call *call, struct scripted_batch *batch) {
  uint8_t before = batch->waiting;
  bool ok = true;
  if (waits_for(batch, GRPC_OP_RECV_INITIAL_METADATA) && receive_headers(call, &ok)) {
    batch_op_done(batch, GRPC_OP_RECV_INITIAL_METADATA, ok);
  }
  ok = true;
  if (waits_for(batch, GRPC_OP_RECV_MESSAGE) && receive_message(call, &ok)) {
    batch_op_done(batch, GRPC_OP_RECV_MESSAGE, ok);
  }
  if (waits_for(batch, GRPC_OP_RECV_STATUS_ON_CLIENT) && receive_status(call, batch->waiting)) {
    batch_op_done(batch, GRPC_OP_RECV_STATUS_ON_CLIENT, true);
  }
  if (batch->waiting == 0) {
    batch->in_use = false;
    scripted_queue_push(call->queue, batch->tag, batch->all_ok || batch->has_status);
  }
  return batch->waiting != before;
}

/* A message that is taken may let the status come, whichever batch is the first. */
static void call_progress(struct scripted_call *call) {
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t i = 0; i < SCRIPTED_OPS; i++) {
      if (call->batches[i].in_use && batch_progress(call, &call->batches[i])) {
        progress = true;
      }
    }
  }
}

static bool is_send(grpc_op_type type) {
  return type == GRPC_OP_SEND_INITIAL_METADATA || type == GRPC_OP_SEND_MESSAGE ||
         type == GRPC_OP_SEND_CLOSE_FROM_CLIENT;
}

/* What was sent without a connection ends. */
static void call_sends_end(struct scripted_call *call, bool ok) {
  if (!call->attempt->is_connecting) {
    return;
  }
  call->attempt->is_connecting = false;
  for (size_t i = 0; i < SCRIPTED_OPS; i++) {
    for (int type = 0; type <= GRPC_OP_RECV_STATUS_ON_CLIENT; type++) {
      struct scripted_batch *batch = &call->batches[i];
      if (batch->in_use && is_send((grpc_op_type)type) && waits_for(batch, (grpc_op_type)type)) {
        batch_op_done(batch, (grpc_op_type)type, ok);
      }
    }
  }
}

static void call_end(struct scripted_call *call, enum call_end end, int status, const char *text) {
  call_sends_end(call, end != END_NEVER_SENT && end != END_UNPROCESSED && end != END_LOCAL);
  call->end = end;
  call->status = status;
  call->text = text != NULL ? text : "";
  call->attempt->ended_at_ns = call->transport->clock->now_ns;
  call->attempt->will_answer = false;
  call_progress(call);
}

void scripted_call_end_locally(struct scripted_call *call, int status, const char *text) {
  bool on_the_wire = call->was_sent && !call->attempt->is_connecting;
  call_end(call, on_the_wire ? END_LOCAL : END_NEVER_SENT, status, text);
}

static void answer_headers(struct scripted_call *call, const struct wire_answer *answer) {
  call_sends_end(call, true);
  if (!call->has_headers) {
    call->has_headers = true;
    published_fill(call->transport, &call->initial, answer->initial);
  }
}

static void answer_message(struct scripted_call *call, const char *body) {
  assert_true(call->n_messages < SCRIPTED_MESSAGES);
  call->messages[call->n_messages++] = body;
}

void scripted_call_answer(struct scripted_call *call, const struct wire_answer *answer) {
  if (call->end != END_NOT) {
    return; /* it comes too late */
  }
  published_fill(call->transport, &call->trailing, answer->trailing);
  switch (answer->what) {
  case WIRE_CONNECTED:
    call_sends_end(call, true);
    call_progress(call);
    break;
  case WIRE_TRAILERS_ONLY:
    call_end(call, END_TRAILERS_ONLY, answer->status, answer->text);
    break;
  case WIRE_HEADERS:
    answer_headers(call, answer);
    call_progress(call);
    break;
  case WIRE_MESSAGE:
    answer_headers(call, answer);
    answer_message(call, answer->body);
    call_progress(call);
    break;
  case WIRE_TRAILERS:
    answer_headers(call, answer);
    call_end(call, END_TRAILERS, answer->status, answer->text);
    break;
  case WIRE_MESSAGE_THEN:
    answer_headers(call, answer);
    answer_message(call, answer->body);
    call_end(call, END_TRAILERS, answer->status, answer->text);
    break;
  case WIRE_CONNECT_FAIL:
    call_end(call, END_NEVER_SENT, answer->status, answer->text);
    break;
  case WIRE_RESET:
    call_end(call, END_LOST, answer->status, answer->text);
    break;
  case WIRE_UNPROCESSED:
    call_end(call, END_UNPROCESSED, answer->status, answer->text);
    break;
  case WIRE_TOO_LARGE:
    answer_headers(call, answer);
    call_end(call, END_TOO_LARGE, answer->status, answer->text);
    break;
  case WIRE_END:
  case WIRE_EXPECT_SEND:
  case WIRE_EXPECT_CONNECTING:
    fail_msg("no answer");
  }
}

/* --- what is started --- */

/* Does a sending operation, which ends at once if there is a connection. */
static bool send_op(struct scripted_call *call, const grpc_op *op) {
  bool reached = call->end != END_NEVER_SENT && call->end != END_LOCAL;
  switch (op->op) {
  case GRPC_OP_SEND_INITIAL_METADATA:
    if (call->end != END_NOT) {
      return false;
    }
    sent_attempt_note_metadata(call->attempt, op);
    scripted_transport_note_sent(call->transport, call->attempt);
    call->was_sent = true;
    return true;
  case GRPC_OP_SEND_MESSAGE:
    sent_attempt_take_message(call->attempt, op);
    return call->end == END_NOT;
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
    call->attempt->half_closed = true;
    return reached;
  case GRPC_OP_RECV_INITIAL_METADATA:
  case GRPC_OP_RECV_MESSAGE:
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    break;
  }
  return true;
}

/* What the core would refuse, weir has to have refused before. */
static void check_op(struct scripted_call *call, const struct scripted_batch *batch,
                     const grpc_op *op) {
  uint8_t bit = (uint8_t)(1u << op->op);
  bool comes_again = op->op == GRPC_OP_SEND_MESSAGE || op->op == GRPC_OP_RECV_MESSAGE;
  assert_true(op->op <= GRPC_OP_RECV_STATUS_ON_CLIENT && op->op != GRPC_OP_SEND_STATUS_FROM_SERVER);
  assert_null(op->reserved);
  if (op->op != GRPC_OP_SEND_INITIAL_METADATA && op->op != GRPC_OP_SEND_MESSAGE) {
    assert_int_equal(op->flags, 0);
  }
  if (!comes_again) {
    assert_int_equal(call->once & bit, 0);
    call->once |= bit;
  }
  assert_int_equal(batch->waiting & bit, 0);
  for (size_t i = 0; i < SCRIPTED_OPS; i++) {
    assert_int_equal(call->batches[i].in_use ? call->batches[i].waiting & bit : 0, 0);
  }
}

static struct scripted_batch *batch_free(struct scripted_call *call) {
  for (size_t i = 0; i < SCRIPTED_OPS; i++) {
    if (!call->batches[i].in_use) {
      return &call->batches[i];
    }
  }
  fail_msg("more batches than a call has slots");
  return NULL;
}

static bool slot_is_taken(const struct scripted_call *call, const void *tag) {
  for (size_t i = 0; i < SCRIPTED_OPS; i++) {
    if (call->batches[i].in_use && call->batches[i].tag == tag) {
      return true;
    }
  }
  return tag != NULL && scripted_queue_holds(call->queue, tag);
}

/* The batch with `tag` begins with an operation of `type`. */
static void slot_take(struct scripted_call *call, grpc_op_type type, void *tag) {
  for (size_t i = 0; i < GRPC_OP_RECV_CLOSE_ON_SERVER; i++) {
    if (call->slot_tags[i] == tag) {
      call->slot_tags[i] = NULL; /* what it was before is over */
    }
  }
  call->slot_tags[type] = tag;
}

bool scripted_call_start(struct scripted_call *call, const grpc_op *ops, size_t n_ops, void *tag) {
  assert_int_equal(call->kind, CALL_ATTEMPT);
  if (slot_is_taken(call, call->slot_tags[ops->op])) {
    return false;
  }
  slot_take(call, ops->op, tag);
  scripted_queue_begin(call->queue);
  struct scripted_batch *batch = batch_free(call);
  *batch = (struct scripted_batch){.all_ok = true, .tag = tag};
  for (size_t i = 0; i < n_ops; i++) {
    check_op(call, batch, &ops[i]);
    if (!is_send(ops[i].op)) {
      batch->waiting |= (uint8_t)(1u << ops[i].op);
      call->ops[ops[i].op] = ops[i];
      batch->has_status = batch->has_status || ops[i].op == GRPC_OP_RECV_STATUS_ON_CLIENT;
    }
  }
  batch->in_use = true;
  for (size_t i = 0; i < n_ops; i++) {
    bool ok = send_op(call, &ops[i]);
    batch->all_ok = batch->all_ok && ok;
    if (is_send(ops[i].op) && call->attempt->is_connecting) {
      batch->waiting |= (uint8_t)(1u << ops[i].op);
    }
  }
  if (batch->waiting == 0) {
    (void)batch_progress(call, batch); /* it only sends */
  }
  call_progress(call);
  return true;
}

/* --- life --- */

struct scripted_call *scripted_call_new(struct scripted_transport *transport, enum call_kind kind,
                                        struct scripted_queue *queue) {
  struct scripted_call *call = calloc(1, sizeof *call);
  assert_non_null(call);
  call->transport = transport;
  call->kind = kind;
  call->queue = queue;
  call->n_refs = 1;
  call->next = transport->calls;
  transport->calls = call;
  return call;
}

void scripted_call_free(struct scripted_call *call) {
  struct scripted_transport *transport = call->transport;
  if (call->kind == CALL_ATTEMPT && call->end == END_NOT) {
    call->attempt->cancelled = true;
    scripted_call_end_locally(call, GRPC_STATUS_CANCELLED, "Cancelled");
  }
  struct scripted_call **place = &transport->calls;
  while (*place != call) {
    place = &(*place)->next;
  }
  *place = call->next;
  published_drop(&call->initial);
  published_drop(&call->trailing);
  gpr_free(call->own_text);
  if (call->attempt != NULL) {
    call->attempt->released = true;
  }
  if (!call->was_sent && call->attempt != NULL) {
    free(call->attempt->message);
    free(call->attempt);
  }
  free(call);
}
