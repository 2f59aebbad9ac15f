/* channel_group – channels that are given each policy that comes into force.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_CHANNEL_GROUP_H
#define WEIR_SRC_WATCH_CHANNEL_GROUP_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/channel.h>
#include <weir/error.h>
#include <weir/policy.h>

struct weir__group_member;

/* Any thread, but for the end. No lock is held while a channel is given a policy. */
struct weir__channel_group {
  const struct weir_allocator *allocator;
  struct {
    pthread_mutex_t mutex;
    pthread_cond_t swapped; /* a channel is no longer being given a policy */
    struct weir__group_member *members;
    weir_policy *policy;
    uint64_t generation; /* of the policy */
    uint64_t round;
  } guarded;
};

/* `policy` is taken over: the first one. Until weir__channel_group_fini. */
void weir__channel_group_init(struct weir__channel_group *group, weir_policy *policy,
                              const struct weir_allocator *allocator);

/* Gives the shares back. */
void weir__channel_group_fini(struct weir__channel_group *group);

/* As weir_policy_watcher_add_channel and weir_policy_watcher_remove_channel. */
enum weir_error weir__channel_group_add(struct weir__channel_group *group, weir_channel *channel,
                                        struct weir_diagnostic *diagnostic);
void weir__channel_group_remove(struct weir__channel_group *group, weir_channel *channel);

/* A share of the policy in force. */
weir_policy *weir__channel_group_policy(struct weir__channel_group *group);

/* `policy`, which is taken over, is in force from now on. Returns its generation. One thread at
 * a time. */
uint64_t weir__channel_group_set_policy(struct weir__channel_group *group, weir_policy *policy);

/* Gives the policy in force to the channels that do not have it. Returns how many don't take it,
 * with what the first of them says. */
size_t weir__channel_group_bring_up(struct weir__channel_group *group,
                                    struct weir_diagnostic *diagnostic_out);

struct weir__group_count {
  size_t n_channels;
  size_t n_behind; /* without the policy in force */
  uint64_t generation;
};

struct weir__group_count weir__channel_group_count(struct weir__channel_group *group);

#endif /* WEIR_SRC_WATCH_CHANNEL_GROUP_H */
