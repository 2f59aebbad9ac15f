/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "src/queue/queue.h"
#include "test/stack/stack_fixture.h"

#define MAX_TAKEN 64 /* blocks that a queue has without asking for memory; fewer */

/* --- refused, without a side effect --- */

struct refused_row {
  const char *why;
  void (*spoil)(grpc_op ops[MAX_UNARY_OPS]);
  grpc_call_error error;
};

static grpc_metadata entry_of(const char *key, const char *value) {
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  entry.key = grpc_slice_from_static_string(key);
  entry.value = grpc_slice_from_static_string(value);
  return entry;
}

static grpc_metadata illegal_entry;

static void with_illegal_key(grpc_op ops[MAX_UNARY_OPS]) {
  illegal_entry = entry_of("Upper-Case", "v");
  ops[0].data.send_initial_metadata.metadata = &illegal_entry;
  ops[0].data.send_initial_metadata.count = 1;
}

static void with_illegal_value(grpc_op ops[MAX_UNARY_OPS]) {
  illegal_entry = entry_of("key", "line\nfeed");
  ops[0].data.send_initial_metadata.metadata = &illegal_entry;
  ops[0].data.send_initial_metadata.count = 1;
}

/* More than HPACK can say; nobody looks at the bytes, which are not there. */
static void with_a_value_of_four_gibibytes(grpc_op ops[MAX_UNARY_OPS]) {
  static const char first_byte = 'x';
  illegal_entry = entry_of("key-bin", "");
  illegal_entry.value = grpc_slice_from_static_buffer(&first_byte, UINT32_MAX);
  ops[0].data.send_initial_metadata.metadata = &illegal_entry;
  ops[0].data.send_initial_metadata.count = 1;
}

static void with_metadata_missing(grpc_op ops[MAX_UNARY_OPS]) {
  ops[0].data.send_initial_metadata.metadata = NULL;
  ops[0].data.send_initial_metadata.count = 1;
}

static void with_an_operation_twice(grpc_op ops[MAX_UNARY_OPS]) {
  ops[2] = ops[1];
}

static void with_metadata_flags(grpc_op ops[MAX_UNARY_OPS]) {
  ops[0].flags = UINT32_C(1) << 31;
}

static void with_message_flags(grpc_op ops[MAX_UNARY_OPS]) {
  ops[1].flags = UINT32_C(1) << 29;
}

static void with_flags_where_there_are_none(grpc_op ops[MAX_UNARY_OPS]) {
  ops[5].flags = 1;
}

static void without_a_message(grpc_op ops[MAX_UNARY_OPS]) {
  ops[1].data.send_message.send_message = NULL;
}

static void with_a_servers_operation(grpc_op ops[MAX_UNARY_OPS]) {
  ops[5].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
}

static void with_reserved(grpc_op ops[MAX_UNARY_OPS]) {
  ops[3].reserved = ops;
}

static const struct refused_row refused_rows[] = {
    {"a key in upper case", with_illegal_key, GRPC_CALL_ERROR_INVALID_METADATA},
    {"a value of two lines", with_illegal_value, GRPC_CALL_ERROR_INVALID_METADATA},
    {"a value of 4 GiB", with_a_value_of_four_gibibytes, GRPC_CALL_ERROR_INVALID_METADATA},
    {"a count without an array", with_metadata_missing, GRPC_CALL_ERROR_INVALID_METADATA},
    {"an operation twice", with_an_operation_twice, GRPC_CALL_ERROR_TOO_MANY_OPERATIONS},
    {"unknown flags of metadata", with_metadata_flags, GRPC_CALL_ERROR_INVALID_FLAGS},
    {"unknown flags of a message", with_message_flags, GRPC_CALL_ERROR_INVALID_FLAGS},
    {"flags of a status", with_flags_where_there_are_none, GRPC_CALL_ERROR_INVALID_FLAGS},
    {"no message", without_a_message, GRPC_CALL_ERROR_INVALID_MESSAGE},
    {"a server's operation", with_a_servers_operation, GRPC_CALL_ERROR_NOT_ON_CLIENT},
    {"something reserved", with_reserved, GRPC_CALL_ERROR},
};

