/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/odd_peer.h"
#include "test/e2e/support/test_server.h"

#define FAILS \
  { .code = GRPC_STATUS_UNAVAILABLE, .text = "not now" }
#define WORKS \
  { .code = GRPC_STATUS_OK }

/* A server that answers by a script, and a channel to it. */
struct way {
  weir__test_server *server;
  weir_channel *channel;
};

static struct way open_way(const struct script *script, const char *policy) {
  weir__test_server *server = weir__test_server_new(answer_by_script, (void *)(uintptr_t)script, 0);
  return (struct way){.server = server,
                      .channel = channel_to(weir__test_server_port(server), policy)};
}

static void close_way(struct way *way) {
  weir_channel_destroy(way->channel);
  weir__test_server_release(way->server);
}

/* --- attempts, and how they are told --- */

static void assert_previous_attempts(weir__test_server *server, size_t index, int64_t previous) {
  struct weir__test_record record;
  assert_true(weir__test_server_record(server, index, &record));
  assert_int_equal(record.previous_attempts, previous);
}

static void three_attempts_are_made_and_counted_for_the_server(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way = open_way(&script, POLICY_RETRY);
  struct unary unary;
  unary_run(&unary, way.channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_text(unary.details, "not now");
  assert_int_equal(weir__test_server_n_calls(way.server), 3);
  assert_previous_attempts(way.server, 0, -1);
  assert_previous_attempts(way.server, 1, 1);
  assert_previous_attempts(way.server, 2, 2);
  assert_int_equal(unary.report.n_attempts, 3);
  assert_int_equal(unary.report.reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  unary_fini(&unary);
  close_way(&way);
}

static void a_retry_that_works_leaves_no_trace_of_what_failed(void **state) {
  (void)state;
  const struct script script =
      SCRIPT({.code = GRPC_STATUS_UNAVAILABLE, .text = "not now", .trailing = {{"from", "first"}}},
             {.code = GRPC_STATUS_OK, .body = "at last", .trailing = {{"from", "second"}}});
  struct way way = open_way(&script, POLICY_RETRY);
  char from[16];
  struct unary unary;
  unary_run(&unary, way.channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_text(unary.details, "");
  assert_null(unary.error_string);
  assert_true(message_is(unary.message, "at last"));
  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_true(weir__metadata_copy_text(&unary.trailing_metadata, "from", from, sizeof from));
  assert_string_equal(from, "second");
  assert_int_equal(unary.report.n_attempts, 2);
  assert_int_equal(unary.report.attempts[0].code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.attempts[1].code, GRPC_STATUS_OK);
  unary_fini(&unary);
  close_way(&way);
}

#define CORE_RETRIES                                                                 \
  "{\"methodConfig\":[{\"name\":[{}],\"retryPolicy\":{\"maxAttempts\":3,"            \
  "\"initialBackoff\":\"0.001s\",\"maxBackoff\":\"0.001s\",\"backoffMultiplier\":1," \
  "\"retryableStatusCodes\":[\"UNAVAILABLE\"]}}]}"

static void a_retry_policy_given_to_the_core_does_not_multiply_ours(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way = open_way(&script, POLICY_RETRY);
  char config_key[] = GRPC_ARG_SERVICE_CONFIG;
  char config[] = CORE_RETRIES;
  char retries_key[] = GRPC_ARG_ENABLE_RETRIES;
  grpc_arg args[2];
  memset(args, 0, sizeof args);
  args[0].type = GRPC_ARG_STRING;
  args[0].key = config_key;
  args[0].value.string = config;
  args[1].type = GRPC_ARG_INTEGER;
  args[1].key = retries_key;
  args[1].value.integer = 1;
  const grpc_channel_args both = {.num_args = COUNT_OF(args), .args = args};
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(way.server), .policy = POLICY_RETRY, .args = &both});
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(weir__test_server_n_calls(way.server), 3);
  assert_previous_attempts(way.server, 2, 2);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  close_way(&way);
}

static void more_than_five_attempts_are_taken_as_five(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way = open_way(&script, "{" NO_BOUNDARY "," NO_BREAKER
                                     "," METHODS(RETRY("100", "0.001s", UNAVAILABLE)) "}");
  struct unary unary;
  unary_run(&unary, way.channel, NULL);
  assert_int_equal(weir__test_server_n_calls(way.server), 5);
  unary_fini(&unary);
  close_way(&way);
}

static void a_code_that_is_not_listed_is_not_retried(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_INTERNAL}, WORKS);
  struct way way = open_way(&script, POLICY_RETRY);
  struct unary unary;
  unary_run(&unary, way.channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_INTERNAL);
  assert_int_equal(weir__test_server_n_calls(way.server), 1);
  assert_int_equal(unary.report.reason, WEIR_REASON_NOT_RETRYABLE);
  unary_fini(&unary);
  close_way(&way);
}

