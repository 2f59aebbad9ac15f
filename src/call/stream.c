/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/stream.h"

#include <sched.h>

#include <grpc/byte_buffer.h>

/* Ends a stream's call with RESOURCE_EXHAUSTED of this process. */
static void stream_hit_limit(weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  atomic_store(&call->limit_hit, true);
  transport->call_cancel(transport->context, call->attempt.core, GRPC_STATUS_RESOURCE_EXHAUSTED,
                         "a message is larger than the policy allows");
}

/* A stream's message has come, or its end. False: the application is not to have it. */
static bool stream_on_message(weir_call *call) {
  if (call->attempt.message == NULL) {
    return true;
  }
  uint32_t limit = call->plan.method->max_response_bytes;
  if (limit != WEIR_NO_LIMIT_BYTES && grpc_byte_buffer_length(call->attempt.message) > limit) {
    grpc_byte_buffer_destroy(call->attempt.message);
    call->attempt.message = NULL;
    stream_hit_limit(call);
    return false;
  }
  unsigned char none = WEIR__PROGRESS_NONE;
  if (atomic_load_explicit(&call->progress, memory_order_relaxed) == WEIR__PROGRESS_NONE &&
      atomic_compare_exchange_strong(&call->progress, &none, WEIR__PROGRESS_RUNNING)) {
    struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
    weir__stack_progress(&call->environment->stack, call->layer_states, &event);
    atomic_store(&call->progress, WEIR__PROGRESS_DONE);
  }
  return true;
}

/* Waits until no other thread tells the layers of the first message: hooks of one call never run at
 * once. Says whether there was one. */
static bool stream_finish_progress(weir_call *call) {
  unsigned char progress = WEIR__PROGRESS_NONE;
  if (atomic_compare_exchange_strong(&call->progress, &progress, WEIR__PROGRESS_DONE)) {
    return false;
  }
  while (atomic_load(&call->progress) == WEIR__PROGRESS_RUNNING) {
    (void)sched_yield();
  }
  return true;
}

static void stream_on_status(weir_call *call) {
  bool got_message = stream_finish_progress(call);
  const struct weir__arrivals arrivals = {
      .message = got_message,
      .initial_capacity = atomic_load(&call->initial_capacity),
      .limit_exceeded = atomic_load(&call->limit_hit),
  };
  struct weir_event event = weir__call_event_at(call, weir__queue_now_ns(call->queue));
  weir__call_classify(call, &arrivals, event.now_ns);
  weir__call_end(call, &event);
}

static bool stream_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  weir_call *call = weir__call_of(completion);
  uint8_t op_types = completion->op_types;
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA)) != 0) {
    size_t capacity = call->attempt.initial_metadata.capacity;
    atomic_store(&call->initial_capacity, capacity > UINT32_MAX ? UINT32_MAX : (unsigned)capacity);
  }
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)) != 0 && !stream_on_message(call)) {
    ok = false;
  }
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT)) != 0) {
    stream_on_status(call);
  }
  weir__call_hand_over(call, completion, ok, event_out);
  return true;
}

const struct weir__completion_ops weir__stream_ops = {
    .on_event = stream_on_event,
    .deliver = weir__call_deliver_ready,
};

/* Passes a batch of a stream to the core. */
grpc_call_error weir__stream_start(weir_call *call, const struct weir__batch *batch,
                                   int64_t now_ns) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  const struct weir_allocator *allocator = call->environment->allocator;
  struct weir__merged_metadata merged = {.entries = merged.inline_entries, .count = 0};
  grpc_op ops[WEIR__N_CLIENT_OPS];
  for (size_t i = 0; i < batch->n_ops; i++) {
    ops[i] = weir__attempt_op(&call->attempt, &batch->ops[i]);
    if (&batch->ops[i] == batch->send_initial_metadata) {
      struct weir__request_headers headers = weir__call_headers(call, now_ns);
      if (weir__merged_metadata_init(&merged, ops[i].data.send_initial_metadata.metadata,
                                     ops[i].data.send_initial_metadata.count, &headers,
                                     allocator) != WEIR_OK) {
        return GRPC_CALL_ERROR;
      }
      ops[i].flags = weir__request_metadata_flags(ops[i].flags, call->plan.method->wait_for_ready);
      ops[i].data.send_initial_metadata.metadata = merged.entries;
      ops[i].data.send_initial_metadata.count = merged.count;
    }
  }
  if (weir__call_request_too_large(call, batch)) {
    stream_hit_limit(call);
  }
  grpc_call_error error = transport->call_start_batch(
      transport->context, call->attempt.core, ops, batch->n_ops, &call->completions[batch->slot]);
  weir__merged_metadata_fini(&merged, allocator);
  return error;
}
