/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <malloc.h>

#include <cmocka.h>

#include "src/decide/breaker_registry.h"
#include "test/unit/decide/breaker_fixture.h"

static void registry_begin(struct fixture *f, struct weir__breaker_registry *registry,
                           enum weir_breaker_scope scope, uint32_t max_breakers) {
  f->options.scope = scope;
  f->options.max_breakers = max_breakers;
  assert_int_equal(weir__breaker_registry_init(registry, &f->options, &f->allocator), WEIR_OK);
}

/* The entry that calls of a path go through; each path has one as long as nothing is taken over. */
static struct weir__breaker_entry *enter_at(struct weir__breaker_registry *registry,
                                            const char *path, int64_t now_ns) {
  struct weir__breaker_entry *entry =
      weir__breaker_registry_enter(registry, path, strlen(path), now_ns);
  assert_non_null(entry);
  assert_non_null(weir__breaker_entry_breaker(entry));
  return entry;
}

static struct weir__breaker_entry *enter(struct weir__breaker_registry *registry,
                                         const char *path) {
  return enter_at(registry, path, T0);
}

static struct weir__breaker_entry *know(struct weir__breaker_registry *registry, const char *path) {
  struct weir__breaker_entry *entry = NULL;
  assert_int_equal(weir__breaker_registry_know(registry, path, strlen(path), &entry), WEIR_OK);
  return entry;
}

static bool is_shared(const struct weir__breaker_registry *registry,
                      const struct weir__breaker_entry *entry) {
  return entry == &registry->shared;
}

/* A call, from its admission on. */
struct registry_call {
  const char *path;
  struct weir__breaker_entry *entry;
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
};

static enum weir_admission call_begin(struct fixture *f, struct weir__breaker_registry *registry,
                                      struct registry_call *call, const char *path,
                                      int64_t now_ns) {
  *call = (struct registry_call){.path = path};
  return weir__breaker_registry_admit(registry, WEIR_BREAKER_MODE_ENFORCE, path, strlen(path),
                                      now_ns, &f->random, &call->entry, &call->ticket, &call->view);
}

static void call_end(struct fixture *f, struct registry_call *call,
                     enum weir_breaker_verdict verdict, int64_t now_ns) {
  weir_breaker_settle(weir__breaker_entry_breaker(call->entry), &call->ticket, verdict, now_ns,
                      &f->random, &call->view);
}

static struct weir__breaker_entry *call_once(struct fixture *f,
                                             struct weir__breaker_registry *registry,
                                             const char *path, enum weir_breaker_verdict verdict,
                                             int64_t now_ns) {
  struct registry_call call;
  assert_int_equal(call_begin(f, registry, &call, path, now_ns), WEIR_ADMISSION_PROCEED);
  call_end(f, &call, verdict, now_ns);
  return call.entry;
}

static void trip(struct fixture *f, struct weir__breaker_registry *registry, const char *path,
                 int64_t now_ns) {
  for (uint32_t i = 0; i < f->options.min_requests; i++) {
    (void)call_once(f, registry, path, WEIR_BREAKER_VERDICT_FAILURE, now_ns);
  }
}

static enum weir_error look(struct weir__breaker_registry *registry, const char *path,
                            int64_t now_ns, struct weir_breaker_snapshot *snapshot_out) {
  *snapshot_out = (struct weir_breaker_snapshot){.size = sizeof *snapshot_out};
  return weir__breaker_registry_snapshot(registry, path, strlen(path), now_ns, snapshot_out);
}

static enum weir_breaker_state state_of(struct weir__breaker_registry *registry, const char *path,
                                        int64_t now_ns) {
  struct weir_breaker_snapshot snapshot;
  assert_int_equal(look(registry, path, now_ns, &snapshot), WEIR_OK);
  return snapshot.state;
}

static const char *numbered(char path[64], const char *prefix, uint32_t number) {
  (void)snprintf(path, 64, "%s%08x-%u", prefix, (unsigned)(number * 2654435761U), (unsigned)number);
  return path;
}

/* --- keys --- */

static void channel_has_one_breaker(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_CHANNEL, 1024);
  size_t n_before = f->n_allocations;
  assert_ptr_equal(enter(&registry, "/a.A/M"), enter(&registry, "/b.B/N"));
  assert_ptr_equal(know(&registry, "/c.C/O"), enter(&registry, "/a.A/M"));
  assert_int_equal(f->n_allocations, n_before);
  assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 0);
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 1);
  trip(f, &registry, "/a.A/M", T0);
  assert_int_equal(state_of(&registry, "/never.Called/M", T0), WEIR_BREAKER_OPEN);
  weir__breaker_registry_fini(&registry);
}

