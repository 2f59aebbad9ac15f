/* SPDX-License-Identifier: Apache-2.0 */
#include "src/decide/breaker_time.h"

#include <stdatomic.h>

#include "src/decide/breaker_numbers.h"
#include "src/decide/breaker_phase.h"
#include "src/decide/breaker_probes.h"
#include "src/time/instant.h"

/* A tenth of the calls is enough to see whether the peer can bear them, and little if not. */
#define RAMP_FIRST_SHARE 0.1

#define CHANCE_UNIT 0x1p-32

static int64_t since_load(const weir_breaker *breaker) {
  /* acquire: for the second look at the phase in weir__breaker_since_ns */
  return atomic_load_explicit(&breaker->since_ns, memory_order_acquire);
}

/* As the phase is read after `old_ns` was, that is of this phase, and whoever writes for a later
 * one finds it changed or changes it. */
int64_t weir__breaker_since_ns(weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  int64_t old_ns = since_load(breaker);
  if (old_ns <= weir__instant_add(now_ns, WEIR__BREAKER_CLOCK_STEP_NS)) {
    return old_ns;
  }
  if (weir__breaker_phase_load(breaker) == phase) {
    (void)atomic_compare_exchange_strong_explicit(&breaker->since_ns, &old_ns, now_ns,
                                                  memory_order_relaxed, memory_order_relaxed);
  }
  return now_ns;
}

static int64_t whole_ns(double span_ns) {
  return span_ns < 0x1p63 ? (int64_t)span_ns : WEIR_NO_LIMIT_NS;
}

static double grown_span_ns(const struct weir__breaker_opening *opening, uint64_t reopenings) {
  double span_ns = opening->open_for_ns;
  double factor = opening->backoff;
  for (uint64_t power = reopenings; power > 0 && span_ns < opening->max_open_for_ns; power >>= 1) {
    if ((power & 1) != 0) {
      span_ns *= factor;
    }
    factor *= factor; /* infinity is as good: the cap is below it */
  }
  return span_ns < opening->max_open_for_ns ? span_ns : opening->max_open_for_ns;
}

int64_t weir__breaker_open_time_ns(const struct weir__breaker_opening *opening, uint64_t reopenings,
                                   uint32_t chance) {
  double span_ns = grown_span_ns(opening, reopenings);
  span_ns *= 1.0 + opening->jitter * (2.0 * CHANCE_UNIT * (double)chance - 1.0);
  return whole_ns(span_ns);
}

/* From `since_ns` on. */
static int64_t open_rest_ns(const weir_breaker *breaker,
                            const struct weir__breaker_opening *opening, uint64_t phase,
                            int64_t since_ns, int64_t now_ns) {
  /* relaxed: published with since_ns */
  uint32_t chance = atomic_load_explicit(&breaker->chance, memory_order_relaxed);
  int64_t open_ns =
      weir__breaker_open_time_ns(opening, weir__breaker_phase_reopenings(phase), chance);
  return weir__instant_remaining(weir__instant_add(since_ns, open_ns), now_ns);
}

int64_t weir__breaker_open_wait_ns(weir_breaker *breaker,
                                   const struct weir__breaker_opening *opening, uint64_t phase,
                                   int64_t now_ns) {
  if (weir__breaker_phase_stage(phase) == WEIR__BREAKER_STAGE_OPENING) {
    return whole_ns(opening->open_for_ns);
  }
  int64_t since_ns = weir__breaker_since_ns(breaker, phase, now_ns);
  return open_rest_ns(breaker, opening, phase, since_ns, now_ns);
}

double weir__breaker_ramp_share(const weir_breaker *breaker, int64_t ramp_for_ns, uint64_t phase,
                                int64_t now_ns) {
  if (weir__breaker_phase_stage(phase) != WEIR__BREAKER_STAGE_RAMP) {
    return RAMP_FIRST_SHARE;
  }
  int64_t elapsed_ns = weir__instant_remaining(now_ns, since_load(breaker));
  if (elapsed_ns >= ramp_for_ns) {
    return 1.0;
  }
  return RAMP_FIRST_SHARE + (1.0 - RAMP_FIRST_SHARE) * ((double)elapsed_ns / (double)ramp_for_ns);
}

int64_t weir__breaker_wait_ns(const weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  struct weir__breaker_opening opening;
  switch (weir__breaker_phase_stage(phase)) {
  case WEIR__BREAKER_STAGE_CLOSED:
  case WEIR__BREAKER_STAGE_RAMP_BEGINS:
  case WEIR__BREAKER_STAGE_RAMP:
  case WEIR__BREAKER_STAGE_DISABLED:
    break;
  case WEIR__BREAKER_STAGE_OPENING:
    opening = weir__breaker_opening_of(breaker->rules);
    return whole_ns(opening.open_for_ns);
  case WEIR__BREAKER_STAGE_OPEN:
    opening = weir__breaker_opening_of(breaker->rules);
    return open_rest_ns(breaker, &opening, phase, since_load(breaker), now_ns);
  case WEIR__BREAKER_STAGE_HALF_OPEN:
    return weir__breaker_probes_look(breaker, weir__breaker_phase_generation(phase), now_ns)
        .wait_ns;
  case WEIR__BREAKER_STAGE_FORCED_OPEN:
    return WEIR_NO_LIMIT_NS;
  }
  return 0;
}
