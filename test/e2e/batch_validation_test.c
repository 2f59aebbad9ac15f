/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "test/e2e/fixture.h"
#include "test/e2e/support/bare_call.h"

/* The same batches go to a call of the core's and to one of weir's: both are to give the same
 * answer. */

#define MAX_OPS 8
#define MAX_BATCHES 3
#define N_CLIENT_OPS 6

#define METADATA GRPC_OP_SEND_INITIAL_METADATA
#define MESSAGE GRPC_OP_SEND_MESSAGE
#define CLOSE GRPC_OP_SEND_CLOSE_FROM_CLIENT
#define SERVERS_STATUS GRPC_OP_SEND_STATUS_FROM_SERVER
#define GET_METADATA GRPC_OP_RECV_INITIAL_METADATA
#define GET_MESSAGE GRPC_OP_RECV_MESSAGE
#define GET_STATUS GRPC_OP_RECV_STATUS_ON_CLIENT
#define SERVERS_CLOSE GRPC_OP_RECV_CLOSE_ON_SERVER

static const grpc_op_type client_ops[N_CLIENT_OPS] = {METADATA,     MESSAGE,     CLOSE,
                                                      GET_METADATA, GET_MESSAGE, GET_STATUS};

/* --- batches, described --- */

struct bytes {
  const char *data;
  size_t size;
};

#define BYTES(text) \
  { .data = (text), .size = sizeof(text) - 1 }

/* An operation, valid but for what is said. */
struct op_spec {
  grpc_op_type type;
  uint32_t flags;
  bool reserved;
  bool no_message;
  struct bytes key; /* NULL = no metadata */
  struct bytes value;
  size_t count; /* instead of 1, with a key */
};

struct batch_spec {
  struct op_spec ops[MAX_OPS];
  size_t n_ops;
};

/* --- a call, of either --- */

struct side {
  grpc_call *cores; /* one of the two */
  weir_call *ours;
  grpc_completion_queue *cores_queue;
  weir_completion_queue *our_queue;

  grpc_byte_buffer *request;
  grpc_metadata metadata[MAX_BATCHES];
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *reply;
  grpc_slice details;
  const char *error_string;
  grpc_status_code status;

  size_t n_batches;
  char tags[MAX_BATCHES + 2];
  size_t n_under_way;
};

struct world {
  const char *method; /* of the calls */
  weir__test_server *server;
  grpc_channel *core;
  weir_channel *ours;
};

static void side_init(struct side *side) {
  memset(side, 0, sizeof *side);
  side->request = message_of("hello");
  side->details = grpc_empty_slice();
}

