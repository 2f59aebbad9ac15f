/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream_attempt.h"

#include <string.h>

#include <grpc/byte_buffer.h>

#include "src/call/stream_timer.h"

static grpc_op op_of(grpc_op_type type, uint32_t flags) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = type;
  op.flags = flags;
  return op;
}

/* Completes the operation that sends initial metadata with weir's own. */
static bool merge_metadata(weir_call *call, grpc_op *op, int64_t now_ns,
                           struct weir__merged_metadata *merged) {
  struct weir__request_headers headers = weir__call_headers(call, now_ns);
  if (weir__merged_metadata_init(merged, op->data.send_initial_metadata.metadata,
                                 op->data.send_initial_metadata.count, &headers,
                                 call->environment->allocator) != WEIR_OK) {
    return false;
  }
  op->flags = weir__request_metadata_flags(op->flags, call->plan.method->wait_for_ready);
  op->data.send_initial_metadata.metadata = merged->entries;
  op->data.send_initial_metadata.count = merged->count;
  return true;
}

grpc_call_error weir__stream_pass(weir_call *call, const struct weir__batch *batch,
                                  uint8_t op_types, int64_t now_ns) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  const struct weir_allocator *allocator = call->environment->allocator;
  struct weir__merged_metadata merged;
  weir__merged_metadata_init_empty(&merged);
  grpc_op ops[WEIR__N_CLIENT_OPS];
  size_t n_ops = 0;
  for (size_t i = 0; i < batch->n_ops; i++) {
    const grpc_op *op = &batch->ops[i];
    if ((op_types & WEIR__OP_BIT(op->op)) == 0) {
      continue;
    }
    ops[n_ops] = weir__attempt_op(&call->attempt, op);
    if (op == batch->send_initial_metadata && !merge_metadata(call, &ops[n_ops], now_ns, &merged)) {
      return GRPC_CALL_ERROR;
    }
    n_ops++;
  }
  grpc_call_error error = transport->call_start_batch(
      call->attempt.core, ops, n_ops, &call->stream->batches[batch->slot], transport->context);
  weir__merged_metadata_fini(&merged, allocator); /* the call may be over, and gone */
  return error;
}

bool weir__stream_ask_again_locked(struct weir__stream *stream, uint8_t slot) {
  weir_call *call = stream->call;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  struct weir__completion *completion = &stream->batches[slot];
  completion->core_op_types =
      completion->op_types & WEIR__RECEIVES & (uint8_t)~stream->guarded.marks.unclaimed;
  stream->guarded.marks.unclaimed &= (uint8_t)~completion->op_types;
  static const grpc_op_type types[] = {GRPC_OP_RECV_INITIAL_METADATA, GRPC_OP_RECV_MESSAGE,
                                       GRPC_OP_RECV_STATUS_ON_CLIENT};
  grpc_op ops[WEIR__N_CLIENT_OPS];
  size_t n_ops = 0;
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if ((completion->core_op_types & WEIR__OP_BIT(types[i])) != 0) {
      grpc_op op = op_of(types[i], 0);
      ops[n_ops++] = weir__attempt_op(&call->attempt, &op);
    }
  }
  if (n_ops == 0) {
    return true;
  }
  if (transport->call_start_batch(call->attempt.core, ops, n_ops, completion, transport->context) !=
      GRPC_CALL_OK) {
    return false;
  }
  stream->guarded.marks.asked |= completion->core_op_types;
  stream->guarded.n_under_way++;
  return true;
}

/* --- the engine's own batches --- */

/* False: the core, or the queue, refused it. */
static bool own_start_locked(struct weir__stream *stream, enum weir__own_batch number,
                             const grpc_op *ops, size_t n_ops, uint8_t op_types) {
  weir_call *call = stream->call;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  struct weir__held *held = &stream->own[number];
  struct weir__completion *completion = &held->completion;
  completion->op_types = op_types;
  completion->core_op_types = op_types;
  if (weir__queue_hold(call->queue, held) != WEIR_OK) {
    return false;
  }
  /* relaxed: some batch, or the application, has a share */
  atomic_fetch_add_explicit(&call->n_refs, 1, memory_order_relaxed);
  if (transport->call_start_batch(call->attempt.core, ops, n_ops, completion, transport->context) !=
      GRPC_CALL_OK) {
    weir__queue_let_go(call->queue, held);
    atomic_fetch_sub_explicit(&call->n_refs, 1, memory_order_relaxed);
    return false;
  }
  stream->guarded.n_under_way++;
  stream->guarded.n_own++;
  return true;
}

