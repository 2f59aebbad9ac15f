/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/tables.h"

#include <inttypes.h>

#include <weir/outcome.h>

#include "examples/demo/journal.h"
#include "examples/demo/pause.h"
#include "examples/demo/service.h"

#define CLIENT_TIMEOUT_NS (5 * WEIR_SECOND_NS)
#define A_GIVES_B_NS (300 * WEIR_MS_NS) /* deadline.json says the same to weir */
#define B_TAKES_NS WEIR_SECOND_NS

/* What A does about its own deadline. The bounds leave room for a busy machine. */
struct deadline_case {
  const char *name;
  enum caller_kind caller;
  enum relay_deadline deadline;
  grpc_status_code code;
  uint64_t n_calls;
  int64_t least_ms;
  int64_t most_ms;
};

static const struct deadline_case cases[] = {
    {"passed through", CALLER_ONCE, RELAY_DEADLINE_AS_IT_IS, GRPC_STATUS_DEADLINE_EXCEEDED, 1, 295,
     800},
    {"translated to UNAVAILABLE", CALLER_ONCE, RELAY_DEADLINE_AS_UNAVAILABLE,
     GRPC_STATUS_UNAVAILABLE, 3, 890, 2400},
    {"weir", CALLER_WEIR, RELAY_DEADLINE_AS_IT_IS, GRPC_STATUS_UNAVAILABLE, 1, 295, 800},
};

static void add_row(struct results *results, struct journal *journal,
                    const struct deadline_case *row) {
  const struct script slow = {.code = GRPC_STATUS_OK, .text = "", .delay_ns = B_TAKES_NS};
  const struct caller_options a_options = {.kind = row->caller,
                                           .policy = "deadline.json",
                                           .timeout_ns = A_GIVES_B_NS,
                                           .log = &journal->sink};
  const struct caller_options client_options = {
      .kind = CALLER_CORE_RETRIES, .policy = "retry.json", .timeout_ns = CLIENT_TIMEOUT_NS};
  struct service b;
  struct service a;
  struct caller client;
  struct answer answer;
  char expected[128];
  service_init_last(&b, &slow);
  service_init_relay(&a, &a_options, &b, row->deadline);
  caller_init(&client, &client_options, weir__test_server_port(a.server));

  int64_t began_ns = pause_now_ns();
  caller_ask(&client, NULL, "42", &answer);
  int64_t tenths_ms = (pause_now_ns() - began_ns) / (WEIR_MS_NS / 10);
  double ms = (double)tenths_ms / 10.0;
  uint64_t n_calls = weir__test_server_n_calls(b.server);
  caller_fini(&client);
  service_fini(&a);
  service_fini(&b);

  (void)snprintf(expected, sizeof expected,
                 "%s after %" PRId64 " to %" PRId64 " ms, %" PRIu64 " calls",
                 weir_status_code_name(row->code), row->least_ms, row->most_ms, row->n_calls);
  results_add(results, "deadline",
              json_pack("{s:s, s:s, s:f, s:I}", "case", row->name, "client_code",
                        weir_status_code_name(answer.code), "client_ms", ms, "calls_at_b",
                        (json_int_t)n_calls),
              answer.code == row->code && n_calls == row->n_calls && ms >= (double)row->least_ms &&
                  ms <= (double)row->most_ms,
              expected);
}

void table_deadline(struct results *results) {
  struct journal journal;
  journal_init(&journal);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    add_row(results, &journal, &cases[i]);
  }
  journal_fini(&journal);
}
