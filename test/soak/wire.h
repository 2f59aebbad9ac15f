/* wire – a channel of weir's to a proxy, and the policy that it goes by, while others swap it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_WIRE_H
#define WEIR_TEST_SOAK_WIRE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "test/soak/ledger.h"
#include "test/soak/plan.h"
#include "test/soak/policies.h"

struct wire {
  weir_channel *channel;
  const struct policy_facts *list;
  size_t n_policies;
  weir_policy **policies;
  void *registered[PLAN_N_SHAPES]; /* methods, by shape */
  _Atomic uint64_t swaps;          /* twice each: odd = under way */
  _Atomic size_t current;
  _Atomic uint64_t n_swapped;
  struct weir_breaker_listener listener;
  _Atomic uint64_t n_trips;  /* of its breakers, by what they have seen */
  _Atomic uint64_t n_closed; /* that closed again, by what they have seen */
  pthread_mutex_t mutex;     /* of who swaps */
};

/* To a port of the loopback, by the first policy of the list, over a connection of its own. */
void wire_init(struct wire *wire, int port, const struct policy_facts *list, size_t n_policies,
               const struct weir_fallback *fallback);
void wire_fini(struct wire *wire);

void wire_swap(struct wire *wire, size_t policy);

/* Around the making of a call: which policy it goes by; NULL = it can't be told. */
uint64_t wire_look(struct wire *wire);
const struct policy_facts *wire_policy_since(struct wire *wire, uint64_t looked);

/* Those of its methods, unless they are closed. */
void wire_blame_open_breakers(struct wire *wire, size_t number, enum ledger_who who,
                              struct ledger *ledger);

#endif /* WEIR_TEST_SOAK_WIRE_H */
