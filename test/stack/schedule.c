/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/slice.h>

#include <weir/throttle.h>

#include "src/call/environment.h"
#include "src/channel/channel.h"
#include "src/fallback/fallbacks.h"
#include "src/time/timespec.h"
#include "test/stack/schedule_check.h"
#include "test/stack/schedule_peer.h"
#include "test/stack/schedule_queue.h"
#include "test/stack/schedule_trace.h"
#include "test/stack/schedule_world.h"

/* Of those that are told by a number. */
#define SHORTEST 32

/* --- steps --- */

static struct schedule_call *any_call(struct schedule_world *world) {
  return world->n_calls > 0 ? &world->calls[schedule_bytes_next(&world->in) % world->n_calls]
                            : NULL;
}

static void start_all(struct schedule_world *world, struct schedule_call *call) {
  while (schedule_call_start_next(world, call)) {
    /* all that the core takes */
  }
}

static void step_make(struct schedule_world *world, uint8_t more) {
  struct schedule_call *call = schedule_call_make(world);
  if (call != NULL && (more & 1) != 0) {
    (void)schedule_call_start_next(world, call);
  } else if (call != NULL) {
    start_all(world, call);
  }
}

/* A call that waits, or is cancelled, before anything is started. */
static void step_make_late(struct schedule_world *world, uint8_t more) {
  struct schedule_call *call = schedule_call_make(world);
  if (call != NULL) {
    if ((more & 1) != 0) {
      schedule_call_cancel(call, schedule_bytes_next(&world->in));
    }
    schedule_queue_run(world, MS(more >> 1));
    start_all(world, call);
  }
}

static void step_foreign(struct schedule_world *world) {
  uint8_t byte = schedule_bytes_next(&world->in);
  size_t index = (byte & 1) != 0 && world->queues[1].queue != NULL ? 1 : 0;
  if (world->n_posts == SCHEDULE_POSTS || world->queues[index].shut_down) {
    return;
  }
  struct schedule_post *post = &world->posts[world->n_posts];
  *post = (struct schedule_post){.tag = schedule_queue_tag(world, index, TAG_FOREIGN, 0),
                                 .success = (byte & 2) == 0};
  post->tag.n_owed = 1;
  void *tag = &post->tag;
  if ((byte & 4) != 0 && index == 0 && world->n_calls > 0 && world->calls[0].call != NULL &&
      world->calls[0].queue == 0) {
    tag = world->calls[0].call; /* its address may mean anything to the application */
    post->alias = tag;
  }
  world->n_posts++;
  world->queues[index].n_owed++;
  SCHEDULE_NOTE("a foreign tag is posted", 0);
  scripted_transport_post(&world->transport, weir_completion_queue_core(world->queues[index].queue),
                          tag, post->success, world->clock.now_ns + MS(byte / 16));
}

/* A fallback is done with one of the questions that it was asked. */
static void step_answer(struct schedule_world *world, uint8_t byte) {
  struct scripted_fallback *fallback = &world->fallback;
  if (fallback->n_questions > 0) {
    SCHEDULE_NOTE("a fallback answers, # more are asked", (int)fallback->n_questions - 1);
    fallback->found = (byte & 3) != 0 ? WEIR_FALLBACK_FOUND : WEIR_FALLBACK_FOUND_NOTHING;
    fallback->text = (byte & 3) != 1 ? SCHEDULE_STAND_IN : NULL; /* which is no answer */
    scripted_fallback_run_nth(fallback, (byte >> 2 & 3) % fallback->n_questions);
  }
}

/* Time passes, and things happen, while nobody drains. */
static void step_pause(struct schedule_world *world, uint8_t more) {
  SCHEDULE_NOTE("nobody drains for # ms", more);
  world->undrained_until_ns = world->clock.now_ns + MS(more);
  fake_clock_advance_to(&world->clock, world->clock.now_ns + MS(more));
  if ((more & 2) != 0) {
    step_answer(world, more);
  }
  scripted_transport_happen(&world->transport);
  if ((more & 1) != 0) {
    SCHEDULE_NOTE("events change places", 0);
    scripted_transport_turn(weir_completion_queue_core(world->queues[0].queue));
  }
}

static void step_shut_down(struct schedule_world *world, uint8_t byte) {
  schedule_queue_shut_down(world, (byte & 1) != 0 && world->queues[1].queue != NULL ? 1 : 0);
}

static void step_cancel_parent(struct schedule_world *world) {
  if (!world->parent_cancelled) {
    SCHEDULE_NOTE("the parent is cancelled", 0);
    world->parent_cancelled = true;
    scripted_transport_cancel_parent(&world->transport, world->parent);
  }
}

