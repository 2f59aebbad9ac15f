/* SPDX-License-Identifier: Apache-2.0 */
#include "test/soak/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "test/soak/link.h"

#define LINKS_MAX 512
#define BACKLOG 256
#define MS_NS INT64_C(1000000)
#define SECOND_NS INT64_C(1000000000)

/* Before the links' sockets in what is polled. */
enum { FD_WAKE = 0, FD_LISTENER, N_OWN_FDS };

enum order {
  ORDER_NONE = 0,
  ORDER_STORM,
  ORDER_CALM,
  ORDER_CLOSE_PORT,
  ORDER_OPEN_PORT,
  ORDER_LOOK,
  ORDER_END
};

struct proxy {
  const struct proxy_planner *planner; /* NULL = none */
  struct link_owner owner;
  int upstream_port;
  int port;
  int holder;   /* keeps the port ours while nobody listens */
  int listener; /* -1 = the port is closed */
  int wake[2];
  pthread_t thread;

  /* The thread's. */
  struct link *links[LINKS_MAX];
  size_t n_links;
  struct proxy_counts counts;
  bool storming;
  uint64_t n_plans;
  uint64_t n_gaps;
  int64_t gap_lasts_ns;
  int64_t turn_at_ns; /* when the port is closed or opened next */

  struct {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    enum order order;           /* NONE = it has been done */
    struct proxy_counts counts; /* as they were when asked for */
  } guarded;
};

static void check(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "proxy: %s: errno %d\n", what, errno);
    abort();
  }
}

const char *proxy_fault_name(enum proxy_fault fault) {
  static const char *const names[PROXY_N_FAULTS] = {
      "NONE", "DELAY", "THROTTLE",      "TRICKLE", "BLACKHOLE", "ONE_WAY",
      "FIN",  "RST",   "RST_AT_ACCEPT", "SILENCE", "REFUSAL"};
  return names[fault];
}

static int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* --- for the links --- */

static void count_fault(void *context, enum proxy_fault fault) {
  struct proxy *proxy = context;
  proxy->counts.n_faults[fault]++;
}

static void count_bytes(void *context, uint64_t n_bytes) {
  struct proxy *proxy = context;
  proxy->counts.n_bytes += n_bytes;
  proxy->counts.n_writes++;
}

static void plan_link(void *context, bool accepting, struct proxy_plan *plan_out) {
  struct proxy *proxy = context;
  *plan_out = (struct proxy_plan){.fault = PROXY_FAULT_NONE, .after_bytes = UINT64_MAX};
  if (proxy->storming && proxy->planner != NULL) {
    proxy->planner->plan(proxy->planner->context, proxy->n_plans++, accepting, plan_out);
  }
}

/* --- the port --- */

static int bind_loopback(int *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
  socklen_t size = sizeof address;
  const int on = 1;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(fd >= 0, "socket");
  link_prepare_socket(fd);
  check(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0, "SO_REUSEPORT");
  check(bind(fd, (struct sockaddr *)&address, size) == 0, "bind");
  check(getsockname(fd, (struct sockaddr *)&address, &size) == 0, "port");
  *port = ntohs(address.sin_port);
  return fd;
}

static void open_port(struct proxy *proxy) {
  if (proxy->listener < 0) {
    int port = proxy->port;
    proxy->listener = bind_loopback(&port);
    check(listen(proxy->listener, BACKLOG) == 0, "listen");
  }
}

static void close_port(struct proxy *proxy) {
  if (proxy->listener >= 0) {
    (void)close(proxy->listener);
    proxy->listener = -1;
    count_fault(proxy, PROXY_FAULT_REFUSAL);
  }
}

static void plan_gap(struct proxy *proxy, int64_t at_ns) {
  struct proxy_gap gap = {.after_ns = 0};
  proxy->turn_at_ns = LINK_NEVER;
  if (proxy->storming && proxy->planner != NULL && proxy->planner->gap != NULL) {
    proxy->planner->gap(proxy->planner->context, proxy->n_gaps++, &gap);
    proxy->turn_at_ns = at_ns + gap.after_ns;
    proxy->gap_lasts_ns = gap.lasts_ns;
  }
}