static void side_init_cores(struct side *side, const struct world *world) {
  side_init(side);
  side->cores_queue = grpc_completion_queue_create_for_next(NULL);
  side->cores = grpc_channel_create_call(world->core, NULL, 0, side->cores_queue,
                                         grpc_slice_from_static_string(world->method), NULL,
                                         gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static void side_init_ours(struct side *side, const struct world *world) {
  side_init(side);
  side->our_queue = weir_completion_queue_create_for_next(NULL);
  side->ours = weir_channel_create_call(world->ours, NULL, 0, side->our_queue,
                                        grpc_slice_from_static_string(world->method), NULL,
                                        gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  assert_non_null(side->ours);
}

static void side_build_metadata(struct side *side, const struct op_spec *spec, grpc_op *op) {
  grpc_metadata *entry = &side->metadata[side->n_batches];
  memset(entry, 0, sizeof *entry);
  if (spec->key.data != NULL) {
    entry->key = grpc_slice_from_static_buffer(spec->key.data, spec->key.size);
    entry->value = grpc_slice_from_static_buffer(spec->value.data, spec->value.size);
    op->data.send_initial_metadata.metadata = entry;
    op->data.send_initial_metadata.count = spec->count != 0 ? spec->count : 1;
  }
}

static grpc_op side_build_op(struct side *side, const struct op_spec *spec) {
  grpc_op op;
  memset(&op, 0, sizeof op);
  op.op = spec->type;
  op.flags = spec->flags;
  op.reserved = spec->reserved ? side : NULL;
  switch (spec->type) {
  case GRPC_OP_SEND_INITIAL_METADATA:
    side_build_metadata(side, spec, &op);
    break;
  case GRPC_OP_SEND_MESSAGE:
    op.data.send_message.send_message = spec->no_message ? NULL : side->request;
    break;
  case GRPC_OP_RECV_INITIAL_METADATA:
    op.data.recv_initial_metadata.recv_initial_metadata = &side->initial_metadata;
    break;
  case GRPC_OP_RECV_MESSAGE:
    op.data.recv_message.recv_message = &side->reply;
    break;
  case GRPC_OP_RECV_STATUS_ON_CLIENT:
    op.data.recv_status_on_client.trailing_metadata = &side->trailing_metadata;
    op.data.recv_status_on_client.status = &side->status;
    op.data.recv_status_on_client.status_details = &side->details;
    op.data.recv_status_on_client.error_string = &side->error_string;
    break;
  case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
  case GRPC_OP_SEND_STATUS_FROM_SERVER:
  case GRPC_OP_RECV_CLOSE_ON_SERVER:
    break;
  }
  return op;
}

static grpc_call_error side_start(struct side *side, const struct batch_spec *spec) {
  grpc_op ops[MAX_OPS];
  for (size_t i = 0; i < spec->n_ops; i++) {
    ops[i] = side_build_op(side, &spec->ops[i]);
  }
  void *tag = &side->tags[side->n_batches++];
  grpc_call_error error = side->ours != NULL
                              ? weir_call_start_batch(side->ours, ops, spec->n_ops, tag, NULL)
                              : grpc_call_start_batch(side->cores, ops, spec->n_ops, tag, NULL);
  side->n_under_way += error == GRPC_CALL_OK ? 1 : 0;
  return error;
}

static void side_drain(struct side *side) {
  gpr_timespec limit =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(10, GPR_TIMESPAN));
  for (; side->n_under_way > 0; side->n_under_way--) {
    grpc_event event = side->ours != NULL
                           ? weir_completion_queue_next(side->our_queue, limit, NULL)
                           : grpc_completion_queue_next(side->cores_queue, limit, NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    const char *tag = event.tag;
    assert_true(tag >= side->tags && tag < side->tags + sizeof side->tags);
  }
}

static void side_end_cores(struct side *side) {
  (void)grpc_call_cancel(side->cores, NULL);
  side_drain(side);
  grpc_call_unref(side->cores);
  grpc_completion_queue_shutdown(side->cores_queue);
  grpc_event event =
      grpc_completion_queue_next(side->cores_queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  assert_int_equal(event.type, GRPC_QUEUE_SHUTDOWN);
  grpc_completion_queue_destroy(side->cores_queue);
}

static void side_fini(struct side *side) {
  if (side->ours != NULL) {
    (void)weir_call_cancel(side->ours, NULL);
    side_drain(side);
    weir_call_unref(side->ours);
    queue_end(side->our_queue);
  } else {
    side_end_cores(side);
  }
  void *error_string = NULL;
  memcpy(&error_string, &side->error_string, sizeof error_string);
  gpr_free(error_string);
  grpc_metadata_array_destroy(&side->initial_metadata);
  grpc_metadata_array_destroy(&side->trailing_metadata);
  grpc_byte_buffer_destroy(side->request);
  grpc_byte_buffer_destroy(side->reply);
  grpc_slice_unref(side->details);
}

/* --- the world --- */

/* Sends the message back; calls of OTHER_METHOD wait until they are cancelled. */
static void echo_or_wait(void *context, const struct weir__test_served *served,
                         struct weir__test_reply *reply) {
  static const struct answer echo = {.code = GRPC_STATUS_OK};
  (void)context;
  answer_with(&echo, served, reply);
  if (strcmp(served->path, OTHER_METHOD) == 0) {
    reply->delay_ns = SECONDS(60);
  }
}

static int open_world(void **state, const char *policy) {
  static struct world world;
  (void)start_core(state);
  world.method = METHOD;
  world.server = weir__test_server_new(echo_or_wait, NULL, 0);
  int port = weir__test_server_port(world.server);
  world.core = weir__bare_channel_create(port, WEIR__CORE_RETRIES_OFF, NULL);
  world.ours = channel_to(port, policy);
  *state = &world;
  return 0;
}

static int open_plain_world(void **state) {
  return open_world(state, POLICY_PLAIN);
}

/* What is sent is kept, and sent again by the engine. */
static int open_retrying_world(void **state) {
  return open_world(state, POLICY_RETRY);
}

static int close_world(void **state) {
  struct world *world = *state;
  weir_channel_destroy(world->ours);
  grpc_channel_destroy(world->core);
  weir__test_server_release(world->server);
  return stop_core(state);
}

/* --- the table --- */

enum before { AT_ONCE, AFTER_ITS_TAG };

struct row {
  const char *why;
  struct batch_spec first; /* a correct one; empty = none */
  struct batch_spec second;
  enum before when;
  grpc_call_error error; /* what the core is known to say */
};

#define OPS(...)                                                                    \
  {                                                                                 \
    .ops = {__VA_ARGS__},                                                           \
    .n_ops = sizeof((const struct op_spec[]){__VA_ARGS__}) / sizeof(struct op_spec) \
  }
#define NOTHING \
  { .n_ops = 0 }
#define OP(of_type) \
  { .type = (of_type) }
#define FLAGGED(of_type, with_flags) \
  { .type = (of_type), .flags = (with_flags) }
#define RESERVED(of_type) \
  { .type = (of_type), .reserved = true }
#define NO_MESSAGE \
  { .type = MESSAGE, .no_message = true }
#define PAIR(name, text) \
  { .type = METADATA, .key = BYTES(name), .value = BYTES(text) }

#define OK GRPC_CALL_OK
#define FAILED GRPC_CALL_ERROR
#define TOO_MANY GRPC_CALL_ERROR_TOO_MANY_OPERATIONS
#define BAD_FLAGS GRPC_CALL_ERROR_INVALID_FLAGS
#define BAD_METADATA GRPC_CALL_ERROR_INVALID_METADATA
#define BAD_MESSAGE GRPC_CALL_ERROR_INVALID_MESSAGE
#define SERVERS_ONLY GRPC_CALL_ERROR_NOT_ON_CLIENT

/* What is first in a batch, or under way, is what stays under way for certain: the server says
 * nothing before it has the message, and the core nothing before the metadata. */
static const struct row rows[] = {
    {"a server's status", NOTHING, OPS(OP(SERVERS_STATUS)), AT_ONCE, SERVERS_ONLY},
    {"a server's close", NOTHING, OPS(OP(SERVERS_CLOSE)), AT_ONCE, SERVERS_ONLY},
    {"a server's, flagged", NOTHING, OPS(FLAGGED(SERVERS_CLOSE, 1)), AT_ONCE, BAD_FLAGS},
    {"a server's behind good ones", NOTHING, OPS(OP(METADATA), OP(MESSAGE), OP(SERVERS_STATUS)),
     AT_ONCE, SERVERS_ONLY},
    {"metadata twice", NOTHING, OPS(OP(METADATA), OP(METADATA)), AT_ONCE, TOO_MANY},
    {"a message twice", NOTHING, OPS(OP(METADATA), OP(MESSAGE), OP(MESSAGE)), AT_ONCE, TOO_MANY},
    {"a status twice", NOTHING, OPS(OP(GET_STATUS), OP(GET_STATUS)), AT_ONCE, TOO_MANY},
    {"twice goes before all", NOTHING, OPS(RESERVED(METADATA), NO_MESSAGE, OP(CLOSE), OP(CLOSE)),
     AT_ONCE, TOO_MANY},
    {"reserved", NOTHING, OPS(RESERVED(GET_STATUS)), AT_ONCE, FAILED},
    {"reserved and flags", NOTHING, OPS({.type = MESSAGE, .flags = ~0u, .reserved = true}), AT_ONCE,
     FAILED},
    {"no message", NOTHING, OPS(OP(METADATA), NO_MESSAGE), AT_ONCE, BAD_MESSAGE},
    {"no message, flagged", NOTHING, OPS({.type = MESSAGE, .flags = 8, .no_message = true}),
     AT_ONCE, BAD_FLAGS},
    {"flags of metadata", NOTHING, OPS(FLAGGED(METADATA, 1)), AT_ONCE, BAD_FLAGS},
    {"flags of a message", NOTHING, OPS(OP(METADATA), FLAGGED(MESSAGE, 16)), AT_ONCE, BAD_FLAGS},
    {"flags of a close", NOTHING, OPS(FLAGGED(CLOSE, 1)), AT_ONCE, BAD_FLAGS},
    {"flags of received metadata", NOTHING, OPS(FLAGGED(GET_METADATA, 4)), AT_ONCE, BAD_FLAGS},
    {"flags of a received message", NOTHING, OPS(FLAGGED(GET_MESSAGE, 2)), AT_ONCE, BAD_FLAGS},
    {"flags of a status", NOTHING, OPS(FLAGGED(GET_STATUS, 1)), AT_ONCE, BAD_FLAGS},
    {"the first fault of two", NOTHING, OPS(NO_MESSAGE, FLAGGED(METADATA, 1)), AT_ONCE,
     BAD_MESSAGE},
    {"and in the other order", NOTHING, OPS(FLAGGED(METADATA, 1), NO_MESSAGE), AT_ONCE, BAD_FLAGS},
    {"all that metadata may have", NOTHING, OPS(FLAGGED(METADATA, GRPC_INITIAL_METADATA_USED_MASK)),
     AT_ONCE, OK},
    {"all that a message may have", NOTHING, OPS(FLAGGED(MESSAGE, GRPC_WRITE_USED_MASK)), AT_ONCE,
     OK},

    {"a pseudo-header", NOTHING, OPS(PAIR(":path", "/other")), AT_ONCE, BAD_METADATA},
    {"an empty key", NOTHING, OPS(PAIR("", "v")), AT_ONCE, BAD_METADATA},
    {"a capital", NOTHING, OPS(PAIR("Key", "v")), AT_ONCE, BAD_METADATA},
    {"a space in a key", NOTHING, OPS(PAIR("a b", "v")), AT_ONCE, BAD_METADATA},
    {"a NUL in a key", NOTHING, OPS(PAIR("a\0b", "v")), AT_ONCE, BAD_METADATA},
    {"a line end in a value", NOTHING, OPS(PAIR("key", "a\r\nb: c")), AT_ONCE, BAD_METADATA},
    {"a byte above ASCII in a value", NOTHING, OPS(PAIR("key", "\xc3\xa9")), AT_ONCE, BAD_METADATA},
    {"more entries than can be counted", NOTHING,
     OPS({.type = METADATA,
          .key = BYTES("key"),
          .value = BYTES("v"),
          .count = (size_t)INT32_MAX + 1}),
     AT_ONCE, BAD_METADATA},
    {"any byte in a binary value", NOTHING, OPS(PAIR("key-bin", "\0\r\n\xff")), AT_ONCE, OK},
    {"a key of gRPC's", NOTHING, OPS(PAIR("grpc-foo", "v")), AT_ONCE, OK},
    {"a timeout of the application's", NOTHING, OPS(PAIR("grpc-timeout", "x")), AT_ONCE, OK},
    {"te", NOTHING, OPS(PAIR("te", "x")), AT_ONCE, OK},
    {"content-length", NOTHING, OPS(PAIR("content-length", "3")), AT_ONCE, OK},
    {"user-agent", NOTHING, OPS(PAIR("user-agent", "x")), AT_ONCE, OK},

    {"metadata again", OPS(OP(METADATA)), OPS(OP(METADATA)), AFTER_ITS_TAG, TOO_MANY},
    {"metadata again, illegal", OPS(OP(METADATA)), OPS(PAIR("KEY", "v")), AFTER_ITS_TAG, TOO_MANY},
    {"metadata again, flagged", OPS(OP(METADATA)), OPS(FLAGGED(METADATA, 1)), AFTER_ITS_TAG,
     BAD_FLAGS},
    {"metadata again, behind another", OPS(OP(METADATA)), OPS(OP(GET_MESSAGE), OP(METADATA)),
     AFTER_ITS_TAG, TOO_MANY},
    {"received metadata again", OPS(OP(GET_METADATA), OP(METADATA)),
     OPS(OP(GET_MESSAGE), OP(GET_METADATA)), AT_ONCE, TOO_MANY},
    {"a status again", OPS(OP(METADATA), OP(GET_STATUS)), OPS(OP(GET_STATUS)), AT_ONCE, TOO_MANY},
    {"a close again", OPS(OP(GET_METADATA), OP(CLOSE)), OPS(OP(CLOSE)), AT_ONCE, TOO_MANY},
    {"a message while one is received", OPS(OP(METADATA), OP(GET_MESSAGE)), OPS(OP(GET_MESSAGE)),
     AT_ONCE, TOO_MANY},
    {"a message while one is sent", OPS(OP(MESSAGE)), OPS(OP(GET_METADATA), OP(MESSAGE)), AT_ONCE,
     TOO_MANY},
    {"none while one is sent", OPS(OP(MESSAGE)), OPS(OP(GET_METADATA), NO_MESSAGE), AT_ONCE,
     BAD_MESSAGE},
    {"the same slot", OPS(OP(GET_MESSAGE), OP(CLOSE)), OPS(OP(GET_MESSAGE)), AT_ONCE, TOO_MANY},
    {"the same slot before flags", OPS(OP(MESSAGE)), OPS(FLAGGED(MESSAGE, ~0u)), AT_ONCE, TOO_MANY},
    {"the same slot before what is reserved", OPS(OP(MESSAGE)), OPS(RESERVED(MESSAGE)), AT_ONCE,
     TOO_MANY},
    {"a server's in the slot of a close", OPS(OP(CLOSE)), OPS(OP(SERVERS_STATUS)), AT_ONCE,
     TOO_MANY},
    {"a server's in the slot of a status", OPS(OP(GET_STATUS)), OPS(OP(SERVERS_CLOSE)), AT_ONCE,
     TOO_MANY},
    {"another slot", OPS(OP(GET_STATUS)), OPS(FLAGGED(GET_METADATA, 1)), AT_ONCE, BAD_FLAGS},
    {"flags behind good ones", OPS(OP(METADATA)),
     OPS(OP(MESSAGE), OP(CLOSE), FLAGGED(GET_STATUS, 2)), AT_ONCE, BAD_FLAGS},
};

static unsigned types_of(const struct batch_spec *spec) {
  unsigned types = 0;
  for (size_t i = 0; i < spec->n_ops; i++) {
    types |= 1u << spec->ops[i].type;
  }
  return types;
}

static grpc_call_error cores_answer(const struct world *world, const struct row *row) {
  struct side side;
  side_init_cores(&side, world);
  if (row->first.n_ops > 0) {
    assert_int_equal(side_start(&side, &row->first), OK);
  }
  if (row->when == AFTER_ITS_TAG) {
    side_drain(&side);
  }
  grpc_call_error error = side_start(&side, &row->second);
  side_fini(&side);
  return error;
}

/* What is left of a unary call's operations, as a batch. */
static struct batch_spec rest_of(unsigned types) {
  struct batch_spec rest = {.n_ops = 0};
  for (size_t i = 0; i < N_CLIENT_OPS; i++) {
    if ((types & (1u << client_ops[i])) == 0) {
      rest.ops[rest.n_ops++] = (struct op_spec){.type = client_ops[i]};
    }
  }
  return rest;
}

/* The call is as good as one that was never given a bad batch. */
static void assert_completes(struct side *side, const struct row *row, grpc_call_error error) {
  struct batch_spec rest =
      rest_of(types_of(&row->first) | (error == OK ? types_of(&row->second) : 0));
  if (side_start(side, &rest) != OK) {
    fail_msg("%s: a good batch is refused afterwards", row->why);
  }
  side_drain(side);
  if (side->status != GRPC_STATUS_OK || !message_is(side->reply, "hello")) {
    fail_msg("%s: the call ends with %d", row->why, (int)side->status);
  }
}

static void a_bad_batch_gets_the_cores_answer_and_leaves_no_trace(void **state) {
  const struct world *world = *state;
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    const struct row *row = &rows[i];
    struct side side;
    grpc_call_error cores = cores_answer(world, row);
    side_init_ours(&side, world);
    if (row->first.n_ops > 0) {
      assert_int_equal(side_start(&side, &row->first), OK);
    }
    if (row->when == AFTER_ITS_TAG) {
      side_drain(&side);
    }
    grpc_call_error ours = side_start(&side, &row->second);
    if (cores != row->error || ours != cores) {
      fail_msg("%s: %s from weir, %s from the core", row->why, grpc_call_error_to_string(ours),
               grpc_call_error_to_string(cores));
    }
    assert_completes(&side, row, ours);
    side_fini(&side);
  }
}

/* After a refusal, and after the end: whatever the answers are, they are the core's. */
static void after_the_end_the_answers_are_the_cores_too(void **state) {
  const struct world *world = *state;
  static const struct batch_spec all =
      OPS(OP(METADATA), OP(MESSAGE), OP(CLOSE), OP(GET_METADATA), OP(GET_MESSAGE), OP(GET_STATUS));
  for (size_t i = 0; i < N_CLIENT_OPS; i++) {
    struct side cores;
    struct side ours;
    side_init_cores(&cores, world);
    side_init_ours(&ours, world);
    assert_int_equal(side_start(&cores, &all), OK);
    assert_int_equal(side_start(&ours, &all), OK);
    side_drain(&cores);
    side_drain(&ours);
    grpc_byte_buffer_destroy(cores.reply); /* it may be asked for again */
    grpc_byte_buffer_destroy(ours.reply);
    cores.reply = NULL;
    ours.reply = NULL;
    struct batch_spec one = {.ops = {{.type = client_ops[i]}}, .n_ops = 1};
    assert_int_equal(side_start(&ours, &one), side_start(&cores, &one));
    side_fini(&cores);
    side_fini(&ours);
  }
}

/* --- chance --- */

static uint64_t random_next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static struct op_spec random_op(uint64_t *seed) {
  struct op_spec spec = {.type = (grpc_op_type)(random_next(seed) % 8)};
  switch (random_next(seed) % 12) {
  case 0:
    spec.flags = 1u << random_next(seed) % 32;
    break;
  case 1:
    spec.reserved = true;
    break;
  case 2:
    spec.no_message = true;
    break;
  case 3:
    spec.key = (struct bytes)BYTES("KEY");
    spec.value = (struct bytes)BYTES("v");
    break;
  default:
    break;
  }
  return spec;
}

static struct batch_spec random_batch(uint64_t *seed) {
  struct batch_spec spec = {.n_ops = random_next(seed) % 4 + 1};
  for (size_t i = 0; i < spec.n_ops; i++) {
    spec.ops[i] = random_op(seed);
  }
  return spec;
}

/* First batches all of whose operations that come again stay under way. */
static const struct batch_spec first_batches[] = {
    NOTHING,
    OPS(OP(METADATA)),
    OPS(OP(MESSAGE)),
    OPS(OP(CLOSE), OP(MESSAGE)),
    OPS(OP(GET_MESSAGE), OP(GET_METADATA)),
    OPS(OP(GET_STATUS)),
    OPS(OP(METADATA), OP(GET_MESSAGE), OP(GET_STATUS)),
    OPS(OP(GET_METADATA), OP(MESSAGE), OP(GET_MESSAGE)),
};

/* Nobody answers: a message that is received when nobody has asked for the initial metadata waits
 * for them in the core, whatever happens, a cancellation included. */
static void random_batches_get_the_cores_answer(void **state) {
  struct world silent = *(const struct world *)*state;
  const struct world *world = &silent;
  silent.method = OTHER_METHOD;
  uint64_t seed = 20221130;
  size_t n_accepted = 0;
  for (int i = 0; i < 3000; i++) {
    struct row row = {.first = first_batches[random_next(&seed) % COUNT_OF(first_batches)],
                      .second = random_batch(&seed)};
    struct side side;
    grpc_call_error cores = cores_answer(world, &row);
    side_init_ours(&side, world);
    if (row.first.n_ops > 0) {
      assert_int_equal(side_start(&side, &row.first), OK);
    }
    grpc_call_error ours = side_start(&side, &row.second);
    if (ours != cores) {
      fail_msg("pair %d: %s from weir, %s from the core", i, grpc_call_error_to_string(ours),
               grpc_call_error_to_string(cores));
    }
    n_accepted += ours == OK ? 1 : 0;
    side_fini(&side);
  }
  assert_true(n_accepted > 200);
}

/* --- what is not in a batch --- */

static void an_empty_batch_needs_no_operations(void **state) {
  const struct world *world = *state;
  struct side cores;
  struct side ours;
  side_init_cores(&cores, world);
  side_init_ours(&ours, world);
  assert_int_equal(grpc_call_start_batch(cores.cores, NULL, 0, cores.tags, NULL), OK);
  assert_int_equal(weir_call_start_batch(ours.ours, NULL, 0, ours.tags, NULL), OK);
  cores.n_under_way = 1;
  ours.n_under_way = 1;
  side_drain(&cores);
  side_drain(&ours);
  side_fini(&cores);
  side_fini(&ours);
}

static void nothing_may_be_passed_as_reserved(void **state) {
  const struct world *world = *state;
  struct side cores;
  struct side ours;
  side_init_cores(&cores, world);
  side_init_ours(&ours, world);
  assert_int_equal(grpc_call_start_batch(cores.cores, NULL, 0, cores.tags, &cores), FAILED);
  assert_int_equal(weir_call_start_batch(ours.ours, NULL, 0, ours.tags, &ours), FAILED);
  side_fini(&cores);
  side_fini(&ours);
}

/* Why weir has to look first: if this fails, the core has become better than its 1.51. */
static void the_cores_own_refusal_spoils_the_call_and_eats_the_message(void **state) {
  const struct world *world = *state;
  static const struct batch_spec bad = OPS(OP(MESSAGE), FLAGGED(METADATA, 1));
  static const struct batch_spec good = OPS(OP(MESSAGE), OP(METADATA));
  struct side cores;
  struct side ours;
  side_init_cores(&cores, world);
  side_init_ours(&ours, world);
  assert_int_equal(side_start(&cores, &bad), BAD_FLAGS);
  assert_int_equal(grpc_byte_buffer_length(cores.request), 0);
  assert_int_equal(side_start(&cores, &good), TOO_MANY);
  assert_int_equal(side_start(&ours, &bad), BAD_FLAGS);
  assert_int_equal(grpc_byte_buffer_length(ours.request), 5);
  assert_int_equal(side_start(&ours, &good), OK);
  side_fini(&cores);
  side_fini(&ours);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_bad_batch_gets_the_cores_answer_and_leaves_no_trace),
      cmocka_unit_test(after_the_end_the_answers_are_the_cores_too),
      cmocka_unit_test(random_batches_get_the_cores_answer),
      cmocka_unit_test(an_empty_batch_needs_no_operations),
      cmocka_unit_test(nothing_may_be_passed_as_reserved),
      cmocka_unit_test(the_cores_own_refusal_spoils_the_call_and_eats_the_message),
  };
  return cmocka_run_group_tests_name("batch validation", tests, open_plain_world, close_world) +
         cmocka_run_group_tests_name("batch validation of calls that may be retried", tests,
                                     open_retrying_world, close_world);
}
