/* The client whose instructions are counted: `client MODE PORT N` makes N unary calls, one after
 * the other, each as one batch. The difference of two N's is what a call costs. MODE: bare;
 * bare_headers, the bare core sending the two headers that weir sends; core_retries; weir.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include <weir/weir.h>

#define N_OPS 6
#define MESSAGE "thirty-two bytes of a message..."
#define METHOD "/bench.Service/Unary"

/* A method with a retry policy, a breaker, a boundary and a deadline: all four layers work. */
static const char policy_json[] = "{\"name\":\"bench\",\"methodConfig\":[{\"name\":[{\"service\":"
                                  "\"bench.Service\"}],\"timeout\":\"20s\","
                                  "\"retryPolicy\":{\"maxAttempts\":3,\"initialBackoff\":\"0.1s\","
                                  "\"maxBackoff\":\"1s\",\"backoffMultiplier\":2,"
                                  "\"retryableStatusCodes\":[\"UNAVAILABLE\"]}}],"
                                  "\"retryThrottling\":{\"maxTokens\":100,\"tokenRatio\":0.1}}";

/* What a call sends and receives. */
struct unary {
  grpc_op ops[N_OPS];
  grpc_byte_buffer *request;
  grpc_byte_buffer *response;
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_status_code status;
  grpc_slice details;
};

static void unary_init(struct unary *unary, grpc_slice message) {
  memset(unary, 0, sizeof *unary);
  unary->request = grpc_raw_byte_buffer_create(&message, 1);
  unary->ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  unary->ops[1].op = GRPC_OP_SEND_MESSAGE;
  unary->ops[1].data.send_message.send_message = unary->request;
  unary->ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  unary->ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  unary->ops[3].data.recv_initial_metadata.recv_initial_metadata = &unary->initial_metadata;
  unary->ops[4].op = GRPC_OP_RECV_MESSAGE;
  unary->ops[4].data.recv_message.recv_message = &unary->response;
  unary->ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  unary->ops[5].data.recv_status_on_client.trailing_metadata = &unary->trailing_metadata;
  unary->ops[5].data.recv_status_on_client.status = &unary->status;
  unary->ops[5].data.recv_status_on_client.status_details = &unary->details;
}

static void unary_fini(struct unary *unary) {
  if (unary->status != GRPC_STATUS_OK) {
    (void)fprintf(stderr, "a call ended with status %d\n", (int)unary->status);
    abort();
  }
  grpc_byte_buffer_destroy(unary->request);
  grpc_byte_buffer_destroy(unary->response);
  grpc_metadata_array_destroy(&unary->initial_metadata);
  grpc_metadata_array_destroy(&unary->trailing_metadata);
  grpc_slice_unref(unary->details);
}

/* What the application adds to the bare core's calls. */
static grpc_metadata own_headers[2];

static void run_bare(const char *target, bool core_retries, size_t n_headers, int n_calls) {
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  char key[] = GRPC_ARG_ENABLE_RETRIES;
  arg.type = GRPC_ARG_INTEGER;
  arg.key = key;
  arg.value.integer = core_retries ? 1 : 0;
  grpc_channel_args args = {.num_args = 1, .args = &arg};
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(target, creds, &args);
  grpc_channel_credentials_release(creds);
  grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
  grpc_slice method = grpc_slice_from_static_string(METHOD);
  grpc_slice message = grpc_slice_from_static_string(MESSAGE);
  for (int i = 0; i < n_calls; i++) {
    struct unary unary;
    unary_init(&unary, message);
    unary.ops[0].data.send_initial_metadata.count = n_headers;
    unary.ops[0].data.send_initial_metadata.metadata = own_headers;
    gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(20, GPR_TIMESPAN));
    grpc_call *call =
        grpc_channel_create_call(channel, NULL, 0, queue, method, NULL, deadline, NULL);
    (void)grpc_call_start_batch(call, unary.ops, N_OPS, call, NULL);
    (void)grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    unary_fini(&unary);
    grpc_call_unref(call);
  }
  grpc_completion_queue_shutdown(queue);
  while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN) {
  }
  grpc_completion_queue_destroy(queue);
  grpc_channel_destroy(channel);
}

static void run_weir(const char *target, int n_calls) {
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
  weir_completion_queue *queue = weir_completion_queue_create_for_next(NULL);
  grpc_slice method = grpc_slice_from_static_string(METHOD);
  grpc_slice message = grpc_slice_from_static_string(MESSAGE);
  for (int i = 0; i < n_calls; i++) {
    struct unary unary;
    unary_init(&unary, message);
    gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(20, GPR_TIMESPAN));
    weir_call *call =
        weir_channel_create_call(channel, NULL, 0, queue, method, NULL, deadline, NULL);
    (void)weir_call_start_batch(call, unary.ops, N_OPS, call, NULL);
    (void)weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    unary_fini(&unary);
    weir_call_unref(call);
  }
  weir_completion_queue_shutdown(queue);
  while (weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN) {
  }
  weir_completion_queue_destroy(queue);
  weir_channel_destroy(channel);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    (void)fprintf(stderr, "usage: client bare|bare_headers|core_retries|weir PORT N\n");
    return 2;
  }
  char target[64];
  (void)snprintf(target, sizeof target, "ipv4:127.0.0.1:%s", argv[2]);
  int n_calls = (int)strtol(argv[3], NULL, 10);
  grpc_init();
  if (strcmp(argv[1], "weir") == 0) {
    run_weir(target, n_calls);
  } else {
    own_headers[0].key = grpc_slice_from_static_string("weir-budget-us");
    own_headers[0].value = grpc_slice_from_static_string("19999999");
    own_headers[1].key = grpc_slice_from_static_string("weir-retry-owner");
    own_headers[1].value = grpc_slice_from_static_string("bench");
    run_bare(target, strcmp(argv[1], "core_retries") == 0,
             strcmp(argv[1], "bare_headers") == 0 ? 2 : 0, n_calls);
  }
  grpc_shutdown();
  return 0;
}
