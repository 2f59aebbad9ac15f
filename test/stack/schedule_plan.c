/* SPDX-License-Identifier: Apache-2.0 */
#include "test/stack/schedule_plan.h"

#include <string.h>

#include <grpc/grpc.h>

/* What is left to be put into a batch, by type. */
struct left {
  uint8_t n[GRPC_OP_RECV_CLOSE_ON_SERVER];
};

/* In the order that is usual. */
static const uint8_t usual[SCHEDULE_CLIENT_OPS] = {
    GRPC_OP_SEND_INITIAL_METADATA, GRPC_OP_SEND_MESSAGE, GRPC_OP_SEND_CLOSE_FROM_CLIENT,
    GRPC_OP_RECV_INITIAL_METADATA, GRPC_OP_RECV_MESSAGE, GRPC_OP_RECV_STATUS_ON_CLIENT,
};

/* Half-bytes: what is taken next, and whether in a batch of its own. */
struct choices {
  struct schedule_bytes *in;
  uint8_t rest;
  bool has_rest;
};

static uint8_t next_choice(struct choices *choices) {
  choices->has_rest = !choices->has_rest;
  if (!choices->has_rest) {
    return choices->rest;
  }
  uint8_t byte = schedule_bytes_next(choices->in);
  choices->rest = byte >> 4;
  return byte & 15;
}

static struct left left_of_stream(uint8_t byte) {
  struct left left = {{0}};
  bool never_status = (byte & 96) == 96;
  left.n[GRPC_OP_SEND_INITIAL_METADATA] = 1;
  left.n[GRPC_OP_SEND_MESSAGE] = (uint8_t)((byte & 3) + (byte >> 2 & 1));
  left.n[GRPC_OP_SEND_CLOSE_FROM_CLIENT] = (byte & 8) == 0 ? 1 : 0;
  left.n[GRPC_OP_RECV_INITIAL_METADATA] = (byte & 16) == 0 ? 1 : 0;
  left.n[GRPC_OP_RECV_MESSAGE] = (byte & 128) == 0 ? 1 : 2;
  left.n[GRPC_OP_RECV_STATUS_ON_CLIENT] = never_status ? 0 : 1;
  return left;
}

static struct left left_of_unary(uint8_t byte) {
  struct left left = {{0}};
  for (size_t i = 0; i < SCHEDULE_CLIENT_OPS; i++) {
    left.n[usual[i]] = 1;
  }
  if ((byte & 4) != 0) {
    left.n[GRPC_OP_RECV_INITIAL_METADATA] = 0; /* weir asks for it */
  }
  return left;
}

/* Takes one that may come next; false: nothing is left. */
static bool take(struct left *left, uint8_t choice, uint8_t *type_out) {
  uint8_t candidates[SCHEDULE_CLIENT_OPS];
  size_t n = 0;
  for (size_t i = 0; i < SCHEDULE_CLIENT_OPS; i++) {
    bool too_early =
        usual[i] == GRPC_OP_SEND_CLOSE_FROM_CLIENT && left->n[GRPC_OP_SEND_MESSAGE] > 0;
    if (left->n[usual[i]] > 0 && !too_early) {
      candidates[n++] = usual[i];
    }
  }
  if (n == 0) {
    return false;
  }
  *type_out = candidates[choice % n];
  left->n[*type_out]--;
  return true;
}

static bool has(const struct schedule_planned *batch, uint8_t type) {
  for (size_t i = 0; i < batch->n_ops; i++) {
    if (batch->types[i] == type) {
      return true;
    }
  }
  return false;
}

static void add(struct schedule_plan *plan, uint8_t type, bool cut) {
  struct schedule_planned *batch = &plan->batches[plan->n_batches - 1];
  if ((cut && batch->n_ops > 0) || has(batch, type)) {
    batch = &plan->batches[plan->n_batches++];
  }
  batch->types[batch->n_ops++] = type;
}

void schedule_plan_init(struct schedule_plan *plan, struct schedule_bytes *in) {
  memset(plan, 0, sizeof *plan);
  uint8_t shape = schedule_bytes_next(in);
  plan->one_batch = (shape & 3) < 2;
  plan->n_batches = 1;
  struct choices choices = {.in = in};
  struct left left =
      plan->one_batch ? left_of_unary(shape) : left_of_stream(schedule_bytes_next(in));
  bool shuffled = !plan->one_batch || (shape & 56) == 56;
  uint8_t type = 0;
  for (;;) {
    uint8_t choice = shuffled ? next_choice(&choices) : 0;
    if (!take(&left, choice & 7, &type)) {
      return;
    }
    add(plan, type, !plan->one_batch && (choice & 8) != 0);
  }
}
