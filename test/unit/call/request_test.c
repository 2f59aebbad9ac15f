/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "src/call/headers.h"
#include "src/call/request.h"
#include "src/call/retry_owner.h"
#include "test/support/counting_allocator.h"

#define MAX_SLICES 40

/* A unary call's batch, whose message has `n_slices` slices of `slice_bytes` bytes. */
struct fixture {
  struct counting_allocator counting;
  grpc_op ops[2];
  struct weir__batch batch;
  struct weir__request request;
  struct weir__replay_budget budget;
  struct weir_retry_options options;
};

static int setup(void **state) {
  static struct fixture fixture;
  grpc_init();
  memset(&fixture, 0, sizeof fixture);
  counting_allocator_init(&fixture.counting);
  fixture.options.replay_bytes = UINT32_MAX;
  fixture.options.channel_replay_bytes = 1024 * 1024;
  *state = &fixture;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  weir__request_fini(&f->request, &f->budget, &f->counting.base);
  assert_int_equal(f->counting.n_outstanding, 0);
  assert_int_equal(f->budget.n_bytes, 0);
  grpc_byte_buffer_destroy(f->ops[1].data.send_message.send_message);
  grpc_shutdown();
  return 0;
}

/* Takes the message over. */
static void read_request(struct fixture *f, grpc_byte_buffer *message) {
  f->ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  f->ops[1].op = GRPC_OP_SEND_MESSAGE;
  f->ops[1].data.send_message.send_message = message;
  assert_int_equal(weir__batch_read(f->ops, 2, 0, &f->batch), GRPC_CALL_OK);
  weir__request_init(&f->request, &f->batch);
}

static grpc_byte_buffer *message_of(size_t n_slices, size_t slice_bytes) {
  grpc_slice slices[MAX_SLICES];
  assert_true(n_slices <= MAX_SLICES);
  for (size_t i = 0; i < n_slices; i++) {
    slices[i] = grpc_slice_malloc(slice_bytes);
    memset(GRPC_SLICE_START_PTR(slices[i]), (int)('a' + i), slice_bytes);
  }
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, n_slices);
  for (size_t i = 0; i < n_slices; i++) {
    grpc_slice_unref(slices[i]);
  }
  return message;
}

static void assert_message(grpc_byte_buffer *message, grpc_slice expected) {
  grpc_byte_buffer_reader reader;
  assert_non_null(message);
  assert_int_equal(grpc_byte_buffer_reader_init(&reader, message), 1);
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  assert_int_equal(grpc_slice_eq(all, expected), 1);
  grpc_slice_unref(all);
  grpc_byte_buffer_reader_destroy(&reader);
}

static grpc_slice bytes_of(grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  assert_int_equal(grpc_byte_buffer_reader_init(&reader, message), 1);
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  return all;
}

/* --- the message --- */

static void a_message_is_replayed_as_often_as_asked(void **state) {
  struct fixture *f = *state;
  static const struct {
    const char *why;
    size_t n_slices;
    size_t slice_bytes;
    bool allocates;
  } rows[] = {
      {"no slice", 0, 0, false},
      {"one, inlined", 1, 5, false},
      {"one", 1, 1000, false},
      {"as many as are kept in place", WEIR__REQUEST_INLINE_SLICES, 300, false},
      {"one more", WEIR__REQUEST_INLINE_SLICES + 1, 300, true},
      {"many", MAX_SLICES, 100, true},
      {"many, inlined", MAX_SLICES, 3, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    grpc_byte_buffer *message = message_of(rows[i].n_slices, rows[i].slice_bytes);
    grpc_slice expected = bytes_of(message);
    read_request(f, message);
    assert_int_equal(grpc_byte_buffer_length(f->request.message), GRPC_SLICE_LENGTH(expected));

    weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);
    if (!f->request.kept || (f->counting.n_outstanding > 0) != rows[i].allocates) {
      fail_msg("%s", rows[i].why);
    }
    grpc_byte_buffer_destroy(message); /* as empty as the core leaves it */
    f->ops[1].data.send_message.send_message = NULL;
    for (int j = 0; j < 3; j++) {
      grpc_byte_buffer *replay = weir__request_replay_message(&f->request);
      assert_message(replay, expected);
      grpc_byte_buffer_destroy(replay);
    }
    grpc_slice_unref(expected);
    weir__request_fini(&f->request, &f->budget, &f->counting.base);
    assert_int_equal(f->counting.n_outstanding, 0);
  }
}

