/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "src/decide/breaker_registry.h"
#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

#define N_THREADS 8
#define MAX_PROBES 9
#define HALF_OPEN_AT (T0 + SECONDS(30))

static uint32_t draw(uint32_t *seed, uint32_t below) {
  *seed = *seed * 1664525 + 1013904223;
  return (uint32_t)(((uint64_t)*seed * below) >> 32);
}

/* --- probes, while their number changes --- */

#define N_ROUNDS 300
#define N_TRIES 3

struct round {
  struct fixture *f;
  pthread_barrier_t barrier;
  uint32_t n_before;
  uint32_t n_after;
  _Atomic uint32_t n_out; /* let through as probes, and neither settled nor given back */
};

struct prober {
  struct round *round;
  uint32_t seed;
  struct weir_breaker_ticket tickets[2 * N_TRIES];
  uint32_t n_tickets;
};

static void try_some(struct prober *prober) {
  struct fixture *f = prober->round->f;
  for (int i = 0; i < N_TRIES; i++) {
    struct weir_breaker_ticket ticket;
    struct weir_breaker_view view;
    if (weir_breaker_admit(f->breaker, HALF_OPEN_AT, NULL, &ticket, &view) ==
        WEIR_ADMISSION_PROCEED) {
      prober->tickets[prober->n_tickets++] = ticket;
      atomic_fetch_add(&prober->round->n_out, 1);
    }
  }
}

static void give_some_back(struct prober *prober) {
  while (prober->n_tickets > 0 && draw(&prober->seed, 2) == 0) {
    weir_breaker_release(prober->round->f->breaker, &prober->tickets[--prober->n_tickets]);
    atomic_fetch_sub(&prober->round->n_out, 1);
  }
}

/* All take probes while their number changes; then some give theirs back, and all try again. */
static void *probe(void *argument) {
  struct prober *prober = argument;
  struct round *round = prober->round;
  for (int i = 0; i < N_ROUNDS; i++) {
    (void)pthread_barrier_wait(&round->barrier); /* half-open */
    try_some(prober);
    (void)pthread_barrier_wait(&round->barrier); /* the number has changed, and is looked at */
    (void)pthread_barrier_wait(&round->barrier);
    give_some_back(prober);
    (void)pthread_barrier_wait(&round->barrier); /* is looked at */
    (void)pthread_barrier_wait(&round->barrier);
    try_some(prober);
    (void)pthread_barrier_wait(&round->barrier); /* is looked at */
    (void)pthread_barrier_wait(&round->barrier);
    while (prober->n_tickets > 0) {
      weir_breaker_settle(round->f->breaker, &prober->tickets[--prober->n_tickets], GOOD,
                          HALF_OPEN_AT, NULL, NULL);
    }
    (void)pthread_barrier_wait(&round->barrier); /* all have ended */
  }
  return NULL;
}

static uint32_t larger_of(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

static void set_probes(struct fixture *f, uint32_t n_probes) {
  struct weir_breaker_options options = f->options;
  options.probes = n_probes;
  assert_int_equal(weir_breaker_set_options(f->breaker, &options), WEIR_OK);
}

static void round_lead(struct round *round, uint32_t *seed) {
  struct fixture *f = round->f;
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_DISABLED, NULL);
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
  round->n_before = 1 + draw(seed, MAX_PROBES);
  round->n_after = 1 + draw(seed, MAX_PROBES);
  set_probes(f, round->n_before);
  fixture_trip(f, T0);
  struct weir_breaker_ticket first = fixture_admit(f, HALF_OPEN_AT);
  fixture_settle(f, &first, NEUTRAL, HALF_OPEN_AT);
  atomic_store(&round->n_out, 0);
  (void)pthread_barrier_wait(&round->barrier);
  set_probes(f, round->n_after);
  (void)pthread_barrier_wait(&round->barrier);
  uint32_t n_out = atomic_load(&round->n_out);
  assert_in_range(n_out, 1, larger_of(round->n_before, round->n_after));
  (void)pthread_barrier_wait(&round->barrier);
  (void)pthread_barrier_wait(&round->barrier);
  n_out = atomic_load(&round->n_out);
  (void)pthread_barrier_wait(&round->barrier);
  (void)pthread_barrier_wait(&round->barrier);
  assert_in_range(atomic_load(&round->n_out), 0, larger_of(n_out, round->n_after));
  (void)pthread_barrier_wait(&round->barrier);
  (void)pthread_barrier_wait(&round->barrier);
  for (uint32_t i = 0; i < round->n_after; i++) { /* as many at most are needed, and let through */
    fixture_calls(f, 1, GOOD, HALF_OPEN_AT);
  }
  assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).state, WEIR_BREAKER_CLOSED);
}

