/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/soak.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc.h>

#include "test/soak/client.h"
#include "test/soak/footprint.h"
#include "test/soak/hops.h"
#include "test/soak/ledger.h"
#include "test/soak/live_memory.h"
#include "test/soak/plan.h"

#define PHASES 12
#define PHASES_MIN 3
#define PHASE_CALLS_MIN 500 /* of a phase, unless there were fewer than PHASES_MIN then */

/* Of calls that are made in a quiet moment until they succeed. */
#define CALM_CALLS 20000

struct soak {
  struct soak_result *result;
  struct ledger *ledger;
  struct plans plans;
  struct hops hops;
  struct client client;
  int64_t next_calm;
  FILE *story;
  struct footprint before; /* the core, and the hops */
};

static bool is_broken(void *context) {
  struct soak *soak = context;
  if (hops_one_is_gone(&soak->hops)) {
    ledger_blame(soak->ledger, 0, LEDGER_CLIENT, "a process has died");
    return true;
  }
  return false;
}

static int64_t last_calm(const struct soak *soak) {
  return soak->plans.first_calm + CALM_CALLS - 1;
}

/* The network is well again: so are the services; what was promised is looked at. */
static bool look_around(struct soak *soak, int64_t first, int64_t last) {
  struct soak_result *result = soak->result;
  int64_t first_calm = soak->next_calm;
  client_calm(&soak->client);
  if (!hops_calm(&soak->hops, soak->ledger) ||
      !client_recover(&soak->client, &soak->next_calm, last_calm(soak)) ||
      !hops_calm(&soak->hops, soak->ledger)) {
    return false;
  }
  client_judge(&soak->client, first, last);
  tally_judge_calls(result->tally, first_calm, soak->next_calm - 1);
  checkpoint_take(&result->checkpoints[result->n_checkpoints++], last, &soak->hops);
  return true;
}

static size_t count_phases(uint32_t n_calls) {
  size_t n_phases = n_calls / PHASE_CALLS_MIN;
  n_phases = n_phases < PHASES ? n_phases : PHASES;
  return n_phases > PHASES_MIN ? n_phases : PHASES_MIN;
}

static bool run_phases(struct soak *soak) {
  int64_t n_calls = soak->result->options.n_calls;
  int64_t n_phases = (int64_t)count_phases(soak->result->options.n_calls);
  bool well = true;
  for (int64_t i = 0; i < n_phases && well && ledger_n_blames(soak->ledger) == 0; i++) {
    int64_t first = n_calls * i / n_phases + 1;
    int64_t last = n_calls * (i + 1) / n_phases;
    hops_storm(&soak->hops);
    well =
        client_run(&soak->client, first, last, is_broken, soak) && look_around(soak, first, last);
  }
  return well;
}

static void count_trips(struct soak *soak) {
  for (size_t i = 0; i < PLAN_CLIENT_CHANNELS; i++) {
    soak->result->n_trips += atomic_load(&soak->client.wires[i].n_trips);
    soak->result->n_closed += atomic_load(&soak->client.wires[i].n_closed);
  }
}

/* In order, so that whoever leaves something behind is found. */
static void end_well(struct soak *soak) {
  struct footprint last;
  soak->result->proxies[0] = hops_look(&soak->hops, HOP_PROXY_A).counts;
  soak->result->proxies[1] = hops_look(&soak->hops, HOP_PROXY_B).counts;
  count_trips(soak);
  client_fini(&soak->client);
  hops_end(&soak->hops, soak->ledger);
  grpc_shutdown_blocking();
  if (live_memory_blocks() != 0) {
    ledger_blame(soak->ledger, 0, LEDGER_CLIENT,
                 "the client leaves %" PRIu64 " blocks of weir's behind, %" PRIu64 " bytes",
                 live_memory_blocks(), live_memory_bytes());
  }
  footprint_take_last(soak->before.n_threads, &last);
  footprint_judge(&soak->before, &last, "client", soak->ledger);
  checkpoints_judge(soak->result->checkpoints, soak->result->n_checkpoints, soak->ledger);
}

bool soak_run(const struct soak_options *options, FILE *story, struct soak_result *result) {
  struct soak soak = {.result = result, .story = story};
  int64_t began_at_ns = ledger_now_ns();
  memset(result, 0, sizeof *result);
  result->options = *options;
  soak.plans = (struct plans){.seed = options->seed, .first_calm = (int64_t)options->n_calls + 1};
  soak.next_calm = soak.plans.first_calm;
  soak.ledger = ledger_new(options->n_calls + CALM_CALLS);
  result->tally = calloc(1, sizeof *result->tally);
  tally_init(result->tally, soak.ledger, options->n_calls + CALM_CALLS);
  footprint_take(&soak.before);
  hops_start(&soak.hops, soak.ledger, &soak.plans);
  grpc_init();
  client_init(&soak.client, soak.ledger, &soak.plans, result->tally, soak.hops.port);
  bool ran = run_phases(&soak);
  if (ran) {
    end_well(&soak);
  } else { /* what is under way can't be ended */
    hops_kill(&soak.hops);
  }
  result->took_ns = ledger_now_ns() - began_at_ns;
  result->n_broken = ledger_n_blames(soak.ledger);
  ledger_tell(soak.ledger, story);
  if (!ran) {
    (void)fprintf(story, "soak: broken with --seed %" PRIu64 " --calls %u\n", options->seed,
                  options->n_calls);
    (void)fflush(NULL);
    _Exit(EXIT_FAILURE);
  }
  ledger_release(soak.ledger);
  return result->n_broken == 0;
}

void soak_result_fini(struct soak_result *result) {
  tally_fini(result->tally);
  free(result->tally);
}
