/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "src/time/instant.h"
#include "src/time/timespec.h"
#include "test/stack/schedule_check.h"
#include "test/stack/schedule_queue.h"
#include "test/stack/schedule_trace.h"
#include "test/stack/schedule_world.h"

#define ONCE_OPS                                     \
  (SCHEDULE_OP_BIT(GRPC_OP_SEND_INITIAL_METADATA) |  \
   SCHEDULE_OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT) | \
   SCHEDULE_OP_BIT(GRPC_OP_RECV_INITIAL_METADATA) |  \
   SCHEDULE_OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT))

#define UNARY_OPS                                                 \
  ((ONCE_OPS & ~SCHEDULE_OP_BIT(GRPC_OP_RECV_INITIAL_METADATA)) | \
   SCHEDULE_OP_BIT(GRPC_OP_SEND_MESSAGE) | SCHEDULE_OP_BIT(GRPC_OP_RECV_MESSAGE))

/* --- what it sends --- */

static char letter_of(const struct schedule_call *call) {
  return (char)('a' + call->index);
}

void schedule_call_write_message(const struct schedule_call *call, size_t nth, char *out) {
  memset(out, 'x', call->message_sizes[nth]);
  out[0] = letter_of(call);
  out[1] = (char)('0' + nth);
}

void schedule_call_write_note(const struct schedule_call *call, char out[SCHEDULE_NOTE_BYTES]) {
  memset(out, '.', SCHEDULE_NOTE_BYTES - 1);
  out[0] = letter_of(call);
  out[SCHEDULE_NOTE_BYTES - 1] = '\0';
}

static void metadata_make(struct schedule_world *world, struct schedule_call *call) {
  char letter = letter_of(call);
  call->metadata[0].key = grpc_slice_from_static_string("call-id");
  call->metadata[0].value = scripted_transport_slice(&world->transport, &letter, 1);
  schedule_call_write_note(call, call->note);
  memcpy(call->note_key, SCHEDULE_NOTE_KEY, sizeof call->note_key);
  if (call->borrowed) {
    call->metadata[1].key = grpc_slice_from_static_string(call->note_key);
    call->metadata[1].value = grpc_slice_from_static_string(call->note);
  } else {
    call->metadata[1].key = grpc_slice_from_static_string(SCHEDULE_NOTE_KEY);
    call->metadata[1].value =
        scripted_transport_slice(&world->transport, call->note, SCHEDULE_NOTE_BYTES - 1);
  }
  call->metadata_held = true;
}

/* Nothing of it may be looked at any more. */
static void drop_metadata(struct schedule_call *call) {
  if (call->metadata_held) {
    grpc_slice_unref(call->metadata[0].value);
    grpc_slice_unref(call->metadata[1].value);
    memset(call->metadata, 0xa5, sizeof call->metadata);
    memset(call->note, '!', sizeof call->note);
    memset(call->note_key, '!', sizeof call->note_key);
    call->metadata_held = false;
  }
}

static grpc_byte_buffer *message_make(struct schedule_world *world, struct schedule_call *call) {
  static const uint8_t sizes[] = {3, 3, 4, 8, 9, 16, 17, SCHEDULE_MESSAGE_BYTES};
  char bytes[SCHEDULE_MESSAGE_BYTES];
  size_t size = sizes[schedule_bytes_next(&world->in) % sizeof sizes];
  call->message_sizes[call->n_messages] = size;
  schedule_call_write_message(call, call->n_messages, bytes);
  grpc_slice slice = scripted_transport_slice(&world->transport, bytes, size);
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return buffer;
}

/* --- life --- */

static size_t queue_for(const struct schedule_world *world, bool second) {
  size_t index = second ? 1 : 0;
  return world->queues[index].queue != NULL ? index : 0;
}

/* What the application does, however it is with its calls. */
static void set_habits(struct schedule_call *call, uint8_t byte) {
  bool breaks_off = (byte & 128) != 0;
  call->borrowed = (byte & 4) != 0;
  call->goes_on = (byte & 8) != 0;
  call->reads_on = (byte & 16) != 0;
  call->last_batch = byte >> 5 & 1;
  call->cancels = breaks_off && (byte & 64) == 0;
  call->lets_go = breaks_off && (byte & 64) != 0;
}

