/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/decide/breaker_fixture.h"

/* Threads do at random what may be done with a breaker, and write down what they were told. What
 * can be judged from one answer is judged at once; the rest afterwards, from all that was written
 * down. */

#define GOOD WEIR_BREAKER_VERDICT_SUCCESS
#define BAD WEIR_BREAKER_VERDICT_FAILURE
#define NEUTRAL WEIR_BREAKER_VERDICT_IGNORED

#define N_THREADS 16
#define N_STEPS 500 /* of a thread, in a round */
#define N_ROUNDS 8
#define N_OPEN 4 /* calls that a thread has under way */
#define MAX_CHANGES (2 * N_THREADS * N_STEPS)

#define LEASE_NS MS(40)
#define MAX_SKEW_NS MS(5) /* of a thread's clock behind the others' */

enum origin { ORIGIN_ADMIT = 0, ORIGIN_RESULT, ORIGIN_OVERRIDE };

struct change {
  uint64_t generation;
  enum weir_breaker_state from;
  enum weir_breaker_state to;
  enum origin origin;
  enum weir_breaker_override override; /* that was set */
};

/* How its holder ended a probe. */
enum ending { ENDING_NONE = 0, ENDING_GOOD, ENDING_GOOD_THEN_BAD, ENDING_BAD, ENDING_RETURNED };

struct claim {
  uint64_t generation;
  uint32_t place;
  uint32_t number;
  int64_t at_ns;
  enum ending ending;
};

struct call {
  struct weir_breaker_ticket ticket;
  struct claim *claim; /* of a probe */
  bool is_open;
};

struct stress;

struct actor {
  struct stress *stress;
  uint64_t chance;
  uint64_t latest_generation; /* of all views: time does not go back */
  struct call calls[N_OPEN];
  uint64_t n_refused;
  uint64_t n_shadowed;
  uint64_t counted_generation; /* the latest one with a result, and its results */
  uint64_t n_results;
  uint64_t n_failures;
  size_t n_changes;
  size_t n_claims;
  struct change changes[2 * N_STEPS]; /* an override is set and taken back */
  struct claim claims[N_STEPS];
};

struct stress {
  struct fixture *f;
  uint64_t steps_an_override; /* about */
  pthread_barrier_t start;
  _Atomic int64_t now_ns;
  _Atomic(const char *) broken; /* the first rule that was */
  struct actor actors[N_THREADS];
  size_t n_changes;
  struct change changes[MAX_CHANGES];
  size_t n_claims;
  struct claim claims[N_THREADS * N_STEPS];
};

static void rule(struct stress *stress, bool holds, const char *what) {
  const char *none = NULL;
  if (!holds) {
    (void)atomic_compare_exchange_strong(&stress->broken, &none, what);
  }
}

static uint64_t actor_chance(struct actor *actor, uint64_t range) {
  actor->chance = actor->chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (actor->chance >> 33) % range;
}

static uint64_t actor_random(void *context) {
  struct actor *actor = context;
  return actor_chance(actor, UINT64_C(1) << 31) << 33;
}

static int64_t actor_now(struct actor *actor) {
  int64_t now_ns = atomic_fetch_add(&actor->stress->now_ns, MS(1));
  return now_ns - (int64_t)actor_chance(actor, (uint64_t)MAX_SKEW_NS);
}

static void see(struct actor *actor, const struct weir_breaker_view *view, enum origin origin,
                enum weir_breaker_override override) {
  rule(actor->stress, view->generation >= actor->latest_generation, "a generation came again");
  rule(actor->stress, view->next_probe_in_ns >= 0, "a wait is negative");
  actor->latest_generation = view->generation;
  if (view->changed) {
    actor->changes[actor->n_changes++] = (struct change){
        view->generation, view->changed_from, view->state, origin, override,
    };
  }
}

