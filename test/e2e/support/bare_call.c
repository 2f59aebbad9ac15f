/* SPDX-License-Identifier: Apache-2.0 */
#include "test/e2e/support/bare_call.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>
#include <grpc/support/time.h>

#define TARGET_SIZE 32

/* A refused batch is a mistake of the program that called us: there is no way to go on. */
static void start_or_abort(grpc_call *call, const grpc_op *ops, size_t n_ops, void *tag) {
  grpc_call_error error = grpc_call_start_batch(call, ops, n_ops, tag, NULL);
  if (error != GRPC_CALL_OK) {
    fprintf(stderr, "the core refused a batch: %s\n", grpc_call_error_to_string(error));
    abort();
  }
}

static void queue_end(grpc_completion_queue *queue) {
  grpc_completion_queue_shutdown(queue);
  grpc_completion_queue_destroy(queue);
}

static void start_unary(const struct weir__bare_request *request, struct weir__bare_reply *reply,
                        void *tag) {
  grpc_op ops[6];
  grpc_metadata *metadata = NULL;
  memset(ops, 0, sizeof ops);
  if (request->n_metadata > 0) {
    metadata =
        gpr_malloc(request->n_metadata * sizeof *metadata); /* the core's field is not const */
    memcpy(metadata, request->metadata, request->n_metadata * sizeof *metadata);
  }
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  ops[0].data.send_initial_metadata.count = request->n_metadata;
  ops[0].data.send_initial_metadata.metadata = metadata;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = request->message;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &reply->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &reply->message;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &reply->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &reply->code;
  ops[5].data.recv_status_on_client.status_details = &reply->details;
  ops[5].data.recv_status_on_client.error_string = &reply->error_string;
  start_or_abort(reply->call, ops, sizeof ops / sizeof ops[0], tag);
  gpr_free(metadata); /* the core has taken shares of its own */
}

void weir__bare_unary(grpc_channel *channel, const struct weir__bare_request *request,
                      struct weir__bare_reply *reply) {
  grpc_completion_queue *queue = grpc_completion_queue_create_for_pluck(NULL);
  grpc_slice method = grpc_slice_from_copied_string(request->method);

  memset(reply, 0, sizeof *reply);
  reply->details = grpc_empty_slice();
  grpc_metadata_array_init(&reply->initial_metadata);
  grpc_metadata_array_init(&reply->trailing_metadata);
  reply->call = grpc_channel_create_call(channel, request->parent, GRPC_PROPAGATE_DEFAULTS, queue,
                                         method, NULL, request->deadline, NULL);
  start_unary(request, reply, reply);
  (void)grpc_completion_queue_pluck(queue, reply, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);

  grpc_slice_unref(method);
  queue_end(queue);
}

void weir__bare_reply_fini(struct weir__bare_reply *reply) {
  if (reply->call == NULL) {
    return;
  }
  grpc_metadata_array_destroy(&reply->initial_metadata);
  grpc_metadata_array_destroy(&reply->trailing_metadata);
  grpc_byte_buffer_destroy(reply->message);
  grpc_slice_unref(reply->details);
  if (reply->error_string != NULL) {
    gpr_free((void *)(uintptr_t)reply->error_string); /* const in the core's struct, but ours */
  }
  grpc_call_unref(reply->call);
  memset(reply, 0, sizeof *reply);
}

grpc_channel *weir__bare_channel_create(int port, enum weir__core_retries retries,
                                        const char *service_config) {
  char target[TARGET_SIZE];
  char retries_key[] = GRPC_ARG_ENABLE_RETRIES;
  char config_key[] = GRPC_ARG_SERVICE_CONFIG;
  grpc_arg args[2];
  memset(args, 0, sizeof args);
  args[0].type = GRPC_ARG_INTEGER;
  args[0].key = retries_key;
  args[0].value.integer = retries == WEIR__CORE_RETRIES_ON ? 1 : 0;
  args[1].type = GRPC_ARG_STRING;
  args[1].key = config_key;
  args[1].value.string = service_config == NULL ? NULL : gpr_strdup(service_config);
  grpc_channel_args both = {.num_args = service_config == NULL ? 1 : 2, .args = args};

  (void)snprintf(target, sizeof target, "127.0.0.1:%d", port);
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(target, creds, &both);
  grpc_channel_credentials_release(creds);
  gpr_free(args[1].value.string);
  return channel;
}
