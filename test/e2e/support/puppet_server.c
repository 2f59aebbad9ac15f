/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/support/puppet_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "test/e2e/support/metadata.h"
#include "test/support/awaited_tag.h"

#define MAX_CALLS 8
#define MAX_TRAILERS 2
#define N_END_OPS 4
#define DEFAULT_TEXT "xyz"
#define STEP_MS 5
#define WAIT_LIMIT_S 10

struct puppet_call {
  struct puppet_server *server;
  struct awaited_tag arrived;
  struct awaited_tag read;
  struct awaited_tag sent;
  struct awaited_tag ended; /* the client's side too */
  grpc_call *core;          /* NULL: it has not arrived */
  grpc_call_details details;
  grpc_metadata_array metadata;
  grpc_byte_buffer *message;
  int cancelled;
  bool headers_sent;
  bool is_watched;
};

struct puppet_server {
  weir_completion_queue *queue;
  grpc_server *core;
  grpc_completion_queue *end_queue; /* of the shutdown's notice */
  int port;
  bool is_ending;
  struct puppet_call calls[MAX_CALLS + 1]; /* and the one that is waited for */
  size_t n_accepted;
};

/* --- calls that arrive --- */

static void await_next_call(struct puppet_server *server) {
  struct puppet_call *call = &server->calls[server->n_accepted];
  call->server = server;
  grpc_call_details_init(&call->details);
  grpc_metadata_array_init(&call->metadata);
  grpc_completion_queue *queue = weir_completion_queue_core(server->queue);
  assert_int_equal(grpc_server_request_call(server->core, &call->core, &call->details,
                                            &call->metadata, queue, queue,
                                            awaited_tag_go(&call->arrived)),
                   GRPC_CALL_OK);
}

struct puppet_call *puppet_accept(struct puppet_server *server) {
  struct puppet_call *call = &server->calls[server->n_accepted];
  assert_true(awaited_tag_wait(&call->arrived, server->queue));
  assert_true(server->n_accepted < MAX_CALLS);
  server->n_accepted++;
  await_next_call(server);
  return call;
}

bool puppet_server_is_called(const struct puppet_server *server) {
  return server->calls[server->n_accepted].core != NULL;
}

int64_t puppet_previous_attempts(const struct puppet_call *call) {
  return weir__metadata_number(&call->metadata, "grpc-previous-rpc-attempts", -1);
}

bool puppet_was_told(const struct puppet_call *call, const char *key, const char *value) {
  const grpc_slice *told = weir__metadata_find(&call->metadata, key);
  return told != NULL && grpc_slice_str_cmp(*told, value) == 0;
}

/* --- what is done with them --- */

static grpc_op op_of(grpc_op_type type) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = type;
  return op;
}

static void start(struct puppet_call *call, const grpc_op *ops, size_t n_ops,
                  struct awaited_tag *tag) {
  assert_int_equal(grpc_call_start_batch(call->core, ops, n_ops, awaited_tag_go(tag), NULL),
                   GRPC_CALL_OK);
}

static void run(struct puppet_call *call, const grpc_op *ops, size_t n_ops,
                struct awaited_tag *tag) {
  start(call, ops, n_ops, tag);
  assert_true(awaited_tag_wait(tag, call->server->queue));
}

static void read_message(struct puppet_call *call) {
  grpc_op op = op_of(GRPC_OP_RECV_MESSAGE);
  grpc_byte_buffer_destroy(call->message);
  call->message = NULL;
  op.data.recv_message.recv_message = &call->message;
  run(call, &op, 1, &call->read);
}

void puppet_reads(struct puppet_call *call, const char *text) {
  grpc_byte_buffer_reader reader;
  read_message(call);
  if (call->message == NULL || text == NULL) {
    assert_ptr_equal(call->message, text);
    return;
  }
  assert_true(grpc_byte_buffer_reader_init(&reader, call->message));
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  bool same = grpc_slice_str_cmp(all, text) == 0;
  grpc_slice_unref(all);
  grpc_byte_buffer_reader_destroy(&reader);
  assert_true(same);
}

