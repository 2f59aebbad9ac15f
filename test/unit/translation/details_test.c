/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include "interceptors/translation/details.h"
#include "test/support/counting_allocator.h"
#include "test/support/proto_writer.h"

#define URL "type.googleapis.com/"
#define MESSAGE "downstream service error [ref 0123456789ab]"
#define SECRET "hunter2"

static const char *const names[] = {"google.rpc.RetryInfo", "shop.v1.Quota"};
#define N_NAMES (sizeof names / sizeof names[0])

/* --- rebuilding --- */

/* From an exact copy, so that a sanitizer sees a read past the end. */
static bool rebuild_with(const struct weir_allocator *allocator, const void *bytes, size_t size,
                         grpc_slice *out) {
  char *copy = malloc(size > 0 ? size : 1);
  assert_non_null(copy);
  if (size > 0) {
    memcpy(copy, bytes, size);
  }
  bool kept = weir__translation_details(names, N_NAMES, GRPC_STATUS_INTERNAL, MESSAGE,
                                        sizeof MESSAGE - 1, copy, size, allocator, out);
  free(copy);
  assert_true(kept || GRPC_SLICE_LENGTH(*out) == 0);
  assert_true(GRPC_SLICE_LENGTH(*out) <= WEIR__DETAILS_BYTES);
  return kept;
}

static bool rebuild(const void *bytes, size_t size, grpc_slice *out) {
  struct counting_allocator counting;
  counting_allocator_init(&counting);
  bool kept = rebuild_with(&counting.base, bytes, size, out);
  assert_int_equal(counting.n_outstanding, 0);
  return kept;
}

static bool slice_is(grpc_slice slice, const struct proto_writer *bytes) {
  const size_t size = GRPC_SLICE_LENGTH(slice);
  return size == bytes->size &&
         (size == 0 || memcmp(GRPC_SLICE_START_PTR(slice), bytes->bytes, size) == 0);
}

/* What every rebuilt message begins with. */
static void write_head(struct proto_writer *writer) {
  proto_write_number(writer, 1, GRPC_STATUS_INTERNAL);
  proto_write_text(writer, 2, MESSAGE);
}

/* What was rebuilt is as if it had been sent so: again, and nothing changes. */
static void check_is_canonical(grpc_slice rebuilt) {
  grpc_slice again;
  assert_true(rebuild(GRPC_SLICE_START_PTR(rebuilt), GRPC_SLICE_LENGTH(rebuilt), &again));
  assert_true(grpc_slice_eq(rebuilt, again));
  grpc_slice_unref(again);
}

/* --- what is kept --- */

typedef void write_fn(struct proto_writer *writer);

static void kept_alone(struct proto_writer *writer) {
  proto_write_detail(writer, URL "google.rpc.RetryInfo", "\x0a\x02\x08\x05", 4);
}

static void send_one(struct proto_writer *writer) {
  proto_write_number(writer, 1, 7);
  proto_write_text(writer, 2, "password=" SECRET);
  kept_alone(writer);
}

static void send_among_others(struct proto_writer *writer) {
  proto_write_detail(writer, URL "google.rpc.DebugInfo", SECRET, 7);
  send_one(writer);
  proto_write_detail(writer, URL "google.rpc.RetryInfoMore", SECRET, 7);
  proto_write_detail(writer, URL "google.rpc.RetryInf", SECRET, 7);
  proto_write_detail(writer, URL "rpc.RetryInfo", SECRET, 7);
  proto_write_detail(writer, URL "my.google.rpc.RetryInfo", SECRET, 7);
  proto_write_detail(writer, URL "google.rpc.retryinfo", SECRET, 7);
}

static void send_with_odd_prefixes(struct proto_writer *writer) {
  proto_write_detail(writer, "https://" SECRET ".internal/x/y/google.rpc.RetryInfo", "1", 1);
  proto_write_detail(writer, "/shop.v1.Quota", "2", 1);
  proto_write_detail(writer, "//google.rpc.RetryInfo", "3", 1);
  proto_write_detail(writer, "google.rpc.RetryInfo", SECRET, 7); /* no '/': names no type */
  proto_write_detail(writer, URL "google.rpc.RetryInfo/", SECRET, 7);
  proto_write_detail(writer, URL, SECRET, 7);
  proto_write_detail(writer, "/", SECRET, 7);
  proto_write_detail(writer, "", SECRET, 7);
}