static const struct {
  const char *why;
  const char *one;
  const char *other;
  bool same_service;
  bool same_method;
} rows[] = {
    {"the same method", "/a.A/M", "/a.A/M", true, true},
    {"a sibling", "/a.A/M", "/a.A/N", true, false},
    {"another service", "/a.A/M", "/a.B/M", false, false},
    {"a service whose name goes on", "/a.A/M", "/a.AB/M", false, false},
    {"a method whose name goes on", "/a.A/M", "/a.A/MN", true, false},
    {"another case", "/a.A/M", "/a.a/M", false, false},
    {"no service", "/M", "/N", false, false},
    {"no slash", "M", "N", false, false},
    {"nothing at all", "", "/", false, false},
    {"more slashes", "/x/a.A/M", "/x/a.A/N", true, false},
    {"eight bytes and nine", "/a.A/abc", "/a.A/abcd", true, false},
    {"a difference in the last of many bytes", "/pkg.of.a.long.name.Service/MethodA",
     "/pkg.of.a.long.name.Service/MethodB", true, false},
};

static void scope_says_which_calls_share_a_breaker(void **state) {
  struct fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (int known = 0; known < 2; known++) {
      struct weir__breaker_registry by_service;
      struct weir__breaker_registry by_method;
      registry_begin(f, &by_service, WEIR_BREAKER_SCOPE_SERVICE, 1024);
      registry_begin(f, &by_method, WEIR_BREAKER_SCOPE_METHOD, 1024);
      if (known == 1) {
        (void)know(&by_service, rows[i].one);
        (void)know(&by_method, rows[i].one);
      }
      if ((enter(&by_service, rows[i].one) == enter(&by_service, rows[i].other)) !=
          rows[i].same_service) {
        fail_msg("by service: %s", rows[i].why);
      }
      if ((enter(&by_method, rows[i].one) == enter(&by_method, rows[i].other)) !=
          rows[i].same_method) {
        fail_msg("by method: %s", rows[i].why);
      }
      weir__breaker_registry_fini(&by_method);
      weir__breaker_registry_fini(&by_service);
    }
  }
}

static void path_need_not_be_terminated(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
  struct weir__breaker_entry *entry = weir__breaker_registry_enter(&registry, "/a.A/MORE", 6, T0);
  assert_ptr_equal(entry, enter(&registry, "/a.A/M"));
  weir__breaker_registry_fini(&registry);
}

static void looking_makes_no_breaker(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct weir_breaker_snapshot snapshot;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
  (void)know(&registry, "/a.A/Known");
  assert_int_equal(look(&registry, "/a.A/M", T0, &snapshot), WEIR_ERROR_UNAVAILABLE);
  assert_int_equal(look(&registry, "/a.A/Known", T0, &snapshot), WEIR_ERROR_UNAVAILABLE);
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 0);
  (void)enter(&registry, "/a.A/M");
  assert_int_equal(look(&registry, "/a.A/M", T0, &snapshot), WEIR_OK);
  assert_int_equal(look(&registry, "/a.A/N", T0, &snapshot), WEIR_ERROR_UNAVAILABLE);
  weir__breaker_registry_fini(&registry);
}

static void path_that_is_called_again_is_found_without_memory(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
  (void)know(&registry, "/a.A/Known");
  struct weir__breaker_entry *known = enter(&registry, "/a.A/Known");
  struct weir__breaker_entry *unknown = enter(&registry, "/a.A/M");
  size_t n_before = f->n_allocations;
  for (int i = 0; i < 1000; i++) {
    assert_ptr_equal(enter(&registry, "/a.A/M"), unknown);
    assert_ptr_equal(enter(&registry, "/a.A/Known"), known);
  }
  assert_int_equal(f->n_allocations, n_before);
  weir__breaker_registry_fini(&registry);
}

/* --- the bound --- */

