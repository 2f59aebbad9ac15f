/* SPDX-License-Identifier: Apache-2.0 */
#include "src/channel/channel.h"

#include <limits.h>
#include <string.h>

#include <grpc/grpc_posix.h>
#include <grpc/slice.h>

#include "interceptors/breaker/breaker_layer.h"
#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/base/random.h"
#include "src/call/breaker_news.h"
#include "src/call/call.h"
#include "src/call/inbound.h"
#include "src/call/slice.h"
#include "src/channel/core_claims.h"
#include "src/channel/registered_method.h"
#include "src/channel/swap.h"
#include "src/fallback/fallbacks.h"
#include "src/log/json_log.h"
#include "src/outcome/wire_signals.h"
#include "src/queue/queue.h"
#include "src/time/clock.h"
#include "src/time/timespec.h"

/* A blocking queue has one call under way, and its predecessors' replies. */
#define BLOCKING_SLAB_BLOCKS 3

/* --- the core's channel --- */

/* What weir adds to the application's arguments, at most. */
#define MAX_OWN_ARGS 4

/* "No keepalive" is the core's default, and yet it arms a timer for it, due in 2^31 ms, that it
 * cancels and arms again whenever it reads: some 3,000 instructions a call (1.51.1). Only where the
 * argument is given it takes INT_MAX for what it means, and has no timer. */
#define NO_KEEPALIVE_MS INT_MAX

static bool has_arg(const grpc_channel_args *args, const char *key) {
  for (size_t i = 0; args != NULL && i < args->num_args; i++) {
    if (strcmp(args->args[i].key, key) == 0) {
      return true;
    }
  }
  return false;
}

/* The core's arguments take keys that are not const, and don't write to them. */
static grpc_arg arg_new(grpc_arg_type type, const char *key) {
  grpc_arg arg;
  memset(&arg, 0, sizeof arg);
  arg.type = type;
  memcpy(&arg.key, &key, sizeof key);
  return arg;
}

static grpc_arg integer_arg(const char *key, int value) {
  grpc_arg arg = arg_new(GRPC_ARG_INTEGER, key);
  arg.value.integer = value;
  return arg;
}

static grpc_arg string_arg(const char *key, const char *value) {
  grpc_arg arg = arg_new(GRPC_ARG_STRING, key);
  memcpy(&arg.value.string, &value, sizeof value);
  return arg;
}

/* The application's arguments and weir's, in one array to be freed; false when there is no memory.
 *
 * Retries are weir's: with the core's on, attempts multiply, grpc-previous-rpc-attempts is removed,
 * and a peer that ends a stream without grpc-status aborts the process (1.51.1). */
static bool core_args_init(const grpc_channel_args *args,
                           const struct weir__environment *environment,
                           grpc_channel_args *all_out) {
  size_t n_args = args != NULL ? args->num_args : 0;
  grpc_arg *own = weir__zalloc_array(environment->allocator, n_args + MAX_OWN_ARGS, sizeof *own);
  if (own == NULL) {
    return false;
  }
  size_t count = 0;
  for (size_t i = 0; i < n_args; i++) {
    if (strcmp(args->args[i].key, GRPC_ARG_ENABLE_RETRIES) != 0) {
      own[count++] = args->args[i];
    }
  }
  own[count++] = integer_arg(GRPC_ARG_ENABLE_RETRIES, 0);
  if (!has_arg(args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION)) {
    own[count++] = integer_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  }
  if (!has_arg(args, GRPC_ARG_KEEPALIVE_TIME_MS)) {
    own[count++] = integer_arg(GRPC_ARG_KEEPALIVE_TIME_MS, NO_KEEPALIVE_MS);
  }
  const char *service_config = environment->core_service_config;
  if (service_config != NULL && !has_arg(args, GRPC_ARG_SERVICE_CONFIG)) {
    own[count++] = string_arg(GRPC_ARG_SERVICE_CONFIG, service_config);
  }
  *all_out = (grpc_channel_args){.num_args = count, .args = own};
  return true;
}

/* --- queues for blocking calls --- */