static void keep_with_canonical_prefixes(struct proto_writer *writer) {
  proto_write_detail(writer, URL "google.rpc.RetryInfo", "1", 1);
  proto_write_detail(writer, URL "shop.v1.Quota", "2", 1);
  proto_write_detail(writer, URL "google.rpc.RetryInfo", "3", 1);
}

static void send_in_an_order(struct proto_writer *writer) {
  proto_write_detail(writer, URL "shop.v1.Quota", "b", 1);
  proto_write_detail(writer, URL "google.rpc.RetryInfo", "", 0);
  proto_write_detail(writer, URL "google.rpc.DebugInfo", SECRET, 7);
  proto_write_detail(writer, URL "shop.v1.Quota", "a", 1);
  proto_write_detail(writer, URL "shop.v1.Quota", "b", 1);
}

static void keep_in_the_order(struct proto_writer *writer) {
  proto_write_detail(writer, URL "shop.v1.Quota", "b", 1);
  proto_write_detail(writer, URL "google.rpc.RetryInfo", "", 0);
  proto_write_detail(writer, URL "shop.v1.Quota", "a", 1);
  proto_write_detail(writer, URL "shop.v1.Quota", "b", 1);
}

static void send_unknown_fields(struct proto_writer *writer) {
  struct proto_writer any = {NULL, 0, 0};
  proto_write_text(&any, 9, SECRET);
  proto_write_text(&any, 1, URL "google.rpc.RetryInfo");
  proto_write_number(&any, 2, 7); /* the value's number, of another kind */
  proto_write_bytes(&any, 2, "\x0a\x02\x08\x05", 4);
  proto_write_text(&any, 3, SECRET);
  proto_write_text(writer, 4, SECRET);
  proto_write_text(writer, 1, SECRET);            /* the code's number, of another kind */
  proto_write_raw(writer, "\x2b\x30\x01\x2c", 4); /* a group */
  proto_write_raw(writer,
                  "\x3d"
                  "abcd",
                  5); /* four bytes */
  proto_write_raw(writer,
                  "\x41"
                  "abcdefgh",
                  9); /* eight */
  proto_write_bytes(writer, 3, any.bytes, any.size);
  proto_write_text(writer, 536870911, SECRET);
  proto_writer_fini(&any);
}

static void send_fields_twice(struct proto_writer *writer) {
  struct proto_writer any = {NULL, 0, 0};
  proto_write_text(&any, 1, URL "google.rpc.DebugInfo");
  proto_write_text(&any, 2, SECRET);
  proto_write_text(&any, 1, URL "google.rpc.RetryInfo");
  proto_write_bytes(&any, 2, "\x0a\x02\x08\x05", 4);
  proto_write_number(writer, 1, 7);
  proto_write_text(writer, 2, SECRET);
  proto_write_bytes(writer, 3, any.bytes, any.size);
  proto_write_number(writer, 1, 3);
  proto_write_text(writer, 2, SECRET);
  proto_writer_fini(&any);
}

static void send_the_last_of_two_types(struct proto_writer *writer) {
  struct proto_writer any = {NULL, 0, 0};
  proto_write_text(&any, 1, URL "google.rpc.RetryInfo");
  proto_write_text(&any, 2, SECRET);
  proto_write_text(&any, 1, URL "google.rpc.DebugInfo");
  proto_write_bytes(writer, 3, any.bytes, any.size);
  proto_writer_fini(&any);
}

static void send_a_status_within(struct proto_writer *writer) {
  struct proto_writer inner = {NULL, 0, 0};
  send_one(&inner);
  proto_write_detail(writer, URL "google.rpc.Status", inner.bytes, inner.size);
  proto_writer_fini(&inner);
}

