/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/bare_call.h"
#include "test/e2e/support/metadata.h"
#include "test/e2e/support/test_server.h"

#define LONG_METHOD "/a.package.whose.Service/HasAMethodThatIsLongerThanASliceHoldsInline"

/* Answers with the status that "want-code" names, and with metadata of every kind. */
static void answer_as_asked(void *context, const struct weir__test_served *served,
                            struct weir__test_reply *reply) {
  (void)context;
  struct answer answer = {
      .code = (grpc_status_code)weir__metadata_number(served->metadata, "want-code", 0),
      .text = "what the server says: 100 % \n sure",
      .initial = {{"served-by", "the test"}, {"served-path", served->path}},
      .trailing = {{"cost", "17"}, {"cost", "18"}, {"blob-bin", "\x01\x02\xff"}},
  };
  answer_with(&answer, served, reply);
}

/* A server that answers as asked, and both ways to it. */
struct pair_of_ways {
  weir__test_server *server;
  weir_channel *channel;
  grpc_channel *bare;
};

static struct pair_of_ways open_both(weir__test_handler_fn *handler, void *context) {
  weir__test_server *server = weir__test_server_new(handler, context, 0);
  int port = weir__test_server_port(server);
  return (struct pair_of_ways){
      .server = server,
      .channel = channel_to(port, POLICY_PLAIN),
      .bare = weir__bare_channel_create(port, WEIR__CORE_RETRIES_OFF, NULL),
  };
}

static void close_both(struct pair_of_ways *ways) {
  weir_channel_destroy(ways->channel);
  grpc_channel_destroy(ways->bare);
  weir__test_server_release(ways->server);
}

static void bare_run(grpc_channel *channel, const char *method, const grpc_metadata *metadata,
                     size_t n_metadata, struct weir__bare_reply *reply) {
  grpc_byte_buffer *message = message_of("hello");
  const struct weir__bare_request request = {
      .method = method,
      .message = message,
      .metadata = metadata,
      .n_metadata = n_metadata,
      .deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC),
  };
  weir__bare_unary(channel, &request, reply);
  grpc_byte_buffer_destroy(message);
}

static void assert_same_metadata(const grpc_metadata_array *seen,
                                 const grpc_metadata_array *wanted) {
  assert_int_equal(seen->count, wanted->count);
  for (size_t i = 0; i < seen->count; i++) {
    assert_true(grpc_slice_eq(seen->metadata[i].key, wanted->metadata[i].key));
    assert_true(grpc_slice_eq(seen->metadata[i].value, wanted->metadata[i].value));
  }
}

static void one_batch_gives_what_the_core_gives_for_each_code(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    char text[12];
    (void)snprintf(text, sizeof text, "%d", code);
    grpc_metadata wanted = weir__metadata_from_text("want-code", text);
    struct weir__bare_reply bare;
    struct unary unary;
    bare_run(ways.bare, METHOD, &wanted, 1, &bare);
    unary_run(&unary, ways.channel, &(struct unary_setup){.metadata = &wanted, .n_metadata = 1});

    assert_int_equal(unary.code, code);
    assert_int_equal(unary.code, bare.code);
    assert_true(grpc_slice_eq(unary.details, bare.details));
    assert_same_metadata(&unary.initial_metadata, &bare.initial_metadata);
    assert_same_metadata(&unary.trailing_metadata, &bare.trailing_metadata);
    assert_true(messages_equal(unary.message, bare.message));
    assert_int_equal(unary.error_string == NULL, bare.error_string == NULL);
    assert_int_equal(unary.report.raw_code, code);
    assert_int_equal(unary.report.n_attempts, 1);

    unary_fini(&unary);
    weir__bare_reply_fini(&bare);
    grpc_slice_unref(wanted.key);
    grpc_slice_unref(wanted.value);
  }
  close_both(&ways);
}

static void the_blocking_call_gives_what_the_core_gives_for_each_code(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  for (int code = 0; code < WEIR_N_STATUS_CODES; code++) {
    char text[12];
    (void)snprintf(text, sizeof text, "%d", code);
    grpc_metadata wanted = weir__metadata_from_text("want-code", text);
    struct weir__bare_reply bare;
    struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
    struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
    request.method = METHOD;
    request.message = message_of("hello");
    request.metadata = &wanted;
    request.n_metadata = 1;
    bare_run(ways.bare, METHOD, &wanted, 1, &bare);
    assert_int_equal(weir_unary(ways.channel, &request, &reply), WEIR_OK);

    assert_int_equal(reply.code, bare.code);
    assert_true(grpc_slice_eq(reply.details, bare.details));
    assert_same_metadata(&reply.initial_metadata, &bare.initial_metadata);
    assert_same_metadata(&reply.trailing_metadata, &bare.trailing_metadata);
    assert_true(messages_equal(reply.message, bare.message));
    assert_int_equal(reply.report.code, code);

    weir_unary_reply_fini(&reply);
    weir__bare_reply_fini(&bare);
    grpc_byte_buffer_destroy(request.message);
    grpc_slice_unref(wanted.key);
    grpc_slice_unref(wanted.value);
  }
  close_both(&ways);
}