static void turn_port(struct proxy *proxy, int64_t at_ns) {
  if (at_ns < proxy->turn_at_ns) {
    return;
  }
  if (proxy->listener >= 0) {
    close_port(proxy);
    proxy->turn_at_ns = at_ns + proxy->gap_lasts_ns;
  } else {
    open_port(proxy);
    plan_gap(proxy, at_ns);
  }
}

/* --- orders --- */

static void drop_closed(struct proxy *proxy) {
  size_t n_kept = 0;
  for (size_t i = 0; i < proxy->n_links; i++) {
    if (link_is_closed(proxy->links[i])) {
      link_release(proxy->links[i]);
    } else {
      proxy->links[n_kept++] = proxy->links[i];
    }
  }
  proxy->n_links = n_kept;
}

static void begin_storm(struct proxy *proxy) {
  proxy->storming = true;
  plan_gap(proxy, now_ns());
  for (size_t i = 0; i < proxy->n_links; i++) {
    link_storm(proxy->links[i]);
  }
}

static void calm_down(struct proxy *proxy) {
  proxy->storming = false;
  proxy->turn_at_ns = LINK_NEVER;
  open_port(proxy);
  for (size_t i = 0; i < proxy->n_links; i++) {
    link_calm(proxy->links[i]);
  }
}

static void do_order(struct proxy *proxy, enum order order) {
  switch (order) {
  case ORDER_STORM:
    begin_storm(proxy);
    break;
  case ORDER_CALM:
    calm_down(proxy);
    break;
  case ORDER_CLOSE_PORT:
    close_port(proxy);
    break;
  case ORDER_OPEN_PORT:
    open_port(proxy);
    break;
  case ORDER_NONE:
  case ORDER_LOOK:
  case ORDER_END:
    break;
  }
}

/* False at the end. */
static bool take_order(struct proxy *proxy) {
  char byte = 0;
  ssize_t size = read(proxy->wake[0], &byte, 1);
  (void)size;
  (void)pthread_mutex_lock(&proxy->guarded.mutex);
  enum order order = proxy->guarded.order;
  (void)pthread_mutex_unlock(&proxy->guarded.mutex);
  do_order(proxy, order);
  drop_closed(proxy);
  proxy->counts.n_open = proxy->n_links;
  (void)pthread_mutex_lock(&proxy->guarded.mutex);
  proxy->guarded.order = ORDER_NONE;
  proxy->guarded.counts = proxy->counts;
  (void)pthread_cond_broadcast(&proxy->guarded.done);
  (void)pthread_mutex_unlock(&proxy->guarded.mutex);
  return order != ORDER_END;
}

static void give_order(struct proxy *proxy, enum order order) {
  (void)pthread_mutex_lock(&proxy->guarded.mutex);
  proxy->guarded.order = order;
  check(write(proxy->wake[1], "x", 1) == 1, "wake");
  while (proxy->guarded.order != ORDER_NONE) {
    (void)pthread_cond_wait(&proxy->guarded.done, &proxy->guarded.mutex);
  }
  (void)pthread_mutex_unlock(&proxy->guarded.mutex);
}

void proxy_storm(struct proxy *proxy) {
  give_order(proxy, ORDER_STORM);
}

void proxy_calm(struct proxy *proxy) {
  give_order(proxy, ORDER_CALM);
}

void proxy_close_port(struct proxy *proxy) {
  give_order(proxy, ORDER_CLOSE_PORT);
}

void proxy_open_port(struct proxy *proxy) {
  give_order(proxy, ORDER_OPEN_PORT);
}

/* --- the thread --- */

