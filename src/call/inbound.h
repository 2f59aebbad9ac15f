/* inbound – the request being served, as the calls made for it need it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_INBOUND_H
#define WEIR_SRC_CALL_INBOUND_H

#include <stdatomic.h>
#include <stdbool.h>

#include <grpc/grpc.h>

#include <weir/inbound.h>
#include <weir/interceptor.h>
#include <weir/log.h>

#include "src/call/retry_owner.h"
#include "src/call/trace.h"
#include "src/transport/transport.h"

struct weir_inbound {
  atomic_size_t n_app_refs; /* the application's shares, scopes included */
  atomic_size_t n_refs;     /* those together, and one for each call */
  const struct weir_allocator *allocator;
  const struct weir__transport *transport; /* that `server_call` is of */
  /* a reference, until the application's last share ends: calls have their own; NULL = none */
  grpc_call *server_call;
  struct weir_inbound_facts facts;
  struct weir_inbound_facts detached_facts; /* for a call that its deadline does not bind */
  bool has_retry_owner;
  char retry_owner[WEIR__RETRY_OWNER_BYTES]; /* the marker to pass on */
  struct weir__trace trace;
};

/* What an inbound is made of. */
struct weir__inbound_source {
  const grpc_call_details *details;    /* NULL = no deadline */
  const grpc_metadata_array *metadata; /* NULL = none */
  grpc_call *server_call;              /* NULL = none */
  const struct weir__transport *transport;
};

/* As weir_inbound_new. */
WEIR_MUST_CHECK enum weir_error weir__inbound_new(const struct weir__inbound_source *source,
                                                  const struct weir_inbound_options *options,
                                                  weir_inbound **inbound_out);

/* A program may put any number where the enum is. */
static inline bool weir__inbound_bond_is_known(enum weir_inbound_bond bond) {
  return bond == WEIR_INBOUND_ATTACHED || bond == WEIR_INBOUND_DETACHED;
}

/* A call's share, which does not hold the server's call. Whoever takes it has one, or a scope. */
weir_inbound *weir__inbound_hold(weir_inbound *inbound);

/* Gives it back; NULL is allowed. */
void weir__inbound_let_go(weir_inbound *inbound);

/* The identifier that a trace follows the request by; empty when there is none. Borrowed. */
static inline struct weir_bytes weir__inbound_trace(const weir_inbound *inbound) {
  return weir__trace_first(&inbound->trace);
}

#endif /* WEIR_SRC_CALL_INBOUND_H */
