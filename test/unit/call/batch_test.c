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
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "src/call/batch.h"

#define MAX_OPS 8

/* What the operations of a test point to. */
struct memory {
  grpc_metadata metadata[4];
  grpc_byte_buffer *message;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *received;
  grpc_status_code status;
  grpc_slice details;
  const char *error_string;
};

static void memory_init(struct memory *memory) {
  memset(memory, 0, sizeof *memory);
  grpc_slice bytes = grpc_slice_from_static_string("message");
  memory->message = grpc_raw_byte_buffer_create(&bytes, 1);
  memory->details = grpc_empty_slice();
}

static void memory_fini(struct memory *memory) {
  void *error_string = NULL;
  memcpy(&error_string, &memory->error_string, sizeof error_string);
  grpc_metadata_array_destroy(&memory->initial_metadata);
  grpc_metadata_array_destroy(&memory->trailing_metadata);
  grpc_byte_buffer_destroy(memory->message);
  grpc_byte_buffer_destroy(memory->received);
  grpc_slice_unref(memory->details);
  gpr_free(error_string);
}

/* A valid operation of a type. */
static grpc_op op_of(grpc_op_type type, struct memory *memory) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = type;
  switch (type) {
  case GRPC_OP_SEND_MESSAGE:
    op.data.send_message.send_message = memory->message;
    break;
  case GRPC_OP_RECV_INITIAL_METADATA:
    op.data.recv_initial_metadata.recv_initial_metadata = &memory->initial_metadata;
    break;
  case GRPC_OP_RECV_MESSAGE:
    op.data.recv_message.recv_message = &memory->received;
    break;
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
    op.data.recv_status_on_client.trailing_metadata = &memory->trailing_metadata;
    op.data.recv_status_on_client.status = &memory->status;
    op.data.recv_status_on_client.status_details = &memory->details;
    op.data.recv_status_on_client.error_string = &memory->error_string;
    break;
  case GRPC_OP_SEND_INITIAL_METADATA:
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    break;
  }
  return op;
}

static grpc_metadata entry(const char *key, size_t key_size, const char *value, size_t value_size) {
  grpc_metadata metadata;
  memset(&metadata, 0, sizeof metadata);
  metadata.key = grpc_slice_from_static_buffer(key, key_size);
  metadata.value = grpc_slice_from_static_buffer(value, value_size);
  return metadata;
}

/* --- the core's answer, on a call that is never sent --- */

static grpc_completion_queue *queue;
static grpc_channel *channel;

static int setup(void **state) {
  (void)state;
  grpc_init();
  queue = grpc_completion_queue_create_for_next(NULL);
  channel = grpc_lame_client_channel_create("weir:test", GRPC_STATUS_UNAVAILABLE, "never sent");
  return 0;
}

static int teardown(void **state) {
  (void)state;
  grpc_channel_destroy(channel);
  grpc_completion_queue_shutdown(queue);
  grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_completion_queue_destroy(queue);
  grpc_shutdown();
  return event.type == GRPC_QUEUE_SHUTDOWN ? 0 : -1;
}

