/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/trailers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include "interceptors/translation/details.h"
#include "test/stack/stack_fixture.h"
#include "test/stack/trailers_plan.h"
#include "test/support/seeded_random.h"

/* Of those that are told by a number. */
#define SHORTEST 24

/* How weir's messages at a boundary begin. */
#define OWN_WORDS "downstream service"

/* What a call of the fixture has until it has ended. */
#define NO_STATUS 77

struct world {
  struct fixture *f;
  struct trailers_plan plan;
  struct trailers_tally *tally;
  const struct trailers_memory *memory;
  struct unary unary;
};

/* --- the call --- */

static void answer_attempt(void *context, struct sent_attempt *attempt) {
  const struct world *world = context;
  const bool is_first = world->f->transport.n_sent <= 1;
  attempt->will_answer = true;
  attempt->answer_at_ns = attempt->sent_at_ns + world->plan.answer_after_ns;
  attempt->answer = world->plan.recovers && !is_first ? answer_ok : world->plan.answer;
}

/* The operations of each batch, by the order of unary_ops: from, to, from, to. */
static const uint8_t batches[][4][2] = {
    [TRAILERS_ONE_BATCH] = {{0, 6}},
    [TRAILERS_STREAM] = {{0, 3}, {3, 4}, {4, 5}, {5, 6}},
    [TRAILERS_STREAM_STATUS_FIRST] = {{5, 6}, {0, 3}, {3, 5}},
    [TRAILERS_STREAM_AT_ONCE] = {{0, 3}, {3, 6}},
};

static bool has_ended(const struct world *world) {
  return (int)world->unary.status != NO_STATUS;
}

static void start(struct world *world) {
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(&world->unary, ops);
  for (size_t i = 0; i < 4; i++) {
    const uint8_t *part = batches[world->plan.shape][i];
    const size_t n_ops = (size_t)(part[1] - part[0]);
    if (n_ops > 0 && weir_call_start_batch(world->unary.call, ops + part[0], n_ops,
                                           &world->unary.status, NULL) != GRPC_CALL_OK) {
      assert_true(world->f->allocator.n_failed > 0);
      return;
    }
  }
}

/* --- what was seen of it --- */

static bool slice_is(grpc_slice slice, const char *text) {
  return grpc_slice_str_cmp(slice, text) == 0;
}

static void check_message(const struct world *world) {
  const size_t n_own = sizeof OWN_WORDS - 1;
  assert_true(GRPC_SLICE_LENGTH(world->unary.details) > n_own);
  assert_memory_equal(GRPC_SLICE_START_PTR(world->unary.details), OWN_WORDS, n_own);
  assert_memory_equal(world->unary.error_string, OWN_WORDS, n_own);
  assert_null(strstr(world->unary.error_string, "10.0.0.7")); /* as the core has it */
}

/* What weir makes of details under the status that is seen. */
static bool make_details(const struct world *world, const void *bytes, size_t size,
                         grpc_slice *out) {
  const grpc_slice message = world->unary.details;
  return weir__translation_details(trailers_types, world->plan.n_kept_types, world->unary.status,
                                   (const char *)GRPC_SLICE_START_PTR(message),
                                   GRPC_SLICE_LENGTH(message), bytes, size, NULL, out);
}

/* They are as weir makes them: of what is there already, the same again. */
static void check_are_made(const struct world *world, grpc_slice seen) {
  grpc_slice again;
  assert_true(make_details(world, GRPC_SLICE_START_PTR(seen), GRPC_SLICE_LENGTH(seen), &again));
  assert_true(grpc_slice_eq(seen, again));
  grpc_slice_unref(again);
}

/* All that is to be kept of what the peer sent is there. */
static void check_are_all(const struct world *world, grpc_slice seen) {
  const struct trailers_plan *plan = &world->plan;
  grpc_slice expected;
  (void)make_details(world, plan->details.bytes, plan->details.size, &expected);
  assert_true(grpc_slice_eq(seen, expected));
  grpc_slice_unref(expected);
}