static void a_million_paths_take_bounded_memory_and_push_nobody_out(void **state) {
  enum { N_PATHS = 1000000, MAX = 1000, N_KNOWN = 3 };
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  char path[64];
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, MAX);
  (void)know(&registry, "/real.Service/One");
  (void)know(&registry, "/real.Service/Two");
  (void)know(&registry, "/real.Service/Three");
  struct weir__breaker_entry *first = enter(&registry, "/x.S/first");
  size_t n_at_the_bound = 0;
  for (uint32_t i = 0; i < N_PATHS; i++) {
    (void)enter(&registry, numbered(path, "/x.S/", i));
    if (i == MAX) {
      n_at_the_bound = atomic_load(&f->n_outstanding);
    }
  }
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), MAX - N_KNOWN);
  assert_int_equal(weir__breaker_registry_n_overflowed(&registry), N_PATHS + 1 - (MAX - N_KNOWN));
  assert_int_equal(atomic_load(&f->n_outstanding), n_at_the_bound);
  assert_ptr_equal(enter(&registry, "/x.S/first"), first);
  assert_true(is_shared(&registry, enter(&registry, "/x.S/last")));
  assert_false(is_shared(&registry, enter(&registry, "/real.Service/One")));
  assert_false(is_shared(&registry, enter(&registry, "/real.Service/Two")));
  assert_false(is_shared(&registry, enter(&registry, "/real.Service/Three")));
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), MAX);
  weir__breaker_registry_fini(&registry);
}

static void calls_that_share_a_breaker_are_let_through(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct registry_call call;
  char path[64];
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  trip(f, &registry, "/a.A/M", T0);
  for (uint32_t i = 0; i < 100; i++) {
    numbered(path, "/x.S/", i);
    assert_int_equal(call_begin(f, &registry, &call, path, T0), WEIR_ADMISSION_PROCEED);
    assert_true(is_shared(&registry, call.entry));
    call_end(f, &call, WEIR_BREAKER_VERDICT_SUCCESS, T0);
  }
  assert_int_equal(state_of(&registry, "/x.S/another", T0), WEIR_BREAKER_CLOSED);
  assert_int_equal(state_of(&registry, "/a.A/M", T0), WEIR_BREAKER_OPEN);
  weir__breaker_registry_fini(&registry);
}

static void known_keys_beyond_the_bound_share_too(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 2);
  (void)know(&registry, "/a.A/One");
  (void)know(&registry, "/a.A/Two");
  struct weir__breaker_entry *third = know(&registry, "/a.A/Three");
  assert_true(is_shared(&registry, enter(&registry, "/x.S/unknown"))); /* all is reserved */
  struct weir__breaker_entry *two = enter(&registry, "/a.A/Two");
  assert_ptr_equal(enter(&registry, "/a.A/Three"), third); /* who comes first */
  assert_true(is_shared(&registry, enter(&registry, "/a.A/One")));
  assert_ptr_equal(enter(&registry, "/a.A/Two"), two);
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 2);
  assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 2);
  weir__breaker_registry_fini(&registry);
}

static void a_name_given_twice_reserves_one_place(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_SERVICE, 2);
  struct weir__breaker_entry *service = know(&registry, "/a.A/");
  assert_ptr_equal(know(&registry, "/a.A/One"), service);
  assert_ptr_equal(know(&registry, "/a.A/Two"), service);
  assert_ptr_equal(enter(&registry, "/a.A/Invented"), service);
  assert_false(is_shared(&registry, enter(&registry, "/x.S/M")));
  assert_true(is_shared(&registry, enter(&registry, "/y.S/M")));
  weir__breaker_registry_fini(&registry);
}

static void a_late_name_keeps_the_breaker_that_its_key_has(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct registry_call before;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 2);
  trip(f, &registry, "/a.A/M", T0 - SECONDS(60));
  assert_int_equal(call_begin(f, &registry, &before, "/a.A/M", T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(before.view.state, WEIR_BREAKER_HALF_OPEN);
  (void)enter(&registry, "/x.S/M");

  struct weir__breaker_entry *entry = know(&registry, "/a.A/M");
  assert_ptr_equal(enter(&registry, "/a.A/M"), entry);
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 2);
  assert_int_equal(state_of(&registry, "/a.A/M", T0), WEIR_BREAKER_HALF_OPEN);
  call_end(f, &before, WEIR_BREAKER_VERDICT_FAILURE, T0);
  assert_int_equal(state_of(&registry, "/a.A/M", T0), WEIR_BREAKER_OPEN);
  assert_false(weir__breaker_registry_still_admits(&registry, WEIR_BREAKER_MODE_ENFORCE,
                                                   before.entry, before.path, strlen(before.path),
                                                   &before.ticket));
  weir__breaker_registry_fini(&registry);
}

static void a_late_name_passes_the_bound_by_itself(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 2);
  struct weir__breaker_entry *one = enter(&registry, "/x.S/One");
  struct weir__breaker_entry *two = enter(&registry, "/x.S/Two");
  struct weir__breaker_entry *late = know(&registry, "/a.A/Late");
  assert_ptr_equal(enter(&registry, "/a.A/Late"), late);
  assert_ptr_equal(enter(&registry, "/x.S/One"), one);
  assert_ptr_equal(enter(&registry, "/x.S/Two"), two);
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 3);
  assert_true(is_shared(&registry, enter(&registry, "/x.S/Three")));
  weir__breaker_registry_fini(&registry);
}