static void send_odd_codes(struct proto_writer *writer) {
  proto_write_number(writer, 1, UINT64_MAX);
  proto_write_number(writer, 1, 999);
  kept_alone(writer);
}

static void send_nuls(struct proto_writer *writer) {
  static const char type_url[] = URL "google.rpc.RetryInfo\0" SECRET;
  struct proto_writer any = {NULL, 0, 0};
  proto_write_bytes(&any, 1, type_url, sizeof type_url - 1);
  proto_write_text(&any, 2, SECRET);
  proto_write_bytes(writer, 2, "\0\0", 2);
  proto_write_bytes(writer, 3, any.bytes, any.size);
  proto_write_detail(writer, URL "shop.v1.Quota", "a\0b\0", 4);
  proto_writer_fini(&any);
}

static void keep_nuls_in_the_value(struct proto_writer *writer) {
  proto_write_detail(writer, URL "shop.v1.Quota", "a\0b\0", 4);
}

static void send_a_value_that_is_no_message(struct proto_writer *writer) {
  proto_write_detail(writer, URL "google.rpc.RetryInfo", "\xff\xff\xff", 3);
}

static const struct {
  const char *why;
  write_fn *send;
  write_fn *keep; /* NULL = nothing is kept */
} rows[] = {
    {"one of a kept type", send_one, kept_alone},
    {"names are whole, and case counts", send_among_others, kept_alone},
    {"the prefix is the peer's", send_with_odd_prefixes, keep_with_canonical_prefixes},
    {"the order is the peer's", send_in_an_order, keep_in_the_order},
    {"unknown fields", send_unknown_fields, kept_alone},
    {"the last of several fields counts", send_fields_twice, kept_alone},
    {"so it does for the type", send_the_last_of_two_types, NULL},
    {"a status in a detail is no detail", send_a_status_within, NULL},
    {"the peer's code is not looked at", send_odd_codes, kept_alone},
    {"NULs", send_nuls, keep_nuls_in_the_value},
    {"a value is not looked at", send_a_value_that_is_no_message, send_a_value_that_is_no_message},
};

static void check_row(const char *why, write_fn *send, write_fn *keep) {
  struct proto_writer sent = {NULL, 0, 0};
  struct proto_writer expected = {NULL, 0, 0};
  grpc_slice rebuilt;
  send(&sent);
  bool kept = rebuild(sent.bytes, sent.size, &rebuilt);
  if (kept) {
    check_is_canonical(rebuilt);
  }
  if (keep != NULL) {
    write_head(&expected);
    keep(&expected);
  }
  if (kept != (keep != NULL) || !slice_is(rebuilt, &expected)) {
    fail_msg("%s", why);
  }
  grpc_slice_unref(rebuilt);
  proto_writer_fini(&expected);
  proto_writer_fini(&sent);
}

static void only_named_types_are_kept_byte_for_byte(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    check_row(rows[i].why, rows[i].send, rows[i].keep);
  }
}

static void the_code_is_the_one_that_the_caller_sees(void **state) {
  (void)state;
  struct proto_writer sent = {NULL, 0, 0};
  send_one(&sent);
  for (int code = 1; code <= 16; code++) {
    struct proto_writer expected = {NULL, 0, 0};
    grpc_slice rebuilt;
    assert_true(weir__translation_details(names, N_NAMES, (grpc_status_code)code, "", 0, sent.bytes,
                                          sent.size, NULL, &rebuilt));
    proto_write_number(&expected, 1, (uint64_t)code);
    kept_alone(&expected); /* an empty message is none */
    assert_true(slice_is(rebuilt, &expected));
    grpc_slice_unref(rebuilt);
    proto_writer_fini(&expected);
  }
  proto_writer_fini(&sent);
}

static void nothing_is_kept_without_names_or_without_details(void **state) {
  (void)state;
  struct proto_writer sent = {NULL, 0, 0};
  grpc_slice rebuilt;
  send_one(&sent);
  assert_false(weir__translation_details(NULL, 0, GRPC_STATUS_INTERNAL, "", 0, sent.bytes,
                                         sent.size, NULL, &rebuilt));
  assert_int_equal(GRPC_SLICE_LENGTH(rebuilt), 0);
  assert_false(rebuild(NULL, 0, &rebuilt));
  proto_writer_fini(&sent);
}