static grpc_call_error core_answer(const grpc_op *ops, size_t n_ops) {
  grpc_call *call =
      grpc_channel_create_call(channel, NULL, 0, queue, grpc_slice_from_static_string("/a/b"), NULL,
                               gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  grpc_call_error error = grpc_call_start_batch(call, ops, n_ops, &queue, NULL);
  if (error == GRPC_CALL_OK) {
    grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    assert_ptr_equal(event.tag, &queue);
  }
  grpc_call_unref(call);
  return error;
}

/* Both must give the same answer; `why` is told if they do not. The core goes last: it empties
 * messages. */
static grpc_call_error assert_as_the_core(const grpc_op *ops, size_t n_ops, const char *why) {
  struct weir__batch batch;
  grpc_call_error ours = weir__batch_read(ops, n_ops, 0, &batch);
  grpc_call_error cores = core_answer(ops, n_ops);
  if (ours != cores) {
    fail_msg("%s: %s here, %s from the core", why, grpc_call_error_to_string(ours),
             grpc_call_error_to_string(cores));
  }
  return ours;
}

/* --- one operation --- */

static void each_flag_of_each_operation_is_taken_as_the_core_takes_it(void **state) {
  (void)state;
  for (int type = GRPC_OP_SEND_INITIAL_METADATA; type <= GRPC_OP_RECV_CLOSE_ON_SERVER; type++) {
    size_t n_accepted = 0;
    for (int bit = -1; bit < 32; bit++) {
      struct memory memory;
      memory_init(&memory);
      grpc_op op = op_of((grpc_op_type)type, &memory);
      op.flags = bit < 0 ? 0 : 1u << bit;
      char why[64];
      (void)snprintf(why, sizeof why, "operation %d, flag %d", type, bit);
      n_accepted += assert_as_the_core(&op, 1, why) == GRPC_CALL_OK ? 1 : 0;
      memory_fini(&memory);
    }
    bool is_clients =
        type != GRPC_OP_SEND_STATUS_FROM_SERVER && type != GRPC_OP_RECV_CLOSE_ON_SERVER;
    assert_int_equal(n_accepted > 0, is_clients);
  }
}

static void each_operation_but_once_in_a_batch(void **state) {
  (void)state;
  for (int type = GRPC_OP_SEND_INITIAL_METADATA; type <= GRPC_OP_RECV_STATUS_ON_CLIENT; type++) {
    if (type == GRPC_OP_SEND_STATUS_FROM_SERVER) {
      continue;
    }
    struct memory memory;
    memory_init(&memory);
    grpc_op ops[2] = {op_of((grpc_op_type)type, &memory), op_of((grpc_op_type)type, &memory)};
    assert_int_equal(assert_as_the_core(ops, 2, "twice"), GRPC_CALL_ERROR_TOO_MANY_OPERATIONS);
    memory_fini(&memory);
  }
}

static void odd_operations_are_refused_as_the_core_refuses_them(void **state) {
  (void)state;
  struct memory memory;
  memory_init(&memory);
  grpc_op op = op_of(GRPC_OP_SEND_MESSAGE, &memory);
  op.data.send_message.send_message = NULL;
  assert_int_equal(assert_as_the_core(&op, 1, "no message"), GRPC_CALL_ERROR_INVALID_MESSAGE);
  op.flags = 1u << 20;
  assert_int_equal(assert_as_the_core(&op, 1, "no message, bad flags"),
                   GRPC_CALL_ERROR_INVALID_FLAGS);
  op.reserved = &memory;
  assert_int_equal(assert_as_the_core(&op, 1, "reserved"), GRPC_CALL_ERROR);

  op = op_of(GRPC_OP_SEND_INITIAL_METADATA, &memory);
  op.data.send_initial_metadata.count = (size_t)INT32_MAX + 1;
  op.data.send_initial_metadata.metadata = memory.metadata;
  assert_int_equal(assert_as_the_core(&op, 1, "more metadata than the core counts"),
                   GRPC_CALL_ERROR_INVALID_METADATA);
  op = op_of(GRPC_OP_SEND_INITIAL_METADATA, &memory);
  op.data.send_initial_metadata.maybe_compression_level.is_set = 1;
  op.data.send_initial_metadata.maybe_compression_level.level = GRPC_COMPRESS_LEVEL_COUNT;
  assert_int_equal(assert_as_the_core(&op, 1, "a level, which clients do not have"), GRPC_CALL_OK);
  memory_fini(&memory);
}

static void what_would_crash_the_core_is_refused(void **state) {
  (void)state;
  struct memory memory;
  struct weir__batch batch;
  memory_init(&memory);
  grpc_op op = op_of(GRPC_OP_SEND_INITIAL_METADATA, &memory);
  op.data.send_initial_metadata.count = 1;
  assert_int_equal(weir__batch_read(&op, 1, 0, &batch), GRPC_CALL_ERROR_INVALID_METADATA);

  static const int types[] = {8, 31, 32, 99, 1 << 20, INT32_MAX};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    grpc_op ops[2] = {op_of(GRPC_OP_SEND_CLOSE_FROM_CLIENT, &memory),
                      op_of(GRPC_OP_RECV_MESSAGE, &memory)};
    memcpy(&ops[1].op, &types[i], sizeof ops[1].op);
    assert_int_equal(weir__batch_read(ops, 2, 0, &batch), GRPC_CALL_ERROR);
  }
  memory_fini(&memory);
}