/* --- commit --- */

struct commit_row {
  const char *why;
  struct answer first;
  uint64_t n_calls;
};

static void response_headers_commit_and_trailers_only_do_not(void **state) {
  (void)state;
  static const struct commit_row rows[] = {
      {"Trailers-Only", {.code = GRPC_STATUS_UNAVAILABLE}, 2},
      {"Trailers-Only with entries",
       {.code = GRPC_STATUS_UNAVAILABLE, .trailing = {{"a", "1"}, {"b", "2"}}},
       2},
      {"empty headers", {.code = GRPC_STATUS_UNAVAILABLE, .headers_apart = true}, 1},
      {"headers with an entry",
       {.code = GRPC_STATUS_UNAVAILABLE, .headers_apart = true, .initial = {{"x", "y"}}},
       1},
      {"headers, later the status",
       {.code = GRPC_STATUS_UNAVAILABLE, .headers_apart = true, .delay_ns = MS(10)},
       1},
      {"a message", {.code = GRPC_STATUS_UNAVAILABLE, .body = "half"}, 1},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    const struct script script = SCRIPT(rows[i].first, WORKS);
    struct way way = open_way(&script, POLICY_RETRY);
    struct unary unary;
    unary_run(&unary, way.channel, NULL);
    if (weir__test_server_n_calls(way.server) != rows[i].n_calls) {
      fail_msg("%s: %d calls", rows[i].why, (int)weir__test_server_n_calls(way.server));
    }
    if (rows[i].n_calls == 1) {
      assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
      assert_int_equal(unary.report.reason, WEIR_REASON_COMMITTED);
    }
    unary_fini(&unary);
    close_way(&way);
  }
}

static void headers_alone_do_not_commit_if_the_policy_says_so(void **state) {
  (void)state;
  static const struct answer firsts[] = {
      {.code = GRPC_STATUS_UNAVAILABLE, .headers_apart = true, .initial = {{"from", "first"}}},
      {.code = GRPC_STATUS_UNAVAILABLE, .body = "half"},
  };
  static const uint64_t n_calls[] = {2, 1};
  for (size_t i = 0; i < COUNT_OF(firsts); i++) {
    const struct script script = SCRIPT(firsts[i], WORKS);
    struct way way = open_way(&script, "{" NO_BOUNDARY "," NO_BREAKER
                                       ",\"retry\":{\"retryAfterHeaders\":true}," METHODS(
                                           RETRY("3", "0.001s", UNAVAILABLE)) "}");
    struct unary unary;
    unary_run(&unary, way.channel, NULL);
    assert_int_equal(weir__test_server_n_calls(way.server), n_calls[i]);
    assert_int_equal(unary.initial_metadata.count, 0); /* none of the first answer's */
    unary_fini(&unary);
    close_way(&way);
  }
}

/* --- pushback --- */

struct pushback_row {
  const char *value;
  uint64_t n_calls;
  int64_t at_least_ns;
};

static void the_servers_pushback_is_obeyed(void **state) {
  (void)state;
  static const struct pushback_row rows[] = {
      {"0", 2, 0}, {"200", 2, MS(200)}, {"-1", 1, 0}, {"abc", 1, 0}, {"", 1, 0}, {"1.5", 1, 0},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    const struct answer first = {.code = GRPC_STATUS_UNAVAILABLE,
                                 .trailing = {{"grpc-retry-pushback-ms", rows[i].value}}};
    const struct script script = SCRIPT(first, WORKS);
    struct way way = open_way(&script, POLICY_LONG_BACKOFF);
    struct unary unary;
    unary_run(&unary, way.channel, NULL);
    if (weir__test_server_n_calls(way.server) != rows[i].n_calls ||
        unary.report.total_ns < rows[i].at_least_ns) {
      fail_msg("\"%s\": %d calls", rows[i].value, (int)weir__test_server_n_calls(way.server));
    }
    assert_int_equal(unary.report.reason,
                     rows[i].n_calls == 1 ? WEIR_REASON_PUSHBACK : WEIR_REASON_NONE);
    unary_fini(&unary);
    close_way(&way);
  }
}

