/* A policy's file that is followed. SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/policy_watch.h>

#include "test/memory/lame.h"
#include "test/memory/trial.h"
#include "test/support/silent_log.h"

#define FIRST "{\"deadline\": {\"defaultTimeout\": \"1s\"}}"
#define SECOND "{\"deadline\": {\"defaultTimeout\": \"2s\"}}"
#define WAIT_MS 20000

struct followed {
  char directory[200];
  char path[256];
  struct weir_policy_watch_options options;
  weir_policy_watcher *watcher;
};

static void put(const struct followed *followed, const char *text) {
  FILE *file = fopen(followed->path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void followed_open(struct followed *followed) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *directory = getenv("TEST_TMPDIR");
  memset(followed, 0, sizeof *followed);
  (void)snprintf(followed->directory, sizeof followed->directory, "%s/followed-XXXXXX",
                 directory != NULL ? directory : "/tmp");
  assert_non_null(mkdtemp(followed->directory));
  (void)snprintf(followed->path, sizeof followed->path, "%s/policy.json", followed->directory);
  followed->options = (struct weir_policy_watch_options)WEIR_POLICY_WATCH_OPTIONS_INIT;
  followed->options.log = &silent_log;
  followed->options.threadless = true;
  put(followed, FIRST);
}

static enum weir_error follow(struct followed *followed) {
  return weir_policy_watch(followed->path, &followed->options, &followed->watcher, NULL);
}

static void followed_close(struct followed *followed) {
  weir_policy_watcher_free(followed->watcher);
  (void)unlink(followed->path);
  (void)rmdir(followed->directory);
}

static int64_t seconds_of(weir_policy *policy) {
  const int64_t timeout_ns = weir_policy_method(policy, "/a.B/C", 6)->deadline->default_timeout_ns;
  weir_policy_unref(policy);
  return timeout_ns / WEIR_SECOND_NS;
}

static int64_t seconds_in_force(const struct followed *followed) {
  return seconds_of(weir_policy_watcher_policy(followed->watcher));
}

/* --- made --- */

static void watch(struct trial *trial, bool threadless) {
  struct followed followed;
  followed_open(&followed);
  followed.options.threadless = threadless;
  trial_begin(trial);
  enum weir_error error = follow(&followed);
  trial_end(trial);
  if (error == WEIR_ERROR_UNAVAILABLE) { /* there was no thread */
    assert_true(!threadless && trial->n_refused > 0);
    assert_null(followed.watcher);
  } else {
    trial_check_made(trial, error, followed.watcher);
  }
  if (followed.watcher != NULL) {
    assert_int_equal(seconds_in_force(&followed), 1);
  }
  followed_close(&followed);
}

static void watch_without_thread(struct trial *trial) {
  watch(trial, true);
}

static void watch_with_thread(struct trial *trial) {
  watch(trial, false);
}

/* --- used --- */

/* Looks until the change is in force, which takes no other change. */
static void look_until(const struct followed *followed, int64_t seconds) {
  while (seconds_in_force(followed) != seconds) {
    struct pollfd polled = {.fd = weir_policy_watcher_fd(followed->watcher), .events = POLLIN};
    assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
    (void)weir_policy_watcher_poll(followed->watcher);
  }
}

