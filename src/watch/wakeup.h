/* wakeup – one descriptor for all that a watcher waits for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_WAKEUP_H
#define WEIR_SRC_WATCH_WAKEUP_H

#include <stdbool.h>
#include <stdint.h>

struct weir__wakeup {
  int fd;       /* an epoll of the rest: readable when one of them is */
  int timer_fd; /* of its own */
  int event_fd; /* of its own: somebody asks for a look */
};

/* False: the system gives no descriptors. `follower_fd` is borrowed until weir__wakeup_fini;
 * negative = there is none. */
bool weir__wakeup_init(struct weir__wakeup *wakeup, int follower_fd);
void weir__wakeup_fini(struct weir__wakeup *wakeup);

/* Blocks until it is readable. */
void weir__wakeup_wait(const struct weir__wakeup *wakeup);

/* Asks for a look. Any thread, and a signal's handler. */
void weir__wakeup_ring(const struct weir__wakeup *wakeup);

/* Whether a look is due: somebody has asked for it, or the time is over. It is due no more then. */
bool weir__wakeup_take(const struct weir__wakeup *wakeup);

/* Makes a look due after so long; never with WEIR_NO_LIMIT_NS. */
void weir__wakeup_set_timer(const struct weir__wakeup *wakeup, int64_t after_ns);

/* The same, unless one is due sooner. */
void weir__wakeup_advance_timer(const struct weir__wakeup *wakeup, int64_t after_ns);

#endif /* WEIR_SRC_WATCH_WAKEUP_H */