static void a_message_beside_a_failure_is_handed_out_as_by_the_core(void **state) {
  (void)state;
  const struct script script =
      SCRIPT({.code = GRPC_STATUS_ABORTED, .text = "after all", .body = "half"});
  struct pair_of_ways ways = open_both(answer_by_script, (void *)(uintptr_t)&script);
  struct weir__bare_reply bare;
  struct unary unary;
  bare_run(ways.bare, METHOD, NULL, 0, &bare);
  unary_run(&unary, ways.channel, NULL);

  assert_int_equal(unary.code, GRPC_STATUS_ABORTED);
  assert_true(messages_equal(unary.message, bare.message));
  assert_true(message_is(unary.message, "half"));

  unary_fini(&unary);
  weir__bare_reply_fini(&bare);
  close_both(&ways);
}

static void method_and_host_go_to_the_server_as_given(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  char path[sizeof LONG_METHOD + 1];
  struct unary unary;
  unary_run(&unary, ways.channel,
            &(struct unary_setup){.method = LONG_METHOD, .host = "another.name.than.the.channels"});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_true(weir__metadata_copy_text(&unary.initial_metadata, "served-path", path, sizeof path));
  assert_string_equal(path, LONG_METHOD);
  unary_fini(&unary);
  close_both(&ways);
}

/* Tells the host it was called by in the reply's metadata. */
static void tell_host(void *context, const struct weir__test_served *served,
                      struct weir__test_reply *reply) {
  (void)context;
  answer_with(&(struct answer){.code = GRPC_STATUS_OK}, served, reply);
  grpc_metadata *entry = &reply->trailing_metadata[reply->n_trailing_metadata++];
  memset(entry, 0, sizeof *entry);
  entry->key = grpc_slice_from_copied_string("host-was");
  entry->value = grpc_slice_copy(served->details->host);
}

static void the_host_is_the_calls_own_in_every_attempt(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(tell_host, NULL);
  char host[64];
  struct unary unary;
  unary_run(&unary, ways.channel, &(struct unary_setup){.host = "another.name.than.the.channels"});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_true(weir__metadata_copy_text(&unary.trailing_metadata, "host-was", host, sizeof host));
  assert_string_equal(host, "another.name.than.the.channels");
  unary_fini(&unary);
  close_both(&ways);
}

static grpc_byte_buffer *message_of_size(size_t size) {
  grpc_slice slice = grpc_slice_malloc(size);
  memset(GRPC_SLICE_START_PTR(slice), 'x', size);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return message;
}

static grpc_byte_buffer *message_of_slices(void) {
  grpc_slice slices[5] = {
      grpc_slice_from_static_string("inlined"),
      grpc_slice_malloc(3000),
      grpc_empty_slice(),
      grpc_slice_from_copied_string("and"),
      grpc_slice_from_copied_string("one that is longer than 23 bytes, so it is counted"),
  };
  memset(GRPC_SLICE_START_PTR(slices[1]), 'y', 3000);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, COUNT_OF(slices));
  for (size_t i = 0; i < COUNT_OF(slices); i++) {
    grpc_slice_unref(slices[i]);
  }
  return message;
}

static void assert_echoed(weir_channel *channel, grpc_byte_buffer *message, uint32_t flags) {
  grpc_byte_buffer *copy = grpc_byte_buffer_copy(message);
  struct unary unary;
  unary_run(&unary, channel, &(struct unary_setup){.message = message, .message_flags = flags});
  assert_int_equal(unary.code, GRPC_STATUS_OK);
  assert_true(messages_equal(unary.message, copy));
  assert_int_equal(grpc_byte_buffer_length(message), 0); /* as with the core */
  unary_fini(&unary);
  grpc_byte_buffer_destroy(copy);
  grpc_byte_buffer_destroy(message);
}