static void metadata_is_legal_as_the_core_sees_it(void **state) {
  (void)state;
#define ENTRY(key, value) entry(key, sizeof key - 1, value, sizeof value - 1)
  const struct {
    const char *why;
    grpc_metadata metadata;
    bool legal;
  } rows[] = {
      {"plain", ENTRY("key", "value"), true},
      {"an empty value", ENTRY("key", ""), true},
      {"all that a key may have", ENTRY("-_.0123456789abcdefghijklmnopqrstuvwxyz", "v"), true},
      {"an empty key", ENTRY("", "value"), false},
      {"a capital", ENTRY("Key", "value"), false},
      {"a pseudo-header", ENTRY(":path", "/other"), false},
      {"a colon", ENTRY("a:b", "value"), false},
      {"a space", ENTRY("a b", "value"), false},
      {"a NUL in the key", ENTRY("a\0b", "value"), false},
      {"a byte above ASCII in the key", ENTRY("k\xc3\xa9y", "value"), false},
      {"a line end in the value", ENTRY("key", "a\r\nb: c"), false},
      {"a NUL in the value", ENTRY("key", "a\0b"), false},
      {"a tab", ENTRY("key", "a\tb"), false},
      {"a byte above ASCII in the value", ENTRY("key", "\xc3\xa9"), false},
      {"DEL", ENTRY("key", "\x7f"), false},
      {"spaces and a tilde", ENTRY("key", " ~ "), true},
      {"any byte in a binary value", ENTRY("key-bin", "\0\r\n\xff"), true},
      {"-bin alone, which is a key like others", ENTRY("-bin", "\xff"), false},
      {"bin without its dash", ENTRY("kbin", "\xff"), false},
      {"a key of the core's", ENTRY("grpc-timeout", "1S"), true},
      {"te", ENTRY("te", "x"), true},
      {"content-length", ENTRY("content-length", "3"), true},
      {"user-agent", ENTRY("user-agent", "x"), true},
      {"host", ENTRY("host", "x"), true},
      {"a number that is none", ENTRY("grpc-previous-rpc-attempts", "x"), true},
  };
#undef ENTRY
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct memory memory;
    memory_init(&memory);
    grpc_op op = op_of(GRPC_OP_SEND_INITIAL_METADATA, &memory);
    memory.metadata[0] = entry("first", 5, "value", 5);
    memory.metadata[1] = rows[i].metadata;
    op.data.send_initial_metadata.metadata = memory.metadata;
    op.data.send_initial_metadata.count = 2;
    grpc_call_error error = assert_as_the_core(&op, 1, rows[i].why);
    if (error != (rows[i].legal ? GRPC_CALL_OK : GRPC_CALL_ERROR_INVALID_METADATA)) {
      fail_msg("%s: %s", rows[i].why, grpc_call_error_to_string(error));
    }
    memory_fini(&memory);
  }
}

static void each_byte_of_keys_and_values_is_taken_as_the_core_takes_it(void **state) {
  (void)state;
  for (int byte = 0; byte < 256; byte++) {
    char text[3] = {'a', (char)byte, 'a'};
    struct memory memory;
    memory_init(&memory);
    grpc_op op = op_of(GRPC_OP_SEND_INITIAL_METADATA, &memory);
    op.data.send_initial_metadata.metadata = memory.metadata;
    op.data.send_initial_metadata.count = 1;
    memory.metadata[0] = entry(text, sizeof text, "v", 1);
    (void)assert_as_the_core(&op, 1, "a byte of a key");
    memory.metadata[0] = entry("key", 3, text, sizeof text);
    (void)assert_as_the_core(&op, 1, "a byte of a value");
    memory_fini(&memory);
  }
}

/* --- whole batches --- */

static uint64_t random_next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

/* An operation of any type, one in four of them wrong in some way. */
static grpc_op random_op(struct memory *memory, uint64_t *seed) {
  grpc_op op = op_of((grpc_op_type)(random_next(seed) % 8), memory);
  if (op.op == GRPC_OP_SEND_INITIAL_METADATA) {
    op.data.send_initial_metadata.metadata = memory->metadata;
    op.data.send_initial_metadata.count = random_next(seed) % 3;
    bool legal = random_next(seed) % 4 != 0;
    memory->metadata[0] = entry("key", 3, "value", 5);
    memory->metadata[1] = entry(legal ? "key-bin" : "KEY", legal ? 7 : 3, "\xff", 1);
  }
  switch (random_next(seed) % 16) {
  case 0:
    op.flags = 1u << random_next(seed) % 32;
    break;
  case 1:
    op.reserved = memory;
    break;
  case 2:
    if (op.op == GRPC_OP_SEND_MESSAGE) {
      op.data.send_message.send_message = NULL;
    }
    break;
  default:
    break;
  }
  return op;
}

static void batches_are_refused_as_the_core_refuses_them(void **state) {
  (void)state;
  uint64_t seed = 4711;
  size_t n_accepted = 0;
  for (int i = 0; i < 20000; i++) {
    struct memory memory;
    grpc_op ops[MAX_OPS];
    size_t n_ops = random_next(&seed) % 5 + 1;
    memory_init(&memory);
    for (size_t j = 0; j < n_ops; j++) {
      ops[j] = random_op(&memory, &seed);
    }
    char why[64];
    (void)snprintf(why, sizeof why, "batch %d of %zu", i, n_ops);
    n_accepted += assert_as_the_core(ops, n_ops, why) == GRPC_CALL_OK ? 1 : 0;
    memory_fini(&memory);
  }
  assert_true(n_accepted > 1000);
}