/* What is given to the allocator's owner too. */
static size_t n_bytes_in_use;

static void *measuring_allocate(void *context, size_t n_bytes) {
  (void)context;
  void *memory = malloc(n_bytes);
  n_bytes_in_use += malloc_usable_size(memory) + sizeof(size_t);
  return memory;
}

static void measuring_release(void *context, void *memory) {
  (void)context;
  n_bytes_in_use -= malloc_usable_size(memory) + sizeof(size_t);
  free(memory);
}

static void ten_thousand_breakers_fit_into_four_mebibytes(void **state) {
  enum { N_BREAKERS = 10000 };
  struct fixture *f = *state;
  const struct weir_allocator allocator = {
      .size = sizeof allocator, .allocate = measuring_allocate, .release = measuring_release};
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = N_BREAKERS;
  for (int known = 0; known < 2; known++) {
    struct weir__breaker_registry registry;
    char path[64];
    n_bytes_in_use = 0;
    assert_int_equal(weir__breaker_registry_init(&registry, &f->options, &allocator), WEIR_OK);
    assert_true(weir__breaker_registry_expect(&registry, known == 1 ? N_BREAKERS : 0));
    for (uint32_t i = 0; i < N_BREAKERS; i++) {
      numbered(path, "/pkg.Service/", i);
      if (known == 1) {
        (void)know(&registry, path);
      }
      (void)call_once(f, &registry, path, WEIR_BREAKER_VERDICT_SUCCESS, T0);
    }
    assert_int_equal(weir__breaker_registry_n_breakers(&registry), N_BREAKERS);
    assert_in_range(n_bytes_in_use, N_BREAKERS, 4 * 1024 * 1024);
    weir__breaker_registry_fini(&registry);
    assert_int_equal(n_bytes_in_use, 0);
  }
}

static void a_bound_of_billions_costs_nothing_at_first(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, UINT32_MAX);
  assert_ptr_not_equal(enter(&registry, "/a.A/M"), enter(&registry, "/a.A/N"));
  weir__breaker_registry_fini(&registry);
}

/* --- taking over --- */

/* T0 begins a bucket of the window, so what happens then has left it when it is as long ago. */
#define WINDOW SECONDS(60)
#define BUCKET SECONDS(6)

static void a_breaker_that_knows_nothing_is_taken_over(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct weir_breaker_snapshot snapshot;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  struct weir__breaker_entry *old =
      call_once(f, &registry, "/x.S/Old", WEIR_BREAKER_VERDICT_FAILURE, T0);
  assert_true(is_shared(&registry, enter_at(&registry, "/x.S/New", T0 + WINDOW - 1)));
  size_t n_before = f->n_allocations;
  int64_t later_ns = T0 + WINDOW + BUCKET;
  assert_ptr_equal(enter_at(&registry, "/x.S/New", later_ns), old);
  assert_int_equal(f->n_allocations, n_before);
  assert_int_equal(look(&registry, "/x.S/New", later_ns, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.n_requests, 0);
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), 1);
  assert_true(is_shared(&registry, enter_at(&registry, "/x.S/Old", later_ns)));
  weir__breaker_registry_fini(&registry);
}

static void only_what_knows_nothing_is_taken_over(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 4);
  (void)know(&registry, "/real.S/Idle");
  int64_t later_ns = T0 + WINDOW + BUCKET;
  (void)call_once(f, &registry, "/real.S/Idle", WEIR_BREAKER_VERDICT_SUCCESS, T0);
  trip(f, &registry, "/x.S/Open", T0);
  struct weir__breaker_entry *idle =
      call_once(f, &registry, "/x.S/Idle", WEIR_BREAKER_VERDICT_SUCCESS, T0);
  (void)call_once(f, &registry, "/x.S/Busy", WEIR_BREAKER_VERDICT_SUCCESS, T0);
  (void)call_once(f, &registry, "/x.S/Busy", WEIR_BREAKER_VERDICT_SUCCESS, later_ns - BUCKET);

  assert_ptr_equal(enter_at(&registry, "/x.S/New", later_ns), idle);
  assert_true(is_shared(&registry, enter_at(&registry, "/x.S/Newer", later_ns)));
  assert_false(is_shared(&registry, enter_at(&registry, "/real.S/Idle", later_ns)));
  assert_false(is_shared(&registry, enter_at(&registry, "/x.S/Busy", later_ns)));
  assert_int_equal(state_of(&registry, "/x.S/Open", later_ns), WEIR_BREAKER_OPEN);
  weir__breaker_registry_fini(&registry);
}

