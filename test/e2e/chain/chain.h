/* chain – services A, B and C as processes of their own, what they have told, and what is done to
 * them. The test is A's client.
 *
 * Whatever is waited for has a limit, after which the test fails.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_E2E_CHAIN_CHAIN_H
#define WEIR_TEST_E2E_CHAIN_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "test/e2e/chain/protocol.h"

enum hop_name { HOP_A = 0, HOP_B, HOP_C };
#define N_HOPS 3

/* No test makes as many. */
#define CHAIN_EVENTS_MAX 4096
#define CHAIN_ROOTS_MAX 64

enum hop_state { HOP_GONE = 0, HOP_RUNNING, HOP_STOPPED, HOP_KILLED };

struct hop {
  enum hop_state state;
  pid_t pid;
  int orders_fd;
  int events_fd;
  int port;
  uint32_t n_under_way;
  int64_t continued_at_ns; /* 0 = it was never stopped */
};

struct told {
  enum hop_name hop;
  struct chain_event event;
};

struct chain {
  struct hop hops[N_HOPS];
  size_t n_told;
  struct told told[CHAIN_EVENTS_MAX]; /* of each hop in its order */
  size_t n_roots;
  int64_t root_deadlines_at_ns[CHAIN_ROOTS_MAX];
};

/* Policies of A's and B's channels; NULL = a hop without weir. */
struct chain_policies {
  const char *a;
  const char *b;
};

void chain_open(struct chain *chain, const struct chain_policies *policies);

/* Has all hops end in order, and reads what they have told to the end. */
void chain_close(struct chain *chain);

/* Ends what is left of it, whatever state it is in. */
void chain_kill(struct chain *chain);

/* The number of another call of the client's that has so long. */
int64_t chain_new_root(struct chain *chain, int64_t timeout_ns);

/* What C answers from the next request on. */
void chain_order(struct chain *chain, const struct chain_order *order);

void hop_kill(struct chain *chain, enum hop_name name);
void hop_stop(struct chain *chain, enum hop_name name);
void hop_continue(struct chain *chain, enum hop_name name);

/* How often a hop has told something, so far; and the `index`-th time, from 0, that it did. */
size_t chain_count(const struct chain *chain, enum hop_name name, enum chain_event_kind kind);
const struct chain_event *chain_event(const struct chain *chain, enum hop_name name,
                                      enum chain_event_kind kind, size_t index);

/* Waits until it has told it that often. */
void chain_await(struct chain *chain, enum hop_name name, enum chain_event_kind kind,
                 size_t n_events);

/* Waits until no request is under way at any running hop. */
void chain_await_idle(struct chain *chain);

/* Fails the test if a hop tried the next one after the end of its root's time, or was asked. What
 * was stopped meanwhile has no excuse. */
void chain_assert_nothing_late(const struct chain *chain);

#endif /* WEIR_TEST_E2E_CHAIN_CHAIN_H */
