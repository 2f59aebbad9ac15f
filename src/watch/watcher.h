/* watcher – follows a policy's file and the organisation's: one look at a time.
 *
 * A look is taken by the watcher's thread, or by who polls. It walks the paths, reads the files,
 * decides what is in force, and tells those who want to know; no lock is held meanwhile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SRC_WATCH_WATCHER_H
#define WEIR_SRC_WATCH_WATCHER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <weir/policy_watch.h>

#include "src/watch/channel_group.h"
#include "src/watch/documents.h"
#include "src/watch/follower.h"
#include "src/watch/wakeup.h"

struct weir_policy_watcher {
  const struct weir_allocator *allocator;
  struct weir_policy_watch_options options; /* without what is not the watcher's */
  const struct weir_log_sink *log;
  pid_t pid;          /* that follows; a child of it does not */
  char *path;         /* absolute, as the other is */
  char *organisation; /* NULL = none */
  struct weir__wakeup wakeup;
  struct weir__channel_group group;
  bool has_thread;
  pthread_t thread;
  atomic_bool ending; /* the thread is to end */
  bool freed;         /* by a callback of the look that is under way; for that alone */

  /* of the look that is under way */
  struct weir__follower follower;
  struct weir__documents documents;
  const char *blind; /* why it polls, as told in the log */

  struct {
    pthread_mutex_t mutex;
    pthread_cond_t looked; /* a look is over, or the thread is to end */
    bool looking;          /* for good, once a callback of the look has ended the watcher */
    pthread_t looker;      /* if so */
    struct weir_policy_watch_snapshot snapshot;
  } guarded;
};

/* Reads the files for the first time. `watcher` has all but the group, whose first policy is in
 * `*policy_out`, the caller's. */
enum weir_error weir__watcher_begin(weir_policy_watcher *watcher, weir_policy **policy_out,
                                    struct weir_diagnostic *diagnostic);

/* Tells what weir__watcher_begin has found, once the watcher is whole. */
void weir__watcher_tell_begin(weir_policy_watcher *watcher);

enum weir__look_end {
  WEIR__LOOK_UNCHANGED = 0,
  WEIR__LOOK_APPLIED, /* another policy is in force */
  WEIR__LOOK_FREED    /* a callback has ended the watcher: its memory is the caller's to free */
};

/* Looks, if there is news. Nothing happens while another look is under way. */
enum weir__look_end weir__watcher_look(weir_policy_watcher *watcher);

/* Sleeps while another thread looks, which leaves the descriptor readable. */
void weir__watcher_wait_for_turn(weir_policy_watcher *watcher);

#endif /* WEIR_SRC_WATCH_WATCHER_H */
