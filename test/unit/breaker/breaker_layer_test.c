/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "interceptors/breaker/breaker_layer.h"
#include "test/unit/decide/breaker_fixture.h"

#define PATH "/a.A/M"
#define POLICY "payments"
#define HALF_OPEN_AT (T0 + SECONDS(30))

/* A call as the engine would walk it, through this one layer. */
struct call {
  struct fixture *f;
  weir_interceptor *layer;
  void *state;
  struct weir_plan plan;
};

static weir_interceptor *layer_begin(struct fixture *f) {
  weir_interceptor *layer = NULL;
  assert_int_equal(weir__breaker_layer_new(&f->options, POLICY, 0, &f->allocator, &layer), WEIR_OK);
  assert_string_equal(layer->vtable->name, "breaker");
  assert_int_equal(layer->vtable->size, sizeof(struct weir_interceptor_vtable));
  return layer;
}

static void layer_end(weir_interceptor *layer) {
  layer->vtable->destroy(layer);
}

static struct weir_event event_at(struct fixture *f, int64_t now_ns) {
  return (struct weir_event){.now_ns = now_ns, .random = &f->random};
}

static struct call call_begin(struct fixture *f, weir_interceptor *layer, const char *path,
                              int64_t now_ns) {
  struct call call = {
      .f = f,
      .layer = layer,
      .state = calloc(1, layer->vtable->call_state_size),
      .plan = {.path = path,
               .path_size = strlen(path),
               .shape = WEIR_CALL_SHAPE_ONE_BATCH,
               .started_at_ns = now_ns,
               .deadline_at_ns = WEIR_NO_DEADLINE},
  };
  assert_non_null(call.state);
  return call;
}

static enum weir_admission call_admit(struct call *call, int64_t now_ns) {
  struct weir_event event = event_at(call->f, now_ns);
  enum weir_admission admission =
      call->layer->vtable->admit(call->layer, call->state, &event, &call->plan);
  if (admission == WEIR_ADMISSION_REFUSE) {
    free(call->state); /* a layer that refuses is not released */
    call->state = NULL;
  }
  return admission;
}

static enum weir_admission call_resume(struct call *call, int64_t now_ns) {
  struct weir_event event = event_at(call->f, now_ns);
  return call->layer->vtable->resume(call->layer, call->state, &event, &call->plan);
}

static void call_progress(struct call *call, int64_t now_ns) {
  struct weir_event event = event_at(call->f, now_ns);
  call->layer->vtable->progress(call->layer, call->state, &event, &call->plan);
}

static void call_settle(struct call *call, const struct weir_outcome *outcome, int64_t now_ns) {
  struct weir_event event = event_at(call->f, now_ns);
  assert_int_equal(
      call->layer->vtable->settle(call->layer, call->state, &event, outcome, &call->plan),
      WEIR_DISPOSITION_FINISH);
}

static void call_release(struct call *call, int64_t now_ns) {
  struct weir_event event = event_at(call->f, now_ns);
  call->layer->vtable->release(call->layer, call->state, &event, &call->plan);
  free(call->state);
}

static const struct weir_outcome ok = {.code = GRPC_STATUS_OK,
                                       .breaker_verdict = WEIR_BREAKER_VERDICT_SUCCESS};
static const struct weir_outcome unavailable = {.code = GRPC_STATUS_UNAVAILABLE,
                                                .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE};
static const struct weir_outcome cancelled = {.code = GRPC_STATUS_CANCELLED,
                                              .origin = WEIR_ORIGIN_LOCAL_CANCEL,
                                              .breaker_verdict = WEIR_BREAKER_VERDICT_IGNORED};

static void calls(struct fixture *f, weir_interceptor *layer, const char *path, uint32_t n,
                  const struct weir_outcome *outcome, int64_t now_ns) {
  for (uint32_t i = 0; i < n; i++) {
    struct call call = call_begin(f, layer, path, now_ns);
    assert_int_equal(call_admit(&call, now_ns), WEIR_ADMISSION_PROCEED);
    call_settle(&call, outcome, now_ns);
    call_release(&call, now_ns);
  }
}

static struct weir_breaker_snapshot snapshot_of(weir_interceptor *layer, const char *path,
                                                int64_t now_ns) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir__breaker_layer_snapshot(layer, path, strlen(path), now_ns, &snapshot),
                   WEIR_OK);
  assert_int_equal(snapshot.size, sizeof snapshot);
  return snapshot;
}

