/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <weir/policy_watch.h>

#include "src/base/allocator.h"
#include "src/base/options.h"
#include "src/log/json_log.h"
#include "src/policy/organisation.h"
#include "src/watch/watcher.h"

/* What a load and callbacks of the application's may need; it is only touched as far as it is. */
#define STACK_BYTES ((size_t)256 * 1024)

#define THREAD_NAME "weir-policy"

/* ---- the end ---- */

static void watcher_destroy(weir_policy_watcher *watcher) {
  const struct weir_allocator *allocator = watcher->allocator;
  weir__wakeup_fini(&watcher->wakeup);
  weir__follower_fini(&watcher->follower);
  weir__documents_fini(&watcher->documents);
  weir__channel_group_fini(&watcher->group);
  (void)pthread_cond_destroy(&watcher->guarded.looked);
  (void)pthread_mutex_destroy(&watcher->guarded.mutex);
  weir__free(allocator, watcher->organisation);
  weir__free(allocator, watcher->path);
  weir__free(allocator, watcher);
}

/* In a child, whatever the parent's thread was at is left as it was: half of a look can't be
 * undone. */
static void free_in_child(weir_policy_watcher *watcher) {
  if (watcher->guarded.looking) {
    weir__wakeup_fini(&watcher->wakeup);
    if (watcher->follower.fd >= 0) {
      (void)close(watcher->follower.fd);
    }
  } else {
    watcher_destroy(watcher);
  }
}

static bool looks_itself(weir_policy_watcher *watcher) {
  (void)pthread_mutex_lock(&watcher->guarded.mutex);
  const bool looks =
      watcher->guarded.looking && pthread_equal(watcher->guarded.looker, pthread_self());
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
  return looks;
}

static void end_thread(weir_policy_watcher *watcher) {
  if (watcher->has_thread) {
    (void)pthread_mutex_lock(&watcher->guarded.mutex);
    /* relaxed: the mutex orders it, or the bell's write and read */
    atomic_store_explicit(&watcher->ending, true, memory_order_relaxed);
    (void)pthread_cond_broadcast(&watcher->guarded.looked);
    (void)pthread_mutex_unlock(&watcher->guarded.mutex);
    weir__wakeup_ring(&watcher->wakeup);
    (void)pthread_join(watcher->thread, NULL);
  }
}

void weir_policy_watcher_free(weir_policy_watcher *watcher) {
  if (watcher == NULL) {
    return;
  }
  if (watcher->pid != getpid()) {
    free_in_child(watcher);
    return;
  }
  if (looks_itself(watcher)) {
    watcher->freed = true; /* the look that calls ends it */
    return;
  }
  end_thread(watcher);
  watcher_destroy(watcher);
}

/* ---- the thread ---- */

static void *thread_run(void *argument) {
  weir_policy_watcher *watcher = argument;
  (void)prctl(PR_SET_NAME, THREAD_NAME, 0, 0, 0);
  (void)pthread_mutex_lock(&watcher->guarded.mutex); /* until it is all told in the watcher */
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
  for (;;) {
    weir__wakeup_wait(&watcher->wakeup);
    weir__watcher_wait_for_turn(watcher);
    if (atomic_load_explicit(&watcher->ending, memory_order_relaxed)) { /* as where it is set */
      return NULL;
    }
    if (weir__watcher_look(watcher) == WEIR__LOOK_FREED) {
      (void)pthread_detach(pthread_self());
      watcher_destroy(watcher);
      return NULL;
    }
  }
}

/* After it, the thread may have ended the watcher. */
static bool thread_start(weir_policy_watcher *watcher) {
  pthread_attr_t attributes;
  sigset_t all;
  sigset_t before;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  (void)pthread_mutex_lock(&watcher->guarded.mutex);
  const int number = pthread_create(&watcher->thread, &attributes, thread_run, watcher);
  watcher->has_thread = number == 0;
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  errno = number;
  return number == 0;
}

/* ---- the beginning ---- */

