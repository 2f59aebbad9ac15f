/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "test/stack/stack_fixture.h"

#define SECRET "pg: password=hunter2 at 10.0.0.7"

static void no_retries(struct fixture *f) {
  f->method.retry = (struct weir_retry_policy)WEIR_RETRY_POLICY_NONE;
  f->breaker.enabled = false;
}

/* --- codes and words --- */

struct code_row {
  int raw;
  grpc_status_code visible;
  const char *message;
};

static const struct code_row code_rows[] = {
    {1, GRPC_STATUS_INTERNAL, "downstream service error"},
    {2, GRPC_STATUS_UNKNOWN, "downstream service: UNKNOWN"},
    {3, GRPC_STATUS_INTERNAL, "downstream service error"},
    {4, GRPC_STATUS_UNAVAILABLE, "downstream service: UNAVAILABLE"},
    {5, GRPC_STATUS_NOT_FOUND, "downstream service: NOT_FOUND"},
    {6, GRPC_STATUS_ALREADY_EXISTS, "downstream service: ALREADY_EXISTS"},
    {7, GRPC_STATUS_INTERNAL, "downstream service error"},
    {8, GRPC_STATUS_RESOURCE_EXHAUSTED, "downstream service: RESOURCE_EXHAUSTED"},
    {9, GRPC_STATUS_INTERNAL, "downstream service error"},
    {10, GRPC_STATUS_ABORTED, "downstream service: ABORTED"},
    {11, GRPC_STATUS_INTERNAL, "downstream service error"},
    {12, GRPC_STATUS_INTERNAL, "downstream service error"},
    {13, GRPC_STATUS_INTERNAL, "downstream service error"},
    {14, GRPC_STATUS_UNAVAILABLE, "downstream service: UNAVAILABLE"},
    {15, GRPC_STATUS_DATA_LOSS, "downstream service: DATA_LOSS"},
    {16, GRPC_STATUS_INTERNAL, "downstream service error"},
    {17, GRPC_STATUS_UNKNOWN, "downstream service: UNKNOWN"},
    {999, GRPC_STATUS_UNKNOWN, "downstream service: UNKNOWN"},
    {-1, GRPC_STATUS_UNKNOWN, "downstream service: UNKNOWN"},
};

static void each_code_becomes_what_the_table_says_in_weirs_words(void **state) {
  struct fixture *f = *state;
  no_retries(f);
  f->translation.message_ref = false;
  fixture_open(f);
  for (size_t i = 0; i < sizeof code_rows / sizeof code_rows[0]; i++) {
    const struct code_row *row = &code_rows[i];
    const struct wire_answer answer = {
        .what = WIRE_TRAILERS_ONLY, .status = row->raw, .text = SECRET};
    scripted_transport_always(&f->transport, 0, answer);
    struct unary unary;
    unary_run(f, &unary);
    if (unary.status != row->visible || !unary_details_are(&unary, row->message)) {
      fail_msg("%d became %d", row->raw, (int)unary.status);
    }
    assert_false(unary_can_see(&unary, "hunter2"));
    assert_int_equal(unary_report(&unary).do_not_retry, row->raw == 4);
    unary_fini(&unary);
  }
}

static void success_passes_whole(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND},
                 {AT_MS(1), REPLY("bar"), WITH_INITIAL("x-a", "1"), WITH_TRAILING("x-b", "2")}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.initial_metadata.count, 1);
  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_true(unary_reply_is(&unary, "bar"));
  assert_int_equal(f->log.n_records, 0);
  unary_fini(&unary);
}

/* --- nothing that the downstream wrote --- */

