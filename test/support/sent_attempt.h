/* sent_attempt – what was seen of a call of the core that was sent, and how it will be answered.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SUPPORT_SENT_ATTEMPT_H
#define WEIR_TEST_SUPPORT_SENT_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/census.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "test/support/script.h"

#define SENT_PAIRS 40
#define SENT_TEXT 80
#define SENT_MESSAGES 16

/* How far an operation of an attempt is. */
enum sent_result { SENT_NOT = 0, SENT_UNDER_WAY, SENT_OK, SENT_FAILED };

/* What the transport shows of a call of the core that was sent; it outlives the call. */
struct sent_attempt {
  struct sent_attempt *next;
  int64_t sent_at_ns;
  int64_t deadline_at_ns;
  int64_t ended_at_ns;
  char path[SENT_TEXT];
  size_t n_metadata;
  char *message; /* all that was sent, one message after the other */
  size_t message_size;
  size_t n_messages;
  size_t message_ends[SENT_MESSAGES]; /* of the first of them, in `message` */
  uint32_t metadata_flags;
  uint32_t message_flags;
  grpc_compression_algorithm compression;
  char host[SENT_TEXT]; /* "" = the channel's */
  const grpc_call *parent;
  bool registered; /* made by a registered call's handle */
  const grpc_call_credentials *credentials;
  const struct census_context *census;
  bool half_closed;
  bool is_connecting; /* what is sent waits for a connection */
  bool cancelled;
  bool released;
  grpc_status_code cancel_code;

  /* By type, the last of each; and for each message that was sent. */
  enum sent_result results[GRPC_OP_RECV_CLOSE_ON_SERVER];
  enum sent_result message_results[SENT_MESSAGES];
  bool has_headers;  /* they have come */
  size_t n_received; /* messages that have come */
  bool ended;        /* with `status`, as on the wire */
  bool ended_here;   /* by a deadline or a cancellation */
  bool never_sent;   /* and there was no connection until then */
  bool unprocessed;  /* no server has seen it */
  int status;

  /* When it will be answered, and how: set by scripted_transport_always, or by a hook. */
  bool will_answer;
  int64_t answer_at_ns;
  struct wire_answer answer;
  bool holds_sends;  /* messages, and what follows them, wait for WIRE_READ or the end */
  bool held_are_out; /* those that wait at the end had been written: they succeed */
  void *user;        /* of the hooks */

  char *values; /* of the metadata, one behind the other */
  struct {
    char key[SENT_TEXT];
    const char *value; /* terminated */
    size_t value_size;
  } metadata[SENT_PAIRS]; /* in the order sent; the last member, since it is not zeroed */
};

/* NULL when there is no memory. */
struct sent_attempt *sent_attempt_new(void);
void sent_attempt_free(struct sent_attempt *attempt);

/* The value of a key that was sent, or NULL; fails when it was sent twice. */
const char *sent_attempt_value(const struct sent_attempt *attempt, const char *key);

/* Notes the operation's metadata, and takes its message as the core does: the buffer loses its
 * slices. */
void sent_attempt_note_metadata(struct sent_attempt *attempt, const grpc_op *op);
void sent_attempt_take_message(struct sent_attempt *attempt, const grpc_op *op);

/* Copies a slice that has to fit, terminated. */
void sent_attempt_copy_text(char out[SENT_TEXT], grpc_slice slice);

#endif /* WEIR_TEST_SUPPORT_SENT_ATTEMPT_H */
