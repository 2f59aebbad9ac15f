/* weir/policy_watch.h – follows a policy's file while the program runs.
 *
 * A watcher loads the file, and again whenever what the path leads to has changed: by a write, a
 * rename over it, a link that leads elsewhere (Kubernetes' mounts), a directory that comes or goes.
 * A file that is refused, or is not there, changes nothing: the last good policy stays in force.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_POLICY_WATCH_H
#define WEIR_POLICY_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/allocator.h>
#include <weir/channel.h>
#include <weir/clock.h>
#include <weir/error.h>
#include <weir/export.h>
#include <weir/log.h>
#include <weir/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Follows the file of one policy, and that of its organisation, for any number of channels. */
typedef struct weir_policy_watcher weir_policy_watcher;

/* How a policy is followed. Start from WEIR_POLICY_WATCH_OPTIONS_INIT.
 *
 * on_change and on_refused run in the watcher's thread, or in weir_policy_watcher_poll, without
 * a lock of weir's, one at a time. They may call anything, weir_policy_watcher_free included; what
 * they are given is borrowed for the call. */
struct weir_policy_watch_options {
  size_t size;
  /* the organisation's document, followed too; NULL = the one that WEIR_ORG_POLICY in the
   * environment names, if it does; copied */
  const char *organisation_path;
  bool lenient;             /* as in struct weir_policy_load_options */
  bool threadless;          /* no thread: the application calls weir_policy_watcher_poll */
  bool starts_without_file; /* the policy's, that is; the organisation's has to be there */
  /* with starts_without_file, what is in force until there is one, under the organisation's
   * document: none that weir_policy_layer has made; NULL = the built-in policy; shared */
  weir_policy *initial_policy;
  /* Where inotify can't tell what happens, the files are looked at this often: on network file
   * systems, in directories that may not be read, beyond the system's limits of inotify; and while
   * a file is missing or can't be read. */
  int64_t poll_interval_ns;
  bool always_polls; /* so often wherever they are, besides */
  /* A policy is in force, and the watcher's channels have it. Not called for the first one. */
  void (*on_change)(void *context, weir_policy *policy, uint64_t generation);
  /* A document was refused; once for each that differs from the one before. */
  void (*on_refused)(void *context, const char *path, const struct weir_diagnostic *diagnostic);
  void *context;
  const struct weir_log_sink *log; /* NULL = weir's own; borrowed until the watcher is freed */
  const struct weir_allocator *allocator; /* NULL = malloc */
};

#define WEIR_POLICY_WATCH_OPTIONS_INIT                                                             \
  {                                                                                                \
    .size = sizeof(struct weir_policy_watch_options), .organisation_path = NULL, .lenient = false, \
    .threadless = false, .starts_without_file = false, .initial_policy = NULL,                     \
    .poll_interval_ns = 5 * WEIR_SECOND_NS, .always_polls = false, .on_change = NULL,              \
    .on_refused = NULL, .context = NULL, .log = NULL, .allocator = NULL                            \
  }

/* How a file that is followed stands. */
enum weir_policy_file_state {
  WEIR_POLICY_FILE_NONE = 0, /* there is none to follow */
  WEIR_POLICY_FILE_IN_FORCE, /* what it holds is in force */
  WEIR_POLICY_FILE_REFUSED,  /* what it holds is not, as weir or the organisation's document says */
  WEIR_POLICY_FILE_MISSING,
  WEIR_POLICY_FILE_UNREADABLE /* no regular file, not permitted, an error of the disk */
};

/* What a watcher has done so far. The caller sets `size`. */
struct weir_policy_watch_snapshot {
  size_t size;
  uint64_t generation;   /* of the policy in force: 1 for the first one */
  uint64_t n_loads;      /* looks that have read each file, whole */
  uint64_t n_unchanged;  /* of those, the ones that found nothing new */
  uint64_t n_applied;    /* policies that came into force, the first one included */
  uint64_t n_refused;    /* documents that were refused */
  uint64_t n_unreadable; /* looks that found a file missing or unreadable */
  enum weir_policy_file_state file;
  enum weir_policy_file_state organisation_file;
  bool polled;              /* looked at every poll_interval_ns, too */
  size_t n_channels;        /* that the watcher has */
  size_t n_channels_behind; /* of those, the ones that have not taken the policy in force */
  const char *refused_path; /* whose document was refused last; NULL = none was; borrowed until
                               * the watcher is freed */
  struct weir_diagnostic refusal; /* why; zeroed if none was */
};

#define WEIR_POLICY_WATCH_SNAPSHOT_INIT \
  { .size = sizeof(struct weir_policy_watch_snapshot) }