static void a_refused_batch_has_no_side_effect(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  for (size_t i = 0; i < sizeof refused_rows / sizeof refused_rows[0]; i++) {
    grpc_op ops[MAX_UNARY_OPS];
    unary_ops(&unary, ops);
    refused_rows[i].spoil(ops);
    grpc_call_error error = weir_call_start_batch(unary.call, ops, MAX_UNARY_OPS, &unary, NULL);
    if (error != refused_rows[i].error) {
      fail_msg("%s: %d", refused_rows[i].why, (int)error);
    }
    assert_int_equal(grpc_byte_buffer_length(unary.request), 3);
  }
  assert_int_equal(weir_call_start_batch(unary.call, NULL, 0, &unary, &unary), GRPC_CALL_ERROR);
  assert_int_equal(f->transport.n_created, 0);
  unary_start(f, &unary); /* the same call is as good as new */
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void binary_values_may_hold_anything(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, 0, answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  unary_add_metadata(f, &unary, "key-bin", "line\nfeed");
  unary_start(f, &unary);
  run_until_idle(f);

  assert_string_equal(sent_attempt_value(sent(f, 1), "key-bin"), "line\nfeed");
  unary_fini(&unary);
}

/* As the core does: the application's array is appended to. */
static void trailing_metadata_come_behind_what_is_in_the_array(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct wire_answer answer = answer_not_found;
  answer.trailing[0] = (struct wire_pair){"from", "peer"};
  answer.trailing[1] = (struct wire_pair){"and", "more"};
  scripted_transport_always(&f->transport, 0, answer);
  struct unary unary;
  unary_init(f, &unary);
  unary.trailing_metadata.metadata = gpr_malloc(sizeof(grpc_metadata));
  unary.trailing_metadata.metadata[0] = entry_of("mine", "value");
  unary.trailing_metadata.count = 1;
  unary.trailing_metadata.capacity = 1;
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.trailing_metadata.count, 3);
  assert_true(unary.trailing_metadata.capacity >= 3);
  static const char *const keys[] = {"mine", "from", "and"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    assert_int_equal(grpc_slice_str_cmp(unary.trailing_metadata.metadata[i].key, keys[i]), 0);
  }
  unary_fini(&unary);
}

static void a_second_receive_under_way_is_refused(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(5), answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&unary, ops);
  for (size_t i = 0; i < MAX_UNARY_OPS; i++) {
    assert_int_equal(weir_call_start_batch(unary.call, &ops[i], 1, &ops, NULL),
                     GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  }
  run_until_idle(f);

  assert_int_equal(unary.n_done, 1);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

/* One batch of five operations, and the metadata by themselves, while the call is under way or
 * after it. */
static void ask_for_metadata_apart(struct fixture *f, int64_t at_ns) {
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(20), REPLY("bar"), WITH_INITIAL("key", "value")}));
  struct unary unary;
  grpc_op ops[MAX_UNARY_OPS];
  grpc_op metadata_op;
  unary_init(f, &unary);
  unary_ops(&unary, ops);
  size_t n_ops = 0;
  for (size_t i = 0; i < MAX_UNARY_OPS; i++) {
    if (ops[i].op == GRPC_OP_RECV_INITIAL_METADATA) {
      metadata_op = ops[i];
    } else {
      ops[n_ops++] = ops[i];
    }
  }
  assert_int_equal(weir_call_start_batch(unary.call, ops, n_ops, &ops, NULL), GRPC_CALL_OK);
  run_until(f, T0 + at_ns);
  assert_int_equal(weir_call_start_batch(unary.call, &metadata_op, 1, &metadata_op, NULL),
                   GRPC_CALL_OK);
  assert_int_equal(weir_call_start_batch(unary.call, &metadata_op, 1, &metadata_op, NULL),
                   GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 2); /* tags that are no unary's */
  assert_true(f->foreign_success[0] && f->foreign_success[1]);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(unary.initial_metadata.count, 1);
  assert_true(unary_can_see(&unary, "value"));
  unary_fini(&unary);
}

