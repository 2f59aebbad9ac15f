/* SPDX-License-Identifier: Apache-2.0 */
#include "src/log/line_write.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
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

/* A terminal says that it is ready while it has room for one byte, and would wait for the rest: for
 * ever, if whoever shows it has stopped reading. So it is opened once more, in a way that does not
 * wait; what has the application's descriptor open besides is not to see a change. -1 = it is no
 * terminal, or can't be opened. */
static int open_terminal(int fd) {
  char path[32];
  if (isatty(fd) == 0) {
    return -1;
  }
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
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

static enum weir__line_fate write_line(int fd, const char *line, size_t size) {
  int terminal = open_terminal(fd);
  if (terminal < 0) {
    return write_all(fd, line, size);
  }
  enum weir__line_fate fate = write_all(terminal, line, size);
  (void)close(terminal);
  return fate;
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
  enum weir__line_fate fate = write_line(fd, line, size);
  if (!was_pending && is_pending(SIGPIPE)) {
    (void)sigtimedwait(&pipe_only, NULL, &(const struct timespec){.tv_sec = 0, .tv_nsec = 0});
  }
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return fate;
}
