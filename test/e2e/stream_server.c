/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/stream_server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#define WAIT_LIMIT_S 10

struct worker {
  struct stream_server *server;
  grpc_completion_queue *queue;
  pthread_t thread;
};

struct stream_server {
  grpc_server *core;
  int port;
  struct worker workers[STREAM_THREADS];
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t n_calls;
    size_t n_cancelled;
    bool had_deadline;
  } guarded;
};

/* One call, and the memory of its operations. */
struct served {
  grpc_call *call;
  grpc_completion_queue *queue;
  int cancelled;
  bool headers_sent;
};

/* A server that can't go on is a broken test: it says why and ends the process. */
static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "stream server: %s\n", what);
    abort();
  }
}

/* Starts operations and waits for them; false when they failed. */
static bool run(const struct served *served, const grpc_op *ops, size_t n_ops) {
  void *tag = (void *)(uintptr_t)ops;
  check(grpc_call_start_batch(served->call, ops, n_ops, tag, NULL) == GRPC_CALL_OK, "batch");
  grpc_event event =
      grpc_completion_queue_pluck(served->queue, tag, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  return event.success != 0;
}

static bool receive(const struct served *served, grpc_byte_buffer **message_out) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_RECV_MESSAGE;
  op.data.recv_message.recv_message = message_out;
  *message_out = NULL;
  return run(served, &op, 1) && *message_out != NULL;
}

static void send_message(struct served *served, grpc_byte_buffer *message) {
  grpc_op ops[2];
  size_t n_ops = 0;
  memset(ops, 0, sizeof ops);
  if (!served->headers_sent) {
    ops[n_ops++].op = GRPC_OP_SEND_INITIAL_METADATA;
    served->headers_sent = true;
  }
  ops[n_ops].op = GRPC_OP_SEND_MESSAGE;
  ops[n_ops++].data.send_message.send_message = message;
  (void)run(served, ops, n_ops);
  grpc_byte_buffer_destroy(message);
}

static void send_text(struct served *served, const char *text) {
  grpc_slice slice = grpc_slice_from_copied_string(text);
  send_message(served, grpc_raw_byte_buffer_create(&slice, 1));
  grpc_slice_unref(slice);
}

static void send_status(struct served *served, grpc_status_code code, const char *text) {
  grpc_op ops[2];
  size_t n_ops = 0;
  grpc_slice details = grpc_slice_from_static_string(text);
  grpc_metadata debug = {.key = grpc_slice_from_static_string("x-debug"), .value = details};
  memset(ops, 0, sizeof ops);
  if (!served->headers_sent) {
    ops[n_ops++].op = GRPC_OP_SEND_INITIAL_METADATA;
  }
  ops[n_ops].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[n_ops].data.send_status_from_server.status = code;
  ops[n_ops].data.send_status_from_server.status_details = &details;
  ops[n_ops].data.send_status_from_server.trailing_metadata = &debug;
  ops[n_ops++].data.send_status_from_server.trailing_metadata_count = 1;
  (void)run(served, ops, n_ops);
}

static void echo(struct served *served) {
  grpc_byte_buffer *message = NULL;
  while (receive(served, &message)) {
    send_message(served, message);
  }
  send_status(served, GRPC_STATUS_OK, "");
}

static void count(struct served *served) {
  grpc_byte_buffer *message = NULL;
  char text[24];
  unsigned n_messages = 0;
  while (receive(served, &message)) {
    grpc_byte_buffer_destroy(message);
    n_messages++;
  }
  (void)snprintf(text, sizeof text, "%u", n_messages);
  send_text(served, text);
  send_status(served, GRPC_STATUS_OK, "");
}

static void serve_method(struct served *served, grpc_slice method) {
  if (grpc_slice_str_cmp(method, STREAM_ECHO) == 0) {
    echo(served);
  } else if (grpc_slice_str_cmp(method, STREAM_COUNT) == 0) {
    count(served);
  } else if (grpc_slice_str_cmp(method, STREAM_THREE) == 0) {
    send_text(served, "1");
    send_text(served, "2");
    send_text(served, "3");
    send_status(served, GRPC_STATUS_OK, "");
  } else if (grpc_slice_str_cmp(method, STREAM_BREAK) == 0) {
    send_text(served, "1");
    send_text(served, "2");
    send_status(served, GRPC_STATUS_UNAVAILABLE, STREAM_SECRET);
  } else if (grpc_slice_str_cmp(method, STREAM_REFUSE) == 0) {
    send_status(served, GRPC_STATUS_UNAVAILABLE, STREAM_SECRET);
  } else if (grpc_slice_str_cmp(method, STREAM_ONE_AND_WAIT) == 0) {
    send_text(served, "1");
  }
  /* The close is waited for by the caller. */
}

static void note_call(struct stream_server *server, const grpc_call_details *details) {
  (void)pthread_mutex_lock(&server->guarded.mutex);
  server->guarded.n_calls++;
  server->guarded.had_deadline =
      gpr_time_cmp(details->deadline, gpr_inf_future(details->deadline.clock_type)) != 0;
  (void)pthread_cond_broadcast(&server->guarded.changed);
  (void)pthread_mutex_unlock(&server->guarded.mutex);
}

