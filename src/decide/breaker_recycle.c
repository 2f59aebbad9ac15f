/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "src/decide/breaker.h"
#include "src/decide/breaker_phase.h"
#include "src/decide/breaker_streak.h"
#include "src/decide/breaker_window.h"

bool weir__breaker_recycle(weir_breaker *breaker, int64_t now_ns) {
  uint64_t phase = weir__breaker_phase_load(breaker);
  uint64_t generation = weir__breaker_phase_generation(phase);
  struct weir__breaker_grid grid = weir__breaker_grid_of(breaker->rules);
  if (weir__breaker_phase_stage(phase) != WEIR__BREAKER_STAGE_CLOSED ||
      weir__breaker_streak_is_of(breaker, generation) ||
      weir__breaker_window_sum(breaker, &grid, generation, now_ns).n_requests != 0 ||
      !weir__breaker_phase_exchange(
          breaker, &phase,
          weir__breaker_phase_make(generation + 1, 0, WEIR__BREAKER_STAGE_CLOSED))) {
    return false;
  }
  /* Relaxed: statistics. */
  atomic_store_explicit(&breaker->n_trips, 0, memory_order_relaxed);
  atomic_store_explicit(&breaker->n_probes, 0, memory_order_relaxed);
  weir__breaker_refusals_clear(breaker);
  return true;
}
