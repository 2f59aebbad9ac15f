/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "interceptors/breaker/breaker_layer.h"
#include "test/unit/decide/breaker_fixture.h"

/* The layers that a channel has one after the other, as its policy changes. */

#define PATH "/a.A/M"
#define NAME "first"
#define NEXT_NAME "second"
#define CALL_STATE_BYTES 64

static const struct weir_outcome ok = {.code = GRPC_STATUS_OK,
                                       .breaker_verdict = WEIR_BREAKER_VERDICT_SUCCESS};
static const struct weir_outcome unavailable = {.code = GRPC_STATUS_UNAVAILABLE,
                                                .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE};
static const struct weir_outcome reset = {.code = GRPC_STATUS_UNAVAILABLE,
                                          .origin = WEIR_ORIGIN_TRANSPORT_RESET,
                                          .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE};
static const struct weir_outcome too_late = {.code = GRPC_STATUS_DEADLINE_EXCEEDED,
                                             .origin = WEIR_ORIGIN_LOCAL_DEADLINE,
                                             .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE};

static weir_interceptor *layer_begin(struct fixture *f) {
  weir_interceptor *layer = NULL;
  assert_int_equal(weir__breaker_layer_new(&f->options, NAME, 0, &f->allocator, &layer), WEIR_OK);
  return layer;
}

static void layer_end(weir_interceptor *layer) {
  layer->vtable->destroy(layer);
}

struct told {
  uint32_t n;
  struct weir__breaker_name name;
  enum weir_breaker_override override;
  struct weir_breaker_view view;
};

static void note(void *context, const struct weir__breaker_name *name,
                 enum weir_breaker_override override, const struct weir_breaker_view *view) {
  struct told *told = context;
  told->n++;
  told->name = *name;
  told->override = override;
  told->view = *view;
}

static weir_interceptor *renewed(struct fixture *f, weir_interceptor *layer) {
  weir_interceptor *next = NULL;
  assert_int_equal(weir__breaker_layer_renew(layer, &f->options, NEXT_NAME, 0, &next), WEIR_OK);
  return next;
}

/* The layer that follows, with f->options in force. */
static weir_interceptor *follow(struct fixture *f, weir_interceptor *layer, struct told *told) {
  struct told unseen = {0};
  weir_interceptor *next = renewed(f, layer);
  weir__breaker_layer_put_in_force(next);
  weir__breaker_layer_catch_up(next, note, told != NULL ? told : &unseen);
  return next;
}

/* The same, of which nobody needs the former one. */
static void change(struct fixture *f, weir_interceptor **layer, struct told *told) {
  weir_interceptor *next = follow(f, *layer, told);
  layer_end(*layer);
  *layer = next;
}

struct call {
  weir_interceptor *layer;
  struct weir_plan plan;
  _Alignas(max_align_t) unsigned char state[CALL_STATE_BYTES];
};

static enum weir_admission call_begin(struct call *call, struct fixture *f, weir_interceptor *layer,
                                      const char *path, int64_t now_ns) {
  struct weir_event event = {.now_ns = now_ns, .random = &f->random};
  memset(call, 0, sizeof *call);
  call->layer = layer;
  call->plan = (struct weir_plan){.path = path,
                                  .path_size = strlen(path),
                                  .started_at_ns = now_ns,
                                  .deadline_at_ns = now_ns + MS(100)};
  assert_true(layer->vtable->call_state_size <= CALL_STATE_BYTES);
  return layer->vtable->admit != NULL
             ? layer->vtable->admit(layer, call->state, &event, &call->plan)
             : WEIR_ADMISSION_PROCEED;
}

static bool may_resume(struct call *call, struct fixture *f, int64_t now_ns) {
  struct weir_event event = {.now_ns = now_ns, .random = &f->random};
  return call->layer->vtable->resume(call->layer, call->state, &event, &call->plan) ==
         WEIR_ADMISSION_PROCEED;
}

