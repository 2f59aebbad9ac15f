/* schedule_call – a call as its application sees it: what it has started, and what has come back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_CALL_H
#define WEIR_TEST_STACK_SCHEDULE_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/call.h>

#include "test/stack/schedule_plan.h"
#include "test/stack/schedule_policy.h"
#include "test/support/sent_attempt.h"

struct schedule_world;

#define SCHEDULE_BATCHES 24
#define SCHEDULE_MESSAGE_BYTES 200

/* One replay of what no server saw does not count. */
#define SCHEDULE_ATTEMPTS (SCHEDULE_MAX_ATTEMPTS + 1)

#define SCHEDULE_NOTE_KEY "x-note"
#define SCHEDULE_NOTE_BYTES 40

/* Keys and values of the metadata that a call sends. */
#define SCHEDULE_METADATA_BYTES \
  (sizeof "call-id" - 1 + sizeof "a" - 1 + sizeof SCHEDULE_NOTE_KEY - 1 + SCHEDULE_NOTE_BYTES - 1)

#define SCHEDULE_OP_BIT(type) ((uint8_t)(1u << (type)))

enum tag_kind { TAG_BATCH, TAG_EMPTY, TAG_FOREIGN };

/* What begins everything whose address is a tag; on a queue for callbacks, the functor is run. */
struct owed_tag {
  grpc_completion_queue_functor functor;
  struct schedule_world *world;
  enum tag_kind kind;
  size_t call;
  size_t queue;
  size_t n_owed;
  size_t n_came;
};

struct schedule_batch {
  struct owed_tag tag;
  uint8_t op_types;  /* SCHEDULE_OP_BIT of each */
  uint8_t slot;      /* its first operation's type: the core takes one batch of each at a time */
  bool after_status; /* it was started when the status had come */
  bool success;
  grpc_byte_buffer *sent; /* until the tag has come; so `received` */
  grpc_byte_buffer *received;
};

/* What a peer says next to an attempt. */
struct schedule_peer {
  bool is_stepwise; /* it goes on after the first answer */
  bool connects_late;
  bool reads_late;
  bool headers_first;
  bool has_told_headers;
  uint8_t n_messages; /* still to be said */
  uint8_t n_told;
  uint8_t end; /* which of the ends */
  int64_t gap_ns;
  char from[4]; /* "a1": the call and the attempt, said with everything */
  char bodies[SCHEDULE_MESSAGES][16];
};

struct schedule_call {
  size_t index;
  size_t queue;    /* of the world's */
  weir_call *call; /* NULL: the application has let it go */
  size_t n_shares;
  bool has_parent;
  int64_t deadline_at_ns; /* the nearest of those that were given, and of the policy's */

  struct schedule_plan plan;
  size_t n_planned; /* batches of it that are started */
  bool goes_on;     /* starts the next batch when a tag comes */
  bool reads_on;    /* asks for the next message when one comes */
  bool cancels;     /* when its `last_batch` comes */
  bool lets_go;     /* so, too */
  size_t last_batch;
  bool borrowed; /* its metadata are not counted, and are gone once the tag has come */

  uint8_t started;    /* operations that a call has once */
  uint8_t busy_ops;   /* operations under way that may come again */
  uint8_t busy_slots; /* first operations of batches under way */
  bool any_started;
  bool is_one_batch;
  bool is_starting; /* a batch of it, just now */
  size_t n_messages;
  size_t message_sizes[SCHEDULE_MESSAGES];

  bool is_over; /* cancelled or let go: nothing may be sent any more */

  size_t n_batches;
  struct schedule_batch batches[SCHEDULE_BATCHES];
  struct owed_tag empty;

  grpc_metadata metadata[2];
  char note_key[sizeof SCHEDULE_NOTE_KEY];
  char note[SCHEDULE_NOTE_BYTES];
  bool metadata_held; /* not given back yet */

  /* What came back. */
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code status;
  grpc_slice details;
  const char *error_string;
  bool got_status;
  bool is_stood_in; /* it is a fallback's: the service has failed */
  size_t n_read;    /* messages */
  bool may_lack;    /* one may have gone with a batch that failed */
  bool got_nothing; /* instead of a message: the stream has ended */

  size_t n_attempts;
  struct sent_attempt *attempts[SCHEDULE_ATTEMPTS];
  struct schedule_peer peers[SCHEDULE_ATTEMPTS];
};

/* Makes a call that is told by the next bytes. NULL: there are enough, or it can't be. */
struct schedule_call *schedule_call_make(struct schedule_world *world);

/* Starts the next batch of its plan, if the core would take it now. */
bool schedule_call_start_next(struct schedule_world *world, struct schedule_call *call);

/* Asks for the next message, unless one is asked for. */
void schedule_call_read(struct schedule_world *world, struct schedule_call *call);

/* Where the core may have refused to be asked by weir for the initial metadata, without which it
 * hands out nothing, the application asks for them. */
void schedule_call_ask_metadata(struct schedule_world *world, struct schedule_call *call);

void schedule_call_start_empty(struct schedule_world *world, struct schedule_call *call);

/* Starts something that the core refuses, told by a byte: it has to be refused, with no effect. */
void schedule_call_start_wrong(struct schedule_call *call, uint8_t byte);

/* Asks for a message where the core would refuse that. */
void schedule_call_start_again(const struct schedule_world *world, struct schedule_call *call);

void schedule_call_cancel(struct schedule_call *call, uint8_t byte);

/* Gives back a share; with the last one, the call is let go. */
void schedule_call_unref(struct schedule_world *world, struct schedule_call *call);
void schedule_call_ref(struct schedule_call *call);

/* A batch's tag has come: what came with it is checked, and the application goes on. */
void schedule_call_batch_came(struct schedule_world *world, struct schedule_batch *batch,
                              bool success);

/* Lets go of what the application holds of the call. */
void schedule_call_fini(struct schedule_world *world, struct schedule_call *call);

/* What a call with a parent shares with it: every other one not the deadline. */
uint32_t schedule_call_mask(const struct schedule_call *call);

/* The attempt that was sent last; NULL = none was. */
static inline struct sent_attempt *schedule_call_last(const struct schedule_call *call) {
  return call->n_attempts > 0 ? call->attempts[call->n_attempts - 1] : NULL;
}

/* The nth message that the application sends, of message_sizes[nth] bytes. */
void schedule_call_write_message(const struct schedule_call *call, size_t nth, char *out);

/* What stands in the metadata under SCHEDULE_NOTE_KEY. */
void schedule_call_write_note(const struct schedule_call *call, char out[SCHEDULE_NOTE_BYTES]);

#endif /* WEIR_TEST_STACK_SCHEDULE_CALL_H */
