/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>

#include "test/stack/batches.h"

/* The fallback of these tests is run by hand: a question that was asked, and not run, is one that it
 * blocks on. */

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* --- channels with a fallback --- */

/* A boundary; the breaker opens for 10 s after two failed calls; no retries. */
static void open_with_fallback(struct fixture *f) {
  f->has_fallback = true;
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  f->breaker.min_requests = 2;
  f->breaker.failure_ratio = 1.0;
  f->breaker.open_for_ns = SECONDS(10);
  fixture_open(f);
}

/* The same with onFailure, and no breaker. */
static void open_on_failure(struct fixture *f) {
  f->fallback_options.on_failure = true;
  f->breaker.enabled = false;
  open_with_fallback(f);
}

static void trip(struct fixture *f) {
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, f->breaker.min_requests);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
}

/* A call that the breaker refuses, and that waits for the fallback. */
static void start_refused(struct fixture *f, struct unary *unary) {
  size_t n_started = f->fallback.n_started;
  unary_init(f, unary);
  unary_start(f, unary);
  assert_int_equal(f->fallback.n_started, n_started + 1);
  run_until(f, f->clock.now_ns);
  assert_int_equal(unary->n_done, 0);
}

/* A call that has failed, and waits for the fallback. */
static void start_failed(struct fixture *f, struct unary *unary) {
  scripted_transport_always(&f->transport, MS(5), answer_unavailable);
  unary_init(f, unary);
  unary_start(f, unary);
  run_until(f, f->clock.now_ns + MS(5));
  assert_int_equal(unary->n_done, 0);
}

static void answer_and_drain(struct fixture *f) {
  scripted_fallback_run_all(&f->fallback);
  run_until_idle(f);
}

static const struct recorded_failure *last_record(const struct fixture *f) {
  assert_true(f->log.n_records > 0 && f->log.n_records <= LOG_RECORDER_RECORDS);
  return &f->log.records[f->log.n_records - 1];
}

static struct weir_channel_counters counters_of(const struct fixture *f) {
  struct weir_channel_counters counters = WEIR_CHANNEL_COUNTERS_INIT;
  assert_int_equal(weir_channel_get_counters(f->channel, &counters), WEIR_OK);
  return counters;
}

/* Its parts are the whole, and none is negative. */
static void check_times(const struct weir_call_report *report) {
  assert_true(report->attempts_ns >= 0 && report->backoff_ns >= 0 && report->queued_ns >= 0 &&
              report->fallback_ns >= 0);
  assert_int_equal(report->total_ns, report->attempts_ns + report->backoff_ns + report->queued_ns +
                                         report->fallback_ns);
}

