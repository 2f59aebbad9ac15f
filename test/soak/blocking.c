/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/blocking.h"

#include <inttypes.h>
#include <stdio.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/support/metadata.h"
#include "test/soak/message.h"
#include "test/soak/service.h"

#define NUMBER_SIZE 24

struct tally_call blocking_plan(struct client *client, int64_t id) {
  return (struct tally_call){
      .id = id, .plan = plan_of(client->plans, id), .began_at_ns = ledger_now_ns()};
}

grpc_status_code blocking_run(struct client *client, struct tally_call *call) {
  char number[NUMBER_SIZE];
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  struct wire *wire = &client->wires[call->plan.channel];
  grpc_byte_buffer *message = message_new(&(struct message){
      .kind = MESSAGE_REQUEST, .id = (uint32_t)call->id, .number = 0, .size = call->plan.size});
  (void)snprintf(number, sizeof number, "%" PRId64, call->id);
  grpc_metadata id = weir__metadata_from_text(SERVICE_ID_KEY, number);
  request.method = plan_method(call->plan.shape);
  request.message = message;
  request.metadata = &id;
  request.n_metadata = 1;
  request.timeout_ns = call->plan.timeout_ns;
  tally_begin(client->tally, call);
  call->began_at_ns = ledger_now_ns();
  if (weir_unary(wire->channel, &request, &reply) != WEIR_OK) {
    ledger_blame(client->ledger, call->id, LEDGER_CLIENT, "weir_unary fails");
  }
  if (reply.message != NULL) {
    tally_receive(client->tally, call, reply.message);
  }
  call->ended_at_ns = ledger_now_ns();
  tally_end(client->tally, call, &reply.report, reply.code, reply.details);
  call->by_fallback = reply.report.fallback_result == WEIR_FALLBACK_HIT;
  grpc_status_code code = reply.code;
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(message);
  grpc_slice_unref(id.key);
  grpc_slice_unref(id.value);
  return code;
}
