/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/decide/breaker.h"
#include "test/unit/decide/breaker_fixture.h"

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

#define HALF_OPEN_AT (T0 + SECONDS(30))
#define N_THREADS 16
#define N_CALLS 4 /* of a thread, in tests that count them */
#define N_ROUNDS 10

struct crew;

/* What one thread does, and what it found; the main thread asserts. */
struct worker {
  struct crew *crew;
  uint32_t index;
  uint64_t n_admitted;
  uint64_t n_refused;
  uint64_t n_bad_waits;
  uint64_t n_recycled;
  struct weir_breaker_ticket tickets[N_CALLS];
};

struct crew {
  struct fixture *f;
  void (*work)(struct worker *worker);
  pthread_barrier_t start;
  int64_t now_ns;
  void *extra;
  struct worker workers[N_THREADS];
};

static void *worker_run(void *argument) {
  struct worker *worker = argument;
  (void)pthread_barrier_wait(&worker->crew->start);
  worker->crew->work(worker);
  return NULL;
}

/* Has N_THREADS threads do `work` at once, from one barrier on. */
static void crew_run(struct crew *crew, struct fixture *f, int64_t now_ns,
                     void (*work)(struct worker *worker)) {
  pthread_t threads[N_THREADS];
  crew->f = f;
  crew->work = work;
  crew->now_ns = now_ns;
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

static uint64_t n_admitted(const struct crew *crew) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < N_THREADS; i++) {
    sum += crew->workers[i].n_admitted;
  }
  return sum;
}

static uint64_t n_refused(const struct crew *crew) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < N_THREADS; i++) {
    sum += crew->workers[i].n_refused;
    assert_int_equal(crew->workers[i].n_bad_waits, 0);
  }
  return sum;
}

static bool worker_admit(struct worker *worker, int64_t now_ns,
                         struct weir_breaker_ticket *ticket_out) {
  struct weir_breaker_view view;
  if (weir_breaker_admit(worker->crew->f->breaker, now_ns, &worker->crew->f->random, ticket_out,
                         &view) == WEIR_ADMISSION_PROCEED) {
    worker->n_admitted++;
    return true;
  }
  worker->n_refused++;
  worker->n_bad_waits += view.next_probe_in_ns < 0;
  return false;
}

static void ask_and_keep(struct worker *worker) {
  for (int i = 0; i < N_CALLS; i++) {
    (void)worker_admit(worker, worker->crew->now_ns, &worker->tickets[i]);
  }
}

/* Ends all calls that a crew kept; returns how many. */
static uint32_t settle_kept(struct crew *crew, enum weir_breaker_verdict verdict) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < N_THREADS; i++) {
    for (int j = 0; j < N_CALLS; j++) {
      struct weir_breaker_ticket *ticket = &crew->workers[i].tickets[j];
      if (ticket->stage == WEIR_BREAKER_TICKET_PENDING) {
        fixture_settle(crew->f, ticket, verdict, crew->now_ns);
        n++;
      }
    }
  }
  return n;
}

static void half_open_admits_exactly_the_probe_count(void **state) {
  static const uint32_t counts[] = {1, 3};
  struct fixture *f = *state;
  struct crew crew;
  f->options.open_jitter = 0.0;
  for (size_t i = 0; i < 2; i++) {
    f->options.probes = counts[i];
    for (int round = 0; round < N_ROUNDS; round++) {
      fixture_breaker(f);
      fixture_trip(f, T0);
      crew_run(&crew, f, HALF_OPEN_AT, ask_and_keep);
      assert_int_equal(n_admitted(&crew), counts[i]);
      assert_int_equal(n_refused(&crew), N_THREADS * N_CALLS - counts[i]);
      struct weir_breaker_snapshot snapshot = fixture_snapshot(f, HALF_OPEN_AT);
      assert_int_equal(snapshot.generation, 2);
      assert_int_equal(snapshot.n_probes, counts[i]);
      assert_int_equal(snapshot.n_refused, N_THREADS * N_CALLS - counts[i]);

      assert_int_equal(settle_kept(&crew, round % 2 == 0 ? GOOD : BAD), counts[i]);
      assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).state,
                       round % 2 == 0 ? WEIR_BREAKER_CLOSED : WEIR_BREAKER_OPEN);
      assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).generation, 3);
      fixture_breaker_end(f);
    }
  }
}

