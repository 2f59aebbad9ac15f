/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/plan.h"

#include <stddef.h>

#include <weir/clock.h>

#include "test/soak/chance.h"

#define MS(n) ((n)*WEIR_MS_NS)

/* So that calls, faults and gaps of one seed have nothing in common. */
enum { KIND_CALL = 1, KIND_FAULT, KIND_GAP };

static struct chance chance_for(uint64_t seed, uint64_t kind, uint64_t hop, uint64_t number) {
  return chance_of(seed, kind << 56 | hop << 48 | number);
}

const char *plan_shape_name(enum plan_shape shape) {
  static const char *const names[PLAN_N_SHAPES] = {"unary",         "one_batch",     "six_batches",
                                                   "server_stream", "client_stream", "bidi"};
  return names[shape];
}

const char *plan_method(enum plan_shape shape) {
  static const char *const methods[PLAN_N_SHAPES] = {"/soak.Chain/Ask",  "/soak.Chain/Ask",
                                                     "/soak.Chain/Ask",  "/soak.Chain/Watch",
                                                     "/soak.Chain/Tell", "/soak.Chain/Talk"};
  return methods[shape];
}

/* --- calls --- */

static void plan_messages(struct plan *plan, struct chance *chance) {
  plan->size = (uint32_t)chance_below(chance, chance_percent(chance, 10) ? 20000 : 400);
  plan->n_sent = 1;
  plan->n_wanted = 1;
  if (plan->shape == PLAN_SERVER_STREAM) {
    plan->n_wanted = (uint32_t)chance_below(chance, 7);
  } else if (plan->shape == PLAN_CLIENT_STREAM) {
    plan->n_sent = 1 + (uint32_t)chance_below(chance, 6);
  } else if (plan->shape == PLAN_BIDI) {
    plan->n_sent = plan->n_wanted = 1 + (uint32_t)chance_below(chance, 6);
  } else if (chance_percent(chance, 1)) {
    plan->size = 100000 + (uint32_t)chance_below(chance, 200000); /* more than some policies keep */
  }
}

static void plan_time(struct plan *plan, struct chance *chance) {
  uint64_t roll = chance_below(chance, 100);
  if (roll < 10) {
    plan->timeout_ns = chance_between(chance, MS(1), MS(20));
  } else if (roll < 45) {
    plan->timeout_ns = chance_between(chance, MS(20), MS(400));
  } else {
    plan->timeout_ns = chance_between(chance, MS(400), MS(3000));
  }
  if (chance_percent(chance, 8)) {
    plan->cancel_after_ns = 1 + chance_between(chance, 0, MS(40));
    plan->cancels_with_status = chance_percent(chance, 30);
    plan->lets_go = chance_percent(chance, 25);
  }
}

static void plan_answer(struct plan *plan, struct chance *chance) {
  static const grpc_status_code retried[] = {GRPC_STATUS_UNAVAILABLE, GRPC_STATUS_ABORTED};
  static const grpc_status_code final[] = {GRPC_STATUS_NOT_FOUND, GRPC_STATUS_INVALID_ARGUMENT,
                                           GRPC_STATUS_RESOURCE_EXHAUSTED,
                                           GRPC_STATUS_UNAUTHENTICATED, GRPC_STATUS_DATA_LOSS};
  uint64_t roll = chance_below(chance, 100);
  plan->code = retried[chance_below(chance, sizeof retried / sizeof retried[0])];
  plan->n_failures = 1 + (uint32_t)chance_below(chance, 3);
  plan->delay_ns = chance_between(chance, MS(1), MS(60));
  if (roll < 9) {
    plan->answer = PLAN_FLAKY;
  } else if (roll < 12) {
    plan->answer = PLAN_PUSHES_BACK;
    plan->code = GRPC_STATUS_UNAVAILABLE;
  } else if (roll < 13) {
    plan->answer = PLAN_STOPS;
  } else if (roll < 17) {
    plan->answer = PLAN_FAILS;
    plan->code = final[chance_below(chance, sizeof final / sizeof final[0])];
  } else if (roll < 21) {
    plan->answer = PLAN_SLOW;
  } else if (roll < 22) {
    plan->answer = PLAN_SILENT;
    plan->timeout_ns = plan->timeout_ns < MS(200) ? plan->timeout_ns : MS(200);
  } else if (roll < 24) {
    plan->answer = PLAN_FAILS_LATE;
  }
}