uint32_t schedule_call_mask(const struct schedule_call *call) {
  return call->index % 2 == 0 ? GRPC_PROPAGATE_DEFAULTS : GRPC_PROPAGATE_CANCELLATION;
}

static weir_call *make_weir_call(struct schedule_world *world, const struct schedule_call *call,
                                 weir_inbound *inbound) {
  char path[] = "/shop.Cart/?";
  path[sizeof path - 2] = letter_of(call);
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  options.inbound = inbound;
  grpc_slice method = scripted_transport_slice(&world->transport, path, sizeof path - 1);
  weir_call *made = weir_channel_create_call(
      world->channel, call->has_parent ? world->parent : NULL,
      call->has_parent ? schedule_call_mask(call) : 0, world->queues[call->queue].queue, method,
      NULL, weir__instant_to_timespec(call->deadline_at_ns), &options);
  grpc_slice_unref(method);
  return made;
}

struct schedule_call *schedule_call_make(struct schedule_world *world) {
  if (world->n_calls == SCHEDULE_CALLS || world->channel == NULL) {
    return NULL;
  }
  struct schedule_call *call = &world->calls[world->n_calls];
  memset(call, 0, sizeof *call);
  call->index = world->n_calls;
  uint8_t byte = schedule_bytes_next(&world->in);
  uint8_t habits = schedule_bytes_next(&world->in);
  weir_inbound *inbound = (byte & 20) == 20 ? world->inbound : NULL;
  call->deadline_at_ns = (byte & 3) == 0 ? WEIR_NO_DEADLINE : world->clock.now_ns + MS(byte / 8);
  call->has_parent = (byte & 8) != 0;
  call->queue = queue_for(world, (habits & 3) == 3);
  set_habits(call, habits);
  call->n_shares = 1;
  call->empty = schedule_queue_tag(world, call->queue, TAG_EMPTY, call->index);
  call->details = grpc_empty_slice();
  call->status = (grpc_status_code)77; /* none */
  schedule_plan_init(&call->plan, &world->in);
  call->call = make_weir_call(world, call, inbound);
  if (call->call == NULL) {
    assert_true(world->faulty);
    return NULL;
  }
  if (inbound != NULL) {
    call->deadline_at_ns = weir__instant_min(call->deadline_at_ns, world->inbound_deadline_at_ns);
  }
  metadata_make(world, call);
  world->n_calls++;
  world->tally->n_calls++;
  world->tally->n_streams += call->plan.one_batch ? 0 : 1;
  SCHEDULE_NOTE("@ is made, to be # batches, deadline in # ms, queue #", (int)call->index,
                (int)call->plan.n_batches,
                call->deadline_at_ns == WEIR_NO_DEADLINE
                    ? -1
                    : (int)((call->deadline_at_ns - world->clock.now_ns) / WEIR_MS_NS),
                (int)call->queue);
  return call;
}

void schedule_call_fini(struct schedule_world *world, struct schedule_call *call) {
  while (call->n_shares > 0) {
    schedule_call_unref(world, call);
  }
  drop_metadata(call);
  grpc_metadata_array_destroy(&call->initial_metadata);
  grpc_metadata_array_destroy(&call->trailing_metadata);
  grpc_slice_unref(call->details);
  void *error_string = NULL;
  memcpy(&error_string, &call->error_string, sizeof error_string);
  gpr_free(error_string);
}

/* --- starting --- */

static void fill_op(struct schedule_call *call, struct schedule_batch *batch, uint8_t type,
                    grpc_op *op) {
  memset(op, 0, sizeof *op);
  op->op = (grpc_op_type)type;
  switch (op->op) {
  case GRPC_OP_SEND_INITIAL_METADATA:
    op->data.send_initial_metadata.metadata = call->metadata;
    op->data.send_initial_metadata.count = 2;
    break;
  case GRPC_OP_SEND_MESSAGE:
    op->data.send_message.send_message = batch->sent;
    break;
  case GRPC_OP_RECV_INITIAL_METADATA:
    op->data.recv_initial_metadata.recv_initial_metadata = &call->initial_metadata;
    break;
  case GRPC_OP_RECV_MESSAGE:
    op->data.recv_message.recv_message = &batch->received;
    break;
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
    op->data.recv_status_on_client.trailing_metadata = &call->trailing_metadata;
    op->data.recv_status_on_client.status = &call->status;
    op->data.recv_status_on_client.status_details = &call->details;
    op->data.recv_status_on_client.error_string = &call->error_string;
    break;
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    break;
  }
}