static void call_end(struct call *call, struct fixture *f, const struct weir_outcome *outcome,
                     int64_t now_ns) {
  struct weir_event event = {.now_ns = now_ns, .random = &f->random};
  if (call->layer->vtable->settle != NULL) {
    (void)call->layer->vtable->settle(call->layer, call->state, &event, outcome, &call->plan);
    call->layer->vtable->release(call->layer, call->state, &event, &call->plan);
  }
}

static void calls(struct fixture *f, weir_interceptor *layer, const char *path, uint32_t n,
                  const struct weir_outcome *outcome, int64_t now_ns) {
  for (uint32_t i = 0; i < n; i++) {
    struct call call;
    assert_int_equal(call_begin(&call, f, layer, path, now_ns), WEIR_ADMISSION_PROCEED);
    call_end(&call, f, outcome, now_ns);
  }
}

static void refused(struct fixture *f, weir_interceptor *layer, const char *path, int64_t now_ns) {
  struct call call;
  assert_int_equal(call_begin(&call, f, layer, path, now_ns), WEIR_ADMISSION_REFUSE);
}

static struct weir_breaker_snapshot snapshot_of(weir_interceptor *layer, const char *path,
                                                int64_t now_ns) {
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  assert_int_equal(weir__breaker_layer_snapshot(layer, path, strlen(path), now_ns, &snapshot),
                   WEIR_OK);
  return snapshot;
}

/* --- the same scope --- */

static void breakers_are_the_same_ones(void **state) {
  static const enum weir_breaker_scope scopes[] = {
      WEIR_BREAKER_SCOPE_CHANNEL, WEIR_BREAKER_SCOPE_SERVICE, WEIR_BREAKER_SCOPE_METHOD};
  struct fixture *f = *state;
  for (size_t i = 0; i < 3; i++) {
    struct told told = {0};
    f->options = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
    f->options.scope = scopes[i];
    weir_interceptor *layer = layer_begin(f);
    void *entry = NULL;
    assert_int_equal(weir__breaker_layer_know(layer, PATH, strlen(PATH), &entry), WEIR_OK);
    calls(f, layer, PATH, 4, &unavailable, T0);
    change(f, &layer, &told);
    f->options.open_for_ns = SECONDS(50);
    change(f, &layer, &told);
    assert_int_equal(snapshot_of(layer, PATH, T0).n_failures, 4);
    assert_int_equal(snapshot_of(layer, PATH, T0).generation, 0);
    calls(f, layer, PATH, 1, &unavailable, T0);
    refused(f, layer, PATH, T0);
    assert_int_equal(snapshot_of(layer, PATH, T0).next_probe_in_ns, SECONDS(50));
    change(f, &layer, &told);
    refused(f, layer, PATH, T0);
    assert_int_equal(told.n, 0);
    layer_end(layer);
  }
}

static void call_of_a_former_layer_settles_in_its_breaker(void **state) {
  struct fixture *f = *state;
  f->options.probes = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 5, &unavailable, T0);
  struct call probe;
  assert_int_equal(call_begin(&probe, f, layer, PATH, T0 + SECONDS(30)), WEIR_ADMISSION_PROCEED);
  f->options.probes = 3;
  weir_interceptor *next = follow(f, layer, NULL);
  calls(f, next, PATH, 1, &ok, T0 + SECONDS(30));
  assert_int_equal(snapshot_of(next, PATH, T0 + SECONDS(30)).state, WEIR_BREAKER_HALF_OPEN);
  call_end(&probe, f, &ok, T0 + SECONDS(31));
  layer_end(layer); /* its last call has ended */
  calls(f, next, PATH, 1, &ok, T0 + SECONDS(31));
  assert_int_equal(snapshot_of(next, PATH, T0 + SECONDS(31)).state, WEIR_BREAKER_CLOSED);
  layer_end(next);
}

