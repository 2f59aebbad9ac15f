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

/* `sizes` of the values, 0 = up to the NUL; NULL = all are so. */
static void published_fill(struct scripted_transport *transport, struct published *published,
                           const struct wire_pair pairs[WIRE_PAIRS], const size_t *sizes) {
  for (size_t i = 0; i < WIRE_PAIRS && pairs[i].key != NULL; i++) {
    grpc_metadata *entry = &published->entries[published->count++];
    const size_t size = sizes != NULL && sizes[i] > 0 ? sizes[i] : strlen(pairs[i].value);
    entry->key = grpc_slice_from_static_string(pairs[i].key);
    entry->value = scripted_transport_slice(transport, pairs[i].value, size);
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

static bool waits_for(const struct scripted_batch *batch, grpc_op_type type) {
  return (batch->waiting & (1u << type)) != 0;
}

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
  call->metadata_done = true;
  if (call->end == END_LOCAL) {
    *ok_out = false;
    return true;
  }
  grpc_metadata_array *array =
      call->ops[GRPC_OP_RECV_INITIAL_METADATA].data.recv_initial_metadata.recv_initial_metadata;
  publish(&call->initial, unpublished_initial(call), array);
  *ok_out = call->has_headers || end_is_told_by_status(call->end);
  return true;
}

static bool receive_message(struct scripted_call *call, const struct scripted_batch *batch,
                            bool *ok_out) {
  grpc_byte_buffer **buffer = call->ops[GRPC_OP_RECV_MESSAGE].data.recv_message.recv_message;
  if ((call->n_taken < call->n_messages || call->message_stuck) && !call->metadata_done) {
    return false;
  }
  if (call->n_taken < call->n_messages) {
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
  bool cut_off = call->end == END_LOCAL && batch->saw_end && !call->message_stuck;
  *ok_out = end_is_told_by_status(call->end) || cut_off;
  call->message_stuck = false;
  return true;
}

/* Whether the status is there to be received. The initial metadata come before it, and so do
 * messages, whatever the status is; an end by this process does not wait for them. */
static bool status_is_due(const struct scripted_call *call, const struct scripted_batch *batch) {
  if (call->end == END_NOT || waits_for(batch, GRPC_OP_RECV_MESSAGE)) {
    return false;
  }
  if (call->cut_short || call->end == END_LOCAL || call->end == END_NEVER_SENT) {
    return true;
  }
  return call->metadata_done && call->n_taken == call->n_messages;
}

static bool receive_status(struct scripted_call *call, const struct scripted_batch *batch) {
  if (!status_is_due(call, batch)) {
    return false;
  }
  const grpc_op *op = &call->ops[GRPC_OP_RECV_STATUS_ON_CLIENT];
  call->status_done = true;
  publish(&call->trailing, unpublished_trailing(call->end),
          op->data.recv_status_on_client.trailing_metadata);
  *op->data.recv_status_on_client.status = (grpc_status_code)call->status;
  *op->data.recv_status_on_client.status_details =
      scripted_transport_slice(call->transport, call->text, call->text_size);
  if (call->status != GRPC_STATUS_OK && op->data.recv_status_on_client.error_string != NULL) {
    char *text = NULL;
    gpr_asprintf(&text, "UNKNOWN:Error received from peer " SCRIPTED_PEER " {grpc_message:\"%s\"}",
                 call->text);
    *op->data.recv_status_on_client.error_string = text;
  }
  return true;
}

/* --- what is sent --- */

/* Tries to end one sending operation. */
static bool send_metadata(const struct scripted_call *call, bool *ok_out) {
  if (call->was_sent && !call->attempt->is_connecting) {
    return true;
  }
  *ok_out = false;
  return call->end != END_NOT;
}

static bool leaves(const struct scripted_call *call) {
  return call->end == END_NOT && call->was_sent && !call->attempt->is_connecting &&
         !call->attempt->holds_sends;
}

static bool send_message(const struct scripted_call *call, const struct scripted_batch *batch,
                         bool *ok_out) {
  if (leaves(call)) {
    return true;
  }
  *ok_out = call->attempt->held_are_out && batch->saw_end && call->end != END_NEVER_SENT;
  return call->end != END_NOT;
}

/* The core says that closing has worked when the peer has ended the call. */
static bool send_close(const struct scripted_call *call, bool *ok_out) {
  bool behind_message = false;
  for (size_t i = 0; i < SCRIPTED_OPS; i++) {
    behind_message = behind_message || (call->batches[i].in_use &&
                                        waits_for(&call->batches[i], GRPC_OP_SEND_MESSAGE));
  }
  if (leaves(call)) {
    return !behind_message;
  }
  *ok_out = call->end != END_NEVER_SENT && call->end != END_LOCAL;
  return call->end != END_NOT;
}

/* --- progress --- */

static void note_result(struct sent_attempt *attempt, grpc_op_type type, enum sent_result result) {
  attempt->results[type] = result;
  size_t n = attempt->n_messages;
  if (type == GRPC_OP_SEND_MESSAGE && n <= SENT_MESSAGES) {
    attempt->message_results[n - 1] = result; /* one at a time: it is the last */
  }
}

static bool op_ends(struct scripted_call *call, struct scripted_batch *batch, grpc_op_type type,
                    bool *ok_out) {
  switch (type) {
  case GRPC_OP_SEND_INITIAL_METADATA:
    return send_metadata(call, ok_out);
  case GRPC_OP_SEND_MESSAGE:
    return send_message(call, batch, ok_out);
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
    return send_close(call, ok_out);
  case GRPC_OP_RECV_INITIAL_METADATA:
    return receive_headers(call, ok_out);
  case GRPC_OP_RECV_MESSAGE:
    return receive_message(call, batch, ok_out);
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
    return receive_status(call, batch);
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    break;
  }
  fail_msg("no operation of a client");
  return false;
}

/* What a batch that fails has received is not handed out. */
static void drop_message(struct scripted_call *call, const struct scripted_batch *batch) {
  if ((batch->op_types & (1u << GRPC_OP_RECV_MESSAGE)) != 0) {
    grpc_byte_buffer **buffer = call->ops[GRPC_OP_RECV_MESSAGE].data.recv_message.recv_message;
    grpc_byte_buffer_destroy(*buffer);
    *buffer = NULL;
  }
}

/* Whether an operation has ended. */
static bool batch_progress(struct scripted_call *call, struct scripted_batch *batch) {
  static const grpc_op_type types[SCRIPTED_OPS] = {
      GRPC_OP_SEND_INITIAL_METADATA, GRPC_OP_SEND_MESSAGE, GRPC_OP_SEND_CLOSE_FROM_CLIENT,
      GRPC_OP_RECV_INITIAL_METADATA, GRPC_OP_RECV_MESSAGE, GRPC_OP_RECV_STATUS_ON_CLIENT,
  };
  bool progress = false;
  for (size_t i = 0; i < SCRIPTED_OPS; i++) {
    bool ok = true;
    if (waits_for(batch, types[i]) && op_ends(call, batch, types[i], &ok)) {
      batch->waiting &= (uint8_t) ~(1u << types[i]);
      batch->all_ok = batch->all_ok && ok;
      note_result(call->attempt, types[i], ok ? SENT_OK : SENT_FAILED);
      progress = true;
    }
  }
  if (batch->waiting == 0) {
    batch->in_use = false;
    if (!batch->all_ok && !batch->has_status) {
      drop_message(call, batch);
    }
    scripted_queue_push(call->queue, batch->tag, batch->all_ok || batch->has_status);
  }
  return progress;
}

/* Lets end what can: one operation may wait for another. */
static void call_progress(struct scripted_call *call) {
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t i = 0; i < SCRIPTED_OPS; i++) {
      progress = (call->batches[i].in_use && batch_progress(call, &call->batches[i])) || progress;
    }
  }
}

