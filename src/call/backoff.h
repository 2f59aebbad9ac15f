/* backoff – the wait between two attempts of a call, and the start of the next.
 *
 * While it waits, no batch of the call is with the core, and at least one is owed to the
 * application, which holds the call and its queue.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_BACKOFF_H
#define WEIR_SRC_CALL_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "src/call/call.h"

/* A layer wants another attempt at plan.resume_at_ns. False: the call has to end with
 * call->outcome. After true the call may be over. */
bool weir__backoff_begin(weir_call *call, const struct weir_event *event);

/* The wait is over, or the queue is being shut down. */
void weir__backoff_on_due(struct weir__timer *timer, int64_t now_ns);

/* Ends a call whose wait, for a retry or for a fallback, was taken from the queue: it was
 * cancelled. */
void weir__backoff_cancelled(weir_call *call);

#endif /* WEIR_SRC_CALL_BACKOFF_H */