static void static_bytes_are_replayed_from_where_they_are(void **state) {
  struct fixture *f = *state;
  static const char text[] = "a text that is long enough not to be held by the slice itself";
  grpc_slice slice = grpc_slice_from_static_string(text);
  read_request(f, grpc_raw_byte_buffer_create(&slice, 1));
  weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);

  assert_true(f->request.kept);
  assert_ptr_equal(GRPC_SLICE_START_PTR(f->request.slices[0]), (const void *)text);
  grpc_byte_buffer *replay = weir__request_replay_message(&f->request);
  assert_message(replay, slice);
  grpc_byte_buffer_destroy(replay);
}

static void bytes_are_shared_and_not_copied(void **state) {
  struct fixture *f = *state;
  grpc_byte_buffer *message = message_of(1, 100000);
  read_request(f, message);
  weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);

  assert_ptr_equal(GRPC_SLICE_START_PTR(f->request.slices[0]),
                   GRPC_SLICE_START_PTR(message->data.raw.slice_buffer.slices[0]));
}

static void the_limit_itself_still_fits(void **state) {
  struct fixture *f = *state;
  static const struct {
    const char *why;
    uint32_t max_bytes;
    bool kept;
  } rows[] = {
      {"one byte under", 1001, true},
      {"exactly", 1000, true},
      {"one byte over", 999, false},
      {"nothing may be kept", 0, false},
  };
  read_request(f, message_of(4, 250));
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    f->options.replay_bytes = rows[i].max_bytes;
    weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);
    if (f->request.kept != rows[i].kept) {
      fail_msg("%s", rows[i].why);
    }
    grpc_byte_buffer *replay = weir__request_replay_message(&f->request);
    assert_int_equal(replay != NULL, rows[i].kept);
    grpc_byte_buffer_destroy(replay);
    weir__request_fini(&f->request, &f->budget, &f->counting.base);
  }
}

static void the_channels_limit_binds_too_and_itself_still_fits(void **state) {
  struct fixture *f = *state;
  read_request(f, message_of(4, 250));
  f->options.channel_replay_bytes = 1500;
  f->budget.n_bytes = 501; /* other calls */
  weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);
  assert_false(f->request.kept);
  assert_int_equal(f->budget.n_bytes, 501);
  assert_int_equal(f->budget.n_overflows, 1);

  f->budget.n_bytes = 500;
  weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);
  assert_true(f->request.kept);
  assert_int_equal(f->budget.n_bytes, 1500);
  weir__request_fini(&f->request, &f->budget, &f->counting.base);
  assert_int_equal(f->budget.n_bytes, 500);
  f->budget.n_bytes = 0;
}

static void an_empty_message_fits_any_limit(void **state) {
  struct fixture *f = *state;
  read_request(f, message_of(0, 0));
  f->options.replay_bytes = 0;
  weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);

  grpc_byte_buffer *replay = weir__request_replay_message(&f->request);
  assert_message(replay, grpc_empty_slice());
  grpc_byte_buffer_destroy(replay);
}

static void the_compression_is_replayed_with_the_bytes(void **state) {
  struct fixture *f = *state;
  grpc_slice slice = grpc_slice_from_static_string("says that it is compressed");
  read_request(f, grpc_raw_compressed_byte_buffer_create(&slice, 1, GRPC_COMPRESS_GZIP));
  weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);

  grpc_byte_buffer *replay = weir__request_replay_message(&f->request);
  assert_int_equal(replay->data.raw.compression, GRPC_COMPRESS_GZIP);
  grpc_byte_buffer_destroy(replay);
}