static void initial_metadata_may_be_asked_for_apart_while_the_call_is_under_way(void **state) {
  ask_for_metadata_apart(*state, MS(5));
}

static void initial_metadata_may_be_asked_for_apart_after_the_end(void **state) {
  ask_for_metadata_apart(*state, MS(50));
}

/* Batches that the core is not given have blocks of their own. */
static void what_has_a_block_of_its_own_needs_memory(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(10), REPLY("answer")}));
  struct unary unary;
  grpc_op ops[MAX_UNARY_OPS];
  unary_init(f, &unary);
  unary_ops(&unary, ops);
  const grpc_op metadata_op = ops[3];
  assert_int_equal(metadata_op.op, GRPC_OP_RECV_INITIAL_METADATA);
  memmove(&ops[3], &ops[4], 2 * sizeof ops[0]);
  assert_int_equal(weir_call_start_batch(unary.call, ops, MAX_UNARY_OPS - 1, &ops, NULL),
                   GRPC_CALL_OK);

  void *blocks[MAX_TAKEN];
  size_t n_blocks = 0;
  counting_allocator_fail_from_nth(&f->allocator, 1);
  while ((blocks[n_blocks] = weir__queue_block_take(f->queue)) != NULL) {
    n_blocks++;
    assert_true(n_blocks < MAX_TAKEN);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(weir_call_start_batch(unary.call, &metadata_op, 1, &unary, NULL),
                     GRPC_CALL_ERROR);
    assert_int_equal(weir_call_start_batch(unary.call, NULL, 0, &unary, NULL), GRPC_CALL_ERROR);
  }
  counting_allocator_fail_none(&f->allocator);
  while (n_blocks > 0) {
    weir__queue_block_give(f->queue, blocks[--n_blocks]);
  }
  assert_int_equal(weir_call_start_batch(unary.call, &metadata_op, 1, &blocks, NULL), GRPC_CALL_OK);
  assert_int_equal(weir_call_start_batch(unary.call, NULL, 0, &n_blocks, NULL), GRPC_CALL_OK);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 3); /* tags that are no unary's */
  assert_true(f->foreign_success[0] && f->foreign_success[1] && f->foreign_success[2]);
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void a_call_that_could_not_be_started_may_be_started_again(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  f->transport.start_fails_at = 1;
  struct unary unary;
  unary_init_with(f, &unary, &(struct unary_options){.deadline_at_ns = T0 + SECONDS(100)});
  assert_int_equal(unary_try_start(f, &unary), GRPC_CALL_ERROR);
  assert_null(f->transport.calls);
  f->clock.now_ns += SECONDS(30);
  scripted_transport_always(&f->transport, 0, answer_ok);
  unary_start(f, &unary);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(sent(f, 1)->deadline_at_ns,
                   T0 + SECONDS(90)); /* the ceiling counts from the start */
  unary_fini(&unary);
}

/* --- empty batches --- */

static void the_tag_of_an_empty_batch_comes_back_at_once(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct unary unary;
  unary_init(f, &unary);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(weir_call_start_batch(unary.call, NULL, 0, (void *)i, NULL), GRPC_CALL_OK);
  }
  assert_int_equal(f->n_foreign, 0);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_ptr_equal(f->foreign[i], (void *)i);
    assert_true(f->foreign_success[i]);
  }
  assert_int_equal(f->transport.n_created, 0);
  unary_fini(&unary);
}

static void an_empty_batch_outlives_its_call(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  struct unary unary;
  unary_init(f, &unary);
  assert_int_equal(weir_call_start_batch(unary.call, NULL, 0, f, NULL), GRPC_CALL_OK);
  unary_fini(&unary);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 1);
}

/* --- shapes of a unary batch --- */