weir_completion_queue *weir__environment_take_queue(struct weir__environment *environment) {
  for (size_t i = 0; i < WEIR__IDLE_QUEUES; i++) {
    if (atomic_load_explicit(&environment->idle_queues[i], memory_order_relaxed) != NULL) {
      /* acquire: pairs with the release in give; what the thread before did with the queue */
      weir_completion_queue *queue =
          atomic_exchange_explicit(&environment->idle_queues[i], NULL, memory_order_acquire);
      if (queue != NULL) {
        return queue;
      }
    }
  }
  return weir__queue_new(&(struct weir__queue_options){.allocator = environment->allocator,
                                                       .clock = NULL,
                                                       .transport = environment->transport,
                                                       .type = GRPC_CQ_NEXT,
                                                       .slab_blocks = BLOCKING_SLAB_BLOCKS});
}

static void queue_end(weir_completion_queue *queue) {
  weir_completion_queue_shutdown(queue);
  while (weir_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
         GRPC_QUEUE_SHUTDOWN) {
    /* what is left are wake-ups */
  }
  weir_completion_queue_destroy(queue);
}

void weir__environment_give_queue(struct weir__environment *environment,
                                  weir_completion_queue *queue) {
  for (size_t i = 0; i < WEIR__IDLE_QUEUES; i++) {
    weir_completion_queue *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&environment->idle_queues[i], &none, queue,
                                                memory_order_release, memory_order_relaxed)) {
      return;
    }
  }
  queue_end(queue);
}

static void idle_queues_end(struct weir__environment *environment) {
  for (size_t i = 0; i < WEIR__IDLE_QUEUES; i++) {
    weir_completion_queue *queue =
        atomic_load_explicit(&environment->idle_queues[i], memory_order_relaxed);
    if (queue != NULL) {
      queue_end(queue);
    }
  }
}

/* --- life --- */

