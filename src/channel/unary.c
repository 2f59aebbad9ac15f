/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include <weir/unary.h>

#include "src/base/options.h"
#include "src/call/call.h"
#include "src/call/inbound.h"
#include "src/call/parent_watch.h"
#include "src/channel/channel.h"
#include "src/queue/queue.h"
#include "src/time/instant.h"
#include "src/time/timespec.h"

#define N_OPS 6

static grpc_call_error start(weir_call *call, const struct weir_unary_request *request,
                             struct weir_unary_reply *reply, bool *over_out) {
  grpc_op ops[N_OPS];
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[0].data.send_initial_metadata.count = request->n_metadata;
  /* The core's pointer is not const, but what it points to is only read. */
  memcpy(&ops[0].data.send_initial_metadata.metadata, &request->metadata, sizeof(void *));
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = request->message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &reply->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &reply->message;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &reply->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &reply->code;
  ops[5].data.recv_status_on_client.status_details = &reply->details;
  return weir__call_start_blocking(call, ops, N_OPS, over_out);
}

static weir_call *call_new(weir_channel *channel, const struct weir_unary_request *request,
                           weir_completion_queue *queue) {
  int64_t deadline_at_ns = WEIR_NO_DEADLINE;
  if (request->timeout_ns != WEIR_NO_LIMIT_NS) {
    deadline_at_ns = weir__instant_add(weir__queue_now_ns(queue), request->timeout_ns);
  }
  struct weir_call_options options = WEIR_CALL_OPTIONS_INIT;
  options.inbound = request->inbound;
  options.inbound_bond = request->inbound_bond;
  grpc_slice method = grpc_slice_from_copied_string(request->method);
  weir_call *call = weir_channel_create_call(channel, NULL, 0, queue, method, NULL,
                                             weir__instant_to_timespec(deadline_at_ns), &options);
  grpc_slice_unref(method);
  return call;
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

static enum weir_error make_call(weir_channel *channel, const struct weir_unary_request *request,
                                 weir_completion_queue *queue, struct weir_unary_reply *reply) {
  weir_call *call = call_new(channel, request, queue);
  if (call == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  reply->call = call;
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

enum weir_error weir_unary(weir_channel *channel, const struct weir_unary_request *request,
                           struct weir_unary_reply *reply) {
  struct weir_unary_request known = WEIR_UNARY_REQUEST_INIT;
  enum weir_error error = weir__options_copy(&known, sizeof known, request);
  if (error != WEIR_OK) {
    return error;
  }
  if (reply->size < sizeof *reply || known.method == NULL || known.message == NULL ||
      (known.n_metadata > 0 && known.metadata == NULL) ||
      !weir__inbound_bond_is_known(known.inbound_bond)) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  weir__channel_ref(channel); /* the application may destroy it meanwhile */
  weir_completion_queue *queue = weir__channel_take_queue(channel);
  error = WEIR_ERROR_NO_MEMORY;
  if (queue != NULL) {
    error = make_call(channel, &known, queue, reply);
    weir__channel_give_queue(channel, queue);
  }
  weir_channel_destroy(channel);
  if (error != WEIR_OK) {
    weir_unary_reply_fini(reply);
  }
  return error;
}

void weir_unary_reply_fini(struct weir_unary_reply *reply) {
  grpc_metadata_array_destroy(&reply->initial_metadata);
  grpc_metadata_array_destroy(&reply->trailing_metadata);
  if (reply->message != NULL) {
    grpc_byte_buffer_destroy(reply->message);
  }
  grpc_slice_unref(reply->details);
  if (reply->call != NULL) {
    weir_call_unref(reply->call);
  }
  size_t size = reply->size; /* what the program has memory for */
  memset(reply, 0, size < sizeof *reply ? size : sizeof *reply);
  reply->size = size;
  reply->code = GRPC_STATUS_UNKNOWN; /* as in WEIR_UNARY_REPLY_INIT */
  reply->report.size = sizeof reply->report;
  reply->report.code = GRPC_STATUS_UNKNOWN; /* as in WEIR_CALL_REPORT_INIT */
}