static void act_admit(struct actor *actor, struct call *call) {
  struct fixture *f = actor->stress->f;
  struct weir_random random = {sizeof random, actor_random, actor};
  struct weir_breaker_view view;
  int64_t now_ns = actor_now(actor);
  enum weir_admission admission =
      weir_breaker_admit(f->breaker, now_ns, &random, &call->ticket, &view);
  bool refused = view.refusal != WEIR_BREAKER_REFUSAL_NONE;
  bool acts = f->options.mode == WEIR_BREAKER_MODE_ENFORCE ||
              view.refusal == WEIR_BREAKER_REFUSAL_FORCED_OPEN;
  see(actor, &view, ORIGIN_ADMIT, WEIR_BREAKER_OVERRIDE_NONE);
  rule(actor->stress, (admission == WEIR_ADMISSION_REFUSE) == (refused && acts),
       "an answer is not that of its view");
  rule(actor->stress, !refused || call->ticket.stage == WEIR_BREAKER_TICKET_SPENT,
       "a refused call holds a ticket");
  actor->n_refused += refused && acts;
  actor->n_shadowed += refused && !acts;
  *call = (struct call){.ticket = call->ticket, .is_open = !refused};
  if (call->ticket.stage == WEIR_BREAKER_TICKET_PENDING &&
      call->ticket.place != WEIR_BREAKER_NO_PLACE) {
    call->claim = &actor->claims[actor->n_claims++];
    *call->claim = (struct claim){call->ticket.generation, call->ticket.place, call->ticket.claim,
                                  now_ns, ENDING_NONE};
  }
}

static void count_result(struct actor *actor, const struct call *call, bool failure) {
  if (call->ticket.stage == WEIR_BREAKER_TICKET_SPENT || call->claim != NULL) {
    return;
  }
  if (call->ticket.generation > actor->counted_generation) {
    actor->counted_generation = call->ticket.generation;
    actor->n_results = 0;
    actor->n_failures = 0;
  }
  if (call->ticket.generation == actor->counted_generation) {
    actor->n_results++;
    actor->n_failures += failure;
  }
}

static void see_result(struct actor *actor, uint64_t generation,
                       const struct weir_breaker_view *view) {
  rule(actor->stress, !view->changed || view->generation == generation + 1,
       "a result moved another generation than its own");
  see(actor, view, ORIGIN_RESULT, WEIR_BREAKER_OVERRIDE_NONE);
}

static void act_settle(struct actor *actor, struct call *call, enum weir_breaker_verdict verdict) {
  struct fixture *f = actor->stress->f;
  struct weir_random random = {sizeof random, actor_random, actor};
  struct weir_breaker_view view;
  uint64_t generation = call->ticket.generation;
  bool again = call->ticket.stage == WEIR_BREAKER_TICKET_SUCCEEDED;
  bool trips = f->options.consecutive_failures == 1 && verdict == BAD && call->claim == NULL &&
               call->ticket.stage != WEIR_BREAKER_TICKET_SPENT;
  if (verdict == BAD || (verdict == GOOD && !again)) {
    count_result(actor, call, verdict == BAD);
  }
  if (call->claim != NULL && verdict == BAD) {
    call->claim->ending = again ? ENDING_GOOD_THEN_BAD : ENDING_BAD;
  } else if (call->claim != NULL && !again) {
    call->claim->ending = verdict == GOOD ? ENDING_GOOD : ENDING_RETURNED;
  }
  weir_breaker_settle(f->breaker, &call->ticket, verdict, actor_now(actor), &random, &view);
  see_result(actor, generation, &view);
  rule(actor->stress, call->ticket.stage == WEIR_BREAKER_TICKET_SPENT, "a ticket is not spent");
  rule(actor->stress, !trips || view.generation > generation, "a trip was lost");
  call->is_open = false;
}

static void act_progress(struct actor *actor, struct call *call) {
  struct weir_breaker_view view;
  uint64_t generation = call->ticket.generation;
  if (call->ticket.stage == WEIR_BREAKER_TICKET_PENDING) {
    count_result(actor, call, false);
    if (call->claim != NULL) {
      call->claim->ending = ENDING_GOOD;
    }
  }
  weir_breaker_progress(actor->stress->f->breaker, &call->ticket, actor_now(actor), &view);
  see_result(actor, generation, &view);
}

static void act_release(struct actor *actor, struct call *call) {
  if (call->claim != NULL && call->ticket.stage == WEIR_BREAKER_TICKET_PENDING) {
    call->claim->ending = ENDING_RETURNED;
  }
  weir_breaker_release(actor->stress->f->breaker, &call->ticket);
  call->is_open = false;
}

static void act_override(struct actor *actor) {
  static const enum weir_breaker_override overrides[] = {
      WEIR_BREAKER_OVERRIDE_NONE, WEIR_BREAKER_OVERRIDE_OPEN, WEIR_BREAKER_OVERRIDE_DISABLED};
  enum weir_breaker_override override = overrides[actor_chance(actor, 3)];
  struct weir_breaker_view view;
  weir_breaker_set_override(actor->stress->f->breaker, override, &view);
  see(actor, &view, ORIGIN_OVERRIDE, override);
  weir_breaker_set_override(actor->stress->f->breaker, WEIR_BREAKER_OVERRIDE_NONE, &view);
  see(actor, &view, ORIGIN_OVERRIDE, WEIR_BREAKER_OVERRIDE_NONE);
}

