/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_probes.h"

#include "src/decide/breaker_annex.h"
#include "src/decide/breaker_numbers.h"
#include "src/decide/breaker_phase.h"
#include "src/time/instant.h"

/* A place's claim: generation (its low 38 bits), claim number (24 bits), status (2 bits). A
 * claim of an older generation is a free place: entering HALF_OPEN has nothing to reset. */
#define STATUS_BITS 2
#define NUMBER_BITS 24
#define NUMBER_MASK ((UINT32_C(1) << NUMBER_BITS) - 1)
#define GENERATION_SHIFT (NUMBER_BITS + STATUS_BITS)

enum status { STATUS_FREE = 0, STATUS_HELD, STATUS_SUCCEEDED };

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

static void lease_raise(struct weir__breaker_place *place, int64_t from_ns) {
  int64_t old = atomic_load_explicit(&place->leased_from_ns, memory_order_relaxed);
  while (old < from_ns &&
         !atomic_compare_exchange_weak_explicit(&place->leased_from_ns, &old, from_ns,
                                                memory_order_relaxed, memory_order_relaxed)) {
  }
}

/* The end of a held place's lease. One that is yet to begin is from before the clock was set back:
 * it begins again. */
static int64_t lease_end(struct weir__breaker_place *place, int64_t lease_ns, int64_t now_ns) {
  int64_t from_ns = atomic_load_explicit(&place->leased_from_ns, memory_order_relaxed);
  if (from_ns > weir__instant_add(now_ns, WEIR__BREAKER_CLOCK_STEP_NS) &&
      atomic_compare_exchange_strong_explicit(&place->leased_from_ns, &from_ns, now_ns,
                                              memory_order_relaxed, memory_order_relaxed)) {
    from_ns = now_ns;
  }
  return weir__instant_add(from_ns, lease_ns);
}

/* Takes one place if it is free or its lease is over. The lease is written before the claim, so
 * whoever sees the claim sees its lease (release and acquire on `claim`); a thread that then
 * loses the place has lengthened the winner's by what their clocks differ. seq_cst: for
 * claim_stands. */
static enum weir__breaker_claim place_claim(struct weir__breaker_place *place, uint64_t generation,
                                            int64_t lease_ns, int64_t now_ns, uint32_t *number_out,
                                            int64_t *lease_until_ns_out) {
  uint64_t old = atomic_load_explicit(&place->claim, memory_order_acquire);
  for (;;) {
    int64_t order = claim_compare(old, generation);
    if (order > 0) {
      return WEIR__BREAKER_CLAIM_OUTDATED;
    }
    if (order == 0 && claim_status(old) == STATUS_SUCCEEDED) {
      return WEIR__BREAKER_CLAIM_OCCUPIED;
    }
    if (order == 0 && claim_status(old) == STATUS_HELD) {
      *lease_until_ns_out = lease_end(place, lease_ns, now_ns);
      if (now_ns < *lease_until_ns_out) {
        return WEIR__BREAKER_CLAIM_OCCUPIED;
      }
    }
    uint32_t number = (claim_number(old) + 1) & NUMBER_MASK;
    lease_raise(place, now_ns);
    if (atomic_compare_exchange_strong_explicit(&place->claim, &old,
                                                claim_make(generation, number, STATUS_HELD),
                                                memory_order_seq_cst, memory_order_acquire)) {
      *number_out = number;
      return WEIR__BREAKER_CLAIM_TAKEN;
    }
  }
}

/* What there is of one half-open period. */
struct tally {
  uint32_t n_succeeded;
  uint32_t n_leased; /* held, and the lease runs */
  int64_t first_end_ns;
};

/* seq_cst, with the claims, and with the results: of two threads that write and then count, at
 * least one sees both. */
