/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/follower.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Of events; at least one with the longest name fits. */
#define READ_BYTES ((size_t)4096)

void weir__follower_init(struct weir__follower *follower, const char *const *paths, size_t n_paths,
                         const struct weir_allocator *allocator) {
  *follower = (struct weir__follower){
      .allocator = allocator,
      .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
      .n_paths = n_paths,
  };
  for (size_t i = 0; i < n_paths; i++) {
    follower->paths[i] = paths[i];
    follower->trails[i].allocator = allocator;
  }
}

void weir__follower_fini(struct weir__follower *follower) {
  for (size_t i = 0; i < follower->n_paths; i++) {
    weir__trail_fini(&follower->trails[i]);
  }
  if (follower->fd >= 0) {
    (void)close(follower->fd);
  }
}

void weir__follower_walk(struct weir__follower *follower) {
  struct weir__trail before[WEIR__FOLLOWED_MAX];
  if (follower->fd < 0) {
    return;
  }
  for (size_t i = 0; i < follower->n_paths; i++) {
    before[i] = follower->trails[i];
    weir__trail_walk(&follower->trails[i], follower->fd, follower->paths[i], follower->allocator);
  }
  for (size_t i = 0; i < follower->n_paths; i++) {
    weir__trail_leave(&before[i], follower->fd, &follower->trails[0],
                      follower->n_paths > 1 ? &follower->trails[1] : NULL);
    weir__trail_fini(&before[i]);
  }
}

static unsigned event_news(struct weir__follower *follower, const struct inotify_event *event) {
  unsigned news = 0;
  if ((event->mask & IN_Q_OVERFLOW) != 0) {
    return WEIR__NEWS_CHANGED; /* what was lost may have mattered */
  }
  for (size_t i = 0; i < follower->n_paths; i++) {
    const unsigned of_path = weir__trail_news(&follower->trails[i], event);
    if ((of_path & WEIR__NEWS_WRITING) != 0) {
      follower->is_written[i] = true;
    } else if (of_path != 0 && (event->mask & IN_ATTRIB) == 0) {
      follower->is_written[i] = false; /* it was closed, or the path leads to another one */
    }
    news |= of_path;
  }
  return news;
}

unsigned weir__follower_drain(struct weir__follower *follower) {
  _Alignas(struct inotify_event) char buffer[READ_BYTES];
  unsigned news = 0;
  while (follower->fd >= 0) {
    const ssize_t size = read(follower->fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size <= 0) {
      break;
    }
    const struct inotify_event *event = NULL;
    for (const char *at = buffer; at < buffer + size; at += sizeof *event + event->len) {
      event = (const struct inotify_event *)(const void *)at;
      news |= event_news(follower, event);
    }
  }
  return news;
}

bool weir__follower_is_written(const struct weir__follower *follower, const char *path) {
  for (size_t i = 0; i < follower->n_paths; i++) {
    if (follower->paths[i] == path) {
      return follower->is_written[i];
    }
  }
  return false;
}

void weir__follower_settle(struct weir__follower *follower) {
  memset(follower->is_written, 0, sizeof follower->is_written);
}

const char *weir__follower_blind(const struct weir__follower *follower) {
  if (follower->fd < 0) {
    return "the system gives no more of inotify (fs.inotify.max_user_instances)";
  }
  for (size_t i = 0; i < follower->n_paths; i++) {
    if (follower->trails[i].blind != NULL) {
      return follower->trails[i].blind;
    }
  }
  return NULL;
}