/* The refusal that the caller gets where nothing stands in. */
static void check_is_refusal(const struct unary *unary, enum weir_fallback_result result) {
  struct weir_call_report report = unary_report(unary);
  assert_int_equal(unary->n_done, 1);
  assert_int_equal(unary->status, GRPC_STATUS_UNAVAILABLE);
  assert_null(unary->reply);
  assert_int_equal(report.code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_true(report.do_not_retry);
  assert_int_equal(report.fallback_result, result);
  assert_null(report.fallback_source);
  check_times(&report);
}

/* --- a hit --- */

static void a_refused_call_gets_what_the_fallback_finds(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  size_t n_records = f->log.n_records;
  size_t n_sent = f->transport.n_sent;
  struct unary unary;
  start_refused(f, &unary);
  f->clock.now_ns += MS(7);
  answer_and_drain(f);

  assert_int_equal(unary.n_done, 1);
  assert_true(unary.success);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_true(unary_reply_is(&unary, "cached"));
  assert_true(unary_details_are(&unary, ""));
  assert_null(unary.error_string);
  assert_int_equal(unary.initial_metadata.count + unary.trailing_metadata.count, 0);
  assert_int_equal(f->transport.n_sent, n_sent);

  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(report.code, GRPC_STATUS_OK);
  assert_int_equal(report.raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_int_equal(report.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(report.n_attempts, 0);
  assert_int_equal(report.fallback_result, WEIR_FALLBACK_HIT);
  assert_string_equal(report.fallback_source, "cache");
  assert_int_equal(report.fallback_ns, MS(7));
  assert_false(report.do_not_retry);
  assert_false(report.caller_may_retry);
  check_times(&report);

  assert_int_equal(f->log.n_records, n_records + 1);
  unary_fini(&unary);
}

static void a_failed_call_gets_what_the_fallback_finds(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  struct unary unary;
  start_failed(f, &unary);
  answer_and_drain(f);

  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_true(unary_reply_is(&unary, "cached"));
  assert_int_equal(report.code, GRPC_STATUS_OK);
  assert_int_equal(report.raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.origin, WEIR_ORIGIN_PEER);
  assert_int_equal(report.reason, WEIR_REASON_NO_RETRY_POLICY);
  assert_int_equal(report.n_attempts, 1);
  assert_int_equal(report.attempts[0].code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(report.attempts_ns, MS(5));
  check_times(&report);
  unary_fini(&unary);
}

/* All that the failed service wrote is gone, and the log has it. */
static void nothing_of_the_failure_is_left_beside_a_hit(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(5), MESSAGE_THEN("secret-body", GRPC_STATUS_UNAVAILABLE, "secret-words"),
                  WITH_INITIAL("x-initial", "secret-initial"),
                  WITH_TRAILING("x-trailing", "secret-trailing")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  run_until(f, T0 + MS(5));
  answer_and_drain(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_false(unary_can_see(&unary, "secret"));
  assert_string_equal(last_record(f)->message, "secret-words");
  unary_fini(&unary);
}

static void the_log_is_told_what_happened_and_what_stood_in(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  struct unary unary;
  start_failed(f, &unary);
  answer_and_drain(f);

  struct weir_call_report report = unary_report(&unary);
  const struct recorded_failure *record = last_record(f);
  assert_int_equal(f->log.n_records, 1);
  assert_int_equal(record->numbers.event, WEIR_LOG_CALL_FAILED);
  assert_int_equal(record->numbers.raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(record->numbers.code, GRPC_STATUS_OK);
  assert_int_equal(record->numbers.fallback_result, WEIR_FALLBACK_HIT);
  assert_string_equal(record->fallback_source, "cache");
  assert_string_equal(record->message, "busy");
  assert_int_equal(strlen(record->reference), WEIR_REFERENCE_LENGTH);
  assert_string_equal(record->reference, report.reference);
  unary_fini(&unary);
}

static void without_a_boundary_a_hit_is_the_same_and_nothing_is_logged(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  open_on_failure(f);
  struct unary unary;
  start_failed(f, &unary);
  answer_and_drain(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_true(unary_reply_is(&unary, "cached"));
  assert_true(unary_details_are(&unary, ""));
  assert_int_equal(f->log.n_records, 0);
  unary_fini(&unary);
}

static void a_marked_empty_message_is_a_hit(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  f->fallback.text = "";
  f->fallback.empty_is_real = true;
  struct unary unary;
  start_refused(f, &unary);
  answer_and_drain(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_non_null(unary.reply);
  assert_int_equal(grpc_byte_buffer_length(unary.reply), 0);
  unary_fini(&unary);
}

static void a_fallback_may_answer_with_the_request_itself(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  f->fallback.gives_request_back = true;
  struct unary unary;
  start_refused(f, &unary);
  answer_and_drain(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_true(unary_reply_is(&unary, "foo"));
  unary_fini(&unary);
}

/* As for any call that has ended well. */
static void initial_metadata_that_are_asked_for_apart_are_none(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  unary_init(f, &unary);
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&unary, ops);
  grpc_op metadata_op = ops[3];
  ops[3] = ops[5];
  assert_int_equal(weir_call_start_batch(unary.call, ops, 5, &ops, NULL), GRPC_CALL_OK);
  assert_int_equal(weir_call_start_batch(unary.call, &metadata_op, 1, &metadata_op, NULL),
                   GRPC_CALL_OK);
  run_until(f, f->clock.now_ns);
  assert_int_equal(f->n_foreign, 0);
  answer_and_drain(f);

  assert_int_equal(f->n_foreign, 2);
  assert_true(f->foreign_success[0] && f->foreign_success[1]);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(unary.initial_metadata.count, 0);
  unary_fini(&unary);
}

/* --- no hit --- */

static void a_miss_leaves_the_failure_as_it_is(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  f->fallback.found = WEIR_FALLBACK_FOUND_NOTHING;
  struct unary unary;
  start_refused(f, &unary);
  answer_and_drain(f);

  check_is_refusal(&unary, WEIR_FALLBACK_MISS);
  assert_int_equal(unary_report(&unary).next_probe_in_ns, SECONDS(10));
  assert_int_equal(last_record(f)->numbers.fallback_result, WEIR_FALLBACK_MISS);
  assert_string_equal(last_record(f)->fallback_source, "");
  assert_string_equal(last_record(f)->message, "refused by the circuit breaker");
  unary_fini(&unary);
}

static void a_miss_leaves_the_peers_words_where_there_is_no_boundary(void **state) {
  struct fixture *f = *state;
  f->translation.boundary = false;
  f->fallback.found = WEIR_FALLBACK_FOUND_NOTHING;
  open_on_failure(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(5), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "busy"),
                                           WITH_TRAILING("x-load", "0.9")}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  run_until(f, T0 + MS(5));
  answer_and_drain(f);

  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_true(unary_details_are(&unary, "busy"));
  assert_true(unary_can_see(&unary, "0.9"));
  unary_fini(&unary);
}

struct broken_row {
  const char *why;
  enum weir_fallback_found found;
  const char *text;
  const char *source;
  bool compressed;
};

#define SIXTY_THREE "0123456789abcdef0123456789ABCDEF0123456789.-_...0123456789abcde"

static const struct broken_row broken_rows[] = {
    {"an empty message that is not said to be real", WEIR_FALLBACK_FOUND, "", "cache", false},
    {"no message", WEIR_FALLBACK_FOUND, NULL, "cache", false},
    {"no source", WEIR_FALLBACK_FOUND, "cached", NULL, false},
    {"an empty source", WEIR_FALLBACK_FOUND, "cached", "", false},
    {"a source that is no label", WEIR_FALLBACK_FOUND, "cached", "the cache", false},
    {"a source that ends a line", WEIR_FALLBACK_FOUND, "cached", "cache\n", false},
    {"a source of 64 bytes", WEIR_FALLBACK_FOUND, "cached", SIXTY_THREE "x", false},
    {"a message that is larger than the method allows", WEIR_FALLBACK_FOUND, "nine bytes", "cache",
     false},
    {"a message that the caller would have to decompress", WEIR_FALLBACK_FOUND, "cached", "cache",
     true},
    {"an answer that is neither", (enum weir_fallback_found)2, "cached", "cache", false},
};

static void what_is_no_answer_is_a_miss_that_is_told_apart(void **state) {
  struct fixture *f = *state;
  f->method.max_response_bytes = 8;
  open_with_fallback(f);
  trip(f);
  f->log.n_records = 0;
  for (size_t i = 0; i < COUNT_OF(broken_rows); i++) {
    const struct broken_row *row = &broken_rows[i];
    f->fallback.found = row->found;
    f->fallback.text = row->text;
    f->fallback.source = row->source;
    f->fallback.compressed = row->compressed;
    struct unary unary;
    start_refused(f, &unary);
    answer_and_drain(f);
    if (unary.status != GRPC_STATUS_UNAVAILABLE ||
        unary_report(&unary).fallback_result != WEIR_FALLBACK_BROKEN) {
      fail_msg("%s", row->why);
    }
    check_is_refusal(&unary, WEIR_FALLBACK_BROKEN);
    assert_int_equal(last_record(f)->numbers.fallback_result, WEIR_FALLBACK_BROKEN);
    unary_fini(&unary);
  }
  assert_int_equal(counters_of(f).n_fallback_broken, COUNT_OF(broken_rows));
}

static void a_source_has_up_to_63_bytes_and_a_message_up_to_the_limit(void **state) {
  struct fixture *f = *state;
  f->method.max_response_bytes = 6;
  open_with_fallback(f);
  trip(f);
  f->fallback.source = SIXTY_THREE;
  struct unary unary;
  start_refused(f, &unary);
  answer_and_drain(f);

  assert_int_equal(strlen(SIXTY_THREE), WEIR_FALLBACK_SOURCE_MAX);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_string_equal(unary_report(&unary).fallback_source, SIXTY_THREE);
  unary_fini(&unary);
}

/* --- what it is told --- */

static void the_fallback_is_told_what_was_asked_and_how_it_failed(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  scripted_transport_always(&f->transport, MS(5), answer_unavailable);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(1)});
  unary_add_metadata(f, &unary, "tenant", "acme");
  unary_add_metadata(f, &unary, "lang", "de");
  unary_start(f, &unary);
  run_until(f, T0 + MS(5));
  answer_and_drain(f);

  const struct weir_fallback_request *request = &f->fallback.request;
  assert_int_equal(f->fallback.n_asked, 1);
  assert_string_equal(f->fallback.path, METHOD);
  assert_string_equal(f->fallback.message, "foo");
  assert_string_equal(f->fallback.metadata, "tenant=acme;lang=de;");
  assert_int_equal(request->raw_code, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(request->origin, WEIR_ORIGIN_PEER);
  assert_int_equal(request->blames, WEIR_BLAME_SERVER);
  assert_int_equal(request->reason, WEIR_REASON_NO_RETRY_POLICY);
  assert_int_equal(request->timeout_ns, MS(100));
  assert_int_equal(request->deadline_at_ns, T0 + MS(105));
  assert_int_equal(request->max_response_bytes, WEIR_NO_LIMIT_BYTES);
  unary_fini(&unary);
}

static void a_refusal_can_be_told_from_a_failure(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  answer_and_drain(f);

  assert_int_equal(f->fallback.request.origin, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_int_equal(f->fallback.request.reason, WEIR_REASON_BREAKER_OPEN);
  assert_string_equal(f->fallback.message, "foo");
  unary_fini(&unary);
}

/* More than replayBytes: it is kept for no replay, and once it was sent it is gone. */
static void a_large_request_is_there_unless_it_was_sent(void **state) {
  struct fixture *f = *state;
  f->retry.replay_bytes = 10;
  f->fallback_options.on_failure = true;
  open_with_fallback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  for (size_t i = 0; i < 3; i++) { /* the third is refused */
    struct unary unary;
    unary_init(f, &unary);
    unary_set_request(f, &unary, 40);
    unary_start(f, &unary);
    run_until(f, f->clock.now_ns);
    answer_and_drain(f);
    assert_int_equal(f->fallback.n_asked, i + 1);
    assert_int_equal(f->fallback.had_message, i == 2);
    assert_int_equal(strlen(f->fallback.message), i == 2 ? 40 : 0);
    assert_int_equal(unary.status, GRPC_STATUS_OK);
    unary_fini(&unary);
  }
}

/* --- about what it is asked --- */

struct asked_row {
  const char *why;
  struct wire_answer answer;
  bool is_asked;
};

static const struct asked_row asked_rows[] = {
    {"UNAVAILABLE", {.what = WIRE_TRAILERS_ONLY, .status = 14, .text = ""}, true},
    {"the peer's DEADLINE_EXCEEDED", {.what = WIRE_TRAILERS_ONLY, .status = 4, .text = ""}, true},
    {"the peer's CANCELLED", {.what = WIRE_TRAILERS_ONLY, .status = 1, .text = ""}, true},
    {"UNKNOWN", {.what = WIRE_TRAILERS_ONLY, .status = 2, .text = ""}, true},
    {"RESOURCE_EXHAUSTED", {.what = WIRE_TRAILERS_ONLY, .status = 8, .text = ""}, true},
    {"ABORTED", {.what = WIRE_TRAILERS_ONLY, .status = 10, .text = ""}, true},
    {"INTERNAL", {.what = WIRE_TRAILERS_ONLY, .status = 13, .text = ""}, true},
    {"DATA_LOSS", {.what = WIRE_TRAILERS_ONLY, .status = 15, .text = ""}, true},
    {"no connection", {.what = WIRE_CONNECT_FAIL, .status = 14, .text = ""}, true},
    {"a lost connection", {.what = WIRE_RESET, .status = 14, .text = ""}, true},
    {"a failure after a message",
     {.what = WIRE_MESSAGE_THEN, .status = 14, .text = "", .body = "half"},
     true},
    {"OK", {.what = WIRE_MESSAGE_THEN, .status = 0, .text = "", .body = "bar"}, false},
    {"an answer about data: NOT_FOUND",
     {.what = WIRE_TRAILERS_ONLY, .status = 5, .text = ""},
     false},
    {"ALREADY_EXISTS", {.what = WIRE_TRAILERS_ONLY, .status = 6, .text = ""}, false},
    {"the client's fault: INVALID_ARGUMENT",
     {.what = WIRE_TRAILERS_ONLY, .status = 3, .text = ""},
     false},
    {"PERMISSION_DENIED", {.what = WIRE_TRAILERS_ONLY, .status = 7, .text = ""}, false},
    {"FAILED_PRECONDITION", {.what = WIRE_TRAILERS_ONLY, .status = 9, .text = ""}, false},
    {"OUT_OF_RANGE", {.what = WIRE_TRAILERS_ONLY, .status = 11, .text = ""}, false},
    {"UNIMPLEMENTED", {.what = WIRE_TRAILERS_ONLY, .status = 12, .text = ""}, false},
    {"UNAUTHENTICATED", {.what = WIRE_TRAILERS_ONLY, .status = 16, .text = ""}, false},
    {"a size limit of this process", {.what = WIRE_TOO_LARGE, .status = 8, .text = ""}, false},
};

static void it_is_asked_where_server_or_network_are_to_blame(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  f->fallback.found = WEIR_FALLBACK_FOUND_NOTHING;
  for (size_t i = 0; i < COUNT_OF(asked_rows); i++) {
    const struct asked_row *row = &asked_rows[i];
    size_t n_asked = f->fallback.n_asked;
    scripted_transport_always(&f->transport, 0, row->answer);
    struct unary unary;
    unary_init(f, &unary);
    unary_start(f, &unary);
    run_until(f, f->clock.now_ns);
    scripted_fallback_run_all(&f->fallback);
    run_until_idle(f);
    assert_int_equal(unary.n_done, 1);
    enum weir_fallback_result wanted = row->is_asked ? WEIR_FALLBACK_MISS : WEIR_FALLBACK_NOT_ASKED;
    if ((f->fallback.n_asked > n_asked) != row->is_asked ||
        unary_report(&unary).fallback_result != wanted) {
      fail_msg("%s", row->why);
    }
    unary_fini(&unary);
  }
}

static void a_failure_is_not_asked_about_unless_the_policy_says_so(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_NOT_ASKED);
  assert_int_equal(f->fallback.n_started, 0);
  unary_fini(&unary);
}

static void a_refusal_is_not_asked_about_if_the_policy_says_so(void **state) {
  struct fixture *f = *state;
  f->fallback_options.on_refusal = false;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  unary_run(f, &unary);

  check_is_refusal(&unary, WEIR_FALLBACK_NOT_ASKED);
  assert_int_equal(f->fallback.n_started, 0);
  unary_fini(&unary);
}

static void a_method_may_do_without(void **state) {
  struct fixture *f = *state;
  struct weir_fallback_options never = WEIR_FALLBACK_OPTIONS_INIT;
  struct weir_method_options methods[2] = {f->method, WEIR_METHOD_OPTIONS_INIT};
  never.on_refusal = false;
  methods[0].retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  methods[1].service = "shop.Cart";
  methods[1].method = "Pay";
  methods[1].fallback = &never;
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 2;
  open_with_fallback(f);
  trip(f);
  struct unary pay;
  unary_run(f, &pay);
  struct unary add;
  unary_init_with(f, &add, &(struct unary_options){.method = OTHER_METHOD});
  unary_start(f, &add);
  answer_and_drain(f);

  check_is_refusal(&pay, WEIR_FALLBACK_NOT_ASKED);
  assert_int_equal(add.status, GRPC_STATUS_OK);
  unary_fini(&pay);
  unary_fini(&add);
}

static void a_call_in_several_batches_never_asks(void **state) {
  struct fixture *f = *state;
  f->fallback_options.on_failure = true;
  open_with_fallback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  for (size_t i = 0; i < 3; i++) { /* the third is refused */
    struct batched_call *call = batches_new(f);
    (void)batched_call_start(call, OPS(SEND_METADATA, RECV_STATUS));
    drain(f);
    assert_int_equal(call->status, GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(batched_call_report(call).fallback_result, WEIR_FALLBACK_NOT_ASKED);
    batched_call_release(call);
  }
  assert_int_equal(f->fallback.n_started, 0);
}

static void an_attempt_that_took_too_long_is_asked_about(void **state) {
  struct fixture *f = *state;
  f->method.per_attempt_timeout_ns = MS(50);
  open_on_failure(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  run_until(f, T0 + MS(50));
  answer_and_drain(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(unary_report(&unary).raw_code, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(unary_report(&unary).deadline_bound, WEIR_DEADLINE_BOUND_ATTEMPT);
  unary_fini(&unary);
}

static void a_call_whose_time_is_up_is_not_asked_about(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(50)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.done_at_ns, T0 + MS(50));
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_LOCAL_DEADLINE);
  assert_int_equal(unary_report(&unary).blames, WEIR_BLAME_SERVER);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_NOT_ASKED);
  unary_fini(&unary);
}

static void a_call_that_was_never_to_be_in_time_is_not_asked_about(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = INT64_MIN});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_DEADLINE_EXCEEDED);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_NOT_ASKED);
  unary_fini(&unary);
}

static void a_call_that_was_cancelled_is_not_asked_about(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  scripted_transport_always(&f->transport, MS(5), answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  f->clock.now_ns += MS(5);
  scripted_transport_happen(&f->transport); /* its end has come, and nobody has taken it */
  weir_call_cancel(unary.call, NULL);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_NOT_ASKED);
  assert_int_equal(f->fallback.n_started, 0);
  unary_fini(&unary);
}

/* --- what the layers see --- */

static void the_breaker_counts_the_failure_and_not_the_answer(void **state) {
  struct fixture *f = *state;
  f->fallback_options.on_failure = true;
  open_with_fallback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  for (size_t i = 0; i < 4; i++) {
    struct unary unary;
    unary_init(f, &unary);
    unary_start(f, &unary);
    run_until(f, f->clock.now_ns);
    if (i == 0) { /* before the answer is there */
      assert_int_equal(fixture_breaker(f).n_failures, 1);
    }
    answer_and_drain(f);
    assert_int_equal(unary.status, GRPC_STATUS_OK);
    unary_fini(&unary);
  }

  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  assert_int_equal(fixture_breaker(f).n_trips, 1);
  assert_int_equal(fixture_breaker(f).n_refused, 2);
  assert_int_equal(counters_of(f).n_fallback_hits, 4);
}

/* A probe's place is free while its fallback blocks. */
static void a_probe_that_failed_opens_the_breaker_before_the_fallback_answers(void **state) {
  struct fixture *f = *state;
  f->fallback_options.on_failure = true;
  open_with_fallback(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  f->fallback.found = WEIR_FALLBACK_FOUND_NOTHING;
  struct unary unaries[3];
  for (size_t i = 0; i < 2; i++) {
    unary_init(f, &unaries[i]);
    unary_start(f, &unaries[i]);
    run_until(f, f->clock.now_ns);
    answer_and_drain(f);
  }
  f->clock.now_ns += SECONDS(10);
  unary_init(f, &unaries[2]);
  unary_start(f, &unaries[2]);
  run_until(f, f->clock.now_ns);

  assert_int_equal(unaries[2].n_done, 0);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  assert_int_equal(fixture_breaker(f).n_trips, 2);
  answer_and_drain(f);
  for (size_t i = 0; i < 3; i++) {
    unary_fini(&unaries[i]);
  }
}

static void it_is_asked_once_after_the_last_attempt(void **state) {
  struct fixture *f = *state;
  f->has_fallback = true;
  f->fallback_options.on_failure = true;
  fixture_open_raw(f); /* 4 attempts */
  scripted_transport_always(&f->transport, MS(10), answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  run_until(f, T0 + MS(740));
  assert_int_equal(f->transport.n_sent, 4);
  assert_int_equal(f->fallback.n_started, 1);
  f->clock.now_ns += MS(30);
  answer_and_drain(f);

  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(report.n_attempts, 4);
  assert_int_equal(report.reason, WEIR_REASON_ATTEMPTS_EXHAUSTED);
  assert_int_equal(report.attempts_ns, MS(40));
  assert_int_equal(report.backoff_ns, MS(700));
  assert_int_equal(report.fallback_ns, MS(30));
  assert_int_equal(report.queued_ns, 0);
  check_times(&report);
  unary_fini(&unary);
}

/* The breaker opens while a call waits for its retry: that one has failed, and was not refused. */
static void a_retry_that_the_breaker_stops_is_a_failure(void **state) {
  struct fixture *f = *state;
  struct weir_method_options methods[2] = {f->method, WEIR_METHOD_OPTIONS_INIT};
  methods[1].service = "shop.Cart";
  methods[1].method = "Add"; /* without retries */
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 2;
  f->has_fallback = true;
  f->fallback_options.on_refusal = false;
  f->fallback_options.on_failure = true;
  f->breaker.min_requests = 1;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  struct unary waiting;
  unary_init(f, &waiting);
  unary_start(f, &waiting);
  run_until(f, T0 + MS(10));
  struct unary failing;
  unary_init_with(f, &failing, &(struct unary_options){.method = OTHER_METHOD});
  unary_start(f, &failing);
  run_until(f, T0 + MS(50));
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  scripted_fallback_run(&f->fallback);
  run_until(f, T0 + MS(100));
  answer_and_drain(f);

  assert_int_equal(f->transport.n_sent, 2);
  assert_int_equal(waiting.status, GRPC_STATUS_OK);
  assert_int_equal(unary_report(&waiting).reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(unary_report(&waiting).origin, WEIR_ORIGIN_PEER);
  assert_int_equal(unary_report(&waiting).backoff_ns, MS(100));
  unary_fini(&waiting);
  unary_fini(&failing);
}

/* --- time --- */

static void a_slow_fallback_is_waited_for_as_long_as_the_policy_says(void **state) {
  struct fixture *f = *state;
  f->fallback_options.timeout_ns = MS(40);
  open_with_fallback(f);
  trip(f);
  int64_t began_at_ns = f->clock.now_ns;
  struct unary unary;
  start_refused(f, &unary);
  run_until_idle(f);

  check_is_refusal(&unary, WEIR_FALLBACK_TIMED_OUT);
  assert_int_equal(unary.done_at_ns, began_at_ns + MS(40));
  assert_int_equal(unary_report(&unary).fallback_ns, MS(40));
  assert_int_equal(unary_report(&unary).total_ns, MS(40));
  unary_fini(&unary);
  scripted_fallback_run(&f->fallback); /* what is late is thrown away */
  run_until_idle(f);
  assert_int_equal(counters_of(f).n_fallback_timeouts, 1);
  assert_int_equal(counters_of(f).n_fallback_late, 1);
  assert_int_equal(counters_of(f).n_fallback_hits, 0);
}

static void the_call_ends_before_its_deadline_with_its_failure(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  scripted_transport_always(&f->transport, MS(5), answer_unavailable);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(30)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_true(unary.done_at_ns < T0 + MS(30));
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&unary).origin, WEIR_ORIGIN_PEER);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_TIMED_OUT);
  scripted_fallback_run(&f->fallback);
  assert_int_equal(f->fallback.request.deadline_at_ns, unary.done_at_ns);
  assert_int_equal(f->fallback.request.timeout_ns, f->fallback.request.deadline_at_ns - T0 - MS(5));
  unary_fini(&unary);
}

static void without_any_limit_a_call_waits_until_there_is_an_answer(void **state) {
  struct fixture *f = *state;
  f->deadline.default_timeout_ns = WEIR_NO_LIMIT_NS;
  f->deadline.max_timeout_ns = WEIR_NO_LIMIT_NS;
  f->fallback_options.timeout_ns = WEIR_NO_LIMIT_NS;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  run_until(f, f->clock.now_ns + SECONDS(100000));
  assert_int_equal(unary.n_done, 0);
  answer_and_drain(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void a_call_that_has_no_time_left_fails_at_once(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  scripted_transport_always(&f->transport, MS(30) - 1, answer_unavailable);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + MS(30)});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.done_at_ns, T0 + MS(30) - 1);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_NOT_ASKED);
  assert_int_equal(f->fallback.n_started, 0);
  unary_fini(&unary);
}

/* Nobody drains: the answer lies there, and the call ends when somebody does. */
static void an_answer_in_time_counts_however_late_it_is_taken(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  scripted_fallback_run(&f->fallback);
  f->clock.now_ns += SECONDS(5);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(unary_report(&unary).fallback_ns, SECONDS(5));
  unary_fini(&unary);
}

static void what_nobody_drained_after_the_time_was_up_is_no_wait_for_the_fallback(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  f->clock.now_ns += SECONDS(5);
  run_until_idle(f);

  struct weir_call_report report = unary_report(&unary);
  check_is_refusal(&unary, WEIR_FALLBACK_TIMED_OUT);
  assert_int_equal(report.fallback_ns, MS(100));
  assert_int_equal(report.queued_ns, SECONDS(5) - MS(100));
  unary_fini(&unary);
  scripted_fallback_run(&f->fallback);
}

/* --- how many at once --- */

static void beyond_the_limit_calls_fail_without_asking(void **state) {
  struct fixture *f = *state;
  f->fallback_options.max_concurrent = 3;
  open_with_fallback(f);
  trip(f);
  struct unary asking[3];
  struct unary busy;
  for (size_t i = 0; i < 3; i++) {
    start_refused(f, &asking[i]);
  }
  unary_init(f, &busy);
  unary_start(f, &busy);
  run_until(f, f->clock.now_ns);
  check_is_refusal(&busy, WEIR_FALLBACK_BUSY);
  assert_int_equal(counters_of(f).n_fallback_busy, 1);
  unary_fini(&busy);
  scripted_fallback_run_all(&f->fallback);
  run_until_idle(f);
  for (size_t i = 0; i < 3; i++) {
    unary_fini(&asking[i]);
  }
}

/* The place is the fallback's, not the call's. */
static void one_that_is_stuck_keeps_its_place_and_nothing_else(void **state) {
  struct fixture *f = *state;
  f->fallback_options.max_concurrent = 2;
  open_with_fallback(f);
  trip(f);
  struct unary stuck;
  start_refused(f, &stuck);
  run_until_idle(f); /* times out */
  unary_fini(&stuck);
  for (size_t i = 0; i < 10; i++) { /* one place is left, and it comes back each time */
    struct unary unary;
    start_refused(f, &unary);
    scripted_fallback_run_nth(&f->fallback, 1);
    run_until_idle(f);
    assert_int_equal(unary.status, GRPC_STATUS_OK);
    unary_fini(&unary);
  }
  assert_int_equal(f->fallback.n_questions, 1);
  scripted_fallback_run(&f->fallback);
}

/* A method's limit is on how many of the channel's run when one of its calls asks. */
static void a_methods_limit_leaves_places_to_others(void **state) {
  struct fixture *f = *state;
  struct weir_fallback_options modest = WEIR_FALLBACK_OPTIONS_INIT;
  struct weir_method_options methods[2] = {f->method, WEIR_METHOD_OPTIONS_INIT};
  f->fallback_options.max_concurrent = 2;
  modest.max_concurrent = 1;
  methods[0].retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  methods[1].service = "shop.Cart";
  methods[1].method = "Add";
  methods[1].fallback = &modest;
  f->policy_options.methods = methods;
  f->policy_options.n_methods = 2;
  open_with_fallback(f);
  trip(f);
  struct unary first;
  start_refused(f, &first);
  struct unary add;
  unary_init_with(f, &add, &(struct unary_options){.method = OTHER_METHOD});
  unary_start(f, &add);
  struct unary second;
  unary_init(f, &second);
  unary_start(f, &second);
  answer_and_drain(f);

  check_is_refusal(&add, WEIR_FALLBACK_BUSY);
  assert_int_equal(first.status, GRPC_STATUS_OK);
  assert_int_equal(second.status, GRPC_STATUS_OK);
  unary_fini(&first);
  unary_fini(&add);
  unary_fini(&second);
}

static void without_a_thread_the_call_fails_as_it_would(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  f->fallback.has_no_thread = true;
  for (size_t i = 0; i < 100; i++) { /* places come back */
    struct unary unary;
    unary_run(f, &unary);
    check_is_refusal(&unary, WEIR_FALLBACK_NO_RESOURCES);
    unary_fini(&unary);
  }
  assert_int_equal(counters_of(f).n_fallback_no_resources, 100);
  f->fallback.has_no_thread = false;
  struct unary unary;
  start_refused(f, &unary);
  answer_and_drain(f);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void without_memory_the_call_fails_as_it_would(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  unary_init(f, &unary);
  counting_allocator_fail_nth(&f->allocator, 1);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(f->allocator.n_failed, 1);
  check_is_refusal(&unary, WEIR_FALLBACK_NO_RESOURCES);
  unary_fini(&unary);
}

/* --- what ends the wait --- */

static void a_cancellation_ends_the_wait_at_once(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  struct unary unary;
  start_failed(f, &unary);
  run_until(f, T0 + MS(20));
  weir_call_cancel_with_status(unary.call, GRPC_STATUS_ABORTED, "enough", NULL);
  run_until(f, T0 + MS(20));

  struct weir_call_report report = unary_report(&unary);
  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.done_at_ns, T0 + MS(20));
  assert_int_equal(unary.status, GRPC_STATUS_ABORTED);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_CANCEL);
  assert_int_equal(report.reason, WEIR_REASON_CANCELLED);
  assert_int_equal(report.fallback_result, WEIR_FALLBACK_CANCELLED);
  assert_int_equal(report.fallback_ns, MS(15));
  check_times(&report);
  unary_fini(&unary);
  scripted_fallback_run(&f->fallback);
  run_until_idle(f);
  assert_int_equal(counters_of(f).n_fallback_abandoned, 1);
  assert_int_equal(counters_of(f).n_fallback_late, 1);
}

