/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker.h"

#include <stdatomic.h>
#include <string.h>

#include "src/base/random.h"
#include "src/decide/breaker_numbers.h"
#include "src/decide/breaker_phase.h"
#include "src/decide/breaker_probes.h"
#include "src/decide/breaker_streak.h"
#include "src/decide/breaker_time.h"
#include "src/decide/breaker_window.h"
#include "src/time/instant.h"

/* Relaxed: a statistic stands on its own, nothing is concluded from it. */
static void statistic_increment(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void view_write(struct weir_breaker_view *view_out, uint64_t phase,
                       enum weir_breaker_refusal refusal, int64_t next_probe_in_ns) {
  *view_out = (struct weir_breaker_view){
      .state = weir__breaker_phase_state(phase),
      .refusal = refusal,
      .generation = weir__breaker_phase_generation(phase),
      .next_probe_in_ns = next_probe_in_ns,
  };
}

/* How it is now, whatever this call has done. */
static void view_present(const weir_breaker *breaker, int64_t now_ns,
                         struct weir_breaker_view *view_out) {
  uint64_t phase = weir__breaker_phase_load(breaker);
  view_write(view_out, phase, WEIR_BREAKER_REFUSAL_NONE,
             weir__breaker_wait_ns(breaker, phase, now_ns));
}

/* The view of whoever has changed `from` to `to`. */
static void view_change(struct weir_breaker_view *view_out, uint64_t from, uint64_t to,
                        int64_t next_probe_in_ns) {
  view_write(view_out, to, WEIR_BREAKER_REFUSAL_NONE, next_probe_in_ns);
  view_out->changed = true;
  view_out->changed_from = weir__breaker_phase_state(from);
}

/* Writes since when, and by what chance, a change lasts that this thread has made, and then says
 * that it is there. An override may come in between, and even further changes with a time of their
 * own: each `old` was read before the phase was seen to be still this thread's, so if it is still
 * there, no other has been written. (Acquire, so that it is read before. The phase's exchange
 * publishes both.) */
static void phase_publish(weir_breaker *breaker, uint64_t begun, enum weir__breaker_stage stage,
                          int64_t since_ns, uint32_t chance) {
  uint32_t old_chance = atomic_load_explicit(&breaker->chance, memory_order_acquire);
  int64_t old_ns = atomic_load_explicit(&breaker->since_ns, memory_order_acquire);
  while (weir__breaker_phase_load(breaker) == begun) {
    if (atomic_compare_exchange_strong_explicit(&breaker->chance, &old_chance, chance,
                                                memory_order_acquire, memory_order_acquire) &&
        atomic_compare_exchange_strong_explicit(&breaker->since_ns, &old_ns, since_ns,
                                                memory_order_acquire, memory_order_acquire)) {
      (void)weir__breaker_phase_exchange(
          breaker, &begun,
          weir__breaker_phase_make(weir__breaker_phase_generation(begun),
                                   weir__breaker_phase_reopenings(begun), stage));
      return;
    }
  }
}

/* How often it has been reopened, should it open in `phase`: what trips in a ramp had not
 * recovered. */
static uint64_t reopenings_after(const weir_breaker *breaker, int64_t ramp_for_ns, uint64_t phase,
                                 int64_t now_ns) {
  enum weir__breaker_stage stage = weir__breaker_phase_stage(phase);
  bool again = stage == WEIR__BREAKER_STAGE_HALF_OPEN || stage == WEIR__BREAKER_STAGE_RAMP_BEGINS ||
               (stage == WEIR__BREAKER_STAGE_RAMP &&
                weir__breaker_ramp_share(breaker, ramp_for_ns, phase, now_ns) < 1.0);
  uint64_t reopenings = weir__breaker_phase_reopenings(phase);
  if (!again) {
    return 0;
  }
  return reopenings < WEIR__BREAKER_MAX_REOPENINGS ? reopenings + 1 : reopenings;
}

static uint32_t chance_draw(const struct weir_random *random) {
  return (uint32_t)(weir__random_unit(weir__random_or_default(random)) * 0x1p32);
}

/* Opens what is in `phase`, a stage that admits. In the same generation a ramp may begin or end
 * meanwhile, which is no reason not to. */
static void breaker_open(weir_breaker *breaker, const struct weir__breaker_numbers *numbers,
                         uint64_t phase, int64_t now_ns, const struct weir_random *random,
                         struct weir_breaker_view *view_out) {
  uint64_t generation = weir__breaker_phase_generation(phase);
  uint32_t chance = chance_draw(random);
  do {
    uint64_t reopenings = reopenings_after(breaker, numbers->ramp_for_ns, phase, now_ns);
    uint64_t from = phase;
    uint64_t to = weir__breaker_phase_make(generation + 1, reopenings, WEIR__BREAKER_STAGE_OPENING);
    if (weir__breaker_phase_exchange(breaker, &phase, to)) {
      phase_publish(breaker, to, WEIR__BREAKER_STAGE_OPEN, now_ns, chance);
      statistic_increment(&breaker->n_trips);
      view_change(view_out, from, to,
                  weir__breaker_open_time_ns(&numbers->opening, reopenings, chance));
      return;
    }
  } while (weir__breaker_phase_generation(phase) == generation);
  view_present(breaker, now_ns, view_out);
}

/* Closes what is HALF_OPEN in `phase`. Returns the phase that this thread has made of it; 0 =
 * another was first. */
static uint64_t phase_close(weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  bool ramp = weir__breaker_ramp_for_ns(breaker->rules) > 0;
  uint64_t to = weir__breaker_phase_make(
      weir__breaker_phase_generation(phase) + 1, ramp ? weir__breaker_phase_reopenings(phase) : 0,
      ramp ? WEIR__BREAKER_STAGE_RAMP_BEGINS : WEIR__BREAKER_STAGE_CLOSED);
  if (!weir__breaker_phase_exchange(breaker, &phase, to)) {
    return 0;
  }
  if (ramp) {
    phase_publish(breaker, to, WEIR__BREAKER_STAGE_RAMP, now_ns, 0);
  }
  return to;
}

static void breaker_close(weir_breaker *breaker, uint64_t phase, int64_t now_ns,
                          struct weir_breaker_view *view_out) {
  uint64_t to = phase_close(breaker, phase, now_ns);
  if (to != 0) {
    view_change(view_out, phase, to, 0);
  } else {
    view_present(breaker, now_ns, view_out);
  }
}

/* What a call that asks is given. */
struct answer {
  struct weir_breaker_ticket *ticket;
  struct weir_breaker_view *view;
  enum weir_breaker_mode mode;
  uint64_t changed_to; /* the phase that this call has made of `changed_from`; 0 = none */
  uint64_t changed_from;
};

/* A view that tells of a change tells of that generation, even if this call was then answered in
 * the next. */
static enum weir_admission answer(const struct answer *answer, uint64_t phase,
                                  enum weir_breaker_refusal refusal, int64_t next_probe_in_ns,
                                  enum weir_admission admission) {
  view_write(answer->view, answer->changed_to != 0 ? answer->changed_to : phase, refusal,
             next_probe_in_ns);
  answer->view->changed = answer->changed_to != 0;
  answer->view->changed_from =
      answer->view->changed ? weir__breaker_phase_state(answer->changed_from) : WEIR_BREAKER_CLOSED;
  return admission;
}

static enum weir_admission refuse(weir_breaker *breaker, const struct answer *to, uint64_t phase,
                                  int64_t now_ns, enum weir_breaker_refusal refusal,
                                  int64_t next_probe_in_ns) {
  bool shadow = to->mode == WEIR_BREAKER_MODE_SHADOW && refusal != WEIR_BREAKER_REFUSAL_FORCED_OPEN;
  weir__breaker_count_refusal(breaker, shadow, now_ns);
  memset(to->ticket, 0, sizeof *to->ticket);
  return answer(to, phase, refusal, next_probe_in_ns,
                shadow ? WEIR_ADMISSION_PROCEED : WEIR_ADMISSION_REFUSE);
}

static enum weir_admission admit_while_closed(const struct answer *to, uint64_t phase) {
  *to->ticket = (struct weir_breaker_ticket){weir__breaker_phase_generation(phase),
                                             WEIR_BREAKER_NO_PLACE, 0, WEIR_BREAKER_TICKET_PENDING};
  return answer(to, phase, WEIR_BREAKER_REFUSAL_NONE, 0, WEIR_ADMISSION_PROCEED);
}

static enum weir_admission admit_in_ramp(weir_breaker *breaker, const struct answer *to,
                                         uint64_t phase, int64_t now_ns,
                                         const struct weir_random *random) {
  int64_t ramp_for_ns = weir__breaker_ramp_for_ns(breaker->rules);
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_RAMP) {
    (void)weir__breaker_since_ns(breaker, phase, now_ns);
  }
  double share = weir__breaker_ramp_share(breaker, ramp_for_ns, phase, now_ns);
  if (share >= 1.0) {
    /* Its growth is forgotten. The generation stays, so a failed exchange is no matter. */
    uint64_t old = phase;
    (void)weir__breaker_phase_exchange(
        breaker, &old,
        weir__breaker_phase_make(weir__breaker_phase_generation(phase), 0,
                                 WEIR__BREAKER_STAGE_CLOSED));
  } else if (weir__random_unit(weir__random_or_default(random)) >= share) {
    return refuse(breaker, to, phase, now_ns, WEIR_BREAKER_REFUSAL_RAMP, 0);
  }
  return admit_while_closed(to, phase);
}

