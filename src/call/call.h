/* call – what the application started, whatever it takes: the engine's object behind weir_call.
 *
 * A call is one block of its queue's slabs: the structure, and the layers' states behind it.
 * Threads:
 *
 * - What a batch needs is written by the thread that starts it, then by the threads that drain the
 *   queue, one after the other: the core's queue orders them.
 * - `state` is atomic: it decides who starts the first attempt, and tells a canceller whether there
 *   is one.
 * - What a canceller and a retry race for (attempt.core while attempts change, the timer) is
 *   guarded by the queue's lock. The path of a call that needs no retry and is not cancelled does
 *   not take it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_CALL_H
#define WEIR_SRC_CALL_CALL_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/call.h>

#include "src/base/container_of.h"
#include "src/call/attempt.h"
#include "src/call/batch.h"
#include "src/call/environment.h"
#include "src/call/extras.h"
#include "src/call/inbound.h"
#include "src/call/parent_watch.h"
#include "src/call/request.h"
#include "src/call/rules.h"
#include "src/queue/expiry.h"
#include "src/queue/queue.h"

/* Bits of `state`. Each is set once and stays, unless the first batch could not be started: then the
 * call is as if it had not been. */
enum weir__call_state {
  /* a thread has taken it on itself to start the first batch */
  WEIR__CALL_STARTING = 1u << 0,
  /* the first batch was; attempt.core can be seen, unless the call ended at once */
  WEIR__CALL_STARTED = 1u << 1,
  /* `cancellation` is set */
  WEIR__CALL_CANCELLED = 1u << 2,
  /* no attempt is started any more */
  WEIR__CALL_PARENT_CANCELLED = 1u << 3,
  /* a batch of its own waits for the initial metadata of a one-batch call: `awaiting` is set */
  WEIR__CALL_METADATA_AWAITED = 1u << 4,
  /* the outcome, and what the caller sees of it, are set */
  WEIR__CALL_ENDED = 1u << 5,
  /* a call in several batches, each of which goes straight to the core: nothing is written down */
  WEIR__CALL_DIRECT = 1u << 6,
  /* a call in several batches whose timer has been armed, and may be */
  WEIR__CALL_TIMED = 1u << 7,
  /* a call in one batch has failed, and asked the fallback: `asking` is set */
  WEIR__CALL_ASKED = 1u << 8
};

/* The states of `progress`. */
enum weir__progress {
  WEIR__PROGRESS_NONE = 0,
  WEIR__PROGRESS_RUNNING, /* the layers are being told */
  WEIR__PROGRESS_DONE,
  WEIR__PROGRESS_TOLD /* the layers know, but nothing has come on this attempt */
};

/* Where the application wants what is received; NULL = not asked for. */
struct weir__outputs {
  grpc_metadata_array *initial_metadata;
  grpc_byte_buffer **message;
  grpc_metadata_array *trailing_metadata;
  grpc_status_code *status;
  grpc_slice *details;
  const char **error_string;
};

/* What the application cancelled a call with. */
struct weir__cancellation {
  grpc_status_code code;
  char description[]; /* terminated */
};

/* The first attempts as the report tells them, small: a member for each thing that is told, by
 * attempt. */
struct weir__attempt_records {
  uint32_t started_after_us[WEIR_REPORT_ATTEMPTS];
  uint32_t duration_us[WEIR_REPORT_ATTEMPTS];
  uint8_t ends[WEIR_REPORT_ATTEMPTS]; /* code and origin, see weir__attempt_end */
};

#define WEIR__ATTEMPT_CODE_BITS 5
#define WEIR__ATTEMPT_CODE_MASK ((1u << WEIR__ATTEMPT_CODE_BITS) - 1)

static inline uint8_t weir__attempt_end(const struct weir_outcome *outcome) {
  return (uint8_t)((unsigned)outcome->code | (unsigned)outcome->origin << WEIR__ATTEMPT_CODE_BITS);
}

