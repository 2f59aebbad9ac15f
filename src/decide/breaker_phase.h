/* breaker_phase – the word that is a breaker's state: generation, reopenings, stage.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_PHASE_H
#define WEIR_SRC_DECIDE_BREAKER_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/decide/breaker.h"

/* Generation (42 bits), reopenings since it was last closed for good (19 bits), stage (3 bits).
 * Where it is CLOSED or DISABLED, there are none; in their place is in how many generations before
 * this one it was so, too, without a break. */
#define WEIR__BREAKER_STAGE_BITS 3
#define WEIR__BREAKER_REOPENINGS_BITS 19
#define WEIR__BREAKER_MAX_REOPENINGS ((UINT64_C(1) << WEIR__BREAKER_REOPENINGS_BITS) - 1)

/* OPENING and RAMP_BEGINS are OPEN and RAMP, but the thread that made the change has yet to write
 * at_ns. A change from one of them to the other, and the end of a ramp, start no generation. */
enum weir__breaker_stage {
  WEIR__BREAKER_STAGE_CLOSED = 0,
  WEIR__BREAKER_STAGE_RAMP_BEGINS,
  WEIR__BREAKER_STAGE_RAMP,
  WEIR__BREAKER_STAGE_OPENING,
  WEIR__BREAKER_STAGE_OPEN,
  WEIR__BREAKER_STAGE_HALF_OPEN,
  WEIR__BREAKER_STAGE_FORCED_OPEN,
  WEIR__BREAKER_STAGE_DISABLED
};

static inline uint64_t weir__breaker_phase_make(uint64_t generation, uint64_t reopenings,
                                                enum weir__breaker_stage stage) {
  return (generation << (WEIR__BREAKER_REOPENINGS_BITS + WEIR__BREAKER_STAGE_BITS)) |
         (reopenings << WEIR__BREAKER_STAGE_BITS) | (uint64_t)stage;
}

static inline uint64_t weir__breaker_phase_generation(uint64_t phase) {
  return phase >> (WEIR__BREAKER_REOPENINGS_BITS + WEIR__BREAKER_STAGE_BITS);
}

static inline uint64_t weir__breaker_phase_reopenings(uint64_t phase) {
  return (phase >> WEIR__BREAKER_STAGE_BITS) & WEIR__BREAKER_MAX_REOPENINGS;
}

static inline enum weir__breaker_stage weir__breaker_phase_stage(uint64_t phase) {
  return (enum weir__breaker_stage)(phase & ((1U << WEIR__BREAKER_STAGE_BITS) - 1));
}

static inline enum weir_breaker_state weir__breaker_phase_state(uint64_t phase) {
  switch (weir__breaker_phase_stage(phase)) {
  case WEIR__BREAKER_STAGE_CLOSED:
  case WEIR__BREAKER_STAGE_RAMP_BEGINS:
  case WEIR__BREAKER_STAGE_RAMP:
  case WEIR__BREAKER_STAGE_DISABLED:
    break;
  case WEIR__BREAKER_STAGE_OPENING:
  case WEIR__BREAKER_STAGE_OPEN:
  case WEIR__BREAKER_STAGE_FORCED_OPEN:
    return WEIR_BREAKER_OPEN;
  case WEIR__BREAKER_STAGE_HALF_OPEN:
    return WEIR_BREAKER_HALF_OPEN;
  }
  return WEIR_BREAKER_CLOSED;
}

static inline enum weir_breaker_override weir__breaker_phase_override(uint64_t phase) {
  enum weir__breaker_stage stage = weir__breaker_phase_stage(phase);
  if (stage == WEIR__BREAKER_STAGE_FORCED_OPEN) {
    return WEIR_BREAKER_OVERRIDE_OPEN;
  }
  return stage == WEIR__BREAKER_STAGE_DISABLED ? WEIR_BREAKER_OVERRIDE_DISABLED
                                               : WEIR_BREAKER_OVERRIDE_NONE;
}

/* The first generation from which on no call was refused, up to this one, that admits. */
static inline uint64_t weir__breaker_phase_unbroken_since(uint64_t phase) {
  enum weir__breaker_stage stage = weir__breaker_phase_stage(phase);
  bool counts = stage == WEIR__BREAKER_STAGE_CLOSED || stage == WEIR__BREAKER_STAGE_DISABLED;
  return weir__breaker_phase_generation(phase) -
         (counts ? weir__breaker_phase_reopenings(phase) : 0);
}

/* Acquire: with the phase comes what was written before it, which is at_ns. */
static inline uint64_t weir__breaker_phase_load(const weir_breaker *breaker) {
  return atomic_load_explicit(&breaker->phase, memory_order_acquire);
}

/* False: another thread was first, and `*from` is what it left. */
static inline bool weir__breaker_phase_exchange(weir_breaker *breaker, uint64_t *from,
                                                uint64_t to) {
  return atomic_compare_exchange_strong_explicit(&breaker->phase, from, to, memory_order_acq_rel,
                                                 memory_order_acquire);
}

#endif /* WEIR_SRC_DECIDE_BREAKER_PHASE_H */