static void check_trailing(const struct world *world, bool is_the_peers) {
  const struct trailers_plan *plan = &world->plan;
  const grpc_metadata_array *trailing = &world->unary.trailing_metadata;
  grpc_slice details = grpc_empty_slice();
  size_t n_details = 0;
  for (size_t i = 0; i < trailing->count; i++) {
    if (slice_is(trailing->metadata[i].key, DETAILS_KEY)) {
      n_details++;
      details = trailing->metadata[i].value;
      assert_true(plan->n_kept_types > 0);
      check_are_made(world, details);
    } else {
      assert_true(plan->keeps_metadata && slice_is(trailing->metadata[i].key, KEPT_KEY));
      world->tally->n_kept_metadata++;
    }
  }
  assert_true(n_details <= 1);
  if (is_the_peers && plan->has_details && world->f->allocator.n_failed == 0) {
    check_are_all(world, details);
    world->tally->n_dropped_details += plan->n_kept_types > 0 && n_details == 0 ? 1 : 0;
  }
  world->tally->n_kept_details += n_details;
}

static void check_can_not_see(const struct world *world, const char *word) {
  if (unary_can_see(&world->unary, word)) {
    fail_msg("%s can be seen", word);
  }
}

static bool has_headers(enum wire_event what) {
  return what == WIRE_TRAILERS || what == WIRE_MESSAGE_THEN || what == WIRE_TOO_LARGE;
}

/* Headers that come with the failure are held back like the rest; those to be kept are all there. */
static void check_initial(const struct world *world, bool is_the_peers) {
  const struct trailers_plan *plan = &world->plan;
  const grpc_metadata_array *initial = &world->unary.initial_metadata;
  for (size_t i = 0; i < initial->count; i++) {
    assert_true(plan->keeps_metadata && slice_is(initial->metadata[i].key, KEPT_KEY));
  }
  if (is_the_peers && plan->keeps_metadata && has_headers(plan->answer.what)) {
    assert_int_equal(initial->count, plan->n_kept_early);
  }
  check_can_not_see(world, PLANTED_EARLY);
  if (!plan->keeps_metadata) {
    check_can_not_see(world, PLANTED_EARLY_KEPT);
  }
  world->tally->n_kept_early += initial->count;
  world->tally->n_dropped_early += initial->count == 0 && has_headers(plan->answer.what) ? 1 : 0;
}

static void check_scrubbed(const struct world *world, bool is_the_peers) {
  check_message(world);
  check_trailing(world, is_the_peers);
  check_can_not_see(world, PLANTED_SECRET);
  if (world->plan.n_kept_types < 1) {
    check_can_not_see(world, PLANTED_RETRY);
  }
  if (world->plan.n_kept_types < 2) {
    check_can_not_see(world, PLANTED_LIMIT);
  }
  if (!world->plan.keeps_metadata) {
    check_can_not_see(world, PLANTED_KEPT);
  }
  if (trailers_plan_gets_all_at_once(&world->plan)) {
    check_initial(world, is_the_peers);
  }
}

/* What a service answers because of the call. */
static void check_reply(const struct world *world, const struct weir_call_report *report) {
  struct weir_reply reply;
  grpc_op op;
  weir_reply_status(report, &reply, &op);
  assert_int_equal(op.data.send_status_from_server.status, world->unary.status);
  assert_null(strchr(reply.message, 'Q'));
  const size_t count = op.data.send_status_from_server.trailing_metadata_count;
  assert_true(count <= WEIR_REPLY_METADATA_MAX);
  for (size_t i = 0; i < count; i++) {
    assert_true(slice_is(reply.trailing_metadata[i].key, "grpc-retry-pushback-ms"));
    assert_true(slice_is(reply.trailing_metadata[i].value, "-1"));
  }
}

