/* client – asks a server three times at once whether it is well, on one completion queue.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#define N_CALLS 3
#define TIMEOUT_S 5

/* A call and all that its batch points to. Its address is the batch's tag. */
struct ask {
  weir_call *call;
  grpc_byte_buffer *request;
  grpc_byte_buffer *response;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code code;
  grpc_slice details;
};

static grpc_call_error ask_start(struct ask *ask, weir_channel *channel,
                                 weir_completion_queue *queue) {
  grpc_op ops[6];
  gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(TIMEOUT_S, GPR_TIMESPAN));
  memset(ops, 0, sizeof ops);
  memset(ask, 0, sizeof *ask);
  ask->request = grpc_raw_byte_buffer_create(NULL, 0);
  ask->details = grpc_empty_slice();
  grpc_metadata_array_init(&ask->initial_metadata);
  grpc_metadata_array_init(&ask->trailing_metadata);
  ask->call = weir_channel_create_call(
      channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
      grpc_slice_from_static_string("/grpc.health.v1.Health/Check"), NULL, deadline, NULL);

  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = ask->request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &ask->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &ask->response;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &ask->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &ask->code;
  ops[5].data.recv_status_on_client.status_details = &ask->details;
  return weir_call_start_batch(ask->call, ops, sizeof ops / sizeof ops[0], ask, NULL);
}

static void ask_end(struct ask *ask) {
  char *text = grpc_slice_to_c_string(ask->details);
  printf("%d: %s\n", (int)ask->code, text);
  gpr_free(text);
  grpc_metadata_array_destroy(&ask->initial_metadata);
  grpc_metadata_array_destroy(&ask->trailing_metadata);
  grpc_byte_buffer_destroy(ask->request);
  grpc_byte_buffer_destroy(ask->response);
  grpc_slice_unref(ask->details);
  weir_call_unref(ask->call);
}

int main(int argc, char **argv) {
  struct ask asks[N_CALLS];
  int n_failed = 0;
  if (argc != 2) {
    fprintf(stderr, "usage: %s TARGET\n", argv[0]);
    return 2;
  }
  grpc_init();
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(argv[1], creds, NULL, NULL);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  for (int i = 0; i < N_CALLS; i++) {
    if (ask_start(&asks[i], channel, queue) != GRPC_CALL_OK) {
      return 2;
    }
  }
  for (int i = 0; i < N_CALLS; i++) {
    grpc_event event = weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    struct ask *ask = event.tag;
    n_failed += ask->code != GRPC_STATUS_OK;
    ask_end(ask);
  }
  weir_completion_queue_shutdown(queue);
  (void)weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  grpc_channel_credentials_release(creds);
  grpc_shutdown();
  return n_failed > 0;
}