static void verdict_is_by_the_call_s_own_policy(void **state) {
  struct fixture *f = *state;
  f->options.ignore_resets = true;
  f->options.deadline_floor_ns = SECONDS(1);
  weir_interceptor *layer = layer_begin(f);
  struct call old[2];
  struct call new[2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(call_begin(&old[i], f, layer, PATH, T0), WEIR_ADMISSION_PROCEED);
  }
  f->options = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
  weir_interceptor *next = follow(f, layer, NULL);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(call_begin(&new[i], f, next, PATH, T0), WEIR_ADMISSION_PROCEED);
  }
  call_end(&old[0], f, &reset, T0);
  call_end(&old[1], f, &too_late, T0);
  assert_int_equal(snapshot_of(next, PATH, T0).n_requests, 0);
  call_end(&new[0], f, &reset, T0);
  call_end(&new[1], f, &too_late, T0);
  assert_int_equal(snapshot_of(next, PATH, T0).n_failures, 2);
  layer_end(layer);
  layer_end(next);
}

static void refusal_is_by_the_call_s_own_mode(void **state) {
  struct fixture *f = *state;
  f->options.mode = WEIR_BREAKER_MODE_SHADOW;
  weir_interceptor *shadow = layer_begin(f);
  struct call old;
  assert_int_equal(call_begin(&old, f, shadow, PATH, T0), WEIR_ADMISSION_PROCEED);
  f->options.mode = WEIR_BREAKER_MODE_ENFORCE;
  weir_interceptor *enforcing = follow(f, shadow, NULL);
  struct call new;
  assert_int_equal(call_begin(&new, f, enforcing, PATH, T0), WEIR_ADMISSION_PROCEED);
  calls(f, enforcing, PATH, 5, &unavailable, T0);
  assert_true(may_resume(&old, f, T0));
  assert_false(may_resume(&new, f, T0));
  refused(f, enforcing, PATH, T0);
  calls(f, shadow, PATH, 1, &ok, T0); /* it took its snapshot before the change, and begins late */
  call_end(&old, f, &ok, T0);
  call_end(&new, f, &ok, T0);
  assert_int_equal(snapshot_of(enforcing, PATH, T0).n_refused, 1);
  assert_int_equal(snapshot_of(enforcing, PATH, T0).n_shadowed, 1);
  layer_end(shadow);
  layer_end(enforcing);
}

static void layer_that_is_given_up_has_changed_nothing(void **state) {
  struct fixture *f = *state;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, PATH, 5, &unavailable, T0);
  f->options.open_for_ns = SECONDS(1);
  f->options.probes = 100;
  f->options.window_buckets = 20;
  layer_end(renewed(f, layer));
  f->options.enabled = false;
  layer_end(renewed(f, layer));
  f->options.enabled = true;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  layer_end(renewed(f, layer));
  assert_int_equal(snapshot_of(layer, PATH, T0).next_probe_in_ns, SECONDS(30));
  assert_int_equal(snapshot_of(layer, PATH, T0).generation, 1);
  layer_end(layer);
}

static void bound_follows(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = 2;
  weir_interceptor *layer = layer_begin(f);
  char path[16];
  for (int i = 0; i < 4; i++) {
    (void)snprintf(path, sizeof path, "/a.A/%d", i);
    calls(f, layer, path, 1, &unavailable, T0);
  }
  assert_int_equal(weir__breaker_layer_n_breakers(layer), 2);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 2);
  f->options.max_breakers = 3000;
  change(f, &layer, NULL);
  for (int i = 0; i < 3000; i++) {
    (void)snprintf(path, sizeof path, "/a.A/%d", i);
    calls(f, layer, path, 1, &unavailable, T0);
  }
  assert_int_equal(weir__breaker_layer_n_breakers(layer), 3000);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 2);
  assert_int_equal(snapshot_of(layer, "/a.A/0", T0).n_failures, 2);
  f->options.max_breakers = 1;
  change(f, &layer, NULL);
  assert_int_equal(weir__breaker_layer_n_breakers(layer), 3000); /* those that there are stay */
  assert_int_equal(snapshot_of(layer, "/a.A/2999", T0).n_failures, 1);
  calls(f, layer, "/a.A/other", 1, &ok, T0);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 3);
  layer_end(layer);
}

