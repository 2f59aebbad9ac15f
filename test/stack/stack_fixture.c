/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/stack_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <weir/throttle.h>

#include "interceptors/breaker/breaker_layer.h"
#include "src/call/inbound.h"
#include "src/channel/channel.h"
#include "src/fallback/fallbacks.h"
#include "src/queue/queue.h"
#include "src/stack/stack.h"
#include "src/time/timespec.h"

/* Big enough for two calls and a few empty batches: what happens when it grows is seen in small
 * tests too. */
#define SLAB_BLOCKS 3

const struct wire_answer answer_unavailable = {
    .what = WIRE_TRAILERS_ONLY, .status = GRPC_STATUS_UNAVAILABLE, .text = "busy"};
const struct wire_answer answer_not_found = {
    .what = WIRE_TRAILERS_ONLY, .status = GRPC_STATUS_NOT_FOUND, .text = "no"};
const struct wire_answer answer_ok = {
    .what = WIRE_MESSAGE_THEN, .status = GRPC_STATUS_OK, .text = "", .body = "bar"};

/* --- life --- */

int fixture_setup(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  if (f == NULL) {
    return -1;
  }
  weir_throttle_forget(); /* what other tests have left */
  fake_clock_init(&f->clock, T0);
  seeded_random_init_constant(&f->random, SEEDED_RANDOM_MIDDLE);
  counting_allocator_init(&f->allocator);
  scripted_transport_init(&f->transport, &f->clock);
  log_recorder_init(&f->log);
  f->deadline = (struct weir_deadline_options)WEIR_DEADLINE_OPTIONS_INIT;
  f->translation = (struct weir_translation_options)WEIR_TRANSLATION_OPTIONS_INIT;
  f->breaker = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
  f->breaker.open_jitter = 0;
  f->retry = (struct weir_retry_options)WEIR_RETRY_OPTIONS_INIT;
  f->method = (struct weir_method_options)WEIR_METHOD_OPTIONS_INIT;
  f->method.retry = (struct weir_retry_policy){
      .max_attempts = 4,
      .retryable_codes = CODE_BIT(GRPC_STATUS_UNAVAILABLE),
      .initial_backoff_ns = MS(100),
      .max_backoff_ns = SECONDS(1),
      .backoff_multiplier = 2.0,
  };
  f->fallback_options = (struct weir_fallback_options)WEIR_FALLBACK_OPTIONS_INIT;
  scripted_fallback_init(&f->fallback);
  f->policy_options = (struct weir_policy_options)WEIR_POLICY_OPTIONS_INIT;
  f->policy_options.name = "cart-policy";
  f->policy_options.deadline = &f->deadline;
  f->policy_options.translation = &f->translation;
  f->policy_options.breaker = &f->breaker;
  f->policy_options.retry = &f->retry;
  f->policy_options.fallback = &f->fallback_options;
  f->policy_options.methods = &f->method;
  f->policy_options.n_methods = 1;
  *state = f;
  return 0;
}

int fixture_teardown(void **state) {
  struct fixture *f = *state;
  if (f->channel != NULL) {
    weir_channel_destroy(f->channel);
  }
  weir_policy_unref(f->policy);
  if (f->queue != NULL) {
    fixture_close_queue(f);
  }
  scripted_transport_fini(&f->transport);
  assert_int_equal(f->allocator.n_outstanding, 0);
  free(f);
  return 0;
}

enum weir_error fixture_make_policy(struct fixture *f) {
  return weir_policy_new(&f->policy_options, &f->allocator.base, &f->policy, NULL);
}

weir_channel *fixture_make_channel(struct fixture *f, const char *target) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.policy = f->policy;
  options.log = &f->log.base;
  options.allocator = &f->allocator.base;
  options.random = &f->random.base;
  options.breaker_listener = f->breaker_listener;
  options.fallback = f->has_fallback ? &f->fallback.base : NULL;
  weir_channel *channel = NULL;
  enum weir_error error =
      weir__channel_new(target, &f->transport.base, WEIR_CORE_RETRIES_OFF, &options, &channel);
  assert_int_equal(error, channel != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY);
  if (channel != NULL && f->has_fallback) {
    channel->environment->fallbacks->threads = &f->fallback.threads;
  }
  return channel;
}

