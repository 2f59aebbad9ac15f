/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include <weir/weir.h>

#include "test/e2e/fixture.h"
#include "test/e2e/stream_server.h"

#define POLICY_DEFAULT "{}"
#define POLICY_RETRIES "{" METHODS(RETRY("3", "0.001s", UNAVAILABLE)) "}"

/* --- a call in several batches --- */

/* What a batch is for; its tag is the address of its entry. The core hands out messages only to who
 * has asked for the headers. */
enum part { PART_OPEN, PART_HEADERS, PART_SEND, PART_CLOSE, PART_RECEIVE, PART_STATUS };
#define N_PARTS 6

struct part_tag {
  unsigned n_started;
  unsigned n_seen;
  bool success; /* of the last one */
};

struct stream {
  weir_call *call;
  weir_completion_queue *queue;
  struct part_tag parts[N_PARTS];
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *sent;
  grpc_byte_buffer *message;
  grpc_status_code code;
  grpc_slice details;
  const char *error_string;
};

static grpc_op part_op(struct stream *stream, enum part part) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  switch (part) {
  case PART_OPEN:
    op.op = GRPC_OP_SEND_INITIAL_METADATA;
    break;
  case PART_HEADERS:
    op.op = GRPC_OP_RECV_INITIAL_METADATA;
    op.data.recv_initial_metadata.recv_initial_metadata = &stream->initial_metadata;
    break;
  case PART_SEND:
    op.op = GRPC_OP_SEND_MESSAGE;
    op.data.send_message.send_message = stream->sent;
    break;
  case PART_CLOSE:
    op.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    break;
  case PART_RECEIVE:
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &stream->message;
    break;
  case PART_STATUS:
    op.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    op.data.recv_status_on_client.trailing_metadata = &stream->trailing_metadata;
    op.data.recv_status_on_client.status = &stream->code;
    op.data.recv_status_on_client.status_details = &stream->details;
    op.data.recv_status_on_client.error_string = &stream->error_string;
    break;
  }
  return op;
}

static void stream_init(struct stream *stream, weir_channel *channel, weir_completion_queue *queue,
                        const char *method, gpr_timespec deadline) {
  memset(stream, 0, sizeof *stream);
  stream->queue = queue;
  stream->details = grpc_empty_slice();
  grpc_slice path = grpc_slice_from_copied_string(method);
  stream->call = weir_channel_create_call(channel, NULL, 0, queue, path, NULL, deadline, NULL);
  grpc_slice_unref(path);
  assert_non_null(stream->call);
}

static grpc_call_error stream_try(struct stream *stream, enum part part) {
  grpc_op op = part_op(stream, part);
  grpc_call_error error = weir_call_start_batch(stream->call, &op, 1, &stream->parts[part], NULL);
  stream->parts[part].n_started += error == GRPC_CALL_OK;
  return error;
}

static void stream_start(struct stream *stream, enum part part) {
  assert_int_equal(stream_try(stream, part), GRPC_CALL_OK);
}

static void stream_note(struct stream *stream) {
  gpr_timespec limit =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN));
  grpc_event event = weir_completion_queue_next(stream->queue, limit, NULL);
  assert_int_equal(event.type, GRPC_OP_COMPLETE);
  struct part_tag *tag = event.tag;
  assert_true(tag >= stream->parts && tag < stream->parts + N_PARTS);
  tag->n_seen++;
  tag->success = event.success != 0;
  assert_true(tag->n_seen <= tag->n_started);
}

/* Waits for what was started of a part; says whether it was a success. */
static bool stream_wait(struct stream *stream, enum part part) {
  while (stream->parts[part].n_seen < stream->parts[part].n_started) {
    stream_note(stream);
  }
  return stream->parts[part].success;
}

static void stream_wait_all(struct stream *stream) {
  for (int part = 0; part < N_PARTS; part++) {
    (void)stream_wait(stream, (enum part)part);
  }
}

static bool stream_send(struct stream *stream, const char *text) {
  stream->sent = message_of(text);
  stream_start(stream, PART_SEND);
  bool success = stream_wait(stream, PART_SEND);
  grpc_byte_buffer_destroy(stream->sent);
  stream->sent = NULL;
  return success;
}

