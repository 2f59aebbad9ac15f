/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_probes.h"

#include "src/decide/breaker_phase.h"
#include "src/decide/breaker_window.h"
#include "src/time/instant.h"

/* A place's claim: generation (its low 38 bits), claim number (24 bits), status (2 bits). A
 * claim of an older generation is a free place: entering HALF_OPEN has nothing to reset. */
#define STATUS_BITS 2
#define NUMBER_BITS 24
#define NUMBER_MASK ((UINT32_C(1) << NUMBER_BITS) - 1)
#define GENERATION_SHIFT (NUMBER_BITS + STATUS_BITS)

enum status { STATUS_FREE = 0, STATUS_HELD, STATUS_SUCCEEDED };

static struct weir__breaker_place *place_at(const weir_breaker *breaker, uint32_t index) {
  unsigned char *stripe = (unsigned char *)weir__breaker_first_stripe(breaker);
  void *places = stripe + weir__breaker_stripe_size(breaker->rules);
  return (struct weir__breaker_place *)places + index;
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

/* The end of a held place's lease. One that is much further off than a whole lease is from before
 * the clock was set back: it starts again. */
static int64_t lease_end(const weir_breaker *breaker, struct weir__breaker_place *place,
                         int64_t now_ns) {
  int64_t until_ns = atomic_load_explicit(&place->lease_until_ns, memory_order_relaxed);
  int64_t latest_ns = weir__instant_add(now_ns, breaker->rules->options.probe_lease_ns);
  if (until_ns > weir__instant_add(latest_ns, WEIR__BREAKER_CLOCK_STEP_NS) &&
      atomic_compare_exchange_strong_explicit(&place->lease_until_ns, &until_ns, latest_ns,
                                              memory_order_relaxed, memory_order_relaxed)) {
    return latest_ns;
  }
  return until_ns;
}

/* Takes one place if it is free or its lease is over. The lease is written before the claim, so
 * whoever sees the claim sees its lease (release and acquire on `claim`); a thread that then
 * loses the place has lengthened the winner's by what their clocks differ. */
static enum weir__breaker_claim place_claim(const weir_breaker *breaker,
                                            struct weir__breaker_place *place, uint64_t generation,
                                            int64_t now_ns, uint32_t *number_out,
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
      *lease_until_ns_out = lease_end(breaker, place, now_ns);
      if (now_ns < *lease_until_ns_out) {
        return WEIR__BREAKER_CLAIM_OCCUPIED;
      }
    }
    uint32_t number = (claim_number(old) + 1) & NUMBER_MASK;
    lease_raise(place, weir__instant_add(now_ns, breaker->rules->options.probe_lease_ns));
    if (atomic_compare_exchange_strong_explicit(&place->claim, &old,
                                                claim_make(generation, number, STATUS_HELD),
                                                memory_order_acq_rel, memory_order_acquire)) {
      *number_out = number;
      return WEIR__BREAKER_CLAIM_TAKEN;
    }
  }
}

enum weir__breaker_claim weir__breaker_probe_claim(weir_breaker *breaker, uint64_t phase,
                                                   int64_t now_ns,
                                                   struct weir_breaker_ticket *ticket_out,
                                                   int64_t *next_probe_in_ns_out) {
  uint64_t generation = weir__breaker_phase_generation(phase);
  int64_t first_ns = WEIR_NO_DEADLINE;
  for (uint32_t i = 0; i < breaker->rules->options.probes; i++) {
    int64_t lease_until_ns = WEIR_NO_DEADLINE;
    uint32_t number = 0;
    switch (
        place_claim(breaker, place_at(breaker, i), generation, now_ns, &number, &lease_until_ns)) {
    case WEIR__BREAKER_CLAIM_OUTDATED:
      return WEIR__BREAKER_CLAIM_OUTDATED;
    case WEIR__BREAKER_CLAIM_OCCUPIED:
      first_ns = weir__instant_min(first_ns, lease_until_ns);
      break;
    case WEIR__BREAKER_CLAIM_TAKEN:
      if (weir__breaker_phase_load(breaker) != phase) {
        return WEIR__BREAKER_CLAIM_OUTDATED;
      }
      *ticket_out =
          (struct weir_breaker_ticket){generation, i, number, WEIR_BREAKER_TICKET_PENDING};
      return WEIR__BREAKER_CLAIM_TAKEN;
    }
  }
  *next_probe_in_ns_out =
      first_ns == WEIR_NO_DEADLINE ? 0 : weir__instant_remaining(first_ns, now_ns);
  return WEIR__BREAKER_CLAIM_OCCUPIED;
}

/* seq_cst, with the loads of weir__breaker_probes_all_succeeded: of two last probes, at least one
 * sees both. */
static bool place_settle(weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                         enum status status) {
  uint64_t held = claim_make(ticket->generation, ticket->claim, STATUS_HELD);
  return atomic_compare_exchange_strong_explicit(
      &place_at(breaker, ticket->place)->claim, &held,
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
  return atomic_load_explicit(&place_at(breaker, ticket->place)->claim, memory_order_acquire) ==
         claim_make(ticket->generation, ticket->claim, status);
}

bool weir__breaker_probes_all_succeeded(const weir_breaker *breaker, uint64_t generation) {
  for (uint32_t i = 0; i < breaker->rules->options.probes; i++) {
    uint64_t claim = atomic_load_explicit(&place_at(breaker, i)->claim, memory_order_seq_cst);
    if (claim_compare(claim, generation) != 0 || claim_status(claim) != STATUS_SUCCEEDED) {
      return false;
    }
  }
  return true;
}

bool weir__breaker_probes_all_taken(const weir_breaker *breaker, uint64_t generation,
                                    int64_t now_ns, int64_t *next_probe_in_ns_out) {
  int64_t first_ns = WEIR_NO_DEADLINE;
  *next_probe_in_ns_out = 0;
  for (uint32_t i = 0; i < breaker->rules->options.probes; i++) {
    const struct weir__breaker_place *place = place_at(breaker, i);
    uint64_t claim = atomic_load_explicit(&place->claim, memory_order_acquire);
    if (claim_compare(claim, generation) != 0 || claim_status(claim) == STATUS_FREE) {
      return false;
    }
    if (claim_status(claim) == STATUS_HELD) {
      first_ns = weir__instant_min(
          first_ns, atomic_load_explicit(&place->lease_until_ns, memory_order_relaxed));
    }
  }
  if (first_ns != WEIR_NO_DEADLINE) {
    *next_probe_in_ns_out = weir__instant_remaining(first_ns, now_ns);
  }
  return first_ns > now_ns;
}
