/* puppet_server – a server on the real C core that does nothing by itself: a test moves it, batch
 * by batch.
 *
 * It lives on the client's queue, so one thread drives both ends of a call, and what the client has
 * due happens while the server waits. Whatever does not happen within ten seconds fails the test.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SUPPORT_PUPPET_SERVER_H
#define WEIR_TEST_E2E_SUPPORT_PUPPET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/completion_queue.h>

struct puppet_server;
struct puppet_call;

struct puppet_options {
  int port;        /* of the loopback; 0 = the system chooses */
  int max_streams; /* of a connection at once; 0 = the core's default */
};

/* `options` NULL = the defaults. The queue carries awaited tags only, and outlives the server. */
struct puppet_server *puppet_server_new(weir_completion_queue *queue,
                                        const struct puppet_options *options);

int puppet_server_port(const struct puppet_server *server);

/* Tells the clients to go away; calls that have arrived go on. */
void puppet_server_begin_shutdown(struct puppet_server *server);

/* Ends what is under way, closes the port, and waits until all is quiet. */
void puppet_server_release(struct puppet_server *server);

/* --- calls: the server's, and gone with it --- */

/* Waits for the next call to arrive. */
struct puppet_call *puppet_accept(struct puppet_server *server);

/* Whether a call has arrived that was not accepted. */
bool puppet_server_is_called(const struct puppet_server *server);

/* grpc-previous-rpc-attempts; -1 = it was not sent. */
int64_t puppet_previous_attempts(const struct puppet_call *call);

/* Whether the call brought this along. */
bool puppet_was_told(const struct puppet_call *call, const char *key, const char *value);

/* Reads a message, and fails unless it is `text`; NULL = the client has closed its side. */
void puppet_reads(struct puppet_call *call, const char *text);

/* Reads a message, and says how large it was. */
size_t puppet_read_size(struct puppet_call *call);

/* Sends response headers in a batch of their own, with an entry unless `key` is NULL. */
void puppet_send_headers(struct puppet_call *call, const char *key, const char *value);

/* Sends a message, and headers with it if they have not been. */
void puppet_send_message(struct puppet_call *call, const char *text);

/* The end of a call, in one batch: headers if they have not been sent, a message, the status. The
 * core makes a Trailers-Only answer of it when there were no headers and there is no message. */
struct puppet_end {
  grpc_status_code code;
  const char *text;     /* NULL = "xyz" */
  const char *body;     /* NULL = no message */
  const char *pushback; /* grpc-retry-pushback-ms; NULL = none */
  const char *trailer;  /* the value of an entry "from"; NULL = none */
};

/* Sends it, and waits until the call is over on this side. */
void puppet_end(struct puppet_call *call, const struct puppet_end *end);

#define ENDS(...) (&(const struct puppet_end){__VA_ARGS__})

/* From now on the end of the call can be waited for without puppet_end. */
void puppet_watch(struct puppet_call *call);

/* Waits for the end of the call, which puppet_end sent or puppet_watch looks out for: whether the
 * client gave it up. */
bool puppet_was_cancelled(struct puppet_call *call);

#endif /* WEIR_TEST_E2E_SUPPORT_PUPPET_SERVER_H */