static void stream_drop_message(struct stream *stream) {
  if (stream->message != NULL) {
    grpc_byte_buffer_destroy(stream->message);
    stream->message = NULL;
  }
}

/* Receives a message, or NULL the end. */
static void assert_receives(struct stream *stream, const char *text) {
  stream_start(stream, PART_RECEIVE);
  assert_true(stream_wait(stream, PART_RECEIVE));
  if (text == NULL) {
    assert_null(stream->message);
  } else {
    assert_true(message_is(stream->message, text));
  }
  stream_drop_message(stream);
}

static struct weir_call_report stream_report(const struct stream *stream) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  assert_int_equal(weir_call_get_report(stream->call, &report), WEIR_OK);
  return report;
}

static void stream_fini(struct stream *stream) {
  stream_drop_message(stream);
  grpc_metadata_array_destroy(&stream->initial_metadata);
  grpc_metadata_array_destroy(&stream->trailing_metadata);
  grpc_slice_unref(stream->details);
  gpr_free((void *)(uintptr_t)stream->error_string);
  if (stream->call != NULL) {
    weir_call_unref(stream->call);
  }
}

static gpr_timespec forever(void) {
  return gpr_inf_future(GPR_CLOCK_MONOTONIC);
}

/* A server, a channel to it, a queue, and a call. */
struct way {
  struct stream_server *server;
  weir_channel *channel;
  weir_completion_queue *queue;
  struct stream stream;
};

static void way_open(struct way *way, const char *policy, const char *method) {
  way->server = stream_server_new();
  way->channel = channel_to(stream_server_port(way->server), policy);
  way->queue = weir_completion_queue_create_for_next(NULL);
  stream_init(&way->stream, way->channel, way->queue, method, forever());
}

static void way_close(struct way *way) {
  stream_fini(&way->stream);
  queue_end(way->queue); /* and no tag is left */
  weir_channel_destroy(way->channel);
  stream_server_release(way->server);
}

static struct weir_breaker_snapshot look(weir_channel *channel) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir_channel_breaker_snapshot(channel, STREAM_BREAK, &snapshot), WEIR_OK);
  return snapshot;
}

/* --- messages --- */

static void messages_flow_both_ways(void **state) {
  (void)state;
  static const char *const texts[] = {"one", "", "three"};
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_ECHO);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_STATUS);
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    assert_true(stream_send(&way.stream, texts[i]));
    assert_receives(&way.stream, texts[i]);
  }
  stream_start(&way.stream, PART_CLOSE);
  assert_receives(&way.stream, NULL);
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_OK);
  assert_receives(&way.stream, NULL); /* as often as one asks */
  assert_int_equal(stream_report(&way.stream).n_attempts, 1);
  assert_int_equal(look(way.channel).n_requests, 1);
  way_close(&way);
}

static void a_client_may_send_many_messages_for_one(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_COUNT);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  for (int i = 0; i < 7; i++) {
    assert_true(stream_send(&way.stream, "x"));
  }
  stream_start(&way.stream, PART_CLOSE);
  assert_receives(&way.stream, "7");
  stream_start(&way.stream, PART_STATUS);
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_OK);
  way_close(&way);
}

static void a_server_may_send_many_messages_for_one(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_THREE);
  stream_start(&way.stream, PART_STATUS); /* receiving may come first */
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_CLOSE);
  assert_receives(&way.stream, "1");
  assert_receives(&way.stream, "2");
  assert_receives(&way.stream, "3");
  assert_receives(&way.stream, NULL);
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_OK);
  way_close(&way);
}

static void a_second_message_at_once_is_refused_without_harm(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_ECHO);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_RECEIVE);
  assert_int_equal(stream_try(&way.stream, PART_RECEIVE), GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  assert_int_equal(stream_try(&way.stream, PART_OPEN), GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  assert_true(stream_send(&way.stream, "hello"));
  assert_true(stream_wait(&way.stream, PART_RECEIVE));
  assert_true(message_is(way.stream.message, "hello"));
  stream_drop_message(&way.stream);
  stream_start(&way.stream, PART_CLOSE);
  stream_start(&way.stream, PART_STATUS);
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_OK);
  way_close(&way);
}