static void a_cancellation_that_comes_after_the_answer_changes_nothing(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  scripted_fallback_run(&f->fallback);
  weir_call_cancel(unary.call, NULL);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_true(unary_reply_is(&unary, "cached"));
  unary_fini(&unary);
}

/* The clock is read by whoever has taken the call from its wait, and has not ended it yet. */
static int64_t answer_meanwhile(void *context) {
  struct fixture *f = context;
  if (f->fallback.n_questions > 0) {
    scripted_fallback_run(&f->fallback);
  }
  return f->clock.now_ns;
}

static void an_answer_that_comes_while_the_call_is_being_cancelled_is_too_late(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  f->clock.base.now_ns = answer_meanwhile;
  f->clock.base.context = f;
  weir_call_cancel(unary.call, NULL);
  assert_int_equal(f->fallback.n_asked, 1);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_CANCELLED);
  assert_int_equal(counters_of(f).n_fallback_late, 1);
  unary_fini(&unary);
}

static void a_call_that_is_let_go_ends_at_once(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  weir_call_unref(unary.call);
  unary.call = NULL;
  run_until(f, f->clock.now_ns);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  unary_fini(&unary);
  scripted_fallback_run(&f->fallback);
}

static void the_parents_cancellation_ends_the_wait_at_once(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.parent = parent});
  unary_start(f, &unary);
  run_until(f, f->clock.now_ns);
  assert_int_equal(unary.n_done, 0);
  scripted_transport_cancel_parent(&f->transport, parent);
  run_until(f, f->clock.now_ns);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_CANCELLED);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_CANCELLED);
  unary_fini(&unary);
  scripted_fallback_run(&f->fallback);
  run_until_idle(f);
  f->transport.base.call_unref(&f->transport, parent);
}