static void closed_breaker_leaves_the_plan_alone(void **state) {
  struct fixture *f = *state;
  weir_interceptor *layer = layer_begin(f);
  struct call call = call_begin(f, layer, PATH, T0);
  struct weir_plan before;
  memcpy(&before, &call.plan, sizeof before);
  size_t n_before = f->n_allocations;
  assert_int_equal(call_admit(&call, T0), WEIR_ADMISSION_PROCEED);
  assert_non_null(call.plan.breaker_entry); /* and no more than these two */
  before.breaker_entry = call.plan.breaker_entry;
  before.breaker_generation = call.plan.breaker_generation;
  assert_memory_equal(&call.plan, &before, sizeof before);
  assert_int_equal(call_resume(&call, T0), WEIR_ADMISSION_PROCEED);
  call_settle(&call, &ok, T0);
  assert_memory_equal(&call.plan, &before, sizeof before);
  call_release(&call, T0);
  assert_int_equal(f->n_allocations, n_before);
  assert_int_equal(snapshot_of(layer, PATH, T0).n_requests, 1);
  layer_end(layer);
}

static void refusal_names_its_reason_and_the_wait(void **state) {
  struct fixture *f = *state;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 5, &unavailable, T0);
  struct call call = call_begin(f, layer, PATH, T0 + SECONDS(10));
  assert_int_equal(call_admit(&call, T0 + SECONDS(10)), WEIR_ADMISSION_REFUSE);
  assert_int_equal(call.plan.refused_as, WEIR_ORIGIN_LOCAL_BREAKER);
  assert_int_equal(call.plan.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(call.plan.next_probe_in_ns, SECONDS(20));
  assert_int_equal(call.plan.breaker_state, WEIR_BREAKER_OPEN);
  assert_true(call.plan.do_not_retry);
  assert_int_equal(snapshot_of(layer, PATH, T0).n_refused, 1);
  layer_end(layer);
}

