/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker.h"

#include <stdatomic.h>
#include <string.h>

#include "src/base/random.h"
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

/* Writes at_ns for a change that this thread has made, and then says that it is there. An override
 * may come in between, and even further changes with an at_ns of their own: `old` was read before
 * the phase was seen to be still this thread's, so if it is still there, no other has been
 * written. (Acquire, so that it is read before. The
 * phase's exchange publishes at_ns.) */
static void phase_publish(weir_breaker *breaker, uint64_t begun, enum weir__breaker_stage stage,
                          int64_t at_ns) {
  int64_t old = atomic_load_explicit(&breaker->at_ns, memory_order_acquire);
  while (weir__breaker_phase_load(breaker) == begun) {
    if (atomic_compare_exchange_strong_explicit(&breaker->at_ns, &old, at_ns, memory_order_acquire,
                                                memory_order_acquire)) {
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
static uint64_t reopenings_after(const weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  enum weir__breaker_stage stage = weir__breaker_phase_stage(phase);
  bool again =
      stage == WEIR__BREAKER_STAGE_HALF_OPEN || stage == WEIR__BREAKER_STAGE_RAMP_BEGINS ||
      (stage == WEIR__BREAKER_STAGE_RAMP && weir__breaker_ramp_share(breaker, phase, now_ns) < 1.0);
  uint64_t reopenings = weir__breaker_phase_reopenings(phase);
  if (!again) {
    return 0;
  }
  return reopenings < WEIR__BREAKER_MAX_REOPENINGS ? reopenings + 1 : reopenings;
}

/* Opens what is in `phase`, a stage that admits. In the same generation a ramp may begin or end
 * meanwhile, which is no reason not to. */
static void breaker_open(weir_breaker *breaker, uint64_t phase, int64_t now_ns,
                         const struct weir_random *random, struct weir_breaker_view *view_out) {
  uint64_t generation = weir__breaker_phase_generation(phase);
  double chance = weir__random_unit(weir__random_or_default(random));
  do {
    uint64_t reopenings = reopenings_after(breaker, phase, now_ns);
    int64_t open_ns = weir__breaker_open_time_ns(breaker->rules, reopenings, chance);
    uint64_t from = phase;
    uint64_t to = weir__breaker_phase_make(generation + 1, reopenings, WEIR__BREAKER_STAGE_OPENING);
    if (weir__breaker_phase_exchange(breaker, &phase, to)) {
      phase_publish(breaker, to, WEIR__BREAKER_STAGE_OPEN, weir__instant_add(now_ns, open_ns));
      statistic_increment(&breaker->n_trips);
      view_change(view_out, from, to, open_ns);
      return;
    }
  } while (weir__breaker_phase_generation(phase) == generation);
  view_present(breaker, now_ns, view_out);
}

/* Closes what is HALF_OPEN in `phase`. */
static void breaker_close(weir_breaker *breaker, uint64_t phase, int64_t now_ns,
                          struct weir_breaker_view *view_out) {
  bool ramp = breaker->rules->options.ramp_for_ns > 0;
  uint64_t from = phase;
  uint64_t to = weir__breaker_phase_make(
      weir__breaker_phase_generation(phase) + 1, ramp ? weir__breaker_phase_reopenings(phase) : 0,
      ramp ? WEIR__BREAKER_STAGE_RAMP_BEGINS : WEIR__BREAKER_STAGE_CLOSED);
  if (!weir__breaker_phase_exchange(breaker, &phase, to)) {
    view_present(breaker, now_ns, view_out);
    return;
  }
  if (ramp) {
    phase_publish(breaker, to, WEIR__BREAKER_STAGE_RAMP, now_ns);
  }
  view_change(view_out, from, to, 0);
}

/* What a call that asks is given. */
struct answer {
  struct weir_breaker_ticket *ticket;
  struct weir_breaker_view *view;
  uint64_t changed_to; /* the phase that this call has made HALF_OPEN; 0 = none */
};

/* A view that tells of a change tells of that generation, even if this call was then answered in
 * the next. */
static enum weir_admission answer(const struct answer *answer, uint64_t phase,
                                  enum weir_breaker_refusal refusal, int64_t next_probe_in_ns,
                                  enum weir_admission admission) {
  view_write(answer->view, answer->changed_to != 0 ? answer->changed_to : phase, refusal,
             next_probe_in_ns);
  answer->view->changed = answer->changed_to != 0;
  answer->view->changed_from = answer->view->changed ? WEIR_BREAKER_OPEN : WEIR_BREAKER_CLOSED;
  return admission;
}

static enum weir_admission refuse(weir_breaker *breaker, const struct answer *to, uint64_t phase,
                                  int64_t now_ns, enum weir_breaker_refusal refusal,
                                  int64_t next_probe_in_ns) {
  bool shadow = breaker->rules->options.mode == WEIR_BREAKER_MODE_SHADOW &&
                refusal != WEIR_BREAKER_REFUSAL_FORCED_OPEN;
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
  weir__breaker_time_recover(breaker, phase, now_ns);
  double share = weir__breaker_ramp_share(breaker, phase, now_ns);
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

/* What is OPEN in `phase` and whose time is over becomes HALF_OPEN. False: this call has done so
 * once already, and then came too late for a place and found it open again. A view tells of one
 * change only. */
static bool half_open(weir_breaker *breaker, struct answer *to, uint64_t phase) {
  uint64_t next = weir__breaker_phase_make(weir__breaker_phase_generation(phase) + 1,
                                           weir__breaker_phase_reopenings(phase),
                                           WEIR__BREAKER_STAGE_HALF_OPEN);
  if (to->changed_to != 0) {
    return false;
  }
  if (weir__breaker_phase_exchange(breaker, &phase, next)) {
    to->changed_to = next;
  }
  return true;
}

/* Every turn of the loop but the last is another thread's, or this one's, change of state. */
static enum weir_admission admit_unless_closed(weir_breaker *breaker, struct answer *to,
                                               uint64_t phase, int64_t now_ns,
                                               const struct weir_random *random) {
  for (;; phase = weir__breaker_phase_load(breaker)) {
    int64_t wait_ns = 0;
    switch (weir__breaker_phase_stage(phase)) {
    case WEIR__BREAKER_STAGE_CLOSED:
      return admit_while_closed(to, phase);
    case WEIR__BREAKER_STAGE_RAMP_BEGINS:
    case WEIR__BREAKER_STAGE_RAMP:
      return admit_in_ramp(breaker, to, phase, now_ns, random);
    case WEIR__BREAKER_STAGE_OPENING:
    case WEIR__BREAKER_STAGE_OPEN:
      wait_ns = weir__breaker_open_wait_ns(breaker, phase, now_ns);
      if (wait_ns > 0 || !half_open(breaker, to, phase)) {
        return refuse(breaker, to, phase, now_ns, WEIR_BREAKER_REFUSAL_OPEN, wait_ns);
      }
      break;
    case WEIR__BREAKER_STAGE_HALF_OPEN:
      switch (weir__breaker_probe_claim(breaker, phase, now_ns, to->ticket, &wait_ns)) {
      case WEIR__BREAKER_CLAIM_OUTDATED:
        break;
      case WEIR__BREAKER_CLAIM_OCCUPIED:
        return refuse(breaker, to, phase, now_ns, WEIR_BREAKER_REFUSAL_PROBES_TAKEN, wait_ns);
      case WEIR__BREAKER_CLAIM_TAKEN:
        statistic_increment(&breaker->n_probes);
        return answer(to, phase, WEIR_BREAKER_REFUSAL_NONE, 0, WEIR_ADMISSION_PROCEED);
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

enum weir_admission weir_breaker_admit(weir_breaker *breaker, int64_t now_ns,
                                       const struct weir_random *random,
                                       struct weir_breaker_ticket *ticket_out,
                                       struct weir_breaker_view *view_out) {
  struct answer to = {ticket_out, view_out, 0};
  uint64_t phase = weir__breaker_phase_load(breaker);
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_CLOSED) {
    return admit_while_closed(&to, phase);
  }
  return admit_unless_closed(breaker, &to, phase, now_ns, random);
}

static bool window_trips(const weir_breaker *breaker, uint64_t generation, int64_t now_ns) {
  const struct weir_breaker_options *options = &breaker->rules->options;
  struct weir__breaker_sum sum = weir__breaker_window_sum(breaker, generation, now_ns);
  /* The quotient, not a product: both sides are then the nearest double, and an exact 3 of 5
   * equals 0.6. */
  return sum.n_requests >= options->min_requests &&
         (double)sum.n_failures / (double)sum.n_requests >= options->failure_ratio;
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
  bool opens = false;
  if (ticket->place == WEIR_BREAKER_NO_PLACE) {
    weir__breaker_count_failure(breaker, ticket->generation, now_ns);
    bool streak_trips = weir__breaker_streak_grow(breaker, ticket->generation);
    opens = streak_trips || window_trips(breaker, ticket->generation, now_ns);
  } else {
    /* The place is not given back first: another call would be let through between that and the
     * opening. */
    opens = weir__breaker_probe_is_own(breaker, ticket);
  }
  if (opens) {
    breaker_open(breaker, phase, now_ns, random, view_out);
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

bool weir_breaker_still_admits(const weir_breaker *breaker,
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
  if (breaker->rules->options.mode == WEIR_BREAKER_MODE_SHADOW) {
    return true;
  }
  return weir__breaker_phase_state(phase) == WEIR_BREAKER_CLOSED &&
         (ticket->stage == WEIR_BREAKER_TICKET_SPENT ||
          weir__breaker_phase_generation(phase) == ticket->generation);
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

void weir_breaker_set_override(weir_breaker *breaker, enum weir_breaker_override override,
                               struct weir_breaker_view *view_out) {
  struct weir_breaker_view unseen;
  struct weir_breaker_view *view = view_out != NULL ? view_out : &unseen;
  int64_t wait_ns = override == WEIR_BREAKER_OVERRIDE_OPEN ? WEIR_NO_LIMIT_NS : 0;
  uint64_t phase = weir__breaker_phase_load(breaker);
  while (weir__breaker_phase_override(phase) != override) {
    uint64_t from = phase;
    uint64_t to =
        weir__breaker_phase_make(weir__breaker_phase_generation(phase) + 1, 0, stage_of(override));
    if (weir__breaker_phase_exchange(breaker, &phase, to)) {
      view_change(view, from, to, wait_ns);
      return;
    }
  }
  view_write(view, phase, WEIR_BREAKER_REFUSAL_NONE, wait_ns);
}
