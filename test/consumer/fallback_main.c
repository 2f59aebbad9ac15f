/* fallback_main – asks a server, and another where the first can't be reached:
 * fallback_main TARGET OTHER_TARGET POLICY.json. Prints who has answered.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "examples/fallback.h"

static int ask(weir_channel *channel) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  request.method = "/grpc.health.v1.Health/Check";
  request.message = grpc_raw_byte_buffer_create(NULL, 0);
  const int failed = weir_unary(channel, &request, &reply) != WEIR_OK;
  if (!failed) {
    printf("%s from %s\n", weir_status_code_name(reply.code),
           reply.report.fallback_source != NULL ? reply.report.fallback_source : "the server");
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  return failed;
}

int main(int argc, char **argv) {
  struct weir_diagnostic wrong;
  weir_policy *policy = NULL;
  if (argc != 4 || weir_policy_from_file(argv[3], NULL, NULL, &policy, &wrong) != WEIR_OK) {
    return 2;
  }
  grpc_init();
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *other = weir_channel_create(argv[2], creds, NULL, NULL);
  weir_channel *channel = channel_with_other(argv[1], creds, policy, other);
  const int failed = channel == NULL || ask(channel);
  if (channel != NULL) {
    weir_channel_destroy(channel);
  }
  weir_policy_unref(policy);
  grpc_channel_credentials_release(creds);
  grpc_shutdown();
  return failed;
}
