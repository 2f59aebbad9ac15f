/* asker – what A does with a request: it asks B, by weir, and answers what comes of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_ASKER_H
#define WEIR_TEST_SOAK_ASKER_H

#include <stdint.h>

#include "test/soak/ledger.h"
#include "test/soak/plan.h"
#include "test/soak/service.h"

struct asker;

/* `ledger` and `plans` are borrowed until the release. */
struct asker *asker_new(struct ledger *ledger, const struct plans *plans, int port);
void asker_release(struct asker *asker);

/* A service's handler; its context is the asker. */
void asker_serve(void *context, struct served *served);

/* Puts another policy in force on one of the channels. */
void asker_swap(struct asker *asker);

/* The first policy on all channels. */
void asker_calm(struct asker *asker);

/* Of its channels. */
void asker_blame_open_breakers(struct asker *asker);

/* What its channels count, blamed where it is not what was done. Nothing is under way. */
void asker_judge(struct asker *asker);

#endif /* WEIR_TEST_SOAK_ASKER_H */