static void probe_makes_one_attempt(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 5, &unavailable, T0);
  struct call probe = call_begin(f, layer, PATH, HALF_OPEN_AT);
  assert_int_equal(call_admit(&probe, HALF_OPEN_AT), WEIR_ADMISSION_PROCEED);
  assert_true(probe.plan.single_attempt);
  assert_int_equal(probe.plan.breaker_state, WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(probe.plan.next_probe_in_ns, 0);
  assert_false(probe.plan.do_not_retry);

  struct call other = call_begin(f, layer, PATH, HALF_OPEN_AT);
  assert_int_equal(call_admit(&other, HALF_OPEN_AT), WEIR_ADMISSION_REFUSE);
  assert_int_equal(other.plan.breaker_state, WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(other.plan.next_probe_in_ns, SECONDS(30)); /* the probe's lease */
  assert_true(other.plan.do_not_retry);

  assert_int_equal(call_resume(&probe, HALF_OPEN_AT), WEIR_ADMISSION_REFUSE);
  call_settle(&probe, &ok, HALF_OPEN_AT);
  assert_int_equal(probe.plan.breaker_state, WEIR_BREAKER_CLOSED);
  call_release(&probe, HALF_OPEN_AT);
  layer_end(layer);
}

static void call_in_backoff_is_not_resumed_once_the_breaker_is_open(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  weir_interceptor *layer = layer_begin(f);
  struct call waiting = call_begin(f, layer, PATH, T0);
  assert_int_equal(call_admit(&waiting, T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(call_resume(&waiting, T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(waiting.plan.reason, WEIR_REASON_NONE);
  calls(f, layer, PATH, 5, &unavailable, T0);

  assert_int_equal(call_resume(&waiting, T0 + SECONDS(1)), WEIR_ADMISSION_REFUSE);
  assert_int_equal(waiting.plan.reason, WEIR_REASON_BREAKER_OPEN);
  assert_int_equal(waiting.plan.breaker_state, WEIR_BREAKER_OPEN);
  assert_int_equal(waiting.plan.next_probe_in_ns, SECONDS(29));
  assert_true(waiting.plan.do_not_retry);

  /* Not later either: it would be an attempt of a call that was let through in another time. */
  calls(f, layer, PATH, 1, &ok, HALF_OPEN_AT);
  assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(call_resume(&waiting, HALF_OPEN_AT), WEIR_ADMISSION_REFUSE);

  call_settle(&waiting, &unavailable, HALF_OPEN_AT);
  call_release(&waiting, HALF_OPEN_AT);
  assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).n_requests, 0);
  assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).n_refused, 0);
  layer_end(layer);
}

static void settling_shows_the_state_it_led_to(void **state) {
  struct fixture *f = *state;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 4, &unavailable, T0);
  struct call last = call_begin(f, layer, PATH, T0);
  assert_int_equal(call_admit(&last, T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(last.plan.breaker_state, WEIR_BREAKER_CLOSED);
  call_settle(&last, &unavailable, T0);
  assert_int_equal(last.plan.breaker_state, WEIR_BREAKER_OPEN);
  call_release(&last, T0);
  layer_end(layer);
}

static const struct {
  const char *why;
  struct weir_outcome outcome;
  int64_t budget_ns; /* WEIR_NO_LIMIT_NS = no deadline */
  int64_t floor_ns;
  bool ignore_resets;
  uint64_t n_requests;
  uint64_t n_failures;
} verdicts[] = {
    {"a success is a sample",
     {.breaker_verdict = WEIR_BREAKER_VERDICT_SUCCESS},
     SECONDS(1),
     0,
     false,
     1,
     0},
    {"a failure is one too",
     {.breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     SECONDS(1),
     0,
     false,
     1,
     1},
    {"what is ignored is none",
     {.breaker_verdict = WEIR_BREAKER_VERDICT_IGNORED},
     SECONDS(1),
     0,
     false,
     0,
     0},
    {"an application error is the transport's success",
     {.code = GRPC_STATUS_INVALID_ARGUMENT, .breaker_verdict = WEIR_BREAKER_VERDICT_SUCCESS},
     SECONDS(1),
     0,
     false,
     1,
     0},
    {"a deadline counts by default, however short",
     {.code = GRPC_STATUS_DEADLINE_EXCEEDED,
      .origin = WEIR_ORIGIN_LOCAL_DEADLINE,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     1,
     0,
     false,
     1,
     1},
    {"below the floor it does not",
     {.code = GRPC_STATUS_DEADLINE_EXCEEDED,
      .origin = WEIR_ORIGIN_LOCAL_DEADLINE,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     MS(100) - 1,
     MS(100),
     false,
     0,
     0},
    {"at the floor it does",
     {.code = GRPC_STATUS_DEADLINE_EXCEEDED,
      .origin = WEIR_ORIGIN_LOCAL_DEADLINE,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     MS(100),
     MS(100),
     false,
     1,
     1},
    {"the peer's own clock is no way round the floor",
     {.code = GRPC_STATUS_DEADLINE_EXCEEDED,
      .origin = WEIR_ORIGIN_PEER,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     MS(99),
     MS(100),
     false,
     0,
     0},
    {"the floor is for deadlines alone",
     {.code = GRPC_STATUS_UNAVAILABLE, .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     MS(1),
     MS(100),
     false,
     1,
     1},
    {"no deadline is above every floor",
     {.code = GRPC_STATUS_DEADLINE_EXCEEDED,
      .origin = WEIR_ORIGIN_PEER,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     WEIR_NO_LIMIT_NS,
     SECONDS(3600),
     false,
     1,
     1},
    {"a reset counts by default",
     {.code = GRPC_STATUS_UNAVAILABLE,
      .origin = WEIR_ORIGIN_TRANSPORT_RESET,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     SECONDS(1),
     0,
     false,
     1,
     1},
    {"a reset can be left out",
     {.code = GRPC_STATUS_UNAVAILABLE,
      .origin = WEIR_ORIGIN_TRANSPORT_RESET,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     SECONDS(1),
     0,
     true,
     0,
     0},
    {"a refused connection can't",
     {.code = GRPC_STATUS_UNAVAILABLE,
      .origin = WEIR_ORIGIN_TRANSPORT_CONNECT,
      .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE},
     SECONDS(1),
     0,
     true,
     1,
     1},
    {"the options make no failure of a success",
     {.code = GRPC_STATUS_INTERNAL,
      .origin = WEIR_ORIGIN_TRANSPORT_RESET,
      .breaker_verdict = WEIR_BREAKER_VERDICT_SUCCESS},
     SECONDS(1),
     SECONDS(2),
     true,
     1,
     0},
};

static void verdict_is_the_outcomes_narrowed_by_the_options(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
    f->options.deadline_floor_ns = verdicts[i].floor_ns;
    f->options.ignore_resets = verdicts[i].ignore_resets;
    weir_interceptor *layer = layer_begin(f);
    struct call call = call_begin(f, layer, PATH, T0);
    if (verdicts[i].budget_ns != WEIR_NO_LIMIT_NS) {
      call.plan.deadline_at_ns = T0 + verdicts[i].budget_ns;
    }
    assert_int_equal(call_admit(&call, T0), WEIR_ADMISSION_PROCEED);
    call_settle(&call, &verdicts[i].outcome, T0 + MS(1));
    call_release(&call, T0 + MS(1));
    struct weir_breaker_snapshot snapshot = snapshot_of(layer, PATH, T0 + MS(1));
    if (snapshot.n_requests != verdicts[i].n_requests ||
        snapshot.n_failures != verdicts[i].n_failures) {
      fail_msg("%s: %d of %d", verdicts[i].why, (int)snapshot.n_failures, (int)snapshot.n_requests);
    }
    layer_end(layer);
  }
}

static void fifty_cancelled_calls_are_no_sign_of_anything(void **state) {
  struct fixture *f = *state;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 50, &cancelled, T0);
  struct weir_breaker_snapshot snapshot = snapshot_of(layer, PATH, T0);
  assert_int_equal(snapshot.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot.n_requests, 0);
  layer_end(layer);
}

/* Cancelled, refused by a layer further in, or dropped with its queue: released, settled or not. */
static void probe_that_ends_without_a_result_gives_its_place_back(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  for (int settled = 0; settled < 2; settled++) {
    weir_interceptor *layer = layer_begin(f);
    calls(f, layer, PATH, 5, &unavailable, T0);
    struct call probe = call_begin(f, layer, PATH, HALF_OPEN_AT);
    assert_int_equal(call_admit(&probe, HALF_OPEN_AT), WEIR_ADMISSION_PROCEED);
    if (settled == 1) {
      call_settle(&probe, &cancelled, HALF_OPEN_AT);
    }
    call_release(&probe, HALF_OPEN_AT);
    assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).state, WEIR_BREAKER_HALF_OPEN);
    calls(f, layer, PATH, 1, &ok, HALF_OPEN_AT);
    assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).state, WEIR_BREAKER_CLOSED);
    layer_end(layer);
  }
}

static void streaming_probe_closes_with_its_first_message(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 5, &unavailable, T0);
  struct call stream = call_begin(f, layer, PATH, HALF_OPEN_AT);
  stream.plan.shape = WEIR_CALL_SHAPE_STREAM;
  assert_int_equal(call_admit(&stream, HALF_OPEN_AT), WEIR_ADMISSION_PROCEED);
  call_progress(&stream, HALF_OPEN_AT + SECONDS(1));
  assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).state, WEIR_BREAKER_CLOSED);
  call_settle(&stream, &ok, HALF_OPEN_AT + SECONDS(3600));
  call_release(&stream, HALF_OPEN_AT + SECONDS(3600));
  assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT + SECONDS(3600)).n_requests, 0);
  layer_end(layer);
}