static struct tally tally_of(const weir_breaker *breaker, uint64_t generation, int64_t lease_ns,
                             int64_t now_ns) {
  struct tally tally = {.first_end_ns = WEIR_NO_DEADLINE};
  uint32_t n_places = weir__breaker_n_places(breaker);
  for (uint32_t i = 0; i < n_places; i++) {
    const struct weir__breaker_place *place = weir__breaker_place_at(breaker, i);
    uint64_t claim = atomic_load_explicit(&place->claim, memory_order_seq_cst);
    if (claim_compare(claim, generation) != 0) {
      continue;
    }
    int64_t end_ns = weir__instant_add(
        atomic_load_explicit(&place->leased_from_ns, memory_order_relaxed), lease_ns);
    if (claim_status(claim) == STATUS_SUCCEEDED) {
      tally.n_succeeded++;
    } else if (claim_status(claim) == STATUS_HELD && now_ns < end_ns) {
      tally.n_leased++;
      tally.first_end_ns = weir__instant_min(tally.first_end_ns, end_ns);
    }
  }
  return tally;
}

static int64_t wait_until(int64_t first_end_ns, int64_t now_ns) {
  return first_end_ns == WEIR_NO_DEADLINE ? 0 : weir__instant_remaining(first_end_ns, now_ns);
}

/* Whether there may be more probes than the numbers say, from when they said otherwise. */
static bool may_be_crowded(const weir_breaker *breaker,
                           const struct weir__breaker_numbers *numbers) {
  return weir__breaker_n_places(breaker) > numbers->n_probes;
}

/* Whether the call that has just taken `ticket`'s place may have it. Under other numbers it is to
 * look again; where others have places that there are no more of, it is one too many. */
static enum weir__breaker_claim claim_stands(const weir_breaker *breaker,
                                             const struct weir_breaker_ticket *ticket,
                                             const struct weir__breaker_numbers *numbers,
                                             uint64_t turn, int64_t now_ns) {
  if (weir__breaker_rules_turn(breaker->rules) != turn) {
    return WEIR__BREAKER_CLAIM_OUTDATED;
  }
  if (may_be_crowded(breaker, numbers)) {
    struct tally tally = tally_of(breaker, ticket->generation, numbers->probe_lease_ns, now_ns);
    if (tally.n_succeeded + tally.n_leased > numbers->n_probes) {
      return WEIR__BREAKER_CLAIM_OCCUPIED;
    }
  }
  return WEIR__BREAKER_CLAIM_TAKEN;
}

/* Takes the first place that there is. */
static enum weir__breaker_claim claim_any(weir_breaker *breaker, uint64_t generation,
                                          const struct weir__breaker_numbers *numbers,
                                          int64_t now_ns, struct weir_breaker_ticket *ticket_out,
                                          int64_t *first_end_ns_out) {
  *first_end_ns_out = WEIR_NO_DEADLINE;
  for (uint32_t i = 0; i < numbers->n_probes; i++) {
    int64_t lease_until_ns = WEIR_NO_DEADLINE;
    uint32_t number = 0;
    switch (place_claim(weir__breaker_place_at(breaker, i), generation, numbers->probe_lease_ns,
                        now_ns, &number, &lease_until_ns)) {
    case WEIR__BREAKER_CLAIM_OUTDATED:
    case WEIR__BREAKER_CLAIM_ENOUGH:
      return WEIR__BREAKER_CLAIM_OUTDATED;
    case WEIR__BREAKER_CLAIM_OCCUPIED:
      *first_end_ns_out = weir__instant_min(*first_end_ns_out, lease_until_ns);
      break;
    case WEIR__BREAKER_CLAIM_TAKEN:
      *ticket_out =
          (struct weir_breaker_ticket){generation, i, number, WEIR_BREAKER_TICKET_PENDING};
      return WEIR__BREAKER_CLAIM_TAKEN;
    }
  }
  return WEIR__BREAKER_CLAIM_OCCUPIED;
}