static void without_memory_nothing_is_kept(void **state) {
  struct fixture *f = *state;
  read_request(f, message_of(MAX_SLICES, 10));
  f->counting.n_allowed = 0;
  weir__request_keep(&f->request, &f->options, &f->budget, &f->counting.base);

  assert_false(f->request.kept);
  assert_null(weir__request_replay_message(&f->request));
}

/* --- the metadata --- */

static grpc_metadata entry(const char *key, const char *value) {
  grpc_metadata metadata;
  memset(&metadata, 0, sizeof metadata);
  metadata.key = grpc_slice_from_static_string(key);
  metadata.value = grpc_slice_from_static_string(value);
  return metadata;
}

/* How often `key` is there, and whether each has `value`. */
static size_t count_of(const struct weir__merged_metadata *merged, const char *key,
                       const char *value) {
  size_t count = 0;
  for (size_t i = 0; i < merged->count; i++) {
    if (grpc_slice_str_cmp(merged->entries[i].key, key) == 0) {
      assert_int_equal(grpc_slice_str_cmp(merged->entries[i].value, value), 0);
      count++;
    }
  }
  return count;
}

static const struct weir__request_headers no_headers = {
    .budget_ns = WEIR_NO_LIMIT_NS, .retry_owner = NULL, .n_previous = 0};
static const struct weir__request_headers all_headers = {.budget_ns = INT64_C(1234567899),
                                                         .retry_owner = "orders",
                                                         .n_previous = 3,
                                                         .tells_timeout = true};

static void what_the_call_has_not_is_not_said(void **state) {
  struct fixture *f = *state;
  struct weir__merged_metadata merged;
  assert_int_equal(weir__merged_metadata_init(&merged, NULL, 0, &no_headers, &f->counting.base),
                   WEIR_OK);
  assert_int_equal(merged.count, 0);
  weir__merged_metadata_fini(&merged, &f->counting.base);
}

static void the_application_s_metadata_keeps_its_order_before_weir_s(void **state) {
  struct fixture *f = *state;
  static const struct {
    size_t n_metadata;
    bool allocates;
  } rows[] = {{0, false},
              {1, false},
              {20, false},
              {WEIR__INLINE_METADATA - WEIR__N_HEADERS, false},
              {WEIR__INLINE_METADATA - WEIR__N_HEADERS + 1, true},
              {500, true}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir__merged_metadata merged;
    static grpc_metadata metadata[500];
    static char keys[500][24];
    for (size_t j = 0; j < rows[i].n_metadata; j++) {
      (void)snprintf(keys[j], sizeof keys[j], "key%zu", j);
      metadata[j] = entry(keys[j], "value");
    }
    assert_int_equal(weir__merged_metadata_init(&merged, metadata, rows[i].n_metadata, &all_headers,
                                                &f->counting.base),
                     WEIR_OK);
    assert_int_equal(f->counting.n_outstanding > 0, rows[i].allocates);
    assert_int_equal(merged.count, rows[i].n_metadata + WEIR__N_HEADERS);
    for (size_t j = 0; j < rows[i].n_metadata; j++) {
      assert_int_equal(grpc_slice_str_cmp(merged.entries[j].key, keys[j]), 0);
    }
    assert_int_equal(count_of(&merged, WEIR__HEADER_BUDGET, "1234567"), 1);
    assert_int_equal(count_of(&merged, WEIR__HEADER_RETRY_OWNER, "orders"), 1);
    assert_int_equal(count_of(&merged, WEIR__HEADER_PREVIOUS_ATTEMPTS, "3"), 1);
    weir__merged_metadata_fini(&merged, &f->counting.base);
    assert_int_equal(f->counting.n_outstanding, 0);
  }
}

