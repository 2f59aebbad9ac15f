/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/tables.h"

#include <weir/outcome.h>

#include "examples/demo/journal.h"
#include "examples/demo/service.h"

#define CLIENT_TIMEOUT_NS (5 * WEIR_SECOND_NS)

/* What doc/demo.md says weir makes of B's code, by its number. */
static const grpc_status_code expected[] = {
    [GRPC_STATUS_OK] = GRPC_STATUS_OK,
    [GRPC_STATUS_CANCELLED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNKNOWN] = GRPC_STATUS_UNKNOWN,
    [GRPC_STATUS_INVALID_ARGUMENT] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_DEADLINE_EXCEEDED] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_NOT_FOUND] = GRPC_STATUS_NOT_FOUND,
    [GRPC_STATUS_ALREADY_EXISTS] = GRPC_STATUS_ALREADY_EXISTS,
    [GRPC_STATUS_PERMISSION_DENIED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = GRPC_STATUS_RESOURCE_EXHAUSTED,
    [GRPC_STATUS_FAILED_PRECONDITION] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_ABORTED] = GRPC_STATUS_ABORTED,
    [GRPC_STATUS_OUT_OF_RANGE] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNIMPLEMENTED] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_INTERNAL] = GRPC_STATUS_INTERNAL,
    [GRPC_STATUS_UNAVAILABLE] = GRPC_STATUS_UNAVAILABLE,
    [GRPC_STATUS_DATA_LOSS] = GRPC_STATUS_DATA_LOSS,
    [GRPC_STATUS_UNAUTHENTICATED] = GRPC_STATUS_INTERNAL,
};

static grpc_status_code ask(const struct service *a) {
  const struct caller_options once = {.kind = CALLER_ONCE, .timeout_ns = CLIENT_TIMEOUT_NS};
  struct caller client;
  struct answer answer;
  caller_init(&client, &once, weir__test_server_port(a->server));
  caller_ask(&client, NULL, "42", &answer);
  caller_fini(&client);
  return answer.code;
}

static void add_row(struct results *results, grpc_status_code said, grpc_status_code bare,
                    grpc_status_code weir) {
  json_t *row = json_pack("{s:s, s:s, s:s}", "b", weir_status_code_name(said), "bare",
                          weir_status_code_name(bare), "weir", weir_status_code_name(weir));
  char wanted[64];
  (void)snprintf(wanted, sizeof wanted, "%s, %s", weir_status_code_name(said),
                 weir_status_code_name(expected[said]));
  results_add(results, "translation", row, bare == said && weir == expected[said], wanted);
}

void table_translation(struct results *results) {
  struct journal journal;
  journal_init(&journal);
  const struct caller_options bare = {.kind = CALLER_ONCE, .timeout_ns = CLIENT_TIMEOUT_NS};
  const struct caller_options weir = {
      .kind = CALLER_WEIR, .policy = "boundary.json", .log = &journal.sink};
  struct script script = {.code = GRPC_STATUS_OK, .text = "B says so"};
  struct service b;
  struct service a_bare;
  struct service a_weir;
  service_init_last(&b, &script);
  service_init_relay(&a_bare, &bare, &b, RELAY_DEADLINE_AS_IT_IS);
  service_init_relay(&a_weir, &weir, &b, RELAY_DEADLINE_AS_IT_IS);

  for (int code = GRPC_STATUS_CANCELLED; code <= GRPC_STATUS_UNAUTHENTICATED; code++) {
    script.code = (grpc_status_code)code;
    service_set_script(&b, &script);
    add_row(results, script.code, ask(&a_bare), ask(&a_weir));
  }
  service_fini(&a_weir);
  service_fini(&a_bare);
  service_fini(&b);
  journal_fini(&journal);
}