/* --- throttle --- */

static void the_throttle_stops_retries_once_half_of_the_tokens_are_gone(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way =
      open_way(&script, "{" NO_BOUNDARY "," NO_BREAKER
                        ",\"retryThrottling\":{\"maxTokens\":10,\"tokenRatio\":1}," METHODS(
                            RETRY("3", "0.001s", UNAVAILABLE)) "}");
  struct unary unary;
  unary_run(&unary, way.channel, NULL); /* three of ten */
  assert_int_equal(unary.report.reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  unary_fini(&unary);
  unary_run(&unary, way.channel, NULL); /* the fourth leaves six: once more; the fifth five */
  assert_int_equal(unary.report.reason, WEIR_REASON_THROTTLED);
  assert_int_equal(unary.report.n_attempts, 2);
  unary_fini(&unary);
  unary_run(&unary, way.channel, NULL);
  assert_int_equal(unary.report.reason, WEIR_REASON_THROTTLED);
  assert_int_equal(unary.report.n_attempts, 1);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_text(unary.details, "not now");
  unary_fini(&unary);
  assert_int_equal(weir__test_server_n_calls(way.server), 6);
  close_way(&way);
}

/* --- no connection --- */

static void assert_no_connection(weir_channel *channel) {
  struct unary unary;
  unary_run(&unary, channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_TRANSPORT_CONNECT);
  assert_int_equal(unary.report.blames, WEIR_BLAME_NETWORK);
  assert_int_equal(unary.report.n_attempts, 3);
  unary_fini(&unary);
  weir_channel_destroy(channel);
}

static void a_refused_connection_is_retried_as_the_policy_says(void **state) {
  (void)state;
  assert_no_connection(channel_to(odd_closed_port(), POLICY_RETRY));
}

static void a_name_that_does_not_resolve_is_no_connection(void **state) {
  (void)state;
  struct addrinfo *found = NULL;
  int error = getaddrinfo("nonexistent.invalid", NULL, NULL, &found);
  if (error != EAI_NONAME) {
    if (error == 0) {
      freeaddrinfo(found);
    }
    print_message("no resolver that answers: %s\n", gai_strerror(error));
    skip();
  }
  assert_no_connection(channel_new(
      &(struct channel_setup){.target = "dns:///nonexistent.invalid:1", .policy = POLICY_RETRY}));
}

static void tls_to_a_plaintext_port_is_no_connection(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct way way = open_way(&script, POLICY_RETRY);
  grpc_channel_credentials *creds = grpc_ssl_credentials_create(NULL, NULL, NULL, NULL);
  assert_non_null(creds);
  assert_no_connection(channel_new(&(struct channel_setup){
      .port = weir__test_server_port(way.server), .policy = POLICY_RETRY, .creds = creds}));
  assert_int_equal(weir__test_server_n_calls(way.server), 0);
  grpc_channel_credentials_release(creds);
  close_way(&way);
}

#define POLICY_WAIT              \
  "{" NO_BOUNDARY "," NO_BREAKER \
  "," METHODS("\"waitForReady\":true," RETRY("3", "0.005s", UNAVAILABLE)) "}"

/* Fast reconnection, so that a server that comes is soon found. */
static weir_channel *eager_channel(int port, const char *policy) {
  static char keys[3][64] = {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                             GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS};
  grpc_arg args[3];
  memset(args, 0, sizeof args);
  for (size_t i = 0; i < COUNT_OF(args); i++) {
    args[i].type = GRPC_ARG_INTEGER;
    args[i].key = keys[i];
    args[i].value.integer = 100;
  }
  const grpc_channel_args all = {.num_args = COUNT_OF(args), .args = args};
  return channel_new(&(struct channel_setup){.port = port, .policy = policy, .args = &all});
}

static void a_call_that_waits_for_the_server_is_made_once(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir__test_server_stop(server); /* the port stays its own */
  weir_channel *channel = eager_channel(weir__test_server_port(server), POLICY_WAIT);
  weir_channel *impatient = eager_channel(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary waiting;
  struct unary other;
  unary_start(&waiting, channel, queue, NULL);
  unary_run(&other, impatient, NULL); /* fails while the first waits */
  assert_int_equal(other.code, GRPC_STATUS_UNAVAILABLE);
  weir__test_server_start(server);
  unary_wait(&waiting, queue);
  assert_int_equal(waiting.code, GRPC_STATUS_OK);
  assert_int_equal(waiting.report.n_attempts, 1);
  unary_fini(&waiting);
  unary_fini(&other);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir_channel_destroy(impatient);
  weir__test_server_release(server);
}

static void waiting_for_a_server_ends_with_the_deadline(void **state) {
  (void)state;
  weir_channel *channel = channel_to(odd_closed_port(), POLICY_WAIT);
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.timeout_ns = MS(100)});
  assert_int_equal(unary.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(unary.report.n_attempts, 1);
  unary_fini(&unary);
  weir_channel_destroy(channel);
}

static void the_applications_own_flag_wins_over_the_policys_wait(void **state) {
  (void)state;
  weir_channel *channel = channel_to(odd_closed_port(), POLICY_WAIT);
  struct unary unary;
  unary_run(
      &unary, channel,
      &(struct unary_setup){.metadata_flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET});
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  unary_fini(&unary);
  weir_channel_destroy(channel);
}

static void a_server_that_comes_back_gets_the_retry(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, WORKS);
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel =
      eager_channel(weir__test_server_port(server),
                    "{" NO_BOUNDARY "," NO_BREAKER
                    "," METHODS("\"waitForReady\":true," RETRY("2", "0.1s", UNAVAILABLE)) "}");
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unary;
  unary_start(&unary, channel, queue, NULL);
  assert_true(weir__test_server_wait_calls(server, 1));
  weir__test_server_stop(server);
  weir__test_server_start(server);
  unary_wait(&unary, queue);
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_int_equal(unary.report.n_attempts, 2);
  unary_fini(&unary);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

/* The channel's own backoff is longer than ours: a retry is not a reconnection. */
static void a_server_that_goes_in_the_backoff_leaves_no_connection(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS);
  struct way way = open_way(&script, "{" NO_BOUNDARY "," NO_BREAKER
                                     "," METHODS(RETRY("2", "0.2s", UNAVAILABLE)) "}");
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  struct unary unary;
  unary_start(&unary, way.channel, queue, NULL);
  assert_true(weir__test_server_wait_calls(way.server, 1));
  weir__test_server_stop(way.server);
  unary_wait(&unary, queue);
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary.report.n_attempts, 2);
  assert_int_equal(unary.report.attempts[1].origin, WEIR_ORIGIN_TRANSPORT_CONNECT);
  unary_fini(&unary);
  queue_end(queue);
  close_way(&way);
}