weir_completion_queue *fixture_make_queue(struct fixture *f, grpc_cq_completion_type type) {
  return weir__queue_new(&(struct weir__queue_options){.allocator = &f->allocator.base,
                                                       .clock = &f->clock.base,
                                                       .transport = &f->transport.base,
                                                       .type = type,
                                                       .slab_blocks = SLAB_BLOCKS});
}

void fixture_open_queue(struct fixture *f, grpc_cq_completion_type type) {
  assert_int_equal(fixture_make_policy(f), WEIR_OK);
  f->channel = fixture_make_channel(f, FIXTURE_TARGET);
  assert_non_null(f->channel);
  f->queue = fixture_make_queue(f, type);
  f->queue_type = type;
  assert_non_null(f->queue);
}

void fixture_open(struct fixture *f) {
  fixture_open_queue(f, GRPC_CQ_NEXT);
}

void fixture_open_raw(struct fixture *f) {
  f->translation.boundary = false;
  f->breaker.enabled = false;
  fixture_open(f);
}

void fixture_swap(struct fixture *f) {
  weir_policy *policy = NULL;
  assert_int_equal(weir_policy_new(&f->policy_options, &f->allocator.base, &policy, NULL), WEIR_OK);
  assert_int_equal(weir_channel_set_policy(f->channel, policy, NULL), WEIR_OK);
  weir_policy_unref(policy);
}

void play(struct fixture *f, const struct script_step *steps) {
  scripted_transport_play(&f->transport, steps);
}

const struct sent_attempt *sent(const struct fixture *f, size_t nth) {
  return scripted_transport_sent(&f->transport, nth);
}

static grpc_completion_type drain_one(struct fixture *f, gpr_timespec deadline) {
  switch (f->queue_type) {
  case GRPC_CQ_NEXT:
    return weir_completion_queue_next(f->queue, deadline, NULL).type;
  case GRPC_CQ_PLUCK:
    return weir_completion_queue_pluck(f->queue, f, deadline, NULL).type;
  case GRPC_CQ_CALLBACK:
    return weir_completion_queue_poll(f->queue, deadline, NULL);
  }
  return GRPC_QUEUE_TIMEOUT;
}

void fixture_close_queue(struct fixture *f) {
  weir_completion_queue_shutdown(f->queue);
  grpc_completion_type type = GRPC_OP_COMPLETE;
  while (type != GRPC_QUEUE_SHUTDOWN) {
    type = drain_one(f, gpr_inf_future(GPR_CLOCK_MONOTONIC));
    assert_int_not_equal(type, GRPC_QUEUE_TIMEOUT);
  }
  weir_completion_queue_destroy(f->queue);
  f->queue = NULL;
}

struct weir_breaker_snapshot fixture_breaker(struct fixture *f) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir__breaker_layer_snapshot(weir__rules_peek(&f->channel->rules)->stack.breaker,
                                                METHOD, strlen(METHOD), f->clock.now_ns, &snapshot),
                   WEIR_OK);
  return snapshot;
}

weir_inbound *fixture_inbound(struct fixture *f, int64_t deadline_at_ns, const char *owner,
                              grpc_call *server_call) {
  grpc_call_details details;
  grpc_call_details_init(&details);
  details.deadline =
      weir__instant_to_timespec(deadline_at_ns != 0 ? deadline_at_ns : WEIR_NO_DEADLINE);
  grpc_metadata entry;
  memset(&entry, 0, sizeof entry);
  entry.key = grpc_slice_from_static_string("weir-retry-owner");
  entry.value = grpc_slice_from_static_string(owner != NULL ? owner : "");
  grpc_metadata_array array = {.count = owner != NULL ? 1 : 0, .capacity = 1, .metadata = &entry};
  weir_inbound *inbound = NULL;
  struct weir_inbound_options options = WEIR_INBOUND_OPTIONS_INIT;
  options.allocator = &f->allocator.base;
  const struct weir__inbound_source source = {.details = &details,
                                              .metadata = &array,
                                              .server_call = server_call,
                                              .transport = &f->transport.base};
  assert_int_equal(weir__inbound_new(&source, &options, &inbound), WEIR_OK);
  return inbound;
}

/* --- unary calls --- */

