/* fixture – weir's side of a test on real sockets: channels by policy documents, unary calls in one
 * batch, servers that answer by a table, and a log that keeps what it was told.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_FIXTURE_H
#define WEIR_TEST_E2E_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/support/test_server.h"

#define METHOD "/test.Service/Method"
#define OTHER_METHOD "/test.Service/Other"

#define MS(n) ((n)*WEIR_MS_NS)
#define SECONDS(n) ((n)*WEIR_SECOND_NS)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The core, for all tests of a program. */
int start_core(void **state);
int stop_core(void **state);

int64_t now_ns(void);

/* --- policies, as documents --- */

/* Layers switched off one by one, so that a test sees the one it is about. */
#define NO_BOUNDARY "\"translation\":{\"boundary\":false}"
#define NO_BREAKER "\"breaker\":{\"enabled\":false}"

/* A method policy for every method: `attempts` in all, `backoff` in between, for `codes`. */
#define METHODS(fields) "\"methodConfig\":[{\"name\":[{}]," fields "}]"
#define RETRY(attempts, backoff, codes)                                                        \
  "\"retryPolicy\":{\"maxAttempts\":" attempts ",\"initialBackoff\":\"" backoff                \
  "\",\"maxBackoff\":\"" backoff "\",\"backoffMultiplier\":1,\"retryableStatusCodes\":[" codes \
  "]}"
#define UNAVAILABLE "\"UNAVAILABLE\""

/* Nothing but the core, as far as can be seen. */
#define POLICY_PLAIN "{" NO_BOUNDARY "," NO_BREAKER "}"

/* Three attempts, a few milliseconds apart, for UNAVAILABLE. */
#define POLICY_RETRY \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("3", "0.005s", UNAVAILABLE)) "}"

/* Three attempts, a minute apart: a call that failed once is in its backoff. */
#define POLICY_LONG_BACKOFF \
  "{" NO_BOUNDARY "," NO_BREAKER "," METHODS(RETRY("3", "30s", UNAVAILABLE)) "}"

/* --- channels --- */

/* Insecure, to a port of the loopback. `policy` is a document, NULL = the defaults. Ended by
 * weir_channel_destroy. */
weir_channel *channel_to(int port, const char *policy);

struct channel_setup {
  const char *target; /* NULL = the loopback's `port` */
  int port;
  const char *policy;
  const struct weir_log_sink *log; /* NULL = a sink that drops everything */
  const struct weir_breaker_listener *breaker_listener;
  bool default_log;                 /* weir's own instead of `log` */
  const struct weir_random *random; /* NULL = the library's own */
  const grpc_channel_args *args;
  grpc_channel_credentials *creds;      /* NULL = insecure */
  bool own_connection;                  /* not shared with other channels; without `args` */
  bool wrapped;                         /* the core makes it, and weir is put on it */
  const struct weir_fallback *fallback; /* NULL = none */
};
weir_channel *channel_new(const struct channel_setup *setup);

/* Chance that counts how often it was asked. The layers ask once for each backoff, and once for
 * each reference. */
struct counted_random {
  struct weir_random base;
  pthread_mutex_t mutex;
  pthread_cond_t asked;
  unsigned n_asked;
};
void counted_random_init(struct counted_random *random);
void counted_random_fini(struct counted_random *random);

unsigned counted_random_n_asked(struct counted_random *random);

/* Waits, up to ten seconds, until it was asked that often; false when the time is over. */
bool counted_random_wait(struct counted_random *random, unsigned n_asked);

/* --- servers --- */

#define PAIRS_MAX 4

struct pair {
  const char *key; /* NULL: no more */
  const char *value;
};

/* What a server answers. Zeroed = OK with what it was sent. */
struct answer {
  grpc_status_code code;
  const char *text;
  const char *body; /* NULL: an echo, if the code is OK; no message if not */
  struct pair initial[PAIRS_MAX];
  struct pair trailing[PAIRS_MAX];
  int64_t delay_ns;
  bool headers_apart;
};

/* The answers to a server's calls by their numbers; the last one is for all that follow. */
struct script {
  const struct answer *answers;
  size_t n_answers;
};

#define SCRIPT(...)                                                                   \
  {                                                                                   \
    .answers = (const struct answer[]){__VA_ARGS__},                                  \
    .n_answers = sizeof((const struct answer[]){__VA_ARGS__}) / sizeof(struct answer) \
  }