/* --- failures --- */

static void assert_no_secret(const struct stream *stream) {
  char text[256];
  size_t size = GRPC_SLICE_LENGTH(stream->details);
  assert_true(size < sizeof text);
  memcpy(text, GRPC_SLICE_START_PTR(stream->details), size);
  text[size] = '\0';
  assert_null(strstr(text, "hunter2"));
  assert_non_null(strstr(text, "downstream service: UNAVAILABLE [ref "));
  assert_int_equal(stream->trailing_metadata.count, 0);
  assert_null(strstr(stream->error_string, "hunter2"));
}

static void a_failure_after_messages_is_translated_and_not_retried(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_RETRIES, STREAM_BREAK);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_CLOSE);
  assert_receives(&way.stream, "1");
  assert_receives(&way.stream, "2");
  assert_receives(&way.stream, NULL);
  stream_start(&way.stream, PART_STATUS); /* what has happened is told when it is asked for */
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_UNAVAILABLE);
  assert_no_secret(&way.stream);
  struct weir_call_report report = stream_report(&way.stream);
  assert_int_equal(report.raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.origin, WEIR_ORIGIN_PEER);
  assert_int_equal(report.reason, WEIR_REASON_COMMITTED);
  assert_int_equal(stream_server_n_calls(way.server), 1);
  way_close(&way);
}

static void a_refusal_is_retried_and_then_translated(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_RETRIES, STREAM_REFUSE);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_RECEIVE);
  stream_start(&way.stream, PART_STATUS);
  stream_wait_all(&way.stream);
  assert_true(way.stream.parts[PART_HEADERS].success); /* as with the core */
  assert_int_equal(way.stream.initial_metadata.count, 0);
  assert_null(way.stream.message);
  assert_int_equal(way.stream.code, GRPC_STATUS_UNAVAILABLE);
  assert_no_secret(&way.stream);
  assert_int_equal(stream_server_n_calls(way.server), 3);
  assert_int_equal(stream_report(&way.stream).n_attempts, 3);
  way_close(&way);
}

static void what_is_sent_after_the_end_fails(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_REFUSE);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_STATUS);
  stream_wait_all(&way.stream);
  assert_false(stream_send(&way.stream, "too late"));
  assert_receives(&way.stream, NULL);
  way_close(&way);
}

/* --- the layers --- */

/* A whole call; the core tells the status only to who has read all messages. */
static void stream_run(struct way *way, const char *method) {
  struct stream stream;
  bool at_end = false;
  stream_init(&stream, way->channel, way->queue, method, forever());
  stream_start(&stream, PART_OPEN);
  stream_start(&stream, PART_HEADERS);
  stream_start(&stream, PART_CLOSE);
  stream_start(&stream, PART_STATUS);
  while (!at_end) {
    stream_start(&stream, PART_RECEIVE);
    (void)stream_wait(&stream, PART_RECEIVE);
    at_end = stream.message == NULL;
    stream_drop_message(&stream);
  }
  stream_wait_all(&stream);
  stream_fini(&stream);
}

static void the_breaker_hears_of_the_first_message_and_of_a_failing_end(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_THREE);
  stream_run(&way, STREAM_THREE);
  assert_int_equal(look(way.channel).n_requests, 1);
  assert_int_equal(look(way.channel).n_failures, 0);
  stream_run(&way, STREAM_BREAK);
  assert_int_equal(look(way.channel).n_requests, 3);
  assert_int_equal(look(way.channel).n_failures, 1);
  stream_run(&way, STREAM_REFUSE);
  assert_int_equal(look(way.channel).n_requests, 4);
  assert_int_equal(look(way.channel).n_failures, 2);
  way_close(&way);
}

static void an_open_breaker_refuses_every_batch_of_a_stream(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_THREE);
  for (int i = 0; i < 5; i++) {
    stream_run(&way, STREAM_REFUSE);
  }
  assert_int_equal(look(way.channel).state, WEIR_BREAKER_OPEN);
  way.stream.sent = message_of("hello");
  for (int part = 0; part < N_PARTS; part++) {
    stream_start(&way.stream, (enum part)part);
  }
  stream_wait_all(&way.stream);
  for (int part = 0; part < N_PARTS; part++) {
    assert_int_equal(way.stream.parts[part].success, part == PART_STATUS);
  }
  assert_int_equal(way.stream.code, GRPC_STATUS_UNAVAILABLE);
  assert_null(way.stream.message);
  assert_int_equal(stream_report(&way.stream).reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(stream_server_n_calls(way.server), 5);
  grpc_byte_buffer_destroy(way.stream.sent);
  way_close(&way);
}

