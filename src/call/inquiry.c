/* SPDX-License-Identifier: Apache-2.0 */
#include <grpc/grpc_security.h>

#include "src/call/call.h"

/* The current attempt, with a reference: another thread may be making the next one. NULL = there
 * has been none. */
static grpc_call *attempt_ref(const weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call *core = NULL;
  weir__queue_lock(call->queue);
  /* acquire: pairs with the release of STARTED, which attempt.core comes before */
  unsigned state = atomic_load_explicit(&call->state, memory_order_acquire);
  if ((state & WEIR__CALL_STARTED) != 0 && call->attempt.core != NULL) {
    core = call->attempt.core;
    transport->call_ref(transport->context, core);
  }
  weir__queue_unlock(call->queue);
  return core;
}

static void attempt_unref(const weir_call *call, grpc_call *core) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  transport->call_unref(transport->context, core);
}

char *weir_call_get_peer(weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call *core =
      weir__call_method_policy(call)->translation->boundary ? NULL : attempt_ref(call);
  if (core == NULL) {
    return transport->channel_target(transport->context, call->environment->channel);
  }
  char *peer = transport->call_peer(transport->context, core);
  attempt_unref(call, core);
  return peer;
}

grpc_auth_context *weir_call_auth_context(weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call *core = attempt_ref(call);
  if (core == NULL) {
    return NULL;
  }
  grpc_auth_context *auth_context = transport->call_auth_context(transport->context, core);
  attempt_unref(call, core);
  return auth_context;
}

int weir_call_failed_before_recv_message(const weir_call *call) {
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call *core = attempt_ref(call);
  if (core == NULL) {
    return 0;
  }
  bool failed = transport->call_failed_before_recv_message(transport->context, core);
  attempt_unref(call, core);
  return failed ? 1 : 0;
}

/* Of a call that is not started: what the parent would hand on. */
static struct census_context *inherited_census(const weir_call *call) {
  const uint32_t both = GRPC_PROPAGATE_CENSUS_TRACING_CONTEXT | GRPC_PROPAGATE_CENSUS_STATS_CONTEXT;
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  if (call->parent == NULL || (call->propagation_mask & both) != both) {
    return NULL;
  }
  return transport->call_census(transport->context, call->parent);
}

struct census_context *weir_census_call_get_context(weir_call *call) {
  const struct weir__call_extras *extras =
      atomic_load_explicit(&call->extras, memory_order_acquire);
  if (extras != NULL && extras->census != NULL) {
    return extras->census;
  }
  /* acquire: a call that is not started has its parent still */
  if ((atomic_load_explicit(&call->state, memory_order_acquire) & WEIR__CALL_STARTED) == 0) {
    return inherited_census(call);
  }
  const struct weir__transport *transport = weir__queue_transport(call->queue);
  grpc_call *core = attempt_ref(call);
  if (core == NULL) {
    return NULL;
  }
  struct census_context *census = transport->call_census(transport->context, core);
  attempt_unref(call, core);
  return census;
}
