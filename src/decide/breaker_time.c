/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_time.h"

#include <stdatomic.h>

#include "src/decide/breaker_phase.h"
#include "src/decide/breaker_probes.h"
#include "src/time/instant.h"

/* A tenth of the calls is enough to see whether the peer can bear them, and little if not. */
#define RAMP_FIRST_SHARE 0.1

/* The phase, written after at_ns and read before it, has published it. Should it be a later phase's
 * already, then an exchange of this one fails. Acquire: for at_replace. */
static int64_t at_load(const weir_breaker *breaker) {
  return atomic_load_explicit(&breaker->at_ns, memory_order_acquire);
}

/* For at_ns as it was before the clock was set back. As the phase is read after `old_ns` was, that
 * is of this phase, and whoever writes for a later one finds it changed or changes it. */
static void at_replace(weir_breaker *breaker, uint64_t phase, int64_t old_ns, int64_t at_ns) {
  if (weir__breaker_phase_load(breaker) == phase) {
    (void)atomic_compare_exchange_strong_explicit(&breaker->at_ns, &old_ns, at_ns,
                                                  memory_order_relaxed, memory_order_relaxed);
  }
}

int64_t weir__breaker_open_time_ns(const struct weir__breaker_rules *rules, uint64_t reopenings,
                                   double chance) {
  double cap = (double)rules->options.max_open_for_ns;
  double span = (double)rules->options.open_for_ns;
  double factor = rules->options.open_backoff;
  for (uint64_t power = reopenings; power > 0 && span < cap; power >>= 1) {
    if ((power & 1) != 0) {
      span *= factor;
    }
    factor *= factor; /* infinity is as good: the cap is below it */
  }
  span = span < cap ? span : cap;
  span *= 1.0 + rules->options.open_jitter * (2.0 * chance - 1.0);
  return span < 0x1p63 ? (int64_t)span : WEIR_NO_LIMIT_NS;
}

int64_t weir__breaker_open_again_ns(weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  int64_t longest_ns = breaker->rules->longest_open_ns;
  int64_t until_ns = at_load(breaker);
  if (weir__instant_remaining(until_ns, now_ns) > breaker->rules->longest_wait_ns) {
    at_replace(breaker, phase, until_ns, weir__instant_add(now_ns, longest_ns));
  }
  return longest_ns;
}

double weir__breaker_ramp_share(const weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  int64_t ramp_for_ns = breaker->rules->options.ramp_for_ns;
  if (weir__breaker_phase_stage(phase) != WEIR__BREAKER_STAGE_RAMP) {
    return RAMP_FIRST_SHARE;
  }
  int64_t elapsed_ns = weir__instant_remaining(now_ns, at_load(breaker));
  if (elapsed_ns >= ramp_for_ns) {
    return 1.0;
  }
  return RAMP_FIRST_SHARE + (1.0 - RAMP_FIRST_SHARE) * ((double)elapsed_ns / (double)ramp_for_ns);
}

void weir__breaker_time_recover(weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_RAMP) {
    int64_t since_ns = at_load(breaker);
    if (since_ns > weir__instant_add(now_ns, WEIR__BREAKER_CLOCK_STEP_NS)) {
      at_replace(breaker, phase, since_ns, now_ns);
    }
  }
}

int64_t weir__breaker_wait_ns(const weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  int64_t wait_ns = 0;
  switch (weir__breaker_phase_stage(phase)) {
  case WEIR__BREAKER_STAGE_CLOSED:
  case WEIR__BREAKER_STAGE_RAMP_BEGINS:
  case WEIR__BREAKER_STAGE_RAMP:
  case WEIR__BREAKER_STAGE_DISABLED:
    break;
  case WEIR__BREAKER_STAGE_OPENING:
    return breaker->rules->options.open_for_ns;
  case WEIR__BREAKER_STAGE_OPEN:
    wait_ns = weir__instant_remaining(at_load(breaker), now_ns);
    break;
  case WEIR__BREAKER_STAGE_HALF_OPEN:
    (void)weir__breaker_probes_all_taken(breaker, weir__breaker_phase_generation(phase), now_ns,
                                         &wait_ns);
    break;
  case WEIR__BREAKER_STAGE_FORCED_OPEN:
    return WEIR_NO_LIMIT_NS;
  }
  return wait_ns;
}