/* What is OPEN in `phase` and whose time is over becomes HALF_OPEN; what is HALF_OPEN with as many
 * successes as it takes by now, CLOSED. False: this call has made a change already, and then came
 * too late. A view tells of one change only. */
static bool move_on(weir_breaker *breaker, struct answer *to, uint64_t phase, int64_t now_ns) {
  if (to->changed_to != 0) {
    return false;
  }
  to->changed_from = phase;
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_HALF_OPEN) {
    to->changed_to = phase_close(breaker, phase, now_ns);
    return true;
  }
  uint64_t next = weir__breaker_phase_make(weir__breaker_phase_generation(phase) + 1,
                                           weir__breaker_phase_reopenings(phase),
                                           WEIR__BREAKER_STAGE_HALF_OPEN);
  if (weir__breaker_phase_exchange(breaker, &phase, next)) {
    to->changed_to = next;
  }
  return true;
}

/* Asks for a place. False: the phase is over. */
static bool admit_as_probe(weir_breaker *breaker, struct answer *to, uint64_t phase, int64_t now_ns,
                           enum weir_admission *admission_out) {
  int64_t wait_ns = 0;
  switch (weir__breaker_probe_claim(breaker, phase, now_ns, to->ticket, &wait_ns)) {
  case WEIR__BREAKER_CLAIM_OUTDATED:
    return false;
  case WEIR__BREAKER_CLAIM_ENOUGH:
    if (move_on(breaker, to, phase, now_ns)) {
      return false;
    }
    break;
  case WEIR__BREAKER_CLAIM_OCCUPIED:
    break;
  case WEIR__BREAKER_CLAIM_TAKEN:
    statistic_increment(&breaker->n_probes);
    *admission_out = answer(to, phase, WEIR_BREAKER_REFUSAL_NONE, 0, WEIR_ADMISSION_PROCEED);
    return true;
  }
  *admission_out = refuse(breaker, to, phase, now_ns, WEIR_BREAKER_REFUSAL_PROBES_TAKEN, wait_ns);
  return true;
}

