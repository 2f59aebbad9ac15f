/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/decide/breaker_registry.h"
#include "test/unit/decide/breaker_fixture.h"

#define N_THREADS 8

struct crew;

/* What one thread does, and what it found; the main thread asserts. */
struct worker {
  struct crew *crew;
  uint32_t index;
  uint64_t n_wrong;
  uint64_t n_overflowed;
  uint64_t n_trips;
  uint64_t n_forced;
};

struct crew {
  struct fixture *f;
  struct weir__breaker_registry registry;
  void (*work)(struct worker *worker);
  pthread_barrier_t start;
  _Atomic int64_t now_ns;
  void *extra;
  struct worker workers[N_THREADS];
};

static void *worker_run(void *argument) {
  struct worker *worker = argument;
  (void)pthread_barrier_wait(&worker->crew->start);
  worker->crew->work(worker);
  return NULL;
}

static void crew_run(struct crew *crew, void (*work)(struct worker *worker)) {
  pthread_t threads[N_THREADS];
  crew->work = work;
  assert_int_equal(pthread_barrier_init(&crew->start, NULL, N_THREADS), 0);
  for (uint32_t i = 0; i < N_THREADS; i++) {
    crew->workers[i] = (struct worker){.crew = crew, .index = i};
    assert_int_equal(pthread_create(&threads[i], NULL, worker_run, &crew->workers[i]), 0);
  }
  for (uint32_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  (void)pthread_barrier_destroy(&crew->start);
}

/* --- one entry for a path --- */

#define N_ROUNDS 5
#define N_PATHS 200
#define N_BREAKERS 100

struct found {
  _Atomic uintptr_t entries[N_PATHS];
  _Atomic uint64_t n_different;
};

static void enter_paths(struct worker *worker) {
  struct found *found = worker->crew->extra;
  for (uint32_t i = 0; i < 2 * N_PATHS; i++) {
    char path[32];
    uint32_t which = (i * 7 + worker->index * 13) % N_PATHS;
    int size = snprintf(path, sizeof path, "/a.A/%u", (unsigned)which);
    uintptr_t entry =
        (uintptr_t)weir__breaker_registry_enter(&worker->crew->registry, path, (size_t)size, T0);
    uintptr_t before = 0;
    if (!atomic_compare_exchange_strong(&found->entries[which], &before, entry) &&
        before != entry) {
      atomic_fetch_add(&found->n_different, 1);
    }
  }
}

static void threads_find_the_same_breaker_for_a_path(void **state) {
  struct fixture *f = *state;
  struct crew crew = {.f = f};
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = N_BREAKERS;
  for (int round = 0; round < N_ROUNDS; round++) {
    struct found found;
    memset(&found, 0, sizeof found);
    assert_int_equal(weir__breaker_registry_init(&crew.registry, &f->options, &f->allocator),
                     WEIR_OK);
    crew.extra = &found;
    crew_run(&crew, enter_paths);
    assert_int_equal(weir__breaker_registry_n_breakers(&crew.registry), N_BREAKERS);
    assert_int_equal(atomic_load(&found.n_different), 0);
    assert_int_equal(weir__breaker_registry_n_overflowed(&crew.registry),
                     N_THREADS * 2 * (N_PATHS - N_BREAKERS));
    weir__breaker_registry_fini(&crew.registry);
  }
}

/* --- taking over, while others look --- */

#define N_CALLS 20000
#define STEP WEIR_MS_NS
#define PERIOD (50 * STEP)

/* Even paths always serve. Odd ones fail for a time, and recover. */
static enum weir_breaker_verdict verdict_of(uint32_t which, int64_t now_ns) {
  return which % 2 == 1 && now_ns / PERIOD % 2 == 0 ? WEIR_BREAKER_VERDICT_FAILURE
                                                    : WEIR_BREAKER_VERDICT_SUCCESS;
}

/* A path that always serves and meets a breaker that is not CLOSED has met what another path has
 * left, unless they share it. One that has itself ended another's open time stays with that. */
static void check_admission(struct worker *worker, uint32_t which,
                            const struct weir__breaker_entry *entry,
                            const struct weir_breaker_view *view) {
  bool own = entry != &worker->crew->registry.shared;
  bool forced = view->refusal == WEIR_BREAKER_REFUSAL_FORCED_OPEN;
  if (own && !forced && which % 2 == 0 && !view->changed && view->state != WEIR_BREAKER_CLOSED) {
    worker->n_wrong++;
  }
}

/* Of two overrides at once, each change is told as the one that has made it. */
static void check_overridden(void *context, enum weir__breaker_kind kind,
                             const struct weir__breaker_name *name,
                             enum weir_breaker_override override,
                             const struct weir_breaker_view *view) {
  (void)kind;
  struct worker *worker = context;
  worker->n_wrong += strlen(name->text) != name->size;
  worker->n_wrong += (override == WEIR_BREAKER_OVERRIDE_OPEN) != (view->state == WEIR_BREAKER_OPEN);
}

/* Two threads do more than call. */
static void disturb(struct worker *worker, uint32_t i, const char *path, size_t size) {
  struct weir__breaker_registry *registry = &worker->crew->registry;
  struct weir__breaker_entry *entry = NULL;
  struct weir_breaker_snapshot snapshot = {.size = sizeof snapshot};
  if (worker->index == 0 && i % 5000 == 2500) {
    worker->n_wrong += weir__breaker_registry_know(registry, path, size, &entry) != WEIR_OK;
  }
  if (worker->index % 2 == 1 && i % 1000 == 500) {
    weir__breaker_registry_override_all(registry, WEIR_BREAKER_OVERRIDE_OPEN, check_overridden,
                                        worker);
    weir__breaker_registry_override_all(registry, WEIR_BREAKER_OVERRIDE_NONE, check_overridden,
                                        worker);
  }
  if (worker->index == 2 && i % 100 == 0) {
    worker->n_wrong += weir__breaker_registry_snapshot(registry, path, size, worker->crew->now_ns,
                                                       &snapshot) == WEIR_ERROR_INVALID_ARGUMENT;
  }
}

static void call_paths(struct worker *worker) {
  struct crew *crew = worker->crew;
  for (uint32_t i = 0; i < N_CALLS; i++) {
    char path[32];
    struct weir__breaker_entry *entry = NULL;
    struct weir_breaker_ticket ticket;
    struct weir_breaker_view view;
    int64_t now_ns = atomic_fetch_add(&crew->now_ns, STEP / N_THREADS);
    /* a few at a time: the others have no calls for a window, and every other time some are open */
    uint32_t which = (uint32_t)(now_ns / (3 * PERIOD)) * 3 % 64 + (i + worker->index) % 6;
    int size = snprintf(path, sizeof path, "/a.A/%u", (unsigned)which);
    disturb(worker, i, path, (size_t)size);
    enum weir_admission admission =
        weir__breaker_registry_admit(&crew->registry, WEIR_BREAKER_MODE_ENFORCE, path, (size_t)size,
                                     now_ns, &crew->f->random, &entry, &ticket, &view);
    check_admission(worker, which, entry, &view);
    if (admission == WEIR_ADMISSION_REFUSE) {
      continue;
    }
    worker->n_overflowed += entry == &crew->registry.shared;
    (void)weir__breaker_registry_still_admits(&crew->registry, WEIR_BREAKER_MODE_ENFORCE, entry,
                                              path, (size_t)size, &ticket);
    weir_breaker_settle(weir__breaker_entry_breaker(entry), &ticket, verdict_of(which, now_ns),
                        now_ns, &crew->f->random, &view);
    worker->n_trips += view.changed && view.state == WEIR_BREAKER_OPEN;
  }
}

static void no_path_hears_of_another_whose_breaker_it_has_taken_over(void **state) {
  struct fixture *f = *state;
  struct crew crew = {.f = f};
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = 10;
  f->options.window_ns = 20 * STEP;
  f->options.failure_ratio = 1.0;
  f->options.min_requests = 2;
  f->options.open_for_ns = 5 * STEP;
  f->options.max_open_for_ns = 5 * STEP;
  f->options.probe_lease_ns = 5 * STEP;
  assert_int_equal(weir__breaker_registry_init(&crew.registry, &f->options, &f->allocator),
                   WEIR_OK);
  atomic_store(&crew.now_ns, T0);
  crew_run(&crew, call_paths);
  uint64_t n_trips = 0;
  uint64_t n_overflowed = 0;
  for (uint32_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(crew.workers[i].n_wrong, 0);
    n_trips += crew.workers[i].n_trips;
    n_overflowed += crew.workers[i].n_overflowed;
  }
  assert_true(n_trips > 0);
  assert_true(n_overflowed > 0);
  assert_true(n_overflowed <
              N_THREADS * (uint64_t)N_CALLS / 4 * 3); /* else nothing is taken over */
  assert_in_range(weir__breaker_registry_n_breakers(&crew.registry), 10, 10 + 4);
  weir__breaker_registry_fini(&crew.registry);
}

/* --- whose change it is --- */

static void count_overridden(void *context, enum weir__breaker_kind kind,
                             const struct weir__breaker_name *name,
                             enum weir_breaker_override override,
                             const struct weir_breaker_view *view) {
  (void)kind;
  (void)name;
  (void) override;
  (void)view;
  struct worker *worker = context;
  worker->n_forced++;
}

#define CHANGING_PATH "/a.A/Changing"

/* Half of the threads have the breaker open and close; the others take back what nobody has set. */
static void change_or_take_back(struct worker *worker) {
  struct crew *crew = worker->crew;
  for (uint32_t i = 0; i < N_CALLS; i++) {
    struct weir__breaker_entry *entry = NULL;
    struct weir_breaker_ticket ticket;
    struct weir_breaker_view view;
    int64_t now_ns = atomic_fetch_add(&crew->now_ns, STEP);
    if (worker->index % 2 == 0) {
      worker->n_wrong +=
          weir__breaker_registry_override_one(&crew->registry, CHANGING_PATH, strlen(CHANGING_PATH),
                                              WEIR_BREAKER_OVERRIDE_NONE, &entry, &view) != WEIR_OK;
      worker->n_forced += entry != NULL;
      weir__breaker_registry_override_all(&crew->registry, WEIR_BREAKER_OVERRIDE_NONE,
                                          count_overridden, worker);
    } else if (weir__breaker_registry_admit(
                   &crew->registry, WEIR_BREAKER_MODE_ENFORCE, CHANGING_PATH, strlen(CHANGING_PATH),
                   now_ns, &crew->f->random, &entry, &ticket, &view) == WEIR_ADMISSION_PROCEED) {
      weir_breaker_settle(weir__breaker_entry_breaker(entry), &ticket,
                          i % 4 != 0 ? WEIR_BREAKER_VERDICT_FAILURE : WEIR_BREAKER_VERDICT_SUCCESS,
                          now_ns, &crew->f->random, &view);
      worker->n_trips += view.changed && view.state == WEIR_BREAKER_OPEN;
    }
  }
}

static void what_calls_change_is_not_told_as_an_override(void **state) {
  struct fixture *f = *state;
  struct crew crew = {.f = f};
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.min_requests = 1;
  f->options.failure_ratio = 0.1;
  f->options.probes = 1;
  f->options.open_for_ns = 5 * STEP;
  f->options.max_open_for_ns = 5 * STEP;
  f->options.probe_lease_ns = 5 * STEP;
  assert_int_equal(weir__breaker_registry_init(&crew.registry, &f->options, &f->allocator),
                   WEIR_OK);
  atomic_store(&crew.now_ns, T0);
  crew_run(&crew, change_or_take_back);
  uint64_t n_trips = 0;
  for (uint32_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(crew.workers[i].n_wrong, 0);
    assert_int_equal(crew.workers[i].n_forced, 0);
    n_trips += crew.workers[i].n_trips;
  }
  assert_true(n_trips > 0);
  weir__breaker_registry_fini(&crew.registry);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(threads_find_the_same_breaker_for_a_path),
      TEST(what_calls_change_is_not_told_as_an_override),
      TEST(no_path_hears_of_another_whose_breaker_it_has_taken_over),
  };
  return cmocka_run_group_tests_name("breaker registry, threads", tests, NULL, NULL);
}
