/* scripted_call – a call of the scripted core: what was started on it, and what its peer has
 * answered.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SCRIPTED_CALL_H
#define WEIR_TEST_SUPPORT_SCRIPTED_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "test/support/scripted_queue.h"
#include "test/support/scripted_transport.h"

/* The operations of a client. */
#define SCRIPTED_OPS 6

#define SCRIPTED_MESSAGES 8

/* The address that answers; nothing of it may reach the caller of a boundary call. */
#define SCRIPTED_PEER "ipv4:10.0.0.7:4433"

/* What the scripted core calls its channels. */
#define SCRIPTED_TARGET "dns:///scripted"

enum call_kind { CALL_ATTEMPT, CALL_BELL, CALL_PARENT };

/* How an attempt ended, as far as the surface shows it (see src/outcome/wire_signals.c). */
enum call_end {
  END_NOT = 0,
  END_NEVER_SENT, /* no connection, or over before it was started */
  END_TRAILERS_ONLY,
  END_TRAILERS,
  END_LOST,
  END_UNPROCESSED,
  END_LOCAL, /* a deadline or a cancel in flight */
  END_TOO_LARGE
};

struct published {
  grpc_metadata entries[WIRE_PAIRS];
  size_t count;
};

struct scripted_batch {
  bool in_use;
  bool saw_end; /* it was under way when the call ended */
  bool all_ok;
  bool has_status;
  uint8_t op_types; /* bit n: operation n is in it */
  uint8_t waiting;  /* and has not ended */
  void *tag;
};

struct scripted_call {
  struct scripted_call *next;
  struct scripted_transport *transport;
  struct scripted_queue *queue;
  struct sent_attempt *attempt;
  enum call_kind kind;
  const grpc_call *parent; /* whose cancellation reaches it; NULL = none */
  struct census_context *census;
  size_t n_refs;
  bool was_sent;
  uint8_t once;       /* operations that were started, of those that a call has once */
  bool metadata_done; /* GRPC_OP_RECV_INITIAL_METADATA has ended, which others wait for */
  bool status_done;
  bool cut_short; /* ended by this process when the peer had ended it: nothing waits any more */
  /* A message had come when the call was cut short, and waits for the initial metadata for ever. */
  bool message_stuck;

  bool has_headers;
  enum call_end end;
  int status;
  const char *text;
  size_t text_size;
  char *own_text; /* of a cancellation */
  bool failed_before_recv_message;
  struct published initial;
  struct published trailing;
  const char *messages[SCRIPTED_MESSAGES];
  size_t n_messages;
  size_t n_taken;

  struct scripted_batch batches[SCRIPTED_OPS];
  void *slot_tags[GRPC_OP_RECV_CLOSE_ON_SERVER]; /* of the last batch that began with the type */
  grpc_op ops[GRPC_OP_RECV_CLOSE_ON_SERVER];     /* outputs of what is waiting, by type */
};

struct scripted_call *scripted_call_new(struct scripted_transport *transport, enum call_kind kind,
                                        struct scripted_queue *queue);
void scripted_call_free(struct scripted_call *call);

/* Starts a batch that is not empty. False: the one before it that began with the same operation is
 * under way, or its event has not been taken. */
bool scripted_call_start(struct scripted_call *call, const grpc_op *ops, size_t n_ops, void *tag);

/* The peer answers; ignored when the call has ended. */
void scripted_call_answer(struct scripted_call *call, const struct wire_answer *answer);

/* This process ends the call: a deadline, or a cancellation. `text` is borrowed. Where the peer has
 * ended it, what still waits does not any more. */
void scripted_call_end_locally(struct scripted_call *call, int status, const char *text);

/* Whether the deadline would still make a difference. */
bool scripted_call_has_deadline(const struct scripted_call *call);

#endif /* WEIR_TEST_SUPPORT_SCRIPTED_CALL_H */
