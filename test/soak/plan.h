/* plan – what a call of a soak is to be, and what is done with it at each hop: the same in each
 * process, for the same seed and call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_PLAN_H
#define WEIR_TEST_SOAK_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/status.h>

#include "test/soak/proxy.h"

#define PLAN_CLIENT_CHANNELS 4
#define PLAN_A_CHANNELS 2

enum plan_shape {
  PLAN_BLOCKING = 0, /* weir_unary */
  PLAN_ONE_BATCH,
  PLAN_SIX_BATCHES,
  PLAN_SERVER_STREAM,
  PLAN_CLIENT_STREAM,
  PLAN_BIDI,
  PLAN_N_SHAPES
};

const char *plan_shape_name(enum plan_shape shape);

/* "/soak.Chain/…", of the shape. The first three are one method. */
const char *plan_method(enum plan_shape shape);

/* What B does. */
enum plan_answer {
  PLAN_ANSWERS = 0,
  PLAN_FLAKY,       /* `n_failures` requests fail, then it works */
  PLAN_PUSHES_BACK, /* likewise, with grpc-retry-pushback-ms */
  PLAN_STOPS,       /* fails, and does not want to be asked again */
  PLAN_FAILS,       /* with what no retry helps */
  PLAN_SLOW,        /* waits before it answers */
  PLAN_SILENT,      /* never answers */
  PLAN_FAILS_LATE   /* after headers, and what messages there are to be but the last */
};

struct plan {
  enum plan_shape shape;
  unsigned channel;
  uint32_t n_sent;   /* messages */
  uint32_t n_wanted; /* messages that come back when all is well */
  uint32_t size;     /* of the bytes of each */
  int64_t timeout_ns;
  int64_t cancel_after_ns; /* 0 = it is not */
  bool cancels_with_status;
  bool lets_go; /* gives its share back instead of cancelling */
  bool waits_for_ready;
  bool registered;

  enum plan_answer answer;
  grpc_status_code code; /* of failures */
  uint32_t n_failures;
  int64_t delay_ns;

  unsigned a_channel;      /* that A asks by */
  enum plan_shape a_shape; /* of what is not a stream */
  bool a_is_ambient;       /* A's inbound is the thread's, and not named */
  bool a_detached;
};

/* Calls from `first_calm` on are such that all must go well once the network does. */
struct plans {
  uint64_t seed;
  int64_t first_calm;
};

struct plan plan_of(const struct plans *plans, int64_t id);

/* Whether a call is PLAN_BLOCKING: each so-many-th is. */
#define PLAN_BLOCKING_EACH 5
bool plan_is_blocking(int64_t id);

/* What a proxy of a hop (0 = before A) does next; for a proxy_planner. */
void plan_fault(uint64_t seed, unsigned hop, uint64_t number, bool accepting,
                struct proxy_plan *plan_out);
void plan_gap(uint64_t seed, unsigned hop, uint64_t number, struct proxy_gap *gap_out);

#endif /* WEIR_TEST_SOAK_PLAN_H */
