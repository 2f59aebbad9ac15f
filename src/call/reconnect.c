/* SPDX-License-Identifier: Apache-2.0 */
#include "src/call/reconnect.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "src/policy/policy.h"
#include "src/time/instant.h"

/* A tenth of openFor, as its jitter is, and no more than it takes to connect. */
#define LEAD_DIVISOR 10
#define MAX_LEAD_NS WEIR_SECOND_NS

/* How long before the breaker lets a probe through. */
static int64_t lead_ns_of(const weir_policy *policy) {
  int64_t open_for_ns = weir__policy_breaker(policy)->open_for_ns;
  return weir__instant_min(open_for_ns / LEAD_DIVISOR, MAX_LEAD_NS);
}

static bool is_probe_near(const struct weir_plan *plan, int64_t lead_ns) {
  switch (plan->breaker_state) {
  case WEIR_BREAKER_CLOSED:
    return false;
  case WEIR_BREAKER_OPEN:
    return plan->reason == WEIR_REASON_BREAKER_OPEN && plan->next_probe_in_ns <= lead_ns;
  case WEIR_BREAKER_HALF_OPEN:
    break;
  }
  return plan->single_attempt; /* it is one */
}

void weir__reconnect_for_probe(weir_call *call, int64_t now_ns) {
  if (call->plan.next_probe_in_ns > MAX_LEAD_NS) {
    return; /* so with nearly all calls that are refused */
  }
  struct weir__reconnect *reconnect = &call->environment->reconnect;
  int64_t lead_ns = lead_ns_of(call->rules->policy);
  if (!is_probe_near(&call->plan, lead_ns)) {
    return;
  }
  /* Relaxed: of the threads that come at once any one will do. */
  int64_t at_ns = atomic_load_explicit(&reconnect->not_before_ns, memory_order_relaxed);
  if (now_ns >= at_ns && atomic_compare_exchange_strong_explicit(
                             &reconnect->not_before_ns, &at_ns, weir__instant_add(now_ns, lead_ns),
                             memory_order_relaxed, memory_order_relaxed)) {
    const struct weir__transport *transport = weir__queue_transport(call->queue);
    transport->channel_reconnect(transport->context, call->environment->channel);
  }
}
