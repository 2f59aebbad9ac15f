/* hops – the processes of a soak beside its own: A, B and the two proxies before them; what they
 * are told, and what they tell.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_HOPS_H
#define WEIR_TEST_SOAK_HOPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "test/soak/footprint.h"
#include "test/soak/ledger.h"
#include "test/soak/plan.h"
#include "test/soak/proxy.h"

/* In the order in which a request reaches them. */
enum hop { HOP_PROXY_A = 0, HOP_A, HOP_PROXY_B, HOP_B, N_HOPS };

const char *hop_name(enum hop hop);

struct hops {
  struct {
    pid_t pid;
    int fd;
  } each[N_HOPS];
  int port; /* of the first */
};

/* What a hop tells. */
struct hop_answer {
  bool quiet; /* no request is being served; a proxy always is */
  int port;
  uint64_t n_live_blocks; /* of weir's memory */
  uint64_t n_live_bytes;
  uint64_t n_heap_bytes;   /* in use, of all the process's malloc; 0 = it can't be told */
  struct footprint before; /* it began; at the end */
  struct footprint last;
  struct proxy_counts counts; /* a proxy's */
};

/* Starts them. There is no other thread in this process yet, and the core has not been initialised.
 * `ledger` and `plans` are borrowed by all. */
void hops_start(struct hops *hops, struct ledger *ledger, const struct plans *plans);

/* All calls of the client have ended: no more faults, no more new policies; waits until all is
 * quiet. False, and blamed, if that does not happen. */
bool hops_calm(struct hops *hops, struct ledger *ledger);

/* Faults and new policies. */
void hops_storm(struct hops *hops);

/* Asks one how it is; A blames breakers that are not closed. */
struct hop_answer hops_look(struct hops *hops, enum hop hop);

/* Has them end in order, and blames who leaves something behind. */
void hops_end(struct hops *hops, struct ledger *ledger);

/* Kills what is left of them. */
void hops_kill(struct hops *hops);

/* Whether one has ended by itself. */
bool hops_one_is_gone(struct hops *hops);

#endif /* WEIR_TEST_SOAK_HOPS_H */
