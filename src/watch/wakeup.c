/* SPDX-License-Identifier: Apache-2.0 */
#include "src/watch/wakeup.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <weir/clock.h>

static bool add(const struct weir__wakeup *wakeup, int fd) {
  struct epoll_event event;
  memset(&event, 0, sizeof event);
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(wakeup->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool weir__wakeup_init(struct weir__wakeup *wakeup, int follower_fd) {
  wakeup->fd = epoll_create1(EPOLL_CLOEXEC);
  wakeup->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  wakeup->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wakeup->fd >= 0 && wakeup->timer_fd >= 0 && wakeup->event_fd >= 0 &&
      add(wakeup, wakeup->timer_fd) && add(wakeup, wakeup->event_fd) &&
      (follower_fd < 0 || add(wakeup, follower_fd))) {
    return true;
  }
  const int number = errno;
  weir__wakeup_fini(wakeup);
  errno = number;
  return false;
}

static void close_if_open(int fd) {
  if (fd >= 0) {
    (void)close(fd);
  }
}

void weir__wakeup_fini(struct weir__wakeup *wakeup) {
  close_if_open(wakeup->fd);
  close_if_open(wakeup->timer_fd);
  close_if_open(wakeup->event_fd);
}

void weir__wakeup_wait(const struct weir__wakeup *wakeup) {
  struct pollfd polled = {.fd = wakeup->fd, .events = POLLIN};
  while (poll(&polled, 1, -1) < 0 && errno == EINTR) {
  }
}

void weir__wakeup_ring(const struct weir__wakeup *wakeup) {
  const int number = errno;
  const uint64_t one = 1;
  while (write(wakeup->event_fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
  errno = number;
}

static bool take(int fd) {
  uint64_t count = 0;
  ssize_t size = 0;
  do {
    size = read(fd, &count, sizeof count);
  } while (size < 0 && errno == EINTR);
  return size == (ssize_t)sizeof count;
}

bool weir__wakeup_take(const struct weir__wakeup *wakeup) {
  const bool timed = take(wakeup->timer_fd);
  const bool asked = take(wakeup->event_fd);
  return timed || asked;
}

void weir__wakeup_set_timer(const struct weir__wakeup *wakeup, int64_t after_ns) {
  struct itimerspec timer;
  memset(&timer, 0, sizeof timer);
  if (after_ns != WEIR_NO_LIMIT_NS) {
    timer.it_value.tv_sec = (time_t)(after_ns / WEIR_SECOND_NS);
    timer.it_value.tv_nsec = (long)(after_ns % WEIR_SECOND_NS);
  }
  (void)timerfd_settime(wakeup->timer_fd, 0, &timer, NULL);
}

void weir__wakeup_advance_timer(const struct weir__wakeup *wakeup, int64_t after_ns) {
  struct itimerspec timer;
  if (timerfd_gettime(wakeup->timer_fd, &timer) != 0) {
    return;
  }
  const int64_t left_ns =
      (int64_t)timer.it_value.tv_sec * WEIR_SECOND_NS + (int64_t)timer.it_value.tv_nsec;
  if (left_ns == 0 || left_ns > after_ns) {
    weir__wakeup_set_timer(wakeup, after_ns);
  }
}
