/* core_claims – which of the core's channels are in weir's hands, so that none is wrapped twice.
 *
 * A list of the process's environments. It is looked at when a channel is made or ends, never by a
 * call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CHANNEL_CORE_CLAIMS_H
#define WEIR_SRC_CHANNEL_CORE_CLAIMS_H

#include <stdbool.h>

#include <grpc/grpc.h>

#include "src/call/environment.h"

/* Gives an environment without a core's channel this one, which is claimed until
 * weir__core_unclaim. False: another environment has it, and nothing has changed. Any thread. */
bool weir__core_claim(struct weir__environment *environment, grpc_channel *core);

/* Ends the claim. To be done before the core's channel is destroyed: its address may be another's
 * afterwards. Any thread. */
void weir__core_unclaim(struct weir__environment *environment);

#endif /* WEIR_SRC_CHANNEL_CORE_CLAIMS_H */
