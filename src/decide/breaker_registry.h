/* breaker_registry – the circuit breakers of one channel, by method or service, and how many.
 *
 * Their number is bounded: calls beyond it share one more breaker, so that a proxy which calls a
 * million paths neither grows without end nor has calls refused for want of a breaker. Breakers
 * stay until the registry ends, so an OPEN one is never lost. A look-up takes no lock and copies
 * nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_DECIDE_BREAKER_REGISTRY_H
#define WEIR_SRC_DECIDE_BREAKER_REGISTRY_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/breaker.h>
#include <weir/error.h>

#include "src/decide/breaker.h"

struct weir__breaker_entry;

struct weir__breaker_chain {
  struct weir__breaker_entry *_Atomic first;
};

/* Fields are breaker_registry.c's. */
struct weir__breaker_registry {
  weir_breaker *shared; /* the channel's, or the one beyond the bound */
  struct weir__breaker_rules rules;
  const struct weir_allocator *allocator;
  struct weir__breaker_chain *chains; /* NULL with scope CHANNEL */
  uint64_t chain_mask;
  uint64_t seed;
  _Atomic uint32_t n_breakers; /* of their own key; changed under the mutex */
  _Atomic uint64_t n_overflowed;
  pthread_mutex_t insertion; /* writers of chains and n_breakers */
};

/* Makes a registry in the caller's memory. `options` are checked ones. WEIR_ERROR_NO_MEMORY leaves
 * nothing to undo. */
WEIR_MUST_CHECK enum weir_error
weir__breaker_registry_init(struct weir__breaker_registry *registry,
                            const struct weir_breaker_options *options,
                            const struct weir_allocator *allocator);

void weir__breaker_registry_fini(struct weir__breaker_registry *registry);

/* The breaker for a call of `path` ("/pkg.Service/Method", not terminated), made when there is none
 * yet; the shared one when there may be no more, or no memory. Never NULL; borrowed until the
 * registry ends. Any thread. */
weir_breaker *weir__breaker_registry_enter(struct weir__breaker_registry *registry,
                                           const char *path, size_t path_size);

/* The breaker that a call of `path` would go through; NULL when it has none yet. */
const weir_breaker *weir__breaker_registry_find(const struct weir__breaker_registry *registry,
                                                const char *path, size_t path_size);

/* Calls that shared a breaker because there were too many, or no memory for another. */
uint64_t weir__breaker_registry_n_overflowed(const struct weir__breaker_registry *registry);

/* Breakers in use, the shared one not counted. */
uint32_t weir__breaker_registry_n_breakers(const struct weir__breaker_registry *registry);

#endif /* WEIR_SRC_DECIDE_BREAKER_REGISTRY_H */
