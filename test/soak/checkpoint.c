/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/checkpoint.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "test/soak/live_memory.h"

/* What one quiet moment may hold more than another: connections that were made anew and not yet
 * given up, threads of the core's that linger. Of thousands of cut connections, a leak would be as
 * many. */
#define DESCRIPTORS_SLACK 16
#define THREADS_SLACK 8

/* Of weir's, a slab of a queue whose peak comes late; of all, what malloc keeps for each thread. A leak
 * that lasts is found at the end, of some bytes a call. */
#define LIVE_SLACK_BYTES (UINT64_C(32) * 1024)
#define HEAP_SLACK_BYTES (UINT64_C(1024) * 1024)
#define RSS_SLACK_KIB UINT64_C(6144)

const char *checkpoint_process_name(size_t process) {
  return process == CHECKPOINT_CLIENT ? "client" : hop_name((enum hop)process);
}

/* --- a quiet moment --- */

void checkpoint_take(struct checkpoint *checkpoint, int64_t n_calls, struct hops *hops) {
  memset(checkpoint, 0, sizeof *checkpoint);
  checkpoint->n_calls = n_calls;
  for (size_t i = 0; i < N_HOPS; i++) {
    struct hop_answer answer = hops_look(hops, (enum hop)i);
    footprint_look(hops->each[i].pid, &checkpoint->processes[i].footprint);
    checkpoint->processes[i].footprint.heap_bytes = answer.n_heap_bytes;
    checkpoint->processes[i].live_bytes = answer.n_live_bytes;
  }
  struct process_state *own = &checkpoint->processes[CHECKPOINT_CLIENT];
  own->live_bytes = live_memory_bytes();
  footprint_take(&own->footprint);
}

/* --- growth --- */

enum measure { MEASURE_RSS = 0, MEASURE_THREADS, MEASURE_DESCRIPTORS, MEASURE_LIVE, MEASURE_HEAP };
#define N_MEASURES (MEASURE_HEAP + 1)

static uint64_t measure_of(const struct process_state *state, enum measure measure) {
  switch (measure) {
  case MEASURE_RSS:
    return state->footprint.rss_kib;
  case MEASURE_THREADS:
    return state->footprint.n_threads;
  case MEASURE_DESCRIPTORS:
    return state->footprint.n_descriptors;
  case MEASURE_LIVE:
    return state->live_bytes;
  case MEASURE_HEAP:
    return state->footprint.heap_bytes;
  }
  return 0;
}

/* Before as many calls, memory grows with what is used for the first time. */
#define WARM_CALLS 2000

/* A trend needs as many. */
#define JUDGED_MIN 3

struct limit {
  const char *name;
  uint64_t slack;
};

static const struct limit limits[N_MEASURES] = {
    [MEASURE_RSS] = {"KiB resident", RSS_SLACK_KIB},
    [MEASURE_THREADS] = {"threads", THREADS_SLACK},
    [MEASURE_DESCRIPTORS] = {"descriptors", DESCRIPTORS_SLACK},
    [MEASURE_LIVE] = {"bytes of weir's", LIVE_SLACK_BYTES},
    [MEASURE_HEAP] = {"bytes in use", HEAP_SLACK_BYTES},
};

static int by_size(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one;
  uint64_t b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

static uint64_t median(const struct checkpoint *checkpoints, size_t n, size_t process,
                       enum measure measure) {
  uint64_t values[CHECKPOINTS_MAX];
  for (size_t i = 0; i < n; i++) {
    values[i] = measure_of(&checkpoints[i].processes[process], measure);
  }
  qsort(values, n, sizeof values[0], by_size);
  return values[n / 2];
}

/* A trend, not a peak: the last third against the one before. A sanitizer keeps what was freed, so
 * there its memory can't tell. */
static void judge(const struct checkpoint *checkpoints, size_t n, size_t process,
                  enum measure measure, struct ledger *ledger) {
  size_t third = n / 3;
  bool is_sanitized = checkpoints[0].processes[CHECKPOINT_CLIENT].footprint.heap_bytes == 0;
  if (is_sanitized && measure == MEASURE_RSS) {
    return;
  }
  uint64_t before = median(checkpoints + (n - 2 * third), third, process, measure);
  uint64_t now = median(checkpoints + (n - third), third, process, measure);
  if (now > before + limits[measure].slack) {
    ledger_blame(ledger, 0, LEDGER_CLIENT, "%s grows: from %" PRIu64 " to %" PRIu64 " %s",
                 checkpoint_process_name(process), before, now, limits[measure].name);
  }
}

static bool is_memory(enum measure measure) {
  return measure != MEASURE_THREADS && measure != MEASURE_DESCRIPTORS;
}

void checkpoints_judge(const struct checkpoint *checkpoints, size_t n_checkpoints,
                       struct ledger *ledger) {
  size_t n_cold = 0;
  while (n_cold < n_checkpoints && checkpoints[n_cold].n_calls < WARM_CALLS) {
    n_cold++;
  }
  for (size_t process = 0; process < CHECKPOINT_PROCESSES; process++) {
    for (enum measure measure = MEASURE_RSS; measure < N_MEASURES; measure++) {
      size_t first = is_memory(measure) ? n_cold : 0;
      if (n_checkpoints - first >= JUDGED_MIN) {
        judge(checkpoints + first, n_checkpoints - first, process, measure, ledger);
      }
    }
  }
}