static void a_call_whose_breaker_was_taken_over_goes_on_and_says_nothing(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct registry_call call;
  f->options.min_requests = 1;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  assert_int_equal(call_begin(f, &registry, &call, "/x.S/Old", T0), WEIR_ADMISSION_PROCEED);
  assert_ptr_equal(enter_at(&registry, "/x.S/New", T0 + WINDOW), call.entry);
  trip(f, &registry, "/x.S/New", T0 + WINDOW);
  assert_true(weir__breaker_registry_still_admits(&registry, WEIR_BREAKER_MODE_ENFORCE, call.entry,
                                                  call.path, strlen(call.path), &call.ticket));
  struct weir_breaker_snapshot before;
  struct weir_breaker_snapshot after;
  assert_int_equal(look(&registry, "/x.S/New", T0 + WINDOW, &before), WEIR_OK);
  call_end(f, &call, WEIR_BREAKER_VERDICT_FAILURE, T0 + WINDOW);
  assert_false(call.view.changed);
  assert_int_equal(look(&registry, "/x.S/New", T0 + WINDOW, &after), WEIR_OK);
  assert_memory_equal(&before, &after, sizeof before);
  weir__breaker_registry_fini(&registry);
}

static void a_call_under_way_keeps_its_breaker_for_a_window(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct registry_call call;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  assert_int_equal(call_begin(f, &registry, &call, "/x.S/Slow", T0), WEIR_ADMISSION_PROCEED);
  assert_true(is_shared(&registry, enter_at(&registry, "/x.S/New", T0 + SECONDS(10))));
  call_end(f, &call, WEIR_BREAKER_VERDICT_FAILURE, T0 + SECONDS(20));
  struct weir_breaker_snapshot snapshot;
  assert_int_equal(look(&registry, "/x.S/Slow", T0 + SECONDS(20), &snapshot), WEIR_OK);
  assert_int_equal(snapshot.n_failures, 1);
  weir__breaker_registry_fini(&registry);
}

static void after_a_fruitless_round_nobody_searches_for_a_bucket(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  char path[64];
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 8);
  for (uint32_t i = 0; i < 8; i++) {
    (void)call_once(f, &registry, numbered(path, "/x.S/", i), WEIR_BREAKER_VERDICT_SUCCESS, T0);
  }
  for (uint32_t i = 0; i < 8; i++) {
    (void)enter_at(&registry, numbered(path, "/y.S/", i), T0 + WINDOW - 1);
  }
  assert_true(is_shared(&registry, enter_at(&registry, "/y.S/New", T0 + WINDOW + BUCKET / 2)));
  assert_false(is_shared(&registry, enter_at(&registry, "/y.S/New", T0 + WINDOW + BUCKET)));
  weir__breaker_registry_fini(&registry);
}

static void a_clock_that_was_set_back_does_not_stop_the_search(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  (void)enter_at(&registry, "/x.S/Old", T0);
  (void)call_once(f, &registry, "/x.S/Old", WEIR_BREAKER_VERDICT_SUCCESS, T0 + SECONDS(3600));
  assert_true(is_shared(&registry, enter_at(&registry, "/x.S/New", T0 + SECONDS(3600))));
  assert_false(is_shared(&registry, enter_at(&registry, "/x.S/New", T0 + WINDOW)));
  weir__breaker_registry_fini(&registry);
}

static void every_idle_breaker_is_found_in_the_end(void **state) {
  enum { N = 100 };
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  char path[64];
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, N);
  for (uint32_t i = 0; i < N; i++) {
    (void)call_once(f, &registry, numbered(path, "/x.S/", i), WEIR_BREAKER_VERDICT_SUCCESS, T0);
  }
  for (uint32_t i = 0; i < N; i++) {
    assert_false(
        is_shared(&registry, enter_at(&registry, numbered(path, "/y.S/", i), T0 + WINDOW)));
  }
  for (uint32_t i = 0; i < N; i++) { /* and each is found as what it has become */
    assert_false(
        is_shared(&registry, enter_at(&registry, numbered(path, "/y.S/", i), T0 + WINDOW)));
    assert_true(is_shared(&registry, enter_at(&registry, numbered(path, "/x.S/", i), T0 + WINDOW)));
  }
  assert_int_equal(weir__breaker_registry_n_breakers(&registry), N);
  weir__breaker_registry_fini(&registry);
}