/* --- RESOURCE_EXHAUSTED: the server's, and ours --- */

#define POLICY_EXHAUSTED(limits) \
  "{" NO_BOUNDARY "," NO_BREAKER \
  "," METHODS(limits RETRY("3", "0.001s", "\"RESOURCE_EXHAUSTED\"")) "}"

static void the_servers_quota_is_retried_if_it_is_listed(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_RESOURCE_EXHAUSTED, .text = "quota"});
  struct way way = open_way(&script, POLICY_EXHAUSTED(""));
  struct unary unary;
  unary_run(&unary, way.channel, NULL);
  assert_int_equal(unary.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_PEER);
  assert_int_equal(weir__test_server_n_calls(way.server), 3);
  unary_fini(&unary);
  close_way(&way);
}

static void assert_own_limit(struct way *way, const struct unary_setup *setup, uint64_t n_calls) {
  struct unary unary;
  unary_run(&unary, way->channel, setup);
  assert_int_equal(unary.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(unary.report.origin, WEIR_ORIGIN_LOCAL_LIMIT);
  assert_int_equal(weir__test_server_n_calls(way->server), n_calls);
  assert_null(unary.message);
  unary_fini(&unary);
}

static void a_request_over_the_policys_limit_is_not_sent(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct way way = open_way(&script, POLICY_EXHAUSTED("\"maxRequestMessageBytes\":5,"));
  struct unary unary;
  unary_run(&unary, way.channel, NULL); /* five bytes fit */
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);
  assert_own_limit(&way, &(struct unary_setup){.text = "hello!"}, 1);
  close_way(&way);
}