/* A handler; its context is a struct script. */
void answer_by_script(void *context, const struct weir__test_served *served,
                      struct weir__test_reply *reply);

/* Fills a reply in. */
void answer_with(const struct answer *answer, const struct weir__test_served *served,
                 struct weir__test_reply *reply);

/* --- unary calls in one batch; the tag is the address of the call --- */

struct unary_setup {
  const char *method;        /* NULL = METHOD */
  void *registered;          /* the handle of a registered one instead; NULL = none */
  const char *text;          /* of the message; NULL = "hello" */
  grpc_byte_buffer *message; /* instead of `text`; stays the caller's */
  const grpc_metadata *metadata;
  size_t n_metadata;
  uint32_t metadata_flags;
  uint32_t message_flags;
  const char *host;
  int64_t timeout_ns;          /* 0 = as the policy says */
  const gpr_clock_type *clock; /* that tells it; NULL = the monotonic one */
  weir_inbound *inbound;
  grpc_call *parent;
  uint32_t propagation_mask;
};

struct unary {
  weir_call *call;
  grpc_byte_buffer *request;
  grpc_byte_buffer *message;
  const char *error_string;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_slice details;
  struct weir_call_report report; /* once it was waited for */
  grpc_status_code code;
  bool owns_request;
};

/* Makes the call, and starts no batch. */
void unary_create(struct unary *unary, weir_channel *channel, weir_completion_queue *queue,
                  const struct unary_setup *setup);

#define UNARY_OPS 6

/* The call's operations, with their outputs in `unary`: three that send, then metadata, message and
 * status. */
void unary_ops(struct unary *unary, const struct unary_setup *setup, grpc_op ops[UNARY_OPS]);

/* Makes the call and starts its batch. `setup` NULL = the defaults. */
void unary_start(struct unary *unary, weir_channel *channel, weir_completion_queue *queue,
                 const struct unary_setup *setup);

/* Starts the batch on a call that the test has made, and takes it over. Of `setup`, what a call is
 * made with is not looked at. */
void unary_start_on(struct unary *unary, weir_call *call, const struct unary_setup *setup);

/* Drains a queue on which nothing else is under way until the tag has come, and reads the
 * report. */
void unary_wait(struct unary *unary, weir_completion_queue *queue);

/* Reads the report of a call whose tag somebody has got. */
void unary_read_report(struct unary *unary);

/* Ends it; the call may be under way still. Who has given the call back has set it to NULL. */
void unary_fini(struct unary *unary);

/* Both, on a queue of its own. */
void unary_run(struct unary *unary, weir_channel *channel, const struct unary_setup *setup);

/* Ends a queue on which nothing is under way. */
void queue_end(weir_completion_queue *queue);

/* Waits up to ten seconds for the next tag, and fails the test if there is none. NULL = the queue
 * is shut down. */
void *next_tag(weir_completion_queue *queue);

/* Drains a queue until `n_backoffs` have begun. No tag comes meanwhile. */
void drain_into_backoff(weir_completion_queue *queue, struct counted_random *random,
                        unsigned n_backoffs);

/* --- slices and messages --- */

grpc_byte_buffer *message_of(const char *text);
bool message_is(grpc_byte_buffer *message, const char *text);
bool messages_equal(grpc_byte_buffer *one, grpc_byte_buffer *other);
void assert_text(grpc_slice slice, const char *text);

/* --- the log --- */

#define KEPT_RECORDS 64
#define KEPT_TEXT 1024

struct kept_record {
  char reference[WEIR_REFERENCE_LENGTH + 1];
  char target[KEPT_TEXT];
  char peer[KEPT_TEXT];
  char message[KEPT_TEXT]; /* texts are cut, and zeros follow */
  char details[KEPT_TEXT];
  char error_string[KEPT_TEXT];
  grpc_status_code raw_code;
  grpc_status_code code;
  uint32_t n_attempts;
};

struct kept_log {
  struct weir_log_sink base;
  pthread_mutex_t mutex;
  size_t n_records; /* also those that there was no room for */
  struct kept_record records[KEPT_RECORDS];
};

void kept_log_init(struct kept_log *log);
void kept_log_fini(struct kept_log *log);

#endif /* WEIR_TEST_E2E_FIXTURE_H */