static void messages_of_every_make_arrive_whole(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  assert_echoed(ways.channel, message_of(""), 0);
  assert_echoed(ways.channel, message_of("x"), 0);
  assert_echoed(ways.channel, message_of_slices(), 0);
  assert_echoed(ways.channel, message_of_size(256 * 1024),
                0); /* the most that is kept for a replay */
  assert_echoed(ways.channel, message_of_size(3 * 1024 * 1024), 0);
  assert_echoed(ways.channel, message_of_size(10000), GRPC_WRITE_NO_COMPRESS);
  close_both(&ways);
}

static void a_channel_that_compresses_still_does(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  char key[] = GRPC_COMPRESSION_CHANNEL_DEFAULT_ALGORITHM;
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = GRPC_ARG_INTEGER;
  arg.key = key;
  arg.value.integer = GRPC_COMPRESS_GZIP;
  const grpc_channel_args args = {.num_args = 1, .args = &arg};
  weir_channel *channel = channel_new(&(struct channel_setup){
      .port = weir__test_server_port(ways.server), .policy = POLICY_PLAIN, .args = &args});
  assert_echoed(channel, message_of_size(100000), 0);
  assert_echoed(channel, message_of_size(100000), GRPC_WRITE_NO_COMPRESS);
  weir_channel_destroy(channel);
  close_both(&ways);
}

static void a_refused_request_leaves_the_reply_empty(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.message = message_of("hello");
  assert_int_equal(weir_unary(ways.channel, &request, &reply), WEIR_ERROR_INVALID_ARGUMENT);

  grpc_metadata illegal = weir__metadata_from_text("Not A Key", "x");
  request.method = METHOD;
  request.size = 0;
  assert_int_equal(weir_unary(ways.channel, &request, &reply), WEIR_ERROR_INVALID_ARGUMENT);
  request.size = sizeof request;
  request.metadata = &illegal;
  request.n_metadata = 1;
  assert_int_equal(weir_unary(ways.channel, &request, &reply), WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(reply.call);
  assert_int_equal(reply.code,
                   GRPC_STATUS_UNKNOWN); /* nothing that is not looked at is a success */
  assert_int_equal(grpc_byte_buffer_length(request.message), 5); /* nothing was sent */
  assert_int_equal(weir__test_server_n_calls(ways.server), 0);

  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  grpc_slice_unref(illegal.key);
  grpc_slice_unref(illegal.value);
  close_both(&ways);
}

/* A program of a newer version has a longer request. */
static void what_is_asked_for_beyond_what_is_known_is_refused(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  struct {
    struct weir_unary_request known;
    uint64_t more;
  } newer = {.known = WEIR_UNARY_REQUEST_INIT, .more = 1};
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  newer.known.size = sizeof newer;
  newer.known.method = METHOD;
  newer.known.message = message_of("hello");
  assert_int_equal(weir_unary(ways.channel, &newer.known, &reply), WEIR_ERROR_UNSUPPORTED);
  newer.more = 0;
  assert_int_equal(weir_unary(ways.channel, &newer.known, &reply), WEIR_OK);
  assert_int_equal(reply.code, GRPC_STATUS_OK);
  assert_true(message_is(reply.message, "hello"));
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(newer.known.message);
  close_both(&ways);
}

static void ask(weir_channel *channel, struct weir_unary_reply *reply) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  request.method = METHOD;
  request.message = message_of("hello");
  assert_int_equal(weir_unary(channel, &request, reply), WEIR_OK);
  grpc_byte_buffer_destroy(request.message);
}

static const grpc_status_code unavailable = GRPC_STATUS_UNAVAILABLE;

static void answer_code(void *context, const struct weir__test_served *served,
                        struct weir__test_reply *reply) {
  const struct answer answer = {.code = *(const grpc_status_code *)context};
  answer_with(&answer, served, reply);
}