static grpc_byte_buffer *byte_buffer_of(struct fixture *f, const char *bytes, size_t size) {
  grpc_slice slice = scripted_transport_slice(&f->transport, bytes, size);
  grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  return buffer;
}

void unary_init_with(struct fixture *f, struct unary *unary, const struct unary_options *options) {
  const char *method = options->method != NULL ? options->method : METHOD;
  int64_t deadline_at_ns =
      options->deadline_at_ns != 0 ? options->deadline_at_ns : WEIR_NO_DEADLINE;
  struct weir_call_options call_options = WEIR_CALL_OPTIONS_INIT;
  call_options.inbound = options->inbound;
  call_options.inbound_bond = options->inbound_bond;
  memset(unary, 0, sizeof *unary);
  grpc_metadata_array_init(&unary->initial_metadata);
  grpc_metadata_array_init(&unary->trailing_metadata);
  unary->details = grpc_empty_slice();
  unary->status = (grpc_status_code)77; /* none */
  unary->request = byte_buffer_of(f, "foo", 3);
  grpc_slice path = scripted_transport_slice(&f->transport, method, strlen(method));
  unary->call = weir_channel_create_call(
      f->channel, options->parent, options->parent != NULL ? GRPC_PROPAGATE_DEFAULTS : 0, f->queue,
      path, NULL, weir__instant_to_timespec(deadline_at_ns), &call_options);
  grpc_slice_unref(path);
}

void unary_init(struct fixture *f, struct unary *unary) {
  unary_init_with(f, unary, &(struct unary_options){.method = METHOD});
  assert_non_null(unary->call);
}

void unary_set_request(struct fixture *f, struct unary *unary, size_t size) {
  char *bytes = malloc(size + 1);
  assert_non_null(bytes);
  memset(bytes, 'x', size);
  grpc_byte_buffer_destroy(unary->request);
  unary->request = byte_buffer_of(f, bytes, size);
  free(bytes);
}

void unary_add_metadata(struct fixture *f, struct unary *unary, const char *key,
                        const char *value) {
  grpc_metadata *entry = &unary->metadata[unary->n_metadata++];
  entry->key = grpc_slice_from_static_string(key);
  entry->value = scripted_transport_slice(&f->transport, value, strlen(value));
}

void unary_ops(struct unary *unary, grpc_op ops[MAX_UNARY_OPS]) {
  memset(ops, 0, MAX_UNARY_OPS * sizeof ops[0]);
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[0].flags = unary->metadata_flags;
  ops[0].data.send_initial_metadata.metadata = unary->metadata;
  ops[0].data.send_initial_metadata.count = unary->n_metadata;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].flags = unary->message_flags;
  ops[1].data.send_message.send_message = unary->request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &unary->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &unary->reply;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &unary->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &unary->status;
  ops[5].data.recv_status_on_client.status_details = &unary->details;
  ops[5].data.recv_status_on_client.error_string = &unary->error_string;
}

static void fixture_remember(struct fixture *f, struct unary *unary) {
  assert_true(f->n_unaries < sizeof f->unaries / sizeof f->unaries[0]);
  f->unaries[f->n_unaries++] = unary;
}

grpc_call_error unary_try_start(struct fixture *f, struct unary *unary) {
  grpc_op ops[MAX_UNARY_OPS];
  unary_ops(unary, ops);
  grpc_call_error error = weir_call_start_batch(unary->call, ops, MAX_UNARY_OPS, unary, NULL);
  memset(ops, 0xa5, sizeof ops); /* the array may be used again */
  if (error == GRPC_CALL_OK) {
    fixture_remember(f, unary);
  }
  return error;
}

void unary_start(struct fixture *f, struct unary *unary) {
  assert_int_equal(unary_try_start(f, unary), GRPC_CALL_OK);
}

void unary_fini(struct unary *unary) {
  void *error_string = NULL;
  if (unary->call != NULL) {
    weir_call_unref(unary->call);
  }
  grpc_byte_buffer_destroy(unary->request);
  for (size_t i = 0; i < unary->n_metadata; i++) {
    grpc_slice_unref(unary->metadata[i].value);
  }
  grpc_metadata_array_destroy(&unary->initial_metadata);
  grpc_metadata_array_destroy(&unary->trailing_metadata);
  if (unary->reply != NULL) {
    grpc_byte_buffer_destroy(unary->reply);
  }
  grpc_slice_unref(unary->details);
  memcpy(&error_string, &unary->error_string, sizeof error_string);
  gpr_free(error_string);
  memset(unary, 0, sizeof *unary);
}

