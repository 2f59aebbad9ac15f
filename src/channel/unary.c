/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include <weir/unary.h>

#include "src/base/options.h"
#include "src/base/zero.h"
#include "src/call/call.h"
#include "src/call/inbound.h"
#include "src/call/parent_watch.h"
#include "src/call/slice.h"
#include "src/channel/channel.h"
#include "src/queue/queue.h"
#include "src/time/instant.h"
#include "src/time/timespec.h"

/* Each operation's own part of the union is written by the caller; the rest of it is never read. */
static void op_init(grpc_op *op, grpc_op_type type) {
  op->op = type;
  op->flags = 0;
  op->reserved = NULL;
}

static grpc_call_error start(weir_call *call, const struct weir_unary_request *request,
                             struct weir_unary_reply *reply, bool *over_out) {
  grpc_op ops[WEIR__N_CLIENT_OPS];
  op_init(&ops[WEIR__HEADERS_SLOT], GRPC_OP_SEND_INITIAL_METADATA);
  ops[WEIR__HEADERS_SLOT].data.send_initial_metadata.count = request->n_metadata;
  /* The core's pointer is not const, but what it points to is only read. */
  memcpy(&ops[WEIR__HEADERS_SLOT].data.send_initial_metadata.metadata, &request->metadata,
         sizeof(void *));
  op_init(&ops[WEIR__SEND_SLOT], GRPC_OP_SEND_MESSAGE);
  ops[WEIR__SEND_SLOT].data.send_message.send_message = request->message;
  op_init(&ops[WEIR__CLOSE_SLOT], GRPC_OP_SEND_CLOSE_FROM_CLIENT);
  op_init(&ops[WEIR__METADATA_SLOT], GRPC_OP_RECV_INITIAL_METADATA);
  ops[WEIR__METADATA_SLOT].data.recv_initial_metadata.recv_initial_metadata =
      &reply->initial_metadata;
  op_init(&ops[WEIR__RECEIVE_SLOT], GRPC_OP_RECV_MESSAGE);
  ops[WEIR__RECEIVE_SLOT].data.recv_message.recv_message = &reply->message;
  op_init(&ops[WEIR__STATUS_SLOT], GRPC_OP_RECV_STATUS_ON_CLIENT);
  ops[WEIR__STATUS_SLOT].data.recv_status_on_client.trailing_metadata = &reply->trailing_metadata;
  ops[WEIR__STATUS_SLOT].data.recv_status_on_client.status = &reply->code;
  ops[WEIR__STATUS_SLOT].data.recv_status_on_client.status_details = &reply->details;
  ops[WEIR__STATUS_SLOT].data.recv_status_on_client.error_string = NULL;
  struct weir__batch batch;
  grpc_call_error error = weir__batch_of_unary(ops, &batch);
  return error == GRPC_CALL_OK ? weir__call_start_blocking(call, &batch, over_out) : error;
}

static int64_t deadline_of(const struct weir_unary_request *request,
                           const weir_completion_queue *queue) {
  return request->timeout_ns != WEIR_NO_LIMIT_NS
             ? weir__instant_add(weir__queue_now_ns(queue), request->timeout_ns)
             : WEIR_NO_DEADLINE;
}

/* The queue may lie idle for long from here on. What the call has in it that is nobody's tag would
 * hold the call until then, with the request that it was made for. It was cancelled at the call's
 * end, so it is there already, or comes at once. */
static void drain_rest(const weir_call *call, weir_completion_queue *queue) {
  gpr_timespec until = gpr_inf_past(GPR_CLOCK_MONOTONIC);
  while (weir__parent_watch_is_under_way(call)) {
    (void)weir_completion_queue_next(queue, until, NULL);
    until = weir__instant_to_timespec(weir__instant_add(weir__queue_now_ns(queue), WEIR_MS_NS));
  }
}

/* Makes the call, and has it end. */
static enum weir_error call_make(weir_call *call, const struct weir_unary_request *request,
                                 weir_completion_queue *queue, struct weir_unary_reply *reply) {
  bool over = false;
  grpc_call_error error = start(call, request, reply, &over);
  if (error != GRPC_CALL_OK) {
    return error == GRPC_CALL_ERROR ? WEIR_ERROR_NO_MEMORY : WEIR_ERROR_INVALID_ARGUMENT;
  }
  if (!over) {
    grpc_event event = weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    assert(event.type == GRPC_OP_COMPLETE && event.tag == call);
    (void)event;
    drain_rest(call, queue);
  }
  return weir_call_get_report(call, &reply->report);
}

/* Takes the share of the rules over. Nothing of the channel is needed any more: the application may
 * destroy it meanwhile. */
static enum weir_error call_by_rules(struct weir__rules *rules,
                                     const struct weir_unary_request *request,
                                     struct weir_unary_reply *reply) {
  struct weir__environment *environment = rules->environment;
  weir_completion_queue *queue = weir__environment_take_queue(environment);
  if (queue == NULL) {
    weir__rules_release(rules);
    return WEIR_ERROR_NO_MEMORY;
  }
  const struct weir__blocking_call blocking = {
      .rules = rules,
      .queue = queue,
      .method = request->method,
      .deadline_at_ns = deadline_of(request, queue),
      .inbound = request->inbound,
      .bond = request->inbound_bond,
  };
  enum weir_error error = WEIR_ERROR_NO_MEMORY;
  reply->call = weir__blocking_call_new(&blocking);
  if (reply->call != NULL) {
    error = call_make(reply->call, request, queue, reply);
  }
  weir__environment_give_queue(environment, queue);
  if (reply->call == NULL) {
    weir__rules_release(rules);
  }
  return error;
}

enum weir_error weir_unary(weir_channel *channel, const struct weir_unary_request *request,
                           struct weir_unary_reply *reply) {
  struct weir_unary_request known;
  if (request->size != sizeof known) { /* a program's of another version */
    known = (struct weir_unary_request)WEIR_UNARY_REQUEST_INIT;
    enum weir_error error = weir__options_copy(&known, sizeof known, request);
    if (error != WEIR_OK) {
      return error;
    }
    request = &known;
  }
  if (reply->size < sizeof *reply || request->method == NULL || request->message == NULL ||
      (request->n_metadata > 0 && request->metadata == NULL) ||
      !weir__inbound_bond_is_known(request->inbound_bond)) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  enum weir_error error = call_by_rules(weir__rules_take(&channel->rules), request, reply);
  if (error != WEIR_OK) {
    weir_unary_reply_fini(reply);
  }
  return error;
}

void weir_unary_reply_fini(struct weir_unary_reply *reply) {
  if (reply->initial_metadata.metadata != NULL) {
    grpc_metadata_array_destroy(&reply->initial_metadata);
  }
  if (reply->trailing_metadata.metadata != NULL) {
    grpc_metadata_array_destroy(&reply->trailing_metadata);
  }
  if (reply->message != NULL) {
    grpc_byte_buffer_destroy(reply->message);
  }
  weir__slice_unref(&reply->details);
  if (reply->call != NULL) {
    weir_call_unref(reply->call);
  }
  size_t size = reply->size; /* what the program has memory for */
  weir__zero(reply, size < sizeof *reply ? size : sizeof *reply);
  reply->size = size;
  reply->code = GRPC_STATUS_UNKNOWN; /* as in WEIR_UNARY_REPLY_INIT */
  reply->report.size = sizeof reply->report;
  reply->report.code = GRPC_STATUS_UNKNOWN; /* as in WEIR_CALL_REPORT_INIT */
}