void weir__environment_unref(struct weir__environment *environment) {
  /* acq_rel: what the others did with it comes before its end */
  if (atomic_fetch_sub_explicit(&environment->n_refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  idle_queues_end(environment);
  weir__registered_methods_free(environment);
  if (environment->channel != NULL) {
    weir__core_unclaim(environment);
    grpc_channel_destroy(environment->channel);
  }
  struct weir__fallbacks *fallbacks = environment->fallbacks;
  weir__free(environment->allocator, environment->core_service_config);
  weir__free(environment->allocator, environment->target);
  weir__free(environment->allocator, environment);
  weir__fallbacks_unref(fallbacks); /* last: the application's hook may do what it likes */
}

/* No channel comes of it: what the application gave stays its own. */
static void environment_undo(struct weir__environment *environment) {
  weir__fallbacks_disown(environment->fallbacks);
  weir__environment_unref(environment);
}

static void counters_init(struct weir__call_counters *counters) {
  atomic_init(&counters->n_clamped_deadlines, 0);
  atomic_init(&counters->n_detached_calls, 0);
  atomic_init(&counters->n_policy_swaps, 0);
  atomic_init(&counters->n_policy_refusals, 0);
  for (size_t i = 0; i < WEIR__N_FALLBACK_RESULTS; i++) {
    atomic_init(&counters->n_fallback_results[i], 0);
  }
}

static struct weir__environment *environment_new(const char *target,
                                                 enum weir_core_retries core_retries,
                                                 const struct weir_channel_options *options) {
  const struct weir_allocator *allocator = weir__allocator_or_default(options->allocator);
  struct weir__environment *environment = weir__zalloc(allocator, sizeof *environment);
  if (environment == NULL) {
    return NULL;
  }
  atomic_init(&environment->n_refs, 1);
  environment->allocator = allocator;
  environment->random = weir__random_or_default(options->random);
  environment->log = options->log != NULL ? options->log : weir__json_log_default_sink();
  environment->breaker_listener = options->breaker_listener;
  environment->core_retries = core_retries;
  environment->signals_trusted =
      core_retries == WEIR_CORE_RETRIES_OFF && weir__wire_signals_trusted();
  atomic_init(&environment->replay_budget.n_bytes, 0);
  atomic_init(&environment->replay_budget.n_overflows, 0);
  atomic_init(&environment->reconnect.not_before_ns, INT64_MIN);
  counters_init(&environment->counters);
  environment->target_size = strlen(target);
  environment->target = weir__copy_text(allocator, target, environment->target_size);
  if (options->fallback != NULL) {
    environment->fallbacks = weir__fallbacks_new(options->fallback, allocator);
  }
  if (environment->target == NULL ||
      (options->fallback != NULL && environment->fallbacks == NULL)) {
    environment_undo(environment);
    return NULL;
  }
  return environment;
}

enum weir_error weir__channel_new(const char *target, const struct weir__transport *transport,
                                  enum weir_core_retries core_retries,
                                  const struct weir_channel_options *options,
                                  weir_channel **channel_out) {
  *channel_out = NULL;
  struct weir__environment *environment = environment_new(target, core_retries, options);
  if (environment == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  weir_channel *channel = weir__zalloc(environment->allocator, sizeof *channel);
  if (channel == NULL) {
    environment_undo(environment);
    return WEIR_ERROR_NO_MEMORY;
  }
  /* A script's calls end when it says so. */
  environment->keeps_time = transport == weir__transport_core();
  atomic_init(&channel->n_refs, 1);
  (void)pthread_mutex_init(&channel->guarded.mutex, NULL);
  channel->environment = environment;
  environment->transport = transport;
  enum weir_error error = weir__channel_begin_policy(channel, options->policy);
  if (error != WEIR_OK) {
    weir__channel_undo(channel);
    return error;
  }
  *channel_out = channel;
  return WEIR_OK;
}

void weir__channel_undo(weir_channel *channel) {
  weir__fallbacks_disown(channel->environment->fallbacks);
  weir_channel_destroy(channel);
}

bool weir__channel_log_is_usable(const struct weir_log_sink *log) {
  return log == NULL || (log->size >= sizeof *log && log->write != NULL);
}

bool weir__channel_listener_is_usable(const struct weir_breaker_listener *listener) {
  return listener == NULL || (listener->size >= sizeof *listener && listener->changed != NULL);
}

/* A channel whose core is still to be made. */
static weir_channel *channel_begin(const char *target, const struct weir_channel_options *options) {
  struct weir_channel_options known = WEIR_CHANNEL_OPTIONS_INIT;
  if (target == NULL ||
      (options != NULL && weir__options_copy(&known, sizeof known, options) != WEIR_OK) ||
      !weir__channel_log_is_usable(known.log) ||
      !weir__channel_listener_is_usable(known.breaker_listener) ||
      weir__fallback_check(known.fallback) != WEIR_OK) {
    return NULL;
  }
  weir_channel *channel = NULL;
  enum weir_error error =
      weir__channel_new(target, weir__transport_core(), WEIR_CORE_RETRIES_OFF, &known, &channel);
  return error == WEIR_OK ? channel : NULL;
}

/* A new channel of the core's is nobody else's. */
static void take_core(weir_channel *channel, grpc_channel *core) {
  (void)weir__core_claim(channel->environment, core);
}

/* As channel_begin; `*all_out` is what the core is to be made with, its array to be freed. */
static weir_channel *channel_begin_with(const char *target, const grpc_channel_args *args,
                                        const struct weir_channel_options *options,
                                        grpc_channel_args *all_out) {
  weir_channel *channel = channel_begin(target, options);
  if (channel != NULL && !core_args_init(args, channel->environment, all_out)) {
    weir__channel_undo(channel);
    return NULL;
  }
  return channel;
}

weir_channel *weir_channel_create(const char *target, grpc_channel_credentials *creds,
                                  const grpc_channel_args *args,
                                  const struct weir_channel_options *options) {
  grpc_channel_args all;
  weir_channel *channel = channel_begin_with(target, args, options, &all);
  if (channel != NULL) {
    take_core(channel, grpc_channel_create(target, creds, &all));
    weir__free(channel->environment->allocator, all.args);
  }
  return channel;
}

weir_channel *weir_channel_create_from_fd(const char *target, int fd,
                                          grpc_channel_credentials *creds,
                                          const grpc_channel_args *args,
                                          const struct weir_channel_options *options) {
  grpc_channel_args all;
  weir_channel *channel = channel_begin_with(target, args, options, &all);
  if (channel != NULL) {
    take_core(channel, grpc_channel_create_from_fd(target, fd, creds, &all));
    weir__free(channel->environment->allocator, all.args);
  }
  return channel;
}

weir_channel *weir_lame_client_channel_create(const char *target, grpc_status_code error_code,
                                              const char *error_message,
                                              const struct weir_channel_options *options) {
  weir_channel *channel = channel_begin(target, options);
  if (channel != NULL) {
    take_core(channel, grpc_lame_client_channel_create(target, error_code,
                                                       error_message != NULL ? error_message : ""));
  }
  return channel;
}

void weir__channel_ref(weir_channel *channel) {
  /* relaxed: the caller has a share already */
  atomic_fetch_add_explicit(&channel->n_refs, 1, memory_order_relaxed);
}

void weir_channel_destroy(weir_channel *channel) {
  /* acq_rel: what the others did with it comes before its end */
  if (atomic_fetch_sub_explicit(&channel->n_refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  struct weir__environment *environment = channel->environment;
  weir__rules_replace(&channel->rules, NULL);
  (void)pthread_mutex_destroy(&channel->guarded.mutex);
  weir__free(environment->allocator, channel);
  weir__environment_unref(environment);
}

/* --- calls --- */

/* A monotonic deadline, the usual one, asks for no time. */
static int64_t instant_of(gpr_timespec deadline, const weir_completion_queue *queue) {
  int64_t now_ns = deadline.clock_type == GPR_CLOCK_MONOTONIC ? 0 : weir__queue_now_ns(queue);
  return weir__instant_from_timespec(deadline, now_ns);
}

/* The census contexts are handed on both or not at all: the core makes a call of one alone that has
 * failed before it began. */
static bool is_half_a_census(const struct weir__call_arguments *arguments) {
  uint32_t mask = arguments->propagation_mask;
  return arguments->parent != NULL && ((mask & GRPC_PROPAGATE_CENSUS_STATS_CONTEXT) != 0) !=
                                          ((mask & GRPC_PROPAGATE_CENSUS_TRACING_CONTEXT) != 0);
}

/* Binds a call to the request that it is made for. */
static void bind(struct weir__call_arguments *arguments, weir_inbound *inbound,
                 enum weir_inbound_bond bond) {
  arguments->inbound = inbound;
  arguments->detached = bond == WEIR_INBOUND_DETACHED;
  if (!arguments->detached && arguments->parent == NULL) {
    /* The parent's deadline is the deadline layer's to apply, as the policy says. */
    arguments->parent = inbound->server_call;
    arguments->propagation_mask = GRPC_PROPAGATE_CANCELLATION;
  }
}

/* With rules that are taken over when the call is made. `inbound` NULL = the thread's. */
static weir_call *call_new_bound(struct weir__call_arguments *arguments, weir_inbound *inbound,
                                 enum weir_inbound_bond bond) {
  inbound = inbound != NULL ? inbound : weir_inbound_current();
  if (inbound != NULL) {
    bind(arguments, inbound, bond);
  }
  weir_call *call = weir__call_new(arguments);
  if (call != NULL && arguments->detached) {
    weir__call_counter_bump(&arguments->rules->environment->counters.n_detached_calls);
  }
  return call;
}

weir_call *weir__blocking_call_new(const struct weir__blocking_call *blocking) {
  struct weir__call_arguments arguments;
  arguments.rules = blocking->rules;
  arguments.queue = blocking->queue;
  arguments.parent = NULL;
  arguments.propagation_mask = 0;
  arguments.method = grpc_slice_from_copied_string(blocking->method);
  arguments.host = NULL;
  arguments.extras = NULL;
  arguments.deadline_at_ns = blocking->deadline_at_ns;
  arguments.inbound = NULL;
  arguments.detached = false;
  weir_call *call = call_new_bound(&arguments, blocking->inbound, blocking->bond);
  weir__slice_unref(&arguments.method);
  return call;
}

/* `registered`: whose call it is, NULL = of none. */
static weir_call *call_create(weir_channel *channel, struct weir__call_arguments *arguments,
                              const struct weir__registered_method *registered,
                              const struct weir_call_options *options) {
  struct weir_call_options known = WEIR_CALL_OPTIONS_INIT;
  if (options != NULL && (weir__options_copy(&known, sizeof known, options) != WEIR_OK ||
                          !weir__inbound_bond_is_known(known.inbound_bond))) {
    return NULL;
  }
  arguments->rules = weir__rules_take(&channel->rules);
  if (registered != NULL) {
    arguments->extras = weir__rules_registered(arguments->rules, registered->nth);
  }
  weir_call *call = call_new_bound(arguments, known.inbound, known.inbound_bond);
  if (call == NULL) {
    weir__rules_release(arguments->rules);
    return NULL;
  }
  if (is_half_a_census(arguments)) {
    (void)weir_call_cancel_with_status(
        call, GRPC_STATUS_UNKNOWN, "one of the parent's census contexts is propagated alone", NULL);
  }
  return call;
}

weir_call *weir_channel_create_call(weir_channel *channel, grpc_call *parent_call,
                                    uint32_t propagation_mask,
                                    weir_completion_queue *completion_queue, grpc_slice method,
                                    const grpc_slice *host, gpr_timespec deadline,
                                    const struct weir_call_options *options) {
  struct weir__call_arguments arguments = {
      .queue = completion_queue,
      .parent = parent_call,
      .propagation_mask = propagation_mask,
      .method = method,
      .host = host,
      .deadline_at_ns = instant_of(deadline, completion_queue),
  };
  return call_create(channel, &arguments, NULL, options);
}

void *weir_channel_register_call(weir_channel *channel, const char *method, const char *host,
                                 void *reserved) {
  if (method == NULL || reserved != NULL) {
    return NULL;
  }
  return weir__registered_method_of(channel, method, host != NULL ? host : "");
}

weir_call *weir_channel_create_registered_call(weir_channel *channel, grpc_call *parent_call,
                                               uint32_t propagation_mask,
                                               weir_completion_queue *completion_queue,
                                               void *registered_call_handle, gpr_timespec deadline,
                                               const struct weir_call_options *options) {
  const struct weir__registered_method *registered = registered_call_handle;
  struct weir__call_arguments arguments = {
      .queue = completion_queue,
      .parent = parent_call,
      .propagation_mask = propagation_mask,
      .method = registered->path,
      .deadline_at_ns = instant_of(deadline, completion_queue),
  };
  return call_create(channel, &arguments, registered, options);
}

enum weir_error weir_channel_breaker_snapshot(weir_channel *channel, const char *method,
                                              struct weir_breaker_snapshot *snapshot_out) {
  int64_t now_ns = weir__clock_now_ns(weir__clock_or_default(NULL));
  struct weir__rules *rules = weir__rules_take(&channel->rules);
  enum weir_error error = weir__breaker_layer_snapshot(rules->stack.breaker, method, strlen(method),
                                                       now_ns, snapshot_out);
  weir__rules_release(rules);
  return error;
}

static bool override_is_known(enum weir_breaker_override override) {
  switch (override) {
  case WEIR_BREAKER_OVERRIDE_NONE:
  case WEIR_BREAKER_OVERRIDE_OPEN:
  case WEIR_BREAKER_OVERRIDE_DISABLED:
    return true;
  }
  return false;
}

/* A change of breakers that no call has made, on its way to those who are told. */
struct changing {
  const struct weir__environment *environment;
  int64_t at_ns;
  bool by_policy;
};

static void tell_changed(void *context, const struct weir__breaker_name *name,
                         enum weir_breaker_override override,
                         const struct weir_breaker_view *view) {
  const struct changing *changing = context;
  struct weir__breaker_news news = {
      .change =
          {
              .size = sizeof news.change,
              .from = view->changed ? view->changed_from : view->state,
              .to = view->state,
              .generation = view->generation,
              .next_probe_in_ns = view->next_probe_in_ns,
              .at_ns = changing->at_ns,
              .override = override,
              .by_policy = changing->by_policy,
          },
      .name = *name,
  };
  weir__breaker_news_tell(changing->environment, &news);
}

void weir__channel_tell_renewed(const struct weir__rules *rules) {
  struct changing changing = {.environment = rules->environment,
                              .at_ns = weir__clock_now_ns(weir__clock_or_default(NULL)),
                              .by_policy = true};
  weir__breaker_layer_catch_up(rules->stack.breaker, tell_changed, &changing);
}

enum weir_error weir_channel_set_breaker_override(weir_channel *channel, const char *method,
                                                  enum weir_breaker_override override) {
  if (!override_is_known(override)) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  struct weir__rules *rules = weir__rules_take(&channel->rules); /* who is told may destroy it */
  struct changing changing = {.environment = rules->environment,
                              .at_ns = weir__clock_now_ns(weir__clock_or_default(NULL))};
  enum weir_error error = weir__breaker_layer_override(rules->stack.breaker, method,
                                                       method != NULL ? strlen(method) : 0,
                                                       override, tell_changed, &changing);
  weir__rules_release(rules);
  return error;
}

/* What all of a channel's calls may keep together, by the rules that are in force now. */
static size_t channel_replay_bytes(weir_channel *channel) {
  struct weir__rules *rules = weir__rules_take(&channel->rules);
  /* of the channel, and so the same for any method */
  size_t max_bytes = weir_policy_method(rules->policy, "", 0)->retry_options->channel_replay_bytes;
  weir__rules_release(rules);
  return max_bytes;
}

enum weir_error weir_channel_replay_snapshot(weir_channel *channel,
                                             struct weir_replay_snapshot *snapshot_out) {
  const struct weir__replay_budget *budget = &channel->environment->replay_budget;
  size_t size = snapshot_out->size;
  if (size < sizeof size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  struct weir_replay_snapshot snapshot = {
      .size = size < sizeof snapshot ? size : sizeof snapshot,
      .n_bytes = atomic_load_explicit(&budget->n_bytes, memory_order_relaxed),
      .max_bytes = channel_replay_bytes(channel),
      .n_overflows = atomic_load_explicit(&budget->n_overflows, memory_order_relaxed),
  };
  memcpy(snapshot_out, &snapshot, snapshot.size);
  return WEIR_OK;
}

static void read_fallback_counters(const struct weir__environment *environment,
                                   struct weir_channel_counters *counters) {
  uint64_t results[WEIR__N_FALLBACK_RESULTS];
  for (size_t i = 0; i < WEIR__N_FALLBACK_RESULTS; i++) {
    results[i] =
        atomic_load_explicit(&environment->counters.n_fallback_results[i], memory_order_relaxed);
  }
  counters->n_fallback_hits = results[WEIR_FALLBACK_HIT];
  counters->n_fallback_misses = results[WEIR_FALLBACK_MISS];
  counters->n_fallback_broken = results[WEIR_FALLBACK_BROKEN];
  counters->n_fallback_timeouts = results[WEIR_FALLBACK_TIMED_OUT];
  counters->n_fallback_busy = results[WEIR_FALLBACK_BUSY];
  counters->n_fallback_no_resources = results[WEIR_FALLBACK_NO_RESOURCES];
  counters->n_fallback_abandoned =
      results[WEIR_FALLBACK_CANCELLED] + results[WEIR_FALLBACK_SHUTDOWN];
  if (environment->fallbacks != NULL) {
    counters->n_fallback_late =
        atomic_load_explicit(&environment->fallbacks->n_late, memory_order_relaxed);
  }
}

enum weir_error weir_channel_get_counters(weir_channel *channel,
                                          struct weir_channel_counters *counters_out) {
  const struct weir__call_counters *counters = &channel->environment->counters;
  size_t size = counters_out->size;
  if (size < sizeof size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  struct weir_channel_counters read = {
      .size = size < sizeof read ? size : sizeof read,
      .n_clamped_deadlines =
          atomic_load_explicit(&counters->n_clamped_deadlines, memory_order_relaxed),
      .n_detached_calls = atomic_load_explicit(&counters->n_detached_calls, memory_order_relaxed),
      .n_policy_swaps = atomic_load_explicit(&counters->n_policy_swaps, memory_order_relaxed),
      .n_policy_refusals = atomic_load_explicit(&counters->n_policy_refusals, memory_order_relaxed),
  };
  read_fallback_counters(channel->environment, &read);
  struct weir__rules *rules = weir__rules_take(&channel->rules);
  read.n_breakers = weir__breaker_layer_n_breakers(rules->stack.breaker);
  read.n_overflowed_calls = weir__breaker_layer_n_overflowed(rules->stack.breaker);
  weir__rules_release(rules);
  memcpy(counters_out, &read, read.size);
  return WEIR_OK;
}