static void a_stream_has_no_deadline_unless_the_policy_says_so(void **state) {
  (void)state;
  static const char *const policies[] = {"{}", "{\"deadline\":{\"defaultStreamTimeout\":\"30s\"}}",
                                         "{\"deadline\":{\"maxStreamTimeout\":\"30s\"}}"};
  for (size_t i = 0; i < COUNT_OF(policies); i++) {
    struct way way;
    way_open(&way, policies[i], STREAM_THREE);
    stream_run(&way, STREAM_THREE);
    assert_int_equal(stream_server_had_deadline(way.server), i > 0);
    way_close(&way);
  }
}

/* However long it has been answered, and however much time it was given. */
static void a_streams_ceiling_ends_it_and_is_counted(void **state) {
  (void)state;
  struct way way;
  struct stream stream;
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  way_open(&way, "{" NO_BOUNDARY ",\"deadline\":{\"maxStreamTimeout\":\"1.5s\"}}", STREAM_ECHO);
  stream_init(&stream, way.channel, way.queue, STREAM_ONE_AND_WAIT,
              gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_hours(1, GPR_TIMESPAN)));
  stream_start(&stream, PART_OPEN);
  stream_start(&stream, PART_HEADERS);
  stream_start(&stream, PART_CLOSE);
  stream_start(&stream, PART_STATUS);
  assert_receives(&stream, "1");
  stream_wait_all(&stream);

  assert_int_equal(stream.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  struct weir_call_report report = stream_report(&stream);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(report.deadline_bound, WEIR_DEADLINE_BOUND_POLICY);
  assert_true(report.deadline_clamped);
  assert_int_equal(report.attempts_ns + report.backoff_ns + report.queued_ns, report.total_ns);
  assert_int_equal(weir_channel_get_counters(way.channel, &counters), WEIR_OK);
  assert_int_equal(counters.n_clamped_deadlines, 1);
  assert_true(stream_server_wait_cancelled(way.server, 1));
  stream_fini(&stream);
  way_close(&way);
}

static void a_deadline_that_is_past_ends_every_batch_and_sends_nothing(void **state) {
  (void)state;
  struct way way;
  struct stream stream;
  way_open(&way, POLICY_DEFAULT, STREAM_ECHO);
  stream_init(&stream, way.channel, way.queue, STREAM_ECHO, gpr_inf_past(GPR_CLOCK_MONOTONIC));
  stream.sent = message_of("hello");
  for (int part = 0; part < N_PARTS; part++) {
    stream_start(&stream, (enum part)part);
  }
  stream_wait_all(&stream);
  for (int part = 0; part < N_PARTS; part++) {
    assert_int_equal(stream.parts[part].success, part == PART_STATUS);
  }
  assert_int_equal(stream.code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(stream_server_n_calls(way.server), 0);
  grpc_byte_buffer_destroy(stream.sent);
  stream_fini(&stream);
  way_close(&way);
}

static void a_message_over_the_limit_ends_a_stream_here(void **state) {
  (void)state;
  struct way way;
  way_open(&way, "{" METHODS("\"maxResponseMessageBytes\":3") "}", STREAM_ECHO);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_STATUS);
  assert_true(stream_send(&way.stream, "fit"));
  assert_receives(&way.stream, "fit");
  assert_true(stream_send(&way.stream, "fits"));
  stream_start(&way.stream, PART_RECEIVE);
  assert_false(stream_wait(&way.stream, PART_RECEIVE));
  assert_null(way.stream.message);
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
  assert_int_equal(stream_report(&way.stream).origin, WEIR_ORIGIN_LOCAL_LIMIT);
  way_close(&way);
}

/* --- ends of other kinds --- */