static void named_methods_of_the_next_policy_are_known(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, "/a.A/Invented", 1, &unavailable, T0);
  weir_interceptor *next = renewed(f, layer);
  assert_int_equal(weir__breaker_layer_know_named(next, PATH, strlen(PATH)), WEIR_OK);
  assert_int_equal(weir__breaker_layer_know_named(next, "/a.A/", 5), WEIR_OK);
  weir__breaker_layer_put_in_force(next);
  calls(f, next, PATH, 2, &unavailable, T0);
  assert_int_equal(snapshot_of(next, PATH, T0).n_failures, 2);
  assert_int_equal(weir__breaker_layer_n_overflowed(next), 0);
  layer_end(layer);
  layer_end(next);
}

#define N_NAMED 5000

static void many_more_named_methods_than_before_are_found(void **state) {
  struct fixture *f = *state;
  char path[24];
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = 2;
  weir_interceptor *layer = layer_begin(f);
  assert_int_equal(weir__breaker_layer_know_named(layer, PATH, strlen(PATH)), WEIR_OK);
  calls(f, layer, PATH, 4, &unavailable, T0);
  calls(f, layer, "/a.A/Invented", 3, &unavailable, T0);
  f->options.max_breakers = N_NAMED + 2;
  weir_interceptor *next = NULL;
  assert_int_equal(weir__breaker_layer_renew(layer, &f->options, NEXT_NAME, N_NAMED, &next),
                   WEIR_OK);
  for (int i = 0; i < N_NAMED; i++) {
    int size = snprintf(path, sizeof path, "/a.A/%d", i);
    assert_int_equal(weir__breaker_layer_know_named(next, path, (size_t)size), WEIR_OK);
  }
  weir__breaker_layer_put_in_force(next);
  layer_end(layer);
  for (int i = 0; i < N_NAMED; i++) {
    (void)snprintf(path, sizeof path, "/a.A/%d", i);
    calls(f, next, path, 1, &unavailable, T0);
  }
  assert_int_equal(weir__breaker_layer_n_breakers(next), N_NAMED + 2);
  assert_int_equal(weir__breaker_layer_n_overflowed(next), 0);
  assert_int_equal(snapshot_of(next, PATH, T0).n_failures, 4);
  assert_int_equal(snapshot_of(next, "/a.A/Invented", T0).n_failures, 3);
  layer_end(next);
}

/* --- switched off, and on again --- */

static void switched_off_and_on_it_begins_anew(void **state) {
  struct fixture *f = *state;
  struct told told = {0};
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, "/a.A/Open", 5, &unavailable, T0);
  calls(f, layer, "/a.A/Closed", 4, &unavailable, T0);
  f->options.enabled = false;
  change(f, &layer, &told);
  assert_int_equal(told.n, 1); /* the other's state is the same */
  assert_string_equal(told.name.text, "/a.A/Open");
  assert_int_equal(told.view.changed_from, WEIR_BREAKER_OPEN);
  assert_int_equal(told.view.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(told.override, WEIR_BREAKER_OVERRIDE_NONE);
  calls(f, layer, "/a.A/Open", 100, &unavailable, T0);
  assert_int_equal(weir__breaker_layer_n_breakers(layer), 0);
  struct weir_breaker_snapshot off = {.size = sizeof off};
  assert_int_equal(weir__breaker_layer_snapshot(layer, "/a.A/Open", 9, T0, &off),
                   WEIR_ERROR_UNAVAILABLE);
  change(f, &layer, &told);
  f->options.enabled = true;
  change(f, &layer, &told);
  assert_int_equal(told.n, 1);
  assert_int_equal(snapshot_of(layer, "/a.A/Open", T0).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot_of(layer, "/a.A/Open", T0).n_requests, 0);
  assert_int_equal(snapshot_of(layer, "/a.A/Closed", T0).n_requests, 0);
  calls(f, layer, "/a.A/Open", 5, &unavailable, T0);
  refused(f, layer, "/a.A/Open", T0);
  layer_end(layer);
}

