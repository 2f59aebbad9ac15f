/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/served.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include "src/call/inbound.h"
#include "src/time/clock.h"
#include "src/time/instant.h"
#include "test/stack/served_expected.h"
#include "test/stack/served_plan.h"
#include "test/stack/stack_fixture.h"
#include "test/support/seeded_random.h"

/* Of those that are told by a number. */
#define SHORTEST 16

/* What a call of the fixture has until it has ended. */
#define NO_STATUS 77

#define ANSWER_AFTER_NS MS(1)

/* So long no retry of the fixture's takes. */
#define AMPLE_NS SECONDS(4)

#define N_BATCHES 4

struct world {
  struct fixture *f;
  struct served_plan plan;
  struct served_expected expected;
  struct served_tally *tally;
  weir_inbound *inbound;
  int64_t inbound_deadline_at_ns; /* that weir has read */
  grpc_call *parent;
  struct unary unary;
  size_t n_started; /* batches */
  int64_t deadline_at_ns;
  enum weir_deadline_bound bound;
};

/* --- the request --- */

static enum weir_error new_inbound(struct world *world) {
  struct served_plan *plan = &world->plan;
  struct fixture *f = world->f;
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  grpc_metadata metadata[SERVED_ENTRIES];
  grpc_call_details details;
  options.allocator = &f->allocator.base;
  if (plan->has_trace_keys) {
    options.trace_keys = plan->trace_keys;
    options.n_trace_keys = plan->n_trace_keys;
  }
  memset(metadata, 0, sizeof metadata);
  memset(&details, 0, sizeof details);
  details.deadline = plan->deadline;
  for (size_t i = 0; i < plan->n_entries; i++) {
    const struct served_entry *entry = &plan->entries[i];
    metadata[i].key = scripted_transport_slice(&f->transport, entry->key, entry->key_size);
    metadata[i].value = scripted_transport_slice(&f->transport, entry->value, entry->value_size);
  }
  const grpc_metadata_array array = {
      .count = plan->n_entries, .capacity = SERVED_ENTRIES, .metadata = metadata};
  const struct weir__inbound_source source = {.details = plan->has_details ? &details : NULL,
                                              .metadata = plan->has_metadata ? &array : NULL,
                                              .server_call = world->parent,
                                              .transport = &f->transport.base};
  enum weir_error error = weir__inbound_new(&source, &options, &world->inbound);
  for (size_t i = 0; i < plan->n_entries; i++) {
    grpc_slice_unref(metadata[i].key);
    grpc_slice_unref(metadata[i].value);
  }
  return error;
}

/* False: there is none. */
static bool serve(struct world *world) {
  struct fixture *f = world->f;
  const size_t n_slices = f->transport.n_slices;
  const int64_t before_ns = weir__clock_now_ns(weir__clock_or_default(NULL));
  enum weir_error error = new_inbound(world);
  const int64_t after_ns = weir__clock_now_ns(weir__clock_or_default(NULL));
  served_expect(&world->plan, before_ns, after_ns, &world->expected);
  f->clock.now_ns = after_ns;
  assert_int_equal(f->transport.n_slices, n_slices); /* what is kept is copied */
  assert_int_equal(error == WEIR_OK, world->inbound != NULL);
  if (!world->expected.are_keys_legal) {
    assert_int_equal(error, WEIR_ERROR_INVALID_ARGUMENT);
    world->tally->n_refused_keys++;
  } else if (world->inbound == NULL) {
    assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
    assert_true(f->allocator.n_failed > 0);
  } else {
    world->inbound_deadline_at_ns = world->inbound->facts.deadline_at_ns;
    assert_true(world->inbound_deadline_at_ns >= world->expected.earliest_at_ns);
    assert_true(world->inbound_deadline_at_ns <= world->expected.latest_at_ns);
  }
  return world->inbound != NULL;
}

/* --- the call --- */

static void bind(struct world *world, int64_t at_ns, enum weir_deadline_bound bound,
                 bool wins_ties) {
  if (at_ns < world->deadline_at_ns ||
      (wins_ties && at_ns == world->deadline_at_ns && at_ns != WEIR_NO_DEADLINE)) {
    world->deadline_at_ns = at_ns;
    world->bound = bound;
  }
}

static int64_t from_now(const struct world *world, int64_t ns) {
  return ns == WEIR_NO_LIMIT_NS ? WEIR_NO_DEADLINE : world->f->clock.now_ns + ns;
}

