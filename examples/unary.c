/* unary – asks a server whether it is well: unary TARGET [POLICY.json]
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <weir/weir.h>

static int ask(weir_channel *channel) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = "/grpc.health.v1.Health/Check";
  request.message = grpc_raw_byte_buffer_create(NULL, 0);
  int failed = weir_unary(channel, &request, &reply) != WEIR_OK;
  if (!failed) {
    printf("attempts: %u, %s: %.*s\n", reply.report.n_attempts, weir_status_code_name(reply.code),
           (int)GRPC_SLICE_LENGTH(reply.details),
           (const char *)GRPC_SLICE_START_PTR(reply.details));
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return failed;
}

int main(int argc, char **argv) {
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT; /* no policy: the built-in one */
  struct weir_diagnostic wrong;
  int failed = 2;
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: unary TARGET [POLICY.json]\n");
    return failed;
  }
  if (argc > 2 && weir_policy_from_file(argv[2], NULL, NULL, &options.policy, &wrong) != WEIR_OK) {
    fprintf(stderr, "%s:%u:%u: %s\n", argv[2], wrong.line, wrong.column, wrong.message);
    return failed;
  }
  grpc_init();
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(argv[1], creds, NULL, &options);
  if (channel != NULL) { /* else WEIR_ORG_POLICY refused the policy, and the log says why */
    failed = ask(channel);
    weir_channel_destroy(channel);
  }
  weir_policy_unref(options.policy);
  grpc_channel_credentials_release(creds);
  grpc_shutdown();
  return failed;
}
