/* stream_timer – the bound on one attempt of a call in several batches, perAttemptTimeout.
 *
 * It holds from when the attempt is sent until the peer has answered: a stream that has been
 * answered is never cut by it. The core's deadline of an attempt could not be taken back, so it is
 * a timer of the queue, which holds a share of the call while it is armed. It is disarmed when
 * headers, a message or the status come, or the call is cancelled. When it is due first, the
 * attempt is cancelled in the core: headers that come of it afterwards bind the call to it no more,
 * but a status of the peer's is one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_STREAM_TIMER_H
#define WEIR_SRC_CALL_STREAM_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/policy.h>

#include "src/call/stream.h"

/* An attempt is to come whose time is limited, if the policy says so. */
static inline void weir__stream_timer_renew_locked(struct weir__stream *stream) {
  bool limited = stream->call->plan.method->per_attempt_timeout_ns != WEIR_NO_LIMIT_NS;
  stream->guarded.timer_state = limited ? WEIR__STREAM_TIMER_AWAITS_START : WEIR__STREAM_TIMER_OFF;
  stream->guarded.timed_out = false;
}

/* Of an attempt whose status has come: it is of having been cut off, and not the peer's. */
bool weir__stream_timer_ended(const weir_call *call);

/* Of a stream's timer, and set before it is first armed: another thread may be about to say it for an
 * attempt that is over when the next one arms it. */
void weir__stream_timer_on_due(struct weir__timer *timer, int64_t now_ns);

/* For the following two. */
void weir__stream_timer_arm_locked(struct weir__stream *stream, int64_t sent_at_ns);
void weir__stream_timer_disarm_locked(struct weir__stream *stream);

/* The attempt's metadata have been given to the core. */
static inline void weir__stream_timer_start_locked(struct weir__stream *stream,
                                                   int64_t sent_at_ns) {
  if (stream->guarded.timer_state == WEIR__STREAM_TIMER_AWAITS_START) {
    weir__stream_timer_arm_locked(stream, sent_at_ns);
  }
}

/* The attempt has been answered, or is over. The caller has a share of the call. */
static inline void weir__stream_timer_stop_locked(struct weir__stream *stream) {
  if (stream->guarded.timer_state == WEIR__STREAM_TIMER_RUNS) {
    weir__stream_timer_disarm_locked(stream);
  }
  stream->guarded.timer_state = WEIR__STREAM_TIMER_OFF;
}

/* The call is cancelled, and nothing may come of it any more. With the queue's lock and not the
 * stream's; WEIR__CALL_TIMED is set. True: a share of the call is the caller's now. */
bool weir__stream_timer_cancel(weir_call *call);

#endif /* WEIR_SRC_CALL_STREAM_TIMER_H */
