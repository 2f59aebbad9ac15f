/* bare call – a unary call over the C core alone, made and waited for; what weir is compared with.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_SUPPORT_BARE_CALL_H
#define WEIR_TEST_E2E_SUPPORT_BARE_CALL_H

#include <stddef.h>

#include <grpc/grpc.h>

/* What to ask. Borrowed for the call, but for `message`, which loses its bytes. */
struct weir__bare_request {
  const char *method;        /* "/pkg.Service/Method" */
  grpc_byte_buffer *message; /* still the caller's to destroy */
  const grpc_metadata *metadata;
  size_t n_metadata;
  gpr_timespec deadline; /* of any clock but GPR_TIMESPAN */
  grpc_call *parent;     /* the server's call that it is made for; NULL = none */
};

/* What came back; ends with weir__bare_reply_fini. */
struct weir__bare_reply {
  grpc_status_code code;
  grpc_slice details;
  const char *error_string;  /* the core's; NULL unless the call failed */
  grpc_byte_buffer *message; /* NULL on failure */
  grpc_metadata_array initial_metadata;
  grpc_metadata_array trailing_metadata;
  grpc_call *call; /* keeps the metadata's elements alive */
};

/* Makes the call on a queue of its own and waits for its end. The channel's own retries are the
 * channel's affair. */
void weir__bare_unary(grpc_channel *channel, const struct weir__bare_request *request,
                      struct weir__bare_reply *reply);

void weir__bare_reply_fini(struct weir__bare_reply *reply);

/* An insecure channel to a loopback port with at most these two arguments: the core's retries off
 * or on, and, when not NULL, a service config. */
enum weir__core_retries { WEIR__CORE_RETRIES_OFF = 0, WEIR__CORE_RETRIES_ON };
grpc_channel *weir__bare_channel_create(int port, enum weir__core_retries retries,
                                        const char *service_config);

#endif /* WEIR_TEST_E2E_SUPPORT_BARE_CALL_H */