static void destroy_channel(struct schedule_world *world) {
  if (world->channel != NULL) {
    SCHEDULE_NOTE("the channel is destroyed", 0);
    weir_channel_destroy(world->channel);
    world->channel = NULL;
  }
}

static void step_refusal(struct schedule_world *world, uint8_t byte) {
  SCHEDULE_NOTE("the core will refuse a batch", 0);
  world->faulty = world->layers.may_forget = true;
  world->transport.start_fails_at = world->transport.n_start_batches + 1 + (byte & 3);
}

static void run_out_of_memory(struct schedule_world *world, const struct schedule_memory *memory) {
  world->faulty = world->layers.may_forget = true;
  if (memory->for_good) {
    counting_allocator_fail_from_nth(&world->allocator, memory->fails_at);
  } else {
    counting_allocator_fail_nth(&world->allocator, memory->fails_at);
  }
}

static void step_no_memory(struct schedule_world *world, uint8_t byte) {
  SCHEDULE_NOTE("memory will run out", 0);
  run_out_of_memory(
      world, &(struct schedule_memory){.fails_at = 1u + (byte & 3), .for_good = (byte & 4) != 0});
}

/* Mostly nothing: a schedule without them goes further. */
static void step_rare(struct schedule_world *world) {
  enum { SHUT_DOWN = 11, CANCEL_PARENT, DESTROY_CHANNEL, REFUSAL, NO_MEMORY };
  uint8_t byte = schedule_bytes_next(&world->in);
  switch (byte >> 4) {
  case SHUT_DOWN:
    step_shut_down(world, byte);
    break;
  case CANCEL_PARENT:
    step_cancel_parent(world);
    break;
  case DESTROY_CHANNEL:
    destroy_channel(world);
    break;
  case REFUSAL:
    step_refusal(world, byte);
    break;
  case NO_MEMORY:
    step_no_memory(world, byte);
    break;
  default:
    step_answer(world, byte);
    break;
  }
}

/* What an application does with one of its calls. */
enum call_step {
  CALL_START_NEXT,
  CALL_START_ALL,
  CALL_READ,
  CALL_EMPTY,
  CALL_WRONG,
  CALL_CANCEL,
  CALL_UNREF,
  CALL_REF
};

static void step_call(struct schedule_world *world, enum call_step kind, uint8_t more) {
  struct schedule_call *call = any_call(world);
  if (call == NULL) {
    return;
  }
  switch (kind) {
  case CALL_START_NEXT:
    (void)schedule_call_start_next(world, call);
    break;
  case CALL_START_ALL:
    start_all(world, call);
    break;
  case CALL_READ:
    schedule_call_read(world, call);
    break;
  case CALL_EMPTY:
    schedule_call_start_empty(world, call);
    break;
  case CALL_WRONG:
    schedule_call_start_wrong(call, more);
    schedule_call_start_again(world, call);
    break;
  case CALL_CANCEL:
    schedule_call_cancel(call, more);
    break;
  case CALL_UNREF:
    schedule_call_unref(world, call);
    break;
  case CALL_REF:
    schedule_call_ref(call);
    break;
  }
}

/* A byte is a step: its lower five bits say which, the others more of it. */
static void step(struct schedule_world *world) {
  static const enum call_step call_steps[] = {
      CALL_START_NEXT, CALL_START_NEXT, CALL_START_NEXT, CALL_START_NEXT, CALL_START_ALL,
      CALL_READ,       CALL_READ,       CALL_EMPTY,      CALL_WRONG,      CALL_CANCEL,
      CALL_CANCEL,     CALL_UNREF,      CALL_REF,
  };
  /* the first value that is none of these any more */
  enum {
    MAKES = 4,
    LATE = MAKES + 1,
    CALLS = LATE + sizeof call_steps / sizeof call_steps[0],
    FOREIGNS = CALLS + 1,
    RARES = FOREIGNS + 1,
    PAUSES = RARES + 2,
    TAKES = PAUSES + 2
  };
  uint8_t byte = schedule_bytes_next(&world->in);
  uint8_t kind = byte & 31;
  uint8_t more = byte >> 5;
  if (kind < MAKES) {
    step_make(world, more);
  } else if (kind < LATE) {
    step_make_late(world, more);
  } else if (kind < CALLS) {
    step_call(world, call_steps[kind - LATE], more);
  } else if (kind < FOREIGNS) {
    step_foreign(world);
  } else if (kind < RARES) {
    step_rare(world);
  } else if (kind < PAUSES) {
    step_pause(world, more);
  } else if (kind < TAKES) {
    step_answer(world, more);
    schedule_queue_take(world);
  } else {
    if ((more & 1) != 0) {
      step_answer(world, more);
    }
    schedule_queue_run(world, MS(more));
  }
}

