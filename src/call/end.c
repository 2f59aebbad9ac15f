/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "interceptors/translation/translation.h"
#include "src/call/call.h"
#include "src/call/stream.h"
#include "src/time/clock.h"

/* --- what the caller sees --- */

/* What weir says of an end that is its own, on a channel that is no boundary. */
static const char *own_words(const weir_call *call) {
  const struct weir__cancellation *cancellation = weir__call_cancellation(call);
  switch (call->outcome.origin) {
  case WEIR_ORIGIN_LOCAL_DEADLINE:
    return "the deadline is past";
  case WEIR_ORIGIN_LOCAL_CANCEL:
    return cancellation != NULL ? cancellation->description : "the call was cancelled";
  case WEIR_ORIGIN_LOCAL_BREAKER:
    return "refused by the circuit breaker";
  case WEIR_ORIGIN_LOCAL_LIMIT:
    return "a message is larger than the policy allows";
  case WEIR_ORIGIN_LOCAL_SHUTDOWN:
    return "the completion queue is shut down";
  case WEIR_ORIGIN_PEER:
  case WEIR_ORIGIN_TRANSPORT_CONNECT:
  case WEIR_ORIGIN_TRANSPORT_RESET:
    break;
  }
  return "";
}

static struct weir_bytes bytes_of(const grpc_slice *slice) {
  return (struct weir_bytes){.data = (const char *)GRPC_SLICE_START_PTR(*slice),
                             .size = GRPC_SLICE_LENGTH(*slice)};
}

static struct weir_bytes bytes_of_text(const char *text) {
  return (struct weir_bytes){.data = text, .size = text != NULL ? strlen(text) : 0};
}

static struct weir_bytes find_details(const grpc_metadata_array *trailing) {
  static const char key[] = "grpc-status-details-bin";
  for (size_t i = 0; i < trailing->count; i++) {
    if (grpc_slice_str_cmp(trailing->metadata[i].key, key) == 0) {
      return bytes_of(&trailing->metadata[i].value);
    }
  }
  return (struct weir_bytes){.data = NULL, .size = 0};
}

/* Tells the log sink what the caller is not told. */
static void log_failure(const weir_call *call) {
  const struct weir__environment *environment = call->environment;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  char *peer = call->attempt.core != NULL
                   ? transport->call_peer(transport->context, call->attempt.core)
                   : NULL;
  struct weir_log_record record = {
      .reference = call->reference,
      .path = {.data = call->plan.path, .size = call->plan.path_size},
      .target = environment->target,
      .peer = bytes_of_text(peer != NULL ? peer : environment->target),
      .raw_code = call->outcome.code,
      .code = call->plan.visible_code,
      .origin = call->outcome.origin,
      .blames = call->outcome.blames,
      .reason = call->plan.reason,
      .n_attempts = call->n_sent,
      .duration_ns = call->outcome.ended_at_ns - call->plan.started_at_ns,
      .message = bytes_of(&call->attempt.details),
      .details = find_details(&call->attempt.trailing_metadata),
      .error_string = bytes_of_text(call->attempt.error_string),
      .event = WEIR_LOG_CALL_FAILED,
      .at_ns = call->outcome.ended_at_ns,
      .time_unix_ns = weir__wall_clock_now_ns(),
      .trace = {.data = NULL, .size = 0},
      .text = "",
  };
  environment->log->write(environment->log->context, &record);
  gpr_free(peer);
}

/* Leaves only what the policy lets through. The elements belong to the core's call, so dropping one
 * frees nothing. */
static void filter_metadata(const weir_call *call, grpc_metadata_array *array) {
  if (array->count == 0) {
    return;
  }
  const struct weir_translation_options *translation = call->plan.method->translation;
  size_t kept = 0;
  for (size_t i = 0; i < array->count; i++) {
    struct weir_bytes key = bytes_of(&array->metadata[i].key);
    if (weir__translation_keeps(translation, key.data, key.size)) {
      array->metadata[kept++] = array->metadata[i];
    }
  }
  /* Nobody may look behind the count, but what is not there can't be seen. */
  memset(array->metadata + kept, 0, (array->count - kept) * sizeof array->metadata[0]);
  array->count = kept;
}

static void set_details(weir_call *call, const char *text, size_t size) {
  grpc_slice_unref(call->attempt.details);
  call->attempt.details = grpc_slice_from_copied_buffer(text, size);
}

static void set_error_string(weir_call *call, const char *text) {
  void *old = NULL;
  memcpy(&old, &call->attempt.error_string, sizeof old);
  gpr_free(old);
  call->attempt.error_string = gpr_strdup(text);
}

/* Puts weir's words in the place of everything the peer wrote about its status. The initial
 * metadata and the message may be with another thread that hands them out; hand_out filters
 * those. */
static void scrub_status(weir_call *call, const struct weir_event *event) {
  char message[WEIR__TRANSLATION_MESSAGE_BYTES];
  const struct weir_translation_options *translation = call->plan.method->translation;
  if (translation->message_ref) {
    weir__reference_make(event->random->next(event->random->context), call->reference);
  }
  log_failure(call);
  size_t size = weir__translation_message(call->plan.visible_code,
                                          translation->message_ref ? call->reference : NULL,
                                          message, sizeof message);
  set_details(call, message, size);
  set_error_string(call, message);
  filter_metadata(call, &call->attempt.trailing_metadata);
}

/* Makes what the caller sees of a failure. */
static void present_failure(weir_call *call, const struct weir_event *event) {
  weir__stack_present(&call->environment->stack, &call->outcome, &call->plan);
  if (call->plan.scrubbed) {
    scrub_status(call, event);
  }
}

void weir__call_end(weir_call *call, const struct weir_event *event) {
  const struct weir__stack *stack = &call->environment->stack;
  /* Of the call: a backoff may have followed its last attempt. */
  call->outcome.ended_at_ns = event->now_ns;
  while (weir__stack_settle(stack, call->layer_states, event, &call->outcome, &call->plan,
                            &call->n_unsettled) == WEIR_DISPOSITION_RETRY) {
    /* the end is the end */
  }
  weir__stack_release(stack, call->layer_states, event, call->n_admitted);
  call->n_admitted = 0;

  weir__parent_watch_stop(call);
  if (call->parent != NULL) {
    const struct weir__transport *transport = weir__queue_transport(call->queue);
    transport->call_unref(transport->context, call->parent);
    call->parent = NULL;
  }
  if (call->ended_here) {
    bool under_way = call->plan.shape == WEIR_CALL_SHAPE_STREAM && call->attempt.core != NULL &&
                     !weir__stream_is_between(call);
    if (!under_way) { /* another thread may be handing it out */
      weir__attempt_drop_response(&call->attempt);
    }
    const char *words = own_words(call);
    set_details(call, words, strlen(words));
    set_error_string(call, words);
  }
  if (!weir__outcome_is_ok(&call->outcome)) {
    present_failure(call, event);
  }
  /* release: what was just made, for a thread that hands out another batch; acquire: that batch */
  unsigned state = atomic_fetch_or_explicit(&call->state, WEIR__CALL_ENDED, memory_order_acq_rel);
  if ((state & WEIR__CALL_METADATA_AWAITED) != 0) {
    weir__queue_push_ready(call->queue, weir__call_metadata_completion(call));
  }
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
  call->attempt.details = grpc_empty_slice();
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
      filter_metadata(call, &call->attempt.initial_metadata);
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