static void accept_all(struct proxy *proxy) {
  while (proxy->listener >= 0) {
    int fd = accept(proxy->listener, NULL, NULL);
    if (fd < 0) {
      return;
    }
    if (proxy->n_links == LINKS_MAX) {
      link_reset_socket(fd);
      continue;
    }
    proxy->counts.n_connections++;
    proxy->links[proxy->n_links++] = link_new(fd, proxy->upstream_port, &proxy->owner, now_ns());
  }
}

/* Until something is ready or due. False when it was told to end. */
static bool await(struct proxy *proxy) {
  struct pollfd fds[N_OWN_FDS + 2 * LINKS_MAX];
  int64_t at_ns = now_ns();
  int64_t due_at_ns = proxy->turn_at_ns;
  fds[FD_WAKE] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
  fds[FD_LISTENER] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
  for (size_t i = 0; i < proxy->n_links; i++) {
    int64_t link_due_ns = link_due_at_ns(proxy->links[i], at_ns);
    link_wants(proxy->links[i], fds + N_OWN_FDS + 2 * i);
    due_at_ns = link_due_ns < due_at_ns ? link_due_ns : due_at_ns;
  }
  int limit_ms = -1;
  if (due_at_ns != LINK_NEVER) {
    limit_ms = due_at_ns > at_ns ? (int)((due_at_ns - at_ns + MS_NS - 1) / MS_NS) : 0;
  }
  (void)poll(fds, N_OWN_FDS + 2 * proxy->n_links, limit_ms);
  return (fds[FD_WAKE].revents & POLLIN) == 0 || take_order(proxy);
}

static void *serve(void *argument) {
  struct proxy *proxy = argument;
  while (await(proxy)) {
    turn_port(proxy, now_ns());
    accept_all(proxy);
    for (size_t i = 0; i < proxy->n_links; i++) {
      link_step(proxy->links[i], now_ns());
    }
    drop_closed(proxy);
  }
  return NULL;
}

/* --- the proxy --- */

struct proxy *proxy_new(int upstream_port, const struct proxy_planner *planner) {
  struct proxy *proxy = calloc(1, sizeof *proxy);
  check(proxy != NULL, "memory");
  proxy->upstream_port = upstream_port;
  proxy->planner = planner;
  proxy->owner = (struct link_owner){
      .plan = plan_link, .fault_begun = count_fault, .bytes_moved = count_bytes, .context = proxy};
  proxy->turn_at_ns = LINK_NEVER;
  proxy->listener = -1;
  proxy->holder = bind_loopback(&proxy->port);
  (void)pthread_mutex_init(&proxy->guarded.mutex, NULL);
  (void)pthread_cond_init(&proxy->guarded.done, NULL);
  check(pipe(proxy->wake) == 0, "pipe");
  open_port(proxy);
  check(pthread_create(&proxy->thread, NULL, serve, proxy) == 0, "thread");
  return proxy;
}

void proxy_release(struct proxy *proxy) {
  give_order(proxy, ORDER_END);
  (void)pthread_join(proxy->thread, NULL);
  for (size_t i = 0; i < proxy->n_links; i++) {
    link_release(proxy->links[i]);
  }
  if (proxy->listener >= 0) {
    (void)close(proxy->listener);
  }
  (void)close(proxy->holder);
  (void)close(proxy->wake[0]);
  (void)close(proxy->wake[1]);
  (void)pthread_cond_destroy(&proxy->guarded.done);
  (void)pthread_mutex_destroy(&proxy->guarded.mutex);
  free(proxy);
}

int proxy_port(const struct proxy *proxy) {
  return proxy->port;
}

void proxy_read_counts(struct proxy *proxy, struct proxy_counts *counts_out) {
  give_order(proxy, ORDER_LOOK);
  (void)pthread_mutex_lock(&proxy->guarded.mutex);
  *counts_out = proxy->guarded.counts;
  (void)pthread_mutex_unlock(&proxy->guarded.mutex);
}