static void weir_s_words_replace_the_application_s(void **state) {
  struct fixture *f = *state;
  const grpc_metadata metadata[] = {
      entry(WEIR__HEADER_BUDGET, "99"),           entry(WEIR__HEADER_BUDGET, "98"),
      entry(WEIR__HEADER_RETRY_OWNER, "mine"),    entry(WEIR__HEADER_PREVIOUS_ATTEMPTS, "7"),
      entry("weir-budget-uz", "of another name"), entry("grpc-previous-rpc-attemptz", "so too"),
  };
  struct weir__merged_metadata merged;
  assert_int_equal(
      weir__merged_metadata_init(&merged, metadata, 6, &all_headers, &f->counting.base), WEIR_OK);
  assert_int_equal(merged.count, 6);
  assert_int_equal(count_of(&merged, WEIR__HEADER_BUDGET, "1234567"), 1);
  assert_int_equal(count_of(&merged, WEIR__HEADER_RETRY_OWNER, "orders"), 1);
  assert_int_equal(count_of(&merged, WEIR__HEADER_PREVIOUS_ATTEMPTS, "3"), 1);
  weir__merged_metadata_fini(&merged, &f->counting.base);

  /* A marker that is passed on by hand stays where weir has none. A count of attempts is the
   * engine's alone. */
  assert_int_equal(weir__merged_metadata_init(&merged, metadata, 6, &no_headers, &f->counting.base),
                   WEIR_OK);
  assert_int_equal(merged.count, 3);
  assert_int_equal(count_of(&merged, WEIR__HEADER_RETRY_OWNER, "mine"), 1);
  weir__merged_metadata_fini(&merged, &f->counting.base);
}

