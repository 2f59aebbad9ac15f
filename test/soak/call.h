/* call – a call of the client of a soak in batches, moved on by each of its tags; the memory of one
 * is used for many, one after the other.
 *
 * Its tags may come back in any threads, at once. Another thread may cancel it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_CALL_H
#define WEIR_TEST_SOAK_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/weir.h>

#include "test/soak/client.h"
#include "test/soak/tally.h"

#define CALL_OPS 6

/* A batch under way: its address is its tag, and a functor. */
struct call_tag {
  grpc_completion_queue_functor functor; /* the first, and so at the same address */
  struct call *call;
  unsigned line;
  uint32_t n_owed;
  uint32_t n_came;
};

struct call {
  struct client *client;
  weir_completion_queue *queue;
  pthread_mutex_t mutex; /* of all that follows */
  struct tally_call told;
  struct wire *wire;
  weir_call *weir; /* NULL = let go, or there is none */
  struct call_tag tags[CALL_OPS];
  uint32_t n_under_way;
  bool active;
  bool let_go;
  bool closed; /* its side */
  uint32_t n_sent;
  grpc_metadata id;
  grpc_byte_buffer *sent;
  grpc_byte_buffer *received;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code code;
  grpc_slice details;
  const char *error_string;
};

/* `run` NULL = tags are not functors. Half of the functors may be run inline. */
void call_init(struct call *call, struct client *client, weir_completion_queue *queue,
               void (*run)(grpc_completion_queue_functor *functor, int success));
void call_fini(struct call *call);

/* Makes call `id`, and starts its first batches. */
void call_begin(struct call *call, int64_t id);

/* A tag of its has come. True = it was the last; the call is over, and another may begin. */
bool call_on_tag(struct call_tag *tag, bool ok);

/* A tag that is owed; NULL = none is. */
struct call_tag *call_owed(struct call *call);

/* Cancels it, or lets it go, if the time has come for that. */
void call_cancel_if_due(struct call *call, int64_t now_ns);

/* Blames it, and says so, if it has not ended long after its deadline. */
bool call_is_stuck(struct call *call, int64_t now_ns);

#endif /* WEIR_TEST_SOAK_CALL_H */
