/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/tables.h"

#include <inttypes.h>
#include <string.h>

#include <weir/channel.h>
#include <weir/outcome.h>

#include "examples/demo/journal.h"
#include "examples/demo/pause.h"
#include "examples/demo/service.h"

#define CLIENT_TIMEOUT_NS (5 * WEIR_SECOND_NS)
#define N_CALLS 100
#define PAUSES_MAX 10

/* A client, A with weir, and B. */
struct chain {
  struct service b;
  struct service a;
  struct caller client;
};

struct breaker_case {
  grpc_status_code code;
  uint64_t n_trips;
  uint64_t n_refused;
  uint64_t n_at_b;
};

static const struct breaker_case cases[] = {
    {GRPC_STATUS_UNKNOWN, 0, 0, N_CALLS},
    {GRPC_STATUS_UNAUTHENTICATED, 0, 0, N_CALLS},
    {GRPC_STATUS_RESOURCE_EXHAUSTED, 0, 0, N_CALLS},
    {GRPC_STATUS_UNAVAILABLE, 1, 95, 5},
};

static void chain_init(struct chain *chain, const char *policy, struct journal *journal,
                       const struct script *script) {
  const struct caller_options weir = {.kind = CALLER_WEIR, .policy = policy, .log = &journal->sink};
  const struct caller_options once = {.kind = CALLER_ONCE, .timeout_ns = CLIENT_TIMEOUT_NS};
  service_init_last(&chain->b, script);
  service_init_relay(&chain->a, &weir, &chain->b, RELAY_DEADLINE_AS_IT_IS);
  caller_init(&chain->client, &once, weir__test_server_port(chain->a.server));
}

static void chain_fini(struct chain *chain) {
  caller_fini(&chain->client);
  service_fini(&chain->a);
  service_fini(&chain->b);
}

static grpc_status_code ask(const struct chain *chain) {
  struct answer answer;
  caller_ask(&chain->client, NULL, "42", &answer);
  return answer.code;
}

/* All zero when the channel has no breaker: no row expects that. */
static struct weir_breaker_snapshot look(const struct chain *chain) {
  struct weir_breaker_snapshot snapshot;
  memset(&snapshot, 0, sizeof snapshot);
  snapshot.size = sizeof snapshot;
  enum weir_error error =
      weir_channel_breaker_snapshot(chain->a.next.weir, ORDERS_METHOD, &snapshot);
  if (error != WEIR_OK) {
    fprintf(stderr, "demo: breaker: %s\n", weir_error_string(error));
    memset(&snapshot, 0, sizeof snapshot);
    snapshot.n_trips = UINT64_MAX;
  }
  return snapshot;
}

static void add_storm(struct results *results, struct journal *journal,
                      const struct breaker_case *row) {
  const struct script script = {.code = row->code, .text = "no available channel"};
  struct chain chain;
  char expected[96];
  chain_init(&chain, "boundary.json", journal, &script);
  for (int i = 0; i < N_CALLS; i++) {
    (void)ask(&chain);
  }
  struct weir_breaker_snapshot seen = look(&chain);
  uint64_t n_at_b = weir__test_server_n_calls(chain.b.server);
  chain_fini(&chain);

  (void)snprintf(expected, sizeof expected,
                 "%" PRIu64 " trips, %" PRIu64 " refused, %" PRIu64 " at B", row->n_trips,
                 row->n_refused, row->n_at_b);
  results_add(results, "breaker",
              json_pack("{s:s, s:I, s:I, s:I}", "case", weir_status_code_name(row->code), "trips",
                        (json_int_t)seen.n_trips, "refused", (json_int_t)seen.n_refused,
                        "calls_at_b", (json_int_t)n_at_b),
              seen.n_trips == row->n_trips && seen.n_refused == row->n_refused &&
                  n_at_b == row->n_at_b,
              expected);
}

/* Asks until the breaker opens, and waits until it would let a probe through. */
static void open_and_wait(const struct chain *chain) {
  for (int i = 0; i < N_CALLS; i++) {
    (void)ask(chain);
    if (look(chain).state != WEIR_BREAKER_CLOSED) {
      break;
    }
  }
  for (int i = 0; i < PAUSES_MAX; i++) {
    struct weir_breaker_snapshot seen = look(chain);
    if (seen.state != WEIR_BREAKER_OPEN || seen.next_probe_in_ns <= 0) {
      return;
    }
    pause_for(seen.next_probe_in_ns + WEIR_MS_NS);
  }
}

static void add_recovery(struct results *results, struct journal *journal) {
  const struct script down = {.code = GRPC_STATUS_UNAVAILABLE, .text = "down"};
  const struct script healed = {.code = GRPC_STATUS_OK, .text = ""};
  struct chain chain;
  chain_init(&chain, "recovery.json", journal, &down);
  open_and_wait(&chain);
  service_set_script(&chain.b, &healed);
  weir__test_server_forget(chain.b.server);
  int n_ok = 0;
  for (int i = 0; i < N_CALLS && look(&chain).state != WEIR_BREAKER_CLOSED; i++) {
    n_ok += ask(&chain) == GRPC_STATUS_OK;
  }
  struct weir_breaker_snapshot seen = look(&chain);
  bool served = ask(&chain) == GRPC_STATUS_OK; /* and now everybody is let through again */
  uint64_t n_at_b = weir__test_server_n_calls(chain.b.server);
  chain_fini(&chain);

  results_add(results, "breaker",
              json_pack("{s:s, s:I, s:s}", "case", "recovery", "probes", (json_int_t)seen.n_probes,
                        "state", weir_breaker_state_name(seen.state)),
              seen.n_trips == 1 && seen.n_probes == 3 && seen.state == WEIR_BREAKER_CLOSED &&
                  n_ok == 3 && served && n_at_b == 4,
              "1 trip, 3 probes that B answers, CLOSED, and calls get through again");
}

void table_breaker(struct results *results) {
  struct journal journal;
  journal_init(&journal);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    add_storm(results, &journal, &cases[i]);
  }
  add_recovery(results, &journal);
  journal_fini(&journal);
}