void weir__stream_break_locked(struct weir__stream *stream) {
  const weir_call *call = stream->call;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  stream->guarded.broken = true;
  weir__stream_timer_stop_locked(stream);
  transport->call_cancel(transport->context, call->attempt.core, GRPC_STATUS_RESOURCE_EXHAUSTED,
                         "the call can't go on");
}

void weir__stream_ask_locked(struct weir__stream *stream, grpc_op_type type) {
  uint8_t bit = WEIR__OP_BIT(type);
  if ((stream->guarded.marks.asked & bit) != 0 || stream->guarded.broken) {
    return;
  }
  enum weir__own_batch number = WEIR__OWN_STATUS;
  if (type == GRPC_OP_RECV_INITIAL_METADATA) {
    number = WEIR__OWN_INITIAL_METADATA;
  } else if (type == GRPC_OP_RECV_MESSAGE) {
    number = WEIR__OWN_MESSAGE;
  }
  grpc_op op = op_of(type, 0);
  op = weir__attempt_op(&stream->call->attempt, &op);
  if (!own_start_locked(stream, number, &op, 1, bit)) {
    weir__stream_break_locked(stream);
    return;
  }
  stream->guarded.marks.asked |= bit;
  stream->guarded.marks.unclaimed |= bit;
}

/* --- sending again --- */

void weir__stream_renew_locked(struct weir__stream *stream) {
  const struct weir__replay *replay = &stream->guarded.replay;
  stream->guarded.committed = stream->guarded.overflowed;
  stream->guarded.broken = false;
  weir__stream_timer_renew_locked(stream);
  memset(&stream->guarded.marks, 0, sizeof stream->guarded.marks);
  for (uint8_t slot = 0; slot < WEIR__N_CLIENT_OPS; slot++) {
    struct weir__completion *completion = &stream->batches[slot];
    if ((stream->guarded.pending & (1u << slot)) != 0) {
      stream->guarded.marks.undone |= completion->op_types;
      completion->core_op_types = 0;
    }
  }
  stream->guarded.pumping = replay->has_metadata || replay->n_messages > 0 || replay->half_closed;
  stream->guarded.sending = 0;
  stream->guarded.settles = 0;
  stream->guarded.owes_close = false;
  stream->guarded.metadata_sent = false;
  stream->guarded.half_closed = false;
  stream->guarded.n_messages_sent = 0;
}

/* What is next: the metadata, one message, and by itself the half-close, so that it does not fail
 * with a message. */
static uint8_t next_sends_locked(const struct weir__stream *stream) {
  const struct weir__replay *replay = &stream->guarded.replay;
  size_t n_messages_left = replay->n_messages - stream->guarded.n_messages_sent;
  uint8_t sends = 0;
  if (replay->has_metadata && !stream->guarded.metadata_sent) {
    sends |= WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA);
  }
  if (n_messages_left > 0) {
    sends |= WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE);
  }
  if (replay->half_closed && !stream->guarded.half_closed && n_messages_left == 0) {
    sends |= WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT);
  }
  return sends;
}

static bool send_locked(struct weir__stream *stream, uint8_t sends, int64_t now_ns) {
  weir_call *call = stream->call;
  const struct weir__replay *replay = &stream->guarded.replay;
  struct weir__merged_metadata merged;
  weir__merged_metadata_init_empty(&merged);
  grpc_byte_buffer *message = NULL;
  grpc_op ops[WEIR__N_CLIENT_OPS];
  size_t n_ops = 0;
  if ((sends & WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA)) != 0) {
    grpc_op *op = &ops[n_ops++];
    *op = op_of(GRPC_OP_SEND_INITIAL_METADATA, replay->metadata_flags);
    op->data.send_initial_metadata.metadata = replay->metadata;
    op->data.send_initial_metadata.count = replay->n_metadata;
    if (!merge_metadata(call, op, now_ns, &merged)) {
      return false;
    }
  }
  if ((sends & WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE)) != 0) {
    size_t nth = stream->guarded.n_messages_sent;
    message = weir__replay_message_copy(replay, nth);
    ops[n_ops] = op_of(GRPC_OP_SEND_MESSAGE, replay->messages[nth].flags);
    ops[n_ops++].data.send_message.send_message = message;
  }
  if ((sends & WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT)) != 0) {
    ops[n_ops++] = op_of(GRPC_OP_SEND_CLOSE_FROM_CLIENT, 0);
  }
  bool started = own_start_locked(stream, WEIR__OWN_SENDS, ops, n_ops, sends);
  weir__merged_metadata_fini(&merged, call->environment->allocator);
  if (message != NULL) {
    grpc_byte_buffer_destroy(message);
  }
  return started;
}

