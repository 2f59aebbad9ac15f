/* fallback – a call in one batch that has failed, and waits for what may stand in for the service.
 *
 * The layers have heard of its end. It waits in its queue as for a retry, with the same timer: who
 * takes that from the queue owns the call's end, be it a thread that drains, a canceller, or the
 * thread that has the answer. That one only puts the call on the ready list; a drainer does the
 * rest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_FALLBACK_H
#define WEIR_SRC_CALL_FALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "src/call/call.h"

/* Asks the channel's fallback, if the policy has it asked about call->outcome, and there is time.
 * False: the call has to end now. After true the call may be over. */
WEIR_MUST_CHECK bool weir__fallback_begin(weir_call *call, const struct weir_event *event);

/* Ends a call whose wait was taken from the queue: it was cancelled. */
void weir__fallback_cancelled(weir_call *call);

/* Ends a call that has its answer, and is about to be handed out. */
void weir__fallback_conclude(weir_call *call);

/* Of a call that has ended, or is just being ended. */
const char *weir__fallback_source(const weir_call *call); /* NULL = no hit */
int64_t weir__fallback_waited_ns(const weir_call *call);

/* The message of a hit: the caller's. */
grpc_byte_buffer *weir__fallback_take_message(weir_call *call);

#endif /* WEIR_SRC_CALL_FALLBACK_H */
