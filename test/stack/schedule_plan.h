/* schedule_plan – the batches that an application means to start on a call.
 *
 * Any partition of a client's operations, in any order that the core takes: messages and what they
 * need may come in any batch, but nothing is sent after the half-close.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_STACK_SCHEDULE_PLAN_H
#define WEIR_TEST_STACK_SCHEDULE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/stack/schedule_bytes.h"

#define SCHEDULE_CLIENT_OPS 6
#define SCHEDULE_MESSAGES 4
#define SCHEDULE_PLANNED 12

struct schedule_planned {
  size_t n_ops;
  uint8_t types[SCHEDULE_CLIENT_OPS]; /* each a grpc_op_type */
};

struct schedule_plan {
  bool one_batch; /* weir may take it for a unary call */
  size_t n_batches;
  struct schedule_planned batches[SCHEDULE_PLANNED];
};

void schedule_plan_init(struct schedule_plan *plan, struct schedule_bytes *in);

#endif /* WEIR_TEST_STACK_SCHEDULE_PLAN_H */
