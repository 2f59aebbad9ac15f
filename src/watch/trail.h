/* trail – the directories and links that a path leads through, each watched by inotify.
 *
 * A directory is watched before its entry is looked up, so that whatever changes behind the walk is
 * told, and the path walked anew. Names that a path leads through matter, and what is written to
 * the file at its end; the rest of what goes on in these directories does not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_TRAIL_H
#define WEIR_SRC_WATCH_TRAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/inotify.h>

#include <weir/allocator.h>

struct weir__trail_step;

struct weir__trail {
  const struct weir_allocator *allocator;
  struct weir__trail_step *steps;
  /* Why changes may go unnoticed, and so the file is to be looked at from time to time; NULL: they
   * are all told. Static. */
  const char *blind;
};

/* Walks an absolute path as far as it leads. `trail` ends with weir__trail_fini; the watches stay
 * until weir__trail_leave. */
void weir__trail_walk(struct weir__trail *trail, int inotify_fd, const char *path,
                      const struct weir_allocator *allocator);

void weir__trail_fini(struct weir__trail *trail);

bool weir__trail_uses(const struct weir__trail *trail, int watch);

/* Ends the watches of a trail that neither of the others, which may be NULL, uses. */
void weir__trail_leave(const struct weir__trail *trail, int inotify_fd,
                       const struct weir__trail *one, const struct weir__trail *other);

/* What events mean, as bits. */
#define WEIR__NEWS_WRITING 1u /* the file is being written; the end of that is told too */
#define WEIR__NEWS_CREATED 2u /* it is there, but may be about to be written */
#define WEIR__NEWS_CHANGED 4u

/* 0: the event is none that matters. */
unsigned weir__trail_news(const struct weir__trail *trail, const struct inotify_event *event);

#endif /* WEIR_SRC_WATCH_TRAIL_H */
