/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>

#include "src/channel/channel.h"
#include "src/queue/queue.h"
#include "test/soak/live_memory.h"
#include "test/support/silent_log.h"

#define TEXT_SIZE 32

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "soak: wire: %s\n", what);
    abort();
  }
}

static void count_change(void *context, const struct weir_breaker_change *change) {
  struct wire *wire = context;
  if (change->by_outcome && change->to == WEIR_BREAKER_OPEN) {
    atomic_fetch_add(&wire->n_trips, 1);
  } else if (change->by_outcome && change->to == WEIR_BREAKER_CLOSED) {
    atomic_fetch_add(&wire->n_closed, 1);
  }
}

static grpc_arg number(const char *key, int value) {
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = GRPC_ARG_INTEGER;
  arg.key = (char *)(uintptr_t)key; /* not const in the core, but only read */
  arg.value.integer = value;
  return arg;
}

/* A lost connection is made again as soon as the core can be told to. */
static weir_channel *open_channel(struct wire *wire, int port,
                                  const struct weir_fallback *fallback) {
  char target[TEXT_SIZE];
  struct weir_channel_options options = WEIR_CHANNEL_OPTIONS_INIT;
  grpc_arg own[] = {
      number(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
      number(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100),
      number(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 200),
      number(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200),
  };
  const grpc_channel_args args = {.num_args = sizeof own / sizeof own[0], .args = own};
  (void)snprintf(target, sizeof target, "127.0.0.1:%d", port);
  options.log = &silent_log;
  options.allocator = &live_memory;
  options.policy = wire->policies[0];
  options.fallback = fallback;
  options.breaker_listener = &wire->listener;
  grpc_channel_credentials *creds = grpc_insecure_credentials_create();
  weir_channel *channel = weir_channel_create(target, creds, &args, &options);
  grpc_channel_credentials_release(creds);
  check(channel != NULL, "no channel");
  return channel;
}

/* A channel keeps as many idle queues for weir_unary as it ever needed at once, within a bound that
 * many thousands of calls come near to: from the start on, it has them all. */
static void make_idle_queues(weir_channel *channel) {
  weir_completion_queue *queues[WEIR__IDLE_QUEUES];
  for (size_t i = 0; i < WEIR__IDLE_QUEUES; i++) {
    queues[i] = weir__environment_take_queue(channel->environment);
    void *block = queues[i] != NULL ? weir__queue_block_take(queues[i]) : NULL;
    check(block != NULL, "no queue");
    weir__queue_block_give(queues[i], block);
  }
  for (size_t i = 0; i < WEIR__IDLE_QUEUES; i++) {
    weir__environment_give_queue(channel->environment, queues[i]);
  }
}

void wire_init(struct wire *wire, int port, const struct policy_facts *list, size_t n_policies,
               const struct weir_fallback *fallback) {
  memset(wire, 0, sizeof *wire);
  wire->list = list;
  wire->n_policies = n_policies;
  wire->policies = calloc(n_policies, sizeof(weir_policy *));
  check(wire->policies != NULL, "no memory");
  for (size_t i = 0; i < n_policies; i++) {
    wire->policies[i] = policy_load(&list[i]);
  }
  (void)pthread_mutex_init(&wire->mutex, NULL);
  wire->listener = (struct weir_breaker_listener)WEIR_BREAKER_LISTENER_INIT;
  wire->listener.changed = count_change;
  wire->listener.context = wire;
  wire->channel = open_channel(wire, port, fallback);
  make_idle_queues(wire->channel);
  for (size_t i = 0; i < PLAN_N_SHAPES; i++) {
    wire->registered[i] =
        weir_channel_register_call(wire->channel, plan_method((enum plan_shape)i), NULL, NULL);
    check(wire->registered[i] != NULL, "no registered method");
  }
}

void wire_fini(struct wire *wire) {
  weir_channel_destroy(wire->channel);
  for (size_t i = 0; i < wire->n_policies; i++) {
    weir_policy_unref(wire->policies[i]);
  }
  free(wire->policies);
  (void)pthread_mutex_destroy(&wire->mutex);
}

void wire_swap(struct wire *wire, size_t policy) {
  (void)pthread_mutex_lock(&wire->mutex);
  atomic_fetch_add(&wire->swaps, 1);
  check(weir_channel_set_policy(wire->channel, wire->policies[policy], NULL) == WEIR_OK,
        "a policy was refused");
  atomic_store(&wire->current, policy);
  atomic_fetch_add(&wire->swaps, 1);
  atomic_fetch_add(&wire->n_swapped, 1);
  (void)pthread_mutex_unlock(&wire->mutex);
}

uint64_t wire_look(struct wire *wire) {
  return atomic_load(&wire->swaps);
}

const struct policy_facts *wire_policy_since(struct wire *wire, uint64_t looked) {
  size_t current = atomic_load(&wire->current);
  bool same = looked % 2 == 0 && atomic_load(&wire->swaps) == looked;
  return same ? &wire->list[current] : NULL;
}

static bool is_open(struct wire *wire, enum plan_shape shape,
                    struct weir_breaker_snapshot *snapshot) {
  return weir_channel_breaker_snapshot(wire->channel, plan_method(shape), snapshot) == WEIR_OK &&
         snapshot->state != WEIR_BREAKER_CLOSED;
}

void wire_blame_open_breakers(struct wire *wire, size_t number, enum ledger_who who,
                              struct ledger *ledger) {
  for (enum plan_shape shape = PLAN_SIX_BATCHES; shape < PLAN_N_SHAPES; shape++) {
    struct weir_breaker_snapshot snapshot = WEIR_BREAKER_SNAPSHOT_INIT;
    if (is_open(wire, shape, &snapshot)) {
      ledger_blame(ledger, 0, who,
                   "all is well, and of channel %zu %s is %s: generation %" PRIu64 ", %" PRIu64
                   " trips, %" PRIu64 " of %" PRIu64 " failed, %" PRIu64 " probes, override %d",
                   number, plan_method(shape), weir_breaker_state_name(snapshot.state),
                   snapshot.generation, snapshot.n_trips, snapshot.n_failures, snapshot.n_requests,
                   snapshot.n_probes, (int)snapshot.override);
    }
  }
}