static void calls_of_before_it_was_off_do_not_count_after(void **state) {
  struct fixture *f = *state;
  f->options.min_requests = 1;
  weir_interceptor *layer = layer_begin(f);
  struct call call[2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(call_begin(&call[i], f, layer, PATH, T0), WEIR_ADMISSION_PROCEED);
  }
  f->options.enabled = false;
  weir_interceptor *off = follow(f, layer, NULL);
  assert_true(may_resume(&call[0], f, T0));
  call_end(&call[0], f, &unavailable, T0);
  f->options.enabled = true;
  weir_interceptor *on = follow(f, off, NULL);
  call_end(&call[1], f, &unavailable, T0);
  assert_int_equal(snapshot_of(on, PATH, T0).state, WEIR_BREAKER_CLOSED);
  assert_int_equal(snapshot_of(on, PATH, T0).n_requests, 0);
  layer_end(layer);
  layer_end(off);
  layer_end(on);
}

static void what_was_set_by_hand_outlives_it(void **state) {
  struct fixture *f = *state;
  struct told told = {0};
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, "/a.A/Other", 1, &ok, T0);
  assert_int_equal(weir__breaker_layer_override(layer, PATH, strlen(PATH),
                                                WEIR_BREAKER_OVERRIDE_OPEN, note, &told),
                   WEIR_OK);
  f->options.enabled = false;
  change(f, &layer, &told);
  assert_int_equal(told.n, 2);
  assert_int_equal(told.view.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(told.override, WEIR_BREAKER_OVERRIDE_OPEN);
  calls(f, layer, PATH, 1, &ok, T0);
  assert_int_equal(weir__breaker_layer_override(layer, PATH, strlen(PATH),
                                                WEIR_BREAKER_OVERRIDE_NONE, note, &told),
                   WEIR_ERROR_UNAVAILABLE);
  f->options.enabled = true;
  change(f, &layer, &told);
  assert_int_equal(told.n, 3);
  assert_int_equal(told.view.state, WEIR_BREAKER_OPEN);
  refused(f, layer, PATH, T0);
  calls(f, layer, "/a.A/Other", 1, &ok, T0);
  layer_end(layer);
}

static void first_switched_on_later(void **state) {
  struct fixture *f = *state;
  f->options.enabled = false;
  weir_interceptor *layer = layer_begin(f);
  void *entry = f;
  assert_int_equal(weir__breaker_layer_know(layer, PATH, strlen(PATH), &entry), WEIR_OK);
  assert_null(entry);
  change(f, &layer, NULL);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 0);
  f->options.enabled = true;
  f->options.scope = WEIR_BREAKER_SCOPE_SERVICE;
  change(f, &layer, NULL);
  calls(f, layer, PATH, 5, &unavailable, T0);
  refused(f, layer, PATH, T0);
  layer_end(layer);
}

/* --- another scope --- */

static void another_scope_has_breakers_of_its_own(void **state) {
  struct fixture *f = *state;
  struct told told = {0};
  weir_interceptor *layer = layer_begin(f);
  struct call old;
  assert_int_equal(call_begin(&old, f, layer, PATH, T0), WEIR_ADMISSION_PROCEED);
  calls(f, layer, PATH, 5, &unavailable, T0);
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *next = follow(f, layer, &told);
  assert_int_equal(told.n, 1);
  assert_string_equal(told.name.text, NAME);
  assert_int_equal(told.view.state, WEIR_BREAKER_CLOSED);
  struct weir_breaker_snapshot none = {.size = sizeof none};
  assert_int_equal(weir__breaker_layer_snapshot(next, PATH, strlen(PATH), T0, &none),
                   WEIR_ERROR_UNAVAILABLE);
  calls(f, next, PATH, 4, &unavailable, T0);
  assert_true(may_resume(&old, f, T0));
  struct weir__breaker_name name;
  weir__breaker_name_set(&name, weir__breaker_layer_name(layer, &old.plan));
  assert_string_equal(name.text, NAME);
  call_end(&old, f, &unavailable, T0);
  layer_end(layer);
  assert_int_equal(snapshot_of(next, PATH, T0).n_failures, 4);
  layer_end(next);
}