static struct plan calm_plan(int64_t id, struct chance *chance) {
  struct plan plan = {.shape = PLAN_BLOCKING,
                      .n_sent = 1,
                      .n_wanted = 1,
                      .size = 100,
                      .timeout_ns = 10 * WEIR_SECOND_NS,
                      .a_channel = (unsigned)(id % PLAN_A_CHANNELS),
                      .a_shape = PLAN_ONE_BATCH};
  plan.size = (uint32_t)chance_below(chance, 400);
  return plan;
}

bool plan_is_blocking(int64_t id) {
  return id % PLAN_BLOCKING_EACH == 0;
}

struct plan plan_of(const struct plans *plans, int64_t id) {
  struct chance chance = chance_for(plans->seed, KIND_CALL, 0, (uint64_t)id);
  struct plan plan = {.shape = PLAN_BLOCKING};
  if (id >= plans->first_calm) {
    return calm_plan(id, &chance);
  }
  uint64_t shape = 1 + chance_below(&chance, PLAN_N_SHAPES - 1);
  plan.shape = plan_is_blocking(id) ? PLAN_BLOCKING : (enum plan_shape)shape;
  plan.channel = (unsigned)chance_below(&chance, PLAN_CLIENT_CHANNELS);
  plan.a_channel = (unsigned)chance_below(&chance, PLAN_A_CHANNELS);
  plan.a_shape = (enum plan_shape)chance_below(&chance, PLAN_SERVER_STREAM);
  plan.a_is_ambient = chance_percent(&chance, 30);
  plan.a_detached = chance_percent(&chance, 3);
  plan.waits_for_ready = chance_percent(&chance, 50);
  plan.registered = chance_percent(&chance, 50);
  plan_time(&plan, &chance);
  plan_answer(&plan, &chance);
  plan_messages(&plan, &chance); /* last: what it takes of chance depends on the shape */
  return plan;
}

/* --- faults --- */

struct fault_share {
  enum proxy_fault fault;
  unsigned percent;
};

static enum proxy_fault pick(struct chance *chance, bool accepting) {
  static const struct fault_share shares[] = {
      {PROXY_FAULT_RST_AT_ACCEPT, 6}, {PROXY_FAULT_SILENCE, 4},  {PROXY_FAULT_DELAY, 18},
      {PROXY_FAULT_THROTTLE, 14},     {PROXY_FAULT_TRICKLE, 10}, {PROXY_FAULT_BLACKHOLE, 10},
      {PROXY_FAULT_ONE_WAY, 10},      {PROXY_FAULT_FIN, 13},     {PROXY_FAULT_RST, 15},
  };
  uint64_t roll = chance_below(chance, 100);
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    if (roll < shares[i].percent) {
      bool at_accept =
          shares[i].fault == PROXY_FAULT_RST_AT_ACCEPT || shares[i].fault == PROXY_FAULT_SILENCE;
      return at_accept && !accepting ? PROXY_FAULT_RST : shares[i].fault;
    }
    roll -= shares[i].percent;
  }
  return PROXY_FAULT_NONE;
}

/* The shape of a long tail: mostly early, now and then late. */
static uint64_t bytes_before(struct chance *chance) {
  return chance_below(chance, UINT64_C(256) << chance_below(chance, 13));
}

void plan_fault(uint64_t seed, unsigned hop, uint64_t number, bool accepting,
                struct proxy_plan *plan_out) {
  struct chance chance = chance_for(seed, KIND_FAULT, hop, number);
  enum proxy_fault fault = pick(&chance, accepting);
  *plan_out = (struct proxy_plan){
      .fault = fault,
      .after_bytes = 1 + bytes_before(&chance),
      .lasts_ns = chance_between(&chance, MS(5), MS(100)),
      .delay_ns = chance_between(&chance, MS(1), MS(30)),
      .n_bytes = 1 + (uint32_t)bytes_before(&chance),
      .direction = (enum proxy_direction)chance_below(&chance, PROXY_N_DIRECTIONS),
      .resets = chance_percent(&chance, 25)};
  if (fault == PROXY_FAULT_THROTTLE) {
    plan_out->delay_ns = MS(1);
  }
}

void plan_gap(uint64_t seed, unsigned hop, uint64_t number, struct proxy_gap *gap_out) {
  struct chance chance = chance_for(seed, KIND_GAP, hop, number);
  gap_out->after_ns = chance_between(&chance, MS(300), MS(3000));
  gap_out->lasts_ns = chance_between(&chance, MS(5), MS(120));
}
