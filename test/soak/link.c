/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_SIZE 32768
#define MARKS_MAX 64
#define TRICKLES_AT_ONCE 256
#define LINGER_NS INT64_C(1000000000)

enum { CLIENT = 0, UPSTREAM, N_ENDS };

/* From `begin` on, of all bytes that a direction has read, none is to be written before. */
struct mark {
  uint64_t begin;
  int64_t due_at_ns;
};

/* A direction: from the end of its own number to the other. */
struct way {
  unsigned char bytes[BUFFER_SIZE];
  size_t start;
  size_t size;
  uint64_t n_read;
  uint64_t n_written;
  struct mark marks[MARKS_MAX];
  size_t n_marks;
  int64_t next_write_at_ns; /* where it is throttled */
  bool ended;               /* its sender has said so */
  bool end_told;            /* to its receiver */
  bool blocked;             /* its receiver's socket is full */
};

enum link_state {
  LINK_CONNECTING = 0,
  LINK_OPEN,
  LINK_SILENT,    /* nobody was asked */
  LINK_LINGERING, /* closed in order; what still comes is thrown away, so that it is no reset */
  LINK_CLOSED
};

struct link {
  const struct link_owner *owner;
  enum link_state state;
  int fds[N_ENDS];
  struct way ways[PROXY_N_DIRECTIONS];
  struct proxy_plan plan;
  bool faulty;      /* the plan's fault is on */
  bool has_more;    /* of what is done bit by bit */
  int64_t until_ns; /* of the fault, or of lingering */
  uint64_t n_moved; /* since the last plan was over */
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "link: %s: errno %d\n", what, errno);
    abort();
  }
}

/* --- sockets --- */