static void a_batch_is_sorted_by_type_and_keeps_its_order(void **state) {
  (void)state;
  struct memory memory;
  struct weir__batch batch;
  memory_init(&memory);
  const grpc_op ops[] = {
      op_of(GRPC_OP_RECV_STATUS_ON_CLIENT, &memory), op_of(GRPC_OP_SEND_MESSAGE, &memory),
      op_of(GRPC_OP_RECV_INITIAL_METADATA, &memory), op_of(GRPC_OP_SEND_CLOSE_FROM_CLIENT, &memory),
      op_of(GRPC_OP_RECV_MESSAGE, &memory),          op_of(GRPC_OP_SEND_INITIAL_METADATA, &memory),
  };
  assert_int_equal(weir__batch_read(ops, 6, 0, &batch), GRPC_CALL_OK);
  assert_ptr_equal(batch.ops, ops);
  assert_int_equal(batch.n_ops, 6);
  assert_ptr_equal(batch.recv_status, &ops[0]);
  assert_ptr_equal(batch.send_message, &ops[1]);
  assert_ptr_equal(batch.recv_initial_metadata, &ops[2]);
  assert_ptr_equal(batch.recv_message, &ops[4]);
  assert_ptr_equal(batch.send_initial_metadata, &ops[5]);
  assert_int_equal(batch.op_types & WEIR__UNARY_OPS, WEIR__UNARY_OPS);

  assert_int_equal(weir__batch_read(&ops[3], 1, 0, &batch), GRPC_CALL_OK);
  assert_null(batch.send_message);
  assert_null(batch.recv_status);
  assert_int_equal(batch.op_types, WEIR__OP_BIT(GRPC_OP_SEND_CLOSE_FROM_CLIENT));
  memory_fini(&memory);
}

static void each_type_that_may_be_first_has_a_slot_of_its_own(void **state) {
  (void)state;
  struct memory memory;
  unsigned slots = 0;
  memory_init(&memory);
  for (int type = GRPC_OP_SEND_INITIAL_METADATA; type <= GRPC_OP_RECV_STATUS_ON_CLIENT; type++) {
    if (type == GRPC_OP_SEND_STATUS_FROM_SERVER) {
      continue;
    }
    struct weir__batch batch;
    grpc_op ops[2] = {op_of((grpc_op_type)type, &memory), op_of(GRPC_OP_SEND_MESSAGE, &memory)};
    size_t n_ops = type == GRPC_OP_SEND_MESSAGE ? 1 : 2;
    assert_int_equal(weir__batch_read(ops, n_ops, 0, &batch), GRPC_CALL_OK);
    assert_true(batch.slot < WEIR__N_CLIENT_OPS);
    slots |= 1u << batch.slot;
  }
  assert_int_equal(slots, (1u << WEIR__N_CLIENT_OPS) - 1);
  memory_fini(&memory);
}

/* --- what is taken already --- */

#define METADATA GRPC_OP_SEND_INITIAL_METADATA
#define MESSAGE GRPC_OP_SEND_MESSAGE
#define CLOSE GRPC_OP_SEND_CLOSE_FROM_CLIENT
#define SERVERS_STATUS GRPC_OP_SEND_STATUS_FROM_SERVER
#define GET_METADATA GRPC_OP_RECV_INITIAL_METADATA
#define GET_MESSAGE GRPC_OP_RECV_MESSAGE
#define GET_STATUS GRPC_OP_RECV_STATUS_ON_CLIENT
#define TOO_MANY GRPC_CALL_ERROR_TOO_MANY_OPERATIONS
#define BAD_FLAGS GRPC_CALL_ERROR_INVALID_FLAGS
#define BAD_METADATA GRPC_CALL_ERROR_INVALID_METADATA
#define BAD_MESSAGE GRPC_CALL_ERROR_INVALID_MESSAGE
#define ONCE(type) WEIR__OP_BIT(type)
#define AGAIN(type) WEIR__CLAIM_AGAIN(WEIR__OP_BIT(type))
#define SLOT_OF_MESSAGE WEIR__CLAIM_SLOT(1)
#define SLOT_OF_CLOSE WEIR__CLAIM_SLOT(2)