static void never_more_probes_than_before_or_after(void **state) {
  struct fixture *f = *state;
  struct round round = {.f = f};
  struct prober probers[N_THREADS];
  pthread_t threads[N_THREADS];
  uint32_t seed = 1;
  f->options.probe_lease_ns = SECONDS(3600);
  assert_int_equal(weir_breaker_new(&f->options, &f->allocator, &f->breaker), WEIR_OK);
  assert_int_equal(pthread_barrier_init(&round.barrier, NULL, N_THREADS + 1), 0);
  for (uint32_t i = 0; i < N_THREADS; i++) {
    probers[i] = (struct prober){.round = &round, .seed = i};
    assert_int_equal(pthread_create(&threads[i], NULL, probe, &probers[i]), 0);
  }
  for (int i = 0; i < N_ROUNDS; i++) {
    round_lead(&round, &seed);
  }
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  (void)pthread_barrier_destroy(&round.barrier);
  weir_breaker_free(f->breaker);
}

/* --- all numbers, at any time --- */

#define N_CALLS 20000

struct chaos {
  struct fixture *f;
  _Atomic int64_t now_ns;
  _Atomic uint64_t n_changes; /* of state, that somebody was told of */
  _Atomic uint32_t n_running;
};

struct caller {
  struct chaos *chaos;
  uint32_t seed;
};

static void note(struct chaos *chaos, const struct weir_breaker_view *view) {
  if (view->changed) {
    atomic_fetch_add(&chaos->n_changes, 1);
  }
}

static void call_once(struct caller *caller) {
  struct chaos *chaos = caller->chaos;
  weir_breaker *breaker = chaos->f->breaker;
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  int64_t now_ns = atomic_fetch_add(&chaos->now_ns, MS(20));
  enum weir_admission admission = weir_breaker_admit(breaker, now_ns, NULL, &ticket, &view);
  note(chaos, &view);
  if (admission == WEIR_ADMISSION_REFUSE) {
    return;
  }
  (void)weir_breaker_still_admits(breaker, &ticket);
  now_ns = atomic_load(&chaos->now_ns);
  switch (draw(&caller->seed, 8)) {
  case 0:
    weir_breaker_release(breaker, &ticket);
    return;
  case 1:
    return; /* never ends */
  case 2:
    weir_breaker_progress(breaker, &ticket, now_ns, &view);
    note(chaos, &view);
    break;
  default:
    break;
  }
  enum weir_breaker_verdict verdict = draw(&caller->seed, 3) == 0 ? BAD : GOOD;
  weir_breaker_settle(breaker, &ticket, verdict, now_ns, NULL, &view);
  note(chaos, &view);
}

static void *call_often(void *argument) {
  struct caller *caller = argument;
  for (int i = 0; i < N_CALLS; i++) {
    call_once(caller);
  }
  atomic_fetch_sub(&caller->chaos->n_running, 1);
  return NULL;
}

static struct weir_breaker_options any_options(uint32_t *seed) {
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  options.window_buckets = 1 + draw(seed, 60);
  options.window_ns = MS(100) + (int64_t)draw(seed, UINT32_MAX) * (draw(seed, 2) == 0 ? 1 : 1000);
  options.min_requests = 1 + draw(seed, 10);
  options.failure_ratio = 0.2 + 0.1 * draw(seed, 8);
  options.consecutive_failures = draw(seed, 5);
  options.open_for_ns = MS(1) * (1 + draw(seed, 500));
  options.max_open_for_ns = options.open_for_ns * (1 + draw(seed, 9));
  options.open_backoff = 1.0 + draw(seed, 3);
  options.open_jitter = 0.1 * draw(seed, 9);
  options.probes = 1 + draw(seed, MAX_PROBES);
  options.probe_lease_ns = MS(1) * (1 + draw(seed, 500));
  options.ramp_for_ns = MS(1) * draw(seed, 500);
  options.mode = draw(seed, 8) == 0 ? WEIR_BREAKER_MODE_SHADOW : WEIR_BREAKER_MODE_ENFORCE;
  return options;
}