/* As doc/deadlines.md has it. */
static void expect_deadline(struct world *world) {
  const struct fixture *f = world->f;
  const struct weir_deadline_options *options = &f->deadline;
  const bool in_batches = world->plan.in_batches;
  const bool is_bound = !world->plan.is_detached && options->inherits_parent;
  world->deadline_at_ns = WEIR_NO_DEADLINE;
  world->bound = WEIR_DEADLINE_BOUND_NONE;
  if (world->plan.timeout_ns > 0) {
    bind(world, from_now(world, world->plan.timeout_ns), WEIR_DEADLINE_BOUND_CALL, false);
  }
  if (is_bound && world->inbound_deadline_at_ns != WEIR_NO_DEADLINE) {
    bind(world, weir__instant_add(world->inbound_deadline_at_ns, -options->margin_ns),
         WEIR_DEADLINE_BOUND_PARENT, true);
  }
  bind(world, from_now(world, f->method.timeout_ns), WEIR_DEADLINE_BOUND_POLICY, false);
  if (world->deadline_at_ns == WEIR_NO_DEADLINE) {
    bind(world,
         from_now(world,
                  in_batches ? options->default_stream_timeout_ns : options->default_timeout_ns),
         WEIR_DEADLINE_BOUND_POLICY, false);
  }
  bind(world,
       from_now(world, in_batches ? options->max_stream_timeout_ns : options->max_timeout_ns),
       WEIR_DEADLINE_BOUND_POLICY, false);
}

static void make_call(struct world *world) {
  struct weir_inbound_scope scope;
  struct unary_options options = {
      .deadline_at_ns = world->plan.timeout_ns > 0 ? from_now(world, world->plan.timeout_ns) : 0,
      .inbound = world->plan.is_ambient ? NULL : world->inbound,
      .inbound_bond = world->plan.is_detached ? WEIR_INBOUND_DETACHED : WEIR_INBOUND_ATTACHED,
  };
  weir_inbound_enter(world->plan.is_ambient ? world->inbound : NULL, &scope);
  unary_init_with(world->f, &world->unary, &options);
  weir_inbound_leave(&scope);
  weir_inbound_release(world->inbound);
  assert_true(world->unary.call != NULL || world->f->allocator.n_failed > 0);
  for (size_t i = 0; i < world->plan.n_app; i++) {
    unary_add_metadata(world->f, &world->unary, world->plan.app[i].key, world->plan.app[i].value);
  }
}

/* In one batch, or in several, with the metadata in the first. */
static void start(struct world *world) {
  static const uint8_t batches[2][N_BATCHES][2] = {{{0, 6}}, {{0, 3}, {3, 4}, {4, 5}, {5, 6}}};
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&world->unary, ops);
  for (size_t i = 0; i < N_BATCHES; i++) {
    const uint8_t *part = batches[world->plan.in_batches ? 1 : 0][i];
    const size_t n_ops = (size_t)(part[1] - part[0]);
    if (n_ops == 0) {
      return;
    }
    if (weir_call_start_batch(world->unary.call, ops + part[0], n_ops, &world->unary.status,
                              NULL) != GRPC_CALL_OK) {
      assert_true(world->f->allocator.n_failed > 0);
      return;
    }
    world->n_started++;
  }
}

/* --- what was seen of it --- */

static void take_entry(struct expected_metadata *expected, const char *key, const char *value,
                       size_t value_size) {
  for (size_t i = 0; i < expected->n_entries; i++) {
    const struct expected_entry *entry = &expected->entries[i];
    if (strcmp(entry->key, key) == 0 && entry->value_size == value_size &&
        memcmp(entry->value, value, value_size) == 0) {
      expected->entries[i] = expected->entries[--expected->n_entries];
      return;
    }
  }
  fail_msg("%s is sent with what it should not have", key);
}

static void check_attempt(struct world *world, size_t nth) {
  const struct sent_attempt *attempt = sent(world->f, nth);
  static struct expected_metadata expected;
  const bool is_bound = world->deadline_at_ns != WEIR_NO_DEADLINE;
  assert_true(attempt->deadline_at_ns == world->deadline_at_ns);
  assert_true(attempt->sent_at_ns < world->deadline_at_ns);
  assert_ptr_equal(attempt->parent, world->plan.is_detached ? NULL : world->parent);
  served_expect_metadata(&world->plan, &world->expected, world->f,
                         is_bound ? (world->deadline_at_ns - attempt->sent_at_ns) / 1000 : -1,
                         nth - 1, &expected);
  world->tally->n_overridden += expected.n_overridden;
  for (size_t i = 0; i < attempt->n_metadata; i++) {
    take_entry(&expected, attempt->metadata[i].key, attempt->metadata[i].value,
               attempt->metadata[i].value_size);
  }
  if (expected.n_entries > 0) {
    fail_msg("%s is not sent", expected.entries[0].key);
  }
}

static void check_attempts(struct world *world) {
  const struct fixture *f = world->f;
  const bool retries =
      !world->plan.is_answered && served_expect_retries(&world->plan, &world->expected, f);
  const size_t most = retries ? f->method.retry.max_attempts : 1;
  const bool is_ample = world->deadline_at_ns - sent(f, 1)->sent_at_ns > AMPLE_NS;
  assert_true(f->transport.n_sent <= most);
  if (f->allocator.n_failed == 0 && is_ample) {
    assert_int_equal(f->transport.n_sent, most);
  }
  world->tally->n_retried += f->transport.n_sent > 1 ? 1 : 0;
}