/* --- from beginning to end --- */

static void count_record(void *context, const struct weir_log_record *record) {
  struct schedule_world *world = context;
  if (record->event == WEIR_LOG_BREAKER_CHANGED) {
    return;
  }
  world->n_logged++;
  world->tally->n_logged++;
  assert_true(world->policy->boundary);
  assert_true(record->raw_code != GRPC_STATUS_OK);
}

static void open_channel(struct schedule_world *world) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.policy = world->policy->policy;
  options.log = &world->log;
  options.allocator = &world->allocator.base;
  options.random = &world->random.base;
  weir_throttle_forget(); /* what other schedules have left */
  options.fallback = world->has_fallback ? &world->fallback.base : NULL;
  assert_int_equal(weir__channel_new("cart.shop.internal:443", &world->transport.base,
                                     WEIR_CORE_RETRIES_OFF, &options, &world->channel),
                   WEIR_OK);
  if (world->has_fallback) {
    world->channel->environment->fallbacks->threads = &world->fallback.threads;
  }
  world->channel->environment->keeps_time = world->keeps_time;
  schedule_layers_watch(&world->layers, &weir__rules_peek(&world->channel->rules)->stack);
}

static void open_queues(struct schedule_world *world, uint8_t byte) {
  schedule_queue_open(world, 0, GRPC_CQ_NEXT);
  world->queues[1] = (struct schedule_queue){.queue = NULL};
  if ((byte & 3) == 3) {
    schedule_queue_open(world, 1, (byte & 16) == 0 ? GRPC_CQ_PLUCK : GRPC_CQ_CALLBACK);
  }
}

static void open_policy(struct schedule_world *world, uint8_t low, uint8_t byte) {
  world->policy = schedule_policy_of((byte & 12) == 12 ? low + UINT8_MAX + 1u : low);
  SCHEDULE_NOTE("boundary #, breaker #, throttle #, headers pass #", world->policy->boundary,
                world->policy->breaker, world->policy->throttle,
                world->policy->retry_after_headers);
  SCHEDULE_NOTE("replay # bytes, limits # and #, attempts of # ms",
                (int)world->policy->replay_bytes, (int)world->policy->max_request_bytes,
                (int)world->policy->max_response_bytes,
                world->policy->per_attempt_timeout_ns == WEIR_NO_LIMIT_NS
                    ? -1
                    : (int)(world->policy->per_attempt_timeout_ns / WEIR_MS_NS));
}

static void open_inbound(struct schedule_world *world) {
  world->inbound_deadline_at_ns = SCHEDULE_T0 + MS(100);
  grpc_call_details details;
  grpc_call_details_init(&details);
  details.deadline = weir__instant_to_timespec(world->inbound_deadline_at_ns);
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  entry.key = grpc_slice_from_static_string("weir-retry-owner");
  entry.value = grpc_slice_from_static_string("front-door");
  grpc_metadata_array array = {.count = 1, .capacity = 1, .metadata = &entry};
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  options.allocator = &world->allocator.base;
  assert_int_equal(weir_inbound_new(&details, &array, NULL, &options, &world->inbound), WEIR_OK);
}

static void open(struct schedule_world *world) {
  seeded_random_init_constant(&world->random, SEEDED_RANDOM_MIDDLE);
  counting_allocator_init(&world->allocator);
  scripted_transport_init(&world->transport, &world->clock);
  world->transport.on_send = schedule_peer_on_send;
  world->transport.on_op = schedule_peer_on_op;
  world->transport.on_answered = schedule_peer_on_answered;
  world->transport.on_end = schedule_peer_on_end;
  world->transport.on_send_context = world;
  world->log =
      (struct weir_log_sink){.size = sizeof world->log, .write = count_record, .context = world};
  world->parent_cancelled = false;
  world->faulty = false;
  world->n_logged = 0;
  world->undrained_until_ns = 0;
  world->n_calls = 0;
  world->n_posts = 0;
  uint8_t low = schedule_bytes_next(&world->in);
  uint8_t byte = schedule_bytes_next(&world->in);
  open_policy(world, low, byte);
  world->has_fallback = (byte & 96) == 96;
  world->keeps_time = (byte & 128) != 0;
  SCHEDULE_NOTE("the queues keep the time of calls in one batch: #", world->keeps_time);
  scripted_fallback_init(&world->fallback);
  open_queues(world, byte);
  open_channel(world);
  world->parent = scripted_transport_parent(&world->transport);
  open_inbound(world);
}