/* --- what is no google.rpc.Status --- */

/* A message with a kept detail, and this behind it. */
static const struct {
  const char *why;
  const char *tail;
  size_t size;
} faults[] = {
#define FAULT(why, bytes) \
  { why, bytes, sizeof(bytes) - 1 }
    FAULT("a tag alone", "\x1a"),
    FAULT("a length past the end", "\x1a\x05"
                                   "abc"),
    FAULT("a length of 2^31 - 1", "\x1a\xff\xff\xff\xff\x07"),
    FAULT("a length of 2^32 - 1", "\x1a\xff\xff\xff\xff\x0f"),
    FAULT("a length of 2^64 - 1", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    FAULT("an endless number", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    FAULT("an endless tag", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    FAULT("field 0", "\x02\x00"),
    FAULT("a wire type that is none", "\x0f"),
    FAULT("a group that does not end", "\x2b"),
    FAULT("the end of a group that has not begun", "\x2c"),
    FAULT("the end of another group", "\x2b\x34"),
    FAULT("four bytes cut short", "\x3d"
                                  "abc"),
    FAULT("eight bytes cut short", "\x41"
                                   "abcdefg"),
    FAULT("a message that is not UTF-8", "\x12\x02\xc3\x28"),
    FAULT("a message that is cut in a character", "\x12\x01\xc3"),
    FAULT("a type_url that is not UTF-8", "\x1a\x04\x0a\x02/\xff"),
    FAULT("a field of a detail that is longer than the detail", "\x1a\x03\x12\x02\x00"),
#undef FAULT
};

static void what_is_no_status_is_dropped_whole(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
    struct proto_writer sent = {NULL, 0, 0};
    grpc_slice rebuilt;
    send_one(&sent);
    proto_write_raw(&sent, faults[i].tail, faults[i].size);
    if (rebuild(sent.bytes, sent.size, &rebuilt) ||
        rebuild(faults[i].tail, faults[i].size, &rebuilt)) {
      fail_msg("%s", faults[i].why);
    }
    proto_writer_fini(&sent);
  }
}

static void groups_are_followed_to_a_bounded_depth(void **state) {
  (void)state;
  for (size_t depth = 1; depth <= 100000; depth *= 10) {
    struct proto_writer sent = {NULL, 0, 0};
    grpc_slice rebuilt;
    for (size_t i = 0; i < depth; i++) {
      proto_write_raw(&sent, "\x2b", 1);
    }
    for (size_t i = 0; i < depth; i++) {
      proto_write_raw(&sent, "\x2c", 1);
    }
    send_one(&sent);
    assert_int_equal(rebuild(sent.bytes, sent.size, &rebuilt), depth < 100);
    grpc_slice_unref(rebuilt);
    proto_writer_fini(&sent);
  }
}

/* Cut between two fields it is a message with fewer of them; else it is none. */
static void a_message_cut_short_keeps_whole_details_only(void **state) {
  (void)state;
  struct proto_writer sent = {NULL, 0, 0};
  struct proto_writer expected = {NULL, 0, 0};
  proto_write_number(&sent, 1, 7);
  proto_write_text(&sent, 2, "password=" SECRET);
  write_head(&expected);
  size_t whole = sent.size;
  for (int n_whole = 0; n_whole < 3; n_whole++) {
    struct proto_writer next = {NULL, 0, 0};
    grpc_slice rebuilt;
    assert_int_equal(rebuild(sent.bytes, whole, &rebuilt), n_whole > 0);
    assert_true(n_whole == 0 || slice_is(rebuilt, &expected));
    grpc_slice_unref(rebuilt);
    kept_alone(&next);
    proto_write_raw(&sent, next.bytes, next.size);
    proto_write_raw(&expected, next.bytes, next.size);
    for (size_t size = whole + 1; size < sent.size; size++) {
      assert_false(rebuild(sent.bytes, size, &rebuilt));
    }
    whole = sent.size;
    proto_writer_fini(&next);
  }
  proto_writer_fini(&expected);
  proto_writer_fini(&sent);
}

static void any_changed_byte_leaves_a_canonical_message_or_none(void **state) {
  (void)state;
  struct proto_writer sent = {NULL, 0, 0};
  struct proto_writer head = {NULL, 0, 0};
  send_among_others(&sent);
  write_head(&head);
  for (size_t i = 0; i < sent.size; i++) {
    const char was = sent.bytes[i];
    for (int byte = 0; byte < 256; byte++) {
      grpc_slice rebuilt;
      sent.bytes[i] = (char)byte;
      if (rebuild(sent.bytes, sent.size, &rebuilt)) {
        assert_true(GRPC_SLICE_LENGTH(rebuilt) > head.size);
        assert_memory_equal(GRPC_SLICE_START_PTR(rebuilt), head.bytes, head.size);
        check_is_canonical(rebuilt);
      }
      grpc_slice_unref(rebuilt);
    }
    sent.bytes[i] = was;
  }
  proto_writer_fini(&head);
  proto_writer_fini(&sent);
}

/* --- bounds --- */

/* A message of which `size` bytes are made, and two details with half of it each. */
static void send_for_size(struct proto_writer *writer, size_t size) {
  static const char value[WEIR__DETAILS_BYTES] = {0};
  struct proto_writer empty = {NULL, 0, 0};
  write_head(&empty);
  /* the tag and length of a value of this size are 3 bytes, and the length of its Any grows by 1 */
  proto_write_detail(&empty, URL "shop.v1.Quota", value, 0);
  proto_write_detail(&empty, URL "shop.v1.Quota", value, 0);
  size_t half = (size - empty.size - 8) / 2;
  size_t rest = size - empty.size - 8 - half;
  proto_write_detail(writer, URL "shop.v1.Quota", value, half);
  proto_write_detail(writer, URL "shop.v1.Quota", value, rest);
  proto_writer_fini(&empty);
}

static void what_is_made_is_bounded_and_kept_whole_or_not_at_all(void **state) {
  (void)state;
  struct proto_writer fits = {NULL, 0, 0};
  struct proto_writer exceeds = {NULL, 0, 0};
  grpc_slice rebuilt;
  send_for_size(&fits, WEIR__DETAILS_BYTES);
  send_for_size(&exceeds, WEIR__DETAILS_BYTES + 1);

  assert_true(rebuild(fits.bytes, fits.size, &rebuilt));
  assert_int_equal(GRPC_SLICE_LENGTH(rebuilt), WEIR__DETAILS_BYTES);
  grpc_slice_unref(rebuilt);
  assert_false(rebuild(exceeds.bytes, exceeds.size, &rebuilt));

  proto_write_detail(&fits, URL "shop.v1.Quota", "", 0); /* one more, however small */
  assert_false(rebuild(fits.bytes, fits.size, &rebuilt));
  proto_writer_fini(&exceeds);
  proto_writer_fini(&fits);
}

static void what_is_read_is_bounded(void **state) {
  (void)state;
  enum { HEAD = 5 }; /* the tag and the length of a field of this size */
  char *value = calloc(1, WEIR__DETAILS_READ_BYTES);
  struct proto_writer sent = {NULL, 0, 0};
  grpc_slice rebuilt;
  assert_non_null(value);
  send_one(&sent);
  proto_write_bytes(&sent, 4, value, WEIR__DETAILS_READ_BYTES - sent.size - (HEAD - 1));
  assert_int_equal(sent.size, WEIR__DETAILS_READ_BYTES);
  assert_true(rebuild(sent.bytes, sent.size, &rebuilt));
  grpc_slice_unref(rebuilt);

  proto_write_number(&sent, 1, 3);
  assert_false(rebuild(sent.bytes, sent.size, &rebuilt));
  proto_writer_fini(&sent);
  free(value);
}

#define N_TINY 100000

/* Blocks of an arena double: their number tells whether the work grows with the size alone. */
static void a_great_many_tiny_details_cost_no_more_than_their_bytes(void **state) {
  (void)state;
  struct counting_allocator counting;
  struct proto_writer sent = {NULL, 0, 0};
  struct proto_writer expected = {NULL, 0, 0};
  grpc_slice rebuilt;
  counting_allocator_init(&counting);
  for (size_t i = 0; i < N_TINY; i++) {
    proto_write_raw(&sent, "\x1a\x00", 2);
  }
  kept_alone(&sent);
  write_head(&expected);
  kept_alone(&expected);

  assert_true(rebuild_with(&counting.base, sent.bytes, sent.size, &rebuilt));
  assert_true(slice_is(rebuilt, &expected));
  assert_true(counting.n_allocations < 30);
  assert_int_equal(counting.n_outstanding, 0);
  grpc_slice_unref(rebuilt);
  proto_writer_fini(&expected);
  proto_writer_fini(&sent);
}

static void a_great_many_kept_details_are_dropped(void **state) {
  (void)state;
  struct proto_writer sent = {NULL, 0, 0};
  grpc_slice rebuilt;
  for (size_t i = 0; i < 8000; i++) {
    proto_write_detail(&sent, "/shop.v1.Quota", "", 0);
  }
  assert_false(rebuild(sent.bytes, sent.size, &rebuilt));
  proto_writer_fini(&sent);
}

/* --- memory --- */

static void a_usual_message_needs_none_of_the_allocators_memory(void **state) {
  (void)state;
  struct counting_allocator counting;
  struct proto_writer sent = {NULL, 0, 0};
  grpc_slice rebuilt;
  counting_allocator_init(&counting);
  counting.n_allowed = 0;
  send_one(&sent);
  assert_true(rebuild_with(&counting.base, sent.bytes, sent.size, &rebuilt));
  grpc_slice_unref(rebuilt);
  proto_writer_fini(&sent);
}

/* With less and less left of the blocks before it, so that each part is the one to ask for more. */
static void running_out_of_memory_drops_the_details(void **state) {
  (void)state;
  struct proto_writer sent = {NULL, 0, 0};
  size_t most = 0;
  for (size_t n = 0; n < 90; n++) {
    bool kept = false;
    size_t n_allowed = 0;
    proto_write_detail(&sent, URL "google.rpc.DebugInfo", SECRET, 7);
    proto_write_detail(&sent, URL "shop.v1.Quota", "", 0);
    proto_write_text(&sent, 15, SECRET);
    while (!kept) {
      struct counting_allocator counting;
      grpc_slice rebuilt;
      counting_allocator_init(&counting);
      counting.n_allowed = n_allowed++;
      kept = rebuild_with(&counting.base, sent.bytes, sent.size, &rebuilt);
      assert_int_equal(counting.n_outstanding, 0);
      grpc_slice_unref(rebuilt);
    }
    most = n_allowed > most ? n_allowed : most;
  }
  assert_true(most > 3);
  proto_writer_fini(&sent);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_named_types_are_kept_byte_for_byte),
      cmocka_unit_test(the_code_is_the_one_that_the_caller_sees),
      cmocka_unit_test(nothing_is_kept_without_names_or_without_details),
      cmocka_unit_test(what_is_no_status_is_dropped_whole),
      cmocka_unit_test(groups_are_followed_to_a_bounded_depth),
      cmocka_unit_test(a_message_cut_short_keeps_whole_details_only),
      cmocka_unit_test(any_changed_byte_leaves_a_canonical_message_or_none),
      cmocka_unit_test(what_is_made_is_bounded_and_kept_whole_or_not_at_all),
      cmocka_unit_test(what_is_read_is_bounded),
      cmocka_unit_test(a_great_many_tiny_details_cost_no_more_than_their_bytes),
      cmocka_unit_test(a_great_many_kept_details_are_dropped),
      cmocka_unit_test(a_usual_message_needs_none_of_the_allocators_memory),
      cmocka_unit_test(running_out_of_memory_drops_the_details),
  };
  return cmocka_run_group_tests_name("details", tests, NULL, NULL);
}