static void check_status(const struct world *world, bool is_past) {
  const int status = (int)world->unary.status;
  const int answer = world->plan.is_answered ? GRPC_STATUS_OK : GRPC_STATUS_UNAVAILABLE;
  if (is_past) {
    assert_int_equal(status, GRPC_STATUS_DEADLINE_EXCEEDED);
  } else if (status != answer) {
    assert_int_equal(status, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_true(world->f->clock.now_ns >= world->deadline_at_ns);
  }
}

static void check_reply(const struct world *world, const struct weir_call_report *report) {
  struct weir_reply reply;
  grpc_op op;
  weir_reply_status(report, &reply, &op);
  assert_int_equal(op.data.send_status_from_server.status, world->unary.status);
  assert_null(strstr(reply.message, "hunter2"));
  assert_true(op.data.send_status_from_server.trailing_metadata_count <= WEIR_REPLY_METADATA_MAX);
}

static void check_end(struct world *world, bool is_past) {
  const struct weir_call_report report = unary_report(&world->unary);
  check_status(world, is_past);
  check_reply(world, &report);
  assert_int_equal(report.n_attempts, world->f->transport.n_sent);
  assert_int_equal(report.deadline_bound, world->bound);
  assert_int_equal(world->f->n_foreign, world->n_started);
  world->tally->n_bound_by_parent += report.deadline_bound == WEIR_DEADLINE_BOUND_PARENT ? 1 : 0;
}

static void check(struct world *world, int64_t started_at_ns) {
  const bool is_past = world->deadline_at_ns <= started_at_ns;
  if (world->f->transport.n_sent > 0) {
    assert_false(is_past);
    check_attempts(world);
  }
  for (size_t nth = 1; nth <= world->f->transport.n_sent; nth++) {
    check_attempt(world, nth);
  }
  if ((int)world->unary.status != NO_STATUS) {
    check_end(world, is_past);
  } else {
    assert_true(world->f->allocator.n_failed > 0);
  }
  world->tally->n_past += is_past ? 1 : 0;
  world->tally->n_marked += world->expected.is_marked ? 1 : 0;
  world->tally->n_traces += world->expected.n_traces;
}

/* --- the whole --- */

static void run_call(struct world *world) {
  expect_deadline(world);
  const int64_t started_at_ns = world->f->clock.now_ns;
  make_call(world);
  if (world->unary.call != NULL) {
    start(world);
    run_until_idle(world->f);
  }
  check(world, started_at_ns);
  unary_fini(&world->unary);
  run_until_idle(world->f); /* a call that was let go under way */
}

static void run_request(struct world *world, const struct served_memory *memory) {
  struct fixture *f = world->f;
  fixture_open(f);
  scripted_transport_always(&f->transport, ANSWER_AFTER_NS,
                            world->plan.is_answered ? answer_ok : answer_unavailable);
  world->parent = world->plan.has_parent ? scripted_transport_parent(&f->transport) : NULL;
  if (memory->fails_at > 0 && memory->for_good) {
    counting_allocator_fail_from_nth(&f->allocator, memory->fails_at);
  } else if (memory->fails_at > 0) {
    counting_allocator_fail_nth(&f->allocator, memory->fails_at);
  }
  if (serve(world)) {
    run_call(world);
  }
  if (world->parent != NULL) {
    f->transport.base.call_unref(&f->transport, world->parent);
  }
}

size_t served_run_with(const uint8_t *bytes, size_t size, const struct served_memory *memory,
                       struct served_tally *tally) {
  static struct world world;
  void *state = NULL;
  memset(&world, 0, sizeof world);
  world.tally = tally;
  assert_int_equal(fixture_setup(&state), 0);
  world.f = state;
  served_plan_read(&world.plan, bytes, size, world.f);
  run_request(&world, memory);
  const size_t n_failed = world.f->allocator.n_failed;
  tally->n_requests++;
  tally->n_out_of_memory += n_failed > 0 ? 1 : 0;
  assert_int_equal(fixture_teardown(&state), 0);
  return n_failed;
}

void served_run(const uint8_t *bytes, size_t size, struct served_tally *tally) {
  (void)served_run_with(bytes, size, &(struct served_memory){.fails_at = 0}, tally);
}

size_t served_of_seed(uint64_t seed, uint8_t bytes_out[SERVED_MAX_BYTES]) {
  struct seeded_random random;
  seeded_random_init(&random, seed);
  const size_t size = SHORTEST + seeded_random_next(&random) % (SERVED_MAX_BYTES - SHORTEST + 1);
  for (size_t i = 0; i < size; i++) {
    bytes_out[i] = (uint8_t)(seeded_random_next(&random) >> 56);
  }
  return size;
}
