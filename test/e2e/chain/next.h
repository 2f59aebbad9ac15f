/* next – the hop behind this one, and how it is asked: over weir, or over the core alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_CHAIN_NEXT_H
#define WEIR_TEST_E2E_CHAIN_NEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/e2e/chain/journal.h"

struct next;

/* `policy` is a document; NULL = without weir: nothing is retried, and no marker passed on. A policy
 * that can't be read ends the process. */
struct next *next_new(int port, const char *policy, struct journal *journal);
void next_release(struct next *next);

/* A request as its server has it in hand. All is borrowed. */
struct served {
  const grpc_call_details *details;
  const grpc_metadata_array *metadata;
  grpc_call *call;
  weir_inbound *inbound; /* made when it arrived */
  int64_t root;
};

/* What to answer the caller. It stays where it is until next_answer_fini: `status` points into
 * it. */
struct next_answer {
  grpc_op status;
  struct weir_reply reply;
  grpc_slice text;
  grpc_byte_buffer *message; /* NULL on failure */
};

/* An answer that is nobody else's. */
void next_answer_init(struct next_answer *answer, grpc_status_code code, grpc_slice text);
void next_answer_fini(struct next_answer *answer);

/* Asks for the request being served, by its method, and waits. `message` loses its bytes. With weir,
 * a call for CHAIN_FINISH is detached, and asks by CHAIN_ASK. */
void next_ask(struct next *next, const struct served *served, grpc_byte_buffer *message,
              struct next_answer *answer_out);

/* Asks for a stream; with weir only. Each message is given to `pass`, which keeps nothing of it and
 * returns false when no more are wanted. */
typedef bool next_pass_fn(void *context, grpc_byte_buffer *message);
void next_watch(struct next *next, const struct served *served, grpc_byte_buffer *message,
                next_pass_fn *pass, void *context, struct next_answer *answer_out);

#endif /* WEIR_TEST_E2E_CHAIN_NEXT_H */
