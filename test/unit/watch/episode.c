/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/watch/episode.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "test/support/counting_allocator.h"
#include "test/support/seeded_random.h"
#include "test/unit/watch/watched.h"

#define WAIT_MS 10000

/* Only what is noticed brings a look. */
#define HOUR_NS (WEIR_SECOND_NS * 3600)

/* Larger than a file becomes. */
#define FILE_BYTES 16384

struct episode {
  struct watched *watched;
  struct counting_allocator allocator;
  struct episode_tally *tally;
  const uint8_t *bytes; /* that are still to be read */
  size_t n_bytes;
};

/* What the file is. */
struct found {
  enum weir_policy_file_state state;
  int64_t seconds; /* of one that is good */
};

static uint8_t next(struct episode *episode) {
  if (episode->n_bytes == 0) {
    return 0;
  }
  episode->n_bytes--;
  return *episode->bytes++;
}

/* --- what is written --- */

static const struct {
  const char *text;
  int64_t seconds; /* 0 = it is refused */
} texts[] = {
    {POLICY(1), 1},  {POLICY(2), 2}, {POLICY(3), 3}, {POLICY(4), 4},
    {BAD_POLICY, 0}, {"", 0},        {"{", 0},       {POLICY(2) "{\"deadline\": ", 0},
};

#define N_TEXTS (sizeof texts / sizeof texts[0])

static int64_t seconds_of(const char *text, size_t size) {
  for (size_t i = 0; i < N_TEXTS; i++) {
    if (strlen(texts[i].text) == size && memcmp(texts[i].text, text, size) == 0) {
      return texts[i].seconds;
    }
  }
  return 0;
}

/* --- what is done --- */

/* The first is followed. A name whose directory is none now leads nowhere. */
static const char *const names[] = {
    "a/policy.json", "a/other.json", "b/policy.json", "a", "b", "c"};

#define N_NAMES (sizeof names / sizeof names[0])

static const char *next_path(struct episode *episode) {
  return at(episode->watched, names[next(episode) % N_NAMES]);
}

static bool write_to(struct episode *episode, int flags) {
  const char *path = next_path(episode);
  const char *text = texts[next(episode) % N_TEXTS].text;
  const int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | flags, 0644);
  if (fd < 0) {
    return false;
  }
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  (void)close(fd);
  return true;
}

static bool write_anew(struct episode *episode) {
  return write_to(episode, O_CREAT | O_TRUNC);
}

static bool append(struct episode *episode) {
  return write_to(episode, O_APPEND);
}

/* A file may be cut without being opened, so that no end of it is told: what it is then is seen a
 * moment later, so that is done seldom. */
static bool cut(struct episode *episode) {
  const char *path = next_path(episode);
  const uint8_t byte = next(episode);
  if (truncate(path, byte % 64) != 0) {
    return false;
  }
  const int fd = byte < 224 ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
  if (fd >= 0) {
    (void)close(fd);
  }
  return true;
}

static bool rename_one(struct episode *episode) {
  const char *from = next_path(episode);
  return rename(from, next_path(episode)) == 0;
}

static bool delete_one(struct episode *episode) {
  return remove(next_path(episode)) == 0;
}

static bool make_one_a_directory(struct episode *episode) {
  return mkdir(next_path(episode), 0755) == 0;
}

static bool make_one_a_pipe(struct episode *episode) {
  return mkfifo(next_path(episode), 0644) == 0;
}

static bool link_one(struct episode *episode) {
  const char *from = next_path(episode);
  return link(from, next_path(episode)) == 0;
}

static bool point_one_to_another(struct episode *episode) {
  const char *target = next_path(episode);
  return symlink(target, next_path(episode)) == 0;
}

static bool permit(struct episode *episode) {
  static const mode_t modes[] = {0644, 0, 0755, 0300};
  const char *path = next_path(episode);
  return chmod(path, modes[next(episode) % (sizeof modes / sizeof modes[0])]) == 0;
}

static bool ask_for_a_look(struct episode *episode) {
  weir_policy_watcher_reload(episode->watched->watcher);
  return true;
}

/* --- what must hold --- */

static struct found find(const struct episode *episode) {
  static char text[FILE_BYTES];
  struct stat status;
  const int fd = open(episode->watched->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return (struct found){.state = errno == ENOENT || errno == ENOTDIR
                                       ? WEIR_POLICY_FILE_MISSING
                                       : WEIR_POLICY_FILE_UNREADABLE};
  }
  assert_int_equal(fstat(fd, &status), 0);
  const ssize_t size = S_ISREG(status.st_mode) ? read(fd, text, sizeof text) : -1;
  (void)close(fd);
  if (size < 0) {
    return (struct found){.state = WEIR_POLICY_FILE_UNREADABLE};
  }
  const int64_t seconds = seconds_of(text, (size_t)size);
  return (struct found){.state = seconds > 0 ? WEIR_POLICY_FILE_IN_FORCE : WEIR_POLICY_FILE_REFUSED,
                        .seconds = seconds};
}