enum fault { NO_FAULT, FLAGS_OF_THE_FIRST, NO_MESSAGE, ILLEGAL_KEY };

struct claimed_row {
  const char *why;
  unsigned claims;
  grpc_op_type types[2]; /* the same twice: one */
  enum fault fault;
  grpc_call_error error;
};

static const struct claimed_row claimed_rows[] = {
    {"a slot before flags", SLOT_OF_MESSAGE, {MESSAGE, MESSAGE}, FLAGS_OF_THE_FIRST, TOO_MANY},
    {"the first has the slot", SLOT_OF_MESSAGE, {GET_METADATA, MESSAGE}, NO_FAULT, GRPC_CALL_OK},
    {"a server's has one too", SLOT_OF_CLOSE, {SERVERS_STATUS, SERVERS_STATUS}, NO_FAULT, TOO_MANY},
    {"flags before once", ONCE(METADATA), {METADATA, METADATA}, FLAGS_OF_THE_FIRST, BAD_FLAGS},
    {"once before the metadata", ONCE(METADATA), {METADATA, METADATA}, ILLEGAL_KEY, TOO_MANY},
    {"another is taken", ONCE(CLOSE), {METADATA, METADATA}, ILLEGAL_KEY, BAD_METADATA},
    {"no message before again", AGAIN(MESSAGE), {GET_METADATA, MESSAGE}, NO_MESSAGE, BAD_MESSAGE},
    {"a message under way", AGAIN(MESSAGE), {GET_METADATA, MESSAGE}, NO_FAULT, TOO_MANY},
    {"one the other way", AGAIN(GET_MESSAGE), {MESSAGE, GET_METADATA}, NO_FAULT, GRPC_CALL_OK},
    {"the first fault", ONCE(GET_METADATA), {MESSAGE, GET_METADATA}, NO_MESSAGE, BAD_MESSAGE},
    {"in the other order", ONCE(GET_METADATA), {GET_METADATA, MESSAGE}, NO_MESSAGE, TOO_MANY},
    {"a second status", ONCE(GET_STATUS), {GET_STATUS, GET_STATUS}, NO_FAULT, TOO_MANY},
    {"a second close", ONCE(CLOSE), {GET_METADATA, CLOSE}, NO_FAULT, TOO_MANY},
};

/* The operation of a row, with its fault if it has one. */
static grpc_op claimed_op(const struct claimed_row *row, size_t nth, struct memory *memory) {
  grpc_op op = op_of(row->types[nth], memory);
  if (row->fault == FLAGS_OF_THE_FIRST && nth == 0) {
    op.flags = ~0u;
  }
  if (row->fault == NO_MESSAGE && op.op == MESSAGE) {
    op.data.send_message.send_message = NULL;
  }
  if (row->fault == ILLEGAL_KEY && op.op == METADATA) {
    memory->metadata[0] = entry("KEY", 3, "value", 5);
    op.data.send_initial_metadata.metadata = memory->metadata;
    op.data.send_initial_metadata.count = 1;
  }
  return op;
}

static void of_several_faults_the_first_is_the_answer(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof claimed_rows / sizeof claimed_rows[0]; i++) {
    const struct claimed_row *row = &claimed_rows[i];
    struct memory memory;
    struct weir__batch batch;
    memory_init(&memory);
    grpc_op ops[2] = {claimed_op(row, 0, &memory), claimed_op(row, 1, &memory)};
    size_t n_ops = row->types[0] == row->types[1] ? 1 : 2;
    grpc_call_error error = weir__batch_read(ops, n_ops, row->claims, &batch);
    if (error != row->error) {
      fail_msg("%s: %s", row->why, grpc_call_error_to_string(error));
    }
    memory_fini(&memory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_flag_of_each_operation_is_taken_as_the_core_takes_it),
      cmocka_unit_test(each_operation_but_once_in_a_batch),
      cmocka_unit_test(odd_operations_are_refused_as_the_core_refuses_them),
      cmocka_unit_test(what_would_crash_the_core_is_refused),
      cmocka_unit_test(metadata_is_legal_as_the_core_sees_it),
      cmocka_unit_test(each_byte_of_keys_and_values_is_taken_as_the_core_takes_it),
      cmocka_unit_test(batches_are_refused_as_the_core_refuses_them),
      cmocka_unit_test(a_batch_is_sorted_by_type_and_keeps_its_order),
      cmocka_unit_test(each_type_that_may_be_first_has_a_slot_of_its_own),
      cmocka_unit_test(of_several_faults_the_first_is_the_answer),
  };
  return cmocka_run_group_tests_name("batch", tests, setup, teardown);
}