/* It was never sent, and its queue is the channel's. */
static void a_refused_call_outlasts_its_channel(void **state) {
  (void)state;
  weir__test_server *server =
      weir__test_server_new(answer_code, (void *)(uintptr_t)&unavailable, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server),
                                     "{\"name\":\"e2e\",\"breaker\":{\"minRequests\":1,"
                                     "\"openFor\":\"3600s\",\"maxOpenFor\":\"3600s\"}}");
  struct weir_unary_reply replies[3] = {WEIR_UNARY_REPLY_INIT, WEIR_UNARY_REPLY_INIT,
                                        WEIR_UNARY_REPLY_INIT};
  for (size_t i = 0; i < COUNT_OF(replies); i++) {
    ask(channel, &replies[i]);
  }
  weir_channel_destroy(channel);

  assert_int_equal(replies[0].report.reason, WEIR_REASON_NO_RETRY_POLICY);
  for (size_t i = 1; i < COUNT_OF(replies); i++) {
    struct weir_call_report report = WEIR_CALL_REPORT_INIT;
    assert_int_equal(weir_call_get_report(replies[i].call, &report), WEIR_OK);
    assert_memory_equal(&report, &replies[i].report, sizeof report);
    assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
    assert_int_equal(report.n_attempts, 0);
    assert_string_equal(report.breaker_name, "e2e");
    assert_int_equal(strlen(report.reference), WEIR_REFERENCE_LENGTH);
    char *words = grpc_slice_to_c_string(replies[i].details);
    assert_non_null(strstr(words, report.reference));
    gpr_free(words);
  }
  assert_string_not_equal(replies[1].report.reference, replies[2].report.reference);
  for (size_t i = 0; i < COUNT_OF(replies); i++) {
    weir_unary_reply_fini(&replies[i]);
  }
  assert_int_equal(weir__test_server_n_calls(server), 1);
  weir__test_server_release(server);
}

/* --- many threads --- */

#define N_THREADS 16
#define CALLS_PER_THREAD 50

struct caller {
  weir_channel *channel;
  unsigned number;
  unsigned n_wrong;
};

static bool ask_blocking(const struct caller *caller, unsigned i) {
  char text[32];
  (void)snprintf(text, sizeof text, "%u of thread %u", i, caller->number);
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = METHOD;
  request.message = message_of(text);
  bool fine = weir_unary(caller->channel, &request, &reply) == WEIR_OK &&
              reply.code == GRPC_STATUS_OK && message_is(reply.message, text);
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return fine;
}

static void *ask_many_times(void *argument) {
  struct caller *caller = argument;
  for (unsigned i = 0; i < CALLS_PER_THREAD; i++) {
    caller->n_wrong += !ask_blocking(caller, i);
  }
  return NULL;
}

static void many_threads_call_over_one_channel(void **state) {
  (void)state;
  struct pair_of_ways ways = open_both(answer_as_asked, NULL);
  pthread_t threads[N_THREADS];
  struct caller callers[N_THREADS];
  for (unsigned i = 0; i < N_THREADS; i++) {
    callers[i] = (struct caller){.channel = ways.channel, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, ask_many_times, &callers[i]), 0);
  }
  unsigned n_wrong = 0;
  for (unsigned i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    n_wrong += callers[i].n_wrong;
  }
  assert_int_equal(n_wrong, 0);
  assert_int_equal(weir__test_server_n_calls(ways.server), N_THREADS * CALLS_PER_THREAD);
  close_both(&ways);
}

/* Every third attempt fails. */
static void fail_sometimes(void *context, const struct weir__test_served *served,
                           struct weir__test_reply *reply) {
  (void)context;
  const struct answer answer = {.code = served->number % 3 == 0 ? GRPC_STATUS_UNAVAILABLE
                                                                : GRPC_STATUS_OK};
  answer_with(&answer, served, reply);
}

static void *ask_many_times_in_vain(void *argument) {
  struct caller *caller = argument;
  for (unsigned i = 0; i < CALLS_PER_THREAD / 2; i++) {
    struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
    struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
    request.method = METHOD;
    request.message = message_of("hello");
    bool fine = weir_unary(caller->channel, &request, &reply) == WEIR_OK;
    fine = fine && (reply.code == GRPC_STATUS_OK ? reply.message != NULL
                                                 : reply.code == GRPC_STATUS_UNAVAILABLE);
    caller->n_wrong += !fine;
    weir_unary_reply_fini(&reply);
    grpc_byte_buffer_destroy(request.message);
  }
  return NULL;
}

static void many_threads_share_breaker_and_throttle(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(fail_sometimes, NULL, 0);
  weir_channel *channel = channel_to(
      weir__test_server_port(server),
      "{\"breaker\":{\"failureRatio\":0.1,\"openFor\":\"0.005s\"},\"retryThrottling\":{"
      "\"maxTokens\":20,\"tokenRatio\":0.5}," METHODS(RETRY("2", "0.001s", UNAVAILABLE)) "}");
  pthread_t threads[N_THREADS];
  struct caller callers[N_THREADS];
  for (unsigned i = 0; i < N_THREADS; i++) {
    callers[i] = (struct caller){.channel = channel, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, ask_many_times_in_vain, &callers[i]), 0);
  }
  for (unsigned i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(callers[i].n_wrong, 0);
  }
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