static void note_end(struct stream_server *server, bool cancelled) {
  (void)pthread_mutex_lock(&server->guarded.mutex);
  server->guarded.n_cancelled += cancelled;
  (void)pthread_cond_broadcast(&server->guarded.changed);
  (void)pthread_mutex_unlock(&server->guarded.mutex);
}

static void serve_call(struct worker *worker, grpc_call *call, const grpc_call_details *details) {
  struct served served = {.call = call, .queue = worker->queue};
  grpc_op close;
  memset(&close, 0, sizeof close);
  close.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
  close.data.recv_close_on_server.cancelled = &served.cancelled;
  note_call(worker->server, details);
  check(grpc_call_start_batch(call, &close, 1, &served, NULL) == GRPC_CALL_OK, "close");
  serve_method(&served, details->method);
  (void)grpc_completion_queue_pluck(worker->queue, &served, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                    NULL);
  note_end(worker->server, served.cancelled != 0);
  grpc_call_unref(call);
}

static void *work(void *argument) {
  struct worker *worker = argument;
  for (;;) {
    grpc_call *call = NULL;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    check(grpc_server_request_call(worker->server->core, &call, &details, &metadata, worker->queue,
                                   worker->queue, worker) == GRPC_CALL_OK,
          "request");
    grpc_event event = grpc_completion_queue_pluck(worker->queue, worker,
                                                   gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    if (event.success != 0) {
      serve_call(worker, call, &details);
    }
    grpc_call_details_destroy(&details);
    grpc_metadata_array_destroy(&metadata);
    if (event.success == 0) {
      return NULL; /* the server is shutting down */
    }
  }
}

struct stream_server *stream_server_new(void) {
  struct stream_server *server = calloc(1, sizeof *server);
  pthread_condattr_t monotonic;
  check(server != NULL, "no memory");
  (void)pthread_mutex_init(&server->guarded.mutex, NULL);
  (void)pthread_condattr_init(&monotonic);
  (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&server->guarded.changed, &monotonic);
  (void)pthread_condattr_destroy(&monotonic);
  server->core = grpc_server_create(NULL, NULL);
  for (size_t i = 0; i < STREAM_THREADS; i++) {
    server->workers[i].server = server;
    server->workers[i].queue = grpc_completion_queue_create_for_pluck(NULL);
    grpc_server_register_completion_queue(server->core, server->workers[i].queue, NULL);
  }
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  server->port = grpc_server_add_http2_port(server->core, "127.0.0.1:0", creds);
  grpc_server_credentials_release(creds);
  check(server->port > 0, "no port on the loopback");
  grpc_server_start(server->core);
  for (size_t i = 0; i < STREAM_THREADS; i++) {
    check(pthread_create(&server->workers[i].thread, NULL, work, &server->workers[i]) == 0,
          "thread");
  }
  return server;
}

void stream_server_release(struct stream_server *server) {
  grpc_completion_queue *queue = server->workers[0].queue;
  grpc_server_shutdown_and_notify(server->core, queue, server);
  grpc_server_cancel_all_calls(server->core);
  for (size_t i = 0; i < STREAM_THREADS; i++) {
    (void)pthread_join(server->workers[i].thread, NULL);
  }
  (void)grpc_completion_queue_pluck(queue, server, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_server_destroy(server->core);
  for (size_t i = 0; i < STREAM_THREADS; i++) {
    grpc_completion_queue_shutdown(server->workers[i].queue);
    grpc_completion_queue_destroy(server->workers[i].queue);
  }
  (void)pthread_cond_destroy(&server->guarded.changed);
  (void)pthread_mutex_destroy(&server->guarded.mutex);
  free(server);
}

int stream_server_port(const struct stream_server *server) {
  return server->port;
}

/* --- what it has seen --- */

size_t stream_server_n_calls(struct stream_server *server) {
  (void)pthread_mutex_lock(&server->guarded.mutex);
  size_t n_calls = server->guarded.n_calls;
  (void)pthread_mutex_unlock(&server->guarded.mutex);
  return n_calls;
}

bool stream_server_had_deadline(struct stream_server *server) {
  (void)pthread_mutex_lock(&server->guarded.mutex);
  bool had_deadline = server->guarded.had_deadline;
  (void)pthread_mutex_unlock(&server->guarded.mutex);
  return had_deadline;
}

static bool wait_count(struct stream_server *server, const size_t *count, size_t at_least) {
  struct timespec until;
  int error = clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += WAIT_LIMIT_S;
  (void)pthread_mutex_lock(&server->guarded.mutex);
  while (*count < at_least && error == 0) {
    error = pthread_cond_timedwait(&server->guarded.changed, &server->guarded.mutex, &until);
  }
  bool reached = *count >= at_least;
  (void)pthread_mutex_unlock(&server->guarded.mutex);
  return reached;
}

bool stream_server_wait_calls(struct stream_server *server, size_t n_calls) {
  return wait_count(server, &server->guarded.n_calls, n_calls);
}

bool stream_server_wait_cancelled(struct stream_server *server, size_t n_cancelled) {
  return wait_count(server, &server->guarded.n_cancelled, n_cancelled);
}