/* Loads a policy from a file and follows it from then on. A relative path is one from the working
 * directory of this moment.
 *
 * Ownership: `path` and `options` (NULL = the defaults) are copied, with what is said there. On
 *            success `*watcher_out` is the caller's until weir_policy_watcher_free; on failure it
 *            is NULL.
 * Threads:   any thread; it blocks on the file. Without `threadless` it starts a thread, with all
 *            signals blocked, that sleeps until something happens. In the child of a fork nothing
 *            is followed; see weir_policy_watcher_free.
 * Errors:    WEIR_ERROR_INVALID_POLICY a document is refused. WEIR_ERROR_UNAVAILABLE a file is
 *            missing or can't be read, or the system gives no descriptors or no thread. For both,
 *            `diagnostic`, if not NULL, says why. WEIR_ERROR_INVALID_ARGUMENT an empty path,
 *            a poll_interval_ns that is not above 0, a log that can't be written to.
 *            WEIR_ERROR_NO_MEMORY. WEIR_ERROR_UNSUPPORTED a struct from a newer header. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_policy_watch(const char *path, const struct weir_policy_watch_options *options,
                  weir_policy_watcher **watcher_out, struct weir_diagnostic *diagnostic);

/* Ends a watcher, and its shares of channels and of the policy. Its thread has ended when this
 * returns.
 *
 * Ownership: `watcher` is taken over; NULL is allowed.
 * Threads:   any thread, with no other call on this watcher under way, but for one: on_change,
 *            on_refused and the log sink may call it, and are then the last that is called; the
 *            rest is done when they have returned. In the child of a fork this is all that may be
 *            called; what the parent follows stays followed there.
 * Errors:    none. */
WEIR_API void weir_policy_watcher_free(weir_policy_watcher *watcher);

/* Gives a channel the policy in force, and each one that comes after it, by
 * weir_channel_set_policy.
 *
 * Ownership: the watcher takes a share of `channel`, until weir_policy_watcher_remove_channel or
 *            weir_policy_watcher_free. A channel that the application destroys before stays open
 *            until then.
 * Threads:   any thread; from on_change, too.
 * Errors:    those of weir_channel_set_policy, with its diagnostic; the channel is then not
 *            added. WEIR_ERROR_INVALID_ARGUMENT the watcher has it already.
 *            WEIR_ERROR_NO_MEMORY. */
WEIR_API WEIR_MUST_CHECK enum weir_error
weir_policy_watcher_add_channel(weir_policy_watcher *watcher, weir_channel *channel,
                                struct weir_diagnostic *diagnostic);

/* Lets a channel keep the policy that it has.
 *
 * Ownership: the watcher's share of `channel` ends.
 * Threads:   any thread; from on_change, too. It waits for a swap of this very channel's policy
 *            that is under way in another thread.
 * Errors:    none; a channel that the watcher does not have is left alone. */
WEIR_API void weir_policy_watcher_remove_channel(weir_policy_watcher *watcher,
                                                 weir_channel *channel);

/* Takes a share of the policy in force.
 *
 * Ownership: the result is the caller's until weir_policy_unref.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API weir_policy *weir_policy_watcher_policy(weir_policy_watcher *watcher);

/* Tells a descriptor that is readable when weir_policy_watcher_poll has something to do: for
 * poll(), epoll and the like, not to be read.
 *
 * Ownership: borrowed until the watcher is freed.
 * Threads:   any thread.
 * Errors:    none. */
WEIR_API int weir_policy_watcher_fd(const weir_policy_watcher *watcher);

/* Looks at what has happened, without waiting for anything but the files; loads what is new, gives
 * it to the channels and calls on_change or on_refused. True: another policy is in force.
 *
 * Ownership: nothing changes hands.
 * Threads:   any thread. While another one is at it, or this one in a callback of its own, it does
 *            nothing; what has happened meanwhile is left to the next one.
 * Errors:    none; what could not be loaded is in the snapshot and the log. */
WEIR_API bool weir_policy_watcher_poll(weir_policy_watcher *watcher);

/* Has the files looked at whatever inotify says: at once by the watcher's thread, or by the next
 * weir_policy_watcher_poll, for which the descriptor becomes readable.
 *
 * Ownership: nothing changes hands.
 * Threads:   any thread, and a signal's handler.
 * Errors:    none. */
WEIR_API void weir_policy_watcher_reload(weir_policy_watcher *watcher);

/* Tells what the watcher has done, and how the files stand.
 *
 * Ownership: `snapshot_out` is the caller's; its size, set by the caller, says how much of it is
 *            filled in.
 * Threads:   any thread.
 * Errors:    WEIR_ERROR_INVALID_ARGUMENT the size is less than a size. */
WEIR_API enum weir_error
weir_policy_watcher_snapshot(weir_policy_watcher *watcher,
                             struct weir_policy_watch_snapshot *snapshot_out);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_POLICY_WATCH_H */
