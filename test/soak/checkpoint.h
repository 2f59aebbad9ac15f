/* checkpoint – what each process of a soak holds in a quiet moment, and whether that grows from one
 * to the next.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_SOAK_CHECKPOINT_H
#define WEIR_TEST_SOAK_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "test/soak/footprint.h"
#include "test/soak/hops.h"
#include "test/soak/ledger.h"

#define CHECKPOINTS_MAX 24

/* The hops, and the client behind them. */
#define CHECKPOINT_PROCESSES (N_HOPS + 1)
#define CHECKPOINT_CLIENT N_HOPS

struct process_state {
  struct footprint footprint;
  uint64_t live_bytes; /* weir's */
};

struct checkpoint {
  int64_t n_calls; /* so far */
  struct process_state processes[CHECKPOINT_PROCESSES];
};

const char *checkpoint_process_name(size_t process);

/* All is quiet. */
void checkpoint_take(struct checkpoint *checkpoint, int64_t n_calls, struct hops *hops);

/* Blames what has grown. */
void checkpoints_judge(const struct checkpoint *checkpoints, size_t n_checkpoints,
                       struct ledger *ledger);

#endif /* WEIR_TEST_SOAK_CHECKPOINT_H */