enum weir__breaker_claim weir__breaker_probe_claim(weir_breaker *breaker, uint64_t phase,
                                                   int64_t now_ns,
                                                   struct weir_breaker_ticket *ticket_out,
                                                   int64_t *next_probe_in_ns_out) {
  uint64_t generation = weir__breaker_phase_generation(phase);
  uint64_t turn = 0;
  struct weir__breaker_numbers numbers = weir__breaker_numbers_of(breaker->rules, &turn);
  int64_t first_end_ns = WEIR_NO_DEADLINE;
  enum weir__breaker_claim claim =
      claim_any(breaker, generation, &numbers, now_ns, ticket_out, &first_end_ns);
  if (claim == WEIR__BREAKER_CLAIM_TAKEN) {
    if (weir__breaker_phase_load(breaker) != phase) {
      return WEIR__BREAKER_CLAIM_OUTDATED;
    }
    claim = claim_stands(breaker, ticket_out, &numbers, turn, now_ns);
    if (claim == WEIR__BREAKER_CLAIM_TAKEN) {
      return claim;
    }
    (void)weir__breaker_probe_return(breaker, ticket_out);
  }
  if (claim == WEIR__BREAKER_CLAIM_OCCUPIED && may_be_crowded(breaker, &numbers)) {
    struct tally tally = tally_of(breaker, generation, numbers.probe_lease_ns, now_ns);
    if (tally.n_succeeded >= numbers.n_probes) {
      return WEIR__BREAKER_CLAIM_ENOUGH;
    }
    first_end_ns = tally.first_end_ns;
  }
  *next_probe_in_ns_out = wait_until(first_end_ns, now_ns);
  return claim;
}

/* seq_cst, with the loads of weir__breaker_probes_all_succeeded: of two last probes, at least one
 * sees both. */
static bool place_settle(weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                         enum status status) {
  uint64_t held = claim_make(ticket->generation, ticket->claim, STATUS_HELD);
  return atomic_compare_exchange_strong_explicit(
      &weir__breaker_place_at(breaker, ticket->place)->claim, &held,
      claim_make(ticket->generation, ticket->claim, status), memory_order_seq_cst,
      memory_order_relaxed);
}

bool weir__breaker_probe_succeed(weir_breaker *breaker, const struct weir_breaker_ticket *ticket) {
  return place_settle(breaker, ticket, STATUS_SUCCEEDED);
}

bool weir__breaker_probe_return(weir_breaker *breaker, const struct weir_breaker_ticket *ticket) {
  return place_settle(breaker, ticket, STATUS_FREE);
}

bool weir__breaker_probe_is_own(const weir_breaker *breaker,
                                const struct weir_breaker_ticket *ticket) {
  enum status status =
      ticket->stage == WEIR_BREAKER_TICKET_SUCCEEDED ? STATUS_SUCCEEDED : STATUS_HELD;
  return atomic_load_explicit(&weir__breaker_place_at(breaker, ticket->place)->claim,
                              memory_order_acquire) ==
         claim_make(ticket->generation, ticket->claim, status);
}

bool weir__breaker_probes_all_succeeded(const weir_breaker *breaker, uint64_t generation) {
  struct weir__breaker_numbers numbers = weir__breaker_numbers_of(breaker->rules, NULL);
  return tally_of(breaker, generation, 0, 0).n_succeeded >= numbers.n_probes;
}

struct weir__breaker_probes_view weir__breaker_probes_look(const weir_breaker *breaker,
                                                           uint64_t generation, int64_t now_ns) {
  struct weir__breaker_numbers numbers = weir__breaker_numbers_of(breaker->rules, NULL);
  struct tally tally = tally_of(breaker, generation, numbers.probe_lease_ns, now_ns);
  bool all_taken = tally.n_succeeded >= numbers.n_probes
                       ? !may_be_crowded(breaker, &numbers)
                       : tally.n_succeeded + tally.n_leased >= numbers.n_probes;
  return (struct weir__breaker_probes_view){
      .all_taken = all_taken,
      .wait_ns = all_taken ? wait_until(tally.first_end_ns, now_ns) : 0,
  };
}
