/* reconnect – has the core connect again, in time for the breaker's probes.
 *
 * The core waits longer and longer between its tries to connect, up to two minutes, and fails every
 * call meanwhile. A probe that falls into such a wait asks nobody, and keeps the breaker open for
 * another openFor though the server may be back. So a refused call that is told that a probe is near
 * ends the wait, and a probe does: the next one then finds what there is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_RECONNECT_H
#define WEIR_SRC_CALL_RECONNECT_H

#include <stdint.h>

#include "src/call/call.h"

/* When the layers were asked about a call's first attempt, and the breaker was not closed. */
void weir__reconnect_for_probe(weir_call *call, int64_t now_ns);

#endif /* WEIR_SRC_CALL_RECONNECT_H */