static void no_byte_of_the_downstreams_reaches_the_caller(void **state) {
  struct fixture *f = *state;
  no_retries(f);
  fixture_open(f);
  const struct wire_answer answer = {
      .what = WIRE_MESSAGE_THEN,
      .status = GRPC_STATUS_INTERNAL,
      .text = SECRET,
      .body = SECRET,
      .initial = {{"x-served-by", SECRET}},
      .trailing = {{"grpc-status-details-bin", SECRET}, {"x-debug-stack", SECRET}}};
  scripted_transport_always(&f->transport, 0, answer);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_INTERNAL);
  assert_false(unary_can_see(&unary, "hunter2"));
  assert_false(unary_can_see(&unary, "10.0.0.7")); /* the core's words about the peer */
  assert_int_equal(unary.initial_metadata.count, 0);
  assert_int_equal(unary.trailing_metadata.count, 0);
  assert_null(unary.reply);
  assert_non_null(unary.error_string);
  unary_fini(&unary);
}

static void kept_keys_pass_a_boundary(void **state) {
  static const char *const keys[] = {"x-quota"};
  struct fixture *f = *state;
  no_retries(f);
  f->translation.keep_metadata = keys;
  f->translation.n_keep_metadata = 1;
  fixture_open(f);
  const struct wire_answer answer = {.what = WIRE_TRAILERS,
                                     .status = GRPC_STATUS_RESOURCE_EXHAUSTED,
                                     .text = SECRET,
                                     .initial = {{"x-quota", "9"}, {"x-other", SECRET}},
                                     .trailing = {{"x-other", SECRET}, {"x-quota", "10"}}};
  scripted_transport_always(&f->transport, 0, answer);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_int_equal(grpc_slice_str_cmp(unary.trailing_metadata.metadata[0].key, "x-quota"), 0);
  assert_int_equal(grpc_slice_str_cmp(unary.trailing_metadata.metadata[0].value, "10"), 0);
  assert_int_equal(unary.initial_metadata.count, 1);
  assert_false(unary_can_see(&unary, "hunter2"));
  unary_fini(&unary);
}

/* --- the reference, and the log --- */

/* A google.rpc.Status by hand: code, message, and two details of which the policy knows one. */
#define RETRY_INFO_URL "type.googleapis.com/google.rpc.RetryInfo"
#define DEBUG_INFO_URL "type.googleapis.com/google.rpc.DebugInfo"
#define RETRY_INFO "\x1a\x30\x0a\x28" RETRY_INFO_URL "\x12\x04\x0a\x02\x08\x03"
#define DEBUG_INFO "\x1a\x33\x0a\x28" DEBUG_INFO_URL "\x12\x07hunter2"

static void kept_details_pass_in_a_status_made_anew(void **state) {
  static const char *const names[] = {"google.rpc.RetryInfo"};
  static const char rebuilt[] = "\x08\x0d\x12\x18"
                                "downstream service error" RETRY_INFO;
  struct fixture *f = *state;
  no_retries(f);
  f->translation.message_ref = false;
  f->translation.keep_details = names;
  f->translation.n_keep_details = 1;
  fixture_open(f);
  const struct wire_answer answer = {
      .what = WIRE_TRAILERS,
      .status = GRPC_STATUS_INVALID_ARGUMENT,
      .text = SECRET,
      .trailing = {{"grpc-status-details-bin", "\x08\x03\x12\x07hunter2" DEBUG_INFO RETRY_INFO}}};
  scripted_transport_always(&f->transport, 0, answer);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_INTERNAL);
  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_int_equal(
      grpc_slice_str_cmp(unary.trailing_metadata.metadata[0].key, "grpc-status-details-bin"), 0);
  assert_int_equal(grpc_slice_str_cmp(unary.trailing_metadata.metadata[0].value, rebuilt), 0);
  assert_false(unary_can_see(&unary, "hunter2"));
  unary_fini(&unary);
}