/* Every turn of the loop but the last is another thread's, or this one's, change of state, or of
 * the numbers. */
static enum weir_admission admit_unless_closed(weir_breaker *breaker, struct answer *to,
                                               uint64_t phase, int64_t now_ns,
                                               const struct weir_random *random) {
  for (;; phase = weir__breaker_phase_load(breaker)) {
    struct weir__breaker_opening opening;
    enum weir_admission admission = WEIR_ADMISSION_PROCEED;
    int64_t wait_ns = 0;
    switch (weir__breaker_phase_stage(phase)) {
    case WEIR__BREAKER_STAGE_CLOSED:
      return admit_while_closed(to, phase);
    case WEIR__BREAKER_STAGE_RAMP_BEGINS:
    case WEIR__BREAKER_STAGE_RAMP:
      return admit_in_ramp(breaker, to, phase, now_ns, random);
    case WEIR__BREAKER_STAGE_OPENING:
    case WEIR__BREAKER_STAGE_OPEN:
      opening = weir__breaker_opening_of(breaker->rules);
      wait_ns = weir__breaker_open_wait_ns(breaker, &opening, phase, now_ns);
      if (wait_ns > 0 || !move_on(breaker, to, phase, now_ns)) {
        return refuse(breaker, to, phase, now_ns, WEIR_BREAKER_REFUSAL_OPEN, wait_ns);
      }
      break;
    case WEIR__BREAKER_STAGE_HALF_OPEN:
      if (admit_as_probe(breaker, to, phase, now_ns, &admission)) {
        return admission;
      }
      break;
    case WEIR__BREAKER_STAGE_FORCED_OPEN:
      return refuse(breaker, to, phase, now_ns, WEIR_BREAKER_REFUSAL_FORCED_OPEN, WEIR_NO_LIMIT_NS);
    case WEIR__BREAKER_STAGE_DISABLED:
      memset(to->ticket, 0, sizeof *to->ticket);
      return answer(to, phase, WEIR_BREAKER_REFUSAL_NONE, 0, WEIR_ADMISSION_PROCEED);
    }
  }
}