static void what_was_set_of_all_holds_in_another_scope(void **state) {
  struct fixture *f = *state;
  struct told told = {0};
  weir_interceptor *layer = layer_begin(f);
  assert_int_equal(weir__breaker_layer_override(layer, PATH, strlen(PATH),
                                                WEIR_BREAKER_OVERRIDE_OPEN, note, &told),
                   WEIR_OK); /* of the only one */
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  change(f, &layer, &told);
  refused(f, layer, PATH, T0);
  f->options.scope = WEIR_BREAKER_SCOPE_SERVICE;
  change(f, &layer, &told);
  refused(f, layer, PATH, T0);
  f->options.scope = WEIR_BREAKER_SCOPE_CHANNEL;
  change(f, &layer, &told);
  refused(f, layer, PATH, T0);
  assert_int_equal(
      weir__breaker_layer_override(layer, NULL, 0, WEIR_BREAKER_OVERRIDE_NONE, note, &told),
      WEIR_OK);
  calls(f, layer, PATH, 1, &ok, T0);
  layer_end(layer);
}

static void count_of_overflown_calls_never_falls(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = 1;
  weir_interceptor *layer = layer_begin(f);
  calls(f, layer, "/a.A/1", 1, &ok, T0);
  calls(f, layer, "/a.A/2", 3, &ok, T0);
  f->options.scope = WEIR_BREAKER_SCOPE_SERVICE;
  change(f, &layer, NULL);
  assert_int_equal(weir__breaker_layer_n_overflowed(layer), 3);
  layer_end(layer);
}

/* --- memory --- */

static void lack_of_memory_leaves_the_former_layer_as_it_is(void **state) {
  struct fixture *f = *state;
  for (size_t kind = 0; kind < 3; kind++) {
    size_t nth = 0;
    enum weir_error error = WEIR_ERROR_NO_MEMORY;
    f->options = (struct weir_breaker_options)WEIR_BREAKER_OPTIONS_INIT;
    f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
    weir_interceptor *layer = layer_begin(f);
    calls(f, layer, PATH, 5, &unavailable, T0);
    calls(f, layer, "/a.A/Other", 4, &unavailable, T0);
    f->options.enabled = kind != 1;
    f->options.scope = kind == 2 ? WEIR_BREAKER_SCOPE_SERVICE : WEIR_BREAKER_SCOPE_METHOD;
    f->options.open_for_ns = SECONDS(1);
    f->options.probes = 100;
    f->options.window_buckets = 50;
    while (error == WEIR_ERROR_NO_MEMORY) {
      weir_interceptor *next = layer;
      f->fails_at = f->n_allocations + ++nth;
      error = weir__breaker_layer_renew(layer, &f->options, NEXT_NAME, 0, &next);
      f->fails_at = 0;
      assert_true(error == WEIR_OK || next == NULL);
      if (error == WEIR_OK) {
        layer_end(next);
      }
      assert_int_equal(snapshot_of(layer, PATH, T0).next_probe_in_ns, SECONDS(30));
      assert_int_equal(snapshot_of(layer, "/a.A/Other", T0).n_failures, 4);
    }
    assert_in_range(nth, kind == 1 ? 2 : 3, 16);
    layer_end(layer);
  }
}

static void memory_stays_flat_whatever_changes(void **state) {
  struct fixture *f = *state;
  static const enum weir_breaker_scope scopes[] = {
      WEIR_BREAKER_SCOPE_CHANNEL, WEIR_BREAKER_SCOPE_SERVICE, WEIR_BREAKER_SCOPE_METHOD};
  weir_interceptor *layer = layer_begin(f);
  struct call long_one;
  assert_int_equal(call_begin(&long_one, f, layer, PATH, T0), WEIR_ADMISSION_PROCEED);
  size_t n_most = 0;
  for (uint32_t i = 0; i < 3000; i++) {
    struct told told = {0};
    f->options.scope = scopes[i % 7 % 3];
    f->options.enabled = i % 5 != 0;
    f->options.probes = 1 + i % 9;
    f->options.window_buckets = 1 + i % 13;
    f->options.open_for_ns = SECONDS(1) + i;
    weir_interceptor *next = follow(f, layer, &told);
    assert_int_equal(weir__breaker_layer_know_named(next, PATH, strlen(PATH)), WEIR_OK);
    if (i > 0) {
      layer_end(layer); /* but the first, which a call holds */
    } else {
      long_one.layer = layer;
    }
    layer = next;
    calls(f, layer, PATH, 1, &ok, T0);
    if (i == 100) {
      n_most = atomic_load(&f->n_outstanding);
    }
    assert_true(i <= 100 || atomic_load(&f->n_outstanding) <= n_most + 16);
  }
  call_end(&long_one, f, &unavailable, T0);
  layer_end(long_one.layer);
  layer_end(layer);
}

