/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <weir/weir.h>

/* Methods with a retry policy, a breaker, a boundary and a deadline: all four layers work. */
static const char policy_json[] = "{\"name\":\"bench\",\"methodConfig\":[{\"name\":[{\"service\":"
                                  "\"bench.Service\"}],\"timeout\":\"60s\","
                                  "\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"0.1s\","
                                  "\"maxBackoff\":\"1s\",\"backoffMultiplier\":2,"
                                  "\"retryableStatusCodes\":[\"UNAVAILABLE\"]}}],"
                                  "\"retryThrottling\":{\"maxTokens\":100,\"tokenRatio\":0.1}}";

/* --- the bare core --- */

static void *bare_channel_create_with(const char *target, int core_retries) {
  char key[] = GRPC_ARG_ENABLE_RETRIES;
  grpc_arg arg = {.type = GRPC_ARG_INTEGER, .key = key, .value = {.integer = core_retries}};
  grpc_channel_args args = {.num_args = 1, .args = &arg};
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(target, creds, &args);
  grpc_channel_credentials_release(creds);
  return channel;
}

static void *bare_channel_create(const char *target) {
  return bare_channel_create_with(target, 0);
}

static void *bare_channel_create_retrying(const char *target) {
  return bare_channel_create_with(target, 1);
}

static void bare_channel_destroy(void *channel) {
  grpc_channel_destroy(channel);
}

static void *bare_queue_create(void) {
  return grpc_completion_queue_create_for_next(NULL);
}

static grpc_event bare_queue_next(void *queue) {
  return grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static void bare_queue_shutdown(void *queue) {
  grpc_completion_queue_shutdown(queue);
}

static void bare_queue_destroy(void *queue) {
  grpc_completion_queue_destroy(queue);
}

static void *bare_call_create(void *channel, void *queue, grpc_slice method,
                              gpr_timespec deadline) {
  return grpc_channel_create_call(channel, NULL, 0, queue, method, NULL, deadline, NULL);
}

static grpc_call_error bare_call_start_batch(void *call, const grpc_op *ops, size_t n_ops,
                                             void *tag) {
  return grpc_call_start_batch(call, ops, n_ops, tag, NULL);
}

static void bare_call_unref(void *call) {
  grpc_call_unref(call);
}

static const struct side_functions bare = {
    .channel_destroy = bare_channel_destroy,
    .queue_create = bare_queue_create,
    .queue_next = bare_queue_next,
    .queue_shutdown = bare_queue_shutdown,
    .queue_destroy = bare_queue_destroy,
    .call_create = bare_call_create,
    .call_start_batch = bare_call_start_batch,
    .call_unref = bare_call_unref,
};

/* --- weir --- */

static void *layered_channel_create(const char *target) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  struct weir_diagnostic diagnostic;
  if (weir_policy_from_json(policy_json, sizeof policy_json - 1, NULL, NULL, &options.policy,
                            &diagnostic) != WEIR_OK) {
    (void)fprintf(stderr, "%s: %s\n", diagnostic.path, diagnostic.message);
    abort();
  }
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(target, creds, NULL, &options);
  grpc_channel_credentials_release(creds);
  weir_policy_unref(options.policy);
  return channel;
}

static void layered_channel_destroy(void *channel) {
  weir_channel_destroy(channel);
}

static void *layered_queue_create(void) {
  return weir_completion_queue_create_for_next(NULL);
}

static grpc_event layered_queue_next(void *queue) {
  return weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static void layered_queue_shutdown(void *queue) {
  weir_completion_queue_shutdown(queue);
}

static void layered_queue_destroy(void *queue) {
  weir_completion_queue_destroy(queue);
}

static void *layered_call_create(void *channel, void *queue, grpc_slice method,
                                 gpr_timespec deadline) {
  return weir_channel_create_call(channel, NULL, 0, queue, method, NULL, deadline, NULL);
}

static grpc_call_error layered_call_start_batch(void *call, const grpc_op *ops, size_t n_ops,
                                                void *tag) {
  return weir_call_start_batch(call, ops, n_ops, tag, NULL);
}

static void layered_call_unref(void *call) {
  weir_call_unref(call);
}

static const struct side_functions layered = {
    .channel_destroy = layered_channel_destroy,
    .queue_create = layered_queue_create,
    .queue_next = layered_queue_next,
    .queue_shutdown = layered_queue_shutdown,
    .queue_destroy = layered_queue_destroy,
    .call_create = layered_call_create,
    .call_start_batch = layered_call_start_batch,
    .call_unref = layered_call_unref,
};

/* --- the sides --- */

static const struct side sides[] = {
    {.name = "bare", .channel_create = bare_channel_create, .on = &bare},
    {.name = "bare_headers",
     .channel_create = bare_channel_create,
     .n_headers = SIDE_HEADERS_MAX,
     .on = &bare},
    {.name = "core_retries", .channel_create = bare_channel_create_retrying, .on = &bare},
    {.name = "weir", .channel_create = layered_channel_create, .on = &layered},
};

const struct side *side_find(const char *name) {
  for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
    if (strcmp(sides[i].name, name) == 0) {
      return &sides[i];
    }
  }
  return NULL;
}