static void act(struct actor *actor) {
  struct call *call = &actor->calls[actor_chance(actor, N_OPEN)];
  uint64_t chance = actor_chance(actor, 100);
  if (actor_chance(actor, actor->stress->steps_an_override) == 0) {
    act_override(actor);
  } else if (!call->is_open) {
    act_admit(actor, call);
  } else if (chance < 45) {
    act_settle(actor, call, GOOD);
  } else if (chance < 75) {
    act_settle(actor, call, BAD);
  } else if (chance < 80) {
    act_settle(actor, call, NEUTRAL);
  } else if (chance < 90) {
    act_progress(actor, call);
  } else if (chance < 94) {
    act_release(actor, call);
  } else if (chance < 98) {
    call->is_open = false; /* lost: nobody will say how it ended */
  } else {
    (void)sched_yield();
  }
}

static void *actor_run(void *argument) {
  struct actor *actor = argument;
  (void)pthread_barrier_wait(&actor->stress->start);
  for (int i = 0; i < N_STEPS; i++) {
    act(actor);
  }
  return NULL;
}

static int by_generation(const void *a, const void *b) {
  const struct change *one = a;
  const struct change *other = b;
  return (one->generation > other->generation) - (one->generation < other->generation);
}

static int by_place(const void *a, const void *b) {
  const struct claim *one = a;
  const struct claim *other = b;
  if (one->generation != other->generation) {
    return one->generation < other->generation ? -1 : 1;
  }
  if (one->place != other->place) {
    return one->place < other->place ? -1 : 1;
  }
  return (one->number > other->number) - (one->number < other->number);
}

static void gather(struct stress *stress) {
  stress->n_changes = 0;
  stress->n_claims = 0;
  for (size_t i = 0; i < N_THREADS; i++) {
    const struct actor *actor = &stress->actors[i];
    memcpy(&stress->changes[stress->n_changes], actor->changes,
           actor->n_changes * sizeof actor->changes[0]);
    memcpy(&stress->claims[stress->n_claims], actor->claims,
           actor->n_claims * sizeof actor->claims[0]);
    stress->n_changes += actor->n_changes;
    stress->n_claims += actor->n_claims;
  }
  qsort(stress->changes, stress->n_changes, sizeof stress->changes[0], by_generation);
  qsort(stress->claims, stress->n_claims, sizeof stress->claims[0], by_place);
}

/* The claims of one half-open period. */
static size_t claims_of(const struct stress *stress, uint64_t generation,
                        const struct claim **first_out) {
  size_t low = 0;
  size_t n = 0;
  size_t high = stress->n_claims;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (stress->claims[middle].generation < generation) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *first_out = &stress->claims[low];
  while (low + n < stress->n_claims && stress->claims[low + n].generation == generation) {
    n++;
  }
  return n;
}

/* A place is had by one call at a time: until it is returned, or its lease is over. */
static void verify_claims(struct stress *stress) {
  uint64_t n_probes = fixture_snapshot(stress->f, T0).n_probes;
  rule(stress, n_probes == stress->n_claims, "a probe was not counted, or twice");
  for (size_t i = 0; i < stress->n_claims; i++) {
    const struct claim *claim = &stress->claims[i];
    const struct claim *before = i > 0 ? claim - 1 : NULL;
    rule(stress, claim->place < stress->f->options.probes, "there is no such place");
    if (before == NULL || before->generation != claim->generation ||
        before->place != claim->place) {
      continue;
    }
    rule(stress, before->number != claim->number, "two calls hold one claim");
    bool returned = before->ending == ENDING_RETURNED;
    bool lease_over = claim->at_ns >= before->at_ns + LEASE_NS;
    rule(stress, returned || lease_over, "a place was taken from its holder");
  }
}

/* The last holder of each place has said that it succeeded. */
static void verify_closing(struct stress *stress, uint64_t half_open) {
  const struct claim *claims = NULL;
  size_t n = claims_of(stress, half_open, &claims);
  uint32_t n_succeeded = 0;
  for (size_t i = 0; i < n; i++) {
    bool last = i + 1 == n || claims[i + 1].place != claims[i].place;
    bool good = claims[i].ending == ENDING_GOOD || claims[i].ending == ENDING_GOOD_THEN_BAD;
    n_succeeded += last && good;
  }
  rule(stress, n_succeeded == stress->f->options.probes, "it closed before all probes succeeded");
}

