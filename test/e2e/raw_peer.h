/* raw peer – a listener on the loopback that speaks HTTP/2 by hand, as far as a test wants it
 * wrong.
 *
 * One thread serves all connections. It answers each request, once the request is complete, by the
 * steps of a script: the first request by the first, and so on; the last script is for all that
 * follow.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_RAW_PEER_H
#define WEIR_TEST_E2E_RAW_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum raw_act {
  RAW_END = 0,  /* of the steps; the connection stays open */
  RAW_HEADERS,  /* `text`: a header a line, "key value\n" */
  RAW_TRAILERS, /* as RAW_HEADERS, and the stream ends */
  RAW_MESSAGE,  /* `text`, as one message of gRPC */
  RAW_BODY,     /* `text`, as it is, and the stream ends */
  RAW_RST,      /* `number`: the error code */
  RAW_GOAWAY,   /* `number`: how far below the request's stream the last served one is */
  RAW_CLOSE,    /* the connection, in order */
  RAW_ABORT     /* the connection, by a reset */
};

struct raw_step {
  enum raw_act act;
  const char *text;
  uint32_t number;
};

#define RAW_STEPS_MAX 5

struct raw_script {
  struct raw_step steps[RAW_STEPS_MAX];
};

/* What is done with a new connection. */
enum raw_greeting {
  RAW_GREET = 0,     /* SETTINGS */
  RAW_GREET_NOTHING, /* accept, and say nothing for ever */
  RAW_GREET_CLOSE    /* accept, and close */
};

#define RAW_HEADERS_OK ":status 200\ncontent-type application/grpc\n"

struct raw_peer;

/* Listens; aborts if it can't. `scripts` is borrowed until raw_peer_release. */
struct raw_peer *raw_peer_new(enum raw_greeting greeting, const struct raw_script *scripts,
                              size_t n_scripts);
void raw_peer_release(struct raw_peer *peer);
int raw_peer_port(const struct raw_peer *peer);

/* Requests that were complete. */
size_t raw_peer_n_requests(struct raw_peer *peer);

/* Waits, up to ten seconds, for that many; false when the time is over. */
bool raw_peer_wait_requests(struct raw_peer *peer, size_t n_requests);

/* Whether the header block of a request, from 0, holds `text`. The core sends what it has not sent
 * before on a connection in plain text. */
bool raw_peer_request_holds(struct raw_peer *peer, size_t index, const char *text);

/* Copies the value of a header of a request that was the first with it on its connection,
 * terminated. */
bool raw_peer_request_value(struct raw_peer *peer, size_t index, const char *key, char *value_out,
                            size_t value_size);

#endif /* WEIR_TEST_E2E_RAW_PEER_H */