static void an_answer_ends_a_call_that_has_a_parent(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  grpc_call *parent = scripted_transport_parent(&f->transport);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.parent = parent});
  unary_start(f, &unary);
  answer_and_drain(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
  f->transport.base.call_unref(&f->transport, parent);
}

static void shutdown_of_the_queue_ends_the_wait_with_the_failure(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  int64_t began_at_ns = f->clock.now_ns;
  struct unary unary;
  start_refused(f, &unary);
  weir_completion_queue_shutdown(f->queue);
  run_until_idle(f);

  assert_true(f->saw_shutdown);
  assert_int_equal(f->clock.now_ns, began_at_ns);
  check_is_refusal(&unary, WEIR_FALLBACK_SHUTDOWN);
  unary_fini(&unary);
  fixture_close_queue(f);
  scripted_fallback_run(&f->fallback); /* the queue is gone */
}

static void after_shutdown_of_the_queue_nothing_is_asked(void **state) {
  struct fixture *f = *state;
  open_on_failure(f);
  scripted_transport_always(&f->transport, MS(5), answer_unavailable);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  weir_completion_queue_shutdown(f->queue);
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&unary).fallback_result, WEIR_FALLBACK_NOT_ASKED);
  unary_fini(&unary);
}

static void a_call_outlives_its_channel(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  weir_channel_destroy(f->channel);
  f->channel = NULL;
  assert_int_equal(f->fallback.n_released, 0);
  answer_and_drain(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_string_equal(unary_report(&unary).fallback_source, "cache");
  assert_int_equal(f->fallback.n_released, 0);
  unary_fini(&unary);
  assert_int_equal(f->fallback.n_released, 1);
}

/* --- the life of a fallback --- */

static void a_fallback_is_released_after_the_last_that_asks_it(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  trip(f);
  struct unary unary;
  start_refused(f, &unary);
  run_until_idle(f); /* times out */
  unary_fini(&unary);
  weir_channel_destroy(f->channel);
  f->channel = NULL;
  fixture_close_queue(f);
  assert_int_equal(f->fallback.n_released, 0);
  scripted_fallback_run(&f->fallback);
  assert_int_equal(f->fallback.n_released, 1);
}

static void each_channel_releases_it_once(void **state) {
  struct fixture *f = *state;
  open_with_fallback(f);
  weir_channel *other = fixture_make_channel(f, FIXTURE_TARGET);
  weir_channel_destroy(other);
  assert_int_equal(f->fallback.n_released, 1);
  weir_channel_destroy(f->channel);
  f->channel = NULL;
  assert_int_equal(f->fallback.n_released, 2);
}

static void where_no_channel_is_made_it_stays_the_applications(void **state) {
  struct fixture *f = *state;
  f->has_fallback = true;
  assert_int_equal(fixture_make_policy(f), WEIR_OK);
  for (size_t nth = 1;; nth++) {
    counting_allocator_fail_nth(&f->allocator, nth);
    weir_channel *channel = fixture_make_channel(f, FIXTURE_TARGET);
    if (channel != NULL) {
      assert_true(nth > 5);
      assert_int_equal(f->fallback.n_released, 0);
      f->allocator.fails_at = 0;
      weir_channel_destroy(channel);
      break;
    }
    assert_int_equal(f->fallback.n_released, 0);
  }
  assert_int_equal(f->fallback.n_released, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_refused_call_gets_what_the_fallback_finds),
      TEST(a_failed_call_gets_what_the_fallback_finds),
      TEST(nothing_of_the_failure_is_left_beside_a_hit),
      TEST(the_log_is_told_what_happened_and_what_stood_in),
      TEST(without_a_boundary_a_hit_is_the_same_and_nothing_is_logged),
      TEST(a_marked_empty_message_is_a_hit),
      TEST(a_fallback_may_answer_with_the_request_itself),
      TEST(initial_metadata_that_are_asked_for_apart_are_none),
      TEST(a_miss_leaves_the_failure_as_it_is),
      TEST(a_miss_leaves_the_peers_words_where_there_is_no_boundary),
      TEST(what_is_no_answer_is_a_miss_that_is_told_apart),
      TEST(a_source_has_up_to_63_bytes_and_a_message_up_to_the_limit),
      TEST(the_fallback_is_told_what_was_asked_and_how_it_failed),
      TEST(a_refusal_can_be_told_from_a_failure),
      TEST(a_large_request_is_there_unless_it_was_sent),
      TEST(it_is_asked_where_server_or_network_are_to_blame),
      TEST(a_failure_is_not_asked_about_unless_the_policy_says_so),
      TEST(a_refusal_is_not_asked_about_if_the_policy_says_so),
      TEST(a_method_may_do_without),
      TEST(a_call_in_several_batches_never_asks),
      TEST(an_attempt_that_took_too_long_is_asked_about),
      TEST(a_call_whose_time_is_up_is_not_asked_about),
      TEST(a_call_that_was_never_to_be_in_time_is_not_asked_about),
      TEST(a_call_that_was_cancelled_is_not_asked_about),
      TEST(the_breaker_counts_the_failure_and_not_the_answer),
      TEST(a_probe_that_failed_opens_the_breaker_before_the_fallback_answers),
      TEST(it_is_asked_once_after_the_last_attempt),
      TEST(a_retry_that_the_breaker_stops_is_a_failure),
      TEST(a_slow_fallback_is_waited_for_as_long_as_the_policy_says),
      TEST(the_call_ends_before_its_deadline_with_its_failure),
      TEST(without_any_limit_a_call_waits_until_there_is_an_answer),
      TEST(a_call_that_has_no_time_left_fails_at_once),
      TEST(an_answer_in_time_counts_however_late_it_is_taken),
      TEST(what_nobody_drained_after_the_time_was_up_is_no_wait_for_the_fallback),
      TEST(beyond_the_limit_calls_fail_without_asking),
      TEST(one_that_is_stuck_keeps_its_place_and_nothing_else),
      TEST(a_methods_limit_leaves_places_to_others),
      TEST(without_a_thread_the_call_fails_as_it_would),
      TEST(without_memory_the_call_fails_as_it_would),
      TEST(a_cancellation_ends_the_wait_at_once),
      TEST(a_cancellation_that_comes_after_the_answer_changes_nothing),
      TEST(an_answer_that_comes_while_the_call_is_being_cancelled_is_too_late),
      TEST(a_call_that_is_let_go_ends_at_once),
      TEST(the_parents_cancellation_ends_the_wait_at_once),
      TEST(an_answer_ends_a_call_that_has_a_parent),
      TEST(shutdown_of_the_queue_ends_the_wait_with_the_failure),
      TEST(after_shutdown_of_the_queue_nothing_is_asked),
      TEST(a_call_outlives_its_channel),
      TEST(a_fallback_is_released_after_the_last_that_asks_it),
      TEST(each_channel_releases_it_once),
      TEST(where_no_channel_is_made_it_stays_the_applications),
  };
  return cmocka_run_group_tests_name("fallback", tests, NULL, NULL);
}