static void verify_reopening(struct stress *stress, uint64_t half_open) {
  const struct claim *claims = NULL;
  size_t n = claims_of(stress, half_open, &claims);
  bool failed = false;
  for (size_t i = 0; i < n; i++) {
    failed = failed || claims[i].ending == ENDING_BAD || claims[i].ending == ENDING_GOOD_THEN_BAD;
  }
  rule(stress, failed, "it opened though no probe had failed");
}

static void verify_change(struct stress *stress, const struct change *change) {
  enum weir_breaker_state from = change->from;
  enum weir_breaker_state to = change->to;
  uint64_t before = change->generation - 1;
  switch (change->origin) {
  case ORIGIN_OVERRIDE:
    rule(stress,
         to == (change->override == WEIR_BREAKER_OVERRIDE_OPEN ? WEIR_BREAKER_OPEN
                                                               : WEIR_BREAKER_CLOSED),
         "an override made another state than its own");
    break;
  case ORIGIN_ADMIT:
    rule(stress, from == WEIR_BREAKER_OPEN && to == WEIR_BREAKER_HALF_OPEN,
         "a call that asked made a change that is not its");
    break;
  case ORIGIN_RESULT:
    rule(stress,
         (from == WEIR_BREAKER_CLOSED && to == WEIR_BREAKER_OPEN) ||
             (from == WEIR_BREAKER_HALF_OPEN && to != WEIR_BREAKER_HALF_OPEN),
         "a result made a change that is not its");
    if (from == WEIR_BREAKER_HALF_OPEN && to == WEIR_BREAKER_CLOSED) {
      verify_closing(stress, before);
    } else if (from == WEIR_BREAKER_HALF_OPEN) {
      verify_reopening(stress, before);
    }
    break;
  }
}

/* Each generation was started by one call, and from the state that the one before had left. */
static void verify_changes(struct stress *stress) {
  struct weir_breaker_snapshot snapshot = fixture_snapshot(stress->f, T0);
  enum weir_breaker_state state = WEIR_BREAKER_CLOSED;
  enum weir_breaker_override override = WEIR_BREAKER_OVERRIDE_NONE;
  uint64_t n_trips = 0;
  rule(stress, snapshot.generation == stress->n_changes, "a change was seen by nobody, or twice");
  for (size_t i = 0; i < stress->n_changes; i++) {
    const struct change *change = &stress->changes[i];
    rule(stress, change->generation == i + 1, "a generation was started by nobody, or twice");
    rule(stress, change->from == state, "a change was from a state that was not");
    rule(stress, override == WEIR_BREAKER_OVERRIDE_NONE || change->origin == ORIGIN_OVERRIDE,
         "it changed by itself under an override");
    verify_change(stress, change);
    state = change->to;
    override = change->origin == ORIGIN_OVERRIDE ? change->override : override;
    n_trips += change->origin == ORIGIN_RESULT && change->to == WEIR_BREAKER_OPEN;
  }
  rule(stress, snapshot.state == state, "it is not in the state it was last changed to");
  rule(stress, snapshot.n_trips == n_trips, "a trip was not counted, or twice");
}

static void verify_sums(struct stress *stress) {
  struct weir_breaker_snapshot snapshot = fixture_snapshot(stress->f, T0 + SECONDS(30));
  uint64_t n_refused = 0;
  uint64_t n_shadowed = 0;
  uint64_t n_results = 0;
  uint64_t n_failures = 0;
  for (size_t i = 0; i < N_THREADS; i++) {
    const struct actor *actor = &stress->actors[i];
    n_refused += actor->n_refused;
    n_shadowed += actor->n_shadowed;
    if (actor->counted_generation == snapshot.generation) {
      n_results += actor->n_results;
      n_failures += actor->n_failures;
    }
  }
  rule(stress, snapshot.n_refused == n_refused, "a refusal was not counted, or twice");
  rule(stress, snapshot.n_shadowed == n_shadowed, "a shadowed call was not counted, or twice");
  if (snapshot.state == WEIR_BREAKER_CLOSED) {
    rule(stress, snapshot.n_requests == n_results, "a result was not counted, or twice");
    rule(stress, snapshot.n_failures == n_failures, "a failure was not counted, or twice");
  }
}

