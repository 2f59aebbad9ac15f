/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/parent_watch.h"

#include <string.h>

#include <grpc/slice.h>

#include "src/base/container_of.h"
#include "src/call/call.h"

/* In a block of the queue's, so that its tag is known for ours. */
struct weir__parent_watch {
  weir_call *call;
  bool over; /* its event has come */
  struct weir__held held;
  grpc_call *core;
  grpc_metadata_array trailing_metadata;
  grpc_slice details;
  grpc_status_code status;
};

static bool watch_on_event(struct weir__completion *completion, bool ok, grpc_event *event_out) {
  (void)ok;
  (void)event_out;
  struct weir__parent_watch *watch =
      WEIR__CONTAINER_OF(completion, struct weir__parent_watch, held.completion);
  weir_call *call = watch->call;
  if (watch->status == GRPC_STATUS_CANCELLED) {
    weir__call_parent_cancelled(call);
  }
  watch->over = true;
  weir__queue_let_go(call->queue, &watch->held);
  weir__call_release(call);
  return false;
}

static const struct weir__completion_ops watch_ops = {
    .on_event = watch_on_event, .deliver = NULL, /* it is never put on the ready list */
};

static bool watch_begin(struct weir__parent_watch *watch, weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  watch->held.completion.ops = &watch_ops;
  watch->held.on_close =
      NULL; /* a call that waits for a retry owes a tag: its end ends the watch */
  if (weir__queue_hold(call->queue, &watch->held) != WEIR_OK) {
    return false;
  }
  watch->call = call;
  watch->details = grpc_empty_slice();
  watch->core = weir__call_create_unsent(call);
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  op.data.recv_status_on_client.trailing_metadata = &watch->trailing_metadata;
  op.data.recv_status_on_client.status = &watch->status;
  op.data.recv_status_on_client.status_details = &watch->details;
  atomic_fetch_add_explicit(&call->n_refs, 1, memory_order_relaxed); /* the batch has a share */
  call->watch = watch; /* its event may come before the batch is started to the end */
  if (transport->call_start_batch(watch->core, &op, 1, &watch->held.completion,
                                  transport->context) == GRPC_CALL_OK) {
    return true;
  }
  call->watch = NULL;
  atomic_fetch_sub_explicit(&call->n_refs, 1, memory_order_relaxed);
  transport->call_unref(transport->context, watch->core);
  weir__queue_let_go(call->queue, &watch->held);
  return false;
}

void weir__parent_watch_start(weir_call *call) {
  if (call->watch != NULL || call->parent == NULL ||
      (call->propagation_mask & GRPC_PROPAGATE_CANCELLATION) == 0) {
    return;
  }
  struct weir__parent_watch *watch = weir__queue_block_take(call->queue);
  if (watch != NULL && !watch_begin(watch, call)) {
    weir__queue_block_give(call->queue, watch);
  }
}

void weir__parent_watch_stop(weir_call *call) {
  if (call->watch != NULL) {
    const struct weir__transport *transport = weir__queue_transport(call->queue);
    transport->call_cancel(transport->context, call->watch->core, GRPC_STATUS_ABORTED, "");
  }
}

bool weir__parent_watch_is_under_way(const weir_call *call) {
  return call->watch != NULL && !call->watch->over;
}

void weir__parent_watch_free(weir_call *call) {
  struct weir__parent_watch *watch = call->watch;
  if (watch != NULL) {
    const struct weir__transport *transport = weir__queue_transport(call->queue);
    grpc_metadata_array_destroy(&watch->trailing_metadata);
    grpc_slice_unref(watch->details);
    transport->call_unref(transport->context, watch->core);
    weir__queue_block_give(call->queue, watch);
  }
}