static void a_response_over_the_policys_limit_is_not_retried(void **state) {
  (void)state;
  const struct script script = SCRIPT({.body = "hello!"});
  struct way way = open_way(&script, POLICY_EXHAUSTED("\"maxResponseMessageBytes\":5,"));
  assert_own_limit(&way, NULL, 1);
  close_way(&way);
}

/* 5 MiB; the core takes 4 MiB unless it is told otherwise. */
static void answer_too_much(void *context, const struct weir__test_served *served,
                            struct weir__test_reply *reply) {
  (void)context;
  (void)served;
  grpc_slice slice = grpc_slice_malloc(5 * 1024 * 1024);
  memset(GRPC_SLICE_START_PTR(slice), 'x', GRPC_SLICE_LENGTH(slice));
  reply->message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
}

static void a_response_over_the_cores_limit_is_not_retried(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(answer_too_much, NULL, 0);
  struct way way = {.server = server,
                    .channel = channel_to(weir__test_server_port(server), POLICY_EXHAUSTED(""))};
  assert_own_limit(&way, NULL, 1);
  close_way(&way);
}

static void a_request_over_the_channels_limit_is_not_retried(void **state) {
  (void)state;
  const struct script script = SCRIPT(WORKS);
  struct way way = open_way(&script, POLICY_EXHAUSTED(""));
  char key[] = GRPC_ARG_MAX_SEND_MESSAGE_LENGTH;
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = GRPC_ARG_INTEGER;
  arg.key = key;
  arg.value.integer = 5;
  const grpc_channel_args args = {.num_args = 1, .args = &arg};
  struct way limited = {
      .server = way.server,
      .channel = channel_new(&(struct channel_setup){.port = weir__test_server_port(way.server),
                                                     .policy = POLICY_EXHAUSTED(""),
                                                     .args = &args})};
  struct unary unary;
  unary_run(&unary, limited.channel, &(struct unary_setup){.text = "hello!"});
  assert_int_equal(unary.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(unary.report.n_attempts, 1);
  unary_fini(&unary);
  weir_channel_destroy(limited.channel);
  close_way(&way);
}

/* --- what is sent again --- */

#define MESSAGES_MAX 3

/* Keeps what it was sent, and fails until the last. */
struct keeper {
  pthread_mutex_t mutex;
  size_t n_kept;
  grpc_byte_buffer *kept[MESSAGES_MAX];
  char metadata[MESSAGES_MAX][32];
};

static void keep_and_fail(void *context, const struct weir__test_served *served,
                          struct weir__test_reply *reply) {
  struct keeper *keeper = context;
  (void)pthread_mutex_lock(&keeper->mutex);
  size_t i = keeper->n_kept++;
  keeper->kept[i] = grpc_byte_buffer_copy(served->message);
  (void)weir__metadata_copy_text(served->metadata, "from-the-app", keeper->metadata[i],
                                 sizeof keeper->metadata[i]);
  (void)pthread_mutex_unlock(&keeper->mutex);
  weir__test_reply_status(reply, i + 1 < MESSAGES_MAX ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_OK,
                          "");
}

static grpc_byte_buffer *message_of_slices(size_t n_slices, size_t size) {
  grpc_slice slices[8];
  for (size_t i = 0; i < n_slices; i++) {
    slices[i] = grpc_slice_malloc(size);
    memset(GRPC_SLICE_START_PTR(slices[i]), 'a' + (int)i, size);
  }
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, n_slices);
  for (size_t i = 0; i < n_slices; i++) {
    grpc_slice_unref(slices[i]);
  }
  return message;
}

static void assert_all_kept(const struct keeper *keeper, grpc_byte_buffer *sent) {
  assert_int_equal(keeper->n_kept, MESSAGES_MAX);
  for (size_t i = 0; i < MESSAGES_MAX; i++) {
    assert_true(messages_equal(keeper->kept[i], sent));
    assert_string_equal(keeper->metadata[i], "as it is");
    grpc_byte_buffer_destroy(keeper->kept[i]);
  }
}