/* Whatever was lost, when the leases are over good calls close it. */
static void verify_recovery(struct stress *stress) {
  struct fixture *f = stress->f;
  int64_t later_ns = atomic_load(&stress->now_ns) + SECONDS(60);
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  weir_breaker_set_override(f->breaker, WEIR_BREAKER_OVERRIDE_NONE, NULL);
  for (uint32_t i = 0;
       i < f->options.probes && fixture_snapshot(f, later_ns).state != WEIR_BREAKER_CLOSED; i++) {
    (void)weir_breaker_admit(f->breaker, later_ns, &f->random, &ticket, &view);
    rule(stress, view.refusal == WEIR_BREAKER_REFUSAL_NONE, "a place never came back");
    weir_breaker_settle(f->breaker, &ticket, GOOD, later_ns, &f->random, NULL);
  }
  rule(stress, fixture_snapshot(f, later_ns).state == WEIR_BREAKER_CLOSED, "it did not recover");
}

static void stress_round(struct stress *stress, uint64_t seed) {
  pthread_t threads[N_THREADS];
  atomic_store(&stress->now_ns, T0);
  atomic_store(&stress->broken, NULL);
  fixture_breaker(stress->f);
  assert_int_equal(pthread_barrier_init(&stress->start, NULL, N_THREADS), 0);
  for (size_t i = 0; i < N_THREADS; i++) {
    memset(&stress->actors[i], 0, sizeof stress->actors[i]);
    stress->actors[i].stress = stress;
    stress->actors[i].chance = seed * N_THREADS + i;
    assert_int_equal(pthread_create(&threads[i], NULL, actor_run, &stress->actors[i]), 0);
  }
  for (size_t i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  }
  (void)pthread_barrier_destroy(&stress->start);
  gather(stress);
  verify_claims(stress);
  verify_changes(stress);
  verify_sums(stress);
  verify_recovery(stress);
  fixture_breaker_end(stress->f);
  const char *broken = atomic_load(&stress->broken);
  if (broken != NULL) {
    fail_msg("round %llu: %s", (unsigned long long)seed, broken);
  }
}

static void stress_rounds(struct fixture *f, uint64_t steps_an_override) {
  struct stress *stress = calloc(1, sizeof *stress);
  size_t n_changes = 0;
  size_t n_claims = 0;
  assert_non_null(stress);
  stress->f = f;
  stress->steps_an_override = steps_an_override;
  for (uint64_t round = 0; round < N_ROUNDS; round++) {
    stress_round(stress, round);
    n_changes += stress->n_changes;
    n_claims += stress->n_claims;
  }
  free(stress);
  /* It has been where it was meant to go. */
  assert_true(n_changes > N_ROUNDS);
  assert_true(n_claims > 0 || steps_an_override < 10);
}

static void set_numbers(struct fixture *f) {
  f->options.window_ns = SECONDS(60); /* longer than a round: no result leaves it */
  f->options.min_requests = 20;
  f->options.failure_ratio = 0.5;
  f->options.consecutive_failures = 6;
  f->options.open_for_ns = MS(15);
  f->options.open_backoff = 1.5;
  f->options.max_open_for_ns = MS(100);
  f->options.ramp_for_ns = MS(60);
  f->options.probe_lease_ns = LEASE_NS;
}

static void rules_hold_in_every_interleaving(void **state) {
  struct fixture *f = *state;
  set_numbers(f);
  stress_rounds(f, 400);
}

static void rules_hold_in_shadow_too(void **state) {
  struct fixture *f = *state;
  set_numbers(f);
  f->options.mode = WEIR_BREAKER_MODE_SHADOW;
  stress_rounds(f, 400);
}

static void rules_hold_with_a_single_place_and_no_ramp(void **state) {
  struct fixture *f = *state;
  set_numbers(f);
  f->options.probes = 1;
  f->options.ramp_for_ns = 0;
  f->stripe_mask = 0;
  stress_rounds(f, 400);
}

static void rules_hold_however_often_it_is_overridden(void **state) {
  struct fixture *f = *state;
  set_numbers(f);
  stress_rounds(f, 5);
}

/* A ramp's end changes the state's word as well, and must not keep a failure from opening it. */
static void every_failure_trips_where_one_is_enough(void **state) {
  struct fixture *f = *state;
  set_numbers(f);
  f->options.consecutive_failures = 1;
  f->options.ramp_for_ns = MS(3);
  f->options.probes = 1;
  stress_rounds(f, 400);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(rules_hold_in_every_interleaving),
      TEST(rules_hold_in_shadow_too),
      TEST(rules_hold_with_a_single_place_and_no_ramp),
      TEST(rules_hold_however_often_it_is_overridden),
      TEST(every_failure_trips_where_one_is_enough),
  };
  return cmocka_run_group_tests_name("breaker stress", tests, NULL, NULL);
}