/* As gRPC's wire format has it: eight digits at most, and rounded up. */
static void the_timeout_is_told_in_milliseconds_while_they_fit(void **state) {
  struct fixture *f = *state;
  static const struct {
    const char *why;
    int64_t budget_ns;
    const char *said;
  } rows[] = {
      {"less than one", 1, "2m"},
      {"a whole number", 60 * INT64_C(1000000000), "60001m"},
      {"a part of one", 60 * INT64_C(1000000000) + 1, "60002m"},
      {"the most that fit", INT64_C(99999998000000), "99999999m"},
      {"more than fit", INT64_C(99999998000001), "100000S"},
      {"all but for ever", INT64_MAX - 1, "99999999S"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir__request_headers headers = all_headers;
    headers.budget_ns = rows[i].budget_ns;
    struct weir__merged_metadata merged;
    assert_int_equal(weir__merged_metadata_init(&merged, NULL, 0, &headers, &f->counting.base),
                     WEIR_OK);
    if (count_of(&merged, WEIR__HEADER_TIMEOUT, rows[i].said) != 1) {
      fail_msg("%s", rows[i].why);
    }
    weir__merged_metadata_fini(&merged, &f->counting.base);
  }
}

static void what_has_no_end_tells_no_timeout(void **state) {
  struct fixture *f = *state;
  struct weir__request_headers headers = all_headers;
  headers.budget_ns = WEIR_NO_LIMIT_NS;
  struct weir__merged_metadata merged;
  assert_int_equal(weir__merged_metadata_init(&merged, NULL, 0, &headers, &f->counting.base),
                   WEIR_OK);
  assert_int_equal(merged.count, WEIR__N_HEADERS - 2);
  weir__merged_metadata_fini(&merged, &f->counting.base);
}

/* Who is said to own the retries, of all who may. */
static void one_marker_is_sent_and_only_as_weir_writes_it(void **state) {
  struct fixture *f = *state;
  static const char long_name[] = "a-name-of-a-policy-that-no-slice-holds-by-itself.63_bytes_long";
  static char huge[10 * 1024 + 1];
  memset(huge, 'x', sizeof huge - 1);
  static const struct {
    const char *why;
    const char *own;
    const char *outer;   /* of the request being served */
    const char *by_hand; /* in the application's metadata; twice, the second "second" */
    bool yields;
    const char *sent;
  } rows[] = {
      {"nobody", NULL, NULL, NULL, true, NULL},
      {"this layer", "own", NULL, NULL, true, "own"},
      {"the request's", NULL, "outer", NULL, true, "outer"},
      {"this layer beside the request's", "own", "outer", NULL, false, "own"},
      {"the application's", NULL, NULL, "hand", true, "hand"},
      {"the application's before the request's", NULL, "outer", "hand", true, "hand"},
      {"the application's before this layer's", "own", NULL, "hand", true, "hand"},
      {"this layer's, which does not yield", "own", "outer", "hand", false, "own"},
      {"the application's, where this layer has none to say", NULL, NULL, "hand", false, "hand"},
      {"of several of the application's, the first name", NULL, NULL, "a b", true, "second"},
      {"empty", NULL, NULL, "", true, "second"},
      {"huge", NULL, NULL, huge, true, "second"},
      {"a long name", NULL, NULL, long_name, true, long_name},
      {"a long name of its own", long_name, NULL, NULL, true, long_name},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    bool by_hand = rows[i].by_hand != NULL;
    const grpc_metadata metadata[] = {
        entry(WEIR__HEADER_RETRY_OWNER, by_hand ? rows[i].by_hand : ""),
        entry(WEIR__HEADER_RETRY_OWNER, "second")};
    struct weir__request_headers headers = no_headers;
    headers.retry_owner = rows[i].own;
    headers.outer_retry_owner = rows[i].outer;
    headers.yields = rows[i].yields;
    struct weir__merged_metadata merged;
    assert_int_equal(
        weir__merged_metadata_init(&merged, metadata, by_hand ? 2 : 0, &headers, &f->counting.base),
        WEIR_OK);
    if (merged.count != (rows[i].sent != NULL) ||
        (merged.count == 1 && grpc_slice_str_cmp(merged.entries[0].value, rows[i].sent) != 0)) {
      fail_msg("%s", rows[i].why);
    }
    weir__merged_metadata_fini(&merged, &f->counting.base);
  }
}

static void a_marker_that_is_no_name_goes_on_as_one_of_nobody_known(void **state) {
  struct fixture *f = *state;
  static const char *const markers[] = {"", "a b", "a\nb", "\xc3\xa9", "a/b"};
  for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) {
    const grpc_metadata metadata[] = {entry(WEIR__HEADER_RETRY_OWNER, markers[i])};
    struct weir__merged_metadata merged;
    assert_int_equal(
        weir__merged_metadata_init(&merged, metadata, 1, &no_headers, &f->counting.base), WEIR_OK);
    assert_int_equal(merged.count, 1);
    assert_int_equal(count_of(&merged, WEIR__HEADER_RETRY_OWNER, "upstream"), 1);
    weir__merged_metadata_fini(&merged, &f->counting.base);
  }
}

/* The core may still be writing what a call has sent when the call, and whatever held the name, is
 * gone. */
static void what_weir_says_is_held_by_the_slices_themselves(void **state) {
  struct fixture *f = *state;
  static const char *const names[] = {
      "short", "a-name-of-23-bytes-long", "a-name-of-24-bytes-long.",
      "a-name-of-a-policy-that-no-slice-holds-by-itself.63_bytes_long"};
  const struct grpc_slice_refcount *unowned = grpc_slice_from_static_buffer("", 0).refcount;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct weir__request_headers headers = all_headers;
    char name[WEIR__RETRY_OWNER_BYTES];
    (void)snprintf(name, sizeof name, "%s", names[i]);
    headers.retry_owner = name;
    struct weir__merged_metadata merged;
    assert_int_equal(weir__merged_metadata_init(&merged, NULL, 0, &headers, &f->counting.base),
                     WEIR_OK);
    memset(name, 'x', sizeof name);
    assert_int_equal(merged.count, WEIR__N_HEADERS);
    assert_int_equal(count_of(&merged, WEIR__HEADER_RETRY_OWNER, names[i]), 1);
    for (size_t j = 0; j < merged.count; j++) {
      assert_ptr_not_equal(merged.entries[j].value.refcount, unowned);
    }
    weir__merged_metadata_fini(&merged, &f->counting.base);
  }
}

