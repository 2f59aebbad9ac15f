/* client – the client of a soak: channels to A, and the threads and queues that make calls by them.
 *
 * Calls are made in phases. In each, so many are made and awaited; between two, all is quiet.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_CLIENT_H
#define WEIR_TEST_SOAK_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "test/soak/ledger.h"
#include "test/soak/plan.h"
#include "test/soak/tally.h"
#include "test/soak/wire.h"

struct lanes;

struct client {
  struct ledger *ledger;
  const struct plans *plans;
  struct tally *tally;
  struct wire wires[PLAN_CLIENT_CHANNELS];
  struct lanes *lanes;
};

/* `port` is the first proxy's. All is borrowed until client_fini. */
void client_init(struct client *client, struct ledger *ledger, const struct plans *plans,
                 struct tally *tally, int port);

/* Ends queues and channels. Nothing is under way. */
void client_fini(struct client *client);

/* Makes calls `first` … `last`, and waits until all have ended. False = one has not, long after its
 * deadline, or a hop has gone (`broken` says so); the client is then as it is. */
bool client_run(struct client *client, int64_t first, int64_t last, bool (*broken)(void *context),
                void *context);

/* No overrides, the first policy everywhere. */
void client_calm(struct client *client);

/* Makes a call of each method on each channel until it succeeds, with ids from `*id` on, which it
 * moves. False, and blamed, if one does not. */
bool client_recover(struct client *client, int64_t *id, int64_t last);

/* Blames what channels count otherwise than it was, and breakers that are not closed. */
void client_judge(struct client *client, int64_t first, int64_t last);

#endif /* WEIR_TEST_SOAK_CLIENT_H */
