/* The client that is measured. The server is another process.
 *
 *   client count PORT SHORT LONG N SCENARIO:SIDE...    of each: prints its name, and runs series of
 *                                                      SHORT and of LONG in turn, N of each, for
 *                                                      callgrind to count
 *   client wall PORT LENGTH N SCENARIO SIDE...         prints "SIDE RATIO": how much longer a series
 *                                                      takes than on the bare core, the middle one
 *                                                      of N rounds of series, each of LENGTH
 *   client allocations PORT N SCENARIO...              prints "SCENARIO WEIR OVER CORE", of N calls
 *                                                      or messages after as many others: how often
 *                                                      weir asks for memory, of its allocator, for a
 *                                                      call or message; and how often more than on
 *                                                      the bare core the thread does, whoever's
 *                                                      code, on weir and with the core's own retries
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <grpc/grpc.h>

#include "bench/allocations.h"
#include "bench/counted_memory.h"
#include "bench/require.h"
#include "bench/scenario.h"
#include "bench/side.h"

#define TARGET_SIZE 64
#define NAME_SIZE 64
#define N_ROUNDS_MAX 1024
#define N_SIDES_MAX 4
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

static int read_count(const char *text) {
  char *end = NULL;
  long number = strtol(text, &end, 10);
  require(end != text && *end == '\0' && number > 0 && number <= INT32_MAX, "that is no count");
  return (int)number;
}

static const struct scenario *read_scenario(const char *name) {
  const struct scenario *scenario = scenario_find(name);
  require(scenario != NULL, "no scenario has that name");
  return scenario;
}

static const struct side *read_side(const char *name) {
  const struct side *side = side_find(name);
  require(side != NULL, "no side has that name");
  return side;
}

static void read_target(const char *port, char target_out[TARGET_SIZE]) {
  (void)snprintf(target_out, TARGET_SIZE, "ipv4:127.0.0.1:%s", port);
}

/* --- count --- */

static void count(const char *target, const char *what, const int lengths[2], int n_rounds) {
  char name[NAME_SIZE];
  (void)snprintf(name, sizeof name, "%s", what);
  char *colon = strchr(name, ':');
  require(colon != NULL, "a scenario without a side");
  *colon = '\0';
  const struct scenario *scenario = read_scenario(name);
  struct client client;
  client_init(&client, read_side(colon + 1), target);
  scenario->run(&client, lengths[0]); /* connects, and fills free lists */
  for (int i = 0; i < n_rounds; i++) {
    series(scenario->run, &client, lengths[0]);
    series(scenario->run, &client, lengths[1]);
  }
  client_fini(&client);
  printf("%s %s\n", name, colon + 1);
}

/* PORT SHORT LONG N SCENARIO:SIDE... */
static void run_count(int n_arguments, char **arguments) {
  char target[TARGET_SIZE];
  read_target(arguments[0], target);
  const int lengths[2] = {read_count(arguments[1]), read_count(arguments[2])};
  for (int i = 4; i < n_arguments; i++) {
    count(target, arguments[i], lengths, read_count(arguments[3]));
  }
}

/* --- wall --- */

static double timed_ns(const struct scenario *scenario, const struct client *client, int length) {
  int64_t started_at_ns = now_ns();
  scenario->run(client, length);
  return (double)(now_ns() - started_at_ns);
}

static int compare_ratios(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The first client is that of the bare core. Each goes first, or second, as often as the others. */
static void wall(const struct scenario *scenario, const struct client *clients, size_t n_clients,
                 int length, int n_rounds) {
  static double ratios[N_SIDES_MAX][N_ROUNDS_MAX];
  for (int round = 0; round < n_rounds; round++) {
    double ns[N_SIDES_MAX];
    for (size_t turn = 0; turn < n_clients; turn++) {
      size_t i = ((size_t)round + turn) % n_clients;
      ns[i] = timed_ns(scenario, &clients[i], length);
    }
    for (size_t i = 1; i < n_clients; i++) {
      ratios[i][round] = ns[i] / ns[0];
    }
  }
  for (size_t i = 1; i < n_clients; i++) {
    qsort(ratios[i], (size_t)n_rounds, sizeof ratios[i][0], compare_ratios);
    printf("%s %.3f\n", clients[i].side->name, ratios[i][n_rounds / 2]);
  }
}

/* PORT LENGTH N SCENARIO SIDE... */
static void run_wall(int n_arguments, char **arguments) {
  char target[TARGET_SIZE];
  read_target(arguments[0], target);
  int length = read_count(arguments[1]);
  int n_rounds = read_count(arguments[2]);
  const struct scenario *scenario = read_scenario(arguments[3]);
  struct client clients[N_SIDES_MAX];
  size_t n_clients = 0;
  require(n_rounds <= N_ROUNDS_MAX && n_arguments - 4 < N_SIDES_MAX, "too many");
  client_init(&clients[n_clients++], read_side("bare"), target);
  for (int i = 4; i < n_arguments; i++) {
    client_init(&clients[n_clients++], read_side(arguments[i]), target);
  }
  for (size_t i = 0; i < n_clients; i++) {
    scenario->run(&clients[i], length);
  }
  wall(scenario, clients, n_clients, length, n_rounds);
  for (size_t i = 0; i < n_clients; i++) {
    client_fini(&clients[i]);
  }
}

/* --- allocations --- */

/* Of one call: `weir_out` of weir's, `all_out` of all that the thread does. */
static void count_allocations(const struct scenario *scenario, const char *side, const char *target,
                              int n, double *weir_out, double *all_out) {
  struct client client;
  client_init(&client, read_side(side), target);
  scenario->run(&client, n); /* fills free lists and tables */
  uint64_t weir_before = counted_memory_n_requests();
  uint64_t all_before = allocations_count();
  scenario->run(&client, n);
  *weir_out = (double)(counted_memory_n_requests() - weir_before) / n;
  *all_out = (double)(allocations_count() - all_before) / n;
  client_fini(&client);
}

/* PORT N SCENARIO... */
static void run_allocations(int n_arguments, char **arguments) {
  char target[TARGET_SIZE];
  read_target(arguments[0], target);
  int n = read_count(arguments[1]);
  for (int i = 2; i < n_arguments; i++) {
    const struct scenario *scenario = read_scenario(arguments[i]);
    double none = 0.0;
    double weir = 0.0;
    double bare_all = 0.0;
    double weir_all = 0.0;
    double core_all = 0.0;
    count_allocations(scenario, "bare", target, n, &none, &bare_all);
    count_allocations(scenario, "weir", target, n, &weir, &weir_all);
    count_allocations(scenario, "core_retries", target, n, &none, &core_all);
    printf("%s %.3f %.3f %.3f\n", scenario->name, weir, weir_all - bare_all, core_all - bare_all);
  }
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int n_arguments; /* at least */
    void (*run)(int n_arguments, char **arguments);
  } verbs[] = {{"count", 5, run_count}, {"wall", 5, run_wall}, {"allocations", 3, run_allocations}};
  for (size_t i = 0; i < sizeof verbs / sizeof verbs[0] && argc > 1; i++) {
    if (strcmp(argv[1], verbs[i].name) == 0 && argc - 2 >= verbs[i].n_arguments) {
      grpc_init();
      verbs[i].run(argc - 2, argv + 2);
      grpc_shutdown();
      return 0;
    }
  }
  (void)fprintf(stderr, "usage: client count PORT SHORT LONG N SCENARIO:SIDE...\n"
                        "       client wall PORT LENGTH N SCENARIO SIDE...\n"
                        "       client allocations PORT N SCENARIO...\n");
  return 2;
}