static void budgets_are_said_in_whole_microseconds_rounded_down(void **state) {
  struct fixture *f = *state;
  static const struct {
    int64_t budget_ns;
    const char *text;
  } rows[] = {{0, "0"}, {999, "0"}, {1000, "1"}, {INT64_MAX - 1, "9223372036854775"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct weir__merged_metadata merged;
    struct weir__request_headers headers = no_headers;
    headers.budget_ns = rows[i].budget_ns;
    assert_int_equal(weir__merged_metadata_init(&merged, NULL, 0, &headers, &f->counting.base),
                     WEIR_OK);
    assert_int_equal(count_of(&merged, WEIR__HEADER_BUDGET, rows[i].text), 1);
    weir__merged_metadata_fini(&merged, &f->counting.base);
  }
}

static void without_memory_for_much_metadata_it_says_so(void **state) {
  struct fixture *f = *state;
  struct weir__merged_metadata merged;
  static grpc_metadata metadata[WEIR__INLINE_METADATA];
  f->counting.n_allowed = 0;
  assert_int_equal(weir__merged_metadata_init(&merged, metadata, WEIR__INLINE_METADATA, &no_headers,
                                              &f->counting.base),
                   WEIR_ERROR_NO_MEMORY);
  weir__merged_metadata_fini(&merged, &f->counting.base);
}

static void the_application_s_word_on_waiting_wins(void **state) {
  (void)state;
  const uint32_t wait = GRPC_INITIAL_METADATA_WAIT_FOR_READY;
  const uint32_t said = GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
  const struct {
    const char *why;
    uint32_t flags;
    enum weir_wait_for_ready policy;
    uint32_t result;
  } rows[] = {
      {"nobody says anything", 0, WEIR_WAIT_FOR_READY_UNSET, 0},
      {"the policy says wait", 0, WEIR_WAIT_FOR_READY_TRUE, wait | said},
      {"the policy says don't", 0, WEIR_WAIT_FOR_READY_FALSE, said},
      {"the application says don't", said, WEIR_WAIT_FOR_READY_TRUE, said},
      {"the application says wait", wait | said, WEIR_WAIT_FOR_READY_FALSE, wait | said},
      {"it says so with one flag", wait, WEIR_WAIT_FOR_READY_FALSE, wait},
      {"other flags stay", GRPC_WRITE_THROUGH, WEIR_WAIT_FOR_READY_TRUE,
       GRPC_WRITE_THROUGH | wait | said},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (weir__request_metadata_flags(rows[i].flags, rows[i].policy) != rows[i].result) {
      fail_msg("%s", rows[i].why);
    }
  }
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      CLAIM(a_message_is_replayed_as_often_as_asked),
      CLAIM(static_bytes_are_replayed_from_where_they_are),
      CLAIM(bytes_are_shared_and_not_copied),
      CLAIM(the_limit_itself_still_fits),
      CLAIM(the_channels_limit_binds_too_and_itself_still_fits),
      CLAIM(an_empty_message_fits_any_limit),
      CLAIM(the_compression_is_replayed_with_the_bytes),
      CLAIM(without_memory_nothing_is_kept),
      CLAIM(what_the_call_has_not_is_not_said),
      CLAIM(the_application_s_metadata_keeps_its_order_before_weir_s),
      CLAIM(weir_s_words_replace_the_application_s),
      CLAIM(the_timeout_is_told_in_milliseconds_while_they_fit),
      CLAIM(what_has_no_end_tells_no_timeout),
      CLAIM(one_marker_is_sent_and_only_as_weir_writes_it),
      CLAIM(a_marker_that_is_no_name_goes_on_as_one_of_nobody_known),
      CLAIM(what_weir_says_is_held_by_the_slices_themselves),
      CLAIM(budgets_are_said_in_whole_microseconds_rounded_down),
      CLAIM(without_memory_for_much_metadata_it_says_so),
      CLAIM(the_application_s_word_on_waiting_wins),
  };
  return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
