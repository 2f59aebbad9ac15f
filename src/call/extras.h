/* extras – what a call has only sometimes: a registered method, a host, credentials, a census
 * context, memory of the application's, details that a boundary lets through.
 *
 * All calls of a registered method that go by the same rules share the extras which those have for
 * the method, until the application sets something on one of them: that call then has extras of its
 * own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_CALL_EXTRAS_H
#define WEIR_SRC_CALL_EXTRAS_H

#include <stdatomic.h>
#include <stdbool.h>

#include <grpc/census.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <weir/allocator.h>
#include <weir/call.h>
#include <weir/policy.h>

#include "src/transport/transport.h"

struct weir__call_memory;

struct weir__call_extras {
  bool shared; /* a registered method's */

  /* The core's handle, what the policy says of the method, and what the breaker's layer knows of
   * it; NULL = not registered. */
  void *registered;
  const struct weir_method_policy *policy;
  void *breaker_entry;

  bool has_host;
  grpc_slice host;

  /* Set before the first batch, put on each attempt. The core's own share of the credentials is in
   * `credentials_hold`. */
  grpc_call_credentials *credentials;
  grpc_channel_credentials *credentials_hold;
  struct census_context *census;

  _Atomic(struct weir__call_memory *) memory; /* of weir_call_arena_alloc */

  bool has_details;
  grpc_slice details; /* what the application is handed as grpc-status-details-bin */
};

/* A call's own. `host` is taken a reference of. NULL when there is no memory. */
struct weir__call_extras *weir__call_extras_new(const grpc_slice *host,
                                                const struct weir_allocator *allocator);

/* NULL, and those of a registered method, which frees them itself, are left alone. */
void weir__call_extras_free(struct weir__call_extras *extras,
                            const struct weir_allocator *allocator);

/* Says in `target` what the call is made with beside its method. */
void weir__call_extras_aim(const struct weir__call_extras *extras,
                           struct weir__call_target *target);

/* Puts on an attempt what the application has set on the call. */
void weir__call_extras_apply(const struct weir__call_extras *extras,
                             const struct weir__transport *transport, grpc_call *core);

/* Holds details for the application as long as the call lives; takes a reference over. False: there
 * is no memory, and the reference is given back. */
bool weir__call_extras_hold_details(weir_call *call, grpc_slice details);

#endif /* WEIR_SRC_CALL_EXTRAS_H */