static void a_cancelled_stream_gives_every_tag_back(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_ONE_AND_WAIT);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_STATUS);
  assert_receives(&way.stream, "1");
  stream_start(&way.stream, PART_RECEIVE);
  assert_int_equal(weir_call_cancel(way.stream.call, NULL), GRPC_CALL_OK);
  stream_wait_all(&way.stream);
  assert_null(way.stream.message);
  assert_int_equal(way.stream.code, GRPC_STATUS_CANCELLED);
  assert_int_equal(stream_report(&way.stream).origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_true(stream_server_wait_cancelled(way.server, 1));
  assert_int_equal(look(way.channel).n_failures, 0);
  way_close(&way);
}

static void a_stream_given_up_gives_every_tag_back(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_WAIT);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_RECEIVE);
  stream_start(&way.stream, PART_STATUS);
  assert_true(stream_server_wait_calls(way.server, 1));
  weir_call_unref(way.stream.call);
  way.stream.call = NULL;
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_CANCELLED);
  assert_true(stream_server_wait_cancelled(way.server, 1));
  way_close(&way);
}

static void a_stream_whose_status_nobody_wants_is_no_sample(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_WAIT);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_RECEIVE);
  assert_true(stream_server_wait_calls(way.server, 1));
  weir_call_unref(way.stream.call);
  way.stream.call = NULL;
  stream_wait_all(&way.stream);
  assert_null(way.stream.message);
  assert_true(stream_server_wait_cancelled(way.server, 1));
  assert_int_equal(look(way.channel).n_requests, 0);
  way_close(&way);
}

static void shutdown_comes_after_the_last_tag_of_a_stream(void **state) {
  (void)state;
  struct way way;
  way_open(&way, POLICY_DEFAULT, STREAM_ECHO);
  stream_start(&way.stream, PART_OPEN);
  stream_start(&way.stream, PART_HEADERS);
  stream_start(&way.stream, PART_STATUS);
  weir_completion_queue_shutdown(way.queue);
  assert_true(stream_send(&way.stream, "still open")); /* as with the core: a batch is under way */
  assert_receives(&way.stream, "still open");
  stream_start(&way.stream, PART_CLOSE);
  stream_wait_all(&way.stream);
  assert_int_equal(way.stream.code, GRPC_STATUS_OK);
  assert_null(next_tag(way.queue));
  way_close(&way);
}

/* --- sending and receiving by different threads --- */

#define N_MESSAGES 200

/* The half of a call that one thread has, on a pluck queue. */
struct half {
  weir_call *call;
  weir_completion_queue *queue;
  unsigned n_wrong;
};

static bool half_run(const struct half *half, const grpc_op *op) {
  char tag = 0;
  if (weir_call_start_batch(half->call, op, 1, &tag, NULL) != GRPC_CALL_OK) {
    return false;
  }
  return weir_completion_queue_pluck(half->queue, &tag, forever(), NULL).success != 0;
}

static void *send_all(void *argument) {
  struct half *half = argument;
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_SEND_INITIAL_METADATA;
  half->n_wrong += !half_run(half, &op);
  for (unsigned i = 0; i < N_MESSAGES; i++) {
    char text[16];
    (void)snprintf(text, sizeof text, "%u", i);
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_SEND_MESSAGE;
    op.data.send_message.send_message = message_of(text);
    half->n_wrong += !half_run(half, &op);
    grpc_byte_buffer_destroy(op.data.send_message.send_message);
  }
  memset(&op, 0, sizeof op);
  op.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  half->n_wrong += !half_run(half, &op);
  return NULL;
}

static void *receive_all(void *argument) {
  struct half *half = argument;
  grpc_metadata_array headers;
  grpc_op first;
  grpc_metadata_array_init(&headers);
  memset(&first, 0, sizeof first);
  first.op = GRPC_OP_RECV_INITIAL_METADATA;
  first.data.recv_initial_metadata.recv_initial_metadata = &headers;
  half->n_wrong += !half_run(half, &first);
  grpc_metadata_array_destroy(&headers);
  for (unsigned i = 0; i <= N_MESSAGES; i++) {
    char text[16];
    grpc_byte_buffer *message = NULL;
    grpc_op op;
    (void)snprintf(text, sizeof text, "%u", i);
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &message;
    half->n_wrong += !half_run(half, &op);
    half->n_wrong += i < N_MESSAGES ? !message_is(message, text) : message != NULL;
    grpc_byte_buffer_destroy(message);
  }
  return NULL;
}