static void expired_leases_are_taken_over_once(void **state) {
  struct fixture *f = *state;
  struct crew lost;
  struct crew next;
  f->options.open_jitter = 0.0;
  for (int round = 0; round < N_ROUNDS; round++) {
    fixture_breaker(f);
    fixture_trip(f, T0);
    crew_run(&lost, f, HALF_OPEN_AT, ask_and_keep);
    crew_run(&next, f, HALF_OPEN_AT + f->options.probe_lease_ns, ask_and_keep);
    assert_int_equal(n_admitted(&next), f->options.probes);
    (void)settle_kept(&lost, round % 2 == 0 ? BAD : NEUTRAL);
    (void)fixture_refused(f, next.now_ns);
    (void)settle_kept(&next, GOOD);
    assert_int_equal(fixture_snapshot(f, next.now_ns).state, WEIR_BREAKER_CLOSED);
    fixture_breaker_end(f);
  }
}

static void ask_and_give_back(struct worker *worker) {
  for (int i = 0; i < 200; i++) {
    struct weir_breaker_ticket ticket;
    if (worker_admit(worker, worker->crew->now_ns, &ticket)) {
      weir_breaker_settle(worker->crew->f->breaker, &ticket, i % 2 == 0 ? NEUTRAL : GOOD,
                          worker->crew->now_ns, &worker->crew->f->random, NULL);
      weir_breaker_release(worker->crew->f->breaker, &ticket);
    }
  }
}

static void only_give_back(struct worker *worker) {
  for (int i = 0; i < 500; i++) {
    struct weir_breaker_ticket ticket;
    if (worker_admit(worker, worker->crew->now_ns, &ticket)) {
      weir_breaker_release(worker->crew->f->breaker, &ticket);
    }
  }
}

static void every_place_that_is_given_back_can_be_had_again(void **state) {
  struct fixture *f = *state;
  struct crew crew;
  f->options.open_jitter = 0.0;
  for (int round = 0; round < N_ROUNDS / 4; round++) {
    fixture_breaker(f);
    fixture_trip(f, T0);
    crew_run(&crew, f, HALF_OPEN_AT, only_give_back);
    assert_int_equal(fixture_snapshot(f, T0).n_probes, n_admitted(&crew));
    crew_run(&crew, f, HALF_OPEN_AT, ask_and_keep);
    assert_int_equal(n_admitted(&crew), f->options.probes);
    (void)settle_kept(&crew, NEUTRAL);
    crew_run(&crew, f, HALF_OPEN_AT, ask_and_give_back);
    assert_int_equal(fixture_snapshot(f, HALF_OPEN_AT).state, WEIR_BREAKER_CLOSED);
    fixture_breaker_end(f);
  }
}

static void fail_once(struct worker *worker) {
  struct fixture *f = worker->crew->f;
  struct weir_breaker_ticket ticket;
  if (worker_admit(worker, T0, &ticket)) {
    weir_breaker_settle(f->breaker, &ticket, BAD, T0, &f->random, NULL);
  }
}

/* The last of them must see all the others', in whatever order they come. */
static void failure_that_reaches_the_least_number_is_never_missed(void **state) {
  struct fixture *f = *state;
  struct crew crew;
  f->options.min_requests = N_THREADS;
  f->options.failure_ratio = 1.0;
  for (int round = 0; round < N_ROUNDS; round++) {
    fixture_breaker(f);
    crew_run(&crew, f, T0, fail_once);
    assert_int_equal(n_admitted(&crew), N_THREADS);
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0);
    assert_int_equal(snapshot.state, WEIR_BREAKER_OPEN);
    assert_int_equal(snapshot.n_trips, 1);
    assert_int_equal(snapshot.generation, 1);
    fixture_breaker_end(f);
  }
}

static void trip_is_counted_once_however_many_failures_come_at_once(void **state) {
  struct fixture *f = *state;
  struct crew crew;
  f->options.min_requests = 1;
  for (int round = 0; round < N_ROUNDS; round++) {
    fixture_breaker(f);
    crew_run(&crew, f, T0, fail_once);
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0);
    assert_int_equal(snapshot.n_trips, 1);
    assert_int_equal(snapshot.n_refused, n_refused(&crew));
    fixture_breaker_end(f);
  }
}