static void details_without_a_kept_type_are_dropped(void **state) {
  static const char *const names[] = {"google.rpc.QuotaFailure"};
  static const char *const details[] = {"\x08\x03\x12\x07hunter2" RETRY_INFO, "hunter2", "\xff"};
  struct fixture *f = *state;
  no_retries(f);
  f->translation.keep_details = names;
  f->translation.n_keep_details = 1;
  fixture_open(f);
  for (size_t i = 0; i < sizeof details / sizeof details[0]; i++) {
    const struct wire_answer answer = {.what = WIRE_TRAILERS,
                                       .status = GRPC_STATUS_INVALID_ARGUMENT,
                                       .text = SECRET,
                                       .trailing = {{"grpc-status-details-bin", details[i]}}};
    scripted_transport_always(&f->transport, 0, answer);
    struct unary unary;
    unary_run(f, &unary);

    assert_int_equal(unary.trailing_metadata.count, 0);
    unary_fini(&unary);
  }
}

static void a_method_may_have_a_translation_of_its_own(void **state) {
  struct weir_translation_options own = WEIR_TRANSLATION_OPTIONS_INIT;
  struct fixture *f = *state;
  no_retries(f);
  own.codes[GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_UNKNOWN;
  f->method.translation = &own;
  f->translation.codes[GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_ABORTED;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_not_found);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_UNKNOWN);
  unary_fini(&unary);
}

static void the_truth_goes_to_the_log_once_under_the_reference(void **state) {
  struct fixture *f = *state;
  f->breaker.enabled = false;
  seeded_random_init_constant(&f->random, UINT64_C(0x80000123456789ab));
  fixture_open(f);
  const struct wire_answer answer = {.what = WIRE_TRAILERS_ONLY,
                                     .status = GRPC_STATUS_PERMISSION_DENIED,
                                     .text = SECRET,
                                     .trailing = {{"grpc-status-details-bin", "detail"}}};
  scripted_transport_always(&f->transport, MS(7), answer);
  struct unary unary;
  unary_run(f, &unary);

  assert_true(unary_details_are(&unary, "downstream service error [ref 0123456789ab]"));
  assert_string_equal(unary_report(&unary).reference, "0123456789ab");
  assert_int_equal(f->log.n_records, 1);
  const struct recorded_failure *record = &f->log.records[0];
  assert_string_equal(record->reference, "0123456789ab");
  assert_string_equal(record->message, SECRET);
  assert_string_equal(record->details, "detail");
  assert_non_null(strstr(record->error_string, "hunter2"));
  assert_non_null(strstr(record->peer, "10.0.0.7"));
  assert_string_equal(record->path, METHOD);
  assert_int_equal(record->numbers.raw_code, GRPC_STATUS_PERMISSION_DENIED);
  assert_int_equal(record->numbers.code, GRPC_STATUS_INTERNAL);
  assert_int_equal(record->numbers.reason, WEIR_REASON_NOT_RETRYABLE);
  assert_int_equal(record->numbers.n_attempts, 1);
  assert_int_equal(record->numbers.duration_ns, MS(7));
  assert_int_equal(record->numbers.event, WEIR_LOG_CALL_FAILED);
  assert_string_equal(record->text, "");
  unary_fini(&unary);
}

static int64_t wall_now_ns(void) {
  gpr_timespec now = gpr_now(GPR_CLOCK_REALTIME);
  return now.tv_sec * WEIR_SECOND_NS + now.tv_nsec;
}

static void a_record_names_the_trace_of_the_request_that_is_served(void **state) {
  static const char traceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  struct fixture *f = *state;
  no_retries(f);
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_not_found);
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  entry.key = grpc_slice_from_static_string("traceparent");
  entry.value = grpc_slice_from_static_string(traceparent);
  const grpc_metadata_array metadata = {.count = 1, .capacity = 1, .metadata = &entry};
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  weir_inbound *inbound = NULL;
  options.allocator = &f->allocator.base;
  assert_int_equal(weir_inbound_new(NULL, &metadata, NULL, &options, &inbound), WEIR_OK);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(f->log.n_records, 1);
  assert_string_equal(f->log.records[0].trace, traceparent);
  unary_fini(&unary);
}

static void a_record_says_when_it_was_by_both_clocks(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, MS(7), answer_unavailable);
  int64_t before_ns = wall_now_ns();
  run_calls(f, 1);

  assert_int_equal(f->log.n_records, 1);
  assert_int_equal(f->log.records[0].numbers.at_ns, f->clock.now_ns);
  assert_in_range(f->log.records[0].numbers.time_unix_ns, before_ns, wall_now_ns());
}

