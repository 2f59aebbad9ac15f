/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/presentation.h"

#include <string.h>

#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>

#include "interceptors/translation/details.h"
#include "interceptors/translation/translation.h"
#include "src/base/zero.h"
#include "src/call/call.h"
#include "src/call/fallback.h"
#include "src/call/slice.h"

#define DETAILS_KEY "grpc-status-details-bin"

static struct weir_bytes bytes_of(const grpc_slice *slice) {
  return (struct weir_bytes){.data = (const char *)GRPC_SLICE_START_PTR(*slice),
                             .size = GRPC_SLICE_LENGTH(*slice)};
}

static struct weir_bytes bytes_of_text(const char *text) {
  return (struct weir_bytes){.data = text, .size = text != NULL ? strlen(text) : 0};
}

static struct weir_bytes find_details(const grpc_metadata_array *trailing) {
  for (size_t i = 0; i < trailing->count; i++) {
    if (grpc_slice_str_cmp(trailing->metadata[i].key, DETAILS_KEY) == 0) {
      return bytes_of(&trailing->metadata[i].value);
    }
  }
  return (struct weir_bytes){.data = NULL, .size = 0};
}

static struct weir_bytes trace_of(const weir_call *call) {
  return call->inbound != NULL ? weir__inbound_trace(call->inbound)
                               : (struct weir_bytes){.data = NULL, .size = 0};
}

/* What weir says of an end that is its own: to the log, and where there is no boundary to the
 * caller. */