static void one_thread_sends_while_another_receives(void **state) {
  (void)state;
  struct stream_server *server = stream_server_new();
  weir_channel *channel = channel_to(stream_server_port(server), POLICY_DEFAULT);
  weir_completion_queue *queue = weir_completion_queue_create_for_pluck(NULL);
  struct stream stream;
  pthread_t threads[2];
  stream_init(&stream, channel, queue, STREAM_ECHO, forever());
  struct half halves[2] = {{.call = stream.call, .queue = queue},
                           {.call = stream.call, .queue = queue}};
  assert_int_equal(pthread_create(&threads[0], NULL, send_all, &halves[0]), 0);
  assert_int_equal(pthread_create(&threads[1], NULL, receive_all, &halves[1]), 0);
  assert_int_equal(pthread_join(threads[0], NULL), 0);
  assert_int_equal(pthread_join(threads[1], NULL), 0);
  assert_int_equal(halves[0].n_wrong, 0);
  assert_int_equal(halves[1].n_wrong, 0);
  grpc_op op = part_op(&stream, PART_STATUS);
  assert_true(half_run(&halves[1], &op));
  assert_int_equal(stream.code, GRPC_STATUS_OK);
  stream_fini(&stream);
  weir_completion_queue_shutdown(queue);
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
  stream_server_release(server);
}

/* --- many streams, drained by many threads --- */

#define N_STREAMS 40
#define N_DRAINERS 3

struct crowd {
  weir_completion_queue *queue;
  pthread_t threads[N_DRAINERS];
  pthread_mutex_t mutex; /* of n_seen, here and in the parts */
  unsigned n_seen;
  struct stream streams[N_STREAMS];
};

static const enum part crowd_parts[] = {PART_OPEN, PART_HEADERS, PART_CLOSE, PART_RECEIVE,
                                        PART_STATUS};

static void *drain(void *argument) {
  struct crowd *crowd = argument;
  for (;;) {
    grpc_event event = weir_completion_queue_next(crowd->queue, forever(), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN) {
      return NULL;
    }
    (void)pthread_mutex_lock(&crowd->mutex);
    ((struct part_tag *)event.tag)->n_seen++;
    crowd->n_seen++;
    (void)pthread_mutex_unlock(&crowd->mutex);
  }
}

/* Starts all parts of all streams; of every two, one fails. */
static void crowd_start(struct crowd *crowd, weir_channel *channel) {
  crowd->n_seen = 0;
  crowd->queue = weir_completion_queue_create_for_next(NULL);
  (void)pthread_mutex_init(&crowd->mutex, NULL);
  for (size_t i = 0; i < N_DRAINERS; i++) {
    assert_int_equal(pthread_create(&crowd->threads[i], NULL, drain, crowd), 0);
  }
  for (size_t i = 0; i < N_STREAMS; i++) {
    struct stream *stream = &crowd->streams[i];
    stream_init(stream, channel, crowd->queue, i % 2 == 0 ? STREAM_COUNT : STREAM_REFUSE,
                forever());
    for (size_t part = 0; part < COUNT_OF(crowd_parts); part++) {
      grpc_op op = part_op(stream, crowd_parts[part]);
      assert_int_equal(
          weir_call_start_batch(stream->call, &op, 1, &stream->parts[crowd_parts[part]], NULL),
          GRPC_CALL_OK);
    }
  }
}

/* Waits for all tags; each has come once. */
static void crowd_wait(struct crowd *crowd) {
  weir_completion_queue_shutdown(crowd->queue);
  for (size_t i = 0; i < N_DRAINERS; i++) {
    assert_int_equal(pthread_join(crowd->threads[i], NULL), 0);
  }
  assert_int_equal(crowd->n_seen, COUNT_OF(crowd_parts) * N_STREAMS);
  for (size_t i = 0; i < N_STREAMS; i++) {
    for (size_t part = 0; part < COUNT_OF(crowd_parts); part++) {
      assert_int_equal(crowd->streams[i].parts[crowd_parts[part]].n_seen, 1);
    }
  }
}

