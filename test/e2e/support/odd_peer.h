/* odd peer – a listener on the loopback that speaks HTTP/2 as wrong as a test wants it.
 *
 * One thread serves all connections. A new connection is greeted by the steps of a script, and each
 * request is answered by those of another: the first request by the first, and so on over all
 * connections; the last script is for all that follow. libnghttp2 compresses headers, keeps to the
 * windows and makes the frames; what it would refuse to send is written on the same connection as
 * it is. What was asked is kept, in the order of its arrival.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SUPPORT_ODD_PEER_H
#define WEIR_TEST_E2E_SUPPORT_ODD_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- scripts --- */

enum odd_act {
  ODD_ACT_END = 0, /* of the steps; the connection stays as it is */

  /* On the request's stream. */
  ODD_ACT_HEADERS,
  ODD_ACT_TRAILERS,
  ODD_ACT_MESSAGE,
  ODD_ACT_DATA,
  ODD_ACT_BODY,
  ODD_ACT_RST,

  /* On the connection. */
  ODD_ACT_SETTINGS,
  ODD_ACT_GOAWAY,
  ODD_ACT_GRACEFUL_GOAWAY,
  ODD_ACT_PINGS,

  /* As no peer should. */
  ODD_ACT_RAW_HEADERS,
  ODD_ACT_CONTINUATIONS,
  ODD_ACT_FRAME,
  ODD_ACT_BYTES,
  ODD_ACT_RANDOM_BYTES,
  ODD_ACT_RANDOM_FRAMES,

  /* Of the next step. */
  ODD_ACT_CUT,
  ODD_ACT_FLIP,

  /* How the connection goes on. */
  ODD_ACT_DELAY,
  ODD_ACT_AWAIT_END,
  ODD_ACT_MUTE,
  ODD_ACT_DEAF,
  ODD_ACT_NO_ACKS,
  ODD_ACT_NO_WINDOW,
  ODD_ACT_STOP_LISTENING,
  ODD_ACT_CLOSE,
  ODD_ACT_ABORT,
  ODD_N_ACTS
};

struct odd_step {
  enum odd_act act;
  const char *text; /* borrowed until odd_peer_release */
  size_t size;
  uint32_t number;
};

/* Headers are lines, "key value\n"; those of a request are kept as such, too. */
#define ODD_HEADERS(lines) \
  { ODD_ACT_HEADERS, lines, 0, 0 }
/* As headers, and the stream ends. */
#define ODD_TRAILERS(lines) \
  { ODD_ACT_TRAILERS, lines, 0, 0 }
/* With `n` times "x" behind the last value. */
#define ODD_LONG_HEADERS(lines, n) \
  { ODD_ACT_HEADERS, lines, 0, n }
#define ODD_LONG_TRAILERS(lines, n) \
  { ODD_ACT_TRAILERS, lines, 0, n }
/* A text as one message of gRPC. */
#define ODD_MESSAGE(text) \
  { ODD_ACT_MESSAGE, text, 0, 0 }
/* `n` times "x" as one message. */
#define ODD_MESSAGE_OF(n) \
  { ODD_ACT_MESSAGE, NULL, n, 0 }
/* A string literal as it is, NULs included. */
#define ODD_DATA(literal) \
  { ODD_ACT_DATA, literal, sizeof(literal) - 1, 0 }
/* As data, and the stream ends. */
#define ODD_BODY(literal) \
  { ODD_ACT_BODY, literal, sizeof(literal) - 1, 0 }
#define ODD_RST(code) \
  { ODD_ACT_RST, NULL, 0, code }

/* One setting, by its number in HTTP/2; 0 = none. */
#define ODD_SETTINGS(id, value) \
  { ODD_ACT_SETTINGS, NULL, value, id }
/* The last stream that is served is `below` requests of the connection before this one. */
#define ODD_GOAWAY(below) \
  { ODD_ACT_GOAWAY, NULL, 0, below }
/* With a string literal as its debug data. */
#define ODD_GOAWAY_SAYING(below, literal) \
  { ODD_ACT_GOAWAY, literal, sizeof(literal) - 1, below }
/* All streams are served: the first of the two that end a connection gracefully. */
#define ODD_GRACEFUL_GOAWAY \
  { ODD_ACT_GRACEFUL_GOAWAY, NULL, 0, 0 }
#define ODD_PINGS(n) \
  { ODD_ACT_PINGS, NULL, 0, n }

#define ODD_FLAG_NONE 0x0
#define ODD_FLAG_END_STREAM 0x1
#define ODD_FLAG_END_HEADERS 0x4

/* A frame of headers with these flags, whatever state the stream is in. */
#define ODD_RAW_HEADERS(flags, lines) \
  { ODD_ACT_RAW_HEADERS, lines, 0, flags }
/* Frames that go on with a header block and do not end it; 0 = for ever. */
#define ODD_CONTINUATIONS(n) \
  { ODD_ACT_CONTINUATIONS, NULL, 0, n }
/* On the request's stream; in a greeting, on stream 0. */
#define ODD_FRAME(type, flags, literal) \
  { ODD_ACT_FRAME, literal, sizeof(literal) - 1, (uint32_t)(type) << 8 | (flags) }
#define ODD_BYTES(literal) \
  { ODD_ACT_BYTES, literal, sizeof(literal) - 1, 0 }
