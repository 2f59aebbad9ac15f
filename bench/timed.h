/* timed – operations whose time is told, measured in turn on a machine that others use too.
 *
 * Each operation runs in short series, one after the other in turn, so that what slows the machine
 * slows all of them; a series that was interrupted stands out and does not count. What is told is
 * the twentieth part from below of many series, of which the first, for the caches, was not timed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BENCH_TIMED_H
#define WEIR_BENCH_TIMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct operation {
  const char *name;       /* of its figures, e.g. "breaker.refuse" */
  uint32_t series_length; /* how often it is done between two looks at the clock */
  void *(*setup)(void);
  void (*prepare)(void *state); /* before each series, not timed; NULL = nothing to do */
  void (*run)(void *state, uint32_t n_times);
  void (*teardown)(void *state);
  /* A series takes so long that it is always interrupted where others use the machine, and waits for
   * nothing: its time is what the thread had of its processor. */
  bool is_long;
};

/* How long one takes: `ns_out[i]` is the time of `operations[i]`, in nanoseconds. */
void timed_alone(const struct operation *operations, size_t n_operations, int n_rounds,
                 double *ns_out);

/* How much longer one takes when two threads, each on a processor of its own, do it with the same
 * state at once than when one does. False: there is no second processor, or it was never free for
 * as long as a series takes. */
bool timed_two_threads_ratio(const struct operation *operation, int n_rounds, double *ratio_out);

#endif /* WEIR_BENCH_TIMED_H */
