/* The client that is measured. The server is another process.
 *
 *   client count SCENARIO SIDE PORT SHORT LONG N    runs series of SHORT and of LONG in turn, N of
 *                                                   each, for callgrind to count
 *   client wall SCENARIO PORT LENGTH N              prints how much longer a series takes weir than
 *                                                   the bare core: the median of N pairs of
 *                                                   series, each of LENGTH
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <grpc/grpc.h>

#include "bench/scenario.h"
#include "bench/side.h"

#define TARGET_SIZE 64
#define N_PAIRS_MAX 1024
#define NS_PER_SECOND INT64_C(1000000000)

/* Callgrind is told to begin with nothing where this begins, and to write down where it ends, so it
 * stays a function of its own. */
void series(scenario_run_fn *run, const struct client *client, int length);

__attribute__((noinline)) void series(scenario_run_fn *run, const struct client *client,
                                      int length) {
  run(client, length);
}

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/* 0: that is no count. */
static int read_count(const char *text) {
  char *end = NULL;
  long number = strtol(text, &end, 10);
  return end == text || *end != '\0' || number < 0 || number > INT32_MAX ? 0 : (int)number;
}

static void count(scenario_run_fn *run, const struct side *side, const char *target,
                  const int lengths[2], int n_rounds) {
  struct client client;
  client_init(&client, side, target);
  run(&client, lengths[0]); /* connects, and fills free lists */
  for (int i = 0; i < n_rounds; i++) {
    series(run, &client, lengths[0]);
    series(run, &client, lengths[1]);
  }
  client_fini(&client);
}

static int64_t timed_ns(scenario_run_fn *run, const struct client *client, int length) {
  int64_t started_at_ns = now_ns();
  run(client, length);
  return now_ns() - started_at_ns;
}

static int compare_ratios(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

static void wall(scenario_run_fn *run, const char *target, int length, int n_pairs) {
  static double ratios[N_PAIRS_MAX];
  struct client bare;
  struct client weir;
  client_init(&bare, side_find("bare"), target);
  client_init(&weir, side_find("weir"), target);
  run(&bare, length);
  run(&weir, length);
  for (int i = 0; i < n_pairs; i++) {
    /* Each goes first half of the time. */
    int64_t first_ns = timed_ns(run, i % 2 == 0 ? &bare : &weir, length);
    int64_t second_ns = timed_ns(run, i % 2 == 0 ? &weir : &bare, length);
    ratios[i] =
        i % 2 == 0 ? (double)second_ns / (double)first_ns : (double)first_ns / (double)second_ns;
  }
  qsort(ratios, (size_t)n_pairs, sizeof ratios[0], compare_ratios);
  printf("%.3f\n", ratios[n_pairs / 2]);
  client_fini(&weir);
  client_fini(&bare);
}

/* client count SCENARIO SIDE PORT SHORT LONG N; false: that is not what there is. */
static bool run_count(char **arguments) {
  scenario_run_fn *run = scenario_find(arguments[0]);
  const struct side *side = side_find(arguments[1]);
  const int lengths[2] = {read_count(arguments[3]), read_count(arguments[4])};
  int n_rounds = read_count(arguments[5]);
  if (run == NULL || side == NULL || lengths[0] == 0 || lengths[1] == 0 || n_rounds == 0) {
    return false;
  }
  char target[TARGET_SIZE];
  (void)snprintf(target, sizeof target, "ipv4:127.0.0.1:%s", arguments[2]);
  count(run, side, target, lengths, n_rounds);
  return true;
}

/* client wall SCENARIO PORT LENGTH N; false: that is not what there is. */
static bool run_wall(char **arguments) {
  scenario_run_fn *run = scenario_find(arguments[0]);
  int length = read_count(arguments[2]);
  int n_pairs = read_count(arguments[3]);
  if (run == NULL || length == 0 || n_pairs == 0 || n_pairs > N_PAIRS_MAX) {
    return false;
  }
  char target[TARGET_SIZE];
  (void)snprintf(target, sizeof target, "ipv4:127.0.0.1:%s", arguments[1]);
  wall(run, target, length, n_pairs);
  return true;
}

int main(int argc, char **argv) {
  bool done = false;
  grpc_init();
  if (argc == 8 && strcmp(argv[1], "count") == 0) {
    done = run_count(argv + 2);
  } else if (argc == 6 && strcmp(argv[1], "wall") == 0) {
    done = run_wall(argv + 2);
  }
  grpc_shutdown();
  if (!done) {
    (void)fprintf(stderr, "usage: client count SCENARIO SIDE PORT SHORT LONG N\n"
                          "       client wall SCENARIO PORT LENGTH N\n");
    return 2;
  }
  return 0;
}