void link_prepare_socket(int fd) {
  const int on = 1;
  check(fcntl(fd, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
  check(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0, "FD_CLOEXEC");
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void link_reset_socket(int fd) {
  const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
  (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  (void)close(fd);
}

static void reset_ends(struct link *link) {
  for (int end = 0; end < N_ENDS; end++) {
    if (link->fds[end] >= 0) {
      link_reset_socket(link->fds[end]);
      link->fds[end] = -1;
    }
  }
  link->state = LINK_CLOSED;
}

static void close_ends(struct link *link) {
  for (int end = 0; end < N_ENDS; end++) {
    (void)close(link->fds[end]);
    link->fds[end] = -1;
  }
  link->state = LINK_CLOSED;
}

static void begin_lingering(struct link *link, int64_t now_ns) {
  for (int end = 0; end < N_ENDS; end++) {
    (void)shutdown(link->fds[end], SHUT_WR);
  }
  link->state = LINK_LINGERING;
  link->until_ns = now_ns + LINGER_NS;
}

/* On the loopback this has been done, or refused, when it returns, or will be soon. */
static void connect_upstream(struct link *link, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(fd >= 0, "socket");
  link_prepare_socket(fd);
  link->fds[UPSTREAM] = fd;
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
    link->state = LINK_OPEN;
  } else if (errno == EINPROGRESS) {
    link->state = LINK_CONNECTING;
  } else {
    reset_ends(link);
  }
}

static void end_connecting(struct link *link) {
  struct pollfd fd = {.fd = link->fds[UPSTREAM], .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  if (poll(&fd, 1, 0) <= 0) {
    return;
  }
  if (getsockopt(fd.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    reset_ends(link);
    return;
  }
  link->state = LINK_OPEN;
}

/* --- faults --- */

static void next_plan(struct link *link, bool accepting) {
  link->owner->plan(link->owner->context, accepting, &link->plan);
  link->n_moved = 0;
  link->faulty = false;
}

static void begin_fault(struct link *link, int64_t now_ns) {
  link->faulty = true;
  link->until_ns = now_ns + link->plan.lasts_ns;
  link->owner->fault_begun(link->owner->context, link->plan.fault);
  switch (link->plan.fault) {
  case PROXY_FAULT_FIN:
    begin_lingering(link, now_ns);
    break;
  case PROXY_FAULT_RST:
  case PROXY_FAULT_RST_AT_ACCEPT:
    reset_ends(link);
    break;
  case PROXY_FAULT_SILENCE:
    link->state = LINK_SILENT;
    break;
  case PROXY_FAULT_NONE:
  case PROXY_FAULT_DELAY:
  case PROXY_FAULT_THROTTLE:
  case PROXY_FAULT_TRICKLE:
  case PROXY_FAULT_BLACKHOLE:
  case PROXY_FAULT_ONE_WAY:
  case PROXY_FAULT_REFUSAL:
  case PROXY_N_FAULTS:
    break;
  }
}

static void end_fault(struct link *link) {
  if (link->plan.resets || link->state == LINK_SILENT) {
    reset_ends(link);
  } else {
    next_plan(link, false);
  }
}

static bool has(const struct link *link, enum proxy_fault fault) {
  return link->faulty && link->plan.fault == fault;
}

/* Whether a direction stands still. */
static bool is_stuck(const struct link *link, enum proxy_direction direction) {
  return has(link, PROXY_FAULT_BLACKHOLE) ||
         (has(link, PROXY_FAULT_ONE_WAY) && link->plan.direction == direction);
}

/* --- bytes --- */

static bool may_read(const struct link *link, enum proxy_direction direction) {
  const struct way *way = &link->ways[direction];
  return link->state == LINK_OPEN && !way->ended && !is_stuck(link, direction) &&
         way->size < BUFFER_SIZE && way->n_marks < MARKS_MAX;
}

static void take(struct link *link, enum proxy_direction direction, int64_t now_ns) {
  struct way *way = &link->ways[direction];
  if (!may_read(link, direction)) {
    return;
  }
  if (way->start > 0) {
    memmove(way->bytes, way->bytes + way->start, way->size);
    way->start = 0;
  }
  ssize_t size = recv(link->fds[direction], way->bytes + way->size, BUFFER_SIZE - way->size, 0);
  if (size == 0) {
    way->ended = true;
  } else if (size < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      reset_ends(link);
    }
    return;
  }
  if (has(link, PROXY_FAULT_DELAY) && size > 0) {
    way->marks[way->n_marks++] =
        (struct mark){.begin = way->n_read, .due_at_ns = now_ns + link->plan.delay_ns};
  }
  way->size += (size_t)size;
  way->n_read += (uint64_t)size;
}

static void drop_past_marks(struct way *way, int64_t now_ns) {
  size_t n_past = 0;
  while (n_past < way->n_marks && way->marks[n_past].due_at_ns <= now_ns) {
    n_past++;
  }
  way->n_marks -= n_past;
  memmove(way->marks, way->marks + n_past, way->n_marks * sizeof way->marks[0]);
}

static size_t at_most(size_t n, uint64_t limit) {
  return n < limit ? n : (size_t)limit;
}

/* How many bytes may be written now, in one go. */
static size_t n_writable(const struct link *link, enum proxy_direction direction, int64_t now_ns) {
  const struct way *way = &link->ways[direction];
  size_t n = way->size;
  if (link->state != LINK_OPEN || is_stuck(link, direction)) {
    return 0;
  }
  if (way->n_marks > 0) {
    n = at_most(n, way->marks[0].begin - way->n_written);
  }
  if (!link->faulty) {
    return at_most(n, link->plan.after_bytes - link->n_moved);
  }
  if (link->plan.fault == PROXY_FAULT_THROTTLE) {
    return now_ns < way->next_write_at_ns ? 0 : at_most(n, link->plan.n_bytes);
  }
  return link->plan.fault == PROXY_FAULT_TRICKLE ? at_most(n, 1) : n;
}

static void note_written(struct link *link, struct way *way, size_t size, int64_t now_ns) {
  way->start += size;
  way->size -= size;
  way->n_written += size;
  way->next_write_at_ns = now_ns + link->plan.delay_ns;
  link->n_moved += size;
  link->owner->bytes_moved(link->owner->context, size);
}

static void tell_end(struct link *link, enum proxy_direction direction) {
  struct way *way = &link->ways[direction];
  if (link->state == LINK_OPEN && way->ended && way->size == 0 && !way->end_told &&
      !is_stuck(link, direction)) {
    (void)shutdown(link->fds[N_ENDS - 1 - (int)direction], SHUT_WR);
    way->end_told = true;
  }
}

/* The plan's byte has been reached. A plan without a fault only leaves time to the next. */
static void begin_what_is_due(struct link *link, int64_t now_ns) {
  while (link->state == LINK_OPEN && !link->faulty && link->n_moved >= link->plan.after_bytes) {
    if (link->plan.fault == PROXY_FAULT_NONE) {
      next_plan(link, false);
    } else {
      begin_fault(link, now_ns);
    }
  }
}

static void hand_on(struct link *link, enum proxy_direction direction, int64_t now_ns) {
  struct way *way = &link->ways[direction];
  drop_past_marks(way, now_ns);
  way->blocked = false;
  for (size_t turn = 0; turn < TRICKLES_AT_ONCE; turn++) {
    size_t n = n_writable(link, direction, now_ns);
    if (n == 0) {
      break;
    }
    ssize_t size =
        send(link->fds[N_ENDS - 1 - (int)direction], way->bytes + way->start, n, MSG_NOSIGNAL);
    if (size < 0) {
      if (errno != EAGAIN && errno != EINTR) {
        reset_ends(link);
      }
      way->blocked = true;
      return;
    }
    note_written(link, way, (size_t)size, now_ns);
    begin_what_is_due(link, now_ns);
  }
  link->has_more = link->has_more || n_writable(link, direction, now_ns) > 0;
  tell_end(link, direction);
}

/* --- the link --- */

struct link *link_new(int client_fd, int upstream_port, const struct link_owner *owner,
                      int64_t now_ns) {
  struct link *link = calloc(1, sizeof *link);
  check(link != NULL, "memory");
  link->owner = owner;
  link->fds[CLIENT] = client_fd;
  link->fds[UPSTREAM] = -1;
  link_prepare_socket(client_fd);
  next_plan(link, true);
  if (link->plan.fault == PROXY_FAULT_RST_AT_ACCEPT || link->plan.fault == PROXY_FAULT_SILENCE) {
    begin_fault(link, now_ns);
  } else {
    connect_upstream(link, upstream_port);
  }
  return link;
}

void link_release(struct link *link) {
  reset_ends(link);
  free(link);
}

bool link_is_closed(const struct link *link) {
  return link->state == LINK_CLOSED;
}

void link_wants(const struct link *link, struct pollfd fds_out[N_ENDS]) {
  for (int end = 0; end < N_ENDS; end++) {
    const struct way *towards = &link->ways[N_ENDS - 1 - end];
    short events = 0;
    if (link->state == LINK_LINGERING ? !link->ways[end].ended
                                      : may_read(link, (enum proxy_direction)end)) {
      events |= POLLIN;
    }
    if ((link->state == LINK_OPEN && towards->blocked) ||
        (link->state == LINK_CONNECTING && end == UPSTREAM)) {
      events |= POLLOUT;
    }
    /* Of a socket that nothing is wanted of, poll would tell the end over and over. */
    fds_out[end] = (struct pollfd){.fd = events != 0 ? link->fds[end] : -1, .events = events};
  }
}

static int64_t earlier(int64_t one, int64_t other) {
  return one < other ? one : other;
}

int64_t link_due_at_ns(const struct link *link, int64_t now_ns) {
  int64_t due_at_ns = LINK_NEVER;
  if (link->has_more) {
    return now_ns;
  }
  if (link->faulty || link->state == LINK_LINGERING) {
    due_at_ns = link->until_ns;
  }
  for (size_t i = 0; i < PROXY_N_DIRECTIONS && link->state == LINK_OPEN; i++) {
    const struct way *way = &link->ways[i];
    if (way->n_marks > 0) {
      due_at_ns = earlier(due_at_ns, way->marks[0].due_at_ns);
    }
    if (has(link, PROXY_FAULT_THROTTLE) && way->size > 0 && !way->blocked) {
      due_at_ns = earlier(due_at_ns, way->next_write_at_ns);
    }
  }
  return due_at_ns;
}

static void linger(struct link *link, int64_t now_ns) {
  bool all_ended = true;
  for (int end = 0; end < N_ENDS; end++) {
    struct way *way = &link->ways[end];
    ssize_t size = 1;
    while (!way->ended && size > 0) {
      size = recv(link->fds[end], way->bytes, BUFFER_SIZE, 0);
      way->ended = size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
    }
    all_ended = all_ended && way->ended;
  }
  if (all_ended || now_ns >= link->until_ns) {
    close_ends(link);
  }
}

static void go_on(struct link *link, int64_t now_ns) {
  link->has_more = false;
  begin_what_is_due(link, now_ns);
  for (int i = 0; i < PROXY_N_DIRECTIONS; i++) {
    take(link, (enum proxy_direction)i, now_ns);
    hand_on(link, (enum proxy_direction)i, now_ns);
  }
  if (link->state == LINK_OPEN && link->ways[PROXY_FORTH].end_told &&
      link->ways[PROXY_BACK].end_told) {
    close_ends(link);
  }
}

void link_step(struct link *link, int64_t now_ns) {
  if (link->faulty && now_ns >= link->until_ns && link->state != LINK_LINGERING) {
    end_fault(link);
  }
  if (link->state == LINK_CONNECTING) {
    end_connecting(link);
  }
  if (link->state == LINK_OPEN) {
    go_on(link, now_ns);
  }
  if (link->state == LINK_LINGERING) {
    linger(link, now_ns);
  }
}

void link_storm(struct link *link) {
  if (!link->faulty) {
    next_plan(link, false);
  }
}

void link_calm(struct link *link) {
  bool harmless = !link->faulty && link->plan.fault == PROXY_FAULT_NONE;
  if (!harmless || link->ways[PROXY_FORTH].n_marks + link->ways[PROXY_BACK].n_marks > 0) {
    reset_ends(link);
  }
  link->plan = (struct proxy_plan){.fault = PROXY_FAULT_NONE, .after_bytes = UINT64_MAX};
}