static void a_call_of_many_attempts_is_logged_once(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  run_calls(f, 1);

  assert_int_equal(f->transport.n_sent, 4);
  assert_int_equal(f->log.n_records, 1);
  assert_int_equal(f->log.records[0].numbers.n_attempts, 4);
}

/* --- the raw outcome is what breaker and retry see --- */

static void retry_and_breaker_see_the_raw_code(void **state) {
  struct fixture *f = *state;
  f->translation.codes[GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_INTERNAL;
  f->translation.codes[GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_UNAVAILABLE;
  f->breaker.min_requests = 1;
  f->breaker.failure_ratio = 1.0;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_not_found);
  struct unary unary;
  unary_run(f, &unary);
  assert_int_equal(unary.status, GRPC_STATUS_UNAVAILABLE);
  assert_int_equal(unary_report(&unary).raw_code, GRPC_STATUS_NOT_FOUND);
  assert_int_equal(f->transport.n_sent, 1);
  assert_int_equal(fixture_breaker(f).n_failures, 0);
  unary_fini(&unary);

  f->clock.now_ns += SECONDS(120); /* an empty window */
  scripted_transport_always(&f->transport, 0, answer_unavailable);
  unary_run(f, &unary);
  assert_int_equal(unary.status, GRPC_STATUS_INTERNAL);
  assert_int_equal(f->transport.n_sent, 1 + 4);
  assert_int_equal(fixture_breaker(f).state, WEIR_BREAKER_OPEN);
  unary_fini(&unary);
}

/* --- whose deadline --- */

struct deadline_row {
  const char *why;
  int64_t parent_ns; /* 0 = the root of a chain */
  int64_t call_ns;
  int64_t peer_after_ns;
  grpc_status_code visible;
  bool is_the_peers;
};

static const struct deadline_row deadline_rows[] = {
    {"the root's own", 0, MS(50), 0, GRPC_STATUS_DEADLINE_EXCEEDED, false},
    {"the caller's time is up", MS(50), MS(80), 0, GRPC_STATUS_DEADLINE_EXCEEDED, false},
    {"this service's own, nearer than the caller's", MS(80), MS(50), 0, GRPC_STATUS_UNAVAILABLE,
     false},
    {"the peer's own, at the root", 0, MS(50), MS(5), GRPC_STATUS_UNAVAILABLE, true},
    {"the peer's own, while serving", MS(50), 0, MS(5), GRPC_STATUS_UNAVAILABLE, true},
    {"the peer's, as near as makes no odds to the root's", 0, MS(50), MS(40),
     GRPC_STATUS_DEADLINE_EXCEEDED, true},
    {"the peer's, a moment too early for that", 0, MS(50), MS(40) - 1, GRPC_STATUS_UNAVAILABLE,
     true},
};

static void check_deadline_row(const struct deadline_row *row) {
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  struct fixture *f = state;
  no_retries(f);
  fixture_open(f);
  if (row->is_the_peers) {
    play(f,
         SCRIPT({AT_MS(0), EXPECT_SEND},
                {AT_NS(row->peer_after_ns), TRAILERS_ONLY(GRPC_STATUS_DEADLINE_EXCEEDED, SECRET)}));
  } else {
    play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  }
  weir_inbound *inbound =
      row->parent_ns != 0 ? fixture_inbound(f, T0 + row->parent_ns, NULL, NULL) : NULL;
  struct unary unary;
  unary_init_with(
      f, &unary,
      &(struct unary_options){.deadline_at_ns = row->call_ns != 0 ? T0 + row->call_ns : 0,
                              .inbound = inbound});
  weir_inbound_release(inbound);
  unary_start(f, &unary);
  run_until_idle(f);
  if (unary.status != row->visible ||
      unary_report(&unary).do_not_retry != (row->visible == GRPC_STATUS_UNAVAILABLE)) {
    fail_msg("%s: %d", row->why, (int)unary.status);
  }
  assert_false(unary_can_see(&unary, "hunter2"));
  unary_fini(&unary);
  assert_int_equal(fixture_teardown(&state), 0);
}

static void deadline_exceeded_tells_the_caller_of_his_own_time_only(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof deadline_rows / sizeof deadline_rows[0]; i++) {
    check_deadline_row(&deadline_rows[i]);
  }
}

