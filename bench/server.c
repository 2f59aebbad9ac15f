/* The server that the benchmarks call, on the bare core, until its standard input ends. It prints
 * its port.
 *
 *   Unary     answers with an empty message
 *   Echo      answers with the message that it was sent
 *   Stream    sends as many messages as the request says, then an OK
 *   Collect   sends headers at once, and answers with an empty message when it is told to
 *   Finish    tells the Collect that is under way, and answers with an empty message
 *
 * A Collect leaves its messages unread. How many a reader took at once, and how often it widened
 * the client's window, would depend on how busy the machine is, and costs the client instructions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#define N_OPS_MAX 4
#define WINDOW_BYTES (16 * 1024 * 1024) /* more than a Collect is sent */
#define ADDRESS "127.0.0.1:0"

static const char message_text[] = "thirty-two bytes of a message...";

/* What its one batch under way means for a call. */
enum step { STEP_ARRIVED, STEP_COLLECTING, STEP_RECEIVED, STEP_SENT, STEP_REPLIED };

/* One call. */
struct serving {
  enum step step;
  bool headers_sent;
  long n_to_send;
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
  grpc_byte_buffer *message;
  int was_cancelled;
  grpc_op ops[N_OPS_MAX];
  size_t n_ops;
};

static grpc_server *server;
static grpc_completion_queue *queue;
static struct serving *collecting; /* the Collect whose headers are sent; NULL = none */

static void check(bool fine, const char *what) {
  if (!fine) {
    (void)fprintf(stderr, "bench server: %s\n", what);
    abort();
  }
}

static void await_call(void) {
  struct serving *serving = calloc(1, sizeof *serving);
  check(serving != NULL, "no memory");
  grpc_call_details_init(&serving->details);
  grpc_metadata_array_init(&serving->metadata);
  check(grpc_server_request_call(server, &serving->call, &serving->details, &serving->metadata,
                                 queue, queue, serving) == GRPC_CALL_OK,
        "a call can't be asked for");
}

static void serving_destroy(struct serving *serving) {
  if (serving->call != NULL) {
    grpc_call_unref(serving->call);
  }
  grpc_call_details_destroy(&serving->details);
  grpc_metadata_array_destroy(&serving->metadata);
  free(serving);
}

/* --- batches --- */

static grpc_op *add_op(struct serving *serving, grpc_op_type type) {
  grpc_op *op = &serving->ops[serving->n_ops++];
  memset(op, 0, sizeof *op);
  op->op = type;
  return op;
}

static void add_headers(struct serving *serving) {
  if (!serving->headers_sent) {
    (void)add_op(serving, GRPC_OP_SEND_INITIAL_METADATA);
    serving->headers_sent = true;
  }
}

static void start(struct serving *serving, enum step step) {
  size_t n_ops = serving->n_ops;
  serving->n_ops = 0;
  serving->step = step;
  check(grpc_call_start_batch(serving->call, serving->ops, n_ops, serving, NULL) == GRPC_CALL_OK,
        "a batch was refused");
}

static void start_receive(struct serving *serving) {
  add_op(serving, GRPC_OP_RECV_MESSAGE)->data.recv_message.recv_message = &serving->message;
  start(serving, STEP_RECEIVED);
}

static void start_send(struct serving *serving) {
  grpc_slice slice = grpc_slice_from_static_string(message_text);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  add_headers(serving);
  add_op(serving, GRPC_OP_SEND_MESSAGE)->data.send_message.send_message = message;
  start(serving, STEP_SENT);
  grpc_byte_buffer_destroy(message); /* the core has taken the slice out of it */
}

static void start_status(struct serving *serving, grpc_byte_buffer *message) {
  add_headers(serving);
  if (message != NULL) {
    add_op(serving, GRPC_OP_SEND_MESSAGE)->data.send_message.send_message = message;
  }
  add_op(serving, GRPC_OP_SEND_STATUS_FROM_SERVER)->data.send_status_from_server.status =
      GRPC_STATUS_OK;
  add_op(serving, GRPC_OP_RECV_CLOSE_ON_SERVER)->data.recv_close_on_server.cancelled =
      &serving->was_cancelled;
  start(serving, STEP_REPLIED);
}

