/* follower – tells when what a path leads to, or two paths, may have changed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_FOLLOWER_H
#define WEIR_SRC_WATCH_FOLLOWER_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/allocator.h>

#include "src/watch/trail.h"

#define WEIR__FOLLOWED_MAX 2

/* One thread at a time. */
struct weir__follower {
  const struct weir_allocator *allocator;
  int fd; /* readable when there may be news; negative: the system gives none */
  size_t n_paths;
  const char *paths[WEIR__FOLLOWED_MAX];
  struct weir__trail trails[WEIR__FOLLOWED_MAX];
  bool is_written[WEIR__FOLLOWED_MAX]; /* and not closed since, as far as has been told */
};

/* The paths are absolute, and borrowed until weir__follower_fini. Nothing is watched yet. */
void weir__follower_init(struct weir__follower *follower, const char *const *paths, size_t n_paths,
                         const struct weir_allocator *allocator);

void weir__follower_fini(struct weir__follower *follower);

/* Watches the ways as they are now. What changes from here on is news. */
void weir__follower_walk(struct weir__follower *follower);

/* Takes all that is to be told, and says what it means: WEIR__NEWS_..., 0 = nothing. */
unsigned weir__follower_drain(struct weir__follower *follower);

/* Whether a path's file may be half written: its writer has not closed it. */
bool weir__follower_is_written(const struct weir__follower *follower, const char *path);

/* Writers have had their time: what the files hold now is what they hold. */
void weir__follower_settle(struct weir__follower *follower);

/* Why changes may go unnoticed; NULL: they don't. */
const char *weir__follower_blind(const struct weir__follower *follower);

#endif /* WEIR_SRC_WATCH_FOLLOWER_H */