enum weir_admission weir__breaker_admit(weir_breaker *breaker, enum weir_breaker_mode mode,
                                        int64_t now_ns, const struct weir_random *random,
                                        struct weir_breaker_ticket *ticket_out,
                                        struct weir_breaker_view *view_out) {
  struct answer to = {.ticket = ticket_out, .view = view_out, .mode = mode};
  uint64_t phase = weir__breaker_phase_load(breaker);
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_CLOSED) {
    return admit_while_closed(&to, phase);
  }
  return admit_unless_closed(breaker, &to, phase, now_ns, random);
}

enum weir_admission weir_breaker_admit(weir_breaker *breaker, int64_t now_ns,
                                       const struct weir_random *random,
                                       struct weir_breaker_ticket *ticket_out,
                                       struct weir_breaker_view *view_out) {
  struct answer to = {.ticket = ticket_out, .view = view_out};
  uint64_t phase = weir__breaker_phase_load(breaker);
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_CLOSED) {
    return admit_while_closed(&to, phase);
  }
  to.mode = weir__breaker_mode_of(breaker->rules);
  return admit_unless_closed(breaker, &to, phase, now_ns, random);
}

static bool window_trips(const weir_breaker *breaker, const struct weir__breaker_numbers *numbers,
                         uint64_t generation, int64_t now_ns) {
  struct weir__breaker_sum sum =
      weir__breaker_window_sum(breaker, &numbers->grid, generation, now_ns);
  /* The quotient, not a product: both sides are then the nearest double, and an exact 3 of 5
   * equals 0.6. */
  return sum.n_requests >= numbers->min_requests &&
         (double)sum.n_failures / (double)sum.n_requests >= numbers->failure_ratio;
}

static void record_success(weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                           uint64_t phase, int64_t now_ns, struct weir_breaker_view *view_out) {
  if (ticket->place == WEIR_BREAKER_NO_PLACE) {
    weir__breaker_count_success(breaker, ticket->generation, now_ns);
    weir__breaker_streak_end(breaker, ticket->generation);
    view_write(view_out, phase, WEIR_BREAKER_REFUSAL_NONE, 0);
    return;
  }
  if (weir__breaker_probe_succeed(breaker, ticket) &&
      weir__breaker_probes_all_succeeded(breaker, ticket->generation)) {
    breaker_close(breaker, phase, now_ns, view_out);
    return;
  }
  view_present(breaker, now_ns, view_out);
}

static void record_failure(weir_breaker *breaker, const struct weir_breaker_ticket *ticket,
                           uint64_t phase, int64_t now_ns, const struct weir_random *random,
                           struct weir_breaker_view *view_out) {
  struct weir__breaker_numbers numbers = weir__breaker_numbers_of(breaker->rules, NULL);
  bool opens = false;
  if (ticket->place == WEIR_BREAKER_NO_PLACE) {
    weir__breaker_count_failure(breaker, &numbers.grid, ticket->generation, now_ns);
    bool streak_trips =
        weir__breaker_streak_grow(breaker, ticket->generation, numbers.consecutive_failures);
    opens = streak_trips || window_trips(breaker, &numbers, ticket->generation, now_ns);
  } else {
    /* The place is not given back first: another call would be let through between that and the
     * opening. */
    opens = weir__breaker_probe_is_own(breaker, ticket);
  }
  if (opens) {
    breaker_open(breaker, &numbers, phase, now_ns, random, view_out);
  } else {
    view_present(breaker, now_ns, view_out);
  }
}

void weir_breaker_progress(weir_breaker *breaker, struct weir_breaker_ticket *ticket,
                           int64_t now_ns, struct weir_breaker_view *view_out) {
  struct weir_breaker_view unseen;
  struct weir_breaker_view *view = view_out != NULL ? view_out : &unseen;
  uint64_t phase = weir__breaker_phase_load(breaker);
  bool pending = ticket->stage == WEIR_BREAKER_TICKET_PENDING;
  if (pending && weir__breaker_phase_generation(phase) == ticket->generation) {
    record_success(breaker, ticket, phase, now_ns, view);
  } else {
    view_present(breaker, now_ns, view);
  }
  if (pending) {
    ticket->stage = WEIR_BREAKER_TICKET_SUCCEEDED;
  }
}