static void initial_metadata_need_not_be_asked_for(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), REPLY("bar"), WITH_INITIAL("x", "y")}));
  struct unary unary;
  unary_init(f, &unary);
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&unary, ops);
  ops[3] = ops[5];
  assert_int_equal(weir_call_start_batch(unary.call, ops, 5, &unary, NULL), GRPC_CALL_OK);
  run_until_idle(f);

  assert_int_equal(f->n_foreign, 1); /* this tag was not announced to the fixture */
  assert_int_equal(unary.status, GRPC_STATUS_OK);
  assert_int_equal(unary.initial_metadata.count, 0);
  unary_fini(&unary);
}

static void the_operations_may_come_in_any_order(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  play(f, SCRIPT({AT_MS(0), EXPECT_SEND}, {AT_MS(0), TRAILERS_ONLY(GRPC_STATUS_UNAVAILABLE, "")},
                 {AT_MS(100), EXPECT_SEND}, {AT_MS(100), REPLY("bar")}));
  struct unary unary;
  unary_init(f, &unary);
  grpc_op ops[MAX_UNARY_OPS];
  grpc_op reversed[MAX_UNARY_OPS];
  unary_ops(&unary, ops);
  for (size_t i = 0; i < MAX_UNARY_OPS; i++) {
    reversed[i] = ops[MAX_UNARY_OPS - 1 - i];
  }
  assert_int_equal(weir_call_start_batch(unary.call, reversed, MAX_UNARY_OPS, &unary, NULL),
                   GRPC_CALL_OK);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_OK);
  unary_fini(&unary);
}

static void an_error_string_need_not_be_asked_for(void **state) {
  struct fixture *f = *state;
  fixture_open(f);
  scripted_transport_always(&f->transport, 0, answer_not_found);
  struct unary unary;
  unary_init(f, &unary);
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&unary, ops);
  ops[5].data.recv_status_on_client.error_string = NULL;
  assert_int_equal(weir_call_start_batch(unary.call, ops, MAX_UNARY_OPS, &unary, NULL),
                   GRPC_CALL_OK);
  run_until_idle(f);

  assert_int_equal(unary.status, GRPC_STATUS_NOT_FOUND);
  unary_fini(&unary);
}

static void a_report_is_there_once_the_call_has_ended(void **state) {
  struct fixture *f = *state;
  fixture_open_raw(f);
  scripted_transport_always(&f->transport, MS(5), answer_ok);
  struct unary unary;
  unary_init(f, &unary);
  unary_start(f, &unary);
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  assert_int_equal(weir_call_get_report(unary.call, &report), WEIR_ERROR_UNAVAILABLE);
  run_until_idle(f);
  report.size = 0;
  assert_int_equal(weir_call_get_report(unary.call, &report), WEIR_ERROR_INVALID_ARGUMENT);
  report.size = offsetof(struct weir_call_report, origin); /* an older program */
  report.origin = WEIR_ORIGIN_LOCAL_SHUTDOWN;
  assert_int_equal(weir_call_get_report(unary.call, &report), WEIR_OK);
  assert_int_equal(report.code, GRPC_STATUS_OK);
  assert_int_equal(report.origin, WEIR_ORIGIN_LOCAL_SHUTDOWN);
  unary_fini(&unary);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_refused_batch_has_no_side_effect),
      TEST(binary_values_may_hold_anything),
      TEST(trailing_metadata_come_behind_what_is_in_the_array),
      TEST(a_second_receive_under_way_is_refused),
      TEST(initial_metadata_may_be_asked_for_apart_while_the_call_is_under_way),
      TEST(initial_metadata_may_be_asked_for_apart_after_the_end),
      TEST(what_has_a_block_of_its_own_needs_memory),
      TEST(a_call_that_could_not_be_started_may_be_started_again),
      TEST(the_tag_of_an_empty_batch_comes_back_at_once),
      TEST(an_empty_batch_outlives_its_call),
      TEST(initial_metadata_need_not_be_asked_for),
      TEST(the_operations_may_come_in_any_order),
      TEST(an_error_string_need_not_be_asked_for),
      TEST(a_report_is_there_once_the_call_has_ended),
  };
  return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