static void answer_later(void *context, const struct weir__test_served *served,
                         struct weir__test_reply *reply) {
  (void)context;
  reply->delay_ns = MS(100);
  reply->message = grpc_byte_buffer_copy(served->message);
}

static void *ask_once(void *argument) {
  struct caller *caller = argument;
  caller->n_wrong += !ask_blocking(caller, 0);
  return NULL;
}

static void a_blocking_call_goes_on_when_its_channel_is_destroyed(void **state) {
  (void)state;
  weir__test_server *server = weir__test_server_new(answer_later, NULL, 0);
  struct caller caller = {.channel = channel_to(weir__test_server_port(server), POLICY_PLAIN)};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, ask_once, &caller), 0);
  assert_true(weir__test_server_wait_calls(server, 1));
  weir_channel_destroy(caller.channel);
  assert_int_equal(pthread_join(thread, NULL), 0);

  assert_int_equal(caller.n_wrong, 0);
  weir__test_server_release(server);
}

/* --- other shapes of a unary batch --- */

static void the_order_of_operations_and_the_headers_are_the_callers_choice(void **state) {
  (void)state;
  const struct script script = SCRIPT({.code = GRPC_STATUS_UNAVAILABLE},
                                      {.code = GRPC_STATUS_OK, .initial = {{"not", "asked for"}}});
  weir__test_server *server =
      weir__test_server_new(answer_by_script, (void *)(uintptr_t)&script, 0);
  weir_channel *channel = channel_to(weir__test_server_port(server), POLICY_RETRY);
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  weir_call *call =
      weir_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string(METHOD), NULL,
                               gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_byte_buffer *sent = message_of("hello");
  grpc_byte_buffer *message = NULL;
  grpc_status_code code = GRPC_STATUS_UNKNOWN;
  grpc_slice details = grpc_empty_slice();
  grpc_metadata_array trailing;
  grpc_op ops[5];
  memset(ops, 0, sizeof ops);
  grpc_metadata_array_init(&trailing);
  ops[0].op = GRPC_OP_RECV_STATUS_ON_CLIENT; /* without an error string */
  ops[0].data.recv_status_on_client.trailing_metadata = &trailing;
  ops[0].data.recv_status_on_client.status = &code;
  ops[0].data.recv_status_on_client.status_details = &details;
  ops[1].op = GRPC_OP_RECV_MESSAGE;
  ops[1].data.recv_message.recv_message = &message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_SEND_MESSAGE;
  ops[3].data.send_message.send_message = sent;
  ops[4].op = GRPC_OP_SEND_INITIAL_METADATA;
  assert_int_equal(weir_call_start_batch(call, ops, COUNT_OF(ops), &ops[0], NULL), GRPC_CALL_OK);
  memset(ops, 0xff, sizeof ops); /* it needs to last no longer */
  assert_ptr_equal(next_tag(queue), &ops[0]);
  assert_int_equal(code, GRPC_STATUS_OK);
  assert_true(message_is(message, "hello"));
  assert_int_equal(weir__test_server_n_calls(server), 2);
  grpc_metadata_array_destroy(&trailing);
  grpc_byte_buffer_destroy(message);
  grpc_byte_buffer_destroy(sent);
  grpc_slice_unref(details);
  weir_call_unref(call);
  queue_end(queue);
  weir_channel_destroy(channel);
  weir__test_server_release(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_batch_gives_what_the_core_gives_for_each_code),
      cmocka_unit_test(the_blocking_call_gives_what_the_core_gives_for_each_code),
      cmocka_unit_test(a_message_beside_a_failure_is_handed_out_as_by_the_core),
      cmocka_unit_test(method_and_host_go_to_the_server_as_given),
      cmocka_unit_test(the_host_is_the_calls_own_in_every_attempt),
      cmocka_unit_test(messages_of_every_make_arrive_whole),
      cmocka_unit_test(a_channel_that_compresses_still_does),
      cmocka_unit_test(a_refused_request_leaves_the_reply_empty),
      cmocka_unit_test(what_is_asked_for_beyond_what_is_known_is_refused),
      cmocka_unit_test(a_refused_call_outlasts_its_channel),
      cmocka_unit_test(many_threads_call_over_one_channel),
      cmocka_unit_test(many_threads_share_breaker_and_throttle),
      cmocka_unit_test(a_blocking_call_goes_on_when_its_channel_is_destroyed),
      cmocka_unit_test(the_order_of_operations_and_the_headers_are_the_callers_choice),
  };
  return cmocka_run_group_tests_name("unary", tests, start_core, stop_core);
}
