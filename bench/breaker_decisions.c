/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/decisions.h"

#include <stdlib.h>
#include <string.h>

#include <weir/breaker.h>
#include <weir/clock.h>
#include <weir/interceptor.h>

#include "bench/require.h"
#include "interceptors/breaker/breaker_layer.h"
#include "src/base/random.h"
#include "src/time/clock.h"

#define SERIES 1000

/* Of the clock that is not read: what passes from one operation to the next. */
#define STEP_NS 100

#define FOR_EVER_NS (INT64_C(1000000) * WEIR_SECOND_NS)

struct guard {
  weir_breaker *breaker;
  weir_interceptor *layer; /* instead */
  const struct weir_clock *clock;
  const struct weir_random *random;
  int64_t now_ns; /* when the next series begins, without a clock */
};

static const char path[] = "/bench.Service/Unary";

static struct guard *guard_new(void) {
  struct guard *guard = require_memory(1, sizeof *guard);
  guard->clock = weir__clock_or_default(NULL);
  guard->random = weir__random_or_default(NULL);
  guard->now_ns = weir__clock_now_ns(guard->clock);
  return guard;
}

static void guard_free(void *state) {
  struct guard *guard = state;
  weir_breaker_free(guard->breaker);
  if (guard->layer != NULL) {
    guard->layer->vtable->destroy(guard->layer);
  }
  free(guard);
}

/* --- the breaker by itself --- */

static struct guard *breaker_guard_new(uint32_t min_requests) {
  struct guard *guard = guard_new();
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  options.min_requests = min_requests;
  options.open_for_ns = FOR_EVER_NS;
  options.max_open_for_ns = FOR_EVER_NS;
  require(weir_breaker_new(&options, NULL, &guard->breaker) == WEIR_OK, "no breaker");
  return guard;
}

static void *setup_closed(void) {
  return breaker_guard_new(5);
}

static void *setup_never_tripping(void) {
  return breaker_guard_new(UINT32_MAX);
}

static void *setup_open(void) {
  struct guard *guard = breaker_guard_new(1);
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  require(weir_breaker_admit(guard->breaker, guard->now_ns, guard->random, &ticket, &view) ==
              WEIR_ADMISSION_PROCEED,
          "a new breaker refuses");
  weir_breaker_settle(guard->breaker, &ticket, WEIR_BREAKER_VERDICT_FAILURE, guard->now_ns,
                      guard->random, &view);
  require(view.state == WEIR_BREAKER_OPEN, "a breaker does not open");
  return guard;
}

/* Inlined into each of its series, where `verdict` is known. */
static inline void admit_settle_once(const struct guard *guard, int64_t now_ns,
                                     enum weir_breaker_verdict verdict) {
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  (void)weir_breaker_admit(guard->breaker, now_ns, guard->random, &ticket, &view);
  weir_breaker_settle(guard->breaker, &ticket, verdict, now_ns, guard->random, &view);
}

static void run_admit_settle_without_clock(void *state, uint32_t n_times) {
  const struct guard *guard = state;
  int64_t now_ns = guard->now_ns;
  for (uint32_t i = 0; i < n_times; i++, now_ns += STEP_NS) {
    admit_settle_once(guard, now_ns, WEIR_BREAKER_VERDICT_SUCCESS);
  }
}

static void run_admit_settle(void *state, uint32_t n_times) {
  const struct guard *guard = state;
  for (uint32_t i = 0; i < n_times; i++) {
    admit_settle_once(guard, weir__clock_now_ns(guard->clock), WEIR_BREAKER_VERDICT_SUCCESS);
  }
}

static void run_admit_fail(void *state, uint32_t n_times) {
  const struct guard *guard = state;
  int64_t now_ns = guard->now_ns;
  for (uint32_t i = 0; i < n_times; i++, now_ns += STEP_NS) {
    admit_settle_once(guard, now_ns, WEIR_BREAKER_VERDICT_FAILURE);
  }
}

static void run_refuse(void *state, uint32_t n_times) {
  const struct guard *guard = state;
  int64_t now_ns = guard->now_ns;
  struct weir_breaker_ticket ticket;
  struct weir_breaker_view view;
  uint32_t n_refused = 0;
  for (uint32_t i = 0; i < n_times; i++, now_ns += STEP_NS) {
    n_refused += weir_breaker_admit(guard->breaker, now_ns, guard->random, &ticket, &view) ==
                 WEIR_ADMISSION_REFUSE;
  }
  require(n_refused == n_times, "an open breaker lets a call through");
}

static void run_clock_read(void *state, uint32_t n_times) {
  struct guard *guard = state;
  int64_t sum_ns = 0;
  for (uint32_t i = 0; i < n_times; i++) {
    sum_ns += weir__clock_now_ns(guard->clock);
  }
  require(sum_ns != 0, "the clock stands still");
}