static uint8_t types_of(const uint8_t *types, size_t n) {
  uint8_t all = 0;
  for (size_t i = 0; i < n; i++) {
    all |= SCHEDULE_OP_BIT(types[i]);
  }
  return all;
}

/* Whether the core would refuse it: something of it is under way, or was started once. */
static bool conflicts(const struct schedule_call *call, const uint8_t *types, size_t n) {
  uint8_t all = types_of(types, n);
  return (all & (call->started | call->busy_ops)) != 0 ||
         (SCHEDULE_OP_BIT(types[0]) & call->busy_slots) != 0;
}

static grpc_call_error start_ops(struct schedule_call *call, grpc_op *ops, size_t n, void *tag) {
  call->is_starting = true;
  grpc_call_error error = weir_call_start_batch(call->call, ops, n, tag, NULL);
  call->is_starting = false;
  memset(ops, 0xa5, n * sizeof ops[0]); /* the array may be used again */
  return error;
}

/* A batch that the core would take was refused: for a good reason. */
static void check_refusal(const struct schedule_world *world, const struct schedule_call *call,
                          grpc_call_error error) {
  if (error == GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN) {
    assert_true(world->queues[call->queue].shut_down);
  } else {
    assert_int_equal(error, GRPC_CALL_ERROR);
    assert_true(world->faulty);
  }
}

/* Makes room for a batch, as it is once it is started: it may be sent before the start returns. */
static struct schedule_batch *batch_begin(struct schedule_world *world, struct schedule_call *call,
                                          const uint8_t *types, size_t n) {
  struct schedule_batch *batch = &call->batches[call->n_batches++];
  batch->tag = schedule_queue_tag(world, call->queue, TAG_BATCH, call->index);
  batch->tag.n_owed = 1;
  batch->op_types = types_of(types, n);
  batch->slot = SCHEDULE_OP_BIT(types[0]);
  batch->after_status = call->got_status;
  if ((batch->op_types & SCHEDULE_OP_BIT(GRPC_OP_SEND_MESSAGE)) != 0) {
    batch->sent = message_make(world, call);
    call->n_messages++;
  }
  call->started |= batch->op_types & ONCE_OPS;
  call->busy_ops |= (uint8_t)(batch->op_types & ~ONCE_OPS);
  call->busy_slots |= batch->slot;
  return batch;
}

/* The batch was refused: as if it had not been. */
static void batch_undo(struct schedule_call *call, struct schedule_batch *batch) {
  call->n_batches--;
  call->started &= (uint8_t) ~(batch->op_types & ONCE_OPS);
  call->busy_ops &= (uint8_t) ~(batch->op_types & ~ONCE_OPS);
  call->busy_slots &= (uint8_t)~batch->slot;
  if (batch->sent != NULL) {
    call->n_messages--;
    assert_int_equal(grpc_byte_buffer_length(batch->sent), call->message_sizes[call->n_messages]);
    grpc_byte_buffer_destroy(batch->sent);
    batch->sent = NULL;
  }
}

