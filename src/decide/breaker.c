/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/base/random.h"
#include "src/decide/breaker_options.h"
#include "src/time/instant.h"

/* Two cache lines: processors fetch them in pairs. */
#define STRIPE_ALIGNMENT 128

/* A bucket's word holds its number (epoch) above and its count below. Both grow with time: a
 * stripe takes less than one result a nanosecond, so a bucket of 2^b ns needs b bits to count,
 * and the other 64 - b bits number buckets for 2^64 ns, 584 years. Above 2^44 (20 days of 10
 * million a second) the count saturates. */
#define MAX_COUNT_BITS 44

/* phase: generation (42 bits), reopenings since it was last closed (20 bits), stage (2 bits). */
#define STAGE_BITS 2
#define REOPENINGS_BITS 20
#define MAX_REOPENINGS ((UINT64_C(1) << REOPENINGS_BITS) - 1)

enum stage {
  STAGE_CLOSED = 0,
  STAGE_OPENING, /* OPEN, and the thread that opened it is about to write until when */
  STAGE_OPEN,
  STAGE_HALF_OPEN
};

/* A place's claim: generation (its low 38 bits), claim number (24 bits), status (2 bits). A
 * claim of an older generation is a free place: entering HALF_OPEN has nothing to reset. */
#define STATUS_BITS 2
#define NUMBER_BITS 24
#define NUMBER_MASK ((UINT32_C(1) << NUMBER_BITS) - 1)
#define GENERATION_SHIFT (NUMBER_BITS + STATUS_BITS)

enum status { STATUS_FREE = 0, STATUS_HELD, STATUS_SUCCEEDED };

struct bucket {
  _Atomic uint64_t successes;
  _Atomic uint64_t failures;
};

/* Written by its own threads only; the others read it when a failure has them add up the window. */
struct stripe {
  _Atomic uint64_t n_refused;
  struct bucket buckets[];
};

struct window_sum {
  uint64_t n_requests;
  uint64_t n_failures;
};

static uint64_t phase_make(uint64_t generation, uint64_t reopenings, enum stage stage) {
  return (generation << (REOPENINGS_BITS + STAGE_BITS)) | (reopenings << STAGE_BITS) |
         (uint64_t)stage;
}

static uint64_t phase_generation(uint64_t phase) {
  return phase >> (REOPENINGS_BITS + STAGE_BITS);
}

static uint64_t phase_reopenings(uint64_t phase) {
  return (phase >> STAGE_BITS) & MAX_REOPENINGS;
}

static enum stage phase_stage(uint64_t phase) {
  return (enum stage)(phase & ((1U << STAGE_BITS) - 1));
}

static enum weir_breaker_state phase_state(uint64_t phase) {
  switch (phase_stage(phase)) {
  case STAGE_CLOSED:
    return WEIR_BREAKER_CLOSED;
  case STAGE_OPENING:
  case STAGE_OPEN:
    return WEIR_BREAKER_OPEN;
  case STAGE_HALF_OPEN:
    break;
  }
  return WEIR_BREAKER_HALF_OPEN;
}