/* The file does not change meanwhile: what comes into force, and what is told anew, is what it is. */
static bool poll_once(struct episode *episode) {
  const struct watched *watched = episode->watched;
  const struct found found = find(episode);
  const struct weir_policy_watch_snapshot before = snapshot_of(watched);
  const int64_t seconds_before = seconds_in_force(watched);
  const bool changed = poll_watch(watched);
  const struct weir_policy_watch_snapshot after = snapshot_of(watched);
  const int64_t seconds = seconds_in_force(watched);
  assert_int_equal(after.generation, before.generation + (changed ? 1 : 0));
  assert_int_equal(after.n_applied, after.generation);
  assert_int_equal(watched->n_changes, after.generation - 1);
  if (changed) {
    assert_int_equal(found.state, WEIR_POLICY_FILE_IN_FORCE);
    assert_int_equal(seconds, found.seconds);
    assert_int_not_equal(seconds, seconds_before);
    episode->tally->n_changes++;
  } else {
    assert_int_equal(seconds, seconds_before);
  }
  assert_true(after.file == found.state || after.file == before.file);
  assert_true(after.n_refused == before.n_refused || found.state == WEIR_POLICY_FILE_REFUSED);
  return true;
}

static bool is_up_to_date(const struct episode *episode, const struct found *found) {
  return snapshot_of(episode->watched).file == found->state &&
         (found->state != WEIR_POLICY_FILE_IN_FORCE ||
          seconds_in_force(episode->watched) == found->seconds);
}

/* Until the watcher knows what the file is: its descriptor says when there is something to do. In a
 * directory that may not be read it can't know, and says so. */
static bool settle(struct episode *episode) {
  const struct found found = find(episode);
  while (!is_up_to_date(episode, &found)) {
    if (snapshot_of(episode->watched).polled) {
      weir_policy_watcher_reload(episode->watched->watcher);
    }
    struct pollfd polled = {.fd = weir_policy_watcher_fd(episode->watched->watcher),
                            .events = POLLIN};
    if (poll(&polled, 1, WAIT_MS) != 1) {
      fail_msg("it is not noticed that the state is %d, %d s", (int)found.state,
               (int)found.seconds);
    }
    (void)poll_once(episode);
  }
  episode->tally->n_settled[found.state]++;
  return true;
}

/* --- the whole --- */

static bool (*const steps[])(struct episode *) = {
    settle,
    write_anew,
    write_anew,
    rename_one,
    rename_one,
    delete_one,
    delete_one,
    make_one_a_directory,
    point_one_to_another,
    link_one,
    append,
    permit,
    poll_once,
    cut,
    make_one_a_pipe,
    ask_for_a_look,
};

/* A step of such a byte is waited for. */
#define SETTLES 192

#define N_STEPS (sizeof steps / sizeof steps[0])

static void begin(struct episode *episode) {
  struct watched *watched = episode->watched;
  counting_allocator_init(&episode->allocator);
  watched->options.allocator = &episode->allocator.base;
  watched->options.poll_interval_ns = HOUR_NS;
  watched->options.starts_without_file = true;
  make_directory(watched, "a");
  make_directory(watched, "b");
  put(watched, "b/policy.json", POLICY(3));
  snprintf(watched->path, sizeof watched->path, "%s/%s", watched->directory, names[0]);
  if (next(episode) % 4 != 0) {
    put(watched, names[0], POLICY(1));
  }
  start_watch(watched);
}

static void end(struct episode *episode) {
  end_watch(episode->watched);
  assert_int_equal(episode->allocator.n_outstanding, 0);
  for (size_t i = N_NAMES; i > 0; i--) { /* so that all can be deleted */
    (void)chmod(at(episode->watched, names[i - 1]), 0755);
  }
}

void episode_run(const uint8_t *bytes, size_t size, struct episode_tally *tally) {
  struct episode episode = {.tally = tally, .bytes = bytes, .n_bytes = size};
  void *state = NULL;
  assert_int_equal(watched_setup(&state), 0);
  episode.watched = state;
  begin(&episode);
  while (episode.n_bytes > 0) {
    const uint8_t byte = next(&episode);
    tally->n_steps += steps[byte % N_STEPS](&episode) ? 1 : 0;
    if (byte >= SETTLES) {
      (void)settle(&episode);
    }
  }
  (void)settle(&episode);
  end(&episode);
  assert_int_equal(watched_teardown(&state), 0);
}

size_t episode_of_seed(uint64_t seed, uint8_t bytes_out[EPISODE_MAX_BYTES]) {
  struct seeded_random random;
  seeded_random_init(&random, seed);
  for (size_t i = 0; i < EPISODE_MAX_BYTES; i++) {
    bytes_out[i] = (uint8_t)(seeded_random_next(&random) >> 56);
  }
  return EPISODE_MAX_BYTES;
}