static void crowd_fini(struct crowd *crowd) {
  for (size_t i = 0; i < N_STREAMS; i++) {
    stream_fini(&crowd->streams[i]);
  }
  (void)pthread_mutex_destroy(&crowd->mutex);
  weir_completion_queue_destroy(crowd->queue);
}

static void threads_that_share_a_queue_share_the_parts_of_streams(void **state) {
  (void)state;
  static struct crowd crowd;
  struct stream_server *server = stream_server_new();
  weir_channel *channel = channel_to(stream_server_port(server), "{" NO_BREAKER "}");
  crowd_start(&crowd, channel);
  crowd_wait(&crowd);
  for (size_t i = 0; i < N_STREAMS; i++) {
    const struct stream *stream = &crowd.streams[i];
    assert_int_equal(stream->code, i % 2 == 0 ? GRPC_STATUS_OK : GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(stream->message != NULL, i % 2 == 0);
  }
  crowd_fini(&crowd);
  weir_channel_destroy(channel);
  stream_server_release(server);
}

/* Cancels some, and gives others up. */
static void *trouble(void *argument) {
  struct crowd *crowd = argument;
  uint64_t seed = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < N_STREAMS; i++) {
    seed ^= seed << 13; /* xorshift (Marsaglia) */
    seed ^= seed >> 7;
    seed ^= seed << 17;
    struct stream *stream = &crowd->streams[seed % N_STREAMS];
    for (uint64_t wait = seed >> 58; wait > 0; wait--) {
      (void)sched_yield();
    }
    if (stream->call != NULL && (seed >> 32) % 2 == 0) {
      (void)weir_call_cancel(stream->call, NULL);
    } else if (stream->call != NULL) {
      weir_call_unref(stream->call);
      stream->call = NULL;
    }
  }
  return NULL;
}

static void streams_ended_at_any_moment_give_every_tag_back(void **state) {
  (void)state;
  static struct crowd crowd;
  struct stream_server *server = stream_server_new();
  weir_channel *channel = channel_to(stream_server_port(server), "{}");
  for (int round = 0; round < 4; round++) {
    pthread_t thread;
    crowd_start(&crowd, channel);
    assert_int_equal(pthread_create(&thread, NULL, trouble, &crowd), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    crowd_wait(&crowd);
    crowd_fini(&crowd);
  }
  weir_channel_destroy(channel);
  stream_server_release(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_flow_both_ways),
      cmocka_unit_test(a_client_may_send_many_messages_for_one),
      cmocka_unit_test(a_server_may_send_many_messages_for_one),
      cmocka_unit_test(a_second_message_at_once_is_refused_without_harm),
      cmocka_unit_test(a_failure_after_messages_is_translated_and_not_retried),
      cmocka_unit_test(a_refusal_is_retried_and_then_translated),
      cmocka_unit_test(what_is_sent_after_the_end_fails),
      cmocka_unit_test(the_breaker_hears_of_the_first_message_and_of_a_failing_end),
      cmocka_unit_test(an_open_breaker_refuses_every_batch_of_a_stream),
      cmocka_unit_test(a_stream_has_no_deadline_unless_the_policy_says_so),
      cmocka_unit_test(a_streams_ceiling_ends_it_and_is_counted),
      cmocka_unit_test(a_deadline_that_is_past_ends_every_batch_and_sends_nothing),
      cmocka_unit_test(a_message_over_the_limit_ends_a_stream_here),
      cmocka_unit_test(a_cancelled_stream_gives_every_tag_back),
      cmocka_unit_test(a_stream_given_up_gives_every_tag_back),
      cmocka_unit_test(a_stream_whose_status_nobody_wants_is_no_sample),
      cmocka_unit_test(shutdown_comes_after_the_last_tag_of_a_stream),
      cmocka_unit_test(one_thread_sends_while_another_receives),
      cmocka_unit_test(threads_that_share_a_queue_share_the_parts_of_streams),
      cmocka_unit_test(streams_ended_at_any_moment_give_every_tag_back),
  };
  return cmocka_run_group_tests_name("stream", tests, start_core, stop_core);
}