static void look_at_a_change(struct trial *trial) {
  struct followed followed;
  followed_open(&followed);
  assert_int_equal(follow(&followed), WEIR_OK);
  weir_channel *channel = lame_channel(NULL);
  assert_int_equal(weir_policy_watcher_add_channel(followed.watcher, channel, NULL), WEIR_OK);
  put(&followed, SECOND);
  trial_begin(trial);
  const bool changed = weir_policy_watcher_poll(followed.watcher);
  trial_end(trial);
  assert_int_equal(seconds_in_force(&followed), changed ? 2 : 1); /* the one, or the other */
  assert_true(changed || trial->n_refused > 0);
  weir_policy_watcher_reload(followed.watcher);
  look_until(&followed, 2);
  struct weir_policy_watch_snapshot snapshot = WEIR_POLICY_WATCH_SNAPSHOT_INIT;
  do { /* the channel comes later, if there was no memory for it */
    weir_policy_watcher_reload(followed.watcher);
    (void)weir_policy_watcher_poll(followed.watcher);
    assert_int_equal(weir_policy_watcher_snapshot(followed.watcher, &snapshot), WEIR_OK);
  } while (snapshot.n_channels_behind > 0);
  assert_int_equal(seconds_of(weir_channel_policy(channel)), 2);
  assert_int_equal(snapshot.n_refused, 0);
  weir_channel_destroy(channel);
  followed_close(&followed);
}

static void add_channel(struct trial *trial) {
  struct followed followed;
  followed_open(&followed);
  assert_int_equal(follow(&followed), WEIR_OK);
  weir_channel *channel = lame_channel(NULL);
  trial_begin(trial);
  enum weir_error error = weir_policy_watcher_add_channel(followed.watcher, channel, NULL);
  trial_end(trial);
  trial_check_error(trial, error);
  struct weir_policy_watch_snapshot snapshot = WEIR_POLICY_WATCH_SNAPSHOT_INIT;
  assert_int_equal(weir_policy_watcher_snapshot(followed.watcher, &snapshot), WEIR_OK);
  assert_int_equal(snapshot.n_channels, error == WEIR_OK ? 1 : 0);
  if (error != WEIR_OK) {
    assert_int_equal(weir_policy_watcher_add_channel(followed.watcher, channel, NULL), WEIR_OK);
  }
  assert_int_equal(seconds_of(weir_channel_policy(channel)), 1);
  weir_channel_destroy(channel);
  followed_close(&followed);
}

static void look_at_watcher(struct trial *trial) {
  struct followed followed;
  struct weir_policy_watch_snapshot snapshot = WEIR_POLICY_WATCH_SNAPSHOT_INIT;
  followed_open(&followed);
  assert_int_equal(follow(&followed), WEIR_OK);
  weir_channel *channel = lame_channel(NULL);
  assert_int_equal(weir_policy_watcher_add_channel(followed.watcher, channel, NULL), WEIR_OK);
  trial_begin(trial);
  const int fd = weir_policy_watcher_fd(followed.watcher);
  enum weir_error error = weir_policy_watcher_snapshot(followed.watcher, &snapshot);
  weir_policy_unref(weir_policy_watcher_policy(followed.watcher));
  weir_policy_watcher_reload(followed.watcher);
  weir_policy_watcher_remove_channel(followed.watcher, channel);
  weir_policy_watcher_free(followed.watcher);
  trial_end(trial);
  assert_true(fd >= 0);
  assert_int_equal(error, WEIR_OK);
  followed.watcher = NULL;
  weir_channel_destroy(channel);
  followed_close(&followed);
}

const struct trial_row watch_rows[] = {
    {"weir_policy_watch", TAKES_MEMORY, watch_without_thread},
    {"weir_policy_watch", TAKES_MEMORY, watch_with_thread},
    {"weir_policy_watcher_poll", TAKES_MEMORY, look_at_a_change},
    {"weir_policy_watcher_add_channel", TAKES_MEMORY, add_channel},
    {"weir_policy_watcher_fd", TAKES_NOTHING, look_at_watcher},
    {"weir_policy_watcher_free", TAKES_NOTHING, look_at_watcher},
    {"weir_policy_watcher_policy", TAKES_NOTHING, look_at_watcher},
    {"weir_policy_watcher_reload", TAKES_NOTHING, look_at_watcher},
    {"weir_policy_watcher_remove_channel", TAKES_NOTHING, look_at_watcher},
    {"weir_policy_watcher_snapshot", TAKES_NOTHING, look_at_watcher},
    TRIAL_ROWS_END,
};
