/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <string.h>

#include "src/decide/breaker.h"
#include "src/decide/breaker_phase.h"
#include "src/decide/breaker_probes.h"
#include "src/decide/breaker_time.h"
#include "src/decide/breaker_window.h"

#define WHOLE_MILLI 1000

/* What a call would be told that came now; of a ramp, that it may get through. */
static enum weir_breaker_refusal refusal_of(const weir_breaker *breaker, uint64_t phase,
                                            int64_t now_ns, int64_t wait_ns) {
  switch (weir__breaker_phase_stage(phase)) {
  case WEIR__BREAKER_STAGE_CLOSED:
  case WEIR__BREAKER_STAGE_RAMP_BEGINS:
  case WEIR__BREAKER_STAGE_RAMP:
  case WEIR__BREAKER_STAGE_DISABLED:
    break;
  case WEIR__BREAKER_STAGE_OPENING:
  case WEIR__BREAKER_STAGE_OPEN:
    return wait_ns > 0 ? WEIR_BREAKER_REFUSAL_OPEN : WEIR_BREAKER_REFUSAL_NONE;
  case WEIR__BREAKER_STAGE_HALF_OPEN:
    return weir__breaker_probes_look(breaker, weir__breaker_phase_generation(phase), now_ns)
                   .all_taken
               ? WEIR_BREAKER_REFUSAL_PROBES_TAKEN
               : WEIR_BREAKER_REFUSAL_NONE;
  case WEIR__BREAKER_STAGE_FORCED_OPEN:
    return WEIR_BREAKER_REFUSAL_FORCED_OPEN;
  }
  return WEIR_BREAKER_REFUSAL_NONE;
}

struct weir_breaker_view weir_breaker_look(const weir_breaker *breaker, int64_t now_ns) {
  uint64_t phase = weir__breaker_phase_load(breaker);
  int64_t wait_ns = weir__breaker_wait_ns(breaker, phase, now_ns);
  return (struct weir_breaker_view){
      .state = weir__breaker_phase_state(phase),
      .refusal = refusal_of(breaker, phase, now_ns, wait_ns),
      .generation = weir__breaker_phase_generation(phase),
      .next_probe_in_ns = wait_ns,
  };
}

/* Rounded down, but never to nothing: a ramp lets some through. */
static uint32_t share_milli(const weir_breaker *breaker, uint64_t phase, int64_t now_ns) {
  switch (weir__breaker_phase_stage(phase)) {
  case WEIR__BREAKER_STAGE_CLOSED:
  case WEIR__BREAKER_STAGE_DISABLED:
    return WHOLE_MILLI;
  case WEIR__BREAKER_STAGE_RAMP_BEGINS:
  case WEIR__BREAKER_STAGE_RAMP:
    return (uint32_t)(weir__breaker_ramp_share(breaker, weir__breaker_ramp_for_ns(breaker->rules),
                                               phase, now_ns) *
                      WHOLE_MILLI);
  case WEIR__BREAKER_STAGE_OPENING:
  case WEIR__BREAKER_STAGE_OPEN:
  case WEIR__BREAKER_STAGE_HALF_OPEN:
  case WEIR__BREAKER_STAGE_FORCED_OPEN:
    break;
  }
  return 0;
}

/* Relaxed: a statistic stands on its own. */
static uint64_t statistic_read(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void snapshot_fill(const weir_breaker *breaker, int64_t now_ns,
                          struct weir_breaker_snapshot *snapshot_out) {
  uint64_t phase = weir__breaker_phase_load(breaker);
  memset(snapshot_out, 0, sizeof *snapshot_out);
  snapshot_out->size = sizeof *snapshot_out;
  snapshot_out->state = weir__breaker_phase_state(phase);
  snapshot_out->generation = weir__breaker_phase_generation(phase);
  snapshot_out->override = weir__breaker_phase_override(phase);
  snapshot_out->n_trips = statistic_read(&breaker->n_trips);
  snapshot_out->n_probes = statistic_read(&breaker->n_probes);
  weir__breaker_refusals_read(breaker, &snapshot_out->n_refused, &snapshot_out->n_shadowed);
  snapshot_out->admitted_share_milli = share_milli(breaker, phase, now_ns);
  if (snapshot_out->state == WEIR_BREAKER_CLOSED) {
    struct weir__breaker_grid grid = weir__breaker_grid_of(breaker->rules);
    struct weir__breaker_sum sum =
        weir__breaker_window_sum(breaker, &grid, snapshot_out->generation, now_ns);
    snapshot_out->n_requests = sum.n_requests;
    snapshot_out->n_failures = sum.n_failures;
  }
  if (snapshot_out->state == WEIR_BREAKER_OPEN) {
    snapshot_out->next_probe_in_ns = weir__breaker_wait_ns(breaker, phase, now_ns);
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
