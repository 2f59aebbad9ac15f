/* server – answers every call with OK and an empty message, on a port of its own, which it prints.
 * On the core alone: what is tried here are the clients. Runs until it is killed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

/* The one call that is served. */
struct served {
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  grpc_byte_buffer *request;
  int cancelled;
};

static grpc_event next(grpc_completion_queue *queue) {
  return grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

static void answer(struct served *served, grpc_completion_queue *queue) {
  grpc_op ops[5];
  grpc_byte_buffer *reply = grpc_raw_byte_buffer_create(NULL, 0);
  memset(ops, 0, sizeof ops);
  ops[0].op = GRPC_OP_RECV_MESSAGE;
  ops[0].data.recv_message.recv_message = &served->request;
  ops[1].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[2].op = GRPC_OP_SEND_MESSAGE;
  ops[2].data.send_message.send_message = reply;
  ops[3].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[3].data.send_status_from_server.status = GRPC_STATUS_OK;
  ops[4].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  ops[4].data.recv_close_on_server.cancelled = &served->cancelled;
  if (grpc_call_start_batch(served->call, ops, sizeof ops / sizeof ops[0], served, NULL) ==
      GRPC_CALL_OK) {
    (void)next(queue);
  }
  grpc_byte_buffer_destroy(reply);
  grpc_byte_buffer_destroy(served->request);
  served->request = NULL;
}

static int serve_one(grpc_server *server, grpc_completion_queue *queue) {
  struct served served;
  memset(&served, 0, sizeof served);
  grpc_call_details_init(&served.details);
  grpc_metadata_array_init(&served.metadata);
  if (grpc_server_request_call(server, &served.call, &served.details, &served.metadata, queue,
                               queue, &served) != GRPC_CALL_OK ||
      !next(queue).success) {
    return 1;
  }
  answer(&served, queue);
  grpc_call_unref(served.call);
  grpc_call_details_destroy(&served.details);
  grpc_metadata_array_destroy(&served.metadata);
  return 0;
}

int main(void) {
  grpc_init();
  grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
  grpc_server *server = grpc_server_create(NULL, NULL);
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  grpc_server_register_completion_queue(server, queue, NULL);
  int port = grpc_server_add_http2_port(server, "127.0.0.1:0", creds);
  grpc_server_credentials_release(creds);
  if (port == 0) {
    return 1;
  }
  grpc_server_start(server);
  printf("%d\n", port);
  (void)fflush(stdout);
  while (serve_one(server, queue) == 0) {
  }
  return 1;
}
