/* line_limit – how many lines of one kind a log takes: so many a second; the others are counted.
 *
 * A window begins with the first line after the last one is over, so a line that comes after a
 * quiet second is never left out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_LOG_LINE_LIMIT_H
#define WEIR_SRC_LOG_LINE_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR__LINE_LIMIT_MAX 10000 /* lines a second, at most */

/* Zeroed = nothing has come yet. Any thread. */
struct weir__line_limit {
  _Atomic uint64_t window; /* when it began, and how many lines it has had */
  _Atomic uint64_t n_left_out;
};

/* Whether a line of an event at `at_ns` is one of the `max_lines` (1 … WEIR__LINE_LIMIT_MAX) of its
 * second. Threads may come out of order, so an event from before the window counts in it; one from
 * a second or more before it says that the clock is another, and begins a new one. */
bool weir__line_limit_admit(struct weir__line_limit *limit, uint32_t max_lines, int64_t at_ns);

/* Counts lines that were not written. */
void weir__line_limit_leave_out(struct weir__line_limit *limit, uint64_t n_lines);

/* How many there were since this was last asked: each is told once. */
uint64_t weir__line_limit_take_left_out(struct weir__line_limit *limit);

#endif /* WEIR_SRC_LOG_LINE_LIMIT_H */