size_t puppet_read_size(struct puppet_call *call) {
  read_message(call);
  assert_non_null(call->message);
  return grpc_byte_buffer_length(call->message);
}

void puppet_send_headers(struct puppet_call *call, const char *key, const char *value) {
  grpc_op op = op_of(GRPC_OP_SEND_INITIAL_METADATA);
  grpc_metadata entry = weir__metadata_from_text(key != NULL ? key : "none", value);
  op.data.send_initial_metadata.metadata = &entry;
  op.data.send_initial_metadata.count = key != NULL ? 1 : 0;
  call->headers_sent = true;
  run(call, &op, 1, &call->sent);
  grpc_slice_unref(entry.key);
  grpc_slice_unref(entry.value);
}

static grpc_byte_buffer *message_of(const char *text) {
  grpc_slice slice = grpc_slice_from_copied_string(text);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return message;
}

/* Headers, if they have not been sent, and a message, if there is one. */
static size_t add_response(struct puppet_call *call, grpc_byte_buffer *message, grpc_op *ops) {
  size_t n_ops = 0;
  if (!call->headers_sent) {
    ops[n_ops++] = op_of(GRPC_OP_SEND_INITIAL_METADATA);
    call->headers_sent = true;
  }
  if (message != NULL) {
    ops[n_ops] = op_of(GRPC_OP_SEND_MESSAGE);
    ops[n_ops++].data.send_message.send_message = message;
  }
  return n_ops;
}

void puppet_send_message(struct puppet_call *call, const char *text) {
  grpc_op ops[N_END_OPS];
  grpc_byte_buffer *message = message_of(text);
  size_t n_ops = add_response(call, message, ops);
  run(call, ops, n_ops, &call->sent);
  grpc_byte_buffer_destroy(message);
}

/* --- their ends --- */

static grpc_op close_op(struct puppet_call *call) {
  grpc_op op = op_of(GRPC_OP_RECV_CLOSE_ON_SERVER);
  op.data.recv_close_on_server.cancelled = &call->cancelled;
  call->is_watched = true;
  return op;
}

void puppet_watch(struct puppet_call *call) {
  grpc_op op = close_op(call);
  start(call, &op, 1, &call->ended);
}

bool puppet_was_cancelled(struct puppet_call *call) {
  assert_true(call->is_watched);
  assert_true(awaited_tag_wait(&call->ended, call->server->queue));
  return call->cancelled != 0;
}

static size_t add_trailers(const struct puppet_end *end, grpc_metadata trailers[MAX_TRAILERS]) {
  size_t count = 0;
  if (end->pushback != NULL) {
    trailers[count++] = weir__metadata_from_text("grpc-retry-pushback-ms", end->pushback);
  }
  if (end->trailer != NULL) {
    trailers[count++] = weir__metadata_from_text("from", end->trailer);
  }
  return count;
}

void puppet_end(struct puppet_call *call, const struct puppet_end *end) {
  grpc_op ops[N_END_OPS];
  grpc_metadata trailers[MAX_TRAILERS];
  grpc_byte_buffer *message = end->body != NULL ? message_of(end->body) : NULL;
  grpc_slice text = grpc_slice_from_copied_string(end->text != NULL ? end->text : DEFAULT_TEXT);
  size_t n_trailers = add_trailers(end, trailers);
  bool is_watched = call->is_watched;
  size_t n_ops = add_response(call, message, ops);
  ops[n_ops] = op_of(GRPC_OP_SEND_STATUS_FROM_SERVER);
  ops[n_ops].data.send_status_from_server.status = end->code;
  ops[n_ops].data.send_status_from_server.status_details = &text;
  ops[n_ops].data.send_status_from_server.trailing_metadata = trailers;
  ops[n_ops++].data.send_status_from_server.trailing_metadata_count = n_trailers;
  if (!is_watched) {
    ops[n_ops++] = close_op(call);
  }
  run(call, ops, n_ops, is_watched ? &call->sent : &call->ended);
  (void)awaited_tag_wait(&call->ended, call->server->queue);
  for (size_t i = 0; i < n_trailers; i++) {
    grpc_slice_unref(trailers[i].key);
    grpc_slice_unref(trailers[i].value);
  }
  grpc_slice_unref(text);
  grpc_byte_buffer_destroy(message);
}