static void a_window_without_end_pauses_the_search_for_ever(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  f->options.window_ns = WEIR_NO_LIMIT_NS;
  f->options.window_buckets = 1;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  (void)enter(&registry, "/x.S/First");
  (void)enter(&registry, "/x.S/Second"); /* there is none to take over */
  assert_true(atomic_load(&registry.no_search_until_ns) > T0);
  weir__breaker_registry_fini(&registry);
}

/* --- overrides --- */

struct told {
  struct weir__breaker_registry *registry;
  size_t n;
  char names[8][WEIR__BREAKER_NAME_BYTES + 1];
  struct weir_breaker_view views[8];
};

/* Calls the registry again, as who is told may. */
static void note(void *context, enum weir__breaker_kind kind, const struct weir__breaker_name *name,
                 enum weir_breaker_override override, const struct weir_breaker_view *view) {
  struct told *told = context;
  struct weir__breaker_entry *entry = NULL;
  assert_in_range(told->n, 0, 7);
  assert_int_equal(strlen(name->text), name->size);
  assert_true((kind == WEIR__BREAKER_SHARED) == (name->size == 0));
  assert_true((override == WEIR_BREAKER_OVERRIDE_OPEN) == (view->state == WEIR_BREAKER_OPEN));
  memcpy(told->names[told->n], name->text, sizeof name->text);
  told->views[told->n++] = *view;
  (void)enter(told->registry, "/told.S/M");
  assert_int_equal(weir__breaker_registry_know(told->registry, "/told.S/Known", 13, &entry),
                   WEIR_OK);
}

static bool was_told(const struct told *told, const char *name) {
  size_t n = 0;
  for (size_t i = 0; i < told->n; i++) {
    n += strcmp(told->names[i], name) == 0 ? 1 : 0;
  }
  assert_in_range(n, 0, 1);
  return n == 1;
}

static void an_override_of_all_is_of_those_to_come_too(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct registry_call call;
  struct told told = {.registry = &registry};
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 4);
  (void)know(&registry, "/a.A/Known");
  (void)know(&registry, "/a.A/Unused");
  (void)enter(&registry, "/a.A/Known");
  (void)enter(&registry, "/x.S/Unknown");
  (void)enter(&registry, "/x.S/Promoted");
  (void)know(&registry, "/x.S/Promoted");
  weir__breaker_registry_override_all(&registry, WEIR_BREAKER_OVERRIDE_OPEN, note, &told);
  assert_int_equal(told.n, 4);
  assert_true(was_told(&told, "/a.A/Known"));
  assert_true(was_told(&told, "/x.S/Unknown"));
  assert_true(was_told(&told, "/x.S/Promoted"));
  assert_true(was_told(&told, ""));
  static const char *const paths[] = {"/a.A/Known", "/a.A/Unused", "/x.S/Unknown", "/x.S/Promoted",
                                      "/x.S/New",   "/x.S/Newer",  "/told.S/Known"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    assert_int_equal(call_begin(f, &registry, &call, paths[i], T0), WEIR_ADMISSION_REFUSE);
    assert_int_equal(call.view.refusal, WEIR_BREAKER_REFUSAL_FORCED_OPEN);
  }
  told.n = 0;
  weir__breaker_registry_override_all(&registry, WEIR_BREAKER_OVERRIDE_OPEN, note, &told);
  assert_int_equal(told.n, 0);
  weir__breaker_registry_override_all(&registry, WEIR_BREAKER_OVERRIDE_NONE, note, &told);
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    assert_int_equal(call_begin(f, &registry, &call, paths[i], T0), WEIR_ADMISSION_PROCEED);
  }
  weir__breaker_registry_fini(&registry);
}