static void a_time_that_was_up_at_the_start_is_told_by_the_same_rule(void **state) {
  static const struct {
    int64_t parent_ns; /* 0 = the root of a chain */
    int64_t call_ns;
    grpc_status_code visible;
  } rows[] = {
      {0, -1, GRPC_STATUS_DEADLINE_EXCEEDED},
      {-1, MS(50), GRPC_STATUS_DEADLINE_EXCEEDED},
      {-1, -1, GRPC_STATUS_DEADLINE_EXCEEDED},
      {MS(50), -1, GRPC_STATUS_UNAVAILABLE}, /* his time is not up */
  };
  struct fixture *f = *state;
  fixture_open(f);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    weir_inbound *inbound =
        rows[i].parent_ns != 0 ? fixture_inbound(f, T0 + rows[i].parent_ns, NULL, NULL) : NULL;
    struct unary unary;
    unary_init_with(
        f, &unary,
        &(struct unary_options){.deadline_at_ns = T0 + rows[i].call_ns, .inbound = inbound});
    weir_inbound_release(inbound);
    unary_start(f, &unary);
    run_until_idle(f);

    assert_int_equal(unary.status, rows[i].visible);
    struct weir_call_report report = unary_report(&unary);
    assert_int_equal(report.do_not_retry, rows[i].visible == GRPC_STATUS_UNAVAILABLE);
    assert_int_equal(report.raw_code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(report.n_attempts, 0);
    assert_int_equal(f->log.n_records, i + 1);
    unary_fini(&unary);
  }
}

static void the_policy_may_say_what_a_deadline_becomes(void **state) {
  struct fixture *f = *state;
  no_retries(f);
  f->translation.deadline_exceeded_as = GRPC_STATUS_INTERNAL;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}));
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_INTERNAL);
  unary_fini(&unary);
}

/* --- no boundary --- */

static void without_a_boundary_everything_passes(void **state) {
  struct fixture *f = *state;
  no_retries(f);
  f->translation.boundary = false;
  fixture_open(f);
  const struct wire_answer answer = {.what = WIRE_MESSAGE_THEN,
                                     .status = GRPC_STATUS_INVALID_ARGUMENT,
                                     .text = SECRET,
                                     .body = "bar",
                                     .initial = {{"x-a", "1"}},
                                     .trailing = {{"grpc-status-details-bin", "detail"}}};
  scripted_transport_always(&f->transport, 0, answer);
  struct unary unary;
  unary_run(f, &unary);

  assert_int_equal(unary.status, GRPC_STATUS_INVALID_ARGUMENT);
  assert_true(unary_details_are(&unary, SECRET));
  assert_true(unary_reply_is(&unary, "bar"));
  assert_int_equal(unary.initial_metadata.count, 1);
  assert_int_equal(unary.trailing_metadata.count, 1);
  assert_non_null(strstr(unary.error_string, "hunter2"));
  assert_int_equal(f->log.n_records, 0);
  unary_fini(&unary);
}

/* A message of `size` bytes, of which the last are `end`. */
static const char *long_message(char *message, size_t size, const char *end) {
  memset(message, 'a', size);
  memcpy(message + size - strlen(end), end, strlen(end) + 1);
  return message;
}

