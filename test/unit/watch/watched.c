/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/watch/watched.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_S 10
#define MAX_DESCRIPTORS 1024
#define WAIT_MS (WAIT_S * 1000)

/* ---- what is told ---- */

static void record_told(void *context, const struct weir_log_record *record) {
  struct watched *watched = context;
  (void)pthread_mutex_lock(&watched->mutex);
  if (watched->n_told < TOLD_MAX) {
    struct told_record *told = &watched->told[watched->n_told++];
    told->event = record->event;
    snprintf(told->text, sizeof told->text, "%s", record->text);
  }
  (void)pthread_mutex_unlock(&watched->mutex);
}

static void on_change(void *context, weir_policy *policy, uint64_t generation) {
  struct watched *watched = context;
  weir_policy *in_force = weir_policy_watcher_policy(watched->watcher);
  assert_ptr_equal(in_force, policy);
  weir_policy_unref(in_force);
  watched->n_changes++;
  watched->generation = generation;
  watched->is_nested = watched->is_nested || weir_policy_watcher_poll(watched->watcher);
  if (watched->frees) {
    weir_policy_watcher_free(watched->watcher);
  }
  sem_post(&watched->changed);
}

static void on_refused(void *context, const char *path, const struct weir_diagnostic *diagnostic) {
  struct watched *watched = context;
  watched->n_refusals++;
  snprintf(watched->refused_path, sizeof watched->refused_path, "%s", path);
  watched->refusal = *diagnostic;
  if (watched->frees) {
    weir_policy_watcher_free(watched->watcher);
  }
  sem_post(&watched->refused);
}

size_t n_told(struct watched *watched, enum weir_log_event event) {
  size_t count = 0;
  (void)pthread_mutex_lock(&watched->mutex);
  for (size_t i = 0; i < watched->n_told; i++) {
    count += watched->told[i].event == event ? 1 : 0;
  }
  (void)pthread_mutex_unlock(&watched->mutex);
  return count;
}

const char *last_told(struct watched *watched, enum weir_log_event event) {
  const char *text = "";
  (void)pthread_mutex_lock(&watched->mutex);
  for (size_t i = 0; i < watched->n_told; i++) {
    text = watched->told[i].event == event ? watched->told[i].text : text;
  }
  (void)pthread_mutex_unlock(&watched->mutex);
  return text;
}

/* ---- its life ---- */

size_t count_descriptors(void) {
  size_t count = 0;
  for (int fd = 0; fd < MAX_DESCRIPTORS; fd++) {
    count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  }
  return count;
}

int watched_setup(void **state) {
  static struct watched watched;
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
  const char *base = getenv("TEST_TMPDIR");
  memset(&watched, 0, sizeof watched);
  snprintf(watched.directory, sizeof watched.directory, "%s/watched-XXXXXX",
           base != NULL ? base : "/tmp");
  if (mkdtemp(watched.directory) == NULL) {
    return -1;
  }
  snprintf(watched.path, sizeof watched.path, "%s/policy.json", watched.directory);
  (void)pthread_mutex_init(&watched.mutex, NULL);
  (void)sem_init(&watched.changed, 0, 0);
  (void)sem_init(&watched.refused, 0, 0);
  watched.log =
      (struct weir_log_sink){.size = sizeof watched.log, .write = record_told, .context = &watched};
  watched.options = (struct weir_policy_watch_options)WEIR_POLICY_WATCH_OPTIONS_INIT;
  watched.options.threadless = true;
  watched.options.on_change = on_change;
  watched.options.on_refused = on_refused;
  watched.options.context = &watched;
  watched.options.log = &watched.log;
  watched.n_descriptors = count_descriptors();
  *state = &watched;
  return 0;
}

const struct dirent *next_entry(DIR *directory) {
  /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else reads this one */
  return readdir(directory);
}

