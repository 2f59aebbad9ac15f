/* checkpoint – what each process of a soak holds in a quiet moment, and whether that grows from one
 * to the next.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_CHECKPOINT_H
#define WEIR_TEST_SOAK_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "test/soak/hops.h"
#include "test/soak/ledger.h"

#define CHECKPOINTS_MAX 24

/* The hops, and the client behind them. */
#define CHECKPOINT_PROCESSES (N_HOPS + 1)
#define CHECKPOINT_CLIENT N_HOPS

struct process_state {
  uint64_t rss_kib; /* of memory that is its own */
  uint64_t n_threads;
  uint64_t n_descriptors;
  uint64_t live_bytes; /* weir's */
  uint64_t heap_bytes; /* in use, of all of malloc's; 0 = it can't be told */
};

struct checkpoint {
  int64_t n_calls; /* so far */
  struct process_state processes[CHECKPOINT_PROCESSES];
};

const char *checkpoint_process_name(size_t process);

/* All is quiet. Blames breakers of A's that are not closed. */
void checkpoint_take(struct checkpoint *checkpoint, int64_t n_calls, struct hops *hops,
                     struct ledger *ledger);

/* Blames what has grown. */
void checkpoints_judge(const struct checkpoint *checkpoints, size_t n_checkpoints,
                       struct ledger *ledger);

#endif /* WEIR_TEST_SOAK_CHECKPOINT_H */