_Static_assert(WEIR_N_STATUS_CODES <= WEIR__ATTEMPT_CODE_MASK + 1 &&
                   (WEIR_ORIGIN_LOCAL_SHUTDOWN << WEIR__ATTEMPT_CODE_BITS) <= UINT8_MAX,
               "a code and an origin fit into a byte");

struct weir__asking; /* src/fallback/asking.h */
struct weir__stream;

struct weir_call {
  weir_completion_queue *queue;
  struct weir__completion batch;         /* of a call in one batch; not at the start */
  struct weir__rules *rules;             /* a share; the call goes by them to its end */
  struct weir__environment *environment; /* theirs */
  weir_inbound *inbound;                 /* NULL = none */

  atomic_uint n_refs;     /* the application's shares together, and one for each batch under way */
  atomic_uint n_app_refs; /* the application's shares */
  atomic_uint state;
  atomic_uint claims;        /* operations and slots that are taken, see claim_batch */
  atomic_uchar progress;     /* of the first response message of a stream: an enum weir__progress */
  atomic_bool limit_hit;     /* a stream's message was larger than the policy allows */
  atomic_bool message_tried; /* a stream has received a message, or the lack of one */
  bool ended_here; /* the outcome is none of an attempt's: what came back is not for the caller */
  /* of a stream's initial metadata once it has come; 0 = it has not */
  atomic_uint initial_capacity;

  /* What the core's call is made with. */
  grpc_call *parent; /* a reference; NULL = none */
  uint32_t propagation_mask;
  bool clamp_counted;      /* the channel's counter knows of plan.deadline_clamped */
  bool detached;           /* from `inbound`, whose deadline does not bind it */
  bool unshared;           /* see weir__call_start_blocking */
  uint8_t fallback_result; /* an enum weir_fallback_result; set before ENDED */
  grpc_slice method;
  _Atomic(struct weir__call_extras *) extras; /* NULL = none */

  struct weir__outputs outputs;
  union {
    struct weir__request request; /* of a call in one batch */
    struct weir__stream *stream;  /* of one in several */
    struct weir__asking *asking;  /* of one in one batch that has ASKED: it sends no more */
  };
  struct weir__attempt attempt;
  struct weir__timer backoff;

  struct weir_plan plan;
  struct weir_outcome outcome; /* of the last attempt, then of the call */
  uint8_t n_admitted;          /* layers that are owed a release */
  uint8_t n_unsettled;         /* layers that have not heard of the outcome */
  bool ended_as_told; /* with `cancellation`, which may also come too late for the outcome */

  struct weir__parent_watch *watch;  /* NULL = none */
  struct weir__completion *awaiting; /* see METADATA_AWAITED */
  /* set before CANCELLED; NULL with it = a plain one, or there was no memory */
  struct weir__cancellation *cancellation;

  /* The end. What the caller sees is in the attempt: the response, or weir's words in its place. */
  int64_t attempts_ns; /* of the attempts that are over */
  int64_t backoff_ns;  /* of the waits that are over, as far as they were asked for */
  uint16_t n_sent;     /* attempts that were started */
  uint8_t n_records;
  char reference[WEIR_REFERENCE_LENGTH + 1];
  struct weir__attempt_records records;

  alignas(int64_t) unsigned char layer_states[];
};

/* What is left in a block for the states of the layers. */
#define WEIR__CALL_STATES_BYTES (WEIR__QUEUE_BLOCK_BYTES - offsetof(struct weir_call, layer_states))

/* What a call is made of. */
struct weir__call_arguments {
  struct weir__rules *rules; /* a share; taken over when the call is made */
  weir_completion_queue *queue;
  grpc_call *parent;
  uint32_t propagation_mask;
  grpc_slice method;
  const grpc_slice *host;           /* NULL = the channel's */
  struct weir__call_extras *extras; /* of a registered method, then `host` is NULL; or NULL */
  int64_t deadline_at_ns;
  weir_inbound *inbound; /* whose server's call is `parent`, if the application gave no other */
  bool detached;         /* from it */
};

