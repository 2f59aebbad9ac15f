/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/tables.h"

#include <inttypes.h>

#include <weir/outcome.h>

#include "examples/demo/journal.h"
#include "examples/demo/service.h"

#define TIMEOUT_NS (5 * WEIR_SECOND_NS)
#define LAYERS_MAX 3

/* Who retries in a chain: callers[0] is the client, callers[n_callers - 1] calls the last
 * service. */
struct amplification_case {
  const char *name;
  enum caller_kind callers[LAYERS_MAX];
  size_t n_callers;
  uint64_t expected;
};

static const struct amplification_case cases[] = {
    {"client 3", {CALLER_CORE_RETRIES, CALLER_ONCE}, 2, 3},
    {"client 3 x A loop 3", {CALLER_CORE_RETRIES, CALLER_LOOP}, 2, 9},
    {"client 3 x A core retries 3", {CALLER_CORE_RETRIES, CALLER_CORE_RETRIES}, 2, 9},
    {"A weir 3", {CALLER_ONCE, CALLER_WEIR}, 2, 3},
    {"client weir 3 x A weir 3", {CALLER_WEIR, CALLER_WEIR}, 2, 3},
    {"bare, three layers of 3", {CALLER_CORE_RETRIES, CALLER_LOOP, CALLER_CORE_RETRIES}, 3, 27},
    {"weir, three layers of 3", {CALLER_WEIR, CALLER_WEIR, CALLER_WEIR}, 3, 3},
};

static void add_row(struct results *results, struct journal *journal,
                    const struct amplification_case *row) {
  const struct script script = {.code = GRPC_STATUS_UNAVAILABLE, .text = "down"};
  struct service services[LAYERS_MAX]; /* services[0] is the last one */
  struct caller_options options[LAYERS_MAX];
  struct caller client;
  struct answer answer;
  char expected[64];

  for (size_t i = 0; i < row->n_callers; i++) {
    options[i] = (struct caller_options){.kind = row->callers[i],
                                         .policy = "retry.json",
                                         .timeout_ns = TIMEOUT_NS,
                                         .log = &journal->sink};
  }
  service_init_last(&services[0], &script);
  for (size_t i = 1; i < row->n_callers; i++) {
    service_init_relay(&services[i], &options[row->n_callers - i], &services[i - 1],
                       RELAY_DEADLINE_AS_IT_IS);
  }
  caller_init(&client, &options[0], weir__test_server_port(services[row->n_callers - 1].server));
  caller_ask(&client, NULL, "42", &answer);
  caller_fini(&client);
  uint64_t n_calls = weir__test_server_n_calls(services[0].server);
  for (size_t i = row->n_callers; i > 0; i--) {
    service_fini(&services[i - 1]);
  }

  (void)snprintf(expected, sizeof expected, "%" PRIu64 " calls, UNAVAILABLE", row->expected);
  results_add(results, "amplification",
              json_pack("{s:s, s:I, s:s}", "case", row->name, "calls_at_b", (json_int_t)n_calls,
                        "final", weir_status_code_name(answer.code)),
              n_calls == row->expected && answer.code == GRPC_STATUS_UNAVAILABLE, expected);
}

void table_amplification(struct results *results) {
  struct journal journal;
  journal_init(&journal);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    add_row(results, &journal, &cases[i]);
  }
  journal_fini(&journal);
}
