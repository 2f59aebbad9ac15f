/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "src/call/breaker_news.h"
#include "src/call/call.h"
#include "src/call/fallback.h"
#include "src/call/presentation.h"
#include "src/call/slice.h"
#include "src/call/stream.h"

/* The layers hear of the end, and of nothing after it: what a fallback answers is none of theirs. */
static void settle(weir_call *call, const struct weir_event *event) {
  const struct weir__stack *stack = &call->rules->stack;
  if (call->n_sent > 0 && weir__call_keeps_time(call)) {
    weir__queue_expire_never(call->queue, call);
  }
  /* Of the call: a backoff may have followed its last attempt. */
  call->outcome.ended_at_ns = event->now_ns;
  while (call->n_unsettled > 0 &&
         weir__stack_settle(stack, call->layer_states, event, &call->outcome, &call->plan,
                            &call->n_unsettled) == WEIR_DISPOSITION_RETRY) {
    /* the end is the end */
  }
  weir__stack_release(stack, call->layer_states, event, &call->plan, call->n_admitted);
  call->n_admitted = 0;
  if (call->plan.breaker_changed) {
    weir__breaker_news_pass_on(call, &call->outcome, event->now_ns);
  }
}

static void let_go_of_parent(weir_call *call) {
  weir__parent_watch_stop(call);
  if (call->parent != NULL) {
    const struct weir__transport *transport = weir__queue_transport(call->queue);
    transport->call_unref(transport->context, call->parent);
    call->parent = NULL;
  }
}

/* What has come is not for the caller. */
static void drop_response(weir_call *call) {
  bool under_way = call->plan.shape == WEIR_CALL_SHAPE_STREAM && call->attempt.core != NULL &&
                   !weir__stream_is_between(call);
  if (call->n_sent > 0 && !under_way) { /* another thread may be handing it out */
    weir__attempt_drop_response(&call->attempt);
  }
}

void weir__call_conclude(weir_call *call, const struct weir_event *event) {
  let_go_of_parent(call);
  if (call->ended_here) {
    drop_response(call);
  }
  if (!weir__outcome_is_ok(&call->outcome)) {
    weir__call_present_failure(call, event);
  }
  /* With what was just made, for a thread that hands out another batch, or after that batch. */
  unsigned state = weir__call_state_add(call, WEIR__CALL_ENDED);
  if ((state & WEIR__CALL_METADATA_AWAITED) != 0) {
    weir__queue_push_ready(call->queue, call->awaiting);
  }
}

void weir__call_end(weir_call *call, const struct weir_event *event) {
  settle(call, event);
  weir__call_conclude(call, event);
}

bool weir__call_end_or_ask(weir_call *call, const struct weir_event *event) {
  settle(call, event);
  if (!weir__outcome_is_ok(&call->outcome) && call->environment->fallbacks != NULL &&
      weir__fallback_begin(call, event)) {
    return false;
  }
  weir__call_conclude(call, event);
  return true;
}

/* --- handing out --- */

static void move_metadata(grpc_metadata_array *from, grpc_metadata_array *to) {
  if (from->count == 0) {
    return;
  }
  if (to->count == 0) {
    grpc_metadata_array_destroy(to);
    *to = *from;
    grpc_metadata_array_init(from);
    return;
  }
  /* As the core does: what comes is appended. */
  size_t count = to->count + from->count;
  if (count > to->capacity) {
    to->metadata = gpr_realloc(to->metadata, count * sizeof to->metadata[0]);
    to->capacity = count;
  }
  memcpy(to->metadata + to->count, from->metadata, from->count * sizeof from->metadata[0]);
  to->count = count;
}

static void hand_out_status(weir_call *call) {
  struct weir__outputs *outputs = &call->outputs;
  if (outputs->trailing_metadata != NULL) { /* the core lets a program leave it out */
    move_metadata(&call->attempt.trailing_metadata, outputs->trailing_metadata);
  }
  *outputs->status = call->plan.visible_code;
  *outputs->details = call->attempt.details;
  call->attempt.details = weir__slice_empty();
  if (outputs->error_string != NULL && call->attempt.error_string != NULL) {
    *outputs->error_string = call->attempt.error_string;
    call->attempt.error_string = NULL;
  }
}

bool weir__call_hand_out(weir_call *call, uint8_t op_types, bool core_ok) {
  /* acquire: pairs with the end of the call in another thread */
  bool ended = (atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_ENDED) != 0;
  bool scrubbed = ended && call->plan.scrubbed && !weir__outcome_is_ok(&call->outcome);
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_INITIAL_METADATA)) != 0 &&
      call->outputs.initial_metadata != NULL) {
    if (scrubbed) {
      weir__call_filter_metadata(call, &call->attempt.initial_metadata);
    }
    move_metadata(&call->attempt.initial_metadata, call->outputs.initial_metadata);
  }
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_MESSAGE)) != 0) {
    bool failed = !core_ok && (op_types & WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT)) == 0;
    if ((scrubbed || failed) && call->attempt.message != NULL) {
      grpc_byte_buffer_destroy(call->attempt.message);
      call->attempt.message = NULL;
    }
    *call->outputs.message = call->attempt.message;
    call->attempt.message = NULL;
  }
  if ((op_types & WEIR__OP_BIT(GRPC_OP_RECV_STATUS_ON_CLIENT)) != 0) {
    hand_out_status(call);
    return true; /* as in the core: a batch with the status succeeds */
  }
  return core_ok;
}