/* Relaxed: a statistic stands on its own, nothing is concluded from it. */
static void statistic_increment(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static uint64_t statistic_read(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Acquire: with the phase come what was written before it, probe_at_ns and the places. */
static uint64_t phase_load(const weir_breaker *breaker) {
  return atomic_load_explicit(&breaker->phase, memory_order_acquire);
}

/* A failed exchange means that another thread has changed the state first; nobody tries twice
 * for the same reason. */
static bool phase_exchange(weir_breaker *breaker, uint64_t from, uint64_t to) {
  return atomic_compare_exchange_strong_explicit(&breaker->phase, &from, to, memory_order_acq_rel,
                                                 memory_order_relaxed);
}

/* Threads take stripes in turn, in the order in which they first need one. */
static uint32_t thread_number(void) {
  static _Atomic uint32_t n_threads;
  static _Thread_local uint32_t number; /* 0 = none yet */
  if (number == 0) {
    number =
        (atomic_fetch_add_explicit(&n_threads, 1, memory_order_relaxed) & UINT32_C(0x7fffffff)) + 1;
  }
  return number;
}

static struct stripe *stripe_at(const weir_breaker *breaker, uint32_t index) {
  return (struct stripe *)(void *)(breaker->stripes + (size_t)index * breaker->stripe_bytes);
}

static struct stripe *own_stripe(const weir_breaker *breaker) {
  return stripe_at(breaker, thread_number() & breaker->stripe_mask);
}

/* Each generation starts a whole window further on, so the results of an earlier one are out of
 * it by their number. */
static uint64_t epoch_at(const weir_breaker *breaker, uint64_t generation, int64_t now_ns) {
  uint64_t epoch = (now_ns > 0 ? (uint64_t)now_ns : 0) / breaker->bucket_ns;
  return (epoch + generation * breaker->options.window_buckets) & breaker->epoch_mask;
}

/* Whether `epoch` is later than `than`. Threads read their clocks at different times, so a
 * quarter of the circle is ahead; the rest is past. */
static bool epoch_is_ahead(const weir_breaker *breaker, uint64_t epoch, uint64_t than) {
  uint64_t ahead = (epoch - than) & breaker->epoch_mask;
  return ahead != 0 && ahead <= breaker->epoch_mask / 4;
}

/* seq_cst, with the loads of window_sum: of two threads that record a failure at once, at least
 * one sees both. */
static void count_increment(const weir_breaker *breaker, _Atomic uint64_t *word, uint64_t epoch) {
  uint64_t count_mask = (UINT64_C(1) << breaker->count_bits) - 1;
  uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
  uint64_t new = 0;
  do {
    uint64_t held = old >> breaker->count_bits;
    uint64_t count = old & count_mask;
    if (count != 0 && epoch_is_ahead(breaker, held, epoch)) {
      return; /* the bucket has been taken for a later time: this result is out of the window */
    }
    if (count != 0 && held == epoch) {
      if (count == count_mask) {
        return;
      }
      new = old + 1;
    } else {
      new = (epoch << breaker->count_bits) | 1;
    }
  } while (!atomic_compare_exchange_weak_explicit(word, &old, new, memory_order_seq_cst,
                                                  memory_order_relaxed));
}

/* What is ahead counts: it happened, on a thread that read its clock later. */
static uint64_t count_within(const weir_breaker *breaker, const _Atomic uint64_t *word,
                             uint64_t epoch) {
  uint64_t value = atomic_load_explicit(word, memory_order_seq_cst);
  uint64_t held = value >> breaker->count_bits;
  uint64_t age = (epoch - held) & breaker->epoch_mask;
  if (age >= breaker->options.window_buckets && !epoch_is_ahead(breaker, held, epoch)) {
    return 0;
  }
  return value & ((UINT64_C(1) << breaker->count_bits) - 1);
}

static struct window_sum window_sum(const weir_breaker *breaker, uint64_t epoch) {
  struct window_sum sum = {0, 0};
  for (uint32_t i = 0; i <= breaker->stripe_mask; i++) {
    const struct stripe *stripe = stripe_at(breaker, i);
    for (uint64_t j = 0; j <= breaker->ring_mask; j++) {
      uint64_t n_failures = count_within(breaker, &stripe->buckets[j].failures, epoch);
      sum.n_failures += n_failures;
      sum.n_requests += n_failures + count_within(breaker, &stripe->buckets[j].successes, epoch);
    }
  }
  return sum;
}

static bool window_trips(const weir_breaker *breaker, uint64_t epoch) {
  struct window_sum sum = window_sum(breaker, epoch);
  /* The quotient, not a product: both sides are then the nearest double, and an exact 3 of 5
   * equals 0.6. */
  return sum.n_requests >= breaker->options.min_requests &&
         (double)sum.n_failures / (double)sum.n_requests >= breaker->options.failure_ratio;
}

/* openFor times openBackoff to the power of `reopenings`, capped, then jittered: a jitter under
 * the cap would send half of a fleet back in the same instant. */
static int64_t open_time_ns(const weir_breaker *breaker, uint64_t reopenings,
                            const struct weir_random *random) {
  double cap = (double)breaker->options.max_open_for_ns;
  double span = (double)breaker->options.open_for_ns;
  double factor = breaker->options.open_backoff;
  for (uint64_t power = reopenings; power > 0 && span < cap; power >>= 1) {
    if ((power & 1) != 0) {
      span *= factor;
    }
    factor *= factor; /* infinity is as good: the cap is below it */
  }
  span = span < cap ? span : cap;
  if (breaker->options.open_jitter > 0.0) {
    span *= 1.0 + breaker->options.open_jitter * (2.0 * weir__random_unit(random) - 1.0);
  }
  return span < 0x1p63 ? (int64_t)span : WEIR_NO_LIMIT_NS;
}

static void breaker_open(weir_breaker *breaker, uint64_t phase, int64_t now_ns,
                         const struct weir_random *random) {
  uint64_t reopenings = 0;
  if (phase_stage(phase) == STAGE_HALF_OPEN) {
    reopenings =
        phase_reopenings(phase) < MAX_REOPENINGS ? phase_reopenings(phase) + 1 : MAX_REOPENINGS;
  }
  int64_t probe_at_ns = weir__instant_add(now_ns, open_time_ns(breaker, reopenings, random));
  uint64_t generation = phase_generation(phase) + 1;
  if (!phase_exchange(breaker, phase, phase_make(generation, reopenings, STAGE_OPENING))) {
    return;
  }
  /* Relaxed: the phase, written last, publishes it. */
  atomic_store_explicit(&breaker->probe_at_ns, probe_at_ns, memory_order_relaxed);
  statistic_increment(&breaker->n_trips);
  atomic_store_explicit(&breaker->phase, phase_make(generation, reopenings, STAGE_OPEN),
                        memory_order_release);
}

static uint64_t claim_make(uint64_t generation, uint32_t number, enum status status) {
  return (generation << GENERATION_SHIFT) | ((uint64_t)number << STATUS_BITS) | (uint64_t)status;
}

static enum status claim_status(uint64_t claim) {
  return (enum status)(claim & ((1U << STATUS_BITS) - 1));
}

static uint32_t claim_number(uint64_t claim) {
  return (uint32_t)(claim >> STATUS_BITS) & NUMBER_MASK;
}

/* Whether `claim` is of `generation`: 0, of an earlier one: negative, or of a later one:
 * positive. */
static int64_t claim_compare(uint64_t claim, uint64_t generation) {
  uint64_t number_and_status = (UINT64_C(1) << GENERATION_SHIFT) - 1;
  return (int64_t)((claim & ~number_and_status) - (generation << GENERATION_SHIFT));
}

static void lease_raise(struct weir__breaker_place *place, int64_t until_ns) {
  int64_t old = atomic_load_explicit(&place->lease_until_ns, memory_order_relaxed);
  while (old < until_ns &&
         !atomic_compare_exchange_weak_explicit(&place->lease_until_ns, &old, until_ns,
                                                memory_order_relaxed, memory_order_relaxed)) {
  }
}

enum claim_result { CLAIM_TAKEN, CLAIM_OCCUPIED, CLAIM_OUTDATED };

/* Takes one place if it is free or its lease is over. The lease is written before the claim, so
 * whoever sees the claim sees its lease (release and acquire on `claim`); a thread that then
 * loses the place has lengthened the winner's by what their clocks differ. */
static enum claim_result place_claim(const weir_breaker *breaker, struct weir__breaker_place *place,
                                     uint64_t generation, int64_t now_ns, uint32_t *number_out,
                                     int64_t *lease_until_ns_out) {
  uint64_t old = atomic_load_explicit(&place->claim, memory_order_acquire);
  for (;;) {
    int64_t order = claim_compare(old, generation);
    if (order > 0) {
      return CLAIM_OUTDATED;
    }
    if (order == 0 && claim_status(old) == STATUS_SUCCEEDED) {
      return CLAIM_OCCUPIED;
    }
    if (order == 0 && claim_status(old) == STATUS_HELD) {
      int64_t until_ns = atomic_load_explicit(&place->lease_until_ns, memory_order_relaxed);
      if (now_ns < until_ns) {
        *lease_until_ns_out = until_ns;
        return CLAIM_OCCUPIED;
      }
    }
    uint32_t number = (claim_number(old) + 1) & NUMBER_MASK;
    lease_raise(place, weir__instant_add(now_ns, breaker->options.probe_lease_ns));
    if (atomic_compare_exchange_strong_explicit(&place->claim, &old,
                                                claim_make(generation, number, STATUS_HELD),
                                                memory_order_acq_rel, memory_order_acquire)) {
      *number_out = number;
      return CLAIM_TAKEN;
    }
  }
}

/* Says that the ticket's place is now in another status. False: the ticket has lost it, its
 * lease was over. */
static bool place_settle(weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                         enum status status) {
  uint64_t held = claim_make(ticket->generation, ticket->claim, STATUS_HELD);
  /* seq_cst, with the loads of all_succeeded: of two last probes, at least one sees both. */
  return atomic_compare_exchange_strong_explicit(
      &breaker->places[ticket->place].claim, &held,
      claim_make(ticket->generation, ticket->claim, status), memory_order_seq_cst,
      memory_order_relaxed);
}

static bool place_has(const weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                      enum status status) {
  return atomic_load_explicit(&breaker->places[ticket->place].claim, memory_order_acquire) ==
         claim_make(ticket->generation, ticket->claim, status);
}

static bool all_succeeded(const weir_breaker *breaker, uint64_t generation) {
  for (uint32_t i = 0; i < breaker->options.probes; i++) {
    uint64_t claim = atomic_load_explicit(&breaker->places[i].claim, memory_order_seq_cst);
    if (claim_compare(claim, generation) != 0 || claim_status(claim) != STATUS_SUCCEEDED) {
      return false;
    }
  }
  return true;
}

/* A probe's place for a call, or, when all are taken, when the first of their leases ends. */
static enum claim_result claim_any(weir_breaker *breaker, uint64_t phase, int64_t now_ns,
                                   struct weir_breaker_ticket *ticket,
                                   int64_t *next_probe_in_ns_out) {
  uint64_t generation = phase_generation(phase);
  int64_t first_ns = WEIR_NO_DEADLINE;
  for (uint32_t i = 0; i < breaker->options.probes; i++) {
    int64_t lease_until_ns = WEIR_NO_DEADLINE;
    uint32_t number = 0;
    switch (
        place_claim(breaker, &breaker->places[i], generation, now_ns, &number, &lease_until_ns)) {
    case CLAIM_OUTDATED:
      return CLAIM_OUTDATED;
    case CLAIM_OCCUPIED:
      first_ns = weir__instant_min(first_ns, lease_until_ns);
      break;
    case CLAIM_TAKEN:
      if (phase_load(breaker) != phase) {
        return CLAIM_OUTDATED; /* the half-open period is over, and its places with it */
      }
      *ticket = (struct weir_breaker_ticket){generation, i, number, WEIR_BREAKER_TICKET_PENDING};
      return CLAIM_TAKEN;
    }
  }
  *next_probe_in_ns_out =
      first_ns == WEIR_NO_DEADLINE ? 0 : weir__instant_remaining(first_ns, now_ns);
  return CLAIM_OCCUPIED;
}

static enum weir_admission refuse(weir_breaker *breaker, enum weir_breaker_state state,
                                  int64_t next_probe_in_ns, struct weir_breaker_ticket *ticket_out,
                                  struct weir_breaker_view *view_out) {
  statistic_increment(&own_stripe(breaker)->n_refused);
  memset(ticket_out, 0, sizeof *ticket_out);
  *view_out = (struct weir_breaker_view){.state = state, .next_probe_in_ns = next_probe_in_ns};
  return WEIR_ADMISSION_REFUSE;
}

/* Every turn of the loop but the last is another thread's, or this one's, change of state. */
enum weir_admission weir_breaker_admit(weir_breaker *breaker, int64_t now_ns,
                                       const struct weir_random *random,
                                       struct weir_breaker_ticket *ticket_out,
                                       struct weir_breaker_view *view_out) {
  (void)random;
  for (;;) {
    uint64_t phase = phase_load(breaker);
    int64_t wait_ns = 0;
    switch (phase_stage(phase)) {
    case STAGE_CLOSED:
      *ticket_out = (struct weir_breaker_ticket){phase_generation(phase), WEIR_BREAKER_NO_PLACE, 0,
                                                 WEIR_BREAKER_TICKET_PENDING};
      *view_out = (struct weir_breaker_view){.state = WEIR_BREAKER_CLOSED};
      return WEIR_ADMISSION_PROCEED;
    case STAGE_OPENING:
      return refuse(breaker, WEIR_BREAKER_OPEN, breaker->options.open_for_ns, ticket_out, view_out);
    case STAGE_OPEN:
      wait_ns = weir__instant_remaining(
          atomic_load_explicit(&breaker->probe_at_ns, memory_order_relaxed), now_ns);
      if (wait_ns > 0) {
        return refuse(breaker, WEIR_BREAKER_OPEN, wait_ns, ticket_out, view_out);
      }
      (void)phase_exchange(
          breaker, phase,
          phase_make(phase_generation(phase) + 1, phase_reopenings(phase), STAGE_HALF_OPEN));
      break;
    case STAGE_HALF_OPEN:
      switch (claim_any(breaker, phase, now_ns, ticket_out, &wait_ns)) {
      case CLAIM_OUTDATED:
        break;
      case CLAIM_OCCUPIED:
        return refuse(breaker, WEIR_BREAKER_HALF_OPEN, wait_ns, ticket_out, view_out);
      case CLAIM_TAKEN:
        statistic_increment(&breaker->n_probes);
        *view_out = (struct weir_breaker_view){.state = WEIR_BREAKER_HALF_OPEN};
        return WEIR_ADMISSION_PROCEED;
      }
      break;
    }
  }
}

static void record_success(weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                           int64_t now_ns) {
  uint64_t phase = phase_load(breaker);
  if (phase_generation(phase) != ticket->generation) {
    return;
  }
  if (ticket->place == WEIR_BREAKER_NO_PLACE) {
    uint64_t epoch = epoch_at(breaker, ticket->generation, now_ns);
    count_increment(breaker, &own_stripe(breaker)->buckets[epoch & breaker->ring_mask].successes,
                    epoch);
    return;
  }
  if (place_settle(breaker, ticket, STATUS_SUCCEEDED) &&
      all_succeeded(breaker, ticket->generation)) {
    (void)phase_exchange(breaker, phase, phase_make(ticket->generation + 1, 0, STAGE_CLOSED));
  }
}

static void record_failure(weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                           enum weir_breaker_ticket_stage stage, int64_t now_ns,
                           const struct weir_random *random) {
  uint64_t phase = phase_load(breaker);
  if (phase_generation(phase) != ticket->generation) {
    return;
  }
  bool opens = false;
  if (ticket->place == WEIR_BREAKER_NO_PLACE) {
    uint64_t epoch = epoch_at(breaker, ticket->generation, now_ns);
    count_increment(breaker, &own_stripe(breaker)->buckets[epoch & breaker->ring_mask].failures,
                    epoch);
    opens = window_trips(breaker, epoch);
  } else {
    /* The place is not freed first: another call would be let through between that and the
     * opening. */
    opens = place_has(breaker, ticket,
                      stage == WEIR_BREAKER_TICKET_SUCCEEDED ? STATUS_SUCCEEDED : STATUS_HELD);
  }
  if (opens) {
    breaker_open(breaker, phase, now_ns, random);
  }
}

static void view_write(const weir_breaker *breaker, int64_t now_ns,
                       struct weir_breaker_view *view_out) {
  if (view_out != NULL) {
    *view_out = weir_breaker_look(breaker, now_ns);
  }
}

void weir_breaker_progress(weir_breaker *breaker, struct weir_breaker_ticket *ticket,
                           int64_t now_ns, struct weir_breaker_view *view_out) {
  if (ticket->stage == WEIR_BREAKER_TICKET_PENDING) {
    record_success(breaker, ticket, now_ns);
    ticket->stage = WEIR_BREAKER_TICKET_SUCCEEDED;
  }
  view_write(breaker, now_ns, view_out);
}

void weir_breaker_settle(weir_breaker *breaker, struct weir_breaker_ticket *ticket,
                         enum weir_breaker_verdict verdict, int64_t now_ns,
                         const struct weir_random *random, struct weir_breaker_view *view_out) {
  enum weir_breaker_ticket_stage stage = ticket->stage;
  switch (verdict) {
  case WEIR_BREAKER_VERDICT_IGNORED:
    weir_breaker_release(breaker, ticket);
    break;
  case WEIR_BREAKER_VERDICT_SUCCESS:
    if (stage == WEIR_BREAKER_TICKET_PENDING) {
      record_success(breaker, ticket, now_ns);
    }
    break;
  case WEIR_BREAKER_VERDICT_FAILURE:
    if (stage != WEIR_BREAKER_TICKET_SPENT) {
      record_failure(breaker, ticket, stage, now_ns, random);
    }
    break;
  }
  ticket->stage = WEIR_BREAKER_TICKET_SPENT;
  view_write(breaker, now_ns, view_out);
}

void weir_breaker_release(weir_breaker *breaker, struct weir_breaker_ticket *ticket) {
  if (ticket->stage == WEIR_BREAKER_TICKET_PENDING && ticket->place != WEIR_BREAKER_NO_PLACE) {
    (void)place_settle(breaker, ticket, STATUS_FREE); /* fails when the place is another's by now */
  }
  ticket->stage = WEIR_BREAKER_TICKET_SPENT;
}

bool weir_breaker_still_admits(const weir_breaker *breaker,
                               const struct weir_breaker_ticket *ticket) {
  uint64_t phase = phase_load(breaker);
  return phase_stage(phase) == STAGE_CLOSED && phase_generation(phase) == ticket->generation;
}

/* When a call may next get through, of a breaker in `phase`. */
static int64_t next_probe_in_ns(const weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  int64_t first_ns = WEIR_NO_DEADLINE;
  switch (phase_stage(phase)) {
  case STAGE_CLOSED:
    return 0;
  case STAGE_OPENING:
    return breaker->options.open_for_ns;
  case STAGE_OPEN:
    return weir__instant_remaining(
        atomic_load_explicit(&breaker->probe_at_ns, memory_order_relaxed), now_ns);
  case STAGE_HALF_OPEN:
    break;
  }
  for (uint32_t i = 0; i < breaker->options.probes; i++) {
    uint64_t claim = atomic_load_explicit(&breaker->places[i].claim, memory_order_acquire);
    if (claim_compare(claim, phase_generation(phase)) != 0 || claim_status(claim) == STATUS_FREE) {
      return 0;
    }
    if (claim_status(claim) == STATUS_HELD) {
      first_ns = weir__instant_min(
          first_ns, atomic_load_explicit(&breaker->places[i].lease_until_ns, memory_order_relaxed));
    }
  }
  return first_ns == WEIR_NO_DEADLINE ? 0 : weir__instant_remaining(first_ns, now_ns);
}

struct weir_breaker_view weir_breaker_look(const weir_breaker *breaker, int64_t now_ns) {
  uint64_t phase = phase_load(breaker);
  return (struct weir_breaker_view){.state = phase_state(phase),
                                    .generation = phase_generation(phase),
                                    .next_probe_in_ns = next_probe_in_ns(breaker, phase, now_ns)};
}

static void snapshot_fill(const weir_breaker *breaker, int64_t now_ns,
                          struct weir_breaker_snapshot *snapshot_out) {
  uint64_t phase = phase_load(breaker);
  memset(snapshot_out, 0, sizeof *snapshot_out);
  snapshot_out->size = sizeof *snapshot_out;
  snapshot_out->state = phase_state(phase);
  snapshot_out->generation = phase_generation(phase);
  snapshot_out->n_trips = statistic_read(&breaker->n_trips);
  snapshot_out->n_probes = statistic_read(&breaker->n_probes);
  for (uint32_t i = 0; i <= breaker->stripe_mask; i++) {
    snapshot_out->n_refused += statistic_read(&stripe_at(breaker, i)->n_refused);
  }
  if (snapshot_out->state == WEIR_BREAKER_CLOSED) {
    struct window_sum sum = window_sum(breaker, epoch_at(breaker, phase_generation(phase), now_ns));
    snapshot_out->n_requests = sum.n_requests;
    snapshot_out->n_failures = sum.n_failures;
  }
  if (snapshot_out->state == WEIR_BREAKER_OPEN) {
    snapshot_out->next_probe_in_ns = next_probe_in_ns(breaker, phase, now_ns);
  }
}

enum weir_error weir_breaker_snapshot(const weir_breaker *breaker, int64_t now_ns,
                                      struct weir_breaker_snapshot *snapshot_out) {
  struct weir_breaker_snapshot whole;
  size_t size = snapshot_out->size;
  if (size < sizeof size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  snapshot_fill(breaker, now_ns, &whole);
  memset(snapshot_out, 0, size);
  memcpy(snapshot_out, &whole, size < sizeof whole ? size : sizeof whole);
  snapshot_out->size = size;
  return WEIR_OK;
}

static unsigned bit_width(uint64_t value) {
  return value == 0 ? 0 : 64U - (unsigned)__builtin_clzll(value);
}

static void window_init(weir_breaker *breaker) {
  breaker->bucket_ns = (uint64_t)breaker->options.window_ns / breaker->options.window_buckets;
  breaker->ring_mask = (UINT64_C(1) << bit_width(breaker->options.window_buckets - 1)) - 1;
  breaker->count_bits = bit_width(breaker->bucket_ns);
  if (breaker->count_bits > MAX_COUNT_BITS) {
    breaker->count_bits = MAX_COUNT_BITS;
  }
  breaker->epoch_mask = UINT64_MAX >> breaker->count_bits;
  size_t stripe_bytes =
      sizeof(struct stripe) + (size_t)(breaker->ring_mask + 1) * sizeof(struct bucket);
  breaker->stripe_bytes =
      (stripe_bytes + STRIPE_ALIGNMENT - 1) / STRIPE_ALIGNMENT * STRIPE_ALIGNMENT;
}

enum weir_error weir__breaker_init(weir_breaker *breaker,
                                   const struct weir_breaker_options *options, uint32_t n_stripes,
                                   const struct weir_allocator *allocator) {
  assert(n_stripes != 0 && (n_stripes & (n_stripes - 1)) == 0);
  memset(breaker, 0, sizeof *breaker);
  breaker->options = *options;
  breaker->allocator = allocator;
  breaker->stripe_mask = n_stripes - 1;
  window_init(breaker);

  size_t stripes_bytes = n_stripes * breaker->stripe_bytes;
  size_t places_bytes = options->probes * sizeof(struct weir__breaker_place);
  breaker->memory = weir__zalloc(allocator, STRIPE_ALIGNMENT - 1 + stripes_bytes + places_bytes);
  if (breaker->memory == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  size_t misaligned = (uintptr_t)breaker->memory % STRIPE_ALIGNMENT;
  breaker->stripes =
      (unsigned char *)breaker->memory + (misaligned == 0 ? 0 : STRIPE_ALIGNMENT - misaligned);
  breaker->places = (struct weir__breaker_place *)(void *)(breaker->stripes + stripes_bytes);
  return WEIR_OK;
}

void weir__breaker_fini(weir_breaker *breaker) {
  weir__free(breaker->allocator, breaker->memory);
  breaker->memory = NULL;
}

enum weir_error weir_breaker_new(const struct weir_breaker_options *options,
                                 const struct weir_allocator *allocator,
                                 weir_breaker **breaker_out) {
  struct weir_breaker_options known = WEIR_BREAKER_OPTIONS_INIT;
  *breaker_out = NULL;
  enum weir_error error =
      options == NULL ? WEIR_OK : weir__options_copy(&known, sizeof known, options);
  if (error == WEIR_OK) {
    error = weir__breaker_options_check(&known, NULL);
  }
  if (error != WEIR_OK) {
    return error;
  }
  allocator = weir__allocator_or_default(allocator);
  weir_breaker *breaker = weir__zalloc(allocator, sizeof *breaker);
  if (breaker == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  error = weir__breaker_init(breaker, &known, 1, allocator);
  if (error != WEIR_OK) {
    weir__free(allocator, breaker);
    return error;
  }
  *breaker_out = breaker;
  return WEIR_OK;
}

void weir_breaker_free(weir_breaker *breaker) {
  if (breaker != NULL) {
    const struct weir_allocator *allocator = breaker->allocator;
    weir__breaker_fini(breaker);
    weir__free(allocator, breaker);
  }
}
