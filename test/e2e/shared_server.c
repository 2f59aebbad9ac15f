/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/shared_server.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_posix.h>
#include <grpc/slice.h>

#include "test/e2e/fixture.h"

void shared_server_open(struct shared_server *server, weir_completion_queue *queue,
                        grpc_server_credentials *creds, const grpc_channel_args *args) {
  memset(server, 0, sizeof *server);
  server->queue = queue;
  server->core = grpc_server_create(args, NULL);
  grpc_server_register_completion_queue(server->core, weir_completion_queue_core(queue), NULL);
  if (creds != NULL) {
    server->port = grpc_server_add_http2_port(server->core, "127.0.0.1:0", creds);
    assert_int_not_equal(server->port, 0);
  }
  grpc_server_start(server->core);
}

void shared_server_add_fd(struct shared_server *server, int fd) {
  assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0); /* the core sees to it on the client only */
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  grpc_server_add_channel_from_fd(server->core, fd, creds);
  grpc_server_credentials_release(creds);
}

static bool is_servers(const struct shared_server *server, const void *tag) {
  return tag == &server->requested || tag == &server->received || tag == &server->closed ||
         tag == &server->answered || tag == &server->shut_down;
}

void shared_server_wait(struct shared_server *server, const void *tag) {
  for (;;) {
    const void *other = next_tag(server->queue);
    if (is_servers(server, other)) {
      server->n_pending--;
    } else if (other != tag) {
      fail_msg("a tag that is nobody's");
    }
    if (other == tag) {
      return;
    }
  }
}

static void start(struct shared_server *server, const grpc_op *ops, size_t n_ops, void *tag) {
  assert_int_equal(grpc_call_start_batch(server->call, ops, n_ops, tag, NULL), GRPC_CALL_OK);
  server->n_pending++;
}

/* Lets go of the call that was served, if there is one. */
static void release_call(struct shared_server *server) {
  if (server->call != NULL) {
    grpc_call_unref(server->call);
    grpc_call_details_destroy(&server->details);
    grpc_metadata_array_destroy(&server->metadata);
    grpc_byte_buffer_destroy(server->message);
    server->call = NULL;
    server->message = NULL;
  }
}

static void drain(struct shared_server *server) {
  while (server->n_pending > 0) {
    assert_true(is_servers(server, next_tag(server->queue)));
    server->n_pending--;
  }
}

void shared_server_next(struct shared_server *server) {
  grpc_completion_queue *queue = weir_completion_queue_core(server->queue);
  drain(server); /* of the call before */
  release_call(server);
  grpc_call_details_init(&server->details);
  grpc_metadata_array_init(&server->metadata);
  assert_int_equal(grpc_server_request_call(server->core, &server->call, &server->details,
                                            &server->metadata, queue, queue, &server->requested),
                   GRPC_CALL_OK);
  server->n_pending++;
  shared_server_wait(server, &server->requested);
  assert_non_null(server->call);
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  op.data.recv_close_on_server.cancelled = &server->cancelled;
  start(server, &op, 1, &server->closed);
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = &server->message;
  start(server, &op, 1, &server->received);
  shared_server_wait(server, &server->received);
}

void shared_server_answer(struct shared_server *server, grpc_status_code code, const char *text,
                          const char *body) {
  grpc_op ops[3];
  size_t n_ops = 0;
  grpc_slice details = grpc_slice_from_static_string(text);
  grpc_byte_buffer *message = body != NULL ? message_of(body) : NULL;
  memset(ops, 0, sizeof ops);
  ops[n_ops++].op = GRPC_OP_SEND_INITIAL_METADATA;
  if (message != NULL) {
    ops[n_ops].op = GRPC_OP_SEND_MESSAGE;
    ops[n_ops++].data.send_message.send_message = message;
  }
  ops[n_ops].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[n_ops].data.send_status_from_server.status = code;
  ops[n_ops++].data.send_status_from_server.status_details = &details;
  start(server, ops, n_ops, &server->answered);
  grpc_byte_buffer_destroy(message); /* its bytes are the core's now */
}

void shared_server_close(struct shared_server *server) {
  grpc_server_shutdown_and_notify(server->core, weir_completion_queue_core(server->queue),
                                  &server->shut_down);
  server->n_pending++;
  grpc_server_cancel_all_calls(server->core);
  drain(server);
  release_call(server);
  grpc_server_destroy(server->core);
}