static void streams_that_fail_after_their_first_message_trip(void **state) {
  struct fixture *f = *state;
  f->options.failure_ratio = 0.5;
  weir_interceptor *layer = layer_begin(f);
  for (int i = 0; i < 3; i++) {
    struct call stream = call_begin(f, layer, PATH, T0);
    stream.plan.shape = WEIR_CALL_SHAPE_STREAM;
    assert_int_equal(call_admit(&stream, T0), WEIR_ADMISSION_PROCEED);
    call_progress(&stream, T0);
    call_settle(&stream, &unavailable, T0);
    call_release(&stream, T0);
  }
  assert_int_equal(snapshot_of(layer, PATH, T0).state, WEIR_BREAKER_OPEN);
  layer_end(layer);
}

static void failing_method_does_not_refuse_its_siblings(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, "/a.A/Bad", 5, &unavailable, T0);
  calls(f, layer, "/a.A/Good", 5, &ok, T0);
  assert_int_equal(snapshot_of(layer, "/a.A/Bad", T0).state, WEIR_BREAKER_OPEN);
  assert_int_equal(snapshot_of(layer, "/a.A/Good", T0).state, WEIR_BREAKER_CLOSED);
  layer_end(layer);
}

static void calls_beyond_the_bound_are_counted_and_guarded(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, "/a.A/First", 1, &ok, T0);
  calls(f, layer, "/a.A/Second", 3, &unavailable, T0);
  calls(f, layer, "/a.A/Third", 2, &unavailable, T0);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 5);
  assert_int_equal(snapshot_of(layer, "/a.A/First", T0).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot_of(layer, "/a.A/Fourth", T0).state, WEIR_BREAKER_OPEN);
  layer_end(layer);
}

