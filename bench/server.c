/* The server that the benchmarks call: answers every call with an empty message, until its standard
 * input ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>

#include "test/e2e/support/test_server.h"

static void answer(void *context, const struct weir__test_served *served,
                   struct weir__test_reply *reply) {
  (void)context;
  (void)served;
  reply->message = grpc_raw_byte_buffer_create(NULL, 0);
}

int main(void) {
  grpc_init();
  weir__test_server *server = weir__test_server_new(answer, NULL, 1);
  printf("%d\n", weir__test_server_port(server));
  (void)fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
    /* until whoever started it goes */
  }
  weir__test_server_release(server);
  grpc_shutdown();
  return 0;
}