/* NULL when there is no memory. */
weir_call *weir__call_new(const struct weir__call_arguments *arguments);

static inline struct weir_event weir__call_event_at(const weir_call *call, int64_t now_ns) {
  return (struct weir_event){.now_ns = now_ns, .random = call->environment->random};
}

/* What the application has cancelled the call with; NULL = it has not, or it gave nothing. Any
 * thread. */
static inline const struct weir__cancellation *weir__call_cancellation(const weir_call *call) {
  /* acquire: pairs with the canceller's release of CANCELLED */
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  return (state & WEIR__CALL_CANCELLED) != 0 ? call->cancellation : NULL;
}

/* Sets bits of the state, and returns what it was. release: what was done before, for who sees them;
 * acquire: what others did who have set theirs */
static inline unsigned weir__call_state_add(weir_call *call, unsigned bits) {
  if (call->unshared) {
    unsigned state = atomic_load_explicit(&call->state, memory_order_relaxed);
    atomic_store_explicit(&call->state, state | bits, memory_order_relaxed);
    return state;
  }
  return atomic_fetch_or_explicit(&call->state, bits, memory_order_acq_rel);
}

/* --- call.c --- */

/* Makes the plan of a call that is not started, in zeroed memory, with the deadline that was given to
 * it. */
void weir__call_init_plan(weir_call *call, int64_t deadline_at_ns);

/* Frees what was kept to be sent again. */
void weir__call_drop_request(weir_call *call);

/* The last share of the call is gone. */
void weir__call_end_of_life(weir_call *call);

/* Gives back a share that is not the application's; the last one frees the call. */
static inline void weir__call_release(weir_call *call) {
  /* acq_rel: all that was done with the call comes before its end */
  if (atomic_fetch_sub_explicit(&call->n_refs, 1, memory_order_acq_rel) == 1) {
    weir__call_end_of_life(call);
  }
}

/* Makes an end of this process's own the call's outcome. */
void weir__call_set_local_outcome(weir_call *call, enum weir_origin origin, int64_t now_ns);

/* The parent was cancelled: ends the call if it waits for a retry. */
void weir__call_parent_cancelled(weir_call *call);

/* What holds for the call's method. It needs nothing of the plan. */
const struct weir_method_policy *weir__call_method_policy(const weir_call *call);

/* When an attempt that begins at `now_ns` has to be over. */
int64_t weir__call_attempt_deadline_at_ns(const weir_call *call, int64_t now_ns);

/* A core's call for an attempt that has to be over at `deadline_at_ns`. */
grpc_call *weir__call_create_core(const weir_call *call, int64_t deadline_at_ns);

/* A core's call that is never sent: it only hears of the parent's cancellation. */
grpc_call *weir__call_create_unsent(const weir_call *call);

/* Cancels an attempt as the application has cancelled the call. */
void weir__call_cancel_core(const weir_call *call, grpc_call *core);

/* What weir says to the next hop with the attempt that begins at `now_ns`. */
struct weir__request_headers weir__call_headers(const weir_call *call, int64_t now_ns);

/* Notes that an attempt is about to be sent. */
void weir__call_begin_attempt(weir_call *call, int64_t now_ns);

/* Whether it is weir that cuts an attempt of the call off when its time is up: a timer of the core's,
 * armed and cancelled for each call, costs more than the four layers do. A stream's are the core's,
 * and those of a call whose parent's deadline only the core knows. */
static inline bool weir__call_keeps_time(const weir_call *call) {
  return call->environment->keeps_time && call->plan.shape == WEIR_CALL_SHAPE_ONE_BATCH &&
         (call->parent == NULL || (call->propagation_mask & GRPC_PROPAGATE_DEADLINE) == 0);
}

/* The call's attempt, which a canceller can see, is cut off when its time is up. */
void weir__call_watch_time(weir_call *call);

/* Notes that the current attempt is over, of which no status has come. */
static inline void weir__call_note_attempt_time(weir_call *call, int64_t now_ns) {
  call->attempts_ns += now_ns - call->plan.attempted_at_ns;
}