static const char *own_words(const weir_call *call) {
  switch (call->outcome.origin) {
  case WEIR_ORIGIN_LOCAL_DEADLINE:
    return "the deadline is past";
  case WEIR_ORIGIN_LOCAL_CANCEL:
    return call->ended_as_told ? call->cancellation->description : "the call was cancelled";
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

/* Tells the log sink what the caller is not told. */
static void log_failure(const weir_call *call) {
  const struct weir__environment *environment = call->environment;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  const char *source = weir__fallback_source(call);
  const struct weir_bytes own =
      call->ended_here ? bytes_of_text(own_words(call)) : (struct weir_bytes){.data = NULL};
  const struct weir_bytes target = {.data = environment->target, .size = environment->target_size};
  char *peer = call->attempt.core != NULL
                   ? transport->call_peer(transport->context, call->attempt.core)
                   : NULL;
  struct weir_log_record record;
  weir__zero(&record, sizeof record);
  record.reference = call->reference;
  record.path = (struct weir_bytes){.data = call->plan.path, .size = call->plan.path_size};
  record.target = environment->target;
  record.peer = peer != NULL ? bytes_of_text(peer) : target;
  record.raw_code = call->outcome.code;
  record.code = call->plan.visible_code;
  record.origin = call->outcome.origin;
  record.blames = call->outcome.blames;
  record.reason = call->plan.reason;
  record.n_attempts = call->n_sent;
  record.duration_ns = call->outcome.ended_at_ns - call->plan.started_at_ns;
  record.message = call->ended_here ? own : bytes_of(&call->attempt.details);
  record.details = find_details(&call->attempt.trailing_metadata);
  record.error_string = call->ended_here ? own : bytes_of_text(call->attempt.error_string);
  record.event = WEIR_LOG_CALL_FAILED;
  record.at_ns = call->outcome.ended_at_ns;
  record.time_unix_ns = weir__queue_wall_clock_ns(call->queue, record.at_ns);
  record.trace = trace_of(call);
  record.text = "";
  record.fallback_result = (enum weir_fallback_result)call->fallback_result;
  record.fallback_source = source != NULL ? source : "";
  environment->log->write(environment->log->context, &record);
  if (peer != NULL) {
    gpr_free(peer);
  }
}

/* The elements belong to the core's call, so dropping one frees nothing. */
void weir__call_filter_metadata(const weir_call *call, grpc_metadata_array *array) {
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
  /* Nobody may look behind the count, but what is not there can't be seen: neither what was dropped
   * nor what the memory held before the core got it. */
  memset(array->metadata + kept, 0, (array->capacity - kept) * sizeof array->metadata[0]);
  array->count = kept;
}

static void set_details(weir_call *call, const char *text, size_t size) {
  weir__slice_unref(&call->attempt.details);
  call->attempt.details = grpc_slice_malloc(size);
  memcpy(GRPC_SLICE_START_PTR(call->attempt.details), text, size);
}

/* A call in one batch has said already whether it wants one; a stream may ask after its end. */
static bool wants_error_string(const weir_call *call) {
  return call->plan.shape != WEIR_CALL_SHAPE_ONE_BATCH || call->outputs.error_string != NULL;
}

static void set_error_string(weir_call *call, const char *text) {
  void *old = NULL;
  memcpy(&old, &call->attempt.error_string, sizeof old);
  if (old != NULL) {
    gpr_free(old);
  }
  call->attempt.error_string = wants_error_string(call) ? gpr_strdup(text) : NULL;
}

/* In the place of what came. */
static void set_own_words(weir_call *call) {
  const char *words = own_words(call);
  if (call->ended_as_told) { /* the words go with the call */
    set_details(call, words, strlen(words));
  } else {
    weir__slice_unref(&call->attempt.details);
    call->attempt.details = grpc_slice_from_static_buffer(words, strlen(words));
  }
  set_error_string(call, words);
}

/* --- a boundary --- */

/* What the policy lets through of the peer's details; false = nothing. */
static bool rebuild_details(const weir_call *call, const char *message, size_t size,
                            grpc_slice *details_out) {
  const struct weir_translation_options *translation = call->plan.method->translation;
  struct weir_bytes details = find_details(&call->attempt.trailing_metadata);
  return translation->n_keep_details > 0 && details.size > 0 &&
         weir__translation_details(translation->keep_details, translation->n_keep_details,
                                   call->plan.visible_code, message, size, details.data,
                                   details.size, call->environment->allocator, details_out);
}

/* In the place of the peer's, which was not kept: keys that begin with "grpc-" never are. */
static void add_details(weir_call *call, grpc_slice details) {
  grpc_metadata_array *trailing = &call->attempt.trailing_metadata;
  if (weir__call_extras_hold_details(call, details)) {
    trailing->metadata[trailing->count++] = (grpc_metadata){
        .key = grpc_slice_from_static_buffer(DETAILS_KEY, sizeof DETAILS_KEY - 1),
        .value = details,
    };
  }
}

static bool make_reference(weir_call *call, const struct weir_event *event) {
  bool with_reference = call->plan.method->translation->message_ref;
  if (with_reference) {
    weir__reference_make(event->random->next(event->random->context), call->reference);
  }
  return with_reference;
}

/* Puts weir's words in the place of everything the peer wrote about its status. The initial
 * metadata and the message may be with another thread that hands them out, and filters them. */
static void scrub_status(weir_call *call, const struct weir_event *event) {
  char message[WEIR__TRANSLATION_MESSAGE_BYTES];
  bool with_reference = make_reference(call, event);
  log_failure(call);
  size_t size = weir__translation_message(call->plan.visible_code,
                                          with_reference ? call->reference : NULL, message);
  grpc_slice details;
  bool has_details = rebuild_details(call, message, size, &details);
  set_details(call, message, size);
  set_error_string(call, message);
  weir__call_filter_metadata(call, &call->attempt.trailing_metadata);
  if (has_details) {
    add_details(call, details);
  }
}

/* --- no boundary --- */

/* Holds the peer's message to what the policy allows. */
static void bound_message(weir_call *call) {
  static const char cut[] = WEIR__TRANSLATION_CUT;
  const struct weir_bytes message = bytes_of(&call->attempt.details);
  size_t fit = weir__translation_message_fit(message.data, message.size,
                                             call->plan.method->translation->max_message_bytes);
  if (fit == message.size) {
    return;
  }
  grpc_slice bounded = grpc_slice_malloc(fit + sizeof cut - 1);
  memcpy(GRPC_SLICE_START_PTR(bounded), message.data, fit);
  memcpy(GRPC_SLICE_START_PTR(bounded) + fit, cut, sizeof cut - 1);
  weir__slice_unref(&call->attempt.details);
  call->attempt.details = bounded;
}

/* --- a fallback --- */

/* The caller sees a success, and nothing of the failure; the log is told of it all the same. */
static void show_answer(weir_call *call, const struct weir_event *event) {
  call->plan.visible_code = GRPC_STATUS_OK;
  if (call->plan.scrubbed) {
    (void)make_reference(call, event);
    log_failure(call);
  }
  call->plan.scrubbed = false;
  call->plan.do_not_retry = false; /* there is nothing that could be tried again */
  weir__attempt_drop_response(&call->attempt);
  call->attempt.message = weir__fallback_take_message(call);
}

void weir__call_present_failure(weir_call *call, const struct weir_event *event) {
  weir__stack_present(&call->rules->stack, &call->outcome, &call->plan);
  if (call->fallback_result == WEIR_FALLBACK_HIT) {
    show_answer(call, event);
  } else if (call->plan.scrubbed) {
    scrub_status(call, event);
  } else {
    if (call->ended_here) {
      set_own_words(call);
    }
    bound_message(call);
  }
}