static void a_long_message_is_cut_between_two_characters(void **state) {
  static const struct {
    const char *why;
    size_t size;
    const char *end;
    size_t cut_size; /* of the message that is seen, its mark included */
  } rows[] = {
      {"the limit still fits", 1024, "b", 1024},
      {"one byte more", 1025, "b", 1024},
      {"a character of four bytes across what fits", 1025, "\xf0\x9f\x98\x80zz", 1022},
      {"one that ends where it ends", 1025, "\xf0\x9f\x98\x80zzzz", 1024},
      {"bytes that are no characters", 1025, "\x80\x80\x80\x80\x80\x80\x80\x80", 1024},
      {"a very long one", 7000, "b", 1024},
  };
  struct fixture *f = *state;
  char message[7001];
  no_retries(f);
  fixture_open_raw(f);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct wire_answer answer = {.what = WIRE_TRAILERS,
                                       .status = GRPC_STATUS_NOT_FOUND,
                                       .text = long_message(message, rows[i].size, rows[i].end)};
    scripted_transport_always(&f->transport, 0, answer);
    struct unary unary;
    unary_run(f, &unary);

    const size_t size = GRPC_SLICE_LENGTH(unary.details);
    const char *seen = (const char *)GRPC_SLICE_START_PTR(unary.details);
    assert_int_equal(unary.status, GRPC_STATUS_NOT_FOUND);
    if (size != rows[i].cut_size) {
      fail_msg("%s: %zu bytes", rows[i].why, size);
    }
    const size_t mark = size < rows[i].size ? 3 : 0;
    assert_memory_equal(seen, message, size - mark);
    assert_memory_equal(seen + size - mark, "\xe2\x80\xa6", mark);
    unary_fini(&unary);
  }
}

static void what_weir_ends_itself_has_an_error_string_too(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0});
  unary_start(f, &unary);
  run_until_idle(f);

  assert_true(unary_details_are(&unary, "the deadline is past"));
  assert_non_null(unary.error_string); /* as from the core, whenever the status is not OK */
  unary_fini(&unary);
}

/* --- what is received is appended, as the core does --- */

static void metadata_is_appended_to_what_the_application_has(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("bar"), WITH_TRAILING("x-b", "2")},
                 {AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("bar"), WITH_TRAILING("x-b", "3")}));
  struct unary first;
  struct unary second;
  unary_run(f, &first);
  unary_init(f, &second);
  second.trailing_metadata = first.trailing_metadata;
  grpc_metadata_array_init(&first.trailing_metadata);
  unary_start(f, &second);
  run_until_idle(f);

  assert_int_equal(second.trailing_metadata.count, 2);
  assert_int_equal(grpc_slice_str_cmp(second.trailing_metadata.metadata[0].value, "2"), 0);
  assert_int_equal(grpc_slice_str_cmp(second.trailing_metadata.metadata[1].value, "3"), 0);
  unary_fini(&second);
  unary_fini(&first);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(each_code_becomes_what_the_table_says_in_weirs_words),
      TEST(success_passes_whole),
      TEST(no_byte_of_the_downstreams_reaches_the_caller),
      TEST(kept_keys_pass_a_boundary),
      TEST(kept_details_pass_in_a_status_made_anew),
      TEST(details_without_a_kept_type_are_dropped),
      TEST(a_method_may_have_a_translation_of_its_own),
      TEST(the_truth_goes_to_the_log_once_under_the_reference),
      TEST(a_record_names_the_trace_of_the_request_that_is_served),
      TEST(a_record_says_when_it_was_by_both_clocks),
      TEST(a_call_of_many_attempts_is_logged_once),
      TEST(retry_and_breaker_see_the_raw_code),
      cmocka_unit_test(deadline_exceeded_tells_the_caller_of_his_own_time_only),
      TEST(a_time_that_was_up_at_the_start_is_told_by_the_same_rule),
      TEST(the_policy_may_say_what_a_deadline_becomes),
      TEST(without_a_boundary_everything_passes),
      TEST(a_long_message_is_cut_between_two_characters),
      TEST(what_weir_ends_itself_has_an_error_string_too),
      TEST(metadata_is_appended_to_what_the_application_has),
  };
  return cmocka_run_group_tests_name("translation", tests, NULL, NULL);
}