/* Each change of state is told once, and at the end all calls are let through. */
static void rules_hold_whatever_changes(void **state) {
  struct fixture *f = *state;
  struct chaos chaos = {.f = f, .now_ns = T0, .n_running = N_THREADS};
  struct caller callers[N_THREADS];
  pthread_t threads[N_THREADS];
  uint32_t seed = 7;
  size_t n_changes = 0;
  assert_int_equal(weir_breaker_new(&f->options, &f->allocator, &f->breaker), WEIR_OK);
  for (uint32_t i = 0; i < N_THREADS; i++) {
    callers[i] = (struct caller){.chaos = &chaos, .seed = i};
    assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
  }
  while (atomic_load(&chaos.n_running) > 0) {
    struct weir_breaker_options options = any_options(&seed);
    assert_int_equal(weir_breaker_set_options(f->breaker, &options), WEIR_OK);
    n_changes++;
  }
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  assert_true(n_changes > 0);
  assert_in_range(f->n_allocations, 2, 16); /* the largest numbers need no more */
  assert_int_equal(weir_breaker_look(f->breaker, 0).generation, atomic_load(&chaos.n_changes));
  assert_int_equal(weir_breaker_set_options(f->breaker, &f->options), WEIR_OK);
  int64_t now_ns = atomic_load(&chaos.now_ns) + SECONDS(3600);
  for (uint32_t i = 0; i < 2 * MAX_PROBES; i++) {
    fixture_calls(f, 1, GOOD, now_ns);
  }
  assert_int_equal(fixture_snapshot(f, now_ns).state, WEIR_BREAKER_CLOSED);
  weir_breaker_free(f->breaker);
}

/* --- many breakers --- */

#define N_KEYS 256 /* every other one is known */

struct searched {
  struct weir__breaker_registry registry;
  struct weir__breaker_entry *_Atomic entries[N_KEYS];
  _Atomic uint32_t n_elsewhere;
  atomic_bool has_grown;
};

static struct weir__breaker_entry *search(struct searched *searched, uint32_t nth) {
  char path[16];
  int size = snprintf(path, sizeof path, "/a.A/%u", (unsigned)nth);
  return weir__breaker_registry_enter(&searched->registry, path, (size_t)size, T0);
}

static void *search_all(void *argument) {
  struct searched *searched = argument;
  bool at_end = false;
  while (!at_end) {
    at_end = atomic_load(&searched->has_grown); /* once more then */
    for (uint32_t i = 0; i < N_KEYS; i++) {
      if (search(searched, i) != atomic_load(&searched->entries[i])) {
        atomic_fetch_add(&searched->n_elsewhere, 1);
      }
    }
  }
  return NULL;
}

/* While the policy changes from few names and a low bound to many. */
static void every_call_finds_its_breaker_while_there_come_to_be_more(void **state) {
  struct fixture *f = *state;
  static struct searched searched;
  pthread_t threads[N_THREADS];
  memset(&searched, 0, sizeof searched);
  f->options.scope = WEIR_BREAKER_SCOPE_METHOD;
  f->options.max_breakers = N_KEYS;
  assert_int_equal(weir__breaker_registry_init(&searched.registry, &f->options, &f->allocator),
                   WEIR_OK);
  for (uint32_t i = 0; i < N_KEYS; i++) {
    char path[16];
    int size = snprintf(path, sizeof path, "/a.A/%u", (unsigned)i);
    struct weir__breaker_entry *entry = NULL;
    if (i % 2 == 0) {
      assert_int_equal(weir__breaker_registry_know(&searched.registry, path, (size_t)size, &entry),
                       WEIR_OK);
    }
  }
  for (uint32_t i = 0; i < N_KEYS; i++) {
    atomic_store(&searched.entries[i], search(&searched, i));
  }
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, search_all, &searched), 0);
  }
  for (uint32_t n = N_KEYS; n <= 65536; n *= 2) {
    struct weir_breaker_options options = f->options;
    options.max_breakers = n;
    options.probes = 3 + n % 7;
    assert_int_equal(weir__breaker_registry_prepare(&searched.registry, &options), WEIR_OK);
    weir__breaker_registry_set_options(&searched.registry, &options);
    assert_true(weir__breaker_registry_expect(&searched.registry, n));
  }
  atomic_store(&searched.has_grown, true);
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  assert_int_equal(atomic_load(&searched.n_elsewhere), 0);
  assert_int_equal(weir__breaker_registry_n_overflowed(&searched.registry), 0);
  weir__breaker_registry_fini(&searched.registry);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(never_more_probes_than_before_or_after),
      TEST(rules_hold_whatever_changes),
      TEST(every_call_finds_its_breaker_while_there_come_to_be_more),
  };
  return cmocka_run_group_tests_name("breaker change, threads", tests, NULL, NULL);
}