static void start_reply(struct serving *serving) {
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(NULL, 0);
  start_status(serving, message);
  grpc_byte_buffer_destroy(message);
}

/* --- steps --- */

static bool is_method(const struct serving *serving, const char *path) {
  return grpc_slice_str_cmp(serving->details.method, path) == 0;
}

/* How many messages the request asks for. */
static long count_in(grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  check(grpc_byte_buffer_reader_init(&reader, message) != 0, "a message can't be read");
  grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  char *text = grpc_slice_to_c_string(slice);
  grpc_slice_unref(slice);
  long n = strtol(text, NULL, 10);
  gpr_free(text);
  return n;
}

static void on_arrived(struct serving *serving) {
  await_call();
  if (is_method(serving, "/bench.Service/Collect")) {
    add_headers(serving);
    start(serving, STEP_COLLECTING);
  } else {
    start_receive(serving);
  }
}

static void on_received(struct serving *serving) {
  grpc_byte_buffer *message = serving->message;
  serving->message = NULL;
  if (is_method(serving, "/bench.Service/Stream")) {
    serving->n_to_send = count_in(message);
    start_send(serving);
  } else if (is_method(serving, "/bench.Service/Echo")) {
    start_status(serving, message);
  } else {
    if (is_method(serving, "/bench.Service/Finish")) {
      check(collecting != NULL, "nothing to finish");
      start_reply(collecting);
      collecting = NULL;
    }
    start_reply(serving);
  }
  grpc_byte_buffer_destroy(message);
}

static void on_sent(struct serving *serving) {
  if (--serving->n_to_send > 0) {
    start_send(serving);
  } else {
    start_status(serving, NULL);
  }
}

static void on_event(struct serving *serving, bool ok) {
  if (!ok) {
    serving_destroy(serving); /* the client has gone, or the server is going */
    return;
  }
  switch (serving->step) {
  case STEP_ARRIVED:
    on_arrived(serving);
    return;
  case STEP_COLLECTING:
    collecting = serving;
    return;
  case STEP_RECEIVED:
    on_received(serving);
    return;
  case STEP_SENT:
    on_sent(serving);
    return;
  case STEP_REPLIED:
    serving_destroy(serving);
    return;
  }
}

static void *serve(void *unused) {
  (void)unused;
  for (;;) {
    grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    if (event.tag != NULL) {
      on_event(event.tag, event.success != 0);
    } else {
      grpc_completion_queue_shutdown(queue); /* the server is down */
    }
  }
}

static grpc_server *server_create(void) {
  char window_key[] = GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES;
  char probe_key[] = GRPC_ARG_HTTP2_BDP_PROBE;
  grpc_arg args[] = {
      {.type = GRPC_ARG_INTEGER, .key = window_key, .value = {.integer = WINDOW_BYTES}},
      {.type = GRPC_ARG_INTEGER, .key = probe_key, .value = {.integer = 0}},
  };
  grpc_channel_args all = {.num_args = sizeof args / sizeof args[0], .args = args};
  return grpc_server_create(&all, NULL);
}

static void wait_for_end_of_input(void) {
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
    /* until whoever started it goes */
  }
}

int main(void) {
  grpc_init();
  queue = grpc_completion_queue_create_for_next(NULL);
  server = server_create();
  grpc_server_register_completion_queue(server, queue, NULL);
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  int port = grpc_server_add_http2_port(server, ADDRESS, creds);
  grpc_server_credentials_release(creds);
  check(port != 0, "the loopback has no port left");
  grpc_server_start(server);
  await_call();
  pthread_t thread;
  check(pthread_create(&thread, NULL, serve, NULL) == 0, "no thread");
  printf("%d\n", port);
  (void)fflush(stdout);
  wait_for_end_of_input();
  grpc_server_shutdown_and_notify(server, queue, NULL);
  grpc_server_cancel_all_calls(server);
  check(pthread_join(thread, NULL) == 0, "the thread is lost");
  grpc_server_destroy(server);
  grpc_completion_queue_destroy(queue);
  grpc_shutdown();
  return 0;
}