/* Starts a batch that the core would take. */
static bool start(struct schedule_world *world, struct schedule_call *call, const uint8_t *types,
                  size_t n) {
  if (call->call == NULL || call->n_batches == SCHEDULE_BATCHES) {
    return false;
  }
  const int64_t deadline_at_ns = call->deadline_at_ns;
  struct schedule_batch *batch = batch_begin(world, call, types, n);
  if (!call->any_started) {
    call->is_one_batch = (batch->op_types & UNARY_OPS) == UNARY_OPS;
    /* the time that the policy gives it begins here */
    call->deadline_at_ns = weir__instant_min(
        deadline_at_ns, weir__instant_add(world->clock.now_ns, SCHEDULE_TIMEOUT_NS));
  }
  grpc_op ops[SCHEDULE_CLIENT_OPS];
  for (size_t i = 0; i < n; i++) {
    fill_op(call, batch, types[i], &ops[i]);
  }
  SCHEDULE_NOTE("@ starts batch #: &", (int)call->index, (int)(batch - call->batches),
                batch->op_types);
  grpc_call_error error = start_ops(call, ops, n, batch);
  if (error != GRPC_CALL_OK) {
    SCHEDULE_NOTE("@ is refused it, with #", (int)call->index, (int)error);
    batch_undo(call, batch);
    call->deadline_at_ns = deadline_at_ns;
    check_refusal(world, call, error);
    return false;
  }
  world->queues[call->queue].n_owed++;
  call->any_started = true;
  return true;
}

bool schedule_call_start_next(struct schedule_world *world, struct schedule_call *call) {
  if (call->n_planned == call->plan.n_batches) {
    return false;
  }
  const struct schedule_planned *planned = &call->plan.batches[call->n_planned];
  if (conflicts(call, planned->types, planned->n_ops) ||
      !start(world, call, planned->types, planned->n_ops)) {
    return false;
  }
  call->n_planned++;
  return true;
}

void schedule_call_read(struct schedule_world *world, struct schedule_call *call) {
  static const uint8_t types[] = {GRPC_OP_RECV_MESSAGE};
  if (!conflicts(call, types, 1)) {
    (void)start(world, call, types, 1);
  }
}

void schedule_call_ask_metadata(struct schedule_world *world, struct schedule_call *call) {
  static const uint8_t types[] = {GRPC_OP_RECV_INITIAL_METADATA};
  if (world->faulty && call->busy_slots != 0 && !conflicts(call, types, 1)) {
    if (!start(world, call, types, 1)) {
      (void)start(world, call, types, 1); /* the other was a fault, perhaps */
    }
  }
}

void schedule_call_start_empty(struct schedule_world *world, struct schedule_call *call) {
  if (call->call == NULL) {
    return;
  }
  call->empty.n_owed++;
  SCHEDULE_NOTE("@ starts an empty batch", (int)call->index);
  grpc_call_error error = weir_call_start_batch(call->call, NULL, 0, &call->empty, NULL);
  if (error == GRPC_CALL_OK) {
    world->queues[call->queue].n_owed++;
  } else {
    call->empty.n_owed--;
    assert_true(world->faulty || world->queues[call->queue].shut_down);
  }
}

/* What the core refuses, whatever the call does. */
struct wrong_batch {
  size_t n_ops;
  grpc_op_type types[2];
  uint32_t flags;
  grpc_call_error error; /* unless its slot is taken */
  grpc_op_type slot;
};

void schedule_call_start_wrong(struct schedule_call *call, uint8_t byte) {
  static const struct wrong_batch wrongs[] = {
      {.n_ops = 2,
       .types = {GRPC_OP_RECV_MESSAGE, GRPC_OP_RECV_MESSAGE},
       .error = GRPC_CALL_ERROR_TOO_MANY_OPERATIONS,
       .slot = GRPC_OP_RECV_MESSAGE},
      {.n_ops = 1,
       .types = {GRPC_OP_RECV_MESSAGE},
       .flags = 1,
       .error = GRPC_CALL_ERROR_INVALID_FLAGS,
       .slot = GRPC_OP_RECV_MESSAGE},
      {.n_ops = 1,
       .types = {GRPC_OP_RECV_CLOSE_ON_SERVER},
       .error = GRPC_CALL_ERROR_NOT_ON_CLIENT,
       .slot = GRPC_OP_RECV_STATUS_ON_CLIENT},
  };
  if (call->call == NULL) {
    return;
  }
  const struct wrong_batch *wrong = &wrongs[byte % (sizeof wrongs / sizeof wrongs[0])];
  struct schedule_batch unused;
  memset(&unused, 0, sizeof unused);
  grpc_op ops[2];
  for (size_t i = 0; i < wrong->n_ops; i++) {
    fill_op(call, &unused, (uint8_t)wrong->types[i], &ops[i]);
    ops[i].flags = wrong->flags;
  }
  SCHEDULE_NOTE("@ starts what is to be refused", (int)call->index);
  grpc_call_error error = weir_call_start_batch(call->call, ops, wrong->n_ops, &unused, NULL);
  bool slot_taken = (call->busy_slots & SCHEDULE_OP_BIT(wrong->slot)) != 0;
  assert_true(error == wrong->error ||
              (slot_taken && error == GRPC_CALL_ERROR_TOO_MANY_OPERATIONS));
}

