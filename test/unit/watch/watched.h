/* watched – a directory with policies in it, and a watcher that follows one of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TEST_UNIT_WATCH_WATCHED_H
#define WEIR_TEST_UNIT_WATCH_WATCHED_H

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/policy_watch.h>

#include "test/support/counting_allocator.h"

/* A policy that is told from others by its default timeout. */
#define POLICY(seconds) "{\"deadline\": {\"defaultTimeout\": \"" #seconds "s\"}}"
#define BUILT_IN_SECONDS 10

/* One that is refused, on its second line. */
#define BAD_POLICY "{\n  \"deadline\": {\"defaultTimeout\" \"4s\"}}"

#define TOLD_MAX 64

struct told_record {
  enum weir_log_event event;
  char text[1024];
};

struct watched {
  char directory[PATH_MAX / 4];
  char path[PATH_MAX / 2]; /* "policy.json" in it */
  size_t n_descriptors;    /* open at the beginning */
  struct weir_policy_watch_options options;
  struct weir_log_sink log;
  weir_policy_watcher *watcher;
  struct weir_diagnostic diagnostic;
  pthread_mutex_t mutex; /* of what is told, by any thread */
  size_t n_told;
  struct told_record told[TOLD_MAX];
  size_t n_changes; /* on_change */
  size_t n_refusals;
  uint64_t generation;
  char refused_path[PATH_MAX];
  struct weir_diagnostic refusal;
  sem_t changed;  /* one for each on_change */
  sem_t refused;  /* one for each on_refused */
  bool frees;     /* the callbacks end the watcher */
  bool is_nested; /* on_change polls, and this was true */
};

/* For cmocka. The watcher is threadless until the test says otherwise. The teardown fails if
 * descriptors are left open. */
int watched_setup(void **state);
int watched_teardown(void **state);

/* A path in the directory, valid until the fourth one after it. */
const char *at(const struct watched *watched, const char *name);

/* Writes a file in place, opened, written and closed. */
void put(const struct watched *watched, const char *name, const char *text);

/* Writes another file and renames it over this one. */
void put_over(const struct watched *watched, const char *name, const char *text);

/* A link that takes the place of what is there in one step. */
void link_over(const struct watched *watched, const char *name, const char *target);

void make_directory(const struct watched *watched, const char *name);
void move(const struct watched *watched, const char *from, const char *to);
void delete (const struct watched *watched, const char *name);

/* Follows `path`. */
enum weir_error try_watch(struct watched *watched);
void start_watch(struct watched *watched);

void end_watch(struct watched *watched);

bool poll_watch(const struct watched *watched);

/* Polls when its descriptor is readable, until the files have been looked at. What others do in
 * directories further up may make it readable, too. */
bool wait_and_poll(const struct watched *watched);

/* Of the policy in force: its default timeout. */
int64_t seconds_in_force(const struct watched *watched);

struct weir_policy_watch_snapshot snapshot_of(const struct watched *watched);

/* How many records of an event were told, and the last one's text. */
size_t n_told(struct watched *watched, enum weir_log_event event);
const char *last_told(struct watched *watched, enum weir_log_event event);

/* Up to ten seconds. */
void wait_for(sem_t *semaphore);

size_t count_descriptors(void);

/* As readdir. */
const struct dirent *next_entry(DIR *directory);

#endif /* WEIR_TEST_UNIT_WATCH_WATCHED_H */