/* Every call comes to an end by itself, since each has a deadline. */
static void wait_for_all(struct schedule_world *world) {
  schedule_queue_run(world, MS(101));
  counting_allocator_fail_none(&world->allocator);
  schedule_queue_run(world, SECONDS(1));
  for (size_t i = 0; i < world->n_calls && world->faulty; i++) {
    schedule_call_ask_metadata(world, &world->calls[i]);
  }
  schedule_queue_run(world, MS(1));
}

static void close_queues(struct schedule_world *world) {
  for (size_t i = 0; i < SCHEDULE_QUEUES; i++) {
    if (world->queues[i].queue != NULL) {
      schedule_queue_shut_down(world, i);
      schedule_queue_close(world, i);
    }
  }
}

static void close_calls(struct schedule_world *world) {
  for (size_t i = 0; i < world->n_calls; i++) {
    schedule_call_fini(world, &world->calls[i]);
  }
}

/* Nothing of the calls is left where only weir would find it. */
static void check_nothing_left(struct schedule_world *world) {
  for (size_t i = 0; i < SCHEDULE_QUEUES; i++) {
    if (world->queues[i].queue != NULL) {
      schedule_queue_check_blocks(world, i);
    }
  }
  struct weir_replay_snapshot snapshot = WEIR_REPLAY_SNAPSHOT_INIT;
  if (world->channel != NULL) {
    assert_int_equal(weir_channel_replay_snapshot(world->channel, &snapshot), WEIR_OK);
    assert_int_equal(snapshot.n_bytes, 0);
  }
}

/* What was asked, and nobody waits for: all but the fallback is gone. */
static void close_fallback(struct schedule_world *world) {
  scripted_fallback_run_all(&world->fallback);
  assert_int_equal(world->fallback.n_released, world->has_fallback ? 1 : 0);
  world->tally->n_asked += world->fallback.n_asked;
}

static void close(struct schedule_world *world) {
  wait_for_all(world);
  for (size_t i = 0; i < world->n_calls; i++) {
    schedule_check_end(world, &world->calls[i]);
  }
  schedule_check_log(world);
  for (size_t i = 0; i < world->n_posts; i++) {
    assert_int_equal(world->posts[i].tag.n_came, 1);
  }
  if (world->n_calls % 2 == 0) {
    close_calls(world);
    check_nothing_left(world);
    close_queues(world);
  } else {
    close_queues(world);
    close_calls(world); /* they outlive their queue */
  }
  assert_true(world->n_logged <= world->n_calls);
  destroy_channel(world);
  close_fallback(world);
  world->tally->n_out_of_memory += world->allocator.n_failed;
  world->transport.base.call_unref(&world->transport, world->parent);
  weir_inbound_release(world->inbound);
  scripted_transport_fini(&world->transport);
  schedule_layers_check(&world->layers);
  assert_int_equal(world->allocator.n_outstanding, 0);
}

size_t schedule_of_seed(uint64_t seed, uint8_t bytes_out[SCHEDULE_MAX_BYTES]) {
  struct seeded_random random;
  seeded_random_init(&random, seed);
  size_t size = SHORTEST + seeded_random_next(&random) % (SCHEDULE_MAX_BYTES - SHORTEST + 1);
  for (size_t i = 0; i < size; i++) {
    bytes_out[i] = (uint8_t)(seeded_random_next(&random) >> 56);
  }
  return size;
}

size_t schedule_run_with(const uint8_t *bytes, size_t size, const struct schedule_memory *memory,
                         struct schedule_tally *tally) {
  static struct schedule_world world; /* not cleared: a call is, when it is made */
  world.in = (struct schedule_bytes){.bytes = bytes, .size = size};
  world.tally = tally;
  fake_clock_init(&world.clock, SCHEDULE_T0);
  schedule_trace_begin(bytes, size, &world.clock);
  open(&world);
  if (memory->fails_at > 0) {
    run_out_of_memory(&world, memory);
  }
  while (world.in.at < world.in.size) {
    step(&world);
  }
  close(&world);
  schedule_trace_end();
  return world.allocator.n_failed;
}

void schedule_run(const uint8_t *bytes, size_t size, struct schedule_tally *tally) {
  (void)schedule_run_with(bytes, size, &(struct schedule_memory){.fails_at = 0}, tally);
}
