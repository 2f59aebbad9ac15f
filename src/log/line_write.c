/* SPDX-License-Identifier: Apache-2.0 */
#include "src/log/line_write.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

/* A line is written by one, as a rule: what is interrupted more often is dropped. */
#define MAX_WRITES 8

/* Whether a write would not wait: the descriptor is the application's, and may be one that blocks.
 * A pipe says yes while it has room for a whole line. Two threads that find the last room at the
 * same time are the one case in which one of them waits, until the reader reads. */
static bool is_ready(int fd) {
  struct pollfd ready = {.fd = fd, .events = POLLOUT};
  return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

static enum weir__line_fate write_all(int fd, const char *line, size_t size) {
  size_t n_written = 0;
  for (int i = 0; i < MAX_WRITES && n_written < size && is_ready(fd); i++) {
    ssize_t n = write(fd, line + n_written, size - n_written);
    if (n > 0) {
      n_written += (size_t)n;
    } else if (n == 0 || errno != EINTR) {
      break;
    }
  }
  if (n_written == size) {
    return WEIR__LINE_WRITTEN;
  }
  return n_written == 0 ? WEIR__LINE_DROPPED : WEIR__LINE_TORN;
}

static bool is_pending(int number) {
  sigset_t pending;
  (void)sigemptyset(&pending);
  (void)sigpending(&pending);
  return sigismember(&pending, number) == 1;
}

/* A write to a pipe that nobody reads any more raises SIGPIPE in the thread that writes, which ends
 * the program if it has said nothing about that signal. It is held back, and taken away if it was
 * this write's. */
enum weir__line_fate weir__line_write(int fd, const char *line, size_t size) {
  int error = errno; /* the application's */
  sigset_t pipe_only;
  sigset_t before;
  (void)sigemptyset(&pipe_only);
  (void)sigaddset(&pipe_only, SIGPIPE);
  if (pthread_sigmask(SIG_BLOCK, &pipe_only, &before) != 0) {
    return WEIR__LINE_DROPPED;
  }
  bool was_pending = is_pending(SIGPIPE);
  enum weir__line_fate fate = write_all(fd, line, size);
  if (!was_pending && is_pending(SIGPIPE)) {
    (void)sigtimedwait(&pipe_only, NULL, &(const struct timespec){.tv_sec = 0, .tv_nsec = 0});
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return fate;
}
