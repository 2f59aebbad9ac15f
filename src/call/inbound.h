/* inbound – the request being served, as the calls made for it need it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_INBOUND_H
#define WEIR_SRC_CALL_INBOUND_H

#include <stdatomic.h>

#include <grpc/grpc.h>

#include <weir/inbound.h>
#include <weir/interceptor.h>

/* A marker longer than this is passed on as WEIR__UNKNOWN_RETRY_OWNER. */
#define WEIR__RETRY_OWNER_BYTES 64

/* The marker passed on for a caller that retries, but does not say under which policy. */
#define WEIR__UNKNOWN_RETRY_OWNER "upstream"

struct weir_inbound {
  atomic_size_t n_refs;
  const struct weir_allocator *allocator;
  grpc_call *server_call; /* borrowed until the calls have been created; NULL = none */
  struct weir_inbound_facts facts;
  char retry_owner[WEIR__RETRY_OWNER_BYTES];
};

/* Takes another share. */
weir_inbound *weir__inbound_ref(weir_inbound *inbound);

#endif /* WEIR_SRC_CALL_INBOUND_H */
