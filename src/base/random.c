/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/random.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/random.h>

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): one word
 * of state, any seed. */
#define SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

struct generator {
  uint64_t state;
  unsigned forks_seen;
  bool seeded;
};

static _Thread_local struct generator thread_generator;
static atomic_uint
    n_forks; /* in this process's ancestry since the first use; a child counts its own */
static pthread_once_t fork_hook_once = PTHREAD_ONCE_INIT;

static void count_fork(void) {
  /* relaxed: the child has one thread, so there is nothing to order with */
  atomic_fetch_add_explicit(&n_forks, 1, memory_order_relaxed);
}

static void install_fork_hook(void) {
  (void)pthread_atfork(NULL, NULL, count_fork);
}

static void generator_seed(struct generator *generator, unsigned forks) {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
    seed = (uint64_t)(uintptr_t)
        generator; /* only before the system's pool is ready; still differs by thread */
  }
  generator->state += seed;
  generator->forks_seen = forks;
  generator->seeded = true;
}

static uint64_t thread_next(void *context) {
  (void)context;
  struct generator *generator = &thread_generator;
  unsigned forks = atomic_load_explicit(&n_forks, memory_order_relaxed);
  if (!generator->seeded || generator->forks_seen != forks) {
    (void)pthread_once(&fork_hook_once, install_fork_hook);
    generator_seed(generator, forks);
  }
  uint64_t z = (generator->state += SPLITMIX_STEP);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static const struct weir_random thread_random = {
    .size = sizeof(struct weir_random),
    .next = thread_next,
    .context = NULL,
};

const struct weir_random *weir__random_or_default(const struct weir_random *random) {
  return random != NULL ? random : &thread_random;
}

double weir__random_unit(const struct weir_random *random) {
  return (double)(random->next(random->context) >> 11) * 0x1p-53;
}
