/* ask – asks a server whether it is well: ask TARGET.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <weir/weir.h>

int main(int argc, char **argv) {
  struct weir_unary_request request = WEIR_UNARY_REQUEST_INIT;
  struct weir_unary_reply reply = WEIR_UNARY_REPLY_INIT;
  if (argc != 2) {
    return 2;
  }
  grpc_init();
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(argv[1], creds, NULL, NULL);
  request.method = "/grpc.health.v1.Health/Check";
  request.message = grpc_raw_byte_buffer_create(NULL, 0);
  int failed = channel == NULL || weir_unary(channel, &request, &reply) != WEIR_OK;
  if (!failed) {
    puts(weir_status_code_name(reply.code));
    failed = reply.code != GRPC_STATUS_OK;
  }
  weir_unary_reply_fini(&reply);
  grpc_byte_buffer_destroy(request.message);
  if (channel != NULL) {
    weir_channel_destroy(channel);
  }
  grpc_channel_credentials_release(creds);
  grpc_shutdown();
  return failed;
}
