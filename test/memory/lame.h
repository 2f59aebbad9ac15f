/* lame – calls on a channel of the real core that needs no network: each fails with the status that
 * the channel was made with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_MEMORY_LAME_H
#define WEIR_TEST_MEMORY_LAME_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#define LAME_METHOD "/shop.Cart/Pay"
#define LAME_OTHER_METHOD "/shop.Stock/Look"

/* A channel whose calls fail with UNAVAILABLE, by a policy document; NULL = the defaults. */
weir_channel *lame_channel(const char *policy);

weir_completion_queue *lame_queue(grpc_cq_completion_type type);

/* Shuts it down, drains and destroys it. */
void lame_queue_end(weir_completion_queue *queue, grpc_cq_completion_type type);

#define LAME_OPS 6

/* The tag of a batch, on a queue of any kind. */
struct lame_tag {
  grpc_completion_queue_functor base;
  bool was_started;
  unsigned n_came;
};

/* A call and its outputs. */
struct lame_call {
  weir_call *call;
  grpc_byte_buffer *message;
  grpc_metadata metadata[24];
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_byte_buffer *reply;
  grpc_status_code status; /* 77 until it is known */
  grpc_slice details;
  const char *error_string;
  grpc_op ops[LAME_OPS];
  struct lame_tag tags[LAME_OPS]; /* of the batch that begins with the operation */
};

/* Fills in the operations; `call` is taken over, and may be NULL. With much metadata and a message
 * of several slices, nothing of it has room in a call. */
void lame_call_init(struct lame_call *call, weir_call *made, bool is_large);

weir_call *lame_call_make(weir_channel *channel, weir_completion_queue *queue);

/* Starts operations `from` to `to`, as a batch with the tag of `from`. */
grpc_call_error lame_call_start(struct lame_call *call, size_t from, size_t to);

/* Waits for all tags that are owed: each comes once. */
void lame_call_wait(struct lame_call *call, weir_completion_queue *queue,
                    grpc_cq_completion_type type);

void lame_call_fini(struct lame_call *call);

/* A whole call in one batch, with memory: it ends as the channel says. */
void lame_call_run(weir_channel *channel, weir_completion_queue *queue,
                   grpc_cq_completion_type type);

#endif /* WEIR_TEST_MEMORY_LAME_H */