static void an_override_of_one_leaves_the_others(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct registry_call call;
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_view view;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  (void)enter(&registry, "/x.S/First");
  assert_int_equal(weir__breaker_registry_override_one(&registry, "/a.A/M", 6,
                                                       WEIR_BREAKER_OVERRIDE_OPEN, &entry, &view),
                   WEIR_OK);
  assert_non_null(entry); /* whatever the bound says */
  assert_int_equal(call_begin(f, &registry, &call, "/a.A/M", T0), WEIR_ADMISSION_REFUSE);
  assert_int_equal(call_begin(f, &registry, &call, "/x.S/First", T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(call_begin(f, &registry, &call, "/x.S/Other", T0), WEIR_ADMISSION_PROCEED);
  /* an hour later it is still what it was set to */
  (void)enter_at(&registry, "/x.S/New", T0 + SECONDS(3600));
  assert_int_equal(call_begin(f, &registry, &call, "/a.A/M", T0 + SECONDS(3600)),
                   WEIR_ADMISSION_REFUSE);
  assert_int_equal(weir__breaker_registry_override_one(&registry, "/a.A/M", 6,
                                                       WEIR_BREAKER_OVERRIDE_NONE, &entry, &view),
                   WEIR_OK);
  assert_int_equal(view.state, WEIR_BREAKER_CLOSED);
  assert_int_equal(call_begin(f, &registry, &call, "/a.A/M", T0), WEIR_ADMISSION_PROCEED);
  weir__breaker_registry_fini(&registry);
}

static void taking_back_what_nobody_has_set_makes_nothing(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_view view;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 4);
  for (int turn = 0; turn < 2; turn++) {
    assert_int_equal(weir__breaker_registry_override_one(&registry, "/a.A/M", 6,
                                                         WEIR_BREAKER_OVERRIDE_NONE, &entry, &view),
                     WEIR_OK);
    assert_null(entry);
    assert_int_equal(weir__breaker_registry_n_breakers(&registry), (unsigned)turn);
    (void)enter(&registry, "/a.A/M"); /* and where there is one, changes nothing */
  }
  weir__breaker_registry_fini(&registry);
}

static void one_may_be_taken_out_of_an_override_of_all(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct registry_call call;
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_view view;
  struct told told = {.registry = &registry};
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_SERVICE, 4);
  weir__breaker_registry_override_all(&registry, WEIR_BREAKER_OVERRIDE_OPEN, note, &told);
  assert_int_equal(weir__breaker_registry_override_one(
                       &registry, "/a.A/", 5, WEIR_BREAKER_OVERRIDE_DISABLED, &entry, &view),
                   WEIR_OK);
  assert_int_equal(call_begin(f, &registry, &call, "/a.A/M", T0), WEIR_ADMISSION_PROCEED);
  assert_int_equal(call_begin(f, &registry, &call, "/a.B/M", T0), WEIR_ADMISSION_REFUSE);
  weir__breaker_registry_fini(&registry);
}

/* While all are being overridden, somebody who is told of the first says otherwise of one. */
struct objection {
  struct weir__breaker_registry *registry;
  const char *path;
  size_t n;
};

static void object_once(void *context, enum weir__breaker_kind kind,
                        const struct weir__breaker_name *name, enum weir_breaker_override override,
                        const struct weir_breaker_view *view) {
  struct objection *objection = context;
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_view own;
  (void)kind;
  (void)name;
  (void) override;
  (void)view;
  if (objection->n++ == 0) {
    assert_int_equal(weir__breaker_registry_override_one(
                         objection->registry, objection->path, strlen(objection->path),
                         WEIR_BREAKER_OVERRIDE_DISABLED, &entry, &own),
                     WEIR_OK);
    assert_non_null(entry);
  }
}

static void a_later_word_on_one_holds_though_all_are_being_overridden(void **state) {
  struct fixture *f = *state;
  static const char *const paths[] = {"/a.A/Known", "/x.S/Unknown", "/x.S/Promoted", "/x.S/New"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    struct weir__breaker_registry registry;
    struct registry_call call;
    struct objection objection = {.registry = &registry, .path = paths[i]};
    registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 8);
    (void)know(&registry, "/a.A/Known");
    (void)enter(&registry, "/a.A/Known");
    (void)enter(&registry, "/x.S/Unknown");
    (void)enter(&registry, "/x.S/Promoted");
    (void)know(&registry, "/x.S/Promoted");
    weir__breaker_registry_override_all(&registry, WEIR_BREAKER_OVERRIDE_OPEN, object_once,
                                        &objection);
    assert_int_equal(call_begin(f, &registry, &call, paths[i], T0), WEIR_ADMISSION_PROCEED);
    assert_int_equal(call_begin(f, &registry, &call, "/y.S/Other", T0), WEIR_ADMISSION_REFUSE);
    /* and a still later one on all holds for it too */
    weir__breaker_registry_override_all(&registry, WEIR_BREAKER_OVERRIDE_OPEN, object_once,
                                        &objection);
    assert_int_equal(call_begin(f, &registry, &call, paths[i], T0), WEIR_ADMISSION_REFUSE);
    weir__breaker_registry_fini(&registry);
  }
}

/* --- memory --- */