static void check(const struct world *world) {
  const struct weir_call_report report = unary_report(&world->unary);
  const int status = (int)world->unary.status;
  assert_in_range(status, 0, WEIR_N_STATUS_CODES - 1);
  assert_in_range((int)report.raw_code, 0, WEIR_N_STATUS_CODES - 1);
  assert_int_equal(report.code, status);
  assert_int_equal(status == GRPC_STATUS_OK, report.raw_code == GRPC_STATUS_OK);
  assert_int_equal(world->unary.error_string == NULL, status == GRPC_STATUS_OK);
  check_reply(world, &report);
  const bool is_scrubbed = world->f->translation.boundary && status != GRPC_STATUS_OK;
  assert_int_equal(world->f->log.n_records, is_scrubbed);
  if (is_scrubbed) {
    world->tally->n_failures++;
    check_scrubbed(world, report.origin == WEIR_ORIGIN_PEER);
  } else if (status != GRPC_STATUS_OK) {
    assert_true(GRPC_SLICE_LENGTH(world->unary.details) <= world->f->translation.max_message_bytes);
  }
}

/* --- the whole --- */

static void count(const struct world *world) {
  struct trailers_tally *tally = world->tally;
  tally->n_calls++;
  tally->n_streams += world->plan.shape != TRAILERS_ONE_BATCH ? 1 : 0;
  tally->n_retried += world->f->transport.n_sent > 1 ? 1 : 0;
  tally->n_out_of_memory += world->f->allocator.n_failed > 0 ? 1 : 0;
  tally->n_odd_statuses +=
      world->plan.answer.status < 0 || world->plan.answer.status >= WEIR_N_STATUS_CODES ? 1 : 0;
}

static void make_call(struct world *world) {
  struct fixture *f = world->f;
  weir_inbound *inbound =
      world->plan.is_serving ? fixture_inbound(f, T0 + SECONDS(5), NULL, NULL) : NULL;
  if (world->memory->fails_at > 0 && world->memory->for_good) {
    counting_allocator_fail_from_nth(&f->allocator, world->memory->fails_at);
  } else if (world->memory->fails_at > 0) {
    counting_allocator_fail_nth(&f->allocator, world->memory->fails_at);
  }
  unary_init_with(f, &world->unary, &(struct unary_options){.inbound = inbound});
  weir_inbound_release(inbound);
}

static void run_call(struct world *world) {
  struct fixture *f = world->f;
  fixture_open(f);
  f->transport.on_send = answer_attempt;
  f->transport.on_send_context = world;
  make_call(world);
  if (world->unary.call != NULL) {
    start(world);
    run_until_idle(f);
  }
  assert_true(has_ended(world) || f->allocator.n_failed > 0);
  if (has_ended(world)) {
    check(world);
  }
  count(world);
  unary_fini(&world->unary);
  run_until_idle(f); /* a call that was let go under way */
}

/* `memory` NULL: as the bytes say. */
static size_t run(const uint8_t *bytes, size_t size, const struct trailers_memory *memory,
                  struct trailers_tally *tally) {
  struct world world = {.tally = tally};
  void *state = NULL;
  assert_int_equal(fixture_setup(&state), 0);
  world.f = state;
  trailers_plan_read(&world.plan, bytes, size, world.f);
  const struct trailers_memory planned = {.fails_at = world.plan.fails_at};
  world.memory = memory != NULL ? memory : &planned;
  if (world.plan.is_policy_valid) {
    run_call(&world);
  } else {
    assert_int_equal(fixture_make_policy(world.f), WEIR_ERROR_INVALID_ARGUMENT);
    tally->n_refused_policies++;
  }
  const size_t n_failed = world.f->allocator.n_failed;
  assert_int_equal(fixture_teardown(&state), 0);
  trailers_plan_fini(&world.plan);
  return n_failed;
}

size_t trailers_run_with(const uint8_t *bytes, size_t size, const struct trailers_memory *memory,
                         struct trailers_tally *tally) {
  return run(bytes, size, memory, tally);
}

void trailers_run(const uint8_t *bytes, size_t size, struct trailers_tally *tally) {
  (void)run(bytes, size, NULL, tally);
}

size_t trailers_of_seed(uint64_t seed, uint8_t bytes_out[TRAILERS_MAX_BYTES]) {
  struct seeded_random random;
  seeded_random_init(&random, seed);
  const size_t size = SHORTEST + seeded_random_next(&random) % (TRAILERS_MAX_BYTES - SHORTEST + 1);
  for (size_t i = 0; i < size; i++) {
    bytes_out[i] = (uint8_t)(seeded_random_next(&random) >> 56);
  }
  return size;
}