static void each_attempt_sends_the_same_bytes_and_metadata(void **state) {
  (void)state;
  static const struct {
    size_t n_slices;
    size_t size;
  } makes[] = {{1, 5}, {1, 5000}, {2, 2000}, {7, 3000}, {1, 256 * 1024}};
  grpc_metadata metadata = weir__metadata_from_text("from-the-app", "as it is");
  for (size_t i = 0; i < COUNT_OF(makes); i++) {
    struct keeper keeper = {.n_kept = 0};
    (void)pthread_mutex_init(&keeper.mutex, NULL);
    weir__test_server *server = weir__test_server_new(keep_and_fail, &keeper, 0);
    weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
    grpc_byte_buffer *message = message_of_slices(makes[i].n_slices, makes[i].size);
    grpc_byte_buffer *copy = grpc_byte_buffer_copy(message);
    struct unary unary;
    unary_run(&unary, channel,
              &(struct unary_setup){.message = message, .metadata = &metadata, .n_metadata = 1});
    assert_int_equal(unary.code, GRPC_STATUS_OK);
    unary_fini(&unary);
    weir_channel_destroy(channel);
    weir__test_server_release(server);
    assert_all_kept(&keeper, copy);
    grpc_byte_buffer_destroy(copy);
    grpc_byte_buffer_destroy(message);
    (void)pthread_mutex_destroy(&keeper.mutex);
  }
  grpc_slice_unref(metadata.key);
  grpc_slice_unref(metadata.value);
}

/* The application may compress by itself; the bytes are then marked as such in every attempt. */
static void each_attempt_sends_what_the_application_compressed_as_such(void **state) {
  (void)state;
  static const char hello_gzip[] = {'\x1f', '\x8b', '\x08', '\x00', '\x00', '\x00', '\x00',
                                    '\x00', '\x02', '\xff', '\xcb', '\x48', '\xcd', '\xc9',
                                    '\xc9', '\x07', '\x00', '\x86', '\xa6', '\x10', '\x36',
                                    '\x05', '\x00', '\x00', '\x00'};
  struct keeper keeper = {.n_kept = 0};
  char key[] = GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM;
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = GRPC_ARG_INTEGER;
  arg.key = key;
  arg.value.integer = GRPC_COMPRESS_GZIP;
  const grpc_channel_args args = {.num_args = 1, .args = &arg};
  (void)pthread_mutex_init(&keeper.mutex, NULL);
  weir__test_server *server = weir__test_server_new(keep_and_fail, &keeper, 0);
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(server), .policy = POLICY_RETRY, .args = &args});
  grpc_slice slice = grpc_slice_from_static_buffer(hello_gzip, sizeof hello_gzip);
  grpc_byte_buffer *message = grpc_raw_compressed_byte_buffer_create(&slice, 1, GRPC_COMPRESS_GZIP);
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.message = message});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  unary_fini(&unary);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
  assert_int_equal(keeper.n_kept, MESSAGES_MAX);
  for (size_t i = 0; i < MESSAGES_MAX; i++) {
    assert_true(message_is(keeper.kept[i], "hello"));
    grpc_byte_buffer_destroy(keeper.kept[i]);
  }
  grpc_byte_buffer_destroy(message);
  (void)pthread_mutex_destroy(&keeper.mutex);
}

#define MANY 40

/* Answers with how many entries of ours came; the first attempt fails. */
static void count_entries(void *context, const struct weir__test_served *served,
                          struct weir__test_reply *reply) {
  (void)context;
  char text[16];
  unsigned count = 0;
  for (size_t i = 0; i < served->metadata->count; i++) {
    count += grpc_slice_str_cmp(served->metadata->metadata[i].key, "one-of-many") == 0;
  }
  (void)snprintf(text, sizeof text, "%u", count);
  weir__test_reply_status(
      reply, served->number == 1 ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_NOT_FOUND, text);
}