static void names_of_the_past_do_not_pile_up(void **state) {
  struct fixture *f = *state;
  size_t n_most = 0;
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  for (int i = 0; i < 60000; i++) {
    char path[24];
    int size = snprintf(path, sizeof path, "/a.A/%d", i);
    if (i % 10 == 0) {
      weir_interceptor *next = NULL;
      assert_int_equal(weir__breaker_layer_renew(layer, &f->options, NEXT_NAME, 10, &next),
                       WEIR_OK);
      layer_end(layer);
      layer = next;
    }
    assert_int_equal(weir__breaker_layer_know_named(layer, path, (size_t)size), WEIR_OK);
    if (i % 10 == 9) {
      struct told told = {0};
      weir__breaker_layer_put_in_force(layer);
      weir__breaker_layer_catch_up(layer, note, &told);
      calls(f, layer, path, 1, &ok, T0);
    }
    size_t n_outstanding = atomic_load(&f->n_outstanding);
    n_most = i < 10000 && n_outstanding > n_most ? n_outstanding : n_most;
    assert_true(i < 10000 || n_outstanding <= n_most + 20);
  }
  assert_true(n_most > 4096); /* they are kept for long */
  layer_end(layer);
}

static void a_service_can_t_be_overridden_where_methods_have_breakers(void **state) {
  struct fixture *f = *state;
  struct told told = {0};
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  weir_interceptor *layer = layer_begin(f);
  assert_int_equal(
      weir__breaker_layer_override(layer, "/a.A/", 5, WEIR_BREAKER_OVERRIDE_OPEN, note, &told),
      WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(weir__breaker_layer_n_breakers(layer), 0);
  f->options.scope = WEIR_BREAKER_SCOPE_SERVICE;
  change(f, &layer, NULL);
  assert_int_equal(
      weir__breaker_layer_override(layer, "/a.A/", 5, WEIR_BREAKER_OVERRIDE_OPEN, note, &told),
      WEIR_OK);
  assert_string_equal(told.name.text, "/a.A");
  refused(f, layer, PATH, T0);
  layer_end(layer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(breakers_are_the_same_ones),
      TEST(call_of_a_former_layer_settles_in_its_breaker),
      TEST(verdict_is_by_the_call_s_own_policy),
      TEST(refusal_is_by_the_call_s_own_mode),
      TEST(layer_that_is_given_up_has_changed_nothing),
      TEST(bound_follows),
      TEST(named_methods_of_the_next_policy_are_known),
      TEST(many_more_named_methods_than_before_are_found),
      TEST(switched_off_and_on_it_begins_anew),
      TEST(calls_of_before_it_was_off_do_not_count_after),
      TEST(what_was_set_by_hand_outlives_it),
      TEST(first_switched_on_later),
      TEST(another_scope_has_breakers_of_its_own),
      TEST(what_was_set_of_all_holds_in_another_scope),
      TEST(count_of_overflown_calls_never_falls),
      TEST(lack_of_memory_leaves_the_former_layer_as_it_is),
      TEST(memory_stays_flat_whatever_changes),
      TEST(names_of_the_past_do_not_pile_up),
      TEST(a_service_can_t_be_overridden_where_methods_have_breakers),
  };
  return cmocka_run_group_tests_name("breaker layers", tests, NULL, NULL);
}
