/* SPDX-License-Identifier: Apache-2.0 */
#include "src/channel/swap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/call/rules.h"
#include "src/channel/channel.h"
#include "src/channel/registered_method.h"
#include "src/policy/organisation.h"
#include "src/policy/policy.h"
#include "src/time/clock.h"

/* --- rules --- */

/* All that can fail of a swap. Only the last step of it, the throttle's, is seen by anybody else. */
static enum weir_error make_rules_locked(weir_channel *channel, weir_policy *policy,
                                         struct weir__rules **rules_out) {
  struct weir__environment *environment = channel->environment;
  const struct weir__rules *last = weir__rules_peek(&channel->rules);
  const struct weir__stack_parts parts = {.last = last != NULL ? &last->stack : NULL,
                                          .core_retries = environment->core_retries};
  struct weir__rules *rules = NULL;
  *rules_out = NULL;
  enum weir_error error = weir__rules_new(environment, policy, &parts, &rules);
  if (error != WEIR_OK) {
    return error;
  }
  error = weir__registered_methods_resolve(environment, rules);
  if (error == WEIR_OK) {
    error = weir__stack_take_throttle(&rules->stack, policy, environment->target);
  }
  if (error != WEIR_OK) {
    weir__rules_end(rules);
    return error;
  }
  *rules_out = rules;
  return WEIR_OK;
}

/* --- what the core has --- */

static bool texts_equal(const char *one, const char *other) {
  return one != NULL && other != NULL ? strcmp(one, other) == 0 : one == other;
}

/* Whether a policy has something for the core that this channel's does not have, and that the policy
 * before did not have either. */
static bool is_news_to_core(const struct weir__environment *environment, const weir_policy *before,
                            const weir_policy *policy) {
  const char *wanted = weir__policy_core_service_config(policy);
  return !texts_equal(wanted, environment->core_service_config) &&
         !texts_equal(wanted, weir__policy_core_service_config(before));
}

static void tell_of_core(const struct weir__environment *environment) {
  const struct weir_log_record record = {
      .reference = "",
      .target = environment->target,
      .event = WEIR_LOG_CORE_CONFIG_KEPT,
      .at_ns = weir__clock_now_ns(weir__clock_or_default(NULL)),
      .time_unix_ns = weir__wall_clock_now_ns(),
      .text =
          "the new policy is in force, but for what it has for the core (load balancing, health "
          "checks): that is read when a channel is made, and holds from the next one on",
      .fallback_source = "",
  };
  environment->log->write(environment->log->context, &record);
}

/* --- in force --- */

enum weir_error weir__channel_begin_policy(weir_channel *channel, weir_policy *policy) {
  struct weir__environment *environment = channel->environment;
  struct weir__rules *rules = NULL;
  weir_policy *in_force = NULL;
  struct weir_diagnostic diagnostic;
  enum weir_error error =
      weir__policy_in_force(policy, environment->allocator, &in_force, &diagnostic);
  if (error != WEIR_OK) {
    if (error != WEIR_ERROR_NO_MEMORY) {
      weir__policy_log_refused(environment->log, environment->target, &diagnostic);
    }
    return error;
  }
  const char *for_core = weir__policy_core_service_config(in_force);
  if (for_core != NULL) {
    environment->core_service_config =
        weir__copy_text(environment->allocator, for_core, strlen(for_core));
    error = environment->core_service_config != NULL ? WEIR_OK : WEIR_ERROR_NO_MEMORY;
  }
  if (error == WEIR_OK) {
    error = make_rules_locked(channel, in_force, &rules); /* nobody else has the channel */
  }
  if (error == WEIR_OK) {
    weir__rules_replace(&channel->rules, rules);
  }
  weir_policy_unref(in_force);
  return error;
}

/* What is to be told of a swap, once no lock is held. */
struct aftermath {
  struct weir__rules *rules; /* that are in force now: a share; NULL = nothing has changed */
  bool core_is_behind;       /* the core goes on without a part of the policy */
};

static enum weir_error swap(weir_channel *channel, weir_policy *policy,
                            struct aftermath *aftermath_out) {
  struct weir__rules *rules = NULL;
  *aftermath_out = (struct aftermath){.rules = NULL};
  (void)pthread_mutex_lock(&channel->guarded.mutex);
  enum weir_error error = make_rules_locked(channel, policy, &rules);
  if (error == WEIR_OK) {
    aftermath_out->core_is_behind =
        is_news_to_core(channel->environment, weir__rules_peek(&channel->rules)->policy, policy);
    weir__stack_put_in_force(&rules->stack);
    weir__rules_replace(&channel->rules, rules);
    aftermath_out->rules = weir__rules_take(&channel->rules);
  }
  (void)pthread_mutex_unlock(&channel->guarded.mutex);
  return error;
}

static void tell(const struct aftermath *aftermath) {
  struct weir__rules *rules = aftermath->rules;
  if (rules == NULL) {
    return;
  }
  weir__channel_tell_renewed(rules);
  if (aftermath->core_is_behind) {
    tell_of_core(rules->environment);
  }
  weir__rules_release(rules);
}

enum weir_error weir_channel_set_policy(weir_channel *channel, weir_policy *policy,
                                        struct weir_diagnostic *diagnostic) {
  struct weir__environment *environment = channel->environment;
  struct aftermath aftermath = {.rules = NULL};
  weir_policy *in_force = NULL;
  enum weir_error error =
      weir__policy_in_force(policy, environment->allocator, &in_force, diagnostic);
  if (error == WEIR_OK) {
    error = swap(channel, in_force, &aftermath);
    weir_policy_unref(in_force);
  }
  if (error == WEIR_ERROR_NO_MEMORY && diagnostic != NULL) {
    *diagnostic = (struct weir_diagnostic){.message = "there is no memory"};
  }
  weir__call_counter_bump(error == WEIR_OK ? &environment->counters.n_policy_swaps
                                           : &environment->counters.n_policy_refusals);
  tell(&aftermath); /* who is told may destroy the channel */
  return error;
}

weir_policy *weir_channel_policy(weir_channel *channel) {
  struct weir__rules *rules = weir__rules_take(&channel->rules);
  weir_policy *policy = weir_policy_ref(rules->policy);
  weir__rules_release(rules);
  return policy;
}