#define N_COUNTED 2000

/* Each thread's clock is elsewhere in the window, and goes through all its buckets. */
static void count_calls(struct worker *worker) {
  struct fixture *f = worker->crew->f;
  for (uint32_t i = 0; i < N_COUNTED; i++) {
    struct weir_breaker_ticket ticket;
    int64_t now_ns = T0 + MS((int64_t)(i * 7 + worker->index * 3000) % 60000);
    if (worker_admit(worker, now_ns, &ticket)) {
      weir_breaker_settle(f->breaker, &ticket, i % 2 == 1 ? BAD : GOOD, now_ns, &f->random, NULL);
    }
  }
}

static void counts_of_all_threads_add_up(void **state) {
  struct fixture *f = *state;
  struct crew crew;
  f->options.failure_ratio = 1.0;
  for (uint32_t stripe_mask = 0; stripe_mask <= 3; stripe_mask += 3) {
    f->stripe_mask = stripe_mask;
    fixture_breaker(f);
    struct weir_breaker_ticket good = fixture_admit(f, T0); /* before all others: never all fail */
    fixture_settle(f, &good, GOOD, T0 + SECONDS(59));
    crew_run(&crew, f, T0, count_calls);
    assert_int_equal(n_admitted(&crew), N_THREADS * N_COUNTED);
    struct weir_breaker_snapshot snapshot = fixture_snapshot(f, T0 + SECONDS(60) - 1);
    assert_int_equal(snapshot.n_requests, N_THREADS * N_COUNTED + 1);
    assert_int_equal(snapshot.n_failures, N_THREADS * N_COUNTED / 2);
    assert_int_equal(snapshot.n_trips, 0);
    fixture_breaker_end(f);
  }
}

#define N_STORM_CALLS 2000
#define N_GENERATIONS 65536

/* A clock that all threads push on, and the probes out in each half-open period. */
struct storm {
  _Atomic int64_t now_ns;
  _Atomic uint64_t n_too_many;
  _Atomic uint64_t n_probes;
  _Atomic int32_t out[N_GENERATIONS];
};

static struct storm the_storm;

static void storm_probe(struct worker *worker, struct weir_breaker_ticket *ticket,
                        uint64_t chance) {
  struct fixture *f = worker->crew->f;
  _Atomic int32_t *out = &the_storm.out[ticket->generation % N_GENERATIONS];
  atomic_fetch_add(&the_storm.n_probes, 1);
  if (atomic_fetch_add(out, 1) + 1 > (int32_t)f->options.probes) {
    atomic_fetch_add(&the_storm.n_too_many, 1);
  }
  if (chance % 4 == 0) {
    atomic_fetch_sub(out, 1); /* before it is free for another */
    weir_breaker_release(f->breaker, ticket);
    return;
  }
  weir_breaker_settle(f->breaker, ticket, chance % 7 == 1 ? BAD : GOOD,
                      atomic_load(&the_storm.now_ns), &f->random, NULL);
}

static void storm(struct worker *worker) {
  struct fixture *f = worker->crew->f;
  uint64_t chance = worker->index + 1;
  for (int i = 0; i < N_STORM_CALLS; i++) {
    struct weir_breaker_ticket ticket;
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    int64_t now_ns = atomic_fetch_add(&the_storm.now_ns, MS(1)) + MS(1);
    if (!worker_admit(worker, now_ns, &ticket)) {
      continue;
    }
    if (ticket.place != WEIR_BREAKER_NO_PLACE) {
      storm_probe(worker, &ticket, chance >> 33);
    } else {
      weir_breaker_settle(f->breaker, &ticket, (chance >> 33) % 2 == 0 ? BAD : GOOD, now_ns,
                          &f->random, NULL);
    }
    weir_breaker_release(f->breaker, &ticket);
  }
}

