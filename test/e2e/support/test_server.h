/* test server – a unary server on the real C core, on a loopback port that the system chooses.
 *
 * It answers every method by one handler, drains its own queue with threads of its own, and keeps
 * what each call brought along. A delayed answer costs no thread: a timer of the queue holds it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SUPPORT_TEST_SERVER_H
#define WEIR_TEST_E2E_SUPPORT_TEST_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/reply.h>

#define WEIR__TEST_METADATA_MAX 8
#define WEIR__TEST_RECORDS_MAX 1024
#define WEIR__TEST_THREADS_MAX 16

typedef struct weir__test_server weir__test_server;

/* A call as it came in, borrowed for the handler. Its cancellation reaches calls made with `call`
 * as their parent. */
struct weir__test_served {
  const char *path;
  const grpc_call_details *details;
  const grpc_metadata_array *metadata;
  grpc_byte_buffer *message; /* NULL: there was none */
  grpc_call *call;
  uint64_t number; /* from 1, over all of the server's life */
};

/* What to answer. It comes to the handler as OK without a message; all in it is taken over. */
struct weir__test_reply {
  grpc_status_code code;
  grpc_slice text;           /* grpc-message */
  grpc_byte_buffer *message; /* NULL: none is sent */
  grpc_metadata initial_metadata[WEIR__TEST_METADATA_MAX];
  size_t n_initial_metadata;
  grpc_metadata
      trailing_metadata[WEIR__TEST_METADATA_MAX]; /* grpc-status-details-bin is one as any other */
  size_t n_trailing_metadata;
  int64_t
      delay_ns; /* before the status; ends early when the call is cancelled or the server stopped */
  bool headers_apart; /* response headers go out before the delay, even with a failure */
  /* In place of code, text and trailing metadata, once it is a GRPC_OP_SEND_STATUS_FROM_SERVER.
   * What it points to is in `weir`, which is overwritten as soon as it may be. */
  grpc_op status;
  struct weir_reply weir;
};

/* Answers one call. It runs on one of the server's threads, several at a time, and may block and
 * make calls. It must not stop or release its own server. */
typedef void weir__test_handler_fn(void *context, const struct weir__test_served *served,
                                   struct weir__test_reply *reply);

/* What a call brought along. */
struct weir__test_record {
  char path[128];
  char retry_owner[64];      /* weir-retry-owner; "" = none */
  int64_t previous_attempts; /* grpc-previous-rpc-attempts; -1 = none */
  int64_t budget_us;         /* weir-budget-us; -1 = none */
  int64_t deadline_in_ns;    /* from grpc-timeout, when it arrived; INT64_MAX = none */
};

/* Makes a server and starts it; aborts when the loopback has no port left. `n_threads` 0 = 4. */
weir__test_server *weir__test_server_new(weir__test_handler_fn *handler, void *context,
                                         size_t n_threads);

/* The same at an address, as the core writes it, in the place of the loopback's. It is borrowed until
 * the server is released. */
weir__test_server *weir__test_server_new_at(const char *address, weir__test_handler_fn *handler,
                                            void *context, size_t n_threads);

/* The port, the same after a restart. */
int weir__test_server_port(const weir__test_server *server);

/* Cancels what is being served, closes the port and waits until all is quiet. Nothing happens if it
 * is stopped. */
void weir__test_server_stop(weir__test_server *server);

/* Opens the same port again. Records and counts go on. Nothing happens if it is running. */
void weir__test_server_start(weir__test_server *server);

/* Stops the server and frees it. */
void weir__test_server_release(weir__test_server *server);

/* Calls that arrived, and those of them whose client went away before the answer. */
uint64_t weir__test_server_n_calls(weir__test_server *server);
uint64_t weir__test_server_n_cancelled(weir__test_server *server);

/* Wait, up to ten seconds, until that many have been counted; false when the time is over. */
bool weir__test_server_wait_calls(weir__test_server *server, uint64_t n_calls);
bool weir__test_server_wait_cancelled(weir__test_server *server, uint64_t n_cancelled);

/* The record of call `index`, from 0, in order of arrival; false when there is none (or more than
 * are kept). */
bool weir__test_server_record(weir__test_server *server, size_t index,
                              struct weir__test_record *record_out);

/* Forgets counts and records. */
void weir__test_server_forget(weir__test_server *server);

/* Sets the status that a handler answers with. */
void weir__test_reply_status(struct weir__test_reply *reply, grpc_status_code code,
                             const char *text);

/* Adds an entry of trailing metadata; `value` may hold any bytes if the key ends in -bin. */
void weir__test_reply_trailer(struct weir__test_reply *reply, const char *key, const void *value,
                              size_t value_size);

#endif /* WEIR_TEST_E2E_SUPPORT_TEST_SERVER_H */
