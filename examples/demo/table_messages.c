/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/demo/tables.h"

#include <string.h>

#include <weir/report.h>

#include "examples/demo/journal.h"
#include "examples/demo/service.h"

#define CLIENT_TIMEOUT_NS (5 * WEIR_SECOND_NS)
#define SECRET "orders_v2 not found, connecting 10.0.0.5:5432 failed"
#define SEEN_SIZE (2 * ORDERS_TEXT_SIZE + 16)

struct chain {
  struct journal journal;
  struct service b;
  struct service a_bare;
  struct service a_weir;
};

/* One way for B to fail, and what of it must not get past A. */
struct message_case {
  const char *name;
  const char *secret; /* as B, or the core on its behalf, says it; the whole of it is in the log */
  const char *weir;   /* how the message with weir begins */
  enum script_details details;
  enum { B_ANSWERS, B_IS_STOPPED } b;
};

static const struct message_case cases[] = {
    {"application error", SECRET, "downstream service error [ref ", SCRIPT_WITHOUT_DETAILS,
     B_ANSWERS},
    {"B stopped", "ailed to connect", "downstream service: UNAVAILABLE [ref ",
     SCRIPT_WITHOUT_DETAILS, B_IS_STOPPED},
    {"status details", SECRET, "downstream service error [ref ", SCRIPT_WITH_DETAILS, B_ANSWERS},
};

/* All that a client of `a` can read: the message, and the one in the details if there are any. */
static void ask(const struct service *a, char seen_out[SEEN_SIZE]) {
  const struct caller_options once = {.kind = CALLER_ONCE, .timeout_ns = CLIENT_TIMEOUT_NS};
  struct caller client;
  struct answer answer;
  char in_details[ORDERS_TEXT_SIZE];
  caller_init(&client, &once, weir__test_server_port(a->server));
  caller_ask(&client, NULL, "42", &answer);
  caller_fini(&client);
  (void)snprintf(seen_out, SEEN_SIZE, "%s", answer.text);
  if (answer.details_size > 0 &&
      orders_details_decode(answer.details, answer.details_size, in_details)) {
    size_t length = strlen(seen_out);
    (void)snprintf(seen_out + length, SEEN_SIZE - length, "; details: %s", in_details);
  }
}

/* The twelve digits after "[ref "; "" when the text has none. */
static void find_reference(const char *text, char reference_out[WEIR_REFERENCE_LENGTH + 1]) {
  static const char before[] = "[ref ";
  const char *at = strstr(text, before);
  reference_out[0] = '\0';
  if (at != NULL && strlen(at) >= sizeof before - 1 + WEIR_REFERENCE_LENGTH) {
    memcpy(reference_out, at + sizeof before - 1, WEIR_REFERENCE_LENGTH);
    reference_out[WEIR_REFERENCE_LENGTH] = '\0';
  }
}

static void add_row(struct results *results, struct chain *chain, const struct message_case *row) {
  const struct script script = {
      .code = GRPC_STATUS_INTERNAL, .text = SECRET, .details = row->details};
  char bare[SEEN_SIZE];
  char weir[SEEN_SIZE];
  char reference[WEIR_REFERENCE_LENGTH + 1];
  size_t n_before = journal_count(&chain->journal, row->secret, NULL);
  service_set_script(&chain->b, &script);
  if (row->b == B_IS_STOPPED) {
    weir__test_server_stop(chain->b.server);
  }
  ask(&chain->a_bare, bare);
  ask(&chain->a_weir, weir);
  weir__test_server_start(chain->b.server);

  find_reference(weir, reference);
  bool leaks_bare = strstr(bare, row->secret) != NULL;
  bool hidden = strncmp(weir, row->weir, strlen(row->weir)) == 0 &&
                strstr(weir, row->secret) == NULL && strstr(weir, "127.0.0.1") == NULL &&
                strstr(weir, "details") == NULL;
  bool logged = reference[0] != '\0' &&
                journal_count(&chain->journal, row->secret, reference) == 1 &&
                journal_count(&chain->journal, row->secret, NULL) == n_before + 1;
  results_add(results, "messages",
              json_pack("{s:s, s:s, s:s}", "case", row->name, "bare", bare, "weir", weir),
              leaks_bare && hidden && logged,
              logged ? "B's text in bare, and none of it in weir"
                     : "the original once in weir's log, under the reference that the client saw");
}

void table_messages(struct results *results) {
  struct chain chain;
  memset(&chain, 0, sizeof chain);
  journal_init(&chain.journal);
  const struct caller_options bare = {.kind = CALLER_ONCE, .timeout_ns = CLIENT_TIMEOUT_NS};
  const struct caller_options weir = {
      .kind = CALLER_WEIR, .policy = "boundary.json", .log = &chain.journal.sink};

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct script script = {.code = GRPC_STATUS_OK, .text = ""};
    service_init_last(&chain.b, &script);
    service_init_relay(&chain.a_bare, &bare, &chain.b, RELAY_DEADLINE_AS_IT_IS);
    service_init_relay(&chain.a_weir, &weir, &chain.b, RELAY_DEADLINE_AS_IT_IS);
    add_row(results, &chain, &cases[i]);
    service_fini(&chain.a_weir);
    service_fini(&chain.a_bare);
    service_fini(&chain.b);
  }
  journal_fini(&chain.journal);
}