static void switched_off_it_has_no_hook_for_calls(void **state) {
  struct fixture *f = *state;
  f->options.enabled = false;
  weir_interceptor *layer = layer_begin(f);
  assert_null(layer->vtable->admit);
  assert_null(layer->vtable->resume);
  assert_null(layer->vtable->progress);
  assert_null(layer->vtable->settle);
  assert_null(layer->vtable->release);
  assert_null(layer->vtable->present);
  assert_int_equal(layer->vtable->call_state_size, 0);
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir__breaker_layer_snapshot(layer, PATH, strlen(PATH), T0, &snapshot),
                   WEIR_ERROR_UNAVAILABLE);
  layer_end(layer);
}

static void snapshot_of_an_unknown_method_is_unavailable(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  struct weir_breaker_snapshot snapshot;
  memset(&snapshot, 0xff, sizeof snapshot);
  snapshot.size = sizeof snapshot;
  assert_int_equal(weir__breaker_layer_snapshot(layer, PATH, strlen(PATH), T0, &snapshot),
                   WEIR_ERROR_UNAVAILABLE);
  assert_int_equal(snapshot.size, sizeof snapshot);
  assert_int_equal(snapshot.n_requests, 0);
  layer_end(layer);
}

static void snapshot_fills_what_an_older_or_newer_program_knows(void **state) {
  struct fixture *f = *state;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 5, &unavailable, T0);

  struct weir_breaker_snapshot older;
  memset(&older, 0x55, sizeof older);
  older.size = offsetof(struct weir_breaker_snapshot, n_trips);
  assert_int_equal(weir__breaker_layer_snapshot(layer, PATH, strlen(PATH), T0, &older), WEIR_OK);
  assert_int_equal(older.state, WEIR_BREAKER_OPEN);
  assert_int_equal(older.generation, 1);
  assert_int_equal(older.size, offsetof(struct weir_breaker_snapshot, n_trips));
  assert_int_equal(older.n_trips, UINT64_C(0x5555555555555555));

  struct {
    struct weir_breaker_snapshot known;
    uint64_t added_later;
  } newer = {.known = {.size = sizeof newer}, .added_later = 7};
  assert_int_equal(weir__breaker_layer_snapshot(layer, PATH, strlen(PATH), T0, &newer.known),
                   WEIR_OK);
  assert_int_equal(newer.known.n_trips, 1);
  assert_int_equal(newer.known.size, sizeof newer);
  assert_int_equal(newer.added_later, 0);

  struct weir_breaker_snapshot none = {.size = 0};
  assert_int_equal(weir__breaker_layer_snapshot(layer, PATH, strlen(PATH), T0, &none),
                   WEIR_ERROR_INVALID_ARGUMENT);
  layer_end(layer);
}

static void layer_refuses_options_that_are_out_of_range(void **state) {
  struct fixture *f = *state;
  weir_interceptor *layer = (weir_interceptor *)state;
  f->options.probes = 0;
  assert_int_equal(weir__breaker_layer_new(&f->options, POLICY, 0, &f->allocator, &layer),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(layer);
  assert_int_equal(f->n_allocations, 0);
}

static void layer_refuses_options_of_a_newer_program(void **state) {
  (void)state;
  weir_interceptor *layer = NULL;
  struct {
    struct weir_breaker_options known;
    uint64_t added_later;
  } newer = {.known = WEIR_BREAKER_OPTIONS_INIT, .added_later = 1};
  newer.known.size = sizeof newer;
  assert_int_equal(weir__breaker_layer_new(&newer.known, POLICY, 0, NULL, &layer),
                   WEIR_ERROR_UNSUPPORTED);
  assert_null(layer);
}

static void layer_without_memory_leaves_nothing(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  for (size_t nth = 1;; nth++) {
    weir_interceptor *layer = NULL;
    f->n_allocations = 0;
    f->fails_at = nth;
    if (weir__breaker_layer_new(&f->options, POLICY, 0, &f->allocator, &layer) == WEIR_OK) {
      assert_in_range(nth, 5, 6); /* it does without a stripe for each processor */
      layer_end(layer);
      return;
    }
    assert_null(layer);
    assert_int_equal(atomic_load(&f->n_outstanding), 0);
  }
}

/* --- what the plan says of the breaker --- */

static const char *name_of(struct call *call) {
  static struct weir__breaker_name name;
  weir__breaker_name_set(&name, weir__breaker_layer_name(call->layer, &call->plan));
  assert_int_equal(strlen(name.text), name.size);
  return name.text;
}

static const struct {
  const char *why;
  enum weir_breaker_scope scope;
  const char *path;
  const char *name;
} name_rows[] = {
    {"the channel's", WEIR_BREAKER_SCOPE_CHANNEL, "/a.A/M", POLICY},
    {"a service's", WEIR_BREAKER_SCOPE_SERVICE, "/a.A/M", "/a.A"},
    {"a method's", WEIR_BREAKER_SCOPE_METHOD, "/a.A/M", "/a.A/M"},
    {"no service", WEIR_BREAKER_SCOPE_SERVICE, "/M", "/M"},
    {"no slash", WEIR_BREAKER_SCOPE_METHOD, "M", "M"},
    {"nothing", WEIR_BREAKER_SCOPE_METHOD, "", ""},
};

static void breaker_is_called_after_what_it_guards(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof name_rows / sizeof name_rows[0]; i++) {
    f->options.scope = name_rows[i].scope;
    weir_interceptor *layer = layer_begin(f);
    struct call call = call_begin(f, layer, name_rows[i].path, T0);
    assert_string_equal(name_of(&call), "");
    assert_int_equal(call_admit(&call, T0), WEIR_ADMISSION_PROCEED);
    if (strcmp(name_of(&call), name_rows[i].name) != 0) {
      fail_msg("%s: %s", name_rows[i].why, name_of(&call));
    }
    call_release(&call, T0);
    layer_end(layer);
  }
}