/* A series without a clock begins where the last has ended. Of two threads both begin there. */
static void advance(void *state) {
  struct guard *guard = state;
  guard->now_ns += (int64_t)SERIES * STEP_NS;
}

const struct operation breaker_admit_settle_without_clock = {
    .name = "breaker.admit_settle_without_clock",
    .series_length = SERIES,
    .setup = setup_closed,
    .prepare = advance,
    .run = run_admit_settle_without_clock,
    .teardown = guard_free,
};

const struct operation breaker_admit_settle = {
    .name = "breaker.admit_settle",
    .series_length = SERIES,
    .setup = setup_closed,
    .run = run_admit_settle,
    .teardown = guard_free,
};

const struct operation breaker_admit_fail = {
    .name = "breaker.admit_fail",
    .series_length = SERIES,
    .setup = setup_never_tripping,
    .prepare = advance,
    .run = run_admit_fail,
    .teardown = guard_free,
};

const struct operation breaker_refuse = {
    .name = "breaker.refuse",
    .series_length = SERIES,
    .setup = setup_open,
    .prepare = advance,
    .run = run_refuse,
    .teardown = guard_free,
};

const struct operation clock_read = {
    .name = "clock.read",
    .series_length = SERIES,
    .setup = setup_closed,
    .run = run_clock_read,
    .teardown = guard_free,
};

/* --- the layer --- */

#define CALL_STATE_BYTES 256

static struct weir_plan plan_new(int64_t now_ns) {
  return (struct weir_plan){.path = path,
                            .path_size = sizeof path - 1,
                            .shape = WEIR_CALL_SHAPE_ONE_BATCH,
                            .started_at_ns = now_ns,
                            .attempted_at_ns = now_ns,
                            .deadline_at_ns = WEIR_NO_DEADLINE};
}

static void *layer_guard_new(void) {
  struct guard *guard = guard_new();
  struct weir_breaker_options options = WEIR_BREAKER_OPTIONS_INIT;
  options.min_requests = 1;
  options.open_for_ns = FOR_EVER_NS;
  options.max_open_for_ns = FOR_EVER_NS;
  require(weir__breaker_layer_new(&options, "bench", 0, NULL, &guard->layer) == WEIR_OK &&
              guard->layer->vtable->call_state_size <= CALL_STATE_BYTES,
          "no layer");
  return guard;
}

/* What the engine does with the layer for a call that ends at once. */
static inline bool layer_call(const struct guard *guard, const struct weir_outcome *outcome,
                              int64_t now_ns) {
  const struct weir_interceptor_vtable *hooks = guard->layer->vtable;
  struct weir_plan plan = plan_new(now_ns);
  struct weir_event event = {.now_ns = now_ns, .random = guard->random};
  _Alignas(max_align_t) unsigned char call_state[CALL_STATE_BYTES];
  memset(call_state, 0, hooks->call_state_size);
  if (hooks->admit(guard->layer, call_state, &event, &plan) == WEIR_ADMISSION_REFUSE) {
    return false;
  }
  (void)hooks->settle(guard->layer, call_state, &event, outcome, &plan);
  hooks->release(guard->layer, call_state, &event, &plan);
  return true;
}

static void run_layer(void *state, uint32_t n_times) {
  const struct guard *guard = state;
  struct weir_outcome outcome = {.code = GRPC_STATUS_OK,
                                 .breaker_verdict = WEIR_BREAKER_VERDICT_SUCCESS};
  int64_t now_ns = guard->now_ns;
  for (uint32_t i = 0; i < n_times; i++, now_ns += STEP_NS) {
    (void)layer_call(guard, &outcome, now_ns);
  }
}

static void *setup_layer_open(void) {
  struct guard *guard = layer_guard_new();
  struct weir_outcome outcome = {.code = GRPC_STATUS_UNAVAILABLE,
                                 .origin = WEIR_ORIGIN_TRANSPORT_CONNECT,
                                 .breaker_verdict = WEIR_BREAKER_VERDICT_FAILURE};
  require(layer_call(guard, &outcome, guard->now_ns), "a new layer refuses");
  require(!layer_call(guard, &outcome, guard->now_ns), "a layer does not open");
  return guard;
}

const struct operation breaker_layer_admit_settle = {
    .name = "breaker_layer.admit_settle",
    .series_length = SERIES,
    .setup = layer_guard_new,
    .prepare = advance,
    .run = run_layer,
    .teardown = guard_free,
};

const struct operation breaker_layer_refuse = {
    .name = "breaker_layer.refuse",
    .series_length = SERIES,
    .setup = setup_layer_open,
    .prepare = advance,
    .run = run_layer,
    .teardown = guard_free,
};