static void storm_of_all_transitions_keeps_the_rules(void **state) {
  struct fixture *f = *state;
  struct crew crew;
  memset(&the_storm, 0, sizeof the_storm);
  atomic_store(&the_storm.now_ns, T0);
  f->options.open_for_ns = MS(20);
  f->options.window_ns = MS(200);
  f->options.failure_ratio = 0.5;
  f->options.probe_lease_ns = WEIR_NO_LIMIT_NS;
  fixture_breaker(f);

  crew_run(&crew, f, T0, storm);

  struct weir_breaker_snapshot snapshot = fixture_snapshot(f, atomic_load(&the_storm.now_ns));
  assert_int_equal(atomic_load(&the_storm.n_too_many), 0);
  assert_int_equal(snapshot.n_probes, atomic_load(&the_storm.n_probes));
  assert_int_equal(snapshot.n_refused, n_refused(&crew));
  assert_int_equal(n_admitted(&crew) + n_refused(&crew), N_THREADS * N_STORM_CALLS);
  assert_true(snapshot.n_trips > 0);
  assert_true(snapshot.generation < N_GENERATIONS);

  /* Wherever it stopped, no place has been lost: good calls close it. */
  int64_t later_ns = atomic_load(&the_storm.now_ns) + SECONDS(1);
  for (uint32_t i = 0;
       i < f->options.probes && fixture_snapshot(f, later_ns).state != WEIR_BREAKER_CLOSED; i++) {
    fixture_calls(f, 1, GOOD, later_ns);
  }
  assert_int_equal(fixture_snapshot(f, later_ns).state, WEIR_BREAKER_CLOSED);
  fixture_breaker_end(f);
}

#define N_FLIPS 5000

static void flip(struct worker *worker) {
  for (uint32_t i = 0; i < N_FLIPS; i++) {
    struct weir_breaker_view view;
    weir_breaker_set_override(
        worker->crew->f->breaker,
        i % 2 == 0 ? WEIR_BREAKER_OVERRIDE_OPEN : WEIR_BREAKER_OVERRIDE_DISABLED, &view);
    worker->n_admitted += view.changed;
  }
}

static void overrides_at_once_start_a_generation_each(void **state) {
  struct fixture *f = *state;
  struct crew crew;
  fixture_breaker(f);
  crew_run(&crew, f, T0, flip);
  assert_int_equal(fixture_snapshot(f, T0).generation, n_admitted(&crew));
  fixture_breaker_end(f);
}

#define N_RECYCLINGS 2000

/* The clock goes on by more than a window now and then. */
static void call_and_recycle(struct worker *worker) {
  weir_breaker *breaker = worker->crew->f->breaker;
  for (uint32_t i = 0; i < N_RECYCLINGS; i++) {
    struct weir_breaker_ticket ticket;
    int64_t now_ns = T0 + SECONDS(100) * (int64_t)(i / 4);
    if (!worker_admit(worker, now_ns, &ticket)) {
      continue;
    }
    bool recycled = i % 2 == 0 && weir__breaker_recycle(breaker, now_ns);
    worker->n_recycled += recycled;
    worker->n_bad_waits += recycled && weir_breaker_still_admits(breaker, &ticket);
    weir_breaker_settle(breaker, &ticket, GOOD, now_ns, &worker->crew->f->random, NULL);
  }
}

static void recycling_starts_one_generation_each(void **state) {
  struct fixture *f = *state;
  struct crew crew;
  uint64_t n_recycled = 0;
  fixture_breaker(f);
  crew_run(&crew, f, T0, call_and_recycle);
  for (uint32_t i = 0; i < N_THREADS; i++) {
    n_recycled += crew.workers[i].n_recycled;
  }
  assert_int_equal(n_refused(&crew), 0);
  assert_int_equal(fixture_snapshot(f, T0).generation, n_recycled);
  assert_true(n_recycled > 0);
  fixture_breaker_end(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(half_open_admits_exactly_the_probe_count),
      TEST(expired_leases_are_taken_over_once),
      TEST(every_place_that_is_given_back_can_be_had_again),
      TEST(failure_that_reaches_the_least_number_is_never_missed),
      TEST(trip_is_counted_once_however_many_failures_come_at_once),
      TEST(counts_of_all_threads_add_up),
      TEST(storm_of_all_transitions_keeps_the_rules),
      TEST(overrides_at_once_start_a_generation_each),
      TEST(recycling_starts_one_generation_each),
  };
  return cmocka_run_group_tests_name("breaker threads", tests, NULL, NULL);
}