static void set_end(struct scripted_call *call, enum call_end end, int status, const char *text) {
  struct sent_attempt *attempt = call->attempt;
  call->end = end;
  call->status = status;
  call->text = text != NULL ? text : "";
  call->text_size = strlen(call->text);
  attempt->ended_at_ns = call->transport->clock->now_ns;
  attempt->will_answer = false;
  attempt->ended = true;
  attempt->unprocessed = end == END_UNPROCESSED;
  attempt->never_sent = end == END_NEVER_SENT;
  attempt->status = status;
  for (size_t i = 0; i < SCRIPTED_OPS; i++) {
    call->batches[i].saw_end = call->batches[i].in_use;
  }
}

static void note_end(struct scripted_call *call, enum call_end end) {
  if (end == END_LOST || end == END_UNPROCESSED) {
    call->n_messages = call->n_taken; /* the core drops what was not read */
  }
  scripted_transport_note_end(call->transport, call->attempt);
  call_progress(call);
}

static void call_end(struct scripted_call *call, enum call_end end, int status, const char *text) {
  set_end(call, end, status, text);
  note_end(call, end);
}

static void answer_end(struct scripted_call *call, enum call_end end,
                       const struct wire_answer *answer) {
  set_end(call, end, answer->status, answer->text);
  if (answer->text_size > 0) {
    call->text_size = answer->text_size;
  }
  note_end(call, end);
}

/* What has not been read never will be. */
static void drop_unread(struct scripted_call *call) {
  for (size_t i = 0; i < SCRIPTED_OPS && call->n_taken < call->n_messages; i++) {
    call->message_stuck =
        call->message_stuck || (call->batches[i].in_use && !call->metadata_done &&
                                waits_for(&call->batches[i], GRPC_OP_RECV_MESSAGE));
  }
  call->n_messages = call->n_taken;
}

/* The peer has ended the call, but its status has not been received. If it waits for messages to be
 * read, it is this process's instead. */
