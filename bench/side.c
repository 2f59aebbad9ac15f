/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/side.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <weir/weir.h>

#include "bench/counted_memory.h"

#define METHODS(more) "\"methodConfig\":[{\"name\":[{\"service\":\"bench.Service\"}]" more "}]"
#define TIMEOUT ",\"timeout\":\"30s\"" /* less than what the calls have */
#define RETRIES                                                                            \
  ",\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"0.1s\",\"maxBackoff\":\"1s\"," \
  "\"backoffMultiplier\":2,\"retryableStatusCodes\":[\"UNAVAILABLE\"]}"
#define THROTTLING "\"retryThrottling\":{\"maxTokens\":100,\"tokenRatio\":0.1}"
#define NO_CEILING "\"deadline\":{\"defaultTimeout\":\"3600s\",\"maxTimeout\":\"3600s\"}"
#define NO_TRANSLATION "\"translation\":{\"boundary\":false}"
#define NO_BREAKER "\"breaker\":{\"enabled\":false}"

static const char core_retries[] = "{" METHODS(RETRIES) "," THROTTLING "}";
static const char all_four[] = "{\"name\":\"bench\"," METHODS(TIMEOUT RETRIES) "," THROTTLING "}";
static const char deadline_only[] = "{" METHODS(TIMEOUT) "," NO_TRANSLATION "," NO_BREAKER "}";
static const char translation_only[] = "{" NO_CEILING "," NO_BREAKER "}";
static const char breaker_only[] = "{" NO_CEILING "," NO_TRANSLATION "}";
static const char retry_only[] = "{\"name\":\"bench\"," NO_CEILING "," NO_TRANSLATION "," NO_BREAKER
                                 "," METHODS(RETRIES) "," THROTTLING "}";
static const char nothing[] = "{" NO_CEILING "," NO_TRANSLATION "," NO_BREAKER "}";

/* --- the bare core --- */

static void *bare_channel_create(const struct side *side, const char *target) {
  char retries_key[] = GRPC_ARG_ENABLE_RETRIES;
  char config_key[] = GRPC_ARG_SERVICE_CONFIG;
  char keepalive_key[] = GRPC_ARG_KEEPALIVE_TIME_MS;
  char config[sizeof core_retries] = "";
  grpc_arg arg[2] = {{.type = GRPC_ARG_INTEGER, .key = retries_key, .value = {.integer = 0}}};
  grpc_channel_args args = {.num_args = 1, .args = arg};
  if (side->policy != NULL) {
    (void)snprintf(config, sizeof config, "%s", side->policy);
    arg[0].value.integer = 1;
    arg[args.num_args++] =
        (grpc_arg){.type = GRPC_ARG_STRING, .key = config_key, .value = {.string = config}};
  } else if (side->no_keepalive) {
    arg[args.num_args++] =
        (grpc_arg){.type = GRPC_ARG_INTEGER, .key = keepalive_key, .value = {.integer = INT_MAX}};
  }
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(target, creds, &args);
  grpc_channel_credentials_release(creds);
  return channel;
}

static void bare_channel_destroy(void *channel) {
  grpc_channel_destroy(channel);
}

static void *bare_queue_create(void) {
  return grpc_completion_queue_create_for_next(NULL);
}

static grpc_event bare_queue_next(void *queue, gpr_timespec deadline) {
  return grpc_completion_queue_next(queue, deadline, NULL);
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

static void bare_call_cancel(void *call) {
  (void)grpc_call_cancel(call, NULL);
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
    .call_cancel = bare_call_cancel,
    .call_unref = bare_call_unref,
};

/* --- weir --- */

/* What a program does with a record is not weir's to answer for. */
static void record_drop(void *context, const struct weir_log_record *record) {
  (void)context;
  (void)record;
}

static const struct weir_log_sink log_sink = {.size = sizeof(struct weir_log_sink),
                                              .write = record_drop};

static void *layered_channel_create(const struct side *side, const char *target) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  options.allocator = &counted_memory;
  options.log = &log_sink;
  struct weir_diagnostic diagnostic;
  if (weir_policy_from_json(side->policy, strlen(side->policy), NULL, &counted_memory,
                            &options.policy, &diagnostic) != WEIR_OK) {
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
  struct weir_completion_queue_options options = WEIR_COMPLETION_QUEUE_OPTIONS_INIT;
  options.allocator = &counted_memory;
  return weir_completion_queue_create_for_next(&options);
}

static grpc_event layered_queue_next(void *queue, gpr_timespec deadline) {
  return weir_completion_queue_next(queue, deadline, NULL);
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

static void layered_call_cancel(void *call) {
  (void)weir_call_cancel(call, NULL);
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
    .call_cancel = layered_call_cancel,
    .call_unref = layered_call_unref,
};

/* --- the sides --- */

#define BARE .channel_create = bare_channel_create, .on = &bare
#define LAYERED .channel_create = layered_channel_create, .on = &layered

static const struct side sides[] = {
    {.name = "bare", BARE},
    {.name = "bare_headers", .n_headers = SIDE_HEADERS_MAX, BARE},
    {.name = "bare_no_keepalive", .no_keepalive = true, BARE},
    {.name = "core_retries", .policy = core_retries, BARE},
    {.name = "weir", .policy = all_four, LAYERED},
    {.name = "weir_deadline", .policy = deadline_only, LAYERED},
    {.name = "weir_translation", .policy = translation_only, LAYERED},
    {.name = "weir_breaker", .policy = breaker_only, LAYERED},
    {.name = "weir_retry", .policy = retry_only, LAYERED},
    {.name = "weir_none", .policy = nothing, LAYERED},
};

const struct side *side_find(const char *name) {
  for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
    if (strcmp(sides[i].name, name) == 0) {
      return &sides[i];
    }
  }
  return NULL;
}
