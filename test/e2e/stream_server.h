/* stream server – a streaming server on the real C core, on a loopback port that the system
 * chooses.
 *
 * What it does with a call is in the method's name; see below. Each of its threads serves one call
 * at a time, so it is for as many calls at once as it has threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_STREAM_SERVER_H
#define WEIR_TEST_E2E_STREAM_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#define STREAM_ECHO "/test.Stream/Echo"     /* sends back each message; OK */
#define STREAM_COUNT "/test.Stream/Count"   /* the number of messages that came, as a message; OK */
#define STREAM_THREE "/test.Stream/Three"   /* "1", "2" and "3"; OK */
#define STREAM_BREAK "/test.Stream/Break"   /* "1" and "2"; UNAVAILABLE with STREAM_SECRET */
#define STREAM_REFUSE "/test.Stream/Refuse" /* UNAVAILABLE with STREAM_SECRET, and no headers */
#define STREAM_ONE_AND_WAIT "/test.Stream/OneAndWait" /* "1"; waits until the client gives up */
#define STREAM_WAIT "/test.Stream/Wait"               /* waits until the client gives up */

#define STREAM_SECRET "password=hunter2 at 10.0.0.7"

#define STREAM_THREADS 4

struct stream_server;

struct stream_server *stream_server_new(void);
void stream_server_release(struct stream_server *server);
int stream_server_port(const struct stream_server *server);

/* Calls that arrived, calls that the client gave up, and whether the last one had a deadline. */
size_t stream_server_n_calls(struct stream_server *server);
bool stream_server_wait_calls(struct stream_server *server, size_t n_calls);
bool stream_server_wait_cancelled(struct stream_server *server, size_t n_cancelled);
bool stream_server_had_deadline(struct stream_server *server);

#endif /* WEIR_TEST_E2E_STREAM_SERVER_H */