static void say(struct weir_diagnostic *diagnostic, const char *what) {
  const int number = errno;
  if (diagnostic != NULL) {
    memset(diagnostic, 0, sizeof *diagnostic);
    snprintf(diagnostic->message, sizeof diagnostic->message, "%s (errno %d)", what, number);
  }
}

/* From the root, since the working directory may be another one later. */
static enum weir_error make_absolute(const char *path, const struct weir_allocator *allocator,
                                     char **absolute_out, struct weir_diagnostic *diagnostic) {
  char directory[PATH_MAX];
  size_t n_directory = 0;
  if (path[0] != '/') {
    if (getcwd(directory, sizeof directory - 1) == NULL) {
      say(diagnostic, "the working directory has no name");
      return WEIR_ERROR_UNAVAILABLE;
    }
    n_directory = strlen(directory);
    directory[n_directory++] = '/';
  }
  const size_t size = strlen(path);
  char *absolute = allocator->allocate(allocator->context, n_directory + size + 1);
  if (absolute == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  memcpy(absolute, directory, n_directory);
  memcpy(absolute + n_directory, path, size + 1);
  *absolute_out = absolute;
  return WEIR_OK;
}

static enum weir_error set_paths(weir_policy_watcher *watcher, const char *path,
                                 struct weir_diagnostic *diagnostic) {
  const char *organisation = watcher->options.organisation_path != NULL
                                 ? watcher->options.organisation_path
                                 : weir__organisation_file();
  enum weir_error error = make_absolute(path, watcher->allocator, &watcher->path, diagnostic);
  if (error == WEIR_OK && organisation != NULL) {
    error = make_absolute(organisation, watcher->allocator, &watcher->organisation, diagnostic);
  }
  watcher->options.organisation_path = NULL; /* borrowed no more */
  return error;
}

/* What it follows with, and the first look. Afterwards it is whole, or everything is undone but the
 * watcher's own memory and its paths. */
static enum weir_error begin(weir_policy_watcher *watcher, struct weir_diagnostic *diagnostic) {
  const char *const paths[WEIR__FOLLOWED_MAX] = {watcher->path, watcher->organisation};
  weir_policy *policy = NULL;
  weir__follower_init(&watcher->follower, paths, watcher->organisation != NULL ? 2 : 1,
                      watcher->allocator);
  weir__documents_init(&watcher->documents, watcher->organisation, watcher->path,
                       watcher->options.initial_policy, watcher->allocator);
  watcher->documents.lenient = watcher->options.lenient;
  enum weir_error error = WEIR_ERROR_UNAVAILABLE;
  if (!weir__wakeup_init(&watcher->wakeup, watcher->follower.fd)) {
    say(diagnostic, "the system gives no descriptors to watch with");
    goto fail_documents;
  }
  error = weir__watcher_begin(watcher, &policy, diagnostic);
  if (error != WEIR_OK) {
    goto fail_wakeup;
  }
  weir__channel_group_init(&watcher->group, policy, watcher->allocator);
  return WEIR_OK;

fail_wakeup:
  weir__wakeup_fini(&watcher->wakeup);
fail_documents:
  weir__documents_fini(&watcher->documents);
  weir__follower_fini(&watcher->follower);
  return error;
}

static enum weir_error watcher_new(const char *path,
                                   const struct weir_policy_watch_options *options,
                                   weir_policy_watcher **watcher_out,
                                   struct weir_diagnostic *diagnostic) {
  const struct weir_allocator *allocator = weir__allocator_or_default(options->allocator);
  weir_policy_watcher *watcher = weir__zalloc(allocator, sizeof *watcher);
  if (watcher == NULL) {
    return WEIR_ERROR_NO_MEMORY;
  }
  watcher->allocator = allocator;
  watcher->options = *options;
  watcher->log = options->log != NULL ? options->log : weir__json_log_default_sink();
  watcher->pid = getpid();
  atomic_init(&watcher->ending, false);
  enum weir_error error = set_paths(watcher, path, diagnostic);
  if (error == WEIR_OK) {
    error = begin(watcher, diagnostic);
  }
  if (error != WEIR_OK) {
    weir__free(allocator, watcher->organisation);
    weir__free(allocator, watcher->path);
    weir__free(allocator, watcher);
    return error;
  }
  watcher->options.initial_policy = NULL; /* as the path */
  (void)pthread_mutex_init(&watcher->guarded.mutex, NULL);
  (void)pthread_cond_init(&watcher->guarded.looked, NULL);
  *watcher_out = watcher;
  return WEIR_OK;
}

static bool log_is_usable(const struct weir_log_sink *log) {
  return log == NULL || (log->size >= sizeof *log && log->write != NULL);
}

enum weir_error weir_policy_watch(const char *path, const struct weir_policy_watch_options *options,
                                  weir_policy_watcher **watcher_out,
                                  struct weir_diagnostic *diagnostic) {
  struct weir_policy_watch_options known = WEIR_POLICY_WATCH_OPTIONS_INIT;
  *watcher_out = NULL;
  enum weir_error error =
      options != NULL ? weir__options_copy(&known, sizeof known, options) : WEIR_OK;
  if (error != WEIR_OK) {
    return error;
  }
  if (path == NULL || path[0] == '\0' || known.poll_interval_ns <= 0 || !log_is_usable(known.log)) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  weir_policy_watcher *watcher = NULL;
  error = watcher_new(path, &known, &watcher, diagnostic);
  if (error != WEIR_OK) {
    return error;
  }
  weir__watcher_tell_begin(watcher);
  *watcher_out = watcher; /* before the thread begins, whose callbacks may want it */
  if (!known.threadless && !thread_start(watcher)) {
    say(diagnostic, "the system gives no thread");
    weir_policy_watcher_free(watcher);
    *watcher_out = NULL;
    return WEIR_ERROR_UNAVAILABLE;
  }
  return WEIR_OK;
}

/* ---- while it lasts ---- */

enum weir_error weir_policy_watcher_add_channel(weir_policy_watcher *watcher, weir_channel *channel,
                                                struct weir_diagnostic *diagnostic) {
  return weir__channel_group_add(&watcher->group, channel, diagnostic);
}

void weir_policy_watcher_remove_channel(weir_policy_watcher *watcher, weir_channel *channel) {
  weir__channel_group_remove(&watcher->group, channel);
}

weir_policy *weir_policy_watcher_policy(weir_policy_watcher *watcher) {
  return weir__channel_group_policy(&watcher->group);
}

int weir_policy_watcher_fd(const weir_policy_watcher *watcher) {
  return watcher->wakeup.fd;
}

bool weir_policy_watcher_poll(weir_policy_watcher *watcher) {
  if (watcher->pid != getpid()) {
    return false; /* the events are the parent's */
  }
  const enum weir__look_end end = weir__watcher_look(watcher);
  if (end == WEIR__LOOK_FREED) {
    end_thread(watcher);
    watcher_destroy(watcher);
  }
  return end == WEIR__LOOK_APPLIED;
}

void weir_policy_watcher_reload(weir_policy_watcher *watcher) {
  if (watcher->pid == getpid()) {
    weir__wakeup_ring(&watcher->wakeup);
  }
}

enum weir_error weir_policy_watcher_snapshot(weir_policy_watcher *watcher,
                                             struct weir_policy_watch_snapshot *snapshot_out) {
  const size_t size = snapshot_out->size;
  if (size < sizeof size) {
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  const struct weir__group_count count = weir__channel_group_count(&watcher->group);
  (void)pthread_mutex_lock(&watcher->guarded.mutex);
  struct weir_policy_watch_snapshot snapshot = watcher->guarded.snapshot;
  (void)pthread_mutex_unlock(&watcher->guarded.mutex);
  snapshot.size = size < sizeof snapshot ? size : sizeof snapshot;
  snapshot.generation = count.generation;
  snapshot.n_channels = count.n_channels;
  snapshot.n_channels_behind = count.n_behind;
  memcpy(snapshot_out, &snapshot, snapshot.size);
  return WEIR_OK;
}
