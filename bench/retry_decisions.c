/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/decisions.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backoff.h>
#include <weir/clock.h>
#include <weir/throttle.h>

#include "bench/require.h"

/* Of failures no more than a bucket holds tokens; of the least successes fewer than fill it. */
#define SERIES 900
#define MAX_TOKENS 1000
#define TOKEN_MILLI 1000
#define LEAST_RATIO_MILLI 1
#define GREATEST_RATIO_MILLI (MAX_TOKENS * TOKEN_MILLI) /* one success fills it */

/* --- weir's throttle --- */

static void *bucket_new(const char *name, uint32_t ratio_milli) {
  weir_throttle *throttle = NULL;
  require(weir_throttle_acquire(name, MAX_TOKENS, ratio_milli, &throttle) == WEIR_OK,
          "no throttle");
  return throttle;
}

static void *setup_filling(void) {
  return bucket_new("filling", LEAST_RATIO_MILLI);
}

static void *setup_full(void) {
  return bucket_new("full", LEAST_RATIO_MILLI);
}

static void *setup_draining(void) {
  return bucket_new("draining", GREATEST_RATIO_MILLI);
}

static void bucket_release(void *state) {
  weir_throttle_release(state);
}

static void drain(void *state) {
  for (int i = 0; i < MAX_TOKENS; i++) {
    (void)weir_throttle_record_failure(state);
  }
}

static void fill(void *state) {
  weir_throttle_record_success(state);
}

static void run_success(void *state, uint32_t n_times) {
  for (uint32_t i = 0; i < n_times; i++) {
    weir_throttle_record_success(state);
  }
}

static void run_failure(void *state, uint32_t n_times) {
  uint32_t n_allowed = 0;
  for (uint32_t i = 0; i < n_times; i++) {
    n_allowed += weir_throttle_record_failure(state);
  }
  require(n_allowed <= n_times, "more retries than failures");
}

const struct operation throttle_record = {
    .name = "throttle.record",
    .series_length = SERIES,
    .setup = setup_filling,
    .prepare = drain,
    .run = run_success,
    .teardown = bucket_release,
};

const struct operation throttle_record_full = {
    .name = "throttle.record_full",
    .series_length = SERIES,
    .setup = setup_full,
    .run = run_success,
    .teardown = bucket_release,
};

const struct operation throttle_record_failure = {
    .name = "throttle.record_failure",
    .series_length = SERIES,
    .setup = setup_draining,
    .prepare = fill,
    .run = run_failure,
    .teardown = bucket_release,
};

/* --- libgrpc's --- */

/* Its class is private, but Debian's library shows the functions (1.51.1). */
#define CORE_CLASS "_ZN9grpc_core8internal23ServerRetryThrottleData"

/* More than an object takes, whose size no header tells. */
#define CORE_OBJECT_BYTES 256

static struct {
  void (*construct)(void *self, uintptr_t max_milli, uintptr_t ratio_milli, void *predecessor);
  bool (*record_failure)(void *self);
  void (*record_success)(void *self);
} core;

/* POSIX has a function's address fit into a pointer to data. */
static void find(const char *name, void *function_out) {
  void *address = dlsym(RTLD_DEFAULT, name);
  memcpy(function_out, &address, sizeof address);
}

static bool core_is_found(void) {
  find(CORE_CLASS "C1EmmPS1_", &core.construct);
  find(CORE_CLASS "13RecordFailureEv", &core.record_failure);
  find(CORE_CLASS "13RecordSuccessEv", &core.record_success);
  return core.construct != NULL && core.record_failure != NULL && core.record_success != NULL;
}

static void *core_new(uintptr_t ratio_milli) {
  void *bucket = require_memory(1, CORE_OBJECT_BYTES);
  core.construct(bucket, GREATEST_RATIO_MILLI, ratio_milli, NULL);
  return bucket;
}

static void *setup_core_least(void) {
  return core_new(LEAST_RATIO_MILLI);
}

static void *setup_core_greatest(void) {
  return core_new(GREATEST_RATIO_MILLI);
}

static void core_drain(void *state) {
  for (int i = 0; i < MAX_TOKENS; i++) {
    (void)core.record_failure(state);
  }
}

static void core_fill(void *state) {
  core.record_success(state);
}

static void run_core_success(void *state, uint32_t n_times) {
  for (uint32_t i = 0; i < n_times; i++) {
    core.record_success(state);
  }
}

static void run_core_failure(void *state, uint32_t n_times) {
  uint32_t n_allowed = 0;
  for (uint32_t i = 0; i < n_times; i++) {
    n_allowed += core.record_failure(state);
  }
  require(n_allowed <= n_times, "more retries than failures");
}

const struct operation *core_throttle_record(void) {
  static const struct operation operation = {
      .name = "peer.core_throttle.record",
      .series_length = SERIES,
      .setup = setup_core_least,
      .prepare = core_drain,
      .run = run_core_success,
      .teardown = free,
  };
  return core_is_found() ? &operation : NULL;
}

const struct operation *core_throttle_record_full(void) {
  static const struct operation operation = {
      .name = "peer.core_throttle.record_full",
      .series_length = SERIES,
      .setup = setup_core_least,
      .run = run_core_success,
      .teardown = free,
  };
  return core_is_found() ? &operation : NULL;
}

const struct operation *core_throttle_record_failure(void) {
  static const struct operation operation = {
      .name = "peer.core_throttle.record_failure",
      .series_length = SERIES,
      .setup = setup_core_greatest,
      .prepare = core_fill,
      .run = run_core_failure,
      .teardown = free,
  };
  return core_is_found() ? &operation : NULL;
}

/* --- backoff --- */

static void *setup_policy(void) {
  struct weir_retry_policy *policy = require_memory(1, sizeof *policy);
  *policy = (struct weir_retry_policy){.max_attempts = WEIR_MAX_ATTEMPTS,
                                       .initial_backoff_ns = 100 * WEIR_MS_NS,
                                       .max_backoff_ns = WEIR_SECOND_NS,
                                       .backoff_multiplier = 2.0};
  return policy;
}

static void run_delays(void *state, uint32_t n_times) {
  int64_t sum_ns = 0;
  for (uint32_t i = 0; i < n_times; i++) {
    sum_ns += weir_backoff_delay_ns(state, 1 + i % (WEIR_MAX_ATTEMPTS - 1), 0.5);
  }
  require(sum_ns > 0, "no delay");
}

const struct operation backoff_delay = {
    .name = "backoff.delay",
    .series_length = SERIES,
    .setup = setup_policy,
    .run = run_delays,
    .teardown = free,
};
