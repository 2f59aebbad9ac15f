/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>
#include <unistd.h>

/* SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): one word
 * of state, any seed. It goes through all 2^64 words in one fixed order, so two generators share
 * values only if their seeds lie close together on it: for 2^30 draws each, once in 2^33 pairs. */
#define SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

static uint64_t splitmix_value(uint64_t state) {
  uint64_t z = state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* --- a generator a thread --- */

struct generator {
  uint64_t state;
  unsigned forks_seen;
  bool seeded;
};

static _Thread_local struct generator thread_generator;
/* in this process's ancestry since the first use; a child counts its own */
static atomic_uint n_forks;
static pthread_once_t fork_hook_once = PTHREAD_ONCE_INIT;

static void count_fork(void) {
  /* relaxed: the child has one thread, so there is nothing to order with */
  atomic_fetch_add_explicit(&n_forks, 1, memory_order_relaxed);
}

static void install_fork_hook(void) {
  (void)pthread_atfork(NULL, NULL, count_fork);
}

/* Where the system has nothing to give (a kernel, or a sandbox, without the call): still another in
 * each thread and each process. */
static uint64_t seed_of_last_resort(const struct generator *generator) {
  uint64_t place = (uint64_t)(uintptr_t)generator;
  return splitmix_value(splitmix_value(place) + (uint64_t)getpid());
}

static uint64_t seed_from_system(const struct generator *generator) {
  uint64_t seed = 0;
  ssize_t n_bytes = 0;
  do {
    n_bytes = getrandom(&seed, sizeof seed, 0);
  } while (n_bytes < 0 && errno == EINTR);
  return n_bytes == (ssize_t)sizeof seed ? seed : seed_of_last_resort(generator);
}

static void generator_seed(struct generator *generator, unsigned forks) {
  generator->state += seed_from_system(generator);
  generator->forks_seen = forks;
  generator->seeded = true;
}

static uint64_t thread_next(void *context) {
  (void)context;
  struct generator *generator = &thread_generator;
  /* relaxed: only a fork changes it, and the child of one has this thread alone */
  unsigned forks = atomic_load_explicit(&n_forks, memory_order_relaxed);
  if (!generator->seeded || generator->forks_seen != forks) {
    (void)pthread_once(&fork_hook_once, install_fork_hook);
    generator_seed(generator, forks);
  }
  generator->state += SPLITMIX_STEP;
  return splitmix_value(generator->state);
}

static const struct weir_random thread_random = {
    .size = sizeof(struct weir_random),
    .next = thread_next,
    .context = NULL,
};

const struct weir_random *weir_random_thread(void) {
  return &thread_random;
}

/* --- a sequence from a seed --- */

static uint64_t seeded_next(void *context) {
  struct weir_seeded_random *random = context;
  /* The header's struct is C++ too and can't say _Atomic. Relaxed: the word is all there is. */
  return splitmix_value(__atomic_add_fetch(&random->state, SPLITMIX_STEP, __ATOMIC_RELAXED));
}

void weir_random_seed(struct weir_seeded_random *random, uint64_t seed) {
  random->base = (struct weir_random){
      .size = sizeof(struct weir_random), .next = seeded_next, .context = random};
  random->state = seed; /* 1 and 2 are far apart in the order, as the step is no small fraction */
}

/* --- */

double weir_random_unit(const struct weir_random *random) {
  const struct weir_random *source = weir__random_or_default(random);
  return (double)(source->next(source->context) >> 11) * 0x1p-53;
}