static void shared_breaker_is_called_other_and_a_long_name_is_cut(void **state) {
  struct fixture *f = *state;
  char path[400];
  memset(path, 'x', sizeof path);
  path[0] = '/';
  path[sizeof path - 1] = '\0';
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = 1;
  weir_interceptor *layer = layer_begin(f);
  struct call own = call_begin(f, layer, path, T0);
  assert_int_equal(call_admit(&own, T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(strlen(name_of(&own)), WEIR__BREAKER_NAME_BYTES);
  assert_memory_equal(name_of(&own), path, WEIR__BREAKER_NAME_BYTES);
  path[sizeof path - 2] = 'y'; /* another key, though not by what is told of it */
  struct call other = call_begin(f, layer, path, T0);
  assert_int_equal(call_admit(&other, T0), WEIR_ADMISSION_PROCEED);
  assert_string_equal(name_of(&other), "other");
  call_release(&own, T0);
  call_release(&other, T0);
  layer_end(layer);
}

/* Each step of a trip and a recovery; the engine would take `breaker_changed` back. */
static void plan_tells_of_each_change_once(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 4, &unavailable, T0);
  struct call fifth = call_begin(f, layer, PATH, T0);
  struct call sixth = call_begin(f, layer, PATH, T0);
  assert_int_equal(call_admit(&fifth, T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(call_admit(&sixth, T0), WEIR_ADMISSION_PROCEED);
  assert_false(fifth.plan.breaker_changed);
  uint64_t generation = fifth.plan.breaker_generation;
  call_settle(&fifth, &unavailable, T0);
  call_settle(&sixth, &unavailable, T0);
  assert_true(fifth.plan.breaker_changed);
  assert_false(sixth.plan.breaker_changed);
  assert_int_equal(fifth.plan.breaker_changed_from, WEIR_BREAKER_CLOSED);
  assert_int_equal(fifth.plan.breaker_state, WEIR_BREAKER_OPEN);
  assert_true(fifth.plan.breaker_generation > generation);
  assert_int_equal(fifth.plan.next_probe_in_ns, SECONDS(30));
  generation = fifth.plan.breaker_generation;
  call_release(&fifth, T0);
  call_release(&sixth, T0);

  struct call probe = call_begin(f, layer, PATH, HALF_OPEN_AT);
  assert_int_equal(call_admit(&probe, HALF_OPEN_AT), WEIR_ADMISSION_PROCEED);
  assert_true(probe.plan.breaker_changed);
  assert_int_equal(probe.plan.breaker_changed_from, WEIR_BREAKER_OPEN);
  assert_int_equal(probe.plan.breaker_state, WEIR_BREAKER_HALF_OPEN);
  assert_true(probe.plan.breaker_generation > generation);
  probe.plan.breaker_changed = false;
  generation = probe.plan.breaker_generation;
  call_progress(&probe, HALF_OPEN_AT);
  assert_true(probe.plan.breaker_changed);
  assert_int_equal(probe.plan.breaker_changed_from, WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(probe.plan.breaker_state, WEIR_BREAKER_CLOSED);
  assert_true(probe.plan.breaker_generation > generation);
  probe.plan.breaker_changed = false;
  call_settle(&probe, &ok, HALF_OPEN_AT);
  assert_false(probe.plan.breaker_changed);
  call_release(&probe, HALF_OPEN_AT);
  layer_end(layer);
}

static void refusal_is_typed(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 5, &unavailable, T0);
  struct call open = call_begin(f, layer, PATH, T0);
  assert_int_equal(call_admit(&open, T0), WEIR_ADMISSION_REFUSE);
  assert_int_equal(open.plan.breaker_refusal, WEIR_BREAKER_REFUSAL_OPEN);
  assert_int_not_equal(open.plan.breaker_generation, 0);
  struct call probe = call_begin(f, layer, PATH, HALF_OPEN_AT);
  assert_int_equal(call_admit(&probe, HALF_OPEN_AT), WEIR_ADMISSION_PROCEED);
  assert_int_equal(probe.plan.breaker_refusal, WEIR_BREAKER_REFUSAL_NONE);
  struct call taken = call_begin(f, layer, PATH, HALF_OPEN_AT);
  assert_int_equal(call_admit(&taken, HALF_OPEN_AT), WEIR_ADMISSION_REFUSE);
  assert_int_equal(taken.plan.breaker_refusal, WEIR_BREAKER_REFUSAL_PROBES_TAKEN);
  assert_string_equal(name_of(&taken), POLICY);
  call_release(&probe, HALF_OPEN_AT);
  layer_end(layer);
}

/* --- shadow --- */

static void shadow_lets_pass_what_it_would_refuse(void **state) {
  struct fixture *f = *state;
  f->options.mode = WEIR_BREAKER_MODE_SHADOW;
  f->options.probes = 1;
  weir_interceptor *layer = layer_begin(f);
  struct call before = call_begin(f, layer, PATH, T0);
  assert_int_equal(call_admit(&before, T0), WEIR_ADMISSION_PROCEED);
  calls(f, layer, PATH, 5, &unavailable, T0);
  assert_int_equal(snapshot_of(layer, PATH, T0).state, WEIR_BREAKER_OPEN);
  assert_int_equal(call_resume(&before, T0), WEIR_ADMISSION_PROCEED);

  struct call shadowed = call_begin(f, layer, PATH, T0);
  assert_int_equal(call_admit(&shadowed, T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(shadowed.plan.breaker_refusal, WEIR_BREAKER_REFUSAL_OPEN);
  assert_int_equal(shadowed.plan.reason, WEIR_REASON_NONE);
  assert_false(shadowed.plan.do_not_retry);
  assert_false(shadowed.plan.single_attempt);
  assert_int_equal(call_resume(&shadowed, T0), WEIR_ADMISSION_PROCEED);
  call_settle(&shadowed, &unavailable, T0);

  struct call probe = call_begin(f, layer, PATH, HALF_OPEN_AT);
  assert_int_equal(call_admit(&probe, HALF_OPEN_AT), WEIR_ADMISSION_PROCEED);
  assert_int_equal(probe.plan.breaker_state, WEIR_BREAKER_HALF_OPEN);
  assert_false(probe.plan.single_attempt);
  assert_int_equal(call_resume(&probe, HALF_OPEN_AT), WEIR_ADMISSION_PROCEED);
  call_settle(&probe, &ok, HALF_OPEN_AT);
  assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot_of(layer, PATH, HALF_OPEN_AT).n_shadowed, 1);
  call_release(&before, T0);
  call_release(&shadowed, T0);
  call_release(&probe, T0);
  layer_end(layer);
}

/* --- what is known, and overrides --- */

static void known_method_is_not_looked_up(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  void *entry = NULL;
  assert_int_equal(weir__breaker_layer_know(layer, PATH, strlen(PATH), &entry), WEIR_OK);
  struct call call = call_begin(f, layer, PATH, T0);
  call.plan.breaker_entry = entry;
  call.plan.path = "/a.A/Other"; /* so it is not looked at */
  call.plan.path_size = strlen(call.plan.path);
  assert_int_equal(call_admit(&call, T0), WEIR_ADMISSION_PROCEED);
  call_settle(&call, &unavailable, T0);
  call_release(&call, T0);
  assert_int_equal(snapshot_of(layer, PATH, T0).n_failures, 1);
  assert_int_equal(weir__breaker_layer_n_breakers(layer), 1);
  layer_end(layer);
}

static void named_service_is_no_method(void **state) {
  struct fixture *f = *state;
  f->options.max_breakers = 1;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  assert_int_equal(weir__breaker_layer_know_named(layer, "/a.A/", 5), WEIR_OK);
  calls(f, layer, "/a.A/Any", 1, &ok, T0);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 0);
  layer_end(layer);

  f->options.scope = WEIR_BREAKER_SCOPE_SERVICE;
  layer = layer_begin(f);
  assert_int_equal(weir__breaker_layer_know_named(layer, "/a.A/", 5), WEIR_OK);
  calls(f, layer, "/a.B/Any", 1, &ok, T0);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 1);
  calls(f, layer, "/a.A/Any", 1, &ok, T0);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 1);
  layer_end(layer);
}

struct overridden {
  size_t n;
  char last[WEIR__BREAKER_NAME_BYTES + 1];
  enum weir_breaker_override override;
  struct weir_breaker_view view;
};

static void note_overridden(void *context, const struct weir__breaker_name *name,
                            enum weir_breaker_override override,
                            const struct weir_breaker_view *view) {
  struct overridden *overridden = context;
  overridden->n++;
  memcpy(overridden->last, name->text, sizeof overridden->last);
  overridden->view = *view;
  overridden->override = override;
}

static void an_override_is_told_by_name(void **state) {
  struct fixture *f = *state;
  static const enum weir_breaker_scope scopes[] = {
      WEIR_BREAKER_SCOPE_CHANNEL, WEIR_BREAKER_SCOPE_SERVICE, WEIR_BREAKER_SCOPE_METHOD};
  static const char *const names[] = {POLICY, "/a.A", PATH};
  for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
    struct overridden overridden = {.n = 0};
    f->options.scope = scopes[i];
    weir_interceptor *layer = layer_begin(f);
    assert_int_equal(weir__breaker_layer_override(layer, PATH, strlen(PATH),
                                                  WEIR_BREAKER_OVERRIDE_OPEN, note_overridden,
                                                  &overridden),
                     WEIR_OK);
    assert_int_equal(overridden.n, 1);
    assert_string_equal(overridden.last, names[i]);
    assert_int_equal(overridden.override, WEIR_BREAKER_OVERRIDE_OPEN);
    assert_true(overridden.view.next_probe_in_ns == WEIR_NO_LIMIT_NS);
    struct call call = call_begin(f, layer, PATH, T0);
    assert_int_equal(call_admit(&call, T0), WEIR_ADMISSION_REFUSE);
    assert_int_equal(call.plan.breaker_refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
    assert_true(call.plan.next_probe_in_ns == WEIR_NO_LIMIT_NS);
    assert_int_equal(weir__breaker_layer_override(layer, NULL, 0, WEIR_BREAKER_OVERRIDE_NONE,
                                                  note_overridden, &overridden),
                     WEIR_OK);
    assert_int_equal(overridden.n, 2);
    assert_int_equal(overridden.override, WEIR_BREAKER_OVERRIDE_NONE);
    calls(f, layer, PATH, 1, &ok, T0);
    layer_end(layer);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(closed_breaker_leaves_the_plan_alone),
      TEST(refusal_names_its_reason_and_the_wait),
      TEST(probe_makes_one_attempt),
      TEST(call_in_backoff_is_not_resumed_once_the_breaker_is_open),
      TEST(settling_shows_the_state_it_led_to),
      TEST(verdict_is_the_outcomes_narrowed_by_the_options),
      TEST(fifty_cancelled_calls_are_no_sign_of_anything),
      TEST(probe_that_ends_without_a_result_gives_its_place_back),
      TEST(streaming_probe_closes_with_its_first_message),
      TEST(streams_that_fail_after_their_first_message_trip),
      TEST(failing_method_does_not_refuse_its_siblings),
      TEST(calls_beyond_the_bound_are_counted_and_guarded),
      TEST(switched_off_it_has_no_hook_for_calls),
      TEST(snapshot_of_an_unknown_method_is_unavailable),
      TEST(snapshot_fills_what_an_older_or_newer_program_knows),
      TEST(layer_refuses_options_that_are_out_of_range),
      TEST(layer_refuses_options_of_a_newer_program),
      TEST(layer_without_memory_leaves_nothing),
      TEST(breaker_is_called_after_what_it_guards),
      TEST(shared_breaker_is_called_other_and_a_long_name_is_cut),
      TEST(plan_tells_of_each_change_once),
      TEST(refusal_is_typed),
      TEST(shadow_lets_pass_what_it_would_refuse),
      TEST(known_method_is_not_looked_up),
      TEST(named_service_is_no_method),
      TEST(an_override_is_told_by_name),
  };
  return cmocka_run_group_tests_name("breaker layer", tests, NULL, NULL);
}
