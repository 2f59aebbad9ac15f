/* caller – one service's way of calling another: the bare core, with or without retries, or weir.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EXAMPLES_DEMO_CALLER_H
#define WEIR_EXAMPLES_DEMO_CALLER_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include <weir/channel.h>
#include <weir/log.h>
#include <weir/report.h>

#include "examples/demo/orders.h"

#define CALLER_DETAILS_SIZE 512

enum caller_kind {
  CALLER_ONCE = 0,     /* the bare core, one try */
  CALLER_LOOP,         /* the bare core in a hand-written loop of three tries */
  CALLER_CORE_RETRIES, /* the bare core with its own retries, by the service config in `policy` */
  CALLER_WEIR          /* weir, by the policy in `policy` */
};

struct caller_options {
  enum caller_kind kind;
  const char *policy; /* a file of examples/demo */
  int64_t timeout_ns; /* given to each call on the bare core; weir's is in its policy */
  const struct weir_log_sink *log; /* weir's; borrowed until caller_fini */
};

struct caller {
  struct caller_options options;
  grpc_channel *core;
  weir_channel *weir;
};

/* The request that a service serves while it calls. */
struct caller_inbound {
  const grpc_call_details *details;
  const grpc_metadata_array *metadata;
  grpc_call *call;
};

/* How a call ended, for the one who made it. */
struct answer {
  grpc_status_code code;
  char text[ORDERS_TEXT_SIZE];          /* grpc-message */
  char state[ORDERS_TEXT_SIZE];         /* of the order, when OK */
  uint8_t details[CALLER_DETAILS_SIZE]; /* grpc-status-details-bin */
  size_t details_size;
  struct weir_call_report report; /* weir's; size 0 = the call went by the bare core */
};

void caller_init(struct caller *caller, const struct caller_options *options, int port);
void caller_fini(struct caller *caller);

/* Asks for an order and waits for the answer. `inbound` NULL = nobody is being served. Any
 * thread. */
void caller_ask(const struct caller *caller, const struct caller_inbound *inbound, const char *id,
                struct answer *answer_out);

#endif /* WEIR_EXAMPLES_DEMO_CALLER_H */