static void cut_short(struct scripted_call *call, int status, const char *text) {
  if (call->n_taken < call->n_messages) {
    drop_unread(call);
    call->attempt->ended_here = true;
    set_end(call, END_LOCAL, status, text);
  }
  call->cut_short = true;
  call_progress(call);
}

void scripted_call_end_locally(struct scripted_call *call, int status, const char *text) {
  if (call->end == END_NOT) {
    bool reached = call->was_sent && !call->attempt->is_connecting;
    drop_unread(call);
    call->attempt->ended_here = true;
    call_end(call, reached ? END_LOCAL : END_NEVER_SENT, status, text);
  } else if (!call->status_done && !call->cut_short) {
    cut_short(call, status, text);
  }
}

bool scripted_call_has_deadline(const struct scripted_call *call) {
  bool waits_for_status = (call->once & (1u << GRPC_OP_RECV_STATUS_ON_CLIENT)) != 0 &&
                          !call->status_done && !call->cut_short;
  return call->kind == CALL_ATTEMPT && (call->end == END_NOT || waits_for_status);
}

static void answer_headers(struct scripted_call *call, const struct wire_answer *answer) {
  if (!call->has_headers) {
    call->has_headers = true;
    call->attempt->has_headers = true;
    published_fill(call->transport, &call->initial, answer->initial, answer->initial_sizes);
  }
}

static void answer_message(struct scripted_call *call, const char *body) {
  assert_true(call->n_messages < SCRIPTED_MESSAGES);
  call->messages[call->n_messages++] = body;
  call->attempt->n_received++;
}

/* Whatever comes, comes by a connection; what was sent has ended then. */
static void note_connection(struct scripted_call *call, enum wire_event what) {
  if (call->attempt->is_connecting && what != WIRE_CONNECT_FAIL && what != WIRE_UNPROCESSED) {
    call->attempt->is_connecting = false;
    call_progress(call);
  }
}

void scripted_call_answer(struct scripted_call *call, const struct wire_answer *answer) {
  if (call->end != END_NOT) {
    return; /* it comes too late */
  }
  published_fill(call->transport, &call->trailing, answer->trailing, answer->trailing_sizes);
  note_connection(call, answer->what);
  switch (answer->what) {
  case WIRE_CONNECTED:
    break; /* that is all */
  case WIRE_READ:
    call->attempt->holds_sends = false;
    call_progress(call);
    break;
  case WIRE_TRAILERS_ONLY:
    answer_end(call, END_TRAILERS_ONLY, answer);
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
    answer_end(call, END_TRAILERS, answer);
    break;
  case WIRE_MESSAGE_THEN:
    answer_headers(call, answer);
    answer_message(call, answer->body);
    answer_end(call, END_TRAILERS, answer);
    break;
  case WIRE_CONNECT_FAIL:
    answer_end(call, END_NEVER_SENT, answer);
    break;
  case WIRE_RESET:
    answer_end(call, END_LOST, answer);
    break;
  case WIRE_UNPROCESSED:
    answer_end(call, END_UNPROCESSED, answer);
    break;
  case WIRE_TOO_LARGE:
    answer_headers(call, answer);
    answer_end(call, END_TOO_LARGE, answer);
    break;
  case WIRE_END:
  case WIRE_EXPECT_SEND:
  case WIRE_EXPECT_CONNECTING:
    fail_msg("no answer");
  }
}

/* --- what is started --- */

/* What a sending operation does at once: a message is emptied, whatever comes of it. */
static void op_begin(struct scripted_call *call, const grpc_op *op) {
  switch (op->op) {
  case GRPC_OP_SEND_INITIAL_METADATA:
    if (call->end == END_NOT) {
      sent_attempt_note_metadata(call->attempt, op);
      scripted_transport_note_sent(call->transport, call->attempt);
      call->was_sent = true;
    }
    break;
  case GRPC_OP_SEND_MESSAGE:
    sent_attempt_take_message(call->attempt, op);
    break;
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
    call->attempt->half_closed = true;
    break;
  case GRPC_OP_RECV_INITIAL_METADATA:
  case GRPC_OP_RECV_MESSAGE:
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
    call->ops[op->op] = *op;
    break;
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    break;
  }
  note_result(call->attempt, op->op, SENT_UNDER_WAY);
  scripted_transport_note_op(call->transport, call->attempt, op->op);
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
    batch->waiting |= (uint8_t)(1u << ops[i].op);
    batch->op_types |= (uint8_t)(1u << ops[i].op);
    batch->has_status = batch->has_status || ops[i].op == GRPC_OP_RECV_STATUS_ON_CLIENT;
  }
  batch->in_use = true;
  for (size_t i = 0; i < n_ops; i++) {
    op_begin(call, &ops[i]);
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
  if (call->kind == CALL_ATTEMPT) {
    call->attempt->cancelled = call->attempt->cancelled || call->end == END_NOT;
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
    sent_attempt_free(call->attempt);
  }
  free(call);
}
