/* shared server – a server whose completion queue is the one of weir's that the test drains: one
 * thread does both sides, in the order that the test says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SHARED_SERVER_H
#define WEIR_TEST_E2E_SHARED_SERVER_H

#include <stddef.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <weir/weir.h>

/* One call at a time. Opened by shared_server_open. */
struct shared_server {
  grpc_server *core;
  weir_completion_queue *queue;
  int port; /* 0 = none: shared_server_add_fd */

  /* The call that shared_server_next has got; until the next one. */
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  grpc_byte_buffer *message;

  size_t n_pending; /* tags of its own that are still to come */
  int cancelled;
  char requested; /* the tags are their addresses */
  char received;
  char closed;
  char answered;
  char shut_down;
};

/* `creds` NULL = no port; both are borrowed for the call. The queue is to be drained by the
 * functions here while anything of the server's is under way. */
void shared_server_open(struct shared_server *server, weir_completion_queue *queue,
                        grpc_server_credentials *creds, const grpc_channel_args *args);

/* Serves a connected socket too; takes `fd` over. */
void shared_server_add_fd(struct shared_server *server, int fd);

/* Waits for a call, and for its message. */
void shared_server_next(struct shared_server *server);

/* Answers it: with `body`, unless it is NULL. */
void shared_server_answer(struct shared_server *server, grpc_status_code code, const char *text,
                          const char *body);

/* Drains the queue until `tag` comes. No other tag that is not the server's own may
 * come before. */
void shared_server_wait(struct shared_server *server, const void *tag);

/* Cancels what is being served, and ends the server. */
void shared_server_close(struct shared_server *server);

#endif /* WEIR_TEST_E2E_SHARED_SERVER_H */