void schedule_call_start_again(const struct schedule_world *world, struct schedule_call *call) {
  static const uint8_t types[] = {GRPC_OP_RECV_MESSAGE};
  /* Where it is plucked, the one may be over already: who waits for another tag has seen to it. */
  bool waits = world->queues[call->queue].type == GRPC_CQ_NEXT && conflicts(call, types, 1);
  if (call->call != NULL && waits) {
    struct schedule_batch unused;
    memset(&unused, 0, sizeof unused);
    grpc_op op;
    fill_op(call, &unused, types[0], &op);
    SCHEDULE_NOTE("@ asks for a message while it waits for one", (int)call->index);
    assert_int_equal(weir_call_start_batch(call->call, &op, 1, &unused, NULL),
                     GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  }
}

/* --- ending --- */

void schedule_call_cancel(struct schedule_call *call, uint8_t byte) {
  static const grpc_status_code codes[] = {GRPC_STATUS_ABORTED, GRPC_STATUS_UNAVAILABLE,
                                           GRPC_STATUS_CANCELLED, GRPC_STATUS_OK};
  if (call->call == NULL) {
    return;
  }
  SCHEDULE_NOTE("@ is cancelled", (int)call->index);
  if (byte % 2 == 0) {
    assert_int_equal(weir_call_cancel(call->call, NULL), GRPC_CALL_OK);
  } else {
    assert_int_equal(weir_call_cancel_with_status(call->call, codes[byte / 2 % 4], "enough", NULL),
                     GRPC_CALL_OK);
  }
  call->is_over = true;
}

void schedule_call_ref(struct schedule_call *call) {
  if (call->call != NULL) {
    weir_call_ref(call->call);
    call->n_shares++;
  }
}

void schedule_call_unref(struct schedule_world *world, struct schedule_call *call) {
  if (call->call == NULL) {
    return;
  }
  if (call->n_shares == 1) {
    schedule_call_ask_metadata(world, call);
    SCHEDULE_NOTE("@ is let go", (int)call->index);
    call->is_over = true;
  }
  weir_call *one = call->call;
  if (--call->n_shares == 0) {
    call->call = NULL;
  }
  weir_call_unref(one);
}

/* Gives back what the batch had, and says whether there was a message. */
static bool batch_fini(struct schedule_batch *batch) {
  bool got_message = batch->received != NULL;
  grpc_byte_buffer_destroy(batch->received);
  grpc_byte_buffer_destroy(batch->sent);
  batch->received = NULL;
  batch->sent = NULL;
  return got_message;
}

void schedule_call_batch_came(struct schedule_world *world, struct schedule_batch *batch,
                              bool success) {
  struct schedule_call *call = &world->calls[batch->tag.call];
  size_t nth = (size_t)(batch - call->batches);
  SCHEDULE_NOTE("@: batch # comes, success #", (int)call->index, (int)nth, success ? 1 : 0);
  batch->success = success;
  call->busy_ops &= (uint8_t) ~(batch->op_types & ~ONCE_OPS);
  call->busy_slots &= (uint8_t)~batch->slot;
  schedule_check_batch(world, call, batch);
  bool got_message = batch_fini(batch);
  if ((batch->op_types & SCHEDULE_OP_BIT(GRPC_OP_SEND_INITIAL_METADATA)) != 0) {
    drop_metadata(call);
  }
  if (nth == call->last_batch && call->cancels) {
    schedule_call_cancel(call, (uint8_t)nth);
  } else if (nth == call->last_batch && call->lets_go) {
    schedule_call_unref(world, call);
  }
  if (call->goes_on) {
    (void)schedule_call_start_next(world, call);
  }
  if (call->reads_on && got_message) {
    schedule_call_read(world, call);
  }
}
