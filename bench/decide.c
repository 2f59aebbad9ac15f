/* What decisions cost: of the breaker, its layer, the registry, the throttle.
 *
 *   decide time ROUNDS             prints "NAME NANOSECONDS" of each operation, and
 *                                  "NAME_2_THREADS RATIO" of some, as timed.h says
 *   decide allocations             prints "NAME N": how often N of them ask for memory
 *   decide bytes                   prints what 10,000 breakers take: of unknown paths, of known ones
 *   decide count SHORT LONG        prints the names of those that are counted, and runs a series of
 *                                  SHORT and one of LONG of each, in that order, for callgrind
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/allocations.h"
#include "bench/decisions.h"
#include "bench/require.h"
#include "bench/timed.h"

#define N_OPERATIONS_MAX 32

/* Longer than any free list or table takes to reach its size. */
#define WARM_UP 2000
#define ALLOCATION_SERIES 800

struct chosen {
  struct operation operations[N_OPERATIONS_MAX];
  size_t n_operations;
};

/* Callgrind is told to begin with nothing where this begins, and to write down where it ends, so it
 * stays a function of its own. */
void series(const struct operation *operation, void *state, uint32_t length);

__attribute__((noinline)) void series(const struct operation *operation, void *state,
                                      uint32_t length) {
  operation->run(state, length);
}

static void choose(struct chosen *chosen, const struct operation *operation) {
  if (operation != NULL) { /* a peer that is not there */
    require(chosen->n_operations < N_OPERATIONS_MAX, "too many operations");
    chosen->operations[chosen->n_operations++] = *operation;
  }
}

/* weir's own, that take as many instructions each time. */
static void choose_own(struct chosen *chosen) {
  choose(chosen, &breaker_admit_settle_without_clock);
  choose(chosen, &breaker_admit_fail);
  choose(chosen, &breaker_refuse);
  choose(chosen, &breaker_layer_admit_settle);
  choose(chosen, &breaker_layer_refuse);
  choose(chosen, &registry_lookup_10);
  choose(chosen, &registry_lookup_10000_use_10);
  choose(chosen, &registry_lookup_10_known);
  choose(chosen, &registry_lookup_10000_known_use_10);
  choose(chosen, &registry_lookup_10000_use_all);
  choose(chosen, &throttle_record);
  choose(chosen, &throttle_record_full);
  choose(chosen, &throttle_record_failure);
  choose(chosen, &backoff_delay);
  choose(chosen, &timer_of_1);
  choose(chosen, &timer_of_1000);
  choose(chosen, &timer_of_100000);
  choose(chosen, &refuse_unary);
  choose(chosen, &refuse_queue);
}

static void run_time(int n_rounds) {
  static const struct operation *const shared[] = {
      &breaker_admit_settle, &breaker_admit_settle_without_clock,
      &breaker_refuse,       &throttle_record,
      &throttle_record_full, &refuse_unary};
  static double ns[N_OPERATIONS_MAX];
  struct chosen chosen = {.n_operations = 0};
  choose_own(&chosen);
  choose(&chosen, &breaker_admit_settle);
  choose(&chosen, &clock_read);
  choose(&chosen, &core_lame);
  choose(&chosen, core_throttle_record());
  choose(&chosen, core_throttle_record_full());
  choose(&chosen, core_throttle_record_failure());
  timed_alone(chosen.operations, chosen.n_operations, n_rounds, ns);
  for (size_t i = 0; i < chosen.n_operations; i++) {
    printf("%s %.2f\n", chosen.operations[i].name, ns[i]);
  }
  for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
    double ratio = 0.0;
    if (timed_two_threads_ratio(shared[i], n_rounds, &ratio)) {
      printf("%s_2_threads %.3f\n", shared[i]->name, ratio);
    }
  }
}

static void run_allocations(void) {
  struct chosen chosen = {.n_operations = 0};
  choose_own(&chosen);
  for (size_t i = 0; i < chosen.n_operations; i++) {
    const struct operation *operation = &chosen.operations[i];
    void *state = operation->setup();
    operation->run(state, WARM_UP);
    uint64_t before = allocations_count();
    operation->run(state, ALLOCATION_SERIES);
    printf("%s %.3f\n", operation->name,
           (double)(allocations_count() - before) / ALLOCATION_SERIES);
    operation->teardown(state);
  }
}

static void run_count(uint32_t length, uint32_t more) {
  struct chosen chosen = {.n_operations = 0};
  choose_own(&chosen);
  for (size_t i = 0; i < chosen.n_operations; i++) {
    const struct operation *operation = &chosen.operations[i];
    void *state = operation->setup();
    for (int round = 0; round < 3; round++) {
      if (operation->prepare != NULL) {
        operation->prepare(state);
      }
      if (round == 0) {
        operation->run(state, more);
      } else {
        series(operation, state, round == 1 ? length : more);
      }
    }
    printf("%s\n", operation->name);
    operation->teardown(state);
  }
}

/* 0: that is no count. */
static int read_count(const char *text) {
  char *end = NULL;
  long number = strtol(text, &end, 10);
  return end == text || *end != '\0' || number < 0 || number > INT32_MAX ? 0 : (int)number;
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[1] : "";
  int first = argc > 2 ? read_count(argv[2]) : 0;
  int second = argc > 3 ? read_count(argv[3]) : 0;
  if (strcmp(verb, "time") == 0 && argc == 3 && first > 0) {
    run_time(first);
  } else if (strcmp(verb, "allocations") == 0 && argc == 2) {
    run_allocations();
  } else if (strcmp(verb, "bytes") == 0 && argc == 2) {
    printf("%zu %zu\n", registry_bytes_10000(), registry_bytes_10000_known());
  } else if (strcmp(verb, "count") == 0 && argc == 4 && first > 0 && second > first) {
    run_count((uint32_t)first, (uint32_t)second);
  } else {
    (void)fprintf(stderr, "usage: decide time ROUNDS | allocations | bytes | count SHORT LONG\n");
    return 2;
  }
  return 0;
}