void unary_run(struct fixture *f, struct unary *unary) {
  unary_init(f, unary);
  unary_start(f, unary);
  run_until_idle(f);
  assert_int_equal(unary->n_done, 1);
}

void run_calls(struct fixture *f, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct unary unary;
    unary_run(f, &unary);
    unary_fini(&unary);
  }
}

struct weir_call_report unary_report(const struct unary *unary) {
  struct weir_call_report report = WEIR_CALL_REPORT_INIT;
  assert_int_equal(weir_call_get_report(unary->call, &report), WEIR_OK);
  return report;
}

bool unary_details_are(const struct unary *unary, const char *text) {
  return grpc_slice_str_cmp(unary->details, text) == 0;
}

static bool bytes_hold(const uint8_t *bytes, size_t size, const char *secret) {
  size_t length = strlen(secret);
  for (size_t i = 0; i + length <= size; i++) {
    if (memcmp(bytes + i, secret, length) == 0) {
      return true;
    }
  }
  return false;
}

static bool slice_holds(grpc_slice slice, const char *secret) {
  return bytes_hold(GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice), secret);
}

static grpc_slice read_all(grpc_byte_buffer *buffer) {
  grpc_byte_buffer_reader reader;
  assert_true(grpc_byte_buffer_reader_init(&reader, buffer));
  grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  return all;
}

bool unary_reply_is(const struct unary *unary, const char *text) {
  if (unary->reply == NULL) {
    return false;
  }
  grpc_slice all = read_all(unary->reply);
  bool same = grpc_slice_str_cmp(all, text) == 0;
  grpc_slice_unref(all);
  return same;
}

static bool metadata_holds(const grpc_metadata_array *array, const char *secret) {
  for (size_t i = 0; i < array->count; i++) {
    if (slice_holds(array->metadata[i].key, secret) ||
        slice_holds(array->metadata[i].value, secret)) {
      return true;
    }
  }
  return false;
}

bool unary_can_see(const struct unary *unary, const char *secret) {
  bool seen = slice_holds(unary->details, secret) ||
              metadata_holds(&unary->initial_metadata, secret) ||
              metadata_holds(&unary->trailing_metadata, secret) ||
              (unary->error_string != NULL && strstr(unary->error_string, secret) != NULL);
  if (unary->reply != NULL) {
    grpc_slice all = read_all(unary->reply);
    seen = seen || slice_holds(all, secret);
    grpc_slice_unref(all);
  }
  struct weir_call_report report = unary_report(unary);
  return seen || bytes_hold((const uint8_t *)&report, sizeof report, secret);
}

/* --- time and events --- */

static void event_note(struct fixture *f, const grpc_event *event) {
  for (size_t i = 0; i < f->n_unaries; i++) {
    struct unary *unary = f->unaries[i];
    if (unary == event->tag) {
      f->unaries[i] = f->unaries[--f->n_unaries];
      unary->n_done++;
      unary->success = event->success != 0;
      unary->done_at_ns = f->clock.now_ns;
      return;
    }
  }
  assert_true(f->n_foreign < MAX_FOREIGN);
  f->foreign[f->n_foreign] = event->tag;
  f->foreign_success[f->n_foreign++] = event->success != 0;
}

static void run(struct fixture *f, gpr_timespec until) {
  for (;;) {
    grpc_event event = weir_completion_queue_next(f->queue, until, NULL);
    if (event.type != GRPC_OP_COMPLETE) {
      f->saw_shutdown = f->saw_shutdown || event.type == GRPC_QUEUE_SHUTDOWN;
      return;
    }
    event_note(f, &event);
  }
}

void run_until_idle(struct fixture *f) {
  run(f, gpr_inf_future(GPR_CLOCK_MONOTONIC));
}

void run_until(struct fixture *f, int64_t at_ns) {
  run(f, weir__instant_to_timespec(at_ns));
  run(f, weir__instant_to_timespec(at_ns)); /* a timer of the very instant fires now */
}

int64_t elapsed_ns(const struct fixture *f) {
  return f->clock.now_ns - T0;
}