/* What had come of an attempt when its status did. Of a stream, other threads may be handing it
 * out. */
struct weir__arrivals {
  size_t initial_capacity; /* of the array of the initial metadata; 0 = it has not come */
  bool message;            /* at least one */
  bool message_asked;      /* something has come where one was asked for, if only the end */
  bool limit_exceeded;     /* and one was larger than the policy allows */
  bool timed_out;          /* the status is of a stream's attempt that was cut off */
};

/* The attempt's status has come: makes call->outcome of it. */
void weir__call_classify(weir_call *call, const struct weir__arrivals *arrivals, int64_t now_ns);

/* Whether the batch's message is larger than the policy lets through. */
bool weir__call_request_too_large(const weir_call *call, const struct weir__batch *batch);

grpc_call_error weir__call_error_of(enum weir_error error);

/* A batch's tag is owed from here on; `completion` is filled in. As weir__queue_begin. */
WEIR_MUST_CHECK static inline enum weir_error
weir__call_begin_batch(weir_call *call, struct weir__completion *completion, void *tag) {
  enum weir_error error = weir__queue_begin(call->queue, completion, tag);
  if (error == WEIR_OK) {
    /* relaxed: the caller has a share */
    (void)atomic_fetch_add_explicit(&call->n_refs, 1, memory_order_relaxed);
  }
  return error;
}

/* A batch was begun, but nothing came of it. */
void weir__call_abandon_batch(weir_call *call);

/* Lets a batch go whose event is for the application, but for its success: the call may be gone
 * afterwards. */
static inline void weir__call_let_go(weir_call *call, struct weir__completion *completion,
                                     grpc_event *event_out) {
  event_out->type = GRPC_OP_COMPLETE;
  event_out->tag = completion->app_tag;
  (void)atomic_fetch_and(&call->claims, ~(WEIR__CLAIM_SLOT(completion->slot) |
                                          WEIR__CLAIM_AGAIN(completion->op_types)));
  weir__call_release(call);
}

/* Fills in the event of a batch that is over, and lets the batch go: the call may be gone
 * afterwards. */
void weir__call_hand_over(weir_call *call, struct weir__completion *completion, bool core_ok,
                          grpc_event *event_out);

/* The same of a batch of a call in one batch, or beside it, that the core never got. */
void weir__call_hand_over_ready(weir_call *call, struct weir__completion *completion,
                                grpc_event *event_out);

/* --- start.c --- */

/* Starts a new call that only the calling thread knows of, with a batch by weir__batch_of_unary and
 * the call as its tag. `*over_out`: it was over at once, and what came of it is handed out; its tag
 * does not come. The queue is open, and only the calling thread drains it.
 *
 * Until it is sent, or another is asked, the call is unshared: the queue owes no tag, and no step
 * has to be seen by others. On an error it can only be let go. */
grpc_call_error weir__call_start_blocking(weir_call *call, const struct weir__batch *batch,
                                          bool *over_out);

/* --- end.c: how a call ends, and what the caller sees of it --- */

/* The call has ended with `call->outcome`: tells the layers that have not heard, frees what they
 * hold, and makes what the caller is to see. Exactly once a call, by the thread that owns its end.
 * Sets ENDED. */
void weir__call_end(weir_call *call, const struct weir_event *event);

/* The same for a call in one batch, which may have failed. False: a fallback has been asked, and the
 * call ends with the answer, or without; it may be over. */
WEIR_MUST_CHECK bool weir__call_end_or_ask(weir_call *call, const struct weir_event *event);

/* The second half of the end: makes what the caller is to see. */
void weir__call_conclude(weir_call *call, const struct weir_event *event);

/* Hands a batch's outputs to the application, and says whether its event is a success. `core_ok`:
 * what the core said, or false for a batch that never got there. */
bool weir__call_hand_out(weir_call *call, uint8_t op_types, bool core_ok);

#endif /* WEIR_SRC_CALL_CALL_H */
