/* script – the language that tells what peers do, and when.
 *
 *   play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
 *                  {AT_MS(40), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy")},
 *                  {AT_MS(140), EXPECT_SEND}, {AT_MS(150), REPLY("bar")}));
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SCRIPT_H
#define WEIR_TEST_SUPPORT_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/status.h>

#include <weir/policy.h>

enum wire_event {
  WIRE_END = 0, /* of the script */
  /* at this instant, an attempt is sent: not earlier, not later, not another one */
  WIRE_EXPECT_SEND,
  /* the same, but there is no connection yet: what is sent has not ended until something comes */
  WIRE_EXPECT_CONNECTING,
  WIRE_CONNECTED,     /* there is one now */
  WIRE_READ,          /* the peer reads: what an attempt holds back is sent */
  WIRE_TRAILERS_ONLY, /* a status without headers */
  WIRE_HEADERS,
  WIRE_MESSAGE,      /* headers too, if they have not come */
  WIRE_TRAILERS,     /* headers too, if they have not come */
  WIRE_MESSAGE_THEN, /* headers, a message and trailers at once */
  WIRE_CONNECT_FAIL, /* no connection: nothing was sent */
  WIRE_RESET,        /* the stream is lost in flight */
  WIRE_UNPROCESSED,  /* the stream was refused by a GOAWAY, or never left */
  WIRE_TOO_LARGE     /* a message that the core itself refuses */
};

struct wire_pair {
  const char *key; /* NULL: no more */
  const char *value;
};

#define WIRE_PAIRS 4

struct wire_answer {
  enum wire_event what;
  int status; /* as on the wire: any number */
  const char *text;
  const char *body;
  struct wire_pair initial[WIRE_PAIRS];
  struct wire_pair trailing[WIRE_PAIRS];
  /* of what holds NULs; 0 = up to the first */
  size_t text_size;
  size_t initial_sizes[WIRE_PAIRS];
  size_t trailing_sizes[WIRE_PAIRS];
};

struct script_step {
  int64_t at_ns;    /* since the script was handed over */
  uint32_t attempt; /* which answers, counted from 1; 0 = the one that was sent last */
  struct wire_answer answer;
};

#define AT_MS(n) .at_ns = (n)*WEIR_MS_NS
#define AT_NS(n) .at_ns = (n)
#define FOR_ATTEMPT(n) .attempt = (n)
#define EXPECT_SEND .answer.what = WIRE_EXPECT_SEND
#define EXPECT_CONNECTING .answer.what = WIRE_EXPECT_CONNECTING
#define CONNECTED .answer.what = WIRE_CONNECTED
#define TRAILERS_ONLY(code, words) \
  .answer.what = WIRE_TRAILERS_ONLY, .answer.status = (int)(code), .answer.text = (words)
#define HEADERS .answer.what = WIRE_HEADERS
#define MESSAGE(bytes) .answer.what = WIRE_MESSAGE, .answer.body = (bytes)
#define HEADERS_THEN(code, words) \
  .answer.what = WIRE_TRAILERS, .answer.status = (int)(code), .answer.text = (words)
#define MESSAGE_THEN(bytes, code, words)                                                  \
  .answer.what = WIRE_MESSAGE_THEN, .answer.body = (bytes), .answer.status = (int)(code), \
  .answer.text = (words)
#define REPLY(bytes) MESSAGE_THEN(bytes, GRPC_STATUS_OK, "")
#define NOT_SENT(code, words) \
  .answer.what = WIRE_CONNECT_FAIL, .answer.status = (int)(code), .answer.text = (words)
#define CONNECT_FAIL(words) NOT_SENT(GRPC_STATUS_UNAVAILABLE, words)
#define RESET(words) \
  .answer.what = WIRE_RESET, .answer.status = GRPC_STATUS_UNAVAILABLE, .answer.text = (words)
#define UNPROCESSED                                                          \
  .answer.what = WIRE_UNPROCESSED, .answer.status = GRPC_STATUS_UNAVAILABLE, \
  .answer.text = "GOAWAY received"
#define TOO_LARGE                                                                 \
  .answer.what = WIRE_TOO_LARGE, .answer.status = GRPC_STATUS_RESOURCE_EXHAUSTED, \
  .answer.text = "Received message larger than max (9 vs. 4)"
#define WITH_INITIAL(name, words) .answer.initial = {{(name), (words)}}
#define WITH_TRAILING(name, words) .answer.trailing = {{(name), (words)}}
#define PUSHBACK(words) WITH_TRAILING("grpc-retry-pushback-ms", words)
#define SCRIPT_END \
  { .answer.what = WIRE_END }

/* Steps between commas, as an array. */
#define SCRIPT(...)              \
  (const struct script_step[]) { \
    __VA_ARGS__, SCRIPT_END      \
  }

#endif /* WEIR_TEST_SUPPORT_SCRIPT_H */
