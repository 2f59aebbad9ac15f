/* exchange – a call, and what it sends and receives, on one side of a benchmark.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_EXCHANGE_H
#define WEIR_BENCH_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>

#include "bench/side.h"

/* A channel and the one queue of its calls, drained by the one thread that starts them. */
struct client {
  const struct side *side;
  void *channel;
  void *queue;
};

void client_init(struct client *client, const struct side *side, const char *target);
void client_fini(struct client *client);

/* The operations of a unary call, by their places in `ops`. */
enum exchange_op {
  SEND_HEADERS,
  SEND_MESSAGE,
  SEND_CLOSE,
  RECV_HEADERS,
  RECV_MESSAGE,
  RECV_STATUS,
  N_OPS
};

/* Its address is the tag of its batches. */
struct exchange {
  grpc_op ops[N_OPS];
  void *call;
  grpc_byte_buffer *request;
  grpc_byte_buffer *response;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code status;
  grpc_slice details;
};

/* `request` (NULL = none yet) is taken over. Nothing is sent yet. */
void exchange_init(struct exchange *exchange, const struct client *client, const char *method,
                   gpr_timespec deadline, grpc_byte_buffer *request);
void exchange_fini(struct exchange *exchange, const struct client *client);

/* Starts a batch of operations that stand side by side. The process ends if it is refused. */
void exchange_start(struct exchange *exchange, const struct client *client,
                    enum exchange_op first_op, size_t n_ops);

/* Waits for the next batch to end, which must have succeeded. */
struct exchange *exchange_await(const struct client *client);

/* The next batch that has ended by `deadline`; NULL: none has. */
struct exchange *exchange_await_until(const struct client *client, gpr_timespec deadline);

#endif /* WEIR_BENCH_EXCHANGE_H */