static void no_memory_for_a_breaker_shares_one_until_there_is(void **state) {
  struct fixture *f = *state;
  for (int known = 0; known < 2; known++) {
    struct weir__breaker_registry registry;
    registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1024);
    (void)enter(&registry, "/a.A/Other");
    if (known == 1) {
      (void)know(&registry, "/a.A/M");
    }
    f->fails_at = f->n_allocations + 1;
    assert_true(is_shared(&registry, enter(&registry, "/a.A/M")));
    assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 1);
    assert_int_equal(weir__breaker_registry_n_breakers(&registry), 1);
    f->fails_at = 0;
    assert_false(is_shared(&registry, enter(&registry, "/a.A/M")));
    assert_int_equal(weir__breaker_registry_n_overflowed(&registry), 1);
    weir__breaker_registry_fini(&registry);
  }
}

static void no_memory_for_a_name_is_said_and_changes_nothing(void **state) {
  struct fixture *f = *state;
  struct weir__breaker_registry registry;
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_view view;
  registry_begin(f, &registry, WEIR_BREAKER_SCOPE_METHOD, 1);
  f->fails_at = f->n_allocations + 1;
  assert_int_equal(weir__breaker_registry_know(&registry, "/a.A/M", 6, &entry),
                   WEIR_ERROR_NO_MEMORY);
  assert_null(entry);
  assert_int_equal(weir__breaker_registry_override_one(&registry, "/a.A/M", 6,
                                                       WEIR_BREAKER_OVERRIDE_OPEN, &entry, &view),
                   WEIR_ERROR_NO_MEMORY);
  assert_null(entry);
  assert_false(weir__breaker_registry_expect(&registry, 100000));
  f->fails_at = 0;
  assert_false(is_shared(&registry, enter(&registry, "/x.S/Unknown"))); /* nothing is reserved */
  weir__breaker_registry_fini(&registry);
}

static void no_memory_for_the_registry_leaves_nothing(void **state) {
  struct fixture *f = *state;
  f->options.scope = WEIR_BREAKER_SCOPE_SERVICE;
  for (size_t nth = 1;; nth++) {
    struct weir__breaker_registry registry;
    f->n_allocations = 0;
    f->fails_at = nth;
    enum weir_error error = weir__breaker_registry_init(&registry, &f->options, &f->allocator);
    if (error == WEIR_OK) {
      assert_in_range(nth, 4, 5); /* it does without the shared one's stripes */
      weir__breaker_registry_fini(&registry);
      return;
    }
    assert_int_equal(error, WEIR_ERROR_NO_MEMORY);
    assert_int_equal(atomic_load(&f->n_outstanding), 0);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(channel_has_one_breaker),
      TEST(scope_says_which_calls_share_a_breaker),
      TEST(path_need_not_be_terminated),
      TEST(looking_makes_no_breaker),
      TEST(path_that_is_called_again_is_found_without_memory),
      TEST(a_million_paths_take_bounded_memory_and_push_nobody_out),
      TEST(calls_that_share_a_breaker_are_let_through),
      TEST(known_keys_beyond_the_bound_share_too),
      TEST(a_name_given_twice_reserves_one_place),
      TEST(a_late_name_keeps_the_breaker_that_its_key_has),
      TEST(a_late_name_passes_the_bound_by_itself),
      TEST(ten_thousand_breakers_fit_into_four_mebibytes),
      TEST(a_bound_of_billions_costs_nothing_at_first),
      TEST(a_breaker_that_knows_nothing_is_taken_over),
      TEST(only_what_knows_nothing_is_taken_over),
      TEST(a_call_whose_breaker_was_taken_over_goes_on_and_says_nothing),
      TEST(a_call_under_way_keeps_its_breaker_for_a_window),
      TEST(after_a_fruitless_round_nobody_searches_for_a_bucket),
      TEST(a_clock_that_was_set_back_does_not_stop_the_search),
      TEST(every_idle_breaker_is_found_in_the_end),
      TEST(an_override_of_all_is_of_those_to_come_too),
      TEST(an_override_of_one_leaves_the_others),
      TEST(taking_back_what_nobody_has_set_makes_nothing),
      TEST(a_window_without_end_pauses_the_search_for_ever),
      TEST(one_may_be_taken_out_of_an_override_of_all),
      TEST(a_later_word_on_one_holds_though_all_are_being_overridden),
      TEST(no_memory_for_a_breaker_shares_one_until_there_is),
      TEST(no_memory_for_a_name_is_said_and_changes_nothing),
      TEST(no_memory_for_the_registry_leaves_nothing),
  };
  return cmocka_run_group_tests_name("breaker registry", tests, NULL, NULL);
}