bool weir__stream_pump_locked(struct weir__stream *stream, int64_t now_ns) {
  if (!stream->guarded.pumping || stream->guarded.sending != 0) {
    return true;
  }
  uint8_t sends = next_sends_locked(stream);
  if (sends == 0) {
    stream->guarded.pumping = false;
    return true;
  }
  if (!send_locked(stream, sends, now_ns)) {
    return false;
  }
  if ((sends & WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA)) != 0) {
    weir__stream_timer_start_locked(stream, now_ns);
  }
  stream->guarded.sending = sends;
  stream->guarded.settles = sends;
  return true;
}

void weir__stream_stop_pump_locked(struct weir__stream *stream) {
  if (!stream->guarded.pumping) {
    return;
  }
  stream->guarded.pumping = false;
  /* Of what is under way, what the application waits for is settled by its event. */
  stream->guarded.settles &= stream->guarded.marks.undone;
  if (stream->guarded.n_messages_sent + 1 < stream->guarded.replay.n_messages) {
    stream->guarded.settles &= (uint8_t)~WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE); /* an earlier one */
  }
  weir__stream_lose_locked(stream, WEIR__SENDS & (uint8_t)~stream->guarded.settles);
}

void weir__stream_lose_locked(struct weir__stream *stream, uint8_t sends) {
  const uint8_t close = WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT);
  uint8_t lost = stream->guarded.marks.undone & sends & (uint8_t)~close;
  stream->guarded.marks.failed |= lost;
  stream->guarded.marks.undone &= (uint8_t)~lost;
  stream->guarded.owes_close =
      stream->guarded.owes_close || (stream->guarded.marks.undone & sends & close) != 0;
}

void weir__stream_close_locked(struct weir__stream *stream) {
  const uint8_t close = WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT);
  if (!stream->guarded.owes_close || stream->guarded.sending != 0) {
    return;
  }
  stream->guarded.owes_close = false;
  if (send_locked(stream, close, 0)) {
    stream->guarded.sending = close;
    stream->guarded.settles = close;
  } else {
    stream->guarded.marks.failed |= close;
    stream->guarded.marks.undone &= (uint8_t)~close;
  }
}

void weir__stream_pumped_locked(struct weir__stream *stream, bool ok) {
  uint8_t sent = stream->guarded.sending;
  uint8_t done = stream->guarded.settles;
  stream->guarded.sending = 0;
  stream->guarded.settles = 0;
  if (!ok) {
    stream->guarded.marks.failed |= stream->guarded.marks.undone & done;
    stream->guarded.marks.undone &= (uint8_t)~done;
    weir__stream_stop_pump_locked(stream);
    return;
  }
  if (!stream->guarded.pumping) {
    stream->guarded.marks.undone &= (uint8_t)~done;
    return;
  }
  if ((sent & WEIR__OP_BIT(GRPC_OP_SEND_INITIAL_METADATA)) != 0) {
    stream->guarded.metadata_sent = true;
  }
  if ((sent & WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE)) != 0) {
    stream->guarded.n_messages_sent++;
    if (stream->guarded.n_messages_sent < stream->guarded.replay.n_messages) {
      /* the batch that waits for a message waits for the last one */
      done &= (uint8_t)~WEIR__OP_BIT(GRPC_OP_SEND_MESSAGE);
    }
  }
  if ((sent & WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT)) != 0) {
    stream->guarded.half_closed = true;
  }
  stream->guarded.marks.undone &= (uint8_t)~done;
}
