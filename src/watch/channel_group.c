/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/channel_group.h"

#include <stdbool.h>
#include <string.h>

#include "src/base/allocator.h"
#include "src/channel/channel.h"

/* Guarded by the group's mutex, but for `channel`, which stays. */
struct weir__group_member {
  struct weir__group_member *next;
  weir_channel *channel; /* a share */
  uint64_t generation;   /* of the policy that it has */
  uint64_t round;        /* in which it was tried last */
  bool busy;             /* a thread is giving it a policy */
  bool orphaned;         /* removed by that very thread, which frees it */
  pthread_t swapper;     /* that thread */
};

static void lock(struct weir__channel_group *group) {
  (void)pthread_mutex_lock(&group->guarded.mutex);
}

static void unlock(struct weir__channel_group *group) {
  (void)pthread_mutex_unlock(&group->guarded.mutex);
}

void weir__channel_group_init(struct weir__channel_group *group, weir_policy *policy,
                              const struct weir_allocator *allocator) {
  memset(group, 0, sizeof *group);
  group->allocator = allocator;
  (void)pthread_mutex_init(&group->guarded.mutex, NULL);
  (void)pthread_cond_init(&group->guarded.swapped, NULL);
  group->guarded.policy = policy;
  group->guarded.generation = 1;
}

/* Without the lock: the end of a channel may be the application's business. */
static void member_free(struct weir__channel_group *group, struct weir__group_member *member) {
  weir_channel_destroy(member->channel);
  weir__free(group->allocator, member);
}

void weir__channel_group_fini(struct weir__channel_group *group) {
  while (group->guarded.members != NULL) {
    struct weir__group_member *member = group->guarded.members;
    group->guarded.members = member->next;
    member_free(group, member);
  }
  weir_policy_unref(group->guarded.policy);
  (void)pthread_cond_destroy(&group->guarded.swapped);
  (void)pthread_mutex_destroy(&group->guarded.mutex);
}

/* ---- members ---- */

/* Where the pointer to a channel's member is; to NULL if it has none. */
static struct weir__group_member **find_locked(struct weir__channel_group *group,
                                               const weir_channel *channel) {
  struct weir__group_member **link = &group->guarded.members;
  while (*link != NULL && (*link)->channel != channel) {
    link = &(*link)->next;
  }
  return link;
}

/* Gives a member what is in force, and again if that has changed meanwhile. The lock is not held in
 * between. The member may be orphaned then. */
static enum weir_error swap_locked(struct weir__channel_group *group,
                                   struct weir__group_member *member,
                                   struct weir_diagnostic *diagnostic) {
  enum weir_error error = WEIR_OK;
  uint64_t generation = 0;
  member->busy = true;
  member->swapper = pthread_self();
  do {
    weir_policy *policy = weir_policy_ref(group->guarded.policy);
    generation = group->guarded.generation;
    unlock(group);
    error = weir_channel_set_policy(member->channel, policy, diagnostic);
    weir_policy_unref(policy);
    lock(group);
    if (error == WEIR_OK) {
      member->generation = generation;
    }
  } while (!member->orphaned && generation != group->guarded.generation);
  member->round = group->guarded.round;
  member->busy = false;
  (void)pthread_cond_broadcast(&group->guarded.swapped);
  return error;
}

enum weir_error weir__channel_group_add(struct weir__channel_group *group, weir_channel *channel,
                                        struct weir_diagnostic *diagnostic) {
  struct weir__group_member *member = weir__zalloc(group->allocator, sizeof *member);
  if (member == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  lock(group);
  if (*find_locked(group, channel) != NULL) {
    unlock(group);
    weir__free(group->allocator, member);
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  weir__channel_ref(channel);
  member->channel = channel;
  member->next = group->guarded.members;
  group->guarded.members = member;
  const enum weir_error error = swap_locked(group, member, diagnostic);
  bool removed = member->orphaned;
  struct weir__group_member **link = find_locked(group, channel);
  if (!removed && error != WEIR_OK && *link == member) {
    *link = member->next;
    removed = true;
  }
  unlock(group);
  if (removed) {
    member_free(group, member);
  }
  return error;
}

void weir__channel_group_remove(struct weir__channel_group *group, weir_channel *channel) {
  lock(group);
  struct weir__group_member **link = find_locked(group, channel);
  struct weir__group_member *member = *link;
  if (member == NULL) {
    unlock(group);
    return;
  }
  *link = member->next;
  if (member->busy && pthread_equal(member->swapper, pthread_self())) {
    member->orphaned = true;
    unlock(group);
    return;
  }
  while (member->busy) {
    (void)pthread_cond_wait(&group->guarded.swapped, &group->guarded.mutex);
  }
  unlock(group);
  member_free(group, member);
}

/* ---- the policy ---- */

weir_policy *weir__channel_group_policy(struct weir__channel_group *group) {
  lock(group);
  weir_policy *policy = weir_policy_ref(group->guarded.policy);
  unlock(group);
  return policy;
}

uint64_t weir__channel_group_set_policy(struct weir__channel_group *group, weir_policy *policy) {
  lock(group);
  weir_policy *before = group->guarded.policy;
  group->guarded.policy = policy;
  const uint64_t generation = ++group->guarded.generation;
  unlock(group);
  weir_policy_unref(before);
  return generation;
}

/* One that nobody else is at, and that has not been tried in this round. */
static struct weir__group_member *behind_locked(const struct weir__channel_group *group) {
  struct weir__group_member *member = group->guarded.members;
  while (member != NULL && (member->busy || member->round == group->guarded.round ||
                            member->generation == group->guarded.generation)) {
    member = member->next;
  }
  return member;
}

size_t weir__channel_group_bring_up(struct weir__channel_group *group,
                                    struct weir_diagnostic *diagnostic_out) {
  size_t n_failed = 0;
  struct weir_diagnostic diagnostic;
  lock(group);
  group->guarded.round++;
  for (struct weir__group_member *member = behind_locked(group); member != NULL;
       member = behind_locked(group)) {
    memset(&diagnostic, 0, sizeof diagnostic);
    const enum weir_error error = swap_locked(group, member, &diagnostic);
    if (error != WEIR_OK && n_failed++ == 0) {
      *diagnostic_out = diagnostic;
    }
    if (member->orphaned) {
      unlock(group);
      member_free(group, member);
      lock(group);
    }
  }
  unlock(group);
  return n_failed;
}

struct weir__group_count weir__channel_group_count(struct weir__channel_group *group) {
  struct weir__group_count count = {.n_channels = 0};
  lock(group);
  count.generation = group->guarded.generation;
  for (const struct weir__group_member *member = group->guarded.members; member != NULL;
       member = member->next) {
    count.n_channels++;
    count.n_behind += member->generation != count.generation ? 1 : 0;
  }
  unlock(group);
  return count;
}
