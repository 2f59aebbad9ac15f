/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/client.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include <grpc/byte_buffer.h>

#include <weir/weir.h>

#include "test/soak/blocking.h"
#include "test/soak/chance.h"
#include "test/soak/lanes.h"
#include "test/soak/message.h"

/* From when the network is well: for the core to connect again, and for two breakers in a row. */
#define RECOVERY_LIMIT_NS (WEIR_SECOND_NS * 60)
#define RECOVERY_PAUSE_TURNS 8
#define RECOVERY_CALLS 3 /* a half-open breaker wants as many */

#define LOOK_EACH_NS WEIR_SECOND_NS

/* --- a fallback --- */

/* Mostly it has something for the request; at times nothing, and at times what is no answer. */
static enum weir_fallback_found find(void *context, const struct weir_fallback_request *request,
                                     struct weir_fallback_answer *answer) {
  struct message message;
  (void)context;
  if (request->message == NULL || !message_read(request->message, &message)) {
    return WEIR_FALLBACK_FOUND_NOTHING;
  }
  struct chance chance = chance_of(message.id, MESSAGE_KEPT);
  if (chance_percent(&chance, 20)) {
    return WEIR_FALLBACK_FOUND_NOTHING;
  }
  message.kind = MESSAGE_KEPT;
  answer->message = message_new(&message);
  answer->source = chance_percent(&chance, 10) ? NULL : "kept";
  return WEIR_FALLBACK_FOUND;
}

/* --- the client --- */

void client_init(struct client *client, struct ledger *ledger, const struct plans *plans,
                 struct tally *tally, int port) {
  struct weir_fallback fallback = WEIR_FALLBACK_INIT;
  fallback.ask = find;
  client->ledger = ledger;
  client->plans = plans;
  client->tally = tally;
  for (size_t i = 0; i < PLAN_CLIENT_CHANNELS; i++) {
    wire_init(&client->wires[i], port, client_policies, POLICIES_CLIENT,
              i % 2 == 0 ? &fallback : NULL);
  }
  client->lanes = lanes_new(client);
}

void client_fini(struct client *client) {
  lanes_release(client->lanes);
  for (size_t i = 0; i < PLAN_CLIENT_CHANNELS; i++) {
    wire_fini(&client->wires[i]);
  }
}

bool client_run(struct client *client, int64_t first, int64_t last, bool (*broken)(void *context),
                void *context) {
  lanes_begin(client->lanes, first, last);
  while (!lanes_await(client->lanes, LOOK_EACH_NS)) {
    if (lanes_are_stuck(client->lanes) || broken(context)) {
      return false;
    }
  }
  return true;
}

void client_calm(struct client *client) {
  lanes_calm(client->lanes);
  for (size_t i = 0; i < PLAN_CLIENT_CHANNELS; i++) {
    wire_swap(&client->wires[i], 0);
    if (weir_channel_set_breaker_override(client->wires[i].channel, NULL,
                                          WEIR_BREAKER_OVERRIDE_NONE) != WEIR_OK) {
      ledger_blame(client->ledger, 0, LEDGER_CLIENT, "an override of channel %zu stays", i);
    }
  }
}

/* True: the chain has answered. Where a breaker is open, a fallback may. */
static bool try(struct client *client, unsigned channel, enum plan_shape shape, int64_t id) {
  struct tally_call call = blocking_plan(client, id);
  call.plan.channel = channel;
  call.plan.shape = shape;
  return blocking_run(client, &call) == GRPC_STATUS_OK && !call.by_fallback;
}

/* Calls of a method on a channel until some have succeeded in a row, by each of A's channels. */
static bool recover(struct client *client, unsigned channel, enum plan_shape shape, int64_t *id,
                    int64_t last) {
  int64_t limit_at_ns = ledger_now_ns() + RECOVERY_LIMIT_NS;
  unsigned n_well = 0;
  while (n_well < RECOVERY_CALLS * PLAN_A_CHANNELS) {
    if (*id > last || ledger_now_ns() > limit_at_ns) {
      ledger_blame(client->ledger, *id - 1, LEDGER_CLIENT,
                   "the network is well, and %s on channel %u is not", plan_method(shape), channel);
      return false;
    }
    if (try(client, channel, shape, (*id)++)) {
      n_well++;
      continue;
    }
    n_well = 0;
    for (unsigned i = 0; i < RECOVERY_PAUSE_TURNS; i++) {
      lanes_await_turn(client->lanes);
    }
  }
  return true;
}

bool client_recover(struct client *client, int64_t *id, int64_t last) {
  bool well = true;
  for (unsigned channel = 0; channel < PLAN_CLIENT_CHANNELS && well; channel++) {
    for (enum plan_shape shape = PLAN_SIX_BATCHES; shape < PLAN_N_SHAPES && well; shape++) {
      well = recover(client, channel, shape, id, last);
    }
  }
  return well;
}

void client_judge(struct client *client, int64_t first, int64_t last) {
  tally_judge_calls(client->tally, first, last);
  for (unsigned i = 0; i < PLAN_CLIENT_CHANNELS; i++) {
    tally_judge_channel(client->tally, i, &client->wires[i]);
    wire_blame_open_breakers(&client->wires[i], i, LEDGER_CLIENT, client->ledger);
  }
}