static void any_number_of_entries_is_sent_with_each_attempt(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(count_entries, NULL, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  grpc_metadata metadata[MANY];
  struct unary unary;
  for (size_t i = 0; i < MANY; i++) {
    metadata[i] = weir__metadata_from_text("one-of-many", "x");
  }
  unary_run(&unary, channel, &(struct unary_setup){.metadata = metadata, .n_metadata = MANY});
  assert_int_equal(unary.code, GRPC_STATUS_NOT_FOUND);
  assert_text(unary.details, "40");
  unary_fini(&unary);
  for (size_t i = 0; i < MANY; i++) {
    grpc_slice_unref(metadata[i].key);
    grpc_slice_unref(metadata[i].value);
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void a_request_too_large_to_keep_is_sent_once(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, WORKS);
  struct way way = open_way(&script, POLICY_RETRY);
  grpc_byte_buffer *message = message_of_slices(1, 256 * 1024 + 1);
  struct unary unary;
  unary_run(&unary, way.channel, &(struct unary_setup){.message = message});
  assert_int_equal(unary.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(weir__test_server_n_calls(way.server), 1);
  assert_int_equal(unary.report.reason, WEIR_REASON_NOT_REPLAYABLE);
  unary_fini(&unary);
  grpc_byte_buffer_destroy(message);
  close_way(&way);
}

static void what_the_application_says_of_attempts_is_overwritten(void **state) {
  (void)state;
  const struct script script = SCRIPT(FAILS, WORKS);
  struct way way = open_way(&script, POLICY_RETRY);
  grpc_metadata metadata = weir__metadata_from_text("grpc-previous-rpc-attempts", "7");
  struct unary unary;
  unary_run(&unary, way.channel, &(struct unary_setup){.metadata = &metadata, .n_metadata = 1});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_previous_attempts(way.server, 0, -1);
  assert_previous_attempts(way.server, 1, 1);
  assert_text(metadata.value, "7");
  unary_fini(&unary);
  grpc_slice_unref(metadata.key);
  grpc_slice_unref(metadata.value);
  close_way(&way);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(three_attempts_are_made_and_counted_for_the_server),
      cmocka_unit_test(a_retry_that_works_leaves_no_trace_of_what_failed),
      cmocka_unit_test(a_retry_policy_given_to_the_core_does_not_multiply_ours),
      cmocka_unit_test(more_than_five_attempts_are_taken_as_five),
      cmocka_unit_test(a_code_that_is_not_listed_is_not_retried),
      cmocka_unit_test(response_headers_commit_and_trailers_only_do_not),
      cmocka_unit_test(headers_alone_do_not_commit_if_the_policy_says_so),
      cmocka_unit_test(the_servers_pushback_is_obeyed),
      cmocka_unit_test(the_throttle_stops_retries_once_half_of_the_tokens_are_gone),
      cmocka_unit_test(a_refused_connection_is_retried_as_the_policy_says),
      cmocka_unit_test(a_name_that_does_not_resolve_is_no_connection),
      cmocka_unit_test(tls_to_a_plaintext_port_is_no_connection),
      cmocka_unit_test(a_call_that_waits_for_the_server_is_made_once),
      cmocka_unit_test(waiting_for_a_server_ends_with_the_deadline),
      cmocka_unit_test(the_applications_own_flag_wins_over_the_policys_wait),
      cmocka_unit_test(a_server_that_comes_back_gets_the_retry),
      cmocka_unit_test(a_server_that_goes_in_the_backoff_leaves_no_connection),
      cmocka_unit_test(the_servers_quota_is_retried_if_it_is_listed),
      cmocka_unit_test(a_request_over_the_policys_limit_is_not_sent),
      cmocka_unit_test(a_response_over_the_policys_limit_is_not_retried),
      cmocka_unit_test(a_response_over_the_cores_limit_is_not_retried),
      cmocka_unit_test(a_request_over_the_channels_limit_is_not_retried),
      cmocka_unit_test(each_attempt_sends_the_same_bytes_and_metadata),
      cmocka_unit_test(each_attempt_sends_what_the_application_compressed_as_such),
      cmocka_unit_test(any_number_of_entries_is_sent_with_each_attempt),
      cmocka_unit_test(a_request_too_large_to_keep_is_sent_once),
      cmocka_unit_test(what_the_application_says_of_attempts_is_overwritten),
  };
  return cmocka_run_group_tests_name("retry", tests, start_core, stop_core);
}
