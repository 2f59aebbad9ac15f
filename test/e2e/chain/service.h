/* service – a hop's own server: it asks the next hop, or answers as ordered if there is none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_CHAIN_SERVICE_H
#define WEIR_TEST_E2E_CHAIN_SERVICE_H

#include "test/e2e/chain/journal.h"
#include "test/e2e/chain/next.h"

/* Each serves one request at a time. */
#define SERVICE_THREADS 24

struct service;

/* Starts on a port of the loopback that the system chooses. `next` NULL = the last hop. Both are
 * borrowed until the release. */
struct service *service_new(struct next *next, struct journal *journal);

/* Cancels what is being served, and waits until all is quiet. */
void service_release(struct service *service);

int service_port(const struct service *service);

/* From the next request on. */
void service_set_order(struct service *service, const struct chain_order *order);

#endif /* WEIR_TEST_E2E_CHAIN_SERVICE_H */
