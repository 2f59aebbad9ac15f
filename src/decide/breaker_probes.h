/* breaker_probes – the places that calls take while a breaker is HALF_OPEN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_PROBES_H
#define WEIR_SRC_DECIDE_BREAKER_PROBES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/decide/breaker.h"

struct weir__breaker_place {
  _Atomic uint64_t claim;         /* generation, claim number and status, see breaker_probes.c */
  _Atomic int64_t leased_from_ns; /* written before the claim that it is for */
};

enum weir__breaker_claim {
  WEIR__BREAKER_CLAIM_TAKEN,
  WEIR__BREAKER_CLAIM_OCCUPIED, /* as many are as there may be */
  WEIR__BREAKER_CLAIM_OUTDATED, /* the half-open period is over, or the numbers have changed */
  /* as many have succeeded as it takes by now, since it takes fewer than before */
  WEIR__BREAKER_CLAIM_ENOUGH
};

/* Takes a place for a call, in `phase`, which is HALF_OPEN; or says in how long the first lease
 * ends: 0 when none runs. */
enum weir__breaker_claim weir__breaker_probe_claim(weir_breaker *breaker, uint64_t phase,
                                                   int64_t now_ns,
                                                   struct weir_breaker_ticket *ticket_out,
                                                   int64_t *next_probe_in_ns_out);

/* Uses the place up, or gives it back. False: the ticket holds it no more. */
bool weir__breaker_probe_succeed(weir_breaker *breaker, const struct weir_breaker_ticket *ticket);
bool weir__breaker_probe_return(weir_breaker *breaker, const struct weir_breaker_ticket *ticket);

/* Whether the ticket's place has not become another's. */
bool weir__breaker_probe_is_own(const weir_breaker *breaker,
                                const struct weir_breaker_ticket *ticket);

/* Whether as many of `generation` have succeeded as it takes. */
bool weir__breaker_probes_all_succeeded(const weir_breaker *breaker, uint64_t generation);

struct weir__breaker_probes_view {
  bool all_taken;  /* a call would find no place */
  int64_t wait_ns; /* as weir__breaker_probe_claim */
};

struct weir__breaker_probes_view weir__breaker_probes_look(const weir_breaker *breaker,
                                                           uint64_t generation, int64_t now_ns);

#endif /* WEIR_SRC_DECIDE_BREAKER_PROBES_H */
