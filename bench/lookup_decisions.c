/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/decisions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/breaker.h>

#include "bench/counted_memory.h"
#include "bench/require.h"
#include "src/decide/breaker_registry.h"

#define SERIES 1000
#define N_FEW 10
#define N_MANY 10000
#define PATH_BYTES 48
#define NOW_NS INT64_C(1000000000)

struct lookup {
  struct weir__breaker_registry registry;
  size_t n_used; /* of the paths */
  size_t next;   /* of the order in which they are used */
  char (*paths)[PATH_BYTES];
  size_t *path_sizes;
  uint32_t *order;
};

/* --- look-ups --- */

/* Any order that no processor foresees, the same in each run. */
static void shuffle(uint32_t *order, size_t length) {
  uint64_t state = 88172645463325252;
  for (size_t i = length; i > 1; i--) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    size_t other = state % i;
    uint32_t kept = order[i - 1];
    order[i - 1] = order[other];
    order[other] = kept;
  }
}

/* An unknown path is one that nobody has named before it was called. */
enum named { UNKNOWN = 0, KNOWN };

static void lookup_add(struct lookup *lookup, size_t i, enum named named) {
  struct weir__breaker_entry *entry = NULL;
  int size = snprintf(lookup->paths[i], sizeof lookup->paths[i], "/bench.Service%03zu/Method%02zu",
                      i / 100, i % 100);
  lookup->path_sizes[i] = (size_t)size;
  require(named == UNKNOWN || weir__breaker_registry_know(&lookup->registry, lookup->paths[i],
                                                          (size_t)size, &entry) == WEIR_OK,
          "no memory");
  (void)weir__breaker_registry_enter(&lookup->registry, lookup->paths[i], (size_t)size, NOW_NS);
}

static struct lookup *lookup_new(size_t n_breakers, size_t n_used, enum named named) {
  struct lookup *lookup = require_memory(1, sizeof *lookup);
  lookup->paths = require_memory(n_breakers, sizeof *lookup->paths);
  lookup->path_sizes = require_memory(n_breakers, sizeof *lookup->path_sizes);
  lookup->order = require_memory(n_used, sizeof *lookup->order);
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  options.scope = WEIR_BREAKER_SCOPE_METHOD;
  options.max_breakers = N_MANY;
  require(weir__breaker_registry_init(&lookup->registry, &options, &counted_memory) == WEIR_OK,
          "no registry");
  require(named == UNKNOWN || weir__breaker_registry_expect(&lookup->registry, n_breakers),
          "no memory");
  for (size_t i = 0; i < n_breakers; i++) {
    lookup_add(lookup, i, named);
  }
  require(weir__breaker_registry_n_breakers(&lookup->registry) == n_breakers,
          "not every path has a breaker of its own");
  lookup->n_used = n_used;
  for (size_t i = 0; i < n_used; i++) {
    lookup->order[i] = (uint32_t)(i * (n_breakers / n_used));
  }
  shuffle(lookup->order, n_used);
  return lookup;
}

static void lookup_free(void *state) {
  struct lookup *lookup = state;
  weir__breaker_registry_fini(&lookup->registry);
  free(lookup->order);
  free(lookup->path_sizes);
  free(lookup->paths);
  free(lookup);
}

static void *setup_10(void) {
  return lookup_new(N_FEW, N_FEW, UNKNOWN);
}

static void *setup_10_known(void) {
  return lookup_new(N_FEW, N_FEW, KNOWN);
}

static void *setup_10000_use_10(void) {
  return lookup_new(N_MANY, N_FEW, UNKNOWN);
}

static void *setup_10000_known_use_10(void) {
  return lookup_new(N_MANY, N_FEW, KNOWN);
}

static void *setup_10000_use_all(void) {
  return lookup_new(N_MANY, N_MANY, UNKNOWN);
}

static void run_lookup(void *state, uint32_t n_times) {
  struct lookup *lookup = state;
  uint32_t n_found = 0;
  for (uint32_t i = 0; i < n_times; i++) {
    uint32_t which = lookup->order[lookup->next];
    lookup->next = lookup->next + 1 < lookup->n_used ? lookup->next + 1 : 0;
    n_found += weir__breaker_registry_enter(&lookup->registry, lookup->paths[which],
                                            lookup->path_sizes[which], NOW_NS) != NULL;
  }
  require(n_found == n_times, "a path without a breaker");
}

const struct operation registry_lookup_10 = {
    .name = "registry.lookup_10",
    .series_length = SERIES,
    .setup = setup_10,
    .run = run_lookup,
    .teardown = lookup_free,
};

const struct operation registry_lookup_10000_use_10 = {
    .name = "registry.lookup_10000",
    .series_length = SERIES,
    .setup = setup_10000_use_10,
    .run = run_lookup,
    .teardown = lookup_free,
};

const struct operation registry_lookup_10_known = {
    .name = "registry.lookup_10_known",
    .series_length = SERIES,
    .setup = setup_10_known,
    .run = run_lookup,
    .teardown = lookup_free,
};

const struct operation registry_lookup_10000_known_use_10 = {
    .name = "registry.lookup_10000_known",
    .series_length = SERIES,
    .setup = setup_10000_known_use_10,
    .run = run_lookup,
    .teardown = lookup_free,
};

const struct operation registry_lookup_10000_use_all = {
    .name = "registry.lookup_10000_all",
    .series_length = SERIES,
    .setup = setup_10000_use_all,
    .run = run_lookup,
    .teardown = lookup_free,
};

static size_t bytes_10000(enum named named) {
  size_t before = counted_memory_n_bytes();
  struct lookup *lookup = lookup_new(N_MANY, N_FEW, named);
  size_t taken = counted_memory_n_bytes() - before;
  lookup_free(lookup);
  require(counted_memory_n_bytes() == before, "a registry keeps memory");
  return taken;
}

size_t registry_bytes_10000(void) {
  return bytes_10000(UNKNOWN);
}

size_t registry_bytes_10000_known(void) {
  return bytes_10000(KNOWN);
}
