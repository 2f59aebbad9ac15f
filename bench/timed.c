/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/timed.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "bench/require.h"

#define NS_PER_SECOND INT64_C(1000000000)

/* From below: what is left out are lucky series, and all that were interrupted. */
#define ALONE_QUANTILE 0.05

/* Of two threads the middle would do; the quarter leaves more room for a busy machine. */
#define TOGETHER_QUANTILE 0.25

/* Two series count as having run at once when this part of the time from the first's start to the
 * last's end was both's. */
#define MIN_OVERLAP 0.9

/* How long a series of two threads takes, about: they start some hundred nanoseconds apart, and an
 * interruption is rare in so short a time. */
#define TOGETHER_NS 60000.0

/* Turns that a thread waits for the other, which has no processor then. */
#define MAX_TURNS 20000

/* Rounds in which both ran at once that make a figure; and how many rounds more than were asked for
 * are made on a busy machine until so many have come together. */
#define MIN_ROUNDS 20
#define MAX_PATIENCE 5

static int64_t clock_ns(clockid_t clock) {
  struct timespec now;
  (void)clock_gettime(clock, &now);
  return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

static int64_t now_ns(void) {
  return clock_ns(CLOCK_MONOTONIC);
}

static int compare_doubles(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

static double quantile(double *values, size_t n_values, double part) {
  qsort(values, n_values, sizeof *values, compare_doubles);
  return values[(size_t)((double)(n_values - 1) * part)];
}

static void prepare(const struct operation *operation, void *state) {
  if (operation->prepare != NULL) {
    operation->prepare(state);
  }
}

/* --- alone --- */

static double series_ns(const struct operation *operation, void *state, uint32_t n_times) {
  clockid_t clock = operation->is_long ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  prepare(operation, state);
  int64_t started_at_ns = clock_ns(clock);
  operation->run(state, n_times);
  return (double)(clock_ns(clock) - started_at_ns) / n_times;
}

static double fastest_ns(const struct operation *operation, void *state) {
  double fastest = series_ns(operation, state, operation->series_length);
  for (int i = 0; i < MIN_ROUNDS; i++) {
    double ns = series_ns(operation, state, operation->series_length);
    fastest = ns < fastest ? ns : fastest;
  }
  return fastest;
}

void timed_alone(const struct operation *operations, size_t n_operations, int n_rounds,
                 double *ns_out) {
  size_t length = (size_t)n_rounds;
  double *samples = require_memory(n_operations * length, sizeof *samples);
  void **states = require_memory(n_operations, sizeof *states);
  for (size_t i = 0; i < n_operations; i++) {
    states[i] = operations[i].setup();
  }
  for (size_t round = 0; round < length; round++) {
    for (size_t i = 0; i < n_operations; i++) {
      uint32_t n_times = operations[i].series_length;
      (void)series_ns(&operations[i], states[i], n_times); /* the others have had the caches */
      samples[i * length + round] = series_ns(&operations[i], states[i], n_times);
    }
  }
  for (size_t i = 0; i < n_operations; i++) {
    ns_out[i] = quantile(&samples[i * length], length, ALONE_QUANTILE);
    operations[i].teardown(states[i]);
  }
  free(states);
  free(samples);
}

/* --- two threads --- */

struct span {
  int64_t from_ns;
  int64_t until_ns;
};

/* Two threads that meet before each series. */
struct pair {
  const struct operation *operation;
  void *state;
  int processors[2];
  uint32_t n_times;       /* of a series */
  _Atomic int n_ready;    /* grows by two a round */
  _Atomic int n_finished; /* the second thread's rounds */
  _Atomic int n_wanted;   /* rounds that the second thread may begin; negative = it ends */
  struct span second;     /* of its last series; n_finished publishes it */
};

static void wait_until(const _Atomic int *value, int least) {
  while (atomic_load(value) < least) {
    (void)sched_yield();
  }
}

static struct span span_of(struct pair *pair, int round) {
  int both = 2 * round;
  atomic_fetch_add(&pair->n_ready, 1);
  /* No yield: they are to start in the same instant. Whose partner has no processor gives up, and
   * the round does not count. */
  for (int turns = 0; turns < MAX_TURNS && atomic_load(&pair->n_ready) < both; turns++) {
  }
  struct span span = {.from_ns = now_ns(), .until_ns = 0};
  pair->operation->run(pair->state, pair->n_times);
  span.until_ns = now_ns();
  return span;
}

static void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)processor, &set);
  (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *second_thread(void *argument) {
  struct pair *pair = argument;
  pin_to(pair->processors[1]);
  for (int round = 1;; round++) {
    int wanted = 0;
    while ((wanted = atomic_load(&pair->n_wanted)) >= 0 && wanted < round) {
      (void)sched_yield();
    }
    if (wanted < 0) {
      return NULL;
    }
    pair->second = span_of(pair, round);
    atomic_store(&pair->n_finished, round);
  }
}

static int64_t earlier(int64_t left, int64_t right) {
  return left < right ? left : right;
}

static int64_t later(int64_t left, int64_t right) {
  return left > right ? left : right;
}

/* The time of one operation in two series; negative: they did not run at once. */
static double together_ns(uint32_t n_times, struct span first, struct span second) {
  double shared =
      (double)(earlier(first.until_ns, second.until_ns) - later(first.from_ns, second.from_ns));
  double whole =
      (double)(later(first.until_ns, second.until_ns) - earlier(first.from_ns, second.from_ns));
  if (shared < MIN_OVERLAP * whole) {
    return -1.0;
  }
  double sum = (double)(first.until_ns - first.from_ns + second.until_ns - second.from_ns);
  return sum / 2 / n_times;
}

struct samples {
  double *alone;
  double *together;
  size_t n_alone;
  size_t n_together;
};

static void measure(struct pair *pair, int n_rounds, struct samples *samples) {
  for (int round = 1; round <= n_rounds * MAX_PATIENCE; round++) {
    if (round > n_rounds && samples->n_together >= MIN_ROUNDS) {
      return;
    }
    (void)series_ns(pair->operation, pair->state, pair->n_times);
    samples->alone[samples->n_alone++] = series_ns(pair->operation, pair->state, pair->n_times);
    prepare(pair->operation, pair->state);
    atomic_store(&pair->n_wanted, round);
    struct span first = span_of(pair, round);
    wait_until(&pair->n_finished, round);
    double ns = together_ns(pair->n_times, first, pair->second);
    if (ns >= 0.0) {
      samples->together[samples->n_together++] = ns;
    }
  }
}

/* The first two processors that this process may use; false: there is one only. */
static bool find_processors(const cpu_set_t *allowed, int processors_out[2]) {
  int n_found = 0;
  for (int i = 0; i < CPU_SETSIZE && n_found < 2; i++) {
    if (CPU_ISSET((size_t)i, allowed)) {
      processors_out[n_found++] = i;
    }
  }
  return n_found == 2;
}

bool timed_two_threads_ratio(const struct operation *operation, int n_rounds, double *ratio_out) {
  struct pair pair = {.operation = operation};
  cpu_set_t allowed;
  pthread_t thread;
  if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0 ||
      !find_processors(&allowed, pair.processors)) {
    return false;
  }
  pair.state = operation->setup();
  pair.n_times = (uint32_t)(TOGETHER_NS / fastest_ns(operation, pair.state)) + 1;
  if (pthread_create(&thread, NULL, second_thread, &pair) != 0) {
    operation->teardown(pair.state);
    return false;
  }
  pin_to(pair.processors[0]);
  size_t most = (size_t)n_rounds * MAX_PATIENCE;
  struct samples samples = {.alone = require_memory(most, sizeof(double)),
                            .together = require_memory(most, sizeof(double))};
  measure(&pair, n_rounds, &samples);
  atomic_store(&pair.n_wanted, -1);
  (void)pthread_join(thread, NULL);
  (void)pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
  bool measured = samples.n_together >= MIN_ROUNDS;
  if (measured) {
    *ratio_out = quantile(samples.together, samples.n_together, TOGETHER_QUANTILE) /
                 quantile(samples.alone, samples.n_alone, TOGETHER_QUANTILE);
  }
  free(samples.together);
  free(samples.alone);
  operation->teardown(pair.state);
  return measured;
}