/* --- life --- */

static grpc_server *core_new(const struct puppet_options *options) {
  char key[] = GRPC_ARG_MAX_CONCURRENT_STREAMS;
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = GRPC_ARG_INTEGER;
  arg.key = key;
  arg.value.integer = options->max_streams;
  const grpc_channel_args args = {.num_args = options->max_streams != 0 ? 1 : 0, .args = &arg};
  return grpc_server_create(&args, NULL);
}

struct puppet_server *puppet_server_new(weir_completion_queue *queue,
                                        const struct puppet_options *options) {
  static const struct puppet_options defaults = {.port = 0};
  const struct puppet_options *known = options != NULL ? options : &defaults;
  char address[32];
  struct puppet_server *server = calloc(1, sizeof *server);
  assert_non_null(server);
  server->queue = queue;
  server->end_queue = grpc_completion_queue_create_for_pluck(NULL);
  server->core = core_new(known);
  grpc_server_register_completion_queue(server->core, weir_completion_queue_core(queue), NULL);
  (void)snprintf(address, sizeof address, "127.0.0.1:%d", known->port);
  grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
  server->port = grpc_server_add_http2_port(server->core, address, creds);
  grpc_server_credentials_release(creds);
  assert_true(server->port > 0);
  grpc_server_start(server->core);
  await_next_call(server);
  return server;
}

int puppet_server_port(const struct puppet_server *server) {
  return server->port;
}

void puppet_server_begin_shutdown(struct puppet_server *server) {
  server->is_ending = true;
  grpc_server_shutdown_and_notify(server->core, server->end_queue, server);
}

static gpr_timespec from_now(gpr_timespec span) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), span);
}

static bool is_quiet(const struct puppet_server *server) {
  for (size_t i = 0; i <= server->n_accepted; i++) {
    const struct puppet_call *call = &server->calls[i];
    if (call->arrived.is_out || call->read.is_out || call->sent.is_out || call->ended.is_out) {
      return false;
    }
  }
  return true;
}

/* The core says that it is down when all calls are gone, and those are when their tags were
 * taken. */
static void await_quiet(struct puppet_server *server) {
  gpr_timespec limit = from_now(gpr_time_from_seconds(WAIT_LIMIT_S, GPR_TIMESPAN));
  bool is_down = false;
  while (!is_down || !is_quiet(server)) {
    gpr_timespec step = from_now(gpr_time_from_millis(STEP_MS, GPR_TIMESPAN));
    if (!is_down) {
      grpc_event event = grpc_completion_queue_pluck(server->end_queue, server, step, NULL);
      is_down = event.type == GRPC_OP_COMPLETE;
    }
    while (awaited_tag_take(server->queue, is_down ? step : gpr_inf_past(GPR_CLOCK_MONOTONIC))) {
      /* noted */
    }
    assert_true(gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), limit) < 0);
  }
}

static void call_drop(struct puppet_call *call) {
  if (call->core != NULL) {
    grpc_call_unref(call->core);
    call->core = NULL;
  }
}

void puppet_server_release(struct puppet_server *server) {
  if (!server->is_ending) {
    puppet_server_begin_shutdown(server);
  }
  for (size_t i = 0; i < server->n_accepted; i++) {
    call_drop(&server->calls[i]);
  }
  grpc_server_cancel_all_calls(server->core);
  struct puppet_call *last = &server->calls[server->n_accepted];
  (void)awaited_tag_wait(&last->arrived, server->queue);
  call_drop(last); /* one that nobody has accepted */
  await_quiet(server);
  for (size_t i = 0; i <= server->n_accepted; i++) {
    grpc_call_details_destroy(&server->calls[i].details);
    grpc_metadata_array_destroy(&server->calls[i].metadata);
    grpc_byte_buffer_destroy(server->calls[i].message);
  }
  grpc_server_destroy(server->core);
  grpc_completion_queue_shutdown(server->end_queue);
  grpc_completion_queue_destroy(server->end_queue);
  free(server);
}