/* All that is in a directory. */
static void empty(const char *path) {
  DIR *directory = opendir(path);
  if (directory == NULL) {
    return;
  }
  for (const struct dirent *entry = next_entry(directory); entry != NULL;
       entry = next_entry(directory)) {
    char name[PATH_MAX];
    struct stat status;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        lstat(name, &status) != 0) {
      continue;
    }
    if (S_ISDIR(status.st_mode)) {
      empty(name);
      (void)rmdir(name);
    } else {
      (void)unlink(name);
    }
  }
  (void)closedir(directory);
}

int watched_teardown(void **state) {
  struct watched *watched = *state;
  end_watch(watched);
  empty(watched->directory);
  (void)rmdir(watched->directory);
  (void)sem_destroy(&watched->changed);
  (void)sem_destroy(&watched->refused);
  (void)pthread_mutex_destroy(&watched->mutex);
  return count_descriptors() == watched->n_descriptors ? 0 : -1;
}

/* ---- files ---- */

const char *at(const struct watched *watched, const char *name) {
  static char paths[4][PATH_MAX];
  static unsigned nth;
  char *path = paths[nth++ % 4];
  snprintf(path, PATH_MAX, "%s/%s", watched->directory, name);
  return path;
}

void put(const struct watched *watched, const char *name, const char *text) {
  FILE *file = fopen(at(watched, name), "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

void put_over(const struct watched *watched, const char *name, const char *text) {
  put(watched, "policy.new", text);
  move(watched, "policy.new", name);
}

void link_over(const struct watched *watched, const char *name, const char *target) {
  assert_int_equal(symlink(target, at(watched, "link.new")), 0);
  move(watched, "link.new", name);
}

void make_directory(const struct watched *watched, const char *name) {
  assert_int_equal(mkdir(at(watched, name), 0755), 0);
}

void move(const struct watched *watched, const char *from, const char *to) {
  assert_int_equal(rename(at(watched, from), at(watched, to)), 0);
}

void delete (const struct watched *watched, const char *name) {
  assert_int_equal(remove(at(watched, name)), 0);
}

/* ---- the watcher ---- */

enum weir_error try_watch(struct watched *watched) {
  memset(&watched->diagnostic, 0, sizeof watched->diagnostic);
  return weir_policy_watch(watched->path, &watched->options, &watched->watcher,
                           &watched->diagnostic);
}

void start_watch(struct watched *watched) {
  const enum weir_error error = try_watch(watched);
  if (error != WEIR_OK) {
    fail_msg("%s: %s", weir_error_name(error), watched->diagnostic.message);
  }
}

void end_watch(struct watched *watched) {
  weir_policy_watcher_free(watched->watcher);
  watched->watcher = NULL;
}

bool poll_watch(const struct watched *watched) {
  return weir_policy_watcher_poll(watched->watcher);
}

/* Looks that have found something out. */
static uint64_t n_looks(const struct watched *watched) {
  const struct weir_policy_watch_snapshot snapshot = snapshot_of(watched);
  return snapshot.n_loads + snapshot.n_unreadable;
}

bool wait_and_poll(const struct watched *watched) {
  const uint64_t n_before = n_looks(watched);
  bool changed = false;
  while (n_looks(watched) == n_before) {
    struct pollfd polled = {.fd = weir_policy_watcher_fd(watched->watcher), .events = POLLIN};
    assert_int_equal(poll(&polled, 1, WAIT_MS), 1);
    changed = poll_watch(watched);
  }
  return changed;
}

int64_t seconds_in_force(const struct watched *watched) {
  weir_policy *policy = weir_policy_watcher_policy(watched->watcher);
  const int64_t timeout_ns = weir_policy_method(policy, "/a.B/C", 6)->deadline->default_timeout_ns;
  weir_policy_unref(policy);
  return timeout_ns / WEIR_SECOND_NS;
}

struct weir_policy_watch_snapshot snapshot_of(const struct watched *watched) {
  struct weir_policy_watch_snapshot snapshot = WEIR_POLICY_WATCH_SNAPSHOT_INIT;
  assert_int_equal(weir_policy_watcher_snapshot(watched->watcher, &snapshot), WEIR_OK);
  return snapshot;
}

void wait_for(sem_t *semaphore) {
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WAIT_S;
  assert_int_equal(sem_timedwait(semaphore, &until), 0);
}