void weir_breaker_settle(weir_breaker *breaker, struct weir_breaker_ticket *ticket,
                         enum weir_breaker_verdict verdict, int64_t now_ns,
                         const struct weir_random *random, struct weir_breaker_view *view_out) {
  struct weir_breaker_view unseen;
  struct weir_breaker_view *view = view_out != NULL ? view_out : &unseen;
  uint64_t phase = weir__breaker_phase_load(breaker);
  bool counts = ticket->stage != WEIR_BREAKER_TICKET_SPENT &&
                weir__breaker_phase_generation(phase) == ticket->generation;
  if (counts && verdict == WEIR_BREAKER_VERDICT_SUCCESS &&
      ticket->stage == WEIR_BREAKER_TICKET_PENDING) {
    record_success(breaker, ticket, phase, now_ns, view);
  } else if (counts && verdict == WEIR_BREAKER_VERDICT_FAILURE) {
    record_failure(breaker, ticket, phase, now_ns, random, view);
  } else {
    weir_breaker_release(breaker, ticket);
    view_present(breaker, now_ns, view);
  }
  ticket->stage = WEIR_BREAKER_TICKET_SPENT;
}

void weir_breaker_release(weir_breaker *breaker, struct weir_breaker_ticket *ticket) {
  if (ticket->stage == WEIR_BREAKER_TICKET_PENDING && ticket->place != WEIR_BREAKER_NO_PLACE) {
    (void)weir__breaker_probe_return(breaker, ticket); /* unless it is another's by now */
  }
  ticket->stage = WEIR_BREAKER_TICKET_SPENT;
}

bool weir__breaker_still_admits(const weir_breaker *breaker, enum weir_breaker_mode mode,
                                const struct weir_breaker_ticket *ticket) {
  uint64_t phase = weir__breaker_phase_load(breaker);
  switch (weir__breaker_phase_override(phase)) {
  case WEIR_BREAKER_OVERRIDE_NONE:
    break;
  case WEIR_BREAKER_OVERRIDE_OPEN:
    return false;
  case WEIR_BREAKER_OVERRIDE_DISABLED:
    return true;
  }
  if (mode == WEIR_BREAKER_MODE_SHADOW) {
    return true;
  }
  return weir__breaker_phase_state(phase) == WEIR_BREAKER_CLOSED &&
         (ticket->stage == WEIR_BREAKER_TICKET_SPENT ||
          ticket->generation >= weir__breaker_phase_unbroken_since(phase));
}

bool weir_breaker_still_admits(const weir_breaker *breaker,
                               const struct weir_breaker_ticket *ticket) {
  return weir__breaker_still_admits(breaker, weir__breaker_mode_of(breaker->rules), ticket);
}

static enum weir__breaker_stage stage_of(enum weir_breaker_override override) {
  switch (override) {
  case WEIR_BREAKER_OVERRIDE_NONE:
    break;
  case WEIR_BREAKER_OVERRIDE_OPEN:
    return WEIR__BREAKER_STAGE_FORCED_OPEN;
  case WEIR_BREAKER_OVERRIDE_DISABLED:
    return WEIR__BREAKER_STAGE_DISABLED;
  }
  return WEIR__BREAKER_STAGE_CLOSED;
}

/* What an override makes of `phase`. One that only stops the counting is no break for calls that are
 * under way, nor is its end. */
static uint64_t phase_overridden(uint64_t phase, enum weir_breaker_override override) {
  uint64_t generation = weir__breaker_phase_generation(phase) + 1;
  uint64_t unbroken = 0;
  if (override != WEIR_BREAKER_OVERRIDE_OPEN &&
      weir__breaker_phase_state(phase) == WEIR_BREAKER_CLOSED) {
    unbroken = generation - weir__breaker_phase_unbroken_since(phase);
    unbroken = unbroken < WEIR__BREAKER_MAX_REOPENINGS ? unbroken : WEIR__BREAKER_MAX_REOPENINGS;
  }
  return weir__breaker_phase_make(generation, unbroken, stage_of(override));
}

void weir_breaker_set_override(weir_breaker *breaker, enum weir_breaker_override override,
                               struct weir_breaker_view *view_out) {
  struct weir_breaker_view unseen;
  struct weir_breaker_view *view = view_out != NULL ? view_out : &unseen;
  int64_t wait_ns = override == WEIR_BREAKER_OVERRIDE_OPEN ? WEIR_NO_LIMIT_NS : 0;
  uint64_t phase = weir__breaker_phase_load(breaker);
  while (weir__breaker_phase_override(phase) != override) {
    uint64_t from = phase;
    uint64_t to = phase_overridden(phase, override);
    if (weir__breaker_phase_exchange(breaker, &phase, to)) {
      view_change(view, from, to, wait_ns);
      return;
    }
  }
  view_write(view, phase, WEIR_BREAKER_REFUSAL_NONE, wait_ns);
}
