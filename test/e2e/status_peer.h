/* status peer – a server in Python that fails calls with details, and reads what weir makes of
 * them: see status_peer.py.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_STATUS_PEER_H
#define WEIR_TEST_E2E_STATUS_PEER_H

#include <sys/types.h>

struct status_peer {
  pid_t process;
  int port;
  int lifeline; /* it lives until this is closed, by whoever ends first */
};

/* Starts the script, and waits until it listens; fails the test if it does not. To be called before
 * the core has threads. */
void status_peer_start(struct status_peer *peer, const char *script);

/* Ends it, and waits for its end. */
void status_peer_release(struct status_peer *peer);

#endif /* WEIR_TEST_E2E_STATUS_PEER_H */