/* `n` bytes; and `n` frames of any type, small, on any stream. The same for the same seed. */
#define ODD_RANDOM_BYTES(seed, n) \
  { ODD_ACT_RANDOM_BYTES, NULL, n, seed }
#define ODD_RANDOM_FRAMES(seed, n) \
  { ODD_ACT_RANDOM_FRAMES, NULL, n, seed }

/* Of the bytes of the next step only the first half is sent, and nothing more afterwards. */
#define ODD_CUT \
  { ODD_ACT_CUT, NULL, 0, 0 }
/* A few of the bits of the next step are wrong. */
#define ODD_FLIP(seed) \
  { ODD_ACT_FLIP, NULL, 0, seed }

#define ODD_DELAY_MS(n) \
  { ODD_ACT_DELAY, NULL, 0, n }
/* The steps go on when the request has ended. */
#define ODD_AWAIT_END \
  { ODD_ACT_AWAIT_END, NULL, 0, 0 }
/* Nothing is sent any more. */
#define ODD_MUTE \
  { ODD_ACT_MUTE, NULL, 0, 0 }
/* Nothing is read any more. */
#define ODD_DEAF \
  { ODD_ACT_DEAF, NULL, 0, 0 }
/* SETTINGS and PINGs are not acknowledged any more. */
#define ODD_NO_ACKS \
  { ODD_ACT_NO_ACKS, NULL, 0, 0 }
/* No WINDOW_UPDATE is sent any more. */
#define ODD_NO_WINDOW \
  { ODD_ACT_NO_WINDOW, NULL, 0, 0 }
/* Who connects from now on is refused. */
#define ODD_STOP_LISTENING \
  { ODD_ACT_STOP_LISTENING, NULL, 0, 0 }
/* The connection, in order, once all is sent. */
#define ODD_CLOSE \
  { ODD_ACT_CLOSE, NULL, 0, 0 }
/* The connection, by a reset, once all is sent. */
#define ODD_ABORT \
  { ODD_ACT_ABORT, NULL, 0, 0 }

#define ODD_STEPS_MAX 10

struct odd_script {
  struct odd_step steps[ODD_STEPS_MAX];
  bool early; /* it begins with the request, not with its end */
};

#define ODD_SCRIPT(...) \
  { .steps = {__VA_ARGS__}, .early = false }
#define ODD_EARLY_SCRIPT(...) \
  { .steps = {__VA_ARGS__}, .early = true }

#define ODD_OK ":status 200\ncontent-type application/grpc\n"
#define ODD_STATUS(code) "grpc-status " #code "\n"
/* Trailers-Only. */
#define ODD_ONLY(code) ODD_TRAILERS(ODD_OK ODD_STATUS(code))

/* --- the peer --- */

struct odd_setup {
  const struct odd_script *greetings; /* by connection; NULL = SETTINGS without any */
  size_t n_greetings;
  const struct odd_script *answers; /* by request; NULL = silence */
  size_t n_answers;
};

struct odd_peer;

/* Listens; aborts if it can't. The scripts are borrowed until odd_peer_release. */
struct odd_peer *odd_peer_new(const struct odd_setup *setup);

/* With one answer to all requests. */
struct odd_peer *odd_peer_answering(const struct odd_script *answer);

void odd_peer_release(struct odd_peer *peer);
int odd_peer_port(const struct odd_peer *peer);

/* A port on which nobody listens: it was somebody's a moment ago. */
int odd_closed_port(void);

/* --- what it has seen --- */

enum odd_event {
  ODD_CONNECTIONS = 0, /* that were accepted */
  ODD_REQUESTS,        /* that began */
  ODD_ENDS,            /* requests that were complete */
  ODD_RESETS,          /* requests that the client reset */
  ODD_PREFACES,        /* connections whose client has begun to speak */
  ODD_N_EVENTS
};

size_t odd_peer_count(struct odd_peer *peer, enum odd_event event);

/* Waits, up to ten seconds, for that many; false when the time is over. */
bool odd_peer_wait(struct odd_peer *peer, enum odd_event event, size_t count);

#define ODD_LINES_MAX 4096
#define ODD_DATA_MAX 4096

struct odd_request {
  size_t connection; /* from 0, in the order in which they were accepted */
  int64_t began_at_ns;
  bool ended;
  bool reset; /* by the client */
  uint32_t reset_code;
  size_t lines_size;
  char lines[ODD_LINES_MAX]; /* terminated; what there is no room for is left out, as below */
  size_t data_size;          /* of all that came */
  unsigned char data[ODD_DATA_MAX];
};

/* Copies what is known of a request, from 0; false when there is none. */
bool odd_peer_request(struct odd_peer *peer, size_t index, struct odd_request *request_out);

/* Copies the value of a header, terminated and cut to fit; false, and "", when there is none. */
bool odd_request_value(const struct odd_request *request, const char *key, char *value_out,
                       size_t value_size);

/* Whether message `index`, from 0, is `text`. */
bool odd_request_message_is(const struct odd_request *request, size_t index, const char *text);

/* How many whole messages came. */
size_t odd_request_n_messages(const struct odd_request *request);

#endif /* WEIR_TEST_E2E_SUPPORT_ODD_PEER_H */
