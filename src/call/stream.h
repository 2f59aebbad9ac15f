/* stream – a call in several batches.
 *
 * Until it commits, what is sent is kept, batches that fail are held back until the status is known,
 * and a failed attempt may be followed by another, on which everything is done again that was done
 * or is under way. From then on each batch goes straight to the core, without a lock
 * (WEIR__CALL_DIRECT).
 *
 * On an attempt after the first, what was sent before is sent by the engine, one message at a time
 * (the pump), before anything newer; what is to be received is asked for anew, each batch of the
 * application's by itself. A batch is over when all its operations are, whoever did them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_STREAM_H
#define WEIR_SRC_CALL_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "src/call/call.h"
#include "src/call/replay.h"

enum weir__stream_phase {
  WEIR__STREAM_UNDER_WAY = 0, /* an attempt takes batches */
  /* none does: what follows the last one is being decided, or waited for */
  WEIR__STREAM_BETWEEN,
  WEIR__STREAM_ENDED
};

enum weir__stream_timer_state {
  WEIR__STREAM_TIMER_OFF = 0,
  WEIR__STREAM_TIMER_AWAITS_START, /* the attempt has not been sent */
  WEIR__STREAM_TIMER_RUNS          /* it cuts the attempt off, unless it is stopped */
};

/* The batches of the engine's own: one with what is sent again, and one each for what the
 * application has not asked for, but the end of an attempt is judged by. */
enum weir__own_batch {
  WEIR__OWN_SENDS = 0,
  WEIR__OWN_INITIAL_METADATA,
  WEIR__OWN_MESSAGE,
  WEIR__OWN_STATUS,
  WEIR__N_OWN_BATCHES
};

/* How far the current attempt is, in bits of operations. */
struct weir__stream_marks {
  uint8_t undone;    /* of the batches that are owed, what it has not done */
  uint8_t failed;    /* what it has done in vain */
  uint8_t asked;     /* what it was asked to receive, ever */
  uint8_t came;      /* of it, what has been received */
  uint8_t unclaimed; /* of it, what the application has not asked for */
};

/* A block of its own, beside the call's. */
struct weir__stream {
  weir_call *call;
  struct weir__completion batches[WEIR__N_CLIENT_OPS]; /* the application's, by slot */
  struct weir__held own[WEIR__N_OWN_BATCHES]; /* by enum weir__own_batch, which is the slot */
  struct weir__timer timer;                   /* of the attempt, see stream_timer.h */
  struct {
    pthread_mutex_t lock; /* taken before the queue's */
    enum weir__stream_phase phase;
    bool committed;  /* this attempt is the last */
    bool overflowed; /* too much to keep: the attempt under way, or the next, is the last */
    bool broken;     /* the core refused a batch of the engine's; the attempt is being cancelled */
    bool ending;     /* a thread has taken it on itself to end the committed call */
    bool ended_here; /* the core is not asked any more */
    /* the application's metadata, which came after the first batch, hold an outer layer's marker */
    bool outer_owns_retries;

    /* The bound on the attempt. */
    enum weir__stream_timer_state timer_state;
    bool timer_was_late; /* and was given some time more */
    bool timed_out;      /* the attempt was cut off */

    uint8_t pending; /* slots of the application's batches that are owed */
    struct weir__stream_marks marks;
    uint8_t n_under_way; /* batches that the core has */
    uint8_t n_own;       /* of them, the engine's own */

    /* The pump. */
    bool pumping;       /* something that is kept has not been sent on this attempt */
    uint8_t sending;    /* operations of the batch under way */
    uint8_t settles;    /* of them, what its event settles of the batches that are owed */
    bool owes_close;    /* a half-close that is waited for, and that the core has not been given */
    bool metadata_sent; /* so far on this attempt, as the following */
    bool half_closed;
    size_t n_messages_sent;
    struct weir__replay replay;
  } guarded;
};

_Static_assert(sizeof(struct weir__stream) <= WEIR__QUEUE_BLOCK_BYTES, "it fits into a block");

/* See weir__slab_owns. */
_Static_assert(offsetof(struct weir__stream, batches) % 16 != 0 &&
                   sizeof(struct weir__completion) % 16 == 0 &&
                   offsetof(struct weir__stream, own) % 16 != 0 &&
                   sizeof(struct weir__held) % 16 == 0,
               "no tag is where a cache line begins");

extern const struct weir__completion_ops weir__stream_ops;

/* Of a batch of the application's. */
static inline struct weir__stream *weir__stream_of(struct weir__completion *completion) {
  return WEIR__CONTAINER_OF(completion - completion->slot, struct weir__stream, batches);
}

/* Makes what a call that is being started needs to be one in several batches. False: there is no
 * memory. Where the core's signals can't be trusted it counts as committed. */
bool weir__stream_open(weir_call *call);

/* Frees it; nothing is under way. */
void weir__stream_release(weir_call *call);

/* Starts a batch that has begun. `now_ns` is needed only where it sends initial metadata. */
grpc_call_error weir__stream_start(weir_call *call, const struct weir__batch *batch,
                                   int64_t now_ns);

/* Does on a fresh attempt what was done or is under way. False: the call has to end with
 * call->outcome; sets the reason. After true the call may be over. */
bool weir__stream_resend(weir_call *call, int64_t now_ns);

/* The call has ended between two attempts: hands out what is owed. */
void weir__stream_end_waiting(weir_call *call);

/* Whether nothing of the call is with the core, so that what came back is the caller's alone. */
bool weir__stream_is_between(const weir_call *call);

#endif /* WEIR_SRC_CALL_STREAM_H */
