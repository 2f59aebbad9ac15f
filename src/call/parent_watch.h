/* parent_watch – hears that the request being served was cancelled while a call made for it waits
 * for a retry.
 *
 * During a backoff no attempt is under way that the parent's cancellation could reach. So a call
 * that is never sent is made under the same parent, and only its status is asked for: it comes when
 * the parent is cancelled. One is made at the first backoff of a call that has a parent, and serves
 * all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_PARENT_WATCH_H
#define WEIR_SRC_CALL_PARENT_WATCH_H

#include <stdbool.h>

#include <weir/call.h>

struct weir__parent_watch;

/* Watches for `call`, which has a parent, unless it does already. Without memory the parent's
 * cancellation reaches the call when its backoff is over. */
void weir__parent_watch_start(weir_call *call);

/* The call has ended. The watch still holds a share of it until its event has come. */
void weir__parent_watch_stop(weir_call *call);

/* Whether a watch still holds a share of the call. For the thread that drains the call's queue. */
bool weir__parent_watch_is_under_way(const weir_call *call);

/* The last share of the call is gone. */
void weir__parent_watch_free(weir_call *call);

#endif /* WEIR_SRC_CALL_PARENT_WATCH_H */
